"""from_data: a PyG Data as stores, nothing lost and nothing copied."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch
from support.pyg import NUM_EDGES, NUM_NODES, make_data
from torch_geometric.data import Data

from aethergraph import errors
from aethergraph.pyg import from_data

pytestmark = pytest.mark.pyg


def test_attributes_go_to_their_groups(caplog: pytest.LogCaptureFixture) -> None:
    data = make_data()
    data.pos = np.random.rand(NUM_NODES, 2)
    data.edge_weight = torch.rand(NUM_EDGES)
    data.num_classes_ = 5
    data.label_index = torch.zeros(2, 7, dtype=torch.int64)
    data.orig_index = torch.arange(NUM_NODES)
    data.names = ["a"] * NUM_NODES
    data.scalar = torch.tensor(1.0)
    with caplog.at_level(logging.INFO, "aethergraph"):
        features, graph = from_data(data)
    names = [(a.group_name, a.attr_name) for a in features.get_all_tensor_attrs()]
    assert names == [(None, n) for n in ("x", "y", "train_mask", "pos", "orig_index")]
    assert sorted(name for name, _ in features.batch_columns()[1]) == ["edge_attr", "edge_weight"]
    assert sorted(features.graph_attrs) == ["label_index", "names", "num_classes_", "scalar"]
    assert "label_index" in caplog.text
    assert features[None, "x", None].data_ptr() == data.x.data_ptr()
    assert features[(None, None), "edge_attr", None].data_ptr() == data.edge_attr.data_ptr()
    assert (graph.num_nodes, graph.num_edges) == (NUM_NODES, NUM_EDGES)
    assert torch.equal(torch.stack(graph.coo()[:2]), data.edge_index)


@pytest.mark.parametrize(
    "edges", [None, torch.empty(2, 0, dtype=torch.int64), torch.zeros(2, 1, dtype=torch.int32)]
)
def test_few_edges(edges: torch.Tensor | None) -> None:
    features, graph = from_data(Data(x=torch.rand(3, 2), edge_index=edges))
    assert graph.num_nodes == 3
    assert features[None, "x", None].shape == (3, 2)


def test_an_attribute_of_as_many_rows_as_nodes_and_edges() -> None:
    """PyG's own rule decides."""
    data = Data(
        x=torch.rand(3, 2), edge_attr=torch.rand(3), edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]])
    )
    features, _ = from_data(data)
    assert [a.attr_name for a in features.get_all_tensor_attrs()] == ["x"]
    assert [name for name, _ in features.batch_columns()[1]] == ["edge_attr"]


def test_bad_data_is_named() -> None:
    edges = torch.tensor([[0, 5], [1, 0]])
    with pytest.raises(errors.OutOfRangeError, match=r"^data.edge_index: row\[1\] = 5"):
        from_data(Data(x=torch.rand(3, 2), edge_index=edges))
    with pytest.raises(errors.InvalidArgumentError, match=r"\(3, 1\)"):
        from_data(Data(x=torch.rand(3, 2), edge_index=torch.zeros(3, 1, dtype=torch.int64)))
    with pytest.raises(errors.InvalidArgumentError, match="float"):
        from_data(Data(x=torch.rand(3, 2), edge_index=torch.zeros(2, 1)))
    with pytest.raises(errors.InvalidArgumentError, match="edge_index must be a tensor, got list"):
        from_data(Data(x=torch.rand(3, 2), edge_index=[[0], [1]]))
    with pytest.raises(errors.InvalidArgumentError, match="num_nodes"):
        from_data(Data())
    with pytest.raises(errors.InvalidArgumentError, match="dict"):
        from_data({})  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match="adj_t is no sparse tensor"):
        from_data(Data(x=torch.rand(3, 2), adj_t=torch.eye(3)))
