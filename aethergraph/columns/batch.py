"""Gathered rows of columns: arrays by name, tensors, and PyTorch Frame's TensorFrame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.options import is_name, shown
from aethergraph.errors import CorruptFileError, InvalidArgumentError, MissingNameError

if TYPE_CHECKING:
    from aethergraph.columns.layout import Column

__all__ = ["ColumnBatch", "TextRows"]

Array = NDArray[Any]
Encoder = Callable[[list[str]], Any]


class TextRows(Sequence["str | None"]):
    """Texts of some rows, as in a string column of Arrow; null ones are None.

    Attributes:
        offsets: where each text begins, int64 [n + 1].
        data: the bytes, UTF-8, uint8.
        nulls: mask [n], True where it is null; None: no null in the column.
    """

    def __init__(
        self, offsets: NDArray[np.int64], data: NDArray[np.uint8], nulls: NDArray[np.bool_] | None
    ) -> None:
        self.offsets = offsets
        self.data = data
        self.nulls = nulls

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return self.to_list()[at]
        at = range(len(self))[at]
        if self.nulls is not None and self.nulls[at]:
            return None
        text = self.data[self.offsets[at] : self.offsets[at + 1]].tobytes()
        return _decoded(text)

    def to_list(self) -> list[str | None]:
        """Return the texts, None where they are null."""
        ends, data = self.offsets.tolist(), self.data.tobytes()
        texts: list[str | None] = [_decoded(data[begin:end]) for begin, end in pairwise(ends)]
        if self.nulls is not None:
            for at in np.flatnonzero(self.nulls).tolist():
                texts[at] = None
        return texts


def _decoded(text: bytes) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"a text is not UTF-8: {error}") from None


class ColumnBatch(Mapping[str, Any]):
    """Columns of some rows: arrays [n] by name, of texts a :class:`TextRows`.

    Numbers keep their dtype, booleans are bool, times datetime64 of the column's unit, categories
    int32 codes. What is null is NaN in a float column, 0 in another of numbers, False, NaT or -1.

    Attributes:
        columns: what the columns are, by name, with statistics and categories.
        nulls: by column a mask [n], True where it is null; columns that have no null in the whole
            file are not in it.
        num_rows: n.
    """

    def __init__(
        self,
        columns: Mapping[str, Column],
        values: Mapping[str, Any],
        nulls: Mapping[str, NDArray[np.bool_]],
        num_rows: int,
    ) -> None:
        self.columns = dict(columns)
        self.nulls = dict(nulls)
        self.num_rows = num_rows
        self._values = dict(values)

    def __getitem__(self, name: str) -> Any:
        if not is_name(name) or name not in self._values:
            known = ", ".join(self._values)
            raise MissingNameError(f"there is no column {shown(name)}; there are: {known}")
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"ColumnBatch({self.num_rows:,} rows of {', '.join(self)})"

    def tensors(self) -> dict[str, Any]:
        """Return a torch tensor for each column; times as int64 counts, texts as they are.

        Raises:
            UnsupportedError: torch is not installed, or has no such dtype.
        """
        from aethergraph._native import dtype_code
        from aethergraph.features.rows import as_tensor

        tensors: dict[str, Any] = {}
        for name, values in self.items():
            if isinstance(values, TextRows):
                tensors[name] = values
                continue
            plain = values.view(np.int64) if values.dtype.kind == "M" else values
            plain = np.array(plain, order="C")  # columns are views of the rows; tensors own theirs
            tensors[name] = as_tensor(plain, dtype_code(plain.dtype))
        return tensors

    def tensor_frame(self, encoders: Mapping[str, Encoder] | None = None) -> Any:
        """Return PyTorch Frame's ``TensorFrame``; needs ``pip install pytorch-frame``.

        Numbers are ``numerical`` (float32, NaN where null), booleans and categories ``categorical``
        (codes in the order of this file, -1 where null), times ``timestamp`` (year, month, day,
        day of the week, hour, minute, second; -1 where null).

        Args:
            encoders: by column of texts a function that gets the list of its texts ("" where null)
                and returns a tensor [n, dimension]: it becomes ``embedding``, as
                ``text_embedded`` columns do in PyTorch Frame. Texts without an encoder are left
                out.

        Raises:
            UnsupportedError: PyTorch Frame is not installed.
            InvalidArgumentError: an encoder of a column that is not of texts, or one that returns
                something else.
        """
        from aethergraph.columns.frame import make_frame

        for name in encoders or {}:
            if name not in self or self.columns[name].kind != "text":
                raise InvalidArgumentError(f"encoders: {name!r} is not a column of texts here")
        return make_frame(self, encoders or {})
