"""Reading files that others wrote, without trust.

A dataset that was downloaded may hold anything. Nothing in it is executed: arrays of Python objects
and pickles are refused. A name in it leads to files below its folder only. What a file promises is
compared with what it holds, and with the free memory, before memory is taken. Every failure is an
exception of :mod:`aethergraph.errors` that names the file; it quotes little of the content, for the
file may not be the one that the user meant.
"""

from __future__ import annotations

import os
import reprlib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Final

import numpy as np
from numpy.typing import NDArray

from aethergraph._memory import available_memory, format_size
from aethergraph.build.source import InputError, PathLike, check_readable
from aethergraph.errors import AetherError, OutOfMemoryError, StorageError

__all__ = ["Archive", "check_memory", "decoding", "path_below", "shorten"]

_QUOTED: Final = 60  # characters of a value in a message
_READ_BYTES: Final = 1 << 20
_DEFLATE_RATIO: Final = 1032  # the most that deflate makes of a byte


class _Shortened(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3
        self.maxdict = self.maxlist = self.maxtuple = 4
        self.maxstring = self.maxlong = self.maxother = _QUOTED

    def repr_int(self, value: int, level: int) -> str:
        # Python writes no integers of more than 4300 digits.
        return super().repr_int(value, level) if value.bit_length() < 512 else "a huge integer"


def shorten(value: object) -> str:
    """Return ``repr(value)`` in a few words, however large or nested the value is."""
    return _Shortened().repr(value)


@contextmanager
def decoding(path: PathLike) -> Iterator[None]:
    """Turn whatever decoding a file raises into an error that names the file.

    Raises:
        InputError: the content cannot be decoded. StorageError: reading fails.
        OutOfMemoryError: there is no memory for it.
    """
    try:
        yield
    except AetherError:
        raise
    except MemoryError:
        raise OutOfMemoryError(f"{os.fspath(path)}: there is no memory to read it") from None
    except OSError as error:
        if error.errno is None:  # of a decoder, not of the operating system
            raise InputError(path, f"cannot be read: {_first_line(error)}") from None
        text = f"{os.fspath(path)}: {error.strerror}"
        raise StorageError(error.errno, text, os.fspath(path)) from None
    except Exception as error:
        # Parsers of hostile bytes fail in ways of their own: zipfile alone has seven.
        raise InputError(path, f"cannot be read: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    text = lines[0] if lines else type(error).__name__
    return text if len(text) <= 2 * _QUOTED else text[: 2 * _QUOTED] + "..."


def check_memory(path: PathLike, size: int, what: str) -> None:
    """Raise OutOfMemoryError if ``size`` bytes for ``what`` of a file are more than there are."""
    free = available_memory()
    if size > free:
        raise OutOfMemoryError(
            f"{os.fspath(path)}: {what} needs {format_size(size)} of memory, of which "
            f"{format_size(free)} are free"
        )


def path_below(folder: Path, name: object, source: PathLike, what: str) -> Path:
    """Return the path of the file that a description in ``folder`` names.

    Args:
        folder: the folder that names start at.
        name: the name, as the description has it.
        source: the file that holds the description, for messages.
        what: the place in it, for messages.

    Raises:
        InputError: no name, or one that leads out of the folder: absolute, with ``..``, or through
            a symbolic link.
    """
    if not isinstance(name, str) or not name or not _is_file_name(name):
        raise InputError(source, f"{what} = {shorten(name)} is no file name")
    parts = Path(name).parts
    root = os.path.realpath(folder)
    real = os.path.realpath(folder / name)
    if name.startswith("/") or ".." in parts or os.path.commonpath([root, real]) != root:
        raise InputError(
            source,
            f"{what} = {shorten(name)} leads out of the folder: only files below it are read, so "
            "put the file there",
        )
    return folder / name


def _is_file_name(name: str) -> bool:
    try:
        return b"\0" not in os.fsencode(name)
    except UnicodeError:
        return False


class Archive:
    """A zip file whose members are read into memory; a context manager.

    Raises:
        InputError: no such file. MissingFileError, StorageError: it cannot be opened.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = path
        self._size = check_readable(path)
        with decoding(path):
            self._zip = zipfile.ZipFile(path)

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._zip.close()

    @property
    def names(self) -> list[str]:
        """Names of the members, in the order of the archive."""
        return self._zip.namelist()

    def size(self, name: str) -> int:
        """Return the bytes that a member has, once it is known that it can have so many.

        Raises:
            InputError: no such member, or it is encrypted, compressed in an unknown way, or too
                short for what it promises.
        """
        if name not in self._zip.NameToInfo:
            raise InputError(self.path, f"has no member {shorten(name)}")
        info = self._zip.getinfo(name)
        ratio = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: _DEFLATE_RATIO}.get(
            info.compress_type
        )
        if info.flag_bits & 1 or ratio is None:
            raise InputError(
                self.path, f"member {shorten(name)} is encrypted or compressed in an unknown way"
            )
        if info.file_size > ratio * min(info.compress_size, self._size):
            raise InputError(
                self.path,
                f"member {shorten(name)} promises {info.file_size} bytes, more than "
                f"{info.compress_size} bytes can hold",
            )
        return info.file_size

    def open(self, name: str) -> IO[bytes]:
        """Return a member as a stream; use it within :func:`decoding`."""
        self.size(name)
        return self._zip.open(name)

    def read(self, name: str, most: int | None = None) -> NDArray[np.uint8]:
        """Return the bytes of a member.

        Args:
            name: one of :attr:`names`.
            most: refuse a member of more bytes.

        Raises:
            InputError: damaged, shorter than it promises, or of more bytes than ``most``.
            OutOfMemoryError: more bytes than there is free memory.
        """
        size = self.size(name)
        if most is not None and size > most:
            raise InputError(self.path, f"member {shorten(name)} of {size} bytes is too long")
        check_memory(self.path, size, f"member {shorten(name)}")
        with decoding(self.path), self._zip.open(name) as stream:
            return fill(stream, size, self.path)


def fill(stream: IO[bytes], size: int, path: PathLike) -> NDArray[np.uint8]:
    """Return the next ``size`` bytes of a stream, which must end there.

    Raises:
        InputError: it ends before or after them.
    """
    out = np.empty(size, np.uint8)
    done = 0
    while done < size:
        part = stream.read(min(size - done, _READ_BYTES))
        if not part:
            raise InputError(path, f"ends after {done} of {size} bytes")
        out[done : done + len(part)] = np.frombuffer(part, np.uint8)
        done += len(part)
    # At its end a member's checksum is compared.
    if stream.read(1):
        raise InputError(path, f"goes on behind {size} bytes")
    return out
