"""Exceptions of the package, as they come from worker processes: pickled, and copied."""

from __future__ import annotations

import builtins
import copy
import importlib
import inspect
import pickle
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aethergraph
from aethergraph import errors
from aethergraph.convert import InputError
from aethergraph.testing import LeakError

ROOT = Path(aethergraph.__file__).parent
CLASS = re.compile(r"^class (\w+)\(([^)]*)\)", re.M)


def exceptions() -> Iterator[type[BaseException]]:
    """Yield all exceptions of the package whose modules can be imported here."""
    classes = [
        (module_of(path), name, set(re.findall(r"\w+", bases)))
        for path in sorted(ROOT.rglob("*.py"))
        for name, bases in CLASS.findall(path.read_text("utf-8"))
    ]
    names = {name for name, one in vars(builtins).items() if is_error(one)}
    found: set[tuple[str, str]] = set()
    more = True
    while more:  # until no class is derived from those that were found
        new = {(module, name) for module, name, bases in classes if names & bases}
        names |= {name for _, name in new}
        found, more = new, new != found
    for module, name in sorted(found):
        with suppress(ImportError):
            yield getattr(importlib.import_module(module), name)


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


def is_error(one: Any) -> bool:
    return isinstance(one, type) and issubclass(one, BaseException)


def examples(kind: type[BaseException]) -> Iterator[BaseException]:
    """Yield errors of a class, made as its own ``__init__`` takes arguments."""
    init = kind.__init__
    if not inspect.isfunction(init):
        yield kind("what is wrong")
        return
    own = list(inspect.signature(init).parameters.values())[1:]
    if own[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        yield kind(*(one.name for one in own if one.default is one.empty))
        return
    yield kind("what is wrong", position=3, value=2**70)
    if issubclass(kind, OSError):
        yield kind(2, "/data/g.aeg: what is wrong", "/data/g.aeg")


def facts(error: BaseException) -> dict[str, Any]:
    system = ("errno", "strerror", "filename")
    return {
        "class": type(error), "text": str(error), "args": error.args, **vars(error),
        **{name: getattr(error, name, None) for name in system},
    }  # fmt: skip


def test_every_exception_pickles_and_copies() -> None:
    kinds = list(exceptions())
    assert {errors.AetherError, errors.StorageError, InputError, LeakError} <= set(kinds)
    for error in (one for kind in kinds for one in examples(kind)):
        error.extra = "set later"  # type: ignore[attr-defined]
        for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
            assert facts(again) == facts(error)


def test_an_error_whose_text_was_changed_keeps_it() -> None:
    error = errors.OutOfRangeError("key 1", position=1)
    error.args = ("chunk 2: key 1",)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == "chunk 2: key 1" and again.position == 1
