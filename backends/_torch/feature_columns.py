"""Tensors of a feature store: rows of the core, viewed as a torch dtype, and their indexing."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from aethergraph._checks.arrays import refuse_masked
from aethergraph._checks.exact import array_of
from aethergraph._torch.tensors import (
    allocate,
    as_numpy,
    lands_pinned,
    read_array,
    torch_dtype,
)
from aethergraph.errors import InvalidArgumentError, OutOfRangeError
from aethergraph.features.feature_table import FeatureTable
from aethergraph.features.gathering import fill_rows
from aethergraph.loading.buffers import BufferPool

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.protocols import GatherPlan, RowSource

__all__ = ["Column", "as_ids", "as_row", "wrap_row"]

Ids: TypeAlias = "NDArray[np.int64]"

#: Rows that are read at once if a whole mapped tensor is asked for.
_CHUNK_ROWS = 1 << 20


class Column:
    """Tensor of the store: rows of any source, viewed as a torch dtype.

    ``tensor`` is the writable tensor whose memory the rows are, or None for rows of a source.
    """

    __slots__ = (
        "_address", "_core_dtype", "_plans", "_raw_dtype", "_raw_shape", "dtype", "rows", "tensor",
    )  # fmt: skip

    def __init__(self, rows: RowSource, tensor: Tensor | None) -> None:
        self.rows = rows
        self.tensor = tensor
        self.dtype = torch_dtype(rows.dtype_name) if tensor is None else tensor.dtype
        self._address = 0 if tensor is None else tensor.data_ptr()
        # Results are arrays of `raw` dtype and shape, which torch and numpy both know; the core
        # has another name for one of them: bfloat16 is uint16 to it and int16 to torch.
        raw = as_numpy(torch.empty((0, *self.shape[1:]), dtype=self.dtype))
        self._raw_shape, self._raw_dtype = raw.shape[1:], raw.dtype
        self._core_dtype = rows.array_dtype
        self._plans: list[weakref.ref[GatherPlan]] = []

    @classmethod
    def of_tensor(cls, tensor: Tensor) -> Column:
        """Make a column over the memory of ``tensor`` (of a contiguous copy if it is not).

        Raises:
            InvalidArgumentError: no strided tensor on the CPU, or a dtype that cannot be stored.
        """
        if tensor.layout != torch.strided or tensor.device.type != "cpu":
            raise InvalidArgumentError(
                f"rows must be a strided tensor on the CPU, got one of layout {tensor.layout} on "
                f"{str(tensor.device)!r}"
            )
        tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
        return cls(FeatureTable.from_array(as_numpy(tensor)), tensor)

    @property
    def shape(self) -> tuple[int, ...]:
        if self.tensor is not None:
            return tuple(self.tensor.shape)
        return self.rows.shape

    def live(self) -> Column:
        """Return this column, or a new one if torch has moved the tensor (``share_memory_()``)."""
        tensor = self.tensor
        if tensor is None or tensor.data_ptr() == self._address:
            return self
        return Column.of_tensor(tensor)

    def gather(self, ids: Ids, pool: BufferPool | None = None) -> Tensor:
        """Gather rows of ``ids`` (contiguous int64), in that order: ``[len(ids), *shape[1:]]``."""
        empty = not len(ids) or 0 in self._raw_shape
        if pool is None or empty or lands_pinned() or get_worker_info() is not None:
            out = allocate((len(ids), *self.shape[1:]), self.dtype)
            self._gather_into(ids, as_numpy(out))
            return out
        raw = pool.lend((len(ids), *self._raw_shape), self._raw_dtype)
        self._gather_into(ids, raw)
        out = torch.from_numpy(raw)
        if out.dtype == self.dtype:
            return out
        return torch.view_as_complex(out) if self.dtype.is_complex else out.view(self.dtype)

    def plan(self, lists: Sequence[Ids]) -> GatherPlan | None:
        """Have the next gathers served by a plan, for as long as the caller holds it.

        Returns None if a plan does not help the source.
        """
        if not self.rows.can_plan:
            return None
        plan = self.rows.plan(lists)
        self._plans = [reference for reference in self._plans if reference() is not None] + [
            weakref.ref(plan)
        ]
        return plan

    def _gather_into(self, ids: Ids, raw: NDArray[Any]) -> None:
        out = raw if raw.dtype == self._core_dtype else raw.view(self._core_dtype)
        for reference in self._plans:
            plan = reference()
            if plan is not None and plan.gather_if_next(ids, out):
                return
        fill_rows(self.rows, ids, out)

    def read(self, start: int, stop: int) -> Tensor:
        """Copy the rows ``start .. stop - 1``."""
        out = allocate((stop - start, *self.shape[1:]), self.dtype)
        for low in range(start, stop, _CHUNK_ROWS):
            high = min(stop, low + _CHUNK_ROWS)
            self._gather_into(np.arange(low, high), as_numpy(out[low - start : high - start]))
        return out

    def get(self, index: Any, pool: BufferPool | None = None) -> Tensor:
        """Return the rows of torch's ``tensor[index]``, with ids checked instead of wrapped."""
        if index is None:
            return self.read(0, self.shape[0]) if self.tensor is None else self.tensor
        if isinstance(index, slice):
            start, stop, step = index.indices(self.shape[0])
            if step == 1:
                return self.read(start, max(start, stop))
            return self.gather(np.arange(start, stop, step))
        if (row := as_row(index)) is not None:
            return self.gather(np.array([wrap_row(row, self.shape[0])], np.int64))[0]
        ids = as_ids(index, self.shape[0])
        if ids.ndim == 1:
            return self.gather(ids, pool)
        return self.gather(ids.reshape(-1), pool).view(*ids.shape, *self.shape[1:])


def as_ids(index: Any, num_rows: int) -> Ids:
    """Convert a tensor, array or list index to row ids; a mask becomes the ids it selects.

    Raises:
        InvalidArgumentError: neither integers nor a mask of ``num_rows`` entries.
    """
    if isinstance(index, Tensor):
        if index.dtype == torch.uint8:
            raise InvalidArgumentError(
                "an index of dtype torch.uint8 is ambiguous: use torch.bool for a mask and "
                "torch.int64 for ids"
            )
        index = read_array(index, "index")
    refuse_masked(index, "index")
    if not isinstance(index, np.ndarray):
        index = _list_to_array(index)
    if index.dtype == np.bool_:
        if index.shape != (num_rows,):
            raise InvalidArgumentError(
                f"a mask index needs shape ({num_rows},), got {tuple(index.shape)}"
            )
        return np.flatnonzero(index)
    if index.dtype.kind not in "iu":
        raise InvalidArgumentError(f"an index must hold integers or bools, got {index.dtype}")
    return np.ascontiguousarray(index, np.int64)


def _list_to_array(index: Any) -> NDArray[Any]:
    if isinstance(index, (str, bytes)) or not isinstance(index, Iterable):
        raise InvalidArgumentError(
            "an index must be None, a slice, an int, or a tensor, array or list of ids or bools, "
            f"got {type(index).__name__}"
        )
    try:
        array = array_of(index if isinstance(index, (list, tuple, range)) else list(index))
    except ValueError as error:
        raise InvalidArgumentError(f"the index cannot be read as an array: {error}") from error
    return array.astype(np.int64) if array.size == 0 else array


def as_row(index: Any) -> int | None:
    """Return ``index`` as a single row number, or None if it is another kind of index."""
    if isinstance(index, (bool, np.bool_)):
        raise InvalidArgumentError("an index must not be a single bool")
    if isinstance(index, (Tensor, np.ndarray)):
        if index.ndim != 0:
            return None
        if index.dtype in (torch.bool, np.bool_):
            raise InvalidArgumentError("an index must not be a single bool")
    try:
        return operator.index(index)
    except (TypeError, ValueError, RuntimeError):  # whatever its method raises
        return None


def wrap_row(row: int, num_rows: int) -> int:
    """Convert a row number; negative ones count from the end, as in Python."""
    if not -num_rows <= row < num_rows:
        raise OutOfRangeError(f"row {row} is out of range for {num_rows} rows", value=row)
    return row + num_rows if row < 0 else row
