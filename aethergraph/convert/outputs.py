"""Writing of outputs, which appear complete or not at all: .npy files, and finished work files."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import os
import shutil
import tempfile
from types import TracebackType
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from aethergraph.convert.readers.base import PathLike
from aethergraph.errors import InvalidArgumentError, StorageError
from aethergraph.storage.live_directory import check_outside
from aethergraph.storage.scratch import storage_error

__all__ = ["NpyWriter", "PlacedFile", "check_outputs"]

_HEADER_BYTES = 192  # fixed, so that the number of rows can be filled in at the end


class NpyWriter:
    """Writer of a .npy file whose number of rows is not known in advance.

    The rows go to a temporary file beside ``path``; :meth:`commit` syncs the file and renames it.
    Leaving the ``with`` block without commit removes it. The next writer of ``path`` removes the
    temporary files of writers that were killed; locks tell these from writers at work.

    Args:
        path: the file to write.
        dtype: dtype of the array.
        row_shape: shape of a row.

    Attributes:
        temporary: path of the temporary file (a complete .npy after :meth:`finish`).
        rows: rows written so far.

    Raises:
        StorageError: no such folder, no permission, no space.
    """

    def __init__(self, path: PathLike, dtype: npt.DTypeLike, row_shape: tuple[int, ...]) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self.dtype = np.dtype(dtype)
        self.row_shape = row_shape
        self.rows = 0
        folder, name = os.path.split(self.path)
        try:
            handle, self.temporary = _locked_temporary(folder, name)
            self._lock = os.dup(handle)  # the stream is closed before the file is renamed
            _remove_stale(folder, name)
        except OSError as error:
            raise storage_error(error, self.path) from None
        self._stream: IO[bytes] | None = os.fdopen(handle, "wb", buffering=0)
        self._write(self._header())

    def append(self, rows: npt.NDArray[Any]) -> None:
        """Append rows [n, *row_shape]."""
        if rows.shape[1:] != self.row_shape:
            raise InvalidArgumentError(
                f"rows of shape {rows.shape[1:]} for a file of rows {self.row_shape}"
            )
        if rows.size:
            self._write(np.ascontiguousarray(rows, self.dtype).reshape(-1).view(np.uint8).data)
        self.rows += int(rows.shape[0])

    def finish(self) -> None:
        """Fill in the number of rows and close; the temporary file is then complete."""
        if self._stream is None:
            return
        try:
            self._stream.seek(0)
            self._stream.write(self._header())
            os.fsync(self._stream.fileno())
            self._stream.close()
        except OSError as error:
            raise storage_error(error, self.path) from None
        self._stream = None

    def commit(self) -> None:
        """Finish the file and rename it to ``path``."""
        self.finish()
        try:
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(self.temporary, 0o666 & ~mask)
            os.replace(self.temporary, self.path)
        except OSError as error:
            raise storage_error(error, self.path) from None
        self.temporary = ""
        self._unlock()

    def _unlock(self) -> None:
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self._unlock()

    def abort(self) -> None:
        """Remove the temporary file, if it still exists."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        if self.temporary and os.path.exists(self.temporary):
            os.unlink(self.temporary)
        self.temporary = ""
        self._unlock()

    def __enter__(self) -> NpyWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abort()

    def _write(self, data: Any) -> None:
        assert self._stream is not None
        view = memoryview(data).cast("B")
        try:
            while view:
                view = view[self._stream.write(view) :]
        except OSError as error:
            raise storage_error(error, self.path) from None

    def _header(self) -> bytes:
        shape = (self.rows, *self.row_shape)
        descr = np.lib.format.dtype_to_descr(self.dtype)
        text = repr({"descr": descr, "fortran_order": False, "shape": shape})
        room = _HEADER_BYTES - 10
        return (
            b"\x93NUMPY\x01\x00"
            + room.to_bytes(2, "little")
            + text.encode("latin1").ljust(room - 1)
            + b"\n"
        )


class PlacedFile:
    """Work file that is put in place; it also stays where it is, for a build that goes on.

    Both are one file with two names, where the file system has these.

    Args:
        source: the work file, in a folder beside the output.
        path: the output.
    """

    def __init__(self, source: str, path: str) -> None:
        self._source = source
        self._path = path
        self._temporary = f"{source}.placed"  # it goes with the other work files
        self._is_finished = False

    def finish(self) -> None:
        """Give the file its second name, and make it durable."""
        if self._is_finished:
            return
        try:
            self._unlink()
            try:
                os.link(self._source, self._temporary)
            except OSError:  # such as FAT, and some that are mounted over a network
                shutil.copyfile(self._source, self._temporary)
            with open(self._temporary, "rb+") as file:
                os.fsync(file.fileno())
        except OSError as error:
            raise storage_error(error, self._path) from None
        self._is_finished = True

    def commit(self) -> None:
        """Rename the second name to the output."""
        try:
            os.replace(self._temporary, self._path)
        except OSError as error:
            raise storage_error(error, self._path) from None

    def abort(self) -> None:
        """Remove the second name."""
        with contextlib.suppress(OSError):
            self._unlink()

    def _unlink(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._temporary)


_SUFFIX = ".tmp"


def _try_lock(file: int) -> bool:
    """Lock a temporary file.

    Return False if its writer holds the lock, or locks do not exist here.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _locked_temporary(folder: str, name: str) -> tuple[int, str]:
    """Create a temporary file beside ``name``; return it open and locked, and its path."""
    while True:
        handle, path = tempfile.mkstemp(dir=folder, prefix=f".{name}.", suffix=_SUFFIX)
        _try_lock(handle)
        if os.fstat(handle).st_nlink:
            return handle, path
        os.close(handle)  # another writer deleted it as stale before it was locked


def _remove_stale(folder: str, name: str) -> None:
    """Delete the temporary files of ``name`` that no writer holds."""
    pattern = f".{glob.escape(name)}.{'[a-z0-9_]' * 8}{_SUFFIX}"
    for path in glob.glob(os.path.join(glob.escape(folder), pattern)):
        with contextlib.suppress(OSError):
            file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if _try_lock(file) and os.path.samestat(os.fstat(file), os.lstat(path)):
                    os.unlink(path)
            finally:
                os.close(file)


def check_outputs(outputs: list[str], inputs: list[str], force: bool) -> None:
    """Refuse outputs that would overwrite something or whose folder does not exist.

    Raises:
        StorageError: the file exists (unless ``force``), the folder does not or is not writable.
        InvalidArgumentError: an output is also an input, or in the directory of a live graph, or
            two outputs are the same file.
    """
    real_inputs = {os.path.realpath(path): path for path in inputs}
    seen: set[str] = set()
    for path in outputs:
        real = os.path.realpath(path)
        if real in real_inputs:
            raise InvalidArgumentError(f"{path}: the output is also an input")
        if real in seen:
            raise InvalidArgumentError(f"{path}: two outputs have the same name")
        seen.add(real)
        check_outside(path)
        folder = os.path.dirname(os.path.abspath(path))
        if os.path.isdir(path):
            raise _error(errno.EISDIR, f"{path}: is a folder, not a file", path)
        if os.path.lexists(path) and not force:
            raise _error(errno.EEXIST, f"{path}: exists already; force=True overwrites it", path)
        if not os.path.isdir(folder):
            raise _error(errno.ENOENT, f"{path}: the folder {folder} does not exist", path)
        if not os.access(folder, os.W_OK):
            raise _error(errno.EACCES, f"{path}: the folder {folder} is not writable", path)


def _error(code: int, text: str, path: str) -> StorageError:
    return StorageError(code, text, path)
