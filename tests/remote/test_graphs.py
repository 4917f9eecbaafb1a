"""Samples of a graph that a server has are those of its file, bit by bit."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aethergraph import Graph, NeighborSampler, RandomWalker, SubgraphLoader
from aethergraph.errors import (
    FileChangedError,
    InvalidArgumentError,
    LayoutError,
    OutOfRangeError,
    StorageError,
)
from aethergraph.remote import FeatureServer, open_graph, open_source, open_tables
from aethergraph.remote.graph_tables import graph_tables

NODES, EDGES = 3000, 40_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graphs")
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, NODES, (2, EDGES))
    dst[:3000] = 7  # a hub
    times = rng.integers(0, 1000, EDGES)
    options: dict[str, Any] = {"edge_weight": rng.random(EDGES), "layout": "both"}
    for name, time in (("graph", times), ("floats", times / 7)):
        graph = Graph.from_edges(
            NODES, src, dst, edge_time=time, node_time=np.arange(NODES) % 900, **options,
            sort_neighbors=False, edge_attrs={"w": rng.random((EDGES, 2))},
        )  # fmt: skip
        graph.node_attrs["x"] = rng.random((NODES, 8), dtype=np.float32)
        graph.save(folder / f"{name}.aeg")
    Graph.from_edges(NODES, src, dst).save(folder / "small.aeg", compress=True)
    return folder


@pytest.fixture(scope="module")
def pair(folder: Path) -> Iterator[tuple[Graph, Any, FeatureServer]]:
    """The graph of the file, that of a server of it, and the server."""
    with FeatureServer(open_tables(folder / "graph.aeg", lists=True), port=0) as server:
        yield Graph.load(folder / "graph.aeg"), open_graph(server.address), server


def same(mine: Any, its: Any) -> None:
    for name in ("node", "row", "col", "edge"):
        assert (getattr(mine, name) == getattr(its, name)).all(), name


@given(
    st.lists(st.integers(0, NODES - 1), min_size=1, max_size=200, unique=True),
    st.lists(st.sampled_from([0, 1, 3, 10, -1]), min_size=1, max_size=3),
    st.booleans(), st.booleans(), st.integers(0, 2**62),
)  # fmt: skip
def test_samples(
    pair: Any, seeds: list[int], fanouts: list[int], replace: bool, disjoint: bool, key: int
) -> None:
    if fanouts.count(-1) + (len(seeds) > 20) > 1 or (replace and -1 in fanouts):
        fanouts = [3]
    samples = [
        NeighborSampler(one, fanouts, replace=replace, disjoint=disjoint).sample(seeds, key)
        for one in pair[:2]
    ]
    same(*samples)


@pytest.mark.parametrize("options", [{"weight_attr": "edge_weight"}, {"num_threads": 2}])
def test_options(pair: Any, options: dict[str, Any]) -> None:
    samplers = [NeighborSampler(one, [5, 3], **options) for one in pair[:2]]
    for key in range(5):
        seeds = np.random.default_rng(key).permutation(NODES)[:500]
        same(*(one.sample(seeds, key) for one in samplers))


def test_load_by_address(pair: Any) -> None:
    """Graph.load takes an address in the place of a path."""
    local, _, server = pair
    graph = Graph.load(server.address)
    same(*(NeighborSampler(one, [5, 3]).sample(range(99), 4) for one in (local, graph)))
    for options in ({"storage": "uring"}, {"storage": "auto", "memory_budget": "1G"}):
        with pytest.raises(InvalidArgumentError, match="the lists stay at the server"):
            Graph.load(server.address, **options)


def test_queries_and_walks(pair: Any) -> None:
    local, remote, _ = pair
    assert (remote.num_nodes, remote.num_edges) == (NODES, EDGES)
    assert (remote.in_degrees() == local.in_degrees()).all()
    assert (remote.in_neighbors(7) == local.in_neighbors(7)).all()
    assert (remote.node_time == local.node_time).all()
    assert (remote.edge_attrs["w"].gather([5]) == local.edge_attrs["w"].gather([5])).all()
    u, v = local.edge_index()
    assert remote.has_edges(u[:50], v[:50]).all()


def test_lists_of_out_edges(pair: Any) -> None:
    local, _, server = pair
    remote = open_graph(server.address, layout="csr")
    for node in (0, 7, 11):
        assert (remote.neighbors(node) == local.neighbors(node)).all()
        assert (remote.out_edges(node) == local.out_edges(node)).all()  # ids that are stored
    walks = [RandomWalker(one).walk(range(200), 8, 5) for one in (local, remote)]
    assert (walks[0] == walks[1]).all()


def test_a_loader(pair: Any) -> None:
    local, remote, _ = pair
    loaders = [
        SubgraphLoader(one, [5, 5], batch_size=200, shuffle=True, seed=2, num_threads=2)
        for one in (local, remote)
    ]
    for mine, its in zip(*loaders, strict=True):
        same(mine.subgraph, its.subgraph)
        assert (mine.x == its.x).all()
        assert (mine.edge_attrs["w"] == its.edge_attrs["w"]).all()


def test_a_hop_is_few_requests(pair: Any) -> None:
    _, remote, server = pair
    seeds = np.arange(3000)
    before = server.stats().requests
    found = NeighborSampler(remote, [10]).sample(seeds, 0)
    most = 1 + -(-len(found.edge) // 4096)  # all lists in one, and ids by 4096
    assert len(found.edge) > 20_000 and server.stats().requests - before <= most


@pytest.mark.forks
def test_copies_and_threads(pair: Any) -> None:
    local, remote, _ = pair
    expected = NeighborSampler(local, [5, 5]).sample(range(50), 1)
    copy = pickle.loads(pickle.dumps(remote))
    same(expected, NeighborSampler(copy, [5, 5]).sample(range(50), 1))
    sampler, wrong = NeighborSampler(remote, [5, 5]), []

    def sample() -> None:
        for _ in range(20):
            if (sampler.sample(range(50), 1).node != expected.node).any():
                wrong.append(1)

    threads = [threading.Thread(target=sample) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


def test_shards(pair: Any, folder: Path) -> None:
    tables = open_tables(folder / "graph.aeg", lists=True)
    servers = [FeatureServer(tables, port=0, shard=(k, 2)).start() for k in range(2)]
    places = ",".join(f"127.0.0.1:{one.port}" for one in servers)
    try:
        remote = open_graph(f"tcp://{places}")
        same(*(NeighborSampler(one, [5, 5]).sample(range(300), 9) for one in (pair[0], remote)))
        assert all(one.stats().rows > 0 for one in servers)
    finally:
        for one in servers:
            one.close()


@pytest.mark.parametrize("options", [{}, {"weight_attr": "edge_weight"}])
def test_times(pair: Any, options: dict[str, Any]) -> None:
    seeds = np.arange(0, 200, 9)
    at = np.linspace(0, 140, len(seeds)).astype(np.int64)
    samplers = [
        NeighborSampler(one, [5, 3], time_attr="edge_time", is_sorted=True, **options)
        for one in pair[:2]
    ]
    found = [one.sample(seeds, 1, seed_time=at) for one in samplers]
    same(*found)
    assert len(found[0].edge) > 20


def test_times_that_are_not_integers(folder: Path) -> None:
    """A topology has int64 times; others are read once, and compared as they are."""
    with FeatureServer(open_tables(folder / "floats.aeg", lists=True), port=0) as server:
        seeds = np.arange(0, 200, 9)
        at = np.linspace(0, 140, len(seeds)) / 7 + 0.01
        found = [
            NeighborSampler(one, [5, 3], time_attr="edge_time").sample(seeds, 1, seed_time=at)
            for one in (Graph.load(folder / "floats.aeg"), open_graph(server.address))
        ]
        same(*found)
        assert len(found[0].edge) > 20


def test_weights_and_times_by_edge(pair: Any, folder: Path) -> None:
    """Loaders gather those of a batch, also where edges have other places in the lists."""
    local, remote, server = pair
    edges = np.array([0, 7, EDGES - 1, 7])
    mine = local.value_stores("edge")
    for there in (remote, open_graph(server.address, layout="csr"), pickle.loads(
        pickle.dumps(remote)
    )):  # fmt: skip
        its = there.value_stores("edge")
        assert set(mine) == set(its) == {"edge_weight", "edge_time"}
        for name, rows in mine.items():
            assert (its[name].dtype_name, its[name].shape) == (rows.dtype_name, rows.shape)
            assert (its[name].gather(edges) == rows.gather(edges)).all()
        with pytest.raises(OutOfRangeError, match=rf"ids\[0\] = {EDGES}"):
            its["edge_time"].gather([EDGES])
    with FeatureServer(open_tables(folder / "small.aeg", lists=True), port=0) as bare:
        assert not open_graph(bare.address).value_stores("edge")


def test_a_server_that_is_gone(folder: Path) -> None:
    server = FeatureServer(open_tables(folder / "graph.aeg", lists=True), port=0).start()
    sampler = NeighborSampler(open_graph(f"{server.address}?timeout=2"), [5, 5])
    sampler.sample([1, 2], 0)
    port = server.port
    server.close()
    with pytest.raises(StorageError, match=rf"{server.address} was not reached within 2 s"):
        sampler.sample([1, 2], 0)
    with FeatureServer(open_tables(folder / "floats.aeg", lists=True), port=port):
        with pytest.raises(FileChangedError, match="has other rows"):
            sampler.sample([1, 2], 0)


def test_answers_that_are_wrong() -> None:
    """A server's lists are checked like those of a damaged file."""
    good = {
        "graph/csc/lists": np.array([[0, 2], [2, 1]], np.uint64),
        "graph/csc/ids": np.array([1, 0, 1], np.uint32),
    }
    for name, bad, words in (
        ("graph/csc/lists", np.array([[0, 2], [2, 5]], np.uint64), "5 of them, but there are 3"),
        ("graph/csc/lists", np.array([[0, 2], [9, 0]], np.uint64), "of positions from 9 on"),
        ("graph/csc/ids", np.array([1, 2, 1], np.uint32), "2"),
    ):
        with FeatureServer({**good, name: bad}, port=0) as server:
            graph = open_graph(server.address)
            with pytest.raises(Exception, match=words) as error:
                NeighborSampler(graph, [5]).sample([0, 1], 0)
            assert type(error.value).__name__ == "CorruptFileError"


@pytest.mark.parametrize("storage", ["mmap", "memory", "uring"])
@pytest.mark.parametrize("name", ["small", "graph"])
def test_where_the_server_has_it(folder: Path, name: str, storage: Any) -> None:
    """Compressed lists, and those that are read within a budget, are served like any."""
    budget = "64M" if storage == "uring" else None
    graph = Graph.load(folder / f"{name}.aeg", storage=storage, memory_budget=budget)
    with FeatureServer(graph_tables(graph), port=0) as server:
        local = Graph.load(folder / f"{name}.aeg")
        both = (local, open_graph(server.address))
        same(*(NeighborSampler(one, [7, 4]).sample(range(300), 9) for one in both))


def test_lists_of_the_other_layout(pair: Any, folder: Path) -> None:
    """The error says how to open them, if the server has them; the text is not to be built on."""
    _, remote, server = pair
    other = rf"layout='csc'; open_graph\('{server.address}', layout='csr'\) opens it with these"
    with pytest.raises(LayoutError, match=other):
        RandomWalker(remote)
    with pytest.raises(LayoutError, match=r"layout='csr'; open_graph\('.*', layout='csc'\)"):
        NeighborSampler(open_graph(server.address, layout="csr"), [5])
    with FeatureServer(open_tables(folder / "small.aeg", lists=True), port=0) as small:
        with pytest.raises(LayoutError, match="the server has no others: build the graph there"):
            RandomWalker(open_graph(small.address))


def test_started_again(folder: Path) -> None:
    """A server of the same file is as good as before."""
    server = FeatureServer(open_tables(folder / "graph.aeg", lists=True), port=0).start()
    sampler = NeighborSampler(open_graph(server.address), [5, 5])
    before = sampler.sample([1, 2], 0)
    server.close()
    with FeatureServer(open_tables(folder / "graph.aeg", lists=True), port=server.port):
        same(before, sampler.sample([1, 2], 0))


def test_refusals(folder: Path, x: Any) -> None:
    with FeatureServer(x, port=0) as server:
        with pytest.raises(InvalidArgumentError, match="no table 'graph/csc/lists'; there are: x"):
            open_graph(server.address)
        with pytest.raises(InvalidArgumentError, match="no graph 'zz' with the lists 'csr' could"):
            open_graph(f"{server.address}/zz", layout="csr")
    with pytest.raises(InvalidArgumentError, match=r"is Graph\.load"):
        open_graph(f"shm://{folder}/graph.aeg")
    with pytest.raises(InvalidArgumentError, match="layout"):
        open_graph("tcp://127.0.0.1:1", layout="coo")
    with FeatureServer(open_tables(folder / "graph.aeg", lists=True), port=0) as server:
        assert open_source(f"{server.address}/x").shape == (NODES, 8)
