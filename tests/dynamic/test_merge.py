"""Snapshots written into files piece by piece: byte for byte the file of a copy in memory."""

from __future__ import annotations

import errno
import filecmp
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.live import Form, insert, make_live, random_edges
from support.strategies import examples

from aethergraph import DynamicGraph, DynamicHeteroGraph, Graph, HeteroGraph, errors
from aethergraph import _native as native
from aethergraph.dynamic import merge, merge_lists, merge_sections
from aethergraph.storage import scratch
from aethergraph.storage.budget import Budget
from aethergraph.storage.scratch import ScatteredArray

pytestmark = pytest.mark.any_python

NODES = 30


def set_room(
    monkeypatch: pytest.MonkeyPatch, folder: Path, entries: int, tables: int = 1 << 20
) -> None:
    """Let pieces have so many entries, and tables so many bytes, whatever memory is asked for."""
    room = merge_sections.Room(entries, 40, tables, str(folder), Budget.parse("1M", "memory"))
    monkeypatch.setattr(merge, "_room_of", lambda budget, path: room)


def changed_graph(form: Form, edges: int = 300, *, deleted: bool = True) -> DynamicGraph:
    """A graph of several commits, with hubs, duplicates, deleted edges and rows that changed."""
    graph = make_live(form, NODES)
    graph.node_attrs["y"] = np.arange(NODES, dtype=np.uint8)
    graph.features = np.arange(2.0 * NODES).reshape(NODES, 2)
    for seed in range(3):
        insert(graph, form, random_edges(NODES, edges // 3, seed))
    graph.add_nodes(3, x=np.ones((3, 2)), y=np.array([7, 8, 9], np.uint8))
    graph.update_nodes([0, 5, NODES], x=np.full((3, 2), -1.0))
    if deleted:
        src, dst, _ = graph.edge_list()
        graph.delete_edges(src[::7], dst[::7])
    return graph


def check_same(snapshot: Any, folder: Path, **options: Any) -> None:
    """Compare both ways of saving; nothing else is left in the folder."""
    snapshot.save(folder / "streamed.aeg", **options)
    assert os.listdir(folder) == ["streamed.aeg"]
    options.pop("memory", None)
    snapshot.to_graph().save(folder / "copied.aeg", **options)
    assert filecmp.cmp(folder / "streamed.aeg", folder / "copied.aeg", shallow=False)
    (folder / "copied.aeg").unlink()


FORMS = [
    Form(order, layout, timed, weighted, noted)
    for order, timed in (("id", False), ("time", False), ("time", True))
    for layout in ("csc", "csr", "both")
    for weighted, noted in ((False, False), (True, True))
]


@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("form", FORMS[1::2], ids=str)
def test_the_file_is_that_of_a_copy(
    form: Form, deleted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all columns; any of them, and pieces of any size, are in the next test."""
    snapshot = changed_graph(form, deleted=deleted).snapshot()
    check_same(snapshot, tmp_path, attrs=False, memory="16M")
    check_same(snapshot, tmp_path, compress=True)
    set_room(monkeypatch, tmp_path, 5, 600)  # places of edges do not fit
    check_same(snapshot, tmp_path)
    HeteroGraph.load(tmp_path / "streamed.aeg").verify()


@examples(40)
@given(data=st.data())
def test_any_graph(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(FORMS))
    nodes = data.draw(st.integers(0, 5))
    graph = make_live(form, nodes)
    for seed in range(data.draw(st.integers(0, 3))):
        if nodes:
            insert(graph, form, random_edges(nodes, data.draw(st.integers(0, 30)), seed))
    if data.draw(st.booleans()) and graph.num_edges:
        src, dst, _ = graph.edge_list()
        graph.delete_edges(src[:1], dst[:1])
    folder = tmp_path_factory.mktemp("any")
    entries, tables = data.draw(st.integers(1, 9)), data.draw(st.sampled_from([300, 1 << 20]))
    with pytest.MonkeyPatch.context() as patch:
        set_room(patch, folder, entries, tables)
        check_same(graph.snapshot(), folder)


def test_blocks_of_many_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    form = Form("time", "both")
    graph = make_live(form, NODES)
    insert(graph, form, random_edges(NODES, 9000, 0))
    set_room(monkeypatch, tmp_path, 2048)
    check_same(graph.snapshot(), tmp_path, compress=True)
    Graph.load(tmp_path / "streamed.aeg").verify()


def test_it_does_not_see_what_comes_later(tmp_path: Path) -> None:
    form = Form("time", "both", timed=True)
    graph = changed_graph(form)
    before = graph.snapshot()
    before.to_graph().save(tmp_path / "then.aeg")
    insert(graph, form, random_edges(NODES, 500, 9))
    graph.update_nodes([0, 1], x=np.zeros((2, 2)))
    src, dst, _ = graph.edge_list()
    graph.delete_edges(src[::2], dst[::2])
    before.save(tmp_path / "now.aeg")
    assert filecmp.cmp(tmp_path / "then.aeg", tmp_path / "now.aeg", shallow=False)


def test_nodes_without_edges_take_no_memory(tmp_path: Path) -> None:
    """Roots of lists are in memory where there were edges; reading others would change that."""
    graph = DynamicGraph(3_000_000, 16, order="time", huge_pages=False)
    src, dst = [0, 5, 2_999_999, 1_500_000], [2_999_999, 700_000, 0, 700_000]
    graph.insert_edges(src, dst)
    descriptors, _ = graph._store.live.describe_memory(int)
    snapshot = graph.snapshot()
    before = sum(os.fstat(fd).st_blocks for fd in descriptors)
    snapshot.save(tmp_path / "few.aeg")
    taken = sum(os.fstat(fd).st_blocks for fd in descriptors) - before
    assert taken * 512 < 3_000_000  # all roots would be 16 times that, in each layout
    found = Graph.load(tmp_path / "few.aeg")
    assert [ends[np.argsort(found.edge_order)].tolist() for ends in found.edge_index()] == [
        src,
        dst,
    ]
    snapshot.to_graph().save(tmp_path / "copied.aeg")
    assert filecmp.cmp(tmp_path / "few.aeg", tmp_path / "copied.aeg", shallow=False)


def typed_graph(**options: Any) -> DynamicHeteroGraph:
    kinds = {
        ("u", "votes", "p"): options,
        ("p", "by", "u"): {},
        ("u", "knows", "u"): {"edge_attrs": {"n": ((3,), "bfloat16")}},
    }
    nodes = {"u": 20, "p": 10, "x": 0}
    graph = DynamicHeteroGraph(
        nodes, kinds, 16, order="time", edge_time="datetime64[ms]", edge_weight="float32",
        huge_pages=False,
    )  # fmt: skip
    graph["u"].attrs["f"] = np.arange(20, dtype=np.float16)
    graph["p"].attrs["f"] = np.eye(10)
    rng = np.random.default_rng(0)
    for kind in graph.edge_types:
        src, dst = rng.integers(0, nodes[kind[0]], 100), rng.integers(0, nodes[kind[2]], 100)
        rows = {"n": np.arange(300, dtype=np.uint16).reshape(100, 3)} if kind[1] == "knows" else {}
        graph[kind].insert(src, dst, time=rng.integers(0, 9, 100).astype("datetime64[ms]"),
                           weight=rng.random(100), edge_attrs=rows)  # fmt: skip
    graph["u", "votes", "p"].delete(*(ends[:5] for ends in graph["u", "votes", "p"].edge_index()))
    graph["p"].add(1, f=np.zeros((1, 10)))
    return graph


def test_typed_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = typed_graph().snapshot()
    check_same(snapshot, tmp_path)
    set_room(monkeypatch, tmp_path, 6, 100)
    check_same(snapshot, tmp_path)


def test_types_of_different_layouts(tmp_path: Path) -> None:
    graph = typed_graph(layout="csc")
    with pytest.raises(errors.UnsupportedError, match="lists of one kind"):
        graph.to_graph()
    found = graph.to_graph(path=tmp_path / "g.aeg")
    found.verify()
    kind = ("u", "votes", "p")
    assert found[kind].layout == "csc"
    assert found["p", "by", "u"].layout == "both"
    for node in range(11):
        assert (found[kind].in_neighbors(node) == graph[kind].in_neighbors(node)).all()
    ids = found[kind].attrs["edge_id"].gather(np.arange(found[kind].num_edges))
    assert sorted(ids.tolist()) == sorted(graph[kind].edge_list()[2].tolist())


def test_a_copy_in_a_file(tmp_path: Path) -> None:
    graph = changed_graph(Form("id", "csc"))
    found = graph.to_graph(path=tmp_path / "g.aeg")
    assert found.path == str(tmp_path / "g.aeg")
    assert (found.in_neighbors(3) == graph.in_neighbors(3)).all()
    assert (found.features.gather([0, 5]) == -1).all()
    with pytest.raises(errors.InvalidArgumentError, match=r"layout = 'both'.*leave layout out"):
        graph.to_graph("both", path=tmp_path / "g.aeg")


# ---- arguments and failures ----------------------------------------------------------------------


def test_bad_arguments(tmp_path: Path) -> None:
    snapshot = changed_graph(Form()).snapshot()
    for memory, match in (
        ("15M", r"memory = '15M' is too small: the least is 16M"),
        ("much", "memory = 'much' is not a size"),
        (None, "memory must be bytes"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=match):
            snapshot.save(tmp_path / "g.aeg", memory=memory)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match="compress"):
        snapshot.save(tmp_path / "g.aeg", compress=np.ones(2))  # type: ignore[arg-type]
    with pytest.raises(errors.StorageError):
        snapshot.save(tmp_path / "none" / "g.aeg")
    assert os.listdir(tmp_path) == []
    snapshot.close()
    with pytest.raises(errors.ClosedError):
        snapshot.save(tmp_path / "g.aeg")


def test_too_little_memory_to_renumber(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = changed_graph(Form()).snapshot()
    set_room(monkeypatch, tmp_path, 64, 60)
    with pytest.raises(errors.InvalidArgumentError, match="some of which were deleted") as caught:
        snapshot.save(tmp_path / "g.aeg")
    assert "takes at least 16M" in str(caught.value)


def test_the_least_memory_to_renumber_is_enough() -> None:
    taken = native.Ranks.bytes_for(10**9)
    least = merge_lists._least_to_renumber(taken)
    room = merge._room_of(Budget.parse(least), "g.aeg")
    assert room.tables - taken >= room.tables // 4
    room = merge._room_of(Budget.parse(least - 100), "g.aeg")
    assert room.tables - taken < room.tables // 4


def test_progress_and_interrupts(tmp_path: Path) -> None:
    snapshot = changed_graph(Form("time", "both", noted=True)).snapshot()
    seen: list[tuple[int, int]] = []
    snapshot.save(tmp_path / "g.aeg", progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1] > 0

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    (tmp_path / "g.aeg").unlink()
    with pytest.raises(KeyboardInterrupt):
        merge_slowly(snapshot, tmp_path / "g.aeg", interrupt)
    assert os.listdir(tmp_path) == []


def merge_slowly(snapshot: Any, path: Path, progress: Callable[[int, int], None]) -> None:
    """Save in pieces of one entry, so that progress is asked for meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        set_room(patch, path.parent, 1)
        read = native.EntryReader.read

        def slow(self: Any, outs: Any, task: Any = None) -> int:
            threading.Event().wait(0.01)
            return int(read(self, outs, task))

        patch.setattr(native.EntryReader, "read", slow)
        snapshot.save(path, progress=progress)


def test_an_expired_snapshot_writes_nothing(tmp_path: Path) -> None:
    graph = DynamicGraph(3, 16, huge_pages=False, max_snapshot_age=0.001, order="time")
    graph.insert_edges([0, 1], [1, 2])
    snapshot = graph.snapshot()
    threading.Event().wait(0.01)
    for _ in range(100_000):
        graph.insert_edges([0] * 500, [1] * 500)
        graph.reclaim()
        try:
            snapshot.native_snapshot.check()
        except errors.SnapshotExpiredError:
            break
    with pytest.raises(errors.SnapshotExpiredError):
        snapshot.save(tmp_path / "g.aeg")
    assert os.listdir(tmp_path) == []


# ---- arrays on disk, ranks -----------------------------------------------------------------------


@pytest.mark.parametrize("memory", [0, 100, 1000, 1 << 20])
def test_scattered_arrays(memory: int, tmp_path: Path) -> None:
    for count in (0, 1, 2, 100, 300):
        rng = np.random.default_rng(count)
        places, values = rng.permutation(count), rng.integers(0, max(1, count), count)
        array = ScatteredArray(str(tmp_path), count, memory)
        for some in np.array_split(np.arange(count), 7):
            array.put(places[some], values[some])
        expected = np.empty(count, np.int64)
        expected[places] = values
        found = np.concatenate([np.empty(0, np.uint32), *array.pieces()])
        assert found.tolist() == expected.tolist()
        assert os.listdir(tmp_path) == []
        array.close()


def test_a_scattered_array_is_filled_once(tmp_path: Path) -> None:
    for places in ([0, 1, 2], [0, 1, 2, 3, 3]):
        array = ScatteredArray(str(tmp_path), 4, 1000)
        array.put(np.array(places), np.array(places))
        with pytest.raises(errors.CorruptFileError, match=r"0\.\.3 .* not filled once"):
            list(array.pieces())
    array = ScatteredArray(str(tmp_path), 4, 1000)
    array.put(np.array([5]), np.array([0]))
    with pytest.raises(errors.OutOfRangeError):
        list(array.pieces())
    with pytest.raises(errors.StorageError, match="cannot write a scratch file in"):
        ScatteredArray(str(tmp_path / "none"), 4, 1000)


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "no")

    monkeypatch.setattr(scratch.os, "pwrite", full)
    array = ScatteredArray(str(tmp_path), 4, 1000)
    with pytest.raises(errors.DiskFullError, match="cannot write a scratch file"):
        array.put(np.arange(4), np.arange(4))


def test_bad_ranks() -> None:
    ranks = native.Ranks(10)
    ranks.add(np.array([3]))
    with pytest.raises(errors.OutOfRangeError, match="number 3 at position 1 is there twice"):
        ranks.add(np.array([4, 3]))
    with pytest.raises(errors.OutOfRangeError, match="number 10 at position 0 is not below"):
        ranks.add(np.array([10]))


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("typed", [False, True])
def test_copies_of_a_graph_over_a_file_do_not_know_the_order_of_its_input(
    tmp_path: Path, typed: bool, merged: bool
) -> None:
    """Their first edges have the ids of places in the file; the attribute edge_id tells them."""
    src, dst = np.random.default_rng(0).integers(0, NODES, (2, 300))
    kind = ("u", "to", "u")
    live: Any
    load: Callable[[Path], Any]
    if typed:
        base: Any = HeteroGraph.from_edges({kind: (src, dst)}, {"u": NODES}, keep_order=True)
        base.save(tmp_path / "base.aeg")
        live = DynamicHeteroGraph.open(tmp_path / "g", base=tmp_path / "base.aeg", arena_mb=16)
        live[kind].insert([1, 2], [3, 4])
        load = HeteroGraph.load
    else:
        base = Graph.from_edges(NODES, src, dst, keep_order=True)
        base.save(tmp_path / "base.aeg")
        live = DynamicGraph.open(tmp_path / "g", base=tmp_path / "base.aeg", arena_mb=16)
        live.insert_edges([1, 2], [3, 4])
        load = Graph.load
    with live:
        if merged:
            live.merge()
        live.save(tmp_path / "saved.aeg")
        known, lists = (base[kind], live[kind]) if typed else (base, live)
        first = known.edge_ends(np.arange(300))
        ends = np.append(first[0], [1, 2]), np.append(first[1], [3, 4])
        for copy in (load(tmp_path / "saved.aeg"), live.to_graph()):
            edges = copy[kind] if typed else copy
            attrs = edges.attrs if typed else edges.edge_attrs
            ids = attrs["edge_id"].gather(np.arange(302))
            assert edges.edge_order is None and sorted(ids.tolist()) == list(range(302))
            for own, expected in zip(edges.edge_ends(np.arange(302)), ends, strict=True):
                np.testing.assert_array_equal(own, expected[ids])
            for own, expected in zip(lists.edge_ends(ids), ends, strict=True):
                np.testing.assert_array_equal(own, expected[ids])
