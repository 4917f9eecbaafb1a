"""The extension points: members that a store or a sampler must have to be used by the loaders.

``Graph``, ``FeatureStore`` and ``NeighborSampler`` are the built-in ones; the contracts in
:mod:`aethergraph.testing` check others. Rows of features need no base class and no registration:
any object with the members of :class:`FeatureSource` becomes an attribute of a graph, and goes
through every loader and framework adapter. :class:`RowSource` is for a source that can do more.
This module stays interpreted and imports nothing of the package, so that other packages can depend
on it cheaply.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "FeatureSource",
    "GatherPlan",
    "RowSource",
    "SampledSubgraph",
    "Sampler",
    "Topology",
]


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


class GatherPlan(Protocol):
    """Gathers that a source was told ahead, served in their order."""

    def gather(self, ids: ArrayLike, out: NDArray[Any]) -> NDArray[Any]:
        """Gather the next list, which is ``ids``, into ``out``."""

    def gather_if_next(self, ids: NDArray[np.int64], out: NDArray[Any]) -> bool:
        """Gather the next list into ``out`` if it equals ``ids``; return whether it did."""

    def close(self) -> None:
        """Release what the plan holds."""


class RowSource(ABC):
    """Rows by id with everything that loaders and adapters may use; base class of our stores.

    It is a :class:`FeatureSource`. A subclass defines :attr:`shape`, :attr:`dtype_name` and
    :meth:`gather`. Every other member has a default that holds for any rows; override those that
    your source does better::

        class RemoteRows(RowSource):
            def read(self, start, stop):        # one request for a range, not one for each row
                return self.client.read_range(start, stop)

    Consumers ask for this type and its members only, never for a class or a kind of storage. They
    wrap sources that have no more than the four members of :class:`FeatureSource` in one of these.
    """

    # ---- members that every source has -----------------------------------------------------

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of all rows: ``(num_rows, ...)``."""

    @property
    @abstractmethod
    def dtype_name(self) -> str:
        """Name of the numpy dtype, or ``"bfloat16"`` (whose arrays are uint16 bit patterns)."""

    @abstractmethod
    def gather(
        self, ids: ArrayLike, out: NDArray[Any] | None = None, dtype: Any = None
    ) -> NDArray[Any]:
        """Return the rows of ``ids`` in order, duplicates kept; see :class:`FeatureSource`."""

    # ---- members that follow from these ----------------------------------------------------

    @property
    def num_rows(self) -> int:
        """Number of rows; ids are ``0 .. num_rows - 1``."""
        return self.shape[0]

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one row; ``()`` for a vector."""
        return self.shape[1:]

    @property
    def ndim(self) -> int:
        """Number of dimensions, including that of the rows."""
        return len(self.shape)

    @property
    def array_dtype(self) -> np.dtype[Any]:
        """Numpy dtype of gathered rows: uint16 for bfloat16."""
        return np.dtype("uint16" if self.dtype_name == "bfloat16" else self.dtype_name)

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return math.prod(self.shape) * self.array_dtype.itemsize

    # ---- capabilities: override what your source does better -------------------------------

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return the rows ``start .. stop - 1``; a view will do. Default: a gather."""
        return self.gather(np.arange(start, stop))

    @property
    def array(self) -> NDArray[Any]:
        """All rows; weights and times are drawn by from here. Default: all are read, at each use.

        A source whose rows are too many for that raises ``NotImplementedError``.
        """
        return self.read(0, self.num_rows)

    @property
    def can_widen(self) -> bool:
        """True if :meth:`gather` converts to a wider ``dtype``, or that of ``out``, by itself.

        Default: False; rows are then gathered as they are stored, and converted afterwards.
        """
        return False

    @property
    def writable_array(self) -> NDArray[Any] | None:
        """Array whose elements are the rows, if writing to it changes them. Default: None."""
        return None

    @property
    def is_in_memory(self) -> bool:
        """True if a gather waits for nothing but memory, so that no thread reads ahead for it.

        Default: False.
        """
        return False

    @property
    def can_plan(self) -> bool:
        """True if gathers get cheaper when :meth:`plan` announces them. Default: False."""
        return False

    def plan(self, lists: Iterable[ArrayLike]) -> GatherPlan:
        """Announce the row numbers of coming gathers; called only if :attr:`can_plan`."""
        raise NotImplementedError(f"{type(self).__name__} plans no gathers (can_plan is False)")

    def paged_column(self) -> Any:
        """Return the column of a graph's own file that samplers read together with the lists.

        Default: None, rows that are gathered by themselves.
        """
        return None

    @property
    def guard(self) -> Any:
        """Guard of the file that :attr:`array` is mapped from. Default: None, plain memory."""
        return None

    # ---- identity, for people and for checks -----------------------------------------------

    @property
    def storage(self) -> str:
        """Word for the place of the rows, to show to people. Default: the name of the class."""
        return type(self).__name__

    @property
    def path(self) -> str | None:
        """Path of the file of the rows. Default: None."""
        return None

    @property
    def fingerprint(self) -> str | None:
        """Identity of the content, for files derived from the rows. Default: None, unknown."""
        return None

    def is_same_rows(self, other: RowSource) -> bool:
        """Return whether both read the same rows of one file. Default: whether both are one."""
        return self is other


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
