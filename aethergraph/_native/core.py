"""The compiled core itself (``ffi``, ``lib``), its errors, threads and element types."""

from __future__ import annotations

import errno
import logging
import os
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from aethergraph import errors
from aethergraph._checks.optional import source_tree
from aethergraph._checks.options import shown

try:
    from aethergraph._native._core import ffi as ffi
    from aethergraph._native._core import lib as lib
except ImportError as error:  # pragma: no cover - a broken installation
    tree = source_tree()
    raise ImportError(
        f"the compiled core aethergraph._native._core cannot be loaded ({error}); "
        + (
            "install the package again: pip install --force-reinstall, with the wheel or the "
            "checkout that it came from"
            if tree is None
            else f"Python imports the sources in {tree}, not a package that was installed: change "
            f"to another folder, or pip install -e {tree}"
        )
    ) from error

from aethergraph._native.signals import raise_interrupt

log = logging.getLogger("aethergraph")

Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
Ids = NDArray[np.int64]


# ---- errors ----------------------------------------------------------------------------------

ERROR_CLASSES: Final[dict[int, type[errors.AetherError]]] = {
    lib.AETHER_E_INVALID: errors.InvalidArgumentError,
    lib.AETHER_E_RANGE: errors.OutOfRangeError,
    lib.AETHER_E_NO_MEMORY: errors.OutOfMemoryError,
    lib.AETHER_E_IO: errors.StorageError,
    lib.AETHER_E_NOT_FOUND: errors.MissingFileError,
    lib.AETHER_E_FORMAT: errors.FormatError,
    lib.AETHER_E_VERSION: errors.VersionError,
    lib.AETHER_E_TRUNCATED: errors.TruncatedFileError,
    lib.AETHER_E_CORRUPT: errors.CorruptFileError,
    lib.AETHER_E_FILE_CHANGED: errors.FileChangedError,
    lib.AETHER_E_UNSUPPORTED: errors.UnsupportedError,
    lib.AETHER_E_CANCELLED: errors.CancelledError,
    lib.AETHER_E_LIMIT: errors.LimitError,
    lib.AETHER_E_EXPIRED: errors.SnapshotExpiredError,
    lib.AETHER_E_DISK_FULL: errors.DiskFullError,
    lib.AETHER_E_TORN: errors.TornRowError,
    lib.AETHER_E_MISSING_ROW: errors.MissingRowError,
}


def error_table() -> list[tuple[int, str, str]]:
    """Return the native error table: (code, name, text) of each error."""
    rows: list[tuple[int, str, str]] = []
    while (row := lib.aether_error_table(len(rows))) != ffi.NULL:
        rows.append((row.code, _text(row.name), _text(row.text)))
    return rows


def _text(chars: Any) -> str:
    return bytes(ffi.string(chars)).decode("utf-8", "replace")


def new_error() -> Any:
    """Return a caller-owned ``aether_error``, to be filled by one call at a time."""
    return ffi.new("aether_error *")


def sized(struct: str, *fields: Any) -> Any:
    """Return a new ``struct`` of those that begin with their size, with the fields behind it.

    It does not keep the buffers alive that its fields point to.
    """
    return ffi.new(f"{struct} *", (ffi.sizeof(struct), *fields))


def raise_error(code: int, err: Any, path: str | None = None) -> NoReturn:
    """Raise the class of ``code`` with the message that the native call wrote into ``err``.

    A call that a signal ended raises the exception of the signal's handler.
    """
    if code == lib.AETHER_E_CANCELLED:
        raise_interrupt()
    cls = ERROR_CLASSES.get(code, errors.AetherError)
    message = _text(err.message) or f"native error {code}"
    position = err.position if err.position >= 0 else None
    value = err.value if position is not None else None
    if issubclass(cls, errors.StorageError):
        number = err.os_errno or _DEFAULT_ERRNO.get(code, errno.EIO)
        if cls is errors.StorageError and number == errno.ETIMEDOUT:
            cls = errors.ServerTimeoutError
        raise cls(number, message, path, position=position, value=value)
    raise cls(message, position=position, value=value)


_DEFAULT_ERRNO = {
    lib.AETHER_E_NOT_FOUND: errno.ENOENT,
    lib.AETHER_E_FILE_CHANGED: errno.ESTALE,
    lib.AETHER_E_DISK_FULL: errno.ENOSPC,
}


# ---- library ---------------------------------------------------------------------------------


def native_version() -> str:
    """Return the version of the native core."""
    return _text(lib.aether_version())


def build_info() -> str:
    """Return compiler, sanitizers and CPU dispatch of the native core."""
    return _text(lib.aether_build_info())


def _check_environment() -> None:
    text = os.environ.get("AETHERGRAPH_NUM_THREADS", "")
    if text and not (text.isascii() and text.isdigit() and len(text) < 9 and 1 <= int(text) <= 256):
        log.warning(
            "AETHERGRAPH_NUM_THREADS=%r is not a number in 1..256: using %d threads",
            text, get_num_threads(),
        )  # fmt: skip


def get_num_threads() -> int:
    """Return the number of threads of the native pool."""
    return int(lib.aether_get_num_threads())


_check_environment()


def set_num_threads(num_threads: int) -> None:
    """Set the threads of the native pool: 1..256, or 0 for the default.

    The default is ``AETHERGRAPH_NUM_THREADS``, else the cores this process may use.

    Raises:
        InvalidArgumentError: the number is outside 0..256.
    """
    if isinstance(num_threads, bool) or not isinstance(num_threads, (int, np.integer)):
        raise errors.InvalidArgumentError(
            f"num_threads must be an integer, got {type(num_threads).__name__}"
        )
    if not 0 <= num_threads <= 256:
        raise errors.InvalidArgumentError(f"num_threads = {num_threads} is not in 0..256")
    err = new_error()
    code = lib.aether_set_num_threads(int(num_threads), err)
    if code:
        raise_error(code, err)


# ---- element types ---------------------------------------------------------------------------

BFLOAT16: Final[int] = lib.AETHER_BF16

#: Native codes by dtype name; ``bfloat16`` has no numpy dtype, its arrays are uint16.
DTYPE_CODES: Final[dict[str, int]] = {
    "uint8": lib.AETHER_U8,
    "bool": lib.AETHER_BOOL,
    "int8": lib.AETHER_I8,
    "int16": lib.AETHER_I16,
    "int32": lib.AETHER_I32,
    "int64": lib.AETHER_I64,
    "uint32": lib.AETHER_U32,
    "uint64": lib.AETHER_U64,
    "float16": lib.AETHER_F16,
    "bfloat16": lib.AETHER_BF16,
    "float32": lib.AETHER_F32,
    "float64": lib.AETHER_F64,
}
DTYPE_NAMES: Final[dict[int, str]] = {code: name for name, code in DTYPE_CODES.items()}
#: Numpy dtypes of arrays by native code.
ARRAY_DTYPES: Final[dict[int, np.dtype[Any]]] = {
    code: np.dtype(np.uint16 if name == "bfloat16" else name) for name, code in DTYPE_CODES.items()
}
#: Native codes by what is asked for most: dtypes as they are in memory, and names. Numpy makes the
#: name of a dtype anew each time, which takes longer than to gather a few rows.
_CODES: Final[dict[Any, int]] = {
    **DTYPE_CODES,
    **{np.dtype(name): code for name, code in DTYPE_CODES.items() if name != "bfloat16"},
}


def dtype_code(dtype: DTypeLike | str, name: str = "dtype") -> int:
    """Return the native code of a numpy dtype or dtype name, including ``"bfloat16"``.

    Raises:
        InvalidArgumentError: the dtype cannot be stored.
    """
    if isinstance(dtype, (str, np.dtype)):
        known_code = _CODES.get(dtype)
        if known_code is not None:
            return known_code
    try:
        key = np.dtype(dtype).name
    except Exception:  # numpy raises whatever the value makes it raise
        key = shown(dtype)
    code = DTYPE_CODES.get(key)
    if code is None:
        known = ", ".join(DTYPE_CODES)
        raise errors.InvalidArgumentError(f"{name}: {key} is not one of {known}")
    return code
