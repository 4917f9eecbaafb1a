"""StoredGraph: counts, values and attributes of a graph, whatever holds its lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from aethergraph import _native as native
from aethergraph.errors import ClosedError, InvalidArgumentError
from aethergraph.features.feature_table import FeatureTable
from aethergraph.features.hot import check_cache
from aethergraph.graph.adjacency import EdgeQueries
from aethergraph.graph.attributes import AttributeTable
from aethergraph.graph.parts import GraphParts
from aethergraph.protocols import FeatureSource, HomogeneousGraph, RowSource
from aethergraph.storage.choice import Storage, check_storage
from aethergraph.storage.paging import Paging

__all__ = ["StoredGraph"]

Ids = NDArray[np.int64]


class StoredGraph(EdgeQueries, HomogeneousGraph):
    """Graph of one node type and one edge type over its parts; base of ours."""

    _parts: GraphParts | None
    _num_nodes: int
    _num_edges: int
    _path: str | None
    _storage: str
    _paging: Paging | None

    def _live(self) -> GraphParts:
        if self._parts is None:
            raise ClosedError(f"{self._label()} was closed")
        return self._parts

    def _edges(self) -> GraphParts:
        return self._live()

    @property
    def num_nodes(self) -> int:
        """Number of nodes; ids are ``0 .. num_nodes - 1``."""
        return self._num_nodes

    @property
    def num_edges(self) -> int:
        """Number of edges; ids are ``0 .. num_edges - 1``."""
        return self._num_edges

    @property
    def path(self) -> str | None:
        """Absolute path of the file that the graph was loaded from, or None."""
        return self._path

    @property
    def storage(self) -> str:
        """Place of the adjacency: ``"mmap"``, ``"memory"`` or ``"uring"``; or ``"live"``."""
        return self._storage

    @property
    def paging(self) -> Paging | None:
        """Reader of lists that stay in the file (``"uring"``), with its ``stats()``; else None."""
        self._live()
        return self._paging

    @property
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._parts is None

    @property
    def node_attrs(self) -> AttributeTable:
        """Node attributes by name: features ``"x"``, labels, masks..., one row per node."""
        return self._live().node_attrs

    @property
    def features(self) -> RowSource | None:
        """``node_attrs["x"]``, or None. Assign an array or a source of rows; None removes it."""
        return self.node_attrs.get("x")

    @features.setter
    def features(self, value: FeatureSource | ArrayLike | None) -> None:
        if value is None:
            self.node_attrs.pop("x", None)
        else:
            self.node_attrs["x"] = value

    @property
    def node_time(self) -> NDArray[Any] | None:
        """Time by node (int64 or float64, read-only). Of a graph that changes a copy of all."""
        return self._live().read_times()

    @property
    def time_unit(self) -> str | None:
        """Unit of :attr:`edge_time` and :attr:`node_time`, such as ``"us"``.

        Times with a unit are int64 counts of that unit since 1970-01-01:
        ``times.view(f"datetime64[{unit}]")`` gives datetimes. None for plain numbers, and for a
        graph without times.
        """
        return self._live().time_unit

    @property
    def node_values(self) -> Mapping[str, RowSource]:
        """``node_time``, if the graph has times of nodes, as rows to gather from."""
        return self._live().node_values(self._guard(), self._paging)

    @property
    def edge_values(self) -> Mapping[str, RowSource]:
        """``edge_weight`` and ``edge_time``, if there are any, as rows to gather from."""
        return self._live().edge_values(self._guard(), self._paging)

    def load_features(
        self,
        path: native.Path,
        name: str = "x",
        *,
        storage: Storage = "mmap",
        memory_budget: int | str | None = None,
        hot: ArrayLike | Literal["degree"] | None = None,
        hot_share: float = 0.9,
        dtype: DTypeLike | str | None = None,
    ) -> FeatureTable:
        """Attach a feature file (``.npy`` or native) with one row per node as ``node_attrs[name]``.

        Args:
            path: the feature file.
            name: name of the attribute.
            storage: see :meth:`FeatureTable.load`.
            memory_budget: see :meth:`FeatureTable.load`.
            hot: for ``storage="uring"``, the rows to keep in the cache: node ids, or ``"degree"``
                for the nodes that occur in most lists (by out-degree; by in-degree in a graph with
                layout "csc").
            hot_share: see :meth:`FeatureTable.load`.
            dtype: dtype of gathered rows, such as ``"float32"`` if the file holds bfloat16 and the
                model takes float32; see :meth:`FeatureTable.astype`. None: the stored dtype.

        Raises:
            InvalidArgumentError: the number of rows in the file is not the number of nodes.
        """
        parts = self._live()
        by_degree = isinstance(hot, str)
        if by_degree and hot != "degree":
            raise InvalidArgumentError(f"hot = {hot!r} is neither ids nor 'degree'")
        check_storage(storage)
        check_cache(storage, hot_share, hot=hot)
        store = FeatureTable.load(
            path,
            storage,
            memory_budget=memory_budget,
            hot=None if by_degree else hot,
            frequency=self._count_lists if by_degree else None,
            hot_share=hot_share,
            dtype=dtype,
        )
        _check_rows(store, self._num_nodes, "num_nodes")
        parts.node_attrs[name] = store
        return store

    def load_edge_features(
        self,
        path: native.Path,
        name: str = "edge_attr",
        *,
        storage: Storage = "mmap",
        memory_budget: int | str | None = None,
        hot: ArrayLike | None = None,
        hot_share: float = 0.9,
        dtype: DTypeLike | str | None = None,
    ) -> FeatureTable:
        """Attach a feature file with one row per edge, in edge-id order, as ``edge_attrs[name]``.

        The arguments are those of :meth:`load_features`, except that ``hot`` takes only edge ids.

        Raises:
            InvalidArgumentError: the number of rows in the file is not the number of edges.
        """
        parts = self._live()
        store = FeatureTable.load(
            path, storage, memory_budget=memory_budget, hot=hot, hot_share=hot_share, dtype=dtype
        )
        _check_rows(store, self._num_edges, "num_edges")
        parts.edge_attrs[name] = store
        return store

    def _count_lists(self, start: int, stop: int) -> Ids:
        """Return the out-degrees (layout "csc": in-degrees) of nodes ``start .. stop - 1``."""
        nodes = np.arange(start, min(stop, self._num_nodes))
        counts = self.in_degrees(nodes) if self.layout == "csc" else self.out_degrees(nodes)
        return np.pad(counts, (0, stop - start - len(counts)))  # a surplus of rows is refused later


def _check_rows(store: FeatureTable, expected: int, count_name: str) -> None:
    if store.num_rows != expected:
        rows, path = store.num_rows, store.path
        store.close()
        raise InvalidArgumentError(
            f"{path} has {rows} rows, but the graph has {count_name} = {expected}"
        )
