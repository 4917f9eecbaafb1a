"""Live graphs in a directory: commits come back, in another process and after kill -9."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.processes import in_fork, talking
from support.strategies import examples
from support.threads import running

from aethergraph import DynamicGraph, DynamicHeteroGraph, Graph, errors
from aethergraph.dynamic.directory import LiveDirectory
from aethergraph.dynamic.history import History
from aethergraph.dynamic.journal import Journal
from aethergraph.dynamic.repair import truncate_log, verify_directory

pytestmark = pytest.mark.any_python

NODES = 6


class IntegerLike:
    """An object that ``range`` and ``list`` take as an integer, though it is none."""

    def __index__(self) -> int:
        return 7


def lists_of(graph: Any) -> dict[str, Any]:
    """Everything that a graph shows, as plain lists."""
    now = graph.pinned()
    nodes = np.arange(now.num_nodes)
    edges = np.sort(np.concatenate([now.in_edges(v) for v in nodes])) if len(nodes) else nodes
    rows = {**now.edge_values, **now.edge_attrs}
    return {
        "lists": [(now.in_neighbors(v).tolist(), now.in_edges(v).tolist()) for v in nodes],
        "end": now.end_edge_ids,
        "nodes": {name: r.gather(nodes).tolist() for name, r in now.node_attrs.items()},
        "edges": {name: r.gather(edges).tolist() for name, r in rows.items()},
    }


def make(path: Path, **options: Any) -> DynamicGraph:
    return DynamicGraph.open(path, NODES, 16, huge_pages=False, **options)


FULL: dict[str, Any] = {
    "order": "time",
    "edge_time": "int64",
    "edge_weight": "float32",
    "edge_attrs": {"m": ((2,), "float32")},
}

# What one commit does: edges, pairs to delete, nodes to add, rows to change, and a merge after it.
commits = st.lists(
    st.fixed_dictionaries(
        {
            "edges": st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=6),
            "delete": st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=3),
            "add": st.integers(0, 2),
            "change": st.lists(st.integers(0, 5), max_size=3),
            "fails": st.booleans(),
            "then": st.sampled_from(["", "", "merge", "reopen"]),
        }
    ),
    max_size=8,
)


class _Failure(Exception):
    pass


def apply(graph: DynamicGraph, one: dict[str, Any], number: int, *, full: bool) -> None:
    src, dst = [e[0] for e in one["edges"]], [e[1] for e in one["edges"]]
    count = len(src)
    values: dict[str, Any] = {}
    if full:
        values = {
            "time": np.arange(count)[::-1] * 7 % 5,
            "weight": np.arange(count) / 4 + number,
            "edge_attrs": {"m": np.full((count, 2), number, np.float32)},
        }
    try:
        with graph.transaction():
            graph.insert_edges(src, dst, **values)
            if one["delete"]:
                graph.delete_edges(*np.transpose(one["delete"]))
            if one["add"]:
                graph.add_nodes(one["add"], x=np.full((one["add"], 2), number))
            if one["change"]:
                graph.update_nodes(one["change"], x=np.full((len(one["change"]), 2), -number))
            graph.set_offset("clicks", 3, number)
            if one["fails"]:
                raise _Failure
    except _Failure:
        pass


@pytest.mark.own_share
@pytest.mark.parametrize("options", [{}, {"layout": "csc"}, FULL], ids=["plain", "csc", "full"])
@examples(8)
@given(plan=commits)
def test_it_is_what_the_same_graph_in_memory_is(
    tmp_path_factory: pytest.TempPathFactory, options: dict[str, Any], plan: list[Any]
) -> None:
    path = tmp_path_factory.mktemp("live") / "g.aegd"
    twin = DynamicGraph(NODES, 16, huge_pages=False, **options)
    twin.features = np.zeros((NODES, 2))
    graph = make(path, **options)
    graph.features = np.zeros((NODES, 2))
    for number, one in enumerate(plan, 1):
        for each in (twin, graph):
            apply(each, one, number, full=options is FULL)
        if one["then"] == "merge":
            graph.merge()
        elif one["then"] == "reopen":
            graph.close()
            graph = DynamicGraph.open(path, arena_mb=16)
        assert lists_of(graph) == lists_of(twin)
        assert graph.offsets("clicks") == twin.offsets("clicks")
    graph.close()
    again = DynamicGraph.open(path, arena_mb=16)
    assert lists_of(again) == lists_of(twin)
    assert again.offsets("clicks") == twin.offsets("clicks")
    again.close()


def test_segments_that_a_crash_left_behind_a_merge_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):  # a segment each
        graph = make(tmp_path / "g") if not number else DynamicGraph.open(tmp_path / "g")
        graph.insert_edge(number, number + 1)
        if number == 3:  # a merge that ends before the log is given up
            with monkeypatch.context() as patch:
                patch.setattr(type(graph._store.live), "release_journal", lambda *_: None)
                graph.merge()
        graph.close()
    assert len(list((tmp_path / "g").glob("wal-*.log"))) == 4
    graph = DynamicGraph.open(tmp_path / "g")
    graph.insert_edge(4, 5)
    graph.close()
    assert len(list((tmp_path / "g").glob("wal-*.log"))) <= 2
    graph = DynamicGraph.open(tmp_path / "g")
    assert graph.num_edges == 5
    graph.close()


def test_what_crashes_have_left_is_removed(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    graph.features = np.ones((NODES, 2))
    graph.insert_edge(0, 1)
    graph.merge()
    graph.close()
    kept = {path.name for path in (tmp_path / "g").iterdir()} - {"rows-000001.aef"}
    for name in (
        ".gen-000002.aeg.0123456789abcdef.aether-tmp",
        ".gen-000001.aeg.places-0.aef.0123456789abcdef.aether-tmp",
        "wal.new",
        "wal.spare",
        ".rows-000007.aef.0123456789abcdef.aether-tmp",
    ):
        (tmp_path / "g" / name).write_bytes(b"left")
    (tmp_path / "g" / "gen-000003.node.ids.building").mkdir()
    (tmp_path / "g" / "gen-000003.node.ids.building" / "run-0").write_bytes(b"left")
    again = DynamicGraph.open(tmp_path / "g")
    assert again.num_edges == 1
    assert {path.name for path in (tmp_path / "g").iterdir()} == kept | {"LIVE"}
    assert again.merge().endswith("gen-000002.aeg")
    again.close()


def test_a_merge_that_was_killed_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DynamicGraph.open(tmp_path / "g", 0, 16, ids="str", huge_pages=False) as graph:
        graph.ids.add(["a", "b"])
        graph.merge()
    before = {path.name for path in (tmp_path / "g").iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "_make_current", lambda *_: os._exit(3))
        with pytest.raises(EOFError):
            in_fork(lambda: DynamicGraph.open(tmp_path / "g").merge())
    left = {path.name for path in (tmp_path / "g").iterdir()} - before - {"LIVE"}
    assert {"gen-000002.aeg", "gen-000002.node.ids"} <= left
    DynamicGraph.open(tmp_path / "g").close()
    after = {path.name for path in (tmp_path / "g").iterdir()}
    assert after == before


@pytest.mark.parametrize("content", ["text", "graph", "of another live graph", "copy", "folder"])
def test_files_of_others_with_names_of_ours_are_left_alone(tmp_path: Path, content: str) -> None:
    names = [
        "gen-000009.aeg", "gen-000009.aeg.places-0.aef", "gen-000001.backup.ids",
        "gen-000020.node.ids", "gen-000021.node.ids.building", "gen-000001.places-old.aef",
    ]  # fmt: skip
    Graph.from_edges(3, [0], [1]).save(tmp_path / "mine.aeg")
    for name in ("g", "other"):
        graph = make(tmp_path / name)
        graph.insert_edge(0, 1)
        graph.merge()
        graph.close()
    sources = {
        "graph": tmp_path / "mine.aeg", "copy": tmp_path / "g" / "gen-000001.aeg",
        "of another live graph": tmp_path / "other" / "gen-000001.aeg",
    }  # fmt: skip
    for name in names:
        place = tmp_path / "g" / name
        if content == "folder":
            place.mkdir()
            (place / "mine").write_text("mine")
        elif content == "text":
            place.write_text("mine")
        else:
            shutil.copy(sources[content], place)
    before = {name: path_content(tmp_path / "g" / name) for name in names}
    verify_directory(tmp_path / "g")
    for _ in range(2):
        with DynamicGraph.open(tmp_path / "g") as again:
            for number in range(3):
                again.insert_edge(0, number)
                again.merge()
        assert verify_directory(tmp_path / "g").startswith("gen-0000")
        assert {name: path_content(tmp_path / "g" / name) for name in names} == before
    DynamicGraph.open(tmp_path / "g").close()
    ours = {path.name for path in (tmp_path / "g").glob("gen-*")} - set(names)
    assert ours == {"gen-000027.aeg"}


def path_content(path: Path) -> bytes:
    return (path / "mine").read_bytes() if path.is_dir() else path.read_bytes()


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    """A user's copies neither break a merge nor are deleted."""
    copies = {"notes.txt", "gen-000001-backup.aeg", "gen-000001.aeg.bak", "gen-000009.aeg.part",
              "rows-old.aef", "rows-000001.aef~"}  # fmt: skip
    graph = make(tmp_path / "g")
    for name in copies:
        (tmp_path / "g" / name).write_text("mine")
    for number in range(3):
        graph.insert_edge(0, number)
        graph.merge()
    graph.close()
    again = DynamicGraph.open(tmp_path / "g")
    again.merge()
    again.close()
    assert {name for name in copies if (tmp_path / "g" / name).read_text() == "mine"} == copies


@pytest.mark.parametrize(("merges", "taken"), [(False, "wal*"), (True, "wal-*.log")])
def test_a_log_that_is_gone_is_missed(
    tmp_path: Path, run_python: Callable[..., Any], merges: bool, taken: str
) -> None:
    """Also behind a writer that was killed: a backup may leave out what is called *.log."""
    script = """
        import os, sys
        import numpy as np
        from aethergraph import DynamicGraph
        graph = DynamicGraph.open(sys.argv[1], 40, 16, huge_pages=False)
        graph.node_attrs["x"] = np.ones((40, 2), np.float32)
        graph.insert_edge(1, 2)
        if sys.argv[2] == "True":
            graph.merge()
        for number in range(20):
            graph.insert_edge(3, number)
        graph.flush()
        os._exit(0)
    """
    path, aside = tmp_path / "g", tmp_path / "aside"
    run_python(script, str(path), str(merges))
    aside.mkdir()
    files = {file.name for file in path.iterdir()}
    for log in path.glob(taken):
        log.rename(aside / log.name)
    for reads in (DynamicGraph.open, verify_directory, lambda place: History(place).last()):
        with pytest.raises(errors.CorruptFileError, match="is missing; put it back, or let"):
            reads(path)
    here = {file.name for file in path.iterdir()}
    assert files - here - {"wal.lock"} == set(os.listdir(aside)) - {"wal.lock"}
    for log in aside.iterdir():
        log.rename(path / log.name)
    graph = DynamicGraph.open(path)
    assert graph.num_edges == 21 and graph.node_attrs["x"].num_rows == 40
    graph.close()


def test_typed_graphs(tmp_path: Path) -> None:
    kinds = [("u", "v", "p"), ("p", "r", "u")]
    graph = DynamicHeteroGraph.open(tmp_path / "g", {"u": 3, "p": 2}, kinds, 16, order="time")
    graph["u"].attrs["x"] = np.eye(3)
    with graph.transaction():
        new = graph["p"].add(2)
        graph[kinds[0]].insert([0, 1], new)
        graph[kinds[1]].insert(new, [0, 1])
    graph.merge()
    graph[kinds[0]].insert([2, 2], [0, 0])
    graph["u"].update([1], x=np.ones((1, 3)))
    graph.close()
    again = DynamicHeteroGraph.open(tmp_path / "g", arena_mb=16)
    assert again.num_nodes == {"u": 3, "p": 4}
    assert again[kinds[0]].in_neighbors(0).tolist() == [2, 2]
    assert again[kinds[0]].in_edges(0).tolist() == [2, 3]
    assert again[kinds[1]].in_neighbors(1).tolist() == [3]
    assert again["u"].attrs["x"].gather([1, 2]).tolist() == [[1, 1, 1], [0, 0, 1]]
    again.close()
    with pytest.raises(errors.InvalidArgumentError, match="many types"):
        DynamicGraph.open(tmp_path / "g")


# ---- other processes --------------------------------------------------------------------------


def test_strangers_read_it_as_it_changes(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    graph.features = np.eye(NODES, 2)
    graph.insert_edge(0, 1)
    script = """
import sys
from aethergraph import DynamicGraph
graph = DynamicGraph.attach(sys.argv[1])
for line in sys.stdin:
    print(graph.num_edges, graph.features.gather([1]).tolist(), flush=True)
try:
    graph.insert_edge(0, 1)
except NotImplementedError as error:
    assert "can only read" in str(error)
else:
    sys.exit("it writes")
"""
    with talking(script, tmp_path / "g") as ask:
        assert ask() == "1 [[0.0, 1.0]]\n"
        with graph.transaction():
            graph.insert_edges([1, 2], [2, 3])
            graph.update_nodes([1], x=[[5, 6]])
        assert ask() == "3 [[5.0, 6.0]]\n"
    graph.close()
    with pytest.raises(errors.ClosedError, match=r"no process has it open: DynamicGraph\.open"):
        DynamicGraph.attach(tmp_path / "g")


def test_info_while_a_merge_gives_files_up(tmp_path: Path) -> None:
    """Files that go between two looks of it are no error."""
    with DynamicGraph.open(tmp_path / "g", 10, arena_mb=2) as graph:
        graph.insert_edges([0, 1], [1, 2])
        base = Path(graph.merge())
    before = LiveDirectory(tmp_path / "g").info()
    assert before["base_bytes"] == base.stat().st_size > 0
    (tmp_path / "g" / "wal-0000000000000000.log").symlink_to("nothing")  # listed, and not there
    base.unlink()
    assert LiveDirectory(tmp_path / "g").info() == before | {"base_bytes": 0}


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    with pytest.raises(errors.UnsupportedError, match=rf"process {os.getpid()}.*Graph\.attach"):
        DynamicGraph.open(tmp_path / "g")
    graph.close()
    DynamicGraph.open(tmp_path / "g").close()


# ---- bad input --------------------------------------------------------------------------------


def test_options_must_be_those_of_the_graph(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="give num_vertices="):
        DynamicGraph.open(tmp_path / "g")
    make(tmp_path / "g", **FULL).close()
    DynamicGraph.open(tmp_path / "g", edge_time="int64", order="time").close()
    for wrong in ({"layout": "csc"}, {"edge_time": "datetime64[s]"}, {"edge_attrs": {}}):
        with pytest.raises(errors.InvalidArgumentError, match="was made with"):
            DynamicGraph.open(tmp_path / "g", **wrong)  # type: ignore[arg-type]
    for options in ({"durability": "maybe"}, {"interval_ms": 0}, {"arena_mb": 0}):
        with pytest.raises(errors.InvalidArgumentError):
            DynamicGraph.open(tmp_path / "g", **options)  # type: ignore[arg-type]
    DynamicGraph.open(tmp_path / "g").close()  # nobody has kept the lock
    DynamicGraph.open(tmp_path / "g", interval_ms=IntegerLike()).close()  # type: ignore[arg-type]


def test_options_of_many_types_must_be_those_of_the_graph(tmp_path: Path) -> None:
    votes, writes = ("user", "votes", "post"), ("user", "writes", "post")
    made: dict[str, Any] = {
        "num_nodes": {"user": 5, "post": 3},
        "edge_types": {votes: {"order": "time", "edge_time": "int64"}, writes: {}},
        "arena_mb": 16, "layout": "csc", "max_nodes": 100, "huge_pages": False,
    }  # fmt: skip
    DynamicHeteroGraph.open(tmp_path / "g", **made).close()
    for same in (made, {"arena_mb": 16}, {"arena_mb": 16, "layout": "csc"}):
        DynamicHeteroGraph.open(tmp_path / "g", **same).close()
    for wrong in (
        {"num_nodes": {"user": 6, "post": 3}}, {"num_nodes": {"user": 5}}, {"max_nodes": 99},
        {"edge_types": [votes]}, {"edge_types": [votes, ("user", "no", "post")]},
        {"edge_types": {votes: {}, writes: {"order": "time"}}}, {"layout": "both"},
        {"order": "time"}, {"edge_weight": "float32"}, {"edge_attrs": {"m": ((), "int64")}},
    ):  # fmt: skip
        with pytest.raises(errors.InvalidArgumentError, match="was made with"):
            DynamicHeteroGraph.open(tmp_path / "g", arena_mb=16, **wrong)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match="options are"):
        types = {votes: {"speed": 3}, writes: {}}
        DynamicHeteroGraph.open(tmp_path / "g", edge_types=types, arena_mb=16)
    DynamicHeteroGraph.open(tmp_path / "g", arena_mb=16).close()  # nobody has kept the lock


def test_damage_is_named(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    graph.insert_edges([0] * 50, np.arange(50) % NODES)
    graph.close()
    (log,) = (tmp_path / "g").glob("wal-*.log")
    whole = log.read_bytes()
    changed = bytearray(whole)
    changed[4096 + 60] ^= 1
    log.write_bytes(changed)
    with pytest.raises(errors.CorruptFileError, match="damaged at byte 4096: commit 1 was"):
        DynamicGraph.open(tmp_path / "g")
    directory, text = LiveDirectory(tmp_path / "g"), tmp_path / "g" / "graph.json"
    directory.write_json("graph.json", {**directory.description(), "version": 9})
    with pytest.raises(errors.VersionError, match="version 9"):
        DynamicGraph.open(tmp_path / "g")
    text.write_text("{")
    with pytest.raises(errors.CorruptFileError, match=r"graph\.json is damaged"):
        DynamicGraph.open(tmp_path / "g")


def test_a_damaged_log_is_cut_where_its_user_says_so(tmp_path: Path) -> None:
    path = tmp_path / "g"
    graph = make(path)
    graph.features = np.ones((NODES, 2))
    for number in range(40):
        graph.insert_edge(number % NODES, (number * 5 + 1) % NODES)
    with pytest.raises(errors.UnsupportedError, match="is being written by process"):
        verify_directory(path)
    graph.close()
    assert verify_directory(path) == "rows-000001.aef, the log up to commit 41"
    assert truncate_log(path) is None
    (log,) = path.glob("wal-*.log")
    damaged = bytearray(log.read_bytes())
    damaged[4096 + 20 * 512 + 60] ^= 1
    log.write_bytes(damaged)
    for reads in (verify_directory, DynamicGraph.open):
        with pytest.raises(errors.CorruptFileError, match=r"commit 21 was on disk") as raised:
            reads(path)
        assert str(raised.value).endswith(f"aethergraph verify --truncate '{path}'")
    assert truncate_log(path) == (20, [f"{log.name}.cut-1"], 41)
    assert (path / f"{log.name}.cut-1").read_bytes() == damaged
    assert verify_directory(path).endswith("commit 20")
    graph = DynamicGraph.open(path)
    assert graph.lsn == 20
    graph.insert_edge(5, 5)
    graph.merge()
    graph.close()
    assert verify_directory(path).startswith("gen-000001.aeg, ")
    base = path / "gen-000001.aeg"
    content = bytearray(base.read_bytes())
    content[-1] ^= 1
    base.write_bytes(content)
    with pytest.raises(errors.CorruptFileError, match=r"gen-000001\.aeg"):
        verify_directory(path)


@pytest.mark.parametrize("durability", ["sync", "batch", "none"])
def test_what_was_flushed_is_missed(tmp_path: Path, durability: str) -> None:
    script = """
import os, sys
from aethergraph import DynamicGraph
graph = DynamicGraph.open(sys.argv[1], 6, 16, huge_pages=False, durability=sys.argv[2])
for number in range(10):
    graph.insert_edge(number % 6, number * 5 % 6)
graph.flush()
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", script, tmp_path / "g", durability], check=False)
    (log,) = (tmp_path / "g").glob("wal-*.log")
    whole = log.read_bytes()
    for commit in (0, 9):
        damaged = bytearray(whole)
        damaged[4096 + 512 * commit + 60] ^= 1
        log.write_bytes(damaged)
        with pytest.raises(errors.CorruptFileError, match=f"commit {commit + 1} was on disk"):
            DynamicGraph.open(tmp_path / "g")
    log.write_bytes(whole)
    graph = DynamicGraph.open(tmp_path / "g")
    assert graph.lsn == 10
    graph.close()


def test_ending_an_attribute_that_there_is_not_leaves_no_trace(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    graph.node_attrs["y"] = np.zeros(NODES)
    for name in ("x", "\ud800", ["x"]):
        with pytest.raises(errors.InvalidArgumentError, match="there is none"):
            graph.node_attrs[name] = None  # type: ignore[index,assignment]
    graph.node_attrs["y"] = None  # type: ignore[assignment]
    graph.insert_edge(0, 1)
    graph.close()
    graph = DynamicGraph.open(tmp_path / "g")  # the log has nothing that cannot be done again
    assert graph.num_edges == 1
    assert list(graph.node_attrs) == []
    graph.close()


def test_rows_that_were_replaced_stay_as_long_as_the_log_names_them(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    graph.node_attrs["y"] = np.zeros(NODES)
    graph.node_attrs["y"] = np.ones(NODES)
    for _ in range(3):  # each opening reads the whole log, and removes files that nobody needs
        graph.close()
        graph = DynamicGraph.open(tmp_path / "g", huge_pages=False)
        assert graph.node_attrs["y"].gather([1]).tolist() == [1]
    graph.merge()
    for _ in range(2):
        graph.close()
        graph = DynamicGraph.open(tmp_path / "g", huge_pages=False)
        assert graph.node_attrs["y"].gather([1]).tolist() == [1]
    assert not list((tmp_path / "g").glob("rows-*"))
    graph.close()


def test_what_the_system_refuses_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "g", tmp_path / ("a" * 300)):
        for call in (lambda p: DynamicGraph.open(p, 3), DynamicGraph.attach):
            with pytest.raises((errors.StorageError, errors.ClosedError), match=path.name):
                call(path)
    for path in (b"a\0b", 3, None, ["g"]):
        for call in (lambda p: DynamicGraph.open(p, 3), DynamicGraph.attach):
            with pytest.raises(errors.InvalidArgumentError, match="not a file name"):
                call(path)


def test_a_graph_in_memory_has_no_directory() -> None:
    graph = DynamicGraph(3, 16)
    graph.flush()
    assert graph.directory is None
    assert graph.lsn == 0
    with pytest.raises(errors.UnsupportedError, match="in memory only"):
        graph.merge()


@pytest.mark.forks
def test_a_forked_child_leaves_the_log_alone(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    graph.insert_edge(0, 1)
    assert in_fork(lambda: graph.close() or graph.closed)
    graph.insert_edge(1, 2)
    graph.close()
    with DynamicGraph.open(tmp_path / "g") as again:
        assert again.num_edges == 2


@pytest.mark.forks
def test_a_forked_child_does_not_keep_the_graph(tmp_path: Path) -> None:
    ready, tell = os.pipe()
    wait, stay = os.pipe()
    writer = os.fork()
    if writer == 0:  # writes, forks a child that only reads, and is killed
        graph = make(tmp_path / "g")
        kept = (graph, graph._store.journal)
        graph.insert_edge(0, 1)
        if os.fork() == 0:
            os.close(stay)
            os.write(tell, b"%d" % kept[0].num_edges)
            os.read(wait, 1)
            os._exit(0)
        signal.pause()
    assert os.read(ready, 1) == b"1"
    with pytest.raises(errors.UnsupportedError, match=f"written by process {writer}"):
        DynamicGraph.open(tmp_path / "g")
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
    graph = DynamicGraph.open(tmp_path / "g")  # the child lives on
    assert graph.num_edges == 1
    graph.close()
    for descriptor in (ready, tell, wait, stay):
        os.close(descriptor)


def test_what_the_command_line_tells_of_it(tmp_path: Path) -> None:
    graph = make(tmp_path / "g", **FULL)
    graph.insert_edge(0, 1, time=3, weight=1, edge_attrs={"m": [0, 0]})
    found = LiveDirectory(tmp_path / "g").info()
    assert (found["writer"], found["base"]) == (os.getpid(), None)
    assert found["log_bytes"] > 0
    base = Path(graph.merge()).name
    graph.close()
    found = LiveDirectory(tmp_path / "g").info()
    assert found["writer"] is None
    assert (found["base"], found["num_nodes"]) == (base, {"node": NODES})
    assert found["edge_types"][0]["attrs"] == {"m": [[2], "float32"]}


def test_what_was_on_disk_when_it_was_closed_is_missed(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    for number in range(50):
        graph.insert_edge(number % NODES, (number * 5 + 1) % NODES)
    graph.close()
    (log,) = (tmp_path / "g").glob("wal-*.log")
    whole = log.read_bytes()
    damaged = bytearray(whole)
    damaged[len(whole.rstrip(b"\0")) // 2] ^= 1
    log.write_bytes(damaged)
    with pytest.raises(errors.CorruptFileError):
        DynamicGraph.open(tmp_path / "g")
    for path in (tmp_path / "g").glob("wal-*.log"):
        path.unlink()
    for reads in (DynamicGraph.open, verify_directory):
        lost = pytest.raises(errors.CorruptFileError, match="is missing; put it back, or let")
        with lost as raised:
            reads(tmp_path / "g")
        assert "before commit 1: aethergraph verify --truncate" in str(raised.value)
    log.write_bytes(whole)  # what was missing, put back
    DynamicGraph.open(tmp_path / "g").close()
    log.unlink()
    (tmp_path / "g" / "NEWEST").unlink()  # as of older builds
    with pytest.raises(errors.CorruptFileError, match="files of it are missing") as raised:
        DynamicGraph.open(tmp_path / "g")
    assert "give up commits 1 to 50: aethergraph verify --truncate" in str(raised.value)
    done = truncate_log(tmp_path / "g")
    assert done == (0, [], 50)
    assert "ends at commit 0 now; given up: commits 1 to 50" in str(done)
    assert truncate_log(tmp_path / "g") is None
    DynamicGraph.open(tmp_path / "g").close()


@pytest.mark.parametrize(
    ("size", "at", "commit", "message"),
    [
        (1000, 1000, 1, "cut short at byte 1000, before its first commit"),
        (4096 + 3 * 512 + 7, 4096 + 3 * 512 + 7, 4, "the commits before 4 are whole"),
        (1 << 16, 1 << 16, 11, "the commits before 11 are whole"),
    ],
)
def test_a_log_that_is_cut_short_says_where(
    tmp_path: Path, size: int, at: int, commit: int, message: str
) -> None:
    path = tmp_path / "g"
    graph = make(path)
    for number in range(10):
        graph.insert_edge(number % NODES, (number * 5 + 1) % NODES)
    graph.close()
    (log,) = path.glob("wal-*.log")
    os.truncate(log, size)
    for reads in (DynamicGraph.open, verify_directory):
        with pytest.raises(errors.TruncatedFileError, match=message) as raised:
            reads(path)
        assert (raised.value.position, raised.value.value) == (at, commit)
        assert f"before commit {commit}: aethergraph verify --truncate" in str(raised.value)
    lost = 10 if commit <= 10 else None
    assert truncate_log(path) == (commit - 1, [f"{log.name}.cut-1"], lost)
    graph = DynamicGraph.open(path)
    assert graph.lsn == commit - 1
    graph.close()


@pytest.mark.parametrize("byte", [0, 100])
def test_a_log_with_a_damaged_beginning_says_so(tmp_path: Path, byte: int) -> None:
    path = tmp_path / "g"
    graph = make(path)
    graph.insert_edge(0, 1)
    graph.merge()
    graph.insert_edge(1, 2)
    graph.close()
    (log,) = path.glob("wal-*.log")
    content = bytearray(log.read_bytes())
    content[byte] ^= 1
    log.write_bytes(content)
    for reads in (DynamicGraph.open, verify_directory):
        with pytest.raises(errors.AetherError, match="at byte 0") as raised:
            reads(path)
        assert f"{log}'" in str(raised.value)
        assert "before commit 2: aethergraph verify --truncate" in str(raised.value)
    assert truncate_log(path) == (1, [f"{log.name}.cut-1"], 2)
    DynamicGraph.open(path).close()


def test_what_only_has_the_name_of_a_piece_of_the_log_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "g"
    graph = make(path)
    graph.insert_edge(0, 1)
    graph.merge()
    graph.insert_edge(1, 2)
    graph.close()
    notes = [path / f"wal-{number:016x}.{end}" for number, end in ((1, "log"), (1, "free"))]
    for file in notes:
        file.write_text("my notes")
    with DynamicGraph.open(path) as graph:
        graph.insert_edge(2, 3)
        graph.merge()
        graph.insert_edge(3, 4)
    assert [file.read_text() for file in notes] == ["my notes", "my notes"]
    later = path / f"wal-{0x99:016x}.log"
    later.write_text("my notes")
    for reads in (DynamicGraph.open, verify_directory):
        with pytest.raises(errors.FormatError, match="no segment of an AetherGraph log") as raised:
            reads(path)
        assert str(raised.value).startswith(f"'{later}' is damaged at byte 0, or no segment")
        assert "; move it away if it is none of this graph's, or let" in str(raised.value)
    later.unlink()
    assert verify_directory(path)
    with DynamicGraph.open(path) as graph:
        assert graph.num_edges == 4


def test_other_directories_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(errors.InvalidArgumentError, match=r"holds 'notes\.txt'"):
        DynamicGraph.open(tmp_path, 5)
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(errors.InvalidArgumentError, match="not a file name"):
        DynamicGraph.open("", 5)
    with pytest.raises(errors.InvalidArgumentError, match="is a file"):
        DynamicGraph.open(tmp_path / "notes.txt", 5)
    with pytest.raises(errors.InvalidArgumentError):
        DynamicGraph.open(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_graph_that_nobody_has_any_more_is_closed(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    graph.insert_edge(0, 1)
    del graph
    gc.collect()
    graph = DynamicGraph.open(tmp_path / "g")
    assert graph.num_edges == 1
    graph.close()


def test_merges_take_turns(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")

    def merge() -> None:
        for _ in range(5):
            graph.merge()

    with running(merge, merge, merge):
        for number in range(20):
            graph.insert_edge(number % NODES, number % 5)
    count = graph.num_edges
    graph.close()
    with DynamicGraph.open(tmp_path / "g") as again:
        assert again.num_edges == count
    with pytest.raises(errors.InvalidArgumentError, match="made with num_vertices = 6, not 7"):
        DynamicGraph.open(tmp_path / "g", 7)


def test_a_directory_that_was_renamed_is_closed_all_the_same(tmp_path: Path) -> None:
    path, after = tmp_path / "g", tmp_path / "h"
    graph = make(path)
    graph.insert_edge(0, 1)
    path.rename(after)
    with pytest.raises(errors.UnsupportedError, match="is being written by process"):
        DynamicGraph.open(after)
    with pytest.raises(errors.MissingFileError, match="CURRENT does not exist"):
        graph.close()
    assert graph.closed
    graph.close()  # again: nothing is left to do
    with DynamicGraph.open(after) as again:
        assert again.num_edges == 1
        again.insert_edge(1, 2)


def test_closing_inside_a_transaction(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    with graph.transaction():
        graph.insert_edge(0, 1)
        with pytest.raises(errors.InvalidArgumentError, match="inside a transaction"):
            graph.close()
    graph.close()
    with DynamicGraph.open(tmp_path / "g") as again:
        assert again.num_edges == 1


def test_rows_without_values(tmp_path: Path) -> None:
    """An extent of 0, of nodes and of edges, comes back from the log and from a base."""
    path = tmp_path / "g.aegd"
    with DynamicGraph.open(path, 3, 1, edge_attrs={"e": ((2, 0), "float32")}) as graph:
        graph.node_attrs["y"] = np.zeros((3, 0), np.float32)
    for step in range(3):
        with DynamicGraph.open(path, arena_mb=1) as graph:
            (node,) = graph.add_nodes(1, y=np.zeros((1, 0)))
            graph.update_nodes([0, node], y=np.zeros((2, 0)))
            graph.insert_edges([step], [node], edge_attrs={"e": np.zeros((1, 2, 0))})
            if step == 1:
                graph.merge()
    with DynamicGraph.open(path, arena_mb=1) as graph:
        assert graph.num_edges == 3
        assert graph.node_attrs["y"].gather([0, 5]).shape == (2, 0)
        assert graph.edge_attrs["e"].gather([2]).shape == (1, 2, 0)
