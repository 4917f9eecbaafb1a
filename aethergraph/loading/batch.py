"""Batch, HeteroBatch: what loaders without a framework give."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aethergraph.protocols import SampledSubgraph

if TYPE_CHECKING:
    from aethergraph.graph.hetero import EdgeType
    from aethergraph.sampling.hetero import HeteroSubgraph

__all__ = ["Batch", "HeteroBatch"]

Ids = NDArray[np.int64]
Rows = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Batch:
    """Mini-batch: a sampled subgraph with the attributes of its nodes and edges.

    Attributes:
        subgraph: the sample; its first ``batch_size`` nodes are the seeds.
        seeds: int64 [batch_size], node ids.
        index: int64 [batch_size], positions of the seeds in the loader's ``seeds``.
        node_attrs: arrays by name, one row per ``subgraph.node``.
        edge_attrs: arrays by name, one row per ``subgraph.edge``.
    """

    subgraph: SampledSubgraph
    seeds: Ids
    index: Ids
    node_attrs: Rows = field(default_factory=dict)
    edge_attrs: Rows = field(default_factory=dict)

    @property
    def batch_size(self) -> int:
        """Number of seeds."""
        return int(self.seeds.shape[0])

    @property
    def x(self) -> NDArray[Any] | None:
        """``node_attrs["x"]``, or None."""
        return self.node_attrs.get("x")

    @property
    def y(self) -> NDArray[Any] | None:
        """``node_attrs["y"]``, or None."""
        return self.node_attrs.get("y")

    @property
    def edge_index(self) -> Ids:
        """Local ids of the edges' ends, int64 [2, E]: source over destination."""
        return np.stack((self.subgraph.row, self.subgraph.col))


@dataclass(frozen=True, eq=False)
class HeteroBatch:
    """Mini-batch of a typed graph: everything that a :class:`Batch` has, by type.

    Attributes:
        subgraph: the sample; the first ``len(seeds[t])`` nodes of type t are its seeds.
        seeds: int64 by node type, ids of the seeds; types of the loader's ``seeds`` alone.
        index: int64 by node type, positions of the seeds in the loader's ``seeds[t]``.
        node_attrs: by node type and name, one row per ``subgraph.node[t]``.
        edge_attrs: by edge type and name, one row per ``subgraph.edge[t]``.
    """

    subgraph: HeteroSubgraph
    seeds: dict[str, Ids]
    index: dict[str, Ids]
    node_attrs: dict[str, Rows] = field(default_factory=dict)
    edge_attrs: dict[EdgeType, Rows] = field(default_factory=dict)

    @property
    def batch_size(self) -> int:
        """Number of seeds of all types."""
        return sum(map(len, self.seeds.values()))

    @property
    def x(self) -> Rows:
        """``node_attrs[t]["x"]`` by node type, of the types that have it."""
        return self._named("x")

    @property
    def y(self) -> Rows:
        """``node_attrs[t]["y"]`` by node type, of the types that have it."""
        return self._named("y")

    def _named(self, name: str) -> Rows:
        return {t: rows[name] for t, rows in self.node_attrs.items() if name in rows}

    @property
    def edge_index(self) -> dict[EdgeType, Ids]:
        """Local ids of the edges' ends by edge type, int64 [2, E]: source over destination."""
        sub = self.subgraph
        return {kind: np.stack((row, sub.col[kind])) for kind, row in sub.row.items()}
