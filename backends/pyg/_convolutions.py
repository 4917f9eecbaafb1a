"""What convolutions of PyG take and need, and which look further than the neighbours of a node."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor
from torch.nn import Module
from torch_geometric.nn import (
    ChebConv,
    GINConv,
    GraphConv,
    HANConv,
    LGConv,
    MessagePassing,
    SAGEConv,
)

__all__ = ["aggregate_of", "ends_of", "why_not"]

#: Norms that look at other nodes, whichever are in the batch.
_ACROSS_NODES = ("GraphNorm", "GraphSizeNorm", "PairNorm", "MeanSubtractionNorm")

#: What convolutions that add up rows of neighbours as they are call it.
_AGGREGATES = {"add": "sum", "sum": "sum", "mean": "mean", "max": "max"}


def aggregate_of(conv: Any, values: Mapping[str, str]) -> Any:
    """Return what a convolution needs of its neighbours, as ``aggregate`` of a layer; None: all.

    Args:
        conv: the convolution.
        values: attributes of edges by the argument that it gets them as.
    """
    # Classes of users that are made of these may compute anything; so may hooks.
    if type(conv) not in (SAGEConv, GINConv, GraphConv, LGConv):
        return None
    has_hooks = any(hooks for name, hooks in vars(conv).items() if name.endswith("_hooks"))
    # LGConv counts degrees, and SAGEConv changes rows before it takes their sum, with these.
    changes = (isinstance(conv, LGConv) and conv.normalize) or getattr(conv, "project", False)
    how = _AGGREGATES.get(conv.aggr) if isinstance(conv.aggr, str) else None
    if has_hooks or changes or how is None:
        return None
    weight = values.get("edge_weight")
    return how if weight is None else (how, weight)


def ends_of(conv: Any) -> Callable[[Tensor, int], Any]:
    """Return what makes the first argument of a convolution of rows.

    It is the rows of sources, and those of the nodes whose rows are wanted, where the convolution
    says that it takes both: others compute rows of all nodes, of which most are thrown away.
    """
    try:
        kinds = typing.get_type_hints(conv.forward).get("x", Tensor)
    except Exception:  # hints of others, of names that exist for type checkers alone
        kinds = Tensor
    if any(typing.get_origin(kind) is tuple for kind in typing.get_args(kinds)):
        return lambda x, count: (x, x[:count])
    return lambda x, count: x


def why_not(module: Module) -> str | None:
    """Return why a module needs more than the neighbours of a node; None: it does not."""
    name = type(module).__name__
    if name in _ACROSS_NODES or (name == "LayerNorm" and getattr(module, "mode", "") == "graph"):
        mode = " (mode='node' does not)" if name == "LayerNorm" else ""
        return f"normalizes over all nodes{mode}"
    if isinstance(module, HANConv):
        return "weighs relations by means over all nodes"
    if isinstance(module, MessagePassing):
        if module.flow != "source_to_target":
            return f"has flow = {module.flow!r}, so it looks at out-neighbours"
        hops = [getattr(module, option, 1) for option in ("K", "num_layers")]
        hops += getattr(module, "powers", [])
        hops += [len(module.lins)] if isinstance(module, ChebConv) else []
        if any(isinstance(count, int) and count > 1 for count in hops):
            return f"follows {max(hops)} hops"
        if getattr(module, "cached", False) is True:
            return "keeps what it computes for the first graph (cached=True)"
    return None
