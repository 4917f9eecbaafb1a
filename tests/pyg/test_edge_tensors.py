"""Rows of samples as tensors: one storage, and an ``edge_index`` that is no copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import HeteroData
from torch_geometric.sampler import NodeSamplerInput

from aethergraph import HeteroGraph
from aethergraph._torch.tensors import as_tensors, stack_rows
from aethergraph.pyg import HeteroNeighborSampler, HGTSampler, from_data

pytestmark = pytest.mark.pyg

VOTES, BACK = ("user", "votes", "post"), ("post", "rev_votes", "user")


def make_vectors(count: int, order: tuple[int, ...], where: str) -> list[Any]:
    table = np.arange(3 * count).reshape(3, count)
    if where == "one array":
        table = table.copy()
        return [table[i] for i in order]
    if where == "columns":
        wide = np.ascontiguousarray(table.T)
        return [wide[:, i] for i in order]
    return [table[i].copy() for i in order]


@given(
    count=st.integers(0, 5),
    order=st.permutations(range(3)),
    where=st.sampled_from(["one array", "columns", "apart"]),
)
def test_tensors_are_the_vectors(count: int, order: Any, where: str) -> None:
    vectors = make_vectors(count, order, where)
    tensors = as_tensors(*vectors)
    for vector, tensor in zip(vectors, tensors, strict=True):
        assert tensor.tolist() == vector.tolist()
        assert np.may_share_memory(vector, tensor.numpy()) or not count
    for first in tensors:
        for second in tensors:
            pair = stack_rows(first, second)
            assert pair.tolist() == [first.tolist(), second.tolist()]
            assert pair.dtype == torch.int64 and pair.is_contiguous()


def test_rows_of_one_array_are_stacked_without_a_copy() -> None:
    row, col, edge = as_tensors(*make_vectors(4, (0, 1, 2), "one array"))
    assert len({one.untyped_storage().data_ptr() for one in (row, col, edge)}) == 1
    assert stack_rows(row, col).data_ptr() == row.data_ptr()
    assert stack_rows(col, row).data_ptr() not in (row.data_ptr(), col.data_ptr())
    row, col = as_tensors(*make_vectors(4, (0, 1), "apart"))
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
