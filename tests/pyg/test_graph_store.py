"""GraphStore: layouts and edge ids, over a graph and over tensors that were put in."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from support.pyg import NUM_EDGES, NUM_NODES, make_edges, make_graph
from torch import Tensor
from torch_geometric.data.graph_store import EdgeAttr, EdgeLayout

from aethergraph import Graph, errors
from aethergraph.graph.schema import EDGE
from aethergraph.pyg import GraphStore, HeteroNeighborSampler, NeighborSampler

pytestmark = pytest.mark.pyg

CITES = ("paper", "cites", "paper")
WRITES = ("author", "writes", "paper")


def edges_of(
    row: Tensor, col: Tensor, perm: Tensor | None, layout: str
) -> tuple[list[tuple[int, int]], list[int]]:
    """The edges of a layout in its order, and their ids."""
    pairs = [row.numpy(), col.numpy()]
    if layout != "coo":
        at = 0 if layout == "csr" else 1
        pairs[at] = np.repeat(np.arange(len(pairs[at]) - 1), np.diff(pairs[at]))
    ids = range(len(pairs[0])) if perm is None else perm.tolist()
    return [(int(r), int(c)) for r, c in zip(*pairs, strict=True)], list(ids)


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_tensors_come_back_as_they_were_put(layout: str) -> None:
    row, col, _ = getattr(GraphStore(make_graph("both")), layout)()
    store = GraphStore()
    assert store.put_edge_index((row, col), edge_type=None, layout=layout)
    found = store[EdgeAttr(None, layout)]
    assert found[0].data_ptr() == row.data_ptr()
    assert torch.equal(found[1], col)
    (attr,) = store.get_all_edge_attrs()
    assert attr.layout == EdgeLayout(layout)
    assert max(attr.size) == max(attr.size[0], attr.size[1])
    assert attr.size is not None
    for other in ("coo", "csr", "csc"):
        edges, ids = edges_of(*getattr(store, other)(), other)  # PyG's own conversion
        own, _ = edges_of(row, col, None, layout)
        assert edges == [own[i] for i in ids]


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_a_graph_is_built_from_what_was_put(layout: str) -> None:
    src, dst = make_edges()
    row, col, _ = getattr(
        GraphStore(Graph.from_edges(NUM_NODES, src, dst, layout="both")), layout
    )()
    store = GraphStore()
    store.put_edge_index((row, col), edge_type=None, layout=layout)
    graph, names = store.sampling_graph()
    assert graph is store.graph
    assert graph.num_edges == NUM_EDGES
    own, _ = edges_of(row, col, None, layout)
    found = list(zip(*(v.tolist() for v in graph.edge_index()), strict=True))
    order = names[EDGE].tolist() if names else range(NUM_EDGES)
    assert found == [own[i] for i in order]


def test_typed_edges_are_kept_but_not_sampled() -> None:
    store = GraphStore()
    pair = (torch.tensor([0, 2]), torch.tensor([1, 0]))
    store.put_edge_index(pair, CITES, "coo", False, (3, 3))
    store.put_edge_index(pair, WRITES, "coo")
    attrs = store.get_all_edge_attrs()
    assert [(a.edge_type, a.size) for a in attrs] == [(CITES, (3, 3)), (WRITES, (3, 2))]
    rows, cols, perms = store.csc()
    assert rows[CITES].tolist() == [2, 0]
    assert cols[CITES].tolist() == [0, 1, 2, 2]
    assert perms[CITES].tolist() == [1, 0]
    assert store.coo([WRITES])[0][WRITES].tolist() == [0, 2]
    with pytest.raises(errors.UnsupportedError, match="typed"):
        store.graph
    with pytest.raises(errors.UnsupportedError, match="empty"):
        GraphStore().graph
    with pytest.raises(KeyError):
        store.get_edge_index(CITES, "csr")


def test_listed_attrs_are_new_objects() -> None:
    for store in (GraphStore(make_graph()), GraphStore()):
        store.put_edge_index((torch.tensor([0]), torch.tensor([0])), CITES, "coo")
        first, again = store.get_all_edge_attrs(), store.get_all_edge_attrs()
        assert first == again
        assert all(a is not b for a, b in zip(first, again, strict=True))
        first[0].size = None
        assert store.get_all_edge_attrs()[0].size is not None


def test_edges_can_be_removed_and_replaced() -> None:
    store = GraphStore(make_graph())
    assert store.remove_edge_index(None, "csc")
    assert not store.remove_edge_index(None, "csc")
    assert store.get_all_edge_attrs() == []
    with pytest.raises(KeyError):
        store.get_edge_index(None, "csc")
    store.put_edge_index((torch.tensor([1]), torch.tensor([0])), None, "coo", size=(4, 4))
    assert (store.graph.num_nodes, store.graph.num_edges) == (4, 1)
    store.put_edge_index((torch.tensor([1, 1]), torch.tensor([0, 1])), None, "coo")
    assert (store.graph.num_nodes, store.graph.num_edges) == (2, 2)
    del store[EdgeAttr(None, "coo")]
    assert store.get_all_edge_attrs() == []


INVALID, RANGE = errors.InvalidArgumentError, errors.OutOfRangeError


@pytest.mark.parametrize(
    ("pair", "layout", "size", "error", "text"),
    [
        ((torch.tensor([0]),), "coo", None, INVALID, "pair"),
        (([0], [1]), "coo", None, INVALID, "row must be a tensor"),
        (([0], [0, 1]), "coo", None, INVALID, "row must be a tensor"),
        ((torch.tensor([0]), torch.tensor([0, 1])), "coo", None, INVALID, "equal"),
        ((torch.tensor([0.5]), torch.tensor([0])), "coo", None, INVALID, "float"),
        ((torch.eye(2).long(), torch.tensor([0])), "coo", None, INVALID, "one-dim"),
        ((torch.tensor([0, -3]), torch.tensor([0, 0])), "coo", None, RANGE, r"row\[1\] = -3"),
        ((torch.tensor([0, 3]), torch.tensor([0, 0])), "coo", (3, 3), RANGE, r"row\[1\] = 3"),
        ((torch.tensor([0]), torch.tensor([0, 2])), "csc", None, INVALID, "colptr"),
        ((torch.tensor([0, 2, 1, 2]), torch.tensor([0, 0])), "csr", None, INVALID, r"ptr\[2\] = 1"),
        ((torch.tensor([0]), torch.tensor([0, 1])), "csc", (5, 5), INVALID, "pointers"),
    ],
)
def test_bad_edges_are_named(
    pair: Any, layout: str, size: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        GraphStore().put_edge_index(pair, None, layout, size=size)


def test_not_a_graph() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="str"):
        GraphStore("graph.bin")  # type: ignore[arg-type]


def test_copies_and_pickles() -> None:
    put = GraphStore()
    row, col, _ = GraphStore(make_graph()).coo()
    put.put_edge_index((row, col), None, "coo", size=(NUM_NODES, NUM_NODES))
    put.graph  # built before it is pickled
    for store in (put, GraphStore(make_graph())):
        for other in (copy.copy(store), pickle.loads(pickle.dumps(store))):
            for a, b in zip(other.csc(), store.csc(), strict=True):
                assert (a is None and b is None) or torch.equal(a, b)
            assert other.get_all_edge_attrs() == store.get_all_edge_attrs()
    assert "Graph(num_nodes=150" in repr(GraphStore(make_graph()))
    assert "None: coo [150, 150]" in repr(put)


def test_edges_of_no_type_beside_typed_ones_are_not_left_out_in_silence() -> None:
    store = GraphStore()
    pair = (torch.tensor([0, 2]), torch.tensor([1, 0]))
    store.put_edge_index(pair, CITES, "coo", False, (3, 3))
    assert not store.is_mixed
    store.put_edge_index(pair, None, "coo", False, (3, 3))
    assert store.is_mixed
    with pytest.raises(
        errors.UnsupportedError, match=r"edges of no type beside edges of .*two stores"
    ):
        NeighborSampler(store, [2])
    assert HeteroNeighborSampler(store, [2]).graph.edge_types == [CITES]
