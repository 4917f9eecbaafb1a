"""A PyG ``Data`` or ``HeteroData``: its edges and attributes as stores have them, and what changed.

PyG's own loader copies the edges when it is made, and reads the attributes for every batch. Our
loaders ask when an epoch begins which attributes are other ones than before.

Source followed: ``torch_geometric/loader/utils.py`` (``filter_node_store_`` and
``filter_edge_store_``: the attributes that PyG's own loader takes from a ``Data`` per batch).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData
from torch_geometric.typing import TensorFrame
from torch_geometric.utils import to_edge_index

from aethergraph.errors import AetherError, InvalidArgumentError
from aethergraph.pyg._tensor_attr import EDGE_GROUP, shown_name

if TYPE_CHECKING:
    from aethergraph.pyg._tensor_rows import Key
    from aethergraph.pyg.feature_store import FeatureStore
    from aethergraph.pyg.graph_store import GraphStore

__all__ = ["TOPOLOGY", "SourceData", "put_attr", "read_edges", "row_dim"]

_EDGES = ("edge_index", "adj", "adj_t")
#: Attributes that say which nodes and edges there are.
TOPOLOGY = (*_EDGES, "num_nodes")


def read_edges(store: Any, label: str) -> tuple[tuple[Any, Any], dict[str, Tensor]]:
    """Return the edges of a ``Data`` or of one edge type, and the values of ``adj_t`` by name."""
    edge_index = getattr(store, "edge_index", None)
    if edge_index is None:
        for name in ("adj_t", "adj"):
            if getattr(store, name, None) is not None:
                return _read_sparse(store, name, label)
        edge_index = torch.empty((2, 0), dtype=torch.int64)
    elif not isinstance(edge_index, (Tensor, np.ndarray)):
        raise InvalidArgumentError(
            f"{label}.edge_index must be a tensor, got {type(edge_index).__name__}"
        )
    elif edge_index.ndim != 2 or edge_index.shape[0] != 2:
        raise InvalidArgumentError(
            f"{label}.edge_index must have shape (2, num_edges), got {tuple(edge_index.shape)}"
        )
    return (edge_index[0], edge_index[1]), {}


def _read_sparse(
    store: Any, name: str, label: str
) -> tuple[tuple[Tensor, Tensor], dict[str, Tensor]]:
    """Return the edges of a sparse tensor, in the order of its entries, and their values."""
    try:
        (row, col), value = to_edge_index(store[name])
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidArgumentError(
            f"{label}.{name} is no sparse tensor of torch or torch_sparse: {error}"
        ) from None
    ends = (col, row) if name == "adj_t" else (row, col)  # adj_t is the transpose
    attr = "edge_weight" if value is None or value.ndim == 1 else "edge_attr"
    has_values = value is not None and not (value.ndim == 1 and bool((value == 1).all()))
    return ends, {attr: value} if has_values and attr not in store else {}


def row_dim(data: Any, name: str, value: Any, store: Any) -> int | None:
    """Return the dimension in which PyG looks for rows of nodes or edges; None: it does not."""
    if isinstance(value, TensorFrame):
        return 0
    if not isinstance(value, (Tensor, np.ndarray)) or value.ndim == 0:
        return None
    dim = data.__cat_dim__(name, value, store)  # -1 if the name has "index" in it
    return dim % value.ndim if isinstance(dim, int) else None


def put_attr(features: FeatureStore, data: Any, store: Any, name: str, value: Any) -> Key | None:
    """Put an attribute where batches find it: among the rows, or the values of no rows.

    Args:
        features: store to put it into.
        data: the ``Data`` or ``HeteroData``.
        store: that of its stores which has the attribute.
        name: its name.
        value: what it is.

    Returns:
        Group and name of the rows; None if it is no rows of nodes or edges.
    """
    group = _row_group(data, store, name, value)
    if group is None:
        if store._key is None:
            features.graph_attrs[name] = value
        else:
            features.type_attrs.setdefault(store._key, {})[name] = value
        return None
    dim = row_dim(data, name, value, store)
    assert dim is not None
    features.put_rows((*group, name), value, dim)
    return *group, name


def _row_group(data: Any, store: Any, name: str, value: Any) -> tuple[Any] | None:
    """Return the group of an attribute's rows; None if it has no row per node or edge."""
    is_typed = isinstance(data, HeteroData)
    if (is_typed and store._key is None) or row_dim(data, name, value, store) is None:
        return None
    if is_typed:
        is_rows = store.is_node_attr if isinstance(store._key, str) else store.is_edge_attr
        return (store._key,) if is_rows(name) else None
    if data.is_node_attr(name):
        return (None,)
    return (EDGE_GROUP,) if data.is_edge_attr(name) else None


class _Seen(NamedTuple):
    """A value, held only as long as it is elsewhere, and how often it had been written to."""

    get: Callable[[], Any]
    version: int

    @classmethod
    def of(cls, value: Any) -> _Seen:
        counts = isinstance(value, Tensor) and not value.is_inference()
        version = value._version if counts else 0
        try:
            return cls(weakref.ref(value), version)
        except TypeError:  # a number, a string or a list
            return cls(lambda: value, version)


class SourceData:
    """The ``Data`` or ``HeteroData`` that stores were made of, and what they have taken of it.

    It is not kept alive: nobody can change what nobody has.

    Args:
        data: the data.
        graph_store: the store of its edges.
    """

    def __init__(self, data: Any, graph_store: GraphStore) -> None:
        self._data = weakref.ref(data)
        self._graph_store = graph_store
        self._seen = {key: _Seen.of(value) for key, _, value in _attrs(data)}

    def refresh(self, features: FeatureStore, drawn_by: set[str]) -> list[str]:
        """Take over attributes that were assigned, written to or deleted since the last call.

        Args:
            features: the store of the attributes.
            drawn_by: names of attributes that a sampler draws by.

        Returns:
            What samples go by and no longer is what it was: edges, and attributes of ``drawn_by``.

        Raises:
            InvalidArgumentError: an attribute that no store can hold.
        """
        data = self._data()
        if data is None:
            return []
        fixed = []
        deleted = dict(self._seen)
        for key, store, value in _attrs(data):
            before, now = deleted.pop(key, None), _Seen.of(value)
            is_known = before is not None and before.get() is value
            if is_known and before is not None and before.version == now.version:
                continue
            name = key[1]
            if name in _EDGES:
                is_fixed = is_known or not self._has_edges(store)
            else:
                value = value.cpu() if isinstance(value, Tensor) else value
                is_fixed = name in drawn_by and (is_known or not _has_rows(features, key, value))
                rows = put_attr(features, data, store, name, value)
                _remove(features, key, rows, is_rows=rows is not None)
            fixed += [shown_name(*key)] if is_fixed else []
            self._seen[key] = now
        for key in deleted:
            self._seen.pop(key, None)
            fixed += [shown_name(*key)] if key[1] in drawn_by or key[1] in _EDGES else []
            _remove(features, key)
        return fixed

    def _has_edges(self, store: Any) -> bool:
        """Return whether a store of the data has the edges of the graph store, in their order."""
        try:
            ends, _ = read_edges(store, "data")
            known = self._graph_store.edge_index(store._key)
        except (AetherError, KeyError):
            return False
        return all(
            torch.equal(torch.as_tensor(ids).cpu().long(), of_graph.long())
            for ids, of_graph in zip(ends, known, strict=True)
        )


def _attrs(data: Any) -> Iterator[tuple[Key, Any, Any]]:
    """Yield the type and name of each attribute, the store that has it, and its value."""
    for store in data.stores:
        for name, value in store.items():
            if value is not None and name != "num_nodes":
                yield (store._key, name), store, value


def _groups(kind: Any) -> tuple[Any, ...]:
    """Return the groups in which attributes of a type lie; None: those of a ``Data``."""
    return (None, EDGE_GROUP) if kind is None else (kind,)


def _has_rows(features: FeatureStore, key: Key, value: Any) -> bool:
    """Return whether a store of features holds equal rows of that type and name."""
    columns = dict(features.columns())
    for group in _groups(key[0]):
        column = columns.get((group, key[1]))
        if column is not None and column.tensor is not None and isinstance(value, Tensor):
            tensor = column.tensor
            return tensor.dtype == value.dtype and torch.equal(tensor, value)
    return False


def _remove(
    features: FeatureStore, key: Key, except_for: Key | None = None, *, is_rows: bool = True
) -> None:
    """Remove an attribute of that type and name, but for the rows ``except_for``.

    Args:
        features: store of the attribute.
        key: type and name of the attribute.
        except_for: group and name of rows that stay.
        is_rows: a value of no rows is removed, too.
    """
    kind, name = key
    for group in _groups(kind):
        if (group, name) != except_for:
            features.remove_tensor(group_name=group, attr_name=name, index=None)
    if is_rows:
        attrs = features.graph_attrs if kind is None else features.type_attrs.get(kind, {})
        attrs.pop(name, None)
