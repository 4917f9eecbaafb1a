"""Neighbours' rows combined ahead of a layer: the vectors are those of batches with all edges."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.recording import Recording
from support.strategies import edge_lists, examples

from aethergraph import DynamicGraph, FeatureTable, Graph, HeteroGraph
from aethergraph.errors import InvalidArgumentError
from aethergraph.inference import aggregation, embed, job
from aethergraph.inference.batches import Range
from aethergraph.inference.plan import BATCHES, BLOCKS, LISTS
from aethergraph.loading.batch import Batch

Rows = NDArray[Any]


class Mixed:
    """Layer: half the own row, and what the rows of the neighbours come to."""

    def __init__(self, how: str, weight: str | None = None, says: bool = True) -> None:
        self.how, self.weight, self.fingerprint = how, weight, how
        self.aggregate: Any = None
        if says:
            self.aggregate = how if weight is None else (how, weight)
        self._edges = list[int]()  # the most of a node, of each batch

    @property
    def most_edges(self) -> int:
        """Most edges of a node in a batch but the first, which is that of a trial."""
        return max(self._edges[1:], default=0)

    def __call__(self, batch: Batch) -> Rows:
        x, (row, col), count = batch.x, batch.edge_index, batch.batch_size
        assert x is not None
        degrees = np.bincount(col, minlength=count)
        self._edges.append(int(degrees.max(initial=0)))
        messages = x[row]
        if self.weight is not None:
            messages = messages * batch.edge_attrs[self.weight][:, None]
        rows = np.full((count, *x.shape[1:]), -np.inf if self.how == "max" else 0, x.dtype)
        (np.maximum if self.how == "max" else np.add).at(rows, col, messages)
        if self.how == "mean":
            rows /= np.maximum(degrees, 1).astype(x.dtype)[:, None]
        rows[degrees == 0] = 0
        return rows + x[:count] * x.dtype.type(0.5)


def in_order(order: str, patch: pytest.MonkeyPatch) -> list[str]:
    """Let layers that can be done in an order be done in it; return the orders that were taken."""
    choose, orders = job.Embedding._choose, list[str]()

    def chosen(self: Any, number: int, rows: Any, limits: Any) -> str:
        free = choose(self, number, rows, limits)
        orders.append(BATCHES if free == BATCHES else order)
        return orders[-1]

    patch.setattr(job.Embedding, "_choose", chosen)
    return orders


def small_blocks(patch: pytest.MonkeyPatch, room: int, edges: int = 5) -> None:
    """Let blocks have room for few nodes, and chunks for few rows."""
    make = aggregation.AggregatedBatches.__init__
    patch.setattr(aggregation, "_FEWEST_BYTES", 64)
    patch.setattr(aggregation, "_ADDED", edges)
    patch.setattr(
        aggregation.AggregatedBatches, "__init__",
        lambda self, graph, rows, what, size: make(self, graph, rows, what, size and room),
    )  # fmt: skip


@given(
    edges=edge_lists(), how=st.sampled_from(["sum", "mean", "max"]), weighted=st.booleans(),
    dtype=st.sampled_from(["float32", "float64", "bfloat16"]), width=st.integers(0, 4),
    ascends=st.booleans(), room=st.sampled_from([1, 600, 5000]), strange=st.booleans(),
)  # fmt: skip
@examples(60)
@pytest.mark.filterwarnings("ignore:layers", "ignore:invalid value")
def test_every_order_makes_the_same_vectors(
    edges: tuple[int, Rows, Rows], how: str, weighted: bool, dtype: str, width: int, ascends: bool,
    room: int, strange: bool,
) -> None:  # fmt: skip
    """To the last bit, but where lists do not ascend: blocks add up by the ids of sources."""
    count, src, dst = edges
    rng = np.random.default_rng(count + len(src))
    if ascends:
        order = np.lexsort((src, dst))
        src, dst = src[order], dst[order]
    x = rng.standard_normal((count, width)).astype("float64" if dtype == "float64" else "float32")
    if strange and x.size:
        x.flat[:3] = np.array([np.nan, np.inf, -np.inf])[: x.size]
    features = FeatureTable.from_array(
        (x.view(np.uint32) >> 16).astype(np.uint16) if dtype == "bfloat16" else x,
        dtype="bfloat16" if dtype == "bfloat16" else None,
    )
    weights = rng.random(len(src)).astype(x.dtype)
    graph = Graph.from_edges(count, src, dst, edge_attrs={"w": weights})
    vectors = {}
    for way in (BATCHES, LISTS, BLOCKS):
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            orders = in_order(way, patch)
            small_blocks(patch, room)
            layers = [Mixed(how, "w" if weighted else None) for _ in range(2)]
            table = embed(
                layers, graph, features, Path(folder) / "h.npy", batch_size=7,
                edge_attrs=["w"] if weighted else (),
            )  # fmt: skip
            vectors[way] = np.array(table.array)
        assert orders == [way, way]
        assert way == BATCHES or max(layer.most_edges for layer in layers) <= 1
    np.testing.assert_array_equal(vectors[LISTS], vectors[BATCHES], strict=True)
    if ascends:
        np.testing.assert_array_equal(vectors[BLOCKS], vectors[BATCHES], strict=True)
    np.testing.assert_allclose(vectors[BLOCKS], vectors[BATCHES], rtol=1e-5, atol=1e-5)


COUNT, WIDTH = 400, 256
RNG = np.random.default_rng(3)
SRC, DST = RNG.integers(0, COUNT, (2, 8000))
X = RNG.standard_normal((COUNT, WIDTH)).astype(np.float32)
GRAPH = Graph.from_edges(COUNT, SRC, DST)


def vectors(folder: Path, layers: Any = None, graph: Any = GRAPH, **options: Any) -> Rows:
    """Return the vectors of two layers."""
    layers = layers or [Mixed("mean"), Mixed("sum")]
    return np.array(embed(layers, graph, X, folder / "h.npy", force=True, **options).array)


def wanted(folder: Path, **options: Any) -> Rows:
    return vectors(folder, [Mixed("mean", says=False), Mixed("sum", says=False)], **options)


def test_a_block_may_have_ranges_that_are_apart() -> None:
    """A plan measures such ranges."""
    rows, sums = FeatureTable.from_array(X), np.zeros_like(X)
    np.add.at(sums, DST, X[SRC])
    parts = [Range(3, 20), Range(350, 371)]
    maker = aggregation.AggregatedBatches(GRAPH, rows, aggregation.Aggregate("sum", None), 1 << 20)
    assert [*maker.blocks(iter(parts))] == [parts]
    with maker.of(iter(parts)) as batches:
        for part, batch in zip(parts, batches, strict=True):
            assert batch.x is not None
            np.testing.assert_array_equal(batch.seeds, np.arange(*part))
            np.testing.assert_allclose(batch.x[batch.batch_size :], sums[slice(*part)], 1e-4, 1e-4)


@pytest.mark.parametrize("storage", ["memory", "mmap", "uring"])
def test_rows_of_files(storage: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are read through a cache go by blocks, where these read less."""
    np.save(tmp_path / "x.npy", X)
    budget = {"memory_budget": "256K"} if storage == "uring" else {}
    with FeatureTable.load(tmp_path / "x.npy", storage, **budget) as rows:
        orders = in_order(BLOCKS if storage == "uring" else LISTS, monkeypatch)
        table = embed([Mixed("mean")], GRAPH, rows, tmp_path / "h.npy", batch_size=16)
    assert orders == [BLOCKS if storage == "uring" else LISTS]
    monkeypatch.undo()
    expected = embed([Mixed("mean", says=False)], GRAPH, X, tmp_path / "w.npy")
    np.testing.assert_allclose(table.array, expected.array, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("storage", ["memory", "uring"])
def test_a_hub_that_no_batch_has_room_for(storage: Any, tmp_path: Path) -> None:
    """Its neighbours' rows are needed together only by a layer that has to see them."""
    count = 20_000
    graph = Graph.from_edges(count, np.arange(count), np.zeros(count, int))
    np.save(tmp_path / "x.npy", RNG.standard_normal((count, 8)).astype(np.float32))
    with FeatureTable.load(tmp_path / "x.npy", storage, memory_budget="1M") as rows:
        with pytest.raises(InvalidArgumentError, match=r"too small for node 0, which has 20,000"):
            embed([Mixed("sum", says=False)], graph, rows, tmp_path / "h.npy", memory_budget="1M")
        layers = [Mixed("sum"), Mixed("mean")]
        table = embed(layers, graph, rows, tmp_path / "h.npy", memory_budget="1M")
        plan = embed(layers, graph, rows, tmp_path / "p.npy", memory_budget="1M", plan=True)
    order = BLOCKS if storage == "uring" else LISTS
    assert [layer.order for layer in plan][0] == order
    expected = embed(
        [Mixed("sum", says=False), Mixed("mean", says=False)], graph,
        np.load(tmp_path / "x.npy"), tmp_path / "w.npy",
    )  # fmt: skip
    np.testing.assert_allclose(table.array, expected.array, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("order", [LISTS, BLOCKS])
def test_goes_on_wherever_it_was_interrupted(
    order: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_order(order, monkeypatch)
    small_blocks(monkeypatch, 300 << 10)
    monkeypatch.setattr(job, "RECORD_SECONDS", 0.0)
    recording = Recording(monkeypatch, interrupted_after=True)
    out, remarks = tmp_path / "h.npy", set[str]()
    expected = vectors(tmp_path, batch_size=70)
    out.unlink()

    def run() -> None:
        layers = [Mixed("mean"), Mixed("sum")]
        embed(layers, GRAPH, X, out, batch_size=70, remark=remarks.add)

    def check(_: None) -> None:
        np.testing.assert_array_equal(np.load(out), expected)
        assert os.listdir(tmp_path) == ["h.npy"]
        out.unlink()

    points = recording.interrupt_each(run, check)
    assert points > 12  # six batches of each layer
    assert {"going on at row 70 of layers[1]", "going on at row 350 of layers[0]"} < remarks


def as_float16(folder: Path) -> Any:
    layers = [Mixed("mean"), Mixed("sum")]
    embed(layers, GRAPH, X.astype(np.float16), folder / "h.npy")
    return layers


def drawn(folder: Path) -> Any:
    layers = [Mixed("mean"), Mixed("sum")]
    vectors(folder, layers, num_neighbors=5)
    return layers


def refreshed(folder: Path) -> Any:
    live, layers = DynamicGraph(COUNT), [Mixed("mean"), Mixed("sum")]
    live.insert_edges(SRC, DST)
    embed(layers, live, X, folder / "h.npy", refresh=True)
    return layers


def with_wide_weights(folder: Path) -> Any:
    layers = [Mixed("mean"), Mixed("sum", "w")]
    graph = Graph.from_edges(COUNT, SRC, DST, edge_attrs={"w": np.ones(len(SRC))})
    vectors(folder, layers[1:], graph, edge_attrs=["w"])
    return layers[1:]


@pytest.mark.parametrize("case", [as_float16, drawn, refreshed, with_wide_weights])
def test_what_goes_by_batches(case: Any, tmp_path: Path) -> None:
    assert all(layer.most_edges > 1 for layer in case(tmp_path))


def test_typed_graphs_go_by_batches(tmp_path: Path) -> None:
    graph = HeteroGraph.from_edges({("a", "to", "a"): (SRC, DST)}, {"a": COUNT})

    class Around:
        aggregate = "sum"

        def __call__(self, batch: Any) -> Rows:
            row, col = batch.edge_index["a", "to", "a"]
            rows = np.zeros((batch.batch_size, WIDTH), np.float32)
            np.add.at(rows, col, batch.x["a"][row])
            return rows

    table = embed([Around()], graph, {"a": X}, tmp_path / "h")["a"]
    sums = np.zeros_like(X)
    np.add.at(sums, DST, X[SRC])
    np.testing.assert_allclose(table.array, sums, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("value", ["median", ("sum", "v"), ("mean", "w", 1), 3])
def test_bad_aggregates_are_named(value: Any, tmp_path: Path) -> None:
    layer = Mixed("sum")
    layer.aggregate = value
    text = f"layers[0] (Mixed) has aggregate = {value!r}: give 'sum', 'mean' or 'max', or a pair"
    with pytest.raises(InvalidArgumentError, match=re.escape(text)):
        vectors(tmp_path, [layer])


def test_nodes_with_bad_rows_are_named(tmp_path: Path) -> None:
    x = X.copy()
    x[SRC[np.flatnonzero(DST == 5)[0]], 0] = np.nan
    first = int(min(*DST[np.isnan(x[SRC, 0])], *np.flatnonzero(np.isnan(x[:, 0]))))
    text = re.escape(f"layers[0] (Mixed) returned NaN, first for node {first}")
    with pytest.warns(UserWarning, match=text):
        embed([Mixed("max")], GRAPH, x, tmp_path / "h.npy")
