"""The contenders of DGL's stock loaders, one per process (harness/worker.py); for dgl_loaders.py.

An epoch is a new loader over fresh seeds, timed from ``iter()`` to the last batch; counting what is
in the batches is left out. DGL's graphs hold 64-bit ids and features in memory, as its users have
them; GraphBolt's returns no edge ids. Ours return them, and are files, graph and features either
both copied to memory or both mapped.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness.worker import Commands, memory, serve

from contenders.typed_samplers import one_list, read

# (fanouts from the seeds on, batch size, seeds, with features) -> a loader
Make = Callable[[list[int], int, Any, bool], Any]

DGL, OURS_IN_DGL = "DGL NeighborSampler", "aethergraph NeighborSampler"
GRAPHBOLT = "GraphBolt sample_neighbor"
OURS_BY_LAYER, OURS_AT_ONCE = "aethergraph sample_neighbor", "aethergraph sample_neighbor_at_once"
DATALOADING = (DGL, f"{OURS_IN_DGL} memory", f"{OURS_IN_DGL} mmap")
PIPES = (GRAPHBOLT, f"{OURS_BY_LAYER} mmap", f"{OURS_AT_ONCE} memory", f"{OURS_AT_ONCE} mmap")


class Source:
    """The files of one graph, of one type (``seeds_of`` None) or of many."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.folder = Path(config["folder"])
        self.seeds_of: str | None = config["seeds_of"]
        self.width: int = config["width"]
        self.mapped: list[Any] = []

    def rows(self, ntype: str | None) -> Any:
        """Features in memory."""
        import torch

        name = f"x{self.width}.npy" if ntype is None else f"x{self.width}-{ntype}.npy"
        return torch.from_numpy(np.load(self.folder / name))

    def touch(self) -> None:
        """Have every page of mapped files in this process's page tables."""
        for array in self.mapped:
            flat = array.reshape(-1)
            flat[:: 4096 // flat.itemsize].sum()

    def open(self, storage: Any) -> Any:
        """Our graph with its features."""
        from aethergraph import Graph, HeteroGraph

        if self.seeds_of is None:
            graph = Graph.load(self.folder / "graph.aeg", storage=storage)
            graph.features = self._load(f"x{self.width}.npy", storage)
            self.mapped += graph.csc() if storage == "mmap" else ()
            return graph
        typed = HeteroGraph.load(self.folder / "eight.aeg", storage=storage)
        for ntype in typed.node_types:
            typed[ntype].attrs["x"] = self._load(f"x{self.width}-{ntype}.npy", storage)
        if storage == "mmap":
            self.mapped += [array for kind in typed.edge_types for array in typed[kind].csc()]
        return typed

    def _load(self, name: str, storage: Any) -> Any:
        from aethergraph import FeatureTable

        rows = FeatureTable.load(self.folder / name, storage=storage)
        if storage == "mmap":
            self.mapped.append(rows.array)
        return rows

    def csc(self) -> tuple[Any, Any]:
        import torch

        names = ("indptr", "indices")
        return tuple(torch.from_numpy(np.load(self.folder / f"{n}.npy")) for n in names)  # type: ignore[return-value]


# ---- dgl.dataloading ---------------------------------------------------------------------------


def _dgl_loader(source: Source, graph: Any, sampler_of: Callable[..., Any]) -> Make:
    import dgl

    def make(fanouts: list[int], batch: int, seeds: Any, features: bool) -> Any:
        names = ["x"] if features else None
        if features and source.seeds_of is not None:
            names = {ntype: ["x"] for ntype in graph.ntypes}
        sampler = sampler_of(fanouts[::-1], prefetch_node_feats=names)
        indices = seeds if source.seeds_of is None else {source.seeds_of: seeds}
        return dgl.dataloading.DataLoader(graph, indices, sampler, batch_size=batch)

    return make


def dgl_graph(source: Source, storage: str) -> Make:
    import dgl
    import torch

    none = torch.empty(0, dtype=torch.int64)
    if source.seeds_of is None:
        indptr, indices = source.csc()
        graph = dgl.graph(("csc", (indptr, indices, none)), num_nodes=len(indptr) - 1)
        graph.ndata["x"] = source.rows(None)
    else:
        nodes, lists = read(source.folder / "eight")
        graph = dgl.heterograph(
            {
                kind: ("csc", (torch.from_numpy(indptr), torch.from_numpy(indices), none))
                for kind, (indptr, indices) in lists.items()
            },
            num_nodes_dict=nodes,
        )
        for ntype in nodes:
            graph.nodes[ntype].data["x"] = source.rows(ntype)
    return _dgl_loader(source, graph, dgl.dataloading.NeighborSampler)


def ours_in_dgl(source: Source, storage: str) -> Make:
    from aethergraph.dgl import GraphStorage, NeighborSampler

    return _dgl_loader(source, GraphStorage(source.open(storage)), NeighborSampler)


# ---- GraphBolt ---------------------------------------------------------------------------------


def _pipe(source: Source, sample: Callable[[Any, list[int]], Any], features: Any) -> Make:
    import dgl.graphbolt as gb

    def make(fanouts: list[int], batch: int, seeds: Any, with_features: bool) -> Any:
        items = gb.ItemSet(seeds, names="seed_nodes")
        if source.seeds_of is not None:
            items = gb.ItemSetDict({source.seeds_of: items})
        pipe = sample(gb.ItemSampler(items, batch_size=batch), fanouts)
        if with_features:
            keys: Any = ["x"]
            if source.seeds_of is not None:
                keys = {ntype: ["x"] for ntype in _ntypes(features)}
            pipe = pipe.fetch_feature(features, node_feature_keys=keys)
        return gb.DataLoader(pipe)

    return make


def _ntypes(features: Any) -> list[str]:
    return [key[1] for key in features._features if key[0] == "node"]


def _layers(num_kinds: int, fanouts: list[int]) -> list[Any]:
    """In GraphBolt's order, one number per edge type."""
    import torch

    return [torch.full((num_kinds,), fanout) for fanout in reversed(fanouts)]


def fused_csc(source: Source, storage: str) -> Make:
    import dgl.graphbolt as gb

    if source.seeds_of is None:
        names: list[str | None] = [None]
        num_kinds = 1
        graph = gb.fused_csc_sampling_graph(*source.csc())
    else:
        nodes, lists = read(source.folder / "eight")
        names, num_kinds = [*nodes], len(lists)
        graph = gb.fused_csc_sampling_graph(**one_list(nodes, lists))
    features = gb.BasicFeatureStore(
        {("node", name, "x"): gb.TorchBasedFeature(source.rows(name)) for name in names}
    )
    return _pipe(
        source,
        lambda pipe, fanouts: pipe.sample_neighbor(graph, _layers(num_kinds, fanouts)),
        features,
    )


def ours_in_graphbolt(source: Source, storage: str, at_once: bool) -> Make:
    from aethergraph.dgl.graphbolt import FeatureStore, SamplingGraph

    graph = SamplingGraph(source.open(storage))
    num_kinds = 1 if source.seeds_of is None else len(graph.edge_type_to_id or {})

    def sample(pipe: Any, fanouts: list[int]) -> Any:
        stage = pipe.sample_neighbor_at_once if at_once else pipe.sample_neighbor
        return stage(graph, _layers(num_kinds, fanouts))

    return _pipe(source, sample, FeatureStore(graph.graph))


# ---- commands ----------------------------------------------------------------------------------


def now() -> Any:
    """Wall and processor seconds."""
    return np.array([time.perf_counter(), time.process_time()])


def count_edges(batch: Any) -> int:
    """Sampled edges of a batch of either loader."""
    if isinstance(batch, tuple):
        return sum(block.num_edges(kind) for block in batch[2] for kind in block.canonical_etypes)
    parts = [layer.sampled_csc for layer in batch.sampled_subgraphs]
    lists = [own for part in parts for own in (part.values() if isinstance(part, dict) else [part])]
    return sum(len(own.indices) for own in lists)


def count_rows(batch: Any) -> int:
    """Rows of features that a batch of either loader has brought.

    Not for batches without: DGL's blocks would read what they are asked for then.
    """
    if isinstance(batch, tuple):
        block = batch[2][0]
        return sum(len(block.srcnodes[n].data.get("x", ())) for n in block.srctypes)
    return sum(map(len, (batch.node_features or {}).values()))


def build(name: str, source: Source) -> Make:
    storage = name.rsplit(" ", 1)[-1]
    if name == DGL:
        return dgl_graph(source, storage)
    if name == GRAPHBOLT:
        return fused_csc(source, storage)
    if name.startswith(OURS_IN_DGL):
        return ours_in_dgl(source, storage)
    return ours_in_graphbolt(source, storage, name.startswith(OURS_AT_ONCE))


def setup(config: dict[str, Any]) -> Commands:
    import dgl
    import torch

    torch.set_num_threads(1)
    source = Source(config)
    make = build(config["contender"], source)

    def epoch(
        fanouts: list[int], batch: int, seeds: str, first: int, count: int, features: bool
    ) -> dict[str, float]:
        """Wall and processor seconds of ``count`` batches, their edges and rows of features."""
        ids = torch.from_numpy(np.load(seeds)[first : first + count].reshape(-1))
        loader = make(fanouts, batch, ids, features)
        source.touch()
        gc.collect()
        edges = rows = 0
        spent = -now()
        for one in loader:
            counting = now()
            edges += count_edges(one)
            rows += count_rows(one) if features else 0
            spent += counting - now()
        wall, cpu = spent + now()
        return {"seconds": wall, "cpu": cpu, "edges": edges / count, "rows": rows / count}

    return {
        "versions": lambda: {"torch": torch.__version__, "dgl": dgl.__version__},
        "epoch": epoch,
        "memory": memory,
    }


if __name__ == "__main__":
    serve(setup)
