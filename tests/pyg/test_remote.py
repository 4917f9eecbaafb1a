"""Features from a server train as those of a file do, in our loaders and in PyG's own."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.pyg import assert_same_batches
from torch_geometric.data import Data
from torch_geometric.loader import NodeLoader
from torch_geometric.nn import SAGEConv

from aethergraph import Graph, HeteroGraph, SubgraphLoader
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.pyg import (
    FeatureStore,
    GraphStore,
    NeighborLoader,
    NeighborSampler,
)
from aethergraph.remote import FeatureServer, open_source

NODES = 400


@pytest.fixture(scope="module")
def x() -> Any:
    return np.random.default_rng(0).random((NODES, 8), dtype=np.float32)


@pytest.fixture(scope="module")
def place(x: Any) -> Iterator[str]:
    """Address of a server of ``x``."""
    with FeatureServer({"x": x, "z": np.arange(NODES)}, port=0) as server:
        yield server.address


def make_graph(x: Any = None) -> Graph:
    graph = Graph.from_edges(NODES, *np.random.default_rng(1).integers(0, NODES, (2, 3000)))
    graph.node_attrs["y"] = np.arange(NODES) % 3
    if x is not None:
        graph.node_attrs["x"] = x
    return graph


def test_node_loader(x: Any, place: str) -> None:
    options: dict[str, Any] = {"batch_size": 64, "shuffle": True, "seed": 1}
    torch.manual_seed(0)
    local = list(NeighborLoader(make_graph(x), [5, 3], **options))
    torch.manual_seed(0)
    remote = NeighborLoader(
        make_graph(), [5, 3], feature_source=f"{place}/x", num_workers=2, **options
    )
    assert_same_batches(local, remote)


def test_a_pickled_store_connects_anew(x: Any, place: str) -> None:
    """As a worker that is spawned gets it."""
    loader = NeighborLoader(make_graph(x + 1), [5], feature_source=f"{place}/x", batch_size=200)
    store = pickle.loads(pickle.dumps(loader.data[0]))
    assert (store.get_tensor(None, "x", index=torch.tensor([3, 1])).numpy() == x[[3, 1]]).all()


def test_subgraph_loader(x: Any, place: str) -> None:
    sources = {"x": f"{place}/x", "z": open_source(f"{place}/z"), "w": x[:, 0]}
    loader = SubgraphLoader(
        make_graph(x + 1), [5], feature_source=sources, node_attrs=["x", "z", "w"]
    )
    for batch in loader:
        node = batch.subgraph.node
        assert batch.x is not None and (batch.x == x[node]).all()
        assert (batch.node_attrs["z"] == node).all()
        assert (batch.node_attrs["w"] == x[node, 0]).all() and len(batch.node_attrs) == 3


def test_typed_graphs(x: Any, place: str) -> None:
    kind = ("user", "likes", "post")
    ends = np.random.default_rng(2).integers(0, NODES, (2, 3000))
    graph = HeteroGraph.from_edges({kind: tuple(ends)}, {"user": NODES, "post": NODES})
    given = {"user": f"{place}/x", "post": {"x": x, "z": f"{place}/z"}}
    for batch in NeighborLoader(graph, [5], "post", feature_source=given, batch_size=100):
        assert (batch["user"].x.numpy() == x[batch["user"].n_id]).all()
        assert (batch["post"].x.numpy() == x[batch["post"].n_id]).all()
        assert (batch["post"].z == batch["post"].n_id).all()
    for wrong, words in (
        (f"{place}/x", "mapping of names to sources, by node type"),
        ({"users": x}, "'users' is no node type; there are: user, post"),
        ({"user": x[:5]}, r"feature_source\['user'\]\['x'\] has 5 rows, but num_nodes = 400"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            NeighborLoader(graph, [5], "post", feature_source=wrong)


def test_in_place_of_other_tensors(x: Any, place: str) -> None:
    """Tensors of a ``Data`` or of a user's store make way in the loader, and stay there."""
    other = torch.zeros(NODES, 2)
    data = Data(x=other, edge_index=torch.randint(0, NODES, (2, 1000)), num_nodes=NODES)
    store = FeatureStore()
    store["paper", "x", None] = other
    for given in (data, (store, GraphStore(make_graph()))):
        for batch in NeighborLoader(given, [5], feature_source=f"{place}/x", batch_size=100):
            assert (batch.x.numpy() == x[batch.n_id]).all()
    assert torch.equal(store["paper", "x", None], other) and data.x is other


def test_refusals(x: Any, place: str) -> None:
    for wrong, words in (
        (x[:3], r"feature_source\['x'\] has 3 rows, but num_nodes = 400"),
        ({3: x}, "3 is no name"),
        ("x.npy", "does not begin with one of tcp://"),
        ({"x": object()}, "feature_source"),
    ):
        for make in (NeighborLoader, SubgraphLoader):
            with pytest.raises(InvalidArgumentError, match=words):
                make(make_graph(), [5], feature_source=wrong)
    foreign = (Data(x=torch.zeros(NODES, 1), num_nodes=NODES), GraphStore(make_graph()))
    with pytest.raises(UnsupportedError, match="not with Data"):
        NeighborLoader(foreign, [5], feature_source=f"{place}/x")


def test_a_stock_loader_trains(x: Any, place: str, tmp_path: Path) -> None:
    def losses(source: Any) -> list[float]:
        graph = make_graph(source)
        stores = FeatureStore.from_graph(graph), GraphStore(graph)
        torch.manual_seed(0)
        loader = NodeLoader(
            stores, NeighborSampler(stores, [5]), torch.arange(NODES), batch_size=100
        )
        model = SAGEConv(8, 3)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        found = []
        for _ in range(3):
            for batch in loader:
                out = model(batch.x, batch.edge_index)[: batch.batch_size]
                loss = torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                found.append(loss.item())
        return found

    assert losses(open_source(f"{place}/x")) == losses(x)
