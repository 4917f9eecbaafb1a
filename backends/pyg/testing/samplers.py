"""Contracts of PyG's ``BaseSampler`` over one node type and over many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from aethergraph import testing as core
from aethergraph.graph.graph import Graph
from aethergraph.graph.hetero import HeteroGraph
from aethergraph.pyg.testing.links import LinkRules
from aethergraph.testing.sample_rules import Instance
from aethergraph.testing.structure import KIND, NODE, EdgeType

__all__ = ["HeteroBaseSamplerContract", "BaseSamplerContract"]


class BaseSamplerContract(LinkRules):
    """Rules of ``torch_geometric.sampler.BaseSampler`` over one node type.

    ::

        class TestMySampler(BaseSamplerContract):
            supports = {"replace", "links"}

            def make(self, graph, num_neighbors, **options):
                stores = ...
                return stores, MySampler(stores, num_neighbors, **options)

    ``graph`` is an :class:`aethergraph.Graph` with the node attribute ``x``, which the stores must
    serve, with weights, and with integer times; options are those of
    :class:`aethergraph.testing.SamplerContract`. Declared options must work together, two at a
    time.

    Attributes:
        supports: words of :class:`aethergraph.testing.SamplerContract`, and ``"links"``: the
            sampler works in a ``LinkLoader``.
        num_workers: numbers of worker processes that loaders are tried with.
    """

    core = core.SamplerContract()

    def instances(self) -> list[Instance]:
        """Return the graphs of the core's contract that have many edges, with features."""
        names = ("many edges", "duplicate edges", "isolated nodes", "a hub")
        instances = [instance for instance in self.core.instances() if instance.name in names]
        for _, graph, _ in instances:
            self.add_features(graph)
        return instances

    def add_features(self, graph: Graph) -> None:
        """Set ``x`` to the node ids."""
        graph.features = np.arange(graph.num_nodes, dtype=np.float64)[:, None]

    def fanout_sets(self, graph: Graph) -> list[Any]:
        """Return lists of one number per hop."""
        return [[-1], [3, 2]]

    def by_kind(self, fanouts: Any) -> dict[EdgeType, Sequence[int]]:
        """Return the fanouts under the one edge type."""
        return {KIND: fanouts}

    def seed_kinds(self, graph: Graph) -> list[tuple[str, int]]:
        """Return the one node type."""
        return [(NODE, graph.num_nodes)]

    def input_nodes(self, kind: str, ids: Tensor) -> Tensor:
        """Return the ids alone."""
        return ids

    def node_store(self, batch: Any, kind: str) -> Any:
        """Return the batch itself."""
        return batch

    def edge_store(self, batch: Any, kind: EdgeType) -> Any:
        """Return the batch itself."""
        return batch


class HeteroBaseSamplerContract(LinkRules):
    """Rules of ``torch_geometric.sampler.BaseSampler`` over typed graphs.

    Used like :class:`BaseSamplerContract`, with an :class:`aethergraph.HeteroGraph` and a dict of
    fanouts by edge type, and without ``"bidirectional"``.
    """

    core = core.HeteroSamplerContract()
    #: PyG gives bidirectional batches of many types no edge ids, so there is nothing to compare.
    known = LinkRules.known - {"bidirectional"}

    def instances(self) -> list[Instance]:
        """Return the graphs of the core's contract that have nodes of every type and edges."""
        instances = list(self.core.instances())[2:]
        for _, graph, _ in instances:
            self.add_features(graph)
        return instances

    def add_features(self, graph: HeteroGraph) -> None:
        """Set ``x`` of all types to the node ids."""
        for kind, count in graph.num_nodes.items():
            graph[kind].features = np.arange(count, dtype=np.float64)[:, None]

    def fanout_sets(self, graph: HeteroGraph) -> list[Any]:
        """Return dicts of one number per hop, by edge type."""
        return self.core.fanout_sets(graph)[-2:]

    def by_kind(self, fanouts: Any) -> dict[EdgeType, Sequence[int]]:
        """Return the fanouts unchanged."""
        by_kind: dict[EdgeType, Sequence[int]] = fanouts
        return by_kind

    def seed_kinds(self, graph: HeteroGraph) -> list[tuple[str, int]]:
        """Return all node types."""
        return list(graph.num_nodes.items())

    def input_nodes(self, kind: str, ids: Tensor) -> tuple[str, Tensor]:
        """Return the ids with their type."""
        return kind, ids

    def node_store(self, batch: Any, kind: str) -> Any:
        """Return the batch's part of the type."""
        return batch[kind]

    def edge_store(self, batch: Any, kind: EdgeType) -> Any:
        """Return the batch's part of the type."""
        return batch[kind]
