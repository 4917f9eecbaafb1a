"""Short rows of a graph file whose lists stay there: what is read of them, and what is held."""

from __future__ import annotations

import gc
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.threads import run_with_each

import aethergraph as ag
from aethergraph import SubgraphLoader, errors
from aethergraph.loading import Ahead

pytestmark = pytest.mark.any_python

NODES, EDGES = 30_000, 600_000
PAGE = 4096
#: The least that such a graph can be opened with: nothing is left for columns.
LEAST = "18M"
PLENTY = "96M"
VALUES = ("edge_weight", "edge_time")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(3)
    graph = ag.Graph.from_edges(
        NODES, rng.integers(0, NODES, EDGES), rng.integers(0, NODES, EDGES),
        edge_weight=rng.random(EDGES, np.float32), edge_time=rng.integers(0, 999, EDGES),
        edge_attrs={
            "flag": rng.random(EDGES) < 0.5,
            "short": rng.integers(0, 99, EDGES).astype(np.int16),
            "half": rng.random(EDGES).astype(np.float16),
            "three": rng.random((EDGES, 3), np.float32),
            "five": rng.integers(0, 9, (EDGES, 5)).astype(np.uint8),
            "two": rng.random((EDGES, 2)),
            "wide": rng.random((EDGES, 5), np.float32),
        },
    )  # fmt: skip
    graph.edge_attrs["brain"] = ag.FeatureTable.from_array(
        rng.integers(0, 1 << 15, EDGES).astype(np.uint16), dtype="bfloat16"
    )
    graph.node_attrs["y"] = rng.integers(0, 9, NODES)
    path = tmp_path_factory.mktemp("columns") / "graph.aeg"
    graph.save(path)
    return path


def paged(path: Path, budget: str) -> ag.Graph:
    return ag.Graph.load(path, storage="uring", memory_budget=budget)


def read_bytes(graph: ag.Graph) -> int:
    assert graph.paging is not None
    return int(graph.paging.stats()["read_bytes"])


def pages_of(ids: Any, row_bytes: int) -> int:
    return len(np.unique(np.asarray(ids) * row_bytes // PAGE))


# ---- gathering ---------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [LEAST, PLENTY])
def test_rows_of_any_width_and_dtype_are_the_same(path: Path, budget: str) -> None:
    graph, mapped = paged(path, budget), ag.Graph.load(path)
    ids = np.random.default_rng(0).integers(0, EDGES, 20_000)
    found = {**graph.edge_values, **graph.edge_attrs}
    expected = {**mapped.edge_values, **mapped.edge_attrs}
    for name, store in found.items():
        other = expected[name]
        assert store.storage == ("mmap" if name == "wide" else "uring")
        np.testing.assert_array_equal(store.gather(ids), other.gather(ids), name)
        narrow = ids.astype(np.uint32)
        np.testing.assert_array_equal(store.gather(narrow), other.gather(narrow), name)
        if name in ("half", "brain", "three", "edge_weight"):
            wide = store.gather(ids[:99], dtype="float64")
            np.testing.assert_array_equal(wide, other.gather(ids[:99], dtype="float64"), name)
        np.testing.assert_array_equal(store.array, other.array, name)
        np.testing.assert_array_equal(store[5:9], other[5:9], name)
        assert len(store.gather([])) == 0
        for bad, position in (([0, EDGES], 1), ([-1], 0)):
            with pytest.raises(errors.OutOfRangeError) as caught:
                store.gather(bad)
            assert (caught.value.position, caught.value.value) == (position, bad[position])


@pytest.mark.parametrize("name", ["edge_weight", "edge_time", "flag", "three", "two"])
def test_a_gather_reads_each_page_once(path: Path, name: str) -> None:
    graph = paged(path, LEAST)
    store = {**graph.edge_values, **graph.edge_attrs}[name]
    row_bytes = store.nbytes // EDGES
    rng = np.random.default_rng(1)
    for _ in range(3):  # nothing of the first is there for the next
        few, many = rng.integers(0, EDGES, 300), rng.integers(0, EDGES, 30_000)
        for ids in (few, many):
            before = read_bytes(graph)
            store.gather(ids)
            whole = -(-store.nbytes // PAGE) * PAGE
            # what lies between near pages comes along with them
            most = whole if ids is many else min(whole, 5 * PAGE * pages_of(ids, row_bytes))
            assert 0 < read_bytes(graph) - before <= most
    assert graph.paging is not None
    assert graph.paging.stats()["value_bytes"] < 4 << 20


def test_a_column_that_fits_is_read_once(path: Path) -> None:
    graph = paged(path, PLENTY)
    store = graph.edge_values["edge_weight"]
    before = read_bytes(graph)
    assert graph.paging is not None and graph.paging.stats()["value_bytes"] == 0
    for seed in range(3):
        store.gather(np.random.default_rng(seed).integers(0, EDGES, 10_000))
    assert read_bytes(graph) - before <= store.nbytes + PAGE
    assert store.nbytes <= graph.paging.stats()["value_bytes"] <= store.nbytes + PAGE
    stats = store.stats()
    assert stats.device_bytes == store.nbytes and stats.rows == 30_000 and stats.hit_rate == 1
    again = graph.edge_values["edge_weight"]
    assert again.native_rows() is store.native_rows()


def test_pages_that_single_gathers_use_most_are_kept(path: Path) -> None:
    """Where a part of a column fits."""
    graph = paged(path, "23M")
    assert graph.paging is not None
    store = graph.edge_values["edge_time"]
    ids = np.random.default_rng(2).integers(0, EDGES // 20, 2000)
    read = []
    for _ in range(200):
        before = read_bytes(graph)
        store.gather(ids)
        read.append(read_bytes(graph) - before)
    assert store.native_rows().held is None  # type: ignore[union-attr]
    assert read[0] > 0 and read[-1] == 0
    assert 0 < graph.paging.stats()["value_bytes"] < 6 << 20


def test_what_columns_have_groups_have_not(path: Path) -> None:
    graph = paged(path, "48M")
    paging = graph.paging
    assert paging is not None
    before = paging.sample_room_of(1)
    taken = sum(s.nbytes for s in graph.edge_values.values() if s.gather([0]) is not None)
    assert taken == 12 * EDGES
    assert before - paging.sample_room_of(1) >= taken
    for name in ("three", "two", "five"):  # more than there is
        graph.edge_attrs[name].gather([0])
    assert paging.sample_room_of(1) >= 14 << 20
    assert paging.stats()["value_bytes"] + paging.kept_bytes + paging.index_bytes <= 32 << 20


def test_a_column_waits_for_room_that_samples_have(path: Path) -> None:
    graph = paged(path, "48M")
    assert graph.paging is not None
    sampler = ag.NeighborSampler(graph, [10, 10])
    seeds = [np.arange(n, n + 2000) % NODES for n in range(0, 60_000, 1000)]
    some = sampler.sample_many(seeds, range(len(seeds)))
    next(some)
    graph.paging.groups.note(graph, 48 << 20, at_work=False)  # as if they were larger
    store = graph.edge_values["edge_weight"]
    expected = ag.Graph.load(path).edge_weight
    assert expected is not None
    np.testing.assert_array_equal(store.gather([5, 9]), expected[[5, 9]])
    assert store.native_rows().held is None  # type: ignore[union-attr]
    graph.paging.groups.note(graph, 0, at_work=False)
    np.testing.assert_array_equal(store.gather([5, 9]), expected[[5, 9]])
    assert store.native_rows().held is not None  # type: ignore[union-attr]


@pytest.mark.parametrize("budget", [LEAST, PLENTY])
def test_threads_share_columns(path: Path, budget: str) -> None:
    stores = paged(path, budget).edge_values
    expected = ag.Graph.load(path).edge_values

    def work(seed: int) -> None:
        for n in range(10):
            ids = np.random.default_rng(seed + n).integers(0, EDGES, 3000)
            for name in VALUES:
                np.testing.assert_array_equal(stores[name].gather(ids), expected[name].gather(ids))

    run_with_each(work, [0, 100, 200, 300])


# ---- loaders -----------------------------------------------------------------------------------


def loader_of(graph: ag.Graph, names: Any, **options: Any) -> SubgraphLoader:
    for name, store in graph.edge_values.items():
        graph.edge_attrs[name] = store
    return SubgraphLoader(
        graph, [5, 5], np.arange(0, NODES, 5), batch_size=200, shuffle=True, seed=2,
        node_attrs=["y"], edge_attrs=names, **options,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("budget", "options"),
    [
        ("40M", {}), (PLENTY, {}), (LEAST, {}), (LEAST, {"ahead": 0}),
        (LEAST, {"subgraph_type": "bidirectional"}), (LEAST, {"subgraph_type": "induced"}),
        (LEAST, {"disjoint": True}), (LEAST, {"ahead": Ahead(plan=7)}),
    ],
    ids=str,
)  # fmt: skip
def test_batches_are_those_of_a_mapped_graph(path: Path, budget: str, options: Any) -> None:
    names = [*VALUES, "short", "three"]
    loaders = [loader_of(g, names, **options) for g in (paged(path, budget), ag.Graph.load(path))]
    count = 0
    for _ in range(2):
        for found, expected in zip(*loaders, strict=True):
            count += 1
            np.testing.assert_array_equal(found.subgraph.edge, expected.subgraph.edge)
            np.testing.assert_array_equal(found.y, expected.y)
            for name in names:
                np.testing.assert_array_equal(found.edge_attrs[name], expected.edge_attrs[name])
    assert count == 60


def test_nothing_is_read_once_all_fits(path: Path) -> None:
    graph = paged(path, PLENTY)
    loader = loader_of(graph, VALUES)
    for _ in range(2):
        assert len(list(loader)) == 30
    before = read_bytes(graph)
    list(loader)
    assert read_bytes(graph) - before <= 16 * PAGE  # pages of lists that no sample had touched yet


def test_values_of_a_group_are_read_in_one_pass(path: Path) -> None:
    read, groups = dict[bool, int](), dict[bool, int]()
    for names in ((), VALUES):
        graph = paged(path, LEAST)
        loader = loader_of(graph, names)
        made = loader.sampler.groups
        assert made is not None
        list(loader)  # sizes of groups are known now
        sizes: list[int] = []
        sample = made.sample

        def count(batches: Any, *rest: Any, own: Any = sizes, sample: Any = sample) -> Any:
            own.append(len(batches))
            return sample(batches, *rest)

        made.sample = count  # type: ignore[method-assign]
        before = read_bytes(graph)
        list(loader)
        read[bool(names)] = read_bytes(graph) - before
        groups[bool(names)] = len(sizes)
        assert sum(sizes) == 30
    assert groups[True] < 15
    plain = read[False] / groups[False]  # of a group that is no smaller
    assert read[True] <= groups[True] * (plain + 12 * EDGES + 4 * PAGE) + 30 * (8 * NODES + PAGE)


def test_values_that_nobody_takes_are_no_longer_read(path: Path) -> None:
    """Reverse edges are added to these samples, so that other ids are asked for."""
    graph = paged(path, LEAST)
    loader = loader_of(graph, VALUES, subgraph_type="bidirectional")
    list(loader)
    column = graph.edge_values["edge_weight"].paged_column()
    assert column is not None
    for _ in range(3):
        list(loader)
    assert not column.comes_with_samples
    straight = loader_of(paged(path, LEAST), VALUES)
    list(straight), list(straight)
    column = straight.graph.edge_values["edge_weight"].paged_column()
    assert column is not None and column.comes_with_samples


def test_values_go_when_their_batches_are_dropped(path: Path) -> None:
    graph = paged(path, LEAST)
    assert graph.paging is not None
    batches = iter(loader_of(graph, VALUES))
    next(batches)
    del batches
    gc.collect()
    assert graph.paging.groups.num_at_work == 0
    assert graph.paging.ahead.total == 0


# ---- drawing by weights and times ----------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{"weight_attr": "edge_weight"}, {"time_attr": "edge_time"}], ids=str
)
def test_sampling_reads_weights_and_times_once_if_they_fit(path: Path, options: Any) -> None:
    seeds = [np.arange(n, n + 300) for n in range(0, 6000, 300)]
    times = [np.full(300, 500)] * 20 if "time_attr" in options else None
    expected = ag.NeighborSampler(ag.Graph.load(path), [4, 4], **options)
    for budget, most in ((PLENTY, 16 * PAGE), (LEAST, None)):
        graph = paged(path, budget)
        sampler = ag.NeighborSampler(graph, [4, 4], **options)
        for _ in range(2):
            before = read_bytes(graph)
            for key, found in enumerate(sampler.sample_many(seeds, range(20), seed_time=times)):
                time = None if times is None else times[key]
                one = expected.sample(seeds[key], key=key, seed_time=time)
                np.testing.assert_array_equal(found.edge, one.edge)
        if most is not None:
            assert read_bytes(graph) - before <= most


def test_times_of_nodes_use_the_pages_that_lists_keep(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    made = ag.Graph.from_edges(
        5000, rng.integers(0, 5000, 200_000), rng.integers(0, 5000, 200_000),
        node_time=rng.integers(0, 90, 5000),
    )  # fmt: skip
    made.save(tmp_path / "timed.aeg")
    graph = paged(tmp_path / "timed.aeg", PLENTY)
    sampler = ag.NeighborSampler(graph, [4, 4], time_attr="node_time")
    one = ag.NeighborSampler(made, [4, 4], time_attr="node_time")
    seeds = [np.arange(n, n + 500) for n in range(0, 5000, 500)]
    for _ in range(2):
        before = read_bytes(graph)
        for key, found in enumerate(sampler.sample_many(seeds, range(10))):
            np.testing.assert_array_equal(found.edge, one.sample(seeds[key], key=key).edge)
    assert read_bytes(graph) - before <= 8 * PAGE


# ---- pickles, budgets ----------------------------------------------------------------------------


def test_pickled_graphs_read_their_own_columns(path: Path) -> None:
    graph = paged(path, PLENTY)
    graph.edge_attrs["short"] = np.arange(EDGES, dtype=np.int32)
    del graph.edge_attrs["half"]
    again = pickle.loads(pickle.dumps(graph))
    assert "half" not in again.edge_attrs
    assert again.edge_attrs["short"].gather([7]) == [7]
    for name in ("flag", "three"):
        assert again.edge_attrs[name].storage == "uring"
        before = read_bytes(again)
        np.testing.assert_array_equal(
            again.edge_attrs[name].gather([3, 1]), graph.edge_attrs[name].gather([3, 1])
        )
        assert read_bytes(again) > before
    store = pickle.loads(pickle.dumps(graph.edge_attrs["three"]))  # alone it has no budget
    assert store.storage == "mmap"
    own = graph.edge_attrs["three"].to_uring("4M")
    np.testing.assert_array_equal(own.gather([3]), graph.edge_attrs["three"].gather([3]))


SCRIPT = """
import sys
import numpy as np
import aethergraph as ag
from aethergraph import SubgraphLoader

def anonymous():
    fields = dict(l.split(":", 1) for l in open("/proc/self/status") if ":" in l)
    return int(fields["RssAnon"].split()[0]) * 1024

graph = ag.Graph.load(sys.argv[1], storage="uring", memory_budget=sys.argv[2])
for name, store in graph.edge_values.items():
    graph.edge_attrs[name] = store
loader = SubgraphLoader(graph, [10, 10], np.arange(0, graph.num_nodes, 2), batch_size=512,
                        shuffle=True)
before = most = anonymous()
for _ in range(2):
    for batch in loader:
        most = max(most, anonymous())
print(most - before)
"""


@pytest.mark.slow
def test_the_budget_is_kept_with_values(tmp_path: Path, run_python: Callable[..., Any]) -> None:
    if os.environ.get("AETHERGRAPH_EXPECT_SANITIZER"):
        pytest.skip("a sanitizer's allocator keeps what is freed: ./scripts/test.sh python")
    rng = np.random.default_rng(0)
    count, edges = 60_000, 4_000_000  # 64 MB of ids, weights and times
    graph = ag.Graph.from_edges(
        count, rng.integers(0, count, edges), rng.integers(0, count, edges),
        edge_weight=rng.random(edges, np.float32), edge_time=rng.integers(0, 999, edges),
    )  # fmt: skip
    graph.save(tmp_path / "large.aeg")
    for budget in (24 << 20, 48 << 20):
        done = run_python(SCRIPT, str(tmp_path / "large.aeg"), str(budget))
        # beside it: batches that were handed out, which are larger with their values
        assert int(done.stdout) < budget + (16 << 20)


# ---- files that change ---------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [LEAST, PLENTY])
def test_a_file_that_is_written_to_is_noticed(path: Path, budget: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy.aeg"
    shutil.copy(path, copy)
    held = paged(copy, budget).node_attrs["y"]
    expected = held.gather([5])
    graph = paged(copy, budget)
    os.utime(copy, ns=(0, 0))
    flag, three = graph.edge_attrs["flag"], graph.edge_attrs["three"]
    for use in (
        lambda: flag.gather([5]),
        lambda: three.gather([5]),
        lambda: list(flag.plan([[5], [6]])),
    ):
        with pytest.raises(errors.FileChangedError, match=r"copy\.aeg' was written to"):
            use()
    if budget == PLENTY:  # in memory since before
        np.testing.assert_array_equal(held.gather([5]), expected)
