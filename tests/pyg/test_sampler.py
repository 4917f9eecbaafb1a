"""NeighborSampler: every field against the oracle, seeds and epochs, links and negatives."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.pyg import (
    MASK,
    NUM_NODES,
    expect,
    make_data,
    make_graph,
    make_stores,
    node_key,
)
from support.strategies import examples
from torch import Tensor
from torch_geometric.data import HeteroData
from torch_geometric.sampler import (
    BaseSampler,
    EdgeSamplerInput,
    NegativeSampling,
    NodeSamplerInput,
    SamplerOutput,
)
from torch_geometric.sampler.base import NumNeighbors, SubgraphType
from torch_geometric.testing import MyGraphStore

from aethergraph import Graph, errors
from aethergraph.pyg import GraphStore, NeighborSampler, from_data
from aethergraph.sampling.keys import hash_ids, mix_key
from aethergraph.sampling.subgraph import Subgraph
from aethergraph.testing import oracle

pytestmark = pytest.mark.pyg


def nodes(ids: Any) -> NodeSamplerInput:
    return NodeSamplerInput(torch.arange(len(ids)), torch.as_tensor(ids))


def links(row: Any, col: Any, label: Tensor | None = None) -> EdgeSamplerInput:
    row, col = torch.as_tensor(row), torch.as_tensor(col)
    return EdgeSamplerInput(torch.arange(len(row)), row, col, label)


def assert_output(out: SamplerOutput, wanted: Subgraph) -> None:
    for name in ("node", "row", "col", "edge", "batch"):
        found, expected = getattr(out, name), getattr(wanted, name)
        assert (found is None) == (expected is None), name
        if found is not None:
            assert found.dtype == torch.int64
            np.testing.assert_array_equal(found, expected, err_msg=name)
    assert out.num_sampled_nodes == wanted.num_sampled_nodes
    assert out.num_sampled_edges == wanted.num_sampled_edges


@given(
    seeds=st.lists(st.integers(0, NUM_NODES - 1), min_size=1, max_size=30),
    fanouts=st.lists(st.integers(-1, 6), min_size=1, max_size=3),
    replace=st.booleans(),
    disjoint=st.booleans(),
    seed=st.integers(0, MASK),
)
@examples(60)
def test_samples_equal_the_oracle(
    seeds: list[int], fanouts: list[int], replace: bool, disjoint: bool, seed: int
) -> None:
    sampler = NeighborSampler(GRAPH, fanouts, replace=replace, disjoint=disjoint, seed=seed)
    out = sampler.sample_from_nodes(nodes(seeds))
    key = node_key(seeds, seed)
    assert_output(out, expect(GRAPH, seeds, fanouts, key, replace=replace, disjoint=disjoint))
    assert out.metadata[0].tolist() == list(range(len(seeds)))
    assert out.metadata[1] is None


GRAPH = make_graph()


def test_it_is_a_sampler_of_pygs() -> None:
    sampler = NeighborSampler(make_stores(), [3, 2])
    assert isinstance(sampler, BaseSampler)
    assert sampler.edge_permutation is None
    assert sampler.num_nodes == NUM_NODES
    assert not sampler.is_hetero
    assert not sampler.is_temporal
    assert type(sampler).__name__ != "DistNeighborSampler"  # PyG's loaders look for that name
    assert isinstance(sampler.num_neighbors, NumNeighbors)
    assert len(sampler.num_neighbors) == 2
    names = inspect.signature(NeighborSampler).parameters
    from torch_geometric.sampler import NeighborSampler as PyGNeighborSampler

    theirs = inspect.signature(PyGNeighborSampler).parameters
    assert list(names)[: len(theirs)] == list(theirs)


def test_lightning_copies_a_sampler_and_sets_its_options() -> None:
    sampler = NeighborSampler(GRAPH, [3, 2], seed=1)
    before = sampler.sample_from_nodes(nodes([5, 6]))
    other = copy.copy(sampler)
    other.num_neighbors = [-1]
    other.replace = False
    other.subgraph_type = "induced"
    assert other.sample_from_nodes(nodes([5, 6])).num_sampled_nodes is None
    assert other.subgraph_type == SubgraphType.induced
    other.subgraph_type = "directional"
    other.disjoint = True
    wanted = expect(GRAPH, [5, 6], [-1], node_key([5, 6], 1), disjoint=True)
    assert_output(other.sample_from_nodes(nodes([5, 6])), wanted)
    other.num_neighbors = NumNeighbors([2])
    assert other.num_neighbors.values == [2]
    after = sampler.sample_from_nodes(nodes([5, 6]))
    assert torch.equal(before.node, after.node)
    assert torch.equal(before.edge, after.edge)


@pytest.mark.parametrize("kind", ["bidirectional", "induced"])
def test_subgraph_types(kind: str) -> None:
    seeds, key = [3, 9, 3], node_key([3, 9, 3], 7)
    out = NeighborSampler(GRAPH, [4, 3], kind, seed=7).sample_from_nodes(nodes(seeds))
    wanted = expect(GRAPH, seeds, [4, 3], key, subgraph_type=kind)
    assert out.num_sampled_nodes is None
    assert out.num_sampled_edges is None
    np.testing.assert_array_equal(out.node, wanted.node)
    np.testing.assert_array_equal(out.row, wanted.row)
    np.testing.assert_array_equal(out.col, wanted.col)
    if kind == "induced":
        np.testing.assert_array_equal(out.edge, wanted.edge)
        return
    src, dst = GRAPH.edge_index()  # PyG keeps any one edge id of a pair, in either direction
    ends = set(zip(src.tolist(), dst.tolist(), strict=True))
    for r, c, e in zip(out.node[out.row], out.node[out.col], out.edge, strict=True):
        assert (int(r), int(c)) in ends or (int(c), int(r)) in ends
        assert {int(src[e]), int(dst[e])} == {int(r), int(c)}
    sampler = NeighborSampler(GRAPH, [4, 3], kind, seed=7)
    sampler.keep_orig_edges = True
    kept = sampler.sample_from_nodes(nodes(seeds))
    plain = expect(GRAPH, seeds, [4, 3], key)
    np.testing.assert_array_equal(kept.orig_row, plain.row)
    assert kept.num_sampled_edges == plain.num_sampled_edges


def test_backward_walks_out_edges() -> None:
    graph = make_graph("csr")
    seeds, fanouts = [4, 90, 4], [3, -1]
    sampler = NeighborSampler(graph, fanouts, sample_direction="backward", seed=2)
    out = sampler.sample_from_nodes(nodes(seeds))
    indptr, indices, ids = graph.csr()
    wanted = oracle.sample(indptr, indices, seeds, fanouts, node_key(seeds, 2), edge_ids=ids)
    np.testing.assert_array_equal(out.node, wanted.node)
    np.testing.assert_array_equal(out.row, wanted.col)
    np.testing.assert_array_equal(out.col, wanted.row)
    np.testing.assert_array_equal(out.edge, wanted.edge)
    src, dst = graph.edge_index()
    assert src[out.edge].tolist() == out.node[out.row].tolist()
    assert dst[out.edge].tolist() == out.node[out.col].tolist()


def test_backward_over_tensors_builds_what_it_needs() -> None:
    data = make_data()
    stores = from_data(data)
    forward = NeighborSampler(stores, [2])
    assert forward.graph.layout == "csc"
    out = NeighborSampler(stores, [-1], sample_direction="backward").sample_from_nodes(nodes([7]))
    assert data.edge_index is not None
    wanted = (data.edge_index[0] == 7).nonzero().view(-1)
    assert sorted(out.edge.tolist()) == wanted.tolist()
    assert torch.equal(data.edge_index[1, out.edge], out.node[out.col])


def test_a_missing_layout_is_named() -> None:
    with pytest.raises(errors.LayoutError, match="layout='both'"):
        NeighborSampler(make_graph("csc"), [2], sample_direction="backward")
    with pytest.raises(errors.LayoutError, match="layout='both'"):
        NeighborSampler(make_graph("csr"), [2])


def test_what_a_sampler_may_be_given() -> None:
    data = make_data()
    assert data.edge_index is not None
    stores = from_data(data)
    foreign = MyGraphStore()
    foreign.put_edge_index(tuple(data.edge_index), None, "coo", size=(NUM_NODES, NUM_NODES))
    outs = [
        NeighborSampler(source, [3, 3], seed=1).sample_from_nodes(nodes([8, 1]))
        for source in (data, stores, stores[1], list(stores), foreign, (stores[0], foreign))
    ]
    for out in outs:
        assert torch.equal(out.node, outs[0].node)
        assert torch.equal(out.edge, outs[0].edge)
        assert torch.equal(data.edge_index[0, out.edge], out.node[out.row])
    typed = MyGraphStore()
    typed.put_edge_index(tuple(data.edge_index), ("a", "to", "a"), "coo")
    assert NeighborSampler(typed, [3, 3]).is_hetero
    with pytest.raises(errors.UnsupportedError, match="is empty"):
        NeighborSampler(HeteroData(), [2])
    for pair in ((data, HeteroData()), (HeteroData(), data)):
        with pytest.raises(errors.InvalidArgumentError, match="give two that are alike"):
            NeighborSampler(pair, [2])
    for source in (None, "graph", (1, 2), (stores[0], stores[0])):
        with pytest.raises(errors.InvalidArgumentError, match="data must be"):
            NeighborSampler(source, [2])


def test_feature_rows_count_as_nodes_where_no_size_was_given() -> None:
    features, _ = make_stores()
    store = GraphStore()
    store.put_edge_index((torch.tensor([0, 1]), torch.tensor([1, 2])), None, "coo")
    out = NeighborSampler((features, store), [2]).sample_from_nodes(nodes([NUM_NODES - 1]))
    assert out.node.tolist() == [NUM_NODES - 1]


# ---- keys ------------------------------------------------------------------------------------


def draw(sampler: NeighborSampler, seeds: Any = (3, 4, 5)) -> list[int]:
    return list(sampler.sample_from_nodes(nodes(list(seeds))).edge.tolist())


def test_manual_seed_governs() -> None:
    sampler = NeighborSampler(GRAPH, [4, 4])
    torch.manual_seed(1)
    first = draw(sampler)
    torch.rand(7)  # what is drawn from torch's generator does not matter
    assert draw(sampler) == first
    torch.manual_seed(2)
    assert draw(sampler) != first
    torch.manual_seed(1)
    assert draw(sampler) == first
    assert draw(NeighborSampler(GRAPH, [4, 4])) == first
    assert draw(sampler, (4, 3, 5)) != first


def test_a_seed_of_its_own_and_epochs() -> None:
    sampler = NeighborSampler(GRAPH, [4, 4], seed=5)
    first = draw(sampler)
    torch.manual_seed(99)
    assert draw(sampler) == first
    assert sampler.seed == 5
    sampler.set_epoch(1)
    assert sampler.epoch == 1
    second = draw(sampler)
    assert second != first
    assert draw(copy.copy(sampler)) == second
    assert draw(pickle.loads(pickle.dumps(sampler))) == second
    sampler.set_epoch(0)
    assert draw(sampler) == first
    key = mix_key(5, 0, hash_ids(np.array([3, 4, 5])))
    np.testing.assert_array_equal(first, expect(GRAPH, [3, 4, 5], [4, 4], key).edge)
    for bad in (1.5, True, 1 << 70):
        with pytest.raises(errors.InvalidArgumentError, match="epoch"):
            sampler.set_epoch(bad)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidArgumentError, match="seed"):
            NeighborSampler(GRAPH, [2], seed=bad)  # type: ignore[arg-type]


# ---- links -----------------------------------------------------------------------------------

SRC, DST = [5, 5, 7, 120], [9, 8, 5, 5]


def link_key(seed: int = 3) -> int:
    return mix_key(seed, 0, hash_ids(np.array(SRC)), hash_ids(np.array(DST)))


def assert_links(out: SamplerOutput, wanted: Any, local: Tensor) -> None:
    assert out.node[local].tolist() == list(wanted)


@pytest.mark.parametrize("disjoint", [False, True])
def test_links_without_negatives(disjoint: bool) -> None:
    sampler = NeighborSampler(GRAPH, [3, 2], disjoint=disjoint, seed=3)
    label = torch.tensor([4, 3, 2, 1])
    out = sampler.sample_from_edges(links(SRC, DST, label))
    seeds = SRC + DST if disjoint else np.unique(SRC + DST)
    wanted = expect(GRAPH, seeds, [3, 2], link_key(), disjoint=disjoint)
    np.testing.assert_array_equal(out.node, wanted.node)
    np.testing.assert_array_equal(out.edge, wanted.edge)
    if disjoint:
        assert wanted.batch is not None
        np.testing.assert_array_equal(out.batch, wanted.batch % 4)
    input_id, index, found, time = out.metadata
    assert input_id.tolist() == [0, 1, 2, 3]
    assert found is label or torch.equal(found, label)
    assert time is None
    assert_links(out, SRC, index[0])
    assert_links(out, DST, index[1])


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("amount", [0.5, 3])
def test_binary_negatives(disjoint: bool, amount: float) -> None:
    sampler = NeighborSampler(GRAPH, [3], disjoint=disjoint, seed=3)
    count = int(np.ceil(4 * amount))
    for label in (None, torch.tensor([1, 2, 1, 3])):
        out = sampler.sample_from_edges(links(SRC, DST, label), NegativeSampling("binary", amount))
        _, index, found, _ = out.metadata
        assert index.shape == (2, 4 + count)
        assert_links(out, SRC, index[0, :4])
        assert_links(out, DST, index[1, :4])
        assert found.dtype == (torch.float32 if label is None else torch.int64)
        assert found.tolist() == ([1] * 4 if label is None else label.tolist()) + [0] * count
        if disjoint:
            trees = torch.arange(4 + count) % 4
            assert torch.equal(out.batch[index], trees.expand(2, -1))
    again = sampler.sample_from_edges(links(SRC, DST), NegativeSampling("binary", amount))
    assert torch.equal(again.node, out.node)


@pytest.mark.parametrize("amount", [1, 3])
def test_triplet_negatives(amount: int) -> None:
    sampler = NeighborSampler(GRAPH, [3], disjoint=True, seed=3)
    kind = NegativeSampling("triplet", amount)
    out = sampler.sample_from_edges(links(SRC, DST), kind)
    input_id, src, positive, negative, time = out.metadata
    assert input_id.tolist() == [0, 1, 2, 3]
    assert time is None
    assert_links(out, SRC, src)
    assert_links(out, DST, positive)
    assert negative.shape == ((4,) if amount == 1 else (4, amount))
    trees = out.batch[negative].view(4, -1)
    assert torch.equal(trees, torch.arange(4)[:, None].expand(4, amount))
    with pytest.raises(errors.InvalidArgumentError, match="edge_label"):
        sampler.sample_from_edges(links(SRC, DST, torch.ones(4)), kind)


WEIGHT_PER_SIDE = hasattr(NegativeSampling, "src_weight")  # since PyG 2.6


def weighted(mode: str, side: str, weight: Tensor | None) -> NegativeSampling:
    return NegativeSampling(mode, 1, **{f"{side}_weight" if WEIGHT_PER_SIDE else "weight": weight})


def negatives(weight: Tensor | None, count: int, seed: int = 1) -> np.ndarray[Any, Any]:
    """How often each node was drawn as a negative destination."""
    sampler = NeighborSampler(GRAPH, [0], seed=seed)
    row = torch.zeros(count, dtype=torch.int64)
    kind = weighted("triplet", "dst", weight)
    out = sampler.sample_from_edges(links(row, row), kind)
    return np.bincount(out.node[out.metadata[3]], minlength=NUM_NODES)


def test_negatives_have_the_distribution_that_was_asked_for() -> None:
    count = 60_000
    uniform = negatives(None, count)
    weight = torch.rand(NUM_NODES, generator=torch.Generator().manual_seed(1))
    weight[::3] = 0
    biased = negatives(weight, count)
    assert biased[::3].sum() == 0
    for found, probability in (
        (uniform, np.full(NUM_NODES, 1 / NUM_NODES)),
        (biased, (weight / weight.sum()).double().numpy()),
    ):
        some = probability > 0
        expected = probability[some] * count
        chi2 = float(((found[some] - expected) ** 2 / expected).sum())
        freedom = some.sum() - 1
        assert abs(chi2 - freedom) < 5 * np.sqrt(2 * freedom)
    assert not np.array_equal(uniform, negatives(None, count, seed=2))


def test_source_weights_only_matter_for_binary() -> None:
    weight = torch.zeros(NUM_NODES)
    weight[[10, 20]] = torch.tensor([1.0, 3.0])
    sampler = NeighborSampler(GRAPH, [0], seed=1)
    index = links([0] * 400, [1] * 400)
    out = sampler.sample_from_edges(index, weighted("binary", "src", weight))
    drawn = out.node[out.metadata[1][0, 400:]]
    assert set(drawn.tolist()) == {10, 20}
    assert 250 < int((drawn == 20).sum()) < 350
    weight[10] = 0  # changed in place: noticed
    out = sampler.sample_from_edges(index, weighted("binary", "src", weight))
    assert set(out.node[out.metadata[1][0, 400:]].tolist()) == {20}


class EvenOnly(NegativeSampling):  # type: ignore[misc]
    def sample(self, num_samples: int, *args: Any, **_: Any) -> Tensor:
        num_nodes = args[-1]
        return 2 * torch.randint(num_nodes // 2, (num_samples,))


@pytest.mark.parametrize(
    ("weight", "text"),
    [
        (torch.ones(3), r"shape \(150,\)"),
        (torch.zeros(NUM_NODES), "no positive"),
        (torch.full((NUM_NODES,), float("nan")), r"weight\[0\] = nan"),
        (-torch.ones(NUM_NODES), r"weight\[0\] = -1"),
    ],
)
def test_bad_weights_are_named(weight: Tensor, text: str) -> None:
    sampler = NeighborSampler(GRAPH, [1])
    kind = weighted("triplet", "dst", weight)
    with pytest.raises(errors.InvalidArgumentError, match=text):
        sampler.sample_from_edges(links([1], [2]), kind)


# ---- errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"time_attr": "time"}, errors.InvalidArgumentError, "time_attr = 'time' is no node"),
        ({"weight_attr": "weight"}, errors.InvalidArgumentError, "weight_attr = 'weight' is no"),
        ({"temporal_strategy": "first"}, errors.InvalidArgumentError, "temporal_strategy"),
        ({"subgraph_type": "other"}, errors.InvalidArgumentError, "subgraph_type"),
        ({"sample_direction": "up"}, errors.InvalidArgumentError, "sample_direction"),
        ({"num_neighbors": [2, -2]}, errors.InvalidArgumentError, r"num_neighbors\[1\] = -2"),
        ({"num_neighbors": [1.5]}, errors.InvalidArgumentError, r"num_neighbors\[0\]"),
        ({"num_neighbors": {("a", "b", "c"): [1]}}, errors.UnsupportedError, "edge type"),
        ({"num_threads": -1}, errors.InvalidArgumentError, "num_threads"),
    ],
)
def test_bad_options_are_named(options: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        NeighborSampler(GRAPH, **{"num_neighbors": [2], **options})


def test_bad_seeds_are_named() -> None:
    sampler = NeighborSampler(GRAPH, [2])
    with pytest.raises(errors.OutOfRangeError) as caught:
        sampler.sample_from_nodes(nodes([1, NUM_NODES]))
    assert (caught.value.position, caught.value.value) == (1, NUM_NODES)
    with pytest.raises(errors.OutOfRangeError, match=r"seeds\[0\] = -1"):
        sampler.sample_from_nodes(nodes([-1]))
    with pytest.raises(errors.InvalidArgumentError, match="float"):
        sampler.sample_from_nodes(nodes([0.5]))
    with pytest.raises(errors.InvalidArgumentError, match="one-dimensional"):
        sampler.sample_from_nodes(nodes([[1], [2]]))
    with pytest.raises(errors.InvalidArgumentError, match="no time_attr"):
        sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([1]), torch.tensor([1])))
    with pytest.raises(errors.UnsupportedError, match="'paper'"):
        sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([1]), None, "paper"))
    with pytest.raises(errors.InvalidArgumentError, match="2 ids"):
        sampler.sample_from_edges(links([1, 2], [1]))


def test_seeds_of_other_dtypes_and_none_at_all() -> None:
    sampler = NeighborSampler(GRAPH, [2], seed=1)
    wanted = draw(sampler, (3, 4))
    for dtype in (torch.int32, torch.int16, torch.uint8):
        out = sampler.sample_from_nodes(nodes(torch.tensor([3, 4], dtype=dtype)))
        assert out.edge.tolist() == wanted
    out = sampler.sample_from_nodes(nodes(torch.empty(0, dtype=torch.int64)))
    assert out.node.shape == (0,)
    assert out.num_sampled_nodes == [0, 0]
    none = torch.empty(0, dtype=torch.int64)
    for kind in (None, NegativeSampling("binary"), NegativeSampling("triplet", 2)):
        for disjoint in (False, True):
            sampler.disjoint = disjoint
            assert sampler.sample_from_edges(links(none, none), kind).node.shape == (0,)


def test_directed_is_deprecated() -> None:
    with pytest.warns(DeprecationWarning, match="induced"):
        sampler = NeighborSampler(GRAPH, [2], directed=False)
    assert sampler.subgraph_type == SubgraphType.induced


def test_a_graph_without_edges_or_nodes() -> None:
    empty = Graph.from_edges(3, [], [])
    out = NeighborSampler(empty, [2, 2]).sample_from_nodes(nodes([2, 0]))
    assert out.node.tolist() == [2, 0]
    assert out.num_sampled_edges == [0, 0]
    with pytest.raises(errors.OutOfRangeError):
        NeighborSampler(Graph.from_edges(0, [], []), [1]).sample_from_nodes(nodes([0]))


def test_numbers_that_cannot_be_are_named() -> None:
    for wrong in (5, None):
        with pytest.raises(errors.InvalidArgumentError, match="one per hop"):
            NeighborSampler(GRAPH, wrong)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match="need time_attr"):
        NeighborSampler(GRAPH, [2], window=3)
