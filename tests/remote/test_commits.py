"""Commits that a server answers from: shared by requests, given up soon, of one graph only."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.threads import WAIT, comes, running

from aethergraph import (
    DynamicGraph,
    DynamicHeteroGraph,
    Graph,
    LiveFeatureTable,
)
from aethergraph.dynamic.history import History
from aethergraph.errors import FileChangedError
from aethergraph.remote import FeatureServer, SamplePlan, SampleService, open_graph, open_sampler
from aethergraph.remote import commits as commits_module
from aethergraph.remote.commits import commits_of
from aethergraph.remote.leases import Leases
from aethergraph.remote.samples.replay import check_replay
from aethergraph.remote.samples.request import make_request


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[DynamicGraph]:
    with DynamicGraph.open(tmp_path / "g.aegd", 10, 8, durability="none") as made:
        made.insert_edge(0, 1)
        yield made


def test_requests_share_a_commit(graph: DynamicGraph, tmp_path: Path) -> None:
    """The last commit is shared; a moment later nothing keeps old versions."""
    commits = commits_of(tmp_path / "g.aegd")
    one = commits.take()
    assert commits.take() is one or commits.take() is commits.take()  # unless the moment is over
    graph.insert_edge(1, 2)
    other = commits.take()
    assert other is not one and other.number == one.number + 1
    assert not one.now.is_last and other.now.is_last
    del one, other
    assert comes(lambda: graph.stats().snapshots == 0)


def test_no_thread_to_give_a_commit_up(
    graph: DynamicGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not kept then; the next one is."""

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    commits = commits_of(tmp_path / "g.aegd")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        assert commits.take().number == 1
        assert graph.stats().snapshots == 0
    assert commits.take().number == 1
    assert comes(lambda: graph.stats().snapshots == 0)


def test_a_snapshot_is_the_last_one(graph: DynamicGraph) -> None:
    with graph.snapshot() as now:
        assert now.is_last
        graph.insert_edge(1, 3)
        assert not now.is_last
        with graph.snapshot() as after:
            assert after.is_last
        graph.merge()  # goes on in other memory
        assert not now.is_last
    with graph.snapshot() as now:
        assert now.is_last


def test_a_writer_that_waits_for_less(tmp_path: Path) -> None:
    """A shared commit may expire in the middle of an answer, which is then made from a new one."""
    path, sizes = tmp_path / "g.aegd", list[int]()
    with DynamicGraph.open(path, 10, 8, durability="none", max_snapshot_age=0.01) as graph:
        graph.node_attrs["x"] = np.zeros((10, 2), np.float32)
        graph.insert_edges([3, 4], [1, 1])
        service = SampleService(path, SamplePlan([2]))
        request = make_request(service.form, [1], None, 1)
        service.answer(request)

        def room(size: int) -> NDArray[np.uint8]:
            sizes.append(size)
            if len(sizes) == 1:
                time.sleep(0.05)
                graph.update_nodes(range(10), x=np.ones((10, 2)))
                graph._store.live.reclaim()
            return np.empty(size, np.uint8)

        found = service.form.unpack(service.answer(request, room))
        assert len(sizes) > 1 and found.commit == graph.lsn
        assert (found.node_attrs["x"] == 1).all()


def test_a_directory_that_is_exchanged(graph: DynamicGraph, tmp_path: Path) -> None:
    """Another graph at the same path is not taken for the one that the server was started with."""
    path, aside = tmp_path / "g.aegd", tmp_path / "aside"
    service = SampleService(path, SamplePlan([2]))
    with FeatureServer({}, samples={"g": service}, graphs={"h": path}, port=0) as server:
        url = server.address
        with open_sampler(url) as sampler:
            assert sampler.sample([1]).subgraph.node.tolist() == [1, 0]
            graph.close()
            path.rename(aside)
            with DynamicGraph.open(path, 10, 8, durability="none") as other:
                other.insert_edge(5, 1)
                with pytest.raises(FileChangedError, match=r"g.aegd holds another live graph \("):
                    sampler.sample([1])
                with pytest.raises(FileChangedError, match="start it again"):
                    open_graph(f"{url}/h")
            path.rename(tmp_path / "other")
            aside.rename(path)
            assert sampler.sample([1]).subgraph.node.tolist() == [1, 0]


@pytest.mark.parametrize("first", ["nobody", "a writer"])
@pytest.mark.parametrize("then", ["closes", "is killed", "ends meanwhile"])
def test_a_writer_between_two_requests(
    graph: DynamicGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, then: str
) -> None:
    """Its commits are seen, though no request came while it was there."""
    path = tmp_path / "g.aegd"
    if first == "nobody":
        graph.close()
    commits = commits_of(path)
    before = commits.take().number
    graph.close()
    assert commits.take().number == before == 1
    context = multiprocessing.get_context("fork")
    writer = context.Process(target=_write, args=(path, then == "is killed"))
    writer.start()
    writer.join()
    if then == "ends meanwhile":  # as if it were there when the server looks for it
        here = (1, 1)
        monkeypatch.setattr(commits._directory, "published", lambda: here)  # type: ignore[attr-defined]
    for _ in range(2):
        taken = commits.take()
        assert (taken.number, taken.now.num_edges) == (2, 2)
    held = commits._held  # type: ignore[attr-defined]
    with DynamicGraph.open(path) as again:
        monkeypatch.undo()
        assert commits.take().number == 2
        again.insert_edge(4, 1)
        assert commits.take().number == 3
    assert commits.take().number == 3 and held is not commits._held  # type: ignore[attr-defined]


def test_requests_do_not_wait_for_a_log(
    graph: DynamicGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One reads what a writer has left; the others are answered from the commit before."""
    path = tmp_path / "g.aegd"
    graph.close()
    leases = Leases({"g": path}, 0)
    commits = leases._graphs["g"]
    _write_and_close(path)
    begun, goes_on, found = threading.Event(), threading.Event(), list[int]()

    class Slow(History):
        def last(self) -> Any:
            begun.set()
            assert goes_on.wait(WAIT)
            return super().last()

    monkeypatch.setattr(commits_module, "History", Slow)

    def take() -> None:
        found.append(commits.take().number)

    def lease() -> None:  # of the last commit
        found.append(leases.answer({"graph": "g"}, "a connection")["commit"])

    with running(take):
        assert begun.wait(WAIT)
        with running(lease):
            time.sleep(0.1)
            assert commits.take().number == 1 and not found
            goes_on.set()
    assert found == [2, 2] and commits.take().number == 2
    leases.close()


@pytest.mark.parametrize("own", [True, False])
def test_a_graph_before_its_first_commit(tmp_path: Path, own: bool) -> None:
    """A graph without commits has the number 0 at a server and in a log, not that of its first."""
    path, log, saved = tmp_path / "g.aegd", tmp_path / "log", tmp_path / "g.aeg"
    graph = DynamicGraph.open(path, 10, 8, durability="none")
    if not own:
        graph.close()
    source = graph if own else path
    samples = {"g": SampleService(source, SamplePlan([5]))}
    with FeatureServer({}, samples=samples, graphs={"g": source}, port=0, log=log) as server:
        before, sampler = open_graph(server.address), open_sampler(server.address)
        first = sampler.sample([3], key=7)
        if not own:
            graph = DynamicGraph.open(path, durability="none")
            assert sampler.sample([3], key=7).commit == 0
        held = graph.snapshot()
        held.save(saved)
        with pytest.raises(ZeroDivisionError), graph.transaction():
            raise ZeroDivisionError
        graph.insert_edges([1, 2], [3, 4])
        after, second = open_graph(server.address), sampler.sample([3], key=7)
        assert (before.lsn, before.num_edges, first.commit) == (0, 0, 0)
        assert (after.lsn, after.num_edges, second.commit) == (1, 2, 1)
        with open_graph(server.address, at=0) as again:
            assert again.num_edges == 0
        count = 2 if own else 3
        for one, missing in ((path, 0), (held, 1), (before, 1), (saved, 1), (after, count - 1)):
            found = check_replay(log, one)
            assert (found.answers, found.commits, found.differences) == (count, 2, [])
            assert len(found.missing) == missing
        held.close()
    graph.close()


def test_numbers_of_commits(tmp_path: Path) -> None:
    """A graph with a log has those of the log in every process; one in memory counts its own."""
    graph = DynamicGraph.open(tmp_path / "g.aegd", 10, 8, durability="none")
    attached, copy = DynamicGraph.attach(tmp_path / "g.aegd"), pickle.loads(pickle.dumps(graph))
    for one in (graph, attached, copy):
        found = commits_of(one)
        assert (found.take().number, found.identity) == (0, graph.store.uuid)
    graph.insert_edge(0, 1)
    assert [commits_of(one).take().number for one in (graph, attached, copy)] == [1, 1, 1]
    graph.close()
    with DynamicGraph(10, 8) as made:
        found = commits_of(made)
        assert (found.take().number, found.identity) == (made.commit, None)


@pytest.mark.parametrize("kind", ["live", "typed", "fixed"])
def test_attributes_that_are_exchanged(kind: str) -> None:
    """Rows of the same form are sent from then on; others are an error that says so."""
    rows, seeds = np.zeros((10, 3), np.float32), [3]
    edges = ("node", "to", "node")
    graph: Any = DynamicGraph(10, 8) if kind == "live" else Graph.from_edges(10, [1], [2])
    if kind == "typed":
        graph = DynamicHeteroGraph({"node": 10, "more": 5}, [edges], 8)
    attrs = graph["node"].attrs if kind == "typed" else graph.node_attrs
    attrs["x"] = rows
    service = SampleService(graph, SamplePlan([5]))
    request = make_request(service.form, {"node": seeds} if kind == "typed" else seeds, None, 1)
    service.answer(request)
    words = "the attribute 'x' of the graph is not what it was when .*: start it again"
    table = LiveFeatureTable.create(None, 10, 3)
    for other in (None, rows[:, :2], rows.astype(np.float64), rows.astype(np.int8), table):
        if "x" in attrs:
            del attrs["x"]
        if other is not None:
            attrs["x"] = other
        with pytest.raises(FileChangedError, match=words):
            service.answer(request)
    del attrs["x"]
    attrs["x"] = rows + 1
    sent = service.form.unpack(service.answer(request)).node_attrs
    assert ((sent["node"] if kind == "typed" else sent)["x"] == 1).all()


def test_edge_attributes_that_are_exchanged() -> None:
    graph = Graph.from_edges(10, [1], [2], edge_attrs={"w": np.zeros(1, np.float32)})
    service = SampleService(graph, SamplePlan([5], edge_attrs=["w"]))
    request = make_request(service.form, [2], None, 1)
    assert (service.form.unpack(service.answer(request)).edge_attrs["w"] == 0).all()
    del graph.edge_attrs["w"]
    with pytest.raises(FileChangedError, match="the attribute 'w' of the graph"):
        service.answer(request)
    graph.edge_attrs["w"] = np.ones(1, np.float32)
    assert (service.form.unpack(service.answer(request)).edge_attrs["w"] == 1).all()


def _write_and_close(path: Path) -> None:
    with DynamicGraph.open(path) as graph:
        graph.insert_edge(2, 1)


def _write(path: Path, is_killed: bool) -> None:
    graph = DynamicGraph.open(path)
    graph.insert_edge(2, 1)
    if not is_killed:
        graph.close()
    os._exit(0)
