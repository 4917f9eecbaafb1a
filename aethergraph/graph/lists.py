"""Adjacency lists of one direction, with what is worked out of them once."""

from __future__ import annotations

import mmap
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import STRETCH, allocate, empty, read_only, stretches
from aethergraph.errors import CorruptFileError, OutOfRangeError
from aethergraph.graph.orders import sorting_order, take
from aethergraph.storage.memory import check_memory

__all__ = ["Lists", "RawLists", "SharedEnds", "sum_weights"]

Ids = NDArray[np.int64]
_PAGE = mmap.PAGESIZE
#: (indptr, ids, edge ids) of one direction; edge ids are None if positions are edge ids.
RawLists = tuple[NDArray[np.uint64], NDArray[Any] | native.CompressedIds, NDArray[Any] | None]


class SharedEnds(Protocol):
    """Ends of edges by edge id that lists of several commits share."""

    def known(self, topology: native.NativeTopology) -> tuple[Ids, Ids, Ids]:
        """Return (edge id, major, minor) by edge id, of all edges of the lists, or of more."""


class Lists:
    """One direction of the adjacency: the native topology and its arrays, read-only.

    Caches the tables that random walks and weighted samplers draw from; each is built on first use.
    """

    __slots__ = (
        "_alias", "_by_edge", "_entries", "_members", "_raw", "_shared", "_sums", "topology",
    )  # fmt: skip

    def __init__(
        self,
        raw: RawLists,
        num_minor: int,
        guard: native.FileGuard | None,
        topology: native.NativeTopology | None = None,
        path: str | None = None,
    ) -> None:
        indptr, ids, edge_ids = raw
        arrays = (
            read_only(indptr),
            ids if isinstance(ids, native.CompressedIds) else read_only(ids),
            None if edge_ids is None else read_only(edge_ids),
        )
        self._set(topology or native.NativeTopology(*arrays, num_minor, guard, path), arrays)

    @classmethod
    def adopted(cls, topology: native.NativeTopology, shared: SharedEnds | None = None) -> Lists:
        """Return the lists of a topology without arrays; those that are asked for are read."""
        self = cls.__new__(cls)
        self._set(topology, None)
        self._shared = shared
        return self

    def _set(self, topology: native.NativeTopology, raw: RawLists | None) -> None:
        self.topology = topology
        self._raw = raw
        self._entries: tuple[NDArray[Any], NDArray[Any] | None] | None = None
        self._alias: NDArray[np.uint64] | None = None
        self._members: NDArray[Any] | None = None
        self._sums: native.NativeSums | None = None
        self._by_edge: tuple[Ids, Ids, Ids] | None = None
        self._shared: SharedEnds | None = None

    def alias(self, weights: NDArray[Any], guard: native.FileGuard | None) -> NDArray[np.uint64]:
        """Return the alias table of ``weights`` (by edge id), which must be equal in all calls."""
        if self._alias is None:
            self._alias = native.run_long(
                lambda task: native.build_alias(self.topology, weights, guard, task),
                None,
                8 * self.topology.num_edges,
            )
        return self._alias

    def sums(self, weights: NDArray[Any], guard: native.FileGuard | None) -> native.NativeSums:
        """Return the sums of ``weights`` (by edge id), which must be equal in all calls."""
        if self._sums is None:
            self._sums = sum_weights(self.topology, weights, guard)
        return self._sums

    def members(self) -> NDArray[Any]:
        """Return the table that answers whether an edge exists."""
        if self._members is None:
            self._members = native.run_long(
                lambda task: native.build_members(self.topology, task),
                None,
                self.topology.num_edges * self.topology.id_dtype.itemsize,
            )
        return self._members

    # ---- arrays ----------------------------------------------------------------------------

    @property
    def raw(self) -> RawLists:
        """``(indptr, ids, edge_ids)`` as stored, ids perhaps compressed; else read, and kept."""
        if self._raw is None:
            count = self.topology.num_major + 1
            check_memory(8 * count, f"the offsets of {count - 1} lists")
            offsets = allocate(lambda: np.zeros(count, np.uint64), f"{count} offsets")
            np.cumsum(self.degrees(), out=offsets[1:])
            self._raw = (read_only(offsets), *self._read())
            self._entries = None
        return self._raw

    def _read(self) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return the ids and edge ids of all lists, read from the topology, and kept."""
        if self._entries is None:
            nodes = self.topology.listed()
            if nodes is None:
                nodes = np.arange(self.topology.num_major)
            with_edges = not self.edge_ids_are_places
            ids, edges = self.topology.neighbors(nodes, with_edges=with_edges)
            self._entries = (
                read_only(ids.astype(self.topology.id_dtype)),
                None if edges is None else read_only(edges),
            )
        return self._entries

    def degrees(self) -> Ids:
        """Return the length of every list, int64.

        Of lists that were never written to, neither the list nor its length takes memory.
        """
        listed, count = self.topology.listed(), self.topology.num_major
        if listed is None:
            return self.topology.degrees(None)
        check_memory(min(8 * count, _PAGE * len(listed)), f"the lengths of {count} lists")
        out = allocate(lambda: np.zeros(count, np.int64), f"the lengths of {count} lists")
        out[listed] = self.topology.degrees(listed)
        return out

    @property
    def indptr(self) -> NDArray[np.uint64]:
        """Offsets of the lists, read-only."""
        return self.raw[0]

    @property
    def ids(self) -> NDArray[Any] | native.CompressedIds:
        """Ids of all lists, read-only, or compressed."""
        return self._read()[0] if self._raw is None else self._raw[1]

    @property
    def edge_ids(self) -> NDArray[Any] | None:
        """Edge ids by place in the lists, read-only; None if ids are places."""
        return self._read()[1] if self._raw is None else self._raw[2]

    @property
    def edge_ids_are_places(self) -> bool:
        """True if the edge at place i, counted through all lists, has the id i."""
        return self.topology.edge_ids_are_positions and self.topology.is_dense

    @property
    def edge_ids_by_place(self) -> NDArray[Any]:
        """Edge ids by place in the lists."""
        edges = self.edge_ids
        return np.arange(self.topology.num_edges) if edges is None else edges

    def ends(self, label: str) -> tuple[Ids, Ids]:
        """Return the nodes of all lists by place: whose list it is, and who is in it.

        Raises:
            CorruptFileError: the offsets are damaged; names ``label``.
        """
        count, listed = self.topology.num_edges, self.topology.listed()
        degrees = self.topology.degrees(listed)
        if int(degrees.sum()) != count:
            raise CorruptFileError(f"{label}: the list offsets are damaged; run verify")
        if self.topology.is_dense:
            minor = self.topology.ids(0, count, np.dtype(np.int64))
        else:
            minor = self.indices.astype(np.int64)
        major = _repeat(degrees, count)
        return major if listed is None else listed[major], minor

    def edges_by_id(self, label: str) -> tuple[Ids, Ids, Ids]:
        """Return all edges by id: their ids, and the nodes that :meth:`ends` has by place.

        Raises:
            CorruptFileError: the offsets are damaged; names ``label``.
        """
        major, minor = self.ends(label)
        ids = self.edge_ids_by_place.astype(np.int64)
        order = None if self.edge_ids_are_places else sorting_order(ids)
        if order is None:
            return ids, major, minor
        return take(ids, order), take(major, order), take(minor, order)

    def ends_of(self, edges: Ids, label: str) -> tuple[Ids, Ids]:
        """Return the nodes of ``edges`` as :meth:`ends` does, by a table that is made once.

        Raises:
            OutOfRangeError: an edge does not exist; names its position.
        """
        if self._shared is not None:
            major, minor = _look_up(self._shared.known(self.topology), edges)
            positions = self.topology.find(major, minor)[1]
            self.check_there(edges, positions)
            return major, minor
        if self._by_edge is None:
            self._by_edge = self.edges_by_id(label)
        return _look_up(self._by_edge, edges)

    def positions_of(self, edges: Ids, end_lists: Lists, label: str) -> Ids:
        """Return the positions of ``edges`` in these lists, ascending.

        ``end_lists`` are the lists that :meth:`ends_of` is asked of, these or the other direction.

        Raises:
            OutOfRangeError: an edge does not exist; names its position.
        """
        if end_lists._shared is not None:
            ends = _look_up(end_lists._shared.known(end_lists.topology), edges)
        else:
            ends = end_lists.ends_of(edges, label)
        matches = self.topology.find(*(ends if end_lists is self else ends[::-1]))
        positions = np.unique(matches[1])  # also those of duplicates, which have other ids
        if end_lists._shared is not None:
            self.check_there(edges, positions)
        return positions[np.isin(self.topology.edge_ids_at(positions), edges)]

    def check_there(self, edges: Ids, positions: Ids) -> None:
        """Raise unless all of ``edges`` are among those at ``positions``.

        Raises:
            OutOfRangeError: an edge does not exist; names its position.
        """
        is_edge = np.isin(edges, self.topology.edge_ids_at(positions))
        if not is_edge.all():
            raise _no_edge(edges, is_edge)

    @property
    def compressed(self) -> bool:
        """True if the ids are compressed."""
        return self._raw is not None and isinstance(self._raw[1], native.CompressedIds)

    @property
    def indices(self) -> NDArray[Any]:
        """Ids of all lists, read-only. Compressed ids are decoded anew on every access."""
        ids = self.ids
        if not isinstance(ids, native.CompressedIds):
            return ids
        count, dtype = len(ids), ids.dtype
        decoded = native.run_long(
            lambda task: self.topology.ids(0, count, dtype, task), None, count * dtype.itemsize
        )
        return read_only(decoded)

    def length(self, node: int) -> int:
        """Return the length of the list of ``node``."""
        return native.degree_of(self.topology, node)

    def neighbors(self, node: int) -> Ids:
        """Return the neighbours in the list of ``node``, int64."""
        return native.neighbors_of(self.topology, node)

    def holds(self, node: int, other: int) -> bool:
        """Return whether the list of ``node`` holds ``other``."""
        return native.is_in_list(self.topology, node, other)

    def edges(self, node: int) -> Ids:
        """Return the edge ids of the list of ``node``, int64."""
        edges = self.topology.neighbors(np.array([node], np.int64), with_edges=True)[1]
        assert edges is not None
        return edges


def _look_up(by_edge: tuple[Ids, Ids, Ids], edges: Ids) -> tuple[Ids, Ids]:
    known, major, minor = by_edge
    places = np.searchsorted(known, edges)
    is_edge = places < len(known)
    is_edge[is_edge] = known[places[is_edge]] == edges[is_edge]
    if not is_edge.all():
        raise _no_edge(edges, is_edge)
    return major[places], minor[places]


def _no_edge(edges: Ids, is_edge: NDArray[np.bool_]) -> OutOfRangeError:
    at = int(is_edge.argmin())
    return OutOfRangeError(
        f"edges[{at}] = {edges[at]} is the id of no edge", position=at, value=int(edges[at])
    )


def _repeat(times: Ids, total: int) -> Ids:
    """Repeat every index ``i`` of ``times`` ``times[i]`` times; ``total`` is the sum."""
    out = empty(total, np.int64, f"{total} edges")
    end = 0
    for some in stretches(len(times)):
        nodes = np.arange(some.start, some.stop, dtype=np.int64)
        some_times = times[some]
        begin, end = end, end + int(some_times.sum())
        if end - begin <= 4 * STRETCH:
            out[begin:end] = np.repeat(nodes, some_times)
            continue
        ends = begin + np.cumsum(some_times)
        for low in range(begin, end, STRETCH):
            edges = np.arange(low, min(low + STRETCH, end))
            out[edges[0] : edges[-1] + 1] = nodes[np.searchsorted(ends, edges, side="right")]
    return out


def sum_weights(
    topology: native.NativeTopology, weights: NDArray[Any], guard: native.FileGuard | None
) -> native.NativeSums:
    """Return the sums of ``weights`` (by edge id) over the lists of ``topology``."""
    return native.run_long(
        lambda task: native.NativeSums(topology, weights, guard, task), None, weights.nbytes
    )
