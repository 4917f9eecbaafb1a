"""Arrays and lists of users as columns: kinds, values of fixed width, texts and null masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.options import as_choice, is_name, shown
from aethergraph._checks.times import unit_of
from aethergraph._native import DTYPE_CODES
from aethergraph.columns.file import encode_texts
from aethergraph.columns.layout import KINDS, Column, RowLayout
from aethergraph.errors import InvalidArgumentError

__all__ = ["NULL_VALUES", "ColumnInput", "fill_nulls"]

Array = NDArray[Any]

#: What a value that is null is stored as.
NULL_VALUES = {"number": 0, "bool": False, "time": np.iinfo(np.int64).min, "category": -1}


def fill_nulls(column: Column, values: Array, null: Array | None) -> tuple[Array, Array | None]:
    """Return values with what stands for nulls, and the mask; NaN is null, and null is NaN."""
    if values.dtype.kind == "f":
        missing = np.isnan(values)
        null = missing if null is None else null | missing
        return np.where(null, values.dtype.type(np.nan), values), null
    if null is not None:
        values = np.where(null, values.dtype.type(NULL_VALUES[column.kind]), values)
    return values, null


class ColumnInput:
    """Columns in memory, as :func:`write_columns` takes them.

    Args:
        columns: by name a vector of numbers, booleans or datetime64 (a masked array has nulls), or
            a list of texts and None.
        kinds: kinds of columns whose values do not tell: "category" for texts.

    Raises:
        InvalidArgumentError: a column is none of these, or their lengths differ.
    """

    def __init__(self, columns: Mapping[str, Any], kinds: Mapping[str, str] | None) -> None:
        self.columns: list[Column] = []
        self.texts: dict[str, tuple[Array, Array]] = {}
        self.categories: dict[str, list[str]] = {}
        values: dict[str, Array] = {}
        nulls: dict[str, Array] = {}
        if not isinstance(columns, Mapping) or not columns:
            raise InvalidArgumentError(f"columns go by name, got {shown(columns)}")
        for name in columns:
            if not is_name(name):
                raise InvalidArgumentError(f"the name of a column is a text, got {shown(name)}")
        if kinds is not None and not isinstance(kinds, Mapping):
            raise InvalidArgumentError(f"kinds go by column, got {shown(kinds)}")
        kinds = {} if kinds is None else dict(kinds)
        for name in kinds:
            as_choice(name, tuple(columns), "a column in kinds")
            as_choice(kinds[name], KINDS, f"kinds[{name!r}]")
        for name, content in columns.items():
            if not isinstance(content, (np.ndarray, list, tuple)):
                raise InvalidArgumentError(
                    f"column {shown(name)} is an array, or a list of texts, got {shown(content)}"
                )
            if isinstance(content, np.ndarray) and content.ndim != 1:
                raise InvalidArgumentError(
                    f"column {name!r} is a vector, got shape {content.shape}"
                )
        self.num_rows = len(next(iter(columns.values())))
        for name, content in columns.items():
            if len(content) != self.num_rows:
                raise InvalidArgumentError(
                    f"column {name!r} has {len(content)} rows, but the first has {self.num_rows}"
                )
            kind = kinds.get(name)
            array = np.ma.asarray(content) if isinstance(content, np.ndarray) else None
            column_values: Array | None
            null: Array | None
            if array is None or array.dtype.kind in "OU":
                column, column_values, null = self._of_texts(name, list(content), kind)
            else:
                column, column_values, null = self._of_array(name, array, kind)
            self.columns.append(column)
            if column_values is not None:
                values[name], null = fill_nulls(column, column_values, null)
            if null is not None:
                nulls[name] = null
        self.rows = RowLayout(self.columns).pack(self.num_rows, values, nulls)

    def _of_array(
        self, name: str, array: Any, kind: str | None
    ) -> tuple[Column, Array, Array | None]:
        null = np.ma.getmaskarray(array) if np.ma.is_masked(array) else None
        plain = np.ascontiguousarray(np.ma.getdata(array), array.dtype.newbyteorder("="))
        if plain.dtype.kind == "M" and kind in (None, "time"):
            missing = np.isnat(plain)
            null = missing if null is None else null | missing
            unit = unit_of(plain.dtype)
            if unit is None:
                raise InvalidArgumentError(
                    f"column {name!r} is datetime64 with no unit: give one, such as "
                    ".astype('datetime64[s]')"
                )
            return Column(name, "time", unit=unit), plain.view(np.int64), null
        if plain.dtype == np.bool_ and kind in (None, "bool"):
            return Column(name, "bool"), plain, null
        if plain.dtype.name in DTYPE_CODES and plain.dtype.kind != "b" and kind in (None, "number"):
            return Column(name, "number", plain.dtype.name), plain, null
        raise InvalidArgumentError(
            f"column {name!r} of {plain.dtype} cannot be a column of kind {kind or 'any'!r}"
        )

    def _of_texts(
        self, name: str, texts: Sequence[Any], kind: str | None
    ) -> tuple[Column, Array | None, Array]:
        for at, text in enumerate(texts):
            if text is not None and not isinstance(text, str):
                raise InvalidArgumentError(
                    f"column {name!r} has {shown(text)} in row {at}: a list holds texts and None; "
                    "numbers, booleans and times are given as an array",
                    position=at,
                )
        null = np.array([text is None for text in texts], np.bool_)
        try:
            encoded = encode_texts(texts)
        except UnicodeEncodeError as error:
            raise InvalidArgumentError(f"column {name!r} is not UTF-8: {error}") from None
        if kind in (None, "text"):
            self.texts[name] = encoded
            return Column(name, "text"), None, null
        if kind != "category":
            raise InvalidArgumentError(f"column {name!r} holds texts, which are not a {kind}")
        codes: dict[str, int] = {}
        row_codes = [-1 if text is None else codes.setdefault(text, len(codes)) for text in texts]
        self.categories[name] = list(codes)
        return Column(name, "category"), np.array(row_codes, np.int32), null
