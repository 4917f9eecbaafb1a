"""Draws by weight from hubs that change: those of a static graph of the same edges, bit for bit."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import examples

from aethergraph import DynamicGraph, Graph, NeighborSampler, errors

pytestmark = pytest.mark.any_python

NODES = 3000
HUBS = 3
KINDS: dict[str, dict[str, Any]] = {
    "id": {"order": "id"},
    "arrival": {"order": "time"},
    "time": {"order": "time", "edge_time": "int64"},
}


def edges(kind: str, count: int, seed: int) -> tuple[Any, dict[str, Any]]:
    """Return edges into hubs, with weights of which no two orders have quite the same sum."""
    rng = np.random.default_rng(seed)
    ends = np.array([rng.integers(0, NODES, count), rng.integers(0, HUBS, count)])
    weight = (rng.exponential(size=count) * 2.0 ** -rng.integers(0, 30, count)).astype(np.float32)
    weight[rng.random(count) < 0.1] = 0
    columns: dict[str, Any] = {"weight": weight}
    if kind == "time":
        columns["time"] = rng.integers(0, 1000, count)
        if seed % 2:
            columns["time"].sort()
    return ends, columns


def assert_same_draws(live: Any, copy: Graph, key: int, timed: bool) -> None:
    seeds = np.arange(HUBS)
    for options in ({}, {"replace": True}, {"disjoint": True}):
        for count in (1, 10, 90):
            how: dict[str, Any] = {"weight_attr": "edge_weight", **options}
            call: dict[str, Any] = {}
            if timed and "disjoint" in options:
                how["time_attr"] = "edge_time"
                call["seed_time"] = np.array([100, 500, 900])
            found = NeighborSampler(live, [count], **how).sample(seeds, key, **call)
            wanted = NeighborSampler(copy, [count], **how).sample(seeds, key, **call)
            np.testing.assert_array_equal(found.node, wanted.node)
            np.testing.assert_array_equal(found.row, wanted.row)
            np.testing.assert_array_equal(found.col, wanted.col)


@examples(15)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    changes=st.lists(
        st.tuples(
            st.sampled_from(["insert", "insert", "delete", "undo"]),
            st.sampled_from([1, 70, 4000]),
            st.integers(0, 2**32),
        ),
        min_size=1,
        max_size=6,
    ),
    key=st.integers(0, 2**64 - 1),
)
def test_draws_from_hubs(kind: str, changes: list[tuple[str, int, int]], key: int) -> None:
    graph = DynamicGraph(NODES, 64, layout="csc", edge_weight="float32", **KINDS[kind])
    ends, columns = edges(kind, 6000, 0)
    graph.insert_edges(*ends, **columns)
    kept = []
    for what, count, seed in changes:
        ends, columns = edges(kind, count, seed)
        if what == "insert":
            graph.insert_edges(*ends, **columns)
        elif what == "delete":
            graph.delete_edges(*ends)
        else:
            with pytest.raises(ZeroDivisionError), graph.transaction():
                graph.insert_edges(*ends, **columns)
                graph.delete_edges(*edges(kind, 40, seed + 1)[0])
                raise ZeroDivisionError
        snapshot, copy = graph.snapshot(), graph.to_graph()
        assert_same_draws(snapshot, copy, key, kind == "time")
        kept.append((snapshot, copy))
    for snapshot, copy in kept:
        assert_same_draws(snapshot, copy, key, kind == "time")


def save_base(kind: str, path: Path) -> None:
    rng = np.random.default_rng(1)
    pairs = rng.permutation(NODES * HUBS)[:6000]
    _, columns = edges(kind, len(pairs), 1)
    columns = {f"edge_{name}": values for name, values in columns.items()}
    Graph.from_edges(
        NODES, pairs // HUBS, pairs % HUBS, sort_neighbors=kind == "id", **columns
    ).save(path)


@pytest.mark.parametrize(
    ("kind", "storage"),
    [("id", "mmap"), ("arrival", "memory"), ("time", "mmap"), ("time", "uring")],
)
def test_draws_from_hubs_over_a_base(kind: str, storage: Any, tmp_path: Path) -> None:
    save_base(kind, tmp_path / "base.aeg")
    with DynamicGraph.open(
        tmp_path / "grown.aegd",
        arena_mb=64,
        base=tmp_path / "base.aeg",
        storage=storage,
        order=KINDS[kind]["order"],
    ) as graph:
        with graph.snapshot() as now:
            assert_same_draws(now, graph.to_graph(), 1, kind == "time")
        for seed in range(2, 6):
            ends, columns = edges(kind, 300, seed)
            ends[1] = np.where(ends[1] == 2, 1, ends[1])  # hub 2 stays as it was
            graph.insert_edges(*ends, **columns)
            graph.delete_edges(*(edges(kind, 30, seed)[0] % [[NODES], [2]]))
            with graph.snapshot() as now:
                assert_same_draws(now, graph.to_graph(), seed, kind == "time")
            if seed == 3:
                graph.merge()


def test_sums_of_a_base_go_on_with_its_readers(tmp_path: Path) -> None:
    """In other processes, through merges, and for whoever drew before."""
    save_base("time", tmp_path / "base.aeg")
    ends, columns = edges("time", 3000, 9)
    with DynamicGraph.open(tmp_path / "g", base=tmp_path / "base.aeg", arena_mb=64) as graph:
        reader = pickle.loads(pickle.dumps(graph))
        sampler = NeighborSampler(reader, [10], weight_attr="edge_weight")
        for _ in range(2):
            graph.insert_edges(*ends, **columns)
            graph.merge()
            copy = NeighborSampler(graph.to_graph(), [10], weight_attr="edge_weight")
            found, wanted = sampler.sample([0, 1, 2], 5), copy.sample([0, 1, 2], 5)
            np.testing.assert_array_equal(found.node, wanted.node)


def test_bad_weights_of_a_base_are_named_where_they_are_drawn_by(tmp_path: Path) -> None:
    weight = np.ones(300, np.float32)
    Graph.from_edges(400, np.arange(300), np.zeros(300, int), edge_weight=weight).save(
        tmp_path / "base.aeg"
    )
    content = bytearray((tmp_path / "base.aeg").read_bytes())
    at = content.rindex(weight.tobytes())
    content[at + 4 * 7 : at + 4 * 8] = np.float32(-1).tobytes()
    (tmp_path / "base.aeg").write_bytes(content)
    with DynamicGraph.open(tmp_path / "g", base=tmp_path / "base.aeg", arena_mb=4) as graph:
        assert graph.in_degrees([0]).tolist() == [300]  # nobody has asked for weights
        with pytest.raises(errors.InvalidArgumentError, match=r"7.*-1"):
            NeighborSampler(graph, [3], weight_attr="edge_weight")
