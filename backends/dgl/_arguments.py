"""Arguments as DGL's users give them: fanouts in DGL's order, and what seeds add to a key."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from torch import Tensor

from aethergraph.dgl._schema import Schema
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.graph import Graph
from aethergraph.sampling.keys import hash_id_set, hash_ids, hash_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.hetero import EdgeType

__all__ = [
    "check_cpu",
    "check_fanout",
    "check_fanouts",
    "check_prefetch",
    "check_threads",
    "hop_fanouts",
    "native_fanouts",
    "seed_hashes",
    "warn_of_pinning",
]

Ids: TypeAlias = "NDArray[np.int64]"

_LARGEST = (1 << 63) - 1


def hop_fanouts(schema: Schema, fanout: Any, name: str) -> tuple[int, ...]:
    """The fanouts of one hop, by edge type in the graph's order.

    Raises:
        InvalidArgumentError: no integer of at least -1, or a dict without all edge types.
    """
    if isinstance(fanout, Mapping):
        given = {schema.etype(kind): count for kind, count in fanout.items()}
        missing = [kind for kind in schema.canonical_etypes if kind not in given]
        if missing:
            raise InvalidArgumentError(
                f"{name} by edge type lacks {', '.join(map(repr, missing))}: give 0 for types that "
                "are not to be followed"
            )
        return tuple(check_fanout(given[kind], name) for kind in schema.own_etypes)
    return (check_fanout(fanout, name),) * len(schema.own_etypes)


def check_fanout(fanout: Any, name: str) -> int:
    """An integer of at least -1, and of 64 bits."""
    if isinstance(fanout, Tensor) and fanout.ndim == 0:
        fanout = fanout.item()
    if isinstance(fanout, bool) or not hasattr(fanout, "__index__"):
        raise InvalidArgumentError(f"{name} = {fanout!r} is no integer")
    count = int(fanout.__index__())
    if count < -1:
        raise InvalidArgumentError(
            f"{name} = {count}: a fanout is >= 0, or -1 for all neighbours", value=count
        )
    if count > _LARGEST:
        raise InvalidArgumentError(
            f"{name} = {count}: the largest fanout is {_LARGEST}; -1 takes all neighbours",
            value=count,
        )
    return count


def seed_hashes(schema: Schema, seeds: Mapping[str, Ids]) -> list[int]:
    """What seeds add to a key: as in the samplers of :mod:`aethergraph.pyg`."""
    if schema.is_homogeneous and isinstance(schema.graph, Graph):
        return [hash_ids(np.ascontiguousarray(ids)) for ids in seeds.values()]
    parts = []
    for name in schema.own_ntypes:
        if name in seeds:
            parts.append(hash_name(name))
            parts.append(hash_ids(np.ascontiguousarray(seeds[name])))
    return parts


def hop_hashes(schema: Schema, nodes: Mapping[str, Ids]) -> list[int]:
    """The same for one hop of a sampler that asks hop by hop.

    Without their order, which is that of GraphBolt's threads.
    """
    parts = []
    for name in schema.own_ntypes:
        if name in nodes:
            parts += [hash_name(name), hash_id_set(nodes[name])]
    return parts


def check_fanouts(fanouts: Any) -> list[int | dict[Any, int]]:
    """A fanout, or a dict of fanouts, for every layer."""
    if isinstance(fanouts, (str, Mapping)) or not hasattr(fanouts, "__iter__"):
        raise InvalidArgumentError(
            f"fanouts has one number or dict per layer, such as [15, 10], got {fanouts!r}"
        )
    found: list[int | dict[Any, int]] = []
    for at, fanout in enumerate(fanouts):
        name = f"fanouts[{at}]"
        if isinstance(fanout, Mapping):
            found.append({kind: check_fanout(count, name) for kind, count in fanout.items()})
        else:
            found.append(check_fanout(fanout, name))
    if not found:
        raise InvalidArgumentError("fanouts is empty: give one per layer")
    return found


def native_fanouts(
    schema: Schema, fanouts: Sequence[int | Mapping[EdgeType, int]]
) -> tuple[tuple[int, ...], ...]:
    """By edge type and hop from the seeds."""
    hops = [
        hop_fanouts(schema, fanout, f"fanouts[{at}]")
        for at, fanout in reversed(list(enumerate(fanouts)))
    ]
    return tuple(zip(*hops, strict=True))


def check_cpu(device: Any, instead: str) -> None:
    """Raise UnsupportedError with the way out, ``instead``, for a device that is not the CPU."""
    if str(device).partition(":")[0] != "cpu":
        raise UnsupportedError(f"device = {str(device)!r}: {instead}")


def warn_of_pinning(why: str) -> None:
    """Warn the caller of ``pin_memory_`` that nothing is pinned."""
    warnings.warn(f"pin_memory_ does nothing here: {why}", stacklevel=3)


def check_prefetch(names: Any, option: str, types: Sequence[Any], what: str) -> None:
    """Check that names of data to fetch are by type where there are several types.

    Raises:
        InvalidArgumentError: names without types, which DGL would meet with a TypeError.
    """
    if names and len(types) > 1 and not isinstance(names, Mapping):
        raise InvalidArgumentError(
            f"{option} = {names!r} must be a dict by {what} type, such as {{{types[0]!r}: "
            f"{names!r}}}: there are {', '.join(map(repr, types))}"
        )


def check_threads(count: Any) -> int:
    """How many threads a call may use."""
    if isinstance(count, bool) or not hasattr(count, "__index__") or not 0 <= count <= 256:
        raise InvalidArgumentError(f"num_threads = {count!r} is not in 0..256")
    return int(count)
