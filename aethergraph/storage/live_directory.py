"""Directories of live graphs, as those know them who read and write other files."""

from __future__ import annotations

import os

from aethergraph import _native as native
from aethergraph.errors import InvalidArgumentError

__all__ = ["check_outside", "is_live_directory"]


def is_live_directory(path: native.Path) -> bool:
    """Return whether there is a live graph at ``path``, though it may be damaged."""
    return _has(native.encode_path(path)[0], "graph.json")


def check_outside(path: native.Path) -> None:
    """Raise unless a file can be written at ``path`` without mixing with those of a live graph.

    Raises:
        InvalidArgumentError: it would be in the directory of one; names it.
    """
    name = os.path.abspath(native.encode_path(path)[0])
    for place in (name, os.path.realpath(name)):
        folder = os.path.dirname(place)
        if _has(folder, "graph.json") and _has(folder, "CURRENT"):  # not any file of one name
            raise InvalidArgumentError(
                f"{name} would be a file in {folder}, which is the directory of a live graph and "
                "takes no others: give a path outside of it"
            )


def _has(folder: str, name: str) -> bool:
    # A pipe in the place of the file is there, too: who opens it says so. Path.exists() raises for
    # long names.
    return os.path.lexists(os.path.join(folder, name))
