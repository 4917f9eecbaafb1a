"""GraphZero's .gl and .gd files: read as they are, and never trusted."""

from __future__ import annotations

import gc
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import examples

from aethergraph import Graph, errors
from aethergraph.convert import convert, read_edges, read_gd, read_gl

SRC = np.array([0, 1, 2, 0, 5, 0])
DST = np.array([1, 2, 3, 2, 0, 1])
WEIGHT = np.array([0.5, 2.0, 3.5, 1.0, 4.0, 0.0], np.float32)


def gl_bytes(
    num_nodes: int, src: Any, dst: Any, weight: Any = None, *, header: Any = None
) -> bytes:  # fmt: skip
    """A .gl file; ``header`` overrides fields by number."""
    order = np.argsort(src, kind="stable")
    offsets = np.concatenate(([0], np.cumsum(np.bincount(src, minlength=num_nodes))))
    targets_at = 64 + -(-8 * (num_nodes + 1) // 64) * 64
    fields = [
        8 * (num_nodes + 1), 8 * len(src), 64, targets_at, num_nodes, len(src),
        int(weight is not None),
    ]  # fmt: skip
    for number, value in (header or {}).items():
        fields[number] = value
    data = b"graphlit" + struct.pack("<7Q", *fields) + offsets.astype("<u8").tobytes()
    data = data.ljust(targets_at, b"\0") + np.asarray(dst)[order].astype("<u8").tobytes()
    if weight is not None:
        data = data.ljust(-(-len(data) // 64) * 64, b"\0")
        data += np.asarray(weight)[order].astype("<f4").tobytes()
    return data


def gd_bytes(rows: Any, code: int | None = None) -> bytes:
    codes = {"int32": 0, "int64": 1, "float32": 2, "float64": 3}
    number = codes[rows.dtype.name] if code is None else code
    return b"GZDATA26" + struct.pack("<IIQQ", 0, number, *rows.shape) + rows.tobytes()


def put(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


# ---- graphs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("layout", ["csr", "csc", "both"])
def test_graphs(tmp_path: Path, weight: Any, layout: Any) -> None:
    path = put(tmp_path / "g.gl", gl_bytes(8, SRC, DST, weight))
    graph = read_gl(path, layout)
    expected = Graph.from_edges(8, np.sort(SRC), DST[np.argsort(SRC, kind="stable")], layout=layout)
    assert (graph.num_nodes, graph.num_edges, graph.layout) == (8, 6, layout)
    assert [a.tolist() for a in graph.edge_index()] == [a.tolist() for a in expected.edge_index()]
    if weight is None:
        assert graph.edge_weight is None
    elif layout == "csr":
        assert graph.edge_weight is not None and graph.edge_weight.dtype == np.float32
        assert graph.edge_weight.tolist() == [0.5, 1.0, 0.0, 2.0, 3.5, 4.0]


def test_a_graph_without_edges_or_nodes(tmp_path: Path) -> None:
    nothing = np.empty(0, np.int64)
    for nodes in (0, 3):
        path = put(tmp_path / "g.gl", gl_bytes(nodes, nothing, nothing))
        assert (read_gl(path).num_nodes, read_gl(path).num_edges) == (nodes, 0)


def test_convert_takes_gl(tmp_path: Path) -> None:
    path = put(tmp_path / "g.gl", gl_bytes(9, SRC, DST, WEIGHT))
    done = convert(path, tmp_path / "g.aeg", weight="weight", layout="both")
    assert (done.num_nodes, done.num_edges) == (9, 6)
    graph = Graph.load(tmp_path / "g.aeg")
    assert graph.neighbors(0).tolist() == [1, 2, 1]
    assert graph.edge_weight is not None and graph.edge_weight.sum() == WEIGHT.sum()
    assert read_edges(path).unused == ("weight",)
    again = tmp_path / "renamed.bin"
    again.write_bytes(path.read_bytes())
    assert read_edges(again, format="gl").num_edges == 6


def test_chunks_give_the_same_edges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aethergraph.convert.formats.graphzero._ROWS", 7)
    rng = np.random.default_rng(0)
    src, dst = np.sort(rng.integers(0, 20, 100) // 3 * 3), rng.integers(0, 20, 100)
    table = read_edges(put(tmp_path / "g.gl", gl_bytes(25, src, dst)))
    assert table.src.tolist() == src.tolist() and table.dst.tolist() == dst.tolist()
    assert table.num_nodes == 25


BAD_HEADERS: list[tuple[dict[int, int], type[Exception]]] = [
    ({0: 8}, errors.FormatError),
    ({1: 1}, errors.FormatError),
    ({6: 2}, errors.FormatError),
    ({2: 1 << 40}, errors.TruncatedFileError),
    ({3: 1 << 63}, errors.TruncatedFileError),
    ({2: 65}, errors.FormatError),
    ({0: 8 * ((1 << 60) + 1), 4: 1 << 60}, errors.TruncatedFileError),
    ({1: 8 << 60, 5: 1 << 60}, errors.TruncatedFileError),
    ({5: 5, 1: 40}, errors.CorruptFileError),
]


@pytest.mark.parametrize(("header", "error"), BAD_HEADERS)
def test_headers_that_lie(tmp_path: Path, header: Any, error: type[Exception]) -> None:
    path = put(tmp_path / "g.gl", gl_bytes(8, SRC, DST, header=header))
    for read in (read_gl, read_edges):
        with pytest.raises(error, match=r"g\.gl"):
            read(path)


def test_ids_offsets_and_weights_that_cannot_be(tmp_path: Path) -> None:
    good = gl_bytes(8, SRC, DST, WEIGHT)
    targets_at = struct.unpack_from("<Q", good, 32)[0]
    for value in (8, 2**64 - 1):
        bad = bytearray(good)
        struct.pack_into("<Q", bad, targets_at + 8, value)
        path = put(tmp_path / "g.gl", bytes(bad))
        with pytest.raises(errors.CorruptFileError, match=r"dst\[1\]") as caught:
            read_gl(path)
        assert caught.value.position == 1
        with pytest.raises(errors.FormatError, match="row 2"):
            read_edges(path)
    bad = bytearray(good)
    struct.pack_into("<Q", bad, 64 + 8, 5)  # 5, then less
    with pytest.raises(errors.CorruptFileError, match="offset 2 is 4") as caught:
        read_gl(put(tmp_path / "g.gl", bytes(bad)))
    assert (caught.value.position, caught.value.value) == (2, 4)
    for weight in (np.nan, -1.0):
        path = put(tmp_path / "g.gl", gl_bytes(8, SRC, DST, np.where(WEIGHT == 1, weight, WEIGHT)))
        with pytest.raises(errors.CorruptFileError, match=r"edge_weight\[1\]"):
            read_gl(path)
        with pytest.raises(errors.FormatError, match="weight"):
            read_edges(path, weight="weight")


# ---- features ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_features(tmp_path: Path, dtype: str) -> None:
    rows = np.arange(12).reshape(4, 3).astype(dtype)
    path = put(tmp_path / "x.gd", gd_bytes(rows))
    store = read_gd(path)
    assert store.shape == (4, 3) and store.dtype == rows.dtype and store.storage == "mmap"
    array = store.array
    store.close()
    path.unlink()
    gc.collect()
    np.testing.assert_array_equal(array, rows)


def test_features_that_lie(tmp_path: Path) -> None:
    good = gd_bytes(np.zeros((4, 3), np.float32))
    for data, error in (
        (good[:-1], errors.TruncatedFileError),
        (good[:20], errors.TruncatedFileError),
        (b"", errors.FormatError),
        (b"GZ", errors.TruncatedFileError),
        (b"PK" + good, errors.FormatError),
        (gd_bytes(np.zeros((4, 3), np.float32), 9), errors.FormatError),
        (good[:16] + struct.pack("<QQ", 1 << 62, 1 << 62) + good[32:], errors.TruncatedFileError),
        (good[:16] + struct.pack("<QQ", 1 << 63, 0) + good[32:], errors.FormatError),
    ):
        with pytest.raises(error, match=r"x\.gd"):
            read_gd(put(tmp_path / "x.gd", data))
    with pytest.raises(errors.MissingFileError):
        read_gd(tmp_path / "absent.gd")
    with pytest.raises(errors.FormatError, match=r"not a \.gl file"):
        read_gl(put(tmp_path / "x.gd", good))


@examples(300)
@given(data=st.data())
def test_mutations_end_in_named_errors(tmp_path: Path, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["gl", "gd"]))
    good = (
        gl_bytes(8, SRC, DST, WEIGHT)
        if kind == "gl"
        else gd_bytes(np.ones((4, 3)))
    )  # fmt: skip
    bad = bytearray(good[: data.draw(st.integers(0, len(good)))])
    for _ in range(data.draw(st.integers(0, 4))):
        if bad:
            at = data.draw(st.integers(0, min(len(bad), 140) - 1))
            bad[at] = data.draw(st.sampled_from([0, 1, 7, 0x7F, 0x80, 0xFF]))
    path = put(tmp_path / f"file.{kind}", bytes(bad))
    try:
        if kind == "gl":
            read_gl(path).edge_index()
        else:
            read_gd(path)[:2]
    except errors.AetherError as error:
        assert isinstance(error, (errors.FormatError, errors.LimitError, errors.OutOfMemoryError))
