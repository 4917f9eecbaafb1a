"""Folders of OGB's node datasets in all four layouts."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.ogb_folders import (
    AUTHORS,
    CITES,
    DST,
    RELTYPE,
    SPLIT,
    SRC,
    WEIGHT,
    WRITES,
    YEAR,
    X,
    Y,
    binary_folder,
    text_folder,
    typed_binary_folder,
    typed_text_folder,
    write,
    write_npz,
)  # fmt: skip

from aethergraph import Graph, HeteroGraph, errors
from aethergraph.convert import InputError, read_ogb

pytest.importorskip("pyarrow")


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


def test_parts_that_overlap_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(text_folder(tmp_path) / "split" / "time" / "valid.csv.gz", [29, int(SPLIT["train"][1])])
    read_ogb(tmp_path)
    said = f"1 nodes are also in train, the first is {SPLIT['train'][1]}: their masks overlap"
    assert "valid.csv.gz" in caplog.text and said in caplog.text


@pytest.mark.parametrize(
    "labels", [Y.astype(np.uint64) + np.uint64(2**63), np.where(Y[4] == Y, 1e20, np.nan)]
)
def test_labels_outside_int64_are_refused(labels: Any, tmp_path: Path) -> None:
    write_npz(binary_folder(tmp_path) / "raw" / "node-label.npz", node_label=labels)
    with pytest.raises(InputError, match=r"node-label.npz, row \d+: the label .* 64 bits"):
        read_ogb(tmp_path)


@pytest.mark.parametrize(
    ("name", "table", "match"),
    [
        (
            "raw/node-label.csv.gz",
            [*range(12), 299999999999999999999, *range(17)],
            r"node-label.csv.gz, row 13: the label 3e\+20 does not fit in 64 bits",
        ),
        (
            "split/time/train.csv.gz",
            [4, 7, 9, 7, 4],
            "train.csv.gz, row 4: the node 7 comes again, after row 2",
        ),
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


# ---- folders that are out to do harm ------------------------------------------------------------


@pytest.mark.parametrize("name", ["../../secret", "a/../../../secret", "\0"])
def test_types_do_not_lead_out_of_the_folder(name: str, tmp_path: Path) -> None:
    write(tmp_path / "secret" / "node-feat.csv.gz", X)
    root = typed_text_folder(tmp_path / "folder")
    write(root / "raw" / "num-node-dict.csv.gz", [[30, 12, 30]], ["paper", "author", name])
    with pytest.raises(InputError, match=r"num-node-dict\.csv\.gz: the type = .*(leads|is no)"):
        read_ogb(root)
    root = typed_text_folder(tmp_path / "other")
    triplet = ["paper", f"/{name}/", "paper"]
    write(root / "raw" / "triplet-type-list.csv.gz", [triplet])
    with pytest.raises(InputError, match=r"triplet-type-list\.csv\.gz: the relation = "):
        read_ogb(root)


def test_links_do_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    write(tmp_path / "secret.csv.gz", YEAR)
    root = text_folder(tmp_path / "folder")
    (root / "raw" / "node_other.csv.gz").symlink_to(tmp_path / "secret.csv.gz")
    with pytest.raises(InputError, match=r"node_other\.csv\.gz' leads out of the folder"):
        read_ogb(root)
    (root / "raw" / "node_other.csv.gz").unlink()
    (root / "raw").rename(tmp_path / "raw")
    (root / "raw").symlink_to(tmp_path / "raw")
    with pytest.raises(InputError, match="'raw' leads out of the folder"):
        read_ogb(root)
    (tmp_path / "link").symlink_to(text_folder(tmp_path / "good"))
    assert read_ogb(tmp_path / "link").num_nodes == 30  # the user's own link


def rewrite(path: Path, edit: Any) -> None:
    """Edit the headers of an archive's members in place."""
    data = bytearray(path.read_bytes())
    edit(data)
    path.write_bytes(bytes(data))


def test_members_that_promise_more_than_they_hold(tmp_path: Path) -> None:
    path = binary_folder(tmp_path) / "raw" / "data.npz"

    def promise(data: bytearray) -> None:
        for magic, place in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):  # sizes of the first one
            at = data.index(magic) + place
            data[at : at + 4] = (0xFFFFFFF0).to_bytes(4, "little")

    rewrite(path, promise)
    with pytest.raises(InputError, match=r"data\.npz: member '.*' promises 4294967280 bytes"):
        read_ogb(tmp_path)


def test_arrays_that_promise_more_than_they_hold(tmp_path: Path) -> None:
    path = binary_folder(tmp_path) / "raw" / "node-label.npz"
    for shape, problem in (
        ("(1099511627776, 9)", "are promised"),
        ("(30, 1), 'a': 1", "goes on|rows|promised|malformed"),
        ("(2, 1)", "goes on|rows|promised|reshape"),
    ):
        text = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}}}".encode()
        head = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("node_label.npy", head + bytes(80))
        with pytest.raises(errors.FormatError, match=rf"node-label\.npz: .*({problem})"):
            read_ogb(tmp_path)


def test_a_text_of_more_rows_than_nodes_is_not_read_to_its_end(tmp_path: Path) -> None:
    """Four hundred megabytes in four hundred kilobytes."""
    root = text_folder(tmp_path)
    block = gzip.compress(b"1\n" * (1 << 20))
    (root / "raw" / "node_year.csv.gz").write_bytes(block * 200)
    with pytest.raises(InputError, match=r"node_year\.csv\.gz: has more than 30 rows"):
        read_ogb(root)
    root = typed_text_folder(tmp_path / "typed")
    (root / "raw" / "num-node-dict.csv.gz").write_bytes(gzip.compress(b"x" * (17 << 20)))
    with pytest.raises(InputError, match=r"num-node-dict\.csv\.gz: is longer than 16\.0 MiB"):
        read_ogb(root)


def test_edges_are_as_many_as_the_folder_says(tmp_path: Path) -> None:
    write(text_folder(tmp_path) / "raw" / "num-edge-list.csv.gz", [201])
    with pytest.raises(InputError, match=r"edge\.csv\.gz: has 200 rows, but needs 201 rows"):
        read_ogb(tmp_path)


def test_a_text_that_is_cut_off(tmp_path: Path) -> None:
    path = text_folder(tmp_path) / "raw" / "edge.csv.gz"
    (tmp_path / "raw" / "num-edge-list.csv.gz").unlink()
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InputError, match=r"edge\.csv\.gz.*cannot be read"):
        read_ogb(tmp_path)


@pytest.mark.parametrize("name", ["triplet-type-list", "num-node-dict", "relations/*/edge"])
def test_a_text_that_is_cut_to_nothing(name: str, tmp_path: Path) -> None:
    """For gzip a file of no bytes is an empty text, and a graph without edges a good one."""
    for path in (typed_text_folder(tmp_path) / "raw").glob(f"{name}.csv.gz"):
        path.write_bytes(b"")
    with pytest.raises(InputError, match=rf"{name.split('/')[-1]}\.csv\.gz: is empty"):
        read_ogb(tmp_path)


def test_more_nodes_than_memory(tmp_path: Path) -> None:
    write(text_folder(tmp_path) / "raw" / "num-node-list.csv.gz", [1 << 50])
    with pytest.raises(errors.OutOfMemoryError, match=r"num-node-list\.csv\.gz: a graph of 11"):
        read_ogb(tmp_path)


def test_edges_of_nodes_that_are_not_there(tmp_path: Path) -> None:
    path = binary_folder(tmp_path) / "raw" / "data.npz"
    write_npz(path, edge_index=np.array([[0, 1], [2, 30]]), num_nodes_list=np.array([30]))
    with pytest.raises(InputError, match=r"data\.npz, edge 2, column 2: the id 30 is not below"):
        read_ogb(tmp_path)


@pytest.mark.parametrize("folder", [None, "", "a\0b", 3, "\ud800"])
def test_folders_that_are_no_names(folder: Any) -> None:
    with pytest.raises(errors.AetherError):
        read_ogb(folder)
