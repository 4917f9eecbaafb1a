"""Folders of OGB's node datasets in all four layouts."""

from __future__ import annotations

import gzip
import io
import re
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


def npy_bytes(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def spoil(path: Path, content: Any) -> None:
    """Put other content in the place of a file: a table, arrays, bytes, or an edit of its own."""
    if callable(content):
        content = content(path.read_bytes())
    if content is None:
        path.unlink()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, dict):
        write_npz(path, **content)
    else:
        write(path, *content) if isinstance(content, tuple) else write(path, content)


def promise_more(data: bytes) -> bytes:
    """Let the headers of an archive give its first member four gigabytes."""
    edited = bytearray(data)
    for magic, place in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = edited.index(magic) + place
        edited[at : at + 4] = (0xFFFFFFF0).to_bytes(4, "little")
    return bytes(edited)


LARGE = 299999999999999999999
ONE_EDGE = {"edge_index": np.zeros((2, 1), int)}
TYPES = ["paper", "author"]


@pytest.mark.parametrize(
    ("folder", "name", "content", "match"),
    [
        (text_folder, "raw/node-label.csv.gz", [*range(12), LARGE, *range(17)],
         r"row 13: the label 3e\+20 does not fit in 64 bits"),
        (text_folder, "split/time/train.csv.gz", [4, 7, 9, 7, 4],
         "row 4: the node 7 comes again, after row 2"),
        (text_folder, "split/time/train.csv.gz", [1, 30], r"line 2.*30"),
        (text_folder, "raw/edge.csv.gz", [[0, 1], [30, 2]], r"line 2, column 1.*30"),
        (text_folder, "raw/edge.csv.gz", [[0, 1], [2, -1]], r"line 2, column 2.*-1"),
        (text_folder, "raw/edge.csv.gz", [[0, 1, 2]], "3 columns instead of 2"),
        (text_folder, "raw/edge.csv.gz", lambda data: data[:-200], "cannot be read"),
        (text_folder, "raw/edge.csv.gz", [[0, 1]], "has 1 rows, but needs 200 rows"),
        (text_folder, "raw/num-node-list.csv.gz", [30, 30], "2 graphs"),
        (text_folder, "raw/num-node-list.csv.gz", [1 << 50], "a graph of 11"),
        (text_folder, "raw/num-node-list.csv.gz", None, ""),
        (text_folder, "raw/node-feat.csv.gz", [[1.0]] * 7, "needs 30 rows"),
        (binary_folder, "raw/data.npz", b"nonsense" * 9, "cannot be read"),
        (binary_folder, "raw/data.npz", npy_bytes(np.zeros(3)), "is one array"),
        (binary_folder, "raw/data.npz", lambda data: data[:60] + bytes(100) + data[160:],
         "cannot be read"),
        (binary_folder, "raw/data.npz", promise_more, "member '.*' promises 4294967280 bytes"),
        (binary_folder, "raw/data.npz", ONE_EDGE, "no array 'num_nodes_list'"),
        (binary_folder, "raw/data.npz",
         {"edge_index": [[0, 1], [2, 30]], "num_nodes_list": np.array([30])},
         "edge 2, column 2: the id 30 is not below"),
        (binary_folder, "raw/node-label.npz", b"nonsense" * 9, "cannot be read"),
        (binary_folder, "raw/node-label.npz",
         {"node_label": Y.astype(np.uint64) + np.uint64(2**63)}, r"row \d+: the label .* 64 bits"),
        (binary_folder, "raw/node-label.npz", {"node_label": np.where(Y[4] == Y, 1e20, np.nan)},
         r"row \d+: the label .* 64 bits"),
        (typed_binary_folder, "raw/num_nodes_dict.npz", b"nonsense" * 9, "cannot be read"),
        (typed_binary_folder, "raw/node_feat_dict.npz", {"dog": X}, "'dog' is no node type"),
        (typed_text_folder, "raw/triplet-type-list.csv.gz", b"nonsense" * 9, "cannot be read"),
        (typed_text_folder, "raw/triplet-type-list.csv.gz", [["dog", "bites", "paper"]],
         "'dog', 'bites'"),
        # For gzip a file of no bytes is an empty text, and a graph without edges a good one.
        (typed_text_folder, "raw/triplet-type-list.csv.gz", b"", "is empty"),
        (typed_text_folder, "raw/num-node-dict.csv.gz", b"", "is empty"),
        (typed_text_folder, "raw/relations/author___writes___paper/edge.csv.gz", b"", "is empty"),
        (typed_text_folder, "raw/num-node-dict.csv.gz", ([[30, 12], [1, 1]], TYPES), "one graph"),
        (typed_text_folder, "raw/num-node-dict.csv.gz", ([["\u00b2"] * 2], TYPES),
         "a line of counts"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_what_is_wrong_is_named(
    folder: Any, name: str, content: Any, match: str, tmp_path: Path
) -> None:
    spoil(folder(tmp_path) / name, content)
    with pytest.raises(errors.AetherError, match=rf"{re.escape(Path(name).name[:-3])}.*{match}"):
        read_ogb(tmp_path)


def test_a_folder_of_none_of_the_layouts(tmp_path: Path) -> None:
    with pytest.raises(errors.MissingFileError, match=r"raw/data.npz, raw/edge_index_dict.npz"):
        read_ogb(tmp_path)


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


@pytest.mark.parametrize("folder", [None, "", "a\0b", 3, "\ud800"])
def test_folders_that_are_no_names(folder: Any) -> None:
    with pytest.raises(errors.AetherError):
        read_ogb(folder)
