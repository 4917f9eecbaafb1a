"""The table of metrics is whole, and says what its names say; samples are the statistics."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aethergraph import _native as native
from aethergraph import observe
from aethergraph.features.cached import CacheStats
from aethergraph.observe.metrics import LEFT_OUT, METRICS, STATES, by_source
from aethergraph.observe.reading import samples_of
from aethergraph.packing.store import PackedStats
from aethergraph.remote.rows import RemoteStats
from aethergraph.remote.server import ServerStats
from aethergraph.streaming.stats import IngestStats

CLASSES = {
    kind.__name__: kind
    for kind in (
        native.IoStats, native.RowStats, native.PlanStats, native.LiveStats, CacheStats,
        PackedStats, IngestStats, RemoteStats, ServerStats,
    )
}  # fmt: skip


def fields_of(kind: Any) -> set[str]:
    if dataclasses.is_dataclass(kind):
        return {field.name for field in dataclasses.fields(kind)}
    return set(kind._fields)


def listed(source: str) -> set[str]:
    fields = {metric.field.split(".")[0] for metric in by_source(source)} - {"info"}
    return fields | LEFT_OUT.get(source, frozenset())


@pytest.mark.parametrize("source", CLASSES)
def test_every_number_has_a_metric(source: str) -> None:
    assert listed(source) == fields_of(CLASSES[source])


def test_every_number_of_paging_has_a_metric(paged: Any) -> None:
    assert listed("paging") == set(paged.paging.stats())


def test_every_metric_is_of_known_statistics() -> None:
    assert {metric.source for metric in METRICS} == {*CLASSES, "paging", "stages"}


def test_names_are_those_of_prometheus() -> None:
    assert max(Counter(metric.name for metric in METRICS).values()) == 1
    for metric in METRICS:
        assert re.fullmatch(r"aethergraph_[a-z]+(_[a-z]+)+", metric.name), metric.name
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        for unit in ("seconds", "bytes"):
            stem = metric.name.removesuffix("_total")
            assert stem.endswith(f"_{unit}") == (metric.unit == unit), metric.name
        assert re.fullmatch(r"[A-Z].*\.|1 for .*\.", metric.help), metric.help
        assert "name" not in metric.labels


numbers = st.integers(0, 2**63)
texts = st.sampled_from(["uring", "pread"])


@st.composite
def statistics(draw: st.DrawFn) -> tuple[str, Any]:
    source = draw(st.sampled_from(sorted(CLASSES)))
    special = {
        "tier": texts, "direct": st.booleans(), "state": st.sampled_from(STATES),
        "reason": st.none() | st.text(), "lag": st.dictionaries(st.integers(0, 99), numbers),
        "oldest_pid": st.none() | numbers, "watermark": st.none() | st.integers(-(2**62), 2**62),
        "lag_unit": st.sampled_from([None, "records", "bytes"]),
        "time_unit": st.sampled_from([None, "m", "M"]),  # minutes and months
        "sizes": st.just(tuple((n, n * 4096) for n in range(9))),
    }  # fmt: skip
    kind = CLASSES[source]
    return source, kind(**{name: draw(special.get(name, numbers)) for name in fields_of(kind)})


@given(statistics())
def test_samples_are_the_statistics(case: tuple[str, Any]) -> None:
    source, stats = case
    samples = list(samples_of(source, stats, "thing"))
    found = {(s.name, tuple(s.labels.items())[1:]): s.value for s in samples}
    assert len(found) == len(samples) and all(s.labels["name"] == "thing" for s in samples)
    expected: dict[Any, float] = {}
    for metric in by_source(source):
        if metric.field == "info" and source == "IngestStats":
            units = ("time_unit", stats.time_unit or ""), ("lag_unit", stats.lag_unit or "")
            expected[metric.name, units] = 1
        elif metric.field == "info":
            labels = (("tier", stats.tier), ("direct", "true" if stats.direct else "false"))
            expected[metric.name, labels] = 1
        elif metric.field == "state":
            for state in STATES:
                expected[metric.name, (("state", state),)] = float(state == stats.state)
        elif metric.field == "lag":
            for partition, left in stats.lag.items():
                expected[metric.name, (("partition", str(partition)),)] = left
        elif metric.field.startswith("sizes"):
            for number in range(9):
                size = (("size", str(4096 * 2**number)),)
                expected[metric.name, size] = stats.sizes[number][int(metric.field[-1])]
        elif (value := getattr(stats, metric.field)) is not None:
            nanoseconds = metric.field == "wait_ns"
            expected[metric.name, ()] = value / 1e9 if nanoseconds else value
    assert found.keys() == expected.keys()
    assert all(found[key] == pytest.approx(expected[key]) for key in found)


def test_samples_of_what_is_read(paged: Any) -> None:
    observe.watch(paged, "lists")
    observe.watch(paged.features, "x")
    paged.features.gather(np.arange(100))
    paged.features.gather(np.arange(50))
    metrics = observe.snapshot()["metrics"]
    rows, reads = paged.features.stats(), paged.paging.reader.stats()

    def value(name: str, of: str) -> float:
        (found,) = [s["value"] for s in metrics[name]["samples"] if s["labels"]["name"] == of]
        return found

    assert value("aethergraph_rows_requested_total", "x") == rows.rows == 150
    assert value("aethergraph_rows_hits_total", "x") == rows.hits > 0
    assert value("aethergraph_rows_budget_bytes", "x") == rows.budget == 1 << 20
    assert value("aethergraph_io_reads_total", "lists") == reads.reads > 0
    assert value("aethergraph_paging_budget_bytes", "lists") == 64 << 20
    assert metrics["aethergraph_rows_wait_seconds_total"]["unit"] == "seconds"
    (info,) = metrics["aethergraph_rows_info"]["samples"]
    assert info["labels"]["tier"] == rows.tier and info["value"] == 1


def test_a_plan_and_packed_batches(files: Path) -> None:
    from aethergraph import FeatureTable, packing

    store = FeatureTable.load(files / "x.npy", storage="uring", memory_budget="1M")
    lists = [np.arange(20), np.arange(10, 40)]
    with store.plan(lists) as plan:
        observe.watch(plan, "plan")
        metrics = observe.snapshot()["metrics"]
        assert metrics["aethergraph_plan_rows"]["samples"][0]["value"] == 50
    packing.pack(lists, store, files / "packed.bin")
    packed = packing.PackedFeatures.load(files / "packed.bin")
    observe.watch(packed, "packed")
    packed.batch(0)
    metrics = observe.snapshot()["metrics"]
    assert metrics["aethergraph_packed_batches_total"]["samples"][0]["value"] == 1
    assert metrics["aethergraph_packed_rows_total"]["samples"][0]["value"] == 20
