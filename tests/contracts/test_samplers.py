"""Our samplers keep the contract: any number of threads, from memory and from a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from aethergraph import HeteroNeighborSampler, NeighborSampler, set_num_threads
from aethergraph.testing import HeteroSamplerContract, SamplerContract

EVERYTHING = {
    "replace", "disjoint", "induced", "bidirectional", "weight", "time", "node_time", "last",
    "strict", "window", "exclude",
}  # fmt: skip


# Golden samples and the properties of the core compare every storage and number of threads with
# each other; what a contract asks beside is asked of one thread in memory and of eight over a file.
others = pytest.mark.skipif(
    "AETHERGRAPH_SOAK" not in os.environ, reason="the others draw the same: ./scripts/test.sh soak"
)


class InFile:
    """Samplers over a graph that was saved and loaded."""

    storage: Any = "mmap"

    @pytest.fixture(autouse=True)
    def use_folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        self.opened: dict[int, Any] = {}

    def make(self, graph: Any, fanouts: Any, **options: Any) -> Any:
        if id(graph) not in self.opened:
            path = self.folder / str(len(self.opened))
            graph.save(path)
            # The graph is kept, so that no other takes its id.
            self.opened[id(graph)] = type(graph).load(path, storage=self.storage), graph
        return super().make(self.opened[id(graph)][0], fanouts, **options)  # type: ignore[misc]


class Ours:
    """A sampler of ours, which draws what the oracle draws, in any number of threads."""

    supports = EVERYTHING
    exact = True
    num_threads = 1
    sampler: Any

    @pytest.fixture(autouse=True)
    def use_threads(self) -> Any:
        set_num_threads(self.num_threads)
        yield
        set_num_threads(0)

    def make(self, graph: Any, fanouts: Any, **options: Any) -> Any:
        return self.sampler(graph, fanouts, num_threads=self.num_threads, **options)


class Homogeneous(Ours, SamplerContract):
    sampler = NeighborSampler


class TestOneThread(Homogeneous):
    counts_draws = True


@others
class TestEightThreads(Homogeneous):
    num_threads = 8


class TestMappedEightThreads(InFile, Homogeneous):
    num_threads = 8


@others
class TestCopiedFromFileTwoThreads(InFile, Homogeneous):
    storage = "memory"
    num_threads = 2


class Typed(Ours, HeteroSamplerContract):
    sampler = HeteroNeighborSampler


class TestTypedOneThread(Typed):
    counts_draws = True


@others
class TestTypedEightThreads(Typed):
    num_threads = 8


class TestTypedMappedEightThreads(InFile, Typed):
    num_threads = 8


@others
class TestTypedCopiedFromFileTwoThreads(InFile, Typed):
    storage = "memory"
    num_threads = 2
