"""Options of the demonstration of a graph that changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

__all__ = ["LiveOptions"]


@dataclass(frozen=True)
class LiveOptions:
    """Options of :func:`aethergraph.demo.live.main.run_live_demo`; see ``aethergraph demo --help``.

    Attributes:
        folder: where report and plot go.
        seconds: how long both processes work.
        rate: edges to insert per second, at most.
        kept_edges: edges to keep; the oldest ones are deleted.
        degree: edges of a new node.
        recent: nodes to train on, the last ones.
    """

    folder: Path
    seconds: float = 60.0
    rate: int = 100_000
    kept_edges: int = 2_000_000
    degree: int = 8
    num_features: int = 32
    num_classes: int = 8
    recent: int = 20_000
    batch_size: int = 512
    fanouts: tuple[int, ...] = (10, 5)
    hidden: int = 64
    learning_rate: float = 0.01
    seed: int = 0

    def quick(self) -> LiveOptions:
        """Return these options cut down to a few seconds."""
        return replace(
            self,
            seconds=min(self.seconds, 8.0),
            rate=min(self.rate, 20_000),
            kept_edges=min(self.kept_edges, 100_000),
            recent=min(self.recent, 5_000),
            batch_size=min(self.batch_size, 256),
        )
