"""Contract of feature sources in the batches of DGL; see ``docs/testing.md``."""

from aethergraph.dgl.testing.loading import RowLoadingContract

__all__ = ["RowLoadingContract"]
