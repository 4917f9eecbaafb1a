"""check_no_leak on values that were written after the seed's time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from aethergraph import (
    DynamicGraph,
    Graph,
    HeteroGraph,
    HeteroNeighborSampler,
    LiveFeatureTable,
    NeighborSampler,
)
from aethergraph.cli.app import app
from aethergraph.errors import InvalidArgumentError
from aethergraph.testing import LeakError, check_no_leak
from aethergraph.testing.leak_rows import compare

BUYS, REV = ("user", "buys", "item"), ("item", "rev_buys", "user")
DAY = np.datetime64("2024-01-01", "s")


def day(number: Any) -> Any:
    return DAY + np.asarray(number).astype("timedelta64[D]")


def counts(number: Any, unit: str) -> Any:
    return day(number).astype(f"datetime64[{unit}]").view(np.int64)


def shop() -> HeteroGraph:
    """Return 5 users who each bought 4 items, on days 0 to 19; users have no times."""
    users, items = np.repeat(np.arange(5), 4), np.arange(20)
    edges = {BUYS: (users, items), REV: (items, users)}
    times = {kind: day(items) for kind in edges}
    return HeteroGraph.from_edges(edges, {"user": 5, "item": 20}, edge_time=times)


def live_rows(count: int, unit: Any, written: int) -> LiveFeatureTable:
    table = LiveFeatureTable.create(None, count, 2, version_unit=unit, missing="zero")
    table.put_many(np.arange(count), np.ones((count, 2), "f4"), counts(written, unit))
    return table


def sampled(graph: HeteroGraph, seeds: list[int], days: list[int], strict: bool = False) -> Any:
    sampler = HeteroNeighborSampler(graph, [4, 4], time_attr="edge_time", strict=strict)
    limits = counts(days, "s")
    return sampler.sample({"user": seeds}, 1, seed_time={"user": limits}), {"user": limits}


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s"])
def test_a_row_that_was_written_later_is_named(unit: str) -> None:
    graph = shop()
    table = graph["user"].attrs["x"] = live_rows(5, unit, written=2)
    sub, times = sampled(graph, [0, 3], [10, 15])
    report = check_no_leak(graph, sub, seed_time=times)
    assert report.rows == len(sub.node["user"]) and report.undated == ()
    table.put(3, np.zeros(2, "f4"), int(counts(15, unit)))  # at the time of its seed
    check_no_leak(graph, sub, seed_time=times)
    table.put(3, np.zeros(2, "f4"), int(counts(15, unit)) + 1)
    message = r"row 3 of 'x' of 'user' is of version 2024-01-16T00:00:0.*1, after the time 2024"
    with pytest.raises(LeakError, match=message) as found:
        check_no_leak(graph, sub, seed_time=times)
    error = found.value
    assert (error.what, error.type, error.id, error.attribute) == ("row", "user", 3, "x")
    assert error.time == counts(15, unit) + 1 and error.seed_time == counts(15, "s")
    assert error.seed == 1
    # The row is late for one seed, and not for another that reaches it.
    sub, times = sampled(graph, [3], [16])
    check_no_leak(graph, sub, seed_time=times)


def test_strict_rows_are_earlier_but_those_of_seeds() -> None:
    graph = shop()
    graph["item"].attrs["x"] = live_rows(20, "us", written=10)
    graph["user"].attrs["x"] = live_rows(5, "us", written=10)
    sub, times = sampled(graph, [2], [10], strict=True)
    assert len(sub.node["item"])
    check_no_leak(graph, sub, seed_time=times)
    with pytest.raises(LeakError, match=r"row \d+ of 'x' of 'item' .* at the time 2024-01-11") as e:
        check_no_leak(graph, sub, seed_time=times, strict=True)
    assert e.value.what == "row"
    del graph["item"].attrs["x"]
    report = check_no_leak(graph, sub, seed_time=times, strict=True)  # the seed itself may be
    assert report.rows == len(sub.node["user"]) == 1


def test_what_has_no_time_is_said() -> None:
    graph = shop()
    graph["user"].attrs["x"] = np.zeros((5, 2), "f4")
    graph["user"].attrs["y"] = np.zeros(5, np.int64)
    graph["item"].attrs["counted"] = LiveFeatureTable.create(
        None, 20, 1, version_unit=None, missing="zero"
    )
    graph["item"].attrs["unwritten"] = LiveFeatureTable.create(None, 20, 1, missing="zero")
    graph[REV].attrs["price"] = np.zeros(20, "f4")  # as old as its edge, which is compared
    sub, times = sampled(graph, [0, 3], [10, 15])
    report = check_no_leak(graph, sub, seed_time=times)
    assert report.undated == ("'counted' of 'item'", "'x' of 'user'")
    assert report.rows == 0 and report.edges > 0
    # What the caller knows: numbers in the unit of the graph, or datetimes.
    since = np.full(5, 3)
    for known in (day(since), counts(since, "s"), day(since).astype("datetime64[ns]")):
        given_times = {"user": {"x": known}}
        report = check_no_leak(graph, sub, seed_time=times, row_time=given_times)
        assert report.undated == ("'counted' of 'item'",)
        assert report.rows == len(sub.node["user"])
    since[3] = 16
    with pytest.raises(LeakError, match="row 3 of 'x' of 'user' is of version 2024-01-17"):
        check_no_leak(graph, sub, seed_time=times, row_time={"user": {"x": day(since)}})
    versioned = {"user": {"x": day(since), "y": day(since + 99)}}
    check_no_leak(graph, sub, seed_time=times, row_time={"user": {"y": versioned["user"]["y"]}})
    with pytest.raises(LeakError, match="of 'y' of 'user'"):  # a label, unless nothing is one
        check_no_leak(graph, sub, seed_time=times, row_time={"user": {"y": day(since + 99)}},
                      labels=())  # fmt: skip
    prices = {REV: {"price": day(np.arange(20) + 99)}}
    with pytest.raises(LeakError, match=r"row .* of 'price' of .*rev_buys"):
        check_no_leak(graph, sub, seed_time=times, row_time=prices)


def test_row_times_that_do_not_fit_are_named() -> None:
    graph = shop()
    graph["user"].attrs["x"] = np.zeros((5, 2), "f4")
    sub, times = sampled(graph, [0], [10])
    for wrong, message in (
        (7, "row_time must be a mapping"),
        ({"user": 7}, r"row_time\['user'\] must be a mapping"),
        ({"user": {"z": [1]}}, "row_time: the graph has no attribute 'z' of 'user'"),
        ({"nobody": {"x": [1]}}, "no attribute 'x' of 'nobody'"),
        ({"user": {"x": [1, 2]}}, r"row_time of 'x' of 'user' .*5"),
        ({"user": {"x": np.array(["NaT"] * 5, "M8[s]")}}, "every time must be known"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            check_no_leak(graph, sub, seed_time=times, row_time=wrong)
    for names in ("y", ["y", 7], [["y"]]):
        with pytest.raises(InvalidArgumentError, match=r"labels .*names.* got"):
            check_no_leak(graph, sub, seed_time=times, labels=names)
    plain = Graph.from_edges(3, [0, 1], [1, 2], edge_time=[1, 2])
    plain.features = np.zeros((3, 1), "f4")
    one = NeighborSampler(plain, [2, 2], time_attr="edge_time").sample([2], 1, seed_time=[5])
    with pytest.raises(InvalidArgumentError, match="is in 's', but the times of the graph have no"):
        check_no_leak(plain, one, seed_time=[5], row_time={"x": day([1, 2, 3])})
    assert check_no_leak(plain, one, seed_time=[5], row_time={"x": [5, 4, 1]}).rows == 3
    with pytest.raises(LeakError, match="row 0 of 'x' is of version 6, after the time 5 of seed 0"):
        check_no_leak(plain, one, seed_time=[5], row_time={"x": [6, 4, 1]})


def test_live_graphs() -> None:
    """Rows of a table beside a live graph, and rows that commits change, of which nobody knows."""
    live = DynamicGraph(4, 16, order="time", edge_time="datetime64[s]")
    live.insert_edges([1, 2], [0, 0], time=day([1, 2]))
    table = live.node_attrs["x"] = live_rows(4, "ns", written=1)
    live.node_attrs["w"] = np.zeros((4, 1), "f4")
    limits = counts([5], "s")
    sub = NeighborSampler(live, [5], time_attr="edge_time").sample([0], 1, seed_time=limits)
    for graph in (live, live.snapshot()):
        report = check_no_leak(graph, sub, seed_time=limits)
        assert (report.edges, report.rows, report.undated) == (2, 3, ("'w'",))
    table.put(2, np.zeros(2, "f4"))  # now, which is long after
    for graph in (live, live.snapshot()):
        with pytest.raises(LeakError, match="row 2 of 'x' is of version 20"):
            check_no_leak(graph, sub, seed_time=limits)
    with pytest.raises(LeakError, match=r"^edge 1 is of time"):
        check_no_leak(live, sub, seed_time=counts([1], "s"))


UNITS = ["D", "h", "m", "s", "ms", "us", "ns"]


@given(
    st.sampled_from(UNITS), st.sampled_from(UNITS),
    st.lists(st.tuples(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6)), max_size=8),
    st.booleans(),
)  # fmt: skip
def test_times_of_two_units_compare_exactly(
    unit: str, own: str, pairs: list[tuple[int, int]], close: bool
) -> None:
    """Against integers of any size, near to each other too."""
    ticks = {"D": 86400 * 10**9, "h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6,
             "us": 1000, "ns": 1}  # fmt: skip
    if close:
        pairs = [(one * ticks[own] // ticks[unit] + other % 3 - 1, one) for one, other in pairs]
        pairs = [pair for pair in pairs if abs(pair[0]) < 2**62]
    left, right = (np.array([pair[at] for pair in pairs], np.int64) for at in (0, 1))
    after, equal = compare(left, unit, right, own)
    exact = [(a * ticks[unit], b * ticks[own]) for a, b in pairs]
    assert after.tolist() == [a > b for a, b in exact]
    assert equal.tolist() == [a == b for a, b in exact]


def test_verify_says_what_it_does_not_know(tmp_path: Path) -> None:
    graph = shop()
    graph["user"].attrs["x"] = np.zeros((5, 2), "f4")
    graph.save(tmp_path / "g.aeg")
    result = CliRunner().invoke(app, ["verify", "--time", str(tmp_path / "g.aeg")])
    assert result.exit_code == 0, result.output
    assert "; of what time the rows are is not known of 'x' of 'user'" in result.output
