"""Integers of 64 bits keep their value or are refused, whatever stands beside them in a list.

numpy makes floats of lists with integers below 0 or below 2^63 beside one of 2^63 or more.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aethergraph import DynamicGraph, FeatureStore, Graph, NeighborSampler, RandomWalker, errors
from aethergraph._checks.exact import array_of
from aethergraph.ids import IdMap

#: The first is no float64; the last two make float64 of lists that they are in.
LARGE = [2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1]


@pytest.mark.parametrize("values", [LARGE, [-1, *LARGE], [[2**53 + 1, 2**63], [0, 1]], [], [-1]])
def test_lists_of_integers_become_no_floats(values: list[Any]) -> None:
    array = array_of(values)
    assert array.tolist() == values
    assert not len(values) or array.dtype.kind in "iuO"


def test_floats_stay_floats() -> None:
    for values in ([1.5, 2**63], [np.nan, 2.0**63], [2.0**63, 1], [True, 2.0**64]):
        assert array_of(values).dtype == np.float64
    assert array_of((np.float32(1.5), np.float32(2))).dtype == np.float32


def live() -> DynamicGraph:
    return DynamicGraph(4, 8, order="time", edge_time="int64", huge_pages=False)


def graph() -> Graph:
    return Graph.from_edges(4, [0, 1], [1, 2], layout="both")


#: Uses of ids and times that are int64, each with integers of the user.
SIGNED: dict[str, Callable[[list[int]], Any]] = {
    "seeds": lambda values: NeighborSampler(graph(), [2]).sample(values),
    "ends": lambda values: Graph.from_edges(4, values, [0] * len(values)),
    "edge times": lambda values: Graph.from_edges(
        4, [0] * len(values), [1] * len(values), edge_time=values
    ),
    "starts": lambda values: RandomWalker(graph()).walk(values, 2),
    "rows": lambda values: FeatureStore.from_array(np.eye(4)).gather(values),
    "live ends": lambda values: live().insert_edges(
        values, [0] * len(values), time=[0] * len(values)
    ),
    "live times": lambda values: live().insert_edges(
        [0] * len(values), [1] * len(values), time=values
    ),
    "keys": lambda values: IdMap.build("unused", [values], "int64"),
}


@pytest.mark.parametrize("use", SIGNED)
@pytest.mark.parametrize("values", [[2**53 + 1, 2**63], [-1, 2**63], [2**64 - 1, 2**53 + 1, -1]])
def test_what_int64_does_not_hold_is_named(
    use: str, values: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    at = next(at for at, value in enumerate(values) if value >= 2**63)
    with pytest.raises(errors.AetherError, match=rf"\b{values[at]}\b") as refused:
        SIGNED[use](values)
    assert getattr(refused.value, "position", at) == at


def test_keys_and_times_are_exact(tmp_path: Path) -> None:
    found = IdMap.build(tmp_path / "keys", [LARGE], "uint64")
    assert found.keys([0, 1, 2, 3]).tolist() == LARGE
    assert found.lookup(LARGE[::-1]).tolist() == [3, 2, 1, 0]
    assert found.lookup([-1, *LARGE], missing="mark").tolist() == [-1, 0, 1, 2, 3]
    signed = IdMap.build(tmp_path / "signed", [[-1, 2**53 + 1, 2**63 - 1]], "int64")
    asked = [2**63, -1, 2**64 - 1, 2**53, 2**53 + 1]
    assert signed.lookup(asked, missing="mark").tolist() == [-1, 0, -1, -1, 1]
    times = [-1, 2**53 + 1, 2**63 - 1]
    timed = Graph.from_edges(4, [0] * 3, [1, 2, 3], edge_time=times)
    assert timed.edge_time is not None
    assert sorted(np.asarray(timed.edge_time).tolist()) == times


@pytest.mark.parametrize("null", [None, float("nan")])
def test_a_missing_value_beside_them_is_no_other_number(tmp_path: Path, null: Any) -> None:
    for kind in ("int64", "uint64"):
        with pytest.raises(errors.InvalidArgumentError, match="key 1 is missing"):
            IdMap.build(tmp_path / kind, [[2**53 + 1, null]], kind)
    with pytest.raises(errors.InvalidArgumentError):
        Graph.from_edges(4, [2**53 + 1, null], [0, 1])
    with pytest.raises(errors.InvalidArgumentError):
        Graph.from_edges(4, [0, 1], [1, 2], edge_time=[2**53 + 1, null])
