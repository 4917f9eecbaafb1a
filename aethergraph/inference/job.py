"""The work of :func:`embed`: layer after layer, each a file of rows that the next one reads.

::

    features ──layer 0──> layer-0.npy ──layer 1──> layer-1.npy ──> OUT.npy
                          in OUT.npy.building, with the record of what is done:
                          the layer, the rows of it that are durable, and what all of it is made of

A graph of one type is a typed graph with one type. Where users name types, a layer makes a file of
each, ``layer-0-paper.npy``, one after the other; the record has the type, too.

With ``refresh=True`` the files of all layers are kept (table.py), and a later call computes some
rows of each (refresh.py).

A layer is tried on the batch of one node first, and the next ones on zeros of the shape that it
returns. So the shapes of all files are known, and what does not fit is named, before work begins.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._parallel.prefetch import PrefetchIterator
from aethergraph.convert.external.driver import kept_if_useful
from aethergraph.convert.external.journal import Journal, left_behind
from aethergraph.convert.inputs import input_state
from aethergraph.convert.outputs import PlacedFile, check_outputs
from aethergraph.convert.result import Stages
from aethergraph.errors import (
    DiskFullError,
    FileChangedError,
    InvalidArgumentError,
    StorageError,
)
from aethergraph.features.feature_table import FeatureTable
from aethergraph.features.files import save_rows
from aethergraph.graph.schema import NODE, Schema
from aethergraph.inference.aggregation import Aggregate, AggregatedBatches, aggregate_of
from aethergraph.inference.batches import (
    AHEAD,
    Degrees,
    Fanout,
    LayerBatches,
    Range,
    Until,
    cut,
    fanouts_of,
    rows_by_type,
)
from aethergraph.inference.fingerprints import name_of
from aethergraph.inference.finite import FiniteWatch
from aethergraph.inference.forms import Form, Forms, describe_forms, form_of, with_zeros
from aethergraph.inference.layer_file import LayerFile, map_rows
from aethergraph.inference.plan import (
    BATCHES,
    BLOCKS,
    bytes_of_batches,
    orders_of,
)
from aethergraph.inference.table import (
    HASHES,
    Ids,
    KeptLayers,
    file_name,
    hash_features,
    layer_name,
    name_in_files,
)
from aethergraph.loading.columns import Column
from aethergraph.protocols import AnyGraph, EdgeType, HomogeneousGraph, RowSource
from aethergraph.sampling.keys import mix_key
from aethergraph.storage.budget import Budget
from aethergraph.storage.memory import format_size
from aethergraph.storage.scratch import storage_error

__all__ = ["Embedding", "Layer", "Options"]

#: Seconds of work that a kill may cost.
RECORD_SECONDS = 5.0
#: Bytes of rows that batches of no given size gather, about.
_BATCH_BYTES = 16 << 20
#: Samples whose rows are planned together at most, and bytes of an edge or a node of one.
_PLANNED, _SAMPLE_BYTES = 64, 32
#: Bytes of a cache of rows at least, however many types share the budget.
_LEAST_CACHE = 256 << 10


class Layer(Protocol):
    """A layer: any callable on batches.

    What it is called with has ``x``, rows of nodes of which the first ``batch_size`` are those that
    it is to return rows of, ``edge_index`` between these rows, all edges that end at the first
    ones, and ``edge_attrs``. It may have an attribute ``fingerprint``, a text that is another one
    if it would return other rows: work that was interrupted goes on with the same one alone.
    Without one, functions are told by their code and what they close over, objects by their class
    and their public attributes.

    With an attribute ``aggregate``, ``"sum"``, ``"mean"`` or ``"max"``, it says that of the rows of
    neighbours it needs no more than that. It may then be called with batches in which each node
    with in-edges has a single one, from a row behind those of the nodes, which is what the rows of
    its neighbours come to. A pair, ``("sum", "edge_weight")``, also names the attribute of edges
    that these rows are multiplied by; it is 1 in such batches. Numbers of neighbours, and
    attributes of edges, are not in them.

    Of a typed graph it gets a :class:`~aethergraph.loading.batch.HeteroBatch`, which has all of
    this by type. ``batch.seeds`` has the node type whose rows are wanted, and no other; ``batch.x``
    has the types that have rows. It returns None for a type that has none after it.
    """

    def __call__(self, batch: Any, /) -> NDArray[Any] | None:
        """Return the rows of the first ``batch.batch_size`` nodes of a batch."""
        ...


class Options(NamedTuple):
    """Options of :func:`embed`, checked."""

    fanouts: Sequence[Fanout]
    batch_size: int | None
    dtype: str | None
    seed: int
    budget: Budget
    until: Until | None = None


class Embedding:
    """One call of :func:`embed`.

    Args:
        layers: the layers.
        graph: the graph at one moment.
        rows: what the first layer reads; of a typed graph by node type.
        edge_columns: attributes of edges that batches carry.
        options: checked options.
        command: what decides the output, as :func:`describe_command` returns it.
        show: announces a stage, and returns its progress function.

    Attributes:
        command: as it was given.
    """

    def __init__(
        self, layers: Sequence[Layer], graph: AnyGraph, rows: RowSource | Mapping[str, RowSource],
        edge_columns: Sequence[Column], options: Options, command: dict[str, Any], show: Stages,
    ) -> None:  # fmt: skip
        self._layers, self._graph, self._rows = layers, graph, rows_by_type(rows)
        self._edge_columns, self._options, self._show = edge_columns, options, show
        self.command = command
        self._schema = Schema(graph)
        self._counts = self._schema.num_nodes_of()
        self._degrees: list[dict[str, Degrees]] = []  # by layer and node type
        for number, fanout in enumerate(options.fanouts):
            same = options.fanouts.index(fanout)  # whose largest degrees are counted once
            self._degrees.append(
                self._degrees[same] if same < number
                else {name: Degrees(graph, fanout, name) for name in self._counts}
            )  # fmt: skip
        self._nodes: Sequence[Mapping[str, Ids]] | None = None  # by layer and type; None: all
        self._forms: list[Forms] = []
        self._aggregates: list[Aggregate | None] = [None] * len(layers)
        self._crowded: set[int] = set()  # layers that have a node which a batch has no room for
        self._watch = FiniteWatch()
        self._is_bfloat16 = options.dtype == "bfloat16"  # then bits are in the work files

    def run(
        self, out: str, force: bool, restart: bool, remark: Callable[[str], None],
        kept: KeptLayers | None = None,
    ) -> dict[str, str]:  # fmt: skip
        """Do all that is left to be done; return the files by node type.

        Args:
            out: the file, of a typed graph the folder of the files.
            force: overwrite files.
            restart: begin anew.
            remark: called with remarks.
            kept: where the files of all layers go; None: they are removed.
        """
        outputs = self.outputs(out)
        if kept is None:  # later calls compute some rows, batch by batch: all are to be like these
            self._aggregates = self._aggregates_of()
        first, *_ = outputs.values()
        # A call that was killed at its end may have written some of them.
        goes_on = not restart and left_behind(first) is not None
        inputs = [before["path"] for before in self.command["inputs"]]
        with self.folder(out):
            check_outputs([*outputs.values()], inputs, force or goes_on)
            journal = Journal(first, self.command, restart)
            try:
                with kept_if_useful(journal, remark):
                    if "finished" not in journal.state:
                        is_placed = bool(journal.state.get("placed"))
                        check_outputs([*outputs.values()], [], force or is_placed)
                        self._run_layers(journal, remark, kept is not None)
                        self._place(journal, outputs, kept)
            finally:
                journal.remove_if_new()
        return outputs

    def outputs(self, out: str, forms: Sequence[Mapping[str, Any]] | None = None) -> dict[str, str]:
        """Return the files by node type.

        Args:
            out: as of :meth:`run`.
            forms: by layer, of the types that it returns rows of; None: layers are tried.
        """
        if forms is None:
            forms = self._forms = self._forms or self._try_layers()
        is_typed, suffix = self._schema.is_typed, ".bin" if self._is_bfloat16 else ".npy"
        return {
            name: os.path.join(out, name_in_files(name) + suffix) if is_typed else out
            for name in forms[-1]
        }

    def folder(self, out: str) -> contextlib.AbstractContextManager[None]:
        """Return a context in which there is the folder of files of types."""
        return _folder(out) if self._schema.is_typed else contextlib.nullcontext()

    @property
    def followed(self) -> list[list[EdgeType]]:
        """Edge types by layer whose edges it is given."""
        fanouts = [fanouts_of(self._schema.typed, fanout) for fanout in self._options.fanouts]
        return [[kind for kind, number in fanout.items() if number] for fanout in fanouts]

    def _run_layers(self, journal: Journal, remark: Callable[[str], None], keeps_all: bool) -> None:
        state = {"layer": 0, "rows": 0, **journal.state}
        if journal.state:
            of_type = f" of {state['type']!r}" if "type" in state else ""
            place = f"row {state['rows']:,}{of_type} of layers[{state['layer']}]"
            is_done = state["layer"] == len(self._layers)
            remark(f"going on at {'the end of the last layer' if is_done else place}")
        limits = self._limits()
        self._check_disk(journal, state, keeps_all)
        for name, rows in self._rows.items() if keeps_all else ():
            path = self._path(journal, HASHES, name)
            if not os.path.exists(path):
                # Before a layer reads them: what is written from now on is seen by the next call.
                hash_features(rows, f"{path}.tmp", self.show("Reading features", name))
                os.replace(f"{path}.tmp", path)
        for number in range(state["layer"], len(self._layers)):
            if not keeps_all:
                self._remove_layer(journal, number - 2)
            self._run_layer(journal, number, limits[number], state)
            state = {"rows": 0}

    # ---- before work begins ----------------------------------------------------------------

    def _try_layers(self) -> list[Forms]:
        """Call all layers for a node of each type; return the forms of their rows."""
        batches = {name: self._try_batch(name) for name in self._counts}
        forms: list[Forms] = []
        for number, layer in enumerate(self._layers):
            form: Forms = {}
            for name, batch in batches.items():
                try:
                    rows: Any = layer(batch)
                except Exception as error:
                    before = f"layers[{number - 1}] returns" if number else "features has"
                    raise InvalidArgumentError(
                        f"layers[{number}] ({name_of(layer)}) does not take rows "
                        f"{describe_forms(batch)}, as {before} them{self._of(name)}: "
                        f"{type(error).__name__}: {error}"
                    ) from error
                if rows is None and self._schema.is_typed:
                    continue
                self._check_rows(number, name, rows, batch, None)
                form[name] = Form(rows.shape[1:], rows.dtype)
            if not form:
                raise InvalidArgumentError(
                    f"layers[{number}] ({name_of(layer)}) returned None for every node type: "
                    "return rows of the nodes in batch.seeds"
                )
            forms.append(form)
            batches = {name: with_zeros(batch, form) for name, batch in batches.items()}
        if self._options.dtype is not None:
            dtype = native.ARRAY_DTYPES[native.DTYPE_CODES[self._options.dtype]]
            forms[-1] = {name: Form(form.row_shape, dtype) for name, form in forms[-1].items()}
        return forms

    def _try_batch(self, node_type: str) -> Any:
        """Return the batch of a node that has neighbours, as few as there are."""
        degrees = self._degrees[0][node_type].of(0)
        few = np.where(degrees > 0, degrees, np.iinfo(np.int64).max)
        node = int(few.argmin()) if len(few) else 0
        return self._batches(0, self._rows, node_type).at(Range(node, node + min(len(few), 1)))

    def _of(self, node_type: str) -> str:
        """Return the type that a message is about, where users name types."""
        return f" for {node_type!r}" if self._schema.is_typed else ""

    def _check_rows(
        self, number: int, node_type: str, rows: Any, batch: Any, form: Form | None
    ) -> None:
        """Raise unless a layer has returned an array of rows for the nodes of a batch."""
        label = f"layers[{number}] ({name_of(self._layers[number])}) returned"
        if not isinstance(rows, np.ndarray):
            raise InvalidArgumentError(
                f"{label} a {type(rows).__name__}{self._of(node_type)}, not a numpy array"
            )
        if rows.ndim == 0 or len(rows) != batch.batch_size:
            raise InvalidArgumentError(
                f"{label} shape {rows.shape} for {batch.batch_size} nodes{self._of(node_type)}: "
                "return a row for each of the first batch.batch_size nodes of the batch"
            )
        native.dtype_code(rows.dtype, label)
        if form is not None and (rows.shape[1:], rows.dtype) != form:
            ids = batch.seeds[node_type] if self._schema.is_typed else batch.seeds
            raise InvalidArgumentError(
                f"{label} rows of shape {rows.shape[1:]} and {rows.dtype} for nodes "
                f"{ids[0]}..{ids[-1]}{self._of(node_type)}, before of {form.row_shape} and "
                f"{form.dtype}"
            )

    def run_for(
        self, nodes: Sequence[Mapping[str, Ids]], forms: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, int]]:
        """Let each layer compute some nodes alone; return the limits of their batches.

        Args:
            nodes: the nodes of each layer, ascending, by the types that it returns rows of.
            forms: shapes of a row and dtypes that it returned of all nodes, by type.
        """
        self._nodes = nodes
        self._forms = [
            {name: Form(tuple(shape), np.dtype(dtype)) for name, (shape, dtype) in by_type.items()}
            for by_type in forms
        ]
        self._degrees = [
            {name: Degrees(self._graph, fanout, name, ids) for name, ids in by_type.items()}
            for fanout, by_type in zip(self._options.fanouts, nodes, strict=True)
        ]
        return self._limits()

    def _limits(self) -> list[dict[str, int]]:
        """Return how many nodes and edges a batch of each layer and type may have.

        Raises:
            InvalidArgumentError: a node has more neighbours than the budget has room for, and their
                rows are needed together; names the least that has.
        """
        room, needed, limits = self._options.budget.limit * 3 // 8, 0, []
        largest: tuple[int, str, int] = (0, "", 0)
        before = {name: form_of(rows) for name, rows in self._rows.items()}
        for number, (forms, degrees) in enumerate(zip(self._forms, self._degrees, strict=True)):
            limits_of_layer: dict[str, int] = {}
            for name, form in forms.items():
                row_bytes, value_bytes = self._widest(name, before)
                # Ids and rows of the batches that wait, and at the layer messages and their copies.
                edge_bytes = (AHEAD + 2) * (24 + row_bytes + value_bytes) + 52
                edge_bytes += 3 * max(row_bytes, form.row_bytes)
                node, degree = degrees[name].largest
                if (degree + 1) * edge_bytes > room and self._combines(number):
                    self._crowded.add(number)
                elif (degree + 1) * edge_bytes > max(room, needed):
                    needed, largest = (degree + 1) * edge_bytes, (node, name, degree)
                limit = room // edge_bytes
                if self._options.batch_size is None:
                    limit = min(limit, _limit_of(row_bytes))
                limits_of_layer[name] = limit
            limits.append(limits_of_layer)
            before = forms
        if needed:
            node, name, degree = largest
            of_type = f" of {name!r}" if self._schema.is_typed else ""
            raise InvalidArgumentError(
                f"{self._options.budget} is too small for node {node}{of_type}, which has "
                f"{degree:,} neighbours: the least is {(-(-needed * 8 // 3) >> 20) + 1}M, or "
                "take some of them, num_neighbors="
            )
        return limits

    def _widest(self, node_type: str, forms: Forms) -> tuple[int, int]:
        """Return the most bytes of a row, and of an edge's values, in batches of a type."""
        kinds = [kind for kind in self._schema.edge_types if kind[2] == node_type]
        sources = {node_type, *(kind[0] for kind in kinds)}
        values = dict.fromkeys(kinds, 0)
        for column in self._edge_columns:
            if column.kind in values:
                values[column.kind] += form_of(column.rows).row_bytes
        rows = [form.row_bytes for name, form in forms.items() if name in sources]
        return max(rows, default=0), max(values.values(), default=0)

    def _check_disk(self, journal: Journal, state: Mapping[str, Any], keeps_all: bool) -> None:
        """Raise DiskFullError if the files of the layers that are left do not fit."""
        layer = state["layer"]
        sizes = [0, *(sum(self._file_bytes(forms).values()) for forms in self._forms)]
        if self._is_bfloat16:
            sizes.append(sizes[-1])  # which is copied, not put in place
        pairs = [a + b for a, b in zip(sizes[layer:], sizes[layer + 1 :], strict=False)]
        present = sizes[layer]
        if layer < len(self._layers):
            by_type = self._file_bytes(self._forms[layer])
            for name, size in by_type.items():
                if name == state.get("type", name):
                    present += state["rows"] * self._forms[layer][name].row_bytes
                    break
                present += size
        needed, number = max(pairs, default=0) - present, "two layers"
        if keeps_all:
            needed, number = sum(sizes) - sum(sizes[:layer]) - present, "all layers"
        free = shutil.disk_usage(journal.folder).free
        if needed > free:
            raise DiskFullError(
                errno.ENOSPC,
                f"{journal.folder}: the files of {number} need {format_size(needed)}, and "
                f"{format_size(free)} are free",
                journal.folder,
            )

    def _file_bytes(self, forms: Forms) -> dict[str, int]:
        """Return the bytes of all rows of a layer by node type."""
        return {name: self._counts[name] * form.row_bytes for name, form in forms.items()}

    # ---- the layers ------------------------------------------------------------------------

    def _batches(self, number: int, rows: Mapping[str, RowSource], node_type: str) -> LayerBatches:
        key = mix_key(self._options.seed, number)
        fanout = self._options.fanouts[number]
        nodes = None if self._nodes is None else self._nodes[number][node_type]
        return LayerBatches(
            self._graph, rows, self._edge_columns, fanout, key, node_type, nodes,
            self._options.until,
        )  # fmt: skip

    def results(
        self, number: int, node_type: str, rows: Mapping[str, RowSource] | None, limit: int,
        begin: int = 0, order: str = BATCHES, ranges: Iterator[Range] | None = None,
    ) -> Generator[NDArray[Any], None, None]:  # fmt: skip
        """Yield the rows that a layer returns for a type, batch after batch.

        Args:
            number: number of the layer.
            node_type: type of the nodes.
            rows: what it reads, by node type; None: the features.
            limit: nodes and edges of a batch.
            begin: the first node, or place in the list of nodes.
            order: in which order the work is done.
            ranges: ranges of nodes; None: of all from the first one on.
        """
        form, layer = self._forms[number][node_type], self._layers[number]
        convert = self._options.dtype is not None and number == len(self._layers) - 1
        batch_size = self._options.batch_size or self._counts[node_type] + 1
        ranges = ranges or cut(self._degrees[number][node_type], begin, batch_size, limit)
        label = f"layers[{number}] ({name_of(layer)})"
        by_type: Mapping[str, RowSource] = self._rows if rows is None else rows
        ahead: PrefetchIterator[Any, Any]
        if order != BATCHES:
            ahead = self._aggregated(number, by_type[NODE], order).of(ranges)
        else:
            maker = self._batches(number, by_type, node_type)
            ahead = maker.of(ranges, min(batch_size, limit), self._num_planned(limit))
        with ahead as batches:
            for batch in batches:
                result: Any = layer(batch)
                self._check_rows(number, node_type, result, batch, None if convert else form)
                seeds = batch.seeds[node_type] if self._schema.is_typed else batch.seeds
                yield self._watch.stored(
                    result, form.dtype, seeds, label, convert and self._is_bfloat16
                )

    def show(self, title: str, node_type: str) -> native.Progress:
        """Announce work on the nodes of a type; return its progress function."""
        return self._show(f"{title}, {node_type}" if self._schema.is_typed else title, "nodes")

    def show_layer(self, number: int, node_type: str) -> native.Progress:
        """Announce a layer; return its progress function."""
        return self.show(f"Layer {number + 1} of {len(self._layers)}", node_type)

    def _run_layer(
        self, journal: Journal, number: int, limits: Mapping[str, int], state: Mapping[str, Any]
    ) -> None:
        """Make the files of a layer, of one type after the other.

        Args:
            journal: the record.
            number: the layer.
            limits: nodes and edges that a batch may have by node type.
            state: the type to begin with, of a layer that begins none, and the rows that it has.
        """
        names, begin = list(self._forms[number]), state["rows"]
        names = names[names.index(state["type"]) if "type" in state else 0 :]
        with contextlib.ExitStack() as stack:
            rows: Any = self._open(journal, number - 1, stack) if number else self._rows
            order = self._choose(number, rows, limits)
            if order == BLOCKS and number:
                rows[NODE].close()  # its cache: the memory is for blocks
                path = self._path(journal, layer_name(number - 1), NODE)
                table = FeatureTable.load(path, "auto", memory_budget=self._read_bytes)
                rows = {NODE: stack.enter_context(table)}
            for name, following in zip(names, [*names[1:], None], strict=True):
                after = {"layer": number + 1, "rows": 0}
                if following is not None:
                    after = self._state(number, following, 0)
                self._run_type(journal, number, name, rows, limits[name], begin, order, after)
                begin = 0

    def _remove_layer(self, journal: Journal, number: int) -> None:
        """Delete the files of a layer, if there is one, that nobody reads any more."""
        for name in self._forms[number] if number >= 0 else ():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path(journal, layer_name(number), name))

    # ---- the order of work -----------------------------------------------------------------

    def _aggregates_of(self) -> list[Aggregate | None]:
        """Return what each layer needs of its neighbours; None: their rows, batch by batch."""
        aggregates: list[Aggregate | None] = []
        is_whole = not self._schema.is_typed and self._options.until is None
        for number, layer in enumerate(self._layers):
            before = self._forms[number - 1] if number else None
            label = f"layers[{number}] ({name_of(layer)})"
            aggregate = None
            if is_whole and self._options.fanouts[number] == -1:
                form = form_of(self._rows[NODE]) if before is None else before[NODE]
                aggregate = aggregate_of(layer, label, form.dtype, self._edge_columns)
            aggregates.append(aggregate)
        return aggregates

    def _combines(self, number: int) -> bool:
        """Return whether a layer can do without the rows of all neighbours of a node at once."""
        is_first = number == 0  # files of others are opened so that they can be combined
        return self._aggregates[number] is not None and (
            not is_first or orders_of(self._rows[NODE], True) != [BATCHES]
        )

    def _orders(self, number: int, rows: RowSource) -> list[str]:
        """Return the orders that a layer of a graph of one type can be done in."""
        orders = orders_of(rows, self._aggregates[number] is not None)
        return orders[:1] if number in self._crowded else orders

    def _choose(self, number: int, rows: Mapping[str, RowSource], limits: Mapping[str, int]) -> str:
        """Return the order in which a layer reads least."""
        if self._aggregates[number] is None:
            return BATCHES
        source = rows[NODE]
        orders = self._orders(number, source)
        if len(orders) == 1:
            return orders[0]
        return min(orders, key=lambda order: self._cost(number, source, limits[NODE], order)[1])

    def _cost(self, number: int, rows: RowSource, limit: int, order: str) -> tuple[int, int]:
        """Return how many batches or blocks a layer has in an order, and the bytes that it reads.

        Args:
            number: the layer, of a graph of one type.
            rows: what it reads.
            limit: nodes and edges of a batch.
            order: the order.
        """
        ranges = list(self._ranges(number, limit))
        if order == BLOCKS:
            # What one pass leaves in the cache is there for the nodes of its block.
            small = self._read_bytes // max(1, rows.nbytes // max(1, rows.num_rows))
            cached = small if number or not isinstance(rows, FeatureTable) else rows.stats().frames
            return self._aggregated(number, rows, BLOCKS).cost(ranges, cached)
        maker = self._batches(number, {NODE: rows}, NODE)

        def fetch(some: Sequence[Range]) -> None:
            size = min(self._options.batch_size or limit, limit)
            with maker.of(iter(some), size, self._num_planned(limit)) as batches:
                for _ in batches:
                    pass

        return len(ranges), bytes_of_batches(rows, ranges, maker.rows_of, fetch)

    def _ranges(self, number: int, limit: int) -> Iterator[Range]:
        """Yield the ranges of the batches of a layer, of a graph of one type."""
        batch_size = self._options.batch_size or self._counts[NODE] + 1
        return cut(self._degrees[number][NODE], 0, batch_size, limit)

    def _aggregated(self, number: int, rows: RowSource, order: str) -> AggregatedBatches:
        """Return the maker of batches whose neighbours are combined ahead of a layer."""
        aggregate = self._aggregates[number]
        assert aggregate is not None and isinstance(self._graph, HomogeneousGraph)
        room = self._options.budget.limit // 2 - self._read_bytes if order == BLOCKS else None
        return AggregatedBatches(self._graph, rows, aggregate, room)

    @property
    def _read_bytes(self) -> int:
        """Bytes of the budget for reading a file from its first row to its last."""
        return max(self._options.budget.limit // 16, _LEAST_CACHE)

    def _state(self, number: int, node_type: str, rows: int) -> dict[str, Any]:
        """Return what is recorded of a layer that has so many rows of a type."""
        named = {"type": node_type} if self._schema.is_typed else {}
        return {"layer": number, **named, "rows": rows}

    def _run_type(
        self, journal: Journal, number: int, node_type: str, rows: Mapping[str, RowSource],
        limit: int, begin: int, order: str, after: dict[str, Any],
    ) -> None:  # fmt: skip
        """Make the file of a layer for the nodes of a type.

        Args:
            journal: the record.
            number: the layer.
            node_type: the type.
            rows: rows that the layer reads, by node type.
            limit: nodes and edges of a batch.
            begin: rows that are there already.
            order: in which order the work is done.
            after: what is recorded when all are.
        """
        form, count = self._forms[number][node_type], self._counts[node_type]
        report = self.show_layer(number, node_type)
        with contextlib.ExitStack() as stack:
            path = self._path(journal, layer_name(number), node_type)
            file = stack.enter_context(LayerFile(path, (count, *form.row_shape), form.dtype, begin))
            results = self.results(number, node_type, rows, limit, begin, order)
            stack.enter_context(contextlib.closing(results))
            recorded = time.monotonic()
            for result in results:
                file.append(result)
                report(file.rows, count)
                if time.monotonic() - recorded >= RECORD_SECONDS and file.rows < count:
                    self._record(journal, file, self._state(number, node_type, file.rows))
                    recorded = time.monotonic()
            self._record(journal, file, after)

    def check_inputs(self) -> None:
        """Raise FileChangedError if the graph's file or that of the features was written to."""
        for before in self.command["inputs"]:
            if os.path.exists(before["path"]) and input_state(before["path"]) != before:
                raise FileChangedError(
                    f"{before['path']} was written to meanwhile: restart=True begins anew"
                )

    def _record(self, journal: Journal, file: LayerFile, state: dict[str, Any]) -> None:
        self.check_inputs()
        file.sync()
        journal.record(**state)

    def _num_planned(self, limit: int) -> int:
        """Return how many samples are drawn before the rows of the first are fetched."""
        return min(_PLANNED, self._options.budget.limit // 8 // (2 * _SAMPLE_BYTES * limit))

    def _open(
        self, journal: Journal, number: int, stack: contextlib.ExitStack
    ) -> dict[str, FeatureTable]:
        """Open the rows that a layer has returned: in memory if they fit, else through caches.

        Half of the budget is for them; what small ones leave of their share is for the others.
        """
        room, sizes = self._options.budget.limit // 2, self._file_bytes(self._forms[number])
        tables: dict[str, FeatureTable] = {}
        for count, name in enumerate(sorted(sizes, key=sizes.__getitem__)):
            share = max(room // (len(sizes) - count), _LEAST_CACHE)
            path = self._path(journal, layer_name(number), name)
            tables[name] = stack.enter_context(FeatureTable.load(path, "auto", memory_budget=share))
            room = max(room - min(share, sizes[name]), 0)
        return {name: tables[name] for name in sizes}

    # ---- files -----------------------------------------------------------------------------

    def _path(self, journal: Journal, name: str, node_type: str) -> str:
        """Return a work file for the nodes of a type."""
        return journal.path(file_name(name, node_type, self._schema.is_typed))

    def _place(self, journal: Journal, outputs: Mapping[str, str], kept: KeptLayers | None) -> None:
        last = layer_name(len(self._layers) - 1)
        if self._is_bfloat16:
            self._remove_layer(journal, len(self._layers) - 2)  # it has room for the copies
        placed = {self._path(journal, last, name): out for name, out in outputs.items()}
        if kept is not None:
            work = [(HASHES, name) for name in self._rows]
            for number, by_type in enumerate(self._forms[:-1]):
                work += [(layer_name(number), name) for name in by_type]
            placed |= {self._path(journal, *names): kept.file(*names) for names in work}
        with native.FileSet() as files:
            for source, out in placed.items():
                if self._is_bfloat16:
                    self._save_bits(source, out, files)
                else:
                    files.add(PlacedFile(source, out)).finish()
            journal.record(**{**journal.state, "placed": True})
            if kept is not None:
                kept.forget()
            files.commit()
        if kept is not None:
            forms = [
                {name: (form.row_shape, form.dtype.str) for name, form in by_type.items()}
                for by_type in self._forms
            ]
            kept.finish_with(self._counts, forms, [*outputs.values()])
        journal.finish([*outputs.values()], {})

    def _save_bits(self, source: str, out: str, files: native.FileSet) -> None:
        """Write a native file of the bits of bfloat16 in a work file, a piece at a time."""
        rows = FeatureTable.from_array(map_rows(source), dtype="bfloat16")
        report = self._show(f"Writing {os.path.basename(out)}", "bytes")
        save_rows(out, rows, None, report, files)


@contextlib.contextmanager
def _folder(path: str) -> Iterator[None]:
    """Make a folder for a ``with`` block, after which it goes again if it is empty."""
    is_new = not os.path.isdir(path)
    if is_new:
        if os.path.lexists(path):
            raise StorageError(
                errno.ENOTDIR,
                f"{path}: is no folder: vectors of several types are files in a folder", path,
            )  # fmt: skip
        check_outputs([path], [], False)
        try:
            os.mkdir(path)
        except OSError as error:
            raise storage_error(error, path) from None
    try:
        yield
    finally:
        if is_new:
            with contextlib.suppress(OSError):
                os.rmdir(path)


def _limit_of(row_bytes: int) -> int:
    """Return the nodes and edges of a batch of no given size."""
    return max(1024, _BATCH_BYTES // max(1, row_bytes))
