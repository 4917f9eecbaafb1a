"""Watermarks of live graphs: kept with the edges, known to readers, and never beyond a snapshot."""

from __future__ import annotations

import pickle
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.processes import in_fork
from support.threads import WAIT, comes, repeating, running

from aethergraph import DynamicGraph, DynamicHeteroGraph, NeighborSampler, SubgraphLoader, errors
from aethergraph.dynamic.hetero_snapshot import HeteroSnapshot
from aethergraph.dynamic.history import History
from aethergraph.dynamic.snapshot import Snapshot
from aethergraph.streaming import Ingestor, MemorySource

NODES = 50


def make(path: Path | None = None, unit: str = "int64") -> DynamicGraph:
    options: Any = {"order": "time", "edge_time": unit, "huge_pages": False}
    if path is None:
        return DynamicGraph(NODES, 16, **options)
    return DynamicGraph.open(path, NODES, 16, **options)


def test_it_is_the_least_of_all_streams_and_survives(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    assert graph.watermark is None and graph.snapshot().watermark is None
    with pytest.raises(errors.InvalidArgumentError, match="no watermark yet"):
        graph.cap([1])
    before = graph.snapshot()
    graph.set_watermark("clicks", 100)
    with graph.transaction():
        graph.insert_edges([1], [2], time=[70])
        graph.set_watermark("votes", -70)
        assert graph.watermark == 100  # nobody sees what is not committed
    assert graph.watermark == graph.snapshot().watermark == -70
    assert before.watermark is None
    with pytest.raises(ZeroDivisionError), graph.transaction():
        graph.set_watermark("votes", 50)
        raise ZeroDivisionError
    assert graph.watermark == -70
    graph.merge()
    graph.set_watermark("votes", 90)
    assert graph.watermark == 90
    graph.close()
    again = make(tmp_path / "g")
    assert again.watermark == 90 and again.cap([5, 95]).tolist() == [5, 90]
    again.close()
    with pytest.raises(errors.ClosedError):
        _ = again.watermark


def test_a_snapshot_keeps_the_watermark_of_its_commit() -> None:
    graph = make()
    unknown = graph.snapshot()
    graph.set_watermark("clicks", 5)
    with graph.reading() as now:
        graph.set_watermark("clicks", 50)
        again = graph.snapshot()
        assert again.commit == now.commit and again.watermark == now.watermark == 5
    assert graph.snapshot().watermark == 50
    assert Snapshot(graph.store, unknown.native_snapshot).watermark is None
    assert HeteroSnapshot.of(now).watermark == 5


def test_of_the_past(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    graph.set_watermark("clicks", 5)
    first = graph.lsn
    graph.set_watermark("clicks", 50)
    graph.close()
    with History(tmp_path / "g", 16) as history:
        assert history.at(first).watermark == 5
        assert history.last().watermark == 50
    graph = make(tmp_path / "g")
    graph.merge()
    graph.close()
    with History(tmp_path / "g", 16) as history:
        assert history.last().watermark == 50


def test_offsets_are_seen_with_their_commit() -> None:
    graph = make()
    graph.set_offset("clicks", 0, 3)
    going_through = iter(graph._store.offsets.items())  # as another thread may
    with graph.transaction():
        graph.set_offset("clicks", 0, 7)
        graph.set_offset("clicks", 1, 4)
        assert graph.offsets("clicks") == {0: 3}
    assert graph.offsets("clicks") == {0: 7, 1: 4}
    assert [number for _, number in going_through] == [3]
    with pytest.raises(ZeroDivisionError), graph.transaction():
        graph.set_offset("clicks", 0, 9)
        raise ZeroDivisionError
    assert graph.offsets("clicks") == {0: 7, 1: 4}


@pytest.mark.parametrize("time", [1.5, None, 2**62, -(2**62)])
def test_what_is_no_time(time: Any) -> None:
    graph = make()
    with pytest.raises(errors.InvalidArgumentError, match="time"):
        graph.set_watermark("s", time)
    assert graph.watermark is None


def test_datetimes_are_capped_in_their_own_unit() -> None:
    graph = make(unit="datetime64[ms]")
    graph.set_watermark("s", 86_400_500)
    days = np.array(["1970-01-01", "1970-01-02", "1970-01-03"], "M8[D]")
    assert graph.cap(days).tolist() == days[[0, 1, 1]].tolist()
    assert graph.cap(days.astype("M8[us]"))[2] == np.datetime64(86_400_500, "ms")
    typed = DynamicHeteroGraph({"a": 3}, [("a", "to", "a")], 8, huge_pages=False)
    typed.set_watermark("s", 7)
    assert typed.watermark == typed.snapshot().watermark == 7
    assert typed.snapshot().cap([3, 9]).tolist() == [3, 7]


def test_far_datetimes_are_capped_as_near_ones() -> None:
    graph = make(unit="datetime64[s]")
    near = np.array(["2020-01-01", "1969-12-31T23:59:59.5"], "M8[ns]")
    graph.set_watermark("s", 2**40)  # beyond all nanoseconds
    assert (graph.cap(near) == near).all()
    assert graph.cap(near.astype("M8[D]")).tolist() == near.astype("M8[D]").tolist()
    graph.set_watermark("s", -(2**40))
    with pytest.raises(errors.InvalidArgumentError, match=r"before all times .*\[ns\] holds"):
        graph.cap(near)
    assert graph.cap(near.astype("M8[D]"))[0] == np.datetime64(-(2**40), "s").astype("M8[D]")
    graph.set_watermark("s", -1)
    assert (graph.cap(near.astype("M8[D]")) == np.datetime64("1969-12-31")).all()
    assert graph.cap(near)[0] == np.datetime64(-1, "s")


@pytest.mark.parametrize("unit", ["D", "s", "us", "10us", "ns"])
def test_datetimes_of_the_other_byte_order_are_capped(unit: str) -> None:
    graph = make(unit="datetime64[us]")
    graph.set_watermark("s", int(np.datetime64("2025-01-01", "us").astype(np.int64)))
    times = np.array(["2024-01-01", "2030-01-01"], f"datetime64[{unit}]")
    capped = graph.cap(times.astype(times.dtype.newbyteorder()))
    assert capped.tolist() == np.minimum(times, np.datetime64("2025-01-01")).tolist()
    assert np.datetime_data(capped.dtype) == np.datetime_data(times.dtype)


def test_numbers_of_other_dtypes_are_capped_exactly() -> None:
    graph = make()
    graph.set_watermark("s", 2**60 + 1)
    times = np.array([2**60 - 1, 2**60 + 1, 2**60 + 2, 2**64 - 1], np.uint64)
    assert graph.cap(times).tolist() == [2**60 - 1, 2**60 + 1, 2**60 + 1, 2**60 + 1]
    graph.set_watermark("s", -3)
    assert graph.cap(np.array([0, 7], np.uint8)).tolist() == [-3, -3]
    assert graph.cap([1.5, -4.5]).tolist() == [-3, -4.5]


@pytest.mark.parametrize("times", ["x", None, ["a"], [True], [[1], [2, 3]], [{}], np.ones(2, "m8")])
def test_what_cannot_be_capped(times: Any) -> None:
    graph = make()
    graph.set_watermark("s", 3)
    with pytest.raises(errors.InvalidArgumentError, match="times"):
        graph.cap(times)


def test_datetimes_of_a_graph_of_numbers_cannot_be_capped() -> None:
    graph = make()
    graph.set_watermark("s", 3)
    with pytest.raises(errors.InvalidArgumentError, match="plain numbers"):
        graph.cap(np.array(["2020-01-01"], "M8[s]"))
    graph = make(unit="datetime64[s]")
    graph.set_watermark("s", 3)
    with pytest.raises(errors.InvalidArgumentError, match="without a unit"):
        graph.cap(np.array(["NaT"], "M8"))
    assert graph.cap([1, 5]).tolist() == [1, 3]


def test_strangers_know_it(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    reader = DynamicGraph.attach(tmp_path / "g")
    for change, seen in (
        (lambda: None, None),
        (lambda: graph.set_watermark("s", 5), 5),
        (graph.merge, 5),
        (lambda: graph.set_watermark("s", 8), 8),
    ):
        change()
        assert (reader.watermark, reader.snapshot().watermark) == (seen, seen)
    graph.close()


@pytest.mark.forks
def test_children_and_copies_know_it() -> None:
    graph = make()
    copy = pickle.loads(pickle.dumps(graph))
    assert copy.watermark is None
    graph.set_watermark("s", 12)
    assert copy.watermark == 12
    assert in_fork(lambda: (graph.watermark, graph.cap([100]).tolist())) == (12, [12])


def test_a_snapshot_has_all_edges_up_to_its_watermark() -> None:
    graph, stopped = make(), threading.Event()

    def write() -> None:
        for number in range(1500):
            with graph.transaction():
                graph.insert_edges([number % NODES], [0], time=[number])
                graph.set_watermark("s", number)
        stopped.set()

    seen = set()
    with running(write) as failures:
        while not stopped.is_set() and not failures:
            with graph.snapshot() as now:
                mark = now.watermark
                assert mark is None or now.num_edges > mark
                seen.add(mark)
    assert len(seen) > 2


def test_an_idle_stream_moves_it_and_the_graph_keeps_that(tmp_path: Path) -> None:
    graph, source = make(tmp_path / "g"), MemorySource("s")
    source.append(0, src=[1], dst=[0], time=[100])
    source.append(1, src=[1], dst=[0], time=[200])

    def has_moved() -> bool:
        source.append(1, src=[1], dst=[0], time=[300])
        return graph.watermark == 300

    with Ingestor(graph, source, idle=1e6) as ingestor:
        ingestor.drain(WAIT)
        assert graph.watermark == ingestor.watermark == 100
        ingestor._times.idle = 0.2
        assert comes(has_moved)
    graph.close()
    assert make(tmp_path / "g").watermark == 300


def test_loaders_see_nothing_beyond_it_while_edges_come() -> None:
    graph, source, rng, sent = make(), MemorySource("s", most=20), np.random.default_rng(3), [0]

    def send() -> None:  # the first partition is far ahead of the second
        for partition, shift in ((0, 500), (1, 0)):
            ends = rng.integers(0, NODES, (2, 20))
            times = np.arange(sent[0], sent[0] + 20) + shift
            source.append(partition, src=ends[0], dst=ends[1], time=times)
        sent[0] += 20
        time.sleep(0.001)

    with Ingestor(graph, source, idle=1e6) as ingestor, repeating(send):
        assert comes(lambda: ingestor.check() or graph.num_edges >= 3000)
        beyond = []
        for cap in (True, False) * 3:
            mark = graph.watermark
            assert mark is not None
            ask = np.full(NODES, 10**6)
            loader = SubgraphLoader(
                graph, sampler=NeighborSampler(graph, [-1], time_attr="edge_time"), batch_size=10,
                seed_time=graph.cap(ask) if cap else ask,
            )  # fmt: skip
            times = np.concatenate([
                graph.edge_values["edge_time"].gather(batch.subgraph.edge)
                for batch in loader
            ])  # fmt: skip
            assert len(times)
            now = graph.watermark
            assert now is not None
            # What is seen with a cap is not beyond any watermark since then.
            beyond.append(bool((times > now).any()) if cap else bool((times > mark).any()))
    assert beyond == [False, True] * 3
