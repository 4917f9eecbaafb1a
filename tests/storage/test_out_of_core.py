"""Graphs whose lists stay in their file: the same answers and samples as in memory.

Samples in every mode, alone and in groups, are compared by sampling/test_golden_samples.py.
"""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.containers import damage_section
from support.memory import memory_group
from support.strategies import assert_same_subgraph
from support.threads import run_with_each

import aethergraph as ag
from aethergraph import _native as native
from aethergraph import errors
from aethergraph.storage import budget as budgets
from aethergraph.storage import choice

pytestmark = pytest.mark.any_python

BUDGET = "24M"


def make_graph(num_nodes: int = 3000, num_edges: int = 60_000, layout: Any = "both") -> ag.Graph:
    rng = np.random.default_rng(5)
    src = rng.integers(0, num_nodes, num_edges)
    dst = (rng.random(num_edges) ** 3 * num_nodes).astype(np.int64)
    return ag.Graph.from_edges(
        num_nodes, src, dst, layout=layout, keep_order=True,
        edge_weight=rng.integers(0, 4, num_edges).astype(np.float32),
        edge_time=rng.integers(-5, 30, num_edges), node_time=rng.integers(-5, 30, num_nodes),
        edge_attrs={"number": np.arange(num_edges)},
    )  # fmt: skip


@pytest.fixture(scope="module", params=["plain", "compressed"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("paged") / "graph.aeg"
    graph = make_graph()
    graph.features = np.arange(6000, dtype=np.float32).reshape(3000, 2)
    graph.save(path, compress=request.param == "compressed")
    return path


def paged(path: Path, **options: Any) -> ag.Graph:
    return ag.Graph.load(path, storage="uring", **{"memory_budget": BUDGET, **options})


# ---- answers -----------------------------------------------------------------------------------


def test_the_lists_are_the_same(path: Path) -> None:
    graph, mapped = paged(path), ag.Graph.load(path)
    assert graph.storage == "uring"
    assert graph.info()["storage"] == "uring"
    assert "uring" in repr(graph)
    for node in (0, 1, 17, 2999):
        np.testing.assert_array_equal(graph.in_neighbors(node), mapped.in_neighbors(node))
        np.testing.assert_array_equal(graph.neighbors(node), mapped.neighbors(node))
    np.testing.assert_array_equal(graph.in_degrees(), mapped.in_degrees())
    np.testing.assert_array_equal(graph.edge_index(), mapped.edge_index())
    src, dst = mapped.edge_index()
    np.testing.assert_array_equal(
        graph.edges_between(src[:200], dst[:200]), mapped.edges_between(src[:200], dst[:200])
    )
    graph.verify()


def test_saving_writes_the_same_file(path: Path, tmp_path: Path) -> None:
    paged(path).save(tmp_path / "again.aeg")
    assert (tmp_path / "again.aeg").read_bytes() == path.read_bytes()


# ---- samples -----------------------------------------------------------------------------------


def test_an_iterator_that_is_dropped_half_way_does_no_harm(path: Path) -> None:
    sampler = ag.NeighborSampler(paged(path), [3, 3])
    seeds = [np.arange(9)] * 6
    some = sampler.sample_many(seeds, range(6))
    first = next(some)
    del some
    assert_same_subgraph(first, sampler.sample(seeds[0], key=0))
    assert len(list(sampler.sample_many(seeds, range(6)))) == 6


def test_threads_share_a_graph(path: Path) -> None:
    sampler = ag.NeighborSampler(paged(path), [5, 5])
    expected = ag.NeighborSampler(ag.Graph.load(path), [5, 5])

    def work(start: int) -> None:
        for key in range(start, start + 15):
            found = sampler.sample(np.arange(30), key=key)
            assert_same_subgraph(found, expected.sample(np.arange(30), key=key))

    run_with_each(work, [0, 100, 200, 300])


# ---- pickles, forks, files ----------------------------------------------------------------------


@pytest.mark.forks
def test_a_forked_child_goes_on(path: Path) -> None:
    sampler = ag.NeighborSampler(paged(path), [5, 5])
    expected = sampler.sample(np.arange(40), key=1).edge
    child = os.fork()
    if child == 0:
        same = np.array_equal(sampler.sample(np.arange(40), key=1).edge, expected)
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(sampler.sample(np.arange(40), key=1).edge, expected)


def test_threads_that_read_do_as_well_as_a_ring(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AETHERGRAPH_IO", "pread")
    graph = paged(path)
    assert graph.paging is not None and graph.paging.stats()["tier"] == "pread"
    expected = ag.NeighborSampler(ag.Graph.load(path), [4, 4]).sample(np.arange(50), key=2)
    found = ag.NeighborSampler(graph, [4, 4]).sample(np.arange(50), key=2)
    assert_same_subgraph(found, expected)


def test_a_file_that_is_replaced_while_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By one of its size: offsets and neighbours of two graphs would go together."""
    for name, seed in (("mine", 0), ("other", 1)):
        ends = np.random.default_rng(seed).integers(0, 100, (2, 1000))
        ag.Graph.from_edges(100, *ends).save(tmp_path / name)
    mine, other = tmp_path / "mine", tmp_path / "other"
    assert mine.stat().st_size == other.stat().st_size
    opened = native.FileReader

    def replaced(path: str) -> native.FileReader:
        other.replace(mine)
        return opened(path)

    monkeypatch.setattr(native, "FileReader", replaced)
    with pytest.raises(errors.FileChangedError, match="replaced while it was opened"):
        ag.Graph.load(mine, storage="uring", memory_budget=BUDGET)


@pytest.mark.parametrize(
    ("kind", "at", "message"),
    [
        (native.SECTION_CSC_INDPTR, 8 * 100, r"offset 100 is \d+, above"),
        (native.SECTION_CSC_INDEX, 40, "the index of the compressed"),
    ],
)
def test_damage_is_named_when_the_graph_is_opened(
    kind: int, at: int, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "damaged.aeg"
    make_graph(layout="csc").save(path, compress=kind == native.SECTION_CSC_INDEX)
    damage_section(path, (kind,), (1 << 40).to_bytes(8, "little"), at)
    with pytest.raises(errors.CorruptFileError, match=rf"damaged\.aeg: {message}"):
        paged(path)


# ---- the budget --------------------------------------------------------------------------------


def test_the_least_and_the_largest_budget(path: Path) -> None:
    with pytest.raises(
        errors.InvalidArgumentError,
        match=r"at least 18M are needed, 16\.0 MiB for samples .* 1\.0 MiB for read buffers and \d",
    ):
        paged(path, memory_budget="1M")
    with pytest.raises(errors.InvalidArgumentError, match="memory_budget = 'lots'"):
        paged(path, memory_budget="lots")
    expected = ag.NeighborSampler(ag.Graph.load(path), [3]).sample([0, 1], key=1)
    for budget in ("18M", (1 << 63) - 1):
        sampler = ag.NeighborSampler(paged(path, memory_budget=budget), [3])
        assert_same_subgraph(sampler.sample([0, 1], key=1), expected)


def test_auto_maps_only_where_nothing_reads(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_reader(*_: Any) -> None:
        raise errors.UnsupportedError("nothing reads here")

    monkeypatch.setattr("aethergraph.graph.file.Paging", no_reader)
    found = ag.Graph.load(path, storage="auto", memory_budget="1K")
    assert found.storage == "mmap"
    assert found.paging is None
    assert [(r.levelname, "memory_budget is not kept" in r.message) for r in caplog.records] == [
        ("WARNING", True)
    ]
    with pytest.raises(errors.UnsupportedError, match="nothing reads here"):
        paged(path)


@pytest.mark.parametrize(
    ("available", "storage"), [(8000, "memory"), (7998, "mmap"), (4000, "mmap"), (3999, "uring")]
)
def test_auto_without_a_budget_goes_by_the_available_memory(
    available: int, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "available_memory", lambda: available)
    assert choice.choose_storage("auto", 4000, None, "x") == storage


def test_auto_without_a_budget_maps_what_the_default_budget_cannot_read(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rows = np.arange(40_000, dtype=np.float32).reshape(-1, 4)
    np.save(tmp_path / "x.npy", rows)
    for module in (choice, budgets):
        monkeypatch.setattr(module, "available_memory", lambda: 4000)
    graph = ag.Graph.load(path, storage="auto")
    features = ag.FeatureTable.load(tmp_path / "x.npy", "auto")
    assert (graph.storage, features.storage) == ("mmap", "mmap")
    assert (features.gather([7]) == rows[7]).all()
    for message, name in zip(caplog.messages, ("memory_budget", "a memory budget"), strict=True):
        assert re.search(rf"takes mmap \({name} .*2(\.0 KiB|000) .*is too small", message)


def test_a_mapped_file_that_memory_cannot_hold_is_named_once(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1000, 4), np.float32))
    monkeypatch.setattr(choice, "available_memory", lambda: 15_999)
    for _ in range(2):
        ag.Graph.load(path)
        ag.FeatureTable.load(tmp_path / "x.npy")
    named = [message.partition(":")[0] for message in caplog.messages]
    assert named == [str(path), str(tmp_path / "x.npy")]
    assert "15.6 KiB are mapped, and 15.6 KiB of memory are available" in caplog.messages[1]
    caplog.clear()
    monkeypatch.setattr(choice, "_is_worker", lambda: True)  # as in a loader's worker
    np.save(tmp_path / "y.npy", np.zeros((1000, 4), np.float32))
    ag.FeatureTable.load(tmp_path / "y.npy")
    assert caplog.messages == []


CHOOSING = """
    import sys
    import aethergraph as ag

    def load():
        graph = ag.Graph.load(sys.argv[1], storage="auto")
        return graph.storage, ag.FeatureTable.load(sys.argv[2], "auto").storage

    small = ag.Graph.from_edges(10, [0], [1])
    small.save(sys.argv[1] + ".small")
    ag.Graph.load(sys.argv[1] + ".small", storage="uring")  # all modules are loaded
    print("ready", flush=True)
    for _ in sys.stdin:
        print(*load(), flush=True)
"""


def test_auto_reads_what_a_limited_process_cannot_hold(tmp_path: Path) -> None:
    """Within less memory than either file takes; with room for it; with twice as much and more."""
    size = 64 << 20
    dst = np.repeat(np.arange(1000), size // 4000)
    ag.Graph.from_edges(1000, np.zeros_like(dst), dst).save(tmp_path / "g.aeg")
    np.save(tmp_path / "x.npy", np.zeros((size // 64, 16), np.float32))
    paths = tmp_path / "g.aeg", tmp_path / "x.npy"
    command = [sys.executable, "-c", textwrap.dedent(CHOOSING), *paths]
    with memory_group() as group:
        if group is None:
            pytest.skip("no cgroup can be made here")
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            preexec_fn=group.enter,
        ) as child:  # fmt: skip
            assert child.stdout is not None and child.stdin is not None
            assert child.stdout.readline() == "ready\n"
            for room, storage in ((54 << 20, "uring"), (100 << 20, "mmap"), (1 << 30, "memory")):
                group.set_limit(group.used() + room)
                print(file=child.stdin, flush=True)
                assert child.stdout.readline() == f"{storage} {storage}\n"
            child.stdin.close()
        assert child.returncode == 0


def test_auto_counts_what_compressed_lists_take(tmp_path: Path) -> None:
    ends = np.random.default_rng(6).integers(0, 1 << 20, (2, 6_500_000))
    graph = ag.Graph.from_edges(1 << 20, *ends)
    plain, packed = tmp_path / "plain.aeg", tmp_path / "packed.aeg"
    graph.save(plain)
    graph.save(packed, compress=True)
    sizes = [ag.Graph.load(path).info()["adjacency_bytes"] for path in (plain, packed)]
    assert sizes[1] < sizes[0]
    chosen = [
        [ag.Graph.load(path, storage="auto", memory_budget=budget).storage for budget in budgets]
        for path, budgets in ((plain, (*sizes, "24M")), (packed, (*sizes, sizes[1] - 1)))
    ]
    assert chosen == [["memory", "uring", "uring"], ["memory", "memory", "uring"]]
    with pytest.raises(errors.InvalidArgumentError, match=r"at least \d+M .*index"):
        ag.Graph.load(packed, storage="auto", memory_budget="16M")
    found = ag.Graph.load(packed, storage="auto", memory_budget=sizes[1] - 1)
    assert (found.storage, found.compressed, found.info()["compressed"]) == ("uring", True, True)
    found.verify()


def test_the_index_of_blocks_is_small(tmp_path: Path) -> None:
    """Blocks of 128 neighbours each take less than 2 bytes, lists about one."""
    graph = make_graph(20_000, 1_000_000, "csc")
    graph.save(tmp_path / "packed.aeg", compress=True)
    found = paged(tmp_path / "packed.aeg")
    assert found.paging is not None
    assert found.paging.index_bytes < 2 * 20_000 + 2 * 1_000_000 / 128 + 16384


def test_compressed_lists_are_read_in_fewer_bytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    dst = rng.integers(0, 100_000, 1_500_000)
    graph = ag.Graph.from_edges(100_000, (dst + rng.integers(0, 60, len(dst))) % 100_000, dst)
    seeds = [rng.integers(0, 100_000, 300) for _ in range(6)]
    read = []
    for compress in (False, True):
        graph.save(tmp_path / "graph.aeg", compress=compress)
        found = paged(tmp_path / "graph.aeg")
        assert found.paging is not None
        before = found.paging.stats()["read_bytes"]
        list(ag.NeighborSampler(found, [15, 10]).sample_many(seeds, range(6)))
        read.append(found.paging.stats()["read_bytes"] - before)
    assert read[1] < 0.6 * read[0]


def test_stats_tell_where_the_budget_goes(path: Path) -> None:
    graph = paged(path)
    assert graph.paging is not None
    before = graph.paging.stats()
    assert before["budget"] == 24 << 20
    assert 0 < before["index_bytes"] < 8 * 3001 * 2
    ag.NeighborSampler(graph, [5]).sample(np.arange(100), key=0)
    after = graph.paging.stats()
    assert after["reads"] > before["reads"]
    assert after["read_bytes"] > before["read_bytes"]
    assert ag.Graph.load(path).paging is None


def test_large_budgets_make_large_groups(path: Path) -> None:
    sizes = []
    for budget in ("24M", "200M"):
        sampler = ag.NeighborSampler(paged(path, memory_budget=budget), [10, 10])
        assert sampler.groups is not None
        sizes.append(sampler.groups.size(2000))
    assert 1 <= sizes[0] < sizes[1]


def test_single_samples_keep_the_pages_that_they_use(path: Path) -> None:
    graph = paged(path)
    assert graph.paging is not None
    sampler = ag.NeighborSampler(graph, [10, 10])
    seeds = np.arange(300)
    read = []
    for key in range(4):
        before = graph.paging.stats()["read_bytes"]
        sampler.sample(seeds, key=key)
        read.append(graph.paging.stats()["read_bytes"] - before)
    assert read[-1] < read[0] / 4  # the budget has room for this whole file
    assert 0 < graph.paging.stats()["kept_bytes"] <= 12 << 20
    expected = ag.NeighborSampler(ag.Graph.load(path), [10, 10])
    assert_same_subgraph(sampler.sample(seeds, key=9), expected.sample(seeds, key=9))
    assert_same_subgraph(next(sampler.sample_many([seeds], [9])), expected.sample(seeds, key=9))


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a graph whose weights and times do not fit 24 MiB beside what sampling needs."""
    path = tmp_path_factory.mktemp("wide") / "graph.aeg"
    make_graph(100_000, 2_000_000, layout="csc").save(path)
    return path


@pytest.mark.parametrize("attr", ["time_attr", "weight_attr"])
def test_little_memory_for_what_draws_look_at_reads_hardly_more(wide: Path, attr: str) -> None:
    """All samples of a group go through the file together, however short their turns are."""
    seeds = np.random.default_rng(5).integers(0, 100_000, (8, 200))
    read, samples = [], []
    for value_bytes in (64 << 20, 64 << 10):
        graph = paged(wide, memory_budget="24M")
        assert graph.paging is not None
        sampler = ag.NeighborSampler(graph, [10, 10], **{attr: "edge_" + attr.split("_")[0]})
        assert sampler.groups is not None
        make = sampler.groups._make
        sampler.groups._make = lambda *lists, make=make, n=value_bytes, **own: make(
            *lists, **own | {"value_bytes": n}
        )
        times = [np.full(200, 20)] * 8 if attr == "time_attr" else None
        before = graph.paging.stats()["read_bytes"]
        samples.append(list(sampler.sample_many(list(seeds), range(8), seed_time=times)))
        read.append(graph.paging.stats()["read_bytes"] - before)
    for one, other in zip(*samples, strict=True):
        assert_same_subgraph(one, other)
    # weights are looked at twice, to count what can be drawn and to draw
    assert read[1] < (1.25 if attr == "time_attr" else 1.75) * read[0]


def test_groups_are_used_again(path: Path) -> None:
    """With what they know then of how large samples are."""
    sampler = ag.NeighborSampler(paged(path), [5, 5])
    assert sampler.groups is not None
    some = sampler.sample_many([np.arange(20)] * 3, range(3))
    first = [next(some) for _ in range(3)]  # as many as there are, without asking for the end
    assert sampler.groups.memory > 0
    made = list(sampler.groups._idle)
    for again, sample in zip(
        sampler.sample_many([np.arange(20)] * 3, range(3)), first, strict=True
    ):
        assert_same_subgraph(again, sample)
    assert list(sampler.groups._idle) == made


@pytest.mark.parametrize("kind", [ag.Graph, ag.HeteroGraph])
def test_close_gives_all_descriptors_back(full_graph: ag.Graph, tmp_path: Path, kind: Any) -> None:
    """At once, also if it was sampled from: nothing waits for the collector."""
    path = tmp_path / "g"
    full_graph.save(path)

    def opened() -> int:
        links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
        return sum(os.path.exists(link) and os.path.samefile(link, path) for link in links)

    gc.disable()
    try:
        graph = kind.load(path, storage="uring")
        assert opened() > 0
        if isinstance(graph, ag.Graph):
            sampler = ag.NeighborSampler(graph, [3, 2], weight_attr="edge_weight")
            sampler.sample([1, 2], key=1)
            graph.edge_values["edge_weight"].gather([1, 2])
            graph.node_attrs["x"].gather([1])
            graph.close()
            assert opened() > 0
            assert len(sampler.sample([1, 2], key=1).node) >= 2  # still valid
            del sampler
        else:
            (name,), (edges,) = graph.node_types, graph.edge_types
            graph[name].attrs["x"].gather([1])
            graph[edges].paging.stats()
            graph.close()
        assert opened() == 0
    finally:
        gc.enable()
    for use in (lambda: graph.paging, graph.verify, lambda: graph.save(path)):
        with pytest.raises(errors.ClosedError, match="was closed"):
            use()
    assert graph.path == str(path) and graph.storage == "uring"
