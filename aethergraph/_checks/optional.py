"""Libraries that need not be installed."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import Any

from aethergraph.errors import UnsupportedError

__all__ = ["load_toml", "require"]


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
            f"{needs} {package or module.split('.')[0]}: pip install 'aethergraph[{extra}]' "
            f"({error})"
        ) from None


def load_toml() -> Any:
    """Return the module that reads TOML.

    Raises:
        UnsupportedError: there is none; says how to get one.
    """
    for name in ("tomllib", "tomli"):  # Python has the first from 3.11 on
        with suppress(ImportError):
            return import_module(name)
    raise UnsupportedError("files in TOML need Python 3.11, or tomli: pip install tomli")
