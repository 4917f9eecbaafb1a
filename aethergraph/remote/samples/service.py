"""SampleService: answers requests for samples from a graph.

::

    graph file, snapshot      the same graph for every request
    live graph                its last commit at each request
    directory of a live one   that of the process that writes it, followed when it is started again;
                              without one, the last commit in the log
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.options import as_flag, as_list, shown
from aethergraph.dynamic import DynamicGraph, DynamicHeteroGraph, History
from aethergraph.dynamic.directory import LiveDirectory, is_live_directory
from aethergraph.dynamic.forms import EDGE_ID
from aethergraph.errors import (
    ClosedError,
    FileChangedError,
    InvalidArgumentError,
    UnsupportedError,
)
from aethergraph.features.sources import gather_rows
from aethergraph.graph import Graph, HeteroGraph
from aethergraph.protocols import HomogeneousGraph, RowSource
from aethergraph.remote.samples.form import Field, Form, structure
from aethergraph.remote.samples.plan import AnySampler, SamplePlan
from aethergraph.remote.samples.request import Request

__all__ = ["SampleService", "open_any"]

AnyGraph = HomogeneousGraph | HeteroGraph
Room = Callable[[int], NDArray[np.uint8]]


def open_any(path: native.Path) -> tuple[AnyGraph, str | None]:
    """Open a graph file, as a graph of one type if it has one; return it and its fingerprint."""
    graph = HeteroGraph.load(path)
    if (len(graph.node_types), len(graph.edge_types)) == (1, 1):
        return Graph.load(path), graph.fingerprint
    return graph, graph.fingerprint


class _Taken(NamedTuple):
    """Graph to answer from: what the sampler is over, one commit of it, and its number."""

    graph: Any
    now: Any
    number: int


class _Fixed:
    """Graph that does not change."""

    def __init__(self, graph: Any, identity: str | None) -> None:
        self.identity = identity
        self._taken = _Taken(graph, graph, _number(graph))

    def take(self) -> _Taken:
        return self._taken


class _Live:
    """Live graph of this process."""

    identity: str | None = None

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        if graph.directory is not None:
            self.identity = LiveDirectory(graph.directory).uuid.hex()

    def take(self) -> _Taken:
        now = self._graph.snapshot()
        return _Taken(self._graph, now, _number(now))


class _Directory:
    """Live graph in a directory, which another process may write."""

    def __init__(self, path: native.Path) -> None:
        self._directory = LiveDirectory(path)
        self.identity = self._directory.uuid.hex()
        self._lock = threading.Lock()
        self._seen: tuple[int, int] | None = None
        self._graph: Any = None
        self._then: _Taken | None = None
        self._history: History | None = None
        self._look()
        if self._graph is None:
            self._history = History(path)
            then = self._history.last()
            self._then = _Taken(then, then, _number(then))

    def take(self) -> _Taken:
        if self._directory.published() != self._seen:
            with self._lock:
                self._look()
        graph = self._graph
        if graph is None:
            assert self._then is not None
            return self._then
        now = graph.snapshot()
        return _Taken(graph, now, now.lsn)

    def _look(self) -> None:
        """Attach to the process that writes, if there is another one than before."""
        seen = self._directory.published()
        if seen == self._seen:
            return
        if seen is not None:
            try:
                typed = list(self._directory.description()["num_nodes"]) != ["node"]
                kind: Any = DynamicHeteroGraph if typed else DynamicGraph
                self._graph = kind.attach(self._directory.path)
            except ClosedError:  # it has ended: what it committed last is what there is
                pass
        self._seen = seen


def _number(graph: Any) -> int:
    """Return the number of the commit of a snapshot: in the log, or its own; 0: it is none."""
    lsn = getattr(graph, "lsn", None)
    return 0 if lsn is None else int(lsn or graph.commit)


def _as_source(graph: Any) -> _Fixed | _Live | _Directory:
    if getattr(graph, "is_live", False):
        return _Live(graph)
    if isinstance(graph, (HomogeneousGraph, HeteroGraph)):
        return _Fixed(graph, getattr(graph, "fingerprint", None) or None)
    if is_live_directory(graph):
        return _Directory(graph)
    return _Fixed(*open_any(graph))


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
        self.plan = plan if isinstance(plan, SamplePlan) else SamplePlan.read(plan)
        self._source = _as_source(graph)
        self._saved = as_flag(saved, "saved")
        self.identity = self._source.identity
        taken = self._source.take()
        self._made: tuple[Any, AnySampler] = taken.graph, self.plan.sampler(taken.graph)
        self.form = _form_of(self.plan, taken.now, self._made[1])
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
        taken = self._source.take()
        sampler = self._sampler_of(taken.graph)
        seeds, key, times = request.arguments(self.form)
        tables: dict[Any, Mapping[str, RowSource]] = {}
        own: dict[Any, NDArray[np.int64]] = {}  # ids in the file, where edges are called otherwise

        def rows(kind: Any, name: str, ids: NDArray[np.int64], out: NDArray[Any]) -> None:
            table = tables.get(kind)
            if table is None:
                table = tables[kind] = _table(taken.now, kind, self.form.typed)
            gather_rows(table[name], own.get(kind, ids), out)

        live = taken.now is not taken.graph
        with taken.graph.reading(taken.now) if live else nullcontext():
            found: Any = sampler.sample(seeds, key, seed_time=times)
            if self._saved:
                found = self._numbered(taken.graph, found, own)
            number = taken.number if commit is None else commit
            return self.form.pack(key, number, found, rows, room or _own_room)

    def _numbered(self, graph: Any, found: Any, own: dict[Any, NDArray[np.int64]]) -> Any:
        """Return a sample with the numbers of edges in the live graph; ``own`` gets their ids."""
        edges = {}
        for kind in self.form.edge_types:
            lists = graph[kind] if self.form.typed else graph
            ids = found.edge[kind] if self.form.typed else found.edge
            own[kind], numbers = ids, lists.edge_attrs.get(EDGE_ID)
            if numbers is not None:
                ids = numbers.gather(ids)
            elif lists.edge_order is not None:
                ids = lists.edge_order[ids]
            edges[kind] = ids.astype(np.int64, copy=False)
        return replace(found, edge=edges if self.form.typed else edges[self.form.edge_types[0]])

    def _sampler_of(self, graph: Any) -> AnySampler:
        of, sampler = self._made
        if of is graph:
            return sampler
        sampler = self.plan.sampler(graph)
        now = graph.snapshot() if getattr(graph, "is_live", False) else graph
        for one in self.form.fields:
            if one.is_attr:
                found = _table(now, self.form.type_of(one), self.form.typed).get(one.name)
                if found is None or not _fits(found, one):
                    raise FileChangedError(
                        f"the attribute {one.name!r} of the graph is not what it was when the "
                        "server was started: start it again"
                    )
        self._made = graph, sampler
        return sampler


def _own_room(size: int) -> NDArray[np.uint8]:
    return np.empty(size, np.uint8)


def _fits(rows: RowSource, field: Field) -> bool:
    return (rows.dtype_name, tuple(rows.row_shape)) == (field.dtype, field.shape)


def _table(graph: Any, kind: Any, typed: bool) -> Mapping[str, RowSource]:
    """Return the attributes of a node type or edge type; of edges weights and times, too."""
    if typed:
        view = graph[kind]
        return view.attrs if isinstance(kind, str) else {**view.value_stores(), **view.attrs}
    if isinstance(kind, str):
        found: Mapping[str, RowSource] = graph.node_attrs
        return found
    return {**graph.value_stores("edge"), **graph.edge_attrs}


def _form_of(plan: SamplePlan, graph: Any, sampler: AnySampler) -> Form:
    """Return the form of the answers; ``graph`` does not change."""
    typed = isinstance(graph, HeteroGraph)
    node_types = graph.node_types if typed else ["node"]
    edge_types = graph.edge_types if typed else [("node", "to", "node")]
    directional = sampler.subgraph_type == "directional"
    fields: list[Field] = []
    for of_edges, types, wanted in (
        (False, node_types, plan.node_attrs), (True, edge_types, plan.edge_attrs),
    ):  # fmt: skip
        names = None if wanted is None else as_list(wanted, "names", "names")
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
                what = "edge_attrs" if of_edges else "node_attrs"
                raise InvalidArgumentError(f"the plan: {what}: no type has {shown(name)}")
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
        own = graph[kind].attrs if typed else table
        if not typed and not isinstance(kind, str):
            own = graph.edge_attrs
        return [(name, rows) for name, rows in own.items() if not rows.is_live]
    found = [(name, table[name]) for name in names if name in table]
    for name, rows in found:
        if rows.is_live:
            raise UnsupportedError(
                f"the plan: rows of {name!r} change by themselves and are in no commit, so that no "
                "replay could give them again: leave them out, and take them by feature_source="
            )
    return found
