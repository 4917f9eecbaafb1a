"""Base of a live graph: a graph file that stays where it is, below what has changed.

::

    file    lists of each edge type ────────> read by the native live graph, list by list
            edge_order, or attribute edge_id  number of each edge in the live graph
            weights, times, attributes        rows, by edge id of the file ──places──> by number

A base that a live graph has written itself says which numbers its edges were inserted under. In a
file from elsewhere, edges keep the ids of the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.options import as_choice, shown
from aethergraph.dynamic.forms import EDGE_ID, EdgeForm, RowForm, time_dtype
from aethergraph.dynamic.places import PlacedRows, find_places
from aethergraph.errors import (
    CorruptFileError,
    FileChangedError,
    InvalidArgumentError,
    UnsupportedError,
)
from aethergraph.features.feature_table import FeatureTable
from aethergraph.graph.hetero import HeteroGraph
from aethergraph.graph.parts import EdgeParts
from aethergraph.protocols import RowSource
from aethergraph.storage.choice import Storage, log
from aethergraph.storage.paging import Paging

__all__ = ["Base", "BaseEdges", "check_fingerprint"]

#: Lists whose order is checked at once.
_NODES_AT_ONCE = 1 << 16


def check_fingerprint(graph: HeteroGraph, fingerprint: str | None) -> None:
    """Raise FileChangedError unless a graph's file is the one of a fingerprint; None is any."""
    if fingerprint is not None and fingerprint != graph.fingerprint:
        raise FileChangedError(
            f"{graph.path} is another file than the one that the live graph was made over: put it "
            "back, or make a new live graph"
        )


class Base:
    """Graph file that a live graph begins with.

    Args:
        path: the file.
        storage: where its lists live; see :meth:`aethergraph.Graph.load`.
        memory_budget: of ``storage="uring"``.
        own_ids: True: edges keep the ids of the file.
        renumbers_edges: True: the first ids are places in a file that was the base before.
        ends: number that the edge ids of each edge type are below; None: the numbers of edges.
        fingerprint: of the file; None: any.
        keep_places: True: write what the places of edges are beside the file, for others, too.
        progress: called with (done, total).

    Raises:
        FileChangedError: the file is another one than before.
    """

    def __init__(
        self,
        path: native.Path,
        storage: Storage = "mmap",
        memory_budget: int | str | None = None,
        *,
        own_ids: bool = False,
        renumbers_edges: bool = False,
        ends: list[int] | None = None,
        fingerprint: str | None = None,
        keep_places: bool = False,
        progress: native.Progress | None = None,
    ) -> None:
        self.path = os.path.abspath(native.encode_path(path)[0])
        self._storage, self._budget, self.own_ids = storage, memory_budget, own_ids
        #: True: the first edge ids are places in a file, this one or the first base of all.
        self.renumbers_edges = own_ids or renumbers_edges
        self.graph = HeteroGraph.load(
            self.path, storage=storage, memory_budget=memory_budget, progress=progress
        )
        self.fingerprint = self.graph.fingerprint
        check_fingerprint(self.graph, fingerprint)
        #: Unit of the times of nodes, by the node types that have times; None: plain numbers.
        self.node_time = self._find_node_time()
        parts = [self.graph.edge_parts(name) for name in self.graph.edge_types]
        self._ends = [part.num_edges for part in parts] if ends is None else ends
        if len(self._ends) != len(parts):
            raise CorruptFileError(
                f"{self.path} has {len(parts)} edge types, but the live graph over it "
                f"{len(self._ends)}: it is another graph's base"
            )
        self.edges = [
            BaseEdges(self.graph, self.path, own_ids, number, part, end, keep_places)
            for number, (part, end) in enumerate(zip(parts, self._ends, strict=True))
        ]

    def _find_node_time(self) -> dict[str, str | None]:
        units = {}
        for name in self.graph.node_types:
            parts = self.graph.node_parts(name)
            if parts.node_time is None:
                continue
            if parts.node_time.dtype != np.int64:
                raise UnsupportedError(
                    f"{self.path} has node_time of dtype {parts.node_time.dtype}: live graphs keep "
                    "int64; convert the file"
                )
            units[name] = parts.time_unit
        return units

    def to_json(self) -> dict[str, Any]:
        """Describe the base for another process, which opens it by :meth:`from_json`."""
        return {
            "path": self.path, "storage": self._storage, "memory_budget": self._budget,
            "own_ids": self.own_ids, "renumbers_edges": self.renumbers_edges, "ends": self._ends,
            "fingerprint": self.fingerprint,
        }  # fmt: skip

    @classmethod
    def from_json(cls, description: Mapping[str, Any]) -> Base:
        """Open the base that :meth:`to_json` described."""
        return cls(**description)

    def __reduce__(self) -> tuple[Any, ...]:
        return Base.from_json, (self.to_json(),)

    def check_forms(
        self,
        num_nodes: Iterable[int],
        forms: Iterable[EdgeForm],
        node_time: Iterable[str | None],
    ) -> None:
        """Raise unless the file has what a live graph of these forms has of nodes and edges.

        Args:
            num_nodes: numbers of nodes by type.
            forms: forms of the edges by type.
            node_time: dtypes of the times of nodes by type; None: they have none.

        Raises:
            CorruptFileError: it is another graph's base; names what differs.
        """
        has_time = [
            time_dtype(self.node_time[name]) if name in self.node_time else None
            for name in self.graph.node_types
        ]
        pairs: list[tuple[str, Any, Any]] = [
            ("nodes by type", self.num_nodes, list(num_nodes)),
            ("times of nodes by type", has_time, list(node_time)),
        ]
        for edges, form in zip(self.edges, forms, strict=True):
            pairs.append((f"edges of type {edges.number}", *edges.compare(form)))
        for name, has, needs in pairs:
            if has != needs:
                raise CorruptFileError(
                    f"{self.path} has {name} {shown(has)}, but the live graph over it "
                    f"{shown(needs)}: it is another graph's base"
                )

    @property
    def num_nodes(self) -> list[int]:
        """Number of nodes of each type."""
        return list(self.graph.num_nodes.values())

    @property
    def paging(self) -> Paging | None:
        """Reader of lists that stay in the file (``storage="uring"``); else None."""
        return self.graph.paging

    def node_rows(self, place: int) -> dict[str, RowSource]:
        """Return the attributes of the node type with number ``place``."""
        return dict(self.graph[self.graph.node_types[place]].attrs)

    def node_times(self, place: int) -> RowSource | None:
        """Return the times of the nodes of the type with number ``place``, if they have any."""
        return self.graph[self.graph.node_types[place]].node_values.get("node_time")


class BaseEdges:
    """Edges of one type in a base.

    Args:
        graph: the graph of the file.
        path: the file.
        own_ids: True: edges keep the ids of the file.
        number: number of the type.
        parts: what the file has of it.
        end: number that its edge ids in the live graph are below.
        keep_places: as in :class:`Base`.
    """

    def __init__(
        self, graph: HeteroGraph, path: str, own_ids: bool, number: int, parts: EdgeParts, end: int,
        keep_places: bool,
    ) -> None:  # fmt: skip
        self._graph, self._path, self._keep_places = graph, path, keep_places
        self.number, self._parts, self.end = number, parts, end
        self.num_edges = parts.num_edges
        #: Id of each edge in the live graph, by its id in the file; None: the same.
        self.edge_ids = None if own_ids else self._find_ids()
        self._places: FeatureTable | None = None
        self._last_time: int | None = None
        self._sums: dict[str, native.NativeSums] = {}

    def _find_ids(self) -> NDArray[Any] | None:
        rows = self._parts.edge_attrs.get(EDGE_ID)
        if rows is None:
            return self._parts.edge_order
        return rows.read(0, self.num_edges) if rows.array is None else rows.array

    def form(self, order: str) -> EdgeForm:
        """Return the form of a live graph's edges that has all that the file has of them.

        Raises:
            UnsupportedError: weights or times of a dtype that live graphs do not keep.
        """
        parts, order = self._parts, as_choice(order, ("id", "time"), "order")
        for name, array, dtype in (
            ("edge_weight", parts.edge_weight, np.float32),
            ("edge_time", parts.edge_time, np.int64),
        ):
            if array is not None and array.dtype != dtype:
                raise UnsupportedError(
                    f"{self._path} has {name} of dtype {array.dtype}: live graphs keep "
                    f"{np.dtype(dtype).name}; convert the file"
                )
        if EDGE_ID in parts.edge_attrs:
            log.warning(
                "%s: the attribute %r of its edges is left out: live graphs write their own ids "
                "under that name; save it under another one to keep it", self._path, EDGE_ID,
            )  # fmt: skip
        attrs = {
            name: RowForm(tuple(rows.row_shape), rows.dtype_name)
            for name, rows in parts.edge_attrs.items()
            if name != EDGE_ID
        }
        has_time = parts.edge_time is not None
        if order == "id" and (has_time or self._source_times is not None):
            noun = "edge times" if has_time else "times of nodes"
            raise InvalidArgumentError(
                f"{self._path} has {noun}: its lists are by time, order='time'"
            )
        return EdgeForm(
            parts.layout, order, has_time, parts.time_unit if has_time else None,
            parts.edge_weight is not None, attrs,
        )  # fmt: skip

    def compare(self, form: EdgeForm) -> tuple[Any, Any]:
        """Return what the file has of a form, and all of the form."""
        parts = self._parts
        times, weights = (
            None if array is None else array.dtype.name
            for array in (parts.edge_time, parts.edge_weight)
        )
        attrs = {
            name: RowForm(tuple(rows.row_shape), rows.dtype_name)
            for name, rows in parts.edge_attrs.items()
            if name in form.attrs
        }
        layout = form.layout if parts.layout == "both" else parts.layout
        return (layout, times, weights, attrs), (
            form.layout, "int64" if form.has_time else None,
            "float32" if form.has_weight else None, dict(form.attrs),
        )  # fmt: skip

    def check_sorted(self, progress: native.Progress | None = None) -> None:
        """Raise unless every list ascends and has each id once, as ``order="id"`` needs.

        Raises:
            InvalidArgumentError: names the first list that does not.
        """
        for name, lists in (("in", self._parts.csc), ("out", self._parts.csr)):
            if lists is None:
                continue
            topology = lists.topology
            for begin in range(0, topology.num_major, _NODES_AT_ONCE):
                nodes = np.arange(begin, min(begin + _NODES_AT_ONCE, topology.num_major))
                ids = topology.neighbors(nodes)[0]
                ends = np.cumsum(topology.degrees(nodes))
                bad = np.flatnonzero(np.diff(ids) <= 0)
                bad = bad[~np.isin(bad + 1, ends)]
                if len(bad):
                    node = int(nodes[np.searchsorted(ends, bad[0], side="right")])
                    raise InvalidArgumentError(
                        f"{self._path}: the {name}-neighbours of node {node} do not ascend, "
                        "or one is there twice: order='id' needs a file that was made with "
                        "sort_neighbors=True and without parallel edges; order='time' takes any"
                    )
                if progress is not None:
                    progress(int(nodes[-1]) + 1, topology.num_major)

    def check_by_source(self, progress: native.Progress | None = None) -> None:
        """Raise unless lists of in-edges are in the order of their sources' times, if these count.

        Raises:
            InvalidArgumentError: names the first list that is not.
        """
        parts = self._parts
        if self._source_times is None or parts.edge_time is not None or parts.csc is None:
            return
        topology = parts.csc.topology
        relation = native.NativeRelation(topology, times=self._source_times, node_times=True)
        try:
            native.run_long(relation.check_times, progress, 8 * topology.num_edges)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(
                f"{self._path}: the in-edges of node {error.position} are not sorted by the times "
                "of their sources: build the graph with these times (node_time=), which sorts",
                position=error.position,
            ) from None

    @property
    def _source_times(self) -> NDArray[Any] | None:
        """Times of the nodes that these edges come from."""
        return self._graph.node_parts(self._graph.edge_types[self.number][0]).node_time

    def lists(self, layout: Literal["csc", "csr"], *, by_source: bool = False) -> native.LiveBase:
        """Return the lists for the native live graph; ``by_source``: they are by times of nodes."""
        parts = self._parts
        lists = parts.csc if layout == "csc" else parts.csr
        assert lists is not None
        return native.LiveBase(
            lists.topology, self.edge_ids, self._source_times if by_source else parts.edge_time,
            parts.edge_weight, self.last_time, self._sums.get(layout),
            is_near=self._graph.paging is None, by_source=by_source,
        )  # fmt: skip

    def sum_weights(self, layout: Literal["csc", "csr"]) -> None:
        """Sum up the weights of long lists, if there are any, for :meth:`lists`; reads them all."""
        parts = self._parts
        lists = parts.csc if layout == "csc" else parts.csr
        if lists is not None and parts.edge_weight is not None and self._graph.paging is None:
            self._sums[layout] = lists.sums(parts.edge_weight, lists.topology.guard)

    @property
    def last_time(self) -> int | None:
        """Time that no edge is after; None if there are no times. Set from what is known."""
        if self._last_time is None and self.num_edges:
            times = self._parts.edge_time
            times = self._source_times if times is None else times
            self._last_time = None if times is None else int(times.max())
        return self._last_time

    @last_time.setter
    def last_time(self, value: int | None) -> None:
        self._last_time = value

    # ---- rows by the ids of the live graph -----------------------------------------------------

    def rows(self, name: str) -> RowSource:
        """Return weights, times or an attribute by edge id of the live graph, one row for each."""
        values = self._graph[self._graph.edge_types[self.number]].edge_values
        rows: RowSource = values[name] if name in values else self._parts.edge_attrs[name]
        if self.edge_ids is None and self.num_edges == self.end:
            return rows
        if self._places is None:
            path = f"{self._path}.places-{self.number}.aef"
            self._places = find_places(
                path, self.edge_ids, self.num_edges, self.end, keep=self._keep_places
            )
        return PlacedRows(rows, self._places, self.end)
