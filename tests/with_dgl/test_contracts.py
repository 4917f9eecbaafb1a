"""The samplers of the adapter keep the core's contract, seen through their blocks."""

from __future__ import annotations

import itertools
from contextvars import ContextVar
from typing import Any

import dgl
import numpy as np
import torch

from aethergraph import Graph, HeteroSubgraph, Subgraph
from aethergraph._checks.arrays import as_ids
from aethergraph.dgl import GraphStorage, NeighborSampler
from aethergraph.errors import UnsupportedError
from aethergraph.testing import HeteroSamplerContract, SamplerContract

KEY: ContextVar[int] = ContextVar("key")
TIMES: ContextVar[dict[str, Any] | None] = ContextVar("times")


class KeyedSampler(NeighborSampler):
    """Takes the key that it is given, not one of seed, epoch and nodes, and a time per seed."""

    def _batch_key(self, loader_key: int | None, *content: int) -> int:
        return KEY.get()

    def _times(self, schema: Any, seeds: Any) -> dict[str, Any] | None:
        return TIMES.get()


class Blocks:
    """A sampler as the contract calls it: what its blocks hold is the subgraph."""

    def __init__(self, graph: Any, fanouts: Any, options: dict[str, Any]) -> None:
        known = {
            "replace", "weight_attr", "time_attr", "temporal_strategy", "strict", "window"
        }  # fmt: skip
        if set(options) - known:
            raise UnsupportedError(f"{sorted(set(options) - known)}")
        self.storage = GraphStorage(graph)
        if isinstance(fanouts, dict):
            kinds = graph.edge_types
            hops = max(map(len, fanouts.values()), default=0)
            rows = {kind: list(fanouts.get(kind, [0] * hops)) for kind in kinds}
            fanouts = [{kind: rows[kind][hop] for kind in kinds} for hop in range(hops)]
        self.sampler = KeyedSampler(
            list(fanouts)[::-1], replace=options.get("replace", False),
            prob=options.get("weight_attr"), layer_dependency=True,
            time_attr=options.get("time_attr"), strict=options.get("strict", False),
            temporal_strategy=options.get("temporal_strategy", "uniform"),
            window=options.get("window"),
        )  # fmt: skip

    def sample(self, seeds: Any, key: int, seed_time: Any = None, exclude: Any = None) -> Any:
        KEY.set(key)
        if seed_time is not None and not isinstance(seed_time, dict):
            seed_time = {"_N": seed_time}
        TIMES.set(seed_time)
        given, hide = _tensors(seeds), None if exclude is None else _tensors(exclude)
        _, _, blocks = self.sampler.sample(self.storage, given, hide)
        graph = self.storage.graph
        trees = None if self.sampler.time_attr is None else _trees(blocks, graph)
        if isinstance(graph, Graph):
            batch = None if trees is None else trees["_N"]
            return Subgraph(**_part(blocks, "_N", ("_N", "_E", "_N")), batch=batch)
        nodes = {name: _nodes(blocks, name) for name in graph.node_types}
        edges = {kind: _edges(blocks, kind) for kind in graph.edge_types}
        return HeteroSubgraph(
            {name: part[0] for name, part in nodes.items()},
            *({kind: part[i] for kind, part in edges.items()} for i in range(3)),
            trees,
            {name: part[1] for name, part in nodes.items()},
            {kind: part[3] for kind, part in edges.items()},
        )


def _tensors(ids: Any) -> Any:
    if isinstance(ids, dict):
        return {name: _tensors(values) for name, values in ids.items()}
    return torch.from_numpy(np.array(as_ids(ids, "seeds")))


def _nodes(blocks: list[Any], name: str) -> tuple[Any, list[int]]:
    sizes = [block.num_dst_nodes(name) for block in blocks[::-1]]
    sizes.append(blocks[0].num_src_nodes(name))
    new = [sizes[0], *(b - a for a, b in itertools.pairwise(sizes))]
    return blocks[0].srcnodes[name].data[dgl.NID].numpy(), new


def _edges(blocks: list[Any], kind: Any) -> tuple[Any, Any, Any, list[int]]:
    row, col = blocks[0].edges(etype=kind)
    sizes = [0, *(block.num_edges(kind) for block in blocks[::-1])]
    new = [b - a for a, b in itertools.pairwise(sizes)]
    return row.numpy(), col.numpy(), blocks[0].edges[kind].data[dgl.EID].numpy(), new


def _trees(blocks: list[Any], graph: Any) -> dict[str, Any]:
    """The tree of every node: that of the node for which it was sampled first."""
    names = ["_N"] if isinstance(graph, Graph) else graph.node_types
    trees = {name: np.full(blocks[0].num_src_nodes(name), -1) for name in names}
    before = 0
    for name in names:
        count = blocks[-1].num_dst_nodes(name)
        trees[name][:count] = np.arange(before, before + count)
        before += count
    for block in blocks[::-1]:
        for source, relation, target in block.canonical_etypes:
            row, col = (end.numpy() for end in block.edges(etype=(source, relation, target)))
            new = trees[source][row] < 0
            trees[source][row[new]] = trees[target][col[new]]
    return trees


def _part(blocks: list[Any], name: str, kind: Any) -> dict[str, Any]:
    node, hop_nodes = _nodes(blocks, name)
    row, col, edge, hop_edges = _edges(blocks, kind)
    return {
        "node": node, "row": row, "col": col, "edge": edge,
        "num_sampled_nodes": hop_nodes, "num_sampled_edges": hop_edges,
    }  # fmt: skip


class Ours:
    supports = {
        "replace", "weight", "exclude", "time", "node_time", "last", "strict", "window"
    }  # fmt: skip
    exact = True

    def make(self, graph: Any, fanouts: Any, **options: Any) -> Any:
        return Blocks(graph, fanouts, options)

    def fanout_sets(self, graph: Any) -> Any:
        """Those of at least one hop: no layers are no blocks."""
        sets = super().fanout_sets(graph)  # type: ignore[misc]
        return [fanouts for fanouts in sets if _hops(fanouts)]


def _hops(fanouts: Any) -> int:
    rows = fanouts.values() if isinstance(fanouts, dict) else [fanouts]
    return max(map(len, rows), default=0)


class TestOneType(Ours, SamplerContract):
    pass


class TestManyTypes(Ours, HeteroSamplerContract):
    pass
