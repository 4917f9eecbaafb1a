"""Keys of live graphs in the files of their static copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aethergraph import DynamicGraph, DynamicHeteroGraph, Graph, HeteroGraph, errors
from aethergraph.ids import IdMap


def make(path: Path) -> DynamicGraph:
    return DynamicGraph.open(path, ids="str", arena_mb=16, huge_pages=False, max_nodes=1000)


def test_a_saved_graph_has_the_keys_of_its_commit(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    src, dst = graph.ids.add(["a", "b", "c"]), graph.ids.add(["b", "c", "a"])
    graph.insert_edges(src, dst)
    graph.merge()
    graph.insert_edges(graph.ids.add(["d"]), graph.ids.lookup(["a"]))
    now = graph.snapshot()
    graph.ids.add(["later"])
    now.save(tmp_path / "now.aeg")
    static = Graph.load(tmp_path / "now.aeg")
    assert isinstance(static.ids, IdMap) and static.ids.types == ("str",)
    assert static.num_nodes == 4 and static.ids.keys(range(4)) == ["a", "b", "c", "d"]
    assert sorted(static.ids.keys(static.in_neighbors(0))) == ["c", "d"]
    copied = graph.to_graph(path=tmp_path / "copy.aeg", memory="16M")
    assert copied.ids.lookup(["later"]).tolist() == [4]
    assert sorted(one.name for one in tmp_path.glob("*.*")) == [
        "copy.aeg", "copy.node.ids", "now.aeg", "now.node.ids",
    ]  # fmt: skip
    with DynamicGraph.open(tmp_path / "over", base=tmp_path / "now.aeg", ids="str") as over:
        assert over.ids.add(["d", "new"]).tolist() == [3, 4]
    graph.close()


def test_keys_of_another_copy_are_refused(tmp_path: Path) -> None:
    """They may be as many, as after a crash between the two files of a copy."""
    for name, keys in (("one", ["a", "b"]), ("two", ["b", "a"])):
        with make(tmp_path / name) as graph:
            graph.ids.add(keys)
            graph.save(tmp_path / f"{name}.aeg")
    assert Graph.load(tmp_path / "one.aeg").ids.keys([0]) == ["a"]
    (tmp_path / "two.node.ids").replace(tmp_path / "one.node.ids")
    with pytest.raises(errors.FileChangedError, match=r"one\.node\.ids: is not the file"):
        _ = Graph.load(tmp_path / "one.aeg").ids


def test_types_are_saved_with_their_keys(tmp_path: Path) -> None:
    kinds = [("user", "likes", "post")]
    with DynamicHeteroGraph.open(
        tmp_path / "g", {"user": 0, "post": 0}, kinds, 16, huge_pages=False,
        ids={"user": "str", "post": "int64"},
    ) as graph:  # fmt: skip
        users, posts = graph.ids["user"].add(["ann", "bob"]), graph.ids["post"].add([2**40, 7])
        graph["user", "likes", "post"].insert(users, posts)
        graph.save(tmp_path / "typed.aeg")
    static = HeteroGraph.load(tmp_path / "typed.aeg")
    assert static.ids["user"].keys([1, 0]) == ["bob", "ann"]
    assert static.ids["post"].lookup([7]).tolist() == [1]


def test_a_copy_that_fails_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, path = make(tmp_path / "g"), tmp_path / "copy.aeg"
    graph.ids.add(["a"])
    graph.save(path)
    graph.ids.add(["b"])

    def fail(*_: Any, **__: Any) -> None:
        raise errors.DiskFullError(28, "no space", "copy")

    for target in ("one_commit.write_base", "growing_keys.IdMapBuilder.finish"):
        with monkeypatch.context() as patch:
            patch.setattr(f"aethergraph.dynamic.{target}", fail)
            with pytest.raises(errors.DiskFullError):
                graph.save(path)
        assert sorted(one.name for one in tmp_path.glob("copy*")) == ["copy.aeg", "copy.node.ids"]
        assert Graph.load(path).ids.keys([0]) == ["a"]
    graph.save(path)
    assert Graph.load(path).ids.keys([0, 1]) == ["a", "b"]
    graph.close()
