"""Vectors of every node: what they are, what may be cut where, and what ends the work."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.disks import small_disk
from support.graphs import make_graph
from support.memory import memory_group
from support.recording import Interrupt, Recording
from support.strategies import edge_lists, examples

from aethergraph import DynamicGraph, FeatureTable, Graph, NeighborSampler, as_graph
from aethergraph.convert.external.journal import Journal
from aethergraph.errors import (
    CorruptFileError,
    DiskFullError,
    FileChangedError,
    InvalidArgumentError,
    LayoutError,
    StorageError,
    UnsupportedError,
)
from aethergraph.features.live import LiveFeatureTable
from aethergraph.inference import embed, job
from aethergraph.inference.batches import Degrees, cut
from aethergraph.loading.batch import Batch
from aethergraph.sampling.keys import mix_key

Rows = NDArray[Any]


class Total:
    """Layer of integers: ``factor`` times the own row, and the rows of all neighbours."""

    def __init__(self, factor: int = 3) -> None:
        self.factor, self.fingerprint = factor, f"times {factor}"
        self.sizes: list[int] = []  # nodes and edges of each batch

    def __call__(self, batch: Batch) -> Rows:
        assert batch.x is not None
        row, col = batch.edge_index
        self.sizes.append(batch.batch_size + len(row))
        rows = batch.x[: batch.batch_size] * self.factor
        np.add.at(rows, col, batch.x[row])
        return rows

    def of_all(self, src: Rows, dst: Rows, x: Rows) -> Rows:
        """Return what the layer makes of all nodes, edge by edge."""
        rows = [[value * self.factor for value in row] for row in x.tolist()]
        for source, target in zip(src.tolist(), dst.tolist(), strict=True):
            rows[target] = [a + b for a, b in zip(rows[target], x[source].tolist(), strict=True)]
        return np.array(rows, x.dtype).reshape(x.shape)


def integers(count: int, width: int = 3) -> Rows:
    return np.random.default_rng(5).integers(-9, 9, (count, width))


@given(
    edges=edge_lists(), layers=st.integers(1, 3), batch_size=st.sampled_from([None, 1, 7]),
    width=st.integers(0, 3), stretch=st.sampled_from([1, 5, 1 << 20]),
)  # fmt: skip
@examples(100)
def test_equals_the_sums_over_all_edges(
    edges: tuple[int, Rows, Rows], layers: int, batch_size: int | None, width: int, stretch: int
) -> None:
    count, src, dst = edges
    functions = [Total(factor) for factor in range(layers)]
    x = integers(count, width)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("aethergraph.inference.batches._NODES", stretch)
        out = Path(folder) / "h.npy"
        table = embed(
            functions, Graph.from_edges(count, src, dst), x, out, batch_size=batch_size
        )  # fmt: skip
        assert os.listdir(folder) == ["h.npy"]
        assert table.path == str(out)
        for layer in functions:
            x = layer.of_all(src, dst, x)
        np.testing.assert_array_equal(np.load(out), x, strict=True)
        np.testing.assert_array_equal(table.array, x, strict=True)


# ---- graphs of all kinds ------------------------------------------------------------------------

COUNT = 200
GRAPH = make_graph(COUNT)
X = integers(COUNT)
SRC, DST = GRAPH.edge_index()
WANTED = Total(2).of_all(SRC, DST, Total(3).of_all(SRC, DST, X))
ELSEWHERE = SRC.copy()
ELSEWHERE[np.flatnonzero(DST == 1)[0]] += 1  # no list that stands for others
UNIQUE = np.unique(np.stack([SRC, DST]), axis=1)  # a live graph has an edge once


def stored(folder: Path, storage: Any, **options: Any) -> Graph:
    GRAPH.save(folder / "g.aeg", **options)
    np.save(folder / "x.npy", X)
    budget = {"memory_budget": "64M"} if storage == "uring" else {}
    graph = Graph.load(folder / "g.aeg", storage=storage, **budget)
    graph.load_features(folder / "x.npy", storage=storage, **budget)
    return graph


def live(folder: Path) -> DynamicGraph:
    graph = DynamicGraph(COUNT)
    graph.features = X
    graph.insert_edges(*UNIQUE[:, ::2])
    graph.insert_edges(*UNIQUE[:, 1::2])
    return graph


def moving(folder: Path) -> Any:
    graph = live(folder)
    snapshot = graph.snapshot()
    graph.insert_edges([1, 2], [0, 0])
    return snapshot


def foreign(folder: Path) -> Any:
    indptr, indices = GRAPH.csc()
    graph = as_graph(
        SimpleNamespace(num_nodes=COUNT, num_edges=len(SRC), indptr=indptr, indices=indices)
    )
    graph.features = X
    return graph


KINDS: dict[str, Callable[[Path], Any]] = {
    "memory": lambda folder: stored(folder, "memory"),
    "mapped": lambda folder: stored(folder, "mmap"),
    "uring": lambda folder: stored(folder, "uring"),
    "compressed uring": lambda folder: stored(folder, "uring", compress=True),
    "live": live,
    "snapshot": moving,
    "foreign": foreign,
}


@pytest.mark.own_share
@pytest.mark.parametrize("kind", KINDS)
def test_graphs_of_all_kinds(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "graph"
    folder.mkdir()
    graph = KINDS[kind](folder)
    src, dst = UNIQUE if kind in ("live", "snapshot") else (SRC, DST)
    table = embed([Total(3), Total(2)], graph, None, tmp_path / "h.npy", batch_size=16)
    wanted = Total(2).of_all(src, dst, Total(3).of_all(src, dst, X))
    np.testing.assert_array_equal(table.array, wanted)


def test_reordered_graph(tmp_path: Path) -> None:
    graph = Graph.from_edges(COUNT, SRC, DST)
    graph.features = X
    order = graph.reorder("bfs")
    table = embed([Total(3), Total(2)], graph.permute(order), None, tmp_path / "h.npy")
    np.testing.assert_array_equal(table.array, WANTED[order])


def test_layers_read_through_a_cache_if_they_do_not_fit(tmp_path: Path) -> None:
    """With a budget for a part of them rows are read by uring, or mapped where that is missing."""
    count, width = 20_000, 64
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, count, (2, 40_000))
    x = rng.integers(0, 99, (count, width))
    graph = Graph.from_edges(count, src, dst)
    table = embed([Total(3), Total(2)], graph, x, tmp_path / "h.npy", memory_budget="8M")
    wanted = x
    for factor in (3, 2):
        rows = wanted * factor
        np.add.at(rows, dst, wanted[src])
        wanted = rows
    np.testing.assert_array_equal(table.array, wanted)


def test_values_of_edges(tmp_path: Path) -> None:
    weight = np.arange(len(SRC)) % 7
    graph = Graph.from_edges(COUNT, SRC, DST, edge_attrs={"w": weight}, edge_weight=weight + 1.0)

    def layer(batch: Batch) -> Rows:
        rows = np.zeros((batch.batch_size, 2))
        np.add.at(rows[:, 0], batch.subgraph.col, batch.edge_attrs["w"])
        np.add.at(rows[:, 1], batch.subgraph.col, batch.edge_attrs["edge_weight"])
        return rows

    table = embed([layer], graph, X, tmp_path / "h.npy", edge_attrs=["w", "edge_weight"])
    wanted = np.zeros((COUNT, 2))
    np.add.at(wanted, DST, np.stack([weight, weight + 1.0], axis=1))
    np.testing.assert_array_equal(table.array, wanted)


def test_drawn_neighbours_are_those_of_a_key_for_each_layer(tmp_path: Path) -> None:
    """They do not depend on the batches, and each layer draws its own."""
    wanted = X
    for number, (layer, fanout) in enumerate(((Total(3), 4), (Total(2), 2))):
        sampler = NeighborSampler(GRAPH, [fanout])
        sample = sampler.sample(np.arange(COUNT), mix_key(7, number))
        wanted = layer.of_all(sample.node[sample.row], sample.col, wanted)
    for batch_size in (None, 13):
        table = embed(
            [Total(3), Total(2)], GRAPH, X, tmp_path / "h.npy", num_neighbors=[4, 2], seed=7,
            batch_size=batch_size, force=True,
        )  # fmt: skip
        np.testing.assert_array_equal(table.array, wanted)


def test_dtype_of_the_output_alone(tmp_path: Path) -> None:
    layer = Total()
    table = embed([layer, layer], GRAPH, X / 8, tmp_path / "h.npy", dtype="float16")
    wanted = layer.of_all(SRC, DST, layer.of_all(SRC, DST, X / 8))
    np.testing.assert_array_equal(table.array, wanted.astype(np.float16), strict=True)


def test_bfloat16_is_a_native_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Round rows as FeatureTable.save() does, also where work went on."""
    layer, out = Total(), tmp_path / "h.bin"
    exact = embed([layer, layer], GRAPH, X / 7, tmp_path / "h.npy")
    exact.save(tmp_path / "wanted.bin", "bfloat16")
    options: dict[str, Any] = {"features": X / 7, "dtype": "bfloat16", "batch_size": 70}
    for number in (2, 5, 6):  # in each layer, and behind the last
        interrupt(monkeypatch, out, number, **options, layers=[layer, layer])
        assert not out.exists()
        table = embed([layer, layer], GRAPH, out=out, **options)
        assert table.dtype_name == "bfloat16"
        assert out.read_bytes() == (tmp_path / "wanted.bin").read_bytes()
        assert sorted(os.listdir(tmp_path)) == ["h.bin", "h.npy", "wanted.bin"]
        out.unlink()


def test_numbers_that_are_none_are_told_where_they_first_come_up(tmp_path: Path) -> None:
    def none(batch: Batch) -> Rows:
        rows = np.zeros((batch.batch_size, 2, 2), np.float32)
        rows[(batch.seeds == 70) | (batch.seeds == 77), 1, 0] = np.nan
        rows[batch.seeds == 33] = np.inf
        return rows

    def large(batch: Batch) -> Rows:
        rows = np.where(np.isin(batch.seeds, [55, 66]), -123456.0, 1.0)
        rows[batch.seeds == 33] = np.inf
        return rows

    calls = 0

    def run(layers: list[Any], dtype: str, suffix: str = "npy") -> list[str]:
        nonlocal calls
        calls += 1
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            out = tmp_path / f"{calls}.{suffix}"
            embed(layers, GRAPH, X, out, dtype=dtype, batch_size=50)
        return [str(warning.message) for warning in caught]

    (message,) = run([none, none], "float16")
    assert message.startswith(f"layers[0] ({none.__qualname__}) returned NaN, first for node 70: ")
    (message,) = run([Total(), large], "float16")
    assert message == (
        f"layers[1] ({large.__qualname__}) returned -123456 for node 55, which is infinite in "
        "float16: take dtype='float32'"
    )
    assert run([Total(), large], "bfloat16", "bin") == []
    (message,) = run([Total(), lambda batch: large(batch) * 1e300], "bfloat16", "bin")
    assert message.endswith(" which is infinite in bfloat16: take dtype='float64'")
    stored = np.load(tmp_path / "2.npy")
    assert np.flatnonzero(np.isinf(stored)).tolist() == [33, 55, 66]
    assert run([Total(), large], "float32") == []


def test_bfloat16_features_are_read_as_float32(tmp_path: Path) -> None:
    rows = FeatureTable.from_array(X.astype(np.float32).view(np.uint16)[:, 1::2], dtype="bfloat16")
    table = embed([Total()], GRAPH, rows, tmp_path / "h.npy")
    np.testing.assert_array_equal(table.array, Total().of_all(SRC, DST, X).astype(np.float32))


@given(
    edges=edge_lists(), batch_size=st.integers(1, 50), limit=st.integers(1, 60),
    stretch=st.integers(1, 50), fanout=st.sampled_from([-1, 2]),
)  # fmt: skip
@examples(100)
def test_ranges(
    edges: tuple[int, Rows, Rows], batch_size: int, limit: int, stretch: int, fanout: int
) -> None:
    """They follow each other, are within the limits, and the same from the start of each one on."""
    count, src, dst = edges
    degrees = Degrees(Graph.from_edges(count, src, dst), fanout)
    sizes = np.bincount(dst, minlength=count).clip(0, fanout if fanout > 0 else None) + 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aethergraph.inference.batches._NODES", stretch)
        ranges = list(cut(degrees, 0, batch_size, limit))
        for number, part in enumerate(ranges):
            assert list(cut(degrees, part.start, batch_size, limit)) == ranges[number:]
        assert degrees.largest[1] == (sizes.max() - 1 if count else 0)
    starts = [0, *(part.stop for part in ranges)]
    assert starts == [*(part.start for part in ranges), count]
    for start, stop in ranges:
        assert start < stop <= start + batch_size
        assert stop == start + 1 or sizes[start:stop].sum() <= limit


# ---- as of a time -------------------------------------------------------------------------------


@given(
    edges=edge_lists(), until=st.integers(-1, 9), batch_size=st.sampled_from([None, 1, 7]),
    times_of=st.sampled_from(["edge_time", "node_time"]), drawn=st.sampled_from([None, 2]),
)  # fmt: skip
@examples(100)
def test_equals_a_run_over_the_graph_of_that_time(
    edges: tuple[int, Rows, Rows], until: int, batch_size: int | None, times_of: str,
    drawn: int | None,
) -> None:  # fmt: skip
    """Also where neighbours are drawn: lists are in the order of time."""
    count, src, dst = edges
    times = np.random.default_rng(1).integers(0, 9, count if times_of == "node_time" else len(src))
    is_there = (times[src] if times_of == "node_time" else times) <= until
    kept = times if times_of == "node_time" else times[is_there]
    graph = Graph.from_edges(count, src, dst, **{times_of: times})
    earlier = Graph.from_edges(count, src[is_there], dst[is_there], **{times_of: kept})
    layers, options = [Total(3), Total(2)], {"num_neighbors": drawn, "batch_size": batch_size}
    with tempfile.TemporaryDirectory() as folder:
        x, out, all_out = integers(count), Path(folder) / "h.npy", Path(folder) / "all.npy"
        table = embed(layers, graph, x, out, until=until, **options)
        wanted = embed(layers, earlier, x, all_out, **options)
        np.testing.assert_array_equal(table.array, wanted.array, strict=True)


TIMES = np.random.default_rng(2).integers(0, 100, len(SRC))
DAYS = np.datetime64("2024-01-01") + TIMES


def timed(folder: Path, storage: Any) -> Graph:
    Graph.from_edges(COUNT, SRC, DST, edge_time=TIMES).save(folder / "t.aeg")
    budget = {"memory_budget": "64M"} if storage == "uring" else {}
    return Graph.load(folder / "t.aeg", storage=storage, **budget)


def timed_live(**options: Any) -> DynamicGraph:
    graph = DynamicGraph(COUNT, 16, order="time", **options)
    for part in (slice(None, None, 2), slice(1, None, 2)):
        graph.insert_edges(SRC[part], DST[part], time=TIMES[part])
    return graph


def attribute(folder: Path) -> Graph:
    """A graph whose lists happen to be in the order of an attribute."""
    order = np.argsort(TIMES, kind="stable")
    return Graph.from_edges(COUNT, SRC[order], DST[order], edge_attrs={"when": TIMES[order]})


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (lambda folder: timed(folder, "mmap"), {}),
        (lambda folder: timed(folder, "uring"), {}),
        (lambda folder: timed_live(edge_time="int64"), {}),
        (attribute, {"time_attr": "when"}),
        (lambda folder: Graph.from_edges(COUNT, SRC, DST, edge_time=DAYS),
         {"until": np.datetime64("2024-02-10T00:00", "s")}),
        (lambda folder: Graph.from_edges(COUNT, SRC, DST, edge_time=TIMES / 2), {"until": 20.25}),
    ],
    ids=["mapped", "uring", "live", "attribute", "datetimes", "floats"],
)  # fmt: skip
def test_times_of_all_kinds(
    make: Callable[[Path], Any], options: dict[str, Any], tmp_path: Path
) -> None:
    graph = make(tmp_path)
    src, dst = SRC[TIMES <= 40], DST[TIMES <= 40]
    if graph.is_live:  # which has an edge once
        src, dst, ids = graph.edge_list()
        is_there = graph.edge_values["edge_time"].gather(ids) <= 40
        src, dst = src[is_there], dst[is_there]
    table = embed(
        [Total(3), Total(2)], graph, X, tmp_path / "h.npy", **{"until": 40, **options},
        batch_size=64,
    )  # fmt: skip
    wanted = Total(2).of_all(src, dst, Total(3).of_all(src, dst, X))
    np.testing.assert_array_equal(table.array, wanted)


def test_times_that_cannot_be_taken_are_named(tmp_path: Path) -> None:
    numbers = Graph.from_edges(COUNT, SRC, DST, edge_time=TIMES)
    both = Graph.from_edges(COUNT, SRC, DST, edge_time=TIMES, node_time=np.zeros(COUNT, int))
    dates = Graph.from_edges(COUNT, SRC, DST, edge_time=DAYS)
    moment = np.datetime64("2024-02-10T12:00")
    for graph, options, message in (
        (GRAPH, {"until": 3}, "until = 3, but there is no edge_time and no node_time: name the ti"),
        (GRAPH, {"until": 3, "time_attr": "w"}, "time_attr = 'w' is no node or edge attribute"),
        (GRAPH, {"time_attr": "w"}, "time_attr = 'w' names times for until=: give that, or leave"),
        (both, {"until": 3}, "until = 3, and there are times of edges and of nodes: say which"),
        (numbers, {"until": "3"}, "until = '3' is no time: give a number, or a np.datetime64"),
        (numbers, {"until": moment}, "until is datetime64[m], but the times of the graph have no"),
        (numbers, {"until": 2.5}, "until is float64, but the times are int64: give integers"),
        (dates, {"until": moment}, "until[0] = 2024-02-10T12:00 cannot be given in the unit of"),
    ):
        with pytest.raises(InvalidArgumentError, match=re.escape(message)):
            embed([Total()], graph, X, tmp_path / "h.npy", **options)
    assert os.listdir(tmp_path) == []


# ---- memory -------------------------------------------------------------------------------------


def test_batches_are_cut_at_hubs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch has at most so many nodes and edges, but for a node that has more by itself."""
    monkeypatch.setattr(job, "_limit_of", lambda row_bytes: 100)
    layer = Total()
    embed([layer], GRAPH, X, tmp_path / "h.npy")
    degrees = GRAPH.in_degrees()
    assert sum(layer.sizes[1:]) == COUNT + len(SRC)
    assert [size for size in layer.sizes[1:] if size > 100] == (degrees[degrees > 99] + 1).tolist()
    assert len(layer.sizes) < 60  # and no fewer than need be


def wider(batch: Batch) -> Rows:
    assert batch.x is not None
    return np.repeat(batch.x[: batch.batch_size], 40, axis=1)


def test_the_least_budget_is_that_of_all_layers(tmp_path: Path) -> None:
    graph = Graph.from_edges(COUNT, np.zeros(30_000, int), np.full(30_000, 17))
    with pytest.raises(InvalidArgumentError, match="the least is") as caught:
        embed([wider, wider], graph, X, tmp_path / "h.npy", memory_budget="1M")
    least = re.search(r"the least is (\d+)M", str(caught.value))
    assert least is not None
    table = embed([wider, wider], graph, X, tmp_path / "h.npy", memory_budget=f"{least[1]}M")
    assert table.shape == (COUNT, 3 * 40 * 40)


def test_the_least_budget_is_named_and_enough(tmp_path: Path) -> None:
    src = np.r_[np.zeros(30_000, int), SRC]
    graph = Graph.from_edges(COUNT, src, np.r_[np.full(30_000, 17), DST])
    with pytest.raises(
        InvalidArgumentError, match=r"memory_budget = '1M' is too small for node 17, which has 30,0"
    ) as caught:
        embed([Total()], graph, X, tmp_path / "h.npy", memory_budget="1M")
    assert os.listdir(tmp_path) == []
    least = re.search(r"the least is (\d+)M", str(caught.value))
    assert least is not None
    budget = int(least[1])
    embed([Total()], graph, X, tmp_path / "h.npy", memory_budget=f"{budget}M")
    with pytest.raises(InvalidArgumentError, match="too small for node 17"):
        embed([Total()], graph, X, tmp_path / "i.npy", memory_budget=f"{budget - 1}M")
    embed([Total()], graph, X, tmp_path / "i.npy", memory_budget="1M", num_neighbors=50)


MEASURED = """
    import resource, sys
    import numpy as np
    from aethergraph import Graph
    from aethergraph.inference import embed
    folder, budget = sys.argv[1], sys.argv[2]
    graph = Graph.load(folder + "/g.aeg", storage="uring", memory_budget="32M")
    graph.load_features(folder + "/x.npy", storage="uring", memory_budget="32M")

    def layer(batch):
        rows = batch.x[: batch.batch_size].copy()
        np.add.at(rows, batch.subgraph.col, batch.x[batch.subgraph.row])
        return rows

    layer.aggregate = sys.argv[3] or None
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    embed([layer] * 2, graph, None, folder + "/h.npy", memory_budget=budget)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("aggregate", ["", "sum"])
def test_the_budget_is_kept(aggregate: str, tmp_path: Path) -> None:
    """400 MB of rows, in a cgroup with room for the budgets and for the process."""
    count, width = 400_000, 256
    rng = np.random.default_rng(0)
    Graph.from_edges(count, *rng.integers(0, count, (2, 2_000_000))).save(tmp_path / "g.aeg")
    np.save(tmp_path / "x.npy", rng.random((count, width), np.float32))
    with memory_group() as group:
        if group is not None:
            group.set_limit(256 << 20)
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(MEASURED), tmp_path, "96M", aggregate],
            capture_output=True, text=True, check=False,
            preexec_fn=None if group is None else group.enter,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) << 10 <= (96 + 64 + 16) << 20


# ---- going on -----------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [True, False])
def test_goes_on_wherever_it_was_interrupted(
    after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted at every recording, before it or after it, then run again."""
    monkeypatch.setattr(job, "RECORD_SECONDS", 0.0)
    recording = Recording(monkeypatch, interrupted_after=after)
    out, remarks = tmp_path / "h.npy", set[str]()

    def run() -> None:
        layers = [Total(3), Total(2)]
        embed(layers, GRAPH, X, out, batch_size=70, remark=remarks.add)

    def look() -> None:
        assert not out.exists()

    def check(_: None) -> None:
        np.testing.assert_array_equal(np.load(out), WANTED)
        assert os.listdir(tmp_path) == ["h.npy"]
        out.unlink()

    points = recording.interrupt_each(run, check, look)
    assert points == 2 * 3 + 2  # three batches of each layer, and placing
    assert {"going on at row 70 of layers[1]", "going on at the end of the last layer"} < remarks


KILLED = """
    import os, signal, sys
    import numpy as np
    from aethergraph import Graph
    from aethergraph.convert.external.journal import Journal
    from aethergraph.inference import embed, job
    folder, where = sys.argv[1], sys.argv[2]
    job.RECORD_SECONDS = 0.0
    left = [int(sys.argv[3])]

    def count():
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    record = Journal.record

    def recorded(self, **state):
        record(self, **state)
        count()

    if where == "recorded":
        Journal.record = recorded

    class Total:
        fingerprint = "1"
        def __call__(self, batch):
            if where == "called":
                count()
            rows = batch.x[: batch.batch_size] * 3
            np.add.at(rows, batch.subgraph.col, batch.x[batch.subgraph.row])
            return rows

    graph = Graph.load(folder + "/g.aeg")
    graph.load_features(folder + "/x.npy")
    embed([Total(), Total()], graph, None, folder + "/h.npy", batch_size=40,
          remark=lambda text: print(text, flush=True))
"""


@pytest.mark.parametrize(("where", "steps"), [("recorded", 2), ("called", 4)])
def test_killed_processes(where: str, steps: int, tmp_path: Path) -> None:
    """A chain of processes, each killed a little further on, makes the file."""
    stored(tmp_path, "memory")
    remarks = []
    for _ in range(20):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(KILLED), tmp_path, where, str(steps)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        remarks += done.stdout.splitlines()
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert not (tmp_path / "h.npy").exists()
    assert len(remarks) > 4
    assert any("of layers[0]" in text for text in remarks)
    assert any("of layers[1]" in text for text in remarks)
    layer = Total(3)
    wanted = layer.of_all(SRC, DST, layer.of_all(SRC, DST, X))
    np.testing.assert_array_equal(np.load(tmp_path / "h.npy"), wanted)
    assert sorted(os.listdir(tmp_path)) == ["g.aeg", "h.npy", "x.npy"]


def interrupt(monkeypatch: pytest.MonkeyPatch, out: Path, number: int = 2, **options: Any) -> None:
    """Leave work behind that was interrupted after a recording."""
    arguments = {"layers": [Total(3), Total(2)], "graph": GRAPH, "features": X, "batch_size": 70}
    with monkeypatch.context() as patch:
        patch.setattr(job, "RECORD_SECONDS", 0.0)
        Recording(patch, interrupted_after=True).left = number
        with pytest.raises(Interrupt):
            embed(**{**arguments, **options}, out=out)


def test_work_of_another_time_does_not_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, out = timed(tmp_path, "mmap"), tmp_path / "h.npy"
    interrupt(monkeypatch, out, graph=graph, until=40)
    with pytest.raises(InvalidArgumentError, match="until was '40' and is '41'"):
        embed([Total(3), Total(2)], graph, X, out, until=41)
    remarks = list[str]()
    embed([Total(3), Total(2)], graph, X, out, until=40, batch_size=70, remark=remarks.append)
    assert remarks == ["going on at row 140 of layers[0]"]


@pytest.mark.own_share
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"layers": [Total(3), Total(4)]},
            r"layers\[1\]\.fingerprint was 'times 2' and is 'times 4'",
        ),
        ({"layers": [Total(3)]}, "layers was .* and is"),
        ({"features": X + 1}, "features was 'int64"),
        ({"graph": Graph.from_edges(COUNT, SRC, SRC)}, r"graph\..* was"),
        ({"graph": Graph.from_edges(COUNT, ELSEWHERE % COUNT, DST)}, r"graph\.all lists was"),
        ({"num_neighbors": 3}, "num_neighbors.* was"),
        ({"dtype": "float32"}, "dtype was 'None' and is 'float32'"),
        ({"seed": 1}, "seed was 0 and is 1"),
    ],
)
def test_other_work_does_not_go_on(
    changes: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "h.npy"
    interrupt(monkeypatch, out)
    arguments: dict[str, Any] = {
        "layers": [Total(3), Total(2)], "graph": GRAPH, "features": X, "out": out, **changes
    }  # fmt: skip
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        embed(**arguments)
    assert "restart=True" in str(caught.value)
    embed(**arguments, restart=True)
    assert os.listdir(tmp_path) == ["h.npy"]


def test_a_file_of_features_that_was_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = stored(tmp_path, "mmap")
    interrupt(monkeypatch, tmp_path / "h.npy", graph=graph, features=None)
    np.save(tmp_path / "x.npy", X + 1)
    graph.load_features(tmp_path / "x.npy")
    with pytest.raises(InvalidArgumentError, match=r"x\.npy was written again since"):
        embed([Total(3), Total(2)], graph, None, tmp_path / "h.npy")


def test_features_that_are_written_to_meanwhile(tmp_path: Path) -> None:
    graph, layer = stored(tmp_path, "mmap"), Total()

    def writing(batch: Batch) -> Rows:
        if batch.batch_size > 1:
            rows = np.load(tmp_path / "x.npy", mmap_mode="r+")
            rows[0] = 1
            rows.flush()
            os.utime(tmp_path / "x.npy")
        return layer(batch)

    with pytest.raises(FileChangedError, match=r"x\.npy was written to meanwhile: restart=True"):
        embed([writing, layer], graph, None, tmp_path / "h.npy")
    assert not (tmp_path / "h.npy").exists()


def test_an_output_that_was_placed_before_the_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output is there, and the folder, too: the call ends what was begun."""
    out = tmp_path / "h.npy"
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "remove", lambda self: self.close())
        embed([Total(3), Total(2)], GRAPH, X, out)
    assert sorted(os.listdir(tmp_path)) == ["h.npy", "h.npy.building"]
    table = embed([Total(3), Total(2)], GRAPH, X, out)
    np.testing.assert_array_equal(table.array, WANTED)
    assert os.listdir(tmp_path) == ["h.npy"]


def test_a_work_file_that_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for damage, message in (
        (lambda path: path.unlink(), "is missing"),
        (lambda path: os.truncate(path, 200), "has not the 70 rows that were recorded"),
    ):
        out = tmp_path / "h.npy"
        interrupt(monkeypatch, out, 1)
        damage(tmp_path / "h.npy.building/layer-0.npy")
        with pytest.raises(CorruptFileError, match=f"{message}.*restart=True"):
            embed([Total(3), Total(2)], GRAPH, X, out)
        embed([Total(3), Total(2)], GRAPH, X, out, restart=True)
        out.unlink()


# ---- bad input ----------------------------------------------------------------------------------


def too_many(batch: Batch) -> Any:
    return batch.x


def a_list(batch: Batch) -> Any:
    return [1] * batch.batch_size


def texts(batch: Batch) -> Any:
    return np.full(batch.batch_size, "a")


def wide(batch: Batch) -> Any:
    assert batch.x is not None
    return batch.x[: batch.batch_size] @ np.ones((4, 2))


@pytest.mark.own_share
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"layers": []}, InvalidArgumentError, "layers has no layer"),
        ({"layers": 5}, InvalidArgumentError, "layers"),
        ({"layers": [None]}, InvalidArgumentError, r"layers\[0\] = None is no function"),
        ({"layers": [too_many]}, InvalidArgumentError,
         r"layers\[0\] \(too_many\) returned shape \(\d+, 3\) for 1 nodes: return a row for each"),
        ({"layers": [Total(), a_list]}, InvalidArgumentError,
         r"layers\[1\] \(a_list\) returned a list, not a numpy array"),
        ({"layers": [texts]}, InvalidArgumentError, r"layers\[0\] \(texts\) returned"),
        ({"layers": [Total(), wide]}, InvalidArgumentError,
         r"layers\[1\] \(wide\) does not take rows of shape \(3,\) and int64, as layers\[0\] r"),
        ({"layers": [wide]}, InvalidArgumentError, "as features has them: ValueError: matmul"),
        ({"features": X[1:]}, InvalidArgumentError, "features has 199 rows, but num_nodes = 200"),
        ({"features": None}, InvalidArgumentError, "features is None, and the graph has none"),
        ({"features": "x.npy"}, InvalidArgumentError, "features must be rows, got 'x.npy'"),
        ({"graph": 7}, InvalidArgumentError, "graph must be a Graph, got int"),
        ({"graph": Graph.from_edges(COUNT, SRC, DST, layout="csr")}, LayoutError,
         "embed needs layout 'csc' or 'both'"),
        ({"out": "h.bin"}, InvalidArgumentError, "h.bin' is no .npy file"),
        ({"batch_size": 0}, InvalidArgumentError, "batch_size = 0 is not at least 1"),
        ({"num_neighbors": [3]}, InvalidArgumentError,
         "num_neighbors has 1 numbers, but there are 2 layers"),
        ({"num_neighbors": -2}, InvalidArgumentError, "num_neighbors"),
        ({"edge_attrs": "w"}, InvalidArgumentError, "edge_attrs: 'w' does not exist"),
        ({"dtype": "bfloat16"}, UnsupportedError,
         r"a .npy file cannot hold it, such as out = '.*h\.npy'; with another name"),
        ({"dtype": "bfloat16", "refresh": True}, UnsupportedError,
         "dtype = 'bfloat16' goes without refresh=True, which keeps .npy files"),
        ({"dtype": "int8"}, InvalidArgumentError, "dtype = 'int8' is no float"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named_before_work_begins(
    changes: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    arguments: dict[str, Any] = {
        "layers": [Total(), Total()], "graph": GRAPH, "features": X, "out": "h.npy", **changes
    }  # fmt: skip
    with pytest.raises(error, match=message):
        embed(**{**arguments, "out": tmp_path / arguments["out"]})
    assert os.listdir(tmp_path) == []


def test_live_features_are_refused(tmp_path: Path) -> None:
    rows = LiveFeatureTable.create(None, COUNT, 3, missing="zero")
    with pytest.raises(InvalidArgumentError, match=r"features are rows that .*, features\.array"):
        embed([Total()], GRAPH, rows, tmp_path / "h.npy")
    embed([Total()], GRAPH, rows.array, tmp_path / "h.npy")


def test_features_of_a_live_graph_are_those_of_its_moment(tmp_path: Path) -> None:
    graph = live(tmp_path)

    def layer(batch: Batch) -> Rows:
        graph.update_nodes([0], x=[[9, 9, 9]])
        return Total()(batch)

    table = embed([layer], graph, graph.features, tmp_path / "h.npy", batch_size=10)
    np.testing.assert_array_equal(table.array, Total().of_all(*UNIQUE, X))


def test_the_way_to_bfloat16_that_is_named(tmp_path: Path) -> None:
    embed([Total()], GRAPH, X.astype(np.float32), tmp_path / "h.npy")
    FeatureTable.load(tmp_path / "h.npy").save(tmp_path / "vectors.feat", "bfloat16")
    assert FeatureTable.load(tmp_path / "vectors.feat").dtype_name == "bfloat16"


def test_rows_of_another_form_later(tmp_path: Path) -> None:
    def layer(batch: Batch) -> Rows:
        is_late = batch.batch_size > 1 and batch.seeds[0] >= 100
        return np.zeros((batch.batch_size, 2 if is_late else 1))

    with pytest.raises(
        InvalidArgumentError,
        match=r"shape \(2,\) and float64 for nodes 100\.\.149, before of \(1,\) and float64",
    ):
        embed([layer], GRAPH, X, tmp_path / "h.npy", batch_size=50)
    assert os.listdir(tmp_path) == []


def test_an_output_that_exists(tmp_path: Path) -> None:
    out = tmp_path / "h.npy"
    out.write_text("mine")
    with pytest.raises(StorageError, match=r"h\.npy: exists already"):
        embed([Total()], GRAPH, X, out)
    assert out.read_text() == "mine"
    embed([Total()], GRAPH, X, out, force=True)
    assert len(np.load(out)) == COUNT


def test_the_features_are_not_overwritten(tmp_path: Path) -> None:
    graph = stored(tmp_path, "mmap")
    with pytest.raises(InvalidArgumentError, match=r"x\.npy: the output is also an input"):
        embed([Total()], graph, None, tmp_path / "x.npy", force=True)


def test_two_at_once(tmp_path: Path) -> None:
    def layer(batch: Batch) -> Rows:
        if batch.batch_size > 1:
            embed([Total()], GRAPH, X, tmp_path / "h.npy")
        return Total()(batch)

    message = rf"another build of .*h\.npy is running in process {os.getpid()}: wait for it"
    with pytest.raises(InvalidArgumentError, match=message):
        embed([layer], GRAPH, X, tmp_path / "h.npy")


def test_a_full_disk_is_named_before_work_begins(tmp_path: Path) -> None:
    def fail(batch: Batch) -> Rows:
        assert batch.batch_size == 1, "work has begun"
        return np.zeros((1, 5000))

    with small_disk(tmp_path / "disk", "1M") as disk:
        with pytest.raises(DiskFullError, match=r"the files of two layers need 7\.6 MiB, and"):
            embed([fail], GRAPH, X, disk / "h.npy")
        assert os.listdir(disk) == []


def test_a_disk_that_fills_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the file, and with more room the same call goes on."""
    monkeypatch.setattr(job, "RECORD_SECONDS", 0.0)
    graph, x = make_graph(COUNT), integers(COUNT, 300)
    layer, wanted = Total(), Total().of_all(SRC, DST, x)
    with small_disk(tmp_path / "disk", "1M") as disk:

        def filling(batch: Batch) -> Rows:
            if batch.batch_size > 1:
                (disk / "other").write_bytes(bytes(700_000))
            return layer(batch)

        filling.fingerprint = "1"  # type: ignore[attr-defined]
        remarks: list[str] = []
        with pytest.raises(DiskFullError, match=r"cannot write .*h\.npy\.building/.*: No space"):
            embed([filling], graph, x, disk / "h.npy", batch_size=20)
        subprocess.run(["mount", "-o", "remount,size=4M", str(disk)], check=True)
        embed([filling], graph, x, disk / "h.npy", batch_size=20, remark=remarks.append)
        assert re.fullmatch(r"going on at row \d+ of layers\[0\]", remarks[0])
        np.testing.assert_array_equal(np.load(disk / "h.npy"), wanted)


def test_an_error_of_a_layer_comes_as_it_is_and_the_work_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "RECORD_SECONDS", 0.0)
    failing = [True]

    def second(batch: Batch) -> Rows:
        if failing[0] and batch.batch_size > 1:
            raise RuntimeError("out of memory")
        return Total(2)(batch)

    second.fingerprint = "1"  # type: ignore[attr-defined]  # what it closes over changes
    out = tmp_path / "h.npy"
    with pytest.raises(RuntimeError, match="out of memory"):
        embed([Total(3), second], GRAPH, X, out)
    failing[0] = False
    remarks: list[str] = []
    np.testing.assert_array_equal(
        embed([Total(3), second], GRAPH, X, out, remark=remarks.append).array, WANTED
    )
    assert remarks == ["going on at row 0 of layers[1]"]


def test_progress_of_each_layer(tmp_path: Path) -> None:
    reports: list[tuple[Any, ...]] = []

    def stages(name: str, unit: str) -> Callable[[int, int], None]:
        reports.append((name, unit))
        return lambda done, total: reports.append((done, total))

    embed([Total(), Total()], GRAPH, X, tmp_path / "h.npy", batch_size=150, stages=stages)
    assert reports == [
        ("Layer 1 of 2", "nodes"), (150, 200), (200, 200),
        ("Layer 2 of 2", "nodes"), (150, 200), (200, 200),
    ]  # fmt: skip
