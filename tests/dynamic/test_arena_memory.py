"""Edges in memory that functions in C give: ``arena_memory`` of live graphs."""

from __future__ import annotations

import copy
import ctypes
import functools
import gc
import os
import pickle
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.foreign_graphs import stage_headers
from support.strategies import assert_same_graph

from aethergraph import DynamicGraph, DynamicHeteroGraph, NeighborSampler, errors
from aethergraph.protocols import MemorySource


class Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("most", "reserved", "committed", "released")]


@functools.cache
def library() -> ctypes.CDLL:
    """Compile ``counting_memory.c`` as a user does, and load it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.so"
        include = f"-I{stage_headers(Path(folder) / 'include')}"
        source = Path(__file__).with_name("counting_memory.c")
        subprocess.run(
            ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", include]
            + [str(source), "-o", str(path)],
            check=True, timeout=120,
        )  # fmt: skip
        return ctypes.CDLL(str(path))


class Counting:
    """A MemorySource; ``counts`` are those of all graphs since the last one was made."""

    def __init__(self, most: int = 2**64 - 1) -> None:
        self.counts = Counts.in_dll(library(), "counts")
        self.counts.most = most
        self.counts.reserved = self.counts.committed = self.counts.released = 0

    @property
    def live_memory(self) -> int:
        return ctypes.addressof(ctypes.c_char.in_dll(library(), "counting_memory"))


def test_it_is_used_and_given_back() -> None:
    memory = Counting()
    assert isinstance(memory, MemorySource)
    counts = memory.counts
    graph = DynamicGraph(100, 2, edge_weight="float32", arena_memory=memory)
    twin = DynamicGraph(100, 2, edge_weight="float32")
    del memory
    rng = np.random.default_rng(0)
    for _ in range(5):
        ends, weight = rng.integers(0, 100, (2, 2000)), rng.random(2000, np.float32)
        for one in (graph, twin):
            one.insert_edges(*ends, weight=weight)
            one.delete_edges(*ends[:, :100])
    assert_same_graph(graph.to_graph(), twin.to_graph())
    found, wanted = (
        NeighborSampler(one, [3, 3], weight_attr="edge_weight", num_threads=2).sample([1, 2], 5)
        for one in (graph, twin)
    )
    np.testing.assert_array_equal(found.node, wanted.node)
    np.testing.assert_array_equal(found.edge, wanted.edge)
    assert counts.reserved == 2 * 2 << 20
    assert graph.stats().used_bytes <= counts.committed <= 2 << 20
    snapshot = graph.snapshot()
    del graph, one
    gc.collect()
    assert counts.released == 0, "a snapshot still reads it"
    assert snapshot.num_edges == twin.num_edges
    del snapshot, found, wanted
    gc.collect()
    assert counts.released == counts.reserved


def test_it_refuses() -> None:
    memory = Counting(most=100_000)
    typed = DynamicHeteroGraph(
        {"a": 50, "b": 50}, [("a", "x", "b"), ("b", "y", "a")], 2, order="time", arena_memory=memory
    )
    x = typed["a", "x", "b"]
    done = 0
    with pytest.raises(errors.OutOfMemoryError):
        for _ in range(1000):
            x.insert(np.arange(50), np.arange(50))
            done += 50
    assert x.num_edges == done > 0
    memory.counts.most = 2**64 - 1
    x.insert([1], [2])
    assert x.num_edges == done + 1


def test_other_processes_cannot_have_it() -> None:
    graph = DynamicGraph(10, 1, arena_memory=Counting())
    for attempt in (pickle.dumps, copy.deepcopy):
        with pytest.raises(errors.UnsupportedError, match="arena_memory"):
            attempt(graph)


def test_a_directory_takes_it(tmp_path: Path) -> None:
    """Through merges, over a base, when it is opened again; and with many types."""
    rng = np.random.default_rng(1)
    path, memory = tmp_path / "g.aegd", Counting()
    twin = DynamicGraph(100, 2, edge_weight="float32")

    def change(graph: DynamicGraph, ends: Any, weight: Any) -> None:
        graph.insert_edges(*ends, weight=weight)
        graph.delete_edges(*ends[:, :50])

    def check(graph: DynamicGraph) -> None:
        for _ in range(2):
            ends, weight = rng.integers(0, 100, (2, 500)), rng.random(500, np.float32)
            for one in (graph, twin):
                change(one, ends, weight)
            assert_same_graph(graph.to_graph(), twin.to_graph())
            graph.merge()
        assert_same_graph(graph.to_graph(), twin.to_graph())

    graph = DynamicGraph.open(path, 100, 2, edge_weight="float32", arena_memory=memory)
    assert memory.counts.reserved == 2 * 2 << 20
    with pytest.raises(errors.UnsupportedError, match=f"arena_memory of process {os.getpid()}"):
        DynamicGraph.attach(path)
    check(graph)
    with pytest.raises(errors.UnsupportedError, match="arena_memory"):
        pickle.dumps(graph)
    graph.close()
    graph = DynamicGraph.open(path, arena_mb=2, arena_memory=memory)
    check(graph)
    graph.close()
    del graph
    gc.collect()
    assert memory.counts.released == memory.counts.reserved == 6 * 4 << 20  # 2 opened, 4 merged

    kind = ("a", "x", "b")
    typed = DynamicHeteroGraph.open(
        tmp_path / "typed", {"a": 5, "b": 5}, [kind], 2, arena_memory=memory
    )
    reserved = memory.counts.reserved
    typed[kind].insert([1, 2], [3, 4])
    typed.close()
    typed = DynamicHeteroGraph.open(tmp_path / "typed", arena_mb=2, arena_memory=memory)
    assert typed[kind].num_edges == 2 and memory.counts.reserved > reserved
    typed.close()


class Wrong:
    def __init__(self, address: Any) -> None:
        self.live_memory = address


@pytest.mark.parametrize(
    ("memory", "text"),
    [
        (5, "arena_memory is of type int"),
        ("x", "member live_memory"),
        (Wrong("x"), "address of an aether_live_memory, got str"),
        (Wrong(0), "is no address"),
        (Wrong(4097), "multiple of"),
    ],
)
def test_wrong_memory(memory: Any, text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=text):
        DynamicGraph(3, 1, arena_memory=memory)
