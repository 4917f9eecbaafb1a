"""The extension points: members that a store or a sampler must have to be used by the loaders.

``Graph``, ``FeatureTable`` and ``NeighborSampler`` are the built-in ones; the contracts in
:mod:`aethergraph.testing` check others. Neither rows nor graphs need a base class or registration::

    yours                adapter                           what the package asks for
    FeatureSource  ───── graph.node_attrs["x"] = rows ───> RowSource
    GraphSource    ──┬── as_graph(source) ───────────────> HomogeneousGraph: nodes and edges
    TopologySource ──┘
    TypedGraphSource ─── as_graph(source) ───────────────> HeterogeneousGraph: graph[node type] are
                                                           nodes, graph[edge type] are edges

They then go through every loader and framework adapter. The abstract types on the right are for
classes that can do more, and for ours.

This module stays interpreted and imports nothing of the package before rows are gathered, so that
other packages can depend on it cheaply.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
    overload,
    runtime_checkable,
)

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from aethergraph._native import NativeSnapshot, NativeSums, NativeTopology
    from aethergraph.storage.paging import Paging

__all__ = [
    "Adjacency",
    "FeatureSource",
    "GraphSource",
    "HeterogeneousGraph",
    "RowSource",
    "SampledSubgraph",
    "Sampler",
    "TopologySource",
    "TypedGraphSource",
]

G = TypeVar("G")

#: ``(source type, relation, destination type)``, as in PyG and DGL.
EdgeType: TypeAlias = tuple[str, str, str]

Layout = Literal["csc", "csr", "both"]
"""Lists that a graph stores: of in-edges (CSC), of out-edges (CSR), or both."""


@runtime_checkable
class FeatureSource(Protocol):
    """Rows by id: features of nodes or edges, labels, masks."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of all rows: ``(num_rows, ...)``."""

    @property
    def dtype_name(self) -> str:
        """Name of the numpy dtype, or ``"bfloat16"`` (whose arrays are uint16 bit patterns)."""

    def gather(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        """Return the rows of ``ids`` in order, duplicates kept: ``(len(ids), *shape[1:])``.

        Loaders call it from threads of their own, several at a time, and in worker processes. The
        result is copied into the batch; a :class:`RowSource` writes there itself.

        Args:
            ids: C-contiguous int64 vector of ids in ``0 .. shape[0] - 1``, the source's own.
        """


class GatherPlan(Protocol):
    """Gathers that a source was told ahead, served in their order."""

    def gather(self, ids: ArrayLike, out: NDArray[Any]) -> NDArray[Any]:
        """Gather the next list, which is ``ids``, into ``out``."""

    def gather_if_next(self, ids: NDArray[np.int64], out: NDArray[Any]) -> bool:
        """Gather the next list into ``out`` if it equals ``ids``; return whether it did."""

    def close(self) -> None:
        """Release what the plan holds."""


class SharedFile(NamedTuple):
    """Rows in a file, or in memory that has a descriptor; a context manager that closes it.

    Attributes:
        descriptor: the descriptor.
        offset: byte of the first row; the others follow it in order, without gaps.
        missing: None, or of a table of live rows what rows are that nobody has written; its slots
            are then behind the head that tells their layout.
        is_writable: True if the descriptor is open for writing, too.
    """

    descriptor: int
    offset: int = 0
    missing: str | None = None
    is_writable: bool = False

    def __enter__(self) -> SharedFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)


class RowSource(ABC):
    """Rows by id with everything that loaders and adapters may use; base class of our stores.

    It is a :class:`FeatureSource`. A subclass defines :attr:`shape`, :attr:`dtype_name` and
    :meth:`gather_into`. Every other member has a default that holds for any rows; override those
    that your source does better::

        class RemoteRows(RowSource):
            def gather_into(self, ids, out):    # the memory of the batch: nothing is copied
                self.client.receive_rows(ids, out)

            def read(self, start, stop):        # one request for a range, not one for each row
                return self.client.read_range(start, stop)

    Consumers ask for this type and its members only, never for a class or a kind of storage. They
    wrap sources that have no more than the three members of :class:`FeatureSource` in one of these.
    """

    # ---- members that every source has -----------------------------------------------------

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of all rows: ``(num_rows, ...)``."""

    @property
    @abstractmethod
    def dtype_name(self) -> str:
        """Name of the numpy dtype, or ``"bfloat16"`` (whose arrays are uint16 bit patterns)."""

    @abstractmethod
    def gather_into(self, ids: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Set ``out[i]`` to row ``ids[i]``.

        :meth:`gather` and the loaders call it, from threads of their own, several at a time, and in
        worker processes. What they hand over fits.

        Args:
            ids: C-contiguous int64 vector of ids that exist, not to be written to.
            out: C-contiguous array ``(len(ids), *row_shape)`` of :attr:`array_dtype`.
        """

    # ---- members that follow from these ----------------------------------------------------

    def gather(
        self, ids: ArrayLike, out: NDArray[Any] | None = None, dtype: Any = None
    ) -> NDArray[Any]:
        """Return the rows of ``ids``, in that order, duplicates kept.

        Args:
            ids: integer vector [n] of row numbers.
            out: destination of the rows: C-contiguous, writable, shape ``(n, *row_shape)``.
            dtype: widen on the way: float16, bfloat16 -> float32, float64; float32 -> float64;
                uint8, int8, int16, int32 -> wider integers, float32, float64 (float32 rounds int32
                beyond 2^24). Default: the dtype of ``out``, else the stored one (bfloat16 as
                uint16).

        Returns:
            ``out``, or a new array ``(n, *row_shape)``.

        Raises:
            OutOfRangeError: a row does not exist; names the first one and its position.
            InvalidArgumentError: ``ids`` are no vector of integers, or ``out`` does not fit.
            UnsupportedError: the stored dtype is not widened to ``dtype``.
            FileChangedError: the file was made shorter, or written to.
            StorageError: a read failed.
        """
        from aethergraph.features.gathering import gather_rows

        return gather_rows(self, ids, out, dtype)

    @property
    def num_rows(self) -> int:
        """Number of rows; ids are ``0 .. num_rows - 1``."""
        return self.shape[0]

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one row; ``()`` for a vector."""
        return self.shape[1:]

    @property
    def ndim(self) -> int:
        """Number of dimensions, including that of the rows."""
        return len(self.shape)

    @property
    def array_dtype(self) -> np.dtype[Any]:
        """Numpy dtype of gathered rows: uint16 for bfloat16."""
        return np.dtype("uint16" if self.dtype_name == "bfloat16" else self.dtype_name)

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return math.prod(self.shape) * self.array_dtype.itemsize

    # ---- capabilities: override what your source does better -------------------------------

    #: True if :meth:`gather_into` itself raises OutOfRangeError for ids that do not exist, with
    #: ``position`` and ``value`` of the first one. Default: False, ids are checked before.
    checks_ids: bool = False

    def widen_into(self, ids: NDArray[np.int64], out: NDArray[Any], dtype: str) -> None:
        """Set ``out[i]`` to row ``ids[i]``, converted to a wider dtype.

        Default: rows are gathered as they are stored, and converted afterwards.

        Args:
            ids: as in :meth:`gather_into`.
            out: as in :meth:`gather_into`, of ``dtype``.
            dtype: name of the dtype, one of those that :meth:`gather` takes.
        """
        from aethergraph.features.gathering import widen_gathered

        widen_gathered(self, ids, out, dtype)

    def empty_rows(self, count: int, dtype: np.dtype[Any]) -> NDArray[Any] | None:
        """Return memory for rows that suits reads of this source. Default: None, any does."""
        return None

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return the rows ``start .. stop - 1``; a view will do. Default: a gather."""
        return self.gather(np.arange(start, stop))

    @property
    def array(self) -> NDArray[Any]:
        """All rows; weights and times are drawn by from here. Default: all are read, at each use.

        A source whose rows are too many for that raises ``NotImplementedError``.
        """
        return self.read(0, self.num_rows)

    @property
    def writable_array(self) -> NDArray[Any] | None:
        """Array whose elements are the rows, if writing to it changes them. Default: None."""
        return None

    @property
    def is_in_memory(self) -> bool:
        """True if a gather waits for nothing but memory, so that no thread reads ahead for it.

        Default: False.
        """
        return False

    @property
    def can_plan(self) -> bool:
        """True if gathers get cheaper when :meth:`plan` announces them. Default: False."""
        return False

    def plan(self, lists: Iterable[ArrayLike]) -> GatherPlan:
        """Announce the row numbers of coming gathers; called only if :attr:`can_plan`."""
        raise NotImplementedError(f"{type(self).__name__} plans no gathers (can_plan is False)")

    @property
    def is_live(self) -> bool:
        """True if rows change by themselves, so that nobody keeps copies of them.

        Default: False.
        """
        return False

    @property
    def version_unit(self) -> str | None:
        """Unit of :meth:`versions`, where these are times since 1970: ``"ns"``... Default: None."""
        return None

    def versions(self, ids: ArrayLike) -> NDArray[np.int64] | None:
        """Return the version of each row as it is now [n], in :attr:`version_unit`; -1: unwritten.

        Where they are times, :func:`aethergraph.testing.check_no_leak` compares them with those of
        seeds. Default: None, not known.
        """
        return None

    def put_many(self, ids: ArrayLike, rows: ArrayLike, version: Any = None) -> int:
        """Write rows in their order, at once; return their number. Called only if :attr:`is_live`.

        A row is left out if the one that is there has a higher version; None: the present one.
        """
        raise NotImplementedError(f"{type(self).__name__} takes no rows")

    def paged_column(self) -> Any:
        """Return the column of a graph's own file that samplers read together with the lists.

        Default: None, rows that are gathered by themselves.
        """
        return None

    @property
    def guard(self) -> Any:
        """Guard of the file that :attr:`array` is mapped from. Default: None, plain memory."""
        return None

    def shared_file(self, writable: bool = False) -> SharedFile | None:
        """Return where another process of this machine can map the rows. Default: None, nowhere.

        The descriptor is the caller's to close. It is open for reading only, or with ``writable``
        for writing, too, if rows can be put: network cards ask for that even to read.
        """
        return None

    # ---- identity, for people and for checks -----------------------------------------------

    @property
    def storage(self) -> str:
        """Word for the place of the rows, to show to people. Default: the name of the class."""
        return type(self).__name__

    @property
    def path(self) -> str | None:
        """Path of the file of the rows. Default: None."""
        return None

    @property
    def fingerprint(self) -> str | None:
        """Identity of the content, for files derived from the rows. Default: None, unknown."""
        return None

    @property
    def identity(self) -> str | None:
        """Identity of the rows, whatever their values. Default: :attr:`fingerprint`."""
        return self.fingerprint

    @property
    def content(self) -> str | None:
        """Identity of the content on every machine: copies of a file have one. Default: None."""
        return None

    def is_same_rows(self, other: RowSource) -> bool:
        """Return whether both read the same rows of one file. Default: whether both are one."""
        return self is other


@runtime_checkable
class GraphSource(Protocol):
    """Graph as arrays: for each node the list of the nodes that its in-edges come from.

    :func:`aethergraph.as_graph` makes of it a graph that every sampler, loader and adapter takes.
    The list of node ``v`` is ``indices[indptr[v]:indptr[v + 1]]``. These members may be there too:

    * ``edge_ids``: id of the edge at each place of ``indices``, each of ``0 .. num_edges - 1``
      once; without it edges are numbered by their place;
    * ``edge_weight`` and ``edge_time``, vectors by edge id, and ``node_time``, by node;
    * ``time_unit``, such as ``"us"``: unit of times that are plain numbers;
    * ``node_attrs`` and ``edge_attrs``, dicts of arrays or :class:`FeatureSource` by name.
    """

    @property
    def num_nodes(self) -> int:
        """Number of nodes; ids are ``0 .. num_nodes - 1``."""

    @property
    def num_edges(self) -> int:
        """Number of edges; ids are ``0 .. num_edges - 1``."""

    @property
    def indptr(self) -> Any:
        """Offsets of the lists, integers [num_nodes + 1]: from 0 to ``num_edges``, ascending."""

    @property
    def indices(self) -> Any:
        """Nodes of all lists, integers [num_edges]."""


@runtime_checkable
class TypedGraphSource(Protocol):
    """Graph of several types: lists of each edge type, in arrays or in a topology in C.

    :func:`aethergraph.as_graph` makes of it a typed graph that every sampler, loader and adapter
    takes. The list of node ``v`` of the destination type is ``indices[indptr[v]:indptr[v + 1]]``,
    nodes of the source type. ``edge_ids``, ``edge_weight``, ``edge_time`` and ``edge_attrs`` may be
    there too, of each edge type, and here:

    * ``node_time``: vectors by node type;
    * ``node_attrs``: dicts of arrays or :class:`FeatureSource` by node type and name;
    * ``time_unit``, such as ``"us"``: unit of times that are plain numbers, or in a topology.
    """

    @property
    def num_nodes(self) -> Mapping[str, int]:
        """Number of nodes by type."""

    @property
    def edges(self) -> Mapping[tuple[str, str, str], Any]:
        """Lists by (source type, relation, destination type): objects with members.

        They have ``indptr`` and ``indices`` as a :class:`GraphSource`, or ``topology`` as a
        :class:`TopologySource`, of as many nodes as the two types have.
        """


@runtime_checkable
class TopologySource(Protocol):
    """Graph in a topology of one's own, in C.

    :func:`aethergraph.as_graph` makes a graph of it. Numbers of nodes and edges, and edge ids, come
    from the topology. So may weights and times: samplers draw by those that it keeps under the
    names ``"edge_weight"`` and ``"edge_time"``. Values and attributes may be further members, as in
    a :class:`GraphSource`.
    """

    @property
    def topology(self) -> Any:
        """Address of the ``aether_topology``, which lives as long as this object.

        An integer, a ``ctypes.c_void_p`` or a cffi pointer.
        """


@runtime_checkable
class MemorySource(Protocol):
    """Memory for the edges of live graphs, from functions in C.

    :class:`aethergraph.DynamicGraph` takes it as ``arena_memory``, in place of shared memory.
    """

    @property
    def live_memory(self) -> Any:
        """Address of an ``aether_live_memory`` (``aether/live.h``), which is copied.

        An integer, a ``ctypes.c_void_p`` or a cffi pointer. Its functions are called as long as the
        graph lives, which keeps this object.
        """


class _Lists:
    """Members that the edges of one type and graphs have in common."""

    @property
    def time_unit(self) -> str | None:
        """Unit of the times, such as ``"us"``. Default: None, plain numbers."""
        return None

    @property
    def paging(self) -> Paging | None:
        """Reader of lists that stay in a file. Default: None, there is nothing to read ahead."""
        return None

    #: True if edges come and go: what is asked twice may have two answers.
    is_live: bool = False

    @property
    def native_snapshot(self) -> NativeSnapshot | None:
        """Snapshot of a live graph that the lists are of. Default: None."""
        return None


class Adjacency(_Lists, ABC):
    """Edges of one type, as samplers and adapters ask for them; base class of ours.

    Samplers read the lists through a native topology, which :meth:`topology` hands out. The other
    members are for loaders, adapters and people. A position names an entry of a list; what number
    it is, is up to the topology (``native/README.md``).
    """

    # ---- lists -----------------------------------------------------------------------------

    @property
    @abstractmethod
    def num_src(self) -> int:
        """Number of nodes that edges may start at."""

    @property
    @abstractmethod
    def num_dst(self) -> int:
        """Number of nodes that edges may end at."""

    @property
    @abstractmethod
    def num_edges(self) -> int:
        """Number of edges."""

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """Lists that are there: ``"csc"`` (of in-edges), ``"csr"`` (of out-edges), ``"both"``."""

    @abstractmethod
    def topology(self, layout: Literal["csc", "csr"] = "csc") -> NativeTopology:
        """Return the lists as samplers read them; the handle keeps its memory alive."""

    @abstractmethod
    def edge_positions(
        self, edges: NDArray[np.int64], layout: Literal["csc", "csr"]
    ) -> NDArray[np.int64]:
        """Return the positions in the lists of edges (int64, ascending, distinct), ascending."""

    @abstractmethod
    def neighbor_ids(self, layout: Literal["csc", "csr"]) -> NDArray[Any]:
        """Return the nodes of all lists, list after list."""

    # ---- queries ---------------------------------------------------------------------------

    @abstractmethod
    def in_degrees(self, nodes: ArrayLike | None = None) -> NDArray[np.int64]:
        """Return the number of edges that end at each of ``nodes`` (None: at every node)."""

    @abstractmethod
    def out_degrees(self, nodes: ArrayLike | None = None) -> NDArray[np.int64]:
        """Return the number of edges that start at each of ``nodes`` (None: at every node)."""

    @abstractmethod
    def in_neighbors(self, node: int) -> NDArray[np.int64]:
        """Return the sources of the edges that end at ``node``."""

    @abstractmethod
    def in_edges(self, node: int) -> NDArray[np.int64]:
        """Return the ids of the edges that end at ``node``, parallel to :meth:`in_neighbors`."""

    @abstractmethod
    def has_edges(self, u: ArrayLike, v: ArrayLike) -> NDArray[np.bool_]:
        """Return whether there is an edge from ``u[i]`` to ``v[i]``."""

    @abstractmethod
    def edges_between(
        self, u: ArrayLike, v: ArrayLike
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return ``(i, edge id)`` of every edge from ``u[i]`` to ``v[i]``, by ascending i."""

    @abstractmethod
    def edge_index(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return ``(src, dst)`` of all edges, by edge id."""

    @abstractmethod
    def edge_ends(self, edges: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return ``(src, dst)`` of the edges with ids ``edges``."""

    @abstractmethod
    def csc(self) -> tuple[NDArray[np.uint64], NDArray[Any]]:
        """Return ``(indptr, indices)`` of the in-neighbours, if edge ids are places in them."""

    @abstractmethod
    def csr(self) -> tuple[NDArray[np.uint64], NDArray[Any], NDArray[Any] | None]:
        """Return ``(indptr, indices, edge_ids)`` of the out-neighbours; None: ids are places."""

    # ---- values of the edges ---------------------------------------------------------------

    @property
    def edge_attrs(self) -> Mapping[str, RowSource]:
        """Edge attributes by name, rows by edge id. Default: none."""
        return {}

    @property
    def edge_values(self) -> Mapping[str, RowSource]:
        """Rows of ``edge_weight`` and ``edge_time`` by edge id, if there are any. Default: none."""
        return {}

    @property
    def edge_weight(self) -> NDArray[Any] | None:
        """Weight by edge id. Default: None."""
        return None

    @property
    def edge_time(self) -> NDArray[Any] | None:
        """Time by edge id. Default: None."""
        return None

    @property
    def edge_order(self) -> NDArray[Any] | None:
        """Row of the input of each edge id. Default: None, it was not kept."""
        return None

    @property
    def renumbers_edges(self) -> bool:
        """True if edge ids are places in lists that an input was sorted into.

        Who names edges by id then has to say whether that is the place or the row of the input.
        Default: False, ids are those that the edges were given.
        """
        return False

    @property
    def sorted_by(self) -> set[tuple[str, str]]:
        """Lists that are known to be sorted by time, and by which; samplers add to it.

        ``("csc", "node_time")``: all lists of in-edges, by the times of the sources;
        ``("csr", "node_time")``: of out-edges, by those of the destinations. Or ``"edge_time"``.
        """
        return set()

    # ---- tables to draw by -----------------------------------------------------------------

    def weight_sums(self, layout: Literal["csc", "csr"] = "csc") -> NativeSums | None:
        """Return sums of :attr:`edge_weight` that were built once. Default: None, none are kept."""
        return None

    def prepare_weights(self, layout: Literal["csc", "csr"] = "csc") -> None:
        """Get ready for draws by weights that :meth:`topology` has itself. Default: nothing."""
        return

    def alias_table(self, layout: Literal["csc", "csr"] = "csr") -> NDArray[np.uint64]:
        """Return the alias table of walks by weight. Default: there is none."""
        raise NotImplementedError(f"{type(self).__name__} has no table for walks by weight")

    def member_table(self, layout: Literal["csc", "csr"] = "csr") -> NDArray[Any]:
        """Return the table in which walks look up edges. Default: there is none."""
        raise NotImplementedError(f"{type(self).__name__} has no table: take edge_table=False")


class NodeSet(ABC):
    """Nodes of one type, as samplers and adapters ask for them; base class of ours."""

    @property
    @abstractmethod
    def num_nodes(self) -> int:
        """Number of nodes; ids are ``0 .. num_nodes - 1``."""

    @property
    def node_attrs(self) -> Mapping[str, RowSource]:
        """Node attributes by name, rows by node. Default: none."""
        return {}

    @property
    def node_values(self) -> Mapping[str, RowSource]:
        """Rows of ``node_time`` by node, if there are times. Default: none."""
        return {}

    @property
    def node_time(self) -> NDArray[Any] | None:
        """Time by node. Default: None."""
        return None

    @property
    def time_unit(self) -> str | None:
        """Unit of the times, such as ``"us"``. Default: None, plain numbers."""
        return None


class _Graph(_Lists):
    """Members that graphs of one type and of many have in common."""

    @property
    def time_zone(self) -> str | None:
        """Time zone of the times, ``"UTC"``. Default: None, unknown."""
        return None

    @property
    def time_attr(self) -> str | None:
        """Name of the times that samples go by, ``"edge_time"``, where there are of nodes too.

        Default: None, the graph does not say.
        """
        return None

    @property
    def path(self) -> str | None:
        """Path of the file of the graph. Default: None."""
        return None

    def pinned(self: G) -> G:
        """Return the graph as it is at this moment, for good. Default: itself, as none changes."""
        return self

    def reading(self, snapshot: Any = None) -> AbstractContextManager[Any]:
        """Let this thread see one state of the graph in a ``with`` block: ``snapshot``, or now's.

        Default: nothing to do, as the graph does not change.
        """
        return nullcontext(self)


class HomogeneousGraph(_Graph, NodeSet, Adjacency):
    """Graph of one node type and one edge type, as samplers, loaders and adapters ask for it.

    It is its own nodes and its own edges. ``Graph`` is one. :func:`aethergraph.as_graph` makes one
    of the arrays of another library (:class:`GraphSource`), or of a topology of one's own in C.
    """

    #: True for graphs of several types, see :class:`HeterogeneousGraph`.
    is_typed: ClassVar[Literal[False]] = False

    @property
    def num_src(self) -> int:
        """Number of nodes."""
        return self.num_nodes

    @property
    def num_dst(self) -> int:
        """Number of nodes."""
        return self.num_nodes


class HeterogeneousGraph(_Graph, ABC):
    """Graph of several types of nodes and edges, as samplers, loaders and adapters ask for it.

    ``HeteroGraph`` is one, and so are live graphs of many types and their snapshots.
    :func:`aethergraph.as_graph` makes one of other libraries' arrays (:class:`TypedGraphSource`). A
    subclass defines :attr:`node_types`, :attr:`edge_types` and ``graph[type]``::

        class Parts(HeterogeneousGraph):         # two graphs of one type beside each other
            node_types = ["user", "item"]
            edge_types = [("user", "knows", "user"), ("item", "like", "item")]

            def __getitem__(self, name):         # graphs of one type: their own nodes and edges
                return {"user": users, self.edge_types[0]: users,
                        "item": items, self.edge_types[1]: items}[name]

    Edges of a part must not change (:attr:`is_live`) unless the graph says that it changes, and
    defines :meth:`pinned` and :meth:`reading`. Times of all parts are in one unit.
    """

    is_typed: ClassVar[Literal[True]] = True

    @property
    @abstractmethod
    def node_types(self) -> list[str]:
        """Names of the node types, in order."""

    @property
    @abstractmethod
    def edge_types(self) -> list[EdgeType]:
        """Edge types, ``(source type, relation, destination type)``, as sampling visits them."""

    @overload
    @abstractmethod
    def __getitem__(self, name: str) -> NodeSet: ...
    @overload
    @abstractmethod
    def __getitem__(self, name: EdgeType) -> Adjacency: ...
    @abstractmethod
    def __getitem__(self, name: Any) -> Any:
        """Return the nodes of a type (a string), or the edges of a type (three strings).

        Raises:
            KeyError: there is no such type.
        """

    @property
    def time_unit(self) -> str | None:
        """Unit of all times of nodes and edges; default: that of the first part with a unit."""
        units = [self[name].time_unit for name in self.node_types]
        units += [self[kind].time_unit for kind in self.edge_types]
        return next((unit for unit in units if unit is not None), None)

    @property
    def num_nodes(self) -> dict[str, int]:
        """Number of nodes by type."""
        return {name: self[name].num_nodes for name in self.node_types}

    @property
    def num_edges(self) -> dict[EdgeType, int]:
        """Number of edges by type."""
        return {kind: self[kind].num_edges for kind in self.edge_types}

    def __contains__(self, name: object) -> bool:
        return name in self.node_types or name in self.edge_types

    def metadata(self) -> tuple[list[str], list[EdgeType]]:
        """Return ``(node_types, edge_types)``, the form of PyG's ``HeteroData.metadata()``."""
        return self.node_types, self.edge_types

    @property
    def renumbers_edges(self) -> bool:
        """True if edge ids are places in lists that an input was sorted into; default: False."""
        return False


#: Graph of one type or of many; ``graph.is_typed`` tells which.
AnyGraph: TypeAlias = HomogeneousGraph | HeterogeneousGraph


@runtime_checkable
class SampledSubgraph(Protocol):
    """Result of a sampler: int64 arrays in PyG's conventions (see ``sampling/subgraph.py``)."""

    @property
    def node(self) -> NDArray[np.int64]:
        """Global id of each node, the seeds first."""

    @property
    def row(self) -> NDArray[np.int64]:
        """Local source of each edge."""

    @property
    def col(self) -> NDArray[np.int64]:
        """Local destination of each edge."""

    @property
    def edge(self) -> NDArray[np.int64]:
        """Global id of each edge."""


@runtime_checkable
class Sampler(Protocol):
    """A pure function of (key, seeds): the same key and seeds give the same subgraph."""

    def sample(self, seeds: ArrayLike, key: int | None = None) -> SampledSubgraph:
        """Draw the subgraph around ``seeds``."""
