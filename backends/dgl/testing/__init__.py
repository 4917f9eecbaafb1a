"""Contracts of graphs and of feature sources in the batches of DGL; see ``docs/testing.md``."""

from aethergraph.dgl.testing.graph_loading import GraphLoadingContract
from aethergraph.dgl.testing.loading import RowLoadingContract

__all__ = ["GraphLoadingContract", "RowLoadingContract"]
