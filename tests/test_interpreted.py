"""Samples are the same whether mypyc compiled the modules of the package or not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import aethergraph

PACKAGE = Path(aethergraph.__file__).parent

#: Typed, timed and weighted samples, and batches of the loader, whose modules mypyc compiles.
SCRIPT = """
import hashlib, sys
import numpy as np
from aethergraph import Graph, HeteroGraph, HeteroNeighborSampler, NeighborSampler
from aethergraph._parallel import prefetch
from aethergraph import SubgraphLoader

digest = hashlib.sha256()

def add(*parts):
    for part in parts:
        if isinstance(part, dict):
            add(*part.keys(), *part.values())
        elif isinstance(part, (tuple, list)):
            add(*part)
        elif isinstance(part, np.ndarray):
            digest.update(f"{part.dtype}{part.shape}".encode() + part.tobytes())
        else:
            digest.update(repr(part).encode())

rng = np.random.default_rng(1)
src, dst = rng.integers(0, 300, (2, 6000))
graph = Graph.from_edges(
    300, src, dst, edge_weight=rng.random(6000), edge_time=rng.integers(-20, 20, 6000)
)
graph.features = rng.random((300, 5))
hetero = HeteroGraph.from_edges(
    {("user", "votes", "post"): (src, dst), ("post", "in", "forum"): (dst, src % 7)},
    {"user": 300, "post": 300, "forum": 7},
    edge_weight={("user", "votes", "post"): rng.random(6000)},
    edge_time={("post", "in", "forum"): rng.integers(-20, 20, 6000)},
    add_reverse=True,
)
variants = [{}, {"replace": True}, {"weight_attr": "edge_weight"}, {"disjoint": True}]
for last in ("uniform", "last"):
    for weight in ({}, {"weight_attr": "edge_weight"}):
        timed = {"time_attr": "edge_time", "temporal_strategy": last, **weight}
        variants += [timed, {**timed, "strict": True, "window": 9}]
for options in variants:
    one = NeighborSampler(graph, [5, 3], **options)
    many = HeteroNeighborSampler(hetero, [3, 2, 2], **options)
    for key in range(5):
        ids = (np.arange(12) * 7 + key) % 300
        times = {"seed_time": np.arange(12) - 6} if "time_attr" in options else {}
        typed = {name: {"post": value} for name, value in times.items()}
        add(vars(one.sample(ids, key=key, **times)))
        add(vars(many.sample({"post": ids}, key=key, **typed)))
for batch in SubgraphLoader(graph, [4, 4], batch_size=32, shuffle=True, seed=3):
    add(vars(batch.subgraph), batch.x)
print(digest.hexdigest(), prefetch.__file__, sep="\\n")
"""


def run(path: str | None) -> tuple[str, str]:
    """The digest, and the file of a module that setup.py may compile."""
    env = {**os.environ, **({} if path is None else {"PYTHONPATH": path})}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=500,
        env=env,
        cwd=path,  # which comes before PYTHONPATH
    )
    assert done.returncode == 0, done.stderr
    digest, file = done.stdout.split()
    return digest, file


def test_the_interpreted_package_draws_the_same(tmp_path: Path) -> None:
    """A copy of the package without what mypyc compiled, beside the build that is tested."""
    copy = tmp_path / "aethergraph"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for extension in copy.rglob("*.so"):
        if extension.with_name(extension.name.split(".")[0] + ".py").exists():
            extension.unlink()
    found, file = run(str(tmp_path))
    assert file == str(copy / "_parallel" / "prefetch.py")
    expected, own = run(None)
    assert Path(own).parent == PACKAGE / "_parallel"
    assert found == expected
