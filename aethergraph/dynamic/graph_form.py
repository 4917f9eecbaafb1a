"""GraphForm: the types of a live graph and what it keeps of each, as ``graph.json`` says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aethergraph._checks.arrays import as_count
from aethergraph.dynamic.forms import EdgeForm
from aethergraph.dynamic.node_times import (
    NODE_TIME,
    check_node_time,
    node_time_from_json,
    node_time_to_json,
)
from aethergraph.errors import InvalidArgumentError
from aethergraph.protocols import EdgeType

__all__ = ["MOST_NODES", "GraphForm"]

MOST_NODES = 2**32 - 1


@dataclass(frozen=True)
class GraphForm:
    """Form of a live graph: its types of nodes and edges, and the values that it keeps.

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
            limit = as_count(limit, "max_nodes")
            object.__setattr__(self, "max_nodes", limit)  # whatever integer it was
            if limit < max(1, largest):
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
