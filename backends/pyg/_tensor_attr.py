"""Names of tensors: PyG's ``TensorAttr``, and our keys ``(group, name)`` in its place."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor
from torch_geometric.data import TensorAttr

from aethergraph.errors import InvalidArgumentError
from aethergraph.pyg._tensor_rows import Key

__all__ = ["EDGE_GROUP", "Attr", "check_name", "key_of", "shown_name"]

#: ``group_name`` of the edge tensors of a homogeneous graph.
EDGE_GROUP = (None, None)


class Attr(TensorAttr):  # type: ignore[misc]
    """``TensorAttr`` that also takes a numpy index; equal to PyG's own with equal fields.

    PyG's compares every field with a marker by ``!=``, which an array answers elementwise.
    """

    def is_set(self, key: str) -> bool:
        return getattr(self, key) is not _UNSET

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorAttr):
            return NotImplemented
        index, other_index = self.index, other.index
        if isinstance(index, (Tensor, np.ndarray)) or isinstance(other_index, (Tensor, np.ndarray)):
            equal = index is other_index
        else:
            equal = index == other_index
        return equal and (self.group_name, self.attr_name) == (other.group_name, other.attr_name)

    def __repr__(self) -> str:
        fields: str = super().__repr__()
        return "TensorAttr" + fields[fields.index("(") :]

    __hash__ = None  # type: ignore[assignment]


_UNSET = TensorAttr().index


#: Names that PyG's loaders would write over the edges of a homogeneous batch.
_STRUCTURE = frozenset({"edge_index", "adj_t", "num_nodes"})


def check_name(key: Key) -> None:
    group, name = key
    if name in _STRUCTURE and group in (None, EDGE_GROUP):
        raise InvalidArgumentError(
            f"an attribute cannot be called {name!r}: in PyG's batches that is the graph itself; "
            "give it another name"
        )


def key_of(attr: TensorAttr) -> Key:
    group = attr.group_name
    return (tuple(group) if isinstance(group, list) else group, attr.attr_name)


def shown_name(group: Any, name: str) -> str:
    """Return the name of a tensor for observers: ``x``, or ``user.x`` of a type."""
    if group is None or group == EDGE_GROUP:
        return name
    return f"{'-'.join(map(str, group)) if isinstance(group, tuple) else group}.{name}"
