"""The contenders of loading batches of links, one per process (harness/worker.py); for links.py.

    PyG LinkNeighborLoader          Data or HeteroData in memory, PyG's sampler
    stock LinkLoader                PyG's LinkLoader over our stores and sampler
    aethergraph LinkNeighborLoader  ours, prefetching in threads

An epoch is a new loader over fresh links and a sampler made once, timed from ``iter()`` to the last
batch. The links are edges of the graph, of one type where it has many.
"""

from __future__ import annotations

import gc
import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness.worker import Commands, memory, serve

from contenders.typed_samplers import Ids, Kind, read

# (negatives, links [2, P], batch size) -> an iterable of batches
Make = Callable[[str, Any, int], Any]

PYG = "PyG LinkNeighborLoader"
STOCK, OURS = "stock LinkLoader, aethergraph", "aethergraph LinkNeighborLoader"
CONTENDERS = (PYG, f"{STOCK} mmap", f"{STOCK} memory", f"{OURS} mmap", f"{OURS} memory")
FANOUTS = [15, 10]
LINKS = ("user", "votes", "post")


# ---- one type ----------------------------------------------------------------------------------


def pyg(folder: Path, storage: str) -> Make:
    import torch
    from torch_geometric.data import Data
    from torch_geometric.loader import LinkNeighborLoader
    from torch_geometric.sampler import NeighborSampler

    indptr, src = (torch.from_numpy(np.load(folder / f"{n}.npy")) for n in ("indptr", "indices"))
    dst = torch.arange(len(indptr) - 1).repeat_interleave(indptr.diff())
    x = torch.from_numpy(np.load(folder / "x128.npy"))
    data = Data(x=x, edge_index=torch.stack((src, dst)))
    sampler = NeighborSampler(data, FANOUTS, is_sorted=True)  # keeps a CSC copy: made once
    return lambda negatives, links, batch: LinkNeighborLoader(
        data, FANOUTS, links, neg_sampling=negatives, batch_size=batch, neighbor_sampler=sampler
    )


def open_graph(folder: Path, storage: Any) -> Any:
    from aethergraph import Graph

    graph = Graph.load(folder / "graph.aeg", storage=storage)
    graph.load_features(folder / "x128.npy", storage=storage)
    return graph


def stock(folder: Path, storage: str) -> Make:
    from torch_geometric.loader import LinkLoader

    from aethergraph.pyg import FeatureStore, GraphStore, NeighborSampler

    graph = open_graph(folder, storage)
    stores = FeatureStore.from_graph(graph), GraphStore(graph)
    sampler = NeighborSampler(stores, FANOUTS)
    return lambda negatives, links, batch: LinkLoader(
        stores, sampler, (None, links), neg_sampling=negatives, batch_size=batch
    )


def ours(folder: Path, storage: str) -> Make:
    from aethergraph.pyg import LinkNeighborLoader, NeighborSampler, as_stores

    graph = open_graph(folder, storage)
    sampler = NeighborSampler(as_stores(graph), FANOUTS)
    return lambda negatives, links, batch: LinkNeighborLoader(
        graph, FANOUTS, links, neg_sampling=negatives, batch_size=batch, neighbor_sampler=sampler
    )


# ---- many types --------------------------------------------------------------------------------


def typed_pyg(folder: Path, storage: str) -> Make:
    import torch
    from torch_geometric.data import HeteroData
    from torch_geometric.loader import LinkNeighborLoader
    from torch_geometric.sampler import NeighborSampler

    data = HeteroData()
    for path in folder.glob("x128-*.npy"):
        data[path.stem.removeprefix("x128-")].x = torch.from_numpy(np.load(path))
    for kind, (indptr, indices) in read(folder / "eight")[1].items():
        col = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        data[kind].edge_index = torch.from_numpy(np.stack((indices, col)))
    sampler = NeighborSampler(data, FANOUTS, is_sorted=True)
    return lambda negatives, links, batch: LinkNeighborLoader(
        data, FANOUTS, (LINKS, links), neg_sampling=negatives, batch_size=batch,
        neighbor_sampler=sampler,
    )  # fmt: skip


def typed_stock(folder: Path, storage: Any) -> Make:
    from torch_geometric.loader import LinkLoader

    from aethergraph import HeteroGraph
    from aethergraph.pyg import FeatureStore, GraphStore, HeteroNeighborSampler

    graph = HeteroGraph.load(folder / "eight.aeg", storage=storage)
    for name in graph.node_types:
        graph[name].load_features(folder / f"x128-{name}.npy", storage=storage)
    stores = FeatureStore.from_graph(graph), GraphStore(graph)
    sampler = HeteroNeighborSampler(stores, FANOUTS)
    return lambda negatives, links, batch: LinkLoader(
        stores, sampler, (LINKS, links), neg_sampling=negatives, batch_size=batch
    )


def typed_ours(folder: Path, storage: Any) -> Make:
    from aethergraph import HeteroGraph
    from aethergraph.pyg import HeteroNeighborSampler, LinkNeighborLoader, as_stores

    graph = HeteroGraph.load(folder / "eight.aeg", storage=storage)
    for name in graph.node_types:
        graph[name].load_features(folder / f"x128-{name}.npy", storage=storage)
    sampler = HeteroNeighborSampler(as_stores(graph), FANOUTS)
    return lambda negatives, links, batch: LinkNeighborLoader(
        graph, FANOUTS, (LINKS, links), neg_sampling=negatives, batch_size=batch,
        neighbor_sampler=sampler,
    )  # fmt: skip


# ---- serving -----------------------------------------------------------------------------------


def lists_of_links(folder: Path, typed: bool) -> tuple[Ids, Ids]:
    """CSC of the edges that the links are drawn from."""
    if not typed:
        return np.load(folder / "indptr.npy"), np.load(folder / "indices.npy", mmap_mode="r")
    lists: dict[Kind, tuple[Ids, Ids]] = read(folder / "eight")[1]
    return lists[LINKS]


def count_edges(batch: Any, typed: bool) -> int:
    if typed:
        return sum(index.shape[1] for index in batch.edge_index_dict.values())
    return int(batch.edge_index.shape[1])


def count_links(batch: Any, negatives: str, typed: bool) -> int:
    """Positive and negative ones."""
    if negatives == "binary":
        part = batch[LINKS] if typed else batch
        return int(part.edge_label_index.shape[1])
    part = batch[LINKS[2]] if typed else batch
    return int(part.dst_pos_index.numel() + part.dst_neg_index.numel())


def setup(config: dict[str, Any]) -> Commands:
    import torch

    name, folder, typed = config["contender"], Path(config["folder"]), config["typed"]
    for module in ("torch_geometric.loader", "aethergraph.pyg"):
        importlib.import_module(module)  # before memory is counted
    before = memory()
    if name == PYG:
        build = typed_pyg if typed else pyg
    elif name.startswith(STOCK):
        build = typed_stock if typed else stock
    else:
        build = typed_ours if typed else ours
    make = build(folder, name.rsplit(" ", 1)[-1])
    indptr, indices = lists_of_links(folder, typed)

    def epoch(negatives: str, batch: int, count: int, seed: int) -> dict[str, Any]:
        """Seconds for ``count`` batches; edges and links of one."""
        rng = np.random.Generator(np.random.PCG64(seed))
        chosen = rng.integers(0, len(indices), count * batch)
        ends = np.stack((indices[chosen], np.searchsorted(indptr, chosen, "right") - 1))
        loader = make(negatives, torch.from_numpy(ends), batch)
        gc.collect()
        edges = links = 0
        start = time.perf_counter()
        for data in loader:
            edges += count_edges(data, typed)
            links += count_links(data, negatives, typed)
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "edges": edges / count, "links": links / count}

    return {"epoch": epoch, "memory": lambda: {"before": before, "now": memory()}}


if __name__ == "__main__":
    serve(setup)
