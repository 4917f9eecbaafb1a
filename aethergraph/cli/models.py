"""Models that a command is to run: ``model.py:net``, found, made and filled with weights.

::

    net        a model, a list of layers, a function of batches      taken as it is
    Net, make  a class or a function of no argument                  called once
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NoReturn

from aethergraph._checks.optional import how_to_get
from aethergraph.convert.readers.base import InputError, check_readable
from aethergraph.errors import InvalidArgumentError, UnsupportedError

__all__ = ["importing_from", "kind_of", "load_model", "load_weights"]

#: Name of the module that a file becomes, whatever the file is called.
_MODULE = "aethergraph_model"
_EXTRAS = {"torch": "pyg", "torch_geometric": "pyg", "dgl": "dgl"}
_SHOWN = 8  # names that an error lists


@contextmanager
def importing_from(text: str) -> Iterator[None]:
    """Let a model import what lies beside its file, or in this folder, for a ``with`` block.

    Args:
        text: the model, as :func:`load_model` takes it.
    """
    place = text.rpartition(":")[0]
    folder = os.path.dirname(os.path.abspath(place)) if place.endswith(".py") else os.getcwd()
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
        sys.modules.pop(_MODULE, None)


def load_model(text: str) -> Any:
    """Return what ``file.py:name`` or ``module:name`` names, or what that returns.

    Raises:
        InvalidArgumentError: not such a text, or there is no such name.
        MissingFileError, StorageError: the file cannot be read.
        InputError: it is no Python, or fails; names the line.
        UnsupportedError: it needs what is not installed.
    """
    place, _, name = text.rpartition(":")
    if not place or not name.isidentifier():
        raise InvalidArgumentError(
            f"MODEL = {text!r} names no model: give FILE.py:NAME or MODULE:NAME, where NAME is a "
            "model, a list of layers, or a function of no argument that returns one"
        )
    if place.endswith(".py"):
        check_readable(place)
    module = _import_file(place) if place.endswith(".py") else _import_module(place)
    if not hasattr(module, name):
        raise InvalidArgumentError(f"{place} has no {name!r}{_names_in(module)}")
    model = getattr(module, name)
    return _call(model, place, name) if _is_maker(model) else model


def _import_file(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(_MODULE, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = module  # as classes look for their module there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        _refuse(path, error)
    return module


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise InvalidArgumentError(
                f"there is no module {error.name!r} here or among those installed; a file is given "
                "with its ending, as in model.py:NAME"
            ) from None
        _refuse(name, error)
    except Exception as error:
        _refuse(name, error)


def _refuse(place: str, error: Exception) -> NoReturn:
    """Raise for an error of the Python of a user; names the last line of that file."""
    frames = traceback.extract_tb(error.__traceback__)
    path = os.path.abspath(place)
    lines = [frame.lineno for frame in frames if os.path.abspath(frame.filename) == path]
    if isinstance(error, SyntaxError) and error.filename is not None and not lines:
        lines = [error.lineno] if os.path.abspath(error.filename) == path else []
    root = (error.name or "").split(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if root in _EXTRAS:
        raise UnsupportedError(f"{place} needs {root}: {how_to_get(_EXTRAS[root])}") from error
    line = lines[-1] if lines else None
    raise InputError(place, f"{type(error).__name__}: {error}", line=line) from error


def _names_in(module: ModuleType) -> str:
    """Return the end of a sentence that lists what a module itself defines."""
    names = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not isinstance(value, ModuleType)
        and (
            not (inspect.isclass(value) or inspect.isroutine(value))
            or getattr(value, "__module__", "") == module.__name__
        )
    ]
    more = ", ..." if len(names) > _SHOWN else ""
    return f": there are {', '.join(names[:_SHOWN])}{more}" if names else ""


def _is_maker(value: Any) -> bool:
    """Return whether a value is a class, or a function that can be called with no argument."""
    if inspect.isclass(value):
        return True
    if not inspect.isroutine(value):
        return False
    try:
        inspect.signature(value).bind()
    except (TypeError, ValueError):
        return False
    return True


def _call(make: Callable[[], Any], place: str, name: str) -> Any:
    try:
        inspect.signature(make).bind()
    except TypeError as error:
        raise InvalidArgumentError(
            f"{place}:{name} cannot be called without arguments ({error}): name an object of it, "
            "or a function of no argument that makes one"
        ) from None
    except ValueError:  # a class in C, which does not tell
        pass
    try:
        return make()
    except Exception as error:
        _refuse(place, error)


# ---- what it is ------------------------------------------------------------------------------


def kind_of(model: Any) -> str:
    """Return what a model is of: ``"pyg"``, ``"dgl"``, or ``"batches"`` for functions of them."""
    modules = list(_modules_of(model))
    if not modules:
        return "batches"
    parts = [part for module in modules for part in module.modules()]
    packages = {base.__module__.split(".")[0] for part in parts for base in type(part).__mro__}
    is_dgl = "torch_geometric" not in packages and (
        "dgl" in packages or ("dgl" in sys.modules and "torch_geometric" not in sys.modules)
    )
    return "dgl" if is_dgl else "pyg"


def _modules_of(model: Any) -> Iterator[Any]:
    """Yield the torch modules that a model consists of."""
    torch = sys.modules.get("torch")  # else nobody can have made one
    items = model if isinstance(model, (list, tuple)) else [model]
    if torch is not None:
        yield from (item for item in items if isinstance(item, torch.nn.Module))


def load_weights(model: Any, path: str, name: str) -> None:
    """Fill a model with weights of a file that ``torch.save(model.state_dict(), path)`` made.

    Those of a list of layers have the names that ``torch.nn.Sequential`` gives them.

    Args:
        model: the model.
        path: the file. It is read as data, no Python in it is run.
        name: what messages call the model.

    Raises:
        InvalidArgumentError: the model has no weights, or others; names the first ones.
        InputError: the file holds no weights.
        MissingFileError, StorageError: it cannot be read.
    """
    check_readable(path)
    if not list(_modules_of(model)):
        raise InvalidArgumentError(
            f"--weights {path} is for torch modules, and {name} has none: leave it out"
        )
    import torch

    remedy = f"torch.save(model.state_dict(), {path!r}) makes such a file"
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise InputError(
            path, f"cannot be read as weights alone ({type(error).__name__}); {remedy}"
        ) from error
    if not isinstance(state, dict) or not all(map(torch.is_tensor, state.values())):
        names = f" with {', '.join(map(str, state))}" if isinstance(state, dict) else ""
        raise InputError(
            path, f"holds a {type(state).__name__}{names}, not the weights of a model; {remedy}"
        )
    holder = model
    if isinstance(model, (list, tuple)):
        holder = torch.nn.Module()
        for number, item in enumerate(model):
            if isinstance(item, torch.nn.Module):
                holder.add_module(str(number), item)
    try:
        holder.load_state_dict(state)
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines()[1:] if line.strip()]
        more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
        raise InvalidArgumentError(
            f"--weights {path} does not fit {name}: {(lines or [str(error)])[0]}{more}"
        ) from None
