"""PyG's own NodeLoader and LinkLoader, driven by our stores and sampler."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from support.pyg import (
    FRESH,
    NUM_NODES,
    VOTES,
    Batch,
    assert_attrs,
    assert_same_batches,
    assert_topology,
    expect,
    make_data,
    make_graph,
    make_stores,
    make_typed,
    mark,
    node_key,
)
from torch_geometric.data import Data
from torch_geometric.loader import LinkNeighborLoader as StockLinkLoader
from torch_geometric.loader import NeighborLoader as StockLoader
from torch_geometric.loader import NodeLoader
from torch_geometric.sampler import NeighborSampler as PyGNeighborSampler

from aethergraph._torch.iteration import next_iteration_key
from aethergraph.loading import partition_aligned_batches
from aethergraph.pyg import NeighborLoader, NeighborSampler, accelerate, as_stores, from_data

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


@pytest.fixture
def _not_warned_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aethergraph.pyg._stock_sampler._has_warned", False)


def pygs_over_data() -> Any:
    return StockLoader(from_data(make_data()), [3], SEEDS, batch_size=4)


def pygs_links_over_data() -> Any:
    links = torch.arange(20).view(2, 10)
    return StockLinkLoader(from_data(make_data()), [3], (None, links), batch_size=4)


def pygs_over_a_graph() -> Any:
    return StockLoader(as_stores(make_graph()), [3], SEEDS, batch_size=4)


def pygs_over_types() -> Any:
    return StockLoader(as_stores(make_typed()), [3], ("post", SEEDS), batch_size=4)


def pygs_by_a_sampler() -> Any:
    stores = from_data(make_data())
    sampler = PyGNeighborSampler(stores, [3])
    return NodeLoader(stores, sampler, SEEDS, batch_size=4)


@pytest.mark.usefixtures("_not_warned_yet")
@pytest.mark.parametrize(
    "make",
    [pygs_over_data, pygs_links_over_data, pygs_over_a_graph, pygs_over_types, pygs_by_a_sampler],
)
def test_pygs_own_sampler_over_our_stores_is_told_of_once(make: Any) -> None:
    for expected in (1, 0):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            loader = make()
        told = [warning for warning in caught if "PyG's own sampler" in str(warning.message)]
        assert [warning.filename for warning in told] == [__file__] * expected
    batch = next(iter(accelerate(loader)))  # what the warning recommends
    edges = batch if isinstance(batch, Data) else batch[VOTES]
    assert len(edges.edge_attr) == len(edges.e_id) > 0


@pytest.mark.usefixtures("_not_warned_yet")
def test_nobody_else_is_told_of_pygs_sampler() -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "PyG's own sampler")
        stores, data = from_data(make_data()), make_data()
        row, _, _ = stores[1].csc()
        assert len(row) == len(stores[1].csr()[1]) == len(stores[1].coo()[0]) == data.num_edges
        list(NodeLoader(stores, NeighborSampler(stores, [3]), SEEDS, batch_size=4))
        list(NeighborLoader(stores, [3], SEEDS, batch_size=4))
        StockLoader(stores, [3], SEEDS, neighbor_sampler=NeighborSampler(stores, [3]))
        StockLoader(data, [3], SEEDS)
