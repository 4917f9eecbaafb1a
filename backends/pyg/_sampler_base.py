"""Common base of our samplers for PyG's loaders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch_geometric.sampler import BaseSampler

from aethergraph._torch.keyed import Keyed

__all__ = ["KeyedSampler"]


class KeyedSampler(Keyed, BaseSampler):  # type: ignore[misc]
    """Keyed sampler in PyG's form."""

    _other_ways = ", or use the loaders of aethergraph.pyg with seed=, which count the epochs"
    graph: Any  # the sampled Graph or HeteroGraph

    if not TYPE_CHECKING:  # hidden from type checkers, which would take every name to exist

        def __getattr__(self, name: str) -> Any:
            class_name = type(self).__name__
            message = f"{class_name!r} object has no attribute {name!r}"
            if name in ("sample", "sample_many"):
                message += (
                    f": this is aethergraph.pyg.{class_name}, which a loader asks for "
                    f"sample_from_nodes(); take aethergraph.{class_name} "
                    f"(from aethergraph import {class_name})"
                )
            raise AttributeError(message)

    @property
    def edge_permutation(self) -> Any:
        """None: samples hold the graph store's edge ids already."""
        return None
