"""Contract of graphs in the batches of PyG's loaders, stock ones and ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch_geometric.loader import LinkLoader, NodeLoader
from torch_geometric.loader import NeighborLoader as StockNeighborLoader
from torch_geometric.nn import SAGEConv

from aethergraph.pyg.feature_store import FeatureStore
from aethergraph.pyg.graph_store import GraphStore
from aethergraph.pyg.loader import LinkNeighborLoader, NeighborLoader
from aethergraph.pyg.sampler import NeighborSampler
from aethergraph.testing.graph_loading import GraphLoadingRules, LabelledGraph
from aethergraph.testing.rules import equal, given, require

__all__ = ["GraphLoadingContract"]

_EPOCHS = 12


class GraphLoadingContract(GraphLoadingRules):
    """Rules about a graph in batches of PyG's loaders.

    Put beside the contract of the graph itself, whose ``make`` and ``supports`` it shares::

        class TestMyGraph(AdjacencyContract, GraphLoadingContract):
            def make(self, num_nodes, src, dst):
                return MyGraph(...)
    """

    def test_stock_loaders_follow_its_edges(self) -> None:
        """PyG's own NodeLoader, NeighborLoader and LinkLoader batch its edges and their rows."""
        labelled = self.labelled()
        stores, sampler = _over(labelled)
        seeds, links = torch.arange(labelled.graph.num_nodes), _links(labelled)[:, ::9]
        self._check(labelled, NodeLoader(stores, sampler, seeds, batch_size=40))
        loader = StockNeighborLoader(stores, [6], seeds, neighbor_sampler=sampler, batch_size=40)
        self._check(labelled, loader)
        loader = LinkLoader(stores, sampler, (None, links), neg_sampling="binary", batch_size=40)
        self._check(labelled, loader, links)

    def test_our_loaders_follow_its_edges(self) -> None:
        """Our NeighborLoader and LinkNeighborLoader batch its edges and their rows."""
        labelled = self.labelled()
        variants: list[dict[str, Any]] = [{}, {"ahead": 0}]
        for options in variants:
            self._check(labelled, NeighborLoader(labelled.graph, [6, 2], batch_size=40, **options))
            loader = LinkNeighborLoader(
                labelled.graph, [6], neg_sampling="binary", batch_size=90, **options
            )
            self._check(labelled, loader, _links(labelled))

    def test_links_are_left_out(self) -> None:
        """Seed links that are to be predicted are not among the edges of their batch."""
        labelled = self.labelled()
        for batch in LinkNeighborLoader(labelled.graph, [-1], exclude="self", batch_size=60):
            label = batch.n_id[batch.edge_label_index].T.tolist()
            edges = batch.n_id[batch.edge_index].T.tolist()
            both = {tuple(link) for link in label} & {tuple(edge) for edge in edges}
            require(not both, f"{sorted(both)} are seed links, and edges of their batch")

    def test_a_model_learns_from_every_loader(self) -> None:
        """A layer of GraphSAGE without the nodes' own rows learns labels that only edges tell."""
        labelled = self.labelled()
        stores, sampler = _over(labelled)
        seeds = torch.arange(labelled.graph.num_nodes)
        loaders: list[Any] = [
            NodeLoader(stores, sampler, seeds, batch_size=40, shuffle=True),
            NeighborLoader(labelled.graph, [6], batch_size=40, shuffle=True),
        ]
        for loader in loaders:
            with given(type(loader).__name__):
                right = _train(loader)
                require(
                    right > 0.9 * len(labelled.y),
                    f"{right} of {len(labelled.y)} labels were learned",
                )

    def _check(self, labelled: LabelledGraph, loader: Any, links: Any = None) -> None:
        known = None if links is None else set(map(tuple, links.T.tolist()))
        count = 0
        with given(f"a batch of {type(loader).__name__}"):
            for batch in loader:
                node, ends = batch.n_id.numpy(), batch.n_id[batch.edge_index].numpy()
                self.check_edges(labelled, ends[0], ends[1], batch.e_id.numpy())
                equal(batch.x.numpy(), labelled.x[node], "x")
                if known is not None:
                    positive = batch.edge_label_index[:, batch.edge_label > 0]
                    drawn = {tuple(link) for link in batch.n_id[positive].T.tolist()}
                    require(drawn <= known, f"{sorted(drawn - known)} are no links of the graph")
                count += 1
        require(count == len(loader), f"{len(loader)} batches are due, found {count}")


def _over(labelled: LabelledGraph) -> tuple[Any, NeighborSampler]:
    stores = FeatureStore.from_graph(labelled.graph), GraphStore(labelled.graph)
    return stores, NeighborSampler(stores, [6])


def _links(labelled: LabelledGraph) -> Any:
    return torch.from_numpy(np.stack(labelled.ends))


def _train(loader: Any) -> int:
    """Return how many labels a model knows in its last epoch."""
    torch.manual_seed(0)
    model = SAGEConv(3, 3, root_weight=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.2)
    right = 0
    for _ in range(_EPOCHS):
        right = 0
        for batch in loader:
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            y = batch.y[: batch.batch_size]
            optimizer.zero_grad()
            loss: Any = torch.nn.functional.cross_entropy(out, y)
            loss.backward()
            optimizer.step()
            right += int((out.argmax(1) == y).sum())
    return right
