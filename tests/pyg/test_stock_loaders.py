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
from torch_geometric.loader import LinkLoader, NodeLoader
from torch_geometric.sampler import NegativeSampling

from aethergraph._torch.iteration import next_iteration_key
from aethergraph.loading import partition_aligned_batches
from aethergraph.pyg import NeighborSampler

pytestmark = pytest.mark.pyg

SEEDS = torch.tensor([4, 4, 17, 80, 149, 0, 33, 21, 5, 120])
FANOUTS = [4, 3]

WORKERS = [
    pytest.param({}, id="main"),
    pytest.param({"num_workers": 2, "multiprocessing_context": "fork"}, id="fork"),
    pytest.param(FRESH, id="fresh"),
]


@pytest.mark.parametrize("filter_per_worker", [True, False])
@pytest.mark.parametrize("workers", WORKERS)
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


def test_masks_and_disjoint() -> None:
    stores = make_stores()
    mask = torch.zeros(NUM_NODES, dtype=torch.bool)
    mask[SEEDS] = True
    sampler = NeighborSampler(stores, [3], disjoint=True)
    loader = NodeLoader(stores, sampler, input_nodes=mask, batch_size=100)
    start = next_iteration_key(None)
    (batch,) = loader
    seeds = mask.nonzero().view(-1)
    assert torch.equal(batch.input_id, seeds)
    wanted = expect(stores[1].graph, seeds, [3], node_key(seeds, start), disjoint=True)
    assert_topology(batch, wanted)


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


def test_edge_tensors_by_a_transform() -> None:
    """What PyG's loader leaves out can be added by its own hook."""
    stores = make_stores()

    def add_edges(batch: Any) -> Any:
        batch.edge_attr = stores[0].get_tensor((None, None), "edge_attr", batch.e_id)
        batch.kind = stores[0].get_tensor((None, None), "kind", batch.e_id)
        return batch

    sampler = NeighborSampler(stores, FANOUTS)
    for batch in NodeLoader(stores, sampler, SEEDS, transform=add_edges, batch_size=4):
        assert_attrs(batch, stores[1].graph)


def run(sampler: NeighborSampler, stores: Any, torch_seed: int, **options: Any) -> list[Any]:
    torch.manual_seed(torch_seed)
    return list(NodeLoader(stores, sampler, input_nodes=SEEDS, batch_size=3, **options))


@pytest.mark.filterwarnings("ignore:seed=5")
def test_draws_do_not_depend_on_workers() -> None:
    """Seeds, epochs and a seed of one's own, in the main process and in workers."""
    stores = make_stores()
    sampler = NeighborSampler(stores, FANOUTS)
    own = NeighborSampler(stores, FANOUTS, seed=5)
    workers = {"num_workers": 2, "multiprocessing_context": "fork"}
    first = run(sampler, stores, 1)
    assert_same_batches(run(sampler, stores, 1, **workers), first)
    wanted = run(own, stores, 1)
    sampler.set_epoch(3)
    third = run(sampler, stores, 1)
    assert_same_batches(run(sampler, stores, 1, **workers), third)
    assert not torch.equal(third[0].e_id, first[0].e_id)
    sampler.set_epoch(0)
    other = run(sampler, stores, 2)
    assert_same_batches(run(sampler, stores, 2, **workers), other)
    assert not torch.equal(other[0].e_id, first[0].e_id)
    assert_same_batches(run(own, stores, 2, **workers), wanted)


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
        assert_same_batches(list(loader), run(sampler, stores, 1))
    loader._iterator = None  # ends the workers now; the garbage collector needs seconds


@pytest.mark.parametrize("mode", ["none", "binary", "triplet"])
@pytest.mark.parametrize("workers", WORKERS[:2])
def test_link_loader(workers: dict[str, Any], mode: str) -> None:
    torch.manual_seed(11)
    stores = make_stores()
    graph = stores[1].graph
    src, dst = (torch.from_numpy(ids[::150].copy()) for ids in graph.edge_index())
    kind = None if mode == "none" else NegativeSampling(mode, 2)
    for filter_per_worker in (True, False):
        loader = LinkLoader(
            stores,
            NeighborSampler(stores, FANOUTS),
            (None, torch.stack([src, dst])),
            edge_label=None if mode == "triplet" else torch.arange(len(src)) % 3,
            neg_sampling=kind,
            batch_size=4,
            filter_per_worker=filter_per_worker,
            **workers,
        )
        for number, batch in enumerate(loader):
            at = slice(4 * number, 4 * number + 4)
            count = len(src[at])
            assert batch.input_id.tolist() == list(range(4 * number, 4 * number + count))
            assert_attrs(batch, graph, edges=False)
            found_src, found_dst = graph.edge_index()
            np.testing.assert_array_equal(found_src[batch.e_id], batch.n_id[batch.edge_index[0]])
            np.testing.assert_array_equal(found_dst[batch.e_id], batch.n_id[batch.edge_index[1]])
            if mode == "triplet":
                ends = batch.src_index, batch.dst_pos_index
                assert batch.dst_neg_index.shape == (count, 2)
            else:
                ends = batch.edge_label_index[0, :count], batch.edge_label_index[1, :count]
                labels = torch.arange(len(src))[at] % 3 + (mode == "binary")
                assert torch.equal(batch.edge_label[:count], labels)
                assert batch.edge_label[count:].tolist() == [0] * (
                    2 * count if mode == "binary" else 0
                )
            assert torch.equal(batch.n_id[ends[0]], src[at])
            assert torch.equal(batch.n_id[ends[1]], dst[at])
        assert number == len(loader) - 1


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
