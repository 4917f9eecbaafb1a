"""Form of the graph that a bounded build makes, and the protocol of its source of edges."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from aethergraph._checks.options import as_choice, as_flag
from aethergraph.convert.arguments import as_optional_count
from aethergraph.convert.readers.edges import EdgeChunk, Position
from aethergraph.errors import InvalidArgumentError

__all__ = ["EdgeSource", "GraphForm"]


class EdgeSource(Protocol):
    """Source of edges that can be read again from where a chunk ended."""

    @property
    def num_nodes(self) -> int:
        """Number of nodes that the inputs themselves give; 0 if they give none."""
        ...

    def chunks(self, start: Position) -> Iterator[tuple[Position, EdgeChunk]]:
        """Yield checked edges, and the position where each chunk ends."""
        ...


@dataclass(frozen=True)
class GraphForm:
    """Form of the graph to build; see :func:`convert` for the options."""

    layout: Literal["csc", "csr", "both"] = "csc"
    keep_order: bool = False
    undirected: bool = False
    dedup: bool = False
    num_nodes: int | None = None
    compress: bool = False

    def __post_init__(self) -> None:
        put = functools.partial(object.__setattr__, self)  # the class is frozen
        put("layout", as_choice(self.layout, ("csc", "csr", "both"), "layout"))
        for name in ("keep_order", "undirected", "dedup", "compress"):
            put(name, as_flag(getattr(self, name), name))
        put("num_nodes", as_optional_count(self.num_nodes, "num_nodes"))
        if self.undirected and self.keep_order:
            raise InvalidArgumentError(
                "keep_order keeps the input row of every edge, which the reverse edges of "
                "undirected do not have: leave one of them out"
            )

    def check_within_budget(self) -> None:
        """Raise InvalidArgumentError if this form can only be built in memory."""
        if self.dedup and self.keep_order:
            raise InvalidArgumentError(
                "a build within a memory budget cannot keep the order (keep_order) of edges that "
                "are left after dedup: leave one of them out, or the budget"
            )

    @property
    def carries_rows(self) -> bool:
        """True if records carry their input row."""
        return self.keep_order or self.undirected or self.layout == "both"
