"""Check of tables: reads them as a build does, and lists all that a build would refuse."""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np

from aethergraph.convert.external.journal import Journal
from aethergraph.convert.readers.base import InputError
from aethergraph.convert.result import Stages
from aethergraph.convert.typed.build import TypedBuild
from aethergraph.convert.typed.columns import (
    ColumnReader,
    TimeForm,
    odd_texts,
    share_times,
)
from aethergraph.convert.typed.duplicates import find_duplicates, first_left_out, leave_out
from aethergraph.convert.typed.edges import EdgeColumns
from aethergraph.convert.typed.joins import JoinedEnds
from aethergraph.convert.typed.problems import AllProblems, TablesReport
from aethergraph.convert.typed.schema import EdgeSpec, NodeTable, TableSchema
from aethergraph.convert.typed.sources import Batch, source_state
from aethergraph.errors import AetherError
from aethergraph.ids import IdMap
from aethergraph.ids.columns import KeyColumns

__all__ = ["TablesCheck"]


class TablesCheck(TypedBuild):
    """One check; :meth:`check` does all of it. Nothing is left in the folder.

    Args:
        schema: the tables.
        folder: folder for work files.
        memory: bytes for buffers.
        show: announces a stage, and returns its progress function.
    """

    def __init__(self, schema: TableSchema, folder: str, memory: int, show: Stages) -> None:
        output = os.path.join(folder, "check.aeg")
        super().__init__(schema, output, "csc", False, memory, 1, True, show, lambda text: None)
        self._problems: AllProblems = AllProblems()
        self._broken: set[str] = set()  # parts of the schema that cannot be read
        self._report = TablesReport()

    def _input_states(self) -> list[dict[str, object]]:
        return []  # a file that is missing is one of the problems

    def check(self) -> TablesReport:
        """Read all tables, and return what is wrong with them."""
        self._journal = Journal(self._output, self._command(), True)
        self._state = {"spooled": [], "kept": {}, "nodes": {}, "joins": {}, "edges": {}}
        try:
            self._open_all()
            with ExitStack() as stack:
                self._check_nodes(stack)
                for number, spec in enumerate(self._schema.edges):
                    self._check_edges(number, spec)
        finally:
            self._journal.remove()
        self._report.problems = self._problems.problems
        self._report.notes = self.result.notes
        return self._report

    @contextmanager
    def _collecting(self, part: str) -> Iterator[None]:
        """Collect an error of a part of the schema, which then is not read any further."""
        try:
            yield
        except AetherError as error:
            self._problems.add(part, error)
            self._broken.add(part)

    def _open_all(self) -> None:
        for number, (part, source) in enumerate(self._sources()):
            with self._collecting(part):
                source_state(source, self._schema.folder)
                self._open_table(number, part, source)
        for part, table in self._tables.items():
            for columns, role in self._roles(part):
                for column in columns:
                    with self._collecting(part):
                        table.check_columns([column], role)
        self._leave_out_unreadable()
        forms = self._time_forms()
        self._unit = None
        if forms:
            with self._collecting("time_unit"):
                self._unit = share_times(forms, self._schema.time_unit)

    def _time_forms(self) -> list[TimeForm]:
        broken = {part for part in self._tables if part in self._broken}
        return [
            ColumnReader(table).time_form(column)
            for part, table in self._tables.items()
            if part not in broken
            for column in self._time_columns(part)
        ]

    def _leave_out_unreadable(self) -> None:
        """Leave columns out of the schema that do not hold what they should, as problems."""
        schema = copy.copy(self._schema)
        schema.nodes = {}
        for name, nodes in self._schema.nodes.items():
            part = f"nodes.{name}"

            def readable(column: str, role: str, part: str = part) -> bool:
                return self._is_readable(part, column, role)

            schema.nodes[name] = dataclasses.replace(
                nodes,
                time=nodes.time if nodes.time and readable(nodes.time, "time") else None,
                features=tuple(c for c in nodes.features if readable(c, "feature")),
                label=tuple(c for c in nodes.label if readable(c, "label")),
            )
        schema.edges = []
        for spec in self._schema.edges:
            part = self._part(spec)
            time, weight = (
                column if column and self._is_readable(part, column, role) else None
                for column, role in ((spec.time, "time"), (spec.weight, "weight"))
            )
            attrs = [c for c in spec.attrs if self._is_readable(part, c, "edge attribute")]
            schema.edges.append(
                dataclasses.replace(spec, time=time, weight=weight, attrs=tuple(attrs))
            )
        self._schema = schema

    def _is_readable(self, part: str, column: str, role: str) -> bool:
        """Return whether a column holds times or numbers; add a problem if it does not."""
        table = self._tables.get(part)
        if table is None or part in self._broken:
            return True  # which is one already
        reader = ColumnReader(table)
        try:
            if role == "feature":
                reader.check_feature(column)
            elif role == "time":
                reader.time_form(column)
            else:
                reader.number_type(column, role)
        except InputError as error:
            if not self._add_odd_texts(part, column, role):
                self._problems.add(part, error)
            return False
        return True

    def _add_odd_texts(self, part: str, column: str, role: str) -> bool:
        """Add the texts that are no times or numbers, if there are; return whether there are."""
        import pyarrow as pa

        table, has_odd = self._tables[part], False
        if not (pa.types.is_string(kind := table.types[column]) or pa.types.is_large_string(kind)):
            return False
        kinds = (
            [pa.timestamp("us"), pa.timestamp("us", "UTC")] if role == "time" else [pa.float64()]
        )
        for batch in table.batches([column]):
            texts = batch.rows.column(column)
            odd = min((odd_texts(texts, form) for form in kinds), key=np.count_nonzero)
            if odd.any():
                text = texts[int(odd.argmax())].as_py()
                name = "time" if role == "time" else "number"
                error = batch.bad(f"the {role} {text!r} is no {name}", odd, column)
                self._problems.add(part, error, int(odd.sum()))
                has_odd = True
        return has_odd

    def _check_nodes(self, stack: ExitStack) -> None:
        self._nodes, self._ids = {}, {}
        for name, nodes in list(self._schema.nodes.items()):
            part = f"nodes.{name}"
            needed = {part} if nodes.source is not None else set()
            needed |= {self._part(spec) for spec, _ in self._schema.keeps(name)}
            if needed & self._broken:
                if part not in self._broken:
                    self._report.skipped.append(part)
                self._broken.add(part)
                continue
            if "time_unit" in self._broken:
                nodes = self._schema.nodes[name] = dataclasses.replace(nodes, time=None)
            with self._collecting(part):
                keys = self._keys(name) if name in self._mapped() else None
                left_out = self._check_duplicates(name, nodes, keys) if nodes.key and keys else 0
                self._make_nodes(name, keys)
                self._nodes[name] = self._node_files(name)
                self._report.rows[part] = sum(self._nodes[name].file_rows) + left_out
                if keys is not None:
                    self._ids[name] = stack.enter_context(IdMap.load(self._nodes[name].ids_path))

    def _check_duplicates(self, name: str, nodes: NodeTable, keys: KeyColumns) -> int:
        """Leave rows out whose key comes more than once, and return their number."""
        if nodes.duplicates != "error":
            self._leave_out_duplicates(name, nodes, keys)
            return int(self._state["kept"][name]["left_out"])
        part, prefix = f"nodes.{name}", self._prefix(name)
        table = self._tables[part]
        state = find_duplicates(table, nodes.key, keys, "first", prefix, self._memory)
        if state["left_out"]:
            file, row = first_left_out(table, state, prefix)
            error = InputError(
                file, f"the key ({', '.join(nodes.key)}) is that of an earlier row; duplicates = "
                '"first" or "last" leaves all but one of them out', line=row + 1, unit="row",
            )  # fmt: skip
            self._problems.add(part, error, state["left_out"])
        leave_out(table, state, prefix)
        return int(state["left_out"])

    def _check_edges(self, number: int, spec: EdgeSpec) -> None:
        part = self._part(spec)
        ends = {f"nodes.{name}" for name, _ in spec.ends()}
        if "time_unit" in self._broken:
            spec = dataclasses.replace(spec, time=None)
        if ({part} | ends) & self._broken:
            self._report.skipped.append(f"edges {spec.kind}")
            return
        with self._collecting(part):
            before = self._problems.left_out
            joined = self._join(number)
            try:
                self._note_left_out(number)
                lost = self._problems.left_out - before
                if spec.of_nodes is None:
                    self._report.rows[part] = joined.num_rows + lost
                self._check_values(spec, None if lost else joined)
            finally:
                joined.remove()

    def _check_values(self, spec: EdgeSpec, joined: JoinedEnds | None) -> None:
        if not spec.value_columns:
            return
        table = self._table(spec)
        values = EdgeColumns(spec, table, self._unit)
        keys = [column for _, columns in spec.ends() for column in columns]
        columns = list(dict.fromkeys([*spec.value_columns, *keys]))

        def read(batch: Batch) -> None:
            values.read(batch, np.ones(batch.rows.num_rows, np.bool_))

        for batch in table.batches(columns):
            # A row without an edge needs no values; where some rows could not be joined, all that
            # have keys count as edges.
            if joined is not None:
                first = joined.first_row(batch.file) + batch.first_row
                kept = joined.read(first, first + batch.rows.num_rows)[-1] >= 0
            else:
                valid = [batch.rows.column(column).is_valid() for column in keys]
                kept = np.all([mask.to_numpy(zero_copy_only=False) for mask in valid], axis=0)
            self._problems.read(table.name, batch.only(kept), read)
