"""The extension points: what a store or a sampler must offer to take part.

Anything with these members can be handed to the loaders and the framework adapters: no base
class, no registration. ``Graph``, ``FeatureStore`` and ``NeighborSampler`` are the built-in
ones; the contracts in :mod:`aethergraph.testing` prove others. This module stays interpreted and
imports nothing of the package, so that other packages can depend on it cheaply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

__all__ = ["FeatureSource", "SampledSubgraph", "Sampler", "Topology"]


@runtime_checkable
class FeatureSource(Protocol):
    """Rows by id: node or edge features, labels, masks."""

    @property
    def shape(self) -> tuple[int, ...]:
        """``(num_rows, ...)``."""

    @property
    def dtype_name(self) -> str:
        """A numpy dtype name, or ``"bfloat16"`` (whose arrays are uint16 bit patterns)."""

    @property
    def num_rows(self) -> int:
        """Rows that exist; ids are below it."""

    def gather(
        self, ids: ArrayLike, out: NDArray[Any] | None = None, dtype: str | None = None
    ) -> NDArray[Any]:
        """Rows of ``ids`` in that order, duplicates kept: shape ``(len(ids), *shape[1:])``."""


@runtime_checkable
class Topology(Protocol):
    """The adjacency of one graph, in the direction that it stores."""

    @property
    def num_nodes(self) -> int:
        """Node ids are ``0 .. num_nodes - 1``."""

    @property
    def num_edges(self) -> int:
        """Edge ids are ``0 .. num_edges - 1``."""

    def in_neighbors(self, node: int) -> NDArray[np.int64]:
        """Sources of the edges that end at ``node``."""

    def in_degrees(self, nodes: ArrayLike | None = None) -> NDArray[np.int64]:
        """Number of edges that end at each of ``nodes`` (None: at every node)."""


@runtime_checkable
class SampledSubgraph(Protocol):
    """What a sampler returns: int64 arrays in PyG's conventions (see ``sampling.Subgraph``)."""

    @property
    def node(self) -> NDArray[np.int64]:
        """Global ids, the seeds first."""

    @property
    def row(self) -> NDArray[np.int64]:
        """Local source of each edge."""

    @property
    def col(self) -> NDArray[np.int64]:
        """Local destination of each edge."""

    @property
    def edge(self) -> NDArray[np.int64]:
        """Global id of each edge."""


@runtime_checkable
class Sampler(Protocol):
    """A pure function of (key, seeds): the same key and seeds give the same subgraph."""

    def sample(self, seeds: ArrayLike, key: int | None = None) -> SampledSubgraph:
        """Draw the subgraph around ``seeds``."""
