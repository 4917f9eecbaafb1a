"""The contenders of loading batches, one per process (harness/worker.py); PyG's and ours.

    PyG NeighborLoader        Data in memory, PyG's sampler (pyg-lib or torch-sparse)
    stock NodeLoader          PyG's NodeLoader over our stores and sampler
    aethergraph NeighborLoader  ours, prefetching in threads
    sample and gather alone   the native calls of a batch and no loader: into the same memory each
                              time, without tensors, so that nothing can be trained on them
    stock NodeLoader alone    PyG's NodeLoader with a sampler and stores that do nothing: one sample
                              and its rows, made before, again and again

An epoch is a new loader over fresh seeds: it is timed from ``iter()`` to the last batch, so what
is sampled ahead is paid for, and between turns nothing runs on.
"""

from __future__ import annotations

import gc
import importlib
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from harness.worker import Commands, memory, serve

# (fanouts, batch size, tensor of seeds) -> an iterable of batches
Make = Callable[[list[int], int, Any], Any]

PYG = "PyG NeighborLoader"
STOCK, OURS = "stock NodeLoader, aethergraph", "aethergraph NeighborLoader"
ALONE, IDLE = "sample and gather alone", "stock NodeLoader alone"
NAMES = (PYG, f"{STOCK} mmap", f"{STOCK} memory", f"{OURS} mmap", f"{OURS} memory", ALONE, IDLE)
CLASSES = 16


def pyg(folder: Path, features: str, storage: str) -> Make:
    import torch
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader
    from torch_geometric.sampler import NeighborSampler

    indptr, src = (torch.from_numpy(np.load(folder / f"{n}.npy")) for n in ("indptr", "indices"))
    dst = torch.arange(len(indptr) - 1).repeat_interleave(indptr.diff())
    x, y = (torch.from_numpy(np.load(folder / name)) for name in (features, "y.npy"))
    data = Data(x=x, y=y, edge_index=torch.stack((src, dst)))
    samplers: dict[tuple[int, ...], Any] = {}

    def make(fanouts: list[int], batch: int, seeds: Any) -> Any:
        key = tuple(fanouts)
        if key not in samplers:  # keeps a CSC copy of the edges: made once
            samplers[key] = NeighborSampler(data, fanouts, is_sorted=True)
        return NeighborLoader(
            data, fanouts, seeds, batch_size=batch, shuffle=True, neighbor_sampler=samplers[key]
        )

    return make


def open_graph(folder: Path, features: str, storage: str) -> Any:
    from aethergraph import FeatureTable, Graph

    place: Any = storage
    graph = Graph.load(folder / "graph.aeg", storage=place)
    graph.load_features(folder / features, storage=place)
    graph.node_attrs["y"] = FeatureTable.load(folder / "y.npy", storage=place)
    return graph


def stock(folder: Path, features: str, storage: str) -> Make:
    from torch_geometric.loader import NodeLoader

    from aethergraph.pyg import FeatureStore, GraphStore, NeighborSampler

    graph = open_graph(folder, features, storage)
    stores = FeatureStore.from_graph(graph), GraphStore(graph)

    def make(fanouts: list[int], batch: int, seeds: Any) -> Any:
        sampler = NeighborSampler(stores, fanouts)
        return NodeLoader(stores, sampler, seeds, batch_size=batch, shuffle=True)

    return make


def ours(folder: Path, features: str, storage: str) -> Make:
    from aethergraph.pyg import NeighborLoader

    graph = open_graph(folder, features, storage)
    return lambda fanouts, batch, seeds: NeighborLoader(
        graph, fanouts, seeds, batch_size=batch, shuffle=True
    )


def alone(folder: Path, features: str, storage: str) -> Make:
    from aethergraph import NeighborSampler

    graph = open_graph(folder, features, storage)
    x, y = graph.features, graph.node_attrs["y"]

    def make(fanouts: list[int], batch: int, seeds: Any) -> Any:
        sampler = NeighborSampler(graph, fanouts)
        rows, labels = (
            np.empty((graph.num_nodes, *one.shape[1:]), one.dtype_name) for one in (x, y)
        )
        ids = seeds.numpy()
        for begin in range(0, len(ids), batch):
            sample = sampler.sample(ids[begin : begin + batch])
            for source, out in ((x, rows), (y, labels)):
                source.gather(sample.node, out=out[: len(sample.node)])
            yield SimpleNamespace(edge_index=SimpleNamespace(shape=(2, len(sample.row))))

    return make


def idle(folder: Path, features: str, storage: str) -> Make:
    import torch
    from torch_geometric.data import FeatureStore as BaseStore
    from torch_geometric.data import TensorAttr
    from torch_geometric.loader import NodeLoader
    from torch_geometric.sampler import BaseSampler, NodeSamplerInput, SamplerOutput

    from aethergraph.pyg import FeatureStore, GraphStore, NeighborSampler

    graph = open_graph(folder, features, storage)
    stores = FeatureStore.from_graph(graph), GraphStore(graph)
    attrs = stores[0].get_all_tensor_attrs()

    class Ready(BaseSampler):
        def __init__(self, sample: SamplerOutput) -> None:
            self.sample = sample

        def sample_from_nodes(self, index: NodeSamplerInput, **_: Any) -> SamplerOutput:
            one = self.sample
            out = SamplerOutput(
                one.node, one.row, one.col, one.edge,
                num_sampled_nodes=one.num_sampled_nodes, num_sampled_edges=one.num_sampled_edges,
            )  # fmt: skip
            out.metadata = (index.input_id, index.time)
            return out

        def sample_from_edges(self, *_: Any, **__: Any) -> SamplerOutput:
            raise NotImplementedError

    class Rows(BaseStore):
        def __init__(self, rows: dict[str | None, Any]) -> None:
            super().__init__()
            self.rows = rows

        def _get_tensor(self, attr: TensorAttr) -> Any:
            return self.rows[attr.attr_name]

        def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
            raise NotImplementedError

        def _remove_tensor(self, attr: TensorAttr) -> bool:
            raise NotImplementedError

        def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...]:
            return (graph.num_nodes, *self.rows[attr.attr_name].shape[1:])

        def get_all_tensor_attrs(self) -> list[TensorAttr]:
            return attrs

    def make(fanouts: list[int], batch: int, seeds: Any) -> Any:
        some = NodeSamplerInput(input_id=torch.arange(batch), node=seeds[:batch])
        sample = NeighborSampler(stores, fanouts).sample_from_nodes(some)
        rows = {
            one.attr_name: stores[0].get_tensor(one.group_name, one.attr_name, sample.node)
            for one in attrs
        }
        return NodeLoader(
            (Rows(rows), stores[1]), Ready(sample), seeds, batch_size=batch, shuffle=True
        )

    return make


def make_step(width: int) -> Callable[[Any], None]:
    """One training step of a small GraphSAGE."""
    import torch
    from torch_geometric.nn import GraphSAGE

    torch.manual_seed(0)
    model = GraphSAGE(width, 64, num_layers=2, out_channels=CLASSES)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(batch: Any) -> None:
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        loss = torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def setup(config: dict[str, Any]) -> Commands:
    import torch

    name, features, folder = config["contender"], config["features"], Path(config["folder"])
    for module in ("torch_geometric.loader", "torch_geometric.nn", "aethergraph.pyg"):
        importlib.import_module(module)  # before memory is counted
    before = memory()
    storage = "mmap" if name.endswith(" mmap") else "memory"
    builds = {PYG: pyg, STOCK: stock, OURS: ours, ALONE: alone, IDLE: idle}
    make = builds[name.removesuffix(f" {storage}")](folder, features, storage)
    num_nodes = len(np.load(folder / "y.npy", mmap_mode="r"))
    step = make_step(np.load(folder / features, mmap_mode="r").shape[1])

    def epoch(fanouts: list[int], batch: int, count: int, seed: int, model: bool) -> dict[str, Any]:
        """Wall and processor seconds for ``count`` batches, and edges of a batch."""
        ids = np.random.Generator(np.random.PCG64(seed)).integers(0, num_nodes, count * batch)
        loader = make(fanouts, batch, torch.from_numpy(ids))
        gc.collect()
        edges = 0
        cpu, start = time.process_time(), time.perf_counter()
        for data in loader:
            edges += data.edge_index.shape[1]
            if model:
                step(data)
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "cpu": time.process_time() - cpu, "edges": edges / count}

    return {"epoch": epoch, "memory": lambda: {"before": before, "now": memory()}}


if __name__ == "__main__":
    serve(setup)
