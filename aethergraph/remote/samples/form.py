"""Form of replies: which arrays there are, in which order, and how they become bytes.

::

    u64 key | u64 commit | u32 arrays n | u32 0 | u64 lengths[n] | array, zeros up to 8 | ...

Numbers are little-endian. Of each node type there are its ids, the seed that each was sampled for
(``batch``, if disjoint), new nodes per hop, and rows of attributes; of each edge type ``row``,
``col``, ids, edges per hop, and rows. So the bytes follow from key, commit, seeds and times alone.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph.errors import FormatError, LimitError
from aethergraph.graph.hetero import EdgeType
from aethergraph.protocols import RowSource
from aethergraph.remote import wire
from aethergraph.sampling.hetero import HeteroSubgraph
from aethergraph.sampling.subgraph import Subgraph

__all__ = ["AnySubgraph", "Content", "Field", "Form", "Rows", "structure"]

AnySubgraph = Subgraph | HeteroSubgraph
#: ``rows(type, name, ids, out)`` puts rows of a node type or an edge type into ``out``.
Rows = Callable[[Any, str, NDArray[np.int64], NDArray[Any]], None]

_HEAD = struct.Struct("<QQII")
_NODE_ARRAYS = ("node", "batch", "num_sampled_nodes")
_EDGE_ARRAYS = ("row", "col", "edge", "num_sampled_edges")
#: Most types that a form may have; a limit for what comes from elsewhere.
_MOST_FIELDS = 100_000
#: Ids of nodes are 32 bits in files; those of edges are positions.
_MOST_NODES, _MOST_EDGES = 2**32, 2**63


class Field(NamedTuple):
    """Array of a reply.

    Attributes:
        of_edges: False: of nodes.
        type: number of the node type or edge type.
        name: name of the array, or of the attribute.
        dtype: name of the dtype.
        shape: shape of an item.
        is_attr: True: rows of an attribute.
    """

    of_edges: bool
    type: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    is_attr: bool

    @property
    def array_dtype(self) -> np.dtype[Any]:
        """Numpy dtype: uint16 for bfloat16."""
        return np.dtype("uint16" if self.dtype == "bfloat16" else self.dtype)

    @property
    def item_bytes(self) -> int:
        """Bytes of an item."""
        return math.prod(self.shape) * self.array_dtype.itemsize

    def fits(self, rows: RowSource) -> bool:
        """Return whether rows of an attribute are of this kind."""
        return (rows.dtype_name, tuple(rows.row_shape)) == (self.dtype, self.shape)


class _Packing(NamedTuple):
    """Array of a reply, as it is packed and unpacked."""

    kind: Any
    name: str
    of_edges: bool
    is_attr: bool
    is_ids: bool
    is_hops: bool
    item_bytes: int
    array_dtype: np.dtype[Any]
    shape: tuple[int, ...]


class Content(NamedTuple):
    """Content of a reply; arrays are views of its bytes."""

    key: int
    commit: int
    subgraph: AnySubgraph
    node_attrs: dict[Any, Any]
    edge_attrs: dict[Any, Any]


@dataclass(frozen=True)
class Form:
    """Arrays of all replies of a service.

    Attributes:
        typed: the subgraphs are of many types.
        node_types: names of the node types.
        edge_types: edge types.
        fields: the arrays, in order.
        times: dtype of the times of seeds, ``"int64"`` or ``"float64"``; None: there are none.
        time_unit: their unit, if they are datetimes.
    """

    typed: bool
    node_types: tuple[str, ...]
    edge_types: tuple[EdgeType, ...]
    fields: tuple[Field, ...]
    times: str | None = None
    time_unit: str | None = None

    @cached_property
    def _packing(self) -> tuple[_Packing, ...]:
        """Facts of each array, worked out once and not for each reply."""
        return tuple(
            _Packing(
                self.type_of(field), field.name, field.of_edges, field.is_attr,
                field.name in ("node", "edge"), field.name.startswith("num_"),
                field.item_bytes, field.array_dtype, field.shape,
            )
            for field in self.fields
        )  # fmt: skip

    # ---- as JSON -------------------------------------------------------------------------------

    def told(self) -> dict[str, Any]:
        """Return all of it as an object of JSON."""
        return {
            "typed": self.typed, "node_types": list(self.node_types),
            "edge_types": [list(kind) for kind in self.edge_types],
            "fields": [[*field[:4], list(field.shape), field.is_attr] for field in self.fields],
            "times": self.times, "time_unit": self.time_unit,
        }  # fmt: skip

    @classmethod
    def of(cls, facts: Any) -> Form:
        """Return the form that :meth:`told` describes.

        Raises:
            ValueError, KeyError, TypeError, IndexError: it describes none.
        """
        form = cls(
            bool(facts["typed"]), tuple(map(str, facts["node_types"])),
            tuple((str(a), str(b), str(c)) for a, b, c in facts["edge_types"]),
            tuple(
                Field(
                    bool(of), int(number), str(name), str(dtype), tuple(map(int, shape)), bool(at)
                )
                for of, number, name, dtype, shape, at in facts["fields"]
            ),
            None if facts["times"] is None else str(facts["times"]),
            None if facts["time_unit"] is None else str(facts["time_unit"]),
        )  # fmt: skip
        if len(form.fields) > _MOST_FIELDS or form.times not in (None, "int64", "float64"):
            raise ValueError("a form that is none")
        for field in form.fields:
            types = form.edge_types if field.of_edges else form.node_types
            if field.dtype not in native.DTYPE_CODES or min(field.shape, default=0) < 0:
                raise ValueError("a form with an array that is none")
            if not 0 <= field.type < len(types):
                raise ValueError("a form with an array of no type")
        form._check_structure()
        if not form.typed and (len(form.node_types), len(form.edge_types)) != (1, 1):
            raise ValueError("a form of one type with several")
        return form

    def _check_structure(self) -> None:
        """Raise ValueError unless each type has the arrays of a sample, once."""
        names: dict[tuple[bool, int], list[str]] = {
            (of_edges, number): []
            for of_edges, types in ((False, self.node_types), (True, self.edge_types))
            for number in range(len(types))
        }
        for field in self.fields:
            if not field.is_attr:
                names[field.of_edges, field.type].append(field.name)
                if (field.dtype, field.shape) != ("int64", ()):
                    raise ValueError(f"a form whose {field.name} has other values than int64")
        for (of_edges, _), arrays in names.items():
            needed = {"row", "col", "edge"} if of_edges else {"node"}
            known = set(_EDGE_ARRAYS if of_edges else _NODE_ARRAYS)
            if len(set(arrays)) != len(arrays) or not needed <= set(arrays) <= known:
                raise ValueError(f"a form of a sample with the arrays {arrays[:9]}")

    def type_of(self, field: Field) -> Any:
        """Return the node type or edge type that an array is of."""
        return (self.edge_types if field.of_edges else self.node_types)[field.type]

    # ---- to bytes ------------------------------------------------------------------------------

    def pack(
        self,
        key: int,
        commit: int,
        subgraph: AnySubgraph,
        rows: Rows,
        room: Callable[[int], NDArray[np.uint8]],
    ) -> NDArray[np.uint8]:
        """Return the bytes of a reply.

        Args:
            key: the key that was drawn with.
            commit: number of the commit that it was drawn from.
            subgraph: what was drawn.
            rows: gathers rows of attributes.
            room: gives memory of so many bytes.

        Raises:
            LimitError: they are more than a frame holds.
        """
        count = len(self.fields)
        arrays: list[Any] = []
        lengths: list[int] = []
        at = _HEAD.size + 8 * count
        ids: Any = ()
        for packing in self._packing:
            values = ids
            if not packing.is_attr:
                values = getattr(subgraph, packing.name)
                if self.typed:
                    values = values[packing.kind]
                if packing.is_ids:
                    ids = values
            length = len(values)
            arrays.append(values)
            lengths.append(length)
            at += (length * packing.item_bytes + 7) & -8
        if at > wire.MAX_BODY:
            raise LimitError(
                f"the sample is {at} bytes, and a reply holds {wire.MAX_BODY}: give fewer seeds, "
                "or smaller fanouts"
            )
        memory = room(at)
        _HEAD.pack_into(memory.data, 0, key, commit, count, 0)
        struct.pack_into(f"<{count}Q", memory.data, _HEAD.size, *lengths)
        begin = _HEAD.size + 8 * count
        for packing, array, length in zip(self._packing, arrays, lengths, strict=True):
            end = begin + length * packing.item_bytes
            if packing.is_attr:
                out = memory[begin:end].view(packing.array_dtype).reshape(length, *packing.shape)
                rows(packing.kind, packing.name, array, out)
            else:
                memory[begin:end].view(np.int64)[:] = array
            begin = (end + 7) & -8
            if begin != end:
                memory[end:begin] = 0
        return memory

    # ---- from bytes ----------------------------------------------------------------------------

    def unpack(self, body: Any) -> Content:
        """Return what the bytes of a reply hold, as views of them.

        Raises:
            FormatError: they are not of this form, or name nodes that the sample has not.
        """
        end, count = len(body), len(self.fields)
        at = _HEAD.size + 8 * count
        if end < at:
            raise FormatError(f"a reply of {end} bytes, where {at} are the least")
        key, commit, num_arrays, zero = _HEAD.unpack_from(body)
        if num_arrays != count or zero:
            raise FormatError(f"a reply of {num_arrays} arrays, where {count} are due")
        arrays = []
        for packing, length in zip(
            self._packing, struct.unpack_from(f"<{count}Q", body, _HEAD.size), strict=True
        ):
            size = length * packing.item_bytes
            if size > end - at or length > wire.MAX_BODY:
                raise FormatError(f"a reply whose array {packing.name!r} ends behind it")
            if size:
                part = np.frombuffer(
                    body, packing.array_dtype, size // packing.array_dtype.itemsize, at
                )
            else:
                part = np.empty(0, packing.array_dtype)
            arrays.append(part.reshape(length, *packing.shape) if packing.shape else part)
            at += (size + 7) & -8
        if at != end:
            raise FormatError(f"a reply of {end} bytes, where {at} are due")
        content = self._content(key, commit, arrays)
        self._check(content.subgraph)
        return content

    def _check(self, subgraph: AnySubgraph) -> None:
        """Raise unless what a sample says of itself goes together: a model indexes by it."""

        def part(name: str, kind: Any) -> Any:
            values = getattr(subgraph, name, None)
            return values[kind] if self.typed and values is not None else values

        counts = {name: len(part("node", name)) for name in self.node_types}
        for name in self.node_types:
            _check_range(part("node", name), _MOST_NODES, "node")
            _check_hops(part("num_sampled_nodes", name), counts[name], "nodes")
        for kind in self.edge_types:
            ends = (kind[0], kind[2]) if self.typed else self.node_types * 2
            row, col, edge = (part(name, kind) for name in ("row", "col", "edge"))
            if len(row) != len(col) or len(row) != len(edge):
                raise FormatError("a reply whose edges have row, col and ids of several lengths")
            _check_range(row, counts[ends[0]], "row")
            _check_range(col, counts[ends[1]], "col")
            _check_range(edge, _MOST_EDGES, "edge")
            _check_hops(part("num_sampled_edges", kind), len(row), "edges")

    def _content(self, key: int, commit: int, arrays: Sequence[NDArray[Any]]) -> Content:
        attrs: tuple[dict[Any, Any], dict[Any, Any]] = ({}, {})
        if not self.typed:
            members: dict[str, Any] = {}
            for packing, array in zip(self._packing, arrays, strict=True):
                target = attrs[packing.of_edges] if packing.is_attr else members
                target[packing.name] = array.tolist() if packing.is_hops else array
            return Content(key, commit, Subgraph(**members), *attrs)
        parts: dict[str, dict[Any, Any]] = {}
        for packing, array in zip(self._packing, arrays, strict=True):
            if packing.is_attr:
                attrs[packing.of_edges].setdefault(packing.kind, {})[packing.name] = array
            else:
                values = array.tolist() if packing.is_hops else array
                parts.setdefault(packing.name, {})[packing.kind] = values
        return Content(key, commit, HeteroSubgraph(**parts), *attrs)


def _check_range(ids: NDArray[np.int64], count: int, name: str) -> None:
    # As unsigned numbers negative ones are large.
    if len(ids) and int(ids.view(np.uint64).max()) >= count:
        at = int((ids.view(np.uint64) >= count).argmax())
        raise FormatError(f"a reply whose {name}[{at}] = {ids[at]} is not in 0..{count - 1}")


def _check_hops(counts: Sequence[int] | None, total: int, noun: str) -> None:
    if counts is not None and (min(counts, default=0) < 0 or sum(counts) > total):
        raise FormatError(f"a reply of {total} {noun} that counts {list(counts)} by hop")


def structure(number: int, of_edges: bool, disjoint: bool, hops: bool) -> list[Field]:
    """Return the arrays, but for attributes, that a sample has of a type."""
    names = _EDGE_ARRAYS if of_edges else _NODE_ARRAYS
    left_out = () if disjoint else ("batch",)
    return [
        Field(of_edges, number, name, "int64", (), False)
        for name in names
        if name not in left_out and (hops or not name.startswith("num_"))
    ]
