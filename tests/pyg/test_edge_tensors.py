"""Rows of samples as tensors: one storage, and an ``edge_index`` that is no copy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import HeteroData
from torch_geometric.sampler import NodeSamplerInput

from aethergraph import HeteroGraph
from aethergraph._native import NativeSample
from aethergraph._torch.tensors import edge_tensors, node_tensors, stack_rows
from aethergraph.pyg import HeteroNeighborSampler, HGTSampler, from_data

pytestmark = pytest.mark.pyg

VOTES, BACK = ("user", "votes", "post"), ("post", "rev_votes", "user")


def make_sample(nodes: list[int], edges: list[int], with_batch: bool, in_one: bool) -> NativeSample:
    """Return a sample with as many nodes by type and edges by relation, of different numbers."""
    all_nodes = np.arange(sum(nodes) << with_batch) + 1000
    all_edges = np.arange(3 * sum(edges)) + 5000
    node = np.split(all_nodes, np.cumsum(nodes * (1 + with_batch))[:-1])
    edge = np.split(all_edges, np.cumsum(np.repeat(edges, 3))[:-1])
    if not in_one:
        node, edge = [one.copy() for one in node], [one.copy() for one in edge]
    count = len(nodes)
    return NativeSample(
        node[:count], node[count:] if with_batch else None, edge[0::3], edge[1::3], edge[2::3],
        [], [], all_nodes if in_one else None, all_edges if in_one else None,
    )  # fmt: skip


def assert_over(tensors: Any, arrays: Any) -> None:
    for tensor, array in zip(tensors, arrays, strict=True):
        assert tensor.tolist() == array.tolist()
        assert np.may_share_memory(array, tensor.numpy()) or not len(array)


@given(
    nodes=st.lists(st.integers(0, 4), min_size=1, max_size=3),
    edges=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    with_batch=st.booleans(),
    in_one=st.booleans(),
)
def test_tensors_are_the_arrays(
    nodes: list[int], edges: list[int], with_batch: bool, in_one: bool
) -> None:
    sample = make_sample(nodes, edges, with_batch, in_one)
    node, batch = node_tensors(sample)
    assert_over(node, sample.node)
    assert (batch is None) == (sample.batch is None)
    if batch is not None:
        assert_over(batch, sample.batch)
    rows, cols, ids = edge_tensors(sample)
    for tensors, arrays in zip((rows, cols, ids), sample[2:5], strict=True):
        assert_over(tensors, arrays)
    for first, second in itertools.product([*rows, *cols, *ids], repeat=2):
        if len(first) == len(second):
            pair = stack_rows(first, second)
            assert pair.tolist() == [first.tolist(), second.tolist()]
            assert pair.dtype == torch.int64 and pair.is_contiguous()


def test_edges_of_one_array_are_stacked_without_a_copy() -> None:
    rows, cols, ids = edge_tensors(make_sample([3], [4, 2], False, True))
    assert len({one.untyped_storage().data_ptr() for one in (*rows, *cols, *ids)}) == 1
    for row, col in zip(rows, cols, strict=True):
        assert stack_rows(row, col).data_ptr() == row.data_ptr()
        assert stack_rows(col, row).data_ptr() not in (row.data_ptr(), col.data_ptr())
    (row,), (col,), _ = edge_tensors(make_sample([3], [4], False, False))
    assert stack_rows(row, col).data_ptr() != row.data_ptr()


@pytest.mark.parametrize("dtype", [torch.int32, torch.float32, torch.int64])
def test_tensors_of_any_dtype_are_stacked(dtype: torch.dtype) -> None:
    row, col = torch.tensor([1, 2], dtype=dtype), torch.tensor([4, 3], dtype=dtype)
    assert torch.equal(stack_rows(row, col), torch.stack([row, col]))


def make_data() -> HeteroData:
    rng = np.random.default_rng(2)
    data = HeteroData()
    data["user"].num_nodes, data["post"].num_nodes = 20, 50
    votes = torch.from_numpy(np.stack((rng.integers(0, 20, 300), rng.integers(0, 50, 300))))
    data[VOTES].edge_index, data[BACK].edge_index = votes, votes.flip(0)
    return data


def make_graph() -> HeteroGraph:
    votes = make_data()[VOTES].edge_index.numpy()
    return HeteroGraph.from_edges(
        {VOTES: (votes[0], votes[1]), BACK: (votes[1], votes[0])}, {"user": 20, "post": 50}
    )


@pytest.mark.parametrize("given_as", ["graph", "data"])
@pytest.mark.parametrize("sampled", ["neighbours", "hgt"])
def test_edges_of_a_typed_sample_lie_in_one_piece(given_as: str, sampled: str) -> None:
    data, graph = make_data(), make_graph()
    source = graph if given_as == "graph" else from_data(data)
    made: Any = HGTSampler if sampled == "hgt" else HeteroNeighborSampler
    sampler = made(source, [8, 8])
    seeds = torch.arange(9)
    out = sampler.sample_from_nodes(NodeSamplerInput(None, seeds, None, "post"))
    for kind in (VOTES, BACK):
        row, col, edge = out.row[kind], out.col[kind], out.edge[kind]
        assert len(row)
        assert stack_rows(row, col).data_ptr() == row.data_ptr()
        assert edge.untyped_storage().data_ptr() == row.untyped_storage().data_ptr()
        ends = np.stack((out.node[kind[0]][row], out.node[kind[2]][col]))
        if given_as == "data":
            assert (ends == data[kind].edge_index.numpy()[:, edge]).all()
        else:
            assert (ends == np.stack(graph[kind].edge_ends(edge.numpy()))).all()
