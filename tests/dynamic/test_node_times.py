"""Times of nodes in live graphs: samples are those of a graph that was built with them."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import assert_same_subgraph, examples

from aethergraph import (
    DynamicGraph,
    DynamicHeteroGraph,
    Graph,
    HeteroGraph,
    HeteroNeighborSampler,
    NeighborSampler,
    errors,
)
from aethergraph.dynamic import History
from aethergraph.sampling import ContextSampler
from aethergraph.testing import LeakError, check_no_leak, oracle

pytestmark = pytest.mark.any_python

LIVE: dict[str, Any] = {"arena_mb": 16, "huge_pages": False, "order": "time"}
BY_NODE: dict[str, Any] = {"time_attr": "node_time"}
#: Ways to draw in time.
WAYS: tuple[dict[str, Any], ...] = (
    {},
    {"temporal_strategy": "last"},
    {"strict": True, "window": 6},
    {"replace": True, "window": 3, "temporal_strategy": "last"},
    {"weight_attr": "edge_weight"},
)
COUNT, EDGES = 60, 900


class Script:
    """Nodes with times and edges, drawn once, to be put into graphs in one or many steps."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.time = rng.integers(-9, 30, COUNT)
        self.src, self.dst = rng.integers(0, COUNT, (2, EDGES))
        self.weight = rng.integers(0, 4, EDGES).astype(np.float32)

    def built(self, rows: Any = slice(None), **options: Any) -> Graph:
        """Return the static graph of some edges."""
        return Graph.from_edges(
            COUNT, self.src[rows], self.dst[rows], node_time=self.time,
            edge_weight=self.weight[rows], layout="both", keep_order=True, **options,
        )  # fmt: skip

    def insert(self, graph: DynamicGraph, first: int, last: int) -> None:
        """Insert edges from one number to another."""
        rows = slice(first, last)
        graph.insert_edges(self.src[rows], self.dst[rows], weight=self.weight[rows])


def opened(path: Path, **options: Any) -> DynamicGraph:
    return DynamicGraph.open(path, arena_mb=16, huge_pages=False, durability="none", **options)


def made(path: Path) -> DynamicGraph:
    return opened(path, num_vertices=0, order="time", node_time="int64", edge_weight="float32")


def check(script: Script, *graphs: Any, twin: Graph | None = None) -> None:
    """Raise unless one key draws the same edges from graphs as from the static one."""
    static = script.built() if twin is None else twin
    seeds = np.arange(0, static.num_nodes, 2)
    given_time = np.random.default_rng(1).integers(-10, 31, len(seeds))
    for key, way in enumerate(WAYS):
        for time in (None, given_time):
            wanted = NeighborSampler(static, [4, 3], **BY_NODE, **way).sample(
                seeds, key, seed_time=time
            )
            for graph in graphs:
                sampler = NeighborSampler(graph, [4, 3], **BY_NODE, **way)
                found = sampler.sample(seeds, key, seed_time=time)
                for name in ("node", "row", "col", "batch"):
                    assert getattr(found, name).tolist() == getattr(wanted, name).tolist()


# ---- drawing -------------------------------------------------------------------------------------


@examples(60)
@given(
    times=st.lists(st.integers(-3, 3), min_size=1, max_size=12),
    seed=st.integers(0, 1000),
    key=st.integers(0, 2**64 - 1),
    fanouts=st.lists(st.integers(-1, 4), min_size=1, max_size=2),
    last=st.booleans(),
    strict=st.booleans(),
    window=st.one_of(st.none(), st.integers(0, 3)),
)
def test_equal_to_the_oracle_after_any_script(
    times: list[int], seed: int, key: int, fanouts: list[int], last: bool, strict: bool,
    window: int | None,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    graph = DynamicGraph(0, node_time="int64", **LIVE)
    for begin in range(0, len(times), 5):  # nodes and edges by turns
        graph.add_nodes(len(times[begin : begin + 5]), time=times[begin : begin + 5])
        for _ in range(3):
            graph.insert_edges(*rng.integers(0, graph.num_nodes, (2, 20)))
            graph.insert_edge(*(int(node) for node in rng.integers(0, graph.num_nodes, 2)))
            graph.delete_edges(*rng.integers(0, graph.num_nodes, (2, 3)))
    node_time = np.array(times)
    seeds = rng.integers(0, len(times), 6)
    until = node_time[seeds] - strict
    lists = graph.snapshot().topology("csc")
    ids, edges = lists.neighbors(np.arange(len(times)), with_edges=True)
    indptr = np.append(0, np.cumsum(lists.degrees(None)))
    expected = oracle.sample(
        indptr, ids, seeds, fanouts, key, edge_ids=edges, disjoint=True, latest=last,
        since=None if window is None else node_time[seeds] - window, until=until,
        node_time=node_time,
    )  # fmt: skip
    sampler = NeighborSampler(
        graph, fanouts, strict=strict, window=window,
        temporal_strategy="last" if last else "uniform", **BY_NODE,
    )  # fmt: skip
    found = sampler.sample(seeds, key)
    assert_same_subgraph(found, expected)
    assert found.batch is not None
    assert (node_time[found.node[found.row]] <= until[found.batch[found.col]]).all()


def test_as_a_graph_that_was_built_with_the_times() -> None:
    script = Script()
    graph = DynamicGraph(0, node_time="int64", edge_weight="float32", **LIVE)
    with graph.transaction():
        assert graph.add_nodes(20, time=script.time[:20]).tolist() == list(range(20))
        graph.add_nodes(COUNT - 20, time=script.time[20:])
        script.insert(graph, 0, 500)
    script.insert(graph, 500, EDGES)
    check(script, graph, graph.snapshot(), graph.to_graph(), DynamicGraph.from_graph(graph))
    before = graph.snapshot()
    graph.insert_edges([0] * 50, [1] * 50, weight=[1] * 50)
    graph.add_nodes(1, time=[3])
    check(script, before)
    assert graph.node_values["node_time"].gather([5, COUNT]).tolist() == [script.time[5], 3]
    assert before.node_values["node_time"].shape == (COUNT,)
    assert graph.node_time is not None and graph.node_time.tolist() == [*script.time, 3]
    assert "node_time" not in graph.node_attrs
    assert before.to_graph().node_time.tolist() == script.time.tolist()  # type: ignore[union-attr]


def test_datetimes_keep_their_unit(tmp_path: Path) -> None:
    days = np.array(["2024-01-03", "2024-01-01", "2024-01-02"], "datetime64[D]")
    graph = DynamicGraph(0, node_time="datetime64[s]", **LIVE)
    graph.add_nodes(3, time=days)
    graph.insert_edges([0, 1, 2], [2, 2, 2])
    sub = NeighborSampler(graph, [-1], **BY_NODE).sample([2], 0)
    assert sorted(sub.node[sub.row].tolist()) == [1, 2]  # seeds have the time of the seed
    late = NeighborSampler(graph, [-1], **BY_NODE).sample([2], 0, seed_time=days[:1])
    assert len(late.row) == 3
    for copy in (graph, graph.snapshot(), graph.to_graph()):
        assert copy.time_unit == "s"
    graph.save(tmp_path / "g.aeg")
    assert Graph.load(tmp_path / "g.aeg").time_unit == "s"
    with pytest.raises(errors.InvalidArgumentError, match=r"time\[0\] cannot be told exactly in"):
        graph.add_nodes(1, time=np.array(["2024-01-01T00:00:00.5"], "datetime64[ms]"))


def test_times_of_edges_go_first() -> None:
    graph = DynamicGraph(0, node_time="int64", edge_time="int64", **LIVE)
    graph.add_nodes(3, time=[5, 1, 9])
    graph.insert_edges([0, 1], [2, 2], time=[1, 2])
    assert graph.sorted_by == {("csc", "edge_time"), ("csr", "edge_time")}
    sub = NeighborSampler(graph, [-1], time_attr="edge_time").sample([2], 0, seed_time=[1])
    assert sub.node.tolist() == [2, 0]
    with pytest.raises(
        errors.InvalidArgumentError,
        match="lists of this live graph are in the order of the edges' own times: give time_attr='",
    ):
        NeighborSampler(graph, [-1], **BY_NODE)
    with pytest.raises(errors.InvalidArgumentError, match="in-edges of node 2 are not sorted by"):
        NeighborSampler(graph.snapshot(), [-1], **BY_NODE)
    plain = DynamicGraph(0, node_time="int64", **LIVE)
    with pytest.raises(errors.InvalidArgumentError, match="time_attr = 'edge_time' is no node or"):
        NeighborSampler(plain, [-1], time_attr="edge_time")
    plain.node_attrs["stamp"] = np.zeros(0, np.int64)
    with pytest.raises(errors.InvalidArgumentError, match="times of a live graph are 'node_time'"):
        NeighborSampler(plain, [-1], time_attr="stamp")
    graph.node_attrs["stamp"] = np.zeros(3, np.int64)
    with pytest.raises(errors.InvalidArgumentError, match="times of a live graph are 'edge_time'"):
        NeighborSampler(graph, [-1], time_attr="stamp")


# ---- in a directory ------------------------------------------------------------------------------


def test_logged_merged_and_opened_again(tmp_path: Path) -> None:
    script = Script()
    graph = made(tmp_path / "g")
    graph.add_nodes(COUNT - 10, time=script.time[: COUNT - 10])
    inner = (script.src < COUNT - 10) & (script.dst < COUNT - 10)
    order = np.argsort(~inner, kind="stable")  # those of the last nodes come last
    script.src, script.dst, script.weight = (
        array[order] for array in (script.src, script.dst, script.weight)
    )
    first = int(inner.sum())
    script.insert(graph, 0, first // 2)
    graph.close()
    graph = opened(tmp_path / "g")  # of the log alone
    script.insert(graph, first // 2, first)
    lsn = graph.lsn
    reader = DynamicGraph.attach(tmp_path / "g")
    assert reader.num_nodes == COUNT - 10
    with History(tmp_path / "g", 16) as history:
        then = history.at(lsn)
        assert then.node_values["node_time"].gather([3]).tolist() == [script.time[3]]
        twin = then.to_graph()
        assert twin.node_time.tolist() == script.time[: COUNT - 10].tolist()
        check(script, then, reader, graph, twin=twin)
    path = graph.merge()
    graph.add_nodes(10, time=script.time[COUNT - 10 :])
    script.insert(graph, first, EDGES)
    check(script, graph, reader)
    graph.close()
    graph = opened(tmp_path / "g", node_time="int64")  # of base and log
    reader = DynamicGraph.attach(tmp_path / "g")
    check(script, graph, reader)
    assert reader.node_values["node_time"].gather(range(COUNT)).tolist() == script.time.tolist()
    graph.merge()
    check(script, graph, reader)
    graph.close()
    merged = Graph.load(path)
    merged.verify()
    assert merged.node_time is not None and merged.edge_time is None
    assert merged.node_time.tolist() == script.time[: COUNT - 10].tolist()
    check(script, Graph.load(tmp_path / "g" / "gen-000002.aeg"))


def test_saved_as_its_static_copy(tmp_path: Path) -> None:
    script = Script()
    graph = DynamicGraph(0, node_time="datetime64[s]", edge_weight="float32", **LIVE)
    graph.add_nodes(COUNT, time=script.time)
    script.insert(graph, 0, EDGES)
    graph.save(tmp_path / "a.aeg")
    graph.to_graph().save(tmp_path / "b.aeg")
    assert (tmp_path / "a.aeg").read_bytes() == (tmp_path / "b.aeg").read_bytes()


@pytest.mark.parametrize("storage", ["mmap", "memory", "uring"])
@pytest.mark.parametrize("layout", ["csc", "both"])
def test_over_a_file(tmp_path: Path, storage: Any, layout: Any) -> None:
    script = Script()
    half = Graph.from_edges(
        COUNT, script.src[:500], script.dst[:500], node_time=script.time,
        edge_weight=script.weight[:500], layout=layout,
    )  # fmt: skip
    half.save(tmp_path / "base.aeg")
    graph = opened(tmp_path / "g", base=tmp_path / "base.aeg", storage=storage)
    check(script, graph, graph.snapshot(), twin=half)
    script.insert(graph, 500, 700)
    script.insert(graph, 700, EDGES)
    reader = DynamicGraph.attach(tmp_path / "g")
    copy = pickle.loads(pickle.dumps(graph))
    check(script, graph, reader, copy, graph.to_graph())
    graph.add_nodes(1, time=[77])
    for one in (graph, reader, copy):
        assert one.node_values["node_time"].gather([3, COUNT]).tolist() == [script.time[3], 77]
    graph.close()
    graph = opened(tmp_path / "g", storage=storage)
    graph.merge()
    check(script, graph, twin=graph.to_graph())
    graph.delete_edges(script.src[:200], script.dst[:200])
    check(script, graph, twin=graph.to_graph())
    graph.close()


def test_long_lists_of_a_file(tmp_path: Path) -> None:
    """Lists that are stretches of the file, with edges inserted into them and deleted."""
    rng = np.random.default_rng(2)
    count = 3000
    time = rng.integers(0, 500, count)
    src, dst = rng.integers(0, count, 9000), rng.integers(0, 2, 9000)
    Graph.from_edges(count, src, dst, node_time=time, layout="both").save(tmp_path / "base.aeg")
    options: dict[str, Any] = {"storage": "uring", "memory_budget": "32M"}
    graph = opened(tmp_path / "g", base=tmp_path / "base.aeg", **options)
    for _ in range(4):
        new = rng.integers(0, count, 300)
        graph.insert_edges(new, new % 2)
        graph.insert_edges(new % 2, new)
        graph.delete_edges(rng.integers(0, count, 50), rng.integers(0, 2, 50))
    for node in (0, 1):
        assert (np.diff(time[graph.in_neighbors(node)]) >= 0).all()
    twin = graph.to_graph()
    for key, way in enumerate(WAYS[:4]):
        seeds, limits = np.array([0, 1, 2]), np.array([250, 120, 499])
        wanted = NeighborSampler(twin, [40, 5], **BY_NODE, **way).sample(
            seeds, key, seed_time=limits
        )
        found = NeighborSampler(graph, [40, 5], **BY_NODE, **way).sample(
            seeds, key, seed_time=limits
        )
        assert found.node.tolist() == wanted.node.tolist()
    graph.close()


def test_another_process_reads_them(tmp_path: Path) -> None:
    graph = made(tmp_path / "g")
    graph.add_nodes(3, time=[7, 2, 5])
    graph.insert_edges([0, 1], [2, 2], weight=[1, 1])
    text = (
        "import sys\nfrom aethergraph import DynamicGraph, NeighborSampler\n"
        "graph = DynamicGraph.attach(sys.argv[1])\n"
        "sub = NeighborSampler(graph, [-1], time_attr='node_time').sample([2], 0)\n"
        "print(sub.node.tolist(), graph.node_values['node_time'].gather([0, 1, 2]).tolist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", text, str(tmp_path / "g")], check=True, capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.stdout == "[2, 1] [7, 2, 5]\n"
    graph.close()


def test_a_writer_that_is_killed(tmp_path: Path) -> None:
    text = (
        "import os, signal, sys\nimport numpy as np\nfrom aethergraph import DynamicGraph\n"
        "graph = DynamicGraph.open(sys.argv[1], 0, 16, order='time', node_time='int64')\n"
        "graph.add_nodes(3, time=[7, 2, 5])\n"
        "graph.insert_edges([0, 1, 2], [2, 2, 2])\n"
        "graph.merge()\n"
        "with graph.transaction():\n"
        "    (node,) = graph.add_nodes(1, time=[4])\n"
        "    graph.insert_edge(int(node), 2)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", text, str(tmp_path / "g")], check=False)
    assert done.returncode == -9
    graph = opened(tmp_path / "g")
    assert graph.in_neighbors(2).tolist() == [1, 3, 2, 0]
    assert graph.node_values["node_time"].gather(range(4)).tolist() == [7, 2, 5, 4]
    assert sorted(NeighborSampler(graph, [-1], **BY_NODE).sample([2], 0).node) == [1, 2, 3]
    graph.close()


def test_keys_come_with_times(tmp_path: Path) -> None:
    graph = DynamicGraph.open(tmp_path / "g", ids="str", node_time="int64", **LIVE)
    ids = graph.ids.add(["ann", "bob"], time=[4, 2])
    assert graph.ids.add(["bob", "cy", "cy"], time=[2, 1, 1]).tolist() == [1, 2, 2]
    for keys, time, message in (
        (["bob"], [99], r"time\[0\] = 99, but the node of this key has the time 2, and nodes keep"),
        (["dan", "ann", "dan"], [7, 4, 2], r"time\[2\] = 2, but the node .* has the time 7, and"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=message):
            graph.ids.add(keys, time=time)
    assert graph.ids.lookup(["dan"], missing="mark").tolist() == [-1]
    days = np.array(["2024-01-03", "2024-01-01"], "datetime64[D]")
    dated = opened(tmp_path / "dated", num_vertices=0, ids="str", order="time", node_time="M8[s]")
    dated.ids.add(["ann"], time=days[:1])
    with pytest.raises(
        errors.InvalidArgumentError, match=r"= 2024-01-01T00:.* time 2024-01-03T00:"
    ):
        dated.ids.add(["ann"], time=days[1:])
    dated.close()
    assert graph.node_values["node_time"].gather([0, 1, 2]).tolist() == [4, 2, 1]
    graph.insert_edges(ids, [2, 2])
    with pytest.raises(errors.InvalidArgumentError, match="nodes have times: give time= with 1"):
        graph.ids.add(["dan"])
    graph.close()
    graph = DynamicGraph.open(tmp_path / "g", arena_mb=16)
    graph.merge()
    assert graph.ids.keys([2]) == ["cy"]
    graph.close()


# ---- many types ----------------------------------------------------------------------------------

VOTES, FOLLOWS = ("user", "votes", "post"), ("user", "follows", "user")
WRITES = ("post", "by", "user")


def test_many_types(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    counts = {"user": 30, "post": 50}
    post_time = rng.integers(0, 40, 50)
    edges = {
        VOTES: (rng.integers(0, 30, 300), rng.integers(0, 50, 300)),
        FOLLOWS: (rng.integers(0, 30, 200), rng.integers(0, 30, 200)),
        WRITES: (rng.integers(0, 50, 200), rng.integers(0, 30, 200)),
    }
    static = HeteroGraph.from_edges(edges, counts, node_time={"post": post_time})
    options: dict[str, Any] = {"node_time": {"post": "int64"}, **LIVE}
    begin = {"user": 30, "post": 0}
    graph = DynamicHeteroGraph.open(tmp_path / "g", begin, list(edges), **options)
    graph["post"].add(50, time=post_time)
    for half in (slice(0, 100), slice(100, 300)):
        for kind, (src, dst) in edges.items():
            graph[kind].insert(src[half], dst[half])
    static.save(tmp_path / "base.aeg")
    over = DynamicHeteroGraph.open(tmp_path / "o", base=tmp_path / "base.aeg", arena_mb=16)
    reader = DynamicHeteroGraph.attach(tmp_path / "g")
    graphs = [graph, reader, graph.snapshot(), graph.to_graph(), over]

    def same(graphs: list[Any]) -> None:
        seeds = {"user": np.arange(10), "post": np.arange(20)}
        time = {"user": rng.integers(0, 41, 10), "post": post_time[:20]}
        for key, way in enumerate(WAYS[:3]):
            wanted, *found = (
                HeteroNeighborSampler(one, [4, 3], **BY_NODE, **way).sample(
                    seeds, key, seed_time=time
                )
                for one in (static, *graphs)
            )
            for sub in found:
                for name in ("user", "post"):
                    assert sub.node[name].tolist() == wanted.node[name].tolist()

    same(graphs)
    graph.merge()
    graph.close()
    again = DynamicHeteroGraph.open(tmp_path / "g", arena_mb=16, node_time={"post": "int64"})
    same([again, over])
    assert again["post"].node_values["node_time"].gather([7]).tolist() == [post_time[7]]
    assert again["user"].node_values == {}
    again.close()
    over.close()


def test_contexts_and_proof() -> None:
    rng = np.random.default_rng(4)
    bought = ("order", "by", "user")
    counts = {"order": 80, "user": 12}
    src, dst = np.arange(80), rng.integers(0, 12, 80)
    time = rng.integers(0, 30, 80)
    edges: dict[Any, Any] = {bought: (src, dst), ("user", "rev_by", "order"): (dst, src)}
    static = HeteroGraph.from_edges(edges, counts, node_time={"order": time})
    live = DynamicHeteroGraph(
        {"order": 0, "user": 12}, list(edges), node_time={"order": "int64"}, layout="csc",
        **{**LIVE, "arena_mb": 16},
    )  # fmt: skip
    live["order"].add(80, time=time)
    for kind, ends in edges.items():
        live[kind].insert(*ends)
    options: dict[str, Any] = {"budget": 12, "fanout": 4, **BY_NODE}
    wanted, found = (
        ContextSampler(graph, **options).sample({"order": np.arange(40)}, key=3)
        for graph in (static, live)
    )
    assert found.node.tolist() == wanted.node.tolist() and (wanted.length > 3).any()
    sampler = HeteroNeighborSampler(live, [4, 4], **BY_NODE)
    seeds = {"order": np.arange(20)}
    sub = sampler.sample(seeds, 1)
    assert check_no_leak(live, sub).nodes > 20
    with pytest.raises(LeakError, match=r"^node .* of 'order' is of time"):
        check_no_leak(live, sub, seed_time=time[:20] - 1)
    one_way = DynamicHeteroGraph(
        {"order": 0, "user": 1}, [("user", "has", "order")], node_time={"order": "int64"}, **LIVE
    )
    with pytest.raises(
        errors.InvalidArgumentError,
        match=r"the out-edges of this live graph are in no order of 'node_time', as .*the reverse",
    ):
        ContextSampler(one_way, **options)


# ---- what is refused -----------------------------------------------------------------------------


def test_what_is_refused_by_name(tmp_path: Path) -> None:
    for options, message in (
        ({"node_time": "float64"}, "node_time = 'float64' is neither 'int64' nor a datetime64"),
        ({"node_time": "int64", "order": "id"}, "node_time= with order='id': .* use order='time'"),
        (
            {"node_time": "int64", "num_vertices": 3},
            "3 nodes would have no times: with node_time= a graph begins without nodes",
        ),
        (
            {"node_time": "int64", "edge_time": "datetime64[s]"},
            r"times of nodes and edges are datetime64\[s\] and int64: give them in one unit, by",
        ),
    ):
        arguments = {"num_vertices": 0, **LIVE, **options}
        with pytest.raises(errors.InvalidArgumentError, match=message):
            DynamicGraph(**arguments)
        with pytest.raises(errors.InvalidArgumentError, match=message):
            DynamicGraph.open(tmp_path / "g", **arguments)
    with pytest.raises(errors.MissingNameError, match="node_time: no node type 'b'; there are: "):
        DynamicHeteroGraph({"a": 0}, [("a", "x", "a")], node_time={"b": "int64"}, **LIVE)
    with pytest.raises(errors.InvalidArgumentError, match="node_time goes by node type"):
        DynamicHeteroGraph({"a": 0}, [("a", "x", "a")], node_time="int64", **LIVE)  # type: ignore[arg-type]
    graph = made(tmp_path / "g")
    with pytest.raises(errors.InvalidArgumentError, match="nodes have times: give time= with 2"):
        graph.add_nodes(2)
    with pytest.raises(errors.InvalidArgumentError, match="time must hold integers or datetimes"):
        graph.add_nodes(1, time=[0.5])
    with pytest.raises(errors.InvalidArgumentError, match="time has 3 rows, but the number"):
        graph.add_nodes(2, time=[1, 2, 3])
    assert graph.num_nodes == 0
    graph.add_nodes(2, time=[5, 6])
    with pytest.raises(errors.OutOfRangeError, match=r"src\[1\] = 2"):
        graph.insert_edges([0, 2], [1, 1], weight=[1, 1])
    with pytest.raises(errors.InvalidArgumentError, match="take the times of their sources"):
        graph.insert_edges([0], [1], time=[3], weight=[1])
    copy = graph.to_graph()
    for values in (graph.node_values, graph.edge_values, copy.node_values, copy.edge_values):
        with pytest.raises(TypeError, match="does not support item assignment"):
            values["node_time"] = np.zeros(2)  # type: ignore[index]
    with pytest.raises(errors.UnsupportedError, match="nodes keep the times that they were added"):
        graph.update_nodes([0], time=[1])
    for name in ("time", "node_time"):
        with pytest.raises(errors.InvalidArgumentError, match="nodes have times, which add_nodes"):
            graph.node_attrs[name] = np.zeros(2)
    graph.close()
    for value in ("datetime64[s]", "float32"):
        with pytest.raises(errors.InvalidArgumentError, match="node_time"):
            opened(tmp_path / "g", node_time=value)
    plain = DynamicGraph(2, **LIVE)
    with pytest.raises(
        errors.InvalidArgumentError, match=r"'time', and nodes have no .* node_time="
    ):
        plain.add_nodes(1, time=[3])
    plain.node_attrs["time"] = np.array([1, 2])  # an attribute like any other
    plain.add_nodes(1, time=[3])
    plain.update_nodes([0], time=[9])
    assert plain.node_attrs["time"].gather([0, 2]).tolist() == [9, 3]


def test_bases_that_do_not_do(tmp_path: Path) -> None:
    base = tmp_path / "base.aeg"
    Graph.from_edges(3, [0, 1], [2, 2], node_time=[0.5, 1, 2]).save(base)
    with pytest.raises(errors.UnsupportedError, match=r"node_time of dtype float64: .* keep int64"):
        opened(tmp_path / "g", base=base)
    Graph.from_edges(3, [0, 1], [2, 2], node_time=[4, 5, 6]).save(base)
    with pytest.raises(errors.InvalidArgumentError, match=r"has times of nodes: .*order='time'"):
        opened(tmp_path / "g", base=base, order="id")
    with pytest.raises(
        errors.InvalidArgumentError, match=r"made with node_time = \{'node': 'int64'"
    ):
        opened(tmp_path / "g", base=base, node_time="datetime64[s]")
    assert not (tmp_path / "g").exists()
    graph = opened(tmp_path / "g", base=base)
    graph.merge()
    graph.close()
    Graph.from_edges(3, [0, 1], [2, 2]).save(tmp_path / "other.aeg")
    (tmp_path / "other.aeg").replace(tmp_path / "g" / "gen-000001.aeg")
    with pytest.raises(errors.AetherError):
        opened(tmp_path / "g")


def test_lists_of_a_base_in_another_order(tmp_path: Path) -> None:
    src, dst = [0, 1, 2], [0, 0, 0]
    graph = Graph.from_edges(3, src, dst, edge_time=[1, 2, 3], node_time=[9, 5, 7])
    graph._live().edge_time = None  # a file of another program
    graph.save(tmp_path / "base.aeg")
    with pytest.raises(
        errors.InvalidArgumentError,
        match="the in-edges of node 0 are not sorted by the times of their sources: build the",
    ):
        opened(tmp_path / "g", base=tmp_path / "base.aeg")
