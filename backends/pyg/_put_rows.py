"""What users put into a feature store: whole tensors, or rows of them by an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from aethergraph._checks.arrays import refuse_masked
from aethergraph._torch.feature_columns import as_ids, as_row, wrap_row
from aethergraph.errors import InvalidArgumentError
from aethergraph.graph.ids import check_ids

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.pyg._tensor_rows import Key

__all__ = ["as_tensor", "in_row_order", "rows_to_write"]

Ids: TypeAlias = "NDArray[np.int64]"


def as_tensor(values: Any) -> Tensor:
    """Convert ``values`` to a CPU tensor that shares their memory where possible."""
    refuse_masked(values, "the tensor")
    if isinstance(values, np.ndarray):
        if not values.flags.writeable or values.dtype.byteorder == ">":
            values = values.astype(values.dtype.newbyteorder("="))  # torch takes neither
        try:
            return torch.from_numpy(values)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"torch cannot hold this array: {error}") from error
    if not isinstance(values, Tensor):
        raise InvalidArgumentError(
            f"a feature store takes tensors and numpy arrays, got {type(values).__name__}"
        )
    if values.device.type != "cpu":
        raise InvalidArgumentError(f"the tensor must be on the CPU, it is on {values.device}")
    if values.layout != torch.strided or values.is_quantized:
        raise InvalidArgumentError("sparse and quantized tensors cannot be stored")
    return values


def in_row_order(key: Key, rows: Tensor, index: Any) -> Tensor:
    """Put ``rows`` into the order that ``index`` gives; the index must name each row once."""
    count = len(rows) if rows.ndim else 0
    ids = _index_ids(index, count)
    named = np.zeros(count, bool)
    named[ids[(ids >= 0) & (ids < count)]] = True
    if len(ids) != count or not named.all():
        lacks = f"row {int(named.argmin())} is missing"
        if len(ids) != count:
            lacks = f"it has {len(ids)} ids for {count} rows"
        raise InvalidArgumentError(
            f"{key!r} is not in the store yet, so the index must name each row of the tensor once: "
            f"{lacks}; put a whole tensor first to replace some of its rows"
        )
    if (ids == np.arange(count)).all():
        return rows
    ordered = torch.empty_like(rows)
    ordered[torch.from_numpy(ids)] = rows
    return ordered


def _index_ids(index: Any, count: int) -> Ids:
    """Return the row numbers of an index into ``count`` rows, unchecked."""
    if isinstance(index, slice):
        return np.arange(*index.indices(count))
    if (row := as_row(index)) is not None:
        return np.array([wrap_row(row, count)])
    return as_ids(index, count).reshape(-1)


def rows_to_write(target: Tensor, rows: Tensor, index: Any) -> tuple[Tensor, Tensor]:
    """Return ids and rows for ``target[ids] = rows``: ids checked, shapes and dtypes equal."""
    ids = _index_ids(index, len(target))
    if not isinstance(index, slice) and as_row(index) is not None and rows.ndim == target.ndim - 1:
        rows = rows.unsqueeze(0)
    if tuple(rows.shape) != (len(ids), *target.shape[1:]):
        raise InvalidArgumentError(
            f"{len(ids)} rows of shape {list(target.shape[1:])} are to be replaced, got a tensor "
            f"of shape {list(rows.shape)}"
        )
    if rows.dtype != target.dtype:
        raise InvalidArgumentError(f"the rows are {target.dtype}, got {rows.dtype}")
    if rows.requires_grad:
        raise InvalidArgumentError(
            "the rows require grad, which cannot be written into a tensor: give rows.detach(), or "
            "put the whole tensor"
        )
    check_ids(ids, len(target), "index", "rows")
    return torch.from_numpy(ids), rows
