"""Ctrl-C at the beginning of each Python function that a change runs through.

What a signal handler raises comes between two instructions, most often where a function begins.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aethergraph
from aethergraph import DynamicGraph

PACKAGE = str(Path(aethergraph.__file__).parent)
ROW = np.ones((1, 1), np.float32)


def make(path: Path | None) -> DynamicGraph:
    options: dict[str, Any] = {"arena_mb": 16, "huge_pages": False}
    graph = (
        DynamicGraph(10, **options)
        if path is None
        else DynamicGraph.open(path, 10, durability="none", **options)
    )
    graph.node_attrs["x"] = np.zeros((10, 1), np.float32)
    return graph


def interrupted(call: Callable[[], object], at: int) -> bool:
    """Return whether ``call`` ran into the ``at``-th beginning of a function, where it ended."""
    left = at

    def interrupt(frame: Any, event: str, _: object) -> Any:
        nonlocal left
        code = frame.f_code
        # What a trace function raises where a generator goes on would skip its finally.
        if event == "call" and not code.co_flags & inspect.CO_GENERATOR:
            left -= code.co_filename.startswith(PACKAGE)
            if left == 0:
                left = -1
                raise KeyboardInterrupt
        return None

    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return left < 0


def transaction(graph: DynamicGraph) -> None:
    with graph.transaction():
        graph.insert_edges([1], [2])
        graph.update_nodes([1], x=ROW)
        graph.delete_edges([3], [2])
        graph.set_offset("s", 0, 3)


CHANGES: dict[str, Callable[[DynamicGraph], object]] = {
    "insert_edges": lambda graph: graph.insert_edges([1, 3], [2, 4]),
    "insert_edge": lambda graph: graph.insert_edge(1, 2),
    "delete_edges": lambda graph: graph.delete_edges([1], [2]),
    "add_nodes": lambda graph: graph.add_nodes(1, x=ROW),
    "update_nodes": lambda graph: graph.update_nodes([1], x=ROW),
    "transaction": transaction,
}


def state_of(graph: DynamicGraph) -> tuple[Any, ...]:
    """Return all that the changes may change."""
    src, dst, _ = graph.snapshot().edge_list()
    rows = graph.node_attrs["x"].gather(range(graph.num_nodes))[:, 0].tolist()
    return sorted(zip(src.tolist(), dst.tolist(), strict=True)), rows, graph.offsets("s")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # finalizers
@pytest.mark.parametrize(
    ("name", "durable"), [*((name, False) for name in CHANGES), ("transaction", True)]
)
def test_a_change_is_whole_or_not_there_and_the_next_one_goes_on(
    name: str, durable: bool, tmp_path: Path
) -> None:
    change = CHANGES[name]
    graph = make(None)
    before = state_of(graph)
    change(graph)
    allowed = (before, state_of(graph))
    for at in range(1, 1000, 7 if durable else 1):  # which takes its time to open
        path = tmp_path / str(at) if durable else None
        graph = make(path)
        was_cut = interrupted(lambda graph=graph: change(graph), at)
        found = state_of(graph)
        assert found in allowed, at
        if not was_cut:
            assert found == allowed[1]
            break
        graph.insert_edges([5], [6])
        graph.update_nodes([2], x=7 * ROW)
        found = state_of(graph)
        assert (5, 6) in found[0] and found[1][2] == 7
        graph.close()
        if path is not None:
            with DynamicGraph.open(path) as again:
                assert state_of(again) == found, at
    else:
        pytest.fail("the change never went through")
