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

The plan of the file is here, what is written at once in ``merge_sections.py``, and the walks are in
``merge_lists.py``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aethergraph import _native as native
from aethergraph._checks.options import as_flag
from aethergraph.dynamic.edge_types import EdgeKind
from aethergraph.dynamic.forms import EDGE_ID
from aethergraph.dynamic.merge_lists import (
    LEAST,
    EdgeOrder,
    EdgeRows,
    EdgeWork,
    Numbers,
    Walk,
)
from aethergraph.dynamic.merge_sections import (
    Content,
    EncodedIds,
    EncodedIndex,
    NodeRows,
    Offsets,
    Put,
    Room,
    Section,
    row_bytes,
    stored_ids,
)
from aethergraph.errors import InvalidArgumentError
from aethergraph.graph.beside import GraphFile
from aethergraph.graph.parts import EdgeParts, NodeParts
from aethergraph.storage.budget import Budget
from aethergraph.storage.meta import ArrayMeta, EdgeType, FileMeta, NodeType

__all__ = ["MEMORY", "SnapshotParts", "write_base"]

#: Default of the memory that writing may take.
MEMORY = "256M"
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
    #: Time zone of the times of edges.
    time_zone: str | None = None
    #: True if the first edge ids are places in a file, and so not the order of an input.
    renumbers_edges: bool = False


class _Plan:
    """Sections of the file of a snapshot, and the work that fills those that are reserved."""

    def __init__(
        self, parts: SnapshotParts, room: Room, compress: bool, attrs: bool,
        beside: Mapping[str, str], commit: tuple[str, int] | None, part_of: str | None,
    ) -> None:  # fmt: skip
        self._room, self._compress = room, compress
        self._renumbers = parts.renumbers_edges
        self.sections = list[Section]()
        self.work = list[EdgeWork]()
        arrays = list[tuple[ArrayMeta, Content | Put]]()
        names = list(parts.nodes)
        for owner, node in enumerate(parts.nodes.values()):
            for name, rows in sorted(node.node_attrs.items()) if attrs else ():
                if rows.is_live:
                    continue  # of no commit: they stay where they are
                meta = ArrayMeta(name, "node", owner, rows.dtype_name, rows.shape)
                arrays.append((meta, NodeRows(rows, room)))
        for owner, (kind, edge) in enumerate(parts.edges):
            first = self._add_edges(owner, kind, edge)
            if attrs:
                arrays += self._edge_rows(owner, edge, first)
        for owner, node in enumerate(parts.nodes.values()):
            if node.times_elsewhere is not None:
                times = NodeRows(node.times_elsewhere, room)
                self._add(native.SECTION_NODE_TIME, owner, _I64, times)
        timed: list[NodeParts | EdgeParts] = [*parts.nodes.values(), *(e for _, e in parts.edges)]
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
            next((p.time_unit for p in timed if p.time_unit is not None), None),
            time_zone=parts.time_zone,
            beside=beside,
            commit=commit,
            part_of=part_of,
        )  # fmt: skip
        for number, (meta, content) in enumerate(arrays):
            code = native.DTYPE_CODES[meta.dtype]
            self.sections.append(Section(native.SECTION_ARRAY, number, code, content))
        written = sum(section.content.nbytes for section in self.sections)
        self.size = written + sum(work.nbytes for work in self.work)

    def _edge_rows(
        self, owner: int, edge: EdgeParts, walk: Walk
    ) -> Iterator[tuple[ArrayMeta, Put]]:
        """Yield the attributes of the edges of a type, by name, which a walk fills."""
        lists = edge.any_lists.topology
        names = set(edge.edge_attrs)
        if self._renumbers or lists.num_edges != lists.end_edge_ids:
            names.add(EDGE_ID)
        for name in sorted(names):
            if name == EDGE_ID:
                put = walk.add_column("edge_ids", _I64)
                yield ArrayMeta(name, "edge", owner, "int64", (lists.num_edges,)), put
                continue
            rows = edge.edge_attrs[name]
            put = Put(lists.num_edges * row_bytes(rows))
            walk.steps.append(EdgeRows(rows, put, self._room))
            shape = (lists.num_edges, *rows.row_shape)
            yield ArrayMeta(name, "edge", owner, rows.dtype_name, shape), put

    def _add_edges(self, owner: int, kind: EdgeKind, edge: EdgeParts) -> Walk:
        """Add the sections of an edge type; return the walk in the order of its edges."""
        numbers = Numbers(edge.any_lists.topology, self._room, "-".join(kind.name))
        work = EdgeWork(numbers)
        self.work.append(work)
        for lists, kinds in ((edge.csc, _CSC), (edge.csr, _CSR)):
            if lists is not None:
                self._add_lists(owner, work.add_walk(lists.topology), lists.topology, kinds)
        if len(work.walks) == 2:
            self._add(native.SECTION_CSR_EDGE_IDS, owner, numbers.dtype, work.add_places())
        first = work.walks[0]
        if not self._renumbers:
            order = Put(numbers.count * numbers.dtype.itemsize)
            first.steps.append(EdgeOrder(numbers.dtype, order))
            self._add(native.SECTION_EDGE_ORDER, owner, numbers.dtype, order)
        if kind.form.has_weight:
            weights = first.add_column("weights", _F32)
            self._add(native.SECTION_EDGE_WEIGHT, owner, _F32, weights)
        if kind.form.has_time:
            times = first.add_column("times", _I64)
            self._add(native.SECTION_EDGE_TIME, owner, _I64, times)
        return first

    def _add_lists(
        self, owner: int, walk: Walk, topology: native.NativeTopology,
        kinds: tuple[int, int, int, int],
    ) -> None:  # fmt: skip
        room = self._room
        self._add(kinds[0], owner, _U64, Offsets(topology, room))
        if self._compress:
            encoded = EncodedIds(topology, room)
            self._add(kinds[2], owner, np.dtype(np.uint8), encoded)
            self._add(kinds[3], owner, _U64, EncodedIndex(encoded))
        else:
            ids = stored_ids(topology)
            self._add(kinds[1], owner, ids, walk.add_column("neighbors", ids))

    def _add(self, kind: int, owner: int, dtype: np.dtype[Any], content: Content | Put) -> None:
        self.sections.append(Section(kind, owner, native.dtype_code(dtype), content))

    def write(self, writer: native.NativeWriter, task: native.Task | None) -> None:
        """Write all of the file."""
        for kind, owner, code, content in self.sections:
            if isinstance(content, Put):
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


def _room_of(budget: Budget, path: native.Path) -> Room:
    if budget.limit < LEAST:
        raise InvalidArgumentError(f"{budget} is too small: the least is {LEAST >> 20}M")
    entries = min(_MOST_ENTRIES, budget.limit >> 7) // _ENCODED * _ENCODED
    folder = os.path.dirname(os.path.abspath(native.encode_path(path)[0]))
    return Room(entries, budget.limit >> 4, budget.limit // 4 * 3, folder, budget)


def write_base(
    parts: SnapshotParts,
    path: native.Path,
    *,
    memory: Any = MEMORY,
    compress: Any = None,
    attrs: Any = True,
    beside: Mapping[str, str] | None = None,
    commit: tuple[str, int] | None = None,
    part_of: str | None = None,
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
        beside: fingerprints of the files that lie beside it ("user.ids").
        commit: identity of the live graph, and number of the commit in its log, to be said in the
            file.
        part_of: live graph and name under which the file is a part of its directory.
        progress: called with (done, total).

    Raises:
        InvalidArgumentError: too little memory; names the least.
        DiskFullError, StorageError: the file cannot be written. What was there before is left.
        SnapshotExpiredError: the snapshot was held too long.
    """
    room = _room_of(Budget.parse(memory, "memory"), path)
    compressed = compress is not None and as_flag(compress, "compress")
    plan = _Plan(parts, room, compressed, as_flag(attrs, "attrs"), beside or {}, commit, part_of)

    def write(task: native.Task | None) -> None:
        with GraphFile(path, plan.meta) as writer:
            plan.write(writer, task)
            parts.snapshot.check()

    native.run_long(write, progress, plan.size)
