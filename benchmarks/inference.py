"""Vectors of every node: embed() beside PyG's BasicGNN.inference, and a loop by hand.

    python benchmarks/inference.py [--quick]

Two layers of 64 numbers over a power-law graph (1M nodes, 10M edges), all neighbours, batches of
4096 nodes, one thread of torch. PyG has graph, features and vectors in memory; so has the loop by
hand, which samples with the core and gathers with numpy; embed() maps the files, and writes files.
Seconds are of all layers to the end; all contenders' vectors are compared.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from harness import common
from harness.common import Ratio, Report
from harness.worker import (
    ONE_THREAD,
    WORKER_ROLE,
    Commands,
    Worker,
    WorkerError,
    memory,
    serve,
    take_turns,
)

PYG, HAND, OURS = "PyG BasicGNN.inference", "a loop by hand", "aethergraph embed"
NAMES = (PYG, HAND, OURS)
MODELS = ("GraphSAGE", "GCN", "GAT", "GIN")
WIDTH, BATCH = 64, 4096
TOLERANCE = 1e-5
Run = Callable[[Any], Any]


# ---- a contender (child) -----------------------------------------------------------------------


def pyg(folder: Path) -> Run:
    import torch
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader

    indptr, src = (torch.from_numpy(np.load(folder / f"{n}.npy")) for n in ("indptr", "indices"))
    dst = torch.arange(len(indptr) - 1).repeat_interleave(indptr.diff())
    x = torch.from_numpy(np.load(folder / f"x{WIDTH}.npy"))
    loader = NeighborLoader(Data(x=x, edge_index=torch.stack((src, dst))), [-1], batch_size=BATCH)
    return lambda model: model.inference(loader).numpy()


def by_hand(folder: Path) -> Run:
    import torch

    from aethergraph import Graph, NeighborSampler

    graph = Graph.load(folder / "graph.aeg", storage="memory")
    x = np.load(folder / f"x{WIDTH}.npy")
    sampler = NeighborSampler(graph, [-1])

    def run(model: Any) -> Any:
        rows = x
        for number in range(model.num_layers):
            parts = []
            for start in range(0, len(rows), BATCH):
                seeds = np.arange(start, min(start + BATCH, len(rows)))
                sample = sampler.sample(seeds, 0)
                batch = torch.from_numpy(rows[sample.node]), torch.from_numpy(sample.edge_index)
                parts.append(model.inference_per_layer(number, *batch, len(seeds)).numpy())
            rows = np.concatenate(parts)
        return rows

    return run


def ours(folder: Path) -> Run:
    from aethergraph import Graph
    from aethergraph.pyg import embed

    graph = Graph.load(folder / "graph.aeg")
    graph.load_features(folder / f"x{WIDTH}.npy")
    out = folder / "vectors.npy"
    return lambda model: embed(model, graph, out, batch_size=BATCH, force=True).array


def setup(config: dict[str, Any]) -> Commands:
    import torch
    from torch_geometric import nn

    torch.set_num_threads(1)
    folder = Path(config["folder"])
    run = {PYG: pyg, HAND: by_hand, OURS: ours}[config["contender"]](folder)

    def infer(model: str, save: str) -> dict[str, float]:
        torch.manual_seed(0)
        module = getattr(nn, model)(WIDTH, WIDTH, 2, WIDTH).eval()
        with torch.no_grad():
            start, cpu = time.perf_counter(), time.process_time()
            rows = run(module)
            seconds = time.perf_counter() - start, time.process_time() - cpu
        if save:
            np.save(save, rows)
        return {"seconds": seconds[0], "cpu_seconds": seconds[1]}

    return {"infer": infer, "memory": memory}


# ---- the parent --------------------------------------------------------------------------------


def differences(folder: Path, names: Sequence[str]) -> dict[str, float]:
    """Largest difference to the first contender's vectors, by the size of these.

    Raises:
        WorkerError: they are not the same vectors.
    """
    paths = [folder / f"vectors-{number}.npy" for number in range(len(names))]
    wanted = np.load(paths[0])
    found = {
        name: float(np.abs(np.load(path) - wanted).max() / np.abs(wanted).max())
        for name, path in zip(names, paths, strict=True)
    }
    for path in paths:
        os.unlink(path)
    if max(found.values()) > TOLERANCE:
        raise WorkerError(f"the contenders' vectors differ: {found}")
    return found


def main(argv: Sequence[str] | None = None) -> None:
    args = common.parse(common.parser(__doc__), argv)
    report = Report("inference", "Vectors of every node, two layers of 64 numbers", args)
    files = common.power_law_graph(args.dir, 10_000 if args.quick else 1_000_000)
    files.csc()
    files.features(WIDTH)
    names = [name for name in NAMES if name != PYG or common.pyg_sampler() is not None]
    if PYG not in names:
        report.note(f"{PYG} is missing: neither pyg-lib nor torch-sparse is here.")
    rounds = 1 if args.quick else 3
    rows: list[list[common.Cell]] = []
    results: list[dict[str, Any]] = []
    with ExitStack() as stack:
        workers = [
            stack.enter_context(Worker(name, "inference.py", files.config(), env=ONE_THREAD))
            for name in names
        ]
        for model in MODELS[: 2 if args.quick else None]:

            def ask(worker: Worker, number: int, model: str = model) -> Any:
                common.say(f"{model}, {worker.name}")
                path = files.folder / f"vectors-{names.index(worker.name)}.npy"
                return worker.ask("infer", model=model, save=str(path) if number < 0 else "")

            answers = take_turns(workers, rounds, ask)
            unlike = differences(files.folder, names)
            times = {n: {k: [a[k] for a in r] for k in r[0]} for n, r in answers.items()}
            for name in names:
                ratios = [
                    "-" if name == OURS else str(Ratio.paired(times[name][k], times[OURS][k]))
                    for k in ("seconds", "cpu_seconds")
                ]
                seconds = [statistics.median(times[name][k]) for k in ("seconds", "cpu_seconds")]
                rows.append([model, name, *ratios, *seconds, unlike[name]])
            results.append({"model": model, "times": times, "differences": unlike})
        memories = {worker.name: worker.ask("memory") for worker in workers}
    (files.folder / "vectors.npy").unlink(missing_ok=True)
    report.table(
        "All layers to the end, medians of the rounds",
        ["model", "contender", f"times as long as {OURS}", "times its processor time", "seconds",
         "processor seconds", "largest difference"],
        rows,
    )  # fmt: skip
    report.table(
        "Memory of the processes at the end",
        ["contender", "anonymous", "mapped files", "peak"],
        [[n, *(common.size(m[k]) for k in ("anonymous", "file", "peak"))]
         for n, m in memories.items()],
    )  # fmt: skip
    report.parameters = {"width": WIDTH, "batch": BATCH, "layers": 2, "rounds": rounds}
    report.data = {"models": results, "memory": memories}
    report.finish()


if __name__ == "__main__":
    try:
        serve(setup) if WORKER_ROLE in sys.argv else main()
    except WorkerError as error:
        raise SystemExit(str(error)) from None
