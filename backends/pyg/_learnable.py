"""Columns of a feature store over tensors that require grad."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from aethergraph._torch.feature_columns import Column
from aethergraph._torch.tensors import as_numpy
from aethergraph.errors import UnsupportedError
from aethergraph.features.feature_table import FeatureTable
from aethergraph.graph.ids import check_ids

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.loading.buffers import BufferPool

__all__ = ["LearnableColumn"]

Ids: TypeAlias = "NDArray[np.int64]"


class LearnableColumn(Column):
    """Rows of a tensor that requires grad, gathered by torch so that gradients reach it.

    Args:
        tensor: kept itself, never copied: the optimizer changes this very tensor.
    """

    __slots__ = ()

    def __init__(self, tensor: Tensor) -> None:
        rows = as_numpy(tensor.detach().resolve_conj().resolve_neg().contiguous())
        super().__init__(FeatureTable.from_array(rows), tensor)

    def live(self) -> Column:
        """Return this column: it reads the tensor itself, wherever torch has moved it."""
        return self

    def gather(self, ids: Ids, pool: BufferPool | None = None) -> Tensor:
        """Gather the rows of ``ids`` in that order, as part of torch's graph of operations.

        Raises:
            UnsupportedError: in a worker process, which gradients cannot leave.
        """
        if get_worker_info() is not None:
            raise UnsupportedError(
                "a tensor of the feature store requires grad, and gradients do not cross "
                "processes: use num_workers=0, or filter_per_worker=False"
            )
        check_ids(ids, len(self._source), "ids", "rows")
        return self._source.index_select(0, torch.from_numpy(ids))

    def read(self, start: int, stop: int) -> Tensor:
        """Copy the rows ``start .. stop - 1``."""
        return self.gather(np.arange(start, stop))

    @property
    def _source(self) -> Tensor:
        tensor: Any = self.tensor
        source: Tensor = tensor
        return source
