"""CachedRows: the rows of its source, from memory where they were used before."""

from __future__ import annotations

import os
import pickle
import signal
from typing import Any

import numpy as np
import pytest
from support.threads import run_with_each

from aethergraph import CachedRows, FeatureTable, Graph, SubgraphLoader
from aethergraph.errors import ClosedError, InvalidArgumentError, OutOfRangeError
from aethergraph.features.cached import CacheStats
from aethergraph.loading import Ahead
from aethergraph.protocols import RowSource

NUM_ROWS, WIDTH = 5000, 4
PLACE = 4 * WIDTH + 16  # bytes


class Counted:
    """Rows that note the ids they were asked for."""

    dtype_name = "float32"

    def __init__(self, num_rows: int = NUM_ROWS) -> None:
        self.shape = (num_rows, WIDTH)
        self.rows = np.random.default_rng(3).normal(size=self.shape).astype(np.float32)
        self.asked: list[Any] = []

    def gather(self, ids: Any) -> Any:
        self.asked.append(ids)
        return self.rows[ids]


def test_a_row_is_read_once_while_it_is_kept() -> None:
    source = Counted()
    cached = CachedRows(source, "1M")  # holds all
    ids = np.random.default_rng(5).integers(0, NUM_ROWS, 3000)
    np.testing.assert_array_equal(cached.gather(ids), source.rows[ids])
    assert len(source.asked) == 1 and (np.diff(source.asked[0]) > 0).all()
    np.testing.assert_array_equal(cached.gather(ids[::-1]), source.rows[ids[::-1]])
    kept = len(np.unique(ids))
    assert cached.stats() == CacheStats(
        rows=6000, hits=3000, gathers=1, rows_read=kept, rows_held=kept, nbytes=NUM_ROWS * PLACE
    )


@pytest.mark.parametrize("places", [8, 64, 1000])
def test_a_small_cache_is_exact_and_keeps_to_its_budget(places: int) -> None:
    source, rng = Counted(), np.random.default_rng(places)
    cached = CachedRows(source, places * PLACE)
    for _ in range(40):
        ids = (rng.random(rng.integers(0, 700)) ** 3 * NUM_ROWS).astype(np.int64)
        np.testing.assert_array_equal(cached.gather(ids), source.rows[ids])
    stats = cached.stats()
    assert 0 < stats.rows_held <= places and stats.nbytes <= places * PLACE
    assert 0 < stats.hits < stats.rows


def test_what_was_used_last_stays() -> None:
    source = Counted()
    cached = CachedRows(source, 8 * PLACE)  # one set
    cached.gather(np.arange(8))
    cached.gather([0, 1])
    cached.gather(np.arange(8, 14))  # in place of 2 .. 7
    before = cached.stats().hits
    cached.gather([0, 1, 8, 13])
    assert cached.stats().hits == before + 4
    cached.gather([2])
    assert source.asked[-1].tolist() == [2]


def test_in_front_of_a_file(tmp_path: Any) -> None:
    rows = np.random.default_rng(1).normal(size=(300, 5)).astype(np.float32)
    FeatureTable.from_array(rows).save(tmp_path / "rows.aeg")
    cached = CachedRows(FeatureTable.load(tmp_path / "rows.aeg"), "4K")
    assert cached.path == str(tmp_path / "rows.aeg") and cached.fingerprint is not None
    np.testing.assert_array_equal(cached.array, rows)
    np.testing.assert_array_equal(cached.read(3, 7), rows[3:7])
    graph = Graph.from_edges(300, np.arange(300), (np.arange(300) + 1) % 300)
    graph.node_attrs["x"] = cached
    assert graph.node_attrs["x"] is cached
    for _ in range(2):
        for batch in SubgraphLoader(graph, [1, 1], batch_size=50, ahead=Ahead(threads=2)):
            assert batch.x is not None
            np.testing.assert_array_equal(batch.x, rows[batch.subgraph.node])
    again = pickle.loads(pickle.dumps(cached))
    np.testing.assert_array_equal(again.gather([7]), rows[[7]])
    assert again.stats().hits == 0


@pytest.mark.forks
def test_threads_and_a_forked_child() -> None:
    source = Counted()
    cached = CachedRows(source, 500 * PLACE)

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(50):
            ids = (rng.random(300) ** 2 * NUM_ROWS).astype(np.int64)
            np.testing.assert_array_equal(cached.gather(ids), source.rows[ids])

    run_with_each(work, range(4))
    assert cached.stats().rows == 4 * 50 * 300
    ids = np.arange(0, NUM_ROWS, 3)
    uses = (
        lambda: np.array_equal(cached.gather(ids), source.rows[ids]),
        lambda: cached.close() or cached.closed,
    )
    with cached._cache._lock:  # as if another thread held it during the fork
        for use in uses:
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                lock = cached._cache._lock  # two threads here must not have two
                os._exit(int(not use() or cached._cache._lock is not lock))
            assert os.waitpid(child, 0)[1] == 0


def test_bad_input_is_named() -> None:
    with pytest.raises(InvalidArgumentError, match=f"give at least {8 * PLACE}"):
        CachedRows(Counted(), 8 * PLACE - 1)
    with pytest.raises(InvalidArgumentError, match="source"):
        CachedRows(3)  # type: ignore[arg-type]
    cached = CachedRows(Counted(), "1M")
    with pytest.raises(OutOfRangeError, match=r"ids\[1\] = 5000 is not in 0..4999") as found:
        cached.gather([3, 5000])
    assert (found.value.position, found.value.value) == (1, 5000)
    with pytest.raises(OutOfRangeError, match=r"ids\[0\] = -1 is not in"):
        cached.gather([-1])  # as empty places are marked
    cached.close()
    with pytest.raises(ClosedError, match="was closed"):
        cached.gather([1])
    assert cached.closed and "closed" in repr(cached)
    assert CachedRows(Counted(0), "1K").gather([]).shape == (0, WIDTH)


class Changing(RowSource):
    """Rows that all are the number of changes so far; they note the ids they were asked for."""

    shape, dtype_name, is_live = (100, 2), "float32", True

    def __init__(self) -> None:
        self.now, self.asked = 0.0, [0]

    def gather_into(self, ids: Any, out: Any) -> None:
        self.asked.append(len(ids))
        out[...] = self.now


def test_rows_that_change_are_used_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model beside it: what a gather returns is the newest, or was so within ``max_age``."""
    with pytest.raises(InvalidArgumentError, match="rows that change: give max_age="):
        CachedRows(Changing(), "1M")
    clock = [100.0]
    monkeypatch.setattr("aethergraph.features.cached.time.monotonic", lambda: clock[0])
    source = Changing()
    cached = CachedRows(source, 8 * 6 * (8 + 24), max_age=1.0)  # 48 places for 100 rows
    assert cached.is_live
    when: dict[int, float] = {}  # time at which each change was made
    rng = np.random.default_rng(0)
    for _ in range(400):
        if rng.random() < 0.3:
            source.now += 1
            when[int(source.now)] = clock[0]
        ids = rng.integers(0, 100, rng.integers(1, 60))
        for value in cached.gather(ids)[:, 0]:
            following = when.get(int(value) + 1, np.inf)  # until then it was the newest
            assert following > clock[0] - 1.0
        clock[0] += float(rng.random() * 0.4)
    stats = cached.stats()
    assert 0 < stats.hits < stats.rows and stats.rows_held <= 48
    clock[0] += 1.0
    source.now += 1
    assert (cached.gather(np.arange(100)) == source.now).all()


def test_max_age_is_checked() -> None:
    for age, words in ((0, "not in"), (-1, "not in"), (float("nan"), "not in"), ("x", "a number")):
        with pytest.raises(InvalidArgumentError, match=words):
            CachedRows(Changing(), "1M", max_age=age)  # type: ignore[arg-type]
    again = pickle.loads(pickle.dumps(CachedRows(Counted().rows, "1M", max_age=5)))
    assert again._max_age == 5
