"""One run of the demonstration, in a process of its own: ``python -m aethergraph.demo``.

Reads a JSON specification from standard input (:class:`RunSpec`) and writes one JSON object per
line to standard output: ``open``, ``batch``, ``epoch``, ``loaded``, ``done``, or ``skipped`` with
a reason.

All modes train the same model from the same seeds in the same order; they differ in the source
of batches.
"""

from __future__ import annotations

import importlib
import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import IO, Any, Protocol

import numpy as np

from aethergraph.demo.memory import MemoryWatch
from aethergraph.features.feature_table import FeatureTable
from aethergraph.graph.graph import Graph
from aethergraph.sampling.keys import permutation
from aethergraph.storage.memory import parse_size

__all__ = ["MODES", "RunSpec", "main", "split_nodes"]


@dataclass(frozen=True)
class RunSpec:
    """Specification of a run."""

    mode: str
    graph: str
    features: str
    labels: str
    num_classes: int
    fanouts: tuple[int, ...]
    batch_size: int
    epochs: int
    batches: int
    eval_nodes: int
    hidden: int
    learning_rate: float
    storage: str
    memory_budget: str | None
    seed: int

    def encode(self) -> str:
        """Return the specification as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> RunSpec:
        """Parse a specification from JSON."""
        values = json.loads(text)
        return cls(**{**values, "fanouts": tuple(values["fanouts"])})


class Skipped(Exception):
    """Raised if a run is not possible here; the message says why."""


class Source(Protocol):
    """Source of batches."""

    num_features: int

    def batches(self, nodes: Any) -> Iterable[Any]:
        """Return batches of the seed nodes (int64 tensor), in their order."""

    def predict(self, model: Any, batch: Any) -> tuple[Any, Any]:
        """Return (logits, labels) of the batch's seeds."""

    def make_model(self, spec: RunSpec) -> Any:
        """Make a fresh model."""


# ---- models ----------------------------------------------------------------------------------


def make_graphsage(num_features: int, hidden: int, num_layers: int, num_classes: int) -> Any:
    """Make a GraphSAGE (mean) in which each layer computes only nodes that still reach the seeds.

    The model needs only PyG's order of nodes (seeds first, then by hop), so every loader gets the
    same
    model at the same cost.
    """
    import torch
    from torch_geometric.nn import SAGEConv

    class GraphSage(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = [num_features, *[hidden] * (num_layers - 1), num_classes]
            self.layers = torch.nn.ModuleList(SAGEConv(a, b) for a, b in itertools.pairwise(widths))

        def forward(self, x: Any, edge_index: Any, num_seeds: int) -> Any:
            plans = []
            outputs = num_seeds
            for _ in self.layers:  # from the last layer backwards
                edges = edge_index[:, edge_index[1] < outputs]
                inputs = max(outputs, int(edges[0].max()) + 1 if edges.numel() else 0)
                plans.append((edges, inputs, outputs))
                outputs = inputs
            for layer, (edges, inputs, outputs) in zip(self.layers, plans[::-1], strict=True):
                if layer is not self.layers[0]:
                    x = x.relu()
                x = layer((x[:inputs], x[:outputs]), edges)
            return x

    return GraphSage()


class _GraphSource:
    """Common base of sources whose batches are for GraphSAGE."""

    num_features: int

    def make_model(self, spec: RunSpec) -> Any:
        return make_graphsage(self.num_features, spec.hidden, len(spec.fanouts), spec.num_classes)

    def predict(self, model: Any, batch: Any) -> tuple[Any, Any]:
        logits = model(batch.x.float(), batch.edge_index, batch.batch_size)
        return logits, batch.y[: batch.batch_size].long()


def _open_graph(spec: RunSpec) -> Graph:
    storage: Any = spec.storage
    half = None if spec.memory_budget is None else parse_size(spec.memory_budget) // 2
    graph = Graph.load(spec.graph, storage=storage, memory_budget=half)
    graph.load_features(spec.features, storage=storage, memory_budget=half)
    graph.node_attrs["y"] = FeatureTable.load(spec.labels)
    return graph


class StockSource(_GraphSource):
    """Source over PyG's own NodeLoader, with our feature store, graph store and sampler."""

    def __init__(self, spec: RunSpec) -> None:
        from aethergraph.pyg import FeatureStore as Features
        from aethergraph.pyg import GraphStore, NeighborSampler

        graph = _open_graph(spec)
        self._stores = Features.from_graph(graph), GraphStore(graph)
        self._sampler = NeighborSampler(self._stores, num_neighbors=list(spec.fanouts))
        self._batch_size = spec.batch_size
        self.num_features = FeatureTable.load(spec.features).shape[1]

    def batches(self, nodes: Any) -> Iterable[Any]:
        """Return a stock loader over the seed nodes."""
        from torch_geometric.loader import NodeLoader

        return NodeLoader(  # type: ignore[no-any-return]
            self._stores,
            node_sampler=self._sampler,
            input_nodes=nodes,
            batch_size=self._batch_size,
        )


class NativeSource(_GraphSource):
    """Source over our NeighborLoader, which samples and gathers ahead of the training step."""

    def __init__(self, spec: RunSpec) -> None:
        self._graph = _open_graph(spec)
        self._spec = spec
        self.num_features = FeatureTable.load(spec.features).shape[1]

    def batches(self, nodes: Any) -> Iterable[Any]:
        """Return our loader over the seed nodes."""
        from aethergraph.pyg import NeighborLoader

        return NeighborLoader(
            self._graph,
            num_neighbors=list(self._spec.fanouts),
            input_nodes=nodes,
            batch_size=self._spec.batch_size,
        )


class InMemorySource(_GraphSource):
    """Source over a NeighborLoader on a Data object that holds everything.

    Args:
        spec: the run.
        loader: class of the loader, PyG's or ours.
    """

    def __init__(self, spec: RunSpec, loader: Any) -> None:
        import torch
        from torch_geometric.data import Data

        with Graph.load(spec.graph) as graph:
            edge_index = torch.empty((2, graph.num_edges), dtype=torch.int64)
            for row, ids in zip(edge_index, graph.edge_index(), strict=True):
                row.numpy()[:] = ids
        x = _read_features(spec.features)
        y = torch.from_numpy(np.load(spec.labels))
        self._data = Data(x=x, edge_index=edge_index, y=y)
        self._loader = loader
        self._spec = spec
        self._sampler: Any = None
        self.num_features = int(x.shape[1])

    def batches(self, nodes: Any) -> Iterable[Any]:
        """Return the loader over the seed nodes."""
        loader = self._loader(
            self._data,
            num_neighbors=list(self._spec.fanouts),
            input_nodes=nodes,
            batch_size=self._spec.batch_size,
            neighbor_sampler=self._sampler,
        )
        self._sampler = loader.node_sampler  # keep it: its CSC copy is then made once
        return loader  # type: ignore[no-any-return]


def _pyg_in_memory(spec: RunSpec) -> Source:
    """Return the source with PyG's loader and sampler."""
    import torch_geometric.typing as pyg_typing
    from torch_geometric.loader import NeighborLoader

    if not (pyg_typing.WITH_PYG_LIB or pyg_typing.WITH_TORCH_SPARSE):
        raise Skipped("PyG's NeighborLoader needs pyg-lib or torch-sparse; neither imports")
    return InMemorySource(spec, NeighborLoader)


def _ours_in_memory(spec: RunSpec) -> Source:
    """Return the source with our loader over the same data."""
    from aethergraph.pyg import NeighborLoader

    return InMemorySource(spec, NeighborLoader)


def _read_features(path: str) -> Any:
    """Read all features into a tensor in allocated memory; nothing stays mapped."""
    import torch

    with open(path, "rb") as file:
        if file.read(6) == b"\x93NUMPY":
            return torch.from_numpy(np.load(path))
    with FeatureTable.load(path) as store:
        if store.dtype == "bfloat16":
            return torch.from_numpy(np.array(store.array).view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(np.array(store.array))


class FeatureOnlySource:
    """Source of the rows of the seeds alone, for a model that does not see the graph."""

    def __init__(self, spec: RunSpec) -> None:
        self._features = FeatureTable.load(spec.features)
        self._labels = np.load(spec.labels, mmap_mode="r")
        self._batch_size = spec.batch_size
        self.num_features = self._features.shape[1]

    def make_model(self, spec: RunSpec) -> Any:
        """Make a multilayer perceptron."""
        import torch

        return torch.nn.Sequential(
            torch.nn.Linear(self.num_features, spec.hidden),
            torch.nn.ReLU(),
            torch.nn.Linear(spec.hidden, spec.num_classes),
        )

    def batches(self, nodes: Any) -> Iterator[Any]:
        """Yield features and labels of the seed nodes."""
        import torch

        for ids in torch.split(nodes, self._batch_size):
            dtype = "float32" if self._features.dtype == "bfloat16" else None
            x = torch.from_numpy(self._features.gather(ids.numpy(), dtype=dtype))
            yield x.float(), torch.from_numpy(self._labels[ids.numpy()])

    def predict(self, model: Any, batch: Any) -> tuple[Any, Any]:
        """Return (logits, labels) of the batch's seeds."""
        return model(batch[0]), batch[1]


MODES: dict[str, Callable[[RunSpec], Source]] = {
    "mlp": FeatureOnlySource,
    "stock": StockSource,
    "native": NativeSource,
    "pyg": _pyg_in_memory,
    "memory": _ours_in_memory,
}


# ---- training --------------------------------------------------------------------------------


def split_nodes(spec: RunSpec) -> tuple[Any, Any]:
    """Return (training seeds of all epochs, evaluation nodes), equal for every mode."""
    labels = np.load(spec.labels, mmap_mode="r")
    labelled = np.flatnonzero(labels >= 0)
    order = labelled[permutation(labelled.size, spec.seed)]
    few = min(spec.eval_nodes, max(1, labelled.size // 5))
    pool = order[few:]
    if pool.size == 0:
        raise Skipped("there are too few labelled nodes to train on")
    num_seeds = spec.epochs * spec.batches * spec.batch_size
    rounds = -(-num_seeds // pool.size)
    return np.tile(pool, rounds)[:num_seeds], order[:few]


def train(spec: RunSpec, emit: Callable[..., None]) -> None:
    """Open the source, train, evaluate after every epoch; report everything by ``emit``."""
    watch = MemoryWatch()
    import torch
    import torch.nn.functional as functional

    if spec.mode != "mlp":
        importlib.import_module("torch_geometric")  # imported before memory is measured
    before = watch.peak
    began = time.perf_counter()
    seeds, held_out = (torch.from_numpy(ids) for ids in split_nodes(spec))
    source = MODES[spec.mode](spec)
    emit("open", seconds=time.perf_counter() - began, anon=before.anon, file=before.file)
    torch.manual_seed(spec.seed)
    model = source.make_model(spec)
    optimizer = torch.optim.Adam(model.parameters(), lr=spec.learning_rate)
    for epoch, nodes in enumerate(torch.chunk(seeds, spec.epochs)):
        began = time.perf_counter()
        waited, losses = 0.0, []
        arrived = began
        for number, batch in enumerate(source.batches(nodes)):
            waited += time.perf_counter() - arrived
            logits, labels = source.predict(model, batch)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(float(loss.detach()))
            emit("batch", epoch=epoch, number=number + 1, loss=losses[-1])
            arrived = time.perf_counter()
        seconds = time.perf_counter() - began
        accuracy = _evaluate(source, model, held_out)
        emit(
            "epoch",
            epoch=epoch,
            loss=float(np.mean(losses)),
            accuracy=accuracy,
            batches=len(losses),
            seconds=seconds,
            wait_seconds=waited,
        )
    emit("loaded", **_load_only(source, seeds[: spec.batches * spec.batch_size]))
    emit("done", anon=watch.peak.anon, file=watch.peak.file)
    watch.close()


def _evaluate(source: Source, model: Any, nodes: Any) -> float:
    import torch

    model.eval()
    right = 0
    with torch.no_grad():
        for batch in source.batches(nodes):
            logits, labels = source.predict(model, batch)
            right += int((logits.argmax(dim=1) == labels).sum())
    model.train()
    return right / len(nodes)


def _load_only(source: Source, nodes: Any) -> dict[str, float]:
    """Load the batches again without a model, to measure the loader alone."""
    began = time.perf_counter()
    batches = sum(1 for _ in source.batches(nodes))
    return {"batches": batches, "seconds": time.perf_counter() - began}


def main(specification: IO[str], out: IO[str]) -> None:
    """Run the specification; write one JSON object per line to ``out``."""

    def emit(event: str, **values: Any) -> None:
        out.write(json.dumps({"event": event, **values}) + "\n")
        out.flush()

    try:
        train(RunSpec.decode(specification.read()), emit)
    except Skipped as reason:
        emit("skipped", reason=str(reason))
