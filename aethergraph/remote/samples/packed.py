"""Answers by one native call each, from lists and rows that are in memory.

Such a call draws, gathers the rows and writes the bytes, without the interpreter's lock. What it
cannot do, other storage among it, is left to :meth:`Form.pack`, which gives the same bytes.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._tracepoints import stage
from aethergraph.dynamic.attrs import SnapshotRows
from aethergraph.errors import AetherError, SnapshotExpiredError
from aethergraph.features.stored_rows import plain_rows
from aethergraph.protocols import RowSource
from aethergraph.remote import wire
from aethergraph.remote.commits import Taken
from aethergraph.remote.samples.form import Form
from aethergraph.remote.samples.plan import AnySampler
from aethergraph.remote.samples.request import Request
from aethergraph.sampling.engine import NativeEngine

__all__ = ["PackedAnswers"]

#: Bytes of memory that are asked for before the size of an answer is known, at first and at most.
_FIRST_GUESS, _MOST_GUESSED = 1 << 16, 1 << 20

Tables = Callable[[Any], Mapping[str, RowSource]]


class PackedAnswers:
    """Answers from one commit. Threads may share it.

    Native samplers stay on the lists of the commit while it lives, and go back to their engine with
    it: to move one to other lists takes as long as a small sample.
    """

    def __init__(
        self, sampler: AnySampler, commit: Taken, at: native.PinnedLists | None,
        packing: native.NativePacking, rows: list[tuple[Any, str, RowSource]], tables: Tables,
        is_changed: bool,
    ) -> None:  # fmt: skip
        self._sampler, self._engine, self._taken_now, self._at = (
            sampler, _engine_of(sampler), commit.now, at,
        )  # fmt: skip
        self._graph, self._is_live = commit.graph, commit.now is not commit.graph
        self._packing, self._rows, self._tables = packing, rows, tables
        self._is_changed = is_changed
        self._timed = sampler.time_attr is not None
        self._idle: deque[native.NativeSampler] = deque()
        self._guess = _FIRST_GUESS
        # No __del__: one that were part of a cycle would give back samplers that have ended.
        weakref.finalize(self, _give_back, self._engine, self._idle).atexit = False

    @classmethod
    def of(
        cls, form: Form, sampler: AnySampler, commit: Taken, at: native.PinnedLists | None,
        tables: Tables,
    ) -> PackedAnswers | None:  # fmt: skip
        """Return the answers from a commit; None: a native call cannot give them.

        Args:
            form: form of the answers.
            sampler: draws the samples.
            commit: the commit.
            at: the lists of the commit, if the graph changes.
            tables: returns the rows of a node type or an edge type, by name.
        """
        engine = sampler.engine
        if not isinstance(engine, NativeEngine) or engine.groups is not None:
            return None
        if sampler.subgraph_type == "bidirectional":  # edges come in another order
            return None
        if getattr(sampler, "sample_direction", "forward") != "forward":
            return None
        parts: list[tuple[str, int] | native.VersionedRows] = []
        rows: list[tuple[Any, str, RowSource]] = []
        is_changed = False
        for field in form.fields:
            if not field.is_attr:
                parts.append((field.name, field.type))
                continue
            kind = form.type_of(field)
            source = tables(kind).get(field.name)
            if source is None or not field.fits(source):
                return None
            versioned = _versioned(source)
            if versioned is None:
                return None
            is_changed = is_changed or versioned.is_changed
            parts.append(versioned)
            rows.append((kind, field.name, source))
        packing = native.NativePacking(parts, sampler.num_hops, commit.number)
        return cls(sampler, commit, at, packing, rows, tables, is_changed)

    def answer(
        self, request: Request, form: Form, room: Callable[[int], NDArray[np.uint8]] | None
    ) -> NDArray[np.uint8] | None:
        """Return the bytes of the answer to a request; None: it is to be answered otherwise.

        Raises:
            SnapshotExpiredError: the commit was held too long.
            AetherError: as the ``prepare`` of samplers.
        """
        if not self._is_live and any(
            self._tables(kind).get(name) is not rows for kind, name, rows in self._rows
        ):
            return None  # attributes were exchanged
        if self._timed:
            seeds, key, times = request.arguments(form)
            with self._graph.reading(self._taken_now) if self._is_live else nullcontext():
                batch = self._sampler.prepare(seeds, key, times)
        else:
            batch = native.NativeBatch(request.seeds, request.key)
        try:
            with stage("draw"):
                return self._draw(batch, room)
        except SnapshotExpiredError:
            raise
        except AetherError:  # it is raised again, as a sampler puts it
            return None

    def _draw(
        self, batch: native.NativeBatch, room: Callable[[int], NDArray[np.uint8]] | None
    ) -> NDArray[np.uint8] | None:
        packing, guess = self._packing, self._guess if room is not None else 0
        out = np.empty(0, np.uint8) if room is None else room(guess)
        try:
            sampler = self._idle.pop()
        except IndexError:
            sampler = self._engine.take(self._at)
        try:
            size = sampler.pack(batch.seeds, batch.key, batch.since, batch.until, packing, out)
            if size > wire.MAX_BODY:
                return None
            if size > len(out):
                self._guess = min(size + size // 4, _MOST_GUESSED)
                out = np.empty(size, np.uint8) if room is None else room(size)
                sampler.pack_again(batch.key, packing, out)
        finally:
            self._idle.append(sampler)
        if self._is_changed:
            self._taken_now.native_snapshot.check()
        return out[:size]


def _give_back(
    engine: NativeEngine[native.NativeSample], idle: deque[native.NativeSampler]
) -> None:
    while idle:
        engine.give_back(idle.pop())


def _engine_of(sampler: AnySampler) -> NativeEngine[native.NativeSample]:
    engine = sampler.engine
    assert isinstance(engine, NativeEngine)
    return engine


def _versioned(rows: RowSource) -> native.VersionedRows | None:
    """Return rows for native calls; None: they are not in memory as they are gathered."""
    if isinstance(rows, SnapshotRows):
        return rows.versioned()
    plain = plain_rows(rows)
    return None if plain is None else native.VersionedRows(plain)
