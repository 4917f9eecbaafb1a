"""Arrays that processes share: mapped as far as they are in use, and further in every process."""

from __future__ import annotations

import os
import pickle
import resource
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from aethergraph import DynamicGraph, errors
from aethergraph.dynamic.rows import GrowingRows
from aethergraph.dynamic.shared import Region, SharedArrays

NUM_ATTRS = 1000


def address_space() -> int:
    """Return the bytes of addresses that this process has taken."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")


def test_what_was_mapped_stays_and_is_the_same_memory() -> None:
    arrays = SharedArrays([Region((1 << 32, 3), np.dtype(np.int64)), Region((9,), np.dtype("u1"))])
    first = arrays.array(0, 1)
    assert 1 <= len(first) < 1000
    again = SharedArrays(arrays._regions, os.dup(arrays.fd))
    more = again.array(0, 10**6)
    first[0], more[10**6 - 1] = 7, 8
    assert len(more) >= 10**6 and more[0].tolist() == [7, 7, 7]
    assert arrays.array(0, 10**6)[10**6 - 1].tolist() == [8, 8, 8] and first[0, 0] == 7
    assert arrays.array(0, 5) is arrays.array(0, 10**6)
    assert len(arrays.array(1, 1)) == len(arrays.array(1, 100)) == 9  # there are no more
    with pytest.raises(errors.UnsupportedError, match="use the same version"):
        SharedArrays([Region((1 << 40,), np.dtype(np.int64))], os.dup(arrays.fd))


def test_threads_that_need_more_at_once() -> None:
    rows = GrowingRows((), "int64", 1 << 30)
    ends, failures = [0], list[BaseException]()

    def read() -> None:
        try:
            while (end := ends[-1]) < 1 << 20:
                out = np.empty(2, np.int64)
                if end:
                    rows.gather_into(np.array([0, end - 1]), out, 1, lambda: None)
                    assert out.tolist() == [0, end - 1]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    while ends[-1] < 1 << 20:
        begin, end = ends[-1], ends[-1] * 5 // 4 + 1
        rows.put(begin, np.arange(begin, end))
        ends.append(end)
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("in_directory", [False, True])
def test_a_thousand_attributes_of_a_thousand_nodes(in_directory: bool, tmp_path: Path) -> None:
    count = NUM_ATTRS // 10 if in_directory else NUM_ATTRS  # each waits for the disk
    graph = (
        DynamicGraph.open(tmp_path / "g", 1000, arena_mb=1, durability="none")
        if in_directory
        else DynamicGraph(1000, 1)
    )
    before = address_space()
    for number in range(count):
        graph.node_attrs[f"a{number}"] = np.full((1000, 4), number, np.float32)
    reader = (
        DynamicGraph.attach(tmp_path / "g") if in_directory else pickle.loads(pickle.dumps(graph))
    )
    graph.add_nodes(3000, **{f"a{n}": np.full((3000, 4), n + 0.5) for n in range(count)})
    graph.update_nodes([1, 3999], **{f"a{n}": np.full((2, 4), -n) for n in range(count)})
    for number in range(count):
        for face in (graph, reader):
            rows = face.node_attrs[f"a{number}"].gather([0, 1, 3998, 3999])[:, 3].tolist()
            assert rows == [number, -number, number + 0.5, -number]
    assert address_space() - before < (64 << 20) + count * (1 << 20)
    reader.close()
    graph.close()


def test_no_descriptor_for_an_attribute() -> None:
    graph = DynamicGraph(3, 1)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 2, limits[1]))
    try:
        with pytest.raises(
            errors.LimitError, match=r"no descriptor .*raise the limit \(ulimit -n\)"
        ):
            for number in range(1000):
                graph.node_attrs[f"a{number}"] = np.zeros(3)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    graph.node_attrs["y"] = np.ones(3)
    assert graph.node_attrs["y"].gather([2]).tolist() == [1.0]


#: More nodes than addresses; then a graph that grows, at last over a base, and a reader of it.
LIMITED = """
import resource, sys
import numpy as np
from aethergraph import DynamicGraph, NeighborSampler, errors

resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 64 << 30))
lists = DynamicGraph(2, 1)
try:
    lists._store.live.add_nodes(0, 1 << 30, 1 << 30)
except errors.OutOfMemoryError as error:
    assert "cannot map" in str(error)
else:
    raise AssertionError
lists.insert_edge(0, 1)
assert lists.num_nodes == 2 and lists.has_edge(0, 1)
resource.setrlimit(resource.RLIMIT_AS, (64 << 30, 64 << 30))
graph = DynamicGraph.open(sys.argv[1], 2, arena_mb=64, durability="none")
graph.node_attrs["x"] = np.zeros((2, 2))
reader, rng = DynamicGraph.attach(sys.argv[1]), np.random.default_rng(0)
for step in range(16):
    count = graph.num_nodes * 2
    graph.add_nodes(graph.num_nodes, x=np.full((graph.num_nodes, 2), step))
    held, degrees = graph.snapshot(), graph.in_degrees(range(min(count, 1000)))
    graph.insert_edges(*rng.integers(0, count, (2, 100)))
    assert (held.in_degrees(range(min(count, 1000))) == degrees).all()
    assert (reader.in_degrees() == graph.in_degrees()).all()
    assert reader.node_attrs["x"].gather([0, count - 1])[:, 0].tolist() == [0, step]
    drawn = [
        NeighborSampler(face, [3, 3]).sample([1, count - 1], key=step) for face in (graph, reader)
    ]
    assert drawn[0].node.tolist() == drawn[1].node.tolist()
    if step == 8:
        graph.merge()
assert graph.num_edges == len(reader.edge_list()[0]) > 500
"""


@pytest.mark.skipif(
    bool(os.environ.get("AETHERGRAPH_EXPECT_SANITIZER")),
    reason="a sanitizer needs more address space than that: ./scripts/test.sh python",
)
def test_little_address_space(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", LIMITED, str(tmp_path / "g")], check=True)
