"""embed: vectors of every node by a list of DGL's convolutions, layer by layer, out of core."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

import dgl
from aethergraph._checks.options import as_text
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
from aethergraph.dgl.storage import GraphStorage
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.inference import embed as embed_layers

if TYPE_CHECKING:
    import os

    from numpy.typing import ArrayLike

    from aethergraph import FeatureTable
    from aethergraph.convert.result import Stages
    from aethergraph.loading import Batch
    from aethergraph.protocols import FeatureSource, HomogeneousGraph

__all__ = ["embed"]


def embed(
    model: Sequence[Any] | Module,
    graph: HomogeneousGraph | GraphStorage,
    out: str | os.PathLike[str],
    *,
    features: FeatureSource | ArrayLike | None = None,
    edge_weight: str | None = None,
    device: torch.device | str | None = None,
    batch_size: int | None = None,
    num_neighbors: int | Sequence[int] | None = None,
    memory_budget: int | str | None = None,
    dtype: str | np.dtype[Any] | torch.dtype | None = None,
    seed: int = 0,
    force: bool = False,
    restart: bool = False,
    stages: Stages | None = None,
    remark: Callable[[str], None] | None = None,
) -> FeatureTable:
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
        model: convolutions of ``dgl.nn`` and what stands between them, each a function of rows.
        graph: a graph of ours of one type, or a :class:`GraphStorage` of one.
        out: as ``out`` of :func:`aethergraph.inference.embed`.
        features: what the first layer reads, a row for each node; None: the ``x`` of the graph.
        edge_weight: name of the attribute of edges that convolutions get as ``edge_weight``;
            ``"edge_weight"`` is the graph's own. None: they get none.
        device: where the layers run; the modules are moved there. None: where they are.
        batch_size: as in :func:`aethergraph.inference.embed`.
        num_neighbors: as in :func:`aethergraph.inference.embed`.
        memory_budget: as in :func:`aethergraph.inference.embed`, for memory of the host.
        dtype: as in :func:`aethergraph.inference.embed`, or one of torch.
        seed: as in :func:`aethergraph.inference.embed`.
        force: as in :func:`aethergraph.inference.embed`.
        restart: as in :func:`aethergraph.inference.embed`.
        stages: as in :func:`aethergraph.inference.embed`.
        remark: as in :func:`aethergraph.inference.embed`.

    Returns:
        The output, mapped.

    Raises:
        UnsupportedError: no list; a graph of several types; a convolution over several hops, or one
            that keeps what it computed for another graph.
        InvalidArgumentError: convolutions take no such values of edges; lazy parameters; a graph of
            DGL's; or as :func:`aethergraph.inference.embed`.
    """
    if isinstance(graph, dgl.DGLGraph):
        raise InvalidArgumentError("graph is a DGLGraph: from_dgl(graph) makes one of ours")
    source: Any = graph.graph if isinstance(graph, GraphStorage) else graph
    if getattr(source, "is_typed", False):
        raise UnsupportedError(
            "graph has several types of nodes: aethergraph.dgl.embed takes graphs of one; give "
            "functions of typed batches to aethergraph.inference.embed"
        )
    name = as_text(edge_weight, "edge_weight")
    values = {} if name is None else {"edge_weight": name}
    items = items_of(model)
    modules = [item for item in items if isinstance(item, Module)]
    place = place_modules(modules, device, _why_not)
    layers = []
    for steps in split_steps(items, _is_conv, "a module of dgl.nn"):
        check_values(steps.conv, values)
        kind = type(steps.conv).__name__
        layers.append(TorchLayer(kind, steps.all, _call(steps, place), values, place))
    with evaluating(modules):
        table: FeatureTable = embed_layers(
            layers, source, features, out, batch_size=batch_size, num_neighbors=num_neighbors,
            edge_attrs=[*values.values()], memory_budget=memory_budget, dtype=dtype_of(dtype),
            seed=seed, force=force, restart=restart, stages=stages, remark=remark,
        )  # fmt: skip
    return table


def _call(steps: Steps, device: torch.device) -> Call:
    def call(x: Tensor, batch: Batch, values: dict[str, Tensor]) -> Tensor:
        count, sample = batch.batch_size, batch.subgraph
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(sample.col, minlength=count), out=offsets[1:])
        ids = on_device(offsets, device), on_device(sample.row, device)
        block = dgl.create_block(
            ("csc", (*ids, ids[0].new_empty(0))),
            num_src_nodes=len(sample.node), num_dst_nodes=count, device=device,
        )  # fmt: skip
        return steps.run(x, lambda x: steps.conv(block, x, **values))

    return call


def _is_conv(item: Any) -> bool:
    """Return whether it is a module that is called with a graph first, as those of DGL are."""
    if not isinstance(item, Module):
        return False
    return next(iter(inspect.signature(item.forward).parameters), "") in ("graph", "g")


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
