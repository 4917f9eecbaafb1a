"""Schema of a database of RelBench: its tables as data frames, keys and times as it names them."""

from __future__ import annotations

from typing import Any

from aethergraph._checks.options import as_flag, shown
from aethergraph.convert.typed.schema import ForeignKey, NodeTable, TableSchema
from aethergraph.errors import InvalidArgumentError

__all__ = ["relbench_schema"]

_PARTS = ("df", "pkey_col", "fkey_col_to_pkey_table", "time_col")


def relbench_schema(database: Any, *, exact: bool = True) -> TableSchema:
    """Return the schema of a RelBench database, for :func:`aethergraph.convert.tables`.

    The graph is that of ``torch_geometric.contrib.utils.from_relbench``: a row is a node, in the
    order of its table; a foreign key is an edge of the relation ``f2p_COLUMN``, and
    ``rev_f2p_COLUMN`` backwards; integers and floats become ``x``, NaN where missing; times count
    seconds. Beyond that, lists of edges are in the order of time, keys need not be the numbers of
    rows, and the tables go through the memory budget of ``tables``.

    The database of a dataset has columns that labels are derived from: for a task of RelBench 3
    give ``task.get_db()``, which hides them, and for one that completes a column
    ``task.get_db(upto_test_timestamp=False)``, which has the rows to test with. A foreign key whose
    column was taken out is no edge.

    Args:
        database: a ``relbench.base.Database``, or any object whose ``table_dict`` maps names to
            tables with ``df`` (pandas), ``pkey_col``, ``fkey_col_to_pkey_table`` and ``time_col``.
        exact: False: times are rounded down to seconds and numbers to float32, as ``from_relbench``
            does without a word. True: ``tables`` refuses values that this would change.

    Raises:
        InvalidArgumentError: it is not such an object, or a foreign key refers to a table that is
            not there or has no primary key.
    """
    exact = as_flag(exact, "exact")
    tables = getattr(database, "table_dict", None)
    if not isinstance(tables, dict) or not tables:
        raise InvalidArgumentError(f"database has no tables in table_dict: {shown(database)}")
    for name, table in tables.items():
        if missing := [part for part in _PARTS if not hasattr(table, part)]:
            raise InvalidArgumentError(f"table {name!r} has no {', '.join(missing)}")
    for name, table in tables.items():
        for column, to in table.fkey_col_to_pkey_table.items():
            if to not in tables or tables[to].pkey_col is None:
                raise InvalidArgumentError(
                    f"column {column!r} of table {name!r} refers to {to!r}, "
                    f"which is no table with a primary key"
                )
    return TableSchema(
        {name: _nodes(table, exact) for name, table in tables.items()}, time_unit="s"
    )


def _nodes(table: Any, exact: bool) -> NodeTable:
    frame = table.df
    foreign = {c: to for c, to in table.fkey_col_to_pkey_table.items() if c in frame.columns}
    named = {table.pkey_col, table.time_col, *foreign}
    features = [c for c in frame.columns if c not in named and frame[c].dtype.kind in "if"]
    if not exact:
        rounded = {c: frame[c].astype("float32") for c in features}
        if table.time_col is not None and frame[table.time_col].dtype.kind == "M":
            rounded[table.time_col] = frame[table.time_col].dt.floor("s")
        frame = frame.assign(**rounded)
    return NodeTable(
        frame,
        key=() if table.pkey_col is None else table.pkey_col,
        time=table.time_col,
        features=features,
        fill=float("nan"),
        foreign={f"f2p_{column}": ForeignKey(to, column) for column, to in foreign.items()},
    )
