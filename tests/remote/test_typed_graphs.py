"""Samples of a typed graph that a server has are those of its file, bit by bit."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.threads import run_together

from aethergraph import Graph, HeteroGraph, HeteroNeighborSampler, NeighborSampler
from aethergraph.errors import (
    CorruptFileError,
    FileChangedError,
    FormatError,
    InvalidArgumentError,
    OutOfRangeError,
    StorageError,
    UnsupportedError,
)
from aethergraph.graph.foreign_typed import ForeignHeteroGraph
from aethergraph.remote import FeatureServer, open_graph, open_tables
from aethergraph.remote.graph_tables import GraphTypes, graph_tables

pytestmark = pytest.mark.any_python

COUNTS = {"user": 900, "film": 700, "person": 50, "alone": 3}
RATES, KNOWS, BY, NONE = (
    ("user", "rates", "film"), ("user", "knows", "user"), ("person", "made", "film"),
    ("alone", "sees", "film"),
)  # fmt: skip
EDGES = {RATES: 20_000, KNOWS: 5000, BY: 1000, NONE: 0}


def make(**more: Any) -> HeteroGraph:
    """Types of which each lacks something that another one has; one has no edges."""
    rng = np.random.default_rng(0)
    ends = {
        kind: (rng.integers(0, COUNTS[kind[0]], n), rng.integers(0, COUNTS[kind[2]], n))
        for kind, n in EDGES.items()
    }
    ends[RATES][1][:3000] = 7  # a hub
    day = np.datetime64("2024-01-01", "D")
    graph = HeteroGraph.from_edges(
        ends, COUNTS, layout="both",
        edge_weight={RATES: rng.random(20_000, np.float32), BY: rng.random(1000)},
        edge_time={
            KNOWS: day + rng.integers(0, 99, 5000), BY: day + rng.integers(0, 99, 1000)
        },
        **more,
    )  # fmt: skip
    graph["user"].attrs["x"] = rng.random((900, 4), np.float32)
    graph["film"].attrs["x"] = rng.random((700, 3), np.float32)
    graph[KNOWS].attrs["w"] = rng.random((5000, 2))
    return graph


class Pair(NamedTuple):
    local: HeteroGraph
    remote: Any
    servers: list[FeatureServer]
    path: Path
    url: str


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("typed") / "typed.aeg"
    make().save(path)
    return path


@pytest.fixture(scope="module", params=[1, 3], ids=["one server", "three shards"])
def pair(path: Path, request: pytest.FixtureRequest) -> Iterator[Pair]:
    """The graph of the file, and that of the servers of its tables."""
    tables, shards = open_tables(path, lists=True), request.param
    servers = [FeatureServer(tables, port=0, shard=(k, shards)).start() for k in range(shards)]
    url = "tcp://" + ",".join(f"127.0.0.1:{one.port}" for one in servers)
    yield Pair(HeteroGraph.load(path), open_graph(url, typed=True), servers, path, url)
    for one in servers:
        one.close()


def test_weights_and_times_by_edge(pair: Pair) -> None:
    for graph in (pair.remote, pickle.loads(pickle.dumps(pair.remote))):
        for kind in EDGES:
            mine, its = (one[kind].edge_values for one in (pair.local, graph))
            assert set(mine) == set(its)
            for name, rows in mine.items():
                ids = np.arange(rows.num_rows)[::-1]
                assert (its[name].gather(ids) == rows.gather(ids)).all()
                with pytest.raises(OutOfRangeError, match=rf"ids\[0\] = {rows.num_rows} is not"):
                    its[name].gather([rows.num_rows])  # the first one of the next type


def same(mine: Any, its: Any) -> int:
    """Check that two samples are equal; return their number of edges."""
    for name in ("node", "row", "col", "edge"):
        a, b = getattr(mine, name), getattr(its, name)
        assert list(a) == list(b)
        for kind in a:
            assert (a[kind] == b[kind]).all(), (name, kind)
    assert mine.num_sampled_nodes == its.num_sampled_nodes
    return sum(map(len, mine.edge.values()))


@given(
    st.lists(st.integers(0, 699), max_size=60), st.lists(st.integers(0, 899), max_size=60),
    st.lists(st.sampled_from([0, 1, 3, 10]), min_size=1, max_size=3),
    st.booleans(), st.booleans(), st.integers(0, 2**62),
)  # fmt: skip
def test_samples(
    pair: Pair, films: list[int], users: list[int], fanouts: list[int], replace: bool,
    disjoint: bool, key: int,
) -> None:  # fmt: skip
    seeds = {"film": films, "user": users}
    samplers = (
        HeteroNeighborSampler(one, fanouts, replace=replace, disjoint=disjoint)
        for one in (pair.local, pair.remote)
    )
    same(*(one.sample(seeds, key) for one in samplers))


@pytest.mark.parametrize(
    "options",
    [{"weight_attr": "edge_weight"}, {"num_threads": 2}, {"subgraph_type": "induced"}],
    ids=str,
)
def test_options(pair: Pair, options: dict[str, Any]) -> None:
    both = [
        HeteroNeighborSampler(one, {RATES: [9, 4], BY: [-1, -1], KNOWS: [0, 3]}, **options)
        for one in (pair.local, pair.remote)
    ]
    for key in range(3):
        seeds = {"film": np.random.default_rng(key).permutation(700)[:90], "user": [5]}
        leave = {RATES: pair.local[RATES].in_edges(int(seeds["film"][0]))[:1]}
        assert same(*(one.sample(seeds, key, exclude=leave) for one in both)) > 300


@pytest.mark.parametrize("is_sorted", [True, False])
def test_times(pair: Pair, is_sorted: bool) -> None:
    """Times are those of the types that have them, with their unit."""
    at = np.datetime64("2024-02-10", "D") + np.arange(20)
    found = [
        HeteroNeighborSampler(one, [5, 3], time_attr="edge_time", is_sorted=is_sorted).sample(
            {"user": range(20), "film": range(20)}, 3, seed_time={"user": at, "film": at}
        )
        for one in (pair.local, pair.remote)
    ]
    whole = HeteroNeighborSampler(pair.local, [5, 3]).sample(
        {"user": range(20), "film": range(20)}, 3
    )
    assert 20 < same(*found) < sum(map(len, whole.edge.values()))
    assert pair.remote.time_unit == pair.local.time_unit is not None


def test_times_of_nodes(tmp_path: Path) -> None:
    times = {"user": np.arange(900) % 77, "person": np.arange(50)}
    kinds = {RATES: (np.arange(900), np.arange(900) % 700), BY: (np.arange(50), np.arange(50))}
    HeteroGraph.from_edges(kinds, COUNTS, node_time=times).save(tmp_path / "g.aeg")
    with FeatureServer(open_tables(tmp_path / "g.aeg", lists=True), port=0) as server:
        both = HeteroGraph.load(tmp_path / "g.aeg"), open_graph(server.address, typed=True)
        for name in COUNTS:
            mine, its = both[0][name].node_time, both[1][name].node_time
            assert (mine is None) == (its is None) and (mine is None or (mine == its).all())
        same(*(
            HeteroNeighborSampler(one, [5], time_attr="node_time").sample(
                {"film": [1, 2, 3]}, 1, seed_time={"film": [40, 2, 1]}
            )
            for one in both
        ))  # fmt: skip


def test_lists_of_out_edges(pair: Pair) -> None:
    remote = open_graph(pair.url, layout="csr")
    both = [
        HeteroNeighborSampler(one, [4, 3], sample_direction="backward")
        for one in (pair.local, remote)
    ]
    assert same(*(one.sample({"user": range(100)}, 2) for one in both)) > 100


def test_queries_and_attributes(pair: Pair) -> None:
    local, remote = pair.local, pair.remote
    assert remote.metadata() == local.metadata()
    assert (remote.num_nodes, remote.num_edges) == (local.num_nodes, local.num_edges)
    for kind in local.edge_types:
        assert (remote[kind].in_degrees() == local[kind].in_degrees()).all()
        assert (remote[kind].in_neighbors(7) == local[kind].in_neighbors(7)).all()
    u, v = local[RATES].edge_index()
    assert remote[RATES].has_edges(u[:50], v[:50]).all()
    for name in ("user", "film"):
        assert (remote[name].features.gather([5, 3]) == local[name].features.gather([5, 3])).all()
    assert (remote[KNOWS].attrs["w"].gather([9]) == local[KNOWS].attrs["w"].gather([9])).all()
    assert list(remote["person"].attrs) == []


def test_copies_and_threads(pair: Pair) -> None:
    seeds = {"film": range(50)}
    expected = HeteroNeighborSampler(pair.local, [5, 5]).sample(seeds, 1)
    own = pair.remote.with_attrs({"person": {"x": np.ones((50, 2))}}, {})
    assert list(pair.remote["person"].attrs) == []
    for graph in (own, pickle.loads(pickle.dumps(own))):
        assert (graph["person"].features.gather([3]) == 1).all()
        assert (graph["user"].features.gather([3]) == pair.local["user"].features[[3]]).all()
        same(expected, HeteroNeighborSampler(graph, [5, 5]).sample(seeds, 1))
    sampler = HeteroNeighborSampler(pair.remote, [5, 5])

    def sample() -> None:
        for _ in range(10):
            same(expected, sampler.sample(seeds, 1))

    run_together(*[sample] * 4)


def test_a_hop_is_few_requests(pair: Pair) -> None:
    """Two questions of each edge type that is reached, and few connections for all of them."""
    graph = open_graph(pair.url, typed=True)
    before = sum(one.stats().requests for one in pair.servers)
    HeteroNeighborSampler(graph, [3, 3]).sample({"film": range(300), "user": range(300)}, 0)
    asked = sum(one.stats().requests for one in pair.servers) - before
    assert asked <= 2 * 2 * len(EDGES) * len(pair.servers)


def test_one_type_either_way(pair: Pair, tmp_path: Path) -> None:
    """A file of one type is a Graph or a HeteroGraph, one of many only the latter."""
    graph = Graph.from_edges(90, np.arange(90), np.arange(90)[::-1])
    graph.node_attrs["x"] = np.arange(90.0)
    graph.edge_attrs["w"] = np.arange(90.0)
    graph.save(tmp_path / "one.aeg")
    with FeatureServer(open_tables(tmp_path / "one.aeg", lists=True), port=0) as server:
        one, typed = open_graph(server.address), open_graph(server.address, typed=True)
        assert typed.metadata() == HeteroGraph.load(tmp_path / "one.aeg").metadata()
        plain = NeighborSampler(one, [3]).sample([1, 2], 0)
        found = HeteroNeighborSampler(typed, [3]).sample({"node": [1, 2]}, 0)
        assert (plain.node == found.node["node"]).all()
        view = typed[typed.edge_types[0]]
        assert typed["node"].features.gather([8]) == view.attrs["w"].gather([8]) == 8
        assert not isinstance(open_graph(server.address), HeteroGraph)
    assert isinstance(open_graph(pair.url), HeteroGraph)
    with pytest.raises(UnsupportedError, match=r"4 node types and 4 edge types.*typed=False"):
        open_graph(pair.url, typed=False)


def test_refusals(pair: Pair, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"remote\.open_graph\(path\) opens its graph"):
        HeteroGraph.load(pair.url)
    for refused in (
        lambda: pair.remote.save(tmp_path / "g.aeg"),
        lambda: pair.remote.permute({}),
    ):
        with pytest.raises(UnsupportedError, match="whose lists are elsewhere"):
            refused()
    lists = {
        "graph/csc/lists": np.zeros((3, 2), np.uint64), "graph/csc/ids": np.zeros(0, np.int64)
    }  # fmt: skip
    with FeatureServer(lists, port=0) as server:
        with pytest.raises(InvalidArgumentError, match="does not tell the types"):
            open_graph(server.address, typed=True)


def test_names_that_meet_when_joined(tmp_path: Path) -> None:
    graph = HeteroGraph.from_edges({("a", "b", "c"): ([0], [0])}, {"a-b-c": 1})
    graph["a-b-c"].attrs["x"] = graph["a", "b", "c"].attrs["x"] = np.zeros(1)
    graph.save(tmp_path / "g.aeg")
    with pytest.raises(InvalidArgumentError, match="two tables are called 'a-b-c/x'"):
        open_tables(tmp_path / "g.aeg")


def test_answers_that_are_wrong(path: Path) -> None:
    """A server's types are checked as they come, and its lists as they are asked for."""
    good = dict(open_tables(path, lists=True))
    types = GraphTypes.of(HeteroGraph.load(path))

    for bad, error, words in (
        (np.frombuffer(b'{"nodes": 1}', np.uint8), FormatError, "cannot be read"),
        (np.frombuffer(b"[" * 9999, np.uint8), FormatError, "cannot be read"),
        (types._replace(nodes={"user": 900}).pack(), FormatError, "contradict each other"),
        (types._replace(edges={**types.edges, BY: 1001}).pack(), InvalidArgumentError, "26001"),
        (types._replace(weighted=[BY]).pack(), InvalidArgumentError, "of weights has 21000 rows"),
    ):
        with FeatureServer({**good, "graph/types": bad}, port=0) as server:
            with pytest.raises(error, match=words):
                open_graph(server.address, typed=True)
    ids = good["graph/csc/ids"].read(0, sum(EDGES.values())).copy()
    ids[20_000:25_000] += 900
    with FeatureServer({**good, "graph/csc/ids": ids}, port=0) as server:
        sampler = HeteroNeighborSampler(open_graph(server.address, typed=True), [5])
        sampler.sample({"film": [1]}, 0)
        with pytest.raises(CorruptFileError):
            sampler.sample({"user": [1]}, 0)


def test_a_server_that_is_gone(path: Path, tmp_path: Path) -> None:
    server = FeatureServer(open_tables(path, lists=True), port=0).start()
    sampler = HeteroNeighborSampler(open_graph(f"{server.address}?timeout=2", typed=True), [5, 5])
    before, port = sampler.sample({"film": [1, 2]}, 0), server.port
    server.close()
    with pytest.raises(StorageError, match=rf"{server.address} was not reached within 2 s"):
        sampler.sample({"film": [1, 2]}, 0)
    with FeatureServer(open_tables(path, lists=True), port=port):  # the same file is as good
        same(before, sampler.sample({"film": [1, 2]}, 0))
    make(add_reverse=True).save(tmp_path / "other.aeg")
    with FeatureServer(open_tables(tmp_path / "other.aeg", lists=True), port=port):
        with pytest.raises(FileChangedError, match="has other rows"):
            sampler.sample({"film": [1, 2]}, 0)


def test_a_graph_without_edge_types() -> None:
    graph = HeteroGraph.from_edges({}, {"a": 5, "b": 3})
    graph["a"].features = np.arange(10, dtype=np.float32).reshape(5, 2)
    with FeatureServer({**graph_tables(graph), "a/x": graph["a"].features}, port=0) as server:
        served = open_graph(server.address, typed=True)
        assert served.num_nodes == {"a": 5, "b": 3} and served.edge_types == []
        for one in (graph, served):
            found = HeteroNeighborSampler(one, [2]).sample({"a": [4, 1]}, 1)
            assert found.node["a"].tolist() == [4, 1] and found.edge == {}
        assert served["a"].attrs["x"].gather([4]).tolist() == [[8, 9]]


@pytest.mark.parametrize(("storage", "budget"), [("memory", None), ("uring", "64M")])
def test_where_the_server_has_it(path: Path, storage: Any, budget: str | None) -> None:
    graph = HeteroGraph.load(path, storage=storage, memory_budget=budget)
    with FeatureServer(graph_tables(graph), port=0) as server:
        both = HeteroGraph.load(path), open_graph(server.address, typed=True)
        assert isinstance(both[1], ForeignHeteroGraph)
        same(*(HeteroNeighborSampler(one, [7, 4]).sample({"film": range(99)}, 9) for one in both))
