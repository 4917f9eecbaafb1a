"""FeatureTable with storage="uring": rows read when they are gathered, within a budget."""

from __future__ import annotations

import gc
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.rows import random_rows
from support.strategies import examples

from aethergraph import FeatureTable, Graph, HeteroGraph, errors
from aethergraph import _native as native
from aethergraph.features.bfloat16 import bfloat16_to_float32
from aethergraph.features.hot import hottest

pytestmark = [pytest.mark.usefixtures("each_tier"), pytest.mark.any_python]


@pytest.fixture(params=["uring", "pread"])
def each_tier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    tier: str = request.param
    if native.io_problem(tier):
        pytest.skip(f"no {tier} here")
    monkeypatch.setenv("AETHERGRAPH_IO", tier)
    return tier


def saved(rows: Any, path: Path, dtype: str | None = None) -> Path:
    if path.suffix == ".npy":
        np.save(path, rows)
    else:
        FeatureTable.from_array(rows, dtype=dtype).save(path)
    return path


@pytest.fixture
def rows() -> Any:
    return random_rows("float32", (5000, 128))


@pytest.fixture
def path(rows: Any, tmp_path: Path, each_tier: str) -> Path:
    """A file of another format for each tier: neither knows of the other."""
    return saved(rows, tmp_path / ("rows.npy" if each_tier == "uring" else "rows.aeg"))


# ---- gather ----------------------------------------------------------------------------------

TARGETS = {"float16": "float64", "bfloat16": "float32", "uint8": "int64", "int32": "float64"}


@examples(25)
@given(
    dtype=st.sampled_from(
        ["float32", "float64", "float16", "uint8", "int32", "uint64", "bool", "bfloat16"]
    ),
    row=st.sampled_from([(), (1,), (3,), (16,), (2, 5), (128,), (333,), (2500,)]),
    num_rows=st.sampled_from([1, 2, 7, 400, 3000]),
    budget=st.integers(700_000, 6_000_000),
    picks=st.lists(st.lists(st.integers(0, 2**20), max_size=300), min_size=1, max_size=4),
    hot=st.lists(st.integers(0, 2**20), max_size=50),
    suffix=st.sampled_from(["npy", "aeg"]),
    wider=st.booleans(),
)  # fmt: skip
def test_gather_equals_fancy_indexing(
    tmp_path: Path, dtype: str, row: tuple[int, ...], num_rows: int, budget: int,
    picks: list[list[int]], hot: list[int], suffix: str, wider: bool,
) -> None:  # fmt: skip
    rows = random_rows(dtype, (num_rows, *row))
    is_bits = dtype == "bfloat16"
    name = saved(
        rows, tmp_path / ("x.aeg" if is_bits else f"x.{suffix}"), dtype if is_bits else None
    )
    store = FeatureTable.load(
        name, "uring", memory_budget=budget, hot=np.array([i % num_rows for i in hot], np.int64)
    )
    assert store.stats().used <= budget
    for pick in picks:
        ids = np.array([i % num_rows for i in pick], np.int64)
        np.testing.assert_array_equal(store.gather(ids), rows[ids])
        target = TARGETS.get(dtype)
        if wider and target is not None:
            expected = bfloat16_to_float32(rows[ids]) if is_bits else rows[ids]
            np.testing.assert_array_equal(store.gather(ids, dtype=target), expected.astype(target))
    stats = store.stats()
    assert stats.frames_held <= stats.frames
    assert stats.hits <= stats.rows
    store.close()


@pytest.mark.parametrize("shape", [(0, 4), (5, 0), (0,)])
def test_tables_without_bytes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    rows = np.empty(shape, np.float32)
    store = FeatureTable.load(saved(rows, tmp_path / "x.npy"), "uring", memory_budget="1M")
    assert store.shape == shape
    assert store.gather(np.zeros(2, np.int64) if shape[0] else []).shape[1:] == shape[1:]
    copy = pickle.loads(pickle.dumps(store))
    assert copy.shape == shape


def test_auto_reads_what_a_budget_does_not_hold(path: Path, rows: Any, tmp_path: Path) -> None:
    for budget, storage in (("16M", "memory"), ("1M", "uring")):
        store = FeatureTable.load(path, "auto", memory_budget=budget, hot=[3])
        assert store.storage == storage
        np.testing.assert_array_equal(store.gather([3, 4]), rows[[3, 4]])
    np.save(tmp_path / "columns.npy", np.asfortranarray(rows))  # can only be loaded
    columns = FeatureTable.load(tmp_path / "columns.npy", "auto", memory_budget="1M")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(columns)).array, rows)
    with pytest.raises(errors.UnsupportedError, match="column-major"):
        FeatureTable.load(tmp_path / "columns.npy", "uring")


# ---- the cache --------------------------------------------------------------------------------


def test_hot_rows_are_not_read_again(path: Path, rows: Any) -> None:
    hot = np.random.default_rng(3).permutation(5000)[:300]
    store = FeatureTable.load(path, "uring", memory_budget="1M", hot=hot)
    stats = store.stats()
    assert (stats.hot_frames, stats.budget) == (300, 1 << 20)
    assert stats.used <= 1 << 20
    without = FeatureTable.load(path, "uring", memory_budget=(1 << 20) - hot.nbytes).stats()
    assert (stats.frames, stats.used) == (without.frames, without.used + hot.nbytes)
    data = pickle.dumps(store)  # of the path and the budget
    assert len(data) < 4000
    copy = pickle.loads(data).stats()
    assert (copy.budget, copy.hot_frames) == (1 << 20, 300)
    np.testing.assert_array_equal(store.gather(hot), rows[hot])
    assert store.stats().device_reads == 0
    assert store.stats().hit_rate == 1.0
    for start in range(0, 5000, 500):  # a scan does not push them out
        store.gather(np.arange(start, start + 500))
    before = store.stats().device_reads
    store.gather(hot)
    assert store.stats().device_reads == before


def test_frequency_chooses_the_hot_rows(path: Path) -> None:
    frequency = np.random.default_rng(4).permutation(5000)
    store = FeatureTable.load(path, "uring", memory_budget="1M", frequency=frequency, hot_share=0.3)
    stats = store.stats()
    assert 0.25 * stats.frames < stats.hot_frames <= 0.3 * stats.frames
    kept = np.argsort(-frequency)[: stats.hot_frames]
    store.gather(kept)
    assert store.stats().misses == 0


def test_hottest_against_sorting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aethergraph.features.hot._CHUNK_ROWS", 37)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        numbers = rng.integers(0, 50, 500).astype(np.float64)
        found = hottest(lambda a, b: numbers[a:b], 500, 120)  # noqa: B023
        order = np.argsort(-numbers, kind="stable")
        np.testing.assert_array_equal(found, order[:120])


@pytest.mark.parametrize(
    ("bad", "at"), [(np.nan, 37), (np.inf, 0), (-np.inf, 499), (-1.0, 36), (-1e-300, 499)]
)
def test_frequencies_that_are_none_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: float, at: int
) -> None:
    monkeypatch.setattr("aethergraph.features.hot._CHUNK_ROWS", 37)
    path = saved(random_rows("float32", (500, 16)), tmp_path / "x.npy")
    numbers = np.ones(500)
    numbers[at] = bad
    for frequency in (numbers, numbers.tolist(), lambda start, stop: numbers[start:stop]):
        with pytest.raises(errors.InvalidArgumentError, match=rf"frequency\[{at}\] = ") as caught:
            FeatureTable.load(path, "uring", memory_budget="1M", frequency=frequency)
        assert caught.value.position == at


def test_a_function_that_gives_no_frequencies(path: Path) -> None:
    for numbers in (np.ones(7), np.ones((5000, 1)), np.ones(5000, complex), ["many"] * 5000):
        with pytest.raises(errors.InvalidArgumentError, match=r"frequency\(0, 5000\) must"):
            FeatureTable.load(path, "uring", frequency=lambda *_, n=numbers: n)
    with pytest.raises(errors.InvalidArgumentError, match="each of the 5000 rows"):
        FeatureTable.load(path, "uring", frequency=["many"] * 5000)


def test_stats_count_what_happened(path: Path, each_tier: str) -> None:
    store = FeatureTable.load(path, "uring", memory_budget="8M")
    first = store.stats()
    assert (first.rows, first.reads, first.hit_rate, first.amplification) == (0, 0, 0.0, 0.0)
    assert first.tier == each_tier
    assert first.budget == 8 << 20
    assert first.used <= first.budget
    ids = np.arange(0, 5000, 50)
    store.gather(ids)
    store.gather(ids)
    stats = store.stats()
    assert (stats.rows, stats.hits, stats.misses) == (200, 100, 100)
    assert stats.hit_rate == 0.5
    assert stats.wanted_bytes == 100 * 512
    assert stats.amplification == stats.device_bytes / stats.wanted_bytes >= 1
    assert stats.reads == 100
    with pytest.raises(errors.UnsupportedError, match="uring"):
        FeatureTable.load(path).stats()


# ---- what cannot be ------------------------------------------------------------------------------


def test_a_budget_that_is_too_small_names_the_least(path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="at least") as caught:
        FeatureTable.load(path, "uring", memory_budget="64K")
    least = int(str(caught.value).rsplit(" ", 1)[1])
    FeatureTable.load(path, "uring", memory_budget=least).gather([1, 2, 3])
    with pytest.raises(errors.InvalidArgumentError, match="beside 16 for the list of hot rows"):
        FeatureTable.load(path, "uring", memory_budget=least, hot=[1, 2])
    with pytest.raises(errors.InvalidArgumentError, match="at least"):
        FeatureTable.load(path, "uring", memory_budget=least - 1)


def test_options_that_do_not_fit(path: Path) -> None:
    for options, message in [
        ({"hot": [5000]}, r"hot\[0\] = 5000"),
        ({"hot": [3, -1]}, r"hot\[1\] = -1"),
        ({"hot": [1], "frequency": np.zeros(5000)}, "not both"),
        ({"frequency": np.zeros(4999)}, "each of the 5000 rows"),
        ({"frequency": np.zeros(5000, complex)}, "complex"),
        ({"hot": [1], "hot_share": 1.5}, "hot_share = 1.5"),
        ({"hot": [1], "hot_share": np.nan}, "hot_share = nan"),
        ({"hot": [1], "hot_share": "x"}, "hot_share = 'x' is not a number in 0..1"),
        ({"hot": [1], "hot_share": None}, "hot_share = None"),
        ({"memory_budget": 1 << 64}, "memory_budget = 18446744073709551616 is above"),
    ]:
        with pytest.raises(errors.AetherError, match=message):
            FeatureTable.load(path, "uring", **options)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match="storage='uring'"):
        FeatureTable.load(path, hot=[1])
    with pytest.raises(errors.InvalidArgumentError, match="hot_share = 'x' is not a number"):
        FeatureTable.load(path, hot_share="x")  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match="uring"):
        FeatureTable.load(path, "disk")  # type: ignore[arg-type]


def test_degrees_are_for_graphs(path: Path, rows: Any) -> None:
    ends = np.random.default_rng(8).integers(0, 5000, (2, 30_000))
    graph = Graph.from_edges(5000, *ends, layout="both")
    hot: Any = "degree"
    view = HeteroGraph.from_edges({("a", "to", "a"): ([0], [1])}, num_nodes={"a": 5000})["a"]
    for call in (
        lambda: FeatureTable.load(path, hot=hot),
        lambda: FeatureTable.load(path, "uring", hot=hot),
        lambda: FeatureTable.load(path, "auto", memory_budget="1M", hot=hot),
        lambda: FeatureTable.load(path).to_uring("1M", hot=hot),
        lambda: view.load_features(path, storage="uring", hot=hot),
    ):
        with pytest.raises(
            errors.InvalidArgumentError, match=r"hot = 'degree'.*frequency=graph\.out_degrees\(\)"
        ):
            call()
    by_degree = FeatureTable.load(path).to_uring("1M", frequency=graph.out_degrees())
    kept = np.argsort(-graph.out_degrees(), kind="stable")[: by_degree.stats().hot_frames]
    np.testing.assert_array_equal(by_degree.gather(kept), rows[kept])
    assert by_degree.stats().misses == 0


def test_the_largest_budget(path: Path, rows: Any) -> None:
    for share in (0.5, np.float32(0.5), 1, np.int64(1)):
        store = FeatureTable.load(
            path, "uring", memory_budget=(1 << 63) - 1, hot=[1], hot_share=share
        )
        np.testing.assert_array_equal(store.gather([1, 4999]), rows[[1, 4999]])


def test_there_is_no_array(path: Path) -> None:
    store = FeatureTable.load(path, "uring", memory_budget="1M")
    assert store.storage == "uring"
    for use in (lambda: store.array, store.tensor, lambda: np.asarray(store)):
        with pytest.raises(errors.UnsupportedError, match=r"to_memory\(\).*mmap"):
            use()
    store.close()
    with pytest.raises(errors.ClosedError):
        store.gather([1])


def test_a_file_that_shrinks(path: Path) -> None:
    store = FeatureTable.load(path, "uring", memory_budget="1M")
    store.gather([1, 2])
    os.truncate(path, path.stat().st_size // 2)
    for ids in ([4999], [1, 2]):
        with pytest.raises(errors.FileChangedError, match="shrank"):
            store.gather(ids)
    with pytest.raises(errors.AetherError):
        pickle.loads(pickle.dumps(store))


def test_a_file_that_is_replaced_or_written_to(path: Path, rows: Any) -> None:
    store = FeatureTable.load(path, "uring", memory_budget="1M")
    saved(rows + 1, path.with_name(f"other{path.suffix}")).replace(path)
    np.testing.assert_array_equal(store.gather([7]), rows[[7]])  # the file that was opened
    with pytest.raises(errors.FileChangedError):
        store.to_memory()
    again = FeatureTable.load(path, "uring", memory_budget="1M")
    with path.open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"1234")
    os.utime(path, ns=(0, 0))
    with pytest.raises(errors.FileChangedError, match="written to"):
        again.gather([7])


# ---- other storages, other processes ---------------------------------------------------------


def test_to_uring_and_back(path: Path, rows: Any) -> None:
    mapped = FeatureTable.load(path)
    store = mapped.to_uring("1M", hot=[5])
    mapped.close()
    np.testing.assert_array_equal(store.gather([4, 5]), rows[[4, 5]])
    memory = store.to_memory()
    assert memory.storage == "memory"
    np.testing.assert_array_equal(memory.array, rows)
    assert store.to_uring("2M").stats().budget == 2 << 20
    with pytest.raises(errors.UnsupportedError, match="save"):
        FeatureTable.from_array(rows).to_uring("1M")
    store.verify()


def test_saving_reads_all(path: Path, rows: Any, tmp_path: Path) -> None:
    store = FeatureTable.load(path, "uring", memory_budget="1M")
    store.save(tmp_path / "copy.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "copy.npy"), rows)
    store.save(tmp_path / "copy.aeg", dtype="float64")
    np.testing.assert_array_equal(FeatureTable.load(tmp_path / "copy.aeg").array, rows)


def test_memory_is_given_back(path: Path) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    everything = np.arange(5000)
    FeatureTable.load(path, "uring", memory_budget="4M").gather(everything)
    before = resident()
    for _ in range(15):
        store = FeatureTable.load(path, "uring", memory_budget="4M")
        store.gather(everything)
        del store
    gc.collect()
    assert resident() - before < 20 << 20


# ---- through what takes stores ---------------------------------------------------------------


def random_graph(num_nodes: int = 5000, **options: Any) -> Graph:
    rng = np.random.default_rng(5)
    return Graph.from_edges(
        num_nodes, rng.integers(0, num_nodes, 40000), rng.integers(0, num_nodes, 40000), **options
    )


@pytest.mark.parametrize("layout", ["csc", "both"])
def test_attached_to_a_graph_by_degree(path: Path, rows: Any, layout: Any) -> None:
    graph = random_graph(layout=layout)
    store = graph.load_features(path, storage="uring", memory_budget="1M", hot="degree")
    degrees = graph.in_degrees() if layout == "csc" else graph.out_degrees()
    kept = np.argsort(-degrees, kind="stable")[: store.stats().hot_frames]
    np.testing.assert_array_equal(graph.node_attrs["x"].gather(kept), rows[kept])
    assert store.stats().misses == 0
    with pytest.raises(errors.InvalidArgumentError, match="degree"):
        graph.load_features(path, storage="uring", hot="use")  # type: ignore[arg-type]
    for storage in ("mmap", "memory"):
        with pytest.raises(errors.InvalidArgumentError, match="hot needs storage='uring'"):
            graph.load_features(path, storage=storage, hot="degree")  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match="storage = 'disk'"):
        graph.load_features(path, storage="disk", hot="degree")  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match="5000 rows"):
        random_graph(4000).load_features(path, storage="uring", hot="degree")


def test_attributes_inside_a_graph_file(rows: Any, tmp_path: Path) -> None:
    graph = random_graph()
    graph.node_attrs["x"] = rows
    graph.save(tmp_path / "graph.aeg")
    graph = Graph.load(tmp_path / "graph.aeg")
    graph.node_attrs["x"] = graph.node_attrs["x"].to_uring("1M")
    copy = pickle.loads(pickle.dumps(graph))
    for one in (graph, copy):
        assert one.node_attrs["x"].storage == "uring"
        np.testing.assert_array_equal(one.node_attrs["x"].gather([3, 1]), rows[[3, 1]])
    graph.save(tmp_path / "again.aeg")
    np.testing.assert_array_equal(Graph.load(tmp_path / "again.aeg").node_attrs["x"].array, rows)


def test_what_mapped_rows_cannot_keep_to_is_refused(path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"memory_budget = '4M' goes with"):
        FeatureTable.load(path, memory_budget="4M")
    graph = Graph.from_edges(5000, [0], [1])
    with pytest.raises(errors.InvalidArgumentError, match=r"^hot needs storage='uring'.*'mmap'"):
        graph.load_features(path, hot="degree")


def test_auto_refuses_a_budget_that_no_storage_keeps(path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"too small"):
        FeatureTable.load(path, "auto", memory_budget=1000)
