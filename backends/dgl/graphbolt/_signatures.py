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

__all__ = ["SIGNATURES", "Finished", "as_graphbolt", "call_reader"]

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

#: What reads the arguments of a call, by the method.
_READERS: dict[str, Callable[..., dict[str, Any]]] = {}

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
    name = method.__name__
    signature = SIGNATURES.get(name) or inspect.signature(method)
    _READERS[name] = call_reader(signature)

    @functools.wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Result | Finished:
        arguments = _READERS[name](self, *args, **options)
        waiting = "async_op" in arguments and as_flag(arguments.pop("async_op"), "async_op")
        result = method(self, **arguments)
        return Finished(result) if waiting else result

    # Readers of the signature, such as help(), are to find what a call takes.
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def call_reader(signature: inspect.Signature) -> Callable[..., dict[str, Any]]:
    """Return a function that returns the arguments of a call, but ``self``, by their names here.

    It raises TypeError for arguments that the signature does not have, or lacks.
    """
    _, *parameters = signature.parameters.values()
    names = {parameter.name: _NAMES.get(parameter.name, parameter.name) for parameter in parameters}
    places = [
        names[parameter.name]
        for parameter in parameters
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    needed = {
        names[parameter.name] for parameter in parameters if parameter.default is parameter.empty
    }

    def read(*args: Any, **options: Any) -> dict[str, Any]:
        # Binding a signature takes longer than a small sample: that is for calls that do not fit.
        arguments = dict(zip(places, args[1:], strict=False))
        arguments.update((names[name], value) for name, value in options.items() if name in names)
        if len(arguments) != len(args) - 1 + len(options) or not needed <= arguments.keys():
            signature.bind(*args, **options)
        arguments.pop("ids_are_optional", None)  # original edge ids are always given
        return arguments

    return read
