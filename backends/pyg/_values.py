"""Times and weights that a sampler draws by, found by name, and the times of its seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import FeatureStore as _PyGFeatureStore

from aethergraph._checks.arrays import check_times, check_weights, refuse_masked
from aethergraph._checks.options import shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.features import store as core
from aethergraph.protocols import RowSource
from aethergraph.pyg._tensor_attr import EDGE_GROUP
from aethergraph.pyg._tensor_rows import tensors_of
from aethergraph.sampling import values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.graph import EdgeType
    from aethergraph.sampling.values import Values

__all__ = [
    "find_times",
    "find_typed_times",
    "find_typed_weights",
    "find_weights",
    "read_seed_times",
]

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_FLOATS = (torch.float64, torch.float32, torch.float16)


def find_times(stores: Sequence[_PyGFeatureStore], name: str) -> Values:
    """Find the times called ``name``: of nodes if they have them, else of edges.

    Raises:
        InvalidArgumentError: no such attribute, or one that is not one number per node or edge.
    """
    label = _label("time_attr", name)
    nodes = _find(stores, None, name, label)
    edges = None if nodes is not None else _find(stores, EDGE_GROUP, name, label)
    if nodes is None and edges is None:
        raise _unknown(label, "node or edge", stores, of_nodes=True)
    found = values.find_times(
        name,
        {} if edges is None else {name: edges},
        {} if nodes is None else {name: nodes},
    )
    if found.guard is None:  # in memory: a file is not read for this check
        check_times(found.array, name)
    return found


def find_weights(stores: Sequence[_PyGFeatureStore], name: str) -> Values:
    """Find the weights of edges called ``name``; float32 or float64.

    Raises:
        InvalidArgumentError: no such attribute, one that is not one number per edge, or a weight
            that is negative or not finite (weights of a file are checked when the sampler is made).
    """
    label = _label("weight_attr", name)
    edges = _find(stores, EDGE_GROUP, name, label)
    if edges is None:
        raise _unknown(label, "edge", stores, of_nodes=False)
    found = values.find_weights(name, {name: edges})
    if found.guard is None:
        check_weights(found.array, name)
    return found


def find_typed_times(
    stores: Sequence[_PyGFeatureStore], names: Iterable[str], kinds: Iterable[EdgeType], name: str
) -> tuple[dict[str, Values], dict[EdgeType, Values]]:
    """Find the times called ``name``: by node type if any has them, else by edge type.

    Raises:
        InvalidArgumentError: times that are not one number per node or edge.
    """
    nodes, edges = _find_typed(stores, names, name, "time_attr"), {}
    if not nodes:
        edges = _find_typed(stores, kinds, name, "time_attr")
    found: list[dict[Any, Values]] = []
    for by_type, of_nodes in ((nodes, True), (edges, False)):
        found.append({})
        for kind, rows in by_type.items():
            given = ({}, {name: rows}) if of_nodes else ({name: rows}, {})
            times = found[-1][kind] = values.find_times(name, *given)
            if times.guard is None:
                check_times(times.array, f"{kind!r}: {name}")
    return found[0], found[1]


def find_typed_weights(
    stores: Sequence[_PyGFeatureStore], kinds: Iterable[EdgeType], name: str
) -> dict[EdgeType, Values]:
    """Find the weights called ``name`` of the edge types that have them.

    Raises:
        InvalidArgumentError: weights that are not one number per edge, or (in memory) one that is
            negative or not finite.
    """
    found = {}
    for kind, rows in _find_typed(stores, kinds, name, "weight_attr").items():
        weights = found[kind] = values.find_weights(name, {name: rows})
        if weights.guard is None:
            check_weights(weights.array, f"{kind!r}: {name}")
    return found


def _find_typed(
    stores: Sequence[_PyGFeatureStore], groups: Iterable[Any], name: str, option: str
) -> dict[Any, RowSource]:
    found = {}
    for group in groups:
        rows = _find(stores, group, name, f"{option} = {name!r} of {group!r}")
        if rows is not None:
            found[group] = rows
    return found


def _label(option: str, name: Any) -> str:
    if not isinstance(name, str):
        raise InvalidArgumentError(f"{option} must be a name or None, got {shown(name)}")
    return f"{option} = {name!r}"


def _find(
    stores: Sequence[_PyGFeatureStore], group: Any, name: str, label: str
) -> RowSource | None:
    """Return the rows of the first store that has the attribute; rows of a file stay there.

    Group None stands for the nodes of a homogeneous graph, whatever a store calls their group.
    """
    for store in stores:
        found = tensors_of(store).find_values(group, name)
        if found is not None:
            return found if isinstance(found, RowSource) else _snapshot(found, label)
    return None


def _snapshot(tensor: Any, label: str) -> RowSource:
    """Copy a tensor: its owner may change it, and torch may move its memory to share it."""
    refuse_masked(tensor, label)
    tensor = torch.as_tensor(tensor).detach().cpu()
    if tensor.dtype not in (*_INTEGERS, *_FLOATS):
        raise InvalidArgumentError(f"{label} holds {_dtype_name(tensor)}, not numbers")
    return core.FeatureStore.from_array(np.array(tensor.numpy()))


def _unknown(
    label: str, what: str, stores: Sequence[_PyGFeatureStore], *, of_nodes: bool
) -> InvalidArgumentError:
    names: set[str] = set()
    for store in stores:
        names.update(
            name
            for group, name in tensors_of(store).tensor_keys()
            if group == EDGE_GROUP or (of_nodes and not isinstance(group, tuple))
        )
    known = ", ".join(sorted(map(repr, names))) or "none"
    return InvalidArgumentError(f"{label} is no {what} attribute; there are: {known}")


def read_seed_times(times: Values | None, given: Any, count: int, name: str) -> NDArray[Any] | None:
    """Return the times given for ``count`` seeds, in the dtype of ``times``; None: the seeds' own.

    Raises:
        InvalidArgumentError: times missing where edges have the times, or given to a sampler
            without
            times, or of a wrong shape or dtype.
    """
    if times is None:
        if given is not None:
            raise InvalidArgumentError(
                f"{name} is given, but the sampler has no time_attr: give it one, such as "
                "'node_time' or 'edge_time'"
            )
        return None
    if given is None:
        if not times.of_nodes:
            raise InvalidArgumentError(f"{name} is needed: the times are those of edges")
        return None
    return convert_seed_times(given, count, name, times.array.dtype)


def convert_seed_times(given: Any, count: int, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Convert times of seeds to the dtype of the graph's times, int64 or float64.

    Raises:
        InvalidArgumentError: times of a wrong shape or dtype.
    """
    refuse_masked(given, name)
    tensor = torch.as_tensor(given).detach().cpu()
    if tensor.dtype not in (*_INTEGERS, *_FLOATS):
        raise InvalidArgumentError(f"{name} must hold numbers, got {_dtype_name(tensor)}")
    if tuple(tensor.shape) != (count,):
        raise InvalidArgumentError(
            f"{name} must have one time per seed, shape ({count},), got {tuple(tensor.shape)}"
        )
    if dtype == np.float64:
        own = tensor.to(torch.float64).numpy()
        check_times(own, name)
        return own
    if tensor.is_floating_point():
        raise InvalidArgumentError(
            f"{name} is {_dtype_name(tensor)}, but the times are int64: give integers"
        )
    return tensor.to(torch.int64).numpy()


def _dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
