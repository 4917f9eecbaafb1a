"""GraphSAGE with Ray: tasks of a cluster sample, workers of Ray Train learn from their batches.

The graph is opened by its path where sampling tasks run. A worker takes its share of the batches of
an epoch; all epochs are one dataset after the other.

    pip install "aethergraph[ray,pyg]" "ray[train]"
    python examples/ray_train_node_classification_pyg.py [--nodes 100000] [--epochs 4] [--quick]
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import ray
import torch
import torch.nn.functional as F
from node_classification_pyg import CLASSES, make_files
from ray.train import DataConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from torch_geometric.nn import GraphSAGE

from aethergraph import Graph
from aethergraph.pyg import NeighborLoader
from aethergraph.ray import collate_to_pyg, create_sampling_dataset

WORKERS = 2


def open_files(folder: Path) -> Graph:
    graph = Graph.load(folder / "graph.aeg")
    graph.load_features(folder / "features.npy")
    graph.load_features(folder / "labels.npy", name="y")
    return graph


def train(config: dict[str, Any]) -> None:
    """Train as one of Ray Train's workers."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = prepare_model(GraphSAGE(32, 64, num_layers=2, out_channels=CLASSES))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(config["epochs"]):
        # Each row is a sampled batch: equal numbers of them for all workers, in Ray's order.
        shard = ray.train.get_dataset_shard(f"epoch {epoch}")
        for row in shard.iter_batches(batch_size=1, batch_format="pyarrow"):
            batch = collate_to_pyg(row)
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            optimizer.zero_grad()
            F.cross_entropy(out, batch.y[: batch.batch_size]).backward()
            optimizer.step()
    if ray.train.get_context().get_world_rank() == 0:
        plain = model.module if hasattr(model, "module") else model
        torch.save(plain.state_dict(), config["model"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--quick", action="store_true", help="a small graph, two epochs")
    args = parser.parse_args()
    num_nodes, epochs = (6_000, 2) if args.quick else (args.nodes, args.epochs)
    ray.init(
        num_cpus=WORKERS + 2, include_dashboard=False, log_to_driver=False,
        logging_level=logging.ERROR, object_store_memory=256 << 20,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_files(folder, num_nodes)
        order = np.random.default_rng(0).permutation(num_nodes)
        cut = int(0.9 * num_nodes)
        files = {"x": str(folder / "features.npy"), "y": str(folder / "labels.npy")}
        trainer = TorchTrainer(
            train,
            train_loop_config={"epochs": epochs, "model": str(folder / "model.pt")},
            scaling_config=ScalingConfig(num_workers=WORKERS),
            run_config=RunConfig(storage_path=str(folder / "runs")),
            datasets={
                f"epoch {epoch}": create_sampling_dataset(
                    str(folder / "graph.aeg"), [10, 5], 256, input_nodes=order[:cut], seed=1,
                    epoch=epoch, features=files, drop_last=True,
                )
                for epoch in range(epochs)
            },
            dataset_config=DataConfig(),
        )  # fmt: skip
        trainer.fit()

        model = GraphSAGE(32, 64, num_layers=2, out_channels=CLASSES)
        model.load_state_dict(torch.load(folder / "model.pt", weights_only=True))
        right = 0
        with torch.no_grad():
            for batch in NeighborLoader(open_files(folder), [10, 5], order[cut:], batch_size=512):
                out = model(batch.x, batch.edge_index)[: batch.batch_size]
                right += int((out.argmax(1) == batch.y[: batch.batch_size]).sum())
        print(
            f"{epochs} epochs by {WORKERS} workers: test accuracy {right / (num_nodes - cut):.3f}"
        )
    ray.shutdown()


if __name__ == "__main__":
    main()
