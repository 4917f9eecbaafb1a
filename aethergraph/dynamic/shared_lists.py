"""Lists of a live graph in the memory of another process, with the base that they are over."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from aethergraph import _native as native
from aethergraph.dynamic.base_graph import Base
from aethergraph.dynamic.directory import LiveDirectory
from aethergraph.errors import ClosedError
from aethergraph.storage.other_process import OpenFile, Owner, open_descriptors

__all__ = ["Lists", "attach_lists", "published_lists"]

#: Lists, and the base that they are over.
Lists: TypeAlias = tuple[native.NativeLive, Base | None]


def attach_lists(owner: Owner, files: Sequence[OpenFile], base: Mapping[str, Any] | None) -> Lists:
    """Open the lists of another process, and their base.

    Raises:
        ClosedError, MissingFileError: they are gone, after a merge say.
    """
    descriptors = open_descriptors(owner, files)
    try:
        return native.NativeLive.attach(descriptors), None if base is None else Base.from_json(base)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def published_lists(path: str, memory_name: str) -> Lists:
    """Return the lists, and their base, that a graph in a directory goes on with.

    Raises:
        ClosedError: the process that had ``memory_name`` has it open no more.
    """
    directory = LiveDirectory(path)

    def attach() -> Lists:
        address = directory.address()
        if address.get("memory", memory_name) != memory_name:
            raise ClosedError(f"{path}: another process writes it now")
        return attach_lists(Owner(*address["owner"]), address["descriptors"], address["base"])

    return directory.while_published(attach)
