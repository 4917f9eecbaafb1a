"""SampleService: answers requests for samples from a graph, each from its last commit."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections import ChainMap
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.options import as_flag, as_list, shown
from aethergraph.dynamic.forms import EDGE_ID
from aethergraph.errors import (
    FileChangedError,
    InvalidArgumentError,
    SnapshotExpiredError,
    UnsupportedError,
)
from aethergraph.features.gathering import gather_rows
from aethergraph.protocols import AnyGraph, RowSource
from aethergraph.remote.commits import Taken, commits_of
from aethergraph.remote.samples.form import Field, Form, structure
from aethergraph.remote.samples.packed import PackedAnswers
from aethergraph.remote.samples.plan import AnySampler, SamplePlan
from aethergraph.remote.samples.request import Request

__all__ = ["SampleService"]

Room = Callable[[int], NDArray[np.uint8]]


class SampleService:
    """Answers to requests for samples, with their rows, from a graph.

    ::

        service = SampleService("g.aegd", SamplePlan([15, 10], node_attrs=["x"]))
        FeatureServer({}, samples={"g": service}, port=9999)

    An answer is a pure function of plan, graph, commit, seeds, times and key: bytes and all.
    Threads may share a service.

    Args:
        graph: a graph of any kind; or the path of a graph file, or of the directory of a live one.
        plan: what is drawn and sent; or the path of the file that says so.
        saved: the graph is a file that a snapshot was saved to: edges are called by the numbers
            under which they were inserted into the live graph.

    Raises:
        InvalidArgumentError, LayoutError: the graph has not what the plan asks for.
        UnsupportedError: the plan names rows that change by themselves.
    """

    def __init__(
        self, graph: AnyGraph | native.Path, plan: SamplePlan | native.Path, *, saved: bool = False
    ) -> None:  # fmt: skip
        if not isinstance(plan, (SamplePlan, str, bytes, PathLike)):
            raise InvalidArgumentError(
                f"plan is a {type(plan).__name__}: give a SamplePlan([15, 10]), or the path of a "
                "file of one"
            )
        self.plan = plan if isinstance(plan, SamplePlan) else SamplePlan.read(plan)
        self._source = commits_of(graph)
        self._saved = as_flag(saved, "saved")
        self.identity = self._source.identity
        commit = self._source.take()
        self._made: tuple[Any, AnySampler] = commit.graph, self.plan.sampler(commit.graph)
        self.form = _form_of(self.plan, commit.now, self._made[1])
        self._attrs = {
            (self.form.type_of(field), field.name): field
            for field in self.form.fields
            if field.is_attr
        }
        facts = json.dumps(
            [self.identity or secrets.token_hex(16), self.plan.told(), self.form.told()],
            sort_keys=True,
        )
        #: Identity of what is answered: another one where plan or graph are others.
        self.generation = hashlib.sha256(facts.encode()).hexdigest()[:32]

    def told(self) -> dict[str, Any]:
        """Return what clients are told of it, as an object of JSON."""
        return {
            "plan": self.plan.told(), "form": self.form.told(), "generation": self.generation,
            "graph": self.identity,
        }  # fmt: skip

    def answer(
        self, request: Request, room: Room | None = None, commit: int | None = None
    ) -> NDArray[np.uint8]:
        """Return the bytes of the answer to a request.

        Args:
            request: the request.
            room: gives memory of so many bytes; None: each answer has its own.
            commit: number of the commit, of a graph that does not know it, such as a saved one.

        Raises:
            OutOfRangeError: a seed does not exist; names it and its position.
            InvalidArgumentError: times are missing.
            LimitError: the sample is larger than an answer can be.
        """
        try:
            return self._answer(self._source.take(), request, room, commit)
        except SnapshotExpiredError:  # of a commit that was shared: a writer may wait for less
            return self._answer(self._source.take(anew=True), request, room, commit)

    def _answer(
        self, commit: Taken, request: Request, room: Room | None, known_number: int | None
    ) -> NDArray[np.uint8]:
        """Return the bytes of the answer to a request, from a commit."""
        sampler = self._sampler_of(commit.graph)
        if known_number is None and not self._saved:
            packed = self._packed(commit, sampler)
            answer = None if packed is None else packed.answer(request, self.form, room)
            if answer is not None:
                return answer
        seeds, key, times = request.arguments(self.form)
        tables: dict[Any, Mapping[str, RowSource]] = commit.shared
        # Ids in the file, where edges are called otherwise.
        file_ids: dict[Any, NDArray[np.int64]] = {}

        def rows(kind: Any, name: str, ids: NDArray[np.int64], out: NDArray[Any]) -> None:
            table = tables.get(kind)
            if table is None:
                table = tables[kind] = _table(commit.now, kind, self.form.typed)
            gather_rows(self._attr(table, kind, name), file_ids.get(kind, ids), out)

        live = commit.now is not commit.graph
        with commit.graph.reading(commit.now) if live else nullcontext():
            batch = sampler.prepare(seeds, key, times)
            if live:
                batch = batch._replace(at=_pinned(commit, sampler))
            sample: Any = sampler.finish(sampler.engine.draw(batch))
            if self._saved:
                sample = self._numbered(commit.graph, sample, file_ids)
            number = commit.number if known_number is None else known_number
            return self.form.pack(key, number, sample, rows, room or _own_room)

    def _packed(self, commit: Taken, sampler: AnySampler) -> PackedAnswers | None:
        """Return what answers from a commit by native calls; None: nothing does."""
        key = "packed", id(sampler)
        try:
            answers: PackedAnswers | None = commit.shared[key]
        except KeyError:
            now, typed = commit.now, self.form.typed  # not the commit: it would be in a cycle
            tables = dict[Any, Mapping[str, RowSource]]()

            def table(kind: Any) -> Mapping[str, RowSource]:
                if kind not in tables:
                    tables[kind] = _table(now, kind, typed)
                return tables[kind]

            pinned = None if commit.now is commit.graph else _pinned(commit, sampler)
            answers = PackedAnswers.of(self.form, sampler, commit, pinned, table)
            commit.shared[key] = answers
        return answers

    def _numbered(self, graph: Any, sample: Any, file_ids: dict[Any, NDArray[np.int64]]) -> Any:
        """Return a sample with the numbers of edges in the live graph, and ids in ``file_ids``."""
        edges = {}
        for kind in self.form.edge_types:
            lists = graph[kind] if self.form.typed else graph
            ids = sample.edge[kind] if self.form.typed else sample.edge
            file_ids[kind], numbers = ids, lists.edge_attrs.get(EDGE_ID)
            if numbers is not None:
                ids = numbers.gather(ids)
            elif lists.edge_order is not None:
                ids = lists.edge_order[ids]
            edges[kind] = ids.astype(np.int64, copy=False)
        return replace(sample, edge=edges if self.form.typed else edges[self.form.edge_types[0]])

    def _sampler_of(self, graph: Any) -> AnySampler:
        of, sampler = self._made
        if of is graph:
            return sampler
        sampler = self.plan.sampler(graph)
        now = graph.snapshot() if getattr(graph, "is_live", False) else graph
        for kind, name in self._attrs:
            self._attr(_table(now, kind, self.form.typed), kind, name)
        self._made = graph, sampler
        return sampler

    def _attr(self, table: Mapping[str, RowSource], kind: Any, name: str) -> RowSource:
        """Return the rows of an attribute; it may have been exchanged.

        Raises:
            FileChangedError: it is not of the form any more, changes by itself, or is not there.
        """
        rows = table.get(name)
        if rows is None or rows.is_live or not self._attrs[kind, name].fits(rows):
            raise FileChangedError(
                f"the attribute {name!r} of the graph is not what it was when the server was "
                "started: start it again"
            )
        return rows


def _pinned(commit: Taken, sampler: AnySampler) -> native.PinnedLists | None:
    """Return the lists of a commit as a sampler draws from them."""
    key = id(sampler)
    if key not in commit.shared:
        commit.shared[key] = sampler.engine.pin(commit.now)
    lists: native.PinnedLists | None = commit.shared[key]
    return lists


def _own_room(size: int) -> NDArray[np.uint8]:
    return np.empty(size, np.uint8)


def _table(graph: Any, kind: Any, typed: bool) -> Mapping[str, RowSource]:
    """Return the attributes of a node type or edge type, of edges with weights and times.

    They follow the graph's: one may be exchanged.
    """
    part = graph[kind] if typed else graph
    if isinstance(kind, str):
        attrs: Mapping[str, RowSource] = part.node_attrs
        return attrs
    return ChainMap(part.edge_attrs, part.edge_values)


def _form_of(plan: SamplePlan, graph: Any, sampler: AnySampler) -> Form:
    """Return the form of the answers; ``graph`` does not change."""
    typed: bool = graph.is_typed
    node_types = graph.node_types if typed else ["node"]
    edge_types = graph.edge_types if typed else [("node", "to", "node")]
    directional = sampler.subgraph_type == "directional"
    fields: list[Field] = []
    for of_edges, types, attrs in (
        (False, node_types, plan.node_attrs), (True, edge_types, plan.edge_attrs),
    ):  # fmt: skip
        names = None if attrs is None else as_list(attrs, "names", "names")
        seen = set[str]()
        for number, kind in enumerate(types):
            hops = directional or (sampler.subgraph_type == "induced" and not of_edges)
            fields += structure(number, of_edges, sampler.disjoint, hops)
            table = _table(graph, kind, typed)
            for name, rows in _chosen(table, graph, kind, typed, names):
                seen.add(name)
                shape = tuple(int(size) for size in rows.row_shape)
                fields.append(Field(of_edges, number, name, rows.dtype_name, shape, True))
        for name in names or ():
            if name not in seen:
                option = "edge_attrs" if of_edges else "node_attrs"
                raise InvalidArgumentError(f"the plan: {option}: no type has {shown(name)}")
    times = sampler.times_dtype
    return Form(
        typed, tuple(node_types), tuple(edge_types), tuple(fields),
        None if times is None else times.name, sampler.time_unit,
    )  # fmt: skip


def _chosen(
    table: Mapping[str, RowSource], graph: Any, kind: Any, typed: bool, names: list[str] | None
) -> list[tuple[str, RowSource]]:
    """Return the attributes of a type that a plan sends, in the order of the plan."""
    if names is None:
        part = graph[kind] if typed else graph
        attrs = part.node_attrs if isinstance(kind, str) else part.edge_attrs
        return [(name, rows) for name, rows in attrs.items() if not rows.is_live]
    pairs = [(name, table[name]) for name in names if name in table]
    for name, rows in pairs:
        if rows.is_live:
            raise UnsupportedError(
                f"the plan: rows of {name!r} change by themselves and are in no commit, so that no "
                "replay could give them again: leave them out, and take them by feature_source="
            )
    return pairs
