"""Batches of PyG's loaders and of ours stay as they are: see support/golden.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from support.golden import (  # noqa: E402
    NODES,
    POSTS,
    Golden,
    make_graph,
    make_hetero_graph,
    seeds_of,
)
from support.pyg import contents  # noqa: E402
from torch_geometric.loader import LinkLoader, NodeLoader  # noqa: E402
from torch_geometric.sampler import NegativeSampling  # noqa: E402

from aethergraph import Graph, HeteroGraph  # noqa: E402
from aethergraph.loading import Ahead  # noqa: E402
from aethergraph.pyg import (  # noqa: E402
    FeatureStore,
    GraphStore,
    HeteroNeighborLoader,
    HeteroNeighborSampler,
    HGTLoader,
    LinkNeighborLoader,
    NeighborLoader,
    NeighborSampler,
    ShaDowKHopSampler,
)

pytestmark = pytest.mark.pyg

MODES: dict[str, dict[str, Any]] = {
    "uniform": {},
    "replace": {"replace": True},
    "disjoint": {"disjoint": True},
    "induced": {"subgraph_type": "induced"},
    "bidirectional": {"subgraph_type": "bidirectional"},
    "weighted": {"weight_attr": "edge_weight"},
    "edge times": {"time_attr": "edge_time", "disjoint": True},
    "edge times last": {
        "time_attr": "edge_time", "disjoint": True, "temporal_strategy": "last"
    },
    "backward": {"sample_direction": "backward"},
    "both": {"sample_direction": "both"},
}  # fmt: skip
#: Options that change nothing in the batches of a loader.
PREFETCHED: dict[str, Any] = {"ahead": Ahead(3, threads=2)}
USERS_POSTS = ("user", "votes", "post")


@pytest.fixture(scope="module")
def golden() -> Golden:
    return Golden("pyg")


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Return a graph in memory; tests/equality compares the other storages with it."""
    made = make_graph()
    made.node_attrs["x"] = np.arange(NODES * 3, dtype=np.float32).reshape(NODES, 3)
    return made


@pytest.fixture(scope="module")
def hetero() -> HeteroGraph:
    return make_hetero_graph()


def check_epochs(golden: Golden, case: str, loader: Any, epochs: int = 2) -> None:
    for epoch in range(epochs):
        golden.check(f"{case}, epoch {epoch}", [contents(batch) for batch in loader])


def nodes() -> Any:
    return torch.from_numpy(seeds_of(NODES, 4))


def links() -> Any:
    return torch.from_numpy(np.stack([seeds_of(NODES, 4), seeds_of(NODES, 4)[::-1]]))


@pytest.mark.parametrize("mode", MODES)
def test_neighbor_loader(graph: Graph, mode: str, golden: Golden) -> None:
    times = {"input_time": 50 + nodes() % 50} if "time_attr" in MODES[mode] else {}
    loader = NeighborLoader(
        graph, [5, 3], nodes(), seed=5, batch_size=16, shuffle=True, **times, **MODES[mode],
        **PREFETCHED,
    )  # fmt: skip
    torch.manual_seed(0)
    check_epochs(golden, f"NeighborLoader, {mode}", loader)


@pytest.mark.parametrize("negatives", ["none", "binary", "triplet"])
def test_link_neighbor_loader(graph: Graph, negatives: str, golden: Golden) -> None:
    sampling = None if negatives == "none" else NegativeSampling(negatives, amount=2)
    loader = LinkNeighborLoader(
        graph, [5, 3], links(), neg_sampling=sampling, seed=5, batch_size=16, shuffle=True,
        **PREFETCHED,
    )  # fmt: skip
    torch.manual_seed(0)
    check_epochs(golden, f"LinkNeighborLoader, {negatives}", loader)


@pytest.mark.parametrize("mode", MODES)
def test_hetero_neighbor_loader(hetero: HeteroGraph, mode: str, golden: Golden) -> None:
    posts = torch.from_numpy(seeds_of(POSTS, 4))
    times = {"input_time": 50 + posts % 50} if "time_attr" in MODES[mode] else {}
    loader = HeteroNeighborLoader(
        hetero, [4, 3], ("post", posts), seed=5, batch_size=16, shuffle=True, **times,
        **MODES[mode], **PREFETCHED,
    )  # fmt: skip
    torch.manual_seed(0)
    check_epochs(golden, f"HeteroNeighborLoader, {mode}", loader)


def test_hgt_loader(hetero: HeteroGraph, golden: Golden) -> None:
    posts = torch.from_numpy(seeds_of(POSTS, 4))
    counts = {kind: [12, 8] for kind in hetero.node_types}
    loader = HGTLoader(hetero, counts, ("post", posts), seed=5, batch_size=16)
    check_epochs(golden, "HGTLoader", loader)


def test_shadow(graph: Graph, golden: Golden) -> None:
    loader = ShaDowKHopSampler(graph, 2, 4, node_idx=nodes(), seed=5, batch_size=16)
    check_epochs(golden, "ShaDowKHopSampler", loader)


def test_stock_loaders(graph: Graph, golden: Golden) -> None:
    stores = FeatureStore.from_graph(graph), GraphStore(graph)
    options = {"batch_size": 16, "shuffle": True}
    torch.manual_seed(7)
    sampler = NeighborSampler(stores, [5, 3])
    check_epochs(golden, "NodeLoader", NodeLoader(stores, sampler, nodes(), **options))
    torch.manual_seed(7)
    sampler = NeighborSampler(stores, [5, 3])
    loader = LinkLoader(
        stores, sampler, (None, links()), neg_sampling=NegativeSampling("binary"), **options
    )
    check_epochs(golden, "LinkLoader", loader)


def test_stock_loaders_of_types(hetero: HeteroGraph, golden: Golden) -> None:
    stores = FeatureStore.from_graph(hetero), GraphStore(hetero)
    torch.manual_seed(7)
    sampler = HeteroNeighborSampler(stores, [4, 3])
    seeds = ("post", torch.from_numpy(seeds_of(POSTS, 4)))
    check_epochs(golden, "NodeLoader, typed", NodeLoader(stores, sampler, seeds, batch_size=16))


def test_link_neighbor_loader_of_types(hetero: HeteroGraph, golden: Golden) -> None:
    ends = torch.from_numpy(np.stack([seeds_of(200, 4), seeds_of(POSTS, 4)]))
    loader = LinkNeighborLoader(
        hetero, [4, 3], (USERS_POSTS, ends), neg_sampling=NegativeSampling("triplet"), seed=5,
        batch_size=16, **PREFETCHED,
    )  # fmt: skip
    check_epochs(golden, "LinkNeighborLoader, typed", loader)


def test_a_batch_has_what_is_expected(graph: Graph) -> None:
    """A digest of nothing would never change."""
    batch = next(iter(NeighborLoader(graph, [5, 3], nodes(), seed=5, batch_size=16)))
    names = {name.removeprefix("None.") for name in contents(batch)}
    assert {"x", "edge_index", "n_id", "e_id", "edge_weight", "edge_time"} <= names
