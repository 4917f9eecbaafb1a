r"""Reordering of a graph file within a memory budget, in steps that a later call can go on with.

::

    order   degrees -> ranks -> lists by rank, on disk -> order          work folder: order
    edges   for each edge type: the edges under their new ids            edge-*.building
    rows    for each attribute of nodes, their times, files of rows      rows-*.building
    write   all of it -> files of rows and ids, then the graph file

Lists and rows are made by the builder of ``convert --memory``: a row of a node is an edge into
the node's new id. Its own record says where an interrupted build of one of them goes on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph.convert.external.array_files import ColumnFiles
from aethergraph.convert.external.builder import BoundedBuild
from aethergraph.convert.external.journal import Journal
from aethergraph.convert.form import EdgeSource, GraphForm
from aethergraph.convert.reordering.sources import GraphInput, MovedEdges, MovedRows, RankedEdges
from aethergraph.convert.result import Clock, Stages
from aethergraph.graph.node_orders import GORDER_WINDOW, descending
from aethergraph.graph.parts import EdgeParts
from aethergraph.protocols import RowSource
from aethergraph.storage.scratch import storage_error

__all__ = ["NODE_BYTES", "RowJob", "StepBuild", "Steps", "pieces_of"]

#: Bytes per node in the hungriest step, Rabbit Order: 20 of its own, and 8 that it returns.
NODE_BYTES = 28
#: Bytes per node while lists and rows are made: the new ids.
_NEW_BYTES = 4
_VERSION = 1


class RowJob:
    """Rows of nodes to be moved.

    Attributes:
        owner: number of the node type.
        name: name of the attribute; None: times, or a file.
        store: the rows.
        label: what they are, for the progress.
        path: path of the file of rows; None: they are in the graph.
    """

    def __init__(
        self, owner: int, name: str | None, store: RowSource, label: str, path: str | None = None
    ) -> None:
        self.path = path
        self.owner = owner
        self.name = name
        self.store = store
        self.label = label


class StepBuild:
    """Build of the lists of one step; its folder is in that of the whole."""

    def __init__(self, path: str, form: GraphForm, memory: int, threads: int, show: Stages) -> None:
        self.journal = Journal(path, {"version": _VERSION}, False)
        self.memory = memory
        self.build = BoundedBuild(self.journal, form, memory, threads, show)

    def make(self, source: EdgeSource, lists: int) -> None:
        """Make all lists, or what is left of them to be made."""
        self.build.read(source)
        self.build.make_lists(lists)

    def reopen(self, lists: int) -> None:
        """Open the lists that were made."""
        self.build.make_lists(lists)

    @property
    def files(self) -> ColumnFiles:
        """Files of the lists."""
        return self.build.sections()[0][0]

    def close(self) -> None:
        """Close the files; the folder stays."""
        self.build.close()
        self.journal.close()

    def __enter__(self) -> StepBuild:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Steps:
    """The steps of one reordering up to where its files are written.

    Args:
        graph: the graph.
        journal: work folder, and what an earlier call has recorded in it.
        order: name of the order.
        compress: store neighbours in compressed blocks.
        memory: bytes for buffers and arrays of nodes.
        threads: sorting threads.
        num_threads: threads of Rabbit Order.
        show: announces a stage, and returns its progress function.
    """

    def __init__(
        self,
        graph: GraphInput,
        journal: Journal,
        order: str,
        compress: bool,
        memory: int,
        threads: int,
        num_threads: int,
        show: Stages,
    ) -> None:
        self.graph = graph
        self.journal = journal
        self.state: dict[str, Any] = {"edges": 0, "rows": 0, **journal.state}
        self._order_name = order
        self._compress = compress
        self._memory = memory
        self._threads = threads
        self._num_threads = num_threads
        self._show = show

    def run(self, rows: list[RowJob], seconds: dict[str, float]) -> None:
        """Do all steps that an earlier call has not finished."""
        clock = Clock(seconds)
        if not self.journal.state:
            self._record()  # from now on a later call finds what the steps have recorded
        if not self.state.get("ordered"):
            self._make_order()
        clock.lap("order")
        new = self.new_ids()
        for number in range(self.state["edges"], len(self.graph.edges)):
            if self.graph.edges[number].num_edges:
                with self.edge_build(number) as step:
                    label = "Moving edges" + self._of_type(number)
                    moved = MovedEdges(self.graph, number, new, self._show(label, "edges"))
                    step.make(moved, moved.num_nodes)
            self._record(edges=number + 1)
        clock.lap("edges")
        for number in range(self.state["rows"], len(rows)):
            job = rows[number]
            with self.row_build(number, job) as step:
                show = self._show(f"Moving {job.label}", "rows")
                step.make(
                    MovedRows(self.graph, job.owner, job.store, new, show), job.store.num_rows
                )
            self._record(rows=number + 1)
        clock.lap("rows")

    def note_placed(self) -> None:
        """Record that outputs are put in place from now on."""
        self._record(placed=True)

    def _of_type(self, number: int) -> str:
        kinds = self.graph.reader.meta.edge_types
        return f" {kinds[number].name}" if len(kinds) > 1 else ""

    def _record(self, **changes: Any) -> None:
        self.state.update(changes)
        self.journal.record(**self.state)
        native.trim_memory()

    # ---- order -----------------------------------------------------------------------------

    def _make_order(self) -> None:
        graph = self.graph
        degrees, both = graph.degrees(self._show("Counting edges", "edges"))
        ranked = native.rank_nodes(degrees, both)
        if self._order_name == "degree":
            self._save("order", descending(ranked.nodes, degrees).astype(np.uint32))
        else:
            self._save("nodes", ranked.nodes)
            ranks, entries = ranked.ranks, ranked.entries
            del degrees, ranked
            order = self._order_lists(ranks, entries, both)
            self._save("order", np.asarray(self._load("nodes"))[order])
            os.unlink(self.journal.path("nodes"))
        self._record(ordered=True)
        Journal(self.journal.path("lists"), {"version": _VERSION}, True).remove()

    def _order_lists(self, ranks: native.Ranks32, entries: int, both: bool) -> native.Ranks32:
        count = self.graph.num_nodes
        if entries == 0:
            return np.arange(count, dtype=np.uint32)[:: -1 if self._order_name != "rabbit" else 1]
        with self._step("lists", GraphForm(num_nodes=count), _NEW_BYTES) as step:
            show = self._show("Reading edges", "edges")
            step.make(RankedEdges(self.graph, ranks, both, show), count)
            del ranks
            native.trim_memory()
            files = step.files
            places = np.memmap(files.path("indptr"), np.uint64, "r", shape=count + 1)
            neighbors = np.memmap(files.path("minor"), np.uint32, "r+", shape=files.edges)
            lists = native.RankLists(places, neighbors)
            return native.run_long(
                lambda task: self._place(lists, task),
                self._show("Ordering nodes", "nodes"),
                16 * count,
            )

    def _place(self, lists: native.RankLists, task: native.Task | None) -> native.Ranks32:
        if self._order_name == "rabbit":
            # Allocated one by one, edges take up to half as much again.
            kept = max(self._memory - NODE_BYTES * self.graph.num_nodes, 0) * 2 // 3
            path = self.journal.path("kept")
            with open(path, "w+b") as file:
                os.unlink(path)
                return native.rabbit_order(
                    lists, self._num_threads, task, memory=kept, file=file.fileno()
                )[0]
        native.sort_lists(lists, task)
        if self._order_name == "bfs":
            return native.bfs_order(lists, task)
        return native.gorder_order(lists, GORDER_WINDOW, task)

    def _save(self, name: str, array: NDArray[Any]) -> None:
        path = self.journal.path(name)
        try:
            with open(path, "wb") as file:
                file.write(np.ascontiguousarray(array).data)  # tofile() hides that a disk is full
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise storage_error(error, path) from None

    def _load(self, name: str) -> NDArray[np.uint32]:
        count = self.graph.num_nodes
        if count == 0:
            return np.empty(0, np.uint32)
        return np.memmap(self.journal.path(name), np.uint32, "r", shape=count)

    def old_ids(self) -> NDArray[np.uint32]:
        """Return the nodes of all types in their new order, mapped."""
        return self._load("order")

    def new_ids(self) -> native.Ranks32:
        """Return the new id of each node within its type, uint32, for the nodes of all types."""
        graph = self.graph
        new = np.empty(graph.num_nodes, np.uint32)
        ends = [
            first + part.num_nodes for first, part in zip(graph.firsts, graph.nodes, strict=True)
        ]
        done = [0] * len(ends)
        for old in pieces_of(self.old_ids()):
            for owner, (first, end) in enumerate(zip(graph.firsts, ends, strict=True)):
                nodes = old[(old >= first) & (old < end)]
                new[nodes] = np.arange(done[owner], done[owner] + len(nodes), dtype=np.uint32)
                done[owner] += len(nodes)
        return new

    # ---- builds ----------------------------------------------------------------------------

    def _step(self, name: str, form: GraphForm, node_bytes: int) -> StepBuild:
        memory = self._memory - node_bytes * self.graph.num_nodes
        return StepBuild(self.journal.path(name), form, memory, self._threads, self._show)

    def edge_build(self, number: int) -> StepBuild:
        """Return the build of the edges of a type."""
        part: EdgeParts = self.graph.edges[number]
        count = max(part.num_src, part.num_dst)
        form = GraphForm(part.layout, num_nodes=count, compress=self._compress)
        return self._step(f"edge-{number}", form, _NEW_BYTES)

    def row_build(self, number: int, job: RowJob) -> StepBuild:
        """Return the build of some rows."""
        form = GraphForm(num_nodes=job.store.num_rows)
        return self._step(f"rows-{number}", form, _NEW_BYTES)


def pieces_of(array: NDArray[Any], rows: int = 1 << 20) -> Iterator[NDArray[Any]]:
    """Yield copies of a mapped array's rows, some at a time."""
    for begin in range(0, len(array), rows):
        yield np.array(array[begin : begin + rows])
