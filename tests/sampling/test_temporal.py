"""Sampling in time: equal to the oracle, and never later than the seed."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import Ids, assert_same_subgraph, edge_lists, examples

from aethergraph import Graph, HeteroGraph, HeteroNeighborSampler, NeighborSampler, errors
from aethergraph.testing import oracle

keys = st.integers(0, 2**64 - 1)
INT_TIMES = st.one_of(st.integers(-3, 3), st.sampled_from([-(2**63), -(2**63) + 1, 2**63 - 1]))
FLOAT_TIMES = st.sampled_from([-np.inf, -1e300, -2.5, -1.0, -0.0, 0.0, 1e-310, 1.0, 2.5, np.inf])


def timed_graph(edges: tuple[int, Ids, Ids], of: str, floats: bool, data: st.DataObject) -> Graph:
    num_nodes, src, dst = edges
    count = num_nodes if of == "node_time" else len(src)
    times = FLOAT_TIMES if floats else INT_TIMES
    values = data.draw(st.lists(times, min_size=count, max_size=count))
    dtype = np.float64 if floats else np.int64
    return Graph.from_edges(num_nodes, src, dst, **{of: np.array(values, dtype)})


def just_before(time: float) -> float:
    """The largest time below; for minus infinity none."""
    if isinstance(time, int):
        return time - 1
    return math.nan if time == -math.inf else math.nextafter(time, -math.inf)


@examples(100)
@given(
    edges=edge_lists(),
    of=st.sampled_from(["edge_time", "node_time"]),
    floats=st.booleans(),
    fanouts=st.lists(st.integers(-1, 6), max_size=3),
    key=keys,
    replace=st.booleans(),
    strategy=st.sampled_from(["uniform", "last"]),
    strict=st.booleans(),
    window=st.one_of(st.none(), st.integers(0, 3)),
    weighted=st.booleans(),
    threads=st.sampled_from([1, 2, 8]),
    data=st.data(),
)
def test_equal_to_the_oracle_and_never_later_than_the_seed(
    edges: tuple[int, Ids, Ids], of: str, floats: bool, fanouts: list[int], key: int,
    replace: bool, strategy: Any, strict: bool, window: Any, weighted: bool, threads: int,
    data: st.DataObject,
) -> None:  # fmt: skip
    graph = timed_graph(edges, of, floats, data)
    weight = None
    if weighted:
        rows = st.lists(st.integers(0, 3), min_size=graph.num_edges, max_size=graph.num_edges)
        graph.edge_attrs["w"] = weight = np.array(data.draw(rows), np.float64)
    node = st.integers(0, max(0, graph.num_nodes - 1))
    seeds = np.array(data.draw(st.lists(node, max_size=6 * (graph.num_nodes > 0))), np.int64)
    sampler = NeighborSampler(
        graph, fanouts, replace=replace, time_attr=of, temporal_strategy=strategy, strict=strict,
        window=window, num_threads=threads, weight_attr="w" if weighted else None,
    )  # fmt: skip
    times = graph.edge_time if of == "edge_time" else graph.node_time
    assert times is not None
    dtype = np.float64 if floats else np.int64
    if of == "node_time" and data.draw(st.booleans()):
        own, given_time = times[seeds], None
    else:
        source = FLOAT_TIMES if floats else INT_TIMES
        drawn = data.draw(st.lists(source, min_size=len(seeds), max_size=len(seeds)))
        own = given_time = np.array(drawn, dtype)
    lowest = -(2**63)
    if strict and not floats and (own == lowest).any():
        with pytest.raises(errors.InvalidArgumentError, match="no time is below"):
            sampler.sample(seeds, key, seed_time=given_time)
        return
    # Python's own numbers: no rounding, no wrapping.
    bounds = [float(t) if floats else int(t) for t in own]
    until = [just_before(t) for t in bounds] if strict else bounds
    since = (
        None if window is None else [max(t - window, -np.inf if floats else lowest) for t in bounds]
    )
    expected = oracle.sample(
        *graph.csc(), seeds, fanouts, key, replace=replace, disjoint=True,
        latest=strategy == "last", since=since, until=until, weight=weight,
        **{"time" if of == "edge_time" else of: times},
    )  # fmt: skip
    found = sampler.sample(seeds, key, seed_time=given_time)
    assert_same_subgraph(found, expected)
    assert found.batch is not None
    seen = times[found.edge] if of == "edge_time" else times[found.node[found.row]]
    limit = own[found.batch[found.col]]
    assert (seen < limit).all() if strict else (seen <= limit).all()


@pytest.mark.parametrize(
    ("of", "dtype", "num_nodes", "window"),
    [
        ("edge_time", np.int64, 1000, 200), ("edge_time", np.float64, 1000, None),
        ("node_time", np.int64, 1000, None), ("node_time", np.float64, 1000, 200),
        # times that no cache holds
        ("node_time", np.int64, 1 << 18, 200), ("node_time", np.float64, 1 << 18, None),
    ],
)  # fmt: skip
def test_lists_of_every_length_are_cut_where_their_times_say(
    of: str, dtype: Any, num_nodes: int, window: int | None
) -> None:
    """Short lists are looked at as a whole and long ones searched, several hundred together."""
    rng = np.random.default_rng(3)
    lengths = np.concatenate(
        [np.arange(40), [700, 0, 65, 1, 256, 16, 17, 8, 9], np.arange(300) % 23]
    )
    dst = np.repeat(np.arange(len(lengths)), lengths)
    src = rng.integers(0, num_nodes, len(dst))
    times = rng.integers(0, 1000, len(dst) if of == "edge_time" else num_nodes).astype(dtype)
    graph = Graph.from_edges(num_nodes, src, dst, **{of: times})
    own = times if of == "edge_time" else times[src]
    seeds = rng.permutation(len(lengths))
    limits = rng.integers(0, 1000, len(seeds))
    for strategy in ("uniform", "last"):
        sampler = NeighborSampler(
            graph, [-1], time_attr=of, temporal_strategy=strategy, window=window
        )
        sub = sampler.sample(seeds, seed_time=limits)
        found = sorted(zip(sub.batch[sub.row].tolist(), sub.node[sub.row].tolist(), strict=True))
        expected = []
        for number, (seed, limit) in enumerate(zip(seeds, limits, strict=True)):
            seen = (dst == seed) & (own <= limit)
            if window is not None:
                seen &= own >= limit - window
            expected += [(number, one) for one in src[seen].tolist()]
        assert found == sorted(expected)


def test_edges_are_sorted_by_their_times_and_ties_keep_their_order() -> None:
    graph = Graph.from_edges(
        4, [0, 1, 2, 3, 0], [3, 3, 3, 3, 1], edge_time=[5, 1, 5, 0, 9], keep_order=True,
        edge_attrs={"row": np.arange(5)},
    )  # fmt: skip
    assert graph.in_neighbors(3).tolist() == [3, 1, 0, 2]
    assert graph.edge_time is not None and graph.edge_order is not None
    assert graph.edge_time[graph.in_edges(3)].tolist() == [0, 1, 5, 5]
    assert graph.edge_order.tolist() == graph.edge_attrs["row"].array.tolist() == [4, 3, 1, 0, 2]
    by_node = Graph.from_edges(4, [0, 1, 2, 2], [3, 3, 3, 0], node_time=[7, -2, 3, 0])
    assert by_node.in_neighbors(3).tolist() == [1, 2, 0]


@pytest.mark.parametrize("name", ["src", "dst"])
def test_bad_ids_are_named_by_their_input_row(name: str) -> None:
    ids = {"src": [0, 1, 2], "dst": [0, 1, 2]}
    ids[name][1] = 9
    for times in ({"edge_time": [3, 2, 1]}, {"node_time": [3, 2, 1]}):
        with pytest.raises(errors.OutOfRangeError, match=rf"{name}\[1\] = 9") as caught:
            Graph.from_edges(3, ids["src"], ids["dst"], **times)  # type: ignore[arg-type]
        assert (caught.value.position, caught.value.value) == (1, 9)


def test_lists_out_of_order_are_refused(tmp_path: Path, num_threads: int) -> None:
    nodes = 9000
    src = np.arange(3 * nodes) % nodes
    dst = np.repeat(np.arange(nodes), 3)
    graph = Graph.from_edges(nodes, src, dst, edge_attrs={"when": np.arange(3 * nodes)})
    NeighborSampler(graph, [2], time_attr="when")
    for node in (8999, 5000):
        when = graph.edge_attrs["when"].array.copy()
        when[3 * node + 1] = 10**9
        graph.edge_attrs["when"] = when
        with pytest.raises(errors.InvalidArgumentError, match="not sorted by 'when'") as caught:
            NeighborSampler(graph, [2], time_attr="when")
        assert caught.value.position == node
    NeighborSampler(graph, [2], time_attr="when", is_sorted=True)
    with pytest.raises(errors.InvalidArgumentError, match="is_sorted must be True or False"):
        NeighborSampler(graph, [2], is_sorted="when")  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_an_infinite_window_is_none(dtype: Any) -> None:
    times = np.array([1, 2, 5], dtype)
    ends = [2, 5] if dtype is np.int64 else [2, np.inf]
    if dtype is np.float64:
        times[[0, 2]] = -np.inf, np.inf
    graph = Graph.from_edges(4, [1, 2, 3], [0, 0, 0], edge_time=times)
    found = []
    for window in (None, np.inf):
        sampler = NeighborSampler(graph, [-1], time_attr="edge_time", window=window)
        with np.errstate(invalid="raise"):
            found.append(sampler.sample([0, 0], 1, seed_time=np.array(ends, dtype)))
    assert_same_subgraph(*found)
    assert found[0].num_edges == 5


def test_a_window_may_begin_before_all_times() -> None:
    """A window that begins before the least integer is cut off, and does not wrap round."""
    least = np.iinfo(np.int64).min
    graph = Graph.from_edges(2, [0], [1], edge_time=[least + 1])
    sampler = NeighborSampler(graph, [1], time_attr="edge_time", window=10)
    assert len(sampler.sample([1], seed_time=[least + 2]).edge) == 1


@pytest.mark.parametrize("window", [2**63 - 2, 2**63 - 1, 2**63, 2**63 + 9, 2**64])
def test_a_window_may_be_wider_than_int64(window: int) -> None:
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    times = [least, least + 9, -1, 0, 9]
    graph = Graph.from_edges(6, [1, 2, 3, 4, 5], [0] * 5, edge_time=times)
    sampler = NeighborSampler(graph, [-1], time_attr="edge_time", window=window)
    for until in (0, 9, most):
        found = sampler.sample([0], seed_time=[until]).edge
        expected = [time for time in times if int(until) - window <= time <= until]
        assert sorted(graph.edge_values["edge_time"].gather(found).tolist()) == expected


def test_options_that_are_refused() -> None:
    graph = Graph.from_edges(3, [0, 1], [2, 2], edge_time=[1, 2], node_time=[0.5, 1.5, 2.5])
    graph.node_attrs["flag"] = np.array([True, False, True])
    bad: list[tuple[dict[str, Any], str]] = [
        ({"time_attr": "when"}, "'when' is no node or edge attribute"),
        ({"time_attr": "flag"}, "holds bool, not numbers"),
        ({"time_attr": "edge_time", "temporal_strategy": "newest"}, "'newest' is not one of"),
        ({"time_attr": "edge_time", "window": -1}, "window = -1"),
        (
            {"time_attr": "edge_time", "window": np.timedelta64(1, "D")},
            "a number, in the unit of the graph's times if they have one, got timedelta64",
        ),
        ({"time_attr": "edge_time", "window": float("nan")}, "window = nan"),
    ]
    for options, text in bad:
        with pytest.raises(errors.InvalidArgumentError, match=text):
            NeighborSampler(graph, [1], **options)
    plain, edge = NeighborSampler(graph, [1]), NeighborSampler(graph, [1], time_attr="edge_time")
    by_node = NeighborSampler(graph, [1], time_attr="node_time")
    calls: list[tuple[NeighborSampler, Any, str]] = [
        (plain, [1], "needs a sampler with time_attr"),
        (edge, None, "seed_time is needed"),
        (edge, [1.5], "the times are int64"),
        (edge, [1, 2], "seed_time has 2 rows"),
        (edge, [[1]], "vector of numbers"),
        (by_node, [float("nan")], r"seed_time\[0\] = nan"),
    ]
    for sampler, seed_time, text in calls:
        with pytest.raises(errors.InvalidArgumentError, match=text):
            sampler.sample([2], key=0, seed_time=seed_time)


def test_unsigned_times_beyond_int64_do_not_wrap() -> None:
    graph = Graph.from_edges(3, [0, 1], [2, 2])
    graph.edge_attrs["t"] = np.array([1, 2**63], np.uint64)
    with pytest.raises(errors.OutOfRangeError, match=r"t\[1\] = 9223372036854775808"):
        NeighborSampler(graph, [1], time_attr="t")


@pytest.mark.own_share
@pytest.mark.parametrize("large", [[3, 2**63], [3, 2**70], np.array([3, 2**64 - 1], np.uint64)])
def test_times_of_seeds_beyond_int64(large: Any) -> None:
    """They are refused as ids are: they would wrap to times before all others."""
    graph = Graph.from_edges(4, [0, 1], [2, 3], edge_time=[5, 6])
    typed = HeteroGraph.from_edges(
        {("a", "to", "a"): ([0, 1], [2, 3])}, {"a": 4}, edge_time={("a", "to", "a"): [5, 6]}
    )
    one = NeighborSampler(graph, [2], time_attr="edge_time")
    many = HeteroNeighborSampler(typed, [2], time_attr="edge_time")
    words = rf"= {int(large[1])} is above 2\*\*63 - 1"
    calls: list[Callable[[], object]] = [
        lambda: one.sample([2, 3], seed_time=large),
        lambda: many.sample({"a": [2, 3]}, seed_time={"a": large}),
    ]
    for call in calls:
        with pytest.raises(errors.OutOfRangeError, match=words) as found:
            call()
        assert (found.value.position, found.value.value) == (1, int(large[1]))
    last = np.array([2**63 - 1] * 2, np.uint64)
    assert one.sample([2, 3], seed_time=last).edge.tolist() == [0, 1]
