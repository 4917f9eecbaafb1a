"""Live graphs and their snapshots keep the contracts of graphs that do not change."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.live import live_with_rows, snapshot_with_rows

from aethergraph import (
    DynamicGraph,
    DynamicHeteroGraph,
    FeatureTable,
    HeteroNeighborSampler,
    NeighborSampler,
)
from aethergraph.testing import (
    AdjacencyContract,
    FeatureSourceContract,
    HeteroSamplerContract,
    SamplerContract,
)

VOTES = ("user", "votes", "post")


# ---- adjacency -----------------------------------------------------------------------------------


class Live(AdjacencyContract):
    """A live graph that nobody changes."""

    supports = {"edge_ids"}
    layout: Any = "csc"
    test_it_pickles = None  # type: ignore[assignment]  # it is in this process

    def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
        return live_with_rows(num_nodes, src, dst, self.layout)


class Snapshots(Live):
    def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
        return snapshot_with_rows(num_nodes, src, dst, self.layout)


class TestLive(Live):
    pass


class TestLiveBoth(Live):
    layout = "both"


class TestSnapshot(Snapshots):
    pass


class TestSnapshotBoth(Snapshots):
    layout = "both"


class TestOneTypeOfALiveGraph(Live):
    def num_nodes(self, topology: Any) -> int:
        return int(topology.num_dst)

    def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
        counts = {"user": num_nodes, "post": num_nodes}
        graph = DynamicHeteroGraph(counts, [("post", "x", "user"), VOTES], 8, order="time")
        graph[VOTES].insert(src, dst)
        return graph[VOTES]


class TestOneTypeOfASnapshot(TestOneTypeOfALiveGraph):
    def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
        self.kept = super().make(num_nodes, src, dst)
        return self.kept._graph.snapshot()[VOTES]


# ---- samplers ------------------------------------------------------------------------------------


class OverLive:
    """Samplers over a live graph with the edges of the one that is given, under their ids."""

    supports = {
        "replace", "disjoint", "induced", "bidirectional", "weight", "time", "last", "strict",
        "window", "exclude",
    }  # fmt: skip
    exact = True
    sampler: Any
    test_it_pickles = None  # it is in this process

    @pytest.fixture(autouse=True)
    def prepare(self) -> None:
        self.copies: dict[int, Any] = {}

    def instances(self, floats: bool = False) -> Iterator[Any]:
        """Yield graphs; live ones keep no times that are floats."""
        return iter(()) if floats else super().instances()  # type: ignore[misc]

    def make(self, graph: Any, fanouts: Any, **options: Any) -> Any:
        if id(graph) not in self.copies:  # one: each reserves address space for 2^32 nodes
            self.copies = {id(graph): (self.copy(graph), graph)}
        return self.sampler(self.copies[id(graph)][0], fanouts, **options)

    def copy(self, graph: Any) -> Any:
        """Return the live graph."""
        raise NotImplementedError


class TestSamplers(OverLive, SamplerContract):
    sampler = NeighborSampler

    def copy(self, graph: Any) -> Any:
        return DynamicGraph.from_graph(graph)


# A live graph gives a sampler its latest snapshot.
of_snapshots = pytest.mark.skipif(
    "AETHERGRAPH_SOAK" not in os.environ, reason="as of live graphs: ./scripts/test.sh soak"
)


@of_snapshots
class TestSamplersOfSnapshots(TestSamplers):
    def copy(self, graph: Any) -> Any:
        return super().copy(graph).snapshot()


class TestTypedSamplers(OverLive, HeteroSamplerContract):
    sampler = HeteroNeighborSampler

    def copy(self, graph: Any) -> Any:
        forms = {
            kind: {
                "edge_time": None if graph[kind].edge_time is None else "int64",
                "edge_weight": None if graph[kind].edge_weight is None else "float32",
            }
            for kind in graph.edge_types
        }
        live = DynamicHeteroGraph(graph.num_nodes, forms, 8, order="time", layout="csc")
        for kind in graph.edge_types:
            edges = graph[kind]
            live[kind].insert(*edges.edge_index(), time=edges.edge_time, weight=edges.edge_weight)
        return live


@of_snapshots
class TestTypedSamplersOfSnapshots(TestTypedSamplers):
    def copy(self, graph: Any) -> Any:
        return super().copy(graph).snapshot()


# ---- rows ----------------------------------------------------------------------------------------


class TestRowsOfNodes(FeatureSourceContract):
    """Rows of which some were added and some were changed."""

    dtypes = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "bool")
    test_it_pickles = None  # type: ignore[assignment]  # it is in this process

    def fill(self, rows: Any, dtype: str) -> DynamicGraph:
        begin = len(rows) // 2
        graph = DynamicGraph(begin, 1, max_nodes=5000)
        store = FeatureTable.from_array(rows[:begin], dtype=dtype if dtype == "bfloat16" else None)
        graph.node_attrs["x"] = store
        graph.add_nodes(len(rows) - begin, x=rows[begin:])
        changed = np.arange(0, len(rows), 3)
        graph.update_nodes(changed, x=rows[changed][::-1])
        graph.update_nodes(changed, x=rows[changed])
        return graph

    def make(self, rows: Any, dtype: str) -> Any:
        return self.fill(rows, dtype).features


class TestRowsOfASnapshot(TestRowsOfNodes):
    def make(self, rows: Any, dtype: str) -> Any:
        graph = self.fill(rows, dtype)
        snapshot = graph.snapshot()
        graph.update_nodes(np.arange(len(rows)), x=np.zeros_like(rows))
        return snapshot.features


class TestRowsOfEdges(TestRowsOfNodes):
    def make(self, rows: Any, dtype: str) -> Any:
        graph = DynamicGraph(
            2, 8, order="time", edge_attrs={"e": (rows.shape[1:], dtype)}, max_nodes=2
        )
        for some in np.array_split(np.arange(len(rows)), 2):
            ends = np.zeros(len(some), np.int64)
            graph.insert_edges(ends, ends, edge_attrs={"e": rows[some]})
        return graph.edge_attrs["e"]
