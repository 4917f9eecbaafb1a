"""Options of the demonstration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

__all__ = ["DemoOptions"]


@dataclass(frozen=True)
class DemoOptions:
    """Options of :func:`aethergraph.demo.main.run_demo`; see ``aethergraph demo --help``.

    ``edges``, ``features`` and ``labels`` are the user's own files; without them a graph of
    ``num_nodes`` nodes and ``num_edges`` edges is generated. ``memory_budget`` is the budget of our
    runs, one half for the graph, one for the features; only with a storage that keeps a budget.
    """

    folder: Path
    edges: tuple[Path, ...] = ()
    features: Path | None = None
    labels: Path | None = None
    num_nodes: int = 2_000_000
    num_edges: int = 20_000_000
    num_features: int = 128
    epochs: int = 5
    batches: int = 50
    batch_size: int = 512
    fanouts: tuple[int, ...] = (10, 5)
    hidden: int = 64
    learning_rate: float = 0.003
    eval_nodes: int = 2048
    storage: str = "mmap"
    memory_budget: str | None = None
    compare: bool = True
    seed: int = 0

    def quick(self) -> DemoOptions:
        """Return these options cut down to a small graph and two short epochs."""
        return replace(
            self,
            num_nodes=min(self.num_nodes, 20_000),
            num_edges=min(self.num_edges, 200_000),
            epochs=min(self.epochs, 2),
            batches=min(self.batches, 15),
            batch_size=min(self.batch_size, 256),
            eval_nodes=min(self.eval_nodes, 1000),
            learning_rate=0.01,
        )
