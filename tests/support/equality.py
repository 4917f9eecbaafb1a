"""Tables: configurations of loaders in rows, the storages of one graph in columns.

A cell is equal to what the same row gives over the graph in memory, or a refusal that a page of the
documentation names, or a known fault. By default a share of the cells is tried, in which every row
and every column is; with ``AETHERGRAPH_ALL=1`` all of them are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.golden import digest
from support.same_graph import REFERENCE, STORAGES, Content, Stored
from support.share import ALL

DOCS = Path(__file__).resolve().parents[2] / "docs"
SHARES = 6

#: Makes a loader over a graph.
Configuration = Callable[[Stored], Iterable[Any]]
#: Everything that a batch holds, by name, its edge ids as rows of the edges.
Contents = dict[str, Any]


class Sheet(NamedTuple):
    """Part of a table: one graph."""

    content: Callable[[], Content]
    rows: Mapping[str, Configuration]
    columns: Sequence[str]


class Refusal(NamedTuple):
    """Cells that raise an error."""

    rows: Sequence[str]
    columns: Sequence[str]
    error: type[Exception]
    words: str  # of its message, and of the page
    page: str

    def covers(self, row: str, column: str) -> bool:
        """Return whether a cell is to raise the error."""
        return row in self.rows and column in self.columns


class Fault(NamedTuple):
    """Cells that are neither equal nor refused, as they should be."""

    sheet: str
    rows: Sequence[str]
    columns: Sequence[str]
    error: type[Exception]  # that they end in
    reason: str

    def covers(self, sheet: str, row: str, column: str) -> bool:
        """Return whether a cell has the fault."""
        return sheet == self.sheet and row in self.rows and column in self.columns


def every_cell(sheet: Sheet) -> list[tuple[str, str]]:
    """Return (row, column) of all cells."""
    return [(row, column) for row in sheet.rows for column in sheet.columns]


def share_of(sheet: Sheet) -> list[tuple[str, str]]:
    """Return the cells that are tried by default, as a Latin square has them.

    That is every sixth column of a row, shifted by one from row to row. Rows with workers, which
    take as long as ten others to start, have one cell each.
    """
    rows, columns = list(sheet.rows), list(sheet.columns)
    cells = [(rows[i % len(rows)], column) for i, column in enumerate(columns)]
    for i, row in enumerate(rows):
        step = len(columns) if "workers" in row else min(SHARES, len(columns))
        cells += [(row, columns[j]) for j in range(i % step, len(columns), step)]
    return list(dict.fromkeys(cells))


class Table:
    """Table whose cells are tests.

    Args:
        sheets: its parts by name.
        read: makes :data:`Contents` of a batch and of :attr:`Stored.row_of`.
        alike: rows that draw as other ones do, and only work in another way, by those others.
        refusals: cells that are refused.
        faults: known faults, each of whose cells has to fail by its error until it is mended.
    """

    def __init__(
        self,
        sheets: Mapping[str, Sheet],
        read: Callable[[Any, Any], Contents],
        alike: Mapping[str, str],
        refusals: Sequence[Refusal] = (),
        faults: Sequence[Fault] = (),
    ) -> None:
        self.sheets, self.read, self.alike = sheets, read, alike
        self.refusals, self.faults = refusals, faults

    def cells(self) -> list[Any]:
        """Return (sheet, row, column) of each cell that is tried, as parameters of a test."""
        return [
            pytest.param(name, row, column, marks=self._marks(name, row, column))
            for name, sheet in self.sheets.items()
            for row, column in (every_cell(sheet) if ALL else share_of(sheet))
        ]

    def _marks(self, sheet: str, row: str, column: str) -> list[Any]:
        marks = [
            pytest.mark.xfail(strict=True, raises=fault.error, reason=fault.reason)
            for fault in self.faults
            if fault.covers(sheet, row, column)
        ]
        return [*marks, pytest.mark.forks] if "workers" in row else marks

    def refusal(self, row: str, column: str) -> Refusal | None:
        """Return the refusal of a cell, if it is to be refused."""
        return next((one for one in self.refusals if one.covers(row, column)), None)


class Columns:
    """The graphs of a table, made when they are asked for.

    Args:
        table: the table.
        folder: where files go.
        begin: called before each epoch: sets what loaders draw from.
    """

    def __init__(self, table: Table, folder: Path, begin: Callable[[], Any]) -> None:
        self.table, self.folder, self.begin = table, folder, begin
        self._graphs: dict[tuple[str, str], Stored] = {}
        self._wanted: dict[tuple[str, str], list[Contents]] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Columns:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def graph(self, sheet: str, column: str = "reference") -> Stored:
        """Return the graph of a sheet as a column stores it."""
        if (sheet, column) not in self._graphs:
            make = REFERENCE if column == "reference" else STORAGES[column]
            folder = self.folder / f"{sheet}, {column}"
            folder.mkdir()
            made = make(self.table.sheets[sheet].content(), folder, self._stack)
            self._graphs[sheet, column] = made
        return self._graphs[sheet, column]

    def batches(self, sheet: str, row: str, stored: Stored) -> list[Contents]:
        """Return what the batches of a row hold over a graph."""
        self.begin()
        batches = self.table.sheets[sheet].rows[row](stored)
        return [self.table.read(batch, stored.row_of) for batch in batches]

    def wanted(self, sheet: str, row: str) -> list[Contents]:
        """Return what the batches of a row have to hold."""
        row = self.table.alike.get(row, row)
        if (sheet, row) not in self._wanted:
            self._wanted[sheet, row] = self.batches(sheet, row, self.graph(sheet))
        return self._wanted[sheet, row]

    def check(self, sheet: str, row: str, column: str) -> None:
        """Check that a cell is equal to the reference, or refused as the table says."""
        stored, refusal = self.graph(sheet, column), self.table.refusal(row, column)
        if refusal is None:
            assert_same(self.batches(sheet, row, stored), self.wanted(sheet, row))
            return
        with pytest.raises(refusal.error) as raised:
            self.batches(sheet, row, stored)
        assert refusal.words in str(raised.value)


def assert_same(found: Sequence[Contents], wanted: Sequence[Contents]) -> None:
    """Check that batches hold the same, bit by bit.

    Raises:
        AssertionError: names the batch and the first value that differs.
    """
    assert len(found) == len(wanted)
    for number, (batch, expected) in enumerate(zip(found, wanted, strict=True)):
        assert batch.keys() == expected.keys(), f"batch {number}"
        for name, value in expected.items():
            other = batch[name]
            label = f"batch {number}: {name}"
            assert type(other) is type(value), label
            if hasattr(value, "dtype"):
                assert (other.dtype, other.shape) == (value.dtype, value.shape), label
                assert bool((other == value).all()), label
            else:
                assert other == value, label


class TableRules:
    """Rules of a table itself: base of a test class, beside a fixture ``columns``.

    Attributes:
        table: the table.
    """

    table: Table

    def test_the_share_has_every_row_and_every_column(self) -> None:
        for sheet in self.table.sheets.values():
            cells = share_of(sheet)
            assert {row for row, _ in cells} == set(sheet.rows)
            assert {column for _, column in cells} == set(sheet.columns)
            assert set(cells) < set(every_cell(sheet))

    def test_rows_are_alike_only_where_the_table_says_so(self, columns: Columns) -> None:
        """A row that draws as another one would compare nothing that is not compared already."""
        for name, sheet in self.table.sheets.items():
            rows: dict[str, str] = {}
            for row in sheet.rows:
                if row not in self.table.alike:
                    batches = columns.wanted(name, row)
                    assert len(batches) > 1, row
                    other = rows.setdefault(digest(batches), row)
                    assert other == row, f"{name}: {row} draws as {other}"

    def test_pages_name_what_is_refused(self) -> None:
        for refusal in self.table.refusals:
            assert refusal.words in (DOCS / refusal.page).read_text(), refusal.page

    def test_every_refusal_and_every_fault_is_of_a_cell(self) -> None:
        cells = {(n, *cell) for n, sheet in self.table.sheets.items() for cell in every_cell(sheet)}
        for refusal in self.table.refusals:
            for row in refusal.rows:
                for column in refusal.columns:
                    assert any(cell[1:] == (row, column) for cell in cells), (row, column)
        for fault in self.table.faults:
            wanted = {(fault.sheet, row, column) for row in fault.rows for column in fault.columns}
            assert wanted <= cells, wanted - cells
