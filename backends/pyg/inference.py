"""embed: vectors of every node by a model of PyG, layer by layer, out of core.

Source followed: ``torch_geometric/nn/models/basic_gnn.py`` (``BasicGNN.inference``, whose public
``inference_per_layer`` is called here), and the ``forward`` of convolutions in
``torch_geometric/nn/conv``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.nn import Module
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.models.basic_gnn import BasicGNN

from aethergraph._checks.options import as_flag, as_text
from aethergraph._torch.layers import (
    Call,
    Steps,
    TorchLayer,
    check_values,
    dtype_of,
    evaluating,
    items_of,
    on_device,
    place_modules,
    split_steps,
)
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.inference import embed as embed_layers
from aethergraph.pyg._convolutions import aggregate_of, ends_of, why_not
from aethergraph.pyg._typed_layers import graph_parts, list_parts
from aethergraph.pyg.data import graph_from_data

if TYPE_CHECKING:
    import os

    import numpy as np
    from numpy.typing import ArrayLike

    from aethergraph.convert.result import Stages
    from aethergraph.loading.batch import Batch
    from aethergraph.protocols import AnyGraph, EdgeType, FeatureSource

__all__ = ["embed"]


def embed(
    model: Module | Sequence[Any],
    graph: AnyGraph | Data | HeteroData,
    out: str | os.PathLike[str],
    *,
    features: FeatureSource | ArrayLike | Mapping[str, FeatureSource | ArrayLike] | None = None,
    edge_weight: str | None = None,
    edge_attr: str | None = None,
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
    """Compute a vector for every node with a trained model, layer by layer, into a ``.npy`` file.

    What ``model.inference(loader)`` of PyG returns, for graphs and features of any size::

        table = embed(model, graph, "vectors.npy", memory_budget="4G")
        table.gather([3, 7])

    :func:`aethergraph.inference.embed` says how the work goes on after a kill, and has the other
    arguments. The model is called in ``eval`` mode and without gradients; its modes come back.

    A graph of many types needs a model of many types, whose rows are those of the model over the
    whole graph. ``out`` is then a folder with a file for each type that the model returns::

        model = to_hetero(GraphSAGE((-1, -1), 64, num_layers=2, out_channels=32), graph.metadata())
        tables = embed(model, graph, "vectors")                 # {"paper": table, "author": table}

    ``GCNConv`` counts degrees in the batch that it gets, where nodes that are only neighbours have
    no edges. Its rows are those of ``model.inference`` with batches of the same ``batch_size``, and
    differ from those of ``model(x, edge_index)`` for all nodes at once. For the latter, give the
    graph the weights of ``gcn_norm``, with the self-loops that these belong to, make the model with
    ``normalize=False``, and name them as ``edge_weight``.

    Args:
        model: a model of PyG's ``BasicGNN`` family (``GCN``, ``GraphSAGE``, ``GAT``, ``GIN``...),
            or a list of convolutions and what stands between them, each a function of rows:
            ``[conv1, torch.relu, conv2]``. Of a graph of many types a model that ``to_hetero`` made
            of either kind or of a module of yours, or a list of ``HeteroConv`` and ``HGTConv``, in
            which functions whose first argument ends in ``_dict`` get rows by type, and a
            ``ModuleDict`` has a module for each type.
        graph: a graph of ours, a ``Data`` or a ``HeteroData``.
        out: as ``out`` of :func:`aethergraph.inference.embed`.
        features: what the first layer reads, a row for each node, of a typed graph by node type;
            None: the ``x`` of the graph.
        edge_weight: name of the attribute of edges that convolutions get as ``edge_weight``;
            ``"edge_weight"`` is the graph's own. None: they get none. In typed graphs relations may
            lack it.
        edge_attr: likewise as ``edge_attr``.
        device: where the layers run; the model is moved there. None: where its parameters are.
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
        UnsupportedError: a model of another kind, or one whose layers need more than the neighbours
            of a node: ``jk="cat"``, several hops in a convolution, norms over all nodes; a layer of
            a typed model that needs the rows of two before it; with ``refresh``, convolutions that
            count degrees in their batch.
        InvalidArgumentError: convolutions do not take such values of edges; lazy parameters; or as
            :func:`aethergraph.inference.embed`.
    """
    source: Any = graph
    if isinstance(graph, (Data, HeteroData)):
        source = graph_from_data(graph)
    elif isinstance(graph, tuple):
        raise InvalidArgumentError(
            "graph is a pair of stores: give the graph that they are of, and its rows as features"
        )
    names = {"edge_weight": as_text(edge_weight, "edge_weight")}
    names["edge_attr"] = as_text(edge_attr, "edge_attr")
    values = {option: name for option, name in names.items() if name is not None}
    is_typed = bool(getattr(source, "is_typed", False))
    is_whole = isinstance(model, (GraphModule if is_typed else BasicGNN))
    if is_typed and isinstance(model, BasicGNN):
        raise UnsupportedError(
            f"model is a {type(model).__name__}, of one type, and the graph has many: "
            "to_hetero(model, graph.metadata()) is one for them"
        )
    items = [model] if is_whole else items_of(model)
    modules = [item for item in items if isinstance(item, Module)]
    if as_flag(refresh, "refresh"):
        _check_alone(modules)
    place = place_modules(modules, device, why_not)
    parts: Iterator[tuple[str, list[Any], Any, Any]]
    if is_typed:
        typed = (
            graph_parts(model, values, place) if isinstance(model, GraphModule)
            else list_parts(items, values, place)
        )  # fmt: skip
        parts = ((*part, None) for part in typed)
    elif is_whole:
        parts = _basic_parts(model, values, place)
    else:
        parts = _list_parts(items, values, place)
    layers = [
        TorchLayer(name, steps, call, values, place, aggregate)
        for name, steps, call, aggregate in parts
    ]
    with evaluating(modules):
        return embed_layers(
            layers, source, features, out, batch_size=batch_size, num_neighbors=num_neighbors,
            until=until, time_attr=time_attr, edge_attrs=list(dict.fromkeys(values.values())),
            memory_budget=memory_budget, dtype=dtype_of(dtype), seed=seed, force=force,
            restart=restart, refresh=refresh, plan=plan, stages=stages, remark=remark,
        )  # fmt: skip


#: Name, steps and call of a layer, and what it needs of its neighbours.
_Part = tuple[str, list[Any], Call, Any]


def _basic_parts(model: Any, values: Mapping[str, str], device: torch.device) -> Iterator[_Part]:
    """Yield the layers of a model of PyG's."""
    if model.jk_mode not in (None, "last"):
        raise UnsupportedError(
            f"model has jk = {model.jk_mode!r}: its output needs the rows of all layers at once; "
            "embed takes jk=None and jk='last'"
        )
    for option in values:
        if not getattr(model, f"supports_{option}"):
            raise InvalidArgumentError(f"{type(model).__name__} takes no {option}")
    for number, conv in enumerate(model.convs):
        call = _basic_call(model, number, conv, device)
        yield type(conv).__name__, [model], call, aggregate_of(conv, values)


def _basic_call(model: Any, number: int, conv: Module, device: torch.device) -> Call:
    ends = ends_of(conv)

    def call(x: Tensor, batch: Batch, values: dict[str, Tensor]) -> Tensor:
        # inference_per_layer() hands no values of edges on.
        hook = conv.register_forward_pre_hook(
            lambda _, args, kwargs: (args, {**kwargs, **values}), with_kwargs=True
        )
        count = batch.batch_size
        try:
            edge_index = on_device(batch.edge_index, device)
            rows: Tensor = model.inference_per_layer(number, ends(x, count), edge_index, count)
        finally:
            hook.remove()
        return rows

    return call


def _list_parts(
    items: Sequence[Any], values: Mapping[str, str], device: torch.device
) -> Iterator[_Part]:
    """Yield the layers of a list."""
    noun = "torch_geometric.nn.MessagePassing"
    for steps in split_steps(items, lambda item: isinstance(item, MessagePassing), noun):
        check_values(steps.conv, values)
        aggregate = None if steps.before else aggregate_of(steps.conv, values)
        yield type(steps.conv).__name__, steps.all, _list_call(steps, device), aggregate


def _list_call(steps: Steps, device: torch.device) -> Call:
    ends = ends_of(steps.conv)

    def call(x: Tensor, batch: Batch, values: dict[str, Tensor]) -> Tensor:
        count, edge_index = batch.batch_size, on_device(batch.edge_index, device)
        return steps.run(x, lambda x: steps.conv(ends(x, count), edge_index, **values)[:count])

    return call


def _check_alone(modules: Sequence[Module]) -> None:
    """Raise for convolutions whose rows depend on which other nodes are in the batch."""
    for root in modules:
        for module in root.modules():
            # Those that work with the norms of GCN import what makes them, or the Laplacian.
            names = {"gcn_norm", "get_laplacian"} & vars(
                sys.modules[type(module).__module__]
            ).keys()
            is_normal = "symnorm" in getattr(module, "aggregators", ("symnorm",))  # of EGConv
            is_normal = is_normal and getattr(module, "normalize", True)
            if isinstance(module, MessagePassing) and names and is_normal:
                way = "it with normalize=False, and the norms as edge_weight"
                raise UnsupportedError(
                    f"{type(module).__name__} counts degrees in its batch, so that its rows depend "
                    "on the other nodes there: refresh=True takes "
                    f"{way if hasattr(module, 'normalize') else 'other convolutions'}"
                )
