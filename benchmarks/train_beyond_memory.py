"""A whole training run on data 8 times larger than the memory allowed (root, Linux cgroups).

    sudo python benchmarks/train_beyond_memory.py [--quick] [--limit 1G] [--only ...]

The README's way larger than memory, to the end: GraphSAGE through PyG's stock NodeLoader over
our stores, on a labelled graph (aethergraph.testing.graphs.CommunityGraph), topology and
features on disk. Then the in-memory way, PyG's NeighborLoader over Data, in the same limit. Each
runs in a process that starts in a fresh cgroup; the files are dropped from the page cache
before, which counts against the limit. The table says how each ended, with the kernel's own
count of processes killed for lack of memory.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from contenders.outofcore_samplers import Missing, device_bytes
from harness import common
from harness.cgroups import AnonymousPeak, cgroup, parse_size
from harness.common import Report

STOCK_MMAP = "stock NodeLoader, aethergraph mmap"
STOCK_URING = "stock NodeLoader, aethergraph uring"
OWN_URING = "aethergraph NeighborLoader uring"
IN_MEMORY = "PyG NeighborLoader, Data in memory"
NAMES = (STOCK_MMAP, STOCK_URING, OWN_URING, IN_MEMORY)
FANOUTS, BATCH, HIDDEN, CLASSES, WIDTH = [15, 10], 128, 64, 8, 128


@dataclass(frozen=True)
class Task:
    """What every contender trains."""

    folder: str
    epochs: int
    train_nodes: int
    test_nodes: int
    budget: int

    @property
    def graph(self) -> Path:
        return Path(self.folder) / "graph.bin"

    @property
    def features(self) -> Path:
        return Path(self.folder) / "features.bin"

    @property
    def labels(self) -> Path:
        return Path(self.folder) / "labels.npy"

    @property
    def files(self) -> tuple[Path, ...]:
        return self.graph, self.features, self.labels


# ---- a contender (child) -----------------------------------------------------------------------


def say(event: str, **values: Any) -> None:
    print(json.dumps({"event": event, **values}), flush=True)


def stock_loader(task: Task, storage: str) -> Any:
    """Return the README's stock loader as ``nodes -> loader``."""
    from torch_geometric.loader import NodeLoader

    from aethergraph.pyg import FeatureStore, GraphStore, NeighborSampler

    graph = open_graph(task, storage)
    stores = FeatureStore.from_graph(graph), GraphStore(graph)
    sampler = NeighborSampler(stores, num_neighbors=FANOUTS)
    return lambda nodes, shuffle: NodeLoader(
        stores, sampler, nodes, batch_size=BATCH, shuffle=shuffle
    )


def own_loader(task: Task, storage: str) -> Any:
    from aethergraph.pyg import NeighborLoader

    graph = open_graph(task, storage)
    return lambda nodes, shuffle: NeighborLoader(
        graph, FANOUTS, nodes, batch_size=BATCH, shuffle=shuffle
    )


def open_graph(task: Task, storage: Any) -> Any:
    from aethergraph import Graph

    options: dict[str, Any] = {"storage": storage}
    if storage == "uring":
        options["memory_budget"] = task.budget
    try:
        graph = Graph.load(task.graph, **options)
        graph.load_features(task.features, **options)
    except ValueError as error:
        if "storage" not in str(error):
            raise
        raise Missing(str(error)) from None
    graph.load_features(task.labels, "y")
    return graph


def in_memory_loader(task: Task, storage: str) -> Any:
    import torch
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader

    from aethergraph import FeatureTable, Graph

    with FeatureTable.load(task.features) as store:
        x = torch.from_numpy(np.array(store.array))
    say("features loaded")
    with Graph.load(task.graph) as graph:
        edges = torch.stack([torch.from_numpy(ids) for ids in graph.edge_index()])
    data = Data(x=x, y=torch.from_numpy(np.load(task.labels)), edge_index=edges)
    say("edges loaded")
    return lambda nodes, shuffle: NeighborLoader(
        data, FANOUTS, nodes, batch_size=BATCH, shuffle=shuffle
    )


def train(name: str, task: Task) -> None:
    """Train and test; one line of JSON per event on stdout."""
    import torch
    from torch_geometric.nn import GraphSAGE

    say("imported")
    make = {OWN_URING: own_loader, IN_MEMORY: in_memory_loader}.get(name, stock_loader)
    loader = make(task, name.split()[-1])
    num_nodes = np.load(task.labels, mmap_mode="r").shape[0]
    chosen = np.random.default_rng(1).choice(
        num_nodes, task.train_nodes + task.test_nodes, replace=False
    )
    nodes = torch.from_numpy(chosen)
    train_nodes, test_nodes = nodes[: task.train_nodes], nodes[task.train_nodes :]
    torch.manual_seed(1)
    model = GraphSAGE(WIDTH, HIDDEN, num_layers=2, out_channels=CLASSES)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    say("opened")
    for epoch in range(1, task.epochs + 1):
        start, cpu, read = time.perf_counter(), time.process_time(), device_bytes()
        model.train()
        for batch in loader(train_nodes, True):
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            loss = torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        trained = time.perf_counter()
        used = {
            "cpu_seconds": time.process_time() - cpu, "device_bytes": device_bytes() - read,
        }  # fmt: skip
        right = accuracy(model, loader(test_nodes, False))
        say(
            "epoch", epoch=epoch, seconds=trained - start, accuracy=right,
            test_seconds=time.perf_counter() - trained, loss=float(loss.detach()), **used,
        )  # fmt: skip
    say("done")


def accuracy(model: Any, loader: Iterable[Any]) -> float:
    import torch

    model.eval()
    right = total = 0
    with torch.no_grad():
        for batch in loader:
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            right += int((out.argmax(1) == batch.y[: batch.batch_size]).sum())
            total += batch.batch_size
    return right / total


# ---- the parent --------------------------------------------------------------------------------


def make_files(folder: Path, num_nodes: int) -> None:
    """graph.bin with ten edges per node, features.bin and labels.npy, on first use."""
    from aethergraph import FeatureTable, Graph
    from aethergraph.testing.graphs import CommunityGraph

    if (folder / "labels.npy").exists():  # written last
        return
    folder.mkdir(parents=True, exist_ok=True)
    common.say(f"making a graph of {num_nodes:,} nodes with {WIDTH} features")
    made = CommunityGraph(num_nodes, 10 * num_nodes, CLASSES, WIDTH)
    plain = folder / "features.npy"
    made.write_features(plain)
    FeatureTable.load(plain).save(folder / "features.bin")
    plain.unlink()
    src, dst = made.edges()
    Graph.from_edges(num_nodes, src, dst).save(folder / "graph.bin")
    np.save(folder / "labels.part.npy", made.labels)
    (folder / "labels.part.npy").rename(folder / "labels.npy")


def run(name: str, task: Task, limit: int) -> dict[str, Any]:
    """Train in a fresh cgroup; how far it came, how it ended, and the peaks."""
    for path in task.files:
        common.drop_from_cache(path)
    command = [sys.executable, __file__, "--train", name, json.dumps(asdict(task))]
    events: list[dict[str, Any]] = [{"event": "started"}]
    with cgroup(limit) as group, AnonymousPeak(group) as anonymous:
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, preexec_fn=group.enter,
            # Else torch's OpenMP threads spin, and their waiting counts as processor time.
            env={**os.environ, "PYTHONWARNINGS": "ignore", "OMP_WAIT_POLICY": "passive"},
        )  # fmt: skip
        assert child.stdout is not None
        with child.stdout:
            for line in child.stdout:
                events.append(json.loads(line))
                common.say(line.strip())
        status = child.wait()
        peak, kills = group.peak, group.oom_kills
    last = events[-1]
    status = 128 - status if status < 0 else status
    return {
        "missing": last.get("reason"),
        "exit_code": status,
        "oom_kills": kills,
        "last_event": last["event"],
        "epochs": [event for event in events if event["event"] == "epoch"],
        "cgroup_peak": peak,
        "anonymous_peak": anonymous.bytes,
    }


def ending(result: dict[str, Any]) -> str:
    if result["exit_code"] == 0:
        return "trained to the end, exit code 0"
    if result["exit_code"] == 128 + signal.SIGKILL and result["oom_kills"]:
        return f"**killed for lack of memory**, exit code 137, after: {result['last_event']}"
    return f"failed, exit code {result['exit_code']}, after: {result['last_event']}"


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--limit", type=parse_size, help="bytes, such as 2G (default: 1G)")
    made.add_argument("--nodes", type=int, help="nodes; ten edges each (default: 16M)")
    made.add_argument("--epochs", type=int, help="default: 3")
    made.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    args = common.parse(made, argv)
    limit = args.limit or 2**30
    with cgroup(limit):  # can we? before the files are made
        pass
    num_nodes = args.nodes or (20_000 if args.quick else 16_000_000)
    folder = args.dir / f"train-{common.short(num_nodes)}"
    make_files(folder, num_nodes)
    task = Task(
        str(folder), args.epochs or (1 if args.quick else 3), *((1_280, 256) if args.quick
        else (12_800, 5_120)), limit // 8,
    )  # fmt: skip
    needed = sum(path.stat().st_size for path in task.files)
    times = needed / limit
    report = Report(
        "train_beyond_memory",
        f"Training on {common.size(needed)} within {common.size(limit)}: {times:.1f} times",
        args,
    )
    results: dict[str, dict[str, Any]] = {}
    for name in args.only:
        common.say(f"{name}, limit {common.size(limit)}, data {common.size(needed)}")
        found = run(name, task, limit)
        if found["missing"] is not None:
            report.note(f"{name}: {found['missing']}")
            continue
        results[name] = found
        common.say(ending(found))
    report.parameters = {
        "limit": limit, "data_bytes": needed, "nodes": num_nodes, "edges": 10 * num_nodes,
        "width": WIDTH, "fanouts": FANOUTS, "batch": BATCH, "epochs": task.epochs,
        "train_nodes": task.train_nodes, "test_nodes": task.test_nodes, "budget": task.budget,
    }  # fmt: skip
    report.data = {"runs": results}
    report.table(
        f"{task.epochs} epochs of {-(-task.train_nodes // BATCH)} batches",
        ["", "how it ended", "processes killed for lack of memory", "seconds per epoch",
         "processor seconds per epoch", "GB read per epoch", "test accuracy after each, %",
         "peak charged to the cgroup", "of it anonymous"],
        [
            [name, ending(r), r["oom_kills"],
             ", ".join(f"{event['seconds']:.0f}" for event in r["epochs"]) or "-",
             ", ".join(f"{event['cpu_seconds']:.0f}" for event in r["epochs"]) or "-",
             ", ".join(f"{event['device_bytes'] / 1e9:.1f}" for event in r["epochs"]) or "-",
             ", ".join(f"{100 * event['accuracy']:.1f}" for event in r["epochs"]) or "-",
             *(common.size(r[key]) if r[key] else "-" for key in ("cgroup_peak",
                                                                  "anonymous_peak"))]
            for name, r in results.items()
        ],
    )  # fmt: skip
    if times < 8:
        report.note(f"The data is only {times:.2g} times larger than the limit.")
    report.finish()


def child(name: str, task: Task) -> None:
    try:
        train(name, task)
    except Missing as reason:
        say("missing", reason=str(reason))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--train"]:
        child(sys.argv[2], Task(**json.loads(sys.argv[3])))
    else:
        main()
