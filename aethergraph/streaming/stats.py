"""Numbers of an ingestor."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from aethergraph._checks.times import datetime_of

__all__ = ["IngestStats"]


@dataclass
class IngestStats:
    """Numbers of an :class:`Ingestor` since it began.

    Attributes:
        state: ``"new"``, ``"running"``, ``"stalled"`` (the other end cannot be reached), ``"full"``
            (waits for memory in the graph), ``"ended"``, ``"stopped"`` or ``"failed"``.
        reason: why it is stalled, full or failed; or what a commit waits for: partitions of a cut,
            room among those that are kept, the first record that fits.
        records: records that were read.
        edges: edges that were inserted.
        deleted: edges that were deleted.
        rows: rows of nodes that were changed.
        nodes: nodes that were added.
        bad: records that went to the dead letter file because they could not be read.
        late: records that were older than the watermark.
        commits: commits.
        commit_seconds: seconds that commits took.
        lag: what was not read yet, by partition, for sources that tell; those that have nothing
            left may be missing. ``source.describe(partition)`` says which file one is.
        lag_unit: what that counts: ``"records"``, of files ``"bytes"`` or ``"files"``; None: the
            source does not tell.
        watermark: time that no record is expected to be older than, as a number.
        largest: largest time of a record, as a number.
        time_unit: unit of both since 1970, such as ``"us"``; None: they are plain numbers.
    """

    state: str = "new"
    reason: str | None = None
    records: int = 0
    edges: int = 0
    deleted: int = 0
    rows: int = 0
    nodes: int = 0
    bad: int = 0
    late: int = 0
    commits: int = 0
    commit_seconds: float = 0.0
    lag: dict[int, int] = field(default_factory=dict)
    lag_unit: str | None = None
    watermark: int | None = None
    largest: int | None = None
    time_unit: str | None = None

    @property
    def total_lag(self) -> int | None:
        """Sum of ``lag``, in ``lag_unit``; None: the source does not tell."""
        return None if self.lag_unit is None else sum(self.lag.values())

    @property
    def watermark_time(self) -> np.datetime64 | int | None:
        """Watermark as a datetime, where times are such; else the number."""
        return self._time(self.watermark)

    @property
    def largest_time(self) -> np.datetime64 | int | None:
        """Largest time as a datetime, where times are such; else the number."""
        return self._time(self.largest)

    def _time(self, number: int | None) -> np.datetime64 | int | None:
        if number is None or self.time_unit is None:
            return number
        return datetime_of(number, self.time_unit)
