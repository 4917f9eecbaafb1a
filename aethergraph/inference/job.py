"""The work of :func:`embed`: layer after layer, each a file of rows that the next one reads.

::

    features ──layer 0──> layer-0.npy ──layer 1──> layer-1.npy ──> OUT.npy
                          in OUT.npy.building, with the record of what is done:
                          the layer, the rows of it that are durable, and what all of it is made of

A layer is tried on the batch of one node first, and the next ones on zeros of the shape that it
returns. So the shapes of all files are known, and what does not fit is named, before work begins.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph.convert.external.driver import kept_if_useful
from aethergraph.convert.external.journal import Journal
from aethergraph.convert.inputs import input_state
from aethergraph.convert.outputs import PlacedFile, check_outputs
from aethergraph.convert.result import Stages
from aethergraph.errors import DiskFullError, FileChangedError, InvalidArgumentError
from aethergraph.features import FeatureTable
from aethergraph.inference.batches import AHEAD, Degrees, LayerBatches, Range, cut, gathered_dtype
from aethergraph.inference.fingerprints import describe_function, name_of
from aethergraph.inference.layer_file import LayerFile
from aethergraph.loading.batch import Batch
from aethergraph.loading.columns import Column
from aethergraph.loading.state import describe, describe_commit, describe_graph
from aethergraph.protocols import HomogeneousGraph, RowSource
from aethergraph.sampling.keys import hash_ids, mix_key
from aethergraph.storage.budget import Budget
from aethergraph.storage.memory import format_size

__all__ = ["Embedding", "Layer", "Options", "describe_command"]

_VERSION = 1
#: Seconds of work that a kill may cost.
RECORD_SECONDS = 5.0
#: Bytes of rows that batches of no given size gather, about.
_BATCH_BYTES = 16 << 20
#: Samples whose rows are planned together at most, and bytes of an edge or a node of one.
_PLANNED, _SAMPLE_BYTES = 64, 32
_COMPARED = 1 << 16  # rows in memory that are hashed at a time


class Layer(Protocol):
    """A layer: any callable on batches.

    What it is called with has ``x``, rows of nodes of which the first ``batch_size`` are those that
    it is to return rows of, ``edge_index`` between these rows, all edges that end at the first
    ones, and ``edge_attrs``. It may have an attribute ``fingerprint``, a text that is another one
    if it would return other rows: work that was interrupted goes on with the same one alone.
    Without one, functions are told by their code and what they close over, objects by their class
    and their public attributes.
    """

    def __call__(self, batch: Batch, /) -> NDArray[Any]:
        """Return the rows of the first ``batch.batch_size`` nodes of a batch."""
        ...


class Options(NamedTuple):
    """Options of :func:`embed`, checked."""

    fanouts: Sequence[int]
    batch_size: int | None
    dtype: np.dtype[Any] | None
    seed: int
    budget: Budget


class _Form(NamedTuple):
    """Rows that a layer returns."""

    row_shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def row_bytes(self) -> int:
        return int(np.prod(self.row_shape, dtype=np.int64)) * self.dtype.itemsize


class Embedding:
    """One call of :func:`embed`.

    Args:
        layers: the layers.
        graph: the graph at one moment.
        rows: what the first layer reads.
        edge_columns: attributes of edges that batches carry.
        options: checked options.
        command: what decides the output, as :func:`describe_command` returns it.
        show: announces a stage, and returns its progress function.
    """

    def __init__(
        self, layers: Sequence[Layer], graph: HomogeneousGraph, rows: RowSource,
        edge_columns: Sequence[Column], options: Options, command: dict[str, Any], show: Stages,
    ) -> None:  # fmt: skip
        self._layers, self._graph, self._rows = layers, graph, rows
        self._edge_columns, self._options, self._show = edge_columns, options, show
        self._command = command
        by_fanout = {fanout: Degrees(graph, fanout) for fanout in options.fanouts}
        self._degrees = [by_fanout[fanout] for fanout in options.fanouts]
        self._forms: list[_Form] = []

    def run(self, out: str, force: bool, restart: bool, remark: Callable[[str], None]) -> None:
        """Do all that is left to be done."""
        journal = Journal(out, self._command, restart)
        try:
            with kept_if_useful(journal, remark):
                if "finished" in journal.state:
                    return
                check_outputs([out], [], force or bool(journal.state.get("placed")))
                self._forms = self._try_layers()
                state = {"layer": 0, "rows": 0, **journal.state}
                if journal.state:
                    place = f"row {state['rows']:,} of layers[{state['layer']}]"
                    is_done = state["layer"] == len(self._layers)
                    remark(f"going on at {'the end of the last layer' if is_done else place}")
                limits = self._limits()
                self._check_disk(journal, state["layer"], state["rows"])
                for number in range(state["layer"], len(self._layers)):
                    self._run_layer(journal, number, state["rows"], limits[number])
                    state["rows"] = 0
                self._place(journal, out)
        finally:
            journal.remove_if_new()

    # ---- before work begins ----------------------------------------------------------------

    def _try_layers(self) -> list[_Form]:
        """Call all layers for one node; return the form of their rows."""
        degrees = self._degrees[0].of(0)
        few = np.where(degrees > 0, degrees, np.iinfo(np.int64).max)
        node = int(few.argmin()) if len(few) else 0
        batch = self._batches(0, self._rows).at(Range(node, node + min(len(few), 1)))
        forms: list[_Form] = []
        for number, layer in enumerate(self._layers):
            try:
                rows = layer(batch)
            except Exception as error:
                raise InvalidArgumentError(
                    f"layers[{number}] ({name_of(layer)}) does not take rows of shape "
                    f"{batch.node_attrs['x'].shape[1:]} and {batch.node_attrs['x'].dtype}, as "
                    f"{f'layers[{number - 1}] returns' if number else 'features has'} them: "
                    f"{type(error).__name__}: {error}"
                ) from error
            self._check_rows(number, rows, batch, None)
            forms.append(_Form(rows.shape[1:], rows.dtype))
            zeros = np.zeros((len(batch.subgraph.node), *rows.shape[1:]), rows.dtype)
            batch = replace(batch, node_attrs={"x": zeros})
        if self._options.dtype is not None:
            forms[-1] = _Form(forms[-1].row_shape, self._options.dtype)
        return forms

    def _check_rows(self, number: int, rows: Any, batch: Batch, form: _Form | None) -> None:
        """Raise unless a layer has returned an array of rows for the nodes of a batch."""
        label = f"layers[{number}] ({name_of(self._layers[number])}) returned"
        if not isinstance(rows, np.ndarray):
            raise InvalidArgumentError(f"{label} a {type(rows).__name__}, not a numpy array")
        if rows.ndim == 0 or len(rows) != batch.batch_size:
            raise InvalidArgumentError(
                f"{label} shape {rows.shape} for {batch.batch_size} nodes: return a row for each "
                "of the first batch.batch_size nodes of the batch"
            )
        native.dtype_code(rows.dtype, label)
        if form is not None and (rows.shape[1:], rows.dtype) != form:
            raise InvalidArgumentError(
                f"{label} rows of shape {rows.shape[1:]} and {rows.dtype} for nodes "
                f"{batch.seeds[0]}..{batch.seeds[-1]}, before of {form.row_shape} and {form.dtype}"
            )

    def _limits(self) -> list[int]:
        """Return how many nodes and edges a batch of each layer may have.

        Raises:
            InvalidArgumentError: a node has more neighbours than the budget has room for; names
                the least that has.
        """
        room, needed, limits = self._options.budget.limit * 3 // 8, 0, []
        largest = (0, 0)
        value_bytes = sum(_form_of(column.rows).row_bytes for column in self._edge_columns)
        row_bytes = _form_of(self._rows).row_bytes
        for form, degrees in zip(self._forms, self._degrees, strict=True):
            # Ids and rows of the batches that wait, and at the layer messages and their copies.
            edge_bytes = (AHEAD + 2) * (24 + row_bytes + value_bytes) + 52
            edge_bytes += 3 * max(row_bytes, form.row_bytes)
            node, degree = degrees.largest
            if (degree + 1) * edge_bytes > max(room, needed):
                needed, largest = (degree + 1) * edge_bytes, (node, degree)
            limit = room // edge_bytes
            if self._options.batch_size is None:
                limit = min(limit, _limit_of(row_bytes))
            limits.append(limit)
            row_bytes = form.row_bytes
        if needed:
            raise InvalidArgumentError(
                f"{self._options.budget} is too small for node {largest[0]}, which has "
                f"{largest[1]:,} neighbours: the least is {(-(-needed * 8 // 3) >> 20) + 1}M, or "
                "take some of them, num_neighbors="
            )
        return limits

    def _check_disk(self, journal: Journal, layer: int, rows: int) -> None:
        """Raise DiskFullError if the files of the layers that are left do not fit."""
        count = self._graph.num_nodes
        sizes = [0, *(count * form.row_bytes for form in self._forms)]
        pairs = [a + b for a, b in zip(sizes[layer:], sizes[layer + 1 :], strict=False)]
        present = sizes[layer] + rows * (self._forms[layer].row_bytes if pairs else 0)
        needed = max(pairs, default=0) - present
        free = shutil.disk_usage(journal.folder).free
        if needed > free:
            raise DiskFullError(
                errno.ENOSPC,
                f"{journal.folder}: the files of two layers need {format_size(needed)}, and "
                f"{format_size(free)} are free",
                journal.folder,
            )

    # ---- the layers ------------------------------------------------------------------------

    def _batches(self, number: int, rows: RowSource) -> LayerBatches:
        key = mix_key(self._options.seed, number)
        fanout = self._options.fanouts[number]
        return LayerBatches(self._graph, rows, self._edge_columns, fanout, key)

    def _run_layer(self, journal: Journal, number: int, begin: int, limit: int) -> None:
        form, layer, count = self._forms[number], self._layers[number], self._graph.num_nodes
        if number > 1:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(journal.path(_name(number - 2)))  # nobody reads it any more
        convert = self._options.dtype is not None and number == len(self._layers) - 1
        batch_size = self._options.batch_size or count + 1
        ranges = cut(self._degrees[number], begin, batch_size, limit)
        report = self._show(f"Layer {number + 1} of {len(self._layers)}", "nodes")
        with contextlib.ExitStack() as stack:
            rows = self._rows
            if number:
                rows = stack.enter_context(self._open(journal, number - 1))
            path = journal.path(_name(number))
            file = stack.enter_context(LayerFile(path, (count, *form.row_shape), form.dtype, begin))
            batches = stack.enter_context(
                self._batches(number, rows).of(
                    ranges, min(batch_size, limit), self._num_planned(limit)
                )
            )
            recorded = time.monotonic()
            for batch in batches:
                result = layer(batch)
                self._check_rows(number, result, batch, None if convert else form)
                file.append(result.astype(form.dtype) if convert else result)
                report(file.rows, count)
                if time.monotonic() - recorded >= RECORD_SECONDS and file.rows < count:
                    self._record(journal, file, layer=number, rows=file.rows)
                    recorded = time.monotonic()
            self._record(journal, file, layer=number + 1, rows=0)

    def _num_planned(self, limit: int) -> int:
        """Return how many samples are drawn before the rows of the first are fetched."""
        return min(_PLANNED, self._options.budget.limit // 8 // (2 * _SAMPLE_BYTES * limit))

    def _open(self, journal: Journal, number: int) -> FeatureTable:
        """Open the rows that a layer has returned: in memory if they fit, else through a cache."""
        half = self._options.budget.limit // 2
        return FeatureTable.load(journal.path(_name(number)), "auto", memory_budget=half)

    def _record(self, journal: Journal, file: LayerFile, **state: int) -> None:
        for before in self._command["inputs"]:
            if os.path.exists(before["path"]) and input_state(before["path"]) != before:
                raise FileChangedError(
                    f"{before['path']} was written to meanwhile: restart=True begins anew"
                )
        file.sync()
        journal.record(**state)

    def _place(self, journal: Journal, out: str) -> None:
        with native.FileSet() as files:
            source = journal.path(_name(len(self._layers) - 1))
            files.add(PlacedFile(source, out)).finish()
            journal.record(**{**journal.state, "placed": True})
            files.commit()
        journal.finish([out], {})


def _limit_of(row_bytes: int) -> int:
    """Return the nodes and edges of a batch of no given size."""
    return max(1024, _BATCH_BYTES // max(1, row_bytes))


def _form_of(rows: RowSource) -> _Form:
    """Return the form of rows in batches."""
    return _Form(rows.row_shape, gathered_dtype(rows))


def _name(number: int) -> str:
    return f"layer-{number}.npy"


def describe_command(
    layers: Sequence[Layer], graph: HomogeneousGraph, at: Any, rows: RowSource,
    options: Options, edge_columns: Sequence[Column],
) -> dict[str, Any]:  # fmt: skip
    """Return what decides the output, for work that is to go on.

    Args:
        layers: the layers.
        graph: the graph that was given.
        at: that graph at its moment.
        rows: what the first layer reads.
        options: checked options.
        edge_columns: attributes of edges that batches carry.
    """
    files = [path for path in (graph.path, rows.path) if path and os.path.isfile(path)]
    lists = describe_graph(graph, describe_commit(graph, at) if graph.is_live else None)
    if not graph.is_live and graph.native_snapshot is not None:  # a snapshot of one that is
        lists["commit"] = str(at.lsn or at.commit)
    of_commit = at.native_snapshot is not None  # whose number tells what its lists and rows are
    if not of_commit and at.path is None and at.storage == "memory":
        lists["all lists"] = _hash_all_lists(at)
    is_own = of_commit and any(rows is attr for attr in at.node_attrs.values())
    return {
        "version": _VERSION, "inputs": [input_state(path) for path in dict.fromkeys(files)],
        "graph": lists,
        "features": _describe_rows(rows, not is_own),
        "layers": [
            {
                "name": name_of(layer),
                "fingerprint": str(getattr(layer, "fingerprint", None) or describe_function(layer)),
            }
            for layer in layers
        ],
        "num_neighbors": list(options.fanouts), "seed": options.seed,
        "dtype": str(options.dtype),
        "edge_attrs": {
            column.name: _describe_rows(column.rows, not of_commit) for column in edge_columns
        },
    }  # fmt: skip


def _hash_all_lists(graph: Any) -> str:
    """Return a hash of all lists of in-edges."""
    key, topology = 0, graph.topology("csc")
    for start in range(0, graph.num_nodes, _COMPARED):
        nodes = np.arange(start, min(start + _COMPARED, graph.num_nodes))
        key = mix_key(
            key, hash_ids(graph.in_degrees(nodes)), hash_ids(topology.neighbors(nodes)[0])
        )
    return f"{key:016x}"


def _describe_rows(rows: RowSource, is_all: bool) -> str:
    """Return shape, dtype, and a hash: with ``is_all`` of all rows in memory, else of some."""
    key, count = 0, rows.num_rows
    if is_all and rows.is_in_memory and rows.path is None:
        for start in range(0, count, _COMPARED):
            key = mix_key(key, *describe(rows.read(start, min(start + _COMPARED, count))).encode())
    else:
        some = np.unique(np.linspace(0, max(count - 1, 0), min(count, 64)).astype(np.int64))
        key = mix_key(*describe(rows.gather(some)).encode())
    return f"{rows.dtype_name}{list(rows.shape)} of hash {key:016x}"
