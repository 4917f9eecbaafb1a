"""HGT sampling through PyG's stock loader and ours, and its distribution beside torch-sparse's."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.pyg import VOTES, assert_typed_batch, make_typed
from torch_geometric.data import HeteroData
from torch_geometric.loader import NodeLoader
from torch_geometric.nn import HGTConv
from torch_geometric.sampler import EdgeSamplerInput, NodeSamplerInput

import aethergraph
from aethergraph import HeteroGraph, errors
from aethergraph.pyg import FeatureStore, GraphStore, HGTLoader, HGTSampler
from aethergraph.sampling.keys import hash_ids, mix_key

pytestmark = pytest.mark.pyg

NUM_SAMPLES = {"user": [12, 8], "post": [10, 10], "sub": [1, 1]}


def assert_batch(graph: HeteroGraph, batch: HeteroData) -> None:
    """The batch holds all edges among its nodes, and the rows of its nodes and edges."""
    assert_typed_batch(graph, batch)
    for kind in graph.edge_types:
        src, dst = (torch.from_numpy(ends.copy()) for ends in graph[kind].edge_index())
        inside = torch.isin(src, batch[kind[0]].n_id) & torch.isin(dst, batch[kind[2]].n_id)
        assert torch.equal(batch[kind].e_id.sort().values, inside.nonzero().flatten())


def test_stock_node_loader() -> None:
    graph = make_typed()
    stores = FeatureStore.from_graph(graph), GraphStore(graph)
    sampler = HGTSampler(stores, NUM_SAMPLES, seed=7)
    seeds = torch.randperm(150)[:50]
    loader = NodeLoader(stores, sampler, input_nodes=("post", seeds), batch_size=16)
    found = list(loader)
    assert torch.cat([b["post"].n_id[: b["post"].batch_size] for b in found]).equal(seeds)
    core = aethergraph.HGTSampler(graph, NUM_SAMPLES)
    name = hash_ids(np.frombuffer(b"post", np.uint8).astype(np.int64))
    for number, batch in enumerate(found):
        assert_batch(graph, batch)
        own = seeds[16 * number : 16 * number + 16].numpy()
        expected = core.sample({"post": own}, mix_key(7, 0, name, hash_ids(own)))
        for kind in graph.node_types:
            assert np.array_equal(batch[kind].n_id, expected.node[kind])


@pytest.mark.parametrize(("place", "num_workers"), [("file", 2), ("stores", 0)])
def test_our_loader(tmp_path: Path, num_workers: int, place: str) -> None:
    graph = make_typed()
    data: Any = graph
    if place == "file":
        graph.save(tmp_path / "g")
        data = HeteroGraph.load(tmp_path / "g")
    if place == "stores":
        data = FeatureStore.from_graph(graph), GraphStore(graph)
    loader = HGTLoader(
        data, NUM_SAMPLES, "post", batch_size=40, num_workers=num_workers, seed=3,
        transform=lambda batch: batch,
    )  # fmt: skip
    epochs = [[b["user"].n_id for b in loader] for _ in range(2)]
    for batch in loader:
        assert_batch(graph, batch)
        rows = graph[VOTES].attrs["edge_attr"].array[batch[VOTES].e_id.numpy()]
        assert np.array_equal(batch[VOTES].edge_attr, rows)
    assert not all(torch.equal(a, b) for a, b in zip(*epochs, strict=True))
    loader.set_epoch(0)
    again = [b["user"].n_id for b in loader]
    assert all(torch.equal(a, b) for a, b in zip(epochs[0], again, strict=True))


def test_a_model_trains() -> None:
    graph = make_typed()
    torch.manual_seed(0)
    conv = HGTConv(6, 3, (graph.node_types, graph.edge_types))
    optimizer = torch.optim.Adam(conv.parameters(), 0.05)
    mask = torch.arange(150) % 2 == 0
    loader = HGTLoader(graph, [20, 20], ("post", mask), batch_size=25, shuffle=True)
    losses = []
    for _ in range(8):
        for batch in loader:
            size = batch["post"].batch_size
            out = conv(batch.x_dict, batch.edge_index_dict)["post"][:size]
            loss = torch.nn.functional.cross_entropy(out, batch["post"].y[:size])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert np.mean(losses[-3:]) < np.mean(losses[:3])


def test_pickles_and_settings(tmp_path: Path) -> None:
    make_typed().save(tmp_path / "g")
    sampler = HGTSampler(HeteroGraph.load(tmp_path / "g"), [3, 2], max_neighbors=4, seed=2)
    seeds = NodeSamplerInput(torch.arange(9), torch.arange(9), input_type="post")
    a, b = (s.sample_from_nodes(seeds) for s in (sampler, pickle.loads(pickle.dumps(sampler))))
    assert torch.equal(a.node["user"], b.node["user"])
    assert torch.equal(a.metadata[0], torch.arange(9))
    assert sampler.num_samples == {"user": [3, 2], "post": [3, 2], "sub": [3, 2]}
    assert sampler.num_hops == 2
    assert sampler.edge_permutation is None
    sampler.set_epoch(1)
    assert sampler.epoch == 1
    assert not torch.equal(sampler.sample_from_nodes(seeds).node["user"], a.node["user"])


def test_what_is_refused() -> None:
    graph = make_typed()
    sampler = HGTSampler(graph, [2])
    with pytest.raises(errors.OutOfRangeError, match=r"seeds\['post'\]\[1\] = 150"):
        sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([0, 150]), input_type="post"))
    with pytest.raises(errors.InvalidArgumentError, match="'dog'"):
        sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([0]), input_type="dog"))
    with pytest.raises(errors.UnsupportedError, match="HeteroNeighborSampler"):
        ends = torch.tensor([0])
        sampler.sample_from_edges(EdgeSamplerInput(None, ends, ends, input_type=VOTES))
    with pytest.raises(errors.UnsupportedError, match="HeteroGraph"):
        HGTSampler(HeteroData(), [2])
    with pytest.raises(errors.InvalidArgumentError, match="input_nodes"):
        HGTLoader(graph, [2], torch.arange(3))


# ---- beside torch-sparse -----------------------------------------------------------------------


def torch_sparse_sampler(graph: HeteroGraph, num_samples: dict[str, list[int]]) -> Any:
    """``seeds -> node ids by type`` of torch-sparse's ``hgt_sample``."""
    pytest.importorskip("torch_sparse", reason="torch-sparse, to compare with, is not installed")
    colptr, row = {}, {}
    for kind in graph.edge_types:
        indptr, indices = graph[kind].csc()
        colptr["__".join(kind)] = torch.from_numpy(indptr.astype(np.int64))
        row["__".join(kind)] = torch.from_numpy(indices.astype(np.int64))
    hops = len(num_samples["post"])

    def sample(seeds: torch.Tensor) -> dict[str, torch.Tensor]:
        found: dict[str, torch.Tensor] = torch.ops.torch_sparse.hgt_sample(
            colptr, row, {"post": seeds}, num_samples, hops
        )[0]
        return found

    return sample


def test_nodes_come_as_often_as_from_torch_sparse() -> None:
    """The number of samples that hold each node, over three hops and with lists above 50."""
    graph = make_typed()
    num_samples = {"user": [4, 2, 5], "post": [3, 5, 5], "sub": [1, 1, 0]}
    theirs = torch_sparse_sampler(graph, num_samples)
    ours = aethergraph.HGTSampler(graph, num_samples)
    torch.manual_seed(1)
    seeds, trials = np.array([4, 9]), 8_000
    counts = {name: np.zeros((2, count)) for name, count in graph.num_nodes.items()}
    for key in range(trials):
        pair = ours.sample({"post": seeds}, key).node, theirs(torch.from_numpy(seeds))
        for which, found in enumerate(pair):
            for name, ids in found.items():
                counts[name][which, ids] += 1
    for name in ("user", "post"):
        a, b = counts[name]
        assert a.sum() == b.sum()
        spread = np.sqrt(a * (1 - a / trials) + b * (1 - b / trials))
        z = (a - b)[spread > 0] / spread[spread > 0]
        assert len(z) > 70
        assert np.abs(z).max() < 5
        assert (z**2).mean() < 1.5
