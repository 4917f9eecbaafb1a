"""Rows of users' own sources in the batches of DGL's DataLoader and of GraphBolt."""

from __future__ import annotations

import pickle
from typing import Any

import dgl.graphbolt as gb
import numpy as np
import pytest
import torch
from support.serving import Serving

from aethergraph import CachedRows, LiveFeatureTable
from aethergraph.dgl import FeatureStorage
from aethergraph.dgl.graphbolt import Feature
from aethergraph.dgl.testing import RowLoadingContract
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.remote import open_source
from aethergraph.testing import broken_rules


class OwnRows:
    """The four members of a source, and nothing else."""

    def __init__(self, rows: Any, dtype: str = "float32") -> None:
        self.rows, self.dtype_name = rows, dtype
        self.shape, self.num_rows = rows.shape, len(rows)

    def gather(self, ids: Any, out: Any = None, dtype: Any = None) -> Any:
        return np.take(self.rows, ids, 0, out)


class WrongRows(OwnRows):
    def gather(self, ids: Any, out: Any = None, dtype: Any = None) -> Any:
        return self.rows[ids[1:]]


class TestOwnRows(RowLoadingContract):
    dtypes = ("float32", "float16", "bfloat16", "int64", "uint8", "bool")

    def make(self, rows: Any, dtype: str) -> Any:
        return OwnRows(rows, dtype)


class TestOwnRowsCached(TestOwnRows):
    def make(self, rows: Any, dtype: str) -> Any:
        return CachedRows(super().make(rows, dtype), "1K")


class TestRowsOfAServer(Serving, RowLoadingContract):
    dtypes = ("float32", "bfloat16", "int64")

    def make(self, rows: Any, dtype: str) -> Any:
        return open_source(self.serve(OwnRows(rows, dtype)))


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


def test_features_are_made_of_a_source() -> None:
    rows = np.random.default_rng(1).normal(size=(50, 3)).astype(np.float32)
    ids = torch.tensor([4, 4, 1])
    storage = FeatureStorage(OwnRows(rows))
    np.testing.assert_array_equal(storage.fetch(ids, "cpu").wait().numpy(), rows[ids.numpy()])
    feature = Feature(OwnRows(rows))
    assert isinstance(feature, gb.Feature) and feature.count() == 50
    for one in (feature, pickle.loads(pickle.dumps(feature))):
        np.testing.assert_array_equal(one.read(ids).numpy(), rows[ids.numpy()])
    with pytest.raises(UnsupportedError, match="not written"):
        feature.update(torch.zeros(3, 3), ids)
    with pytest.raises(InvalidArgumentError, match="WrongRows returned shape"):
        FeatureStorage(WrongRows(rows)).fetch(ids, "cpu").wait()
    with pytest.raises(InvalidArgumentError, match="WrongRows returned shape"):
        Feature(WrongRows(rows)).read(ids)
