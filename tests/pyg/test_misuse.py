"""Classes of the core and of the adapter that share a name, one taken for the other."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.pyg import make_data, make_graph
from torch_geometric.loader import NodeLoader

import aethergraph as core
from aethergraph import pyg
from aethergraph.errors import InvalidArgumentError, UnsupportedError

pytestmark = pytest.mark.pyg

GRAPH = make_graph()
TYPED = core.HeteroGraph.from_edges({("a", "to", "b"): ([0, 1], [1, 0])})
STORES = pyg.as_stores(GRAPH)
ROWS = core.FeatureTable.from_array(np.zeros((GRAPH.num_nodes, 2)))
SEEDS = torch.arange(4)


def stock(features: Any, sampler: Any) -> Callable[[], Any]:
    loader = NodeLoader((features, STORES[1]), sampler, SEEDS, batch_size=2)
    return lambda: next(iter(loader))


CASES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        stock(STORES[0], core.NeighborSampler(GRAPH, [2])),
        AttributeError,
        r"this is aethergraph\.NeighborSampler.*from aethergraph\.pyg import NeighborSampler",
    ),
    (
        stock(STORES[0], core.HGTSampler(TYPED, {"a": [1], "b": [1]})),
        AttributeError,
        r"take aethergraph\.pyg\.HGTSampler",
    ),
    (
        lambda: pyg.NeighborSampler(STORES, [2]).sample([1]),
        AttributeError,
        r"this is aethergraph\.pyg\.NeighborSampler.*from aethergraph import NeighborSampler",
    ),
    (
        lambda: core.NeighborSampler(STORES, [2]),
        InvalidArgumentError,
        r"got Stores: the stores of PyG are for aethergraph\.pyg\.NeighborSampler",
    ),
    (
        lambda: core.HeteroNeighborSampler(tuple(STORES), [2]),
        InvalidArgumentError,
        r"got tuple: .*aethergraph\.pyg\.HeteroNeighborSampler",
    ),
    (
        lambda: core.NeighborSampler(make_data(), [2]),  # type: ignore[arg-type]
        InvalidArgumentError,
        r"got Data: objects of torch_geometric are for the samplers of aethergraph\.pyg",
    ),
    (
        lambda: core.NeighborSampler("graph.bin", [2]),  # type: ignore[arg-type]
        InvalidArgumentError,
        r"open the file first, Graph\.load\(path\)",
    ),
    (
        lambda: core.NeighborSampler(TYPED, [2]),  # type: ignore[arg-type]
        InvalidArgumentError,
        "got HeteroGraph: take HeteroNeighborSampler",
    ),
    (
        lambda: core.HeteroNeighborSampler(GRAPH, [2]),  # type: ignore[arg-type]
        InvalidArgumentError,
        "got Graph: take NeighborSampler",
    ),
    (
        lambda: core.FeatureTable("x.bin"),
        InvalidArgumentError,
        r"FeatureTable\.load\(path\)",
    ),
    (lambda: core.Graph("graph.bin"), InvalidArgumentError, r"Graph\.load\(path\)"),
    (lambda: core.HeteroGraph("graph.bin"), InvalidArgumentError, r"HeteroGraph\.load\(path\)"),
    (lambda: pyg.FeatureStore(GRAPH), InvalidArgumentError, r"FeatureStore\.from_graph\(graph\)"),
    (lambda: pyg.FeatureStore("x.bin"), InvalidArgumentError, r"graph\.load_features\(path\)"),
    (lambda: pyg.FeatureStore.load("x"), UnsupportedError, r"aethergraph\.FeatureTable\.load\("),
    (lambda: pyg.FeatureStore.from_array([1]), UnsupportedError, r"this is aethergraph\.pyg"),
    (lambda: pyg.GraphStore("g.bin"), InvalidArgumentError, r"Graph\.load\(path\)"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "error", "text"), CASES)
def test_the_right_class_is_named(
    call: Callable[[], Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        call()


def test_other_names_are_what_they_were(tmp_path: Path) -> None:
    for made in (
        core.NeighborSampler(GRAPH, [2]), pyg.NeighborSampler(STORES, [2]), ROWS,
    ):  # fmt: skip
        with pytest.raises(AttributeError, match=r"object has no attribute 'nothing'$"):
            made.nothing
        assert not hasattr(made, "sample_from_edge")
        assert type(copy.copy(made)) is type(pickle.loads(pickle.dumps(made))) is type(made)
