"""What our classes for PyG ask for beyond PyG's own: few enough to read."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from torch_geometric import loader, sampler

import aethergraph.pyg as ours

pytestmark = pytest.mark.pyg

MOST = 12
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
}


def parameters(function: Any) -> set[str]:
    return {
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }


def test_constructors_add_few_arguments() -> None:
    for name in ours.__all__:
        made = getattr(ours, name)
        if isinstance(made, type):
            own = parameters(made) - set().union(*map(parameters, THEIRS.get(name, ())))
            assert len(own) <= MOST, f"{name}: {sorted(own)}: group some of them"
