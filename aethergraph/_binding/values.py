"""Numbers that stay in a file, for samplers (``store/values``)."""

from __future__ import annotations

from typing import Any

from aethergraph._binding.core import ffi, lib, new_error, raise_error
from aethergraph._binding.io import FileReader


class NativeValues:
    """``count`` numbers of ``item_bytes`` (4 or 8) at ``offset`` of a file. Immutable."""

    __slots__ = ("_reader", "handle")

    handle: Any

    def __init__(self, reader: FileReader, offset: int, count: int, item_bytes: int) -> None:
        self._reader = reader  # the core borrows it
        out = ffi.new("aether_values **")
        err = new_error()
        code = lib.aether_values_open(reader.handle, offset, count, item_bytes, out, err)
        if code:
            raise_error(code, err)
        self.handle = ffi.gc(out[0], lib.aether_values_close)
