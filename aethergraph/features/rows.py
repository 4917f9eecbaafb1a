"""Arrays as rows of features: the dtypes that can be stored, and views as torch tensors."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import allocate, to_array
from aethergraph._checks.options import shown
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.features.bfloat16 import torch_bfloat16_bits

__all__ = ["as_rows", "as_tensor"]


def as_rows(array: ArrayLike, dtype: str | None, name: str) -> tuple[NDArray[Any], int]:
    """Return the rows of an array, copied only if they must be, and their dtype code.

    Args:
        array: anything with at least one dimension; also torch tensors and ``ml_dtypes`` arrays.
        dtype: ``"bfloat16"`` if a uint16 array holds bfloat16 bit patterns, else None.
        name: name of the argument, for messages.
    """
    bits = torch_bfloat16_bits(array)
    values = to_array(array, name) if bits is None else bits
    if bits is not None:
        dtype = "bfloat16"
    if values.ndim == 0:
        raise InvalidArgumentError(f"{name} must have at least one dimension, got a scalar")
    if values.dtype.name == "bfloat16":  # ml_dtypes
        values, dtype = values.view(np.uint16), "bfloat16"
    if isinstance(dtype, str) and dtype == "bfloat16":
        if values.dtype.newbyteorder("=") != np.uint16:
            raise InvalidArgumentError(
                f"bfloat16 bit patterns come as uint16, got dtype {values.dtype}"
            )
        code = native.BFLOAT16
    elif dtype is not None:
        raise InvalidArgumentError(f"dtype = {shown(dtype)} is not 'bfloat16' or None")
    else:
        code = native.dtype_code(values.dtype, name)
    return _native_rows(values), code


def _native_rows(values: NDArray[Any]) -> NDArray[Any]:
    """Return values in native byte order, aligned, contiguous in a row; rows may have gaps."""
    if not values.dtype.isnative or not values.flags.aligned:
        return np.require(values, values.dtype.newbyteorder("="), ["C", "A"])
    if values.size == 0 or values.flags.c_contiguous:
        return np.ascontiguousarray(values)
    row = values[0]
    row_bytes = row.size * values.dtype.itemsize
    if row.flags.c_contiguous and values.strides[0] >= row_bytes:
        return values
    return allocate(lambda: np.ascontiguousarray(values), "a copy of the rows")


def as_tensor(rows: NDArray[Any], code: int) -> Any:
    """Return a torch tensor over the memory of ``rows``, whose dtype has the code ``code``."""
    try:
        # Not an import statement: mypyc would read all of torch to compile the importers of this.
        torch: Any = importlib.import_module("torch")
    except ImportError as error:
        raise UnsupportedError("tensor() needs torch: pip install torch") from error
    writable = native.without_read_only(rows)
    if code == native.BFLOAT16:
        return torch.from_numpy(writable.view(np.int16)).view(torch.bfloat16)
    try:
        return torch.from_numpy(writable)
    except TypeError as error:
        raise UnsupportedError(
            f"torch {torch.__version__} has no dtype {native.DTYPE_NAMES[code]}"
        ) from error
