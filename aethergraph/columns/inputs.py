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
        given: by name a vector of numbers, booleans or datetime64 (a masked array has nulls), or a
            list of texts and None.
        kinds: kinds of columns whose values do not tell: "category" for texts.

    Raises:
        InvalidArgumentError: a column is none of these, or their lengths differ.
    """

    def __init__(self, given: Mapping[str, Any], kinds: Mapping[str, str] | None) -> None:
        self.columns: list[Column] = []
        self.texts: dict[str, tuple[Array, Array]] = {}
        self.categories: dict[str, list[str]] = {}
        values: dict[str, Array] = {}
        nulls: dict[str, Array] = {}
        if not isinstance(given, Mapping) or not given:
            raise InvalidArgumentError(f"columns go by name, got {shown(given)}")
        for name in given:
            if not is_name(name):
                raise InvalidArgumentError(f"the name of a column is a text, got {shown(name)}")
        if kinds is not None and not isinstance(kinds, Mapping):
            raise InvalidArgumentError(f"kinds go by column, got {shown(kinds)}")
        kinds = {} if kinds is None else dict(kinds)
        for name in kinds:
            as_choice(name, tuple(given), "a column in kinds")
            as_choice(kinds[name], KINDS, f"kinds[{name!r}]")
        for name, one in given.items():
            if not isinstance(one, (np.ndarray, list, tuple)):
                raise InvalidArgumentError(
                    f"column {shown(name)} is an array, or a list of texts, got {shown(one)}"
                )
            if isinstance(one, np.ndarray) and one.ndim != 1:
                raise InvalidArgumentError(f"column {name!r} is a vector, got shape {one.shape}")
        self.num_rows = len(next(iter(given.values())))
        for name, one in given.items():
            if len(one) != self.num_rows:
                raise InvalidArgumentError(
                    f"column {name!r} has {len(one)} rows, but the first has {self.num_rows}"
                )
            kind = kinds.get(name)
            array = np.ma.asarray(one) if isinstance(one, np.ndarray) else None
            found: Array | None
            null: Array | None
            if array is None or array.dtype.kind in "OU":
                column, found, null = self._of_texts(name, list(one), kind)
            else:
                column, found, null = self._of_array(name, array, kind)
            self.columns.append(column)
            if found is not None:
                values[name], null = fill_nulls(column, found, null)
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
        for at, one in enumerate(texts):
            if one is not None and not isinstance(one, str):
                raise InvalidArgumentError(
                    f"column {name!r} has {shown(one)} in row {at}: a list holds texts and None; "
                    "numbers, booleans and times are given as an array",
                    position=at,
                )
        null = np.array([one is None for one in texts], np.bool_)
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
        found = [-1 if one is None else codes.setdefault(one, len(codes)) for one in texts]
        self.categories[name] = list(codes)
        return Column(name, "category"), np.array(found, np.int32), null
