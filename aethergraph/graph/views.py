"""Views of a typed graph: the nodes of one type, the edges of one type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike, DTypeLike, NDArray

from aethergraph import _native as native
from aethergraph.features.feature_table import FeatureTable
from aethergraph.graph.adjacency import EdgeQueries, NoStrayAttributes
from aethergraph.graph.attributes import AttributeTable
from aethergraph.graph.parts import EdgeParts, NodeParts
from aethergraph.protocols import EdgeType, FeatureSource, NodeSet, RowSource
from aethergraph.storage.choice import Storage
from aethergraph.storage.paging import Paging

if TYPE_CHECKING:
    from aethergraph.graph.hetero import HeteroGraph

__all__ = ["EdgeView", "NodeView"]


def _attach_file(
    attrs: AttributeTable, path: native.Path, name: str, storage: Storage,
    memory_budget: int | str | None, hot: ArrayLike | None, hot_share: float,
    dtype: DTypeLike | str | None,
) -> FeatureTable:  # fmt: skip
    store = FeatureTable.load(
        path, storage, memory_budget=memory_budget, hot=hot, hot_share=hot_share, dtype=dtype
    )
    attrs[name] = store
    return store


class NodeView(NoStrayAttributes, NodeSet):
    """The nodes of one type: ``graph["user"]``."""

    _ATTACH = ".attrs[{!r}] = ..."

    def __init__(self, graph: HeteroGraph, name: str) -> None:
        self._graph = graph
        self._name = name

    @property
    def name(self) -> str:
        """Name of the node type."""
        return self._name

    def _parts(self) -> NodeParts:
        return self._graph.node_parts(self.name)

    @property
    def num_nodes(self) -> int:
        """Number of nodes of this type; ids are ``0 .. num_nodes - 1``."""
        return self._parts().num_nodes

    @property
    def node_time(self) -> NDArray[Any] | None:
        """Time by node (int64 or float64, read-only). Of a graph that changes a copy of all."""
        return self._parts().read_times()

    @property
    def time_unit(self) -> str | None:
        """Unit of the times of these nodes; None: plain numbers, or no times."""
        return self._parts().time_unit

    @property
    def attrs(self) -> AttributeTable:
        """Attributes by name: ``attrs["x"] = rows``, one row per node."""
        return self._parts().node_attrs

    @property
    def features(self) -> RowSource | None:
        """``attrs["x"]``, or None. Assign an array or a source of rows; None removes it."""
        return self.attrs.get("x")

    @features.setter
    def features(self, value: FeatureSource | ArrayLike | None) -> None:
        if value is None:
            self.attrs.pop("x", None)
        else:
            self.attrs["x"] = value

    def load_features(
        self, path: native.Path, name: str = "x", *, storage: Storage = "mmap",
        memory_budget: int | str | None = None, hot: ArrayLike | None = None,
        hot_share: float = 0.9, dtype: DTypeLike | str | None = None,
    ) -> FeatureTable:  # fmt: skip
        """Attach a feature file with one row per node, like :meth:`Graph.load_features`."""
        return _attach_file(self.attrs, path, name, storage, memory_budget, hot, hot_share, dtype)

    @property
    def node_attrs(self) -> AttributeTable:
        """Attributes by name, as :attr:`attrs` has them."""
        return self.attrs

    @property
    def node_values(self) -> Mapping[str, RowSource]:
        """``node_time`` as rows to gather from, if the nodes have times."""
        return self._parts().node_values(self._graph.guard(), self._graph.paging)

    def __repr__(self) -> str:
        return f"NodeView({self.name!r}, num_nodes={self.num_nodes})"


class EdgeView(EdgeQueries):
    """The edges of one type: ``graph["user", "votes", "post"]``, with the queries of ``Graph``."""

    _ATTACH = ".attrs[{!r}] = ..."

    def __init__(self, graph: HeteroGraph, name: EdgeType) -> None:
        self._graph = graph
        self._name = name

    @property
    def name(self) -> EdgeType:
        """Edge type: ``(source type, relation, destination type)``."""
        return self._name

    def _edges(self) -> EdgeParts:
        return self._graph.edge_parts(self.name)

    def _label(self) -> str:
        return f"{self._graph.path or 'the graph'}: {self.name}"

    def _guard(self) -> native.FileGuard | None:
        return self._graph.guard()

    @property
    def num_edges(self) -> int:
        """Number of edges of this type; edge ids are ``0 .. num_edges - 1``."""
        return self._edges().num_edges

    @property
    def time_unit(self) -> str | None:
        """Unit of the times of these edges; None: plain numbers, or no times."""
        return self._edges().time_unit

    @property
    def attrs(self) -> AttributeTable:
        """Attributes by name, one row per edge in edge-id order."""
        return self._edges().edge_attrs

    @property
    def src_attrs(self) -> AttributeTable:
        """Attributes of the source nodes of these edges."""
        return self._graph.node_parts(self.name[0]).node_attrs

    @property
    def dst_attrs(self) -> AttributeTable:
        """Attributes of the destination nodes of these edges."""
        return self._graph.node_parts(self.name[2]).node_attrs

    def load_features(
        self, path: native.Path, name: str = "edge_attr", *, storage: Storage = "mmap",
        memory_budget: int | str | None = None, hot: ArrayLike | None = None,
        hot_share: float = 0.9, dtype: DTypeLike | str | None = None,
    ) -> FeatureTable:  # fmt: skip
        """Attach a feature file with one row per edge, in edge-id order."""
        return _attach_file(self.attrs, path, name, storage, memory_budget, hot, hot_share, dtype)

    @property
    def paging(self) -> Paging | None:
        """Reader of lists that stay in the file (``"uring"``); else None."""
        return self._graph.paging

    @property
    def edge_values(self) -> Mapping[str, RowSource]:
        """``edge_weight`` and ``edge_time``, if there are any, as rows to gather from."""
        return self._edges().edge_values(self._graph.guard(), self._graph.paging)

    def __repr__(self) -> str:
        return f"EdgeView({self.name!r}, num_edges={self.num_edges}, layout={self.layout!r})"
