"""Graphs in another order of their nodes: lists, values and attributes moved along."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_ids, empty, read_only, stretches
from aethergraph.errors import InvalidArgumentError, OutOfRangeError
from aethergraph.features import FeatureStore
from aethergraph.graph.attributes import AttributeTable
from aethergraph.graph.ids import name_id
from aethergraph.graph.lists import Lists
from aethergraph.graph.orders import inverse, take, take_rows
from aethergraph.graph.parts import EdgeParts, NodeParts

__all__ = ["NODE_IDS", "Permutation", "permute_edges", "permute_nodes"]

Ids = NDArray[np.int64]
#: Attribute of the nodes that leads back: the id that each had at first.
NODE_IDS = "node_ids"


class Permutation(NamedTuple):
    """A checked order of nodes.

    Attributes:
        old: old id of each new one, int64 [N].
        new: new id of each old one, uint32 or uint64 [N].
    """

    old: Ids
    new: NDArray[Any]

    @classmethod
    def checked(cls, perm: ArrayLike, count: int, name: str = "perm") -> Permutation:
        """Check that ``perm`` has every node of ``count`` once.

        Raises:
            InvalidArgumentError: it has another length, or has a node twice; names the first one.
            OutOfRangeError: an id is of no node; names the first one.
        """
        old = as_ids(perm, name)
        if len(old) != count:
            raise InvalidArgumentError(
                f"{name} has {len(old)} ids, but there are {count} nodes: an order has each once"
            )
        dtype = native.id_dtype(native.id_bytes_for(count))
        new = empty(count, dtype, f"an order of {count} nodes")
        try:
            native.put_places(old, 0, new)
        except OutOfRangeError as error:
            raise name_id(error, name, count) from None
        for some in stretches(count):
            # A node that comes twice has the place of the last time.
            wrong = new[old[some]] != np.arange(some.start, some.stop, dtype=dtype)
            if wrong.any():
                at = some.start + int(wrong.argmax())
                raise InvalidArgumentError(
                    f"{name}[{at}] = {old[at]} comes again as {name}[{new[old[at]]}]: an order has "
                    "every node once",
                    position=at,
                )
        return cls(old, new)


def permute_nodes(
    part: NodeParts, made: NodeParts, order: Permutation, task: native.Task | None
) -> None:
    """Fill ``made`` with the nodes of one type in another order; ``node_ids`` is the way back."""
    made.time_unit = part.time_unit
    if part.node_time is not None:
        made.node_time = read_only(take(part.node_time, order.old, task))
    move_rows(part.node_attrs, made.node_attrs, order.old, task)
    if NODE_IDS not in made.node_attrs:
        made.node_attrs[NODE_IDS] = order.old.copy()


def move_rows(
    table: AttributeTable, out: AttributeTable, rows: NDArray[Any], task: native.Task | None
) -> None:
    """Copy all attributes of ``table`` to ``out``, in the order ``rows``."""
    for name, store in table.items():
        bits = "bfloat16" if store.dtype_name == "bfloat16" else None
        out[name] = FeatureStore.from_array(take_rows(store, rows, task), dtype=bits)


def permute_edges(
    part: EdgeParts, made: EdgeParts, source: Permutation, target: Permutation,
    task: native.Task | None,
) -> None:  # fmt: skip
    """Fill ``made`` with the edges of one type between nodes in another order.

    A list holds the edges that it held, in the same order: by time, if it was by time.
    """
    made.time_unit, made.sorted_by = part.time_unit, set(part.sorted_by)
    edges: NDArray[Any] | None = None  # the former id of each edge
    if part.csc is not None:
        made.csc, edges = _permute_lists(part.csc, target, source, None, task)
    if part.csr is not None:
        new_ids = None if edges is None else inverse(edges, task)
        made.csr, found = _permute_lists(part.csr, source, target, new_ids, task)
        edges = found if edges is None else edges
    assert edges is not None
    if part.edge_order is not None:
        made.edge_order = read_only(take(part.edge_order, edges, task))
    if part.edge_weight is not None:
        made.edge_weight = read_only(take(part.edge_weight, edges, task))
    if part.edge_time is not None:
        made.edge_time = read_only(take(part.edge_time, edges, task))
    move_rows(part.edge_attrs, made.edge_attrs, edges, task)


def _permute_lists(
    lists: Lists, major: Permutation, minor: Permutation, edge_ids: NDArray[Any] | None,
    task: native.Task | None,
) -> tuple[Lists, NDArray[Any]]:  # fmt: skip
    """Return lists of the new nodes, and the former place of each of their entries.

    ``edge_ids`` are the new ids of edges by the former ones; None: places are ids, before and
    after.
    """
    indptr, _, old_edge_ids = lists.raw
    count, edges = len(major.old), int(indptr[-1])
    ends = empty(count + 1, np.uint64, f"the offsets of {count} lists")
    ends[0] = 0
    np.cumsum(take(np.diff(indptr), major.old, task), out=ends[1:])
    order_dtype = native.id_dtype(native.id_bytes_for(edges))
    places = empty(edges, order_dtype, f"{edges} edges")
    for some in stretches(count, task):
        _put_places(indptr, ends, major.old, some, places)
    ids = empty(edges, minor.new.dtype, f"{edges} edges")
    native.gather(minor.new, take(_wide(lists.indices), places, task), ids, task)
    renamed: NDArray[Any] | None = None
    if edge_ids is not None:
        former = places if old_edge_ids is None else take(old_edge_ids, places, task)
        renamed = take(edge_ids, _wide(former), task)
    return Lists((ends, ids, renamed), len(minor.old), None), places


def _put_places(
    indptr: NDArray[np.uint64], ends: NDArray[np.uint64], old: Ids, some: slice,
    places: NDArray[Any],
) -> None:  # fmt: skip
    """Set the former places of the entries of some new lists."""
    shift = indptr[old[some]].astype(np.int64) - ends[:-1][some].astype(np.int64)
    first, last = int(ends[some.start]), int(ends[some.stop])
    lengths = np.diff(ends[some.start : some.stop + 1]).astype(np.int64)
    for begin, part in _pieces(lengths, last - first):
        entries = np.arange(first + begin, first + begin + int(part.sum()))
        places[first + begin : first + begin + len(entries)] = entries + np.repeat(shift, part)


def _pieces(lengths: Ids, total: int) -> list[tuple[int, Ids]]:
    """Cut lists of these lengths into pieces of some million entries: (first entry, lengths)."""
    most = 4 << 20
    if total <= most:
        return [(0, lengths)]
    ends = np.cumsum(lengths)
    found = []
    for begin in range(0, total, most):
        stop = min(begin + most, total)
        cut = np.clip(ends, begin, stop)
        found.append((begin, np.diff(cut, prepend=begin)))
    return found


def _wide(ids: NDArray[Any]) -> NDArray[Any]:
    """Return ids as a gather takes them: uint32, or int64."""
    return ids if ids.dtype.itemsize == 4 else ids.view(np.int64)


def checked_by_type(
    perms: Mapping[str, ArrayLike], counts: Mapping[str, int]
) -> dict[str, Permutation]:
    """Check an order for each node type; types without one keep theirs."""
    return {
        name: Permutation.checked(perms.get(name, np.arange(count)), count, f"perms[{name!r}]")
        for name, count in counts.items()
    }
