"""Columns of an edge list in a .npy file, read piece by piece.

Reading has two advantages over mapping: what was read need not stay in memory, and a file that
becomes shorter is an error instead of a signal.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from aethergraph._native import check_shape
from aethergraph.convert.inputs import open_input
from aethergraph.convert.readers.base import InputError, PathLike, reading_error
from aethergraph.errors import AetherError, FormatError
from aethergraph.storage.npy import header_extent, parse_header

__all__ = ["NpyColumns", "NpyForm", "read_items", "read_npy_form"]


@dataclass(frozen=True)
class NpyForm:
    """Header of a .npy file, and the position of its data."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran_order: bool
    offset: int


def read_npy_form(path: PathLike) -> NpyForm:
    """Read the header without trusting it.

    Raises:
        InputError: not a .npy file, of Python objects, or shorter than its header says.
    """
    name = os.fspath(path)
    with open_input(path) as file:
        try:
            start = file.read(12)
            begin, length = header_extent(start, name)
            text = (start[begin:] + file.read(max(0, begin + length - len(start))))[:length]
            dtype, shape, fortran_order = parse_header(text, start[6], name)
            if dtype.hasobject:
                raise FormatError(f"{name}: it holds Python objects")
            size = file.seek(0, os.SEEK_END) - begin - length
            promised = math.prod(shape) * dtype.itemsize
            if promised > size:
                raise FormatError(f"{name}: {promised} bytes are promised, {size} are there")
            check_shape(shape, dtype.itemsize, name)
        except OSError as error:
            raise reading_error(path, error, "is not a readable .npy file") from None
        except AetherError as error:
            reason = str(error).removeprefix(f"{name}: ")
            raise InputError(path, f"is not a readable .npy file: {reason}") from None
    return NpyForm(dtype, shape, fortran_order, begin + length)


class NpyColumns:
    """Rows of shape [2, E] or [E, 2], some at a time: :meth:`load`, then :meth:`column`."""

    def __init__(self, path: PathLike, file: IO[bytes], form: NpyForm) -> None:
        self._path = path
        self._file = file
        self._form = form
        by_column = form.shape[0] == 2  # [2, E]
        self._rows = form.shape[1] if by_column else form.shape[0]
        self._apart = by_column != form.fortran_order  # the file has one column after the other
        self._loaded: list[npt.NDArray[Any]] = []

    def load(self, start: int, stop: int) -> None:
        """Read rows ``start .. stop - 1``.

        Raises:
            InputError: the file ends before them.
        """
        if self._apart:
            self._loaded = [self._read(c * self._rows + start, stop - start) for c in (0, 1)]
        else:
            pairs = self._read(2 * start, 2 * (stop - start)).reshape(-1, 2)
            self._loaded = [pairs[:, 0], pairs[:, 1]]

    def column(self, number: int) -> npt.NDArray[Any]:
        """Return a column of the loaded rows."""
        return self._loaded[number]

    def _read(self, first: int, items: int) -> npt.NDArray[Any]:
        return read_items(self._path, self._file, self._form, first, items)


def read_items(
    path: PathLike, file: IO[bytes], form: NpyForm, first: int, items: int
) -> npt.NDArray[Any]:
    """Return ``items`` items of an array from number ``first`` on, in the order of the file.

    Raises:
        InputError: the file ends before them.
        StorageError: it cannot be read.
    """
    out = np.empty(items, form.dtype)
    view = out.view(np.uint8).data
    try:
        file.seek(form.offset + first * out.itemsize)
        while view:
            done = file.readinto(view)  # type: ignore[attr-defined]
            if not done:
                raise InputError(path, "has become shorter while it was read")
            view = view[done:]
    except OSError as error:
        raise reading_error(path, error) from None
    return out
