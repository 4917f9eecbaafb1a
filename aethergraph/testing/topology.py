"""Contract of topologies: adjacencies to sample from."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph.testing import cases
from aethergraph.testing.cases import GraphCase
from aethergraph.testing.rules import (
    Contract,
    equal,
    given,
    in_child,
    in_threads,
    out_of_range,
    refused,
    require,
)

__all__ = ["TopologyContract"]

Ids = NDArray[np.int64]


class TopologyContract(Contract):
    """Rules of :class:`aethergraph.protocols.Topology`.

    ::

        class TestMyTopology(TopologyContract):
            def make(self, num_nodes, src, dst):
                return MyTopology(...)

    Attributes:
        supports: ``"edge_ids"``: the topology has ``in_edges(node)``, the ids of the edges that end
            at a node, parallel to ``in_neighbors(node)``.
    """

    known = frozenset({"edge_ids"})

    def make(self, num_nodes: int, src: Ids, dst: Ids) -> Any:
        """Make the topology of these edges: int64 vectors [E] of ids below ``num_nodes``."""
        raise NotImplementedError("define make(self, num_nodes, src, dst)")

    def num_nodes(self, topology: Any) -> int:
        """Return the number of nodes that the topology states."""
        count: int = topology.num_nodes
        return count

    def _each(self) -> Iterator[tuple[GraphCase, Any]]:
        for case in cases.graphs():
            with given(case.name, **case.inputs):
                topology = self.make(case.num_nodes, case.src.copy(), case.dst.copy())
            yield case, topology

    def _largest(self) -> tuple[GraphCase, Any]:
        *_, last = self._each()
        return last

    # ---- answers ---------------------------------------------------------------------------

    def test_counts_of_nodes_and_edges(self) -> None:
        """``num_nodes`` and ``num_edges`` count what was given, duplicates and loops too."""
        for case, topology in self._each():
            with given(case.name, **case.inputs):
                found = self.num_nodes(topology), topology.num_edges
                expected = case.num_nodes, len(case.src)
                require(
                    found == expected,
                    f"(num_nodes, num_edges) must be {expected}, found {found}",
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
                    found = topology.in_neighbors(node)
                    expected = np.sort(case.src[case.dst == node])
                    require(isinstance(found, np.ndarray), f"no array: {type(found)}")
                    equal(np.sort(found), expected, "in_neighbors(node), sorted,", np.int64)

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
            for found in results:
                equal(found, expected, "the neighbours that a thread got")

    def test_it_pickles(self) -> None:
        """A pickled copy gives the same answers."""
        case, topology = self._largest()
        copy = pickle.loads(pickle.dumps(topology))
        equal(_answers(copy, case.num_nodes), _answers(topology, case.num_nodes), "neighbours")

    def test_a_forked_child_uses_it(self) -> None:
        """A forked child gets the same answers."""
        case, topology = self._largest()
        found = in_child(lambda: _answers(topology, case.num_nodes))
        equal(found, _answers(topology, case.num_nodes), "the neighbours that the child got")


def _answers(topology: Any, num_nodes: int) -> Ids:
    lists = [topology.in_neighbors(node) for node in range(num_nodes)]
    return np.concatenate([topology.in_degrees(), *lists])
