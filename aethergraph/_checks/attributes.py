"""Attributes that an object does not have."""

from __future__ import annotations

from typing import Any

__all__ = ["read_property"]


def read_property(owner: Any, name: str) -> None:
    """Read a property again that has raised an AttributeError, for ``__getattr__``.

    Python asks ``__getattr__`` then, and would drop the error that says why.
    """
    known = getattr(type(owner), name, None)
    if isinstance(known, property):
        known.__get__(owner)
