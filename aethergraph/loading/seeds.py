"""Seeds: nodes that batches begin with, of one type or of several, and their times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph._checks.arrays import as_ids, to_array
from aethergraph._checks.options import as_items, shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.graph.ids import check_ids
from aethergraph.graph.schema import NODE

if TYPE_CHECKING:
    from aethergraph.graph.schema import Schema

__all__ = ["Seeds"]

Ids = NDArray[np.int64]


class Seeds:
    """Seeds in one row: those of the first type, then those of the next.

    Args:
        schema: types of the graph.
        seeds: ids or a mask over the nodes, or None for every node; of a typed graph any of these
            by node type.
        times: None, or the latest time that each seed may see, likewise.
        names: names of ``seeds`` and ``times`` in messages.

    Raises:
        InvalidArgumentError: seeds without types or of a type that is none; another number of
            times than seeds.
        OutOfRangeError: a seed that is no node; of a graph that changes its batch raises it.
    """

    def __init__(
        self,
        schema: Schema,
        seeds: Any,
        times: Any,
        names: tuple[str, str] = ("seeds", "seed_time"),
    ) -> None:
        self.ids: dict[str, Ids] = {}
        self.times: dict[str, NDArray[Any]] = {}
        self._is_typed = schema.is_typed
        for node_type, ids in _by_type(schema, seeds, names[0]):
            label = schema.label(names[0], node_type)
            self.ids[node_type] = _as_seeds(ids, schema, node_type, label)
        for node_type, of_type in () if times is None else _by_type(schema, times, names[1]):
            label = schema.label(names[1], node_type)
            array, count = to_array(of_type, label), len(self.ids.get(node_type, ()))
            if array.shape != (count,):
                raise InvalidArgumentError(
                    f"{label} has shape {array.shape}, but there are {count} seeds: give one time "
                    "for each"
                )
            self.times[node_type] = array
        self._starts = np.cumsum([0, *map(len, self.ids.values())])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def split(self, index: Ids) -> dict[str, Ids]:
        """Return positions in the seeds of each type, for positions in the row of all of them."""
        if len(self.ids) == 1:
            return {next(iter(self.ids)): index}
        of_type = np.searchsorted(self._starts, index, side="right") - 1
        return {
            node_type: index[of_type == i] - self._starts[i] for i, node_type in enumerate(self.ids)
        }

    def arguments(self, index: Ids) -> tuple[Any, Any]:
        """Return the seeds at some positions, and their times or None, as samplers take them."""
        if not self._is_typed:
            of_seeds = self.times.get(NODE)
            return self.ids[NODE][index], None if of_seeds is None else of_seeds[index]
        places = self.split(index)
        ids = {node_type: self.ids[node_type][at] for node_type, at in places.items()}
        times = {node_type: of_type[places[node_type]] for node_type, of_type in self.times.items()}
        return ids, times or None

    def described(self) -> dict[str, Any]:
        """Return what decides the batches, for the state of a loader."""
        if not self._is_typed:
            return {"seeds": self.ids[NODE], "seed_time": self.times.get(NODE)}
        arrays: dict[str, Any] = {f"seeds of {name}": ids for name, ids in self.ids.items()}
        return arrays | {f"seed_time of {name}": times for name, times in self.times.items()}


def _by_type(schema: Schema, values: Any, option: str) -> Iterator[tuple[str, Any]]:
    if not schema.is_typed:
        yield NODE, values
        return
    if not isinstance(values, Mapping):
        example = schema.node_types[0] if schema.node_types else "node"
        raise InvalidArgumentError(
            f"{option} goes by node type, {{{example!r}: [...]}}, got {shown(values)}"
        )
    for node_type, of_type in as_items(values, option, "ids"):
        if node_type not in schema.node_types:
            known = ", ".join(map(repr, schema.node_types)) or "none"
            raise InvalidArgumentError(
                f"{option}: {shown(node_type)} is no node type; there are: {known}"
            )
        yield node_type, of_type


def _as_seeds(seeds: ArrayLike | None, schema: Schema, node_type: str, label: str) -> Ids:
    num_nodes = schema.num_nodes(node_type)
    if seeds is None:
        return np.arange(num_nodes, dtype=np.int64)
    array = to_array(seeds, label)
    if array.dtype.kind == "b":
        if array.shape != (num_nodes,):
            raise InvalidArgumentError(
                f"{label} is a mask of shape {array.shape}, the graph has {num_nodes} nodes"
            )
        return np.flatnonzero(array).astype(np.int64, copy=False)
    ids = as_ids(seeds, label)
    if not schema.is_live:  # else there may be more nodes by the time that they are drawn from
        check_ids(ids, num_nodes, label)
    return ids
