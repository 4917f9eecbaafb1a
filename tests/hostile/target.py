"""What a target of the attack is.

A target makes, in a folder of prepared files, a callable and arguments with which it succeeds.
Every argument of its signature is then attacked, one at a time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["QUERIES", "Target", "methods", "some", "then"]

Call = tuple[Callable[..., Any], dict[str, Any]]

#: Arguments that are functions of the caller: what they raise is theirs.
CALLBACKS = {
    "progress", "remark", "stages", "transform", "transform_sampler_output", "function",
    "negative_sampler",
}  # fmt: skip

#: Queries of any graph of one type.
QUERIES: dict[str, dict[str, Any]] = {
    "has_edge": {"u": 0, "v": 1},
    "has_edges": {"u": [0], "v": [1]},
    "edges_between": {"u": [0], "v": [1]},
    "edge_ends": {"edges": [0]},
    "in_degrees": {"nodes": [0]},
    "out_degrees": {"nodes": [0]},
    "in_neighbors": {"node": 0},
    "neighbors": {"node": 0},
    "in_edges": {"node": 0},
    "out_edges": {"node": 0},
}


class Target(NamedTuple):
    """A public callable.

    ``builtins`` are the errors that others, which it calls, may raise beside AetherError.
    """

    name: str
    make: Callable[[Path], Call]
    builtins: tuple[type[Exception], ...] = ()
    #: Arguments that its signature hides in ``**kwargs``.
    more: tuple[str, ...] = ()
    #: Arguments that may be any object.
    takes_all: tuple[str, ...] = ()

    def arguments(self, folder: Path) -> list[str]:
        """The names of the arguments that can be attacked."""
        call, given = self.make(folder)
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        try:
            parameters = inspect.signature(call).parameters.values()
        except ValueError:  # compiled by mypyc: the arguments that are given
            return list(given)
        found = [p.name for p in parameters if p.kind in kinds]
        found += [name for name in (*given, *self.more) if name not in found]
        return [name for name in found if name not in CALLBACKS]


def methods(
    label: str, owner: Callable[[Path], Any], calls: Mapping[str, dict[str, Any]]
) -> Iterator[Target]:
    """Yield methods of one object, each with arguments with which it succeeds."""
    for name, given in calls.items():
        yield Target(
            f"{label}.{name}",
            lambda folder, name=name, given=given: (getattr(owner(folder), name), dict(given)),
        )


def then(make: Callable[..., Any], use: Callable[[Any], Any]) -> Callable[..., Any]:
    """``make``, whose result is used as well: options may be looked at late."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return use(make(*args, **kwargs))

    call.__signature__ = inspect.signature(make)  # type: ignore[attr-defined]
    return call


def some(iterable: Any) -> list[Any]:
    """The first items, of which there may be many."""
    return list(islice(iterable, 2))
