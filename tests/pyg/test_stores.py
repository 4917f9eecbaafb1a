"""The pair of stores as ``loader.data``: what scripts written for ``Data`` ask of it."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from support.pyg import NUM_EDGES, NUM_NODES, make_data, make_graph
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import NeighborLoader as PyGNeighborLoader
from torch_geometric.nn import GraphSAGE
from torch_geometric.testing import MyFeatureStore
from torch_geometric.transforms import ToSparseTensor

from aethergraph import FeatureTable, HeteroGraph, errors
from aethergraph import NeighborSampler as CoreSampler
from aethergraph.pyg import (
    FeatureStore,
    GraphStore,
    HeteroNeighborSampler,
    NeighborLoader,
    NeighborSampler,
    as_stores,
    from_data,
    to_data,
)
from aethergraph.pyg.stores import Stores

pytestmark = pytest.mark.pyg

VOTES, IN = ("user", "votes", "post"), ("post", "in", "group")


def make_typed() -> HeteroGraph:
    rng = np.random.default_rng(1)
    graph = HeteroGraph.from_edges(
        {
            VOTES: (rng.integers(0, 20, 90), rng.integers(0, 50, 90)),
            IN: (np.arange(50), rng.integers(0, 4, 50)),
        },
        {"user": 20, "post": 50, "group": 4},
    )
    graph["user"].features = rng.random((20, 6), np.float32)
    graph["post"].attrs["x"] = rng.random(50)
    graph[VOTES].edge_attrs["edge_attr"] = rng.random((90, 2))
    return graph


@pytest.mark.parametrize("cache", [False, True])
def test_inference_of_a_model(cache: bool) -> None:
    """Layer by layer over all nodes, through PyG's loader and ours, equals one pass over all."""
    torch.manual_seed(0)
    graph = make_graph()
    model = GraphSAGE(8, 16, 2, 3).eval()
    stores = as_stores(graph)
    x = stores.x
    wanted = model(x, stores.edge_index).detach()
    sampler = NeighborSampler(stores, [-1])
    stock = PyGNeighborLoader(
        stores, [-1], torch.arange(NUM_NODES), neighbor_sampler=sampler, batch_size=64
    )
    for loader in (stock, NeighborLoader(graph, [-1], batch_size=64)):
        found = model.inference(loader, cache=cache)
        assert torch.allclose(found, wanted, atol=1e-5)


def test_what_a_loader_tells_of_its_data() -> None:
    loader = NeighborLoader(make_graph(), [3], batch_size=16)
    data = loader.data
    assert isinstance(data, Stores) and isinstance(data, tuple)
    assert (data.num_nodes, data.num_edges) == (NUM_NODES, NUM_EDGES)
    assert (data.num_node_features, data.num_features, data.num_edge_features) == (8, 8, 3)
    assert data.y.shape == (NUM_NODES,) and data.kind.shape == (NUM_EDGES,)
    again = pickle.loads(pickle.dumps(data))
    assert type(again) is Stores and torch.equal(again.x, data.x)
    with pytest.raises(AttributeError, match=r"no tensor 'z'; there are: 'edge_attr', .*'x', 'y'"):
        data.z
    assert torch.equal(data["y"], data.y) and data[0] is tuple(data)[0]
    assert "y" in data and "edge_index" in data and "z" not in data and data[0] in data
    with pytest.raises(AttributeError, match=r"to_data\(stores\).is_undirected\(\)"):
        data.is_undirected()
    assert to_data(data).is_undirected() is False
    plain = make_data()
    wanted = Data(x=plain.x, edge_index=plain.edge_index)
    found = from_data(wanted)
    for name in ("num_nodes", "num_edges", "num_node_features", "num_edge_features"):
        assert getattr(found, name) == getattr(wanted, name), name
    foreign = as_stores((MyFeatureStore(), GraphStore(make_graph())))
    foreign[0].put_tensor(plain.x, group_name=None, attr_name="x", index=None)
    assert torch.equal(foreign.x, plain.x) and foreign.num_nodes == NUM_NODES
    with pytest.raises(AttributeError, match="no tensor 'q'; there are: 'x'"):
        foreign.q


def test_what_a_loader_tells_of_a_typed_graph() -> None:
    graph = make_typed()
    data = NeighborLoader(graph, [2], "post", batch_size=8).data
    assert data.metadata() == graph.metadata() == (["user", "post", "group"], [VOTES, IN])
    assert (data.num_nodes, data.num_edges) == (74, 140)
    assert data.num_node_features == {"user": 6, "post": 1, "group": 0}
    assert data.num_edge_features == {VOTES: 2, IN: 0}
    wanted = to_data(graph)
    for name in ("num_nodes", "num_edges", "num_node_features", "num_edge_features"):
        assert getattr(data, name) == getattr(wanted, name), name
    assert data.metadata() == wanted.metadata()
    by_hand = from_data(wanted)
    assert (by_hand.num_nodes, by_hand.num_edges) == (74, 140)
    assert "x" in data and "y" not in data
    with pytest.raises(AttributeError, match=r"many types .*to_data\(stores\) makes"):
        data.x
    for kind in ("user", VOTES):
        with pytest.raises(KeyError, match=r"to_data\(stores\)\["):
            data[kind]
    assert torch.equal(to_data(data)["user"].x, wanted["user"].x)
    with pytest.raises(AttributeError, match="put_tensor"):
        data.x = torch.zeros(3)


def test_tensors_are_assigned_and_deleted_as_scripts_do() -> None:
    """The lines of PyG's examples for inference: drop what is not used, add ids of nodes."""
    loader = NeighborLoader(make_graph(), [3], batch_size=50, shuffle=True)
    del loader.data.y
    loader.data.num_nodes = NUM_NODES
    loader.data.n_id = torch.arange(NUM_NODES)
    loader.data.x = torch.arange(NUM_NODES).view(-1, 1) * 2.0
    loader.data.weight = torch.arange(NUM_EDGES)
    loader.data.name = "somebody"
    for batch in loader:
        assert torch.equal(batch.x[:, 0], batch.n_id * 2.0)
        assert torch.equal(batch.weight, batch.e_id)
        assert "y" not in batch and batch.name == "somebody"
    loader.data.weight = None
    assert "weight" not in next(iter(loader))
    loader.data.weight = np.arange(NUM_NODES)  # of another kind than before
    batch = next(iter(loader))
    assert torch.equal(batch.weight, batch.n_id)
    for name in ("num_nodes", "num_edges", "edge_index"):
        with pytest.raises(AttributeError, match="cannot be assigned"):
            setattr(loader.data, name, 7)
    with pytest.raises(AttributeError, match="no tensor 'q'"):
        del loader.data.q
    square = from_data(Data(x=torch.rand(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1] * 4])))
    square.edge_label, square.label = torch.arange(4), torch.arange(4)
    assert [name for name, _ in square[0].batch_columns()[1]] == ["edge_label"]


@pytest.mark.parametrize("weight", [None, "edge_weight", "edge_attr"])
def test_edges_as_a_sparse_tensor(weight: str | None) -> None:
    """What old scripts have: ``ToSparseTensor`` before the loader, ``adj_t`` in the batches."""
    data = make_data()
    assert data.edge_index is not None
    data.edge_index = data.edge_index.unique(dim=1).flip(1)  # torch would sum duplicates up
    data.edge_attr = None
    count = data.edge_index.shape[1]
    if weight is not None:
        data[weight] = torch.rand(count)
    data.mark = torch.arange(count)  # follows the edges
    plain = data.clone()
    transform = ToSparseTensor(attr=weight, layout=torch.sparse_csr)
    sparse = transform(data)
    assert "edge_index" not in sparse
    stores = from_data(sparse)
    src, dst = stores[1].edge_index()
    name = "edge_weight" if weight else None
    order = stores.mark
    assert torch.equal(torch.stack([src, dst]), plain.edge_index[:, order])
    assert weight or not hasattr(stores, "edge_weight")  # ones that torch needs are no weights
    assert weight is None or torch.equal(getattr(stores, name or ""), plain[weight][order])
    loader = NeighborLoader(
        sparse, [3], torch.arange(20), batch_size=20, transform=ToSparseTensor(attr=name), seed=0
    )
    for batch in loader:
        dense = batch.adj_t.to_dense()
        assert dense.shape == (batch.num_nodes, batch.num_nodes)
        row, col = dense.nonzero().t()
        linked = set(zip(src.tolist(), dst.tolist(), strict=True))
        assert set(zip(batch.n_id[col].tolist(), batch.n_id[row].tolist(), strict=True)) <= linked


def test_typed_edges_as_sparse_tensors() -> None:
    data = to_data(make_typed())
    wanted = data[VOTES].edge_index
    data = ToSparseTensor(attr=None, layout=torch.sparse_csr)(data)
    stores = from_data(data)
    found = torch.stack(stores[1].edge_index(VOTES))
    assert sorted(map(tuple, found.t().tolist())) == sorted(set(map(tuple, wanted.t().tolist())))
    data[VOTES].adj_t = "no tensor"
    with pytest.raises(errors.InvalidArgumentError, match=r"'votes'.*adj_t is no sparse tensor"):
        from_data(data)
    backward = Data(adj=data[IN].adj_t.t().to_sparse_csr(), num_nodes=50)
    src, dst = from_data(backward)[1].edge_index()
    assert torch.equal(src.sort().values, torch.arange(50)) and int(dst.max()) < 4


def test_nodes_without_edges_are_typed() -> None:
    """PyG's tests make links between nodes of a type that has no edges at all."""
    data = HeteroData()
    data["paper"].num_nodes = 10
    stores = from_data(data)
    assert stores.metadata() == (["paper"], []) and stores.num_nodes == 10
    assert stores.num_edges == 0
    (batch,) = NeighborLoader(data, [], "paper", batch_size=10)
    assert batch["paper"].num_nodes == 10


def test_named_groups_of_a_homogeneous_graph() -> None:
    plain = make_data()
    stores = as_stores((FeatureStore(), GraphStore(make_graph())))
    stores[0]["paper", "x", None] = plain.x
    assert torch.equal(stores.x, plain.x)
    data = to_data(stores)
    assert isinstance(data, Data) and torch.equal(data.x, plain.x)
    assert data.num_edges == NUM_EDGES


def pairs() -> list[Any]:
    graph, typed = make_graph(), make_typed()
    features, topology = FeatureStore.from_graph(graph), GraphStore(graph)
    rows = FeatureTable.from_array(np.zeros((NUM_NODES, 2)))
    attach = r'graph.node_attrs\["x"\] = rows'
    return [
        ((topology, features), r"order is \(feature_store, graph_store\).*pyg.GraphStore"),
        ((graph, features), r"order is .*got \(aethergraph.Graph, aethergraph.pyg.FeatureStore\)"),
        ((typed, rows), r"order is .*HeteroGraph, aethergraph.FeatureTable\)"),
        ((rows, topology), attach),
        ((rows, graph), attach),
        ((features, None), r"must be \(feature_store, graph_store\).*NoneType"),
        ((np.zeros(3), topology), r"must be \(feature_store, graph_store\).*got \(ndarray"),
    ]


@pytest.mark.parametrize(("pair", "text"), pairs())
@pytest.mark.parametrize("make", [NeighborLoader, NeighborSampler, HeteroNeighborSampler])
def test_a_wrong_pair_is_named(make: Any, pair: Any, text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=text):
        make(pair, [3])


def test_a_graph_stands_for_its_store() -> None:
    graph = make_graph()
    loader = NeighborLoader((FeatureStore.from_graph(graph), graph), [3], batch_size=NUM_NODES)
    assert next(iter(loader)).x.shape[1] == 8
    assert CoreSampler(graph, [3]).sample([1]).node[0] == 1
