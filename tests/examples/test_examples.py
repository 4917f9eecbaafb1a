"""Every example runs to its end with --quick and learns something."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.processes import WarmPython
from support.serving import address_in, served

from aethergraph import Graph

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# The last line's first number with --quick must be at least this.
LEAST = {
    "numpy_only.py": None,
    "node_classification_pyg.py": 0.7,
    "node_vectors_pyg.py": 0.6,
    "link_prediction_pyg.py": 0.6,
    "node2vec_pyg.py": 0.7,
    "hetero_node_classification_pyg.py": 0.65,
    "temporal_link_prediction_pyg.py": 0.7,
    "relational_frame_pyg.py": 0.7,
    "live_node_classification_pyg.py": 0.7,
    "served_node_classification_pyg.py": 0.7,
    "live_link_prediction_pyg.py": 0.68,
    "streaming_link_prediction_pyg.py": 0.68,
    "lightning_node_classification_pyg.py": 0.7,
    "sharded_node_classification_pyg.py": 0.7,
    "ray_train_node_classification_pyg.py": 0.7,
    "node_classification_dgl.py": 0.7,
    "live_node_classification_dgl.py": 0.7,
    "node_classification_graphbolt_dgl.py": 0.65,
    "link_prediction_dgl.py": 0.6,
    "link_prediction_graphbolt_dgl.py": 0.57,
    "hetero_node_classification_dgl.py": 0.65,
    "hetero_node_classification_graphbolt_dgl.py": 0.65,
}
#: Those that run by default, one for each framework: the others train other models the same way.
OFTEN = {"numpy_only.py", "node_classification_pyg.py", "node_classification_dgl.py"}
# PYTHONSAFEPATH, which the test runner may set, would hide one example from another.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}


@pytest.fixture(scope="module")
def python() -> Iterator[WarmPython]:
    there = [name for name in ("torch_geometric", "dgl") if importlib.util.find_spec(name)]
    with WarmPython(there, ENVIRONMENT) as warm:
        yield warm


def test_every_example_is_listed() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(LEAST)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in OFTEN else pytest.mark.slow) for name in sorted(LEAST)],
)
def test_example(name: str, tmp_path: Path, python: WarmPython) -> None:
    if "pyg" in name:
        pytest.importorskip("torch_geometric")
    if "frame" in name:
        pytest.importorskip("torch_frame", reason="PyTorch Frame is not installed")
    if "lightning" in name:
        pytest.importorskip("pytorch_lightning", reason="Lightning is not installed")
    if name.startswith("ray"):
        pytest.importorskip("ray.train", reason="Ray Train is not installed: ray[train]")
        if "AETHERGRAPH_SOAK" not in os.environ:
            pytest.skip("a local cluster takes long: ./scripts/test.sh soak")
    if "dgl" in name:
        pytest.importorskip("dgl", reason="no DGL here: ./scripts/test.sh dgl")
    done = python.run([EXAMPLES / name, "--quick"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    least = LEAST[name]
    if least is not None:
        found = re.findall(r"0\.\d+", done.stdout.splitlines()[-1])
        assert float(found[0]) >= least, done.stdout
        # Links that are not recent, or none, tell next to nothing; nor does a model of long ago.
        if name.startswith(("temporal", "live")):
            assert max(map(float, found[1:])) < float(found[0]) - 0.2, done.stdout


def test_sharded_under_torchrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The form for servers elsewhere, as the page on scaling out shows it."""
    pytest.importorskip("torch_geometric")
    if "AETHERGRAPH_SOAK" not in os.environ:
        pytest.skip("the example by itself trains the same model: ./scripts/test.sh soak")
    monkeypatch.syspath_prepend(EXAMPLES)
    importlib.import_module("node_classification_pyg").make_files(tmp_path, 6_000)
    graph = Graph.load(tmp_path / "graph.aeg")
    graph.load_features(tmp_path / "features.npy")
    graph.load_features(tmp_path / "labels.npy", name="y")
    graph.save(tmp_path / "served.aeg")
    with ExitStack() as servers:
        places = []
        for shard in ("0/2", "1/2"):
            where = ("--graph", "--tcp", "127.0.0.1:0", "--shard", shard)
            _, line = servers.enter_context(served(tmp_path / "served.aeg", *where))
            places.append(address_in(line).removeprefix("tcp://"))
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
             str(EXAMPLES / "sharded_node_classification_pyg.py"),
             "--graph", f"tcp://{','.join(places)}", "--epochs", "2"],
            capture_output=True, text=True, timeout=500, check=False, cwd=tmp_path, env=ENVIRONMENT,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("epoch 2: ") and float(last.split()[-1]) > 0.7, done.stdout
