"""Edges that typed samples must not hold (others: test_sampler.py), and edges by their ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import Ids, edge_lists, examples

from aethergraph import Graph, HeteroGraph, HeteroNeighborSampler, NeighborSampler, errors


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


@examples(50)
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
