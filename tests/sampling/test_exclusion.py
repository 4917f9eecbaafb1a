"""Edges that a sample must not hold, ego subgraphs, and looking edges up by their ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import Ids, assert_same_subgraph, edge_lists, examples

from aethergraph import Graph, HeteroGraph, HeteroNeighborSampler, NeighborSampler, errors
from aethergraph.testing import oracle

keys = st.integers(0, 2**64 - 1)


@examples(300)
@given(
    edges=edge_lists(),
    fanouts=st.lists(st.integers(-1, 6), max_size=3),
    key=keys,
    replace=st.booleans(),
    kind=st.sampled_from(["directional", "bidirectional", "induced"]),
    disjoint=st.booleans(),
    weighted=st.booleans(),
    strategy=st.sampled_from([None, "uniform", "last"]),
    part=st.sampled_from([0.05, 0.5, 1.0]),
    threads=st.sampled_from([1, 2, 8]),
    data=st.data(),
)
def test_equal_to_the_oracle(
    edges: tuple[int, Ids, Ids], fanouts: list[int], key: int, replace: bool, kind: Any,
    disjoint: bool, weighted: bool, strategy: Any, part: float, threads: int, data: st.DataObject,
) -> None:  # fmt: skip
    num_nodes, src, dst = edges
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    graph = Graph.from_edges(
        num_nodes, src, dst, edge_time=rng.integers(0, 5, len(src)),
        edge_weight=rng.integers(0, 3, len(src)),
    )  # fmt: skip
    node = st.integers(0, max(0, num_nodes - 1))
    seeds = np.array(data.draw(st.lists(node, max_size=6 * (num_nodes > 0))), np.int64)
    exclude = rng.permutation(np.flatnonzero(rng.random(graph.num_edges) < part))
    sampler = NeighborSampler(
        graph, fanouts, replace=replace, disjoint=disjoint, subgraph_type=kind,
        num_threads=threads, weight_attr="edge_weight" if weighted else None,
        **({} if strategy is None else {"time_attr": "edge_time", "temporal_strategy": strategy}),
    )  # fmt: skip
    timed: dict[str, Any] = {}
    at = None
    if strategy is not None:
        at = rng.integers(0, 5, len(seeds))
        timed = {"time": graph.edge_time, "until": at, "latest": strategy == "last"}
    expected = oracle.sample(
        *graph.csc(), seeds, fanouts, key, replace=replace, disjoint=disjoint or at is not None,
        subgraph_type=kind, weight=graph.edge_weight if weighted else None, exclude=exclude,
        **timed,
    )  # fmt: skip
    found = sampler.sample(seeds, key, seed_time=at, exclude=exclude)
    assert_same_subgraph(found, expected)
    assert not np.isin(found.edge, exclude).any()


def test_a_node_draws_as_if_the_edges_did_not_exist() -> None:
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, 200, (2, 4000))
    graph = Graph.from_edges(200, src, dst, keep_order=True)
    assert graph.edge_order is not None
    exclude = rng.choice(4000, 900, replace=False)
    left = np.sort(np.setdiff1d(graph.edge_order, graph.edge_order[exclude]))
    smaller = Graph.from_edges(200, src[left], dst[left])
    for options in ({}, {"disjoint": True}, {"replace": True}, {"subgraph_type": "induced"}):
        a = NeighborSampler(graph, [7, 5], **options)  # type: ignore[arg-type]
        b = NeighborSampler(smaller, [7, 5], **options)  # type: ignore[arg-type]
        one, two = a.sample([3, 4], 8, exclude=exclude), b.sample([3, 4], 8)
        for name in ("node", "row", "col"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
        assert np.array_equal(a.sample([3, 4], 8).node, a.sample([3, 4], 8, exclude=[]).node)


@pytest.mark.parametrize("threads", [1, 2])
def test_large_frontiers_are_prepared_in_parallel(threads: int) -> None:
    rng = np.random.default_rng(2)
    src, dst = rng.integers(0, 9000, (2, 60_000))
    graph = Graph.from_edges(
        9000, src, dst, edge_time=rng.integers(0, 9, 60_000), edge_weight=rng.random(60_000)
    )
    exclude = rng.choice(60_000, 3000, replace=False)
    options = {"weight_attr": "edge_weight", "time_attr": "edge_time", "temporal_strategy": "last"}
    sampler = NeighborSampler(graph, [4, 3], num_threads=threads, **options)  # type: ignore[arg-type]
    seeds, at = np.arange(9000), rng.integers(0, 9, 9000)
    found = sampler.sample(seeds, 3, seed_time=at, exclude=exclude)
    assert graph.edge_time is not None and graph.edge_weight is not None and found.batch is not None
    assert not np.isin(found.edge, exclude).any()
    assert (graph.edge_time[found.edge] <= at[found.batch[found.col]]).all()
    alone = NeighborSampler(graph, [4, 3], **options)  # type: ignore[arg-type]
    assert_same_subgraph(found, alone.sample(seeds, 3, seed_time=at, exclude=exclude))
    damaged = np.array(graph.edge_weight)
    damaged[7] = 0  # weights are read to be counted
    graph.edge_attrs["w"] = damaged
    broken = NeighborSampler(graph, [4], weight_attr="w", num_threads=threads)
    damaged[::50] = -1
    with pytest.raises(errors.InvalidArgumentError, match="weights are finite and not negative"):
        broken.sample(seeds, 3)


def test_ego_subgraphs_are_those_of_each_seed_alone() -> None:
    rng = np.random.default_rng(3)
    src, dst = rng.integers(0, 100, (2, 1500))
    graph = Graph.from_edges(100, src, dst)
    together = NeighborSampler(graph, [4, 3], disjoint=True, subgraph_type="induced")
    found = together.sample([5, 9, 5], 7)
    assert found.batch is not None
    assert (found.batch[found.row] == found.batch[found.col]).all()
    sources, targets = graph.edge_index()
    for tree in range(3):
        nodes = found.node[found.batch == tree]
        assert len(np.unique(nodes)) == len(nodes)
        inside = np.flatnonzero(np.isin(sources, nodes) & np.isin(targets, nodes))
        assert np.array_equal(np.sort(found.edge[found.batch[found.col] == tree]), inside)


def test_typed_graphs_exclude_by_type() -> None:
    rng = np.random.default_rng(4)
    ends = rng.integers(0, 30, 400), rng.integers(0, 50, 400)
    graph = HeteroGraph.from_edges({("u", "to", "v"): ends}, add_reverse=True)
    kind, back = graph.edge_types
    sampler = HeteroNeighborSampler(graph, [5, 5])
    exclude = {kind: np.arange(0, 400, 3), back: [7, 7, 9]}
    found = sampler.sample({"v": [1, 2, 3]}, 5, exclude=exclude)
    for name, ids in exclude.items():
        assert len(found.edge[name]) and not np.isin(found.edge[name], ids).any()
    with pytest.raises(errors.OutOfRangeError, match=r"exclude\[.*\]\[1\] = 400 .*num_edges=400"):
        sampler.sample({"v": [1]}, 5, exclude={back: [0, 400]})
    with pytest.raises(errors.InvalidArgumentError, match="is no edge type"):
        sampler.sample({"v": [1]}, 5, exclude={("v", "to", "u"): [0]})
    with pytest.raises(errors.OutOfRangeError, match=r"exclude\[0\] = -1"):
        NeighborSampler(Graph.from_edges(2, [0], [1]), [1]).sample([1], exclude=[-1])


@examples(100)
@given(edges=edge_lists(max_nodes=8), layout=st.sampled_from(["csc", "csr", "both"]))
def test_edges_are_found_by_their_ends(edges: tuple[int, Ids, Ids], layout: Any) -> None:
    num_nodes, src, dst = edges
    graph = Graph.from_edges(num_nodes, src, dst, layout=layout)
    u, v = (ends.reshape(-1) for ends in np.indices((num_nodes, num_nodes)))
    sources, targets = graph.edge_index()
    pair, edge = graph.edges_between(u, v)
    expected = [
        (i, e) for i in range(len(u))
        for e in np.flatnonzero((sources == u[i]) & (targets == v[i]))
    ]  # fmt: skip
    assert sorted(zip(pair.tolist(), edge.tolist(), strict=True)) == expected
    assert np.array_equal(graph.has_edges(u, v), np.bincount(pair, minlength=len(u)) > 0)
    assert all(
        graph.has_edge(a, b) == c for a, b, c in zip(u, v, graph.has_edges(u, v), strict=True)
    )


def test_more_duplicates_than_pairs(tmp_path: Path) -> None:
    graph = Graph.from_edges(3, [0] * 1000 + [1], [2] * 1001)
    graph.save(tmp_path / "g")
    with Graph.load(tmp_path / "g") as mapped:
        pair, edge = mapped.edges_between([1, 0], [2, 2])
        assert np.bincount(pair).tolist() == [1, 1000] and len(set(edge.tolist())) == 1001
        with pytest.raises(errors.OutOfRangeError, match=r"v\[1\] = 3"):
            mapped.has_edges([0, 0], [0, 3])
        with pytest.raises(errors.InvalidArgumentError, match="u has 1 ids, but v has 2"):
            mapped.has_edges([0], [0, 1])
