"""Live graphs as targets of the attack, in memory and in a directory."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from target import QUERIES, Target, methods, then

import aethergraph as ag

__all__ = ["live_targets"]

NODES = 20
#: Of every graph here: little address space, so that the attack's limit is not what refuses.
SMALL: dict[str, Any] = {"arena_mb": 2, "max_nodes": 1000, "huge_pages": False}
FORM: dict[str, Any] = {
    "order": "time",
    "edge_time": "int64",
    "edge_weight": "float32",
    "edge_attrs": {"note": ((2,), "float32")},
}
EDGE: dict[str, Any] = {"time": [3], "weight": [0.5], "edge_attrs": {"note": [[1.0, 2.0]]}}
_TYPE = ("user", "rates", "film")


def _ends() -> tuple[Any, Any]:
    return tuple(np.random.default_rng(0).integers(0, NODES, (2, 40)))


def _fill(graph: Any) -> Any:
    src, dst = _ends()
    count = len(src)
    graph.insert_edges(
        src, dst, time=np.arange(count), weight=np.ones(count),
        edge_attrs={"note": np.zeros((count, 2))},
    )  # fmt: skip
    graph.features = np.zeros((NODES, 4), np.float32)
    return graph


def _live() -> Any:
    return _fill(ag.DynamicGraph(NODES, **SMALL, **FORM))


def _plain() -> Any:
    graph = ag.DynamicGraph(NODES, **SMALL)
    graph.insert_edges(*_ends())
    return graph


def _typed() -> Any:
    graph = ag.DynamicHeteroGraph({"user": NODES, "film": NODES}, [_TYPE], **SMALL)
    graph[_TYPE].insert(*_ends())
    graph["user"].attrs["x"] = np.zeros((NODES, 4), np.float32)
    return graph


@cache
def _kept(folder: Path) -> Any:
    """Return a graph with a log, one for all calls of this process: making one takes a while."""
    path = tempfile.mkdtemp(dir=folder, prefix="kept-")
    return _fill(ag.DynamicGraph.open(path, NODES, durability="none", **SMALL, **FORM))


@cache
def _keyed(folder: Path) -> Any:
    path = tempfile.mkdtemp(dir=folder, prefix="keyed-")
    graph = ag.DynamicGraph.open(path, ids="str", durability="none", **SMALL)
    graph.ids.add(["a", "b"])
    return graph


def _opened(cls: Any, **options: Any) -> Callable[[Path], Any]:
    """Return what makes ``cls.open`` and its arguments; a directory that was made goes again."""

    def make(folder: Path) -> Any:
        path = Path(tempfile.mkdtemp(dir=folder, prefix="opened-"))

        def use(graph: Any) -> None:
            directory = graph.directory
            graph.close()
            shutil.rmtree(directory)

        return then(cls.open, use), {"path": path, **options, **SMALL}

    return make


def _put(table: Callable[[], Any]) -> Callable[[Any, Any], None]:
    def put(name: Any, value: Any) -> None:
        table()[name] = value

    return put


def _get(table: Callable[[], Any]) -> Callable[[Any], Any]:
    return lambda name: table()[name]


_WRITES: dict[str, dict[str, Any]] = {
    "insert_edge": {"src": 0, "dst": 1, "time": 3, "weight": 0.5, "edge_attrs": {"note": [1, 2]}},
    "insert_edges": {"src": [0], "dst": [1], **EDGE},
    "delete_edge": {"src": 0, "dst": 1},
    "delete_edges": {"src": [0], "dst": [1], "edge_ids": [0]},
    "add_nodes": {"count": 1, "x": np.zeros((1, 4), np.float32)},
    "update_nodes": {"ids": [0], "x": np.zeros((1, 4), np.float32)},
    "set_offset": {"source": "clicks", "partition": 0, "following": 7},
    "offsets": {"source": "clicks"},
}
_QUERIES: dict[str, dict[str, Any]] = {
    **QUERIES,
    "topology": {},
    "to_graph": {},
}


def _table() -> Any:
    table = ag.LiveFeatureTable.create(None, NODES, 4, missing="zero")
    table.put_many([0, 1], np.zeros((2, 4)))
    return table


def _new_table(folder: Path, **options: Any) -> Any:
    return {
        "path": Path(tempfile.mkdtemp(dir=folder)) / "x.aet",
        "num_rows": 3,
        "shape": 4,
        **options,
    }


def _table_targets() -> Iterator[Target]:
    """Yield calls of tables of live features."""
    cls = ag.LiveFeatureTable
    yield Target("LiveFeatureTable.create", lambda f: (cls.create, _new_table(f)))
    yield Target(
        "LiveFeatureTable.create of all options",
        lambda f: (cls.create, _new_table(f, dtype="int8", scale="row", missing="nan", check=True)),
    )
    yield Target(
        "LiveFeatureTable.open",
        lambda f: (
            cls.open, {"path": cls.create(**_new_table(f)).path, "missing": "zero"}
        ),
    )  # fmt: skip
    yield Target(
        "LiveFeatureTable.attach",
        lambda _: (
            lambda descriptor: cls.attach(descriptor),
            {"descriptor": _kept_table().descriptor},
        ),
    )
    calls = {
        "put": {"ids": 1, "rows": [1, 2, 3, 4], "version": 2**62},
        "put_many": {"ids": [1, 2], "rows": np.ones((2, 4)), "version": [2**62, 2**62]},
        "gather": {"ids": [0, 1]},
        "versions": {"ids": [0, 1]},
        "ages": {"ids": [0, 1]},
    }
    yield from methods("LiveFeatureTable", lambda _: _table(), calls)
    yield Target("LiveFeatureTable[...]", lambda _: (lambda ids: _table()[ids], {"ids": [0]}),
                 (IndexError,))  # fmt: skip


@cache
def _kept_table() -> Any:
    return _table()


def live_targets() -> Iterator[Target]:
    """Yield the targets."""
    yield from _table_targets()
    yield Target("DynamicGraph", lambda _: (ag.DynamicGraph, {"num_vertices": 3, **SMALL}))
    yield Target(
        "DynamicGraph of all options",
        lambda _: (ag.DynamicGraph, {"num_vertices": 3, **SMALL, **FORM}),
    )
    yield Target("DynamicGraph.open", _opened(ag.DynamicGraph, num_vertices=3))
    yield Target("DynamicGraph.open (ids)", _opened(ag.DynamicGraph, ids="str"))
    ids = {"lookup": {"keys": ["a", "b"]}, "keys": {"ids": [0, 1]}}
    yield from methods("Snapshot.ids", lambda f: _keyed(f).snapshot().ids, ids)
    yield from methods("DynamicGraph.ids", lambda f: _keyed(f).ids, {"add": {"keys": ["a", "c"]}})
    yield Target(
        "DynamicGraph.attach",
        lambda f: (ag.DynamicGraph.attach, {"path": _kept(f).directory, "follow": False}),
    )
    for graph in (_plain, _live):
        yield Target(
            f"DynamicGraph.from_graph of {graph.__name__}",
            lambda _, graph=graph: (
                ag.DynamicGraph.from_graph, {"graph": graph().to_graph(), **SMALL}
            ),
        )  # fmt: skip
    yield from methods("DynamicGraph", lambda _: _live(), {**_WRITES, **_QUERIES})
    yield from methods("DynamicGraph (directory)", _kept, _WRITES)
    few = ("has_edges", "edges_between", "edge_ends", "in_edges", "to_graph")
    yield from methods(
        "DynamicGraph (by id)", lambda _: _plain(), {name: _QUERIES[name] for name in few}
    )
    yield from methods(
        "Snapshot", lambda _: _live().snapshot(), {**_QUERIES, "changed": {"since": 0, "hops": 2}}
    )
    for name in ("save", "load_features"):
        file = "live-copy.aether" if name == "save" else "x.npy"
        yield Target(
            f"DynamicGraph.{name}",
            lambda f, name=name, file=file: (getattr(_plain(), name), {"path": f / file}),
        )
    yield Target(
        "DynamicGraph.reading",
        lambda _: (
            lambda snapshot: _live().reading(snapshot).__enter__(), {"snapshot": _live().snapshot()}
        ),
    )  # fmt: skip
    for name in ("node_attrs", "edge_attrs"):
        yield Target(
            f"DynamicGraph.{name}[...] =",
            lambda _, name=name: (
                _put(lambda: getattr(_live(), name)),
                {"name": "y", "value": np.zeros(NODES)},
            ),
        )
        yield Target(
            f"DynamicGraph.{name}[...]",
            lambda _, name=name: (
                _get(lambda: getattr(_live(), name)),
                {"name": "x" if name == "node_attrs" else "note"},
            ),
        )
    yield Target(
        "DynamicGraph.node_attrs[...].gather",
        lambda _: (_live().node_attrs["x"].gather, {"ids": [0, 1]}),
    )
    for label, source in (("live", _live), ("snapshot", lambda: _live().snapshot())):
        yield Target(
            f"NeighborSampler.sample ({label})",
            lambda _, source=source: (
                ag.NeighborSampler(
                    source(), [3, 2], disjoint=True, time_attr="edge_time",
                    weight_attr="edge_weight",
                ).sample,
                {"seeds": [0, 1], "key": 1, "seed_time": [5, 6]},
            ),
        )  # fmt: skip
        yield Target(
            f"NeighborSampler ({label})",
            lambda _, source=source: (
                then(ag.NeighborSampler, lambda s: s.sample([0, 1], key=1)),
                {"graph": source(), "fanouts": [3, 2]},
            ),
        )
    yield from _typed_targets()


def _typed_targets() -> Iterator[Target]:
    kinds = {"num_nodes": {"user": 3, "film": 3}, "edge_types": [_TYPE]}
    yield Target("DynamicHeteroGraph", lambda _: (ag.DynamicHeteroGraph, {**kinds, **SMALL}))
    yield Target("DynamicHeteroGraph.open", _opened(ag.DynamicHeteroGraph, **kinds))
    yield Target(
        "DynamicHeteroGraph.attach",
        lambda f: (ag.DynamicHeteroGraph.attach, {"path": _kept(f).directory}),
    )
    yield Target("DynamicHeteroGraph[...]", lambda _: (_get(_typed), {"name": _TYPE}))
    yield from methods(
        "DynamicHeteroGraph[user]",
        lambda _: _typed()["user"],
        {
            "add": {"count": 1, "x": np.zeros((1, 4), np.float32)},
            "update": {"ids": [0], "x": np.zeros((1, 4), np.float32)},
        },
    )
    yield from methods(
        "DynamicHeteroGraph[edges]",
        lambda _: _typed()[_TYPE],
        {
            "insert": {"src": [0], "dst": [1]},
            "delete": {"src": [0], "dst": [1], "edge_ids": [0]},
            "in_degrees": {"nodes": [0]},
            "edges_between": {"u": [0], "v": [1]},
            "edge_ends": {"edges": [0]},
        },
    )
    yield Target(
        "HeteroNeighborSampler.sample (live)",
        lambda _: (
            ag.HeteroNeighborSampler(_typed(), [3, 2]).sample,
            {"seeds": {"film": [0, 1]}, "key": 1},
        ),
    )
    yield from methods(
        "DynamicHeteroGraph",
        lambda _: _typed(),
        {"set_offset": {"source": "clicks", "partition": 0, "following": 7}},
    )
