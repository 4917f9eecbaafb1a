"""Our samplers keep the contract: any number of threads, from memory and from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aethergraph import Graph, HeteroGraph, HeteroNeighborSampler, NeighborSampler, set_num_threads
from aethergraph.testing import HeteroSamplerContract, SamplerContract

EVERYTHING = {
    "replace", "disjoint", "induced", "bidirectional", "weight", "time", "node_time", "last",
    "strict", "window",
}  # fmt: skip


class Homogeneous(SamplerContract):
    supports = EVERYTHING
    exact = True
    num_threads = 1

    @pytest.fixture(autouse=True)
    def use_threads(self) -> Any:
        set_num_threads(self.num_threads)
        yield
        set_num_threads(0)

    def make(self, graph: Any, fanouts: Any, **options: Any) -> Any:
        return NeighborSampler(graph, fanouts, num_threads=self.num_threads, **options)


class TestOneThread(Homogeneous):
    pass


class TestTwoThreads(Homogeneous):
    num_threads = 2


class TestEightThreads(Homogeneous):
    num_threads = 8


class TestMapped(Homogeneous):
    storage: Any = "mmap"
    loaded: Any = Graph

    @pytest.fixture(autouse=True)
    def use_folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        self.opened: dict[int, Any] = {}

    def make(self, graph: Any, fanouts: Any, **options: Any) -> Any:
        return super().make(self.load(graph), fanouts, **options)

    def load(self, graph: Any) -> Any:
        path = self.folder / str(len(self.opened))
        if id(graph) not in self.opened:
            graph.save(path)
            opened = type(graph).load(path, storage=self.storage)
            self.opened[id(graph)] = opened, graph  # keeps the id taken
        return self.opened[id(graph)][0]


class TestCopiedFromFile(TestMapped):
    storage = "memory"
    num_threads = 2


class Typed(HeteroSamplerContract):
    supports = EVERYTHING
    exact = True
    num_threads = 1

    @pytest.fixture(autouse=True)
    def use_threads(self) -> Any:
        set_num_threads(self.num_threads)
        yield
        set_num_threads(0)

    def make(self, graph: Any, fanouts: Any, **options: Any) -> Any:
        return HeteroNeighborSampler(graph, fanouts, num_threads=self.num_threads, **options)


class TestTypedOneThread(Typed):
    pass


class TestTypedTwoThreads(Typed):
    num_threads = 2


class TestTypedEightThreads(Typed):
    num_threads = 8


class TestTypedMapped(Typed):
    @pytest.fixture(autouse=True)
    def use_folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        self.opened: dict[int, Any] = {}

    def make(self, graph: Any, fanouts: Any, **options: Any) -> Any:
        path = self.folder / str(len(self.opened))
        if id(graph) not in self.opened:
            graph.save(path)
            self.opened[id(graph)] = HeteroGraph.load(path), graph
        return super().make(self.opened[id(graph)][0], fanouts, **options)
