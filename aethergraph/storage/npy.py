"""numpy's .npy files: headers parsed without trust, rows mapped in place."""

from __future__ import annotations

import ast
import math
import os
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph.errors import FormatError, TruncatedFileError, UnsupportedError

_NPY_MAGIC = b"\x93NUMPY"
_NPY_MAX_HEADER = 1 << 16
_NPY_MAX_NDIM = 64


class NpyHeader:
    """Parsed header of a .npy file; ``offset`` is the byte at which the data begin."""

    __slots__ = ("dtype", "fingerprint", "fortran", "offset", "shape")

    def __init__(
        self, dtype: np.dtype[Any], shape: tuple[int, ...], fortran: bool, offset: int, text: str
    ) -> None:  # fmt: skip
        self.dtype = dtype
        self.shape = shape
        self.fortran = fortran
        self.offset = offset
        self.fingerprint = text


def is_npy(file: native.NativeFile) -> bool:
    """Return whether the file begins like a .npy file."""
    length = len(_NPY_MAGIC)
    if file.size < length:
        return False
    return file.array(0, (length,), np.dtype(np.uint8)).tobytes() == _NPY_MAGIC


def read_npy_header(file: native.NativeFile) -> NpyHeader:
    """Parse numpy's header (versions 1 to 3) without trusting it."""
    path = file.path
    start = file.array(0, (min(file.size, 12),), np.dtype(np.uint8)).tobytes()
    begin, length = header_extent(start, path)
    if begin + length > file.size:
        raise TruncatedFileError(f"{path}: the .npy header is cut off")
    data = file.array(begin, (length,), np.dtype(np.uint8)).tobytes()
    file.check()
    dtype, shape, fortran = parse_header(data, start[6], path)
    fingerprint = repr((file.size, data.strip(), identity(path)))
    return NpyHeader(dtype, shape, fortran, begin + length, fingerprint)


def header_extent(start: bytes, path: str) -> tuple[int, int]:
    """Return the offset and the length of a header's text, from the file's first 12 bytes.

    Raises:
        FormatError, TruncatedFileError: an unknown version, or not a .npy header.
    """
    if len(start) < 10:
        raise TruncatedFileError(f"{path}: the .npy header is cut off after {len(start)} bytes")
    major = start[6]
    if not start.startswith(_NPY_MAGIC):
        raise FormatError(f"{path}: this is not a .npy file")
    if major not in (1, 2, 3):
        raise FormatError(f"{path}: .npy format version {major}.{start[7]} is not known")
    begin = 10 if major == 1 else 12
    if len(start) < begin:
        raise TruncatedFileError(f"{path}: the .npy header is cut off after {len(start)} bytes")
    (length,) = struct.unpack_from("<H" if major == 1 else "<I", start, 8)
    if length > _NPY_MAX_HEADER:
        raise FormatError(f"{path}: a .npy header of {length} bytes is not plausible")
    return begin, length


def parse_header(data: bytes, major: int, path: str) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    """Return (dtype, shape, whether the order is Fortran's) from the text of a header.

    Raises:
        FormatError: the header is malformed.
        UnsupportedError: a structured dtype.
    """
    try:
        fields = ast.literal_eval(data.decode("utf-8" if major == 3 else "latin1").strip())
        descr, fortran, shape = fields["descr"], fields["fortran_order"], fields["shape"]
    except Exception as error:
        raise FormatError(f"{path}: the .npy header cannot be read: {error}") from error
    proper = (
        isinstance(fortran, bool)
        and isinstance(shape, tuple)
        and len(shape) <= _NPY_MAX_NDIM
        and all(type(n) is int and 0 <= n < 1 << 62 for n in shape)
    )
    if not proper:
        raise FormatError(f"{path}: the .npy header is malformed")
    if not isinstance(descr, str):
        raise UnsupportedError(f"{path}: structured arrays cannot be opened; save one field")
    try:
        dtype = np.dtype(descr)
    except (TypeError, ValueError, SyntaxError) as error:
        raise FormatError(f"{path}: the .npy dtype {descr[:60]!r} is not known") from error
    return dtype, shape, fortran


def identity(path: native.Path) -> tuple[int, ...]:
    """Return device, inode and mtime, to tell apart files of equal size and header."""
    name = native.encode_path(path)[1]
    try:
        status = os.stat(name)
    except OSError:
        return ()  # already gone: it cannot be opened again either
    return status.st_dev, status.st_ino, status.st_mtime_ns


def check_array(
    dtype: np.dtype[Any], shape: tuple[int, ...], size: int, path: str
) -> tuple[int, int]:
    """Return the native dtype code and the number of items of an array in ``size`` bytes.

    Raises:
        FormatError, TruncatedFileError, UnsupportedError: ``size`` bytes do not hold this array.
    """
    if dtype.hasobject or dtype.kind not in "biuf":
        raise UnsupportedError(f"{path}: dtype {dtype} cannot be opened")
    code = native.dtype_code(dtype, path)
    if len(shape) == 0:
        raise FormatError(f"{path}: the array is a scalar, a feature file has rows")
    items = math.prod(shape)
    if items * dtype.itemsize > size:
        raise TruncatedFileError(
            f"{path}: {items * dtype.itemsize} bytes of {dtype} x {shape} are promised, "
            f"{size} are there"
        )
    native.check_shape(shape, dtype.itemsize, path)
    return code, items


def map_npy(file: native.NativeFile, header: NpyHeader, storage: str) -> NDArray[Any]:
    """Return the rows of a .npy file: mapped, or loaded if the file cannot be mapped in place."""
    path, dtype, shape = file.path, header.dtype, header.shape
    code, items = check_array(dtype, shape, file.size - header.offset, path)
    fortran = header.fortran and len(shape) > 1
    if not fortran and dtype.isnative and header.offset % dtype.itemsize == 0:
        return file.array(header.offset, shape, native.ARRAY_DTYPES[code])
    if storage == "mmap":
        reason, way = "not aligned", "save it again with numpy"
        if fortran:
            reason, way = "column-major (Fortran order)", "save numpy.ascontiguousarray(array)"
        elif not dtype.isnative:
            reason, way = "big-endian", f"save array.astype({dtype.newbyteorder('<').str!r})"
        raise UnsupportedError(
            f"{path}: the array is {reason} and cannot be mapped by rows: {way}; or, to use it in "
            "this process alone, load it with storage='memory'"
        )
    raw = file.array(header.offset, (items * dtype.itemsize,), np.dtype(np.uint8))
    stored = raw.view(dtype) if header.offset % dtype.itemsize == 0 else raw.copy().view(dtype)
    table = stored.reshape(shape, order="F" if fortran else "C")
    rows = np.array(table, native.ARRAY_DTYPES[code], order="C", copy=True)
    file.check()
    return rows
