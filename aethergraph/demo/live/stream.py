"""Nodes and edges that come and go, of classes whose looks drift."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph.demo.live.options import LiveOptions
from aethergraph.dynamic.graph import DynamicGraph

__all__ = ["Stream", "make_graph"]

#: Nodes that a step adds.
STEP = 250


def make_graph(options: LiveOptions) -> DynamicGraph:
    """Make the graph, without nodes so far."""
    graph = DynamicGraph(0, arena_mb=1024, layout="csc", order="time")
    graph.features = np.zeros((0, options.num_features), np.float32)
    graph.node_attrs["y"] = np.zeros(0, np.int64)
    return graph


class Stream:
    """Writes to a graph, step by step.

    A class looks like one point of the space of features in the beginning, and like the opposite
    one in the end. Features are that point and much noise, so a model needs neighbours to tell
    classes apart, and the last nodes to know what classes look like now.
    """

    def __init__(self, graph: DynamicGraph, options: LiveOptions) -> None:
        self._graph, self._options = graph, options
        self._rng = np.random.default_rng(options.seed)
        self._looks = self._rng.normal(size=(2, options.num_classes, options.num_features))
        self._labels = np.zeros(0, np.int64)  # of the last nodes, up to options.recent
        self._alive = deque[tuple[Any, Any, Any]]()
        self._count = 0
        self.inserted = self.deleted = 0

    def step(self, turned: float) -> None:
        """Add nodes and their edges, and delete the oldest edges, in one commit.

        Args:
            turned: how far the drift has come, from 0 to 1.
        """
        options, rng = self._options, self._rng
        y = rng.integers(0, options.num_classes, STEP)
        angle = np.pi * turned
        look = np.cos(angle) * self._looks[0] + np.sin(angle) * self._looks[1]
        x = look[y] + rng.normal(scale=4, size=(STEP, options.num_features))
        self._labels = np.concatenate([self._labels, y])[-options.recent :]
        with self._graph.transaction():
            new = self._graph.add_nodes(STEP, x=x.astype(np.float32), y=y)
            self._count += STEP
            src, dst = self._friends(y), np.repeat(new, options.degree)
            self._alive.append((src, dst, self._graph.insert_edges(src, dst)))
            self.inserted += len(src)
            while self.inserted - self.deleted > options.kept_edges and len(self._alive) > 1:
                src, dst, ids = self._alive.popleft()
                self.deleted += self._graph.delete_edges(src, dst, edge_ids=ids)

    def _friends(self, y: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sources of the edges of new nodes: of the same class four times in five."""
        rng, labels, degree = self._rng, self._labels, self._options.degree
        first = self._count - len(labels)
        by_class = np.argsort(labels, kind="stable")
        counts = np.bincount(labels, minlength=self._options.num_classes)
        starts = np.cumsum(counts) - counts
        classes = np.repeat(y, degree)
        same = by_class[
            starts[classes] + (rng.random(classes.size) * counts[classes]).astype(np.int64)
        ]
        random_ids = rng.integers(0, len(labels), classes.size)
        return first + np.where(rng.random(classes.size) < 0.8, same, random_ids)
