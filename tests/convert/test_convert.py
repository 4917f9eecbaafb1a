"""convert(): files to files, with everything that travels along."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from aethergraph import FeatureTable, Graph
from aethergraph.convert import InputError, convert
from aethergraph.convert.outputs import NpyWriter
from aethergraph.convert.readers import text_blocks
from aethergraph.errors import DiskFullError, InvalidArgumentError, LimitError, StorageError

SRC = np.array([0, 1, 2, 5, 0, 0])
DST = np.array([1, 2, 0, 5, 1, 3])
WEIGHT = np.array([0.5, 1, 2, 3, 4, 5], np.float32)
TIME = np.array([10, 11, 12, 13, 14, 15])


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    path = tmp_path / "edges.csv"
    table = {"src": SRC, "dst": DST, "w": WEIGHT, "t": TIME, "kind": TIME % 3}
    pacsv.write_csv(pa.table(table), path)
    return path


def triples(graph: Graph) -> list[tuple[int, int]]:
    src, dst = graph.edge_index()
    return sorted(zip(src.tolist(), dst.tolist(), strict=True))


EXPECTED = sorted(zip(SRC.tolist(), DST.tolist(), strict=True))


@pytest.mark.parametrize("layout", ["csc", "csr", "both"])
def test_values_travel_with_their_edges(layout: Any, edges: Path, tmp_path: Path) -> None:
    attrs = ["kind", "both=w,kind:float32"]
    result = convert(
        edges, tmp_path / "g.bin", weight="w", time_column="t", attrs=attrs, keep_order=True,
        num_nodes=8, layout=layout,
    )  # fmt: skip
    assert (result.num_nodes, result.num_edges, result.layout) == (8, 6, layout)
    assert result.notes == []
    graph = Graph.load(tmp_path / "g.bin")
    assert (graph.num_nodes, graph.layout) == (8, layout)
    assert triples(graph) == EXPECTED
    graph.verify()
    order = graph.edge_order
    assert order is not None and graph.edge_weight is not None and graph.edge_time is not None
    assert graph.edge_weight.tolist() == WEIGHT[order].tolist()
    assert graph.edge_time.tolist() == TIME[order].tolist()
    assert graph.edge_attrs["kind"].array.tolist() == (TIME % 3)[order].tolist()
    both = graph.edge_attrs["both"].array
    assert both.shape == (6, 2) and both[:, 1].tolist() == (TIME % 3)[order].tolist()


def test_undirected_and_dedup(edges: Path, tmp_path: Path) -> None:
    """The first of each pair is kept, with its values."""
    values = {"weight": "w", "time_column": "t"}
    result = convert(edges, tmp_path / "g.bin", undirected=True, dedup=True, **values)
    expected: dict[tuple[int, int], tuple[float, int]] = {}
    for u, v, w, t in zip(*(one.tolist() for one in (SRC, DST, WEIGHT, TIME)), strict=True):
        expected.setdefault((u, v), (w, t))
        expected.setdefault((v, u), (w, t))
    assert (result.read_edges, result.num_edges) == (6, len(expected))
    assert "2 duplicate edges dropped" in result.notes
    graph = Graph.load(tmp_path / "g.bin")
    assert graph.edge_weight is not None and graph.edge_time is not None
    src, dst = graph.edge_index()
    columns = (one.tolist() for one in (src, dst, graph.edge_weight, graph.edge_time))
    assert {(u, v): (w, t) for u, v, w, t in zip(*columns, strict=True)} == expected


def test_many_blocks_in_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 1 << 14)
    monkeypatch.setattr("aethergraph.graph.lists.STRETCH", 1000)  # edges are listed in parts
    count = 100_000
    src = (np.arange(count) * 7919) % 20_011
    dst = (np.arange(count) * 104_729 + 5) % 20_011
    path = tmp_path / "edges.csv"
    pacsv.write_csv(pa.table({"src": src, "dst": dst}), path)
    seen: dict[str, list[tuple[int, int]]] = {}

    def stages(name: str, unit: str) -> Any:
        return lambda done, total: seen.setdefault(name, []).append((done, total))

    result = convert(path, tmp_path / "g.bin", keep_order=True, threads=2, stages=stages)
    assert (result.num_nodes, result.num_edges) == (20_011, count)
    graph = Graph.load(tmp_path / "g.bin")
    order = graph.edge_order
    assert order is not None
    back_src, back_dst = graph.edge_index()
    assert (back_src == src[order]).all() and (back_dst == dst[order]).all()
    assert len(seen["Reading edges"]) > 10
    assert all(done <= total for steps in seen.values() for done, total in steps)


# ---- features and labels ---------------------------------------------------------------------

X = np.arange(18, dtype=np.float32).reshape(6, 3) / 4


def feature_file(folder: Path, kind: str) -> Path:
    path = folder / f"x.{kind.split('-')[0]}"
    columns = {f"f{i}": X[:, i] for i in range(3)}
    if kind == "npy":
        np.save(path, X)
    elif kind == "npy-fortran":
        np.save(path, np.asfortranarray(X))
    elif kind == "csv":
        pacsv.write_csv(pa.table(columns), path)
    elif kind == "csv-plain":
        pacsv.write_csv(pa.table(columns), path, pacsv.WriteOptions(include_header=False))
    elif kind == "parquet":
        pq.write_table(pa.table(columns), path)
    elif kind == "parquet-list":
        lists = pa.array(list(X), pa.list_(pa.float32()))
        pq.write_table(pa.table({"x": lists}), path)
    elif kind == "parquet-fixed":
        lists = pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), 3)
        pq.write_table(pa.table({"x": lists}), path)
    elif kind == "bin":
        FeatureTable.from_array(X).save(path)
    return path


KINDS = [
    "npy", "npy-fortran", "csv", "csv-plain", "parquet", "parquet-list", "parquet-fixed", "bin",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_features_of_every_kind(kind: str, edges: Path, tmp_path: Path) -> None:
    source = feature_file(tmp_path, kind)
    for name, dtype in (("y.npy", None), ("y.bin", "bfloat16"), ("z.bin", None), ("z.npy", "half")):
        out = tmp_path / name
        options: Any = {"features": source, "features_out": out, "dtype": dtype, "force": True}
        result = convert(edges, tmp_path / "g.bin", **options)
        assert result.features == str(out) and result.feature_shape == (6, 3)
        store = FeatureTable.load(out)
        assert store.dtype_name == {None: "float32", "half": "float16"}.get(dtype, dtype)
        assert store.gather(np.arange(6), dtype="float32").tolist() == X.tolist()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_default_names(edges: Path, tmp_path: Path) -> None:
    npy = feature_file(tmp_path, "npy")
    result = convert(edges, tmp_path / "g.bin", features=npy)
    assert result.features == str(npy)  # used as it is
    result = convert(edges, tmp_path / "g.bin", features=npy, dtype="bfloat16", force=True)
    assert result.features == str(tmp_path / "g.features.bin")
    csv = feature_file(tmp_path, "csv")
    labels = tmp_path / "labels.csv"
    labels.write_text("label\n" + "1\n0\n" * 3)
    result = convert(edges, tmp_path / "h.bin", features=csv, labels=labels)
    assert result.features == str(tmp_path / "h.features.npy")
    assert result.labels == str(tmp_path / "h.labels.npy")
    assert np.load(tmp_path / "h.labels.npy").tolist() == [1, 0] * 3


def test_tables_may_have_more_nodes_than_edges_name(edges: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((9, 2), np.float32))
    np.save(tmp_path / "y.npy", np.zeros(9, np.int32))
    result = convert(
        edges, tmp_path / "g.bin", features=tmp_path / "x.npy", labels=tmp_path / "y.npy"
    )
    assert result.num_nodes == 9
    with pytest.raises(InputError, match=r"x\.npy: 9 rows of features for 7 nodes \(by -n\)"):
        convert(edges, tmp_path / "h.bin", features=tmp_path / "x.npy", num_nodes=7)
    np.save(tmp_path / "y.npy", np.zeros(4, np.int32))
    with pytest.raises(InputError, match=r"y\.npy: 4 rows of labels for 6 nodes"):
        convert(edges, tmp_path / "h.bin", labels=tmp_path / "y.npy")


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([0, 1, 2, 0, 1, 2], np.uint8), [0, 1, 2, 0, 1, 2]),
        (np.array([[0], [1], [2], [0], [1], [-1]]), [0, 1, 2, 0, 1, -1]),
        (np.array([0, np.nan, 2, 0, 1, 2.0]), [0, -1, 2, 0, 1, 2]),
        (np.array([True, False] * 3), [1, 0] * 3),
        (np.array([0, 1, 2.5, 0, 1, 2]), "row 3: the label 2.5 is not an integer"),
        (np.array([2**63] * 6, "<u8"), f"row 1: the label {2**63} does not fit in 64 bits"),
        (np.array([2**63] * 6, ">u8"), f"row 1: the label {2**63} does not fit in 64 bits"),
        (np.zeros((6, 2)), r"has shape \[6, 2\] and dtype float64; labels are one integer"),
        (np.array(list("abcdef")), "labels are one integer per node"),
    ],
)
def test_label_arrays(array: Any, expected: Any, edges: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "y.npy", array)
    if isinstance(expected, str):
        with pytest.raises(InputError, match=expected):
            convert(edges, tmp_path / "g.bin", labels=tmp_path / "y.npy")
        return
    convert(edges, tmp_path / "g.bin", labels=tmp_path / "y.npy")
    assert np.load(tmp_path / "g.labels.npy").tolist() == expected


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("features", "f\n1\nx\n", "line 3, column 1 .f.: the feature 'x' is not a number"),
        ("features", "1,2\n3\n", "line 2: 1 field where there are 2 columns"),
        ("features", "1,2\n3,\n", "line 2, column 2 .feature.: the feature is missing"),
        ("features", "a,b\n", "the feature 'a' is not a number"),
        ("features", "", "is empty"),
        ("labels", "a,b\n1,2\n", "has 2 columns and none is called label"),
        ("labels", "y\n1\n1.5\n", r"line 3, column 1 .y.: the label '1.5' is not an integer"),
        ("labels", "y\n", "holds no labels"),
    ],
)
def test_bad_features_and_labels(
    kind: str, text: str, message: str, edges: Path, tmp_path: Path
) -> None:
    (tmp_path / "x.csv").write_text(text)
    options: Any = {kind: tmp_path / "x.csv"}
    with pytest.raises(InputError, match=message):
        convert(edges, tmp_path / "g.bin", **options)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["edges.csv", "x.csv"]


# ---- outputs ---------------------------------------------------------------------------------


def test_nothing_is_overwritten_unless_forced(edges: Path, tmp_path: Path) -> None:
    out = tmp_path / "g.bin"
    out.write_text("precious")
    with pytest.raises(StorageError, match=r"g\.bin: exists already; force=True overwrites it"):
        convert(edges, out)
    assert out.read_text() == "precious"
    convert(edges, out, force=True)
    assert Graph.load(out).num_edges == 6
    with pytest.raises(InvalidArgumentError, match="the output is also an input"):
        convert(edges, edges, force=True)
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(InvalidArgumentError, match="two outputs have the same name"):
        convert(edges, out, features=tmp_path / "x.npy", features_out=out, force=True)
    with pytest.raises(StorageError, match=r"the folder .*none does not exist"):
        convert(edges, tmp_path / "none" / "g.bin")
    with pytest.raises(StorageError, match="is a folder, not a file"):
        convert(edges, tmp_path, force=True)
    with pytest.raises(InvalidArgumentError, match="but no features"):
        convert(edges, tmp_path / "h.bin", dtype="float16")
    with pytest.raises(InvalidArgumentError, match="but no labels"):
        convert(edges, tmp_path / "h.bin", labels_out=tmp_path / "y.npy")


def test_read_only_folder(edges: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(StorageError, match="is not writable"):
        convert(edges, tmp_path / "g.bin")


@pytest.mark.parametrize("memory", [None, "4G"])
def test_sparse_ids_are_refused(memory: str | None, tmp_path: Path) -> None:
    path, other = tmp_path / "e.csv", tmp_path / "first.csv"
    path.write_text(f"# no edge\nsrc,w,dst\n0,1,{2**40}\n1,2,2\n")
    other.write_text("src,w,dst\n3,1,4\n")
    place = r"/e\.csv, line 3, column 3 \(dst\): the largest node id is 1099511627776"
    with pytest.raises(LimitError, match=rf"{place}.*ids should be 0\.\.N-1.*without gaps"):
        convert([other, path], tmp_path / "g.bin", weight="w", memory_budget=memory)
    with pytest.raises(LimitError, match="num_nodes = 2199023255552 is far above the 3 edges"):
        convert([other, path], tmp_path / "g.bin", num_nodes=2**41, memory_budget=memory)
    assert len(os.listdir(tmp_path)) == 2


def test_npy_writer(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    with NpyWriter(path, np.int16, (2,)) as writer:
        writer.append(np.zeros((0, 2)))
        for start in range(0, 100, 10):
            writer.append(np.arange(start, start + 20).reshape(10, 2))
        with pytest.raises(InvalidArgumentError, match="rows of shape"):
            writer.append(np.zeros((1, 3)))
        writer.commit()
    array = np.load(path)
    assert array.dtype == np.int16 and array.shape == (100, 2)
    assert FeatureTable.load(path).shape == (100, 2)
    with pytest.raises(RuntimeError), NpyWriter(tmp_path / "b.npy", np.int16, ()):
        raise RuntimeError
    assert [p.name for p in tmp_path.iterdir()] == ["a.npy"]
    with pytest.raises(StorageError, match="cannot write"):
        NpyWriter(tmp_path / "none" / "a.npy", np.int16, ())


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_named(tmp_path: Path) -> None:
    writer = NpyWriter(tmp_path / "a.npy", np.int8, ())
    assert writer._stream is not None
    writer._stream.close()
    writer._stream = open("/dev/full", "wb", buffering=0)  # noqa: SIM115
    with pytest.raises(DiskFullError, match=r"a\.npy: No space left"):
        writer.append(np.zeros(5000))
    writer.abort()
    assert list(tmp_path.iterdir()) == []
