"""Reserved name: the DGL adapter (``aethergraph.dgl``) comes in a later release."""

raise ImportError(
    "aethergraph.dgl is reserved: the DGL adapter comes in a later release. "
    "Until then use aethergraph.pyg, or aethergraph.NeighborSampler with numpy arrays."
)
