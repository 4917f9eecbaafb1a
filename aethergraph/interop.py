"""Conversion of graphs from and to scipy's sparse matrices and networkx.

    graph = from_scipy(matrix)                    # or Graph.from_scipy(matrix)
    matrix = to_scipy(graph)                      # or graph.to_scipy()
    graph, labels = from_networkx(g, edge_weight="weight")
    g = to_networkx(graph, labels)

Both libraries are imported when they are needed. Conventions followed: ``scipy.sparse.csgraph``
(the entry at ``[i, j]`` is the edge from i to j), ``torch_geometric.utils.from_networkx`` (an
undirected edge becomes one each way) and ``dgl.to_networkx`` (a ``MultiDiGraph``, which keeps all
edges).
"""

from __future__ import annotations

import importlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.exact import array_of
from aethergraph._checks.options import as_choice, as_flag, as_list, is_hashable, shown
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.graph.adjacency import Layout
from aethergraph.graph.graph import Graph
from aethergraph.protocols import HomogeneousGraph

__all__ = ["from_networkx", "to_networkx"]

SparseFormat = Literal["csr", "csc", "coo"]
"""A format of scipy's sparse arrays."""
_FORMATS = ("csr", "csc", "coo")


def _import(module: str, caller: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise UnsupportedError(f"{caller} needs {package}: pip install {package}") from error


def _static(graph: Any) -> Any:
    """Return a graph with all values in arrays: of a live one a copy of the last commit."""
    changes = graph.is_live or graph.native_snapshot is not None
    return graph.to_graph() if changes else graph


def _check_graph(graph: Any) -> None:
    if not isinstance(graph, HomogeneousGraph):
        raise InvalidArgumentError(f"graph must be a Graph, got {type(graph).__name__}")


# ---- scipy -----------------------------------------------------------------------------------


def from_scipy(
    matrix: Any, *, weight: bool = True, layout: Layout = "csc", keep_order: bool = False
) -> Graph:
    """Serve ``Graph.from_scipy``."""
    sparse = _import("scipy.sparse", "from_scipy")
    if not sparse.issparse(matrix):
        raise InvalidArgumentError(
            f"matrix must be a scipy sparse matrix or array, got {type(matrix).__name__}"
        )
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InvalidArgumentError(
            f"matrix must be square, got shape {matrix.shape}; for edges between two types of "
            "nodes use HeteroGraph.from_edges"
        )
    entries = matrix.tocoo()
    values = None
    if as_flag(weight, "weight"):
        values = entries.data.astype(np.float32) if entries.dtype == np.bool_ else entries.data
    try:
        return Graph.from_edges(
            matrix.shape[0],
            entries.row,
            entries.col,
            edge_weight=values,
            layout=layout,
            keep_order=keep_order,
        )
    except InvalidArgumentError as error:
        if "edge_weight" not in str(error):
            raise
        raise InvalidArgumentError(
            f"{error}; weight=False takes the pattern without the values", position=error.position
        ) from None


def to_scipy(graph: HomogeneousGraph, format: SparseFormat = "csr", *, weight: bool = True) -> Any:
    """Serve ``Graph.to_scipy``."""
    _check_graph(graph)
    graph = _static(graph)
    format = as_choice(format, _FORMATS, "format")
    sparse = _import("scipy.sparse", "to_scipy")
    values = graph.edge_weight if as_flag(weight, "weight") else None
    values = np.ones(graph.num_edges, np.float32) if values is None else np.array(values)
    shape = graph.num_nodes, graph.num_nodes
    if format == "coo":
        return sparse.coo_array((values, graph.edge_index()), shape=shape)
    # Straight from the lists: a conversion through COO would add duplicates up.
    small = max(graph.num_nodes, graph.num_edges) < 2**31
    ids = np.int32 if small else np.int64
    by_source = graph.layout == "csr"
    indptr, indices = graph.csr()[:2] if by_source else graph.csc()
    make = sparse.csr_array if by_source else sparse.csc_array
    lists = make((values, indices.astype(ids), indptr.astype(ids)), shape=shape)
    return lists.asformat(format)


# ---- networkx --------------------------------------------------------------------------------


def from_networkx(
    g: Any,
    *,
    edge_weight: str | None = None,
    edge_time: str | None = None,
    node_time: str | None = None,
    edge_attrs: Iterable[str] = (),
    node_attrs: Iterable[str] = (),
    layout: Layout = "csc",
    keep_order: bool = False,
) -> tuple[Graph, list[Hashable]]:
    """Build a graph from a networkx graph of any class; return it with the labels of its nodes.

    An undirected edge becomes one edge each way (a self-loop one). Parallel edges are kept. Nodes
    are numbered in the order of ``g.nodes``, unless their labels are 0..n-1 already, which stay.

    Args:
        g: a networkx graph; each node and edge costs Python objects, so use small graphs.
        edge_weight: edge attribute of ``g`` to take as weights.
        edge_time: edge attribute of ``g`` to take as times.
        node_time: node attribute of ``g`` to take as times.
        edge_attrs: edge attributes of ``g`` to take under their own names.
        node_attrs: node attributes of ``g`` to take under their own names.
        layout: as in :meth:`Graph.from_edges`.
        keep_order: as in :meth:`Graph.from_edges`; the input order is that of ``g.edges``, or of
            ``g.to_directed().edges``.

    Returns:
        ``(graph, labels)``; ``labels[i]`` is the networkx node that became node i.

    Raises:
        UnsupportedError: networkx is not installed.
        InvalidArgumentError: not a networkx graph, or a node or edge lacks a requested
            attribute.
    """
    networkx = _import("networkx", "from_networkx")
    if not isinstance(g, networkx.Graph):
        raise InvalidArgumentError(f"g must be a networkx graph, got {type(g).__name__}")
    labels = _node_labels(g)
    number = {label: i for i, label in enumerate(labels)}
    edges = list((g if g.is_directed() else g.to_directed(as_view=True)).edges(data=True))
    nodes = [(label, g.nodes[label]) for label in labels]

    def of_edges(name: str) -> NDArray[Any]:
        return _collect(name, ((f"edge ({u!r}, {v!r})", attrs) for u, v, attrs in edges))

    def of_nodes(name: str) -> NDArray[Any]:
        return _collect(name, ((f"node {label!r}", attrs) for label, attrs in nodes))

    graph = Graph.from_edges(
        len(labels),
        np.array([number[u] for u, _, _ in edges], np.int64),
        np.array([number[v] for _, v, _ in edges], np.int64),
        edge_weight=None if edge_weight is None else of_edges(edge_weight),
        edge_time=None if edge_time is None else of_edges(edge_time),
        node_time=None if node_time is None else of_nodes(node_time),
        edge_attrs={name: of_edges(name) for name in as_list(edge_attrs, "edge_attrs", "names")},
        layout=layout,
        keep_order=keep_order,
    )
    for name in as_list(node_attrs, "node_attrs", "names"):
        graph.node_attrs[name] = of_nodes(name)
    return graph, labels


def _node_labels(g: Any) -> list[Hashable]:
    labels = list(g.nodes)
    integers = all(type(label) is int or isinstance(label, np.integer) for label in labels)
    if integers and set(labels) == set(range(len(labels))):
        return list(range(len(labels)))
    return labels


def _collect(name: str, holders: Iterable[tuple[str, Mapping[str, Any]]]) -> NDArray[Any]:
    """Return one attribute of all nodes or edges as an array."""
    if not is_hashable(name):
        raise InvalidArgumentError(f"an attribute is named by a text, not by {shown(name)}")
    values = []
    for holder, attrs in holders:
        if name not in attrs:
            known = ", ".join(map(repr, attrs)) or "none"
            raise InvalidArgumentError(f"{holder} has no attribute {name!r}; it has: {known}")
        values.append(attrs[name])
    try:
        return array_of(values)
    except ValueError as error:
        raise InvalidArgumentError(f"the attribute {name!r} is no array: {error}") from error


def to_networkx(graph: HomogeneousGraph, labels: Sequence[Hashable] | None = None) -> Any:
    """Return the graph as a ``networkx.MultiDiGraph``, with all values of nodes and edges.

    ``edge_weight`` and ``edge_time`` become the edge attributes ``weight`` and ``time``, which
    algorithms of networkx look for, ``node_time`` the node attribute ``time``; all other attributes
    keep their names. Values are Python numbers and lists. Edges come in the order of edge ids.

    Args:
        graph: a graph of any layout; it becomes Python objects, so use small graphs.
        labels: [num_nodes] networkx nodes, such as the labels that :func:`from_networkx` returned.
            None: 0..num_nodes-1.

    Raises:
        UnsupportedError: networkx is not installed.
        InvalidArgumentError: a wrong number of labels, or two equal ones.
    """
    _check_graph(graph)
    graph = _static(graph)
    networkx = _import("networkx", "to_networkx")
    names: Sequence[Hashable] = range(graph.num_nodes)
    if labels is not None:
        names = as_list(labels, "labels")
        for at, name in enumerate(names):
            if not is_hashable(name):
                raise InvalidArgumentError(
                    f"labels[{at}] = {shown(name)} is not hashable, as networkx asks", position=at
                )
    if len(names) != graph.num_nodes:
        raise InvalidArgumentError(
            f"labels has {len(names)} entries, but num_nodes = {graph.num_nodes}"
        )
    if len(set(names)) != len(names):
        raise InvalidArgumentError("labels must be different from each other")
    nodes = _attributes(graph.node_attrs, {"time": graph.node_time})
    edges = _attributes(graph.edge_attrs, {"weight": graph.edge_weight, "time": graph.edge_time})
    g = networkx.MultiDiGraph()
    g.add_nodes_from(
        (name, {attr: rows[i] for attr, rows in nodes.items()}) for i, name in enumerate(names)
    )
    src, dst = (ends.tolist() for ends in graph.edge_index())
    g.add_edges_from(
        (names[u], names[v], {attr: rows[i] for attr, rows in edges.items()})
        for i, (u, v) in enumerate(zip(src, dst, strict=True))
    )
    return g


def _attributes(
    stores: Mapping[str, Any], values: Mapping[str, NDArray[Any] | None]
) -> dict[str, list[Any]]:
    """Return rows by name as Python objects; attributes shadow the graph's own values."""
    columns = {name: rows.tolist() for name, rows in values.items() if rows is not None}
    return columns | {name: np.asarray(store).tolist() for name, store in stores.items()}
