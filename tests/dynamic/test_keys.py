"""Keys of the nodes of live graphs: each in the commit of its node, as a dict has them."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.crafted_keys import same_hash
from support.ingesting import run_killed
from support.processes import talking
from support.strategies import examples

from aethergraph import DynamicGraph, DynamicHeteroGraph, HeteroGraph, errors
from aethergraph import _native as native
from aethergraph.convert import NodeTable, TableSchema, tables
from aethergraph.dynamic.growing_keys import GrowingKeys
from aethergraph.dynamic.repair import verify_directory
from aethergraph.ids.columns import KeyColumns
from aethergraph.ids.tiers import KeyTiers, first_of_each

SMALL: dict[str, Any] = {"arena_mb": 16, "huge_pages": False, "max_nodes": 100_000}


def make(path: Path, ids: str = "str", **options: Any) -> DynamicGraph:
    return DynamicGraph.open(path, ids=ids, **SMALL, **options)


def check(graph: Any, model: dict[Any, int], edges: list[tuple[Any, Any]]) -> None:
    """Compare keys and edges with a dict and a list of pairs of keys."""
    keys = list(model)
    assert (graph.num_nodes, len(graph.ids)) == (len(model), len(model))
    assert graph.ids.lookup(keys).tolist() == list(model.values())
    assert list(graph.ids.keys(np.arange(len(model)))) == keys
    src, dst, _ = graph.pinned().edge_list()
    found = zip(graph.ids.keys(src), graph.ids.keys(dst), strict=True)
    assert sorted(found) == sorted(edges)


# ---- the index -----------------------------------------------------------------------------------


@examples(60)
@given(st.data(), st.sampled_from(["str", "int64"]))
def test_tiers_find_what_a_dict_finds(data: st.DataObject, kind: str) -> None:
    columns, model, begin = KeyColumns(kind), dict[Any, int](), data.draw(st.integers(0, 3))
    one: Any = st.text(max_size=3) if kind == "str" else st.integers(-(2**63), 2**63 - 1)
    if kind == "int64":
        one = st.one_of(st.integers(-20, 20), one)
    tiers, states = KeyTiers(begin), []
    for keys in data.draw(st.lists(st.lists(one, max_size=30), max_size=12)):
        states.append((tiers, dict(model)))
        fresh = [key for key in dict.fromkeys(keys) if key not in model]
        for key in fresh:
            model[key] = begin + len(model)
        block = columns.encode_exactly(fresh)
        tiers = tiers.appended(block, native.hash_keys(block))
    assert tiers.end == begin + len(model) and tiers.num_tiers <= 9
    asked = [*model, *data.draw(st.lists(one, max_size=20))]
    block = columns.encode_exactly(asked)
    for index, known in [*states, (tiers, model)]:  # an index stays what it was
        found = index.find(block, native.hash_keys(block))
        assert found.tolist() == [known.get(key, -1) for key in asked]


@given(st.lists(st.text("ab", max_size=3), max_size=60))
@settings(deadline=None)
def test_the_first_of_equal_keys(keys: list[str]) -> None:
    block = KeyColumns("str").encode_exactly(keys)
    found = first_of_each(block, native.hash_keys(block))
    assert found.tolist() == [keys.index(key) for key in keys]


@examples(40)
@given(st.lists(st.lists(st.integers(0, 60), max_size=30), max_size=8))
def test_tiers_find_keys_of_one_hash(batches: list[list[int]]) -> None:
    columns, crafted = KeyColumns("bytes"), same_hash(61)
    tiers, model = KeyTiers(), dict[bytes, int]()
    for numbers in batches:
        keys = [crafted[number] for number in numbers]
        block = columns.encode_exactly(keys)
        first = first_of_each(block, native.hash_keys(block))
        assert first.tolist() == [keys.index(key) for key in keys]
        fresh = columns.encode_exactly([key for key in dict.fromkeys(keys) if key not in model])
        for key in keys:
            model.setdefault(key, len(model))
        tiers = tiers.appended(fresh, native.hash_keys(fresh))
        block = columns.encode_exactly(crafted)
        found = tiers.find(block, native.hash_keys(block)).tolist()
        assert found == [model.get(key, -1) for key in crafted]


# ---- graphs --------------------------------------------------------------------------------------

steps = st.lists(
    st.fixed_dictionaries(
        {
            "pairs": st.lists(
                st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=15
            ),
            "fails": st.booleans(),
            "then": st.sampled_from(["", "", "merge", "reopen", "attach"]),
        }
    ),
    max_size=8,
)


@pytest.mark.parametrize("batch", [5000, 300], ids=["one batch", "small batches"])
def test_keys_that_were_made_to_have_one_hash(tmp_path: Path, batch: int) -> None:
    keys, ids = same_hash(5000), np.arange(5000)
    graph = make(tmp_path / "g", "bytes", durability="none")
    for begin in range(0, 5000, batch):
        added = graph.ids.add(keys[max(0, begin - 100) : begin + batch])  # some came before
        assert added.tolist() == list(range(max(0, begin - 100), min(begin + batch, 5000)))
    assert graph.ids.lookup(keys).tolist() == ids.tolist()
    graph.merge()
    assert graph.ids.add([*same_hash(5400)[5000:], keys[7]]).tolist() == [*range(5000, 5400), 7]
    graph.merge()
    graph.close()
    with make(tmp_path / "g", "bytes") as again:
        assert again.ids.lookup(same_hash(5400)).tolist() == list(range(5400))
        assert again.ids.lookup([b"", b"other"], missing="mark").tolist() == [-1, -1]


class _Failure(Exception):
    pass


@given(st.sampled_from(["str", "int64"]), steps)
@examples(10)
def test_keys_and_edges_agree(
    tmp_path_factory: pytest.TempPathFactory, kind: str, some: list[dict[str, Any]]
) -> None:
    path = tmp_path_factory.mktemp("keys") / "g"
    name: Any = (lambda n: f"k{n}" * (n % 3)) if kind == "str" else (lambda n: n - 2**63)
    graph, model, edges = (
        make(path, kind, order="time", durability="none"),
        dict[Any, int](),
        list[Any](),
    )
    held = []
    for step in some:
        pairs = [(name(u), name(v)) for u, v in step["pairs"]]
        own, after = dict(model), [*edges, *pairs]
        try:
            with graph.transaction():
                ends = [graph.ids.add([pair[at] for pair in pairs]) for at in (0, 1)]
                for key in [u for u, _ in pairs] + [v for _, v in pairs]:
                    own.setdefault(key, len(own))
                assert [ids.tolist() for ids in ends] == [
                    [own[pair[at]] for pair in pairs] for at in (0, 1)
                ]
                graph.insert_edges(*ends)
                assert len(graph.ids) == len(model)  # others do not see them yet
                if step["fails"]:
                    raise _Failure
        except _Failure:
            pass
        else:
            model, edges = own, after
        check(graph, model, edges)
        held.append((graph.snapshot(), dict(model), list(edges)))
        if step["then"] == "merge":
            graph.merge()
        elif step["then"] == "reopen":
            held.clear()
            graph.close()
            graph = DynamicGraph.open(path, **SMALL)
        elif step["then"] == "attach":
            reader = DynamicGraph.attach(path)
            check(reader, model, edges)
            held.append((reader.snapshot(), dict(model), list(edges)))
            reader.close()
        check(graph, model, edges)
    for snapshot, keys, pairs in held:
        check(snapshot, keys, pairs)
        unknown = [key for key in model if key not in keys]
        assert (snapshot.ids.lookup(unknown, missing="mark") == -1).all()
    graph.close()
    assert verify_directory(path)


def test_rows_of_new_nodes(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    graph.node_attrs["x"] = np.zeros((0, 2), np.float32)
    assert graph.ids.add(["a", "b", "a"], x=[[1, 1], [2, 2], [3, 3]]).tolist() == [0, 1, 0]
    assert graph.ids.add(["b", "c"], x=[[4, 4], [5, 5]]).tolist() == [1, 2]
    assert graph.node_attrs["x"].gather([0, 1, 2])[:, 0].tolist() == [1, 2, 5]
    with pytest.raises(errors.InvalidArgumentError, match=r"give x= with 1 rows"):
        graph.ids.add(["d"])
    with pytest.raises(errors.InvalidArgumentError, match="x has shape"):
        graph.ids.add(["d"], x=[[1, 2], [3, 4]])
    with pytest.raises(errors.InvalidArgumentError, match=r"each node has a key: graph\.ids\.add"):
        graph.add_nodes(1, x=[[1, 2]])
    assert graph.num_nodes == 3
    graph.close()


def test_types_of_keys(tmp_path: Path) -> None:
    one = uuid.uuid4()
    for kind, keys, bad in (
        ("uint64", [2**64 - 1, 0], "x"),
        ("bytes", [b"", b"\0\xff"], "x"),
        ("uuid", [one, uuid.uuid4()], "x"),
        ("str", ["", "ü" * 100], 3),
    ):
        graph = make(tmp_path / kind, kind)
        for again in range(2):
            assert graph.ids.add(keys).tolist() == [0, 1]
            assert list(graph.ids.keys([1, 0])) == [keys[1], keys[0]]
            assert graph.ids.types == (kind,)
            with pytest.raises(errors.InvalidArgumentError, match=r"key 1 is|keys of type"):
                graph.ids.add([keys[0], bad])
            if not again:
                graph.merge()
        graph.close()
        with pytest.raises(errors.InvalidArgumentError, match="the graph was made with ids"):
            make(tmp_path / kind, "int64")


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="5 nodes of type 'node' would have no"):
        make(tmp_path / "g", num_vertices=5)
    for bad, message in (
        (3, "no type of keys"),
        ("text", "a key is of type"),
        ({"a": "str"}, "'a'"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=message):
            make(tmp_path / "g", bad)  # type: ignore[arg-type]
    assert not (tmp_path / "g").exists()
    graph = make(tmp_path / "g")
    graph.ids.add(["a"])
    with pytest.raises(errors.OutOfRangeError, match=r"no node has the key 'b' \(position 1\)"):
        graph.ids.lookup(["a", "b"])
    with pytest.raises(errors.OutOfRangeError, match=r"ids\[0\] = 1 is not in 0\.\.0"):
        graph.ids.keys([1])
    with pytest.raises(errors.InvalidArgumentError, match="key 0 is missing"):
        graph.ids.add([None])
    small = DynamicGraph.open(tmp_path / "s", ids="str", arena_mb=16, max_nodes=3)
    with pytest.raises(errors.LimitError):
        small.ids.add(list("abcd"))
    assert small.ids.add(list("cba")).tolist() == [0, 1, 2]
    with pytest.raises(errors.LimitError):
        small.ids.add(["a", "d"])
    assert small.ids.lookup(["d", "a"], missing="mark").tolist() == [-1, 2]
    plain = DynamicGraph(3, 16)
    for one in (plain, plain.snapshot()):
        with pytest.raises(
            errors.UnsupportedError, match=r"have no keys.* by open\(path, ids='str'\)"
        ):
            _ = one.ids
    kept, ids = graph.snapshot(), graph.ids
    graph.close()
    assert kept.ids.lookup(["a"]).tolist() == [0]
    with pytest.raises(errors.ClosedError):
        ids.lookup(["a"])
    with pytest.raises(errors.ClosedError):
        _ = graph.ids.lookup(["a"])


@pytest.mark.any_python
def test_over_a_base_of_tables(tmp_path: Path) -> None:
    schema = TableSchema(
        {
            "user": NodeTable({"id": ["ann", "bob"]}, key="id"),
            "post": NodeTable(
                {"id": [7, 9], "by": ["bob", "ann"]}, key="id", foreign={"by": "user"}
            ),
        }
    )
    tables(schema, tmp_path / "blog.aeg")
    writes = ("post", "by", "user")
    path, kinds = tmp_path / "g", {"user": "str", "post": "int64"}
    graph = DynamicHeteroGraph.open(path, base=tmp_path / "blog.aeg", ids=kinds, **SMALL)
    for number in range(2):
        assert graph.ids["user"].add(["cy", "bob", "ann"]).tolist() == [2, 1, 0]
        new = graph.ids["post"].add([11 + number, 9])
        assert new.tolist() == [2 + number, 1]
        graph[writes].insert(new[:1], graph.ids["user"].lookup(["cy"]))
        assert graph.snapshot().ids["post"].keys([0, 2]).tolist() == [7, 11]
        reader = DynamicHeteroGraph.attach(path)
        assert reader.ids["user"].keys([2, 0]) == ["cy", "ann"]
        reader.close()
        if not number:
            base = graph.merge()
            graph.close()
            graph = DynamicHeteroGraph.open(path, **SMALL)
    assert HeteroGraph.load(base).ids["user"].keys([2]) == ["cy"]
    assert graph[writes].in_neighbors(2).tolist() == [2, 3]
    with pytest.raises(errors.InvalidArgumentError, match=r"graph\.ids\['user'\]\.add"):
        graph["user"].add(1)
    graph.close()
    with pytest.raises(errors.InvalidArgumentError, match="are str"):
        DynamicHeteroGraph.open(tmp_path / "h", base=tmp_path / "blog.aeg", ids="int64", **SMALL)
    some = DynamicHeteroGraph.open(
        tmp_path / "h", base=tmp_path / "blog.aeg", ids={"user": "str"}, **SMALL
    )
    assert some["post"].add(2).tolist() == [2, 3] and list(some.ids) == ["user"]
    for ids in (some.ids, some.snapshot().ids):
        assert "user" in ids and "post" not in ids and len(ids) == 1
        with pytest.raises(
            errors.UnsupportedError, match=r"'post' have no keys: .*ids={'post': 's"
        ):
            ids["post"]
        with pytest.raises(errors.InvalidArgumentError, match="film"):
            ids["film"]
    some.close()


# ---- processes -----------------------------------------------------------------------------------


def test_readers_in_other_processes(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    graph.ids.add(["key 0"])
    script = """
import sys
from aethergraph import DynamicGraph
graph = DynamicGraph.attach(sys.argv[1])
for line in sys.stdin:
    with graph.snapshot() as now:
        keys = now.ids.keys(range(now.num_nodes))
        assert now.ids.lookup(keys).tolist() == list(range(now.num_nodes))
        assert keys == [f"key {n}" for n in range(now.num_nodes)]
        print(now.num_nodes, flush=True)
"""
    with talking(script, tmp_path / "g") as ask:
        for count in (1, 2, 50, 51, 3000):
            graph.ids.add([f"key {n}" for n in range(count)])
            with pytest.raises(_Failure), graph.transaction():
                graph.ids.add([f"none {n}" for n in range(40)])
                raise _Failure
            if count == 50:
                graph.merge()
            assert ask() == f"{count}\n"
    graph.close()


WRITER = """
import random, sys
from aethergraph import DynamicGraph
graph = DynamicGraph.open(sys.argv[1], ids="str", arena_mb=16, max_nodes=100_000, huge_pages=False)
for number in range(graph.offsets("s").get(0, 0), 150):
    rng = random.Random(number)
    src, dst = ([f"user {rng.randrange(2000)}" for _ in range(20)] for _ in range(2))
    with graph.transaction():
        graph.insert_edges(graph.ids.add(src), graph.ids.add(dst))
        graph.set_offset("s", 0, number + 1)
    if number % 50 == 12:
        graph.merge()
    print(str(number).ljust(2000), flush=True)
graph.close()
print("done", flush=True)
"""


@pytest.mark.any_python
def test_kill_nine(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    kills, most = run_killed(WRITER, [tmp_path / "g"], rng, 20)
    assert kills >= min(most, 6)
    model, edges = dict[str, int](), set[tuple[str, str]]()
    for number in range(150):
        own = random.Random(number)
        src, dst = ([f"user {own.randrange(2000)}" for _ in range(20)] for _ in range(2))
        for key in [*src, *dst]:
            model.setdefault(key, len(model))
        edges |= set(zip(src, dst, strict=True))
    graph = DynamicGraph.open(tmp_path / "g", **SMALL)
    check(graph, model, list(edges))
    graph.close()


def test_damage_is_found(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    graph.ids.add(["a", "b"])
    graph.merge()
    graph.close()
    assert json.loads((tmp_path / "g" / "graph.json").read_text())["version"] == 2
    path = tmp_path / "g" / "gen-000001.node.ids"
    content = path.read_bytes()
    other = make(tmp_path / "other")
    other.ids.add(["a"])
    other.merge()
    path.write_bytes((tmp_path / "other" / path.name).read_bytes())
    with pytest.raises(errors.FileChangedError, match="has 1 keys, but its base has 2 nodes"):
        DynamicGraph.open(tmp_path / "g", **SMALL)
    path.write_bytes(content[:-64] + bytes(64))
    with pytest.raises((errors.CorruptFileError, errors.FormatError)):
        verify_directory(tmp_path / "g")
    path.unlink()
    with pytest.raises(errors.MissingFileError):
        DynamicGraph.open(tmp_path / "g", **SMALL)
    path.write_bytes(content)
    graph = DynamicGraph.open(tmp_path / "g", **SMALL)
    assert graph.ids.lookup(["b"]).tolist() == [1]
    graph.close()
    other.close()


def test_a_merge_that_fails_leaves_what_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = make(tmp_path / "g")
    graph.ids.add(["a", "b"])
    before = sorted(path.name for path in (tmp_path / "g").iterdir())

    def fail(*_: Any, **__: Any) -> None:
        raise errors.DiskFullError(28, "no space", "ids")

    with monkeypatch.context() as patch:
        patch.setattr(GrowingKeys, "save", fail)
        with pytest.raises(errors.DiskFullError):
            graph.merge()
    assert sorted(path.name for path in (tmp_path / "g").iterdir()) == before
    assert graph.ids.add(["c", "a"]).tolist() == [2, 0]
    graph.merge()
    graph.close()
    with DynamicGraph.open(tmp_path / "g", **SMALL) as again:
        assert again.ids.keys([0, 1, 2]) == ["a", "b", "c"]


def test_a_log_that_refuses_adds_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = make(tmp_path / "g")
    graph.ids.add(["a"])
    journal = graph.store.journal
    assert journal is not None

    def fail(*_: Any) -> None:
        raise errors.StorageError(5, "broken", "wal")

    with monkeypatch.context() as patch:
        patch.setattr(journal, "log_keys", fail)
        with pytest.raises(errors.StorageError):
            graph.ids.add(["b", "c"])
    assert (graph.num_nodes, graph.ids.lookup(["b"], missing="mark").tolist()) == (1, [-1])
    assert graph.ids.add(["c"]).tolist() == [1]
    graph.close()


class Waiting:
    """Forked child that answers once it is asked."""

    def __init__(self, call: Callable[[], Any]) -> None:
        context = multiprocessing.get_context("fork")
        self._here, there = context.Pipe()
        self._process = context.Process(target=lambda: there.send((there.recv(), call())))
        self.start = self._process.start

    def answer(self) -> Any:
        self._here.send("now")
        assert self._here.poll(60)
        self._process.join()
        return self._here.recv()[1]


def test_copies_and_forked_children(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    graph.ids.add(["a"])
    graph.merge()
    graph.close()
    graph = make(tmp_path / "g")
    graph.ids.add(["b"])
    copy = pickle.loads(pickle.dumps(graph))
    child = Waiting(lambda: graph.ids.lookup(["c", "b", "a"]).tolist())
    child.start()
    graph.ids.add(["c"])
    assert child.answer() == [2, 1, 0]
    assert copy.ids.lookup(["c", "a"]).tolist() == [2, 0] and copy.ids.keys([1]) == ["b"]
    with pytest.raises(errors.UnsupportedError, match="can only read"):
        copy.ids.add(["d"])
    graph.close()


def test_a_child_forked_in_a_transaction_that_is_undone(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    graph.ids.add(["a"])
    child = Waiting(
        lambda: (graph.ids.lookup(["a", "b", "c"], missing="mark").tolist(), graph.ids.keys([1]))
    )
    with pytest.raises(ZeroDivisionError), graph.transaction():
        graph.ids.add(["b"])
        child.start()
        raise ZeroDivisionError
    assert graph.ids.add(["c"]).tolist() == [1]
    assert child.answer() == ([0, -1, 1], ["c"])
    graph.close()
