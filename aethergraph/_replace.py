"""Writing a file beside its name and renaming: the old file or the new one, never half."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from typing import IO

from aethergraph import _binding as native
from aethergraph.errors import MissingFileError, StorageError


@contextlib.contextmanager
def replacing(path: native.Path) -> Iterator[IO[bytes]]:
    """A stream beside ``path`` that takes its place, durable, when the block ends well.

    Follows symbolic links and keeps the permissions of an old file, as the native writer does.
    """
    target = os.path.realpath(os.fsdecode(native.encode_path(path)[1]))
    folder, name = os.path.split(target)
    temporary = ""
    try:
        if os.path.exists(target) and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        beside = os.path.join(folder, f".{name}.{secrets.token_hex(8)}.aether-tmp")
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        temporary = beside
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            if os.path.exists(target):
                os.fchmod(handle, stat.S_IMODE(os.stat(target).st_mode))
            os.fsync(handle)
        os.replace(temporary, target)
        temporary = ""
        _sync_folder(folder)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        number = error.errno or errno.EIO
        message = f"cannot write {target!r}: {os.strerror(number)}"
        kind = MissingFileError if number == errno.ENOENT else StorageError
        raise kind(number, message, target) from error
    finally:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
