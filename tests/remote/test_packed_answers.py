"""Answers that one native call makes have the bytes of those that Python puts together."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from aethergraph import DynamicGraph, DynamicHeteroGraph, FeatureTable, Graph, HeteroGraph
from aethergraph.errors import OutOfRangeError, SnapshotExpiredError
from aethergraph.remote import SamplePlan, SampleService
from aethergraph.remote.samples import service as services
from aethergraph.remote.samples.packed import PackedAnswers
from aethergraph.remote.samples.request import make_request

NODES, EDGES = 300, 4000
USER, FILM = "user", "film"
RATES, LIKED = (USER, "rates", FILM), (FILM, "liked", USER)


class _Spy:
    """Counts answers by native calls, and forbids them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers, self.is_off = 0, False
        answer = PackedAnswers.answer

        def counted(packed: PackedAnswers, *args: Any) -> Any:
            found = None if self.is_off else answer(packed, *args)
            self.answers += found is not None
            return found

        monkeypatch.setattr(PackedAnswers, "answer", counted)


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> _Spy:
    return _Spy(monkeypatch)


def compare(
    service: SampleService, spy: _Spy, seeds: Any, times: Any = None, packed: bool | None = True
) -> None:
    """Compare answers of both ways, in memory of any size.

    ``packed``: native calls make all of them, or none; None: whoever.
    """
    before, memory = spy.answers, np.full(1 << 20, 85, np.uint8)
    for key in range(6):
        request = make_request(service.form, seeds, times, key)
        spy.is_off = True
        expected = service.answer(request)
        spy.is_off = False
        assert (service.answer(request) == expected).all()
        memory[:] = 85
        found = service.answer(request, lambda size: memory[:size])
        assert found.tobytes() == expected.tobytes()
        assert service.answer(request, lambda size: np.empty(size, np.uint8)).tobytes() == (
            expected.tobytes()
        )
    assert packed is None or spy.answers - before == (18 if packed else 0)


def make(rng: Any) -> Graph:
    src, dst = rng.integers(0, NODES, (2, EDGES))
    graph = Graph.from_edges(
        NODES, src, dst, edge_time=rng.integers(0, 1000, EDGES), edge_weight=rng.random(EDGES),
        edge_attrs={"w": rng.random((EDGES, 3), dtype=np.float32)},
    )  # fmt: skip
    graph.node_attrs["x"] = rng.random((NODES, 5), dtype=np.float32)
    graph.node_attrs["y"] = rng.integers(0, 9, NODES).astype(np.int8)
    graph.node_attrs["none"] = np.empty((NODES, 0), np.float32)
    return graph


@pytest.mark.parametrize(
    ("options", "packed"),
    [
        ({}, True),
        ({"disjoint": True}, True),
        ({"replace": True}, True),
        ({"subgraph_type": "bidirectional"}, False),
        ({"subgraph_type": "induced"}, True),
        ({"time_attr": "edge_time", "temporal_strategy": "last"}, True),
        ({"weight_attr": "edge_weight", "layered": True}, True),
    ],
)
def test_a_graph(tmp_path: Path, spy: _Spy, options: dict[str, Any], packed: bool) -> None:
    graph = make(np.random.default_rng(0))
    plan = SamplePlan([4, 3], options, edge_attrs=["w", "edge_time"])
    times = [700, 800, 10] if "time_attr" in options else None
    compare(SampleService(graph, plan), spy, [7, 11, 7], times, packed)
    graph.save(tmp_path / "g.aeg")
    compare(SampleService(tmp_path / "g.aeg", plan), spy, [7, 11, 7], times, packed)
    on_disk = Graph.load(tmp_path / "g.aeg", storage="uring", memory_budget="32M")
    compare(SampleService(on_disk, plan), spy, [7, 11, 7], times, None)


@pytest.mark.parametrize("options", [{}, {"disjoint": True}, {"sample_direction": "backward"}])
def test_a_typed_graph(spy: _Spy, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    graph = HeteroGraph.from_edges(
        {kind: tuple(rng.integers(0, 60, (2, 900))) for kind in (RATES, LIKED)},
        {USER: 60, FILM: 70},
        layout="both",
    )
    graph[USER].attrs["x"] = rng.random((60, 4), dtype=np.float32)
    graph[FILM].attrs["x"] = rng.random((70, 2), dtype=np.float32)
    graph[FILM].attrs["y"] = rng.random(70)
    plan = SamplePlan({"user-rates-film": [3, 2]}, options)
    service = SampleService(graph, plan)
    compare(service, spy, {FILM: [5, 6], USER: [1]}, packed="sample_direction" not in options)


def change(graph: DynamicGraph, rng: Any, at: int) -> None:
    """Commit edges, rows, and a node with its row."""
    with graph.transaction():
        (new,) = graph.add_nodes(1, x=rng.random((1, 5), dtype=np.float32))
        src, dst = rng.integers(0, NODES, (2, 100))
        graph.insert_edges(
            [*src, new, 3], [*dst, 3, new], time=np.full(102, at), weight=rng.random(102)
        )
        graph.update_nodes(rng.permutation(NODES)[:40], x=rng.random((40, 5), dtype=np.float32))


@pytest.mark.parametrize(
    ("own", "options"),
    [(True, {}), (False, {"time_attr": "edge_time"}), (True, {"weight_attr": "edge_weight"})],
)
def test_a_live_graph(tmp_path: Path, spy: _Spy, own: bool, options: dict[str, Any]) -> None:
    """Rows of a file, added ones and changed ones, as of the last commit and of earlier ones."""
    rng, path = np.random.default_rng(3), tmp_path / "g.aegd"
    with DynamicGraph.open(
        path, NODES, 16, durability="none", order="time", edge_time="int64", edge_weight="float32",
        max_nodes=2 * NODES,
    ) as graph:  # fmt: skip
        graph.node_attrs["x"] = rng.random((NODES, 5), dtype=np.float32)
        graph.insert_edges(
            *rng.integers(0, NODES, (2, EDGES)), time=np.sort(rng.integers(0, 9, EDGES)),
            weight=rng.random(EDGES),
        )  # fmt: skip
        plan = SamplePlan([9, 9], options, edge_attrs=["edge_time"])
        service = SampleService(graph if own else path, plan)
        kept = []
        for at in range(10, 14):
            times = [10**6] * 2 if "time_attr" in options else None
            compare(service, spy, [3, at], times)
            change(graph, rng, at)
            kept.append(graph.snapshot())
        compare(service, spy, [3, NODES], [10**6] * 2 if "time_attr" in options else None)
        compare(SampleService(kept[0], plan), spy, [3, NODES], times)


def test_a_typed_live_graph(spy: _Spy) -> None:
    rng = np.random.default_rng(3)
    with DynamicHeteroGraph({USER: 50, FILM: 40}, [RATES, LIKED], 16) as graph:
        graph[USER].attrs["x"] = rng.random((50, 3), dtype=np.float32)
        for kind in (RATES, LIKED):
            graph[kind].insert(*rng.integers(0, 40, (2, 300)))
        service = SampleService(graph, SamplePlan([4, 3]))
        compare(service, spy, {USER: [3], FILM: [4]})
        graph[USER].update(np.arange(50), x=np.ones((50, 3), np.float32))
        compare(service, spy, {USER: [3], FILM: [4]})


def test_what_is_wrong_is_said_as_before(spy: _Spy) -> None:
    service = SampleService(make(np.random.default_rng(0)), SamplePlan([2]))
    with pytest.raises(OutOfRangeError, match=r"seeds\[1\] = 300") as caught:
        service.answer(make_request(service.form, [1, NODES], None, 1))
    assert (caught.value.position, caught.value.value) == (1, NODES)
    assert spy.answers == 0


def test_rows_that_are_exchanged(spy: _Spy) -> None:
    """A graph that does not change may still be given other rows: nobody gets the former ones."""
    graph = make(np.random.default_rng(0))
    service = SampleService(graph, SamplePlan([2], node_attrs=["x"]))
    request = make_request(service.form, [1], None, 1)
    service.answer(request)
    assert spy.answers == 1
    del graph.node_attrs["x"]
    graph.node_attrs["x"] = FeatureTable.from_array(np.ones((NODES, 5), np.float32))
    assert (service.form.unpack(service.answer(request)).node_attrs["x"] == 1).all()


def test_versions_that_are_used_again(spy: _Spy, tmp_path: Path) -> None:
    """A snapshot that was held too long gives no rows of later commits."""
    with DynamicGraph.open(
        tmp_path / "g.aegd", 10, 8, durability="none", max_snapshot_age=0.01
    ) as graph:
        graph.node_attrs["x"] = np.zeros((10, 2), np.float32)
        graph.insert_edges([3, 4], [1, 1])
        graph.update_nodes(range(10), x=np.ones((10, 2)))
        service = SampleService(graph.snapshot(), SamplePlan([2]))
        request = make_request(service.form, [1], None, 1)
        compare(service, spy, [1])
        for i in range(3):
            threading.Event().wait(0.03)
            graph.update_nodes(range(10), x=np.full((10, 2), i))
            graph._store.live.reclaim()
        with pytest.raises(SnapshotExpiredError):
            service.answer(request)


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """Samplers go back to their engine with the commit, without the collector."""
    gc.disable()
    try:
        with DynamicGraph(20, 8) as graph:
            graph.insert_edges([3, 4], [1, 1])
            service = SampleService(graph, SamplePlan([2]))
            request = make_request(service.form, [1], None, 1)
            answers: list[NDArray[Any]] = []
            for i in range(5):
                answers.append(service.answer(request))
                graph.insert_edges([5 + i], [1])
            engine: Any = service._made[1].engine
            assert engine.num_idle == 1
            assert graph.stats().snapshots <= 1
    finally:
        gc.enable()
    assert services.PackedAnswers is PackedAnswers
