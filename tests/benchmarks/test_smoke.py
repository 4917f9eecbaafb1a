"""Every benchmark runs with --quick and writes JSON, a Markdown table and, mostly, a plot."""

from __future__ import annotations

import functools
import importlib
import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from support.benchmarks import ROOT, check, run, run_limited, run_quick

from aethergraph import Graph

pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
pytest.importorskip("pyarrow")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.pyg,
    pytest.mark.skipif(not ROOT.exists(), reason="the benchmarks are not in this tree"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("benchmarks")


#: Those that take long run where all of them are asked for; a few of each kind always do.
rare = pytest.mark.skipif(
    "AETHERGRAPH_BENCHMARKS" not in os.environ, reason="takes long: ./scripts/test.sh benchmarks"
)
OFTEN = ("live",)
RARELY = (
    "io", "gather", "live_base", "live_features", "keys", "order", "context", "observe",
    "compressed", "remote", "served_samples", "streaming", "streaming_training", "live_peers",
    "build", "end_to_end", "growth", "load_time", "accuracy", "scale_model", "sharded", "walks",
    "threads", "live_reads",
)  # fmt: skip


@pytest.mark.parametrize("name", [*OFTEN, *(pytest.param(name, marks=rare) for name in RARELY)])
def test_quick_run(name: str, data: Path) -> None:
    check(run_quick(name, data), name)
    assert (data / f"{name}.svg").stat().st_size > 1000


@rare
@pytest.mark.parametrize(
    "name", ["gpu", "inference", "inference_refresh", "ray_data", "order_misses"]
)
def test_quick_run_without_a_plot(name: str, data: Path) -> None:
    if name == "ray_data":
        pytest.importorskip("ray", reason="Ray (75 MB) is not installed: aethergraph[ray]")
    if name == "order_misses" and not shutil.which("valgrind"):
        pytest.skip("apt install valgrind")
    check(run_quick(name, data), name)


@rare
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="sudo, iproute2")
def test_datagrams(data: Path) -> None:
    done = run("udp", "--quick", "--dir", str(data), "--out", str(data))
    for reason in ("AF_XDP cannot be had", "Operation not permitted"):
        if reason in done.stderr:
            pytest.skip(f"{reason}: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stdout + done.stderr
    check(json.loads((data / "udp.json").read_text()), "udp")


@rare
def test_building_within_a_budget(data: Path) -> None:
    arguments = ("--quick", "--times", "3", "--dir", str(data), "--out", str(data))
    done = run("build_bounded", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads((data / "build_bounded.json").read_text())
    check(document, "build_bounded")
    (table,) = document["tables"]
    checked = [row[-1] for row in table["rows"] if row[1].startswith("aethergraph")]
    assert checked == ["yes", "the same file"] * 3
    assert not (data / "build_bounded").exists()


@rare
def test_tables(data: Path) -> None:
    pytest.importorskip("duckdb")
    done = run("tables", "--quick", "--kills", "2", "--dir", str(data), "--out", str(data))
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads((data / "tables.json").read_text())
    check(document, "tables")
    assert document["data"]["killed"]["same"]
    assert [row[-1] for row in document["tables"][0]["rows"]] == ["the same edges"] * 2


def test_what_was_built_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph with one other edge, or with two edges in another order, is not that of the input."""
    monkeypatch.syspath_prepend(str(ROOT))
    bench = importlib.import_module("build_bounded")
    setting = bench.Setting(tmp_path, 50, 4000, 2, "1G")
    rows = np.concatenate([*bench.pieces(50, 2000)] * 2)
    path = tmp_path / "g.aeg"
    for change in ("none", "another edge", "another order"):
        src, dst = rows.T.copy()
        first, second = np.flatnonzero(dst == 0)[:2]
        if change == "another edge":
            src[first] += 1
        elif change == "another order":
            assert src[first] != src[second]
            src[first], src[second] = src[second], src[first]
        Graph.from_edges(50, src, dst).save(path)
        if change == "none":
            bench.check(path, setting)
            continue
        with pytest.raises(SystemExit, match="of the input"):
            bench.check(path, setting)


def test_sampling_is_above_the_floor(data: Path) -> None:
    document = run_quick("sampling", data)
    check(document, "sampling")
    for case in document["data"]["cases"]:
        ours = case["contenders"]["aethergraph memory"]
        assert 0 < case["lower_bound"]["ns_per_edge"] < ours["ns_per_edge"]
        assert ours["edges_per_batch"] == case["contenders"]["aethergraph mmap"]["edges_per_batch"]


@rare
@pytest.mark.parametrize("name", ["typed", "modes"])
def test_samplers_do_the_same_work(name: str, data: Path) -> None:
    document = run_quick(name, data)
    check(document, name)
    assert (data / f"{name}.svg").stat().st_size > 1000
    for case in document["data"]["cases"]:
        found = case["contenders"]
        edges = {contender: one["edges_of_one_hop"] for contender, one in found.items()}
        if case["case"][0].startswith("times of nodes"):
            edges.pop("torch-sparse", None)  # it draws first and drops what is too late then
        assert min(edges.values()) == max(edges.values()) > 0, case["case"]
        ours, mapped = found["aethergraph memory"], found["aethergraph mmap"]
        assert ours["edges_per_batch"] == mapped["edges_per_batch"] > edges["aethergraph memory"]


@rare
def test_sampling_in_time_is_checked_in_memory_and_on_disk(data: Path) -> None:
    document = run_limited("typed_temporal", data)
    found = document["data"]
    assert len(found["memory"]) == 16 and len(found["disk"]) == 8
    for case in found["memory"] + found["disk"]:
        assert min(case["ours"]) > 0 and case["edges"] > 128, case["case"]
    for name, used in found["memory_use"].items():
        assert 0 < used["anonymous_peak"] < used["limit"], name


@rare
def test_links(data: Path) -> None:
    document = run_quick("links", data)
    check(document, "links")
    assert (data / "links.svg").stat().st_size > 1000
    edges = [case["edges_per_batch"] for case in document["data"]["cases"] if "negatives" in case]
    assert len(edges) == 4 and all(min(found.values()) > 0 for found in edges)


@rare
def test_storages_sample_the_same(data: Path) -> None:
    document = run_quick("storages", data)
    check(document, "storages")
    rows = {row[0]: row for row in document["tables"][0]["rows"]}
    assert rows["auto, within the budget"][1] == "memory"
    assert rows["uring, grouped"][1] == "uring"


@rare
def test_memory_limit(data: Path) -> None:
    document = run_limited("memory_limit", data, "--nodes", "20000", "--limit", "3G")
    ours = document["data"]["stock NodeLoader, aethergraph mmap"]
    assert ours["status"] == 0 and ours["batches"] == 5


@rare
def test_out_of_core(data: Path) -> None:
    document = run_limited("outofcore", data)
    (contenders,) = document["data"]["limits"].values()
    for name in ("aethergraph mmap", "ring reader, 4 KiB direct"):
        if contenders[name]["missing"] is None:
            (measured,) = contenders[name]["runs"]
            assert measured["edges"] > 0, name
            on_a_device = measured["device_reads"] is not None
            assert not on_a_device or measured["device_bytes"] > 0, name


@rare
def test_vectors_out_of_core(data: Path) -> None:
    document = run_limited("inference_out_of_core", data)
    assert [row[:3] for row in document["tables"][0]["rows"]] == [
        ["aethergraph embed", 1, 20_000], ["aethergraph embed", 2, 20_000],
        ["a loop by hand", 1, 20_000 - 4096],
    ]  # fmt: skip


@rare
def test_modes_out_of_core(data: Path) -> None:
    document = run_limited("outofcore_modes", data)
    assert len(document["data"]["modes"]) == 11
    for mode, runs in document["data"]["modes"].items():
        for storage in ("mmap", "uring"):
            assert runs[storage][0]["items"] > 0, (mode, storage)


@rare
def test_a_version_beside_itself(data: Path) -> None:
    document = run_limited("before_after", data, "--before", sys.executable)
    assert len(document["data"]) == 6
    for workload, turns in document["data"].items():
        for which in ("before", "after"):
            assert min(turn["edges"] for turn in turns[which]) > 0, (workload, which)


@rare
def test_values_out_of_core(data: Path) -> None:
    document = run_limited("values_out_of_core", data, "--only", "SubgraphLoader")
    assert len(document["data"]["loaders"]) == 2
    for runs in document["data"]["loaders"].values():
        assert runs["with"][0]["edges"] == runs["without"][0]["edges"] > 0
    held = document["data"]["loaders"]["SubgraphLoader, all of it"]["with"][0]
    assert held["graph_bytes"] < 1 << 20 < held["value_bytes"]


@rare
def test_training_beyond_memory(data: Path) -> None:
    document = run_limited("train_beyond_memory", data)
    runs = document["data"]["runs"]
    accuracy = []
    for storage in ("mmap", "uring"):
        ours = runs[f"stock NodeLoader, aethergraph {storage}"]
        assert ours["exit_code"] == 0 and ours["oom_kills"] == 0
        accuracy += [epoch["accuracy"] for epoch in ours["epochs"]]
    assert accuracy[0] > 0.3  # 8 classes
    assert accuracy[1:] == pytest.approx(accuracy[:1], abs=0.02)  # the same batches


@rare
def test_gathering_out_of_core(data: Path) -> None:
    document = run_limited("outofcore_gather", data)
    for contenders in document["data"]["runs"].values():
        for name in ("numpy memmap", "aethergraph mmap", "aethergraph uring"):
            assert contenders[name][0]["rows"] > 0
    assert "aethergraph uring, by pread" in document["data"]["runs"]["uniform"]
    for case in document["data"]["caches"]:
        assert 0 < case["s3_fifo"] <= case["belady"] < 1
        assert 0 < case["hot"] <= case["belady"]


@rare
def test_planning(data: Path) -> None:
    document = run_limited("planning", data)
    runs = {name: one[0] for name, one in document["data"]["runs"].items()}
    assert runs["all batches"]["hit_rate"] >= runs["no planning"]["hit_rate"]
    assert abs(runs["all batches"]["hit_rate"] - document["data"]["optimum"]) < 0.01
    packed = runs["packed on disk"]
    assert packed["device_bytes"] > packed["packed_bytes"] / 2 > 0
    assert packed["packing"] > 0


def test_large_graphs_are_the_same_every_time(data: Path) -> None:
    for folder in ("one", "two"):
        done = run(
            "large_graph", "--nodes", "5000", "--edges", "1100000", "--dir", str(data / folder)
        )
        assert done.returncode == 0, done.stderr
    files = [next((data / folder).glob("power-law-*/graph.aeg")) for folder in ("one", "two")]
    assert files[0].read_bytes() == files[1].read_bytes()
    with Graph.load(files[0]) as graph:
        graph.verify()
        assert graph.num_nodes == 5000 and graph.num_edges == 1_100_000
        into, out = graph.in_degrees(), np.bincount(graph.csc()[1], minlength=5000)
    assert into.min() > 0 and np.corrcoef(into, out)[0, 1] > 0.99  # popular at both ends


def belady_by_search(trace: list[int], capacity: int) -> int:
    """The most hits of any choice of what to keep."""

    @functools.cache
    def best(position: int, kept: frozenset[int]) -> int:
        if position == len(trace):
            return 0
        one = trace[position]
        there = kept | {one}
        choices = [there] if len(there) <= capacity else [there - {gone} for gone in there]
        return (one in kept) + max(best(position + 1, choice) for choice in choices)

    return best(0, frozenset())


def test_belady_is_the_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    optimum = importlib.import_module("harness.optimum")
    rng = np.random.default_rng(0)
    for _ in range(60):
        trace = rng.integers(0, 6, 14)
        capacity = int(rng.integers(1, 4))
        expected = belady_by_search(trace.tolist(), capacity)
        assert optimum.belady_hits(trace, capacity) == expected


def test_run_all_goes_on_and_reports(data: Path) -> None:
    done = run("run_all", "--quick", "--only", "floor", "--dir", str(data), "--out", str(data))
    assert done.returncode == 0 and "floor               ok" in done.stdout
    check(json.loads((data / "floor.json").read_text()), "floor")
    assert (data / "floor.svg").stat().st_size > 1000
