"""Batches of DGL's loaders and GraphBolt's pipes stay as they are: see support/golden.py."""

from __future__ import annotations

from typing import Any

import dgl.graphbolt as gb
import pytest
import torch
from dgl.dataloading import DataLoader as StockLoader
from support.golden import (
    NODES,
    POSTS,
    Golden,
    make_graph,
    make_hetero_graph,
    seeds_of,
)
from support.graphbolt import at_once

from aethergraph import Graph, HeteroGraph
from aethergraph.dgl import (
    DataLoader,
    GraphStorage,
    LaborSampler,
    MultiLayerFullNeighborSampler,
    NeighborSampler,
    SAINTSampler,
    ShaDowKHopSampler,
    as_edge_prediction_sampler,
)
from aethergraph.dgl.graphbolt import SamplingGraph

pytestmark = pytest.mark.filterwarnings("ignore:Dataloader CPU affinity")

SAMPLERS: dict[str, Any] = {
    "neighbours": lambda **options: NeighborSampler([5, 3], **options),
    "neighbours, replace": lambda **options: NeighborSampler([5, 3], replace=True, **options),
    "neighbours, prob": lambda **options: NeighborSampler([5, 3], prob="edge_weight", **options),
    "neighbours, out": lambda **options: NeighborSampler([5, 3], edge_dir="out", **options),
    "neighbours, dependent": lambda **options: NeighborSampler(
        [5, 3], layer_dependency=True, **options
    ),
    "all neighbours": lambda **options: MultiLayerFullNeighborSampler(2, **options),
    "labor": lambda **options: LaborSampler([5, 3], **options),
    "shadow": lambda **options: ShaDowKHopSampler([4, 2], **options),
}
#: GraphBolt's answers to one call.
CALLS: dict[str, Any] = {
    "neighbours": lambda g, ids: g.sample_neighbors(ids, torch.tensor([4])),
    "neighbours, replace": lambda g, ids: g.sample_neighbors(ids, torch.tensor([4]), replace=True),
    "neighbours, prob": lambda g, ids: g.sample_neighbors(
        ids, torch.tensor([4]), probs_name="edge_weight"
    ),
    "layer neighbours": lambda g, ids: g.sample_layer_neighbors(ids, torch.tensor([4])),
    "in-subgraph": lambda g, ids: g.in_subgraph(ids),
}


@pytest.fixture(scope="module")
def golden() -> Golden:
    return Golden("dgl")


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Return a graph in memory; test_out_of_core compares the other storages with it."""
    made = make_graph()
    made.edge_attrs["edge_weight"] = made.edge_weight
    return made


@pytest.fixture(scope="module")
def hetero() -> HeteroGraph:
    return make_hetero_graph()


def content(thing: Any) -> Any:
    """Edges, ids and data of blocks, graphs, and lists and mappings of tensors."""
    if hasattr(thing, "canonical_etypes"):
        return {
            "edges": {str(k): list(thing.edges(etype=k)) for k in thing.canonical_etypes},
            "of edges": {str(k): dict(thing.edges[k].data) for k in thing.canonical_etypes},
            "of sources": {name: dict(thing.srcnodes[name].data) for name in thing.srctypes},
            "of destinations": {name: dict(thing.dstnodes[name].data) for name in thing.dsttypes},
        }
    if isinstance(thing, (list, tuple)):
        return [content(one) for one in thing]
    return thing


def layer(found: Any) -> dict[str, Any]:
    """A layer of GraphBolt."""
    of_type = found.sampled_csc if isinstance(found.sampled_csc, dict) else {"": found.sampled_csc}
    return {
        "indptr": {kind: csc.indptr for kind, csc in of_type.items()},
        "indices": {kind: csc.indices for kind, csc in of_type.items()},
        "edges": found.original_edge_ids,
        "rows": found.original_row_node_ids,
        "columns": found.original_column_node_ids,
    }


def check_epochs(golden: Golden, case: str, loader: Any) -> None:
    for epoch in range(2):
        golden.check(f"{case}, epoch {epoch}", [content(batch) for batch in loader])


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize(
    ("make", "workers"), [(StockLoader, 0), (DataLoader, 0), (StockLoader, 2)],
    ids=["stock", "ours", "workers"],
)  # fmt: skip
def test_loader(graph: Graph, make: Any, name: str, workers: int, golden: Golden) -> None:
    torch.manual_seed(3)
    loader = make(
        GraphStorage(graph), torch.from_numpy(seeds_of(NODES, 4)), SAMPLERS[name](seed=5),
        batch_size=16, num_workers=workers,
    )  # fmt: skip
    # DGL deals the seeds out among workers, so batches are other ones.
    check_epochs(golden, f"DataLoader, {workers} workers, {name}", loader)


def test_loader_of_types(hetero: HeteroGraph, golden: Golden) -> None:
    torch.manual_seed(3)
    for name in ("neighbours", "neighbours, replace", "all neighbours", "labor"):
        loader = DataLoader(
            GraphStorage(hetero), {"post": torch.from_numpy(seeds_of(POSTS, 4))},
            SAMPLERS[name](seed=5), batch_size=16,
        )  # fmt: skip
        check_epochs(golden, f"DataLoader, typed, {name}", loader)


def test_loader_of_edges(graph: Graph, golden: Golden) -> None:
    for exclude in (None, "self"):
        torch.manual_seed(3)
        sampler = as_edge_prediction_sampler(NeighborSampler([5, 3], seed=5), exclude=exclude)
        storage = GraphStorage(graph, edge_ids="graph")
        loader = StockLoader(storage, torch.arange(0, 900, 9), sampler, batch_size=16)
        check_epochs(golden, f"DataLoader, edges, exclude {exclude}", loader)


def test_subgraphs_of_walks(graph: Graph, golden: Golden) -> None:
    torch.manual_seed(5)
    sampler = SAINTSampler("walk", (10, 3))
    found = [content(sampler.sample(GraphStorage(graph), i)) for i in range(3)]
    golden.check("SAINT, walks", found)


@pytest.mark.parametrize("name", CALLS)
def test_graphbolt_calls(graph: Graph, name: str, golden: Golden) -> None:
    sampling = SamplingGraph(graph, seed=5)
    found = [layer(CALLS[name](sampling, torch.from_numpy(seeds_of(NODES, i)))) for i in range(3)]
    golden.check(f"GraphBolt, {name}", found)


def test_graphbolt_samples(graph: Graph, hetero: HeteroGraph, golden: Golden) -> None:
    sampler = at_once(SamplingGraph(graph, seed=5), [5, 3])
    layers = sampler.sample_subgraphs(torch.from_numpy(seeds_of(NODES, 1)), None)[1]
    golden.check("GraphBolt, samples", [layer(one) for one in layers])
    sampler = at_once(SamplingGraph(hetero, seed=5), [torch.full((4,), 4)] * 2)
    seeds = {"post": torch.from_numpy(seeds_of(POSTS, 1))}
    layers = sampler.sample_subgraphs(seeds, None)[1]
    golden.check("GraphBolt, samples of types", [layer(one) for one in layers])


@pytest.mark.parametrize("workers", [0, 2])
def test_graphbolt_loader(graph: Graph, workers: int, golden: Golden) -> None:
    items = gb.ItemSet(torch.from_numpy(seeds_of(NODES, 4)), names="seed_nodes")
    pipe = gb.ItemSampler(items, batch_size=16)
    pipe = pipe.sample_neighbor(SamplingGraph(graph, seed=5), [5, 3])
    pipe = pipe.copy_to(torch.device("cpu"))
    loader = gb.DataLoader(pipe, num_workers=workers, persistent_workers=False)
    for epoch in range(2):
        # GraphBolt's own compaction numbers nodes in another order from run to run.
        found = [
            [one.original_edge_ids.sort().values for one in batch.sampled_subgraphs]
            for batch in loader
        ]
        golden.check(f"GraphBolt, stock sampler, epoch {epoch}", found)
