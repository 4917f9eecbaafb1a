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

from aethergraph import FeatureStore, Graph
from aethergraph.convert import InputError, convert, read_edges
from aethergraph.convert.edge_table import drop_duplicates, with_reverses
from aethergraph.convert.outputs import NpyWriter
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


@pytest.mark.parametrize("kind", ["csv", "tsv", "txt", "parquet", "npy", "npyT", "csv.gz"])
@pytest.mark.parametrize("layout", ["csc", "csr", "both"])
def test_round_trip_of_every_input(kind: str, layout: Any, tmp_path: Path) -> None:
    path = tmp_path / f"edges.{kind.rstrip('T')}"
    table = pa.table({"src": SRC, "dst": DST})
    if kind == "parquet":
        pq.write_table(table, path)
    elif kind.startswith("npy"):
        pair = np.stack([SRC, DST])
        np.save(path, pair.T if kind == "npyT" else pair)
    elif kind == "csv.gz":
        with pa.CompressedOutputStream(str(path), "gzip") as stream:
            pacsv.write_csv(table, stream)
    else:
        delimiter = {"csv": ",", "tsv": "\t", "txt": " "}[kind]
        pacsv.write_csv(
            table, path, pacsv.WriteOptions(include_header=kind != "txt", delimiter=delimiter)
        )
    result = convert(path, tmp_path / "g.bin", layout=layout)
    assert (result.num_nodes, result.num_edges, result.layout) == (6, 6, layout)
    with Graph.load(tmp_path / "g.bin") as graph:
        assert triples(graph) == EXPECTED
        assert graph.layout == layout
        graph.verify()


def test_values_travel_with_their_edges(edges: Path, tmp_path: Path) -> None:
    result = convert(
        edges,
        tmp_path / "g.bin",
        weight="w",
        time_column="t",
        attrs=["kind", "both=w,kind:float32"],
        keep_order=True,
        num_nodes=8,
    )
    assert result.notes == []
    graph = Graph.load(tmp_path / "g.bin")
    assert graph.num_nodes == 8
    order = graph.edge_order
    assert order is not None and graph.edge_weight is not None and graph.edge_time is not None
    assert graph.edge_weight.tolist() == WEIGHT[order].tolist()
    assert graph.edge_time.tolist() == TIME[order].tolist()
    assert graph.edge_attrs["kind"].array.tolist() == (TIME % 3)[order].tolist()
    both = graph.edge_attrs["both"].array
    assert both.shape == (6, 2) and both[:, 1].tolist() == (TIME % 3)[order].tolist()


def test_unused_columns_are_noted(edges: Path, tmp_path: Path) -> None:
    result = convert(edges, tmp_path / "g.bin", weight="w")
    assert result.notes == ["columns not used: t, kind"]


def test_undirected_and_dedup(edges: Path, tmp_path: Path) -> None:
    result = convert(edges, tmp_path / "g.bin", weight="w", undirected=True, dedup=True)
    pairs = {(u, v) for u, v in EXPECTED} | {(v, u) for u, v in EXPECTED}
    assert (result.read_edges, result.num_edges) == (6, len(pairs))
    assert "2 duplicate edges dropped" in result.notes
    graph = Graph.load(tmp_path / "g.bin")
    assert triples(graph) == sorted(pairs)
    src, dst = graph.edge_index()
    weights = graph.edge_weight
    assert weights is not None
    found = {
        (u, v): w for u, v, w in zip(src.tolist(), dst.tolist(), weights.tolist(), strict=True)
    }
    assert found[0, 1] == found[1, 0] == 0.5  # the first of two
    assert found[5, 5] == 3


def test_dedup_keeps_the_first_of_each(edges: Path) -> None:
    table = with_reverses(read_edges(edges, time="t"))
    assert table.num_edges == 11 and table.time is not None
    expected: dict[tuple[int, int], int] = {}
    for u, v, t in zip(table.src.tolist(), table.dst.tolist(), table.time.tolist(), strict=True):
        expected.setdefault((u, v), t)
    seen: list[tuple[int, int]] = []
    kept = drop_duplicates(table, lambda done, total: seen.append((done, total)))
    assert kept.time is not None
    pairs = list(zip(kept.src.tolist(), kept.dst.tolist(), strict=True))
    assert pairs == list(expected) and kept.time.tolist() == list(expected.values())
    assert seen[-1][0] == seen[-1][1]


def test_five_million_edges(tmp_path: Path) -> None:
    """Many blocks, two threads; how fast is for the benchmarks to say."""
    count = 5_000_000
    src = (np.arange(count) * 7919) % 1_000_003
    dst = (np.arange(count) * 104_729 + 5) % 1_000_003
    path = tmp_path / "edges.csv"
    pacsv.write_csv(pa.table({"src": src, "dst": dst}), path)
    result = convert(path, tmp_path / "g.bin", keep_order=True, threads=2)
    assert (result.num_nodes, result.num_edges) == (1_000_003, count)
    graph = Graph.load(tmp_path / "g.bin")
    order = graph.edge_order
    assert order is not None
    back_src, back_dst = graph.edge_index()
    assert (back_src == src[order]).all() and (back_dst == dst[order]).all()


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
        FeatureStore.from_array(X).save(path)
    return path


KINDS = [
    "npy",
    "npy-fortran",
    "csv",
    "csv-plain",
    "parquet",
    "parquet-list",
    "parquet-fixed",
    "bin",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "dtype"),
    [("y.npy", None), ("y.bin", None), ("y.bin", "bfloat16"), ("y.npy", "float16")],
)
def test_features_of_every_kind(
    kind: str, name: str, dtype: str | None, edges: Path, tmp_path: Path
) -> None:
    source = feature_file(tmp_path, kind)
    out = tmp_path / name
    result = convert(edges, tmp_path / "g.bin", features=source, features_out=out, dtype=dtype)
    assert result.features == str(out) and result.feature_shape == (6, 3)
    store = FeatureStore.load(out)
    assert store.dtype_name == (dtype or "float32")
    assert store.gather(np.arange(6), dtype="float32").tolist() == X.tolist()
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []


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


def test_tables_by_node_id(edges: Path, tmp_path: Path) -> None:
    order = np.array([3, 0, 5, 1, 4, 2])
    columns = {"node": order, **{f"f{i}": X[order, i] for i in range(3)}}
    pacsv.write_csv(pa.table(columns), tmp_path / "x.csv")
    pq.write_table(pa.table({"y": order * 10, "node": order}), tmp_path / "y.parquet")
    convert(
        edges,
        tmp_path / "g.bin",
        features=tmp_path / "x.csv",
        labels=tmp_path / "y.parquet",
        id_column="node",
    )
    assert np.load(tmp_path / "g.features.npy").tolist() == X.tolist()
    assert np.load(tmp_path / "g.labels.npy").tolist() == [0, 10, 20, 30, 40, 50]
    columns["node"] = np.array([3, 0, 5, 1, 4, 4])
    pacsv.write_csv(pa.table(columns), tmp_path / "x.csv")
    with pytest.raises(InputError, match="the node id 2 is missing"):
        convert(edges, tmp_path / "h.bin", features=tmp_path / "x.csv", id_column="node")
    columns["node"] = np.array([3, 0, 1, 1, 4, 2])
    pacsv.write_csv(pa.table(columns), tmp_path / "x.csv")
    with pytest.raises(InputError, match="the node id 1 comes twice"):
        convert(edges, tmp_path / "h.bin", features=tmp_path / "x.csv", id_column="node")


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
    ("text", "message"),
    [
        ("f\n1\nx\n", "line 3, column 1 .f.: the feature 'x' is not a number"),
        ("1,2\n3\n", "line 2: 1 field where the first line has 2"),
        ("1,2\n3,\n", "line 2, column 2 .feature.: the feature is missing"),
        ("a,b\n", "the feature 'a' is not a number"),
        ("", "is empty"),
    ],
)
def test_bad_features(text: str, message: str, edges: Path, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        convert(edges, tmp_path / "g.bin", features=tmp_path / "x.csv")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["edges.csv", "x.csv"]


def test_bad_labels(edges: Path, tmp_path: Path) -> None:
    path = tmp_path / "y.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="has 2 columns and none is called label"):
        convert(edges, tmp_path / "g.bin", labels=path)
    path.write_text("y\n1\n1.5\n")
    with pytest.raises(
        InputError, match=r"line 3, column 1 .y.: the label '1.5' is not an integer"
    ):
        convert(edges, tmp_path / "g.bin", labels=path)
    path.write_text("y\n")
    with pytest.raises(InputError, match="holds no labels"):
        convert(edges, tmp_path / "g.bin", labels=path)


def test_ragged_parquet_lists(edges: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    for lists, message in [
        (
            [[1.0, 2], [3.0], [4.0, 5]],
            "row 2, column 1 .x.: the feature has 1 values where the first row has 2",
        ),
        ([[1.0, 2], None, [4.0, 5]], "row 2, column 1 .x.: the feature is missing"),
        ([[1.0, 2], [3.0, None]], "row 2, column 1 .x.: the feature is missing"),
    ]:
        pq.write_table(pa.table({"x": pa.array(lists, pa.list_(pa.float32()))}), path)
        with pytest.raises(InputError, match=message):
            convert(edges, tmp_path / "g.bin", features=path)


# ---- outputs ---------------------------------------------------------------------------------


def test_nothing_is_overwritten_unless_forced(edges: Path, tmp_path: Path) -> None:
    out = tmp_path / "g.bin"
    out.write_text("precious")
    with pytest.raises(StorageError, match=r"g\.bin: exists already; --force overwrites it"):
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


def test_a_failure_leaves_nothing_behind(edges: Path, tmp_path: Path) -> None:
    edges.write_text(edges.read_text() + "1,oops,1,1,1\n")
    csv = feature_file(tmp_path, "csv")
    with pytest.raises(InputError, match="line 8, column 2"):
        convert(edges, tmp_path / "g.bin", features=csv)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["edges.csv", "x.csv"]


def test_read_only_folder(edges: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(StorageError, match="is not writable"):
        convert(edges, tmp_path / "g.bin")


@pytest.mark.parametrize("memory", [None, "4G"])
def test_sparse_ids_are_refused(memory: str | None, tmp_path: Path) -> None:
    path, other = tmp_path / "e.csv", tmp_path / "first.csv"
    path.write_text(f"src,w,dst\n# no edge\n0,1,{2**40}\n1,2,2\n")
    other.write_text("src,w,dst\n3,1,4\n")
    message = (
        r"/e\.csv, line 3, column 3 \(dst\): the largest node id is 1099511627776.*without gaps"
    )
    with pytest.raises(LimitError, match=message):
        convert([other, path], tmp_path / "g.bin", weight="w", memory_budget=memory)
    with pytest.raises(LimitError, match="num_nodes = 2199023255552 is far above the 3 edges"):
        convert([other, path], tmp_path / "g.bin", num_nodes=2**41, memory_budget=memory)


def test_stages_are_announced(edges: Path, tmp_path: Path) -> None:
    seen: dict[str, list[tuple[int, int]]] = {}

    def stages(name: str, unit: str) -> Any:
        return lambda done, total: seen.setdefault(name, []).append((done, total))

    convert(edges, tmp_path / "g.bin", features=feature_file(tmp_path, "csv"), stages=stages)
    assert {"Reading edges", "Reading features"} <= set(seen)
    assert all(done <= total for steps in seen.values() for done, total in steps)


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
    assert FeatureStore.load(path).shape == (100, 2)
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
