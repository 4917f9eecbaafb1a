"""Our NeighborLoader and LinkNeighborLoader: PyG's, and what they do beyond."""

from __future__ import annotations

import gc
import inspect
import itertools
import os
import pickle
import threading
import time
import warnings
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pyg.test_sampler import EvenOnly
from support.pyg import (
    FRESH,
    NUM_EDGES,
    NUM_NODES,
    Batch,
    assert_attrs,
    assert_same_batches,
    assert_topology,
    expect,
    make_data,
    make_graph,
    make_stores,
    mark,
)
from torch import Tensor
from torch.utils.data import BatchSampler, SubsetRandomSampler
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import LinkNeighborLoader as PyGLinkNeighborLoader
from torch_geometric.loader import NeighborLoader as PyGNeighborLoader
from torch_geometric.loader import NodeLoader, ZipLoader
from torch_geometric.sampler import BaseSampler, NegativeSampling, SamplerOutput
from torch_geometric.testing import MyFeatureStore, MyGraphStore

from aethergraph import DynamicGraph, Graph, HeteroGraph, errors
from aethergraph._torch import tensors
from aethergraph._torch.iteration import next_iteration_key
from aethergraph.loading import Ahead
from aethergraph.pyg import (
    FeatureStore,
    GraphStore,
    LinkNeighborLoader,
    NeighborLoader,
    NeighborSampler,
    _loading,
)
from aethergraph.sampling.keys import hash_ids, mix_key

pytestmark = pytest.mark.pyg

FANOUTS = [4, 3]
GRAPH = make_graph()
SEEDS = torch.tensor([4, 4, 17, 80, 149, 0, 33, 21, 5, 120])


def loader_key(start: int, seeds: Tensor) -> int:
    return mix_key(start, 0, hash_ids(seeds.numpy()))


@pytest.mark.parametrize(("ahead", "disjoint"), [(0, True), (3, False)])
def test_every_field(ahead: int, disjoint: bool) -> None:
    torch.manual_seed(8)
    start = next_iteration_key(None)
    loader = NeighborLoader(
        GRAPH, FANOUTS, SEEDS, batch_size=4, disjoint=disjoint, transform=mark, custom_cls=Batch,
        ahead=ahead,
    )  # fmt: skip
    assert len(loader) == 3
    batches = list(loader)
    assert len(batches) == 3
    for number, batch in enumerate(batches):
        seeds = SEEDS[4 * number : 4 * number + 4]
        key = loader_key(start, seeds)
        assert_topology(batch, expect(GRAPH, seeds, FANOUTS, key, disjoint=disjoint))
        assert_attrs(batch, GRAPH)
        assert batch.input_id.tolist() == list(range(4 * number, 4 * number + len(seeds)))
        assert batch.batch_size == len(seeds)
        assert "seed_time" not in batch
        assert type(batch) is Batch
        assert batch.marked == batch.num_nodes
        batch.validate()


def test_they_are_pygs_loaders() -> None:
    loader = NeighborLoader(GRAPH, FANOUTS)
    assert isinstance(loader, PyGNeighborLoader)
    assert isinstance(loader, NodeLoader)
    assert isinstance(LinkNeighborLoader(GRAPH, FANOUTS), PyGLinkNeighborLoader)
    for ours, theirs in (
        (NeighborLoader, PyGNeighborLoader), (LinkNeighborLoader, PyGLinkNeighborLoader),
    ):  # fmt: skip
        names = [n for n in inspect.signature(theirs).parameters if n != "kwargs"]
        assert list(inspect.signature(ours).parameters)[: len(names)] == names
    assert loader.data.num_nodes == NUM_NODES
    assert torch.equal(loader.data.x, torch.from_numpy(np.array(GRAPH.node_attrs["x"].array)))
    with pytest.raises(AttributeError, match="'pos'"):
        loader.data.pos


# ---- seeds and epochs ------------------------------------------------------------------------


def epochs(count: int = 3, **options: Any) -> list[Any]:
    """Several epochs of a new loader, the seed set before."""
    torch.manual_seed(3)
    loader = NeighborLoader(GRAPH, FANOUTS, SEEDS, batch_size=4, **options)
    return [batch for _ in range(count) for batch in loader]


def test_batches_are_the_same_for_every_kind_of_worker() -> None:
    wanted = epochs(shuffle=True)
    fork = {"num_workers": 2, "multiprocessing_context": "fork"}
    for options in (
        {"ahead": 0},
        {"ahead": Ahead(5, threads=3)},
        {**fork},
        {**fork, "filter_per_worker": False},
        {**fork, "persistent_workers": True},
        {**fork, "persistent_workers": True, "filter_per_worker": False},
    ):
        assert_same_batches(epochs(shuffle=True, **options), wanted)


def test_a_generator_of_ones_own() -> None:
    def run(**options: Any) -> list[Any]:
        generator = torch.Generator().manual_seed(6)
        loader = NeighborLoader(
            GRAPH, FANOUTS, SEEDS, batch_size=4, shuffle=True, generator=generator, **options
        )
        return [batch for _ in range(2) for batch in loader]

    torch.manual_seed(1)
    wanted = run()
    torch.manual_seed(2)
    assert_same_batches(run(), wanted)
    assert_same_batches(run(**FRESH, persistent_workers=True), wanted)


def test_seeds_come_in_the_order_of_pygs_loader() -> None:
    """Nothing more is drawn from torch's generator than the stock loader draws."""
    stores = make_stores()
    for workers in ({}, {"num_workers": 1, "multiprocessing_context": "fork"}):
        orders, states = [], []
        for make in (
            lambda **o: NodeLoader(stores, NeighborSampler(stores, [1]), SEEDS, **o),
            lambda **o: NeighborLoader(stores, [1], SEEDS, **o),
        ):
            torch.manual_seed(5)
            loader = make(batch_size=4, shuffle=True, **workers)
            orders.append([b.input_id.tolist() for _ in range(2) for b in loader])
            states.append(torch.get_rng_state())
        assert orders[0] == orders[1]
        assert torch.equal(states[0], states[1])


def test_seed_makes_a_run_independent_of_torchs_generator() -> None:
    def run(torch_seed: int, epoch: int = 0, **options: Any) -> list[Any]:
        torch.manual_seed(torch_seed)
        loader = NeighborLoader(GRAPH, FANOUTS, SEEDS, batch_size=4, seed=9, **options)
        loader.set_epoch(epoch)
        return [batch for _ in range(2) for batch in loader]

    wanted = run(1)
    assert_same_batches(run(2), wanted)
    assert_same_batches(run(2, num_workers=1, multiprocessing_context="fork"), wanted)
    assert wanted[0].e_id.tolist() != wanted[3].e_id.tolist()
    assert_same_batches(run(3, epoch=1)[:3], wanted[3:])
    seeds = SEEDS[:4]
    assert_topology(wanted[0], expect(GRAPH, seeds, FANOUTS, loader_key(mix_key(9, 0), seeds)))


def test_iterators_in_threads() -> None:
    loader = NeighborLoader(GRAPH, FANOUTS, SEEDS, batch_size=2, seed=7)
    begun = [iter(loader) for _ in range(3)]
    found: list[list[Any]] = [[] for _ in begun]
    turn = threading.Barrier(len(begun))

    def run(number: int) -> None:
        for batch in begun[number]:
            turn.wait(60)  # the others are in the middle of theirs
            found[number].append(batch)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(begun))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    loader.set_epoch(0)
    for batches in found:
        assert_same_batches(batches, list(loader))


# ---- prefetching -----------------------------------------------------------------------------


def prefetch_threads() -> int:
    return sum(t.name == "aethergraph-prefetch" for t in threading.enumerate())


def test_leaving_early_stops_the_threads() -> None:
    loader = NeighborLoader(GRAPH, FANOUTS, batch_size=2, ahead=Ahead(4, threads=2))
    for batch in itertools.islice(loader, 3):
        assert batch.batch_size == 2
    for _ in loader:
        assert prefetch_threads() == 2
        break
    iterator = iter(loader)
    next(iterator)
    del iterator
    gc.collect()
    assert prefetch_threads() == 0
    assert len(list(loader)) == NUM_NODES // 2
    assert prefetch_threads() == 0


def test_an_error_comes_at_its_batch() -> None:
    data = make_data()
    loader = NeighborLoader(data, [2], SEEDS.clone(), batch_size=2, ahead=3)
    loader.input_data.node[5] = NUM_NODES + 5  # behind the constructor's back
    iterator = iter(loader)
    assert [next(iterator).batch_size for _ in range(2)] == [2, 2]
    with pytest.raises(errors.OutOfRangeError, match=r"seeds\[1\] = 155"):
        next(iterator)
    with pytest.raises(StopIteration):
        next(iterator)
    assert prefetch_threads() == 0


def test_transforms_run_in_the_thread_that_iterates() -> None:
    threads = set()

    def note(value: Any) -> Any:
        threads.add(threading.get_ident())
        return value

    wanted = epochs(1)
    assert_same_batches(epochs(1, transform=note, transform_sampler_output=note), wanted)
    assert threads == {threading.get_ident()}


@pytest.mark.parametrize("name", ["transform", "transform_sampler_output"])
@pytest.mark.parametrize("workers", [{}, {"num_workers": 1, "multiprocessing_context": "fork"}])
def test_a_transform_does_not_end_the_epoch(name: str, workers: dict[str, Any]) -> None:
    def stop(value: Any) -> Any:
        return next(iter(()))

    loader = NeighborLoader(GRAPH, FANOUTS, SEEDS, **{name: stop}, **workers)
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        next(iter(loader))


def test_transform_sampler_output_comes_before_features() -> None:
    def drop(out: SamplerOutput) -> SamplerOutput:
        out.node = out.node[: out.num_sampled_nodes[0]]
        out.row = out.col = out.edge = torch.empty(0, dtype=torch.int64)
        return out

    for workers in ({}, {"num_workers": 1, "multiprocessing_context": "fork"}):
        batch = next(iter(NeighborLoader(
            GRAPH, FANOUTS, SEEDS, batch_size=10, transform_sampler_output=drop, **workers
        )))  # fmt: skip
        assert torch.equal(batch.n_id, SEEDS)
        assert batch.x.shape == (10, 8)
        assert batch.edge_attr.shape == (0, 3)


def test_sampling_runs_ahead() -> None:
    started = []

    class Slow(NeighborSampler):
        def sample_from_nodes(self, index: Any, **options: Any) -> SamplerOutput:
            started.append(time.perf_counter())
            return super().sample_from_nodes(index, **options)

    sampler = Slow(GRAPH, [2])
    loader = NeighborLoader(GRAPH, [2], SEEDS, neighbor_sampler=sampler, ahead=4)
    iterator = iter(loader)
    next(iterator)
    deadline = time.perf_counter() + 60
    while len(started) < 5 and time.perf_counter() < deadline:
        time.sleep(0.005)
    assert len(started) == 5
    time.sleep(0.02)
    assert len(started) == 5  # and no further


def test_batches_may_be_kept() -> None:
    """Recycled memory is never taken from a batch, or from a view of it, that is alive."""
    graph = make_graph()
    wide = np.random.default_rng(0).random((NUM_NODES, 2000), dtype=np.float32)
    graph.features = wide
    loader = NeighborLoader(graph, [5, 5], batch_size=16, shuffle=True)
    kept = []
    for _ in range(2):
        for number, batch in enumerate(loader):
            kept.append((batch.x[3:5] if number % 2 else batch.x, batch.n_id.clone()))
    for number, (x, n_id) in enumerate(kept):
        ids = n_id[3:5] if number % (len(kept) // 2) % 2 else n_id
        np.testing.assert_array_equal(x, wide[ids])


def test_a_loader_is_freed_at_once() -> None:
    """No cycles: memory, threads and persistent workers do not wait for the garbage collector."""
    fork = {"num_workers": 1, "multiprocessing_context": "fork", "persistent_workers": True}
    gc.collect()
    gc.disable()
    try:
        for options in ({}, {"ahead": 0}, fork, {**fork, "filter_per_worker": False}):
            loader = NeighborLoader(GRAPH, [2], SEEDS, batch_size=4, **options)
            assert len(list(loader)) == 3
            gone = weakref.ref(loader)
            del loader
            assert gone() is None, options
            count = sum(1 for _ in NeighborLoader(GRAPH, [2], SEEDS, batch_size=4, **options))
            assert count == 3
    finally:
        gc.enable()


def test_a_loader_over_files_pickles_by_their_paths(tmp_path: Path) -> None:
    """What a spawned worker gets: not the arrays."""
    graph = make_graph()
    graph.features = np.ones((NUM_NODES, 5000), np.float32)
    graph.save(tmp_path / "graph.bin")
    loader = NeighborLoader(tmp_path / "graph.bin", FANOUTS, SEEDS, batch_size=4, seed=1)
    wanted = list(loader)
    data = pickle.dumps(loader)
    assert len(data) < 20_000
    other = pickle.loads(data)
    other.set_epoch(0)
    assert_same_batches(list(other), wanted)
    assert wanted[0].x.shape[1] == 5000


# ---- what a loader may be given --------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "ids", "input_id"),
    [
        (None, range(NUM_NODES), None),
        (slice(None, None, 7), range(0, NUM_NODES, 7), range(0, NUM_NODES, 7)),
        (slice(-3, None), range(147, 150), range(147, 150)),
        ([5, 1, 5], [5, 1, 5], range(3)),
        (range(3, 6), [3, 4, 5], range(3)),
        (np.array([5, 1], np.uint16), [5, 1], range(2)),
        (torch.tensor([5, 1], dtype=torch.int32), [5, 1], range(2)),
        (torch.arange(NUM_NODES) % 50 == 1, [1, 51, 101], [1, 51, 101]),
        (np.arange(NUM_NODES) % 50 == 1, [1, 51, 101], [1, 51, 101]),
    ],
)
def test_input_nodes(nodes: Any, ids: Any, input_id: Any) -> None:
    (batch,) = NeighborLoader(GRAPH, [2], nodes, batch_size=1000)
    assert batch.n_id[: batch.batch_size].tolist() == list(ids)
    assert batch.input_id.tolist() == list(ids if input_id is None else input_id)


def test_input_id_of_ones_own() -> None:
    (batch,) = NeighborLoader(GRAPH, [2], [5, 1], input_id=torch.tensor([70, 80]), batch_size=9)
    assert batch.input_id.tolist() == [70, 80]


@pytest.mark.parametrize(
    ("nodes", "error", "text"),
    [
        ([0, 150], errors.OutOfRangeError, r"input_nodes\[1\] = 150"),
        ([0, 3, -1], errors.OutOfRangeError, r"input_nodes\[2\] = -1"),
        ([0.5], errors.InvalidArgumentError, "float64"),
        (torch.zeros(3, dtype=torch.bool), errors.InvalidArgumentError, r"shape \(150,\)"),
        ([i == 4 for i in range(NUM_NODES)], errors.InvalidArgumentError, "list of bools.*a mask"),
        ([[1], [2]], errors.InvalidArgumentError, "one-dimensional"),
        ("paper", errors.InvalidArgumentError, "'paper'"),
        (("paper", None), errors.InvalidArgumentError, "'paper'"),
        ([[1], [2, 3]], errors.InvalidArgumentError, "cannot be read"),
    ],
)
def test_bad_input_nodes_are_named(nodes: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        NeighborLoader(GRAPH, [2], nodes)


@pytest.mark.parametrize(
    ("nodes", "num_workers"),
    [([], 0), (torch.tensor([]), 1), (torch.zeros(NUM_NODES, dtype=torch.bool), 0), (slice(0), 0)],
)
def test_a_shard_without_seeds_has_no_batches(nodes: Any, num_workers: int) -> None:
    options: dict[str, Any] = {"batch_size": 4, "num_workers": num_workers}
    loader = NeighborLoader(GRAPH, [2], nodes, **options)
    assert len(loader) == 0 and list(loader) == list(loader) == []
    links = LinkNeighborLoader(GRAPH, [2], torch.empty(2, 0, dtype=torch.long), **options)
    assert len(links) == 0 and list(links) == []


def test_batches_have_the_keys_that_pyg_gives() -> None:
    """``num_nodes`` where it was said, or where stores have tensors of the nodes."""
    bare = Graph.from_edges(NUM_NODES, *GRAPH.edge_index())
    over_bare = FeatureStore.from_graph(bare), GraphStore(bare)
    data = make_data()
    counted = data.clone()
    counted.num_nodes = NUM_NODES
    for one in (data, counted, make_stores(), over_bare):
        ours = next(iter(NeighborLoader(one, FANOUTS, SEEDS, batch_size=4)))
        sampler = NeighborSampler(one, FANOUTS)
        theirs = next(iter(NodeLoader(one, sampler, SEEDS, batch_size=4)))
        edges = set(make_graph().edge_attrs) if isinstance(one, tuple) else set()
        assert set(ours.keys()) - edges == set(theirs.keys())
        assert ours.num_nodes == len(ours.n_id)


@pytest.mark.parametrize("attrs", [{}, {"y": np.arange(150)}, {"x": np.ones((150, 2))}])
def test_a_batch_of_a_graph_has_num_nodes_by_its_ids(attrs: dict[str, Any]) -> None:
    """PyG's own loader over a ``Data`` that does not set it makes such batches."""
    graph = Graph.from_edges(NUM_NODES, *GRAPH.edge_index())
    graph.node_attrs.update(attrs)
    typed = HeteroGraph.from_edges({("a", "to", "a"): GRAPH.edge_index()}, {"a": NUM_NODES})
    typed["a"].attrs.update(attrs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # PyG warns where it guesses
        for one, seeds in ((graph, SEEDS), (typed, ("a", SEEDS))):
            batch = next(iter(NeighborLoader(one, [3, 2], seeds, batch_size=4)))
            store = batch if one is graph else batch["a"]
            assert "num_nodes" not in store
            assert store.num_nodes == len(store.n_id)
        graph.edge_attrs["pos"] = np.zeros((graph.num_edges, 3))  # PyG counts its rows as nodes
        batch = next(iter(NeighborLoader(graph, [3, 2], SEEDS, batch_size=4, seed=0)))
        assert batch.num_nodes == len(batch.n_id) != len(batch.pos)


def test_repr_says_what_is_loaded() -> None:
    loader = NeighborLoader(GRAPH, [3, 2], SEEDS, batch_size=4)
    for part in ("num_nodes=150", "num_neighbors=[3, 2]", "num_seeds=10", "batch_size=4"):
        assert part in repr(loader)
        assert part in str(loader)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"data": None}, errors.InvalidArgumentError, "data must be"),
        ({"data": HeteroData()}, errors.UnsupportedError, "is empty"),
        ({"data": "/no/such/graph"}, FileNotFoundError, "no/such"),
        ({"time_attr": "time"}, errors.InvalidArgumentError, "'time' is no node or edge"),
        ({"weight_attr": "w"}, errors.InvalidArgumentError, "'w' is no edge attribute"),
        ({"ahead": -1}, errors.InvalidArgumentError, "ahead = -1"),
        ({"order": 1}, errors.InvalidArgumentError, "order = 1 is no aethergraph.loading.Order"),
        ({"seed": "a"}, errors.InvalidArgumentError, "seed"),
        ({"sample_direction": "backward"}, errors.LayoutError, "layout"),
        ({"num_neighbors": {3, 2}}, errors.InvalidArgumentError, r"num_neighbors = \{2, 3\}"),
        ({"weighted": np.ones(2)}, errors.InvalidArgumentError, "weighted must be True or False"),
        ({"filter_per_worker": "no"}, errors.InvalidArgumentError, "filter_per_worker must be"),
        ({"directed": "no"}, errors.InvalidArgumentError, "directed must be True or False"),
        ({"temporal_strategy": np.ones(2)}, errors.InvalidArgumentError, "temporal_strategy = arr"),
        ({"time_attr": ["t"]}, errors.InvalidArgumentError, "time_attr must be a text"),
    ],
)
def test_bad_options_are_named(options: Any, error: type[Exception], text: str) -> None:
    for loader in (NeighborLoader, LinkNeighborLoader):
        with pytest.raises(error, match=text):
            loader(**{"data": GRAPH, "num_neighbors": [2], **options})


def test_a_batch_may_be_larger_than_all_numbers() -> None:
    (batch,) = NeighborLoader(GRAPH, [2], SEEDS, batch_size=10**30)
    assert batch.input_id.tolist() == list(range(len(SEEDS)))


class AllNeighbors(BaseSampler):  # type: ignore[misc]
    """A sampler of somebody else's making: the seeds and nothing else."""

    def sample_from_nodes(self, index: Any, **_: Any) -> SamplerOutput:
        none = torch.empty(0, dtype=torch.int64)
        return SamplerOutput(index.node, none, none, None, metadata=(index.input_id, index.time))

    def sample_from_edges(self, index: Any, neg_sampling: Any = None) -> SamplerOutput:
        none = torch.empty(0, dtype=torch.int64)
        node = torch.cat([index.row, index.col])
        local = torch.arange(len(node)).view(2, -1)
        metadata = (index.input_id, local, index.label, index.time)
        return SamplerOutput(node, none, none, None, metadata=metadata)


class SortedEdges(AllNeighbors):
    """One whose edges have another order than the data's; it finds the second of them."""

    edge_permutation = torch.arange(NUM_EDGES).roll(1)

    def sample_from_nodes(self, index: Any, **_: Any) -> SamplerOutput:
        first, edge = torch.zeros(1, dtype=torch.int64), torch.ones(1, dtype=torch.int64)
        metadata = index.input_id, index.time
        return SamplerOutput(index.node, first, first, edge, metadata=metadata)


def test_edges_of_a_sampler_that_has_sorted_them() -> None:
    data, seeds = make_data(), torch.tensor([4])
    theirs = next(iter(NodeLoader(data, SortedEdges(), input_nodes=seeds)))
    ours = next(iter(NeighborLoader(data, [], seeds, neighbor_sampler=SortedEdges())))
    assert ours.e_id.tolist() == theirs.e_id.tolist() == [0]
    assert torch.equal(ours.edge_attr, theirs.edge_attr)


def test_stores_and_samplers_of_other_makers() -> None:
    data = make_data()
    assert data.edge_index is not None
    features, graph = MyFeatureStore(), MyGraphStore()
    features.put_tensor(data.x, None, "x", None)
    graph.put_edge_index(tuple(data.edge_index), None, "coo", size=(NUM_NODES, NUM_NODES))
    for batch in NeighborLoader((features, graph), FANOUTS, batch_size=50):
        assert torch.equal(batch.x, data.x[batch.n_id])
        ends = torch.stack([batch.n_id[batch.edge_index[0]], batch.n_id[batch.edge_index[1]]])
        assert torch.equal(data.edge_index[:, batch.e_id], ends)
    own = AllNeighbors()
    for batch in NeighborLoader(data, [], [4, 5, 6], neighbor_sampler=own, batch_size=2):
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert "e_id" not in batch
    links = LinkNeighborLoader(data, [], [[4], [5]], neighbor_sampler=own)
    assert next(iter(links)).n_id.tolist() == [4, 5]
    with pytest.raises(errors.InvalidArgumentError, match="number of nodes"):
        NeighborLoader((features, graph), [], None, neighbor_sampler=own)


def test_zip_loader_drives_them() -> None:
    torch.manual_seed(1)
    loaders = [NeighborLoader(GRAPH, [2], SEEDS), NeighborLoader(GRAPH, [3], SEEDS)]
    for filter_per_worker in (True, False):
        zipped = ZipLoader(loaders, filter_per_worker=filter_per_worker, batch_size=5)
        pairs = list(zipped)
        assert len(pairs) == 2
        for a, b in pairs:
            assert torch.equal(a.input_id, b.input_id)
            assert_attrs(a, GRAPH)
    direct = loaders[0](torch.tensor([1, 2]))
    assert direct.input_id.tolist() == [1, 2]


def test_a_subclass_keeps_its_hooks() -> None:
    class Filtering(NeighborLoader):
        def filter_fn(self, out: Any) -> Any:
            batch = super().filter_fn(out)
            batch.tag = 7
            return batch

    class Collating(NeighborLoader):
        def collate_fn(self, index: Any) -> Any:
            batch = super().collate_fn(index)
            batch.tag = 7
            return batch

    for workers in ({}, {"num_workers": 1, "multiprocessing_context": "fork"}):
        for kind in (Filtering, Collating):
            assert all(b.tag == 7 for b in kind(GRAPH, [2], SEEDS, batch_size=4, **workers))


@pytest.mark.parametrize("workers", [{}, {"num_workers": 1, "multiprocessing_context": "fork"}])
def test_samplers_and_batch_samplers_of_torch(workers: dict[str, Any]) -> None:
    some = torch.tensor([7, 3, 5])
    for options in (
        {"sampler": SubsetRandomSampler(some)},  # type: ignore[arg-type]
        {"sampler": some.tolist()},
        {"sampler": list(some)},
        {"batch_sampler": [[7, 3], [5]]},
        {"batch_sampler": BatchSampler(some.tolist(), 2, True)},
        {"sampler": some.tolist(), "batch_size": 2, "drop_last": True},
        {"sampler": some.tolist(), "batch_size": None},
        {"sampler": [[7, 3], [5]], "batch_size": None},
    ):
        found = [
            b.input_id.tolist() for b in NeighborLoader(GRAPH, [2], None, **options, **workers)
        ]
        flat = sorted(itertools.chain.from_iterable(found))
        assert flat == ([3, 7] if len(flat) == 2 else [3, 5, 7])
        if "batch_sampler" in options:
            assert found[0] == [7, 3]


def test_an_error_of_a_worker_that_was_caught_leaves_no_worker_behind() -> None:
    """Torch takes 5 seconds to end each worker of an iterator that the garbage collector finds."""

    class Broken:
        shape, dtype_name = (NUM_NODES, 1), "float32"

        def gather(self, *_: Any, **__: Any) -> Any:
            raise OSError("the disk is gone")

    graph = make_graph()
    graph.node_attrs["x"] = Broken()  # type: ignore[assignment]
    fork = {"num_workers": 1, "multiprocessing_context": "fork", "filter_per_worker": True}
    batches = iter(NeighborLoader(graph, [2], SEEDS, batch_size=4, **fork))
    ended = weakref.ref(batches._batches)  # type: ignore[attr-defined]
    gc.disable()
    try:
        with pytest.raises(OSError, match="the disk is gone"):
            next(batches)
        del batches
        assert ended() is None
    finally:
        gc.enable()


def test_workers_forked_while_batches_are_prefetched() -> None:
    """As in a validation pass in the middle of an epoch."""
    torch.manual_seed(1)
    graph = make_graph()
    graph.features = np.random.default_rng(0).random((NUM_NODES, 3000), dtype=np.float32)
    inner = NeighborLoader(
        graph, [5, 5], SEEDS, batch_size=5, num_workers=2, multiprocessing_context="fork"
    )
    outer = NeighborLoader(graph, [20, 20], batch_size=10, ahead=8, num_threads=0)
    count = 0
    for batch in itertools.islice(outer, 6):
        assert_attrs(batch, graph)
        for other in inner:
            assert_attrs(other, graph)
            count += 1
    assert count == 12


# ---- links -----------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["csc", "both", "csr"])
def test_every_edge_is_looked_up_and_not_held(layout: Any) -> None:
    graph = make_graph(layout)
    direction = "backward" if layout == "csr" else "forward"
    loader = LinkNeighborLoader(graph, [0], batch_size=400, sample_direction=direction)
    assert len(loader) == 4
    src, dst = graph.edge_index()
    for batch in loader:
        ends = batch.n_id[batch.edge_label_index]
        np.testing.assert_array_equal(ends[0], src[batch.input_id])
        np.testing.assert_array_equal(ends[1], dst[batch.input_id])
    assert not isinstance(loader.input_data.row, Tensor)


@pytest.mark.parametrize("mode", [None, "binary", "triplet"])
def test_links(mode: str | None) -> None:
    src, dst = (torch.from_numpy(ids) for ids in GRAPH.edge_index())

    def run(**options: Any) -> list[Any]:
        torch.manual_seed(4)
        kind = None if mode is None else NegativeSampling(mode, 2)
        loader = LinkNeighborLoader(
            GRAPH, FANOUTS, neg_sampling=kind, batch_size=600, shuffle=True, **options
        )
        return [batch for _ in range(2) for batch in loader]

    wanted = run()
    assert len(wanted) == 6
    for batch in wanted:
        assert_attrs(batch, GRAPH)
        count = len(batch.input_id)
        if mode == "triplet":
            ends = batch.src_index, batch.dst_pos_index
            assert batch.dst_neg_index.shape == (count, 2)
        else:
            ends = batch.edge_label_index[0, :count], batch.edge_label_index[1, :count]
        assert torch.equal(batch.n_id[ends[0]], src[batch.input_id])
        assert torch.equal(batch.n_id[ends[1]], dst[batch.input_id])
    if mode == "binary":
        assert wanted[0].edge_label.tolist() == [1.0] * 600 + [0.0] * 1200
    fork = {"num_workers": 2, "multiprocessing_context": "fork", "persistent_workers": True}
    for options in ({"ahead": 0}, fork):
        assert_same_batches(run(**options), wanted)


@pytest.mark.parametrize(
    "links",
    [
        torch.tensor([[3, 5, 3], [4, 4, 4]]),
        (None, torch.tensor([[3, 5, 3], [4, 4, 4]])),
        np.array([[3, 5, 3], [4, 4, 4]], np.int32),
        np.array([[3, 5, 3], [4, 4, 4]], np.uint64),
        [[3, 5, 3], [4, 4, 4]],
        (torch.tensor([3, 5, 3]), torch.tensor([4, 4, 4])),
    ],
)
def test_edge_label_index(links: Any) -> None:
    (batch,) = LinkNeighborLoader(GRAPH, [2], links, edge_label=[7, 8, 9], batch_size=10)
    assert batch.n_id[batch.edge_label_index].tolist() == [[3, 5, 3], [4, 4, 4]]
    assert batch.edge_label.tolist() == [7, 8, 9]


def test_labels_that_make_room_for_negatives_warn() -> None:
    """PyG's own labels of negatives are 0, and so it moves those that are given."""
    links, options = [[3, 5], [4, 4]], {"neg_sampling": "binary", "batch_size": 10}
    with pytest.warns(UserWarning, match="yours move up by one, as in PyG: 0 and 1 become 1 and 2"):
        loader = LinkNeighborLoader(GRAPH, [2], links, edge_label=[0, 1], **options)
    (batch,) = loader
    assert batch.edge_label.tolist() == [1, 2, 0, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LinkNeighborLoader(GRAPH, [2], links, edge_label=[1, 2], **options)
        LinkNeighborLoader(GRAPH, [2], links, edge_label=[0, 1])


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"edge_label_index": [[1], [1, 2]]}, errors.InvalidArgumentError, "destinations"),
        ({"edge_label_index": torch.ones(3, 2).long()}, errors.InvalidArgumentError, r"\(3, 2\)"),
        ({"edge_label_index": torch.ones(2, 2)}, errors.InvalidArgumentError, "float32"),
        ({"edge_label_index": [[1, 2], [3, 150]]}, errors.OutOfRangeError, r"\[1\]\[1\] = 150"),
        ({"edge_label_index": [[-1], [3]]}, errors.OutOfRangeError, r"index\[0\]\[0\] = -1"),
        (
            {"edge_label_index": np.array([[1, 2], [3, 2**64 - 1]], np.uint64)},
            errors.OutOfRangeError,
            r"edge_label_index\[1\]\[1\] = 18446744073709551615 is above 2\*\*63",
        ),
        (
            {"edge_label": np.full((NUM_EDGES, 2), 2**63, np.uint64)},
            errors.OutOfRangeError,
            r"edge_label\[0\]\[0\] = 9223372036854775808 is above",
        ),
        ({"edge_label_index": ("a", "to", "b")}, errors.InvalidArgumentError, "one type"),
        ({"edge_label_index": (("a", "to", "b"), None)}, errors.InvalidArgumentError, "one type"),
        ({"edge_label": torch.ones(3)}, errors.InvalidArgumentError, "3 rows"),
        ({"edge_label_time": torch.ones(NUM_EDGES)}, ValueError, "edge_label_time"),
        (
            {"edge_label": torch.ones(NUM_EDGES), "neg_sampling": "triplet"},
            ValueError,
            "edge_label",
        ),
    ],
)  # fmt: skip
def test_bad_links_are_named(options: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        LinkNeighborLoader(GRAPH, [2], **options)


def test_forms_of_neg_sampling() -> None:
    links = [[3, 5, 3], [4, 4, 4]]
    for options in (
        {"neg_sampling": "binary"}, {"neg_sampling_ratio": 1.0},
        {"neg_sampling": {"mode": "binary", "amount": 1}},
    ):  # fmt: skip
        batch = next(iter(LinkNeighborLoader(GRAPH, [2], links, batch_size=3, **options)))
        assert batch.edge_label.tolist() == [1, 1, 1, 0, 0, 0]
    loader = LinkNeighborLoader(GRAPH, [2], links, batch_size=3, neg_sampling=EvenOnly("binary"))
    batch = next(iter(loader))
    assert all(v % 2 == 0 for v in batch.n_id[batch.edge_label_index[:, 3:]].flatten().tolist())


# ---- the rest --------------------------------------------------------------------------------


@pytest.mark.skipif(not torch.cuda.is_available(), reason="pinned memory needs a CUDA device")
def test_copies_to_a_device_that_are_under_way_are_not_overwritten() -> None:
    rows = torch.randn(20_000, 256)
    graph = Data(x=rows, edge_index=torch.randint(0, 20_000, (2, 100_000)))
    seeds = torch.arange(20_000)
    for _ in range(2):
        there = []
        for batch in NeighborLoader(graph, [5], seeds, batch_size=500, pin_memory=True):
            there.append(batch.to("cuda", non_blocking=True))
        for batch in there:
            assert torch.equal(batch.x.cpu(), rows[batch.n_id.cpu()])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="pinned memory needs a CUDA device")
@pytest.mark.parametrize(
    "options", [{}, {"ahead": 0}, {"num_workers": 1},
                {"num_workers": 1, "filter_per_worker": False}],
)  # fmt: skip
def test_pin_memory(options: dict[str, Any]) -> None:
    for batch in NeighborLoader(GRAPH, FANOUTS, SEEDS, batch_size=4, pin_memory=True, **options):
        assert batch.x.is_pinned()
        assert batch.edge_index.is_pinned()
        assert_attrs(batch, GRAPH)


class Pins:
    """Device that pins nothing, and notes who asked for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.batches: list[tuple[Any, threading.Thread]] = []
        self.rows: list[torch.Tensor] = []
        monkeypatch.setattr(_loading, "pin", self.pin)
        monkeypatch.setattr(tensors, "pinned_empty", self.empty)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)

    def pin(self, batch: Any) -> Any:
        self.batches.append((batch, threading.current_thread()))
        return batch

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        self.rows.append(torch.empty(shape, dtype=dtype))
        return self.rows[-1]


def test_batches_are_pinned_where_torch_pins(monkeypatch: pytest.MonkeyPatch) -> None:
    """When pinning is asked for and there is a device, each batch is; without a device."""
    pins = Pins(monkeypatch)
    assert list(NeighborLoader(GRAPH, [2], SEEDS, batch_size=5))
    assert pins.batches == pins.rows == []
    loader = NeighborLoader(GRAPH, [2], SEEDS, batch_size=5)
    loader.pin_memory = True
    batches = list(loader)
    assert {id(batch) for batch, _ in pins.batches} == {id(batch) for batch in batches}


def test_rows_land_in_pinned_memory_and_the_rest_is_copied_in_the_background(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pins = Pins(monkeypatch)
    seen = []

    def mark(batch: Data) -> Data:
        seen.append(threading.current_thread())
        time.sleep(0.1)  # a consumer that waits for a batch would make it
        return batch

    loader = NeighborLoader(GRAPH, FANOUTS, SEEDS, batch_size=4, seed=5, transform=mark)
    loader.pin_memory = True
    batches = list(loader)
    main = threading.main_thread()
    assert {batch.x.data_ptr() for batch in batches} <= {one.data_ptr() for one in pins.rows}
    assert set(seen) == {main}  # a user's code may not be safe elsewhere
    ahead = [thread for _, thread in pins.batches if thread is not main]
    assert len(batches) // 2 <= len(ahead) <= len(batches)
    monkeypatch.undo()
    assert_same_batches(batches, list(NeighborLoader(GRAPH, FANOUTS, SEEDS, batch_size=4, seed=5)))


def test_pin_memory_without_a_device_changes_nothing() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    assert_same_batches(epochs(1, pin_memory=True), epochs(1))


def test_attributes_called_like_the_loaders_own() -> None:
    data = Data(
        x=torch.rand(4, 2),
        n_id=torch.tensor([10, 11, 12, 13]),
        edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]),
        e_id=torch.tensor([20, 21, 22]),
    )
    (batch,) = NeighborLoader(data, [-1], [3], batch_size=4)
    assert batch.n_id.tolist() == [13, 12]  # as in PyG: the user's own stay
    assert batch.e_id.tolist() == [22]


LINK_FIELDS = ("edge_label_index", "edge_label", "src_index", "dst_neg_index")


@pytest.mark.parametrize("source", ["graph", "file", "live", "typed"])
def test_attributes_of_a_graph_that_batches_have_themselves(tmp_path: Path, source: str) -> None:
    """None is lost: what a batch says of itself under a name is refused to an attribute."""
    ends = ([0, 1, 2], [1, 2, 3])
    fields = ("n_id", "batch", "num_nodes", "input_id", "batch_size", "seed_time", "e_id")
    for name in (*fields, "edge_index", "num_sampled_edges", *LINK_FIELDS):
        of_edges = name[0] == "e" or name == "num_sampled_edges"
        graph: Any = Graph.from_edges(4, *ends)
        if source == "live":
            kept = {name: ((), "int64")} if of_edges else {}
            graph = DynamicGraph(4, 16, order="time", edge_attrs=kept, huge_pages=False)
            graph.insert_edges(*ends, edge_attrs={name: np.arange(3)} if of_edges else None)
        elif of_edges:
            graph.edge_attrs[name] = np.arange(3)
        graph.node_attrs["x"] = np.ones((4, 2))
        if not of_edges:
            graph.node_attrs[name] = np.arange(4)
        given: Any = graph
        if source == "file":
            graph.save(tmp_path / name)
            given = tmp_path / name
        if source == "typed":
            given = HeteroGraph.from_edges({("a", "to", "a"): ends}, {"a": 4})
            attrs = given["a", "to", "a"].attrs if of_edges else given["a"].attrs
            attrs[name] = np.arange(3 if of_edges else 4)
        fanouts: Any = {("a", "to", "a"): [-1]} if source == "typed" else [-1]
        seeds: Any = ("a", None) if source == "typed" else None
        if name not in LINK_FIELDS:
            with pytest.raises(errors.InvalidArgumentError, match=f"'{name}'"):
                NeighborLoader(given, fanouts, seeds)
        if source != "typed" and name != "batch_size":
            with pytest.raises(errors.InvalidArgumentError, match=f"'{name}'"):
                LinkNeighborLoader(given, fanouts, torch.tensor([[0], [1]]))
        if name in ("num_nodes", "edge_index") and source != "typed":
            continue  # no store takes them
        chosen: Any = {"edge_attrs": []} if of_edges else {"node_attrs": []}
        batch = next(iter(NeighborLoader(given, fanouts, seeds, batch_size=4, **chosen)))
        own = batch["a"] if source == "typed" else batch
        assert own.n_id.tolist() == [0, 1, 2, 3]


def test_weights_and_times_of_the_graph() -> None:
    rng = np.random.default_rng(3)
    graph = Graph.from_edges(
        50, *rng.integers(0, 50, (2, 400)), edge_weight=rng.random(400, np.float32),
        edge_time=rng.integers(0, 99, 400), node_time=rng.random(50),
    )  # fmt: skip
    for batch in NeighborLoader(graph, [3, 2], batch_size=25):
        assert np.array_equal(batch.edge_weight, graph.edge_weight[batch.e_id])
        assert np.array_equal(batch.edge_time, graph.edge_time[batch.e_id])
        assert np.array_equal(batch.node_time, graph.node_time[batch.n_id])
    graph.edge_attrs["edge_weight"] = np.arange(400)
    batch = next(iter(NeighborLoader(graph, [3], batch_size=25)))
    assert torch.equal(batch.edge_weight, batch.e_id)


def test_one_name_for_nodes_and_edges_is_refused() -> None:
    graph = make_graph()
    graph.node_attrs["kind"] = graph.node_attrs["y"]
    with pytest.raises(errors.InvalidArgumentError, match="'kind' is both"):
        next(iter(NeighborLoader(graph, FANOUTS)))


def test_a_file_that_shrinks_under_a_worker(tmp_path: Path) -> None:
    """torch replaces the signal handlers in every worker process."""
    Graph.from_edges(1 << 16, np.arange(1 << 16), np.arange(1 << 16)).save(tmp_path / "g")
    loader = NeighborLoader(
        Graph.load(tmp_path / "g"), [-1], input_nodes=torch.tensor([65535]), num_workers=1,
        worker_init_fn=lambda _: os.truncate(tmp_path / "g", 4096),
    )  # fmt: skip
    with pytest.raises(OSError, match="FileChangedError in DataLoader worker"):
        next(iter(loader))


@pytest.mark.parametrize("kind", [Data, type("Own", (Data,), {})])
def test_original_edges_are_no_attribute_of_a_batch(kind: type[Data]) -> None:
    data = kind(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
    sampler = NeighborSampler(data, [2, 2], "bidirectional")
    sampler.keep_orig_edges = True
    [batch] = NeighborLoader(data, [2, 2], neighbor_sampler=sampler, batch_size=3, ahead=0)
    assert type(batch) is kind and batch._orig_edge_index.shape == (2, 2)
    assert "_orig_edge_index" not in batch and batch.num_nodes == 3
