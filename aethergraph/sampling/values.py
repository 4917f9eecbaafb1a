"""Weights and times that a sampler draws by: finding them and checking them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import check_length, check_times
from aethergraph._checks.times import as_seed_times, as_times
from aethergraph.errors import InvalidArgumentError, OutOfRangeError
from aethergraph.features.feature_table import FeatureTable
from aethergraph.features.sources import all_rows
from aethergraph.graph.ids import name_id
from aethergraph.graph.lists import sum_weights
from aethergraph.graph.schema import as_typed
from aethergraph.protocols import Adjacency, AnyGraph, NodeSet, RowSource
from aethergraph.storage.paging import Paging

__all__ = [
    "Bounds",
    "Values",
    "choose_times",
    "keeps_node_times",
    "make_relation",
    "read_times",
    "read_weights",
    "require_sorted",
    "seed_bounds",
    "times_in_lists",
    "topology_times",
    "topology_weights",
]

Ids = NDArray[np.int64]


class Values(NamedTuple):
    """Vector of weights or times, in memory or mapped from the file that ``guard`` watches."""

    array: NDArray[Any]
    guard: native.FileGuard | None
    of_nodes: bool = False
    #: Unit of the times, if the graph has them as datetimes; else None.
    unit: str | None = None
    #: True: the topology keeps them itself, by edge, and ``array`` is empty.
    in_topology: bool = False
    #: Times of nodes that the topology has for their edges; seeds look theirs up here.
    rows: RowSource | None = None

    def all(self) -> NDArray[Any]:
        """Return all of them, also those that are elsewhere."""
        return self.array if self.rows is None else all_rows(self.rows)


class Bounds(NamedTuple):
    """Bounds of the times that each seed's tree may see: int64 keys, inclusive, or None."""

    since: Ids | None
    until: Ids | None


def read_weights(rows: RowSource, label: str) -> Values:
    """Return weights, one for each row; ``label`` names them in messages."""
    array = _vector(rows, label)
    if array.dtype not in (np.float32, np.float64):
        if array.dtype.kind not in "iuf":
            raise InvalidArgumentError(f"{label} holds {rows.dtype_name}, not numbers")
        return Values(array.astype(np.float32 if array.dtype == np.float16 else np.float64), None)
    return Values(array, rows.guard)


def read_times(rows: RowSource, name: str, label: str, *, of_nodes: bool) -> Values:
    """Return the times called ``name``, one for each row; ``label`` says in messages whose."""
    if of_nodes and name == "node_time" and not isinstance(rows, FeatureTable):
        return Values(np.empty(0, np.int64), None, of_nodes, rows=rows)
    array = _vector(rows, label)
    if rows.guard is None and array.dtype.kind == "f":  # those of a file are checked with its lists
        check_times(array, name)
    if array.dtype in (np.int64, np.float64):
        return Values(array, rows.guard, of_nodes)
    if array.dtype.kind not in "iuf":
        raise InvalidArgumentError(f"{label} holds {rows.dtype_name}, not numbers")
    return Values(as_times(array, len(array), name, "itself")[0], None, of_nodes)


def _vector(rows: RowSource, label: str) -> NDArray[Any]:
    if rows.ndim != 1 or rows.dtype_name == "bfloat16":
        raise InvalidArgumentError(
            f"{label} must be one number each, got shape {rows.shape} of {rows.dtype_name}"
        )
    return np.ascontiguousarray(all_rows(rows))


def topology_weights(
    edges: Adjacency,
    layout: Literal["csc", "csr"],
    name: str,
    attrs: Mapping[str, RowSource],
) -> Values | None:
    """Return the weights called ``name`` if the topology keeps them itself, else None.

    One of ``attrs`` of the same name goes before them.
    """
    if name != "edge_weight" or name in attrs or edges.edge_weight is not None:
        return None
    has_weights = edges.topology(layout).has_own_weights
    return Values(np.empty(0), None, in_topology=True) if has_weights else None


def topology_times(
    edges: Adjacency,
    layout: Literal["csc", "csr"],
    name: str,
    attrs: Mapping[str, RowSource],
) -> Values | None:
    """Return the times called ``name`` if the topology keeps them itself, else None."""
    if name != "edge_time" or name in attrs or edges.edge_time is not None:
        return None
    if not edges.topology(layout).has_own_times or keeps_node_times(edges, "csc"):
        return None
    return Values(np.empty(0, np.int64), None, in_topology=True)


def choose_times(graph: AnyGraph | None, names: Collection[str], reason: str) -> str:
    """Return the name of the times to draw by where nobody has named them.

    Args:
        graph: the graph, which may say so itself; None: there is none.
        names: which of ``"edge_time"`` and ``"node_time"`` there are.
        reason: why times are needed, for messages.

    Raises:
        InvalidArgumentError: there are none, or of both nodes and edges.
    """
    name = None if graph is None else getattr(graph, "time_attr", None)
    if name is not None or len(names) == 1:
        return str(name or next(iter(names)))
    if names and graph is not None and _lists_are_by_edges(graph):
        raise InvalidArgumentError(
            f"{reason}, and there are times of edges and of nodes: lists of a live graph are in "
            'the order of those of edges, say time_attr="edge_time"'
        )
    if names:
        raise InvalidArgumentError(
            f"{reason}, and there are times of edges and of nodes: say which ones are meant, "
            'time_attr="edge_time" or time_attr="node_time"'
        )
    raise InvalidArgumentError(
        f"{reason}, but there is no edge_time and no node_time: name the times with time_attr="
    )


def _lists_are_by_edges(graph: AnyGraph) -> bool:
    """Return True if a live graph refuses its times of nodes: edges have times of their own."""
    typed = as_typed(graph)
    return any(_refuses_node_time(typed[kind], typed[kind[0]]) for kind in typed.edge_types)


def _refuses_node_time(edges: Adjacency, sources: NodeSet) -> bool:
    layout: Literal["csc", "csr"] = "csr" if edges.layout == "csr" else "csc"
    by_edges = not {("csc", "edge_time"), ("csr", "edge_time")}.isdisjoint(edges.sorted_by)
    return by_edges and "node_time" in sources.node_values and edges.topology(layout).is_live


def keeps_node_times(edges: Adjacency, layout: Literal["csc", "csr"]) -> bool:
    """Return True if the topology keeps the times of the nodes in its lists, by edge."""
    is_sorted = (layout, "node_time") in edges.sorted_by
    return is_sorted and edges.edge_time is None and edges.topology(layout).has_own_times


def times_in_lists(
    times: Values, edges: Adjacency, layout: Literal["csc", "csr"], label: str
) -> Values:
    """Return times of nodes that are elsewhere as lists are drawn by them.

    Raises:
        InvalidArgumentError: the lists change, and are in another order.
    """
    if keeps_node_times(edges, layout):
        return times._replace(in_topology=True)
    if edges.topology(layout).is_live:
        if ("csc", "edge_time") in edges.sorted_by or ("csr", "edge_time") in edges.sorted_by:
            raise InvalidArgumentError(
                f"{label}the lists of this live graph are in the order of the edges' own times: "
                "give time_attr='edge_time', or make the graph without edge_time="
            )
        raise InvalidArgumentError(
            f"{label}the out-edges of this live graph are in no order of 'node_time', as in-edges "
            "are: make it with the reverse edge type as well, layout='csc' or 'both'"
        )
    return Values(times.all(), None, of_nodes=True)


def make_relation(
    graph: Adjacency,
    layout: Literal["csc", "csr"],
    weights: Values | None,
    times: Values | None,
    source: int = 0,
    to: int = 0,
) -> native.NativeRelation:
    """Return the lists of nodes of type ``source`` with the weights and times to draw by.

    The neighbours in the lists are of type ``to``.

    Raises:
        InvalidArgumentError: a weight is negative or not finite; ``position`` is its edge.
    """
    topology = graph.topology(layout)
    for noun, values in (("weights", weights), ("times", times)):
        if values is not None and not values.in_topology:  # the core does not check the length
            if topology.is_live:
                by_source = values is times and ("csc", "node_time") in graph.sorted_by
                owner = "node" if by_source else "edge"
                raise InvalidArgumentError(
                    f"{noun} of a live graph are '{owner}_{noun[:-1]}', which its lists keep up to "
                    "date: attributes are drawn by on a snapshot only"
                )
            count = topology.num_minor if values.of_nodes else topology.end_edge_ids
            check_length(values.array, count, noun, "what they belong to")
    own_weights, own_times = (_find_array(graph.paging, values) for values in (weights, times))
    of_nodes = times is not None and times.of_nodes
    return native.NativeRelation(
        topology,
        source,
        to,
        weights=own_weights,
        times=own_times,
        node_times=of_nodes,
        guards=tuple(v.guard for v in (weights, times) if v is not None and v.guard is not None),
        sums=None if weights is None else _find_sums(graph, layout, weights),
        in_file=_find_in_file(graph.paging, topology, own_weights, own_times, of_nodes),
        own_weights=weights is not None and weights.in_topology,
        own_times=times is not None and times.in_topology,
    )


def _find_array(paging: Paging | None, values: Values | None) -> NDArray[Any] | None:
    """Return the values in memory if the budget has room for them, else as they are."""
    if values is None or values.in_topology:
        return None
    if paging is None:
        return values.array
    in_memory = paging.held(values.array)
    return values.array if in_memory is None else in_memory


def _find_in_file(
    paging: Paging | None,
    topology: native.NativeTopology,
    weights: NDArray[Any] | None,
    times: NDArray[Any] | None,
    node_times: bool,
) -> native.ValuesInFile | None:
    """Return readers of values in the file of paged lists; edge ids must be positions."""
    if paging is None or topology.edge_ids is not None:
        return None
    readers = [None if values is None else paging.values_of(values) for values in (weights, times)]
    ids = None
    if node_times and isinstance(topology.indices, np.ndarray):
        ids = paging.values_of(topology.indices, topology)
    return native.ValuesInFile(readers[0], readers[1], ids)


def _find_sums(
    graph: Adjacency, layout: Literal["csc", "csr"], weights: Values
) -> native.NativeSums | None:
    """Return the graph's cached sums for its own weights; sum others anew, as they may change.

    None where sums, which go by position, cannot be: draws then read whole lists. By weights that
    the topology has itself they draw the same as with sums.
    """
    if weights.in_topology:
        graph.prepare_weights(layout)
        return None
    topology = graph.topology(layout)
    if not topology.is_dense:
        return None
    graph_weights, array = graph.edge_weight, weights.array
    if (
        graph_weights is not None
        and graph_weights.dtype == array.dtype
        and np.may_share_memory(graph_weights, array)
    ):
        sums = graph.weight_sums(layout)
        if sums is not None:
            return sums
    return sum_weights(topology, array, weights.guard)


def require_sorted(
    label: str,
    graph: Adjacency,
    layout: Literal["csc", "csr"],
    name: str,
    own_name: str | None,
    relation: native.NativeRelation,
) -> None:
    """Raise an error that names the first node whose list is not sorted by time.

    ``own_name`` names times of the graph itself, which are checked once. None: other times, which
    may change and are checked every time.
    """
    if own_name is not None and (layout, own_name) in graph.sorted_by:
        return
    if relation.topology.is_live:
        raise InvalidArgumentError(
            f"{label}the lists of a live graph are not sorted by {name!r}, and what is inserted "
            "later would not be: make the graph with order='time' and edge_time="
        )
    try:
        native.run_long(relation.check_times, None, 8 * relation.topology.num_edges)
    except InvalidArgumentError as error:
        way = "in" if layout == "csc" else "out"
        raise InvalidArgumentError(
            f"{label}the {way}-edges of node {error.position} are not sorted by {name!r}: "
            f"{_how_to_sort(relation, layout)}",
            position=error.position,
        ) from None
    if own_name is not None:
        graph.sorted_by.add((layout, own_name))


def _how_to_sort(relation: native.NativeRelation, layout: str) -> str:
    if layout == "csr" and relation.node_times:
        return (
            "out-edges are never sorted by the times of their destinations; build the graph with "
            "the reverse edge type (from_edges(add_reverse=True)), whose in-edges are"
        )
    return (
        "build the graph with these times (from_edges(edge_time=...) or node_time=..., or time = "
        "in a schema of tables), which sorts"
    )


def seed_bounds(
    times: Values | None,
    seeds: Ids,
    seed_time: ArrayLike | None,
    *,
    strict: bool,
    window: float | int | None,
    name: str = "seed_time",
) -> Bounds:
    """Return the bounds of every seed: ``seed_time``, by default the time of the seed node itself.

    ``name`` is the name of the times in messages.
    """
    if times is None:
        if seed_time is not None:
            raise InvalidArgumentError(f"{name} needs a sampler with time_attr")
        return Bounds(None, None)
    latest = _seed_times(times, seeds, seed_time, name)
    until = native.time_keys(latest)
    if strict:  # the largest key below the time
        earliest = until == np.iinfo(np.int64).min
        if earliest.any():
            at = int(earliest.argmax())
            raise InvalidArgumentError(
                f"{name}[{at}] = {latest[at]}: no time is below", position=at
            )
        until = until - 1
    if window is None or window == np.inf:  # of a time of infinity nothing can be subtracted
        return Bounds(None, until)
    return Bounds(native.time_keys(_minus(latest, window)), until)


def _seed_times(
    times: Values, seeds: Ids, seed_time: ArrayLike | None, name: str
) -> NDArray[Any]:  # fmt: skip
    if seed_time is None:
        if not times.of_nodes:
            raise InvalidArgumentError(f"{name} is needed: the times are those of edges")
        store = times.rows or FeatureTable.from_mapped(times.array, times.guard)
        try:
            return store.gather(seeds)
        except OutOfRangeError as error:
            raise name_id(error, "seeds", store.num_rows) from None
    return as_seed_times(seed_time, len(seeds), name, times.unit, times.array.dtype)


def _minus(times: NDArray[Any], window: float | int) -> NDArray[Any]:
    if times.dtype == np.float64:
        return np.asarray(times - float(window))
    lowest, left = np.iinfo(np.int64).min, int(window)
    for _ in range(2):  # from the highest time to the lowest int64 holds half the way
        width = min(left, 2**63 - 1)
        times = np.where(times < lowest + width, lowest, times - width)
        left -= width
    return times
