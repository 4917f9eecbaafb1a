"""Times and weights that a loader uses if none are named."""

from __future__ import annotations

from typing import Any, Literal

from aethergraph._checks.options import as_choice, as_flag, as_text
from aethergraph.pyg._tensor_attr import EDGE_GROUP
from aethergraph.pyg._tensor_rows import tensors_of
from aethergraph.pyg.feature_store import FeatureStore
from aethergraph.pyg.graph_store import GraphStore
from aethergraph.sampling.values import choose_times, keeps_node_times

__all__ = ["own_time_attr", "own_weight_attr"]


def own_weight_attr(weight_attr: str | None, weighted: bool) -> str | None:
    """Return the name of the weights: ``weight_attr``, or the graph's own if ``weighted``."""
    name = as_text(weight_attr, "weight_attr")
    return "edge_weight" if as_flag(weighted, "weighted") and name is None else name


def own_time_attr(
    stores: Any, time_attr: str | None, seed_time: Any, strategy: str, option: str
) -> str | None:
    """Return the name of the times: ``time_attr``, or the graph's own if they are needed.

    Args:
        stores: the pair that is sampled from.
        time_attr: the name that the user gave, or None.
        seed_time: times of the seeds, or None; given ones need times to compare with.
        strategy: ``"last"`` needs times too.
        option: the name of ``seed_time``, for error messages.

    Raises:
        InvalidArgumentError: the graph has no times of its own, or of both nodes and edges.
    """
    as_text(time_attr, "time_attr")
    strategy = as_choice(strategy, ("uniform", "last"), "temporal_strategy")
    if time_attr is not None or (seed_time is None and strategy != "last"):
        return time_attr
    reason = f"{option} is given" if seed_time is not None else 'temporal_strategy="last"'
    graph = _graph_of(stores)
    return choose_times(graph, _own_times(stores, graph), reason)


def _graph_of(stores: Any) -> Any:
    """Return the graph of the pair that is sampled from, or None."""
    topology = stores[1]
    if not isinstance(topology, GraphStore):
        return None
    return topology.hetero or (topology.graph if topology.holds_graph else None)


def _own_times(stores: Any, graph: Any) -> set[str]:
    keys = tensors_of(stores[0]).tensor_keys()
    if graph is not None:
        keys += FeatureStore.from_graph(graph).tensor_keys()
        if not graph.is_typed:
            layout: Literal["csc", "csr"] = "csr" if graph.layout == "csr" else "csc"
            if graph.topology(layout).has_own_times and not keeps_node_times(graph, "csc"):
                keys.append((EDGE_GROUP, "edge_time"))
    of_edges = {("edge_time", True), ("node_time", False)}
    return {name for group, name in keys if (name, isinstance(group, tuple)) in of_edges}
