"""Pair of stores that PyG's loaders take, with the attributes that scripts read from a ``Data``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data import FeatureStore as _PyGFeatureStore
from torch_geometric.data import GraphStore as _PyGGraphStore
from torch_geometric.typing import TensorFrame

from aethergraph._torch.tensors import stack_rows
from aethergraph.errors import InvalidArgumentError
from aethergraph.graph.hetero import HeteroGraph
from aethergraph.protocols import AnyGraph, FeatureSource, HomogeneousGraph
from aethergraph.pyg._inputs import is_typed
from aethergraph.pyg._tensor_attr import EDGE_GROUP
from aethergraph.pyg._tensor_rows import tensors_of
from aethergraph.pyg.feature_store import FeatureStore
from aethergraph.pyg.graph_store import GraphStore

if TYPE_CHECKING:
    from aethergraph.graph.hetero import EdgeType

__all__ = ["Stores", "read_pair"]


class Stores(tuple[Any, Any]):
    """Pair ``(feature_store, graph_store)`` for PyG's loaders, with the attributes of a ``Data``.

    PyG's ``BasicGNN.inference`` and many scripts read ``x``, ``num_nodes`` or ``num_node_features``
    from ``loader.data``. Tensors of the feature store are attributes here: read, assigned and
    deleted by name. An assigned tensor of one row per node (or per edge) goes into the feature
    store, and into the batches to come; any other value belongs to the graph as a whole. For typed
    graphs there are ``metadata()`` and counts only; their tensors are in the stores.

    Args:
        feature_store: a PyG ``FeatureStore`` of any make.
        graph_store: a PyG ``GraphStore`` of any make.
    """

    __slots__ = ()

    def __new__(cls, feature_store: Any, graph_store: Any) -> Stores:
        """Make the pair; see the class."""
        return super().__new__(cls, (feature_store, graph_store))

    @property
    def num_nodes(self) -> int:
        """Number of nodes, of all types together."""
        if is_typed(self):
            return sum(self[1].num_typed_nodes().values())
        count: int = self[1].num_nodes
        return count

    @property
    def num_edges(self) -> int:
        """Number of edges, of all types together."""
        store = self[1]
        if not is_typed(self):
            count: int = store.num_edges
            return count
        if store.hetero is not None:
            return sum(store.hetero.num_edges.values())
        return sum(len(store.edge_index(kind)[0]) for kind in store.edge_types)

    @property
    def num_node_features(self) -> int | dict[str, int]:
        """Columns of ``x``, 0 without it; for a typed graph by node type."""
        if is_typed(self):
            return {name: self._width(name, "x") for name in self.node_types}
        return self._width(None, "x")

    @property
    def num_features(self) -> int | dict[str, int]:
        """Alias of :attr:`num_node_features`, as in PyG."""
        return self.num_node_features

    @property
    def num_edge_features(self) -> int | dict[EdgeType, int]:
        """Columns of ``edge_attr``, 0 without it; for a typed graph by edge type."""
        if is_typed(self):
            return {kind: self._width(kind, "edge_attr") for kind in self.edge_types}
        return self._width(EDGE_GROUP, "edge_attr")

    @property
    def node_types(self) -> list[str]:
        """Names of the node types, in order."""
        return list(self[1].num_typed_nodes())

    @property
    def edge_types(self) -> list[EdgeType]:
        """Edge types, in order."""
        kinds: list[EdgeType] = self[1].edge_types
        return kinds

    def metadata(self) -> tuple[list[str], list[EdgeType]]:
        """Return ``(node_types, edge_types)``, as PyG's ``to_hetero`` and ``HGTConv`` take them."""
        return self.node_types, self.edge_types

    @property
    def edge_index(self) -> Tensor:
        """All edges of a homogeneous graph by edge id: int64 [2, E], computed on each access."""
        return stack_rows(*self[1].edge_index())

    def _width(self, group: Any, name: str) -> int:
        column = tensors_of(self[0]).find_column(group, name)
        if column is None:
            return 0
        return int(column.shape[1]) if len(column.shape) > 1 else 1

    def __getitem__(self, index: Any) -> Any:
        """Return one of the two stores, or the tensor of that name."""
        if isinstance(index, str) and not is_typed(self):
            return getattr(self, index)
        if isinstance(index, (str, tuple)):
            raise KeyError(
                f"{index!r}: stores of a graph of many types are not indexed by a type; "
                f"aethergraph.pyg.to_data(stores)[{index!r}] has what belongs to it"
            )
        return super().__getitem__(index)

    def __contains__(self, item: Any) -> bool:
        """Return whether a tensor, of whatever type, or a value of the graph has that name."""
        if not isinstance(item, str):
            return super().__contains__(item)
        source = tensors_of(self[0])
        attrs = [source.graph_attrs, *source.type_attrs.values()]
        names = {name for _, name in source.tensor_keys()}.union(*attrs)
        return item == "edge_index" or item in names

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or is_typed(self):
            raise AttributeError(
                f"{type(self).__name__} has no attribute {name!r}: tensors of a graph of many "
                "types are in feature_store, graph_store = stores, and "
                "aethergraph.pyg.to_data(stores) makes a HeteroData"
            )
        source = tensors_of(self[0])
        for group in (None, EDGE_GROUP):
            column = source.find_column(group, name)
            if column is not None:
                return column.get(None)
        if name in source.graph_attrs:
            return source.graph_attrs[name]
        try:
            return self[0].get_tensor(None, name, None)
        except KeyError:
            if callable(getattr(Data, name, None)):
                raise AttributeError(
                    f"stores do not have the method {name!r} of a Data: "
                    f"aethergraph.pyg.to_data(stores).{name}() makes a Data and calls it"
                ) from None
            known = ", ".join(sorted({repr(attr) for _, attr in source.tensor_keys()})) or "none"
            raise AttributeError(
                f"the feature store has no tensor {name!r}; there are: {known}"
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "num_nodes" and value == self.num_nodes:
            return  # scripts for ``Data`` often set it again
        if isinstance(getattr(type(self), name, None), property):
            raise AttributeError(f"{name!r} is that of the graph and cannot be assigned")
        store = self[0]
        if is_typed(self) or not isinstance(store, FeatureStore):
            raise AttributeError(
                f"{name!r} cannot be assigned here: put_tensor(value, group_name=type, "
                "attr_name=name, index=None) of the feature store does it"
            )
        if name in self._names():
            self.__delattr__(name)
        if value is None:
            return
        group = self._group_of(name, value)
        if group is None:
            store.graph_attrs[name] = value
        else:
            store.put_tensor(value, group_name=group[0], attr_name=name, index=None)

    def _group_of(self, name: str, value: Any) -> tuple[Any] | None:
        """Return the group for ``value``, by the rule of PyG's ``Data``.

        None means that ``value`` belongs to the graph as a whole.
        """
        if isinstance(value, (Tensor, np.ndarray)):
            if value.ndim == 0:
                return None
        elif not isinstance(value, TensorFrame):
            return None
        counts = self.num_nodes, self.num_edges
        if len(value) == counts[1] and (counts[0] != counts[1] or "edge" in name):
            return (EDGE_GROUP,)
        return (None,) if len(value) == counts[0] else None

    def _names(self) -> set[str]:
        store = self[0]
        return {key[1] for key, _ in store.columns()} | set(store.graph_attrs)

    def __delattr__(self, name: str) -> None:
        store = self[0]
        if is_typed(self) or not isinstance(store, FeatureStore) or name not in self._names():
            raise AttributeError(f"there is no tensor {name!r} that could be deleted")
        store.graph_attrs.pop(name, None)
        for key, _ in list(store.columns()):
            if key[1] == name:
                store.remove_tensor(group_name=key[0], attr_name=name, index=None)

    def __reduce__(self) -> tuple[Any, ...]:
        return Stores, tuple(self)


def read_pair(pair: Any) -> Stores:
    """Check a pair ``(feature_store, graph_store)``; replace a graph by a store over it.

    Raises:
        InvalidArgumentError: any other pair; says what to give instead.
    """
    features, topology = pair
    if isinstance(topology, AnyGraph):
        topology = GraphStore(topology)
    received = f"got ({_describe(features)}, {_describe(pair[1])})"
    graphs, rows = (
        (HomogeneousGraph, HeteroGraph, _PyGGraphStore),
        (FeatureSource, _PyGFeatureStore),
    )
    if isinstance(features, graphs) and isinstance(pair[1], rows) and not _is_both(pair):
        raise InvalidArgumentError(f"the order is (feature_store, graph_store), {received}")
    if isinstance(features, FeatureSource):
        raise InvalidArgumentError(
            f"a source of rows, such as {_describe(features)}, holds one attribute. Attach it, "
            'graph.node_attrs["x"] = rows, and give the graph, or '
            "(aethergraph.pyg.FeatureStore.from_graph(graph), GraphStore(graph))"
        )
    if not isinstance(features, _PyGFeatureStore) or not isinstance(topology, _PyGGraphStore):
        raise InvalidArgumentError(
            "data must be (feature_store, graph_store): subclasses of torch_geometric.data's "
            f"FeatureStore and GraphStore, {received}"
        )
    return Stores(features, topology)


def _is_both(pair: Any) -> bool:
    """Return whether each of the two is both kinds of store, as PyG's ``Data`` is."""
    return all(isinstance(store, _PyGFeatureStore) for store in pair) and all(
        isinstance(store, _PyGGraphStore) for store in pair
    )


def _describe(value: Any) -> str:
    kind = type(value)
    is_ours = kind.__module__.startswith("aethergraph")
    package = "aethergraph.pyg" if kind.__module__.startswith("aethergraph.pyg") else "aethergraph"
    return f"{package}.{kind.__name__}" if is_ours else kind.__name__
