"""From keys of nodes to their ids, in the commit that gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph._native import KeyBlock
from aethergraph.dynamic.store import LiveStore

if TYPE_CHECKING:
    from aethergraph.streaming.changes import Changes

__all__ = ["with_ids"]


class _End(NamedTuple):
    """Keys at one end of some rows of changes."""

    change: int
    end: int
    rows: NDArray[np.intp]
    keys: KeyBlock


def with_ids(store: LiveStore, changes: Sequence[Changes]) -> tuple[list[Changes], int]:
    """Return changes by ids, and the number of nodes that were added for new keys.

    Inside a transaction. All keys of a node type are looked up together. Edges to delete whose
    nodes are not there are left out; they add none.

    Args:
        store: the graph.
        changes: changes, perhaps by keys.
    """
    all_ends: list[list[Any]] = [[change.src, change.dst] for change in changes]
    for change, ends in zip(changes, all_ends, strict=True):
        for end, keys in enumerate(change.keys):
            if keys is not None:
                ends[end] = np.full(len(change), -1)
    added = 0
    for are_deleted in (False, True):
        for node_type, parts in _ends(changes, are_deleted).items():
            joined = KeyBlock.joined([part.keys for part in parts])
            if are_deleted:
                ids = store.find_keys(node_type, joined)
            else:
                ids, count = store.add_keys(node_type, joined)
                added += count
            begin = 0
            for part in parts:
                end = begin + len(part.keys)
                all_ends[part.change][part.end][part.rows] = ids[begin:end]
                begin = end
    return [_by_ids(*pair) for pair in zip(changes, all_ends, strict=True)], added


def _ends(changes: Sequence[Changes], are_deleted: bool) -> dict[str, list[_End]]:
    """Return the keys by node type, of the edges to delete or of all others."""
    ends: dict[str, list[_End]] = {}
    for number, change in enumerate(changes):
        rows = np.arange(len(change))
        if change.delete is not None:
            rows = np.flatnonzero(change.delete == are_deleted)
        elif are_deleted:
            continue
        types = (change.kind,) if isinstance(change.kind, str) else (change.kind[0], change.kind[2])
        for end, (node_type, keys) in enumerate(zip(types, change.keys, strict=False)):
            if keys is None or not len(rows):
                continue
            places = change.src if end == 0 else change.dst
            assert places is not None
            if len(rows) != len(keys):  # else they are all there, in order
                keys = keys.take(places[rows].astype(np.uint64))
            ends.setdefault(node_type, []).append(_End(number, end, rows, keys))
    return ends


def _by_ids(change: Changes, ends: list[Any]) -> Changes:
    if change.keys == (None, None):
        return change
    by_ids = replace(change, src=ends[0], dst=ends[1], keys=(None, None))
    known = np.ones(len(change), bool)
    for ids in ends:
        if ids is not None:
            known &= ids >= 0
    return by_ids if known.all() else by_ids.only(known)
