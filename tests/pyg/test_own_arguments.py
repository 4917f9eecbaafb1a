"""What our classes ask for beyond the arguments of PyG's: few enough to read."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from torch.utils.data import DataLoader
from torch_geometric import loader, sampler

import aethergraph
import aethergraph.pyg
from aethergraph import loading, remote, streaming

pytestmark = pytest.mark.pyg

MOST = 12
#: Classes that have more; a new argument goes into a group, or takes the place of another.
MORE = {
    "DynamicGraph": 14, "DynamicHeteroGraph": 15, "FeatureServer": 14, "Ingestor": 17, "Schema": 16,
}  # fmt: skip
#: PyG's classes whose arguments a class of ours takes: a loader makes a sampler, too.
THEIRS: dict[str, tuple[Any, ...]] = {
    "NeighborLoader": (loader.NeighborLoader, sampler.NeighborSampler),
    "HeteroNeighborLoader": (loader.NeighborLoader, sampler.NeighborSampler),
    "LinkNeighborLoader": (loader.LinkNeighborLoader, sampler.NeighborSampler),
    "HGTLoader": (loader.HGTLoader,),
    "ShaDowKHopSampler": (loader.ShaDowKHopSampler,),
    "NeighborSampler": (sampler.NeighborSampler,),
    "HeteroNeighborSampler": (sampler.NeighborSampler,),
    "HGTSampler": (sampler.HGTSampler,),
    "SubgraphLoader": (loader.NeighborLoader, DataLoader),
}


def parameters(function: Any) -> set[str]:
    return {
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }


def test_constructors_add_few_arguments() -> None:
    counts = {}
    for module in (aethergraph, aethergraph.pyg, loading, remote, streaming):
        for name in module.__all__:
            if isinstance(made := getattr(module, name), type):
                own = parameters(made) - set().union(*map(parameters, THEIRS.get(name, ())))
                counts[name] = max(len(own), counts.get(name, 0))
    assert {name: count for name, count in counts.items() if count > MOST} == MORE
