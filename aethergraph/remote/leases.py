"""Leases: commits of live graphs that a server holds for clients that sample from them.

::

    client        LEASE g  ──>  Leases.take ──┐                      ┌─ tables of the commit: lists,
    another one   LEASE g  ──>  Leases.take ──┼──> one held commit ──┤  ids, edges, weights, times,
    its worker    LEASE token ─>  Leases.join ┘    (snapshot)        └─ rows of attributes

A commit that is held keeps old versions of what has changed since in the memory of the process that
writes the graph. So there are so many commits at most, whose clients share them, and each lease
ends a while after it was taken, or before: at once when the last of its connections leaves it
(LEAVE), and when the last one has broken and no other one came for a moment. A connection takes
part in one lease. Tables of a commit have numbers that no other commit's ever get, so a request
names its commit.

Positions in lists are places in the memory of the live graph, which only the server understands,
and lists of the same commit lead to. A client that makes them up reads entries of other commits,
deleted edges included, until their memory is used again; whoever may connect may read all of the
graph anyway.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from aethergraph._checks.arrays import as_count
from aethergraph._checks.options import as_items, as_number, is_name, shown
from aethergraph._native.asked import AskedLists
from aethergraph.dynamic.attrs import NodesOfSource, SnapshotRows
from aethergraph.errors import (
    AetherError,
    InvalidArgumentError,
    LimitError,
    OutOfRangeError,
    SnapshotExpiredError,
)
from aethergraph.graph.parts import BY_EDGE_TIME, BY_SOURCE_TIME
from aethergraph.graph.schema import as_typed
from aethergraph.protocols import RowSource
from aethergraph.remote.commits import Commits, Taken, commits_of
from aethergraph.remote.graph_tables import IdTable
from aethergraph.remote.served import ServedRows, row_bytes_of

__all__ = ["LEASE_SECONDS", "MOST_LEASES", "Leases"]

#: Seconds that a lease lasts, and how many commits may be held, unless told otherwise.
LEASE_SECONDS, MOST_LEASES = 3600.0, 64
#: Seconds that a lease lasts without any connection: one that broke is made anew.
_LINGER = 10.0
#: Commits that may be held at all: a live graph has so many snapshots for all of its readers.
_MOST_SNAPSHOTS = 256
#: Seconds that a client waits for room: another graph may just have been closed.
_ROOM = 1.0
#: Tables of lists: name, question, dtype, shape of an answer.
_QUESTIONS = (
    ("lists", AskedLists.LISTS, "uint64", (2,)),
    ("ids", AskedLists.IDS, "int64", ()),
    ("edges", AskedLists.EDGES, "int64", ()),
    ("weights", AskedLists.WEIGHTS, "float64", ()),
    ("times", AskedLists.TIMES, "int64", ()),
)


class _Held:
    """Commit that is held: its tables by number, and what clients are told of it."""

    def __init__(self, name: str, commit: Taken, first: int) -> None:
        self.name, self.commit = name, commit.number
        self.tables: dict[int, ServedRows] = {}
        self._first = first
        self._lists: list[Any] = []
        self.facts = self._describe(commit.now)
        self.leases = 0

    @property
    def end(self) -> int:
        """Number behind those of its tables."""
        return self._first + len(self.tables)

    def is_as(self, now: Any) -> bool:
        """Return whether its attributes are those of a snapshot of the same commit.

        In memory they begin and end without a commit, and where there is a log a moment after it.
        """
        return self._sources == _sources_of(now)

    def is_expired(self) -> bool:
        """Return whether the writer has taken the memory of the commit back."""
        with suppress(AetherError):  # of another kind: whoever reads the lists is told
            for topology in self._lists:
                try:
                    topology.answer(AskedLists.LISTS, np.zeros(1, np.int64))
                except SnapshotExpiredError:
                    return True
        return False

    def _add(self, rows: RowSource) -> int:
        number = self.end
        shard = (0, 1)
        self.tables[number] = ServedRows(rows, row_bytes_of(rows), 0, rows.num_rows, "", shard)
        return number

    def _describe(self, now: Any) -> dict[str, Any]:
        """Make the tables; return what there is, as an object of JSON."""
        typed = as_typed(now, "node")
        self._sources = _sources_of(now)
        return {
            "graph": self.name, "commit": self.commit, "typed": now.is_typed,
            "nodes": [
                [kind, typed.num_nodes[kind], self._add_rows(typed[kind].node_attrs)]
                for kind in typed.node_types
            ],
            "node_values": [
                [kind, self._add_rows(typed[kind].node_values)] for kind in typed.node_types
            ],
            "edges": [self._add_relation(kind, typed[kind]) for kind in typed.edge_types],
            "time_unit": now.time_unit, "time_zone": getattr(now, "time_zone", None),
            "time_attr": getattr(now, "time_attr", None),
        }  # fmt: skip

    def _add_rows(self, attrs: Mapping[str, RowSource]) -> list[Any]:
        return [
            [name, self._add(rows), [int(n) for n in rows.shape], rows.dtype_name, rows.is_live]
            for name, rows in attrs.items()
        ]

    def _add_relation(self, kind: tuple[str, str, str], relation: Any) -> dict[str, Any]:
        layouts: tuple[Any, ...] = (
            ("csc", "csr") if relation.layout == "both" else (relation.layout,)
        )
        lists = {layout: relation.topology(layout) for layout in layouts}
        end = max(topology.end_edge_ids for topology in lists.values())
        by_source = relation.sorted_by >= BY_SOURCE_TIME
        order = ["edge_time"] if relation.sorted_by >= BY_EDGE_TIME else ["node_time"] * by_source
        return {
            "type": list(kind), "edges": relation.num_edges, "end": end,
            "sorted": order,
            "attrs": self._add_rows(relation.edge_attrs),
            "values": self._add_rows(relation.edge_values),
            "lists": {
                layout: self._add_lists(lists[layout], timed=layout == "csc" or not by_source)
                for layout in layouts
            },
        }  # fmt: skip

    def _add_lists(self, topology: Any, *, timed: bool) -> dict[str, int]:
        if topology.num_major and not self._lists:  # all lists of a commit expire together
            self._lists.append(topology)
        has_times = timed and topology.has_own_times
        has_own = {"weights": topology.has_own_weights, "times": has_times}
        numbers = {}
        for name, question, dtype, width in _QUESTIONS:
            if has_own.get(name, True):
                end = topology.num_major if name == "lists" else topology.end_positions
                ask = _Question(topology, question)
                numbers[name] = self._add(IdTable((end, *width), dtype, None, ask))
        return numbers


def _sources_of(now: Any) -> dict[tuple[str, str], int]:
    """Return numbers of what attributes of nodes are rows of, whatever the commit.

    Two that are alive at once have two.
    """
    typed = as_typed(now, "node")
    return {
        (kind, name): _number_of(rows)
        for kind in typed.node_types
        for name, rows in typed[kind].node_attrs.items()
    }


def _number_of(rows: RowSource) -> int:
    if isinstance(rows, SnapshotRows):
        return rows.memory.inode  # also where the graph was attached to again
    return id(rows.source if isinstance(rows, NodesOfSource) else rows)


class _Question:
    """Question to lists, which is answered by numbers."""

    def __init__(self, topology: Any, question: int) -> None:
        self._topology, self._what = topology, question

    def __call__(self, numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        answers: np.ndarray[Any, Any] = self._topology.answer(self._what, numbers)
        return answers


class _Lease:
    """Lease of a client."""

    def __init__(self, holding: _Held, until: float) -> None:
        self.held, self.until = holding, until
        self.connections: set[Hashable] = set()
        #: When a connection broke last; its client may be about to make another one.
        self.broken = -math.inf


class Leases:
    """Commits that a server holds for clients; threads share it.

    Args:
        graphs: live graphs, or paths of their directories, by name; None: there are none.
        first: number of the first table.
        seconds: time that a lease lasts; ``inf``: as long as its client has connections.
        max_leases: commits at once.
        linger: seconds that a lease lasts without a connection.

    Raises:
        InvalidArgumentError: a name is none, or a graph does not change.
    """

    def __init__(
        self,
        graphs: Mapping[str, Any] | None,
        first: int,
        seconds: float = LEASE_SECONDS,
        max_leases: int = MOST_LEASES,
        linger: float = _LINGER,
    ) -> None:
        self._graphs: dict[str, Commits] = {}
        for name, graph in () if graphs is None else as_items(graphs, "graphs", "live graphs"):
            if not is_name(name) or len(name.encode()) > 1000:
                raise InvalidArgumentError(f"graphs: {shown(name)} is no name of a graph")
            commits = commits_of(graph)
            if not commits.is_live:
                raise InvalidArgumentError(
                    f"graphs[{name!r}] does not change: its lists are tables, open_tables(path, "
                    "lists=True)"
                )
            self._graphs[name] = commits
        self._seconds, self._most = as_number(seconds, "lease"), as_count(max_leases, "max_leases")
        if not 1 <= self._most <= _MOST_SNAPSHOTS:
            raise InvalidArgumentError(
                f"max_leases = {self._most} is not in 1..{_MOST_SNAPSHOTS}: a live graph has "
                f"{_MOST_SNAPSHOTS} snapshots for all of its readers"
            )
        if not self._seconds > 0:
            raise InvalidArgumentError(f"lease = {self._seconds} is no time: give seconds above 0")
        self._linger, self._next = linger, first
        self._first = first
        self._changed = threading.Condition()
        self._leases: dict[str, _Lease] = {}
        #: Of each number the one whose attributes are the last.
        self._held: dict[tuple[str, int], _Held] = {}
        self._tables: dict[int, ServedRows] = {}
        self._sweeper: threading.Thread | None = None

    @property
    def names(self) -> list[str]:
        """Names of the graphs."""
        return list(self._graphs)

    @property
    def count(self) -> int:
        """Number of leases that have not ended."""
        with self._changed:
            self._end_expired()
            return len(self._leases)

    # ---- what clients ask for ----------------------------------------------------------------

    def answer(self, request: Mapping[str, Any], connection: Hashable) -> dict[str, Any]:
        """Return what a client is told that wants a lease, or to take part in one.

        Args:
            request: ``{"graph": name, "at": commit or None}``, or ``{"lease": token}``.
            connection: the connection that asks, which takes part in the lease until it ends.

        Returns:
            What there is, with the token; ``{}``: no graph here is live.

        Raises:
            InvalidArgumentError: there is no such graph, or the request is none.
            OutOfRangeError: the commit is not there any more, or not yet.
            LimitError: there are too many commits.
            SnapshotExpiredError: the lease has ended.
        """
        token, name, at = request.get("lease"), request.get("graph", ""), request.get("at")
        if token is not None:
            return self._join(str(token), connection)
        if at is not None and type(at) is not int:
            raise InvalidArgumentError(f"at = {shown(at)} is no number of a commit")
        if type(name) is not str:
            raise InvalidArgumentError(f"graph = {shown(name)} is no name of a graph")
        if not name and len(self._graphs) == 1:
            name = next(iter(self._graphs))
        if name not in self._graphs:
            if not name and len(self._graphs) > 1:
                known = ", ".join(self._graphs)
                raise InvalidArgumentError(f"there are several live graphs, name one: {known}")
            return {}
        return self._take(name, at, connection)

    def _take(self, name: str, at: int | None, connection: Hashable) -> dict[str, Any]:
        commit = None
        with self._changed:
            self._take_out(connection)
            self._end_expired()
            holding_at = None if at is None else self._held.get((name, at))
        if holding_at is None:
            commit = self._graphs[name].take(anew=True)
            if at is not None and commit.number != at:
                with self._changed:
                    numbers = sorted(number for graph, number in self._held if graph == name)
                known = f", and {', '.join(map(str, numbers))} for other clients" if numbers else ""
                raise OutOfRangeError(
                    f"at = {at}: the server has the last commit, {commit.number}{known}; load "
                    "that, or replay the log (aethergraph.dynamic.History)",
                    value=at,
                )
        with self._changed:
            if commit is None:
                holding = self._held.get((name, at)) or holding_at  # type: ignore[arg-type]
            else:
                holding = self._found(name, commit)
            if holding is None:
                assert commit is not None
                self._check_room(partial(self._found, name, commit))
                holding = self._found(name, commit)
            if holding is None:
                assert commit is not None
                holding = _Held(name, commit, self._next)
                self._next = holding.end
            if holding.leases == 0:
                self._held[name, holding.commit] = holding
                self._tables.update(holding.tables)
            holding.leases += 1
            token = secrets.token_hex(16)
            lease = self._leases[token] = _Lease(holding, time.monotonic() + self._seconds)
            lease.connections.add(connection)
            if self._sweeper is None:
                self._sweeper = threading.Thread(
                    target=self._sweep_on, daemon=True, name="aethergraph leases"
                )
                self._sweeper.start()
            self._changed.notify_all()
        return {**holding.facts, "lease": token, "seconds": self._seconds}

    def _found(self, name: str, commit: Taken) -> _Held | None:
        """Return what is held already of a commit that was taken. The lock is held."""
        holding = self._held.get((name, commit.number))
        return holding if holding is not None and holding.is_as(commit.now) else None

    def _check_room(self, or_held: Callable[[], object]) -> None:
        """Raise LimitError if there are as many commits as there may be, or ``or_held()`` is one.

        The lock is held.
        """
        if not self._changed.wait_for(lambda: self._has_room() or or_held() is not None, _ROOM):
            raise LimitError(
                f"the server holds {self._most} commits for its clients, the most that it may: "
                "close graphs that were loaded there, load one that others have (at=), or let it "
                "hold more (--max-leases)"
            )

    def _has_room(self) -> bool:
        self._end_expired()
        return len(self._all_held()) < self._most

    def _all_held(self) -> list[_Held]:
        return list({id(lease.held): lease.held for lease in self._leases.values()}.values())

    def _take_out(self, connection: Hashable, kept_lease: _Lease | None = None) -> None:
        """Let a connection take part in no lease but one. The lock is held."""
        for lease in self._leases.values():
            if lease is not kept_lease:
                lease.connections.discard(connection)

    def _join(self, token: str, connection: Hashable) -> dict[str, Any]:
        with self._changed:
            self._sweep()
            lease = self._leases.get(token)
            if lease is None:
                raise self._ended()
            lease.connections.add(connection)
            self._take_out(connection, lease)
            self._sweep()
            left = lease.until - time.monotonic()
            return {**lease.held.facts, "lease": token, "seconds": left}

    def leave(self, connection: Hashable, orderly: bool = False) -> None:
        """Note that a connection has ended, or needs its leases no more.

        Args:
            connection: the connection.
            orderly: its client said so, and makes no other one in its place.
        """
        if not self._leases:
            return
        with self._changed:
            for lease in self._leases.values():
                if connection in lease.connections:
                    lease.connections.discard(connection)
                    if not orderly:
                        lease.broken = time.monotonic()
            self._sweep()
            self._changed.notify_all()

    def table(self, number: int) -> ServedRows | None:
        """Return the table of a number; None: there never was one.

        Raises:
            SnapshotExpiredError: the lease of its commit has ended.
        """
        table = self._tables.get(number)
        if table is None and self._first <= number < self._next:
            raise self._ended()
        return table

    def _ended(self) -> SnapshotExpiredError:
        return SnapshotExpiredError(
            "the server does not hold the commit of this graph any more: it does so for "
            f"{self._seconds:g} s, as long as there are connections, or for {self._linger:g} s "
            "without one, and it runs itself, and the writer does not take the memory back "
            "(max_snapshot_age). Load the graph again"
        )

    # ---- their ends --------------------------------------------------------------------------

    def _sweep(self) -> float | None:
        """End what has run out; return the seconds until the next one does. The lock is held."""
        now, soonest = time.monotonic(), None
        for token, lease in list(self._leases.items()):
            until = lease.until
            if not lease.connections:
                until = min(until, lease.broken + self._linger)
            if until > now:
                soonest = until - now if soonest is None else min(soonest, until - now)
                continue
            del self._leases[token]
            holding = lease.held
            holding.leases -= 1
            if holding.leases == 0:
                # Unless there is another one in its place.
                if self._held.get((holding.name, holding.commit)) is holding:
                    del self._held[holding.name, holding.commit]
                for number in holding.tables:
                    del self._tables[number]
        return soonest

    def _end_expired(self) -> None:
        """End what has run out, and leases of commits that are gone. The lock is held."""
        gone = {id(holding) for holding in self._all_held() if holding.is_expired()}
        for lease in self._leases.values():
            if id(lease.held) in gone:
                lease.until = 0.0
        self._sweep()

    def _sweep_on(self) -> None:
        with self._changed:
            while self._leases:
                soonest = self._sweep()
                # A lease without an end is still swept: its connections may end before it.
                self._changed.wait(None if soonest is None else min(soonest, threading.TIMEOUT_MAX))
            self._sweeper = None

    def close(self) -> None:
        """End all leases."""
        with self._changed:
            for lease in self._leases.values():
                lease.until = 0.0
            self._sweep()
            self._changed.notify_all()
