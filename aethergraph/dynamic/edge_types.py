"""Edge types of a live graph: what each keeps, its rows by edge id, and its place over a base."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias

import numpy as np

from aethergraph import _native as native
from aethergraph.dynamic.base_graph import Base, BaseEdges
from aethergraph.dynamic.edge_ends import EndsById
from aethergraph.dynamic.forms import EdgeForm
from aethergraph.dynamic.rows import GrowingRows
from aethergraph.graph.parts import BY_EDGE_TIME, BY_SOURCE_TIME

__all__ = ["EdgeKind", "EdgeType", "make_kinds", "rows_room", "set_bases"]

EdgeType: TypeAlias = tuple[str, str, str]

#: Most bytes of the rows of one attribute.
_MOST_BYTES = 1 << 42


class EdgeKind:
    """Edge type of a live graph: its number, its form, and the rows by edge id.

    Args:
        name: the edge type.
        number: its number.
        form: what is kept of its edges.
        node_times: node types that have times.
        descriptors: files of rows by name, of another process.
        base: edges that there are already.
    """

    def __init__(
        self,
        name: EdgeType,
        number: int,
        form: EdgeForm,
        node_times: Collection[str],
        descriptors: Mapping[str, int] | None = None,
        base: BaseEdges | None = None,
    ) -> None:
        self.name, self.number, self.form, self.base = name, number, form, base
        #: True: lists of in-edges are in the order of the times of their sources.
        self.by_source = name[0] in node_times and not form.has_time and form.layout != "csr"
        fds = descriptors or {}

        def edge_rows(key: str, row_shape: tuple[int, ...], dtype_name: str) -> GrowingRows:
            room = rows_room(row_shape, dtype_name, 2**32)
            below = None if base is None or not base.num_edges else base.rows(key)
            return GrowingRows(
                row_shape, dtype_name, room, below, can_change=False, fd=fds.get(key)
            )

        self.attrs = {key: edge_rows(key, *rows) for key, rows in form.attrs.items()}
        #: Weights and times by edge id, to gather; draws read those in the lists.
        self.values: dict[str, GrowingRows] = {}
        if form.has_weight:
            self.values["edge_weight"] = edge_rows("edge_weight", (), "float32")
        if form.has_time:
            self.values["edge_time"] = edge_rows("edge_time", (), "int64")
        #: Ends by edge id, for those who ask by it.
        self.ends = EndsById()
        #: True: an edge is nothing but its ends.
        self.is_plain = not (self.attrs or self.values or self.by_source)

    @property
    def rows(self) -> dict[str, GrowingRows]:
        """All rows by edge id, by name."""
        return {**self.values, **self.attrs}

    @property
    def columns(self) -> int:
        """Columns of the native lists."""
        has_time = self.form.has_time or self.by_source
        return native.LIVE_TIMES * has_time | native.LIVE_WEIGHTS * self.form.has_weight

    @property
    def sorted_by(self) -> frozenset[tuple[str, str]]:
        """Lists that are in the order of times, and of which, as :class:`EdgeParts` has them."""
        if self.form.has_time:
            return BY_EDGE_TIME
        return BY_SOURCE_TIME if self.by_source else frozenset()


def make_kinds(
    edges: Mapping[EdgeType, EdgeForm], base: Base | None, node_times: Collection[str]
) -> dict[EdgeType, EdgeKind]:
    """Return the edge types by name, with rows that begin with those of a base, if there is one."""
    return {
        name: EdgeKind(
            name, number, form, node_times, base=None if base is None else base.edges[number]
        )
        for number, (name, form) in enumerate(edges.items())
    }


def set_bases(
    live: native.NativeLive, kinds: Mapping[EdgeType, EdgeKind], base: Base | None
) -> None:
    """Say to a native graph where the lists of a base are; None: it has none."""
    layouts: tuple[Literal["csc", "csr"], ...] = ("csc", "csr")
    if base is None:
        return
    for kind in kinds.values():
        below = base.edges[kind.number]
        for layout in layouts if below.num_edges else ():
            if kind.form.layout in (layout, "both"):
                live.set_base(kind.number, layout, below.lists(layout, by_source=kind.by_source))
    live.base_file = base


def rows_room(row_shape: tuple[int, ...], dtype_name: str, limit: int) -> int:
    """Return the rows of an attribute that there is room for, at most ``limit``."""
    size = native.ARRAY_DTYPES[native.DTYPE_CODES[dtype_name]].itemsize
    return min(limit, _MOST_BYTES // max(1, size * int(np.prod(row_shape))))
