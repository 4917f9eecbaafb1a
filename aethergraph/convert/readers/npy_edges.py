"""Edge lists in .npy arrays as streams of numpy chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from aethergraph.convert.inputs import is_url, open_input
from aethergraph.convert.readers.base import (
    Field,
    InputError,
    PathLike,
    ProgressFn,
    check_readable,
    first_bad_id,
    read_beginning,
)
from aethergraph.convert.readers.npy import NpyColumns, read_npy_form

__all__ = ["NpyTable", "open_npy"]

_ROWS = 1 << 18  # rows per chunk


class NpyTable:
    """Edge list in a .npy file: integers of shape [2, E] or [E, 2] ([2, 2] is read as [2, E]).

    Attributes:
        num_rows: the number of edges.

    Raises:
        InputError: not a .npy file, or another shape or dtype.
    """

    unit = "row"
    names: list[str] | None = None
    num_columns = 2

    def __init__(self, path: PathLike) -> None:
        self.path = path
        self.size = check_readable(path)
        if not is_url(path):
            open_npy(path)  # raises if the file is bad
        self._form = read_npy_form(path)
        dtype, shape = self._form.dtype, self._form.shape
        if dtype.kind not in "iu":
            raise InputError(
                path, f"holds {dtype}, but node ids must be integers (save it as int64)"
            )
        if len(shape) == 1:
            raise InputError(
                path,
                f"is one vector of {shape[0]}; sources and destinations are one array: "
                "numpy.save('edges.npy', numpy.stack([src, dst]))",
            )
        if len(shape) != 2 or 2 not in shape:
            raise InputError(
                path,
                f"has shape {list(shape)}, but edges have shape [2, E] or [E, 2]; give "
                "weights and times as columns of a CSV or Parquet file",
            )
        self.num_rows = shape[1] if shape[0] == 2 else shape[0]

    def settle_header(self, columns: Sequence[int]) -> None:
        """Do nothing: an array has no names."""

    def require_header(self) -> None:
        """Refuse: an array has no names.

        Raises:
            InputError: always.
        """
        raise InputError(self.path, "columns of a .npy file are chosen by number, 0 or 1")

    def peek_names(self) -> list[str]:
        """Return an empty list: an array has no names."""
        return []

    def is_integral(self, column: int) -> bool:
        """Return True: both columns hold integers."""
        return True

    def column_name(self, column: int) -> str | None:
        """Return None: an array has no names."""
        return None

    def chunks(
        self, fields: Sequence[Field], progress: ProgressFn | None = None, skip: int = 0
    ) -> Iterator[list[npt.NDArray[Any]]]:
        """Yield arrays of each field, some hundred thousand edges at a time.

        Args:
            fields: columns to read, and their types.
            progress: called with (bytes done, bytes in all).
            skip: number of chunks to leave out at the beginning.

        Raises:
            InputError: the first bad id with its row and column; the file has become shorter.
        """
        with open_input(self.path) as file:
            yield from self._chunks(NpyColumns(self.path, file, self._form), fields, progress, skip)

    def _chunks(
        self,
        columns: NpyColumns,
        fields: Sequence[Field],
        progress: ProgressFn | None,
        skip: int,
    ) -> Iterator[list[npt.NDArray[Any]]]:
        for start in range(skip * _ROWS, self.num_rows, _ROWS):
            stop = min(start + _ROWS, self.num_rows)
            columns.load(start, stop)
            arrays = []
            for field in fields:
                array = columns.column(field.column)
                bad = first_bad_id(field, array)
                if bad is not None:
                    raise InputError(
                        self.path,
                        bad[1],
                        line=start + bad[0] + 1,
                        column=field.column + 1,
                        column_name=field.role,
                        unit="row",
                    )
                arrays.append(array.astype(np.int64, copy=False))
            if progress is not None:
                progress(self.size * stop // self.num_rows, self.size)
            yield arrays


def open_npy(path: PathLike) -> npt.NDArray[Any]:
    """Open a .npy file as a read-only mapped array.

    Raises:
        MissingFileError, StorageError: it cannot be opened.
        InputError: not a .npy file, shorter than its header says, or of Python objects.
    """
    size = check_readable(path)
    if size == 0:
        raise InputError(path, "is empty")
    magic = read_beginning(path)
    if magic.startswith(b"PK"):
        raise InputError(
            path, "is an archive (.npz?), not a .npy file; save the array by numpy.save"
        )
    if magic != b"\x93NUMPY":
        raise InputError(path, "is not a .npy file")
    form = read_npy_form(path)
    order: Literal["C", "F"] = "F" if form.fortran_order else "C"
    if 0 in form.shape or not form.dtype.itemsize:  # an empty mapping is not possible
        return np.empty(form.shape, form.dtype, order)
    return np.memmap(path, form.dtype, "r", form.offset, form.shape, order)
