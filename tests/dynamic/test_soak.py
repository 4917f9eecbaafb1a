"""A live graph under load: readers in threads and processes, kills of readers and of the writer.

``AETHERGRAPH_SOAK_SECONDS`` and ``AETHERGRAPH_KILLS`` say how long; ``./scripts/test.sh soak``
takes minutes and a thousand kills.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import select
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import live_soak
from support.live_soak import Plan
from support.threads import running

from aethergraph import DynamicGraph, errors

SECONDS = float(os.environ.get("AETHERGRAPH_SOAK_SECONDS", "2"))
KILLS = int(os.environ.get("AETHERGRAPH_KILLS", "4"))
SEED = time.time_ns() % 2**32 if "AETHERGRAPH_SOAK" in os.environ else 7
FORK = multiprocessing.get_context("fork")
pytestmark = [
    pytest.mark.any_python,
    pytest.mark.forks,
    pytest.mark.timeout(600 + 4 * SECONDS + 2 * KILLS),
]


def is_ready(descriptor: int, seconds: float) -> bool:
    """Return whether there is something to read; select() takes no descriptor from 1024 on."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(1000 * seconds))


# ---- readers ---------------------------------------------------------------------------------


class Reader:
    """Process that reads; started again when it was killed, and killed at random."""

    def __init__(self, name: str, start: Callable[[int], Any], rng: np.random.Generator) -> None:
        self.name, self._start, self._rng = name, start, rng
        self.checks = self.kills = 0
        self._begin()

    def _begin(self) -> None:
        self.process, self.lines = self._start(int(self._rng.integers(1 << 30)))
        self._text, self._here = b"", 0
        self._until = int(self._rng.integers(1, 40))  # checks

    def follow(self) -> None:
        """Take what the process has told; kill it if its time has come."""
        while is_ready(self.lines, 0):
            data = os.read(self.lines, 1 << 16)
            if not data:
                raise AssertionError(f"the {self.name} reader has ended by itself")
            *lines, self._text = (self._text + data).split(b"\n")
            for line in lines:
                found = json.loads(line)
                assert isinstance(found, int), f"the {self.name} reader: {found}"
                self.checks += 1
                self._here += 1
        if self._here >= self._until:
            self.end()
            self.kills += 1
            self._begin()

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait() if isinstance(self.process, subprocess.Popen) else self.process.join()
        os.close(self.lines)


def forked(plan: Plan, graph: DynamicGraph) -> Callable[[int], Any]:
    """Return what forks a reader; its lines come through a pipe."""

    def work(out: int, seed: int) -> None:
        try:
            live_soak.read_until(
                plan, graph, lambda: False, lambda k: os.write(out, b"%d\n" % k) and None, seed
            )
        except BaseException as error:
            os.write(out, json.dumps(repr(error)).encode() + b"\n")

    def start(seed: int) -> Any:
        here, there = os.pipe()
        child = FORK.Process(target=work, args=(there, seed), daemon=True)
        child.start()
        os.close(there)
        return child, here

    return start


def attached(plan: Plan, path: Path) -> Callable[[int], Any]:
    """Return what starts a process that finds the graph by its directory."""

    def start(seed: int) -> Any:
        here, there = os.pipe()
        child = subprocess.Popen(
            [sys.executable, live_soak.__file__, str(path), plan.order, str(seed)], stdout=there
        )
        os.close(there)
        return child, here

    return start


@pytest.mark.parametrize("order", ["time", "id"])
def test_every_batch_is_some_commits_graph(tmp_path: Path, order: str) -> None:
    """Two threads, a forked and an attached process read what one thread writes at full speed."""
    plan, rng = Plan(order), np.random.default_rng(SEED)
    graph = plan.open(tmp_path / "g")
    interval = sys.getswitchinterval()
    done, checks, merges = threading.Event(), [0, 0], 0
    waits = list[int]()
    written = 0

    def write() -> None:
        nonlocal written
        while not done.is_set():
            try:
                plan.commit(graph, written + 1)
            except errors.OutOfMemoryError:  # readers hold all of the arena: this commit waits
                waits.append(written)
                time.sleep(0.01)
            else:
                written += 1

    def read(number: int) -> None:
        def count(_: int) -> None:
            checks[number] += 1
            time.sleep(0.005)  # the interpreter is the writer's

        live_soak.read_until(plan, graph, done.is_set, count, SEED + number)

    for _ in range(10):
        written += 1
        plan.commit(graph, written)
    readers = [
        Reader("forked", forked(plan, graph), rng),
        Reader("attached", attached(plan, tmp_path / "g"), rng),
    ]
    sys.setswitchinterval(1e-4)  # threads change places within calls
    try:
        with running(write, lambda: read(0), lambda: read(1)) as failures:
            try:
                end = time.monotonic() + SECONDS / 2
                merged = time.monotonic()
                while not failures and (
                    time.monotonic() < end or not all(r.checks for r in readers)
                ):
                    for reader in readers:
                        reader.follow()
                    if time.monotonic() - merged > 5:  # the log does not grow for ever
                        graph.merge()
                        merges, merged = merges + 1, time.monotonic()
                    time.sleep(0.005)
            finally:
                done.set()
    finally:
        sys.setswitchinterval(interval)
        for reader in readers:
            reader.end()
    print(
        f"{order}: seed {SEED}, {written} commits, checks {checks} in threads, "
        + ", ".join(f"{r.checks} {r.name} ({r.kills} killed)" for r in readers)
        + f", {merges} merges, {len(waits)} waits for memory"
    )
    last = plan.check(graph.snapshot(), rng)  # an assert would keep the snapshot
    assert last == written
    written += 1
    plan.commit(graph, written)  # snapshots of the last commit are in nobody's way
    gc.collect()
    graph.reclaim()
    assert graph.stats().snapshots == 0  # those of killed readers, too
    graph.close()
    graph = plan.open(tmp_path / "g")
    assert plan.check(graph.snapshot(), rng) == written
    assert graph.offsets("soak") == {0: written}
    graph.close()


# ---- kill -9 of the writer -------------------------------------------------------------------


def write_for_ever(plan: Plan, path: Path, durability: str, out: int, seed: int) -> None:
    """Open the graph, compare all of it with its commit, and go on; tell of every commit."""
    try:
        rng = np.random.default_rng(seed)
        graph = plan.open(path, durability)
        k = plan.check(graph.snapshot(), rng)
        assert graph.offsets("soak") == ({0: k} if k else {})
        while True:
            os.write(out, struct.pack("<q", k))  # it was made, and has to be there from now on
            if rng.random() < 0.002:
                graph.merge()
            plan.commit(graph, k + 1)
            k += 1
    except BaseException as error:
        os.write(out, struct.pack("<q", -1) + repr(error).encode())


def test_killed_writers_lose_nothing(tmp_path: Path) -> None:
    """No commit that was told of is lost, and none is there that was not made."""
    rng = np.random.default_rng(SEED)
    told, opened, made = 0, 0, 0
    order = "time"
    plan, path = Plan(order), tmp_path / "g"
    for number in range(KILLS):
        if number == KILLS // 2:  # a new graph of the other order
            plan, path, told = Plan("id"), tmp_path / "h", 0
        durability = ("sync", "batch", "none")[number % 3]
        here, there = os.pipe()
        seed = int(rng.integers(1 << 30))
        child = FORK.Process(
            target=write_for_ever, args=(plan, path, durability, there, seed), daemon=True
        )
        child.start()
        os.close(there)
        try:
            # At any moment: while it opens, compares, writes, merges; but half of them while it
            # writes.
            data = b"" if number % 2 else os.read(here, 8)
            end = time.monotonic() + float(rng.random()) * 0.3
            while (left := end - time.monotonic()) > 0 and child.exitcode is None:
                if is_ready(here, left):
                    data += os.read(here, 1 << 16)
        finally:
            child.kill()
            child.join()
        with os.fdopen(here, "rb") as rest:
            data += rest.read()
        numbers = [n for (n,) in struct.iter_unpack("<q", data[: len(data) // 8 * 8])]
        if -1 in numbers:
            raise AssertionError(
                f"kill {number}, seed {SEED}: {data[8 * numbers.index(-1) + 8 :].decode()}"
            )
        if numbers:
            opened += 1
            made += len(numbers) - 1
            # One more than was told of may have been made before the kill.
            assert told <= numbers[0] <= told + 1, f"kill {number}, seed {SEED}"
            told = numbers[-1]
    graph = plan.open(path)
    assert told <= plan.check(graph.snapshot(), rng) <= told + 1
    graph.close()
    print(f"seed {SEED}: {KILLS} kills, {opened} after it had opened the graph, {made} commits")
    assert opened > KILLS // 4 and made > 0
