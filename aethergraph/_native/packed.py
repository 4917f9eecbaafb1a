"""Samples in bytes: which arrays they have, and the rows that go into them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph._native.core import ffi, lib
from aethergraph._native.files import FileGuard
from aethergraph._native.lists import NativeRows
from aethergraph._native.memory import address_of

#: Arrays of a sample in bytes, by their names in subgraphs.
PARTS: Final[dict[str, int]] = {
    "node": lib.AETHER_PART_NODES,
    "batch": lib.AETHER_PART_TREES,
    "num_sampled_nodes": lib.AETHER_PART_HOP_NODES,
    "row": lib.AETHER_PART_ROWS,
    "col": lib.AETHER_PART_COLS,
    "edge": lib.AETHER_PART_EDGES,
    "num_sampled_edges": lib.AETHER_PART_HOP_EDGES,
}


class RowVersions(NamedTuple):
    """Versions of rows that change: see ``GrowingRows``.

    Attributes:
        slots: number of the last version of each row; 0: it was never changed.
        before: by version the one before it, or 0.
        commits: by version its commit.
        rows: by version the row.
    """

    slots: NDArray[np.uint32]
    before: NDArray[np.uint32]
    commits: NDArray[np.uint64]
    rows: NDArray[Any]


class VersionedRows:
    """Rows as of a commit, ready to be put into samples in bytes. Keeps the arrays alive.

    Args:
        base: rows from 0 on; None: there are none.
        added: rows behind them; None: there are none.
        versions: versions of changed rows; None: no row was changed.
        commit: number of the commit.
    """

    __slots__ = ("_kept", "_rows", "guard", "is_changed")

    def __init__(
        self,
        base: NativeRows | None,
        added: NativeRows | None = None,
        versions: RowVersions | None = None,
        commit: int = 0,
    ) -> None:
        first = base or added
        assert first is not None
        self._kept = base, added, versions
        self._rows = ffi.new("aether_versioned_rows *")
        for out, rows in ((self._rows.base, base), (self._rows.added, added)):
            rows = rows or first
            out.data, out.num_rows = rows.handle.data, rows.handle.num_rows
            out.row_items, out.stride = rows.handle.row_items, rows.handle.stride
            out.dtype = rows.handle.dtype
        if base is None:
            self._rows.base.num_rows = 0
        if added is None:
            self._rows.added.num_rows = 0
        #: True: some rows come from versions, which are used again once the snapshot expires.
        self.is_changed = versions is not None
        #: Guard of the file that the base is mapped from.
        self.guard: FileGuard | None = None if base is None else base.guard
        if versions is not None:
            self._rows.slots = ffi.cast("uint32_t *", address_of(versions.slots))
            self._rows.before = ffi.cast("uint32_t *", address_of(versions.before))
            self._rows.commits = ffi.cast("uint64_t *", address_of(versions.commits))
            self._rows.versions = ffi.cast("void *", address_of(versions.rows))
            self._rows.num_versions = len(versions.before)
            self._rows.commit = commit

    @property
    def handle(self) -> Any:
        """The ``aether_versioned_rows *``."""
        return self._rows


class NativePacking:
    """Form of samples in bytes: their arrays, in order.

    Args:
        parts: name of the array and number of its node type or relation; or the rows of the nodes
            or edges that came last.
        num_hops: number of hops of the samples.
        commit: number of the commit, which the bytes tell.
    """

    __slots__ = ("_kept", "commit", "guards", "num_hops", "num_parts", "parts")

    def __init__(
        self, parts: Sequence[tuple[str, int] | VersionedRows], num_hops: int, commit: int
    ) -> None:
        self._kept = tuple(parts)
        self.parts = ffi.new("aether_part[]", len(parts))
        for out, part in zip(self.parts, parts, strict=True):
            if isinstance(part, VersionedRows):
                out.what, out.values = lib.AETHER_PART_VALUES, part.handle
            else:
                out.what, out.of = PARTS[part[0]], part[1]
        self.num_parts, self.num_hops, self.commit = len(parts), num_hops, commit
        guards = [part.guard for part in parts if isinstance(part, VersionedRows) and part.guard]
        #: Guards of the files that rows are mapped from.
        self.guards: list[FileGuard] = list(dict.fromkeys(guards))
