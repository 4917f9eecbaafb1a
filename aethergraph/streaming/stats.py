"""Numbers of an ingestor."""

from __future__ import annotations

from dataclasses import dataclass, field

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
        lag: what was not read yet, by partition, for sources that tell.
        lag_unit: what that counts: ``"records"``, of files ``"bytes"`` or ``"files"``; None: the
            source does not tell.
        watermark: time that no record is expected to be older than.
        largest: largest time of a record.
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
