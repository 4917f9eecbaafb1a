"""The extension points: members that a store or a sampler must have to be used by the loaders.

Any object with these members can be handed to the loaders and the framework adapters: no base
class, no registration. ``Graph``, ``FeatureStore`` and ``NeighborSampler`` are the built-in
ones; the contracts in :mod:`aethergraph.testing` check others. This module stays interpreted and
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
    """Rows by id: features of nodes or edges, labels, masks."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of all rows: ``(num_rows, ...)``."""

    @property
    def dtype_name(self) -> str:
        """Name of the numpy dtype, or ``"bfloat16"`` (whose arrays are uint16 bit patterns)."""

    @property
    def num_rows(self) -> int:
        """Number of rows; ids are ``0 .. num_rows - 1``."""

    def gather(
        self, ids: ArrayLike, out: NDArray[Any] | None = None, dtype: str | None = None
    ) -> NDArray[Any]:
        """Return the rows of ``ids`` in order, duplicates kept: ``(len(ids), *shape[1:])``."""


@runtime_checkable
class Topology(Protocol):
    """Adjacency of one graph, in the direction that it stores."""

    @property
    def num_nodes(self) -> int:
        """Number of nodes; ids are ``0 .. num_nodes - 1``."""

    @property
    def num_edges(self) -> int:
        """Number of edges; ids are ``0 .. num_edges - 1``."""

    def in_neighbors(self, node: int) -> NDArray[np.int64]:
        """Return the sources of the edges that end at ``node``."""

    def in_degrees(self, nodes: ArrayLike | None = None) -> NDArray[np.int64]:
        """Return the number of edges that end at each of ``nodes`` (None: at every node)."""


@runtime_checkable
class SampledSubgraph(Protocol):
    """Result of a sampler: int64 arrays in PyG's conventions (see ``sampling.Subgraph``)."""

    @property
    def node(self) -> NDArray[np.int64]:
        """Global id of each node, the seeds first."""

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
