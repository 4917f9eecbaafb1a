"""Live graphs of a server: samplers ask for the lists of one commit, which it holds for them.

::

    Lease ── one endpoint for all tables of the commit; each connection takes part in the lease
      ├── LeasedRows       rows of an attribute
      ├── LeasedLists      lists of a graph of one type, as a TopologySource
      └── LeasedTypes      lists by edge type, as a TypedGraphSource

Positions in the lists are those of the server's memory, of which there are far more than edges.
Only the server that gave them understands them, so what it does not hold any more is an error
that tells to load the graph again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.options import shown
from aethergraph._native.asked import AskedLists
from aethergraph.errors import InvalidArgumentError
from aethergraph.features.table import RowTable
from aethergraph.graph.hetero import EdgeType
from aethergraph.protocols import RowSource
from aethergraph.remote import wire
from aethergraph.remote.address import Address
from aethergraph.remote.endpoint import Connection, Endpoint

__all__ = ["Lease", "LeasedLists", "LeasedRows", "LeasedTypes", "open_lease", "other_lists"]

#: Most bytes of a description.
_DESCRIPTION = 4 << 20
#: Questions to lists, by their names in descriptions.
_QUESTIONS = {
    "lists": AskedLists.LISTS,
    "ids": AskedLists.IDS,
    "edges": AskedLists.EDGES,
    "weights": AskedLists.WEIGHTS,
    "times": AskedLists.TIMES,
}

#: Names of the values of edges.
_VALUES = ("edge_weight", "edge_time")


class _Attr(NamedTuple):
    """Attribute as a server describes it."""

    name: str
    number: int
    shape: tuple[int, ...]
    dtype: str
    is_live: bool

    @classmethod
    def of(cls, facts: Any) -> _Attr:
        name, number, shape, dtype, is_live = facts
        attr = cls(str(name), int(number), tuple(map(int, shape)), str(dtype), bool(is_live))
        if attr.dtype not in native.DTYPE_CODES or min(attr.shape, default=-1) < 0:
            raise ValueError("an attribute that is none")
        return attr


class _Relation(NamedTuple):
    """Edge type as a server describes it."""

    kind: EdgeType
    num_edges: int
    end_edge_ids: int
    sorted_by: tuple[str, ...]
    attrs: tuple[_Attr, ...]
    #: Weights and times by edge id.
    values: tuple[_Attr, ...]
    #: Numbers of tables by question, by layout.
    lists: dict[str, dict[int, int]]

    @classmethod
    def of(cls, facts: Any) -> _Relation:
        source, relation, target = map(str, facts["type"])
        lists = {
            str(layout): {_QUESTIONS[question]: int(number) for question, number in tables.items()}
            for layout, tables in facts["lists"].items()
        }
        edge_type = cls(
            (source, relation, target), int(facts["edges"]), int(facts["end"]),
            tuple(map(str, facts["sorted"])), tuple(map(_Attr.of, facts["attrs"])),
            tuple(map(_Attr.of, facts["values"])), lists,
        )  # fmt: skip
        need = {AskedLists.LISTS, AskedLists.IDS, AskedLists.EDGES}
        if not all(need <= set(tables) for tables in lists.values()):
            raise ValueError("lists that nobody can ask for")
        if not 0 <= edge_type.num_edges <= edge_type.end_edge_ids < 2**63:
            raise ValueError("edges that contradict each other")
        for attr in edge_type.values:
            if attr.name not in _VALUES or attr.shape != (edge_type.end_edge_ids,):
                raise ValueError("values that are none of edges")
        return edge_type


class _Facts(NamedTuple):
    """Commit of a live graph, and the lease of it, as a server describes them."""

    lease: str
    graph: str
    commit: int
    seconds: float
    typed: bool
    nodes: dict[str, int]
    node_attrs: dict[str, tuple[_Attr, ...]]
    relations: tuple[_Relation, ...]
    time_unit: str | None
    time_zone: str | None
    time_attr: str | None
    #: Times of nodes, by node type; of servers before they had some nothing.
    node_values: dict[str, tuple[_Attr, ...]]

    @property
    def called(self) -> str:
        """Name of what is opened, in messages."""
        return "lists"

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> _Facts:
        description = cls(
            str(facts["lease"]), str(facts["graph"]), int(facts["commit"]), float(facts["seconds"]),
            bool(facts["typed"]),
            {str(kind): int(count) for kind, count, _ in facts["nodes"]},
            {str(kind): tuple(map(_Attr.of, attrs)) for kind, _, attrs in facts["nodes"]},
            tuple(map(_Relation.of, facts["edges"])), facts["time_unit"], facts["time_zone"],
            facts["time_attr"],
            {str(k): tuple(map(_Attr.of, values)) for k, values in facts.get("node_values", [])},
        )  # fmt: skip
        ends = {
            end
            for relation in description.relations
            for end in (relation.kind[0], relation.kind[2])
        }
        counts = description.nodes.values()
        if not ends <= set(description.nodes) or not all(0 <= count < 2**63 for count in counts):
            raise ValueError("nodes that contradict each other")
        for kind, values in description.node_values.items():
            for attr in values:
                if attr.name != "node_time" or attr.shape != (description.nodes[kind],):
                    raise ValueError("values that are none of nodes")
        if not description.typed and (len(description.nodes), len(description.relations)) != (1, 1):
            raise ValueError("one type with several")
        return description

    def is_as(self, before: _Facts) -> bool:
        """Return whether it is the same lease."""
        return self.lease == before.lease

    def difference(self, before: _Facts) -> str:
        """Say how it differs."""
        return f"commit {self.commit}, before {before.commit}"


_NOTHING = _Facts("", "", 0, 0.0, True, {}, {}, (), None, None, None, {})


class _Asking:
    """Question of a new connection: for a lease, then to take part in it."""

    def __init__(self, at: int | None, token: str | None) -> None:
        self._at, self._token = at, token

    def __call__(self, connection: Connection, name: str) -> _Facts:
        request: dict[str, Any] = {"graph": name, "at": self._at}
        if self._token is not None:
            request = {"lease": self._token}
        body = connection.ask(wire.LEASE, wire.pack_facts(request), max_bytes=_DESCRIPTION)
        facts = wire.unpack_facts(body)
        if not facts:
            return _NOTHING
        try:
            description = _Facts.of(facts)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            raise wire.WireError("a description that cannot be read") from None
        self._token = description.lease
        return description


class Lease:
    """Commit of a live graph that a server holds for this process, and those that copies go to.

    Args:
        address: where the server is; the name, if there is one, is that of the graph.
        at: number of the commit; None: the last one.
        token: name of a lease that was taken before, which is joined.

    Raises:
        SnapshotExpiredError: the lease has ended.
        OutOfRangeError: the server does not have the commit.
    """

    def __init__(self, address: Address, at: int | None = None, token: str | None = None) -> None:
        self._address, self._at = address, at
        # No method of this object: it would only be let go of when the collector comes.
        self.endpoint = Endpoint(address, address.locations[0], _Asking(at, token), leaves=True)
        self.facts: _Facts = self.endpoint.table

    @property
    def is_there(self) -> bool:
        """False if the server has no live graph of this name."""
        return self.facts is not _NOTHING

    def gather(
        self, number: int, ids: NDArray[np.int64], out: NDArray[Any],
        task: native.Task | None = None,
    ) -> None:  # fmt: skip
        """Set ``out[i]`` to row ``ids[i]`` of a table."""
        if len(ids):
            with native.working_for(task):  # which ends waits, too
                self.endpoint.run(
                    lambda connection: connection.gather(ids, out, task, number).finish(), task
                )

    def close(self) -> None:
        """Close the connections; the server then holds the commit no longer.

        A lease that was pickled lasts a moment more, in which a copy can still take part in it.
        """
        self.endpoint.close()

    def __reduce__(self) -> tuple[Any, ...]:
        self.endpoint.leaves = False  # the copy has no connection yet
        return Lease, (self._address, self._at, self.facts.lease)


class LeasedRows(RowTable):
    """Rows of an attribute of a live graph, as of the commit that the server holds."""

    def __init__(self, lease: Lease, attr: _Attr) -> None:
        self._lease, self._attr = lease, attr
        self._set_form(native.dtype_code(attr.dtype), attr.shape)

    def gather_into(self, ids: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Set ``out[i]`` to row ``ids[i]``, as the server sends it."""
        self.check_open()
        number = self._attr.number
        native.run_long(
            lambda task: self._lease.gather(number, ids, out, task), None, out.nbytes
        )  # fmt: skip

    @property
    def array(self) -> NDArray[Any]:
        """All rows, read at each use."""
        return self.read(0, self._num_rows)

    @property
    def is_live(self) -> bool:
        """True if the rows change by themselves, and are of no commit."""
        return self._attr.is_live

    @property
    def storage(self) -> str:
        """``"tcp"`` or ``"unix"``."""
        return self._lease.endpoint.scheme

    def close(self) -> None:
        """Drop the rows; the lease stays."""
        self._is_closed = True

    def __reduce__(self) -> tuple[Any, ...]:
        self.check_open()
        return LeasedRows, (self._lease, self._attr)

    def __repr__(self) -> str:
        return f"LeasedRows({self._attr.name!r}, shape={self.shape}, dtype={self.dtype_name})"


def open_lease(address: Address, at: int | None = None, token: str | None = None) -> Lease | None:
    """Take a lease of a server's live graph; None: it has none of this name.

    Raises:
        InvalidArgumentError: there are several servers, and the first has a live graph; or none
            has, and a commit was asked for.
    """
    lease = Lease(address, at, token)
    if not lease.is_there:
        lease.close()
        if at is not None:
            raise InvalidArgumentError(
                f"{address.url}: at = {at} is for live graphs, and the server has none of this name"
            )
        return None
    if len(address.locations) > 1:
        lease.close()
        raise InvalidArgumentError(
            f"{address.url}: the lists of a live graph are at one server, give its address alone"
        )
    return lease


def _tables(relation: _Relation, layout: str, url: str) -> dict[int, int]:
    tables = relation.lists.get(layout)
    if tables is None:
        raise InvalidArgumentError(
            f"{url}: the edges {shown(relation.kind)} have no lists {layout!r}; there are: "
            f"{', '.join(relation.lists)}"
        )
    return tables


def _ask(
    lease: Lease, relation: _Relation, layout: str, nodes: Mapping[str, int], url: str
) -> AskedLists:
    """Return the lists of an edge type, which ask the server."""
    tables = _tables(relation, layout, url)
    ends = relation.kind[2], relation.kind[0]
    major, minor = ends if layout == "csc" else ends[::-1]

    def answer(question: int, numbers: NDArray[np.int64], out: NDArray[Any]) -> None:
        lease.gather(tables[question], numbers, out)

    return AskedLists(
        nodes[major], nodes[minor], relation.num_edges, answer, edge_ids_are_positions=False,
        weights=AskedLists.WEIGHTS in tables, times=AskedLists.TIMES in tables,
        end_positions=2**63 - 1, end_edge_ids=relation.end_edge_ids,
    )  # fmt: skip


def other_lists(url: str, layout: str, names: Collection[str]) -> str:
    """Say how to come to the lists of the other layout; ``names``: layouts of the server."""
    other_layout = "csr" if layout == "csc" else "csc"
    if other_layout in names:
        return f"open_graph({url!r}, layout={other_layout!r}) opens it with these"
    return "and the server has no others: build the graph there with layout='both'"


def _rows(lease: Lease, attrs: tuple[_Attr, ...]) -> dict[str, RowSource]:
    return {attr.name: LeasedRows(lease, attr) for attr in attrs}


class _LeasedEdges:
    """Lists of one edge type of a live graph; see ``fill_edges`` for the members."""

    def __init__(self, url: str, layout: str, lease: Lease, relation: _Relation) -> None:
        self._asked = _ask(lease, relation, layout, lease.facts.nodes, url)
        self.topology = self._asked.handle
        self.other_lists = other_lists(url, layout, relation.lists)
        self.edge_attrs = _rows(lease, relation.attrs)
        self.edge_values = _rows(lease, relation.values)
        self.sorted_by = relation.sorted_by
        if layout == "csr":  # whose order times of sources are not
            self.sorted_by = tuple(name for name in relation.sorted_by if name != "node_time")


class LeasedLists(_LeasedEdges):
    """Lists of a live graph of one type, as a :class:`aethergraph.protocols.TopologySource`."""

    def __init__(self, url: str, layout: str, lease: Lease) -> None:
        description = lease.facts
        [relation], [(kind, _)] = description.relations, description.nodes.items()
        super().__init__(url, layout, lease, relation)
        self._url, self._layout, self._lease = url, layout, lease
        self.node_attrs = _rows(lease, description.node_attrs[kind])
        self.node_values = _rows(lease, description.node_values.get(kind, ()))
        #: Number of the commit in the log of the graph.
        self.lsn = description.commit
        self.time_unit = description.time_unit

    def close(self) -> None:
        """Let go of the commit."""
        self._lease.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return LeasedLists, (self._url, self._layout, self._lease)

    def __repr__(self) -> str:
        return f"LeasedLists({self._url!r}, at={self.lsn})"


class LeasedTypes:
    """Lists of a live graph by edge type, as a :class:`aethergraph.protocols.TypedGraphSource`."""

    def __init__(self, url: str, layout: str, lease: Lease) -> None:
        description = lease.facts
        self._url, self._layout, self._lease = url, layout, lease
        self.num_nodes, self.lsn = description.nodes, description.commit
        self.time_unit, self.time_zone = description.time_unit, description.time_zone
        self.time_attr = description.time_attr
        self.edges = {
            relation.kind: _LeasedEdges(url, layout, lease, relation)
            for relation in description.relations
        }
        self.node_attrs = {
            kind: _rows(lease, attrs) for kind, attrs in description.node_attrs.items()
        }
        self.node_values = {
            kind: _rows(lease, values) for kind, values in description.node_values.items()
        }

    def close(self) -> None:
        """Let go of the commit."""
        self._lease.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return LeasedTypes, (self._url, self._layout, self._lease)

    def __repr__(self) -> str:
        return f"LeasedTypes({self._url!r}, at={self.lsn})"
