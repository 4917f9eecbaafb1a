"""Opening a graph of 100M edges: aethergraph's Graph.load against PyG's torch.load.

    python benchmarks/load_time.py [--quick]

Every measurement is a fresh process. Cold: the file was dropped from the page cache before. Open:
until the call returns. First batch: until a batch of 1024 seeds, fanouts [15, 10], is sampled,
which for PyG includes the CSC copy that its sampler makes. Resident: memory of the process then,
less what it had before opening; mapped file pages count apart, the kernel may take them back.
"""

from __future__ import annotations

import importlib
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import common
from harness.common import GraphFiles, Report
from harness.worker import WORKER_ROLE, Commands, Worker, WorkerError, memory, serve

FANOUTS, BATCH = [15, 10], 1024
NAMES = ("aethergraph mmap", "aethergraph memory", "PyG torch.load", "PyG torch.load(mmap=True)")
COLUMNS = ("open, ms", "open + first batch, ms", "resident, MiB", "mapped file pages, MiB")


def open_aethergraph(folder: Path, name: str) -> Callable[[], Any]:
    from aethergraph import Graph, NeighborSampler

    storage: Any = name.split()[-1]
    graph = Graph.load(folder / "graph.aeg", storage=storage)

    def first() -> Any:
        seeds = np.arange(BATCH) * (graph.num_nodes // BATCH)
        return NeighborSampler(graph, FANOUTS).sample(seeds, key=0)

    return first


def open_pyg(folder: Path, name: str) -> Callable[[], Any]:
    import torch
    from torch_geometric.sampler import NeighborSampler, NodeSamplerInput

    data = torch.load(folder / "data.pt", weights_only=False, mmap=True if "mmap" in name else None)

    def first() -> Any:
        seeds = torch.arange(BATCH) * (data.num_nodes // BATCH)
        return NeighborSampler(data, FANOUTS).sample_from_nodes(NodeSamplerInput(None, seeds))

    return first


def setup(config: dict[str, Any]) -> Commands:
    """Child: imports first, then one timed open."""
    name, folder = config["contender"], Path(config["folder"])
    ours = name.startswith("aethergraph")
    for module in ("aethergraph",) if ours else ("torch_geometric.data", "torch_geometric.sampler"):
        importlib.import_module(module)

    def measure(sample: bool) -> list[float | None]:
        before = memory()
        start = time.perf_counter()
        first = (open_aethergraph if ours else open_pyg)(folder, name)
        opened = time.perf_counter()
        batch = first() if sample else None
        done = time.perf_counter()
        now = memory()
        del batch
        return [
            1e3 * (opened - start),
            1e3 * (done - start) if sample else None,
            (now["anonymous"] - before["anonymous"]) / 2**20,
            (now["file"] - before["file"]) / 2**20,
        ]

    return {"measure": measure}


def save_pyg(files: GraphFiles) -> None:
    """``data.pt``: Data with edge_index, as PyG users save it."""
    import torch
    from torch_geometric.data import Data

    from aethergraph import Graph

    path = files.folder / "data.pt"
    if path.exists():
        return
    common.say("saving the same graph for PyG")
    with Graph.load(files.graph) as graph:
        edges = torch.stack([torch.from_numpy(ids) for ids in graph.edge_index()])
        data = Data(edge_index=edges, num_nodes=graph.num_nodes)
    torch.save(data, path.with_suffix(".part"))
    path.with_suffix(".part").rename(path)


def measure_all(
    files: GraphFiles, cold: bool, rounds: int, can_sample: bool
) -> dict[str, list[list[float | None]]]:
    answers: dict[str, list[list[float | None]]] = {name: [] for name in NAMES}
    for number in range(rounds):
        shift = number % len(NAMES)
        for name in NAMES[shift:] + NAMES[:shift]:
            ours = name.startswith("aethergraph")
            config = files.config()
            with Worker(name, "load_time.py", config) as worker:
                if cold:
                    common.drop_from_cache(files.graph if ours else files.folder / "data.pt")
                answers[name].append(worker.ask("measure", sample=ours or can_sample))
    return answers


def medians(rows: list[list[float | None]]) -> list[float | None]:
    return [
        None if None in column else statistics.median(v for v in column if v is not None)
        for column in zip(*rows, strict=True)
    ]


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--nodes", type=int, help="nodes; ten edges each (default: 10M)")
    args = common.parse(made, argv)
    num_nodes = args.nodes or (10_000 if args.quick else 10_000_000)
    files = common.power_law_graph(args.dir, num_nodes)
    save_pyg(files)
    title = f"Opening a graph of {common.short(files.num_edges)} edges"
    report = Report("load_time", title, args)
    can_sample = common.pyg_sampler() is not None
    if not can_sample:
        report.note("PyG's first batch is missing: neither pyg-lib nor torch-sparse is here.")
    rounds = 1 if args.quick else 3
    found = {}
    for cold in (False,) if args.quick else (False, True):
        label = "cold" if cold else "warm"
        common.say(f"{label} page cache")
        if not cold and not args.quick:
            measure_all(files, False, 1, False)  # fills the page cache
        rows = measure_all(files, cold, rounds, can_sample)
        found[label] = {name: medians(rows[name]) for name in NAMES}
        report.table(
            f"{label} page cache, medians of {rounds}",
            ["", *COLUMNS],
            [[name, *found[label][name]] for name in NAMES],
        )
    report.parameters = {"nodes": files.num_nodes, "edges": files.num_edges, "rounds": rounds}
    report.data = {
        "columns": list(COLUMNS),
        "medians": found,
        "file_bytes": {"aethergraph": files.graph.stat().st_size,
                       "PyG": (files.folder / "data.pt").stat().st_size},
    }  # fmt: skip

    def draw(axes: Sequence[Any]) -> None:
        for axis, (label, column) in zip(
            axes, ((label, column) for label in found for column in (0, 1)), strict=True
        ):
            values = [found[label][name][column] for name in NAMES]
            common.bars(axis, NAMES, values, f"{COLUMNS[column]}, {label}")
            axis.set_xscale("symlog", linthresh=1)

    common.plot(report, 2 * len(found), draw)
    report.finish()


if __name__ == "__main__":
    try:
        serve(setup) if WORKER_ROLE in sys.argv else main()
    except WorkerError as error:
        raise SystemExit(str(error)) from None
