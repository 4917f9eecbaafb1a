"""Gathers that are known ahead: the rows of gather, and no more reads than Belady's optimum."""

from __future__ import annotations

import gc
import os
import re
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import examples
from support.threads import run_with_each

from aethergraph import FeatureTable, errors
from aethergraph import _native as native

pytestmark = pytest.mark.any_python

Lists = list[list[int]]


@pytest.fixture
def rows() -> Any:
    return np.random.default_rng(0).normal(size=(2000, 128)).astype(np.float32)


@pytest.fixture
def path(rows: Any, tmp_path: Path) -> Path:
    np.save(tmp_path / "rows.npy", rows)
    return tmp_path / "rows.npy"


def budget_for(path: Path, frames: int, **options: Any) -> int:
    """The least with which a cache has room for so many rows, beside the hot ones."""
    with pytest.raises(errors.InvalidArgumentError) as caught:
        FeatureTable.load(path, "uring", memory_budget=1)
    found = re.search(r"at least (\d+)", str(caught.value))
    assert found
    low, high = int(found[1]), int(found[1]) + 20_000 * (frames + 1)
    while low < high:
        middle = (low + high) // 2
        stats = FeatureTable.load(path, "uring", memory_budget=middle, **options).stats()
        if stats.frames - stats.hot_frames >= frames:
            high = middle
        else:
            low = middle + 1
    return low


def store_of(path: Path, frames: int, **options: Any) -> FeatureTable:
    budget = budget_for(path, frames, **options)
    return FeatureTable.load(path, "uring", memory_budget=budget, **options)


# ---- the optimum -----------------------------------------------------------------------------


def fewest_reads(lists: Lists, room: int) -> int:
    """By trying whatever a cache could keep: after each list any ``room`` of what it has seen."""
    best: dict[frozenset[int], int] = {frozenset(): 0}
    for one in lists:
        wanted = frozenset(one)
        after: dict[frozenset[int], int] = {}
        for kept, reads in best.items():
            there, reads = kept | wanted, reads + len(wanted - kept)
            for choice in combinations(sorted(there), min(room, len(there))):
                state = frozenset(choice)
                after[state] = min(reads, after.get(state, reads))
        best = after
    return min(best.values())


def belady_reads(lists: Lists, room: int, kept: set[int] | None = None) -> int:
    """Keep what is used again soonest; the greedy form of the above, for longer lists."""
    kept, reads = set(kept or ()), 0
    for number, one in enumerate(lists):
        reads += len(set(one) - kept)

        def next_use(row: int, number: int = number) -> int:
            later = (at for at in range(number + 1, len(lists)) if row in lists[at])
            return next(later, len(lists))

        kept = set(sorted(kept | set(one), key=next_use)[:room])
    return reads


@pytest.fixture(scope="module")
def large_rows(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path, dict[int, int]]:
    """Rows, their file, and the budgets for caches of a few of them."""
    rows = np.random.default_rng(1).normal(size=(8, 4096)).astype(np.float32)
    path = tmp_path_factory.mktemp("plan") / "rows.npy"
    np.save(path, rows)
    return rows, path, {room: budget_for(path, room) for room in (1, 2, 3)}


few = st.lists(st.lists(st.integers(0, 6), max_size=7), min_size=1, max_size=6)


@examples(60)
@given(lists=few, room=st.sampled_from([1, 2, 3]))
def test_no_cache_reads_less(
    large_rows: tuple[Any, Path, dict[int, int]], lists: Lists, room: int
) -> None:
    rows, path, budgets = large_rows
    store = FeatureTable.load(path, "uring", memory_budget=budgets[room])
    with store.plan(lists) as plan:
        assert plan.frames == room
        assert plan.frames_read == fewest_reads(lists, room) == belady_reads(lists, room)
        for ids, found in zip(lists, plan, strict=True):
            np.testing.assert_array_equal(found, rows[np.array(ids, np.int64)])
    stats = store.stats()
    assert stats.hits == plan.hits
    assert stats.rows - stats.hits == plan.misses


@examples(25)
@given(
    seed=st.integers(0, 2**32), room=st.integers(1, 120), lists=st.integers(1, 25),
    size=st.integers(0, 80), hot=st.integers(0, 30), spread=st.sampled_from([60, 300, 2000]),
)  # fmt: skip
def test_longer_lists_read_what_belady_reads(
    path: Path, rows: Any, seed: int, room: int, lists: int, size: int, hot: int, spread: int
) -> None:
    rng = np.random.default_rng(seed)
    asked = [
        (spread * rng.random(int(rng.integers(0, size + 1))) ** 2).astype(int) for _ in range(lists)
    ]
    store = FeatureTable.load(
        path, "uring", memory_budget=700_000 + 600 * room, hot=np.arange(hot), hot_share=0.5
    )
    frames, pinned = store.stats().frames, store.stats().hot_frames
    before: set[int] = set()
    for _ in range(2):  # the second plan begins with what the first one left
        plan = store.plan(asked)
        cold = [[int(i) for i in one if i >= pinned] for one in asked]
        assert plan.frames == frames - pinned
        assert plan.frames_read == belady_reads(cold, plan.frames, before)
        reads = store.stats()
        for ids, found in zip(asked, plan, strict=True):
            np.testing.assert_array_equal(found, rows[ids])
        done = store.stats()
        assert done.hits - reads.hits == plan.hits
        assert done.frames_held <= frames
        if frames - pinned < len({i for one in cold for i in one}):
            break  # what is there afterwards depends on the order of going
        before = {i for one in cold for i in one}


@pytest.mark.parametrize(
    ("width", "target", "longest"),
    [(1, None, 4000), (16, "float64", 4000), (100, None, 4000), (3000, "float64", 400)],
)
def test_rows_of_any_size_and_dtype(
    tmp_path: Path, width: int, target: str | None, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "LONG_CALL_BYTES", 1 << 20)  # some calls run beside their caller
    rows = np.random.default_rng(2).normal(size=(500, width)).astype(np.float32)
    np.save(tmp_path / "x.npy", rows)
    store = FeatureTable.load(tmp_path / "x.npy", "uring", memory_budget="1M")
    rng = np.random.default_rng(3)
    lists = [rng.integers(0, 500, rng.integers(0, longest)) for _ in range(8)]
    plan = store.plan(lists)
    for ids in lists:
        gathered = plan.gather(ids, dtype=target)
        np.testing.assert_array_equal(gathered, rows[ids].astype(target or "float32"))
    frames = np.unique(np.concatenate(lists) // store.stats().frame_rows)
    assert plan.frames_read == len(frames) or store.stats().frames < len(frames)


# ---- beside others ------------------------------------------------------------------------------


def test_gathers_beside_a_plan_are_right(path: Path, rows: Any) -> None:
    store = store_of(path, 200, hot=np.arange(50), hot_share=0.2)
    rng = np.random.default_rng(5)
    lists = [rng.integers(0, 600, 300) for _ in range(30)]
    plan, other = store.plan(lists), store.plan(lists)
    assert other.frames == 0

    def use(has_plan: bool) -> None:
        if has_plan:
            for ids, planned, unplanned in zip(lists, plan, other, strict=True):
                np.testing.assert_array_equal(planned, rows[ids])
                np.testing.assert_array_equal(unplanned, rows[ids])
        else:
            ids = np.random.default_rng(6).integers(0, 600, 300)
            for _ in range(20):
                np.testing.assert_array_equal(store.gather(ids), rows[ids])

    run_with_each(use, [True, False, False, False])


def test_threads_that_iterate_share_the_lists(path: Path, rows: Any) -> None:
    store = store_of(path, 100)
    lists = [[number, number + 1000] for number in range(60)]
    expected = {rows[ids].tobytes() for ids in lists}
    for _ in range(5):
        plan = store.plan(lists)
        taken = list(chain(*run_with_each(lambda plan: list(plan), [plan] * 6)))
        assert len(taken) == len(lists)
        assert {batch.tobytes() for batch in taken} == expected


def test_a_plan_gives_back_what_it_kept(path: Path) -> None:
    store = store_of(path, 100)
    room = store.stats().frames
    ids = np.arange(room)
    for found in store.plan([ids]):
        assert len(found) == room
    before = store.stats().hits
    store.gather(ids)
    assert store.stats().hits - before == room
    store.gather(np.arange(1000, 1500))  # the cache goes on as it did
    assert store.stats().frames_held == room
    plan = store.plan([[1], [2]])
    plan.gather()
    del plan
    gc.collect()
    assert store.plan([[1]]).frames == room


@pytest.mark.forks
def test_a_forked_child_makes_its_own_plan(path: Path, rows: Any) -> None:
    store = store_of(path, 100)
    plan = store.plan([[1, 2], [3, 4]])
    plan.gather()
    child = os.fork()
    if child == 0:
        try:
            with pytest.raises(errors.InvalidArgumentError, match="belongs to the process"):
                plan.gather()
            found = store.plan([[5]]).gather()
            os._exit(0 if (found == rows[[5]]).all() else 1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(plan.gather(), rows[[3, 4]])


# ---- misuse -----------------------------------------------------------------------------------


def test_another_list_is_refused_and_nothing_lost(path: Path, rows: Any) -> None:
    plan = store_of(path, 10).plan([[1, 2, 3], [4]])
    with pytest.raises(errors.InvalidArgumentError, match=r"list 0 .* has 2 at position 1, got 9"):
        plan.gather([1, 9, 3])
    with pytest.raises(errors.InvalidArgumentError, match=r"list 0 .* has 3 rows, got 1"):
        plan.gather([4])
    np.testing.assert_array_equal(plan.gather([1, 2, 3]), rows[[1, 2, 3]])
    out = np.zeros((1, 128), np.float32)
    assert not plan.gather_if_next(np.array([5]), out)
    assert plan.gather_if_next(np.array([4]), out)
    np.testing.assert_array_equal(out, rows[[4]])
    assert not plan.gather_if_next(np.array([4]), out)
    with pytest.raises(errors.ClosedError, match="all 2 lists"):
        plan.gather()


def test_a_closed_plan_is_refused(path: Path) -> None:
    plan = store_of(path, 10).plan([[1], [2]])
    with pytest.raises(errors.ClosedError, match="was closed"):
        for _ in plan:
            plan.close()
    plan.close()
    assert plan.closed
    assert not plan.gather_if_next(np.array([1]), np.zeros((1, 128), np.float32))
    with pytest.raises(errors.ClosedError, match="was closed"):
        plan.gather()


def test_rows_that_do_not_exist_are_named(path: Path) -> None:
    store = store_of(path, 10)
    with pytest.raises(errors.OutOfRangeError, match=r"lists\[2\]\[1\] = 2000 is not in 0..1999"):
        store.plan([[1, 2], [], [3, 2000]])
    with pytest.raises(errors.OutOfRangeError, match=r"lists\[2\]\[0\] = 2000 "):
        store.plan([[1, 2], [], [2000, 3]])
    with pytest.raises(errors.OutOfRangeError, match=r"lists\[0\]\[0\] = -1 "):
        store.plan([[-1]])
    assert store.plan([[1]]).frames >= 10


def test_only_rows_that_are_read_have_a_plan(rows: Any) -> None:
    with pytest.raises(errors.UnsupportedError, match="storage='uring'"):
        FeatureTable.from_array(rows).plan([[1]])


def test_no_lists(path: Path) -> None:
    plan = store_of(path, 10).plan([])
    assert len(plan) == 0
    assert list(plan) == []


def test_a_file_that_changes_ends_the_plan(path: Path) -> None:
    store = store_of(path, 10)
    plan = store.plan([[1], [2], [3]])
    plan.gather()
    os.utime(path, ns=(0, 0))
    with pytest.raises(errors.FileChangedError):
        plan.gather()
    assert plan.closed
    with pytest.raises(errors.ClosedError):
        plan.gather()


@pytest.mark.parametrize("extra", [-1, 1])
def test_native_gathers_compare_out_with_their_rows(path: Path, extra: int) -> None:
    """The core is told the size of ``out`` and writes nothing into memory of another one."""
    ids = np.arange(4)
    out = np.full((4 + extra, 128), 7, np.float32)
    store = FeatureTable.load(path, "uring", memory_budget="4M")
    rows = store.native_rows()
    with store.plan([ids]) as plan:
        for use in (
            lambda: rows.gather(ids, out, store.dtype_code),
            lambda: FeatureTable.load(path).native_rows().gather(ids, out, store.dtype_code),
            lambda: plan._open().gather(out, store.dtype_code),
        ):
            with pytest.raises(errors.InvalidArgumentError, match=r"4 rows .* do not fill the"):
                use()
    assert (out == 7).all()
