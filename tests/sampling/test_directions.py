"""Typed samples that follow out-edges, and both ways, against the oracle."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aethergraph import Graph, HeteroGraph, HeteroNeighborSampler, NeighborSampler, errors
from aethergraph.sampling.hetero import HeteroSubgraph
from aethergraph.testing import oracle

VOTES, IN, KNOWS = ("user", "votes", "post"), ("post", "in", "sub"), ("user", "knows", "user")
KINDS = [VOTES, IN, KNOWS]
COUNTS = {"user": 40, "post": 60, "sub": 5}
TYPES = list(COUNTS)
SEEDS = {"user": np.array([3, 3, 17, 39]), "post": np.array([8, 59])}
FANOUTS = {VOTES: [3, 2], IN: [2, -1], KNOWS: [4, 1]}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"replace": True},
    {"disjoint": True},
    {"weight_attr": "edge_weight"},
    {"subgraph_type": "induced"},
    {"disjoint": True, "subgraph_type": "induced"},
]


def make_graph(layout: Any = "both") -> HeteroGraph:
    """Edges of three types, some of them more than once."""
    rng = np.random.default_rng(6)
    ends = {
        VOTES: (rng.integers(0, 40, 300), rng.integers(0, 60, 300)),
        IN: (rng.integers(0, 60, 80), rng.integers(0, 5, 80)),
        KNOWS: (rng.integers(0, 40, 150), rng.integers(0, 40, 150)),
    }
    weights = {kind: rng.integers(0, 4, len(src)) * 0.5 for kind, (src, _) in ends.items()}
    return HeteroGraph.from_edges(ends, COUNTS, edge_weight=weights, layout=layout)


def relations(graph: HeteroGraph, directions: list[str], weighted: bool) -> list[oracle.Relation]:
    found = []
    for direction in directions:
        for kind in KINDS:
            near, far = TYPES.index(kind[2]), TYPES.index(kind[0])
            if direction == "backward":
                near, far, lists = far, near, graph[kind].csr()
            else:
                lists = (*graph[kind].csc(), None)
            weight = graph[kind].edge_weight if weighted else None
            found.append(oracle.Relation(*lists, source=near, to=far, weight=weight))
    return found


def expect(
    graph: HeteroGraph,
    directions: list[str],
    key: int,
    options: dict[str, Any],
    exclude: Any = None,
) -> oracle.TypedSample:
    hidden = None if exclude is None else [exclude.get(kind, frozenset()) for kind in KINDS]
    return oracle.sample_typed(
        relations(graph, directions, "weight_attr" in options),
        [SEEDS.get(name, []) for name in TYPES],
        [FANOUTS[kind] for kind in KINDS] * len(directions),
        key,
        replace=options.get("replace", False),
        disjoint=options.get("disjoint", False),
        induced=options.get("subgraph_type") == "induced",
        exclude=None if hidden is None else hidden * len(directions),
    )


def joined(found: oracle.TypedSample, kind: int) -> list[tuple[int, int, int, int]]:
    """(hop, row, col, edge) of in-edges and out-edges, each once per destination."""
    edges = []
    for number, outward in ((kind, False), (kind + len(KINDS), True)):
        hops = np.repeat(np.arange(2), found.hop_edges[number])
        if len(hops) != len(found.row[number]):
            hops = np.zeros(len(found.row[number]), int)
        ends = found.row[number], found.col[number]
        row, col = reversed(ends) if outward else ends
        edges += list(zip(hops, row, col, found.edge[number], strict=True))
    edges.sort(key=lambda edge: edge[0])
    first: dict[Any, Any] = {}
    for edge in edges:
        first.setdefault(edge[2:], edge)
    return list(first.values())


def assert_nodes(sub: HeteroSubgraph, found: oracle.TypedSample) -> None:
    for number, name in enumerate(TYPES):
        np.testing.assert_array_equal(sub.node[name], found.node[number])
        if sub.batch is not None:
            np.testing.assert_array_equal(sub.batch[name], found.batch[number])
        assert sub.num_sampled_nodes is not None
        assert sub.num_sampled_nodes[name] == found.hop_nodes[number]


@pytest.mark.parametrize("layout", ["csr", "both"])
@pytest.mark.parametrize("options", OPTIONS)
def test_backward(options: dict[str, Any], layout: str) -> None:
    graph = make_graph(layout)
    sampler = HeteroNeighborSampler(graph, FANOUTS, sample_direction="backward", **options)
    for key in range(5):
        sub = sampler.sample(SEEDS, key)
        found = expect(graph, ["backward"], key, options)
        assert_nodes(sub, found)
        for number, kind in enumerate(KINDS):
            np.testing.assert_array_equal(sub.row[kind], found.col[number])
            np.testing.assert_array_equal(sub.col[kind], found.row[number])
            np.testing.assert_array_equal(sub.edge[kind], found.edge[number])
            src, dst = graph[kind].edge_ends(sub.edge[kind])
            np.testing.assert_array_equal(sub.node[kind[0]][sub.row[kind]], src)
            np.testing.assert_array_equal(sub.node[kind[2]][sub.col[kind]], dst)
            if sub.num_sampled_edges is not None:
                assert sub.num_sampled_edges[kind] == found.hop_edges[number]


@pytest.mark.parametrize("options", OPTIONS)
def test_both_ways(options: dict[str, Any]) -> None:
    graph = make_graph()
    sampler = HeteroNeighborSampler(graph, FANOUTS, sample_direction="both", **options)
    twice = 0
    for key in range(5):
        sub = sampler.sample(SEEDS, key)
        found = expect(graph, ["forward", "backward"], key, options)
        assert_nodes(sub, found)
        for number, kind in enumerate(KINDS):
            edges = joined(found, number)
            wanted = np.array(edges, np.int64).reshape(-1, 4).T
            np.testing.assert_array_equal(
                wanted[1:], [sub.row[kind], sub.col[kind], sub.edge[kind]]
            )
            if sub.num_sampled_edges is not None:
                assert sub.num_sampled_edges[kind] == np.bincount(wanted[0], minlength=2).tolist()
            twice += len(found.row[number]) + len(found.row[number + len(KINDS)]) - len(edges)
    assert twice


@pytest.mark.parametrize("options", OPTIONS)
def test_copies_of_a_seed_have_the_in_edges_of_their_node(options: dict[str, Any]) -> None:
    sampler = HeteroNeighborSampler(make_graph(), FANOUTS, sample_direction="both", **options)
    sub = sampler.sample({"user": [17, 3, 3, 3]}, 2)
    found = [sub.edge[KNOWS][sub.col[KNOWS] == copy].tolist() for copy in range(4)]
    assert found[1] and sorted(found[1]) == sorted(found[2]) == sorted(found[3])
    if "disjoint" not in options:  # nobody hears of a copy twice
        for kind in KINDS:
            own = np.stack((sub.edge[kind], sub.col[kind]))
            assert len(np.unique(own, axis=1).T) == len(own.T)
        assert not np.isin(sub.row[VOTES], [2, 3]).any()


@pytest.mark.parametrize("induced", [False, True])
def test_copies_change_nothing_but_their_own_edges(induced: bool) -> None:
    options: dict[str, Any] = {"subgraph_type": "induced" if induced else "directional"}
    sampler = HeteroNeighborSampler(make_graph(), [-1, -1], sample_direction="both", **options)
    one, two = sampler.sample({"user": [3, 17]}, 1), sampler.sample({"user": [3, 17, 3]}, 1)
    for kind in KINDS:
        first = two.col[kind] != 2 if kind[2] == "user" else np.full(len(two.col[kind]), True)
        np.testing.assert_array_equal(two.edge[kind][first], one.edge[kind])
        for name, rows, before in ((kind[0], two.row, one.row), (kind[2], two.col, one.col)):
            np.testing.assert_array_equal(
                two.node[name][rows[kind][first]], one.node[name][before[kind]]
            )


@pytest.mark.parametrize("layout", ["csr", "both"])
def test_excluded_edges_are_left_out(layout: str) -> None:
    graph, rng = make_graph(layout), np.random.default_rng(2)
    exclude = {kind: rng.choice(graph[kind].num_edges, 40) for kind in (VOTES, KNOWS)}
    hidden = {kind: frozenset(ids.tolist()) for kind, ids in exclude.items()}
    sampler = HeteroNeighborSampler(graph, FANOUTS, sample_direction="backward")
    sub = sampler.sample(SEEDS, 4, exclude=exclude)
    found = expect(graph, ["backward"], 4, {}, hidden)
    for number, kind in enumerate(KINDS):
        np.testing.assert_array_equal(sub.edge[kind], found.edge[number])
        assert not set(sub.edge[kind].tolist()) & hidden.get(kind, frozenset())
    if layout == "both":
        both = HeteroNeighborSampler(graph, [-1, -1], sample_direction="both")
        sub = both.sample(SEEDS, 4, exclude=exclude)
        for kind, ids in hidden.items():
            seen = set(sub.edge[kind].tolist())
            assert not seen & ids
            assert len(seen) > 50


@pytest.mark.parametrize("direction", ["backward", "both"])
def test_out_of_core_and_pickled(direction: Any, tmp_path: Path) -> None:
    make_graph().save(tmp_path / "typed.aeg")
    large = HeteroGraph.load(tmp_path / "typed.aeg", storage="uring", memory_budget="32M")
    wanted = HeteroNeighborSampler(make_graph(), FANOUTS, sample_direction=direction)
    sampler = HeteroNeighborSampler(large, FANOUTS, sample_direction=direction)
    for one in (sampler, pickle.loads(pickle.dumps(sampler))):
        many = one.sample_many([SEEDS] * 6, range(6))
        for key, sub in enumerate(many):
            expected = wanted.sample(SEEDS, key)
            for kind in KINDS:
                np.testing.assert_array_equal(sub.edge[kind], expected.edge[kind])
                np.testing.assert_array_equal(sub.row[kind], expected.row[kind])


@pytest.mark.parametrize("direction", ["backward", "both"])
def test_reverses_of_what_was_sampled(direction: Any) -> None:
    """``bidirectional`` adds them whichever way the edges were followed."""
    graph = make_graph()
    plain = HeteroNeighborSampler(graph, [2], sample_direction=direction)
    whole = HeteroNeighborSampler(
        graph, [2], sample_direction=direction, subgraph_type="bidirectional"
    )
    one, two = plain.sample(SEEDS, 1), whole.sample(SEEDS, 1)
    pairs = set(zip(one.row[KNOWS].tolist(), one.col[KNOWS].tolist(), strict=True))
    found = set(zip(two.row[KNOWS].tolist(), two.col[KNOWS].tolist(), strict=True))
    assert found == pairs | {(col, row) for row, col in pairs}


def test_what_is_refused() -> None:
    with pytest.raises(errors.LayoutError, match="layout='both'"):
        HeteroNeighborSampler(make_graph("csc"), [2], sample_direction="backward")
    with pytest.raises(errors.LayoutError, match="layout='both'"):
        HeteroNeighborSampler(make_graph("csr"), [2], sample_direction="both")
    with pytest.raises(errors.InvalidArgumentError, match="sample_direction = 'up'"):
        HeteroNeighborSampler(make_graph(), [2], sample_direction="up")  # type: ignore[arg-type]
    options: list[dict[str, Any]] = [{"layered": True}, {"time_attr": "edge_time"}]
    for option in options:
        with pytest.raises(errors.InvalidArgumentError, match="goes without time_attr"):
            HeteroNeighborSampler(make_graph(), [2], sample_direction="both", **option)


@pytest.mark.parametrize("direction", ["forward", "backward", "both"])
@pytest.mark.parametrize("subgraph_type", ["directional", "induced"])
def test_a_graph_of_one_type(direction: Any, subgraph_type: Any) -> None:
    """Draws are those of a typed graph with one type of each."""
    rng = np.random.default_rng(3)
    src, dst = rng.integers(0, 40, (2, 300))
    graph = Graph.from_edges(40, src, dst, layout="both")
    typed = HeteroGraph.from_edges(
        {("node", "to", "node"): (src, dst)}, {"node": 40}, layout="both"
    )
    options: dict[str, Any] = {"sample_direction": direction, "subgraph_type": subgraph_type}
    plain = NeighborSampler(graph, [3, 2], **options)
    seeds = [7, 0, 7]
    found = plain.sample(seeds, key=5, exclude=[1, 2])
    kind = ("node", "to", "node")
    expected = HeteroNeighborSampler(typed, [3, 2], **options).sample(
        {"node": seeds}, key=5, exclude={kind: [1, 2]}
    )
    np.testing.assert_array_equal(found.node, expected.node["node"])
    for name in ("row", "col", "edge"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name)[kind])
    again = pickle.loads(pickle.dumps(plain)).sample(seeds, key=5, exclude=[1, 2])
    np.testing.assert_array_equal(again.edge, found.edge)


def test_what_is_refused_of_one_type() -> None:
    graph = Graph.from_edges(3, [0, 0, 1], [1, 2, 2])
    with pytest.raises(errors.LayoutError, match="layout='both'"):
        NeighborSampler(graph, [-1], sample_direction="backward")
    with pytest.raises(errors.InvalidArgumentError, match="sample_direction = 'up'"):
        NeighborSampler(graph, [-1], sample_direction="up")  # type: ignore[arg-type]
