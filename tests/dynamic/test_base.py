"""Live graphs over a graph file: the same as if its edges had been inserted one by one."""

from __future__ import annotations

import gc
import json
import os
import pickle
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.processes import in_fork
from support.strategies import examples
from support.threads import comes, repeating, running

from aethergraph import (
    DynamicGraph,
    DynamicHeteroGraph,
    Graph,
    HeteroGraph,
    NeighborSampler,
    SubgraphLoader,
    errors,
)
from aethergraph.dynamic.history import History

pytestmark = pytest.mark.any_python

NODES = 60
STORAGES: list[dict[str, Any]] = [
    {"storage": "mmap"},
    {"storage": "memory"},
    {"storage": "uring", "memory_budget": "64M"},
]
#: What edges have, and the order of the live graph.
KINDS = {"plain": "time", "full": "time", "sorted": "id", "csc": "time"}


def base_graph(kind: str, num_edges: int = 1200, seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    src = rng.integers(0, NODES - 2, num_edges)
    dst = np.minimum(rng.zipf(1.4, num_edges) - 1, NODES - 5)  # a hub, and nodes without edges
    if kind == "sorted":
        src, dst = np.unique(np.stack([src, dst]), axis=1)
    options: dict[str, Any] = {}
    if kind == "full":
        options = {
            "edge_time": rng.permutation(num_edges),
            "edge_weight": rng.random(num_edges, np.float32),
            "edge_attrs": {"m": rng.random((num_edges, 2), np.float32)},
        }
    graph = Graph.from_edges(
        NODES, src, dst, layout="csc" if kind == "csc" else "both",
        sort_neighbors=kind == "sorted", **options,
    )  # fmt: skip
    graph.features = rng.random((NODES, 3), np.float32)
    return graph


def twin_of(graph: Graph, kind: str) -> DynamicGraph:
    """Return a live graph in memory that the edges of the base were inserted into, by id."""
    options: dict[str, Any] = {"layout": graph.layout, "order": KINDS[kind]}
    if kind == "full":
        options |= {
            "edge_time": "int64", "edge_weight": "float32", "edge_attrs": {"m": ((2,), "float32")},
        }  # fmt: skip
    twin = DynamicGraph(NODES, 16, huge_pages=False, **options)
    src, dst, ids = graph.edge_list()
    order = np.argsort(ids)
    values = graph.edge_values
    with twin.transaction():
        twin.insert_edges(
            src[order], dst[order],
            time=values["edge_time"].gather(ids[order]) if kind == "full" else None,
            weight=values["edge_weight"].gather(ids[order]) if kind == "full" else None,
            edge_attrs={n: r.gather(ids[order]) for n, r in graph.edge_attrs.items()},
        )  # fmt: skip
    assert graph.features is not None
    twin.features = graph.features.read(0, NODES)
    return twin


def over_base(folder: Path, **options: Any) -> DynamicGraph:
    """Return a new live graph in a folder, over its file base.aeg."""
    return DynamicGraph.open(
        folder / "g", arena_mb=16, base=folder / "base.aeg", huge_pages=False, **options
    )


def lists_of(graph: Any) -> dict[str, Any]:
    now = graph.pinned()
    nodes = np.arange(now.num_nodes)
    edges = np.sort(np.concatenate([now.in_edges(v) for v in nodes]))
    rows = {**now.edge_values, **now.edge_attrs}
    found = {
        "in": [(now.in_neighbors(v).tolist(), now.in_edges(v).tolist()) for v in nodes],
        "end": now.end_edge_ids,
        "nodes": {name: r.gather(nodes).tolist() for name, r in now.node_attrs.items()},
        "edges": {name: r.gather(edges).tolist() for name, r in rows.items()},
    }
    if now.layout == "both":
        # Without times a file has out-edges in the order of its input, the twin by id.
        found["out"] = [sorted(zip(now.neighbors(v), now.out_edges(v), strict=True)) for v in nodes]
    return found


def change(graph: DynamicGraph, rng: np.random.Generator, kind: str, clock: int) -> None:
    """Insert at the end, into the middle and at the hub, delete some, add a node."""
    count = int(rng.integers(1, 40))
    src, dst = rng.integers(0, graph.num_nodes, (2, count))
    dst[: count // 2] = 0
    values: dict[str, Any] = {}
    if kind == "full":
        times = np.where(rng.random(count) < 0.5, clock + np.arange(count), rng.integers(0, clock))
        values = {
            "time": times, "weight": rng.random(count, np.float32),
            "edge_attrs": {"m": rng.random((count, 2), np.float32)},
        }  # fmt: skip
    with graph.transaction():
        graph.insert_edges(src, dst, **values)
        now = graph.snapshot()
        picked = rng.integers(0, 30, 6)
        for v in picked:
            found = now.in_neighbors(v)
            gone = found[:: max(1, len(found) // 3)][:5]
            graph.delete_edges(gone, np.full_like(gone, v))
        if rng.random() < 0.3:
            graph.add_nodes(1, x=rng.random((1, 3), np.float32))
        graph.update_nodes(rng.integers(0, NODES, 3), x=rng.random((3, 3), np.float32))


@pytest.mark.parametrize("kind", KINDS)
@examples(6)
@given(
    where=st.sampled_from(STORAGES), seed=st.integers(0, 10_000),
    plan=st.lists(st.sampled_from(["", "merge", "reopen"]), max_size=5),
)  # fmt: skip
def test_it_is_what_the_same_edges_in_memory_are(
    tmp_path_factory: pytest.TempPathFactory, kind: str, where: dict[str, Any], seed: int,
    plan: list[str],
) -> None:  # fmt: skip
    folder = tmp_path_factory.mktemp("base")
    base = base_graph(kind, seed=seed)
    base.save(folder / "base.aeg")
    twin = twin_of(base, kind)
    graph = over_base(folder, order=KINDS[kind], **where)
    for number, then in enumerate(["", *plan]):
        for each in (twin, graph):
            change(each, np.random.default_rng(seed + number), kind, 5000 + 100 * number)
        if then == "merge":
            graph.merge()
        elif then == "reopen":
            graph.close()
            graph = DynamicGraph.open(folder / "g", arena_mb=16, huge_pages=False, **where)
        assert lists_of(graph) == lists_of(twin)
    static = graph.to_graph()
    for key in range(3):
        options = {"weight_attr": "edge_weight" if kind == "full" else None}
        live, copy = (
            NeighborSampler(one, [5, 3], **options).sample(np.arange(0, NODES, 3), key=key)
            for one in (graph, static)
        )
        assert live.node.tolist() == copy.node.tolist()
        assert live.row.tolist() == copy.row.tolist()
    graph.close()


def test_a_directory_remembers_that_its_first_edges_have_the_ids_of_a_file(tmp_path: Path) -> None:
    base_graph("plain").save(tmp_path / "base.aeg")
    graph = over_base(tmp_path)
    begun = DynamicGraph.open(tmp_path / "empty", NODES, arena_mb=16, huge_pages=False)
    for then in ("", "merge", "merge", "reopen", "merge"):
        for each in (graph, begun):
            each.insert_edges([1], [2])
            if then == "merge":
                each.merge()
        if then == "reopen":
            graph.close()
            graph = DynamicGraph.open(tmp_path / "g", arena_mb=16, huge_pages=False)
        assert graph.renumbers_edges and graph.snapshot().renumbers_edges
        for reader in (DynamicGraph.attach(tmp_path / "g"), pickle.loads(pickle.dumps(graph))):
            assert reader.renumbers_edges
            reader.close()
        with History(tmp_path / "g", 16) as history:
            assert history.last().renumbers_edges
        assert not begun.renumbers_edges and not begun.snapshot().renumbers_edges
    current = json.loads((tmp_path / "g" / "CURRENT").read_text())
    assert current["renumbers_edges"] is True
    assert "renumbers_edges" not in json.loads((tmp_path / "empty" / "CURRENT").read_text())
    begun.close()
    graph.close()
    # As an older build has left it.
    del current["renumbers_edges"], current["checksum"]
    (tmp_path / "g" / "CURRENT").write_text(json.dumps(current))
    with DynamicGraph.open(tmp_path / "g", arena_mb=16, huge_pages=False) as old:
        assert not old.renumbers_edges


@pytest.mark.parametrize("where", STORAGES[::2], ids=lambda w: w["storage"])
def test_loaders_sample_coming_batches_together(tmp_path: Path, where: dict[str, Any]) -> None:
    base_graph("plain").save(tmp_path / "base.aeg")
    graph = over_base(tmp_path, **where)
    change(graph, np.random.default_rng(3), "plain", 0)
    static = graph.to_graph()
    assert (graph.paging is not None) == (where["storage"] == "uring")
    batches = [
        list(SubgraphLoader(one, [5, 3], np.arange(NODES), batch_size=7, seed=1))
        for one in (graph, static)
    ]
    assert len(batches[0]) == 9
    for live, copy in zip(*batches, strict=True):
        assert live.subgraph.node.tolist() == copy.subgraph.node.tolist()
        assert live.subgraph.col.tolist() == copy.subgraph.col.tolist()
        assert live.node_attrs["x"].tolist() == copy.node_attrs["x"].tolist()
    graph.close()


def test_other_processes_read_it(tmp_path: Path) -> None:
    base_graph("full").save(tmp_path / "base.aeg")
    graph = over_base(tmp_path)
    change(graph, np.random.default_rng(1), "full", 5000)
    expected = lists_of(graph)
    attached, unpickled = DynamicGraph.attach(tmp_path / "g"), pickle.loads(pickle.dumps(graph))
    assert lists_of(attached) == expected
    assert lists_of(unpickled) == expected
    change(graph, np.random.default_rng(2), "full", 6000)
    assert lists_of(attached) == lists_of(graph)
    assert lists_of(unpickled) == lists_of(graph)
    graph.close()


def test_snapshots_stay_as_they_were(tmp_path: Path) -> None:
    base_graph("sorted").save(tmp_path / "base.aeg")
    graph = over_base(tmp_path, order="id")
    held = [(graph.snapshot(), lists_of(graph))]
    for number in range(5):
        change(graph, np.random.default_rng(number), "sorted", 0)
        held.append((graph.snapshot(), lists_of(graph)))
    for snapshot, expected in held:
        assert lists_of(snapshot) == expected
    changed = held[-1][0].changed(since=held[0][0])
    for node in range(NODES):
        same = held[0][1]["in"][node] == held[-1][1]["in"][node]
        assert same or node in changed
    graph.close()


def test_a_transaction_that_fails_leaves_the_base(tmp_path: Path) -> None:
    base_graph("plain").save(tmp_path / "base.aeg")
    graph = over_base(tmp_path)
    expected = lists_of(graph)
    for number in range(3):
        with pytest.raises(ZeroDivisionError), graph.transaction():
            graph.insert_edges([1, 2, 3], [0, 5, NODES - 1])
            gone = graph.in_neighbors(0)[number::7]
            graph.delete_edges(gone, np.zeros_like(gone))
            raise ZeroDivisionError
        assert lists_of(graph) == expected
    graph.close()
    graph = DynamicGraph.open(tmp_path / "g", arena_mb=16, huge_pages=False)
    assert lists_of(graph) == expected
    graph.close()


def test_typed(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    edges = {
        ("a", "to", "b"): (rng.integers(0, 20, 300), rng.integers(0, 30, 300)),
        ("b", "of", "a"): (rng.integers(0, 30, 40), rng.integers(0, 20, 40)),
        ("b", "no", "b"): (np.array([], int), np.array([], int)),
    }
    base = HeteroGraph.from_edges(edges, {"a": 20, "b": 30}, layout="both")
    base["a"].features = rng.random((20, 2), np.float32)
    base.save(tmp_path / "base.aeg")
    graph = DynamicHeteroGraph.open(
        tmp_path / "g", arena_mb=16, base=tmp_path / "base.aeg", huge_pages=False
    )
    twin = DynamicHeteroGraph({"a": 20, "b": 30}, list(edges), 16, order="time", huge_pages=False)
    for name in edges:
        src, dst, ids = base[name].edge_list()
        twin[name].insert(src[np.argsort(ids)], dst[np.argsort(ids)])
    for then in ("", "merge", "reopen"):
        for one in (graph, twin):
            with one.transaction():
                one["a", "to", "b"].insert([1, 2], [3, 3])
                one["b", "no", "b"].insert([1, 2], [3, 3])
                one["b", "of", "a"].delete([0, 1, 2], [0, 1, 2])
        if then == "merge":
            graph.merge()
        if then == "reopen":
            graph.close()
            graph = DynamicHeteroGraph.open(tmp_path / "g", arena_mb=16, huge_pages=False)
        for name in edges:
            for v in range(graph.num_nodes[name[2]]):
                assert graph[name].in_neighbors(v).tolist() == twin[name].in_neighbors(v).tolist()
                assert graph[name].in_edges(v).tolist() == twin[name].in_edges(v).tolist()
    assert graph["a"].attrs["x"].read(0, 20).tolist() == base["a"].attrs["x"].read(0, 20).tolist()
    graph.close()


def test_bases_that_do_not_do(tmp_path: Path) -> None:
    base = tmp_path / "base.aeg"

    def opened(**options: Any) -> DynamicGraph:
        return DynamicGraph.open(tmp_path / "g", arena_mb=16, base=base, **options)

    Graph.from_edges(3, [0, 1, 0], [2, 2, 2], layout="both").save(base)
    with pytest.raises(errors.InvalidArgumentError, match="in-neighbours of node 2 do not ascend"):
        opened(order="id")
    with pytest.raises(errors.InvalidArgumentError, match="num_vertices = 4, but"):
        opened(num_vertices=4)
    with pytest.raises(errors.InvalidArgumentError, match="edge_weight = None, not 'float32'"):
        opened(edge_weight="float32")
    with pytest.raises(errors.InvalidArgumentError, match="edge_weight = None, not 'float32'"):
        DynamicHeteroGraph.open(tmp_path / "g", base=base, arena_mb=16, edge_weight="float32")
    Graph.from_edges(3, [0, 1], [2, 2], edge_weight=np.ones(2)).save(base)
    with pytest.raises(errors.UnsupportedError, match="edge_weight of dtype float64"):
        opened()
    Graph.from_edges(3, [0, 1], [2, 2], edge_time=[4, 5]).save(base)
    with pytest.raises(errors.InvalidArgumentError, match="order='time'"):
        opened(order="id")
    HeteroGraph.from_edges({}, {"a": 3}).save(tmp_path / "none.aeg")
    with pytest.raises(errors.InvalidArgumentError, match=r"none\.aeg has no edge types"):
        DynamicHeteroGraph.open(tmp_path / "g", base=tmp_path / "none.aeg", arena_mb=16)
    assert not (tmp_path / "g").exists()
    graph = opened()
    with pytest.raises(errors.InvalidArgumentError, match="is the base of this live graph"):
        graph.save(base)
    for name in ("graph.json", "new.aeg"):
        with pytest.raises(errors.InvalidArgumentError, match="the directory of a live graph"):
            graph.save(tmp_path / "g" / name)
    held = graph.snapshot()
    graph.close()
    for call in (graph.merge, graph.flush, lambda: graph.offsets("s")):
        with pytest.raises(errors.ClosedError):
            call()
    DynamicGraph.open(tmp_path / "g", arena_mb=16).close()  # though a snapshot is held
    assert held.num_edges == 2
    with pytest.raises(errors.InvalidArgumentError, match="holds a live graph already"):
        opened()
    Graph.from_edges(3, [0, 1], [2, 1], edge_time=[4, 5]).save(base)
    with pytest.raises(errors.FileChangedError, match="another file than the one"):
        DynamicGraph.open(tmp_path / "g", arena_mb=16)
    os.unlink(base)
    with pytest.raises(errors.MissingFileError, match="base"):
        DynamicGraph.open(tmp_path / "g", arena_mb=16)


@pytest.mark.forks
def test_a_merge_frees_memory_and_readers_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aethergraph._native.live._LOOK_SECONDS", 0)
    rng = np.random.default_rng(5)
    graph = DynamicGraph.open(tmp_path / "g", NODES, arena_mb=16, order="time", huge_pages=False)
    graph.features = rng.random((NODES, 3), np.float32)
    attached, unpickled = DynamicGraph.attach(tmp_path / "g"), pickle.loads(pickle.dumps(graph))
    held = []
    for number in range(4):
        graph.insert_edges(*rng.integers(0, NODES, (2, 20_000)))
        with pytest.raises(ZeroDivisionError), graph.transaction():  # uses up a number
            raise ZeroDivisionError
        graph.update_nodes([1, 2], x=rng.random((2, 3), np.float32))
        held.append((graph.snapshot(), lists_of(graph)))
        before, commit = graph.stats().used_bytes, graph.commit
        graph.merge()
        assert graph.commit == commit
        assert graph.stats().used_bytes < before / 10
        assert graph.stats().oldest_commit == held[0][0].commit
        graph.insert_edge(number, number)
        for one in (attached, unpickled):
            assert lists_of(one) == lists_of(graph)
            assert one.commit == graph.commit
    now = graph.snapshot()
    assert now.changed(since=commit).tolist() == [3]
    with pytest.raises(errors.UnsupportedError, match="was merged at commit"):
        now.changed(since=held[0][0])
    for snapshot, expected in held:
        assert lists_of(snapshot) == expected
    held.clear()
    del snapshot, expected
    gc.collect()
    assert graph.stats().oldest_commit == now.commit
    for one in (attached, unpickled):  # without being asked for numbers
        assert one.in_neighbors(3).tolist() == graph.in_neighbors(3).tolist()
        assert not one._store.live._former
    begun, begins = os.pipe()

    def follow() -> bool:
        os.write(begins, b".")
        graph.snapshot()
        return comes(lambda: graph.num_edges == now.num_edges + 1)

    def write() -> None:
        os.read(begun, 1)
        graph.merge()
        graph.insert_edge(7, 7)

    with running(write):
        assert in_fork(follow)
    graph.close()


def test_writers_and_loaders_go_on_beside_merges(tmp_path: Path) -> None:
    graph = DynamicGraph.open(tmp_path / "g", NODES, arena_mb=512, order="time", huge_pages=False)
    graph.insert_edges(*np.random.default_rng(0).integers(0, NODES, (2, 1000)))

    def load() -> None:
        for batch in SubgraphLoader(graph, [5, 3], np.arange(NODES), batch_size=20):
            assert batch.subgraph.node.max() < NODES

    def write() -> None:
        graph.insert_edges(np.arange(NODES), np.arange(NODES)[::-1])
        time.sleep(0.001)  # lists that readers hold add up

    with repeating(load, load, write):
        for _ in range(8):
            graph.merge()
            time.sleep(0.02)
    expected = lists_of(graph)
    graph.close()
    with DynamicGraph.open(tmp_path / "g", arena_mb=512, huge_pages=False) as again:
        assert lists_of(again) == expected


def test_an_interrupted_merge_goes_on_logging(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = DynamicGraph.open(tmp_path / "g", NODES, arena_mb=16, order="time", huge_pages=False)
    graph.insert_edges([1, 2], [3, 4])

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(graph._store), "make_lists", interrupt)
        with pytest.raises(KeyboardInterrupt):
            graph.merge()
    graph.insert_edges([5], [6])
    graph.close()
    with DynamicGraph.open(tmp_path / "g", arena_mb=16, huge_pages=False) as again:
        assert again.num_edges == 3


def test_an_attribute_that_cannot_go_on_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = {"edge_id": np.array([10, 20]), "k": np.array([1, 2])}
    Graph.from_edges(5, [0, 1], [1, 2], edge_attrs=rows).save(tmp_path / "base.aeg")
    graph = DynamicGraph.open(tmp_path / "g", arena_mb=16, base=tmp_path / "base.aeg")
    assert list(graph.edge_attrs) == ["k"]
    assert "base.aeg: the attribute 'edge_id'" in caplog.text
    graph.close()


def test_static_graphs_stay_out_of_a_live_directory(tmp_path: Path) -> None:
    with DynamicGraph.open(tmp_path / "live", num_vertices=3) as graph:
        graph.insert_edge(0, 1)
        graph.merge()
    static = Graph.from_edges(3, [0, 1], [1, 2])
    typed = HeteroGraph.from_edges({("a", "to", "a"): ([0], [1])}, {"a": 2})
    for write in (
        lambda: static.save(tmp_path / "live" / "x.aeg"),
        lambda: typed.save(tmp_path / "live" / "gen-000001.aeg"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match="the directory of a live graph"):
            write()
    with DynamicGraph.open(tmp_path / "live") as graph:
        assert graph.num_edges == 1
    (tmp_path / "graph.json").write_text('{"nodes": []}')  # of networkx, say
    static.save(tmp_path / "x.aeg")


def test_another_file_in_the_place_of_a_merged_base_is_refused(tmp_path: Path) -> None:
    with DynamicGraph.open(tmp_path / "live", num_vertices=3) as graph:
        graph.insert_edge(0, 1)
        base = Path(graph.merge())
    Graph.from_edges(3, [1], [2]).save(tmp_path / "other.aeg")
    shutil.copy(tmp_path / "other.aeg", base)
    with pytest.raises(errors.FileChangedError, match="another"):
        DynamicGraph.open(tmp_path / "live")
