"""Attaching: the live graph that another process has open in a directory, for reading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aethergraph import _native as native
from aethergraph.dynamic.directory import LiveDirectory
from aethergraph.dynamic.store import LiveStore
from aethergraph.errors import AetherError, ClosedError, CorruptFileError, UnsupportedError
from aethergraph.features.feature_table import FeatureTable
from aethergraph.graph.hetero import HeteroGraph
from aethergraph.ids import IdMap
from aethergraph.storage.other_process import Owner

__all__ = ["attach"]


def attach(path: native.Path) -> LiveStore:
    """Return the live graph that another process has open in a directory, for reading.

    Raises:
        ClosedError: nobody has it open.
        UnsupportedError: it is somebody else's, or its edges are in memory of that process alone.
    """
    directory = LiveDirectory(path)
    return directory.while_published(lambda: _attach(directory))


def _attach(directory: LiveDirectory) -> LiveStore:
    """Return the live graph that is published at the moment."""
    version, address = directory.published(), directory.address()
    try:
        store = _attach_to(directory, address)
    except ClosedError:  # its memory went with it
        reason = f"process {Owner(*address['owner']).pid}, which had it open, has ended"
        raise directory.no_writer(reason) from None
    except (LookupError, ValueError, TypeError, AttributeError, OverflowError) as error:
        if isinstance(error, AetherError):
            raise
        path = directory.path / "LIVE"
        raise CorruptFileError(f"{path} is damaged: it cannot be read: {error!r}") from error
    store.publication = version
    return store


def _attach_to(directory: LiveDirectory, address: Mapping[str, Any]) -> LiveStore:
    """Return the live graph that an address describes."""
    owner = Owner(*address["owner"])
    if not address["descriptors"]:
        raise UnsupportedError(
            f"{directory.path}: the edges are in the arena_memory of process {owner.pid}, which "
            "other processes do not have: let it open the graph without arena_memory"
        )

    def base_of(origin: Any) -> Any:
        if isinstance(origin, str):
            return IdMap.load(origin)
        file = directory.path / origin["file"]
        if "attr" not in origin:
            return FeatureTable.load(file)
        return HeteroGraph.load(file)[origin["type"]].attrs[origin["attr"]]

    return LiveStore.attached(address, str(directory.path), directory.uuid.hex(), owner, base_of)
