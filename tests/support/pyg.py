"""What the tests of the PyG adapter share. Imported by spawned workers too, so it stays light."""

from __future__ import annotations

import multiprocessing
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import NegativeSampling

from aethergraph import Graph, HeteroGraph
from aethergraph.pyg import FeatureStore, GraphStore
from aethergraph.sampling.keys import hash_ids, mix_key
from aethergraph.sampling.subgraph import Subgraph
from aethergraph.testing import oracle

NUM_NODES, NUM_EDGES = 150, 1500
FANOUTS = [4, 3]
MASK = (1 << 64) - 1

#: A worker that knows what is pickled and nothing else, as a spawned one does, but is forked from a
#: server that has imported PyG, which takes 5 s of a processor. test_foreign_graphs spawns.
FRESH: dict[str, Any] = {"num_workers": 1, "multiprocessing_context": "forkserver"}
multiprocessing.set_forkserver_preload(["aethergraph.pyg"])

Stores = tuple[FeatureStore, GraphStore]


def make_edges(seed: int = 3) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Edges with hubs, self-loops, duplicates and isolated nodes."""
    rng = np.random.default_rng(seed)
    src = rng.integers(0, NUM_NODES, NUM_EDGES)
    dst = (rng.random(NUM_EDGES) ** 2 * NUM_NODES * 0.9).astype(np.int64)
    return src, dst


def make_graph(layout: Any = "csc") -> Graph:
    """A graph with node and edge attributes of several dtypes."""
    src, dst = make_edges()
    rng = np.random.default_rng(4)
    attrs = {
        "edge_attr": rng.random((NUM_EDGES, 3), dtype=np.float32),
        "kind": rng.integers(0, 9, NUM_EDGES),
    }
    graph = Graph.from_edges(NUM_NODES, src, dst, edge_attrs=attrs, layout=layout)
    graph.features = rng.random((NUM_NODES, 8), dtype=np.float32)
    graph.node_attrs["y"] = rng.integers(0, 5, NUM_NODES)
    graph.node_attrs["train_mask"] = rng.random(NUM_NODES) < 0.5
    return graph


VOTES, IN = ("user", "votes", "post"), ("post", "in", "sub")


def make_typed() -> HeteroGraph:
    """Users, posts and two subs, whose lists have more than 50 posts, with rows and reverses."""
    rng = np.random.default_rng(3)
    graph = HeteroGraph.from_edges(
        {
            VOTES: (rng.integers(0, 80, 900), rng.integers(0, 150, 900)),
            IN: (np.arange(150), rng.integers(0, 2, 150)),
        },
        {"user": 80, "post": 150, "sub": 2},
        edge_attrs={VOTES: {"edge_attr": rng.random((900, 2), np.float32)}},
        add_reverse=True,
    )
    for name, count in graph.num_nodes.items():
        graph[name].features = rng.random((count, 6), np.float32)
    graph["post"].attrs["y"] = rng.integers(0, 3, 150)
    return graph


def assert_typed_batch(graph: HeteroGraph, batch: HeteroData) -> None:
    """Every edge of a batch of :func:`make_typed` is one of the graph, and every row its node's."""
    for kind in graph.edge_types:
        src, dst = (torch.from_numpy(ends.copy()) for ends in graph[kind].edge_index())
        row, col = batch[kind].edge_index
        assert torch.equal(batch[kind[0]].n_id[row], src[batch[kind].e_id])
        assert torch.equal(batch[kind[2]].n_id[col], dst[batch[kind].e_id])
    for name in graph.node_types:
        rows = graph[name].attrs["x"].array[batch[name].n_id.numpy()]
        assert np.array_equal(batch[name].x, rows)
    labels = torch.from_numpy(graph["post"].attrs["y"].array.copy())
    assert torch.equal(batch["post"].y, labels[batch["post"].n_id])


def make_stores() -> Stores:
    graph = make_graph()
    return FeatureStore.from_graph(graph), GraphStore(graph)


def make_data() -> Data:
    src, dst = make_edges()
    generator = torch.Generator().manual_seed(5)
    return Data(
        x=torch.rand(NUM_NODES, 8, generator=generator),
        y=torch.randint(5, (NUM_NODES,), generator=generator),
        train_mask=torch.rand(NUM_NODES, generator=generator) < 0.5,
        edge_index=torch.from_numpy(np.stack([src, dst])),
        edge_attr=torch.rand(NUM_EDGES, 3, generator=generator),
    )


def node_key(seeds: Any, seed: int | None = None, epoch: int = 0) -> int:
    """The key of a batch of seed nodes, as NeighborSampler's docstring defines it.

    ``seed`` is the sampler's, or the key of the loader's iteration.
    """
    start = torch.initial_seed() & MASK if seed is None else seed
    return mix_key(start, epoch, hash_ids(np.ascontiguousarray(seeds, np.int64)))


def expect(graph: Graph, seeds: Any, fanouts: Sequence[int], key: int, **options: Any) -> Subgraph:
    indptr, indices = graph.csc()
    return oracle.sample(indptr, indices, np.asarray(seeds), fanouts, key, **options)


def assert_topology(batch: Data, expected: Subgraph) -> None:
    """The batch holds exactly this sample."""
    np.testing.assert_array_equal(batch.n_id, expected.node)
    np.testing.assert_array_equal(batch.edge_index, np.stack([expected.row, expected.col]))
    np.testing.assert_array_equal(batch.e_id, expected.edge)
    for tensor in (batch.n_id, batch.edge_index, batch.e_id):
        assert tensor.dtype == torch.int64
    assert batch.num_nodes == len(expected.node)
    if expected.batch is None:
        assert batch.batch is None
    else:
        np.testing.assert_array_equal(batch.batch, expected.batch)
    if expected.num_sampled_edges is not None:
        assert batch.num_sampled_nodes == expected.num_sampled_nodes
        assert batch.num_sampled_edges == expected.num_sampled_edges


def assert_attrs(batch: Data, graph: Graph, edges: bool = True) -> None:
    """The batch holds the graph's attributes of its nodes, and of its edges if they are there."""
    for name, store in graph.node_attrs.items():
        wanted = torch.from_numpy(np.array(store.array))[batch.n_id]
        assert batch[name].dtype == wanted.dtype
        assert torch.equal(batch[name], wanted), name
    for name, store in graph.edge_attrs.items():
        if edges:
            assert torch.equal(batch[name], torch.from_numpy(np.array(store.array))[batch.e_id])
        else:
            assert name not in batch


def contents(batch: Any) -> dict[str, Any]:
    """Return everything that a batch holds, by type and name."""
    return {
        f"{getattr(store, '_key', None)}.{name}": value
        for store in batch.stores
        for name, value in store.to_dict().items()
    }


def assert_same_batches(found: Iterable[Any], wanted: Iterable[Any]) -> None:
    """Two runs gave the same batches, of one type or of many, value by value."""
    for batch, other in zip(found, wanted, strict=True):
        for store, expected in zip(batch.stores, other.stores, strict=True):
            kind = getattr(expected, "_key", None)
            assert getattr(store, "_key", None) == kind
            assert set(store.keys()) == set(expected.keys()), kind
            for name, value in expected.items():
                same = torch.equal if isinstance(value, Tensor) else operator.eq
                assert same(store[name], value), (kind, name)


def mark(data: Data) -> Data:
    """A transform that pickles."""
    data.marked = data.num_nodes
    return data


class Batch(Data):
    """A batch class of a user's own."""


def dst_weight(weight: Tensor) -> dict[str, Tensor]:
    """The argument of NegativeSampling: PyG 2.5 has one weight for both sides."""
    per_side = hasattr(NegativeSampling("binary"), "dst_weight")
    return {"dst_weight" if per_side else "weight": weight}


class Paper(Data):
    """A class of a user's own, which cannot be made without arguments."""

    def __init__(self, year: int, **values: Any) -> None:
        super().__init__(**values)
        self.__dict__["first"] = year

    @property
    def years(self) -> Tensor:
        return self.y + self.first


class Forum(HeteroData):
    """A typed one."""


def products_are_alike() -> bool:
    """Return whether rows of products have the same bits for all numbers of rows from 16 on."""
    rows, linear = torch.rand(1000, 16), torch.nn.Linear(16, 16)
    with torch.no_grad():
        wanted = linear(rows)
        counts = (16, 17, 31, 64, 100)
        return all(torch.equal(linear(rows[:n]), wanted[:n]) for n in counts)
