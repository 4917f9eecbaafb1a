"""Orders of nodes against the oracle, for every layout and storage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support import order_oracle as oracle
from support.strategies import examples

from aethergraph import Graph, HeteroGraph
from aethergraph import _native as native
from aethergraph.errors import (
    CancelledError,
    CorruptFileError,
    InvalidArgumentError,
    TruncatedFileError,
)
from aethergraph.graph.node_orders import GORDER_WINDOW
from aethergraph.testing.graphs import CommunityGraph

Ids = NDArray[np.int64]


def edges_of(seed: int, nodes: int, edges: int, shape: str) -> tuple[Ids, Ids]:
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, nodes, edges), rng.integers(0, nodes, edges)
    if shape == "hub":
        src[rng.random(edges) < 0.4] = nodes // 2
    elif shape == "blocks":
        near = rng.random(edges) < 0.9
        dst[near] = (src[near] // 5 * 5 + rng.integers(0, 5, near.sum())) % nodes
    elif shape == "both":
        src, dst = np.concatenate([src, dst]), np.concatenate([dst, src])
    return src, dst


graphs = {
    "seed": st.integers(0, 2**32),
    "nodes": st.integers(1, 40),
    "edges": st.integers(0, 150),
    "shape": st.sampled_from(["even", "hub", "blocks", "both"]),
    "layout": st.sampled_from(["csc", "csr", "both"]),
}


@examples(60)
@given(**graphs)
def test_rabbit_is_that_of_the_oracle(
    seed: int, nodes: int, edges: int, shape: str, layout: Any
) -> None:
    src, dst = edges_of(seed, nodes, edges, shape)
    graph = Graph.from_edges(nodes, src, dst, layout=layout)
    perm, parts = graph.reorder_rabbit_with_partitions()
    expected = oracle.rabbit(oracle.matrix_of(nodes, src, dst))
    assert perm.tolist() == expected[0]
    assert parts.tolist() == expected[1]
    assert perm.dtype == parts.dtype == np.int64


@examples(30)
@given(**graphs)
def test_other_orders_are_those_of_the_oracle(
    seed: int, nodes: int, edges: int, shape: str, layout: Any
) -> None:
    src, dst = edges_of(seed, nodes, edges, shape)
    graph = Graph.from_edges(nodes, src, dst, layout=layout)
    between = oracle.matrix_of(nodes, src, dst)
    assert graph.reorder("degree").tolist() == oracle.by_degree(between).tolist()
    assert graph.reorder("bfs").tolist() == oracle.bfs(between)
    assert graph.reorder("gorder").tolist() == oracle.gorder(between, GORDER_WINDOW)


@pytest.mark.parametrize("storage", ["mmap", "memory", "uring"])
@pytest.mark.parametrize("compress", [False, True])
def test_every_storage_gives_the_same(storage: Any, compress: bool, tmp_path: Path) -> None:
    src, dst = edges_of(1, 3000, 20_000, "hub")
    graph = Graph.from_edges(3000, src, dst)
    graph.save(tmp_path / "g.aeg", compress=compress)
    loaded = Graph.load(tmp_path / "g.aeg", storage=storage)
    for order in ("rabbit", "bfs", "degree", "gorder"):
        assert np.array_equal(loaded.reorder(order), graph.reorder(order))  # type: ignore[arg-type]


def community_graph(nodes: int) -> tuple[Graph, Ids, Ids]:
    made = CommunityGraph(nodes, 8 * nodes, nodes // 50, homophily=0.85)
    src, dst = made.edges()
    return Graph.from_edges(nodes, src, dst), src, dst


def test_communities_are_found_by_one_thread_and_by_several() -> None:
    graph, src, dst = community_graph(8000)
    perm, parts = graph.reorder_rabbit_with_partitions()
    alone = oracle.modularity(src, dst, parts)
    assert alone > 0.75  # planted: 0.85 of the edges, in 160 blocks
    assert (np.diff(parts[perm]) >= 0).all() and parts.max() < 1000
    assert np.array_equal(parts, graph.rabbit_partitions())
    assert np.array_equal(perm, graph.reorder_rabbit())
    several, parts = graph.reorder_rabbit_with_partitions(num_threads=4)
    assert np.array_equal(np.sort(several), np.arange(8000))
    assert (np.diff(parts[several]) >= 0).all()
    assert oracle.modularity(src, dst, parts) > 0.98 * alone


def test_an_order_of_all_types_is_that_of_one_graph() -> None:
    rng = np.random.default_rng(2)
    users, films = 60, 30
    rates = rng.integers(0, users, 300), rng.integers(0, films, 300)
    knows = rng.integers(0, users, 200), rng.integers(0, users, 200)
    typed = HeteroGraph.from_edges(
        {("user", "rates", "film"): rates, ("user", "knows", "user"): knows},
        {"user": users, "film": films},
    )
    src = np.concatenate([rates[0], knows[0]])
    dst = np.concatenate([rates[1] + users, knows[1]])
    whole, parts = Graph.from_edges(users + films, src, dst).reorder_rabbit_with_partitions()
    perms, typed_parts = typed.reorder_rabbit_with_partitions()
    assert typed.node_types == ["user", "film"]
    assert perms["user"].tolist() == [v for v in whole.tolist() if v < users]
    assert perms["film"].tolist() == [v - users for v in whole.tolist() if v >= users]
    assert np.array_equal(np.concatenate(list(typed_parts.values())), parts)
    assert np.array_equal(typed.rabbit_partitions()["film"], typed_parts["film"])
    assert np.array_equal(typed.reorder()["user"], typed.reorder_rabbit()["user"])


def lists_of(graph: Graph) -> native.RankLists:
    numbered = [native.Numbered(graph.topology(), 0, 0)]
    ranked = native.rank_nodes(*native.node_degrees(numbered, graph.num_nodes))
    return native.rank_lists(numbered, ranked)


def test_damaged_lists_and_files_are_told(tmp_path: Path) -> None:
    lists = lists_of(community_graph(1000)[0])
    bad = lists.neighbors.copy()
    bad[17] = 1000
    with pytest.raises(CorruptFileError, match="entry 17 of the lists is 1000"):
        native.rabbit_order(native.RankLists(lists.places, bad), 1)
    with pytest.raises(CorruptFileError, match="places of the lists"):
        native.bfs_order(native.RankLists(lists.places[::-1].copy(), lists.neighbors))
    with open(tmp_path / "read-only", "wb") as file, open(tmp_path / "read-only", "rb") as reader:
        file.close()
        with pytest.raises(OSError, match="cannot write"):
            native.rabbit_order(lists, 1, memory=0, file=reader.fileno())
    with open("/dev/null", "r+b") as hole, pytest.raises(TruncatedFileError):
        native.rabbit_order(lists, 1, memory=0, file=hole.fileno())


def test_an_order_can_be_cancelled() -> None:
    lists = lists_of(community_graph(2000)[0])
    for make in (
        lambda task: native.rabbit_order(lists, 1, task),
        lambda task: native.bfs_order(lists, task),
        lambda task: native.gorder_order(lists, 5, task),
        lambda task: native.sort_lists(lists, task),
    ):
        task = native.Task(1)
        task.cancel()
        with pytest.raises(CancelledError):
            make(task)


def test_progress_comes_to_its_end() -> None:
    seen: list[tuple[int, int]] = []
    community_graph(2000)[0].reorder(progress=lambda done, total: seen.append((done, total)))
    assert seen and seen[-1][0] == seen[-1][1] > 0


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"order": "random"}, "order = 'random' is not one of rabbit, bfs, degree, gorder"),
        ({"order": None}, "is not one of"),
        ({"num_threads": -1}, "num_threads = -1"),
        ({"num_threads": 257}, "num_threads = 257"),
    ],
)
def test_bad_options(options: dict[str, Any], match: str) -> None:
    graph = Graph.from_edges(3, [0, 1], [1, 2])
    typed = HeteroGraph.from_edges({("a", "to", "a"): ([0, 1], [1, 2])})
    for one in (graph, typed):
        with pytest.raises(InvalidArgumentError, match=match):
            one.reorder(**options)


def test_no_nodes_and_no_edges() -> None:
    empty = Graph.from_edges(0, [], [])
    alone = Graph.from_edges(3, [1], [1])
    for order in ("rabbit", "bfs", "degree", "gorder"):
        assert empty.reorder(order).tolist() == []  # type: ignore[arg-type]
        assert sorted(alone.reorder(order).tolist()) == [0, 1, 2]  # type: ignore[arg-type]
    assert alone.rabbit_partitions().tolist() == [0, 1, 2]
