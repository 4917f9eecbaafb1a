"""Run a program for PyTorch Geometric, unchanged, with the loaders of this package.

::

    python -m aethergraph.accelerate train.py --epochs 10

Every ``NeighborLoader``, ``LinkNeighborLoader``, ``HGTLoader``, ``ShaDowKHopSampler``,
``NodeLoader`` and ``LinkLoader`` that the program makes by the names in ``torch_geometric.loader``
is made by :mod:`aethergraph.pyg` instead, where that has the same;
:func:`aethergraph.pyg.accelerate` says when. What was replaced, what not, and why, is written to
standard error. Neither pyg-lib nor torch-sparse is needed for loaders that are replaced.

The names are looked up in a program while it is imported, so they are exchanged before it starts;
this module changes nothing when it is only imported.
"""

from __future__ import annotations

import inspect
import os
import runpy
import sys
from typing import Any

import torch_geometric.loader as pyg_loader

from aethergraph import pyg
from aethergraph.errors import AetherError
from aethergraph.pyg._accelerate import check_layout

__all__ = ["Replacements", "main"]

#: Classes of PyG's whose arguments ours take.
_FASTER: dict[type, Any] = {
    pyg_loader.NeighborLoader: pyg.NeighborLoader,
    pyg_loader.LinkNeighborLoader: pyg.LinkNeighborLoader,
    pyg_loader.HGTLoader: pyg.HGTLoader,
    pyg_loader.ShaDowKHopSampler: pyg.ShaDowKHopSampler,
}
#: Classes that take a sampler, which says what they sample.
_GENERAL: tuple[type, ...] = (pyg_loader.NodeLoader, pyg_loader.LinkLoader)


class Replacements:
    """Loaders that a program makes: by which class, and why not by ours.

    Args:
        path: the program, whose lines are named.
    """

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
        self._reported: set[str] = set()

    def install(self) -> None:
        """Exchange the classes in ``torch_geometric.loader`` and where they are defined."""
        for kind in (*_FASTER, *_GENERAL):
            replacement = _stand_in(kind, self)
            for module in (pyg_loader, sys.modules[kind.__module__]):
                setattr(module, kind.__name__, replacement)

    def make(self, kind: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the loader that the program asks for, of our class if that has the same."""
        try:
            loader = self._make_faster(kind, args, kwargs)
        except AetherError as error:
            self._report(kind, f"stays PyG's: {error}")
            return kind(*args, **kwargs)
        self._report(
            kind, f"is {type(loader).__module__.split('.')[0]}.pyg.{type(loader).__name__}"
        )
        return loader

    def _make_faster(self, kind: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        faster = _FASTER.get(kind)
        bound = inspect.signature(kind).bind(*args, **kwargs)
        if faster is None or bound.arguments.get("neighbor_sampler") is not None:
            return pyg.accelerate(kind(*args, **kwargs))
        check_layout(bound.arguments["data"])
        return faster(*args, **kwargs)

    def _report(self, kind: type, outcome: str) -> None:
        line = f"aethergraph: {self._place()}: {kind.__name__} {outcome}"
        if line not in self._reported:
            self._reported.add(line)
            print(line, file=sys.stderr, flush=True)

    def _place(self) -> str:
        """Return the line of the program that makes a loader, or the file outside it that does."""
        frames = [f for f in inspect.stack(context=0)[1:] if f.filename != __file__]
        lines = [f for f in frames if os.path.abspath(f.filename) == self._path]
        frame = (lines or frames)[0]
        return f"{os.path.relpath(frame.filename)}:{frame.lineno}"


class _StandInType(type):
    """Type of the stand-ins, so that ``isinstance`` answers as for the class of PyG's."""

    stands_for: type

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.stands_for) or type.__instancecheck__(cls, instance)


def _stand_in(kind: type, replacements: Replacements) -> type:
    """Make a class that makes our loader, unless the program derives a class of its own from it."""

    def make(cls: type, *args: Any, **kwargs: Any) -> Any:
        if cls is stand_in:  # an object of another class, which is not initialised again
            return replacements.make(kind, args, kwargs)
        return object.__new__(cls)

    members = {
        "__new__": make, "__module__": kind.__module__, "__doc__": kind.__doc__, "stands_for": kind,
    }  # fmt: skip
    stand_in = _StandInType(kind.__name__, (kind,), members)
    return stand_in


def main(arguments: list[str]) -> None:
    """Run ``arguments[0]``, a path, with the rest as its arguments, as Python itself would."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: python -m aethergraph.accelerate PROGRAM.py [ARGUMENTS]", file=sys.stderr)
        raise SystemExit(0 if arguments else 2)
    path = arguments[0]
    if not os.path.isfile(path):
        raise SystemExit(f"aethergraph: {path!r} is no file: give the path of a Python program")
    Replacements(path).install()
    sys.argv[:] = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    runpy.run_path(path, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
