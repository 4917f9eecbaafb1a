"""Conversion of edges between keys: names, UUIDs or any integers, which become ids 0 .. N-1.

::

    keys     both columns of all files -> a map of ids            node-ids
    edges    keys -> ids               -> the bounded build       join-*, edges.building
    write    its lists -> the graph file; the map of ids beside it

A key gets its id where it appears first, reading row by row, the source before the destination.
Every step is within the memory budget and recorded when it is finished, as in
:mod:`aethergraph.convert.typed.build`, whose pieces do the work here for one type.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.dialect import as_delimiter
from aethergraph.convert.external.budget import working_memory
from aethergraph.convert.external.builder import BoundedBuild
from aethergraph.convert.external.driver import kept_if_useful
from aethergraph.convert.external.journal import Journal
from aethergraph.convert.inputs import input_state
from aethergraph.convert.outputs import PlacedFile, check_outputs
from aethergraph.convert.readers.base import (
    InputError,
    ProgressFn,
    check_readable,
    detect_format,
    require_pyarrow,
    select_column,
)
from aethergraph.convert.readers.edge_plan import AttrSpec, EdgePlan
from aethergraph.convert.readers.edges import known_ends
from aethergraph.convert.request import Request
from aethergraph.convert.result import Clock, ConvertResult, Stages
from aethergraph.convert.typed.columns import ColumnReader, share_times, zone_of
from aethergraph.convert.typed.edges import TableEdges, read_weights
from aethergraph.convert.typed.joins import JoinedEnds, KeyJoin
from aethergraph.convert.typed.nodes import NodeFiles
from aethergraph.convert.typed.problems import Problems
from aethergraph.convert.typed.schema import EdgeSpec
from aethergraph.convert.typed.sources import Batch, Table, kind_of
from aethergraph.convert.typed.text_files import TextForm
from aethergraph.errors import InvalidArgumentError
from aethergraph.graph.beside import check_not_of_another, fingerprint_of
from aethergraph.graph.id_files import IdFiles, ids_path
from aethergraph.ids import IdMap, IdMapBuilder
from aethergraph.ids.columns import KeyColumns
from aethergraph.storage.budget import Budget

__all__ = ["Ids", "KeyedJob"]

#: What the end points of edges are: ids 0 .. N-1, or keys that become such ids.
Ids = Literal["dense", "string", "int64", "uint64", "uuid"]

_VERSION = 2
_NODE = "node"  # type of the nodes of a graph of one type, in its file
_FORMATS = ("csv", "tsv", "whitespace", "parquet")


@dataclass(frozen=True)
class _Columns:
    """Names of the columns of all files, by what they are."""

    src: str
    dst: str
    weight: str | None
    time: str | None
    attrs: tuple[tuple[AttrSpec, tuple[str, ...]], ...]

    def spec(self, table: Table) -> EdgeSpec:
        """Return the edges as a type of edges, for :class:`TableEdges`."""
        named = dict.fromkeys(column for _, columns in self.attrs for column in columns)
        return EdgeSpec(
            (_NODE, "to", _NODE), None, table, (self.src,), (self.dst,), self.time, self.weight,
            tuple(named), "error", "error",
        )  # fmt: skip


class _Values:
    """Weights, times and attributes, of the types that a plan asks for."""

    def __init__(self, plan: EdgePlan, columns: _Columns, table: Table) -> None:
        self._reader = reader = ColumnReader(table)
        self._columns = columns
        self._weight = "float32"
        if columns.weight is not None:
            kind = reader.number_type(columns.weight, "weight")
            dtype = "float64" if kind == "float64" else "float32"
            self._weight = dtype if plan.weight_type == "auto" else plan.weight_type
        self._unit: str | None = None
        self.zone: str | None = None
        self._time_type = plan.time_type
        if columns.time is not None:
            form = reader.time_form(columns.time)
            self._unit = share_times([form], plan.time_unit)
            self.zone = zone_of([form])
            time_type = plan.time_type
            has_fractions, is_date = form.is_float, form.unit is not None
            if (time_type == "int64" and has_fractions) or (time_type == "float64" and is_date):
                noun = "numbers with fractions" if has_fractions else "dates"
                raise InvalidArgumentError(
                    f"{form.where} holds {noun}: no times of type {time_type}"
                )
        self._attrs = [(spec, names, self._dtype(spec, names)) for spec, names in columns.attrs]

    def _dtype(self, spec: AttrSpec, names: Sequence[str]) -> str:
        if spec.dtype is not None:
            return spec.dtype
        kinds = {self._reader.number_type(name, "edge attribute") for name in names}
        if len(kinds) == 1:
            return kinds.pop()
        return "float64" if "float64" in kinds else "float32"

    def read(
        self, batch: Batch, kept: NDArray[np.bool_]
    ) -> tuple[NDArray[Any] | None, NDArray[Any] | None, dict[str, NDArray[Any]]]:
        """Return weights, times and attributes of the rows that are kept."""
        reader, columns = self._reader, self._columns
        weight = time = None
        if not kept.all():  # a row without an edge needs no values
            batch = batch.only(kept)
        if columns.weight is not None:
            weight = read_weights(reader, batch, columns.weight, self._weight)
        if columns.time is not None and self._time_type == "float64":
            time = reader.numbers(batch, columns.time, "float64", "time")
        elif columns.time is not None:
            time = reader.times(batch, columns.time, self._unit)
        attrs = {}
        for spec, names, dtype in self._attrs:
            arrays = [reader.numbers(batch, name, dtype, "edge attribute") for name in names]
            attrs[spec.name] = arrays[0] if len(arrays) == 1 else np.stack(arrays, axis=1)
        return weight, time, attrs


class KeyedJob:
    """Conversion of files whose edges are between keys, with its work folder.

    Args:
        request: inputs, output and form of the graph.
        ids: what the end points are; not "dense".
        budget: bound for the whole process; None: 4 GiB, or half of the memory.
        threads: sorting threads; None: as many as the native core uses.
        restart: do not go on from an earlier build.
        show: announces a stage, and returns its progress function.
        remark: called at once with remarks for the user.

    Raises:
        InvalidArgumentError: the request asks for what does not go with keys.
        InputError: a file lacks a column, or its keys are of another type.
    """

    def __init__(
        self,
        request: Request,
        ids: Ids,
        budget: Budget | None,
        *,
        threads: int | None,
        restart: bool,
        show: Stages,
        remark: Callable[[str], None],
    ) -> None:
        require_pyarrow()
        for path in request.files:
            check_readable(path)
        _refuse(request, ids)
        request.form.check_within_budget()
        self._request = request
        self._threads = threads or native.get_num_threads()
        formats = {detect_format(path, request.reading["format"]) for path in request.files}
        self._memory = working_memory(budget, formats, self._threads)
        self._ids = ids
        self._show = show
        self._remark = remark
        self._restart = restart
        self._inputs = [input_state(path) for path in request.files]
        self.result = ConvertResult(request.output, layout=request.form.layout)

    def run(self, force: bool) -> ConvertResult:
        """Do all steps; on failure keep the work folder if a later call can use it."""
        request, result = self._request, self.result
        result.ids = ids_path(request.output, _NODE)
        request.check_graph(force=True)
        check_not_of_another(
            request.output, _NODE, IdFiles.suffix
        )  # force does not help against it
        request.check_graph(force)
        table = _open(request)
        columns = _choose(request.plan, table, result)
        keys = KeyColumns(_key_type(self._ids))
        _check_keys(table, columns, keys.types[0])
        if keys.types[0] == "str":
            _note_blanks(table, columns, result)
        values = _Values(request.plan, columns, table)
        journal = Journal(request.output, self._command(), self._restart)
        try:
            inputs = [state["path"] for state in self._inputs]
            placed = bool(journal.state.get("placed"))
            check_outputs([request.output, result.ids], inputs, force or placed)
            if journal.state:
                self._remark(f"going on with an interrupted build in {journal.folder}")
            with kept_if_useful(journal, self._remark):
                self._steps(journal, table, columns, keys, values)
        finally:
            journal.remove_if_new()
        return result

    def _command(self) -> dict[str, Any]:
        request = self._request
        return {
            "version": _VERSION, "inputs": self._inputs, "ids": self._ids,
            **request.form.__dict__, **request.options,
        }  # fmt: skip

    def _steps(
        self, journal: Journal, table: Table, columns: _Columns, keys: KeyColumns, values: _Values
    ) -> None:
        result, state = self.result, dict(journal.state)
        clock = Clock(result.seconds)
        prefix = journal.path("node-")
        if "num_nodes" not in state:
            state["num_nodes"] = _scan(
                table, columns, keys, prefix, self._memory, self._show("Reading keys", "rows")
            )
            journal.record(**state)
            native.trim_memory()
        result.num_nodes = count = int(state["num_nodes"])
        nodes = NodeFiles(prefix, {"num_nodes": count, "file_rows": [], "arrays": {}})
        clock.lap("keys")
        with ExitStack() as stack:
            form = replace(self._request.form, num_nodes=count)
            inner = Journal(journal.path("edges"), {"version": _VERSION}, False)
            stack.callback(inner.close)
            build = BoundedBuild(inner, form, self._memory, self._threads, self._show)
            stack.callback(build.close)
            spec = columns.spec(table)
            ends = self._join(journal, state, spec, table, nodes)
            stack.callback(ends.close)
            source = TableEdges(
                spec, False, table, {_NODE: nodes}, ends, None, self._memory,
                self._show("Reading edges", "rows"), values,
            )  # fmt: skip
            result.read_edges = build.read(source)
            result.edges_read_now = result.read_edges - build.rows_before
            clock.lap("read")
            result.num_edges = build.make_lists(count)
            if form.dedup:
                dropped = build.num_records - result.num_edges
                result.notes.append(f"{dropped:,} duplicate edges dropped")
            clock.lap("build")
            self._check_inputs()
            files = stack.enter_context(native.FileSet())
            assert result.ids is not None
            files.add(PlacedFile(nodes.ids_path, result.ids))
            fingerprints = {f"{_NODE}.ids": fingerprint_of(nodes.ids_path)}
            build.write(self._request.output, values.zone, fingerprints, files)
            state["placed"] = True
            journal.record(**state)
            files.commit()
            clock.lap("write")

    def _join(
        self, journal: Journal, state: dict[str, Any], spec: EdgeSpec, table: Table,
        nodes: NodeFiles,
    ) -> JoinedEnds:  # fmt: skip
        """Return the ids of both ends of all edges."""
        ids = native.id_dtype(native.id_bytes_for(nodes.num_nodes))
        ends = JoinedEnds(journal.path("join-"), [ids, ids], state.get("join", {}))

        def record(joined: dict[str, Any]) -> None:
            state["join"] = joined
            journal.record(**state)

        if not ends.state["done"]:
            with IdMap.load(nodes.ids_path) as keys:
                show = self._show("Joining keys", "rows")
                KeyJoin(
                    spec, table, {_NODE: keys}, ends, self._memory, record, show, Problems()
                ).run()
            native.trim_memory()
        return ends

    def _check_inputs(self) -> None:
        """Refuse files that were written to meanwhile: they are read twice."""
        for before, path in zip(self._inputs, self._request.files, strict=True):
            if input_state(path) != before:
                raise InputError(path, "changed while it was read: start again")


def _refuse(request: Request, ids: Ids) -> None:
    tables, form = request.tables, request.form
    if form.num_nodes is not None:
        raise InvalidArgumentError(f"num_nodes does not go with ids = {ids!r}: keys are counted")
    if tables.features is not None or tables.labels is not None or tables.id_column is not None:
        raise InvalidArgumentError(
            f"features and labels do not go with ids = {ids!r}: aethergraph tables "
            "(convert.tables) takes tables of nodes by their keys"
        )
    for path in request.files:
        file_format = detect_format(path, request.reading["format"])
        if file_format == "whitespace" and request.reading["delimiter"] is None:
            raise InvalidArgumentError(
                f"{os.fspath(path)}: names may hold blanks, so give the delimiter: --delimiter "
                "space, or tab (delimiter=)"
            )
        if file_format not in _FORMATS:
            raise InvalidArgumentError(
                f"{os.fspath(path)}: is read as {file_format}, but edges with ids = {ids!r} are "
                "read from text, Parquet and Arrow files: write it as one of these, or, if its ids "
                "are 0 to N-1, leave --ids (ids=) out"
            )


def _key_type(ids: Ids) -> str:
    return "str" if ids == "string" else ids


# ---- columns -----------------------------------------------------------------------------------


def _open(request: Request) -> Table:
    paths = [os.fspath(path) for path in request.files]
    file_format = request.reading["format"]
    kinds = [
        kind_of(path) if file_format in (None, "auto") else _kind(file_format) for path in paths
    ]
    form = TextForm()
    if "text" in kinds:
        form = _text_form(request, paths[kinds.index("text")])
    return Table("edges", paths, kinds, None, form)


def _kind(file_format: str) -> str:
    return "parquet" if file_format == "parquet" else "text"


def _text_form(request: Request, path: str) -> TextForm:
    """Return the form of text files; whether there is a header cannot be seen among names."""
    delimiter, header = request.reading["delimiter"], request.reading["header"]
    file_format = request.reading["format"]
    if delimiter is None and file_format in ("csv", "tsv"):
        delimiter = "," if file_format == "csv" else "tab"
    form = TextForm(None if delimiter is None else as_delimiter(delimiter))
    if header is not None:
        return replace(form, has_names=header)
    plan = request.plan
    chosen = [plan.src, plan.dst, *(selector for selector, _ in plan.selectors())]
    if any(isinstance(selector, str) and not selector.isdecimal() for selector in chosen):
        return form
    names = Table("edges", [path], ["text"], None, form).types
    if known_ends(path, list(names)) is None:
        raise InvalidArgumentError(
            f"{path}: whether the first line holds names of columns cannot be seen, as end points "
            "are names too: give --header or --no-header (header=), or name the columns (--src, "
            "--dst)"
        )
    return form


def _choose(plan: EdgePlan, table: Table, result: ConvertResult) -> _Columns:
    path, names = table.files[0], list(table.types)
    if len(names) < 2:
        raise InputError(path, "has one column, but an edge needs two (is the delimiter right?)")

    def select(selector: Any, role: str) -> str:
        return names[select_column(path, selector, names, len(names), role)]

    if plan.src is None:
        ends = known_ends(path, names)
        src, dst = (names[column] for column in ends or (0, 1))
        if ends is None:
            result.notes.append(
                f"edges go from column {src} to column {dst}, the first two "
                "(--src and --dst choose others)"
            )
    else:
        src, dst = select(plan.src, "source id"), select(plan.dst, "destination id")
    if src == dst:
        raise InvalidArgumentError(f"{path}: the same column is both source and destination")
    attrs = tuple(
        (spec, tuple(select(column, f"edge attribute {spec.name!r}") for column in spec.columns))
        for spec in plan.attrs
    )
    columns = _Columns(
        src, dst, None if plan.weight is None else select(plan.weight, "weight"),
        None if plan.time is None else select(plan.time, "time"), attrs,
    )  # fmt: skip
    used = {src, dst, columns.weight, columns.time, *(name for _, some in attrs for name in some)}
    if unused := [name for name in names if name not in used]:
        result.notes.append(f"columns not used: {', '.join(unused)}")
    return columns


def _check_keys(table: Table, columns: _Columns, kind: str) -> None:
    """Refuse columns whose type cannot be the keys asked for; text says it row by row."""
    if table.is_text:
        return
    fitting = {
        "str": ("str",), "int64": ("int64", "uint64"), "uint64": ("int64", "uint64"),
        "uuid": ("uuid", "str", "bytes"),
    }[kind]  # fmt: skip
    for column in (columns.src, columns.dst):
        (key_type,) = ColumnReader(table).key_types([column])
        if key_type not in fitting:
            advice = {"str": "string", "bytes": "uuid"}.get(key_type, key_type)
            raise InputError(
                table.files[0],
                f"column {column!r} holds keys of type {key_type}, not {kind}: --ids {advice} "
                "(ids=)",
            )


def _note_blanks(table: Table, columns: _Columns, result: ConvertResult) -> None:
    """Note names with blanks around them in the first rows: they belong to the names, as in CSV."""
    reader = ColumnReader(table)
    for column in dict.fromkeys((columns.src, columns.dst)):
        text = reader.first_with_blanks(column)
        if text is not None:
            result.notes.append(
                f"column {column!r}: names keep the blanks around them, such as {text!r}, which "
                f"is another node than {text.strip()!r}"
            )


# ---- keys --------------------------------------------------------------------------------------


def _scan(
    table: Table, columns: _Columns, keys: KeyColumns, prefix: str, memory: int, show: ProgressFn
) -> int:
    """Write the map of ids of all keys; return their number."""
    reader, total, done = ColumnReader(table), table.num_rows, 0
    with IdMapBuilder(
        f"{prefix}ids", keys.types, memory, f"{prefix}keys", of_graph=True
    ) as builder:
        for batch in table.batches([columns.src, columns.dst]):
            ends = [_keys(reader, batch, column, keys) for column in (columns.src, columns.dst)]
            rows = len(ends[0])
            # Row by row, the source first: then ids do not depend on where batches end.
            order = np.arange(2 * rows, dtype=np.uint64).reshape(2, rows).T.reshape(-1)
            builder.add_block(native.KeyBlock.joined(ends).take(order), unique=False)
            done += rows
            show(done, max(total, done))
        if not done:
            raise InputError(table.files[0], "holds no edges")
        return builder.finish()


def _keys(reader: ColumnReader, batch: Batch, column: str, keys: KeyColumns) -> native.KeyBlock:
    block, known, impossible = reader.keys(batch, [column], keys)
    if not known.all():
        raise batch.bad("the end point of an edge is missing (null)", int(known.argmin()), column)
    if impossible is not None:
        row = int(impossible.argmax())
        raise batch.bad(f"does not fit in a key of type {keys}", row, column)
    return block
