"""Parts of a graph built from an edge list: values in edge order, lists sorted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_float_values, check_weights, read_only
from aethergraph._checks.times import as_times, to_one_unit
from aethergraph.errors import InvalidArgumentError, OutOfMemoryError, OutOfRangeError
from aethergraph.features.adapters import attribute_store
from aethergraph.features.feature_table import FeatureTable
from aethergraph.graph.attributes import check_attr_name
from aethergraph.graph.ids import name_id
from aethergraph.graph.lists import Lists
from aethergraph.graph.orders import inverse, sorting_order, take, take_rows
from aethergraph.graph.parts import EdgeParts, NodeParts
from aethergraph.protocols import FeatureSource, RowSource
from aethergraph.storage.memory import check_memory

__all__ = ["EdgeInput", "build_edges", "read_node_time", "share_unit"]

Ids = NDArray[np.int64]
#: More nodes than this times the edges suggest that ids are not numbered 0 .. num_nodes - 1.
_SPARSE = 64


@dataclass
class EdgeInput:
    """Checked edge list with its values, in input order."""

    source: Ids
    target: Ids
    weight: NDArray[Any] | None = None
    time: NDArray[Any] | None = None
    time_unit: str | None = None
    attrs: dict[str, RowSource] = field(default_factory=dict)
    #: Input row of each edge after the edges were reordered, uint32 or uint64; None before.
    rank: NDArray[Any] | None = None
    #: True if each list is to be sorted by id.
    sort_neighbors: bool = False

    def read_values(
        self,
        weight: ArrayLike | None,
        time: ArrayLike | None,
        attrs: Mapping[str, FeatureSource | ArrayLike] | None,
    ) -> None:
        """Check and store the weights, times and attributes of the edges."""
        edges = len(self.source)
        if weight is not None:
            self.weight = as_float_values(weight, edges, "edge_weight", "num_edges")
            check_weights(self.weight, "edge_weight")
        if time is not None:
            self.time, self.time_unit = as_times(time, edges, "edge_time", "num_edges")
        if attrs is not None and not isinstance(attrs, Mapping):
            raise InvalidArgumentError(
                f"edge_attrs goes by name, {{name: rows}}, got {type(attrs).__name__}"
            )
        for name, value in (attrs or {}).items():
            check_attr_name(name, "edge")
            self.attrs[name] = attribute_store(value, edges, f"edge_attrs[{name!r}]", "num_edges")

    def sort_by_time(self, node_time: NDArray[Any] | None, num_src: int, num_dst: int) -> None:
        """Sort the edges by their own times, else by the times of their sources."""
        if self.time is None and node_time is None:
            return
        if self.sort_neighbors:
            raise InvalidArgumentError(
                "sort_neighbors puts the edges of a list in order of id, times put them in order "
                "of time: leave one of them out"
            )
        self._check_ids("src", self.source, num_src)
        self._check_ids("dst", self.target, num_dst)
        if self.time is not None:
            self.rank = sorting_order(self.time)
        else:
            assert node_time is not None
            self.rank = sorting_order(take(node_time, self.source))
        if self.rank is not None:
            self.source, self.target = take(self.source, self.rank), take(self.target, self.rank)

    def sort_by_id(self, layout: str, parts: EdgeParts, task: native.Task | None) -> None:
        """Reorder the edges so that every list is sorted by id."""
        for by_source in (False, True):
            if layout == ("csr" if by_source else "csc"):
                continue
            before, self.rank = self.rank, None
            order = self.sort(by_source, parts, True, task)[2]
            assert order is not None
            self.source = take(self.source, order, task)
            self.target = take(self.target, order, task)
            self.rank = order if before is None else take(before, order, task)

    def _check_ids(self, name: str, ids: Ids, count: int) -> None:
        low, high = native.id_bounds(ids)
        if len(ids) and not (low >= 0 and high < count):
            at = int(((ids < 0) | (ids >= count)).argmax())
            raise name_id(OutOfRangeError("", position=at, value=int(ids[at])), name, count)

    def _why_so_many(self, count: int) -> str:
        """Explain which id asks for ``count`` nodes, and what to do about it."""
        named = [("src", self.source), ("dst", self.target)]
        name, ids = max(named, key=lambda pair: int(pair[1].max(initial=-1)))
        at = int(ids.argmax()) if len(ids) else -1
        if at < 0 or ids[at] < count - 1:
            return f"num_nodes = {count} is far more than the {len(ids)} edges need"
        row = at if self.rank is None else int(self.rank[at])
        return (
            f"ids are 0..num_nodes-1 without large gaps, and {name}[{row}] = {ids[at]} is the "
            "largest; map other ids first: known, ids = numpy.unique(numpy.concatenate([src, dst])"
            ", return_inverse=True)"
        )

    @property
    def carries(self) -> bool:
        """True if values have to follow the edges into their new order."""
        return self.weight is not None or self.time is not None or bool(self.attrs)

    def sort(
        self, by_source: bool, parts: EdgeParts, with_order: bool, task: native.Task | None
    ) -> tuple[NDArray[np.uint64], NDArray[Any], NDArray[Any] | None]:
        """Group by target (or source): return indptr, indices, and the input row by position."""
        ends = [(self.target, parts.num_dst), (self.source, parts.num_src)]
        (major, num_major), (minor, num_minor) = ends[::-1] if by_source else ends
        try:
            check_memory(8 * (num_major + 1), f"a static graph of {num_major} nodes")
            indptr, indices, order = native.build_lists(
                major, minor, num_major, num_minor,
                id_bytes=native.id_bytes_for(num_minor), with_order=with_order, task=task,
            )  # fmt: skip
        except OutOfMemoryError as error:
            if num_major <= _SPARSE * (len(major) + 1):
                raise
            raise OutOfMemoryError(f"{error}; {self._why_so_many(num_major)}") from None
        except OutOfRangeError as error:
            if error.position is None:
                raise
            if not 0 <= int(self.source[error.position]) < parts.num_src:
                raise name_id(error, "src", parts.num_src) from None
            raise name_id(error, "dst", parts.num_dst) from None
        if order is not None and self.rank is not None:
            order = take(self.rank, order, task)
        return indptr, indices, order


def read_node_time(parts: NodeParts, node_time: ArrayLike, name: str = "node_time") -> None:
    """Check the times of the nodes, ``name`` in messages, and store a copy."""
    times, parts.time_unit = as_times(node_time, parts.num_nodes, name, "num_nodes")
    parts.node_time = read_only(times.copy())


def share_unit(nodes: Mapping[Any, NodeParts], edges: Mapping[Any, EdgeInput]) -> None:
    """Convert the times of all types to one unit, since a seed's time is compared with all.

    Raises:
        InvalidArgumentError: see :func:`to_one_unit`.
    """
    timed_nodes = [(kind, node) for kind, node in nodes.items() if node.node_time is not None]
    timed_edges = [(kind, edge) for kind, edge in edges.items() if edge.time is not None]
    labelled: list[tuple[str, Any, str | None]] = []
    for kind, node in timed_nodes:
        labelled.append((_of_type("node_time", kind), node.node_time, node.time_unit))
    for kind, edge in timed_edges:
        labelled.append((_of_type("edge_time", kind), edge.time, edge.time_unit))
    arrays, unit = to_one_unit(labelled)
    if unit is None:
        return
    for (_, node), times in zip(timed_nodes, arrays, strict=False):
        node.node_time, node.time_unit = read_only(times), unit
    for (_, edge), times in zip(timed_edges, arrays[len(timed_nodes) :], strict=True):
        edge.time, edge.time_unit = times, unit


def _of_type(name: str, kind: Any) -> str:
    return name if kind is None else f"{name}[{kind!r}]"


def build_edges(
    parts: EdgeParts, edges: EdgeInput, layout: str, keep_order: bool, task: native.Task | None
) -> None:
    """Build the lists of ``parts`` and put the values of the edges into edge-id order."""
    if edges.sort_neighbors:
        edges.sort_by_id(layout, parts, task)
    want_order = keep_order or edges.carries or layout == "both"
    indptr, indices, order = edges.sort(layout == "csr", parts, want_order, task)
    if layout == "csr":
        parts.csr = Lists((indptr, indices, None), parts.num_dst, None)
    else:
        parts.csc = Lists((indptr, indices, None), parts.num_src, None)
    if order is None:
        return
    if layout == "both":
        indptr, indices, rows = edges.sort(True, parts, True, task)
        assert rows is not None
        parts.csr = Lists((indptr, indices, _edge_ids_at(order, rows, task)), parts.num_dst, None)
    _carry_values(parts, edges, order, task)
    if keep_order:
        parts.edge_order = read_only(order)


def _carry_values(
    parts: EdgeParts, edges: EdgeInput, order: NDArray[Any], task: native.Task | None
) -> None:  # fmt: skip
    if edges.weight is not None:
        parts.edge_weight = read_only(take(edges.weight, order, task))
    if edges.time is not None:
        parts.edge_time = read_only(take(edges.time, order, task))
        parts.time_unit = edges.time_unit
    for name, store in edges.attrs.items():
        rows = take_rows(store, order, task)
        bits = "bfloat16" if store.dtype_name == "bfloat16" else None
        parts.edge_attrs[name] = FeatureTable.from_array(rows, dtype=bits)


def _edge_ids_at(
    order: NDArray[Any], rows: NDArray[Any], task: native.Task | None
) -> NDArray[Any]:  # fmt: skip
    """Return edge ids by CSR position, from input rows by CSR position and by edge id."""
    return take(inverse(order, task), rows, task)
