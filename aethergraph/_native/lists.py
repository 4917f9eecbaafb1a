"""Building and checking adjacency lists, and gathering rows of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.arrays import empty
from aethergraph._native.core import Ids, dtype_code, ffi, lib, new_error, raise_error, sized
from aethergraph._native.files import FileGuard
from aethergraph._native.guards import begin_read, end_read
from aethergraph._native.memory import address_of
from aethergraph._native.tasks import Task, lend
from aethergraph.errors import InvalidArgumentError

# ---- building --------------------------------------------------------------------------------


def id_bytes_for(count: int) -> int:
    """Return the bytes of an id below ``count``: 4 if ``count`` is at most 2^32 - 1, else 8."""
    return 4 if count <= 0xFFFFFFFF else 8


def id_dtype(id_bytes: int) -> np.dtype[Any]:
    """Return the unsigned dtype of 4 or 8 bytes."""
    return np.dtype(np.uint32 if id_bytes == 4 else np.uint64)


def build_lists(
    major: Ids, minor: Ids, num_major: int, num_minor: int, *,
    id_bytes: int, with_order: bool, task: Task | None = None,
) -> tuple[NDArray[np.uint64], NDArray[Any], NDArray[Any] | None]:  # fmt: skip
    """Group an edge list by ``major``, keeping the input order within a list.

    Returns:
        ``indptr`` uint64 [num_major + 1], ``indices`` [E] of ``id_bytes``, and ``order`` [E] (the
        input row at each position, uint32 or uint64) or None.

    Raises:
        OutOfRangeError: an id is outside its range; ``position`` is the row.
    """
    num_edges = len(major)
    indptr = empty(num_major + 1, np.uint64, f"the offsets of {num_major} lists")
    indices = empty(num_edges, id_dtype(id_bytes), f"{num_edges} edges")
    order_bytes = id_bytes_for(num_edges)
    order = empty(num_edges, id_dtype(order_bytes), f"{num_edges} edges") if with_order else None
    err = new_error()
    lent = [ffi.from_buffer("int64_t[]", ids) for ids in (major, minor)]
    edges = sized("aether_edge_list", *lent, num_edges, num_major, num_minor)
    room = [
        ffi.from_buffer("uint64_t[]", indptr), ffi.from_buffer(indices),
        ffi.NULL if order is None else ffi.from_buffer(order),
    ]  # fmt: skip
    lists = sized("aether_built_lists", *room, id_bytes, order_bytes)
    code = lib.aether_build_lists(edges, lists, lend(task, 16 * num_edges), err)
    if code:
        raise_error(code, err)
    return indptr, indices, order


def id_bounds(ids: Ids) -> tuple[int, int]:
    """Return the smallest and the largest id; (-1, -1) for an empty vector."""
    out = ffi.new("int64_t[2]")
    err = new_error()
    code = lib.aether_id_bounds(ffi.from_buffer("int64_t[]", ids), len(ids), out, out + 1, err)
    if code:
        raise_error(code, err)
    return int(out[0]), int(out[1])


def check_lists(
    indptr: NDArray[np.uint64], indices: NDArray[Any] | None, num_edges: int, num_minor: int,
    task: Task | None = None,
) -> None:  # fmt: skip
    """Raise unless ``indptr`` is monotone and ends at E, and every index is < num_minor.

    If ``indices`` is None, only the offsets are checked.

    Raises:
        CorruptFileError: the offsets are wrong; has the position of the first fault.
        OutOfRangeError: an index is out of range; has the position of the first one.
    """
    err = new_error()
    lent = ffi.from_buffer("uint64_t[]", indptr)
    lent_ids = ffi.NULL if indices is None else ffi.from_buffer(indices)
    lists = ffi.new(
        "aether_lists *", (len(indptr) - 1, num_minor, num_edges, lent, lent_ids, ffi.NULL)
    )
    lists.id_bytes = 8 if indices is None else indices.dtype.itemsize
    size = indptr.nbytes if indices is None else indices.nbytes
    code = lib.aether_check_lists(lists, lend(task, size), err)
    if code:
        raise_error(code, err)


def hash_edges(
    indptr: NDArray[np.uint64] | None, minor: NDArray[Any] | None, edge_ids: NDArray[Any] | None,
    begin: int, count: int, *, transposed: bool, key: int, task: Task | None = None,
) -> int:  # fmt: skip
    """Hash ``count`` edges from position ``begin`` on, independently of their order.

    Args:
        indptr: offsets of all lists; None: every edge is in list 0.
        minor: id at each position; None: 0.
        edge_ids: edge id at each position; None: the position.
        begin: first position.
        count: number of edges.
        transposed: edges go from ``minor`` to the list.
        key: key of the hash, below 2^64.
        task: the long call that this one is part of.

    Returns:
        A sum modulo 2^64: the sums of the parts of an edge list add up to that of the whole.
    """
    for array in (minor, edge_ids):
        if array is not None and len(array) != count:
            raise InvalidArgumentError(f"{len(array)} ids for {count} edges")
    out, err = ffi.new("uint64_t *"), new_error()
    arrays = [a for a in (minor, edge_ids) if a is not None]
    lent = ffi.NULL if indptr is None else ffi.from_buffer("uint64_t[]", indptr)
    lent_ids = [ffi.NULL if ids is None else ffi.from_buffer(ids) for ids in (minor, edge_ids)]
    id_bytes = [8 if ids is None else ids.dtype.itemsize for ids in (minor, edge_ids)]
    lists = 0 if indptr is None else len(indptr) - 1
    edges = sized("aether_edge_run", lent, lists, *lent_ids, *id_bytes, begin, count)
    progress = lend(task, sum(a.nbytes for a in arrays))
    code = lib.aether_hash_edges(edges, transposed, key, out, progress, err)
    if code:
        raise_error(code, err)
    return int(out[0])


# ---- gather ----------------------------------------------------------------------------------


class RowRequests:
    """Each an ``aether_row_request *`` and an error, to be taken again: threads may share it.

    Making new ones takes as long as gathering a few rows.
    """

    __slots__ = ("_idle",)

    def __init__(self) -> None:
        self._idle: list[tuple[Any, Any]] = []

    def take(self) -> tuple[Any, Any]:
        """Return a request, to be filled, and an error."""
        try:
            return self._idle.pop()
        except IndexError:  # all are in use, or lost with the exception of a call
            request = ffi.new("aether_row_request *")
            request.size = ffi.sizeof("aether_row_request")
            return request, new_error()

    def give_back(self, call: tuple[Any, Any]) -> None:
        """Let others take them again."""
        self._idle.append(call)


class NativeRows:
    """Rows of an array, ready to be gathered. Keeps the array (and its mapping) alive."""

    __slots__ = ("_array", "_guard", "_requests", "_rows", "code")

    def __init__(self, array: NDArray[Any], code: int, guard: FileGuard | None = None) -> None:
        items = 1
        for extent in array.shape[1:]:
            items *= extent
        self._array = array
        self._guard = guard
        self.code = code
        self._requests = RowRequests()
        self._rows = ffi.new("aether_rows *")
        self._rows.data = ffi.cast("void *", address_of(array))
        self._rows.num_rows = array.shape[0]
        self._rows.row_items = items
        several = array.size > items  # numpy keeps any stride of a single row, a negative one too
        self._rows.stride = array.strides[0] if several else items * array.dtype.itemsize
        self._rows.dtype = code

    @property
    def handle(self) -> Any:
        """The ``aether_rows *``."""
        return self._rows

    @property
    def guard(self) -> FileGuard | None:
        """Guard of the file that the array is mapped from, if it is."""
        return self._guard

    def gather(
        self, ids: NDArray[Any], out: NDArray[Any], out_code: int, task: Task | None = None
    ) -> None:
        """Set ``out[i] = rows[ids[i]]``; ``ids`` int64 or uint32, ``out`` contiguous, writable."""
        request, err = call = self._requests.take()
        lent, room = ffi.from_buffer(ids), ffi.from_buffer(out)
        request.ids, request.n, request.id_bytes = lent, ids.shape[0], ids.itemsize
        request.out, request.out_size, request.out_dtype = room, out.nbytes, out_code
        begin_read(self._guard)
        code = lib.aether_gather(self._rows, request, lend(task, out.nbytes), err)
        end_read(code, err, self._guard)
        self._requests.give_back(call)

    def aggregate(
        self, ids: Ids, bounds: NDArray[np.uint64], out: NDArray[Any], *, is_max: bool = False,
        places: Ids | None = None, weights: NDArray[Any] | None = None,
    ) -> None:  # fmt: skip
        """Add the rows of each list of ids to a row of ``out``, or take the maximum with it.

        Args:
            ids: rows of all lists, one list after the other.
            bounds: where each list begins, and where the last one ends.
            out: float32 or float64, contiguous, which begins with what sums begin with.
            is_max: take the maximum.
            places: row of ``out`` of each list, ascending; None: list i has row i.
            weights: factors of the rows beside ``ids``, of the dtype of ``out``.
        """
        err = new_error()
        lent = [ffi.from_buffer("int64_t[]", ids), ffi.from_buffer("uint64_t[]", bounds)]
        lent += [ffi.NULL if places is None else ffi.from_buffer("int64_t[]", places)]
        lent += [ffi.NULL if weights is None else ffi.from_buffer(weights)]
        lists = sized(
            "aether_row_lists", *lent, len(ids), len(bounds) - 1, ffi.from_buffer(out), len(out),
            out.nbytes, dtype_code(out.dtype), lib.AETHER_MAX if is_max else lib.AETHER_SUM,
        )  # fmt: skip
        begin_read(self._guard)
        code = lib.aether_aggregate(self._rows, lists, lend(None, 0), err)
        end_read(code, err, self._guard)


def gather(
    array: NDArray[Any], ids: NDArray[Any], out: NDArray[Any], task: Task | None = None
) -> None:
    """Set ``out[i] = array[ids[i]]`` for plain arrays, in the dtype of ``out``."""
    rows = NativeRows(array, dtype_code(array.dtype))
    rows.gather(ids, out, dtype_code(out.dtype), task)
