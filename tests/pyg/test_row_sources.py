"""Rows of users' own sources in the batches of PyG's loaders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.loader import NodeLoader

from aethergraph import CachedRows, FeatureStore, Graph, LiveFeatureTable
from aethergraph.errors import InvalidArgumentError
from aethergraph.pyg import FeatureStore as PyGFeatureStore
from aethergraph.pyg import GraphStore, NeighborLoader, NeighborSampler
from aethergraph.pyg.testing import RowLoadingContract
from aethergraph.testing import broken_rules

DTYPES = ("float32", "float16", "bfloat16", "int64", "uint8", "bool")


class OwnRows:
    """The four members of a source, and nothing else."""

    def __init__(self, rows: Any, dtype: str) -> None:
        self.rows, self.dtype_name = rows, dtype
        self.shape, self.num_rows = rows.shape, len(rows)

    def gather(self, ids: Any, out: Any = None, dtype: Any = None) -> Any:
        return np.take(self.rows, ids, 0, out)


class TestOwnRows(RowLoadingContract):
    dtypes = DTYPES

    def make(self, rows: Any, dtype: str) -> Any:
        return OwnRows(rows, dtype)


class TestOwnRowsCached(TestOwnRows):
    def make(self, rows: Any, dtype: str) -> Any:
        return CachedRows(super().make(rows, dtype), "1K")


class TestFile(RowLoadingContract):
    dtypes = DTYPES

    @pytest.fixture(autouse=True)
    def use_folder(self, tmp_path: Path) -> None:
        self.folder, self.count = tmp_path, 0

    def make(self, rows: Any, dtype: str) -> Any:
        self.count += 1
        path = self.folder / f"{self.count}.aeg"
        bits = "bfloat16" if dtype == "bfloat16" else None
        FeatureStore.from_array(rows, dtype=bits).save(path)
        return FeatureStore.load(path, "uring", memory_budget="256K")


class WrongRows(OwnRows):
    """Forgets a row whenever it is asked for more than one."""

    def gather(self, ids: Any, out: Any = None, dtype: Any = None) -> Any:
        return self.rows[ids[1:]]


class TestLiveTable(TestOwnRows):
    """Rows that could change, in shared memory."""

    def make(self, rows: Any, dtype: str) -> Any:
        table = LiveFeatureTable.create(None, len(rows), rows.shape[1:], dtype)
        table.put_many(np.arange(len(rows)), rows)
        return table


def test_the_contract_finds_wrong_rows() -> None:
    class Mutant(RowLoadingContract):
        def make(self, rows: Any, dtype: str) -> Any:
            return WrongRows(rows, dtype)

    broken = broken_rules(Mutant)
    assert len(broken) == 3
    for message in broken.values():
        assert "WrongRows returned shape" in message, message


def pair_of(source: Any) -> tuple[PyGFeatureStore, GraphStore]:
    at = np.arange(source.num_rows)
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
