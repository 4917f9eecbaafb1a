"""Samples of a live graph that a server holds a commit of are those of a snapshot here."""

from __future__ import annotations

import itertools
import os
import pickle
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.processes import talking
from support.serving import Client, address_in, served
from support.threads import WAIT, comes, repeating

from aethergraph import (
    DynamicGraph,
    DynamicHeteroGraph,
    HeteroNeighborSampler,
    LiveFeatureTable,
    NeighborSampler,
    RandomWalker,
    SubgraphLoader,
)
from aethergraph._native.asked import AskedLists
from aethergraph.errors import (
    CancelledError,
    ClosedError,
    InvalidArgumentError,
    LayoutError,
    LimitError,
    OutOfRangeError,
    ServerTimeoutError,
    SnapshotExpiredError,
    StorageError,
    UnsupportedError,
)
from aethergraph.remote import (
    FeatureServer,
    SamplePlan,
    SampleService,
    open_graph,
    open_source,
    open_tables,
    wire,
)
from aethergraph.remote.endpoint import Connection
from aethergraph.remote.leased import _Facts

pytestmark = pytest.mark.any_python

NODES, EDGES = 400, 6000
USER, FILM = "user", "film"
RATES, LIKED = (USER, "rates", FILM), (FILM, "liked", USER)


def make(path: Path | None = None, **options: Any) -> DynamicGraph:
    """Make a live graph with a hub, rows, and deleted edges; by time unless told otherwise."""
    options = {"order": "time", "edge_time": "int64", "edge_weight": "float32", **options}
    if path is None:
        graph = DynamicGraph(NODES, 64, **options)
    else:
        graph = DynamicGraph.open(path, NODES, 64, durability="none", **options)
    rng = np.random.default_rng(0)
    graph.node_attrs["x"] = rng.random((NODES, 3), dtype=np.float32)
    insert(graph, rng, EDGES, 0)
    graph.delete_edges([1, 2, 3], [7, 7, 7])
    return graph


def insert(graph: DynamicGraph, rng: Any, count: int, at: int) -> None:
    src, dst = rng.integers(0, NODES, (2, count))
    dst[: count // 10] = 7
    values = {"time": np.full(count, at), "weight": rng.random(count, dtype=np.float32)}
    graph.insert_edges(src, dst, **(values if graph.order == "time" else {}))


@contextmanager
def changing(graph: DynamicGraph) -> Iterator[None]:
    """Insert and delete edges and change rows, in another thread."""
    rng, numbers = np.random.default_rng(5), itertools.count(1)

    def write() -> None:
        insert(graph, rng, 200, next(numbers))
        some = rng.integers(0, 3000, 40)
        graph.delete_edges(*(ends[some] for ends in graph.edge_list()[:2]))
        graph.update_nodes([7], x=rng.random((1, 3), dtype=np.float32))
        time.sleep(0.01)

    with repeating(write):
        yield


def same(mine: Any, its: Any) -> None:
    for name in ("node", "row", "col", "edge"):
        one, other = getattr(mine, name), getattr(its, name)
        if isinstance(one, dict):
            assert all(np.array_equal(one[key], other[key]) for key in one), name
        else:
            assert np.array_equal(one, other), name


OPTIONS: list[dict[str, Any]] = [
    {},
    {"replace": True},
    {"disjoint": True},
    {"weight_attr": "edge_weight"},
    {"time_attr": "edge_time", "seed_time": 2},
    {"time_attr": "edge_time", "temporal_strategy": "last", "seed_time": 3},
    {"num_threads": 2},
]


@pytest.mark.parametrize(
    ("options", "over_base"), [*((options, True) for options in OPTIONS), ({}, False)]
)
def test_samples_beside_a_writer(tmp_path: Path, options: dict[str, Any], over_base: bool) -> None:
    live = make(tmp_path / "g.aegd")
    if over_base:
        live.merge()
        insert(live, np.random.default_rng(8), 300, 2)
        live.delete_edges(*(ends[:50] for ends in live.edge_list()[:2]))
    options = dict(options)
    at = options.pop("seed_time", None)
    with FeatureServer({}, graphs={"g": live}, port=0) as server:
        there, here = open_graph(server.address), live.snapshot()
        assert there.lsn == here.lsn
        with changing(live):
            assert comes(lambda: live.lsn > here.lsn + 3)
            samplers = [NeighborSampler(one, [8, 5], **options) for one in (there, here)]
            for key in range(6):
                seeds = np.random.default_rng(key).permutation(NODES)[:40]
                times = {} if at is None else {"seed_time": np.full(40, at)}
                same(*(one.sample(seeds, key, **times) for one in samplers))
        assert live.lsn > here.lsn + 3
        x = [one.node_attrs["x"].gather([7, 8]) for one in (there, here)]
        assert (x[0] == x[1]).all() and (x[0] != live.node_attrs["x"].gather([7, 8])).any()
        assert open_graph(server.address).lsn == live.lsn  # load again: what has changed since


@pytest.mark.parametrize("order", ["id", "time"])
def test_queries_walks_and_both_directions(order: str) -> None:
    plain = {} if order == "time" else {"edge_time": None, "edge_weight": None}
    live = make(order=order, layout="both", **plain)
    here = live.snapshot()
    with FeatureServer({}, graphs={"g": live}, port=0) as server:
        there, back = open_graph(server.address), open_graph(server.address, layout="csr")
        insert(live, np.random.default_rng(1), 100, 9)
        assert (there.num_nodes, there.num_edges) == (NODES, here.num_edges)
        assert (there.in_degrees() == here.in_degrees()).all()
        assert (there.in_neighbors(7) == here.in_neighbors(7)).all()
        assert (there.edge_list()[2] == here.edge_list()[2]).all()
        assert there.has_edges([1, 2], [7, 7]).tolist() == [False, False]
        for node in (0, 7, 11):
            assert (back.neighbors(node) == here.neighbors(node)).all()
        walks = [RandomWalker(one).walk(range(100), 6, 5) for one in (back, here)]
        assert (walks[0] == walks[1]).all()
        mine, its = (
            SubgraphLoader(there, [4, 4], batch_size=64, seed=3),
            SubgraphLoader(here, [4, 4], batch_size=64, seed=3),
        )
        for one, other in zip(mine, its, strict=True):
            same(one.subgraph, other.subgraph)
            assert (one.x == other.x).all()


def test_typed_graphs(tmp_path: Path) -> None:
    live = DynamicHeteroGraph.open(
        tmp_path / "g.aegd", {USER: 50, FILM: 60}, [RATES, LIKED], 16, order="time",
        edge_time="int64", durability="none",
    )  # fmt: skip
    rng = np.random.default_rng(0)
    live[FILM].attrs["x"] = rng.random((60, 4), dtype=np.float32)
    for kind, ends in ((RATES, (50, 60)), (LIKED, (60, 50))):
        src, dst = (rng.integers(0, end, 900) for end in ends)
        live[kind].insert(src, dst, time=np.arange(900))
    here = live.snapshot()
    with FeatureServer({}, graphs={"g": live}, port=0) as server:
        there = open_graph(server.address, typed=True)
        live[RATES].insert([1, 2], [3, 4], time=[5, 6])
        assert there.lsn == here.lsn and there.num_edges == here.num_edges
        for options in ({}, {"time_attr": "edge_time"}):
            times = {} if not options else {"seed_time": {FILM: np.full(9, 500)}}
            same(*(
                HeteroNeighborSampler(one, [5, 4], **options).sample({FILM: range(9)}, 3, **times)
                for one in (there, here)
            ))  # fmt: skip
        for kind in (RATES, LIKED):
            mine, its = (one[kind].edge_values for one in (here, there))
            assert set(mine) == set(its) == {"edge_time"}
            assert (mine["edge_time"].gather([5, 1]) == its["edge_time"].gather([5, 1])).all()
        assert (there[FILM].attrs["x"].gather([5]) == here[FILM].attrs["x"].gather([5])).all()
        copy = pickle.loads(pickle.dumps(there))
        assert copy.lsn == there.lsn and server.stats().leases == 1
        with pytest.raises(UnsupportedError, match="2 node types and 2 edge types"):
            open_graph(server.address, typed=False)


def test_times_of_nodes() -> None:
    rng = np.random.default_rng(5)
    live = DynamicHeteroGraph(
        {USER: 30, FILM: 0}, [RATES, LIKED], 16, order="time", node_time={FILM: "datetime64[s]"}
    )
    time = rng.integers(0, 50, 40)
    live[FILM].add(40, time=time)
    for kind in (RATES, LIKED):
        src, dst = (rng.integers(0, live.num_nodes[end], 300) for end in (kind[0], kind[2]))
        live[kind].insert(src, dst)
    here = live.snapshot()
    with FeatureServer({}, graphs={"g": live}, port=0) as server:
        there = open_graph(server.address, typed=True)
        live[FILM].add(2, time=[1, 2])
        seeds, options = {FILM: range(9), USER: range(9)}, {"time_attr": "node_time"}
        limits = {USER: rng.integers(0, 50, 9), FILM: time[:9]}
        same(*(
            HeteroNeighborSampler(one, [5, 4], **options).sample(seeds, 3, seed_time=limits)
            for one in (there, here)
        ))  # fmt: skip
        for one in (there, pickle.loads(pickle.dumps(there))):
            assert one[FILM].node_values["node_time"].gather(range(40)).tolist() == time.tolist()
            assert one[FILM].node_time.tolist() == time.tolist() and one.time_unit == "s"
            assert one[USER].node_values == {}
        with pytest.raises(InvalidArgumentError, match="'edge_time' is no node or edge attribute"):
            HeteroNeighborSampler(there, [5], time_attr="edge_time")
        out = open_graph(server.address, typed=True, layout="csr")
        assert out[LIKED].sorted_by == set() and not out[LIKED].topology("csr").has_own_times


def test_weights_and_times_by_edge() -> None:
    """They are of the commit; a new edge is not of it."""
    live = make()
    here = live.snapshot()
    mine, ids = here.edge_values, here.edge_list()[2][::-1]
    with FeatureServer({}, graphs={"g": live}, port=0) as server:
        there = open_graph(server.address)
        insert(live, np.random.default_rng(1), 10, 9)
        for one in (there, pickle.loads(pickle.dumps(there))):
            its = one.edge_values
            assert set(mine) == set(its) == {"edge_weight", "edge_time"}
            for name, rows in mine.items():
                assert (its[name].dtype_name, its[name].shape) == (rows.dtype_name, rows.shape)
                assert (its[name].gather(ids) == rows.gather(ids)).all()
                with pytest.raises(OutOfRangeError, match=rf"ids\[0\] = {here.end_edge_ids}"):
                    its[name].gather([here.end_edge_ids])


def test_names_of_graphs(tmp_path: Path) -> None:
    """Errors name what the server has, and what opens it."""
    live = make(tmp_path / "g.aegd")
    with FeatureServer({}, graphs={"g": live}, port=0) as server:
        both = "no graph 'zz' with .* there are: none; open_graph .* graphs: g$"
        with pytest.raises(InvalidArgumentError, match=both):
            open_graph(f"{server.address}/zz")
        with pytest.raises(InvalidArgumentError, match=r"there are no tables of rows; open_graph"):
            open_source(server.address)
    with FeatureServer({}, samples={"g": SampleService(live, SamplePlan([5]))}, port=0) as server:
        with pytest.raises(InvalidArgumentError, match=r"open_sampler asks for samples from: g$"):
            open_graph(server.address)
    with pytest.raises(UnsupportedError, match=r"FeatureServer\({}, graphs={'g': path}\) serves"):
        open_tables(tmp_path / "g.aegd")


def test_lists_of_the_other_layout() -> None:
    live = make(layout="both")
    typed = DynamicHeteroGraph({USER: 5, FILM: 6}, [RATES], 16, layout="csc")
    with FeatureServer({}, graphs={"g": live, "t": typed}, port=0) as server:
        url = f"{server.address}/g"
        with pytest.raises(LayoutError, match=rf"open_graph\('{url}', layout='csr'\) opens it"):
            RandomWalker(open_graph(url))
        with pytest.raises(LayoutError, match="the server has no others"):
            open_graph(f"{server.address}/t", typed=True)[RATES].out_degrees()


def test_live_rows_are_the_latest() -> None:
    live = make()
    table = LiveFeatureTable.create(None, NODES, 2, missing="zero")
    live.node_attrs["now"] = table
    with FeatureServer({}, graphs={"g": live}, port=0) as server:
        rows = open_graph(server.address).node_attrs["now"]
        table.put(3, [1, 2])
        assert rows.is_live and rows.gather([3]).tolist() == [[1, 2]]


def test_a_commit_that_others_have(tmp_path: Path) -> None:
    """Ranks of a training load the commit that the first of them got."""
    live = make(tmp_path / "g.aegd")
    with FeatureServer({}, graphs={"g": live}, port=0) as server:
        first = open_graph(server.address)
        insert(live, np.random.default_rng(1), 10, 9)
        second = open_graph(server.address, at=first.lsn)
        same(*(NeighborSampler(one, [5]).sample(range(50), 1) for one in (first, second)))
        last = open_graph(server.address, at=live.lsn)
        assert last.lsn == live.lsn
        for at in (1, live.lsn + 1):
            with pytest.raises(OutOfRangeError, match=f"at = {at}: the server has the last commit"):
                open_graph(server.address, at=at)
        with pytest.raises(InvalidArgumentError, match="at = -1"):
            open_graph(server.address, at=-1)
        snapshots = live.stats().snapshots
        for one in (first, second, last):
            one.close()
        assert snapshots == 2 and comes(lambda: server.stats().connections == 0)
    with FeatureServer(np.zeros(3), port=0) as server:
        with pytest.raises(InvalidArgumentError, match="at = 3 is for live graphs"):
            open_graph(server.address, at=3)


def linger(server: FeatureServer, seconds: float) -> None:
    server._answers.leases._linger = seconds


def test_a_lease_runs_out() -> None:
    live = make()
    with FeatureServer({}, graphs={"g": live}, port=0, lease=3) as server:
        there = open_graph(server.address)
        sampler = NeighborSampler(there, [5])
        sampler.sample([1], 1)
        assert comes(lambda: server.stats().leases == 0)
        assert comes(lambda: live.stats().snapshots == 0)  # nothing is held in the writer's memory
        with pytest.raises(SnapshotExpiredError, match="Load the graph again"):
            sampler.sample([1], 1)
        with pytest.raises(SnapshotExpiredError, match="Load the graph again"):
            there.node_attrs["x"].gather([1])
        with pytest.raises(SnapshotExpiredError):
            pickle.loads(pickle.dumps(there))
        NeighborSampler(open_graph(server.address), [5]).sample([1], 1)


def test_clients_that_end() -> None:
    """A client that closes, is collected or is killed holds nothing any more."""
    live = make()
    with FeatureServer({}, graphs={"g": live}, port=0) as server:
        linger(server, 0.1)
        there = open_graph(server.address)
        there.close()
        assert comes(lambda: server.stats().leases == 0)
        code = (
            "import sys, time; from aethergraph.remote import open_graph;"
            "graph = open_graph(sys.argv[1]);"
            "print(graph.lsn, flush=True); time.sleep(60)"
        )
        with subprocess.Popen(
            [sys.executable, "-c", code, server.address], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None and process.stdout.readline()
            assert server.stats().leases == 1 and live.stats().snapshots == 1
            process.kill()
        assert comes(lambda: server.stats().leases == 0)
        assert comes(lambda: live.stats().snapshots == 0)


def test_a_lease_outlives_a_parent_that_ends() -> None:
    """A process that becomes a daemon forks twice."""
    live = make()
    with FeatureServer({}, graphs={"g": live}, port=0) as server:
        linger(server, 0.0)
        code = (
            "import os, sys, time; from aethergraph.remote import open_graph;"
            "graph = open_graph(sys.argv[1]);"
            "rows = graph.node_attrs['x']; rows.gather([7]);"
            "[os.fork() and os._exit(0) for _ in '12'];"
            "time.sleep(0.5); print(rows.gather([7]).shape)"
        )
        found = subprocess.check_output([sys.executable, "-c", code, server.address], timeout=60)
        assert found == b"(1, 3)\n"
        assert comes(lambda: server.stats().leases == 0)


@pytest.mark.parametrize("lease", [float("inf"), 1e300])
def test_a_lease_without_an_end_ends_with_its_client(lease: float) -> None:
    live = make()
    with FeatureServer({}, graphs={"g": live}, port=0, lease=lease) as server:
        linger(server, 0.1)
        code = "import os, sys; from aethergraph.remote import open_graph;"
        code += "g = open_graph(sys.argv[1]); "
        subprocess.run([sys.executable, "-c", f"{code}os._exit(9)", server.address])
        # What is read here sweeps nothing: the thread that ends leases must be there.
        assert comes(lambda: live.stats().snapshots == 0)
        there = open_graph(server.address)
        linger(server, 60)
        assert NeighborSampler(there, [5]).sample([1], 1).num_nodes
        assert live.stats().snapshots == 1


@pytest.mark.parametrize("typed", [False, True])
def test_a_graph_that_is_closed_makes_room(typed: bool) -> None:
    """An orderly end gives the lease back, so that the next client need not wait."""
    live = make()
    with FeatureServer({}, graphs={"g": live}, port=0, max_leases=1) as server:
        linger(server, 1000.0)
        for collected in (False, True, False):
            there: Any = open_graph(server.address, typed=typed)
            assert there.node_types if typed else there.num_nodes
            if not collected:
                there.close()
            del there
        sampler = NeighborSampler(graph := open_graph(server.address), [5])
        graph.close()
        sampler.sample([1, 7], 1)  # what was made of it goes on, as with a file
        del sampler
        assert comes(lambda: server.stats().leases == 0)
        assert comes(lambda: live.stats().snapshots == 0)  # let go of right behind the lease


@pytest.mark.parametrize("typed", [False, True])
def test_a_graph_for_a_while(typed: bool) -> None:
    live = make()
    with FeatureServer({}, graphs={"g": live}, port=0) as server:
        linger(server, 1000.0)
        with open_graph(server.address, typed=typed) as there:
            assert there.lsn == live.commit and server.stats().leases == 1
        assert there.closed and comes(lambda: server.stats().leases == 0)
        for use in (lambda: there.lsn, lambda: there.source, lambda: pickle.dumps(there)):
            with pytest.raises(ClosedError):
                use()
        with pytest.raises(ClosedError), there:
            pass


def test_a_copy_that_is_on_its_way() -> None:
    """A graph that was pickled and let go of lasts until its copy can have come."""
    live = make()
    with FeatureServer({}, graphs={"g": live}, port=0) as server:
        copy = pickle.loads(pickle.dumps(open_graph(server.address)))
        assert server.stats().leases == 1
        copy.close()
        assert comes(lambda: server.stats().connections == 0)


def test_others_keep_the_lease() -> None:
    """One of several that leaves ends nothing for the rest."""
    live = make()
    with FeatureServer({}, graphs={"g": live}, port=0) as server:
        linger(server, 0.0)
        there = open_graph(server.address)
        copy = pickle.loads(pickle.dumps(there))
        expected = NeighborSampler(there, [5]).sample([1, 7], 1)
        there.close()
        assert comes(lambda: server.stats().connections == 1)
        same(expected, NeighborSampler(copy, [5]).sample([1, 7], 1))
        copy.close()
        assert comes(lambda: server.stats().leases == 0)


@pytest.mark.parametrize("error", [KeyboardInterrupt, CancelledError])
def test_a_request_that_is_broken_off(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """Ctrl-C ends the connection that it came upon, and not the lease."""
    live = make()
    with FeatureServer({}, graphs={"g": live}, port=0) as server:
        linger(server, 0.0)
        there = open_graph(server.address)
        sampler = NeighborSampler(there, [5])
        for _ in range(2):
            before = sampler.sample([1, 7], 1)
            insert(live, np.random.default_rng(1), 100, 9)
            with monkeypatch.context() as patch:

                def end(*args: Any, **options: Any) -> None:
                    raise error

                patch.setattr(Connection, "end", end)
                with pytest.raises(error):
                    there.source._lease.gather(0, np.array([1]), np.zeros((1, 2), np.uint64))
            assert comes(lambda: server.stats().connections == 1)
            time.sleep(0.05)
            same(before, sampler.sample([1, 7], 1))
        there.source.close()
        assert comes(lambda: server.stats().leases == 0)


@pytest.mark.parametrize("with_tls", [False, True])
def test_a_request_that_takes_too_long(
    monkeypatch: pytest.MonkeyPatch, certificate: tuple[Path, Path], with_tls: bool
) -> None:
    """It ends its connection, and not the lease: the next one is answered."""
    live, goes_on = make(), threading.Event()
    tls, ca = (certificate, f"&ca={certificate[0]}") if with_tls else (None, "")
    with FeatureServer({}, graphs={"g": live}, port=0, tls=tls) as server:
        linger(server, 0.0)
        there = open_graph(f"{server.address}?timeout=1{ca}")
        sampler = NeighborSampler(there, [5])
        before = sampler.sample([1, 7], 1)
        insert(live, np.random.default_rng(1), 100, 9)
        with monkeypatch.context() as patch:
            answers = server._answers
            gather = answers._gather

            def slow(*args: Any) -> Any:
                goes_on.wait(WAIT)
                return gather(*args)

            patch.setattr(answers, "_gather", slow)
            with pytest.raises(ServerTimeoutError):
                sampler.sample([1, 7], 1)
        goes_on.set()
        assert comes(lambda: server.stats().connections == 1)
        same(before, sampler.sample([1, 7], 1))
        linger(server, 10.0)
        for one in list(server._connections):
            one.stop(2)
        assert comes(lambda: server.stats().connections == 0)
        same(before, sampler.sample([1, 7], 1))
        same(before, sampler.sample([1, 7], 1))  # one of these connections holds the lease again
        assert server.stats().connections == 2
        there.source.close()


@pytest.mark.parametrize("places", [1, 2])
def test_a_lease_at_a_full_server(places: int) -> None:
    """It is never given up to make room, be it for its own requests or for others."""
    live = make()
    with FeatureServer(np.arange(9), graphs={"g": live}, port=0, max_connections=places) as server:
        linger(server, 0.0)
        sampler = NeighborSampler(there := open_graph(server.address), [5])
        expected = there.node_attrs["x"].gather([7])
        insert(live, np.random.default_rng(1), 100, 9)
        pickle.dumps(there)  # a copy may come, and this one goes on
        with suppress(ServerTimeoutError):
            other = open_source(f"{server.address}?timeout=0.5")
            assert (places, other.gather([3])) == (2, 3)
        refused = server.stats().refused
        for _ in range(3):
            assert sampler.sample([1, 7], 1).num_nodes
            assert (there.node_attrs["x"].gather([7]) == expected).all()
        assert server.stats().leases == 1 and server.stats().refused <= refused + 2


def test_a_server_that_is_started_again() -> None:
    live = make()
    server = FeatureServer({}, graphs={"g": live}, port=0).start()
    there = open_graph(server.address)
    sampler = NeighborSampler(there, [5])
    expected = sampler.sample([1, 7], 1)
    server.close()
    assert live.stats().snapshots == 0
    with FeatureServer({}, graphs={"g": live}, port=server.port) as again:
        with pytest.raises(SnapshotExpiredError, match="Load the graph again"):
            sampler.sample([1, 7], 1)
        same(NeighborSampler(open_graph(again.address), [5]).sample([1, 7], 1), expected)


def test_clients_of_a_commit_share_it() -> None:
    live = make()
    with FeatureServer({}, graphs={"g": live}, port=0, max_leases=1) as server:
        held = [open_graph(server.address) for _ in range(5)]
        held.append(open_graph(server.address, at=live.commit))
        assert server.stats().leases == 6 and live.stats().snapshots == 1
        for one in held:
            one.close()
        assert comes(lambda: server.stats().leases == 0)
        assert comes(lambda: live.stats().snapshots == 0)  # a thread may still return from there


@pytest.mark.parametrize("typed", [False, True])
def test_attributes_that_are_exchanged(typed: bool) -> None:
    """They need no commit, and clients that come after it have the new ones, the others theirs."""
    live: Any = DynamicGraph(NODES, 8)
    if typed:
        live = DynamicHeteroGraph({USER: NODES, FILM: 1}, [LIKED], 8)
    rows = np.zeros((NODES, 1), np.float32)

    def attrs(graph: Any) -> Any:
        return graph[USER].attrs if typed else graph.node_attrs

    attrs(live)["x"] = rows
    with FeatureServer({}, graphs={"g": live}, port=0, max_leases=3) as server:
        linger(server, 0.0)
        first, commit = open_graph(server.address), live.commit
        del attrs(live)["x"]
        attrs(live)["x"] = rows + 1
        second, again = open_graph(server.address), open_graph(server.address)
        attrs(live)["table"] = LiveFeatureTable.create(None, NODES, 1)
        third = open_graph(server.address)
        assert live.commit == commit and live.stats().snapshots == 3
        for one, value in ((first, 0), (second, 1), (again, 1), (third, 1)):
            assert attrs(one)["x"].gather([7]) == value and one.lsn == commit
        assert [len(attrs(one)) for one in (first, second, third)] == [1, 1, 2]
        words = "holds 3 commits for its clients, the most that it"
        with pytest.raises(LimitError, match=words):
            del attrs(live)["table"]
            open_graph(server.address)
        first.source.close()
        assert comes(lambda: server.stats().leases == 3)
        assert attrs(open_graph(server.address, at=commit))["x"].gather([7]) == 1
        for one in (second, again, third):
            one.source.close()
        assert comes(lambda: server.stats().leases == 0)


def test_a_commit_is_shared_beyond_a_merge(tmp_path: Path) -> None:
    """The server attaches to the graph again, whose attributes are the same."""
    with make(tmp_path / "g.aegd") as live:
        served = {"g": tmp_path / "g.aegd"}
        with FeatureServer({}, graphs=served, port=0, max_leases=1) as server:
            first = open_graph(server.address)
            live.merge()
            second = open_graph(server.address)
            assert first.lsn == second.lsn == live.lsn and server.stats().leases == 2


def test_a_connection_takes_part_in_one_lease() -> None:
    """Whoever asks for one after the other holds the last commit alone."""
    live = make()
    with FeatureServer({}, graphs={"g": live}, port=0, max_leases=1) as server:
        one = Client(server.port or 0)
        other = Client(server.port or 0)
        tokens = []
        for at in range(4):
            wire.send(one.socket, wire.LEASE, at, wire.pack_facts({"graph": "g", "at": None}))
            told = wire.unpack_facts(one.reply()[3])
            assert told["commit"] == live.commit
            assert server.stats().leases == 1 and live.stats().snapshots == 1
            tokens.append(told["lease"])
            insert(live, np.random.default_rng(at), 5, at)
        wire.send(other.socket, wire.LEASE, 1, wire.pack_facts({"lease": tokens[-1]}))
        assert wire.unpack_facts(other.reply()[3])["commit"] == told["commit"]
        wire.send(other.socket, wire.LEASE, 2, wire.pack_facts({"lease": tokens[0]}))
        assert other.reply()[1] == wire.ERROR
        one.socket.close()
        other.socket.close()


def test_the_writer_needs_the_memory() -> None:
    """A snapshot that the writer may not wait for any longer is one that the client may not."""
    live = make(max_snapshot_age=0.01)
    with FeatureServer({}, graphs={"g": live}, port=0) as server:
        sampler = NeighborSampler(open_graph(server.address), [5])
        rng = np.random.default_rng(3)
        with pytest.raises(SnapshotExpiredError, match="held too long"):
            for at in range(1, 2000):
                insert(live, rng, 500, at)
                live.delete_edges(*(ends[:500] for ends in live.edge_list()[:2]))
                sampler.sample([7], 1)


@pytest.mark.parametrize("typed", [False, True])
def test_a_commit_that_the_writer_took_back_is_no_lease(typed: bool) -> None:
    """It is not to be had any more, and takes nobody's place."""
    live = make(max_snapshot_age=0.01)
    with FeatureServer({}, graphs={"g": live}, port=0, max_leases=1) as server:
        there: Any = open_graph(server.address, typed=typed)
        rng = np.random.default_rng(3)
        here = live.snapshot()

        def is_gone() -> bool:
            insert(live, rng, 500, 1)
            live.delete_edges(*(ends[:500] for ends in live.edge_list()[:2]))
            with suppress(SnapshotExpiredError):
                here.in_degrees()
                return False
            return True

        assert comes(is_gone)
        with pytest.raises(OutOfRangeError, match=f"at = {there.lsn}: the server has the last"):
            open_graph(server.address, at=there.lsn)
        with open_graph(server.address) as last:
            assert last.lsn == live.commit and server.stats().leases == 1
        assert comes(lambda: server.stats().leases == 0)
        with pytest.raises(SnapshotExpiredError, match="Load the graph again"):
            pickle.loads(pickle.dumps(there))


WRITER = """
import sys
import numpy as np
from aethergraph import DynamicGraph
graph = DynamicGraph.open(sys.argv[1], 400, 16, durability="none")
for line in sys.stdin:
    graph.insert_edges([1, 2, 3], [9, 9, 9])
    print(graph.lsn, flush=True)
"""


@pytest.mark.forks
def test_the_command(tmp_path: Path) -> None:
    """A server of a directory that others write, in turns, has what a reader here has."""
    path = tmp_path / "g.aegd"
    make(path, order="id", edge_time=None, edge_weight=None).close()
    with served(path, "--lease", "100", "--max-leases", "9") as (_, line):
        assert line.startswith("serving g at ")
        url = address_in(line)
        alone = open_graph(url)  # nobody writes: the last commit in the log
        for _ in range(2):
            with talking(WRITER, path) as change:
                assert int(change()) > alone.lsn
                here = DynamicGraph.attach(path).snapshot()
                there = open_graph(f"{url}/g")
                assert there.lsn == here.lsn
                assert int(change()) > here.lsn
                for one in (there, pickle.loads(pickle.dumps(there))):
                    same(*(NeighborSampler(g, [5, 5]).sample(range(9), 2) for g in (one, here)))
        forked = [sys.executable, "-c", FORKED, url, str(there.lsn)]
        found = subprocess.run(forked, capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stderr
        NeighborSampler(alone, [5]).sample(range(9), 2)  # still held
    with pytest.raises(StorageError):
        open_graph(f"{url}?timeout=0.1")


FORKED = """
import os, sys
import numpy as np
from aethergraph import NeighborSampler
from aethergraph.remote import open_graph
graph = open_graph(sys.argv[1], at=int(sys.argv[2]))
expected = NeighborSampler(graph, [5]).sample(range(9), 2)
pid = os.fork()
found = NeighborSampler(graph, [5]).sample(range(9), 2)
assert (found.edge == expected.edge).all() and graph.lsn == int(sys.argv[2])
if pid == 0:
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""


# ---- what is none --------------------------------------------------------------------------------


def test_requests_that_are_none() -> None:
    with FeatureServer({}, graphs={"g": make()}, port=0) as server:
        for asked, words in (
            (b"no JSON", "cannot be read"),
            (b"[1]", "cannot be read"),
            (b'{"at": "x", "graph": "g"}', "is no number of a commit"),
            (b'{"at": true, "graph": "g"}', "is no number of a commit"),
            (b'{"lease": 7}', "Load the graph again"),
            (b'{"lease": "0123"}', "Load the graph again"),
            (b'{"graph": []}', "is no name of a graph"),
        ):
            one = Client(server.port or 0)
            wire.send(one.socket, wire.LEASE, 2, asked)
            reply = one.reply()
            assert reply[1] == wire.ERROR and words in reply[3].decode()
            assert server.stats().leases == 0


def test_positions_from_anywhere() -> None:
    """Positions are places in the server's memory; those that it never gave do no harm."""
    live = make()
    rng = random.Random(0)
    with FeatureServer({}, graphs={"g": live}, port=0) as server:
        there = open_graph(server.address)
        expected = NeighborSampler(there, [5, 5]).sample(range(50), 1)
        tables = there.source._lease.facts.relations[0].lists["csc"]
        good = NeighborSampler(live.snapshot(), [5]).sample(range(50), 1)
        assert len(good.edge)
        refused = answered = 0
        for _ in range(500):
            bits = rng.choice([0, 1 << 62, 3 << 61])
            base = rng.choice([rng.getrandbits(62), rng.getrandbits(20), rng.getrandbits(40)])
            positions = np.array([(bits | base) % 2**63 - rng.choice([0, 0, 0, 2**62])])
            number = rng.choice(list(tables.values()))
            out = np.zeros(2 if number == tables[0] else 1, np.int64)
            try:
                there.source._lease.gather(number, positions, out)
                answered += 1
            except Exception as error:  # whatever it is, the server goes on
                assert "is not" in str(error) or "id" in str(error), error
                refused += 1
        assert refused and answered
        with pytest.raises(Exception, match="there is no table 999"):
            there.source._lease.gather(999, np.array([1]), np.zeros(1, np.int64))
        same(NeighborSampler(there, [5, 5]).sample(range(50), 1), expected)


def arena_bytes() -> int:
    """Return the memory that the edges of live graphs of this process take."""
    found = 0
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # that of the directory is closed again
            if "live-arena" in os.readlink(f"/proc/self/fd/{descriptor}"):
                found += 512 * os.stat(int(descriptor)).st_blocks
    return found


@pytest.mark.parametrize("over_base", [False, True])
def test_nobody_can_ask_for_memory_that_is_not_used(tmp_path: Path, over_base: bool) -> None:
    """A page that was never written would become a real one by being read."""
    live = make(tmp_path / "g.aegd")
    if over_base:
        live.merge()
        insert(live, np.random.default_rng(8), 300, 2)
    units = 64 * 2**20 // 16
    with FeatureServer({}, graphs={"g": live}, port=0) as server:
        there = open_graph(server.address)
        expected = NeighborSampler(there, [5, 5]).sample(range(50), 1)
        before = arena_bytes()
        tables = there.source._lease.facts.relations[0].lists["csc"]
        for large, index in itertools.product((0, 1 << 61), (0, 2**29)):
            positions = (1 << 62) | large | (np.arange(units // 4, units, 1 << 17) << 30) | index
            for number in [one for what, one in tables.items() if what != AskedLists.LISTS]:
                for position in positions:
                    with pytest.raises(OutOfRangeError, match="not one of this snapshot's"):
                        there.source._lease.gather(number, position[None], np.zeros(1))
        assert arena_bytes() == before
        same(NeighborSampler(there, [5, 5]).sample(range(50), 1), expected)


@given(st.recursive(
    st.one_of(st.none(), st.integers(), st.text(), st.booleans(), st.floats()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(_Facts._fields + ("edges",)), inner),
    ),
    max_leaves=9,
))  # fmt: skip
def test_descriptions_that_are_none(value: Any) -> None:
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError, OverflowError)):
        _Facts.of(value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"graphs": {"": None}}, "is no name of a graph"),
        ({"graphs": {"g": "snapshot"}}, "does not change"),
        ({"shard": (0, 2)}, "are served whole"),
        ({"lease": 0}, "lease = 0"),
        ({"lease": float("nan")}, "lease = nan"),
        ({"max_leases": -1}, "max_leases"),
        ({"max_leases": 0}, r"max_leases = 0 is not in 1..256"),
        ({"max_leases": 257}, r"max_leases = 257 is not in 1..256"),
    ],
)
def test_what_is_refused(options: dict[str, Any], words: str) -> None:
    live = make()
    if options.get("graphs") == {"g": "snapshot"}:
        options = {"graphs": {"g": live.snapshot()}}
    with pytest.raises(InvalidArgumentError, match=words):
        FeatureServer({}, **{"graphs": {"g": live}, "port": 0, **options})


def test_several_live_graphs() -> None:
    graphs = {"a": make(), "b": make(order="id", edge_time=None, edge_weight=None)}
    with FeatureServer(np.zeros((3, 2)), graphs=graphs, port=0) as server:
        for name, live in graphs.items():
            there = open_graph(f"{server.address}/{name}")
            same(*(NeighborSampler(g, [3]).sample([7], 1) for g in (there, live.snapshot())))
        with pytest.raises(InvalidArgumentError, match="several live graphs, name one: a, b"):
            open_graph(server.address)
        assert sorted(server.names) == ["a", "b", "x"]
        time.sleep(0)
