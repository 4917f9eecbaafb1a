"""Forms of the rows that layers return, and rows of zeros that stand for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph.features.feature_table import FeatureTable
from aethergraph.graph.schema import NODE
from aethergraph.inference.batches import gathered_dtype
from aethergraph.loading.batch import Batch
from aethergraph.protocols import RowSource

__all__ = ["Form", "Forms", "describe_forms", "form_of", "with_zeros", "zeros"]


class Form(NamedTuple):
    """Rows that a layer returns."""

    row_shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return int(np.prod(self.row_shape, dtype=np.int64)) * self.dtype.itemsize


#: Forms of the rows of a layer by node type, of the types that have any.
Forms = dict[str, Form]


def form_of(rows: RowSource) -> Form:
    """Return the form of rows in batches."""
    return Form(rows.row_shape, gathered_dtype(rows))


def describe_forms(batch: Any) -> str:
    """Return the forms of the rows of a batch, for messages."""
    if isinstance(batch, Batch):
        return f"of shape {batch.node_attrs['x'].shape[1:]} and {batch.node_attrs['x'].dtype}"
    forms = (f"{name!r}: shape {x.shape[1:]} and {x.dtype}" for name, x in batch.x.items())
    return f"of {', '.join(forms) or 'no type'}"


def with_zeros(batch: Any, forms: Forms) -> Any:
    """Return a batch with rows of zeros, as a layer returns them."""
    nodes, is_typed = batch.subgraph.node, isinstance(batch.subgraph.node, dict)

    def zeros_of(name: str, form: Form) -> dict[str, NDArray[Any]]:
        count = len(nodes[name] if is_typed else nodes)
        return {"x": np.zeros((count, *form.row_shape), form.dtype)}

    rows = {name: zeros_of(name, form) for name, form in forms.items()}
    return replace(batch, node_attrs=rows if is_typed else rows[NODE])


def zeros(count: int, form: Form) -> FeatureTable:
    """Return rows of zeros that take no memory."""
    row = np.zeros(form.row_shape, form.dtype)
    return FeatureTable.from_array(np.broadcast_to(row, (count, *form.row_shape)))
