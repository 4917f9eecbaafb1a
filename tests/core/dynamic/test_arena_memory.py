"""Edges in memory that functions in C give: ``arena_memory`` of live graphs."""

from __future__ import annotations

import copy
import ctypes
import functools
import gc
import pickle
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from core.strategies import assert_same_graph
from foreign_graphs import stage_headers

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
