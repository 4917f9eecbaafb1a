"""AetherGraph: storage and sampling for graph neural networks, larger than memory.

>>> from aethergraph import Graph, NeighborSampler
>>> graph = Graph.from_edges(4, [0, 1, 2], [1, 2, 3])
>>> NeighborSampler(graph, [2]).sample([3]).node.tolist()
[3, 2]

The core needs numpy and cffi only; ``aethergraph.pyg`` and ``aethergraph.pytorch`` bring PyG.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from aethergraph._checks.optional import source_tree
from aethergraph._native import get_num_threads, set_num_threads
from aethergraph.features.cached import CachedRows
from aethergraph.features.feature_table import FeatureTable
from aethergraph.graph.foreign import as_graph
from aethergraph.graph.graph import Graph
from aethergraph.graph.hetero import HeteroGraph
from aethergraph.sampling.hetero import HeteroNeighborSampler
from aethergraph.sampling.hgt import HGTSampler
from aethergraph.sampling.neighbor import NeighborSampler
from aethergraph.sampling.walks import RandomWalker

if TYPE_CHECKING:
    from aethergraph.dynamic.graph import DynamicGraph
    from aethergraph.dynamic.hetero import DynamicHeteroGraph
    from aethergraph.features.live import LiveFeatureTable
    from aethergraph.features.ordered import OrderedRows
    from aethergraph.loading.loader import SubgraphLoader

__version__ = "0.1.0"

if (_tree := source_tree()) is not None:
    # Python imports from a checkout, as its folder is the working directory: the adapters lie in
    # another folder there than in a package that is installed.
    __path__.append(str(_tree / "backends"))

_LATER = {
    "DynamicGraph": "aethergraph.dynamic.graph",
    "DynamicHeteroGraph": "aethergraph.dynamic.hetero",
    "LiveFeatureTable": "aethergraph.features.live",
    "OrderedRows": "aethergraph.features.ordered",
    "SubgraphLoader": "aethergraph.loading.loader",
}

__all__ = [
    "CachedRows",
    "DynamicGraph",
    "DynamicHeteroGraph",
    "FeatureTable",
    "Graph",
    "HGTSampler",
    "HeteroGraph",
    "HeteroNeighborSampler",
    "LiveFeatureTable",
    "NeighborSampler",
    "OrderedRows",
    "RandomWalker",
    "SubgraphLoader",
    "as_graph",
    "get_num_threads",
    "set_num_threads",
]


def __getattr__(name: str) -> Any:
    # Imported at their first use: whoever has another loader does not wait for ours.
    module = _LATER.get(name)
    if module is not None:
        return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module 'aethergraph' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
