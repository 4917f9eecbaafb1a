"""The contenders of neighbour sampling, one per process (harness/worker.py); for sampling.py.

Each takes a CSC graph and seeds and returns sources and destinations in local ids, the sampled
nodes and the ids of the sampled edges. PyG and ours expand a node once, DGL expands the nodes of
earlier hops again, so edges per batch differ and nanoseconds per edge compare.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness.worker import Commands, memory, serve, time_batches
from numpy.typing import NDArray

Ids = NDArray[np.int64]
# Fanouts -> (sample, edges of a sample); sample takes the seeds, as a framework holds them.
Sampler = tuple[Callable[[Any], Any], Callable[[Any], int]]
Make = Callable[[list[int]], Sampler]


def aethergraph(config: dict[str, Any]) -> Make:
    from aethergraph import Graph, NeighborSampler

    storage: Any = "memory" if "memory" in config["contender"] else "mmap"
    graph = Graph.load(Path(config["folder"]) / "graph.aeg", storage=storage)
    config["graph"] = graph

    def make(fanouts: list[int]) -> Sampler:
        return NeighborSampler(graph, fanouts, num_threads=1).sample, lambda out: out.num_edges

    return make


def _csc_tensors(config: dict[str, Any]) -> list[Any]:
    import torch

    torch.set_num_threads(1)
    folder = Path(config["folder"])
    return [torch.from_numpy(np.load(folder / f"{name}.npy")) for name in ("indptr", "indices")]


def torch_sparse(config: dict[str, Any]) -> Make:
    import torch

    importlib.import_module("torch_sparse")  # registers the operator
    indptr, indices = _csc_tensors(config)
    operator = torch.ops.torch_sparse.neighbor_sample

    def make(fanouts: list[int]) -> Sampler:
        return (
            lambda ids: operator(indptr, indices, ids, fanouts, False, True),
            lambda out: int(out[1].numel()),  # node, row, col, edge
        )

    return make


def pyg_lib(config: dict[str, Any]) -> Make:
    import torch

    importlib.import_module("pyg_lib")  # registers the operator
    indptr, indices = _csc_tensors(config)
    operator = torch.ops.pyg.neighbor_sample
    # The arguments PyG's NeighborSampler passes, by name where the version has them.
    known = {argument.name for argument in operator.default._schema.arguments}
    options = {"csc": True, "replace": False, "directed": True, "return_edge_id": True}
    chosen = {name: value for name, value in options.items() if name in known}

    def make(fanouts: list[int]) -> Sampler:
        return (
            lambda ids: operator(indptr, indices, ids, fanouts, **chosen),
            lambda out: int(out[0].numel()),  # row, col, node, edge...
        )

    return make


def dgl(config: dict[str, Any]) -> Make:
    import dgl
    import torch

    indptr, indices = _csc_tensors(config)
    empty = torch.empty(0, dtype=torch.int64)
    graph = dgl.graph(("csc", (indptr, indices, empty)), num_nodes=len(indptr) - 1)

    def make(fanouts: list[int]) -> Sampler:
        sampler = dgl.dataloading.NeighborSampler(fanouts[::-1])  # DGL counts from the input layer
        return (
            lambda ids: sampler.sample_blocks(graph, ids),
            lambda out: sum(block.num_edges() for block in out[2]),
        )

    return make


def graphbolt(config: dict[str, Any]) -> Make:
    """What graphbolt.NeighborSampler does per batch, without the datapipes around it."""
    import dgl.graphbolt as gb
    import torch

    indptr, indices = _csc_tensors(config)
    graph = gb.fused_csc_sampling_graph(indptr, indices)

    def make(fanouts: list[int]) -> Sampler:
        sizes = [torch.tensor([k]) for k in fanouts]

        def sample(ids: Any) -> list[Any]:
            layers = []
            for fanout in sizes:
                drawn = graph.sample_neighbors(ids, fanout)
                ids, compact = gb.unique_and_compact_csc_formats(drawn.sampled_csc, ids)
                layers.append((ids, compact, drawn.original_edge_ids))
            return layers

        return sample, lambda out: sum(int(layer[1].indices.numel()) for layer in out)

    return make


# Name -> (how to make it, modules it needs).
CONTENDERS: dict[str, tuple[Callable[[dict[str, Any]], Make], tuple[str, ...]]] = {
    "aethergraph memory": (aethergraph, ("aethergraph",)),
    "aethergraph mmap": (aethergraph, ("aethergraph",)),
    "pyg-lib": (pyg_lib, ("torch", "pyg_lib")),
    "torch-sparse": (torch_sparse, ("torch", "torch_sparse")),
    "DGL": (dgl, ("torch", "dgl")),
    "GraphBolt": (graphbolt, ("torch", "dgl")),
}


def setup(config: dict[str, Any]) -> Commands:
    name = config["contender"]
    build, modules = CONTENDERS[name]
    make = build(config)
    made: dict[tuple[int, ...], Sampler] = {}
    clock = time.thread_time if config["cpu_time"] else time.perf_counter

    def sampler(fanouts: list[int]) -> Sampler:
        if tuple(fanouts) not in made:
            made[tuple(fanouts)] = make(fanouts)
        return made[tuple(fanouts)]

    def batches(seeds: str, first: int, count: int) -> list[Any]:
        rows: list[Any] = list(np.load(seeds, mmap_mode="r")[first : first + count].copy())
        if "aethergraph" in name:
            return rows
        import torch

        return [torch.from_numpy(ids) for ids in rows]

    def run(fanouts: list[int], seeds: str, first: int, count: int) -> dict[str, Any]:
        sample, num_edges = sampler(fanouts)
        return time_batches(batches(seeds, first, count), sample, num_edges, clock)

    def lines(fanouts: list[int], seeds: str, first: int, count: int) -> list[dict[str, float]]:
        """Random accesses that no sampler of these batches avoids (ours only)."""
        sample, _ = sampler(fanouts)
        indptr, indices = config["graph"].csc()
        return [count_lines(sample(ids), indptr, indices) for ids in batches(seeds, first, count)]

    return {
        "versions": lambda: {m: importlib.metadata.version(m) for m in modules},
        "run": run,
        "lines": lines,
        "memory": memory,
    }


def count_lines(out: Any, indptr: NDArray[np.uint64], indices: NDArray[Any]) -> dict[str, float]:
    """Random lines of one sample: an offset pair per expanded node, the distinct lines of each
    list that its sampled entries lie on, and an id-map access per edge; and the working sets."""
    per_line = 64 // indices.itemsize
    list_lines = np.unique(out.col * (len(indices) // per_line + 1) + out.edge // per_line).size
    slots = 12 * out.num_nodes  # 8 bytes each, two thirds full
    return {
        "expanded": sum(out.num_sampled_nodes[:-1]),
        "list_lines": int(list_lines),
        "map_accesses": out.num_edges,
        "edges": out.num_edges,
        "nodes": out.num_nodes,
        "indptr_bytes": indptr.nbytes,
        "indices_bytes": indices.nbytes,
        "map_bytes": min(slots, 4 * (len(indptr) - 1)),
    }


if __name__ == "__main__":
    serve(setup)
