"""Spans, as OpenTelemetry's own SDK gets them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from aethergraph import DynamicGraph, Graph, SubgraphLoader, observe
from aethergraph.errors import InvalidArgumentError, OutOfRangeError

pytest.importorskip("opentelemetry.sdk.trace", reason="pip install opentelemetry-sdk")


@contextmanager
def exporting() -> Iterator[Any]:
    """Let spans go to an exporter that keeps them; the observer ends with the block."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    found, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(found))
    with observe.opentelemetry(provider):
        found.provider = provider
        yield found


@pytest.fixture
def exporter() -> Iterator[Any]:
    with exporting() as found:
        yield found
        found.provider.shutdown()


def tree(exporter: Any) -> list[tuple[str, str | None, str]]:
    """(name, name of the parent, what it is of) of each span, in the order of their beginnings."""
    spans = sorted(exporter.get_finished_spans(), key=lambda span: span.start_time)
    names = {span.context.span_id: span.name.removeprefix("aethergraph.") for span in spans}
    return [
        (
            names[span.context.span_id],
            None if span.parent is None else names[span.parent.span_id],
            (span.attributes or {}).get("aethergraph.of", ""),
        )
        for span in spans
    ]  # fmt: skip


def test_batches(exporter: Any, files: Path) -> None:
    graph = Graph.load(files / "graph.aeg")
    graph.load_features(files / "x.npy")
    next(iter(SubgraphLoader(graph, [3, 2], [1, 2], ahead=0)))
    assert tree(exporter) == [
        ("batch", None, ""),
        ("sample", "batch", ""),
        ("draw", "sample", ""),
        ("gather", "batch", "x"),
    ]


def test_batches_of_threads_that_work_ahead(exporter: Any, paged: Any) -> None:
    assert len(list(SubgraphLoader(paged, [3, 2], batch_size=100))) == 5
    spans = tree(exporter)
    assert spans.count(("gather", "batch", "x")) == 5
    assert ("draw", "sample", "") in spans and ("sample", None, "") in spans


def test_commits_and_merges(exporter: Any, tmp_path: Path) -> None:
    with DynamicGraph.open(tmp_path / "g.aegd", 10) as graph:
        exporter.clear()
        graph.insert_edges([0, 1], [1, 2])  # one call of the core
        assert tree(exporter) == [("commit", None, "")]
        exporter.clear()
        with graph.transaction():
            graph.insert_edges([2], [3])
            graph.insert_edges([3], [4])
        assert tree(exporter) == [("transaction", None, ""), ("commit", "transaction", "")]
        exporter.clear()
        graph.merge()
        assert ("merge", None, "") in tree(exporter)
        exporter.clear()
        with pytest.raises(OutOfRangeError):
            graph.insert_edges([99], [0])
        for span in exporter.get_finished_spans():
            assert not span.status.is_ok and span.events[0].name == "exception"


def test_spans_are_within_the_current_one(exporter: Any, files: Path) -> None:
    graph = Graph.load(files / "graph.aeg")
    tracer = exporter.provider.get_tracer("user")
    with tracer.start_as_current_span("aethergraph.step"):
        next(iter(SubgraphLoader(graph, [3], [1], ahead=0)))
    assert tree(exporter)[1] == ("batch", "step", "")


def test_none_after_close(files: Path) -> None:
    with exporting() as found:
        pass
    list(SubgraphLoader(Graph.load(files / "graph.aeg"), [3], [1]))
    assert found.get_finished_spans() == ()


def test_bad_providers() -> None:
    for provider in (3, "otlp", object()):
        with pytest.raises(InvalidArgumentError, match="TracerProvider"):
            observe.opentelemetry(provider)
