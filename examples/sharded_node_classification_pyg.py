"""GraphSAGE by several processes, on a graph whose lists and rows lie on several servers.

Trainers have no file: every batch is sampled from the servers, each of which has a range of the
lists and of the rows. The ranks share the batches of an epoch, and the batches are those of one
machine with the whole file.

    aethergraph serve graph.aeg --graph --shard 0/2 --tcp HOST:9999 --token-file F --tls CERT KEY
    torchrun --nproc-per-node 2 examples/sharded_node_classification_pyg.py --graph tcp://HOST:9999,...

Without --graph it makes a graph, serves it in two shards, and trains with two processes of its own.

    python examples/sharded_node_classification_pyg.py [--nodes 100000] [--epochs 4] [--quick]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from node_classification_pyg import CLASSES, make_files
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn import GraphSAGE

from aethergraph import Graph
from aethergraph.loading import Order
from aethergraph.pyg import NeighborLoader
from aethergraph.remote import open_graph

SHARDS = RANKS = 2


def train(url: str, epochs: int) -> None:
    """Train as one of the ranks of a process group."""
    torch.set_num_threads(1)  # ranks share the cores
    torch.manual_seed(1)  # all ranks begin with the same model
    graph = open_graph(url)
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    cut = int(0.9 * len(order))
    options = {"batch_size": 256, "seed": 1}
    share, keep = Order(world_size="auto"), Order(world_size="auto", last_round="keep")
    train, test = order[:cut], order[cut:]
    train_loader = NeighborLoader(graph, [10, 5], train, shuffle=True, order=share, **options)
    test_loader = NeighborLoader(graph, [10, 5], test, order=keep, **options)
    width = graph.node_attrs["x"].shape[1]
    model = DistributedDataParallel(GraphSAGE(width, 64, num_layers=2, out_channels=CLASSES))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(1, epochs + 1):
        for batch in train_loader:
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            optimizer.zero_grad()
            F.cross_entropy(out, batch.y[: batch.batch_size]).backward()
            optimizer.step()
        counts = torch.zeros(2)
        with torch.no_grad():
            for batch in test_loader:
                out = model.module(batch.x, batch.edge_index)[: batch.batch_size]
                right = (out.argmax(1) == batch.y[: batch.batch_size]).sum()
                counts += torch.tensor([float(right), float(batch.batch_size)])
        dist.all_reduce(counts)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: test accuracy {counts[0] / counts[1]:.3f}", flush=True)
    dist.barrier()


def serve_and_train(num_nodes: int, epochs: int) -> None:
    """Make a graph, serve it in shards, and train with processes of this program."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        make_files(folder, num_nodes)
        graph = Graph.load(folder / "graph.aeg")
        graph.load_features(folder / "features.npy")
        graph.load_features(folder / "labels.npy", name="y")
        graph.save(folder / "served.aeg")  # with the features: servers have one file each
        servers = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "aethergraph", "serve", folder / "served.aeg", "--graph",
                     "--tcp", "127.0.0.1:0",
                     "--shard", f"{number}/{SHARDS}"],
                    stdout=subprocess.PIPE, text=True,
                )
            )
            for number in range(SHARDS)
        ]  # fmt: skip
        places = []
        for one in servers:
            stack.callback(one.terminate)
            assert one.stdout is not None
            line = one.stdout.readline()  # serving ... at tcp://127.0.0.1:45678
            places.append(line.split(" at tcp://")[1].split()[0])
        meet = f"file://{folder}/meet"
        torch.multiprocessing.start_processes(
            as_rank, (f"tcp://{','.join(places)}", epochs, meet), nprocs=RANKS, start_method="fork"
        )


def as_rank(rank: int, url: str, epochs: int, meet: str) -> None:
    """Train as one of the ranks that this program started."""
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=RANKS)
    train(url, epochs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graph", help="URL of the servers of all shards")
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--quick", action="store_true", help="a small graph, two epochs")
    args = parser.parse_args()
    num_nodes, epochs = (6_000, 2) if args.quick else (args.nodes, args.epochs)
    if args.graph is None:
        serve_and_train(num_nodes, epochs)
    else:  # one of torchrun's processes
        dist.init_process_group("gloo")
        train(args.graph, epochs)


if __name__ == "__main__":
    main()
