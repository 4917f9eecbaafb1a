"""Graph files that are reordered within a budget are those that are reordered in memory."""

from __future__ import annotations

import filecmp
import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recording import Interrupt, Recording
from support.strategies import examples

from aethergraph import FeatureTable, Graph, HeteroGraph
from aethergraph.convert import LinkTable, NodeTable, TableSchema, reorder, tables
from aethergraph.convert.external import lists
from aethergraph.convert.reordering import api, sources
from aethergraph.errors import (
    InvalidArgumentError,
    OutOfRangeError,
    StorageError,
    UnsupportedError,
)


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few kilobytes for buffers: many runs, parts that must be split, edges kept in a file."""
    monkeypatch.setattr(api, "working_memory", lambda budget, formats, threads, nodes: 20_000)
    monkeypatch.setattr(sources, "_MOST_ROWS", 256)
    monkeypatch.setattr(sources, "_CHUNK_BYTES", 4096)
    monkeypatch.setattr(sources, "_LET_GO", 10_000)
    monkeypatch.setattr(lists, "_GROUP_EDGES", 300)
    monkeypatch.setattr(os, "fdatasync", lambda file: None)  # of so many small runs


def make(
    seed: int, nodes: int, edges: int, *, layout: Any = "csc", times: str = "none",
    keep: bool = False, values: bool = True,
) -> Graph:  # fmt: skip
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, nodes, edges), rng.integers(0, nodes, edges)
    dst[rng.random(edges) < 0.2] = nodes // 2
    time = rng.integers(0, 50, edges)
    graph = Graph.from_edges(
        nodes, src, dst, layout=layout, keep_order=keep,
        edge_weight=rng.random(edges).astype(np.float32) if values else None,
        edge_time=time.astype("M8[s]") if times == "edge" else None,
        node_time=rng.random(nodes) if times == "node" else None,
        edge_attrs={"order": rng.integers(0, 99, (edges, 2)), "b": rng.random(edges) < 0.5}
        if values else None,
    )  # fmt: skip
    if values:
        graph.features = rng.random((nodes, 3, 2), dtype=np.float32)
        graph.node_attrs["y"] = rng.integers(0, 5, nodes).astype(np.int8)
        bits = rng.integers(0, 2**15, (nodes, 2)).astype(np.uint16)
        graph.node_attrs["half"] = FeatureTable.from_array(bits, dtype="bfloat16")
        graph.node_attrs["train"] = rng.random(nodes) < 0.5
    return graph


@examples(20)
@given(
    seed=st.integers(0, 2**32),
    nodes=st.sampled_from([1, 9, 300, 2000]),
    edges=st.sampled_from([0, 1, 50, 2500]),
    layout=st.sampled_from(["csc", "csr", "both"]),
    times=st.sampled_from(["none", "edge", "node"]),
    keep=st.booleans(),
    compress=st.booleans(),
    values=st.booleans(),
    order=st.sampled_from(["rabbit", "rabbit", "bfs", "degree", "gorder"]),
)
def test_same_file_as_in_memory(
    small_memory: None, seed: int, nodes: int, edges: int, layout: Any, times: str, keep: bool,
    compress: bool, values: bool, order: Any, tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    folder = tmp_path_factory.mktemp("reorder")
    make(seed, nodes, edges, layout=layout, times=times, keep=keep, values=values).save(
        folder / "g.aeg", compress=compress
    )
    result = reorder(folder / "g.aeg", folder / "moved.aeg", order=order)
    assert (result.num_nodes, result.num_edges) == (nodes, edges)
    graph = Graph.load(folder / "g.aeg")
    graph.permute(graph.reorder(order)).save(folder / "expected.aeg", compress=compress)
    assert filecmp.cmp(folder / "expected.aeg", folder / "moved.aeg", shallow=False)
    assert sorted(os.listdir(folder)) == ["expected.aeg", "g.aeg", "moved.aeg"]


def typed_graph() -> HeteroGraph:
    rng = np.random.default_rng(5)
    kind = ("user", "rates", "film")
    typed = HeteroGraph.from_edges(
        {
            kind: (rng.integers(0, 400, 2000), rng.integers(0, 200, 2000)),
            ("user", "knows", "user"): (rng.integers(0, 400, 900), rng.integers(0, 400, 900)),
            ("film", "won", "prize"): ([], []),
        },
        {"user": 400, "film": 200, "prize": 3},
        edge_attrs={kind: {"n": np.arange(2000)}}, edge_weight={kind: rng.random(2000)},
        layout="both", add_reverse=True, node_time={"film": rng.random(200)},
    )  # fmt: skip
    typed["user"].features = rng.random((400, 2))
    return typed


@pytest.mark.parametrize("compress", [False, True])
def test_typed(small_memory: None, compress: bool, tmp_path: Path) -> None:
    typed_graph().save(tmp_path / "g.aeg", compress=compress)
    reorder(tmp_path / "g.aeg", tmp_path / "moved.aeg")
    typed = HeteroGraph.load(tmp_path / "g.aeg")
    typed.permute(typed.reorder()).save(tmp_path / "expected.aeg", compress=compress)
    assert filecmp.cmp(tmp_path / "expected.aeg", tmp_path / "moved.aeg", shallow=False)
    HeteroGraph.load(tmp_path / "moved.aeg").verify()


@pytest.mark.parametrize("kind", [Graph, HeteroGraph])
def test_what_tables_say_of_times_stays(small_memory: None, kind: Any, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    times = pd.date_range("2024-02-29", periods=40, freq="h", tz="America/New_York")
    links = pd.DataFrame({"u": np.arange(40) % 7, "v": np.arange(40) % 5, "t": times})
    nodes = {"u": NodeTable(pd.DataFrame({"id": np.arange(7), "t": times[:7]}), "id", time="t")}
    if kind is HeteroGraph:
        nodes["v"] = NodeTable({"id": np.arange(5)}, "id")
    likes = LinkTable(links, "u", "u", "u" if kind is Graph else "v", "v", time="t")
    tables(TableSchema(nodes, {"likes": likes}, reverse=kind is HeteroGraph), tmp_path / "g.aeg")
    graph = kind.load(tmp_path / "g.aeg")
    moved = graph.permute(graph.reorder())
    reorder(tmp_path / "g.aeg", tmp_path / "moved.aeg")
    moved.save(tmp_path / "expected.aeg")
    assert filecmp.cmp(tmp_path / "expected.aeg", tmp_path / "moved.aeg", shallow=False)
    found = [graph, moved, pickle.loads(pickle.dumps(moved)), kind.load(tmp_path / "moved.aeg")]
    if kind is HeteroGraph:
        found.append(moved.with_attrs({"u": {"z": np.arange(7)}}, {}))
    for one in found:
        assert (one.time_zone, one.time_attr, one.time_unit) == ("UTC", "edge_time", "us")


def test_files_of_rows_and_ids(small_memory: None, tmp_path: Path) -> None:
    graph = make(2, 300, 2000, values=False)
    graph.save(tmp_path / "g.aeg")
    rng = np.random.default_rng(0)
    rows, train = rng.random((300, 4)), rng.integers(0, 300, 50).astype(np.int32)
    np.save(tmp_path / "x.npy", rows)
    np.save(tmp_path / "train.npy", train)
    bits = rng.integers(0, 2**15, (300, 2)).astype(np.uint16)
    FeatureTable.from_array(bits, dtype="bfloat16").save(tmp_path / "half.aef")
    result = reorder(
        tmp_path / "g.aeg", tmp_path / "out.aeg", rows=[tmp_path / "x.npy", tmp_path / "half.aef"],
        ids=tmp_path / "train.npy",
    )  # fmt: skip
    perm = graph.reorder()
    assert result.rows[str(tmp_path / "x.npy")] == str(tmp_path / "out.x.npy")
    assert np.array_equal(np.load(tmp_path / "out.x.npy"), rows[perm])
    half = FeatureTable.load(tmp_path / "out.half.aef")
    assert half.dtype_name == "bfloat16" and np.array_equal(half.read(0, 300), bits[perm])
    moved = np.load(result.ids[str(tmp_path / "train.npy")])
    assert moved.dtype == np.int32 and np.array_equal(perm[moved], train)


def test_narrow_ids_become_wide_enough(small_memory: None, tmp_path: Path) -> None:
    """The new id of a small id may be any, which eight bits cannot hold."""
    graph = make(2, 300, 2000, values=False)
    graph.save(tmp_path / "g.aeg")
    names = ("uint8", "int8", "uint16")
    for name in names:
        np.save(tmp_path / f"{name}.npy", np.arange(100, dtype=name))
    reorder(
        tmp_path / "g.aeg", tmp_path / "out.aeg", ids=[tmp_path / f"{name}.npy" for name in names]
    )
    for name in names:
        moved = np.load(tmp_path / f"out.{name}.npy")
        assert np.array_equal(graph.reorder()[moved], np.arange(100))
        assert moved.dtype == ("uint16" if name == "uint16" else "int64")


@pytest.mark.parametrize("after", [True, False])
def test_goes_on_wherever_it_was_interrupted(
    small_memory: None, after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(3, 300, 2000, layout="both", times="edge").save(tmp_path / "g.aeg")
    np.save(tmp_path / "x.npy", np.arange(600).reshape(300, 2))
    reorder(tmp_path / "g.aeg", tmp_path / "whole.aeg", rows=tmp_path / "x.npy")
    recording = Recording(monkeypatch, interrupted_after=after)
    remarks: list[str] = []
    count = 0
    while True:
        recording.left = 7
        try:
            reorder(
                tmp_path / "g.aeg", tmp_path / "out.aeg", rows=tmp_path / "x.npy",
                remark=remarks.append,
            )  # fmt: skip
            break
        except Interrupt:
            count += 1
            assert count < 60
    assert count > 3 and any("going on" in text for text in remarks)
    for name in ("aeg", "x.npy"):
        assert filecmp.cmp(tmp_path / f"whole.{name}", tmp_path / f"out.{name}", shallow=False)
    assert not [name for name in os.listdir(tmp_path) if "building" in name]


KILLED = """
    import os, signal, sys
    from aethergraph.convert import LinkTable, NodeTable, TableSchema, reorder, tables
    from aethergraph.convert.external.journal import Journal
    from aethergraph.convert.reordering import sources
    sources._MOST_ROWS = 256
    record, left = Journal.record, [int(sys.argv[1])]
    def dying(self, **state):
        record(self, **state)
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
    Journal.record = dying
    reorder(sys.argv[2], sys.argv[3], memory_budget="4G", force=True,
            remark=lambda text: print(text, flush=True))
"""


def test_killed_processes(tmp_path: Path, run_python: Callable[..., Any]) -> None:
    """A chain of processes, each killed a little further on; what was there stays till the end."""
    graph = make(4, 300, 2000)
    graph.save(tmp_path / "g.aeg")
    graph.permute(graph.reorder()).save(tmp_path / "expected.aeg")
    output = tmp_path / "out.aeg"
    output.write_text("before")
    for number in range(40):
        done = run_python(KILLED, "9", str(tmp_path / "g.aeg"), str(output), check=False)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert output.read_text() == "before"
        assert number == 0 or "going on with an interrupted call" in done.stdout
    assert number >= 2
    assert filecmp.cmp(tmp_path / "expected.aeg", output, shallow=False)


def test_another_call_is_refused(
    small_memory: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(5, 300, 2000).save(tmp_path / "g.aeg")
    with monkeypatch.context() as patch:
        Recording(patch, interrupted_after=True).left = 5
        with pytest.raises(Interrupt):
            reorder(tmp_path / "g.aeg", tmp_path / "out.aeg")
    with pytest.raises(InvalidArgumentError, match="order was 'rabbit' and is 'bfs'"):
        reorder(tmp_path / "g.aeg", tmp_path / "out.aeg", order="bfs")
    reorder(tmp_path / "g.aeg", tmp_path / "out.aeg", order="bfs", restart=True)
    Graph.load(tmp_path / "out.aeg").verify()


def test_what_is_refused_before_work_begins(tmp_path: Path) -> None:
    make(6, 30, 200, values=False).save(tmp_path / "g.aeg")
    typed_graph().save(tmp_path / "typed.aeg")
    np.save(tmp_path / "few.npy", np.zeros((29, 2)))
    np.save(tmp_path / "wrong.npy", np.array([3, 30]))
    np.save(tmp_path / "floats.npy", np.array([3.5]))
    (tmp_path / "text.npy").write_text("no array")
    graph, output = tmp_path / "g.aeg", tmp_path / "out.aeg"
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"order": "random"}, InvalidArgumentError, "is not one of rabbit"),
        ({"memory_budget": "10M"}, InvalidArgumentError, "too small: the least is"),
        ({"rows": tmp_path / "few.npy"}, InvalidArgumentError, "has 29 rows, but .* 30 nodes"),
        ({"ids": tmp_path / "wrong.npy"}, OutOfRangeError, r"wrong.npy\[1\] = 30 is not in 0..29"),
        ({"ids": tmp_path / "floats.npy"}, InvalidArgumentError, "must hold integers"),
        ({"ids": tmp_path / "text.npy"}, InvalidArgumentError, "is no .npy file of ids"),
        ({"num_threads": 300}, InvalidArgumentError, "num_threads = 300"),
        ({"output": graph}, InvalidArgumentError, "the output is also an input"),
        ({"graph": tmp_path / "typed.aeg", "rows": graph}, UnsupportedError, "has 3 node types"),
    ]  # fmt: skip
    for options, error, match in cases:
        call = {"graph": graph, "output": output, "memory_budget": "16G", **options}
        with pytest.raises(error, match=match):
            reorder(call.pop("graph"), call.pop("output"), **call)
    output.write_text("there")
    with pytest.raises(StorageError, match="exists already; force=True"):
        reorder(graph, output, memory_budget="16G")
    assert not [name for name in os.listdir(tmp_path) if "building" in name]


def test_the_least_budget_grows_with_the_nodes(tmp_path: Path) -> None:
    Graph.from_edges(300_000, [0], [1]).save(tmp_path / "g.aeg")
    with pytest.raises(InvalidArgumentError, match=r"arrays of all nodes 8\.0 MiB"):
        reorder(tmp_path / "g.aeg", tmp_path / "out.aeg", memory_budget="64M")
