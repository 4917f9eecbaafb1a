"""Damaged and hostile folders of GraphBolt's: read, or refused with the name of the file."""

from __future__ import annotations

import io
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.damage import damages, fuzz, hostile_headers, npy_with_header

pytest.importorskip("dgl", reason="no DGL here: ./scripts/test.sh dgl")

import torch
import yaml

from aethergraph import Graph
from aethergraph.dgl.graphbolt import load_ondisk_dataset, load_ondisk_tasks
from aethergraph.errors import AetherError

NUM_USERS, NUM_POSTS, NUM_EDGES = 12, 9, 40


def write_folder(folder: Path, typed: bool) -> Path:
    """A folder with every kind of file that an entry may name."""
    folder.mkdir()
    rng = np.random.default_rng(3)
    user = {"type": "user"} if typed else {}
    votes = {"type": "user:votes:post"} if typed else {}
    nodes = [{"num": NUM_USERS, **user}]
    ends = np.stack([rng.integers(0, NUM_USERS, NUM_EDGES), rng.integers(0, 9, NUM_EDGES)])
    np.savetxt(folder / "votes.csv", ends.T, "%d", ",")
    edges = [{"format": "csv", "path": "votes.csv", **votes}]
    if typed:
        nodes.append({"type": "post", "num": NUM_POSTS})
        np.save(folder / "follows.npy", rng.integers(0, NUM_USERS, (2, 30)))
        edges.append({"type": "user:follows:user", "format": "numpy", "path": "follows.npy"})
    np.save(folder / "x.npy", rng.random((NUM_USERS, 3), np.float32))
    torch.save(torch.rand(NUM_USERS, 2), folder / "z.pt")
    np.save(folder / "y.npy", rng.integers(0, 5, (NUM_USERS, 1)))
    np.save(folder / "t.npy", rng.integers(0, 99, NUM_EDGES))
    np.save(folder / "w.npy", rng.random(NUM_EDGES, np.float32))
    np.save(folder / "train.npy", np.arange(6))
    np.save(folder / "label.npy", rng.integers(0, 5, 6))
    torch.save(torch.arange(6), folder / "test.pt")
    items = [{"name": "seed_nodes", "format": "numpy", "path": "train.npy", "in_memory": False}]
    items += [{"name": "labels", "format": "numpy", "path": "label.npy"}]
    last = [{"name": "seed_nodes", "format": "torch", "path": "test.pt"}]
    task = {"name": "classes", "num_classes": 5, "train_set": [{**user, "data": items}]}
    task["test_set"] = [{**user, "data": last}]
    node, edge = {"domain": "node", **user}, {"domain": "edge", **votes}
    config = {
        "dataset_name": "one",
        "graph": {
            "nodes": nodes,
            "edges": edges,
            "feature_data": [
                {**edge, "name": "edge_weight", "format": "numpy", "path": "w.npy"},
                {**edge, "name": "t", "format": "numpy", "path": "t.npy"},
            ],
        },
        "feature_data": [
            {**node, "name": "x", "format": "numpy", "path": "x.npy", "in_memory": False},
            {**node, "name": "z", "format": "torch", "path": "z.pt"},
            {**node, "name": "y", "format": "numpy", "path": "y.npy", "one_number_per_row": True},
        ],
        "tasks": [task],
    }
    (folder / "metadata.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    return folder


@pytest.fixture(scope="module", params=[False, True], ids=["one type", "many types"])
def good(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("graphbolt") / "folder", request.param)


def attempt(folder: Path, call: Callable[[], Any]) -> Any:
    """The result of a call, or None where the folder was refused by name."""
    try:
        return call()
    except AetherError as error:
        assert str(folder) in str(error), error
        assert len(str(error)) < 1000
        return None


def read(folder: Path, time_attr: str | None = None) -> None:
    """Read the tasks of a folder, its graph, and all that the graph offers."""
    attempt(folder, lambda: load_ondisk_tasks(folder))
    graph = attempt(folder, lambda: load_ondisk_dataset(folder, time_attr=time_attr))
    if graph is None:
        return
    if isinstance(graph, Graph):
        groups = [graph.node_attrs, graph.edge_attrs]
        graph.in_degrees()
    else:
        groups = [graph[kind].attrs for kind in (*graph.node_types, *graph.edge_types)]
    for group in groups:
        for rows in group.values():
            rows.gather(np.arange(rows.num_rows))


def damaged(good: Path, folder: Path, name: str, content: bytes) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(good, folder)
    (folder / name).write_bytes(content)
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


TIMES = st.sampled_from([None, "t"])


def test_damaged_bytes(good: Path, tmp_path: Path) -> None:
    @fuzz
    @given(damage=damages(), where=st.floats(0, 1, exclude_max=True), time=TIMES)
    def check(damage: Callable[[bytes], bytes], where: float, time: str | None) -> None:
        name = names(good)[int(where * len(names(good)))]
        read(damaged(good, tmp_path / "f", name, damage((good / name).read_bytes())), time)

    check()


def test_damaged_descriptions(good: Path, tmp_path: Path) -> None:
    text = (good / "metadata.yaml").read_bytes()

    @fuzz
    @given(damage=damages(), time=TIMES)
    def check(damage: Callable[[bytes], bytes], time: str | None) -> None:
        read(damaged(good, tmp_path / "f", "metadata.yaml", damage(text)), time)

    check()


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 1 << 70), st.floats(), st.text(max_size=6),
    st.just(12), st.lists(st.integers(), max_size=2), st.just({}), st.just({"type": "user"}),
    st.sampled_from(
        [
            "..", "../x.npy", "/etc/passwd", "/etc/hostname", "x.npy", "w.npy", "z.pt", ".",
            "votes.csv", "metadata.yaml", "\0", "\ud800", "x" * 300, "/" * 5000, "user", "post",
            "user:votes:post", "post:a:user", "::", "csv", "numpy", "torch", "edge", "node",
            "edge_time", "node_time", "edge_weight", "t", "", "graph",
        ]
    ),
)  # fmt: skip


def places(content: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The keys that lead to every value of nested dicts and lists."""
    found = [before] if before else []
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in items if isinstance(content, (dict, list)) else ():
        inner = isinstance(value, (dict, list))
        found += places(value, (*before, key)) if inner else [(*before, key)]
    return found


def test_descriptions_with_other_values(good: Path, tmp_path: Path) -> None:
    text = (good / "metadata.yaml").read_text()
    keys = places(yaml.safe_load(text))

    @fuzz
    @given(
        edits=st.lists(st.tuples(st.sampled_from(keys), VALUES), min_size=1, max_size=3), time=TIMES
    )
    def check(edits: list[tuple[tuple[Any, ...], Any]], time: str | None) -> None:
        config = yaml.safe_load(text)
        for path, value in edits:
            at = config
            for key in path[:-1]:
                at = at[key] if isinstance(at, (dict, list)) and key_is_there(at, key) else None
            if isinstance(at, (dict, list)) and key_is_there(at, path[-1]):
                at[path[-1]] = value
        content = yaml.safe_dump(config).encode("utf-8", "surrogatepass")
        read(damaged(good, tmp_path / "f", "metadata.yaml", content), time)

    check()


def key_is_there(at: Any, key: Any) -> bool:
    return key in at if isinstance(at, dict) else isinstance(key, int) and key < len(at)


def test_arrays_that_lie(good: Path, tmp_path: Path) -> None:
    arrays = [name for name in names(good) if name.endswith(".npy")]

    @fuzz
    @given(name=st.sampled_from(arrays), text=hostile_headers(), time=TIMES)
    def check(name: str, text: bytes, time: str | None) -> None:
        read(damaged(good, tmp_path / "f", name, npy_with_header(text)), time)

    check()


def test_damaged_pickles(good: Path, tmp_path: Path) -> None:
    """Right checksums around a damaged pickle of a tensor."""
    with zipfile.ZipFile(good / "z.pt") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}

    @fuzz
    @given(damage=damages(), member=st.sampled_from(["/data.pkl", "/data/0", "/byteorder"]))
    def check(damage: Callable[[bytes], bytes], member: str) -> None:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, damage(content) if name.endswith(member) else content)
        read(damaged(good, tmp_path / "f", "z.pt", stream.getvalue()))

    check()


LINES = "[]{}:-,&*<|>'\"!%@`#? \t\n"


def test_any_yaml(good: Path, tmp_path: Path) -> None:
    words = ["graph:", "nodes:", "- num: 3", "&a", "*a", "<<: *a", "!!int", "!!float ''", "!!set"]
    words += ["!!timestamp 2001-99-99", "!!binary ===", "!!python/name:os.system", "0x" + "f" * 999]
    words += ["9" * 5000, "1:" * 400 + "1", "? ", "---", "...", "%YAML 9.9", "\x00", "\u2028", "~"]

    @fuzz
    @given(st.lists(st.sampled_from(words) | st.text(LINES, max_size=6), max_size=12).map(" ".join))
    @example("[" * 50_000)
    @example("a: " * 1000)
    @example("- " * 20_000)
    def check(text: str) -> None:
        read(damaged(good, tmp_path / "f", "metadata.yaml", text.encode("utf-8", "replace")))

    check()
