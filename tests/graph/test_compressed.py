"""Compressed neighbours: the same graph and the same samples, files that cannot be trusted."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.containers import damage_section, section_of, write_container
from support.graphs import make_graph
from support.strategies import (
    Ids,
    assert_same_graph,
    assert_same_subgraph,
    edge_lists,
    examples,
)

from aethergraph import (
    Graph,
    HeteroGraph,
    NeighborSampler,
    errors,
)
from aethergraph import _native as native
from aethergraph._native.blocks import BLOCK, GROUP, index_words

pytestmark = pytest.mark.any_python

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
keys = st.integers(0, 2**64 - 1)
storages = st.sampled_from(["mmap", "memory", "uring"])
layouts = st.sampled_from(["csc", "csr", "both"])
times = st.sampled_from([None, "edge_time", "node_time"])


def compressed(graph: Any, path: Path, storage: Any = "mmap") -> Any:
    """The graph, saved compressed and loaded."""
    graph.save(path, compress=True)
    return type(graph).load(path, storage=storage)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "g.aeg"


def local_edges(num_nodes: int, count: int, seed: int, far: float) -> tuple[Ids, Ids]:
    """Most sources near their destinations, some anywhere: blocks of several widths."""
    rng = np.random.default_rng(seed)
    dst = rng.integers(0, num_nodes, count)
    src = (dst + rng.integers(0, 40, count)) % num_nodes
    jump = rng.random(count) < far
    src[jump] = rng.integers(0, num_nodes, int(jump.sum()))
    return src, dst


# ---- the format, decoded by its description --------------------------------------------------


def decode_block(data: bytes, count: int, width: int) -> list[int]:
    """A block as native/FORMAT.md describes it, bit by bit."""

    def unzigzag(value: int) -> int:
        return value // 2 if value % 2 == 0 else -(value + 1) // 2

    kind, class_bits = data[0] & 3, data[0] >> 2 & 3
    assert data[0] < 16
    at = 1 + width
    base = int.from_bytes(data[1:at], "little")
    widths = list(data[at : at + 2**class_bits])
    at += 2**class_bits
    planes = [
        int.from_bytes(data[at + 16 * c : at + 16 * c + 16], "little") for c in range(class_bits)
    ]
    at += 16 * class_bits
    anchors = [0, 0, 0]
    if kind == 2:
        a = data[at]
        anchors = [int.from_bytes(data[at + 1 + a * i :][:a], "little") for i in range(3)]
        at += 1 + 3 * a
    bits = int.from_bytes(data[at:], "little")
    ids: list[int] = []
    for i in range(count):
        own = widths[sum((plane >> i & 1) << c for c, plane in enumerate(planes))]
        value = bits & ((1 << own) - 1)
        bits >>= own
        if kind == 0:
            ids.append(base + value)
        elif kind == 1:
            ids.append(base + unzigzag(value))
        elif i % 32 == 0:
            assert value == 0
            ids.append(base + (unzigzag(anchors[i // 32 - 1]) if i else 0))
        else:
            ids.append(ids[-1] + unzigzag(value))
    assert bits == 0
    return [one % 2**64 for one in ids]


def decode_all(blocks: bytes, index: NDArray[np.uint64], count: int, width: int) -> list[int]:
    ids: list[int] = []
    groups = index.reshape(-1, 5)
    assert int(groups[-1, 0]) == len(blocks)
    assert (groups[-1, 1:] == 0).all()
    starts = [int(g[0]) + int(o) for g in groups[:-1] for o in g[1:].view(np.uint16)]
    starts.append(len(blocks))
    for number in range(-(-count // BLOCK)):
        data = blocks[starts[number] : starts[number + 1]]
        ids += decode_block(data, min(BLOCK, count - number * BLOCK), width)
    return ids


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
@pytest.mark.parametrize("kind", ["random", "near", "sorted", "small", "far", "one"])
@pytest.mark.parametrize("count", [0, 1, 127, 128, 2049])
def test_blocks_are_what_the_format_says(count: int, kind: str, dtype: Any) -> None:
    rng = np.random.default_rng(count)
    top = 2**32 - 1 if dtype == np.uint32 else 2**63 - 2
    ids = {
        "random": rng.integers(0, top, count),
        "near": top // 2 + rng.integers(0, 50, count),
        "sorted": np.sort(rng.integers(0, 100 * count + 1, count)),
        "small": (10 ** (rng.random(count) * 9)).astype(np.int64),
        "far": np.where(rng.random(count) < 0.05, rng.integers(0, top, count), 5000),
        "one": np.full(count, top),
    }[kind].astype(dtype)
    encoder = native.BlockEncoder()
    pieces = [encoder.encode(ids[:2048]), encoder.encode(ids[2048:])]
    index = encoder.index()
    assert len(index) == index_words(count)
    found = decode_all(b"".join(p.tobytes() for p in pieces), index, count, ids.itemsize)
    assert found == ids.tolist()


# ---- the same graph --------------------------------------------------------------------------


@examples(40)
@given(
    edges=edge_lists(max_edges=700),
    layout=st.sampled_from(["csc", "csr", "both"]),
    storage=storages,
)
def test_the_graph_comes_back(
    tmp_path_factory: Any, edges: tuple[int, Ids, Ids], layout: Any, storage: Any
) -> None:
    num_nodes, src, dst = edges
    graph = Graph.from_edges(num_nodes, src, dst, layout=layout, keep_order=True)
    folder = tmp_path_factory.mktemp("g")
    found = compressed(graph, folder / "g", storage)
    assert_same_graph(found, graph)
    assert found.compressed
    assert not graph.compressed
    found.verify()
    for node in range(num_nodes):
        if layout != "csr":
            np.testing.assert_array_equal(found.in_neighbors(node), graph.in_neighbors(node))
        if layout != "csc":
            np.testing.assert_array_equal(found.neighbors(node), graph.neighbors(node))
            np.testing.assert_array_equal(found.out_edges(node), graph.out_edges(node))
    pairs = (src[:20], np.roll(dst, 1)[:20])
    np.testing.assert_array_equal(found.has_edges(*pairs), graph.has_edges(*pairs))
    np.testing.assert_array_equal(found.edge_index(), graph.edge_index())
    shutil.rmtree(folder)


@pytest.mark.parametrize("storage", ["mmap", "memory", "uring"])
def test_saving_again_keeps_it_or_changes_it(full_graph: Graph, path: Path, storage: Any) -> None:
    found = compressed(full_graph, path, storage)
    found.save(path.with_name("again"))
    assert path.read_bytes() == path.with_name("again").read_bytes()
    full_graph.save(path.with_name("plain"))
    found.save(path.with_name("plain again"), compress=False)
    assert path.with_name("plain").read_bytes() == path.with_name("plain again").read_bytes()
    found.save(path)  # over the file that it maps
    assert_same_graph(Graph.load(path), full_graph)


def test_many_pieces_are_saved(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from aethergraph.graph import sections, verify

    monkeypatch.setattr(sections, "_PIECE", 4096)
    monkeypatch.setattr(verify, "_CHUNK", 4096)
    src, dst = local_edges(3000, 30_000, 1, 0.1)
    graph = Graph.from_edges(3000, src, dst, layout="both")
    found = compressed(graph, path)
    assert_same_graph(found, graph)
    found.verify()
    found.save(path.with_name("plain"), compress=False)
    assert_same_graph(Graph.load(path.with_name("plain")), graph)
    calls: list[tuple[int, int]] = []
    graph.save(path, compress=True, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1][0] == calls[-1][1]
    assert all(0 <= done <= total for done, total in calls)


def test_it_is_smaller_and_says_so(path: Path) -> None:
    src, dst = local_edges(40_000, 200_000, 1, 0.02)
    graph = Graph.from_edges(40_000, src, dst)
    found = compressed(graph, path, "memory")
    ids = graph.num_edges * 4
    saved = graph.info()["adjacency_bytes"] - found.info()["adjacency_bytes"]
    assert 0.6 * ids < saved < ids
    assert found.info()["compressed"]
    assert found.info()["id_dtype"] == "uint32"
    assert not graph.info()["compressed"]


def test_long_sorted_lists_are_smaller_still(path: Path) -> None:
    src, dst = local_edges(2000, 200_000, 1, 1.0)
    sizes = []
    for sort in (False, True):
        graph = Graph.from_edges(2000, src, dst, sort_neighbors=sort)
        sizes.append(compressed(graph, path).info()["adjacency_bytes"])
    assert sizes[1] < 0.8 * sizes[0] < 0.4 * graph.info()["adjacency_bytes"]


def test_edge_ends(path: Path) -> None:
    graph = make_graph(layout="both")
    src, dst = graph.edge_index()
    some = np.random.default_rng(0).integers(0, graph.num_edges, 500)
    for one in (graph, compressed(graph, path), compressed(make_graph(layout="csr"), path)):
        src, dst = one.edge_index()
        found = one.edge_ends(some)
        assert found[0].dtype == found[1].dtype == np.int64
        np.testing.assert_array_equal(found[0], src[some])
        np.testing.assert_array_equal(found[1], dst[some])
        with pytest.raises(errors.OutOfRangeError, match=r"edges\[1\] = 3000"):
            one.edge_ends([0, 3000])


# ---- the same samples: typed ones and walks in sampling/test_golden_samples.py ---------------


@examples(60)
@given(
    seed=st.integers(0, 2**32), far=st.sampled_from([0.0, 0.05, 1.0]), storage=storages,
    fanouts=st.lists(st.integers(-1, 12), min_size=1, max_size=3), key=keys, replace=st.booleans(),
    disjoint=st.booleans(), weighted=st.booleans(), time=times,
    subgraph_type=st.sampled_from(["directional", "bidirectional", "induced"]),
    sort=st.booleans(), threads=st.sampled_from([1, 2]),
)  # fmt: skip
def test_samples_are_the_same(
    tmp_path_factory: Any, seed: int, far: float, storage: Any, fanouts: list[int], key: int,
    replace: bool, disjoint: bool, weighted: bool, time: Any, subgraph_type: Any, sort: bool,
    threads: int,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    num_nodes = 300
    src, dst = local_edges(num_nodes, 5000, seed, far)
    values = {"edge_time": rng.integers(0, 50, 5000), "node_time": rng.integers(0, 50, num_nodes)}
    graph = Graph.from_edges(
        num_nodes, src, dst, edge_weight=rng.random(5000).astype(np.float32),
        sort_neighbors=sort and time is None, **({} if time is None else {time: values[time]}),
    )  # fmt: skip
    options: dict[str, Any] = {
        "replace": replace, "disjoint": disjoint, "subgraph_type": subgraph_type,
        "num_threads": threads, "weight_attr": "edge_weight" if weighted else None,
        "time_attr": time,
    }  # fmt: skip
    seeds = rng.integers(0, num_nodes, 10)
    when = {} if time is None else {"seed_time": rng.integers(0, 60, 10)}
    folder = tmp_path_factory.mktemp("g")
    found = NeighborSampler(compressed(graph, folder / "g", storage), fanouts, **options)
    expected = NeighborSampler(graph, fanouts, **options)
    assert_same_subgraph(found.sample(seeds, key, **when), expected.sample(seeds, key, **when))
    without = rng.integers(0, 5000, 30)
    assert_same_subgraph(
        found.sample(seeds, key, exclude=without, **when),
        expected.sample(seeds, key, exclude=without, **when),
    )
    shutil.rmtree(folder)


# ---- damage ----------------------------------------------------------------------------------


def read_all(path: Path) -> Graph:
    graph = Graph.load(path)
    graph.edge_index()
    NeighborSampler(graph, [5, 5]).sample(np.arange(graph.num_nodes), key=1)
    for node in range(0, graph.num_nodes, 7):
        graph.in_neighbors(node)
    graph.verify()
    return graph


def test_flipped_bytes_are_found_or_refused(path: Path) -> None:
    graph = make_graph(num_edges=6000)
    graph.save(path, compress=True)
    good = path.read_bytes()
    rng = np.random.default_rng(3)
    for kind in (native.SECTION_CSC_BLOCKS, native.SECTION_CSC_INDEX):
        section = section_of(path, kind)
        for at in rng.integers(0, section.size, 60):
            bad = bytearray(good)
            bad[section.offset + at] ^= 1 << int(rng.integers(0, 8))
            path.write_bytes(bad)
            with pytest.raises((errors.CorruptFileError, errors.FormatError)):
                read_all(path)


def test_a_damaged_block_is_named(path: Path) -> None:
    graph = make_graph(num_edges=6000)
    graph.save(path, compress=True)
    damage_section(path, (native.SECTION_CSC_BLOCKS,), b"\xff")
    found = Graph.load(path)
    node = int(np.flatnonzero(graph.in_degrees())[0])
    with pytest.raises(errors.CorruptFileError, match="block 0 of the compressed ids") as caught:
        found.in_neighbors(node)
    assert caught.value.position == 0
    with pytest.raises(errors.CorruptFileError, match="block 0"):
        found.edge_index()
    with pytest.raises(errors.CorruptFileError, match="checksum"):
        found.verify()
    with pytest.raises(errors.CorruptFileError, match="block 0"):
        found.save(path.with_name("other"), compress=False)
    assert not path.with_name("other").exists()


def test_verify_names_the_file_of_a_bad_block_once(path: Path, rewrite_container: Any) -> None:
    """A file of another writer: right in its checksums, wrong in a block."""
    make_graph(num_edges=6000).save(path, compress=True)

    def change(section: native.Section, array: Any) -> Any:
        if section.kind == native.SECTION_CSC_BLOCKS:
            array[0] = 0xFF
        return array

    bad = path.with_name("bad.aeg")
    rewrite_container(path, bad, change)
    with pytest.raises(errors.CorruptFileError, match=r"bad\.aeg: CSC: block 0") as caught:
        Graph.load(bad).verify()
    assert str(caught.value).count("bad.aeg") == 1


@pytest.mark.parametrize("kind", [native.SECTION_CSC_BLOCKS, native.SECTION_CSC_INDEX])
def test_sections_that_do_not_fit(path: Path, kind: int) -> None:
    make_graph().save(path, compress=True)
    file = native.NativeFile(path)
    sections = {s.kind: (s.kind, s.owner, file.section_array(s)) for s in file.sections()}
    bad = path.with_name("bad")
    write_container(bad, [one for number, one in sections.items() if number != kind])
    with pytest.raises(errors.CorruptFileError, match="not complete"):
        Graph.load(bad)
    sections[kind] = (kind, sections[kind][1], sections[kind][2][:-1].copy())
    write_container(bad, sections.values())
    with pytest.raises(errors.CorruptFileError, match="bytes"):
        Graph.load(bad)


def test_old_readers_are_told(path: Path) -> None:
    """Bit 0 of `required`, which version 1 readers without blocks refuse."""
    graph = make_graph()
    graph.save(path, compress=True)
    assert path.read_bytes()[64:72] == (1).to_bytes(8, "little")
    graph.save(path)
    assert path.read_bytes()[64:72] == bytes(8)


def test_golden_file(path: Path) -> None:
    """Files with blocks are readable for ever, and are written byte by byte as they were."""
    src, dst = golden_edges()
    graph = Graph.from_edges(3000, src, dst, layout="both")
    golden = GOLDEN / "compressed-v1.aeg"
    if os.environ.get("AETHERGRAPH_WRITE_GOLDEN"):
        graph.save(golden, compress=True)
    loaded = Graph.load(golden)
    loaded.verify()
    assert loaded.compressed
    assert_same_graph(loaded, graph)
    graph.save(path, compress=True)
    assert path.read_bytes() == golden.read_bytes()


def golden_edges() -> tuple[Ids, Ids]:
    """Near, far and ascending neighbours, without a generator that may change."""
    row = np.arange(BLOCK * GROUP + 500, dtype=np.int64)
    dst = row // 9
    near = (dst * 7 + row * row % 23) % 3000
    far = row * 2654435761 % 3000
    src = np.where(row % 11 == 0, far, np.where(row < 800, row * 3 % 3000, near))
    return src, dst


# ---- lists in order of id ---------------------------------------------------------------------


@given(edges=edge_lists(), layout=layouts, data=st.data())
def test_sorted_neighbours(edges: tuple[int, Ids, Ids], layout: Any, data: Any) -> None:
    num_nodes, src, dst = edges
    row = np.arange(len(src))
    graph = Graph.from_edges(
        num_nodes, src, dst, layout=layout, keep_order=True, sort_neighbors=True,
        edge_weight=row.astype(np.float64), edge_attrs={"row": row},
    )  # fmt: skip
    by_id = np.lexsort((row, dst, src) if layout == "csr" else (row, src, dst))
    np.testing.assert_array_equal(graph.edge_order, by_id)
    np.testing.assert_array_equal(graph.edge_index(), (src[by_id], dst[by_id]))
    np.testing.assert_array_equal(graph.edge_weight, by_id)
    np.testing.assert_array_equal(graph.edge_attrs["row"].array, by_id)
    for node in range(num_nodes):
        if layout != "csr":
            np.testing.assert_array_equal(graph.in_neighbors(node), np.sort(src[dst == node]))
        if layout != "csc":
            np.testing.assert_array_equal(graph.neighbors(node), np.sort(dst[src == node]))


def test_sorted_neighbours_of_typed_graphs() -> None:
    src, dst = np.array([3, 1, 2, 1]), np.array([0, 0, 1, 1])
    graph = HeteroGraph.from_edges({("a", "r", "b"): (src, dst)}, sort_neighbors=True)
    assert graph["a", "r", "b"].csc()[1].tolist() == [1, 3, 1, 2]


def test_lists_cannot_be_in_order_of_time_and_of_id() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="sort_neighbors"):
        Graph.from_edges(2, [0], [1], edge_time=[1], sort_neighbors=True)
    with pytest.raises(errors.InvalidArgumentError, match="sort_neighbors"):
        Graph.from_edges(2, [0], [1], node_time=[1, 2], sort_neighbors=True)
    with pytest.raises(errors.OutOfRangeError, match=r"src\[1\] = 7"):
        Graph.from_edges(2, [0, 7], [1, 1], sort_neighbors=True)
