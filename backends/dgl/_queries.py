"""Queries of a graph: types, counts, edges and degrees, under DGL's names.

Source followed: the methods of ``DGLGraph`` of the same names.
"""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

import dgl
from aethergraph._checks.arrays import as_ids
from aethergraph._checks.options import as_choice, shown
from aethergraph._torch.tensors import read_ids
from aethergraph.dgl._schema import Schema
from aethergraph.errors import UnsupportedError
from aethergraph.graph.ids import check_ids
from aethergraph.protocols import AnyGraph

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.graph.hetero import EdgeType

__all__ = ["Queries"]

Ids: TypeAlias = "NDArray[np.int64]"


class Queries:
    """Part of a :class:`GraphStorage` that draws nothing."""

    idtype: torch.dtype
    ntypes: list[str]
    canonical_etypes: list[EdgeType]
    _schema: Schema

    @property
    def graph(self) -> AnyGraph:
        """Graph below the storage."""
        return self._schema.graph

    @property
    def schema(self) -> Schema:
        """Types and names of the graph, for samplers."""
        return self._schema

    @property
    def is_homogeneous(self) -> bool:
        """True if there is one type of nodes and one of edges."""
        return self._schema.is_homogeneous

    def to_canonical_etype(self, etype: Any) -> EdgeType:
        """Return ``(source, relation, destination)`` of the name of a relation."""
        return self._schema.etype(etype)

    def num_nodes(self, ntype: str | None = None) -> int:
        """Return the number of nodes of a type; None: of all."""
        names = self.ntypes if ntype is None else [self._schema.ntype(ntype)]
        return sum(self._schema.num_nodes(name) for name in names)

    def num_edges(self, etype: Any = None) -> int:
        """Return the number of edges of a type; None: of all."""
        kinds = self.canonical_etypes if etype is None else [self._schema.etype(etype)]
        return sum(self._schema.num_edges(kind) for kind in kinds)

    number_of_nodes = num_nodes
    number_of_edges = num_edges

    # ---- edges and degrees ---------------------------------------------------------------

    def find_edges(self, eid: Any, etype: Any = None) -> tuple[Tensor, Tensor]:
        """Return source and destination of edges.

        Args:
            eid: ids [n], a mask [num_edges], or one integer.
            etype: the edge type, or the name of its relation.

        Returns:
            Two vectors [n] of ``idtype``, also for one integer, as in DGL.

        Raises:
            OutOfRangeError: an edge that does not exist, with its position.
            InvalidArgumentError: ids that are no integers, or another edge type.
        """
        kind = self._schema.etype(etype)
        own_ids = self._schema.edge_ids({kind: _vector(eid, "eid")}, "eid")[kind]
        src, dst = self._tensors(*self._schema.edges(kind).edge_ends(own_ids))
        return src, dst

    def edges(self, form: str = "uv", order: str = "eid", etype: Any = None) -> Any:
        """Return all edges: ``"uv"`` their ends, ``"eid"`` their ids, ``"all"`` both.

        ``order`` is ``"eid"`` or None; ``"srcdst"`` is refused.
        """
        form = as_choice(form, ("uv", "eid", "all"), "form")
        if order is not None and not (isinstance(order, str) and order == "eid"):
            raise UnsupportedError(
                f"order = {shown(order)}: edges come in the order of their ids; take 'eid' and "
                "sort them"
            )
        kind = self._schema.etype(etype)
        with self._schema.graph.reading():  # ids and ends of one commit
            ids = np.arange(self._schema.num_edges(kind))
            if form == "eid":
                return self._tensors(ids)[0]
            src, dst = self._schema.edges(kind).edge_index()
        if self._schema.numbers[kind].are_input:
            own_ids = self._schema.numbers[kind].own(ids, "eid")
            src, dst = src[own_ids], dst[own_ids]
        return self._tensors(src, dst, ids) if form == "all" else self._tensors(src, dst)

    all_edges = edges

    def has_edges_between(self, u: Any, v: Any, etype: Any = None) -> Tensor | bool:
        """Return whether there is an edge from ``u[i]`` to ``v[i]``.

        Args:
            u: sources [n], or one integer.
            v: destinations [n], or one integer.
            etype: the edge type, or the name of its relation.

        Returns:
            bool [n]; a bool for two integers.

        Raises:
            OutOfRangeError: a node that does not exist, with its position.
            InvalidArgumentError: ids that are no integers, or of two lengths.
        """
        edges = self._schema.edges(self._schema.etype(etype))
        is_edge = edges.has_edges(_vector(u, "u"), _vector(v, "v"))
        return bool(is_edge[0]) if _is_one(u) and _is_one(v) else torch.from_numpy(is_edge)

    def in_degrees(self, v: Any = "__ALL__", etype: Any = None) -> Tensor | int:
        """Return in-degrees; layout "csr" counts all edges for them.

        Args:
            v: nodes [n] of the destination type, or one integer; by default all nodes.
            etype: the edge type, or the name of its relation.

        Returns:
            A vector [n] of ``idtype``; an int for one integer.

        Raises:
            OutOfRangeError: a node that does not exist, with its position.
            InvalidArgumentError: ids that are no integers, or another edge type.
        """
        kind = self._schema.etype(etype)
        edges, count = self._schema.edges(kind), self._schema.num_nodes(kind[2])
        nodes = _some(v, count, "v")
        if edges.layout != "csr":
            return self._degrees(edges.in_degrees(nodes), v)
        return self._degrees(_count(edges.neighbor_ids("csr"), count, nodes), v)

    def out_degrees(self, u: Any = "__ALL__", etype: Any = None) -> Tensor | int:
        """Return out-degrees; layout "csc" counts all edges for them.

        Args:
            u: nodes [n] of the source type, or one integer; by default all nodes.
            etype: the edge type, or the name of its relation.

        Returns:
            A vector [n] of ``idtype``; an int for one integer.

        Raises:
            OutOfRangeError: a node that does not exist, with its position.
            InvalidArgumentError: ids that are no integers, or another edge type.
        """
        kind = self._schema.etype(etype)
        edges, count = self._schema.edges(kind), self._schema.num_nodes(kind[0])
        nodes = _some(u, count, "u")
        if edges.layout != "csc":
            return self._degrees(edges.out_degrees(nodes), u)
        return self._degrees(_count(edges.neighbor_ids("csc"), count, nodes), u)

    def _degrees(self, degrees: Ids, nodes: Any) -> Tensor | int:
        return int(degrees[0]) if _is_one(nodes) else self._tensors(degrees)[0]

    def _tensors(self, *arrays: Ids) -> tuple[Tensor, ...]:
        return tuple(torch.from_numpy(np.ascontiguousarray(a)).to(self.idtype) for a in arrays)


def _is_one(ids: Any) -> bool:
    """Return whether this is one id for DGL: a tensor without dimensions is a vector of one."""
    return isinstance(ids, Integral)


def _vector(ids: Any, name: str) -> Any:
    """Return ids or a mask as an array; one id as a vector of one."""
    return np.atleast_1d(read_ids(ids, name))


def _some(nodes: Any, count: int, name: str) -> Ids | None:
    """Return checked nodes; None: all nodes."""
    if nodes is None or (isinstance(nodes, str) and nodes == dgl.ALL):
        return None
    ids = as_ids(_vector(nodes, name), name)
    check_ids(ids, count, name)
    return ids


def _count(far: NDArray[Any], num_nodes: int, nodes: Ids | None) -> Ids:
    """Count degrees on the side that has no lists, over all edges."""
    if far.dtype == np.uint64:
        far = far.view(np.int64)  # ids are below 2^63, and bincount takes no uint64
    degrees = np.bincount(far, minlength=num_nodes).astype(np.int64)
    return degrees if nodes is None else degrees[nodes]
