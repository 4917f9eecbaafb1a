"""Contract of adjacencies: the edges that a graph holds, and what is sampled from it."""

from __future__ import annotations

import pickle
import unittest
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph.graph.foreign import as_graph
from aethergraph.protocols import Adjacency, HomogeneousGraph
from aethergraph.sampling.neighbor import NeighborSampler
from aethergraph.testing import cases, oracle
from aethergraph.testing.cases import GraphCase
from aethergraph.testing.graph_loading import CoreGraphLoadingRules
from aethergraph.testing.rules import (
    equal,
    given,
    in_child,
    in_threads,
    out_of_range,
    refused,
    require,
)

__all__ = ["AdjacencyContract"]

Ids = NDArray[np.int64]
_NONE = np.empty(0, np.int64)


class AdjacencyContract(CoreGraphLoadingRules):
    """Rules of :class:`aethergraph.protocols.Adjacency`, by itself, in samples and in batches.

    ::

        class TestMyGraph(AdjacencyContract):
            supports = {"edge_ids"}

            def make(self, num_nodes, src, dst):
                return MyGraph(...)             # all that as_graph() takes, or a graph of ours

    Attributes:
        supports: ``"edge_ids"``: the topology has ``in_edges(node)``, the ids of the edges that end
            at a node, parallel to ``in_neighbors(node)``.
    """

    def num_nodes(self, topology: Any) -> int:
        """Return the number of nodes that the topology states."""
        count: int = topology.num_nodes
        return count

    def _each(self) -> Iterator[tuple[GraphCase, Any]]:
        for case in cases.graphs():
            with given(case.name, **case.inputs):
                graph = self.make(case.num_nodes, case.src.copy(), case.dst.copy())
                topology = graph if hasattr(graph, "in_neighbors") else as_graph(graph)
            yield case, topology

    def _largest(self) -> tuple[GraphCase, Any]:
        *_, last = self._each()
        return last

    # ---- answers ---------------------------------------------------------------------------

    def test_counts_of_nodes_and_edges(self) -> None:
        """``num_nodes`` and ``num_edges`` count what was given, duplicates and loops too."""
        for case, topology in self._each():
            with given(case.name, **case.inputs):
                counts = self.num_nodes(topology), topology.num_edges
                expected = case.num_nodes, len(case.src)
                require(
                    counts == expected,
                    f"(num_nodes, num_edges) must be {expected}, found {counts}",
                )

    def test_degrees(self) -> None:
        """``in_degrees()`` has the in-degree of every node, ``in_degrees(nodes)`` of these."""
        for case, topology in self._each():
            expected = np.bincount(case.dst, minlength=case.num_nodes)
            with given(case.name, **case.inputs):
                equal(topology.in_degrees(), expected, "in_degrees()", np.int64)
            for nodes in cases.seed_vectors(case.num_nodes):
                with given(case.name, **case.inputs, nodes=nodes):
                    equal(topology.in_degrees(nodes), expected[nodes], "in_degrees(nodes)",
                          np.int64)  # fmt: skip

    def test_degrees_take_integers_in_any_form(self) -> None:
        """Nodes may be lists and arrays of any integer dtype, byte order and stride."""
        case, topology = self._largest()
        nodes = np.array([0, 69, 3, 3, 17], np.int64)
        expected = np.bincount(case.dst, minlength=case.num_nodes)[nodes]
        for form, values in cases.id_forms(nodes):
            with given(f"nodes as {form}", nodes=values):
                equal(topology.in_degrees(values), expected, "in_degrees(nodes)")

    def test_neighbors_are_the_sources_with_their_multiplicities(self) -> None:
        """``in_neighbors(v)`` holds the source of every edge that ends at v, once per edge."""
        for case, topology in self._each():
            for node in range(case.num_nodes):
                with given(case.name, **case.inputs, node=node):
                    neighbors = topology.in_neighbors(node)
                    expected = np.sort(case.src[case.dst == node])
                    require(isinstance(neighbors, np.ndarray), f"no array: {type(neighbors)}")
                    equal(np.sort(neighbors), expected, "in_neighbors(node), sorted,", np.int64)

    def test_answers_are_the_same_again(self) -> None:
        """A list keeps its order, whatever the caller does with what it was given."""
        for case, topology in self._each():
            for node in range(case.num_nodes):
                with given(case.name, **case.inputs, node=node):
                    first = topology.in_neighbors(node)
                    kept = first.copy()
                    if first.flags.writeable:
                        first[:] = -7
                    equal(topology.in_neighbors(node), kept, "in_neighbors(node), the second time,")

    def test_edge_ids_are_a_bijection(self) -> None:
        """``in_edges`` of all nodes together are 0 .. num_edges - 1, parallel to the neighbours."""
        self.need("edge_ids")
        for case, topology in self._each():
            with given(case.name, **case.inputs):
                lists = [topology.in_edges(node) for node in range(case.num_nodes)]
                for node, ids in enumerate(lists):
                    count = len(topology.in_neighbors(node))
                    require(
                        len(ids) == count,
                        f"in_edges({node}) has {len(ids)} ids, in_neighbors({node}) {count}",
                    )
                together = np.concatenate([*lists, np.empty(0, np.int64)])
                expected = np.arange(len(case.src))
                equal(np.sort(together), expected, "all edge ids, sorted,", np.int64)

    def test_ends_of_edges(self) -> None:
        """``edge_ends(ids)`` are the ends of the edges that ``in_edges`` names."""
        self.need("edge_ids")
        for case, graph in self._graphs():
            with given(case.name, **case.inputs):
                nodes = range(case.num_nodes)
                ids = [graph.in_edges(node) for node in nodes]
                src, dst = graph.edge_ends(np.concatenate([*ids, _NONE]))
                expected = [graph.in_neighbors(node) for node in nodes]
                equal(src, np.concatenate([*expected, _NONE]), "the sources of edge_ends()")
                equal(
                    dst, np.repeat(nodes, [len(edge_ids) for edge_ids in ids]), "the destinations"
                )

    # ---- samples ---------------------------------------------------------------------------

    def test_samples_are_those_of_the_lists(self) -> None:
        """``NeighborSampler`` draws what the model draws from ``in_neighbors``, bit by bit."""
        for case, graph in self._graphs():
            sampler = NeighborSampler(graph, [3, -1])
            for key, seeds in enumerate(cases.seed_vectors(case.num_nodes)):
                with given(case.name, **case.inputs, seeds=seeds, key=key):
                    sample = sampler.sample(seeds, key)
                    expected = oracle.sample(*_lists(graph), seeds, [3, -1], key=key)
                    for part in ("node", "row", "col"):
                        equal(getattr(sample, part), getattr(expected, part), part, np.int64)
                    if "edge_ids" in self.supports:
                        ids = [graph.in_edges(node) for node in range(case.num_nodes)]
                        edge_ids = np.concatenate([*ids, _NONE])[expected.edge]
                        equal(sample.edge, edge_ids, "edge", np.int64)

    def test_samples_leave_edges_out(self) -> None:
        """Edges that are excluded by id are not drawn, and all others are."""
        self.need("edge_ids")
        for case, graph in self._graphs():
            nodes = np.arange(case.num_nodes)
            sampler = NeighborSampler(graph, [-1])
            everything = sampler.sample(nodes, 0).edge
            excluded = np.unique(everything[::3])
            with given(case.name, **case.inputs, exclude=excluded):
                edges = sampler.sample(nodes, 0, exclude=excluded).edge
                left = everything[~np.isin(everything, excluded)]
                equal(np.sort(edges), np.sort(left), "the edges that are left, sorted,")

    def _graphs(self) -> Iterator[tuple[GraphCase, HomogeneousGraph]]:
        """Yield the graphs to sample from; nothing for other objects, such as an edge type."""
        for case, topology in self._each():
            if isinstance(topology, Adjacency) and not isinstance(topology, HomogeneousGraph):
                raise unittest.SkipTest("one edge type of many is not sampled by itself")
            yield case, as_graph(topology)

    # ---- refusals --------------------------------------------------------------------------

    def test_a_node_out_of_range_is_named(self) -> None:
        """A node that does not exist is an OutOfRangeError with its value and position."""
        for case, topology in self._each():
            for bad in cases.bad_ids(case.num_nodes):
                with given(case.name, **case.inputs, node=bad):
                    out_of_range(bad, None, topology.in_neighbors, bad)
                    nodes = np.array([0, bad, 0, -5][case.num_nodes == 0 :], np.int64)
                    out_of_range(bad, int(case.num_nodes > 0), topology.in_degrees, nodes)

    def test_what_is_no_node_id_is_refused(self) -> None:
        """Floats, bools and tables are not node ids."""
        case, topology = self._largest()
        bad: list[Any] = [[0.5], np.array([1.0]), np.zeros(case.num_nodes, bool), [[1, 2]]]
        for nodes in bad:
            refused(f"in_degrees({nodes!r})", topology.in_degrees, nodes)

    # ---- threads and processes -------------------------------------------------------------

    def test_threads_share_it(self) -> None:
        """Several threads may ask at once."""
        case, topology = self._largest()
        expected = _answers(topology, case.num_nodes)
        for results in in_threads([lambda: _answers(topology, case.num_nodes)] * 4, rounds=3):
            for answers in results:
                equal(answers, expected, "the neighbours that a thread got")

    def test_it_pickles(self) -> None:
        """A pickled copy gives the same answers."""
        case, topology = self._largest()
        copy = pickle.loads(pickle.dumps(topology))
        equal(_answers(copy, case.num_nodes), _answers(topology, case.num_nodes), "neighbours")

    def test_a_forked_child_uses_it(self) -> None:
        """A forked child gets the same answers."""
        case, topology = self._largest()
        answers = in_child(lambda: _answers(topology, case.num_nodes))
        equal(answers, _answers(topology, case.num_nodes), "the neighbours that the child got")


def _lists(graph: HomogeneousGraph) -> tuple[Ids, Ids]:
    """Return ``(indptr, indices)`` of the lists that the graph answers."""
    lists = [graph.in_neighbors(node) for node in range(graph.num_nodes)]
    indptr = np.append(0, np.cumsum([len(neighbors) for neighbors in lists], dtype=np.int64))
    return indptr.astype(np.int64), np.concatenate([*lists, _NONE])


def _answers(topology: Any, num_nodes: int) -> Ids:
    lists = [topology.in_neighbors(node) for node in range(num_nodes)]
    return np.concatenate([topology.in_degrees(), *lists])
