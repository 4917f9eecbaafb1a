"""What our samplers can do for links beyond PyG: hide the targets, draw true negatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from support.pyg import dst_weight
from torch_geometric.data import Data
from torch_geometric.sampler import EdgeSamplerInput, NegativeSampling, NodeSamplerInput

from aethergraph import Graph, HeteroGraph, errors
from aethergraph.pyg import HeteroNeighborSampler, LinkNeighborLoader, NeighborSampler

pytestmark = pytest.mark.pyg

TO = ("user", "to", "item")
BACK = ("item", "rev_to", "user")
FRIEND = ("user", "friend", "user")


def random_graph(seed: int = 0, num_nodes: int = 60, num_edges: int = 900) -> Graph:
    ends = np.random.default_rng(seed).integers(0, num_nodes, (2, num_edges))
    return Graph.from_edges(num_nodes, *ends, layout="both")


def typed_graph(**options: Any) -> HeteroGraph:
    rng = np.random.default_rng(1)
    to = rng.integers(0, 40, 700), rng.integers(0, 30, 700)
    friend = rng.integers(0, 40, (2, 300))
    return HeteroGraph.from_edges(
        {TO: to, FRIEND: tuple(friend), BACK: to[::-1]}, {"user": 40, "item": 30}, **options
    )


def link_input(src: Any, dst: Any, kind: Any = None, time: Any = None) -> EdgeSamplerInput:
    time = None if time is None else torch.as_tensor(time)
    row, col = torch.as_tensor(src), torch.as_tensor(dst)
    return EdgeSamplerInput(None, row, col, time=time, input_type=kind)


def pairs_of(src: Any, dst: Any) -> set[tuple[int, int]]:
    return set(zip(np.asarray(src).tolist(), np.asarray(dst).tolist(), strict=True))


# ---- exclusion -------------------------------------------------------------------------------


@pytest.mark.parametrize("exclude", [None, "self", "reverse"])
@pytest.mark.parametrize(
    ("source", "direction", "disjoint"),
    [("graph", "forward", True), ("graph", "backward", False), ("data", "forward", False)],
)
def test_targets_are_not_sampled(
    direction: str, disjoint: bool, exclude: Any, source: str
) -> None:  # fmt: skip
    graph = random_graph()
    src, dst = (ends[:25] for ends in graph.edge_index())
    data: Any = graph
    if source == "data":
        data = Data(edge_index=torch.from_numpy(np.stack(graph.edge_index())), num_nodes=60)
    sampler = NeighborSampler(
        data, [-1, -1], disjoint=disjoint, sample_direction=direction, exclude=exclude
    )
    out = sampler.sample_from_edges(link_input(src, dst))
    seen = pairs_of(out.node[out.row], out.node[out.col])
    targets, reverses = pairs_of(src, dst), pairs_of(dst, src)
    everything = pairs_of(*graph.edge_index())
    if exclude is None:
        assert targets <= seen
    else:
        hidden = targets if exclude == "self" else targets | reverses
        assert not seen & hidden
        assert reverses & everything - hidden <= seen
        assert len(seen) > len(everything) // 2


def test_targets_of_typed_links_are_not_sampled() -> None:
    graph = typed_graph()
    for kind, reverse in ((TO, BACK), (BACK, TO), (FRIEND, FRIEND)):
        src, dst = (ends[:20] for ends in graph[kind].edge_index())
        seen = {}
        for exclude in (None, "self", "reverse", {kind: reverse}):
            sampler = HeteroNeighborSampler(graph, [-1, -1], exclude=exclude)  # type: ignore[arg-type]
            out = sampler.sample_from_edges(link_input(src, dst, kind))
            name = exclude if isinstance(exclude, (str, type(None))) else "dict"
            seen[name] = {
                k: pairs_of(out.node[k[0]][out.row[k]], out.node[k[2]][out.col[k]])
                for k in graph.edge_types
            }
        targets, back = pairs_of(src, dst), pairs_of(dst, src)
        assert targets <= seen[None][kind]
        assert back & pairs_of(*graph[reverse].edge_index()) <= seen[None][reverse]
        assert not seen["self"][kind] & targets
        assert len(seen["self"][reverse]) >= len(seen["reverse"][reverse])
        assert not seen["reverse"][kind] & targets
        assert not seen["reverse"][reverse] & back
        assert seen["dict"] == seen["reverse"]


def test_node_seeds_exclude_nothing() -> None:
    graph = random_graph()
    a, b = (NeighborSampler(graph, [5], exclude=e, seed=1) for e in (None, "self"))
    index = NodeSamplerInput(None, torch.arange(9))
    assert torch.equal(a.sample_from_nodes(index).edge, b.sample_from_nodes(index).edge)


# ---- true negatives --------------------------------------------------------------------------


@pytest.mark.parametrize("num_edges", [300, 3000, 8000])  # 8%, 57% and 89% of all pairs
@pytest.mark.parametrize(
    "neg", [NegativeSampling("binary", 1.5), NegativeSampling("triplet"),
            NegativeSampling("triplet", 3, **dst_weight(torch.arange(60.0)))],
)  # fmt: skip
@pytest.mark.parametrize("disjoint", [False, True])
def test_no_negative_is_an_edge(num_edges: int, neg: NegativeSampling, disjoint: bool) -> None:
    graph = random_graph(2, 60, num_edges)
    edges = pairs_of(*graph.edge_index())
    src, dst = (ends[::7][:40] for ends in graph.edge_index())
    sampler = NeighborSampler(graph, [2], disjoint=disjoint, true_negatives=True, seed=3)
    out = sampler.sample_from_edges(link_input(src, dst), neg)
    if neg.is_binary():
        row, col = out.node[out.metadata[1]]
        assert len(row) == 100
        assert not pairs_of(row[40:], col[40:]) & edges
    else:
        _, source, positive, negative = (None if m is None else m for m in out.metadata[:4])
        assert torch.equal(out.node[source], torch.as_tensor(src))
        assert torch.equal(out.node[positive], torch.as_tensor(dst))
        amount = int(neg.amount)
        wide = out.node[negative].view(40, amount)
        assert not pairs_of(np.repeat(src, amount), wide.reshape(-1)) & edges
        if neg.amount == 3:
            assert not bool((wide == 0).any())  # of weight 0
    again = sampler.sample_from_edges(link_input(src, dst), neg)
    assert torch.equal(out.node, again.node)


def test_negatives_may_be_edges_unless_asked() -> None:
    graph = random_graph(2, 60, 3000)
    src, dst = (ends[:100] for ends in graph.edge_index())
    sampler = NeighborSampler(graph, [2], seed=3)
    out = sampler.sample_from_edges(link_input(src, dst), NegativeSampling("binary", 1))
    row, col = out.node[out.metadata[1]]
    assert graph.has_edges(row[100:].numpy(), col[100:].numpy()).mean() > 0.4


def test_the_rest_is_drawn_by_its_weights() -> None:
    """Node 0 has edges to all but three nodes, so that nearly all its negatives are drawn last."""
    src, dst = np.zeros(3997, int), np.arange(3, 4000)
    graph = Graph.from_edges(4000, src, dst)
    weight = torch.zeros(4000)
    weight[1:] = 1.0
    weight[1] = 3.0
    neg = NegativeSampling("triplet", 2, **dst_weight(weight))
    sampler = NeighborSampler(graph, [0], disjoint=True, true_negatives=True, seed=1)
    found: list[int] = []
    for epoch in range(20):
        sampler.set_epoch(epoch)
        out = sampler.sample_from_edges(link_input(src[:40], dst[:40]), neg)
        found += out.node[out.metadata[3]].reshape(-1).tolist()
    counts = np.bincount(found, minlength=3)
    assert counts[0] == 0
    assert len(found) == 1600 == counts[1] + counts[2]
    assert abs(counts[1] - 1200) < 5 * np.sqrt(1600 * 3 / 16)


def test_a_node_with_an_edge_to_all_others_is_named() -> None:
    graph = Graph.from_edges(5, [2] * 5, np.arange(5))
    sampler = NeighborSampler(graph, [1], true_negatives=True)
    with pytest.raises(errors.InvalidArgumentError, match="node 2 has an edge to every node"):
        sampler.sample_from_edges(link_input([2], [1]), NegativeSampling("triplet"))
    every = Graph.from_edges(3, *np.divmod(np.arange(9), 3))  # sources are drawn: none is to blame
    with pytest.raises(errors.InvalidArgumentError, match=r"nearly all pairs .*have an edge; take"):
        NeighborSampler(every, [1], true_negatives=True).sample_from_edges(
            link_input([2], [1]), NegativeSampling("binary")
        )


def test_true_negatives_of_a_loader() -> None:
    graph = Graph.from_edges(10, *np.divmod(np.delete(np.arange(100), 37), 10))
    asked = {"mode": "binary", "true_negatives": True}
    for batch in LinkNeighborLoader(graph, [1], neg_sampling=asked, batch_size=9):
        pairs = batch.n_id[batch.edge_label_index]
        assert set(map(tuple, pairs[:, 9:].t().tolist())) == {(3, 7)}
    assert asked == {"mode": "binary", "true_negatives": True}
    with pytest.raises(errors.InvalidArgumentError, match="neg_sampling: true_negatives must"):
        LinkNeighborLoader(graph, [1], neg_sampling={**asked, "true_negatives": 2})
    with pytest.raises(errors.InvalidArgumentError, match="true_negatives is the sampler's"):
        LinkNeighborLoader(
            graph, [1], neg_sampling=asked, neighbor_sampler=NeighborSampler(graph, [1])
        )


def test_the_only_pair_that_is_no_edge_is_found() -> None:
    u, v = np.divmod(np.delete(np.arange(100), 37), 10)
    sampler = NeighborSampler(Graph.from_edges(10, u, v), [1], true_negatives=True)
    out = sampler.sample_from_edges(link_input([1], [1]), NegativeSampling("binary", 3))
    assert out.node[out.metadata[1]].tolist() == [[1, 3, 3, 3], [1, 7, 7, 7]]


@pytest.mark.parametrize("kind", [TO, BACK, FRIEND])
def test_typed_negatives_in_time_are_no_edges_and_never_later(kind: Any) -> None:
    rng = np.random.default_rng(5)
    times = {"user": rng.integers(0, 20, 40), "item": rng.integers(0, 20, 30)}
    times["user"][0] = times["item"][0] = 0
    graph = typed_graph(node_time=times)
    src, dst = (ends[:30] for ends in graph[kind].edge_index())
    at = np.maximum(times[kind[0]][src], times[kind[2]][dst]) + rng.integers(0, 3, 30)
    for neg in (NegativeSampling("binary", 2), NegativeSampling("triplet", 2)):
        for strict in (False, True):
            sampler = HeteroNeighborSampler(
                graph, [3], time_attr="node_time", true_negatives=True, strict=strict, seed=2
            )
            out = sampler.sample_from_edges(link_input(src, dst, kind, at + 1), neg)
            limit = torch.as_tensor(at + 1).repeat(2) - int(strict)
            sources, targets = out.node[kind[0]], out.node[kind[2]]
            if neg.is_binary():
                row, col = out.metadata[1]
                u, v = sources[row[30:]], targets[col[30:]]
                assert (torch.as_tensor(times[kind[0]])[u] <= limit).all()
            else:
                u = torch.as_tensor(src).repeat(2)
                v = targets[out.metadata[3].t().reshape(-1)]
            assert (torch.as_tensor(times[kind[2]])[v] <= limit).all()
            assert not graph[kind].has_edges(u.numpy(), v.numpy()).any()


def test_options_that_are_refused() -> None:
    graph, typed = random_graph(), typed_graph(node_time={"user": np.arange(40)})
    with pytest.raises(
        errors.InvalidArgumentError, match="exclude = 'both' is not one of self, reverse"
    ):
        NeighborSampler(graph, [1], exclude="both")  # type: ignore[arg-type]
    refused: list[tuple[Any, str]] = [
        ({TO: ("item", "by", "user")}, "'by'"),
        ({TO: FRIEND}, "is no edge type of the graph from .item. to .user."),
        (3, "exclude = 3"),
    ]
    for exclude, text in refused:
        with pytest.raises(errors.InvalidArgumentError, match=text):
            HeteroNeighborSampler(typed, [1], exclude=exclude)
    sampler = HeteroNeighborSampler(typed, [1], time_attr="node_time")
    with pytest.raises(errors.InvalidArgumentError, match="edge_label_time is needed"):
        sampler.sample_from_edges(link_input([1], [2], TO), NegativeSampling("binary"))
    with pytest.raises(errors.InvalidArgumentError, match="edge_label_time must have one time"):
        sampler.sample_from_edges(link_input([1], [2], TO, [1, 2]), None)
    with pytest.raises(errors.InvalidArgumentError, match="has no time_attr"):
        HeteroNeighborSampler(typed, [1]).sample_from_edges(link_input([1], [2], TO, [1]), None)
    with pytest.raises(errors.OutOfRangeError, match=r"col\[0\] = 60"):
        NeighborSampler(graph, [1], exclude="self").sample_from_edges(link_input([1], [60]))
