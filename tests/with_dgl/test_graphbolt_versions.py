"""The graph takes what GraphBolt's samplers give it in later versions.

PyPI does not have these; the signatures and calls are recorded ones (``graphbolt_versions``).
"""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import dgl.graphbolt as gb
import numpy as np
import pytest
import torch
from support.dgl import NUM_NODES, make_graph
from support.graphbolt import at_once
from support.graphbolt_versions import CALLS, SIGNATURES

from aethergraph import FeatureTable, Graph, errors
from aethergraph.dgl.graphbolt import Feature, FeatureStore, SamplingGraph, _signatures

CASES = [(version, method) for version, methods in SIGNATURES.items() for method in methods]
NODES = torch.arange(20)


def signature(text: str) -> inspect.Signature:
    found: dict[str, Any] = {}
    exec(f"def method{text}: ...", found)
    return inspect.signature(found["method"])


def timed() -> Graph:
    graph = make_graph(keep_order=True)
    graph.edge_attrs["t"] = np.arange(graph.num_edges) % 30
    graph.node_attrs["t"] = np.arange(NUM_NODES) % 30
    return graph


def same(a: Any, b: Any) -> bool:
    ours, theirs = a.sampled_csc, b.sampled_csc
    return bool(
        torch.equal(ours.indptr, theirs.indptr)
        and torch.equal(ours.indices, theirs.indices)
        and torch.equal(a.original_edge_ids, b.original_edge_ids)
    )


def test_the_installed_signatures_are_recorded() -> None:
    recorded = SIGNATURES["2.1"]
    assert set(recorded) == set(_signatures.SIGNATURES)
    for method, text in recorded.items():
        assert list(_signatures.SIGNATURES[method].parameters) == list(signature(text).parameters)


@pytest.mark.parametrize(("version", "method"), CASES)
@pytest.mark.parametrize("waiting", [False, True])
def test_calls_of_other_versions(
    version: str, method: str, waiting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    values: dict[str, Any] = {
        "nodes": NODES, "fanouts": torch.tensor([3]), "replace": False, "prob": "p",
        "times": torch.full((20,), 20), "window": None, "node_time": "t", "edge_time": "t",
        "optional": True, "waiting": waiting,
        "random_seed": torch.tensor([11]), "contribution": 0.0,
    }  # fmt: skip
    places, named = CALLS[version][method]
    reader = _signatures.call_reader(signature(SIGNATURES[version][method]))
    monkeypatch.setitem(_signatures._READERS, method, reader)
    found = getattr(SamplingGraph(timed(), seed=5), method)(
        *(values[place] for place in places),
        **{name: values[value] for name, value in named.items()},
    )
    if waiting and "async_op" in named:
        found = found.wait()
    monkeypatch.undo()
    seeded = {"random_seed": values["random_seed"]} if "random_seed" in named else {}
    options: dict[str, Any] = {"probs_name": "p", **seeded}
    arguments: list[Any] = [NODES, torch.tensor([3])]
    if method.startswith("temporal"):
        arguments.insert(1, values["times"])
        options |= {"node_timestamp_attr_name": "t", "edge_timestamp_attr_name": "t"}
    # The method below what reads the call by its signature: its names are ours.
    own: Any = inspect.unwrap(getattr(SamplingGraph, method))
    expected = own(SamplingGraph(timed(), seed=5), *arguments, **options)
    assert same(found, expected) and len(found.original_edge_ids) > 20


def test_a_seed_of_layers_takes_the_place_of_the_nodes() -> None:
    """As GraphBolt's ``layer_dependency`` wants it: sources have one number in all layers."""
    own: Any = inspect.unwrap(SamplingGraph.sample_layer_neighbors)
    graph, fanout = SamplingGraph(make_graph(keep_order=True), seed=1), torch.tensor([2])

    def edges(nodes: torch.Tensor, seed: int) -> set[int]:
        found = own(graph, nodes, fanout, random_seed=torch.tensor([seed]))
        return set(found.original_edge_ids.tolist())

    assert edges(NODES, 3) <= edges(torch.arange(40), 3)
    assert edges(NODES, 3) != edges(NODES, 4)
    with pytest.raises(errors.UnsupportedError, match=r"seed2_contribution = 0.5.*to_fused_csc"):
        own(graph, NODES, fanout, seed2_contribution=0.5)


@pytest.mark.parametrize("both", [False, True])
def test_windows(both: bool) -> None:
    """GraphBolt's TemporalMask: times above that of the seed minus the window, and below it."""
    own: Any = inspect.unwrap(SamplingGraph.temporal_sample_neighbors)
    graph = timed()
    of_edges, of_nodes = (np.asarray(graph.edge_attrs["t"].array), np.arange(NUM_NODES) % 30)
    until, window = np.arange(20) + 8, np.arange(20) % 7 + 3
    names = {"edge_timestamp_attr_name": "t"} | ({"node_timestamp_attr_name": "t"} if both else {})
    layer = own(
        SamplingGraph(graph, edge_ids="graph"), NODES, torch.from_numpy(until),
        torch.tensor([-1]), window=torch.from_numpy(window), **names,
    )  # fmt: skip
    indptr, indices = graph.csc()[0].astype(np.int64), graph.csc()[1]
    wanted = []
    for node in range(20):
        edges = np.arange(indptr[node], indptr[node + 1])
        low, high = until[node] - window[node], until[node]
        keep = (of_edges[edges] < high) & (of_edges[edges] > low)
        if both:
            times = of_nodes[indices[edges]]
            keep &= (times < high) & (times > low)
        wanted += edges[keep].tolist()
    assert layer.original_edge_ids.tolist() == wanted and wanted
    with pytest.raises(errors.InvalidArgumentError, match="windows of 20 nodes"):
        own(SamplingGraph(graph), NODES, NODES, torch.tensor([1]), window=NODES[:3], **names)


def test_negatives_of_pairs_in_one_tensor() -> None:
    """From 2.2 on; two pairs look like two tensors of one pair."""
    sampling = SamplingGraph(make_graph(), seed=1)
    for count in (2, 7):
        pairs = torch.arange(2 * count).view(count, 2)
        found: Any = sampling.sample_negative_edges_uniform(None, pairs, 3)
        assert torch.equal(found, sampling.sample_negative_edges_uniform_2(None, pairs, 3))
        assert found.shape == (4 * count, 2) and torch.equal(found[:count], pairs)
        assert torch.equal(found[count:, 0], pairs[:, 0].repeat_interleave(3))
    with pytest.raises(errors.InvalidArgumentError, match=r"shape \[n, 2\], got \(4,\)"):
        sampling.sample_negative_edges_uniform(None, torch.arange(4), 3)


def test_what_later_samplers_ask_of_the_graph() -> None:
    sampling = SamplingGraph(make_graph())
    assert sampling.edge_attributes.get(gb.ORIGINAL_EDGE_ID) is None
    assert dict(sampling.node_attributes) == {} and ".graph.node_attrs" in repr(
        sampling.node_attributes
    )


@pytest.mark.parametrize("storage", ["memory", "mmap"])
def test_rows_in_the_background(storage: str, tmp_path: Any) -> None:
    """From 2.4 on ``fetch_feature`` asks for stages, and takes the last one's future."""
    rows = np.random.default_rng(0).random((50, 3))
    np.save(tmp_path / "x.npy", rows)
    feature = Feature(rows if storage == "memory" else FeatureTable.load(tmp_path / "x.npy"))
    ids = torch.tensor([4, 4, 49])
    futures = list(feature.read_async(ids))
    assert len(futures) == feature.read_async_num_stages(torch.device("cpu")) == 1
    assert torch.equal(futures[0].wait(), torch.from_numpy(rows)[ids])
    (future,) = feature.read_async(torch.tensor([50]))
    with pytest.raises(errors.OutOfRangeError, match="50"):
        future.wait()
    assert FeatureStore(make_graph()).count("node", None, "x") == NUM_NODES


def test_batches_without_fields_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches have no seed_nodes and node_pairs from 2.2 on; 2.5 gives two more arguments."""
    pairs = torch.tensor([[9, 4], [4, 7]])

    def preprocess(minibatch: Any, cooperative: bool, async_op: bool) -> Any:
        assert not cooperative and not async_op
        minibatch._seed_nodes = torch.tensor([4, 7, 9])
        minibatch._seeds_timestamp = None
        minibatch.compacted_seeds = torch.tensor([[2, 0], [0, 1]])
        return minibatch

    monkeypatch.setattr(gb.SubgraphSampler, "_preprocess", staticmethod(preprocess))
    sampler = type(at_once(SamplingGraph(make_graph()), [2]))
    batch = sampler._preprocess(SimpleNamespace(seeds=pairs), cooperative=False, async_op=False)
    assert batch._seed_nodes.tolist() == [9, 4, 7]  # as they appear
    assert torch.equal(batch._seed_nodes[batch.compacted_seeds], pairs)


def test_layers_without_some_edges_may_be_waited_for() -> None:
    sampler = at_once(SamplingGraph(make_graph(keep_order=True)), [-1])
    _, (layer,) = sampler.sample_subgraphs(NODES, None)
    src = layer.original_row_node_ids[layer.sampled_csc.indices[:1]]
    pair = torch.stack([src, layer.original_column_node_ids[:1]], 1)
    left = layer.exclude_edges(pair)
    assert len(left.original_edge_ids) < len(layer.original_edge_ids)
    assert same(layer.exclude_edges(pair, True, async_op=True).wait(), left)


def test_calls_that_do_not_fit() -> None:
    sampling, fanouts = SamplingGraph(make_graph()), torch.tensor([3])
    for args, options, message in (
        ((NODES,), {}, "missing a required argument: 'fanouts'"),
        ((NODES, fanouts), {"fanouts": fanouts}, "multiple values for argument 'fanouts'"),
        ((NODES, fanouts), {"fan": fanouts}, "unexpected keyword argument 'fan'"),
        ((NODES, fanouts, False, None, None, None), {}, "too many positional arguments"),
    ):
        with pytest.raises(TypeError, match=message):
            sampling.sample_neighbors(*args, **options)
