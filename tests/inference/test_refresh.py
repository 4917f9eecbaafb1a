"""Vectors that follow a live graph: what is computed again, and that nothing else differs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.strategies import examples

from aethergraph import DynamicGraph, Graph
from aethergraph.inference import embed
from aethergraph.loading import Batch

Rows = NDArray[Any]
COUNT, WIDTH = 30, 3


class Weighted:
    """Layer of floats: rows of neighbours by the weights of edges, and the own row."""

    def __init__(self, factor: float = 0.5, weight: str = "edge_weight") -> None:
        self.factor, self.weight = factor, weight

    def __call__(self, batch: Batch) -> Rows:
        assert batch.x is not None
        row, col = batch.edge_index
        rows = batch.x[: batch.batch_size] * self.factor
        np.add.at(rows, col, batch.x[row] * batch.edge_attrs[self.weight][:, None])
        return rows


def draw_edges(data: Any, count: int, nodes: int) -> tuple[Rows, Rows]:
    ids = st.lists(st.integers(0, nodes - 1), min_size=count, max_size=count)
    return np.array(data.draw(ids), int), np.array(data.draw(ids), int)


def edit(graph: DynamicGraph, data: Any) -> None:
    """Make one change of any kind."""
    kind, nodes = data.draw(st.sampled_from("idnr")), graph.num_nodes
    count = data.draw(st.integers(1, 4))
    if kind == "i":
        weight = np.array(data.draw(st.lists(st.integers(0, 9), min_size=count, max_size=count)))
        graph.insert_edges(*draw_edges(data, count, nodes), weight=weight)
    elif kind == "d":
        src, dst, _ = graph.snapshot().edge_list()
        if len(src):
            at = data.draw(st.lists(st.integers(0, len(src) - 1), max_size=count))
            graph.delete_edges(src[at], dst[at])
    elif kind == "n":
        graph.add_nodes(count, x=np.full((count, WIDTH), count, np.float32))
    else:
        ids = data.draw(st.lists(st.integers(0, nodes - 1), max_size=count, unique=True))
        rows = np.full((len(ids), WIDTH), data.draw(st.integers(0, 3)), np.float32)
        graph.update_nodes(ids, x=rows)


def start(graph: DynamicGraph) -> DynamicGraph:
    rng = np.random.default_rng(0)
    graph.features = rng.random((COUNT, WIDTH), np.float32)
    graph.insert_edges(*rng.integers(0, COUNT, (2, 40)), weight=rng.random(40, np.float32))
    return graph


def over_base(folder: Path) -> DynamicGraph:
    rng = np.random.default_rng(1)
    graph = Graph.from_edges(
        COUNT, *rng.integers(0, COUNT, (2, 60)), layout="both",
        edge_weight=rng.random(60, np.float32),
    )  # fmt: skip
    graph.save(folder / "base.aeg")
    return start(DynamicGraph.open(folder / "g.aegd", arena_mb=16, base=folder / "base.aeg"))


@pytest.mark.parametrize("place", ["memory", "over a base"])
@given(data=st.data())
@examples(60)
def test_equals_a_run_over_all_nodes_after_any_changes(place: str, data: Any) -> None:
    options: dict[str, Any] = {
        "layers": [Weighted(factor) for factor in range(data.draw(st.integers(1, 3)))],
        "edge_attrs": "edge_weight", "batch_size": data.draw(st.sampled_from([None, 1, 7])),
        "num_neighbors": data.draw(st.sampled_from([None, 2])),
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if place == "memory":
            order = data.draw(st.sampled_from(["id", "time"]))
            graph = start(DynamicGraph(COUNT, 16, order=order, edge_weight="float32"))
        else:
            graph = over_base(folder)
        for _ in range(data.draw(st.integers(1, 3))):
            for _ in range(data.draw(st.integers(0, 3))):
                edit(graph, data)
            out, call = folder / "h.npy", {"graph": graph, "features": None, **options}
            embed(out=out, refresh=True, **call)
            wanted = embed(out=folder / "all.npy", force=True, **call)
            np.testing.assert_array_equal(np.load(out), wanted.array, strict=True)
        graph.close()
