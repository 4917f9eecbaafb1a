"""Run a program for PyTorch Geometric, unchanged, with the loaders of this package.

::

    python -m aethergraph.accelerate train.py --epochs 10
    python -m aethergraph.accelerate -m package.train --epochs 10

Every ``NeighborLoader``, ``LinkNeighborLoader``, ``HGTLoader``, ``ShaDowKHopSampler``,
``NodeLoader`` and ``LinkLoader`` that the program makes by the names in ``torch_geometric.loader``
is made by :mod:`aethergraph.pyg` instead, where that has the same;
:func:`aethergraph.pyg.accelerate` says when. What was replaced, what not, and why, is written to
standard error. Neither pyg-lib nor torch-sparse is needed for loaders that are replaced.

PyG's classes stay what they are: a class that a program derives from them makes batches as it did
(which is said, too), and a loader is an instance of the class that it was made by. ``loader.data``
is the pair of stores (:class:`~aethergraph.pyg.stores.Stores`).
Attributes that the program assigns to its
``Data`` later are in the batches from the next epoch on.
This module changes nothing when it is only imported.
"""

from __future__ import annotations

import inspect
import os
import runpy
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch_geometric.loader as pyg_loader

from aethergraph import pyg
from aethergraph.errors import AetherError
from aethergraph.pyg._accelerate import (
    check_fanouts,
    check_layout,
    check_seeds,
    why_derived_stays,
)
from aethergraph.pyg._loading import LoaderMixin

__all__ = ["main"]


class _Made:
    """Initialised already: Python initialises again what ``__new__`` returns."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass


class AcceleratedNeighborLoader(_Made, pyg.NeighborLoader):
    """Loader that a program has made as PyG's ``NeighborLoader`` or ``NodeLoader``."""


class AcceleratedLinkNeighborLoader(_Made, pyg.LinkNeighborLoader):
    """Loader that a program has made as PyG's ``LinkNeighborLoader`` or ``LinkLoader``."""


class AcceleratedHGTLoader(_Made, pyg.HGTLoader, pyg_loader.HGTLoader):  # type: ignore[misc]
    """Loader that a program has made as PyG's ``HGTLoader``, or ``NodeLoader`` of its sampler."""


class AcceleratedShaDowKHopSampler(
    _Made,
    pyg.ShaDowKHopSampler,
    pyg_loader.ShaDowKHopSampler,  # type: ignore[misc]
):
    """Loader that a program has made as PyG's ``ShaDowKHopSampler``."""


_MADE = {
    pyg.NeighborLoader: AcceleratedNeighborLoader,
    pyg.LinkNeighborLoader: AcceleratedLinkNeighborLoader,
    pyg.HGTLoader: AcceleratedHGTLoader,
    pyg.ShaDowKHopSampler: AcceleratedShaDowKHopSampler,
}
#: Classes of PyG's whose arguments ours take.
_FASTER: dict[type, Any] = {
    pyg_loader.NeighborLoader: pyg.NeighborLoader,
    pyg_loader.LinkNeighborLoader: pyg.LinkNeighborLoader,
    pyg_loader.HGTLoader: pyg.HGTLoader,
    pyg_loader.ShaDowKHopSampler: pyg.ShaDowKHopSampler,
}
#: Classes that take a sampler, which says what they sample.
_GENERAL: tuple[type, ...] = (pyg_loader.NodeLoader, pyg_loader.LinkLoader)
#: Classes that sample one graph into other batches; PyG's versions have more and fewer of them.
_WITHOUT: tuple[type, ...] = tuple(
    getattr(pyg_loader, name)
    for name in (
        "ClusterLoader", "GraphSAINTSampler", "IBMBBatchLoader", "IBMBNodeLoader",
        "NeighborSampler", "RandomNodeLoader",
    )
    if hasattr(pyg_loader, name)
)  # fmt: skip


class Replacements:
    """Loaders that a program makes: by which class, and why not by ours.

    Args:
        path: the program, whose lines are named; None: a module.
    """

    def __init__(self, path: str | None) -> None:
        self._path = None if path is None else os.path.abspath(path)
        self._reported: set[str] = set()

    def install(self) -> None:
        """Let PyG's classes make our loaders; classes derived from them stay as they are."""
        for kind in (*_FASTER, *_GENERAL, *_WITHOUT):
            kind.__new__ = self._maker(kind)  # type: ignore[method-assign]

    def _maker(self, kind: type) -> Callable[..., Any]:
        def make(cls: type, *args: Any, **kwargs: Any) -> Any:
            loader = None
            if kind in _WITHOUT:
                self._report(cls, "stays PyG's: no loader of aethergraph.pyg makes its batches")
            elif cls is kind:
                loader = self.make(kind, args, kwargs)
            elif not (
                cls.__module__.startswith("torch_geometric.") or issubclass(cls, LoaderMixin)
            ):
                self._report(cls, f"stays as it is: {why_derived_stays(kind)}")
            return object.__new__(cls) if loader is None else loader

        return make

    def make(self, kind: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the loader that the program asks for; None if it stays PyG's."""
        try:
            loader = self._make_faster(kind, args, kwargs)
        except AetherError as error:
            self._report(kind, f"stays PyG's: {error}")
            return None
        self._report(kind, f"is aethergraph.pyg.{type(loader).__name__}")
        loader.__class__ = _MADE[type(loader)]
        return loader

    def _make_faster(self, kind: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        faster = _FASTER.get(kind)
        bound = inspect.signature(kind.__init__).bind(None, *args, **kwargs)  # type: ignore[misc]
        if faster is None or bound.arguments.get("neighbor_sampler") is not None:
            stock: Any = object.__new__(kind)
            stock.__init__(*args, **kwargs)
            return pyg.accelerate(stock)
        data = bound.arguments["data"]
        check_layout(data)
        check_seeds(bound.arguments.get("input_nodes", bound.arguments.get("node_idx")))
        if kind in (pyg_loader.NeighborLoader, pyg_loader.LinkNeighborLoader):
            check_fanouts(bound.arguments["num_neighbors"], data)
        return faster(*args, **kwargs)

    def _report(self, kind: type, outcome: str) -> None:
        line = f"aethergraph: {self._place()}: {kind.__name__} {outcome}"
        if line not in self._reported:
            self._reported.add(line)
            print(line, file=sys.stderr, flush=True)

    def _place(self) -> str:
        """Return the line of the program that makes a loader, or the file outside it that does."""
        frames = [f for f in inspect.stack(context=0)[1:] if f.filename != __file__]
        lines = [f for f in frames if f.filename == self._path]
        frame = (lines or frames)[0]
        return f"{os.path.relpath(frame.filename)}:{frame.lineno}"


def main(arguments: list[str]) -> None:
    """Run ``arguments[0]``, a path, with the rest as its arguments, as Python itself would.

    After ``-m`` comes the name of a module.
    """
    if not arguments or arguments[0] in ("-h", "--help") or arguments == ["-m"]:
        print("usage: python -m aethergraph.accelerate PROGRAM.py [ARGUMENTS]", file=sys.stderr)
        print("       python -m aethergraph.accelerate -m MODULE [ARGUMENTS]", file=sys.stderr)
        raise SystemExit(0 if arguments and arguments != ["-m"] else 2)
    sys.excepthook = _show_error
    if arguments[0] == "-m":
        Replacements(None).install()
        sys.argv[:] = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    path = os.path.abspath(arguments[0])
    if not os.path.isfile(path):
        raise SystemExit(f"aethergraph: {arguments[0]!r} is no file: give the path of a program")
    Replacements(path).install()
    sys.argv[:] = arguments
    if not getattr(sys.flags, "safe_path", False):  # since Python 3.11
        sys.path[0] = os.path.dirname(path)
    runpy.run_path(path, run_name="__main__")


def _show_error(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
    """Print a traceback that begins with the program, not with what runs it."""
    while at is not None and (
        at.tb_frame.f_code.co_filename == __file__
        or at.tb_frame.f_globals.get("__name__") == runpy.__name__
    ):
        at = at.tb_next
    sys.__excepthook__(kind, error.with_traceback(at), at)


if __name__ == "__main__":
    # By its own name, so that workers find the classes: __main__ will be the program.
    from aethergraph.accelerate import main as run_program

    run_program(sys.argv[1:])
