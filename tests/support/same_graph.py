"""One graph in every storage that there is, and which edge of it each edge id stands for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from support.foreign_graphs import InArrays

from aethergraph import DynamicGraph, DynamicHeteroGraph, Graph, HeteroGraph, as_graph
from aethergraph.remote import FeatureServer, open_graph, open_tables

Ids = NDArray[np.int64]
Kind = tuple[str, str, str]
#: Columns of edges by name, rows in the order of arrival: ``src``, ``dst``, ``edge_time`` and
#: ``edge_weight`` if the edges have them, and attributes.
Edges = dict[str, NDArray[Any]]

#: The types of a graph of one type.
NODE = "node"
EDGE: Kind = (NODE, "to", NODE)
USER, POST, TAG, ROBOT = "user", "post", "tag", "robot"
VOTES, VOTED_BY = (USER, "votes", POST), (POST, "rev_votes", USER)
FOLLOWS, ABOUT, BLOCKS = (USER, "follows", USER), (TAG, "about", POST), (ROBOT, "blocks", USER)

COUNTS = {NODE: 240, USER: 150, POST: 120, TAG: 12, ROBOT: 4}
LATEST = 20
MEMORY_BUDGET = "24M"
ARENA_MB = 8


@dataclass(frozen=True)
class Content:
    """Content of a graph, whatever it is stored in."""

    num_nodes: dict[str, int]
    edges: dict[Kind, Edges]
    rows: dict[str, dict[str, NDArray[Any]]]  # of nodes, by type and name
    #: What lists are sorted by: ``"time"``, else arrival; or ``"id"``, without parallel edges.
    order: Literal["id", "time"] = "time"
    node_time: Ids | None = None

    @property
    def is_typed(self) -> bool:
        """True for a graph of many types."""
        return list(self.edges) != [EDGE]


class Stored(NamedTuple):
    """The graph in one storage."""

    graph: Any
    #: Row of :data:`Edges` by edge id, by edge type; -1 for ids of edges that are gone.
    row_of: dict[Kind, Ids]

    def ids_of(self, kind: Kind, rows: Ids) -> Ids:
        """Return the edge ids of rows."""
        by_row = np.argsort(self.row_of[kind], kind="stable")
        ids: Ids = by_row[np.count_nonzero(self.row_of[kind] < 0) :][rows]
        return ids


# ---- what is in it -------------------------------------------------------------------------------


def _make_edges(kind: Kind, count: int, seed: int, *more: str) -> Edges:
    """Make edges with hubs, loops, duplicates, times that are equal, and weights that are 0.

    The last tenth of the nodes at either end has none.
    """
    rng = np.random.default_rng(seed)
    src, dst = (
        (rng.random(count) ** power * COUNTS[end] * 0.9).astype(np.int64)
        for power, end in ((1.5, kind[0]), (3, kind[2]))
    )
    repeated = rng.integers(0, max(count, 1), count // 10)
    src[: len(repeated)], dst[: len(repeated)] = src[repeated], dst[repeated]
    every: Edges = {
        "src": src,
        "dst": dst,
        "edge_time": rng.integers(0, LATEST, count),
        "edge_weight": rng.integers(0, 4, count).astype(np.float32),
        "edge_attr": rng.random((count, 3), dtype=np.float32),
        "number": rng.integers(0, 2**60, count),
    }
    return {name: every[name] for name in ("src", "dst", *more)}


def plain_content() -> Content:
    """Return a graph of one type, whose edges have times."""
    rng = np.random.default_rng(1)
    rows = {
        "x": rng.random((COUNTS[NODE], 6), dtype=np.float32),
        "y": rng.integers(0, 5, COUNTS[NODE]),
        "mask": rng.random(COUNTS[NODE]) < 0.5,
    }
    edges = _make_edges(EDGE, 2400, 2, "edge_time", "edge_weight", "edge_attr", "number")
    return Content({NODE: COUNTS[NODE]}, {EDGE: edges}, {NODE: rows})


def content_by_id() -> Content:
    """Return the same nodes, and one edge for each pair that has edges, in the order of ids."""
    content = plain_content()
    edges = content.edges[EDGE]
    _, first = np.unique(np.stack([edges["src"], edges["dst"]]), axis=1, return_index=True)
    edges = _take(edges, np.sort(first))
    del edges["edge_time"]
    return replace(content, edges={EDGE: edges}, order="id")


def content_with_node_times() -> Content:
    """Return the same edges without times, between nodes that have times."""
    content = plain_content()
    edges = dict(content.edges[EDGE])
    del edges["edge_time"]
    times = np.random.default_rng(8).integers(0, LATEST, COUNTS[NODE])
    return replace(content, edges={EDGE: edges}, node_time=times)


def typed_content() -> Content:
    """Return a graph of many types, of which each lacks what another one has; one has no edges."""
    rng = np.random.default_rng(3)
    values = "edge_time", "edge_weight"
    votes = _make_edges(VOTES, 1200, 4, *values, "edge_attr")
    edges = {
        VOTES: votes,
        VOTED_BY: {
            "src": votes["dst"], "dst": votes["src"], **{name: votes[name] for name in values}
        },
        FOLLOWS: _make_edges(FOLLOWS, 700, 5, *values),
        ABOUT: _make_edges(ABOUT, 300, 6),
        BLOCKS: _make_edges(BLOCKS, 0, 7, *values),
    }  # fmt: skip
    rows: dict[str, dict[str, NDArray[Any]]] = {
        USER: {"x": rng.random((COUNTS[USER], 6), dtype=np.float32)},
        POST: {
            "x": rng.random((COUNTS[POST], 4), dtype=np.float32),
            "y": rng.integers(0, 5, COUNTS[POST]),
        },
    }
    return Content({name: COUNTS[name] for name in (USER, POST, TAG, ROBOT)}, edges, rows)


def _take(edges: Edges, rows: Any) -> Edges:
    return {name: column[rows] for name, column in edges.items()}


def _join(first: Edges, second: Edges) -> Edges:
    return {name: np.append(column, second[name], 0) for name, column in first.items()}


def _make_noise(content: Content, kind: Kind, number: int) -> Edges:
    """Return edges to insert and delete again: others for each number."""
    edges, rng = content.edges[kind], np.random.default_rng(number)
    count = len(edges["src"])
    noise = _take(edges, rng.integers(0, max(count, 1), count // 5))
    if content.order == "id":  # an edge that is there would not be inserted
        taken = edges["src"] * COUNTS[NODE] + edges["dst"]
        free = np.setdiff1d(np.arange(COUNTS[NODE] ** 2), taken)
        some = np.random.default_rng(0).permutation(free)[number * len(noise["src"]) :]
        noise["src"], noise["dst"] = np.divmod(some[: len(noise["src"])], COUNTS[NODE])
    else:  # every second one is between the ends of an edge that stays
        noise["dst"][::2] = rng.permutation(noise["dst"][::2])
    for name in noise.keys() - {"src", "dst"}:
        noise[name] = rng.permutation(noise[name])
    return noise


def _attrs(edges: Edges) -> Edges:
    no_attributes = "src", "dst", "edge_time", "edge_weight"
    return {name: column for name, column in edges.items() if name not in no_attributes}


# ---- the same calls for one type and for many ----------------------------------------------------


def build(content: Content, edges: dict[Kind, Edges] | None = None) -> Stored:
    """Build the graph in memory, or one of these edges in place of its own."""
    edges = content.edges if edges is None else edges
    options: dict[str, Any] = {
        "layout": "both", "keep_order": True, "sort_neighbors": content.order == "id",
    }  # fmt: skip
    values = {
        name: {kind: columns[name] for kind, columns in edges.items() if name in columns}
        for name in ("edge_time", "edge_weight")
    }
    attrs = {kind: _attrs(columns) for kind, columns in edges.items()}
    graph: Any
    if content.is_typed:
        ends = {kind: (columns["src"], columns["dst"]) for kind, columns in edges.items()}
        graph = HeteroGraph.from_edges(
            ends, content.num_nodes, edge_attrs=attrs, **values, **options
        )
        orders = {kind: graph[kind].edge_order for kind in edges}
    else:
        own = {name: by_kind.get(EDGE) for name, by_kind in values.items()}
        graph = Graph.from_edges(
            COUNTS[NODE], edges[EDGE]["src"], edges[EDGE]["dst"], edge_attrs=attrs[EDGE],
            node_time=content.node_time, **own, **options,
        )  # fmt: skip
        orders = {EDGE: graph.edge_order}
    _set_rows(graph, content)
    return Stored(graph, {kind: order.astype(np.int64) for kind, order in orders.items()})


def _set_rows(graph: Any, content: Content, factor: int = 1) -> None:
    for kind, columns in content.rows.items():
        table = graph[kind].attrs if content.is_typed else graph.node_attrs
        for name, rows in columns.items():
            table[name] = rows if factor == 1 else (rows * factor).astype(rows.dtype)


def _update_rows(graph: Any, content: Content) -> None:
    for kind, columns in content.rows.items():
        update = graph[kind].update if content.is_typed else graph.update_nodes
        update(np.arange(content.num_nodes[kind]), **columns)


def _insert(graph: Any, kind: Kind, edges: Edges) -> Ids:
    insert = graph.insert_edges if kind == EDGE else graph[kind].insert
    ids: Ids = insert(
        edges["src"], edges["dst"], time=edges.get("edge_time"), weight=edges.get("edge_weight"),
        edge_attrs=_attrs(edges),
    )  # fmt: skip
    return ids


def _delete(graph: Any, kind: Kind, edges: Edges, ids: Any) -> None:
    delete = graph.delete_edges if kind == EDGE else graph[kind].delete
    count = delete(edges["src"], edges["dst"], ids)
    assert ids is None or count == len(ids)


def _make_live(content: Content, path: Path | None = None) -> Any:
    """Return a live graph without edges and rows of nodes, in a directory if there is a path."""
    forms = {
        kind: {
            "edge_time": "int64" if "edge_time" in columns else None,
            "edge_weight": "float32" if "edge_weight" in columns else None,
            "edge_attrs": {
                name: (column.shape[1:], column.dtype) for name, column in _attrs(columns).items()
            },
        }
        for kind, columns in content.edges.items()
    }
    options: dict[str, Any] = {"arena_mb": ARENA_MB, "order": content.order, "huge_pages": False}
    if content.is_typed:
        if path is None:
            return DynamicHeteroGraph(content.num_nodes, forms, **options)
        return DynamicHeteroGraph.open(path, content.num_nodes, forms, durability="none", **options)
    options.update(forms[EDGE])
    count = COUNTS[NODE]
    if content.node_time is not None:
        options["node_time"], count = content.node_time.dtype, 0
    if path is None:
        graph = DynamicGraph(count, **options)
    else:
        graph = DynamicGraph.open(path, count, durability="none", **options)
    if content.node_time is not None:
        graph.add_nodes(COUNTS[NODE], time=content.node_time)
    return graph


class _Filling:
    """Fills a live graph in several commits, with noise between them.

    Args:
        graph: a live graph.
        content: what it is to have in the end.
        noisy: edge types with noise; None: all.
    """

    def __init__(self, graph: Any, content: Content, noisy: Any = None) -> None:
        self.graph, self.content = graph, content
        self.noisy = list(content.edges) if noisy is None else noisy
        #: Edge ids and their rows, piece by piece.
        self.pieces: dict[Kind, list[tuple[Ids, Ids]]] = {kind: [] for kind in content.edges}
        self.noise: list[tuple[Kind, Edges, Ids]] = []

    def insert(self, first: float, last: float) -> None:
        """Insert the edges between two shares of all, and noise."""
        for kind, edges in self.content.edges.items():
            count = len(edges["src"])
            rows = np.arange(round(first * count), round(last * count))
            for some in np.array_split(rows, 2):
                ids = _insert(self.graph, kind, _take(edges, some))
                self.pieces[kind].append((ids, some))
                if kind in self.noisy:
                    noise = _make_noise(self.content, kind, len(self.noise))
                    self.noise.append((kind, noise, _insert(self.graph, kind, noise)))

    def delete_noise(self) -> None:
        """Delete the noise that there is now."""
        for kind, noise, ids in self.noise:
            _delete(self.graph, kind, noise, ids)
        self.noise = []

    def stored(self, graph: Any = None) -> Stored:
        """Return the graph, or another one with its edge ids."""
        row_of = {}
        for kind, pieces in self.pieces.items():
            ids, rows = (np.concatenate(column) for column in zip(*pieces, strict=True))
            row_of[kind] = np.full(max(ids, default=-1) + 1, -1)
            row_of[kind][ids] = rows
        return Stored(self.graph if graph is None else graph, row_of)


def _filled(content: Content) -> _Filling:
    """Return a live graph into which noise was inserted, and deleted again."""
    filling = _Filling(_make_live(content), content)
    _set_rows(filling.graph, content, factor=0)
    filling.insert(0, 0.7)
    filling.delete_noise()
    filling.insert(0.7, 1)
    filling.delete_noise()
    _update_rows(filling.graph, content)
    return filling


def _change_all(graph: Any, content: Content) -> None:
    """Change all that readers of an earlier commit must not see."""
    for kind, edges in content.edges.items():
        _insert(graph, kind, _make_noise(content, kind, 50))
        _delete(graph, kind, _take(edges, slice(0, 40)), None)
    for kind, columns in content.rows.items():
        zeros = {name: np.zeros_like(rows) for name, rows in columns.items()}
        update = graph[kind].update if content.is_typed else graph.update_nodes
        update(np.arange(content.num_nodes[kind]), **zeros)


# ---- storages ------------------------------------------------------------------------------------


def _save(content: Content, folder: Path, **options: Any) -> tuple[Path, dict[Kind, Ids]]:
    graph, row_of = build(content)
    graph.save(folder / "graph.aeg", **options)
    return folder / "graph.aeg", row_of


def _load(content: Content, place: Any, **options: Any) -> Any:
    return (HeteroGraph if content.is_typed else Graph).load(place, **options)


def _in_memory(content: Content, folder: Path, stack: ExitStack) -> Stored:
    return build(content)


def _mapped(content: Content, folder: Path, stack: ExitStack) -> Stored:
    path, row_of = _save(content, folder)
    return Stored(_load(content, path, storage="mmap"), row_of)


def _compressed(content: Content, folder: Path, stack: ExitStack) -> Stored:
    path, row_of = _save(content, folder, compress=True)
    return Stored(_load(content, path, storage="memory"), row_of)


def _uring(content: Content, folder: Path, stack: ExitStack) -> Stored:
    path, row_of = _save(content, folder)
    graph = _load(content, path, storage="uring", memory_budget=MEMORY_BUDGET)
    for kind in content.rows:
        table = graph[kind].attrs if content.is_typed else graph.node_attrs
        table["x"] = table["x"].to_uring("1M")
    return Stored(graph, row_of)


def _arrays(content: Content, folder: Path, stack: ExitStack) -> Stored:
    edges = content.edges[EDGE]
    time = edges["edge_time"] if content.node_time is None else content.node_time[edges["src"]]
    order = np.argsort(time, kind="stable")  # such lists are to be sorted by time
    edges = _take(edges, order)
    values: dict[str, Any] = {"edge_weight": edges["edge_weight"]}
    if content.node_time is None:
        values["edge_time"] = edges["edge_time"]
    else:
        values["node_time"] = content.node_time
    source = InArrays(
        COUNTS[NODE], edges["src"], edges["dst"], node_attrs=content.rows[NODE],
        edge_attrs=_attrs(edges), **values,
    )  # fmt: skip
    return Stored(as_graph(source), {EDGE: order})


def _live(content: Content, folder: Path, stack: ExitStack) -> Stored:
    filling = _Filling(_make_live(content), content, noisy=())
    _set_rows(filling.graph, content)
    filling.insert(0, 1)
    return filling.stored()


def _live_after_noise(content: Content, folder: Path, stack: ExitStack) -> Stored:
    return _filled(content).stored()


def _merged(content: Content, folder: Path, stack: ExitStack) -> Stored:
    path = folder / "graph.aegd"
    filling = _Filling(_make_live(content, path), content)
    _set_rows(filling.graph, content, factor=0)
    filling.insert(0, 0.4)
    filling.graph.merge()
    filling.insert(0.4, 0.8)
    filling.delete_noise()  # also from the lists of the file
    filling.graph.merge()
    filling.insert(0.8, 1)
    filling.delete_noise()
    _update_rows(filling.graph, content)
    filling.graph.close()
    reopen = DynamicHeteroGraph.open if content.is_typed else DynamicGraph.open
    return filling.stored(stack.enter_context(reopen(path, arena_mb=ARENA_MB, huge_pages=False)))


def _over_file(content: Content, folder: Path, stack: ExitStack, **options: Any) -> Stored:
    """A file with half the edges and noise, and above it the other half."""
    halves = {kind: _take(e, slice(0, len(e["src"]) // 2)) for kind, e in content.edges.items()}
    noise = {kind: _make_noise(content, kind, 60) for kind in content.edges}
    below = build(content, {kind: _join(halves[kind], noise[kind]) for kind in halves})
    below.graph.save(folder / "base.aeg")
    make = DynamicHeteroGraph.open if content.is_typed else DynamicGraph.open
    graph = make(
        folder / "graph.aegd", base=folder / "base.aeg", order=content.order, arena_mb=ARENA_MB,
        durability="none", huge_pages=False, **options,
    )  # fmt: skip
    filling = _Filling(stack.enter_context(graph), content)
    for kind, row_of in below.row_of.items():
        count = len(halves[kind]["src"])
        ids = np.argsort(row_of)
        filling.pieces[kind].append((ids[:count], np.arange(count)))
        filling.noise.append((kind, noise[kind], ids[count:]))
    filling.insert(0.5, 1)
    filling.delete_noise()
    return filling.stored()


def _over_read_file(content: Content, folder: Path, stack: ExitStack) -> Stored:
    return _over_file(content, folder, stack, storage="uring", memory_budget=MEMORY_BUDGET)


def _snapshot(content: Content, folder: Path, stack: ExitStack) -> Stored:
    filling = _filled(content)
    snapshot = stack.enter_context(filling.graph.snapshot())
    _change_all(filling.graph, content)
    return filling.stored(snapshot)


def _served_file(content: Content, folder: Path, stack: ExitStack) -> Stored:
    path, row_of = _save(content, folder)
    server = stack.enter_context(FeatureServer(open_tables(path, lists=True), port=0))
    return Stored(open_graph(server.address, typed=content.is_typed), row_of)


def _served_live(content: Content, folder: Path, stack: ExitStack) -> Stored:
    """Serve a live graph that changes once a client has a commit of it."""
    filling = _filled(content)
    server = stack.enter_context(FeatureServer({}, graphs={"graph": filling.graph}, port=0))
    there = open_graph(server.address, typed=content.is_typed)
    _change_all(filling.graph, content)
    return filling.stored(there)


Storage = Callable[[Content, Path, ExitStack], Stored]
REFERENCE: Storage = _in_memory
#: Storages by name: each makes the graph in a folder, and leaves what is to be closed on a stack.
STORAGES: dict[str, Storage] = {
    "mapped file": _mapped,
    "compressed file": _compressed,
    "file read by io_uring": _uring,
    "arrays of another library": _arrays,
    "live": _live,
    "live after noise": _live_after_noise,
    "live in a directory, merged": _merged,
    "live over a mapped file": _over_file,
    "live over a read file": _over_read_file,
    "snapshot": _snapshot,
    "served file": _served_file,
    "served live graph": _served_live,
}
