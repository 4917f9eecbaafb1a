"""Live graphs for tests, what they hold in plain Python, and a thread that writes to them."""

from __future__ import annotations

import threading
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from aethergraph import DynamicGraph, errors
from aethergraph.dynamic.snapshot import Snapshot

Ids = NDArray[np.int64]


class Edge(NamedTuple):
    """One edge of a :class:`Model`."""

    src: int
    dst: int
    time: int = 0
    weight: float = 0.0
    note: int = 0


@dataclass(frozen=True)
class Form:
    """Options of a live graph that decide what it keeps."""

    order: Any = "id"
    layout: Any = "both"
    timed: bool = False
    weighted: bool = False
    noted: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of the constructor."""
        return {
            "order": self.order,
            "layout": self.layout,
            "edge_time": "int64" if self.timed else None,
            "edge_weight": "float32" if self.weighted else None,
            "edge_attrs": {"note": ((), "int64")} if self.noted else None,
        }

    def columns(self, edges: list[Edge]) -> dict[str, Any]:
        """Return the arguments of ``insert_edges`` besides the ends."""
        found: dict[str, Any] = {}
        if self.timed:
            found["time"] = [edge.time for edge in edges]
        if self.weighted:
            found["weight"] = [edge.weight for edge in edges]
        if self.noted:
            found["edge_attrs"] = {"note": np.array([edge.note for edge in edges], np.int64)}
        return found


@dataclass
class Model:
    """A live graph in plain Python; ``copy()`` is a snapshot."""

    form: Form
    num_nodes: int
    edges: dict[int, Edge] = field(default_factory=dict)  # by edge id
    next_id: int = 0
    rows: list[list[float]] | None = None  # of the nodes

    def copy(self) -> Model:
        """Return the graph as it is now."""
        return deepcopy(self)

    def insert(self, edges: list[Edge]) -> list[int]:
        """Insert edges; return the id of each."""
        ids = []
        for edge in edges:
            found = self.between(edge.src, edge.dst) if self.form.order == "id" else []
            if not found:
                self.edges[self.next_id] = edge
                found, self.next_id = [self.next_id], self.next_id + 1
            ids.append(found[0])
        return ids

    def delete(self, pairs: list[tuple[int, int]], ids: list[int] | None = None) -> int:
        """Delete the edges of pairs, or the one of each edge id; return their number."""
        before = len(self.edges)
        for number, (src, dst) in enumerate(pairs):
            for edge in self.between(src, dst):
                if ids is None or ids[number] == edge:
                    del self.edges[edge]
        return before - len(self.edges)

    def between(self, src: int, dst: int) -> list[int]:
        """Return the ids of the edges from ``src`` to ``dst``, ascending."""
        return sorted(i for i, e in self.edges.items() if (e.src, e.dst) == (src, dst))

    def lists(self, layout: str) -> list[list[tuple[int, int]]]:
        """Return ``(neighbour, edge id)`` by place in the list, for each node."""
        lists: list[list[tuple[Any, int, int]]] = [[] for _ in range(self.num_nodes)]
        for number, edge in self.edges.items():
            major, minor = (edge.dst, edge.src) if layout == "csc" else (edge.src, edge.dst)
            by = minor if self.form.order == "id" else edge.time * self.form.timed
            lists[major].append((by, number, minor))
        return [[(minor, number) for _, number, minor in sorted(own)] for own in lists]


def make_live(form: Form, num_nodes: int, arena_mb: int = 8, **options: Any) -> DynamicGraph:
    """Return an empty live graph of a form."""
    return DynamicGraph(num_nodes, arena_mb, huge_pages=False, **form.options, **options)


def random_edges(
    num_nodes: int, count: int, seed: int, times: int = 20, skew: int = 2
) -> list[Edge]:
    """Return edges with hubs, loops and duplicates, times in no order and whole weights."""
    rng = np.random.default_rng(seed)
    src = rng.integers(0, num_nodes, count)
    dst = (rng.random(count) ** skew * num_nodes).astype(np.int64)
    columns = (
        src, dst, rng.integers(-times, times, count), rng.integers(0, 4, count),
        rng.integers(0, 2**60, count),
    )  # fmt: skip
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [Edge(u, v, time, float(weight), note) for u, v, time, weight, note in rows]


def insert(graph: DynamicGraph, form: Form, edges: list[Edge]) -> list[int]:
    """Insert edges into a live graph; return the id of each."""
    src, dst = [edge.src for edge in edges], [edge.dst for edge in edges]
    ids = graph.insert_edges(src, dst, **form.columns(edges))
    assert ids.dtype == np.int64
    return list(ids.tolist())


def check(graph: Any, model: Model) -> None:
    """Compare all that a graph answers, a snapshot or a live graph, with the model."""
    form, count = model.form, model.num_nodes
    assert (graph.num_nodes, graph.num_edges) == (count, len(model.edges))
    assert (graph.layout, graph.closed, graph.compressed) == (form.layout, False, False)
    for layout, degrees, neighbors, edges in (
        ("csc", graph.in_degrees, graph.in_neighbors, graph.in_edges),
        ("csr", graph.out_degrees, graph.neighbors, graph.out_edges),
    ):
        if form.layout not in (layout, "both"):
            for call in (degrees, lambda: graph.topology(layout)):  # noqa: B023
                with pytest.raises(errors.LayoutError):
                    call()
            continue
        lists = model.lists(layout)
        assert degrees().tolist() == [len(own) for own in lists]
        assert degrees(list(range(count))[::-1]).tolist() == [len(own) for own in lists][::-1]
        for node, own in enumerate(lists):
            assert neighbors(node).tolist() == [minor for minor, _ in own]
            assert edges(node).tolist() == [number for _, number in own]
    _check_pairs(graph, model)
    _check_values(graph, model)


def _check_pairs(graph: Any, model: Model) -> None:
    count = min(model.num_nodes, 12)
    src, dst = (ends.ravel() for ends in np.meshgrid(*[np.arange(count)] * 2))
    pairs = {(edge.src, edge.dst) for edge in model.edges.values()}
    expected = [pair in pairs for pair in zip(src.tolist(), dst.tolist(), strict=True)]
    assert graph.has_edges(src, dst).tolist() == expected
    if count:
        assert graph.has_edge(0, count - 1) == ((0, count - 1) in pairs)
        assert graph.has_edge(count - 1, 0) == ((count - 1, 0) in pairs)
    at, ids = graph.edges_between(src, dst)
    ends = [(i, e) for i in range(len(src)) for e in model.between(int(src[i]), int(dst[i]))]
    assert sorted(zip(at.tolist(), ids.tolist(), strict=True)) == ends
    known = sorted(model.edges)
    expected_ends = [[model.edges[i].src for i in known], [model.edges[i].dst for i in known]]
    assert [own.tolist() for own in graph.edge_ends(known)] == expected_ends
    assert [own.tolist() for own in graph.edge_list()] == [*expected_ends, known]
    if len(known) == model.next_id:
        assert [own.tolist() for own in graph.edge_index()] == expected_ends
    else:
        with pytest.raises(errors.UnsupportedError, match="edge_list"):
            graph.edge_index()
        gone = min(set(range(model.next_id)) - set(known))
        with pytest.raises(errors.OutOfRangeError, match=rf"edges\[0\] = {gone} "):
            graph.edge_ends([gone])
    with pytest.raises(errors.OutOfRangeError):
        graph.edge_ends([model.next_id])


def _check_values(graph: Any, model: Model) -> None:
    form, known = model.form, sorted(model.edges)
    own = graph.edge_values
    wanted = {}
    if form.timed:
        wanted["edge_time"] = [model.edges[i].time for i in known]
    if form.weighted:
        wanted["edge_weight"] = [model.edges[i].weight for i in known]
    assert set(own) == set(wanted)
    if form.noted:
        own = {**own, "note": graph.edge_attrs["note"]}
        wanted["note"] = [model.edges[i].note for i in known]
    assert set(graph.edge_attrs) == ({"note"} if form.noted else set())
    for name, values in wanted.items():
        assert own[name].num_rows == model.next_id, name
        assert own[name].gather(known).tolist() == values, name
    if model.rows is None:
        assert graph.features is None
    else:
        assert graph.features.shape == (model.num_nodes, 2)
        assert graph.features.gather(range(model.num_nodes)).tolist() == model.rows


# ---- for contracts -------------------------------------------------------------------------------


class WithRows(DynamicGraph):
    """Live graph whose edges have brought the rows that a contract gives them later."""

    @property
    def edge_attrs(self) -> Any:
        """Edge attributes that may be set to what they are."""
        table = super().edge_attrs

        def same(name: str, rows: Any) -> None:
            np.testing.assert_array_equal(table[name].gather(np.arange(len(rows))), rows)

        table._begin = same
        return table


def live_with_rows(num_nodes: int, src: Any, dst: Any, layout: Any = "csc") -> DynamicGraph:
    """Return a live graph of these edges, from several commits, whose rows "e" are their ids."""
    attrs: Any = {"e": ((), "int64")}
    graph = WithRows(num_nodes, 8, layout=layout, order="time", edge_attrs=attrs)
    for some in np.array_split(np.arange(len(src)), 3):
        graph.insert_edges(src[some], dst[some], edge_attrs={"e": some})
    return graph


def snapshot_with_rows(num_nodes: int, src: Any, dst: Any, layout: Any = "csc") -> Snapshot:
    """Return a snapshot of such a graph, which has changed since."""
    graph = live_with_rows(num_nodes, src, dst, layout)
    snapshot = graph.snapshot()
    if num_nodes:
        graph.insert_edges(dst, src, edge_attrs={"e": np.zeros(len(src), int)})
        graph.add_nodes(2)
    return snapshot


# ---- written to meanwhile ------------------------------------------------------------------------


class Writer:
    """Thread that changes a graph without pause, and what each commit of it held.

    ::

        with Writer(graph) as writer:
            batches = list(loader)
        writer.check(batch.n_id[:9], batch.e_id)       # after the block: all commits are known

    A transaction inserts edges in both directions, deletes such a pair, and changes the rows ``x``
    of both ends to its own number, all or nothing; some add a node.
    """

    def __init__(self, graph: DynamicGraph, pause: float = 0.0005) -> None:
        self.graph, self.pause = graph, pause
        self.alive: dict[int, tuple[int, int]] = {}
        self.history: dict[int, dict[int, tuple[int, int]]] = {}
        self.failure: BaseException | None = None
        self._stop = threading.Event()
        self._rng = np.random.default_rng(3)
        self.grow(60)
        self._thread = threading.Thread(target=self._run)

    def grow(self, count: int) -> None:
        """Make some commits in the calling thread."""
        for _ in range(count):
            self._commit()

    def _commit(self) -> None:
        graph, rng = self.graph, self._rng
        with graph.transaction():
            nodes = graph.num_nodes
            u, v = (int(node) for node in rng.choice(nodes, 2, replace=False))
            ids = graph.insert_edges([u, v], [v, u])
            if len(self.alive) > 200:
                gone = [min(self.alive), min(self.alive) + 1]
                src, dst = zip(*(self.alive[edge] for edge in gone), strict=True)
                assert graph.delete_edges(src, dst, gone) == 2
                for edge in gone:
                    del self.alive[edge]
            if rng.random() < 0.05:
                graph.add_nodes(1, **({"x": [[0.0]]} if "x" in graph.node_attrs else {}))
            if "x" in graph.node_attrs:
                graph.update_nodes([u, v], x=np.full((2, 1), ids[0]))
        self.alive.update(zip(ids.tolist(), [(u, v), (v, u)], strict=True))
        self.history[graph.commit] = dict(self.alive)

    def _run(self) -> None:
        try:
            while not self._stop.wait(self.pause):
                self._commit()
        except BaseException as error:
            self.failure = error

    @property
    def is_done(self) -> bool:
        """True once it has made 15 commits beside others, or failed."""
        return len(self.history) >= 75 or self.failure is not None

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def check(self, seeds: Any, edges: Any) -> list[int]:
        """Return the commits at which just ``edges`` ended at ``seeds``; there must be one."""
        wanted, nodes = sorted(np.asarray(edges).tolist()), set(np.asarray(seeds).tolist())
        found = [
            commit
            for commit, alive in self.history.items()
            if sorted(edge for edge, (_, dst) in alive.items() if dst in nodes) == wanted
        ]
        assert found, f"no commit has just the edges {wanted} into {sorted(nodes)}"
        return found
