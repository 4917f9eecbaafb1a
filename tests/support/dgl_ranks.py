"""What each of several training processes does in test_distributed.py."""

from __future__ import annotations

from typing import Any

import dgl.graphbolt as gb
import torch
from dgl.dataloading import DataLoader
from support.dgl import block_edges, make_graph
from support.graphbolt import layer_edges, node_items
from support.training_ranks import work_as_rank

from aethergraph.dgl import GraphStorage, NeighborSampler
from aethergraph.dgl.graphbolt import FeatureStore, SamplingGraph

COUNT = 60

Batches = list[tuple[list[int], list[Any]]]


def of_dataloading(nodes: torch.Tensor, **options: Any) -> Batches:
    sampler = NeighborSampler([2, 3], seed=1)
    loader = DataLoader(GraphStorage(make_graph()), nodes, sampler, batch_size=8, **options)
    return [(out.tolist(), [block_edges(b) for b in blocks]) for _, out, blocks in loader]


def of_graphbolt(make: Any, **options: Any) -> Batches:
    graph = make_graph()
    pipe = make(node_items(COUNT), batch_size=8, **options)
    pipe = pipe.sample_neighbor_at_once(SamplingGraph(graph, seed=1), [2, 3])
    pipe = pipe.fetch_feature(FeatureStore(graph), node_feature_keys=["x"])
    return [
        (batch.seed_nodes.tolist(), [set(layer_edges(one)) for one in batch.sampled_subgraphs])
        for batch in gb.DataLoader(pipe)
    ]


def share() -> dict[str, Batches]:
    """Return this rank's batches of every loader."""
    nodes = torch.arange(COUNT)
    return {
        "dataloading": of_dataloading(nodes, use_ddp=True, shuffle=True),
        "workers": of_dataloading(nodes, use_ddp=True, shuffle=True, num_workers=1),
        "graphbolt": of_graphbolt(
            gb.DistributedItemSampler, shuffle=True, drop_uneven_inputs=False
        ),
    }


def work(rank: int, folder: str) -> None:
    work_as_rank(rank, 2, folder, share)
