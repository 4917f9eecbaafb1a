"""Profiles of the loaders for PyG, and of PyG's own over our stores and samplers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.processes import WarmPython
from support.profiles import settled
from torch_geometric.loader import NodeLoader

from aethergraph import Graph, HeteroGraph, observe
from aethergraph.loading import Ahead
from aethergraph.observe.profiling import Part, Profile
from aethergraph.pyg import (
    HeteroNeighborLoader,
    LinkNeighborLoader,
    NeighborLoader,
    NeighborSampler,
    as_stores,
)

KIND = ("user", "votes", "post")


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    rng = np.random.default_rng(0)
    made = Graph.from_edges(400, *rng.integers(0, 400, (2, 4000)))
    made.features = rng.random((400, 8), np.float32)
    made.node_attrs["y"] = np.arange(400) % 3
    return made


def check(found: Profile, *names: str) -> dict[str, Part]:
    own = sum(part.seconds for part in found.of("iterating"))
    ahead = sum(part.seconds for part in found.of("ahead"))
    assert own == pytest.approx(found.seconds, rel=1e-9)
    assert ahead == pytest.approx(found.threads * found.seconds, rel=1e-9)
    parts = {part.name: part for part in found.parts}
    assert set(names) <= set(parts), set(names) - set(parts)
    return parts


@pytest.mark.parametrize("ahead", [0, 2])
def test_neighbor_loader(graph: Graph, ahead: int) -> None:
    loader = NeighborLoader(
        graph, [4, 3], batch_size=40, ahead=ahead,
        transform=lambda data: time.sleep(0.004) or data,
    )  # fmt: skip
    found = settled(lambda: loader.profile(12, lambda batch: time.sleep(0.002)))
    parts = check(
        found, "sampling, in the core", "gathering x", "gathering y", "building the batch",
        "transform", "your step",
    )  # fmt: skip
    assert found.threads == bool(ahead)
    assert parts["transform"].calls == parts["your step"].calls == 12
    assert 12 * 0.004 <= parts["transform"].seconds <= found.seconds
    assert parts["building the batch"].seconds > 0
    where = "ahead" if ahead else "iterating"
    assert parts["gathering x"].where == parts["sampling, in the core"].where == where


def test_out_of_core(graph: Graph, tmp_path: Path) -> None:
    graph.save(tmp_path / "g.aeg")
    np.save(tmp_path / "x.npy", np.ones((400, 64), np.float32))
    read = Graph.load(tmp_path / "g.aeg", storage="uring", memory_budget="64M")
    read.load_features(tmp_path / "x.npy", storage="uring", memory_budget="256K")
    loader = NeighborLoader(read, [4, 3], batch_size=40, ahead=Ahead(plan=4))
    check(
        settled(lambda: loader.profile(12)),
        "reading lists",
        "gathering x, reading",
        "planning reads",
    )


def test_links_and_types(graph: Graph) -> None:
    links = LinkNeighborLoader(graph, [3], batch_size=100, neg_sampling="binary")
    check(settled(lambda: links.profile(5)))
    rng = np.random.default_rng(1)
    typed = HeteroGraph.from_edges(
        {
            KIND: rng.integers(0, 50, (2, 300)),
            ("post", "by", "user"): rng.integers(0, 50, (2, 300)),
        },
        {"user": 50, "post": 50},
    ).with_attrs({"user": {"x": rng.random((50, 3))}, "post": {"x": rng.random((50, 2))}}, {})
    nodes = HeteroNeighborLoader(typed, [3, 2], "post", batch_size=10)
    check(
        settled(lambda: nodes.profile(5)),
        "gathering user.x",
        "gathering post.x",
        "building the batch",
    )


def test_stock_loader(graph: Graph) -> None:
    stores = as_stores(graph)
    loader = NodeLoader(stores, NeighborSampler(stores, [4, 3]), torch.arange(400), batch_size=40)
    found = settled(lambda: observe.profile(loader, 8))
    parts = check(found, "sampling, in the core", "gathering x", "the loader itself")
    assert parts["gathering x"].calls == parts["sampling, in the core"].calls == 8


@pytest.mark.forks
def test_worker_processes_are_seen(graph: Graph) -> None:
    loader = NeighborLoader(
        graph, [4, 3], batch_size=40, num_workers=2,
        transform=lambda data: time.sleep(0.004) or data,
    )  # fmt: skip
    found = settled(lambda: loader.profile(15, warmup=1))  # more than an epoch
    parts = check(found, "waiting for worker processes", "gathering x", "sampling, in the core")
    assert found.threads == 0 and found.workers == 2
    assert {parts["gathering x"].where, parts["sampling, in the core"].where} == {"workers"}
    assert 0 < parts["gathering x"].calls <= 25  # some more are on their way
    inside = sum(part.seconds for part in found.of("workers"))
    assert inside == pytest.approx(2 * found.seconds, rel=1e-9)
    text = str(found)
    assert "worker processes: 2 " in text and "not seen" not in text


@pytest.mark.forks
def test_workers_that_began_before_are_said_not_to_be_seen(graph: Graph) -> None:
    loader = NeighborLoader(graph, [4, 3], batch_size=40, num_workers=1, persistent_workers=True)
    assert len(list(loader)) == 10
    found = settled(lambda: loader.profile(5))
    check(found, "waiting for worker processes")
    assert found.of("workers") == [] and found.workers == 1
    assert "worker processes: 1, not seen: they began before" in str(found)


def test_batches_are_those_of_an_epoch(graph: Graph) -> None:
    """A profile draws what an epoch draws, and counts as one."""

    def batches(loader: Any) -> list[torch.Tensor]:
        return [batch.n_id for batch in loader]

    plain, profiled = (NeighborLoader(graph, [4], batch_size=100, seed=3) for _ in range(2))
    seen: list[torch.Tensor] = []
    profiled.profile(4, lambda batch: seen.append(batch.n_id), warmup=0)
    assert all(map(torch.equal, batches(plain), seen)) and len(seen) == 4
    assert all(map(torch.equal, batches(plain), batches(profiled)))


OBSERVED = """
import os, sys, threading
os.environ["XDG_RUNTIME_DIR"] = os.getcwd()
from aethergraph import observe
from aethergraph.observe.asking import ask, list_processes
from aethergraph.pyg import NeighborLoader
observe.enable()
asking = threading.Event()

def ask_on():  # another thread has the locks now and then
    while not asking.is_set():
        ask(os.getpid())

thread = threading.Thread(target=ask_on)
thread.start()
for _ in range(3):
    loader = NeighborLoader("g.aeg", [3, 2], batch_size=100, num_workers=2)
    assert len(list(loader)) == 4
    assert list_processes() == [os.getpid()]
asking.set()
thread.join()
"""


@pytest.mark.forks
def test_worker_processes_of_one_that_is_observed(
    graph: Graph, tmp_path: Path, warm_python: WarmPython
) -> None:
    """Workers are forks of it: they go on by themselves, and leave its socket alone."""
    graph.save(tmp_path / "g.aeg")
    (tmp_path / "observed.py").write_text(OBSERVED)
    done = warm_python.run([tmp_path / "observed.py"], tmp_path)
    assert done.returncode == 0, done.stderr
