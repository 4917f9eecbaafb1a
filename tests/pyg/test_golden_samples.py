"""Batches of PyG's loaders and of ours stay as they are: see support/golden.py."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from support.golden import (  # noqa: E402
    NODES,
    PLAIN_STORAGES,
    POSTS,
    Golden,
    make_graph,
    make_hetero_graph,
    seeds_of,
    store,
)
from support.pyg import contents  # noqa: E402
from torch_geometric.loader import LinkLoader, NodeLoader  # noqa: E402
from torch_geometric.sampler import NegativeSampling  # noqa: E402

from aethergraph import Graph, HeteroGraph  # noqa: E402
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
#: How a loader works, which changes nothing in its batches.
WORKINGS: dict[str, dict[str, Any]] = {
    "one by one": {"prefetch_batches": 0},
    "prefetched": {"prefetch_batches": 3, "num_sample_threads": 2},
    "workers": {"num_workers": 2},
}
USERS_POSTS = ("user", "votes", "post")


def cases(kinds: Iterable[str]) -> list[tuple[str, str, str]]:
    """(storage, kind, working): all of them but for workers, who are started for each loader.

    A worker calls what the loader's own process calls: each kind is asked of workers over one
    storage, the next kind over the next.
    """
    return [
        (storage, kind, working)
        for number, kind in enumerate(kinds)
        for place, storage in enumerate(PLAIN_STORAGES)
        for working in WORKINGS
        if working != "workers" or place == number % len(PLAIN_STORAGES)
    ]


@pytest.fixture(scope="module")
def golden() -> Golden:
    return Golden("pyg")


@pytest.fixture(scope="module", params=PLAIN_STORAGES)
def graph(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Graph:
    found = store(make_graph(), tmp_path_factory.mktemp("golden"), request.param)
    found.node_attrs["x"] = np.arange(NODES * 3, dtype=np.float32).reshape(NODES, 3)
    return found


@pytest.fixture(scope="module", params=PLAIN_STORAGES)
def hetero(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> HeteroGraph:
    return store(make_hetero_graph(), tmp_path_factory.mktemp("golden"), request.param)


def check_epochs(golden: Golden, case: str, loader: Any, epochs: int = 2) -> None:
    for epoch in range(epochs):
        golden.check(f"{case}, epoch {epoch}", [contents(batch) for batch in loader])


def nodes() -> Any:
    return torch.from_numpy(seeds_of(NODES, 4))


def links() -> Any:
    return torch.from_numpy(np.stack([seeds_of(NODES, 4), seeds_of(NODES, 4)[::-1]]))


@pytest.mark.parametrize(("graph", "mode", "working"), cases(MODES), indirect=["graph"])
def test_neighbor_loader(graph: Graph, mode: str, working: str, golden: Golden) -> None:
    times = {"input_time": 50 + nodes() % 50} if "time_attr" in MODES[mode] else {}
    loader = NeighborLoader(
        graph, [5, 3], nodes(), seed=5, batch_size=16, shuffle=True, **times, **MODES[mode],
        **WORKINGS[working],
    )  # fmt: skip
    torch.manual_seed(0)
    check_epochs(golden, f"NeighborLoader, {mode}", loader)


@pytest.mark.parametrize(
    ("graph", "negatives", "working"), cases(["none", "binary", "triplet"]), indirect=["graph"]
)
def test_link_neighbor_loader(graph: Graph, negatives: str, working: str, golden: Golden) -> None:
    sampling = None if negatives == "none" else NegativeSampling(negatives, amount=2)
    loader = LinkNeighborLoader(
        graph, [5, 3], links(), neg_sampling=sampling, seed=5, batch_size=16, shuffle=True,
        **WORKINGS[working],
    )  # fmt: skip
    torch.manual_seed(0)
    check_epochs(golden, f"LinkNeighborLoader, {negatives}", loader)


@pytest.mark.parametrize(("hetero", "mode", "working"), cases(MODES), indirect=["hetero"])
def test_hetero_neighbor_loader(
    hetero: HeteroGraph, mode: str, working: str, golden: Golden
) -> None:
    posts = torch.from_numpy(seeds_of(POSTS, 4))
    times = {"input_time": 50 + posts % 50} if "time_attr" in MODES[mode] else {}
    loader = HeteroNeighborLoader(
        hetero, [4, 3], ("post", posts), seed=5, batch_size=16, shuffle=True, **times,
        **MODES[mode], **WORKINGS[working],
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


@pytest.mark.parametrize("workers", [0, 2])
def test_stock_loaders(graph: Graph, workers: int, golden: Golden) -> None:
    stores = FeatureStore.from_graph(graph), GraphStore(graph)
    options = {"batch_size": 16, "shuffle": True, "num_workers": workers}
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


@pytest.mark.parametrize("working", WORKINGS)
def test_link_neighbor_loader_of_types(hetero: HeteroGraph, working: str, golden: Golden) -> None:
    ends = torch.from_numpy(np.stack([seeds_of(200, 4), seeds_of(POSTS, 4)]))
    loader = LinkNeighborLoader(
        hetero, [4, 3], (USERS_POSTS, ends), neg_sampling=NegativeSampling("triplet"), seed=5,
        batch_size=16, **WORKINGS[working],
    )  # fmt: skip
    check_epochs(golden, "LinkNeighborLoader, typed", loader)


def test_a_batch_has_what_is_expected(tmp_path: Path, golden: Golden) -> None:
    """A digest of nothing would never change."""
    made = make_graph()
    made.node_attrs["x"] = np.arange(NODES * 3, dtype=np.float32).reshape(NODES, 3)
    batch = next(iter(NeighborLoader(made, [5, 3], nodes(), seed=5, batch_size=16)))
    names = {name.removeprefix("None.") for name in contents(batch)}
    assert {"x", "edge_index", "n_id", "e_id", "edge_weight", "edge_time"} <= names
