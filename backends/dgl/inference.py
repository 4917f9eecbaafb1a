"""embed: vectors of every node by a list of DGL's convolutions, layer by layer, out of core."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

import dgl
from aethergraph._checks.options import as_flag, as_text
from aethergraph._torch.layers import (
    Call,
    Steps,
    TorchLayer,
    apply_by_type,
    arguments_of,
    check_values,
    dtype_of,
    evaluating,
    items_of,
    on_device,
    place_modules,
    split_steps,
)
from aethergraph.dgl.storage import GraphStorage
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.inference import embed as embed_layers
from dgl.nn import GINConv, GraphConv, HeteroGraphConv, SAGEConv

if TYPE_CHECKING:
    import os

    from numpy.typing import ArrayLike, NDArray

    from aethergraph.convert.result import Stages
    from aethergraph.loading.batch import Batch, HeteroBatch
    from aethergraph.protocols import AnyGraph, EdgeType, FeatureSource

    Ids = NDArray[np.int64]

__all__ = ["embed"]


def embed(
    model: Sequence[Any] | Module,
    graph: AnyGraph | GraphStorage,
    out: str | os.PathLike[str],
    *,
    features: FeatureSource | ArrayLike | Mapping[str, FeatureSource | ArrayLike] | None = None,
    edge_weight: str | None = None,
    device: torch.device | str | None = None,
    batch_size: int | None = None,
    num_neighbors: int | Sequence[int] | Mapping[EdgeType, int | Sequence[int]] | None = None,
    until: float | np.datetime64 | None = None,
    time_attr: str | None = None,
    memory_budget: int | str | None = None,
    dtype: str | np.dtype[Any] | torch.dtype | None = None,
    seed: int = 0,
    force: bool = False,
    restart: bool = False,
    refresh: bool = False,
    plan: bool = False,
    stages: Stages | None = None,
    remark: Callable[[str], None] | None = None,
) -> Any:
    """Compute a vector for every node with trained layers, one after the other, into a ``.npy``.

    ::

        layers = [*model.layers]                           # SAGEConv, SAGEConv
        table = embed([layers[0], torch.relu, layers[1]], graph, "vectors.npy", memory_budget="4G")

    A convolution is called with a block of all edges that end at some nodes, and the rows of its
    sources. The modules are called in ``eval`` mode and without gradients; their modes come back.
    :func:`aethergraph.inference.embed` says how the work goes on after a kill, and has the other
    arguments.

    ``GraphConv`` counts the out-edges of sources in its block: its rows depend on ``batch_size``
    but with ``norm="right"``, or with ``norm="none"`` and the weights of ``EdgeWeightNorm``.

    Args:
        model: convolutions of ``dgl.nn`` and what stands between them, each a function of rows. Of
            a graph of many types ``HeteroGraphConv``; functions whose first argument ends in
            ``_dict`` get rows by type, and a ``ModuleDict`` has a module for each type.
        graph: a graph of ours, or a :class:`GraphStorage` of one.
        out: as ``out`` of :func:`aethergraph.inference.embed`: of a typed graph a folder.
        features: what the first layer reads, a row for each node, of a typed graph by node type;
            None: the ``x`` of the graph.
        edge_weight: name of the attribute of edges that convolutions get as ``edge_weight``;
            ``"edge_weight"`` is the graph's own. None: they get none.
        device: where the layers run; the modules are moved there. None: where they are.
        batch_size: as in :func:`aethergraph.inference.embed`.
        num_neighbors: as in :func:`aethergraph.inference.embed`.
        until: as in :func:`aethergraph.inference.embed`.
        time_attr: as in :func:`aethergraph.inference.embed`.
        memory_budget: as in :func:`aethergraph.inference.embed`, for memory of the host.
        dtype: as in :func:`aethergraph.inference.embed`, or one of torch.
        seed: as in :func:`aethergraph.inference.embed`.
        force: as in :func:`aethergraph.inference.embed`.
        restart: as in :func:`aethergraph.inference.embed`.
        refresh: as in :func:`aethergraph.inference.embed`.
        plan: as in :func:`aethergraph.inference.embed`.
        stages: as in :func:`aethergraph.inference.embed`.
        remark: as in :func:`aethergraph.inference.embed`.

    Returns:
        The output, mapped, a :class:`aethergraph.FeatureTable`; of a typed graph a table by node
        type.

    Raises:
        UnsupportedError: no list; a convolution over several hops, or one that keeps what it
            computed for another graph; one of many types for a graph of one, or the other way; with
            ``refresh``, one that counts degrees in its block.
        InvalidArgumentError: convolutions take no such values of edges; lazy parameters; a graph of
            DGL's; or as :func:`aethergraph.inference.embed`.
    """
    if isinstance(graph, dgl.DGLGraph):
        raise InvalidArgumentError("graph is a DGLGraph: from_dgl(graph) makes one of ours")
    source: Any = graph.graph if isinstance(graph, GraphStorage) else graph
    name = as_text(edge_weight, "edge_weight")
    values = {} if name is None else {"edge_weight": name}
    items = items_of(model)
    modules = [item for item in items if isinstance(item, Module)]
    if as_flag(refresh, "refresh"):
        _check_alone(modules)
    place = place_modules(modules, device, _why_not)
    layers = []
    is_typed = bool(getattr(source, "is_typed", False))
    for steps in split_steps(items, _is_conv, "a module of dgl.nn"):
        _check_conv(steps.conv, is_typed, values)
        kind = type(steps.conv).__name__
        call = (_typed_call if is_typed else _call)(steps, place)
        aggregate = None if is_typed or steps.before else _aggregate_of(steps.conv, values)
        layers.append(TorchLayer(kind, steps.all, call, values, place, aggregate))
    with evaluating(modules):
        return embed_layers(
            layers, source, features, out, batch_size=batch_size, num_neighbors=num_neighbors,
            until=until, time_attr=time_attr, edge_attrs=[*values.values()],
            memory_budget=memory_budget, dtype=dtype_of(dtype), seed=seed, force=force,
            restart=restart, refresh=refresh, plan=plan, stages=stages, remark=remark,
        )  # fmt: skip


def _check_conv(conv: Module, is_typed: bool, values: Mapping[str, str]) -> None:
    """Raise for a convolution that is not of such graphs, or does not take such values."""
    if isinstance(conv, HeteroGraphConv) != is_typed:
        name = type(conv).__name__
        raise UnsupportedError(
            f"model has a {name}, of one type, and the graph has many: HeteroGraphConv({{relation: "
            "convolution}) is one for them"
            if is_typed
            else f"model has a {name}, of many types, and the graph has one"
        )
    if not isinstance(conv, HeteroGraphConv):
        check_values(conv, values)
        return
    for option in values:
        if not any(option in arguments_of(module) for module in conv.mods.values()):
            raise InvalidArgumentError(f"HeteroGraphConv takes no {option}")


def _call(steps: Steps, device: torch.device) -> Call:
    def call(x: Tensor, batch: Batch, values: dict[str, Tensor]) -> Tensor:
        count, sample = batch.batch_size, batch.subgraph
        block = dgl.create_block(
            _lists(sample.row, sample.col, count, device),
            num_src_nodes=len(sample.node), num_dst_nodes=count, device=device,
        )  # fmt: skip
        return steps.run(x, lambda x: steps.conv(block, x, **values))

    return call


def _lists(row: Ids, col: Ids, count: int, device: torch.device) -> Any:
    """Return edges to the first ``count`` nodes as lists of in-edges, for ``create_block``."""
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(col, minlength=count), out=offsets[1:])
    ids = on_device(offsets, device), on_device(row, device)
    return "csc", (*ids, ids[0].new_empty(0))


def _typed_call(steps: Steps, device: torch.device) -> Any:
    def call(
        x: dict[str, Tensor], batch: HeteroBatch, values: dict[str, dict[EdgeType, Tensor]]
    ) -> Tensor | None:
        (name,) = batch.seeds
        count, sample = batch.batch_size, batch.subgraph
        kinds = [kind for kind in sample.row if kind[2] == name]
        for step in steps.before:
            x = apply_by_type(step, x)
        rows = {}
        if kinds:
            block = dgl.create_block(
                {kind: _lists(sample.row[kind], sample.col[kind], count, device) for kind in kinds},
                num_src_nodes={kind[0]: len(sample.node[kind[0]]) for kind in kinds},
                num_dst_nodes={name: count}, device=device,
            )  # fmt: skip
            targets = {name: x[name][:count]} if name in x else {}
            by_relation = _by_relation(kinds, values)
            rows = steps.conv(block, (x, targets), mod_kwargs=by_relation)
        for step in steps.after:
            rows = apply_by_type(step, rows)
        return rows.get(name)

    return call


def _by_relation(
    kinds: Sequence[EdgeType], values: dict[str, dict[EdgeType, Tensor]]
) -> dict[str, dict[str, Tensor]]:
    """Return values of edges by relation and argument, as HeteroGraphConv takes them."""
    by_relation: dict[str, dict[str, Tensor]] = {}
    for option, of_kinds in values.items():
        for kind in kinds:
            if kind in of_kinds:
                arguments = by_relation.setdefault(kind[1], {})
                if option in arguments:
                    raise UnsupportedError(
                        f"edges {kind} have the relation of others that end at {kind[2]!r}, and "
                        f"HeteroGraphConv takes {option} by relation: give relations names of "
                        "their own"
                    )
                arguments[option] = of_kinds[kind]
    return by_relation


def _is_conv(item: Any) -> bool:
    """Return whether it is a module that is called with a graph first, as those of DGL are."""
    if not isinstance(item, Module):
        return False
    return next(iter(inspect.signature(item.forward).parameters), "") in ("graph", "g")


def _aggregate_of(conv: Any, values: Mapping[str, str]) -> Any:
    """Return what a convolution needs of its neighbours, as ``aggregate`` of a layer; None: all."""
    kind = type(conv)  # classes of users that are made of these may compute anything
    if kind is GINConv:
        how = conv._aggregator_type
    elif kind is SAGEConv and conv._aggre_type == "mean":
        how = "mean"
    elif kind is GraphConv and conv._norm == "none":
        how = "sum"
    else:
        return None
    # Rows are made smaller before they are added up, where that is less work: other last bits.
    width = getattr(conv, "_in_src_feats", getattr(conv, "_in_feats", 0))
    if width > getattr(conv, "_out_feats", width):
        return None
    if any(hooks for name, hooks in vars(conv).items() if name.endswith("_hooks")):
        return None
    weight = values.get("edge_weight")
    return how if weight is None else (how, weight)


def _check_alone(modules: Sequence[Module]) -> None:
    """Raise for convolutions whose rows depend on which other nodes are in the batch."""
    for root in modules:
        for module in root.modules():
            if _is_conv(module) and getattr(module, "_norm", None) in ("both", "left"):
                raise UnsupportedError(
                    f"{type(module).__name__} with norm={module._norm!r} counts out-edges in its "
                    "batch, so that its rows depend on the other nodes there: refresh=True takes "
                    "it with norm='right', or with norm='none' and the norms as edge_weight"
                )


def _why_not(module: Module) -> str | None:
    """Return why a module needs more than the neighbours of a node; None: it does not."""
    if not _is_conv(module):
        return None
    hops = [getattr(module, option, 1) for option in ("_k", "_n_steps")]
    if any(isinstance(count, int) and count > 1 for count in hops):
        return f"follows {max(hops)} hops"
    if getattr(module, "_cached", False) is True:
        return "keeps what it computes for the first graph (cached=True)"
    return None
