"""Samples from a server are those of the graph at its commit, and replay to the same bytes."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.network import make_certificate
from support.serving import Client, address_in, served
from support.threads import comes, repeating, run_together

from aethergraph import (
    DynamicGraph,
    DynamicHeteroGraph,
    Graph,
    HeteroGraph,
    HeteroNeighborSampler,
    LiveFeatureTable,
    NeighborSampler,
)
from aethergraph.dynamic.history import History
from aethergraph.errors import (
    AetherError,
    ClosedError,
    FileChangedError,
    FormatError,
    InvalidArgumentError,
    LimitError,
    MissingFileError,
    OutOfRangeError,
    StorageError,
    UnsupportedError,
)
from aethergraph.remote import (
    FeatureServer,
    SamplePlan,
    SampleService,
    open_graph,
    open_sampler,
    open_tables,
    replay,
    wire,
)
from aethergraph.remote.samples.form import Form
from aethergraph.remote.samples.log import AnswerLog, read_answers
from aethergraph.remote.samples.replay import check_replay
from aethergraph.remote.samples.request import MAX_SEEDS, Request, make_request

pytestmark = pytest.mark.any_python

NODES, EDGES = 500, 6000
USER, FILM = "user", "film"
RATES, LIKED = (USER, "rates", FILM), (FILM, "liked", USER)


def make_graph(rng: Any) -> Graph:
    src, dst = rng.integers(0, NODES, (2, EDGES))
    graph = Graph.from_edges(
        NODES, src, dst, edge_time=rng.integers(0, 1000, EDGES), edge_weight=rng.random(EDGES),
        edge_attrs={"w": rng.random((EDGES, 3), dtype=np.float32)},
    )  # fmt: skip
    graph.node_attrs["x"] = rng.random((NODES, 5), dtype=np.float32)
    graph.node_attrs["y"] = rng.integers(0, 9, NODES).astype(np.int8)
    return graph


def make_typed(rng: Any) -> HeteroGraph:
    edges = {kind: tuple(rng.integers(0, 60, (2, 900))) for kind in (RATES, LIKED)}
    graph = HeteroGraph.from_edges(edges, {USER: 60, FILM: 70})
    graph[USER].attrs["x"] = rng.random((60, 4), dtype=np.float32)
    graph[FILM].attrs["x"] = rng.random((70, 2), dtype=np.float32)
    return graph


def make_live(path: Path, **options: Any) -> DynamicGraph:
    options = {"order": "time", "edge_time": "int64", "edge_weight": "float32", **options}
    graph = DynamicGraph.open(path, NODES, 16, durability="none", **options)
    rng = np.random.default_rng(1)
    graph.node_attrs["x"] = rng.random((NODES, 5), dtype=np.float32)
    for at in range(10):
        change(graph, rng, at)
    return graph


def change(graph: DynamicGraph, rng: Any, at: int) -> None:
    """Commit edges and rows."""
    with graph.transaction():
        graph.insert_edges(
            rng.integers(0, NODES, 200), rng.integers(0, NODES, 200),
            time=np.full(200, at), weight=rng.random(200, dtype=np.float32),
        )  # fmt: skip
        graph.update_nodes(rng.permutation(NODES)[:9], x=rng.random((9, 5), dtype=np.float32))


def same(mine: Any, its: Any) -> None:
    for name in ("node", "row", "col", "edge", "batch", "num_sampled_nodes", "num_sampled_edges"):
        one, other = getattr(mine, name), getattr(its, name)
        if isinstance(one, dict) and one:
            assert one.keys() == other.keys()
            pairs = [(one[key], other[key]) for key in one]
        else:
            pairs = [(one, other)]
        for a, b in pairs:
            assert (a is None) == (b is None), name
            assert a is None or np.array_equal(a, b), name


@pytest.fixture(scope="module")
def graph() -> Graph:
    return make_graph(np.random.default_rng(0))


PLANS: list[dict[str, Any]] = [
    {},
    {"disjoint": True},
    {"replace": True},
    {"subgraph_type": "bidirectional"},
    {"subgraph_type": "induced"},
    {"time_attr": "edge_time", "temporal_strategy": "last"},
    {"weight_attr": "edge_weight", "layered": True},
]


@pytest.mark.parametrize("options", PLANS)
def test_samples(graph: Graph, options: dict[str, Any]) -> None:
    plan = SamplePlan([4, 3], options, edge_attrs=["w", "edge_time"])
    local = NeighborSampler(graph, [4, 3], **options)
    times = [700, 800] if "time_attr" in options else None
    with FeatureServer({}, samples={"g": SampleService(graph, plan)}, port=0) as server:
        with open_sampler(server.address) as sampler:
            for key in range(5):
                found = sampler.sample([7, 11], times, key)
                expected = local.sample([7, 11], key, seed_time=times)
                same(found.subgraph, expected)
                assert (found.key, found.commit, found.batch_size) == (key, 0, 2)
                for name in ("x", "y"):
                    rows = graph.node_attrs[name].gather(expected.node)
                    assert (found.node_attrs[name] == rows).all()
                    assert found.node_attrs[name].dtype == rows.dtype
                assert (found.edge_attrs["w"] == graph.edge_attrs["w"].gather(expected.edge)).all()
                known = graph.edge_values["edge_time"].gather(expected.edge)
                assert (found.edge_attrs["edge_time"] == known).all()
            assert len(sampler.sample([], times and []).subgraph.node) == 0
            assert sampler.sample([7], times and [7]).key != sampler.sample([7], times and [7]).key
        assert server.stats().samples >= 7


@pytest.mark.parametrize("fanouts", [[3, 2], {"user-rates-film": [3, 2]}])
def test_typed_samples(fanouts: Any) -> None:
    graph = make_typed(np.random.default_rng(0))
    plan = SamplePlan(fanouts, {"disjoint": True})
    own = {RATES: [3, 2]} if isinstance(fanouts, dict) else fanouts
    local = HeteroNeighborSampler(graph, own, disjoint=True)
    with FeatureServer({}, samples={"g": SampleService(graph, plan)}, port=0) as server:
        sampler = open_sampler(f"{server.address}/g")
        found = sampler.sample({FILM: [5, 6], USER: [1]}, key=3)
        expected = local.sample({FILM: [5, 6], USER: [1]}, 3)
        same(found.subgraph, expected)
        assert found.batch_size == 3
        for kind in (USER, FILM):
            rows = graph[kind].attrs["x"].gather(expected.node[kind])
            assert (found.x[kind] == rows).all() and (found.node_attrs[kind]["x"] == rows).all()
        with pytest.raises(
            InvalidArgumentError, match="'car' is no node type; there are: user, fi"
        ):
            sampler.sample({"car": [1]})


@pytest.mark.parametrize("own", [True, False])
def test_a_live_graph_and_its_replay(tmp_path: Path, own: bool) -> None:
    """Every answer is of one commit, whatever is written meanwhile, and made again from the log."""
    graph, log = make_live(tmp_path / "g.aegd"), tmp_path / "log"
    served = graph if own else tmp_path / "g.aegd"
    service = SampleService(served, SamplePlan([5, 4], {"time_attr": "edge_time"}))
    rng, numbers = np.random.default_rng(2), count(10)

    def write() -> None:
        change(graph, rng, next(numbers))
        time.sleep(0.001)

    def ask(url: str, seed: int) -> None:
        rng = np.random.default_rng(seed)
        with open_sampler(url, log=tmp_path / f"client-{seed}") as sampler:
            for _ in range(15):
                sampler.sample(rng.integers(0, NODES, 3), [10**6] * 3)

    with FeatureServer({}, samples={"g": service}, port=0, log=log) as server, repeating(write):
        run_together(*(partial(ask, server.address, seed) for seed in range(3)))
    found = check_replay(log, tmp_path / "g.aegd")  # while it is open for writing
    assert (found.answers, found.differences) == (45, []) and found.commits > 1
    for seed in range(3):
        assert check_replay(tmp_path / f"client-{seed}", tmp_path / "g.aegd")[::2] == (15, [])
    graph.close()
    commits = [one.commit for one in replay(log, tmp_path / "g.aegd")]
    assert commits == sorted(commits)
    with History(tmp_path / "g.aegd") as history:  # what replay() does, once more by hand
        one = next(iter(replay(log, tmp_path / "g.aegd")))
        then: Any = history.at(one.commit)
        sampler = NeighborSampler(then, [5, 4], time_attr="edge_time")
        expected = sampler.sample(one.seeds, one.key, seed_time=[10**6] * 3)
        same(one.subgraph, expected)
        assert (one.x == then.node_attrs["x"].gather(expected.node)).all()


def sampled(server: FeatureServer) -> int:
    """Ask for a sample; return its commit."""
    with open_sampler(server.address) as sampler:
        return sampler.sample([1, 2, 3], key=1).commit


def test_a_snapshot_and_a_saved_file_replay_too(tmp_path: Path) -> None:
    graph = make_live(tmp_path / "g.aegd")
    service = SampleService(graph, SamplePlan([5, 4]))
    with FeatureServer({}, samples={"g": service}, port=0, log=tmp_path / "log") as server:
        open_sampler(server.address).sample([1, 2, 3], key=1)
        with graph.snapshot() as held:
            held.save(tmp_path / "g.aeg")
            change(graph, np.random.default_rng(5), 99)
            assert check_replay(tmp_path / "log", held)[::2] == (1, [])
        for saved in (tmp_path / "g.aeg", Graph.load(tmp_path / "g.aeg")):
            assert check_replay(tmp_path / "log", saved) == (1, 1, [], [])
        found = check_replay(tmp_path / "log", graph)  # the graph has gone on
        words = "drawn from commit .* and the graph is of commit"
        assert found.differences == [] and len(found.missing) == 1
        with pytest.raises(OutOfRangeError, match=words), pytest.warns(UserWarning, match=words):
            list(replay(tmp_path / "log", graph))
        assert len(list(replay(tmp_path / "log", graph, check=False))) == 1
        lsn = sampled(server)
        assert [one.commit for one in read_answers(tmp_path / "log")] == [lsn - 1, lsn]
        found = check_replay(tmp_path / "log", tmp_path / "g.aeg")
        words = f"drawn from commit {lsn}, and .*g.aeg is of commit {lsn - 1}"
        assert (found.answers, found.differences) == (2, []) and len(found.missing) == 1
        assert re.search(words, found.missing[0])
    with make_live(tmp_path / "other.aegd") as other:
        other.save(tmp_path / "other.aeg")
        with pytest.raises(FileChangedError, match=r"line 2: .* another live graph \(.*other.aeg"):
            check_replay(tmp_path / "log", tmp_path / "other.aeg")
    lines = (tmp_path / "log").read_text().replace('"sum":"', '"sum":"f')
    (tmp_path / "wrong").write_text(lines)
    found = check_replay(tmp_path / "wrong", tmp_path / "g.aeg")
    assert len(found.differences) == len(found.missing) == 1  # its commit is known: it is wrong
    with pytest.raises(FileChangedError, match=r"line 2: the answer to key 1 .* is another one"):
        list(replay(tmp_path / "wrong", tmp_path / "g.aegd"))
    graph.merge()
    found = check_replay(tmp_path / "log", tmp_path / "g.aegd")
    assert "merging gave up those before it" in found.missing[0] and found.differences == []


def test_a_log_of_several_commits_and_what_has_one(tmp_path: Path) -> None:
    """A saved file, a snapshot and a server's graph give the answers of their own commit again."""
    path, log, saved = tmp_path / "g.aegd", tmp_path / "log", tmp_path / "g.aeg"
    graph = make_live(path)
    service = SampleService(graph, SamplePlan([5, 4], node_attrs=["x"]))
    samples, graphs = {"g": service}, {"g": graph}
    with FeatureServer({}, samples=samples, graphs=graphs, port=0, log=log) as server:
        with open_sampler(server.address) as sampler:
            for key in (1, 2, 3):
                if key > 1:
                    change(graph, np.random.default_rng(key), 100 + key)
                sampler.sample([1, 2, 3], key=key)
                sampler.sample([4, 5], key=10 + key)
                if key == 2:
                    held, remote = graph.snapshot(), open_graph(server.address)
                    held.save(saved)
        second, last = ([2, 12], [2, 3, 6, 7]), ([3, 13], [2, 3, 4, 5])
        for source, (keys, others) in (
            (str(saved), second), (saved, second), (Graph.load(saved), second), (held, second),
            (remote, second), (server.address, last), (graph, last),
        ):  # fmt: skip
            found = check_replay(log, source)
            assert found[:3] == (6, 3, []) and len(found.missing) == 4
            lines: list[int] = []
            errors: list[AetherError] = []

            def missed(line: int, error: AetherError, to: Any = (lines, errors)) -> None:
                to[0].append(line)
                to[1].append(error)

            assert [one.key for one in replay(log, source, missing=missed)] == keys, source
            assert lines == others, source
            assert {type(one) for one in errors} == {OutOfRangeError}
            assert all(len(str(one)) < 250 for one in errors)
        remote.close()
        held.close()
    graph.close()
    other = make_live(tmp_path / "other.aegd")
    other.close()
    with pytest.raises(FileChangedError, match=r"from another live graph \([0-9a-f]{32}\) than"):
        check_replay(log, tmp_path / "other.aegd")


def test_a_log_of_another_file(tmp_path: Path, graph: Graph) -> None:
    graph.save(tmp_path / "g.aeg")
    make_graph(np.random.default_rng(9)).save(tmp_path / "h.aeg")
    make_live(tmp_path / "g.aegd").close()
    service = SampleService(tmp_path / "g.aeg", SamplePlan([5]))
    with FeatureServer({}, samples={"g": service}, port=0, log=tmp_path / "log") as server:
        open_sampler(server.address).sample([1])
    assert check_replay(tmp_path / "log", tmp_path / "g.aeg") == (1, 1, [], [])
    for name in ("h.aeg", "g.aegd"):
        with pytest.raises(FileChangedError, match=rf"from another graph file than .*{name}: give"):
            check_replay(tmp_path / "log", tmp_path / name)


def test_a_typed_live_graph(tmp_path: Path) -> None:
    kinds = [RATES, LIKED]
    graph = DynamicHeteroGraph.open(
        tmp_path / "g.aegd", {USER: 60, FILM: 70}, kinds, 16, durability="none"
    )
    rng = np.random.default_rng(0)
    graph[USER].attrs["x"] = rng.random((60, 4), dtype=np.float32)
    service = SampleService(graph, SamplePlan([3, 3]))
    with FeatureServer({}, samples={"g": service}, port=0, log=tmp_path / "log") as server:
        sampler = open_sampler(server.address)
        for _ in range(5):
            for kind in kinds:
                graph[kind].insert(*rng.integers(0, 60, (2, 50)))
            found = sampler.sample({USER: [1, 2]})
            assert found.commit == graph.lsn
    graph.close()
    assert check_replay(tmp_path / "log", tmp_path / "g.aegd") == (5, 5, [], [])


WRITER = """
import sys
import numpy as np
from aethergraph import DynamicGraph
graph = DynamicGraph.open(sys.argv[1], {make} durability="none")
if "x" not in graph.node_attrs:
    graph.node_attrs["x"] = np.ones((50, 2), np.float32)
for line in sys.stdin:
    graph.insert_edges([0, 1, 2], [3, 3, 4])
    print(graph.lsn, flush=True)
"""


def start_writer(path: Path, make: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER.format(make=make), str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def write(process: subprocess.Popen[str]) -> int:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return int(process.stdout.readline())


def test_the_command(tmp_path: Path) -> None:
    """It follows the process that writes a directory, through its end and its next start."""
    path, plan, log = tmp_path / "g.aegd", tmp_path / "plan.json", tmp_path / "log"
    plan.write_text(json.dumps({"fanouts": [2, 2], "node_attrs": ["x"]}))
    writer = start_writer(path, "num_vertices=50, arena_mb=8, order='time',")
    try:
        first = write(writer)
        with served(path, "--sample", plan, "--log", log, "--tcp", "127.0.0.1:0") as (one, line):
            assert line.startswith("serving g at tcp://")
            with open_sampler(address_in(line)) as sampler:
                assert sampler.sample([3, 4]).commit == first
                second = write(writer)
                assert sampler.sample([3, 4]).commit == second > first
                assert sampler.plan == SamplePlan([2, 2], node_attrs=["x"])
                writer.communicate("")
                assert sampler.sample([3, 4]).commit == second  # nobody writes: the last commit
                writer = start_writer(path)
                third = write(writer)
                assert comes(lambda: sampler.sample([3, 4]).commit == third)
                assert (sampler.sample([3]).x == 1).all()
            one.terminate()
            assert one.wait(30) == 0
    finally:
        writer.communicate("")
    done = run_replay(log, path)
    assert done.exit_code == 0 and "all the same, byte by byte" in done.stdout, done
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines).replace('"sum":"', '"sum":"f', 1) + '{"seeds": [')
    done = run_replay(log, path)
    assert done.exit_code == 1 and "1 are others now" in done.stdout, done


def test_a_file_that_a_snapshot_was_saved_to_and_a_seed_that_is_none(tmp_path: Path) -> None:
    path, log = tmp_path / "g.aeg", tmp_path / "log"
    with make_live(tmp_path / "g.aegd") as graph:
        graph.save(path)
    service = SampleService(path, SamplePlan([5]))
    with FeatureServer({}, samples={"g": service}, port=0, log=log) as server:
        assert sampled(server) == 0
    assert check_replay(log, path) == (1, 1, [], [])
    text, replaced = re.subn(r'"seeds": ?\[1', '"seeds": [99999', log.read_text())
    assert replaced == 1
    log.write_text(text)
    with pytest.raises(OutOfRangeError, match=rf"^{re.escape(str(log))}, line 2: .*99999"):
        list(replay(log, path, missing=lambda *_: None))


def run_replay(*args: object) -> Any:
    """Run ``aethergraph replay`` in this process."""
    testing = pytest.importorskip("typer.testing", reason="pip install 'aethergraph[cli]'")
    from aethergraph.cli.app import app

    return testing.CliRunner().invoke(app, ["replay", *map(str, args)])


def test_a_directory_that_nobody_writes(tmp_path: Path) -> None:
    graph = make_live(tmp_path / "g.aegd")
    expected = NeighborSampler(graph, [5]).sample([1, 2], 3)
    lsn = graph.lsn
    graph.close()
    with pytest.raises(UnsupportedError, match="serve samples of it, by --sample"):
        open_tables(tmp_path / "g.aegd")
    service = SampleService(tmp_path / "g.aegd", SamplePlan([5]))
    with FeatureServer({}, samples={"g": service}, port=0) as server:
        found = open_sampler(server.address).sample([1, 2], key=3)
        same(found.subgraph, expected)
        assert found.commit == lsn


def test_plans(tmp_path: Path, graph: Graph) -> None:
    (tmp_path / "plan.toml").write_text('fanouts = [3, 2]\nnode_attrs = ["x"]\nreplace = true\n')
    pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")
    plan = SamplePlan.read(tmp_path / "plan.toml")
    assert plan == SamplePlan([3, 2], {"replace": True}, node_attrs=["x"])
    assert SamplePlan.of(json.loads(json.dumps(plan.told()))) == plan
    with pytest.raises(MissingFileError):
        SamplePlan.read(tmp_path / "none.toml")
    for text, words in (
        ("fanouts = ", "plan.toml"), ("replace = true", "fanouts are missing"),
        ("fanouts = [1]\nspeed = 3", "has no 'speed'; there are fanouts, node_attrs"),
        ("fanouts = [1]\nnode_attrs = [3]", "3 is no name of an attribute"),
        ("fanouts = []", "fanouts is empty: give hops"),
        ("[fanouts]", "fanouts is empty: give edge"),
        ('[fanouts]\n"a-b-c" = []', r"fanouts\['a-b-c'\] is empty: give hops"),
        ('fanouts = [1]\nnode_attrs = ["x", "y", "x"]', "node_attrs: 'x' is there twice"),
        ('fanouts = [1]\nedge_attrs = ["w", "w"]', "edge_attrs: 'w' is there twice"),
    ):  # fmt: skip
        (tmp_path / "plan.toml").write_text(text)
        with pytest.raises((FormatError, InvalidArgumentError), match=words):
            SamplePlan.read(tmp_path / "plan.toml")
    with pytest.raises(InvalidArgumentError, match=r"options must be \{name: value\}, got None"):
        SamplePlan([1], options=None)  # type: ignore[arg-type]
    for wrong, words in (
        (SamplePlan([-2]), r"the plan: fanouts\[0\] = -2"),
        (SamplePlan([1], {"time_attr": "when"}), "when"),
        (SamplePlan([1], node_attrs=["z"]), "no type has 'z'"),
        (SamplePlan({"a-b-c": [1]}), "for graphs of many types"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            SampleService(graph, wrong)
    with pytest.raises(
        InvalidArgumentError, match=r"plan is a list: give a SamplePlan\(\[15, 10\]\)"
    ):
        SampleService(graph, [15, 10])  # type: ignore[arg-type]
    live = DynamicGraph(NODES, 16)
    for one in (live, graph):
        with pytest.raises(InvalidArgumentError, match=r"sources is a .*Graph: give .*samples="):
            FeatureServer(one, port=0)  # type: ignore[arg-type]
    live.node_attrs["z"] = LiveFeatureTable.create(None, NODES, 3)
    with pytest.raises(UnsupportedError, match="rows of 'z' change by themselves"):
        SampleService(live, SamplePlan([1], node_attrs=["z"]))
    assert [
        one.name for one in SampleService(live, SamplePlan([1])).form.fields if one.is_attr
    ] == []


def test_what_is_refused(graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = SampleService(graph, SamplePlan([-1, -1], {"time_attr": "edge_time"}))
    with FeatureServer({"x": np.zeros(3)}, samples={"g": service}, port=0) as server:
        sampler = open_sampler(server.address)
        with pytest.raises(OutOfRangeError) as error:
            sampler.sample([3, 9999], [5, 5])
        assert (error.value.position, error.value.value) == (1, 9999)
        with pytest.raises(InvalidArgumentError, match="seed_time is needed"):
            sampler.sample([3])
        with pytest.raises(InvalidArgumentError, match=r"time has \d+|time has"):
            sampler.sample([3, 4], [1])
        for large in ([5, 2**63], np.array([5, 2**64 - 1], np.uint64)):
            with pytest.raises(OutOfRangeError, match=r"time\[1\] = \d+ is above 2\*\*63") as error:
                sampler.sample([3, 4], large)
            assert (error.value.position, error.value.value) == (1, int(large[1]))
        with pytest.raises(LimitError, match="more than a request has"):
            sampler.sample(range(MAX_SEEDS + 1), range(MAX_SEEDS + 1))
        with monkeypatch.context() as patch:
            patch.setattr(wire, "MAX_BODY", 1 << 20)
            with pytest.raises(LimitError, match="give fewer seeds, or smaller fanouts"):
                sampler.sample(range(NODES), [10**6] * NODES)
        with pytest.raises(InvalidArgumentError, match="a graph 'h'; there are: g"):
            open_sampler(f"{server.address}/h")
        with pytest.raises(InvalidArgumentError, match="samples come from one server"):
            open_sampler("shm:///g")
        assert sampler.sample([3], [5]).batch_size == 1  # the connection is as good as before
        assert pickle.loads(pickle.dumps(sampler)).sample([3], [5]).batch_size == 1
    for options, words in (
        ({"samples": {"": service}}, "no name of a graph"),
        ({"samples": {"g": graph}}, "give a SampleService"),
        ({"samples": None, "log": tmp_path / "log"}, "from one graph, not 0"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            FeatureServer(np.zeros(3), port=0, **options)
    with FeatureServer(np.zeros(3), port=0) as server:
        with pytest.raises(InvalidArgumentError, match="none; start it with --sample"):
            open_sampler(server.address)


def test_another_plan_is_noticed(graph: Graph, tmp_path: Path) -> None:
    graph.save(tmp_path / "g.aeg")
    server = FeatureServer(
        {}, samples={"g": SampleService(tmp_path / "g.aeg", SamplePlan([3]))}, port=0
    ).start()
    sampler = open_sampler(server.address)
    before = sampler.sample([1], key=1)
    server.close()
    service = SampleService(tmp_path / "g.aeg", SamplePlan([3]))
    with FeatureServer({}, samples={"g": service}, port=server.port):
        same(sampler.sample([1], key=1).subgraph, before.subgraph)
    graph.node_attrs["z"] = np.zeros(NODES, np.float32)
    try:
        graph.save(tmp_path / "h.aeg")
    finally:
        del graph.node_attrs["z"]
    for path, plan, words in (
        (
            "g.aeg",
            SamplePlan([4]),
            r"other samples than when they were opened \(fanouts = \[4\], be",
        ),
        (
            "g.aeg",
            SamplePlan([3], {"replace": True}),
            r"\(replace = True, before None\): open them",
        ),
        ("g.aeg", SamplePlan([3], node_attrs=["x"]), r"\(node_attrs = \['x'\], before None\)"),
        ("h.aeg", SamplePlan([3]), r"\(it samples from another graph\): open them again"),
    ):
        other = SampleService(tmp_path / path, plan)
        with FeatureServer({}, samples={"g": other}, port=server.port):
            with pytest.raises(FileChangedError, match=words):
                sampler.sample([1], key=1)
    with make_live(tmp_path / "g.aegd") as live:
        with FeatureServer({}, samples={"g": SampleService(live, SamplePlan([3]))}, port=0) as one:
            sampler = open_sampler(one.address)
        live.node_attrs["y"] = np.zeros(NODES)
        other = SampleService(live, SamplePlan([3]))
        with FeatureServer({}, samples={"g": other}, port=one.port):
            with pytest.raises(
                FileChangedError, match=r"\(the graph has other attributes, or othe"
            ):
                sampler.sample([1])


@pytest.fixture(scope="module")
def fuzzed(graph: Graph) -> Iterator[tuple[FeatureServer, SampleService]]:
    service = SampleService(graph, SamplePlan([3, 2], {"time_attr": "edge_time"}))
    with FeatureServer({}, samples={"g": service}, port=0) as server:
        yield server, service


@pytest.mark.parametrize("with_tls", [False, True])
def test_a_client_that_does_not_read(graph: Graph, tmp_path: Path, with_tls: bool) -> None:
    """It holds nobody up, and gets all of its answers when it does."""
    service = SampleService(graph, SamplePlan([-1, -1]))
    tls = make_certificate(tmp_path) if with_tls else None
    with FeatureServer({}, samples={"g": service}, port=0, tls=tls) as server:
        ca = f"?ca={tls[0]}" if tls else ""
        with open_sampler(f"{server.address}{ca}") as reader:
            connection = reader._endpoint.take()
            requests = [make_request(service.form, [i], None, i) for i in range(100)]
            for one in requests:
                connection.begin(wire.SAMPLE, wire.pack_number(0), one.pack())
            time.sleep(0.2)  # its buffers are full now
            with open_sampler(f"{server.address}{ca}") as other:
                assert other.sample([1], key=1).key == 1
            for number, one in enumerate(requests, connection._request - 99):
                found = connection.end(wire.SAMPLE, number, None, wire.MAX_BODY)
                assert found == service.answer(one).tobytes()
            connection.close()


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=6), st.integers(0, 2**64 - 1),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=3), st.integers(-9, 9),
)  # fmt: skip
def test_requests_that_are_none(
    fuzzed: Any, seeds: list[int], key: int, flips: list[tuple[int, int]], cut: int
) -> None:
    """A request that was damaged is answered, refused, or ends its connection; nothing else."""
    server, service = fuzzed
    body = bytearray(make_request(service.form, seeds, [5] * len(seeds), key).pack())
    for at, value in flips:
        body[at % len(body)] = value
    body = body[: len(body) + cut] if cut < 0 else body + bytes(cut)
    one = Client(server.port or 0)
    wire.send(one.socket, wire.SAMPLE, 7, wire.pack_number(0), bytes(body))
    op, flags, _, content = one.reply()
    if flags == 0:
        assert op == wire.SAMPLE
        found = service.form.unpack(content)
        assert (found.subgraph.node < NODES).all()  # type: ignore[operator]
    one.socket.close()


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=4), st.integers(0, 40)
)
def test_answers_that_are_none(fuzzed: Any, flips: list[tuple[int, int]], cut: int) -> None:
    _, service = fuzzed
    body = bytearray(service.answer(make_request(service.form, [1, 2], [900, 900], 3)).tobytes())
    for at, value in flips:
        body[at % min(len(body), 200)] = value
    try:
        service.form.unpack(body[: len(body) - cut])
    except FormatError:
        return
    assert cut == 0


def test_a_request_of_too_many_seeds_is_refused(fuzzed: Any) -> None:
    """Also where a client of another make has sent it."""
    _, service = fuzzed
    seeds = np.zeros(MAX_SEEDS + 1, np.int64)
    body = Request(1, (seeds,), (seeds,)).pack()
    with pytest.raises(LimitError, match=f"^{MAX_SEEDS + 1} seeds: a request has {MAX_SEEDS}"):
        Request.unpack(memoryview(body), service.form)


@pytest.mark.parametrize("commit", [None, 0])  # answered by the native core, and by Python
def test_bytes_between_arrays_tell_nothing(commit: int | None) -> None:
    """Answers are made in memory of earlier ones, which may have gone to other clients."""
    graph = Graph.from_edges(4, [0, 1, 2], [1, 2, 3])
    graph.node_attrs["x"] = np.arange(12, dtype=np.uint8).reshape(4, 3)
    service = SampleService(graph, SamplePlan([2]))
    request = make_request(service.form, [3], None, 1)
    fresh = service.answer(request, lambda size: np.zeros(size, np.uint8), commit)
    used = service.answer(request, lambda size: np.full(size, 255, np.uint8), commit)
    assert fresh.tobytes() == used.tobytes()


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(max_size=3), one, max_size=3),
))  # fmt: skip
def test_forms_that_are_none(value: Any) -> None:
    with pytest.raises((ValueError, KeyError, TypeError, IndexError)):
        Form.of(value)


def test_logs_that_are_none(tmp_path: Path, graph: Graph) -> None:
    for text, words in (
        (b"{}\n", "line 1: .* before the first plan"),
        (b"\xff\n", "line 1: .* its byte 0 is no te"),
        (b'{"plan": {"fanouts": [1]}}\n', "line 1: .* it has no 'graph'"), (b"", "it is empty, or"),
        (b'{"graph":nu', "its first line was cut off"), (b"[" * 10**5 + b"\n", "line 1: "),
        (bytes(1000) + b"\n", "line 1: .* no JSON: Expecting value at character 0$"),
        (bytes(range(256)) * 99, "line 1: .* no JSON"), (b"[1]\n", "line 1: .* no object"),
        (b"x\xc3" * 5000 + b"\n", "its byte 1 is no text"),
    ):  # fmt: skip
        (tmp_path / "log").write_bytes(text)
        with pytest.raises(FormatError, match=words) as error:
            check_replay(tmp_path / "log", graph)
        assert len(str(error.value)) < 400 + len(str(tmp_path))
    with pytest.raises(MissingFileError):
        check_replay(tmp_path / "none", graph)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"commit": -1}, "commit = -1 is no integer of 0"), ({"commit": 1.5}, "commit = 1.5"),
        ({"seeds": [1.5]}, r"seeds\[0\] = 1.5"), ({"seeds": [1, True]}, r"seeds\[1\] = True"),
        ({"seeds": [2**63]}, r"seeds\[0\] = 92233"), ({"seeds": 3}, "seeds = 3 is no list"),
        ({"seeds": {"a": [1]}}, "seeds = .* is no list"), ({"key": 2**64}, "key = 1844"),
        ({"key": "7"}, "key = '7'"), ({"key": -1}, "key = -1"), ({"sum": 5}, "sum = 5 is no text"),
        ({"times": [2.5]}, r"times\[0\] = 2.5"), ({"times": [1, 2]}, "it has times of another"),
        ({"times": [[1]]}, r"times\[0\] = \[1\]"),
    ],
)  # fmt: skip
def test_a_line_of_other_values(
    tmp_path: Path, graph: Graph, change: dict[str, Any], words: str
) -> None:
    """Lines that no server has written are refused, and not taken for something like them."""
    log, service = tmp_path / "log", SampleService(graph, SamplePlan([3]))
    line = {"seeds": [1], "times": None, "key": 1, "commit": 0, "sum": "", **change}
    log.write_text(json.dumps({"graph": None, **service.told()}) + "\n" + json.dumps(line) + "\n")
    with pytest.raises(FormatError, match=f"line 2: no line of a log of answers: {words}"):
        check_replay(log, graph)


def test_a_log_of_no_answers(tmp_path: Path, graph: Graph) -> None:
    """A server that nobody asked has no answers; the command does not say that all is as it was."""
    log, path = tmp_path / "log", tmp_path / "g.aeg"
    graph.save(path)
    service = SampleService(path, SamplePlan([3]))
    FeatureServer({}, samples={"g": service}, port=0, log=log).close()
    assert check_replay(log, path) == (0, 0, [], [])
    done = run_replay(log, path)
    assert done.exit_code == 0 and done.stdout == "there are no answers in the log yet\n", done
    log.write_bytes(b"")
    done = run_replay(log, path)
    assert done.exit_code == 1 and "it is empty, or" in done.stderr, done


def test_a_log_that_is_rotated(tmp_path: Path, graph: Graph) -> None:
    """Answers go to the file at the path, which begins as a log does, whatever became of others."""
    log, moved = tmp_path / "log", tmp_path / "log.1"
    service, other = (SampleService(graph, SamplePlan([3])) for _ in range(2))
    other.generation = service.generation

    def create() -> None:
        log.rename(moved)
        log.touch()

    with (
        FeatureServer({}, samples={"g": service}, port=0, log=log) as server,
        FeatureServer({}, samples={"g": other}, port=0, log=log) as beside,
    ):
        samplers = [open_sampler(one.address) for one in (server, beside)]

        def ask() -> None:
            for key, one in enumerate(samplers):
                one.sample([1], key=key)

        def has_both() -> bool:
            keys = [one.request.key for one in read_answers(log)]
            return keys == [0, 1] and check_replay(log, graph) == (2, 1, [], [])

        ask()
        assert has_both()
        for change in (lambda: log.rename(moved), create, log.unlink, lambda: os.truncate(log, 0)):
            change()
            ask()
            assert has_both()
        assert check_replay(moved, graph) == (2, 1, [], [])
        log.unlink()
        log.write_text("diary")
        with pytest.raises(FormatError, match="log is no log of answers, so that nothing is app"):
            ask()
        assert log.read_text() == "diary"
        log.unlink()
        ask()
        assert has_both()


@pytest.mark.parametrize("cut", [1, 5, 60])
def test_a_line_that_was_cut_off(tmp_path: Path, graph: Graph, cut: int) -> None:
    """A server that is started again goes on behind it, and replay leaves it out."""
    log = tmp_path / "log"

    def ask(key: int) -> None:
        service = SampleService(graph, SamplePlan([3]))
        with FeatureServer({}, samples={"g": service}, port=0, log=log) as server:
            open_sampler(server.address).sample([key], key=key)

    ask(1)
    ask(2)
    log.write_bytes(log.read_bytes()[:-cut])
    for key in (3, 4):
        ask(key)
    found = check_replay(log, graph)
    assert found.differences == []
    assert [one.key for one in replay(log, graph)] == [1, *([2] if cut == 1 else []), 3, 4]
    content = log.read_bytes()
    at = content.index(b"\n") + 4  # damage in the middle is no line that was cut off
    log.write_bytes(content[:at] + b"\xff" + content[at:])
    with pytest.raises(FormatError, match="line 2: no line of a log"):
        check_replay(log, graph)


def test_a_full_disk_cuts_a_line_off(
    tmp_path: Path, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, write = tmp_path / "log", os.write
    service = SampleService(graph, SamplePlan([3]))
    with FeatureServer({}, samples={"g": service}, port=0) as server:
        with open_sampler(server.address, log=log) as sampler:
            with monkeypatch.context() as patch:
                patch.setattr(os, "write", lambda file, text: write(file, text[:9]))
                with pytest.raises(StorageError, match="No space left"):
                    sampler.sample([1], key=1)
            sampler.sample([2], key=2)
        assert [one.key for one in replay(log, graph)] == [2]


@pytest.mark.parametrize(
    "content",
    [
        b"important\n", b"important", b"\n", b"\x89PNG\r\n\x1a\n", b'{"plan":1}\n', b"[]\n",
        b'{"graph":{"nodes":[]}}', b'{"seeds":[1],"times":null,"key":1,"commit":0,"sum":""}\n',
    ],
)  # fmt: skip
def test_a_log_over_another_file(tmp_path: Path, graph: Graph, content: bytes) -> None:
    """The file stays as it is, whoever was to write the log."""
    log = tmp_path / "mine"
    log.write_bytes(content)
    service = SampleService(graph, SamplePlan([3]))
    with pytest.raises(FormatError, match="mine is no log of answers"):
        FeatureServer({}, samples={"g": service}, port=0, log=log)
    with FeatureServer({}, samples={"g": service}, port=0) as server:
        with pytest.raises(FormatError, match="mine is no log of answers"):
            open_sampler(server.address, log=log)
    assert log.read_bytes() == content


def test_a_log_of_two_plans(tmp_path: Path, graph: Graph) -> None:
    """Two may append at once if they answer alike; another plan waits until they have ended."""
    path, log = tmp_path / "g.aeg", tmp_path / "log"
    graph.save(path)

    def server(fanout: int) -> FeatureServer:
        service = SampleService(path, SamplePlan([fanout]))
        return FeatureServer({}, samples={"g": service}, port=0, log=log)

    words = rf"log is being written by process {os.getpid()}, which answers by another plan"
    with server(3) as one, server(3) as two:
        for number, found in enumerate((one, two, one, two)):
            with open_sampler(found.address) as sampler:
                sampler.sample([number], key=number)
        size = log.stat().st_size
        with pytest.raises(UnsupportedError, match=words):
            server(4)
        with FeatureServer({}, samples={"g": SampleService(path, SamplePlan([4]))}, port=0) as four:
            with pytest.raises(UnsupportedError, match=words):
                open_sampler(four.address, log=log)
        assert log.stat().st_size == size
        one.close()
        with pytest.raises(UnsupportedError, match=words):
            server(4)
    with server(4) as found:
        with open_sampler(found.address) as sampler:
            sampler.sample([4], key=4)
        with pytest.raises(UnsupportedError, match=words):
            one.start()
    with one, open_sampler(one.address) as sampler:  # it logs on where it is started again
        sampler.sample([5], key=5)
    assert [one.key for one in replay(log, path)] == [0, 1, 2, 3, 4, 5]


def test_many_begin_a_log_at_once(tmp_path: Path, graph: Graph) -> None:
    """Answers follow their own plan, whoever came first."""
    path, log = tmp_path / "g.aeg", tmp_path / "log"
    graph.save(path)
    services = [SampleService(path, SamplePlan([fanout])) for fanout in (2, 3)]

    def begin(service: SampleService, key: int) -> None:
        for _ in range(20):
            with suppress(UnsupportedError):
                found = AnswerLog(log, service.told())
                request = make_request(service.form, [key], None, key)
                found.add(request, 0, service.answer(request))
                found.close()

    run_together(*(partial(begin, services[key % 2], key) for key in range(6)))
    found = check_replay(log, path)
    assert found.answers > 0 and found.differences == []


@pytest.mark.parametrize("length", [1, 9, 40])
def test_a_first_line_that_was_cut_off(tmp_path: Path, graph: Graph, length: int) -> None:
    log = tmp_path / "log"
    service = SampleService(graph, SamplePlan([3]))
    FeatureServer({}, samples={"g": service}, port=0, log=log).close()
    log.write_bytes(log.read_bytes()[:length])
    for key in (1, 2):
        with FeatureServer({}, samples={"g": service}, port=0, log=log) as server:
            open_sampler(server.address).sample([key], key=key)
    assert [one.key for one in replay(log, graph)] == [1, 2]


def test_answers_older_than_a_merge(tmp_path: Path) -> None:
    """They are reported, each by its line, and the others are made again."""
    path, log = tmp_path / "g.aegd", tmp_path / "log"
    live = make_live(path)
    service = SampleService(live, SamplePlan([5, 4]))
    with FeatureServer({}, samples={"g": service}, port=0, log=log) as server:
        with open_sampler(server.address) as sampler:
            for key in (1, 2):
                sampler.sample([3], key=key)
            change(live, np.random.default_rng(3), 99)
            live.merge()
            change(live, np.random.default_rng(4), 100)
            sampler.sample([3], key=3)
    live.close()
    seen: list[tuple[int, type]] = []
    found = replay(log, path, missing=lambda line, error: seen.append((line, type(error))))
    assert [one.key for one in found] == [3]
    assert seen == [(2, OutOfRangeError), (3, OutOfRangeError)]
    with pytest.warns(UserWarning, match="lines 2, 3: not made again: lsn = ") as warned:
        assert [one.key for one in replay(log, path)] == [3]
    assert len(warned) == 1 and warned[0].filename == __file__
    assert len(check_replay(log, path).missing) == 2
    result = run_replay(log, path)
    assert result.exit_code == 1 and "line 2: lsn" in result.stdout
    assert "3 answers from 2 commits: 2 cannot be made again" in result.stdout
    first, *rest = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(first + rest[0] * 30 + rest[-1])
    with pytest.warns(UserWarning, match="lines 2, 3, .* 11 and 20 more: not made") as warned:
        assert [one.key for one in replay(log, path)] == [3]
    assert len(warned) == 1
    result = run_replay(log, path)
    assert "and 10 more\n31 answers from 2 commits: 30 cannot be made again" in result.stdout
    log.write_bytes(b"".join((first, *rest)))
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:3]))
    with pytest.raises(OutOfRangeError, match="merging gave up"):
        list(replay(log, path, missing=lambda *_: None))


def test_a_sampler_that_was_closed(tmp_path: Path, graph: Graph) -> None:
    """It asks nothing of the server any more."""
    service = SampleService(graph, SamplePlan([3]))
    with FeatureServer({}, samples={"g": service}, port=0) as server:
        for log in (None, tmp_path / "log"):
            sampler = open_sampler(server.address, log=log)
            sampler.sample([1])
            for _ in range(2):
                sampler.close()
                with pytest.raises(ClosedError, match="was closed: open_sampler"):
                    sampler.sample([1])
        assert server.stats().samples == 2
