"""Vectors of every node of typed graphs by PyG's models: those of models over the whole graph."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.pyg import products_are_alike
from support.recording import Interrupt, Recording
from support.strategies import examples
from torch import Tensor
from torch.nn.functional import dropout
from torch_geometric.data import HeteroData
from torch_geometric.nn import (
    GAT,
    GCN,
    GIN,
    GATConv,
    GCNConv,
    GraphConv,
    GraphNorm,
    GraphSAGE,
    HANConv,
    HeteroConv,
    HGTConv,
    Linear,
    SAGEConv,
    to_hetero,
    to_hetero_with_bases,
)

from aethergraph import DynamicHeteroGraph, HeteroGraph
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.inference import job
from aethergraph.pyg import embed

pytestmark = pytest.mark.pyg

COUNTS = {"paper": 120, "author": 80, "venue": 5}
CITES, WRITES, BY = (
    ("paper", "cites", "paper"),
    ("author", "writes", "paper"),
    ("paper", "by", "author"),
)
SIZES = {
    CITES: 700,
    WRITES: 300,
    BY: 300,
    ("paper", "in", "venue"): 120,
    ("venue", "of", "paper"): 90,
}


def make_data() -> HeteroData:
    """Edges that are there once, of relations to all types."""
    torch.manual_seed(0)
    data = HeteroData()
    for name, count in COUNTS.items():
        data[name].x = torch.randn(count, 8)
    for kind, size in SIZES.items():
        ends = [torch.randint(0, COUNTS[name], (size,)) for name in (kind[0], kind[2])]
        data[kind].edge_index = torch.unique(torch.stack(ends), dim=1)
        data[kind].w = torch.rand(data[kind].num_edges)
    return data


DATA = make_data()
META = DATA.metadata()


def make_graph(data: HeteroData = DATA) -> HeteroGraph:
    edges: Any = {kind: tuple(data[kind].edge_index.numpy()) for kind in data.edge_types}
    graph = HeteroGraph.from_edges(edges, data.num_nodes_dict)
    for name in data.node_types:
        graph[name].features = data[name].x.numpy()
    return graph


def stored(folder: Path, storage: Any) -> HeteroGraph:
    make_graph().save(folder / "g.aeg")
    budget = {"memory_budget": "64M"} if storage == "uring" else {}
    graph = HeteroGraph.load(folder / "g.aeg", storage=storage, **budget)
    for name in COUNTS:
        np.save(folder / f"{name}.npy", DATA[name].x.numpy())
        graph[name].load_features(folder / f"{name}.npy", storage=storage, **budget)
    return graph


def live_graph() -> DynamicHeteroGraph:
    graph = DynamicHeteroGraph(COUNTS, DATA.edge_types)
    for name in COUNTS:
        graph[name].features = DATA[name].x.numpy()
    for kind in DATA.edge_types:
        graph[kind].insert(*DATA[kind].edge_index[:, ::2].numpy())
        graph[kind].insert(*DATA[kind].edge_index[:, 1::2].numpy())
    return graph


def snapshot(folder: Path) -> Any:
    graph = live_graph()
    now = graph.snapshot()
    graph[WRITES].delete(*DATA[WRITES].edge_index[:, :9].numpy())
    return now


GRAPHS: dict[str, Callable[[Path], Any]] = {
    "data": lambda folder: DATA,
    "memory": lambda folder: make_graph(),
    "mapped": lambda folder: stored(folder, "mmap"),
    "uring": lambda folder: stored(folder, "uring"),
    "snapshot": snapshot,
}


# Forwards have no annotations: as texts, which they are here, old versions of torch cannot trace.


class Net(torch.nn.Module):
    """Functions before, between and behind convolutions, and around each of them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = Linear(8, 16), Linear(16, 3)
        self.convs = torch.nn.ModuleList(
            [SAGEConv((16, 16), 16), SAGEConv((16, 16), 16, aggr="max")]
        )
        self.skip = Linear(16, 16)

    def forward(self, x, edge_index):  # type: ignore[no-untyped-def]
        x = self.first(x).relu()
        x = (self.convs[0](x, edge_index) + x).relu()
        x = self.convs[1](x, edge_index) + self.skip(x)
        return self.last(x.tanh())


def typed(model: torch.nn.Module, **options: Any) -> Any:
    torch.manual_seed(3)
    return to_hetero(model, META, **options).eval()


def hetero_conv(conv: Callable[[], Any], aggr: str = "sum") -> HeteroConv:
    return HeteroConv({kind: conv() for kind in META[1]}, aggr=aggr)


def by_type(make: Callable[[], Any]) -> torch.nn.ModuleDict:
    return torch.nn.ModuleDict({name: make() for name in COUNTS})


def halved(x_dict: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: x / 2 for name, x in x_dict.items()}


MODELS: dict[str, Callable[[], Any]] = {
    "GraphSAGE": lambda: typed(GraphSAGE((8, 8), 16, 3, 4, norm="batch_norm")),
    "GAT": lambda: typed(GAT((8, 8), 16, 2, 4, heads=2, add_self_loops=False)),
    "GIN": lambda: typed(GIN(8, 16, 2, 4), aggr="mean"),
    "jk of two layers": lambda: typed(GraphSAGE((8, 8), 16, 2, 4, jk="cat")),
    "Net": lambda: typed(Net(), aggr="max"),
    "HeteroConv": lambda: [
        hetero_conv(lambda: SAGEConv((8, 8), 16), "mean"), torch.relu,
        by_type(lambda: Linear(16, 8)),
        hetero_conv(lambda: GATConv((8, 8), 4, heads=2, add_self_loops=False)), halved,
        torch.nn.Softmax(1),
    ],
    "HGTConv": lambda: [
        by_type(lambda: Linear(8, 16)), torch.relu, HGTConv(16, 16, META, heads=2),
        HGTConv(16, 4, META),
    ],
}  # fmt: skip


def whole(model: Any, data: HeteroData = DATA, **values: Any) -> Any:
    """Return what the model makes of the whole graph."""
    x, edges = data.x_dict, data.edge_index_dict
    with torch.no_grad():
        if not isinstance(model, list):
            return model(x, edges, **values)
        for step in model:
            if isinstance(step, (HeteroConv, HGTConv)):
                x = step(x, edges, **values)
            elif step is halved:
                x = halved(x)
            elif isinstance(step, torch.nn.ModuleDict):
                x = {name: step[name](rows) for name, rows in x.items() if name in step}
            else:
                x = {name: step(rows) for name, rows in x.items()}
    return x


def assert_tables(tables: Any, wanted: Any) -> None:
    assert [*tables] == [name for name in COUNTS if wanted.get(name) is not None]
    for name, table in tables.items():
        assert os.path.basename(table.path) == f"{name}.npy"
        np.testing.assert_allclose(table.array, wanted[name].numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.own_share
@pytest.mark.parametrize("name", MODELS)
def test_equals_the_model_over_the_whole_graph(name: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = MODELS[name]()
    assert_tables(embed(model, DATA, tmp_path / "h", batch_size=17), whole(model))


@pytest.mark.own_share
@pytest.mark.parametrize("place", GRAPHS)
def test_graphs_of_all_kinds(place: str, tmp_path: Path) -> None:
    """Parameters and features are small integers: sums have the same bits in every order."""
    torch.manual_seed(1)
    folder = tmp_path / "graph"
    folder.mkdir()
    data = DATA.clone()
    for name in COUNTS:
        data[name].x = torch.randint(-3, 4, data[name].x.shape).float()
    graph = GRAPHS[place](folder)
    sums = {"aggr": "sum"}
    for model in (
        typed(GraphSAGE((8, 8), 16, 2, 4, **sums)),
        [
            hetero_conv(lambda: GraphConv((8, 8), 8)),
            torch.relu,
            hetero_conv(lambda: SAGEConv((8, 8), 4, aggr="max")),
        ],
    ):
        modules = model if isinstance(model, list) else [model]
        for module in modules:
            for parameter in module.parameters() if isinstance(module, torch.nn.Module) else ():
                parameter.data = torch.randint(-2, 3, parameter.shape).float()
        features = {name: data[name].x for name in COUNTS}
        tables = embed(model, graph, tmp_path / "h", features=features, batch_size=20, force=True)
        for name, rows in whole(model, data).items():
            np.testing.assert_array_equal(tables[name].array, rows.numpy(), strict=True)


@given(seed=st.integers(0, 1 << 32))
@examples(15)
def test_relations_of_all_shapes(seed: int) -> None:
    """Several between the same types, to the type itself, without edges; types of one node."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    names = ["a", "b", "c"][: rng.integers(1, 4)]
    kinds = [(str(rng.choice(names)), f"to_{name}", name) for name in names]
    kinds += [
        (str(rng.choice(names)), f"r{number}", str(rng.choice(names)))
        for number in range(rng.integers(0, 4))
    ]
    data = HeteroData()
    for name in names:
        data[name].x = torch.randn(int(rng.integers(1, 40)), 8)
    for at in rng.permutation(len(kinds)):
        ends = [torch.arange(data[kinds[at][end]].num_nodes) for end in (0, 2)]
        pairs = torch.cartesian_prod(*ends)
        chosen = torch.randperm(len(pairs))[: rng.integers(0, 120)]
        data[kinds[at]].edge_index = pairs[chosen].t().contiguous()
    meta = data.metadata()
    aggr = str(rng.choice(["sum", "mean", "max"]))
    models = [
        to_hetero(GraphSAGE((8, 8), 8, int(rng.integers(1, 4)), 4), meta, aggr=aggr).eval(),
        [HeteroConv({kind: SAGEConv((8, 8), 5) for kind in kinds}, aggr=aggr), torch.relu],
        [HGTConv(8, 8, meta, heads=2), HGTConv(8, 4, meta)],
    ]
    with tempfile.TemporaryDirectory() as folder:
        for number, model in enumerate(models):
            out = Path(folder) / str(number)
            tables, results = embed(model, data, out, batch_size=7), whole(model, data)
            assert tables.keys() == {*names}
            for name in names:
                np.testing.assert_allclose(
                    tables[name].array, results[name].numpy(), rtol=1e-5, atol=1e-5
                )


def test_features_of_the_graph(tmp_path: Path) -> None:
    model = MODELS["GraphSAGE"]()
    assert_tables(embed(model, stored(tmp_path, "mmap"), tmp_path / "h"), whole(model))


def test_values_of_edges(tmp_path: Path) -> None:
    class Weighted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convs = torch.nn.ModuleList([GraphConv((8, 8), 8), GraphConv((8, 8), 4)])

        def forward(self, x, edge_index, edge_weight):  # type: ignore[no-untyped-def]
            x = self.convs[0](x, edge_index, edge_weight.square()).relu()
            return self.convs[1](x, edge_index, edge_weight=edge_weight)

    model = typed(Weighted())
    tables = embed(model, DATA, tmp_path / "h", edge_weight="w")
    assert_tables(tables, whole(model, edge_weight=DATA.w_dict))
    steps = [hetero_conv(lambda: GraphConv((8, 8), 8)), hetero_conv(lambda: GraphConv((8, 8), 4))]
    tables = embed(steps, DATA, tmp_path / "h", edge_weight="w", force=True)
    assert_tables(tables, whole(steps, edge_weight_dict=DATA.w_dict))
    data = DATA.clone()
    del data[BY].w  # a relation without values
    tables = embed(steps, data, tmp_path / "h", edge_weight="w", force=True)
    assert_tables(tables, whole(steps, data, edge_weight_dict=data.w_dict))


def test_types_that_no_edges_end_at(tmp_path: Path) -> None:
    """They have no rows, as in PyG; those with a relation of no edges have rows of none."""
    data = DATA.edge_type_subgraph([CITES, WRITES, ("paper", "in", "venue")])
    data["paper", "in", "venue"].edge_index = torch.empty(2, 0, dtype=torch.int64)
    model = to_hetero(GraphSAGE((8, 8), 16, 1, 4), data.metadata()).eval()
    steps = [HeteroConv({kind: SAGEConv((8, 8), 4) for kind in data.edge_types}), torch.relu]
    for each in (model, steps, [HGTConv(8, 4, data.metadata())]):
        tables = embed(each, data, tmp_path / "h", force=True)
        assert [*tables] == ["paper", "venue"]
        assert_tables(tables, whole(each, data))
    conv = HeteroConv({kind: SAGEConv((4, 4), 4) for kind in data.edge_types})
    with pytest.raises(
        InvalidArgumentError,
        match=r"layers\[1\] \(HeteroConv\) does not take rows of 'paper': shape \(4,\) and "
        r"float32, 'venue': .*, as layers\[0\] returns them for 'paper': InvalidArgumentError: "
        r"edges \('author', 'writes', 'paper'\) start at 'author', which has no rows",
    ):
        embed([*steps, conv], data, tmp_path / "h", force=True)


def test_heads_of_some_types(tmp_path: Path) -> None:
    """A ModuleDict that has not all types leaves the others out."""
    steps = [
        hetero_conv(lambda: SAGEConv((8, 8), 4)),
        torch.nn.ModuleDict({"author": Linear(4, 2)}),
    ]
    tables = embed(steps, DATA, tmp_path / "h")
    assert [*tables] == ["author"]
    assert_tables(tables, whole(steps))


def test_drawn_neighbours_by_relation(tmp_path: Path) -> None:
    """A relation of which none are drawn is one without edges."""
    model = MODELS["GraphSAGE"]()
    fanouts = {kind: [-1, -1, -1] for kind in META[1] if kind != CITES}
    data = DATA.clone()
    data[CITES].edge_index = data[CITES].edge_index[:, :0]
    tables = embed(model, DATA, tmp_path / "h", num_neighbors=fanouts)
    assert_tables(tables, whole(model, data))


def test_modes_come_back_and_hooks_go(tmp_path: Path) -> None:
    model = typed(GraphSAGE((8, 8), 16, 2, 4, dropout=0.5, norm="batch_norm"))
    wanted = whole(model)
    model.train()
    assert_tables(embed(model, DATA, tmp_path / "h"), wanted)
    assert all(module.training for module in model.modules())
    conv = hetero_conv(lambda: SAGEConv((8, 8), 4))
    embed([conv], DATA, tmp_path / "h", force=True)
    for module in conv.modules():
        assert not module._forward_hooks and not module._forward_pre_hooks


class Again(torch.nn.Module):
    """The same modules in another order of calls."""

    def __init__(self, is_late: bool) -> None:
        super().__init__()
        self.conv, self.is_late = SAGEConv((8, 8), 8), is_late

    def forward(self, x, edge_index):  # type: ignore[no-untyped-def]
        return self.conv(x, edge_index).relu() if self.is_late else self.conv(x.relu(), edge_index)


def test_goes_on_with_the_same_model_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "h"
    wanted = whole(typed(Again(True)))
    with monkeypatch.context() as patch:
        patch.setattr(job, "RECORD_SECONDS", 0.0)
        Recording(patch, interrupted_after=True).left = 6
        with pytest.raises(Interrupt):
            embed(typed(Again(True)), DATA, out, batch_size=20)
    other = typed(Again(True))
    with torch.no_grad():
        next(other.parameters())[0, 0] += 1e-3
    for model in (other, typed(Again(False))):
        with pytest.raises(InvalidArgumentError, match=r"layers\[0\]\.fingerprint was .*restart="):
            embed(model, DATA, out)
    remarks: list[str] = []
    tables = embed(typed(Again(True)), DATA, out, batch_size=20, remark=remarks.append)
    assert remarks == ["going on at row 0 of 'author' of layers[0]"]
    assert_tables(tables, wanted)


class Calls(torch.nn.Module):
    """Model of three convolutions whose forward is a function of them."""

    def __init__(self, forward: Callable[..., Any], **modules: torch.nn.Module) -> None:
        super().__init__()
        for number in range(3):
            self.add_module(f"conv{number}", SAGEConv((8, 8), 8))
        for name, module in modules.items():
            self.add_module(name, module)
        self._calls = forward


def calls(function: Callable[..., Any], **modules: torch.nn.Module) -> Any:
    """Return a typed model of a forward."""
    kind = type("Net", (Calls,), {"forward": function})
    return to_hetero(kind(function, **modules), META)


def skipping(self, x, edge_index):  # type: ignore[no-untyped-def]
    first = self.conv0(x, edge_index)
    return self.conv2(self.conv1(first, edge_index), edge_index) + first


def of_the_input(self, x, edge_index):  # type: ignore[no-untyped-def]
    return self.conv1(self.conv0(x, edge_index), edge_index) + x


def two_results(self, x, edge_index):  # type: ignore[no-untyped-def]
    x = self.conv0(x, edge_index)
    return self.conv1(x, edge_index) + self.conv2(x.relu(), edge_index)


def with_dropout(self, x, edge_index):  # type: ignore[no-untyped-def]
    return dropout(self.conv0(x, edge_index), training=self.training)


def with_degrees(self, x, edge_index, degrees):  # type: ignore[no-untyped-def]
    return self.conv0(x, edge_index) * degrees


def by_hand(self, x, edge_index):  # type: ignore[no-untyped-def]
    return self.conv0(x, edge_index) + edge_index.max()


def two_outputs(self, x, edge_index):  # type: ignore[no-untyped-def]
    return self.conv0(x, edge_index), x


def plain(self, x, edge_index):  # type: ignore[no-untyped-def]
    return x.relu()


def with_bases() -> Any:
    model = to_hetero_with_bases(Again(True), META, 2, {"x": 8})
    whole(model)  # its parameters are lazy
    return model


ONE_TYPE = SAGEConv((8, 8), 8)


@pytest.mark.own_share
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("model", "options", "error", "message"),
    [
        (lambda: calls(skipping), {}, UnsupportedError,
         r"layer 2 of model reads conv0__paper\d, rows of layer 0, and has those of the layer bef"),
        (lambda: typed(GraphSAGE((8, 8), 8, 3, 4, jk="cat")), {}, UnsupportedError,
         "layer 2 of model reads .*, rows of layer 0, and has those of the layer before it alone"),
        (lambda: calls(of_the_input), {}, UnsupportedError,
         "layer 1 of model reads x__paper, rows of the input, and has those of the layer bef"),
        (lambda: calls(two_results), {}, UnsupportedError,
         "convolutions of layer 1 of model read conv0__paper and relu__paper: a layer has the"),
        (lambda: calls(with_dropout), {}, UnsupportedError,
         r"dropout__\w+ of model was traced with training=True: call eval\(\) before to_hetero"),
        (lambda: calls(with_degrees), {}, UnsupportedError,
         "the forward of model takes degrees, which embed does not give it"),
        (lambda: calls(by_hand), {}, UnsupportedError, "it uses edges outside of convolutions"),
        (lambda: calls(two_outputs), {}, UnsupportedError, "it does not return rows by node type"),
        (lambda: calls(plain), {}, InvalidArgumentError, "model has no convolution"),
        (lambda: with_bases(), {}, UnsupportedError,
         "not as to_hetero makes it: .* Its layers cannot be told apart: give the list of its"),
        (lambda: typed(GraphSAGE((8, 8), 8, 2, norm="graph_norm")), {}, UnsupportedError,
         "GraphNorm normalizes over all nodes"),
        (lambda: typed(GraphSAGE((8, 8), 8, 2)), {"edge_weight": "w"}, InvalidArgumentError,
         "model takes no edge_weight"),
        (lambda: to_hetero(Again(True), ([*COUNTS], [*META[1], ("venue", "at", "author")])), {},
         InvalidArgumentError, r"the graph has no edges \('venue', 'at', 'author'\), which mo"),
        (lambda: GraphSAGE(8, 8, 2), {}, UnsupportedError,
         r"model is a GraphSAGE, of one type, and the graph has many: to_hetero\(model, graph.m"),
        (lambda: [ONE_TYPE], {}, UnsupportedError,
         r"model\[0\] is a SAGEConv, of one type, and the graph has many: HeteroConv\("),
        (lambda: [torch.nn.ModuleDict({"paper": ONE_TYPE})], {}, UnsupportedError,
         r"model\[0\] is a ModuleDict around convolutions: give the list"),
        (lambda: [typed(Again(True))], {}, UnsupportedError, r"model\[0\] is a .* around convolu"),
        (lambda: torch.nn.Module(), {}, UnsupportedError, "model is a Module, whose layers cannot"),
        (lambda: [HANConv(8, 4, META)], {}, UnsupportedError,
         "HANConv weighs relations by means over all nodes: a layer sees the neighbours"),
        (lambda: [hetero_conv(lambda: ONE_TYPE)], {"edge_weight": "w"}, InvalidArgumentError,
         "HeteroConv takes no edge_weight"),
        (lambda: [HGTConv(8, 8, META)], {"edge_attr": "w"}, InvalidArgumentError,
         "HGTConv takes no edge_attr"),
        (lambda: [torch.relu], {}, InvalidArgumentError, r"no convolution \(HeteroConv, HGTConv\)"),
        (lambda: [hetero_conv(lambda: SAGEConv(-1, 8))], {}, InvalidArgumentError,
         "HeteroConv has lazy parameters"),
        (lambda: [hetero_conv(lambda: ONE_TYPE), GraphNorm(8)], {}, UnsupportedError,
         "GraphNorm normalizes over all nodes"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_named(
    model: Callable[[], Any], options: dict[str, Any], error: type[Exception], message: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    with pytest.raises(error, match=message):
        embed(model(), DATA, tmp_path / "h", **options)
    assert os.listdir(tmp_path) == []


def test_typed_models_of_graphs_of_one_type_are_named(tmp_path: Path) -> None:
    data = DATA.to_homogeneous()
    for model in (typed(Again(True)), [hetero_conv(lambda: ONE_TYPE)]):
        with pytest.raises(UnsupportedError, match="give the list of its convolutions"):
            embed(model, data, tmp_path / "h.npy")


@pytest.mark.own_share
@pytest.mark.parametrize("name", MODELS)
def test_refreshed_vectors_are_those_of_all_nodes_to_the_last_bit(
    name: str, tmp_path: Path
) -> None:
    """With changes of one relation, whose products of matrices have a row, and of more."""
    torch.manual_seed(1)
    model, graph = MODELS[name](), live_graph()
    for number in (0, 1, 2, 40):
        rng = np.random.default_rng(number)
        for kind in DATA.edge_types[: number or None]:
            ends = (rng.integers(0, COUNTS[end], number) for end in (kind[0], kind[2]))
            graph[kind].insert(*ends)
        if number == 2:
            graph["venue"].add(1, x=np.ones((1, 8), np.float32))
            graph["author"].update([3], x=np.ones((1, 8), np.float32))
        tables = embed(model, graph, tmp_path / "h", batch_size=32, refresh=True)
        wanted = embed(model, graph, tmp_path / "all", batch_size=50, force=True)
        for of_type in wanted:
            rows = tables[of_type].array, wanted[of_type].array
            np.testing.assert_allclose(*rows, rtol=1e-6, atol=1e-6)
            if products_are_alike():
                np.testing.assert_array_equal(*rows, strict=True)


@pytest.mark.parametrize(
    "model",
    [
        lambda: [HeteroConv({CITES: GCNConv(8, 4)})],
        lambda: to_hetero(GCN(8, 16, 2, 4), (["paper"], [CITES])),
    ],
)
def test_rows_that_depend_on_the_batch_are_not_refreshed(
    model: Callable[[], Any], tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedError, match=r"GCNConv counts .* takes it with normalize="):
        embed(model(), DATA, tmp_path / "h", refresh=True)
    assert os.listdir(tmp_path) == []
