"""Problems of tables: a build stops at the first, a check collects all of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aethergraph.convert.typed.sources import Batch, RowError
from aethergraph.errors import AetherError

__all__ = ["AllProblems", "Problem", "Problems", "TablesReport"]

#: What differs between rows with one problem: texts and numbers.
_VALUES = re.compile(r"'[^']*'|[-+]?\b\d[\w.:+-]*|\bnan\b|[-+]?\binf\b")


@dataclass
class Problem:
    """Problem of some rows of a table, or of a table as a whole.

    Attributes:
        table: part of the schema, such as "nodes.user".
        text: the problem, with file, row and column of the first row that has it.
        rows: number of rows that have it; 0 of one that is not about rows.
    """

    table: str
    text: str
    rows: int

    def __str__(self) -> str:
        more = "" if self.rows < 2 else f" ({self.rows:,} rows)"
        return f"{self.table}: {self.text}{more}"


@dataclass
class TablesReport:
    """Result of a check of tables.

    Attributes:
        rows: number of rows that were read, by part of the schema.
        problems: what a build would refuse.
        notes: what a build would leave out and count.
        skipped: parts of the schema that were not read, as others are broken.
    """

    rows: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


class Problems:
    """Problems of a build, which raises the first."""

    #: Whether what is wrong is left out and counted.
    collects = False

    def add(self, table: str, error: AetherError, rows: int = 0) -> None:
        """Add a problem; ``rows`` is how many rows have it."""
        raise error

    def read(self, table: str, batch: Batch, step: Callable[[Batch], Any]) -> None:
        """Read the rows of a batch by a step, which raises an error about rows that are wrong."""
        step(batch)


class AllProblems(Problems):
    """Problems of a check, which collects all: rows alike in all but their values are one.

    Attributes:
        problems: the problems of all tables, in the order in which they came.
        left_out: number of rows that :meth:`read` has left out.
    """

    collects = True

    def __init__(self) -> None:
        self.left_out = 0
        self.problems: list[Problem] = []
        self._by_kind: dict[tuple[str, str | None, str], Problem] = {}

    def add(self, table: str, error: AetherError, rows: int = 0) -> None:
        """Add a problem to those that are alike."""
        problem, column = str(error), None
        if isinstance(error, RowError):
            problem, column = error.problem, error.of_column
        kind = (table, column, _VALUES.sub("*", problem))
        if kind not in self._by_kind:
            self._by_kind[kind] = Problem(table, str(error), 0)
            self.problems.append(self._by_kind[kind])
        self._by_kind[kind].rows += rows

    def read(self, table: str, batch: Batch, step: Callable[[Batch], Any]) -> None:
        """Read the rows of a batch: those with a problem are left out, the others read again."""
        while batch.rows.num_rows:
            try:
                step(batch)
                return
            except RowError as error:
                wrong = error.find_rows()
                self.add(table, error, int(wrong.sum()))
                self.left_out += int(wrong.sum())
                batch = batch.only(~wrong)
            except AetherError as error:  # of the column as a whole
                self.add(table, error)
                return
