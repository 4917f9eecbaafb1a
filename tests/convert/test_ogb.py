"""Folders of OGB's node datasets in all four layouts, written here as OGB writes them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aethergraph import Graph, HeteroGraph, errors
from aethergraph.build import InputError, read_ogb

pytest.importorskip("pyarrow")

WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")
RNG = np.random.default_rng(0)
SRC, DST = RNG.integers(0, 30, (2, 200))
X = RNG.random((30, 4)).astype(np.float32)
Y = RNG.integers(0, 5, (30, 1))
YEAR = RNG.integers(1990, 2020, (30, 1))
WEIGHT = RNG.random((200, 2)).astype(np.float32)
SPLIT = {"train": np.arange(20), "valid": np.arange(20, 25), "test": np.arange(25, 30)}
#: of the typed graph
AUTHORS = RNG.integers(0, 12, 90), RNG.integers(0, 30, 90)
RELTYPE = RNG.integers(0, 3, (90, 1))


def write(path: Path, table: Any, header: list[str] | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [",".join(header)] if header else []
    for row in np.asarray(table).tolist():
        lines.append(",".join(map(str, row if isinstance(row, list) else [row])))
    with gzip.open(path, "wt") as file:
        file.write("\n".join(lines) + "\n")


def write_npz(path: Path, **arrays: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)


def write_split(folder: Path) -> None:
    for name, ids in SPLIT.items():
        write(folder / f"{name}.csv.gz", ids)


def text_folder(root: Path) -> Path:
    """As of ogbn-arxiv, with edge features as ogbn-proteins has them."""
    raw = root / "raw"
    write(raw / "edge.csv.gz", np.stack([SRC, DST], 1))
    write(raw / "num-node-list.csv.gz", [30])
    write(raw / "num-edge-list.csv.gz", [200])
    write(raw / "node-feat.csv.gz", X)
    write(raw / "edge-feat.csv.gz", WEIGHT)
    write(raw / "node_year.csv.gz", YEAR)
    write(raw / "node-label.csv.gz", Y)
    write_split(root / "split" / "time")
    return root


def binary_folder(root: Path) -> Path:
    """As of ogbn-papers100M."""
    write_npz(
        root / "raw" / "data.npz", edge_index=np.stack([SRC, DST]), num_nodes_list=np.array([30]),
        num_edges_list=np.array([200]), node_feat=X, node_year=YEAR, edge_feat=WEIGHT,
    )  # fmt: skip
    write_npz(root / "raw" / "node-label.npz", node_label=Y)
    write_split(root / "split" / "time")
    return root


def typed_text_folder(root: Path) -> Path:
    """As of ogbn-mag."""
    raw = root / "raw"
    write(raw / "num-node-dict.csv.gz", [[30, 12]], ["paper", "author"])
    write(raw / "triplet-type-list.csv.gz", [list(CITES), list(WRITES)])
    for kind, ends in ((WRITES, AUTHORS), (CITES, (SRC, DST))):
        folder = raw / "relations" / "___".join(kind)
        write(folder / "edge.csv.gz", np.stack(ends, 1))
        write(folder / "num-edge-list.csv.gz", [len(ends[0])])
    write(raw / "relations" / "___".join(WRITES) / "edge_reltype.csv.gz", RELTYPE)
    write(raw / "nodetype-has-feat.csv.gz", [["True", "False"]], ["paper", "author"])
    write(raw / "node-feat" / "paper" / "node-feat.csv.gz", X)
    write(raw / "node-feat" / "paper" / "node_year.csv.gz", YEAR)
    write(raw / "nodetype-has-label.csv.gz", [["True", "False"]], ["paper", "author"])
    write(raw / "node-label" / "paper" / "node-label.csv.gz", Y)
    write(
        root / "split" / "time" / "nodetype-has-split.csv.gz", [["True", "False"]],
        ["paper", "author"],
    )  # fmt: skip
    write_split(root / "split" / "time" / "paper")
    return root


def typed_binary_folder(root: Path) -> Path:
    """As OGB's DatasetSaver writes them."""
    raw = root / "raw"
    edges = {"___".join(WRITES): np.stack(AUTHORS), "___".join(CITES): np.stack([SRC, DST])}
    write_npz(raw / "edge_index_dict.npz", **edges)
    write_npz(raw / "num_nodes_dict.npz", paper=np.array([30]), author=np.array([12]))
    counts = {name: np.array([ends.shape[1]]) for name, ends in edges.items()}
    write_npz(raw / "num_edges_dict.npz", **counts)
    write_npz(raw / "node_feat_dict.npz", paper=X)
    write_npz(raw / "node_year.npz", paper=YEAR)
    write_npz(raw / "edge_reltype.npz", **{"___".join(WRITES): RELTYPE})
    write_npz(raw / "node-label.npz", paper=Y)
    write_split(root / "split" / "time" / "paper")
    return root


def assert_nodes(attrs: Any) -> None:
    assert sorted(attrs) == ["node_year", "test_mask", "train_mask", "val_mask", "x", "y"]
    assert attrs["x"].dtype == np.float32
    assert np.array_equal(attrs["x"].array, X)
    assert np.array_equal(attrs["y"].array, Y[:, 0])
    assert attrs["y"].dtype == np.int64
    assert np.array_equal(attrs["node_year"].array, YEAR[:, 0])
    for name, part in (("train", "train"), ("val", "valid"), ("test", "test")):
        assert np.array_equal(np.flatnonzero(attrs[f"{name}_mask"].array), SPLIT[part])


@pytest.mark.parametrize("write_folder", [text_folder, binary_folder])
@pytest.mark.parametrize("layout", ["csc", "csr"])
def test_one_type(write_folder: Any, layout: Any, tmp_path: Path) -> None:
    graph = read_ogb(write_folder(tmp_path / "ogbn_x"), layout=layout, keep_order=True)
    assert isinstance(graph, Graph)
    assert graph.num_nodes == 30
    order = graph.edge_order
    assert np.array_equal(np.stack(graph.edge_index()), np.stack([SRC, DST])[:, order])
    assert sorted(graph.edge_attrs) == ["edge_attr"]
    assert np.array_equal(graph.edge_attrs["edge_attr"].array, WEIGHT[order])
    assert_nodes(graph.node_attrs)
    graph.save(tmp_path / "g")
    assert_nodes(Graph.load(tmp_path / "g").node_attrs)


@pytest.mark.parametrize("write_folder", [typed_text_folder, typed_binary_folder])
def test_many_types(write_folder: Any, tmp_path: Path) -> None:
    graph = read_ogb(write_folder(tmp_path / "ogbn_x"), keep_order=True)
    assert isinstance(graph, HeteroGraph)
    assert graph.num_nodes == {"author": 12, "paper": 30}
    assert graph.edge_types == [WRITES, CITES]
    for kind, ends in ((WRITES, AUTHORS), (CITES, (SRC, DST))):
        order = graph[kind].edge_order
        assert np.array_equal(np.stack(graph[kind].edge_index()), np.stack(ends)[:, order])
    order = graph[WRITES].edge_order
    assert np.array_equal(graph[WRITES].attrs["edge_reltype"].array, RELTYPE[order, 0])
    assert_nodes(graph["paper"].attrs)
    assert list(graph["author"].attrs) == []
    both = read_ogb(tmp_path / "ogbn_x", add_reverse=True)
    assert both.num_edges[("paper", "rev_writes", "author")] == 90  # type: ignore[index]


def test_every_edge_both_ways(tmp_path: Path) -> None:
    """As OGB does: the reverse follows its edge, with the same features."""
    graph = read_ogb(text_folder(tmp_path), add_reverse=True, keep_order=True)
    ends = np.empty((2, 400), np.int64)
    ends[:, 0::2], ends[:, 1::2] = (SRC, DST), (DST, SRC)
    order = graph.edge_order  # type: ignore[union-attr]
    assert np.array_equal(np.stack(graph.edge_index()), ends[:, order])  # type: ignore[union-attr]
    rows = graph.edge_attrs["edge_attr"].array  # type: ignore[union-attr]
    assert np.array_equal(rows, WEIGHT[order // 2])


def test_numbers_as_ogb_reads_them(tmp_path: Path) -> None:
    raw = text_folder(tmp_path) / "raw"
    write(raw / "node-feat.csv.gz", YEAR)  # integers; one column stays a column of features
    write(raw / "node_mixed.csv.gz", [*range(29), 0.5])
    write(raw / "node-label.csv.gz", np.concatenate([Y, Y], 1))  # two tasks
    (raw / "node_year.csv.gz").rename(raw / "species.csv.gz")
    attrs = read_ogb(tmp_path).node_attrs  # type: ignore[union-attr]
    assert attrs["x"].dtype == np.int64
    assert attrs["x"].shape == (30, 1)
    assert attrs["node_mixed"].dtype == np.float32
    assert attrs["node_mixed"].array[-1] == 0.5
    assert attrs["y"].shape == (30, 2)
    assert np.array_equal(attrs["node_species"].array, YEAR[:, 0])


def test_unknown_labels_of_papers(tmp_path: Path) -> None:
    labels = Y.astype(np.float32)
    labels[3:] = np.nan
    write_npz(binary_folder(tmp_path) / "raw" / "node-label.npz", node_label=labels)
    found = read_ogb(tmp_path).node_attrs["y"].array  # type: ignore[union-attr]
    assert np.array_equal(found, labels[:, 0], equal_nan=True)


def test_splits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root = text_folder(tmp_path)
    write(root / "split" / "random" / "train.csv.gz", [3])
    with pytest.raises(errors.InvalidArgumentError, match="None is not one of: 'random', 'time'"):
        read_ogb(root)
    attrs = read_ogb(root, split="random").node_attrs  # type: ignore[union-attr]
    assert np.flatnonzero(attrs["train_mask"].array).tolist() == [3]
    assert "val_mask" not in attrs
    (root / "split" / "torch").mkdir()
    (root / "split" / "torch" / "split_dict.pt").touch()
    read_ogb(root, split="torch")
    assert "no masks" in caplog.text


@pytest.mark.parametrize(
    ("name", "table", "match"),
    [
        ("raw/edge.csv.gz", [[0, 1], [30, 2]], r"edge.csv.gz, line 2, column 1.*30"),
        ("raw/edge.csv.gz", [[0, 1], [2, -1]], r"line 2, column 2.*-1"),
        ("raw/edge.csv.gz", [[0, 1, 2]], "3 columns instead of 2"),
        ("raw/num-node-list.csv.gz", [30, 30], "2 graphs"),
        ("raw/node-feat.csv.gz", [[1.0]] * 7, "needs 30 rows"),
        ("split/time/train.csv.gz", [1, 30], r"train.csv.gz, line 2.*30"),
    ],
)
def test_what_is_wrong_is_named(name: str, table: Any, match: str, tmp_path: Path) -> None:
    write(text_folder(tmp_path) / name, table)
    with pytest.raises(InputError, match=match):
        read_ogb(tmp_path)


@pytest.mark.parametrize(
    ("folder", "name", "match"),
    [
        (binary_folder, "data.npz", "cannot be read"),
        (binary_folder, "node-label.npz", "cannot be read"),
        (typed_binary_folder, "num_nodes_dict.npz", "cannot be read"),
        (typed_text_folder, "triplet-type-list.csv.gz", "cannot be read"),
    ],
)
def test_damaged_files_are_named(folder: Any, name: str, match: str, tmp_path: Path) -> None:
    (folder(tmp_path) / "raw" / name).write_bytes(b"nonsense" * 9)
    with pytest.raises(InputError, match=f"{name}: {match}"):
        read_ogb(tmp_path)


def test_other_kinds_of_damage_are_named(tmp_path: Path) -> None:
    path = binary_folder(tmp_path / "array") / "raw" / "data.npz"
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(InputError, match=r"data\.npz: is one array"):
        read_ogb(tmp_path / "array")
    path = binary_folder(tmp_path / "flipped") / "raw" / "data.npz"
    with np.load(path) as arrays:
        np.savez_compressed(path, **dict(arrays))
    damaged = bytearray(path.read_bytes())
    damaged[60:160] = bytes(100)
    path.write_bytes(bytes(damaged))
    with pytest.raises(InputError, match=r"data\.npz: cannot be read"):
        read_ogb(tmp_path / "flipped")
    path = typed_text_folder(tmp_path / "typed") / "raw" / "num-node-dict.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as text:
        names = text.readline()
    with gzip.open(path, "wt", encoding="utf-8") as text:
        text.write(names + ",".join("\u00b2" for _ in names.split(",")) + "\n")
    with pytest.raises(InputError, match="a line of counts"):
        read_ogb(tmp_path / "typed")


def test_folders_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(errors.MissingFileError, match=r"raw/data.npz, raw/edge_index_dict.npz"):
        read_ogb(tmp_path)
    root = typed_text_folder(tmp_path / "typed")
    write(root / "raw" / "triplet-type-list.csv.gz", [["dog", "bites", "paper"]])
    with pytest.raises(InputError, match="'dog', 'bites'"):
        read_ogb(root)
    write(root / "raw" / "num-node-dict.csv.gz", [[30, 12], [1, 1]], ["paper", "author"])
    with pytest.raises(InputError, match="for one graph"):
        read_ogb(root)
    root = typed_binary_folder(tmp_path / "binary")
    write_npz(root / "raw" / "node_feat_dict.npz", dog=X)
    with pytest.raises(InputError, match="'dog' is no node type"):
        read_ogb(root)
    write_npz(
        binary_folder(tmp_path / "one") / "raw" / "data.npz", edge_index=np.zeros((2, 1), int)
    )
    with pytest.raises(InputError, match="no array 'num_nodes_list'"):
        read_ogb(tmp_path / "one")
    (text_folder(tmp_path / "less") / "raw" / "num-node-list.csv.gz").unlink()
    with pytest.raises(errors.MissingFileError, match="num-node-list"):
        read_ogb(tmp_path / "less")
