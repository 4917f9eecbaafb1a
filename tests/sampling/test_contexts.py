"""ContextSampler: the oracle's rows, the same for any threads and storage, nothing later."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import Ids, chi_square, examples

from aethergraph import DynamicHeteroGraph, HeteroGraph, HeteroNeighborSampler, errors
from aethergraph.sampling import ContextSampler
from aethergraph.sampling.contexts import Contexts
from aethergraph.testing import context_oracle

pytestmark = pytest.mark.any_python

keys = st.integers(0, 2**64 - 1)
FIELDS = ("node_type", "node", "parent", "depth", "link", "length")
BOUGHT, SOLD, FOLLOWS = ("order", "of", "user"), ("order", "for", "item"), ("user", "by", "user")
COUNTS = {"user": 40, "item": 15, "order": 300}


def make_graph(seed: int = 0, *, layout: Any = "csc", times: str = "node") -> HeteroGraph:
    rng = np.random.default_rng(seed)
    edges, edge_time = {}, {}
    for kind in (BOUGHT, SOLD, FOLLOWS):
        rows = np.flatnonzero(rng.random(COUNTS[kind[0]]) < 0.9)  # some keys are null
        edges[kind] = rows, rng.integers(0, COUNTS[kind[2]], len(rows))
        edge_time[kind] = rng.integers(0, 50, len(rows))
    node_time = {"order": rng.integers(0, 50, 300), "user": rng.integers(0, 20, 40)}
    by = {"node_time": node_time} if times == "node" else {"edge_time": edge_time}
    if times == "none":
        by = {}
    given: dict[str, Any] = {**by, "layout": layout, "add_reverse": layout == "csc"}
    return HeteroGraph.from_edges(edges, COUNTS, **given)


def links_of(sampler: ContextSampler) -> list[Any]:
    """Return the oracle's links, made from the edges alone."""
    graph, number = sampler.graph, {name: i for i, name in enumerate(sampler.graph.node_types)}
    out = []
    for link in sampler.links:
        kind = link.edge_type
        src, dst = graph[kind].edge_index()
        near, far = (src, dst) if link.to == "parents" else (dst, src)
        types = (kind[0], kind[2]) if link.to == "parents" else (kind[2], kind[0])
        lists: list[list[context_oracle.Entry]] = [[] for _ in range(graph.num_nodes[types[0]])]
        times: Any = None
        if sampler.time_attr == "node_time":
            own = graph[types[1]].node_time
            times = None if own is None else own[far]
        elif sampler.time_attr == "edge_time":
            times = graph[kind].edge_time
        order = np.arange(len(far)) if times is None else np.lexsort((far, times))
        if times is None:
            order = np.argsort(far, kind="stable")
        for edge in order:
            time = None if times is None else times[edge]
            lists[near[edge]].append(context_oracle.Entry(int(far[edge]), time))
        fanout = -1 if link.to == "parents" else sampler.fanout[kind]
        out.append((number[types[0]], number[types[1]], fanout, lists))
    return out


def assert_rows(
    found: Contexts, sampler: ContextSampler, seeds: list[tuple[int, int]], times: Any, key: int
) -> None:
    links = links_of(sampler)
    for i, seed in enumerate(seeds):
        rows = context_oracle.context(
            links, len(sampler.graph.node_types), seed, None if times is None else times[i],
            sampler.budget, key, latest=sampler.temporal_strategy == "last",
        )  # fmt: skip
        assert found.length[i] == len(rows)
        for column, name in enumerate(FIELDS[:5]):
            own = getattr(found, name)[i]
            assert own[: len(rows)].tolist() == [row[column] for row in rows], name
            assert (own[len(rows) :] == -1).all()


def assert_equal(one: Contexts, two: Contexts) -> None:
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)


@examples(60)
@given(
    seed=st.integers(0, 2**32), key=keys, budget=st.integers(1, 120), fanout=st.integers(0, 12),
    times=st.sampled_from(["node", "edge", "none"]), last=st.booleans(), strict=st.booleans(),
    data=st.data(),
)  # fmt: skip
def test_equal_to_the_oracle(
    seed: int, key: int, budget: int, fanout: int, times: str, last: bool, strict: bool,
    data: st.DataObject,
) -> None:  # fmt: skip
    graph = make_graph(seed, times=times)
    strategy: Any = "last" if last and times != "none" else "uniform"
    time_attr = None if times == "none" else f"{times}_time"
    strict = strict and times != "none"
    sampler = ContextSampler(
        graph, budget=budget, fanout=fanout, time_attr=time_attr, temporal_strategy=strategy,
        strict=strict,
    )  # fmt: skip
    seeds = data.draw(st.lists(st.integers(0, 39), min_size=1, max_size=4))
    when = data.draw(st.lists(st.integers(-1, 51), min_size=len(seeds), max_size=len(seeds)))
    given_times = None if time_attr is None else {"user": when}
    found = sampler.sample({"user": seeds}, given_times, key)
    number = graph.node_types.index("user")
    known = None if time_attr is None else [time - strict for time in when]
    assert_rows(found, sampler, [(number, s) for s in seeds], known, key)


def test_out_neighbours_stand_for_reverses() -> None:
    reverse, both = make_graph(3), make_graph(3, layout="both")
    options: dict[str, Any] = {"budget": 60, "fanout": 4, "time_attr": "node_time"}
    one, two = ContextSampler(reverse, **options), ContextSampler(both, **options)
    assert one.links == two.links
    seeds, times = {"order": np.arange(300)}, {"order": np.full(300, 30)}
    assert_equal(one.sample(seeds, times, 4), two.sample(seeds, times, 4))


def reload(graph: HeteroGraph, path: Path, stored: bool) -> HeteroGraph:
    """Return the graph as it is, or from its file, which does not say what it is sorted by."""
    graph.save(path)
    return HeteroGraph.load(path) if stored else graph


@pytest.mark.parametrize("stored", [False, True])
def test_parents_that_are_not_in_order_of_time(stored: bool, tmp_path: Path) -> None:
    """Out-edges of one row, of layout "both", are in no order of their targets' times."""
    likes = ("user", "likes", "item")
    edges = {likes: ([0, 0, 0], [0, 1, 2])}
    times = {"user": np.array([0]), "item": np.array([5, 50, 10])}
    made = HeteroGraph.from_edges(edges, node_time=times, layout="both")
    graph = reload(made, tmp_path / "both.aeg", stored)
    options: dict[str, Any] = {"budget": 8, "fanout": 8, "time_attr": "node_time"}
    message = r"the out-edges of node 0 are not sorted by 'node_time': .*add_reverse=True"
    for _ in range(2):
        with pytest.raises(errors.InvalidArgumentError, match=message) as caught:
            ContextSampler(graph, **options)
        assert caught.value.position == 0
        HeteroNeighborSampler(graph, [-1], time_attr="node_time")  # in-edges are in order
    reverse = HeteroGraph.from_edges(edges, node_time=times, add_reverse=True)
    sampler = ContextSampler(reload(reverse, tmp_path / "reverse.aeg", stored), **options)
    found = sampler.sample({"user": [0]}, {"user": [20]}, key=1)
    assert sorted(found.node[0, 1 : found.length[0]].tolist()) == [0, 2]


@pytest.mark.parametrize("stored", [False, True])
def test_order_of_out_edges_says_nothing_of_in_edges(stored: bool, tmp_path: Path) -> None:
    """Lists go by edge_time: those of parents, one each, are sorted by any time."""
    edges = {BOUGHT: ([0, 1, 2], [0, 0, 0])}
    made = HeteroGraph.from_edges(
        edges, node_time={"order": np.array([5, 50, 10]), "user": np.array([0])},
        edge_time={BOUGHT: np.array([1, 2, 3])}, layout="both",
    )  # fmt: skip
    graph = reload(made, tmp_path / "g.aeg", stored)
    message = "the in-edges of node 0 are not sorted by 'node_time'"
    for _ in range(2):
        with pytest.raises(errors.InvalidArgumentError, match=message):
            ContextSampler(graph, budget=8, fanout=8, time_attr="node_time")
        with pytest.raises(errors.InvalidArgumentError, match=message):
            HeteroNeighborSampler(graph, [-1], time_attr="node_time")
    sampler = ContextSampler(graph, budget=8, fanout=8, time_attr="edge_time")
    assert sampler.sample({"user": [0]}, {"user": [2]}).node[0, :3].tolist() == [0, 1, 0]


def test_an_attribute_of_parents_replaces_their_times() -> None:
    """It is looked at whenever a sampler is made, as it may change."""
    edges = {BOUGHT: ([0, 0, 1], [0, 1, 1])}
    graph = HeteroGraph.from_edges(
        edges, node_time={"user": np.array([1, 2])}, layout="both", add_reverse=False
    )
    options: dict[str, Any] = {"budget": 8, "fanout": 8, "time_attr": "node_time"}
    ContextSampler(graph, **options)
    graph["user"].attrs["node_time"] = np.array([2, 1])
    with pytest.raises(errors.InvalidArgumentError, match="the out-edges of node 0"):
        ContextSampler(graph, **options)


def test_many_parents_by_one_key_in_time() -> None:
    """Rows that refer to several others: nothing later than the seed, nothing earlier missing."""
    rng = np.random.default_rng(8)
    edges = {BOUGHT: (rng.integers(0, 30, 400), rng.integers(0, 40, 400))}
    counts, when = {"user": 40, "order": 30}, np.repeat([10, 25], 15)
    node_time = {"user": rng.integers(0, 50, 40), "order": np.zeros(30, int)}
    edge_time = {BOUGHT: rng.integers(0, 50, 400)}
    by_node = HeteroGraph.from_edges(edges, counts, node_time=node_time, add_reverse=True)
    by_edge = HeteroGraph.from_edges(edges, counts, edge_time=edge_time, layout="both")
    for graph, name in ((by_node, "node_time"), (by_edge, "edge_time")):
        times = node_time["user"][edges[BOUGHT][1]] if name == "node_time" else edge_time[BOUGHT]
        sampler = ContextSampler(graph, budget=100, fanout=0, time_attr=name)
        found = sampler.sample({"order": np.arange(30)}, {"order": when})
        for i in range(30):
            seen = (edges[BOUGHT][0] == i) & (times <= when[i])
            own = found.node[i, 1 : found.length[i]]
            assert sorted(own.tolist()) == sorted(set(edges[BOUGHT][1][seen].tolist()))


@pytest.mark.parametrize(("strategy", "times"), [("last", "node"), ("uniform", "edge")])
def test_threads_storage_and_other_seeds_do_not_show(
    tmp_path: Path, strategy: Any, times: str
) -> None:
    graph = make_graph(5, times=times)
    graph.save(tmp_path / "g.aeg")
    seeds, when = {"user": np.arange(40), "item": np.arange(15)}, np.arange(40) % 50
    given = {"user": when, "item": np.full(15, 25)}
    options: dict[str, Any] = {
        "budget": 70, "fanout": 5, "time_attr": f"{times}_time", "temporal_strategy": strategy,
    }  # fmt: skip
    expected = ContextSampler(graph, num_threads=1, **options).sample(seeds, given, 9)
    assert_equal(ContextSampler(graph, num_threads=2, **options).sample(seeds, given, 9), expected)
    for storage in ("memory", "mmap", "uring"):
        with HeteroGraph.load(tmp_path / "g.aeg", storage=storage) as other:
            assert_equal(ContextSampler(other, **options).sample(seeds, given, 9), expected)
    alone = ContextSampler(graph, **options).sample({"user": [17]}, {"user": [17]}, 9)
    np.testing.assert_array_equal(alone.node[0], expected.node[17])
    copy = pickle.loads(pickle.dumps(ContextSampler(graph, **options)))
    assert_equal(copy.sample(seeds, given, 9), expected)


def test_seeds_take_the_time_of_their_row() -> None:
    graph = make_graph(7)
    sampler = ContextSampler(graph, budget=30, fanout=3, time_attr="node_time")
    own = graph["order"].node_time
    assert own is not None
    seeds = np.arange(100)
    expected = sampler.sample({"order": seeds}, {"order": own[:100]}, 2)
    assert_equal(sampler.sample({"order": seeds}, key=2), expected)


MADE = ("item", "from", "shop")


def test_times_of_rows_and_of_edges_in_one_graph() -> None:
    """Each list is cut by the times that it has."""
    graph = HeteroGraph.from_edges(
        {BOUGHT: ([0, 1], [0, 0]), SOLD: ([0, 1], [0, 1]), MADE: ([0, 1], [0, 0])},
        {"user": 1, "order": 2, "item": 2, "shop": 1}, add_reverse=True,
    )  # fmt: skip
    graph["order"].attrs["t"] = np.array([2, 8])
    for kind in (MADE, ("shop", "rev_from", "item")):
        graph[kind].attrs["t"] = np.array([3, 6])
    sampler = ContextSampler(graph, budget=20, fanout=9, time_attr="t")
    names = graph.node_types
    expected = {
        1: {("user", 0)},
        2: {("user", 0), ("order", 0), ("item", 0)},
        5: {("user", 0), ("order", 0), ("item", 0), ("shop", 0)},
        7: {("user", 0), ("order", 0), ("item", 0), ("shop", 0), ("item", 1)},
        8: {("user", 0), ("order", 0), ("item", 0), ("shop", 0), ("item", 1), ("order", 1)},
    }
    for time, rows in expected.items():
        found = sampler.sample({"user": [0]}, {"user": [time]}, key=1)
        kinds = [names[kind] for kind in found.node_type[0, : found.length[0]]]
        own = found.node[0, : found.length[0]].tolist()
        assert set(zip(kinds, own, strict=True)) == rows, time


def test_times_of_rows_and_of_edges_that_lead_to_them() -> None:
    graph = star(2)
    for kind in graph.edge_types:
        graph[kind].attrs["t"] = np.array([5, 9])
    options: dict[str, Any] = {"budget": 9, "fanout": 5, "time_attr": "t"}
    found = ContextSampler(graph, **options).sample({"user": [0]}, {"user": [6]})
    assert found.length.tolist() == [2]
    graph["user"].attrs["t"] = np.array([1])
    graph["order"].attrs["t"] = np.array([5, 7])  # of rows they count, and not those of edges
    for time, length in ((6, 2), (7, 3)):
        found = ContextSampler(graph, **options).sample({"user": [0]}, {"user": [time]})
        assert found.length.tolist() == [length]


@pytest.mark.parametrize("timed", [BOUGHT, ("user", "rev_of", "order")])
def test_times_of_one_direction_alone(timed: Any) -> None:
    graph = star(2)
    graph[timed].attrs["t"] = np.array([5, 9])
    with pytest.raises(errors.InvalidArgumentError, match=rf"'{timed[1]}'.* its reverse has not"):
        ContextSampler(graph, budget=9, fanout=5, time_attr="t")


def star(children: int) -> HeteroGraph:
    edges = {BOUGHT: (np.arange(children), np.zeros(children, np.int64))}
    return HeteroGraph.from_edges(edges, {"user": 1, "order": children}, add_reverse=True)


@pytest.mark.shares
def test_children_and_their_order_are_uniform() -> None:
    """Every ordered pair of 9 children comes first equally often, taken whole or not."""
    for fanout in (4, 9):
        sampler = ContextSampler(star(9), budget=3, fanout=fanout)
        pairs: Ids = np.zeros(81, np.int64)
        for key in range(1800):
            first, second = sampler.sample({"user": [0]}, key=key).node[0, 1:3]
            pairs[first * 9 + second] += 1
        distinct = pairs.reshape(9, 9)[~np.eye(9, dtype=bool)]
        assert distinct.sum() == 1800
        assert abs(chi_square(distinct, 25.0)) < 4


def test_a_hub_is_cut_to_its_latest_children() -> None:
    times = np.arange(5000)[::-1].copy()
    edges = {BOUGHT: (np.arange(5000), np.zeros(5000, np.int64))}
    graph = HeteroGraph.from_edges(
        edges, {"user": 1, "order": 5000}, node_time={"order": times}, add_reverse=True
    )
    sampler = ContextSampler(graph, budget=10, fanout=6, time_attr="node_time")
    found = sampler.sample({"user": [0]}, {"user": [4000]})
    assert found.length.tolist() == [7]
    assert times[found.node[0, 1:7]].tolist() == [4000, 3999, 3998, 3997, 3996, 3995]


def test_a_live_graph_is_sampled_as_of_its_last_commit() -> None:
    graph = DynamicHeteroGraph({"user": 3, "order": 9}, [BOUGHT], layout="both")
    sampler = ContextSampler(graph, budget=5, fanout=9)
    assert sampler.sample({"user": [0]}, key=1).length.tolist() == [1]
    graph[BOUGHT].insert([4, 5], [0, 0])
    found = sampler.sample({"user": [0]}, key=1)
    assert sorted(found.node[0, :3].tolist()) == [0, 4, 5]


def test_no_seeds() -> None:
    found = ContextSampler(make_graph(), budget=7, fanout=2).sample({})
    assert found.node.shape == (0, 7)
    assert found.length.shape == (0,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 0}, r"budget = 0 is not in 1\.\.16777216"),
        ({"fanout": -1}, "fanout"),
        ({"fanout": {("a", "b", "c"): 1}}, r"fanout: \('a', 'b', 'c'\) is no edge type"),
        ({"references": [("a", "b", "c")]}, r"references: \('a', 'b', 'c'\) is no edge type"),
        ({"time_attr": "when"}, "time_attr = 'when' is no node or edge attribute"),
        ({"temporal_strategy": "last"}, "need time_attr"),
        ({"temporal_strategy": "first", "time_attr": "node_time"}, "temporal_strategy"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=message):
        ContextSampler(make_graph(), **{"budget": 5, "fanout": 2, **options})


def test_bad_seeds_and_times_are_named() -> None:
    sampler = ContextSampler(make_graph(), budget=5, fanout=2, time_attr="node_time")
    with pytest.raises(errors.OutOfRangeError, match=r"seeds\['user'\]\[1\] = 40") as caught:
        sampler.sample({"user": [0, 40]}, {"user": [1, 1]})
    assert caught.value.position == 1
    with pytest.raises(errors.InvalidArgumentError, match=r"times\['item'\]"):
        sampler.sample({"item": [0]})
    with pytest.raises(errors.InvalidArgumentError, match="'shop' is no node type"):
        sampler.sample({"shop": [0]})
    for seeds in ({"order": [0]}, {"order": [0], "user": []}):
        with pytest.raises(errors.InvalidArgumentError, match=r"times\['user'\] has 1 rows, but"):
            sampler.sample(seeds, {"user": [3]})
    assert sampler.sample({"order": [0]}, {"user": []}).length.tolist() != [0]
    with pytest.raises(errors.LayoutError, match="out-neighbours are not stored"):
        ContextSampler(HeteroGraph.from_edges({BOUGHT: ([0], [0])}), budget=5, fanout=2)
