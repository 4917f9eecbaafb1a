"""Attributes of a graph that changes: rows as of its last commit, or of one snapshot's."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_ids
from aethergraph._checks.options import shown
from aethergraph.dynamic.edge_types import EdgeKind
from aethergraph.dynamic.node_times import NODE_TIME
from aethergraph.dynamic.rows import GrowingRows
from aethergraph.dynamic.store import LiveStore
from aethergraph.errors import InvalidArgumentError, MissingNameError
from aethergraph.features.gathering import check_rows
from aethergraph.graph.attributes import AttributeTable
from aethergraph.protocols import FeatureSource, RowSource
from aethergraph.storage.meta import Owner
from aethergraph.storage.other_process import OpenFile

__all__ = [
    "LiveAttributes",
    "LiveRows",
    "NodesOfSource",
    "SnapshotRows",
    "edge_table",
    "live_node_values",
    "live_values",
    "node_table",
]

Ids = NDArray[np.int64]


class _Rows(RowSource):
    """Rows of what goes on: as many as there are at some moment."""

    _rows: GrowingRows | RowSource

    @abstractmethod
    def _count(self) -> int:
        """Return the number of rows."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of all rows: ``(num_rows, ...)``."""
        return (self._count(), *self._rows.row_shape)

    @property
    def dtype_name(self) -> str:
        """Name of the dtype, a string also for bfloat16."""
        return self._rows.dtype_name

    @property
    def is_in_memory(self) -> bool:
        """True if a gather waits for nothing but memory."""
        return self._rows.is_in_memory

    @property
    def storage(self) -> str:
        """``"live"``."""
        return "live"


class SnapshotRows(_Rows):
    """Rows of one attribute as of the commit of a snapshot, which they keep.

    Args:
        rows: the rows with their versions.
        count: number of rows at that commit.
        snapshot: the snapshot.
    """

    _rows: GrowingRows

    def __init__(self, rows: GrowingRows, count: int, snapshot: native.NativeSnapshot) -> None:
        self._rows, self._number, self._snapshot = rows, count, snapshot

    def _count(self) -> int:
        return self._number

    def gather_into(self, ids: Ids, out: NDArray[Any]) -> None:
        """Set ``out[i]`` to row ``ids[i]`` as of the commit.

        Raises:
            SnapshotExpiredError: the snapshot was held too long.
        """
        check = self._snapshot.check
        self._rows.gather_into(ids, out, self._snapshot.commit, check)
        if self._rows.can_change:  # once the snapshot expires, its versions are used again
            check()

    @property
    def memory(self) -> OpenFile:
        """Memory of the rows as of all commits, one in all processes."""
        return self._rows.file

    def changed(self, since: int) -> Ids:
        """Return the rows that commits after ``since`` have changed, ascending, but no new ones.

        Raises:
            SnapshotExpiredError: the snapshot was held too long.
        """
        check = self._snapshot.check
        ids = self._rows.changed(since, self._snapshot.commit, self._number, check)
        check()
        return ids

    def versioned(self) -> native.VersionedRows | None:
        """Return the rows for native calls; None: they are not in memory as they are gathered."""
        return self._rows.versioned(self._snapshot.commit, self._number)

    def is_same_rows(self, other: RowSource) -> bool:
        """Return whether both are one attribute at one commit."""
        return (
            isinstance(other, SnapshotRows)
            and self._rows is other._rows
            and self._snapshot.commit == other._snapshot.commit
        )


class LiveTable(NamedTuple):
    """Ways to the attributes of one type of nodes or edges, in the store of any writer.

    Attributes:
        rows: returns the rows by name of a store.
        take: takes a snapshot of a store, and returns it with the number of rows.
    """

    rows: Callable[[LiveStore], Mapping[str, GrowingRows]]
    take: Callable[[LiveStore], tuple[native.NativeSnapshot, int]]


class LiveRows(_Rows):
    """Rows of one attribute as of the last commit at each call.

    Args:
        name: name of the attribute.
        store: the store that has it now; a reader may go on with that of the next writer.
        table: where stores have it.
    """

    checks_ids = True

    def __init__(self, name: str, store: LiveStore, table: LiveTable) -> None:
        self._name, self._table = name, table
        self._now = store, table.rows(store)[name]

    @property
    def _rows(self) -> GrowingRows:  # type: ignore[override]
        return self._now[1]

    def is_same_rows(self, other: RowSource) -> bool:
        """Return whether both are one attribute of one live graph."""
        return isinstance(other, LiveRows) and self._rows is other._rows

    def _take(self) -> tuple[native.NativeSnapshot, int]:
        """Take a snapshot, and turn to the rows of its store."""
        snapshot, count = self._table.take(self._now[0])
        if snapshot.store is not self._now[0]:
            rows = self._table.rows(snapshot.store).get(self._name)
            if rows is None:
                raise InvalidArgumentError(
                    f"the process that writes the live graph now has no attribute {self._name!r}"
                )
            self._now = snapshot.store, rows
        return snapshot, count

    @property
    def is_live(self) -> bool:
        """True: commits change rows."""
        return True

    def pinned(self) -> SnapshotRows:
        """Return the rows as of the last commit, which do not change any more."""
        snapshot, count = self._take()
        return SnapshotRows(self._rows, count, snapshot)

    def _count(self) -> int:
        return self._take()[1]

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one row; ``()`` for a vector."""
        return self._rows.row_shape

    def gather_into(self, ids: Ids, out: NDArray[Any]) -> None:
        """Set ``out[i]`` to row ``ids[i]`` as of the last commit."""
        rows = self.pinned()
        check_rows(ids, rows.num_rows)
        rows.gather_into(ids, out)

    def __repr__(self) -> str:
        return f"LiveRows(shape={self.shape}, dtype={self.dtype_name})"


class NodesOfSource(_Rows):
    """Rows of a source that change by themselves: those of the nodes that there are.

    Args:
        rows: the source, of at least as many rows.
        count: tells the number of nodes.
    """

    _rows: RowSource

    def __init__(self, rows: RowSource, count: Callable[[], int]) -> None:
        self._rows, self._counted = rows, count

    def _count(self) -> int:
        return self._counted()

    @property
    def source(self) -> RowSource:
        """The source of the rows."""
        return self._rows

    def gather_into(self, ids: Ids, out: NDArray[Any]) -> None:
        """Set ``out[i]`` to row ``ids[i]`` as it is now, whatever commit is read."""
        self._rows.gather_into(ids, out)

    def widen_into(self, ids: Ids, out: NDArray[Any], dtype: str) -> None:
        """Set ``out[i]`` to row ``ids[i]`` as it is now, converted as the source does."""
        self._rows.widen_into(ids, out, dtype)

    @property
    def is_live(self) -> bool:
        """True: the rows change by themselves."""
        return True

    @property
    def version_unit(self) -> str | None:
        """Unit of the versions, where they are times: that of the source."""
        return self._rows.version_unit

    def versions(self, ids: ArrayLike) -> NDArray[np.int64] | None:
        """Return the version of each row as it is now, if the source knows it."""
        numbers = as_ids(ids, "ids")
        check_rows(numbers, self._count())
        return self._rows.versions(numbers)

    def put_many(self, ids: ArrayLike, rows: ArrayLike, version: Any = None) -> int:
        """Write rows to the source, at once."""
        return self._rows.put_many(ids, rows, version)

    @property
    def storage(self) -> str:
        """Word for the place of the rows: that of the source."""
        return self._rows.storage

    def __repr__(self) -> str:
        return f"NodesOfSource({shown(self._rows)})"


class LiveAttributes(AttributeTable):
    """Attributes of the nodes (or edges) of a live graph, by name.

    ``table["x"] = rows`` begins an attribute with one row per node that there is; nodes that are
    added later bring rows of their own.

    Args:
        kind: ``"node"`` or ``"edge"``.
        store: the store of the graph.
        table: where it has the attributes; they are what is in there.
        begin: begins an attribute, given its name and value; None: the table is fixed.
        sources: rows that change by themselves, by name.
    """

    def __init__(
        self,
        kind: Owner,
        store: LiveStore,
        table: LiveTable,
        begin: Callable[[str, FeatureSource | ArrayLike | None], None],
        sources: Mapping[str, RowSource] | None = None,
    ) -> None:
        super().__init__(kind, 0)
        self._growing, self._begin = table.rows(store), begin
        self._store, self._table = store, table
        self._sources = {} if sources is None else sources

    def __getitem__(self, name: str) -> RowSource:
        if isinstance(name, str) and name in self._sources:
            return NodesOfSource(self._sources[name], lambda: self._table.take(self._store)[1])
        if not isinstance(name, str) or name not in self._growing:
            known = ", ".join(map(repr, self)) or "none"
            raise MissingNameError(f"no {self.kind} attribute {shown(name)}; there are: {known}")
        return LiveRows(name, self._store, self._table)

    def __setitem__(self, name: str, value: FeatureSource | ArrayLike) -> None:
        self._begin(name, value)

    def __delitem__(self, name: str) -> None:
        self[name]
        self._begin(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter((*self._growing, *self._sources))

    def __len__(self) -> int:
        return len(self._growing) + len(self._sources)

    def __repr__(self) -> str:
        every: dict[str, GrowingRows | RowSource] = {**self._growing, **self._sources}
        names = {name: (rows.row_shape, rows.dtype_name) for name, rows in every.items()}
        return f"LiveAttributes({self.kind}, {names})"


# ---- the tables of a store -----------------------------------------------------------------------


def node_table(store: LiveStore, name: str) -> LiveAttributes:
    """Return the attributes of the nodes of a type."""
    return LiveAttributes(
        "node",
        store,
        LiveTable(lambda now: now.node_rows[name], lambda now: now.take_nodes(name)),
        lambda attr, value: store.begin_rows(name, attr, value),
        store.node_sources[name],
    )


def edge_table(store: LiveStore, kind: EdgeKind) -> LiveAttributes:
    """Return the attributes of the edges of a type."""

    def begin(name: str, value: Any) -> None:
        raise InvalidArgumentError(
            f"edge_attrs[{shown(name)}]: a live graph gets rows with its edges; name them in "
            "edge_attrs= when the graph is made"
        )

    table = LiveTable(lambda now: now.kinds[kind.name].attrs, lambda now: now.take_edges(kind))
    return LiveAttributes("edge", store, table, begin)


def live_node_values(store: LiveStore, name: str) -> Mapping[str, RowSource]:
    """Return the times of the nodes of a type, if they have any, by name, to be read alone."""
    if name not in store.node_times:
        return MappingProxyType({})
    table = LiveTable(
        lambda now: {NODE_TIME: now.node_times[name].rows}, lambda now: now.take_nodes(name)
    )
    return MappingProxyType({NODE_TIME: LiveRows(NODE_TIME, store, table)})


def live_values(store: LiveStore, kind: EdgeKind) -> Mapping[str, RowSource]:
    """Return the weights and times of the edges of a type, if any, by name, to be read alone."""
    table = LiveTable(lambda now: now.kinds[kind.name].values, lambda now: now.take_edges(kind))
    return MappingProxyType({name: LiveRows(name, store, table) for name in kind.values})
