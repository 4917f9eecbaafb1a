"""Rows that are gathered in another dtype than they are stored in; graphs saved without rows."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aethergraph import FeatureTable, Graph, HeteroGraph, errors
from aethergraph.packing import PackedFeatures, pack

N = 300
VALUES = np.random.default_rng(0).normal(size=(N, 5)).astype(np.float32)
IDS = np.array([7, 3, 7, 299, 0])
STORAGES = ["mmap", "memory", "uring"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("halves")
    store = FeatureTable.from_array(VALUES)
    for dtype in ("bfloat16", "float16", "float32"):
        store.save(place / f"{dtype}.bin", dtype=dtype)
    return place


def load(folder: Path, stored: str, storage: Any, **options: Any) -> FeatureTable:
    budget = "1M" if storage == "uring" else None
    path = folder / f"{stored}.bin"
    return FeatureTable.load(path, storage, memory_budget=budget, **options)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(
    ("stored", "dtype"),
    [("bfloat16", "float32"), ("float16", "float64"), ("float32", "float32")],
)
def test_rows_come_in_the_dtype_asked_for(
    folder: Path, stored: str, dtype: str, storage: str
) -> None:
    plain = load(folder, stored, storage)
    wanted = plain.gather(np.arange(N), dtype=dtype)
    store = load(folder, stored, storage, dtype=dtype)
    assert (store.dtype, store.dtype_name) == (np.dtype(dtype), dtype)
    assert (store.shape, store.nbytes) == ((N, 5), wanted.nbytes)
    assert (store.storage, store.path) == (plain.storage, plain.path)
    assert store.fingerprint == plain.fingerprint is not None
    np.testing.assert_array_equal(store.gather(IDS), wanted[IDS])
    assert store.gather(IDS).dtype == dtype
    np.testing.assert_array_equal(store.gather(IDS, out=np.empty((5, 5), dtype)), wanted[IDS])
    np.testing.assert_array_equal(store[3:9], wanted[3:9])
    np.testing.assert_array_equal(store[-1], wanted[-1])
    np.testing.assert_array_equal(np.asarray(store[:]), wanted)
    if dtype != stored:
        np.testing.assert_array_equal(np.asarray(store), wanted)
    assert not store.is_writable
    again = pickle.loads(pickle.dumps(store))
    assert again.dtype_name == dtype and again.storage == store.storage
    np.testing.assert_array_equal(again.gather(IDS), wanted[IDS])
    store.verify()
    for other in (store.to_memory(), store.to_uring("1M")):
        assert other.dtype_name == dtype
        np.testing.assert_array_equal(other.gather(IDS), wanted[IDS])
    if storage == "uring":
        assert store.stats().used <= 1 << 20
        with store.plan([IDS, IDS[:2]]) as plan:
            for ids, rows in zip((IDS, IDS[:2]), plan, strict=True):
                np.testing.assert_array_equal(rows, wanted[ids])


def test_what_is_converted_and_what_is_not(folder: Path, tmp_path: Path) -> None:
    halves = load(folder, "bfloat16", "mmap")
    store = halves.astype("float32")
    assert "dtype=float32 of bfloat16, mmap" in repr(store)
    assert halves.astype("bfloat16") is halves and store.astype("bfloat16") is halves
    assert store.astype("float64").astype("float32").dtype_name == "float32"
    for call in (lambda: store.array, store.tensor):
        with pytest.raises(errors.UnsupportedError, match=r"converts rows.*gather\(\)"):
            call()
    store.save(tmp_path / "wide.bin")
    assert FeatureTable.load(tmp_path / "wide.bin").dtype_name == "float32"
    store.save(tmp_path / "half.bin", dtype="bfloat16")
    again = FeatureTable.load(tmp_path / "half.bin")
    np.testing.assert_array_equal(again.array, halves.array)
    with pytest.raises(errors.UnsupportedError):
        FeatureTable.from_array(VALUES).astype("float16")
    with pytest.raises(errors.InvalidArgumentError, match="dtype"):
        halves.astype("words")
    counts = FeatureTable.from_array(np.arange(4, dtype=np.uint8)).astype("int64")
    assert counts.gather([3, 1]).dtype == np.int64
    assert pickle.loads(pickle.dumps(counts)).gather([3, 1]).tolist() == [3, 1]
    store.close()
    assert halves.gather([0]).shape == (1, 5)  # which stays open
    with pytest.raises(errors.ClosedError):
        store.gather([0])


def test_packed_rows_are_converted(folder: Path, tmp_path: Path) -> None:
    """With the store that they were packed of, and alone."""
    for stored in ("bfloat16", "float16"):
        halves = load(folder, stored, "mmap")
        pack([IDS], halves, tmp_path / "packed")
        for features in (halves, None):
            packed = PackedFeatures.load(tmp_path / "packed", features=features)
            rows = packed.astype("float32").gather(IDS)
            np.testing.assert_array_equal(rows, halves.gather(IDS, dtype="float32"))
            assert packed.gather([]).shape == (0, 5)
            assert packed.gather([]).dtype == halves.array.dtype
    with pytest.raises(errors.UnsupportedError, match="float16"):
        packed.astype("int32")


@pytest.mark.parametrize("storage", STORAGES)
def test_a_graph_serves_a_float32_model_from_halves(
    folder: Path, storage: Any, tmp_path: Path
) -> None:
    budget = "1M" if storage == "uring" else None
    options: dict[str, Any] = {"storage": storage, "memory_budget": budget, "dtype": "float32"}
    graph = Graph.from_edges(N, np.arange(N), np.arange(N)[::-1])
    store = graph.load_features(folder / "bfloat16.bin", **options)
    assert graph.features is store and store.gather(IDS).dtype == np.float32
    assert graph.info()["node_attrs"]["x"]["dtype"] == "float32"
    graph.load_edge_features(folder / "bfloat16.bin", **options)
    assert graph.edge_attrs["edge_attr"].dtype_name == "float32"
    typed = HeteroGraph.from_edges({("a", "to", "a"): (np.arange(N), np.arange(N))})
    assert typed["a"].load_features(folder / "bfloat16.bin", **options).dtype_name == "float32"
    kind = ("a", "to", "a")
    assert typed[kind].load_features(folder / "bfloat16.bin", **options).dtype_name == "float32"
    graph.save(tmp_path / "graph.aeg")
    again = Graph.load(tmp_path / "graph.aeg").features
    assert again is not None and again.dtype_name == "float32"
    np.testing.assert_array_equal(again.gather(IDS), store.gather(IDS))


def test_a_graph_is_saved_without_its_attributes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    src, dst = np.arange(N), np.arange(N)[::-1]
    graph = Graph.from_edges(N, src, dst, edge_weight=np.ones(N), edge_attrs={"kind": src})
    graph.features = np.zeros((N, 100), np.float32)
    with caplog.at_level(logging.INFO, "aethergraph"):
        graph.save(tmp_path / "whole.aeg")
        graph.save(tmp_path / "bare.aeg", attrs=False)
    assert [r.message for r in caplog.records] == [
        "save: attributes take 119.5 KiB of 125.4 KiB: x 117.2 KiB, kind 2.3 KiB; attrs=False "
        "leaves them out"
    ]
    bare = Graph.load(tmp_path / "bare.aeg")
    assert not bare.node_attrs and not bare.edge_attrs and bare.edge_weight is not None
    bare.verify()
    whole = Graph.load(tmp_path / "whole.aeg")
    assert list(whole.node_attrs) == ["x"] and list(whole.edge_attrs) == ["kind"]
    sizes = [(tmp_path / f"{name}.aeg").stat().st_size for name in ("whole", "bare")]
    assert sizes[0] - sizes[1] > N * 400
    typed = HeteroGraph.from_edges({("a", "to", "b"): (src, dst)})
    typed["a"].features = np.zeros((N, 100), np.float32)
    typed.save(tmp_path / "typed.aeg", attrs=False)
    assert not HeteroGraph.load(tmp_path / "typed.aeg")["a"].attrs
