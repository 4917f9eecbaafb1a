"""Loaders over graphs whose lists stay in their file: equal batches, and each page read once."""

from __future__ import annotations

import gc
import pickle
import shutil
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dgl.dataloading
import dgl.graphbolt as gb
import numpy as np
import pytest
import torch
from with_dgl.test_golden_samples import content, layer

from aethergraph import Graph, HeteroGraph, errors
from aethergraph import _native as native
from aethergraph.dgl import (
    DataLoader,
    GraphStorage,
    LaborSampler,
    MultiLayerFullNeighborSampler,
    NeighborSampler,
    ShaDowKHopSampler,
    as_edge_prediction_sampler,
)
from aethergraph.dgl.graphbolt import FeatureStore, SamplingGraph

pytestmark = pytest.mark.filterwarnings("ignore:Dataloader CPU affinity")

NUM_NODES = 2000
BUDGET = "18M"
SAMPLERS: dict[str, Any] = {
    "neighbours": lambda: NeighborSampler([5, 3], prefetch_node_feats=["x"], seed=1),
    "by weight": lambda: NeighborSampler([5, 3], prob="edge_weight", replace=True, seed=1),
    "out": lambda: NeighborSampler([5, 3], edge_dir="out", seed=1),
    "dependent": lambda: NeighborSampler([5, 3], layer_dependency=True, seed=1),
    "in time": lambda: NeighborSampler([5, 3], time_attr="node_time", strict=False, seed=1),
    "all": lambda: MultiLayerFullNeighborSampler(1, seed=1),
    "shadow": lambda: ShaDowKHopSampler([4, 2], seed=1),
    "labor": lambda: LaborSampler([5, 3], seed=1),
    "torch's seed": lambda: NeighborSampler([5, 3]),
}
#: Samplers whose coming batches are drawn together.
GROUPED = SAMPLERS.keys() - {"labor"}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    graph = Graph.from_edges(
        NUM_NODES, rng.integers(0, NUM_NODES, 30_000), rng.integers(0, NUM_NODES, 30_000),
        edge_weight=rng.integers(1, 5, 30_000).astype(np.float32),
        node_time=rng.integers(0, 100, NUM_NODES), layout="both",
    )  # fmt: skip
    graph.edge_attrs["edge_weight"] = graph.edge_weight
    graph.node_attrs["node_time"] = graph.node_time
    graph.features = rng.standard_normal((NUM_NODES, 4)).astype(np.float32)
    path = tmp_path_factory.mktemp("dgl") / "graph.aeg"
    graph.save(path)
    return path


@pytest.fixture(scope="module")
def typed_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(1)
    graph = HeteroGraph.from_edges(
        {
            ("user", "votes", "post"): (rng.integers(0, 300, 4000), rng.integers(0, 500, 4000)),
            ("post", "cites", "post"): (rng.integers(0, 500, 4000), rng.integers(0, 500, 4000)),
        },
        num_nodes={"user": 300, "post": 500},
        add_reverse=True,
    )
    path = tmp_path_factory.mktemp("dgl") / "typed.aeg"
    graph.save(path)
    return path


@pytest.fixture(scope="module")
def large_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of which a budget of 18M keeps few pages, beside 17M for samples and buffers."""
    rng = np.random.default_rng(2)
    graph = Graph.from_edges(200_000, *rng.integers(0, 200_000, (2, 4_000_000)))
    path = tmp_path_factory.mktemp("dgl") / "large.aeg"
    graph.save(path)
    return path


def load(path: Path, storage: Any, budget: str = BUDGET) -> Graph:
    return Graph.load(path, storage=storage, memory_budget=budget if storage == "uring" else None)


def same(one: Any, two: Any) -> bool:
    """Return whether two batches are equal, bit by bit."""
    return pickle.dumps(_plain(one)) == pickle.dumps(_plain(two))


def _plain(thing: Any) -> Any:
    if isinstance(thing, dict):
        return {name: _plain(one) for name, one in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [_plain(one) for one in thing]
    return thing.tolist() if hasattr(thing, "tolist") else thing


def epochs(make: Callable[..., Any], graph: Any, indices: Any, sampler: Any, **options: Any) -> Any:
    """The batches of two epochs, under the same seeds of torch and numpy."""
    torch.manual_seed(3)
    np.random.seed(4)
    loader = make(graph, indices, sampler, **options)
    found = []
    for epoch in range(2):
        if getattr(sampler, "seed", None) is not None:
            sampler.set_epoch(epoch)
        found += [content(batch) for batch in loader]
    return found


# ---- dgl.dataloading -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_loader_gives_the_batches_of_dgl_s(path: Path, name: str) -> None:
    seeds = torch.arange(0, NUM_NODES, 2)
    options = {"batch_size": 64, "shuffle": True}
    wanted = epochs(
        dgl.dataloading.DataLoader, GraphStorage(load(path, "mmap")), seeds, SAMPLERS[name](),
        **options,
    )  # fmt: skip
    assert len(wanted) == 32 and not same(wanted[0], wanted[16])
    for storage in ("mmap", "memory", "uring"):
        graph, sampler = GraphStorage(load(path, storage)), SAMPLERS[name]()
        found = epochs(DataLoader, graph, seeds, sampler, **options)
        assert all(map(same, found, wanted)) and len(found) == len(wanted), storage
        groups = sampler.engine_of(graph).groups
        assert (groups is not None and groups.memory > 0) == (
            storage == "uring" and name in GROUPED
        )


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_sample_ahead_too(path: Path, persistent: bool) -> None:
    seeds = torch.arange(0, NUM_NODES, 4)
    options = {"batch_size": 32, "num_workers": 2, "persistent_workers": persistent}
    wanted = epochs(
        dgl.dataloading.DataLoader, GraphStorage(load(path, "mmap")), seeds, NeighborSampler([4]),
        **options,
    )  # fmt: skip
    graph = GraphStorage(load(path, "uring"))
    found = epochs(DataLoader, graph, seeds, NeighborSampler([4]), **options)
    assert len(found) == 32 and all(map(same, found, wanted))


def test_typed_seeds(typed_path: Path) -> None:
    seeds = {"post": torch.arange(300), "user": torch.arange(100)}
    found = []
    for make, storage in ((dgl.dataloading.DataLoader, "mmap"), (DataLoader, "uring")):
        budget = BUDGET if storage == "uring" else None
        graph: Any = HeteroGraph.load(typed_path, storage=storage, memory_budget=budget)  # type: ignore[arg-type]
        sampler = NeighborSampler([3, 3], seed=1)
        found.append(epochs(make, GraphStorage(graph), seeds, sampler, batch_size=50))
    assert len(found[0]) == 16 and all(map(same, *found))


def test_other_samplers_are_asked_batch_by_batch(path: Path) -> None:
    class Own(NeighborSampler):
        calls = 0

        def sample_blocks(self, *arguments: Any, **options: Any) -> Any:
            self.calls += 1
            return super().sample_blocks(*arguments, **options)

    graph, own = GraphStorage(load(path, "uring"), edge_ids="graph"), Own([3], seed=1)
    loader = DataLoader(graph, torch.arange(100), own, batch_size=10)
    assert len(list(loader)) == len(loader) == own.calls == 10
    assert loader.graph_sampler is own
    edges = as_edge_prediction_sampler(NeighborSampler([3], seed=1), exclude="self")
    found = [
        epochs(make, graph, torch.arange(0, 3000, 30), edges, batch_size=20)
        for make in (DataLoader, dgl.dataloading.DataLoader)
    ]
    assert len(found[0]) == 10 and all(map(same, *found))


def test_errors_stay_with_their_batch(path: Path) -> None:
    seeds = torch.arange(100)
    seeds[47] = NUM_NODES
    for make in (dgl.dataloading.DataLoader, DataLoader):
        graph = GraphStorage(load(path, "uring"))
        iterator = iter(make(graph, seeds, NeighborSampler([3], seed=1), batch_size=10))
        for number in range(10):
            if number == 4:
                with pytest.raises(errors.OutOfRangeError, match=rf"nodes\[7\] = {NUM_NODES}"):
                    next(iterator)
            else:
                assert next(iterator)[1].tolist() == list(range(10 * number, 10 * number + 10))
        with pytest.raises(StopIteration):
            next(iterator)


def test_an_error_holds_nothing_when_it_is_gone(path: Path) -> None:
    seeds = torch.tensor([NUM_NODES])
    gc.collect()
    gc.disable()
    try:
        graph = load(path, "uring")
        loader = DataLoader(GraphStorage(graph), seeds, NeighborSampler([3], seed=1), batch_size=1)
        with pytest.raises(errors.OutOfRangeError):
            list(loader)
        held = weakref.ref(graph)
        del graph, loader
        assert held() is None
    finally:
        gc.enable()


def test_loaders_that_are_dropped_leave_the_budget(path: Path) -> None:
    graph = load(path, "uring")
    loader = DataLoader(
        GraphStorage(graph), torch.arange(NUM_NODES), NeighborSampler([3, 3], seed=1), batch_size=20
    )
    iterator = iter(loader)
    next(iterator)
    assert graph.paging is not None and graph.paging.groups.num_at_work > 0
    del iterator
    assert graph.paging.groups.num_at_work == 0


def test_pages_are_read_once_for_coming_batches(large_path: Path) -> None:
    seeds = torch.arange(0, 200_000, 20)

    def read_bytes(make: Callable[[Graph], Any]) -> int:
        graph = load(large_path, "uring")
        paging = graph.paging
        assert paging is not None
        loader = make(graph)
        before, held = paging.stats()["read_bytes"], []
        for _ in loader:
            held.append(paging.index_bytes + paging.kept_bytes + paging.groups.total)
        assert len(held) == 40 and max(held) <= paging.budget.limit
        taken: int = paging.stats()["read_bytes"] - before
        return taken

    def with_dgl(loader: Any) -> Callable[[Graph], Any]:
        return lambda graph: loader(
            GraphStorage(graph), seeds, NeighborSampler([10, 10], layer_dependency=True, seed=1),
            batch_size=250,
        )  # fmt: skip

    def with_graphbolt(graph: Graph) -> Any:
        pipe = gb.ItemSampler(gb.ItemSet(seeds, names="seed_nodes"), batch_size=250)
        pipe = pipe.sample_neighbor_at_once(SamplingGraph(graph, seed=1), [10, 10])
        return gb.DataLoader(pipe.copy_to(torch.device("cpu")))

    one_by_one = read_bytes(with_dgl(dgl.dataloading.DataLoader))
    together = read_bytes(with_dgl(DataLoader))
    assert together <= 0.6 * one_by_one
    assert read_bytes(with_graphbolt) <= 0.6 * one_by_one
    pytest.importorskip("torch_geometric")
    from aethergraph.pyg import NeighborLoader

    pyg = read_bytes(lambda graph: NeighborLoader(graph, [10, 10], seeds, batch_size=250, seed=1))
    assert together <= 1.2 * pyg


# ---- GraphBolt -----------------------------------------------------------------------------------


def pipe_of(graph: Any, items: Any, fanouts: Any, **options: Any) -> Any:
    pipe = gb.ItemSampler(items, batch_size=32)
    sampling = SamplingGraph(graph, seed=5)
    return pipe.sample_neighbor_at_once(sampling, fanouts, **options)


def layers_of(pipe: Any, workers: int = 0) -> list[Any]:
    loader = gb.DataLoader(
        pipe.copy_to(torch.device("cpu")), num_workers=workers, persistent_workers=False
    )
    return [[layer(one) for one in batch.sampled_subgraphs] for _ in range(2) for batch in loader]


@pytest.mark.filterwarnings("ignore:seed=5")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"replace": True, "prob_name": "edge_weight"},
        {"node_timestamp_attr_name": "node_time"},
    ],
    ids=str,
)
def test_graphbolt_samples_are_the_same(path: Path, options: dict[str, Any]) -> None:
    nodes = torch.arange(0, NUM_NODES, 2)
    items = gb.ItemSet(nodes, names="seed_nodes")
    if "node_timestamp_attr_name" in options:
        items = gb.ItemSet((nodes, nodes % 100), names=("seed_nodes", "timestamp"))
    wanted = layers_of(pipe_of(load(path, "mmap"), items, [5, 3], **options))
    assert len(wanted) == 64
    assert all(map(same, layers_of(pipe_of(load(path, "uring"), items, [5, 3], **options)), wanted))


@pytest.mark.filterwarnings("ignore:seed=5")
def test_graphbolt_types_workers_and_features(path: Path, typed_path: Path) -> None:
    seeds = {"post": gb.ItemSet(torch.arange(300), names="seed_nodes")}
    found = []
    for storage in ("mmap", "uring"):
        budget = BUDGET if storage == "uring" else None
        graph: Any = HeteroGraph.load(typed_path, storage=storage, memory_budget=budget)  # type: ignore[arg-type]
        found.append(layers_of(pipe_of(graph, gb.ItemSetDict(seeds), [torch.full((4,), 3)] * 2)))
    assert len(found[0]) == 20 and all(map(same, *found))

    batches = []
    for storage in ("mmap", "uring"):
        graph = load(path, storage)
        items = gb.ItemSet(torch.arange(400), names="seed_nodes")
        pipe = pipe_of(graph, items, [5, 3])
        pipe = pipe.fetch_feature(FeatureStore(graph), node_feature_keys=["x"])
        loader = gb.DataLoader(
            pipe.copy_to(torch.device("cpu")), num_workers=2, persistent_workers=False
        )
        batches.append([(batch.input_nodes, batch.node_features["x"]) for batch in loader])
    assert len(batches[0]) == 13 and all(map(same, *batches))


def test_graphbolt_errors_stay_with_their_batch(path: Path) -> None:
    seeds = torch.arange(320)
    seeds[132] = NUM_NODES
    pipe = pipe_of(load(path, "uring"), gb.ItemSet(seeds, names="seed_nodes"), [5, 3])
    iterator = iter(pipe)
    for number in range(4):
        assert next(iterator).seed_nodes.tolist() == list(range(32 * number, 32 * number + 32))
    with pytest.raises(errors.OutOfRangeError, match=rf"nodes\[4\] = {NUM_NODES}"):
        next(iterator)


def test_graphbolt_samplers_of_users_are_called(path: Path) -> None:
    from aethergraph.dgl.graphbolt import NeighborSampler as AtOnce

    class Own(AtOnce):
        calls = 0

        def sample_subgraphs(self, *arguments: Any, **options: Any) -> Any:
            type(self).calls += 1
            return super().sample_subgraphs(*arguments, **options)

    items = gb.ItemSet(torch.arange(320), names="seed_nodes")
    graph = SamplingGraph(load(path, "uring"), seed=5)
    assert len(list(Own(gb.ItemSampler(items, batch_size=32), graph, [3]))) == Own.calls == 10


def test_an_error_of_reading_meets_its_own_batch(path: Path, tmp_path: Path) -> None:
    """The lists of the nodes from 1,000 on are damaged; those before are still handed out."""
    copy = tmp_path / "damaged.aeg"
    shutil.copy(path, copy)
    first = int(load(path, "mmap").csc()[0][1000])
    file = native.NativeFile(copy)
    section = next(s for s in file.sections() if s.kind == native.SECTION_CSC_INDICES)
    with open(copy, "r+b") as raw:
        raw.seek(section.offset + 4 * first)
        raw.write(b"\xff" * (section.size - 4 * first))
    graph = load(copy, "uring")
    nodes = torch.arange(NUM_NODES)
    sampler = MultiLayerFullNeighborSampler(1, seed=1)
    found = []
    with pytest.raises(errors.CorruptFileError, match="verify"):
        for _, output_nodes, _ in DataLoader(GraphStorage(graph), nodes, sampler, batch_size=100):
            found.append(int(output_nodes[0]))
    assert found == list(range(0, 1000, 100))
