"""``accelerate(loader)``: the batches of our loader with the options that PyG's was made with."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch_geometric.loader as pyg_loader
import torch_geometric.typing
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler, SubsetRandomSampler
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import BaseSampler, NegativeSampling
from torch_geometric.sampler import NeighborSampler as PyGNeighborSampler

import aethergraph.pyg as ours
from aethergraph.errors import InvalidArgumentError, UnsupportedError

pytestmark = pytest.mark.filterwarnings("ignore:Using 'NeighborSampler' without a 'pyg-lib'")


@pytest.fixture(autouse=True)
def _constructed_without_pyg_lib(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let PyG make samplers by weights and times of edges, which then do not draw."""
    monkeypatch.setattr(torch_geometric.typing, "WITH_WEIGHTED_NEIGHBOR_SAMPLE", True)
    monkeypatch.setattr(torch_geometric.typing, "WITH_EDGE_TIME_NEIGHBOR_SAMPLE", True)


CITES, WRITES = ("paper", "cites", "paper"), ("author", "writes", "paper")


def make_data() -> Data:
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(60, (2, 500), generator=generator)
    return Data(
        x=torch.rand(60, 3, generator=generator),
        y=torch.arange(60),
        edge_index=ends,
        train_mask=torch.arange(60) % 3 == 0,
        edge_attr=torch.rand(500, 2, generator=generator),
        weight=torch.rand(500, generator=generator),
        other_weight=torch.rand(500, generator=generator),
        node_day=torch.randint(20, (60,), generator=generator),
        edge_day=torch.randint(20, (500,), generator=generator),
    )


def make_typed_data() -> HeteroData:
    generator = torch.Generator().manual_seed(1)
    data = HeteroData()
    data["paper"].x = torch.rand(40, 3, generator=generator)
    data["paper"].day = torch.randint(20, (40,), generator=generator)
    data["author"].x = torch.rand(30, 2, generator=generator)
    data["author"].day = torch.randint(20, (30,), generator=generator)
    for kind, count in ((CITES, 40), (WRITES, 30)):
        data[kind].edge_index = torch.stack(
            (torch.randint(count, (200,), generator=generator),
             torch.randint(40, (200,), generator=generator))
        )  # fmt: skip
        data[kind].weight = torch.rand(200, generator=generator)
        data[kind].edge_day = torch.randint(20, (200,), generator=generator)
    return data


def fields(batch: Any) -> Iterator[tuple[Any, Any]]:
    for store in batch.stores:
        for name, value in store.items():
            yield (store._key, name), value


def assert_same(batches: Any, expected: Any) -> None:
    """Assert that two loaders give the same batches, bit by bit, from the same generator."""
    torch.manual_seed(7)
    left = list(batches)
    torch.manual_seed(7)
    right = list(expected)
    assert len(left) == len(right) > 0
    for batch, other in zip(left, right, strict=True):
        values = dict(fields(other))
        assert dict.fromkeys(values) == dict.fromkeys(dict(fields(batch)))
        for key, value in fields(batch):
            if isinstance(value, torch.Tensor):
                assert value.dtype == values[key].dtype, key
                assert torch.equal(value, values[key]), key
            else:
                assert value == values[key], key


def seeds_first(batch: Data) -> Data:
    batch.marked = True
    return batch


NODE_OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "of a mask": {"input_nodes": "mask"},
    "given ids, shuffled": {"input_nodes": torch.arange(5, 40), "shuffle": True},
    "replace": {"replace": True},
    "disjoint": {"disjoint": True},
    "induced": {"subgraph_type": "induced"},
    "bidirectional": {"subgraph_type": "bidirectional"},
    "weights": {"weight_attr": "weight"},
    "other weights": {"weight_attr": "other_weight"},
    "times of nodes": {"time_attr": "node_day", "input_time": torch.full((60,), 12)},
    "times of edges": {"time_attr": "edge_day", "input_time": torch.full((60,), 12)},
    "last": {
        "time_attr": "edge_day", "input_time": torch.full((60,), 12), "temporal_strategy": "last",
    },
    "transform": {"transform": seeds_first},
    "workers": {"num_workers": 2, "shuffle": True},
    "rows fetched here": {"num_workers": 1, "filter_per_worker": False},
    "the last batch left out": {"drop_last": True, "shuffle": True},
    "a sampler of seeds": {"sampler": SubsetRandomSampler(range(0, 60, 2))},
    "seeds drawn with replacement": {"sampler": RandomSampler(range(60), True, 25)},
    "batches of a sampler": {
        "batch_sampler": BatchSampler(SequentialSampler(range(33)), 7, False), "batch_size": 1,
    },
    "a generator": {"generator": 3, "shuffle": True},
    "ids of seeds": {"input_nodes": torch.arange(10), "input_id": torch.arange(10) + 100},
}  # fmt: skip


@pytest.mark.parametrize("name", NODE_OPTIONS)
def test_node_loaders_give_the_batches_of_ours_with_the_same_options(name: str) -> None:
    data = make_data()

    def options() -> dict[str, Any]:
        given = {"batch_size": 16, **NODE_OPTIONS[name]}
        if "generator" in given:
            given["generator"] = torch.Generator().manual_seed(given["generator"])
        if given.get("input_nodes") == "mask":
            given["input_nodes"] = data.train_mask
        return given

    stock = pyg_loader.NeighborLoader(data, [4, 3], **options())
    state = torch.get_rng_state()
    faster = ours.accelerate(stock)
    assert torch.equal(state, torch.get_rng_state())
    assert type(faster) is ours.NeighborLoader
    assert_same(faster, ours.NeighborLoader(data, [4, 3], **options()))


def test_seeds_come_in_the_order_of_the_loader() -> None:
    generator = torch.Generator().manual_seed(3)
    stock = pyg_loader.NeighborLoader(
        make_data(), [4], batch_size=16, shuffle=True, drop_last=True, generator=generator
    )
    torch.empty((), dtype=torch.int64).random_(generator=generator)  # torch's iterators draw this
    order = [torch.tensor(numbers) for numbers in stock.batch_sampler]
    generator.manual_seed(3)
    for batch, numbers in zip(ours.accelerate(stock), order, strict=True):
        assert torch.equal(batch.input_id, numbers)


@pytest.mark.parametrize(
    "options",
    [
        {"input_nodes": "paper"},
        {"input_nodes": ("author", torch.arange(4, 20)), "shuffle": True},
        {"input_nodes": "paper", "weight_attr": "weight"},
        {"input_nodes": "paper", "time_attr": "day", "input_time": torch.full((40,), 9)},
        {"input_nodes": "paper", "time_attr": "edge_day", "input_time": torch.full((40,), 9)},
    ],
)
@pytest.mark.parametrize("fanouts", [[4, 3], {CITES: [4, 3], WRITES: [2, 1]}])
def test_typed_loaders(options: dict[str, Any], fanouts: Any) -> None:
    data = make_typed_data()
    stock = pyg_loader.NeighborLoader(data, fanouts, batch_size=16, **options)
    assert_same(
        ours.accelerate(stock), ours.NeighborLoader(data, fanouts, batch_size=16, **options)
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"neg_sampling": "binary", "edge_label": torch.arange(500) % 3},
        {"neg_sampling": NegativeSampling("triplet", 2)},
        {"neg_sampling_ratio": 1.0, "shuffle": True},
        {"edge_label_index": torch.arange(40).view(2, 20), "edge_label": torch.ones(20)},
        {"time_attr": "edge_day", "edge_label_time": torch.full((500,), 9)},
        {"edge_label_index": torch.arange(40).view(2, 20), "input_id": torch.arange(20) + 7},
    ],
)
def test_link_loaders(options: dict[str, Any]) -> None:
    data = make_data()
    stock = pyg_loader.LinkNeighborLoader(data, [4, 3], batch_size=50, **options)
    faster = ours.accelerate(stock)
    assert type(faster) is ours.LinkNeighborLoader
    assert_same(faster, ours.LinkNeighborLoader(data, [4, 3], batch_size=50, **options))


def test_links_of_a_type() -> None:
    data = make_typed_data()
    options: dict[str, Any] = {"edge_label_index": (WRITES, None), "batch_size": 50}
    stock = pyg_loader.LinkNeighborLoader(data, [4, 3], neg_sampling="binary", **options)
    assert_same(
        ours.accelerate(stock),
        ours.LinkNeighborLoader(data, [4, 3], neg_sampling="binary", **options),
    )


def test_the_general_loaders_with_a_sampler() -> None:
    data = make_data()
    known = inspect.signature(PyGNeighborSampler).parameters
    turned: Any = {"sample_direction": "backward"} if "sample_direction" in known else {}
    sampler = PyGNeighborSampler(data, [4, 3], **turned)
    assert_same(
        ours.accelerate(pyg_loader.NodeLoader(data, sampler, batch_size=16)),
        ours.NeighborLoader(data, [4, 3], batch_size=16, **turned),
    )
    assert_same(
        ours.accelerate(
            pyg_loader.LinkLoader(data, PyGNeighborSampler(data, [4, 3]), batch_size=50)
        ),
        ours.LinkNeighborLoader(data, [4, 3], batch_size=50),
    )


def test_stock_loaders_over_stores_of_ours() -> None:
    stores = ours.from_data(make_data())
    nodes = torch.arange(60)
    for sampler in (
        ours.NeighborSampler(stores, [4, 3], seed=5),
        ours.NeighborSampler(stores, [4, 3]),
    ):
        stock = pyg_loader.NodeLoader(stores, sampler, nodes, batch_size=16)
        faster = ours.accelerate(stock)
        assert faster.node_sampler is sampler
        torch.manual_seed(0)
        expected = [batch.n_id for batch in stock]
        torch.manual_seed(0)
        assert all(map(torch.equal, expected, (batch.n_id for batch in faster)))


def test_hgt_samplers_of_ours() -> None:
    stores = ours.from_data(make_typed_data())
    sampler = ours.HGTSampler(stores, [8, 8])
    stock = pyg_loader.NodeLoader(stores, sampler, ("paper", torch.arange(40)), batch_size=16)
    assert ours.accelerate(stock).node_sampler is sampler


@pytest.mark.parametrize("nodes", [[True, False, True], np.arange(60) % 3 == 0, [2.0, 5.0]])
def test_seeds_are_those_that_pyg_has_read(nodes: Any) -> None:
    stock = pyg_loader.NeighborLoader(make_data(), [2], nodes, batch_size=60)
    (batch,) = ours.accelerate(stock)
    assert batch.n_id[: len(nodes)].tolist() == list(map(int, nodes))


def shadow_loader(data: Data, **options: Any) -> Any:
    """Make PyG's ``ShaDowKHopSampler`` where torch-sparse is missing: without its sparse matrix."""
    loader = pyg_loader.ShaDowKHopSampler.__new__(pyg_loader.ShaDowKHopSampler)
    loader.data, loader.depth, loader.num_neighbors = copy.copy(data), 2, 3
    loader.replace, loader.is_sparse_tensor = False, False
    loader.node_idx = torch.arange(10, 40)
    torch.utils.data.DataLoader.__init__(
        loader, loader.node_idx.tolist(), collate_fn=loader.__collate__, **options
    )
    return loader


def test_shadow() -> None:
    data = make_data()
    options: dict[str, Any] = {"batch_size": 8, "shuffle": True}
    assert_same(
        ours.accelerate(shadow_loader(data, **options)),
        ours.ShaDowKHopSampler(data, 2, 3, torch.arange(10, 40), **options),
    )


def test_options_of_ours_are_added_and_replace() -> None:
    stock = pyg_loader.NeighborLoader(make_data(), [4, 3], batch_size=16)
    faster = ours.accelerate(stock, ahead=5, seed=4, batch_size=8)
    assert (faster.ahead.batches, faster.seed, faster.batch_size) == (5, 4, 8)
    assert ours.accelerate(faster) is faster


class OfAUser(pyg_loader.NeighborLoader):
    """A loader that may do anything."""


class DrawsNothing(BaseSampler):
    """A sampler of a user."""

    def sample_from_nodes(self, index: Any) -> Any:
        raise NotImplementedError

    sample_from_edges = sample_from_nodes


def over_adj_t() -> Any:
    """Make a loader whose data holds edges in ``adj_t``, which needs torch-sparse if made first."""
    data = make_data()
    loader = pyg_loader.NeighborLoader(data, [2])
    data.adj_t = torch.eye(60).to_sparse_csr()
    del data.edge_index
    return loader


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OfAUser(make_data(), [2]), "derived from NeighborLoader.*pyg.NeighborLoader"),
        (lambda: pyg_loader.DataLoader([make_data()]), "DataLoader, and only NodeLoader"),
        (lambda: [1, 2], "builtins.list, and only"),
        (lambda: pyg_loader.NodeLoader(make_data(), DrawsNothing()), "samples by a .*DrawsNothing"),
        (over_adj_t, "adj_t"),
    ],
)
def test_what_cannot_be_replaced_is_named(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        ours.accelerate(make())


def test_a_loader_with_a_function_of_the_user_is_refused() -> None:
    loader = pyg_loader.NeighborLoader(make_data(), [2])
    loader.__dict__["collate_fn"] = len
    with pytest.raises(UnsupportedError, match="collate_fn of its own"):
        ours.accelerate(loader)


def test_a_loader_of_ours_takes_no_options_afterwards() -> None:
    with pytest.raises(UnsupportedError, match="give it ahead when it is made"):
        ours.accelerate(ours.NeighborLoader(make_data(), [2]), ahead=3)


def test_weights_that_the_data_no_longer_has() -> None:
    data = make_data()
    stock = pyg_loader.NeighborLoader(data, [2], weight_attr="weight", batch_size=16)
    kept = data.weight
    del data.weight
    with pytest.raises(InvalidArgumentError, match="give weight_attr="):
        ours.accelerate(stock)
    data.renamed = kept
    assert_same(
        ours.accelerate(stock, weight_attr="renamed"),
        ours.NeighborLoader(data, [2], weight_attr="renamed", batch_size=16),
    )


@pytest.mark.filterwarnings("ignore:Cannot convert to bidirectional graph")
@pytest.mark.parametrize("subgraph_type", ["directional", "bidirectional"])
@pytest.mark.parametrize("typed", [False, True])
def test_batches_have_the_keys_and_dtypes_of_pygs(typed: bool, subgraph_type: str) -> None:
    pytest.importorskip("pyg_lib", reason="PyG samples by pyg-lib: build it from its sources")
    data: Any = make_typed_data() if typed else make_data()
    nodes: Any = ("paper", torch.arange(40)) if typed else torch.arange(60)
    options: dict[str, Any] = {"batch_size": 16, "subgraph_type": subgraph_type}
    stock = pyg_loader.NeighborLoader(data, [-1, -1], nodes, **options)
    for batch, expected in zip(ours.accelerate(stock), stock, strict=True):
        mine, its = dict(fields(batch)), dict(fields(expected))
        assert its.keys() == mine.keys()
        for key, value in its.items():
            assert type(mine[key]) is type(value), key
            if isinstance(value, torch.Tensor):
                assert (mine[key].dtype, mine[key].shape) == (value.dtype, value.shape), key
        if not typed:
            assert joined_pairs(batch) == joined_pairs(expected)
            if subgraph_type != "bidirectional":
                assert sorted(batch.e_id.tolist()) == sorted(expected.e_id.tolist())


def joined_pairs(batch: Data) -> list[list[int]]:
    """Return source and destination of each edge of a batch, sorted."""
    ends: list[list[int]] = batch.n_id[batch.edge_index].T.tolist()
    return sorted(ends)


def test_a_pair_of_a_bidirectional_sample_has_an_edge_that_joins_it() -> None:
    data = make_data()
    data.edge_index = data.edge_index % 9  # some pairs have many edges, in both directions
    joining: dict[tuple[int, int], set[int]] = {}
    for number, (source, target) in enumerate(data.edge_index.T.tolist()):
        for pair in ((source, target), (target, source)):
            joining.setdefault(pair, set()).add(number)
    stock = pyg_loader.NeighborLoader(
        data, [-1], torch.arange(9), batch_size=9, subgraph_type="bidirectional"
    )
    (batch,) = ours.accelerate(stock)
    assert joined_pairs(batch) == sorted(map(list, joining))
    for pair, number in zip(
        batch.n_id[batch.edge_index].T.tolist(), batch.e_id.tolist(), strict=True
    ):
        assert number in joining[tuple(pair)]
    assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
