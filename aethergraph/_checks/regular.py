"""Regular files, told from what a path may name beside them."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

__all__ = ["open_descriptor", "open_regular"]


def open_descriptor(path: str | bytes | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
    """Open a file that is one, and return its descriptor: a pipe may wait, a device never ends.

    A link is followed for reading alone: what is written through it would be somebody else's file.

    Raises:
        OSError: there is none, or it is a pipe, a device or a folder.
    """
    follow = 0 if flags & os.O_ACCMODE == os.O_RDONLY else os.O_NOFOLLOW
    # A pipe that nobody writes to is opened at once this way; files know no difference.
    wary = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | follow
    try:
        descriptor = os.open(path, flags | wary, 0o600)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        text = "it is a symbolic link: put the file itself there"
        raise OSError(errno.ELOOP, text, os.fsdecode(path)) from None
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), os.fsdecode(path))
    text = "is a pipe or a device, not a file: write it to a file first"
    raise OSError(errno.EINVAL, text, os.fsdecode(path))


def open_regular(path: str | bytes | os.PathLike[str]) -> BinaryIO:
    """Open a file for reading that is one, see :func:`open_descriptor`."""
    return os.fdopen(open_descriptor(path), "rb")
