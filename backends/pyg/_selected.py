"""Columns of attributes that are no array of rows, and that only their own library can index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch_geometric.typing import TensorFrame

from aethergraph._checks.options import shown
from aethergraph._torch.feature_columns import Column, as_ids, as_row
from aethergraph.errors import InvalidArgumentError
from aethergraph.graph.ids import check_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from aethergraph.loading.buffers import BufferPool
    from aethergraph.protocols import GatherPlan

__all__ = ["SelectedColumn"]

Ids: TypeAlias = "NDArray[np.int64]"


class SelectedColumn(Column):
    """A ``TensorFrame``, or a tensor whose rows are along another dimension than the first.

    There are no ``rows`` to plan for or to draw by. What is gathered is of the kind of ``value``.

    Args:
        value: kept itself, never copied.
        dim: the dimension of the rows.
    """

    __slots__ = ("dim", "value")

    def __init__(self, value: Any, dim: int = 0) -> None:
        nothing: Any = None
        self.rows = self.tensor = nothing
        self.value = value
        self.dim = dim
        dtype: Any = value.dtype if isinstance(value, Tensor) else type(value).__name__
        self.dtype = dtype  # shown to users, no more

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows first, then the rest."""
        if isinstance(self.value, TensorFrame):
            return (self.value.num_rows, self.value.num_cols)
        return tuple(self.value.movedim(self.dim, 0).shape)

    def live(self) -> Column:
        return self

    def plan(self, lists: Sequence[Ids]) -> GatherPlan | None:
        return None

    def gather(self, ids: Ids, pool: BufferPool | None = None) -> Any:
        """Return the rows of ``ids``, in that order and along the dimension that ``value`` has."""
        check_ids(ids, self.shape[0], "ids", "rows")
        index = torch.from_numpy(ids)
        if isinstance(self.value, TensorFrame):
            return self.value[index]
        return self.value.index_select(self.dim, index)

    def get(self, index: Any, pool: BufferPool | None = None) -> Any:
        """Return everything (None), or the rows of a slice, of a vector of ids or of a mask."""
        if index is None:
            return self.value
        if isinstance(index, slice):
            return self.gather(np.arange(*index.indices(self.shape[0])))
        if as_row(index) is None:
            ids = as_ids(index, self.shape[0])
            if ids.ndim == 1:
                return self.gather(ids)
        raise InvalidArgumentError(
            f"rows of a {type(self.value).__name__} are taken by a slice or a vector of ids or "
            f"bools, got {shown(index)}"
        )
