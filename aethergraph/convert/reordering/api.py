"""The function behind ``aethergraph reorder``."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count, as_ids
from aethergraph._checks.options import as_choice, as_flag
from aethergraph.convert.arguments import as_file, as_files, as_threads
from aethergraph.convert.external.budget import working_memory
from aethergraph.convert.external.driver import kept_if_useful
from aethergraph.convert.external.journal import Journal
from aethergraph.convert.inputs import input_state
from aethergraph.convert.outputs import NpyWriter, check_outputs
from aethergraph.convert.readers.base import PathLike
from aethergraph.convert.reordering.job import NODE_BYTES, RowJob, Steps
from aethergraph.convert.reordering.sources import GraphInput
from aethergraph.convert.reordering.writing import GraphSections, write_rows_file
from aethergraph.convert.result import Clock, Stages, silent
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.features.feature_table import FeatureTable
from aethergraph.graph.id_files import ids_path
from aethergraph.graph.ids import check_ids
from aethergraph.graph.node_orders import ORDERS, Order
from aethergraph.storage.budget import Budget

__all__ = ["ReorderResult", "reorder"]

_VERSION = 1
_MOST_THREADS = 256


@dataclass
class ReorderResult:
    """Files and sizes of a finished reordering.

    Attributes:
        graph: the graph file.
        rows: files of rows, by the file that each was made of.
        ids: files of node ids, by the file that each was made of.
        num_nodes: number of nodes of all types.
        num_edges: number of edges of all types.
        seconds: seconds per step ("order", "edges", "rows", "write").
        notes: remarks worth telling the user.
    """

    graph: str
    rows: dict[str, str] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    num_nodes: int = 0
    num_edges: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def reorder(
    graph: PathLike,
    output: PathLike,
    *,
    order: Order = "rabbit",
    memory_budget: int | str | None = None,
    rows: PathLike | Sequence[PathLike] = (),
    ids: PathLike | Sequence[PathLike] = (),
    compress: bool | None = None,
    num_threads: int = 1,
    force: bool = False,
    threads: int | None = None,
    restart: bool = False,
    stages: Stages | None = None,
    remark: Callable[[str], None] | None = None,
) -> ReorderResult:
    """Write a graph file with its nodes in another order, within a memory budget.

    The file is the one that ``graph.permute(graph.reorder(order))`` and ``save`` write, for graphs
    of one type or many. Edges and features may be larger than memory; arrays of all nodes are
    not: 28 bytes per node. A call that was killed goes on where it was when it is repeated; only
    the making of the order itself begins anew. Work files are beside the output: twice the
    graph's size on disk, and twice that of rows.

    Args:
        graph: the graph file. It stays as it is.
        output: the graph file to write; another one.
        order: as in :meth:`aethergraph.Graph.reorder`. ``"gorder"`` reads lists at random: it
            takes very long where they do not fit in memory.
        memory_budget: bytes or a text such as ``"1G"`` that the process may take in all; default:
            4 GiB, or half of the memory if that is less.
        rows: files with one row per node, ``.npy`` or native: features, labels, masks. They are
            written in the new order beside the output: ``x.npy`` as ``<output's stem>.x.npy``.
        ids: ``.npy`` files with vectors of node ids, such as splits: new ids are written in the
            same places, under such names; as int64 where theirs cannot hold all ids.
        compress: store neighbours in compressed blocks. None: as in the graph.
        num_threads: threads of Rabbit Order; other numbers than 1 give another order every time.
        force: overwrite outputs.
        threads: sorting threads; None: as many as the native core uses.
        restart: do not go on from an interrupted call.
        stages: called with name and unit of each stage; returns a progress function.
        remark: called at once with remarks for the user.

    Returns:
        The files that were written, and their sizes.

    Raises:
        InvalidArgumentError: a bad value; rows or ids that are not of this graph's nodes; a
            budget that is too small, with the least; a work folder of another call.
        UnsupportedError: rows or ids for a graph of several node types.
        OutOfRangeError: an id is of no node; names file, position and value.
        LimitError: there are 2^32 - 1 nodes or more.
        StorageError, FormatError, CorruptFileError: a file cannot be read or written.
    """
    job = _Job(
        as_file(graph), as_file(output), as_choice(order, ORDERS, "order"),
        Budget.optional(memory_budget), _as_files(rows, "rows"),
        _as_files(ids, "ids"), compress, _as_num_threads(num_threads),
        as_threads(threads) or native.get_num_threads(), stages or silent,
    )  # fmt: skip
    return job.run(as_flag(force, "force"), as_flag(restart, "restart"), remark or (lambda _: None))


def _as_files(paths: Any, name: str) -> list[str]:
    none = isinstance(paths, (list, tuple)) and not paths
    return [] if none else as_files(paths, name)


def _as_num_threads(num_threads: Any) -> int:
    threads = as_count(num_threads, "num_threads")
    if threads > _MOST_THREADS:
        raise InvalidArgumentError(f"num_threads = {threads} is not in 0..{_MOST_THREADS}")
    return threads


class _Job:
    def __init__(
        self, path: str, output: str, order: str, budget: Budget | None, rows: list[str],
        ids: list[str], compress: bool | None, num_threads: int, threads: int, show: Stages,
    ) -> None:  # fmt: skip
        self._path = path
        self._output = output
        self._order = order
        self._row_files = {source: _beside(output, source) for source in rows}
        self._id_files = {source: _beside(output, source) for source in ids}
        self._num_threads = num_threads
        self._threads = threads
        self._show = show
        self._graph = graph = GraphInput(path)
        if (rows or ids) and len(graph.nodes) != 1:
            raise UnsupportedError(
                f"{path}: has {len(graph.nodes)} node types; rows and ids are for graphs of one: "
                "keep them as attributes of their type in the graph"
            )
        stored = any(p.any_lists.compressed for p in graph.edges)
        self._compress = stored if compress is None else as_flag(compress, "compress")
        self._memory = working_memory(budget, None, threads, NODE_BYTES * graph.num_nodes)
        self._stack = ExitStack()
        self._jobs = self._row_jobs()
        self._ids = {source: self._read_ids(source) for source in ids}

    def _row_jobs(self) -> list[RowJob]:
        """Return all rows of nodes: those in the graph, then those of files."""
        jobs = []
        for owner, node in enumerate(self._graph.nodes):
            guard = self._graph.reader.guard
            for store in node.node_values(guard, None).values():
                jobs.append(RowJob(owner, None, store, "times of nodes"))
            for name in sorted(node.node_attrs):
                jobs.append(RowJob(owner, name, node.node_attrs[name], f"{name} of nodes"))
        for path in self._row_files:
            rows = self._stack.enter_context(FeatureTable.load(path))
            if rows.num_rows != self._graph.num_nodes:
                raise InvalidArgumentError(
                    f"{path} has {rows.num_rows} rows, but {self._path} has "
                    f"{self._graph.num_nodes} nodes"
                )
            jobs.append(RowJob(0, None, rows, os.path.basename(path), path))
        return jobs

    def _read_ids(self, path: str) -> NDArray[Any]:
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):  # reading a pipe would wait for ever
                raise ValueError("it is no file")
            ids: NDArray[Any] = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise InvalidArgumentError(f"{path}: is no .npy file of ids: {error}") from None
        check_ids(as_ids(ids, path), self._graph.num_nodes, path)
        return ids

    def run(self, force: bool, restart: bool, remark: Callable[[str], None]) -> ReorderResult:
        inputs = [self._path, *self._row_files, *self._id_files]
        outputs = [self._output, *self._row_files.values(), *self._id_files.values()]
        check_outputs([self._output], inputs, force)
        command = {
            "version": _VERSION, "inputs": [input_state(path) for path in inputs],
            "order": self._order, "compress": self._compress, "num_threads": self._num_threads,
            "outputs": outputs[1:],
        }  # fmt: skip
        with self._stack:
            journal = Journal(self._output, command, restart)
            try:
                check_outputs(outputs, inputs, force or bool(journal.state.get("placed")))
                if journal.state:
                    remark(f"going on with an interrupted call in {journal.folder}")
                with kept_if_useful(journal, remark):
                    return self._steps(journal)
            finally:
                journal.remove_if_new()

    def _steps(self, journal: Journal) -> ReorderResult:
        graph = self._graph
        result = ReorderResult(self._output, num_nodes=graph.num_nodes, num_edges=graph.num_edges)
        steps = Steps(
            graph, journal, self._order, self._compress, self._memory, self._threads,
            self._num_threads, self._show,
        )  # fmt: skip
        steps.run(self._jobs, result.seconds)
        clock = Clock(result.seconds)
        in_graph = [(n, j) for n, j in enumerate(self._jobs) if j.path is None]
        sections = GraphSections(steps, in_graph, self._compress)
        with native.FileSet() as files:
            self._write_files(steps, result, files)
            native.run_long(
                lambda task: sections.write(self._output, task, files),
                self._show("Writing graph", "B"),
                sections.size,
            )
            steps.note_placed()
            files.commit()
        clock.lap("write")
        for kind in graph.reader.meta.node_types:
            if os.path.exists(ids_path(self._path, kind.name)):
                result.notes.append(
                    f"{ids_path(self._path, kind.name)} maps keys to ids of {self._path}: "
                    "node_ids of the new graph leads to them"
                )
        return result

    def _write_files(self, steps: Steps, result: ReorderResult, files: native.FileSet) -> None:
        for number, job in enumerate(self._jobs):
            if job.path is not None:
                result.rows[job.path] = path = self._row_files[job.path]
                write_rows_file(steps, number, job, path, files)
        new = steps.new_ids() if self._ids else None
        for source, ids in self._ids.items():
            result.ids[source] = path = self._id_files[source]
            assert new is not None
            is_wide = np.iinfo(ids.dtype).max >= len(new) - 1  # small ids may get large ones
            dtype = ids.dtype if is_wide else np.dtype(np.int64)
            writer = files.add(NpyWriter(path, dtype, ()))
            writer.append(new[ids].astype(dtype))
            writer.finish()


def _beside(output: str, path: str) -> str:
    """Return the place of what is made of a file: beside the output, under both names."""
    return f"{Path(output).with_suffix('')}.{os.path.basename(path)}"
