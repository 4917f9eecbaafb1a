"""Training on a GPU: how long it waits for batches, and how rows and slots get there.

    python benchmarks/gpu.py [--quick] [--device cuda] [--batches 60] [--rounds 3]

One process, all cores. A three-layer GraphSAGE trains on batches of our NeighborLoader, of PyG's
stock NodeLoader over our stores, and of PyG's own NeighborLoader (pyg-lib below it), each with
pinned memory and without waiting for copies; loaders take turns. A DeviceLoader also
copies the next batch during the step. The same step on a batch that stays on the device says how
long a step takes when nothing is waited for.

Then rows: gathered into pinned memory and copied from there (``gather_to_device``), gathered and
copied from ordinary memory, and ``tensor[ids]`` as PyG does it. And slots of a live table, whose
checksums are computed where they lie (``validate_slots``).

Without a CUDA device everything runs on the CPU, which says whether it works and no more.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from harness import common
from harness.common import Cell, Ratio, Report
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader as PyGNeighborLoader
from torch_geometric.loader import NodeLoader
from torch_geometric.nn import GraphSAGE

from aethergraph import FeatureTable, Graph, LiveFeatureTable
from aethergraph.loading import Ahead
from aethergraph.pyg import DeviceLoader, FeatureStore, GraphStore, NeighborLoader, NeighborSampler
from aethergraph.pytorch import gather_to_device, validate_slots

FANOUTS, BATCH, WIDTH, CLASSES = [15, 10, 5], 1024, 128, 47


class Training:
    """A model on the device, and steps of it."""

    def __init__(self, device: torch.device) -> None:
        torch.manual_seed(0)
        self.device = device
        self._model = GraphSAGE(WIDTH, 256, 3, CLASSES).to(device)
        self._optimizer = torch.optim.Adam(self._model.parameters())

    def step(self, batch: Any) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        out = self._model(batch.x, batch.edge_index)[: batch.batch_size]
        torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size]).backward()
        self._optimizer.step()

    def epoch(self, loader: Any, most: int) -> tuple[float, float]:
        """Train on ``most`` batches; return seconds per batch and edges per batch."""
        edges, begun = 0, 0.0
        for number, batch in enumerate(loader):
            self.step(batch.to(self.device, non_blocking=True))
            if number == 0:  # workers and memory are there now
                self.wait()
                begun = time.perf_counter()
            else:
                edges += batch.num_edges
            if number == most:
                break
        self.wait()
        return (time.perf_counter() - begun) / most, edges / most

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def make_data(count: int) -> Data:
    rng = np.random.Generator(np.random.PCG64(0))
    src, dst = common.power_law_edges(count, 15 * count)
    return Data(
        x=torch.from_numpy(rng.standard_normal((count, WIDTH), np.float32)),
        y=torch.from_numpy(rng.integers(0, CLASSES, count)),
        edge_index=torch.from_numpy(np.stack((src, dst))),
    )


def loaders(data: Data, args: argparse.Namespace) -> dict[str, Callable[[int], Any]]:
    """Name -> how to make the loader of a round; without pyg-lib, PyG cannot sample."""
    graph = Graph.from_edges(data.num_nodes, *data.edge_index.numpy())
    graph.node_attrs["x"], graph.node_attrs["y"] = data.x.numpy(), data.y.numpy()
    table = LiveFeatureTable.create(None, data.num_nodes, WIDTH)
    table.put_many(np.arange(data.num_nodes), data.x.numpy())
    stores = FeatureStore.from_graph(graph), GraphStore(graph)
    sampler = NeighborSampler(stores, FANOUTS)

    def common_of(number: int) -> dict[str, Any]:
        order = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(number))
        return {
            "input_nodes": order[: (args.batches + 1) * args.batch], "batch_size": args.batch,
            "pin_memory": args.device.type == "cuda",
        }  # fmt: skip

    def ours(number: int, **options: Any) -> Any:
        given = {**common_of(number), **options}
        threads = min(4, args.cores)
        return NeighborLoader(graph, FANOUTS, **given, ahead=Ahead(4, threads=threads))

    made: dict[str, Callable[[int], Any]] = {
        "aethergraph NeighborLoader": ours,
        "... in a DeviceLoader": lambda n: DeviceLoader(ours(n), args.device),
        "... and rows of a live table": lambda n: DeviceLoader(
            ours(n, feature_source=table), args.device
        ),
        "... not pinned": lambda n: ours(n, pin_memory=False),
        "stock NodeLoader, aethergraph": lambda n: NodeLoader(stores, sampler, **common_of(n)),
    }
    if args.peer:
        some = args.workers
        made[f"PyG NeighborLoader, {some} workers"] = lambda n: PyGNeighborLoader(
            data, FANOUTS, **common_of(n), num_workers=some, persistent_workers=False
        )
        made["PyG NeighborLoader"] = lambda n: PyGNeighborLoader(data, FANOUTS, **common_of(n))
    return made


def training(args: argparse.Namespace, report: Report) -> None:
    data = make_data(args.nodes)
    made, model = loaders(data, args), Training(args.device)
    for make in made.values():
        model.epoch(make(99), 2)
    batch = next(iter(made["aethergraph NeighborLoader"](0))).to(args.device)
    alone, _ = model.epoch((batch for _ in range(args.batches + 1)), args.batches)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in made}
    for number in range(args.rounds):
        for name in sorted(made, reverse=bool(number % 2)):
            common.say(f"round {number}: {name}")
            found[name].append(model.epoch(made[name](number), args.batches))
    peers = [name for name in made if name.startswith("PyG")]
    best = min(peers, key=lambda name: statistics.median(s for s, _ in found[name]), default=None)
    rows: list[list[Cell]] = []
    for name, turns in found.items():
        seconds = [one for one, _ in turns]
        spent = statistics.median(seconds)
        rows.append([
            name, 1 / spent, 1e3 * spent, f"{100 * max(0.0, 1 - alone / spent):.0f} %",
            None if best is None else str(Ratio.paired([t for t, _ in found[best]], seconds)),
            statistics.mean(edges for _, edges in turns),
        ])  # fmt: skip
    report.table(
        f"training, batches of {args.batch} seeds, fanouts {FANOUTS}, {WIDTH} float32 features; a "
        f"step with its batch on the device takes {1e3 * alone:.3g} ms",
        ["loader", "batches/s", "ms per batch", "of it waited for the loader",
         "times PyG's best", "edges per batch"],
        rows,
    )  # fmt: skip
    report.data["training"] = {
        "alone": alone, **{name: [list(turn) for turn in turns] for name, turns in found.items()},
    }  # fmt: skip


def median_seconds(call: Callable[[], object], wait: Callable[[], None], count: int) -> float:
    call()
    wait()
    spent = []
    for _ in range(count):
        begun = time.perf_counter()
        call()
        wait()
        spent.append(time.perf_counter() - begun)
    return statistics.median(spent)


def rows_to_device(args: argparse.Namespace, report: Report) -> Iterator[Sequence[Cell]]:
    """Gather 100,000 rows each time, in three ways."""
    values = torch.randn(args.nodes, WIDTH)
    rows, model = FeatureTable.from_array(values.numpy()), Training(args.device)
    ids = torch.randint(0, args.nodes, (100_000,))
    numbers = ids.numpy()
    ways: dict[str, Callable[[], Tensor]] = {
        "gather_to_device": lambda: gather_to_device(rows, numbers, args.device),
        "gather, then copy": lambda: torch.from_numpy(rows.gather(numbers)).to(args.device),
        "tensor[ids], then copy": lambda: values[ids].to(args.device),
    }
    wanted = values[ids]
    for name, way in ways.items():
        if not torch.equal(way().cpu(), wanted):
            raise SystemExit(f"{name}: wrong rows")
        seconds = median_seconds(way, model.wait, args.repeats)
        report.data[name] = seconds
        yield name, len(ids) / seconds / 1e6, 4 * WIDTH * len(ids) / seconds / 1e9


def slots_on_device(args: argparse.Namespace, report: Report) -> Iterator[Sequence[Cell]]:
    """Validate 65,536 slots of 512 bytes each time."""
    count = 4096 if args.quick else 65_536
    table = LiveFeatureTable.create(None, count, WIDTH)
    table.put_many(np.arange(count), np.random.default_rng(0).random((count, WIDTH), np.float32))
    ids, raw = torch.arange(count), torch.from_numpy(table.slots.copy())
    broken = raw.clone()
    broken[7, 40] ^= 1
    devices = [torch.device("cpu"), args.device] if args.device.type == "cuda" else [args.device]
    for device in devices:
        there, own = raw.to(device), ids.to(device)
        model = Training(device)
        good = validate_slots(there, own, table.layout).ok
        bad = validate_slots(broken.to(device), own, table.layout).ok
        if not good.all() or bad.sum().item() != count - 1 or bad[7]:
            raise SystemExit(f"{device}: slots are judged wrongly")

        def call(there: Tensor = there, own: Tensor = own) -> object:
            return validate_slots(there, own, table.layout)

        seconds = median_seconds(call, model.wait, args.repeats)
        report.data[f"slots {device}"] = seconds
        yield str(device), count / seconds / 1e6, there.numel() / seconds / 1e9


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    made.add_argument("--batches", type=int, default=60, help="of each turn")
    made.add_argument("--rounds", type=int, default=3, help="turns of each loader")
    made.add_argument("--workers", type=int, default=8, help="processes of PyG's loader")
    args = common.parse(made, argv)
    args.device = torch.device(args.device)
    args.cores = torch.get_num_threads()
    args.peer = common.pyg_sampler() is not None
    args.nodes, args.batch, args.repeats = 2_000_000, BATCH, 20
    if args.quick:
        args.nodes, args.batch, args.batches, args.rounds, args.repeats = 20_000, 64, 2, 1, 2
        args.workers = 1
    report = Report("gpu", "Training on a GPU", args)
    where = torch.cuda.get_device_name(args.device) if args.device.type == "cuda" else "no GPU"
    report.parameters = {
        "device": where, "nodes": args.nodes, "edges": 15 * args.nodes, "batch": args.batch,
        "fanouts": FANOUTS, "batches": args.batches, "rounds": args.rounds,
    }  # fmt: skip
    report.note(f"Device: {where}. Power-law graph of {common.short(args.nodes)} nodes in memory.")
    training(args, report)
    report.table(
        "100,000 rows of 512 bytes to the device", ["way", "million rows/s", "GB/s"],
        rows_to_device(args, report),
    )  # fmt: skip
    report.table(
        "slots of a live table, validated on", ["device", "million slots/s", "GB/s"],
        slots_on_device(args, report),
    )  # fmt: skip
    if not args.peer:
        report.note(
            "PyG's own loader is missing: neither pyg-lib nor torch-sparse can be imported."
        )
    report.finish()


if __name__ == "__main__":
    main()
