"""Units of times: kept with the graph, converted exactly, or refused with the position."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aethergraph import Graph, HeteroGraph, HeteroNeighborSampler, NeighborSampler
from aethergraph._checks.times import as_seed_times, convert_times
from aethergraph.convert import convert_chunks
from aethergraph.errors import FormatError, InvalidArgumentError, OutOfRangeError
from aethergraph.storage.meta import FileMeta

DAYS = np.array(["2020-01-03", "2020-01-01", "2020-01-02"], "M8[D]")
HOURS = np.array(["2020-01-03T10", "2020-01-01T00", "1969-12-31T23"], "M8[h]")
KIND = ("a", "to", "b")


@pytest.mark.parametrize("unit", ["Y", "W", "D", "s", "ns", "15m"])
def test_the_unit_is_kept(unit: str, tmp_path: Path) -> None:
    times = np.array([3, -2, 7], np.int64).view(f"M8[{unit}]")
    graph = Graph.from_edges(3, [0, 1, 2], [1, 1, 1], edge_time=times, node_time=times)
    graph.save(tmp_path / "g.aeg")
    loaded = Graph.load(tmp_path / "g.aeg")
    for one in (
        graph,
        loaded,
        pickle.loads(pickle.dumps(graph)),
        pickle.loads(pickle.dumps(loaded)),
    ):
        assert one.time_unit == one.info()["time_unit"] == unit
        assert one.edge_time is not None and one.node_time is not None
        assert one.edge_time.dtype == np.int64 and one.edge_time.tolist() == [-2, 3, 7]
        assert (one.node_time.view(f"M8[{unit}]") == times).all()
    assert HeteroGraph.load(tmp_path / "g.aeg").time_unit == unit


def test_numbers_have_no_unit(tmp_path: Path) -> None:
    graph = Graph.from_edges(3, [0, 1], [1, 1], edge_time=[3, 4])
    graph.save(tmp_path / "g.aeg")
    assert graph.time_unit is None and Graph.load(tmp_path / "g.aeg").time_unit is None
    assert Graph.from_edges(3, [0], [1]).time_unit is None


def test_two_units_become_one() -> None:
    graph = Graph.from_edges(3, [0, 1, 2], [1, 1, 1], edge_time=DAYS, node_time=HOURS)
    assert graph.time_unit == "h" and graph.edge_time is not None
    assert (graph.edge_time.view("M8[h]") == np.sort(DAYS)).all()
    assert (graph.node_time.view("M8[h]") == HOURS).all()  # type: ignore[union-attr]


def test_types_of_a_graph_share_a_unit(tmp_path: Path) -> None:
    graph = HeteroGraph.from_edges(
        {KIND: ([0, 1], [0, 0])},
        edge_time={KIND: DAYS[:2]},
        node_time={"a": HOURS[:2]},
        add_reverse=True,
    )
    graph.save(tmp_path / "g.aeg")
    loaded = HeteroGraph.load(tmp_path / "g.aeg")
    for one in (graph, loaded, pickle.loads(pickle.dumps(graph)), loaded.with_attrs({}, {})):
        assert one.time_unit == "h"
        for kind in one.edge_types:
            times = one[kind].edge_time
            assert times is not None and set(times.view("M8[h]")) == set(DAYS[:2])


FAR = np.array([0, 2**61], np.int64)


@pytest.mark.parametrize(
    ("edge_time", "node_time", "message"),
    [
        (DAYS[:2], [1, 2], r"node_time holds numbers without a unit, but edge_time is in 'D'"),
        ([1.5, 2], DAYS[:2], "edge_time holds numbers without a unit, but node_time is in 'D'"),
        (FAR.view("M8[D]"), FAR.view("M8[ns]"), r"edge_time\[1\] = 2305843009213693952 D does not"),
        (DAYS[:2] - DAYS[0], None, r"edge_time is timedelta64\[D\], lengths of time"),
        (np.array(["2020-01-01", "NaT"], "M8[s]"), None, r"edge_time\[1\] = NaT"),
    ],
)
def test_times_that_do_not_go_together(edge_time: Any, node_time: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Graph.from_edges(2, [0, 1], [1, 1], edge_time=edge_time, node_time=node_time)


@pytest.mark.parametrize(
    ("times", "error", "message"),
    [
        ([2**63, -1], OutOfRangeError, r"edge_time\[0\] = 9223372036854775808 is above"),
        ([1.5, 2**53 + 1], InvalidArgumentError, r"edge_time\[1\] = 9007199254740993: beside"),
        (np.array([1, 2**60 + 1], np.longdouble), InvalidArgumentError, r"edge_time\[1\] = 1152"),
        (np.array([2**63, 1], np.uint64), OutOfRangeError, r"edge_time\[0\] = 9223372036854775808"),
    ],
)
def test_times_that_would_be_others(times: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        Graph.from_edges(1, [0, 0], [0, 0], edge_time=times)
    with pytest.raises(error, match="^" + re.escape(f"{KIND}: {caught.value}")) as typed:
        HeteroGraph.from_edges({KIND: ([0, 0], [0, 0])}, edge_time={KIND: times})
    assert typed.value.position == caught.value.position is not None
    assert Graph.from_edges(1, [0, 0], [0, 0], edge_time=[1.5, 2**53]).num_edges == 2


@pytest.mark.parametrize("typed", [False, True])
def test_datetimes_of_seeds(typed: bool) -> None:
    if typed:
        typed_graph = HeteroGraph.from_edges({KIND: ([0, 1, 2], [0] * 3)}, edge_time={KIND: DAYS})
        sampler = HeteroNeighborSampler(typed_graph, [-1], time_attr="edge_time", disjoint=True)

        def sample(time: Any) -> list[int]:
            found = sampler.sample({"b": [0]}, seed_time={"b": time}, key=1)
            return sorted(found.node["a"].tolist())
    else:
        graph = Graph.from_edges(4, [0, 1, 2], [3] * 3, edge_time=DAYS)
        plain = NeighborSampler(graph, [-1], time_attr="edge_time", disjoint=True)

        def sample(time: Any) -> list[int]:
            return sorted(plain.sample([3], seed_time=time, key=1).node[1:].tolist())

    assert sample(np.array(["2020-01-02"], "M8[ns]")) == [1, 2]
    assert sample(np.array(["2020-01"], "M8[M]")) == [1]
    assert sample(DAYS[:1].view(np.int64)) == [0, 1, 2]
    with pytest.raises(InvalidArgumentError, match=r"\[0\] = 2020-01-02T12 cannot be given in"):
        sample(np.array(["2020-01-02T12"], "M8[h]"))
    with pytest.raises(InvalidArgumentError, match=r"\[0\] = NaT"):
        sample(np.array(["NaT"], "M8[h]"))


def test_datetimes_need_a_unit() -> None:
    graph = Graph.from_edges(2, [0], [1], edge_time=[5])
    sampler = NeighborSampler(graph, [-1], time_attr="edge_time", disjoint=True)
    with pytest.raises(InvalidArgumentError, match="the times of the graph have no unit"):
        sampler.sample([1], seed_time=DAYS[:1])
    graph = Graph.from_edges(2, [0], [1], edge_time=DAYS[:1])
    graph.edge_attrs["edge_time"] = np.array([5])  # takes the place of the graph's own
    sampler = NeighborSampler(graph, [-1], time_attr="edge_time", disjoint=True)
    with pytest.raises(InvalidArgumentError, match="the times of the graph have no unit"):
        sampler.sample([1], seed_time=DAYS[:1])


def test_conversion_is_exact_or_refused() -> None:
    seconds = np.array([86400, -86400, 86401, 2**62], np.int64)
    assert convert_times(seconds[:2], "s", "D")[0].tolist() == [1, -1]
    assert convert_times(seconds, "s", "D")[1] == 2
    assert convert_times(seconds, "s", "ns")[1] == 3
    with pytest.raises(InvalidArgumentError, match=r"t\[1\] is masked"):
        as_seed_times(np.ma.masked_array([1, 2], [0, 1]), 2, "t", None, np.dtype(np.int64))


def test_chunks_with_datetimes(tmp_path: Path) -> None:
    chunks = [([0, 1, 2], [1, 1, 1], {"time": DAYS})]
    # The budget counts what this process holds already, which in a run of all tests is a lot.
    convert_chunks(chunks, tmp_path / "g.aeg", memory_budget="8G", layout="both")
    Graph.from_edges(3, [0, 1, 2], [1, 1, 1], edge_time=DAYS, layout="both").save(tmp_path / "h")
    assert (tmp_path / "g.aeg").read_bytes() == (tmp_path / "h").read_bytes()
    assert Graph.load(tmp_path / "g.aeg").time_unit == "D"


def test_the_unit_in_the_description() -> None:
    meta = FileMeta(time_unit="us")
    assert FileMeta.decode(meta.encode(), "f") == meta
    content = json.loads(meta.encode())
    for unit in (3, "fortnight", "s]", ""):
        with pytest.raises(FormatError, match=r"time_unit = .* is (unknown|no text)"):
            FileMeta.decode(json.dumps({**content, "time_unit": unit}).encode(), "f")
