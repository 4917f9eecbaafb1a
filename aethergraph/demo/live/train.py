"""Training while another process writes: ``python -m aethergraph.demo.live``.

Reads the pickled graph and the options from standard input, and writes one JSON object per line to
standard output: ``ready``, then ``round`` again and again, then ``done``. In a round the nodes that
have come since the last one are classified first, and learned from afterwards.
"""

from __future__ import annotations

import copy
import json
import os
import pickle
import time
from typing import IO, Any

import numpy as np

from aethergraph.demo.live.options import LiveOptions
from aethergraph.demo.train import make_graphsage
from aethergraph.dynamic.graph import DynamicGraph

__all__ = ["main"]

#: Batches of a round, and seconds after which it ends: looks drift, and the next test waits.
BATCHES, MOST_SECONDS = 10, 0.5
#: Share of the time after which a copy of the model learns no more.
FROZEN_AFTER = 0.2
#: Nodes to classify in a round, at most.
MOST_TESTED = 512


class Trainer:
    """Model that learns, a copy of it that does not any more, and the loader's options."""

    def __init__(self, graph: DynamicGraph, options: LiveOptions) -> None:
        import torch

        self._graph, self._options = graph, options
        torch.set_num_threads(max(1, (os.cpu_count() or 2) - 1))  # one for the process that writes
        torch.manual_seed(options.seed)
        widths = options.num_features, options.hidden, len(options.fanouts), options.num_classes
        self.model = make_graphsage(*widths)
        self.frozen: Any = None
        self._optimizer = torch.optim.Adam(self.model.parameters(), lr=options.learning_rate)
        self._rng = np.random.default_rng(options.seed)

    def freeze(self) -> None:
        """Keep a copy of the model as it is."""
        self.frozen = copy.deepcopy(self.model)

    def _batches(self, begin: int, end: int, count: int) -> Any:
        """Return a loader over some of the nodes ``begin .. end - 1``."""
        import torch

        from aethergraph.pyg import NeighborLoader

        nodes = begin + self._rng.choice(end - begin, min(count, end - begin), replace=False)
        return NeighborLoader(
            self._graph, list(self._options.fanouts), torch.from_numpy(nodes),
            batch_size=self._options.batch_size,
        )  # fmt: skip

    def test(self, begin: int, end: int) -> tuple[float, float | None]:
        """Return the accuracy of the model, and of the copy, on nodes that were not learned yet."""
        import torch

        models = [self.model] if self.frozen is None else [self.model, self.frozen]
        right, total = [0] * len(models), 0
        with torch.no_grad():
            for batch in self._batches(begin, end, MOST_TESTED):
                label = batch.y[: batch.batch_size]
                total += batch.batch_size
                for number, model in enumerate(models):
                    prediction = model(batch.x, batch.edge_index, batch.batch_size).argmax(dim=1)
                    right[number] += int((prediction == label).sum())
        return right[0] / total, right[1] / total if len(right) > 1 else None

    def learn(self, end: int) -> tuple[int, float]:
        """Train on some of the last nodes; return the number of batches and the mean loss."""
        import torch.nn.functional as functional

        losses, began = [], time.monotonic()
        begin = max(0, end - self._options.recent)
        for batch in self._batches(begin, end, BATCHES * self._options.batch_size):
            logits = self.model(batch.x, batch.edge_index, batch.batch_size)
            loss = functional.cross_entropy(logits, batch.y[: batch.batch_size])
            self._optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
            losses.append(float(loss.detach()))
            if time.monotonic() - began > MOST_SECONDS:
                break
        return len(losses), float(np.mean(losses))


def main(source: IO[bytes], out: IO[str]) -> None:
    """Train until the time is over; write events to ``out``."""
    graph, options = pickle.load(source)
    trainer = Trainer(graph, options)

    def emit(event: str, **values: Any) -> None:
        out.write(json.dumps({"event": event, **values}) + "\n")
        out.flush()

    emit("ready")
    learned, began = 0, time.monotonic()
    while (now := time.monotonic() - began) < options.seconds:
        end = graph.num_nodes
        if end == learned:
            time.sleep(0.01)
            continue
        if trainer.frozen is None and now > FROZEN_AFTER * options.seconds:
            trainer.freeze()
        accuracy, frozen = trainer.test(learned, end)
        before = time.monotonic()
        batches, loss = trainer.learn(end)
        emit(
            "round", seconds=time.monotonic() - began, accuracy=accuracy, frozen=frozen, loss=loss,
            batches_per_second=batches / (time.monotonic() - before), nodes=end,
        )  # fmt: skip
        learned = end
    emit("done")
