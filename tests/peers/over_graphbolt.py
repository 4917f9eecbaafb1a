"""Put our sampling graph and features in the place of GraphBolt's, for GraphBolt's own tests.

Their tests build a ``FusedCSCSamplingGraph``, give it attributes and look into its lists; so the
graph stays theirs, and is copied into ours when it is sampled from or given to a sampler.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

import dgl.graphbolt as gb
import dgl.graphbolt.impl.sampled_subgraph_impl
import dgl.graphbolt.impl.torch_based_feature_store
from torch import Tensor

from aethergraph.dgl import graphbolt as ours
from aethergraph.dgl.graphbolt.subgraph import SampledSubgraph
from peers.counting import count_calls, make_counted

#: Methods of a graph that sample.
METHODS = (
    "in_subgraph",
    "sample_layer_neighbors",
    "sample_negative_edges_uniform",
    "sample_negative_edges_uniform_2",
    "sample_neighbors",
    "temporal_sample_neighbors",
)
#: Stages that take a graph.
STAGES = (
    gb.InSubgraphSampler,
    gb.LayerNeighborSampler,
    gb.NeighborSampler,
    gb.TemporalNeighborSampler,
    gb.UniformNegativeSampler,
)

_graphs: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()


def over(graph: Any, time_attr: str | None) -> Any:
    """Return a graph of theirs as one of ours, the same one until its attributes change."""
    if not isinstance(graph, gb.FusedCSCSamplingGraph):
        return graph
    attributes = [graph.node_attributes or {}, graph.edge_attributes or {}]
    state = (
        time_attr,
        *((name, rows.data_ptr()) for own in attributes for name, rows in own.items()),
    )
    known = _graphs.setdefault(graph, {})
    if state not in known:
        known[state] = _make_graph(ours.from_fused_csc(graph, time_attr=time_attr))
    return known[state]


_make_graph = count_calls("SamplingGraph", ours.SamplingGraph)


def _time_attr(arguments: dict[str, Any]) -> str | None:
    """Return the name of the times that lists must be sorted by: those of nodes or of edges."""
    ends = ("node_timestamp_attr_name", "edge_timestamp_attr_name")
    names = [name for end in ends if (name := arguments.get(end)) is not None]
    return names[0] if len(names) == 1 else None


def _sample_over(name: str, stock: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of their graph that samples from ours.

    Ours takes ids of every integer dtype. Theirs refuses those that its lists do not have; some
    tests ask for that first, and then for all the rest, so such a call is left to theirs.
    """
    signature = inspect.signature(stock)

    @wraps(stock)
    def sample(self: Any, *args: Any, **kwargs: Any) -> Any:
        arguments = signature.bind(self, *args, **kwargs).arguments
        nodes = arguments.get("nodes")
        if isinstance(nodes, Tensor) and nodes.dtype != self.indices.dtype:
            return stock(self, *args, **kwargs)
        time_attr = _time_attr(arguments)
        return count_calls(name, getattr(over(self, time_attr), name))(*args, **kwargs)

    return sample


def _init_over(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Return a constructor of a stage of theirs that gives it our graph."""
    signature = inspect.signature(stock)

    @wraps(stock)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.arguments["graph"] = over(bound.arguments["graph"], _time_attr(bound.arguments))
        stock(*bound.args, **bound.kwargs)

    return count_calls(stock.__qualname__.partition(".")[0], init)


for _name in METHODS:
    _stock = getattr(gb.FusedCSCSamplingGraph, _name)
    setattr(gb.FusedCSCSamplingGraph, _name, _sample_over(_name, _stock))
for _stage in STAGES:
    _stage.__init__ = _init_over(_stage.__init__)

TorchBasedFeature = make_counted(ours.Feature, __name__, "TorchBasedFeature")
gb.TorchBasedFeature = TorchBasedFeature
dgl.graphbolt.impl.torch_based_feature_store.TorchBasedFeature = TorchBasedFeature

# Workers pickle theirs, too, which pickle has to find by a name.
StockSubgraph = gb.SampledSubgraphImpl
StockSubgraph.__module__, StockSubgraph.__qualname__ = __name__, "StockSubgraph"
SampledSubgraphImpl = make_counted(SampledSubgraph, __name__, "SampledSubgraphImpl")
dgl.graphbolt.impl.sampled_subgraph_impl.SampledSubgraphImpl = SampledSubgraphImpl
