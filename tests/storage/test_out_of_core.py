"""Graphs whose lists stay in their file: the same answers and samples as in memory."""

from __future__ import annotations

import gc
import os
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import examples

import aethergraph as ag
from aethergraph import _native as native
from aethergraph import errors
from aethergraph.sampling import HeteroNeighborSampler
from aethergraph.testing import oracle

pytestmark = pytest.mark.any_python

BUDGET = "24M"
OPTIONS: list[dict[str, Any]] = [
    {},
    {"replace": True},
    {"disjoint": True},
    {"layered": True},
    {"subgraph_type": "bidirectional"},
    {"subgraph_type": "induced"},
    {"subgraph_type": "induced", "disjoint": True},
    {"weight_attr": "edge_weight"},
    {"weight_attr": "edge_weight", "replace": True},
    {"time_attr": "edge_time"},
    {"time_attr": "edge_time", "temporal_strategy": "last", "strict": True},
    {"time_attr": "edge_time", "window": 5},
    {"time_attr": "edge_time", "weight_attr": "edge_weight"},
    {"num_threads": 0},
]


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


def assert_same(found: Any, expected: Any) -> None:
    for name in ("node", "row", "col", "edge", "batch"):
        one, two = getattr(found, name), getattr(expected, name)
        if isinstance(two, dict):
            assert list(one) == list(two)
            for key in two:
                np.testing.assert_array_equal(one[key], two[key], f"{name} {key}")
        elif two is None:
            assert one is None
        else:
            np.testing.assert_array_equal(one, two, name)
    assert found.num_sampled_nodes == expected.num_sampled_nodes
    assert found.num_sampled_edges == expected.num_sampled_edges


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


def test_walks_are_the_same(path: Path) -> None:
    graph, mapped = paged(path), ag.Graph.load(path)
    starts = np.arange(0, 3000, 50)
    for q in (1.0, 0.5):
        np.testing.assert_array_equal(
            graph.batch_random_walk(starts, 4, q=q, key=3),
            mapped.batch_random_walk(starts, 4, q=q, key=3),
        )
    np.testing.assert_array_equal(
        graph.batch_random_fanout(starts, 5, key=1), mapped.batch_random_fanout(starts, 5, key=1)
    )


def test_saving_writes_the_same_file(path: Path, tmp_path: Path) -> None:
    paged(path).save(tmp_path / "again.aeg")
    assert (tmp_path / "again.aeg").read_bytes() == path.read_bytes()


# ---- samples -----------------------------------------------------------------------------------


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_samples_are_the_same_alone_and_in_groups(path: Path, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    seeds = [rng.integers(0, 3000, size) for size in (40, 1, 0, 64, 64, 64, 30, 64)]
    times = None
    if options.get("time_attr") == "edge_time":
        times = [rng.integers(0, 30, len(own)) for own in seeds]
    fanouts = [4, 3, -1] if not options.get("time_attr") else [4, 3]
    sampler = ag.NeighborSampler(paged(path), fanouts, **options)
    expected = ag.NeighborSampler(ag.Graph.load(path, storage="memory"), fanouts, **options)
    bounds: Any = times or [None] * len(seeds)
    one = [
        expected.sample(own, key=i, seed_time=time)
        for i, (own, time) in enumerate(zip(seeds, bounds, strict=True))
    ]
    for i, (own, time) in enumerate(zip(seeds, bounds, strict=True)):
        assert_same(sampler.sample(own, key=i, seed_time=time), one[i])
    for _ in range(2):  # the second time the groups know how large samples are
        many = list(sampler.sample_many(seeds, range(len(seeds)), seed_time=times))
        assert len(many) == len(one)
        for found, wanted in zip(many, one, strict=True):
            assert_same(found, wanted)


def test_times_of_nodes(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    graph = ag.Graph.from_edges(
        500, rng.integers(0, 500, 9000), rng.integers(0, 500, 9000),
        node_time=rng.integers(0, 90, 500),
    )  # fmt: skip
    graph.save(tmp_path / "timed.aeg")
    one = ag.NeighborSampler(graph, [4, 4], time_attr="node_time")
    sampler = ag.NeighborSampler(paged(tmp_path / "timed.aeg"), [4, 4], time_attr="node_time")
    seeds = [rng.integers(0, 500, 30) for _ in range(3)]
    for key, found in enumerate(sampler.sample_many(seeds, range(3))):
        assert_same(found, one.sample(seeds[key], key=key))


def test_groups_leave_out_what_each_batch_excludes(path: Path) -> None:
    graph, mapped = paged(path), ag.Graph.load(path)
    seeds = [np.arange(i, i + 20) for i in range(6)]
    exclude = [None, *(np.arange(i * 100, i * 100 + 900) for i in range(5))]
    one = ag.NeighborSampler(mapped, [5, 5])
    many = ag.NeighborSampler(graph, [5, 5]).sample_many(seeds, range(6), exclude=exclude)
    for i, found in enumerate(many):
        assert_same(found, one.sample(seeds[i], key=i, exclude=exclude[i]))
        if exclude[i] is not None:
            assert not np.isin(found.edge, exclude[i]).any()


@examples(25)
@given(data=st.data())
def test_any_graph_gives_what_the_oracle_gives(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    num_nodes = data.draw(st.integers(1, 60))
    num_edges = data.draw(st.integers(0, 400))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    src, dst = rng.integers(0, num_nodes, num_edges), rng.integers(0, num_nodes, num_edges)
    graph = ag.Graph.from_edges(num_nodes, src, dst)
    where = tmp_path_factory.mktemp("any") / "graph.aeg"
    graph.save(where, compress=data.draw(st.booleans()))
    fanouts = data.draw(st.lists(st.integers(-1, 6), max_size=3))
    replace = data.draw(st.booleans())
    sampler = ag.NeighborSampler(paged(where), fanouts, replace=replace)
    seeds = [rng.integers(0, num_nodes, data.draw(st.integers(0, 9))) for _ in range(4)]
    indptr, indices = graph.csc()
    for key, found in enumerate(sampler.sample_many(seeds, range(4))):
        expected = oracle.sample(indptr, indices, seeds[key], fanouts, key, replace=replace)
        np.testing.assert_array_equal(found.node, expected.node)
        np.testing.assert_array_equal(found.row, expected.row)
        np.testing.assert_array_equal(found.edge, expected.edge)


@pytest.mark.parametrize("compress", [False, True])
def test_typed_graphs(tmp_path: Path, compress: bool) -> None:
    rng = np.random.default_rng(2)
    graph = ag.HeteroGraph.from_edges(
        {
            ("user", "votes", "post"): (rng.integers(0, 300, 4000), rng.integers(0, 900, 4000)),
            ("post", "cites", "post"): (rng.integers(0, 900, 5000), rng.integers(0, 900, 5000)),
        },
        num_nodes={"user": 300, "post": 900},
        add_reverse=True,
    )
    graph.save(tmp_path / "typed.aeg", compress=compress)
    found = ag.HeteroGraph.load(tmp_path / "typed.aeg", storage="uring", memory_budget=BUDGET)
    assert found.storage == "uring"
    assert found.paging is not None
    seeds = [{"post": rng.integers(0, 900, 20), "user": rng.integers(0, 300, n)} for n in range(7)]
    for options in ({}, {"disjoint": True}, {"layered": True}, {"subgraph_type": "induced"}):
        one = HeteroNeighborSampler(graph, [4, 4], **options)  # type: ignore[arg-type]
        sampler = HeteroNeighborSampler(found, [4, 4], **options)  # type: ignore[arg-type]
        for i, sample in enumerate(sampler.sample_many(seeds, range(7))):
            assert_same(sample, one.sample(seeds[i], key=i))
        assert_same(sampler.sample(seeds[3], key=3), one.sample(seeds[3], key=3))


def test_graphs_in_memory_have_sample_many_too(path: Path) -> None:
    sampler = ag.NeighborSampler(ag.Graph.load(path), [3, 2], seed=9)
    again = ag.NeighborSampler(ag.Graph.load(path), [3, 2], seed=9)
    seeds = [np.arange(5), np.arange(7)]
    for found, own, key in zip(sampler.sample_many(seeds, [5, 6]), seeds, [5, 6], strict=True):
        assert_same(found, again.sample(own, key))


@pytest.mark.parametrize("storage", ["mmap", "uring"])
def test_a_seed_that_is_no_node_is_named_before_its_group_is_made(path: Path, storage: Any) -> None:
    sampler = ag.NeighborSampler(ag.Graph.load(path, storage=storage), [3])
    with pytest.raises(errors.OutOfRangeError, match=r"^seeds\[1\]\[1\] = 3000 "):
        list(sampler.sample_many([[1], [2, 3000]], [0, 1]))
    assert len(next(sampler.sample_many([[1]], [0])).node) >= 1


def test_an_iterator_that_is_dropped_half_way_does_no_harm(path: Path) -> None:
    sampler = ag.NeighborSampler(paged(path), [3, 3])
    seeds = [np.arange(9)] * 6
    some = sampler.sample_many(seeds, range(6))
    first = next(some)
    del some
    assert_same(first, sampler.sample(seeds[0], key=0))
    assert len(list(sampler.sample_many(seeds, range(6)))) == 6


def test_threads_share_a_graph(path: Path) -> None:
    sampler = ag.NeighborSampler(paged(path), [5, 5])
    expected = ag.NeighborSampler(ag.Graph.load(path), [5, 5])
    wrong: list[int] = []

    def work(start: int) -> None:
        for key in range(start, start + 15):
            found = sampler.sample(np.arange(30), key=key)
            if not np.array_equal(found.edge, expected.sample(np.arange(30), key=key).edge):
                wrong.append(key)

    threads = [threading.Thread(target=work, args=(n * 100,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# ---- pickles, forks, files ----------------------------------------------------------------------


def test_pickles_keep_storage_and_budget(path: Path) -> None:
    graph = pickle.loads(pickle.dumps(paged(path)))
    assert graph.storage == "uring"
    assert graph.paging.budget.limit == 24 << 20
    np.testing.assert_array_equal(graph.features.gather([3]), [[6.0, 7.0]])


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


def test_threads_that_read_do_as_well_as_a_ring(path: Path) -> None:
    script = (
        "import sys, numpy as np, aethergraph as ag\n"
        "graph = ag.Graph.load(sys.argv[1], storage='uring', memory_budget='24M')\n"
        "assert graph.paging.stats()['tier'] == 'pread'\n"
        "print(ag.NeighborSampler(graph, [4, 4]).sample(np.arange(50), key=2).edge.sum())\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        env={**os.environ, "AETHERGRAPH_IO": "pread"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    expected = ag.NeighborSampler(ag.Graph.load(path), [4, 4]).sample(np.arange(50), key=2)
    assert int(found.stdout) == int(expected.edge.sum())


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


def test_a_file_that_shrinks_is_named(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "shrinks.aeg"
    shutil.copy(path, copy)
    sampler = ag.NeighborSampler(paged(copy), [10, 10])
    os.truncate(copy, 8192)
    with pytest.raises(errors.FileChangedError, match=r"shrinks\.aeg"):
        list(sampler.sample_many([np.arange(500)] * 3, range(3)))


def test_damaged_ids_are_named(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "damaged.aeg"
    shutil.copy(path, copy)
    from aethergraph import _native as native

    file = native.NativeFile(copy)
    kinds = (native.SECTION_CSC_INDICES, native.SECTION_CSC_BLOCKS)
    section = next(s for s in file.sections() if s.kind in kinds)
    with open(copy, "r+b") as raw:
        raw.seek(section.offset)
        raw.write(b"\xff" * section.size)
    with pytest.raises(errors.CorruptFileError, match="verify"):
        ag.NeighborSampler(paged(copy), [10]).sample(np.arange(100), key=0)


def test_damaged_offsets_are_named_when_the_graph_is_opened(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "offsets.aeg"
    shutil.copy(path, copy)
    from aethergraph import _native as native

    file = native.NativeFile(copy)
    section = next(s for s in file.sections() if s.kind == native.SECTION_CSC_INDPTR)
    with open(copy, "r+b") as raw:
        raw.seek(section.offset + 8 * 100)
        raw.write((1 << 40).to_bytes(8, "little"))
    with pytest.raises(errors.CorruptFileError, match=r"offsets\.aeg: offset 100 is \d+, above"):
        paged(copy)


def test_budgets_that_no_memory_has(path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="memory_budget = 1180591620717411303424"):
        paged(path, memory_budget=1 << 70)
    sampler = ag.NeighborSampler(paged(path, memory_budget=(1 << 63) - 1), [3])
    expected = ag.NeighborSampler(ag.Graph.load(path), [3]).sample([0, 1], key=1)
    assert (sampler.sample([0, 1], key=1).node == expected.node).all()


# ---- the budget --------------------------------------------------------------------------------


def test_a_budget_that_is_too_small_names_the_least(path: Path) -> None:
    with pytest.raises(
        errors.InvalidArgumentError,
        match=r"at least 18M are needed, 16\.0 MiB for samples .* 1\.0 MiB for read buffers and \d",
    ):
        paged(path, memory_budget="1M")
    assert paged(path, memory_budget="18M").storage == "uring"
    with pytest.raises(errors.InvalidArgumentError, match="memory_budget"):
        paged(path, memory_budget="lots")


def test_auto_keeps_to_a_budget(path: Path) -> None:
    assert ag.Graph.load(path, storage="auto", memory_budget="100M").storage == "memory"
    size = path.stat().st_size
    big = path.parent / "big.aeg"
    make_graph(200_000, 8_000_000, "csc").save(big)
    assert big.stat().st_size > size
    assert ag.Graph.load(big, storage="auto", memory_budget="24M").storage == "uring"
    assert ag.Graph.load(big, storage="auto").storage in ("memory", "mmap")
    big.unlink()


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


def test_auto_counts_what_compressed_lists_take(tmp_path: Path) -> None:
    ends = np.random.default_rng(6).integers(0, 1 << 20, (2, 8_000_000))
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
    found = ag.Graph.load(packed, storage="auto", memory_budget="24M")
    assert (found.storage, found.compressed, found.info()["compressed"]) == ("uring", True, True)
    found.verify()


def test_the_index_of_blocks_is_small(tmp_path: Path) -> None:
    """Blocks of 128 neighbours each take less than 2 bytes, lists about one."""
    graph = make_graph(20_000, 2_000_000, "csc")
    graph.save(tmp_path / "packed.aeg", compress=True)
    found = paged(tmp_path / "packed.aeg")
    assert found.paging is not None
    assert found.paging.index_bytes < 2 * 20_000 + 2 * 2_000_000 / 128 + 16384


def test_compressed_lists_are_read_in_fewer_bytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    dst = rng.integers(0, 200_000, 3_000_000)
    graph = ag.Graph.from_edges(200_000, (dst + rng.integers(0, 60, len(dst))) % 200_000, dst)
    seeds = [rng.integers(0, 200_000, 300) for _ in range(6)]
    read = []
    for compress in (False, True):
        graph.save(tmp_path / "graph.aeg", compress=compress)
        found = paged(tmp_path / "graph.aeg")
        assert found.paging is not None
        before = found.paging.stats()["read_bytes"]
        list(ag.NeighborSampler(found, [15, 10]).sample_many(seeds, range(6)))
        read.append(found.paging.stats()["read_bytes"] - before)
    assert read[1] < 0.6 * read[0]


def test_damage_to_an_index_is_named_when_the_graph_is_opened(tmp_path: Path) -> None:
    from aethergraph import _native as native

    path = tmp_path / "index.aeg"
    make_graph(layout="csc").save(path, compress=True)
    section = next(
        s for s in native.NativeFile(path).sections() if s.kind == native.SECTION_CSC_INDEX
    )
    with open(path, "r+b") as raw:
        raw.seek(section.offset + 40)
        raw.write((1 << 40).to_bytes(8, "little"))
    with pytest.raises(errors.CorruptFileError, match=r"index\.aeg: the index of the compressed"):
        paged(path)


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
    assert_same(sampler.sample(seeds, key=9), expected.sample(seeds, key=9))
    assert_same(next(sampler.sample_many([seeds], [9])), expected.sample(seeds, key=9))


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
        assert_same(one, other)
    # weights are looked at twice, to count what can be drawn and to draw
    assert read[1] < (1.25 if attr == "time_attr" else 1.75) * read[0]


def test_groups_are_used_again(path: Path) -> None:
    sampler = ag.NeighborSampler(paged(path), [5, 5])
    assert sampler.groups is not None
    some = sampler.sample_many([np.arange(20)] * 3, range(3))
    for _ in range(3):
        next(some)  # as many as there are, without asking for the end
    assert sampler.groups.memory > 0
    made = list(sampler.groups._idle)
    list(sampler.sample_many([np.arange(20)] * 3, range(3)))
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
            graph.value_stores("edge")["edge_weight"].gather([1, 2])
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
