"""Rows of a training table: what tasks of one entity and of two share."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph._checks.arrays import as_ids, to_array
from aethergraph._checks.options import shown
from aethergraph._checks.times import as_seed_times
from aethergraph.errors import InvalidArgumentError, OutOfRangeError, UnsupportedError
from aethergraph.protocols import AnyGraph
from aethergraph.tasks.reading import Rows, Source, read_rows

__all__ = ["Splits", "TaskRows", "torch_tensor"]

Own = TypeVar("Own", bound="TaskRows")

#: A text that ends with a time of day and its zone.
_ZONED = re.compile(r"[T ]\d.*(Z|[+-]\d\d:?\d\d)$")


@dataclass(frozen=True)
class Splits(Generic[Own]):
    """Rows of a task to train with, to validate with and to test with, in this order.

    Attributes:
        train: rows to train with.
        val: rows to validate with.
        test: rows to test with.
    """

    train: Own
    val: Own
    test: Own

    def __iter__(self) -> Iterator[Own]:
        return iter((self.train, self.val, self.test))


class TaskRows:
    """Seeds of a training table with their times and labels, in the order of the table.

    Attributes:
        rows: int64 [n], the row of the table that each seed is of.
        time: int64 or float64 [n], times of the seeds in the unit of the graph; None without.
        time_unit: unit of ``time``, or None.
        time_zone: time zone of ``time`` ("UTC"), or None.
        labels: int64 or float32 [n], of several columns [n, k]; None without.
        num_dropped: number of rows of the table that were left out, for a key that is unknown.
        first_dropped: file, row and key of the first of these; "" if there are none.
    """

    #: What the seeds are, in words.
    _kind: str
    rows: NDArray[np.int64]
    time: NDArray[Any] | None
    time_unit: str | None
    time_zone: str | None
    labels: NDArray[Any] | None
    num_dropped: int
    first_dropped: str

    def _read(self, graph: AnyGraph, table: Any, source: Source) -> Rows:
        """Read a table; keep all but the ids of the seeds."""
        if not isinstance(getattr(graph, "is_typed", None), bool) or isinstance(graph, type):
            raise InvalidArgumentError(
                f"graph is a graph of one type or of many, loaded or live, got {shown(graph)}"
            )
        rows = read_rows(graph, table, source)
        self.rows, self.time, self.labels = rows.rows, rows.time, rows.labels
        self.time_unit, self.time_zone = graph.time_unit, graph.time_zone
        self.num_dropped, self.first_dropped = rows.num_dropped, rows.first_dropped
        return rows

    def __len__(self) -> int:
        return len(self.rows)

    def take(self: Own, positions: ArrayLike) -> Own:
        """Return the task of some seeds, by position or by mask.

        Raises:
            OutOfRangeError: a position is out of range.
            InvalidArgumentError: neither integers nor a mask of all seeds.
        """
        chosen = to_array(positions, "positions")
        if chosen.dtype == np.bool_ and chosen.shape == (len(self),):
            chosen = np.flatnonzero(chosen)
        if not chosen.size:
            chosen = chosen.astype(np.int64)
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
            raise InvalidArgumentError(
                f"positions are integers, or a mask of {len(self)} seeds, got {chosen.dtype} of "
                f"shape {chosen.shape}"
            )
        wrong = (chosen < 0) | (chosen >= len(self))
        if wrong.any():
            at = int(wrong.argmax())
            raise OutOfRangeError(
                f"positions[{at}] = {chosen[at]} is not in 0..{len(self) - 1}",
                position=at,
                value=int(chosen[at]),
            )
        return self._only(chosen)

    def _only(self: Own, chosen: NDArray[Any]) -> Own:
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        new.rows = self.rows[chosen]
        new.time = None if self.time is None else self.time[chosen]
        new.labels = None if self.labels is None else self.labels[chosen]
        return new

    def split(self: Own, *, val: Any, test: Any, train: Any = None) -> Splits[Own]:
        """Split the seeds by time; each part begins at a time, and ends where the next begins.

        Args:
            val: time from which on seeds are to validate with.
            test: time from which on they are to test with.
            train: time from which on they are to train with; earlier ones are in no part. None:
                all before ``val``.

        Times are datetimes, dates, texts such as "2024-03-01" or numbers in the unit of the graph.
        Where the times of the graph have a zone, dates and texts without one are in UTC.

        Raises:
            InvalidArgumentError: the task has no times, or a time cannot be given in the unit of
                the graph, or the three do not ascend.
        """
        if self.time is None:
            raise InvalidArgumentError("the task has no times to split by: give time_col")
        cuts = {"train": train, "val": val, "test": test}
        counts = {name: self._count(name, cut) for name, cut in cuts.items() if cut is not None}
        if len({"val", "test"} & counts.keys()) < 2:
            raise InvalidArgumentError("split needs the times at which val and test begin")
        if sorted(counts.values()) != list(counts.values()):
            moments = ", ".join(f"{name} = {cuts[name]}" for name in counts)
            raise InvalidArgumentError(f"the parts begin one after the other, not at {moments}")
        time = self.time
        is_late, is_test = time >= counts["val"], time >= counts["test"]
        is_early = ~is_late & (time >= counts.get("train", time.min() if len(time) else 0))
        return Splits(self.take(is_early), self.take(is_late & ~is_test), self.take(is_test))

    def _count(self, name: str, cut: Any) -> Any:
        assert self.time is not None
        if isinstance(cut, str) and _ZONED.search(cut):
            try:
                cut = dt.datetime.fromisoformat(cut.replace("Z", "+00:00"))
            except ValueError:
                raise InvalidArgumentError(f"{name} = {shown(cut)} is no time") from None
        if isinstance(cut, dt.datetime):
            cut = self._in_zone(name, cut)
        if isinstance(cut, (str, dt.date)):
            try:
                cut = np.datetime64(cut)
            except ValueError:
                raise InvalidArgumentError(f"{name} = {shown(cut)} is no time") from None
        if isinstance(cut, np.datetime64) and np.datetime_data(cut.dtype)[0] in ("Y", "M"):
            cut = cut.astype("datetime64[D]")
        return as_seed_times([cut], 1, name, self.time_unit, self.time.dtype)[0]

    def _in_zone(self, name: str, cut: dt.datetime) -> dt.datetime:
        """Return a time without its zone, as UTC, if the times of the graph are of a zone too."""
        if (cut.tzinfo is None) != (self.time_zone is None):
            cut_zone, graph_zone = ("no", "one") if cut.tzinfo is None else ("a", "none")
            raise InvalidArgumentError(
                f"{name} = {shown(cut)} has {cut_zone} time zone, but the times of the graph have "
                f"{graph_zone}: give it {'with' if graph_zone == 'one' else 'without'} one"
            )
        if cut.tzinfo is None:
            return cut
        return cut.astimezone(dt.timezone.utc).replace(tzinfo=None)

    def gather_labels(self, ids: Any) -> NDArray[Any]:
        """Return the labels of the seeds of a batch.

        Args:
            ids: positions in this task, ``input_id`` of a batch.

        Raises:
            InvalidArgumentError: the task has no labels.
            OutOfRangeError: a position is out of range.
        """
        if self.labels is None:
            raise InvalidArgumentError("the task has no labels: give target_col")
        labels = self.take(as_ids(ids, "ids")).labels
        assert labels is not None
        return labels

    def __repr__(self) -> str:
        values = {"time": self.time, "labels": self.labels}
        has = "".join(f", {name}" for name, value in values.items() if value is not None)
        seeds = self._kind if self._seed_type is None else repr(self._seed_type)
        return f"{type(self).__name__}({seeds}, {len(self):,} seeds{has})"

    def attach_labels(self, batch: Any) -> Any:
        """Set ``y`` of a PyG batch to the labels of its seeds, and return it; a loader's transform.

        What the graph itself calls ``y`` is replaced.

        Raises:
            InvalidArgumentError: the task has no labels, or the batch no ``input_id``.
        """
        store = batch if self._seed_type is None else batch[self._seed_type]
        store.y = torch_tensor(self.gather_labels(_field_of(store, "input_id")))
        return batch

    @property
    def _seed_type(self) -> Any:
        """Node type or edge type of the seeds; None of a graph of one type."""
        raise NotImplementedError


def torch_tensor(array: NDArray[Any]) -> Any:
    """Return a tensor over an array.

    Raises:
        UnsupportedError: torch is not installed.
    """
    try:
        torch = import_module("torch")  # by name: mypyc would follow an import through all of it
    except ImportError as error:
        raise UnsupportedError(f"seeds as tensors need torch: {error}") from None
    return torch.from_numpy(np.ascontiguousarray(array))


def _field_of(batch: Any, name: str) -> Any:
    """Return a field of a batch; raise InvalidArgumentError where it has none."""
    value = getattr(batch, name, None)
    if value is None:
        raise InvalidArgumentError(
            f"the batch has no {name}: it is not of a loader around these seeds"
        )
    return value
