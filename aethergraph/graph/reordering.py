"""Orders of nodes as methods of graphs, under the names that users know from Rabbit Order."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count
from aethergraph._checks.options import as_choice, shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.graph.beside import in_another_order
from aethergraph.graph.node_orders import ORDERS, FoundOrder, Order, find_order, number_types
from aethergraph.graph.parts import EdgeParts, GraphParts, NodeParts
from aethergraph.graph.permute import Permutation, checked_by_type, permute_edges, permute_nodes

__all__ = ["Reordering", "TypedReordering"]

Ids = NDArray[np.int64]
ByType = dict[str, Ids]
EdgeType = tuple[str, str, str]
G = TypeVar("G", bound="Reordering")
T = TypeVar("T", bound="TypedReordering")
_NODE = "node"
_MOST_THREADS = 256


class Reordering:
    """Part of ``Graph``: orders of its nodes, and the graph in another order."""

    _time_zone: str | None
    _time_attr: str | None
    _names: tuple[str, str]
    _side_files: Mapping[str, str]
    _path: str | None

    @abstractmethod
    def _live(self) -> GraphParts:
        """Return the parts; raise ClosedError if the graph was closed."""

    @abstractmethod
    def _label(self) -> str:
        """Return the name of the graph, for error messages."""

    @classmethod
    @abstractmethod
    def _make(cls: type[G], parts: GraphParts) -> G:
        """Return a graph of these parts."""

    def _find_order(
        self, order: str, num_threads: int, progress: native.Progress | None
    ) -> FoundOrder:  # fmt: skip
        parts = self._live()
        kind = (_NODE, "to", _NODE)
        _, relations = number_types({_NODE: parts.num_nodes}, {kind: parts})
        threads = _as_threads(num_threads)
        return find_order(order, relations, parts.num_nodes, threads, progress)

    def reorder(
        self, order: Order = "rabbit", *, num_threads: int = 1,
        progress: native.Progress | None = None,
    ) -> Ids:  # fmt: skip
        """Return an order of the nodes in which those that are sampled together lie together.

        ::

            perm = graph.reorder()
            graph.permute(perm).save("reordered.aeg")

        The graph itself stays as it is. Directions, weights and times of edges play no part. The
        orders are made in memory: 4 bytes for each end of an edge (half of that where every edge is
        stored in both directions) and about 48 per node.

        Args:
            order: ``"rabbit"``: communities by modularity, and within them what joined first
                (Arai et al., IPDPS 2016). ``"bfs"``: breadth first, reverse Cuthill-McKee.
                ``"degree"``: nodes of many edges first. ``"gorder"``: what shares neighbours with
                the five nodes before (Wei et al., SIGMOD 2016), the slowest by far.
            num_threads: threads of ``"rabbit"``. One gives the same order every time, more differ
                from run to run; 0 takes as many as the native core uses.
            progress: called with (done, total).

        Returns:
            The old id of each new one, int64 [num_nodes]: what :meth:`permute` takes.

        Raises:
            InvalidArgumentError: no such order.
            LimitError: the graph has 2^32 - 1 nodes or more.
            OutOfMemoryError: memory does not suffice.
        """
        return self._find_order(as_choice(order, ORDERS, "order"), num_threads, progress).nodes

    def reorder_rabbit(
        self, *, num_threads: int = 1, progress: native.Progress | None = None
    ) -> Ids:  # fmt: skip
        """Return Rabbit Order, the old id of each new one; see :meth:`reorder`."""
        return self._find_order("rabbit", num_threads, progress).nodes

    def rabbit_partitions(
        self, *, num_threads: int = 1, progress: native.Progress | None = None
    ) -> Ids:  # fmt: skip
        """Return the number of each node's community, int64 [num_nodes].

        The communities are those that Rabbit Order puts together, numbered from 0 on in its order.
        A node without edges is a community by itself. Arguments and errors are those of
        :meth:`reorder`.
        """
        return self.reorder_rabbit_with_partitions(num_threads=num_threads, progress=progress)[1]

    def reorder_rabbit_with_partitions(
        self, *, num_threads: int = 1, progress: native.Progress | None = None
    ) -> tuple[Ids, Ids]:  # fmt: skip
        """Return :meth:`reorder_rabbit` and :meth:`rabbit_partitions`, worked out once.

        Partitions go by old id: ``parts[perm]`` ascends, and is that of the permuted graph.
        """
        found_order = self._find_order("rabbit", num_threads, progress)
        assert found_order.parts is not None
        return found_order.nodes, found_order.parts

    def permute(self: G, perm: ArrayLike, *, progress: native.Progress | None = None) -> G:
        """Return the graph with its nodes in another order, in memory.

        Node ``v`` of the new graph is node ``perm[v]`` of this one. Edges, weights, times and all
        attributes move along (features are copied into memory). It is what ``from_edges`` makes of
        the edges in the order of their ids: edges get new ids, and a list holds them in the same
        order. ``node_attrs["node_ids"]`` has the id that each node had at
        first: it is carried on if this graph has such an attribute already. For graphs larger than
        memory there is :func:`aethergraph.convert.reorder`.

        Args:
            perm: old id of each new one, an integer vector [num_nodes] with every node once.
            progress: called with (done, total).

        Raises:
            InvalidArgumentError: another length, or a node that comes twice; names the first one.
            OutOfRangeError: an id is of no node; names the first one.
        """
        parts = self._live()
        order = Permutation.checked(perm, parts.num_nodes)

        def work(task: native.Task | None) -> GraphParts:
            permuted = GraphParts(parts.num_nodes, parts.num_edges)
            permute_edges(parts, permuted, order, order, self._label(), task)
            permute_nodes(parts, permuted, order, task)
            return permuted

        graph = self._make(native.run_long(work, progress, _moved_bytes([parts], [parts])))
        graph._time_zone, graph._time_attr = self._time_zone, self._time_attr
        graph._names = self._names
        graph._side_files = in_another_order(self._side_files, self._names[:1], self._path)
        return graph


class TypedReordering:
    """Part of ``HeteroGraph``: orders of the nodes of all types, and the graph in another one."""

    _nodes: Mapping[str, NodeParts]
    _edges: Mapping[EdgeType, EdgeParts]
    _time_zone: str | None
    _time_attr: str | None
    _side_files: Mapping[str, str]
    _path: str | None

    @abstractmethod
    def _check_open(self) -> None:
        """Raise ClosedError if the graph was closed."""

    @classmethod
    @abstractmethod
    def _make(
        cls: type[T], nodes: dict[str, NodeParts], edges: dict[EdgeType, EdgeParts]
    ) -> T:  # fmt: skip
        """Return a graph of these parts."""

    def _find_order(
        self, order: str, num_threads: int, progress: native.Progress | None
    ) -> tuple[ByType, ByType | None]:
        self._check_open()
        counts = {name: part.num_nodes for name, part in self._nodes.items()}
        firsts, relations = number_types(counts, self._edges)
        total = sum(counts.values())
        found_order = find_order(order, relations, total, _as_threads(num_threads), progress)
        nodes, parts = {}, {}
        for name, count in counts.items():
            first = firsts[name]
            mask = (found_order.nodes >= first) & (found_order.nodes < first + count)
            nodes[name] = found_order.nodes[mask] - first
            if found_order.parts is not None:
                parts[name] = found_order.parts[first : first + count].copy()
        return nodes, parts if found_order.parts is not None else None

    def reorder(
        self, order: Order = "rabbit", *, num_threads: int = 1,
        progress: native.Progress | None = None,
    ) -> ByType:  # fmt: skip
        """Return an order of the nodes of each type, made from the edges of all types together.

        Arguments and errors are those of :meth:`Graph.reorder`; there are fewer than 2^32 - 1 nodes
        of all types.

        Returns:
            For each node type the old id of each new one, int64: what :meth:`permute` takes.
        """
        return self._find_order(as_choice(order, ORDERS, "order"), num_threads, progress)[0]

    def reorder_rabbit(
        self, *, num_threads: int = 1, progress: native.Progress | None = None
    ) -> ByType:  # fmt: skip
        """Return Rabbit Order of the nodes of each type; see :meth:`reorder`."""
        return self._find_order("rabbit", num_threads, progress)[0]

    def rabbit_partitions(
        self, *, num_threads: int = 1, progress: native.Progress | None = None
    ) -> ByType:  # fmt: skip
        """Return the number of each node's community, for each node type an int64 vector.

        A community has nodes of several types: equal numbers mean the same one in all of them.
        """
        return self.reorder_rabbit_with_partitions(num_threads=num_threads, progress=progress)[1]

    def reorder_rabbit_with_partitions(
        self, *, num_threads: int = 1, progress: native.Progress | None = None
    ) -> tuple[ByType, ByType]:  # fmt: skip
        """Return :meth:`reorder_rabbit` and :meth:`rabbit_partitions`, worked out once."""
        nodes, parts = self._find_order("rabbit", num_threads, progress)
        assert parts is not None
        return nodes, parts

    def permute(
        self: T, perms: Mapping[str, ArrayLike], *, progress: native.Progress | None = None
    ) -> T:  # fmt: skip
        """Return the graph with its nodes in another order, in memory; see :meth:`Graph.permute`.

        Args:
            perms: old id of each new one by node type. Types that are left out keep their order.
            progress: called with (done, total).

        Raises:
            InvalidArgumentError: an unknown type, another length, or a node that comes twice.
            OutOfRangeError: an id is of no node; names the first one.
        """
        self._check_open()
        if not isinstance(perms, Mapping):
            raise InvalidArgumentError(
                f"perms goes by node type, {{type: order}}, got {type(perms).__name__}"
            )
        for name in perms:
            if name not in self._nodes:
                known = ", ".join(map(repr, self._nodes))
                raise InvalidArgumentError(
                    f"perms: {shown(name)} is not in the graph; there are: {known}"
                )
        counts = {name: part.num_nodes for name, part in self._nodes.items()}
        orders = checked_by_type(perms, counts)

        nodes = {name: NodeParts(count) for name, count in counts.items()}
        edges = {
            kind: EdgeParts(part.num_src, part.num_dst, part.num_edges)
            for kind, part in self._edges.items()
        }

        def work(task: native.Task | None) -> None:
            for name, node in self._nodes.items():
                permute_nodes(node, nodes[name], orders[name], task)
            for kind, edge in self._edges.items():
                ends = orders[kind[0]], orders[kind[2]]
                permute_edges(edge, edges[kind], *ends, str(kind), task)

        size = _moved_bytes(self._nodes.values(), self._edges.values())
        native.run_long(work, progress, size)
        graph = self._make(nodes, edges)
        graph._time_zone, graph._time_attr = self._time_zone, self._time_attr
        graph._side_files = in_another_order(self._side_files, perms, self._path)
        return graph


def _moved_bytes(nodes: Iterable[NodeParts], edges: Iterable[EdgeParts]) -> int:
    tables: list[Any] = [part.node_attrs for part in nodes]
    size = 0
    for part in edges:
        tables.append(part.edge_attrs)
        size += 32 * part.num_edges
    return size + sum(int(store.nbytes) for table in tables for store in table.values())


def _as_threads(num_threads: int) -> int:
    threads = as_count(num_threads, "num_threads")
    if threads > _MOST_THREADS:
        raise InvalidArgumentError(f"num_threads = {threads} is not in 0..{_MOST_THREADS}")
    return threads
