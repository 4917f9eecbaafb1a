"""Build of a typed graph from tables, within a memory budget, step by step.

::

    spool   databases -> a Parquet file each                               spool-*
    kept    tables of nodes whose keys come more than once -> rows that stay   node-*
    nodes   tables of nodes -> maps of ids, times, features, labels        node-*
    edges   for each edge type: keys -> ids                                join-*
            and for it and its reverse: the builder of graphs of one
            type, up to its lists                                          edge-*.building
    write   lists of all types, times, arrays -> one graph file; maps of
            ids beside it

Each step is recorded when it is finished, and keys and edges are recorded as they are read: the
same call goes on after a kill. The file equals the one that ``HeteroGraph.from_edges`` and ``save``
write, but for the fingerprints of the files beside it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from aethergraph import _native as native
from aethergraph.convert.external.builder import BoundedBuild
from aethergraph.convert.external.driver import kept_if_useful
from aethergraph.convert.external.encoded import EncodedColumn
from aethergraph.convert.external.journal import Journal, left_behind
from aethergraph.convert.form import GraphForm
from aethergraph.convert.outputs import PlacedFile, check_outputs
from aethergraph.convert.readers.base import InputError
from aethergraph.convert.result import Clock, Stages
from aethergraph.convert.typed.columns import ColumnReader, TimeForm, share_times, zone_of
from aethergraph.convert.typed.duplicates import find_duplicates, leave_out
from aethergraph.convert.typed.edges import EdgeColumns, TableEdges
from aethergraph.convert.typed.joins import JoinedEnds, KeyJoin
from aethergraph.convert.typed.nodes import NodeFiles, scan_nodes
from aethergraph.convert.typed.problems import Problems
from aethergraph.convert.typed.schema import EdgeSpec, NodeTable, TableSchema
from aethergraph.convert.typed.sections import (
    ENCODED,
    write_array,
    write_no_edges,
    write_offsets,
    write_pieces,
)
from aethergraph.convert.typed.sources import (
    Table,
    is_comparable,
    needs_spool,
    open_table,
    source_state,
    spool,
)
from aethergraph.errors import InvalidArgumentError
from aethergraph.graph.beside import (
    GraphFile,
    check_not_of_another,
    fingerprint_of,
    path_beside,
)
from aethergraph.graph.column_files import ColumnFiles, columns_path
from aethergraph.graph.id_files import IdFiles, ids_path
from aethergraph.graph.typed_edges import EdgeType
from aethergraph.ids import IdMap
from aethergraph.ids.columns import KeyColumns
from aethergraph.storage.meta import ArrayMeta, FileMeta, NodeType
from aethergraph.storage.meta import EdgeType as EdgeMeta

__all__ = ["TablesResult", "TypedBuild"]

_VERSION = 3
_LONGEST_NAME = 220  # file systems take 255 bytes; temporary files have longer names


@dataclass
class TablesResult:
    """Files and sizes of a graph that was built from tables.

    Attributes:
        graph: the graph file.
        ids: files of the maps of ids, by node type.
        columns: files of columns, by node type.
        num_nodes: number of nodes by type.
        num_edges: number of edges by type.
        seconds: seconds of the steps ("nodes", "edges", "write").
        notes: remarks for the user: edges that were left out, nodes that were kept.
    """

    graph: str
    ids: dict[str, str] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    num_nodes: dict[str, int] = field(default_factory=dict)
    num_edges: dict[EdgeType, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class TypedBuild:
    """One build; :meth:`run` does all of it.

    Args:
        schema: the tables.
        output: the graph file.
        layout: layout of every edge type.
        compress: store the neighbours in compressed blocks.
        memory: bytes for buffers.
        threads: sorting threads.
        restart: do not go on from an earlier build.
        show: announces a stage, and returns its progress function.
        remark: called at once with remarks for the user.
    """

    def __init__(
        self,
        schema: TableSchema,
        output: str,
        layout: Literal["csc", "csr", "both"],
        compress: bool,
        memory: int,
        threads: int,
        restart: bool,
        show: Stages,
        remark: Callable[[str], None],
    ) -> None:
        self._schema = schema
        self._output = output
        self._layout: Literal["csc", "csr", "both"] = layout
        self._compress = compress
        self._memory = memory
        self._threads = threads
        self._show = show
        self._remark = remark
        self.result = TablesResult(output)
        self._comparable = all(map(is_comparable, self._all_sources()))
        self._names = list(schema.nodes)
        self.kinds = [(spec, False) for spec in schema.edges]
        if schema.reverse:
            self.kinds += [(spec, True) for spec in schema.edges]
        self.inputs = self._input_states()
        self._restart = restart or not self._comparable
        self._problems = Problems()
        self._tables: dict[str, Table] = {}

    # ---- the whole ---------------------------------------------------------------------------

    def run(self, force: bool) -> TablesResult:
        """Build the graph."""
        with_columns = [name for name in self._names if self._with_columns(name)]
        files = [(name, IdFiles.suffix) for name in self._mapped()]
        files += [(name, ColumnFiles.suffix) for name in with_columns]
        outputs = [self._output, *(path_beside(self._output, *file) for file in files)]
        inputs = [state["path"] for state in self.inputs]
        inputs += [] if self._schema.path is None else [self._schema.path]
        # A build that was killed at its end may have written the output.
        goes_on = not self._restart and left_behind(self._output) is not None
        check_outputs([self._output], inputs, force=True)
        for file in files:
            check_not_of_another(self._output, *file)  # first: force does not help against it
        check_outputs([self._output], inputs, force or goes_on)
        for path in outputs:
            name = os.path.basename(path)
            if len(os.fsencode(name)) > _LONGEST_NAME:
                raise InvalidArgumentError(
                    f"{name[:40]}...{name[-20:]}: this name of an output is too long: give the "
                    "node type a shorter one"
                )
        self._journal = journal = Journal(self._output, self._command(), self._restart)
        try:
            if "finished" in journal.state:
                self._remark(f"the build is complete: removing {journal.folder}")
                self._take_result(journal.state["finished"]["result"])
                journal.remove()
                return self.result
            check_outputs(outputs, inputs, force or bool(journal.state.get("placed")))
            if journal.state:
                self._remark(f"going on with an interrupted build in {journal.folder}")
            self._state: dict[str, Any] = {
                "spooled": [], "kept": {}, "nodes": {}, "joins": {}, "edges": {}, **journal.state
            }  # fmt: skip
            with kept_if_useful(journal, self._remark if self._comparable else lambda text: None):
                self._steps()
                if self._comparable:
                    self._finish()
        finally:
            if not self._comparable:
                journal.remove()
            else:
                journal.remove_if_new()
        return self.result

    def _finish(self) -> None:
        """Record that the graph is complete, for a call after a kill while work files go."""
        result = self.result
        record = {
            "ids": [*result.ids], "columns": [*result.columns], "num_nodes": result.num_nodes,
            "num_edges": [[*kind, count] for kind, count in result.num_edges.items()],
            "seconds": result.seconds, "notes": result.notes,
        }  # fmt: skip
        outputs = [self._output, *result.ids.values(), *result.columns.values()]
        self._journal.finish(outputs, record)

    def _take_result(self, record: dict[str, Any]) -> None:
        """Take the result of the earlier call that has written the graph."""
        self.result = TablesResult(
            self._output,
            {name: ids_path(self._output, name) for name in record["ids"]},
            {name: columns_path(self._output, name) for name in record["columns"]},
            record["num_nodes"],
            {(source, name, target): n for source, name, target, n in record["num_edges"]},
            record["seconds"],
            record["notes"],
        )

    def _steps(self) -> None:
        clock = Clock(self.result.seconds)
        self._open_tables()
        forms = self._time_forms()
        self._unit = share_times(forms, self._schema.time_unit) if forms else None
        self._zone = zone_of(forms)
        keys = {name: self._keys(name) for name in self._mapped()}
        for name, table in self._schema.nodes.items():
            if table.duplicates != "error":
                self._leave_out_duplicates(name, table, keys[name])
        for name in self._names:
            self._make_nodes(name, keys.get(name))
        clock.lap("nodes")
        self._nodes = {name: self._node_files(name) for name in self._names}
        with ExitStack() as stack:
            self._ids = {
                name: stack.enter_context(IdMap.load(self._nodes[name].ids_path)) for name in keys
            }
            for number in range(len(self._schema.edges)):
                self._make_edge_types(number)
        clock.lap("edges")
        self._check_inputs()
        self._write(keys)
        clock.lap("write")

    def _all_sources(self) -> list[Any]:
        nodes = [node_table.source for node_table in self._schema.nodes.values()]
        return nodes + [spec.table for spec in self._schema.edges]

    def _input_states(self) -> list[dict[str, Any]]:
        folder = self._schema.folder
        return [state for source in self._all_sources() for state in source_state(source, folder)]

    def _check_inputs(self) -> None:
        """Refuse files that were written to meanwhile: they are read more than once."""
        now = {state["path"]: state for state in self._input_states()}
        for state in self.inputs:
            if now.get(state["path"]) != state:
                raise InputError(state["path"], "changed while it was read: start again")

    def _with_columns(self, name: str) -> bool:
        return bool(self._schema.nodes[name].columns)

    def _mapped(self) -> list[str]:
        """Return the node types that keys refer to, or that have a key."""
        named = {end for spec in self._schema.edges for end, _ in spec.ends()}
        nodes = self._schema.nodes
        return [name for name in self._names if name in named or nodes[name].key]

    def _record(self) -> None:
        """Record a finished step, and give its memory back: the next one has buffers of its own."""
        import pyarrow as pa

        self._journal.record(**self._state)
        pa.default_memory_pool().release_unused()
        native.trim_memory()

    def _command(self) -> dict[str, Any]:
        schema = self._schema
        nodes = {name: {**asdict_plain(node_table)} for name, node_table in schema.nodes.items()}
        edges = [asdict_plain(spec) for spec in schema.edges]
        return {
            "version": _VERSION, "inputs": self.inputs, "nodes": nodes, "edges": edges,
            "reverse": schema.reverse, "time_unit": schema.time_unit, "layout": self._layout,
            "compress": self._compress,
        }  # fmt: skip

    # ---- tables ------------------------------------------------------------------------------

    def _sources(self) -> Iterator[tuple[str, Any]]:
        for name, table in self._schema.nodes.items():
            if table.source is not None:
                yield f"nodes.{name}", table.source
        for spec in self._schema.edges:
            if spec.of_nodes is None:
                yield f"links.{spec.kind}", spec.table

    def _open_tables(self) -> None:
        for number, (name, source) in enumerate(self._sources()):
            self._open_table(number, name, source)
        for part, table in self._tables.items():
            for columns, role in self._roles(part):
                table.check_columns(columns, role)

    def _open_table(self, number: int, name: str, source: Any) -> None:
        """Open the table of a part of the schema; one of a database is read first."""
        spooled = None
        if needs_spool(source):
            spooled = self._journal.path(f"spool-{number}")
            if number not in self._state["spooled"]:
                needed = self._needed_columns(name)
                spool(source, name, self._schema.folder, spooled, needed)
                self._state["spooled"].append(number)
                self._record()
        self._tables[name] = open_table(source, name, self._schema.folder, spooled)

    def _roles(self, part: str) -> Iterator[tuple[Sequence[str], str]]:
        """Yield the columns of a table that the schema names, and what for."""
        for kind, nodes in self._schema.nodes.items():
            if part == f"nodes.{kind}":
                yield nodes.key, f"the key of {part}"
                yield [nodes.time] if nodes.time else [], f"the time of {part}"
                yield nodes.features, f"a feature of {part}"
                named = [] if nodes.columns == "all" else list(nodes.chosen_columns([]))
                yield named, f"a column of {part}"
                yield nodes.label, f"the label of {part}"
        for spec in self._schema.edges:
            if part == self._part(spec):
                yield spec.columns, f"of the edges {spec.kind}"

    def _needed_columns(self, name: str) -> set[str] | None:
        """Return the columns of a table that the schema names; None: all."""
        columns: set[str] = set()
        for kind, nodes in self._schema.nodes.items():
            if name == f"nodes.{kind}":
                if nodes.columns == "all":
                    return None
                columns.update(nodes.key, nodes.features, nodes.label, nodes.chosen_columns([]))
                columns.update([nodes.time] if nodes.time else [])
        for spec in self._schema.edges:
            if name == self._part(spec):
                columns.update(spec.columns)
        return columns

    @staticmethod
    def _part(spec: EdgeSpec) -> str:
        """Return the part of the schema that has the table of an edge type."""
        return f"links.{spec.kind}" if spec.of_nodes is None else f"nodes.{spec.of_nodes}"

    def _table(self, spec: EdgeSpec) -> Table:
        return self._tables[self._part(spec)]

    def _time_forms(self) -> list[TimeForm]:
        return [
            ColumnReader(table).time_form(column)
            for part, table in self._tables.items()
            for column in self._time_columns(part)
        ]

    def _time_columns(self, part: str) -> list[str]:
        """Return the columns of times of a table."""
        nodes = [t.time for name, t in self._schema.nodes.items() if part == f"nodes.{name}"]
        edges = [spec.time for spec in self._schema.edges if part == self._part(spec)]
        return [column for column in nodes + edges if column is not None]

    def _keys(self, name: str) -> KeyColumns:
        node_table = self._schema.nodes[name]
        if node_table.key_type is not None:
            return KeyColumns(
                node_table.key_type
                if isinstance(node_table.key_type, str)
                else tuple(node_table.key_type)
            )
        if node_table.source is not None:
            return KeyColumns(ColumnReader(self._tables[f"nodes.{name}"]).key_types(node_table.key))
        places: dict[tuple[str, ...], str] = {}
        for spec, columns in self._schema.keeps(name):
            types = ColumnReader(self._table(spec)).key_types(columns)
            places.setdefault(types, f"{self._table(spec).files[0]} ({', '.join(columns)})")
        if len(places) > 1:
            (first_type, first_place), (second_type, second_place) = list(places.items())[:2]
            raise InvalidArgumentError(
                f"nodes.{name}: its keys are {', '.join(first_type)} in {first_place}, but "
                f"{', '.join(second_type)} in {second_place}: give key_type"
            )
        return KeyColumns(next(iter(places)))

    # ---- nodes -------------------------------------------------------------------------------

    def _prefix(self, name: str) -> str:
        return self._journal.path(f"node-{self._names.index(name)}-")

    def _node_files(self, name: str) -> NodeFiles:
        return NodeFiles(self._prefix(name), self._state["nodes"][name])

    def _leave_out_duplicates(self, name: str, nodes: NodeTable, keys: KeyColumns) -> None:
        table, prefix = self._tables[f"nodes.{name}"], self._prefix(name)
        states = self._state["kept"]
        if name not in states:
            assert nodes.duplicates != "error"
            states[name] = find_duplicates(
                table, nodes.key, keys, nodes.duplicates, prefix, self._memory
            )  # fmt: skip
            self._record()
        leave_out(table, states[name], prefix)
        if states[name]["left_out"]:
            self.result.notes.append(
                f"{name}: {states[name]['left_out']:,} rows left out, whose key another row has "
                f"(duplicates = {nodes.duplicates!r})"
            )

    def _make_nodes(self, name: str, keys: KeyColumns | None) -> None:
        if name not in self._state["nodes"]:
            node_table = self._schema.nodes[name]
            table = self._tables.get(f"nodes.{name}")
            keeps = [
                (spec, columns, self._table(spec)) for spec, columns in self._schema.keeps(name)
            ]
            self._state["nodes"][name] = scan_nodes(
                name, node_table, table, keeps, keys, self._prefix(name), self._unit, self._memory,
                self._show(f"Reading {name}", "rows"), self._problems,
            )  # fmt: skip
            self._record()
        state = self._state["nodes"][name]
        count, rows = state["num_nodes"], sum(state["file_rows"])
        self.result.num_nodes[name] = count
        if state["empty"]:
            left_out = ", ".join(state["empty"])
            self.result.notes.append(f"{name}: columns without any value left out: {left_out}")
        if rows and count > rows:
            self.result.notes.append(f"{name}: {count - rows:,} nodes of keys without a row")

    # ---- edges -------------------------------------------------------------------------------

    def _make_edge_types(self, number: int) -> None:
        """Make the lists of an edge type and of its reverse."""
        edges = len(self._schema.edges)
        both = [number, number + edges] if self._schema.reverse else [number]
        if any(str(kind_number) not in self._state["edges"] for kind_number in both):
            ends = self._join(number)
            try:
                for kind_number in both:
                    self._make_edges(kind_number, ends)
            finally:
                ends.close()
            ends.remove()
        for kind_number in both:
            count = self._state["edges"][str(kind_number)]["edges"]
            self.result.num_edges[self._kind(kind_number)] = count
        self._note_left_out(number)

    def _note_left_out(self, number: int) -> None:
        """Note how many rows of the table of an edge type are no edges."""
        spec = self._schema.edges[number]
        dropped = self._state["joins"][str(number)]
        if dropped["null"]:
            self.result.notes.append(f"{spec.kind}: {dropped['null']:,} null keys, no edges")
        if dropped["missing"]:
            self.result.notes.append(
                f"{spec.kind}: {dropped['missing']:,} edges left out; the first: {dropped['first']}"
            )

    def _join(self, number: int) -> JoinedEnds:
        """Return the ids of the ends of all rows of an edge type's table."""
        spec, joins = self._schema.edges[number], self._state["joins"]
        counts = [self._nodes[name].num_nodes for name, _ in spec.ends()]
        dtypes = [native.id_dtype(native.id_bytes_for(count)) for count in counts]
        prefix = self._journal.path(f"join-{number}-")
        ends = JoinedEnds(prefix, dtypes, joins.get(str(number), {}))

        def record(state: dict[str, Any]) -> None:
            joins[str(number)] = state
            self._record()

        if not ends.state["done"]:
            show = self._show(f"Joining {' '.join(spec.kind)}", "rows")
            KeyJoin(
                spec, self._table(spec), self._ids, ends, self._memory, record, show, self._problems
            ).run()
        return ends

    def _builder(
        self, number: int, memory: int | None = None
    ) -> tuple[BoundedBuild, Journal]:  # fmt: skip
        lists, _ = self._sizes(number)
        form = GraphForm(self._layout, num_nodes=lists, compress=self._compress)
        journal = Journal(self._journal.path(f"edge-{number}"), {"version": _VERSION}, False)
        keeps_time = self._columns(number).time is not None
        memory = self._memory if memory is None else memory
        build = BoundedBuild(journal, form, memory, self._threads, self._show, keeps_time)
        return build, journal

    def _sizes(self, number: int) -> tuple[int, int]:
        """Return the number of lists, and that of the nodes in them."""
        source, _, target = self._kind(number)
        ends = self._nodes[target].num_nodes, self._nodes[source].num_nodes
        if self._layout == "both":
            return max(ends), max(ends)
        return ends if self._layout == "csc" else ends[::-1]

    def _make_edges(self, number: int, ends: JoinedEnds) -> None:
        if str(number) in self._state["edges"]:
            return
        spec, reverse = self.kinds[number]
        source = TableEdges(
            spec, reverse, self._table(spec), self._nodes, ends, self._unit, self._memory,
            self._show(f"Reading {' '.join(spec.kind)}{' (reverse)' * reverse}", "rows"),
            joins_times=self._joins_times,
        )  # fmt: skip
        build, journal = self._builder(number, self._memory - source.window_bytes)
        try:
            rows = build.read(source)
            edges = build.make_lists(*self._sizes(number)) if rows else 0
        finally:
            build.close()
            journal.close()
        self._state["edges"][str(number)] = {"edges": edges, "node_time": source.sorts_by_node}
        self._record()

    # ---- write -------------------------------------------------------------------------------

    def _write(self, keys: dict[str, KeyColumns]) -> None:
        with native.FileSet() as files:
            self._write_beside(keys, files)
            self._write_graph(files)
            if not self._state.get("placed"):
                self._state["placed"] = True
                self._record()
            files.commit()

    def _write_beside(self, keys: dict[str, KeyColumns], files: native.FileSet) -> None:
        """Write maps of ids and columns as work files, which ``files`` puts in place."""
        placed = {}
        for name in keys:
            placed[ids_path(self._output, name)] = self._nodes[name].ids_path
            self.result.ids[name] = ids_path(self._output, name)
        for name, nodes in self._nodes.items():
            if nodes.columns is not None:
                written = f"{self._prefix(name)}columns"
                write = functools.partial(nodes.columns.write, written)
                show = self._show(f"Writing columns of {name}", "B")
                native.run_long(write, show, nodes.columns.nbytes)
                placed[columns_path(self._output, name)] = written
                self.result.columns[name] = columns_path(self._output, name)
        for path, written in placed.items():
            files.add(PlacedFile(written, path)).finish()
        self._beside = {
            f"{name}.{suffix}": fingerprint_of(placed[path])
            for suffix, paths in (("ids", self.result.ids), ("columns", self.result.columns))
            for name, path in paths.items()
        }

    def _write_graph(self, files: native.FileSet) -> None:
        meta = self._meta()
        size = sum(_edge_bytes(edge_type) for edge_type in meta.edge_types)

        def work(task: native.Task | None) -> None:
            with GraphFile(self._output, meta, files) as writer:
                for number in range(len(self.kinds)):
                    self._write_edges(writer, number, meta, task)
                for owner, name in enumerate(self._names):
                    times = self._nodes[name].time()
                    if times is not None:
                        write_array(writer, native.SECTION_NODE_TIME, owner, times, task)
                self._write_arrays(writer, meta, task)

        native.run_long(work, self._show("Writing graph", "B"), size)

    def _columns(self, number: int) -> EdgeColumns:
        spec = self.kinds[number][0]
        node_times: list[str] = []
        if self._joins_times:
            times = [self._nodes[end].time() for end in (spec.kind[0], spec.kind[2])]
            node_times = [str(time.dtype) for time in times if time is not None]
        return EdgeColumns(spec, self._table(spec), self._unit, node_times)

    @property
    def _joins_times(self) -> bool:
        """True if there are times of nodes and of edges: then those of edges say all."""
        schema = self._schema
        of_nodes = any(node_table.time is not None for node_table in schema.nodes.values())
        return of_nodes and any(spec.time is not None for spec in schema.edges)

    def _kind(self, number: int) -> EdgeType:
        spec, reverse = self.kinds[number]
        source, relation, target = spec.kind
        return (target, f"rev_{relation}", source) if reverse else spec.kind

    def _meta(self) -> FileMeta:
        arrays = []
        for owner, name in enumerate(self._names):
            files = self._nodes[name]
            for array_name in sorted(files.arrays):
                array = files.array(array_name)
                arrays.append(ArrayMeta(array_name, "node", owner, str(array.dtype), array.shape))
        edges = []
        for owner in range(len(self.kinds)):
            source, relation, target = self._kind(owner)
            count = self._state["edges"][str(owner)]["edges"]
            ends = self._names.index(source), self._names.index(target)
            edges.append(EdgeMeta(ends[0], relation, ends[1], count))
            attrs = self._columns(owner).attrs
            arrays += [ArrayMeta(n, "edge", owner, attrs[n], (count,)) for n in sorted(attrs)]
        # Arrays of nodes come before those of edges.
        arrays.sort(key=lambda array_meta: array_meta.of != "node")
        nodes = [NodeType(name, self._nodes[name].num_nodes) for name in self._names]
        return FileMeta(
            tuple(nodes), tuple(edges), tuple(arrays), self._unit, time_zone=self._zone,
            time_attr="edge_time" if self._joins_times else None, beside=self._beside,
        )  # fmt: skip

    def _write_edges(
        self, writer: native.NativeWriter, number: int, meta: FileMeta, task: native.Task | None
    ) -> None:  # fmt: skip
        edge_type, state = meta.edge_types[number], self._state["edges"][str(number)]
        source, target = (
            meta.node_types[end].num_nodes for end in (edge_type.source, edge_type.destination)
        )
        if not state["edges"]:
            columns = self._columns(number)
            write_no_edges(writer, number, source, target, columns, self._layout, self._compress)
            return
        build, journal = self._builder(number)
        try:
            build.make_lists(*self._sizes(number))
            for files, name, kind, _ in build.sections():
                is_csc = kind in (native.SECTION_CSC_INDPTR, native.SECTION_CSC_INDICES)
                lists, ids = (target, source) if is_csc else (source, target)
                if name == "indptr":
                    write_offsets(writer, files, kind, number, lists + 1, task)
                elif name == "minor" and self._compress:
                    column = EncodedColumn(files, name, journal.path("index"), self._memory)
                    column.write(writer, ENCODED[kind], number, task)
                elif name == "minor":
                    dtype = native.id_dtype(native.id_bytes_for(ids))
                    write_pieces(writer, kind, number, files, name, dtype, task)
                elif kind != native.SECTION_ARRAY and not (name == "time" and state["node_time"]):
                    files.write_section(writer, name, kind, number, task)
        finally:
            build.close()
            journal.close()

    def _write_arrays(
        self, writer: native.NativeWriter, meta: FileMeta, task: native.Task | None
    ) -> None:
        for owner, array_meta in enumerate(meta.arrays):
            if array_meta.of == "node":
                array = self._nodes[self._names[array_meta.type]].array(array_meta.name)
                write_array(writer, native.SECTION_ARRAY, owner, array, task)
        for number in range(len(self.kinds)):
            owners = {
                f"attr:{array_meta.name}": owner
                for owner, array_meta in enumerate(meta.arrays)
                if array_meta.of == "edge" and array_meta.type == number
            }
            if not owners:
                continue
            if not self._state["edges"][str(number)]["edges"]:
                for name, owner in owners.items():
                    dtype = self._columns(number).attrs[name[5:]]
                    writer.begin(native.SECTION_ARRAY, owner, native.dtype_code(dtype))
                    writer.end()
                continue
            build, journal = self._builder(number)
            try:
                build.make_lists(*self._sizes(number))
                for files, name, section, _ in build.sections():
                    if section == native.SECTION_ARRAY:
                        files.write_section(writer, name, section, owners[name], task)
            finally:
                build.close()
                journal.close()


def asdict_plain(record: Any) -> dict[str, Any]:
    """Return a dataclass as JSON's types; what a later call cannot compare becomes its type."""
    return {
        key: _plain(value)
        if key not in ("source", "table") or is_comparable(value)
        else type(value).__name__
        for key, value in vars(record).items()
    }


def _plain(value: Any) -> Any:
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if hasattr(value, "__dataclass_fields__"):
        return _plain(asdict(value))
    return type(value).__name__


def _edge_bytes(edge_type: EdgeMeta) -> int:
    return 8 * edge_type.num_edges
