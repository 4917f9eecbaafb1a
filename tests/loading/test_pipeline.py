"""Stages of the pipeline: views, chunks, functions of users, what is done in whose thread."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.graphs import make_graph
from support.threads import ahead_of

from aethergraph import DynamicGraph, Graph, HeteroGraph, NeighborSampler, SubgraphLoader
from aethergraph._parallel.prefetch import prefetch_map
from aethergraph.errors import InvalidArgumentError, OutOfRangeError
from aethergraph.loading.pipeline import Views, chunked
from aethergraph.sampling.subgraph import Subgraph

NODES = 400


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(3)
    graph = Graph.from_edges(NODES, rng.integers(0, NODES, 4000), rng.integers(0, NODES, 4000))
    graph.node_attrs["x"] = rng.random((NODES, 3), np.float32)
    graph.edge_attrs["w"] = rng.random(4000)
    file = tmp_path_factory.mktemp("pipeline") / "graph.aeg"
    graph.save(file)
    return file


def without_last_edge(sample: Subgraph) -> Subgraph:
    return Subgraph(
        node=sample.node, row=sample.row[:-1], col=sample.col[:-1], edge=sample.edge[:-1],
        num_sampled_nodes=sample.num_sampled_nodes, num_sampled_edges=None,
    )  # fmt: skip


# ---- functions of users -----------------------------------------------------------------------


@pytest.mark.parametrize("storage", ["mmap", "uring"])
@pytest.mark.parametrize("plan", [0, 3])
@pytest.mark.parametrize("num_threads", [0, 1, 2])
def test_functions_behind_stages(path: Path, storage: Any, plan: int, num_threads: int) -> None:
    budget: Any = {"memory_budget": "24M"} if storage == "uring" else {}
    graph = Graph.load(path, storage=storage, **budget)
    options: dict[str, Any] = {"batch_size": 50, "seed": 2}
    threads = set()

    def doubled(batch: Any) -> Any:
        threads.add(threading.current_thread())
        batch.node_attrs["x"] *= 2
        return batch

    stages: Any = {"draw": without_last_edge, "fetch": doubled}
    loader = SubgraphLoader(
        graph, [4, 3], stages=stages, ahead=ahead_of(num_threads, plan=plan), **options
    )
    plain = SubgraphLoader(Graph.load(path), [4, 3], ahead=0, **options)
    for batch, expected in zip(loader, plain, strict=True):
        assert batch.subgraph.edge.tolist() == expected.subgraph.edge[:-1].tolist()
        assert batch.edge_attrs["w"].tolist() == expected.edge_attrs["w"][:-1].tolist()
        np.testing.assert_array_equal(batch.x, 2 * expected.x)
    assert (threading.current_thread() in threads) == (num_threads == 0)


def test_a_function_may_return_anything() -> None:
    loader = SubgraphLoader(
        make_graph(), [2], batch_size=4, stages={"fetch": lambda batch: batch.index.tolist()}
    )
    assert next(iter(loader)) == [0, 1, 2, 3]
    assert loader.collate(np.array([5, 1]), 3) == [5, 1]
    assert next(iter(loader.batches_at(0, [1]))) == [4, 5, 6, 7]


def test_a_function_behind_the_draw_of_a_typed_graph() -> None:
    kind = ("a", "to", "b")
    graph = HeteroGraph.from_edges({kind: ([0, 1, 2], [0, 0, 1])})
    graph["a"].attrs["x"] = np.arange(3.0)

    def first(sample: Any) -> Any:
        one = {name: {kind: getattr(sample, name)[kind][:1]} for name in ("row", "col", "edge")}
        return dataclasses.replace(sample, node={**sample.node, "a": sample.node["a"][:1]}, **one)

    loader = SubgraphLoader(graph, [-1], {"b": [0]}, stages={"draw": first})
    assert next(iter(loader)).x["a"].shape == (1,)


def test_what_a_function_raises_comes_in_its_place() -> None:
    def refuse(batch: Any) -> Any:
        if batch.index[0] == 8:
            raise ValueError("not these")
        return batch

    batches = iter(SubgraphLoader(make_graph(), [2], batch_size=4, stages={"fetch": refuse}))
    assert [next(batches).index[0] for _ in range(2)] == [0, 4]
    with pytest.raises(ValueError, match="not these"):
        next(batches)


def test_a_function_that_raises_stop_iteration_does_not_end_the_epoch() -> None:
    def stop(_: Any) -> Any:
        raise StopIteration

    with pytest.raises(RuntimeError, match="raised StopIteration"):
        list(SubgraphLoader(make_graph(), [2], stages={"draw": stop}))


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ({"sample": print}, "stages = 'sample' is not one of 'draw', 'fetch'|stages"),
        ({"draw": 3}, r"stages\['draw'\] must be a function, got int"),
        ([print], "stages"),
        ({3: print}, "stages"),
    ],
)
def test_stages_are_checked(stages: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        SubgraphLoader(make_graph(), [2], stages=stages)


# ---- views ------------------------------------------------------------------------------------


def live() -> DynamicGraph:
    graph = DynamicGraph(10, order="id")
    graph.insert_edges([0], [1])
    return graph


def test_batches_that_are_planned_together_are_of_one_view() -> None:
    graph, seen = live(), []
    views = Views(graph)
    assert views.advance
    for item, view in views.of_each(range(4), num_planned=2):
        graph.insert_edges([item], [5])
        with views.reading(view) as snapshot:
            assert views.take().commit == snapshot.commit
            seen.append(snapshot.num_edges)
    assert seen == [1, 1, 3, 3]
    assert [view for _, view in views.of_each(range(2), num_planned=0)] == [None, None]


def test_all_batches_of_an_epoch_are_of_one_view() -> None:
    graph = live()
    views = Views(graph, graph.snapshot())
    graph.insert_edges([3], [4])
    assert not views.advance
    with views.reading() as snapshot:
        assert snapshot.num_edges == 1


def test_a_graph_that_does_not_change_has_no_views() -> None:
    for graph in (None, make_graph(), live().snapshot()):
        views = Views(graph)
        assert not views.advance and views.take() is None
        with views.reading() as view:
            assert view is None


# ---- chunks and ends --------------------------------------------------------------------------


def test_chunks_have_the_size_that_their_first_item_asks_for() -> None:
    assert list(chunked([2, 9, 1, 3, 9], lambda first: first)) == [[2, 9], [1], [3, 9]]


def test_an_error_of_the_items_comes_behind_those_before() -> None:
    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("no third")

    chunks = chunked(items(), lambda _: 5)
    assert next(chunks) == [1, 2]
    with pytest.raises(ValueError, match="no third"):
        next(chunks)


@pytest.mark.parametrize("num_threads", [0, 1])
def test_an_end_is_in_the_thread_that_iterates_and_may_raise(num_threads: int) -> None:
    threads = []

    def finish(number: int) -> int:
        threads.append(threading.current_thread())
        if number == 1:
            raise ValueError("one")
        return number * 10

    numbers = prefetch_map(int, range(3), num_threads=num_threads).then(finish)
    assert next(numbers) == 0
    with pytest.raises(ValueError, match="one"):
        next(numbers)
    assert list(numbers) == [20]
    assert set(threads) == {threading.current_thread()}


def changed(**changes: Any) -> Any:
    """Return a stage that replaces members of a sample by functions of it."""

    def change(sample: Subgraph) -> Subgraph:
        new = {name: value(sample) for name, value in changes.items()}
        return dataclasses.replace(sample, **new)

    return change


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (lambda _: None, r"stages\['draw'\] returned a NoneType whose node is None: .* Subgraph"),
        (lambda _: 3, r"stages\['draw'\] returned a int whose node"),
        (changed(node=lambda s: s.node.tolist()), r"whose node is \[.*int64 vectors"),
        (
            changed(node=lambda s: np.append(s.node, 10**6)),
            r"stages\['draw'\]: node\[\d+\] = 1000000",
        ),
        (changed(row=lambda s: s.row + 1000), r"returned row\[0\] = \d+, which is no position"),
        (changed(col=lambda s: s.col - 99), r"returned col\[0\] = -\d+, which is no position"),
        (changed(row=lambda s: s.row[:-1]), r"returned row with \d+ entries"),
        (changed(edge=lambda s: s.edge + 10**6), r"stages\['draw'\]: edge\[0\] = 100\d+ is not in"),
    ],
)
@pytest.mark.parametrize("as_sampler", [False, True])
def test_what_a_draw_returns_is_checked(stage: Any, message: str, as_sampler: bool) -> None:
    graph = make_graph()
    options: dict[str, Any] = {"fanouts": [3], "stages": {"draw": stage}}
    if as_sampler:

        class Own:
            def sample(self, seeds: Any, key: int) -> Any:
                return stage(NeighborSampler(graph, [3]).sample(seeds, key))

        options = {"sampler": Own()}
        message = message.replace(r"stages\['draw'\]", "sampler").replace(r"\['draw'\]", "sampler")
    loader = SubgraphLoader(graph, seeds=[5, 6, 7], batch_size=3, **options)
    with pytest.raises((InvalidArgumentError, OutOfRangeError), match=message):
        next(iter(loader))


def test_a_typed_draw_without_a_type() -> None:
    kind = ("a", "to", "b")
    graph = HeteroGraph.from_edges({kind: ([0, 1, 2], [0, 0, 1])})

    def without(sample: Any) -> Any:
        return dataclasses.replace(sample, node={"b": sample.node["b"]})

    with pytest.raises(InvalidArgumentError, match=r"node\['a'\] is None: it must be a HeteroSub"):
        next(iter(SubgraphLoader(graph, [-1], {"b": [0]}, stages={"draw": without})))
    with pytest.raises(InvalidArgumentError, match="must be a HeteroSubgraph"):
        stage: Any = {"draw": lambda _: NeighborSampler(make_graph(), [1]).sample([0])}
        next(iter(SubgraphLoader(graph, [-1], {"b": [0]}, stages=stage)))


def test_a_batch_that_was_not_returned() -> None:
    loader = SubgraphLoader(make_graph(), [2], stages={"fetch": lambda batch: None})
    with pytest.raises(InvalidArgumentError, match=r"stages\['fetch'\] returned None"):
        next(iter(loader))


@pytest.mark.parametrize("nodes", [lambda s: s.node[::-1].copy(), lambda s: s.node[:1]])
def test_a_draw_whose_nodes_do_not_begin_with_the_seeds(nodes: Any) -> None:
    stages: Any = {"draw": changed(node=nodes)}
    loader = SubgraphLoader(make_graph(), [3], [5, 6, 7], batch_size=3, stages=stages)
    with pytest.raises(
        InvalidArgumentError, match=r"stages\['draw'\] must return nodes that begin"
    ):
        next(iter(loader))
