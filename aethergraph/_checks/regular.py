"""Regular files, told from what a path may name beside them."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

__all__ = ["open_regular"]


def open_regular(path: str | bytes | os.PathLike[str]) -> BinaryIO:
    """Open a file for reading that is one: a pipe may wait for ever, and a device never ends.

    Raises:
        OSError: there is none, or it is a pipe, a device or a folder.
    """
    # A pipe that nobody writes to is opened at once this way; files know no difference.
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        text = "is a pipe or a device, not a file: write it to a file first"
        raise OSError(errno.EINVAL, text, os.fsdecode(path))
    return file
