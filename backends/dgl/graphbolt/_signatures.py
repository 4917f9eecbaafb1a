"""Arguments in the form of the installed GraphBolt; names and places differ by version.

Between 2.1 and 2.5 the first arguments were renamed, and a window went into the middle of those of
``temporal_sample_neighbors``. So a call is read by the signature of GraphBolt's own method.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import dgl.graphbolt as gb
from aethergraph._checks.options import as_flag

__all__ = ["SIGNATURES", "Finished", "as_graphbolt", "read_call"]

Result = TypeVar("Result")

#: Signatures of the methods of GraphBolt's graph; methods that it lacks are missing.
SIGNATURES: dict[str, inspect.Signature] = {
    name: inspect.signature(getattr(gb.FusedCSCSamplingGraph, name))
    for name in (
        "sample_neighbors",
        "sample_layer_neighbors",
        "temporal_sample_neighbors",
        "temporal_sample_layer_neighbors",
    )
    if hasattr(gb.FusedCSCSamplingGraph, name)
}

#: Our names of arguments that were renamed.
_NAMES = {
    "seeds": "nodes",
    "seeds_timestamp": "input_nodes_timestamp",
    "seeds_pre_time_window": "window",
    "input_nodes_pre_time_window": "window",
    "returning_indices_and_original_edge_ids_are_optional": "ids_are_optional",
}


class Finished:
    """Finished result, for callers that wait for it."""

    def __init__(self, result: Any) -> None:
        self._result = result

    def wait(self) -> Any:
        """Return the result."""
        return self._result


def as_graphbolt(method: Callable[..., Result]) -> Callable[..., Result | Finished]:
    """Wrap a method so that it takes the arguments of the installed GraphBolt's method.

    ``async_op=True`` gives a finished object, whose ``wait()`` returns the result.
    """
    own = inspect.signature(method)

    @functools.wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Result | Finished:
        given = read_call(SIGNATURES.get(method.__name__, own), self, *args, **options)
        waiting = as_flag(given.pop("async_op", False), "async_op")
        result = method(self, **given)
        return Finished(result) if waiting else result

    # Readers of the signature, such as help(), are to find what a call takes.
    call.__signature__ = SIGNATURES.get(method.__name__, own)  # type: ignore[attr-defined]
    return call


def read_call(signature: inspect.Signature, *args: Any, **options: Any) -> dict[str, Any]:
    """Return the arguments of a call, but ``self``, by their names here.

    Raises:
        TypeError: arguments that the signature does not have, or lacks.
    """
    given = dict(signature.bind(*args, **options).arguments)
    given.pop("self")
    found = {_NAMES.get(name, name): value for name, value in given.items()}
    found.pop("ids_are_optional", None)  # original edge ids are always given
    return found
