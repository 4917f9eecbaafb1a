"""Conversion within a memory budget: :func:`aethergraph.convert.convert` with ``memory_budget``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Literal

from aethergraph import _native as native
from aethergraph._checks.options import as_flag
from aethergraph.convert.arguments import as_file, as_threads
from aethergraph.convert.external.budget import working_memory
from aethergraph.convert.external.builder import BoundedBuild
from aethergraph.convert.external.damage import WorkFileError
from aethergraph.convert.external.journal import Journal
from aethergraph.convert.external.sort_rows import Room
from aethergraph.convert.form import EdgeSource, GraphForm
from aethergraph.convert.inputs import input_state
from aethergraph.convert.outputs import check_outputs
from aethergraph.convert.readers.base import InputError, PathLike, check_readable, detect_format
from aethergraph.convert.readers.edges import EdgeChunk, EdgeReader, Position
from aethergraph.convert.readers.from_program import Chunks, ChunkSource
from aethergraph.convert.request import Request
from aethergraph.convert.result import Clock, ConvertResult, Stages, check_density, silent
from aethergraph.errors import InvalidArgumentError, LimitError, OutOfRangeError, StorageError
from aethergraph.storage.budget import Budget

__all__ = ["BoundedJob", "convert_chunks", "convert_within", "kept_if_useful"]

_VERSION = 3  # version of the content of a work folder


class FileSource:
    """Edges of files, as a source for a bounded build."""

    def __init__(self, reader: EdgeReader) -> None:
        self._reader = reader

    @property
    def num_nodes(self) -> int:
        """Largest number of nodes that the files themselves give; 0 if they give none."""
        return self._reader.num_nodes

    def chunks(self, start: Position) -> Iterator[tuple[Position, EdgeChunk]]:
        """Yield the edges after ``start``, and the position where each chunk ends."""
        for position, arrays in self._reader.arrays_from(start):
            yield position, self._reader.chunk(arrays)


class BoundedJob:
    """Conversion of files within a budget, with its work folder.

    Args:
        request: inputs, output and form of the graph.
        budget: bound for the whole process.
        threads: parsing and sorting threads; None: as many as the native core uses.
        restart: do not continue an earlier build.
        remark: called at once with remarks for the user.
    """

    def __init__(
        self,
        request: Request,
        budget: Budget,
        *,
        threads: int | None,
        restart: bool,
        remark: Callable[[str], None] | None,
    ) -> None:
        self._request = request
        for path in (*request.files, *request.tables.inputs):
            check_readable(path)
        formats = [detect_format(path, request.reading["format"]) for path in request.files]
        self._threads = threads or native.get_num_threads()
        formats += [detect_format(path) for path in request.tables.inputs]
        self._memory = working_memory(budget, formats, self._threads)
        self._remark = remark or (lambda text: None)
        command = {
            "version": _VERSION,
            "inputs": [input_state(path) for path in request.files],
            **request.form.__dict__,
            **request.options,
        }
        self.journal = Journal(request.output, command, restart)

    @property
    def has_companions(self) -> bool:
        """True if an earlier build has put features and labels in place."""
        return bool(self.journal.state.get("companions"))

    def run(self, result: ConvertResult, show: Stages) -> None:
        """Do all steps; on failure keep the work folder if a later call can use it."""
        request, form = self._request, self._request.form
        reader = EdgeReader(
            request.files,
            request.plan,
            **request.reading,
            threads=self._threads,
            progress=show("Reading edges", "B"),
        )
        build = BoundedBuild(self.journal, form, self._memory, self._threads, show)
        if build.resumed_at is not None:
            self._remark(f"going on with an interrupted build: {build.resumed_at}")
        clock = Clock(result.seconds)
        with kept_if_useful(self.journal, self._remark), ExitStack() as stack:
            stack.callback(build.close)
            files = stack.enter_context(native.FileSet())
            result.read_edges = build.read(FileSource(reader))
            result.edges_read_now = result.read_edges - build.rows_before
            if result.read_edges == 0:
                raise InputError(request.files[0], "holds no edges")
            clock.lap("read")
            if reader.unused:
                result.notes.append(f"columns not used: {', '.join(reader.unused)}")
            result.notes += reader.notes
            room = Room(self._memory, self.journal.path("table-"))
            companions = request.tables.open(request.output, stack, show, room)
            result.notes += companions.notes
            clock.lap("features")
            num_nodes = form.num_nodes if form.num_nodes is not None else build.num_nodes
            result.num_nodes = companions.check_rows(num_nodes, form.num_nodes)
            request.check_density(result.num_nodes, result.read_edges)
            result.num_edges = build.make_lists(result.num_nodes)
            if form.dedup:
                dropped = build.num_records - result.num_edges
                result.notes.append(f"{dropped:,} duplicate edges dropped")
            clock.lap("build")
            companions.finish(result, files)
            build.write(request.output, files=files)
            build.note_companions()
            files.commit()
            clock.lap("write")


def convert_within(
    request: Request,
    budget: Budget,
    *,
    force: bool,
    threads: int | None,
    restart: bool,
    show: Stages,
    remark: Callable[[str], None] | None,
) -> ConvertResult:
    """Convert by sorting on disk, or continue an earlier build of the same command."""
    request.form.check_within_budget()
    request.check_graph(force)
    result = ConvertResult(request.output, layout=request.form.layout)
    job = BoundedJob(request, budget, threads=threads, restart=restart, remark=remark)
    try:
        request.check_all(force or job.has_companions)
        job.run(result, show)
    finally:
        job.journal.remove_if_new()
    return result


class kept_if_useful:
    """Context that removes the work folder on success or if the input is bad, and else keeps it.

    What was kept of a command that was wrong itself is of use for that command alone, say with more
    memory: another one begins anew.
    """

    def __init__(self, journal: Journal, remark: Callable[[str], None]) -> None:
        self._journal = journal
        self._remark = remark

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is None or issubclass(kind, (InputError, LimitError, OutOfRangeError)):
            self._journal.remove()
            return
        is_refused = issubclass(kind, InvalidArgumentError)
        if is_refused:
            with suppress(OSError, StorageError):
                self._journal.refuse()
        self._journal.remove_if_new()
        if os.path.isdir(self._journal.folder) and not issubclass(kind, WorkFileError):
            self._remark(
                f"what was finished is kept in {self._journal.folder}: the same command goes on "
                f"from there, {'another one or ' if is_refused else ''}restart=True begins anew"
            )


def convert_chunks(
    chunks: Chunks,
    output: PathLike,
    *,
    memory_budget: int | str,
    num_nodes: int | None = None,
    layout: Literal["csc", "csr", "both"] = "csc",
    keep_order: bool = False,
    undirected: bool = False,
    dedup: bool = False,
    compress: bool = False,
    force: bool = False,
    threads: int | None = None,
    stages: Stages | None = None,
) -> ConvertResult:
    """Build a graph file from edges that a program makes, within a memory budget.

    The file holds what :meth:`aethergraph.Graph.from_edges` makes of all edges. An interrupted
    build begins anew: chunks cannot be compared with those of an earlier call.

    Args:
        chunks: an iterable of (src, dst) or (src, dst, values): id arrays [n] and a mapping with
            "weight", "time" and names of edge attributes, arrays of n rows. All chunks have the
            same names, dtypes and shapes.
        output: the graph file; work files are in a folder beside it.
        memory_budget: bytes or a text such as "1G" that the process may take in all.
        num_nodes: as in :func:`aethergraph.convert.convert`.
        layout: as in :func:`aethergraph.convert.convert`.
        keep_order: as in :func:`aethergraph.convert.convert`.
        undirected: as in :func:`aethergraph.convert.convert`.
        dedup: as in :func:`aethergraph.convert.convert`.
        compress: as in :func:`aethergraph.convert.convert`.
        force: as in :func:`aethergraph.convert.convert`.
        threads: as in :func:`aethergraph.convert.convert`.
        stages: as in :func:`aethergraph.convert.convert`.

    Returns:
        The file that was written, and its sizes.

    Raises:
        InvalidArgumentError, OutOfRangeError: a bad value, with chunk and row; a budget that is
            too small, with the least.
        StorageError: an output cannot be written. Nothing is left behind.
    """
    form = GraphForm(layout, keep_order, undirected, dedup, num_nodes, compress)
    form.check_within_budget()
    budget = Budget.parse(memory_budget)
    output = as_file(output)
    check_outputs([output], [], as_flag(force, "force"))
    show = stages or silent
    threads = as_threads(threads) or native.get_num_threads()
    memory = working_memory(budget, None, threads)
    result = ConvertResult(output, layout=form.layout)
    clock = Clock(result.seconds)
    journal = Journal(output, {"version": _VERSION}, restart=True)
    build = BoundedBuild(journal, form, memory, threads, show)
    try:
        source: EdgeSource = ChunkSource(chunks, form.num_nodes)
        result.read_edges = result.edges_read_now = build.read(source)
        if result.read_edges == 0:
            raise InvalidArgumentError("chunks: there are no edges")
        clock.lap("read")
        result.num_nodes = build.num_nodes if form.num_nodes is None else form.num_nodes
        check_density("chunks", result.num_nodes, result.read_edges)
        result.num_edges = build.make_lists(result.num_nodes)
        if form.dedup:
            dropped = build.num_records - result.num_edges
            result.notes.append(f"{dropped:,} duplicate edges dropped")
        clock.lap("build")
        build.write(output)
        clock.lap("write")
    finally:
        build.close()
        journal.remove()
    return result
