"""Times of nodes in a live graph, and of edges that are as late as the nodes they come from.

::

    rows     7: 12   8: 30   9: 5            time of each node, given with it; it stays
                │       │
    list     [ 9 ][ 7 ][ 8 ]                 in-edges in the order of their sources' times, as
               5    12   30                  Graph.from_edges(node_time=) has them

An edge of nodes with times gets that of its source when it is inserted, and lists are read up to a
time as where edges have times of their own. Those go first: lists have one order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from aethergraph._checks.options import shown
from aethergraph._checks.times import datetime_of
from aethergraph.dynamic.descriptions import NODE_TIME
from aethergraph.dynamic.edge_types import EdgeType, rows_room
from aethergraph.dynamic.forms import EdgeForm, read_time_dtype, time_dtype
from aethergraph.dynamic.growing_keys import AddedKeys
from aethergraph.dynamic.inputs import Ids, in_unit
from aethergraph.dynamic.rows import GrowingRows
from aethergraph.errors import InvalidArgumentError, MissingNameError
from aethergraph.protocols import RowSource

__all__ = [
    "NODE_TIME",
    "RESERVED",
    "NodeTimes",
    "check_node_time",
    "check_same_node_time",
    "make_node_times",
    "node_time_from_json",
    "node_time_to_json",
    "read_node_time",
]

#: Names that no attribute of nodes with times has.
RESERVED = ("time", NODE_TIME)


class NodeTimes(NamedTuple):
    """Times of the nodes of one type.

    Attributes:
        rows: the times, int64 by node.
        unit: their unit if they are datetimes; None: plain numbers.
    """

    rows: GrowingRows
    unit: str | None

    def read(self, time: ArrayLike | None, count: int) -> Ids:
        """Return the times that are given with ``count`` nodes, int64 in the graph's unit.

        Raises:
            InvalidArgumentError: they are missing or no times; names the first at fault.
        """
        if time is None:
            raise InvalidArgumentError(f"nodes have times: give time= with {count} of them")
        return in_unit(time, count, self.unit, "the number of nodes", NODE_TIME)

    def of(self, nodes: Ids, count: int) -> Ids:
        """Return the times of nodes; of those that are not below ``count`` 0."""
        known = (nodes >= 0) & (nodes < count)
        some = np.ascontiguousarray(nodes if known.all() else nodes[known])
        values = np.empty(len(some), np.int64)
        self.rows.gather_into(some, values, 0, lambda: None)
        if len(some) == len(nodes):
            return values
        times = np.zeros(len(nodes), np.int64)
        times[known] = values
        return times

    def check_kept(self, times: Ids, added: AddedKeys, count: int) -> None:
        """Raise unless the times that are given with keys are those of their nodes.

        Args:
            times: the times, one for each key.
            added: the nodes of the keys; a new one has the time that is given first.
            count: number of nodes before these were added.

        Raises:
            InvalidArgumentError: a node has another one; names the first.
        """
        kept, is_new = self.of(added.ids, count), added.ids >= count
        kept[is_new] = times[added.first][added.ids[is_new] - count]
        wrong = np.flatnonzero(kept != times)
        if len(wrong):
            at = int(wrong[0])
            raise InvalidArgumentError(
                f"time[{at}] = {self._shown(times[at])}, but the node of this key has the time "
                f"{self._shown(kept[at])}, and nodes keep theirs: give the same, or take "
                "ids.lookup(keys) for keys that have nodes",
                position=at,
            )

    def _shown(self, time: Any) -> Any:
        return time if self.unit is None else datetime_of(int(time), self.unit)


def make_node_times(
    unit: str | None, max_nodes: int, base: RowSource | None = None, fd: int | None = None
) -> NodeTimes:
    """Return times of at most ``max_nodes`` nodes, which begin with those of a base.

    Args:
        unit: their unit; None: plain numbers.
        max_nodes: most nodes there can be.
        base: times that are there already; None: none.
        fd: descriptor of those of another process; None: make them.
    """
    room = rows_room((), "int64", max_nodes)
    return NodeTimes(GrowingRows((), "int64", room, base, can_change=False, fd=fd), unit)


def read_node_time(node_time: Any, node_types: Collection[str]) -> dict[str, str | None]:
    """Return the unit of the times of each node type that is to have some; None: plain numbers.

    Raises:
        InvalidArgumentError: it goes by no types, or names no dtype of times.
        MissingNameError: there is no such node type.
    """
    if node_time is None:
        return {}
    if not isinstance(node_time, Mapping):
        raise InvalidArgumentError(
            f"node_time goes by node type, {{type: 'int64'}}, got {shown(node_time)}"
        )
    for name in node_time:
        if name not in node_types:
            raise MissingNameError(
                f"node_time: no node type {shown(name)}; there are: "
                f"{', '.join(map(repr, node_types)) or 'none'}"
            )
    return {
        name: read_time_dtype(dtype, f"node_time[{name!r}]")
        for name, dtype in node_time.items()
        if dtype is not None
    }


def node_time_to_json(units: Mapping[str, str | None]) -> dict[str, str]:
    """Return the times of nodes for ``graph.json``: their dtype by node type."""
    return {name: time_dtype(unit) for name, unit in units.items()}


def node_time_from_json(description: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the units of the times of nodes, by node type, that ``graph.json`` names."""
    dtypes: Mapping[str, Any] = description.get(NODE_TIME, {})
    return {name: read_time_dtype(dtype, NODE_TIME) for name, dtype in dtypes.items()}


def check_node_time(
    units: Mapping[str, str | None],
    num_nodes: Mapping[str, int],
    forms: Mapping[EdgeType, EdgeForm],
) -> None:
    """Raise unless a new graph, which has no base, can have these times of nodes.

    Raises:
        InvalidArgumentError: lists that are not by time, nodes that would have no times, or units
            that differ.
    """
    for (source, *_), form in forms.items():
        if source in units and form.order == "id":
            raise InvalidArgumentError(
                "node_time= with order='id': lists that are sorted by id cannot be read up to a "
                "time; use order='time'"
            )
    for name in units:
        if num_nodes[name]:
            raise InvalidArgumentError(
                f"{num_nodes[name]} nodes would have no times: with node_time= a graph begins "
                "without nodes, which are added with theirs (time=), or over a base that has some"
            )
    of_edges = {form.time_unit for form in forms.values() if form.has_time}
    dtypes = sorted(map(time_dtype, {*units.values(), *of_edges}))
    if len(dtypes) > 1:
        raise InvalidArgumentError(
            f"times of nodes and edges are {' and '.join(dtypes)}: give them in one unit, by equal "
            "node_time= and edge_time="
        )


def check_same_node_time(
    node_time: Any, units: Mapping[str, str | None], node_types: Collection[str]
) -> None:
    """Raise unless an argument is None, or the times of nodes that a graph was made with.

    Raises:
        InvalidArgumentError: they are others.
    """
    if node_time is not None and read_node_time(node_time, node_types) != units:
        raise InvalidArgumentError(
            f"the graph was made with node_time = {node_time_to_json(units) or None}, not "
            f"{shown(node_time)}: leave it out"
        )
