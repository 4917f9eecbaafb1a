"""Batches of samples: tensors gathered, and put together as PyG's loaders do.

Source followed: ``torch_geometric/loader/{node_loader,link_loader,utils}.py`` (``filter_fn``,
``filter_custom_store``, ``filter_custom_hetero_store``).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.data.storage import N_KEYS
from torch_geometric.sampler import HeteroSamplerOutput, SamplerOutput

from aethergraph._checks.options import as_list, shown
from aethergraph._torch.tensors import stack_rows
from aethergraph.errors import InvalidArgumentError
from aethergraph.loading.pipeline import RowPlans, choose_plans
from aethergraph.pyg._selected import SelectedColumn
from aethergraph.pyg._tensor_attr import EDGE_GROUP
from aethergraph.pyg._tensor_rows import Fetched, Names, TypedFetched, tensors_of

if TYPE_CHECKING:
    from aethergraph._torch.feature_columns import Column
    from aethergraph.protocols import GatherPlan
    from aethergraph.sampling.groups import SampleGroups

__all__ = [
    "Fetched",
    "Names",
    "Planned",
    "TypedFetched",
    "check_names",
    "choose_columns",
    "choose_names",
    "counted_types",
    "empty_copy",
    "fetch",
    "make_batch",
    "make_typed_batch",
]

#: What batches have of nodes and of edges, beside the attributes of the graph.
_NODE_FIELDS = frozenset(("n_id", "batch", "num_nodes", "num_sampled_nodes"))
_EDGE_FIELDS = frozenset(("e_id", "edge_index", "_orig_edge_index", "num_sampled_edges"))


def choose_names(
    store: Any, node_attrs: Iterable[str] | None, edge_attrs: Iterable[str] | None
) -> Names:
    """Check the names that a user gave against the tensors that ``store`` has.

    Raises:
        InvalidArgumentError: a name that no tensor has; names the option and the existing tensors.
    """
    keys = tensors_of(store).tensor_keys()
    chosen: list[frozenset[str] | None] = []
    for names, option, of_edges in (
        (node_attrs, "node_attrs", False), (edge_attrs, "edge_attrs", True),
    ):  # fmt: skip
        known = {name for group, name in keys if isinstance(group, tuple) == of_edges}
        chosen.append(None if names is None else _known_names(names, known, option))
    return Names(*chosen)


def _known_names(value: Any, known: set[str], option: str) -> frozenset[str]:
    names = [value] if isinstance(value, str) else as_list(value, option, "names")
    for name in names:
        if not isinstance(name, str) or name not in known:
            existing = ", ".join(sorted(known)) or "none"
            raise InvalidArgumentError(
                f"{option}: {shown(name)} does not exist; there are: {existing}"
            )
    return frozenset(names)


def fetch(store: Any, out: Any, names: Names, order: Any) -> Fetched | TypedFetched:
    """Gather the tensors that ``store``, ours or another one, has for a sample.

    Args:
        store: the feature store.
        out: the sample.
        names: the attributes that batches hold.
        order: the sampler's ``edge_permutation``.
    """
    source = tensors_of(store)
    if order is not None:
        out = copy.copy(out)
        out.edge = _in_order(out.edge, order)
    if isinstance(out, HeteroSamplerOutput):
        return source.fetch_typed(out, names)
    return source.fetch(out, names)


def _in_order(edge: Any, order: Any) -> Any:
    """Return the ids that the user's edges have, of those that the sampler has sorted."""
    if isinstance(edge, dict):
        return {kind: _in_order(ids, order.get(kind)) for kind, ids in edge.items()}
    return edge if edge is None or order is None else order[edge.to(torch.long)]


class Planned(NamedTuple):
    """Columns of a feature store to plan gathers for, with their groups, and the coming samples."""

    columns: list[tuple[Any, Column]]
    rows: RowPlans

    def plan(self, outs: Sequence[Any]) -> list[GatherPlan]:
        """Plan the gathers of :func:`fetch` for each of these samples, in their order."""
        plans = []
        for group, column in self.columns:
            lists = [ids.numpy() for out in outs if (ids := _ids_of(out, group)) is not None]
            plans.append(column.plan(lists) if lists else None)
        return [plan for plan in plans if plan is not None]


def choose_columns(
    store: Any, names: Names, depth: int, groups: SampleGroups[Any] | None, num_seeds: int
) -> Planned:
    """Choose the columns whose gathers are planned ahead; see :func:`choose_plans`.

    Without a ``store`` nothing is planned.
    """
    if store is None:
        return Planned([], RowPlans(0, []))
    keyed_columns = tensors_of(store).columns()
    columns = [
        (key[0], column)
        for key, column in keyed_columns
        if names.take(*key) and not isinstance(column, SelectedColumn)
    ]
    rows = choose_plans([c.rows for _, c in columns], depth, groups, num_seeds)
    return Planned([columns[i] for i, _ in rows.sources], rows)


def _ids_of(out: Any, group: Any) -> Tensor | None:
    """Return the ids that a sample has of a group; None if it has none."""
    if isinstance(out, HeteroSamplerOutput):
        by_group = out.edge if isinstance(group, tuple) else out.node
        return (by_group or {}).get(group)
    of_edges = group == EDGE_GROUP
    return (out.edge if of_edges else out.node) if of_edges or group is None else None


def check_names(data: Any, store: Any, names: Names, seed_fields: frozenset[str]) -> None:
    """Raise if an attribute of a graph of ours has the name of a field that batches have.

    Of a ``Data``, a ``HeteroData`` and stores such names mean what they mean to PyG: an ``n_id`` or
    ``e_id`` of one's own takes the place of the loader's.

    Args:
        data: given to the loader.
        store: the feature store of ``data``.
        names: the attributes that batches hold.
        seed_fields: what batches have of their seeds.

    Raises:
        InvalidArgumentError: names the attribute.
    """
    if isinstance(data, (Data, HeteroData, tuple, list)):
        return
    for group, name in tensors_of(store).tensor_keys():
        if group is None or group == EDGE_GROUP:
            fields = _NODE_FIELDS | _EDGE_FIELDS
        else:
            fields = _EDGE_FIELDS if isinstance(group, tuple) else _NODE_FIELDS
        if name in fields | seed_fields and names.take(group, name):
            of_edges = isinstance(group, tuple)
            noun, option = ("an edge", "edge_attrs") if of_edges else ("a node", "node_attrs")
            where = "" if group is None or group == EDGE_GROUP else f" of {group!r}"
            raise InvalidArgumentError(
                f"{name!r} is {noun} attribute{where}, and a field of its own in batches: call the "
                f"attribute something else, or name the others by {option}="
            )


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
    keys = tensors_of(store).tensor_keys()
    misread = (group == EDGE_GROUP and name in N_KEYS for group, name in keys)
    return frozenset([None]) if any(misread) else frozenset()


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
    batch.update(tensors_of(store).graph_attrs)
    batch.update(fetched.nodes)
    batch.update(fetched.edges)
    batch.setdefault("n_id", out.node)
    if out.edge is not None and "e_id" not in batch:
        batch["e_id"] = _in_order(out.edge, order).to(torch.long)
    batch["batch"] = out.batch
    batch["num_sampled_nodes"] = out.num_sampled_nodes
    batch["num_sampled_edges"] = out.num_sampled_edges
    if out.orig_row is not None and out.orig_col is not None:
        batch["_orig_edge_index"] = torch.stack([out.orig_row, out.orig_col])
    return batch


def empty_copy(data: Any) -> Any:
    """Return a ``Data`` or ``HeteroData`` of a class of the user's own, without its attributes.

    Batches are copies of it, as in PyG. None for all else, and for a ``Batch``, which would take
    along where its graphs begin.
    """
    is_custom = isinstance(data, (Data, HeteroData)) and type(data) not in (Data, HeteroData)
    if not is_custom or isinstance(data, Batch):
        return None
    empty = copy.copy(data)
    for store in empty.stores:
        store.clear()
    return empty


def as_data(batch: dict[str, Any], custom_cls: Any, like: Any = None) -> Any:
    """Make a ``Data`` of the attributes that are not None, or a ``custom_cls`` of all.

    Args:
        batch: attributes by name.
        custom_cls: makes an empty object; None: a ``Data``.
        like: see :func:`empty_copy`.
    """
    if custom_cls is not None:
        data = custom_cls()
        for name, value in batch.items():
            setattr(data, name, value)
        return data
    data = Data() if like is None else copy.copy(like)
    if (hidden := batch.pop("_orig_edge_index", None)) is not None:
        data._orig_edge_index = hidden  # which PyG keeps beside the attributes
    # Three quarters of the time of Data.from_dict().
    return data.update({name: value for name, value in batch.items() if value is not None})


def make_typed_batch(
    store: Any,
    out: HeteroSamplerOutput,
    fetched: TypedFetched,
    order: Any,
    custom_cls: Any,
    counted: frozenset[Any] | None = None,
    like: Any = None,
) -> HeteroData:
    """Make a ``HeteroData`` except for what the seeds add; see :func:`make_batch`."""
    if custom_cls is None:
        data = HeteroData() if like is None else copy.copy(like)
    else:
        data = custom_cls()
    source = tensors_of(store)
    for name, value in source.graph_attrs.items():
        setattr(data, name, value)
    if counted is None:
        counted = frozenset(group for group, _, _ in fetched.tensors)
    for group, node in out.node.items():  # first, since this fixes the order of the types
        nodes = data[group]
        if group in counted:
            nodes.num_nodes = node.size(0)
    for kind, row in out.row.items():
        data[kind].edge_index = stack_rows(row, out.col[kind])
    for group, attrs in source.type_attrs.items():
        data[group].update(attrs)
    for group, name, tensor in fetched.tensors:
        data[group][name] = tensor
    for group, node in out.node.items():
        if "n_id" not in data[group]:
            data[group].n_id = node
    for kind, edge in (out.edge or {}).items():
        if edge is not None and "e_id" not in data[kind]:
            kind_order = None if order is None else order.get(kind)
            data[kind].e_id = _in_order(edge, kind_order).to(torch.long)
    data.set_value_dict("batch", out.batch)
    data.set_value_dict("num_sampled_nodes", out.num_sampled_nodes)
    data.set_value_dict("num_sampled_edges", out.num_sampled_edges)
    if out.orig_row is not None and out.orig_col is not None:
        for kind, row in out.orig_row.items():
            data[kind]._orig_edge_index = torch.stack([row, out.orig_col[kind]])
    return data
