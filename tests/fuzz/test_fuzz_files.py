"""Damaged and hostile files: every decoder raises a named error or gives a result; none crashes.

The C decoders have fuzzers of their own (native/fuzz); here the whole path from a file to an
array, a graph or a sample is fed with mutations of good files and with made-up descriptions.
AETHERGRAPH_EXAMPLES=10 tries ten times as many examples.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.damage import damages, fuzz, hostile_headers, npy_with_header

from aethergraph import FeatureTable, Graph, NeighborSampler
from aethergraph import _native as native
from aethergraph.errors import AetherError, InvalidArgumentError
from aethergraph.packing import PackedFeatures, pack
from aethergraph.packing.layout import INDEX_COLUMNS, NAMES
from aethergraph.storage.meta import ArrayMeta, EdgeType, FileMeta, NodeType


def graph_bytes(folder: Path) -> bytes:
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, 40, (2, 300))
    graph = Graph.from_edges(
        40,
        src,
        dst,
        edge_weight=rng.random(300, dtype=np.float32),
        edge_time=rng.integers(0, 1000, 300),
        node_time=rng.integers(0, 1000, 40),
        edge_attrs={"kind": rng.integers(0, 5, 300)},
        layout="both",
        keep_order=True,
    )
    graph.node_attrs["x"] = rng.random((40, 3), dtype=np.float32)
    graph.save(folder / "good.bin")
    return (folder / "good.bin").read_bytes()


def npy_bytes(version: tuple[int, int] = (1, 0)) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.arange(60, dtype=np.float32).reshape(20, 3), version)
    return stream.getvalue()


def feature_bytes(folder: Path) -> bytes:
    FeatureTable.from_array(np.arange(60, dtype=np.float32).reshape(20, 3)).save(folder / "f.bin")
    return (folder / "f.bin").read_bytes()


def use_graph(path: Path) -> None:
    """Open a graph file and read everything that it offers."""
    with Graph.load(path) as graph:
        graph.info()
        n = graph.num_nodes
        if graph.layout in ("csc", "both"):
            graph.in_degrees()
        if n:
            nodes = np.arange(min(n, 8))
            try:
                NeighborSampler(graph, [3, -1]).sample(nodes, key=1)
                NeighborSampler(graph, [2], subgraph_type="induced").sample(nodes, key=1)
                graph.has_edge(0, n - 1)
                graph.in_neighbors(n - 1)
            except InvalidArgumentError:
                raise AssertionError("a good call was refused as a wrong argument") from None
        for store in (*graph.node_attrs.values(), *graph.edge_attrs.values()):
            if store.num_rows:
                store.gather([0, store.num_rows - 1])
        graph.verify()


def use_features(path: Path) -> None:
    with FeatureTable.load(path) as store:
        if store.num_rows:
            store.gather([0, store.num_rows - 1, 0])
            assert store[0:2].shape[1:] == store.shape[1:]


def attempt(path: Path, data: bytes, use: Callable[[Path], None]) -> None:
    """Named errors are what a bad file is for; anything else is a bug."""
    path.write_bytes(data)
    with contextlib.suppress(AetherError):
        use(path)


@fuzz
@given(damage=damages())
def test_damaged_graph_file(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    attempt(tmp_path / "bad.bin", damage(graph_bytes(tmp_path)), use_graph)


@fuzz
@given(damage=damages())
def test_damaged_feature_file(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    attempt(tmp_path / "bad.bin", damage(feature_bytes(tmp_path)), use_features)


@fuzz
@given(damage=damages(), version=st.sampled_from([(1, 0), (2, 0), (3, 0)]))
def test_damaged_npy(
    damage: Callable[[bytes], bytes], version: tuple[int, int], tmp_path: Path
) -> None:
    attempt(tmp_path / "bad.npy", damage(npy_bytes(version)), use_features)


@fuzz
@given(text=hostile_headers())
@example(text=b"{'descr': '<f4', 'fortran_order': False, 'shape': (20, 3)}")
@example(text=b"{'descr': '<f4', 'fortran_order': True, 'shape': (20, 3)}")
@example(text=b"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}")
@example(text=b"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4611686018427387903, 8)}")
def test_hostile_npy_header(text: bytes, tmp_path: Path) -> None:
    attempt(tmp_path / "bad.npy", npy_with_header(text), use_features)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[" * 60000,
        b"-" * 60000 + b"1",
        b"{'descr': " * 9000,
        b"\xff\xfe",
        b"__import__",
    ],
    ids=["empty", "no keys", "brackets", "minuses", "dicts", "not text", "a name"],
)
def test_npy_header_that_is_no_header(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.npy"
    path.write_bytes(npy_with_header(text))
    with pytest.raises(AetherError):
        FeatureTable.load(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 1 << 65) | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["version", "arrays", "node_types", "edge_types", "name", "of", "type", "dtype"]
                + ["shape", "source", "destination", "num_nodes", "num_edges", "other"]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=30,
)
META = {
    "version": 1,
    "node_types": [{"name": "node", "num_nodes": 4}],
    "edge_types": [{"source": 0, "name": "to", "destination": 0, "num_edges": 3}],
    "arrays": [{"name": "x", "of": "node", "type": 0, "dtype": "float32", "shape": [4, 2]}],
}


@fuzz
@given(content=JSON)
def test_meta_from_any_json(content: Any) -> None:
    try:
        FileMeta.decode(json.dumps(content).encode(), "somewhere")
    except AetherError as error:
        assert "somewhere" in str(error)


@fuzz
@given(data=st.binary(max_size=60))
@example(b"[" * 100000)
@example(b'{"a":' * 100000)
def test_meta_from_any_bytes(data: bytes) -> None:
    try:
        FileMeta.decode(data, "somewhere")
    except AetherError as error:
        assert "somewhere" in str(error)


@fuzz
@given(name=st.text(min_size=1), edges=st.integers(0, 2**63 - 1), rows=st.integers(0, 2**40))
def test_meta_round_trip(name: str, edges: int, rows: int) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    meta = FileMeta(
        (NodeType(name, rows), NodeType("b", 0)),
        (EdgeType(0, name, 1, edges),),
        (ArrayMeta(name, "edge", 0, "bfloat16", (edges, 2)),),
    )
    assert FileMeta.decode(meta.encode(), "p") == meta


def write_container(path: Path, meta: bytes, sections: list[tuple[int, int, np.ndarray]]) -> None:
    """A container whose checksums are right, whatever it says."""
    with native.NativeWriter(path, native.CONTENT_GRAPH) as writer:
        for kind, owner, array in [
            (native.SECTION_META, 0, np.frombuffer(meta, np.uint8)),
            *sections,
        ]:
            writer.begin(kind, owner, native.dtype_code(array.dtype))
            writer.append(np.ascontiguousarray(array))
            writer.end()


def replace(content: Any, path: list[Any], value: Any) -> Any:
    if not path:
        return value
    copy = dict(content) if isinstance(content, dict) else list(content)
    copy[path[0]] = replace(content[path[0]], path[1:], value)
    return copy


META_PATHS = [
    ["version"], ["arrays"], ["node_types"], ["edge_types"],
    ["node_types", 0, "num_nodes"], ["edge_types", 0, "num_edges"], ["edge_types", 0, "source"],
    ["edge_types", 0, "destination"], ["arrays", 0, "shape"], ["arrays", 0, "dtype"],
    ["arrays", 0, "of"], ["arrays", 0, "type"], ["arrays", 0, "name"],
]  # fmt: skip


@fuzz
@given(
    place=st.sampled_from(META_PATHS),
    value=JSON | st.sampled_from([0, 1, 3, 5, 2**32, 2**62, [4], [2**62, 8], [4, 0], "int64"]),
)
def test_graph_file_whose_description_lies(place: list[Any], value: Any, tmp_path: Path) -> None:
    """Right checksums, wrong description: sizes that overflow, counts that do not fit."""
    path = tmp_path / "lie.bin"
    write_container(
        path,
        json.dumps(replace(META, place, value)).encode(),
        [
            (native.SECTION_CSC_INDPTR, 0, np.array([0, 1, 2, 3, 3], np.uint64)),
            (native.SECTION_CSC_INDICES, 0, np.array([1, 2, 3], np.uint32)),
            (native.SECTION_ARRAY, 0, np.zeros((4, 2), np.float32)),
        ],
    )
    with contextlib.suppress(AetherError):
        use_graph(path)


@fuzz
@given(
    indptr=st.lists(st.integers(0, 4) | st.integers(0, 2**64 - 1), min_size=5, max_size=5),
    indices=st.lists(st.integers(0, 5) | st.integers(0, 2**32 - 1), min_size=3, max_size=3),
)
@example(indptr=[0, 1, 2, 3, 3], indices=[1, 2, 3])
@example(indptr=[0, 3, 0, 3, 3], indices=[1, 2, 3])
@example(indptr=[0, 2**63, 1, 3, 3], indices=[1, 2, 3])
@example(indptr=[0, 2**64 - 1, 2, 3, 3], indices=[1, 2, 3])
def test_graph_file_whose_lists_lie(indptr: list[int], indices: list[int], tmp_path: Path) -> None:
    """Right checksums, offsets that run backwards or out, ids that do not exist."""
    path = tmp_path / "lie.bin"
    write_container(
        path,
        json.dumps({**META, "arrays": []}).encode(),
        [
            (native.SECTION_CSC_INDPTR, 0, np.array(indptr, np.uint64)),
            (native.SECTION_CSC_INDICES, 0, np.array(indices, np.uint32)),
        ],
    )
    with contextlib.suppress(AetherError):
        use_graph(path)


# ---- packed batches ------------------------------------------------------------------------------

LISTS = [np.arange(8), np.arange(4, 30).repeat(2), np.array([39]), np.arange(8)]
ROWS = np.arange(40 * 32, dtype=np.float32).reshape(40, 32)


def use_packed(path: Path) -> None:
    """Whatever the file says, a gather fills ``out`` and nothing behind it."""
    with PackedFeatures.load(path, features=FeatureTable.from_array(ROWS)) as packed:
        for ids in LISTS:
            guarded = np.full((len(ids) + 8, 32), -1, np.float32)
            with contextlib.suppress(AetherError):
                packed.gather(ids, guarded[: len(ids)])
            assert (guarded[len(ids) :] == -1).all()
        for number in range(packed.num_batches):
            with contextlib.suppress(AetherError):
                packed.batch(number, ids=LISTS[number % len(LISTS)])
        packed.verify()


PAGES = st.integers(0, 20).map(lambda n: 4096 * n)
INDEX_WORDS = st.integers(0, 40) | PAGES | st.integers(0, 2**64)


@fuzz
@given(
    damage=damages(),
    kind=st.sampled_from([native.SECTION_META, *range(100, 100 + len(NAMES))]),
)
def test_packed_file_whose_content_is_damaged(
    damage: Callable[[bytes], bytes], kind: int, tmp_path: Path, rewrite_container: Any
) -> None:
    """Right checksums over damaged sections."""
    pack(LISTS, FeatureTable.from_array(ROWS), tmp_path / "good", hot_budget=512)

    def change(section: native.Section, array: np.ndarray) -> np.ndarray:
        chosen = 100 + section.owner if section.kind == native.SECTION_ARRAY else section.kind
        if chosen != kind:
            return array
        data = damage(array.tobytes())
        size = len(data) // array.itemsize * array.itemsize
        return np.frombuffer(data[:size], array.dtype)

    rewrite_container(tmp_path / "good", tmp_path / "bad", change)
    with contextlib.suppress(AetherError):
        use_packed(tmp_path / "bad")


@fuzz
@given(
    edits=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, INDEX_COLUMNS - 1), INDEX_WORDS),
        min_size=1, max_size=4,
    )
)  # fmt: skip
@example(edits=[(0, 2, 30)])
@example(edits=[(0, 2, 3)])
@example(edits=[(1, 2, 1)])
@example(edits=[(1, 1, 1)])
def test_packed_file_whose_index_lies(
    edits: list[tuple[int, int, int]], tmp_path: Path, rewrite_container: Any
) -> None:
    """Right checksums, other numbers of rows and ids than the batches have."""
    pack(LISTS, FeatureTable.from_array(ROWS), tmp_path / "good", hot_budget=512)

    def change(section: native.Section, array: np.ndarray) -> np.ndarray:
        if section.kind == native.SECTION_ARRAY and NAMES[section.owner] == "index":
            for batch, column, value in edits:
                array.reshape(-1, INDEX_COLUMNS)[batch, column] = value % 2**64
        return array

    rewrite_container(tmp_path / "good", tmp_path / "bad", change)
    with contextlib.suppress(AetherError):
        use_packed(tmp_path / "bad")
