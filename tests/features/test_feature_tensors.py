"""torch over our memory, which outlives the store, the file and its name, and no buffer's use."""

from __future__ import annotations

import gc
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aethergraph import FeatureTable, Graph, errors
from aethergraph.loading.buffers import BufferPool

torch: Any = pytest.importorskip("torch")

DTYPES = [
    "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint32", "bool",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _no_warnings() -> Any:
    """torch warns of read-only arrays: users of the tensor need not hear of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["array", "npy", "native"])
def test_same_rows_same_memory(dtype: str, kind: str, tmp_path: Path) -> None:
    if dtype == "uint32" and not hasattr(torch, "uint32"):
        pytest.skip("this torch has no uint32")
    for shape in [(7,), (7, 2, 2), (0, 4), (5, 0)]:
        rows = (np.random.default_rng(1).random(shape) * 100).astype(dtype)
        store = FeatureTable.from_array(rows)
        if kind != "array":
            path = tmp_path / ("x.npy" if kind == "npy" else "x.bin")
            store.save(path)
            store = FeatureTable.load(path)
        tensor = store.tensor()
        assert tensor.shape == shape and tensor.dtype == getattr(torch, dtype)
        np.testing.assert_array_equal(tensor.numpy(), rows)
        if rows.size:
            assert tensor.data_ptr() == store.array.__array_interface__["data"][0]


def test_bfloat16(tmp_path: Path) -> None:
    rows = torch.rand(6, 4).to(torch.bfloat16)
    FeatureTable.from_array(rows).save(tmp_path / "x.bin")
    tensor = FeatureTable.load(tmp_path / "x.bin").tensor()
    assert tensor.dtype == torch.bfloat16 and torch.equal(tensor, rows)


def test_rows_that_lie_apart() -> None:
    rows = np.arange(60.0).reshape(10, 6)[::2, :4]
    tensor = FeatureTable.from_array(rows).tensor()
    assert tensor.stride() == (12, 1) and (tensor.numpy() == rows).all()


@pytest.mark.parametrize("name", ["x.npy", "x.bin", "graph"])
def test_outlives_close_unlink_and_collection(name: str, tmp_path: Path) -> None:
    rows = np.random.default_rng(2).random((5000, 40), np.float32)
    path = tmp_path / name
    if name == "graph":
        graph = Graph.from_edges(5000, [0], [1])
        graph.features = rows
        graph.save(path)
        graph = Graph.load(path)
        store: Any = graph.features
        tensor = store.tensor()
        store.close()
        graph.close()
        del graph
    else:
        FeatureTable.from_array(rows).save(path)
        store = FeatureTable.load(path)
        tensor = store.tensor()
        store.close()
    path.unlink()
    del store
    gc.collect()
    part = tensor[10:4000:7]
    del tensor
    gc.collect()
    filler = [np.full((5000, 40), 7.0, np.float32) for _ in range(20)]  # would land in freed memory
    np.testing.assert_array_equal(part.numpy(), rows[10:4000:7])
    assert len(filler) == 20
    assert str(path) in Path("/proc/self/maps").read_text()
    del part
    gc.collect()
    assert str(path) not in Path("/proc/self/maps").read_text()


def test_tensors_keep_the_memory_of_a_buffer() -> None:
    pool = BufferPool()
    tensor = torch.from_numpy(pool.empty((1000, 128)))
    tensor.fill_(3)
    part = tensor[5]
    del tensor
    pool.empty((1000, 128))[:] = 4
    assert part.sum() == 3 * 128
    del part
    assert pool.idle_bytes > 0


def test_a_closed_store_and_an_absent_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FeatureTable.from_array(np.zeros(3))
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "torch", None)
        with pytest.raises(errors.UnsupportedError, match="needs torch"):
            store.tensor()
    store.close()
    with pytest.raises(errors.ClosedError):
        store.tensor()
