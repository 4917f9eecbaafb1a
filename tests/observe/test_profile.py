"""Profiles: the parts are the work that was done, and they add up to the whole."""

from __future__ import annotations

import os
import re
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.processes import in_fork
from support.profiles import settled
from support.strategies import examples
from support.threads import run_together, running

from aethergraph import Graph, NeighborSampler, SubgraphLoader, observe
from aethergraph import _tracepoints as tracepoints
from aethergraph._parallel.prefetch import prefetch_map
from aethergraph.errors import InvalidArgumentError, StorageError
from aethergraph.loading import Ahead
from aethergraph.observe import recording, registry
from aethergraph.observe.profiling import Profile
from aethergraph.observe.recording import Recorder
from aethergraph.observe.workers import ProcessRecorder

#: Seconds of each kind of work in what follows. On a busy machine each may take longer, never less.
SAMPLE, GATHER, STEP = 0.02, 0.03, 0.01


class SlowRows:
    """Rows of which gathering takes a while."""

    shape, dtype_name = (500, 2), "float32"

    def gather(self, ids: Any) -> Any:
        time.sleep(GATHER)
        return np.zeros((len(ids), 2), np.float32)


class SlowSampler:
    """Sampler that takes a while."""

    def __init__(self, graph: Graph) -> None:
        self.own = NeighborSampler(graph, [2])

    def sample(self, seeds: Any, key: int) -> Any:
        time.sleep(SAMPLE)
        return self.own.sample(seeds, key)


def slow_loader(files: Path, **options: Any) -> SubgraphLoader:
    graph = Graph.load(files / "graph.aeg")
    graph.node_attrs["slow"] = SlowRows()
    return SubgraphLoader(graph, sampler=SlowSampler(graph), batch_size=50, **options)


def check_sums(found: Profile) -> None:
    """The parts of the threads add up to the time of the threads."""
    iterating = sum(part.seconds for part in found.of("iterating"))
    assert iterating == pytest.approx(found.seconds, rel=1e-9)
    ahead = sum(part.seconds for part in found.of("ahead"))
    assert ahead == pytest.approx(found.threads * found.seconds, rel=1e-9)
    assert all(part.seconds >= -1e-3 for part in found.parts)  # the rests are not negative


def test_work_in_the_thread_that_iterates(files: Path) -> None:
    loader = slow_loader(files, ahead=0)
    found = settled(lambda: loader.profile(5, lambda batch: time.sleep(STEP), warmup=1))
    check_sums(found)
    assert (found.batches, found.threads) == (5, 0)
    for name, each in (("sampling", SAMPLE), ("gathering slow", GATHER), ("your step", STEP)):
        assert 5 * each <= found[name], name
    assert found.seconds >= 5 * (SAMPLE + GATHER + STEP)
    calls = {part.name: part.calls for part in found.parts}
    assert calls["gathering slow"] == calls["your step"] == 5


def test_work_of_a_thread_ahead(files: Path) -> None:
    loader = slow_loader(files)
    found = settled(lambda: loader.profile(6, lambda batch: time.sleep(STEP), warmup=2))
    check_sums(found)
    assert found.threads == 1
    own = {part.name: part for part in found.of("iterating")}
    ahead = {part.name: part for part in found.of("ahead")}
    assert own["your step"].seconds >= 6 * STEP
    # One of each may have begun before, and one have ended.
    assert ahead["sampling"].seconds >= 4 * SAMPLE
    assert ahead["gathering slow"].seconds >= 4 * GATHER
    assert ahead["idle"].seconds < 0.5 * found.seconds
    # The step is hidden behind the work ahead; two batches may have been ready.
    assert found.seconds >= 4 * (SAMPLE + GATHER)


@pytest.mark.parametrize("options", [{}, {"ahead": Ahead(plan=3)}, {"ahead": 0}])
def test_batches_from_files(paged: Graph, options: dict[str, Any]) -> None:
    before = paged.features.stats().wait_seconds  # type: ignore[union-attr]
    loader = SubgraphLoader(paged, [5, 5], batch_size=50, **options)
    found = settled(lambda: loader.profile(25))  # of epochs of 10
    check_sums(found)
    names = {part.name for part in found.parts}
    assert {"sampling, in the core", "reading lists", "gathering x", "gathering x, reading"} < names
    assert ("planning reads" in names) == bool(getattr(options.get("ahead"), "plan", 0))
    waited = paged.features.stats().wait_seconds - before  # type: ignore[union-attr]
    assert found["gathering x, reading"] <= waited


def test_what_waits_for_reads_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting is what the store counts, within the stage that gathers from it."""
    clock = SimpleNamespace(now=5.0)
    monkeypatch.setattr(recording, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    recorder = Recorder()

    class Reads:
        seconds = 0.0

        def stats(self) -> Any:
            return {"wait_seconds": self.seconds}

    reads = Reads()
    outer = recorder.begin("batch")
    stage = recorder.begin("gather", "x", reads)
    clock.now += 2
    reads.seconds += 1
    recorder.end(stage)
    clock.now += 4
    stage = recorder.begin("gather", "x", reads)
    reads.seconds += 100  # by another thread: no more than the stage took
    clock.now += 2
    recorder.end(stage)
    recorder.end(outer)
    recorder.stop()
    (times,) = recorder.times
    assert times["gather", "x", "reading"] == [2, 3.0]
    assert times["gather", "x"] == [2, 1.0]
    assert times["batch", ""] == [1, 4.0]


trees = st.recursive(st.just([]), lambda inner: st.lists(inner, max_size=3), max_leaves=12)


@examples(30)
@given(st.lists(trees, min_size=1, max_size=3))
def test_own_times_add_up(forest: list[Any]) -> None:
    """Whatever is nested, the own times of a thread are its time in stages."""
    recorder = Recorder()

    def work(tree: list[Any], depth: int) -> None:
        begun = recorder.begin(f"s{depth % 3}", str(len(tree)))
        for child in tree:
            work(child, depth + 1)
        recorder.end(begun)

    whole = 0.0
    for tree in forest:
        began = time.perf_counter()
        work(tree, 0)
        whole += time.perf_counter() - began
    recorder.stop()
    (times,) = recorder.times
    total = sum(seconds for _, seconds in times.values())
    assert 0 < total <= whole


def test_what_is_at_work_at_the_end_counts() -> None:
    recorder, begun_all, go = Recorder(), threading.Event(), threading.Event()

    def work() -> None:
        begun = recorder.begin("gather", "x")
        inner = recorder.begin("draw")
        begun_all.set()
        go.wait()
        recorder.end(inner)
        recorder.end(begun)

    with running(work):
        begun_all.wait()
        time.sleep(0.03)
        recorder.stop()
        go.set()
    assert recorder.take_own() == {}
    (times,) = recorder.times
    assert times["draw", ""][1] >= 0.03
    assert {calls for calls, _ in times.values()} == {1}  # nothing was added afterwards


def test_threads_take_each_others_places() -> None:
    """Three threads one after the other are one thread's time, two at once are two threads'."""
    recorder, together = Recorder(), threading.Barrier(2)

    def work(meet: bool) -> None:
        begun = recorder.begin("gather")
        if meet:
            together.wait()
        time.sleep(0.01)
        recorder.end(begun)

    for _ in range(3):
        run_together(lambda: work(False))
    assert len(recorder.times) == 2 and recorder.times[1]["gather", ""][0] == 3
    run_together(lambda: work(True), lambda: work(True))
    recorder.begin("step")
    recorder.stop()
    assert recorder.take_own().keys() == {("step", "")}
    assert sorted(times["gather", ""][0] for times in recorder.times) == [1, 4]


def test_waits_within_waits_are_the_outer_ones() -> None:
    recorder = Recorder()
    outer = recorder.begin("wait", "plan")
    recorder.end(recorder.begin("wait"))
    recorder.end(outer)
    (times,) = recorder.times
    assert set(times) == {("wait", "plan")}


def test_any_iterable_over_this_package() -> None:
    class Loader:
        def __iter__(self) -> Any:
            return prefetch_map(lambda n: time.sleep(0.005), range(7))

    found = settled(lambda: observe.profile(Loader(), 10, warmup=0))
    check_sums(found)
    assert found["waiting for batches"] > 0.02


def test_nobody_looks_on_afterwards(files: Path) -> None:
    def fail(batch: Any) -> None:
        raise KeyError("of the user")

    loader = slow_loader(files)
    with pytest.raises(KeyError, match="of the user"):
        loader.profile(3, fail)
    assert tracepoints._observers == () and not registry.is_enabled()
    assert not [one for one in threading.enumerate() if one.name == "aethergraph-prefetch"]


def test_table_and_picture(files: Path, tmp_path: Path) -> None:
    found = slow_loader(files).profile(2, warmup=0)
    lines = str(found).splitlines()
    assert re.fullmatch(r"2 batches in \d+\.\d+ s: .*ms each", lines[0])
    assert lines[1].split() == ["the", "thread", "that", "iterates", "ms/batch", "share"]
    heads = [line for line in lines if not line.startswith("  ")]
    assert heads[2].startswith("threads ahead: 1")
    (gathered,) = [line for line in lines if "gathering slow" in line]
    milliseconds, share = gathered.split()[-2:]
    assert float(milliseconds) == pytest.approx(1e3 * found["gathering slow"] / 2, abs=0.01)
    assert share.endswith("%")
    assert "2 batches" in repr(found)
    pytest.importorskip("matplotlib", reason="pip install matplotlib")
    for suffix, begin in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        found.plot(tmp_path / f"p{suffix}")
        assert (tmp_path / f"p{suffix}").read_bytes().startswith(begin)
    for bad in ("p.txt", "p", 3, None):
        with pytest.raises(InvalidArgumentError, match=r"does not end in \.png"):
            found.plot(bad)  # type: ignore[arg-type]
    with pytest.raises(StorageError, match="No such file"):
        found.plot(tmp_path / "none" / "p.png")


def test_bad_arguments(files: Path) -> None:
    loader = SubgraphLoader(Graph.load(files / "graph.aeg"), [2], batch_size=100)
    for options in ({"batches": 0}, {"batches": -1}, {"batches": "5"}, {"warmup": -1}, {"step": 3}):
        with pytest.raises(InvalidArgumentError):
            loader.profile(**options)  # type: ignore[arg-type]
    empty = SubgraphLoader(Graph.load(files / "graph.aeg"), [2], [])
    with pytest.raises(InvalidArgumentError, match="has no batches"):
        empty.profile()
    for bad in (3, None, object()):
        with pytest.raises(InvalidArgumentError, match="loader"):
            observe.profile(bad)


def test_a_line_that_a_worker_is_writing_is_left_alone() -> None:
    observer = ProcessRecorder(Recorder())
    try:
        os.write(observer._file, b'[5.0, [["draw", "", 2, 0.5]]]\n[6.0, [["dr')
        assert observer.take(0.0, 9.0) == {("draw", ""): [2, 0.5]}
        assert observer.take(6.0, 9.0) == {}
    finally:
        observer.close()


@pytest.mark.forks
def test_threads_of_a_fork_have_one_recorder() -> None:
    observer = ProcessRecorder(Recorder())
    try:
        assert in_fork(lambda: observer.begin("draw")[0] is observer._worker is not None)
        assert observer.begin("draw") is None
    finally:
        observer.close()
