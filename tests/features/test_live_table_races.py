"""Live tables under load: writers in threads and processes, readers, and writers that are killed.

``AETHERGRAPH_SOAK_READS`` says how many rows are read (``./scripts/test.sh soak``: 1e8).
"""

from __future__ import annotations

import functools
import gc
import multiprocessing
import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
from support.live_rows import ITEMS, ROWS, read, read_and_tell, rows_of, write, write_large
from support.threads import run_with_each

from aethergraph import LiveFeatureTable, errors

pytestmark = pytest.mark.any_python

READS = int(float(os.environ.get("AETHERGRAPH_SOAK_READS", "1e6")))


def filled(path: Any = None, **options: Any) -> LiveFeatureTable:
    table = LiveFeatureTable.create(path, ROWS, ITEMS, **options)
    table.put_many(np.arange(ROWS), rows_of(np.arange(ROWS), 0))
    return table


@pytest.mark.parametrize("in_file", [False, True])
def test_no_torn_row_is_taken(in_file: bool, tmp_path: Any) -> None:
    table = filled(tmp_path / "x" if in_file else None)
    checked = LiveFeatureTable.attach(table.descriptor, check=True)
    context = multiprocessing.get_context("spawn")
    stop, wrong = context.Event(), context.Queue()
    reads = READS // 4
    workers: list[Any] = [
        context.Process(target=write, args=(table, 1, stop)),
        threading.Thread(target=write, args=(table, 2, stop)),
        context.Process(target=read_and_tell, args=(table, 4, reads, wrong)),
    ]
    for worker in workers:
        worker.start()
    try:
        found = read(table, 5, reads * 2) + read(checked, 6, reads)
        found += wrong.get(timeout=60 + READS / 1e5)
    finally:
        stop.set()
        for worker in workers:
            worker.join()
    assert found == 0
    assert [worker.exitcode for worker in workers if hasattr(worker, "exitcode")] == [0, 0]


def take_row(table: LiveFeatureTable, row: int) -> None:
    """Let a row be in work by this process, as a put leaves it that does not go on."""
    with open("/proc/self/stat", encoding="ascii") as stat:
        start = int(stat.read().rpartition(")")[2].split()[19])
    owner = np.array([start << 22 | os.getpid(), row], np.uint64)
    os.pwrite(table.descriptor, owner.tobytes(), 2048 + 64 * (row // 64 % 32))
    os.pwrite(table.descriptor, np.uint32(3).tobytes(), 4096 + row * table.layout.stride)


@pytest.mark.slow
def test_a_row_that_a_living_writer_does_not_end(tmp_path: Any) -> None:
    table = filled(tmp_path / "x")
    take_row(table, 1)

    def wait(call: Any) -> None:
        begun = time.monotonic()
        with pytest.raises(errors.TornRowError, match=f"by process {os.getpid()}, which lives"):
            call([0, 1, 1, 1, 2])
        assert time.monotonic() - begun >= 5

    run_with_each(wait, [table.gather, table.versions])
    assert len(table.gather([0, 2])) == 2


def test_a_killed_writer_that_nobody_has_waited_for(tmp_path: Any) -> None:
    """A parent puts before it asks for its child, which is there until then, as if it lived."""
    table = filled(tmp_path / "x")
    child = os.fork()
    if not child:
        take_row(table, 1)
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        with pytest.raises(errors.TornRowError, match="whose process ended"):
            table.gather([1])
        alarm = threading.Timer(30, os.kill, (os.getpid(), signal.SIGINT))
        alarm.start()
        table.put(1, rows_of(np.array([1]), 5)[0])
        alarm.cancel()
        assert (table.gather([1]) == rows_of(np.array([1]), 5)).all()
    finally:
        os.waitpid(child, 0)


@pytest.mark.parametrize("name", ["gather", "versions", "ages", "put_many"])
def test_ctrl_c_ends_waiting_for_a_writer(name: str, tmp_path: Any, request: Any) -> None:
    table = filled(tmp_path / "x")
    take_row(table, 1)
    args = (rows_of(np.arange(2), 5),) if name == "put_many" else ()
    where = list[str]()

    def interrupt(_: int, frame: Any) -> None:
        where.append(str(frame))
        raise KeyboardInterrupt

    request.addfinalizer(functools.partial(signal.signal, signal.SIGINT, signal.getsignal(2)))
    signal.signal(signal.SIGINT, interrupt)
    gc.disable()  # Python ignores what a handler raises inside of a finalizer
    request.addfinalizer(gc.enable)
    begun = time.monotonic()
    try:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        getattr(table, name)([0, 1], *args)
        pytest.fail(f"nothing ended the wait; signals were taken in {where}")
    except KeyboardInterrupt:
        assert time.monotonic() - begun < 4
    except errors.AetherError as error:
        pytest.fail(f"{error!r}; signals were taken in {where}")
    assert len(table.gather([0, 2])) == 2


def kill_inside_row_1(table: LiveFeatureTable) -> bool:
    """Kill a writer when its row is odd; return whether it still is."""
    context = multiprocessing.get_context("spawn")
    ready, seq = context.Event(), table.slots[1, :4].view(np.uint32)
    writer = context.Process(target=write_large, args=(table, ready))
    writer.start()
    ready.wait(60)
    until = time.monotonic() + 5
    while seq[0] % 2 == 0 and time.monotonic() < until:
        pass
    assert writer.pid is not None
    os.kill(writer.pid, signal.SIGKILL)
    writer.join()
    return bool(seq[0] % 2)


def test_a_writer_that_is_killed_leaves_one_row_torn() -> None:
    items = 1 << 21  # a put of this row takes milliseconds
    table = LiveFeatureTable.create(None, 3, items, missing="zero", check=True)
    for row in (0, 2):
        table.put(row, np.full(items, row))
    torn = False
    for _ in range(20):
        torn = kill_inside_row_1(table)
        if torn:
            break
        assert set(table.gather([1])[0].tolist()) <= {0.0, 1.0}
    assert torn
    for call in (table.gather, table.versions, table.ages):
        with pytest.raises(errors.TornRowError, match=r"row 1 .* whose process ended") as caught:
            call([0, 1])  # type: ignore[operator]
        assert (caught.value.value, caught.value.position) == (1, 1)
    assert table.gather([0, 2])[:, 7].tolist() == [0, 2]
    table.put(2, np.full(items, 3))  # takes the lock over
    assert table.gather([2])[0, 7] == 3
    table.put(1, np.full(items, 5), version=0)
    assert (table.gather([1]) == 5).all()
