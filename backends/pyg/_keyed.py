"""What our samplers for PyG's loaders share."""

from __future__ import annotations

from typing import Any

from torch_geometric.sampler import BaseSampler

from aethergraph._torch.keyed import Keyed

__all__ = ["KeyedSampler"]


class KeyedSampler(Keyed, BaseSampler):  # type: ignore[misc]
    """A sampler whose draws are a function of a key, so that any process may make a batch."""

    graph: Any  # what is sampled from, a Graph or a HeteroGraph

    @property
    def edge_permutation(self) -> Any:
        """None: samples hold the graph store's edge ids already."""
        return None
