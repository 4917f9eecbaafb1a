"""Tables of ``aethergraph top``: what happened between two snapshots of a process.

Rates are differences of counters over the time between the snapshots; without an earlier one they
are not known, which is shown as a dash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from aethergraph._checks.times import datetime_of, is_unit
from aethergraph.cli.terminal import amount, count, duration, size

__all__ = ["Section", "sections"]

_UNKNOWN = "-"


class Section(NamedTuple):
    """Table: its title, the heads of its columns, and rows of texts."""

    title: str
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


class _Between:
    """Values of a snapshot, and their rates since the one before."""

    def __init__(self, now: dict[str, Any], before: dict[str, Any] | None) -> None:
        self._now, self._before = _by_labels(now), _by_labels(before)
        self.seconds = 0.0 if before is None else float(now["time"]) - float(before["time"])

    def names(self, metric: str) -> list[tuple[tuple[str, str], ...]]:
        """Return the labels of a metric's samples."""
        return list(self._now.get(metric, {}))

    def value(self, metric: str, labels: Any) -> float | None:
        """Return a value; None if there is none."""
        return self._now.get(metric, {}).get(labels)

    def grown(self, metric: str, labels: Any) -> float | None:
        """Return by how much a counter has grown; None if that is not known."""
        now = self.value(metric, labels)
        before = self._before.get(metric, {}).get(labels)
        if now is None or before is None or self.seconds <= 0 or now < before:
            return None
        return now - before

    def rate(self, metric: str, labels: Any) -> float | None:
        """Return how much a counter grows in a second."""
        grown = self.grown(metric, labels)
        return None if grown is None else grown / self.seconds

    def share(self, part: str, total: str, labels: Any) -> float | None:
        """Return the share of one counter in another, since the snapshot before or else ever."""
        parts, all_of = self.grown(part, labels), self.grown(total, labels)
        if not all_of or parts is None:
            parts, all_of = self.value(part, labels), self.value(total, labels)
        return None if not all_of or parts is None else parts / all_of


def _by_labels(snapshot: dict[str, Any] | None) -> dict[str, dict[Any, float]]:
    if snapshot is None:
        return {}
    return {
        name: {
            tuple(sorted(sample["labels"].items())): sample["value"] for sample in metric["samples"]
        }
        for name, metric in snapshot["metrics"].items()
    }


def sections(now: dict[str, Any], before: dict[str, Any] | None = None) -> list[Section]:
    """Return the tables of a process; those that would be empty are left out.

    Args:
        now: its snapshot.
        before: an earlier one of the same process.
    """
    between = _Between(now, before)
    tables = [
        _ingest(between), _live(between), _servers(between), _stages(between), _remote(between),
        _lists(between), _rows(between, "rows"), _rows(between, "cache"), _packed(between),
    ]  # fmt: skip
    return [section for section in tables if section.rows]


def _stages(all_of: _Between) -> Section:
    rows = []
    calls, seconds = "aethergraph_stage_calls_total", "aethergraph_stage_seconds_total"
    for labels in all_of.names(calls):
        fields = dict(labels)
        each = all_of.share(seconds, calls, labels)
        rows.append((
            f"{fields['stage']} {fields['of']}".strip(), _rate(all_of.rate(calls, labels)),
            _UNKNOWN if each is None else f"{1e3 * each:.2f} ms",
            _share(all_of.rate(seconds, labels)),
        ))  # fmt: skip
    return Section("stages", ("stage", "per second", "each", "of a thread"), rows)


def _ingest(all_of: _Between) -> Section:
    part, rows = "aethergraph_ingest", []
    for labels in all_of.names(f"{part}_records_total"):
        name, watermark = dict(labels)["name"], all_of.value(f"{part}_watermark", labels)
        states = [dict(key) for key in all_of.names(f"{part}_state")]
        state = [
            fields["state"] for fields in states
            if fields["name"] == name
            and all_of.value(f"{part}_state", tuple(sorted(fields.items()))) == 1
        ]  # fmt: skip
        lag = sum(
            all_of.value(f"{part}_lag_records", key) or 0
            for key in all_of.names(f"{part}_lag_records") if dict(key)["name"] == name
        )  # fmt: skip
        info = [dict(key) for key in all_of.names(f"{part}_info")]
        units = next((stream for stream in info if stream["name"] == name), {})
        rows.append((
            name, "".join(state), _rate(all_of.rate(f"{part}_records_total", labels)),
            _rate(all_of.rate(f"{part}_edges_inserted_total", labels)),
            amount(lag, units["lag_unit"]) if units.get("lag_unit") else _UNKNOWN,
            _count(all_of.value(f"{part}_bad_records_total", labels)),
            _count(all_of.value(f"{part}_late_records_total", labels)),
            _UNKNOWN if watermark is None else _time(watermark, units.get("time_unit", "")),
        ))  # fmt: skip
    heads = ("ingestor", "state", "records/s", "edges/s", "lag", "bad", "late", "watermark")
    return Section("streams", heads, rows)


def _live(all_of: _Between) -> Section:
    part, rows = "aethergraph_live", []
    for labels in all_of.names(f"{part}_commits_total"):
        age = all_of.value(f"{part}_oldest_snapshot_age_seconds", labels)
        gone = all_of.value(f"{part}_is_current", labels) == 0
        rows.append((
            dict(labels)["name"] + ", its writer is gone" * gone,
            _rate(all_of.rate(f"{part}_commits_total", labels)),
            _count(all_of.value(f"{part}_edges", labels)),
            _budget(all_of, f"{part}_used_bytes", f"{part}_arena_bytes", labels),
            _count(all_of.value(f"{part}_snapshots", labels)),
            duration(age) if age else _UNKNOWN,
        ))  # fmt: skip
    heads = ("live graph", "commits/s", "edges", "memory", "snapshots", "oldest")
    return Section("live graphs", heads, rows)


def _servers(all_of: _Between) -> Section:
    part = "aethergraph_server"
    rows = [
        (
            dict(labels)["name"], _count(all_of.value(f"{part}_connections", labels)),
            _count(all_of.value(f"{part}_requests_total", labels)),
            _rate(all_of.rate(f"{part}_requests_total", labels)),
            _rate(all_of.rate(f"{part}_samples_total", labels)),
            _rate(all_of.rate(f"{part}_rows_total", labels)),
            _size(all_of.rate(f"{part}_sent_bytes_total", labels)),
            _count(all_of.value(f"{part}_refused_total", labels)),
        )
        for labels in all_of.names(f"{part}_requests_total")
    ]  # fmt: skip
    heads = (
        "server", "connections", "requests", "requests/s", "samples/s", "rows/s", "sent/s",
        "refused",
    )  # fmt: skip
    return Section("servers", heads, rows)


def _remote(all_of: _Between) -> Section:
    part = "aethergraph_remote"
    rows = [
        (
            dict(labels)["name"], _rate(all_of.rate(f"{part}_gathers_total", labels)),
            _rate(all_of.rate(f"{part}_rows_total", labels)),
            _count(all_of.value(f"{part}_connections_total", labels)),
            _count(all_of.value(f"{part}_retries_total", labels)),
        )
        for labels in all_of.names(f"{part}_gathers_total")
    ]  # fmt: skip
    return Section(
        "rows of servers", ("rows", "gathers/s", "rows/s", "connections", "retries"), rows
    )


def _lists(all_of: _Between) -> Section:
    part, rows = "aethergraph_paging", []
    for labels in all_of.names(f"{part}_budget_bytes"):
        rows.append((
            dict(labels)["name"], _rate(all_of.rate("aethergraph_io_reads_total", labels)),
            _size(all_of.rate("aethergraph_io_read_bytes_total", labels)),
            _share(all_of.rate("aethergraph_io_wait_seconds_total", labels)),
            _budget(all_of, f"{part}_kept_bytes", f"{part}_budget_bytes", labels),
        ))  # fmt: skip
    return Section("lists on disk", ("graph", "reads/s", "read/s", "waits", "pages kept"), rows)


def _rows(all_of: _Between, kind: str) -> Section:
    part, rows = f"aethergraph_{kind}", []
    for labels in all_of.names(f"{part}_requested_total"):
        memory = (
            _budget(all_of, f"{part}_used_bytes", f"{part}_budget_bytes", labels)
            if kind == "rows" else _size(all_of.value(f"{part}_memory_bytes", labels))
        )  # fmt: skip
        rows.append((
            dict(labels)["name"], _rate(all_of.rate(f"{part}_requested_total", labels)),
            _share(all_of.share(f"{part}_hits_total", f"{part}_requested_total", labels)),
            _size(all_of.rate(f"{part}_device_bytes_total", labels)),
            _share(all_of.rate(f"{part}_wait_seconds_total", labels)), memory,
        ))  # fmt: skip
    title = "rows on disk" if kind == "rows" else "caches of sources"
    return Section(title, ("rows", "rows/s", "hits", "read/s", "waits", "memory"), rows)


def _packed(all_of: _Between) -> Section:
    part = "aethergraph_packed"
    rows = [
        (
            dict(labels)["name"], _rate(all_of.rate(f"{part}_batches_total", labels)),
            _rate(all_of.rate(f"{part}_rows_total", labels)),
            _size(all_of.rate(f"{part}_device_bytes_total", labels)),
            _size(all_of.value(f"{part}_used_bytes", labels)),
        )
        for labels in all_of.names(f"{part}_batches_total")
    ]  # fmt: skip
    return Section("packed batches", ("rows", "batches/s", "rows/s", "read/s", "memory"), rows)


# ---- texts ---------------------------------------------------------------------------------------


def _rate(value: float | None) -> str:
    if value is None:
        return _UNKNOWN
    return f"{value:.1f}" if 0 < value < 100 else count(value)


def _count(value: float | None) -> str:
    return _UNKNOWN if value is None else count(value)


def _time(value: float, unit: str) -> str:
    """Return a count of a unit since 1970 as a date; the number, where it is none."""
    try:
        if is_unit(unit):
            return str(datetime_of(int(value), unit))
    except (OverflowError, ValueError):  # no time of a graph: a page of somebody else's may say so
        pass
    return f"{value:.0f}"


def _share(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.0%}"


def _size(value: float | None) -> str:
    return _UNKNOWN if value is None else size(value)


def _budget(all_of: _Between, used: str, limit: str, labels: Any) -> str:
    return f"{_size(all_of.value(used, labels))} of {_size(all_of.value(limit, labels))}"
