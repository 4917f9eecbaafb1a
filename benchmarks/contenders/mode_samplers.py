"""The contenders of weighted, temporal and disjoint sampling, one per process (harness/worker.py).

Driven by modes.py. Each takes a CSC graph with weights and times of edges, or with times of nodes.
With times, as with PyG's ``disjoint``, each seed has a tree of its own whose nodes are merged;
GraphBolt's temporal sampler keeps a slot per edge instead.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness.worker import Commands, serve, time_batches

WEIGHTED, REPLACED = "weighted", "weighted, with replacement"
EDGES_ANY, EDGES_LAST = "times of edges, any", "times of edges, last"
NODES_ANY, DISJOINT = "times of nodes, any", "disjoint"
#: Mode -> the options of our sampler.
MODES: dict[str, dict[str, Any]] = {
    WEIGHTED: {"weight_attr": "edge_weight"},
    REPLACED: {"weight_attr": "edge_weight", "replace": True},
    EDGES_ANY: {"time_attr": "edge_time", "strict": True},
    EDGES_LAST: {"time_attr": "edge_time", "strict": True, "temporal_strategy": "last"},
    NODES_ANY: {"time_attr": "node_time"},
    DISJOINT: {"disjoint": True},
}
PYG_MODES = dict(MODES)  # pyg-lib's; it knows no strict
PYG_MODES[EDGES_ANY] = {"time_attr": "edge_time"}
PYG_MODES[EDGES_LAST] = {"time_attr": "edge_time", "temporal_strategy": "last"}
#: Times are 0 .. TIMES - 1; seeds of EDGES_ANY and EDGES_LAST are at half of it.
TIMES = 1_000_000
#: What each contender can do, if not everything.
ABLE = {
    "torch-sparse": (NODES_ANY, DISJOINT),
    "DGL": (WEIGHTED, REPLACED),
    "torch.multinomial": (WEIGHTED, REPLACED),
}

# Sample, which takes the seeds as a framework holds them, and the edges of a sample.
Sampler = tuple[Callable[[Any], Any], Callable[[Any], int]]
# (folder of one graph, mode, fanouts) -> Sampler
Make = Callable[[Path, str, list[int]], Sampler]


def aethergraph(storage: Any) -> Make:
    from aethergraph import Graph, NeighborSampler

    def make(folder: Path, mode: str, fanouts: list[int]) -> Sampler:
        graph = Graph.load(folder / "graph.aeg", storage=storage)
        sampler = NeighborSampler(graph, fanouts, num_threads=1, **MODES[mode])
        if mode in (EDGES_ANY, EDGES_LAST):
            return (
                lambda ids: sampler.sample(ids, seed_time=np.full(len(ids), TIMES // 2)),
                lambda out: out.num_edges,
            )
        return sampler.sample, lambda out: out.num_edges

    return make


def tensors(folder: Path, *names: str) -> list[Any]:
    import torch

    torch.set_num_threads(1)
    return [torch.from_numpy(np.load(folder / f"{name}.npy")) for name in names]


def pyg_lib(folder: Path, mode: str, fanouts: list[int]) -> Sampler:
    """PyG's NeighborSampler over it."""
    import torch
    from torch_geometric.data import Data
    from torch_geometric.sampler import NeighborSampler, NodeSamplerInput

    indptr, src = tensors(folder, "indptr", "indices")
    dst = torch.arange(len(indptr) - 1).repeat_interleave(indptr.diff())
    data = Data(edge_index=torch.stack((src, dst)), num_nodes=len(indptr) - 1)
    options = PYG_MODES[mode]
    for name in (options.get("time_attr"), options.get("weight_attr")):
        if name is not None:
            (data[name],) = tensors(folder, name)
    sampler = NeighborSampler(data, fanouts, is_sorted=True, **options)

    def sample(ids: Any) -> Any:
        times = None
        if options.get("time_attr") == "edge_time":
            times = torch.full((len(ids),), TIMES // 2)
        return sampler.sample_from_nodes(NodeSamplerInput(None, ids, times))

    return sample, lambda out: len(out.row)


def torch_sparse(folder: Path, mode: str, fanouts: list[int]) -> Sampler:
    """Its temporal sampler for typed graphs, given one type: the only one that is disjoint.

    Seeds see what is not later than they are; for DISJOINT all nodes are of one time.
    """
    import torch

    importlib.import_module("torch_sparse")  # registers the operator
    indptr, indices = tensors(folder, "indptr", "indices")
    times = torch.zeros(len(indptr) - 1, dtype=torch.int64)
    if mode == NODES_ANY:
        (times,) = tensors(folder, "node_time")
    operator = torch.ops.torch_sparse.hetero_temporal_neighbor_sample
    name, kind = "node", ("node", "to", "node")
    edges = "__".join(kind)
    lists = {edges: indptr}, {edges: indices}
    rest = {edges: fanouts}, {name: times}, len(fanouts), False, True
    return (
        lambda ids: operator([name], [kind], *lists, {name: ids}, *rest),
        lambda out: int(out[1][edges].numel()),  # node, row, col, edge
    )


def multinomial(folder: Path, mode: str, fanouts: list[int]) -> Sampler:
    """The call that pyg-lib's weighted sampler makes for every list, and little else.

    Its id map, its loops and its output are left out (neighbour ids are merged by torch.unique), so
    it should be below pyg-lib's time.
    """
    import torch

    indptr, indices, weight = tensors(folder, "indptr", "indices", "edge_weight")
    replace = mode == REPLACED

    def draw(
        starts: list[int], sizes: list[int], weight: torch.Tensor, k: int, replace: bool
    ) -> list[torch.Tensor]:
        found: list[torch.Tensor] = []
        for i in range(len(starts)):
            if sizes[i] <= k and not replace:
                found.append(torch.arange(sizes[i]))
            elif sizes[i] > 0:
                found.append(torch.multinomial(weight.narrow(0, starts[i], sizes[i]), k, replace))
            else:
                found.append(torch.empty(0, dtype=torch.int64))
        return found

    draws = torch.jit.script(draw)

    def sample(ids: Any) -> int:
        edges, seen = 0, ids.unique()
        for k in fanouts:
            starts, sizes = indptr[ids], indptr[ids + 1] - indptr[ids]
            lists = draws(starts.tolist(), sizes.tolist(), weight, k, replace)
            counts = torch.tensor([len(places) for places in lists])
            positions = torch.cat(lists) + starts.repeat_interleave(counts)
            reached = indices[positions].unique()
            ids = reached[~torch.isin(reached, seen)]
            seen = torch.cat((seen, ids))
            edges += len(positions)
        return edges

    return sample, lambda edges: edges


def dgl(folder: Path, mode: str, fanouts: list[int]) -> Sampler:
    import dgl
    import torch

    indptr, indices, weight = tensors(folder, "indptr", "indices", "edge_weight")
    empty = torch.empty(0, dtype=torch.int64)
    graph = dgl.graph(("csc", (indptr, indices, empty)), num_nodes=len(indptr) - 1)
    graph.edata["w"] = weight
    sampler = dgl.dataloading.NeighborSampler(
        fanouts[::-1], prob="w", replace=mode == REPLACED
    )  # DGL counts from the input layer
    return (
        lambda ids: sampler.sample_blocks(graph, ids),
        lambda out: sum(block.num_edges() for block in out[2]),
    )


def graphbolt(folder: Path, mode: str, fanouts: list[int]) -> Sampler:
    """What graphbolt's samplers do per batch, without the datapipes around them."""
    import dgl.graphbolt as gb
    import torch
    from dgl.graphbolt.internal import compact_csc_format

    indptr, indices = tensors(folder, "indptr", "indices")
    nodes: dict[str, Any] = {}
    edges: dict[str, Any] = {}
    if mode == NODES_ANY:
        (nodes["node_time"],) = tensors(folder, "node_time")
    elif mode != DISJOINT:
        edges = dict(zip(("w", "t"), tensors(folder, "edge_weight", "edge_time"), strict=True))
    graph = gb.fused_csc_sampling_graph(
        indptr, indices, node_attributes=nodes or None, edge_attributes=edges or None
    )
    sizes = [torch.tensor([k]) for k in fanouts]

    def weighted(ids: Any) -> list[Any]:
        layers = []
        for fanout in sizes:
            drawn = graph.sample_neighbors(ids, fanout, mode == REPLACED, "w")
            ids, compact = gb.unique_and_compact_csc_formats(drawn.sampled_csc, ids)
            layers.append((ids, compact, drawn.original_edge_ids))
        return layers

    def disjoint(ids: Any) -> list[Any]:
        """Nodes are merged by tree: GraphBolt's operator gets tree * nodes + node for them."""
        layers = []
        num_nodes, none = len(indptr) - 1, ids[:0]
        tree = torch.arange(len(ids))
        for fanout in sizes:
            drawn = graph.sample_neighbors(ids, fanout)
            found = drawn.sampled_csc
            pairs = tree.repeat_interleave(found.indptr.diff()) * num_nodes + found.indices
            pairs, local, _ = torch.ops.graphbolt.unique_and_compact(
                pairs, none, tree * num_nodes + ids
            )
            tree, ids = pairs // num_nodes, pairs % num_nodes
            compact = gb.CSCFormatBase(indptr=found.indptr, indices=local)
            layers.append((ids, compact, drawn.original_edge_ids))
        return layers

    def temporal(ids: Any) -> list[Any]:
        layers = []
        if mode == NODES_ANY:
            names, times = {"node_timestamp_attr_name": "node_time"}, nodes["node_time"][ids]
        else:
            names, times = {"edge_timestamp_attr_name": "t"}, torch.full((len(ids),), TIMES // 2)
        for fanout in sizes:
            drawn = graph.temporal_sample_neighbors(ids, times, fanout, **names)
            ids, compact, times = compact_csc_format(drawn.sampled_csc, ids, times)
            layers.append((ids, compact, drawn.original_edge_ids))
        return layers

    sample = weighted if mode in (WEIGHTED, REPLACED) else temporal
    return (
        disjoint if mode == DISJOINT else sample,
        lambda out: sum(int(layer[1].indices.numel()) for layer in out),
    )


# Name -> (how to make it, modules it needs).
CONTENDERS: dict[str, tuple[Callable[[], Make], tuple[str, ...]]] = {
    "aethergraph memory": (lambda: aethergraph("memory"), ("aethergraph",)),
    "aethergraph mmap": (lambda: aethergraph("mmap"), ("aethergraph",)),
    "pyg-lib": (lambda: pyg_lib, ("torch", "torch_geometric", "pyg_lib")),
    "torch-sparse": (lambda: torch_sparse, ("torch", "torch_sparse")),
    "torch.multinomial": (lambda: multinomial, ("torch",)),
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
        graph: str, mode: str, fanouts: list[int], seeds: str, first: int, count: int
    ) -> dict[str, Any]:
        key = (graph, mode, *fanouts)
        if key not in made:
            if len(made) > 1:  # one hop and all hops of one case: no more in memory
                made.clear()
            made[key] = make(folder / graph, mode, fanouts)
        rows: list[Any] = list(np.load(seeds, mmap_mode="r")[first : first + count].copy())
        if "aethergraph" not in name:
            import torch

            rows = [torch.from_numpy(ids) for ids in rows]
        return time_batches(rows, *made[key], clock)

    return {"versions": lambda: {m: importlib.metadata.version(m) for m in modules}, "run": run}


if __name__ == "__main__":
    serve(setup)
