"""Columns that a task hides, looked for in a graph: by their names, and by their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from math import lgamma, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["HiddenColumn", "place_by_name", "place_by_values"]

Array = NDArray[Any]
#: Reads some rows of columns side by side, [n, width].
Read = Callable[[slice], Array]

_NUMBERS = 1 << 22  # numbers of a graph that are compared at once
_MILLION = log(1e6)
#: Nanoseconds of units of time.
_UNITS = {
    "D": 86_400 * 10**9, "h": 3_600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6,
    "us": 10**3, "ns": 1,
}  # fmt: skip
_TIMES = ("date", "datetime", "datetime64", "string")
_FIRST = 100  # texts that are read before many others
_SPANS = ("timedelta", "timedelta64")


class HiddenColumn:
    """Values of a column, in all forms in which a graph may have them.

    Args:
        series: the column, of pandas.
        keys: of a foreign key, the keys of the other table, all different.
    """

    def __init__(self, series: Any, keys: Any = None) -> None:
        pd: Any = import_module("pandas")
        try:
            codes, distinct = pd.factorize(series)
        except TypeError:  # lists and the like
            texts = series.astype(str).where(series.notna(), None)
            codes, distinct = pd.factorize(texts)
        #: Of each row the number of its value, -1 where it is missing.
        self.codes: Array = codes
        #: For each form the numbers of some values that are given by their numbers.
        self._forms = _forms_of(pd.Series(distinct, dtype=distinct.dtype))
        if keys is not None:  # the row of the other table that each value refers to, -1 for none
            targets = pd.Index(keys).get_indexer(distinct)
            self._forms.append(targets.__getitem__)
        if len(distinct) == 1 and (codes < 0).any():  # what it tells is where it is missing
            self.codes, self._forms = (codes < 0).astype(np.int64), []

    def find(self, read: Read, width: int, rows: Array | None = None) -> int | None:
        """Return the first of some columns that has these values, or one for each of them.

        Args:
            read: reads the columns.
            width: number of columns.
            rows: which rows of the table they have, each at most once; None: all.
        """
        all_codes = self.codes if rows is None else self.codes[rows]
        all_known = all_codes[all_codes >= 0]
        same = [np.arange(width) for _ in self._forms]
        coded = np.arange(width if _log_divisions(all_known) > _MILLION else 0)
        count = int(all_codes.max(initial=-1)) + 1
        values: Array | None = None  # for each code, of the columns in ``coded``
        seen = np.zeros(count, np.bool_)
        step = max(1, _NUMBERS // width)
        for begin in range(0, len(all_codes), step):
            if not len(coded) and not any(map(len, same)):
                return None
            some = slice(begin, min(begin + step, len(all_codes)))
            known = all_codes[some] >= 0
            codes = all_codes[some][known]
            block = read(some)[known]
            if block.dtype.kind != "f":
                block = block.astype(np.float64)
            for number, form in enumerate(self._forms):
                if len(same[number]):
                    equal = _are_equal(block[:, same[number]], form(codes))
                    same[number] = same[number][equal]
            block = np.where(np.isnan(block), np.finfo(block.dtype).min, block)[:, coded]
            codes, first, back = np.unique(codes, return_index=True, return_inverse=True)
            left = (block[first][back] == block).all(axis=0)
            if values is not None:
                before = seen[codes]
                left &= (block[first][before] == values[codes[before]]).all(axis=0)
                values = values[:, left]
            else:
                values = np.zeros((count, int(left.sum())), block.dtype)
            coded = coded[left]
            values[codes] = block[first][:, left]
            seen[codes] = True
        if values is not None:
            columns = zip(coded.tolist(), values[seen].T, strict=True)
            coded = np.array(
                [at for at, column in columns if len(np.unique(column)) == len(column)], int
            )
        for number, form in enumerate(self._forms):
            if len(same[number]) and _log_orders(form(all_known)) <= _MILLION:
                same[number] = same[number][:0]
        left_over = np.concatenate([coded, *same])
        return int(left_over.min()) if len(left_over) else None


def _log_orders(values: Array) -> float:
    """Return the logarithm of the number of orders that values have.

    One of so many is the chance that values in any order are in this one.
    """
    counts = np.unique(values, return_counts=True)[1]
    sizes, times = np.unique(counts, return_counts=True)
    parts = zip(sizes.tolist(), times.tolist(), strict=True)
    return float(lgamma(len(values) + 1) - sum(count * lgamma(size + 1) for size, count in parts))


def _log_divisions(codes: Array) -> float:
    """Return the logarithm of the number of ways to divide rows in parts as large as the codes do.

    None where most are alone: rows that are the same as a whole divide all columns in that way.
    """
    sizes = np.unique(codes, return_counts=True)[1]
    if len(sizes) > len(codes) // 2:
        return 0.0
    # Parts of one size that change places divide the rows as before.
    times = np.unique(sizes, return_counts=True)[1]
    return _log_orders(codes) - sum(map(lgamma, (times + 1).tolist()))


def _are_equal(block: Array, values: Array) -> NDArray[np.bool_]:
    """Return which columns equal some values, but for the last digits of their type."""
    near = 4 * np.finfo(block.dtype).eps
    with np.errstate(over="ignore", invalid="ignore"):
        part = values.astype(block.dtype)[:, None]
        equal = (np.abs(block - part) <= near * np.abs(part)) | (block == part)
    columns: NDArray[np.bool_] = equal.all(axis=0)
    return columns


def _forms_of(values: Any) -> list[Callable[[Array], Array]]:
    """Return functions that give some of the values as numbers, each in another way."""
    pd: Any = import_module("pandas")
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(values.cat.categories.dtype)
    forms: list[Callable[[Array], Array]] = []
    kind = pd.api.types.infer_dtype(values)
    if kind == "string" and len(values) > _FIRST and not _forms_of(values[:_FIRST]):
        return []
    times = None
    if kind in _TIMES:
        times = pd.to_datetime(values, errors="coerce", utc=True, format="ISO8601")
        times = times.dt.tz_localize(None)
    elif kind in _SPANS:
        times = pd.to_timedelta(values, errors="coerce")
    if times is not None and not times.isna().any():
        array = times.to_numpy()
        unit = _UNITS[np.datetime_data(array.dtype)[0]]
        forms = _times_as_numbers(array.astype(np.int64), unit)
    if kind in _SPANS or values.dtype.kind == "M":
        return forms
    numbers = pd.to_numeric(values, errors="coerce")
    if numbers.dtype.kind in "iufb" and not numbers.isna().any():
        forms.append(numbers.to_numpy("float64").__getitem__)
    return forms


def _times_as_numbers(counts: Array, unit: int) -> list[Callable[[Array], Array]]:
    """Return functions that give times as numbers of each unit, with fractions and without."""
    forms: list[Callable[[Array], Array]] = []
    for form_unit in _UNITS.values():
        forms.append(partial(_in_units, counts, unit / form_unit))
        if form_unit > unit:
            forms.append(partial(_in_whole_units, counts, form_unit // unit))
    return forms


def _in_units(counts: Array, factor: float, some: Array) -> Array:
    return counts[some] * factor


def _in_whole_units(counts: Array, part: int, some: Array) -> Array:
    return counts[some] // part


def place_by_name(graph: Any, table: str, column: str) -> str | None:
    """Return where a graph keeps a column of a node type under its name, in words, or None."""
    if column in graph[table].node_attrs:
        return f"{column!r} of its nodes"
    kept = getattr(graph, "columns", {})
    if table in kept and column in kept[table].columns:
        return "a column beside the graph"
    for kind in graph.edge_types:
        source, relation, target = kind
        forward = source == table and relation in (column, f"f2p_{column}")
        if forward or (target == table and relation in (f"rev_{column}", f"rev_f2p_{column}")):
            return f"edges {relation!r}"
        if column in graph[kind].edge_attrs and any(_edges_of_rows(graph, table, kind)):
            return f"{column!r} of edges {relation!r}"
    return None


def place_by_values(graph: Any, table: str, column: HiddenColumn) -> str | None:
    """Return where a graph keeps the values of a column of a node type, in words, or None."""
    for describe, width, read, rows in _stores(graph, table, len(column.codes)):
        at = column.find(read, width, rows)
        if at is not None:
            return describe(at)
    return None


#: Columns side by side: what the one of a number is called, their number, how to read them, and
#: which rows of a table they have, None for all.
_Store = tuple[Callable[[int], str], int, Read, Array | None]


def _stores(graph: Any, table: str, num_rows: int) -> Iterator[_Store]:
    """Yield what a graph has of the nodes of a type, and of edges that go by them."""
    for name, rows in graph[table].node_attrs.items():
        if rows.num_rows == num_rows:
            yield from _store_of(name, "its nodes", rows)
    times = graph[table].node_time
    if times is not None:
        array = np.asarray(times)
        yield (lambda _: "the times of its nodes"), 1, (lambda some: array[some, None]), None
    kept = getattr(graph, "columns", {})
    for name, column in kept[table].columns.items() if table in kept else ():
        if column.kind != "text":
            read = partial(_gather_column, kept[table], name)
            yield partial("the column {0!r} beside the graph".format, name), 1, read, None
    for kind in graph.edge_types:
        for ends, far_ends, edges in _edges_of_rows(graph, table, kind):
            yield from _edge_stores(graph[kind], kind[1], num_rows, ends, far_ends, edges)


def _edges_of_rows(graph: Any, table: str, kind: Any) -> Iterator[tuple[Array, Array, Array]]:
    """Yield (rows, far ends, edges) of an end of which each row of a table has one edge at most."""
    ends = [end for end in (0, 2) if kind[end] == table]
    if not ends or not 0 < graph[kind].num_edges <= graph.num_nodes[table]:
        return
    src, dst, edges = graph[kind].edge_list()
    for end in ends:
        rows, far_ends = (src, dst) if end == 0 else (dst, src)
        if np.bincount(rows).max() == 1:
            yield rows, far_ends, edges


def _edge_stores(
    view: Any, relation: str, num_rows: int, rows: Array, far_ends: Array, edges: Array
) -> Iterator[_Store]:
    """Yield what edges tell of rows: where they go, which rows have one, and their values."""
    has_edge = np.zeros((num_rows, 1), np.bool_)
    has_edge[rows] = True
    name = f"edges {relation!r}"
    yield (lambda _: name), 1, (lambda some: far_ends[some, None]), rows
    yield (lambda _: name), 1, has_edge.__getitem__, None
    for attr, values in {**view.edge_attrs, **view.edge_values}.items():
        yield from _store_of(attr, name, values, rows, edges)


def _store_of(
    name: str, of: str, values: Any, rows: Array | None = None, ids: Array | None = None
) -> Iterator[_Store]:
    """Yield an attribute, if it has numbers; of edges with their rows of the table, and ids."""
    width = int(np.prod(values.row_shape, dtype=np.int64))
    is_short = values.dtype_name == "bfloat16"
    wider = "float32" if is_short else None
    if not width or not (is_short or np.dtype(values.dtype_name).kind in "iufb"):
        return

    def read(some: slice) -> Array:
        row_ids = np.arange(some.start, some.stop) if ids is None else ids[some]
        return np.asarray(values.gather(row_ids, None, wider)).reshape(-1, width)

    def describe(at: int) -> str:
        return f"{name!r} of {of}" if values.row_shape == () else f"{name}[:, {at}] of {of}"

    yield describe, width, read, rows


def _gather_column(store: Any, name: str, some: slice) -> Array:
    column = np.asarray(store.gather(np.arange(some.start, some.stop))[name])
    return (column.astype(np.int64) if column.dtype.kind == "M" else column)[:, None]
