"""States and shares of our DataLoader for DGL: bit-equal batches in other processes and ranks."""

from __future__ import annotations

import io
from itertools import islice
from typing import Any

import dgl
import numpy as np
import pytest
import torch
from dgl.dataloading.negative_sampler import PerSourceUniform, Uniform
from support.dgl import make_graph, make_typed

from aethergraph.dgl import (
    BatchedSeeds,
    DataLoader,
    GraphStorage,
    NeighborSampler,
    ShaDowKHopSampler,
    as_edge_prediction_sampler,
)
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.loading import Order, partition_aligned_batches

COUNT = 60


def of_nodes(**options: Any) -> DataLoader:
    sampler = NeighborSampler([2, 3], prefetch_node_feats=["x"])
    return DataLoader(GraphStorage(make_graph()), torch.arange(COUNT), sampler, **options)


def of_egos(**options: Any) -> DataLoader:
    return DataLoader(
        GraphStorage(make_graph()), torch.arange(COUNT), ShaDowKHopSampler([2, 2]), **options
    )


def of_links(**options: Any) -> DataLoader:
    sampler = as_edge_prediction_sampler(NeighborSampler([2]), negative_sampler=Uniform(2))
    return DataLoader(
        GraphStorage(make_graph(keep_order=True)), torch.arange(COUNT), sampler, **options
    )


def of_stock_links(**options: Any) -> DataLoader:
    sampler = dgl.dataloading.as_edge_prediction_sampler(
        NeighborSampler([2]), negative_sampler=PerSourceUniform(1)
    )
    return DataLoader(
        GraphStorage(make_graph(keep_order=True)), torch.arange(COUNT), sampler, **options
    )


def of_types(**options: Any) -> DataLoader:
    graph = make_typed()
    seeds = {name: torch.arange(min(40, count)) for name, count in graph.num_nodes.items()}
    return DataLoader(GraphStorage(graph), seeds, NeighborSampler([2, 2]), **options)


KINDS = [of_nodes, of_egos, of_links, of_stock_links, of_types]


def plain(part: Any) -> Any:
    """Everything in a batch as tuples of lists."""
    if torch.is_tensor(part):
        return part.tolist()
    if isinstance(part, dict):
        return {str(name): plain(value) for name, value in part.items()}
    if isinstance(part, dgl.DGLGraph):
        edges = {kind: part.edges(form="all", etype=kind) for kind in part.canonical_etypes}
        ids = {
            kind: part.edges[kind].data[dgl.EID]
            for kind in part.canonical_etypes
            if dgl.EID in part.edges[kind].data
        }
        return [{str(k): [plain(e) for e in v] for k, v in edges.items()}, plain(ids)]
    return [plain(one) for one in part]


def drawn(loader: Any) -> list[Any]:
    return [plain(batch) for batch in loader]


@pytest.mark.parametrize("make", KINDS)
def test_a_loader_goes_on_with_other_workers(make: Any) -> None:
    options = {"batch_size": 8, "shuffle": True, "seed": 3}
    whole = make(**options)
    epochs = [drawn(whole) for _ in range(2)]
    assert epochs[0] != epochs[1]
    running = make(**options)
    batches = iter(running)
    for done in range(len(running)):
        if done:
            assert plain(next(batches)) == epochs[0][done - 1]
        file = io.BytesIO()
        torch.save(running.state_dict(), file)
        file.seek(0)
        torch.manual_seed(done)
        np.random.seed(done)
        other = make(**options, num_workers=done if done in (1, 3) else 0)
        other.load_state_dict(torch.load(file))
        assert drawn(other) == epochs[0][done:]
        if done == 3:
            assert drawn(other) == epochs[1]


def test_batches_of_an_epoch_draw_other_negatives() -> None:
    first, second = (negative for _, _, negative, _ in islice(of_links(batch_size=8, seed=1), 2))
    drawn_ids = [graph.ndata[dgl.NID][graph.edges()[1]].tolist() for graph in (first, second)]
    assert len(drawn_ids[0]) == 16 and drawn_ids[0] != drawn_ids[1]


@pytest.mark.parametrize("make", KINDS)
def test_two_epochs_at_once(make: Any) -> None:
    options = {"batch_size": 8, "shuffle": True, "seed": 3}
    whole, running = make(**options), make(**options)
    epochs = [drawn(whole) for _ in range(2)]
    first, second = iter(running), iter(running)
    assert plain(next(second)) == epochs[1][0]
    assert drawn(first) == epochs[0]
    assert drawn(second) == epochs[1][1:]


@pytest.mark.parametrize("make", KINDS)
def test_the_union_of_the_ranks_is_the_epoch(make: Any) -> None:
    options = {"batch_size": 8, "shuffle": True, "seed": 3}
    wanted = drawn(make(**options))
    ranks = [make(**options, order=Order(rank, 3)) for rank in range(3)]
    dealt = [drawn(loader) for loader in ranks]
    assert [len(own) for own in dealt] == [len(loader) for loader in ranks]
    rounds = [batch for one in zip(*dealt, strict=True) for batch in one]
    assert rounds == wanted + wanted[: len(rounds) - len(wanted)]
    first = make(**options, order=Order(0, 2))
    list(islice(first, 2))
    other = make(**options)
    other.load_state_dict(first.state_dict())
    assert drawn(other) == wanted[4:]


def test_batches_of_few_partitions() -> None:
    parts = np.arange(COUNT) // 6
    loader = of_nodes(batch_size=12, shuffle=True, order=Order(partitions=parts, mix=2), seed=1)
    seeds = [out.numpy() for _, out, _ in loader]
    np.testing.assert_array_equal(np.sort(np.concatenate(seeds)), np.arange(COUNT))
    assert max(len(np.unique(parts[own])) for own in seeds) <= 4


@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_stock_loader_takes_batches_of_few_partitions(num_workers: int) -> None:
    parts = np.arange(COUNT) // 6
    nodes = torch.arange(COUNT).flip(0)
    batches = partition_aligned_batches(parts, 12, mix=2, seed=1)
    loader = dgl.dataloading.DataLoader(
        GraphStorage(make_graph()), BatchedSeeds(nodes, batches), NeighborSampler([2]),
        shuffle=True, num_workers=num_workers,
    )  # fmt: skip
    for epoch in range(2):
        wanted = partition_aligned_batches(parts, 12, mix=2, seed=1)
        wanted.set_epoch(epoch)
        found = [out.tolist() for _, out, _ in loader]
        assert found == [nodes[torch.tensor(own)].tolist() for own in wanted]


def test_without_a_seed_there_are_no_states() -> None:
    for ask in (lambda loader: loader.state_dict(), lambda loader: loader.load_state_dict({})):
        with pytest.raises(UnsupportedError, match="states need a DataLoader with seed="):
            ask(of_nodes(batch_size=8))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"use_ddp": True}, "use_ddp goes without seed"),
        ({"persistent_workers": True, "num_workers": 1}, "persistent_workers goes without seed"),
        ({"generator": torch.Generator()}, "generator goes without seed"),
        ({"batch_size": 0}, "batch_size = 0 is not at least 1"),
        (
            {"order": Order(partitions=np.zeros(3, np.int64))},
            "partitions has 3 items, but there are 60",
        ),
    ],
)
def test_what_contradicts_a_seed_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        of_nodes(**{"seed": 1, "shuffle": True, "batch_size": 8, **options})


@pytest.mark.parametrize("make", [of_links, of_stock_links])
def test_draws_by_torch_s_generator_are_in_the_thread_that_trains(make: Any) -> None:
    assert make(batch_size=8, seed=1).use_prefetch_thread is False
    with pytest.raises(InvalidArgumentError, match="use_prefetch_thread goes without seed"):
        make(batch_size=8, seed=1, use_prefetch_thread=True)


def test_other_arguments_are_refused() -> None:
    state = of_nodes(batch_size=8, seed=1).state_dict()
    for options, message in (
        ({"batch_size": 9, "seed": 1}, "batch_size = '8', this one has '9'"),
        ({"batch_size": 8, "seed": 2}, "seed = '1', this one has '2'"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            of_nodes(**options).load_state_dict(state)
