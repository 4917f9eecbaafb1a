"""First of several files with edges, which says what the columns of the later ones are.

Parts of a file that was split have a header in the first part only::

    a.csv   weight,src,dst      names: later files with names are read by these
            5,0,1
    b.csv   7,1,2               no names: the places of a.csv
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from aethergraph.convert.formats.graphzero import GlTable
from aethergraph.convert.readers.base import InputError, PathLike, select_column
from aethergraph.convert.readers.npy_edges import NpyTable
from aethergraph.convert.readers.parquet import ParquetTable
from aethergraph.convert.readers.text import TextTable

__all__ = ["FirstFile", "Table", "ZoneCheck"]

Table: TypeAlias = TextTable | ParquetTable | NpyTable | GlTable


class FirstFile:
    """Columns of the first file.

    Args:
        table: the file.
        columns: columns that were chosen: sources, destinations, values.
        by_number: whether the caller chose all of them by number.
    """

    def __init__(self, table: Table, columns: Sequence[int], by_number: bool) -> None:
        self._path = table.path
        self._is_text = isinstance(table, TextTable)
        self._names = table.names
        self._num_columns = table.num_columns
        self._columns = list(columns)
        self._by_number = by_number

    def settle_header(self, table: Table, known: tuple[int, int] | None) -> None:
        """Decide whether a later text file has a header.

        Args:
            table: the file.
            known: columns of its first line with well-known names of sources and destinations;
                None if there are none, or the caller chose columns.
        """
        names = {self._names[c] for c in self._columns} if self._names is not None else None
        if known is not None or (names is not None and names <= set(table.peek_names())):
            table.require_header()
        table.settle_header(self._columns[:2])

    def columns_of(self, table: Table, known: tuple[int, int] | None) -> list[int] | None:
        """Return the columns of a later text file by their places; None if names choose them.

        Raises:
            InputError: neither names nor places say which columns they are.
        """
        has_names = table.names is not None and self._names is not None
        if has_names or not self._is_text or not isinstance(table, TextTable):
            return None
        if table.num_columns != self._num_columns and not self._by_number:
            raise InputError(
                table.path,
                f"has {table.num_columns} columns where {self._path} has {self._num_columns}, and "
                "not both have names: choose all columns by number (--src, --dst)",
            )
        if known is not None and list(known) != self._columns[:2] and not self._by_number:
            raise InputError(
                table.path,
                f"names other columns as ends than the first two, which were taken of {self._path} "
                "as that has no header: give this file first, or choose columns by number "
                "(--src, --dst)",
            )
        return self._columns if max(self._columns) < table.num_columns else None

    def ends_of(self, table: Table) -> tuple[int, int] | None:
        """Return the ends in a later file by their names in the first; None if that has none."""
        if self._names is None or table.names is None:
            return None
        src, dst = (
            select_column(table.path, self._names[column], table.names, table.num_columns, role)
            for column, role in zip(self._columns, ("source id", "destination id"), strict=False)
        )
        return src, dst


class ZoneCheck:
    """Comparison of times in several files: all have a time zone, or none has one."""

    def __init__(self) -> None:
        self._first: tuple[PathLike, bool] | None = None

    def check(self, table: Table, column: int, unit: str) -> None:
        """Compare the times of a file with those before it.

        Raises:
            InputError: only some of the files have a time zone.
        """
        if not isinstance(table, TextTable | ParquetTable):
            return
        zoned = table.has_zone(column, unit)
        if zoned is None:
            return
        if self._first is None:
            self._first = (table.path, zoned)
        path, before = self._first
        if zoned != before:
            have = ("no time zone", "a time zone")
            raise InputError(
                table.path,
                f"the times have {have[zoned]}, but those of {path} have {have[before]}: give "
                "all of them with a zone, or all without",
                column=column + 1,
                column_name=table.column_name(column),
            )
