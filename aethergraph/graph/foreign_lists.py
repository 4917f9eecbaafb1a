"""Edges of graphs of others: lists, weights, times and attributes of one type, checked once.

::

    indptr, indices (edge_ids) ──┐
                                 ├── lists_of ──> Lists ── fill_edges ──> EdgeParts
    topology ────────────────────┘                           edge_weight, edge_time, edge_attrs
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import (
    as_float_values,
    as_ids,
    check_weights,
    read_only,
    to_array,
)
from aethergraph._checks.times import as_times, check_unit
from aethergraph.errors import CorruptFileError, InvalidArgumentError, OutOfRangeError
from aethergraph.graph.attributes import AttributeTable
from aethergraph.graph.ids import name_id
from aethergraph.graph.lists import Lists
from aethergraph.graph.parts import EdgeParts

__all__ = ["adopt_lists", "fill_edges", "read_attributes", "read_lists", "unit_of_source"]


def adopt_lists(source: Any, owner: object) -> Lists:
    """Return the lists of the topology in C that ``source`` has the address of.

    Args:
        source: object with the member ``topology``.
        owner: object that keeps the topology alive.
    """
    return Lists.adopted(native.NativeTopology.adopt(source.topology, owner))


def read_lists(source: Any, num_major: int, num_minor: int, label: str = "") -> Lists:
    """Return the lists in the arrays of ``source``, checked and not copied where possible.

    Args:
        source: object with the members ``indptr`` and ``indices``, and perhaps ``edge_ids``.
        num_major: number of nodes that have lists.
        num_minor: number of nodes that may be in them.
        label: stands before the names of the members in messages.
    """
    indptr = _unsigned(source.indptr, f"{label}indptr")
    indices = _unsigned(source.indices, f"{label}indices")
    edges = len(indices)
    if len(indptr) != num_major + 1:
        raise InvalidArgumentError(
            f"{label}indptr has {len(indptr)} offsets, but num_nodes = {num_major} needs "
            f"{num_major + 1}"
        )
    offsets = np.ascontiguousarray(indptr, np.uint64)
    at = _first_wrong(offsets, None, edges, num_minor)
    if at is not None:
        raise InvalidArgumentError(
            f"{label}indptr must ascend from 0 to num_edges = {edges}: {label}indptr[{at}] = "
            f"{_signed(indptr, at)}",
            position=at,
        )
    at = _first_wrong(offsets, indices, edges, num_minor)
    if at is not None:
        error = OutOfRangeError("", position=at, value=_signed(indices, at))
        raise name_id(error, f"{label}indices", num_minor)
    ids = getattr(source, "edge_ids", None)
    if ids is not None:
        ids = _edge_ids(ids, edges, f"{label}edge_ids")
    return Lists((offsets, indices, ids), num_minor, None)


def _first_wrong(
    offsets: NDArray[np.uint64], indices: NDArray[Any] | None, num_edges: int, num_nodes: int
) -> int | None:
    """Return the position of the first wrong offset, or of the first wrong id if there are ids."""
    size = offsets.nbytes if indices is None else indices.nbytes
    try:
        native.run_long(
            lambda task: native.check_lists(offsets, indices, num_edges, num_nodes, task),
            None,
            size,
        )
    except (CorruptFileError, OutOfRangeError) as error:
        return error.position or 0
    return None


def _unsigned(values: Any, name: str) -> NDArray[Any]:
    """Return integers as uint32 or uint64, in their own memory if they are of 4 or 8 bytes."""
    array = to_array(values, name)
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 4 or not array.dtype.isnative:
        array = as_ids(values, name)
    if array.ndim != 1:
        raise InvalidArgumentError(f"{name} must be a vector, got shape {array.shape}")
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def _signed(array: NDArray[Any], at: int) -> int:
    """Return a number as it was before :func:`_unsigned`, if it was negative."""
    return int(array[at : at + 1].view(f"i{array.dtype.itemsize}")[0])


def _edge_ids(values: Any, num_edges: int, name: str) -> NDArray[Any]:
    """Return the edge id at each place; each edge has to be there once."""
    ids = _unsigned(values, name)
    if len(ids) != num_edges:
        raise InvalidArgumentError(f"{name} has {len(ids)} ids, but num_edges = {num_edges}")
    outside = ids >= num_edges
    if outside.any():
        at = int(outside.argmax())
        error = OutOfRangeError("", position=at, value=_signed(ids, at))
        raise name_id(error, name, num_edges, "edges")
    place = np.full(num_edges, -1, np.int64)
    place[ids] = np.arange(num_edges)
    twice = place[ids] != np.arange(num_edges)
    if twice.any():
        at = int(twice.argmax())
        raise InvalidArgumentError(
            f"{name}[{at}] = {ids[at]} and {name}[{place[ids[at]]}] are equal: each edge has "
            "an id of its own",
            position=at,
        )
    return ids


def unit_of_source(source: Any) -> str | None:
    """Return the unit of times that are plain numbers, or in a topology, if the source has one.

    Raises:
        InvalidArgumentError: numpy has no such unit.
    """
    unit: str | None = getattr(source, "time_unit", None)
    if unit is not None:
        check_unit(unit, "time_unit")
    return unit


def fill_edges(
    parts: EdgeParts, lists: Lists, layout: str, source: Any, time_unit: str | None, label: str = ""
) -> None:
    """Put lists and what ``source`` has beside them into the parts of one edge type.

    Args:
        parts: parts without lists; their attributes are ids of edges, which may have gaps.
        lists: the lists.
        layout: their layout, ``"csc"`` or ``"csr"``.
        source: object with perhaps the members ``edge_weight``, ``edge_time``, ``edge_attrs``; of
            lists elsewhere ``edge_values``, ``sorted_by`` and ``other_lists``, too.
        time_unit: unit of times in a topology and of those that are plain numbers.
        label: stands before the names of the members in messages.
    """
    topology = lists.topology
    parts.edge_attrs = AttributeTable("edge", topology.end_edge_ids)
    if layout == "csc":
        parts.csc, other_layout = lists, "csr"
    else:
        parts.csr, other_layout = lists, "csc"
    ways = "in" if other_layout == "csc" else "out"
    advice = f"give lists of {ways}-edges, which as_graph(source, layout={other_layout!r}) takes"
    parts.other_lists = getattr(source, "other_lists", advice)
    if topology.has_own_times:
        parts.time_unit = time_unit
        parts.sorted_by.update((layout, name) for name in getattr(source, "sorted_by", ()))
    weight, time = (getattr(source, name, None) for name in ("edge_weight", "edge_time"))
    if weight is not None:
        name = f"{label}edge_weight"
        values = as_float_values(weight, topology.end_edge_ids, name, "num_edges")
        check_weights(values, name)
        parts.edge_weight = read_only(values)
    if time is not None:
        name = f"{label}edge_time"
        times, unit = as_times(time, topology.end_edge_ids, name, "num_edges")
        parts.edge_time, parts.time_unit = read_only(times), unit or time_unit
    parts.elsewhere.update(getattr(source, "edge_values", {}))
    attrs = getattr(source, "edge_attrs", None)
    read_attributes(attrs, parts.edge_attrs, f"{label}edge_attrs", of_type=bool(label))


def read_attributes(attrs: Any, table: AttributeTable, name: str, *, of_type: bool = False) -> None:
    """Attach rows by name; None: there are none.

    With ``of_type`` all messages begin with ``name``, which tells of which type the rows are.
    """
    if attrs is None:
        return
    if not isinstance(attrs, Mapping):
        raise InvalidArgumentError(
            f"{name} goes by name, {{name: rows}}, got {type(attrs).__name__}"
        )
    for key, rows in attrs.items():
        try:
            table[key] = rows
        except InvalidArgumentError as error:
            if not of_type:
                raise
            raise type(error)(f"{name}: {error}") from None
