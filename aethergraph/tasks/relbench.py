"""Tasks of RelBench: three tables with the columns that the task names, and those that it hides."""

from __future__ import annotations

import warnings
from typing import Any

from aethergraph._checks.options import shown
from aethergraph.convert.readers.base import InputError
from aethergraph.errors import InvalidArgumentError
from aethergraph.graph.schema import as_typed
from aethergraph.protocols import AnyGraph
from aethergraph.tasks.hidden import HiddenColumn, place_by_name, place_by_values
from aethergraph.tasks.links import LinkTask
from aethergraph.tasks.reading import NamedTable, Unknown
from aethergraph.tasks.rows import Splits
from aethergraph.tasks.table import TableTask

__all__ = ["relbench_task"]

_ENTITY = ("entity_table", "entity_col", "time_col")
_LINK = (
    "src_entity_table", "src_entity_col", "dst_entity_table", "dst_entity_col", "time_col",
)  # fmt: skip
_REBUILD = "build the graph of relbench_schema(task.get_db(upto_test_timestamp=False))"


def relbench_task(
    graph: AnyGraph, task: Any, *, unknown: Unknown = "error"
) -> Splits[TableTask] | Splits[LinkTask]:
    """Return the train, val and test table of a task of RelBench as seeds over a graph.

    The test table has no labels, as ``task.get_table("test")`` leaves them out.

    Columns that the labels are or were derived from (``task.hidden_columns()``, RelBench 3) may not
    be in the graph: ``task.get_db()`` is the database without them, ``dataset.get_db()`` has them.
    They are looked for by name, and by value in attributes, times, columns beside the graph, and
    edges of which each row has one at most, with their values: as numbers, times in any unit (which
    ISO texts are, too), or any other values that are equal where theirs are, such as codes of
    texts. Missing values may be filled; of a column of one value, missing is another. Values that
    match count only where more than a million other orders of them over their rows would not: a
    column of which fewer than ten rows have a value may be found by its name alone. Not found are
    values that were made coarser, or mixed with others; values of which most are different, where
    they are scaled or encoded; texts under another name; and what the rows of other tables tell.

    Args:
        graph: a graph that :func:`aethergraph.convert.relbench_schema` has described.
        task: a ``relbench.base.EntityTask`` or ``RecommendationTask``, or an object with
            ``get_table`` and their members ``entity_table``, ``entity_col``, ``time_col``,
            ``target_col``, or ``src_entity_table``, ``src_entity_col``, ``dst_entity_table``,
            ``dst_entity_col``, ``time_col``; and, if it hides columns, ``hidden_columns`` and the
            ``dataset`` whose ``get_db`` has them.
        unknown: as in :class:`TableTask`.

    Raises:
        InputError: as :class:`TableTask`.
        InvalidArgumentError: it is not such an object, or the graph keeps a column that the task
            hides.
    """
    names = _LINK if hasattr(task, "src_entity_table") else _ENTITY
    missing = [name for name in ("get_table", *names) if not hasattr(task, name)]
    if missing:
        raise InvalidArgumentError(f"task has no {', '.join(missing)}: {shown(task)}")
    named = {name: getattr(task, name) for name in names}
    hidden = _hidden_columns(task)
    _refuse_hidden(graph, task, hidden)
    tables = []
    for split in ("train", "val", "test"):
        frame: Any = getattr(task.get_table(split), "df", None)
        if frame is None:
            raise InvalidArgumentError("task.get_table returns no table with a df")
        tables.append(NamedTable(frame, f"the {split} table of the task"))
    if names is _LINK:
        return Splits(*(LinkTask(graph, table, **named, unknown=unknown) for table in tables))
    target = getattr(task, "target_col", None)
    try:
        return Splits(
            *(
                TableTask(
                    graph,
                    table,
                    **named,
                    target_col=target if target in table.source.columns else None,
                    unknown=unknown,
                )
                for table in tables
            )
        )
    except InputError as error:
        if (task.entity_table, target) in hidden:
            error.args = (
                f"{error}. Rows of {task.entity_table!r} after the test timestamp are seeds of "
                f"this task, and only the whole database has them: {_REBUILD}",
            )
        raise


def _hidden_columns(task: Any) -> list[tuple[str, str]]:
    """Return (table, column) of the columns that a task may not see; RelBench 3 names them."""
    if not hasattr(task, "hidden_columns"):
        return []
    pairs = task.hidden_columns()
    if not isinstance(pairs, (list, tuple)) or not all(
        isinstance(pair, (list, tuple)) and list(map(type, pair)) == [str, str] for pair in pairs
    ):
        raise InvalidArgumentError(
            f"task.hidden_columns() gives pairs of a table and a column, got {shown(pairs)}"
        )
    return [(table, column) for table, column in pairs]


def _refuse_hidden(graph: AnyGraph, task: Any, hidden: list[tuple[str, str]]) -> None:
    """Refuse a graph that has a column which the task hides.

    Raises:
        InvalidArgumentError: it has; names the column, and where it is in the graph.
    """
    views = _Views(task)
    for table, column in hidden:
        typed: Any = as_typed(graph, node_type=table)
        if table not in typed.node_types:
            continue
        place = place_by_name(typed, table, column)
        if place is None:
            values = views.column(table, column, typed.num_nodes[table])
            if values is None:
                warnings.warn(
                    f"the task hides the column {column!r} of {table!r}, and whether the graph has "
                    "it under another name cannot be told: task.dataset has no such column of "
                    f"{typed.num_nodes[table]} rows",
                    stacklevel=3,
                )
                continue
            place = place_by_values(typed, table, values)
        if place is not None:
            raise InvalidArgumentError(
                f"the graph has the column {column!r} of {table!r}, which the labels of the task "
                f"are or were derived from, as {place}: {_REBUILD}"
            )


class _Views:
    """Database of a task's dataset: with all rows, and with those up to the test timestamp."""

    def __init__(self, task: Any) -> None:
        self._get_db = getattr(getattr(task, "dataset", None), "get_db", None)
        self._views: dict[bool, Any] = {}

    def column(self, table: str, column: str, num_rows: int) -> HiddenColumn | None:
        """Return a column of the view in which its table has so many rows, or None."""
        for is_early in (True, False) if self._get_db is not None else ():
            if is_early not in self._views:
                assert self._get_db is not None
                self._views[is_early] = self._get_db(upto_test_timestamp=is_early).table_dict
            tables = self._views[is_early]
            view_table = tables.get(table)
            if (
                view_table is None
                or column not in view_table.df.columns
                or len(view_table.df) != num_rows
            ):
                continue
            series = view_table.df[column]
            target = tables.get(getattr(view_table, "fkey_col_to_pkey_table", {}).get(column))
            keys = None if target is None else target.df[target.pkey_col]
            return HiddenColumn(series, keys if keys is not None and keys.is_unique else None)
        return None
