"""What the tests of the GraphBolt adapter share."""

from __future__ import annotations

from typing import Any

import dgl.graphbolt as gb
import numpy as np
import torch
from support.dgl import NUM_EDGES, NUM_NODES, make_edges
from torch import Tensor

from aethergraph import Graph
from aethergraph.dgl.graphbolt import NeighborSampler

TYPED = {
    "post:rev_votes:user": 2,
    "user:follows:user": 3,
    "user:votes:post": 4,
}
PER_TYPE = torch.tensor(list(TYPED.values()))


def colon(kind: Any) -> str:
    return ":".join(kind)


def layer_edges(subgraph: Any, kind: str | None = None) -> list[tuple[int, int, int]]:
    """(source, destination, edge id) of a compacted layer, in global ids."""
    csc, ids = subgraph.sampled_csc, subgraph.original_edge_ids
    row, col = subgraph.original_row_node_ids, subgraph.original_column_node_ids
    if kind is not None:
        source, _, target = kind.split(":")
        csc, ids, row, col = csc[kind], ids[kind], row[source], col[target]
    assert len(csc.indptr) == len(col) + 1 and csc.indptr[-1] == len(csc.indices) == len(ids)
    dst = col.repeat_interleave(csc.indptr.diff())
    return list(zip(row[csc.indices].tolist(), dst.tolist(), ids.tolist(), strict=True))


def node_items(count: int, **more: Tensor) -> Any:
    names = ("seed_nodes", *more)
    return gb.ItemSet((torch.arange(count), *more.values()), names=names)


def at_once(graph: Any, *arguments: Any, **options: Any) -> Any:
    """A sampler to call by hand, at the end of some pipe."""
    pipe = gb.ItemSampler(node_items(1), batch_size=1)
    return NeighborSampler(pipe, graph, *arguments, **options)


def batches(items: Any, build: Any, workers: int = 0, size: int = 16) -> list[Any]:
    pipe = build(gb.ItemSampler(items, batch_size=size)).copy_to(torch.device("cpu"))
    return list(gb.DataLoader(pipe, num_workers=workers, persistent_workers=False))


def timed_graph(of_nodes: bool) -> tuple[Graph, Any, Any, Any]:
    src, dst = make_edges()
    rng = np.random.default_rng(8)
    if of_nodes:
        times = rng.integers(0, 20, NUM_NODES)
        return (
            Graph.from_edges(NUM_NODES, src, dst, node_time=times, keep_order=True),
            src,
            dst,
            times[src],
        )
    times = rng.integers(0, 20, NUM_EDGES)
    graph = Graph.from_edges(NUM_NODES, src, dst, edge_time=times, keep_order=True)
    return graph, src, dst, times
