"""HeteroData, and typed edge indices put by hand, as what is sampled from."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import examples
from torch import Tensor
from torch_geometric.data import HeteroData
from torch_geometric.loader import NodeLoader
from torch_geometric.sampler import NodeSamplerInput
from torch_geometric.testing import MyFeatureStore, MyGraphStore

from aethergraph import HeteroGraph, errors
from aethergraph.pyg import (
    FeatureStore,
    GraphStore,
    HeteroNeighborLoader,
    HeteroNeighborSampler,
    from_data,
)

pytestmark = pytest.mark.pyg

VOTES, BACK, CITES = (
    ("user", "votes", "post"),
    ("post", "rev_votes", "user"),
    ("post", "to", "post"),
)
COUNTS = {"user": 40, "post": 60, "topic": 5}


def make_data(seed: int = 0, edges: int = 500) -> HeteroData:
    generator = torch.Generator().manual_seed(seed)

    def ids(count: int, below: int) -> Tensor:
        return torch.randint(below, (count,), generator=generator)

    data = HeteroData()
    data["user"].x = torch.rand(40, 3, generator=generator)
    data["post"].x = torch.rand(60, 2, generator=generator)
    data["post"].y = ids(60, 4)
    data["topic"].num_nodes = 5  # without features or edges
    data[VOTES].edge_index = torch.stack([ids(edges, 40), ids(edges, 60)])
    data[VOTES].edge_attr = torch.rand(edges, 2, generator=generator)
    data[VOTES].vote_weight = torch.rand(edges, generator=generator)
    data[BACK].edge_index = data[VOTES].edge_index.flip(0)
    data[CITES].edge_index = torch.stack([ids(90, 60), ids(90, 60)])
    return data


def assert_batch(data: HeteroData, batch: HeteroData) -> None:
    """PyG's meaning of a batch: e_id are columns of edge_index, n_id rows of the features."""
    for kind in data.edge_types:
        row, col = batch[kind].edge_index
        ends = torch.stack([batch[kind[0]].n_id[row], batch[kind[2]].n_id[col]])
        assert torch.equal(data[kind].edge_index[:, batch[kind].e_id].long(), ends)
    for name in ("user", "post"):
        assert torch.equal(batch[name].x, data[name].x[batch[name].n_id])
    assert torch.equal(batch["post"].y, data["post"].y[batch["post"].n_id])


def test_attributes_go_to_their_groups(caplog: pytest.LogCaptureFixture) -> None:
    data = make_data()
    data["post"].names = ["a"] * 60
    data["user"].scale = torch.tensor(2.0)
    data[VOTES].edge_label_index = torch.zeros(2, 7, dtype=torch.int64)
    data.title = "reddit"
    with caplog.at_level("INFO", "aethergraph"):
        features, store = from_data(data)
    assert [key for key, _ in features.columns()] == [
        ("user", "x"), ("post", "x"), ("post", "y"), (VOTES, "edge_attr"), (VOTES, "vote_weight"),
    ]  # fmt: skip
    assert features.graph_attrs == {"title": "reddit"}
    assert set(features.type_attrs) == {"user", "post", VOTES}
    assert features.type_attrs["post"] == {"names": ["a"] * 60}
    assert "title, scale of 'user', names of 'post', edge_label_index of" in caplog.text
    assert features["user", "x", None].data_ptr() == data["user"].x.data_ptr()
    assert features[VOTES, "edge_attr", None].data_ptr() == data[VOTES].edge_attr.data_ptr()
    assert store.node_counts == COUNTS
    assert store.edge_types == data.edge_types
    for kind in data.edge_types:
        assert torch.equal(torch.stack(store.get_edge_index(kind, "coo")), data[kind].edge_index)


@examples(30)
@given(seed=st.integers(0, 99), edges=st.integers(0, 300), disjoint=st.booleans())
def test_batches_have_pygs_meaning(seed: int, edges: int, disjoint: bool) -> None:
    data = make_data(seed, edges)
    features, store = from_data(data)
    sampler = HeteroNeighborSampler((features, store), [3, 2], disjoint=disjoint)
    assert sampler.graph.num_nodes == COUNTS
    loader = NodeLoader((features, store), sampler, ("post", torch.arange(60)), batch_size=25)
    for batch in loader:
        assert_batch(data, batch)
        e_id = batch[VOTES].e_id
        assert torch.equal(features[VOTES, "edge_attr", e_id], data[VOTES].edge_attr[e_id])


def test_our_loader_adds_edge_attributes() -> None:
    data = make_data()
    data.title = "reddit"
    for source in (data, from_data(data)):
        loader = HeteroNeighborLoader(source, [4, 3], "post", batch_size=25)
        count = 0
        for batch in loader:
            assert_batch(data, batch)
            for name in ("edge_attr", "vote_weight"):
                assert torch.equal(batch[VOTES][name], data[VOTES][name][batch[VOTES].e_id])
            count += batch["post"].batch_size
        assert count == 60


def test_every_form_of_the_same_data_gives_the_same_sample() -> None:
    data = make_data()
    by_hand = GraphStore()
    for kind in data.edge_types:
        row, col = data[kind].edge_index
        size = COUNTS[kind[0]], COUNTS[kind[2]]
        by_hand.put_edge_index((row, col), edge_type=kind, layout="coo", size=size)
    features = from_data(data)[0]
    features["topic", "x", None] = torch.rand(5, 1)
    seeds = NodeSamplerInput(None, torch.tensor([3, 1, 3]), input_type="post")
    outs = [
        HeteroNeighborSampler(source, [4, 3], seed=1).sample_from_nodes(seeds)
        for source in (data, from_data(data), (data, data), (features, by_hand), (data, by_hand))
    ]
    for out in outs[1:]:
        for kind in data.edge_types:
            assert torch.equal(out.edge[kind], outs[0].edge[kind])
            assert torch.equal(out.row[kind], outs[0].row[kind])


def test_stores_of_somebody_else() -> None:
    data = with_times(make_data(), True)
    features, store = MyFeatureStore(), MyGraphStore()
    for name in ("user", "post"):
        for attr in ("x", "time"):
            features[name, attr, None] = data[name][attr]
    features["post", "y", None] = data["post"].y
    features[VOTES, "vote_weight", None] = data[VOTES].vote_weight
    for kind in data.edge_types:
        size = COUNTS[kind[0]], COUNTS[kind[2]]
        store.put_edge_index(data[kind].edge_index, edge_type=kind, layout="coo", size=size)
    sampler = HeteroNeighborSampler(
        (features, store), [4, 3], time_attr="time", weight_attr="vote_weight", seed=2
    )
    ours = HeteroNeighborSampler(data, [4, 3], time_attr="time", weight_attr="vote_weight", seed=2)
    seeds = NodeSamplerInput(None, torch.arange(20), input_type="post")
    one, two = sampler.sample_from_nodes(seeds), ours.sample_from_nodes(seeds)
    for kind in data.edge_types:
        assert torch.equal(one.edge[kind], two.edge[kind])
    for batch in NodeLoader((features, store), sampler, "post", batch_size=20):
        assert_batch(data, batch)


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_edges_put_by_hand(layout: str, dtype: torch.dtype) -> None:
    """Ids are positions in what was put, whatever the layout; sizes are worked out."""
    data = make_data()
    row, col = data[VOTES].edge_index
    order = (row if layout == "csr" else col).argsort(stable=True)
    row, col = row[order].to(dtype), col[order].to(dtype)

    def pointers(ids: Tensor, count: int) -> Tensor:
        counts = torch.bincount(ids, minlength=count)
        return torch.cat([torch.zeros(1, dtype=dtype), counts.cumsum(0).to(dtype)])

    pair = {
        "coo": (row, col),
        "csr": (pointers(row, 40), col),
        "csc": (row, pointers(col, 60)),
    }[layout]
    store = GraphStore()
    store.put_edge_index(pair, edge_type=VOTES, layout=layout)
    features = FeatureStore()
    features["post", "x", None] = torch.rand(60, 1)
    features["user", "x", None] = torch.rand(44, 1)  # four more than any edge says
    features["alone", "x", None] = torch.rand(7, 1)
    sampler = HeteroNeighborSampler((features, store), [5])
    assert sampler.graph.num_nodes == {"post": 60, "user": 44, "alone": 7}
    out = sampler.sample_from_nodes(NodeSamplerInput(None, torch.arange(60), input_type="post"))
    ends = [out.node["user"][out.row[VOTES]], out.node["post"][out.col[VOTES]]]
    assert torch.equal(torch.stack([row, col])[:, out.edge[VOTES]].long(), torch.stack(ends))
    assert len(out.edge[VOTES]) == int(torch.bincount(col, minlength=60).clamp(max=5).sum())
    assert torch.equal(torch.stack(store.edge_index(VOTES)).long(), torch.stack([row, col]).long())


def test_a_store_keeps_its_graph_until_it_changes() -> None:
    store = from_data(make_data())[1]
    first = store.sampling_graph(typed=True).graph
    assert store.sampling_graph(typed=True).graph is first
    assert store.sampling_graph(typed=True, num_nodes={"topic": 9}).graph.num_nodes["topic"] == 9
    store.put_edge_index((torch.tensor([0]), torch.tensor([1])), edge_type=CITES, layout="coo")
    assert store.sampling_graph(typed=True).graph[CITES].num_edges == 1
    store.remove_edge_index(edge_type=CITES, layout="coo")
    assert store.sampling_graph(typed=True).graph.edge_types == [VOTES, BACK]


def test_samplers_travel() -> None:
    sampler = HeteroNeighborSampler(make_data(), [3, 2], weight_attr="vote_weight", seed=4)
    again = pickle.loads(pickle.dumps(sampler))
    seeds = NodeSamplerInput(None, torch.arange(9), input_type="post")
    one, two = sampler.sample_from_nodes(seeds), again.sample_from_nodes(seeds)
    assert torch.equal(one.edge[VOTES], two.edge[VOTES])


# ---- weights and times -----------------------------------------------------------------------


def test_weights_of_one_type() -> None:
    data = make_data()
    heavy = torch.arange(500) % 7 == 0
    data[VOTES].vote_weight = heavy.float()
    before = data[VOTES].vote_weight.clone()
    sampler = HeteroNeighborSampler(data, [500], weight_attr="vote_weight")
    data[VOTES].vote_weight.zero_()  # a sampler keeps its own
    out = sampler.sample_from_nodes(NodeSamplerInput(None, torch.arange(60), input_type="post"))
    assert torch.equal(out.edge[VOTES].sort().values, before.nonzero().view(-1))
    assert len(out.edge[CITES]) == 90  # uniform: all of them


def with_times(data: HeteroData, of_nodes: bool, seed: int = 0) -> HeteroData:
    rng = np.random.default_rng(seed)
    if of_nodes:
        data["user"].time = torch.from_numpy(rng.integers(0, 50, 40))
        data["post"].time = torch.from_numpy(rng.integers(0, 50, 60))
    else:
        data[VOTES].time = torch.from_numpy(rng.integers(0, 50, data[VOTES].num_edges))
        data[CITES].time = torch.from_numpy(rng.random(90) * 50).long()
    return data


@examples(30)
@given(
    seed=st.integers(0, 99), of_nodes=st.booleans(), weighted=st.booleans(), last=st.booleans()
)  # fmt: skip
def test_nothing_later_than_its_seed(seed: int, of_nodes: bool, weighted: bool, last: bool) -> None:
    """One hop: all that is early enough, or the latest of it, against a plain loop."""
    data = with_times(make_data(seed), of_nodes, seed)
    sampler = HeteroNeighborSampler(
        data, {VOTES: [3], CITES: [-1]}, time_attr="time",
        temporal_strategy="last" if last else "uniform",
        weight_attr="vote_weight" if weighted else None,
    )  # fmt: skip
    at = torch.full((60,), 25)
    seeds = NodeSamplerInput(None, torch.arange(60), at, "post")
    out = sampler.sample_from_nodes(seeds)
    for kind in (VOTES, CITES):
        row, col = data[kind].edge_index
        time = data[kind[0]].time[row] if of_nodes else data[kind].time
        found = out.edge[kind]
        assert (time[found] <= 25).all()
        for node in range(60):
            early = time[(col == node) & (time <= 25)]
            mine = time[found[col[found] == node]]
            if kind == CITES:
                assert torch.equal(mine.sort().values, early.sort().values)
            elif last and not weighted:
                assert torch.equal(mine.sort().values, early.sort().values[-3:])
            else:
                assert len(mine) == min(3, len(early))


def test_default_times_are_those_of_the_seeds() -> None:
    data = with_times(make_data(), True)
    stores = from_data(data)
    loader = NodeLoader(
        stores, HeteroNeighborSampler(stores, [4, 3], time_attr="time"), "post", batch_size=20
    )
    for batch in loader:
        assert_batch(data, batch)
        limit = data["post"].time[batch["post"].n_id[: batch["post"].batch_size]]
        for name in ("user", "post"):
            assert (batch[name].time <= limit[batch[name].batch]).all()


def test_new_times_make_a_new_graph() -> None:
    data = with_times(make_data(), False)
    features, store = from_data(data)
    first = HeteroNeighborSampler((features, store), [3], time_attr="time").graph
    built = store._built[True, "time"]
    HeteroNeighborSampler((features, store), [5], time_attr="time")
    assert store._built[True, "time"] is built  # the same times: not sorted again
    features[VOTES, "time", None] = 49 - data[VOTES].time
    second = HeteroNeighborSampler((features, store), [3], time_attr="time").graph
    assert np.array_equal(np.sort(49 - first[VOTES].edge_time), np.sort(second[VOTES].edge_time))
    assert not np.array_equal(first[VOTES].edge_time, second[VOTES].edge_time)


def test_values_beside_a_graph() -> None:
    """Weights and times in the store of a graph that was given go by the graph's edge ids."""
    data = make_data()
    row, col = data[VOTES].edge_index.numpy()
    graph = HeteroGraph.from_edges({VOTES: (row, col)}, {"user": 40, "post": 60})
    features = FeatureStore.from_graph(graph)
    features[VOTES, "w", None] = (torch.arange(500) % 3 == 0).float()
    sampler = HeteroNeighborSampler((features, GraphStore(graph)), [500], weight_attr="w")
    seeds = NodeSamplerInput(None, torch.arange(60), torch.full((60,), 9), "post")
    out = sampler.sample_from_nodes(NodeSamplerInput(None, torch.arange(60), input_type="post"))
    assert torch.equal(out.edge[VOTES].sort().values, torch.arange(0, 500, 3))
    assert "w" not in graph[VOTES].attrs
    features[VOTES, "edge_time", None] = torch.arange(500)  # in list order, so they are sorted
    timed = HeteroNeighborSampler((features, GraphStore(graph)), [-1], time_attr="edge_time")
    assert timed.sample_from_nodes(seeds).edge[VOTES].max() <= 9
    features[VOTES, "edge_time", None] = torch.arange(500).flip(0)
    with pytest.raises(errors.InvalidArgumentError, match="not sorted"):
        HeteroNeighborSampler((features, GraphStore(graph)), [-1], time_attr="edge_time")


def test_a_graph_without_more_is_taken_as_it_is() -> None:
    graph = HeteroGraph.from_edges({VOTES: ([0, 1], [1, 1])}, edge_time={VOTES: [4, 5]})
    stores = FeatureStore.from_graph(graph), GraphStore(graph)
    assert HeteroNeighborSampler(stores, [2], time_attr="edge_time").graph is graph


# ---- what is refused -------------------------------------------------------------------------


def test_bad_data_is_named() -> None:
    data = make_data()
    cases: list[tuple[Any, Any, str]] = []
    bad = copy.copy(data)
    bad[VOTES].edge_index = torch.tensor([[0, 40], [1, 1]])
    cases.append((bad, errors.OutOfRangeError, r"'votes'.*row\[1\] = 40"))
    bad = copy.copy(data)
    bad[VOTES].edge_index = torch.zeros(3, 2, dtype=torch.int64)
    cases.append((bad, errors.InvalidArgumentError, r"'votes'.*\(3, 2\)"))
    bad = HeteroData()
    bad["a"].y = torch.zeros(3)
    cases.append((bad, errors.InvalidArgumentError, r"set data\['a'\].num_nodes"))
    bad = HeteroData()
    bad["a", "to", "a"].adj_t = torch.eye(3)
    cases.append((bad, errors.InvalidArgumentError, "adj_t is no sparse tensor"))
    for given_, error, match in cases:
        with pytest.raises(error, match=match):
            from_data(given_)


@pytest.mark.parametrize(
    ("change", "option", "match"),
    [
        ({"vote_weight": torch.full((500,), -1.0)}, "weight_attr", r"'votes'.*\[0\] = -1"),
        ({"vote_weight": torch.ones(7)}, "weight_attr", "is no edge attribute"),
        ({"vote_weight": torch.ones(500, 2)}, "weight_attr", "one number each"),
        ({"vote_weight": torch.ones(500, dtype=torch.bool)}, "weight_attr", "not numbers"),
        ({"vote_weight": torch.full((500,), torch.nan)}, "time_attr", r"\[0\] = nan"),
        ({"vote_weight": None}, "time_attr", "is no node or edge attribute"),
    ],
)
def test_bad_values_are_named(change: dict[str, Any], option: str, match: str) -> None:
    data = make_data()
    data[VOTES].update(change)
    with pytest.raises(errors.InvalidArgumentError, match=match):
        HeteroNeighborSampler(data, [2], **{option: "vote_weight"})  # type: ignore[arg-type]


def test_values_of_a_wrong_length_are_named() -> None:
    features, store = from_data(make_data())
    features[VOTES, "short", None] = torch.ones(7)
    for option in ("weight_attr", "time_attr"):
        with pytest.raises(errors.InvalidArgumentError, match=r"'votes'.*7 rows.*500"):
            HeteroNeighborSampler((features, store), [2], **{option: "short"})  # type: ignore[arg-type]
    features["user", "short", None] = torch.ones(7)
    with pytest.raises(errors.InvalidArgumentError, match=r"'user'.*7 rows.*40"):
        HeteroNeighborSampler((features, store), [2], time_attr="short")


def test_what_is_no_typed_graph() -> None:
    homogeneous = GraphStore()
    with pytest.raises(errors.UnsupportedError, match="is empty"):
        HeteroNeighborSampler(homogeneous, [2])
    homogeneous.put_edge_index((torch.tensor([0]), torch.tensor([1])), edge_type=None, layout="coo")
    with pytest.raises(errors.UnsupportedError, match="NeighborSampler"):
        HeteroNeighborSampler(homogeneous, [2])
    with pytest.raises(errors.InvalidArgumentError, match="got int"):
        HeteroNeighborSampler(3, [2])
    graph = HeteroGraph.from_edges({VOTES: ([0, 1], [1, 1])})
    beside = GraphStore(graph)
    beside.put_edge_index((torch.tensor([0]), torch.tensor([1])), edge_type=CITES, layout="coo")
    with pytest.raises(errors.UnsupportedError, match="beside a HeteroGraph"):
        HeteroNeighborSampler(beside, [2])
