"""Rules about batches of a graph: loaders follow its edges, and a model learns from them."""

from __future__ import annotations

import unittest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph.graph.foreign import as_graph
from aethergraph.loading import Ahead
from aethergraph.loading.loader import SubgraphLoader
from aethergraph.protocols import Adjacency, HomogeneousGraph
from aethergraph.testing.rules import Contract, equal, given, require

__all__ = ["CoreGraphLoadingRules", "GraphLoadingRules", "LabelledGraph"]

Ids = NDArray[np.int64]
_NUM_NODES, _CLASSES = 120, 3


class LabelledGraph(NamedTuple):
    """Graph whose labels can only be learned by following its edges.

    Every edge comes from a node whose feature is the label of the node that it leads to; the own
    feature of a node says nothing about its label.
    """

    graph: HomogeneousGraph
    #: ``(src, dst)`` of each edge, by the edge id of the graph.
    ends: tuple[Ids, Ids]
    x: NDArray[np.float32]
    y: Ids


class GraphLoadingRules(Contract):
    """Base of the rules about batches of a graph; subclasses have the loaders of one framework.

    Attributes:
        supports: ``"edge_ids"``: the graph has ``in_edges(node)``, the ids of the edges that end at
            a node, parallel to ``in_neighbors(node)``.
    """

    known = frozenset({"edge_ids"})

    def make(self, num_nodes: int, src: Ids, dst: Ids) -> Any:
        """Make the graph of these edges: int64 vectors [E] of ids below ``num_nodes``."""
        raise NotImplementedError("define make(self, num_nodes, src, dst)")

    def labelled(self) -> LabelledGraph:
        """Return a graph of :meth:`make` with node data ``"x"`` and ``"y"``, edge data ``"e"``."""
        rng = np.random.default_rng(11)
        feature = np.repeat(np.arange(_CLASSES), _NUM_NODES // _CLASSES)
        y = rng.permutation(feature)
        dst = np.repeat(np.arange(_NUM_NODES), 6)
        src = rng.integers(0, _NUM_NODES // _CLASSES, len(dst)) + y[dst] * (_NUM_NODES // _CLASSES)
        source = self.make(_NUM_NODES, src, dst)
        if isinstance(source, Adjacency) and not isinstance(source, HomogeneousGraph):
            raise unittest.SkipTest("one edge type of many is not loaded by itself")
        graph: Any = as_graph(source)
        x = np.eye(_CLASSES, dtype=np.float32)[feature]
        graph.node_attrs["x"], graph.node_attrs["y"] = x, y
        graph.edge_attrs["e"] = np.arange(len(src))
        return LabelledGraph(graph, _ends(graph), x, y)

    def check_edges(self, labelled: LabelledGraph, src: Ids, dst: Ids, edge: Ids) -> None:
        """Raise BrokenRule unless the edges of a batch, in ids of the graph, are its edges."""
        require(len(edge) > 0, "the batch has no edges")
        equal(src, labelled.ends[0][edge], "the sources of the edges of a batch")
        equal(dst, labelled.ends[1][edge], "the destinations of the edges of a batch")


def _ends(graph: HomogeneousGraph) -> tuple[Ids, Ids]:
    """Return the ends of all edges by edge id, from the lists that the graph answers."""
    src, dst = np.full((2, graph.num_edges), -1)
    for node in range(graph.num_nodes):
        edges = graph.in_edges(node)
        src[edges], dst[edges] = graph.in_neighbors(node), node
    return src, dst


class CoreGraphLoadingRules(GraphLoadingRules):
    """Rules about the batches of :class:`aethergraph.SubgraphLoader`."""

    def test_a_subgraph_loader_follows_its_edges(self) -> None:
        """Batches of SubgraphLoader hold edges of the graph, their rows, and as many as are due."""
        labelled = self.labelled()
        for ahead in (0, Ahead(threads=2), Ahead(plan=2)):
            loader = SubgraphLoader(labelled.graph, [4, 3], batch_size=32, ahead=ahead)
            count = 0
            for batch in loader:
                sub: Any = batch.subgraph
                with given("a batch", seeds=batch.seeds):
                    self.check_edges(labelled, sub.node[sub.row], sub.node[sub.col], sub.edge)
                    equal(batch.node_attrs["x"], labelled.x[sub.node], 'node_attrs["x"]')
                    equal(batch.edge_attrs["e"], sub.edge, 'edge_attrs["e"]')
                    drawn = np.bincount(sub.col, minlength=len(sub.node))[: batch.batch_size]
                    equal(drawn, np.full(batch.batch_size, 4), "the edges drawn for each seed")
                count += 1
            require(count == len(loader), f"{len(loader)} batches are due, found {count}")

    def test_a_model_learns_from_its_batches(self) -> None:
        """Logistic regression on the mean of the neighbours learns labels that only edges tell."""
        labelled = self.labelled()
        weight = np.zeros((_CLASSES, _CLASSES))
        loader = SubgraphLoader(labelled.graph, [6], batch_size=40, shuffle=True)
        for _ in range(20):
            right = 0
            for batch in loader:
                sub: Any = batch.subgraph
                x: Any = batch.x
                mean = np.zeros((len(sub.node), _CLASSES))
                np.add.at(mean, sub.col, x[sub.row])
                mean = mean[: batch.batch_size] / 6
                scores = np.exp(mean @ weight)
                scores /= scores.sum(1, keepdims=True)
                y = labelled.y[batch.seeds]
                right += int((scores.argmax(1) == y).sum())
                weight -= mean.T @ (scores - np.eye(_CLASSES)[y]) / len(y) * 5
        require(right > 0.9 * _NUM_NODES, f"{right} of {_NUM_NODES} labels were learned")
