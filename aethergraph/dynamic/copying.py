"""Static graphs copied into live ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from aethergraph.dynamic.forms import EDGE_ID, time_dtype
from aethergraph.dynamic.node_times import NODE_TIME
from aethergraph.errors import InvalidArgumentError
from aethergraph.features.sources import all_rows
from aethergraph.graph.adjacency import EdgeQueries
from aethergraph.graph.foreign import as_graph
from aethergraph.protocols import HomogeneousGraph

__all__ = ["copied"]


def copied(
    make: Callable[..., Any], graph: HomogeneousGraph, arena_mb: int | None, options: dict[str, Any]
) -> Any:
    """Return :meth:`DynamicGraph.from_graph` of a graph.

    Args:
        make: the class.
        graph: the graph.
        arena_mb: as of the class; None: room for four times the edges of ``graph``.
        options: other arguments of the class, to be completed.
    """
    graph = as_graph(graph)
    values = graph.edge_values
    times, weights = (values.get(name) for name in ("edge_time", "edge_weight"))
    unit = graph.time_unit
    options.setdefault("layout", graph.layout)
    options.setdefault("order", getattr(graph, "order", "time"))
    graph = graph.pinned()
    node_times = graph.node_values.get(NODE_TIME)
    for noun, rows in (("edges", times), ("nodes", node_times)):
        if rows is None:
            continue
        if options["order"] == "id":
            raise InvalidArgumentError(
                f"the {noun} of the graph have times, which order='id' does not keep: leave it "
                "out, or copy a graph without them"
            )
        options["edge_time" if noun == "edges" else NODE_TIME] = time_dtype(unit)
    if weights is not None:
        options["edge_weight"] = "float32"
    attrs = {name: rows for name, rows in graph.edge_attrs.items() if name != EDGE_ID}
    options["edge_attrs"] = {n: (a.row_shape, a.dtype_name) for n, a in attrs.items()}
    if arena_mb is None:
        has_time = times is not None or node_times is not None
        size = (16 + 8 * has_time + 4 * (weights is not None)) * graph.num_edges
        arena_mb = max(64, min(32 << 10, (4 * (1 + (graph.layout == "both")) * size) >> 20))
    live = make(graph.num_nodes if node_times is None else 0, arena_mb, **options)
    if node_times is not None:
        live.add_nodes(graph.num_nodes, time=all_rows(node_times))
    if isinstance(graph, EdgeQueries):
        src, dst, ids = graph.edge_list()
    else:
        src, dst = graph.edge_index()
        ids = np.arange(len(src))
    live.insert_edges(
        src, dst,
        time=None if times is None else times.gather(ids),
        weight=None if weights is None else weights.gather(ids),
        edge_attrs={name: rows.gather(ids) for name, rows in attrs.items()},
    )  # fmt: skip
    for name, rows in graph.node_attrs.items():
        live.node_attrs[name] = rows
    return live
