"""One key draws the same from a live graph, its snapshot and their static copy, bit for bit."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.live import Form, Model, check, insert, make_live, random_edges
from support.strategies import assert_same_graph, examples

from aethergraph import (
    DynamicGraph,
    DynamicHeteroGraph,
    Graph,
    HeteroGraph,
    HeteroNeighborSampler,
    HGTSampler,
    NeighborSampler,
    RandomWalker,
    errors,
)
from aethergraph.sampling.walks import random_fanout

pytestmark = pytest.mark.any_python

NODES = 40
FORMS = {
    "id": Form("id"),
    "time": Form("time"),
    "timed": Form("time", timed=True),
    "id weighted": Form("id", weighted=True, noted=True),
    "timed weighted": Form("time", timed=True, weighted=True, noted=True),
}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"replace": True},
    {"disjoint": True},
    {"disjoint": True, "replace": True},
    {"subgraph_type": "induced"},
    {"subgraph_type": "bidirectional"},
    {"subgraph_type": "induced", "disjoint": True},
    {"layered": True},
]
TIMED: list[dict[str, Any]] = [
    {},
    {"temporal_strategy": "last"},
    {"strict": True},
    {"window": 5},
    {"window": 3, "temporal_strategy": "last", "strict": True},
]


def filled(form: Form, seed: int = 1) -> tuple[DynamicGraph, Model]:
    """Return a live graph that edges were inserted into and deleted from, and what it holds."""
    graph, model = make_live(form, NODES), Model(form, NODES)
    for part in range(3):
        edges = random_edges(NODES, 500, seed + part)
        assert insert(graph, form, edges) == model.insert(edges)
        pairs = [(edge.src, edge.dst) for edge in edges[::7]]
        src, dst = [u for u, _ in pairs], [v for _, v in pairs]
        assert graph.delete_edges(src, dst) == model.delete(pairs)
    return graph, model


def order_of(copy: Any, live: Any) -> NDArray[np.int64]:
    """Return the edge ids of a live graph by those of its static copy."""
    return np.asarray(live.edge_list()[2][copy.edge_order])


def assert_same(found: Any, wanted: Any, edge: Any) -> None:
    """Compare samples; ``edge`` are the edges of ``wanted`` in the live graph's ids."""
    for name in ("node", "row", "col", "batch"):
        a, b = getattr(found, name), getattr(wanted, name)
        assert (a is None) == (b is None), name
        if a is not None:
            np.testing.assert_array_equal(a, b, err_msg=name)
    np.testing.assert_array_equal(found.edge, edge, err_msg="edge")
    assert found.num_sampled_nodes == wanted.num_sampled_nodes
    assert found.num_sampled_edges == wanted.num_sampled_edges


@pytest.mark.parametrize("layout", ["csc", "csr", "both"])
@pytest.mark.parametrize("name", FORMS)
def test_the_static_copy_has_the_same_lists(name: str, layout: Any) -> None:
    form = Form(**{**vars(FORMS[name]), "layout": layout})
    graph, model = filled(form)
    model.rows = np.random.default_rng(0).random((NODES, 2)).tolist()
    graph.features = np.array(model.rows)
    copy = graph.to_graph()
    assert isinstance(copy, Graph) and copy.layout == layout
    ids = order_of(copy, graph)
    assert sorted(ids.tolist()) == sorted(model.edges)
    for own, neighbors, edges in (
        ("csc", copy.in_neighbors, copy.in_edges),
        ("csr", copy.neighbors, copy.out_edges),
    ):
        if layout in (own, "both"):
            lists = model.lists(own)
            for node, expected in enumerate(lists):
                found = zip(neighbors(node).tolist(), ids[edges(node)].tolist(), strict=True)
                assert list(found) == expected, own
    wanted = [model.edges[i] for i in ids.tolist()]
    if form.timed:
        assert copy.edge_time is not None
        assert copy.edge_time.tolist() == [edge.time for edge in wanted]
    if form.weighted:
        assert copy.edge_weight is not None
        assert copy.edge_weight.tolist() == [edge.weight for edge in wanted]
    if form.noted:
        assert copy.edge_attrs["note"].array.tolist() == [edge.note for edge in wanted]
    assert copy.features is not None and copy.features.array.tolist() == model.rows


@pytest.mark.parametrize("name", ["id", "timed weighted"])
def test_the_static_copy_is_saved(name: str, tmp_path: Path) -> None:
    graph, model = filled(FORMS[name])
    copy = graph.to_graph()
    copy.save(tmp_path / "graph.aeg")
    loaded = Graph.load(tmp_path / "graph.aeg")
    loaded.verify()
    assert_same_graph(loaded, copy)
    ids = loaded.edge_attrs["edge_id"].gather(range(len(model.edges)))
    assert sorted(ids.tolist()) == sorted(model.edges)
    many = typed("time")
    many.to_graph().save(tmp_path / "typed.aeg")
    loaded_many = HeteroGraph.load(tmp_path / "typed.aeg")
    loaded_many.verify()
    assert loaded_many.num_edges == many.num_edges


@pytest.mark.parametrize("name", FORMS)
def test_neighbor_sampler(name: str) -> None:
    graph, model = filled(FORMS[name])
    copy, snapshot = graph.to_graph(), graph.snapshot()
    ids, form = order_of(copy, graph), FORMS[name]
    rng = np.random.default_rng(5)
    seeds = rng.integers(0, NODES, 12)
    more = [{}, {"weight_attr": "edge_weight"}][: 1 + form.weighted]
    ways = [{**one, **two} for one in OPTIONS for two in more]
    if form.timed:
        ways += [
            {**one, **two, "time_attr": "edge_time"} for one in TIMED for two in [*more, OPTIONS[1]]
        ]
    for key, (options, fanouts) in enumerate(itertools.product(ways, ([3, 2], [-1, 4], [2]))):
        given_time = rng.integers(-20, 20, 12) if "time_attr" in options else None
        wanted = NeighborSampler(copy, fanouts, **options).sample(seeds, key, seed_time=given_time)
        for threads, one in ((1, graph), (2, snapshot)):
            sampler = NeighborSampler(one, fanouts, num_threads=threads, **options)
            found = sampler.sample(seeds, key, seed_time=given_time)
            assert_same(found, wanted, ids[wanted.edge])
    check(graph, model)


@pytest.mark.parametrize("name", FORMS)
def test_edges_that_are_left_out(name: str) -> None:
    graph, _ = filled(FORMS[name])
    copy, snapshot = graph.to_graph(), graph.snapshot()
    ids = order_of(copy, graph)
    seeds = np.arange(NODES)
    for options in OPTIONS:
        own = NeighborSampler(copy, [4, 3], **options)
        out = np.unique(own.sample(seeds, 1).edge)[::3]
        wanted = own.sample(seeds, 1, exclude=out)
        for one in (graph, snapshot):
            sampler = NeighborSampler(one, [4, 3], **options)
            found = sampler.sample(seeds, 1, exclude=ids[out])
            assert_same(found, wanted, ids[wanted.edge])
            many = list(sampler.sample_many([seeds, seeds], [1, 1], exclude=[ids[out], None]))
            assert_same(many[0], wanted, ids[wanted.edge])
            assert_same(many[1], sampler.sample(seeds, 1), many[1].edge)
            with pytest.raises(errors.OutOfRangeError, match=r"exclude\[0\] = 999999"):
                sampler.sample(seeds, 1, exclude=[999999])


@pytest.mark.parametrize("name", ["id", "time", "timed"])
def test_walks_and_fanouts(name: str) -> None:
    graph, _ = filled(FORMS[name])
    copy, snapshot = graph.to_graph(), graph.snapshot()
    starts = np.arange(NODES).repeat(3)
    ways: list[dict[str, Any]] = [
        {}, {"direction": "in"}, {"p": 0.25, "q": 4.0}, {"p": 4.0, "q": 0.5, "direction": "in"},
        {"restart": 0.3, "pad": True}, {"q": 0.5, "edge_table": False, "num_threads": 2},
    ]  # fmt: skip
    for options in ways:
        wanted = RandomWalker(copy, **options).walk(starts, 12, key=3)
        for one in (graph, snapshot):
            found = RandomWalker(one, **options).walk(starts, 12, key=3)
            np.testing.assert_array_equal(found, wanted)
    for direction, replace in itertools.product(("in", "out"), (False, True)):
        for k in (0, 1, 3, 50):
            draw: dict[str, Any] = {"replace": replace, "direction": direction, "key": k}
            table = random_fanout(copy, starts, k, **draw)
            for one in (graph, snapshot):
                np.testing.assert_array_equal(random_fanout(one, starts, k, **draw), table)


def test_what_goes_by_position_is_refused_and_says_what_to_do() -> None:
    graph, _ = filled(FORMS["id weighted"])
    for one in (graph, graph.snapshot()):
        with pytest.raises(errors.UnsupportedError, match="to_graph"):
            RandomWalker(one, weighted=True).walk([0], 2)
        with pytest.raises(errors.UnsupportedError, match="to_graph"):
            RandomWalker(one, q=2.0, edge_table=True).walk([0], 2)


@examples(40)
@given(
    name=st.sampled_from(sorted(FORMS)),
    changes=st.lists(
        st.tuples(st.sampled_from(["insert", "delete", "nodes"]), st.integers(0, 2**32)), max_size=6
    ),
    fanouts=st.lists(st.integers(-1, 5), max_size=3),
    options=st.sampled_from(OPTIONS),
    key=st.integers(0, 2**64 - 1),
)
def test_one_sampler_draws_from_every_commit(
    name: str, changes: list[tuple[str, int]], fanouts: list[int], options: Any, key: int
) -> None:
    form = FORMS[name]
    graph = make_live(form, 5)
    sampler = NeighborSampler(graph, fanouts, **options)
    moving = NeighborSampler(graph.snapshot(), fanouts, **options)
    nodes, kept = 5, []
    for what, seed in changes:
        edges = random_edges(nodes, 60, seed)
        if what == "insert":
            insert(graph, form, edges)
        elif what == "delete":
            graph.delete_edges([edge.src for edge in edges], [edge.dst for edge in edges])
        else:
            nodes += len(graph.add_nodes(seed % 4))
        seeds = np.arange(nodes)[:: 1 + seed % 3]
        copy = graph.to_graph()
        wanted = NeighborSampler(copy, fanouts, **options).sample(seeds, key)
        assert_same(sampler.sample(seeds, key), wanted, order_of(copy, graph)[wanted.edge])
        moving.retarget(graph.snapshot())
        assert_same(moving.sample(seeds, key), wanted, order_of(copy, graph)[wanted.edge])
        kept.append((graph.snapshot(), seeds, wanted, order_of(copy, graph)))
    for snapshot, seeds, wanted, ids in kept:
        found = NeighborSampler(snapshot, fanouts, **options).sample(seeds, key)
        assert_same(found, wanted, ids[wanted.edge])


@pytest.mark.parametrize("layout", ["csc", "csr", "both"])
@pytest.mark.parametrize("timed", [False, True])
def test_from_a_static_graph_and_back(layout: Any, timed: bool) -> None:
    rng = np.random.default_rng(3)
    src, dst = rng.integers(0, 30, (2, 400))
    time = rng.integers(0, 9, 400).astype("datetime64[s]") if timed else None
    static = Graph.from_edges(
        30, src, dst, layout=layout, edge_time=time, edge_weight=rng.random(400, np.float32),
        edge_attrs={"e": rng.random((400, 2))},
    )  # fmt: skip
    static.features = rng.random((30, 3), np.float32)
    live = DynamicGraph.from_graph(static)
    assert (live.num_nodes, live.num_edges, live.layout) == (30, 400, layout)
    assert live.order == "time" and live.time_unit == static.time_unit == ("s" if timed else None)
    back = live.to_graph()
    for a, b in zip(live.edge_index(), static.edge_index(), strict=True):
        np.testing.assert_array_equal(a, b)  # edges keep their ids
    for one in (live, live.snapshot(), back):
        for node in range(30):
            if layout != "csr":
                assert one.in_neighbors(node).tolist() == static.in_neighbors(node).tolist()
                assert one.in_edges(node).tolist() == static.in_edges(node).tolist()
            if layout == "csr":
                assert one.neighbors(node).tolist() == static.neighbors(node).tolist()
            if layout == "both":  # ids are the places of in-edges
                own = np.sort(static.out_edges(node))
                if not timed:
                    assert one.out_edges(node).tolist() == own.tolist()
                assert np.sort(one.out_edges(node)).tolist() == own.tolist()
        np.testing.assert_array_equal(
            one.edge_attrs["e"].gather(range(400)), static.edge_attrs["e"].array
        )
        assert one.features is not None and static.features is not None
        np.testing.assert_array_equal(one.features.gather(range(30)), static.features.array)
        for name, rows in static.edge_values.items():
            np.testing.assert_array_equal(one.edge_values[name].gather(range(400)), rows.array)
    assert order_of(back, live).tolist() == list(range(400))


def test_from_a_static_graph_sorted_by_id() -> None:
    rng = np.random.default_rng(3)
    src, dst = rng.integers(0, 30, (2, 400))
    live = DynamicGraph.from_graph(Graph.from_edges(30, src, dst), order="id", layout="both")
    pairs = sorted(set(zip(src.tolist(), dst.tolist(), strict=True)))
    assert live.num_edges == len(pairs)
    for node in range(30):
        assert live.neighbors(node).tolist() == [v for u, v in pairs if u == node]
    timed = Graph.from_edges(3, [0], [1], edge_time=[5])
    with pytest.raises(errors.InvalidArgumentError, match="which order='id' does not keep"):
        DynamicGraph.from_graph(timed, order="id")
    floats = Graph.from_edges(3, [0], [1], edge_time=[0.5])
    with pytest.raises(errors.InvalidArgumentError, match="live graphs keep int64"):
        DynamicGraph.from_graph(floats)


# ---- several types -------------------------------------------------------------------------------

USER, POST = "user", "post"
VOTES, WRITES, ANSWERS = (USER, "votes", POST), (USER, "writes", POST), (POST, "answers", POST)
BACK = (POST, "back", USER)
KINDS = [VOTES, WRITES, ANSWERS, BACK]


def typed(order: Any = "time", timed: bool = True, weighted: bool = True) -> DynamicHeteroGraph:
    """Return a live graph of two node types and four edge types, with gaps in the edge ids."""
    graph = DynamicHeteroGraph(
        {USER: 20, POST: 30}, KINDS, 8, order=order, edge_time="int64" if timed else None,
        edge_weight="float32" if weighted else None,
    )  # fmt: skip
    rng = np.random.default_rng(9)
    for kind in KINDS:
        counts = [20 if end == USER else 30 for end in (kind[0], kind[2])]
        src, dst = (rng.integers(0, count, 300) for count in counts)
        columns: dict[str, Any] = {}
        if timed:
            columns["time"] = rng.integers(-20, 20, 300)
        if weighted:
            columns["weight"] = rng.integers(0, 3, 300)
        graph[kind].insert(src, dst, **columns)
        graph[kind].delete(src[::9], dst[::9])
    return graph


def assert_same_typed(found: Any, wanted: Any, copy: HeteroGraph, live: Any) -> None:
    for kind in KINDS:
        np.testing.assert_array_equal(found.row[kind], wanted.row[kind])
        np.testing.assert_array_equal(found.col[kind], wanted.col[kind])
        own = order_of(copy[kind], live[kind])[wanted.edge[kind]]
        np.testing.assert_array_equal(found.edge[kind], own)
    for name in (USER, POST):
        np.testing.assert_array_equal(found.node[name], wanted.node[name])
        assert (found.batch is None) == (wanted.batch is None)
        if wanted.batch is not None:
            np.testing.assert_array_equal(found.batch[name], wanted.batch[name])
    assert found.num_sampled_nodes == wanted.num_sampled_nodes
    assert found.num_sampled_edges == wanted.num_sampled_edges


@pytest.mark.parametrize("order", ["id", "time"])
def test_typed_samplers(order: str) -> None:
    graph = typed(order, timed=order == "time")
    copy, snapshot = graph.to_graph(), graph.snapshot()
    rng = np.random.default_rng(2)
    seeds = {POST: rng.integers(0, 30, 6), USER: rng.integers(0, 20, 5)}
    ways = [*OPTIONS, *({**one, "weight_attr": "edge_weight"} for one in OPTIONS[:3])]
    if order == "time":
        ways += [{**one, "time_attr": "edge_time"} for one in TIMED]
    else:
        ways += [{"sample_direction": "backward"}, {"sample_direction": "both"}]
        ways += [{"sample_direction": "both", "disjoint": True}]
    for key, options in enumerate(ways):
        times = None
        if "time_attr" in options:
            times = {name: rng.integers(-20, 20, len(own)) for name, own in seeds.items()}
        wanted = HeteroNeighborSampler(copy, [3, 2], **options).sample(seeds, key, seed_time=times)
        for threads, one in ((1, graph), (2, snapshot)):
            sampler = HeteroNeighborSampler(one, [3, 2], num_threads=threads, **options)
            assert_same_typed(sampler.sample(seeds, key, seed_time=times), wanted, copy, graph)


@pytest.mark.parametrize("order", ["id", "time"])
def test_typed_exclusion_and_hgt(order: str) -> None:
    graph = typed(order, timed=False)
    copy, snapshot = graph.to_graph(), graph.snapshot()
    seeds = {POST: np.arange(30), USER: np.arange(20)}
    own = HeteroNeighborSampler(copy, [3, 2])
    out = {kind: np.unique(edges)[::2] for kind, edges in own.sample(seeds, 4).edge.items()}
    wanted = own.sample(seeds, 4, exclude=out)
    own_ids = {kind: order_of(copy[kind], graph[kind])[edges] for kind, edges in out.items()}
    drawn = HGTSampler(copy, [8, 5]).sample({POST: [1, 2, 3]}, 6)
    for one in (graph, snapshot):
        found = HeteroNeighborSampler(one, [3, 2]).sample(seeds, 4, exclude=own_ids)
        assert_same_typed(found, wanted, copy, graph)
        assert_same_typed(HGTSampler(one, [8, 5]).sample({POST: [1, 2, 3]}, 6), drawn, copy, graph)
