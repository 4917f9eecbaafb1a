"""One fanout for all edge types of a node together, as GraphBolt means a single number."""

from __future__ import annotations

from typing import Any

import dgl.graphbolt as gb
import numpy as np
import pytest
import torch
from support.graphbolt import batches

from aethergraph import HeteroGraph, errors
from aethergraph.dgl.graphbolt import SamplingGraph, to_fused_csc

FROM_A, FROM_B = "a:r:c", "b:s:c"
COUNTS = {"a": 40, "b": 20, "c": 6}


def two_types(**options: Any) -> HeteroGraph:
    """Node i of type c has 3 + i in-edges from a and 2 from b; all edges have weight 1 or 3."""
    many = np.repeat(np.arange(6), np.arange(6) + 3)
    few = np.repeat(np.arange(6), 2)
    edges: dict[Any, Any] = {
        ("a", "r", "c"): (np.arange(len(many)) % 40, many),
        ("b", "s", "c"): (np.arange(len(few)), few),
    }
    graph = HeteroGraph.from_edges(edges, COUNTS, keep_order=True, **options)
    for kind, weight in ((("a", "r", "c"), 1.0), (("b", "s", "c"), 3.0)):
        count = graph[kind].num_edges
        graph[kind].attrs["w"] = np.full(count, weight, np.float32)
        graph[kind].attrs["even"] = np.arange(count) % 2 == 0
    return graph


def drawn(layer: Any) -> dict[str, list[list[int]]]:
    """Edge ids by edge type and destination."""
    found = {}
    for kind, csc in layer.sampled_csc.items():
        parts = layer.original_edge_ids[kind].split(csc.indptr.diff().tolist())
        found[kind] = [part.tolist() for part in parts]
    return found


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("fanout", [1, 4, 9])
def test_every_node_draws_so_many_of_all_types_together(fanout: int, replace: bool) -> None:
    graph = two_types()
    sampling, nodes = SamplingGraph(graph, seed=3), torch.tensor([5, 0, 3])
    layer = sampling.sample_neighbors({"c": nodes}, torch.tensor([fanout]), replace)
    everything = drawn(sampling.in_subgraph({"c": nodes}))
    found = drawn(layer)
    for at, node in enumerate(nodes.tolist()):
        lists = [found[kind][at] for kind in (FROM_A, FROM_B)]
        total = sum(map(len, lists))
        assert total == (fanout if replace else min(fanout, node + 5))
        for kind, own in zip((FROM_A, FROM_B), lists, strict=True):
            assert set(own) <= set(everything[kind][at])
            assert replace or len(set(own)) == len(own)


@pytest.mark.parametrize("prob", [None, "w"])
@pytest.mark.parametrize("way", ["neighbors", "replaced", "layer", "layer replaced"])
def test_types_come_by_their_share(way: str, prob: str | None) -> None:
    """Of node 5, 8 of 10 edges are from a; by weight 8 of 14."""
    sampling, nodes = SamplingGraph(two_types(), seed=1), {"c": torch.tensor([5])}
    counts = np.zeros(8 + 2)
    for epoch in range(600):
        sampling.set_epoch(epoch)
        if way.startswith("layer"):
            layer = sampling.sample_layer_neighbors(
                nodes, torch.tensor([1]), way == "layer replaced", prob
            )
        else:
            layer = sampling.sample_neighbors(nodes, torch.tensor([1]), way == "replaced", prob)
        ((from_a,), (from_b,)) = (drawn(layer)[kind] for kind in (FROM_A, FROM_B))
        (at,) = [edge - 25 for edge in from_a] + [8 + edge - 10 for edge in from_b]
        counts[at] += 1
    weight = np.array([1.0] * 8 + [1.0 if prob is None else 3.0] * 2)
    if way == "layer" and prob is not None:
        # The least of uniform numbers divided by weights is not quite in proportion to them.
        assert counts[8:].mean() > 2.5 * counts[:8].mean()
        return
    assert np.abs(counts / 600 - weight / weight.sum()).max() < 0.055


@pytest.mark.parametrize("large", [1e20, 1.7e308])
def test_large_weights_of_one_list_leave_those_of_others(large: float) -> None:
    kinds = ("u", "a", "v"), ("u", "b", "v")
    weight = {kinds[0]: np.array([large, large, 1.0, 1.0]), kinds[1]: np.array([large])}
    ends = {kinds[0]: ([0, 1, 2, 3], [0, 0, 1, 1]), kinds[1]: ([0], [0])}
    graph = HeteroGraph.from_edges(ends, {"u": 4, "v": 2}, edge_weight=weight)
    layer = SamplingGraph(graph, seed=1).sample_neighbors(
        {"v": torch.tensor([0, 1])}, torch.tensor([3000]), True, "edge_weight"
    )
    from_a, from_b = (layer.sampled_csc[":".join(kind)] for kind in kinds)
    counts = torch.bincount(from_a.indices, minlength=4)
    shares = [1 / 3, 1 / 3, 0.5, 0.5, 1 / 3]
    for count, share in zip([*counts, len(from_b.indices)], shares, strict=True):
        assert abs(count - 3000 * share) < 200


def test_masks_and_weights_of_zero_are_left_out() -> None:
    graph, nodes = two_types(), {"c": torch.arange(6)}
    graph["b", "s", "c"].attrs["w"] = np.zeros(12, np.float32)
    sampling = SamplingGraph(graph)
    for replace in (False, True):
        by_weight = drawn(sampling.sample_neighbors(nodes, torch.tensor([3]), replace, "w"))
        assert not any(by_weight[FROM_B]) and all(len(own) == 3 for own in by_weight[FROM_A])
        by_mask = drawn(sampling.sample_neighbors(nodes, torch.tensor([3]), replace, "even"))
        assert all(edge % 2 == 0 for lists in by_mask.values() for own in lists for edge in own)
    with pytest.raises(errors.InvalidArgumentError, match="prob = 'q' is no edge attribute"):
        sampling.sample_neighbors(nodes, torch.tensor([3]), probs_name="q")


@pytest.mark.parametrize("replace", [False, True])
def test_a_draw_is_a_function_of_seed_and_nodes(replace: bool) -> None:
    order, fanout = torch.tensor([4, 1, 5, 2]), torch.tensor([3])

    def edges(nodes: torch.Tensor, threads: int) -> dict[str, dict[int, list[int]]]:
        sampling = SamplingGraph(two_types(), seed=9, num_threads=threads)
        found = drawn(sampling.sample_neighbors({"c": nodes}, fanout, replace))
        return {
            kind: dict(zip(nodes.tolist(), map(sorted, lists), strict=True))
            for kind, lists in found.items()
        }

    assert edges(order, 1) == edges(order.flip(0), 1) == edges(order, 2)


@pytest.mark.parametrize("name", ["sample_neighbor", "sample_layer_neighbor"])
def test_one_number_per_layer_in_a_pipe(name: str) -> None:
    items = gb.ItemSetDict({"c": gb.ItemSet(torch.arange(6), names="seed_nodes")})
    sampling = SamplingGraph(two_types(), seed=2)
    (batch,) = batches(items, lambda pipe: getattr(pipe, name)(sampling, [2, 4]))
    inner = batch.sampled_subgraphs[-1].sampled_csc
    assert sum(csc.indptr.diff() for csc in inner.values()).tolist() == [4] * 6


def test_times_bound_what_is_drawn() -> None:
    late = {("a", "r", "c"): np.arange(33) % 4, ("b", "s", "c"): np.arange(12) % 4}
    sampling = SamplingGraph(two_types(edge_time=late))
    nodes, times = {"c": torch.arange(6)}, {"c": torch.tensor([0, 1, 2, 3, 4, 4])}
    for replace in (False, True):
        layer = sampling.temporal_sample_neighbors(
            nodes, times, torch.tensor([5]), replace, edge_timestamp_attr_name="edge_time"
        )
        for at, until in enumerate(times["c"].tolist()):
            seen = [
                edge for lists in drawn(layer).values() for edge in lists[at] if edge % 4 >= until
            ]
            assert not seen
            total = sum(len(lists[at]) for lists in drawn(layer).values())
            first = sum(range(3, 3 + at))
            earlier = sum(e % 4 < until for e in range(first, first + 3 + at))
            earlier += sum(e % 4 < until for e in range(2 * at, 2 * at + 2))
            assert total == ((5 if earlier else 0) if replace else min(5, earlier))


def test_ids_without_types_count_through_all_types() -> None:
    graph = two_types()
    sampling, fused = SamplingGraph(graph), to_fused_csc(graph)
    assert sampling.node_type_offset.tolist() == fused.node_type_offset.tolist() == [0, 40, 60, 66]
    nodes = torch.tensor([62, 60, 3])
    ours, theirs = sampling.in_subgraph(nodes), fused.in_subgraph(nodes)
    for kind, csc in theirs.sampled_csc.items():
        assert torch.equal(ours.sampled_csc[kind].indptr, csc.indptr)
        assert torch.equal(ours.original_edge_ids[kind], theirs.original_edge_ids[kind])
    for wrong in (66, -1):
        with pytest.raises(errors.OutOfRangeError, match=rf"nodes\[1\] = {wrong}"):
            sampling.sample_neighbors(torch.tensor([0, wrong]), torch.tensor([1]))


@pytest.mark.parametrize("fanout", [torch.tensor([5]), torch.tensor([3, 4]), torch.tensor([-1])])
def test_layers_with_replacement(fanout: torch.Tensor) -> None:
    sampling, nodes = SamplingGraph(two_types(), seed=3), {"c": torch.arange(6)}
    found = drawn(sampling.sample_layer_neighbors(nodes, fanout, True))
    everything = drawn(sampling.in_subgraph(nodes))
    totals = [len(found[FROM_A][at]) + len(found[FROM_B][at]) for at in range(6)]
    assert totals == [at + 5 if fanout[0] < 0 else int(fanout.sum()) for at in range(6)]
    for kind, lists in found.items():
        assert all(
            set(own) <= set(whole) for own, whole in zip(lists, everything[kind], strict=True)
        )
    if len(fanout) == 2:
        assert [len(own) for own in found[FROM_B]] == [4] * 6  # of two edges each
