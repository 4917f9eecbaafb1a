"""Arguments in DGL's form: fanouts in DGL's order, and the hashes of seeds for keys."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Mapping, Sequence, Set
from numbers import Number
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch

from aethergraph._checks.options import as_flag, as_list, shown
from aethergraph._torch.tensors import as_device
from aethergraph.dgl._schema import Schema
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.sampling.fanouts import MAX_HOPS, as_fanout
from aethergraph.sampling.keys import hash_id_set, hash_ids, hash_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.graph.hetero import EdgeType

__all__ = [
    "as_name_list",
    "as_names",
    "as_truth",
    "check_cpu",
    "check_fanouts",
    "check_integer",
    "check_output_device",
    "check_prefetch",
    "check_threads",
    "hop_fanouts",
    "hop_hashes",
    "layer_list",
    "native_fanouts",
    "refuse_options",
    "seed_hashes",
    "warn_of_pinning",
]

Ids: TypeAlias = "NDArray[np.int64]"

_MOST_NAMES = 1 << 16  # of data to fetch


def hop_fanouts(schema: Schema, fanout: Any, name: str) -> tuple[int, ...]:
    """Return the fanouts of one hop, by edge type in the graph's order.

    Raises:
        InvalidArgumentError: no integer of at least -1, or a dict without all edge types.
    """
    if isinstance(fanout, Mapping):
        by_type = {schema.etype(kind): count for kind, count in fanout.items()}
        missing = [kind for kind in schema.canonical_etypes if kind not in by_type]
        if missing:
            raise InvalidArgumentError(
                f"{name} by edge type lacks {', '.join(map(repr, missing))}: give 0 for types that "
                "are not to be followed"
            )
        return tuple(as_fanout(by_type[kind], name) for kind in schema.edge_types)
    return (as_fanout(fanout, name),) * len(schema.edge_types)


def as_truth(value: Any, name: str) -> bool:
    """Return a flag that DGL's own samplers hand on unchecked: any integer but 0 is true there.

    Raises:
        InvalidArgumentError: the value is something else, such as an array or a word.
    """
    return value != 0 if isinstance(value, (int, np.integer)) else as_flag(value, name)


def check_integer(value: Any, name: str) -> int:
    """Return an integer that is no bool.

    Raises:
        InvalidArgumentError: any other value.
    """
    is_bool = isinstance(value, bool) or getattr(value, "dtype", None) in (torch.bool, np.bool_)
    try:
        number = None if is_bool else operator.index(value)
    except (TypeError, ValueError, RuntimeError):  # the others: tensors and arrays
        number = None
    if number is None:
        raise InvalidArgumentError(f"{name} = {shown(value)} is no integer")
    return number


def seed_hashes(schema: Schema, seeds: Mapping[str, Ids]) -> list[int]:
    """Hash seeds for a key, as the samplers of :mod:`aethergraph.pyg` do."""
    if not schema.graph.is_typed:
        return [hash_ids(np.ascontiguousarray(ids)) for ids in seeds.values()]
    parts = []
    for name in schema.node_types:
        if name in seeds:
            parts.append(hash_name(name))
            parts.append(hash_ids(np.ascontiguousarray(seeds[name])))
    return parts


def hop_hashes(schema: Schema, nodes: Mapping[str, Ids]) -> list[int]:
    """Hash the nodes of one hop for a key, for a sampler that asks hop by hop.

    Their order is ignored: it depends on GraphBolt's threads.
    """
    parts = []
    for name in schema.node_types:
        if name in nodes:
            parts += [hash_name(name), hash_id_set(nodes[name])]
    return parts


def check_fanouts(fanouts: Any) -> list[int | dict[Any, int]]:
    """Check a fanout, or a dict of fanouts, for every layer."""
    checked: list[int | dict[Any, int]] = []
    for at, fanout in enumerate(layer_list(fanouts)):
        if isinstance(fanout, Mapping):
            name = f"fanouts[{at}]"
            checked.append({kind: as_fanout(count, name) for kind, count in fanout.items()})
        else:
            checked.append(as_fanout(fanout, "fanouts", at))
    return checked


def layer_list(fanouts: Any) -> list[Any]:
    """Return what there is for each layer, not looked at.

    Raises:
        InvalidArgumentError: no sequence, an empty one, or one of more layers than the core has.
    """
    if isinstance(fanouts, (str, Mapping, Set)) or not hasattr(fanouts, "__iter__"):
        raise InvalidArgumentError(
            f"fanouts has one number or dict per layer, such as [15, 10], got {shown(fanouts)}"
        )
    layers = as_list(fanouts, "fanouts", "layers", most=MAX_HOPS)
    if not layers:
        raise InvalidArgumentError("fanouts is empty: give one entry per layer")
    return layers


def native_fanouts(
    schema: Schema, fanouts: Sequence[int | Mapping[EdgeType, int]]
) -> tuple[tuple[int, ...], ...]:
    """Return fanouts by edge type and hop from the seeds."""
    hops = [
        hop_fanouts(schema, fanout, f"fanouts[{at}]")
        for at, fanout in reversed(list(enumerate(fanouts)))
    ]
    return tuple(zip(*hops, strict=True))


def check_cpu(device: Any, instead: str) -> None:
    """Raise UnsupportedError with the way out, ``instead``, for a device that is not the CPU."""
    name = str(device) if isinstance(device, torch.device) else device
    if not isinstance(name, str) or name.partition(":")[0] != "cpu":
        raise UnsupportedError(f"device = {shown(name)}: {instead}")


def check_output_device(device: Any) -> torch.device | None:
    """Return where results are to be; None: where they are made.

    Raises:
        InvalidArgumentError: no device, or CUDA where there is none.
        UnsupportedError: a device that DGL has no graphs on.
    """
    if device is None:
        return None
    output_device = as_device(device, "output_device")
    if output_device.type not in ("cpu", "cuda"):
        raise UnsupportedError(
            f"output_device = {str(output_device)!r}: DGL has graphs on 'cpu' and 'cuda' alone"
        )
    return output_device


def refuse_options(options: Mapping[str, Any], defaults: Mapping[str, Any], instead: str) -> None:
    """Check that options that do nothing here have their default; ``instead`` is the way out.

    Raises:
        UnsupportedError: another value, or an option that is not among ``defaults``.
    """
    for name, value in options.items():
        if name in defaults:
            only = defaults[name]
            if value is only or (isinstance(value, (str, Number)) and value == only):
                continue
        raise UnsupportedError(f"{name} = {shown(value)} is not supported: {instead}")


def warn_of_pinning(why: str) -> None:
    """Warn the caller of ``pin_memory_`` that nothing is pinned."""
    warnings.warn(f"pin_memory_ does nothing here: {why}", stacklevel=3)


def as_names(names: Any, option: str) -> Any:
    """Return names of data to fetch: a list of them, or a dict of lists by type.

    Raises:
        InvalidArgumentError: names that are no texts.
    """
    if isinstance(names, Mapping):
        return {
            kind: as_name_list(group, f"{option}[{shown(kind)}]") for kind, group in names.items()
        }
    return as_name_list(names, option)


def as_name_list(names: Any, option: str) -> list[str]:
    """Return a list of names of data; none for None, and one for a text.

    Raises:
        InvalidArgumentError: names that are no texts.
    """
    if names is None:
        return []
    if isinstance(names, str):
        return [names]
    listed = as_list(names, option, "names", most=_MOST_NAMES)
    for at, name in enumerate(listed):
        if not isinstance(name, str):
            raise InvalidArgumentError(
                f"{option}[{at}] must be the name of data, got {shown(name)}", position=at
            )
    return listed


def check_prefetch(
    names: Any, option: str, schema: Schema, domain: Literal["node", "edge"]
) -> None:
    """Check that names of data to fetch are by type where there are several types.

    Raises:
        InvalidArgumentError: names without types, which DGL would meet with a TypeError, or by a
            type that the graph does not have.
    """
    types: Sequence[Any] = schema.ntypes if domain == "node" else schema.canonical_etypes
    if isinstance(names, Mapping):
        for kind in names:
            schema.ntype(kind) if domain == "node" else schema.etype(kind)
    elif names and len(types) > 1:
        raise InvalidArgumentError(
            f"{option} = {names!r} must be a dict by {domain} type, such as {{{types[0]!r}: "
            f"{names!r}}}: there are {', '.join(map(repr, types))}"
        )


def check_threads(count: Any) -> int:
    """Return the number of threads that a call may use."""
    number = check_integer(count, "num_threads")
    if not 0 <= number <= 256:
        raise InvalidArgumentError(f"num_threads = {number} is not in 0..256")
    return number
