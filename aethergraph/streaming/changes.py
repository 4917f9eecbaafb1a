"""Records, checked against a live graph, and written into it.

::

    Records ──check()──> Changes of each edge type or node type      records that fit
                    └──> BadRecord                                   the others, with the reason
    Changes ──write()──> one transaction of the graph

This module and columns.py are the only ones of streams that look into what a live graph keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.arrays import as_count, describe_range
from aethergraph._checks.options import is_hashable, shown
from aethergraph._native import KeyBlock
from aethergraph.dynamic.forms import EdgeForm
from aethergraph.dynamic.live import LiveGraph
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.protocols import AnyGraph
from aethergraph.streaming.columns import (
    Array,
    Column,
    Ids,
    find_timed,
    read_flags,
    read_integers,
    read_keys,
    read_rows,
    read_times,
    read_weights,
)
from aethergraph.streaming.keyed import with_ids
from aethergraph.streaming.records import BadRecord, IdMap, Records

__all__ = ["Changes", "Target"]


@dataclass
class Changes:
    """Records that fit, of one edge type or node type, in their order.

    Attributes:
        kind: edge type (three texts) or node type.
        src, dst: ends of edges; or ``src`` alone: nodes whose rows change.
        delete: edges to delete, bool [n]; None: none.
        times: times in the unit of the graph, int64 [n], or None. Those of edges to delete are 0
            where they have none; those of nodes are the versions of their rows.
    """

    kind: Any
    src: Ids
    dst: Ids | None
    delete: NDArray[np.bool_] | None
    times: Ids | None
    weights: Array | None
    attrs: dict[str, Array] = field(default_factory=dict)
    #: Times for the watermark, where records bring some; those of records without one say nothing.
    event_times: Ids | None = None
    #: Records that have a time, bool [n]; None: all of them, if there are event times.
    timed: NDArray[np.bool_] | None = None
    #: Place of each record among those that were checked with it.
    rows: NDArray[np.intp] | None = None
    #: Keys by end, where nodes have keys: ``src`` and ``dst`` are places in them until they are
    #: written, as only a commit gives ids to new ones.
    keys: tuple[KeyBlock | None, KeyBlock | None] = (None, None)

    def only(self, kept: NDArray[np.bool_] | slice) -> Changes:
        """Return some of the changes."""

        def cut(values: Any) -> Any:
            return None if values is None else values[kept]

        return Changes(
            self.kind, self.src[kept], cut(self.dst), cut(self.delete), cut(self.times),
            cut(self.weights), {name: rows[kept] for name, rows in self.attrs.items()},
            cut(self.event_times), cut(self.timed), cut(self.rows), self.keys,
        )  # fmt: skip

    @property
    def newest(self) -> int | None:
        """Largest time of those records that have one; None: none has."""
        times = self.event_times
        if times is not None and self.timed is not None:
            times = times[self.timed]
        return int(times.max()) if times is not None and len(times) else None

    def where_time(self, wrong: Callable[[Ids], NDArray[np.bool_]]) -> NDArray[np.bool_]:
        """Return the records whose time is one that ``wrong`` names; those without one are not."""
        if self.event_times is None:
            return np.zeros(len(self), bool)
        mask = wrong(self.event_times)
        return mask if self.timed is None else mask & self.timed

    def __len__(self) -> int:
        return len(self.src)


class Target:
    """A live graph that records are written to.

    Args:
        graph: the graph, which this process writes.
        new_nodes: most nodes that one commit may add; ids beyond are refused.
        id_map: numbers of nodes by the ids in the records; by node type for a typed graph.
    """

    def __init__(
        self,
        graph: LiveGraph,
        new_nodes: int = 0,
        id_map: IdMap | Mapping[str, IdMap] | None = None,
    ) -> None:
        if not isinstance(graph, LiveGraph):
            raise InvalidArgumentError(
                f"graph must be a DynamicGraph or DynamicHeteroGraph, got {type(graph).__name__}"
            )
        self.graph = graph
        self._store = graph.store
        if not self._store.is_writer:
            raise InvalidArgumentError(
                "this copy of the live graph can only read: the process that opened it ingests"
            )
        self._is_typed = cast(AnyGraph, graph).is_typed
        self.new_nodes = as_count(new_nodes, "new_nodes")
        self._id_maps: dict[str, IdMap] = {}
        if isinstance(id_map, Mapping):
            self._id_maps = dict(id_map)
        elif id_map is not None:
            self._id_maps = dict.fromkeys(self._store.node_rows, id_map)
        for name, ids in self._id_maps.items():
            if name not in self._store.node_rows:
                types = ", ".join(self._store.node_rows)
                raise InvalidArgumentError(f"id_map: {shown(name)} is no node type, but {types}")
            if name in self._store.keys:
                raise InvalidArgumentError(
                    f"nodes of type {name!r} have keys, which the graph keeps: leave id_map out"
                )
            if not (callable(getattr(ids, "lookup", None)) and hasattr(ids, "append")):
                raise InvalidArgumentError(
                    f"id_map of node type {shown(name)} is {shown(ids)}, which has no lookup() and "
                    "append()"
                )
        self._relations: dict[str, Any] = {}
        for kind in self._store.kinds:
            self._relations[",".join(kind)] = kind
            # The relation alone names an edge type where no other has it.
            self._relations[kind[1]] = None if kind[1] in self._relations else kind

    @property
    def time_unit(self) -> str | None:
        """Unit of the times of edges; None for plain numbers and without times."""
        return self._store.time_unit

    @property
    def keeps_time(self) -> bool:
        """True if edges of any type have times."""
        return any(kind.form.has_time for kind in self._store.kinds.values())

    def form(self, kind: Any) -> EdgeForm:
        """Return what the graph keeps of the edges of a type."""
        return self._store.kinds[kind].form

    def edge_type(self, kind: Any) -> Any:
        """Return an edge type that a source names; None: the only one.

        Raises:
            InvalidArgumentError: there is no such edge type, or there are several.
        """
        kinds = list(self._store.kinds)
        if kind is None:
            if len(kinds) > 1:
                raise InvalidArgumentError(
                    f"the graph has {len(kinds)} edge types: the schema must say which, by "
                    "edge_type= or relation="
                )
            return kinds[0]
        edge_type = tuple(kind) if isinstance(kind, list) else kind
        if not is_hashable(edge_type) or edge_type not in self._store.kinds:
            raise InvalidArgumentError(
                f"the graph has no edge type {shown(edge_type)}, but {', '.join(map(str, kinds))}"
            )
        return edge_type

    def edge_types(self, kind: Any, columns: Collection[str]) -> list[Any]:
        """Return the edge types that records may be of: all, where each of them names its own."""
        return list(self._store.kinds) if "relation" in columns else [self.edge_type(kind)]

    def node_type(self, kind: Any) -> str:
        """Return a node type that a source names; None: the only one.

        Raises:
            InvalidArgumentError: there is no such node type, or there are several.
        """
        kinds = list(self._store.node_rows)
        if kind is None and len(kinds) == 1:
            return kinds[0]
        if kind not in kinds:
            raise InvalidArgumentError(
                f"the records are of node type {shown(kind)}, but the graph has {', '.join(kinds)}"
            )
        return str(kind)

    def _count(self, node_type: str) -> int:
        return self._store.take_nodes(node_type)[1]

    def _node_tables(self, node_type: str) -> dict[str, Any]:
        """Return the rows of a node type by attribute, also those that change by themselves."""
        return {**self._store.node_rows[node_type], **self._store.node_sources[node_type]}

    # ---- check -------------------------------------------------------------------------------

    def check_columns(self, columns: Any, attrs: Any, kind: Any) -> None:
        """Raise unless records with these columns can be written.

        Raises:
            InvalidArgumentError: a column is missing, or the graph does not keep it; names it.
        """
        if "node" in columns:
            tables = self._node_tables(self.node_type(kind))
            self._check_names(attrs, tables, "nodes", needed=False)
            live = set(attrs) <= set(self._store.node_sources[self.node_type(kind)])
            unknown = next((n for n in columns if n != "node" and not (live and n == "time")), None)
            if unknown == "time":
                raise InvalidArgumentError(
                    "the records have a time, which rows of a graph do not keep: leave time= out, "
                    "or let all attributes be of live tables"
                )
            if unknown is not None:
                raise InvalidArgumentError(f"records of nodes have no column {unknown!r}")
            return
        for name in ("src", "dst"):
            if name not in columns:
                raise InvalidArgumentError(f"the records have no column {name!r}")
        if "relation" in columns and not self._is_typed:
            raise InvalidArgumentError("the graph has one edge type: leave relation= out")
        for edge_type in self.edge_types(kind, columns):
            form = self.form(edge_type)
            for name, keeps, option in (
                ("time", form.has_time, "edge_time"),
                ("weight", form.has_weight, "edge_weight"),
            ):
                if keeps and name not in columns:
                    raise InvalidArgumentError(
                        f"the graph keeps a {name} of each edge, but the records have none: give "
                        f"the schema {name}="
                    )
                if name in columns and not keeps and name != "time":
                    raise InvalidArgumentError(
                        f"the records have a {name}, but the graph keeps none: make it with "
                        f"{option}=, or leave {name}= out of the schema"
                    )
            self._check_names(attrs, form.attrs, "edges", needed=True)

    def check_keys(self, roles: Sequence[str], key_types: Mapping[str, str], kind: Any) -> None:
        """Raise unless the types of keys of a schema are those of the nodes.

        Raises:
            InvalidArgumentError: they are not; names both.
        """
        if "node" in roles:
            ends = [("node", self.node_type(kind))]
        else:
            kinds = self.edge_types(kind, roles)
            ends = [
                (role, edge_type[at])
                for edge_type in kinds
                for role, at in (("src", 0), ("dst", 2))
            ]
        for role, node_type in ends:
            keys = self._store.keys.get(node_type)
            key_type = None if keys is None else keys.type
            if key_types.get(role) != key_type:
                has = "no keys" if key_type is None else f"keys of type {key_type!r}"
                advice = (
                    "leave ids= out, or make the graph with ids=, in a new directory"
                    if key_type is None
                    else f"give the schema ids={key_type!r}"
                )
                raise InvalidArgumentError(
                    f"nodes of type {node_type!r} have {has}, but the schema says "
                    f"{key_types.get(role)!r} of {role}: {advice}"
                )

    def _check_names(self, attrs: Any, tables: Any, noun: str, *, needed: bool) -> None:
        for name in attrs:
            if name not in tables:
                way = (
                    "make the graph with edge_attrs="
                    if noun == "edges"
                    else "begin it in the graph"
                )
                raise InvalidArgumentError(
                    f"{noun} of the graph have no attribute {shown(name)}: {way}, or leave it out "
                    "of attrs="
                )
        for name in tables:
            if needed and name not in attrs:
                raise InvalidArgumentError(
                    f"{noun} of the graph have the attribute {name!r}, but the records do not"
                )

    def check(self, records: Records) -> tuple[list[Changes], list[BadRecord]]:
        """Return the changes that records ask for, and the records that do not fit.

        Raises:
            InvalidArgumentError: a column is missing, or one that the graph does not keep.
        """
        bad = list(records.bad)
        if not records.count:
            return [], bad
        self.check_columns(records.columns, records.attrs, records.kind)
        changes = []
        for kind, rows in self._split(records, bad):
            column = Column(records, rows)
            change = self._check_one(kind, column)
            if column.bad:
                kept = np.ones(len(rows), bool)
                for at, why in sorted(column.bad.items()):
                    kept[at] = False
                    bad.append(self._bad(records, int(rows[at]), why))
                change = change.only(kept)
            if len(change):
                changes.append(change)
        bad.sort(key=lambda record: record.offset)
        return changes, bad

    def _bad(self, records: Records, row: int, why: str) -> BadRecord:
        assert records.offsets is not None
        payload = None if records.payload is None else records.payload(row)
        return BadRecord(int(records.offsets[row]), why, payload)

    def _split(self, records: Records, bad: list[BadRecord]) -> list[tuple[Any, NDArray[np.intp]]]:
        """Return the records of each type, by their places."""
        every = np.arange(records.count)
        if "node" in records.columns:
            return [(self.node_type(records.kind), every)]
        if "relation" not in records.columns:
            return [(self.edge_type(records.kind), every)]
        names = records.columns["relation"]
        if names.dtype.kind == "S":  # of a struct
            names = np.char.decode(names, "utf-8", "replace")
        names = names.tolist()
        places: dict[Any, list[int]] = {}
        label = Column(records, every).label("relation")
        for row, name in enumerate(names):
            kind = self._relations.get(name) if isinstance(name, str) else None
            if kind is None:
                known = [n for n, k in self._relations.items() if k is not None]
                why = f"{label} = {shown(name)} is not one of {', '.join(known)}"
                bad.append(self._bad(records, row, why))
            else:
                places.setdefault(kind, []).append(row)
        return [(kind, np.array(rows, np.intp)) for kind, rows in places.items()]

    def _check_one(self, kind: Any, column: Column) -> Changes:
        records, rows = column.records, column.rows
        if isinstance(kind, str):
            nodes, keys = self._read_ends(column, "node", kind)
            tables = self._node_tables(kind)
            attrs = self._read_attrs(column, tables, np.ones(len(rows), bool))
            times = self._read_versions(kind, column)
            return Changes(
                kind, nodes, None, None, times, None, attrs, None, None, rows, (keys, None)
            )
        form = self.form(kind)
        src, src_keys = self._read_ends(column, "src", kind[0])
        dst, dst_keys = self._read_ends(column, "dst", kind[2])
        delete = read_flags(column, "delete")
        inserted = np.ones(len(rows), bool) if delete is None else ~delete
        # Times that the graph does not keep serve the watermark, which has one unit.
        unit = self.time_unit if self.keeps_time else records.time_unit
        times = read_times(column, form.has_time, unit, inserted)
        weights = read_weights(column, inserted) if form.has_weight else None
        attrs = self._read_attrs(column, form.attrs, inserted)
        kept = times if form.has_time else None
        return Changes(
            kind, src, dst, delete, kept, weights, attrs, times, find_timed(column, inserted),
            rows, (src_keys, dst_keys),
        )  # fmt: skip

    def _read_versions(self, kind: str, column: Column) -> Ids | None:
        """Return the times of records of nodes, which are versions of the rows they bring."""
        names = column.records.attrs
        units = {self._store.node_sources[kind][name].version_unit for name in names
                 if name in self._store.node_sources[kind]}  # fmt: skip
        if "time" not in column.records.columns:
            return None
        if len(units) > 1:
            raise InvalidArgumentError(
                f"the attributes {', '.join(names)} have versions in several units: bring their "
                "rows by streams of their own"
            )
        unit = units.pop()
        times = read_times(column, False, unit, np.ones(len(column.rows), bool))
        assert times is not None
        column.refuse_where(times < 0, "time", times, "is negative: versions begin at 0")
        return times

    def _read_ends(self, column: Column, role: str, node_type: str) -> tuple[Ids, KeyBlock | None]:
        """Return ids; or keys, and the place of each in them."""
        keys = self._store.keys.get(node_type)
        if keys is None:
            return self._read_ids(column, role, node_type), None
        values = column.values(role)
        assert values is not None
        block = read_keys(column, role, values, keys.columns)
        return np.arange(len(block)), block

    def _read_ids(self, column: Column, role: str, node_type: str) -> Ids:
        keys = column.values(role)
        assert keys is not None
        id_map = self._id_maps.get(node_type)
        if id_map is not None:
            return self._map_ids(column, role, keys, id_map)
        ids = read_integers(column, role, keys)
        count, limit = self._count(node_type), self._store.max_nodes
        end = min(count + self.new_nodes, limit)
        wrong = (ids < 0) | (ids >= end)
        if wrong.any():
            why = f"is {describe_range(count)}"
            if self.new_nodes:
                why += f", and a commit adds {end - count} nodes at most"
            column.refuse_where(wrong, role, ids, why)
        return ids

    def _map_ids(self, column: Column, role: str, keys: Array, id_map: IdMap) -> Ids:
        missing = np.array([key is None for key in keys.tolist()], bool)
        column.refuse_where(missing, role, keys, "is no id")
        ids = np.zeros(len(keys), np.int64)
        known = ~missing
        ids[known] = id_map.lookup(keys[known])
        new = known & (ids < 0)
        if new.any():
            ids[new] = id_map.append(keys[new])
        return ids

    def _read_attrs(
        self, column: Column, tables: Mapping[str, Any], needed: NDArray[np.bool_]
    ) -> dict[str, Array]:
        attrs = {}
        for name, all_values in column.records.attrs.items():
            table, values = tables[name], all_values[column.rows]
            if table.dtype_name == "bfloat16":
                raise UnsupportedError(f"records cannot bring rows of {name!r}, which are bfloat16")
            dtype, shape = np.dtype(table.dtype_name), tuple(table.row_shape)
            attrs[name] = read_rows(column, name, values, dtype, shape, needed)
        return attrs

    # ---- write -------------------------------------------------------------------------------

    def write(self, changes: Sequence[Changes]) -> dict[str, int]:
        """Make changes in the open transaction; return how many there were of each sort."""
        changes, added = with_ids(self._store, changes)
        counts = {"edges": 0, "deleted": 0, "rows": 0, "nodes": added + self._grow(changes)}
        for kind in dict.fromkeys(change.kind for change in changes):
            changes_of_kind = [change for change in changes if change.kind == kind]
            if isinstance(kind, str):
                counts["rows"] += self._write_rows(kind, changes_of_kind)
                continue
            joined = changes_of_kind[0] if len(changes_of_kind) == 1 else _joined(changes_of_kind)
            for part, is_delete in _in_order(joined):
                counts["deleted" if is_delete else "edges"] += self._write_edges(part, is_delete)
        return counts

    def _grow(self, changes: Sequence[Changes]) -> int:
        """Add the nodes that changes name and the graph does not have yet; return their number."""
        largest: dict[str, int] = {}
        for change in changes:
            ends = (
                (change.kind,) if isinstance(change.kind, str) else (change.kind[0], change.kind[2])
            )
            for node_type, ids in zip(ends, (change.src, change.dst), strict=False):
                if ids is not None and len(ids):
                    largest[node_type] = max(largest.get(node_type, -1), int(ids.max()))
        added = 0
        for node_type, last_id in largest.items():
            if node_type in self._store.keys:
                continue  # there is one for each key
            missing = last_id + 1 - self._count(node_type)
            if missing > 0 and node_type in self._store.node_times:
                raise InvalidArgumentError(
                    f"node {last_id} of type {node_type!r} is not there yet, and records bring no "
                    "times of nodes: add nodes with theirs before, add_nodes(count, time=)"
                )
            if missing > 0:
                rows = {
                    name: np.zeros((missing, *table.row_shape), table.dtype)
                    for name, table in self._store.node_rows[node_type].items()
                }
                self._store.add_nodes(node_type, missing, rows)
                added += missing
        return added

    def _write_rows(self, kind: str, changes: Sequence[Changes]) -> int:
        for change in changes:
            self._store.update_nodes(kind, change.src, change.attrs, change.times)
        return sum(map(len, changes))

    def _write_edges(self, part: Changes, is_delete: bool) -> int:
        assert part.dst is not None
        kind = self._store.kinds[part.kind]
        if is_delete:
            return self._store.delete(kind, part.src, part.dst, None)
        self._store.insert(kind, part.src, part.dst, part.times, part.weights, part.attrs)
        return len(part)


# ---- order ---------------------------------------------------------------------------------------


def _joined(changes: Sequence[Changes]) -> Changes:
    """Return changes of one type, one after the other."""

    def join(name: str) -> Any:
        parts = [getattr(change, name) for change in changes]
        return None if parts[0] is None else np.concatenate(parts)

    delete = None
    if any(change.delete is not None for change in changes):
        delete = np.concatenate(
            [np.zeros(len(c), bool) if c.delete is None else c.delete for c in changes]
        )
    names = changes[0].attrs
    attrs = {name: np.concatenate([change.attrs[name] for change in changes]) for name in names}
    return Changes(
        changes[0].kind, join("src"), join("dst"), delete, join("times"), join("weights"), attrs
    )


def _in_order(changes: Changes) -> list[tuple[Changes, bool]]:
    """Return parts, each with whether it is deleted, that have the effect of the order given.

    Edges that are not both inserted and deleted here do not care for the order: the insertions
    come first then, in one call, and the deletions after them.
    """
    if changes.delete is None or not changes.delete.any():
        return [(changes, False)]
    delete = changes.delete
    if delete.all():
        return [(changes, True)]
    assert changes.dst is not None
    _, pair = np.unique(np.stack([changes.src, changes.dst]), axis=1, return_inverse=True)
    pair = pair.ravel()
    if not np.intersect1d(pair[delete], pair[~delete]).size:
        return [(changes.only(~delete), False), (changes.only(delete), True)]
    bounds = [0, *(np.flatnonzero(np.diff(delete)) + 1).tolist(), len(delete)]
    return [(changes.only(slice(a, b)), bool(delete[a])) for a, b in pairwise(bounds)]
