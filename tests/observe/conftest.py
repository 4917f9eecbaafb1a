"""A folder for sockets, graphs that count what they read, and an observer that ends off."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aethergraph import Graph


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(runtime: Path) -> None:
    """Let every test here have the folder."""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with graph.aeg and x.npy of 500 nodes."""
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 500, (2, 5000))
    Graph.from_edges(500, *ends).save(tmp_path / "graph.aeg")
    np.save(tmp_path / "x.npy", rng.random((500, 16), dtype=np.float32))
    return tmp_path


@pytest.fixture
def paged(files: Path) -> Graph:
    """A graph whose lists and features are read from files."""
    graph = Graph.load(files / "graph.aeg", storage="uring", memory_budget="64M")
    graph.load_features(files / "x.npy", storage="uring", memory_budget="1M")
    return graph
