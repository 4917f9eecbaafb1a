"""PyG's own NodeLoader and LinkLoader, driven by our stores and sampler."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from support.pyg import (
    FRESH,
    NUM_NODES,
    Batch,
    assert_attrs,
    assert_same_batches,
    assert_topology,
    expect,
    make_data,
    make_stores,
    mark,
    node_key,
)
from torch_geometric.loader import NodeLoader

from aethergraph._torch.iteration import next_iteration_key
from aethergraph.loading import partition_aligned_batches
from aethergraph.pyg import NeighborSampler

pytestmark = pytest.mark.pyg

SEEDS = torch.tensor([4, 4, 17, 80, 149, 0, 33, 21, 5, 120])
FANOUTS = [4, 3]

FORK = {"num_workers": 2, "multiprocessing_context": "fork"}


@pytest.mark.parametrize(
    ("workers", "filter_per_worker"),
    [({}, True), (FORK, False), (FRESH, True)],
    ids=["main", "fork", "fresh"],
)
def test_node_loader(workers: dict[str, Any], filter_per_worker: bool) -> None:
    torch.manual_seed(11)
    stores = make_stores()
    graph = stores[1].graph
    loader = NodeLoader(
        stores,
        NeighborSampler(stores, FANOUTS),
        input_nodes=SEEDS,
        batch_size=4,
        transform=mark,
        filter_per_worker=filter_per_worker,
        custom_cls=Batch,
        **workers,
    )
    start = next_iteration_key(None)
    batches = list(loader)
    assert len(batches) == 3
    for number, batch in enumerate(batches):
        seeds = SEEDS[4 * number : 4 * number + 4]
        assert type(batch) is Batch
        assert_topology(batch, expect(graph, seeds, FANOUTS, node_key(seeds, start)))
        assert_attrs(batch, graph, edges=False)
        assert batch.input_id.tolist() == list(range(4 * number, 4 * number + len(seeds)))
        assert batch.batch_size == len(seeds)
        assert batch.marked == batch.num_nodes


def test_data_of_pyg_with_our_sampler() -> None:
    """PyG's loader keeps edge attributes of a Data, and our sampler speaks of its edges."""
    data = make_data()
    assert data.edge_index is not None
    loader = NodeLoader(data, NeighborSampler(data, FANOUTS), SEEDS, batch_size=4)
    for batch in loader:
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
        ends = torch.stack([batch.n_id[batch.edge_index[0]], batch.n_id[batch.edge_index[1]]])
        assert torch.equal(data.edge_index[:, batch.e_id], ends)


def test_aligned_epochs_do_not_depend_on_workers() -> None:
    parts, stores = np.arange(NUM_NODES) // 10, make_stores()
    epochs = []
    for workers in ({}, {"num_workers": 1}):
        batches = partition_aligned_batches(parts, 40, mix=2, seed=1)
        loader = NodeLoader(
            stores, NeighborSampler(stores, [2]), torch.arange(NUM_NODES),
            batch_sampler=batches, **workers,
        )  # fmt: skip
        epochs.append([[batch.input_id.tolist() for batch in loader] for _ in range(2)])
    wanted = partition_aligned_batches(parts, 40, mix=2, seed=1)
    assert epochs[1] == epochs[0] == [list(wanted), list(wanted)]


def test_persistent_workers_see_the_epoch() -> None:
    stores = make_stores()
    sampler = NeighborSampler(stores, FANOUTS, seed=5)
    loader = NodeLoader(
        stores, sampler, SEEDS, batch_size=3, num_workers=1, persistent_workers=True,
        multiprocessing_context="fork",
    )  # fmt: skip
    for epoch in (0, 2, 0):
        sampler.set_epoch(epoch)
        assert_same_batches(loader, NodeLoader(stores, sampler, SEEDS, batch_size=3))
    loader._iterator = None  # ends the workers now; the garbage collector needs seconds


@pytest.mark.skipif(not torch.cuda.is_available(), reason="pinned memory needs a CUDA device")
@pytest.mark.parametrize("num_workers", [0, 1])
def test_pin_memory(num_workers: int) -> None:
    stores = make_stores()
    sampler = NeighborSampler(stores, FANOUTS)
    loader = NodeLoader(
        stores, sampler, SEEDS, batch_size=4, pin_memory=True, num_workers=num_workers
    )
    for batch in loader:
        assert batch.x.is_pinned()
        assert_attrs(batch, stores[1].graph, edges=False)
