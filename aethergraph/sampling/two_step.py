"""Samplers in two steps: what to draw, and what becomes of the sample.

A generator of ``Steps`` yields the batch to draw, is sent the sample, and returns what the sampler
makes of it. In between, a loader may draw for several batches at once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias

from aethergraph import _native as native

__all__ = ["Steps", "end_steps", "run_steps"]

Steps: TypeAlias = Generator[native.NativeBatch, Any, Any]


def run_steps(steps: Steps, draw: Callable[[native.NativeBatch], Any]) -> Any:
    """Return the result of ``steps``, its sample drawn by itself."""
    return end_steps(steps, draw(next(steps)))


def end_steps(steps: Steps, sample: Any) -> Any:
    """Send ``sample`` to ``steps`` and return the result that they end with."""
    try:
        steps.send(sample)
    except StopIteration as end:
        return end.value
    raise AssertionError("a sampler that asks for more than one sample")
