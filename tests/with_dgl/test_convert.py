"""DGL's graphs into ours and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dgl
import numpy as np
import pytest
import torch
from support.dgl import make_graph, make_typed

from aethergraph import Graph, HeteroGraph, errors
from aethergraph.dgl import GraphStorage, NeighborSampler, from_dgl, to_dgl


def make(idtype: Any = torch.int64) -> Any:
    torch.manual_seed(2)
    ends = torch.randint(40, (300,)), torch.randint(40, (300,))
    g = dgl.graph(ends, num_nodes=45).astype(idtype)
    g.ndata["x"] = torch.rand(45, 3)
    g.ndata["half"] = torch.rand(45).to(torch.bfloat16)
    g.ndata["train_mask"] = torch.rand(45) < 0.5
    g.edata["w"] = torch.rand(300)
    g.edata["y"] = torch.randint(9, (300, 2))
    return g


def make_hetero() -> Any:
    g = dgl.heterograph(
        {
            ("user", "votes", "post"): (torch.randint(9, (50,)), torch.randint(7, (50,))),
            ("post", "has", "tag"): (torch.arange(7), torch.zeros(7, dtype=torch.int64)),
        },
        {"user": 10, "post": 7, "tag": 2},
    )
    g.nodes["user"].data["x"] = torch.rand(10, 3)
    g.nodes["tag"].data["x"] = torch.rand(2, 5)
    g.edges["votes"].data["w"] = torch.rand(50)
    return g


def assert_same(a: Any, b: Any) -> None:
    assert a.ntypes == b.ntypes and a.canonical_etypes == b.canonical_etypes
    assert a.idtype == b.idtype
    for name in a.ntypes:
        assert a.num_nodes(name) == b.num_nodes(name)
        assert_same_data(a.nodes[name].data, b.nodes[name].data)
    for kind in a.canonical_etypes:
        for x, y in zip(a.edges(etype=kind), b.edges(etype=kind), strict=True):
            assert torch.equal(x, y)
        assert_same_data(a.edges[kind].data, b.edges[kind].data)


def assert_same_data(a: Any, b: Any) -> None:
    assert set(a) == set(b)
    for key in a:
        assert a[key].dtype == b[key].dtype and torch.equal(a[key], b[key]), key


@pytest.mark.parametrize("layout", ["csc", "csr", "both"])
def test_there_and_back(layout: Any, tmp_path: Path) -> None:
    for g, name in ((make(), "one"), (make_hetero(), "many")):
        graph = from_dgl(g, layout=layout)
        assert isinstance(graph, Graph if name == "one" else HeteroGraph)
        assert_same(to_dgl(graph), g)
        graph.save(tmp_path / name)
        assert_same(to_dgl(tmp_path / name), g)
        assert_same(to_dgl(GraphStorage(graph)), g)


def test_a_node_type_beside_those_of_one_type(tmp_path: Path) -> None:
    """The names ``_N`` and ``_E`` alone do not make a graph one of one type."""
    g = dgl.heterograph({("_N", "_E", "_N"): ([0, 1], [1, 2])}, {"_N": 3, "x": 4})
    g.nodes["x"].data["h"] = torch.rand(4, 2)
    graph = from_dgl(g)
    assert isinstance(graph, HeteroGraph) and graph["x"].num_nodes == 4
    assert_same(to_dgl(graph), g)
    graph.save(tmp_path / "g")
    assert_same(to_dgl(tmp_path / "g"), g)


def test_idtypes() -> None:
    g = make(torch.int32)
    assert_same(to_dgl(from_dgl(g), idtype=torch.int32), g)
    assert to_dgl(from_dgl(g)).idtype == torch.int64
    assert to_dgl(GraphStorage(from_dgl(g), idtype=torch.int32)).idtype == torch.int32


def test_without_the_order_edges_have_the_graphs_own_ids() -> None:
    graph = from_dgl(make(), keep_order=False)
    back = to_dgl(graph)
    src, dst = graph.edge_index()  # type: ignore[union-attr]
    np.testing.assert_array_equal(back.edges()[0], src)
    np.testing.assert_array_equal(back.edges()[1], dst)
    own = graph.edge_attrs["w"].array  # type: ignore[union-attr]
    np.testing.assert_array_equal(back.edata["w"], own)


def test_our_graphs_become_dgls() -> None:
    graph = make_graph(keep_order=True)
    g = to_dgl(graph)
    assert set(g.ndata) == {"x", "y"} and set(g.edata) == {"edge_attr", "p", "mask"}
    order = graph.edge_order
    assert order is not None
    np.testing.assert_array_equal(g.edata["p"].numpy()[order], graph.edge_attrs["p"].array)
    assert to_dgl(graph, data=False).ndata == {}
    typed = to_dgl(make_typed())
    assert typed.num_nodes("tag") == 3 and set(typed.nodes["post"].data) == {"x", "y"}


def test_values_of_the_graph_itself() -> None:
    g = make()
    g.edata["edge_weight"] = torch.rand(300)
    g.edata["stamp"] = torch.randint(99, (300,))
    graph = from_dgl(g, time_attr="stamp")
    assert isinstance(graph, Graph)
    assert graph.edge_weight is not None and graph.edge_time is not None
    assert "stamp" in graph.edge_attrs and "edge_weight" not in graph.edge_attrs
    assert graph.sorted_by == {("csc", "edge_time"), ("csr", "edge_time")}
    back = to_dgl(graph)
    assert torch.equal(back.edata["edge_time"], g.edata["stamp"])
    assert torch.equal(back.edata["stamp"], g.edata["stamp"])
    assert torch.equal(back.edata["edge_weight"], g.edata["edge_weight"])
    until = torch.full((45,), 50)
    early = (g.edata["stamp"] < 50).nonzero()[:, 0]
    for name in ("stamp", "edge_time"):
        sampler = NeighborSampler([-1], time_attr=name, seed_time=until)
        _, _, (block,) = sampler.sample(GraphStorage(graph), torch.arange(40))
        assert set(block.edata[dgl.EID].tolist()) == set(early.tolist())
    bad = make()
    bad.edata["edge_weight"] = -torch.ones(300)  # stays an attribute
    assert "edge_weight" in from_dgl(bad).edge_attrs  # type: ignore[union-attr]


@pytest.mark.parametrize("formats", [["csc"], ["csr"], ["coo"], ["csr", "csc"]])
def test_graphs_that_are_restricted_to_formats(formats: list[str]) -> None:
    for g in (make(), make_hetero()):
        restricted = g.formats(formats)
        before = restricted.formats()
        assert_same(to_dgl(from_dgl(restricted)), g)
        assert restricted.formats() == before


def make_with_both_times(typed: bool) -> Any:
    g = make_hetero() if typed else make()
    for name in g.ntypes:
        g.nodes[name].data["node_time"] = torch.randint(99, (g.num_nodes(name),))
    for kind in g.canonical_etypes:
        g.edges[kind].data["edge_time"] = torch.randint(99, (g.num_edges(kind),))
    return g


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("name", ["node_time", "edge_time"])
def test_of_two_times_lists_are_sorted_by_the_one_that_is_named(typed: bool, name: str) -> None:
    g = make_with_both_times(typed)
    graph = from_dgl(g, time_attr=name)
    kind = g.canonical_etypes[0]
    sorted_by = graph.sorted_by if isinstance(graph, Graph) else graph[kind].sorted_by
    assert {one for layout, one in sorted_by if layout == "csc"} == {name}
    assert_same(to_dgl(graph), g)
    until = {n: torch.full((g.num_nodes(n),), 50) for n in g.ntypes}
    sampler = NeighborSampler([-1], time_attr=name, seed_time=until if typed else until["_N"])
    target = kind[2]
    _, _, (block,) = sampler.sample(
        GraphStorage(graph), {target: torch.arange(g.num_nodes(target))}
    )
    times = g.edges[kind].data.get(name)
    if name == "node_time":
        times = g.nodes[kind[0]].data[name][g.edges(etype=kind)[0]]
    assert set(block.edges[kind].data[dgl.EID].tolist()) == set(
        (times < 50).nonzero()[:, 0].tolist()
    )


def test_two_times_without_a_name() -> None:
    g = make_with_both_times(False)
    with pytest.raises(errors.InvalidArgumentError, match="name it, such as time_attr='edge_time'"):
        from_dgl(g)
    g.edata["stamp"] = g.edata["edge_time"] + 1
    with pytest.raises(
        errors.InvalidArgumentError, match="'stamp': the graph's 'edge_time' would be"
    ):
        from_dgl(g, time_attr="stamp")
    g.ndata["stamp"] = g.ndata["node_time"]
    with pytest.raises(errors.InvalidArgumentError, match="node data and of edge data: rename one"):
        from_dgl(g, time_attr="stamp")


def test_a_type_alone_keeps_its_name(tmp_path: Path) -> None:
    g = dgl.heterograph({("user", "follows", "user"): ([0, 1], [1, 2])})
    graph = from_dgl(g)
    assert isinstance(graph, HeteroGraph) and graph.edge_types == [("user", "follows", "user")]
    _, _, (block,) = NeighborSampler([-1]).sample(GraphStorage(graph), torch.tensor([2]))
    assert block.canonical_etypes == [("user", "follows", "user")]
    graph.save(tmp_path / "typed")
    assert_same(to_dgl(tmp_path / "typed"), g)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "takes a DGLGraph, got int"),
        (dgl.create_block(([0], [0]), 1, 1), "got a block"),
    ],
)
def test_what_is_no_graph(value: Any, text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=text):
        from_dgl(value)
    with pytest.raises(errors.InvalidArgumentError, match="time_attr = 'when' is no data"):
        from_dgl(make(), time_attr="when")
    with pytest.raises(errors.InvalidArgumentError, match="time_attr = 'x' must be one int64"):
        from_dgl(make(), time_attr="x")
