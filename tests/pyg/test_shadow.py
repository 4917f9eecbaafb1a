"""Ego subgraphs by our ShaDowKHopSampler, and sampling in both directions."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from support.pyg import assert_attrs, make_data, make_graph
from torch_geometric.data import Batch, HeteroData
from torch_geometric.loader import NodeLoader
from torch_geometric.loader import ShaDowKHopSampler as PyGShaDow
from torch_geometric.sampler import EdgeSamplerInput, NegativeSampling

from aethergraph import errors
from aethergraph.pyg import NeighborLoader, NeighborSampler, ShaDowKHopSampler, from_data

pytestmark = pytest.mark.pyg

GRAPH = make_graph("both")
ROOTS = torch.tensor([3, 140, 3, 77, 149])


def edges_among(nodes: Any) -> list[int]:
    src, dst = GRAPH.edge_index()
    return np.flatnonzero(np.isin(src, nodes) & np.isin(dst, nodes)).tolist()


# ---- ego subgraphs ---------------------------------------------------------------------------


@pytest.mark.parametrize(("depth", "k"), [(0, 5), (1, 4), (2, 3), (2, -1)])
@pytest.mark.parametrize("replace", [False, True])
def test_each_root_has_all_edges_among_its_nodes(depth: int, k: int, replace: bool) -> None:
    loader = ShaDowKHopSampler(GRAPH, depth, k, ROOTS, replace, batch_size=5, seed=1)
    (batch,) = loader
    assert isinstance(batch, Batch)
    assert torch.equal(batch.n_id[batch.root_n_id], ROOTS)
    assert torch.equal(batch.root_n_id, batch.ptr[:-1])
    assert batch.num_graphs == 5
    assert batch.ptr.tolist() == [0, *np.cumsum(np.bincount(batch.batch, minlength=5))]
    row, col = batch.edge_index
    assert torch.equal(batch.batch[row], batch.batch[col])
    assert bool((col[1:] >= col[:-1]).all())
    src, dst = (torch.from_numpy(ends) for ends in GRAPH.edge_index())
    assert torch.equal(batch.n_id[row], src[batch.e_id])
    assert torch.equal(batch.n_id[col], dst[batch.e_id])
    for root in range(5):
        nodes = batch.n_id[batch.batch == root].numpy()
        assert len(set(nodes)) == len(nodes)
        assert sorted(batch.e_id[batch.batch[col] == root].tolist()) == edges_among(nodes)
    labels = batch.y
    assert torch.equal(labels, torch.from_numpy(GRAPH.node_attrs["y"].array.copy())[ROOTS])
    batch.y = torch.from_numpy(GRAPH.node_attrs["y"].array.copy())[batch.n_id]
    assert_attrs(batch, GRAPH)


def test_the_same_subgraphs_as_pyg_where_nothing_is_drawn() -> None:
    pytest.importorskip("torch_sparse", reason="PyG's ShaDowKHopSampler needs torch-sparse")
    data = make_data()
    ours = ShaDowKHopSampler(data, 2, 1000, ROOTS, batch_size=5)
    theirs = PyGShaDow(data, 2, 1000, ROOTS, batch_size=5)
    for found, wanted in zip(ours, theirs, strict=True):
        assert torch.equal(found.x[found.root_n_id], wanted.x[wanted.root_n_id])
        assert torch.equal(found.y, wanted.y)
        assert found.x.shape == wanted.x.shape
        assert torch.equal(found.ptr, wanted.ptr)
        for root in range(5):
            a = found.edge_attr[found.batch[found.edge_index[1]] == root]
            b = wanted.edge_attr[wanted.batch[wanted.edge_index[1]] == root]
            assert sorted(map(tuple, a.tolist())) == sorted(map(tuple, b.tolist()))


def test_batches_do_not_depend_on_how_they_are_made() -> None:
    def run(**options: Any) -> list[Batch]:
        torch.manual_seed(3)
        loader = ShaDowKHopSampler(
            GRAPH, 2, 4, torch.arange(40), batch_size=15, shuffle=True, **options
        )
        return list(loader)

    wanted = run()
    for options in ({"ahead": 0}, {"num_workers": 2}, {"num_threads": 2}):
        for a, b in zip(run(**options), wanted, strict=True):
            assert torch.equal(a.edge_index, b.edge_index)
            assert torch.equal(a.x, b.x)
            assert torch.equal(a.input_id, b.input_id)
    loader = ShaDowKHopSampler(GRAPH, 1, 2, batch_size=150)
    assert len(next(iter(pickle.loads(pickle.dumps(loader)))).y) == 150


def test_what_is_refused() -> None:
    with pytest.raises(errors.UnsupportedError, match="HeteroNeighborSampler"):
        data = HeteroData()
        data["a"].x = torch.zeros(3, 1)
        data["a", "to", "a"].edge_index = torch.zeros(2, 1, dtype=torch.long)
        ShaDowKHopSampler(data, 1, 2)
    with pytest.raises(errors.InvalidArgumentError, match="depth = -1"):
        ShaDowKHopSampler(GRAPH, -1, 2)
    with pytest.raises(errors.OutOfRangeError, match="150"):
        ShaDowKHopSampler(GRAPH, 1, 2, [150])


# ---- in-edges and out-edges ------------------------------------------------------------------


def test_both_directions_through_loaders() -> None:
    loader = NeighborLoader(GRAPH, [4, 3], ROOTS, sample_direction="both", batch_size=3, seed=1)
    sampler = NeighborSampler(GRAPH, [4, 3], sample_direction="both", weight_attr=None)
    stock = NodeLoader((from_data(make_data())[0], None), sampler, ROOTS, batch_size=3)
    for batch in loader:
        assert_attrs(batch, GRAPH)
    assert len(stock) == 2
    links = torch.from_numpy(np.stack(GRAPH.edge_index()))[:, :30]
    hidden = NeighborSampler(GRAPH, [-1], sample_direction="both", exclude="self")
    out = hidden.sample_from_edges(
        EdgeSamplerInput(None, links[0], links[1]), NegativeSampling("binary")
    )
    seen = set(zip(out.node[out.row].tolist(), out.node[out.col].tolist(), strict=True))
    assert not seen & set(map(tuple, links.t().tolist()))
    with pytest.raises(errors.LayoutError, match="layout"):
        NeighborSampler(make_graph(), [2], sample_direction="both")
    with pytest.raises(errors.UnsupportedError, match="temporal"):
        NeighborSampler(GRAPH, [2], time_attr="y", sample_direction="both")
