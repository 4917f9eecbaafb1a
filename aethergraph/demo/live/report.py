"""Result of the live demonstration: lines, a JSON file, a plot."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from aethergraph._checks.optional import how_to_get
from aethergraph.demo.live.options import LiveOptions
from aethergraph.demo.live.stream import Stream
from aethergraph.dynamic.graph import DynamicGraph

__all__ = ["LiveReport", "Moment", "Round", "save_json", "save_plot"]


@dataclass(frozen=True)
class Moment:
    """Numbers of the graph at one moment, and rates since the moment before."""

    seconds: float
    commit: int
    nodes: int
    edges: int
    used_bytes: int
    inserted: int
    deleted: int
    inserts_per_second: float = 0.0
    deletes_per_second: float = 0.0

    @classmethod
    def of(
        cls, seconds: float, stream: Stream, graph: DynamicGraph, last: Moment | None = None
    ) -> Moment:
        """Measure the graph; rates are those since ``last``."""
        stats = graph.stats()
        rates = (0.0, 0.0)
        if last is not None:
            passed = max(seconds - last.seconds, 1e-9)
            rates = (
                (stream.inserted - last.inserted) / passed,
                (stream.deleted - last.deleted) / passed,
            )
        return cls(
            seconds, stats.commit, graph.num_nodes, stats.num_edges, stats.used_bytes,
            stream.inserted, stream.deleted, *rates,
        )  # fmt: skip


@dataclass(frozen=True)
class Round:
    """Results of one round of training; ``frozen`` is the accuracy of the copy, if there is one."""

    seconds: float
    accuracy: float
    frozen: float | None
    loss: float
    batches_per_second: float
    nodes: int

    @classmethod
    def read(cls, event: dict[str, Any]) -> Round:
        """Read a round from an event of the process that trains."""
        return cls(**{name: value for name, value in event.items() if name != "event"})


@dataclass
class LiveReport:
    """Results of the demonstration: moments of the writer, rounds of training."""

    moments: list[Moment] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)

    @property
    def inserts_per_second(self) -> float:
        """Edges inserted per second, on average."""
        return self.moments[-1].inserted / self.moments[-1].seconds if self.moments else 0.0

    @property
    def batches_per_second(self) -> float:
        """Batches trained per second, the median of all rounds."""
        return float(np.median([r.batches_per_second for r in self.rounds])) if self.rounds else 0.0

    def late_accuracy(self) -> tuple[float, float]:
        """Return the mean accuracy while learning, and of the copy, since there is a copy."""
        late = [(r.accuracy, r.frozen) for r in self.rounds if r.frozen is not None]
        means = np.mean(late, axis=0) if late else np.zeros(2)
        return float(means[0]), float(means[1])

    def lines(self) -> list[str]:
        """Return lines that sum up."""
        learning, frozen = self.late_accuracy()
        return [
            f"{self.inserts_per_second:,.0f} edges inserted per second, "
            f"{self.batches_per_second:.1f} batches trained per second beside it",
            f"accuracy on new nodes: {learning:.1%} while learning, {frozen:.1%} of a copy that "
            "stopped learning",
        ]


def save_json(path: Path, options: LiveOptions, report: LiveReport) -> None:
    """Save all measurements."""
    values = {
        "options": {**asdict(options), "folder": str(options.folder)},
        "inserts_per_second": report.inserts_per_second,
        "batches_per_second": report.batches_per_second,
        "accuracy": report.late_accuracy()[0],
        "frozen_accuracy": report.late_accuracy()[1],
        **asdict(report),
    }
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(values, indent=2))
    os.replace(temporary, path)


def save_plot(path: Path, report: LiveReport) -> str | None:
    """Plot accuracy and rates over time; return why this was not possible, or None."""
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError as error:
        return f"no plot: matplotlib cannot be imported ({error}): {how_to_get('plot')}"
    figure, (top, middle, bottom) = plt.subplots(
        3, 1, figsize=(9, 8), sharex=True, layout="constrained"
    )
    times = [r.seconds for r in report.rounds]
    top.plot(times, [100 * r.accuracy for r in report.rounds], label="learning on", color="C2")
    copies = [(r.seconds, 100 * r.frozen) for r in report.rounds if r.frozen is not None]
    if copies:
        top.plot(*zip(*copies, strict=True), label="a copy that stopped", color="C3")
        # It was made at the end of the last round without it.
        stopped = max((r.seconds for r in report.rounds if r.frozen is None), default=0.0)
        top.axvline(stopped, color="C3", linestyle="--", label="the copy stopped here")
        for axes in (middle, bottom):
            axes.axvline(stopped, color="C3", linestyle="--")
    top.set(
        ylabel="%",
        ylim=(0, 100),
        title="Accuracy on new nodes, before they are learned; classes drift",
    )
    top.legend(fontsize=8, loc="lower left")
    moments = [m.seconds for m in report.moments]
    middle.plot(moments, [m.inserts_per_second for m in report.moments], label="inserted")
    middle.plot(moments, [m.deletes_per_second for m in report.moments], label="deleted")
    deleting = [m.seconds for m in report.moments if m.deletes_per_second > 0]
    if deleting:
        middle.axvline(deleting[0], color="0.5", linestyle=":", label="old edges go from here")
    middle.set(ylabel="edges per second", title="Writing")
    middle.legend(fontsize=8)
    bottom.plot(times, [r.batches_per_second for r in report.rounds], color="C4")
    bottom.set(ylabel="batches per second", xlabel="seconds", title="Training beside it")
    for axes in (middle, bottom):
        axes.set_ylim(bottom=0)
    for axes in (top, middle, bottom):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return None
