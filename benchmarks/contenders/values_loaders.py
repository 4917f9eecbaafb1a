"""The contenders of values_out_of_core.py; each run is a process under a memory limit.

    python benchmarks/contenders values_loaders CONFIG         CONFIG: JSON

Prints "ready" when the graph is open, then what it did as one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from large_graph import SPAN

from contenders.outofcore_samplers import device_bytes

FANOUTS = [10, 10]
VALUES = ("edge_weight", "edge_time")

#: batches of an epoch, and how many edges one has
Loader = tuple[Iterable[Any], Callable[[Any], int]]


def core_loader(config: dict[str, Any], seeds: np.ndarray[Any, Any]) -> tuple[Any, Loader]:
    from aethergraph import Graph, SubgraphLoader

    graph = Graph.load(config["graph"], storage="uring", memory_budget=config["budget"])
    for name, store in graph.edge_values.items():
        graph.edge_attrs[name] = store
    loader = SubgraphLoader(
        graph, FANOUTS, seeds, batch_size=config["batch"], shuffle=True, seed=1,
        edge_attrs=VALUES if config["values"] else (),
    )  # fmt: skip
    return graph, (loader, lambda batch: batch.subgraph.num_edges)


def pyg_loader(
    config: dict[str, Any], seeds: np.ndarray[Any, Any], *, features: bool = False, **options: Any
) -> tuple[Any, Loader]:
    import torch

    from aethergraph import Graph
    from aethergraph.pyg import NeighborLoader

    graph = Graph.load(config["graph"], storage="uring", memory_budget=config["budget"])
    if features:
        graph.load_features(
            config["features"], storage="uring", memory_budget=config["feature_budget"]
        )
    loader = NeighborLoader(
        graph, FANOUTS, torch.from_numpy(seeds), batch_size=config["batch"], shuffle=True, seed=1,
        edge_attrs=VALUES if config["values"] else (), **options,
    )  # fmt: skip
    return graph, (loader, lambda batch: batch.edge_index.size(1))


def typed_loader(config: dict[str, Any], seeds: np.ndarray[Any, Any]) -> tuple[Any, Loader]:
    import torch

    from aethergraph import HeteroGraph
    from aethergraph.pyg import HeteroNeighborLoader

    graph = HeteroGraph.load(config["graph"], storage="uring", memory_budget=config["budget"])
    loader = HeteroNeighborLoader(
        graph, FANOUTS, (graph.node_types[0], torch.from_numpy(seeds)),
        batch_size=config["batch"], shuffle=True, seed=1,
        edge_attrs=VALUES if config["values"] else (),
    )  # fmt: skip
    kind = graph.edge_types[0]
    return graph, (loader, lambda batch: batch[kind].edge_index.size(1))


LOADERS: dict[str, Callable[[dict[str, Any], Any], tuple[Any, Loader]]] = {
    "SubgraphLoader": core_loader,
    "NeighborLoader": pyg_loader,
    "HeteroNeighborLoader": typed_loader,
    "NeighborLoader, drawn by weight": lambda config, seeds: pyg_loader(
        config, seeds, weight_attr="edge_weight"
    ),
    "NeighborLoader, drawn by time": lambda config, seeds: pyg_loader(
        config, seeds, time_attr="edge_time", input_time=np.full(len(seeds), SPAN)
    ),
    "NeighborLoader, with features": lambda config, seeds: pyg_loader(config, seeds, features=True),
}


def measure(graph: Any, loader: Loader, epochs: int) -> dict[str, Any]:
    """Go through the loader once to learn, then so many times."""
    batches, count = loader
    for _ in batches:
        pass
    edges, device = 0, device_bytes()
    before = graph.paging.stats()
    cpu, start = time.process_time(), time.perf_counter()
    for _ in range(epochs):
        for batch in batches:
            edges += count(batch)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    after = graph.paging.stats()
    return {
        "seconds": seconds,
        "cpu_seconds": cpu,
        "edges": edges,
        "device_bytes": device_bytes() - device,
        "graph_reads": after["reads"] - before["reads"],
        "graph_bytes": after["read_bytes"] - before["read_bytes"],
        "value_bytes": after["value_bytes"],
    }


def main(config: dict[str, Any]) -> None:
    seeds = np.load(config["seeds"]).reshape(-1)
    graph, loader = LOADERS[config["loader"]](config, seeds)
    print("ready", flush=True)
    print(json.dumps(measure(graph, loader, config["epochs"])))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
