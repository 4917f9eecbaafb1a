"""Graph: a static graph in compressed lists, built from edges or opened from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count, as_ids
from aethergraph._checks.options import as_choice, as_flag
from aethergraph.errors import AbsentError, InvalidArgumentError, MissingFileError
from aethergraph.graph.attributes import AttributeTable
from aethergraph.graph.base import StoredGraph
from aethergraph.graph.edge_input import EdgeInput, build_edges, read_node_time, share_unit
from aethergraph.graph.file import ONE_TYPE, GraphReader, GraphWriter
from aethergraph.graph.id_files import IdFiles
from aethergraph.graph.ids import infer_num_nodes
from aethergraph.graph.parts import BY_EDGE_TIME, BY_SOURCE_TIME, GraphParts
from aethergraph.graph.reordering import Reordering
from aethergraph.graph.verify import verified_bytes, verify_edges, verify_nodes
from aethergraph.graph.walks import WalksByBatch
from aethergraph.protocols import FeatureSource, Layout, RowSource
from aethergraph.storage.budget import Budget
from aethergraph.storage.choice import (
    Storage,
    check_storage,
    refuse_address,
)
from aethergraph.storage.meta import check_fingerprint

if TYPE_CHECKING:
    from aethergraph.ids import IdMap

__all__ = ["AttributeTable", "Graph", "Layout"]

_LAYOUTS = ("csc", "csr", "both")
Ids = NDArray[np.int64]


class Graph(WalksByBatch, StoredGraph, Reordering):
    """Directed graph with one node type and one edge type.

    Make one from edges, or open a file; both give the same object::

        graph = Graph.from_edges(num_nodes, src, dst)
        graph.features = x                       # any array with num_nodes rows
        graph.save("graph.aeg")

        graph = Graph.load("graph.aeg")          # instant: the file is mapped
        graph.in_neighbors(7), graph.in_degrees()

    Messages flow from ``src`` to ``dst``; sampling follows edges backwards, so the layout that is
    stored by default is CSC: for each node its in-neighbours. ``layout="csr"`` stores the
    out-neighbours, ``"both"`` both. Edge ids are positions in CSC order (CSR order if
    ``layout="csr"``); edge attributes are kept in that order, and ``keep_order=True`` keeps the
    number of the input row of each edge.

    A graph does not change. It may be shared by threads and used in forked children. It pickles by
    path when it was loaded from a file (which must still be the same), else by its arrays.
    """

    _ATTACH = ".node_attrs[{0!r}] = ... or .edge_attrs[{0!r}] = ..."

    def __init__(self, *_: Any, **__: Any) -> None:
        raise InvalidArgumentError("use Graph.from_edges(...) or Graph.load(path)")

    _file: native.NativeFile | None
    _fingerprint: str
    _ids: IdFiles | None

    @classmethod
    def _make(cls, parts: GraphParts, reader: GraphReader | None = None) -> Graph:
        self = cls.__new__(cls)
        self._parts = parts
        self._num_nodes = parts.num_nodes
        self._num_edges = parts.num_edges
        self._file = None if reader is None else reader.file
        self._path = None if reader is None else reader.path
        self._storage = "memory" if reader is None else reader.storage
        self._paging = None if reader is None else reader.paging
        self._fingerprint = "" if reader is None else reader.fingerprint
        self._names = ONE_TYPE
        if reader is not None:
            self._names = reader.meta.node_types[0].name, reader.meta.edge_types[0].name
        self._ids = None
        self._side_files = {} if reader is None else reader.meta.beside
        self._time_zone = None if reader is None else reader.meta.time_zone
        self._time_attr = None if reader is None else reader.meta.time_attr
        return self

    # ---- building ------------------------------------------------------------------------

    @classmethod
    def from_edges(
        cls,
        num_nodes: int | None,
        src: ArrayLike,
        dst: ArrayLike,
        *,
        edge_weight: ArrayLike | None = None,
        edge_time: ArrayLike | None = None,
        node_time: ArrayLike | None = None,
        edge_attrs: Mapping[str, FeatureSource | ArrayLike] | None = None,
        layout: Layout = "csc",
        keep_order: bool = False,
        sort_neighbors: bool = False,
        progress: native.Progress | None = None,
    ) -> Graph:
        """Build a graph from an edge list. Duplicate edges and self-loops are kept.

        Edges of one list keep their input order. If the graph has times, each list is sorted by
        them instead, as temporal sampling needs it: by ``edge_time``, else by the ``node_time`` of
        the source; ties keep their input order. All threads of the native pool take part.

        Args:
            num_nodes: number of nodes; ids are below it. None takes the largest id + 1.
            src: source node ids, a vector [E] of any integer dtype. The two rows of PyG's
                ``edge_index`` are ``src, dst = edge_index``.
            dst: destination node ids, a vector [E] of any integer dtype.
            edge_weight: [E] finite, >= 0; float32, or float64. Integers become float64; one that it
                does not hold exactly is refused.
            edge_time: [E] integers (kept as int64), floats (float64) or datetime64 (int64, with
                the unit in :attr:`time_unit`).
            node_time: [num_nodes], like edge_time. Datetimes of two units are converted to the
                coarsest unit in which all are exact.
            edge_attrs: named arrays [E, ...], put into edge-id order.
            layout: ``"csc"``, ``"csr"`` or ``"both"``.
            keep_order: keep :attr:`edge_order`, the input row of each edge id.
            sort_neighbors: sort each list by id (ties keep their input order) instead of keeping
                the input order; ``save(compress=True)`` then needs least space. Edge ids follow
                the new order, and so do samples. Refused for edges with times, which are sorted
                by time.
            progress: called with (done, total).

        Raises:
            OutOfRangeError: an id is out of range; names the first one, its row and its value.
            InvalidArgumentError: a dtype, length, shape or value is invalid.
        """
        layout = as_choice(layout, _LAYOUTS, "layout")
        keep_order = as_flag(keep_order, "keep_order")
        sort_neighbors = as_flag(sort_neighbors, "sort_neighbors")
        source, target = as_ids(src, "src"), as_ids(dst, "dst")
        if len(source) != len(target):
            raise InvalidArgumentError(f"src has {len(source)} ids, but dst has {len(target)}")
        if num_nodes is None:
            nodes = infer_num_nodes({"src": source, "dst": target})
        else:
            nodes = as_count(num_nodes, "num_nodes")
        edges = EdgeInput(source, target, sort_neighbors=sort_neighbors)
        edges.read_values(edge_weight, edge_time, edge_attrs)
        parts = GraphParts(nodes, len(source))
        if node_time is not None:
            read_node_time(parts, node_time)
        share_unit({None: parts}, {None: edges})
        times = parts.node_time
        edges.sort_by_time(times, nodes, nodes)
        native.run_long(
            lambda task: build_edges(parts, edges, layout, keep_order, task),
            progress,
            32 * len(source),
        )
        if edges.time is not None or times is not None:
            parts.sorted_by.update(BY_SOURCE_TIME if edges.time is None else BY_EDGE_TIME)
        return cls._make(parts)

    @classmethod
    def from_scipy(
        cls, matrix: Any, *, weight: bool = True, layout: Layout = "csc", keep_order: bool = False
    ) -> Graph:
        """Build a graph from a square sparse matrix or array: ``[i, j]`` is the edge i -> j.

        Every stored entry is an edge, also zeros and duplicates; to drop them, call
        ``matrix.eliminate_zeros()`` and ``matrix.sum_duplicates()`` first.

        Args:
            matrix: any scipy format; rows are sources, columns are destinations.
            weight: take the values as edge weights: float32 and float64 unchanged, integers as
                float64 if it holds them exactly, bools as float32. False takes only the pattern.
            layout: as in :meth:`from_edges`.
            keep_order: as in :meth:`from_edges`; the input order is that of
                ``matrix.tocoo()``.

        Raises:
            UnsupportedError: scipy is not installed.
            InvalidArgumentError: not a sparse matrix, not square, or a value is not a valid weight.
        """
        from aethergraph.interop import from_scipy

        return from_scipy(matrix, weight=weight, layout=layout, keep_order=keep_order)

    def to_scipy(self, format: Literal["csr", "csc", "coo"] = "csr", *, weight: bool = True) -> Any:
        """Return the adjacency as a scipy sparse array: ``[i, j]`` is the edge i -> j.

        Duplicate edges are duplicate entries, which scipy's arithmetic adds up.

        Args:
            format: ``"csr"``, ``"csc"`` or ``"coo"``. Entries are in the order of edge ids in COO
                and in the format of the graph's layout.
            weight: use the edge weights as values. If False, and for a graph without weights, the
                values are float32 ones.

        Returns:
            ``csr_array``, ``csc_array`` or ``coo_array`` [num_nodes, num_nodes].

        Raises:
            UnsupportedError: scipy is not installed.
        """
        from aethergraph.interop import to_scipy

        return to_scipy(self, format, weight=weight)

    @property
    def renumbers_edges(self) -> bool:
        """True: edge ids are places in lists that an input was sorted into."""
        return True

    # ---- files ---------------------------------------------------------------------------

    @classmethod
    def load(
        cls,
        path: native.Path,
        *,
        storage: Storage = "mmap",
        memory_budget: int | str | None = None,
        progress: native.Progress | None = None,
    ) -> Graph:
        """Open a graph file.

        Header, section table and sizes are checked; :meth:`verify` reads and checks everything.

        Args:
            path: a file written by :meth:`save` or ``aethergraph convert``; graphs of servers are
                opened by :func:`aethergraph.remote.open_graph`.
            storage: where the adjacency lives. ``"mmap"``: pages are read when they are needed,
                opening is instant. ``"memory"``: copied into huge pages now, several times faster
                to sample from. ``"uring"``: the lists stay in the file and only a compressed index
                of them is kept in memory; io_uring reads the lists past the page cache (threads do
                where io_uring is missing), and loaders sample several coming batches together.
                ``"auto"``: memory if the adjacency fits ``memory_budget``, else uring; without a
                budget, memory if it fits half of the available memory, mmap if it fits all of it,
                else uring. The choice is logged, and :attr:`storage` names it. Attributes stay
                mapped, except short rows with ``"uring"``: ``FeatureTable.to_memory`` copies an
                attribute, ``to_uring`` reads its rows past the page cache.
            memory_budget: bytes, or a text such as ``"1G"``. With ``"uring"``, an upper bound for
                the index, read buffers, short rows and samples in progress of this process (None:
                1 GiB, or half of the available memory if that is less). Batches that were handed
                out are not counted. A loader with worker processes has a graph, and a budget, in
                each of them. Refused with ``"mmap"``, whose pages the kernel keeps as it likes.
            progress: called with (bytes done, total bytes) while copying.

        Raises:
            MissingFileError, StorageError: the file cannot be opened.
            FormatError, TruncatedFileError, CorruptFileError, VersionError: its content is wrong.
            UnsupportedError: the file has several node or edge types.
            InvalidArgumentError: the budget is too small (the message names the minimum), or is
                given with ``"mmap"``; or ``path`` is the address of a server.
        """
        check_storage(storage)
        budget = Budget.optional(memory_budget)
        refuse_address(path)
        reader = GraphReader(path)
        parts = reader.make_one()
        reader.read([parts], [parts], storage, budget, progress)
        return cls._make(parts, reader)

    def save(
        self,
        path: native.Path,
        *,
        compress: bool | None = None,
        attrs: bool = True,
        progress: native.Progress | None = None,
    ) -> None:
        """Write the graph with all its attributes to ``path``.

        Rows of features that were loaded from a file of their own are copied as well, so that the
        graph file is complete by itself; ``attrs=False`` leaves them where they are. The sizes are
        logged.

        The file appears complete and at once, or not at all: a crash at any moment leaves what was
        there before. Saving over the file that this graph maps is safe.

        Args:
            path: the file to write, by convention ``*.aeg``.
            compress: store the neighbours in compressed blocks. They take less space in the file
                and, with every storage, in memory. Samples are equal but take longer. Ids that are
                close to each other within a list or from list to list compress best. None: keep
                the present form.
            attrs: write ``node_attrs`` and ``edge_attrs`` as well. Weights, times and edge order
                are always written.
            progress: called with (bytes done, total bytes).

        Raises:
            StorageError: the file cannot be written (no space, no permission...).
        """
        writer = GraphWriter.of_one(
            self._live(), compress, attrs=as_flag(attrs, "attrs"), names=self._names
        )
        writer.meta = replace(
            writer.meta,
            time_zone=self._time_zone,
            time_attr=self._time_attr,
            beside=self._side_files,
        )
        guard = self._guard()
        native.run_long(lambda task: writer.write(path, guard, task), progress, writer.size)

    def verify(self, progress: native.Progress | None = None) -> None:
        """Read the whole file, compare all checksums, and check every id and offset.

        If both directions are stored, they must hold the same edges with the same ids. For a graph
        that is not backed by a file, only the ids and offsets are checked.

        Raises:
            CorruptFileError: a section is damaged; names the first one.
        """
        parts, file = self._live(), self._file

        def work(task: native.Task | None) -> None:
            if file is not None:
                file.verify(task)
            verify_edges(parts, self._label(), task)
            verify_nodes(parts, self._label(), task)
            if file is not None:
                file.check()

        size = verified_bytes(parts) + (0 if file is None else file.size)
        native.run_long(work, progress, size)

    def close(self) -> None:
        """Drop the graph's own references; using the graph afterwards raises ClosedError.

        Arrays, feature stores and samplers made from the graph stay valid. They keep the mapping
        and, with ``"uring"``, the reader of the file alive. Without them both are closed at once.
        """
        self._parts = None
        self._paging = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Graph:
        self._live()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _label(self) -> str:
        return self._path or "the graph"

    def _guard(self) -> native.FileGuard | None:
        return None if self._file is None else self._file.guard()

    # ---- properties ----------------------------------------------------------------------

    @property
    def time_zone(self) -> str | None:
        """Time zone of all times, ``"UTC"``, if the tables that the graph was made of gave one."""
        return self._time_zone

    @property
    def time_attr(self) -> str | None:
        """Name of the times that samples go by; see :attr:`HeteroGraph.time_attr`."""
        return self._time_attr

    @property
    def ids(self) -> IdMap:
        """Map between keys and ids, of the file beside that of the graph.

        ``convert(ids="string")`` and ``convert.tables`` write it: ``graph.ids.lookup(["u17"])``.

        Raises:
            AbsentError: there is none, as of a graph that was not loaded from a file.
        """
        if self._ids is None:
            self._ids = IdFiles(self._path, {self._names[0]: self._num_nodes}, self._side_files)
        try:
            return self._ids[self._names[0]]
        except (InvalidArgumentError, MissingFileError) as error:
            raise AbsentError(str(error)) from None

    def info(self) -> dict[str, Any]:
        """Return facts for people and tools: counts, layout, dtypes, attributes, bytes."""
        parts = self._live()

        def dtype(array: NDArray[Any] | None) -> str | None:
            return None if array is None else array.dtype.name

        def attributes(table: AttributeTable) -> dict[str, dict[str, Any]]:
            return {
                name: {
                    "shape": store.shape,
                    "dtype": store.dtype_name,
                    "storage": store.storage,
                    "path": store.path,
                }
                for name, store in table.items()
            }

        return {
            "path": self._path,
            "file_bytes": None if self._file is None else self._file.size,
            "num_nodes": self._num_nodes,
            "num_edges": self._num_edges,
            "layout": self.layout,
            "storage": self._storage,
            "adjacency_bytes": parts.adjacency_bytes,
            "id_dtype": parts.any_lists.ids.dtype.name,
            "compressed": self.compressed,
            "edge_order": parts.edge_order is not None,
            "edge_weight": dtype(parts.edge_weight),
            "edge_time": dtype(parts.edge_time),
            "node_time": dtype(parts.node_time),
            "time_unit": parts.time_unit,
            "node_attrs": attributes(parts.node_attrs),
            "edge_attrs": attributes(parts.edge_attrs),
        }

    def __repr__(self) -> str:
        if self._parts is None:
            return f"Graph(closed, path={self._path!r})"
        place = f", path={self._path!r}" if self._path is not None else ""
        tables = {"node_attrs": self._parts.node_attrs, "edge_attrs": self._parts.edge_attrs}
        attrs = "".join(f", {name}={list(table)}" for name, table in tables.items() if table)
        return (
            f"Graph(num_nodes={self._num_nodes}, num_edges={self._num_edges}, "
            f"layout={self.layout!r}, storage={self._storage!r}{attrs}{place})"
        )

    # ---- values by node ------------------------------------------------------------------

    # ---- pickling ------------------------------------------------------------------------

    def __reduce__(self) -> tuple[Any, ...]:
        parts = self._live()
        attrs = (dict(parts.node_attrs), dict(parts.edge_attrs))
        if self._path is not None:
            budget = None if self._paging is None else self._paging.budget
            return _reopen, (self._path, self._storage, budget, self._fingerprint, *attrs)
        arrays = (parts.pack_nodes(), parts.pack_edges())
        metadata = (self._time_zone, self._time_attr, self._names, dict(self._side_files))
        return _rebuild, (self._num_nodes, self._num_edges, *arrays, *attrs, *metadata)


def _reopen(
    path: str,
    storage: Storage,
    budget: Budget | None,
    fingerprint: str,
    node_attrs: dict[str, RowSource],
    edge_attrs: dict[str, RowSource],
) -> Graph:
    reader = GraphReader(path)
    check_fingerprint(path, fingerprint, reader.fingerprint)
    parts = reader.make_one()
    reader.read([parts], [parts], storage, budget, None)
    parts.set_node_attrs(node_attrs)
    parts.set_edge_attrs(edge_attrs)
    return Graph._make(parts, reader)


def _rebuild(
    num_nodes: int,
    num_edges: int,
    nodes: tuple[Any, ...],
    edges: tuple[Any, ...],
    node_attrs: dict[str, RowSource],
    edge_attrs: dict[str, RowSource],
    time_zone: str | None = None,
    time_attr: str | None = None,
    names: tuple[str, str] = ONE_TYPE,
    side_files: Mapping[str, str] | None = None,
) -> Graph:
    parts = GraphParts(num_nodes, num_edges)
    parts.unpack_nodes(nodes)
    parts.unpack_edges(edges)
    parts.set_node_attrs(node_attrs)
    parts.set_edge_attrs(edge_attrs)
    graph = Graph._make(parts)
    graph._time_zone, graph._time_attr = time_zone, time_attr
    graph._names, graph._side_files = names, side_files or {}
    return graph
