"""Rows of nodes as tables of Parquet and Arrow, with their keys."""

from __future__ import annotations

import os
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.disks import small_disk
from support.strategies import examples

from aethergraph import DynamicGraph, FeatureTable, Graph
from aethergraph.convert import convert, export
from aethergraph.errors import DiskFullError, InvalidArgumentError, StorageError, UnsupportedError
from aethergraph.ids import IdMap


def read(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pq.read_table(path)
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).read_all()


def test_a_dataset_of_lance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is whole or not there; where there is one, the next is a version of it."""
    lance = pytest.importorskip("lance", reason="pip install pylance")
    monkeypatch.setattr("aethergraph.convert.exporting._MOST_ROWS", 4)
    ids = IdMap.build(tmp_path / "n.ids", [[f"n{at}" for at in range(9)]], "str")
    rows = np.arange(27, dtype=np.float32).reshape(9, 3)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(rows, tmp_path / "h.lance", ids=ids, progress=stop)
    assert os.listdir(tmp_path) == ["n.ids"]
    for factor, force in ((1, False), (2, True)):
        export(rows * factor, tmp_path / "h.lance", ids=ids, force=force)
        table = lance.dataset(tmp_path / "h.lance").to_table()
        assert table["key"].to_pylist() == [f"n{at}" for at in range(9)]
        assert table["vector"].to_pylist() == (rows * factor).tolist()
    with pytest.raises(KeyboardInterrupt):
        export(rows, tmp_path / "h.lance", ids=ids, progress=stop, force=True)
    assert lance.dataset(tmp_path / "h.lance").to_table() == table
    assert sorted(os.listdir(tmp_path)) == ["h.lance", "n.ids"]
    with pytest.raises(
        StorageError, match=r"h\.lance: exists already; force=True makes a new vers"
    ):
        export(rows, tmp_path / "h.lance")
    (tmp_path / "x.lance").touch()
    with pytest.raises(StorageError, match=r"x\.lance: is no dataset of Lance: delete it, or give"):
        export(rows, tmp_path / "x.lance", force=True)
    with pytest.raises(StorageError, match=r"the folder .*none does not exist"):
        export(rows, tmp_path / "none" / "x.lance")


def test_lance_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lance", None)
    with pytest.raises(UnsupportedError, match=r"h\.lance needs Lance: pip install pylance \("):
        export(np.ones((2, 3)), tmp_path / "h.lance")


KEYS: dict[str, Any] = {
    "int64": lambda n: [-(2**63) + at for at in range(n)],
    "uint64": lambda n: [2**64 - 1 - at for at in range(n)],
    "str": lambda n: [f"ä{at}" for at in range(n)],
    "bytes": lambda n: [bytes([255, at]) for at in range(n)],
    "uuid": lambda n: [str(uuid.UUID(int=at)) for at in range(n)],
}


@given(
    count=st.integers(0, 9), row_shape=st.sampled_from([(), (1,), (3,), (2, 3)]),
    dtype=st.sampled_from(["float16", "float32", "float64", "int64", "uint8", "bool"]),
    kind=st.sampled_from([None, *KEYS]), suffix=st.sampled_from(["parquet", "arrow", "feather"]),
    step=st.sampled_from([1, 4, 100]),
)  # fmt: skip
@examples(100)
def test_rows_and_keys_come_back(
    count: int, row_shape: tuple[int, ...], dtype: str, kind: str | None, suffix: str, step: int
) -> None:
    rows = np.random.default_rng(0).integers(0, 2, (count, *row_shape)).astype(dtype)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr("aethergraph.convert.exporting._MOST_ROWS", step)
        folder, ids, keys = Path(name), None, list(range(count))
        if kind is not None:
            keys = KEYS[kind](count)
            ids = IdMap.build(folder / "n.ids", [keys], kind)
        export(rows, folder / f"h.{suffix}", ids=ids)
        assert sorted(os.listdir(folder)) == [f"h.{suffix}", *["n.ids"] * (kind is not None)]
        table = read(folder / f"h.{suffix}")
        assert table.column_names == ["node" if kind is None else "key", "vector"]
        assert table[0].to_pylist() == keys
        assert table["vector"].to_pylist() == rows.tolist()
        value_type = table.schema.field("vector").type
        for length in row_shape:
            assert value_type.list_size == length
            value_type = value_type.value_type
        assert value_type == pa.from_numpy_dtype(np.dtype(dtype))


def test_keys_of_a_graph_of_names(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("ann,bob\nbob,cy\n")
    convert(tmp_path / "e.csv", tmp_path / "g.aeg", ids="string", header=False)
    ids = Graph.load(tmp_path / "g.aeg").ids
    done: list[tuple[int, int]] = []
    export(
        np.eye(3), tmp_path / "h.parquet", ids=ids, key="person", column="h",
        progress=lambda *now: done.append(now),
    )  # fmt: skip
    table = read(tmp_path / "h.parquet")
    assert table.column_names == ["person", "h"]
    assert table["person"].to_pylist() == ids.keys([0, 1, 2]) == ["ann", "bob", "cy"]
    assert done == [(3, 3)]


def test_keys_of_a_live_graph(tmp_path: Path) -> None:
    with DynamicGraph.open(tmp_path / "g", ids="str", arena_mb=16) as graph:
        graph.ids.add(["b", "a"])
        export(np.eye(2), tmp_path / "h.arrow", ids=graph.snapshot().ids)
    assert read(tmp_path / "h.arrow")["key"].to_pylist() == ["b", "a"]


def test_keys_of_several_columns(tmp_path: Path) -> None:
    ids = IdMap.build(tmp_path / "n.ids", [([1, 1, 2], ["x", "y", "x"])], ("int64", "str"))
    export(np.eye(3), tmp_path / "h.parquet", ids=ids)
    table = read(tmp_path / "h.parquet")
    assert table.column_names == ["key_0", "key_1", "vector"]
    assert table["key_0"].to_pylist() == [1, 1, 2]
    assert table["key_1"].to_pylist() == ["x", "y", "x"]


def test_bfloat16_is_written_as_float32(tmp_path: Path) -> None:
    FeatureTable.from_array(np.eye(3)).save(tmp_path / "x.feat", "bfloat16")
    export(FeatureTable.load(tmp_path / "x.feat"), tmp_path / "h.parquet")
    table = read(tmp_path / "h.parquet")
    assert table.schema.field("vector").type.value_type == pa.float32()
    assert table["vector"].to_pylist() == np.eye(3).tolist()


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    ids = IdMap.build(tmp_path / "n.ids", [["a", "b"]], "str")
    rows, out = np.eye(3), tmp_path / "h.parquet"
    for arguments, message in (
        ({"output": tmp_path / "h.csv"}, r"output = .*h\.csv' ends neither in \.parquet nor in"),
        ({"ids": ids}, "rows has 3 rows, but ids has 2 keys"),
        ({"ids": 7}, r"ids = 7 is no map of ids, such as graph\.ids"),
        ({"column": "node"}, "column = 'node' is the name of the keys, too"),
        ({"rows": np.empty((3, 0))}, r"rows has rows of shape \(0,\), without a number"),
        ({"rows": "x.npy"}, "rows must be rows, got 'x.npy'"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            export(**{"rows": rows, "output": out, **arguments})
    assert os.listdir(tmp_path) == ["n.ids"]
    out.write_text("mine")
    with pytest.raises(StorageError, match=r"h\.parquet: exists already"):
        export(rows, out)
    assert out.read_text() == "mine"
    export(rows, out, force=True)
    assert len(read(out)) == 3


def test_a_pyarrow_that_cannot_write_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise pa.ArrowNotImplementedError("Unhandled type: halffloat")

    monkeypatch.setattr(pq, "ParquetWriter", refuse)
    with pytest.raises(UnsupportedError, match=r"to Parquet .*: give rows of float32, or a name"):
        export(np.eye(3, dtype=np.float16), tmp_path / "h.parquet")
    assert os.listdir(tmp_path) == []


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).random((2000, 100))
    with small_disk(tmp_path / "disk", "1M") as disk:
        for name in ("h.parquet", "h.arrow"):
            with pytest.raises(DiskFullError, match=rf"{name}.*No space left"):
                export(rows, disk / name)
            assert os.listdir(disk) == []
