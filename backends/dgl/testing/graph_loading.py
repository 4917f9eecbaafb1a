"""Contract of graphs in the batches of DGL's DataLoader, ours, and GraphBolt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

import dgl
import dgl.graphbolt as gb
from aethergraph.dgl.graphbolt import FeatureStore, SamplingGraph
from aethergraph.dgl.loader import DataLoader
from aethergraph.dgl.sampler import NeighborSampler
from aethergraph.dgl.storage import GraphStorage
from aethergraph.testing.graph_loading import GraphLoadingRules, LabelledGraph
from aethergraph.testing.rules import equal, given, require

__all__ = ["GraphStorageContract"]

_BATCH, _EPOCHS = 40, 12


class GraphStorageContract(GraphLoadingRules):
    """Rules about a graph in batches of DGL.

    Put beside the contract of the graph itself, whose ``make`` and ``supports`` it shares::

        class TestMyGraph(AdjacencyContract, GraphStorageContract):
            def make(self, num_nodes, src, dst):
                return MyGraph(...)
    """

    def test_dgl_loaders_follow_its_edges(self) -> None:
        """Stock and own DataLoader make blocks of its edges, with their rows."""
        labelled = self.labelled()
        for loader in _loaders(labelled):
            count = 0
            with given(f"a batch of {type(loader).__module__}.DataLoader"):
                for input_nodes, _, blocks in loader:
                    block = blocks[0]
                    src, dst = (end.numpy() for end in block.edges())
                    nodes = input_nodes.numpy()
                    edge = block.edata[dgl.EID].numpy()
                    self.check_edges(labelled, nodes[src], nodes[dst], edge)
                    equal(block.srcdata["x"].numpy(), labelled.x[nodes], 'srcdata["x"]')
                    equal(block.edata["e"].numpy(), edge, 'edata["e"]')
                    count += 1
            require(count == len(loader), f"{len(loader)} batches are due, found {count}")

    def test_graphbolt_follows_its_edges(self) -> None:
        """GraphBolt's ``sample_neighbor`` over SamplingGraph draws its edges."""
        labelled = self.labelled()
        count = 0
        for batch in _graphbolt(labelled):
            sub = batch.sampled_subgraphs[0]
            csc, nodes = sub.sampled_csc, sub.original_row_node_ids.numpy()
            lengths = csc.indptr.diff()
            columns = sub.original_column_node_ids.repeat_interleave(lengths).numpy()
            with given("a batch of GraphBolt"):
                edge = sub.original_edge_ids.numpy()
                self.check_edges(labelled, nodes[csc.indices.numpy()], columns, edge)
                equal(batch.node_features["x"].numpy(), labelled.x[batch.input_nodes.numpy()], "x")
            count += 1
        require(count == 3, f"3 batches are due, found {count}")

    def test_a_model_learns_from_every_loader(self) -> None:
        """The mean of the neighbours' rows and a linear layer learn labels that edges tell."""
        labelled = self.labelled()
        labels = torch.from_numpy(labelled.y)
        for number, loader in enumerate([*_loaders(labelled), None]):
            with given("GraphBolt" if loader is None else type(loader).__module__):
                right = _train(labelled, loader, labels)
                require(right > 0.9 * len(labels), f"{right} of {len(labels)} in run {number}")


def _loaders(labelled: LabelledGraph) -> list[Any]:
    sampler = NeighborSampler([6], prefetch_node_feats=["x"], prefetch_edge_feats=["e"])
    storage, seeds = GraphStorage(labelled.graph), torch.arange(labelled.graph.num_nodes)
    options: dict[str, Any] = {"batch_size": _BATCH, "shuffle": True}
    return [
        dgl.dataloading.DataLoader(storage, seeds, sampler, **options),
        DataLoader(storage, seeds, sampler, **options),
    ]


def _graphbolt(labelled: LabelledGraph) -> Any:
    items = gb.ItemSet(torch.arange(labelled.graph.num_nodes), names="seed_nodes")
    pipe = gb.ItemSampler(items, batch_size=_BATCH, shuffle=True)
    pipe = pipe.sample_neighbor(SamplingGraph(labelled.graph), [6])
    pipe = pipe.fetch_feature(FeatureStore(labelled.graph), node_feature_keys=["x"])
    return gb.DataLoader(pipe)


def _batches(labelled: LabelledGraph, loader: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the seeds of each batch, and the mean of the rows of their neighbours."""
    if loader is None:
        for batch in _graphbolt(labelled):
            csc = batch.sampled_subgraphs[0].sampled_csc
            rows = batch.node_features["x"][csc.indices]
            column = torch.arange(len(csc.indptr) - 1).repeat_interleave(csc.indptr.diff())
            yield batch.seed_nodes, _mean(rows, column, len(batch.seed_nodes))
        return
    for _, seeds, blocks in loader:
        src, dst = blocks[0].edges()
        yield seeds, _mean(blocks[0].srcdata["x"][src.long()], dst.long(), len(seeds))


def _mean(rows: Any, column: Any, count: int) -> Any:
    total = torch.zeros(count, rows.shape[1]).index_add_(0, column, rows)
    return total / torch.bincount(column, minlength=count).clamp(min=1)[:, None]


def _train(labelled: LabelledGraph, loader: Any, labels: Any) -> int:
    """Return how many labels a model knows in its last epoch."""
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.2)
    right = 0
    for _ in range(_EPOCHS):
        right = 0
        for seeds, mean in _batches(labelled, loader):
            out, y = model(mean), labels[seeds.long()]
            optimizer.zero_grad()
            loss: Any = torch.nn.functional.cross_entropy(out, y)
            loss.backward()
            optimizer.step()
            right += int((out.argmax(1) == y).sum())
    return right
