"""Entries of a dataset folder's ``metadata.yaml`` that cannot be, and what the errors say."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from aethergraph import Graph, errors
from aethergraph.dgl.graphbolt import load_ondisk_dataset

NODES = [{"type": "user", "num": 4}, {"type": "post", "num": 4}]
LIST = {"format": "numpy", "path": "e.npy"}
VOTED = {**LIST, "type": "user:votes:post"}
ROWS_OF_NODES = {"domain": "node", "name": "x", "format": "numpy", "path": "x.npy"}

#: Parts of ``graph``, ``feature_data`` beside it, and what the error says.
WRONG_ENTRIES: dict[str, tuple[dict[str, Any], list[Any], str]] = {
    "no num": ({"nodes": [{}]}, [], r"graph.nodes\[0\] has no 'num': add it"),
    "num": ({"nodes": [{"num": "4"}]}, [], r"graph.nodes\[0\]: num = '4' is no count"),
    "two nodes": (
        {"nodes": [{"num": 4}, {"num": 5}]}, [], r"graph.nodes\[1\]: type = None is there twice"
    ),
    "two edges": (
        {"edges": [LIST, LIST]}, [], r"graph.edges\[1\]: type = None is there twice: give every"
    ),
    "no format": ({"edges": [{"path": "e.npy"}]}, [], r"graph.edges\[0\] has no 'format': add it"),
    "no path": ({"edges": [{"format": "csv"}]}, [], r"graph.edges\[0\] has no 'path': add it"),
    "format": (
        {"edges": [{**LIST, "format": "torch"}]}, [],
        r"graph.edges\[0\]: format = 'torch' is not 'csv' or 'numpy'",
    ),
    "no list": ({"edges": LIST}, [], "graph.edges = .* is no list of entries"),
    "no fields": ({"edges": ["e.npy"]}, [], r"graph.edges\[0\] is 'e.npy': give it fields"),
    "untyped edges": (
        {"nodes": NODES}, [], r"graph.edges\[0\]: type = None, but others .* give this one its type"
    ),
    "untyped nodes": (
        {"edges": [VOTED]}, [], r"graph.nodes\[0\]: type = None, but others have types"
    ),
    "edge type": (
        {"nodes": NODES, "edges": [{**LIST, "type": "votes"}]}, [],
        r"graph.edges\[0\]: type = 'votes' is not of the form 'source:relation:target'",
    ),
    "no such end": (
        {"nodes": NODES, "edges": [{**LIST, "type": "user:has:tag"}]}, [],
        r"graph.edges\[0\]: .* 'tag' is no type of graph.nodes; there are: 'user', 'post'",
    ),
    "type that is no name": ({"nodes": [{"type": 3, "num": 4}]}, [], "type = 3 is no name"),
    "domain": (
        {}, [{**ROWS_OF_NODES, "domain": "nodes"}],
        r"feature_data\[0\]: domain = 'nodes' is not 'node' or 'edge'",
    ),
    "domain of the whole graph": (
        {}, [{**ROWS_OF_NODES, "domain": "graph"}], r"domain = 'graph' is not 'node' or 'edge'"
    ),
    "no domain": ({}, [{"name": "x"}], r"feature_data\[0\] has no 'domain': add it"),
    "no name": ({}, [{"domain": "edge"}], r"feature_data\[0\] has no 'name': add it"),
    "type of data": (
        {}, [{**ROWS_OF_NODES, "type": "user"}],
        r"feature_data\[0\]: type = 'user' of 'x' is no type of the graph's nodes; there are: None",
    ),
    "no type of data": (
        {"nodes": NODES, "edges": [VOTED], "feature_data": [{**ROWS_OF_NODES, "domain": "edge"}]},
        [],
        r"graph.feature_data\[0\]: type = None of 'x' .* edges; there are: 'user:votes:post'",
    ),
    "format of data": (
        {}, [{**ROWS_OF_NODES, "format": "csv"}],
        r"feature_data\[0\]: format = 'csv' is not 'numpy' or 'torch'",
    ),
    "a name in both": (
        {"feature_data": [ROWS_OF_NODES]}, [{**ROWS_OF_NODES, "path": "y.npy"}],
        r" feature_data\[0\]: name = 'x' is that of other rows in .*graph.feature_data\[0\]: give",
    ),
}  # fmt: skip


def write_wrong(folder: Path, parts: dict[str, Any], listed: list[Any]) -> None:
    np.save(folder / "e.npy", np.array([[0, 1], [1, 2]]))
    np.save(folder / "x.npy", np.zeros((4, 2)))
    np.save(folder / "y.npy", np.ones((4, 2)))
    config = {"graph": {"nodes": [{"num": 4}], "edges": [LIST], **parts}, "feature_data": listed}
    (folder / "metadata.yaml").write_text(yaml.safe_dump(config))


@pytest.mark.parametrize("name", list(WRONG_ENTRIES))
def test_entries_that_cannot_be(name: str, tmp_path: Path) -> None:
    parts, listed, text = WRONG_ENTRIES[name]
    write_wrong(tmp_path, parts, listed)
    with pytest.raises(errors.InvalidArgumentError, match=text):
        load_ondisk_dataset(tmp_path)


def test_rows_that_both_lists_name(tmp_path: Path) -> None:
    """What is for sampling may be a feature too, if it is the same file."""
    write_wrong(tmp_path, {"feature_data": [ROWS_OF_NODES]}, [ROWS_OF_NODES])
    graph = load_ondisk_dataset(tmp_path)
    assert isinstance(graph, Graph) and list(graph.node_attrs) == ["x"]


@pytest.mark.parametrize("name", ["e", "x"])
def test_paths_that_are_no_files(name: str, tmp_path: Path) -> None:
    write_wrong(tmp_path, {}, [ROWS_OF_NODES])
    path = tmp_path / f"{name}.npy"
    path.unlink()
    path.mkdir()
    with pytest.raises(errors.FormatError, match=rf"{name}\.npy: is a folder, not a file"):
        load_ondisk_dataset(tmp_path)
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(errors.FormatError, match=rf"{name}\.npy: is a pipe or a device"):
        load_ondisk_dataset(tmp_path)


@pytest.mark.parametrize("missing", ["e", "x"])
def test_files_that_are_missing(missing: str, tmp_path: Path) -> None:
    write_wrong(tmp_path, {}, [ROWS_OF_NODES])
    (tmp_path / f"{missing}.npy").unlink()
    entry = r"graph.edges\[0\]" if missing == "e" else r"feature_data\[0\]"
    with pytest.raises(errors.MissingFileError, match=f"no such file; .*{entry} names it") as found:
        load_ondisk_dataset(tmp_path)
    assert found.value.filename == str(tmp_path / f"{missing}.npy")
