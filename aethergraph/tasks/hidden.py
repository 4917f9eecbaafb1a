"""Columns that a task hides, looked for in a graph: by their names, and by their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["HiddenColumn", "place_of"]

Array = NDArray[Any]
#: Reads some rows of columns side by side, [n, width].
Read = Callable[[slice], Array]

_NUMBERS = 1 << 22  # numbers of a graph that are compared at once
_DAY = 86_400 * 10**9  # nanoseconds
_UNITS = (_DAY, 3_600 * 10**9, 60 * 10**9, 10**9, 10**6, 10**3, 1)


class HiddenColumn:
    """Values of a column, in all forms in which a graph may have them.

    Args:
        series: the column, of pandas.
        keys: of a foreign key, the keys of the other table, all different.
    """

    def __init__(self, series: Any, keys: Any = None) -> None:
        pd: Any = import_module("pandas")
        try:
            self.codes, distinct = pd.factorize(series)
        except TypeError:  # lists and the like
            texts = series.astype(str).where(series.notna(), None)
            self.codes, distinct = pd.factorize(texts)
        self.count = len(distinct)
        #: There are so few values that no other column has the same ones equal by chance.
        self.repeats = 2 <= self.count <= np.count_nonzero(self.codes >= 0) // 2
        #: Of a foreign key, row of the other table that each row refers to, -1 for none.
        self.targets = None if keys is None else pd.Index(keys).get_indexer(series)
        self._forms = _forms_of(series, self.codes >= 0)

    def find(self, read: Read, num_rows: int, width: int) -> int | None:
        """Return the first of some columns that has these values, or one for each of them."""
        if self.count < 2:  # one value tells nothing
            return None
        same = [np.arange(width) for _ in self._forms]
        coded = np.arange(width if self.repeats else 0)
        values: Array | None = None  # for each code, of the columns in ``coded``
        seen = np.zeros(self.count, np.bool_)
        step = max(1, _NUMBERS // width)
        for begin in range(0, num_rows, step):
            rows = slice(begin, min(begin + step, num_rows))
            known = self.codes[rows] >= 0
            found = read(rows)[known]
            if found.dtype.kind != "f":
                found = found.astype(np.float64)
            for number, form in enumerate(self._forms):
                same[number] = same[number][_are_equal(found[:, same[number]], form(rows)[known])]
            found = np.where(np.isnan(found), np.finfo(found.dtype).min, found)[:, coded]
            codes, first, back = np.unique(
                self.codes[rows][known], return_index=True, return_inverse=True
            )
            left = (found[first][back] == found).all(axis=0)
            if values is not None:
                before = seen[codes]
                left &= (found[first][before] == values[codes[before]]).all(axis=0)
                values = values[:, left]
            else:
                values = np.zeros((self.count, int(left.sum())), found.dtype)
            coded = coded[left]
            values[codes] = found[first][:, left]
            seen[codes] = True
            if not len(coded) and not any(map(len, same)):
                return None
        if values is not None:
            columns = zip(coded.tolist(), values.T, strict=True)
            coded = np.array([at for at, own in columns if len(np.unique(own)) == self.count], int)
        left_over = np.concatenate([coded, *same])
        return int(left_over.min()) if len(left_over) else None

    def is_told_by(self, rows: Array, others: Array) -> bool:
        """Return whether edges, at most one for each row, go to what the values stand for."""
        if not 0 < len(rows) <= len(self.codes) or np.bincount(rows).max() > 1:
            return False
        codes = self.codes[rows]
        if (codes < 0).any():
            return False
        kinds = len(np.unique(codes))
        if kinds < 2:
            return False
        if self.targets is not None and (self.targets[rows] == others).all():
            return True
        pairs = len(np.unique(np.stack([codes, others]), axis=1).T)
        return pairs == kinds == len(np.unique(others)) <= len(rows) // 2


def _are_equal(found: Array, values: Array) -> NDArray[np.bool_]:
    """Return which columns equal some values, but for the last digits of their type."""
    near = 4 * np.finfo(found.dtype).eps
    with np.errstate(over="ignore", invalid="ignore"):
        part = values.astype(found.dtype)[:, None]
        equal = (np.abs(found - part) <= near * np.abs(part)) | (found == part)
    columns: NDArray[np.bool_] = equal.all(axis=0)
    return columns


def _forms_of(series: Any, known: NDArray[np.bool_]) -> list[Callable[[slice], Array]]:
    """Return functions that give some rows of a column as numbers, each in another way."""
    pd: Any = import_module("pandas")
    if series.dtype.kind == "M":
        counts = series.to_numpy("datetime64[ns]").astype(np.int64)
        forms = [lambda rows, unit=unit: counts[rows] // unit for unit in _UNITS]
        return [lambda rows: counts[rows] / _DAY, *forms]
    numbers = pd.to_numeric(series, errors="coerce")
    if numbers.dtype.kind not in "iufb" or (numbers.isna().to_numpy() & known).any():
        return []
    values = numbers.to_numpy("float64", na_value=np.nan)
    return [lambda rows: values[rows]]


def place_of(graph: Any, table: str, column: HiddenColumn) -> str | None:
    """Return where a graph keeps the values of a column of a node type, in words, or None."""
    num_rows = len(column.codes)
    for describe, width, read in _stores(graph, table, num_rows):
        at = column.find(read, num_rows, width)
        if at is not None:
            return describe(at)
    for kind in graph.edge_types:
        ends = [end for end in (0, 2) if kind[end] == table]
        if not ends or graph[kind].num_edges > num_rows:
            continue
        src, dst = graph[kind].edge_list()[:2]
        if any(column.is_told_by(*((src, dst) if end == 0 else (dst, src))) for end in ends):
            return f"edges {kind[1]!r}"
    return None


def _stores(
    graph: Any, table: str, num_rows: int
) -> Iterator[tuple[Callable[[int], str], int, Read]]:
    """Return what a graph has of the nodes of a type: its name, its width, and how to read it."""
    for name, rows in graph[table].attrs.items():
        width = int(np.prod(rows.shape[1:], dtype=np.int64))
        if rows.num_rows == num_rows and width and np.dtype(rows.dtype).kind in "iufb":
            yield partial(_name_column, name, len(rows.shape)), width, partial(_gather, rows, width)
    times = getattr(graph[table], "node_time", None)
    if times is not None:
        array = np.asarray(times)
        yield lambda _: "the times of its nodes", 1, lambda some: array[some, None]
    kept = getattr(graph, "columns", {})
    for name, column in kept[table].columns.items() if table in kept else ():
        if column.kind != "text":
            read = partial(_gather_column, kept[table], name)
            yield partial("the column {0!r} beside the graph".format, name), 1, read


def _name_column(name: str, dimensions: int, at: int) -> str:
    return f"{name!r} of its nodes" if dimensions == 1 else f"{name}[:, {at}] of its nodes"


def _gather(rows: Any, width: int, some: slice) -> Array:
    return np.asarray(rows.gather(np.arange(some.start, some.stop))).reshape(-1, width)


def _gather_column(store: Any, name: str, some: slice) -> Array:
    found = np.asarray(store.gather(np.arange(some.start, some.stop))[name])
    return (found.astype(np.int64) if found.dtype.kind == "M" else found)[:, None]
