"""Live graphs of many nodes, most of them without edges: queries cost what is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aethergraph import DynamicGraph, DynamicHeteroGraph, errors

pytestmark = pytest.mark.any_python

RunPython = Callable[..., "CompletedProcess[str]"]
ends = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20)
#: Nodes far from each other, on pages of their own.
PLACES = np.array([0, 1, 255, 256, 257, 70_000, 1_000_000, 1_500_000, 2_999_998, 2_999_999])


@settings(deadline=None, max_examples=30)
@given(
    inserted=ends,
    deleted=ends,
    layout=st.sampled_from(["csc", "csr", "both"]),
    order=st.sampled_from(["id", "time"]),
)
def test_queries_are_those_of_a_small_graph(
    inserted: Any, deleted: Any, layout: Any, order: Any
) -> None:
    few = DynamicGraph(10, 16, layout=layout, order=order, huge_pages=False)
    many = DynamicGraph(3_000_000, 16, layout=layout, order=order, huge_pages=False)
    for pairs, change in ((inserted, "insert_edges"), (deleted, "delete_edges")):
        src, dst = np.array(pairs, np.int64).reshape(-1, 2).T
        getattr(few, change)(src, dst)
        getattr(many, change)(PLACES[src], PLACES[dst])
    src, dst, ids = few.edge_list()
    found = many.edge_list()
    assert found[0].tolist() == PLACES[src].tolist()
    assert found[1].tolist() == PLACES[dst].tolist()
    assert found[2].tolist() == ids.tolist()
    now = many.snapshot()
    many.insert_edges([5], [6])  # nobody's node, after the snapshot
    assert now.edge_list()[2].tolist() == ids.tolist()
    for ask in ("in_degrees", "out_degrees"):
        if layout != {"in_degrees": "csr", "out_degrees": "csc"}[ask]:
            degrees = getattr(now, ask)()
            assert len(degrees) == 3_000_000
            assert degrees[PLACES].tolist() == getattr(few, ask)().tolist()
            assert degrees.sum() == len(ids)
    if len(ids):
        assert now.edge_ends(ids)[0].tolist() == PLACES[src].tolist()


@pytest.mark.slow
def test_billions_of_nodes_take_no_memory(run_python: RunPython, tmp_path: Path) -> None:
    done = run_python(
        """
        import sys
        import numpy as np
        from aethergraph import DynamicGraph, errors

        def resident():
            with open("/proc/self/status") as status:
                return sum(int(line.split()[1]) for line in status if line.startswith("Rss"))

        graph = DynamicGraph.open(
            sys.argv[1], 2_000_000_000, 64, order="time", edge_time="int64", huge_pages=False
        )
        nodes = np.arange(0, 2_000_000_000, 4_000_000)
        graph.insert_edges(nodes, nodes[::-1], time=nodes)
        before = resident()
        src, dst = graph.edge_index()
        assert (src == nodes).all() and (dst == nodes[::-1]).all()
        assert graph.in_degrees().sum() == len(nodes)
        assert graph.snapshot().edge_list()[2][-1] == len(nodes) - 1
        graph.close()
        graph = DynamicGraph.open(sys.argv[1], arena_mb=64)
        assert graph.edge_attrs == {} and graph.num_edges == len(nodes)
        print(resident() - before)
        """,
        str(tmp_path / "g"),
    )
    assert int(done.stdout) < 200_000  # KiB; 16 bytes for each node are 31 million


def test_what_takes_memory_for_each_node_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from aethergraph.storage import memory

    monkeypatch.setattr(memory, "available_memory", lambda: 1 << 30)
    graph = DynamicGraph(1_000_000_000, 16, order="time")
    graph.insert_edge(1, 2)
    assert graph.in_degrees([2]).tolist() == [1]
    with pytest.raises(
        errors.OutOfMemoryError, match=r"static graph of 1000000000 nodes.*7\.5 GiB"
    ):
        graph.to_graph()
    with pytest.raises(errors.OutOfMemoryError, match="offsets of 1000000000 lists"):
        graph.csr()
    typed = DynamicHeteroGraph({"a": 1_000_000_000}, [("a", "to", "a")], 16)
    typed["a", "to", "a"].insert([1], [2])
    assert typed["a", "to", "a"].edge_list()[1].tolist() == [2]
    with pytest.raises(errors.OutOfMemoryError, match="static graph"):
        typed.to_graph()
