"""describe_function: texts that tell functions from others of their name."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from aethergraph.inference.fingerprints import describe_function


def scaled(factor: Any) -> Callable[[Any], Any]:
    return lambda rows: rows * factor


def default(factor: Any) -> Callable[..., Any]:
    def scale(rows: Any, by: Any = factor) -> Any:
        return rows * by

    return scale


class Scale:
    def __init__(self, factor: Any) -> None:
        self.factor, self._calls = factor, 0

    def __call__(self, rows: Any) -> Any:
        self._calls += 1
        return rows * self.factor

    def method(self, rows: Any) -> Any:
        return self(rows)


class Options:
    def __init__(self, factor: Any) -> None:
        self.factor = factor

    def scale(self, rows: Any) -> Any:
        return rows * self.factor


@pytest.mark.parametrize(
    "make",
    [
        scaled, default, Scale, lambda factor: Scale(factor).method,
        lambda factor: Options(factor).scale, lambda factor: scaled(Options(factor)),
        lambda factor: partial(np.multiply, factor), lambda factor: partial(scaled(2), by=factor),
        lambda factor: scaled(scaled(factor)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("values", [(2, 3), (np.arange(9), np.arange(9) * 2), ((1, 2), (1, 3))])
def test_functions_that_differ_in_a_value(make: Callable[[Any], Any], values: Any) -> None:
    first, second = values
    assert describe_function(make(first)) == describe_function(make(first))
    assert describe_function(make(first)) != describe_function(make(second))


def test_functions_that_differ_in_their_code() -> None:
    plus, minus = (lambda rows: rows + 1), (lambda rows: rows - 1)
    assert describe_function(plus) != describe_function(minus)
    assert describe_function(plus) != describe_function(lambda rows: rows + 2)


def test_objects_without_attributes_and_in_circles() -> None:
    assert describe_function(np.sum).startswith("sum")
    scale = Scale(1)
    scale.factor = scale
    assert describe_function(scale).startswith("Scale")


def test_processes_that_order_sets_otherwise_agree() -> None:
    program = """
    from aethergraph.inference.fingerprints import describe_function
    print(describe_function(lambda name: name in {"a", "b", "c", "d", "e"}))
    """
    texts = {
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in range(4)
    }  # fmt: skip
    assert len(texts) == 1
