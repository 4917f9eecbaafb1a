"""The contenders of typed sampling, one per process (harness/worker.py); for typed.py."""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness.worker import Commands, serve, time_batches
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Kind = tuple[str, str, str]
# Sample, which takes the seeds as a framework holds them, and the edges of a sample.
Sampler = tuple[Callable[[Any], Any], Callable[[Any], int]]
# (file without suffix, fanouts, type of the seeds) -> Sampler
Make = Callable[[Path, list[int], str], Sampler]


def aethergraph(storage: Any) -> Make:
    from aethergraph import HeteroGraph, HeteroNeighborSampler

    def make(path: Path, fanouts: list[int], kind: str) -> Sampler:
        graph = HeteroGraph.load(path.with_suffix(".aeg"), storage=storage)
        sampler = HeteroNeighborSampler(graph, fanouts, num_threads=1)
        return lambda ids: sampler.sample({kind: ids}), lambda out: sum(map(len, out.row.values()))

    return make


def read(path: Path) -> tuple[dict[str, int], dict[Kind, tuple[Ids, Ids]]]:
    """Nodes by type, and (indptr, indices) by edge type."""
    with np.load(path.with_suffix(".npz")) as file:
        names = [name[: -len("/indptr")] for name in file if name.endswith("/indptr")]
        lists = {
            tuple(name.split("__")): (file[f"{name}/indptr"], file[f"{name}/indices"])
            for name in names
        }
    nodes: dict[str, int] = {}
    for (source, _, destination), (indptr, indices) in lists.items():
        most = int(indices.max(initial=-1)) + 1
        nodes[source] = max(nodes.get(source, 0), most)
        nodes[destination] = max(nodes.get(destination, 0), len(indptr) - 1)
    return nodes, lists  # type: ignore[return-value]


def pyg(path: Path, fanouts: list[int], kind: str) -> Sampler:
    """PyG's own NeighborSampler: pyg-lib if it is there, else torch-sparse."""
    import torch
    from torch_geometric.data import HeteroData
    from torch_geometric.sampler import NeighborSampler, NodeSamplerInput

    torch.set_num_threads(1)
    nodes, lists = read(path)
    data = HeteroData()
    for name, count in nodes.items():
        data[name].num_nodes = count
    for edge_type, (indptr, indices) in lists.items():
        col = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        data[edge_type].edge_index = torch.from_numpy(np.stack((indices, col)))
    sampler = NeighborSampler(data, fanouts, is_sorted=True)
    return (
        lambda ids: sampler.sample_from_nodes(NodeSamplerInput(None, ids, input_type=kind)),
        lambda out: sum(len(row) for row in out.row.values()),
    )


def dgl(path: Path, fanouts: list[int], kind: str) -> Sampler:
    import dgl
    import torch

    torch.set_num_threads(1)
    nodes, lists = read(path)
    empty = torch.empty(0, dtype=torch.int64)
    graph = dgl.heterograph(
        {
            edge_type: ("csc", (torch.from_numpy(indptr), torch.from_numpy(indices), empty))
            for edge_type, (indptr, indices) in lists.items()
        },
        num_nodes_dict=nodes,
    )
    sampler = dgl.dataloading.NeighborSampler(fanouts[::-1])  # DGL counts from the input layer
    return (
        lambda ids: sampler.sample_blocks(graph, {kind: ids}),
        lambda out: sum(block.num_edges(t) for block in out[2] for t in block.canonical_etypes),
    )


def graphbolt(path: Path, fanouts: list[int], kind: str) -> Sampler:
    """What graphbolt.NeighborSampler does per batch, without the datapipes around it."""
    import dgl.graphbolt as gb
    import torch

    torch.set_num_threads(1)
    nodes, lists = read(path)
    graph = gb.fused_csc_sampling_graph(**one_list(nodes, lists))
    sizes = [torch.full((len(lists),), fanout) for fanout in fanouts]
    none = torch.empty(0, dtype=torch.int64)

    def sample(ids: Any) -> list[Any]:
        layers = []
        seeds = dict.fromkeys(nodes, none) | {kind: ids}
        for fanout in sizes:
            drawn = graph.sample_neighbors(seeds, fanout)
            found, compact = gb.unique_and_compact_csc_formats(drawn.sampled_csc, seeds)
            seeds = {name: found.get(name, seeds[name]) for name in nodes}
            layers.append((seeds, compact, drawn.original_edge_ids))
        return layers

    return sample, lambda out: sum(
        int(part.indices.numel()) for layer in out for part in layer[1].values()
    )


def one_list(nodes: dict[str, int], lists: dict[Kind, tuple[Ids, Ids]]) -> dict[str, Any]:
    """GraphBolt's arguments: all types in one CSC, the edges of a node ordered by edge type."""
    import torch

    begin = dict(zip(nodes, np.cumsum([0, *nodes.values()]), strict=False))
    total = sum(nodes.values())
    cols, rows, types = [], [], []
    for number, ((source, _, destination), (indptr, indices)) in enumerate(lists.items()):
        cols.append(begin[destination] + np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)))
        rows.append(begin[source] + indices)
        types.append(np.full(len(indices), number, np.uint8))
    col = np.concatenate(cols)
    order = np.argsort(col, kind="stable")
    indptr = np.concatenate(([0], np.cumsum(np.bincount(col, minlength=total))))
    return {
        "csc_indptr": torch.from_numpy(indptr),
        "indices": torch.from_numpy(np.concatenate(rows)[order]),
        "node_type_offset": torch.from_numpy(np.cumsum([0, *nodes.values()])),
        "type_per_edge": torch.from_numpy(np.concatenate(types)[order]),
        "node_type_to_id": {name: number for number, name in enumerate(nodes)},
        "edge_type_to_id": {":".join(name): number for number, name in enumerate(lists)},
    }


# Name -> (how to make it, modules it needs).
CONTENDERS: dict[str, tuple[Callable[[], Make], tuple[str, ...]]] = {
    "aethergraph memory": (lambda: aethergraph("memory"), ("aethergraph",)),
    "aethergraph mmap": (lambda: aethergraph("mmap"), ("aethergraph",)),
    "pyg-lib": (lambda: pyg, ("torch", "torch_geometric", "pyg_lib")),
    "torch-sparse": (lambda: pyg, ("torch", "torch_geometric", "torch_sparse")),
    "DGL": (lambda: dgl, ("torch", "dgl")),
    "GraphBolt": (lambda: graphbolt, ("torch", "dgl")),
}


def setup(config: dict[str, Any]) -> Commands:
    name, folder = config["contender"], Path(config["folder"])
    build, modules = CONTENDERS[name]
    make = build()
    made: dict[tuple[Any, ...], Sampler] = {}
    clock = time.thread_time if config["cpu_time"] else time.perf_counter

    def run(
        graph: str, kind: str, fanouts: list[int], seeds: str, first: int, count: int
    ) -> dict[str, Any]:
        key = (graph, kind, *fanouts)
        if key not in made:
            made[key] = make(folder / graph, fanouts, kind)
        rows: list[Any] = list(np.load(seeds, mmap_mode="r")[first : first + count].copy())
        if "aethergraph" not in name:
            import torch

            rows = [torch.from_numpy(ids) for ids in rows]
        return time_batches(rows, *made[key], clock)

    return {"versions": lambda: {m: importlib.metadata.version(m) for m in modules}, "run": run}


if __name__ == "__main__":
    serve(setup)
