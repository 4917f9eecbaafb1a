"""Two training processes share the seeds, and each samples what one process would."""

from __future__ import annotations

import multiprocessing

import pytest
import torch
from support.dgl import block_edges, make_graph
from support.dgl_ranks import COUNT, work
from support.training_ranks import found_by_ranks

from aethergraph.dgl import GraphStorage, NeighborSampler


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    folder = tmp_path_factory.mktemp("processes")
    multiprocessing.set_forkserver_preload(["aethergraph.dgl"])  # DGL is imported once for both
    torch.multiprocessing.start_processes(work, (str(folder),), 2, start_method="forkserver")
    return found_by_ranks(2, folder)


@pytest.mark.parametrize("name", ["dataloading", "workers", "graphbolt"])
def test_two_processes(name: str, found: list[dict]) -> None:
    storage, sampler = GraphStorage(make_graph()), NeighborSampler([2, 3], seed=1)
    parts = [one[name] for one in found]
    seeds = [{node for nodes, _ in batches for node in nodes} for batches in parts]
    assert seeds[0] | seeds[1] == set(range(COUNT)) and not seeds[0] & seeds[1]
    for batches in parts:
        for nodes, edges in batches:
            _, _, blocks = sampler.sample(storage, torch.tensor(nodes))
            assert edges == [block_edges(block) for block in blocks]
