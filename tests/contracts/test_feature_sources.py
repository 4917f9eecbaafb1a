"""Every feature source of ours keeps the contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aethergraph import FeatureStore
from aethergraph.testing import FeatureSourceContract

NUMPY_DTYPES = (
    "float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint32",
    "uint64", "bool",
)  # fmt: skip


class Ours(FeatureSourceContract):
    supports = {"widen"}
    dtypes = NUMPY_DTYPES

    @pytest.fixture(autouse=True)
    def use_folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        self.count = 0

    def path(self, suffix: str) -> Path:
        self.count += 1
        return self.folder / f"{self.count}.{suffix}"


class TestArray(Ours):
    dtypes = (*NUMPY_DTYPES, "bfloat16")

    def make(self, rows: Any, dtype: str) -> Any:
        return FeatureStore.from_array(rows, dtype="bfloat16" if dtype == "bfloat16" else None)


class TestArrayWithRowsApart(Ours):
    def make(self, rows: Any, dtype: str) -> Any:
        apart = np.zeros((2 * len(rows), *rows.shape[1:]), rows.dtype)
        apart[::2] = rows
        return FeatureStore.from_array(apart[::2])


class TestNpyFile(Ours):
    def make(self, rows: Any, dtype: str) -> Any:
        path = self.path("npy")
        np.save(path, rows)
        return FeatureStore.load(path)


class TestNativeFile(TestArray):
    def make(self, rows: Any, dtype: str) -> Any:
        path = self.path("aeg")
        super().make(rows, dtype).save(path)
        return FeatureStore.load(path)


class TestNativeFileInMemory(TestNativeFile):
    dtypes = ("bfloat16", "float32", "int64")

    def make(self, rows: Any, dtype: str) -> Any:
        return FeatureStore.load(super().make(rows, dtype).path, storage="memory")


class TestNpyFileRead(Ours):
    """Rows read when they are gathered, within a budget that holds few of them."""

    def make(self, rows: Any, dtype: str) -> Any:
        path = self.path("npy")
        np.save(path, rows)
        return FeatureStore.load(path, "uring", memory_budget="256K")


class TestNativeFileRead(TestArray):
    def make(self, rows: Any, dtype: str) -> Any:
        path = self.path("aeg")
        super().make(rows, dtype).save(path)
        hot = np.arange(len(rows))[::-3]
        return FeatureStore.load(path, "uring", memory_budget="1M", hot=hot)
