"""Edge lists longer than one numpy call takes: converted, checked and ordered in pieces."""

from __future__ import annotations

import numpy as np
import pytest

from aethergraph import Graph
from aethergraph._checks.arrays import STRETCH, as_ids
from aethergraph._native import Task
from aethergraph.errors import CancelledError, InvalidArgumentError, OutOfRangeError
from aethergraph.graph.orders import inverse, sorting_order, take

_LARGEST, _LOWEST = np.iinfo(np.int64).max, np.iinfo(np.int64).min


@pytest.mark.own_share
@pytest.mark.parametrize(
    "values",
    [
        [7, -3, 7, 0],
        [_LARGEST, _LOWEST, 0, -1, 1, _LOWEST + 1],
        [5],
        [0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, 5e-324, -5e-324, -1e300, 1e300],
        [0.5, 0.25, 1.0, 2.0, 1.75, -3.0],
    ],
    ids=["few", "whole range", "equal", "floats", "float32"],
)
def test_many_times_are_sorted_stably(values: list[float]) -> None:
    rng = np.random.default_rng(0)
    times = rng.choice(np.array(values), STRETCH + 5)
    found = sorting_order(times)
    if len(values) == 1:
        assert found is None
    else:
        assert found is not None and found.dtype == np.uint32
        assert (found == np.argsort(times, kind="stable")).all()


def test_few_times_are_sorted_stably() -> None:
    times = np.tile([2, 0, 1], 400)
    assert (sorting_order(times) == np.argsort(times, kind="stable")).all()


def test_the_last_of_many_times_is_moved() -> None:
    times = np.arange(2 * STRETCH + 1) * 3 - 1000
    assert sorting_order(times) is None
    times[STRETCH] = times[STRETCH - 1] - 1  # between two stretches
    found = sorting_order(times)
    assert found is not None and (found == np.argsort(times, kind="stable")).all()


def test_a_bad_value_behind_many_is_named() -> None:
    count = STRETCH + 5
    ends = np.zeros(count, np.int32)
    values = np.ones(count, np.float16)
    values[-2] = -1
    with pytest.raises(InvalidArgumentError, match=rf"edge_weight\[{count - 2}\] = -1"):
        Graph.from_edges(1, ends, ends, edge_weight=values)
    values[-2] = np.nan
    with pytest.raises(InvalidArgumentError, match=rf"edge_time\[{count - 2}\] = nan"):
        Graph.from_edges(1, ends, ends, edge_time=values)
    dates = np.zeros(count, "M8[s]")
    dates[-1] = "NaT"
    with pytest.raises(InvalidArgumentError, match=rf"edge_time\[{count - 1}\] = NaT"):
        Graph.from_edges(1, ends, ends, edge_time=dates)
    ids = np.zeros(count, np.uint64)
    ids[-3] = 2**63
    with pytest.raises(OutOfRangeError, match=rf"src\[{count - 3}\] = {2**63}"):
        Graph.from_edges(1, ids, ends)


def test_many_ids_of_another_dtype_are_converted() -> None:
    ids = np.random.default_rng(0).integers(0, 5, STRETCH + 5)
    for given in (ids.astype(">i4"), np.repeat(ids, 2)[::2], ids.astype(np.uint64)):
        found = as_ids(given, "ids")
        assert found.dtype == np.int64 and found.flags.c_contiguous and (found == ids).all()


def test_a_cancelled_order_stops() -> None:
    order = np.arange(10, dtype=np.uint32)
    task = Task(0)
    task.cancel()
    with pytest.raises(CancelledError):
        inverse(order, task)
    with pytest.raises(CancelledError):
        take(order, order, task)
