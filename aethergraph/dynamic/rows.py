"""Rows by node or edge that are added to and changed while others read them.

::

    base      rows of a store, say of a file: never written      ids 0 .. base - 1
    added     rows behind them, in shared memory                 ids base ..
    changed   versions of single rows: row, commit, the version before

    slot[7] = 3:   version 3, of commit 9 ──before──> version 1, of commit 4 ──> base or added

A version is written before it is linked. So whoever reads commit e follows the links until a
version of commit e or earlier, and finds the row as it was, whatever the writer does meanwhile.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph.dynamic.shared import Region, SharedArrays
from aethergraph.errors import CorruptFileError, LimitError, SnapshotExpiredError
from aethergraph.features.stored_rows import plain_rows
from aethergraph.protocols import RowSource
from aethergraph.storage.other_process import OpenFile

__all__ = ["GrowingRows", "HeldVersionsError"]

Ids = NDArray[np.int64]
#: Numbers of the arrays: rows behind the base, the last version of each row, and of versions the
#: rows, commits, versions before, and how many there have been.
_ADDED, _SLOTS, _ROWS, _COMMITS, _BEFORE, _COUNT = range(6)
#: Rows that may have been changed and be read at the same time, of each attribute.
_MOST_VERSIONS = 1 << 31
#: Versions beside those, of rows that change while snapshots of former commits are held.
_SPARE_VERSIONS = 1 << 16
#: Links that a gather follows between two looks whether its snapshot still holds the versions.
_LOOK_AFTER = 64
#: In place of a commit's number: of versions that nobody sees yet.
_HIDDEN = 1 << 63


def _end_of(numbers: NDArray[Any]) -> int:
    """Return the number behind the largest."""
    return int(numbers.max()) + 1 if len(numbers) else 0


class HeldVersionsError(LimitError):
    """New versions of rows have no room, unless readers let go of former commits."""


@dataclass
class _Superseded:
    """Versions that no reader of ``commit`` or later needs."""

    commit: int
    slots: NDArray[np.uint32]


class GrowingRows:
    """Rows of one attribute; one thread of one process writes.

    Args:
        row_shape: shape of one row.
        dtype_name: dtype of the rows, also ``"bfloat16"``.
        room: most rows there can be; memory is taken for those that are written.
        base: rows that are there already; None: there are none.
        can_change: False: rows are only added, as those of edges.
        fd: descriptor of the arrays of another process; None: make them.
    """

    def __init__(
        self,
        row_shape: tuple[int, ...],
        dtype_name: str,
        room: int,
        base: RowSource | None = None,
        *,
        can_change: bool = True,
        fd: int | None = None,
    ) -> None:
        self.row_shape, self.dtype_name, self.room, self.base = row_shape, dtype_name, room, base
        self.can_change = can_change
        #: Where another process finds the base, of a graph in a directory (see directory.py).
        self.origin: dict[str, str] | None = None
        self.num_base = 0 if base is None else base.num_rows
        code = native.DTYPE_CODES[dtype_name]
        self.dtype = native.ARRAY_DTYPES[code]
        # Twice the rows: a change of all of them leaves their versions in use until the next.
        self._most_versions = min(2 * room + _SPARE_VERSIONS, _MOST_VERSIONS) if can_change else 0
        versions = self._most_versions
        self._shared = SharedArrays(
            [
                Region((max(0, room - self.num_base), *row_shape), self.dtype),
                Region((room if can_change else 0,), np.dtype(np.uint32)),
                Region((versions, *row_shape), self.dtype),
                Region((versions,), np.dtype(np.uint64)),
                Region((versions,), np.dtype(np.uint32)),
                Region((1,), np.dtype(np.uint64)),
            ],
            fd,
        )
        self._code = code
        self._count = self._shared.array(_COUNT, 1)
        self._table: tuple[NDArray[Any], native.NativeRows] | None = None
        #: Of the writer: slots free to use, and those that readers of older commits may need.
        self._free = deque[int]()
        self._superseded = deque[_Superseded]()

    def _added(self, end: int) -> NDArray[Any]:
        """Return the rows behind the base, up to row ``end - 1`` or more."""
        return self._shared.array(_ADDED, end - self.num_base)

    def _added_table(self, end: int) -> native.NativeRows:
        """Return the same for native calls; what other threads ask for meanwhile is theirs."""
        added = self._added(end)
        table = self._table
        if table is None or table[0] is not added:
            table = self._table = added, native.NativeRows(added, self._code)
        return table[1]

    def _slots(self, count: int) -> NDArray[np.uint32]:
        """Return the number of the last version of each row; 0: it was never changed."""
        return self._shared.array(_SLOTS, count)

    def _versions(self, count: int) -> tuple[NDArray[Any], ...]:
        """Return the rows, commits and versions before of versions 0 .. count - 1, or more."""
        return tuple(self._shared.array(number, count) for number in (_ROWS, _COMMITS, _BEFORE))

    @property
    def file(self) -> OpenFile:
        """File of the memory, for another process."""
        return self._shared.file

    @property
    def is_in_memory(self) -> bool:
        """True if a gather waits for nothing but memory."""
        return self.base is None or self.base.is_in_memory

    # ---- reading -----------------------------------------------------------------------------

    def gather_into(
        self, ids: Ids, out: NDArray[Any], commit: int, check: Callable[[], None]
    ) -> None:
        """Set ``out[i]`` to row ``ids[i]`` as of a commit.

        Args:
            ids: the rows, which were checked.
            out: where they go.
            commit: the commit, which is pinned.
            check: raises SnapshotExpiredError if it is pinned no more.

        Raises:
            SnapshotExpiredError: it was found out in time; else call ``check`` afterwards.
            CorruptFileError: the memory of another process is damaged.
        """
        if self.base is None:
            self._added_table(_end_of(ids)).gather(ids, out, self._code)
        else:
            added = ids >= self.num_base
            if not added.any():
                self.base.gather_into(ids, out)
            else:
                out[~added] = self.base.gather(ids[~added])
                out[added] = self._added(_end_of(ids))[ids[added] - self.num_base]
        if self._count[0]:
            self._put_versions(ids, out, commit, check)

    def _put_versions(
        self, ids: Ids, out: NDArray[Any], commit: int, check: Callable[[], None]
    ) -> None:
        slots = self._slots_at(ids, commit, check)
        (places,) = np.nonzero(slots)
        out[places] = self._versions(_end_of(slots))[0][slots[places]]

    def _slots_at(self, ids: Ids, commit: int, check: Callable[[], None]) -> NDArray[np.uint32]:
        """Return the versions of rows as of a commit; 0: the rows as they were first."""
        slots = self._slots(_end_of(ids))[ids]
        # Behind the look at the slots: a version is counted before it is linked.
        count = min(int(self._count[0]) + 1, self._most_versions)
        _, commits, before = self._versions(count)
        for step in itertools.count(1):
            wrong = np.flatnonzero(slots >= count)
            if len(wrong):
                at = int(wrong[0])
                raise CorruptFileError(
                    f"row {ids[at]} has a version that does not exist",
                    position=at, value=int(ids[at]),
                )  # fmt: skip
            (places,) = np.nonzero(slots)
            later = places[commits[slots[places]] > commit]
            if not len(later):
                break
            # Once the snapshot has expired, versions are used again: links may lead in circles.
            if step % _LOOK_AFTER == 0:
                check()
                if step > self._count[0]:
                    raise SnapshotExpiredError(
                        f"versions of rows that commit {commit} needs are in use again: take a new "
                        "snapshot"
                    )
            slots[later] = before[slots[later]]
        return slots

    def changed(self, since: int, commit: int, count: int, check: Callable[[], None]) -> Ids:
        """Return the rows that commits after ``since``, up to ``commit``, have changed, ascending.

        Args:
            since: an earlier commit.
            commit: the commit, which is pinned.
            count: rows as of that commit.
            check: as of :meth:`gather_into`.

        Raises:
            SnapshotExpiredError, CorruptFileError: as :meth:`gather_into`.
        """
        if not self._count[0]:
            return np.empty(0, np.int64)
        ids = np.flatnonzero(self._slots(count)[:count]).astype(np.int64, copy=False)
        slots = self._slots_at(ids, commit, check)
        commits = self._versions(_end_of(slots))[1]
        is_changed: NDArray[np.bool_] = (slots != 0) & (commits[slots] > since)
        return ids[is_changed]

    def versioned(self, commit: int, count: int) -> native.VersionedRows | None:
        """Return ``count`` rows as of ``commit``, the last one or a pinned one, for native calls.

        None: they are not in memory as they are gathered.
        """
        base = None
        if self.base is not None:
            base = plain_rows(self.base)
            if base is None:
                return None
        versions = None
        # While nothing was changed, every version that comes will be of a later commit.
        if self._count[0]:
            rows, commits, before = self._versions(int(self._count[0]) + 1)
            versions = native.RowVersions(self._slots(count), before, commits, rows)
        return native.VersionedRows(base, self._added_table(count), versions, commit)

    # ---- writing -----------------------------------------------------------------------------

    def put(self, begin: int, rows: NDArray[Any]) -> None:
        """Write rows that no reader asks for yet, from row ``begin`` on.

        Raises:
            LimitError: there is no room for them.
        """
        end = begin + len(rows)
        if end > self.room:
            raise LimitError(
                f"row {end - 1} is above the last one that there is room for, {self.room - 1}"
            )
        self._added(end)[begin - self.num_base : end - self.num_base] = rows

    def put_one(self, row: int, value: float) -> None:
        """Write the value of one row that no reader asks for yet: :meth:`put` with less ado.

        Raises:
            LimitError: there is no room for it.
        """
        if row >= self.room:
            self.put(row, np.empty((1, *self.row_shape), self.dtype))
        self._added(row + 1)[row - self.num_base] = value

    def put_at(self, ids: Ids, rows: NDArray[Any]) -> None:
        """Write rows that no reader asks for yet, each at its place."""
        self._added(_end_of(ids))[ids - self.num_base] = rows

    def change(
        self,
        ids: Ids,
        rows: NDArray[Any],
        commit: int | None,
        undo: list[Callable[[int], None]],
    ) -> Callable[[int], None]:
        """Link new versions of the rows ``ids``, distinct, which readers of ``commit`` will see.

        Args:
            ids: the rows.
            rows: what they become.
            commit: number of the commit; None: nobody sees them before the change is shown.
            undo: gets a function that takes the change back, given the number of the last commit;
                to be called for the last change first, whether :meth:`change` has returned or not.

        Returns:
            A function that shows the change to readers of the commit whose number it is given.

        Raises:
            HeldVersionsError: too many versions are still being read.
        """
        slots, last = self._take(len(ids)), self._slots(_end_of(ids))
        versions, commits, links = self._versions(int(self._count[0]) + 1)
        versions[slots] = rows
        commits[slots] = _HIDDEN if commit is None else commit
        before = last[ids]
        links[slots] = before
        superseded = _Superseded(_HIDDEN if commit is None else commit, before[before != 0])

        def show(commit: int) -> None:
            superseded.commit = commit
            commits[slots] = commit

        def take_back(last_commit: int) -> None:
            last[ids] = before
            # In place of theirs. Readers may be on their way through them, also those of the next
            # commit, whose number the undone transaction uses up.
            superseded.slots, superseded.commit = slots, last_commit + 2

        # First: Ctrl-C behind the next lines would leave versions linked that are used again.
        undo.append(take_back)
        self._superseded.append(superseded)
        last[ids] = slots
        return show

    def reclaim(self, oldest: int) -> None:
        """Use the versions again that no reader of commit ``oldest`` or later needs."""
        while self._superseded and self._superseded[0].commit <= oldest:
            self._free.extend(self._superseded.popleft().slots.tolist())

    @property
    def num_waiting(self) -> int:
        """Number of changes whose former versions may still be read."""
        return len(self._superseded)

    @property
    def num_versions(self) -> int:
        """Number of versions that are in use, of rows as they are and as they were."""
        return int(self._count[0]) - len(self._free)

    @property
    def num_free(self) -> int:
        """Number of rows that :meth:`change` has room for."""
        return len(self._free) + self._most_versions - 1 - int(self._count[0])

    def _take(self, count: int) -> NDArray[np.uint32]:
        reused = [self._free.popleft() for _ in range(min(count, len(self._free)))]
        begin = int(self._count[0]) + 1  # version 0 says that there is none
        fresh = count - len(reused)
        if begin + fresh > self._most_versions:
            self._free.extend(reused)
            raise HeldVersionsError(
                f"there is no room for {count} more versions of rows: release snapshots sooner, or "
                "give a larger max_nodes"
            )
        self._count[0] += fresh
        return np.array([*reused, *range(begin, begin + fresh)], np.uint32)
