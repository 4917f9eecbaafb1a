"""Texts that tell functions and objects from others of their name, as far as can be seen.

A function is its code, its defaults and what it closes over; an object is its class and its public
attributes. What globals a function reads is not looked at, nor what is behind native code.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping
from typing import Any

from aethergraph.loading.state import describe

__all__ = ["describe_attributes", "describe_function", "name_of"]

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_DEEPEST = 4  # containers and closures within each other


def name_of(layer: Any) -> str:
    """Return the name of a function, or of the class of an object."""
    return str(getattr(layer, "__qualname__", None) or type(layer).__qualname__)


def describe_function(function: Any, depth: int = 0) -> str:
    """Return a text that is another one where a function, or an object that is called, differs."""
    if isinstance(function, functools.partial):
        bound = (function.func, *function.args, *sorted(function.keywords.items()))
        return f"partial({', '.join(_describe(part, depth + 1) for part in bound)})"
    if isinstance(function, types.MethodType):
        owner = _describe(function.__self__, depth + 1)
        return f"{describe_function(function.__func__, depth)} of {owner}"
    name = name_of(function)
    if isinstance(function, types.FunctionType):
        cells = [_contents(cell) for cell in function.__closure__ or ()]
        values = (function.__defaults__, function.__kwdefaults__, *cells)
        parts = [
            _describe_code(function.__code__, depth + 1),
            *(_describe(part, depth + 1) for part in values),
        ]
        return f"{name} {describe(' '.join(parts))}"
    return name if isinstance(function, type) or not hasattr(function, "__dict__") else (
        f"{name} {describe(describe_attributes(function, depth))}"
    )  # fmt: skip


def describe_attributes(value: Any, depth: int = 0) -> str:
    """Return a text of the public attributes of an object: its options, not what it works with."""
    attributes = sorted(getattr(value, "__dict__", {}).items())
    return " ".join(
        f"{name}={_describe(item, depth + 1)}"
        for name, item in attributes
        if not name.startswith("_") and name != "training"
    )


def _describe(value: Any, depth: int) -> str:
    if isinstance(value, _PLAIN):
        return repr(value)
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return describe(value)
    if depth > _DEEPEST:
        return type(value).__qualname__
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(_describe(item, depth + 1) for item in value)}]"
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(_describe(item, depth + 1) for item in value))}}}"
    if isinstance(value, Mapping):
        items = (f"{_describe(k, depth + 1)}: {_describe(v, depth + 1)}" for k, v in value.items())
        return f"{{{', '.join(items)}}}"
    if isinstance(value, types.CodeType):
        return _describe_code(value, depth + 1)
    if callable(value):
        return describe_function(value, depth + 1)
    return f"{type(value).__qualname__}({describe_attributes(value, depth + 1)})"


def _describe_code(code: types.CodeType, depth: int) -> str:
    constants = ", ".join(_describe(constant, depth) for constant in code.co_consts)
    return f"{code.co_code.hex()} {constants} {code.co_names}"


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None
