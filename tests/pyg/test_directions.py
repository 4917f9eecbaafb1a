"""Typed graphs sampled along their edges or both ways, and samplers of PyG's around ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import NodeLoader
from torch_geometric.sampler import EdgeSamplerInput, NodeSamplerInput, SamplerOutput
from torch_geometric.sampler import neighbor_sampler as pyg_samplers

from aethergraph import Graph
from aethergraph.pyg import (
    GraphStore,
    HeteroNeighborSampler,
    NeighborLoader,
    NeighborSampler,
    from_data,
)

pytestmark = pytest.mark.pyg

VOTES, IN = ("user", "votes", "post"), ("post", "in", "sub")


def make_data() -> HeteroData:
    generator = torch.Generator().manual_seed(3)

    def ends(sources: int, targets: int, count: int) -> Tensor:
        sides = [torch.randint(n, (count,), generator=generator) for n in (sources, targets)]
        return torch.stack(sides)

    data = HeteroData()
    for name, count in (("user", 30), ("post", 50), ("sub", 4)):
        data[name].x = torch.arange(count)[:, None].float()
    data[VOTES].edge_index, data[IN].edge_index = ends(30, 50, 200), ends(50, 4, 60)
    data[VOTES].stars = torch.arange(200)
    return data


@pytest.mark.parametrize("direction", ["backward", "both"])
@pytest.mark.parametrize("num_workers", [0, 1])
def test_batches(direction: str, num_workers: int) -> None:
    data = make_data()
    options: dict[str, Any] = {"batch_size": 5, "num_workers": num_workers}
    fanouts = {VOTES: [4, 2], IN: [1, 1]}
    torch.manual_seed(2)
    ours = list(NeighborLoader(data, fanouts, "user", sample_direction=direction, **options))
    torch.manual_seed(2)
    sampler = HeteroNeighborSampler(data, fanouts, sample_direction=direction)
    assert sampler.sample_direction == direction
    assert sampler.num_neighbors.get_mapped_values([VOTES, IN]) == {
        "user__votes__post": [4, 2], "post__in__sub": [1, 1],
    }  # fmt: skip
    stock = list(NodeLoader(from_data(data), sampler, "user", **options))
    assert len(ours) == len(stock) == 6
    for batch, other in zip(ours, stock, strict=True):
        for kind in data.edge_types:
            assert torch.equal(batch[kind].e_id, other[kind].e_id)
            row, col = data[kind].edge_index[:, batch[kind].e_id]
            assert torch.equal(batch[kind[0]].n_id[batch[kind].edge_index[0]], row)
            assert torch.equal(batch[kind[2]].n_id[batch[kind].edge_index[1]], col)
        assert torch.equal(batch[VOTES].stars, batch[VOTES].e_id)
        assert batch["post"].num_nodes and batch["sub"].num_nodes  # not reached by in-edges
    assert sum(batch[IN].num_edges for batch in ours) > 0


@pytest.mark.parametrize("direction", ["backward", "both"])
@pytest.mark.parametrize("exclude", ["self", {VOTES: VOTES}])
def test_seed_links_are_hidden(direction: str, exclude: Any) -> None:
    data = make_data()
    if exclude != "self":  # an edge type between users, to be its own reverse
        data = HeteroData(user={"x": torch.zeros(30, 1)})
        data["user", "knows", "user"].edge_index = make_data()[VOTES].edge_index % 30
        exclude = {("user", "knows", "user"): ("user", "knows", "user")}
    (kind,) = (name for name in data.edge_types if name != IN)
    links = data[kind].edge_index[:, :20]

    def pairs(exclude: Any) -> set[tuple[int, ...]]:
        sampler = HeteroNeighborSampler(data, [-1], exclude=exclude, sample_direction=direction)
        index = EdgeSamplerInput(None, links[0], links[1], input_type=kind)
        out = sampler.sample_from_edges(index)
        ends = out.node[kind[0]][out.row[kind]], out.node[kind[2]][out.col[kind]]
        return set(zip(*(end.tolist() for end in ends), strict=True))

    hidden = set(map(tuple, links.t().tolist()))
    assert hidden <= pairs(None)
    assert pairs(exclude) and not hidden & pairs(exclude)


# ---- samplers of PyG's around ours -----------------------------------------------------------


def test_pygs_functions_take_our_sample() -> None:
    data = make_data()
    typed = HeteroNeighborSampler(data, [3, 2], seed=1)
    index = NodeSamplerInput(torch.arange(4), torch.tensor([0, 7, 7, 20]), input_type="post")
    out = pyg_samplers.node_sample(index, typed._sample)
    assert out.node["post"][:4].tolist() == [0, 7, 7, 20]
    assert torch.equal(out.metadata[0], torch.arange(4))
    plain = NeighborSampler(Data(edge_index=data[VOTES].edge_index, num_nodes=50), [3, 2], seed=1)
    links = EdgeSamplerInput(None, torch.tensor([3, 4]), torch.tensor([5, 3]))
    linked = pyg_samplers.edge_sample(links, plain._sample, 50, False, None)
    assert linked.node[linked.metadata[1]].tolist() == [[3, 4], [5, 3]]


def test_a_seed_time_is_part_of_it() -> None:
    graph = Graph.from_edges(3, [0, 1], [2, 2], edge_time=[1, 5])
    sampler = NeighborSampler(GraphStore(graph), [-1], time_attr="edge_time")
    out = sampler._sample(torch.tensor([2, 2]), torch.tensor([1, 9]))
    assert out.node.tolist() == [2, 2, 0, 0, 1] and out.batch.tolist() == [0, 1, 0, 1, 1]
    typed = HeteroData(user={"num_nodes": 3})
    typed["user", "to", "user"].edge_index = torch.tensor([[0, 1], [2, 2]])
    typed["user", "to", "user"].when = torch.tensor([1, 5])
    of_types = HeteroNeighborSampler(typed, [-1], time_attr="when")
    found = of_types._sample({"user": torch.tensor([2, 2])}, {"user": torch.tensor([1, 9])})
    assert found.node["user"].tolist() == [2, 2, 0, 0, 1]


@pytest.mark.skipif(
    not hasattr(pyg_samplers, "BidirectionalNeighborSampler"), reason="PyG 2.7 brought it"
)
@pytest.mark.parametrize("disjoint", [False, True])
def test_pygs_bidirectional_sampler_composes_with_ours(disjoint: bool) -> None:
    """It makes its two samplers itself, so a subclass gives it ours."""

    class BothWays(pyg_samplers.BidirectionalNeighborSampler):  # type: ignore[misc]
        def __init__(self, data: Any, num_neighbors: Any, **options: Any) -> None:
            self.forward_sampler = NeighborSampler(data, num_neighbors, **options)
            self.backward_sampler = NeighborSampler(
                data, num_neighbors, sample_direction="backward", **options
            )
            self.num_neighbors = num_neighbors
            self.subgraph_type = self.forward_sampler.subgraph_type

    ends = np.array([[0, 0, 2], [1, 2, 3]])  # 0 -> 1, 0 -> 2 -> 3
    data = Data(edge_index=torch.from_numpy(ends), num_nodes=4)
    seeds = NodeSamplerInput(None, torch.tensor([1, 3]))
    out: SamplerOutput = BothWays(data, [2, 2, 2, 2], disjoint=disjoint).sample_from_nodes(seeds)
    src, dst = out.node[out.row], out.node[out.col]
    if disjoint:
        assert out.node.tolist() == [1, 3, 0, 2, 0, 2, 1, 3]
        assert out.batch.tolist() == [0, 1, 0, 1, 1, 0, 1, 0]
        assert torch.equal(torch.from_numpy(ends)[:, out.edge], torch.stack([src, dst]))
        assert sorted(out.edge.tolist()) == [0, 0, 1, 1, 2, 2]
    else:
        assert out.node.tolist() == [1, 3, 0, 2]
        assert sorted(zip(src.tolist(), dst.tolist(), strict=True)) == [(0, 1), (0, 2), (2, 3)]
    ours = NeighborSampler(data, [2, 2, 2, 2], disjoint=disjoint, sample_direction="both")
    own = ours.sample_from_nodes(seeds)
    assert sorted(own.node.tolist()) == sorted(out.node.tolist())
    assert sorted(own.edge.tolist()) == sorted(out.edge.tolist())
