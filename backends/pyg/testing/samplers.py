"""The contracts of PyG's ``BaseSampler``: of one node type and of many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from aethergraph import testing as core
from aethergraph.graph import Graph
from aethergraph.hetero import HeteroGraph
from aethergraph.pyg.testing.links import LinkRules
from aethergraph.testing.samples import Instance
from aethergraph.testing.structure import KIND, NODE, EdgeType

__all__ = ["HeteroSamplerContract", "SamplerContract"]


class SamplerContract(LinkRules):
    """Rules of ``torch_geometric.sampler.BaseSampler`` over one node type.

    ::

        class TestMySampler(SamplerContract):
            supports = {"replace", "links"}

            def make(self, graph, num_neighbors, **options):
                stores = ...
                return stores, MySampler(stores, num_neighbors, **options)

    ``graph`` is an :class:`aethergraph.Graph` with the node attribute ``x``, which the stores must
    serve, with weights, and with integer times; options are those of
    :class:`aethergraph.testing.SamplerContract`. What is declared must work together, two at a
    time.

    Attributes:
        supports: words as there, and ``"links"``: the sampler works in a ``LinkLoader``.
        num_workers: numbers of worker processes that loaders are tried with.
    """

    core = core.SamplerContract()

    def instances(self) -> list[Instance]:
        """Those of the core's contract that have edges to speak of."""
        names = ("many edges", "duplicate edges", "isolated nodes", "a hub")
        found = [one for one in self.core.instances() if one.name in names]
        for _, graph, _ in found:
            self.add_features(graph)
        return found

    def add_features(self, graph: Graph) -> None:
        """The ids."""
        graph.features = np.arange(graph.num_nodes, dtype=np.float64)[:, None]

    def fanout_sets(self, graph: Graph) -> list[Any]:
        """One number per hop."""
        return [[-1], [3, 2]]

    def by_kind(self, fanouts: Any) -> dict[EdgeType, Sequence[int]]:
        """The one edge type."""
        return {KIND: fanouts}

    def seed_kinds(self, graph: Graph) -> list[tuple[str, int]]:
        """The one node type."""
        return [(NODE, graph.num_nodes)]

    def input_nodes(self, kind: str, ids: Tensor) -> Tensor:
        """The ids."""
        return ids

    def node_store(self, batch: Any, kind: str) -> Any:
        """The batch."""
        return batch

    def edge_store(self, batch: Any, kind: EdgeType) -> Any:
        """The batch."""
        return batch


class HeteroSamplerContract(LinkRules):
    """Rules of ``torch_geometric.sampler.BaseSampler`` over many types, by edge type.

    As :class:`SamplerContract`, with an :class:`aethergraph.HeteroGraph` and a dict of fanouts,
    and without ``"bidirectional"``.
    """

    core = core.HeteroSamplerContract()
    #: PyG gives bidirectional batches of many types no edge ids, so there is nothing to compare.
    known = LinkRules.known - {"bidirectional"}

    def instances(self) -> list[Instance]:
        """Those of the core's contract that have nodes of every type and edges."""
        found = list(self.core.instances())[2:]
        for _, graph, _ in found:
            self.add_features(graph)
        return found

    def add_features(self, graph: HeteroGraph) -> None:
        """The ids, for all types."""
        for kind, count in graph.num_nodes.items():
            graph[kind].features = np.arange(count, dtype=np.float64)[:, None]

    def fanout_sets(self, graph: HeteroGraph) -> list[Any]:
        """By edge type a number per hop."""
        return self.core.fanout_sets(graph)[-2:]

    def by_kind(self, fanouts: Any) -> dict[EdgeType, Sequence[int]]:
        """As they are."""
        by_kind: dict[EdgeType, Sequence[int]] = fanouts
        return by_kind

    def seed_kinds(self, graph: HeteroGraph) -> list[tuple[str, int]]:
        """All node types."""
        return list(graph.num_nodes.items())

    def input_nodes(self, kind: str, ids: Tensor) -> tuple[str, Tensor]:
        """With their type."""
        return kind, ids

    def node_store(self, batch: Any, kind: str) -> Any:
        """The batch's part of that type."""
        return batch[kind]

    def edge_store(self, batch: Any, kind: EdgeType) -> Any:
        """The batch's part of that type."""
        return batch[kind]
