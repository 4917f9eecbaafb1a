"""Vectors brought to the present commit of a graph: the rows that may differ are computed again.

::

    features that changed ──┐  and their out-neighbours, and lists that changed
                            └──> stale rows of layer 0 ──┐  likewise
                                                         └──> stale rows of layer 1 ──> ...

New nodes are stale in every layer. A row depends on the rows of its node and of its in-neighbours
in the layer before, and on its list: so no other row differs from what a run over all nodes
computes, and stale ones are computed by the code of that run.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, nullcontext, suppress
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from aethergraph.convert.external.journal import Journal, interrupted_build, left_behind
from aethergraph.convert.outputs import check_outputs
from aethergraph.dynamic.attrs import SnapshotRows
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
from aethergraph.graph.schema import NODE
from aethergraph.inference.job import Embedding
from aethergraph.inference.layer_file import ChangedLayerFile
from aethergraph.inference.table import (
    HASHES,
    OUTPUT,
    KeptLayers,
    hash_rows,
    layer_name,
    origin_of,
    read_hashes,
)
from aethergraph.protocols import HomogeneousGraph, RowSource
from aethergraph.storage.scratch import storage_error

if TYPE_CHECKING:
    from aethergraph.dynamic.snapshot import Snapshot

__all__ = ["refresh_output", "stale_nodes"]

Ids = NDArray[np.int64]
_ROWS, _LISTS = 1 << 16, 1 << 12  # rows of features, and lists, that are read at a time
_MERGED = "a merge gave up the log of what has changed"
_ANEW = "restart=True computes all nodes anew"
_ANEW_OVER = "restart=True, force=True computes all nodes anew, and overwrites it"


class _UnknownChangesError(Exception):
    """Error that says why it is not known what has changed since the layers were computed."""


def refresh_output(
    job: Embedding, output: str, command: dict[str, Any], graph: Any, rows: RowSource,
    force: bool, restart: bool, remark: Callable[[str], None],
) -> None:  # fmt: skip
    """Bring an output to the moment of a graph, or make it.

    Args:
        job: the run over all nodes.
        output: the file.
        command: what decides the rows but for the commit, and rows of features.
        graph: the graph at its moment, of one type.
        rows: what the first layer reads.
        force: overwrite a file that is no output of such a call.
        restart: compute all nodes.
        remark: called with remarks.
    """
    inputs = [state["path"] for state in job.command["inputs"]]
    check_outputs([output], inputs, True)
    with KeptLayers(output, command, graph, rows, restart) as kept:
        # A call that was killed at its end may have written the output.
        goes_on = not restart and left_behind(output) is not None
        if not (force or goes_on or kept.has_output):
            _check_absent(kept, restart)
        Refresh(job, kept, graph, rows, remark).run(force, restart)


def _check_absent(kept: KeptLayers, restart: bool) -> None:
    """Raise StorageError if there is an output that is not ours."""
    if not os.path.lexists(kept.output):
        return
    if not kept.state:
        raise StorageError(
            errno.EEXIST,
            f"{kept.output}: exists already, and {kept.folder} has no record of its layers; "
            "force=True overwrites it", kept.output,
        )  # fmt: skip
    differences = [] if restart else kept.differences()
    more = f", and was made of something else: {'; '.join(differences)}" if differences else ""
    options = "restart=True, force=True" if restart or differences else "force=True"
    raise StorageError(
        errno.EEXIST,
        f"{kept.output}: was written to since its vectors were computed{more}; {options} "
        "overwrites it", kept.output,
    )  # fmt: skip


class Refresh:
    """One call of :func:`embed` with ``refresh=True``.

    Args:
        job: the run over all nodes.
        kept: the folder of the layers.
        graph: the graph at its moment.
        rows: what the first layer reads.
        remark: called with remarks.
    """

    def __init__(
        self, job: Embedding, kept: KeptLayers, graph: HomogeneousGraph, rows: RowSource,
        remark: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._job, self._kept, self._graph, self._rows = job, kept, graph, rows
        self._remark = remark

    def run(self, force: bool, restart: bool) -> None:
        """Bring the output to the moment of the graph."""
        kept, changes = self._kept, None
        if kept.state and not restart:
            try:
                changes = self._changes()
            except _UnknownChangesError as reason:
                self._remark(f"all nodes are computed: {reason}")
        if changes is not None:
            self._update(*changes)
            return
        begun = None
        with suppress(InvalidArgumentError) if restart else nullcontext():
            begun = interrupted_build(kept.output)
        if begun is not None:
            force = force or bool(begun["state"].get("placed"))
            if not restart and self._is_of_another_moment(begun["command"]):
                self._remark(
                    "a run over all nodes was interrupted, and the graph or the features have "
                    "changed since: it begins anew"
                )
                restart = True
        self._job.run(kept.output, force or kept.has_output, restart, self._remark, kept)

    def _is_of_another_moment(self, command: dict[str, Any]) -> bool:
        """Return whether work differs from ours by what may change from call to call, and alone."""
        both = [dict(some) for some in (command, self._job.command)]
        for some in both:
            some["graph"] = {**some["graph"], "lsn": None, "commit": None, "origin": None}
            some["features"] = some["inputs"] = some["edge_attrs"] = None
        return both[0] == both[1] and command != self._job.command

    # ---- what has changed ------------------------------------------------------------------

    def _changes(self) -> tuple[Ids, Ids]:
        """Return the nodes whose lists have changed, and the rows of features that have.

        Raises:
            _UnknownChangesError: it is not known.
            InvalidArgumentError: the layers are of something else, or of a later commit.
        """
        kept = self._kept
        differences = kept.differences()
        if differences:
            is_ours = kept.has_output or not os.path.lexists(kept.output)
            raise InvalidArgumentError(
                f"{kept.output} was made of something else: {'; '.join(differences)}. "
                f"{_ANEW if is_ours else _ANEW_OVER}"
            )
        if not kept.has_output:
            state = "was written to since" if os.path.lexists(kept.output) else "is gone"
            raise _UnknownChangesError(f"{kept.output} {state}")
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

    def _changed_lists(self) -> Ids:
        """Return the nodes whose lists of in-edges have changed."""
        before, now = self._kept.state["moment"], self._kept.now
        snapshot = cast("Snapshot", self._graph)
        if now["memory"] == before["memory"]:
            if not now["memory"]:
                return np.empty(0, np.int64)  # it does not change
            try:
                return snapshot.changed(since=before["commit"])
            except UnsupportedError:
                raise _UnknownChangesError(_MERGED) from None
        # Another process has opened the graph since, where commits are counted anew.
        if now["lsn"] == before["lsn"]:
            return np.empty(0, np.int64)
        store = snapshot.native_snapshot.store
        path = store.path or store.replayed_path
        if path is None:
            raise _UnknownChangesError("the graph is not open in its directory")
        megabytes = max(1, -(-store.live.count().arena_bytes >> 20))
        try:
            with History(path, megabytes) as history:
                since = history.at(before["lsn"]).commit
                then = cast("Snapshot", history.at(now["lsn"]))  # of one type, as the graph
                return then.changed(since=since)
        except OutOfRangeError:  # merged meanwhile
            raise _UnknownChangesError(_MERGED) from None
        except OutOfMemoryError as error:
            raise _UnknownChangesError(str(error)) from None

    def _changed_rows(self) -> Ids:
        """Return the rows of features that have changed, of nodes that there were."""
        kept, rows, count = self._kept, self._rows, self._kept.state["nodes"]
        left, before = kept.left_changed(), kept.state["moment"]
        is_known = (
            kept.features == kept.state["features"] and kept.now["memory"] == before["memory"]
        )
        if isinstance(rows, SnapshotRows) and is_known:
            changed = rows.changed(before["commit"])
            return np.union1d(left, changed[changed < count])
        # Also of a file of the same time: a write through a mapping may not change that.
        hashes = kept.load(HASHES)
        report, parts = self._job.show("Comparing features", "nodes"), [left]
        for start, part in read_hashes(rows, count):
            parts.append(start + np.flatnonzero(part != hashes[start : start + len(part)]))
            report(start + len(part), count)
        return np.unique(np.concatenate(parts))

    # ---- the work --------------------------------------------------------------------------

    def _update(self, lists: Ids, changed: Ids) -> None:
        kept, job, count = self._kept, self._job, self._graph.num_nodes
        before, forms = kept.state["nodes"], kept.state["forms"]
        new = np.union1d(changed, np.arange(before, count))  # rows of features
        stale = stale_nodes(self._graph, lists, new, job.num_layers)
        if left_behind(kept.output) is not None:
            # A run over all nodes that ended late: it shares files with the layers.
            Journal(kept.output, job.command, True).remove()
        if len(stale[-1]):
            limits = job.run_for(stale, forms)
            numbers = " and ".join(f"{len(nodes):,}" for nodes in stale)
            self._remark(f"of {count:,} nodes the layers compute {numbers}")
            kept.intend(changed)
            fresh = kept.path(OUTPUT)
            try:
                self._change_hashes(new, before)  # before the first layer reads those rows
                _copy(kept.output, fresh)
                self._change_layers(stale, limits, before)
                job.check_inputs()
                kept.intend_output(fresh)
                _replace(fresh, kept.output)
            except BaseException:
                with suppress(OSError):
                    os.unlink(fresh)
                raise
        else:
            self._remark("nothing has changed")
        kept.finish_with(count, forms)

    def _change_layers(self, stale: Sequence[Ids], limits: Sequence[int], before: int) -> None:
        """Write the rows of the nodes ``stale`` of each layer; there were ``before`` nodes."""
        kept, job, path = self._kept, self._job, ""
        for number, nodes in enumerate(stale):
            shape, dtype = kept.state["forms"][number]
            with ExitStack() as stack:
                rows = None
                if number:
                    rows = {NODE: stack.enter_context(FeatureTable.load(path, "mmap"))}
                path = kept.path(OUTPUT if number == len(stale) - 1 else layer_name(number))
                file = stack.enter_context(
                    ChangedLayerFile(path, (self._graph.num_nodes, *shape), np.dtype(dtype), before)
                )
                results = job.results(number, rows, limits[number])
                stack.enter_context(closing(results))
                report, done = job.show_layer(number), 0
                for result in results:
                    file.put(nodes[done : done + len(result)], result)
                    done += len(result)
                    report(done, len(nodes))
                file.sync()

    def _change_hashes(self, ids: Ids, before: int) -> None:
        """Write the hashes of rows of features; there were ``before`` rows."""
        path, shape = self._kept.path(HASHES), (self._graph.num_nodes,)
        with ChangedLayerFile(path, shape, np.dtype(np.uint64), before) as file:
            for start in range(0, len(ids), _ROWS):
                part = ids[start : start + _ROWS]
                file.put(part, hash_rows(self._rows.gather(part)))
            file.sync()


def stale_nodes(graph: HomogeneousGraph, lists: Ids, rows: Ids, num_layers: int) -> list[Ids]:
    """Return the nodes whose rows may differ, ascending, for each layer.

    Args:
        graph: the graph as it is now.
        lists: nodes whose lists of in-edges have changed.
        rows: nodes whose features have changed, or that are new.
        num_layers: number of layers.

    Raises:
        LayoutError: the graph does not store out-edges, which lead from a row to those that it
            is in.
    """
    stale, front = list[Ids](), rows
    reached, followed = np.zeros((2, graph.num_nodes), np.bool_)
    reached[rows] = True
    for _ in range(num_layers):
        if len(front) and graph.layout == "csc":
            raise LayoutError(
                "graph stores in-edges alone (layout 'csc'), and refresh=True follows out-edges "
                f"from what has changed: make the graph with layout='both', or {_ANEW}"
            )
        for start in range(0, len(front), _LISTS):
            out = graph.topology("csr").neighbors(front[start : start + _LISTS])[0]
            reached[out] = True
        reached[lists], followed[front] = True, True
        stale.append(np.flatnonzero(reached))
        front = np.flatnonzero(reached & ~followed)
    return stale


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


def _replace(fresh: str, path: str) -> None:
    """Give a file the name of another one, durably."""
    try:
        os.replace(fresh, path)
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise storage_error(error, path) from None
