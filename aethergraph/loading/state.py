"""States of loaders: a few numbers from which a loader goes on where another one was.

::

    {"version": 1, "epoch": 3, "next": 128,        where: the first batch that no rank has delivered
     "order": {...},                               what draws: nothing, or a generator's state
     "arguments": {"batch_size": "64", ...},       what decides the batches, to be compared
     "graph": {"nodes": "1000", ...}}              the graph, to be compared

All values are numbers, texts, and tensors of generators, so that ``torch.save`` and JSON (without
the latter) take them. What does not decide the batches is left out: threads, workers, ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.arrays import as_count
from aethergraph._checks.options import shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.sampling.keys import hash_ids, hash_name, mix_key

__all__ = [
    "Told", "check_state", "describe", "describe_commit", "describe_graph", "describe_sampler",
    "make_state",
]  # fmt: skip

VERSION = 1
Told = dict[str, str]
"""What a state says of arguments or a graph: texts by name."""

#: Options of samplers that decide what they draw; their values by attribute, public or not.
_OPTIONS = (
    "fanouts", "num_neighbors", "num_samples", "max_neighbors", "replace", "disjoint",
    "subgraph_type", "temporal_strategy", "time_attr", "weight_attr", "sample_direction", "strict",
    "window", "layered", "exclude", "exclude_edges", "true_negatives",
)  # fmt: skip
_LISTS = 64  # nodes whose lists stand for the graph's
_LONGEST = 1024  # neighbours of a list that is compared whole


def make_state(epoch: int, following: int, order: Any, arguments: Told, graph: Told) -> Any:
    """Return the state of a loader whose next batch is ``following`` of ``epoch``."""
    return {
        "version": VERSION, "epoch": epoch, "next": following, "order": order,
        "arguments": arguments, "graph": graph,
    }  # fmt: skip


def check_state(
    state: Any, arguments: Told, graph: Told, total: int, commit: Told | None = None
) -> tuple[int, int, Any]:
    """Return epoch, next batch and order of a state that fits a loader.

    Args:
        state: what ``state_dict`` returned.
        arguments: of the loader, as :func:`describe` gives them.
        graph: of the loader, as :func:`describe_graph` gives it.
        total: number of batches of an epoch.
        commit: of a graph that changes, the one that all batches of the next epoch are of, as
            :func:`describe_commit` gives it; None: each has its own.

    Raises:
        InvalidArgumentError: it is no state of a loader, or that of a loader with other arguments
            or of another graph; names the first that differs.
    """
    if not isinstance(state, Mapping) or "version" not in state:
        raise InvalidArgumentError(
            f"state must be what state_dict() of a loader returned, got {shown(state)}"
        )
    if state["version"] != VERSION:
        raise InvalidArgumentError(
            f"state has version {shown(state['version'])}, this release reads version {VERSION}"
        )
    for part in ("epoch", "next", "order", "arguments", "graph"):
        if part not in state:
            raise InvalidArgumentError(f"state has no {part!r}: it is damaged")
    _compare(state["arguments"], arguments, "a loader with", "this one has")
    saved, now = dict(_as_table(state["graph"])), dict(graph)
    was, last = (as_count(_as_number(table.pop("lsn", 0)), "lsn") for table in (saved, now))
    named = saved.pop("commit", None)
    now.pop("commit", None)
    _compare(saved, now, "a graph with", "this one has")
    if was > last:
        raise InvalidArgumentError(
            f"the state is of commit {was} of the graph, which is at {last}: open it with its "
            "whole log"
        )
    epoch, following = (as_count(state[part], f"state[{part!r}]") for part in ("epoch", "next"))
    if commit is not None and following:
        _check_commit((str(was), named), (commit["lsn"], commit.get("commit")))
    if following > total:
        raise InvalidArgumentError(f"state['next'] = {following}, but an epoch has {total} batches")
    return epoch, following, state["order"]


def _check_commit(was: tuple[str, Any], now: tuple[str, str | None]) -> None:
    """Raise unless a number in the log, and a name in memory, are those of the same commit."""
    if was[0] != now[0]:
        raise InvalidArgumentError(
            f"the state is of an epoch of commit {was[0]} of the graph, which is at {now[0]}: "
            "Order(snapshot='epoch') goes on at the same commit only; take states between epochs"
        )
    if now[1] is not None and was[1] != now[1]:
        raise InvalidArgumentError(
            f"the state is of an epoch of commit {shown(was[1])} of a graph in memory, this one "
            f"is at {now[1]!r}: Order(snapshot='epoch') goes on at the same commit of the same "
            "graph only; take states between epochs, or keep the graph in a directory"
        )


def _as_table(table: Any) -> Mapping[str, Any]:
    if not isinstance(table, Mapping):
        raise InvalidArgumentError(f"state must hold tables, got {shown(table)}: it is damaged")
    return table


def _as_number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def _compare(saved: Any, now: Told, theirs: str, ours: str) -> None:
    table = _as_table(saved)
    for name in sorted({*table, *now}, key=str):
        was, current = table.get(name, "nothing"), now.get(name, "nothing")
        if was != current:
            raise InvalidArgumentError(
                f"the state is of {theirs} {name} = {shown(was)}, {ours} {shown(current)}"
            )


def describe(value: Any) -> str:
    """Return a short text that is equal for equal arguments; arrays are hashed."""
    if hasattr(value, "numpy") and hasattr(value, "shape"):  # a tensor
        if hasattr(value, "detach"):
            value = value.detach().cpu()
        try:
            value = value.numpy()
        except TypeError:  # numpy has no bfloat16, float8 or sparse arrays
            wide = value.double().to_dense().numpy()
            return f"{value.dtype} as {describe(wide)}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype.name}{list(value.shape)} of hash {_hash(value):016x}"
    if isinstance(value, Mapping) and any(hasattr(item, "shape") for item in value.values()):
        value = {name: describe(item) for name, item in value.items()}
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:100]}... of hash {hash_name(text):016x}"


def _hash(array: NDArray[Any]) -> int:
    if array.dtype == np.int64 and array.ndim == 1:
        return hash_ids(array)
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    words = data[: len(data) // 8 * 8].view(np.int64)
    return mix_key(hash_ids(words), hash_ids(data[len(words) * 8 :].astype(np.int64)))


def describe_sampler(sampler: Any) -> Told:
    """Return what decides the draws of a sampler, as far as its attributes tell."""
    description, known = {"sampler": type(sampler).__name__}, getattr(sampler, "__dict__", {})
    known = getattr(known.get("_sampler"), "__dict__", {}) | known  # of one that wraps the core's
    for name in _OPTIONS:
        for attribute in (name, f"_{name}"):
            if attribute in known:
                value = known[attribute]
                if not isinstance(value, Mapping):
                    value = getattr(value, "values", value)  # of PyG's NumNeighbors
                value = getattr(value, "value", value)  # of its enums
                description[name] = describe(value)
                break
    return description


def describe_commit(graph: Any, at: Any = None) -> Told:
    """Return what tells a commit of a graph that changes from its others.

    In memory there is no log: a commit counts in the processes that have that memory, and no graph
    that is made later has it, were it made in the same way.

    Args:
        graph: the graph.
        at: a snapshot of the commit; None: the last one.
    """
    at = graph if at is None else at
    if graph.store.path is not None:
        return {"lsn": str(at.lsn)}
    return {"lsn": "0", "commit": f"{at.commit} in {graph.store.memory_name}"}


def describe_graph(graph: Any, commit: Told | None = None) -> Told:
    """Return what tells a graph from others: its sizes, and some of its lists.

    It costs the same for graphs of any size. A graph that changes is told by the number of its
    directory; its commits are not compared, but that none is missing.

    Args:
        graph: a graph of one type or of many, or None: nothing is known of it.
        commit: of a graph that changes, the :func:`describe_commit` of the state's; None: the last.
    """
    if graph is None:
        return {}
    if getattr(graph, "is_live", False):
        return {"live": _live_name(graph), **(commit or describe_commit(graph))}
    if graph.is_typed:
        description = {f"nodes of {name}": str(count) for name, count in graph.num_nodes.items()}
        for kind in graph.edge_types:
            description[f"edges of {kind}"] = (
                f"{graph.num_edges[kind]}, {_hash_lists(graph[kind]):016x}"
            )
        return description
    return {
        "nodes": str(graph.num_nodes),
        "edges": str(graph.num_edges),
        "lists": f"{_hash_lists(graph):016x}",
    }


def _live_name(graph: Any) -> str:
    journal = graph.store.journal
    return "in memory" if journal is None else str(journal.directory.uuid.hex())


def _hash_lists(graph: Any) -> int:
    """Return a hash of some lists of a graph, and of the length of others."""
    incoming = graph.layout != "csr"
    count = graph.num_dst if incoming else graph.num_src
    nodes = np.unique(np.linspace(0, max(count - 1, 0), min(count, _LISTS)).astype(np.int64))
    degrees = graph.in_degrees(nodes) if incoming else graph.out_degrees(nodes)
    key = hash_ids(degrees)
    for node in nodes[degrees <= _LONGEST] if incoming else ():
        key = mix_key(key, hash_ids(graph.in_neighbors(int(node))))
    return key
