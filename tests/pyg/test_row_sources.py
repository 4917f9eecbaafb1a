"""Rows of users' own sources in the batches of PyG's loaders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.row_sources import (
    OfCachedRows,
    OfLiveTable,
    OfOwnRows,
    OwnRows,
    WrongRows,
    assert_wrong_rows_are_found,
)
from torch_geometric.loader import NodeLoader

from aethergraph import FeatureTable, Graph
from aethergraph.errors import InvalidArgumentError
from aethergraph.pyg import FeatureStore as PyGFeatureStore
from aethergraph.pyg import GraphStore, NeighborLoader, NeighborSampler
from aethergraph.pyg.testing import RowLoadingContract


class TestOwnRows(OfOwnRows, RowLoadingContract):
    pass


class TestOwnRowsCached(OfCachedRows, RowLoadingContract):
    pass


class TestLiveTable(OfLiveTable, RowLoadingContract):
    pass


class TestFile(RowLoadingContract):
    dtypes = ("float32", "bfloat16")

    @pytest.fixture(autouse=True)
    def use_folder(self, tmp_path: Path) -> None:
        self.folder, self.count = tmp_path, 0

    def make(self, rows: Any, dtype: str) -> Any:
        self.count += 1
        path = self.folder / f"{self.count}.aeg"
        bits = "bfloat16" if dtype == "bfloat16" else None
        FeatureTable.from_array(rows, dtype=bits).save(path)
        return FeatureTable.load(path, "uring", memory_budget="256K")


def test_the_contract_finds_wrong_rows() -> None:
    assert_wrong_rows_are_found(RowLoadingContract)


def pair_of(source: Any) -> tuple[PyGFeatureStore, GraphStore]:
    at = np.arange(source.shape[0])
    graph = Graph.from_edges(len(at), at, (at + 1) % len(at))
    graph.node_attrs["x"] = source
    return PyGFeatureStore.from_graph(graph), GraphStore(graph)


def test_worker_processes_gather_from_a_source() -> None:
    rows = np.random.default_rng(1).normal(size=(50, 3)).astype(np.float32)
    stores = pair_of(OwnRows(rows, "float32"))
    loader = NodeLoader(
        stores, NeighborSampler(stores, [2]), torch.arange(50), batch_size=20, num_workers=1,
        filter_per_worker=True,
    )  # fmt: skip
    for batch in loader:
        np.testing.assert_array_equal(batch.x.numpy(), rows[batch.n_id.numpy()])


def test_a_source_in_the_place_of_a_feature_store_is_refused() -> None:
    source = OwnRows(np.zeros((4, 2), np.float32), "float32")
    graph = Graph.from_edges(4, [0], [1])
    with pytest.raises(InvalidArgumentError, match="such as OwnRows, holds one attribute"):
        NeighborLoader((source, graph), [2])


def test_a_wrong_result_ends_the_epoch_with_its_name() -> None:
    stores = pair_of(WrongRows(np.zeros((50, 2), np.float32), "float32"))
    with pytest.raises(InvalidArgumentError, match="WrongRows returned shape"):
        list(NeighborLoader(stores, [2], batch_size=20))
