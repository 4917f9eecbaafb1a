"""Libraries that need not be installed, and how to get them."""

from __future__ import annotations

import re
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from aethergraph.errors import UnsupportedError

__all__ = ["how_to_get", "load_toml", "refuse_older", "require", "source_tree"]


def source_tree() -> Path | None:
    """Return the checkout whose sources are imported; None: an installed package is."""
    folder = Path(__file__).parents[2]
    is_one = (folder / "pyproject.toml").is_file() and (folder / "backends").is_dir()
    return folder if is_one else None


def how_to_get(extra: str) -> str:
    """Return the command that brings an extra, wherever the package itself came from.

    To pip a package that is installed is there, also if no index has it.
    """
    tree = source_tree()
    return (
        f"pip install 'aethergraph[{extra}]'"
        if tree is None
        else f"pip install -e '{tree}[{extra}]'"
    )


def require(module: str, needs: str, extra: str, package: str | None = None) -> Any:
    """Import a module, by name: mypyc would follow an import through all of a library.

    Args:
        module: the module.
        needs: words of the message before the package, such as "topics of Kafka need".
        extra: the package's extra that brings it.
        package: what brings the module; None: it is called like the module.

    Raises:
        UnsupportedError: it is not installed; says how to get it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise UnsupportedError(
            f"{needs} {package or module.split('.')[0]}: {how_to_get(extra)} ({error})"
        ) from None


def refuse_older(module: Any, oldest: str, needs: str) -> None:
    """Refuse a library whose version is before the oldest that works.

    Raises:
        ImportError: names the version that is there and the one to get.
    """
    version = str(module.__version__)
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < tuple(map(int, oldest.split("."))):
        name = module.__name__
        raise ImportError(
            f"{needs} {name} {oldest} or newer, and {version} is installed: "
            f"pip install --upgrade '{name}>={oldest}'"
        )


def load_toml() -> Any:
    """Return the module that reads TOML.

    Raises:
        UnsupportedError: there is none; says how to get one.
    """
    for name in ("tomllib", "tomli"):  # Python has the first from 3.11 on
        with suppress(ImportError):
            return import_module(name)
    raise UnsupportedError("files in TOML need Python 3.11, or tomli: pip install tomli")
