"""Every topology of ours keeps the contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aethergraph import Graph, HeteroGraph
from aethergraph.testing import AdjacencyContract

VOTES = ("user", "votes", "post")


class Ours(AdjacencyContract):
    supports = {"edge_ids"}
    layout: Any = "csc"

    def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
        return Graph.from_edges(num_nodes, src, dst, layout=self.layout)


class InFile(Ours):
    storage: Any = "mmap"

    @pytest.fixture(autouse=True)
    def use_folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "graph.aeg"

    def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
        super().make(num_nodes, src, dst).save(self.path)
        return Graph.load(self.path, storage=self.storage)


class TestMemory(Ours):
    pass


class TestMemoryBoth(Ours):
    layout = "both"


class TestMapped(InFile):
    pass


class TestMappedBoth(InFile):
    layout = "both"


class TestCopiedFromFile(InFile):
    storage = "memory"


class OneType(Ours):
    """One edge type among several."""

    def num_nodes(self, topology: Any) -> int:
        return int(topology.num_dst)

    def build(self, num_nodes: int, src: Any, dst: Any) -> HeteroGraph:
        return HeteroGraph.from_edges(
            {("post", "answers", "post"): ([0] * min(1, num_nodes),) * 2, VOTES: (src, dst)},
            {"user": num_nodes, "post": num_nodes},
            layout=self.layout,
        )


class TestEdgeView(OneType):
    def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
        return self.build(num_nodes, src, dst)[VOTES]


class TestEdgeViewInFile(OneType):
    layout = "both"

    @pytest.fixture(autouse=True)
    def use_folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "graph.aeg"

    def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
        self.build(num_nodes, src, dst).save(self.path)
        return HeteroGraph.load(self.path)[VOTES]
