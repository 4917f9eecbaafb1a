"""Vectors of every node by PyG's models: those of BasicGNN.inference, and of whole graphs."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.pyg import NUM_NODES, make_edges, make_graph, make_stores, products_are_alike
from support.recording import Interrupt, Recording
from torch import Tensor
from torch.nn.functional import leaky_relu
from torch_geometric.data import Data
from torch_geometric.nn import (
    GAT,
    GCN,
    GIN,
    PNA,
    ChebConv,
    EdgeCNN,
    EGConv,
    GATConv,
    GatedGraphConv,
    GCNConv,
    GPSConv,
    GraphConv,
    GraphNorm,
    GraphSAGE,
    LayerNorm,
    LGConv,
    SAGEConv,
    Sequential,
    SGConv,
)
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from aethergraph import DynamicGraph, FeatureTable, Graph
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.inference import job
from aethergraph.inference.plan import BATCHES, LISTS
from aethergraph.pyg import NeighborLoader, embed
from aethergraph.pyg._convolutions import aggregate_of

pytestmark = pytest.mark.pyg

GRAPH = make_graph()
SRC, DST = make_edges()
WEIGHTS = np.random.default_rng(4).random(len(SRC)).astype(np.float32)
EDGES = torch.from_numpy(np.stack(GRAPH.edge_index()))
X = torch.from_numpy(np.array(GRAPH.node_attrs["x"].array))


def basic(kind: Any, **options: Any) -> Any:
    torch.manual_seed(3)
    return kind(8, 16, 2, 4, **options).eval()


def stored(folder: Path, storage: Any) -> Graph:
    GRAPH.save(folder / "g.aeg")
    np.save(folder / "x.npy", X.numpy())
    budget = {"memory_budget": "64M"} if storage == "uring" else {}
    graph = Graph.load(folder / "g.aeg", storage=storage, **budget)
    graph.load_features(folder / "x.npy", storage=storage, **budget)
    return graph


def live_graph() -> DynamicGraph:
    graph = DynamicGraph(NUM_NODES)
    graph.features = X.numpy()
    edges = np.unique(np.stack([SRC, DST]), axis=1)
    graph.insert_edges(*edges[:, ::2])
    graph.insert_edges(*edges[:, 1::2])
    return graph


GRAPHS: dict[str, Callable[[Path], Any]] = {
    "memory": lambda folder: GRAPH,
    "data": lambda folder: Data(x=X, edge_index=torch.from_numpy(np.stack([SRC, DST]))),
    "mapped": lambda folder: stored(folder, "mmap"),
    "uring": lambda folder: stored(folder, "uring"),
    "snapshot": lambda folder: live_graph().snapshot(),
}
DEGREES = {"aggregators": ["mean", "max"], "scalers": ["identity"], "deg": torch.ones(5).long()}
MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "GCN": (GCN, {}),
    "GraphSAGE": (GraphSAGE, {"norm": "batch_norm"}),
    "GAT": (GAT, {"heads": 2, "act": "elu", "v2": True}),
    "GIN": (GIN, {"jk": "last"}),
    "PNA": (PNA, DEGREES),
    "EdgeCNN": (EdgeCNN, {"act_first": True}),
}
#: Convolutions that take rows of all nodes of a batch: their products are of as many rows as PyG's.
SAME_BITS = ("GCN", "PNA")


@pytest.mark.own_share
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("place", GRAPHS)
def test_equals_the_inference_of_pyg(place: str, name: str, tmp_path: Path) -> None:
    kind, options = MODELS[name]
    model, graph = basic(kind, **options), GRAPHS[place](tmp_path)
    table = embed(model, graph, tmp_path / "h.npy", batch_size=32)
    wanted = model.inference(NeighborLoader(graph, [-1], batch_size=32)).numpy()
    if name in SAME_BITS:
        np.testing.assert_array_equal(table.array, wanted, strict=True)
    np.testing.assert_allclose(table.array, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["GraphSAGE", "GAT", "GIN", "EdgeCNN"])
def test_equals_the_model_over_the_whole_graph(name: str, tmp_path: Path) -> None:
    kind, options = MODELS[name]
    model = basic(kind, **options)
    table = embed(model, GRAPH, tmp_path / "h.npy", memory_budget="8M")
    with torch.no_grad():
        wanted = model(X, EDGES).numpy()
    np.testing.assert_allclose(table.array, wanted, rtol=1e-5, atol=1e-5)


def test_vectors_as_of_a_time(tmp_path: Path) -> None:
    times = np.arange(len(SRC)) % 10
    timed = Graph.from_edges(NUM_NODES, SRC, DST, edge_time=times)
    earlier = torch.from_numpy(np.stack([SRC, DST])[:, times <= 6])
    for name in ("GraphSAGE", "GCN"):
        model, options = basic(MODELS[name][0]), {"features": X.numpy(), "batch_size": 200}
        table = embed(model, timed, tmp_path / f"{name}.npy", until=6, **options)
        with torch.no_grad():
            wanted = model(X, earlier).numpy()
        np.testing.assert_allclose(table.array, wanted, rtol=1e-5, atol=1e-5)
    ends = torch.from_numpy(np.stack([SRC, DST]))
    data = Data(x=X, edge_index=ends, time=torch.zeros(NUM_NODES).long())
    table = embed(model, data, tmp_path / "data.npy", until=-1, time_attr="time", batch_size=200)
    with torch.no_grad():
        alone = model(X, earlier[:, :0]).numpy()
    np.testing.assert_allclose(table.array, alone, rtol=1e-5, atol=1e-5)


def whole(steps: Any, x: Tensor, **values: Tensor) -> Any:
    """Return what the steps make of the whole graph."""
    with torch.no_grad():
        for step in steps:
            x = step(x, EDGES, **values) if hasattr(step, "propagate") else step(x)
    return x.numpy()


def test_lists_of_convolutions_and_what_stands_between(tmp_path: Path) -> None:
    torch.manual_seed(0)
    steps = [
        torch.nn.Linear(8, 6), torch.tanh, SAGEConv(6, 16), torch.nn.BatchNorm1d(16), torch.relu,
        GATConv(16, 4, heads=3), lambda x: x * 2, GraphConv((12, 12), 5), torch.nn.Softmax(1),
    ]  # fmt: skip
    for model in (steps, torch.nn.Sequential(steps[2], steps[3])):
        for step in steps:
            if isinstance(step, torch.nn.Module):
                step.eval()
        x = X if model is steps else torch.randn(NUM_NODES, 6)
        table = embed(model, GRAPH, tmp_path / "h.npy", features=x, batch_size=20, force=True)
        wanted = whole(model, x)
        np.testing.assert_allclose(table.array, wanted, rtol=1e-5, atol=1e-5)


def test_values_of_edges(tmp_path: Path) -> None:
    weight = torch.rand(len(SRC))
    graph = Graph.from_edges(
        NUM_NODES, SRC, DST, edge_attrs={"w": weight, "a": torch.rand(len(SRC), 3)},
        edge_weight=weight,
    )  # fmt: skip
    edges = torch.from_numpy(np.stack(graph.edge_index()))
    w, a = (torch.from_numpy(np.array(graph.edge_attrs[name].array)) for name in "wa")
    conv = GraphConv(8, 5)
    for name in ("w", "edge_weight"):
        table = embed([conv], graph, tmp_path / "h.npy", features=X, edge_weight=name, force=True)
        with torch.no_grad():
            wanted = conv(X, edges, edge_weight=w).numpy()
        np.testing.assert_allclose(table.array, wanted, rtol=1e-5, atol=1e-5)
    model = basic(GAT, edge_dim=3)
    table = embed(model, graph, tmp_path / "h.npy", features=X, edge_attr="a", force=True)
    assert [len(conv._forward_pre_hooks) for conv in model.convs] == [0, 0]
    # GATConv adds self-loops, with the mean of the attributes of all edges that end at the node.
    with torch.no_grad():
        wanted = model(X, edges, edge_attr=a).numpy()
    np.testing.assert_allclose(table.array, wanted, rtol=1e-5, atol=1e-5)


def test_gcn_of_the_whole_graph_by_its_norms(tmp_path: Path) -> None:
    """The way that embed() names to what GCN makes of all nodes at once."""
    model = basic(GCN)
    edge_index, norm = gcn_norm(EDGES, None, NUM_NODES)
    graph = Graph.from_edges(NUM_NODES, *edge_index.numpy(), edge_attrs={"norm": norm})
    again = basic(GCN, normalize=False)
    again.load_state_dict(model.state_dict())
    table = embed(again, graph, tmp_path / "h.npy", features=X, edge_weight="norm")
    with torch.no_grad():
        wanted = model(X, EDGES).numpy()
    np.testing.assert_allclose(table.array, wanted, rtol=1e-5, atol=1e-5)


def test_modes_come_back(tmp_path: Path) -> None:
    model = basic(GraphSAGE, norm="batch_norm", dropout=0.5)
    wanted = embed(model, GRAPH, tmp_path / "eval.npy").array
    model.train()
    model.convs[0].eval()
    table = embed(model, GRAPH, tmp_path / "train.npy")
    np.testing.assert_array_equal(table.array, wanted)
    assert model.norms[0].training and not model.convs[0].training


def test_bfloat16_and_float16_features_and_outputs(tmp_path: Path) -> None:
    model = basic(GraphSAGE)
    rows = FeatureTable.from_array(X.bfloat16())
    table = embed(model, GRAPH, tmp_path / "h.npy", features=rows, dtype="float16")
    with torch.no_grad():
        wanted = model(X.bfloat16().float(), EDGES).half().numpy()
    np.testing.assert_allclose(table.array, wanted, atol=2e-3)
    assert table.dtype == np.float16
    again = embed(model, GRAPH, tmp_path / "t.npy", features=rows, dtype=torch.float16)
    np.testing.assert_array_equal(again.array, table.array)
    with pytest.raises(UnsupportedError, match=r"dtype = 'bfloat16': a .npy file cannot hold it"):
        embed(model, GRAPH, tmp_path / "b.npy", features=rows, dtype=torch.bfloat16)


def test_goes_on_with_the_same_parameters_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, out = basic(GIN), tmp_path / "h.npy"
    wanted = embed(model, GRAPH, tmp_path / "whole.npy", batch_size=20).array
    with monkeypatch.context() as patch:
        patch.setattr(job, "RECORD_SECONDS", 0.0)
        Recording(patch, interrupted_after=True).left = 10
        with pytest.raises(Interrupt):
            embed(model, GRAPH, out, batch_size=20)
    other = basic(GIN)
    with torch.no_grad():
        next(other.parameters())[0, 0] += 1e-3
    with pytest.raises(InvalidArgumentError, match=r"layers\[0\]\.fingerprint was .*restart=True"):
        embed(other, GRAPH, out)
    remarks: list[str] = []
    table = embed(basic(GIN), GRAPH, out, batch_size=20, remark=remarks.append)
    assert remarks == ["going on at row 40 of layers[1]"]
    np.testing.assert_array_equal(table.array, wanted)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda: basic(GraphSAGE, aggr="mean"), lambda: basic(GraphSAGE, aggr="max")),
        (lambda: basic(GraphSAGE, act="relu"), lambda: basic(GraphSAGE, act="tanh")),
        (lambda: [SAGE, partial(leaky_relu, negative_slope=0.1)],
         lambda: [SAGE, partial(leaky_relu, negative_slope=0.2)]),
        (lambda: [SAGE, lambda x: x + 1], lambda: [SAGE, lambda x: x + 2]),
        (lambda: [normalized(False)], lambda: [normalized(True)]),
    ],
)  # fmt: skip
def test_options_of_the_model_tell_it_from_others(
    first: Callable[[], Any], second: Callable[[], Any], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """They have the same parameters."""
    with monkeypatch.context() as patch:
        patch.setattr(job, "RECORD_SECONDS", 0.0)
        Recording(patch, interrupted_after=True).left = 2
        with pytest.raises(Interrupt):
            embed(seeded(first), GRAPH, tmp_path / "h.npy", batch_size=20)
    with pytest.raises(InvalidArgumentError, match="fingerprint was"):
        embed(seeded(second), GRAPH, tmp_path / "h.npy", batch_size=20)
    embed(seeded(first), GRAPH, tmp_path / "h.npy", batch_size=20)


def seeded(make: Callable[[], Any]) -> Any:
    torch.manual_seed(0)
    return make()


def normalized(value: bool) -> SAGEConv:
    conv = SAGEConv(8, 8, normalize=value)
    conv.load_state_dict(SAGE.state_dict())
    return conv


SAGE = SAGEConv(8, 8)


@pytest.mark.own_share
@pytest.mark.parametrize(
    ("model", "options", "error", "message"),
    [
        (lambda: basic(GraphSAGE, jk="cat"), {}, UnsupportedError, "jk = 'cat': its output needs"),
        (lambda: basic(GraphSAGE, norm="graph_norm"), {}, UnsupportedError,
         "GraphNorm normalizes over all nodes: a layer sees"),
        (lambda: basic(GCN, cached=True), {}, UnsupportedError, r"GCNConv keeps .*cached=True"),
        (lambda: basic(GraphSAGE), {"edge_weight": "w"}, InvalidArgumentError,
         "GraphSAGE takes no edge_weight"),
        (lambda: basic(GraphSAGE), {"features": X[:, 1:]}, InvalidArgumentError,
         r"layers\[0\] \(SAGEConv\) does not take rows of shape \(7,\) and float32, as features"),
        (lambda: [SAGE, SAGEConv(9, 8)], {}, InvalidArgumentError,
         r"layers\[1\] \(SAGEConv\) does not take rows of shape \(8,\) and float32, as layers\[0"),
        (lambda: [SAGE, SGConv(8, 8, K=2)], {}, UnsupportedError, "SGConv follows 2 hops"),
        (lambda: [ChebConv(8, 8, 3)], {}, UnsupportedError, "ChebConv follows 3 hops"),
        (lambda: [SAGEConv(8, 8, flow="target_to_source")], {}, UnsupportedError,
         "SAGEConv has flow = 'target_to_source'"),
        (lambda: [GatedGraphConv(8, 3)], {}, UnsupportedError, "GatedGraphConv follows 3 hops"),
        (lambda: [SAGE, LayerNorm(8)], {}, UnsupportedError, r"LayerNorm .*mode='node' does not"),
        (lambda: [SAGE, GraphNorm(8)], {}, UnsupportedError, "GraphNorm normalizes over all nodes"),
        (lambda: [SAGE, torch.nn.BatchNorm1d(8, track_running_stats=False)], {}, UnsupportedError,
         "BatchNorm1d normalizes over the nodes of the batch"),
        (lambda: [SAGE, GPSConv(8, SAGE, heads=1)], {}, UnsupportedError,
         r"model\[1\] is a GPSConv around convolutions: give the list"),
        (lambda: Sequential("x, e", [(SAGE, "x, e -> x")]), {}, UnsupportedError,
         "whose layers cannot be told apart: give the list of its convolutions"),
        (lambda: [torch.relu], {}, InvalidArgumentError, "model has no convolution"),
        (lambda: [SAGE, "relu"], {}, InvalidArgumentError, r"model\[1\] = 'relu' is no function"),
        (lambda: [SAGE], {"edge_attr": "edge_attr"}, InvalidArgumentError,
         "SAGEConv takes no edge_attr"),
        (lambda: [GCNConv(8, 8)], {"edge_weight": "w"}, InvalidArgumentError,
         "edge_attrs: 'w' does not exist"),
        (lambda: [SAGEConv(-1, 8)], {}, InvalidArgumentError, "SAGEConv has lazy parameters"),
        (lambda: [SAGE], {"device": "moon"}, InvalidArgumentError, "device = 'moon' is no device"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_named(
    model: Callable[[], Any], options: dict[str, Any], error: type[Exception], message: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    with pytest.raises(error, match=message):
        embed(model(), GRAPH, tmp_path / "h.npy", **options)
    assert os.listdir(tmp_path) == []


def test_stores_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="pair of stores: give the graph that they are"):
        embed([SAGE], make_stores(), tmp_path / "h.npy")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["GraphSAGE", "GAT", "GIN", "PNA", "EdgeCNN"])
def test_refreshed_vectors_are_those_of_all_nodes_to_the_last_bit(
    name: str, tmp_path: Path
) -> None:
    """With changes of one node, whose products of matrices have a row, and of more."""
    kind, options = MODELS[name]
    model, graph = basic(kind, **options), live_graph()
    for number in (0, 1, 2, 5, 40):
        src, dst = np.random.default_rng(number).integers(0, NUM_NODES, (2, number))
        graph.insert_edges(src, dst)
        if number == 2:
            graph.add_nodes(1, x=np.ones((1, 8), np.float32))
        table = embed(model, graph, tmp_path / "h.npy", batch_size=32, refresh=True)
        wanted = embed(model, graph, tmp_path / "all.npy", batch_size=50, force=True)
        np.testing.assert_allclose(table.array, wanted.array, rtol=1e-6, atol=1e-6)
        if products_are_alike():  # else the CPU is of another kind than those that were tried
            np.testing.assert_array_equal(table.array, wanted.array, strict=True)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (basic(GCN), "GCNConv counts degrees in its batch, .* takes it with normalize=False"),
        ([SGConv(8, 4)], "SGConv counts degrees in its batch"),
        ([EGConv(8, 8)], "EGConv counts .* takes other convolutions"),
    ],
)
def test_rows_that_depend_on_the_batch_are_not_refreshed(
    model: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedError, match=message):
        embed(model, GRAPH, tmp_path / "h.npy", refresh=True)
    embed(
        [EGConv(8, 8, ["mean"]), GCNConv(8, 4, normalize=False)],
        GRAPH,
        tmp_path / "h.npy",
        refresh=True,
    )


# ---- neighbours combined ahead of convolutions --------------------------------------------------


class Doubled(GraphConv):
    """Convolution of a user whose messages are no rows."""

    def message(self, x_j: Tensor, edge_weight: Any) -> Tensor:
        return x_j * 2


def hooked() -> GraphConv:
    conv = GraphConv(8, 4)
    conv.register_message_forward_hook(lambda conv, inputs, out: out * 2)
    return conv


COMBINED: dict[str, Callable[[], Any]] = {
    "GraphSAGE": lambda: basic(GraphSAGE),
    "GraphSAGE max": lambda: basic(GraphSAGE, aggr="max"),
    "GIN": lambda: basic(GIN, train_eps=True),
    "weighted": lambda: [GraphConv(8, 6), torch.relu, GraphConv(6, 4, aggr="mean")],
    "LGConv": lambda: [LGConv(normalize=False)],
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", COMBINED)
def test_combined_neighbours_make_the_same_bits(
    name: str, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, choose, orders = COMBINED[name](), job.Embedding._choose, list[str]()
    graph = Graph.from_edges(NUM_NODES, SRC, DST, edge_attrs={"w": WEIGHTS})
    options = {
        "features": X.numpy(),
        "edge_weight": "w" if name in ("weighted", "LGConv") else None,
    }

    def noted(*args: Any) -> str:
        orders.append(choose(*args))
        return orders[-1]

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(job.Embedding, "_choose", noted)
            combined = embed(model, graph, tmp_path / "lists.npy", **options)
        monkeypatch.setattr(job.Embedding, "_choose", lambda *_: BATCHES)
        expected = embed(model, graph, tmp_path / "batches.npy", **options)
    finally:
        torch.set_num_threads(before)
    assert set(orders) == {LISTS}
    np.testing.assert_array_equal(combined.array, expected.array, strict=True)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Doubled(8, 4), hooked, lambda: SAGEConv(8, 4, project=True), lambda: GCNConv(8, 4),
        lambda: GCNConv(8, 4, normalize=False), lambda: LGConv(), lambda: GATConv(8, 4),
        lambda: SAGEConv(8, 4, aggr="median"), lambda: SAGEConv(8, 4, aggr=["mean", "max"]),
    ],
)  # fmt: skip
def test_convolutions_that_get_the_rows_of_all_neighbours(make: Any) -> None:
    assert aggregate_of(make(), {}) is None


def test_rows_that_change_before_a_convolution(tmp_path: Path) -> None:
    """They are not those that are stored, so they are not combined as stored."""
    model = [torch.square, GraphConv(8, 4)]
    table = embed(model, GRAPH, tmp_path / "h.npy")
    with torch.no_grad():
        expected = model[1](X.square(), EDGES)
    np.testing.assert_allclose(table.array, expected, rtol=1e-5, atol=1e-5)
