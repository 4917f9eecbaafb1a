"""FeatureStore: every index against torch's own indexing, and PyG's protocol."""

from __future__ import annotations

import copy
import gc
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.pyg import NUM_NODES, make_graph
from support.strategies import examples
from torch import Tensor
from torch_geometric.data import TensorAttr
from torch_geometric.loader import NodeLoader

from aethergraph import FeatureTable, errors
from aethergraph.pyg import (
    FeatureStore,
    GraphStore,
    LinkNeighborLoader,
    NeighborLoader,
    NeighborSampler,
    as_stores,
)

pytestmark = pytest.mark.pyg

DTYPES = [
    torch.uint8, torch.bool, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
    torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
    torch.float8_e4m3fn,
]  # fmt: skip
SIZE = 11


def table(dtype: torch.dtype = torch.float32, shape: tuple[int, ...] = (SIZE, 3)) -> Tensor:
    values = torch.arange(int(np.prod(shape))).reshape(shape)
    if dtype == torch.bool:
        return values % 3 == 0
    return (values % 100).to(dtype)


def same(a: Tensor, b: Tensor) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype == torch.float8_e4m3fn:
        a, b = a.view(torch.uint8), b.view(torch.uint8)
    return torch.equal(a, b)


def take(values: Tensor, index: Any) -> Tensor:
    """torch's answer; by way of bytes for dtypes that it cannot index."""
    if values.dtype == torch.float8_e4m3fn:
        return values.view(torch.uint8)[index].view(values.dtype)
    return values[index]


def indices() -> st.SearchStrategy[Any]:
    ids = st.lists(st.integers(0, SIZE - 1), max_size=20)
    mask = st.lists(st.booleans(), min_size=SIZE, max_size=SIZE)
    bound = st.none() | st.integers(-SIZE - 2, SIZE + 2)
    return st.one_of(
        st.just(slice(None)),
        st.builds(slice, bound, bound, st.none() | st.integers(1, 4)),
        st.integers(-SIZE, SIZE - 1),
        ids,
        ids.map(lambda v: torch.tensor(v, dtype=torch.int64)),
        ids.map(lambda v: torch.tensor(v, dtype=torch.int32)),
        ids.map(lambda v: np.array(v, np.int64)),
        ids.map(lambda v: np.array(v, np.uint16)),
        mask,
        mask.map(torch.tensor),
        mask.map(np.array),
        ids.filter(lambda v: len(v) % 2 == 0).map(lambda v: torch.tensor(v).long().view(2, -1)),
        st.integers(0, SIZE - 1).map(torch.tensor),
    )


def reference(values: Tensor, index: Any) -> Tensor:
    if isinstance(index, np.ndarray):
        index = torch.from_numpy(index if index.dtype == np.bool_ else index.astype(np.int64))
    if isinstance(index, list):
        index = torch.tensor(index, dtype=torch.bool if index and index[0] in (True, False) and
                             all(isinstance(i, bool) for i in index) else torch.int64)  # fmt: skip
    return take(values, index)


@given(
    index=indices(), dtype=st.sampled_from(DTYPES), shape=st.sampled_from([(), (3,), (2, 2), (0,)])
)
@examples(300)
def test_every_index_kind_agrees_with_torch(index: Any, dtype: torch.dtype, shape: Any) -> None:
    values = table(dtype, (SIZE, *shape))
    store = FeatureStore()
    store.put_tensor(values, group_name="paper", attr_name="x", index=None)
    wanted = reference(values, index)
    found = store.get_tensor(group_name="paper", attr_name="x", index=index)
    assert isinstance(found, Tensor)
    assert same(found, wanted)
    assert same(store["paper", "x", index], wanted)
    assert same(store["paper"].x[index], wanted)
    assert store.get_tensor_size("paper", "x", index) == tuple(wanted.shape)
    attr = TensorAttr("paper", "x", index)  # PyG's own class, numpy index and all
    assert same(store.get_tensor(attr), wanted)
    assert all(
        same(t, wanted) for t in store.multi_get_tensor([attr, TensorAttr("paper", "x", index)])
    )


def test_rows_of_a_file(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((SIZE, 3), dtype=np.float32)
    np.save(tmp_path / "x.npy", values)
    FeatureTable.from_array(values).save(tmp_path / "half.bin", dtype="bfloat16")
    graph = make_graph()
    for name, path in (("x", "x.npy"), ("half", "half.bin")):
        rows = FeatureTable.load(tmp_path / path)
        graph.node_attrs[name] = np.zeros(graph.num_nodes)
        graph.node_attrs._stores[name] = rows  # rows of another count than nodes, for brevity
    store = FeatureStore.from_graph(graph)
    ids = torch.tensor([3, 0, 3])
    expected = torch.from_numpy(values)
    assert torch.equal(store[None, "x", ids], expected[ids])
    assert store[None, "half", ids].dtype == torch.bfloat16
    assert torch.equal(store[None, "half", ids], expected.bfloat16()[ids])
    whole = store[None, "x", None]
    assert torch.equal(whole, expected)
    whole += 1  # memory of its own: the file and the mapping are untouched
    assert torch.equal(store[None, "x", None], expected)
    assert torch.equal(store[None, "x", slice(2, 9)], expected[2:9])
    with pytest.raises(errors.UnsupportedError, match="read-only"):
        store[None, "x", ids] = torch.zeros(3, 3)


def test_the_store_is_a_live_view_of_the_graph() -> None:
    graph = make_graph()
    store = FeatureStore.from_graph(graph)
    assert [(a.group_name, a.attr_name) for a in store.get_all_tensor_attrs()] == [
        (None, "x"), (None, "y"), (None, "train_mask"),
    ]  # fmt: skip
    graph.node_attrs["z"] = np.zeros(graph.num_nodes)
    assert "z" in [a.attr_name for a in store.get_all_tensor_attrs()]
    graph.features = np.ones((graph.num_nodes, 2))
    assert store[None, "x", 0].tolist() == [1, 1]
    del graph.node_attrs["x"]
    with pytest.raises(KeyError, match="'x'"):
        store[None, "x", 0]


def test_what_is_put_shadows_the_graph() -> None:
    graph = make_graph()
    store = FeatureStore.from_graph(graph)
    other = torch.zeros(graph.num_nodes, 2)
    store[None, "x", None] = other
    assert store[None, "x", None] is not None
    assert store.get_tensor_size(None, "x") == (graph.num_nodes, 2)
    store[None, "x", torch.tensor([1])] = torch.ones(1, 2)
    assert store[None, "x", 1].tolist() == [1, 1]
    assert not other.any()
    assert graph.features is not None
    assert graph.features.shape[1] == 8
    assert store.remove_tensor(None, "x", None)
    assert store.get_tensor_size(None, "x") is None
    assert "x" in graph.node_attrs
    assert not store.remove_tensor(None, "x", None)
    with pytest.raises(errors.InvalidArgumentError, match="num_nodes = 150"):
        store[None, "z", None] = torch.zeros(3)


def test_edge_tensors_of_a_homogeneous_graph_are_served_but_not_listed() -> None:
    graph = make_graph()
    store = FeatureStore.from_graph(graph)
    assert all(attr.group_name is None for attr in store.get_all_tensor_attrs())
    ids = torch.tensor([5, 5, 7])
    edge_attr = torch.from_numpy(np.array(graph.edge_attrs["edge_attr"].array))
    assert torch.equal(store[(None, None), "edge_attr", ids], edge_attr[ids])
    assert sorted(name for name, _ in store.batch_columns()[1]) == ["edge_attr", "kind"]


def test_rows_are_replaced_in_place() -> None:
    values = table()
    store = FeatureStore()
    store["g", "x", None] = values.clone()
    wanted = values.clone()
    for index in (torch.tensor([4, 1]), [0, 2], np.array([3, 5]), slice(6, 8)):
        new = torch.rand(2, 3)
        store["g", "x", index] = new
        wanted[index] = new
    store["g", "x", 9] = torch.full((3,), 7.0)
    wanted[9] = 7
    mask = torch.zeros(SIZE, dtype=torch.bool)
    mask[10] = True
    store.update_tensor(torch.full((1, 3), -1.0), "g", "x", mask)
    wanted[mask] = -1
    assert torch.equal(store["g", "x", None], wanted)
    assert torch.equal(store["g", "x", torch.arange(SIZE)], wanted)
    store.update_tensor(table(torch.int64), group_name="g", attr_name="x", index=None)
    assert store["g", "x", None].dtype == torch.int64


@pytest.mark.parametrize(
    ("index", "error", "text"),
    [
        (torch.tensor([0, 11]), errors.OutOfRangeError, r"ids\[1\] = 11"),
        (torch.tensor([0, 2, -1]), errors.OutOfRangeError, r"ids\[2\] = -1"),
        (11, errors.OutOfRangeError, "row 11"),
        (-12, errors.OutOfRangeError, "row -12"),
        (torch.tensor([0.5]), errors.InvalidArgumentError, "float32"),
        (torch.tensor([1], dtype=torch.uint8), errors.InvalidArgumentError, "ambiguous"),
        (torch.tensor([True, False]), errors.InvalidArgumentError, r"shape \(11,\)"),
        ([[1], [2, 3]], errors.InvalidArgumentError, "array"),
        ("ab", errors.InvalidArgumentError, "str"),
        (True, errors.InvalidArgumentError, "bool"),
        (torch.tensor(True), errors.InvalidArgumentError, "bool"),
        (1.5, errors.InvalidArgumentError, "float"),
    ],
)
def test_a_bad_index_is_named(index: Any, error: type[Exception], text: str) -> None:
    store = FeatureStore()
    store["g", "x", None] = table()
    with pytest.raises(error, match=text):
        store["g", "x", index]


def test_a_bad_value_is_named() -> None:
    store = FeatureStore()
    for value, text in (
        (torch.tensor(1.0), "scalar"),
        ("text", "str"),
        (torch.eye(3).to_sparse(), "sparse"),
        (np.array(["a"]), "torch cannot hold"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=text):
            store["g", "x", None] = value
    with pytest.raises(KeyError, match="holds nothing"):
        store["g", "x", None]
    store["g", "x", None] = table()
    index = torch.tensor([1])
    with pytest.raises(errors.InvalidArgumentError, match="float64"):
        store["g", "x", index] = torch.zeros(1, 3, dtype=torch.float64)
    with pytest.raises(errors.InvalidArgumentError, match="1 rows of shape"):
        store["g", "x", index] = torch.zeros(2, 3)
    with pytest.raises(errors.OutOfRangeError) as caught:
        store["g", "x", torch.tensor([1, 99])] = torch.zeros(2, 3)
    assert (caught.value.position, caught.value.value) == (1, 99)
    with pytest.raises(ValueError, match="not fully specified"):
        store.get_tensor("g", "x")


def test_numpy_arrays_can_be_put() -> None:
    store = FeatureStore()
    array = np.arange(6.0).reshape(3, 2)
    store["g", "x", None] = array
    array[0, 0] = 9  # no copy was made
    assert store["g", "x", 0].tolist() == [9, 1]
    frozen = np.arange(3)
    frozen.flags.writeable = False
    store["g", "y", None] = frozen
    store["g", "y", torch.tensor([0])] = torch.tensor([5])
    assert frozen[0] == 0
    store["g", "z", None] = np.arange(3, dtype=">i4")
    assert store["g", "z", None].tolist() == [0, 1, 2]
    found = store.get_tensor("g", "x", np.array([1, 2]), convert_type=True)
    assert isinstance(found, np.ndarray)


def test_layouts_that_are_not_contiguous_are_copied() -> None:
    values = table(shape=(3, SIZE)).t()
    store = FeatureStore()
    store["g", "x", None] = values
    assert torch.equal(store["g", "x", torch.tensor([4])], values[4:5])
    store["g", "c", None] = torch.rand(4, dtype=torch.complex64).conj()
    assert store["g", "c", None].dtype == torch.complex64


def test_a_tensor_that_torch_moves_is_followed() -> None:
    """share_memory_() gives a tensor other memory; the store must not read the old."""
    values = table(shape=(5000, 40))
    store = FeatureStore()
    store["g", "x", None] = values
    wanted = values.clone()
    store["g", "x", torch.tensor([1])]
    values.share_memory_()
    gc.collect()
    assert torch.equal(store["g", "x", torch.arange(5000)], wanted)


def test_results_are_memory_of_their_own() -> None:
    store = FeatureStore(recycle=True)
    store["g", "x", None] = table(shape=(5000, 40))
    ids = torch.arange(5000)
    first = store["g", "x", ids]
    keep = first.clone()
    second = store["g", "x", ids.flip(0)]
    assert torch.equal(first, keep)
    view = second[10:20]
    wanted = view.clone()
    del second
    for _ in range(3):
        store["g", "x", torch.zeros(5000, dtype=torch.int64)]
    assert torch.equal(view, wanted)


def test_stores_over_one_graph_share_memory() -> None:
    graph = make_graph()
    graph.features = np.random.default_rng(0).random((graph.num_nodes, 2000), dtype=np.float32)
    stores = as_stores(graph)
    assert stores[0].pool is FeatureStore.from_graph(graph).pool is not None
    assert stores[0].pool is not FeatureStore.from_graph(make_graph()).pool
    assert FeatureStore.from_graph(graph, recycle=False).pool is None
    assert FeatureStore().pool is not FeatureStore().pool

    def places() -> set[int]:
        links = torch.arange(60).view(2, 30)
        loader = LinkNeighborLoader(graph, [0], links, batch_size=10, ahead=0)
        return {batch.x.data_ptr() for batch in loader}

    first = places()
    assert len(first) == 2  # one in use while the next is made
    assert places() <= first  # though loader and stores are new ones


def test_copies_and_pickles() -> None:
    graph = make_graph()
    store = FeatureStore.from_graph(graph)
    store[None, "z", None] = torch.arange(graph.num_nodes).bfloat16()
    store.graph_attrs["name"] = "test"
    for other in (copy.copy(store), copy.deepcopy(store), pickle.loads(pickle.dumps(store))):
        assert other.graph_attrs == {"name": "test"}
        assert len(other) == len(store) == 6
        ids = torch.tensor([5, 2])
        for name in ("x", "y", "z"):
            assert torch.equal(other[None, name, ids], store[None, name, ids])
    assert "'x'): [150, 8] float32" in repr(store)


def test_names_of_the_graph_itself_are_refused() -> None:
    for name in ("edge_index", "adj_t", "num_nodes"):
        for group in (None, (None, None)):
            with pytest.raises(errors.InvalidArgumentError, match=name):
                FeatureStore()[group, name, None] = table()
        graph = make_graph()
        graph.node_attrs[name] = graph.node_attrs["y"]
        with pytest.raises(errors.InvalidArgumentError, match=name):
            FeatureStore.from_graph(graph).get_all_tensor_attrs()
        FeatureStore()["paper", name, None] = table()  # typed batches have a place of their own


def test_a_tensor_that_requires_grad_is_learned() -> None:
    """Gradients of batches reach it, and batches see what the optimizer made of it."""
    graph = make_graph()
    x = torch.rand(NUM_NODES, 4).requires_grad_()
    stores = FeatureStore.from_graph(graph), GraphStore(graph)
    stores[0][None, "x", None] = x
    assert stores[0][None, "x", None] is x
    seeds = torch.arange(12)
    optimizer = torch.optim.SGD([x], lr=1.0)
    sampler = NeighborSampler(stores, [3])
    for loader in (
        NeighborLoader(stores, [3], seeds, batch_size=4, ahead=3),
        NodeLoader(stores, sampler, seeds, batch_size=4),
        NeighborLoader(stores, [3], seeds, batch_size=4, num_workers=1, filter_per_worker=False),
    ):
        for batch in loader:
            optimizer.zero_grad()
            assert torch.equal(batch.x, x[batch.n_id])  # after the step of the batch before
            batch.x.sum().backward()
            wanted = torch.zeros(NUM_NODES).index_add(0, batch.n_id, torch.ones(batch.num_nodes))
            assert x.grad is not None and torch.equal(x.grad, wanted[:, None].expand(-1, 4))
            optimizer.step()
    with pytest.raises(errors.UnsupportedError, match="filter_per_worker=False"):
        next(iter(NeighborLoader(stores, [3], seeds, batch_size=4, num_workers=1)))
    with pytest.raises(errors.OutOfRangeError, match=r"ids\[1\] = 150"):
        stores[0][None, "x", torch.tensor([0, NUM_NODES])]
    assert torch.equal(stores[0][None, "x", 2:5], x[2:5])
    with pytest.raises(errors.UnsupportedError, match="optimizer"):
        stores[0][None, "x", torch.tensor([1])] = torch.zeros(1, 4)


def test_a_tensor_is_made_of_rows_that_an_index_puts_in_order() -> None:
    values = table()
    store = FeatureStore()
    for number, index in enumerate((
        torch.arange(SIZE), torch.arange(SIZE).flip(0), slice(0, SIZE), torch.ones(SIZE).bool(),
        np.arange(SIZE)[::-1].copy(), torch.arange(SIZE).int(), torch.arange(SIZE).roll(1),
    )):  # fmt: skip
        store["g", f"x{number}", index] = values
        wanted = torch.empty_like(values)
        wanted[index.copy() if isinstance(index, np.ndarray) else index] = values
        assert torch.equal(store["g", f"x{number}", None], wanted)
        assert torch.equal(store["g", f"x{number}", index], values)
    for index, text in (
        (torch.tensor([0, 1, 1]), "row 2 is missing"),
        (torch.tensor([0, 1, 3]), "row 2 is missing"),
        (torch.tensor([0, 1]), "2 ids for 3 rows"),
        (torch.tensor([0, -1, 2]), "row 1 is missing"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=text):
            store["g", "other", index] = values[:3]


def test_writing_rows_leaves_the_tensor_that_was_put_as_it_is() -> None:
    values = table()
    before = values.clone()
    store = FeatureStore()
    store["g", "x", None] = values
    with pytest.raises(errors.OutOfRangeError):
        store["g", "x", torch.tensor([SIZE])] = torch.zeros(1, 3)
    assert store["g", "x", None].data_ptr() == values.data_ptr()  # nothing was copied for that
    store["g", "x", torch.tensor([1])] = torch.full((1, 3), -1.0)
    assert torch.equal(values, before)
    assert store["g", "x", 1].tolist() == [-1.0] * 3
    place = store["g", "x", None].data_ptr()
    store["g", "x", torch.tensor([2])] = torch.full((1, 3), -2.0)
    assert store["g", "x", None].data_ptr() == place  # copied once
    again = pickle.loads(pickle.dumps(store))
    again["g", "x", torch.tensor([2])] = torch.zeros(1, 3)
    assert store["g", "x", 2].tolist() == [-2.0] * 3
    array = np.zeros((SIZE, 2))
    store["g", "y", None] = array
    store["g", "y", torch.tensor([0])] = torch.ones(1, 2, dtype=torch.float64)
    assert not array.any()


def test_a_view_looks_as_pygs_own() -> None:
    class Own(FeatureStore):
        def __repr__(self) -> str:
            return "Own()"

    view = Own().view(group_name="a", attr_name="x")
    view["index"] = torch.tensor([0, 1])
    assert str(view) == (
        "AttrView(store=Own(), attr=TensorAttr(group_name='a', attr_name='x', "
        "index=tensor([0, 1])))"
    )


def test_names_in_two_groups_of_nodes_are_refused() -> None:
    store = FeatureStore()
    store["a", "x", None] = table()
    store[None, "x", None] = table()
    with pytest.raises(errors.InvalidArgumentError, match="groups 'a' and None"):
        store.batch_columns()


def test_masked_values_are_refused() -> None:
    masked = np.ma.masked_array(np.arange(SIZE), [i == 4 for i in range(SIZE)])
    store = FeatureStore()
    with pytest.raises(errors.InvalidArgumentError, match=r"\[4\] is masked"):
        store.put_tensor(masked, group_name="g", attr_name="x", index=None)
    store.put_tensor(table(), group_name="g", attr_name="x", index=None)
    with pytest.raises(errors.InvalidArgumentError, match=r"index\[4\] is masked"):
        store.get_tensor(group_name="g", attr_name="x", index=masked)
    with pytest.raises(errors.InvalidArgumentError, match=r"input_nodes\[4\] is masked"):
        NeighborLoader(make_graph(), [2], input_nodes=masked)
