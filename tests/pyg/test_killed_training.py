"""A training process that is killed leaves its files as they were, and starts again."""

from __future__ import annotations

import hashlib
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from support.processes import WarmPython

from aethergraph import FeatureTable, Graph

pytestmark = pytest.mark.pyg

TRAIN = """
import sys
import torch
from torch_geometric.loader import NodeLoader
from torch_geometric.nn import GraphSAGE
from aethergraph import Graph
from aethergraph.pyg import FeatureStore, GraphStore, NeighborLoader, NeighborSampler

folder, kind, storage, epochs = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
torch.manual_seed(1)
torch.set_num_threads(1)
options = {} if storage == "mmap" else {"storage": storage, "memory_budget": "32M"}
graph = Graph.load(folder + "/graph.bin", **options)
graph.load_features(folder + "/features.npy", **options)
graph.load_features(folder + "/labels.npy", "y")
stores = FeatureStore.from_graph(graph), GraphStore(graph)
seeds = torch.arange(graph.num_nodes)
if kind == "own":
    loader = NeighborLoader(graph, [5, 5], seeds, batch_size=64, shuffle=True)
else:
    loader = NodeLoader(
        stores, NeighborSampler(stores, num_neighbors=[5, 5]), seeds, batch_size=64, shuffle=True,
        num_workers=2,
    )
model = GraphSAGE(16, 16, num_layers=2, out_channels=4)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(epochs):
    for batch in loader:
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        loss = torch.nn.functional.cross_entropy(out, batch.y[: batch.batch_size])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(float(loss.detach()), flush=True)
"""


def make_files(folder: Path) -> None:
    rng = np.random.default_rng(0)
    Graph.from_edges(800, *rng.integers(0, 800, (2, 16_000))).save(folder / "graph.bin")
    np.save(folder / "features.npy", rng.random((800, 16), np.float32))
    np.save(folder / "labels.npy", rng.integers(0, 4, 800))


def contents(folder: Path) -> dict[str, str]:
    return {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in sorted(os.listdir(folder))
    }


@pytest.mark.parametrize(("kind", "storage"), [("stock", "mmap"), ("own", "uring")])
def test_killed_training_starts_again(
    tmp_path: Path, warm_python: WarmPython, kind: str, storage: str
) -> None:
    files, beside = tmp_path / "files", tmp_path / "beside"
    files.mkdir()
    beside.mkdir()
    make_files(files)
    before = contents(files)
    (beside / "train.py").write_text(TRAIN)
    command = [beside / "train.py", files, kind, storage]
    killed = []
    os.mkfifo(beside / "losses")
    child = warm_python.start([*command, 1000], beside, beside / "losses")
    with open(beside / "losses") as losses:
        for _ in range(10):
            killed.append(losses.readline())
        os.kill(child, signal.SIGKILL)
        assert warm_python.wait() == -signal.SIGKILL
    assert contents(files) == before
    Graph.load(files / "graph.bin").verify()
    FeatureTable.load(files / "features.npy").verify()

    again = warm_python.run([*command, 1], beside)
    assert again.returncode == 0, again.stderr
    found = again.stdout.splitlines(keepends=True)
    assert len(found) == -(-800 // 64)
    assert found[:10] == killed, "the same batches as before"
    assert contents(files) == before
