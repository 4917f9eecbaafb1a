"""Directories of live graphs that were written once go on being opened.

``tests/golden/live-v1.tar.xz`` has two directories, as ``native/FORMAT.md`` describes them,
``live-v2.tar.xz`` one whose nodes have keys, and ``live-v3.tar.xz`` one whose nodes have times.
After a deliberate change of the format there is a new version with a file of its own; these stay.

    AETHERGRAPH_WRITE_GOLDEN=1 pytest tests/dynamic/test_golden_directory.py
"""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aethergraph import DynamicGraph, DynamicHeteroGraph, errors
from aethergraph.dynamic.repair import verify_directory

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
FOLDERS = {
    "live-v1.tar.xz": ("one.aegd", "typed.aegd"),
    "live-v2.tar.xz": ("keys.aegd",),
    "live-v3.tar.xz": ("times.aegd",),
}
VOTES, WRITES = ("user", "votes", "post"), ("user", "writes", "post")


def write_one(path: Path) -> None:
    graph = DynamicGraph.open(
        path, 6, 16, order="time", edge_time="datetime64[s]", edge_weight="float32",
        edge_attrs={"m": ((2,), "float32")}, max_nodes=1000, huge_pages=False,
    )  # fmt: skip
    graph.features = np.arange(12, dtype=np.float32).reshape(6, 2)
    graph.insert_edges(
        [0, 1, 2], [3, 3, 4], time=np.array([30, 10, 20], "datetime64[s]"), weight=[1, 2, 3],
        edge_attrs={"m": [[1, 2], [3, 4], [5, 6]]},
    )  # fmt: skip
    graph.delete_edge(2, 4)
    with graph.transaction():
        graph.add_nodes(1, x=[[7, 7]])
        graph.set_offset("clicks", 0, 3)
    graph.merge()
    # From here on the log has it.
    graph.node_attrs["y"] = np.arange(7)
    graph.insert_edges(
        [5], [3], time=np.array([15], "datetime64[s]"), weight=[4], edge_attrs={"m": [[7, 8]]}
    )
    graph.update_nodes([0], x=[[-1, -2]])
    graph.set_offset("clicks", 1, 9)
    graph.close()


def check_one(graph: DynamicGraph) -> None:
    assert graph.num_nodes == 7
    assert graph.in_neighbors(3).tolist() == [1, 5, 0]
    assert graph.in_edges(3).tolist() == [1, 3, 0]
    assert graph.in_neighbors(4).tolist() == []
    values = graph.edge_values
    assert values["edge_time"].gather([1, 3, 0]).tolist() == [10, 15, 30]
    assert values["edge_weight"].gather([1, 3, 0]).tolist() == [2, 4, 1]
    assert graph.edge_attrs["m"].gather([0, 1, 3]).tolist() == [[1, 2], [3, 4], [7, 8]]
    assert graph.time_unit == "s"
    assert graph.features is not None
    assert graph.features.gather([0, 1, 6]).tolist() == [[-1, -2], [2, 3], [7, 7]]
    assert graph.node_attrs["y"].gather([6]).tolist() == [6]
    assert graph.offsets("clicks") == {0: 3, 1: 9}


def write_typed(path: Path) -> None:
    graph = DynamicHeteroGraph.open(
        path, {"user": 4, "post": 2}, {VOTES: {"order": "time"}, WRITES: {}}, 16, layout="csc",
        huge_pages=False,
    )  # fmt: skip
    with graph.transaction():
        graph["post"].add(1)
        graph[WRITES].insert([1, 0], [2, 2])
        graph[VOTES].insert([3, 3], [0, 0])
    graph.close()


def check_typed(graph: DynamicHeteroGraph) -> None:
    assert graph.num_nodes == {"user": 4, "post": 3}
    assert graph[WRITES].in_neighbors(2).tolist() == [0, 1]
    assert graph[VOTES].in_neighbors(0).tolist() == [3, 3]


def write_keys(path: Path) -> None:
    graph = DynamicHeteroGraph.open(
        path, {"user": 0, "post": 0}, {VOTES: {"order": "time"}}, 16, layout="csc",
        ids={"user": "str", "post": "int64"}, huge_pages=False, max_nodes=1000,
    )  # fmt: skip
    graph[VOTES].insert(graph.ids["user"].add(["ann", "bob"]), graph.ids["post"].add([7, -9]))
    graph.merge()
    graph[VOTES].insert(graph.ids["user"].add(["", "bob"]), graph.ids["post"].add([2**62, 7]))
    graph.close()


def check_keys(graph: DynamicHeteroGraph) -> None:
    assert graph.ids["user"].lookup(["bob", "", "ann"]).tolist() == [1, 2, 0]
    assert graph.ids["post"].keys([0, 1, 2]).tolist() == [7, -9, 2**62]
    assert [graph[VOTES].in_neighbors(v).tolist() for v in range(3)] == [[0, 1], [1], [2]]


def write_times(path: Path) -> None:
    graph = DynamicGraph.open(
        path, 0, 16, order="time", node_time="datetime64[D]", layout="csc", huge_pages=False,
        max_nodes=1000,
    )  # fmt: skip
    graph.add_nodes(3, time=[30, 10, 20])
    graph.insert_edges([0, 1], [2, 2])
    graph.merge()
    graph.add_nodes(1, time=[15])
    graph.insert_edges([3, 2], [2, 2])
    graph.close()


def check_times(graph: DynamicGraph) -> None:
    assert graph.in_neighbors(2).tolist() == [1, 3, 2, 0]
    assert graph.node_values["node_time"].gather([0, 3]).tolist() == [30, 15]
    assert graph.time_unit == "D" and not graph.edge_values


def unpack(path: Path) -> Path:
    options: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    for name in FOLDERS:
        with tarfile.open(GOLDEN / name) as archive:
            archive.extractall(path, **options)
    return path


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("golden")
    if os.environ.get("AETHERGRAPH_WRITE_GOLDEN"):
        write_one(path / "one.aegd")
        write_typed(path / "typed.aegd")
        write_keys(path / "keys.aegd")
        write_times(path / "times.aegd")
        for name, folders in FOLDERS.items():
            with tarfile.open(GOLDEN / name, "w:xz") as archive:
                for folder in folders:
                    for file in sorted((path / folder).iterdir()):
                        if file.suffix != ".free":  # of no use to a reader
                            archive.add(file, f"{folder}/{file.name}")
    return unpack(tmp_path_factory.mktemp("unpacked"))


@pytest.mark.parametrize(
    ("name", "kind", "check", "told"),
    [
        ("one.aegd", DynamicGraph, check_one, "gen-000001.aeg, rows-"),
        ("typed.aegd", DynamicHeteroGraph, check_typed, "the log up to"),
        ("keys.aegd", DynamicHeteroGraph, check_keys, "gen-000001.user.ids, gen-000001.post.ids"),
        ("times.aegd", DynamicGraph, check_times, "gen-000001.aeg"),
    ],
)
def test_a_directory_opens(golden: Path, name: str, kind: Any, check: Any, told: str) -> None:
    assert told in verify_directory(golden / name)
    for _ in range(2):  # and what was written when it was opened, too
        graph = kind.open(golden / name, arena_mb=16)
        check(graph)
        graph.close()


def test_what_the_files_hold_is_what_the_format_says(golden: Path) -> None:
    found: Any = json.loads((golden / "one.aegd" / "graph.json").read_text())
    uuid = found.pop("uuid")
    assert len(uuid) == 32
    assert int(uuid, 16) >= 0
    assert found == {
        "version": 1,
        "num_nodes": {"node": 6},
        "max_nodes": 1000,
        "edge_types": [
            [
                ["node", "to", "node"],
                {
                    "layout": "both", "order": "time", "has_time": True, "time_unit": "s",
                    "has_weight": True, "attrs": {"m": [[2], "float32"]},
                },
            ]
        ],
    }  # fmt: skip
    current = json.loads((golden / "one.aegd" / "CURRENT").read_text())
    current.pop("checksum", None)  # another test has closed it with this build
    assert sorted(current) == ["base", "closed", "edge_ids", "lsn", "nodes", "offsets"]
    assert current["base"] == "gen-000001.aeg"
    assert (current["nodes"], current["edge_ids"]) == ({"node": 7}, [3])
    assert current["offsets"] == [[["clicks", 0], 3]]
    assert 0 < current["lsn"] < current["closed"]


def test_fields_that_are_not_known_are_left_alone(golden: Path, tmp_path: Path) -> None:
    path = unpack(tmp_path) / "typed.aegd"
    for name in ("graph.json", "CURRENT"):
        found = json.loads((path / name).read_text())
        (path / name).write_text(json.dumps({**found, "later": {"a": 1}}))
    graph = DynamicHeteroGraph.open(path, arena_mb=16)
    check_typed(graph)
    graph.close()
    found = json.loads((path / "graph.json").read_text())
    assert found["later"] == {"a": 1}
    (path / "graph.json").write_text(json.dumps({**found, "version": 4}))
    with pytest.raises(errors.VersionError, match="has version 4"):
        DynamicHeteroGraph.open(path)
