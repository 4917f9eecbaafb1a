"""Every feature source of ours keeps the contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.serving import Serving

from aethergraph import CachedRows, FeatureTable, LiveFeatureTable, OrderedRows
from aethergraph.remote import open_source
from aethergraph.testing import FeatureSourceContract, broken_rules

NUMPY_DTYPES = (
    "float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint32",
    "uint64", "bool",
)  # fmt: skip


class Ours(FeatureSourceContract):
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
        return FeatureTable.from_array(rows, dtype="bfloat16" if dtype == "bfloat16" else None)


class TestArrayWithRowsApart(Ours):
    def make(self, rows: Any, dtype: str) -> Any:
        apart = np.zeros((2 * len(rows), *rows.shape[1:]), rows.dtype)
        apart[::2] = rows
        return FeatureTable.from_array(apart[::2])


class TestNpyFile(Ours):
    def make(self, rows: Any, dtype: str) -> Any:
        path = self.path("npy")
        np.save(path, rows)
        return FeatureTable.load(path)


class TestNativeFile(TestArray):
    def make(self, rows: Any, dtype: str) -> Any:
        path = self.path("aeg")
        super().make(rows, dtype).save(path)
        return FeatureTable.load(path)


class TestNativeFileInMemory(TestNativeFile):
    dtypes = ("bfloat16", "float32", "int64")

    def make(self, rows: Any, dtype: str) -> Any:
        return FeatureTable.load(super().make(rows, dtype).path, storage="memory")


class TestNpyFileRead(Ours):
    """Rows read when they are gathered, within a budget that holds few of them."""

    def make(self, rows: Any, dtype: str) -> Any:
        path = self.path("npy")
        np.save(path, rows)
        return FeatureTable.load(path, "uring", memory_budget="256K")


class TestNativeFileRead(TestArray):
    def make(self, rows: Any, dtype: str) -> Any:
        path = self.path("aeg")
        super().make(rows, dtype).save(path)
        hot = np.arange(len(rows))[::-3]
        return FeatureTable.load(path, "uring", memory_budget="1M", hot=hot)


class TestCached(TestArray):
    """A cache that holds some of the rows, in front of a store."""

    def make(self, rows: Any, dtype: str) -> Any:
        return CachedRows(super().make(rows, dtype), "20K")


class TestCachedFile(TestNativeFileRead):
    dtypes = ("bfloat16", "float32")

    def make(self, rows: Any, dtype: str) -> Any:
        return CachedRows(super().make(rows, dtype), "1M")


class TestOrdered(TestArray):
    """Rows that lie in another order."""

    def make(self, rows: Any, dtype: str) -> Any:
        order = np.random.default_rng(1).permutation(len(rows))
        return OrderedRows(super().make(rows[order], dtype), order)


class TestOrderedFile(TestNativeFileRead):
    dtypes = ("bfloat16", "float32")

    def make(self, rows: Any, dtype: str) -> Any:
        order = np.random.default_rng(1).permutation(len(rows))
        return OrderedRows(super().make(rows[order], dtype), order)


class TestRemote(Serving, TestArray):
    """A client of a server in this process."""

    def make(self, rows: Any, dtype: str) -> Any:
        return open_source(self.serve(super().make(rows, dtype), unix=self.path("sock")))


class TestRemoteShards(Serving, Ours):
    """A client of three servers that have a third of the rows each."""

    dtypes = ("float32", "int64")

    def make(self, rows: Any, dtype: str) -> Any:
        places = [self.serve(rows, port=0, shard=(k, 3)) for k in range(3)]
        return open_source(f"tcp://{','.join(one.removeprefix('tcp://') for one in places)}")


class TestLiveTable(TestArray):
    """Rows that could change, in shared memory."""

    def make(self, rows: Any, dtype: str) -> Any:
        table = LiveFeatureTable.create(None, len(rows), rows.shape[1:], dtype, check=True)
        assert table.put_many(np.arange(len(rows)), rows) == len(rows)
        return table


class TestLiveTableInFile(TestLiveTable):
    dtypes = ("float16", "bfloat16", "int64")

    def make(self, rows: Any, dtype: str) -> Any:
        path = self.path("aet")
        table = LiveFeatureTable.create(path, len(rows), rows.shape[1:], dtype)
        table.put_many(np.arange(len(rows)), rows)
        return LiveFeatureTable.open(path, writable=False)


def test_a_capability_that_gives_other_rows_is_found() -> None:
    class Shifted(CachedRows):
        def read(self, start: int, stop: int) -> Any:
            return super().read(max(0, start - 1), max(0, stop - 1))

    class Mutant(FeatureSourceContract):
        def make(self, rows: Any, dtype: str) -> Any:
            return Shifted(rows)

        test_it_pickles = None  # type: ignore[assignment]  # a local class

    broken = broken_rules(Mutant)
    assert set(broken) == {
        "test_what_a_row_source_offers_is_its_rows",
        "test_a_graph_saves_its_rows",
    }
    assert "read(start, stop)" in broken["test_what_a_row_source_offers_is_its_rows"]
