"""Attributes of a Data or HeteroData in batches, beside what PyG's own loader makes of them."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from support.pyg import FRESH, NUM_EDGES, NUM_NODES, Forum, Paper, make_data
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import NodeLoader

from aethergraph import errors
from aethergraph.loading import Ahead
from aethergraph.pyg import (
    HeteroNeighborSampler,
    NeighborLoader,
    NeighborSampler,
    from_data,
    graph_from_data,
    to_data,
)

pytestmark = pytest.mark.pyg

WORKERS = [{}, pytest.param({**FRESH, "filter_per_worker": True}, marks=pytest.mark.slow)]
VOTES = ("user", "votes", "post")


def make_frame(rows: int) -> Any:
    """A TensorFrame with tensors, lists of several lengths, and targets."""
    frame = pytest.importorskip("torch_frame", reason="pip install pytorch-frame")
    nested = pytest.importorskip("torch_frame.data")
    lists = [[torch.arange(row % 3 + 1)] for row in range(rows)]
    return frame.TensorFrame(
        {
            frame.numerical: torch.arange(2.0 * rows).view(rows, 2),
            frame.multicategorical: nested.MultiNestedTensor.from_tensor_mat(lists),
        },
        {frame.numerical: ["a", "b"], frame.multicategorical: ["c"]},
        y=torch.arange(rows),
    )


def make_typed_data() -> HeteroData:
    generator = torch.Generator().manual_seed(1)
    data = HeteroData()
    data["user"].x, data["post"].x = torch.rand(40, 3), torch.rand(60, 2)
    ends = [torch.randint(count, (500,), generator=generator) for count in (40, 60)]
    data[VOTES].edge_index = torch.stack(ends)
    data["post", "in", "post"].edge_index = torch.randint(60, (2, 90), generator=generator)
    return data


def both(data: Any, seeds: Any, **options: Any) -> list[tuple[Any, Any]]:
    """Batches of our loader, each beside that of PyG's."""
    kind = NeighborSampler if isinstance(data, Data) else HeteroNeighborSampler
    theirs = NodeLoader(data, kind(data, [-1]), seeds, batch_size=20)
    ours = NeighborLoader(data, [-1], seeds, batch_size=20, **options)
    return list(zip(ours, theirs, strict=True))


def assert_equal(ours: Any, theirs: Any) -> None:
    for mine, own in zip(ours.stores, theirs.stores, strict=True):
        assert set(mine.keys()) == set(own.keys())
        for name, value in own.items():
            if isinstance(value, Tensor):
                plain = value.as_subclass(Tensor)  # PyG 2.5 has an EdgeIndex here
                assert mine[name].dtype == plain.dtype and torch.equal(mine[name], plain), name
            else:
                assert type(mine[name]) is type(value) and mine[name] == value, name


@pytest.mark.parametrize("workers", WORKERS)
def test_tensor_frames(workers: dict[str, Any]) -> None:
    data = make_data()
    data.tf, data.edge_table = make_frame(NUM_NODES), make_frame(NUM_EDGES)
    data.statistics = make_frame(3)  # of the graph as a whole
    for ours, theirs in both(data, torch.arange(50), **workers):
        assert_equal(ours, theirs)
        assert ours.tf.num_rows == len(ours.n_id) == ours.num_nodes
        assert torch.equal(ours.tf.y, ours.n_id) and torch.equal(ours.edge_table.y, ours.e_id)
    again = to_data(from_data(data))
    assert again.tf is data.tf and again.edge_table is data.edge_table


@pytest.mark.parametrize("workers", WORKERS)
def test_tensor_frames_of_types(workers: dict[str, Any]) -> None:
    data = make_typed_data()
    del data["user"].x
    data["user"].tf, data["post"].table = make_frame(40), make_frame(60)
    data[VOTES].edge_attr = make_frame(500)
    for ours, theirs in both(data, ("post", torch.arange(50)), **workers):
        assert_equal(ours, theirs)
        assert torch.equal(ours["user"].tf.y, ours["user"].n_id)


@pytest.mark.parametrize("workers", WORKERS)
def test_names_with_index(workers: dict[str, Any]) -> None:
    """PyG looks for the rows of such an attribute in its last dimension."""
    data = make_data()
    data.orig_index = torch.arange(NUM_NODES) + 1000
    data.node_index = np.arange(NUM_NODES)
    data.edge_index_id = torch.arange(NUM_EDGES)
    data.pair_index = torch.arange(2 * NUM_NODES).view(2, -1)
    data.edge_label_index = torch.arange(2 * NUM_EDGES).view(2, -1)
    data.split_index = torch.zeros(2, 7, dtype=torch.int64)  # of the graph as a whole
    for ours, theirs in both(data, torch.arange(50), **workers):
        assert_equal(ours, theirs)
        assert torch.equal(ours.orig_index, ours.n_id + 1000)
    again = to_data(from_data(data))
    assert torch.equal(again.pair_index, data.pair_index)


def test_names_with_index_of_types() -> None:
    data = make_typed_data()
    data["post"].orig_index = torch.arange(60)
    data["post"].pair_index = torch.arange(120).view(60, 2)
    data[VOTES].orig_index = torch.arange(500)
    data[VOTES].edge_label_index = torch.arange(1000).view(2, -1)
    for ours, theirs in both(data, ("post", torch.arange(50))):
        assert_equal(ours, theirs)


@pytest.mark.parametrize("workers", WORKERS)
def test_classes_of_ones_own(workers: dict[str, Any]) -> None:
    data = Paper(2000, **make_data().to_dict())
    for ours, theirs in both(data, torch.arange(50), **workers):
        assert type(ours) is type(theirs) is Paper
        assert_equal(ours, theirs)
        assert torch.equal(ours.years, theirs.years)
    typed = Forum(make_typed_data().to_dict())
    for ours, theirs in both(typed, ("post", torch.arange(50)), **workers):
        assert type(ours) is type(theirs) is Forum
        assert_equal(ours, theirs)


def test_stores_with_tensor_frames(caplog: pytest.LogCaptureFixture) -> None:
    data = make_data()
    data.tf = make_frame(NUM_NODES)
    loader = NeighborLoader(
        data, [2], torch.arange(9), batch_size=9, node_attrs="tf", ahead=Ahead(plan=2)
    )
    (batch,) = loader
    assert torch.equal(batch.tf.y, batch.n_id) and "x" not in batch
    assert loader.data.tf is data.tf and "TensorFrame" in repr(loader.data[0])
    loader.data.tf = data.tf[torch.arange(NUM_NODES).flip(0)]
    (batch,) = loader
    assert torch.equal(batch.tf.y, NUM_NODES - 1 - batch.n_id)
    features = from_data(data)[0]
    assert features[None, "tf", [3, 1]].y.tolist() == [3, 1]
    assert features[None, "tf", 2:4].y.tolist() == [2, 3]
    with pytest.raises(errors.OutOfRangeError, match="150"):
        features[None, "tf", [1, 150]]
    with pytest.raises(errors.InvalidArgumentError, match="vector"):
        features[None, "tf", 3]
    with pytest.raises(errors.InvalidArgumentError, match="time_attr = 'tf'"):
        NeighborSampler(data, [2], time_attr="tf")
    graph_from_data(data)
    assert "not in the graph: tf" in caplog.text


# ---- a Data that changes ---------------------------------------------------------------------


def assign(data: Data) -> None:
    data.x = -data.x
    data.y = np.arange(NUM_NODES)
    data.edge_attr = data.edge_attr[:, :1]


def write(data: Data) -> None:
    data.x.neg_()
    data.turned += 5  # not contiguous, so that stores have a copy


def add(data: Data) -> None:
    data.train_mask = torch.arange(NUM_NODES) < 20
    data.edge_kind = torch.arange(NUM_EDGES)
    data.title = "changed"


def delete(data: Data) -> None:
    del data.x, data.edge_attr, data.year


def change_kind(data: Data) -> None:
    data.y, data.edge_attr = "of the whole graph", 3.5
    data.year = torch.arange(NUM_NODES)


CHANGES = [assign, write, add, delete, change_kind]


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("change", CHANGES)
def test_an_epoch_has_the_attributes_that_the_data_has_when_it_begins(
    change: Callable[[Data], None], workers: dict[str, Any]
) -> None:
    data = make_data()
    data.turned, data.year = torch.rand(4, NUM_NODES).T, 2000
    nodes = torch.arange(50)
    theirs = NodeLoader(data, NeighborSampler(data, [-1]), nodes, batch_size=20)
    ours = NeighborLoader(data, [-1], nodes, batch_size=20, **workers)
    for _ in range(2):
        for mine, its in zip(ours, theirs, strict=True):
            assert_equal(mine, its)
        change(data)


@pytest.mark.parametrize("workers", WORKERS)
def test_an_epoch_has_the_attributes_that_typed_data_has(workers: dict[str, Any]) -> None:
    data = make_typed_data()
    data["user"].year, data.title = 2000, "before"
    nodes = ("post", torch.arange(50))
    theirs = NodeLoader(data, HeteroNeighborSampler(data, [-1]), nodes, batch_size=20)
    ours = NeighborLoader(data, [-1], nodes, batch_size=20, **workers)
    for _ in range(3):
        for mine, its in zip(ours, theirs, strict=True):
            assert_equal(mine, its)
        del data["post"].x
        data["post"].x, data["user"].year = torch.rand(60, 5), 2001
        data["user"].x.neg_()
        data[VOTES].edge_attr = torch.rand(500, 1)
        data.title = "after"


def test_edges_and_what_draws_go_by_stay_as_they_were() -> None:
    data = make_data()
    data.weight = torch.rand(NUM_EDGES)
    nodes = torch.arange(50)
    options: dict[str, Any] = {"batch_size": 50, "weight_attr": "weight", "seed": 1}
    loader = NeighborLoader(data, [3], nodes, **options)
    expected = NeighborLoader(from_data(data), [3], nodes, **options)  # follows no changes
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(loader), list(expected)
        data.edge_index, data.weight = data.edge_index.clone(), data.weight.clone()
        (batch,) = loader  # equal ones, as if moved to a GPU and back
    (same,) = expected
    assert torch.equal(batch.e_id, same.e_id)
    data.weight = torch.zeros(NUM_EDGES)
    with pytest.warns(UserWarning, match="^weight of the data changed after") as caught:
        (batch,) = loader
    assert caught[0].filename == __file__ and "make the loader anew" in str(caught[0].message)
    (same,) = expected
    assert torch.equal(batch.e_id, same.e_id) and not batch.weight.any()
    data.edge_index = data.edge_index.flip(0)
    with pytest.warns(UserWarning, match="^edge_index of the data changed"):
        (batch,) = loader
    (same,) = expected
    assert torch.equal(batch.e_id, same.e_id)
    data.edge_index[0, 0] = 1
    with pytest.warns(UserWarning, match="^edge_index of the data changed"):
        list(loader)
    del data.edge_index, data.weight
    with pytest.warns(UserWarning, match="^edge_index, weight of the data changed"):
        list(loader)
    typed = make_typed_data()
    loader = NeighborLoader(typed, [3], "post")
    typed["post", "in", "post"].edge_index = typed["post", "in", "post"].edge_index[:, :5]
    with pytest.warns(UserWarning, match="^post-in-post.edge_index of the data changed"):
        list(loader)


def test_a_batch_that_is_asked_for_by_its_seeds_has_the_attributes_of_now() -> None:
    data = make_data()
    loader = NeighborLoader(data, [-1], torch.arange(50))
    data.x = torch.nn.Parameter(torch.ones(NUM_NODES, 1))
    batch = loader(torch.tensor([3, 8]))
    batch.x.sum().backward()
    assert torch.equal(data.x.grad[:, 0], torch.bincount(batch.n_id, minlength=NUM_NODES).float())


def test_what_was_assigned_to_the_stores_stays() -> None:
    data = make_data()
    nodes = torch.arange(50)
    loader = NeighborLoader(data, [-1], nodes, batch_size=50)
    loader.data.x = torch.zeros(NUM_NODES, 1)
    data.y = torch.ones(NUM_NODES)
    (batch,) = loader
    assert batch.x.shape[1] == 1 and not batch.x.any() and batch.y.all()
    rows = np.full((NUM_NODES, 2), 7, np.float32)
    loader = NeighborLoader(data, [-1], nodes, batch_size=50, feature_source=rows)
    data.x = torch.zeros(NUM_NODES, 1)
    (batch,) = loader
    assert (batch.x == 7).all()
    del data.x
    (batch,) = loader
    assert (batch.x == 7).all()


def test_a_loader_does_not_keep_the_data() -> None:
    data = make_data()
    loader = NeighborLoader(data, [-1], torch.arange(50), batch_size=50)
    reference = weakref.ref(data)
    (before,) = loader
    del data
    assert reference() is None
    (after,) = loader
    assert_equal(after, before)


def test_an_attribute_that_no_store_holds_is_refused_when_an_epoch_begins() -> None:
    data = make_data()
    loader = NeighborLoader(data, [-1], torch.arange(50))
    data.x = torch.eye(NUM_NODES).to_sparse()
    for _ in range(2):
        with pytest.raises(errors.InvalidArgumentError, match=r"'x'.*sparse"):
            iter(loader)
    data.x = torch.ones(NUM_NODES)
    assert next(iter(loader)).x.all()
