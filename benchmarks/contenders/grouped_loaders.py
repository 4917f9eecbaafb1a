"""The contenders of dgl_grouped.py; each run is a process under a memory limit.

    python benchmarks/contenders grouped_loaders CONFIG         CONFIG: JSON

Loads batches of topology alone for some seconds, from the first batch on; prints what came as one
line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np

PYG, DGL, GRAPHBOLT = "aethergraph.pyg", "aethergraph.dgl", "aethergraph.dgl.graphbolt"
WARM = 8  # batches before the clock starts


def pyg_loader(graph: Any, config: dict[str, Any], seeds: Any) -> Iterable[Any]:
    from aethergraph.pyg import NeighborLoader

    return NeighborLoader(graph, config["fanouts"], seeds, batch_size=config["batch"])


def dgl_loader(graph: Any, config: dict[str, Any], seeds: Any) -> Iterable[Any]:
    from aethergraph.dgl import DataLoader, GraphStorage, NeighborSampler

    sampler = NeighborSampler(config["fanouts"][::-1])
    return DataLoader(GraphStorage(graph), seeds, sampler, batch_size=config["batch"])


def graphbolt_loader(graph: Any, config: dict[str, Any], seeds: Any) -> Iterable[Any]:
    import dgl.graphbolt as gb

    from aethergraph.dgl.graphbolt import SamplingGraph

    items = gb.ItemSampler(gb.ItemSet(seeds, names="seed_nodes"), batch_size=config["batch"])
    pipe = items.sample_neighbor_at_once(SamplingGraph(graph), config["fanouts"][::-1])
    loader: Iterable[Any] = gb.DataLoader(pipe)
    return loader


def count_edges(batch: Any) -> int:
    """Return the sampled edges of a batch of any of the loaders."""
    if isinstance(batch, tuple):
        return sum(block.num_edges() for block in batch[2])
    if hasattr(batch, "edge_index"):
        return int(batch.edge_index.shape[1])
    return sum(len(layer.sampled_csc.indices) for layer in batch.sampled_subgraphs)


def main(config: dict[str, Any]) -> None:
    import torch

    from aethergraph import Graph

    make = {PYG: pyg_loader, DGL: dgl_loader, GRAPHBOLT: graphbolt_loader}[config["contender"]]
    graph = Graph.load(config["graph"], storage="uring", memory_budget=config["budget"])
    seeds = torch.from_numpy(np.load(config["seeds"]).reshape(-1))
    batches = iter(make(graph, config, seeds))
    for _ in islice(batches, WARM):
        pass
    edges = count = 0
    cpu, start = time.process_time(), time.perf_counter()
    for batch in batches:
        edges += count_edges(batch)
        count += 1
        if time.perf_counter() - start > config["seconds"]:
            break
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    print(json.dumps({"seconds": seconds, "cpu": cpu, "edges": edges, "batches": count}))
    sys.stdout.flush()
    os._exit(0)  # threads would finish what they have begun to read


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
