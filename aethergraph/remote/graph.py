"""Graphs of a server: samplers ask for their lists hop by hop.

A hop asks for the lists of all its nodes, draws places, and asks for all ids: two questions for
each edge type, which go to all shards that have the rows at once, to each in requests of 4096
numbers. Which are drawn does not depend on where the lists are. The tables that are asked are those
of remote/graph_tables.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.arrays import as_count
from aethergraph._checks.options import as_choice, as_flag, shown
from aethergraph._native.asked import AskedLists
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.graph.foreign import ForeignGraph, as_graph
from aethergraph.graph.foreign_typed import ForeignHeteroGraph
from aethergraph.graph.hetero import EdgeType
from aethergraph.protocols import RowSource
from aethergraph.remote.address import Address, parse_address
from aethergraph.remote.graph_tables import PREFIX, GraphTypes
from aethergraph.remote.leased import Lease, LeasedLists, LeasedTypes, open_lease, other_lists
from aethergraph.remote.rows import RemoteRows

__all__ = ["open_graph"]

K = TypeVar("K")
#: Puts the values of edges, of places in their lists, into an array.
Answer: TypeAlias = "Callable[[int, NDArray[np.int64], NDArray[Any]], None]"


@overload
def open_graph(
    url: str, *, layout: str = ..., at: int | None = ..., typed: Literal[False]
) -> ForeignGraph: ...
@overload
def open_graph(
    url: str, *, layout: str = ..., at: int | None = ..., typed: Literal[True]
) -> ForeignHeteroGraph: ...
@overload
def open_graph(
    url: str, *, layout: str = ..., at: int | None = ..., typed: bool | None = ...
) -> ForeignGraph | ForeignHeteroGraph: ...
def open_graph(
    url: str, *, layout: str = "csc", at: int | None = None, typed: bool | None = None
) -> ForeignGraph | ForeignHeteroGraph:
    """Open a graph that a server has; samplers and loaders draw from it as from a local one.

    ::

        graph = open_graph("tcp://10.0.0.1:9999?token_file=token&ca=cert.pem")
        for batch in SubgraphLoader(graph, [15, 10], train_ids, batch_size=1024): ...

    The same key draws the same samples as from the file that is served (``aethergraph serve
    graph.aeg --graph``). A hop takes a request for each 4096 of its nodes and each 4096 of its
    edges, to all shards at once and several of each under way; in typed graphs for each edge type.
    Attributes of nodes and edges are there, each as :func:`open_source` opens it. Several addresses
    are those of shards.

    Weights and times of edges stay at the server: batches have those of their edges, and
    :attr:`edge_weight` and :attr:`edge_time`, arrays of all, are None. Draws ask for them as they
    go, which is slow: with times, say ``is_sorted=True``, or all are read once, as are times that
    are no integers. Only typed graphs know the unit of times. Times of nodes are read into memory.

    A live graph (``aethergraph serve g.aegd``) is there as of one commit, which the server holds
    for ``--lease`` seconds at most, and until the graph and all that was made of it (samplers,
    loaders) are closed or collected; 10 s more if the process ended without that, or the graph was
    pickled. Load it again for what has changed since. Copies in other processes are of the same
    commit, whose number :attr:`lsn` is.

    Args:
        url: as in :func:`open_source`, without a table; the name of a live graph, if the server has
            several.
        layout: ``"csc"`` for lists of in-edges, ``"csr"`` for lists of out-edges.
        at: of a live graph, number of the commit: that of a graph which another client has loaded
            and not closed, or the last one. None: the last one.
        typed: True: open a graph with one type of nodes and one of edges as a typed one, too;
            False: refuse any other. None: whatever it is.

    Returns:
        A typed graph if the server's graph has several types of nodes or edges, or ``typed``, else
        one of one type; both are as :func:`aethergraph.as_graph` makes them.

    Raises:
        InvalidArgumentError: the server has no graph with such lists.
        UnsupportedError: several types, with ``typed=False``.
        OutOfRangeError: the server does not have the commit ``at``.
        LimitError: the server holds commits for as many clients as it may.
        SnapshotExpiredError: while samples are drawn, of a live graph: the server does not hold the
            commit any more.
        ServerTimeoutError: a server is not reached in time, also while samples are drawn; names it.
        StorageError, FormatError: as for :func:`open_source`.
    """
    typed = None if typed is None else as_flag(typed, "typed")
    source: Any
    graph: ForeignGraph | ForeignHeteroGraph
    lease = _open_lease(url, layout, at)
    if lease is not None:
        if typed is False and lease.facts.typed:
            lease.close()
            raise _several(url, len(lease.facts.nodes), len(lease.facts.relations))
        of_types = lease.facts.typed or bool(typed)
        source = (LeasedTypes if of_types else LeasedLists)(url, layout, lease)
        graph = as_graph(source, layout=layout)
        return graph
    tables = _open_tables(url, layout)
    types = tables.types
    is_many = types is not None and not types.is_one
    if types is not None and is_many and typed is False:
        raise _several(url, len(types.nodes), len(types.edges))
    source = (_RemoteTypes if is_many or typed else _RemoteLists)(url, layout, tables)
    graph = as_graph(source, layout=layout)
    return graph


def _several(url: str, nodes: int, edges: int) -> UnsupportedError:
    return UnsupportedError(
        f"{url}: {nodes} node types and {edges} edge types, and typed=False asks for one of each: "
        "leave it out"
    )


class _Tables(NamedTuple):
    """Tables of a server with the rows of all edge types; None: there is no such table.

    Attributes:
        address: where the server is.
        names: names of all of its tables.
        types: types of the graph; None: the server does not tell, and it has one of each.
        lists: place and degree by node.
        ids: nodes by place.
        edges: edges by place; None: places are the ids of edges.
        weights: weights by edge.
        times: times by edge.
        node_times: times by node.
    """

    address: Address
    names: tuple[str, ...]
    types: GraphTypes | None
    lists: RemoteRows
    ids: RemoteRows
    edges: RemoteRows | None
    weights: RemoteRows | None
    times: RemoteRows | None
    node_times: RemoteRows | None


def _open_lease(url: str, layout: str, at: int | None) -> Lease | None:
    """Take a lease if the server's graph is a live one, else return None."""
    as_choice(layout, ("csc", "csr"), "layout")
    address = parse_address(url)
    if address.scheme == "shm":
        raise InvalidArgumentError(f"{url}: a file on this machine is Graph.load(path)")
    return open_lease(address, None if at is None else as_count(at, "at"))


def _open_tables(url: str, layout: str) -> _Tables:
    address = parse_address(url)
    place = f"{PREFIX}{layout}"
    try:
        lists = RemoteRows(address.named(f"{place}/lists"))
    except InvalidArgumentError as error:
        label = f" {shown(address.name)}" if address.name else ""
        raise InvalidArgumentError(
            f"{url}: no graph{label} with the lists {layout!r} could be opened: {error}"
        ) from None

    def table(name: str) -> RemoteRows | None:
        return RemoteRows(address.named(name)) if name in lists.names else None

    types_table, types = table(f"{PREFIX}types"), None
    if types_table is not None:
        types = GraphTypes.unpack(types_table.array, url)
        types_table.close()
    return _Tables(
        address, lists.names, types, lists, RemoteRows(address.named(f"{place}/ids")),
        table(f"{place}/edges"), table(f"{PREFIX}edge_weight"), table(f"{PREFIX}edge_time"),
        table(f"{PREFIX}node_time"),
    )  # fmt: skip


def _layouts(tables: _Tables) -> list[str]:
    """Return the layouts that the server has lists of."""
    return [name for name in ("csc", "csr") if f"{PREFIX}{name}/lists" in tables.names]


def _draws_by(times: RemoteRows | None) -> bool:
    """Return whether a topology takes these times: it does so for integers alone."""
    return times is not None and times.dtype_name == "int64"


class _Stretch(RowSource):
    """Values of one edge type in a table with those of all."""

    def __init__(self, rows: RemoteRows, begin: int, count: int) -> None:
        self.rows, self.begin, self._count = rows, begin, count

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of all rows."""
        return (self._count,)

    @property
    def dtype_name(self) -> str:
        """Name of the dtype."""
        return self.rows.dtype_name

    def gather_into(self, ids: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Set ``out[i]`` to the value of edge ``ids[i]``."""
        self.rows.gather_into(ids + self.begin, out)


class _Range(NamedTuple):
    """Rows of one edge type in the tables: where each begins; None: the type has no such values."""

    lists: int = 0
    ids: int = 0
    weights: int | None = 0
    times: int | None = 0


def _ask(tables: _Tables, begin: _Range) -> Answer:
    """Return what answers the questions of a topology by the rows of one edge type."""
    lists, ids, edges, weights, times = (
        tables.lists, tables.ids, tables.edges, tables.weights, tables.times
    )  # fmt: skip

    def answer(question: int, numbers: NDArray[np.int64], out: NDArray[Any]) -> None:
        if question == AskedLists.LISTS:
            lists.gather(numbers + begin.lists, out)
        elif question == AskedLists.IDS:
            out[:] = ids.gather(numbers + begin.ids)
        else:
            edge_ids = numbers if edges is None else edges.gather(numbers + begin.ids)
            if question == AskedLists.EDGES:
                out[:] = edge_ids
            elif question == AskedLists.WEIGHTS:
                assert weights is not None and begin.weights is not None
                out[:] = weights.gather(edge_ids + begin.weights)
            else:
                assert times is not None and begin.times is not None
                out[:] = times.gather(edge_ids + begin.times)

    return answer


class _RemoteLists:
    """Lists of a server's graph, as a :class:`aethergraph.protocols.TopologySource`."""

    #: The order of the input, if the file has it, stays at the server.
    renumbers_edges = True

    def __init__(self, url: str, layout: str, tables: _Tables | None = None) -> None:
        self._url, self._layout = url, layout
        tables = _open_tables(url, layout) if tables is None else tables
        count = tables.lists.num_rows
        self._asked = AskedLists(
            count, count, tables.ids.num_rows, _ask(tables, _Range()),
            edge_ids_are_positions=tables.edges is None,
            weights=tables.weights is not None, times=_draws_by(tables.times),
        )  # fmt: skip
        self.topology = self._asked.handle
        self.other_lists = other_lists(url, layout, _layouts(tables))
        values = {"edge_weight": tables.weights, "edge_time": tables.times}
        self.edge_values = {name: rows for name, rows in values.items() if rows is not None}
        self.node_attrs, self.edge_attrs = _attributes(tables.address, tables.names)
        if tables.node_times is not None:
            self.node_time = tables.node_times.array

    def __reduce__(self) -> tuple[Any, ...]:
        return _RemoteLists, (self._url, self._layout)

    def __repr__(self) -> str:
        return f"_RemoteLists({self._url!r})"


class _RemoteEdges(NamedTuple):
    """Lists of one edge type of a server's typed graph; see ``fill_edges`` for the members."""

    lists: AskedLists
    other_lists: str
    edge_values: dict[str, RowSource]
    edge_attrs: dict[str, RowSource]

    @property
    def topology(self) -> Any:
        """Address of the topology."""
        return self.lists.handle


class _RemoteTypes:
    """Lists of a server's typed graph, as a :class:`aethergraph.protocols.TypedGraphSource`."""

    #: The order of the input, if the file has it, stays at the server.
    renumbers_edges = True

    def __init__(self, url: str, layout: str, tables: _Tables | None = None) -> None:
        self._url, self._layout = url, layout
        tables = _open_tables(url, layout) if tables is None else tables
        types = tables.types
        if types is None:
            raise InvalidArgumentError(
                f"{url}: the server does not tell the types of its graph: open_graph opens it"
            )
        self._check(tables, types)
        self.num_nodes = types.nodes
        self.time_unit, self.time_zone, self.time_attr = types[-3:]
        near = [kind[2] if layout == "csc" else kind[0] for kind in types.edges]
        lists = _begins(types.edges, [types.nodes[name] for name in near])
        ids = _begins(types.edges, list(types.edges.values()))
        weights = _begins(types.weighted, [types.edges[kind] for kind in types.weighted])
        times = _begins(types.timed, [types.edges[kind] for kind in types.timed])
        values: dict[EdgeType, dict[str, RowSource]] = {kind: {} for kind in types.edges}
        for name, rows, begins in (
            ("edge_weight", tables.weights, weights), ("edge_time", tables.times, times)
        ):  # fmt: skip
            for kind, at in begins.items() if rows is not None else ():
                assert rows is not None
                values[kind][name] = _Stretch(rows, at, types.edges[kind])
        if not _draws_by(tables.times):
            times = {}
        asked_lists = {
            kind: AskedLists(
                types.nodes[to], types.nodes[kind[0] if layout == "csc" else kind[2]], count,
                _ask(tables, _Range(lists[kind], ids[kind], weights.get(kind), times.get(kind))),
                edge_ids_are_positions=tables.edges is None,
                weights=kind in weights, times=kind in times,
            )
            for (kind, count), to in zip(types.edges.items(), near, strict=True)
        }  # fmt: skip
        advice = other_lists(url, layout, _layouts(tables))
        attrs = _open_all(tables, types.edge_attrs)
        self.edges = {
            kind: _RemoteEdges(lists, advice, values[kind], attrs.get(kind, {}))
            for kind, lists in asked_lists.items()
        }
        self.node_time = {}
        if tables.node_times is not None:
            all_times, timed = tables.node_times.array, types.timed_nodes
            for name, at in _begins(timed, [types.nodes[node_type] for node_type in timed]).items():
                self.node_time[name] = all_times[at : at + types.nodes[name]]
        self.node_attrs = _open_all(tables, types.node_attrs)

    def _check(self, tables: _Tables, types: GraphTypes) -> None:
        """Raise InvalidArgumentError unless the tables have the rows that the types tell of."""
        ends = [kind[2] if self._layout == "csc" else kind[0] for kind in types.edges]
        for name, table, counts in (
            ("lists", tables.lists, [types.nodes[end] for end in ends]),
            ("ids", tables.ids, list(types.edges.values())),
            ("edges", tables.edges, list(types.edges.values())),
            ("weights", tables.weights, [types.edges[kind] for kind in types.weighted]),
            ("times", tables.times, [types.edges[kind] for kind in types.timed]),
            (
                "times of nodes",
                tables.node_times,
                [types.nodes[name] for name in types.timed_nodes],
            ),
        ):
            if table is not None and table.num_rows != sum(counts):
                raise InvalidArgumentError(
                    f"{self._url}: the table of {name} has {table.num_rows} rows, but the types of "
                    f"the graph have {sum(counts)}"
                )

    def __reduce__(self) -> tuple[Any, ...]:
        return _RemoteTypes, (self._url, self._layout)

    def __repr__(self) -> str:
        return f"_RemoteTypes({self._url!r})"


def _begins(types: Collection[K], counts: Sequence[int]) -> dict[K, int]:
    """Return where the rows of each type begin in a table with those of all of them."""
    return dict(zip(types, itertools.accumulate(counts, initial=0), strict=False))


def _open_all(
    tables: _Tables, named: Mapping[K, Mapping[str, str]]
) -> dict[K, dict[str, RowSource]]:
    """Return the rows of attributes by type and name, of the named tables that the server has."""
    return {
        kind: {
            attr: RemoteRows(tables.address.named(table))
            for attr, table in attrs.items()
            if table in tables.names
        }
        for kind, attrs in named.items()
    }


def _attributes(
    address: Address, names: tuple[str, ...]
) -> tuple[Mapping[str, RowSource], Mapping[str, RowSource]]:
    nodes: dict[str, RowSource] = {}
    edges: dict[str, RowSource] = {}
    for name in names:
        if not name.startswith(PREFIX):
            of_edges = name.startswith("edges/")
            table = edges if of_edges else nodes
            table[name.removeprefix("edges/")] = RemoteRows(address.named(name))
    return nodes, edges
