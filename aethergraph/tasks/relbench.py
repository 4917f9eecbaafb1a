"""Tasks of RelBench: three tables with the columns that the task names, and those that it hides."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.options import shown
from aethergraph.convert.readers.base import InputError
from aethergraph.errors import InvalidArgumentError
from aethergraph.protocols import RowSource
from aethergraph.tasks.links import LinkTask
from aethergraph.tasks.reading import AnyGraph, NamedTable, Unknown
from aethergraph.tasks.rows import Splits
from aethergraph.tasks.table import TableTask

__all__ = ["relbench_task"]

_ENTITY = ("entity_table", "entity_col", "time_col")
_LINK = (
    "src_entity_table", "src_entity_col", "dst_entity_table", "dst_entity_col", "time_col",
)  # fmt: skip
_REBUILD = "build the graph of relbench_schema(task.get_db(upto_test_timestamp=False))"
_ROWS = 1 << 16  # rows that are compared at once


def relbench_task(
    graph: AnyGraph, task: Any, *, unknown: Unknown = "error"
) -> Splits[TableTask] | Splits[LinkTask]:
    """Return the train, val and test table of a task of RelBench as seeds over a graph.

    The test table has no labels, as ``task.get_table("test")`` leaves them out.

    Columns that the labels are or were derived from (``task.hidden_columns()``, RelBench 3) may not
    be in the graph: ``task.get_db()`` is the database without them, ``dataset.get_db()`` has them.
    The features of the graph are compared with these columns, wherever they are in ``x``.

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
    missing = [one for one in ("get_table", *names) if not hasattr(task, one)]
    if missing:
        raise InvalidArgumentError(f"task has no {', '.join(missing)}: {shown(task)}")
    named = {one: getattr(task, one) for one in names}
    hidden = _hidden_columns(task)
    _refuse_hidden(graph, task, hidden)
    tables = []
    for split in ("train", "val", "test"):
        frame: Any = getattr(task.get_table(split), "df", None)
        if frame is None:
            raise InvalidArgumentError("task.get_table returns no table with a df")
        tables.append(NamedTable(frame, f"the {split} table of the task"))
    if names is _LINK:
        return Splits(*(LinkTask(graph, one, **named, unknown=unknown) for one in tables))
    target = getattr(task, "target_col", None)
    try:
        return Splits(
            *(
                TableTask(
                    graph,
                    one,
                    **named,
                    target_col=target if target in one.source.columns else None,
                    unknown=unknown,
                )
                for one in tables
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
    if not hidden or not graph.is_typed:
        return
    views = _Views(task)
    for table, column in hidden:
        if table not in graph.node_types:
            continue
        place = _place_by_name(graph, table, column)
        rows = graph[table].attrs.get("x")
        if place is None and rows is not None:
            values = views.column(table, column, rows.num_rows)
            if values is None:
                warnings.warn(
                    f"the task hides the column {column!r} of {table!r}, and whether the graph has "
                    "it among its features cannot be told: task.dataset has no such column of "
                    f"{rows.num_rows} rows",
                    stacklevel=3,
                )
                continue
            at = _column_with(rows, values)
            place = None if at is None else f"x[:, {at}] of its nodes"
        if place is not None:
            raise InvalidArgumentError(
                f"the graph has the column {column!r} of {table!r}, which the labels of the task "
                f"are or were derived from, as {place}: {_REBUILD}"
            )


def _place_by_name(graph: Any, table: str, column: str) -> str | None:
    """Return where a graph keeps a column under its name, in words, or None."""
    if column in graph[table].attrs:
        return f"{column!r} of its nodes"
    kept = getattr(graph, "columns", {})
    if table in kept and column in kept[table].columns:
        return "a column beside the graph"
    relation = f"f2p_{column}"
    if any(kind[0] == table and kind[1] == relation for kind in graph.edge_types):
        return f"edges {relation!r}"
    return None


class _Views:
    """Database of a task's dataset: with all rows, and with those up to the test timestamp."""

    def __init__(self, task: Any) -> None:
        self._get_db = getattr(getattr(task, "dataset", None), "get_db", None)
        self._views: dict[bool, Any] = {}

    def column(self, table: str, column: str, num_rows: int) -> NDArray[np.float32] | None:
        """Return a column of the view in which its table has so many rows, or None.

        What is no number becomes an empty array: no feature equals it.
        """
        for is_early in (True, False) if self._get_db is not None else ():
            if is_early not in self._views:
                assert self._get_db is not None
                self._views[is_early] = self._get_db(upto_test_timestamp=is_early).table_dict
            found = self._views[is_early].get(table)
            if found is None or column not in found.df.columns or len(found.df) != num_rows:
                continue
            series = found.df[column]
            if series.dtype.kind not in "ifb":
                return np.empty(0, np.float32)
            values: NDArray[np.float32] = series.to_numpy("float32", na_value=np.nan)
            return values
        return None


def _column_with(rows: RowSource, values: NDArray[np.float32]) -> int | None:
    """Return the first column of a matrix that equals some values, or None.

    A column of one value tells nothing of a label, and so equals none.
    """
    if len(values) != rows.num_rows or len(rows.shape) != 2 or _is_constant(values):
        return None
    left = np.arange(rows.shape[1])
    for begin in range(0, len(values), _ROWS):
        part = values[begin : begin + _ROWS, None]
        found = np.asarray(rows.gather(np.arange(begin, begin + len(part))))[:, left]
        with np.errstate(invalid="ignore"):
            left = left[((found == part) | (np.isnan(found) & np.isnan(part))).all(axis=0)]
    return int(left[0]) if len(left) else None


def _is_constant(values: NDArray[np.float32]) -> bool:
    return not len(values) or bool(
        np.isnan(values).all() or (values == values[0]).all()
    )  # fmt: skip
