"""Rows that come while a source is looked at."""

from __future__ import annotations

from typing import Any

import numpy as np

from aethergraph import DynamicGraph
from aethergraph.features.adapters import as_row_source


def test_a_source_may_grow_while_it_is_checked() -> None:
    graph = DynamicGraph(0, arena_mb=1)
    graph.features = np.zeros((0, 2), np.float32)
    rows = graph.node_attrs["x"]
    take = rows._take  # type: ignore[attr-defined]

    def grow() -> Any:
        graph.add_nodes(1, x=np.ones((1, 2), np.float32))
        return take()

    rows._take = grow  # type: ignore[attr-defined]
    assert as_row_source(rows, "x").gather([0]).tolist() == [[1.0, 1.0]]
