"""Tasks of GraphBolt's folders are read without their graphs, and are GraphBolt's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dgl.graphbolt as gb
import numpy as np
import pytest
import torch
import yaml

from aethergraph import errors
from aethergraph.dgl.graphbolt import load_ondisk_tasks

PAIRS = np.stack([np.arange(30), np.arange(30) % 7], 1)


def write(folder: Path, typed: bool, **changes: Any) -> None:
    """A folder with two tasks, whose file of edges is not there yet."""
    kind: dict[str, str] = {"type": "user"} if typed else {}
    edge_kind = {"type": "user:knows:user"} if typed else {}
    for name, rows in (("train", np.arange(20)), ("labels", np.arange(20) % 3), ("pairs", PAIRS)):
        np.save(folder / f"{name}.npy", rows)
    torch.save(torch.arange(20, 30), folder / "test.pt")
    numpy = {"format": "numpy"}
    train: list[dict[str, Any]] = [
        {"name": "seed_nodes", "path": "train.npy", **numpy},
        {"name": "labels", "path": "labels.npy", "in_memory": False, **numpy},
    ]
    test = [{"name": "seed_nodes", "format": "torch", "path": "test.pt"}]
    links = [{"name": "node_pairs", "path": "pairs.npy", **numpy}]
    config = {
        "graph": {
            "nodes": [{"num": 30, **kind}],
            "edges": [{"path": "edges.npy", **numpy, **edge_kind}],
        },
        "tasks": [
            {
                "name": "classes",
                "num_classes": 3,
                "train_set": [{"data": train, **kind}],
                "test_set": [{"data": test, **kind}],
            },
            {"name": "links", "train_set": [{"data": links, **edge_kind}]},
        ],
        **changes,
    }
    (folder / "metadata.yaml").write_text(yaml.safe_dump(config))


def rows_of(items: Any) -> Any:
    return None if items is None else [str(row) for row in items]


@pytest.mark.parametrize("typed", [False, True])
def test_tasks_are_those_of_graphbolt(typed: bool, tmp_path: Path) -> None:
    write(tmp_path, typed)
    ours = load_ondisk_tasks(tmp_path)
    np.save(tmp_path / "edges.npy", PAIRS.T)
    theirs = gb.OnDiskDataset(str(tmp_path), auto_cast_to_optimal_dtype=False).load()
    assert [task.metadata["name"] for task in ours.tasks] == ["classes", "links"]
    for one, other in zip(ours.tasks, theirs.tasks, strict=True):
        assert one.metadata == other.metadata
        for name in ("train_set", "validation_set", "test_set"):
            mine, other_set = getattr(one, name), getattr(other, name)
            assert rows_of(mine) == rows_of(other_set)
            assert mine is None or mine.names == other_set.names
    assert rows_of(ours.all_nodes_set) == rows_of(theirs.all_nodes_set)
    (first, *_, last) = gb.ItemSampler(ours.tasks[0].train_set, batch_size=8)
    seeds = first.seed_nodes["user"] if typed else first.seed_nodes
    labels = last.labels["user"] if typed else last.labels
    assert seeds.tolist() == list(range(8)) and labels.tolist() == [1, 2, 0, 1]


def test_items_that_change_leave_the_file_as_it_is(tmp_path: Path) -> None:
    """Item sets with ``in_memory: false`` are mapped."""
    write(tmp_path, False)
    before = (tmp_path / "labels.npy").read_bytes()
    _, labels = load_ondisk_tasks(tmp_path).tasks[0].train_set[:]
    labels += 1
    assert labels[:3].tolist() == [1, 2, 3]
    assert (tmp_path / "labels.npy").read_bytes() == before


def test_a_folder_without_tasks(tmp_path: Path) -> None:
    write(tmp_path, False, tasks=None)
    assert load_ondisk_tasks(tmp_path).tasks == []


@pytest.mark.parametrize(
    ("train", "text"),
    [
        ({"data": []}, "is no list of entries"),
        ([{"type": 3, "data": []}], "type = 3"),
        ([{}], "has no 'data'"),
        ([{"data": [{"format": "numpy", "path": "train.npy"}]}], "has no 'name'"),
        ([{"data": [{"name": "a", "format": "csv", "path": "train.npy"}]}], "format = 'csv'"),
        ([{"data": []}, {"type": "user", "data": []}], "type = None, but others have types"),
        (
            [{"data": [{"name": "a", "format": "numpy", "path": "metadata.yaml"}]}],
            r"not a \.npy file",
        ),
        ([{"data": []}], "data is empty"),
    ],
)
def test_sets_that_cannot_be(train: Any, text: str, tmp_path: Path) -> None:
    write(tmp_path, False, tasks=[{"train_set": train}])
    with pytest.raises((errors.InvalidArgumentError, errors.FormatError), match=text):
        load_ondisk_tasks(tmp_path)


def test_files_that_are_missing(tmp_path: Path) -> None:
    write(tmp_path, False)
    (tmp_path / "labels.npy").unlink()
    with pytest.raises(errors.MissingFileError, match=r"labels\.npy: no such file"):
        load_ondisk_tasks(tmp_path)
