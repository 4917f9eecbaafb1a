"""Writing of what the steps of a reordering have made: the graph file, files of rows and of ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph.convert.external.array_files import ColumnFiles
from aethergraph.convert.external.encoded import EncodedColumn
from aethergraph.convert.outputs import NpyWriter
from aethergraph.convert.reordering.job import RowJob, Steps, pieces_of
from aethergraph.convert.reordering.sources import ORDER_COLUMN, ROWS_COLUMN
from aethergraph.convert.typed.sections import ENCODED, write_offsets, write_pieces
from aethergraph.features.files import is_npy_name, save_native
from aethergraph.graph.beside import GraphFile, in_another_order
from aethergraph.graph.parts import EdgeParts
from aethergraph.graph.permute import NODE_IDS
from aethergraph.protocols import RowSource
from aethergraph.storage.meta import ArrayMeta, FileMeta

__all__ = ["GraphSections", "write_rows_file"]

_PIECE_BYTES = 4 << 20
_CSC = (native.SECTION_CSC_INDPTR, native.SECTION_CSC_INDICES)
_VALUES = (native.SECTION_EDGE_WEIGHT, native.SECTION_EDGE_TIME)


def column_pieces(files: ColumnFiles, name: str, store: RowSource) -> Iterator[NDArray[Any]]:
    """Yield the moved rows of a store in their new order, in its shape."""
    row = store.nbytes // max(1, store.num_rows)
    for rows in files.pieces(name, max(1, _PIECE_BYTES // max(1, row))):
        yield rows.view(store.array_dtype).reshape(len(rows), *store.shape[1:])


def write_rows_file(
    steps: Steps, number: int, job: RowJob, path: str, files: native.FileSet
) -> None:
    """Write moved rows as a file, .npy or native by its name, which ``files`` puts in place."""
    with steps.row_build(number, job) as step:
        step.reopen(job.store.num_rows)
        pieces = column_pieces(step.files, f"attr:{ROWS_COLUMN}", job.store)
        if is_npy_name(path):
            out = files.add(NpyWriter(path, job.store.array_dtype, job.store.shape[1:]))
            for rows in pieces:
                out.append(rows)
            out.finish()
            return
        code = native.dtype_code(job.store.dtype_name)

        def write(writer: native.NativeWriter, task: native.Task | None) -> None:
            _write_section(writer, native.SECTION_ARRAY, 0, code, pieces, task)

        save_native(path, job.store.shape, code, write, None, files)


def _write_section(
    writer: native.NativeWriter, kind: int, owner: int, code: int,
    pieces: Iterator[NDArray[Any]], task: native.Task | None,
) -> None:  # fmt: skip
    writer.begin(kind, owner, code)
    for rows in pieces:
        writer.append(np.ascontiguousarray(rows), task)
    writer.end()


class GraphSections:
    """The sections of the reordered graph file, in the order in which ``Graph.save`` writes them.

    Args:
        steps: the finished steps.
        rows: rows of nodes that go into the graph file, and their numbers among all.
        compress: store neighbours in compressed blocks.
    """

    def __init__(self, steps: Steps, rows: Sequence[tuple[int, RowJob]], compress: bool) -> None:
        self._steps = steps
        self._graph = steps.graph
        self._times = {job.owner: (n, job) for n, job in rows if job.name is None}
        self._rows = {(job.owner, job.name): (n, job) for n, job in rows}
        self._compress = compress

    @property
    def size(self) -> int:
        """Bytes to write, about."""
        rows = sum(job.store.nbytes for _, job in self._rows.values())
        edges = sum(part.adjacency_bytes for part in self._graph.edges)
        return rows + edges + 8 * self._graph.num_nodes

    def meta(self) -> FileMeta:
        """Return the description of the file."""
        old = self._graph.reader.meta
        arrays = []
        for owner, node in enumerate(self._graph.nodes):
            for name in sorted({*node.node_attrs, NODE_IDS}):
                if (owner, name) in self._rows:
                    store = self._rows[owner, name][1].store
                    arrays.append(ArrayMeta(name, "node", owner, store.dtype_name, store.shape))
                else:
                    arrays.append(ArrayMeta(name, "node", owner, "int64", (node.num_nodes,)))
        for owner, edge in enumerate(self._graph.edges):
            for name in sorted(edge.edge_attrs):
                attr = edge.edge_attrs[name]
                arrays.append(ArrayMeta(name, "edge", owner, attr.dtype_name, attr.shape))
        return FileMeta(
            old.node_types, old.edge_types, tuple(arrays), old.time_unit,
            time_zone=old.time_zone, time_attr=old.time_attr,
            beside=in_another_order(
                old.beside, [kind.name for kind in old.node_types], self._graph.reader.path
            ),
        )  # fmt: skip

    def write(self, path: str, task: native.Task | None, files: native.FileSet) -> None:
        """Write the graph file, which ``files`` puts in place."""
        meta = self.meta()
        with GraphFile(path, meta, files) as writer:
            for number in range(len(meta.edge_types)):
                self._write_edges(writer, number, task)
            for owner, (number, job) in sorted(self._times.items()):
                self._write_rows(writer, native.SECTION_NODE_TIME, owner, number, job, task)
            for owner, array in enumerate(meta.arrays):
                if array.of == "edge":
                    self._write_edge_array(writer, owner, array, task)
                elif (array.type, array.name) in self._rows:
                    number, job = self._rows[array.type, array.name]
                    self._write_rows(writer, native.SECTION_ARRAY, owner, number, job, task)
                else:
                    code = native.dtype_code(np.int64)
                    pieces = self._old_ids(array.type)
                    _write_section(writer, native.SECTION_ARRAY, owner, code, pieces, task)

    def _old_ids(self, owner: int) -> Iterator[NDArray[np.int64]]:
        first, count = self._graph.firsts[owner], self._graph.nodes[owner].num_nodes
        for old in pieces_of(self._steps.old_ids()):
            yield old[(old >= first) & (old < first + count)].astype(np.int64) - first

    def _write_rows(
        self, writer: native.NativeWriter, kind: int, owner: int, number: int, job: RowJob,
        task: native.Task | None,
    ) -> None:  # fmt: skip
        with self._steps.row_build(number, job) as step:
            step.reopen(job.store.num_rows)
            pieces = column_pieces(step.files, f"attr:{ROWS_COLUMN}", job.store)
            code = native.dtype_code(job.store.dtype_name)
            _write_section(writer, kind, owner, code, pieces, task)

    def _write_edges(
        self, writer: native.NativeWriter, number: int, task: native.Task | None
    ) -> None:
        part = self._graph.edges[number]
        if part.num_edges == 0:
            _write_no_edges(writer, number, part, self._compress)
            return
        with self._steps.edge_build(number) as step:
            step.reopen(max(part.num_src, part.num_dst))
            sections = step.build.sections()
            for files, name, kind, _ in sections:
                if kind in _VALUES or kind == native.SECTION_ARRAY:
                    continue
                lists, ids = (part.num_dst, part.num_src)
                if kind not in _CSC:
                    lists, ids = ids, lists
                if name == "indptr":
                    write_offsets(writer, files, kind, number, lists + 1, task)
                elif name == "minor" and self._compress:
                    scratch = step.journal.path("index")
                    column = EncodedColumn(files, name, scratch, step.memory)
                    column.write(writer, ENCODED[kind], number, task)
                elif name == "minor":
                    dtype = native.id_dtype(native.id_bytes_for(ids))
                    write_pieces(writer, kind, number, files, name, dtype, task)
                else:
                    files.write_section(writer, name, kind, number, task)
            if part.edge_order is not None:
                order = native.SECTION_EDGE_ORDER
                step.files.write_section(writer, f"attr:{ORDER_COLUMN}", order, number, task)
            for files, name, kind, _ in sections:
                if kind in _VALUES:
                    files.write_section(writer, name, kind, number, task)

    def _write_edge_array(
        self, writer: native.NativeWriter, owner: int, array: ArrayMeta, task: native.Task | None
    ) -> None:
        part, code = self._graph.edges[array.type], native.dtype_code(array.dtype)
        if part.num_edges == 0:
            _write_section(writer, native.SECTION_ARRAY, owner, code, iter(()), task)
            return
        with self._steps.edge_build(array.type) as step:
            step.reopen(max(part.num_src, part.num_dst))
            pieces = column_pieces(step.files, f"attr:a:{array.name}", part.edge_attrs[array.name])
            _write_section(writer, native.SECTION_ARRAY, owner, code, pieces, task)


def _write_no_edges(
    writer: native.NativeWriter, number: int, part: EdgeParts, compress: bool
) -> None:
    """Write the sections of an edge type without edges, as they are in the file that is read."""

    def section(kind: int, pieces: Iterator[NDArray[Any]], dtype: Any) -> None:
        _write_section(writer, kind, number, native.dtype_code(dtype), pieces, None)

    for lists, indptr, ids in (
        (part.csc, *_CSC),
        (part.csr, native.SECTION_CSR_INDPTR, native.SECTION_CSR_INDICES),
    ):
        if lists is None:
            continue
        section(indptr, pieces_of(lists.indptr), np.uint64)
        if compress:
            section(ENCODED[ids][0], iter(()), np.uint8)
            section(ENCODED[ids][1], iter((native.BlockEncoder().index(),)), np.uint64)
        else:
            section(ids, iter(()), lists.topology.id_dtype)
        if lists.edge_ids is not None:
            section(native.SECTION_CSR_EDGE_IDS, iter(()), lists.edge_ids.dtype)
    for kind, values in (
        (native.SECTION_EDGE_ORDER, part.edge_order),
        (native.SECTION_EDGE_WEIGHT, part.edge_weight),
        (native.SECTION_EDGE_TIME, part.edge_time),
    ):
        if values is not None:
            section(kind, iter(()), values.dtype)
