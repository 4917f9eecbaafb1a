"""Vectors brought to the present commit of a graph: the rows that may differ are computed again.

::

    features that changed ──┐  and their out-neighbours, and lists that changed
                            └──> stale rows of layer 0 ──┐  likewise
                                                         └──> stale rows of layer 1 ──> ...

New nodes are stale in every layer. A row depends on the rows of its node and of its in-neighbours
in the layer before, and on its lists: so no other row differs from what a run over all nodes
computes, and stale ones are computed by the code of that run. Of many types a layer follows the
edges of each, from the types that it reads rows of.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, nullcontext, suppress
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from aethergraph import _native as native
from aethergraph.convert.external.journal import Journal, interrupted_build, left_behind
from aethergraph.convert.outputs import check_outputs
from aethergraph.dynamic.attrs import SnapshotRows
from aethergraph.dynamic.hetero_snapshot import HeteroSnapshot
from aethergraph.dynamic.history import History
from aethergraph.errors import (
    InvalidArgumentError,
    LayoutError,
    OutOfMemoryError,
    OutOfRangeError,
    StorageError,
    UnsupportedError,
)
from aethergraph.features.feature_table import FeatureTable
from aethergraph.graph.schema import Schema
from aethergraph.inference.job import Embedding
from aethergraph.inference.layer_file import ChangedLayerFile
from aethergraph.inference.table import (
    HASHES,
    OUTPUT,
    Ids,
    KeptLayers,
    hash_rows,
    layer_name,
    origin_of,
    read_hashes,
)
from aethergraph.protocols import AnyGraph, EdgeType, RowSource
from aethergraph.storage.scratch import storage_error

__all__ = ["refresh_outputs"]

_ROWS, _LISTS = 1 << 16, 1 << 12  # rows of features, and lists, that are read at a time
_MERGED = "a merge gave up the log of what has changed"
_ANEW = "restart=True computes all nodes anew"
_ANEW_OVER = "restart=True, force=True computes all nodes anew, and overwrites it"


class _UnknownChangesError(Exception):
    """Error that says why it is not known what has changed since the layers were computed."""


def refresh_outputs(
    job: Embedding, out: str, command: dict[str, Any], graph: AnyGraph,
    rows: Mapping[str, RowSource], force: bool, restart: bool, remark: Callable[[str], None],
) -> dict[str, str]:  # fmt: skip
    """Bring outputs to the moment of a graph, or make them; return the files by node type.

    Args:
        job: the run over all nodes.
        out: the file, of a typed graph the folder of the files.
        command: what decides the rows but for the commit, and rows of features.
        graph: the graph at its moment.
        rows: what the first layer reads, by node type.
        force: overwrite files that are no outputs of such a call.
        restart: compute all nodes.
        remark: called with remarks.
    """
    inputs = [state["path"] for state in job.command["inputs"]]
    if not graph.is_typed:
        check_outputs([out], inputs, True)
    with job.folder(out), KeptLayers(out, command, graph, rows, restart) as kept:
        outputs = job.outputs(kept.output, kept.state.get("forms"))
        check_outputs([*outputs.values()], inputs, True)
        # A call that was killed at its end may have written the outputs.
        goes_on = not restart and left_behind(_first(outputs)) is not None
        if not (force or goes_on):
            _check_absent(kept, outputs, restart)
        return Refresh(job, kept, outputs, graph, rows, remark).run(force, restart)


def _first(outputs: Mapping[str, str]) -> str:
    """Return the output that the folder of a run over all nodes is beside."""
    return next(iter(outputs.values()))


def _files_of_others(kept: KeptLayers, outputs: Mapping[str, str]) -> list[str]:
    """Return the outputs that there are and that are not ours."""
    return [path for path in outputs.values() if os.path.lexists(path) and not kept.is_ours(path)]


def _check_absent(kept: KeptLayers, outputs: Mapping[str, str], restart: bool) -> None:
    """Raise StorageError if there is an output that is not ours."""
    path = next(iter(_files_of_others(kept, outputs)), None)
    if path is None:
        return
    if not kept.state:
        raise StorageError(
            errno.EEXIST,
            f"{path}: exists already, and {kept.folder} has no record of its layers; "
            "force=True overwrites it", path,
        )  # fmt: skip
    differences = [] if restart else kept.differences()
    more = f", and was made of something else: {'; '.join(differences)}" if differences else ""
    options = "restart=True, force=True" if restart or differences else "force=True"
    raise StorageError(
        errno.EEXIST,
        f"{path}: was written to since its vectors were computed{more}; {options} overwrites it",
        path,
    )


class Refresh:
    """One call of :func:`embed` with ``refresh=True``.

    Args:
        job: the run over all nodes.
        kept: the folder of the layers.
        outputs: files by node type that the layers are of.
        graph: the graph at its moment.
        rows: what the first layer reads, by node type.
        remark: called with remarks.
    """

    def __init__(
        self, job: Embedding, kept: KeptLayers, outputs: dict[str, str], graph: AnyGraph,
        rows: Mapping[str, RowSource], remark: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._job, self._kept, self._outputs, self._rows = job, kept, outputs, rows
        self._graph, self._schema = graph, Schema(graph)
        self._counts = self._schema.num_nodes_of()
        self._remark = remark

    def run(self, force: bool, restart: bool) -> dict[str, str]:
        """Bring the outputs to the moment of the graph; return them by node type."""
        kept, job, changes = self._kept, self._job, None
        if kept.state and not restart:
            try:
                changes = self._changes()
            except _UnknownChangesError as reason:
                self._remark(f"all nodes are computed: {reason}")
        if changes is not None:
            self._update(*changes)
            return self._outputs
        begun, outputs = None, job.outputs(kept.output)
        with suppress(InvalidArgumentError) if restart else nullcontext():
            begun = interrupted_build(_first(outputs))
        if begun is not None:
            force = force or bool(begun["state"].get("placed"))
            if not restart and self._is_of_another_moment(begun["command"]):
                self._remark(
                    "a run over all nodes was interrupted, and the graph or the features have "
                    "changed since: it begins anew"
                )
                restart = True
        force = force or not _files_of_others(kept, outputs)
        return job.run(kept.output, force, restart, self._remark, kept)

    def _is_of_another_moment(self, command: dict[str, Any]) -> bool:
        """Return whether work differs from ours by what may change from call to call, and alone."""
        both = [dict(some) for some in (command, self._job.command)]
        for some in both:
            some["graph"] = {**some["graph"], "lsn": None, "commit": None, "origin": None}
            some["features"] = some["inputs"] = some["edge_attrs"] = None
        return both[0] == both[1] and command != self._job.command

    # ---- what has changed ------------------------------------------------------------------

    def _changes(self) -> tuple[dict[EdgeType, Ids], dict[str, Ids]]:
        """Return the nodes whose lists have changed, and the rows of features that have, by type.

        Raises:
            _UnknownChangesError: it is not known.
            InvalidArgumentError: the layers are of something else, or of a later commit.
        """
        kept = self._kept
        differences = kept.differences()
        if differences:
            raise InvalidArgumentError(
                f"{kept.output} was made of something else: {'; '.join(differences)}. "
                f"{_ANEW_OVER if _files_of_others(kept, self._outputs) else _ANEW}"
            )
        for path in self._outputs.values():
            if not kept.is_ours(path):
                state = "was written to since" if os.path.lexists(path) else "is gone"
                raise _UnknownChangesError(f"{path} {state}")
        now, earliest = kept.now, kept.earliest
        for moment in (kept.state["moment"], earliest):
            self._check_history(moment)
        part = "commit" if now["memory"] == earliest["memory"] else "lsn"
        if now[part] < earliest[part]:
            raise InvalidArgumentError(
                f"the graph is at {part} {now[part]}, and {kept.output} is of {part} "
                f"{earliest[part]}: give a later snapshot, or the graph itself; {_ANEW}"
            )
        return self._changed_lists(), self._changed_rows()

    def _check_history(self, moment: dict[str, Any]) -> None:
        """Raise _UnknownChangesError if the graph has come to another commit of that number."""
        now, lsn = self._kept.now, moment["lsn"]
        if now["memory"] == moment["memory"] or now["lsn"] < lsn:
            return
        origin = origin_of(self._graph, lsn)
        if origin is None:
            raise _UnknownChangesError(_MERGED)
        if origin != moment.get("origin"):
            raise _UnknownChangesError(
                f"commit {lsn} of the graph is not the one that {self._kept.output} is of, as in a "
                "copy of its directory, an earlier backup, or after its log was cut"
            )

    def _changed_lists(self) -> dict[EdgeType, Ids]:
        """Return the nodes whose lists of in-edges have changed, by edge type."""
        before, now, graph = self._kept.state["moment"], self._kept.now, self._graph
        if now["memory"] == before["memory"]:
            if not now["memory"]:
                return {}  # it does not change
            try:
                return self._changed_between(graph, before["commit"])
            except UnsupportedError:
                raise _UnknownChangesError(_MERGED) from None
        # Another process has opened the graph since, where commits are counted anew.
        if now["lsn"] == before["lsn"]:
            return {}
        assert graph.native_snapshot is not None
        store = graph.native_snapshot.store
        path = store.path or store.replayed_path
        if path is None:
            raise _UnknownChangesError("the graph is not open in its directory")
        megabytes = max(1, -(-store.live.count().arena_bytes >> 20))
        try:
            with History(path, megabytes) as history:
                since = history.at(before["lsn"]).commit
                return self._changed_between(history.at(now["lsn"]), since)
        except OutOfRangeError:  # merged meanwhile
            raise _UnknownChangesError(_MERGED) from None
        except OutOfMemoryError as error:
            raise _UnknownChangesError(str(error)) from None

    def _changed_between(self, snapshot: Any, since: int) -> dict[EdgeType, Ids]:
        """Return the nodes whose lists have changed since a commit, by edge type of the graph."""
        then = HeteroSnapshot.of(snapshot)
        changed = [then.changed(since, edge_types=[kind])[kind[2]] for kind in then.edge_types]
        return dict(zip(self._schema.edge_types, changed, strict=True))

    def _changed_rows(self) -> dict[str, Ids]:
        """Return the rows of features that have changed, of nodes that there were, by type."""
        return {name: self._changed_of(name, rows) for name, rows in self._rows.items()}

    def _changed_of(self, name: str, rows: RowSource) -> Ids:
        kept, state = self._kept, self._kept.state
        left, before, count = kept.left_changed(name), state["moment"], state["nodes"][name]
        is_known = (
            kept.features[name] == state["features"][name]
            and kept.now["memory"] == before["memory"]
        )
        if isinstance(rows, SnapshotRows) and is_known:
            changed = rows.changed(before["commit"])
            return np.union1d(left, changed[changed < count])
        # Also of a file of the same time: a write through a mapping may not change that.
        hashes = kept.load(HASHES, name)
        report, parts = self._job.show("Comparing features", name), [left]
        for start, part in read_hashes(rows, count):
            parts.append(start + np.flatnonzero(part != hashes[start : start + len(part)]))
            report(start + len(part), count)
        return np.unique(np.concatenate(parts))

    # ---- the work --------------------------------------------------------------------------

    def _update(self, lists: Mapping[EdgeType, Ids], changed: Mapping[str, Ids]) -> None:
        kept, job, counts, outputs = self._kept, self._job, self._counts, self._outputs
        before, forms = kept.state["nodes"], kept.state["forms"]
        rows = {name: np.arange(before[name], count) for name, count in counts.items()}
        rows |= {name: np.union1d(ids, rows[name]) for name, ids in changed.items()}
        layers = [*zip([changed, *forms[:-1]], job.followed, strict=True)]
        reached = _stale_nodes(self._schema, lists, rows, layers)
        stale = [
            {name: nodes[name] for name in by_type}
            for by_type, nodes in zip(forms, reached, strict=True)
        ]
        if left_behind(_first(outputs)) is not None:
            # A run over all nodes that ended late: it shares files with the layers.
            Journal(_first(outputs), job.command, True).remove()
        if any(len(ids) for by_type in (rows, *stale) for ids in by_type.values()):
            limits = job.run_for(stale, forms)
            numbers = (f"{sum(map(len, by_type.values())):,}" for by_type in stale)
            self._remark(
                f"of {sum(counts.values()):,} nodes the layers compute {' and '.join(numbers)}"
            )
            kept.intend(changed, outputs.values())
            fresh = {
                kept.file(OUTPUT, name): outputs[name]
                for name, nodes in stale[-1].items() if len(nodes)
            }  # fmt: skip
            try:
                self._change_hashes(rows)  # before the first layer reads those rows
                for path, output in fresh.items():
                    _copy(output, path)
                self._change_layers(stale, limits)
                job.check_inputs()
                kept.intend_outputs(fresh)
                _place(fresh)
            except BaseException:
                for path in fresh:
                    with suppress(OSError):
                        os.unlink(path)
                raise
        else:
            self._remark("nothing has changed")
        kept.finish_with(counts, forms, [*outputs.values()])

    def _change_layers(
        self, stale: Sequence[Mapping[str, Ids]], limits: Sequence[Mapping[str, int]]
    ) -> None:
        """Write the rows of the nodes ``stale`` of each layer and type."""
        kept, job, before = self._kept, self._job, dict[str, str]()
        for number, by_type in enumerate(stale):
            file_of = OUTPUT if number == len(stale) - 1 else layer_name(number)
            with ExitStack() as stack:
                tables = {
                    name: stack.enter_context(FeatureTable.load(path, "mmap"))
                    for name, path in before.items()
                }
                for name, nodes in by_type.items():
                    if not len(nodes):
                        continue
                    results = job.results(number, name, tables or None, limits[number][name])
                    form = kept.state["forms"][number][name]
                    with self._changed(file_of, name, *form) as file, closing(results):
                        report, done = job.show_layer(number, name), 0
                        for result in results:
                            file.put(nodes[done : done + len(result)], result)
                            done += len(result)
                            report(done, len(nodes))
                        file.sync()
            before = {name: kept.file(file_of, name) for name in by_type}

    def _change_hashes(self, changed: Mapping[str, Ids]) -> None:
        """Write the hashes of rows of features."""
        for name, rows in self._rows.items():
            with self._changed(HASHES, name, (), np.uint64) as file:
                for start in range(0, len(changed[name]), _ROWS):
                    part = changed[name][start : start + _ROWS]
                    file.put(part, hash_rows(rows.gather(part)))
                file.sync()

    def _changed(
        self, file_of: str, node_type: str, row_shape: Iterable[int], dtype: DTypeLike
    ) -> ChangedLayerFile:
        """Open a file of rows of a type, which may have more nodes than it had."""
        path, shape = self._kept.file(file_of, node_type), (self._counts[node_type], *row_shape)
        before = self._kept.state["nodes"][node_type]
        return ChangedLayerFile(path, shape, np.dtype(dtype), before)


def _stale_nodes(
    schema: Schema, lists: Mapping[EdgeType, Ids], rows: Mapping[str, Ids],
    layers: Iterable[tuple[Collection[str], Collection[EdgeType]]],
) -> Iterator[dict[str, Ids]]:  # fmt: skip
    """Yield the nodes whose rows may differ, ascending, by type, for each layer.

    Args:
        schema: types of the graph as it is now.
        lists: nodes whose lists of in-edges have changed, by edge type; of those that are missing
            none have.
        rows: nodes whose features have changed, or that are new, by node type.
        layers: for each, the node types that it reads rows of, and the edge types that it follows.

    Raises:
        LayoutError: the graph does not store out-edges, which lead from a row to those that it
            is in.
    """
    counts = schema.num_nodes_of()
    reached = {name: np.zeros(count, np.bool_) for name, count in counts.items()}
    followed = {kind: np.zeros(counts[kind[0]], np.bool_) for kind in schema.edge_types}
    for name, ids in rows.items():
        reached[name][ids] = True
    for read, kinds in layers:
        fronts = {
            kind: np.flatnonzero(reached[kind[0]] & ~followed[kind])
            for kind in kinds if kind[0] in read
        }  # fmt: skip
        for kind in kinds:
            reached[kind[2]][lists.get(kind, [])] = True
        for kind, front in fronts.items():
            edges = schema.edges(kind)
            if len(front) and edges.layout == "csc":
                raise LayoutError(
                    f"{schema.label('graph', kind)} stores in-edges alone (layout 'csc'), and "
                    "refresh=True follows out-edges from what has changed: make the graph with "
                    f"layout='both', or {_ANEW}"
                )
            for start in range(0, len(front), _LISTS):
                out = edges.topology("csr").neighbors(front[start : start + _LISTS])[0]
                reached[kind[2]][out] = True
            followed[kind][front] = True
        yield {name: np.flatnonzero(of_type) for name, of_type in reached.items()}


def _copy(source: str, path: str) -> None:
    """Copy a file, sharing its blocks where the file system can."""
    try:
        with open(source, "rb") as before, open(path, "wb") as after:
            left = os.fstat(before.fileno()).st_size
            with suppress(OSError):  # file systems that cannot; the rest is copied below
                while left > 0:
                    count = os.copy_file_range(before.fileno(), after.fileno(), min(left, 1 << 30))
                    if not count:
                        break
                    left -= count
            before.seek(after.seek(0, os.SEEK_END))
            shutil.copyfileobj(before, after, 1 << 24)
    except OSError as error:
        raise storage_error(error, path) from None


def _place(fresh: Mapping[str, str]) -> None:
    """Give files the names of outputs in their folder, durably, and all of them at Ctrl-C."""

    def rename(_: native.Task) -> None:
        for path, output in fresh.items():
            try:
                os.replace(path, output)
            except OSError as error:
                raise storage_error(error, output) from None

    native.run_task(rename)
    for path in {os.path.dirname(output) for output in fresh.values()}:
        try:
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise storage_error(error, path) from None
