"""GraphStorage answers as the DGLGraph of the same edges does."""

from __future__ import annotations

import gc
import pickle
import weakref
from typing import Any

import dgl
import dgl.graphbolt as gb
import numpy as np
import pytest
import torch
from dgl.dataloading import negative_sampler
from support.dgl import (
    COUNTS,
    FOLLOWS,
    NUM_EDGES,
    NUM_NODES,
    REV_VOTES,
    VOTES,
    make_edges,
    make_graph,
    make_typed,
    whole_edges,
)

from aethergraph import Graph, errors
from aethergraph.dgl import GraphStorage, NeighborSampler, _schema
from aethergraph.dgl.graphbolt import SamplingGraph

LAYOUTS = ["csc", "csr", "both"]


def make_dgl() -> Any:
    src, dst = make_edges()
    return dgl.graph((torch.from_numpy(src), torch.from_numpy(dst)), num_nodes=NUM_NODES)


def make_typed_dgl() -> Any:
    graph = make_typed()
    data = {}
    for kind in graph.edge_types:
        order = graph[kind].edge_order
        assert order is not None
        back = np.argsort(order)
        data[kind] = tuple(torch.from_numpy(end[back]) for end in graph[kind].edge_index())
    return dgl.heterograph(data, COUNTS)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_edges_and_degrees(layout: Any) -> None:
    ours, theirs = GraphStorage(make_graph(layout, keep_order=True)), make_dgl()
    assert ours.num_nodes() == ours.num_nodes("_N") == NUM_NODES
    assert ours.num_edges() == ours.number_of_edges("_E") == NUM_EDGES
    assert ours.ntypes == theirs.ntypes and ours.etypes == theirs.etypes
    assert ours.canonical_etypes == theirs.canonical_etypes
    for form in ("uv", "eid", "all"):
        a, b = ours.edges(form=form), theirs.edges(form=form)
        for x, y in zip(a, b, strict=True) if form != "eid" else [(a, b)]:
            assert torch.equal(x, y)
    ids = torch.tensor([7, 0, 1499, 7])
    for x, y in zip(ours.find_edges(ids), theirs.find_edges(ids), strict=True):
        assert torch.equal(x, y)
    nodes = torch.tensor([3, 149, 0])
    assert torch.equal(ours.in_degrees(), theirs.in_degrees())
    assert torch.equal(ours.out_degrees(), theirs.out_degrees())
    assert torch.equal(ours.in_degrees(nodes), theirs.in_degrees(nodes))
    assert torch.equal(ours.out_degrees(nodes), theirs.out_degrees(nodes))
    u, v = torch.arange(100), torch.arange(100).flip(0)
    assert torch.equal(ours.has_edges_between(u, v), theirs.has_edges_between(u, v))


def test_types_and_names() -> None:
    ours, theirs = GraphStorage(make_typed()), make_typed_dgl()
    assert ours.ntypes == theirs.ntypes and ours.canonical_etypes == theirs.canonical_etypes
    assert ours.etypes == theirs.etypes and not ours.is_homogeneous
    assert ours.num_nodes() == theirs.num_nodes() and ours.num_nodes("tag") == 3
    assert ours.num_edges() == theirs.num_edges() and ours.num_edges("votes") == 500
    assert ours.to_canonical_etype("votes") == ours.to_canonical_etype(VOTES) == VOTES
    for kind in ours.canonical_etypes:
        for x, y in zip(ours.edges(etype=kind), theirs.edges(etype=kind), strict=True):
            assert torch.equal(x, y)
        assert torch.equal(ours.in_degrees(etype=kind), theirs.in_degrees(etype=kind))
        assert torch.equal(ours.out_degrees(etype=kind), theirs.out_degrees(etype=kind))
    with pytest.raises(errors.InvalidArgumentError, match="'likes' is no edge type; there are"):
        ours.num_edges("likes")
    with pytest.raises(errors.InvalidArgumentError, match="None is no node type"):
        ours.get_node_storage("x")
    src, dst = np.array([0]), np.array([1])
    twice = Graph.from_edges(2, src, dst)
    assert GraphStorage(twice).to_canonical_etype("_E") == ("_N", "_E", "_N")


@pytest.mark.parametrize("layout", ["csc", "csr", "both"])
def test_degrees_of_some_nodes(layout: Any) -> None:
    """In the direction that the layout has lists for and in the other one."""
    ours, theirs = GraphStorage(make_graph(layout, keep_order=True)), make_dgl()
    for name, label in (("in_degrees", "v"), ("out_degrees", "u")):
        own, wanted = getattr(ours, name), getattr(theirs, name)
        forms: tuple[Any, ...] = (torch.tensor([3, 149, 3]), [3], [], torch.tensor(3))
        for nodes in forms:
            assert torch.equal(own(nodes), wanted(nodes))
        for node in (3, np.int64(149)):
            assert type(own(node)) is int and own(node) == wanted(node)
        for nodes, at in (([0, -1], 1), (torch.tensor([150]), 0), (-1, 0), (500, 0)):
            value = int(np.atleast_1d(nodes)[at])
            with pytest.raises(
                errors.OutOfRangeError, match=rf"{label}\[{at}\] = {value}"
            ) as found:
                own(nodes)
            assert (found.value.position, found.value.value) == (at, value)
        for bad in ([0.5], "user", True):
            with pytest.raises(errors.InvalidArgumentError, match=f"{label} must hold integers"):
                own(bad)


def test_one_edge() -> None:
    """An integer instead of a vector, as DGL takes it."""
    ours, theirs = GraphStorage(make_graph(keep_order=True)), make_dgl()
    for x, y in zip(ours.find_edges(7), theirs.find_edges(7), strict=True):
        assert torch.equal(x, y)
    u, v = (int(end) for end in ours.find_edges(7))
    assert ours.has_edges_between(u, v) is True is theirs.has_edges_between(u, v)
    missing = next(node for node in range(150) if not theirs.has_edges_between(u, node))
    assert ours.has_edges_between(u, missing) is False
    with pytest.raises(errors.OutOfRangeError, match=r"eid\[0\] = -1"):
        ours.find_edges(-1)


@pytest.mark.parametrize("relabel", [True, False])
def test_subgraphs_of_nodes(relabel: bool) -> None:
    ours, theirs = GraphStorage(make_graph(keep_order=True)), make_dgl()
    mask = torch.zeros(NUM_NODES, dtype=torch.bool)
    mask[3:60] = True
    for nodes in (torch.tensor([5, 2, 90, 17, 1]), mask, torch.arange(0)):
        a, b = (g.subgraph(nodes, relabel_nodes=relabel) for g in (ours, theirs))
        assert a.num_nodes() == b.num_nodes() and whole_edges(a) == whole_edges(b)
        if relabel:
            assert torch.equal(a.ndata[dgl.NID], b.ndata[dgl.NID])
    typed, wanted = GraphStorage(make_typed()), make_typed_dgl()
    groups = {"user": torch.tensor([4, 1, 30]), "post": torch.arange(40)}
    a, b = (g.subgraph(groups, relabel_nodes=relabel) for g in (typed, wanted))
    for kind in (VOTES, FOLLOWS, REV_VOTES):
        assert whole_edges(a, kind) == whole_edges(b, kind)
    with pytest.raises(errors.InvalidArgumentError, match="twice"):
        ours.subgraph(torch.tensor([1, 1]))
    with pytest.raises(errors.InvalidArgumentError, match=r"a mask needs shape \(150,\)"):
        ours.subgraph(mask[:5])
    with pytest.raises(errors.OutOfRangeError, match="150"):
        ours.subgraph(torch.tensor([150]))


@pytest.mark.parametrize("relabel", [True, False])
def test_subgraphs_of_edges(relabel: bool) -> None:
    ours, theirs = GraphStorage(make_graph(keep_order=True)), make_dgl()
    ids = torch.tensor([9, 3, 1400])
    a, b = (g.edge_subgraph(ids, relabel_nodes=relabel) for g in (ours, theirs))
    assert torch.equal(a.edata[dgl.EID], b.edata[dgl.EID])
    assert a.num_nodes() == b.num_nodes() and whole_edges(a) == whole_edges(b)
    typed = GraphStorage(make_typed())  # DGL 2.1 crashes on a dict of some types
    found = typed.edge_subgraph({"votes": ids[:2]}, relabel_nodes=relabel)
    src, dst = typed.find_edges(ids[:2], VOTES)
    wanted = zip(src.tolist(), dst.tolist(), ids[:2].tolist(), strict=True)
    assert whole_edges(found, VOTES) == set(wanted)
    assert found.num_edges(FOLLOWS) == 0
    assert found.num_nodes("user") == (len(set(src.tolist())) if relabel else 40)
    with pytest.raises(
        errors.OutOfRangeError, match=r"edges\[0\] = 1500 is not in 0..1499 \(num_edges=1500"
    ):
        ours.edge_subgraph(torch.tensor([1500]))


@pytest.mark.parametrize("edge_dir", ["in", "out"])
def test_sample_neighbors(edge_dir: str) -> None:
    graph = make_graph("both", keep_order=True)
    ours, theirs = GraphStorage(graph), make_dgl()
    nodes = torch.tensor([1, 70, 3])
    a, b = (g.sample_neighbors(nodes, -1, edge_dir=edge_dir) for g in (ours, theirs))
    assert a.num_nodes() == NUM_NODES and whole_edges(a) == whole_edges(b)
    few = GraphStorage(graph).sample_neighbors(nodes, 2, edge_dir=edge_dir)
    assert whole_edges(few) < whole_edges(a)
    assert few.num_edges() == int(np.minimum(_degrees(theirs, nodes, edge_dir), 2).sum())
    again = GraphStorage(graph).sample_neighbors(nodes, 2, edge_dir=edge_dir)
    assert whole_edges(again) == whole_edges(few)
    ours.set_epoch(1)
    assert any(
        whole_edges(ours.sample_neighbors(nodes + i, 2, edge_dir=edge_dir))
        != whole_edges(GraphStorage(graph).sample_neighbors(nodes + i, 2, edge_dir=edge_dir))
        for i in range(5)
    )
    hidden = a.edata[dgl.EID][::2]
    rest = ours.sample_neighbors(nodes, -1, edge_dir=edge_dir, exclude_edges=hidden)
    assert whole_edges(rest) == {e for e in whole_edges(a) if e[2] not in hidden.tolist()}
    theirs.edata["p"] = torch.from_numpy(graph.edge_attrs["p"].array[np.argsort(graph.edge_order)])
    a, b = (g.sample_neighbors(nodes, -1, edge_dir=edge_dir, prob="p") for g in (ours, theirs))
    assert whole_edges(a) == whole_edges(b)
    many = ours.sample_neighbors(nodes, 9, edge_dir=edge_dir, replace=True)
    assert many.num_edges() == 9 * int((_degrees(theirs, nodes, edge_dir) > 0).sum())


def _degrees(g: Any, nodes: Any, edge_dir: str) -> Any:
    return (g.in_degrees(nodes) if edge_dir == "in" else g.out_degrees(nodes)).numpy()


def test_sample_neighbors_of_typed_graphs() -> None:
    ours, theirs = GraphStorage(make_typed()), make_typed_dgl()
    nodes = {"post": torch.tensor([1, 7]), "user": torch.tensor([3])}
    for fanout in (-1, {VOTES: -1, FOLLOWS: 0, REV_VOTES: -1}):
        a, b = (g.sample_neighbors(nodes, fanout) for g in (ours, theirs))
        for kind in ours.canonical_etypes:
            assert whole_edges(a, kind) == whole_edges(b, kind)
    with pytest.raises(errors.InvalidArgumentError, match="lacks"):
        ours.sample_neighbors(nodes, {"votes": 2})
    with pytest.raises(errors.LayoutError, match="layout='both'"):
        ours.sample_neighbors(nodes, 2, edge_dir="out")


def test_weights_and_times_that_are_replaced() -> None:
    """A graph's attributes may be others in the next epoch, as ``g.edata["p"]`` may."""
    graph = Graph.from_edges(3, [1, 2], [0, 0])
    graph.edge_attrs["p"] = np.array([0.5, 0.5])
    storage, bolt, seeds = GraphStorage(graph), SamplingGraph(graph), torch.tensor([0])
    blocks = NeighborSampler([1], prob="p")
    timed = NeighborSampler([-1], time_attr="t")
    pipe = gb.ItemSampler(gb.ItemSet(seeds, names="seed_nodes"), batch_size=1)
    at_once = pipe.sample_neighbor_at_once(bolt, [1], prob_name="p")
    for edge in (0, 1, 0):
        graph.edge_attrs["p"] = np.arange(2) == edge
        drawn = [
            storage.sample_neighbors(seeds, 1, prob="p").edata[dgl.EID],
            blocks.sample(storage, seeds)[2][0].edata[dgl.EID],
            bolt.sample_neighbors(seeds, torch.tensor([1]), probs_name="p").original_edge_ids,
            next(iter(at_once)).sampled_subgraphs[0].original_edge_ids,
        ]
        assert [ids.tolist() for ids in drawn] == [[edge]] * 4
        graph.node_attrs["t"] = np.array([6, 5, 5 + edge])
        seen = timed.sample(storage, seeds)[2][0].edata[dgl.EID]
        assert seen.tolist() == [0, 1][: 2 - edge]
    del graph.edge_attrs["p"]
    with pytest.raises(errors.InvalidArgumentError, match="prob = 'p' is no edge attribute"):
        blocks.sample(storage, seeds)


def test_negative_pairs_are_no_edges() -> None:
    ours = GraphStorage(make_graph(), seed=1)
    src, dst = ours.global_uniform_negative_sampling(300)
    assert len(src) == 300 and not ours.has_edges_between(src, dst).any()
    assert (src != dst).all() and len(set(zip(src.tolist(), dst.tolist(), strict=True))) == 300
    again = GraphStorage(make_graph(), seed=1).global_uniform_negative_sampling(300)
    assert torch.equal(again[0], src) and torch.equal(again[1], dst)
    ours.set_epoch(1)
    assert not torch.equal(ours.global_uniform_negative_sampling(300)[0], src)
    complete = Graph.from_edges(3, np.repeat(np.arange(3), 3), np.tile(np.arange(3), 3))
    assert len(GraphStorage(complete).global_uniform_negative_sampling(5)[0]) == 0
    loops = Graph.from_edges(3, [0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1])
    for replace in (False, True):
        found = GraphStorage(loops).global_uniform_negative_sampling(50, False, replace)
        assert torch.equal(*found) and len(found[0]) <= (50 if replace else 3)
    assert len(GraphStorage(loops).global_uniform_negative_sampling(50)[0]) == 0
    with pytest.raises(errors.InvalidArgumentError, match="num_samples = -1"):
        ours.global_uniform_negative_sampling(-1)


def test_flags_that_samplers_of_dgl_hand_on_unchecked() -> None:
    """Any number but 0 is true in DGL, whose own tests give ``replace=3``."""
    graph, ids = make_graph(keep_order=True), torch.arange(40)
    for flags in ((0, 3), (2, 0), (np.int64(4), False)):
        drawn = [
            negative_sampler.GlobalUniform(15, *given)(GraphStorage(graph, seed=1), ids)
            for given in (flags, tuple(map(bool, flags)))
        ]
        assert all(map(torch.equal, *drawn))
    hops = [
        dgl.dataloading.NeighborSampler([5], replace=replace).sample(
            GraphStorage(graph, seed=1), ids
        )
        for replace in (3, True)
    ]
    assert torch.equal(*(blocks[0].edata[dgl.EID] for _, _, blocks in hops))
    with pytest.raises(errors.InvalidArgumentError, match="replace must be True or False"):
        GraphStorage(graph).global_uniform_negative_sampling(3, True, "no")  # type: ignore[arg-type]


def test_formats_are_there() -> None:
    """Scripts for a ``DGLGraph`` ask for them before workers are forked."""
    storage = GraphStorage(make_graph())
    assert storage.create_formats_() is None  # type: ignore[func-returns-value]


def test_negative_pairs_are_uniform() -> None:
    """Over the six pairs of two by four nodes that are no edges."""
    graph = make_pairs()
    counts = np.zeros((2, 4))
    for epoch in range(300):
        graph.set_epoch(epoch)
        src, dst = graph.global_uniform_negative_sampling(20, False, True, ("a", "r", "b"))
        np.add.at(counts, (src.numpy(), dst.numpy()), 1)
    free = counts[counts > 0]
    assert len(free) == 6 and counts[0, 0] == counts[1, 3] == 0
    expected = free.sum() / 6
    assert ((free - expected) ** 2 / expected).sum() < 25.7  # chi-square, 5 degrees, p = 1e-4


def make_pairs() -> GraphStorage:
    from aethergraph import HeteroGraph

    edges: dict[Any, Any] = {("a", "r", "b"): ([0, 1], [0, 3])}
    return GraphStorage(HeteroGraph.from_edges(edges, {"a": 2, "b": 4}), seed=5)


def test_a_graph_for_the_cpu_is_itself() -> None:
    storage = GraphStorage(make_graph())
    for device in ("cpu", torch.device("cpu"), torch.device("cpu", 0)):
        assert storage.to(device) is storage
    assert storage.cpu() is storage


def test_idtype_and_pickles() -> None:
    storage = GraphStorage(make_graph(keep_order=True), idtype=torch.int32, seed=3)
    copy = pickle.loads(pickle.dumps(storage))
    for one in (storage, copy):
        assert one.idtype == torch.int32 and one.device == torch.device("cpu")
        assert one.find_edges(torch.tensor([3]))[0].dtype == torch.int32
        assert one.subgraph(torch.arange(5)).idtype == torch.int32
        assert one.sample_neighbors(torch.arange(5), 2).idtype == torch.int32
    assert whole_edges(storage.sample_neighbors(torch.arange(9), 2)) == whole_edges(
        copy.sample_neighbors(torch.arange(9), 2)
    )
    storage._gpu_caches = {}  # DGL's loader assigns it


@pytest.mark.parametrize(
    ("graph", "options", "text"),
    [
        (dgl.rand_graph(3, 3), {}, r"got DGLGraph: from_dgl\(graph\) makes one"),
        ("graph.bin", {}, "must be an aethergraph Graph or HeteroGraph, got str"),
        (None, {"idtype": torch.int16}, "idtype = torch.int16"),
        (None, {"edge_ids": "csc"}, "edge_ids = 'csc'"),
        (None, {"num_threads": -1}, "num_threads = -1"),
    ],
)
def test_arguments_that_cannot_be(graph: Any, options: Any, text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=text):
        GraphStorage(make_graph() if graph is None else graph, **options)


def test_calls_that_cannot_be() -> None:
    storage = GraphStorage(make_graph(keep_order=True))
    with pytest.raises(
        errors.OutOfRangeError, match=r"eid\[1\] = 1500 is not in 0..1499 \(num_edges=1500"
    ):
        storage.find_edges(torch.tensor([0, 1500]))
    with pytest.raises(errors.InvalidArgumentError, match="form = 'both'"):
        storage.edges(form="both")
    with pytest.raises(errors.InvalidArgumentError, match="edge_dir = 'up'"):
        storage.sample_neighbors(torch.tensor([0]), 2, edge_dir="up")
    with pytest.raises(errors.InvalidArgumentError, match="'z' is no edge data"):
        storage.get_edge_storage("z")


def test_graphs_look_input_ids_up_in_one_table() -> None:
    graph = make_typed(keep_order=True)
    storages = GraphStorage(graph), GraphStorage(graph)
    for kind in storages[0].canonical_etypes:
        for storage in storages:
            storage.find_edges(torch.tensor([0]), kind)
    tables = _schema._inverses[graph]
    assert len(tables) == len(storages[0].canonical_etypes)
    kept = weakref.ref(graph)
    del graph, storages, storage
    gc.collect()
    assert kept() is None


def test_seeds_that_come_twice_to_samplers_of_dgl() -> None:
    """They keep one copy's edges of any graph that is no DGLGraph."""
    storage = GraphStorage(make_graph())
    stock = dgl.dataloading.NeighborSampler([3, 3])
    assert stock.sample(storage, torch.tensor([4, 5]))[1].tolist() == [4, 5]
    with pytest.raises(errors.InvalidArgumentError, match=r"hold 5 twice.*aethergraph\.dgl\.Neigh"):
        stock.sample(storage, torch.tensor([5, 4, 5]))
