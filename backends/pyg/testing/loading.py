"""Contract of feature sources in the batches of PyG's loaders, stock ones and ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.loader import NeighborLoader as StockNeighborLoader
from torch_geometric.loader import NodeLoader

from aethergraph._torch.tensors import as_numpy
from aethergraph.loading import Ahead
from aethergraph.pyg.feature_store import FeatureStore
from aethergraph.pyg.graph_store import GraphStore
from aethergraph.pyg.loader import LinkNeighborLoader, NeighborLoader
from aethergraph.pyg.sampler import NeighborSampler
from aethergraph.testing.loading import Attributed, LoadingRules
from aethergraph.testing.rules import equal, given, require

__all__ = ["RowLoadingContract"]


class RowLoadingContract(LoadingRules):
    """Rules about a :class:`aethergraph.protocols.FeatureSource` in batches of PyG's loaders.

    Put beside the contract of the source itself, whose ``make`` and ``dtypes`` it shares::

        class TestMyRows(FeatureSourceContract, RowLoadingContract):
            def make(self, rows, dtype):
                return MyRows(rows)
    """

    def test_stock_loaders_gather_its_rows(self) -> None:
        """PyG's own NodeLoader and NeighborLoader over our stores batch the rows of their nodes."""
        for attributed in self._of_torch():
            stores = FeatureStore.from_graph(attributed.graph), GraphStore(attributed.graph)
            sampler = NeighborSampler(stores, [2, 2])
            seeds = torch.arange(attributed.graph.num_nodes)
            loaders: list[Any] = [
                NodeLoader(stores, sampler, seeds, batch_size=8),
                StockNeighborLoader(stores, [2, 2], seeds, neighbor_sampler=sampler, batch_size=8),
            ]
            for loader in loaders:
                for batch in self._batches(loader):
                    _check(batch.x, attributed.node_rows[batch.n_id.numpy()], "x", loader)

    def test_our_loaders_gather_its_rows(self) -> None:
        """Our NeighborLoader and LinkNeighborLoader batch the rows of nodes and of edges."""
        for attributed in self._of_torch():
            loaders: list[Any] = [
                NeighborLoader(attributed.graph, [2, 2], batch_size=8),
                NeighborLoader(attributed.graph, [2, 2], batch_size=8, ahead=Ahead(plan=2)),
                NeighborLoader(attributed.graph, [2, 2], batch_size=8, ahead=0),
                LinkNeighborLoader(attributed.graph, [2, 2], batch_size=8),
            ]
            for loader in loaders:
                for batch in self._batches(loader):
                    _check(batch.x, attributed.node_rows[batch.n_id.numpy()], "x", loader)
                    _check(batch.e, attributed.edge_rows[batch.e_id.numpy()], "e", loader)

    def test_a_feature_store_serves_its_rows(self) -> None:
        """``get_tensor`` gives all rows, a slice, and the rows of ids."""
        for attributed in self._of_torch():
            store = FeatureStore.from_graph(attributed.graph)
            for index in (None, slice(3, 9), torch.tensor([4, 4, 1])):
                rows = store.get_tensor(None, "x", index)
                selection = slice(None) if index is None else index
                _check(rows, attributed.node_rows[selection], f"get_tensor({index!r})", store)

    def _of_torch(self) -> Iterator[Attributed]:
        return (attributed for attributed in self.attributed() if hasattr(torch, attributed.dtype))

    def _batches(self, loader: Any) -> Iterator[Any]:
        count = 0
        for batch in loader:
            yield batch
            count += 1
        require(count == len(loader), f"{len(loader)} batches are due, found {count}")


def _check(rows: Tensor, expected: NDArray[Any], label: str, of: Any) -> None:
    with given(f"{type(of).__name__}, rows of {rows.dtype}"):
        equal(as_numpy(rows).view(expected.dtype), expected, label)
