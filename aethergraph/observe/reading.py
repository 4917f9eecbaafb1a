"""Reading of statistics: what an object counts, as samples of the table of metrics.

    object --stats()--> RowStats, LiveStats, ... --the table--> [Sample, ...]

Counts are read when they are asked for. Nothing is counted here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from aethergraph.errors import AetherError, InvalidArgumentError
from aethergraph.observe.metrics import STATES, Metric, by_source

__all__ = ["Sample", "check_counts", "read_counts", "samples_of", "wait_seconds"]

#: Bytes up to which the first class of read sizes goes; each further class goes twice as far.
_FIRST_SIZE = 4096


class Sample(NamedTuple):
    """Value of a metric.

    Attributes:
        name: name of the metric.
        labels: values of its labels, by name.
        value: the value, in the metric's unit.
    """

    name: str
    labels: dict[str, str]
    value: float


def check_counts(subject: object) -> None:
    """Check that ``subject`` has statistics that the table knows.

    Raises:
        InvalidArgumentError: it has not; says what is needed.
    """
    try:
        statistics = list(_statistics(subject, set()))
    except AetherError as error:
        raise InvalidArgumentError(f"{type(subject).__name__} counts nothing: {error}") from None
    if not any(by_source(source) for source, _ in statistics):
        raise InvalidArgumentError(
            f"{type(subject).__name__} counts nothing that is known: give a FeatureTable or a "
            "graph with storage='uring', CachedRows, PackedFeatures, a live graph or an Ingestor"
        )


def read_counts(subject: object, name: str, seen: set[int]) -> list[Sample]:
    """Return what ``subject`` has counted, under the label ``name``.

    A subject that was closed has nothing.

    Args:
        subject: an object with statistics, or that has others with some.
        name: value of the label.
        seen: ``id()`` of the objects that were read before, which are left out and added to.
    """
    try:
        statistics = list(_statistics(subject, seen))
    except AetherError:
        return []
    return [sample for source, stats in statistics for sample in samples_of(source, stats, name)]


def _statistics(subject: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield the statistics of an object and of its parts, each after its name in the table."""
    if id(subject) in seen:
        return
    seen.add(id(subject))
    stats = getattr(subject, "stats", None)
    if callable(stats):
        counts = stats()
        yield ("paging" if isinstance(counts, Mapping) else type(counts).__name__), counts
        reader = getattr(subject, "reader", None)
        if reader is not None:
            yield from _statistics(reader, seen)
    paging = getattr(subject, "paging", None)  # of a graph, or of the base of a live one
    if paging is not None:
        yield from _statistics(paging, seen)


def samples_of(source: str, stats: Any, name: str) -> Iterator[Sample]:
    """Yield the samples of statistics; ``source`` is what the table calls their class."""

    def get(field: str) -> Any:
        return _field(stats, field)

    for metric in by_source(source):
        for labels, value in _values(metric, get):
            if value is not None:
                yield Sample(metric.name, {"name": name, **labels}, value * metric.scale)


def _field(stats: Any, field: str) -> Any:
    return stats.get(field) if isinstance(stats, Mapping) else getattr(stats, field, None)


def _values(metric: Metric, get: Any) -> Iterator[tuple[dict[str, str], Any]]:
    """Yield the values of a metric, with their labels beside the name."""
    field = metric.field
    if field == "info":
        yield {key: _label(get(key)) for key in metric.labels}, 1
    elif field == "state":
        now = get(field)
        yield from (({"state": state}, int(state == now)) for state in STATES)
    elif field == "lag":
        yield from (({"partition": str(number)}, left) for number, left in get(field).items())
    elif field.startswith("sizes."):
        for number, pair in enumerate(get("sizes")):
            yield {"size": str(_FIRST_SIZE << number)}, pair[int(field[-1])]
    else:
        yield {}, get(field)


def _label(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def wait_seconds(subject: Any) -> float | None:
    """Return the time that threads have waited for reads of ``subject``; None: it counts none."""
    stats = getattr(subject, "stats", None)
    if not callable(stats):
        return None
    try:
        counts = stats()
    except AetherError:  # only what reads for itself counts
        return None
    seconds = _field(counts, "wait_seconds")
    return None if seconds is None else float(seconds)
