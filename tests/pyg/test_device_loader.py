"""Batches copied to a device ahead of their use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

from aethergraph import Graph, HeteroGraph, errors
from aethergraph.pyg import DeviceLoader, HeteroNeighborLoader, NeighborLoader

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_cuda)]


def graph_of(num_nodes: int, width: int) -> Graph:
    rng = np.random.default_rng(0)
    graph = Graph.from_edges(num_nodes, *rng.integers(0, num_nodes, (2, 8 * num_nodes)))
    graph.node_attrs["x"] = rng.standard_normal((num_nodes, width)).astype(np.float32)
    return graph


@pytest.mark.parametrize("device", DEVICES)
def test_batches_are_those_of_the_loader(device: str) -> None:
    graph = graph_of(300, 5)
    pins = device == "cuda"
    loader = NeighborLoader(graph, [3, 2], batch_size=32, seed=3, pin_memory=pins)
    moved = DeviceLoader(loader, device)
    assert len(moved) == len(loader)
    for epoch in range(2):
        loader.set_epoch(epoch)
        found = list(moved)
        loader.set_epoch(epoch)
        for batch, wanted in zip(found, loader, strict=True):
            assert isinstance(batch, Data) and batch.x.device.type == device
            assert batch.batch_size == wanted.batch_size
            for name in ("x", "edge_index", "n_id", "e_id", "input_id"):
                assert torch.equal(batch[name].cpu(), wanted[name])


@pytest.mark.parametrize("device", DEVICES)
def test_typed_batches(device: str) -> None:
    graph = HeteroGraph.from_edges(
        {("a", "to", "b"): ([0, 1, 2], [1, 1, 0]), ("b", "to", "a"): ([0, 1], [2, 0])},
        {"a": 3, "b": 2},
    )
    loader = HeteroNeighborLoader(graph, [2, 2], ("a", None), batch_size=2)
    for batch in DeviceLoader(loader, device):
        assert isinstance(batch, HeteroData) and batch["a"].n_id.device.type == device


class Pair(NamedTuple):
    left: torch.Tensor
    right: Any


@pytest.mark.parametrize("device", DEVICES)
def test_what_batches_may_be(device: str) -> None:
    one = torch.arange(3)
    given = [one, (one, "text"), [one, {"a": one, "n": 4}], Pair(one, None)]
    found = list(DeviceLoader(given, device))
    assert torch.equal(found[0].cpu(), one) and found[0].device.type == device
    assert found[1][1] == "text" and found[1][0].device.type == device
    assert found[2][1]["n"] == 4 and found[2][1]["a"].device.type == device
    assert isinstance(found[3], Pair) and found[3].left.device.type == device
    assert list(DeviceLoader([], device)) == []


def test_what_is_refused() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="loader must be a loader, got int"):
        DeviceLoader(5, "cpu")  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match="device = 'nowhere'"):
        DeviceLoader([], "nowhere")
    if not torch.cuda.is_available():
        with pytest.raises(errors.InvalidArgumentError, match=r"device = 'cuda'.* 0 CUDA devices"):
            DeviceLoader([])
    with pytest.raises(TypeError, match="generator, has no length"):
        len(DeviceLoader((i for i in range(3)), "cpu"))
    assert repr(DeviceLoader([1], "cpu")) == "DeviceLoader([1], 'cpu')"


def test_an_error_of_the_loader_comes_after_the_batches_before_it() -> None:
    def failing() -> Iterator[Any]:
        yield torch.zeros(1)
        raise RuntimeError("no more")

    batches = iter(DeviceLoader(failing(), "cpu"))
    next(batches)
    with pytest.raises(RuntimeError, match="no more"):
        next(batches)


@needs_cuda
def test_work_that_is_queued_sees_its_own_batch() -> None:
    """The model lags far behind: memory of batches must not go to later ones meanwhile."""
    width, size, count = 512, 4096, 40
    rows = torch.arange(count, dtype=torch.float32).repeat_interleave(size)
    batches = [
        rows[i * size : (i + 1) * size, None].expand(size, width).contiguous().pin_memory()
        for i in range(count)
    ]
    slow = torch.randn(4096, 4096, device="cuda")
    sums = []
    for batch in DeviceLoader(batches, "cuda"):
        for _ in range(10):  # tens of milliseconds, while the next copy takes one
            slow = torch.nn.functional.normalize(slow @ slow)
        sums.append(batch.mean())
        del batch
    assert [one.item() for one in sums] == list(range(count))
    assert torch.isfinite(slow).all()
