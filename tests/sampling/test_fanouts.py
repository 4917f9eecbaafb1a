"""Fanouts: one check for the samplers of every framework, under the names of their arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aethergraph import errors
from aethergraph.sampling.fanouts import MAX_HOPS, as_fanout, as_fanouts, typed_fanouts

KINDS = [("user", "votes", "post"), ("post", "cites", "post")]


@pytest.mark.parametrize(
    "values", [[3, -1, 0], (3, -1, 0), np.array([3, -1, 0], np.int16), iter([3, -1, 0])], ids=type
)
def test_sequences_of_integers_are_taken(values: Any) -> None:
    found = as_fanouts(values)
    assert found == (3, -1, 0) and {type(count) for count in found} == {int}


@pytest.mark.parametrize(
    ("values", "position", "value", "text"),
    [
        (None, None, None, "has one number per hop, got None"),
        (5, None, None, r"has one number per hop: \[5\] for one hop"),
        ("ab", None, None, "has one number per hop, such as .* got 'ab'"),
        ({3: 1}, None, None, "has one number per hop, such as"),
        ({3, 4}, None, None, "has one number per hop, such as"),
        ([1] * (MAX_HOPS + 1), None, None, "has 1025 hops, at most 1024"),
        ([3, 1.5], 1, None, "is no integer: sizes must hold integers"),
        ([3, True], 1, None, r"sizes\[1\] = True is no integer"),
        (np.array([True]), 0, None, "is no integer"),
        (np.ones((2, 2), int), 0, None, "is no integer"),
        ([3, -2], 1, -2, r"sizes\[1\] = -2: a fanout is >= 0, or -1 for all"),
        ([2**63], 0, 2**63, r"sizes\[0\] = 9223372036854775808: the largest fanout is"),
    ],
)
def test_others_are_refused_by_name_and_position(
    values: Any, position: int | None, value: int | None, text: str
) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=text) as caught:
        as_fanouts(values, "sizes")
    assert str(caught.value).startswith("sizes")
    assert (caught.value.position, caught.value.value) == (position, value)


def test_another_rule() -> None:
    assert as_fanout(0, "count", minimum=0) == 0
    with pytest.raises(errors.InvalidArgumentError, match="count = -1: not below zero"):
        as_fanout(-1, "count", minimum=0, rule="not below zero")


def test_fanouts_by_edge_type() -> None:
    assert typed_fanouts([2, 3], KINDS) == dict.fromkeys(KINDS, (2, 3))
    assert typed_fanouts({KINDS[1]: [2, 3]}, KINDS) == {KINDS[0]: (0, 0), KINDS[1]: (2, 3)}
    for fanouts, text in (
        ({KINDS[0]: [1], KINDS[1]: [1, 2]}, r"sizes\[.*'votes'.*\] has 1 hops, another .* 2"),
        ({("a", "b", "c"): [1]}, r"sizes: \('a', 'b', 'c'\) is no edge type; there are: "),
        ({KINDS[0]: [-2]}, r"sizes\[.*'votes'.*\]\[0\] = -2"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=text):
            typed_fanouts(fanouts, KINDS, "sizes")
