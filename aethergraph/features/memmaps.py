"""Arrays that numpy has mapped from a file: a pickle names the file instead of holding the bytes.

Such are ``np.load(path, mmap_mode="r")`` and ``np.memmap(path, dtype, "r")``, and parts of them.
"""

from __future__ import annotations

import errno
import mmap
import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph.errors import FileChangedError
from aethergraph.storage.npy import identity

__all__ = ["MappedArray"]


class MappedArray(NamedTuple):
    """Place of an array in a file.

    Attributes:
        path: absolute path of the file.
        offset: byte at which the array begins.
        dtype: its dtype, in numpy's words.
        shape: its shape; rows lie one after the other.
        file: what tells the file from another one of its name.
    """

    path: str
    offset: int
    dtype: str
    shape: tuple[int, ...]
    file: tuple[int, ...]

    @classmethod
    def find(cls, array: NDArray[Any]) -> MappedArray | None:
        """Return where an array lies, if it is mapped from a file and is read only; else None."""
        root: Any = array
        while isinstance(root, np.ndarray) and not isinstance(root.base, mmap.mmap):
            root = root.base
        mapped = isinstance(root, np.memmap) and root.mode == "r" and root.filename is not None
        if not mapped or not array.size or not array.flags.c_contiguous:
            return None
        path = os.path.abspath(os.fsdecode(root.filename))
        begin = array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        shape = tuple(map(int, array.shape))
        return cls(path, root.offset + begin, array.dtype.str, shape, identity(path))

    @property
    def is_there(self) -> bool:
        """True if the path still names the file."""
        return self.file == identity(self.path) != ()

    def open(self) -> NDArray[Any]:
        """Map the array anew.

        Raises:
            FileChangedError: the path names another file now, or none.
        """
        if not self.is_there:
            text = f"{self.path}: the file is not the one that was mapped"
            raise FileChangedError(errno.ESTALE, text, self.path)
        return np.memmap(self.path, self.dtype, "r", self.offset, self.shape)
