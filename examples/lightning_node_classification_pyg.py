"""GraphSAGE with Lightning: stock LightningNodeData over our stores, stopped and gone on with.

PyG's own data module makes PyG's stock loaders; the stores and the sampler are ours. The run is
stopped after half of the epochs and goes on from Lightning's checkpoint.

    python examples/lightning_node_classification_pyg.py [--nodes 100000] [--epochs 4] [--quick]
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from node_classification_pyg import CLASSES, make_files
from torch_geometric.data.lightning import LightningNodeData
from torch_geometric.nn import GraphSAGE

from aethergraph import Graph
from aethergraph.pyg import FeatureStore, GraphStore, NeighborSampler

try:
    import lightning.pytorch as lightning
except ImportError:
    import pytorch_lightning as lightning


class Classifier(lightning.LightningModule):
    """Two layers, trained on the seeds of a batch."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.model = GraphSAGE(num_features, 64, num_layers=2, out_channels=CLASSES)

    def share(self, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
        out = self.model(batch.x, batch.edge_index)[: batch.batch_size]
        return out, batch.y[: batch.batch_size]

    def training_step(self, batch: Any, number: int) -> torch.Tensor:
        out, labels = self.share(batch)
        return F.cross_entropy(out, labels)

    def test_step(self, batch: Any, number: int) -> None:
        out, labels = self.share(batch)
        right = (out.argmax(1) == labels).float().mean()
        self.log("accuracy", right, batch_size=batch.batch_size)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)


def make_data(folder: Path) -> LightningNodeData:
    """Make the data module over files; every process of a training would."""
    graph = Graph.load(folder / "graph.aeg")
    graph.load_features(folder / "features.npy")
    graph.load_features(folder / "labels.npy", name="y")
    stores = FeatureStore.from_graph(graph), GraphStore(graph)
    order = torch.from_numpy(np.random.default_rng(0).permutation(graph.num_nodes))
    cut = int(0.8 * len(order))
    return LightningNodeData(
        stores, input_train_nodes=order[:cut], input_test_nodes=order[cut:],
        node_sampler=NeighborSampler(stores, [10, 5]), batch_size=256, num_workers=0,
    )  # fmt: skip


def make_trainer(folder: Path, epochs: int) -> Any:
    return lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", devices=1, default_root_dir=folder, logger=False,
        enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--quick", action="store_true", help="a small graph, two epochs")
    args = parser.parse_args()
    num_nodes, epochs = (6_000, 2) if args.quick else (args.nodes, args.epochs)
    logging.getLogger(lightning.__name__).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"lightning|pytorch_lightning")

    lightning.seed_everything(1, verbose=False)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_files(folder, num_nodes)
        model, trainer = Classifier(32), make_trainer(folder, epochs // 2)
        trainer.fit(model, make_data(folder))
        trainer.save_checkpoint(folder / "half.ckpt")

        model, trainer = Classifier(32), make_trainer(folder, epochs)  # as in another process
        trainer.fit(model, make_data(folder), ckpt_path=folder / "half.ckpt")
        (found,) = trainer.test(model, make_data(folder), verbose=False)
        print(f"{trainer.current_epoch} epochs, test accuracy {found['accuracy']:.3f}")


if __name__ == "__main__":
    main()
