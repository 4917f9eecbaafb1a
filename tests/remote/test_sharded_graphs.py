"""A graph with lists and rows on several servers: samples of its file, and failures by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.serving import comes

from aethergraph import Graph, NeighborSampler, RandomWalker, SubgraphLoader
from aethergraph.errors import ServerTimeoutError
from aethergraph.remote import FeatureServer, open_graph, open_tables

NODES, EDGES, SHARDS = 20_000, 300_000, 3


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sharded") / "graph.aeg"
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, NODES, (2, EDGES))
    dst[:5000] = 7  # a hub
    graph = Graph.from_edges(NODES, src, dst)
    graph.features = rng.random((NODES, 12), np.float32)
    graph.node_attrs["y"] = np.arange(NODES) % 5
    graph.save(path)
    return path


def url_of(addresses: list[str], options: str = "") -> str:
    return "tcp://" + ",".join(one.removeprefix("tcp://") for one in addresses) + options


@pytest.fixture(scope="module")
def servers(path: Path) -> Iterator[list[FeatureServer]]:
    tables = open_tables(path, lists=True)
    made = [FeatureServer(tables, port=0, shard=(k, SHARDS)).start() for k in range(SHARDS)]
    yield made
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def url(servers: list[FeatureServer]) -> str:
    return url_of([one.address for one in servers])


@pytest.mark.parametrize(
    "options",
    [{}, {"num_threads": 2, "drop_last": True}, {"disjoint": True}, {"replace": True, "mix": 2}],
)
def test_batches_are_those_of_the_file(path: Path, url: str, options: dict[str, Any]) -> None:
    seeds = np.arange(0, NODES, 7)
    if "mix" in options:
        options = {**options, "partitions": seeds // 100}
    loaders = [
        SubgraphLoader(graph, [6, 4], seeds, batch_size=500, shuffle=True, seed=4, **options)
        for graph in (Graph.load(path), open_graph(url))
    ]
    count = 0
    for mine, its in zip(*loaders, strict=True):
        for name in ("node", "row", "col", "edge"):
            assert (getattr(mine.subgraph, name) == getattr(its.subgraph, name)).all(), name
        assert (mine.index == its.index).all()
        for name in ("x", "y"):
            assert (mine.node_attrs[name] == its.node_attrs[name]).all(), name
        count += 1
    assert count == len(seeds) // 500 + ("drop_last" not in options)


def test_whole_lists_and_walks(path: Path, url: str) -> None:
    both = Graph.load(path), open_graph(url)
    samples = [NeighborSampler(one, [-1, 3]).sample(range(200), 2) for one in both]
    assert (samples[0].edge == samples[1].edge).all()
    walks = [RandomWalker(one, direction="in").walk(range(50), 6, key=3) for one in both]
    assert (walks[0] == walks[1]).all()


def test_a_hop_is_two_questions(servers: list[FeatureServer]) -> None:
    """Every shard is asked once for lists and once for ids, in requests of 4096 numbers."""
    graph = open_graph(url_of([one.address for one in servers]))
    before = [one.stats().requests for one in servers]
    sample = NeighborSampler(graph, [10, 5, 3]).sample(range(0, 3000, 3), 1)
    nodes, edges = sample.num_sampled_nodes, sample.num_sampled_edges
    assert nodes is not None and edges is not None and max(nodes) > 8192
    # A shard has about a third of the numbers of each question.
    most = sum(-(-count // (2 * 4096)) for count in (*nodes[:3], *edges))
    for one, was in zip(servers, before, strict=True):
        assert 6 <= one.stats().requests - was <= most


def test_a_dead_shard_is_a_timeout_that_names_it(path: Path, servers: list[FeatureServer]) -> None:
    graph = open_graph(url_of([one.address for one in servers], "?timeout=2"))
    sampler = NeighborSampler(graph, [5, 5])
    before = sampler.sample(range(50), 1)
    gone = servers[1]
    gone.close()
    for work in (
        lambda: sampler.sample(range(50), 1),
        lambda: list(SubgraphLoader(graph, [5, 5], batch_size=4000, num_threads=2)),
        lambda: RandomWalker(graph, direction="in").walk(range(50), 6, key=3),
    ):
        with pytest.raises(ServerTimeoutError, match=f"{gone.address} was not reached") as error:
            work()
        assert isinstance(error.value, TimeoutError)
    gone.start()  # of the same file: as good as before
    assert comes(lambda: (sampler.sample(range(50), 1).edge == before.edge).all())
