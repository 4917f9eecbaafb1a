"""Forms of graphs: the types of a live graph and what it keeps of each, as ``graph.json`` says.

::

    arguments of a user ──FormRequest──> GraphForm <──> graph.json
    base, a graph file ────────────────────┘
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count
from aethergraph.dynamic.base_graph import Base
from aethergraph.dynamic.edge_types import EdgeType
from aethergraph.dynamic.forms import EdgeForm, EdgeOptions
from aethergraph.dynamic.node_times import (
    NODE_TIME,
    check_node_time,
    check_same_node_time,
    node_time_from_json,
    node_time_to_json,
)
from aethergraph.errors import InvalidArgumentError

__all__ = ["MOST_NODES", "FormRequest", "GraphForm", "check_same_count"]

MOST_NODES = 2**32 - 1


@dataclass(frozen=True)
class GraphForm:
    """What a live graph is made of, and keeps.

    Attributes:
        num_nodes: nodes by type, to begin with.
        edges: what is kept of the edges of each type.
        node_time: units of the times of nodes, by the types that have times; None: plain numbers.
        max_nodes: most nodes of a type there can be; None: 2^32 - 1.

    Raises:
        InvalidArgumentError: ``max_nodes`` is no such number, or nodes are too many.
    """

    num_nodes: Mapping[str, int]
    edges: Mapping[EdgeType, EdgeForm]
    node_time: Mapping[str, str | None] = field(default_factory=dict)
    max_nodes: int | None = None

    def __post_init__(self) -> None:
        limit, largest = self.max_nodes, max(self.num_nodes.values(), default=0)
        if largest > MOST_NODES:
            raise InvalidArgumentError(f"{largest} nodes are more than 2^32 - 1")
        if limit is not None:
            if as_count(limit, "max_nodes") < max(1, largest):
                raise InvalidArgumentError(f"max_nodes = {limit} is below num_vertices = {largest}")
            if limit > MOST_NODES:
                raise InvalidArgumentError(f"max_nodes = {limit} is not in 1..{MOST_NODES}")

    def to_json(self) -> dict[str, Any]:
        """Return the description that a directory keeps of its graph."""
        return {
            "num_nodes": dict(self.num_nodes),
            "edge_types": [[list(kind), form.to_json()] for kind, form in self.edges.items()],
            "max_nodes": None if self.max_nodes is None else int(self.max_nodes),
            **({NODE_TIME: node_time_to_json(self.node_time)} if self.node_time else {}),
        }

    @classmethod
    def from_json(
        cls, description: Mapping[str, Any], num_nodes: Mapping[str, int] | None = None
    ) -> GraphForm:
        """Return the form that a directory describes, with nodes as of its base, if it has one."""
        forms = {
            (kind[0], kind[1], kind[2]): EdgeForm.from_json(form)
            for kind, form in description["edge_types"]
        }
        return cls(
            num_nodes or description["num_nodes"], forms, node_time_from_json(description),
            description["max_nodes"],
        )  # fmt: skip

    def check_new(self) -> GraphForm:
        """Return the form, of a graph that begins without nodes where these have times.

        Raises:
            InvalidArgumentError: times of nodes that it cannot have.
        """
        check_node_time(self.node_time, self.num_nodes, self.edges)
        return self


class FormRequest:
    """What the arguments of ``open`` ask of a graph: all that it keeps, or what it has.

    Args:
        options: those of all edge types.
        node_time: dtypes of the times of nodes, by type; None: as they are.
        max_nodes: as of the graph; None: as it is.
    """

    def __init__(self, options: EdgeOptions, node_time: Any, max_nodes: Any) -> None:
        self._options, self._node_time, self._max_nodes = options, node_time, max_nodes

    @abstractmethod
    def new(self, path: native.Path) -> GraphForm:
        """Return the form of a graph that is made in a directory."""

    @abstractmethod
    def over(self, base: Base, progress: native.Progress | None) -> GraphForm:
        """Return the form of a graph that is made over a base."""

    @abstractmethod
    def same(self, form: GraphForm, path: native.Path) -> GraphForm:
        """Return the form of the graph that is there, with edge ids as they are asked for.

        Raises:
            InvalidArgumentError: it was made with others.
        """

    def _over(
        self, base: Base, nodes: Sequence[str], kinds: Sequence[EdgeType],
        progress: native.Progress | None,
    ) -> GraphForm:  # fmt: skip
        """Return a form with what a base has, which must be what is asked for.

        Args:
            base: the base.
            nodes: names of its node types in the live graph.
            kinds: names of its edge types there.
            progress: called with (done, total).
        """
        options, forms = self._options, {}
        for kind, edges in zip(kinds, base.edges, strict=True):
            form = edges.form("time" if options.order is None else options.order)
            forms[kind] = form.same(options)
            if options.order == "id":
                edges.check_sorted(progress)
            edges.check_by_source(progress)
        units = {
            name: base.node_time[own_name]
            for name, own_name in zip(nodes, base.graph.node_types, strict=True)
            if own_name in base.node_time
        }
        check_same_node_time(self._node_time, units, nodes)
        counts = dict(zip(nodes, base.num_nodes, strict=True))
        return GraphForm(counts, forms, units, self._max_nodes)

    def _same(self, form: GraphForm, options: Mapping[EdgeType, EdgeOptions]) -> GraphForm:
        """Return the form, with edge ids as they are asked for, which has all else that is."""
        check_same_count(self._max_nodes, form.max_nodes, "max_nodes")
        check_same_node_time(self._node_time, form.node_time, form.num_nodes)
        return replace(
            form, edges={kind: edges.same(options[kind]) for kind, edges in form.edges.items()}
        )


def check_same_count(argument: Any, count: int | None, name: str) -> None:
    """Raise unless an argument is None, or the count that a graph was made with.

    Raises:
        InvalidArgumentError: it is another, or no count; names it.
    """
    if argument is not None and as_count(argument, name) != count:
        raise InvalidArgumentError(
            f"the graph was made with {name} = {count}, not {argument}: leave it out"
        )
