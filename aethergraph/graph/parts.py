"""Stored parts of a graph, and how they are built from an edge list. ``Graph`` wraps them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import (
    STRETCH,
    as_float_values,
    check_weights,
    describe_range,
    empty,
    read_only,
    stretches,
)
from aethergraph._checks.options import is_name, shown
from aethergraph._checks.times import as_times, to_one_unit
from aethergraph.errors import (
    CorruptFileError,
    InvalidArgumentError,
    OutOfMemoryError,
    OutOfRangeError,
)
from aethergraph.features import FeatureStore, attribute_store
from aethergraph.graph.orders import inverse, take, take_rows, time_order
from aethergraph.protocols import FeatureSource, RowSource
from aethergraph.storage.meta import Owner
from aethergraph.storage.paging import Paging
from aethergraph.storage.value_columns import ValueColumn

__all__ = [
    "AttributeTable",
    "EdgeInput",
    "EdgeParts",
    "GraphParts",
    "Lists",
    "NodeParts",
    "build_edges",
    "infer_num_nodes",
    "name_id",
    "read_node_time",
    "share_unit",
    "sum_weights",
]

Ids = NDArray[np.int64]
#: (indptr, ids, edge ids) of one direction; edge ids are None if positions are edge ids.
RawLists = tuple[NDArray[np.uint64], NDArray[Any] | native.CompressedIds, NDArray[Any] | None]


#: More nodes than this times the edges suggest that ids are not numbered 0 .. num_nodes - 1.
_SPARSE = 64


class AttributeTable(MutableMapping[str, RowSource]):
    """Named attributes of nodes or edges: ``graph.node_attrs["y"] = labels``.

    Assigning an array wraps it in a :class:`FeatureStore`; any
    :class:`aethergraph.protocols.FeatureSource` may be assigned as it is. The number of rows is
    checked.
    """

    def __init__(
        self, kind: Owner, num_rows: int, stores: Mapping[str, RowSource] | None = None
    ) -> None:
        self.kind: Owner = kind
        self._num_rows = num_rows
        self._stores = dict(stores or {})

    def __getitem__(self, name: str) -> RowSource:
        self._require(name)
        return self._stores[name]

    def _require(self, name: str) -> None:
        if not isinstance(name, str) or name not in self._stores:
            known = ", ".join(map(repr, self._stores)) or "none"
            raise KeyError(f"no {self.kind} attribute {shown(name)}; there are: {known}")

    def __setitem__(self, name: str, value: FeatureSource | ArrayLike) -> None:
        _check_name(name, self.kind)
        label = f"{self.kind}_attrs[{name!r}]"
        self._stores[name] = attribute_store(value, self._num_rows, label, f"num_{self.kind}s")

    def replaced(self, stores: Mapping[str, RowSource]) -> AttributeTable:
        """Return a table of ``stores``, but keep own stores of rows of the graph's file.

        A graph that reads its lists from the file reads short rows together with them, within one
        budget. A store that comes out of a pickle would read the same rows outside that budget.
        """
        own = self._stores
        kept = {
            name: own[name] if name in own and own[name].is_same_rows(store) else store
            for name, store in stores.items()
        }
        return AttributeTable(self.kind, self._num_rows, kept)

    def __delitem__(self, name: str) -> None:
        self._require(name)
        del self._stores[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._stores)

    def __len__(self) -> int:
        return len(self._stores)

    def __repr__(self) -> str:
        shapes = {name: (store.shape, store.dtype_name) for name, store in self._stores.items()}
        return f"AttributeTable({self.kind}, {shapes})"


def _check_name(name: Any, kind: Owner) -> None:
    """Raise unless ``name`` is a non-empty string that UTF-8, the encoding in the file, has."""
    if not is_name(name):
        raise InvalidArgumentError(
            f"the name of a {kind} attribute must be a non-empty string of characters that UTF-8 "
            f"has, got {shown(name)}"
        )


class Lists:
    """One direction of the adjacency: the native topology and its arrays, read-only.

    Caches the tables that random walks and weighted samplers draw from; each is built on first use.
    """

    __slots__ = ("_alias", "_by_edge", "_members", "_raw", "_sums", "topology")

    def __init__(
        self,
        raw: RawLists,
        num_minor: int,
        guard: native.FileGuard | None,
        topology: native.NativeTopology | None = None,
        path: str | None = None,
    ) -> None:
        indptr, ids, edge_ids = raw
        own = (
            read_only(indptr),
            ids if isinstance(ids, native.CompressedIds) else read_only(ids),
            None if edge_ids is None else read_only(edge_ids),
        )
        self._set(topology or native.NativeTopology(*own, num_minor, guard, path), own)

    @classmethod
    def adopted(cls, topology: native.NativeTopology) -> Lists:
        """Return the lists of a topology without arrays; those that are asked for are read."""
        self = cls.__new__(cls)
        self._set(topology, None)
        return self

    def _set(self, topology: native.NativeTopology, raw: RawLists | None) -> None:
        self.topology = topology
        self._raw = raw
        self._alias: NDArray[np.uint64] | None = None
        self._members: NDArray[Any] | None = None
        self._sums: native.NativeSums | None = None
        self._by_edge: tuple[Ids, Ids, Ids] | None = None

    def alias(self, weights: NDArray[Any], guard: native.FileGuard | None) -> NDArray[np.uint64]:
        """Return the alias table of ``weights`` (by edge id), which must be equal in all calls."""
        if self._alias is None:
            self._alias = native.run_long(
                lambda task: native.build_alias(self.topology, weights, guard, task),
                None,
                8 * self.topology.num_edges,
            )
        return self._alias

    def sums(self, weights: NDArray[Any], guard: native.FileGuard | None) -> native.NativeSums:
        """Return the sums of ``weights`` (by edge id), which must be equal in all calls."""
        if self._sums is None:
            self._sums = sum_weights(self.topology, weights, guard)
        return self._sums

    def members(self) -> NDArray[Any]:
        """Return the table that answers whether an edge exists."""
        if self._members is None:
            self._members = native.run_long(
                lambda task: native.build_members(self.topology, task),
                None,
                self.topology.num_edges * self.topology.id_dtype.itemsize,
            )
        return self._members

    # ---- arrays ----------------------------------------------------------------------------

    @property
    def raw(self) -> RawLists:
        """``(indptr, ids, edge_ids)`` as stored, ids perhaps compressed; else read, and kept."""
        if self._raw is None:
            offsets = np.zeros(self.topology.num_major + 1, np.uint64)
            np.cumsum(self.topology.degrees(None), out=offsets[1:])
            nodes = np.arange(self.topology.num_major)
            with_edges = not self.edge_ids_are_places
            ids, edges = self.topology.neighbors(nodes, with_edges=with_edges)
            self._raw = (
                read_only(offsets),
                read_only(ids.astype(self.topology.id_dtype)),
                None if edges is None else read_only(edges),
            )
        return self._raw

    @property
    def indptr(self) -> NDArray[np.uint64]:
        """Offsets of the lists, read-only."""
        return self.raw[0]

    @property
    def ids(self) -> NDArray[Any] | native.CompressedIds:
        """Ids of all lists, read-only, or compressed."""
        return self.raw[1]

    @property
    def edge_ids(self) -> NDArray[Any] | None:
        """Edge ids by place in the lists, read-only; None if ids are places."""
        return self.raw[2]

    @property
    def edge_ids_are_places(self) -> bool:
        """True if the edge at place i, counted through all lists, has the id i."""
        return self.topology.edge_ids_are_positions and self.topology.is_dense

    @property
    def edge_ids_by_place(self) -> NDArray[Any]:
        """Edge ids by place in the lists."""
        edges = self.edge_ids
        return np.arange(self.topology.num_edges) if edges is None else edges

    def ends(self, label: str) -> tuple[Ids, Ids]:
        """Return the nodes of all lists by place: whose list it is, and who is in it.

        Raises:
            CorruptFileError: the offsets are damaged; names ``label``.
        """
        count = self.topology.num_edges
        degrees = self.topology.degrees(None)
        if int(degrees.sum()) != count:
            raise CorruptFileError(f"{label}: the list offsets are damaged; run verify")
        if self.topology.is_dense:
            minor = self.topology.ids(0, count, np.dtype(np.int64))
        else:
            minor = self.indices.astype(np.int64)
        return _repeat(degrees, count), minor

    def ends_of(self, edges: Ids, label: str) -> tuple[Ids, Ids]:
        """Return the nodes of ``edges`` as :meth:`ends` does, by a table that is made once.

        Raises:
            OutOfRangeError: an edge does not exist; names its position.
        """
        if self._by_edge is None:
            ids = self.edge_ids_by_place.astype(np.int64)
            order = np.argsort(ids, kind="stable")
            major, minor = self.ends(label)
            self._by_edge = ids[order], major[order], minor[order]
        known, major, minor = self._by_edge
        places = np.searchsorted(known, edges)
        there = places < len(known)
        there[there] = known[places[there]] == edges[there]
        if not there.all():
            at = int(there.argmin())
            raise OutOfRangeError(
                f"edges[{at}] = {edges[at]} is the id of no edge", position=at, value=int(edges[at])
            )
        return major[places], minor[places]

    @property
    def compressed(self) -> bool:
        """True if the ids are compressed."""
        return self._raw is not None and isinstance(self._raw[1], native.CompressedIds)

    @property
    def indices(self) -> NDArray[Any]:
        """Ids of all lists, read-only. Compressed ids are decoded anew on every access."""
        ids = self.ids
        if not isinstance(ids, native.CompressedIds):
            return ids
        count, dtype = len(ids), ids.dtype
        decoded = native.run_long(
            lambda task: self.topology.ids(0, count, dtype, task), None, count * dtype.itemsize
        )
        return read_only(decoded)

    def length(self, node: int) -> int:
        """Return the length of the list of ``node``."""
        return int(self.topology.degrees(np.array([node], np.int64))[0])

    def neighbors(self, node: int) -> Ids:
        """Return the neighbours in the list of ``node``, int64."""
        return self.topology.neighbors(np.array([node], np.int64))[0]

    def edges(self, node: int) -> Ids:
        """Return the edge ids of the list of ``node``, int64."""
        edges = self.topology.neighbors(np.array([node], np.int64), with_edges=True)[1]
        assert edges is not None
        return edges


def _repeat(times: Ids, total: int) -> Ids:
    """Repeat every index ``i`` of ``times`` ``times[i]`` times; ``total`` is the sum."""
    out = empty(total, np.int64, f"{total} edges")
    end = 0
    for some in stretches(len(times)):
        nodes = np.arange(some.start, some.stop, dtype=np.int64)
        some_times = times[some]
        begin, end = end, end + int(some_times.sum())
        if end - begin <= 4 * STRETCH:
            out[begin:end] = np.repeat(nodes, some_times)
            continue
        ends = begin + np.cumsum(some_times)
        for low in range(begin, end, STRETCH):
            edges = np.arange(low, min(low + STRETCH, end))
            out[edges[0] : edges[-1] + 1] = nodes[np.searchsorted(ends, edges, side="right")]
    return out


def sum_weights(
    topology: native.NativeTopology, weights: NDArray[Any], guard: native.FileGuard | None
) -> native.NativeSums:
    """Return the sums of ``weights`` (by edge id) over the lists of ``topology``."""
    return native.run_long(
        lambda task: native.NativeSums(topology, weights, guard, task), None, weights.nbytes
    )


@dataclass
class NodeParts:
    """All data of the nodes of one type. Optional parts are None."""

    num_nodes: int
    node_time: NDArray[Any] | None = field(default=None, kw_only=True)
    #: Unit of ``node_time`` (of an edge type: of ``edge_time``); None if times are plain numbers.
    time_unit: str | None = field(default=None, kw_only=True)
    node_attrs: AttributeTable = field(init=False)
    _node_columns: dict[str, ValueColumn] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.node_attrs = AttributeTable("node", self.num_nodes)

    def set_node_attrs(self, stores: Mapping[str, RowSource]) -> None:
        """Replace all attributes. Parts that share the previous table keep it unchanged."""
        self.node_attrs = self.node_attrs.replaced(stores)

    def pack_nodes(self) -> tuple[Any, ...]:
        """Return everything but the attributes, for a pickle."""
        return self.node_time, self.time_unit

    def unpack_nodes(self, state: tuple[Any, ...]) -> None:
        """Restore the state that :meth:`pack_nodes` returned."""
        times, self.time_unit = state
        self.node_time = None if times is None else read_only(times)

    def node_values(
        self, guard: native.FileGuard | None, paging: Paging | None
    ) -> dict[str, FeatureStore]:
        """Return ``node_time``, if there is one, as a store to gather from."""
        return _value_stores({"node_time": self.node_time}, self._node_columns, guard, paging)


@dataclass
class EdgeParts:
    """All data of the edges of one type. Optional parts are None."""

    num_src: int
    num_dst: int
    num_edges: int
    csc: Lists | None = None
    csr: Lists | None = None
    edge_order: NDArray[Any] | None = None
    edge_weight: NDArray[Any] | None = None
    edge_time: NDArray[Any] | None = None
    time_unit: str | None = None
    edge_attrs: AttributeTable = field(init=False)
    #: ``"edge_time"``, ``"node_time"``: times that every list is known to be sorted by.
    sorted_by: set[str] = field(init=False, default_factory=set)
    _edge_columns: dict[str, ValueColumn] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.edge_attrs = AttributeTable("edge", self.num_edges)

    def set_edge_attrs(self, stores: Mapping[str, RowSource]) -> None:
        """Replace all attributes. Parts that share the previous table keep it unchanged."""
        self.edge_attrs = self.edge_attrs.replaced(stores)

    def pack_edges(self) -> tuple[Any, ...]:
        """Return everything but the attributes, for a pickle."""
        lists = tuple(None if part is None else part.raw for part in (self.csc, self.csr))
        values = self.edge_order, self.edge_weight, self.edge_time
        return *lists, *values, self.sorted_by, self.time_unit

    def unpack_edges(self, state: tuple[Any, ...]) -> None:
        """Restore the state that :meth:`pack_edges` returned."""
        csc, csr, *values, self.sorted_by, self.time_unit = state
        self.csc = None if csc is None else Lists(csc, self.num_src, None)
        self.csr = None if csr is None else Lists(csr, self.num_dst, None)
        self.edge_order, self.edge_weight, self.edge_time = (
            None if v is None else read_only(v) for v in values
        )

    @property
    def layout(self) -> Literal["csc", "csr", "both"]:
        """Stored directions: ``"csc"``, ``"csr"`` or ``"both"``."""
        if self.csc is None:
            return "csr"
        return "csc" if self.csr is None else "both"

    @property
    def any_lists(self) -> Lists:
        """Lists that edges are looked up in: CSC if stored, else CSR."""
        lists = self.csc or self.csr
        assert lists is not None
        return lists

    @property
    def adjacency_bytes(self) -> int:
        """Bytes of all lists, in their stored form."""
        arrays = [a for part in (self.csc, self.csr) if part is not None for a in part.raw]
        return sum(a.nbytes for a in arrays if a is not None)

    def edge_values(
        self, guard: native.FileGuard | None, paging: Paging | None
    ) -> dict[str, FeatureStore]:
        """Return ``edge_weight`` and ``edge_time``, if there are any, as stores to gather from."""
        named = {"edge_weight": self.edge_weight, "edge_time": self.edge_time}
        return _value_stores(named, self._edge_columns, guard, paging, self.any_lists.topology)


class GraphParts(NodeParts, EdgeParts):
    """All data of a graph with one node type and one edge type."""

    def __init__(self, num_nodes: int, num_edges: int) -> None:
        NodeParts.__init__(self, num_nodes)
        EdgeParts.__init__(self, num_nodes, num_nodes, num_edges)
        NodeParts.__post_init__(self)
        EdgeParts.__post_init__(self)


def _value_stores(
    named: dict[str, NDArray[Any] | None],
    columns: dict[str, ValueColumn],
    guard: native.FileGuard | None,
    paging: Paging | None,
    edges_of: native.NativeTopology | None = None,
) -> dict[str, FeatureStore]:
    """Wrap mapped arrays as stores; ``paging``, if given, reads the gathered rows."""
    found = {}
    for name, array in named.items():
        if array is not None:
            column = None if paging is None else paging.column_of(array, edges_of=edges_of)
            if column is not None:
                columns[name] = column  # the graph keeps the column, and the rows loaded in it
            found[name] = FeatureStore.from_mapped(array, guard, column)
    return found


def name_id(error: OutOfRangeError, name: str, count: int, what: str = "nodes") -> OutOfRangeError:
    """Return a native range error with the argument's name, position and value in its message."""
    if error.position is None:
        return error
    message = f"{name}[{error.position}] = {error.value} is {describe_range(count, what)}"
    return OutOfRangeError(message, position=error.position, value=error.value)


def check_ids(ids: Ids, count: int, name: str, what: str = "nodes") -> None:
    """Raise unless all ids (of nodes, or of ``what``) are in ``0 .. count - 1``.

    Raises:
        OutOfRangeError: an id is out of range; names the first one and its position.
    """
    low, high = native.id_bounds(ids)
    if len(ids) and (low < 0 or high >= count):
        at = int(((ids < 0) | (ids >= count)).argmax())
        raise name_id(OutOfRangeError("", position=at, value=int(ids[at])), name, count, what)


# ---- building --------------------------------------------------------------------------------


def infer_num_nodes(named: Mapping[str, Ids]) -> int:
    """Return the largest id + 1 over all vectors; raise OutOfRangeError for a negative id."""
    largest = -1
    for name, ids in named.items():
        low, high = native.id_bounds(ids)
        if len(ids) and low < 0:
            at = int((ids < 0).argmax())
            raise OutOfRangeError(
                f"{name}[{at}] = {ids[at]} is negative", position=at, value=int(ids[at])
            )
        largest = max(largest, high)
    return largest + 1


@dataclass
class EdgeInput:
    """Checked edge list with its values, in input order."""

    source: Ids
    target: Ids
    weight: NDArray[Any] | None = None
    time: NDArray[Any] | None = None
    time_unit: str | None = None
    attrs: dict[str, RowSource] = field(default_factory=dict)
    #: Input row of each edge after the edges were reordered, uint32 or uint64; None before.
    rank: NDArray[Any] | None = None
    #: True if each list is to be sorted by id.
    sort_neighbors: bool = False

    def read_values(
        self,
        weight: ArrayLike | None,
        time: ArrayLike | None,
        attrs: Mapping[str, FeatureSource | ArrayLike] | None,
    ) -> None:
        """Check and store the weights, times and attributes of the edges."""
        edges = len(self.source)
        if weight is not None:
            self.weight = as_float_values(weight, edges, "edge_weight", "num_edges")
            check_weights(self.weight, "edge_weight")
        if time is not None:
            self.time, self.time_unit = as_times(time, edges, "edge_time", "num_edges")
        if attrs is not None and not isinstance(attrs, Mapping):
            raise InvalidArgumentError(
                f"edge_attrs goes by name, {{name: rows}}, got {type(attrs).__name__}"
            )
        for name, value in (attrs or {}).items():
            _check_name(name, "edge")
            self.attrs[name] = attribute_store(value, edges, f"edge_attrs[{name!r}]", "num_edges")

    def sort_by_time(self, node_time: NDArray[Any] | None, num_src: int, num_dst: int) -> None:
        """Sort the edges by their own times, else by the times of their sources."""
        if self.time is None and node_time is None:
            return
        if self.sort_neighbors:
            raise InvalidArgumentError(
                "sort_neighbors puts the edges of a list in order of id, times put them in order "
                "of time: leave one of them out"
            )
        self._check_ids("src", self.source, num_src)
        self._check_ids("dst", self.target, num_dst)
        if self.time is not None:
            self.rank = time_order(self.time)
        else:
            assert node_time is not None
            self.rank = time_order(take(node_time, self.source))
        if self.rank is not None:
            self.source, self.target = take(self.source, self.rank), take(self.target, self.rank)

    def sort_by_id(self, layout: str, parts: EdgeParts, task: native.Task | None) -> None:
        """Reorder the edges so that every list is sorted by id."""
        for by_source in (False, True):
            if layout == ("csr" if by_source else "csc"):
                continue
            before, self.rank = self.rank, None
            order = self.sort(by_source, parts, True, task)[2]
            assert order is not None
            self.source = take(self.source, order, task)
            self.target = take(self.target, order, task)
            self.rank = order if before is None else take(before, order, task)

    def _check_ids(self, name: str, ids: Ids, count: int) -> None:
        low, high = native.id_bounds(ids)
        if len(ids) and not (low >= 0 and high < count):
            at = int(((ids < 0) | (ids >= count)).argmax())
            raise name_id(OutOfRangeError("", position=at, value=int(ids[at])), name, count)

    def _why_so_many(self, count: int) -> str:
        """Explain which id asks for ``count`` nodes, and what to do about it."""
        named = [("src", self.source), ("dst", self.target)]
        name, ids = max(named, key=lambda pair: int(pair[1].max(initial=-1)))
        at = int(ids.argmax()) if len(ids) else -1
        if at < 0 or ids[at] < count - 1:
            return f"num_nodes = {count} is far more than the {len(ids)} edges need"
        row = at if self.rank is None else int(self.rank[at])
        return (
            f"ids are 0..num_nodes-1 without large gaps, and {name}[{row}] = {ids[at]} is the "
            "largest; map other ids first: known, ids = numpy.unique(numpy.concatenate([src, dst])"
            ", return_inverse=True)"
        )

    @property
    def carries(self) -> bool:
        """True if values have to follow the edges into their new order."""
        return self.weight is not None or self.time is not None or bool(self.attrs)

    def sort(
        self, by_source: bool, parts: EdgeParts, with_order: bool, task: native.Task | None
    ) -> tuple[NDArray[np.uint64], NDArray[Any], NDArray[Any] | None]:
        """Group by target (or source): return indptr, indices, and the input row by position."""
        ends = [(self.target, parts.num_dst), (self.source, parts.num_src)]
        (major, num_major), (minor, num_minor) = ends[::-1] if by_source else ends
        try:
            indptr, indices, order = native.build_lists(
                major, minor, num_major, num_minor,
                id_bytes=native.id_bytes_for(num_minor), with_order=with_order, task=task,
            )  # fmt: skip
        except OutOfMemoryError as error:
            if num_major <= _SPARSE * (len(major) + 1):
                raise
            raise OutOfMemoryError(f"{error}; {self._why_so_many(num_major)}") from None
        except OutOfRangeError as error:
            if error.position is None:
                raise
            if not 0 <= int(self.source[error.position]) < parts.num_src:
                raise name_id(error, "src", parts.num_src) from None
            raise name_id(error, "dst", parts.num_dst) from None
        if order is not None and self.rank is not None:
            order = take(self.rank, order, task)
        return indptr, indices, order


def read_node_time(parts: NodeParts, node_time: ArrayLike) -> None:
    """Check the times of the nodes and store a copy."""
    times, parts.time_unit = as_times(node_time, parts.num_nodes, "node_time", "num_nodes")
    parts.node_time = read_only(times.copy())


def share_unit(nodes: Mapping[Any, NodeParts], edges: Mapping[Any, EdgeInput]) -> None:
    """Convert the times of all types to one unit, since a seed's time is compared with all.

    Raises:
        InvalidArgumentError: see :func:`to_one_unit`.
    """
    timed_nodes = [(kind, one) for kind, one in nodes.items() if one.node_time is not None]
    timed_edges = [(kind, one) for kind, one in edges.items() if one.time is not None]
    labelled: list[tuple[str, Any, str | None]] = []
    for kind, node in timed_nodes:
        labelled.append((_of_type("node_time", kind), node.node_time, node.time_unit))
    for kind, edge in timed_edges:
        labelled.append((_of_type("edge_time", kind), edge.time, edge.time_unit))
    arrays, unit = to_one_unit(labelled)
    if unit is None:
        return
    for (_, node), times in zip(timed_nodes, arrays, strict=False):
        node.node_time, node.time_unit = read_only(times), unit
    for (_, edge), times in zip(timed_edges, arrays[len(timed_nodes) :], strict=True):
        edge.time, edge.time_unit = times, unit


def _of_type(name: str, kind: Any) -> str:
    return name if kind is None else f"{name}[{kind!r}]"


def build_edges(
    parts: EdgeParts, edges: EdgeInput, layout: str, keep_order: bool, task: native.Task | None
) -> None:
    """Build the lists of ``parts`` and put the values of the edges into edge-id order."""
    if edges.sort_neighbors:
        edges.sort_by_id(layout, parts, task)
    want_order = keep_order or edges.carries or layout == "both"
    indptr, indices, order = edges.sort(layout == "csr", parts, want_order, task)
    if layout == "csr":
        parts.csr = Lists((indptr, indices, None), parts.num_dst, None)
    else:
        parts.csc = Lists((indptr, indices, None), parts.num_src, None)
    if order is None:
        return
    if layout == "both":
        indptr, indices, rows = edges.sort(True, parts, True, task)
        assert rows is not None
        parts.csr = Lists((indptr, indices, _edge_ids_at(order, rows, task)), parts.num_dst, None)
    _carry_values(parts, edges, order, task)
    if keep_order:
        parts.edge_order = read_only(order)


def _carry_values(
    parts: EdgeParts, edges: EdgeInput, order: NDArray[Any], task: native.Task | None
) -> None:  # fmt: skip
    if edges.weight is not None:
        parts.edge_weight = read_only(take(edges.weight, order, task))
    if edges.time is not None:
        parts.edge_time = read_only(take(edges.time, order, task))
        parts.time_unit = edges.time_unit
    for name, store in edges.attrs.items():
        rows = take_rows(store, order, task)
        bits = "bfloat16" if store.dtype_name == "bfloat16" else None
        parts.edge_attrs[name] = FeatureStore.from_array(rows, dtype=bits)


def _edge_ids_at(
    order: NDArray[Any], rows: NDArray[Any], task: native.Task | None
) -> NDArray[Any]:  # fmt: skip
    """Return edge ids by CSR position, from input rows by CSR position and by edge id."""
    return take(inverse(order, task), rows, task)
