"""Damaged files and failing disks: a named exception or the same data, never a dead process."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.containers import damage_section
from support.disks import read_only, small_disk
from support.processes import WarmPython
from support.strategies import assert_same_graph

from aethergraph import FeatureTable, Graph, NeighborSampler, errors
from aethergraph import _native as native
from aethergraph.packing import PackedFeatures

pytestmark = pytest.mark.any_python


def read_graph(path: Path) -> Graph:
    """Everything a user can read from a graph file."""
    graph = Graph.load(path)
    graph.in_degrees()
    graph.edge_index()
    for node in range(0, graph.num_nodes, 7):
        graph.in_neighbors(node)
        graph.neighbors(node)
    NeighborSampler(graph, [5, 5]).sample(np.arange(graph.num_nodes), key=1)
    NeighborSampler(graph, [-1], subgraph_type="induced").sample([0, 1], key=1)
    for store in graph.node_attrs.values():
        store.gather(np.arange(store.num_rows))
    graph.verify()
    return graph


def positions(size: int, count: int) -> list[int]:
    """All of the header, then random places."""
    rng = random.Random(size)
    return sorted({*range(96), *(rng.randrange(size) for _ in range(count)), size - 1})


@pytest.fixture
def graph_file(full_graph: Graph, tmp_path: Path) -> Path:
    full_graph.save(tmp_path / "good.aeg")
    return tmp_path / "good.aeg"


def test_flipped_bytes_in_a_graph(graph_file: Path, full_graph: Graph) -> None:
    good = graph_file.read_bytes()
    refused = 0
    for position in positions(len(good), 120):
        bad = bytearray(good)
        bad[position] ^= 1 << (position % 8)
        path = graph_file.with_name("bad")
        path.write_bytes(bad)
        try:
            found = read_graph(path)
        except errors.AetherError:
            refused += 1
        else:
            assert_same_graph(found, full_graph)  # padding, or bytes that mean nothing
    assert refused > 60


def test_truncated_graphs(graph_file: Path) -> None:
    good = graph_file.read_bytes()
    path = graph_file.with_name("bad")
    for size in [*range(0, 200, 13), *range(200, len(good), 1501), len(good) - 1]:
        path.write_bytes(good[:size])
        # without its first eight bytes nobody knows what it was
        with pytest.raises(errors.TruncatedFileError if size >= 8 else errors.FormatError):
            Graph.load(path)
    path.write_bytes(good + b"\0")
    with pytest.raises(errors.FormatError):
        Graph.load(path)


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("storage", ["mmap", "memory", "uring"])
def test_the_damaged_file_is_named(
    tmp_path: Path, storage: Any, compress: bool, full_graph: Graph
) -> None:
    path = tmp_path / "damaged.aeg"
    full_graph.save(path, compress=compress)
    damage_section(path, (native.SECTION_CSC_INDICES, native.SECTION_CSC_BLOCKS))
    graph = Graph.load(path, storage=storage)
    sampler = NeighborSampler(graph, [-1])
    everyone = np.arange(graph.num_nodes)
    calls: list[Callable[[], Any]] = [
        lambda: sampler.sample(everyone, key=0),
        lambda: list(sampler.sample_many([everyone], [0])),
        lambda: graph.in_neighbors(int(graph.in_degrees().argmax())),
        graph.verify,
    ]
    for call in calls:
        with pytest.raises(errors.CorruptFileError) as caught:
            call()
        assert str(caught.value).count(str(path)) == 1


@pytest.mark.parametrize("offset", [0, 500, 1 << 62])
def test_a_damaged_offset_is_found_when_it_is_used(graph_file: Path, offset: int) -> None:
    """The checksums are not read before."""
    data = offset.to_bytes(8, "little")
    damage_section(graph_file, (native.SECTION_CSC_INDPTR,), data, at=8 * 60)
    graph = Graph.load(graph_file)
    for use in (graph.in_degrees, graph.edge_index, graph.verify):
        with pytest.raises(errors.CorruptFileError):
            use()


@pytest.mark.parametrize("name", ["x.npy", "x.aef"])
def test_damaged_features(tmp_path: Path, name: str) -> None:
    rows = np.random.default_rng(0).random((40, 5), dtype=np.float32)
    path = tmp_path / name
    FeatureTable.from_array(rows).save(path)
    good = path.read_bytes()
    data_at = good.find(rows.tobytes())
    for position in positions(len(good), 100):
        bad = bytearray(good)
        bad[position] ^= 1 << (position % 8)
        path.write_bytes(bad)
        with contextlib.suppress(errors.AetherError):
            store = FeatureTable.load(path)
            found = store.gather(np.arange(store.num_rows))
            in_data = data_at <= position < data_at + rows.nbytes
            if name == "x.aef" and not in_data:  # .npy headers have no checksum
                np.testing.assert_array_equal(found, rows)
    for size in [*range(0, 200, 3), *range(200, len(good), 101), len(good) - 1]:
        path.write_bytes(good[:size])
        with pytest.raises(errors.FormatError):
            FeatureTable.load(path)


def test_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "f"
    for content in (b"", b"\0" * 10_000, b"src,dst\n0,1\n", b"\x7fELF" + b"\1" * 5000, b"PK\3\4"):
        path.write_bytes(content)
        for load in (Graph.load, FeatureTable.load):
            with pytest.raises(errors.FormatError, match="AetherGraph file"):
                load(path)
    os.mkfifo(tmp_path / "pipe")
    for other in (tmp_path, tmp_path / "pipe", Path("/dev/null"), Path("/dev/zero")):
        for load in (Graph.load, FeatureTable.load):
            with pytest.raises(errors.AetherError):
                load(other)


# ---- files that change while they are open ---------------------------------------------------


def test_a_replaced_file_is_the_old_one_for_its_readers(
    graph_file: Path, full_graph: Graph
) -> None:
    loaded = Graph.load(graph_file)
    Graph.from_edges(3, [0], [1]).save(graph_file)
    assert_same_graph(loaded, full_graph)
    loaded.verify()
    assert Graph.load(graph_file).num_nodes == 3


@pytest.mark.parametrize("handler", ["ours", "another"])
def test_a_file_that_shrinks_is_reported(
    tmp_path: Path, run_python: Callable[..., Any], handler: str
) -> None:
    """In a process of its own, where SIGBUS would kill.

    torch, in every worker process, and faulthandler replace the handler of the core.
    """
    run_python(
        """
        import faulthandler, os, sys
        import numpy as np
        from aethergraph import FeatureTable, Graph, NeighborSampler, errors
        folder = sys.argv[1]
        rng = np.random.default_rng(0)
        graph = Graph.from_edges(5000, *rng.integers(0, 5000, (2, 50_000)))
        graph.features = rng.random((5000, 16))
        graph.save(folder + "/g")
        graph.features.save(folder + "/x.npy")
        graph.features.save(folder + "/x.aef")
        loads = {"g": Graph.load, "x.npy": FeatureTable.load, "x.aef": FeatureTable.load}
        for name, load in loads.items():
            path = folder + "/" + name
            def calls(opened):
                if name == "g":
                    sampler = NeighborSampler(opened, [5, 5])
                    seeds = np.arange(5000)
                    x = opened.features
                    return [opened.in_degrees, lambda: opened.in_neighbors(4999), opened.verify,
                            lambda: sampler.sample(seeds), lambda: x.gather(seeds),
                            lambda: opened.save(folder + "/copy")]
                return [lambda: opened.gather(np.arange(5000)), lambda: opened[4990:],
                        lambda: opened.save(folder + "/copy"), opened.to_memory]
            opened = load(path)
            count = len(calls(opened))
            for i in range(count):
                good = open(path, "rb").read()
                opened = load(path)
                call = calls(opened)[i]
                if sys.argv[2] == "another":
                    faulthandler.disable()  # or it is not taken again
                    faulthandler.enable()
                os.truncate(path, 4096)
                try:
                    call()
                except errors.FileChangedError as error:
                    assert name in str(error), error
                    assert isinstance(error, OSError) and error.errno
                else:
                    raise AssertionError(f"{name}, call {i} did not notice")
                open(path, "wb").write(good)
            assert not os.path.exists(folder + "/copy")
        print("alive")
        """,
        str(tmp_path),
        handler,
    )


# ---- writing ---------------------------------------------------------------------------------


SAVE_FOR_EVER = """
import sys
import numpy as np
from aethergraph import FeatureTable, Graph
from aethergraph.packing import pack
path = sys.argv[1]

def save(number):
    size = 50 + 250 * number
    if path.endswith(".aeg"):
        ends = np.random.default_rng(0).integers(0, size, (2, 100 * size))
        return Graph.from_edges(size, *ends).save(path)
    store = FeatureTable.from_array(np.full((size, 16), number, np.float32))
    return pack([[1, 2], [5]], store, path) if path.endswith(".packed") else store.save(path)

save(0)
print("ready", flush=True)
while True:
    for number in (1, 0):
        save(number)
"""


@pytest.mark.parametrize("name", ["g.aeg", "x.aef", "x.npy", "x.packed"])
def test_a_killed_writer_leaves_the_old_or_the_new_file(tmp_path: Path, name: str) -> None:
    """At random moments, with small files: many kills fall between the last byte and the rename."""

    def load(path: Path) -> int:
        if name == "g.aeg":
            graph = Graph.load(path)
            graph.verify()
            return graph.num_nodes
        if name == "x.packed":
            packed = PackedFeatures.load(path)
            packed.verify()
            return packed.num_rows
        store = FeatureTable.load(path)
        assert len(np.unique(store.array)) == 1
        return store.num_rows

    folder = tmp_path / "saved"
    folder.mkdir()
    path, rng, unfinished = folder / name, random.Random(2), 0
    script, printed = tmp_path / "writer.py", tmp_path / "printed"
    script.write_text(SAVE_FOR_EVER)
    os.mkfifo(printed)
    with WarmPython(["aethergraph.packing"]) as python:
        for number in range(100):
            writer = python.start([script, path], tmp_path, printed)
            with printed.open() as lines:
                assert lines.readline() == "ready\n"
                time.sleep(rng.random() * 0.02)
                os.kill(writer, signal.SIGKILL)
                assert python.wait() == -signal.SIGKILL
            assert load(path) in (50, 300)
            left = [one for one in folder.iterdir() if one != path]
            assert len(left) <= 1  # each child removes what the one before it has left
            for one in left:
                assert one.name.endswith(".aether-tmp")
                unfinished += 1
                with pytest.raises(errors.FormatError, match="writer that did not finish"):
                    load(one)
            if unfinished and number >= 5:
                break
    assert unfinished > 0  # the fewer, the less of its time a writer spends on the temporary
    with pytest.raises(errors.InvalidArgumentError, match="unfinished files"):
        Graph.from_edges(3, [0], [1]).save(folder / ".g.0123456789abcdef.aether-tmp")


def test_a_full_disk(tmp_path: Path, graph: Graph) -> None:
    large = FeatureTable.from_array(np.zeros((1000, 1000)))
    big_graph = Graph.from_edges(10, np.zeros(500_000, int), np.zeros(500_000, int))
    with small_disk(tmp_path / "disk", "1m") as disk:
        path = disk / "g"
        graph.save(path)
        for call in (
            lambda: large.save(path),
            lambda: large.save(disk / "x.npy"),
            lambda: big_graph.save(path),
        ):
            with pytest.raises(OSError, match="No space left") as caught:
                call()
            assert isinstance(caught.value, errors.StorageError)
            assert caught.value.errno == 28
            assert os.listdir(disk) == ["g"]
        loaded = Graph.load(path)
        loaded.verify()
        assert_same_graph(loaded, graph)


def test_a_read_only_directory(tmp_path: Path, graph: Graph) -> None:
    store = FeatureTable.from_array([1.0])
    (tmp_path / "given").mkdir()
    graph.save(tmp_path / "given" / "g")
    with read_only(tmp_path / "given", tmp_path / "fixed") as folder:
        for call in (
            lambda: graph.save(folder / "g"),
            lambda: graph.save(folder / "new"),
            lambda: store.save(folder / "new.npy"),
            lambda: store.save(folder / "new"),
        ):
            with pytest.raises(errors.StorageError, match=r"(?i)read-only"):
                call()
        loaded = Graph.load(folder / "g")
        loaded.verify()
        assert_same_graph(loaded, graph)


def test_folders_that_do_not_exist(tmp_path: Path, graph: Graph) -> None:
    for call in (
        lambda: graph.save(tmp_path / "no" / "g"),
        lambda: FeatureTable.from_array([1.0]).save(tmp_path / "no" / "x.npy"),
    ):
        with pytest.raises(FileNotFoundError) as caught:
            call()
        assert isinstance(caught.value, errors.MissingFileError)
    for call in (
        lambda: graph.save(tmp_path),
        lambda: FeatureTable.from_array([1.0]).save(tmp_path / "d.npy"),
    ):
        (tmp_path / "d.npy").mkdir(exist_ok=True)
        with pytest.raises(errors.AetherError):
            call()
