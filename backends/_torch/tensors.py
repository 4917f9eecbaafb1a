"""Torch tensors over memory that the native core fills, and torch dtypes for its dtype names.

The core knows numpy's element types and bfloat16. Every other torch dtype of 1, 2, 4, 8 or 16
bytes (complex, float8, ...) travels as integers of its size: rows are copied, never converted.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from aethergraph._checks.arrays import to_array
from aethergraph._checks.options import shown
from aethergraph.errors import InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph._native import NativeSample

__all__ = [
    "allocate",
    "as_device",
    "as_numpy",
    "edge_tensors",
    "is_shared",
    "land_pinned",
    "lands_pinned",
    "node_tensors",
    "pinned_empty",
    "read_array",
    "read_ids",
    "seed_ids",
    "shared_empty",
    "stack_rows",
    "torch_dtype",
]

Tensors: TypeAlias = Sequence[Tensor]

#: Torch dtypes that numpy and the core know by the same name.
_SHARED = frozenset(
    {
        torch.uint8, torch.bool, torch.int8, torch.int16, torch.int32, torch.int64,
        torch.float16, torch.float32, torch.float64,
    }
)  # fmt: skip
_CPU = torch.device("cpu")
_CARRIERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def torch_dtype(name: str) -> torch.dtype:
    """Return the torch dtype of a core dtype name such as ``"float32"`` or ``"bfloat16"``.

    Raises:
        UnsupportedError: this torch has no such dtype (uint32 and uint64 before torch 2.3).
    """
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise UnsupportedError(f"torch {torch.__version__} has no dtype {name}")
    return dtype


def as_numpy(tensor: Tensor) -> NDArray[Any]:
    """View the memory of a contiguous CPU tensor as an array whose dtype the core knows.

    The first dimension is kept; a dtype unknown to numpy shows as integers of its size.
    """
    if tensor.dtype in _SHARED:
        return tensor.numpy()
    if tensor.dtype.is_complex:
        return torch.view_as_real(tensor).numpy()
    carrier = _CARRIERS.get(tensor.element_size())
    if carrier is None or tensor.is_quantized:
        raise InvalidArgumentError(f"tensors of dtype {tensor.dtype} cannot be stored")
    return tensor.view(carrier).numpy()


def allocate(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Allocate an uninitialised contiguous CPU tensor.

    In a worker process of a ``DataLoader`` it lies in shared memory, so that it reaches the main
    process without a copy. Under :func:`land_pinned` it lies in pinned memory.
    """
    if get_worker_info() is not None:
        return shared_empty(shape, dtype)
    return pinned_empty(shape, dtype) if _landing.pinned else torch.empty(shape, dtype=dtype)


def pinned_empty(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Allocate an uninitialised contiguous tensor in pinned memory; needs a CUDA device."""
    return torch.empty(shape, dtype=dtype, pin_memory=True)


class _Landing(threading.local):
    """Place where rows of a thread land."""

    pinned = False


_landing = _Landing()


def lands_pinned() -> bool:
    """Return whether this thread is inside :func:`land_pinned`."""
    return _landing.pinned


@contextmanager
def land_pinned() -> Iterator[None]:
    """Let this thread gather rows into pinned memory, which a device can copy from by itself.

    The memory is torch's, whose allocator knows which copies are under way: it is not handed out
    again before they have ended.
    """
    before, _landing.pinned = _landing.pinned, True
    try:
        yield
    finally:
        _landing.pinned = before


def shared_empty(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Allocate an uninitialised contiguous tensor in memory that other processes can map."""
    size = math.prod(shape) * dtype.itemsize
    tensor = torch.empty(0, dtype=dtype)
    if size == 0:
        return tensor.view(shape)
    new_shared: Any = torch.UntypedStorage._new_shared
    set_storage: Any = tensor.set_
    set_storage(new_shared(size), 0, shape)
    return tensor


def is_shared(tensor: Tensor) -> bool:
    """Return whether the tensor's memory can be mapped by other processes."""
    ask: Any = tensor.is_shared
    return bool(ask())


def node_tensors(sample: NativeSample) -> tuple[Tensors, Tensors | None]:
    """Return tensors over ``node`` and ``batch`` of a sample, by node type."""
    if sample.batch is None:
        return _over(sample.node, sample.all_nodes), None
    tensors = _over([*sample.node, *sample.batch], sample.all_nodes)
    return tensors[: len(sample.node)], tensors[len(sample.node) :]


def edge_tensors(sample: NativeSample) -> tuple[Tensors, Tensors, Tensors]:
    """Return tensors over ``row``, ``col`` and ``edge`` of a sample, by relation.

    They lie in one storage where the core wrote the arrays into one: ``row`` over ``col`` is then
    an ``edge_index`` without a copy, and all of them go to another process in one piece.
    """
    parts = list(
        itertools.chain.from_iterable(zip(sample.row, sample.col, sample.edge, strict=True))
    )
    tensors = _over(parts, sample.all_edges)
    return tensors[0::3], tensors[1::3], tensors[2::3]


def _over(parts: Sequence[NDArray[Any]], array: NDArray[Any] | None) -> Tensors:
    """Return tensors over ``parts``, which lie in ``array`` one after the other, if it is given."""
    if array is None or len(parts) == 1:
        return [torch.from_numpy(part) for part in parts]
    # Half the time of as many from_numpy().
    return torch.from_numpy(array).split_with_sizes([len(part) for part in parts])


def stack_rows(row: Tensor, col: Tensor) -> Tensor:
    """Return ``torch.stack([row, col])``; a view if the two lie one after the other."""
    count = row.numel()
    if (
        row.untyped_storage().data_ptr() == col.untyped_storage().data_ptr()
        and row.dtype == col.dtype
        and col.storage_offset() == row.storage_offset() + count
        and row.is_contiguous()
        and col.is_contiguous()
        and col.numel() == count
    ):
        return row.as_strided((2, count), (count, 1))
    if row.dtype == col.dtype == torch.int64 and row.device == col.device == _CPU:
        # Torch copies in threads, and spins until they are done: on cores that a loader's threads
        # keep busy, for many times as long as one thread takes.
        return torch.from_numpy(np.stack((row.numpy(), col.numpy())))
    return torch.stack([row, col])


def seed_ids(ids: Tensor, name: str) -> NDArray[np.int64]:
    """Convert seeds to contiguous int64."""
    if not isinstance(ids, Tensor):
        raise InvalidArgumentError(f"{name} must be a tensor, got {type(ids).__name__}")
    if ids.dtype not in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        raise InvalidArgumentError(f"{name} must hold integer ids, got {ids.dtype}")
    if ids.ndim != 1:
        raise InvalidArgumentError(f"{name} must be one-dimensional, got {list(ids.shape)}")
    return np.ascontiguousarray(read_array(ids, name), np.int64)


def read_array(values: Any, name: str) -> NDArray[Any]:
    """Return a tensor, an array or a list as an array, without a copy where that can be.

    Raises:
        InvalidArgumentError: numpy cannot have the values, such as those of sparse, quantized and
            bfloat16 tensors, and of tensors on the device "meta".
    """
    if not isinstance(values, Tensor):
        return to_array(values, name)
    try:
        array: NDArray[Any] = values.numpy(force=True)
        return array
    except (TypeError, RuntimeError) as error:
        raise InvalidArgumentError(f"{name} cannot be read as an array: {error}") from None


def read_ids(values: Any, name: str) -> NDArray[Any]:
    """Return ids or a mask as an array, as :func:`read_array` does; an empty list holds int64 ids.

    Raises:
        InvalidArgumentError: numpy cannot have the values.
    """
    array = read_array(values, name)
    # An empty list has no dtype of its own: numpy makes it float64.
    return array if array.size or hasattr(values, "dtype") else np.empty(0, np.int64)


def as_device(device: Any, name: str) -> torch.device:
    """Return ``torch.device(device)``.

    Raises:
        InvalidArgumentError: it is not the name of a device, or of CUDA where there is none.
    """
    if isinstance(device, torch.device):
        torch_device = device
    else:
        try:
            torch_device = torch.device(device)
        except Exception:  # bytes that are no text raise a UnicodeDecodeError
            raise InvalidArgumentError(
                f"{name} = {shown(device)} is no device, such as 'cpu' or 'cuda:0'"
            ) from None
    if torch_device.type == "cuda" and (torch_device.index or 0) >= torch.cuda.device_count():
        raise InvalidArgumentError(
            f"{name} = {str(torch_device)!r}: there are {torch.cuda.device_count()} CUDA devices"
        )
    return torch_device
