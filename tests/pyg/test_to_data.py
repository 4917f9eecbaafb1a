"""Data and HeteroData from graphs and stores, and back: nothing lost, nothing in another order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import examples
from torch import Tensor
from torch_geometric.data import Data, HeteroData, InMemoryDataset
from torch_geometric.sampler import NodeSamplerInput

from aethergraph import DynamicGraph, DynamicHeteroGraph, Graph, HeteroGraph, errors
from aethergraph.pyg import (
    FeatureStore,
    GraphStore,
    HeteroNeighborSampler,
    NeighborLoader,
    from_data,
    graph_from_data,
    to_data,
)

pytestmark = pytest.mark.pyg

KIND, SELF = ("a", "to", "b"), ("b", "is", "b")
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.bool]


def rows(draw: st.DrawFn, count: int) -> Tensor:
    shape = (count, *draw(st.sampled_from([(), (3,), (2, 2)])))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    numbers = torch.randint(-3, 4, shape, generator=generator)
    return numbers.to(draw(st.sampled_from(DTYPES)))


def edges(draw: st.DrawFn, source: int, target: int) -> Tensor:
    count = draw(st.integers(0, 30)) if source and target else 0
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    ends = [torch.randint(max(n, 1), (count,), generator=generator) for n in (source, target)]
    return torch.stack(ends)


def fill(draw: st.DrawFn, store: Any, count: int, names: list[str]) -> None:
    for name in draw(st.lists(st.sampled_from(names), unique=True)):
        store[name] = rows(draw, count)


def fill_own(draw: st.DrawFn, store: Any, count: int, names: list[str]) -> None:
    """Values that a graph takes as its own, in the dtypes in which it keeps them."""
    for name in draw(st.lists(st.sampled_from(names), unique=True)):
        generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
        dtype = torch.float64 if name == "edge_weight" else torch.int64
        store[name] = torch.randint(0, 7, (count,), generator=generator).to(dtype)


@st.composite
def one_type(draw: st.DrawFn) -> Data:
    """With more edges than nodes: the other way round PyG may take one for the other."""
    data = Data(edge_index=edges(draw, 12, 12))
    data.num_nodes = 12
    while data.num_edges == 12:  # PyG cannot tell rows of nodes from rows of edges
        data.edge_index = edges(draw, 12, 12)
    fill(draw, data, 12, ["x", "y", "train_mask"])
    fill(draw, data, data.num_edges, ["edge_attr"])
    fill_own(draw, data, 12, ["node_time"])
    fill_own(draw, data, data.num_edges, ["edge_weight", "edge_time"])
    if draw(st.booleans()):
        data.names, data.scale = ["a", "b"], torch.tensor(3.0)
    return data


@st.composite
def many_types(draw: st.DrawFn) -> HeteroData:
    data = HeteroData()
    counts = {name: draw(st.integers(0, 9)) for name in ("b", "alone", "a")}
    for name, count in counts.items():
        data[name].num_nodes = count
        fill(draw, data[name], count, ["x", "y", "time"])
        fill_own(draw, data[name], count, ["node_time"])
    for kind in (KIND, SELF):
        data[kind].edge_index = edges(draw, counts[kind[0]], counts[kind[2]])
        fill(draw, data[kind], data[kind].num_edges, ["edge_attr"])
        fill_own(draw, data[kind], data[kind].num_edges, ["edge_weight", "edge_time"])
    if draw(st.booleans()):
        data["a"].names, data[KIND].scale, data.title = ["a", "b"], 3, "t"
        data[SELF].edge_label_index = torch.zeros(2, 3, dtype=torch.int64)
    return data


def assert_store(found: Any, expected: Any, order: Tensor | None = None) -> None:
    """The same attributes; those of edges in ``order``. num_nodes may be known another way."""
    assert set(found.keys()) | {"num_nodes"} == set(expected.keys()) | {"num_nodes"}
    for name in set(expected.keys()) - {"num_nodes"}:
        value = expected[name]
        if not isinstance(value, Tensor):
            assert found[name] == value
            continue
        if order is not None and name == "edge_index":
            value = value[:, order]
        elif order is not None and value.ndim and expected.is_edge_attr(name):
            value = value[order]
        assert found[name].dtype == value.dtype, name
        assert torch.equal(found[name], value), name


@examples(100)
@given(data=one_type())
def test_data_comes_back(data: Data) -> None:
    found = to_data(from_data(data))
    assert isinstance(found, Data)
    assert found.num_nodes == 12
    assert_store(found, data)


@examples(100)
@given(data=many_types())
def test_hetero_data_comes_back(data: HeteroData) -> None:
    found = to_data(from_data(data))
    assert isinstance(found, HeteroData)
    assert found.metadata() == data.metadata()
    for name in data.node_types:
        assert found[name].num_nodes == data[name].num_nodes
        assert_store(found[name], data[name])
    for kind in data.edge_types:
        assert_store(found[kind], data[kind])
    assert found._global_store.to_dict() == data._global_store.to_dict()


def order_of(graph: Any) -> Tensor:
    return torch.from_numpy(graph.edge_order.astype(np.int64))


@examples(60)
@given(data=one_type(), layout=st.sampled_from(["csc", "csr", "both"]))
def test_a_graph_holds_every_table(data: Data, layout: Any, tmp_path_factory: Any) -> None:
    for name in ("names", "scale"):
        data.pop(name, None)
    graph = graph_from_data(data, layout=layout)
    path = tmp_path_factory.mktemp("g") / "graph.aeg"
    graph.save(path)
    loaded = Graph.load(path)
    for one in (graph, loaded, path):
        found = to_data(one)
        assert found.num_nodes == 12
        assert_store(found, data, order_of(graph))
    assert loaded.layout == layout


@examples(60)
@given(data=many_types())
def test_a_typed_graph_holds_every_table(data: HeteroData, tmp_path_factory: Any) -> None:
    data["a"].pop("names", None)
    data[KIND].pop("scale", None)
    data[SELF].pop("edge_label_index", None)
    graph = graph_from_data(data)
    path = tmp_path_factory.mktemp("g") / "graph.aeg"
    graph.save(path)
    for one in (graph, HeteroGraph.load(path), path):
        found = to_data(one)
        assert found.metadata() == data.metadata()
        for name in data.node_types:
            assert found[name].num_nodes == data[name].num_nodes
            assert_store(found[name], data[name])
        for kind in data.edge_types:
            assert_store(found[kind], data[kind], order_of(graph[kind]))


WEIGHTS = {
    torch.float16: np.float32, torch.bfloat16: np.float32, torch.float32: np.float32,
    torch.float64: np.float64, torch.uint8: np.float64, torch.int32: np.float64,
    torch.int64: np.float64,
}  # fmt: skip
TIMES = {
    dtype: np.float64 if dtype.is_floating_point else np.int64
    for dtype in (*WEIGHTS, torch.int8, torch.int16)
}
ENDS = torch.tensor([[0, 1, 2, 0], [2, 2, 2, 1]])


def make_one(typed: bool, **own: Tensor) -> Data | HeteroData:
    """Make one graph, plain or with the node type "b", and give it these attributes."""
    data: Any = HeteroData() if typed else Data()
    nodes, edges = (data["b"], data[SELF]) if typed else (data, data)
    nodes.x, edges.edge_index = torch.rand(5, 1), ENDS
    for name, value in own.items():
        (nodes if name.startswith("node") else edges)[name] = value
    return data


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("dtype", WEIGHTS, ids=str)
def test_weights_of_every_dtype_become_the_graphs_own(dtype: torch.dtype, typed: bool) -> None:
    graph: Any = graph_from_data(make_one(typed, edge_weight=torch.tensor([3, 0, 2, 7]).to(dtype)))
    own = graph[SELF] if typed else graph
    assert list(own.attrs if typed else own.edge_attrs) == []
    assert own.edge_weight.dtype == WEIGHTS[dtype]
    assert own.edge_weight.tolist() == [[3, 0, 2, 7][i] for i in own.edge_order]


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("dtype", TIMES, ids=str)
def test_times_of_every_dtype_become_the_graphs_own(dtype: torch.dtype, typed: bool) -> None:
    times = torch.tensor([9, 3, 5, 1]).to(dtype)
    graph: Any = graph_from_data(make_one(typed, edge_time=times))
    own = graph[SELF] if typed else graph
    assert own.edge_time.dtype == TIMES[dtype]
    assert own.edge_time.tolist() == [1, 3, 5, 9]  # by destination, then by time
    seeds = ("b", torch.tensor([2])) if typed else torch.tensor([2])
    batch = next(iter(NeighborLoader(
        graph, [-1], seeds, time_attr="edge_time", input_time=torch.tensor([5]),
    )))  # fmt: skip
    assert (batch[SELF] if typed else batch).edge_time.tolist() == [3, 5]
    nodes = torch.tensor([2, 1, 0, 3, 4]).to(dtype)
    graph = graph_from_data(make_one(typed, node_time=nodes))
    assert (graph["b"] if typed else graph).node_time.dtype == TIMES[dtype]
    assert (graph[SELF] if typed else graph).edge_index()[0].tolist() == [0, 2, 1, 0]


def test_times_of_nodes_and_edges_together() -> None:
    times = torch.tensor([9, 3, 5, 1], dtype=torch.int32)
    data = make_one(False, edge_time=times, node_time=torch.tensor([2, 1, 0, 3, 4]))
    graph: Any = graph_from_data(data)
    assert graph.edge_time.tolist() == [1, 3, 5, 9]
    assert graph.node_time.tolist() == [2, 1, 0, 3, 4]
    graph = graph_from_data(data, time_attr="node_time")
    assert graph.edge_time is None
    assert graph.edge_attrs["edge_time"].array.tolist() == [1, 5, 3, 9]  # sources 0 | 2, 1, 0


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("edge_weight", torch.tensor([1.0, -1.0, 0.0, 1.0]), r"\[1\] = -1.0: weights are finite"),
        (
            "edge_weight",
            torch.tensor([1, 2, 2**53 + 1, 1]),
            r"\[2\] = 9007199254740993",
        ),
        ("edge_weight", torch.ones(4, 1), r" must be one-dimensional: take .*view\(-1\)"),
        ("edge_weight", torch.ones(4, 2), r" must be one-dimensional, got shape \(4, 2\)"),
        ("edge_weight", torch.ones(4, dtype=torch.bool), " must hold numbers, got dtype bool"),
        ("edge_time", torch.tensor([1, 2, torch.nan, 1]), r"\[2\] = nan: every time must be known"),
        ("node_time", torch.ones(5, dtype=torch.bool), " must hold numbers, got dtype bool"),
        ("node_time", torch.ones(5, 2, dtype=torch.int32), " must be one-dimensional"),
    ],
)
def test_own_values_that_do_not_fit_are_refused(
    name: str, value: Tensor, text: str, typed: bool
) -> None:
    label = rf"data\['b'\].{name}" if name == "node_time" else rf"data\[\('b'.*\)\].{name}"
    label = label if typed else f"data.{name}"
    with pytest.raises(errors.InvalidArgumentError, match=label + text) as caught:
        graph_from_data(make_one(typed, **{name: value}))
    assert f"another name than '{name}' keeps any values" in str(caught.value)
    graph_from_data(make_one(typed, **{name.replace("_", "_the_"): value}))  # as it says


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("of", ["edge_time", "node_time"])
def test_the_unit_of_times_comes_back(of: str, typed: bool, tmp_path: Path) -> None:
    days = np.array(["1969-12-31", "2020-01-02", "2020-01-01", "2000-01-01", "2000-01-03"], "M8[D]")
    times = days if of == "node_time" else days[:4]
    graph: Any
    if typed:
        key = "b" if of == "node_time" else SELF
        counts = {"b": 5, "a": 1}
        graph = HeteroGraph.from_edges({SELF: ENDS}, counts, **{of: {key: times}})  # type: ignore[arg-type]
    else:
        graph = Graph.from_edges(5, *ENDS, **{of: times})  # type: ignore[arg-type]
    graph.save(tmp_path / "graph.aeg")
    for source in (graph, tmp_path / "graph.aeg"):
        data = to_data(source)
        assert data.time_unit == "D"
        again: Any = graph_from_data(data)
        assert again.time_unit == "D"
        found, expected = (one[key] if typed else one for one in (again, graph))
        assert np.array_equal(getattr(found, of), getattr(expected, of))
    renamed: Any = make_one(typed, edge_stamp=torch.arange(4, dtype=torch.int32))
    renamed.time_unit = "us"
    assert graph_from_data(renamed, time_attr="edge_stamp").time_unit == "us"
    assert "time_unit" not in to_data(Graph.from_edges(2, [0], [1], edge_time=[3]))


def test_a_unit_without_times_stays_behind(caplog: pytest.LogCaptureFixture) -> None:
    for unit, own in (("s", {}), ("week", {"edge_time": torch.arange(4)})):
        data = make_one(False, **own)  # type: ignore[arg-type]
        data.time_unit = unit
        caplog.clear()
        assert graph_from_data(data).time_unit is None
        assert "not in the graph: time_unit" in caplog.text


def test_a_typed_graph_sorted_by_the_times_of_its_edges() -> None:
    rng = np.random.default_rng(2)
    data = HeteroData()
    data["a"].num_nodes, data["b"].num_nodes = 9, 9
    for kind in (KIND, SELF):
        data[kind].edge_index = torch.from_numpy(rng.integers(0, 9, (2, 50)))
    data[KIND].stamp = torch.from_numpy(rng.integers(0, 50, 50)).int()
    graph = graph_from_data(data, time_attr="stamp")
    assert isinstance(graph, HeteroGraph)
    sampler = HeteroNeighborSampler(graph, [-1], time_attr="edge_time")
    seeds = NodeSamplerInput(None, torch.arange(9), torch.full((9,), 20), "b")
    found = sampler.sample_from_nodes(seeds).edge[KIND]
    assert len(found) == int((data[KIND].stamp <= 20).sum())
    assert (data[KIND].stamp[order_of(graph[KIND])[found]] <= 20).all()


class OneGraph(InMemoryDataset):  # type: ignore[misc]
    """A dataset as PyG keeps it on disk: processed/data.pt."""

    def __init__(self, root: str, graphs: list[Data]) -> None:
        self._graphs = graphs
        super().__init__(root)
        self.load(self.processed_paths[0])

    @property
    def processed_file_names(self) -> str:
        return "data.pt"

    def process(self) -> None:
        self.save(self._graphs, self.processed_paths[0])


def test_a_dataset_on_disk(tmp_path: Path) -> None:
    data = Data(x=torch.rand(5, 2), y=torch.arange(5), edge_index=torch.randint(5, (2, 20)))
    OneGraph(str(tmp_path / "one"), [data])
    dataset = OneGraph(str(tmp_path / "one"), [])  # from disk
    for graph in (graph_from_data(dataset), graph_from_data(dataset[0])):
        assert_store(to_data(graph), data, order_of(graph))
    several = OneGraph(str(tmp_path / "two"), [data, data])
    with pytest.raises(errors.InvalidArgumentError, match="2 graphs"):
        graph_from_data(several)


def test_what_a_graph_cannot_hold_is_named(caplog: pytest.LogCaptureFixture) -> None:
    data = HeteroData({"a": {"num_nodes": 2, "names": ["x"]}, "title": "t"})
    graph_from_data(data)
    assert "title, names of 'a'" in caplog.text
    data["a"].pair_index = torch.zeros(2, 2)
    data["a", "to", "a"].edge_index = data["a", "to", "a"].pair_index = torch.tensor([[0], [1]])
    graph_from_data(data)
    assert "pair_index of ('a', 'to', 'a'), title, names of 'a'" in caplog.text
    bad = Data(x=torch.rand(3, 1).to(torch.complex64), edge_index=torch.tensor([[0], [1]]))
    with pytest.raises(errors.InvalidArgumentError, match=r"node_attrs\['x'\].*complex64"):
        graph_from_data(bad)
    timed = Data(x=torch.rand(3, 1), edge_index=torch.tensor([[0], [1]]), time=torch.arange(3))
    timed.node_time = torch.arange(3)
    with pytest.raises(errors.InvalidArgumentError, match="'time' becomes 'node_time'"):
        graph_from_data(timed, time_attr="time")
    with pytest.raises(errors.InvalidArgumentError, match=r"'when' is no.*'time', 'x'"):
        graph_from_data(timed, time_attr="when")


@pytest.mark.parametrize("snapshot", [False, True])
@pytest.mark.parametrize("typed", [False, True])
def test_a_live_graph_with_deleted_edges(typed: bool, snapshot: bool) -> None:
    """Columns are the edges that are there, by id, and ``edge_id`` says which they are."""
    src, dst, kept = [0, 1, 2, 3], [1, 2, 3, 0], [0, 2, 3]
    attrs: Any = {"e": ((2,), "float32")}
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    graph: Any
    edges: Any
    if typed:
        graph = DynamicHeteroGraph({"b": 4}, [SELF], 8, edge_attrs=attrs, huge_pages=False)
        edges = graph[SELF]
    else:
        graph = edges = DynamicGraph(4, 8, edge_attrs=attrs, huge_pages=False)
    insert = edges.insert if typed else edges.insert_edges
    insert(src, dst, edge_attrs={"e": rows})
    assert "edge_id" not in (to_data(graph)[SELF] if typed else to_data(graph))
    delete = edges.delete if typed else edges.delete_edges
    delete([1], [2])
    data = to_data(graph.snapshot() if snapshot else graph)
    found = data[SELF] if typed else data
    assert found.edge_index.tolist() == [[src[i] for i in kept], [dst[i] for i in kept]]
    assert found.edge_id.tolist() == kept and found.e.tolist() == rows[kept].tolist()
    assert data.num_nodes == 4


def test_what_to_data_refuses() -> None:
    graph = Graph.from_edges(2, [0], [1])
    graph.node_attrs["same"] = np.zeros(2)
    graph.edge_attrs["same"] = np.zeros(1)
    with pytest.raises(errors.InvalidArgumentError, match="'same' is both"):
        to_data(graph)
    with pytest.raises(errors.InvalidArgumentError, match="int"):
        to_data(3)  # type: ignore[arg-type]
    data = Data(x=torch.rand(3, 1), edge_index=torch.tensor([[0], [1]]))
    with pytest.raises(errors.InvalidArgumentError, match=r"\(Data, Data\)"):
        to_data((data, data))  # type: ignore[arg-type]


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_stores_filled_by_hand(layout: str) -> None:
    """In the order of what was put, which is that of the edge ids."""
    row, col = torch.tensor([0, 1, 1]), torch.tensor([0, 1, 2])
    pair = {
        "coo": (row, col),
        "csr": (torch.tensor([0, 1, 3]), col),
        "csc": (row, torch.tensor([0, 1, 2, 3])),
    }[layout]
    features, store = FeatureStore(), GraphStore()
    store.put_edge_index(pair, edge_type=KIND, layout=layout)
    features[KIND, "edge_attr", None] = torch.arange(3)
    features["alone", "x", None] = torch.rand(4, 2)
    data = to_data((features, store))
    assert data[KIND].edge_index.tolist() == [row.tolist(), col.tolist()]
    assert data[KIND].edge_attr.tolist() == [0, 1, 2]
    assert data.num_nodes_dict == {"a": 2, "b": 3, "alone": 4}
