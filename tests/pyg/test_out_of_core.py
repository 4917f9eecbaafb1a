"""Loaders over graphs whose lists stay in their file: the batches are those of a mapped graph."""

from __future__ import annotations

import gc
import multiprocessing
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.pyg import assert_same_batches
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler
from torch_geometric.loader import NodeLoader
from torch_geometric.sampler import NodeSamplerInput

import aethergraph as ag
from aethergraph import pyg
from aethergraph.loading import Ahead

NUM_NODES = 2000
BUDGET = "24M"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    graph = ag.Graph.from_edges(
        NUM_NODES, rng.integers(0, NUM_NODES, 30_000), rng.integers(0, NUM_NODES, 30_000),
        edge_time=rng.integers(0, 100, 30_000),
        edge_weight=rng.integers(1, 5, 30_000).astype(np.float32), layout="both",
    )  # fmt: skip
    graph.features = rng.standard_normal((NUM_NODES, 4)).astype(np.float32)
    graph.node_attrs["y"] = np.arange(NUM_NODES)
    path = tmp_path_factory.mktemp("pyg") / "graph.aeg"
    graph.save(path)
    return path


@pytest.fixture(scope="module")
def typed_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(1)
    graph = ag.HeteroGraph.from_edges(
        {
            ("user", "votes", "post"): (rng.integers(0, 300, 4000), rng.integers(0, 500, 4000)),
            ("post", "cites", "post"): (rng.integers(0, 500, 4000), rng.integers(0, 500, 4000)),
        },
        num_nodes={"user": 300, "post": 500},
        add_reverse=True,
    )
    graph["user"].attrs["x"] = rng.standard_normal((300, 3)).astype(np.float32)
    graph["post"].attrs["x"] = rng.standard_normal((500, 2)).astype(np.float32)
    path = tmp_path_factory.mktemp("pyg") / "typed.aeg"
    graph.save(path)
    return path


def load(path: Path, storage: Any) -> ag.Graph:
    budget = BUDGET if storage == "uring" else None
    return ag.Graph.load(path, storage=storage, memory_budget=budget)


def test_a_loader_that_is_left_half_way_can_begin_again(path: Path) -> None:
    loader = pyg.NeighborLoader(
        load(path, "uring"), [4, 3], torch.arange(640), batch_size=64, seed=3
    )
    iterator = iter(loader)
    assert [next(iterator).batch_size for _ in range(3)] == [64, 64, 64]
    del iterator
    assert len(list(loader)) == 10


def test_a_seed_that_is_no_node_is_named(path: Path) -> None:
    with pytest.raises(IndexError, match="2000"):
        list(pyg.NeighborLoader(load(path, "uring"), [4], torch.tensor([1, NUM_NODES])))


# ---- weights, times and labels in batches -------------------------------------------------------


@pytest.mark.parametrize("budget", ["18M", "64M"])
def test_values_in_batches_are_those_of_a_mapped_graph(path: Path, budget: str) -> None:
    """In two epochs: by the second, groups of batches have learnt their size."""
    options: list[dict[str, Any]] = [{}, {"subgraph_type": "induced"}, {"ahead": Ahead(plan=3)}]
    for own in options:
        batches = []
        for storage, given in (("uring", budget), ("mmap", None)):
            graph = ag.Graph.load(path, storage=storage, memory_budget=given)  # type: ignore[arg-type]
            loader = pyg.NeighborLoader(
                graph, [4, 3], torch.arange(0, NUM_NODES, 3), batch_size=64, seed=3, **own
            )
            batches.append([*loader, *loader])
        assert_same_batches(*batches)
        assert {"edge_weight", "edge_time", "y"} <= set(batches[0][0].keys())


def test_nothing_is_read_for_values_that_fit(path: Path) -> None:
    graph = ag.Graph.load(path, storage="uring", memory_budget="64M")
    loader = pyg.NeighborLoader(graph, [4, 3], batch_size=128, shuffle=True, seed=1)
    assert graph.paging is not None
    for _ in range(2):
        assert len(list(loader)) == 16
    before = graph.paging.stats()["read_bytes"]
    list(loader)
    assert graph.paging.stats()["read_bytes"] == before


@pytest.mark.parametrize("kind", ["one type", "many types", "foreign stores"])
def test_batches_hold_what_is_named(path: Path, typed_path: Path, kind: str) -> None:
    data: Any = load(path, "mmap")
    seeds: Any = torch.arange(100)
    if kind == "many types":
        data, seeds = ag.HeteroGraph.load(typed_path), ("post", torch.arange(100))
    elif kind == "foreign stores":
        from torch_geometric.testing import MyFeatureStore

        foreign = MyFeatureStore()
        for name in ("x", "y"):
            rows = torch.from_numpy(data.node_attrs[name].gather(np.arange(NUM_NODES)))
            foreign.put_tensor(rows, group_name=None, attr_name=name, index=None)
        data = foreign, pyg.GraphStore(data)
    make = pyg.HeteroNeighborLoader if kind == "many types" else pyg.NeighborLoader
    whole = next(iter(make(data, [3], seeds, batch_size=10, seed=1)))
    batch = next(iter(make(data, [3], seeds, batch_size=10, seed=1, node_attrs=["x"])))
    if kind == "many types":
        assert torch.equal(batch["user"].x, whole["user"].x)
        return
    assert "y" in whole and "y" not in batch
    assert torch.equal(batch.x, whole.x)
    if kind == "one type":
        bare = next(iter(make(data, [3], seeds, batch_size=10, seed=1, edge_attrs=())))
        assert "edge_weight" in whole and "edge_weight" not in bare and "edge_time" not in bare
        assert torch.equal(bare.e_id, whole.e_id)
        one = make(data, [3], seeds, batch_size=10, seed=1, edge_attrs="edge_time")
        assert "edge_time" in next(iter(one)) and "edge_weight" not in next(iter(one))
    for option in ("node_attrs", "edge_attrs"):
        with pytest.raises(ag.errors.InvalidArgumentError, match=f"{option}: 'z' does not exist"):
            make(data, [3], seeds, **{option: ["z"]})


# ---- looking ahead for stock loaders -------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "shuffle"),
    [({}, True), ({"filter_per_worker": True}, False), ({"num_workers": 1}, True)],
    ids=str,
)
def test_looking_ahead_makes_the_same_batches(
    path: Path, options: dict[str, Any], shuffle: bool
) -> None:
    batches, grouped = [], []
    for ahead in (True, False):
        graph = load(path, "uring")
        stores = pyg.FeatureStore.from_graph(graph), pyg.GraphStore(graph)
        sampler = pyg.NeighborSampler(stores, [10, 10], seed=5)
        nodes = torch.arange(0, NUM_NODES, 2)
        torch.manual_seed(7)
        order = RandomSampler(nodes) if shuffle else SequentialSampler(nodes)
        own: Any = BatchSampler(order, 64, drop_last=False)
        if ahead:
            own = pyg.LookAhead(sampler, nodes, own)
            assert len(own) == 16
        loader = NodeLoader(stores, sampler, nodes, batch_sampler=own, **options)
        batches.append([*loader, *loader])
        assert sampler.groups is not None
        grouped.append(sampler.groups.memory > 0)
    assert len(batches[0]) == 32
    assert_same_batches(*batches)
    if "num_workers" not in options:  # there one group is made before it shows that it is in vain
        assert grouped == [True, False]


def test_looking_ahead_at_typed_graphs_and_times(typed_path: Path, path: Path) -> None:
    batches: list[Any] = []
    for ahead in (True, False):
        typed = ag.HeteroGraph.load(typed_path, storage="uring", memory_budget=BUDGET)
        stores = pyg.FeatureStore.from_graph(typed), pyg.GraphStore(typed)
        sampler = pyg.HeteroNeighborSampler(stores, [3, 3], seed=1)
        seeds = ("post", torch.arange(300))
        own: Any = BatchSampler(SequentialSampler(seeds[1]), 50, drop_last=False)
        own = pyg.LookAhead(sampler, seeds, own) if ahead else own
        one = list(NodeLoader(stores, sampler, seeds, batch_sampler=own))
        graph = load(path, "uring")
        stores = pyg.FeatureStore.from_graph(graph), pyg.GraphStore(graph)
        timed = pyg.NeighborSampler(stores, [3, 3], time_attr="edge_time", seed=1)
        nodes, times = torch.arange(300), torch.arange(300) % 90
        own = BatchSampler(SequentialSampler(nodes), 50, drop_last=False)
        own = pyg.LookAhead(timed, nodes, own, input_time=times) if ahead else own
        batches.append(
            one + list(NodeLoader(stores, timed, nodes, input_time=times, batch_sampler=own))
        )
    assert len(batches[0]) == 12
    assert_same_batches(*batches)


def test_calls_between_batches_do_not_get_their_samples(path: Path) -> None:
    graph = load(path, "uring")
    stores = pyg.FeatureStore.from_graph(graph), pyg.GraphStore(graph)
    sampler = pyg.NeighborSampler(stores, [3], seed=1)
    nodes = torch.arange(100)
    ahead = pyg.LookAhead(sampler, nodes, BatchSampler(SequentialSampler(nodes), 10, False))
    with pytest.warns(UserWarning, match="other batches"):
        for number, _ in enumerate(ahead):
            other = torch.arange(500, 520)
            found = sampler.sample_from_nodes(NodeSamplerInput(None, other))
            assert torch.equal(found.node[:20], other), number
    assert number == 9


def test_looking_ahead_at_other_nodes_is_told_and_changes_nothing(path: Path) -> None:
    graph, nodes = load(path, "uring"), torch.arange(0, 400)
    stores = pyg.FeatureStore.from_graph(graph), pyg.GraphStore(graph)
    sampler = pyg.NeighborSampler(stores, [4, 3], seed=1)
    batches = BatchSampler(SequentialSampler(nodes), 50, drop_last=False)
    ahead = pyg.LookAhead(sampler, nodes.flip(0), batches)
    loader = NodeLoader(stores, sampler, nodes, batch_sampler=ahead)
    with pytest.warns(UserWarning, match="other batches than the loader asks for"):
        found = list(loader)
    wanted = list(NodeLoader(stores, sampler, nodes, batch_sampler=batches))
    assert len(found) == 8
    assert_same_batches(found, wanted)


def test_looking_ahead_needs_a_sampler_of_ours() -> None:
    with pytest.raises(ag.errors.InvalidArgumentError, match="sampler must be"):
        pyg.LookAhead(object(), torch.arange(3), [[0]])  # type: ignore[arg-type]


def test_without_paging_nothing_is_done_ahead(path: Path) -> None:
    graph = load(path, "mmap")
    sampler = pyg.NeighborSampler((pyg.FeatureStore.from_graph(graph), pyg.GraphStore(graph)), [3])
    assert list(pyg.LookAhead(sampler, torch.arange(9), [[0, 1], [2]])) == [[0, 1], [2]]


# ---- workers -------------------------------------------------------------------------------------


def anonymous(process: int | str = "self") -> int:
    """Bytes of a process that are no file's."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(fields["RssAnon"].split()[0]) * 1024


class Started:
    """A ``worker_init_fn`` that notes what a worker has before it samples."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, number: int) -> None:
        (self.folder / str(os.getpid())).write_text(str(anonymous()))


def growth_of_workers(path: Path, storage: str, ours: bool, folder: Path) -> list[int]:
    """By how much each of two workers grows while a loader is iterated."""
    graph = load(path, storage)
    nodes = torch.arange(0, graph.num_nodes, 10)
    options: dict[str, Any] = {
        "batch_size": 512, "shuffle": True, "num_workers": 2, "worker_init_fn": Started(folder),
        "multiprocessing_context": "fork",
    }  # fmt: skip
    if ours:
        loader: Any = pyg.NeighborLoader(graph, [10, 10], nodes, **options)
    else:
        stores = pyg.FeatureStore.from_graph(graph), pyg.GraphStore(graph)
        loader = NodeLoader(stores, pyg.NeighborSampler(stores, [10, 10]), nodes, **options)
    most: dict[int, int] = {}
    gc.collect()  # what this process left behind, workers would free, and seem to shrink
    for _ in loader:
        for child in multiprocessing.active_children():
            if child.pid is not None and child.is_alive():
                most[child.pid] = max(most.get(child.pid, 0), anonymous(child.pid))
    return [peak - int((folder / str(pid)).read_text()) for pid, peak in most.items()]


@pytest.mark.slow
@pytest.mark.parametrize("ours", [True, False], ids=["ours", "stock"])
def test_each_worker_keeps_to_the_budget(tmp_path: Path, ours: bool) -> None:
    rng = np.random.default_rng(0)
    count, edges = 200_000, 12_000_000  # 48 MB, twice the budget
    large = tmp_path / "large.aeg"
    ag.Graph.from_edges(
        count, rng.integers(0, count, edges), rng.integers(0, count, edges)
    ).save(large)  # fmt: skip
    mapped = growth_of_workers(large, "mmap", ours, tmp_path)
    paged = growth_of_workers(large, "uring", ours, tmp_path)
    assert len(mapped) == len(paged) == 2
    base = max(0, min(mapped))
    for growth in paged:
        # beside what the framework and the batches take with any storage
        assert 4 << 20 < growth - base < 24 << 20
