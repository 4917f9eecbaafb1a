"""Vectors that follow a live graph: what is computed again, and that nothing else differs."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from support.disks import small_disk
from support.recording import Interrupt
from support.strategies import examples

from aethergraph import DynamicGraph, DynamicHeteroGraph, FeatureTable, Graph, HeteroGraph
from aethergraph.dynamic import History
from aethergraph.errors import (
    CorruptFileError,
    DiskFullError,
    InvalidArgumentError,
    LayoutError,
    StorageError,
)
from aethergraph.graph.schema import EDGE, NODE, as_typed
from aethergraph.inference import embed
from aethergraph.inference.table import KeptLayers, hash_rows
from aethergraph.loading.batch import Batch, HeteroBatch
from aethergraph.protocols import EdgeType

Rows = NDArray[Any]
COUNT, WIDTH = 30, 3


class ByType(NamedTuple):
    """Batch by the names of types, also of a graph of one type, and the type of its seeds."""

    name: str
    seeds: Rows
    x: dict[str, Rows]
    edges: dict[EdgeType, Rows]
    edge_attrs: Mapping[EdgeType, Mapping[str, Rows]]

    @classmethod
    def of(cls, batch: Batch | HeteroBatch) -> ByType:
        if isinstance(batch, HeteroBatch):
            ((name, seeds),) = batch.seeds.items()
            return cls(name, seeds, batch.x, batch.edge_index, batch.edge_attrs)
        assert batch.x is not None
        edges, values = {EDGE: batch.edge_index}, {EDGE: batch.edge_attrs}
        return cls(NODE, batch.seeds, {NODE: batch.x}, edges, values)

    def sum_up(self, factor: float, weight: str | None = None) -> Rows | None:
        """Return rows of neighbours by weights, and the own row by a factor."""
        kinds = [kind for kind in self.edges if kind[2] == self.name]
        like = next(iter(self.x.values()))
        rows = self.x.get(self.name, np.zeros((len(self.seeds), *like.shape[1:]), like.dtype))
        rows = rows[: len(self.seeds)] * factor
        for kind in kinds:
            if kind[0] in self.x:
                row, col = self.edges[kind]
                values = 1 if weight is None else self.edge_attrs[kind][weight][:, None]
                np.add.at(rows, col, self.x[kind[0]][row] * values)
        return rows if kinds else None


class Weighted:
    """Layer of floats: rows of neighbours by the weights of edges, and the own row.

    Types that no edges can end at have no rows after it.
    """

    def __init__(self, factor: float = 0.5, weight: str = "edge_weight") -> None:
        self.factor, self.weight = factor, weight

    def __call__(self, batch: Batch | HeteroBatch) -> Rows | None:
        return ByType.of(batch).sum_up(self.factor, self.weight)


#: A type without features, and one at which no edges end, whose rows one layer reads.
COUNTS = {"a": COUNT, "bare": 20, "first": 10}
KINDS = [
    ("a", "to", "a"), ("a", "to", "bare"), ("bare", "to", "a"), ("first", "to", "bare"),
    ("bare", "of", "bare"),
]  # fmt: skip


def draw_ids(data: Any, count: int, nodes: int) -> Rows:
    ids = st.lists(st.integers(0, nodes - 1), min_size=count, max_size=count)
    return np.array(data.draw(ids), int)


def methods(part: Any) -> Any:
    """Return nodes or edges of a live graph with the names that methods have in views of types."""
    if not isinstance(part, DynamicGraph):
        return part
    return SimpleNamespace(
        insert=part.insert_edges, delete=part.delete_edges, add=part.add_nodes,
        update=part.update_nodes,
    )  # fmt: skip


def edit(graph: Any, data: Any) -> Any:
    """Make one change of any kind; return the graph, which may have been opened anew."""
    typed = as_typed(graph)
    kind, name = (
        data.draw(st.sampled_from(types)) for types in (typed.edge_types, typed.node_types)
    )
    edges, nodes, counts = methods(typed[kind]), methods(typed[name]), typed.num_nodes
    change = data.draw(st.sampled_from("idnrom" if graph.directory else "idnr"))
    count = data.draw(st.integers(1, 4))
    if change == "i":
        src, dst = (draw_ids(data, count, counts[end]) for end in (kind[0], kind[2]))
        weight = draw_ids(data, count, 10)
        edges.insert(src, dst, weight=weight, **times(typed[kind], weight))
    elif change == "d":
        src, dst, _ = as_typed(graph.snapshot())[kind].edge_list()
        if len(src):
            at = data.draw(st.lists(st.integers(0, len(src) - 1), max_size=count))
            edges.delete(src[at], dst[at])
    elif change == "n":
        rows = {attr: np.full((count, WIDTH), count, np.float32) for attr in typed[name].node_attrs}
        nodes.add(count, **rows)
    elif change == "o":
        path = graph.directory
        graph.close()
        return type(graph).open(path, arena_mb=16)
    elif change == "m":
        graph.merge()
    elif typed[name].node_attrs:
        ids = data.draw(st.lists(st.integers(0, counts[name] - 1), max_size=count, unique=True))
        rows = np.full((len(ids), WIDTH), data.draw(st.integers(0, 3)), np.float32)
        nodes.update(ids, x=rows)
    return graph


def start(graph: Any) -> Any:
    rng, typed = np.random.default_rng(0), as_typed(graph)
    for name, count in typed.num_nodes.items():
        if name != "bare":
            typed[name].node_attrs["x"] = rng.random((count, WIDTH), np.float32)
    for kind in typed.edge_types:
        src, dst = (rng.integers(0, typed.num_nodes[end], 40) for end in (kind[0], kind[2]))
        later = times(typed[kind], rng.integers(0, 9, 40))
        methods(typed[kind]).insert(src, dst, weight=rng.random(40, np.float32), **later)
    return graph


def times(edges: Any, values: Rows) -> dict[str, Rows]:
    """Return the argument that gives edges their times, if the graph keeps any."""
    return {"time": values} if "edge_time" in edges.edge_values else {}


def over_base(folder: Path, is_typed: bool) -> Any:
    rng = np.random.default_rng(1)
    edges = {
        kind: tuple(rng.integers(0, COUNTS[end], 60) for end in (kind[0], kind[2]))
        for kind in KINDS
    }
    weights = {kind: rng.random(60, np.float32) for kind in KINDS}
    path, options = folder / "base.aeg", {"arena_mb": 16, "base": folder / "base.aeg"}
    if is_typed:
        HeteroGraph.from_edges(edges, COUNTS, layout="both", edge_weight=weights).save(path)
        return start(DynamicHeteroGraph.open(folder / "g.aegd", **options))
    src, dst = edges[KINDS[0]]
    Graph.from_edges(COUNT, src, dst, layout="both", edge_weight=weights[KINDS[0]]).save(path)
    return start(DynamicGraph.open(folder / "g.aegd", **options))


def make_live(is_typed: bool, **options: Any) -> Any:
    if is_typed:
        return start(DynamicHeteroGraph(COUNTS, KINDS, 16, **options))
    return start(DynamicGraph(COUNT, 16, **options))


@pytest.mark.parametrize("is_typed", [False, True])
@pytest.mark.parametrize("place", ["memory", "in time", "over a base"])
@given(data=st.data())
@examples(25)
def test_equals_a_run_over_all_nodes_after_any_changes(
    is_typed: bool, place: str, data: Any
) -> None:
    numbers: list[Any] = [None, 2]
    if is_typed:  # relations that a layer does not follow
        numbers.append({kind: draw_ids(data, 1, 3)[0] for kind in KINDS[:4]})
    options: dict[str, Any] = {
        "layers": [Weighted(factor) for factor in range(data.draw(st.integers(1, 3)))],
        "edge_attrs": "edge_weight", "batch_size": data.draw(st.sampled_from([None, 1, 7])),
        "num_neighbors": data.draw(st.sampled_from(numbers)),
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if place == "memory":
            order = data.draw(st.sampled_from(["id", "time"]))
            graph = make_live(is_typed, order=order, edge_weight="float32")
        elif place == "in time":
            options["until"] = 4
            graph = make_live(is_typed, order="time", edge_time="int64", edge_weight="float32")
        else:
            graph = over_base(folder, is_typed)
        for _ in range(data.draw(st.integers(1, 3))):
            for _ in range(data.draw(st.integers(0, 3))):
                graph = edit(graph, data)
            suffix = "" if is_typed else ".npy"
            out, anew = folder / f"h{suffix}", folder / f"all{suffix}"
            embed(out=out, refresh=True, graph=graph, features=None, **options)
            embed(out=anew, force=True, graph=graph, features=None, **options)
            assert_same(read(out), read(anew))
        graph.close()


def read(out: Path) -> dict[str, Rows]:
    """Return an output by type."""
    if out.suffix:
        return {NODE: np.load(out)}
    return {path.stem: np.load(path) for path in sorted(out.glob("*.npy"))}


def assert_same(rows: dict[str, Rows], wanted: dict[str, Rows]) -> None:
    assert rows.keys() == wanted.keys()
    for name in wanted:
        np.testing.assert_array_equal(rows[name], wanted[name], strict=True)


# ---- what is computed ---------------------------------------------------------------------------


class Total:
    """Layer of integers: twice the own row, and the rows of all neighbours."""

    def __init__(self, factor: int = 2) -> None:
        self.fingerprint = f"times {factor}"
        self._factor = factor
        self.nodes = list[int]()  # that it was called for

    def __call__(self, batch: Batch | HeteroBatch) -> Rows | None:
        by_type = ByType.of(batch)
        if by_type.name == NODE:
            self.nodes += by_type.seeds.tolist()
        return by_type.sum_up(self._factor)


class Other(Total):
    """Layer of another name."""


class TypedPath:
    """Live graph of many types that is asked as one of one type, of one that is a path.

    The other one, without features, reads its rows.
    """

    READING = (NODE, "to", "other")

    def __init__(self, graph: DynamicHeteroGraph) -> None:
        self.graph = graph

    def __getattr__(self, name: str) -> Any:
        return getattr(self.graph, name)

    def insert_edge(self, src: int, dst: int) -> None:
        self.graph[EDGE].insert([src], [dst])

    def delete_edge(self, src: int, dst: int) -> None:
        self.graph[EDGE].delete([src], [dst])

    def add_nodes(self, count: int, **attrs: Any) -> Rows:
        return self.graph[NODE].add(count, **attrs)

    def update_nodes(self, ids: Any, **attrs: Any) -> None:
        self.graph[NODE].update(ids, **attrs)


def path_graph(folder: Path, is_typed: bool = False, **options: Any) -> Any:
    """Return 0 -> 1 -> ... -> 9, in a directory."""
    ends = np.arange(9), np.arange(1, 10)
    if is_typed:
        types = {NODE: 10, "other": 12}, [EDGE, TypedPath.READING]
        typed = DynamicHeteroGraph.open(folder / "g.aegd", *types, 16, **options)
        typed[TypedPath.READING].insert(*ends)
        typed[EDGE].insert(*ends)
        typed[NODE].node_attrs["x"] = np.arange(10)[:, None] + 1
        return TypedPath(typed)
    graph = DynamicGraph.open(folder / "g.aegd", 10, 16, **options)
    graph.insert_edges(*ends)
    graph.features = np.arange(10)[:, None] + 1
    return graph


def open_path(folder: Path, is_typed: bool) -> Any:
    """Open the graph that :func:`path_graph` has made."""
    path = folder / "g.aegd"
    if is_typed:
        return TypedPath(DynamicHeteroGraph.open(path, arena_mb=16))
    return DynamicGraph.open(path, arena_mb=16)


class Vectors:
    """Vectors of two layers that are refreshed again and again, and compared with those of all."""

    def __init__(self, folder: Path, is_typed: bool = False) -> None:
        self.folder, self._suffix = folder, "" if is_typed else ".npy"
        self.layers = [Total(), Total()]
        self.remarks, self.stages = list[str](), list[str]()

    @property
    def out(self) -> Path:
        return self.folder / f"h{self._suffix}"

    def run(self, graph: Any, features: Any = None, **options: Any) -> list[list[int]]:
        """Refresh them; return the nodes that the layers were called for."""

        def stages(name: str, unit: str) -> Any:
            self.stages.append(name)
            return lambda done, total: None

        for notes in (self.remarks, self.stages, *(layer.nodes for layer in self.layers)):
            notes.clear()
        embed(
            self.layers, *self._arguments(graph, features), self.out, refresh=True, stages=stages,
            remark=self.remarks.append, **options,
        )  # fmt: skip
        return [list(layer.nodes) for layer in self.layers]

    def _arguments(self, graph: Any, features: Any) -> tuple[Any, Any]:
        if self._suffix or features is None:
            return getattr(graph, "graph", graph), features
        return getattr(graph, "graph", graph), {NODE: features}

    def refresh(self, graph: Any, features: Any = None, **options: Any) -> list[list[int]]:
        """Refresh them, and compare them with those of a run over all nodes."""
        calls = self.run(graph, features, **options)
        assert_same(read(self.out), self.of_all(graph, features))
        return calls

    def of_all(self, graph: Any, features: Any = None) -> dict[str, Rows]:
        """Return the vectors of a run over all nodes."""
        layers, out = [Total(), Total()], self.folder / f"all{self._suffix}"
        embed(layers, *self._arguments(graph, features), out, force=True, restart=True)
        return read(out)


@pytest.mark.parametrize("is_typed", [False, True])
def test_what_may_differ_is_computed_and_nothing_else(is_typed: bool, tmp_path: Path) -> None:
    graph, vectors = path_graph(tmp_path, is_typed), Vectors(tmp_path, is_typed)
    calls = vectors.refresh(graph)
    assert [sorted(nodes[1:]) for nodes in calls] == [list(range(10))] * 2
    assert vectors.remarks == []
    assert vectors.refresh(graph) == [[], []]
    assert vectors.remarks == ["nothing has changed"]
    graph.insert_edge(7, 3)
    assert vectors.refresh(graph) == [[3], [3, 4]]
    if is_typed:
        assert vectors.remarks == ["of 22 nodes the layers compute 1 and 3"]
        assert vectors.stages == [
            f"Layer 1 of 2, {NODE}", f"Layer 2 of 2, {NODE}", "Layer 2 of 2, other"
        ]  # fmt: skip
    else:
        assert vectors.remarks == ["of 10 nodes the layers compute 1 and 2"]
        assert vectors.stages == ["Layer 1 of 2", "Layer 2 of 2"]
    graph.delete_edge(7, 3)
    graph.update_nodes([5], x=[[0]])
    assert vectors.refresh(graph) == [[3, 5, 6], [3, 4, 5, 6, 7]]
    new = graph.add_nodes(2, x=[[3], [4]])
    assert vectors.refresh(graph) == [[10, 11], [10, 11]]
    graph.insert_edge(int(new[1]), 0)
    assert vectors.refresh(graph) == [[0], [0, 1]]
    with graph.transaction():
        graph.insert_edge(0, 9)
        graph.delete_edge(0, 9)
    vectors.refresh(graph)
    files = ["all", "g.aegd", "h"] if is_typed else ["all.npy", "g.aegd", "h.npy", "h.npy.layers"]
    assert sorted(path.name for path in tmp_path.iterdir()) == files
    if is_typed:
        assert sorted(os.listdir(tmp_path / "h")) == [".layers", f"{NODE}.npy", "other.npy"]


def test_readers_of_the_output_keep_the_commit_that_they_have(tmp_path: Path) -> None:
    graph, vectors = path_graph(tmp_path), Vectors(tmp_path)
    vectors.refresh(graph)
    before = np.load(tmp_path / "h.npy", mmap_mode="r")
    rows = before.copy()
    graph.insert_edge(7, 3)
    vectors.refresh(graph)
    np.testing.assert_array_equal(before, rows)
    assert (np.load(tmp_path / "h.npy") != rows).any()


@pytest.mark.parametrize("is_typed", [False, True])
def test_snapshots_are_taken_in_their_order(is_typed: bool, tmp_path: Path) -> None:
    graph, vectors = path_graph(tmp_path, is_typed), Vectors(tmp_path, is_typed)
    first = graph.snapshot()
    graph.insert_edge(7, 3)
    second = graph.snapshot()
    graph.insert_edge(7, 4)
    vectors.refresh(first)
    assert vectors.refresh(second) == [[3], [3, 4]]
    with pytest.raises(InvalidArgumentError, match=(
        r"the graph is at commit \d+, and .*/h(\.npy)? is of commit \d+: give a later snapshot, or "
        "the graph itself; restart=True computes all nodes anew"
    )):  # fmt: skip
        vectors.refresh(first)
    assert vectors.refresh(graph) == [[4], [4, 5]]
    vectors.refresh(first, restart=True)
    assert vectors.refresh(graph) == [[3, 4], [3, 4, 5]]


# ---- features of all kinds ----------------------------------------------------------------------


def test_features_of_an_array_or_a_file_are_compared_by_their_rows(tmp_path: Path) -> None:
    graph, vectors = path_graph(tmp_path), Vectors(tmp_path)
    x = np.arange(10)[:, None] * 3
    vectors.refresh(graph, x)
    x[5] += 1
    assert vectors.refresh(graph, x) == [[5, 6], [5, 6, 7]]
    assert vectors.stages[0] == "Comparing features"
    np.save(tmp_path / "x.npy", x)
    rows = FeatureTable.load(tmp_path / "x.npy")
    assert vectors.refresh(graph, rows) == [[], []]
    x[7] += 1
    np.save(tmp_path / "x.npy", x)
    assert vectors.refresh(graph, FeatureTable.load(tmp_path / "x.npy")) == [[7, 8], [7, 8, 9]]


def test_a_file_that_is_written_to_through_a_mapping(tmp_path: Path) -> None:
    """Its time is that of the first write alone, while pages stay dirty."""
    graph, vectors, path = path_graph(tmp_path), Vectors(tmp_path), tmp_path / "x.npy"
    np.save(path, np.zeros((10, 1), int))
    rows = np.load(path, mmap_mode="r+")
    vectors.refresh(graph, FeatureTable.load(path))
    for node in (1, 7):
        rows[node] = 5
        rows.flush()
        os.utime(path, (1, 1))
        stale = [[node, node + 1], [node, node + 1, node + 2]]
        assert vectors.refresh(graph, FeatureTable.load(path)) == stale


def test_features_that_are_written_to_meanwhile(tmp_path: Path) -> None:
    """Rows that are written to while a call works are computed by the next one."""

    class Writing(Total):
        def __call__(self, batch: Batch) -> Rows:
            if len(vectors.layers[0].nodes) > 1:  # else it is tried
                x[8] = value
            return super().__call__(batch)

    graph, vectors, x = path_graph(tmp_path), Vectors(tmp_path), np.arange(10)[:, None]
    vectors.layers[1] = Writing()
    for value in (50, 60):
        vectors.run(graph, x)
        assert vectors.run(graph, x) == [[8, 9], [8, 9]]
        assert_same(read(vectors.out), vectors.of_all(graph, x))
        x[2] = value


def test_features_of_two_bytes(tmp_path: Path) -> None:
    graph, vectors = path_graph(tmp_path), Vectors(tmp_path)
    bits = (np.arange(10, dtype=np.float32)[:, None].view(np.uint16))[:, 1::2].copy()
    vectors.refresh(graph, FeatureTable.from_array(bits, dtype="bfloat16"))
    bits[5] = bits[8]
    rows = FeatureTable.from_array(bits, dtype="bfloat16")
    assert vectors.refresh(graph, rows) == [[5, 6], [5, 6, 7]]
    assert vectors.refresh(graph, rows) == [[], []]


def test_an_attribute_that_is_assigned_anew(tmp_path: Path) -> None:
    graph, vectors = path_graph(tmp_path), Vectors(tmp_path)
    vectors.refresh(graph)
    rows = np.arange(10)[:, None] + 1
    rows[4] = 7
    graph.features = rows
    assert vectors.refresh(graph) == [[4, 5], [4, 5, 6]]
    graph.update_nodes([4], x=[[8]])
    assert vectors.refresh(graph) == [[4, 5], [4, 5, 6]]
    assert vectors.stages == ["Layer 1 of 2", "Layer 2 of 2"]  # its changes are known


def test_features_of_a_graph_that_does_not_change(tmp_path: Path) -> None:
    x, ends = np.arange(10)[:, None], (np.arange(9), np.arange(1, 10))
    typed = HeteroGraph.from_edges({EDGE: ends}, {NODE: 10}, layout="both")
    for graph in (Graph.from_edges(10, *ends, layout="both"), typed):
        vectors = Vectors(tmp_path, graph.is_typed)
        vectors.refresh(graph, x)
        x[2] += 50
        assert vectors.refresh(graph, x) == [[2, 3], [2, 3, 4]]


@given(rows=hnp.arrays(np.uint8, (5, 11)), at=st.integers(0, 54), value=st.integers(1, 255))
@examples(50)
def test_hashes_of_rows_tell_a_byte(rows: Rows, at: int, value: int) -> None:
    before = hash_rows(rows)
    rows.reshape(-1)[at] ^= value
    assert np.flatnonzero(hash_rows(rows) != before).tolist() == [at // 11]


def test_rows_without_bytes_have_hashes(tmp_path: Path) -> None:
    assert len(hash_rows(np.zeros((3, 0)))) == 3


# ---- other processes, merges --------------------------------------------------------------------


@pytest.mark.parametrize("is_typed", [False, True])
def test_a_graph_that_was_opened_again_is_compared_by_its_log(
    is_typed: bool, tmp_path: Path
) -> None:
    graph, vectors = path_graph(tmp_path, is_typed), Vectors(tmp_path, is_typed)
    for _ in range(9):  # numbers of commits that the next writer does not count
        with suppress(KeyError), graph.transaction():
            graph.insert_edge(8, 1)
            raise KeyError
    graph.insert_edge(8, 1)
    vectors.refresh(graph)
    graph.insert_edge(7, 3)
    graph.update_nodes([5], x=[[0]])
    graph.close()
    graph = open_path(tmp_path, is_typed)
    assert vectors.refresh(graph) == [[3, 5, 6], [3, 4, 5, 6, 7]]
    graph.close()
    graph = open_path(tmp_path, is_typed)
    assert vectors.refresh(graph) == [[], []]
    graph.delete_edge(7, 3)
    reader = (DynamicHeteroGraph if is_typed else DynamicGraph).attach(tmp_path / "g.aegd")
    assert vectors.refresh(reader) == [[3], [3, 4]]


@pytest.mark.parametrize("is_typed", [False, True])
def test_commits_of_a_log_that_others_write(is_typed: bool, tmp_path: Path) -> None:
    """A history knows the changes since it began; another history reads them in the log."""
    graph, vectors = path_graph(tmp_path, is_typed), Vectors(tmp_path, is_typed)
    for source in (7, 8):
        with History(tmp_path / "g.aegd", 16) as history:
            vectors.refresh(history.last())
            graph.insert_edge(source, 3)
            graph.update_nodes([5], x=[[-source]])
            graph.flush()
            assert vectors.refresh(history.last()) == [[3, 5, 6], [3, 4, 5, 6, 7]]
            assert "Comparing features" not in vectors.stages
            graph.update_nodes([5], x=[[9]])
            graph.flush()
            assert vectors.refresh(history.last()) == [[5, 6], [5, 6, 7]]
        graph.insert_edge(source, 1)
        graph.flush()
        with History(tmp_path / "g.aegd", 16) as history:
            assert vectors.refresh(history.last()) == [[1], [1, 2]]


@pytest.mark.parametrize("is_typed", [False, True])
def test_merges(is_typed: bool, tmp_path: Path) -> None:
    """Right behind one nothing is unknown; what came before it is in no log."""
    graph, vectors = path_graph(tmp_path, is_typed), Vectors(tmp_path, is_typed)
    vectors.refresh(graph)
    graph.merge()
    assert vectors.refresh(graph) == [[], []]
    graph.insert_edge(7, 3)
    assert vectors.refresh(graph) == [[3], [3, 4]]
    graph.insert_edge(7, 4)
    graph.merge()
    vectors.refresh(graph)
    text = "all nodes are computed: a merge gave up the log of what has changed"
    assert vectors.remarks == [text]
    graph.insert_edge(7, 5)
    graph.close()
    graph = open_path(tmp_path, is_typed)
    assert vectors.refresh(graph) == [[5], [5, 6]]
    graph.insert_edge(7, 6)
    graph.merge()
    graph.close()
    graph = open_path(tmp_path, is_typed)
    vectors.refresh(graph)
    assert vectors.remarks == [text]


def test_copies_and_earlier_states_of_a_directory_are_told_by_their_log(tmp_path: Path) -> None:
    """Though what they have written since has the numbers that the other one's commits have."""
    graph, vectors = path_graph(tmp_path), Vectors(tmp_path)
    vectors.refresh(graph)
    graph.close()
    shutil.copytree(tmp_path / "g.aegd", tmp_path / "copy")
    graph = DynamicGraph.open(tmp_path / "g.aegd", arena_mb=16)
    graph.insert_edge(7, 3)
    assert vectors.refresh(graph) == [[3], [3, 4]]
    copy = DynamicGraph.open(tmp_path / "copy", arena_mb=16)
    copy.insert_edge(8, 5)
    assert copy.lsn == graph.lsn
    text = (
        f"all nodes are computed: commit {graph.lsn} of the graph is not the one that "
        f"{tmp_path}/h.npy is of, as in a copy of its directory, an earlier backup, or after its "
        "log was cut"
    )
    vectors.refresh(copy)
    assert vectors.remarks == [text]
    for each in (copy, graph):
        each.merge()
        each.insert_edge(2, 6)
    vectors.refresh(graph)
    assert vectors.remarks == [text]
    copy.close()
    with History(tmp_path / "copy", 16) as history:
        vectors.refresh(history.last())
        assert "is not the one that" in vectors.remarks[0]
        assert vectors.refresh(history.last()) == [[], []]


def test_the_commit_of_a_merge_is_known_where_its_log_is_gone(tmp_path: Path) -> None:
    graph, vectors = path_graph(tmp_path), Vectors(tmp_path)
    vectors.refresh(graph)
    for target in (3, 4):
        graph.merge()
        graph.merge()
        graph.close()
        graph = DynamicGraph.open(tmp_path / "g.aegd", arena_mb=16)
        graph.insert_edge(7, target)
        assert vectors.refresh(graph) == [[target], [target, target + 1]]


# ---- refused ------------------------------------------------------------------------------------


@pytest.mark.own_share
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": [Total(), Total(3)]},
         r"layers\[1\] \(Total\): its weights, options or code differ\. "),
        ({"layers": [Total()]}, "there were 2 layers and are 1"),
        ({"layers": [Total(), Other()]}, r"layers\[1\] was Total and is Other\. "),
        ({"num_neighbors": 3}, "num_neighbors was "),
        ({"seed": 1}, "seed was 0 and is 1"),
        ({"dtype": "float32"}, "dtype was 'None' and is 'float32'"),
        ({"features": np.zeros((10, 2), int)},
         r"features was 'int64\[1\]' and is 'int64\[2\]"),
        ({"graph": DynamicGraph(10, 16, edge_weight="float32")}, r"another graph\. "),
    ],
)  # fmt: skip
def test_layers_of_something_else_are_named(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    arguments: dict[str, Any] = {
        "layers": [Total(), Total()], "graph": path_graph(tmp_path),
        "features": np.zeros((10, 1), np.int64), "out": tmp_path / "h.npy", "refresh": True,
    }  # fmt: skip
    embed(**arguments)
    with pytest.raises(InvalidArgumentError, match=f"made of something else: .*{message}") as error:
        embed(**{**arguments, **changes})
    assert "restart=True computes all nodes anew" in str(error.value)
    embed(**{**arguments, **changes}, restart=True)


def test_attributes_of_edges_that_differ_are_named(tmp_path: Path) -> None:
    def call(*names: str, **attrs: Any) -> None:
        graph = Graph.from_edges(2, [0], [1], layout="both", edge_attrs=attrs)
        embed([Total()], graph, np.ones((2, 1)), tmp_path / "h.npy", refresh=True, edge_attrs=names)

    call("a", a=np.ones(1), b=np.ones(1))
    with pytest.raises(InvalidArgumentError, match="else: attribute 'a' of edges differs"):
        call("a", a=np.zeros(1), b=np.ones(1))
    with pytest.raises(InvalidArgumentError, match="attributes of edges were a and are a, b"):
        call("a", "b", a=np.ones(1), b=np.ones(1))


def test_a_file_of_the_graph_that_was_written_again(tmp_path: Path) -> None:
    vectors, x = Vectors(tmp_path), np.arange(10)[:, None]
    for dst in (3, 4):
        Graph.from_edges(10, [0], [dst], layout="both").save(tmp_path / "g.aeg")
        graph = Graph.load(tmp_path / "g.aeg")
        if dst == 4:
            with pytest.raises(
                InvalidArgumentError, match=r"graph file .*g\.aeg was written again since"
            ):
                vectors.refresh(graph, x)
        vectors.refresh(graph, x, restart=dst == 4)


def test_a_record_that_cannot_be_read(tmp_path: Path) -> None:
    graph, vectors = path_graph(tmp_path), Vectors(tmp_path)
    vectors.refresh(graph)
    (tmp_path / "h.npy.layers/manifest.json").write_text("{")
    message = "its manifest cannot be read .* restart=True begins anew, with force=True if there"
    with pytest.raises(InvalidArgumentError, match=message):
        vectors.refresh(graph)
    vectors.refresh(graph, restart=True, force=True)
    assert vectors.refresh(graph) == [[], []]


@pytest.mark.parametrize("is_typed", [False, True])
def test_out_edges_are_needed_to_follow_what_has_changed(is_typed: bool, tmp_path: Path) -> None:
    graph, vectors = path_graph(tmp_path, is_typed, layout="csc"), Vectors(tmp_path, is_typed)
    vectors.refresh(graph)
    assert vectors.refresh(graph) == [[], []]
    graph.insert_edge(7, 3)
    named = r"graph\[\('_N', '_E', '_N'\)\]" if is_typed else "graph"
    message = f"^{named} stores in-edges alone .*: make the graph with layout='both', or restart"
    with pytest.raises(LayoutError, match=message):
        vectors.refresh(graph)
    vectors.refresh(graph, restart=True)


def test_an_output_of_somebody_else_is_not_replaced(tmp_path: Path) -> None:
    graph, vectors = path_graph(tmp_path), Vectors(tmp_path)
    vectors.refresh(graph)
    np.save(tmp_path / "h.npy", np.zeros(3))
    text = r"h\.npy: was written to since its vectors were computed; force=True overwrites it"
    with pytest.raises(StorageError, match=text):
        vectors.refresh(graph)
    with pytest.raises(StorageError, match="computed; restart=True, force=True overwrites it"):
        vectors.refresh(graph, restart=True)
    vectors.layers[0].fingerprint = "of other weights"
    with pytest.raises(StorageError, match=r"else: .* differ; restart=True, force=True overwrites"):
        vectors.refresh(graph)
    with pytest.raises(InvalidArgumentError, match=r"differ\. restart=True, force=True computes"):
        vectors.refresh(graph, force=True)
    vectors.layers[0].fingerprint = Total().fingerprint
    assert len(np.load(tmp_path / "h.npy")) == 3
    vectors.refresh(graph, force=True)
    assert vectors.remarks == [f"all nodes are computed: {tmp_path}/h.npy was written to since"]
    (tmp_path / "h.npy").unlink()
    vectors.refresh(graph)
    assert vectors.remarks == [f"all nodes are computed: {tmp_path}/h.npy is gone"]
    (tmp_path / "h.npy.layers/manifest.json").unlink()
    with pytest.raises(
        StorageError, match=r"exists already, and .* has no record of its layers; f"
    ):
        vectors.refresh(graph)
    vectors.refresh(graph, force=True)


def test_outputs_of_types_that_are_gone_or_of_somebody_else(tmp_path: Path) -> None:
    graph, vectors, out = path_graph(tmp_path, True), Vectors(tmp_path, True), tmp_path / "h"
    vectors.refresh(graph)
    (out / "other.npy").unlink()
    vectors.refresh(graph)
    assert vectors.remarks == [f"all nodes are computed: {out}/other.npy is gone"]
    np.save(out / "other.npy", np.zeros(3))
    with pytest.raises(StorageError, match=r"h/other\.npy: was written to since .*; force=True"):
        vectors.refresh(graph)
    vectors.refresh(graph, force=True)
    with pytest.raises(InvalidArgumentError, match=(
        r"h was made of something else: features\.other was None and is 'int64\[1\]'\. restart=True"
    )):  # fmt: skip
        features = {NODE: np.zeros((10, 1), int), "other": np.zeros((12, 1), int)}
        embed(vectors.layers, graph.graph, features, out, refresh=True)


def test_types_whose_rows_nobody_reads_or_that_have_none(tmp_path: Path) -> None:
    """Rows of features that changed without an effect, and back, had one on what came between."""

    def check(features: Any = None) -> None:
        for out, options in (("h", {"refresh": True}), ("all", {"force": True})):
            embed([Total(), Total()], graph, features, tmp_path / out, **options)
        assert_same(read(tmp_path / "h"), read(tmp_path / "all"))

    x, kinds = np.zeros((3, 1), int), [("first", "to", "last"), ("last", "to", "last")]
    graph = DynamicHeteroGraph({"first": 3, "last": 3}, kinds, 16)
    for name in ("first", "last"):
        graph[name].node_attrs["x"] = x
    check()
    graph["first"].update([1], x=[[1]])
    check()
    graph[kinds[0]].insert([1], [2])
    check()
    check({"first": x, "last": x})
    assert read(tmp_path / "h").keys() == {"last"}


def test_a_graph_without_nodes_gets_some(tmp_path: Path) -> None:
    graph, vectors = DynamicGraph(0, 16), Vectors(tmp_path)
    vectors.refresh(graph, np.zeros((0, 1)))
    vectors.refresh(graph, np.zeros((0, 1)))
    graph.add_nodes(3)
    graph.insert_edge(0, 1)
    assert vectors.refresh(graph, np.ones((3, 1))) == [[0, 1, 2], [0, 1, 2]]


def test_two_at_once(tmp_path: Path) -> None:
    def layer(batch: Batch) -> Rows:
        embed([Total()], graph, x, tmp_path / "h.npy", refresh=True)
        raise AssertionError

    graph, x = Graph.from_edges(2, [0], [1]), np.zeros((2, 1))
    with pytest.raises(InvalidArgumentError, match=r"another build of .*h\.npy is running"):
        embed([layer], graph, x, tmp_path / "h.npy", refresh=True)


def test_a_process_that_has_not_signed_its_lock_yet(tmp_path: Path) -> None:
    folder = tmp_path / "h.npy.layers"
    folder.mkdir()
    with open(folder / "lock", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InvalidArgumentError, match=r"h\.npy is running: wait for it, or end"):
            Vectors(tmp_path).run(path_graph(tmp_path))


def test_a_layer_file_that_is_damaged(tmp_path: Path) -> None:
    graph, vectors = path_graph(tmp_path), Vectors(tmp_path)
    path = tmp_path / "h.npy.layers/layer-0.npy"
    for number, (damage, message) in enumerate(
        (
            (lambda: path.unlink(), "is missing"),
            (lambda: os.truncate(path, 150), "has not the 10 rows that were recorded"),
            (lambda: path.write_bytes(bytes(500)), "has not the 10 rows that were recorded"),
        )
    ):
        vectors.refresh(graph)
        graph.insert_edge(7, number)
        damage()
        with pytest.raises(CorruptFileError, match=f"{message}.*restart=True"):
            vectors.refresh(graph)
        vectors.refresh(graph, restart=True)
    (tmp_path / "h.npy.layers/features.npy").unlink()
    with pytest.raises(CorruptFileError, match=r"features\.npy: cannot be read .*restart=True"):
        vectors.refresh(graph, np.zeros((10, 1), int))


# ---- killed -------------------------------------------------------------------------------------


class Ended:
    """Ends the process, as it were, at one of the coming changes of files."""

    CALLS = ("pwrite", "fsync", "replace", "unlink", "copy_file_range")

    def __init__(self, patch: pytest.MonkeyPatch, left: int) -> None:
        self.left = left
        for name in self.CALLS:
            patch.setattr(os, name, self._counting(getattr(os, name)))

    def _counting(self, function: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left <= 0:
                raise Interrupt  # and no file is changed any more
            return function(*arguments, **options)

        return call


@pytest.mark.parametrize("is_typed", [False, True])
def test_goes_on_wherever_a_refresh_was_ended(
    is_typed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists and rows that changed, and changed back before the next call, count as well."""
    graph, vectors = path_graph(tmp_path, is_typed), Vectors(tmp_path, is_typed)
    x = np.arange(10)[:, None]
    del as_typed(getattr(graph, "graph", graph))[NODE].node_attrs["x"]
    vectors.refresh(graph, x)
    for left in range(1, 100):
        before = read(vectors.out)
        rows = x.copy()
        rows[2] = 99
        with graph.transaction():
            graph.insert_edge(7, 3)
            new = graph.add_nodes(1)
            graph.insert_edge(int(new[0]), 0)
        x, rows = (np.concatenate((part, [[left]])) for part in (x, rows))
        snapshot = graph.snapshot()
        with monkeypatch.context() as patch:
            Ended(patch, left)
            try:
                vectors.run(snapshot, rows)
            except Interrupt:
                is_over = False
            else:
                is_over = True
        gc.collect()  # of locks
        if not is_over:
            assert_one_of(read(vectors.out), before, vectors.of_all(snapshot, rows))
        graph.delete_edge(7, 3)
        if not is_over:
            with monkeypatch.context() as patch, suppress(Interrupt):  # again, and sooner
                Ended(patch, left // 2)
                vectors.run(graph, x)
            gc.collect()
        vectors.refresh(graph, x)
        assert is_over or not any("all nodes" in text for text in vectors.remarks)
        if is_over:
            break
    assert left > 20


def test_an_earlier_commit_than_a_killed_refresh_went_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, vectors = path_graph(tmp_path), Vectors(tmp_path)
    vectors.refresh(graph)
    between = graph.snapshot()
    graph.insert_edge(7, 3)
    with monkeypatch.context() as patch:
        patch.setattr(KeptLayers, "intend_outputs", lambda self, path: Ended(patch, 1))
        with pytest.raises(Interrupt):
            vectors.refresh(graph)
    with pytest.raises(InvalidArgumentError, match="give a later snapshot"):
        vectors.refresh(between)
    assert vectors.refresh(graph) == [[3], [3, 4]]


def assert_one_of(rows: dict[str, Rows], *commits: dict[str, Rows]) -> None:
    """Raise unless the rows of each type are those of one of two commits."""
    for name, of_type in rows.items():
        assert any(np.array_equal(of_type, commit[name]) for commit in commits)


@pytest.mark.parametrize("is_typed", [False, True])
@pytest.mark.parametrize("left", [1, 3])
def test_goes_on_wherever_a_run_over_all_nodes_was_ended(
    left: int, is_typed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted run begins anew, and says so, if the graph has changed since."""
    graph, vectors = path_graph(tmp_path, is_typed), Vectors(tmp_path, is_typed)
    ends, remarks = list[int](), list[str]()
    for has_changed in (False, True):
        for number in range(left, 100, 4):
            with monkeypatch.context() as patch:
                Ended(patch, number)
                try:
                    vectors.run(graph, restart=bool(ends))
                except Interrupt:
                    pass
                else:
                    ends.append(number)
                    break
            gc.collect()  # of locks
            if has_changed:
                graph.insert_edge(0, 3 + number % 5)
                graph.delete_edge(0, 3 + (number + 1) % 5)
            vectors.refresh(graph)
            remarks += vectors.remarks
            for path in vectors.out.glob("*.npy") if is_typed else [vectors.out]:
                path.unlink()
            folder = vectors.out / ".layers" if is_typed else tmp_path / "h.npy.layers"
            (folder / "manifest.json").unlink()
    assert min(ends) > 10
    assert any(text.startswith("going on at") for text in remarks)
    text = "a run over all nodes was interrupted, and the graph or the features have changed"
    assert any(remark.startswith(text) for remark in remarks)


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """The error names the file; the output stays, and with room the same call goes on."""
    graph, vectors = path_graph(tmp_path), Vectors(tmp_path)
    x = np.zeros((10, 5000), int)
    with small_disk(tmp_path / "disk", "3M") as vectors.folder:
        vectors.refresh(graph, x)
        graph.insert_edge(7, 3)
        before = np.load(vectors.folder / "h.npy")
        (vectors.folder / "all.npy").write_bytes(bytes(2_000_000))
        with pytest.raises(DiskFullError, match=r"h\.npy\.layers/output\.npy"):
            vectors.run(graph, x)
        np.testing.assert_array_equal(np.load(vectors.folder / "h.npy"), before)
        (vectors.folder / "all.npy").unlink()
        assert vectors.refresh(graph, x) == [[3], [3, 4]]


KILLED = """
    import os, signal, sys
    import numpy as np
    from aethergraph import DynamicGraph, DynamicHeteroGraph
    from aethergraph.inference import embed
    folder, left, is_typed = sys.argv[1], [int(sys.argv[2])], sys.argv[3] == "True"

    def counting(function):
        def call(*arguments, **options):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)
        return call

    for name in ("pwrite", "fsync", "replace", "unlink", "copy_file_range"):
        setattr(os, name, counting(getattr(os, name)))

    class Total:
        fingerprint = "times 2"
        def __call__(self, batch):
            count, edges, x = batch.batch_size, batch.edge_index, batch.x
            if not is_typed:
                x, edges, own = {"_N": x}, {("_N", "_E", "_N"): edges}, "_N"
            else:
                (own,) = batch.seeds
            rows = x[own][:count] * 2 if own in x else np.zeros((count, 1), np.int64)
            for kind, (row, col) in edges.items():
                if kind[2] == own:
                    np.add.at(rows, col, x[kind[0]][row])
            return rows

    Total.__qualname__ = "Total"
    graph = (DynamicHeteroGraph if is_typed else DynamicGraph).attach(folder + "/g.aegd")
    out = folder + ("/h" if is_typed else "/h.npy")
    embed([Total(), Total()], graph, None, out, refresh=True)
"""


@pytest.mark.forks
@pytest.mark.parametrize(
    ("is_typed", "counts"), [(False, (1, 8, 14, 20, 90)), (True, (1, 8, 14, 26, 27, 90))]
)
def test_killed_processes(is_typed: bool, counts: tuple[int, ...], tmp_path: Path) -> None:
    """The output is that of the commit before or of the present one; the next call goes on."""
    graph, vectors = path_graph(tmp_path, is_typed), Vectors(tmp_path, is_typed)
    killed = 0
    vectors.refresh(graph)
    for left in counts:
        graph.insert_edge(left % 10, 3)
        graph.update_nodes([5], x=[[left]])
        before = read(vectors.out)
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(KILLED), tmp_path, str(left), str(is_typed)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        killed += done.returncode != 0
        assert_one_of(read(vectors.out), before, vectors.of_all(graph))
        graph.update_nodes([5], x=[[6]])
        vectors.refresh(graph)
        count = 22 if is_typed else 10
        assert vectors.remarks[0].startswith(f"of {count} nodes the layers compute")
    assert killed == len(counts) - 1
