"""Graphs of many types through PyG's stock loaders and ours."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.pyg import IN, VOTES, assert_same_batches, assert_typed_batch, make_typed
from torch_geometric.data import HeteroData
from torch_geometric.loader import LinkLoader, NodeLoader
from torch_geometric.sampler import EdgeSamplerInput, NodeSamplerInput
from torch_geometric.sampler.base import NumNeighbors

from aethergraph import Graph, HeteroGraph, errors
from aethergraph.loading import Ahead
from aethergraph.pyg import (
    FeatureStore,
    GraphStore,
    HeteroNeighborLoader,
    HeteroNeighborSampler,
    LinkNeighborLoader,
    NeighborLoader,
    NeighborSampler,
    to_data,
)
from aethergraph.testing import oracle

pytestmark = pytest.mark.pyg


def stores_of(graph: HeteroGraph) -> tuple[FeatureStore, GraphStore]:
    return FeatureStore.from_graph(graph), GraphStore(graph)


def test_a_sample_is_what_the_oracle_says() -> None:
    graph = make_typed()
    sampler = HeteroNeighborSampler(graph, {VOTES: [3, 2], IN: [2, 2]}, seed=5)
    seeds = torch.tensor([1, 0, 1])
    out = sampler.sample_from_nodes(NodeSamplerInput(torch.arange(3), seeds, input_type="sub"))
    number = {name: i for i, name in enumerate(graph.node_types)}
    relations = [
        oracle.Relation(*graph[kind].csc(), None, number[kind[2]], number[kind[0]])
        for kind in graph.edge_types
    ]
    fanouts = {VOTES: [3, 2], IN: [2, 2]}
    key = sampler._key(None, ["sub"], [seeds.numpy()], [])
    expected = oracle.sample_typed(
        relations, [seeds.numpy() if n == "sub" else [] for n in graph.node_types],
        [fanouts.get(kind, [0, 0]) for kind in graph.edge_types], key,
    )  # fmt: skip
    for i, name in enumerate(graph.node_types):
        assert out.node[name].tolist() == expected.node[i].tolist()
        assert out.num_sampled_nodes[name] == expected.hop_nodes[i]
    for i, kind in enumerate(graph.edge_types):
        assert out.row[kind].tolist() == expected.row[i].tolist()
        assert out.edge[kind].tolist() == expected.edge[i].tolist()
    assert out.metadata[0].tolist() == [0, 1, 2]


def test_the_loader_for_typed_graphs_is_neighbor_loader(tmp_path: Path) -> None:
    graph = make_typed()
    graph.save(tmp_path / "graph.aeg")
    for data in (graph, tmp_path / "graph.aeg", stores_of(graph), to_data(graph)):
        one, other = (
            next(iter(kind(data, [3, 2], ("post", [4, 7]), batch_size=2, seed=1)))
            for kind in (NeighborLoader, HeteroNeighborLoader)
        )
        for mine, its in zip(one.stores, other.stores, strict=True):
            assert set(mine.keys()) == set(its.keys())
    graph["user"].attrs["n_id"] = np.zeros(80, np.int64)
    with pytest.raises(errors.InvalidArgumentError, match="'n_id' is a node attribute"):
        HeteroNeighborLoader(graph, [2], "user")


def test_our_loader_adds_edge_tensors_and_epochs() -> None:
    graph = make_typed()
    loader = HeteroNeighborLoader(
        graph, {VOTES: [4, 3], ("sub", "rev_in", "post"): [1, 1]}, input_nodes="post",
        batch_size=40, seed=3, transform=lambda data: data,
    )  # fmt: skip
    epochs = [[b[VOTES].e_id for b in loader] for _ in range(2)]
    for batch in loader:
        assert_typed_batch(graph, batch)
        rows = graph[VOTES].attrs["edge_attr"].array[batch[VOTES].e_id]
        assert np.array_equal(batch[VOTES].edge_attr, rows)
        assert batch[IN].e_id.numel() == 0  # not asked for
    assert not all(torch.equal(a, b) for a, b in zip(*epochs, strict=True))
    loader.set_epoch(0)
    again = [b[VOTES].e_id for b in loader]
    assert all(torch.equal(a, b) for a, b in zip(epochs[0], again, strict=True))


@pytest.mark.filterwarnings("ignore:seed=5")
@pytest.mark.parametrize("neg", [None, "binary", "triplet"])
@pytest.mark.parametrize("disjoint", [False, True])
def test_our_loaders_give_the_batches_of_the_stock_ones(neg: str | None, disjoint: bool) -> None:
    """And edge tensors, and the graph's other values."""
    graph = make_typed()
    sampler = HeteroNeighborSampler(graph, [3, 2], disjoint=disjoint, seed=5)
    own: Any = LinkNeighborLoader(
        graph, [3, 2], VOTES, neg_sampling=neg, neighbor_sampler=sampler, batch_size=300,
        ahead=0,
    )  # fmt: skip
    links = torch.from_numpy(np.stack(graph[VOTES].edge_index()))
    stock = LinkLoader(stores_of(graph), sampler, (VOTES, links), neg_sampling=neg, batch_size=300)
    seeds = torch.arange(40, 90)
    nodes = NeighborLoader(graph, [3, 2], ("post", seeds), neighbor_sampler=sampler, batch_size=20)
    stock_nodes = NodeLoader(stores_of(graph), sampler, ("post", seeds), batch_size=20)
    for loader, other in ((own, stock), (nodes, stock_nodes)):
        assert len(loader) == len(other)
        for number, wanted in enumerate(other):
            index = torch.arange(number * loader.batch_size, (number + 1) * loader.batch_size)
            index = index[: len(loader.dataset) - int(index[0])]
            found = loader(index)
            assert_typed_batch(graph, found)
            for kind in (VOTES, ("post", "rev_votes", "user")):
                rows = graph[kind].attrs["edge_attr"].array[found[kind].e_id]
                assert np.array_equal(found[kind].edge_attr, rows)
                del found[kind].edge_attr
            for name in graph.node_types:
                assert found[name].num_nodes == len(found[name].n_id)
                wanted[name].pop("num_nodes", None)  # PyG's loader adds it over stores
            assert_same_batches([found], [wanted])


def test_batches_do_not_depend_on_how_they_are_made() -> None:
    """Prefetched, at once, in workers, with more threads: the same, and prefetched for real."""
    graph = make_typed()

    def run(**options: Any) -> list[HeteroData]:
        torch.manual_seed(7)
        nodes = NeighborLoader(
            graph, {VOTES: [4, 3]}, ("post", torch.arange(100)), batch_size=30, shuffle=True,
            **options,
        )  # fmt: skip
        links = LinkNeighborLoader(
            graph, [4, 3], VOTES, neg_sampling={"mode": "binary", "true_negatives": True},
            exclude="reverse", batch_size=400, **options,
        )  # fmt: skip
        assert links._can_prefetch()
        return [*nodes, *links]

    wanted = run()
    assert len(wanted) == 7
    for options in (
        {"ahead": 0}, {"ahead": Ahead(threads=2)}, {"num_workers": 2}, {"num_threads": 2},
        {"num_workers": 2, "filter_per_worker": False},
    ):  # fmt: skip
        assert_same_batches(run(**options), wanted)
    for batch in wanted[4:]:
        row, col = batch[VOTES].edge_label_index
        half = len(row) // 2
        users, posts = batch["user"].n_id[row], batch["post"].n_id[col]
        assert graph[VOTES].has_edges(users[:half].numpy(), posts[:half].numpy()).all()
        assert not graph[VOTES].has_edges(users[half:].numpy(), posts[half:].numpy()).any()
        src, dst = batch[VOTES].edge_index
        seen = torch.stack([batch["user"].n_id[src], batch["post"].n_id[dst]], 1).tolist()
        targets = torch.stack([users[:half], posts[:half]], 1).tolist()
        assert not {tuple(p) for p in seen} & {tuple(p) for p in targets}


def test_stores_show_every_type() -> None:
    graph = make_typed()
    features, topology = stores_of(graph)
    attrs = {attr.edge_type: attr for attr in topology.get_all_edge_attrs()}
    assert list(attrs) == graph.edge_types
    assert attrs[VOTES].size == (80, 150)
    row, colptr = topology.get_edge_index(VOTES, layout="csc")
    assert np.array_equal(row, graph[VOTES].csc()[1])
    assert len(colptr) == 151
    rowptr, col, _perm = topology.csr([VOTES])
    assert len(rowptr[VOTES]) == 81
    assert len(col[VOTES]) == 900
    coo = topology.coo()
    assert set(coo[0]) == set(graph.edge_types)
    assert np.array_equal(features["user", "x", [3]], graph["user"].attrs["x"].array[[3]])
    with pytest.raises(errors.InvalidArgumentError, match="num_nodes = 80"):
        features["user", "z", None] = torch.zeros(3)


def test_what_is_refused() -> None:
    graph = make_typed()
    sampler = HeteroNeighborSampler(graph, [2])
    with pytest.raises(errors.OutOfRangeError, match=r"seeds\['post'\]\[1\] = 150"):
        sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([0, 150]), input_type="post"))
    with pytest.raises(errors.InvalidArgumentError, match="'dog'"):
        sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([0]), input_type="dog"))
    with pytest.raises(errors.UnsupportedError, match="HeteroGraph"):
        HeteroNeighborSampler(HeteroData(), [2])
    for nodes in (torch.arange(3), ("post", torch.ones(3, dtype=torch.bool)), ("dog", None)):
        with pytest.raises(errors.InvalidArgumentError, match="input_nodes"):
            HeteroNeighborLoader(graph, [2], nodes)
    for links in (("user", "likes", "post"), torch.zeros(2, 3, dtype=torch.long), None):
        with pytest.raises(errors.InvalidArgumentError, match="edge_label_index of type"):
            LinkNeighborLoader(graph, [2], links)
    with pytest.raises(errors.OutOfRangeError, match=r"edge_label_index\[1\]\[0\] = 150"):
        LinkNeighborLoader(graph, [2], (VOTES, torch.tensor([[0], [150]])))
    with pytest.raises(errors.LayoutError, match="layout='both'"):
        NeighborLoader(graph, [2], "post", sample_direction="backward")
    with pytest.raises(errors.UnsupportedError, match=r"not walk backward.*add_reverse"):
        HeteroNeighborSampler(graph, [2], time_attr="edge_time", sample_direction="backward")
    for option in ("directed", "is_sorted", "true_negatives", "share_memory"):
        with pytest.raises(errors.InvalidArgumentError, match=f"{option} must be True or False"):
            HeteroNeighborSampler(graph, [2], **{option: "no"})
    for option in ("time_attr", "weight_attr"):
        with pytest.raises(errors.InvalidArgumentError, match=f"{option} must be a text"):
            HeteroNeighborSampler(graph, [2], **{option: ["x"]})
    for nodes in (torch.arange(150).to_sparse(), torch.zeros(150, device="meta")):
        with pytest.raises(errors.InvalidArgumentError, match="must be a dense tensor with values"):
            HeteroNeighborLoader(graph, [2], ("post", nodes))
    with pytest.raises(errors.InvalidArgumentError, match="NeighborLoader"):
        HeteroNeighborLoader(Graph.from_edges(2, [0], [1]), [2], None)
    with pytest.raises(errors.UnsupportedError, match="samplers take the store"):
        _ = GraphStore(graph).graph


def test_options_can_be_assigned_as_lightning_does() -> None:
    graph = make_typed()
    sampler = HeteroNeighborSampler(graph, [3, 2], seed=4)
    other = copy.copy(sampler)
    other.num_neighbors = {VOTES: [1, 1]}
    other.replace, other.subgraph_type, other.disjoint = True, "bidirectional", True
    index = NodeSamplerInput(None, torch.arange(9), input_type="post")
    wanted = HeteroNeighborSampler(
        graph, {VOTES: [1, 1]}, "bidirectional", replace=True, disjoint=True, seed=4
    )
    a, b = other.sample_from_nodes(index), wanted.sample_from_nodes(index)
    for kind in graph.edge_types:
        assert torch.equal(a.row[kind], b.row[kind])
        assert torch.equal(a.col[kind], b.col[kind])
    assert a.batch is not None
    assert sampler.num_neighbors.num_hops == 2
    with pytest.raises(errors.InvalidArgumentError, match="subgraph_type"):
        other.subgraph_type = "all"


def test_fanouts_as_num_neighbors() -> None:
    graph = make_typed()
    index = NodeSamplerInput(None, torch.arange(9), input_type="post")
    for given, wanted in (
        (NumNeighbors([2, 1]), [2, 1]),
        (NumNeighbors({VOTES: [2, 1]}), {VOTES: [2, 1]}),
        (NumNeighbors({VOTES: [2, 1]}, default=[1, 3]),
         {kind: [2, 1] if kind == VOTES else [1, 3] for kind in graph.edge_types}),
    ):  # fmt: skip
        sampler = HeteroNeighborSampler(graph, given, seed=1)
        again = HeteroNeighborSampler(graph, sampler.num_neighbors, seed=1)
        plain = HeteroNeighborSampler(graph, wanted, seed=1)
        edges = [s.sample_from_nodes(index).edge for s in (sampler, again, plain)]
        for kind in graph.edge_types:
            assert edges[0][kind].tolist() == edges[1][kind].tolist() == edges[2][kind].tolist()


def test_bidirectional_samples_do_not_bring_hidden_links_back() -> None:
    ends = np.array([[0, 1, 2, 0], [1, 0, 0, 2]])
    both = HeteroGraph.from_edges({("n", "to", "n"): ends}, {"n": 3})
    typed = HeteroNeighborSampler(both, [-1, -1], "bidirectional", exclude="self")
    row, col = torch.tensor([0]), torch.tensor([1])
    out = typed.sample_from_edges(EdgeSamplerInput(None, row, col, input_type=("n", "to", "n")))
    kind = ("n", "to", "n")
    typed_pairs = torch.stack([out.node["n"][out.row[kind]], out.node["n"][out.col[kind]]])
    one = NeighborSampler(Graph.from_edges(3, *ends), [-1, -1], "bidirectional", exclude="self")
    plain = one.sample_from_edges(EdgeSamplerInput(None, row, col))
    pairs = torch.stack([plain.node[plain.row], plain.node[plain.col]])
    for found in (typed_pairs.t().tolist(), pairs.t().tolist()):
        assert [0, 1] not in found
        assert sorted(found) == [[0, 2], [2, 0]]


def test_node_types_keep_their_order_and_times_their_dtype() -> None:
    data = HeteroData()
    data["a"].x, data["b"].x = torch.zeros(4, 1), torch.zeros(4, 1)
    data["b"].note = "kept"
    data["a", "to", "b"].edge_index = torch.tensor([[0, 1], [1, 2]])
    data["a", "to", "b"].time = torch.tensor([0.1, 0.2])
    batch = next(iter(NeighborLoader(data, [2], "b", batch_size=4)))
    assert batch.node_types == ["a", "b"]
    assert batch["b"].note == "kept"
    sampler = HeteroNeighborSampler(data, [2], time_attr="time", seed=1)
    keys = {
        sampler._key(
            None, ["b"], [np.arange(2)], [sampler._seed_times(torch.full((2,), t), 2, "t")]
        )
        for t in (0.25, 0.75, math.inf)
    }
    assert len(keys) == 3
    links = LinkNeighborLoader(data, [2], (("a", "b"), None), batch_size=2)
    assert next(iter(links))["a", "to", "b"].edge_label_index.shape == (2, 2)
    assert links.data.num_nodes == 8
    with pytest.raises(errors.InvalidArgumentError, match="uint8"):
        NeighborLoader(data, [2], ("b", torch.ones(4, dtype=torch.uint8)))
    seeds = NodeSamplerInput(None, torch.tensor([1, 0]), input_type="sub")
    made = [kind(make_typed(), [2], seed=1) for kind in (NeighborSampler, HeteroNeighborSampler)]
    one, other = (sampler.sample_from_nodes(seeds) for sampler in made)
    assert all(torch.equal(one.edge[kind], other.edge[kind]) for kind in one.edge)
