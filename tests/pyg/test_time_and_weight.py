"""Sampling in time and by weight through PyG's seams: equal to the oracle, never too late."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.pyg import MASK, dst_weight
from support.strategies import examples
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.sampler import (
    EdgeSamplerInput,
    NegativeSampling,
    NodeSamplerInput,
    SamplerOutput,
)
from torch_geometric.testing import MyFeatureStore, MyGraphStore

from aethergraph import DynamicGraph, DynamicHeteroGraph, Graph, HeteroGraph, errors
from aethergraph import _native as native
from aethergraph.pyg import (
    FeatureStore,
    GraphStore,
    LinkNeighborLoader,
    NeighborLoader,
    NeighborSampler,
)
from aethergraph.sampling.keys import hash_ids, mix_key
from aethergraph.testing import oracle

pytestmark = pytest.mark.pyg

N, E = 40, 600
SOURCES = ["graph", "attribute", "data", "coo", "foreign"]
OWN_NAMES = ("graph", "attribute")  # whose edge ids are the graph's
Array = NDArray[Any]


def make_edges() -> tuple[Array, Array]:
    rng = np.random.default_rng(11)
    return rng.integers(0, N, E), (rng.random(E) ** 2 * N).astype(np.int64)


def make_times(of: str, floats: bool, seed: int = 0) -> Array:
    """Many ties, some negative."""
    times = np.random.default_rng(seed).integers(-6, 9, N if of == "node" else E)
    return times / 2 if floats else times


def sorted_graph(of: str, times: Array) -> Graph:
    edge, node = (None, times) if of == "node" else (times, None)
    return Graph.from_edges(N, *make_edges(), edge_time=edge, node_time=node, keep_order=True)


def make_source(kind: str, of: str, times: Array) -> tuple[Any, str]:
    """A ``data`` argument that holds these times, and their name."""
    if kind in OWN_NAMES:
        graph = sorted_graph(of, times)
        if kind == "graph":
            return graph, f"{of}_time"
        if of == "node":
            graph.node_attrs["when"] = times
        else:
            graph.edge_attrs["when"] = np.array(graph.edge_time)
        return (FeatureStore.from_graph(graph), GraphStore(graph)), "when"
    edges = torch.from_numpy(np.stack(make_edges()))
    if kind == "data":
        return Data(edge_index=edges, when=torch.from_numpy(times), num_nodes=N), "when"
    features, store = FeatureStore(), GraphStore()
    if kind == "foreign":
        features, store = MyFeatureStore(), MyGraphStore()
    store.put_edge_index(tuple(edges), edge_type=None, layout="coo", size=(N, N))
    features.put_tensor(
        torch.from_numpy(times), None if of == "node" else (None, None), "when", None
    )
    return (features, store), "when"


def node_input(seeds: Any, time: Any = None) -> NodeSamplerInput:
    time = None if time is None else torch.as_tensor(time)
    return NodeSamplerInput(torch.arange(len(seeds)), torch.as_tensor(seeds), time)


def link_input(row: Any, col: Any, time: Any = None) -> EdgeSamplerInput:
    row, col = torch.as_tensor(row), torch.as_tensor(col)
    time = None if time is None else torch.as_tensor(time)
    return EdgeSamplerInput(torch.arange(len(row)), row, col, None, time)


def key_of(seed: int, seeds: Any, times: Array | None) -> int:
    content = [hash_ids(np.asarray(seeds, np.int64))]
    if times is not None:
        content.append(hash_ids(native.time_keys(times)))
    return mix_key(seed, 0, *content)


def assert_in_time(out: SamplerOutput, of: str, times: Array, limit: Array) -> None:
    """No edge, at any hop, is later than the seed of its tree; ids are those of the input."""
    src, dst = make_edges()
    node, edge = out.node.numpy(), out.edge.numpy()
    np.testing.assert_array_equal(src[edge], node[out.row])
    np.testing.assert_array_equal(dst[edge], node[out.col])
    np.testing.assert_array_equal(out.batch[out.row], out.batch[out.col])
    seen = times[edge] if of == "edge" else times[node[out.row]]
    assert (seen <= limit[out.batch[out.col].numpy()]).all()


@examples(150)
@given(
    kind=st.sampled_from(SOURCES),
    of=st.sampled_from(["node", "edge"]),
    floats=st.booleans(),
    strategy=st.sampled_from(["uniform", "last"]),
    replace=st.booleans(),
    strict=st.booleans(),
    window=st.one_of(st.none(), st.integers(0, 4)),
    fanouts=st.lists(st.integers(-1, 5), min_size=1, max_size=3),
    seeds=st.lists(st.integers(0, N - 1), min_size=1, max_size=12),
    own_times=st.booleans(),
    seed=st.integers(0, MASK),
)
def test_samples_equal_the_oracle(
    kind: str, of: str, floats: bool, strategy: str, replace: bool, strict: bool, window: Any,
    fanouts: list[int], seeds: list[int], own_times: bool, seed: int,
) -> None:  # fmt: skip
    times = make_times(of, floats, seed % 7)
    data, name = make_source(kind, of, times)
    sampler = NeighborSampler(
        data, fanouts, replace=replace, temporal_strategy=strategy, time_attr=name, strict=strict,
        window=window, seed=seed,
    )  # fmt: skip
    assert sampler.is_temporal
    assert sampler.disjoint
    if of == "node" and own_times:
        given_times, limit = None, times[seeds]
    else:
        given_times = limit = make_times("edge", floats, 99)[seeds]
    out = sampler.sample_from_nodes(node_input(seeds, given_times))
    assert (out.metadata[1] is None) == (given_times is None)
    graph = sorted_graph(of, times)
    step = 0.5 if floats else 1  # times are multiples of it
    expected = oracle.sample(
        *graph.csc(), seeds, fanouts, key_of(seed, seeds, given_times), replace=replace,
        disjoint=True, latest=strategy == "last", until=limit - step if strict else limit,
        since=None if window is None else limit - window,
        time=graph.edge_time, node_time=graph.node_time,
    )  # fmt: skip
    for field in ("node", "row", "col", "batch"):
        np.testing.assert_array_equal(getattr(out, field), getattr(expected, field), field)
    assert graph.edge_order is not None
    to_input = graph.edge_order.astype(np.int64)
    edge = expected.edge if kind in OWN_NAMES else to_input[expected.edge]
    np.testing.assert_array_equal(out.edge, edge)
    assert out.num_sampled_edges == expected.num_sampled_edges
    if kind in OWN_NAMES:
        out.edge = torch.from_numpy(to_input[out.edge.numpy()])
    assert_in_time(out, of, times, limit - step if strict else limit)


@pytest.mark.parametrize("layout", ["csr", "csc"])
@pytest.mark.parametrize("of", ["node", "edge"])
def test_other_layouts_that_were_put(layout: str, of: str) -> None:
    """Edge ids, times and weights are positions in what was put."""
    src, dst = make_edges()
    order = np.argsort(src if layout == "csr" else dst, kind="stable")
    pointers = np.searchsorted((src if layout == "csr" else dst)[order], np.arange(N + 1))
    pair = (pointers, dst[order]) if layout == "csr" else (src[order], pointers)
    times = make_times(of, False)
    features, store = FeatureStore(), GraphStore()
    store.put_edge_index(tuple(map(torch.from_numpy, pair)), edge_type=None, layout=layout)
    group = None if of == "node" else (None, None)
    features[group, "when", None] = torch.from_numpy(times if of == "node" else times[order])
    weight = torch.arange(E)[order] % 2
    features[(None, None), "w", None] = weight
    sampler = NeighborSampler((features, store), [5, 5], time_attr="when", weight_attr="w")
    limit = np.full(N, 2)
    out = sampler.sample_from_nodes(node_input(np.arange(N), limit))
    assert len(out.edge) > 100
    assert bool((weight[out.edge] == 1).all())
    out.edge = torch.from_numpy(order[out.edge.numpy()])
    assert_in_time(out, of, times, limit)


def test_a_store_keeps_a_graph_for_each_time() -> None:
    features, store = FeatureStore(), GraphStore()
    store.put_edge_index(tuple(map(torch.from_numpy, make_edges())), edge_type=None, layout="coo")
    for number, name in enumerate(("a", "b")):
        features[(None, None), name, None] = torch.from_numpy(make_times("edge", False, number))
    graphs = [NeighborSampler((features, store), [2], time_attr=n).graph for n in "aba"]
    assert graphs[0] is graphs[2]
    assert graphs[0] is not graphs[1]
    features[(None, None), "a", None] = torch.from_numpy(make_times("edge", False, 5))
    assert NeighborSampler((features, store), [2], time_attr="a").graph is not graphs[0]


def test_draws_are_a_function_of_seed_epoch_seeds_and_times() -> None:
    data, name = make_source("coo", "edge", make_times("edge", False))
    sampler = NeighborSampler(data, [3, 3], time_attr=name, seed=1)
    seeds, at = np.arange(10), np.full(10, 3)
    first = sampler.sample_from_nodes(node_input(seeds, at)).edge
    sampler.sample_from_nodes(node_input(seeds[:3], at[:3]))
    for other in (sampler, pickle.loads(pickle.dumps(sampler))):
        assert torch.equal(other.sample_from_nodes(node_input(seeds, at)).edge, first)
    same = sampler.sample_from_nodes(node_input(seeds, at.astype(np.int32))).edge
    assert torch.equal(same, first)
    # All times are earlier than both: the lists that are seen are the same, the draws are not.
    late = [sampler.sample_from_nodes(node_input(seeds, at * 0 + t)).edge for t in (100, 101)]
    assert not torch.equal(late[0], late[1])
    sampler.set_epoch(1)
    assert not torch.equal(sampler.sample_from_nodes(node_input(seeds, at)).edge, first)


# ---- links -----------------------------------------------------------------------------------


def test_links_without_times_take_those_of_their_ends() -> None:
    times = make_times("node", False)
    data, name = make_source("coo", "node", times)
    sampler = NeighborSampler(data, [4, 4], time_attr=name)
    row, col = np.arange(10), np.arange(10, 20)
    out = sampler.sample_from_edges(link_input(row, col))
    assert out.metadata[3] is None
    limit = times[out.node.numpy()[:20]]
    assert out.metadata[1].tolist() == [list(range(10)), list(range(10, 20))]
    seen = times[out.node[out.row].numpy()]
    at = limit.reshape(2, 10)[:, out.batch[out.col].numpy()]
    assert (seen <= at.max(axis=0)).all()
    with pytest.raises(errors.InvalidArgumentError, match="edge_label_time is needed"):
        sampler.sample_from_edges(link_input(row, col), NegativeSampling("binary"))


@pytest.mark.parametrize("weighted", [False, True])
def test_negatives_are_spread_over_the_nodes_in_time(weighted: bool) -> None:
    times = np.arange(N) // 4
    data, name = make_source("coo", "node", times)
    weight = torch.arange(N) % 3 if weighted else None
    kind = NegativeSampling("triplet", 1, **({} if weight is None else dst_weight(weight)))
    sampler = NeighborSampler(data, [1], time_attr=name, seed=2)
    at = np.tile([2, 5, 30], 3000)
    row = np.zeros(len(at), np.int64)
    out = sampler.sample_from_edges(link_input(row, row, at), kind)
    drawn = out.node[out.metadata[3]].numpy()
    for time in (2, 5, 30):
        counts = np.bincount(drawn[at == time], minlength=N)
        shares = (times <= time) * (np.ones(N) if weight is None else weight.numpy())
        expected = shares / shares.sum() * counts.sum()
        assert (counts[shares == 0] == 0).all()
        chi2 = ((counts - expected)[shares > 0] ** 2 / expected[shares > 0]).sum()
        assert chi2 < 2 * np.count_nonzero(shares)


def test_negatives_where_no_node_is_early_enough() -> None:
    times = np.arange(N)[::-1].copy()
    data, name = make_source("coo", "node", times)
    sampler = NeighborSampler(data, [2], time_attr=name)
    for kind in (NegativeSampling("triplet"), Drawing("triplet")):
        out = sampler.sample_from_edges(link_input([1, 2], [3, 4], [-1, 0]), kind)
        assert out.node[out.metadata[3]].tolist() == [N - 1, N - 1]


class Drawing(NegativeSampling):  # type: ignore[misc]
    """Negatives of a user's own making."""

    def sample(self, *args: Any, **kwargs: Any) -> Tensor:
        return super().sample(*args, **kwargs)


def test_negatives_of_a_users_own_making_are_in_time() -> None:
    times = np.arange(N) // 20
    data, name = make_source("coo", "node", times)
    sampler = NeighborSampler(data, [2], time_attr=name)
    row = np.arange(20)
    out = sampler.sample_from_edges(link_input(row, row, row * 0), Drawing("binary", 3.0))
    assert bool((out.node[out.metadata[1]] < 20).all())


def test_fractions_of_negatives() -> None:
    data, name = make_source("coo", "edge", make_times("edge", False))
    sampler = NeighborSampler(data, [2], time_attr=name)
    for amount in (0.5, 1.5):
        at = torch.arange(5)
        kind = NegativeSampling("binary", amount)
        out = sampler.sample_from_edges(link_input(range(5), range(5), at), kind)
        count = 5 + math.ceil(5 * amount)
        assert out.metadata[1].shape == (2, count)
        assert torch.equal(out.metadata[3], at[torch.arange(count) % 5])
        assert torch.equal(out.batch[out.metadata[1]], (torch.arange(count) % 5).expand(2, -1))


# ---- weights ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "int64", "float16"])
def test_weights(kind: str, timed: bool, dtype: str) -> None:
    times = make_times("edge", False)
    data, name = make_source(kind, "edge", times)
    weight = (np.arange(E) % 4).astype(dtype)
    graph = sorted_graph("edge", times)
    assert graph.edge_order is not None
    order = graph.edge_order.astype(np.int64)
    if kind == "data":
        data.w = torch.from_numpy(weight)
    elif kind == "graph":
        data.edge_attrs["w"] = weight[order]
    elif kind == "attribute":
        data[0][(None, None), "w", None] = torch.from_numpy(weight[order])
    else:
        data[0].put_tensor(torch.from_numpy(weight), (None, None), "w", None)
    sampler = NeighborSampler(
        data, [3, 3], weight_attr="w", time_attr=name if timed else None, seed=6
    )
    assert sampler.weight_attr == "w"
    assert sampler.disjoint == timed
    seeds, at = np.arange(N), np.full(N, 3) if timed else None
    out = sampler.sample_from_nodes(node_input(seeds, at))
    if not timed and kind not in OWN_NAMES:  # lists are in the order of the input then
        graph = Graph.from_edges(N, *make_edges(), keep_order=True)
        assert graph.edge_order is not None
        order = graph.edge_order.astype(np.int64)
    expected = oracle.sample(
        *graph.csc(), seeds, [3, 3], key_of(6, seeds, at), disjoint=timed, weight=weight[order],
        **({"time": graph.edge_time, "until": at} if timed else {}),
    )  # fmt: skip
    to_ids = expected.edge if kind in OWN_NAMES else order[expected.edge]
    np.testing.assert_array_equal(out.edge, to_ids)
    np.testing.assert_array_equal(out.node, expected.node)
    drawn = order[out.edge] if kind in OWN_NAMES else out.edge.numpy()
    assert (weight[drawn] > 0).all()


# ---- what is looked up, and errors -----------------------------------------------------------


def test_nodes_come_before_edges_and_stores_before_the_graph() -> None:
    times = make_times("edge", False)
    graph = sorted_graph("edge", times)
    features = FeatureStore.from_graph(graph)
    stores = (features, GraphStore(graph))
    seeds = node_input(np.arange(N))
    with pytest.raises(errors.InvalidArgumentError, match="input_time is needed"):
        NeighborSampler(stores, [2], time_attr="edge_time").sample_from_nodes(seeds)
    features[None, "edge_time", None] = torch.zeros(N, dtype=torch.int64)
    NeighborSampler(stores, [2], time_attr="edge_time").sample_from_nodes(seeds)
    # A tensor put over the graph's own times is not what its lists are sorted by.
    features = FeatureStore.from_graph(graph)
    features[(None, None), "edge_time", None] = torch.arange(E).flip(0)
    with pytest.raises(errors.InvalidArgumentError, match="not sorted by 'edge_time'") as caught:
        NeighborSampler((features, stores[1]), [2], time_attr="edge_time")
    assert caught.value.position is not None
    NeighborSampler((features, stores[1]), [2], time_attr="edge_time", is_sorted=True)
    NeighborSampler(stores[1], [2], time_attr="edge_time")
    # Foreign features over our graph: what they do not have, the graph has.
    NeighborSampler((MyFeatureStore(), stores[1]), [2], time_attr="edge_time")


def test_times_and_weights_in_a_named_group() -> None:
    """Stores may call the nodes of a homogeneous graph what they like, as PyG's own tests do."""
    src, dst = make_edges()
    times = torch.arange(N) % 7
    found = []
    for group in (None, "paper"):
        features, topology = FeatureStore(), GraphStore()
        features[group, "x", None] = torch.rand(N, 2)
        features[group, "stamp", None] = times
        ends = torch.from_numpy(src), torch.from_numpy(dst)
        topology.put_edge_index(ends, edge_type=None, layout="coo")
        loader = NeighborLoader(
            (features, topology), [4, 4], torch.arange(40), time_attr="stamp", seed=3, batch_size=40
        )
        (batch,) = loader
        assert (times[batch.n_id] <= times[batch.n_id[:40]][batch.batch]).all()
        assert batch.x.shape == (batch.num_nodes, 2)
        found.append(batch)
    assert torch.equal(found[0].n_id, found[1].n_id)
    features["author", "stamp", None] = times
    with pytest.raises(errors.InvalidArgumentError, match="groups 'paper' and 'author'"):
        NeighborSampler((features, topology), [4], time_attr="stamp")
    with pytest.raises(errors.InvalidArgumentError, match=r"there are: 'stamp', 'x'"):
        NeighborSampler((features, topology), [4], time_attr="other")


def test_a_tensor_that_changes_later_does_not_change_the_sampler() -> None:
    data, name = make_source("attribute", "node", make_times("node", False))
    when = torch.from_numpy(make_times("node", False))
    data[0][None, name, None] = when
    sampler = NeighborSampler(data, [3, 3], time_attr=name, seed=1)
    wanted = sampler.sample_from_nodes(node_input(np.arange(N))).edge
    when += 100 * (torch.arange(N) % 2)
    when.share_memory_()
    assert torch.equal(sampler.sample_from_nodes(node_input(np.arange(N))).edge, wanted)


def test_backward_is_refused() -> None:
    data, name = make_source("coo", "edge", make_times("edge", False))
    with pytest.raises(errors.UnsupportedError, match="backward"):
        NeighborSampler(data, [2], time_attr=name, sample_direction="backward")


def test_options_can_be_assigned() -> None:
    data, name = make_source("coo", "edge", make_times("edge", False))
    sampler = NeighborSampler(data, [2], time_attr=name, seed=1)
    sampler.disjoint = False
    assert sampler.disjoint
    wanted = NeighborSampler(data, [2], time_attr=name, temporal_strategy="last", seed=1)
    sampler.temporal_strategy = "last"
    index = node_input(np.arange(N), np.full(N, 2))
    edge = sampler.sample_from_nodes(index).edge
    assert torch.equal(edge, wanted.sample_from_nodes(index).edge)
    with pytest.raises(errors.InvalidArgumentError, match="'newest'"):
        sampler.temporal_strategy = "newest"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (torch.ones(E, dtype=torch.bool), "holds bool, not numbers"),
        (torch.ones(E, dtype=torch.bfloat16), "holds bfloat16"),
        (torch.ones(E, 2), "one number each"),
        (torch.ones(E - 1), rf"has {E - 1} rows, but num_edges = {E}"),
        (torch.full((E,), torch.nan), r"\[0\] = nan"),
    ],
)
def test_bad_values_are_named(values: Tensor, text: str) -> None:
    data, _ = make_source("coo", "node", make_times("node", False))
    data[0][(None, None), "bad", None] = values
    for option in ("time_attr", "weight_attr"):
        with pytest.raises(errors.InvalidArgumentError, match=text):
            NeighborSampler(data, [2], **{option: "bad"})
    with pytest.raises(
        errors.InvalidArgumentError, match=r"weight_attr = 'when' is no edge .*'bad'"
    ):
        NeighborSampler(data, [2], weight_attr="when")


def test_bad_times_of_seeds_are_named() -> None:
    data, name = make_source("coo", "edge", make_times("edge", False))
    sampler = NeighborSampler(data, [2], time_attr=name)
    bad: list[tuple[Any, str]] = [
        (None, "input_time is needed"),
        (torch.ones(2), "the times are int64: give integers"),
        (torch.ones(3, dtype=torch.int64), r"shape \(2,\), got \(3,\)"),
        (torch.ones(2, dtype=torch.bool), "numbers, got bool"),
    ]
    for time, text in bad:
        with pytest.raises(errors.InvalidArgumentError, match=text):
            sampler.sample_from_nodes(node_input([1, 2], time))
    with pytest.raises(errors.OutOfRangeError, match=rf"seeds\[1\] = {N}"):
        sampler.sample_from_nodes(node_input([1, N], [3, 3]))
    by_node, name = make_source("coo", "node", make_times("node", True))
    sampler = NeighborSampler(by_node, [2], time_attr=name)
    with pytest.raises(errors.OutOfRangeError, match=rf"seeds\[1\] = {N}"):
        sampler.sample_from_nodes(node_input([1, N]))
    with pytest.raises(errors.InvalidArgumentError, match=r"input_time\[1\] = nan"):
        sampler.sample_from_nodes(node_input([1, 2], [0.0, math.nan]))
    large = np.array([3] * (N - 1) + [2**63], np.uint64)
    with pytest.raises(
        errors.OutOfRangeError, match=rf"input_time\[{N - 1}\] = 9223372036854775808"
    ):
        NeighborLoader(data, [2], time_attr="when", input_time=large)
    for options in ({"input_time": torch.ones(2)}, {"input_time": torch.ones(N)}):
        with pytest.raises(ValueError, match="input_time"):
            NeighborLoader(by_node, [2], **options)
    with pytest.raises(ValueError, match="edge_label_time"):
        LinkNeighborLoader(by_node, [2], time_attr=name)


def test_weights_of_a_store_stand_before_those_of_the_graph() -> None:
    """Node 0 has an edge from 1, which the graph draws, and one from 2, which the store draws."""
    ends, own, given = ([1, 2], [0, 0]), [1.0, 0.0], torch.tensor([0.0, 1.0])
    kind = ("node", "to", "node")
    graph = Graph.from_edges(3, *ends, edge_weight=own)
    typed = HeteroGraph.from_edges({kind: ends}, {"node": 3}, edge_weight={kind: own})
    for data, group, input_type in ((graph, (None, None), None), (typed, kind, "node")):
        features = FeatureStore()
        stores = features, GraphStore(data)
        seeds = NodeSamplerInput(None, torch.tensor([0]), input_type=input_type)
        for expected in (1, 2):
            out = NeighborSampler(stores, [1], weight_attr="edge_weight").sample_from_nodes(seeds)
            node = out.node if input_type is None else out.node["node"]
            assert node.tolist() == [0, expected]
            features[group, "edge_weight", None] = given


def test_values_of_a_store_stand_before_those_of_a_snapshot() -> None:
    """A live graph itself draws by what its lists keep, and says so."""
    kind, seed = ("node", "to", "node"), torch.tensor([0])
    values: dict[str, Any] = {"order": "time", "edge_time": "int64", "edge_weight": "float32"}
    memory: dict[str, Any] = {"arena_mb": 16, "huge_pages": False}
    edges: dict[str, Any] = {"time": [0, 1], "weight": [1.0, 0.0]}
    given = {"edge_time": torch.tensor([0, 9]), "edge_weight": torch.tensor([0.0, 1.0])}
    with (
        DynamicGraph(3, layout="csc", **values, **memory) as live,
        DynamicHeteroGraph({"node": 3}, [kind], layout="csc", **values, **memory) as typed,
    ):
        live.insert_edges([1, 2], [0, 0], **edges)
        typed[kind].insert([1, 2], [0, 0], **edges)
        for graph, group, node_type in ((live, (None, None), None), (typed, kind, "node")):
            for name, time, own, expected in (
                ("edge_time", torch.tensor([5]), [0, 1, 2], [0, 1]),
                ("edge_weight", None, [0, 1], [0, 2]),
            ):
                option = {name.replace("edge", "").lstrip("_") + "_attr": name}
                seeds = NodeSamplerInput(None, seed, time, node_type)
                features = FeatureStore()
                for store, result in ((None, own), (given[name], expected)):
                    if store is not None:
                        features[group, name, None] = store
                    snapshot = features, GraphStore(graph.snapshot())
                    out = NeighborSampler(snapshot, [-1], **option).sample_from_nodes(seeds)
                    node = out.node if node_type is None else out.node[node_type]
                    assert sorted(node.tolist()) == result
                with pytest.raises(errors.InvalidArgumentError, match="on a snapshot only"):
                    NeighborSampler((features, GraphStore(graph)), [-1], **option)
                own_values = FeatureStore.from_graph(graph), GraphStore(graph)
                out = NeighborSampler(own_values, [-1], **option).sample_from_nodes(seeds)
                node = out.node if node_type is None else out.node[node_type]
                assert sorted(node.tolist()) == own
