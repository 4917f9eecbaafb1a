"""check_no_leak against loops over samples, and on samplers that leak on purpose."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import examples
from typer.testing import CliRunner

from aethergraph import DynamicGraph, Graph, HeteroGraph, HeteroNeighborSampler, NeighborSampler
from aethergraph.cli import leaks as cli_leaks
from aethergraph.cli.app import app
from aethergraph.errors import InvalidArgumentError
from aethergraph.sampling.plan import DrawPlan
from aethergraph.testing import LeakError, check_no_leak

OF, REV = ("a", "of", "b"), ("b", "rev_of", "a")


def made(seed: int, timed: Literal["node_time", "edge_time"], counts: int = 12) -> HeteroGraph:
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, counts, (2, 5 * counts))
    times: Any = {}
    if timed == "node_time":
        times["node_time"] = {"a": rng.integers(0, 20, counts)}
    else:
        when = rng.integers(0, 20, 5 * counts)
        times["edge_time"] = {OF: when, REV: when}
    edges = {OF: (src, dst), REV: (dst, src)}
    return HeteroGraph.from_edges(edges, {"a": counts, "b": counts}, **times)


def first_offence(graph: HeteroGraph, sub: Any, times: list[int], strict: bool) -> set[Any]:
    """Return all offences of a sample, by loops."""
    found: set[Any] = set()
    for name, ids in sub.node.items():
        for at, number in enumerate(ids.tolist()):
            if graph[name].node_time is None:
                continue
            time, limit = int(graph[name].node_time[number]), times[int(sub.batch[name][at])]
            is_seed = at < sub.num_sampled_nodes[name][0]
            if time > limit or (strict and time == limit and not is_seed):
                found.add(("node", name, number, time, limit))
    for kind, ids in sub.edge.items():
        for at, number in enumerate(ids.tolist()):
            if graph[kind].edge_time is None:
                continue
            seed = int(sub.batch[kind[2]][sub.col[kind][at]])
            time, limit = int(graph[kind].edge_time[number]), times[seed]
            if time > limit or (strict and time == limit):
                found.add(("edge", kind, number, time, limit))
    return found


@examples(60)
@given(
    seed=st.integers(0, 1000),
    timed=st.sampled_from(["node_time", "edge_time"]),
    lies=st.integers(0, 3),
    strict=st.booleans(),
    strategy=st.sampled_from(["uniform", "last"]),
)
def test_equals_loops(
    seed: int,
    timed: Literal["node_time", "edge_time"],
    lies: int,
    strict: bool,
    strategy: Literal["uniform", "last"],
) -> None:
    """Samples of a time that is ``lies`` later than the seeds are said to be."""
    graph = made(seed, timed)
    rng = np.random.default_rng(seed)
    seeds = {"b": rng.integers(0, 12, 6)}
    times = rng.integers(0, 20, 6)
    sampler = HeteroNeighborSampler(
        graph, [3, 3], time_attr=timed, strict=strict, temporal_strategy=strategy
    )
    sub = sampler.sample(seeds, 1, seed_time={"b": times + lies})
    expected = first_offence(graph, sub, times.tolist(), strict)
    try:
        report = check_no_leak(graph, sub, strict=strict, seed_time={"b": times})
    except LeakError as error:
        offence = (error.what, error.type, error.id, error.time, error.seed_time)
        assert offence in expected and error.seed_time == times[error.seed]
        assert f"{error.what} {error.id} of {error.type!r} is of time {error.time}" in str(error)
    else:
        assert not expected and report.seeds == 6 and report.batches == 1
        timed_nodes = len(sub.node["a"]) if timed == "node_time" else 0
        assert report.nodes == timed_nodes
        assert (report.edges > 0) == (timed == "edge_time" and sum(map(len, sub.edge.values())) > 0)
    assert lies or not expected


def test_graphs_of_one_type() -> None:
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 30, (2, 200))
    graph = Graph.from_edges(30, src, dst, edge_time=rng.integers(0, 50, 200))
    seeds, times = rng.integers(0, 30, 10), rng.integers(10, 40, 10)
    honest = NeighborSampler(graph, [5, 5], time_attr="edge_time")
    many = [honest.sample(seeds, key, seed_time=times) for key in range(3)]
    report = check_no_leak(graph, many, seed_time=times)
    assert (report.batches, report.seeds, report.nodes) == (3, 30, 0) and report.edges > 30
    blind = NeighborSampler(graph, [5, 5], disjoint=True)
    with pytest.raises(LeakError, match=r"^edge \d+ is of time \d+, after the time \d+ of seed \d"):
        check_no_leak(graph, blind.sample(seeds, 1), seed_time=times)


def test_a_sampler_that_is_told_what_is_not_so() -> None:
    """Lists that are not sorted, and a promise that they are: the future comes in, and is found."""
    src, dst = np.arange(1, 41), np.zeros(40, np.int64)
    graph = Graph.from_edges(41, src, dst)
    when = np.arange(40)[::-1].copy()
    graph.edge_attrs["when"] = when
    sampler = NeighborSampler(graph, [30], time_attr="when", is_sorted=True)
    sub = sampler.sample([0], 1, seed_time=[20])
    assert (when[sub.edge] > 20).any()
    with pytest.raises(LeakError, match="after the time 20 of seed 0"):
        check_no_leak(graph, sub, time_attr="when", seed_time=[20])
    honest = NeighborSampler(graph, [0], time_attr="when", is_sorted=True)
    check_no_leak(graph, honest.sample([0], 1, seed_time=[20]), time_attr="when", seed_time=[20])


def test_seeds_may_be_as_late_as_they_are() -> None:
    graph = Graph.from_edges(3, [0, 1], [1, 2], node_time=[5, 5, 5])
    sampler = NeighborSampler(graph, [2], time_attr="node_time")
    sub = sampler.sample([2], 1)  # of the time of the seed itself
    assert check_no_leak(graph, sub).nodes == 2
    with pytest.raises(LeakError, match="node 1 is of time 5, at the time 5 of seed 0") as found:
        check_no_leak(graph, sub, strict=True)
    assert (found.value.id, found.value.what, found.value.type) == (1, "node", None)
    with pytest.raises(LeakError, match="node 2 is of time 5, after the time 4"):
        check_no_leak(graph, sub, seed_time=[4])


def test_edges_across_trees_are_leaks() -> None:
    graph = Graph.from_edges(4, [2, 3], [0, 1], edge_time=[1, 9])
    sampler = NeighborSampler(graph, [2], time_attr="edge_time")
    sub = sampler.sample([0, 1], 1, seed_time=[5, 10])
    check_no_leak(graph, sub, seed_time=[5, 10])
    swapped = dataclasses.replace(sub, row=sub.row[::-1].copy())
    with pytest.raises(LeakError, match="joins the tree of seed 0 with that of seed 1"):
        check_no_leak(graph, swapped, seed_time=[5, 10])


def test_what_is_no_sample_is_named() -> None:
    graph = Graph.from_edges(4, [2, 3], [0, 1], edge_time=[1, 9])
    sub = NeighborSampler(graph, [2], time_attr="edge_time").sample([0], 1, seed_time=[5])
    together = NeighborSampler(graph, [2]).sample([0], 1)
    for batches, options, error in (
        (7, {}, "samples, or an iterable of them, got 7"),
        ([7], {}, "PyG's Data or HeteroData, or a Subgraph"),
        (together, {"seed_time": [5]}, "does not tell which seed .* time_attr=, .* disjoint=True"),
        (sub, {}, "have none: give seed_time"),
        (sub, {"seed_time": []}, "0 times of seeds, but a node of seed 0"),
        (sub, {"seed_time": [5], "time_attr": "when"}, "no times called 'when'"),
        (sub, {"seed_time": [5], "strict": "yes"}, "strict"),
    ):
        with pytest.raises(InvalidArgumentError, match=error):
            check_no_leak(graph, batches, **options)
    with pytest.raises(InvalidArgumentError, match="the graph has no times"):
        check_no_leak(Graph.from_edges(2, [0], [1]), sub)
    assert isinstance(LeakError("", "node", None, 0, 1, 0, 0), AssertionError)


@pytest.mark.parametrize("timed", ["node_time", "edge_time"])
def test_what_has_no_times_is_counted(timed: Literal["node_time", "edge_time"]) -> None:
    graph, seeds = made(2, timed), np.arange(12)
    sampler = HeteroNeighborSampler(graph, [3, 2], time_attr=timed)
    batches = [
        sampler.sample({"a": seeds}, key, seed_time={"a": np.full(12, 19)}) for key in (1, 2)
    ]
    report = check_no_leak(graph, batches, seed_time={"a": np.full(12, 19)})
    nodes = {name: sum(len(one.node[name]) for one in batches) for name in ("a", "b")}
    edges = {kind: sum(len(one.edge[kind]) for one in batches) for kind in (OF, REV)}
    assert min(*nodes.values(), *edges.values()) > 0
    if timed == "node_time":
        assert report.untimed_nodes == {"b": nodes["b"]} and report.untimed_edges == edges
        assert report.nodes == nodes["a"] and report.edges == 0
        assert report.untimed()[0] == f"{nodes['b']} nodes of 'b'"
    else:
        assert report.untimed_nodes == nodes and report.untimed_edges == {}
        assert report.edges == sum(edges.values()) and report.nodes == 0
    plain = Graph.from_edges(4, [2, 3], [0, 1], edge_time=[1, 2])
    sub = NeighborSampler(plain, [2], time_attr="edge_time").sample([0], 1, seed_time=[5])
    report = check_no_leak(plain, sub, seed_time=[5])
    assert report.untimed_nodes == {None: 2} and report.untimed() == ["2 nodes"]


# ---- the command line ---------------------------------------------------------------------------


def verify(path: Path, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["verify", "--time", str(path)])
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.parametrize("timed", ["node_time", "edge_time"])
def test_verify_samples_graphs_in_time(
    tmp_path: Path, timed: Literal["node_time", "edge_time"], monkeypatch: pytest.MonkeyPatch
) -> None:
    made(1, timed, 200).save(tmp_path / "g.aeg")
    text = verify(tmp_path / "g.aeg")
    assert "nothing is later than its seed in 32 samples" in text
    assert ("(0 nodes" in text) == (timed == "edge_time")
    assert ("and 0 edges" in text) == (timed == "node_time")
    unknown = re.search(r"; not compared, as they have no times: (.*) \(", text.replace("\n", ""))
    assert unknown is not None
    kinds = re.findall(r"[1-9][0-9,]* (nodes|edges) of ('[ab]'|\([^)]*\))", unknown[1])
    expected = [("nodes", "'b'"), ("edges", str(OF)), ("edges", str(REV))]
    if timed == "edge_time":
        expected = [("nodes", "'a'"), ("nodes", "'b'")]
    assert kinds == expected

    class Leaking(HeteroNeighborSampler):
        def sample(self, seeds: Any, key: Any = None, *, seed_time: Any = None, **rest: Any) -> Any:
            later = {name: times + 2 for name, times in seed_time.items()}
            return super().sample(seeds, key, seed_time=later, **rest)

    monkeypatch.setattr(cli_leaks, "HeteroNeighborSampler", Leaking)
    assert "after the time" in verify(tmp_path / "g.aeg", 1)


def test_verify_names_what_cannot_be_sampled_in_time(tmp_path: Path) -> None:
    Graph.from_edges(3, [0, 1], [1, 2]).save(tmp_path / "g.aeg")
    assert "the graph has no times" in verify(tmp_path / "g.aeg", 2)
    np.save(tmp_path / "x.npy", np.zeros(3))
    assert "neither a graph file nor a live graph" in verify(tmp_path / "x.npy", 2)


def test_verify_samples_live_graphs_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    with DynamicGraph.open(
        tmp_path / "g", num_vertices=50, order="time", edge_time="int64", arena_mb=16,
        huge_pages=False,
    ) as live:  # fmt: skip
        src, dst, times = rng.integers(0, 50, (3, 600))
        live.insert_edges(src, dst, time=times)
        live.delete_edge(int(src[0]), int(dst[0]))
    before = {one.name: one.read_bytes() for one in (tmp_path / "g").iterdir() if one.is_file()}
    text = verify(tmp_path / "g")
    assert "nothing is later than its seed in 32 samples (0 nodes and " in text
    after = {one.name: one.read_bytes() for one in (tmp_path / "g").iterdir() if one.is_file()}
    assert after == before

    bounds = DrawPlan.bounds

    def see_more(*arguments: Any) -> Any:
        found = bounds(*arguments)
        return found if found.until is None else found._replace(until=found.until + 9)

    monkeypatch.setattr(DrawPlan, "bounds", see_more)
    assert "after the time" in verify(tmp_path / "g", 1)
    with DynamicGraph.open(tmp_path / "plain", num_vertices=3, arena_mb=16, huge_pages=False):
        pass
    assert "the graph has no times" in verify(tmp_path / "plain", 2)
