"""The files that say what a live graph is: damage is found, and never taken for another graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aethergraph import DynamicGraph, Graph, errors
from aethergraph.dynamic.directory import LiveDirectory
from aethergraph.dynamic.repair import verify_directory

NAMES = ("graph.json", "CURRENT")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "g.aegd"
    options: Any = {"order": "time", "edge_time": "datetime64[s]", "edge_weight": "float32"}
    with DynamicGraph.open(path, 9, 16, edge_attrs={"note": ((2,), "int32")}, **options) as graph:
        row = {"time": np.datetime64(5, "s"), "weight": 1.0, "edge_attrs": {"note": [1, 2]}}
        graph.insert_edge(1, 2, **row)
        graph.merge()
        graph.insert_edge(2, 3, **row)
    return path


def read(path: Path, name: str) -> dict[str, Any]:
    directory = LiveDirectory(path)
    return directory.description() if name == "graph.json" else directory.current()


@pytest.mark.parametrize("name", NAMES)
def test_a_flipped_bit_of_each_byte_is_found(path: Path, name: str) -> None:
    """Or it changes nothing: a space, or the name of the checksum."""
    before, whole = read(path, name), (path / name).read_bytes()
    found = 0
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        (path / name).write_bytes(damaged)
        try:
            fields = read(path, name)
        except (errors.CorruptFileError, errors.VersionError):
            found += 1
        else:
            assert {key: fields.get(key) for key in before} == before, damaged
    assert found > len(whole) * 3 // 4


@pytest.mark.parametrize("name", NAMES)
def test_files_without_checksum_are_read(path: Path, name: str) -> None:
    """Older builds wrote none; what cannot be is found in them, too."""
    before, fields = read(path, name), json.loads((path / name).read_text())
    del fields["checksum"]
    if fields.pop("fingerprint", None):  # nor did they write that of a merged base
        before = {key: value for key, value in before.items() if key != "fingerprint"}
    text = json.dumps(fields).encode()
    (path / name).write_bytes(text)
    assert read(path, name) == before
    found = 0
    for at in range(len(text)):
        (path / name).write_bytes(text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :])
        try:
            read(path, name)
        except (errors.CorruptFileError, errors.VersionError):
            found += 1
    assert found > len(text) // 3
    (path / name).write_bytes(text)
    with DynamicGraph.open(path) as graph:
        assert graph.num_edges == 2


@pytest.mark.parametrize(
    ("name", "required"),
    [("graph.json", ["uuid", "num_nodes", "edge_types"]), ("CURRENT", ["lsn", "base", "nodes"])],
)
def test_fields_that_are_missing(path: Path, name: str, required: list[str]) -> None:
    fields = json.loads((path / name).read_text())
    for key in required:
        left = {k: v for k, v in fields.items() if k not in (key, "checksum")}
        (path / name).write_text(json.dumps(left))
        for call in (DynamicGraph.open, verify_directory, lambda path: LiveDirectory(path).info()):
            with pytest.raises(errors.CorruptFileError, match=f"damaged: '{key}' is missing"):
                call(path)


def test_verify_finds_another_base(tmp_path: Path) -> None:
    file, path = tmp_path / "base.aeg", tmp_path / "g.aegd"
    Graph.from_edges(5, [0, 1], [1, 2]).save(file)
    DynamicGraph.open(path, base=file, arena_mb=16).close()
    assert "base.aeg" in verify_directory(path)
    Graph.from_edges(5, [0, 1], [1, 3]).save(file)
    for call in (verify_directory, DynamicGraph.open):
        with pytest.raises(errors.FileChangedError, match="another file than the one"):
            call(path)
