"""Rows of users' own sources in the batches of DGL's DataLoader and of GraphBolt."""

from __future__ import annotations

import pickle
from typing import Any

import dgl.graphbolt as gb
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
from support.serving import Serving

from aethergraph.dgl import FeatureStorage
from aethergraph.dgl.graphbolt import Feature
from aethergraph.dgl.testing import FeatureStorageContract
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.remote import open_source


class TestOwnRows(OfOwnRows, FeatureStorageContract):
    pass


class TestOwnRowsCached(OfCachedRows, FeatureStorageContract):
    pass


class TestLiveTable(OfLiveTable, FeatureStorageContract):
    pass


class TestRowsOfAServer(Serving, FeatureStorageContract):
    dtypes = ("float32", "bfloat16", "int64")

    def make(self, rows: Any, dtype: str) -> Any:
        return open_source(self.serve(OwnRows(rows, dtype)))


def test_the_contract_finds_wrong_rows() -> None:
    assert_wrong_rows_are_found(FeatureStorageContract)


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
