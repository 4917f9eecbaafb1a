"""Layout of a row of columns: all values of fixed width side by side, then a bit for each null.

::

    | 8-byte values | 4-byte values | 2 | 1 | null bits, one for each column | zeros |
    0                                                                       width, a multiple
                                                                            of the widest value

So a row is one stretch of bytes. Gathering it reads one page of a file (two, where it crosses a
border), however many columns there are; columns that lie apart would cost a page each. A text
column has only its null bit here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

__all__ = ["KINDS", "Column", "Kind", "RowLayout"]

Array = NDArray[Any]
Kind = Literal["number", "bool", "time", "category", "text"]
KINDS: tuple[Kind, ...] = get_args(Kind)

#: Dtypes of the values in a row, where the kind decides them.
_DTYPES = {"bool": "bool", "time": "int64", "category": "int32", "text": ""}


@dataclass(frozen=True)
class Column:
    """Column of a table.

    Attributes:
        name: its name.
        kind: "number", "bool", "time", "category" (codes into :attr:`categories`) or "text".
        dtype: dtype of a number; of a time int64, of a category int32, of a text "".
        unit: unit of a time since 1970, as of numpy's datetime64; None for other kinds.
        statistics: of all: "count" (values that are not null) and "nulls". Of numbers and times:
            "min", "max", and "quantiles" (0, 25, 50, 75 and 100 %, of a sample if there are more
            than 100,000 rows). Of numbers also "mean" and "std" (of all, not of a sample). Of
            booleans and categories: "counts" in the order of the codes. Of texts: "min", "max" and
            "mean" of the lengths in bytes. What has no value is None. Infinities do not count.
        categories: names of the categories by code; () for other kinds.
    """

    name: str
    kind: Kind
    dtype: str = ""
    unit: str | None = None
    statistics: Mapping[str, Any] = field(default_factory=dict, compare=False)
    categories: Sequence[str] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", _DTYPES.get(self.kind, self.dtype))


class RowLayout:
    """Places of the columns in a row; see the module's text.

    Args:
        columns: the columns. Two layouts of equal columns are the same.

    Attributes:
        width: bytes of a row.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = tuple(columns)
        fixed = [column for column in self.columns if column.dtype]
        fixed.sort(key=lambda column: -np.dtype(column.dtype).itemsize)  # stable
        self._places: dict[str, tuple[int, np.dtype[Any]]] = {}
        end, widest = 0, 1
        for column in fixed:
            dtype = np.dtype(column.dtype)
            self._places[column.name] = end, dtype
            end, widest = end + dtype.itemsize, max(widest, dtype.itemsize)
        self._bits = end
        self._numbers = {column.name: number for number, column in enumerate(self.columns)}
        end += -(-len(self.columns) // 8)
        self.width = -(-end // widest) * widest

    def pack(self, count: int, values: Mapping[str, Array], nulls: Mapping[str, Array]) -> Array:
        """Return rows, uint8 [count, width].

        Args:
            count: number of rows.
            values: by column of fixed width its values [count].
            nulls: by column a mask [count], True where it is null; columns without nulls are left
                out.
        """
        rows = np.zeros((count, self.width), np.uint8)
        for name, (offset, dtype) in self._places.items():
            self._view(rows, offset, dtype)[:] = values[name]
        for name, mask in nulls.items():
            at, bit = divmod(self._numbers[name], 8)
            rows[:, self._bits + at] |= mask.astype(np.uint8) << np.uint8(bit)
        return rows

    def values(self, rows: Array, name: str) -> Array:
        """Return the values of a column of fixed width, a view of rows [n, width]."""
        return self._view(rows, *self._places[name])

    def nulls(self, rows: Array, name: str) -> NDArray[np.bool_]:
        """Return the mask of a column, True where it is null."""
        at, bit = divmod(self._numbers[name], 8)
        mask: NDArray[np.bool_] = (rows[:, self._bits + at] >> np.uint8(bit)) & 1 != 0
        return mask

    def _view(self, rows: Array, offset: int, dtype: np.dtype[Any]) -> Array:
        return rows[:, offset : offset + dtype.itemsize].view(dtype)[:, 0]
