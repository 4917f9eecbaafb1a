"""The contenders of typed_temporal.py, one per process (harness/worker.py).

A graph is a folder with ``graph.aeg`` for ours and ``graph.npz`` for the peer, with the same lists:
times of nodes or of edges, of one type or of many. Batches are of seeds with a time each.
"""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness.worker import Commands, memory, serve
from numpy.typing import NDArray

from contenders.typed_samplers import read

Ids = NDArray[np.int64]
Kind = tuple[str, str, str]
OURS, OUT_OF_CORE, PEER = "aethergraph memory", "aethergraph uring", "pyg-lib"
#: Times are 0 .. TIMES - 1; those of seeds are in the upper half.
TIMES = 1_000_000

# Edges of a sample by their type: global source, global destination, number of the seed.
Edges = dict[Kind, tuple[Ids, Ids, Ids]]


def times_of_seeds(seeds: Ids) -> Ids:
    return TIMES // 2 + seeds * 7919 % (TIMES // 2)


@dataclass(frozen=True)
class Sampler:
    """``sample`` takes batches of seeds as a framework holds them, with their times."""

    sample: Callable[[list[Any], list[Any]], Iterator[Any]]
    num_edges: Callable[[Any], int]
    edges: Callable[[Any], Edges]


class Ours:
    """Our samplers over one graph file.

    Batches are sampled together where the graph stays on disk, else one by one.

    Args:
        storage: where the graph is while it is sampled.
        budget: bytes that it may take, if it stays on disk.
    """

    def __init__(self, storage: Any, budget: int | None) -> None:
        self._storage, self._budget = storage, budget

    def open(self, folder: Path, typed: bool) -> Any:
        from aethergraph import Graph, HeteroGraph

        load = HeteroGraph.load if typed else Graph.load
        return load(folder / "graph.aeg", storage=self._storage, memory_budget=self._budget)

    def sampler(self, graph: Any, seeds_of: str | None, options: dict[str, Any]) -> Sampler:
        from aethergraph import HeteroNeighborSampler, NeighborSampler

        own = {**options, "fanouts": options["num_neighbors"], "num_threads": 1, "is_sorted": True}
        del own["num_neighbors"]
        if seeds_of is None:
            kind = ("node", "to", "node")
            return Sampler(
                self._by(NeighborSampler(graph, **own)),
                lambda out: out.num_edges,
                lambda out: {kind: (out.node[out.row], out.node[out.col], out.batch[out.row])},
            )
        sample = self._by(HeteroNeighborSampler(graph, **own))
        return Sampler(
            lambda ids, times: sample(
                [{seeds_of: one} for one in ids], [{seeds_of: one} for one in times]
            ),
            lambda out: sum(map(len, out.row.values())),
            lambda out: {
                kind: (
                    out.node[kind[0]][row], out.node[kind[2]][out.col[kind]],
                    out.batch[kind[0]][row],
                )
                for kind, row in out.row.items()
            },
        )  # fmt: skip

    def _by(self, sampler: Any) -> Callable[[list[Any], list[Any]], Iterator[Any]]:
        if self._budget is not None:
            return lambda ids, times: sampler.sample_many(ids, range(len(ids)), seed_time=times)
        return lambda ids, times: map(
            lambda one, own: sampler.sample(one, seed_time=own), ids, times
        )


class Pyg:
    """PyG's NeighborSampler, which calls pyg-lib; the whole graph in memory."""

    def open(self, folder: Path, typed: bool) -> Any:
        import torch
        from torch_geometric.data import Data, HeteroData

        torch.set_num_threads(1)
        nodes, lists = read(folder / "graph.npz")
        data = HeteroData() if typed else Data()
        for name, count in nodes.items():
            (data[name] if typed else data).num_nodes = count
        for kind, (indptr, indices) in lists.items():
            col = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
            store = data[kind] if typed else data
            store.edge_index = torch.from_numpy(np.stack((indices, col)))
        with np.load(folder / "times.npz") as file:
            for name in file:
                owner: Any = tuple(name.split("__")) if "__" in name else name
                what = "edge_time" if "__" in name else "node_time"
                (data[owner] if typed else data)[what] = torch.from_numpy(file[name])
        return data

    def sampler(self, graph: Any, seeds_of: str | None, options: dict[str, Any]) -> Sampler:
        from torch_geometric.sampler import NeighborSampler, NodeSamplerInput

        sampler = NeighborSampler(graph, is_sorted=True, **options)

        def sample(ids: list[Any], times: list[Any]) -> Iterator[Any]:
            for seeds, own in zip(ids, times, strict=True):
                yield sampler.sample_from_nodes(NodeSamplerInput(None, seeds, own, seeds_of))

        def edges(out: Any) -> Edges:
            if seeds_of is None:
                node, row, batch = out.node.numpy(), out.row.numpy(), out.batch.numpy()
                return {("node", "to", "node"): (node[row], node[out.col.numpy()], batch[row])}
            found = {}
            for kind, row in out.row.items():
                node, far = out.node, row.numpy()
                found[kind] = (
                    node[kind[0]].numpy()[far], node[kind[2]].numpy()[out.col[kind].numpy()],
                    out.batch[kind[0]].numpy()[far],
                )  # fmt: skip
            return found

        def num_edges(out: Any) -> int:
            return len(out.row) if seeds_of is None else sum(map(len, out.row.values()))

        return Sampler(sample, num_edges, edges)


def checksum(edges: Edges) -> dict[str, list[int]]:
    """By edge type: edges, and a sum of hashes that is the same in any order of them."""
    found = {}
    for kind, (source, destination, seed) in edges.items():
        mixed = np.zeros(len(source), np.uint64)
        for part in (source, destination, seed):
            mixed = (mixed ^ part.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(31)
        found["__".join(kind)] = [len(source), int(mixed.sum(dtype=np.uint64))]
    return {name: one for name, one in found.items() if one[0]}


# Name -> (how to make it from its budget, modules it needs).
CONTENDERS: dict[str, tuple[Callable[[int | None], Ours | Pyg], tuple[str, ...]]] = {
    OURS: (lambda budget: Ours("memory", None), ("aethergraph",)),
    OUT_OF_CORE: (lambda budget: Ours("uring", budget), ("aethergraph",)),
    PEER: (lambda budget: Pyg(), ("torch", "torch_geometric", "pyg_lib")),
}


def time_groups(
    sampler: Sampler, ids: Sequence[Any], times: Sequence[Any], group: int
) -> dict[str, list[float]]:
    """Seconds and edges of each batch; those of a group share its time evenly."""
    seconds: list[float] = []
    edges: list[float] = []
    for at in range(0, len(ids), group):
        start = time.perf_counter()
        made = list(sampler.sample(list(ids[at : at + group]), list(times[at : at + group])))
        spent = time.perf_counter() - start
        seconds += [spent / len(made)] * len(made)
        edges += map(sampler.num_edges, made)
    return {"seconds": seconds, "edges": edges}


def setup(config: dict[str, Any]) -> Commands:
    name, folder = config["contender"], Path(config["folder"])
    make, modules = CONTENDERS[name]
    contender = make(config.get("budget"))
    opened: dict[str, Any] = {}
    samplers: dict[str, Sampler] = {}

    def find(case: dict[str, Any]) -> Sampler:
        graph = case["graph"]
        if graph not in opened:  # one at a time in memory
            samplers.clear()
            opened.clear()
            opened[graph] = contender.open(folder / graph, case["seeds_of"] is not None)
        key = repr(case)
        if key not in samplers:
            samplers[key] = contender.sampler(opened[graph], case["seeds_of"], case["options"])
        return samplers[key]

    def batches(seeds: str, first: int, count: int) -> tuple[list[Any], list[Any]]:
        ids: list[Any] = list(np.load(seeds, mmap_mode="r")[first : first + count].copy())
        times = [times_of_seeds(one) for one in ids]
        if name == PEER:
            import torch

            return list(map(torch.from_numpy, ids)), list(map(torch.from_numpy, times))
        return ids, times

    def case_of(
        graph: str, seeds_of: str | None, fanouts: list[int], attr: str, strategy: str
    ) -> dict[str, Any]:
        options = {"num_neighbors": fanouts, "time_attr": attr, "temporal_strategy": strategy}
        return {"graph": graph, "seeds_of": seeds_of, "options": options}

    def run(seeds: str, first: int, count: int, **case: Any) -> dict[str, list[float]]:
        group = count if name == OUT_OF_CORE else 1
        return time_groups(find(case_of(**case)), *batches(seeds, first, count), group)

    def look(seeds: str, **case: Any) -> list[dict[str, list[int]]]:
        """Return the content of the first four batches, to be compared."""
        sampler = find(case_of(**case))
        return [checksum(sampler.edges(out)) for out in sampler.sample(*batches(seeds, 0, 4))]

    return {
        "versions": lambda: {m: importlib.metadata.version(m) for m in modules},
        "run": run,
        "look": look,
        "memory": memory,
    }


if __name__ == "__main__":
    serve(setup)
