"""Libraries that need not be installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from aethergraph.errors import UnsupportedError

__all__ = ["require"]


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
