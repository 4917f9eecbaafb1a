"""Conversion of graphs and stores to ``Data`` or ``HeteroData``, and back to graphs.

Source followed: ``torch_geometric/data/data.py``, ``hetero_data.py`` and ``storage.py`` (which
attributes give the number of nodes).
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset, HeteroData

from aethergraph._checks.arrays import as_float_values, check_weights, to_array
from aethergraph._checks.options import shown
from aethergraph._checks.times import as_times, is_unit
from aethergraph._torch.tensors import stack_rows
from aethergraph.dynamic.forms import EDGE_ID
from aethergraph.errors import AetherError, InvalidArgumentError
from aethergraph.graph.graph import Graph
from aethergraph.graph.hetero import HeteroGraph
from aethergraph.protocols import AnyGraph, HomogeneousGraph
from aethergraph.pyg._selected import SelectedColumn
from aethergraph.pyg._tensor_attr import EDGE_GROUP
from aethergraph.pyg.convert import as_stores, from_data
from aethergraph.pyg.feature_store import FeatureStore
from aethergraph.pyg.graph_store import GraphStore

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from aethergraph.graph.adjacency import Layout

__all__ = ["graph_from_data", "to_data"]

log = logging.getLogger("aethergraph")

_UNIT = "time_unit"


def to_data(
    source: HomogeneousGraph
    | HeteroGraph
    | tuple[FeatureStore, GraphStore]
    | str
    | os.PathLike[str],
) -> Data | HeteroData:
    """Make a PyG ``Data`` or ``HeteroData`` of everything in a graph or a pair of stores.

    Every attribute keeps its name: ``graph.node_attrs["x"]`` is ``data.x``,
    ``graph["user"].attrs["x"]`` is ``data["user"].x``. So do ``edge_weight``, ``edge_time`` and
    ``node_time`` of a graph. The columns of ``edge_index`` and the rows of edge attributes are in
    the order of edge ids: ``to_data(from_data(data))`` equals ``data``. ``num_nodes`` is set
    where no attribute implies it. Where edges of a live graph were deleted, ``edge_id`` has the ids
    of those that are there.

    Times of a graph that counts them in a unit are int64 in that unit, and ``data.time_unit`` names
    it, ``"D"`` for ``datetime64[D]``; :func:`graph_from_data` reads it back.

    Everything is read into memory. Tensors that were put into the stores are not copied.

    Args:
        source: a graph, the stores of :func:`from_data` or others of ours, or a graph file.

    Raises:
        InvalidArgumentError: any other source, or one name for both nodes and edges.
    """
    if isinstance(source, AnyGraph):
        source = source.pinned()  # edges and rows of one commit
    features, graph_store = as_stores(source)
    if not isinstance(features, FeatureStore) or not isinstance(graph_store, GraphStore):
        raise InvalidArgumentError(
            "to_data takes an aethergraph graph or stores of aethergraph.pyg, got "
            f"({type(features).__name__}, {type(graph_store).__name__})"
        )
    groups = {key[0] for key, _ in features.columns()} - {None, EDGE_GROUP}
    no_edges = not graph_store.get_all_edge_attrs()
    if graph_store.edge_types or graph_store.num_typed_nodes() or (groups and no_edges):
        data = _typed_data(features, graph_store)
    else:
        data = _one_data(features, graph_store)
    if graph_store.time_unit is not None:
        data[_UNIT] = graph_store.time_unit
    return data


def _one_data(features: FeatureStore, graph_store: GraphStore) -> Data:
    data = Data()
    row, col, ids = graph_store.edge_list()
    for columns, index in zip(features.batch_columns(), (None, ids), strict=True):
        for name, column in columns:
            data[name] = column.get(index)
    data.edge_index = stack_rows(row, col)
    if ids is not None:
        data[EDGE_ID] = ids
    _tell_num_nodes(data, graph_store.num_nodes)
    for name, value in features.graph_attrs.items():
        data[name] = value
    return data


def _typed_data(features: FeatureStore, graph_store: GraphStore) -> HeteroData:
    data = HeteroData()
    counts = graph_store.num_typed_nodes()
    for (group, _), column in features.columns():
        if isinstance(group, str):
            counts.setdefault(group, column.shape[0])
    for name in counts:
        data[name]  # creates the types in this order
    index: dict[Any, Tensor | None] = {}
    for kind in graph_store.edge_types:
        row, col, index[kind] = graph_store.edge_list(kind)
        data[kind].edge_index = stack_rows(row, col)
        if index[kind] is not None:
            data[kind][EDGE_ID] = index[kind]
    for (group, name), column in features.columns():
        data[group][name] = column.get(index.get(group))
    for name, count in counts.items():
        _tell_num_nodes(data[name], count)
    for group, attrs in features.type_attrs.items():
        for name, value in attrs.items():
            data[group][name] = value
    for name, value in features.graph_attrs.items():
        data[name] = value
    return data


def _tell_num_nodes(store: Any, count: int) -> None:
    """Set ``num_nodes`` unless PyG finds it in an attribute; PyG warns where it has to guess."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            if store.num_nodes == count:
                return
        except UserWarning:
            pass
    store.num_nodes = count


def graph_from_data(
    data: Data | HeteroData | Dataset,
    *,
    time_attr: str | None = None,
    layout: Layout = "csc",
    keep_order: bool = True,
) -> Graph | HeteroGraph:
    """Make a graph with the attributes of a PyG ``Data`` or ``HeteroData``, ready for ``save``.

    Example::

        graph_from_data(dataset[0]).save("graph.aeg")

    Every tensor with one row per node or per edge (by ``data.is_node_attr`` and
    ``data.is_edge_attr``) becomes an attribute of the same name: ``data.x`` is
    ``graph.node_attrs["x"]``, that is ``graph.features``; ``data["user"].x`` is
    ``graph["user"].features``. Three names become values of the graph itself, which samplers find
    under these names: ``edge_weight`` (one finite number >= 0 per edge, kept as float32 or, from
    float64 and integers, float64), ``edge_time`` and ``node_time`` (kept as int64, from floats as
    float64). Values that cannot be kept exactly are refused.

    Lists are sorted by ``edge_time``, else by ``node_time``. With ``time_attr="node_time"`` they
    are sorted by that, and ``edge_time`` stays an attribute. ``data.time_unit``, such as ``"s"``,
    makes datetimes of integer times: it becomes ``graph.time_unit``.

    Edge ids are positions in the graph's order; ``graph.edge_order`` gives the column of
    ``edge_index`` that each edge was. :func:`to_data` converts back.

    A graph has no place for anything else: attributes of the graph as a whole, lists, index
    tensors [2, n], ``TensorFrame``. Their names are logged at level WARNING.

    Args:
        data: the graph, or a dataset that holds one.
        time_attr: name of the times, of nodes if any have it, else of edges, that lists are to
            be sorted by for sampling in time. It becomes ``node_time`` or ``edge_time``.
        layout: as in :meth:`aethergraph.Graph.from_edges`.
        keep_order: as in :meth:`aethergraph.Graph.from_edges`.

    Raises:
        InvalidArgumentError: as :func:`from_data`; a dtype that a graph cannot hold, weights or
            times that it cannot keep exactly (names the attribute, and ``position`` the first such
            value), a ``time_attr`` that does not exist, or a dataset of several graphs.
        OutOfRangeError: as :func:`from_data`; a time above 2^63 - 1.
    """
    if isinstance(data, Dataset):
        if len(data) != 1:
            raise InvalidArgumentError(
                f"{data} has {len(data)} graphs: give one of them, such as dataset[0]"
            )
        data = data[0]
    features, graph_store = from_data(data)
    tables: dict[Any, dict[str, Tensor]] = {}
    lost = []
    for (group, name), column in features.columns():
        if isinstance(column, SelectedColumn):
            lost.append(name if group in (None, EDGE_GROUP) else f"{name} of {group!r}")
        else:
            tables.setdefault(group, {})[name] = column.get(None)
    unit = features.graph_attrs.get(_UNIT)
    values = _take_values(tables, time_attr, unit if is_unit(unit) else None)
    lost += [name for name in features.graph_attrs if name != _UNIT or not values.has_unit]
    for group, attrs in features.type_attrs.items():
        lost += [f"{name} of {group!r}" for name in attrs]
    if lost:
        log.warning("graph_from_data: not in the graph: %s", ", ".join(lost))
    options: dict[str, Any] = {"layout": layout, "keep_order": keep_order}
    if isinstance(data, HeteroData):
        return _typed_graph(graph_store, tables, values, options)
    graph = Graph.from_edges(
        graph_store.get_all_edge_attrs()[0].size[0],
        *graph_store.edge_index(),
        edge_weight=values.edge_weight.get(EDGE_GROUP),
        edge_time=values.edge_time.get(EDGE_GROUP),
        node_time=values.node_time.get(None),
        edge_attrs=tables.get(EDGE_GROUP),
        **options,
    )
    graph.node_attrs.update(tables.get(None, {}))  # type: ignore[arg-type]
    return graph


def _typed_graph(
    graph_store: GraphStore,
    tables: dict[Any, dict[str, Tensor]],
    values: _Values,
    options: dict[str, Any],
) -> HeteroGraph:
    kinds = graph_store.edge_types
    graph = HeteroGraph.from_edges(
        {kind: graph_store.edge_index(kind) for kind in kinds},
        graph_store.num_typed_nodes(),
        edge_weight=values.edge_weight,
        edge_time=values.edge_time,
        node_time=values.node_time,
        edge_attrs={kind: tables.get(kind, {}) for kind in kinds},
        **options,
    )
    for name in graph.node_types:
        graph[name].attrs.update(tables.get(name, {}))  # type: ignore[arg-type]
    return graph


class _Values(NamedTuple):
    """Weights and times that a graph keeps as values of its own, by group."""

    edge_weight: dict[Any, NDArray[Any]]
    edge_time: dict[Any, NDArray[Any]]
    node_time: dict[Any, NDArray[Any]]

    @property
    def has_unit(self) -> bool:
        """True if some times are datetimes."""
        times = [*self.edge_time.values(), *self.node_time.values()]
        return any(array.dtype.kind == "M" for array in times)


def _take_values(
    tables: dict[Any, dict[str, Tensor]], time_attr: str | None, unit: str | None
) -> _Values:
    """Take out of ``tables`` the weights and times that a graph has a place of its own for."""
    nodes = [group for group in tables if not isinstance(group, tuple)]
    edges = [group for group in tables if isinstance(group, tuple)]
    values = _Values({}, {}, {})
    if not (time_attr is None or isinstance(time_attr, str)):
        raise InvalidArgumentError(f"time_attr must be a name or None, got {shown(time_attr)}")
    if time_attr is not None:
        for field, groups in (("node_time", nodes), ("edge_time", edges)):
            tensors = _take(tables, groups, time_attr, field)
            if tensors:
                for group, tensor in tensors:
                    getattr(values, field)[group] = _as_times(tensor, group, time_attr, unit)
                break
        else:
            known = sorted({name for table in tables.values() for name in table})
            raise InvalidArgumentError(
                f"time_attr = {time_attr!r} is no attribute of nodes or edges; there are: "
                + (", ".join(map(repr, known)) or "none")
            )
    for group in edges:
        if "edge_weight" in tables[group]:
            weight = tables[group].pop("edge_weight")
            values.edge_weight[group] = _as_weights(weight, group)
    if values.node_time:  # a graph with times of edges too would have its lists sorted by those
        return values
    for field, groups in (("node_time", nodes), ("edge_time", edges)):
        for group in groups:
            if field in tables[group] and group not in getattr(values, field):
                times = _as_times(tables[group].pop(field), group, field, unit)
                getattr(values, field)[group] = times
    return values


def _take(
    tables: dict[Any, dict[str, Tensor]], groups: Iterable[Any], name: str, field: str
) -> list[tuple[Any, Tensor]]:
    tensors = []
    for group in groups:
        if name in tables[group]:
            tensors.append((group, tables[group].pop(name)))
            if field in tables[group]:
                raise InvalidArgumentError(
                    f"time_attr = {name!r} becomes {field!r}, and there is another attribute of "
                    "that name: rename it, or take it as time_attr"
                )
    return tensors


def _as_weights(values: Tensor, group: Any) -> NDArray[Any]:
    label = _label(group, "edge_weight")
    with _advising("edge_weight"):
        array = _vector(values, label)
        weights = as_float_values(array, len(array), label, "num_edges")
        check_weights(weights, label)
    return weights


def _as_times(values: Tensor, group: Any, name: str, unit: str | None) -> NDArray[Any]:
    label = _label(group, name)
    with _advising(name):
        array = _vector(values, label)
        times, _ = as_times(array, len(array), label, "the number of rows")
    return times if unit is None or times.dtype.kind == "f" else times.view(f"datetime64[{unit}]")


def _label(group: Any, name: str) -> str:
    return f"data.{name}" if group in (None, EDGE_GROUP) else f"data[{group!r}].{name}"


def _vector(values: Tensor, label: str) -> NDArray[Any]:
    if values.dtype == torch.bfloat16:
        values = values.float()
    if values.ndim == 2 and values.shape[1] == 1:
        raise InvalidArgumentError(f"{label} must be one-dimensional: take {label}.view(-1)")
    return to_array(values, label)


@contextmanager
def _advising(name: str) -> Iterator[None]:
    """Add to an error about values that are to be the graph's own how to keep them otherwise."""
    try:
        yield
    except AetherError as error:
        text = f"{error}; an attribute of another name than {name!r} keeps any values"
        raise type(error)(text, position=error.position, value=error.value) from None
