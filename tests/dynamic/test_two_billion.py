"""A graph of two billion nodes, written to by one thread and read by another meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest

from aethergraph import DynamicGraph

RunPython = Callable[..., "CompletedProcess[str]"]


def test_queries_of_a_graph_of_two_billion_nodes(run_python: RunPython) -> None:
    """Opened with 8 GiB of room, it takes memory for the edges that it has."""
    done = run_python(
        """
        import numpy as np
        from aethergraph import DynamicGraph

        def resident():
            with open("/proc/self/status") as status:
                return sum(int(line.split()[1]) for line in status if line.startswith("Rss"))

        before = resident()
        graph = DynamicGraph(num_vertices=2_000_000_000, arena_mb=8192)
        user_id, post_id = 1_999_999_999, 7
        graph.insert_edge(user_id, post_id)
        rng = np.random.default_rng(0)
        src_array, dst_array = rng.integers(0, 2_000_000_000, (2, 100))
        graph.insert_edges(src_array, dst_array)
        graph.insert_edges([user_id] * 3, [9, 3, 7])

        neighbors = graph.neighbors(user_id)
        assert isinstance(neighbors, np.ndarray) and neighbors.tolist() == [3, 7, 9]
        assert graph.degree(user_id) == 3 and graph.degree(5) == 0
        assert graph.has_edge(user_id, post_id) and not graph.has_edge(post_id, user_id)
        assert graph.num_nodes == 2_000_000_000 and graph.num_edges == 103
        for src, dst in zip(src_array.tolist(), dst_array.tolist()):
            assert dst in graph.neighbors(src)
        print(resident() - before)
        """
    )
    assert int(done.stdout) < 50_000  # KiB; 32 bytes for each node would be 62 million


@pytest.mark.parametrize("order", ["id", "time"])
def test_loaders_take_few_of_two_billion_nodes(order: Any) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    from aethergraph.pyg import NeighborLoader

    graph = DynamicGraph(num_vertices=2_000_000_000, arena_mb=64, order=order)
    nodes = np.arange(0, 2_000_000_000, 10_000_000)
    graph.insert_edges(nodes, np.roll(nodes, 1))
    train_idx = torch.from_numpy(nodes)
    loader = NeighborLoader(
        graph, num_neighbors=[15, 10], batch_size=128, input_nodes=train_idx, shuffle=True
    )
    found = []
    for batch in loader:
        ends = batch.n_id[batch.edge_index]
        assert all(graph.has_edge(u, v) for u, v in ends.t().tolist())
        assert batch.num_sampled_edges[0] == batch.batch_size
        found += batch.n_id[: batch.batch_size].tolist()
        assert (train_idx[batch.input_id] == batch.n_id[: batch.batch_size]).all()
    assert sorted(found) == nodes.tolist()
