"""Damaged files and failing disks: a named exception or the same data, never a dead process."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.disks import small_disk
from support.strategies import assert_same_graph

from aethergraph import FeatureStore, Graph, NeighborSampler, errors
from aethergraph import _native as native
from aethergraph.packing import PackedFeatures

pytestmark = pytest.mark.any_python

ROOT = os.geteuid() == 0


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
    for position in positions(len(good), 250):
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


def test_damaged_lists_are_found_when_they_are_used(graph_file: Path, tmp_path: Path) -> None:
    """Bytes changed in place, the checksums not read: an id or an offset out of range is named."""
    graph = Graph.load(graph_file)
    good = graph_file.read_bytes()
    start = good.find(graph.csc()[0].tobytes())
    assert start > 0
    path = tmp_path / "bad"
    for value in (0, 1 << 62, 2**64 - 1, 500):
        for node in (0, 1, 60, 119, 120):
            bad = bytearray(good)
            bad[start + 8 * node : start + 8 * node + 8] = value.to_bytes(8, "little")
            if bad == good:
                continue
            path.write_bytes(bad)
            with contextlib.suppress(errors.AetherError):
                loaded = Graph.load(path)
                with contextlib.suppress(errors.AetherError):
                    loaded.in_degrees()
                with contextlib.suppress(errors.AetherError):
                    loaded.edge_index()
                NeighborSampler(loaded, [-1, 3]).sample(np.arange(120), key=0)
            with pytest.raises(errors.CorruptFileError):
                Graph.load(path).verify()
    bad = bytearray(good)
    at = good.find(graph.csc()[1].tobytes())
    bad[at : at + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(bad)
    with pytest.raises(errors.AetherError, match="4294967295"):
        NeighborSampler(Graph.load(path), [-1]).sample(np.arange(120))


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("storage", ["mmap", "memory", "uring"])
def test_the_damaged_file_is_named(
    tmp_path: Path, storage: Any, compress: bool, full_graph: Graph
) -> None:
    path = tmp_path / "damaged.aeg"
    full_graph.save(path, compress=compress)
    file = native.NativeFile(path)
    kinds = (native.SECTION_CSC_INDICES, native.SECTION_CSC_BLOCKS)
    section = next(s for s in file.sections() if s.kind in kinds)
    with path.open("r+b") as raw:
        raw.seek(section.offset)
        raw.write(b"\xff" * section.size)
    budget = None if storage == "mmap" else "64M"
    graph = Graph.load(path, storage=storage, memory_budget=budget)
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


@pytest.mark.parametrize("name", ["x.npy", "x.aef"])
def test_damaged_features(tmp_path: Path, name: str) -> None:
    rows = np.random.default_rng(0).random((40, 5), dtype=np.float32)
    path = tmp_path / name
    FeatureStore.from_array(rows).save(path)
    good = path.read_bytes()
    data_at = good.find(rows.tobytes())
    for position in positions(len(good), 100):
        bad = bytearray(good)
        bad[position] ^= 1 << (position % 8)
        path.write_bytes(bad)
        with contextlib.suppress(errors.AetherError):
            store = FeatureStore.load(path)
            found = store.gather(np.arange(store.num_rows))
            in_data = data_at <= position < data_at + rows.nbytes
            if name == "x.aef" and not in_data:  # .npy headers have no checksum
                np.testing.assert_array_equal(found, rows)
    for size in [*range(0, 200, 3), *range(200, len(good), 101), len(good) - 1]:
        path.write_bytes(good[:size])
        with pytest.raises(errors.FormatError):
            FeatureStore.load(path)


def test_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "f"
    for content in (b"", b"\0" * 10_000, b"src,dst\n0,1\n", b"\x7fELF" + b"\1" * 5000, b"PK\3\4"):
        path.write_bytes(content)
        for load in (Graph.load, FeatureStore.load):
            with pytest.raises(errors.FormatError, match="AetherGraph file"):
                load(path)
    os.mkfifo(tmp_path / "pipe")
    for other in (tmp_path, tmp_path / "pipe", Path("/dev/null"), Path("/dev/zero")):
        for load in (Graph.load, FeatureStore.load):
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


def test_a_file_that_shrinks_is_reported(tmp_path: Path, run_python: Callable[..., Any]) -> None:
    """In a process of its own, where SIGBUS would kill."""
    run_python(
        """
        import os, sys
        import numpy as np
        from aethergraph import FeatureStore, Graph, NeighborSampler, errors
        folder = sys.argv[1]
        rng = np.random.default_rng(0)
        graph = Graph.from_edges(5000, *rng.integers(0, 5000, (2, 50_000)))
        graph.features = rng.random((5000, 16))
        graph.save(folder + "/g")
        graph.features.save(folder + "/x.npy")
        graph.features.save(folder + "/x.aef")
        loads = {"g": Graph.load, "x.npy": FeatureStore.load, "x.aef": FeatureStore.load}
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
    )


# ---- writing ---------------------------------------------------------------------------------


def test_kill_while_saving_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    script = """
import sys
import numpy as np
from aethergraph import Graph
rng = np.random.default_rng(0)
graphs = [Graph.from_edges(n, *rng.integers(0, n, (2, 400_000))) for n in (1000, 2000)]
print("ready", flush=True)
while True:
    for graph in graphs:
        graph.save(sys.argv[1])
"""
    path = tmp_path / "g"
    Graph.from_edges(3, [0], [1]).save(path)
    rng = random.Random(1)
    seen = set()
    for _ in range(6):
        child = subprocess.Popen(
            [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        with child.stdout:
            assert child.stdout.readline() == "ready\n"
            time.sleep(rng.random() * 0.15)
            child.send_signal(signal.SIGKILL)
            child.wait()
        graph = Graph.load(path)
        graph.verify()
        seen.add(graph.num_nodes)
        leftovers = [name for name in os.listdir(tmp_path) if name != "g"]
        assert len(leftovers) <= 1  # each child removes what the one before it has left
        assert all(name.endswith(".aether-tmp") for name in leftovers)
    assert seen <= {3, 1000, 2000}
    Graph.from_edges(3, [0], [1]).save(path)
    assert os.listdir(tmp_path) == ["g"]


@pytest.mark.parametrize("name", ["g.aeg", "x.aef", "x.npy", "x.packed"])
def test_what_a_killed_writer_leaves_never_opens(tmp_path: Path, name: str) -> None:
    """At random moments, with small files: many kills fall between the last byte and the rename."""
    script = """
import sys
import numpy as np
from aethergraph import FeatureStore, Graph
from aethergraph.packing import pack
path = sys.argv[1]
store = FeatureStore.from_array(np.ones((300, 16), np.float32))
graph = Graph.from_edges(50, *np.random.default_rng(0).integers(0, 50, (2, 300)))
if path.endswith(".packed"):
    save = lambda: pack([[1, 2], [5]], store, path)
else:
    save = lambda: (graph if path.endswith(".aeg") else store).save(path)
save()
print("ready", flush=True)
while True:
    save()
"""

    def load(path: Path) -> None:
        if name == "g.aeg":
            Graph.load(path).verify()
        elif name == "x.packed":
            PackedFeatures.load(path).verify()
        else:
            FeatureStore.load(path)[0]

    path, rng, found = tmp_path / name, random.Random(2), 0
    for number in range(100):
        child = subprocess.Popen(
            [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        with child.stdout:
            assert child.stdout.readline() == "ready\n"
            time.sleep(rng.random() * 0.02)
            child.send_signal(signal.SIGKILL)
            child.wait()
        load(path)
        left = [one for one in tmp_path.iterdir() if one != path]
        assert len(left) <= 1
        for one in left:
            found += 1
            with pytest.raises(errors.FormatError, match="writer that did not finish"):
                load(one)
        if found and number >= 5:
            break
    assert found > 0  # the fewer, the less of its time a writer spends on the temporary
    with pytest.raises(errors.InvalidArgumentError, match="unfinished files"):
        Graph.from_edges(3, [0], [1]).save(tmp_path / ".g.0123456789abcdef.aether-tmp")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "1m") as folder:
        yield folder


def test_a_full_disk(disk: Path, graph: Graph) -> None:
    path = disk / "g"
    graph.save(path)
    large = FeatureStore.from_array(np.zeros((1000, 1000)))
    big_graph = Graph.from_edges(10, np.zeros(500_000, int), np.zeros(500_000, int))
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


@pytest.fixture
def read_only_folder(tmp_path: Path, graph: Graph) -> Iterator[Path]:
    folder = tmp_path / "ro"
    folder.mkdir()
    graph.save(folder / "g")
    if ROOT:  # permissions do not stop root, a read-only mount does
        commands = [["mount", "--bind", str(folder), str(folder)],
                    ["mount", "-o", "remount,bind,ro", str(folder)]]  # fmt: skip
        if any(subprocess.run(c, stderr=subprocess.DEVNULL).returncode for c in commands):
            subprocess.run(["umount", "-l", str(folder)], stderr=subprocess.DEVNULL)
            pytest.skip("mounting is not permitted here")
    else:
        folder.chmod(0o500)
    yield folder
    if ROOT:
        subprocess.run(["umount", "-l", str(folder)], check=True)
    else:
        folder.chmod(0o700)


def test_a_read_only_directory(read_only_folder: Path, graph: Graph) -> None:
    store = FeatureStore.from_array([1.0])
    for call in (
        lambda: graph.save(read_only_folder / "g"),
        lambda: graph.save(read_only_folder / "new"),
        lambda: store.save(read_only_folder / "new.npy"),
        lambda: store.save(read_only_folder / "new"),
    ):
        with pytest.raises(errors.StorageError, match=r"(?i)read-only|permission denied"):
            call()
    loaded = Graph.load(read_only_folder / "g")
    loaded.verify()
    assert_same_graph(loaded, graph)


def test_folders_that_do_not_exist(tmp_path: Path, graph: Graph) -> None:
    for call in (
        lambda: graph.save(tmp_path / "no" / "g"),
        lambda: FeatureStore.from_array([1.0]).save(tmp_path / "no" / "x.npy"),
    ):
        with pytest.raises(FileNotFoundError) as caught:
            call()
        assert isinstance(caught.value, errors.MissingFileError)
    for call in (
        lambda: graph.save(tmp_path),
        lambda: FeatureStore.from_array([1.0]).save(tmp_path / "d.npy"),
    ):
        (tmp_path / "d.npy").mkdir(exist_ok=True)
        with pytest.raises(errors.AetherError):
            call()
