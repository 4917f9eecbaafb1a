"""Times and weights that a sampler draws by, found by name, and the times of its seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import FeatureStore as _PyGFeatureStore

from aethergraph._checks.arrays import check_times, refuse_masked
from aethergraph.errors import InvalidArgumentError
from aethergraph.features.feature_table import FeatureTable
from aethergraph.protocols import RowSource
from aethergraph.pyg._tensor_rows import tensors_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


__all__ = ["convert_seed_times", "find_rows", "unknown_values"]

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_FLOATS = (torch.float64, torch.float32, torch.float16)


def find_rows(
    stores: Sequence[_PyGFeatureStore], group: Any, name: str, label: str
) -> RowSource | None:
    """Return the rows of the first store that has the attribute; rows of a file stay there.

    Group None stands for the nodes of a homogeneous graph, whatever a store calls their group.
    """
    for store in stores:
        values = tensors_of(store).find_values(group, name)
        if values is not None:
            return values if isinstance(values, RowSource) else _snapshot(values, label)
    return None


def _snapshot(tensor: Any, label: str) -> RowSource:
    """Copy a tensor: its owner may change it, and torch may move its memory to share it."""
    refuse_masked(tensor, label)
    tensor = torch.as_tensor(tensor).detach().cpu()
    if tensor.dtype not in (*_INTEGERS, *_FLOATS):
        raise InvalidArgumentError(f"{label} holds {_dtype_name(tensor)}, not numbers")
    return FeatureTable.from_array(np.array(tensor.numpy()))


def unknown_values(
    option: str, value: str, stores: Sequence[_PyGFeatureStore], *, of_nodes: bool
) -> InvalidArgumentError:
    """Return the error for a name that no store has, of nodes or edges (or of edges alone)."""
    names: set[str] = set()
    for store in stores:
        names.update(
            name
            for group, name in tensors_of(store).tensor_keys()
            if of_nodes or isinstance(group, tuple)
        )
    known = ", ".join(sorted(map(repr, names))) or "none"
    noun = "node or edge" if of_nodes else "edge"
    return InvalidArgumentError(f"{option} = {value!r} is no {noun} attribute; there are: {known}")


def convert_seed_times(times: Any, count: int, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Convert times of seeds to the dtype of the graph's times, int64 or float64.

    Raises:
        InvalidArgumentError: times of a wrong shape or dtype.
    """
    refuse_masked(times, name)
    tensor = torch.as_tensor(times).detach().cpu()
    if tensor.dtype not in (*_INTEGERS, *_FLOATS):
        raise InvalidArgumentError(f"{name} must hold numbers, got {_dtype_name(tensor)}")
    if tuple(tensor.shape) != (count,):
        raise InvalidArgumentError(
            f"{name} must have one time per seed, shape ({count},), got {tuple(tensor.shape)}"
        )
    if dtype == np.float64:
        floats = tensor.to(torch.float64).numpy()
        check_times(floats, name)
        return floats
    if tensor.is_floating_point():
        raise InvalidArgumentError(
            f"{name} is {_dtype_name(tensor)}, but the times are int64: give integers"
        )
    return tensor.to(torch.int64).numpy()


def _dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
