"""Graphs in another order of their nodes: lists, values and attributes moved along."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_ids, empty, read_only, stretches
from aethergraph.errors import InvalidArgumentError, OutOfRangeError
from aethergraph.features.feature_table import FeatureTable
from aethergraph.graph.edge_input import EdgeInput, build_edges
from aethergraph.graph.ids import name_id
from aethergraph.graph.orders import take, take_rows
from aethergraph.graph.parts import BY_EDGE_TIME, BY_SOURCE_TIME, EdgeParts, NodeParts

__all__ = ["NODE_IDS", "Permutation", "checked_by_type", "permute_edges", "permute_nodes"]

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
    part: NodeParts, permuted: NodeParts, order: Permutation, task: native.Task | None
) -> None:
    """Fill ``permuted`` with nodes of one type in another order; ``node_ids`` is the way back."""
    permuted.time_unit = part.time_unit
    if part.node_time is not None:
        permuted.node_time = read_only(take(part.node_time, order.old, task))
    for name, store in part.node_attrs.items():
        bits = "bfloat16" if store.dtype_name == "bfloat16" else None
        rows = take_rows(store, order.old, task)
        permuted.node_attrs[name] = FeatureTable.from_array(rows, dtype=bits)
    if NODE_IDS not in permuted.node_attrs:
        permuted.node_attrs[NODE_IDS] = order.old.copy()


def permute_edges(
    part: EdgeParts, permuted: EdgeParts, source: Permutation, target: Permutation, label: str,
    task: native.Task | None,
) -> None:  # fmt: skip
    """Fill ``permuted`` with the edges of one type between nodes in another order.

    It becomes what ``from_edges`` makes of the edges under their new ends, in the order of their
    ids: a list in which positions are ids holds them in the order that it had.
    """
    lists = part.any_lists
    ends = lists.ends(label)
    src, dst = ends[::-1] if lists is part.csc else ends
    edges = EdgeInput(_renamed(source, src, task), _renamed(target, dst, task))
    edges.weight, edges.time, edges.time_unit = part.edge_weight, part.edge_time, part.time_unit
    edges.attrs = dict(part.edge_attrs)
    edges.sort_by_time(None, part.num_src, part.num_dst)
    build_edges(permuted, edges, part.layout, part.edge_order is not None, task)
    permuted.time_unit = part.time_unit
    permuted.sorted_by = part.sorted_by & BY_SOURCE_TIME
    if part.edge_time is not None:
        permuted.sorted_by |= BY_EDGE_TIME
    if part.edge_order is not None and permuted.edge_order is not None:
        permuted.edge_order = read_only(take(part.edge_order, permuted.edge_order, task))


def _renamed(order: Permutation, ids: Ids, task: native.Task | None) -> Ids:
    """Put the new ids of nodes in the place of the old ones."""
    for some in stretches(len(ids), task):
        ids[some] = order.new[ids[some]]
    return ids


def checked_by_type(
    perms: Mapping[str, ArrayLike], counts: Mapping[str, int]
) -> dict[str, Permutation]:
    """Check an order for each node type; types without one keep theirs."""
    return {
        name: Permutation.checked(perms.get(name, np.arange(count)), count, f"perms[{name!r}]")
        for name, count in counts.items()
    }
