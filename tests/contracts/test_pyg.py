"""Our adapters for PyG keep its contracts, and mutants of them do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from aethergraph import FeatureTable, Graph, HeteroGraph
from aethergraph.pyg import FeatureStore, GraphStore, HeteroNeighborSampler, NeighborSampler
from aethergraph.pyg.testing import (
    BaseSamplerContract,
    FeatureStoreContract,
    GraphStoreContract,
    HeteroBaseSamplerContract,
)

pytestmark = pytest.mark.pyg

OPTIONS = {
    "replace", "disjoint", "induced", "bidirectional", "weight", "time", "node_time", "last",
    "strict", "window", "links",
}  # fmt: skip


class TestFeatureStore(FeatureStoreContract):
    supports = {"put", "typed"}

    def make(self, tensors: Any) -> Any:
        store = FeatureStore()
        for (group, name), tensor in tensors.items():
            store.put_tensor(tensor, group, name, index=None)
        return store


class TestFeatureStoreOverAGraph(FeatureStoreContract):
    supports = {"put"}

    def make(self, tensors: Any) -> Any:
        graph = Graph.from_edges(40, [0], [1])
        for (_, name), tensor in tensors.items():
            graph.node_attrs[name] = tensor
        return FeatureStore.from_graph(graph)


class TestFeatureStoreOverFiles(FeatureStoreContract):
    @pytest.fixture(autouse=True)
    def use_folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def make(self, tensors: Any) -> Any:
        graph = Graph.from_edges(40, [0], [1])
        for (_, name), tensor in tensors.items():
            FeatureTable.from_array(tensor).save(self.folder / name)
            graph.load_features(self.folder / name, name)
        return FeatureStore.from_graph(graph)


class OverGraph(GraphStoreContract):
    layout: Any = "csc"

    def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
        return GraphStore(Graph.from_edges(num_nodes, src, dst, layout=self.layout))


class TestGraphStoreCSC(OverGraph):
    pass


class TestGraphStoreCSR(OverGraph):
    layout = "csr"


class TestGraphStoreBoth(OverGraph):
    layout = "both"


class TestGraphStoreInACompressedFile(GraphStoreContract):
    @pytest.fixture(autouse=True)
    def use_folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "graph.aeg"

    def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
        Graph.from_edges(num_nodes, src, dst, layout="both").save(self.path, compress=True)
        return GraphStore(Graph.load(self.path))


class TestGraphStoreOfTensors(GraphStoreContract):
    def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
        store = GraphStore()
        pair = torch.from_numpy(src), torch.from_numpy(dst)
        store.put_edge_index(pair, edge_type=None, layout="coo", size=(num_nodes, num_nodes))
        return store


class TestSampler(BaseSamplerContract):
    supports = OPTIONS

    def make(self, graph: Any, num_neighbors: Any, **options: Any) -> Any:
        stores = FeatureStore.from_graph(graph), GraphStore(graph)
        return stores, NeighborSampler(stores, num_neighbors, num_threads=2, **options)


class TestTypedSampler(HeteroBaseSamplerContract):
    """Over files; the untyped one is over memory. The core's samplers have all storages of both."""

    supports = OPTIONS - {"bidirectional"}

    @pytest.fixture(autouse=True)
    def use_folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "graph.aeg"

    def make(self, graph: Any, num_neighbors: Any, **options: Any) -> Any:
        assert isinstance(graph, HeteroGraph)
        graph.save(self.path)
        loaded = HeteroGraph.load(self.path)
        stores = FeatureStore.from_graph(loaded), GraphStore(loaded)
        return stores, HeteroNeighborSampler(stores, num_neighbors, **options)
