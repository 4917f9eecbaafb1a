"""Batches of PyG that show values of rows that were written after the seed's time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.loader import NodeLoader

from aethergraph import DynamicGraph, Graph, LiveFeatureTable
from aethergraph.pyg import FeatureStore, GraphStore, NeighborLoader, NeighborSampler
from aethergraph.testing import LeakError, check_no_leak

TIMES = np.arange(200).astype("datetime64[s]")


def made(live: bool) -> Any:
    src, dst = np.random.default_rng(0).integers(0, 40, (2, 200))
    if not live:
        return Graph.from_edges(40, src, dst, edge_time=TIMES)
    graph = DynamicGraph(40, 16, order="time", edge_time="datetime64[s]")
    graph.insert_edges(src, dst, time=TIMES)
    return graph


@pytest.mark.parametrize("kind", ["ours", "stock"])
@pytest.mark.parametrize("live", [False, True])
def test_rows_of_later_versions_are_found(kind: str, live: bool) -> None:
    graph = made(live)
    x = LiveFeatureTable.create(None, 40, 3, version_unit="ms", missing="zero")
    x.put_many(np.arange(40), np.ones((40, 3), "f4"), 90_000)
    graph.node_attrs["x"] = x
    y = LiveFeatureTable.create(None, 40, (), "int64", missing="zero")
    y.put_many(np.arange(40), np.arange(40), 150 * 10**9)  # labels of the future
    graph.node_attrs["y"] = y
    options: Any = {
        "input_nodes": torch.arange(30), "input_time": torch.full((30,), 100), "batch_size": 10,
    }  # fmt: skip
    if kind == "ours":
        loader: Any = NeighborLoader(graph, [4, 4], **options)
    else:
        stores = FeatureStore.from_graph(graph), GraphStore(graph)
        loader = NodeLoader(
            stores, NeighborSampler(stores, [4, 4], time_attr="edge_time"), **options
        )
    report = check_no_leak(graph, loader)
    nodes = sum(batch.num_nodes for batch in loader)
    assert report.seeds == 30 and abs(report.rows - nodes) < nodes / 4 and report.undated == ()
    with pytest.raises(LeakError, match=r"row \d+ of 'y' is of version 1970-01-01T00:02:30"):
        check_no_leak(graph, loader, labels=())
    x.put(5, np.zeros(3, "f4"), 100_001)
    with pytest.raises(
        LeakError, match=r"row 5 of .x. is of version 1970-01-01T00:01:40\.001"
    ) as e:
        check_no_leak(graph, loader)
    assert (e.value.what, e.value.attribute, e.value.id, e.value.time) == ("row", "x", 5, 100_001)
    batches = list(loader)
    for batch in batches:
        del batch.x  # what a batch does not show cannot leak
    assert check_no_leak(graph, batches).rows == 0
