"""Graphs that are not ours, for tests: in arrays, and in a topology that is compiled here."""

from __future__ import annotations

import ctypes
import functools
import inspect
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from aethergraph import Graph, HeteroGraph, as_graph
from aethergraph.graph.foreign import ForeignGraph
from aethergraph.protocols import Adjacency, HeterogeneousGraph, HomogeneousGraph, NodeSet
from aethergraph.testing import broken_rules, oracle

#: Members that a graph cannot do without, and the attributes that the loaders' contracts set.
_FORWARDED = HomogeneousGraph.__abstractmethods__ | {"node_attrs", "edge_attrs"}

ROOT = Path(__file__).resolve().parents[2]


def stage_headers(folder: Path) -> Path:
    """Put the headers into ``folder`` as ``make -C native install`` does; return the folder."""
    shutil.copytree(ROOT / "native/include", folder)
    shutil.copy(next((ROOT / "native/src").glob("*/topology.h")), folder / "aether")
    return folder


@functools.cache
def library() -> ctypes.CDLL:
    """Compile ``foreign_graphs.c`` as a user compiles a topology, and load it."""
    folder = Path(tempfile.mkdtemp(prefix="foreign-graphs-"))
    path = folder / "foreign.so"
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared"]
    source = Path(__file__).with_suffix(".c")
    include = f"-I{stage_headers(folder / 'include')}"
    subprocess.run([*command, include, source, "-o", path], check=True, timeout=120)
    loaded = ctypes.CDLL(str(path))
    shutil.rmtree(folder)
    loaded.foreign_create.restype = ctypes.c_void_p
    loaded.foreign_create.argtypes = [ctypes.c_uint64, *[ctypes.c_void_p] * 4]
    loaded.foreign_destroy.restype = None
    loaded.foreign_destroy.argtypes = [ctypes.c_void_p]
    loaded.foreign_break.restype = None
    loaded.foreign_break.argtypes = [ctypes.c_void_p, ctypes.c_int]
    return loaded


class InArrays:
    """Members of a GraphSource; edge ids are rows of the edge list, or places in the lists."""

    def __init__(
        self, num_nodes: int, src: Any, dst: Any, with_edge_ids: bool = True, **more: Any
    ) -> None:
        self.num_nodes, self.num_edges = num_nodes, len(src)
        self.indptr, self.indices, order = oracle.compressed_lists(num_nodes, dst, src)
        if with_edge_ids:
            self.edge_ids = order
        vars(self).update(more)


class InC:
    """Member of a TopologySource; edge ``e`` is at place ``num_edges - 1 - e`` of the lists.

    ``weight`` and ``time`` are by row of the edge list; the topology keeps them itself.
    """

    def __init__(
        self, num_nodes: int, src: Any, dst: Any, weight: Any = None, time: Any = None, **more: Any
    ) -> None:
        self._arguments = num_nodes, src, dst, weight, time
        indptr, indices, self.order = oracle.compressed_lists(num_nodes, dst, src)
        arrays = [np.array(indptr, np.uint64), np.array(indices, np.uint64), None, None]
        if weight is not None:
            arrays[2] = np.array(weight, np.float64)[self.order]
        if time is not None:
            arrays[3] = np.array(time, np.int64)[self.order]
        self._arrays = arrays
        addresses = [None if a is None else a.ctypes.data for a in arrays]
        self.topology = library().foreign_create(num_nodes, *addresses)
        vars(self).update(more)

    def __del__(self) -> None:
        if hasattr(self, "topology"):
            library().foreign_destroy(self.topology)

    def __reduce__(self) -> Any:
        return InC, self._arguments


def _forward(name: str, kind: type = HomogeneousGraph) -> Any:
    if isinstance(inspect.getattr_static(kind, name), property):
        return property(lambda self: getattr(self.graph, name))
    return lambda self, *args, **options: getattr(self.graph, name)(*args, **options)


class _Bare(HomogeneousGraph):
    def __init__(self, graph: Any) -> None:
        self.graph = graph

    def __reduce__(self) -> Any:
        return Bare, (self.graph,)


#: Graph with the abstract members and attributes of another one, and defaults for all the rest:
#: who asks for more than the abstract type promises does not find it.
Bare: Any = type(
    "Bare", (_Bare,), {"__module__": __name__, **{name: _forward(name) for name in _FORWARDED}}
)


class _BareNodes(NodeSet):
    def __init__(self, nodes: Any) -> None:
        self.graph = nodes


class _BareEdges(Adjacency):
    def __init__(self, edges: Any) -> None:
        self.graph = edges


def _with_forwards(base: type, *more: str) -> Any:
    names = base.__abstractmethods__ | {*more}  # type: ignore[attr-defined]
    return type(base.__name__[1:], (base,), {name: _forward(name, base) for name in names})


_Nodes: Any = _with_forwards(_BareNodes, "node_attrs", "node_values")
_Edges: Any = _with_forwards(
    _BareEdges, "edge_attrs", "edge_values", "edge_weight", "edge_time", "edge_order"
)


class BareTypes(HeterogeneousGraph):
    """Typed graph with the abstract members, attributes and values of another one, and no more."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph

    @property
    def node_types(self) -> list[str]:
        return list(self.graph.node_types)

    @property
    def edge_types(self) -> list[tuple[str, str, str]]:
        return list(self.graph.edge_types)

    def __getitem__(self, name: Any) -> Any:
        part = self.graph[name]
        return _Nodes(part) if isinstance(name, str) else _Edges(part)

    def __reduce__(self) -> Any:
        return BareTypes, (self.graph,)


def typed_graph() -> HeteroGraph:
    """Make a typed graph with values and attributes."""
    rng = np.random.default_rng(8)
    nodes = {"user": 60, "post": 90}
    ends = {
        kind: (rng.integers(0, nodes[kind[0]], count), rng.integers(0, nodes[kind[2]], count))
        for kind, count in [
            (("user", "votes", "post"), 500), (("post", "of", "user"), 400),
            (("user", "knows", "user"), 300),
        ]
    }  # fmt: skip
    graph = HeteroGraph.from_edges(
        ends, nodes, layout="both", keep_order=True,
        edge_weight={kind: rng.random(len(src)) for kind, (src, _) in ends.items()},
        edge_time={kind: rng.integers(0, 50, len(src)) for kind, (src, _) in ends.items()},
        node_time={name: rng.integers(0, 50, count) for name, count in nodes.items()},
    )  # fmt: skip
    for name, count in nodes.items():
        graph[name].attrs["x"] = rng.random((count, 3), np.float32)
    for kind, (src, _) in ends.items():
        graph[kind].attrs["edge_attr"] = rng.random((len(src), 2), np.float32)
    return graph


# ---- for contracts -------------------------------------------------------------------------------


class OfArrays:
    """``make`` of a contract of graphs."""

    def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
        return InArrays(num_nodes, src, dst)


class OfTheAbstractType:
    """``make`` of a graph that answers what the abstract type promises, and no more."""

    def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
        return Bare(Graph.from_edges(num_nodes, src, dst))


class OfTopologyInC:
    """``make`` of a graph whose lists are a topology of a library's own."""

    def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
        return InC(num_nodes, src, dst)


class OtherEdges(ForeignGraph):
    """Mutant: samplers get the edges turned around."""

    def topology(self, layout: Any = "csc") -> Any:
        if not hasattr(self.source, "turned"):
            src, dst = self.edge_index()
            self.source.turned = as_graph(InArrays(self.num_nodes, dst, src))
        return self.source.turned.topology()


def rules_broken_by(mutant: type[ForeignGraph], contract: Any) -> Any:
    """Return the rules of ``contract`` that a mutant over arrays breaks."""

    class Mutant(contract):  # type: ignore[misc]
        def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
            return mutant(InArrays(num_nodes, src, dst), "csc")

    return broken_rules(Mutant)
