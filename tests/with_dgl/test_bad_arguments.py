"""Arguments that the DGL and GraphBolt adapters refuse: the error names each."""

from __future__ import annotations

import inspect
from typing import Any

import dgl
import numpy as np
import pytest
import torch
from support.dgl import NUM_NODES, make_graph

from aethergraph import errors
from aethergraph.dgl import (
    ClusterGCNSampler,
    DataLoader,
    FeatureStorage,
    GraphStorage,
    LaborSampler,
    MultiLayerFullNeighborSampler,
    NeighborSampler,
    PerSourceUniform,
    ShaDowKHopSampler,
    as_edge_prediction_sampler,
)
from aethergraph.dgl import graphbolt as adapter

NODES = torch.arange(4)

#: Values that are no ids, or that numpy cannot have.
UNREADABLE = {
    "meta": torch.empty(2, dtype=torch.int64, device="meta"),
    "sparse": torch.tensor([1, 0]).to_sparse(),
    "objects": np.array([0, None], object),
    "ragged": [[1, 2], [3]],
    "huge": np.array([2**64 - 1], np.uint64),
}

#: Values that are neither true nor false, and that cannot be compared to a text.
ARRAYS = [np.array([1, 2]), torch.tensor([1, 2]), np.zeros(2, [("a", int)]), np.array(["a", "b"])]


@pytest.fixture
def storage() -> GraphStorage:
    return GraphStorage(make_graph(keep_order=True))


def invalid(text: str) -> Any:
    return pytest.raises(errors.InvalidArgumentError, match=text)


@pytest.mark.parametrize("ids", UNREADABLE.values(), ids=list(UNREADABLE))
def test_ids_that_cannot_be_read(ids: Any, storage: GraphStorage) -> None:
    wrong = (errors.InvalidArgumentError, errors.OutOfRangeError)
    sampling = adapter.SamplingGraph(storage.graph)
    for call in (
        lambda: storage.find_edges(ids),
        lambda: storage.in_degrees(ids),
        lambda: storage.has_edges_between(ids, NODES[:2]),
        lambda: storage.edge_subgraph(ids),
        lambda: storage.subgraph(ids),
        lambda: storage.sample_neighbors(ids, 2),
        lambda: storage.sample_neighbors(NODES, 2, exclude_edges=ids),
        lambda: NeighborSampler([2]).sample(storage, ids),
        lambda: sampling.in_subgraph(ids),
        lambda: storage.get_node_storage("x").fetch(ids, "cpu"),
    ):
        with pytest.raises(wrong):
            call()


def test_ids_of_every_integer_dtype_order_and_stride(storage: GraphStorage) -> None:
    """Numpy has arrays that torch cannot take over: they are converted, not refused."""
    expected = storage.find_edges(torch.tensor([4, 2, 0]))
    whole = np.arange(6)
    for ids in (
        whole[4::-2],
        np.array([4, 2, 0], ">i8"),
        np.array([4, 2, 0], np.uint32),
        np.array([4, 2, 0], np.uint64),
        [4, 2, 0],
    ):
        found = storage.find_edges(ids)
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
        assert storage.edge_subgraph(ids).edata[dgl.EID].tolist() == [4, 2, 0]


@pytest.mark.parametrize("value", ARRAYS, ids=str)
def test_options_that_are_arrays(value: Any, storage: GraphStorage) -> None:
    for option in ("replace", "layer_dependency", "strict", "fused"):
        with invalid(f"{option} must be True or False"):
            NeighborSampler([2], **{option: value})
    for option in ("edge_dir", "temporal_strategy"):
        with invalid(f"{option} = "):
            NeighborSampler([2], **{option: value})
    for option in ("prob", "mask", "time_attr"):
        with invalid(f"{option} must be a text"):
            NeighborSampler([2], **{option: value})
    with invalid("replace must be True or False"):
        storage.sample_neighbors(NODES, 2, replace=value)
    with invalid("num_threads = "):
        GraphStorage(storage.graph, num_threads=value)
    with invalid("idtype = "):
        GraphStorage(storage.graph, idtype=value)
    with invalid("edge_ids = "):
        GraphStorage(storage.graph, edge_ids=value)
    with pytest.raises(errors.UnsupportedError, match="importance_sampling = "):
        LaborSampler([2], importance_sampling=value)
    with pytest.raises(errors.UnsupportedError, match="order = "):
        storage.edges(order=value)


def test_options_of_loaders(storage: GraphStorage) -> None:
    sampler = NeighborSampler([2])
    for options, text in (
        ({"use_ddp": np.ones(2)}, "use_ddp must be True or False"),
        ({"persistent_workers": "no"}, "persistent_workers must be True or False"),
        ({"order": 1}, "order = 1 is no aethergraph.loading.Order"),
        ({"indices": NODES.to_sparse()}, r"indices is a tensor of torch.sparse_coo: make it dense"),
        ({"indices": {}}, "indices = {}: seeds are by type, and there is none"),
        ({"graph_sampler": 5}, r"graph_sampler = 5 has no sample\(\)"),
    ):
        given: dict[str, Any] = {"indices": NODES, "graph_sampler": sampler, "seed": 1, **options}
        with invalid(text):
            DataLoader(storage, **given)
    with invalid(r"such as \[15, 10\], got \{1, 2\}"):
        NeighborSampler({2, 1})
    with invalid("metadata = 5 is no dict"):
        adapter.Feature(np.zeros((2, 2)), 5)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [["x"], {"x": 1}, np.array(["x"]), 3, b"x"], ids=str)
def test_names_that_are_no_text(name: Any, storage: GraphStorage) -> None:
    sampling, seeds = adapter.SamplingGraph(storage.graph), torch.tensor([2])
    with invalid("is no node data"):
        storage.get_node_storage(name)
    with invalid("is no edge data"):
        storage.get_edge_storage(name)
    with invalid("is no edge type"):
        storage.num_edges(name)
    with invalid("is no node type"):
        storage.num_nodes(name)
    with invalid("prob must be a text"):
        storage.sample_neighbors(NODES, 2, prob=name)
    with invalid("probs_name must be a text"):
        sampling.sample_neighbors(NODES, seeds, probs_name=name)
    with invalid("edge_timestamp_attr_name must be a text"):
        sampling.temporal_sample_neighbors(NODES, NODES, seeds, edge_timestamp_attr_name=name)
    with invalid("is no feature"):
        adapter.FeatureStore(storage.graph).read("node", None, name)


def test_names_of_data_to_fetch(storage: GraphStorage) -> None:
    with invalid(r"prefetch_node_feats\[1\] must be the name of data, got 3"):
        NeighborSampler([2], prefetch_node_feats=["x", 3])
    with invalid("prefetch_labels must be a sequence of names, got int"):
        NeighborSampler([2], prefetch_labels=7)
    with invalid("'nobody' is no node type"):
        NeighborSampler([2], prefetch_node_feats={"nobody": ["x"]}).sample(storage, NODES)
    sampler = NeighborSampler([2], prefetch_node_feats="feat")  # one name, not its characters
    assert list(sampler.sample(storage, NODES)[2][0].srcdata) == [dgl.NID, "feat"]


@pytest.mark.parametrize("device", [-1, "nowhere", object(), b"\xff", [0]], ids=type)
def test_devices_that_are_none(device: Any, storage: GraphStorage) -> None:
    for make in (
        lambda: NeighborSampler([2], output_device=device),
        lambda: ShaDowKHopSampler([2], output_device=device),
        lambda: storage.subgraph(NODES, output_device=device),
    ):
        with invalid("output_device = .* is no device"):
            make()
    with invalid("device = .* is no device"):
        storage.get_node_storage("x").fetch(NODES, device)


def test_devices_without_graphs(storage: GraphStorage) -> None:
    with pytest.raises(errors.UnsupportedError, match="output_device = 'meta'"):
        NeighborSampler([2], output_device="meta")
    count = torch.cuda.device_count()
    with invalid(f"output_device = 'cuda:{count}': there are {count} CUDA devices"):
        storage.edge_subgraph(NODES, output_device=f"cuda:{count}")


def test_counts_beyond_memory_and_sense(storage: GraphStorage) -> None:
    with invalid("num_samples must be an integer"):
        storage.global_uniform_negative_sampling(1.5)  # type: ignore[arg-type]
    with invalid("redundancy = inf"):
        storage.global_uniform_negative_sampling(3, redundancy=float("inf"))
    with invalid("num_layers = 1025 is not in 1..1024"):
        MultiLayerFullNeighborSampler(1025)
    with invalid("fanouts has more than 1024 layers"):
        NeighborSampler(np.broadcast_to(np.int64(1), 10**12))  # type: ignore[arg-type]
    for call in (
        lambda: storage.global_uniform_negative_sampling(2**62),
        lambda: PerSourceUniform(2**60)(storage, NODES),
        lambda: ClusterGCNSampler(storage, 2**60, clusters=torch.zeros(NUM_NODES, dtype=int)),
        lambda: adapter.SamplingGraph(storage.graph).sample_negative_edges_uniform(
            None, (NODES, NODES), 2**60
        ),
    ):
        with pytest.raises(errors.OutOfMemoryError, match="no memory for"):
            call()


def test_samplers_of_edges(storage: GraphStorage) -> None:
    with invalid("sampler must be one of DGL or this package, got int"):
        as_edge_prediction_sampler(3)
    with invalid("negative_sampler must be a function of graph and seed edges, got int"):
        as_edge_prediction_sampler(NeighborSampler([2]), negative_sampler=3)


@pytest.mark.parametrize("make", [FeatureStorage, adapter.Feature])
def test_rows_that_cannot_be_stored(make: Any) -> None:
    for rows in (torch.eye(3).to_sparse(), torch.empty(2, 2, device="meta")):
        with invalid("must be a strided tensor on the CPU"):
            make(rows)
    backwards = np.arange(6.0).reshape(3, 2)[::-1]
    for rows in (backwards, backwards.astype(">f8")):
        found, ids = make(rows), torch.tensor([0, 2])
        read = found.read(ids) if make is adapter.Feature else found.fetch(ids, "cpu").wait()
        assert read.tolist() == [[4, 5], [0, 1]]


def test_signatures_show_what_the_installed_graphbolt_gives() -> None:
    own = inspect.signature(adapter.SamplingGraph.sample_layer_neighbors)
    assert own == inspect.signature(dgl.graphbolt.FusedCSCSamplingGraph.sample_layer_neighbors)
