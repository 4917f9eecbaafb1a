"""What observing costs: a stage by who looks on, and batches with and without somebody.

    python benchmarks/observe.py [--quick]

Batches of two hops with features, in memory, made in the thread that iterates. The ways take turns
in one process, an epoch each, timed by the processor time of the thread, as is a stage by itself.
Nobody: what everyone pays. Its share of a batch is the number of stages times what one costs.
"""

from __future__ import annotations

import argparse
import statistics
import time
import timeit
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from harness import common
from harness.common import Ratio, Report

WAYS = ("nobody", "totals", "profile", "spans, no SDK", "spans, in memory")


@contextmanager
def looking_on(way: str) -> Iterator[None]:
    """Have somebody observe stages in the block."""
    from aethergraph import _tracepoints as tracepoints
    from aethergraph import observe
    from aethergraph.observe.recording import Recorder

    if way == "nobody":
        yield
    elif way == "totals":
        observe.enable(publish=False)
        try:
            yield
        finally:
            observe.disable()
    elif way == "profile":
        recorder = Recorder()
        tracepoints.add_observer(recorder)
        try:
            yield
        finally:
            tracepoints.remove_observer(recorder)
    else:
        with observe.opentelemetry(None if way == "spans, no SDK" else provider()):
            yield


def provider() -> Any:
    """Provider of OpenTelemetry's SDK that keeps spans in memory."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
    return made


def stage_seconds(number: int) -> float:
    """Seconds of one stage, the best of five rounds."""
    from aethergraph._tracepoints import stage

    def call() -> None:
        with stage("gather", "x"):
            pass

    return min(timeit.repeat(call, number=number, timer=time.thread_time)) / number


def stages_of(loader: Any) -> int:
    """Number of stages of an epoch."""
    from aethergraph import observe

    observe.enable(publish=False)
    for _ in loader:
        pass
    metrics = observe.snapshot()["metrics"]["aethergraph_stage_calls_total"]
    observe.disable()
    return int(sum(sample["value"] for sample in metrics["samples"]))


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    args: argparse.Namespace = common.parse(made, argv)
    from aethergraph import Graph, SubgraphLoader

    report = Report("observe", "What observing costs", args)
    nodes, rounds, number = (2_000, 3, 2_000) if args.quick else (200_000, 15, 100_000)
    rng = np.random.Generator(np.random.PCG64(1))
    graph = Graph.from_edges(nodes, *rng.integers(0, nodes, (2, 10 * nodes)))
    graph.features = rng.random((nodes, 64), np.float32)
    rows: list[list[common.Cell]] = []
    each = 0.0
    for batch_size in (16, 512):
        seeds = np.arange(min(nodes, 40 * batch_size))
        loader = SubgraphLoader(graph, [10, 5], seeds, batch_size=batch_size, ahead=0)
        each = stages_of(loader) / len(loader)
        times: dict[str, list[float]] = {way: [] for way in WAYS}
        for turn in range(-1, rounds):
            for way in WAYS:
                loader.set_epoch(0)  # the same batches each time
                with looking_on(way):
                    begin = time.thread_time()
                    for _ in loader:
                        pass
                    taken = time.thread_time() - begin
                if turn >= 0:
                    times[way].append(taken / len(loader))
        batch = statistics.median(times["nobody"])
        for way in WAYS:
            with looking_on(way):
                alone = stage_seconds(number)
            ratio = Ratio.paired(times[way], times["nobody"])
            rows.append(
                [
                    batch_size, way, round(1e9 * alone), 1e3 * statistics.median(times[way]),
                    f"{each * alone / batch:.2%}", "-" if way == "nobody" else str(ratio),
                ]
            )  # fmt: skip
    report.table(
        "cost by who looks on",
        ["seeds", "who", "ns per stage", "ms per batch", "stages' share", "time as with nobody"],
        rows,
    )
    report.note(f"A batch has {each:.0f} stages.")

    def draw(axes: Sequence[Any]) -> None:
        labels = [f"{row[0]} seeds, {row[1]}" for row in rows]
        common.bars(axes[0], labels, [float(str(row[3])) for row in rows], "ms per batch")

    common.plot(report, 1, draw)
    report.finish()


if __name__ == "__main__":
    main()
