"""RowPlan: announced gathers, served in order from a cache that knows them ahead."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_ids
from aethergraph.errors import ClosedError, InvalidArgumentError, OutOfRangeError
from aethergraph.features.gathering import result_of
from aethergraph.features.table import RowTable
from aethergraph.storage.value_columns import ReadAhead, ValueColumn

__all__ = ["RowPlan"]

Ids = NDArray[np.int64]


class RowPlan:
    """Gathers planned by :meth:`aethergraph.FeatureTable.plan`: the rows of list after list.

    Iterate over the plan, or call :meth:`gather`. The plan is a context manager. Threads that share
    it take turns: each list goes to one thread, and iteration ends for all after the last list.
    """

    def __init__(
        self,
        table: RowTable,
        rows: native.FileRows | ValueColumn,
        lists: Sequence[Ids],
    ) -> None:
        self._table = table
        self._ends = np.cumsum([len(ids) for ids in lists], dtype=np.uint64)
        self._ids = np.concatenate(lists) if lists else np.empty(0, np.int64)
        try:
            self._plan: native.NativePlan | ReadAhead | None = rows.plan(self._ids, self._ends)
        except OutOfRangeError as error:
            raise self._name_list(error, table.num_rows) from None
        self._stats = self._plan.stats()
        self._next = 0
        self._lock = threading.Lock()

    def _name_list(self, error: OutOfRangeError, num_rows: int) -> OutOfRangeError:
        assert error.position is not None
        number = int(np.searchsorted(self._ends, error.position, "right"))
        at = error.position - (int(self._ends[number - 1]) if number else 0)
        return OutOfRangeError(
            f"lists[{number}][{at}] = {error.value} is not in 0..{num_rows - 1} "
            f"(num_rows={num_rows})",
            position=at, value=error.value,
        )  # fmt: skip

    # ---- forecast ------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of lists."""
        return len(self._ends)

    @property
    def remaining(self) -> int:
        """Number of lists not gathered yet."""
        return len(self._ends) - self._next

    def stats(self) -> native.PlanStats:
        """Return the totals over all lists, which are known when the plan is made."""
        return self._stats

    @property
    def hits(self) -> int:
        """Rows found in the cache, over all lists."""
        return self._stats.hits

    @property
    def misses(self) -> int:
        """Rows not found in the cache, over all lists."""
        return self._stats.rows - self._stats.hits

    @property
    def frames_read(self) -> int:
        """Frames (rows, or groups of small rows) read, counted once per list that lacks them."""
        return self._stats.frames_read

    @property
    def frames(self) -> int:
        """Most frames (rows, or groups of small rows) that the plan keeps beside the hot ones.

        0 while another plan holds the cache.
        """
        return self._stats.frames_lent

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the plan takes beside the store's budget."""
        return self._stats.bytes + self._ids.nbytes + self._ends.nbytes

    @property
    def closed(self) -> bool:
        """True if the cache was given back."""
        return self._plan is None

    # ---- rows ------------------------------------------------------------------------------

    def gather(
        self,
        ids: ArrayLike | None = None,
        out: NDArray[Any] | None = None,
        dtype: DTypeLike | str | None = None,
    ) -> NDArray[Any]:
        """Return the rows of the next list, like :meth:`aethergraph.FeatureTable.gather`.

        After the last list the plan is closed.

        Args:
            ids: the next list again, to check the order. None: no check.
            out: see :meth:`aethergraph.FeatureTable.gather`.
            dtype: see :meth:`aethergraph.FeatureTable.gather`.

        Raises:
            InvalidArgumentError: ``ids`` is not the next list; nothing was gathered.
            ClosedError: there is no next list, or the plan was closed.
            FileChangedError, StorageError: see ``gather``; the plan is closed afterwards.
        """
        with self._lock:
            plan = self._open()
            if ids is not None:
                self._check_next(as_ids(ids, "ids"))
            return self._serve(plan, out, dtype)

    def gather_if_next(self, ids: Ids, out: NDArray[Any]) -> bool:
        """Gather the next list into ``out`` if it equals ``ids``; return whether it did."""
        with self._lock:
            plan = self._plan
            if plan is None or not np.array_equal(self._next_list(), ids):
                return False
            self._serve(plan, out, None)
            return True

    def _serve(
        self,
        plan: native.NativePlan | ReadAhead,
        out: NDArray[Any] | None,
        dtype: DTypeLike | str | None,
    ) -> NDArray[Any]:
        table = self._table
        result, code = result_of(table, len(self._next_list()), out, dtype, table.dtype_code)
        try:
            native.run_long(lambda task: plan.gather(result, code, task), None, result.nbytes)
        except BaseException:
            self._give_back()
            raise
        self._next += 1
        if self._next == len(self._ends):
            self._give_back()
        return result

    def _next_list(self) -> Ids:
        begin = int(self._ends[self._next - 1]) if self._next else 0
        return self._ids[begin : int(self._ends[self._next])]

    def _open(self) -> native.NativePlan | ReadAhead:
        if self._next == len(self._ends):
            raise ClosedError(f"all {len(self._ends)} lists of this plan have been gathered")
        if self._plan is None:
            raise ClosedError("this plan was closed: make another one for the lists that remain")
        return self._plan

    def _check_next(self, ids: Ids) -> None:
        expected = self._next_list()
        if np.array_equal(expected, ids):
            return
        difference = f"has {len(expected)} rows, got {len(ids)}"
        if len(expected) == len(ids):
            at = int((expected != ids).argmax())
            difference = f"has {expected[at]} at position {at}, got {ids[at]}"
        raise InvalidArgumentError(
            f"ids are not list {self._next} of the plan, which {difference}: gather the lists in "
            "the order they were planned in"
        )

    def __iter__(self) -> Iterator[NDArray[Any]]:
        while True:
            with self._lock:
                if not self.remaining:  # under the lock: another thread may be next
                    return
                rows = self._serve(self._open(), None, None)
            yield rows

    def close(self) -> None:
        """Give the cache back, with its content."""
        with self._lock:
            self._give_back()

    def _give_back(self) -> None:
        if self._plan is not None:
            self._plan.close()
            self._plan = None

    def __enter__(self) -> RowPlan:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.remaining} to come"
        return f"RowPlan({len(self)} lists, {state}, {self._stats.rows} rows, {self.hits} cached)"
