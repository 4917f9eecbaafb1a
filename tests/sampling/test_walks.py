"""Random walks: equal to the oracle in every mode, and distributed as they should be.

That storage changes nothing and that walks stay as they are: test_golden_samples.py.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import make_graph
from support.strategies import Ids, edge_lists, examples

from aethergraph import Graph, RandomWalker, errors, set_num_threads
from aethergraph import _native as native
from aethergraph.sampling.walks import random_fanout
from aethergraph.testing import walk_oracle

pytestmark = pytest.mark.any_python

keys = st.integers(0, 2**64 - 1)
rates = st.sampled_from([1.0, 0.25, 4.0, 0.5, 3.7, 1e-9, 1e12])


def lists_of(graph: Graph, direction: str) -> tuple[Any, Any, Any]:
    """indptr, indices and weights by position of the lists that a direction walks."""
    if direction == "in":
        return (*graph.csc(), graph.edge_weight)
    indptr, indices, ids = graph.csr()
    weight = graph.edge_weight
    return indptr, indices, weight if weight is None or ids is None else weight[ids]


@examples(100)
@given(
    edges=edge_lists(max_nodes=25),
    length=st.integers(0, 12),
    key=keys,
    p=rates,
    q=rates,
    restart=st.sampled_from([0.0, 0.0, 0.2, 1.0]),
    weighting=st.sampled_from(["none", "float32", "float64", "zeros"]),
    direction=st.sampled_from(["out", "in"]),
    layout=st.sampled_from(["one", "both"]),
    pad=st.booleans(),
    edge_table=st.booleans(),
    threads=st.sampled_from([0, 1, 2, 8]),
    first=st.sampled_from([0, 1, 255, 2**40]),
    data=st.data(),
)
def test_equal_to_the_oracle(
    edges: tuple[int, Ids, Ids], length: int, key: int, p: float, q: float, restart: float,
    weighting: str, direction: Any, layout: Any, pad: bool, edge_table: bool, threads: int,
    first: int, data: st.DataObject,
) -> None:  # fmt: skip
    num_nodes, src, dst = edges
    starts = data.draw(
        st.lists(st.integers(0, max(0, num_nodes - 1)), max_size=40 if num_nodes else 0)
    )
    weight = None
    if weighting != "none":
        rng = np.random.default_rng(key)
        weight = rng.random(len(src)) ** 8 * (rng.random(len(src)) < 0.7)
        weight = weight * (weighting != "zeros")
        weight = weight.astype("float32" if weighting == "float32" else "float64")
    if layout == "one":
        layout = "csr" if direction == "out" else "csc"
    graph = Graph.from_edges(num_nodes, src, dst, edge_weight=weight, layout=layout)
    walker = RandomWalker(
        graph, p=p, q=q, restart=restart, weighted=weight is not None, direction=direction,
        pad=pad, edge_table=edge_table, num_threads=threads,
    )  # fmt: skip
    indptr, indices, by_position = lists_of(graph, direction)
    expected = walk_oracle.walks(
        indptr, indices, starts, length, key,
        p=p, q=q, restart=restart, weights=by_position, pad=pad, first=first,
    )  # fmt: skip
    found = walker.walk(starts, length, key, first=first)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, expected)
    cut = data.draw(st.integers(0, len(starts)))
    parts = [
        walker.walk(starts[:cut], length, key, first=first),
        walker.walk(starts[cut:], length, key, first=first + cut),
    ]
    np.testing.assert_array_equal(np.concatenate(parts), found)


@examples(80)
@given(
    edges=edge_lists(),
    k=st.integers(0, 90),
    key=keys,
    replace=st.booleans(),
    direction=st.sampled_from(["out", "in"]),
    threads=st.sampled_from([0, 1, 2]),
    data=st.data(),
)
def test_fanouts_equal_the_oracle(
    edges: tuple[int, Ids, Ids], k: int, key: int, replace: bool, direction: Any, threads: int,
    data: st.DataObject,
) -> None:  # fmt: skip
    num_nodes, src, dst = edges
    node = st.integers(0, max(0, num_nodes - 1))
    nodes = data.draw(st.lists(node, max_size=20 if num_nodes else 0))
    graph = Graph.from_edges(num_nodes, src, dst, layout="both")
    indptr, indices, _ = lists_of(graph, direction)
    found = random_fanout(
        graph, nodes, k, replace=replace, direction=direction, num_threads=threads, key=key
    )
    np.testing.assert_array_equal(
        found, walk_oracle.fanout(indptr, indices, nodes, k, key, replace=replace)
    )


def test_long_lists_equal_the_oracle() -> None:
    """Hubs, and more walks than a block holds."""
    rng = np.random.default_rng(3)
    src = (rng.random(40_000) ** 4 * 500).astype(np.int64)
    dst = (rng.random(40_000) ** 3 * 520).astype(np.int64)
    weight = rng.random(40_000, np.float32) ** 6
    graph = Graph.from_edges(600, src, dst, edge_weight=weight, layout="csr")
    indptr, indices, weights = lists_of(graph, "out")
    starts = rng.integers(0, 600, 700)
    for options in ({}, {"p": 0.2, "q": 3.0}, {"p": 5.0, "q": 0.3, "restart": 0.1}):
        for weighted in (False, True):
            expected = walk_oracle.walks(
                indptr, indices, starts, 9, 4, weights=weights if weighted else None, **options
            )
            for threads in (1, 2, 8):
                walker = RandomWalker(graph, weighted=weighted, num_threads=threads, **options)
                np.testing.assert_array_equal(walker.walk(starts, 9, 4), expected)
    for k in (3, 64, 100, 2000):
        expected = walk_oracle.fanout(indptr, indices, starts, k, 9)
        for threads in (1, 2, 8):
            table = random_fanout(graph, starts, k, num_threads=threads, key=9)
            np.testing.assert_array_equal(table, expected)


# ---- where walks end -----------------------------------------------------------------------------


def line() -> Graph:
    return Graph.from_edges(5, [0, 1, 2], [1, 2, 3], layout="both")


def test_dead_ends() -> None:
    graph = line()
    assert RandomWalker(graph).walk([0, 3, 4], 5).tolist() == [
        [0, 1, 2, 3, 3, 3], [3] * 6, [4] * 6,
    ]  # fmt: skip
    assert RandomWalker(graph, pad=True).walk([1, 3], 3).tolist() == [
        [1, 2, 3, -1],
        [3, -1, -1, -1],
    ]
    assert RandomWalker(graph, direction="in").walk([2], 3).tolist() == [[2, 1, 0, 0]]
    assert RandomWalker(graph, restart=1e-300).walk([2], 3).tolist() == [[2, 3, 2, 3]]
    assert RandomWalker(graph, restart=1.0).walk([1], 3).tolist() == [[1, 1, 1, 1]]
    assert RandomWalker(graph).walk([], 3).shape == (0, 4)
    assert RandomWalker(graph).walk([2, 2], 0).tolist() == [[2], [2]]


def test_tiny_and_huge_weights() -> None:
    weight = np.array([1e308, 1e308, 5e-324, 0.0])
    graph = Graph.from_edges(5, [0] * 4, [1, 2, 3, 4], edge_weight=weight, layout="csr")
    walks = RandomWalker(graph, weighted=True).walk(np.zeros(20_000, int), 1, 3)
    counts = np.bincount(walks[:, 1], minlength=5)
    assert counts[0] == counts[4] == 0 and abs(counts[1] - 10_000) < 500 and counts[3] < 5


def test_extreme_rates_end() -> None:
    """No attempt succeeds where 1/p dwarfs all else and there is no way back."""
    src, dst = [0, 0, 1, 1, 1, 2, 3, 4], [1, 2, 2, 3, 4, 0, 0, 0]
    graph = Graph.from_edges(5, src, dst, layout="csr")
    walks = RandomWalker(graph, p=1e-9, q=2.0).walk(np.zeros(20_000, int), 2, 5)
    third = np.bincount(walks[walks[:, 1] == 1, 2], minlength=5)
    chances = walk_oracle.transition(*graph.csr()[:2], 0, 1, p=1e-9, q=2.0)
    assert chances.tolist() == [0, 0, 0.5, 0.25, 0.25]
    assert chi_square(third, chances) < 5
    assert RandomWalker(graph, p=1e-300, q=1e300).walk([0], 500, 1).shape == (1, 501)


# ---- distributions: chi-square tests with fixed seeds --------------------------------------------


def chi_square_parts(counts: Ids, chances: Any) -> tuple[float, int]:
    """The statistic and its degrees of freedom; what cannot be must not be."""
    assert counts[chances == 0].sum() == 0
    counts, chances = counts[chances > 0], chances[chances > 0]
    expected = counts.sum() * chances
    return float(((counts - expected) ** 2 / expected).sum()), counts.size - 1


def deviation(statistic: float, degrees: int) -> float:
    """Standard deviations from the mean."""
    return (statistic - degrees) / np.sqrt(2 * max(1, degrees))


def chi_square(counts: Ids, chances: Any) -> float:
    return deviation(*chi_square_parts(counts, chances))


def small_graph(weighted: bool) -> Graph:
    """Directed, with triangles, duplicates, self-loops and one-way edges."""
    rng = np.random.default_rng(8)
    src, dst = rng.integers(0, 12, (2, 80))
    weight = rng.random(80) + 0.05 if weighted else None
    return Graph.from_edges(12, src, dst, edge_weight=weight, layout="both")


@pytest.mark.parametrize(
    ("p", "q", "weighted", "direction"),
    [
        (1, 1, False, "out"), (1, 1, True, "in"), (0.25, 4, False, "in"), (0.25, 4, True, "out"),
        (4, 0.25, False, "out"), (4, 0.25, True, "in"), (0.5, 0.5, True, "out"),
        (1, 3, False, "out"), (2, 1, False, "in"),
    ],
)  # fmt: skip
def test_second_order_transitions(p: float, q: float, weighted: bool, direction: Any) -> None:
    graph = small_graph(weighted)
    indptr, indices, weights = lists_of(graph, direction)
    walker = RandomWalker(graph, p=p, q=q, weighted=weighted, direction=direction)
    walks = walker.walk(np.tile(np.arange(12), 1500), 12, key=1)
    triples = np.stack((walks[:, :-2].ravel(), walks[:, 1:-1].ravel(), walks[:, 2:].ravel()))
    counts = np.zeros((12, 12, 12), np.int64)
    np.add.at(counts, tuple(triples), 1)
    statistic, degrees = 0.0, 0
    for t, v in np.argwhere(counts.sum(axis=2) > 500):
        if indptr[v] == indptr[v + 1]:
            continue
        chances = walk_oracle.transition(indptr, indices, t, v, p=p, q=q, weights=weights)
        parts = chi_square_parts(counts[t, v], chances)
        statistic, degrees = statistic + parts[0], degrees + parts[1]
        assert deviation(*parts) < 8, (t, v)
    assert degrees > 100 and abs(deviation(statistic, degrees)) < 4


@pytest.mark.parametrize("weighted", [False, True])
def test_first_steps_follow_the_weights(weighted: bool) -> None:
    graph = small_graph(weighted)
    indptr, indices, weights = lists_of(graph, "out")
    walks = RandomWalker(graph, weighted=weighted, q=2.0).walk(np.repeat(np.arange(12), 5000), 1, 6)
    for v in range(12):
        chances = walk_oracle.transition(indptr, indices, v, v, weights=weights)
        counts = np.bincount(walks[walks[:, 0] == v, 1], minlength=12)
        assert chi_square(counts, chances) < 5


def test_restarts_are_as_often_as_asked() -> None:
    graph = Graph.from_edges(1000, np.arange(1000), (np.arange(1000) + 1) % 1000, layout="csr")
    walks = RandomWalker(graph, restart=0.2).walk(np.full(5000, 500), 40, 2)
    share = (walks[:, 1:] == 500).mean()
    assert abs(share - 0.2) < 0.005


def test_walks_and_steps_draw_independently() -> None:
    degree = 16
    graph = Graph.from_edges(
        degree, np.repeat(np.arange(degree), degree), np.tile(np.arange(degree), degree),
        layout="csr",
    )  # fmt: skip
    walks = RandomWalker(graph).walk(np.zeros(4000, int), 20, 3)[:, 1:]
    even = np.full(degree * degree, 1 / degree**2)
    for a, b in ((walks[:, :-1], walks[:, 1:]), (walks[:-1], walks[1:])):
        pairs = np.bincount((a * degree + b).ravel(), minlength=degree**2)
        assert abs(chi_square(pairs, even)) < 5


# ---- keys, threads, files ------------------------------------------------------------------------


@pytest.mark.parametrize("direction", ["out", "in"])
def test_starts_that_another_thread_overwrites(full_graph: Graph, direction: Any) -> None:
    """There is an error, or walks from the nodes of one moment: those that were checked."""
    starts, stop = np.zeros(100_000, np.int64), threading.Event()
    walker = RandomWalker(full_graph, direction=direction)
    calls: list[Callable[[], Ids]] = [
        lambda: walker.walk(starts, 2, 1)[:, 0],
        lambda: random_fanout(full_graph, starts, 1, direction=direction, key=1)[:, 0],
    ]

    def overwrite() -> None:
        while not stop.is_set():
            starts.fill(1 << 40)
            starts.fill(0)

    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit(overwrite)
        try:
            for call in calls * 20:
                with suppress(errors.OutOfRangeError):
                    assert (call() < full_graph.num_nodes).all()
        finally:
            stop.set()
        writer.result()


def test_keys_decide() -> None:
    graph = make_graph(layout="csr")
    walker = RandomWalker(graph, seed=3)
    starts = np.arange(100)
    np.testing.assert_array_equal(walker.walk(starts, 5, -1), walker.walk(starts, 5, 2**64 - 1))
    calls = [walker.walk(starts, 5).tolist() for _ in range(3)]
    assert calls[0] != calls[1] != calls[2]
    again = RandomWalker(graph, seed=3)
    assert [again.walk(starts, 5).tolist() for _ in range(3)] == calls
    one, two = (random_fanout(graph, starts, 3).tolist() for _ in range(2))
    assert one != two
    assert (
        graph.batch_random_walk(starts, 9).tolist() != graph.batch_random_walk(starts, 9).tolist()
    )


def test_pickling_and_closing_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "g.aeg"
    src, dst = np.random.default_rng(1).integers(0, 200, (2, 3000))
    weight = np.random.default_rng(2).random(3000)
    Graph.from_edges(200, src, dst, edge_weight=weight, layout="both").save(path)
    options: dict[str, Any] = {"p": 0.5, "q": 2, "weighted": True, "restart": 0.05, "seed": 4}
    walker = RandomWalker(Graph.load(path), **options)
    expected = walker.walk(np.arange(200), 15, 5)
    copied = pickle.loads(pickle.dumps(walker))
    assert repr(copied) == repr(walker)
    np.testing.assert_array_equal(copied.walk(np.arange(200), 15, 5), expected)
    walker.graph.close()
    np.testing.assert_array_equal(walker.walk(np.arange(200), 15, 5), expected)


def test_tables_are_made_once() -> None:
    graph = Graph.from_edges(3, [0, 1], [1, 2], edge_weight=[1.0, 2.0], layout="both")
    assert graph.alias_table() is graph.alias_table()
    assert graph.member_table() is graph.member_table()
    assert graph.alias_table("csc") is not graph.alias_table("csr")


# ---- GraphZero's names ---------------------------------------------------------------------------


def test_graphzero_names() -> None:
    graph = line()
    assert graph.batch_random_walk_uniform(start_nodes=[0], walk_length=2).tolist() == [[0, 1, 2]]
    assert graph.batch_random_walk([0], 4, 0.5, 2.0).tolist() == [[0, 1, 2, 3, 3]]
    assert graph.batch_random_fanout([0, 3], 2).tolist() == [[1, -1], [-1, -1]]
    many = make_graph(layout="csr")
    starts = np.arange(200).tolist()
    walks = many.batch_random_walk(starts, 8, p=0.5, q=2.0, key=3)
    np.testing.assert_array_equal(walks, RandomWalker(many, p=0.5, q=2).walk(starts, 8, 3))
    table = many.batch_random_fanout(starts, 4, key=3)
    np.testing.assert_array_equal(table, random_fanout(many, starts, 4, key=3))


def test_weights_count_where_graphzero_counts_them() -> None:
    graph = Graph.from_edges(3, [0, 0], [1, 2], edge_weight=[1.0, 0.0], layout="csr")
    starts = np.zeros(200, np.int64)
    assert set(graph.batch_random_walk(starts, 1)[:, 1].tolist()) == {1}
    assert set(graph.batch_random_walk_uniform(starts, 1)[:, 1].tolist()) == {1, 2}


# ---- what cannot be ------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [
    {"p": 0}, {"p": -1.0}, {"q": float("nan")}, {"q": float("inf")}, {"p": 1e-320}, {"p": "much"},
    {"restart": -0.1}, {"restart": 1.1}, {"restart": float("nan")}, {"direction": "sideways"},
    {"num_threads": 257}, {"seed": 1.5}, {"weighted": True}, {"p": None},
])  # fmt: skip
def test_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=next(iter(options))[:5]):
        RandomWalker(line(), **options)


def test_bad_starts() -> None:
    walker = RandomWalker(line())
    for starts, at, value in (([0, 5], 1, 5), ([0, 1, -1], 2, -1)):
        with pytest.raises(errors.OutOfRangeError, match=rf"starts\[{at}\] = {value}") as caught:
            walker.walk(starts, 3)
        assert (caught.value.position, caught.value.value) == (at, value)
        for call in (line().batch_random_walk, line().batch_random_walk_uniform,
                     line().batch_random_fanout):  # fmt: skip
            with pytest.raises(errors.OutOfRangeError, match=rf"start_nodes\[{at}\] = {value}"):
                call(starts, 2)
        with pytest.raises(errors.OutOfRangeError, match=rf"nodes\[{at}\] = {value}"):
            random_fanout(line(), starts, 2)
    with pytest.raises(errors.InvalidArgumentError, match="length"):
        walker.walk([0], -1)
    with pytest.raises(errors.InvalidArgumentError, match="starts must hold integers"):
        walker.walk([0.5], 1)
    with pytest.raises(errors.InvalidArgumentError, match="first = 3 needs the key of all walks"):
        walker.walk([0], 3, first=3)
    with pytest.raises(errors.InvalidArgumentError, match="first"):
        walker.walk([0], 3, 1, first=-1)
    with pytest.raises(errors.InvalidArgumentError, match="walk_length"):
        line().batch_random_walk([0], -3)
    with pytest.raises((errors.LimitError, errors.OutOfMemoryError)):
        walker.walk([0, 1], 2**62)
    with pytest.raises((errors.LimitError, errors.OutOfMemoryError)):
        random_fanout(line(), [0, 1], 2**62)


def test_missing_lists_name_the_layout() -> None:
    backward = Graph.from_edges(3, [0], [1])
    forward = Graph.from_edges(3, [0], [1], layout="csr")
    calls: list[tuple[str, Any]] = [
        ("in", lambda: RandomWalker(backward)),
        ("in", lambda: backward.batch_random_walk([0], 1)),
        ("in", lambda: backward.batch_random_walk_uniform([0], 1)),
        ("in", lambda: backward.batch_random_fanout([0], 1)),
        ("out", lambda: RandomWalker(forward, direction="in")),
        ("out", lambda: random_fanout(forward, [0], 1, direction="in")),
    ]
    for other, call in calls:
        text = f"layout='both'; or follow the lists that are there.*take direction='{other}'"
        with pytest.raises(errors.LayoutError, match=text):
            call()
    RandomWalker(backward, direction="in")
    with pytest.raises(errors.InvalidArgumentError, match="must be a Graph"):
        RandomWalker(3)  # type: ignore[arg-type]


def test_damaged_ids_and_weights_are_named() -> None:
    indptr, indices = np.array([0, 2, 2], np.uint64), np.array([1, 9], np.uint32)
    topology = native.NativeTopology(indptr, indices, None, 2)
    options: dict[str, Any] = {"alias": None, "members": None, "pad": False, "num_threads": 0}
    for p in (1.0, 2.0):
        walker = native.NativeWalker(topology, p=p, q=1.0, restart=0.0, **options)
        with pytest.raises(errors.CorruptFileError, match="neighbour 9"):
            walker.walk(np.zeros(50, np.int64), 3, 1, 0)
    with pytest.raises(errors.CorruptFileError, match="neighbour 9"):
        native.build_members(topology)
    with pytest.raises(errors.InvalidArgumentError, match="edge 1 is -2") as caught:
        native.build_alias(topology, np.array([1.0, -2.0]), None)
    assert caught.value.position == 1
    with pytest.raises(errors.InvalidArgumentError, match="weight"):
        native.build_alias(topology, np.array([np.inf, 2.0], np.float32), None)


def test_a_file_made_shorter_is_named(tmp_path: Path) -> None:
    path = tmp_path / "g.aeg"
    src, dst = np.random.default_rng(1).integers(0, 20_000, (2, 200_000))
    Graph.from_edges(20_000, src, dst, layout="csr").save(path)
    walker = RandomWalker(Graph.load(path))
    with path.open("r+b") as file:
        file.truncate(8192)
    with pytest.raises(errors.FileChangedError):
        walker.walk(np.arange(20_000), 5)
    with pytest.raises(errors.FileChangedError):
        random_fanout(walker.graph, np.arange(20_000), 5)


@pytest.fixture(autouse=True)
def _default_threads() -> Any:
    yield
    set_num_threads(0)
