"""Node and edge types of graphs under DGL's names, and edge ids in DGL's numbering."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from aethergraph._checks.arrays import as_ids
from aethergraph._checks.options import as_choice, shown
from aethergraph._torch.tensors import read_array, seed_ids
from aethergraph.errors import InvalidArgumentError
from aethergraph.graph import schema as core
from aethergraph.graph.foreign import graph_hint
from aethergraph.graph.ids import check_ids
from aethergraph.graph.schema import EDGE, NODE
from aethergraph.protocols import AnyGraph

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.graph.hetero import EdgeType
    from aethergraph.protocols import Adjacency

__all__ = ["EDGE", "NODE", "EdgeNumbers", "Schema"]

Ids: TypeAlias = "NDArray[np.int64]"

#: Graphs that know which row of the input an edge was.
_KNOWING = (
    "a graph made with the order of its input (convert --keep-order, or keep_order=True), that is "
    "neither live nor served"
)
#: What there is to say where edges are named by ids that may mean two things.
_WHICH_EDGES = (
    "which edges are these? This graph does not know the order of its input, and its own edge ids "
    "are places in its sorted lists. Say edge_ids='graph' if you mean those. Rows of the input are "
    f"edge_ids='input', which takes {_KNOWING}"
)

#: Positions of the rows of the input, by edge type; computed on first use, once per graph.
_inverses: weakref.WeakKeyDictionary[Any, dict[EdgeType, NDArray[Any]]] = (
    weakref.WeakKeyDictionary()
)


class EdgeNumbers:
    """Edge ids that users see, of one edge type.

    Args:
        graph: the graph of the edges.
        kind: the edge type.
        edges: the edges.
        count: returns the number that the graph's own edge ids are below.
        by_input: rows of the edge list that the graph was built from, as DGL numbers edges,
            instead of the graph's own ids, which are positions in its lists.
        is_clear: it is clear which of both users mean.
    """

    def __init__(
        self,
        graph: Any,
        kind: EdgeType,
        edges: Adjacency,
        count: Callable[[], int],
        by_input: bool,
        is_clear: bool,
    ) -> None:
        self._order = edges.edge_order if by_input else None
        self._end = count
        self._graph = graph
        self._kind = kind
        self._is_clear = is_clear

    @property
    def end(self) -> int:
        """Number that the graph's own edge ids are below."""
        return self._end()

    @property
    def are_input(self) -> bool:
        """True if ids are rows of the input."""
        return self._order is not None

    def shown(self, ids: Ids) -> Ids:
        """Convert to users' ids: ``ids`` itself if users see the graph's own, else a new array."""
        if self._order is None:
            return ids
        return self._order[ids].astype(np.int64)

    def check_clear(self, name: str) -> None:
        """Raise InvalidArgumentError unless it is clear what users' own edge ids mean."""
        if not self._is_clear:
            raise InvalidArgumentError(f"{name}: {_WHICH_EDGES}")

    def own_known(self, shown_ids: Ids, name: str) -> Ids:
        """Convert users' ids to the graph's, leaving out any beyond the last edge."""
        known = shown_ids < self.end
        check_ids(np.where(known, shown_ids, 0), max(self.end, 1), name, "edges")  # negative ones
        return self.own(shown_ids[known], name)

    def own(self, shown_ids: Ids, name: str) -> Ids:
        """Convert users' ids to the graph's, checked."""
        check_ids(shown_ids, self.end, name, "edges")
        if self._order is None:
            return shown_ids
        tables = _inverses.setdefault(self._graph, {})
        inverse = tables.get(self._kind)
        if inverse is None:
            inverse = np.empty(self.end, self._order.dtype)
            inverse[self._order] = np.arange(self.end, dtype=self._order.dtype)
            tables[self._kind] = inverse
        return np.asarray(inverse[shown_ids].astype(np.int64))


def check_graph(graph: Any) -> None:
    """Raise InvalidArgumentError unless ``graph`` is one of our graphs."""
    if not isinstance(graph, AnyGraph):
        raise InvalidArgumentError(
            f"graph must be an aethergraph Graph or HeteroGraph, got {type(graph).__name__}"
            f"{_where_it_is(graph)}"
        )


def _where_it_is(graph: Any) -> str:
    if isinstance(getattr(graph, "graph", None), AnyGraph):
        return ", whose .graph is one"
    if hasattr(graph, "csc_indptr"):
        return ": from_fused_csc(graph) makes one"
    if hasattr(graph, "canonical_etypes"):
        return ": from_dgl(graph) makes one"
    return graph_hint(graph)


class Schema(core.Schema):
    """Types of a graph under DGL's names, sorted as DGL sorts them, and its numbers of edges.

    Args:
        graph: a graph of one type, whose names are then ``_N`` and ``_E``, or of many.
        edge_ids: ``"input"``, ``"graph"``, or None: ``"input"`` if the graph kept that order.
    """

    def __init__(self, graph: AnyGraph, edge_ids: Literal["input", "graph"] | None) -> None:
        check_graph(graph)
        super().__init__(graph)
        self.ntypes = sorted(self.node_types)
        self.canonical_etypes = sorted(self.edge_types)
        kept = all(self.edges(kind).edge_order is not None for kind in self.edge_types)
        if edge_ids is not None:
            edge_ids = as_choice(edge_ids, ("input", "graph"), "edge_ids")
        if edge_ids == "input" and not kept:
            raise InvalidArgumentError(
                f"edge_ids = 'input' takes {_KNOWING}; edge_ids='graph' is for any graph"
            )
        by_input = kept if edge_ids is None else edge_ids == "input"
        #: True if edge ids are rows of the input.
        self.are_input = by_input
        is_clear = kept or edge_ids is not None or not graph.renumbers_edges
        self.numbers = {
            kind: EdgeNumbers(graph, kind, self.edges(kind), self._end_of(kind), by_input, is_clear)
            for kind in self.edge_types
        }

    @property
    def is_homogeneous(self) -> bool:
        """True if there is one type of nodes and one of edges."""
        return len(self.node_types) == 1 and len(self.edge_types) == 1

    def _end_of(self, kind: EdgeType) -> Callable[[], int]:
        """Return a function that counts the edge ids of a type: once, unless they grow."""
        edges = self.edges(kind)
        topology = edges.topology("csr" if edges.layout == "csr" else "csc")
        if topology.is_live:
            return lambda: topology.end_edge_ids
        end = topology.end_edge_ids
        return lambda: end

    def num_edges(self, kind: EdgeType) -> int:
        """Return the number of edges of a type."""
        return self.edges(kind).num_edges

    # ---- names -----------------------------------------------------------------------------

    def ntype(self, name: str | None) -> str:
        """Check a node type; None stands for the only one."""
        if name is None and len(self.ntypes) == 1:
            return self.ntypes[0]
        if not isinstance(name, str) or name not in self.ntypes:
            known = ", ".join(map(repr, self.ntypes)) or "none"
            raise InvalidArgumentError(f"{shown(name)} is no node type; there are: {known}")
        return name

    def etype(self, name: Any) -> EdgeType:
        """Return the canonical edge type of a relation's unique name; None: of the only type."""
        if name is None and len(self.canonical_etypes) == 1:
            return self.canonical_etypes[0]
        matches = []
        if isinstance(name, str):
            matches = [kind for kind in self.canonical_etypes if name == kind[1]]
        elif isinstance(name, tuple) and all(isinstance(part, str) for part in name):
            matches = [kind for kind in self.canonical_etypes if name == kind]
        if len(matches) == 1:
            return matches[0]
        known = ", ".join(map(repr, self.canonical_etypes)) or "none"
        fault = "is the name of several edge types" if len(matches) > 1 else "is no edge type"
        raise InvalidArgumentError(f"{shown(name)} {fault}; there are: {known}")

    # ---- what users give -------------------------------------------------------------------

    def node_ids(self, nodes: Any, name: str) -> dict[str, Ids]:
        """Read ids by node type from a tensor, a mask or a dict; their range is not checked."""
        by_type = nodes if isinstance(nodes, Mapping) else {self._only_ntype(nodes, name): nodes}
        ids_by_type = {}
        for key, ids in by_type.items():
            ntype = self.ntype(key)
            ids_by_type[ntype] = _as_ids(ids, name, self.num_nodes, ntype)
        return ids_by_type

    def edge_ids(self, edges: Any, name: str) -> dict[EdgeType, Ids]:
        """Convert users' edge ids to the graph's own, by edge type.

        Raises:
            InvalidArgumentError: nobody can tell which edges are meant; says what to do.
        """
        return {
            kind: self.numbers[kind].own(ids, label)
            for kind, label, ids in self._given_edges(edges, name)
        }

    def excluded_ids(self, edges: Any, name: str) -> dict[EdgeType, Ids] | None:
        """Return the graph's own ids of edges that are not to be drawn; None if none are given.

        Ids beyond the last edge are ignored, as in DGL: there is nothing to leave out.

        Raises:
            InvalidArgumentError, OutOfRangeError: ids of another dtype or shape, or negative ones;
                or nobody can tell which edges are meant.
        """
        if edges is None:
            return None
        return {
            kind: self.numbers[kind].own_known(ids, label)
            for kind, label, ids in self._given_edges(edges, name)
        }

    def _given_edges(self, edges: Any, name: str) -> Iterator[tuple[EdgeType, str, Ids]]:
        """Yield edge type, name in messages and users' ids of what is given."""
        by_type = edges if isinstance(edges, Mapping) else {self._only_etype(edges, name): edges}
        for etype, ids in by_type.items():
            kind = self.etype(etype)
            label = name if self.is_homogeneous else f"{name}[{kind!r}]"
            shown_ids = _as_ids(ids, label, self.num_edges, kind)
            if len(shown_ids):
                self.numbers[kind].check_clear(label)
            yield kind, label, shown_ids

    def _only_ntype(self, nodes: Any, name: str) -> str:
        if len(self.ntypes) == 1:
            return self.ntypes[0]
        raise InvalidArgumentError(
            f"{name} must be a dict by node type, got {type(nodes).__name__}: there are "
            + ", ".join(map(repr, self.ntypes))
        )

    def _only_etype(self, edges: Any, name: str) -> EdgeType:
        if len(self.canonical_etypes) == 1:
            return self.canonical_etypes[0]
        raise InvalidArgumentError(
            f"{name} must be a dict by edge type, got {type(edges).__name__}: there are "
            + ", ".join(map(repr, self.canonical_etypes))
        )


def _as_ids(ids: Any, name: str, count_of: Callable[[Any], int], kind: Any) -> Ids:
    if isinstance(ids, Tensor) and ids.dtype != torch.bool:
        return seed_ids(ids, name) if ids.numel() else np.empty(0, np.int64)
    array = read_array(ids, name)
    if array.dtype == bool:
        count = count_of(kind)
        if array.shape != (count,):
            raise InvalidArgumentError(f"{name}: a mask needs shape ({count},), got {array.shape}")
        return np.flatnonzero(array)
    return as_ids(array, name) if array.size else np.empty(0, np.int64)
