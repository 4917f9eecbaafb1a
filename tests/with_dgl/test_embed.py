"""Vectors of every node by DGL's convolutions: those of the whole graph."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dgl
import numpy as np
import pytest
import torch
from dgl.nn import EdgeWeightNorm, GATConv, GatedGraphConv, GINConv, GraphConv, SAGEConv, SGConv
from support.dgl import NUM_NODES, make_edges
from torch import Tensor

from aethergraph import Graph
from aethergraph.dgl import GraphStorage, embed, from_dgl
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.inference import job
from aethergraph.inference.plan import BATCHES, LISTS

SRC, DST = make_edges()
WHOLE = dgl.graph((torch.from_numpy(SRC), torch.from_numpy(DST)), num_nodes=NUM_NODES)
X = torch.rand(NUM_NODES, 8)


def make_graph(**options: Any) -> Graph:
    graph = Graph.from_edges(NUM_NODES, SRC, DST, keep_order=True, **options)
    graph.features = X.numpy()
    return graph


def flatten(x: Tensor) -> Tensor:
    return x.flatten(1)


def whole(steps: Any, x: Tensor, **values: Tensor) -> Any:
    """Return what the steps make of the whole graph."""
    with torch.no_grad():
        for step in steps:
            is_conv = isinstance(step, torch.nn.Module) and "Conv" in type(step).__name__
            x = step(WHOLE, x, **values) if is_conv else step(x)
    return x.numpy()


STACKS: dict[str, Callable[[], list[Any]]] = {
    "SAGEConv": lambda: [
        torch.nn.Linear(8, 6), SAGEConv(6, 16, "mean"), torch.nn.BatchNorm1d(16), torch.relu,
        SAGEConv(16, 4, "pool"),
    ],
    "GATConv": lambda: [
        GATConv(8, 4, 3, allow_zero_in_degree=True), flatten,
        GATConv(12, 5, 1, residual=True, allow_zero_in_degree=True), flatten,
    ],
    "GINConv": lambda: [GINConv(torch.nn.Linear(8, 9), "sum"), torch.tanh],
    "GraphConv": lambda: [GraphConv(8, 9, norm="right", allow_zero_in_degree=True)],
}  # fmt: skip


@pytest.mark.own_share
@pytest.mark.parametrize("name", STACKS)
def test_equals_the_layers_over_the_whole_graph(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    steps = STACKS[name]()
    wanted = whole([s.eval() if isinstance(s, torch.nn.Module) else s for s in steps], X)
    for graph in (make_graph(), GraphStorage(make_graph()), from_dgl(WHOLE)):
        rows = X.numpy() if isinstance(graph, Graph) and graph.features is None else None
        table = embed(steps, graph, tmp_path / "h.npy", features=rows, batch_size=32, force=True)
        np.testing.assert_allclose(table.array, wanted, rtol=1e-5, atol=1e-5)


def test_vectors_as_of_a_time(tmp_path: Path) -> None:
    """What is at the time counts, as in aethergraph.inference."""
    times = np.arange(len(SRC)) % 10
    conv, kept = SAGEConv(8, 5, "mean"), torch.from_numpy(times <= 6)
    earlier = dgl.edge_subgraph(WHOLE, kept, relabel_nodes=False)
    table = embed([conv], make_graph(edge_time=times), tmp_path / "h.npy", until=6, batch_size=20)
    with torch.no_grad():
        wanted = conv(earlier, X).numpy()
    np.testing.assert_allclose(table.array, wanted, rtol=1e-5, atol=1e-5)


def test_graph_conv_of_the_whole_graph_by_its_norms(tmp_path: Path) -> None:
    """The way that embed() names to what GraphConv makes of all nodes at once."""
    conv = GraphConv(8, 5, norm="both", allow_zero_in_degree=True)
    norm = EdgeWeightNorm("both")(WHOLE, torch.ones(len(SRC)))
    plain = GraphConv(8, 5, norm="none", allow_zero_in_degree=True)
    plain.load_state_dict(conv.state_dict())
    graph = make_graph(edge_attrs={"norm": norm.numpy()})
    table = embed([plain], graph, tmp_path / "h.npy", edge_weight="norm", batch_size=20)
    np.testing.assert_allclose(table.array, whole([conv], X), rtol=1e-5, atol=1e-5)


def test_weights_of_edges_and_modes(tmp_path: Path) -> None:
    weight = torch.rand(len(SRC))
    graph = make_graph(edge_weight=weight.numpy())
    steps = [SAGEConv(8, 5, "mean", feat_drop=0.5).train()]
    table = embed(steps, graph, tmp_path / "h.npy", edge_weight="edge_weight")
    assert steps[0].training
    wanted = whole([steps[0].eval()], X, edge_weight=weight)
    np.testing.assert_allclose(table.array, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.own_share
@pytest.mark.parametrize(
    ("model", "options", "error", "message"),
    [
        (lambda: SAGEConv(8, 5, "mean"), {}, UnsupportedError, "model is a SAGEConv, whose layers"),
        (lambda: [torch.relu], {}, InvalidArgumentError, "no convolution .a module of dgl.nn"),
        (lambda: [torch.nn.Sequential(SAGEConv(8, 5, "mean"))], {}, UnsupportedError,
         r"model\[0\] is a Sequential around convolutions"),
        (lambda: [SGConv(8, 5, k=2)], {}, UnsupportedError, "SGConv follows 2 hops: a layer sees"),
        (lambda: [GatedGraphConv(8, 8, 3, 1)], {}, UnsupportedError, "GatedGraphConv follows 3"),
        (lambda: [SGConv(8, 5, cached=True)], {}, UnsupportedError, r"SGConv keeps .*cached=True"),
        (lambda: [SAGEConv(9, 5, "mean")], {}, InvalidArgumentError,
         r"layers\[0\] \(SAGEConv\) does not take rows of shape \(8,\) and float32, as features"),
        (lambda: [GraphConv(8, 5), SAGEConv(5, 5, "mean")], {"edge_weight": "w"},
         InvalidArgumentError, "edge_attrs: 'w' does not exist"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_named(
    model: Callable[[], Any], options: dict[str, Any], error: type[Exception], message: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    with pytest.raises(error, match=message):
        embed(model(), make_graph(), tmp_path / "h.npy", **options)
    assert os.listdir(tmp_path) == []


def test_graphs_of_dgl_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"graph is a DGLGraph: from_dgl\(graph\) makes"):
        embed([SAGEConv(8, 5, "mean")], WHOLE, tmp_path / "h.npy")


def test_refreshed_vectors_follow_the_features(tmp_path: Path) -> None:
    layers = [SAGEConv(8, 6, "mean"), SAGEConv(6, 4, "mean")]
    graph, x = make_graph(layout="both"), X.clone()
    for row in (0, 1, 2):
        x[row] += 1
        table = embed(layers, graph, tmp_path / "h.npy", features=x, refresh=True)
        anew = embed(layers, graph, tmp_path / "all.npy", features=x, force=True)
        # torch 2.2 sums products of a few more rows in another order than later versions do
        np.testing.assert_allclose(table.array, anew.array, rtol=1e-5, atol=1e-5)


def test_rows_that_depend_on_the_block_are_not_refreshed(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="GraphConv with norm='both' counts out-edges in"):
        embed([GraphConv(8, 4)], make_graph(), tmp_path / "h.npy", refresh=True)


NO_NORM = {"norm": "none", "allow_zero_in_degree": True}
COMBINED: dict[str, tuple[Callable[[], Any], str]] = {
    "mean": (lambda: SAGEConv(8, 9, "mean"), LISTS),
    "mean of fewer": (lambda: SAGEConv(8, 4, "mean"), BATCHES),
    "gcn": (lambda: SAGEConv(8, 9, "gcn"), BATCHES),
    "max": (lambda: GINConv(torch.nn.Linear(8, 4), "max"), LISTS),
    "sum": (lambda: GraphConv(8, 8, **NO_NORM), LISTS),
    "sum of fewer": (lambda: GraphConv(8, 4, **NO_NORM), BATCHES),
    "right": (lambda: GraphConv(8, 8, norm="right", allow_zero_in_degree=True), BATCHES),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", COMBINED)
def test_combined_neighbours_make_the_same_bits(
    name: str, weighted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, order = COMBINED[name]
    steps, choose, orders = [make()], job.Embedding._choose, list[str]()
    graph = make_graph(edge_attrs={"w": torch.rand(len(SRC)).numpy()})
    values = {"edge_weight": "w"} if weighted else {}

    def noted(*args: Any) -> str:
        orders.append(choose(*args))
        return orders[-1]

    with monkeypatch.context() as patch:
        patch.setattr(job.Embedding, "_choose", noted)
        combined = embed(steps, graph, tmp_path / "lists.npy", **values)
    monkeypatch.setattr(job.Embedding, "_choose", lambda *_: BATCHES)
    expected = embed(steps, graph, tmp_path / "batches.npy", **values)
    assert orders == [order]
    np.testing.assert_array_equal(combined.array, expected.array, strict=True)
