"""Batches of samples: tensors gathered, and put together as PyG's loaders do.

Source followed: ``torch_geometric/loader/{node_loader,link_loader,utils}.py`` (``filter_fn``,
``filter_custom_store``, ``filter_custom_hetero_store``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.storage import N_KEYS
from torch_geometric.sampler import HeteroSamplerOutput, SamplerOutput

from aethergraph._options import as_list, shown
from aethergraph._torch.tensors import stack_rows
from aethergraph.errors import InvalidArgumentError
from aethergraph.loading.planned import Coming, choose_plans
from aethergraph.pyg.feature_store import EDGE_GROUP, FeatureStore

if TYPE_CHECKING:
    from aethergraph._row_plan import RowPlan
    from aethergraph._torch.columns import Column
    from aethergraph.sampling.groups import SampleGroups

__all__ = [
    "Fetched",
    "Names",
    "Planned",
    "TypedFetched",
    "choose_columns",
    "choose_names",
    "counted_types",
    "fetch",
    "make_batch",
    "make_typed_batch",
]


class Fetched(NamedTuple):
    """Tensors gathered for a sample, by name."""

    nodes: list[tuple[str, Tensor]]
    edges: list[tuple[str, Tensor]]


class TypedFetched(NamedTuple):
    """Tensors gathered for a typed sample: node type or edge type, name, tensor."""

    tensors: list[tuple[Any, str, Tensor]]


class Names(NamedTuple):
    """Names of the node tensors and edge tensors that a batch holds; None: all that exist."""

    nodes: frozenset[str] | None = None
    edges: frozenset[str] | None = None

    def take(self, group: Any, name: str) -> bool:
        """Return whether a batch holds the tensor ``name`` of a group of the feature store."""
        own = self.edges if isinstance(group, tuple) else self.nodes
        return own is None or name in own


def choose_names(
    store: Any, node_attrs: Iterable[str] | None, edge_attrs: Iterable[str] | None
) -> Names:
    """Check the names that a user gave against the tensors that ``store`` has.

    Raises:
        InvalidArgumentError: a name that no tensor has; names the option and the existing tensors.
    """
    keys = _keys(store)
    found: list[frozenset[str] | None] = []
    for given, option, of_edges in (
        (node_attrs, "node_attrs", False), (edge_attrs, "edge_attrs", True),
    ):  # fmt: skip
        known = {name for group, name in keys if isinstance(group, tuple) == of_edges}
        found.append(None if given is None else _known_names(given, known, option))
    return Names(*found)


def _known_names(given: Any, known: set[str], option: str) -> frozenset[str]:
    names = [given] if isinstance(given, str) else as_list(given, option, "names")
    for name in names:
        if not isinstance(name, str) or name not in known:
            there = ", ".join(sorted(known)) or "none"
            raise InvalidArgumentError(
                f"{option}: {shown(name)} does not exist; there are: {there}"
            )
    return frozenset(names)


def fetch(store: Any, out: Any, names: Names) -> Fetched | TypedFetched:
    """Gather the tensors that ``store``, ours or another one, has for a sample."""
    if isinstance(out, HeteroSamplerOutput):
        return _fetch_typed(store, out, names)
    if not isinstance(store, FeatureStore):
        attrs = [a for a in store.get_all_tensor_attrs() if names.take(a.group_name, a.attr_name)]
        for attr in attrs:
            attr.index = out.node
        tensors = store.multi_get_tensor(attrs)
        return Fetched(list(zip((attr.attr_name for attr in attrs), tensors, strict=True)), [])
    node = out.node.numpy()
    node_columns, edge_columns = store.batch_columns()
    nodes = [
        (name, column.gather(node, store.pool))
        for name, column in node_columns
        if names.take(None, name)
    ]
    edges = []
    if edge_columns and out.edge is not None:
        ids = out.edge.numpy()
        edges = [
            (name, column.gather(ids, store.pool))
            for name, column in edge_columns
            if names.take(EDGE_GROUP, name)
        ]
    return Fetched(nodes, edges)


def _fetch_typed(store: Any, out: HeteroSamplerOutput, names: Names) -> TypedFetched:
    if not isinstance(store, FeatureStore):
        attrs = [
            attr
            for attr in store.get_all_tensor_attrs()
            if attr.group_name in out.node and names.take(attr.group_name, attr.attr_name)
        ]
        for attr in attrs:
            attr.index = out.node[attr.group_name]
        tensors = store.multi_get_tensor(attrs)
        return TypedFetched(
            [(a.group_name, a.attr_name, t) for a, t in zip(attrs, tensors, strict=True)]
        )
    found = []
    for (group, name), column in store.columns():
        ids = (out.edge or {}).get(group) if isinstance(group, tuple) else out.node.get(group)
        if ids is not None and names.take(group, name):
            found.append((group, name, column.gather(ids.numpy(), store.pool)))
    return TypedFetched(found)


class Planned(NamedTuple):
    """Columns of a feature store to plan gathers for, with their groups, and the coming samples."""

    columns: list[tuple[Any, Column]]
    coming: Coming

    def plan(self, outs: Sequence[Any]) -> list[RowPlan]:
        """Plan the gathers of :func:`fetch` for each of these samples, in their order."""
        found = []
        for group, column in self.columns:
            lists = [ids.numpy() for out in outs if (ids := _ids_of(out, group)) is not None]
            found.append(column.plan(lists) if lists else None)
        return [one for one in found if one is not None]


def choose_columns(
    store: Any, names: Names, plan_ahead: int, groups: SampleGroups | None, num_seeds: int
) -> Planned:
    """Choose the columns whose gathers are planned ahead; see :func:`choose_plans`."""
    if not isinstance(store, FeatureStore):
        return Planned([], Coming(0, []))
    columns = [(key[0], column) for key, column in store.columns() if names.take(*key)]
    coming = choose_plans([c.rows for _, c in columns], plan_ahead, groups, num_seeds)
    return Planned([columns[i] for i, _ in coming.chosen], coming)


def _ids_of(out: Any, group: Any) -> Tensor | None:
    """Return the ids that a sample has of a group; None if it has none."""
    if isinstance(out, HeteroSamplerOutput):
        by_group = out.edge if isinstance(group, tuple) else out.node
        return (by_group or {}).get(group)
    of_edges = group == EDGE_GROUP
    return (out.edge if of_edges else out.node) if of_edges or group is None else None


def counted_types(data: Any, store: Any) -> frozenset[Any] | None:
    """Return the node types (None: the only one) whose batches have ``num_nodes``, as PyG's do.

    A ``Data`` or ``HeteroData`` says so itself. A graph, or the path of one, is like a ``Data``
    without it: in a batch ``n_id`` implies it, unless an attribute of edges has a name in which PyG
    looks for rows of nodes.

    Args:
        data: given to the loader.
        store: the feature store of ``data``.

    Returns:
        None for stores: PyG then adds the attribute to every type that has tensors.
    """
    if isinstance(data, HeteroData):
        return frozenset(name for name in data.node_types if "num_nodes" in data[name])
    if isinstance(data, Data):
        return frozenset([None] if "num_nodes" in data else [])
    if isinstance(data, (tuple, list)):
        return None
    misread = (group == EDGE_GROUP and name in N_KEYS for group, name in _keys(store))
    return frozenset([None]) if any(misread) else frozenset()


def _keys(store: Any) -> list[tuple[Any, str]]:
    """Return group and name of every tensor of a feature store, ours or another one."""
    if isinstance(store, FeatureStore):
        return [key for key, _ in store.columns()]
    return [(attr.group_name, attr.attr_name) for attr in store.get_all_tensor_attrs()]


def make_batch(
    store: Any,
    out: SamplerOutput,
    fetched: Fetched,
    order: Any,
    counted: frozenset[Any] | None = None,
) -> dict[str, Any]:
    """Return the attributes of a batch, except those that the seeds add.

    Args:
        store: the feature store; ours adds the attributes of the graph as a whole.
        out: the sample.
        fetched: the tensors gathered for the sample.
        order: the sampler's ``edge_permutation``.
        counted: see :func:`counted_types`.
    """
    batch: dict[str, Any] = {"edge_index": stack_rows(out.row, out.col)}
    if fetched.nodes if counted is None else counted:
        batch["num_nodes"] = out.node.size(0)
    if isinstance(store, FeatureStore):
        batch.update(store.graph_attrs)
    batch.update(fetched.nodes)
    batch.update(fetched.edges)
    batch.setdefault("n_id", out.node)
    if out.edge is not None and "e_id" not in batch:
        edge = out.edge.to(torch.long)
        batch["e_id"] = edge if order is None else order[edge]
    batch["batch"] = out.batch
    batch["num_sampled_nodes"] = out.num_sampled_nodes
    batch["num_sampled_edges"] = out.num_sampled_edges
    if out.orig_row is not None and out.orig_col is not None:
        batch["_orig_edge_index"] = torch.stack([out.orig_row, out.orig_col])
    return batch


def as_data(batch: dict[str, Any], custom_cls: Any) -> Any:
    """Make a ``Data`` of the attributes that are not None, or a ``custom_cls`` of all."""
    if custom_cls is None:
        return Data.from_dict({name: value for name, value in batch.items() if value is not None})
    data = custom_cls()
    for name, value in batch.items():
        setattr(data, name, value)
    return data


def make_typed_batch(
    store: Any,
    out: HeteroSamplerOutput,
    fetched: TypedFetched,
    order: Any,
    custom_cls: Any,
    counted: frozenset[Any] | None = None,
) -> HeteroData:
    """Make a ``HeteroData`` except for what the seeds add; see :func:`make_batch`."""
    data = HeteroData() if custom_cls is None else custom_cls()
    if isinstance(store, FeatureStore):
        for name, value in store.graph_attrs.items():
            setattr(data, name, value)
    if counted is None:
        counted = frozenset(group for group, _, _ in fetched.tensors)
    for group, node in out.node.items():  # first, since this fixes the order of the types
        nodes = data[group]
        if group in counted:
            nodes.num_nodes = node.size(0)
    for kind, row in out.row.items():
        data[kind].edge_index = stack_rows(row, out.col[kind])
    if isinstance(store, FeatureStore):
        for group, attrs in store.type_attrs.items():
            data[group].update(attrs)
    for group, name, tensor in fetched.tensors:
        data[group][name] = tensor
    for group, node in out.node.items():
        if "n_id" not in data[group]:
            data[group].n_id = node
    for kind, edge in (out.edge or {}).items():
        if edge is not None and "e_id" not in data[kind]:
            own = None if order is None else order.get(kind)
            data[kind].e_id = edge.to(torch.long) if own is None else own[edge.to(torch.long)]
    data.set_value_dict("batch", out.batch)
    data.set_value_dict("num_sampled_nodes", out.num_sampled_nodes)
    data.set_value_dict("num_sampled_edges", out.num_sampled_edges)
    if out.orig_row is not None and out.orig_col is not None:
        for kind, row in out.orig_row.items():
            data[kind]._orig_edge_index = torch.stack([row, out.orig_col[kind]])
    return data
