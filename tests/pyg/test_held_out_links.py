"""Seed links of an edge type that the graph that is sampled does not hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import HeteroData
from torch_geometric.loader import LinkLoader
from torch_geometric.sampler import EdgeSamplerInput, NodeSamplerInput

from aethergraph import HeteroGraph, errors
from aethergraph.pyg import FeatureStore, GraphStore, HeteroNeighborSampler, LinkNeighborLoader

pytestmark = pytest.mark.pyg

LIKES, LIKED = ("user", "likes", "item"), ("item", "rev_likes", "user")
BUYS, BOUGHT = ("user", "buys", "item"), ("item", "rev_buys", "user")
COUNTS = {"user": 60, "item": 90}
RNG = np.random.default_rng(4)
PAIRS = torch.from_numpy(np.stack([RNG.integers(0, 60, 40), RNG.integers(0, 90, 40)]))


def make_graph(*more: Any) -> HeteroGraph:
    src, dst = RNG.integers(0, 60, 500), RNG.integers(0, 90, 500)
    edges = {LIKES: (src, dst), LIKED: (dst, src)}
    graph = HeteroGraph.from_edges({**edges, **dict(more)}, COUNTS)
    graph["user"].features = np.arange(60, dtype=np.float32)[:, None]
    return graph


def stores_of(graph: HeteroGraph) -> Any:
    return FeatureStore.from_graph(graph), GraphStore(graph)


def ends_of(batch: HeteroData, mode: str | None) -> tuple[Tensor, Tensor]:
    """Global ids of the ends of the positive links."""
    users, items = batch["user"].n_id, batch["item"].n_id
    if mode == "triplet":
        return users[batch["user"].src_index], items[batch["item"].dst_pos_index]
    label = batch[BUYS].edge_label_index[:, :10]
    return users[label[0]], items[label[1]]


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("mode", [None, "binary", "triplet"])
@pytest.mark.parametrize("stock", [False, True])
def test_neighbourhoods_of_the_ends(stock: bool, mode: str | None, disjoint: bool) -> None:
    graph = make_graph()
    stores, options = stores_of(graph), {"neg_sampling": mode, "batch_size": 10}
    if stock:
        sampler = HeteroNeighborSampler(stores, [-1], disjoint=disjoint)
        loader: Any = LinkLoader(stores, sampler, (BUYS, PAIRS), **options)
    else:
        loader = LinkNeighborLoader(stores, [-1], (BUYS, PAIRS), disjoint=disjoint, **options)
    degrees = {kind: np.bincount(graph[kind].edge_index()[1]) for kind in graph.edge_types}
    for number, batch in enumerate(loader):
        part = slice(10 * number, 10 * number + 10)
        for found, wanted in zip(ends_of(batch, mode), PAIRS[:, part], strict=True):
            assert torch.equal(found, wanted)
        if mode == "binary":
            assert batch[BUYS].edge_label.tolist() == [1.0] * 10 + [0.0] * 10
        if mode == "triplet":
            assert batch["item"].dst_neg_index.shape == (10,)
        assert "edge_index" not in batch[BUYS]
        for kind in graph.edge_types:  # all neighbours of all seeds
            seeds = batch[kind[2]].n_id[: batch[kind[2]].num_sampled_nodes[0]]
            assert batch[kind].edge_index.shape[1] == degrees[kind][seeds.numpy()].sum()
    assert number == 3


def test_a_pair_of_node_types_names_a_relation() -> None:
    """The only relation between them, or PyG's default where there is none."""
    graph = make_graph()
    loader = LinkNeighborLoader(graph, [2], (("user", "item"), PAIRS), batch_size=40)
    assert next(iter(loader))[LIKES].edge_label_index.shape == (2, 40)
    friends = torch.stack([PAIRS[0], PAIRS[0].flip(0)])
    loader = LinkNeighborLoader(graph, [2], (("user", "user"), friends), batch_size=40)
    assert next(iter(loader))["user", "to", "user"].edge_label_index.shape == (2, 40)
    both = make_graph((BUYS, ([0], [1])))
    with pytest.raises(errors.InvalidArgumentError, match=r"likes.*buys.*name one"):
        LinkNeighborLoader(both, [2], (("user", "item"), PAIRS))


@pytest.mark.parametrize("exclude", ["reverse", {BUYS: BOUGHT}])
def test_reverses_that_the_graph_holds_are_hidden(exclude: Any) -> None:
    """Else the model would read the answer off them."""
    graph = make_graph((BOUGHT, (PAIRS[1].numpy(), PAIRS[0].numpy())))

    def pairs(exclude: Any) -> set[tuple[int, int]]:
        sampler = HeteroNeighborSampler(graph, [-1], exclude=exclude)
        index = EdgeSamplerInput(None, PAIRS[0], PAIRS[1], input_type=BUYS)
        out = sampler.sample_from_edges(index)
        ends = out.node["item"][out.row[BOUGHT]], out.node["user"][out.col[BOUGHT]]
        return set(zip(*(end.tolist() for end in ends), strict=True))

    hidden = set(map(tuple, PAIRS.flip(0).t().tolist()))
    assert hidden <= pairs(None)
    assert not hidden & pairs(exclude)


def test_a_graph_without_edges() -> None:
    data = HeteroData(user={"num_nodes": 60}, item={"num_nodes": 90})
    sampler = HeteroNeighborSampler(data, [2])
    out = sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([3]), input_type="user"))
    assert out.node["user"].tolist() == [3] and not out.row
    loader = LinkNeighborLoader(data, [2], (BUYS, PAIRS), batch_size=10, neg_sampling="binary")
    batch = next(iter(loader))
    assert batch[BUYS].edge_label_index.shape == (2, 20)


def test_what_is_refused() -> None:
    graph = make_graph()
    for kind in (("user", "buys", "shop"), ("user",), ("shop", "item"), None):
        index = EdgeSamplerInput(None, PAIRS[0], PAIRS[1], input_type=kind)
        with pytest.raises(errors.InvalidArgumentError, match="node types 'user', 'item'"):
            HeteroNeighborSampler(graph, [2]).sample_from_edges(index)
    with pytest.raises(errors.InvalidArgumentError, match="no edges of this type: give"):
        LinkNeighborLoader(graph, [2], BUYS)
    index = EdgeSamplerInput(None, PAIRS[0], PAIRS[1], input_type=BUYS)
    careful = HeteroNeighborSampler(graph, [2], true_negatives=True)
    with pytest.raises(errors.InvalidArgumentError, match=r"true_negatives: .*buys"):
        careful.sample_from_edges(index, "binary")
    with pytest.raises(errors.OutOfRangeError, match=r"edge_label_index\[1\]\[3\] = 90"):
        LinkNeighborLoader(graph, [2], (BUYS, torch.tensor([[0, 1, 2, 3], [0, 1, 2, 90]])))


def test_a_reverse_by_another_name_must_be_named() -> None:
    """A word that hides nothing would let the model read the answers off."""
    bought = ("item", "bought_by", "user")
    graph = make_graph((bought, (PAIRS[1].numpy(), PAIRS[0].numpy())))
    index = EdgeSamplerInput(None, PAIRS[0], PAIRS[1], input_type=BUYS)
    with pytest.raises(errors.InvalidArgumentError, match=r"no \('item', 'rev_buys'.*bought_by"):
        HeteroNeighborSampler(graph, [-1], exclude="reverse").sample_from_edges(index)
    named = HeteroNeighborSampler(graph, [-1], exclude={BUYS: bought})
    assert not named.sample_from_edges(index).row.get(bought, torch.empty(0)).numel()
    other = HeteroNeighborSampler(graph, [-1], exclude={LIKES: bought})
    with pytest.raises(
        errors.InvalidArgumentError, match=r"reverses of .*likes.*links are of .*buys"
    ):
        other.sample_from_edges(index)


def test_several_reverses_must_be_named() -> None:
    """One that is left over would tell the answers, whatever the others are called."""
    bought = ("item", "bought_by", "user")
    back = PAIRS.flip(0).numpy()
    graph = make_graph((BUYS, PAIRS.numpy()), (BOUGHT, back), (bought, back))
    index = EdgeSamplerInput(None, PAIRS[0], PAIRS[1], input_type=BUYS)

    def seen(exclude: Any) -> set[Any]:
        sampler = HeteroNeighborSampler(graph, [-1], exclude=exclude)
        edges = sampler.sample_from_edges(index).row
        return {kind for kind in (BUYS, BOUGHT, bought) if edges[kind].numel()}

    assert seen(None) == {BUYS, BOUGHT, bought}
    with pytest.raises(errors.InvalidArgumentError) as error:
        seen("reverse")
    assert f"exclude={{{BUYS!r}: {[BOUGHT, bought]!r}}}" in str(error.value)
    assert seen({BUYS: [BOUGHT, bought]}) == seen({BUYS: (BOUGHT, bought)}) == set()
    assert seen({BUYS: bought}) == {BOUGHT}
    assert seen({BUYS: []}) == seen("self") == {BOUGHT, bought}


def test_reverses_of_reverses_must_be_named() -> None:
    """PyG's ToUndirected, applied twice, makes them."""
    rev, again = ("item", "rev_buys", "user"), ("user", "rev_rev_buys", "item")
    back = PAIRS.flip(0)
    graph = make_graph((BUYS, PAIRS.numpy()), (rev, back.numpy()), (again, PAIRS.numpy()))
    index = EdgeSamplerInput(None, back[0], back[1], input_type=rev)
    sampler = HeteroNeighborSampler(graph, [-1], exclude="reverse")
    with pytest.raises(errors.InvalidArgumentError, match="rev_rev_buys") as error:
        sampler.sample_from_edges(index)
    assert f"exclude={{{rev!r}: {[BUYS, again]!r}}}" in str(error.value)
    sampler = HeteroNeighborSampler(graph, [-1], exclude={rev: [BUYS, again]})
    row = sampler.sample_from_edges(index).row
    assert not any(row[kind].numel() for kind in (rev, BUYS, again))


def test_a_reverse_that_the_graph_has_not_is_told_what_to_name() -> None:
    """The edge types that the message advises are taken."""
    graph = make_graph()
    for missing in (("item", "sold", "user"), LIKES, "rev_likes", [LIKED, 7]):
        with pytest.raises(
            errors.InvalidArgumentError,
            match=r"no edge type .* from 'item' to 'user'.*: give one or a list of \(.*rev_likes",
        ):
            HeteroNeighborSampler(graph, [2], exclude={BUYS: missing})
    index = EdgeSamplerInput(None, PAIRS[0], PAIRS[0], input_type=("user", "knows", "user"))
    with pytest.raises(errors.InvalidArgumentError, match="give exclude='self'"):
        HeteroNeighborSampler(graph, [2], exclude={("user", "knows", "user"): LIKED})
    HeteroNeighborSampler(graph, [2], exclude="self").sample_from_edges(index)
