"""Graph files: round trips, storage, lifetimes of mapped memory, pickling, golden files."""

from __future__ import annotations

import gc
import json
import logging
import os
import pickle
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.containers import damage_section, write_container
from support.graphs import make_graph
from support.strategies import assert_same_graph, assert_same_subgraph, edge_lists, examples

from aethergraph import FeatureTable, Graph, NeighborSampler, errors
from aethergraph import _native as native
from aethergraph.storage.meta import ArrayMeta, EdgeType, FileMeta, NodeType
from aethergraph.testing import oracle

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def write_lists(path: Path, num_nodes: int, indptr: Any, indices: Any, *more: Any) -> None:
    """Write the file of a graph of one type as another program could, with ``(kind, 0, array)``."""
    meta = FileMeta((NodeType("n", num_nodes),), (EdgeType(0, "to", 0, len(indices)),))
    sections = [
        (native.SECTION_META, 0, np.frombuffer(meta.encode(), np.uint8)),
        (native.SECTION_CSC_INDPTR, 0, np.array(indptr, np.uint64)),
        (native.SECTION_CSC_INDICES, 0, indices),
    ]
    write_container(path, [*sections, *more])


# ---- round trips -----------------------------------------------------------------------------


@pytest.mark.parametrize("storage", ["mmap", "memory", "auto"])
def test_a_file_holds_everything(full_graph: Graph, tmp_path: Path, storage: Any) -> None:
    path = tmp_path / "g.aeg"
    full_graph.save(path)
    loaded = Graph.load(path, storage=storage)
    assert_same_graph(loaded, full_graph)
    loaded.verify()
    assert loaded.path == str(path)
    loaded.save(tmp_path / "again.aeg")
    assert (tmp_path / "again.aeg").read_bytes() == path.read_bytes()


@examples(30)
@given(
    edges=edge_lists(),
    layout=st.sampled_from(["csc", "csr", "both"]),
    order=st.booleans(),
    storage=st.sampled_from(["mmap", "memory"]),
)
def test_round_trips(edges: Any, layout: Any, order: bool, storage: Any, tmp_path: Path) -> None:
    graph = Graph.from_edges(*edges, layout=layout, keep_order=order)
    graph.node_attrs["x"] = np.zeros((graph.num_nodes, 3))
    graph.save(tmp_path / "g")
    loaded = Graph.load(tmp_path / "g", storage=storage)
    assert_same_graph(loaded, graph)
    loaded.verify()


def test_names_of_attributes_may_be_any_text(tmp_path: Path) -> None:
    graph = make_graph(10, 20)
    for name in ('with "quotes"', "ünïcode ☃", "a/b\n", " ", "x" * 1000):
        graph.node_attrs[name] = np.arange(10)
    graph.save(tmp_path / "g")
    assert sorted(Graph.load(tmp_path / "g").node_attrs) == sorted(graph.node_attrs)


def test_files_with_wide_ids_are_read(tmp_path: Path) -> None:
    """64-bit ids are for graphs of more than 2^32 - 1 nodes; the format allows them for all."""
    path = tmp_path / "wide.aeg"
    write_lists(path, 3, [0, 1, 2, 2], np.array([2, 0], np.uint64))
    graph = Graph.load(path)
    graph.verify()
    assert graph.csc()[1].dtype == np.uint64
    assert graph.in_neighbors(0).tolist() == [2]
    for disjoint in (False, True):
        found = NeighborSampler(graph, [-1, 2], disjoint=disjoint).sample([0, 1], key=3)
        expected = oracle.sample(*graph.csc(), [0, 1], [-1, 2], 3, disjoint=disjoint)
        assert_same_subgraph(found, expected)
    assert_same_graph(Graph.load(path, storage="memory"), graph)


def test_a_file_with_several_types_is_named_as_such(tmp_path: Path) -> None:
    meta = FileMeta((NodeType("a", 1), NodeType("b", 1)), ())
    data = np.frombuffer(meta.encode(), np.uint8)
    write_container(tmp_path / "h", [(native.SECTION_META, 0, data)])
    with pytest.raises(errors.UnsupportedError, match="2 node types"):
        Graph.load(tmp_path / "h")


def test_paths_of_all_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = make_graph(10, 20)
    monkeypatch.chdir(tmp_path)
    for path in ("plain", b"bytes", Path("ünï ☃"), os.fsdecode(b"\xff\xfe")):
        graph.save(path)
        assert_same_graph(Graph.load(path), graph)
    monkeypatch.chdir("/")
    for bad in ("", "a\0b"):
        with pytest.raises(errors.InvalidArgumentError, match="is not a file name"):
            graph.save(bad)
    for use in (Graph.load, graph.save):
        for other in (3, None):
            with pytest.raises(errors.InvalidArgumentError, match="not a file name"):
                use(other)  # type: ignore[operator]


# ---- storage ---------------------------------------------------------------------------------


def test_auto_takes_what_fits_and_says_so(
    graph: Graph, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "g"
    graph.save(path)
    size = graph.info()["adjacency_bytes"]
    with caplog.at_level(logging.INFO, "aethergraph"):
        assert Graph.load(path, storage="auto").storage == "memory"
        assert Graph.load(path, storage="auto", memory_budget=size).storage == "memory"
        for small in (size - 1, "1K"):
            with pytest.raises(errors.InvalidArgumentError, match=r"18M are.*13\.3 KiB would hold"):
                Graph.load(path, storage="auto", memory_budget=small)
        assert Graph.load(path, storage="auto", memory_budget="1 GiB").storage == "memory"
    assert [re.findall(r"takes (\w+)", message)[0] for message in caplog.messages] == [
        "memory", "memory", "uring", "uring", "memory",
    ]  # fmt: skip
    assert "13.3 KiB" in caplog.messages[0] and "the available memory is" in caplog.messages[0]
    with pytest.raises(errors.InvalidArgumentError, match=r"more than memory_budget = '1K'"):
        Graph.load(path, storage="memory", memory_budget="1K")
    with pytest.raises(errors.InvalidArgumentError, match=r"'1G' goes with storage='uring'"):
        Graph.load(path, memory_budget="1G")
    for bad in ("ram", "", None):
        with pytest.raises(errors.InvalidArgumentError, match="storage"):
            Graph.load(path, storage=bad)  # type: ignore[arg-type]


# ---- lifetimes -------------------------------------------------------------------------------


def mapped_files() -> str:
    return Path("/proc/self/maps").read_text()


def test_views_keep_the_mapping_alive(full_graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "lifetime.aeg"
    full_graph.save(path)
    graph = Graph.load(path)
    views = [*graph.csc(), *graph.csr(), graph.edge_weight, graph.edge_time, graph.node_time]
    views += [graph.edge_order, *(store.array for store in graph.node_attrs.values())]
    store = graph.features
    expected = [np.array(v) for v in views]
    assert store is not None
    rows = store.gather([5, 3])
    graph.close()
    path.unlink()
    del graph
    gc.collect()
    assert "lifetime.aeg" in mapped_files()
    for view, wanted in zip(views, expected, strict=True):
        assert not view.flags.writeable
        with pytest.raises(ValueError, match="WRITEABLE"):
            view.flags.writeable = True
        np.testing.assert_array_equal(view, wanted)
        np.testing.assert_array_equal(view[::2], wanted[::2])
    np.testing.assert_array_equal(store.gather([5, 3]), rows)
    last = views[0][3:]
    del views, view, store
    gc.collect()
    assert "lifetime.aeg" in mapped_files()
    np.testing.assert_array_equal(last, expected[0][3:])
    del last
    gc.collect()
    assert "lifetime.aeg" not in mapped_files()


def test_closing_unmaps_when_nothing_else_is_left(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "closing.aeg"
    graph.save(path)
    with Graph.load(path) as loaded:
        assert "closing.aeg" in mapped_files()
    assert loaded.closed
    assert "closing.aeg" not in mapped_files()
    memory = Graph.load(path, storage="memory")
    memory.close()
    assert "closing.aeg" not in mapped_files()


def test_files_do_not_pile_up(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "g"
    graph.save(path)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        Graph.load(path)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before
    assert "g" not in [line.rsplit("/", 1)[-1] for line in mapped_files().splitlines()]


def test_buffers_return_their_memory() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    before = resident()
    array = native.buffer_alloc(64 << 20)
    array[:] = 1
    part = array[5:10]
    del array
    assert part.tolist() == [1] * 5
    assert resident() - before > 60 << 20
    del part
    assert resident() - before < 30 << 20


# ---- long calls ------------------------------------------------------------------------------


def test_progress_of_saving_loading_and_verifying(full_graph: Graph, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        seen.append((done, total))

    path = tmp_path / "g"
    full_graph.save(path, progress=progress)
    Graph.load(path, storage="memory", progress=progress)
    Graph.load(path).verify(progress)
    assert len(seen) >= 3
    assert all(0 <= done <= total for done, total in seen)
    assert [done for done, total in seen if done == total]


def test_an_exception_in_progress_stops_the_call(tmp_path: Path) -> None:
    def progress(done: int, total: int) -> None:
        raise ZeroDivisionError

    graph = make_graph(10_000, 200_000)
    with pytest.raises(ZeroDivisionError):
        graph.save(tmp_path / "g", progress=progress)


def test_run_task_reports_and_passes_errors_on() -> None:
    seen: list[int] = []

    def slow(task: native.Task) -> str:
        for _ in range(50):
            task.lend(2)
            if len(seen) >= 3:
                break
            time.sleep(0.01)
        return "result"

    found = native.run_task(slow, lambda done, total: seen.append(done), 100, interval=0.02)
    assert found == "result"
    assert seen == sorted(seen) and seen[-1] == 100
    with pytest.raises(ValueError, match="inside"):
        native.run_task(lambda task: int("inside"), None, 1)


def test_ctrl_c_stops_a_long_save(run_python: Callable[..., Any], tmp_path: Path) -> None:
    run_python(
        """
        import _thread, os, signal, sys, threading, time
        import numpy as np
        from aethergraph import FeatureTable
        signal.signal(signal.SIGINT, signal.default_int_handler)
        store = FeatureTable.from_array(np.zeros((1 << 18, 64), np.float32))
        timer = threading.Timer(0.02, lambda: os.kill(os.getpid(), signal.SIGINT))
        try:
            timer.start()
            for _ in range(1000):
                store.save(sys.argv[1])
        except KeyboardInterrupt:
            print("interrupted")
        timer.join()  # it may not have returned from kill yet
        assert threading.active_count() == 1
        """,
        str(tmp_path / "out"),
    )
    assert [n for n in os.listdir(tmp_path) if n.endswith("tmp")] == []


# ---- pickling --------------------------------------------------------------------------------


def test_graphs_in_memory_pickle_by_value(full_graph: Graph) -> None:
    assert_same_graph(pickle.loads(pickle.dumps(full_graph)), full_graph)


@pytest.mark.parametrize("storage", ["mmap", "memory"])
def test_loaded_graphs_pickle_by_path(full_graph: Graph, tmp_path: Path, storage: Any) -> None:
    path = tmp_path / "g"
    full_graph.save(path)
    np.save(tmp_path / "more.npy", np.ones((120, 500)))
    loaded = Graph.load(path, storage=storage)
    loaded.load_features(tmp_path / "more.npy", "more")
    loaded.node_attrs["mine"] = np.arange(120)
    del loaded.node_attrs["y"]
    data = pickle.dumps(loaded)
    assert len(data) < 30_000
    copied = pickle.loads(data)
    assert copied.storage == storage
    assert_same_graph(copied, loaded)
    assert copied.node_attrs["more"].path == str(tmp_path / "more.npy")


def test_a_pickle_knows_its_file(full_graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "g"
    full_graph.save(path)
    loaded = Graph.load(path)
    data, store = pickle.dumps(loaded), pickle.dumps(loaded.features)
    full_graph.save(path)  # the same content: the same file
    assert_same_graph(pickle.loads(data), full_graph)
    assert pickle.loads(store).shape == (120, 8)
    full_graph.features = np.zeros((120, 8), np.float32)
    full_graph.save(path)
    for pickled in (data, store):
        with pytest.raises(errors.FileChangedError, match="not the one that was opened"):
            pickle.loads(pickled)
    path.unlink()
    with pytest.raises(errors.MissingFileError):
        pickle.loads(data)
    closed = Graph.from_edges(1, [], [])
    closed.close()
    with pytest.raises(errors.ClosedError):
        pickle.dumps(closed)


# ---- features of other files -----------------------------------------------------------------


def test_features_are_attached_with_their_rows_checked(graph: Graph, tmp_path: Path) -> None:
    rows, few = np.random.default_rng(0).random((200, 4)), np.zeros((199, 4))
    np.save(tmp_path / "x.npy", rows)
    np.save(tmp_path / "few.npy", few)
    FeatureTable.from_array(np.arange(3000)).save(tmp_path / "e.aef")
    assert graph.load_features(tmp_path / "x.npy") is graph.features
    np.testing.assert_array_equal(graph.features.array, rows)  # type: ignore[union-attr]
    graph.load_edge_features(tmp_path / "e.aef", "id")
    assert graph.edge_attrs["id"].storage == "mmap"
    assert graph.load_features(tmp_path / "x.npy", "z", storage="memory").storage == "memory"
    with pytest.raises(
        errors.InvalidArgumentError, match=r"few\.npy has 199 rows.*num_nodes = 200"
    ):
        graph.load_features(tmp_path / "few.npy")
    with pytest.raises(errors.InvalidArgumentError, match=r"has 200 rows.*num_edges = 3000"):
        graph.load_edge_features(tmp_path / "x.npy")
    np.testing.assert_array_equal(graph.features.array, rows)  # type: ignore[union-attr]


def test_a_file_of_the_other_kind_is_named(graph: Graph, tmp_path: Path) -> None:
    graph.save(tmp_path / "g")
    FeatureTable.from_array([1.0]).save(tmp_path / "f")
    with pytest.raises(errors.FormatError, match=r"feature file, not a graph.*FeatureTable\.load"):
        Graph.load(tmp_path / "f")
    with pytest.raises(errors.FormatError, match=r"graph file, not features.*Graph\.load"):
        FeatureTable.load(tmp_path / "g")
    np.save(tmp_path / "n.npy", np.zeros(3))
    with pytest.raises(errors.FormatError, match="is not an AetherGraph file"):
        Graph.load(tmp_path / "n.npy")


# ---- golden files ----------------------------------------------------------------------------


def golden_graph() -> Graph:
    graph = Graph.from_edges(
        4,
        [0, 1, 2, 2, 3, 0],
        [1, 2, 0, 0, 3, 1],
        edge_weight=np.array([0.5, 1, 1.5, 2, 2.5, 3], np.float32),
        edge_time=[10, 11, 12, 13, 14, 15],
        node_time=[0.25, 0.5, 0.75, 1.0],
        edge_attrs={"edge_attr": np.arange(12, dtype=np.int16).reshape(6, 2)},
        layout="both",
        keep_order=True,
    )
    graph.features = np.arange(8, dtype=np.float16).reshape(4, 2)
    graph.node_attrs["train_mask"] = np.array([True, False, True, True])
    return graph


def golden_features() -> FeatureTable:
    return FeatureTable.from_array(np.array([[1.0, -2.5], [3.14159, 1e-3]], np.float32))


def test_golden_graph_file(tmp_path: Path) -> None:
    """Version 1 files are readable for ever, and are written byte by byte as they were."""
    path = GOLDEN / "graph-v1.aeg"
    loaded = Graph.load(path)
    loaded.verify()
    assert_same_graph(loaded, golden_graph())
    golden_graph().save(tmp_path / "g")
    assert (tmp_path / "g").read_bytes() == path.read_bytes()


def test_golden_feature_file(tmp_path: Path) -> None:
    path = GOLDEN / "features-v1.aeg"
    loaded = FeatureTable.load(path)
    assert loaded.dtype_name == "bfloat16"
    assert loaded.array.tolist() == [[0x3F80, 0xC020], [0x4049, 0x3A83]]
    golden_features().save(tmp_path / "f", "bfloat16")
    assert (tmp_path / "f").read_bytes() == path.read_bytes()


# ---- META ------------------------------------------------------------------------------------


def meta_of(**changes: Any) -> bytes:
    entry = {"dtype": "float32", "name": "x", "of": "node", "shape": [2, 3], "type": 0}
    content = {
        "version": 1,
        "node_types": [{"name": "node", "num_nodes": 2}],
        "edge_types": [{"source": 0, "name": "to", "destination": 0, "num_edges": 1}],
        "arrays": [entry],
    }
    for key, value in changes.items():
        if key in entry:
            entry[key] = value
        else:
            content[key] = value
    return json.dumps(content).encode()


def test_meta_round_trips_and_ignores_unknown_keys() -> None:
    meta = FileMeta.decode(meta_of(future=[1, 2]), "f")
    assert meta.arrays == (ArrayMeta("x", "node", 0, "float32", (2, 3)),)
    assert FileMeta.decode(meta.encode(), "f") == meta


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"null", b"{", b"\xff", b'{"version": true}', b"[" * 100_000,
        meta_of(version=-1), meta_of(arrays=3), meta_of(arrays=[1]), meta_of(name=""),
        meta_of(name=3), meta_of(of="graph"), meta_of(dtype="float31"), meta_of(shape=[]),
        meta_of(shape=[2, -1]), meta_of(shape=[2, 2.0]), meta_of(shape=[2] * 33),
        meta_of(shape=[2**63]), meta_of(type=1), meta_of(type=-1), meta_of(node_types=[{}]),
        meta_of(edge_types=[{"source": 1, "name": "to", "destination": 0, "num_edges": 1}]),
    ],
)  # fmt: skip
def test_meta_that_is_refused(data: bytes) -> None:
    with pytest.raises(errors.FormatError, match=r"^f:"):
        FileMeta.decode(data, "f")


def test_meta_that_names_an_array_twice_is_refused() -> None:
    (entry,) = json.loads(meta_of())["arrays"]
    with pytest.raises(errors.FormatError, match="names an array twice"):
        FileMeta.decode(meta_of(arrays=[entry, {**entry, "shape": [3, 3]}]), "f")
    assert len(FileMeta.decode(meta_of(arrays=[entry, {**entry, "name": "y"}]), "f").arrays) == 2


def test_meta_of_a_newer_version() -> None:
    with pytest.raises(errors.VersionError, match="version 2"):
        FileMeta.decode(meta_of(version=2), "f")


# ---- verifying -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "bad", "message"),
    [
        (native.SECTION_EDGE_WEIGHT, np.float32(np.nan), r"edge_weight\[2\] = nan"),
        (native.SECTION_EDGE_WEIGHT, np.float32(-1), r"edge_weight\[2\] = -1"),
        (native.SECTION_EDGE_WEIGHT, np.float32(np.inf), r"edge_weight\[2\] = inf"),
        (native.SECTION_EDGE_TIME, np.float64(np.nan), r"edge_time\[2\] = nan"),
        (native.SECTION_NODE_TIME, np.float64(np.nan), r"node_time\[2\] = nan"),
    ],
)
def test_verify_names_values_that_no_graph_has(
    tmp_path: Path, kind: int, bad: Any, message: str
) -> None:
    """Files of other writers: right in their checksums, wrong in their numbers."""
    values = np.ones(3, bad.dtype)
    values[2] = bad
    ids = np.array([2, 0, 1], np.uint32)
    write_lists(tmp_path / "g", 3, [0, 1, 2, 3], ids, (kind, 0, values))
    with pytest.raises(errors.CorruptFileError, match=message) as caught:
        Graph.load(tmp_path / "g").verify()
    assert caught.value.position == 2


def test_feature_stores_verify_their_file(full_graph: Graph, tmp_path: Path) -> None:
    full_graph.save(tmp_path / "g")
    full_graph.features.save(tmp_path / "x")
    FeatureTable.from_array(np.ones((2, 2))).verify()
    FeatureTable.load(tmp_path / "x").verify()
    Graph.load(tmp_path / "g").features.verify()
    damage_section(tmp_path / "x", (native.SECTION_ARRAY,), b"\x01")
    with pytest.raises(errors.CorruptFileError, match="checksum"):
        FeatureTable.load(tmp_path / "x").verify()
