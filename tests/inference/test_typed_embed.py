"""Vectors of every node of typed graphs: what they are, where they lie, and how work goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.disks import small_disk
from support.recording import Interrupt, Recording
from support.strategies import examples, hetero_graphs

from aethergraph import DynamicHeteroGraph, HeteroGraph, HeteroNeighborSampler
from aethergraph.errors import (
    CorruptFileError,
    DiskFullError,
    InvalidArgumentError,
    LayoutError,
    StorageError,
)
from aethergraph.inference import embed, job
from aethergraph.loading.batch import HeteroBatch
from aethergraph.sampling.keys import mix_key

Rows = NDArray[np.int64]
ByType = dict[str, Rows]
Edges = Mapping[tuple[str, str, str], Any]


class Total:
    """Layer of integers: ``factor`` times the own row, and rows of neighbours by relation.

    A type that no edges can end at has no rows after it.
    """

    def __init__(self, factor: int = 3) -> None:
        self.factor, self.fingerprint = factor, f"times {factor}"

    def __call__(self, batch: HeteroBatch) -> Rows | None:
        ((name, seeds),) = batch.seeds.items()
        own = {name: batch.x[name][: len(seeds)]} if name in batch.x else {}
        return self._rows(name, len(seeds), own, batch.edge_index, batch.x)

    def _rows(self, name: str, count: int, own: ByType, edges: Edges, x: ByType) -> Rows | None:
        kinds = [kind for kind in edges if kind[2] == name]
        width = next(iter(x.values())).shape[1]
        rows = np.zeros((count, width), np.int64)
        if name in own:
            rows += own[name] * self.factor
        for kind in kinds:
            if kind[0] in x:
                src, dst = edges[kind]
                np.add.at(rows, dst, x[kind[0]][src] * (2 + len(kind[1])))
        return rows if kinds else None

    def of_all(self, counts: Mapping[str, int], edges: Edges, x: ByType) -> ByType:
        """Return what the layer makes of all nodes."""
        rows = {name: self._rows(name, count, x, edges, x) for name, count in counts.items()}
        return {name: of_type for name, of_type in rows.items() if of_type is not None}


def edges_of(graph: Any) -> Edges:
    return {kind: graph[kind].edge_index() for kind in graph.edge_types}


def integers(counts: Mapping[str, int], width: int = 3) -> ByType:
    rng = np.random.default_rng(5)
    return {name: rng.integers(-9, 9, (count, width)) for name, count in counts.items()}


def of_layers(layers: list[Total], graph: Any, x: ByType) -> ByType:
    for layer in layers:
        x = layer.of_all(graph.num_nodes, edges_of(graph), x) if x else {}
    return x


def assert_tables(tables: Any, wanted: ByType, out: Path) -> None:
    assert [*tables] == [*wanted]
    assert sorted(os.listdir(out)) == sorted(f"{name}.npy" for name in wanted)
    for name, rows in wanted.items():
        assert tables[name].path == str(out / f"{name}.npy")
        np.testing.assert_array_equal(tables[name].array, rows, strict=True)
        np.testing.assert_array_equal(np.load(out / f"{name}.npy"), rows, strict=True)


@given(
    graph=hetero_graphs(), layers=st.integers(1, 3), batch_size=st.sampled_from([None, 1, 7]),
    width=st.integers(0, 3), stretch=st.sampled_from([1, 5, 1 << 20]), bare=st.booleans(),
)  # fmt: skip
@examples(100)
def test_equals_the_sums_over_all_edges(
    graph: HeteroGraph, layers: int, batch_size: int | None, width: int, stretch: int, bare: bool
) -> None:
    """Also of types that no edge ends at, and of one that has no rows of features."""
    functions = [Total(factor) for factor in range(layers)]
    x = integers(graph.num_nodes, width)
    if bare and len(x) > 1:
        del x["n0"]
    wanted = of_layers(functions, graph, x)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("aethergraph.inference.batches._NODES", stretch)
        out = Path(folder) / "h"
        if not wanted:
            with pytest.raises(InvalidArgumentError, match="returned None for every node type"):
                embed(functions, graph, x, out)
            assert os.listdir(folder) == []
        else:
            tables = embed(functions, graph, x, out, batch_size=batch_size)
            assert_tables(tables, wanted, out)


# ---- graphs of all kinds ------------------------------------------------------------------------

COUNTS = {"paper": 120, "author": 80, "venue": 3, "topic": 7}
CITES, WRITES = ("paper", "cites", "paper"), ("author", "writes", "paper")
BY, IN = ("paper", "by", "author"), ("paper", "in", "venue")
OF = ("topic", "of", "paper")


def make_edges() -> dict[tuple[str, str, str], Rows]:
    """Edges that are there once, of relations to all types but topics."""
    rng = np.random.default_rng(2)
    sizes = {CITES: 700, WRITES: 300, BY: 300, IN: 120, OF: 50}
    return {
        kind: np.unique(
            [rng.integers(0, COUNTS[kind[0]], size), rng.integers(0, COUNTS[kind[2]], size)], axis=1
        )
        for kind, size in sizes.items()
    }


EDGES, X = make_edges(), integers(COUNTS)
LAYERS = [Total(3), Total(2)]


def make_typed(**options: Any) -> HeteroGraph:
    edges: Any = {kind: tuple(ends) for kind, ends in EDGES.items()}
    graph = HeteroGraph.from_edges(edges, COUNTS, **options)
    for name, rows in X.items():
        graph[name].features = rows
    return graph


GRAPH = make_typed()
WANTED = of_layers(LAYERS, GRAPH, X)


def stored(folder: Path, storage: Any) -> HeteroGraph:
    GRAPH.save(folder / "g.aeg")
    budget = {"memory_budget": "64M"} if storage == "uring" else {}
    graph = HeteroGraph.load(folder / "g.aeg", storage=storage, **budget)
    for name, rows in X.items():
        np.save(folder / f"{name}.npy", rows)
        graph[name].load_features(folder / f"{name}.npy", storage=storage, **budget)
    return graph


def live(folder: Path) -> DynamicHeteroGraph:
    graph = DynamicHeteroGraph(COUNTS, [*EDGES])
    for name, rows in X.items():
        graph[name].features = rows
    for kind, ends in EDGES.items():
        graph[kind].insert(*ends[:, ::2])
        graph[kind].insert(*ends[:, 1::2])
    return graph


def moving(folder: Path) -> Any:
    graph = live(folder)
    snapshot = graph.snapshot()
    graph[WRITES].delete(*EDGES[WRITES][:, :9])
    return snapshot


KINDS: dict[str, Callable[[Path], Any]] = {
    "memory": lambda folder: make_typed(),
    "mapped": lambda folder: stored(folder, "mmap"),
    "uring": lambda folder: stored(folder, "uring"),
    "live": live,
    "snapshot": moving,
}


@pytest.mark.own_share
@pytest.mark.parametrize("kind", KINDS)
def test_graphs_of_all_kinds(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "graph"
    folder.mkdir()
    graph, out = KINDS[kind](folder), tmp_path / "h"
    tables = embed(LAYERS, graph, None, out, batch_size=16)
    assert_tables(tables, WANTED, out)
    assert [*tables] == ["paper", "author", "venue"]


def test_layers_read_through_caches_if_they_do_not_fit(tmp_path: Path) -> None:
    """Rows of small types are in memory, those of large ones read by uring, or mapped."""
    counts = {"a": 20_000, "b": 15_000, "c": 100}
    rng = np.random.default_rng(0)
    kinds = [
        ("a", "to", "a"),
        ("a", "to", "b"),
        ("b", "of", "a"),
        ("c", "of", "b"),
        ("b", "to", "c"),
    ]
    graph = HeteroGraph.from_edges(
        {
            kind: (rng.integers(0, counts[kind[0]], 9_000), rng.integers(0, counts[kind[2]], 9_000))
            for kind in kinds
        },
        counts,
    )
    x = integers(counts, 64)
    out = tmp_path / "h"
    tables = embed(LAYERS, graph, x, out, memory_budget="8M")
    assert_tables(tables, of_layers(LAYERS, graph, x), out)


def test_values_of_edges(tmp_path: Path) -> None:
    weight = {kind: np.arange(ends.shape[1]) % 7 for kind, ends in EDGES.items()}
    graph = make_typed(
        edge_attrs={CITES: {"w": weight[CITES]}, BY: {"w": weight[BY], "v": weight[BY]}},
        edge_weight={WRITES: weight[WRITES] + 1.0},
    )  # fmt: skip

    def layer(batch: HeteroBatch) -> Any:
        ((name, seeds),) = batch.seeds.items()
        rows = np.zeros((len(seeds), 2))
        for kind, values in batch.edge_attrs.items():
            if kind[2] == name:
                for value, of_kind in values.items():
                    np.add.at(rows[:, int(value != "w")], batch.subgraph.col[kind], of_kind)
        return rows

    for names in (["w", "edge_weight"], {CITES: ["w"], BY: ["w"], WRITES: ["edge_weight"]}):
        tables = embed([layer], graph, X, tmp_path / "h", edge_attrs=names, force=True)
        paper = np.zeros((COUNTS["paper"], 2))
        np.add.at(paper[:, 0], EDGES[CITES][1], weight[CITES])
        np.add.at(paper[:, 1], EDGES[WRITES][1], weight[WRITES] + 1.0)
        author = np.zeros((COUNTS["author"], 2))
        np.add.at(author[:, 0], EDGES[BY][1], weight[BY])
        np.testing.assert_array_equal(tables["paper"].array, paper)
        np.testing.assert_array_equal(tables["author"].array, author)


@pytest.mark.parametrize("num_neighbors", [None, 3])
@pytest.mark.parametrize("times_of", ["edge_time", "node_time"])
def test_equals_a_run_over_the_graph_of_that_time(
    times_of: str, num_neighbors: int | None, tmp_path: Path
) -> None:
    """Relations without times, and those from nodes without, are whole."""
    rng = np.random.default_rng(3)
    times: dict[Any, Rows] = {kind: rng.integers(0, 9, EDGES[kind].shape[1]) for kind in (BY, OF)}
    is_there = {kind: of_kind < 5 for kind, of_kind in times.items()}
    if times_of == "node_time":
        times = {name: rng.integers(0, 9, COUNTS[name]) for name in ("paper", "topic")}
        is_there = {kind: times[kind[0]][EDGES[kind][0]] < 5 for kind in EDGES if kind[0] in times}
    edges = {**EDGES, **{kind: EDGES[kind][:, kept] for kind, kept in is_there.items()}}
    kept_times = times
    if times_of == "edge_time":
        kept_times = {kind: of_kind[is_there[kind]] for kind, of_kind in times.items()}
    graph = make_typed(**{times_of: times})
    earlier = HeteroGraph.from_edges(edges, COUNTS, **{times_of: kept_times})
    tables = embed(
        LAYERS, graph, X, tmp_path / "h", until=4, num_neighbors=num_neighbors, batch_size=16
    )  # fmt: skip
    wanted = embed(LAYERS, earlier, X, tmp_path / "all", num_neighbors=num_neighbors)
    assert_tables(tables, {name: rows.array for name, rows in wanted.items()}, tmp_path / "h")


@pytest.mark.parametrize(
    "num_neighbors",
    [[4, 2], {CITES: [4, 2], BY: [1, -1], OF: 3}],
)
def test_drawn_neighbours_are_those_of_a_key_for_each_layer(
    num_neighbors: Any, tmp_path: Path
) -> None:
    """They do not depend on the batches, and each layer draws its own; none where no number is."""
    x = X
    for number, layer in enumerate(LAYERS):
        by_type = num_neighbors
        if not isinstance(num_neighbors, dict):
            by_type = dict.fromkeys(EDGES, num_neighbors)
        fanouts = {kind: [n if isinstance(n, int) else n[number]] for kind, n in by_type.items()}
        sampler = HeteroNeighborSampler(GRAPH, fanouts)
        rows: ByType = {}
        for name, count in COUNTS.items():
            sample = sampler.sample({name: np.arange(count)}, mix_key(7, number))
            edges = {
                kind: (sample.node[kind[0]][row], sample.col[kind])
                for kind, row in sample.row.items()
                if kind[2] == name
            }
            rows.update(layer.of_all({name: count}, edges, x))
        x = rows
    for batch_size in (None, 13):
        out = tmp_path / "h"
        tables = embed(
            LAYERS, GRAPH, X, out, num_neighbors=num_neighbors, seed=7, batch_size=batch_size,
            force=True,
        )  # fmt: skip
        assert_tables(tables, x, out)


def test_batches_are_cut_at_hubs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Edges of all relations count, but for a node that has more by itself."""
    monkeypatch.setattr(job, "_limit_of", lambda row_bytes: 15)
    sizes: list[tuple[int, int]] = []

    def layer(batch: HeteroBatch) -> Rows | None:
        edges = sum(map(len, batch.subgraph.row.values()))
        sizes.append((batch.batch_size, batch.batch_size + edges))
        return Total()(batch)

    embed([layer], GRAPH, X, tmp_path / "h")
    assert all(nodes == 1 or size <= 15 for nodes, size in sizes)
    total = sum(COUNTS[name] for name in ("paper", "author", "venue"))
    total += sum(ends.shape[1] for ends in EDGES.values())
    assert sum(size for _, size in sizes[len(COUNTS) :]) == total  # the first ones are tries
    assert len(sizes) < total / 4


def test_dtype_of_the_outputs_alone(tmp_path: Path) -> None:
    tables = embed(LAYERS, GRAPH, X, tmp_path / "h", dtype="float16")
    for name, rows in WANTED.items():
        np.testing.assert_array_equal(tables[name].array, rows.astype(np.float16), strict=True)


def test_outputs_of_bfloat16(tmp_path: Path) -> None:
    tables = embed(LAYERS, GRAPH, X, tmp_path / "h", dtype="bfloat16")
    assert sorted(os.listdir(tmp_path / "h")) == sorted(f"{name}.bin" for name in WANTED)
    for name, rows in WANTED.items():
        stored = tables[name].gather([2, 1], dtype="float32")
        np.testing.assert_allclose(stored, rows[[2, 1]], rtol=1 / 256)


def test_names_of_types_that_no_file_can_have(tmp_path: Path) -> None:
    graph = HeteroGraph.from_edges({("a/b", "to", "100%"): ([0, 1], [1, 1])}, {"a/b": 2, "100%": 2})
    x = integers(graph.num_nodes)

    def layer(batch: HeteroBatch) -> Any:
        ((name, seeds),) = batch.seeds.items()
        return batch.x[name][: len(seeds)]

    tables = embed([layer, layer], graph, x, tmp_path / "h")
    assert sorted(os.listdir(tmp_path / "h")) == ["100%25.npy", "a%2Fb.npy"]
    np.testing.assert_array_equal(tables["a/b"].array, x["a/b"])
    np.testing.assert_array_equal(tables["100%"].array, x["100%"])


# ---- going on -----------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [True, False])
def test_goes_on_wherever_it_was_interrupted(
    after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted at every recording, before it or after it, then run again."""
    monkeypatch.setattr(job, "RECORD_SECONDS", 0.0)
    recording = Recording(monkeypatch, interrupted_after=after)
    out, remarks = tmp_path / "h", set[str]()

    def run() -> Any:
        return embed(LAYERS, GRAPH, X, out, batch_size=70, remark=remarks.add)

    def look() -> None:
        assert not out.exists() or os.listdir(out) == ["paper.npy.building"]

    def check(tables: Any) -> None:
        assert_tables(tables, WANTED, out)
        for path in out.iterdir():
            path.unlink()
        out.rmdir()

    points = recording.interrupt_each(run, check, look)
    assert points == 2 * (2 + 2 + 1) + 2  # batches of papers, authors and venues, and placing
    assert {
        "going on at row 70 of 'paper' of layers[0]", "going on at row 0 of 'author' of layers[1]",
        "going on at row 70 of 'author' of layers[1]", "going on at row 0 of layers[1]",
        "going on at row 0 of 'venue' of layers[0]", "going on at the end of the last layer",
    } < remarks  # fmt: skip


KILLED = """
    import os, signal, sys
    import numpy as np
    from aethergraph import HeteroGraph
    from aethergraph.inference import embed, job
    folder, steps = sys.argv[1], int(sys.argv[2])
    job.RECORD_SECONDS = 0.0
    graph = HeteroGraph.load(folder + "/g.aeg")
    for name in graph.node_types:
        graph[name].load_features(folder + f"/{name}.npy")

    def layer(batch):
        global steps
        steps -= 1
        if steps == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        (name, seeds), = batch.seeds.items()
        kinds = [kind for kind in batch.edge_index if kind[2] == name]
        rows = batch.x[name][: len(seeds)] * 3 if name in batch.x else 0
        for kind in kinds:
            if kind[0] in batch.x:
                row, col = batch.edge_index[kind]
                np.add.at(rows, col, batch.x[kind[0]][row] * (2 + len(kind[1])))
        return rows if kinds else None

    layer.fingerprint = "1"
    embed([layer, layer], graph, None, folder + "/h", batch_size=40,
          remark=lambda text: print(text, flush=True))
"""


def test_killed_processes(tmp_path: Path) -> None:
    """A chain of processes, each killed a little further on, makes the files."""
    stored(tmp_path, "memory")
    remarks = []
    for _ in range(20):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(KILLED), tmp_path, "11"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        remarks += done.stdout.splitlines()
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(remarks) > 3
    assert {text.split(" of ", 1)[1] for text in remarks} >= {"'author' of layers[0]"}
    layers = [Total(3), Total(3)]
    wanted = of_layers(layers, GRAPH, X)
    assert sorted(os.listdir(tmp_path / "h")) == ["author.npy", "paper.npy", "venue.npy"]
    for name, rows in wanted.items():
        np.testing.assert_array_equal(np.load(tmp_path / f"h/{name}.npy"), rows)


def interrupt(monkeypatch: pytest.MonkeyPatch, out: Path, number: int = 2, **options: Any) -> None:
    """Leave work behind that was interrupted after a recording."""
    arguments = {"layers": LAYERS, "graph": GRAPH, "features": X, "batch_size": 70, **options}
    with monkeypatch.context() as patch:
        patch.setattr(job, "RECORD_SECONDS", 0.0)
        Recording(patch, interrupted_after=True).left = number
        with pytest.raises(Interrupt):
            embed(**arguments, out=out)


ELSEWHERE = {**EDGES, BY: np.stack([EDGES[BY][0], EDGES[BY][1][::-1]])}


@pytest.mark.own_share
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": [Total(3), Total(4)]}, r"layers\[1\]\.fingerprint was 'times 2'"),
        ({"features": {**X, "venue": X["venue"] + 1}}, r"features\.venue was 'int64"),
        ({"features": {"paper": X["paper"]}}, r"features\.author was"),
        ({"graph": HeteroGraph.from_edges({k: tuple(e) for k, e in ELSEWHERE.items()}, COUNTS)},  # type: ignore[misc]
         r"graph\.all lists was"),
        ({"num_neighbors": {CITES: 3}}, "num_neighbors.* was"),
    ],
)  # fmt: skip
def test_other_work_does_not_go_on(
    changes: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "h"
    interrupt(monkeypatch, out)
    arguments: dict[str, Any] = {
        "layers": LAYERS, "graph": GRAPH, "features": X, "out": out, **changes
    }  # fmt: skip
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        embed(**arguments)
    assert "restart=True" in str(caught.value)
    embed(**arguments, restart=True)
    assert sorted(os.listdir(out)) == ["author.npy", "paper.npy", "venue.npy"]


def test_outputs_of_which_some_were_placed_before_the_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "h"
    with monkeypatch.context() as patch:
        replace = os.replace

        def replacing(source: Any, target: Any) -> None:
            if str(target).endswith("author.npy"):
                raise KeyboardInterrupt
            replace(source, target)

        patch.setattr("aethergraph.convert.outputs.os.replace", replacing)
        with pytest.raises(KeyboardInterrupt):
            embed(LAYERS, GRAPH, X, out)
    assert sorted(os.listdir(out)) == ["paper.npy", "paper.npy.building"]
    assert_tables(embed(LAYERS, GRAPH, X, out), WANTED, out)


def test_a_work_file_that_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "h"
    interrupt(monkeypatch, out, 3)
    (out / "paper.npy.building/layer-0-author.npy").unlink()
    with pytest.raises(CorruptFileError, match=r"author\.npy.*is missing.*restart=True"):
        embed(LAYERS, GRAPH, X, out)


# ---- bad input ----------------------------------------------------------------------------------


def wide(batch: HeteroBatch) -> Any:
    return batch.x["paper"] @ np.ones((4, 2))


def nothing(batch: HeteroBatch) -> Any:
    return None


def too_many(batch: HeteroBatch) -> Any:
    ((name, _),) = batch.seeds.items()
    return batch.x[name][:0]


@pytest.mark.own_share
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"layers": [Total(), wide]}, InvalidArgumentError,
         r"layers\[1\] \(wide\) does not take rows of 'paper': shape \(3,\) and int64, 'author': "
         r"shape .*, as layers\[0\] returns them for 'paper': ValueError: matmul"),
        ({"layers": [nothing]}, InvalidArgumentError,
         r"layers\[0\] \(nothing\) returned None for every node type: return rows of the nodes"),
        ({"layers": [too_many]}, InvalidArgumentError,
         r"layers\[0\] \(too_many\) returned shape \(0, 3\) for 1 nodes for 'paper': return a row"),
        ({"features": X["paper"]}, InvalidArgumentError, "features goes by node type, {'paper': "),
        ({"features": {"papers": X["paper"]}}, InvalidArgumentError,
         "features: 'papers' is no node type; there are: 'paper', 'author'"),
        ({"features": {"paper": X["paper"][1:]}}, InvalidArgumentError,
         r"features\['paper'\] has 119 rows, but num_nodes\['paper'\] = 120"),
        ({"features": None, "graph": HeteroGraph.from_edges({CITES: ([0], [0])})},
         InvalidArgumentError, "features is None, and the graph has none"),
        ({"graph": make_typed(layout="csr")}, LayoutError,
         r"graph\[\('paper', 'cites', 'paper'\)\] stores out-edges alone: embed needs layout"),
        ({"out": "h.npy"}, InvalidArgumentError, "is no folder: it gets a file of each type"),
        ({"num_neighbors": [3]}, InvalidArgumentError,
         "num_neighbors has 1 numbers, but there are 2 layers"),
        ({"num_neighbors": {CITES: [3]}}, InvalidArgumentError,
         r"num_neighbors\[\('paper', 'cites', 'paper'\)\] has 1 numbers, but there are 2 layers"),
        ({"num_neighbors": {"cites": 3}}, InvalidArgumentError,
         "num_neighbors: 'cites' is no edge type; there are: "),
        ({"edge_attrs": "w"}, InvalidArgumentError, "edge_attrs: 'w' does not exist"),
        ({"edge_attrs": {"cites": ["w"]}}, InvalidArgumentError, "edge_attrs: 'cites' is no type"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named_before_work_begins(
    changes: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    arguments: dict[str, Any] = {
        "layers": LAYERS, "graph": GRAPH, "features": X, "out": "h", **changes
    }  # fmt: skip
    for refresh in (False, True):
        with pytest.raises(error, match=message):
            embed(**{**arguments, "out": tmp_path / arguments["out"]}, refresh=refresh)
        assert os.listdir(tmp_path) == []


def test_the_least_budget_is_named(tmp_path: Path) -> None:
    src = np.zeros(30_000, int)
    graph = HeteroGraph.from_edges({WRITES: (src, np.full(30_000, 17)), BY: ([0], [0])}, COUNTS)
    with pytest.raises(
        InvalidArgumentError, match=r"'1M' is too small for node 17 of 'paper', which has 30,000"
    ):
        embed([Total()], graph, X, tmp_path / "h", memory_budget="1M")
    assert os.listdir(tmp_path) == []


def test_rows_of_another_form_later(tmp_path: Path) -> None:
    def layer(batch: HeteroBatch) -> Any:
        ((name, seeds),) = batch.seeds.items()
        is_late = name == "author" and batch.batch_size > 1 and seeds[0] >= 50
        return np.zeros((batch.batch_size, 2 if is_late else 1))

    with pytest.raises(
        InvalidArgumentError, match=r"for nodes 50\.\.79 for 'author', before of \(1,\) and float64"
    ):
        embed([layer], GRAPH, X, tmp_path / "h", batch_size=50)


def test_outputs_that_exist(tmp_path: Path) -> None:
    out = tmp_path / "h"
    out.mkdir()
    (out / "author.npy").write_text("mine")
    (out / "notes.txt").write_text("mine")
    with pytest.raises(StorageError, match=r"h/author\.npy: exists already"):
        embed(LAYERS, GRAPH, X, out)
    assert sorted(os.listdir(out)) == ["author.npy", "notes.txt"]
    embed(LAYERS, GRAPH, X, out, force=True)
    assert (out / "notes.txt").read_text() == "mine"
    np.testing.assert_array_equal(np.load(out / "author.npy"), WANTED["author"])
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(StorageError, match="file: is no folder: vectors of several types are"):
        embed(LAYERS, GRAPH, X, file)
    with pytest.raises(StorageError, match=r"the folder .*missing does not exist"):
        embed(LAYERS, GRAPH, X, tmp_path / "missing" / "h")


def test_the_features_are_not_overwritten(tmp_path: Path) -> None:
    graph = stored(tmp_path, "mmap")
    with pytest.raises(InvalidArgumentError, match=r"paper\.npy: the output is also an input"):
        embed(LAYERS, graph, None, tmp_path, force=True)


def test_a_full_disk_is_named_before_work_begins(tmp_path: Path) -> None:
    def layer(batch: HeteroBatch) -> Any:
        assert batch.batch_size == 1, "work has begun"
        return np.zeros((1, 5000))

    with small_disk(tmp_path / "disk", "1M") as disk:
        with pytest.raises(DiskFullError, match=r"the files of two layers need 8\.0 MiB, and"):
            embed([layer], GRAPH, X, disk / "h")
        assert os.listdir(disk) == []


def test_progress_of_each_layer_and_type(tmp_path: Path) -> None:
    reports: list[tuple[Any, ...]] = []

    def stages(name: str, unit: str) -> Callable[[int, int], None]:
        reports.append((name, unit))
        return lambda done, total: reports.append((done, total))

    embed(LAYERS[:1], GRAPH, X, tmp_path / "h", batch_size=100, stages=stages)
    assert reports == [
        ("Layer 1 of 1, paper", "nodes"), (100, 120), (120, 120),
        ("Layer 1 of 1, author", "nodes"), (80, 80), ("Layer 1 of 1, venue", "nodes"), (3, 3),
    ]  # fmt: skip
