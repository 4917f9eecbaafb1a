"""Writing a snapshot into a graph file, without a copy of it in memory.

::

    lists of a snapshot, which are in their final order        the file (native/FORMAT.md)
      CSC   neighbour | edge id | time | weight   ── walk ──>  INDICES, WEIGHT, TIME
                           │                                   in the order of the CSC lists
                           ├─ rows of edges, by id ── gather ──>  ARRAY
                           └─ rank: place among the ids that are left  ──>  EDGE_ORDER
      CSR   neighbour | edge id   ── walk, rank ── place in the CSC lists ──>  INDICES, EDGE_IDS
      rows of nodes               ── some at a time ──>  ARRAY

The file is that of ``to_graph().save()``, byte for byte. Sections whose size is known are reserved;
then one walk through each layout fills them piece by piece. Two things take more memory than a
piece: ranks, if edges were deleted (1 1/3 bits for each id), and the places of edges in the CSC
lists for those of the CSR lists. These are an array in memory if they fit, else three passes over
the disk.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import empty
from aethergraph._checks.options import as_flag
from aethergraph.dynamic.forms import EDGE_ID
from aethergraph.dynamic.kinds import EdgeKind
from aethergraph.errors import InvalidArgumentError
from aethergraph.graph.parts import EdgeParts, NodeParts
from aethergraph.protocols import RowSource
from aethergraph.storage.budget import Budget
from aethergraph.storage.meta import ArrayMeta, EdgeType, FileMeta, NodeType, write_meta
from aethergraph.storage.scratch import ScatteredArray, Scratch

__all__ = ["MEMORY", "SnapshotParts", "write_base"]

#: Default of the memory that writing may take.
MEMORY = "256M"
_LEAST = 16 << 20
#: Most entries at a time: long enough for the calls not to count, short for those who wait.
_MOST_ENTRIES = 1 << 20
#: Ids that blocks are encoded in multiples of.
_ENCODED = 2048
_I64, _U64, _F32 = np.dtype(np.int64), np.dtype(np.uint64), np.dtype(np.float32)


@dataclass(frozen=True)
class SnapshotParts:
    """Everything that a snapshot writes: its nodes and edges by type, in the order of the types."""

    nodes: Mapping[str, NodeParts]
    edges: Sequence[tuple[EdgeKind, EdgeParts]]
    #: The commit, which must not expire before the last byte is written.
    snapshot: native.NativeSnapshot


class _Room(NamedTuple):
    """Room that one budget leaves."""

    entries: int  # entries at a time
    row_bytes: int  # bytes of rows at a time
    tables: int  # bytes for ranks and places
    folder: str  # folder for scratch files
    budget: Budget


class _Content(Protocol):
    """Bytes of a section whose size is not known, or that no walk fills; ``nbytes`` is the work."""

    nbytes: int

    def write(self, writer: native.NativeWriter, task: native.Task | None) -> None:
        """Append the whole content to the section that was begun."""


class _Put:
    """Place of a section in the file; :meth:`__call__` fills it on."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._target: tuple[native.NativeWriter, int, native.Task | None] | None = None

    def reserve(
        self, writer: native.NativeWriter, kind: int, owner: int, code: int,
        task: native.Task | None,
    ) -> None:  # fmt: skip
        self._target = writer, writer.reserve(kind, owner, code, self.nbytes), task

    def __call__(self, array: NDArray[Any]) -> None:
        assert self._target is not None
        writer, section, task = self._target
        writer.put(section, np.ascontiguousarray(array), task)


class _Section(NamedTuple):
    kind: int
    owner: int
    dtype_code: int
    content: _Content | _Put


# ---- contents that are written one after the other -----------------------------------------------


class _Offsets:
    """Offsets of lists."""

    def __init__(self, topology: native.NativeTopology, room: _Room) -> None:
        self._topology, self._at_once = topology, room.entries
        self.nbytes = 8 * (topology.num_major + 1)

    def write(self, writer: native.NativeWriter, task: native.Task | None) -> None:
        writer.append(np.zeros(1, np.uint64), task)
        last, lists = 0, self._topology.num_major
        for first in range(0, lists, self._at_once):
            count = min(self._at_once, lists - first)
            ends = native.list_ends(self._topology, first, count, last)
            writer.append(ends, task)
            last = int(ends[-1])


class _EncodedIds:
    """Neighbours as compressed blocks; their index is kept in a scratch file until it is due."""

    def __init__(self, topology: native.NativeTopology, room: _Room) -> None:
        self._topology, self._room = topology, room
        self._encoder = native.BlockEncoder()
        self._scratch: Scratch | None = None
        self.nbytes = 3 * topology.num_edges * topology.id_dtype.itemsize

    def write(self, writer: native.NativeWriter, task: native.Task | None) -> None:
        self._scratch = Scratch(self._room.folder)
        columns: _Columns = {"neighbors": _stored_ids(self._topology)}
        for piece in _pieces(self._topology, columns, self._room.entries, task):
            writer.append(self._encoder.encode(piece["neighbors"], task), task)
            self._scratch.append(self._encoder.take_index())

    def write_index(self, writer: native.NativeWriter, task: native.Task | None) -> None:
        """Append the index of the blocks that were written, to a section of its own."""
        assert self._scratch is not None
        words = self._scratch.size // 8
        for begin in range(0, words, self._room.entries):
            index = empty(min(self._room.entries, words - begin), np.uint64, "an index")
            self._scratch.read(index, 8 * begin)
            writer.append(index, task)
        writer.append(self._encoder.index(), task)
        self._scratch.close()


class _EncodedIndex:
    """Index of blocks that come in the section before."""

    def __init__(self, ids: _EncodedIds) -> None:
        self.nbytes = 0
        self._ids = ids

    def write(self, writer: native.NativeWriter, task: native.Task | None) -> None:
        self._ids.write_index(writer, task)


class _NodeRows:
    """Rows of nodes."""

    def __init__(self, rows: RowSource, room: _Room) -> None:
        self._rows, self._at_once = rows, _rows_at_once(rows, room)
        self.nbytes = rows.nbytes

    def write(self, writer: native.NativeWriter, task: native.Task | None) -> None:
        rows = self._rows
        for begin in range(0, rows.num_rows, self._at_once):
            if task is not None:
                task.check()
            ids = np.arange(begin, min(begin + self._at_once, rows.num_rows))
            writer.append(np.ascontiguousarray(rows.gather(ids)), task)


def _row_bytes(rows: RowSource) -> int:
    return math.prod(rows.row_shape) * rows.array_dtype.itemsize


def _rows_at_once(rows: RowSource, room: _Room) -> int:
    return max(1, min(room.entries, room.row_bytes // max(1, _row_bytes(rows))))


# ---- walks through lists -------------------------------------------------------------------------

_Columns: TypeAlias = "dict[native.Column, np.dtype[Any]]"
_Piece: TypeAlias = "dict[native.Column, NDArray[Any]]"


def _pieces(
    topology: native.NativeTopology, columns: _Columns, at_once: int, task: native.Task | None
) -> Iterator[_Piece]:
    """Yield columns of all lists, piece by piece; the next piece reuses the memory."""
    reader = native.EntryReader(topology, list(columns))
    left = topology.num_edges
    room = {
        name: empty(min(at_once, left), dtype, f"{at_once} entries")
        for name, dtype in columns.items()
    }
    while left:
        count = reader.read([out[:left] for out in room.values()], task)
        left -= count
        yield {name: out[:count] for name, out in room.items()}


def _stored_ids(topology: native.NativeTopology) -> np.dtype[Any]:
    """Return the dtype of neighbours in a file."""
    return native.id_dtype(native.id_bytes_for(topology.num_minor))


class _Step(Protocol):
    """Taker of the pieces of a walk."""

    def take(self, piece: _Piece, ranks: native.Ids, begin: int) -> None:
        """Take a piece that begins at entry ``begin``; ``ranks`` are those of its edge ids."""


class _Column:
    """Section that is a column of the lists."""

    def __init__(self, column: native.Column, put: _Put) -> None:
        self._column, self._put = column, put

    def take(self, piece: _Piece, ranks: native.Ids, begin: int) -> None:
        self._put(piece[self._column])


class _EdgeOrder:
    """Section of the ranks of edges."""

    def __init__(self, dtype: np.dtype[Any], put: _Put) -> None:
        self._dtype, self._put = dtype, put

    def take(self, piece: _Piece, ranks: native.Ids, begin: int) -> None:
        self._put(ranks.astype(self._dtype))


class _EdgeRows:
    """Section of rows of edges."""

    def __init__(self, rows: RowSource, put: _Put, room: _Room) -> None:
        self._rows, self._put, self._at_once = rows, put, _rows_at_once(rows, room)

    def take(self, piece: _Piece, ranks: native.Ids, begin: int) -> None:
        ids = piece["edge_ids"]
        for first in range(0, len(ids), self._at_once):
            self._put(self._rows.gather(ids[first : first + self._at_once]))


class _Walk:
    """One pass through the lists of a layout, which fills sections that were reserved."""

    def __init__(self, topology: native.NativeTopology, numbers: _Numbers) -> None:
        self._topology, self._numbers = topology, numbers
        self.columns: _Columns = {"edge_ids": _I64}
        self.steps = list[_Step]()

    @property
    def nbytes(self) -> int:
        """Bytes that are read."""
        return self._topology.num_edges * sum(dtype.itemsize for dtype in self.columns.values())

    def add_column(self, column: native.Column, dtype: np.dtype[Any]) -> _Put:
        """Return the section of a column, which this walk fills."""
        self.columns[column] = dtype
        put = _Put(self._topology.num_edges * dtype.itemsize)
        self.steps.append(_Column(column, put))
        return put

    def run(self, task: native.Task | None) -> None:
        begin, numbers = 0, self._numbers
        for piece in _pieces(self._topology, self.columns, numbers.room.entries, task):
            ids = piece["edge_ids"]
            ranks = numbers.ranks(ids)
            for step in self.steps:
                step.take(piece, ranks, begin)
            begin += len(ids)


# ---- numbers of edges ----------------------------------------------------------------------------


class _Numbers:
    """Numbers of the edges of one type in the file, which has no gaps: ranks of their ids.

    Args:
        first: lists whose places are the edge ids of the file.
        room: what the budget leaves.
        name: the edge type, for errors.
    """

    def __init__(self, first: native.NativeTopology, room: _Room, name: str) -> None:
        self.first, self.room = first, room
        self.count, self._end = first.num_edges, first.end_edge_ids
        self.dtype = native.id_dtype(native.id_bytes_for(self.count))
        self._ranks: native.Ranks | None = None
        #: Bytes left for places.
        self.left = room.tables
        if self.has_gaps:
            taken = native.Ranks.bytes_for(self._end)
            self.left -= taken
            if self.left < room.tables // 4:
                least = _least_to_renumber(taken)
                raise InvalidArgumentError(
                    f"{room.budget} is too small: {name} has had {self._end} edges, some of which "
                    f"were deleted; renumbering the others takes at least {-(-least >> 20)}M"
                )

    @property
    def has_gaps(self) -> bool:
        """True if edges were deleted."""
        return bool(self.count != self._end)

    @property
    def nbytes(self) -> int:
        """Bytes that are read for the ranks."""
        return 8 * self.count * self.has_gaps

    def open(self, task: native.Task | None) -> None:
        """Collect the ids that are left."""
        if not self.has_gaps:
            return
        self._ranks = native.Ranks(self._end)
        columns: _Columns = {"edge_ids": _I64}
        for piece in _pieces(self.first, columns, self.room.entries, task):
            self._ranks.add(piece["edge_ids"])
        self._ranks.count()

    def ranks(self, ids: native.Ids) -> native.Ids:
        """Return the ranks of ids."""
        if self._ranks is None:
            return ids
        found = ids.copy()
        self._ranks.replace(found)
        return found

    def close(self) -> None:
        """Forget the ids."""
        self._ranks = None


class _PlacesInMemory:
    """Number in the file of each edge by its rank: a step of the first walk, then of the second."""

    def __init__(self, numbers: _Numbers, put: _Put) -> None:
        self._numbers, self._put = numbers, put
        self._places = np.empty(0, numbers.dtype)
        self._is_second = False

    def take(self, piece: _Piece, ranks: native.Ids, begin: int) -> None:
        if self._is_second:
            out = empty(len(ranks), self._numbers.dtype, f"{len(ranks)} edges")
            native.gather(self._places, ranks, out)
            self._put(out)
            return
        if begin == 0:
            count = self._numbers.count
            self._places = empty(count, self._numbers.dtype, f"{count} edges")
        native.put_places(ranks, begin, self._places)

    def turn(self) -> None:
        """Go on to the second walk."""
        self._is_second = True

    def close(self) -> None:
        """Free the memory."""
        self._places = self._places[:0].copy()


class _PlacesOnDisk:
    """Edge ids of the CSR lists, where memory does not hold a number for each edge.

    ::

        first walk    place by rank ──┐
        second walk   entry by rank ──┴── both by rank ──> place by entry
    """

    def __init__(self, numbers: _Numbers, put: _Put) -> None:
        self._put, self._numbers = put, numbers
        self._arrays = list[ScatteredArray]()

    def take(self, piece: _Piece, ranks: native.Ids, begin: int) -> None:
        if not self._arrays:
            self.turn()
        self._arrays[-1].put(ranks, np.arange(begin, begin + len(ranks)))
        if len(self._arrays) == 2 and begin + len(ranks) == self._numbers.count:
            self._finish()

    def turn(self) -> None:
        """Go on to the second walk."""
        room, count = self._numbers.room, self._numbers.count
        self._arrays.append(ScatteredArray(room.folder, count, self._numbers.left // 2))

    def _finish(self) -> None:
        self.turn()
        by_rank, others_by_rank, by_place = self._arrays
        for own, other in zip(by_rank.pieces(), others_by_rank.pieces(), strict=True):
            by_place.put(other.astype(np.int64), own.astype(np.int64))
        for piece in by_place.pieces():
            self._put(piece)

    def close(self) -> None:
        """Free the space on disk."""
        for array in self._arrays:
            array.close()


class _EdgeWork:
    """Walks that fill the sections of one edge type."""

    def __init__(self, numbers: _Numbers) -> None:
        self.numbers = numbers
        self.walks = list[_Walk]()
        self._places: _PlacesInMemory | _PlacesOnDisk | None = None

    def add_walk(self, topology: native.NativeTopology) -> _Walk:
        """Return a walk through a layout; the second finds the places of its edges in the first."""
        self.walks.append(_Walk(topology, self.numbers))
        return self.walks[-1]

    def add_places(self) -> _Put:
        """Return the section of the places of the second walk's edges in the first."""
        numbers = self.numbers
        nbytes = numbers.count * numbers.dtype.itemsize
        put = _Put(nbytes)
        make = _PlacesInMemory if nbytes <= numbers.left else _PlacesOnDisk
        self._places = make(numbers, put)
        for walk in self.walks:
            walk.steps.append(self._places)
        return put

    @property
    def nbytes(self) -> int:
        """Bytes that are read."""
        return self.numbers.nbytes + sum(walk.nbytes for walk in self.walks)

    def run(self, task: native.Task | None) -> None:
        """Do the walks."""
        try:
            self.numbers.open(task)
            for number, walk in enumerate(self.walks):
                if number and self._places is not None:
                    self._places.turn()
                walk.run(task)
        finally:
            self.numbers.close()
            if self._places is not None:
                self._places.close()


# ---- the file ------------------------------------------------------------------------------------


class _Plan:
    """Sections of the file of a snapshot, and the work that fills those that are reserved."""

    def __init__(self, parts: SnapshotParts, room: _Room, compress: bool, attrs: bool) -> None:
        self._room, self._compress = room, compress
        self.sections = list[_Section]()
        self.work = list[_EdgeWork]()
        arrays = list[tuple[ArrayMeta, _Content | _Put]]()
        names = list(parts.nodes)
        for owner, node in enumerate(parts.nodes.values()):
            for name, rows in sorted(node.node_attrs.items()) if attrs else ():
                meta = ArrayMeta(name, "node", owner, rows.dtype_name, rows.shape)
                arrays.append((meta, _NodeRows(rows, room)))
        for owner, (kind, edge) in enumerate(parts.edges):
            first = self._add_edges(owner, kind, edge)
            if attrs:
                arrays += self._edge_rows(owner, edge, first)
        self.meta = FileMeta(
            tuple(NodeType(name, node.num_nodes) for name, node in parts.nodes.items()),
            tuple(
                EdgeType(
                    names.index(kind.name[0]), kind.name[1], names.index(kind.name[2]),
                    edge.num_edges,
                )
                for kind, edge in parts.edges
            ),
            tuple(meta for meta, _ in arrays),
            next((e.time_unit for _, e in parts.edges if e.time_unit is not None), None),
        )  # fmt: skip
        for number, (meta, content) in enumerate(arrays):
            code = native.DTYPE_CODES[meta.dtype]
            self.sections.append(_Section(native.SECTION_ARRAY, number, code, content))
        written = sum(section.content.nbytes for section in self.sections)
        self.size = written + sum(work.nbytes for work in self.work)

    def _edge_rows(
        self, owner: int, edge: EdgeParts, walk: _Walk
    ) -> Iterator[tuple[ArrayMeta, _Put]]:
        """Yield the attributes of the edges of a type, by name, which a walk fills."""
        lists = edge.any_lists.topology
        names = set(edge.edge_attrs)
        if lists.num_edges != lists.end_edge_ids:
            names.add(EDGE_ID)
        for name in sorted(names):
            if name == EDGE_ID:
                put = walk.add_column("edge_ids", _I64)
                yield ArrayMeta(name, "edge", owner, "int64", (lists.num_edges,)), put
                continue
            rows = edge.edge_attrs[name]
            put = _Put(lists.num_edges * _row_bytes(rows))
            walk.steps.append(_EdgeRows(rows, put, self._room))
            shape = (lists.num_edges, *rows.row_shape)
            yield ArrayMeta(name, "edge", owner, rows.dtype_name, shape), put

    def _add_edges(self, owner: int, kind: EdgeKind, edge: EdgeParts) -> _Walk:
        """Add the sections of an edge type; return the walk in the order of its edges."""
        numbers = _Numbers(edge.any_lists.topology, self._room, "-".join(kind.name))
        work = _EdgeWork(numbers)
        self.work.append(work)
        for lists, kinds in ((edge.csc, _CSC), (edge.csr, _CSR)):
            if lists is not None:
                self._add_lists(owner, work.add_walk(lists.topology), lists.topology, kinds)
        if len(work.walks) == 2:
            self._add(native.SECTION_CSR_EDGE_IDS, owner, numbers.dtype, work.add_places())
        first = work.walks[0]
        order = _Put(numbers.count * numbers.dtype.itemsize)
        first.steps.append(_EdgeOrder(numbers.dtype, order))
        self._add(native.SECTION_EDGE_ORDER, owner, numbers.dtype, order)
        if kind.form.has_weight:
            weights = first.add_column("weights", _F32)
            self._add(native.SECTION_EDGE_WEIGHT, owner, _F32, weights)
        if kind.form.has_time:
            times = first.add_column("times", _I64)
            self._add(native.SECTION_EDGE_TIME, owner, _I64, times)
        return first

    def _add_lists(
        self, owner: int, walk: _Walk, topology: native.NativeTopology,
        kinds: tuple[int, int, int, int],
    ) -> None:  # fmt: skip
        room = self._room
        self._add(kinds[0], owner, _U64, _Offsets(topology, room))
        if self._compress:
            encoded = _EncodedIds(topology, room)
            self._add(kinds[2], owner, np.dtype(np.uint8), encoded)
            self._add(kinds[3], owner, _U64, _EncodedIndex(encoded))
        else:
            ids = _stored_ids(topology)
            self._add(kinds[1], owner, ids, walk.add_column("neighbors", ids))

    def _add(self, kind: int, owner: int, dtype: np.dtype[Any], content: _Content | _Put) -> None:
        self.sections.append(_Section(kind, owner, native.dtype_code(dtype), content))

    def write(self, writer: native.NativeWriter, task: native.Task | None) -> None:
        """Write all of the file."""
        write_meta(writer, self.meta)
        for kind, owner, code, content in self.sections:
            if isinstance(content, _Put):
                content.reserve(writer, kind, owner, code, task)
                continue
            writer.begin(kind, owner, code)
            content.write(writer, task)
            writer.end()
        for work in self.work:
            work.run(task)


#: Sections of lists: offsets, neighbours, blocks of compressed ones, their index.
_CSC = (
    native.SECTION_CSC_INDPTR,
    native.SECTION_CSC_INDICES,
    native.SECTION_CSC_BLOCKS,
    native.SECTION_CSC_INDEX,
)
_CSR = (
    native.SECTION_CSR_INDPTR,
    native.SECTION_CSR_INDICES,
    native.SECTION_CSR_BLOCKS,
    native.SECTION_CSR_INDEX,
)


def _least_to_renumber(taken: int) -> int:
    """Return the least budget, three quarters of three quarters of which are for ranks."""
    return max(_LEAST, 16 * taken // 9 + 16)


def _room_of(budget: Budget, path: native.Path) -> _Room:
    if budget.limit < _LEAST:
        raise InvalidArgumentError(f"{budget} is too small: the least is {_LEAST >> 20}M")
    entries = min(_MOST_ENTRIES, budget.limit >> 7) // _ENCODED * _ENCODED
    folder = os.path.dirname(os.path.abspath(native.encode_path(path)[0]))
    return _Room(entries, budget.limit >> 4, budget.limit // 4 * 3, folder, budget)


def write_base(
    parts: SnapshotParts,
    path: native.Path,
    *,
    memory: Any = MEMORY,
    compress: Any = None,
    attrs: Any = True,
    progress: native.Progress | None = None,
) -> None:
    """Write a snapshot into a graph file, which appears complete and at once, or not at all.

    Args:
        parts: the snapshot; what it is of may go on changing.
        path: the file to write.
        memory: bytes for buffers, or a text such as "1G". Where it does not hold a number for each
            edge, "both" layouts take scratch files of up to 24 bytes per edge beside ``path``.
        compress: store the neighbours in compressed blocks.
        attrs: write attributes of nodes and edges as well.
        progress: called with (done, total).

    Raises:
        InvalidArgumentError: too little memory; names the least.
        DiskFullError, StorageError: the file cannot be written. What was there before is left.
        SnapshotExpiredError: the snapshot was held too long.
    """
    room = _room_of(Budget.parse(memory, "memory"), path)
    compressed = compress is not None and as_flag(compress, "compress")
    plan = _Plan(parts, room, compressed, as_flag(attrs, "attrs"))

    def write(task: native.Task | None) -> None:
        with native.NativeWriter(path, native.CONTENT_GRAPH) as writer:
            plan.write(writer, task)
            parts.snapshot.check()

    native.run_long(write, progress, plan.size)
