"""Graphs of a server: their lists are tables of rows, which samplers ask for hop by hop.

::

    table               rows                                   of
    graph/csc/lists     uint64 [num_nodes, 2]: place, degree   the list of each node
    graph/csc/ids       int64 [num_edges]                      the node at each place
    graph/csr/edges     int64 [num_edges]                      the edge at each place; csc: itself
    graph/edge_weight   float [num_edges]                      edges; edge_time alike
    graph/node_time     int64 or float64 [num_nodes]           nodes

A hop asks for the lists of all its nodes, draws places, and asks for all ids: two questions, which
go to all shards at once, to each in requests of 4096 numbers. Which are drawn does not depend on
where the lists are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_ids
from aethergraph._checks.options import as_choice
from aethergraph._native.asked import AskedLists
from aethergraph.errors import InvalidArgumentError
from aethergraph.features.table import check_rows
from aethergraph.graph import Graph, as_graph
from aethergraph.graph.foreign import ForeignGraph
from aethergraph.protocols import RowSource
from aethergraph.remote.address import Address, parse_address
from aethergraph.remote.rows import RemoteRows

__all__ = ["graph_tables", "open_graph"]

_PREFIX = "graph/"
#: Numbers of some ids.
Get: TypeAlias = "Callable[[NDArray[np.int64]], NDArray[Any]]"


class _Table(RowSource):
    """Numbers of a graph by id, as a function gives them."""

    def __init__(
        self, shape: tuple[int, ...], dtype_name: str, fingerprint: str | None, get: Get
    ) -> None:
        self._shape, self._dtype_name, self._fingerprint = shape, dtype_name, fingerprint
        self._get = get

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def dtype_name(self) -> str:
        return self._dtype_name

    @property
    def fingerprint(self) -> str | None:
        return self._fingerprint

    def gather(
        self, ids: ArrayLike, out: NDArray[Any] | None = None, dtype: DTypeLike | str | None = None
    ) -> NDArray[Any]:
        own = as_ids(ids, "ids")
        check_rows(own, self.num_rows)
        return self._get(own)


def graph_tables(graph: Graph, fingerprint: str | None = None) -> dict[str, RowSource]:
    """Return the lists, weights and times of a graph as tables by name.

    Args:
        graph: the graph, with any ``storage``.
        fingerprint: identity of its file; clients of a server that is started again with the same
            file go on. None: they open the graph anew.
    """
    found: dict[str, RowSource] = {}

    def add(name: str, shape: tuple[int, ...], dtype: str, get: Get) -> None:
        own = None if fingerprint is None else f"{fingerprint}/{name}"
        found[_PREFIX + name] = _Table(shape, dtype, own, get)

    for layout in ("csc", "csr"):
        if graph.layout not in (layout, "both"):
            continue
        topology = graph.topology(layout)
        shape = (topology.num_edges,)
        add(f"{layout}/lists", (topology.num_major, 2), "uint64", _lists_of(topology))
        add(f"{layout}/ids", shape, "int64", topology.ids_at)
        if not topology.edge_ids_are_positions:
            add(f"{layout}/edges", shape, "int64", topology.edge_ids_at)
    for of in ("node", "edge"):
        for name, rows in graph.value_stores(of).items():
            add(name, rows.shape, rows.dtype_name, rows.gather)
    return found


def _lists_of(topology: native.NativeTopology) -> Get:
    """Return what gives place and degree of the lists of nodes."""
    offsets, guard = topology.indptr, topology.guard
    assert offsets is not None

    def get(nodes: NDArray[np.int64]) -> NDArray[np.uint64]:
        rows = np.empty((len(nodes), 2), np.uint64)
        with native.reading(guard):
            rows[:, 0] = offsets[nodes]
            rows[:, 1] = offsets[nodes + 1]
        rows[:, 1] -= rows[:, 0]
        return rows

    return get


def open_graph(url: str, *, layout: str = "csc") -> ForeignGraph:
    """Open a graph that a server has; samplers and loaders draw from it as from a local one.

    ::

        graph = open_graph("tcp://10.0.0.1:9999?token_file=token&ca=cert.pem")
        for batch in SubgraphLoader(graph, [15, 10], train_ids, batch_size=1024): ...

    The same key draws the same samples as from the file that is served (``aethergraph serve
    graph.aeg --graph``). A hop takes a request for each 4096 of its nodes and each 4096 of its
    edges, to all shards at once and several of each under way. Attributes of nodes and edges are
    there, each as :func:`open_source` opens it. Several addresses are those of shards.

    Weights and times of edges stay at the server, and draws ask for them as they go, which is slow:
    with times, say ``is_sorted=True``, or all are read once. Times of edges are int64, and without
    their unit. Times of nodes are read into memory.

    Args:
        url: as in :func:`open_source`, without a table.
        layout: ``"csc"`` for lists of in-edges, ``"csr"`` for lists of out-edges.

    Raises:
        InvalidArgumentError: the server has no graph with such lists.
        ServerTimeoutError: a server is not reached in time, also while samples are drawn; names it.
        StorageError: as for :func:`open_source`.
    """
    return as_graph(_RemoteLists(url, as_choice(layout, ("csc", "csr"), "layout")), layout=layout)


class _RemoteLists:
    """Lists of a server's graph, as a :class:`aethergraph.protocols.TopologySource`."""

    def __init__(self, url: str, layout: str) -> None:
        self._url, self._layout = url, layout
        address = parse_address(url)
        if address.scheme == "shm":
            raise InvalidArgumentError(f"{url}: a file on this machine is Graph.load(path)")
        place = f"{_PREFIX}{layout}"
        self._lists = RemoteRows(address.named(f"{place}/lists"))
        names = self._lists.names

        def table(name: str) -> RowSource | None:
            return RemoteRows(address.named(name)) if name in names else None

        self._ids = RemoteRows(address.named(f"{place}/ids"))
        self._edges = table(f"{place}/edges")
        self._weight, self._time = table(f"{_PREFIX}edge_weight"), table(f"{_PREFIX}edge_time")
        if self._time is not None and self._time.dtype_name != "int64":
            self._time = None  # samplers take the times of a topology for integers
        self._asked = AskedLists(
            self._lists.num_rows, self._ids.num_rows, self._answer,
            edge_ids_are_positions=self._edges is None,
            weights=self._weight is not None, times=self._time is not None,
        )  # fmt: skip
        self.topology = self._asked.handle
        self.node_attrs, self.edge_attrs = _attributes(address, names)
        times = table(f"{_PREFIX}node_time")
        if times is not None:
            self.node_time = times.array

    def _answer(self, what: int, numbers: NDArray[np.int64], out: NDArray[Any]) -> None:
        asked = AskedLists
        if what == asked.LISTS:
            self._lists.gather(numbers, out)
        elif what == asked.IDS:
            out[:] = self._ids.gather(numbers)
        else:
            edges = numbers
            if self._edges is not None:
                edges = self._edges.gather(numbers)
            if what == asked.EDGES:
                out[:] = edges
            elif what == asked.WEIGHTS:
                assert self._weight is not None
                out[:] = self._weight.gather(edges)
            else:
                assert self._time is not None
                out[:] = self._time.gather(edges)

    def __reduce__(self) -> tuple[Any, ...]:
        return _RemoteLists, (self._url, self._layout)

    def __repr__(self) -> str:
        return f"_RemoteLists({self._url!r})"


def _attributes(
    address: Address, names: tuple[str, ...]
) -> tuple[Mapping[str, RowSource], Mapping[str, RowSource]]:
    nodes: dict[str, RowSource] = {}
    edges: dict[str, RowSource] = {}
    for name in names:
        if not name.startswith(_PREFIX):
            of_edges = name.startswith("edges/")
            table = edges if of_edges else nodes
            table[name.removeprefix("edges/")] = RemoteRows(address.named(name))
    return nodes, edges
