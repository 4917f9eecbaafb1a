"""Adjacency lists as a native topology."""

from __future__ import annotations

import ctypes
import operator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.arrays import empty
from aethergraph._checks.options import shown
from aethergraph._native.blocks import CompressedIds
from aethergraph._native.core import Ids, ffi, lib, new_error, raise_error, sized
from aethergraph._native.files import FileGuard
from aethergraph._native.guards import begin_read, end_read, raise_named
from aethergraph._native.io import FileReader
from aethergraph._native.memory import address_of
from aethergraph._native.tasks import Task, lend
from aethergraph.errors import InvalidArgumentError

#: (indptr, indices, edge ids); edge ids are None if positions are edge ids.
Arrays = tuple[NDArray[np.uint64], NDArray[Any] | CompressedIds, NDArray[Any] | None]


class Place(NamedTuple):
    """Place of lists in a file: its reader, and the byte offsets of the arrays."""

    reader: FileReader
    indptr: int
    #: Offset of the indices, or of the blocks of compressed ones.
    indices: int
    #: Offset of the index of the blocks.
    block_index: int | None = None


def _describe_blocks(ids: CompressedIds) -> Any:
    blocks = ffi.new("aether_blocks *")
    blocks.blocks = ffi.cast("const void *", address_of(ids.blocks))
    blocks.blocks_size = ids.blocks.nbytes
    blocks.index = ffi.cast("const void *", address_of(ids.index))
    blocks.index_size = ids.index.nbytes
    return blocks


def struct_address(pointer: Any, struct: str) -> int:
    """Return the address of a ``struct``, from a ctypes or cffi pointer or an integer."""
    try:
        if isinstance(pointer, ctypes.c_void_p):
            address = pointer.value or 0
        elif isinstance(pointer, ffi.CData):
            address = int(ffi.cast("uintptr_t", pointer))
        elif isinstance(pointer, ctypes._Pointer):
            address = ctypes.cast(pointer, ctypes.c_void_p).value or 0
        else:
            address = operator.index(pointer)
    except (TypeError, ctypes.ArgumentError):
        raise InvalidArgumentError(
            f"pointer must be the address of an {struct}, got {type(pointer).__name__}: "
            "give an integer, a ctypes.c_void_p or a cffi pointer"
        ) from None
    if address <= 0 or isinstance(pointer, bool):
        raise InvalidArgumentError(
            f"pointer = {shown(pointer)} is no address: the library made no {struct}; with ctypes "
            "set restype = ctypes.c_void_p, which keeps all 64 bits"
        )
    if address % _ALIGNMENT:
        raise InvalidArgumentError(
            f"pointer = {address:#x} is no address of an {struct}, which is a multiple of "
            f"{_ALIGNMENT}: with ctypes set restype = ctypes.c_void_p, which keeps all 64 bits"
        )
    return address


_UINT32, _UINT64 = np.dtype(np.uint32), np.dtype(np.uint64)

#: Alignment of a struct that holds pointers.
_ALIGNMENT = 8

#: Pairs sorted at once when edges are looked up, which takes about 50 ms.
_FIND_PAIRS = 1 << 19


class NativeTopology:
    """Adjacency lists; keeps the arrays that it borrows alive. Immutable, shared by threads.

    Lists of arrays have ``indptr``, ``indices`` and ``edge_ids``; those of a topology that was
    adopted have None there, and are read through the other members.
    """

    __slots__ = (
        "_owner",
        "_reader",
        "edge_ids",
        "edge_ids_are_positions",
        "end_edge_ids",
        "end_positions",
        "guard",
        "handle",
        "id_dtype",
        "indices",
        "indptr",
        "num_edges",
        "num_major",
        "num_minor",
        "own_values",
        "path",
    )

    handle: Any
    indptr: NDArray[np.uint64] | None
    indices: NDArray[Any] | CompressedIds | None
    edge_ids: NDArray[Any] | None
    _reader: FileReader | None

    def __init__(
        self,
        indptr: NDArray[np.uint64],
        indices: NDArray[Any] | CompressedIds,
        edge_ids: NDArray[Any] | None,
        num_minor: int,
        guard: FileGuard | None = None,
        path: str | None = None,
    ) -> None:
        self._set(indptr, indices, edge_ids, num_minor, guard, path)
        out = ffi.new("aether_topology **")
        err = new_error()
        begin_read(guard)
        if isinstance(indices, CompressedIds):
            blocks = _describe_blocks(indices)
            code = lib.aether_topology_create_compressed(self._describe(), blocks, out, err)
        else:
            code = lib.aether_topology_create(self._describe(), out, err)
        if code:
            raise_error(code, err)
        self.handle = ffi.gc(out[0], lib.aether_topology_destroy)

    @classmethod
    def adopt(cls, pointer: Any, owner: object) -> NativeTopology:
        """Take an ``aether_topology *`` that another library made, and goes on owning.

        Args:
            pointer: its address, as an integer, or as ctypes or cffi give it.
            owner: object that keeps the topology alive; held as long as this one.

        Raises:
            InvalidArgumentError: no address, or a topology that lacks an operation or whose facts
                contradict each other; says which.
        """
        return cls.of_handle(
            ffi.cast("aether_topology *", struct_address(pointer, "aether_topology")), owner
        )

    @classmethod
    def of_handle(cls, handle: Any, owner: object) -> NativeTopology:
        """Take an ``aether_topology *`` of cffi, as :meth:`adopt` does."""
        self = cls.__new__(cls)
        self.handle = handle
        self.read_facts()
        self._owner = owner
        self._reader = None
        self.indptr = self.indices = self.edge_ids = None
        self.guard = None
        self.path = None
        return self

    @property
    def is_adopted(self) -> bool:
        """True if another library made the topology."""
        return self.indptr is None

    @property
    def is_live(self) -> bool:
        """True if the lists change while they are read; samplers pin them first."""
        return False

    @property
    def is_dense(self) -> bool:
        """True if positions are ``0 .. num_edges - 1``, list after list."""
        return bool(self.end_positions == self.num_edges)

    @property
    def has_own_weights(self) -> bool:
        """True if the topology keeps weights beside its edges."""
        return bool(self.own_values & lib.AETHER_OWN_WEIGHTS)

    @property
    def has_own_times(self) -> bool:
        """True if the topology keeps times beside its edges."""
        return bool(self.own_values & lib.AETHER_OWN_TIMES)

    @classmethod
    def paged(
        cls, arrays: Arrays, num_minor: int, guard: FileGuard | None, place: Place,
        task: Task | None = None,
    ) -> NativeTopology:  # fmt: skip
        """Open lists whose offsets are read now and whose ids stay in the file of ``place``.

        ``arrays`` (indptr, indices, edge ids) are mapped from the same file. Only the edge ids are
        read through the mapping, the others through ``place``.
        """
        self = cls.__new__(cls)
        self._set(*arrays, num_minor, guard, place.reader.path)
        self._reader = place.reader
        out = ffi.new("aether_topology **")
        err = new_error()
        begin_read(guard)
        blocks = (
            _describe_blocks(self.indices) if isinstance(self.indices, CompressedIds) else ffi.NULL
        )
        code = lib.aether_topology_create_paged(
            self._describe(),
            sized(
                "aether_lists_in_file", place.reader.handle, place.indptr, place.indices, blocks,
                place.block_index or 0,
            ),
            lend(task, 8 * (self.num_major + 1)), out, err,
        )  # fmt: skip
        if code:
            raise_named(code, err, (place.reader.path,))
        self.handle = ffi.gc(out[0], lib.aether_topology_destroy)
        return self

    def _set(
        self,
        indptr: NDArray[np.uint64],
        indices: NDArray[Any] | CompressedIds,
        edge_ids: NDArray[Any] | None,
        num_minor: int,
        guard: FileGuard | None,
        path: str | None,
    ) -> None:
        self.handle = None
        self._owner: object = None
        self._reader = None
        self.indptr = indptr
        self.indices = indices
        self.edge_ids = edge_ids
        self.guard = guard
        #: Path of the file that the lists came from, mapped or not, for errors.
        self.path = guard.path if path is None and guard is not None else path
        self.num_major = len(indptr) - 1
        self.num_minor = num_minor
        self.num_edges = len(indices)
        self.end_positions = self.end_edge_ids = self.num_edges
        self.edge_ids_are_positions = edge_ids is None
        #: ``AETHER_OWN_*``: values that the topology keeps beside its edges.
        self.own_values = 0
        self.id_dtype: np.dtype[Any] = indices.dtype

    def read_facts(self) -> None:
        """Ask the topology that was adopted for its facts."""
        facts = ffi.new("aether_topology_facts *")
        err = new_error()
        code = lib.aether_topology_describe(self.handle, facts, err)
        if code:
            raise_error(code, err)
        self.num_major, self.num_minor = facts.num_major, facts.num_minor
        self.num_edges = facts.num_edges
        self.end_positions, self.end_edge_ids = facts.end_positions, facts.end_edge_ids
        self.edge_ids_are_positions = bool(facts.edge_ids_are_positions)
        self.own_values = facts.own_values
        self.id_dtype = _UINT32 if facts.id_bytes == 4 else _UINT64

    def _describe(self) -> Any:
        assert self.indptr is not None and self.indices is not None
        lists = ffi.new("aether_lists *")
        lists.num_major = self.num_major
        lists.num_minor = self.num_minor
        lists.num_edges = self.num_edges
        lists.indptr = ffi.cast("const uint64_t *", address_of(self.indptr))
        if not isinstance(self.indices, CompressedIds):
            lists.indices = ffi.cast("const void *", address_of(self.indices))
        lists.id_bytes = self.id_dtype.itemsize
        lists.edge_id_bytes = 8
        if self.edge_ids is not None:
            lists.edge_ids = ffi.cast("const void *", address_of(self.edge_ids))
            lists.edge_id_bytes = self.edge_ids.dtype.itemsize
        return lists

    def keep_pages(self, size: int) -> None:
        """Keep the pages that samples use most, within ``size`` bytes. Call before first use."""
        err = new_error()
        code = lib.aether_topology_keep_pages(self.handle, size, err)
        if code:
            raise_error(code, err)

    @property
    def kept(self) -> int:
        """Bytes of the pages kept so far."""
        return int(lib.aether_topology_kept(self.handle))

    @property
    def memory(self) -> int:
        """Bytes that the native topology holds, beside its arrays."""
        return int(lib.aether_topology_memory(self.handle))

    def listed(self) -> Ids | None:
        """Return the nodes whose lists may hold something, ascending; None: those of any may."""
        return None

    def degrees(self, nodes: Ids | None) -> Ids:
        """Return the length of the list of each node (None: of all nodes), int64."""
        count = self.num_major if nodes is None else len(nodes)
        out = empty(count, np.int64, f"{count} degrees")
        lent = ffi.NULL if nodes is None else ffi.from_buffer("int64_t[]", nodes)
        err = new_error()
        begin_read(self.guard)
        code = lib.aether_topology_degrees(
            self.handle, lent, count, ffi.from_buffer("int64_t[]", out), lend(None, 0), err
        )
        end_read(code, err, self.guard, self.path)
        return out

    def neighbors(self, nodes: Ids, *, with_edges: bool = False) -> tuple[Ids, Ids | None]:
        """Return the lists of ``nodes``, one after the other, and their edge ids or None."""
        capacity = int(self.degrees(nodes).sum())
        neighbors = empty(capacity, np.int64, f"{capacity} neighbours")
        edges = empty(capacity, np.int64, f"{capacity} edges") if with_edges else None
        err = new_error()
        begin_read(self.guard)
        lent = ffi.from_buffer("int64_t[]", nodes)
        room = ffi.from_buffer("int64_t[]", neighbors)
        room_of_edges = ffi.NULL if edges is None else ffi.from_buffer("int64_t[]", edges)
        request = sized("aether_list_request", lent, len(nodes), capacity, room, room_of_edges)
        code = lib.aether_topology_neighbors(self.handle, request, lend(None, 0), err)
        end_read(code, err, self.guard, self.path)
        return neighbors, edges

    def kept_values(self, which: Literal["weights", "times"], nodes: Ids) -> NDArray[Any]:
        """Return the values that the topology keeps beside the lists of ``nodes``, in their order.

        Weights are float64, times int64.
        """
        capacity = int(self.degrees(nodes).sum())
        weights = which == "weights"
        out = empty(capacity, np.float64 if weights else np.int64, f"{capacity} {which}")
        err = new_error()
        begin_read(self.guard)
        lent = ffi.from_buffer("int64_t[]", nodes)
        request = sized("aether_list_request", lent, len(nodes), capacity)
        room = ffi.from_buffer("double[]" if weights else "int64_t[]", out)
        setattr(request, which, room)
        code = lib.aether_topology_neighbors(self.handle, request, lend(None, out.nbytes), err)
        end_read(code, err, self.guard, self.path)
        return out

    def ids(
        self, begin: int, count: int, dtype: np.dtype[Any], task: Task | None = None
    ) -> NDArray[Any]:
        """Return ``count`` ids from position ``begin`` on, in ``dtype`` of 4 or 8 bytes."""
        out = empty(count, dtype, f"{count} ids")
        err = new_error()
        begin_read(self.guard)
        code = lib.aether_topology_ids_from(
            self.handle, begin, count, ffi.from_buffer(out), dtype.itemsize,
            lend(task, out.nbytes), err,
        )  # fmt: skip
        end_read(code, err, self.guard, self.path)
        return out

    def ids_at(self, positions: Ids) -> Ids:
        """Return the id at each position, int64."""
        out = empty(len(positions), np.int64, f"{len(positions)} ids")
        err = new_error()
        begin_read(self.guard)
        code = lib.aether_topology_ids(
            self.handle, ffi.from_buffer("int64_t[]", positions), len(positions),
            ffi.from_buffer(out), out.itemsize, lend(None, out.nbytes), err,
        )  # fmt: skip
        end_read(code, err, self.guard, self.path)
        return out

    def edge_ids_at(self, positions: Ids) -> Ids:
        """Return the edge id at each position, int64."""
        if self.edge_ids_are_positions:
            return positions
        out = empty(len(positions), np.int64, f"{len(positions)} edges")
        err = new_error()
        begin_read(self.guard)
        code = lib.aether_topology_edge_ids(
            self.handle,
            ffi.from_buffer("int64_t[]", np.ascontiguousarray(positions)),
            len(positions),
            ffi.from_buffer("int64_t[]", out),
            err,
        )
        end_read(code, err, self.guard, self.path)
        return out

    def answer(self, question: int, numbers: Ids) -> NDArray[Any]:
        """Return what a question of :class:`AskedLists` gets from these lists.

        Args:
            question: ``AskedLists.LISTS``, of nodes, or another one of its questions, at positions.
            numbers: nodes or positions, from anywhere.

        Returns:
            Of nodes uint64 [n, 2], first position and degree; ids and edges as int64 [n], weights
            as float64, times as int64.

        Raises:
            OutOfRangeError: a node, or a position, does not exist; names it.
        """
        dtype: np.dtype[Any] = np.dtype(np.uint64 if question == lib.AETHER_ASK_LISTS else np.int64)
        if question == lib.AETHER_ASK_WEIGHTS:
            dtype = np.dtype(np.float64)
        shape = (len(numbers), 2) if question == lib.AETHER_ASK_LISTS else (len(numbers),)
        out = np.empty(shape, dtype)
        err = new_error()
        begin_read(self.guard)
        code = lib.aether_topology_answer(
            self.handle,
            question,
            ffi.cast("const uint64_t *", ffi.from_buffer("int64_t[]", numbers)),
            len(numbers),
            ffi.cast("uint64_t *", ffi.from_buffer(out)),
            err,
        )
        end_read(code, err, self.guard, self.path)
        return out

    def find(self, major: Ids, minor: Ids, task: Task | None = None) -> tuple[Ids, Ids]:
        """Return (i, position) of every edge between ``major[i]`` and ``minor[i]``, by ascending i.

        All ids must exist. Many pairs are looked up one part after the other, as sorting them
        cannot be cancelled.
        """
        if len(major) <= _FIND_PAIRS:
            return self._find_some(major, minor, task)
        parts = list[tuple[Ids, Ids]]()
        for begin in range(0, len(major), _FIND_PAIRS):
            some = slice(begin, begin + _FIND_PAIRS)
            if task is not None:
                task.check()
            pairs, places = self._find_some(major[some], minor[some], task)
            parts.append((pairs + begin, places))
        return np.concatenate([p for p, _ in parts]), np.concatenate([p for _, p in parts])

    def _find_some(self, major: Ids, minor: Ids, task: Task | None) -> tuple[Ids, Ids]:
        order = np.lexsort((minor, major))
        major, minor = major[order], minor[order]
        lent = [ffi.from_buffer("int64_t[]", array) for array in (major, minor)]
        capacity = 2 * len(major)
        hits = ffi.new("uint64_t *")
        while True:
            pairs = empty(capacity, np.int64, f"{capacity} edges")
            places = empty(capacity, np.int64, f"{capacity} edges")
            room = [ffi.from_buffer("uint64_t[]", array) for array in (pairs, places)]
            search = sized("aether_edge_search", *lent, len(major), *room, capacity)
            err = new_error()
            begin_read(self.guard)
            code = lib.aether_find_edges(self.handle, search, hits, lend(task, 8 * len(major)), err)
            end_read(code, err, self.guard, self.path)
            if hits[0] <= capacity:
                break
            capacity = int(hits[0])
        pair = order[pairs[: hits[0]]]
        by_pair = np.argsort(pair, kind="stable")
        return pair[by_pair], places[by_pair]

    def fanout(
        self,
        nodes: Ids,
        k: int,
        key: int,
        *,
        replace: bool,
        num_threads: int,
        task: Task | None = None,
    ) -> Ids:
        """Return ``k`` neighbours of each node, int64 [n, k], rows filled up with -1."""
        nodes = nodes.copy()  # they are read again once checked: no other thread may write there
        out = empty((len(nodes), k), np.int64, f"{len(nodes)} x {k} neighbours")
        err = new_error()
        begin_read(self.guard)
        flags = lib.AETHER_SAMPLE_REPLACE if replace else 0
        code = lib.aether_fanout(
            self.handle,
            ffi.from_buffer("int64_t[]", nodes),
            len(nodes),
            sized("aether_fanout_options", key, k, flags, num_threads),
            ffi.from_buffer("int64_t[]", out),
            lend(task, out.nbytes),
            err,
        )
        end_read(code, err, self.guard, self.path)
        return out
