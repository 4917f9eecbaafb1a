"""Building of a graph file from more edges than memory holds, by partitioning on disk.

::

    read    chunks -> records -> runs, partitioned by major id         work folder: edges
    lists   part after part: order, append to columns                  list-*
    turn    (layout "both") (src, dst, edge id) of the lists -> runs   turned
    out     part after part: order, append                             out-*
    write   columns -> sections of the graph file, ids compressed on the way if asked for

Finished work of each step is recorded (:mod:`aethergraph.convert.external.journal`), so that the
same call continues after a kill. The file equals the one that :meth:`Graph.from_edges` and ``save``
write.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.times import unit_of
from aethergraph._parallel.prefetch import prefetch_iter
from aethergraph.convert.external.array_files import ColumnFiles
from aethergraph.convert.external.encoded import EncodedColumn
from aethergraph.convert.external.journal import Journal
from aethergraph.convert.external.lists import ListBuilder, ListOrder
from aethergraph.convert.external.runs import Run, RunWriter, Spill, load_runs, save_counts
from aethergraph.convert.form import EdgeSource, GraphForm
from aethergraph.convert.readers.base import ProgressFn
from aethergraph.convert.readers.edges import EdgeChunk
from aethergraph.errors import InvalidArgumentError
from aethergraph.graph.beside import GraphFile
from aethergraph.storage.meta import ArrayMeta, EdgeType, FileMeta, NodeType

__all__ = ["BoundedBuild"]

RECORD_SECONDS = 5.0
_REVERSED = 1 << 62  # rows of reverse edges come after all others
_TURN_ROWS = 1 << 18
_U64 = np.dtype(np.uint64)
_NONE: Mapping[str, str] = {}
#: Sections that replace sections of ids in a compressed file.
_ENCODED = {
    native.SECTION_CSC_INDICES: (native.SECTION_CSC_BLOCKS, native.SECTION_CSC_INDEX),
    native.SECTION_CSR_INDICES: (native.SECTION_CSR_BLOCKS, native.SECTION_CSR_INDEX),
}


class BoundedBuild:
    """One build: :meth:`read`, :meth:`make_lists`, :meth:`write`, in this order.

    Args:
        journal: work folder, and the record of an earlier build in it.
        form: form of the graph to build.
        memory: bytes for buffers.
        threads: sorting threads.
        show: called with name and unit of a stage; returns the stage's progress function.
        keeps_time: write the times of edges; else they only order the lists.

    Attributes:
        rows_before: rows of the inputs that an earlier build has read.
    """

    def __init__(
        self,
        journal: Journal,
        form: GraphForm,
        memory: int,
        threads: int,
        show: Callable[[str, str], ProgressFn],
        keeps_time: bool = True,
    ) -> None:
        # The lists of the other direction are ordered by the times in those of the first.
        self._keeps_time = keeps_time or form.layout == "both"
        self._journal = journal
        self._form = form
        self._memory = memory
        self._threads = threads
        self._show = show
        self._state: dict[str, Any] = {"phase": "read", **journal.state}
        self.rows_before = int(self._state.get("rows", 0))
        self._attrs: dict[str, tuple[np.dtype[Any], int, tuple[int, ...]]] = {}
        self._columns: list[tuple[str, np.dtype[Any], int]] = []
        self._time_unit: str | None = None
        self._recorded_at = time.monotonic()
        self._lists: ColumnFiles | None = None
        self._out: ColumnFiles | None = None
        self._num_minor = 0
        if "columns" in self._state:
            self._restore_columns()

    @property
    def resumed_at(self) -> str | None:
        """Description of what an earlier build had finished; None if nothing."""
        state = self._journal.state
        if not state:
            return None
        if state["phase"] == "read":
            file, chunk = state["position"]
            return f"{state['rows']:,} edges were read (file {file + 1}, chunk {chunk})"
        done = {"lists": "in-lists", "turn": "turned edges", "out": "out-lists", "write": "lists"}
        if self._form.layout == "csr":
            done["lists"] = "out-lists"
        return f"all edges were read, {done[state['phase']]} up to edge {state.get('edges', 0):,}"

    def _record(self, **changes: Any) -> None:
        self._state.update(changes)
        self._journal.record(**self._state)
        if "phase" in changes:
            native.trim_memory()  # the next phase has buffers of other sizes
        self._recorded_at = time.monotonic()

    # ---- read ------------------------------------------------------------------------------

    def read(self, source: EdgeSource) -> int:
        """Read all edges; return the number of rows of the inputs."""
        if self._state["phase"] == "read":
            self._read(source)
        return int(self._state["rows"])

    def _read(self, source: EdgeSource) -> None:
        state = self._state
        rows, nodes = state.get("rows", 0), state.get("num_nodes", 0)
        file, chunk_number = state.get("position", (0, 0))
        spill: Spill | None = None
        writer: RunWriter | None = None
        chunks = prefetch_iter(source.chunks((file, chunk_number)), depth=3)
        try:
            for position, chunk in chunks:
                if spill is None:
                    self._choose_columns(chunk)
                    spill = self._open_edges()
                    writer = self._writer(spill)
                assert writer is not None
                if chunk.src.size:
                    largest = max(int(chunk.src.max()), int(chunk.dst.max()))
                    nodes = max(nodes, largest + 1, source.num_nodes)
                    self._add(writer, chunk, rows, largest)
                    rows += int(chunk.src.size)
                writer.at({"position": position, "rows": rows, "num_nodes": nodes})
        except BaseException:
            if writer is not None:
                writer.close(finish=False)
            raise
        finally:
            chunks.close()
        if writer is not None:
            writer.close()
        state.update(rows=rows, num_nodes=max(nodes, source.num_nodes), phase="lists")
        if rows:
            self._record(lists=0, edges=0)

    def _writer(self, spill: Spill) -> RunWriter:
        nodes = self._form.num_nodes
        counts = self._journal.path("edges.counts")
        return RunWriter(
            spill,
            self._memory,
            high=None if nodes is None else max(nodes - 1, 0),
            id_bytes=4 if nodes is None else native.id_bytes_for(nodes),
            recorded=lambda run, at: self._record_run("runs", counts, run, at),
        )

    def _record_run(self, name: str, counts: str, run: Run, at: dict[str, Any] | None) -> None:
        """Note that a run is on disk.

        If it ends where a chunk does, a build can continue from there.
        """
        runs = self._state.setdefault(name, [])
        runs.append(save_counts(counts, len(runs), run))
        if at is not None:
            self._record(**at)

    def _open_edges(self) -> Spill:
        spill = Spill(self._journal.path("edges"), "major", self._columns, checked=True)
        rows = self._state.get("runs", [])
        spill.restore(load_runs(self._journal.path("edges.counts"), rows))
        return spill

    def _add(self, writer: RunWriter, chunk: EdgeChunk, first_row: int, largest: int) -> None:
        ends = (chunk.src, chunk.dst) if self._form.layout == "csr" else (chunk.dst, chunk.src)
        values = [
            np.ascontiguousarray(a.view(np.int64) if a.dtype.kind == "M" else a)
            for a in (chunk.weight, chunk.time, *chunk.attrs.values())
            if a is not None
        ]
        rows: list[NDArray[Any]] = []
        if self._form.carries_rows:
            rows = [np.arange(first_row, first_row + len(chunk.src), dtype=_U64)]
        major, minor = (np.ascontiguousarray(ids, np.int64) for ids in ends)
        writer.add(major, minor, rows + values, largest)
        if self._form.undirected:
            back = np.flatnonzero(chunk.src != chunk.dst)
            ends = (ends[1][back], ends[0][back])
            rows = [rows[0][back] + np.uint64(_REVERSED)]
            writer.add(*ends, rows + [a[back] for a in values], largest)

    def _choose_columns(self, chunk: EdgeChunk) -> None:
        columns: list[list[Any]] = []
        if self._form.carries_rows:
            columns.append(["row", "<u8", []])
        for name, array in (("weight", chunk.weight), ("time", chunk.time)):
            if array is not None:
                columns.append([name, array.dtype.str, []])
        for name, array in chunk.attrs.items():
            columns.append([f"attr:{name}", array.dtype.str, list(array.shape[1:])])
        known = self._state.setdefault("columns", columns)
        if known != columns:
            raise InvalidArgumentError(
                f"{self._journal.folder}: the edges have other values than before; "
                "restart=True begins anew"
            )
        self._restore_columns()

    def _restore_columns(self) -> None:
        self._columns = []
        for name, text, shape in self._state["columns"]:
            dtype, items = np.dtype(text), int(np.prod(shape, dtype=np.int64))
            if dtype.kind == "M":
                dtype, self._time_unit = np.dtype(np.int64), unit_of(dtype)
            self._columns.append((name, dtype, items))
            if name.startswith("attr:"):
                self._attrs[name[5:]] = (dtype, items, tuple(shape))

    # ---- lists -----------------------------------------------------------------------------

    @property
    def num_nodes(self) -> int:
        """Largest id + 1; known once all edges are read."""
        return int(self._state["num_nodes"])

    @property
    def num_records(self) -> int:
        """Edges before any were dropped; known once lists are made."""
        return int(self._state["num_records"])

    def note_companions(self) -> None:
        """Record that features and labels may be in place from now on."""
        self._record(companions=True)

    def make_lists(self, num_nodes: int, num_minor: int | None = None) -> int:
        """Build the lists of ``num_nodes`` nodes; return the number of their edges.

        Args:
            num_nodes: number of lists.
            num_minor: number of nodes that are in the lists; None: as many. Not for the layout
                "both".

        Raises:
            InvalidArgumentError: an earlier build was for another number of nodes.
        """
        if self._state.setdefault("nodes", num_nodes) != num_nodes:
            raise InvalidArgumentError(
                f"{self._journal.folder}: was built for {self._state['nodes']} nodes, not for "
                f"{num_nodes}: features or labels have changed; restart=True begins anew"
            )
        self._num_minor = num_nodes if num_minor is None else num_minor
        ids = native.id_dtype(native.id_bytes_for(self._num_minor))
        if self._state["phase"] == "lists":
            self._make_edge_lists(num_nodes, ids)
        else:
            state = self._state
            self._lists = self._first_files(ids, num_nodes, int(state["num_edges"]))
        assert self._lists is not None
        if self._form.layout == "both":
            self._make_out_lists(num_nodes, ids)
        return self._lists.edges

    def _first_files(self, ids: np.dtype[Any], lists: int, edges: int) -> ColumnFiles:
        columns: dict[str, tuple[np.dtype[Any], int]] = {"minor": (ids, 1)}
        for name, dtype, items in self._columns:
            if name != "row":
                if name != "time" or self._keeps_time:
                    columns[name] = (dtype, items)
            elif self._form.keep_order:
                columns[name] = (native.id_dtype(native.id_bytes_for(self._state["rows"])), 1)
            elif self._form.layout == "both":
                columns[name] = (_U64, 1)
        sums = self._state.get("list_sums")
        prefix = self._journal.path("list-")
        return ColumnFiles(prefix, columns, lists, edges, sums, self._num_minor)

    def _make_edge_lists(self, num_nodes: int, ids: np.dtype[Any]) -> None:
        spill = self._open_edges()
        self._state["num_records"] = sum(run.count for run in spill.runs)
        files = self._first_files(ids, self._state["lists"], self._state["edges"])
        form = self._form
        order = ListOrder(form.undirected, form.dedup, any(c[0] == "time" for c in self._columns))
        self._run_lists(spill, files, "list_sums", order, num_nodes, "Building lists")
        after = "turn" if form.layout == "both" else "write"
        self._record(
            phase=after, num_edges=files.edges, edges=0, turned=[], list_sums=dict(files.sums)
        )
        spill.remove()
        self._lists = files

    def _run_lists(
        self, spill: Spill, files: ColumnFiles, sums: str, order: ListOrder, num_nodes: int,
        stage: str,
    ) -> None:  # fmt: skip
        """Make all lists, and record their checksums as ``sums``."""
        total = sum(run.count for run in spill.runs)
        progress = self._show(stage, "edges")

        def advanced() -> None:
            progress(files.edges, total)
            if time.monotonic() - self._recorded_at >= RECORD_SECONDS:
                files.sync()
                state = {"lists": files.lists, "edges": files.edges, sums: dict(files.sums)}
                self._record(**state)
                spill.discard(files.lists)

        builder = ListBuilder(
            spill, files, order, self._memory, self._threads, self._journal.path("split-"), advanced
        )
        builder.build(num_nodes)
        files.sync()
        progress(total, total)

    # ---- the other direction -----------------------------------------------------------------

    def _turned_columns(self) -> list[tuple[str, np.dtype[Any], int]]:
        return [("edge", _U64, 1), ("row", _U64, 1), *(c for c in self._columns if c[0] == "time")]

    def _make_out_lists(self, num_nodes: int, ids: np.dtype[Any]) -> None:
        assert self._lists is not None
        edges = native.id_dtype(native.id_bytes_for(self._lists.edges))
        columns = {"minor": (ids, 1), "edge": (edges, 1)}
        prefix = self._journal.path("out-")
        state = self._state
        if state["phase"] == "write":
            sums = state["out_sums"]
            self._out = ColumnFiles(prefix, columns, num_nodes, self._lists.edges, sums)
            return
        counts = self._journal.path("turned.counts")
        spill = Spill(self._journal.path("turned"), "major", self._turned_columns(), checked=True)
        spill.restore(load_runs(counts, state["turned"]))
        if state["phase"] == "turn":
            self._turn(spill, counts, num_nodes)
            self._record(phase="out", lists=0, edges=0)
        sums = state.get("out_sums")
        self._out = ColumnFiles(prefix, columns, state["lists"], state["edges"], sums)
        order = ListOrder(row=True, time=len(spill.columns) > 2)
        self._run_lists(spill, self._out, "out_sums", order, num_nodes, "Building out-lists")
        self._record(phase="write", edges=self._lists.edges, out_sums=dict(self._out.sums))
        spill.remove()

    def _turn(self, spill: Spill, counts: str, num_nodes: int) -> None:
        files = self._lists
        assert files is not None
        progress = self._show("Turning edges", "edges")
        writer = RunWriter(
            spill, self._memory, high=num_nodes - 1, id_bytes=native.id_bytes_for(num_nodes),
            recorded=lambda run, at: self._record_run("turned", counts, run, at),
        )  # fmt: skip
        names = ["minor", "row", *(["time"] if len(spill.columns) > 2 else [])]
        sums = dict(self._state.get("turn_sums") or dict.fromkeys(names, 0))
        try:
            for first, dst in files.edges_from(int(self._state["edges"]), _TURN_ROWS):
                end = first + len(dst)
                arrays = {name: files.read(name, first, end) for name in names}
                for name, rows in arrays.items():
                    sums[name] = (sums[name] + native.hash_items(rows, first)) % 2**64
                columns = [np.arange(first, end, dtype=_U64), arrays["row"].astype(_U64)]
                columns += [arrays[name] for name in names[2:]]
                writer.add(arrays["minor"].astype(np.int64), dst, columns, num_nodes - 1)
                writer.at({"edges": end, "turn_sums": dict(sums)})
                progress(end, files.edges)
            for name in names:
                files.compare(name, sums[name])
        except BaseException:
            writer.close(finish=False)
            raise
        writer.close()

    # ---- write -------------------------------------------------------------------------------

    def write(
        self, path: native.Path, time_zone: str | None = None,
        fingerprints: Mapping[str, str] = _NONE, files: native.FileSet | None = None,
    ) -> None:  # fmt: skip
        """Write the graph file and put it in place.

        Args:
            path: the file.
            time_zone: time zone of the times, or None.
            fingerprints: of the files beside it, by node type and suffix.
            files: set that puts the file in place together with others; None: at once.
        """
        lists = self._lists
        assert lists is not None
        sections = self.sections()
        meta = replace(self._meta(lists), time_zone=time_zone, beside=fingerprints)
        total = sum(column_files.nbytes(name) for column_files, name, *_ in sections)

        def work(task: native.Task | None) -> None:
            with GraphFile(path, meta, files) as writer:
                for column_files, name, kind, owner in sections:
                    if self._form.compress and kind in _ENCODED:
                        scratch = self._journal.path("index")
                        column = EncodedColumn(column_files, name, scratch, self._memory)
                        column.write(writer, _ENCODED[kind], owner, task)
                    else:
                        column_files.write_section(writer, name, kind, owner, task)

        native.run_long(work, self._show("Writing graph", "B"), total)

    def _meta(self, lists: ColumnFiles) -> FileMeta:
        arrays = []
        for name in sorted(self._attrs):
            dtype, _, shape = self._attrs[name]
            text = native.DTYPE_NAMES[native.dtype_code(dtype)]
            arrays.append(ArrayMeta(name, "edge", 0, text, (lists.edges, *shape)))
        nodes = NodeType("node", int(self._state["nodes"]))
        edges = EdgeType(0, "to", 0, lists.edges)
        return FileMeta((nodes,), (edges,), tuple(arrays), self._time_unit)

    def sections(self) -> list[tuple[ColumnFiles, str, int, int]]:
        """Return (files, column, kind of section, owner) in the order of the file.

        The lists must be made.
        """
        lists, out = self._lists, self._out
        assert lists is not None
        kinds = (native.SECTION_CSC_INDPTR, native.SECTION_CSC_INDICES)
        if self._form.layout == "csr":
            kinds = (native.SECTION_CSR_INDPTR, native.SECTION_CSR_INDICES)
        sections = [(lists, "indptr", kinds[0], 0), (lists, "minor", kinds[1], 0)]
        if out is not None:
            sections.append((out, "indptr", native.SECTION_CSR_INDPTR, 0))
            sections.append((out, "minor", native.SECTION_CSR_INDICES, 0))
            sections.append((out, "edge", native.SECTION_CSR_EDGE_IDS, 0))
        if self._form.keep_order:
            sections.append((lists, "row", native.SECTION_EDGE_ORDER, 0))
        for name, kind in (
            ("weight", native.SECTION_EDGE_WEIGHT),
            ("time", native.SECTION_EDGE_TIME),
        ):
            if name in lists.columns:
                sections.append((lists, name, kind, 0))
        for number, name in enumerate(sorted(self._attrs)):
            sections.append((lists, f"attr:{name}", native.SECTION_ARRAY, number))
        return sections

    def close(self) -> None:
        """Close the column files."""
        for files in (self._lists, self._out):
            if files is not None:
                files.close()
