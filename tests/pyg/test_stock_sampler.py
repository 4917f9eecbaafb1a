"""PyG's own sampler over our stores is kept from drawing what is later than its seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.sampler import NeighborSampler as PyGNeighborSampler

from aethergraph import DynamicHeteroGraph, Graph, HeteroGraph
from aethergraph.errors import UnsupportedError
from aethergraph.pyg import as_stores

pytestmark = pytest.mark.pyg

WROTE = ("user", "wrote", "post")
TIMES = [1, 9, 3, 4, 20]
INSTEAD = "take aethergraph.pyg.NeighborLoader"


def sampler(graph: Any, time_attr: str) -> PyGNeighborSampler:
    return PyGNeighborSampler(as_stores(graph), [-1], time_attr=time_attr)


def live_posts() -> DynamicHeteroGraph:
    times = {"user": "int64", "post": "int64"}
    graph = DynamicHeteroGraph(
        dict.fromkeys(times, 0), [WROTE], 64, order="time", node_time=times, layout="csc"
    )
    graph["user"].add(5, time=TIMES)
    graph["post"].add(1, time=[5])
    graph[WROTE].insert(np.arange(5), np.zeros(5, np.int64))
    return graph


@pytest.mark.filterwarnings("ignore:PyG's own sampler takes a copy")
def test_lists_of_live_graphs_are_in_the_order_of_times() -> None:
    graph = live_posts()
    for source in (graph, graph.snapshot()):
        row, colptr, perm = as_stores(source)[1].csc()
        assert row[WROTE].tolist() == perm[WROTE].tolist() == [0, 2, 3, 1, 4]
        assert colptr[WROTE].tolist() == [0, 5]
        drawn = sampler(source, "node_time")
        assert drawn.row_dict["user__wrote__post"].tolist() == [0, 2, 3, 1, 4]


@pytest.mark.filterwarnings("ignore:PyG's own sampler takes a copy")
def test_what_would_be_later_is_refused() -> None:
    src, dst = np.arange(5), np.zeros(5, np.int64)
    plain = Graph.from_edges(5, src, dst, node_time=TIMES)
    with pytest.raises(UnsupportedError, match=f"'node_time' for times of edges.*: {INSTEAD}"):
        sampler(plain, "node_time")
    typed = HeteroGraph.from_edges({WROTE: (src, dst)}, {"user": 5, "post": 1})
    for name, times in (("user", TIMES), ("post", [5])):
        typed[name].attrs["stamp"] = np.array(times)
    message = rf"list of node 0 of \('user', .* is not in the order of 'stamp'.*: {INSTEAD}"
    with pytest.raises(UnsupportedError, match=message):
        sampler(typed, "stamp")
    typed["user"].attrs["stamp"] = np.sort(TIMES)
    assert torch.equal(sampler(typed, "stamp").node_time["user"], torch.tensor(sorted(TIMES)))


@pytest.mark.filterwarnings("ignore:PyG's own sampler takes a copy")
def test_times_of_edges_that_are_elsewhere_in_the_lists_are_refused() -> None:
    graph = DynamicHeteroGraph({"user": 5, "post": 2}, [WROTE], 64, order="time", edge_time="int64")
    graph[WROTE].insert([0, 1, 2], [1, 0, 1], time=[1, 2, 3])
    with pytest.raises(UnsupportedError, match=f"edge ids are not places in them: {INSTEAD}"):
        sampler(graph, "edge_time")
