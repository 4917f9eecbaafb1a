"""Gathers that a server was told of ahead give the same rows, whatever comes between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.network import Relay
from support.processes import in_fork
from support.threads import run_together

from aethergraph import FeatureTable, LiveFeatureTable
from aethergraph.errors import (
    ClosedError,
    InvalidArgumentError,
    OutOfRangeError,
    UnsupportedError,
)
from aethergraph.remote import FeatureServer, open_source
from aethergraph.remote.ahead import RowsAhead
from aethergraph.remote.rows import RemoteRows

ROWS = 20_000


@pytest.fixture(scope="module")
def table() -> Any:
    return np.random.default_rng(0).random((ROWS, 40), dtype=np.float32)


def lists_of(*sizes: int) -> list[Any]:
    return [np.random.default_rng(i).integers(0, ROWS, size) for i, size in enumerate(sizes)]


def test_in_order(table: Any) -> None:
    """Lists of many requests, of one and of none, by either call."""
    with FeatureServer(table, port=0) as server, open_source(server.address) as rows:
        assert isinstance(rows, RemoteRows) and rows.can_plan
        lists = lists_of(30_000, 0, 3, 9000, 70_000, 1, 0)
        plan = rows.plan(lists)
        assert isinstance(plan, RowsAhead)
        for number, ids in enumerate(lists):
            out = np.empty((len(ids), 40), np.float32)
            assert not plan.gather_if_next(np.array([1, 2]), np.empty((2, 40), np.float32))
            if number % 2:
                assert plan.gather(ids, out) is out
            else:
                assert plan.gather_if_next(ids, out)
            assert (out == table[ids]).all()
            other = np.arange(number, 50)  # beside the plan
            assert (rows.gather(other) == table[other]).all()
        assert not plan.gather_if_next(ids, out)
        with pytest.raises(ClosedError, match="all 7 lists"):
            plan.gather(ids, out)
        assert rows.stats().connections == 2  # one of the plan, which is given back, and one
        again = rows.plan(lists_of(5))
        out = np.empty((5, 40), np.float32)
        assert again.gather_if_next(lists_of(5)[0], out)
        assert (out == table[lists_of(5)[0]]).all() and rows.stats().connections == 2


def test_what_is_refused(table: Any) -> None:
    with FeatureServer(table, port=0) as server, open_source(server.address) as rows:
        with pytest.raises(OutOfRangeError, match=r"lists\[1\]: ids\[2\] = 20000") as caught:
            rows.plan([[1], [3, 4, ROWS]])
        assert (caught.value.position, caught.value.value) == (2, ROWS)
        plan = rows.plan([[3, 4]])
        with pytest.raises(InvalidArgumentError, match="not list 0 of the plan"):
            plan.gather([4, 3], np.empty((2, 40), np.float32))
        out = np.empty((2, 40), np.float32)
        assert plan.gather_if_next(np.array([3, 4]), out)
        assert (out == table[[3, 4]]).all()


def test_given_up(table: Any) -> None:
    """A plan that is closed or forgotten leaves no reply behind for others."""
    with FeatureServer(table, port=0) as server, open_source(server.address) as rows:
        for way in range(4):
            plan = rows.plan(lists_of(50_000, 50_000))
            if way % 2:
                plan.gather_if_next(lists_of(50_000)[0], np.empty((50_000, 40), np.float32))
            if way < 2:
                plan.close()
            del plan
            assert (rows.gather(np.arange(100)) == table[:100]).all()


def test_wider_rows(table: Any) -> None:
    with FeatureServer(table, port=0) as server, open_source(server.address) as rows:
        plan = rows.plan([[3, 4], [5, 6], [7, 8]])
        out = np.empty((2, 40))
        assert plan.gather_if_next(np.array([3, 4]), out) and (out == table[[3, 4]]).all()
        assert plan.gather_if_next(np.array([5, 6]), out) and (out == table[[5, 6]]).all()
        with pytest.raises(UnsupportedError, match="float16"):
            plan.gather([7, 8], np.empty((2, 40), np.float16))
        out = np.empty((2, 40), np.float32)
        assert (plan.gather([7, 8], out) == table[[7, 8]]).all()


def test_rows_of_bfloat16() -> None:
    """Loaders take them as float32: they come over the connection of the plan, too."""
    bits = np.arange(4000, dtype=np.uint16).reshape(1000, 4)
    store = FeatureTable.from_array(bits, dtype="bfloat16")
    with FeatureServer(store, port=0) as server, open_source(server.address) as rows:
        lists = [np.arange(10), np.arange(5, 900)]
        plan = rows.plan(lists)
        for ids in lists:
            out = np.empty((len(ids), 4), np.float32)
            assert plan.gather_if_next(ids, out)
            assert (out.view(np.uint32) == bits[ids].astype(np.uint32) << 16).all()
        assert server.stats().requests == 2 and rows.stats().connections == 1


@pytest.mark.parametrize("wrong", [
    lambda n: np.zeros((n, 80), np.float32)[:, :40],
    lambda n: np.zeros((2 * n, 40), np.float32)[::2],
    lambda n: np.zeros((n, 40), np.float32, "F"),
    lambda n: np.zeros((n, 80), np.float32),
    lambda n: np.zeros((n + 1, 40), np.float32),
    lambda n: np.zeros((n, 40), np.float32).tolist(),
])  # fmt: skip
def test_places_that_do_not_fit(table: Any, wrong: Callable[[int], Any]) -> None:
    """Nothing is put where it would be lost; the list is then gathered as before."""
    with FeatureServer(table, port=0) as server, open_source(server.address) as rows:
        plan = rows.plan([[3, 4, 5], [6]])
        for gather in (plan.gather, plan.gather_if_next):
            with pytest.raises(InvalidArgumentError, match="out "):
                gather(np.array([3, 4, 5]), wrong(3))
        assert (plan.gather([3, 4, 5], np.empty((3, 40), np.float32)) == table[3:6]).all()
        assert rows.stats().connections == 1


def test_lists_that_are_changed(table: Any) -> None:
    """A plan keeps its own lists: those of the caller may be used for something else."""
    with FeatureServer(table, port=0) as server, open_source(server.address) as rows:
        order = np.arange(100)
        plan = rows.plan(np.array_split(order, 4))
        order[:] = order[::-1].copy()
        with pytest.raises(InvalidArgumentError, match="not list 0"):
            plan.gather(order[:25], np.empty((25, 40), np.float32))
        out = np.empty((25, 40), np.float32)
        assert (plan.gather(np.arange(25), out) == table[:25]).all()


@pytest.mark.parametrize("when", [0, 1, 2])
def test_a_server_that_is_started_again(table: Any, tmp_path: Path, when: int) -> None:
    np.save(tmp_path / "x.npy", table)
    lists = lists_of(20_000, 20_000, 20_000)
    server = FeatureServer(FeatureTable.load(tmp_path / "x.npy"), unix=tmp_path / "s").start()
    with open_source(f"{server.address}?map=no") as rows:
        plan = rows.plan(lists)
        for number, ids in enumerate(lists):
            if number == when:
                server.close(0)
                server = FeatureServer(
                    FeatureTable.load(tmp_path / "x.npy"), unix=tmp_path / "s"
                ).start()
            out = np.empty((len(ids), 40), np.float32)
            assert plan.gather_if_next(ids, out) and (out == table[ids]).all()
    server.close()


def test_a_connection_that_breaks_when_a_plan_begins(table: Any) -> None:
    """The first request of a plan goes to a server that has gone meanwhile."""
    with FeatureServer(table, port=0) as server:
        relay = Relay(server.port or 0)
        with open_source(f"tcp://127.0.0.1:{relay.port}") as rows:
            assert isinstance(rows, RemoteRows)
            rows.gather([1])
            relay.close_all()
            relay.open()
            plan = rows.plan([[3, 4]])
            out = np.empty((2, 40), np.float32)
            assert plan.gather_if_next(np.array([3, 4]), out) and (out == table[[3, 4]]).all()
        relay.close()


def test_threads_take_turns(table: Any) -> None:
    with FeatureServer(table, port=0) as server, open_source(server.address) as rows:
        lists = lists_of(*[5000] * 8)
        plan = rows.plan(lists)

        def work() -> None:
            for ids in lists:
                out = np.empty((len(ids), 40), np.float32)
                assert not plan.gather_if_next(ids, out) or (out == table[ids]).all()

        run_together(*[work] * 4)


def test_a_child_leaves_the_connection_alone(table: Any) -> None:
    with FeatureServer(table, port=0) as server, open_source(server.address) as rows:
        lists = lists_of(30_000, 30_000)
        plan = rows.plan(lists)
        out = np.empty((30_000, 40), np.float32)
        assert in_fork(
            lambda: plan.gather_if_next(lists[0], out) and bool((out == table[lists[0]]).all())
        )
        for ids in lists:
            assert plan.gather_if_next(ids, out) and (out == table[ids]).all()


def test_a_gather_that_was_interrupted_behind_its_rows_can_be_repeated(
    table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = RowsAhead._receive

    def interrupted(*arguments: Any) -> None:
        assert whole(*arguments)
        raise KeyboardInterrupt

    with FeatureServer(table, port=0) as server, open_source(server.address) as rows:
        lists = lists_of(5, 7)
        plan = rows.plan(lists)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(RowsAhead, "_receive", interrupted)
            plan.gather(lists[0], np.empty((5, 40), np.float32))
        for ids in lists:
            assert (plan.gather(ids, np.zeros((len(ids), 40), np.float32)) == table[ids]).all()


def test_what_is_not_planned(table: Any, tmp_path: Path) -> None:
    """Rows that change must not be read before they are asked for; mapped ones need no server."""
    live = LiveFeatureTable.create(None, 10, 4)
    live.put_many(np.arange(10), np.ones((10, 4), np.float32))
    with FeatureServer({"x": live}, port=0) as server, open_source(server.address) as rows:
        assert not rows.can_plan
    np.save(tmp_path / "x.npy", table)
    store = FeatureTable.load(tmp_path / "x.npy")
    with FeatureServer(store, unix=tmp_path / "s") as server, open_source(server.address) as rows:
        assert isinstance(rows, RemoteRows) and rows.transport == "map" and not rows.can_plan
