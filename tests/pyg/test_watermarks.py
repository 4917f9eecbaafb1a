"""Seeds capped at the watermark of a live graph: no loader of PyG sees an edge beyond it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.loader import NodeLoader

from aethergraph import DynamicGraph, DynamicHeteroGraph
from aethergraph.pyg import (
    HeteroNeighborSampler,
    LinkNeighborLoader,
    NeighborLoader,
    as_stores,
)

NODES, MARK = 40, 500
KIND = ("node", "to", "node")
LINKS = np.random.default_rng(2).integers(0, NODES, (2, 60))


def filled(typed: bool) -> Any:
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, NODES, (2, 2000))
    times = rng.integers(0, 1000, 2000)
    options: Any = {"order": "time", "edge_time": "int64", "huge_pages": False}
    if typed:
        graph = DynamicHeteroGraph({"node": NODES}, [KIND], 16, **options)
        graph[KIND].insert(src, dst, time=times)
    else:
        graph = DynamicGraph(NODES, 16, **options)
        graph.insert_edges(src, dst, time=times)
    graph.set_watermark("s", MARK)
    return graph


def of_nodes(graph: Any, times: Any) -> Iterator[Any]:
    yield from NeighborLoader(graph, [-1, 3], batch_size=7, input_time=times)


def of_links(graph: Any, times: Any) -> Iterator[Any]:
    yield from LinkNeighborLoader(
        graph, [-1], torch.from_numpy(LINKS), batch_size=9, neg_sampling="binary",
        edge_label_time=np.resize(times, LINKS.shape[1]), num_workers=2,
    )  # fmt: skip


def of_stock_types(graph: Any, times: Any) -> Iterator[Any]:
    stores = as_stores(graph)
    sampler = HeteroNeighborSampler(stores, {KIND: [-1]}, time_attr="edge_time")
    for batch in NodeLoader(
        stores, sampler, ("node", torch.arange(NODES)), input_time=torch.from_numpy(times),
        batch_size=7,
    ):  # fmt: skip
        yield batch[KIND]


@pytest.mark.parametrize(
    ("batches", "typed"),
    [
        (of_nodes, False),
        pytest.param(of_links, False, marks=pytest.mark.forks),
        (of_stock_types, True),
    ],
)
def test_nothing_beyond_it_is_seen(
    batches: Callable[[Any, Any], Iterator[Any]], typed: bool
) -> None:
    graph, ask = filled(typed), np.full(NODES, 10**6)
    lists = graph[KIND] if typed else graph
    times = lists.edge_values["edge_time"]

    def latest(given: Any) -> int:
        seen = torch.cat([batch.e_id for batch in batches(graph, given)])
        assert len(seen)
        return int(times.gather(seen.numpy()).max())

    assert latest(ask) > MARK
    assert latest(graph.cap(ask)) <= MARK
    assert latest(graph.snapshot().cap(torch.from_numpy(ask))) <= MARK
