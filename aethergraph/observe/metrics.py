"""Table of metrics: every count of this package, under one name, with one unit.

Names are those of Prometheus: ``aethergraph_<part>_<what>_<unit>``, ``_total`` for counters,
seconds and bytes as units (https://prometheus.io/docs/practices/naming/). A row says which
statistics have the number and how it is called there; ``scale`` makes the unit. Every sample has a
label ``name``, the object that it is of.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["LEFT_OUT", "METRICS", "Metric", "STATES", "by_source"]

#: States of an ingestor.
STATES = ("new", "running", "stalled", "full", "ended", "stopped", "failed")


class Metric(NamedTuple):
    """Metric of the package.

    Attributes:
        name: full name, as exported.
        kind: ``"counter"``: it only grows while its object lives; ``"gauge"``: it goes up and down.
        unit: ``"seconds"``, ``"bytes"``, or the things that are counted.
        help: what it counts.
        labels: names of the labels beside ``name``.
        source: class of the statistics that have it, ``"paging"`` or ``"stages"``.
        field: its name there.
        scale: what the number there is multiplied by.
    """

    name: str
    kind: Literal["counter", "gauge"]
    unit: str
    help: str
    source: str
    field: str
    labels: tuple[str, ...] = ()
    scale: float = 1


def _part(
    part: str, source: str, *rows: tuple[str, str, str, str] | tuple[str, str, str, str, float]
) -> list[Metric]:
    """Make the metrics of a part: (field, what of the name, unit, help[, scale])."""
    metrics = []
    for field, suffix, unit, text, *scale in rows:
        kind: Literal["counter", "gauge"] = "counter" if suffix.endswith("_total") else "gauge"
        name = f"aethergraph_{part}_{suffix}"
        metrics.append(Metric(name, kind, unit, text, source, field, _LABELS.get(name, ()), *scale))
    return metrics


_LABELS = {
    "aethergraph_io_size_reads_total": ("size",),
    "aethergraph_io_size_bytes_total": ("size",),
    "aethergraph_rows_info": ("tier", "direct"),
    "aethergraph_packed_info": ("tier", "direct"),
    "aethergraph_paging_info": ("tier", "direct"),
    "aethergraph_ingest_info": ("time_unit", "lag_unit"),
    "aethergraph_ingest_state": ("state",),
    "aethergraph_ingest_lag_records": ("partition",),
    "aethergraph_stage_calls_total": ("stage", "of"),
    "aethergraph_stage_seconds_total": ("stage", "of"),
}

METRICS: tuple[Metric, ...] = (
    *_part(
        "stage", "stages",
        ("calls", "calls_total", "calls", "Stages of work that ended."),
        ("seconds", "seconds_total", "seconds", "Time in a stage, that of stages in it included."),
    ),
    *_part(
        "io", "IoStats",
        ("requests", "requests_total", "ranges", "Ranges that callers asked for."),
        ("reads", "reads_total", "reads", "Reads from the operating system."),
        ("bytes", "read_bytes_total", "bytes", "Bytes of these reads."),
        ("copied", "copied_reads_total", "reads", "Reads that went through a buffer."),
        ("repeated", "repeated_reads_total", "reads", "Reads that came short or were put off."),
        ("max_in_flight", "max_in_flight", "reads", "Most concurrent reads of one thread."),
        ("wait_ns", "wait_seconds_total", "seconds", "Time of threads in the system.", 1e-9),
        ("sizes.0", "size_reads_total", "reads", "Reads of up to so many bytes."),
        ("sizes.1", "size_bytes_total", "bytes", "Bytes of these reads."),
    ),
    *_part(
        "paging", "paging",
        ("budget", "budget_bytes", "bytes", "Memory budget for lists and sampling."),
        ("index_bytes", "index_bytes", "bytes", "Index of the lists in memory."),
        ("kept_bytes", "kept_bytes", "bytes", "Pages of lists that are kept."),
        ("value_bytes", "value_bytes", "bytes", "Columns of values in memory."),
        ("info", "info", "1", "How lists are read; always 1."),
    ),
    *_part(
        "rows", "RowStats",
        ("rows", "requested_total", "rows", "Rows asked for."),
        ("hits", "hits_total", "rows", "Rows found in the cache."),
        ("reads", "ranges_total", "ranges", "Ranges read for the other rows."),
        ("direct_rows", "direct_total", "rows", "Rows read straight into the result."),
        ("device_reads", "device_reads_total", "reads", "Reads from the operating system."),
        ("device_bytes", "device_bytes_total", "bytes", "Bytes of these reads."),
        ("wanted_bytes", "wanted_bytes_total", "bytes", "Bytes of rows that were not cached."),
        ("wait_seconds", "wait_seconds_total", "seconds", "Time that threads waited for reads."),
        ("frames", "frames", "frames", "Frames that the cache has room for."),
        ("frames_held", "frames_held", "frames", "Frames in use."),
        ("hot_frames", "hot_frames", "frames", "Frames of the hot set."),
        ("inserted", "frames_inserted_total", "frames", "Frames that entered the cache."),
        ("evicted", "frames_evicted_total", "frames", "Frames that left the cache."),
        ("frame_rows", "frame_rows", "rows", "Rows in a frame."),
        ("budget", "budget_bytes", "bytes", "Memory budget."),
        ("used", "used_bytes", "bytes", "Most that is taken of the budget."),
        ("info", "info", "1", "How rows are read; always 1."),
    ),
    *_part(
        "cache", "CacheStats",
        ("rows", "requested_total", "rows", "Rows asked for."),
        ("hits", "hits_total", "rows", "Rows found in the cache."),
        ("gathers", "source_gathers_total", "calls", "Calls of the source's gather."),
        ("rows_read", "source_rows_total", "rows", "Rows that these calls asked for."),
        ("rows_held", "held_rows", "rows", "Rows in the cache."),
        ("nbytes", "memory_bytes", "bytes", "Memory of the cache."),
    ),
    *_part(
        "packed", "PackedStats",
        ("batches", "batches_total", "batches", "Packed batches gathered."),
        ("rows", "rows_total", "rows", "Rows of these batches."),
        ("others", "other_gathers_total", "calls", "Gathers of other ids."),
        ("device_reads", "device_reads_total", "reads", "Reads from the operating system."),
        ("device_bytes", "device_bytes_total", "bytes", "Bytes of these reads."),
        ("num_hot", "hot_rows", "rows", "Rows in memory."),
        ("used", "used_bytes", "bytes", "Memory for hot rows, a batch and the index."),
        ("info", "info", "1", "How batches are read; always 1."),
    ),
    *_part(
        "plan", "PlanStats",
        ("rows", "rows", "rows", "Rows of a plan."),
        ("hits", "hits", "rows", "Rows of a plan that are found in the cache."),
        ("frames_read", "read_frames", "frames", "Frames that a plan reads."),
        ("frames_lent", "lent_frames", "frames", "Frames that a plan has of the cache."),
        ("bytes", "memory_bytes", "bytes", "Memory of a plan."),
    ),
    *_part(
        "live", "LiveStats",
        ("commit", "commits_total", "commits", "Commits since the graph was made or opened."),
        ("num_edges", "edges", "edges", "Edges as of the last commit."),
        ("touched_nodes", "touched_nodes", "nodes", "Nodes whose lists are in the arena."),
        ("arena_bytes", "arena_bytes", "bytes", "Memory for edges."),
        ("used_bytes", "used_bytes", "bytes", "Memory for edges that is in use."),
        ("retired_bytes", "retired_bytes", "bytes", "Versions that snapshots may need."),
        ("snapshots", "snapshots", "snapshots", "Snapshots that are held."),
        ("oldest_commit", "oldest_commit", "1", "Oldest commit that a snapshot holds."),
        ("oldest_age", "oldest_snapshot_age_seconds", "seconds", "Age of the oldest snapshot."),
        ("oldest_pid", "oldest_snapshot_pid", "1", "Process that holds the oldest snapshot."),
        ("is_current", "is_current", "1", "1 for a graph that has a writer; a reader may not."),
    ),
    *_part(
        "server", "ServerStats",
        ("connections", "connections", "connections", "Connections of clients that are open."),
        ("accepted", "accepted_total", "connections", "Connections accepted."),
        ("refused", "refused_total", "connections", "Connections refused, or ended for an error."),
        ("requests", "requests_total", "requests", "Gathers and samples answered."),
        ("rows", "rows_total", "rows", "Rows of these."),
        ("row_bytes", "sent_bytes_total", "bytes", "Bytes of these rows."),
        ("samples", "samples_total", "samples", "Samples answered."),
        ("leases", "leases", "leases", "Commits of live graphs held for clients."),
    ),
    *_part(
        "remote", "RemoteStats",
        ("gathers", "gathers_total", "calls", "Gathers of rows from servers."),
        ("rows", "rows_total", "rows", "Rows of these gathers."),
        ("connections", "connections_total", "connections", "Connections made to servers."),
        ("retries", "retries_total", "retries", "Gathers put off for want of a connection."),
    ),
    *_part(
        "ingest", "IngestStats",
        ("state", "state", "1", "1 for the state that an ingestor is in, 0 for others."),
        ("records", "records_total", "records", "Records read."),
        ("edges", "edges_inserted_total", "edges", "Edges inserted."),
        ("deleted", "edges_deleted_total", "edges", "Edges deleted."),
        ("rows", "rows_changed_total", "rows", "Rows of nodes changed."),
        ("nodes", "nodes_added_total", "nodes", "Nodes added."),
        ("bad", "bad_records_total", "records", "Records that cannot be read or do not fit."),
        ("late", "late_records_total", "records", "Records older than the watermark."),
        ("commits", "commits_total", "commits", "Commits."),
        ("commit_seconds", "commit_seconds_total", "seconds", "Time that commits took."),
        ("lag", "lag_records", "records", "Records (or lag_unit) of a partition still to read."),
        ("watermark", "watermark", "time", "Watermark, in time_unit since 1970."),
        ("largest", "largest_time", "time", "Largest time of a record, in time_unit since 1970."),
        ("info", "info", "1", "Units of time and lag; always 1."),
    ),
)  # fmt: skip
"""All metrics of the package, by part."""
"""All metrics, in the order in which they are exported."""

#: Fields of statistics that are no metrics of their own: texts (``reason``), labels of ``info``,
#: and what the reader's ``IoStats`` say already.
LEFT_OUT: dict[str, frozenset[str]] = {
    "RowStats": frozenset(("tier", "direct")),
    "PackedStats": frozenset(("tier", "direct")),
    "IngestStats": frozenset(("reason", "lag_unit", "time_unit")),
    "paging": frozenset(
        ("tier", "direct", "reads", "read_bytes", "read_sizes", "wait_seconds")
    ),
}  # fmt: skip


def by_source(source: str) -> tuple[Metric, ...]:
    """Return the metrics that statistics of a class have; none for those that are not known."""
    return _BY_SOURCE.get(source, ())


_BY_SOURCE = {
    source: tuple(metric for metric in METRICS if metric.source == source)
    for source in {metric.source for metric in METRICS}
}
