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

from aethergraph import errors, protocols
from aethergraph._checks.optional import source_tree
from aethergraph._native import build_info, get_num_threads, native_version, set_num_threads
from aethergraph.errors import AetherError
from aethergraph.features import FeatureTable
from aethergraph.features.cached import CachedRows
from aethergraph.graph import Graph, HeteroGraph, as_graph
from aethergraph.sampling import (
    HeteroNeighborSampler,
    HeteroSubgraph,
    HGTSampler,
    NeighborSampler,
    RandomWalker,
    Subgraph,
)

if TYPE_CHECKING:
    from aethergraph.dynamic import DynamicGraph, DynamicHeteroGraph
    from aethergraph.features.live import LiveFeatureTable
    from aethergraph.features.ordered import OrderedRows
    from aethergraph.loading import SubgraphLoader

__version__ = "0.1.0"

if (_tree := source_tree()) is not None:
    # Python imports from a checkout, as its folder is the working directory: the adapters lie in
    # another folder there than in a package that is installed.
    __path__.append(str(_tree / "backends"))

_LATER = {
    "DynamicGraph": "aethergraph.dynamic",
    "DynamicHeteroGraph": "aethergraph.dynamic",
    "LiveFeatureTable": "aethergraph.features.live",
    "OrderedRows": "aethergraph.features.ordered",
    "SubgraphLoader": "aethergraph.loading",
}

__all__ = [
    "AetherError",
    "CachedRows",
    "DynamicGraph",
    "DynamicHeteroGraph",
    "FeatureTable",
    "Graph",
    "HGTSampler",
    "HeteroGraph",
    "HeteroNeighborSampler",
    "HeteroSubgraph",
    "LiveFeatureTable",
    "NeighborSampler",
    "OrderedRows",
    "RandomWalker",
    "Subgraph",
    "SubgraphLoader",
    "__version__",
    "as_graph",
    "build_info",
    "errors",
    "get_num_threads",
    "native_version",
    "protocols",
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
