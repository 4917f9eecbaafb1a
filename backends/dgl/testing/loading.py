"""Contract of feature sources in the batches of DGL's DataLoader and of GraphBolt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

import dgl
import dgl.graphbolt as gb
from aethergraph._torch.tensors import as_numpy
from aethergraph.dgl.graphbolt import FeatureStore, SamplingGraph
from aethergraph.dgl.sampler import NeighborSampler
from aethergraph.dgl.storage import GraphStorage
from aethergraph.testing.loading import Attributed, LoadingRules
from aethergraph.testing.rules import equal, given, require
from dgl.dataloading import DataLoader

__all__ = ["FeatureStorageContract"]

_BATCHES = 4


class FeatureStorageContract(LoadingRules):
    """Rules about a :class:`aethergraph.protocols.FeatureSource` in batches of DGL.

    Put beside the contract of the source itself, whose ``make`` and ``dtypes`` it shares::

        class TestMyRows(FeatureSourceContract, FeatureStorageContract):
            def make(self, rows, dtype):
                return MyRows(rows)
    """

    def test_a_dgl_loader_gathers_its_rows(self) -> None:
        """DGL's DataLoader prefetches the rows of nodes and of edges into its blocks."""
        for case in self._of_torch():
            sampler = NeighborSampler([2, 2], prefetch_node_feats=["x"], prefetch_edge_feats=["e"])
            graph = GraphStorage(case.graph)
            loader = DataLoader(graph, torch.arange(case.graph.num_nodes), sampler, batch_size=8)
            count = 0
            for input_nodes, _, blocks in loader:
                first = blocks[0]
                nodes, edges = input_nodes.numpy(), first.edata[dgl.EID].numpy()
                _check(first.srcdata["x"], case.node_rows[nodes], 'srcdata["x"]')
                _check(first.edata["e"], case.edge_rows[edges], 'edata["e"]')
                count += 1
            require(count == _BATCHES, f"{_BATCHES} batches are due, found {count}")

    def test_graphbolt_fetches_its_rows(self) -> None:
        """GraphBolt's ``fetch_feature`` over our FeatureStore fetches the rows of the nodes."""
        for case in self._of_torch():
            items = gb.ItemSet(torch.arange(case.graph.num_nodes), names="seed_nodes")
            pipe = gb.ItemSampler(items, batch_size=8)
            pipe = pipe.sample_neighbor(SamplingGraph(case.graph), [2, 2])
            pipe = pipe.fetch_feature(FeatureStore(case.graph), node_feature_keys=["x"])
            count = 0
            for batch in gb.DataLoader(pipe):
                nodes = case.node_rows[batch.input_nodes.numpy()]
                _check(batch.node_features["x"], nodes, 'node_features["x"]')
                count += 1
            require(count == _BATCHES, f"{_BATCHES} batches are due, found {count}")

    def test_features_of_graphbolt_are_its_rows(self) -> None:
        """A GraphBolt feature of the source reads all rows, and the rows of ids."""
        for case in self._of_torch():
            feature = FeatureStore(case.graph)
            _check(feature.read("node", None, "x"), case.node_rows, "read()")
            _check(feature.read("edge", None, "e"), case.edge_rows, "read()")
            ids = torch.tensor([4, 4, 1])
            _check(feature.read("edge", None, "e", ids), case.edge_rows[ids.numpy()], "read(ids)")

    def _of_torch(self) -> Iterator[Attributed]:
        return (case for case in self.attributed() if hasattr(torch, case.dtype))


def _check(rows: Tensor, expected: NDArray[Any], label: str) -> None:
    with given(f"rows of {rows.dtype}"):
        equal(as_numpy(rows).view(expected.dtype), expected, label)
