"""Samples of a graph that a server has are those of its file, bit by bit."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.threads import comes

from aethergraph import Graph, HeteroGraph, NeighborSampler, RandomWalker, SubgraphLoader
from aethergraph.errors import (
    InvalidArgumentError,
    LayoutError,
    OutOfRangeError,
    ServerTimeoutError,
)
from aethergraph.loading import Ahead, Order
from aethergraph.remote import FeatureServer, open_graph, open_source, open_tables
from aethergraph.remote.graph_tables import graph_tables

NODES, EDGES = 5000, 60_000


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


class Pair(NamedTuple):
    local: Graph
    remote: Any
    servers: list[FeatureServer]
    url: str


@pytest.fixture(scope="module", params=[1, 3], ids=["one server", "three shards"])
def pair(folder: Path, request: pytest.FixtureRequest) -> Iterator[Pair]:
    """The graph of the file, and that of servers of its tables."""
    tables, shards = open_tables(folder / "graph.aeg", lists=True), request.param
    servers = [FeatureServer(tables, port=0, shard=(k, shards)).start() for k in range(shards)]
    url = "tcp://" + ",".join(f"127.0.0.1:{one.port}" for one in servers)
    yield Pair(Graph.load(folder / "graph.aeg"), open_graph(url), servers, url)
    for one in servers:
        one.close()


def same(mine: Any, its: Any) -> None:
    for name in ("node", "row", "col", "edge"):
        assert (getattr(mine, name) == getattr(its, name)).all(), name


@given(
    st.lists(st.integers(0, NODES - 1), min_size=1, max_size=200, unique=True),
    st.lists(st.sampled_from([0, 1, 3, 10, -1]), min_size=1, max_size=3),
    st.booleans(), st.booleans(), st.integers(0, 2**62),
)  # fmt: skip
def test_samples(
    pair: Pair, seeds: list[int], fanouts: list[int], replace: bool, disjoint: bool, key: int
) -> None:
    if fanouts.count(-1) + (len(seeds) > 20) > 1 or (replace and -1 in fanouts):
        fanouts = [3]
    samples = [
        NeighborSampler(one, fanouts, replace=replace, disjoint=disjoint).sample(seeds, key)
        for one in (pair.local, pair.remote)
    ]
    same(*samples)


@pytest.mark.parametrize("kind", [Graph, HeteroGraph])
def test_files_are_loaded_and_servers_are_not(pair: Pair, kind: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"address of a server: .*open_graph\(path"):
        kind.load(pair.url)


def test_queries_and_walks(pair: Pair) -> None:
    local, remote = pair.local, pair.remote
    assert (remote.num_nodes, remote.num_edges) == (NODES, EDGES)
    assert (remote.in_degrees() == local.in_degrees()).all()
    assert (remote.in_neighbors(7) == local.in_neighbors(7)).all()
    assert (remote.node_time == local.node_time).all()
    assert (remote.edge_attrs["w"].gather([5]) == local.edge_attrs["w"].gather([5])).all()
    u, v = local.edge_index()
    assert remote.has_edges(u[:50], v[:50]).all()
    walks = [RandomWalker(one, direction="in").walk(range(50), 6, key=3) for one in (local, remote)]
    assert (walks[0] == walks[1]).all()


def test_lists_of_out_edges(pair: Pair) -> None:
    local, remote = pair.local, open_graph(pair.url, layout="csr")
    for node in (0, 7, 11):
        assert (remote.neighbors(node) == local.neighbors(node)).all()
        assert (remote.out_edges(node) == local.out_edges(node)).all()  # ids that are stored
    walks = [RandomWalker(one).walk(range(200), 8, 5) for one in (local, remote)]
    assert (walks[0] == walks[1]).all()


@pytest.mark.parametrize(
    "options",
    [
        {"ahead": Ahead(threads=2)},
        {"drop_last": True, "order": Order(partitions=np.arange(NODES) // 100, mix=2)},
    ],
    ids=["two threads", "few partitions"],
)
def test_a_loader(pair: Pair, options: dict[str, Any]) -> None:
    loaders = [
        SubgraphLoader(one, [5, 5], batch_size=200, shuffle=True, seed=2, **options)
        for one in (pair.local, pair.remote)
    ]
    for mine, its in zip(*loaders, strict=True):
        same(mine.subgraph, its.subgraph)
        assert (mine.x == its.x).all() and (mine.index == its.index).all()
        assert (mine.edge_attrs["w"] == its.edge_attrs["w"]).all()


def test_a_hop_is_two_questions(pair: Pair) -> None:
    """Every shard is asked once for lists and once for ids, in requests of 4096 numbers."""
    graph = open_graph(pair.url)
    before = [one.stats().requests for one in pair.servers]
    sample = NeighborSampler(graph, [10, 5]).sample(range(0, NODES, 3), 1)
    nodes, edges = sample.num_sampled_nodes, sample.num_sampled_edges
    assert nodes is not None and edges is not None and sum(edges) > 15_000
    # A shard has its part of the numbers of each question.
    least = 4096 if len(pair.servers) == 1 else 2 * 4096
    most = sum(1 + -(-count // least) for count in (*nodes[:2], *edges))
    for one, was in zip(pair.servers, before, strict=True):
        assert 4 <= one.stats().requests - was <= most


@pytest.mark.slow
def test_a_dead_server_is_a_timeout_that_names_it(pair: Pair) -> None:
    graph = open_graph(f"{pair.url}?timeout=2")
    sampler = NeighborSampler(graph, [5, 5])
    before = sampler.sample(range(50), 1)
    gone = pair.servers[-1]
    gone.close()
    for work in (
        lambda: sampler.sample(range(50), 1),
        lambda: list(SubgraphLoader(graph, [5, 5], batch_size=4000, ahead=Ahead(threads=2))),
        lambda: RandomWalker(graph, direction="in").walk(range(50), 6, key=3),
    ):
        with pytest.raises(ServerTimeoutError, match=f"{gone.address} was not reached") as error:
            work()
        assert isinstance(error.value, TimeoutError)
    gone.start()  # of the same file: as good as before
    assert comes(lambda: (sampler.sample(range(50), 1).edge == before.edge).all())


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


def test_weights_and_times_by_edge(pair: Pair, folder: Path) -> None:
    """Loaders gather those of a batch, also where edges have other places in the lists."""
    local, remote = pair.local, pair.remote
    edges = np.array([0, 7, EDGES - 1, 7])
    mine = local.edge_values
    for there in (remote, open_graph(pair.url, layout="csr"), pickle.loads(
        pickle.dumps(remote)
    )):  # fmt: skip
        its = there.edge_values
        assert set(mine) == set(its) == {"edge_weight", "edge_time"}
        for name, rows in mine.items():
            assert (its[name].dtype_name, its[name].shape) == (rows.dtype_name, rows.shape)
            assert (its[name].gather(edges) == rows.gather(edges)).all()
        with pytest.raises(OutOfRangeError, match=rf"ids\[0\] = {EDGES}"):
            its["edge_time"].gather([EDGES])
    with FeatureServer(open_tables(folder / "small.aeg", lists=True), port=0) as bare:
        assert not open_graph(bare.address).edge_values


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


@pytest.mark.parametrize(
    ("name", "storage"), [("small", "memory"), ("small", "uring"), ("graph", "mmap")]
)
def test_where_the_server_has_it(folder: Path, name: str, storage: Any) -> None:
    """Compressed lists, and those that are read within a budget, are served like any."""
    budget = "64M" if storage == "uring" else None
    graph = Graph.load(folder / f"{name}.aeg", storage=storage, memory_budget=budget)
    with FeatureServer(graph_tables(graph), port=0) as server:
        local = Graph.load(folder / f"{name}.aeg")
        both = (local, open_graph(server.address))
        same(*(NeighborSampler(one, [7, 4]).sample(range(300), 9) for one in both))


def test_lists_of_the_other_layout(pair: Pair, folder: Path) -> None:
    """The error says how to open them, if the server has them; the text is not to be built on."""
    other = rf"layout='csc'; open_graph\('{pair.url}', layout='csr'\) opens it with these"
    with pytest.raises(LayoutError, match=other):
        RandomWalker(pair.remote)
    with pytest.raises(LayoutError, match=r"layout='csr'; open_graph\('.*', layout='csc'\)"):
        NeighborSampler(open_graph(pair.url, layout="csr"), [5])
    with FeatureServer(open_tables(folder / "small.aeg", lists=True), port=0) as small:
        with pytest.raises(LayoutError, match="the server has no others: build the graph there"):
            RandomWalker(open_graph(small.address))


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
