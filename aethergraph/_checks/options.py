"""Checks of users' options: words of a few, switches, mappings, and values in messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from aethergraph.errors import InvalidArgumentError

__all__ = [
    "as_choice",
    "as_flag",
    "as_items",
    "as_iterator",
    "as_list",
    "as_number",
    "as_share",
    "as_text",
    "is_hashable",
    "is_name",
    "shown",
]

_MOST_ITEMS = 1 << 24  # items of an option become Python objects; arrays go another way
_SHOWN = 200  # characters of a value in a message


def shown(value: Any) -> str:
    """Return ``repr(value)``, cut to 200 characters; the name of its type if ``repr`` fails."""
    try:
        text = repr(value)
    except Exception:  # a user's ``repr`` may do anything, such as nest too deeply
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def as_choice(value: Any, choices: Iterable[str], name: str) -> Any:
    """Return ``value`` if it is one of the texts ``choices``.

    Raises:
        InvalidArgumentError: it is not; the message lists the choices.
    """
    words = list(choices)
    if isinstance(value, str):
        for word in words:
            if value == word:
                return word
    raise InvalidArgumentError(f"{name} = {shown(value)} is not one of {', '.join(words)}")


def as_flag(value: Any, name: str) -> bool:
    """Return a flag, given as a bool or as 0 or 1; None, as frameworks leave options out, is False.

    Raises:
        InvalidArgumentError: the value is something else, such as an array or a word.
    """
    if value is None or isinstance(value, np.bool_):
        return bool(value)
    try:
        number = value.__index__()
    except Exception:  # whatever an object of somebody else raises
        number = -1
    if number not in (0, 1):
        raise InvalidArgumentError(f"{name} must be True or False, got {shown(value)}")
    return bool(number)


def as_list(values: Any, name: str, noun: str = "values", *, most: int = _MOST_ITEMS) -> list[Any]:
    """Return the items of an iterable.

    Raises:
        InvalidArgumentError: ``values`` is not iterable, or a text, or has more than ``most``
            items.
    """
    items = list(islice(as_iterator(values, name, noun), most + 1))
    if len(items) > most:
        raise InvalidArgumentError(f"{name} has more than {most} {noun}")
    return items


def as_iterator(values: Any, name: str, noun: str = "values") -> Iterator[Any]:
    """Return an iterator over an iterable.

    Raises:
        InvalidArgumentError: ``values`` is not iterable, or a text, whose items are its letters.
    """
    if isinstance(values, str | bytes):
        raise InvalidArgumentError(
            f"{name} must be a sequence of {noun}, got {shown(values)}: put it in a list, "
            f"[{shown(values)}]"
        )
    try:
        iterator: Iterator[Any] = iter(values)
    except (TypeError, ValueError) as error:  # closed files raise ValueError
        kind = type(values).__name__
        raise InvalidArgumentError(
            f"{name} must be a sequence of {noun}, got {kind}: {error}"
        ) from None
    return iterator


def as_items(mapping: Any, name: str, noun: str = "values") -> list[tuple[Any, Any]]:
    """Return the items of a mapping.

    Raises:
        InvalidArgumentError: ``mapping`` is not one.
    """
    if not isinstance(mapping, Mapping):
        kind = type(mapping).__name__
        raise InvalidArgumentError(f"{name} must be a mapping of names to {noun}, got {kind}")
    return list(mapping.items())


def as_number(value: Any, name: str) -> float:
    """Return ``value`` as a float.

    Raises:
        InvalidArgumentError: ``value`` is not a number.
    """
    try:
        return float(value)
    except Exception:  # tensors raise others than TypeError
        raise InvalidArgumentError(
            f"{name} must be a number, got {shown(value)} of type {type(value).__name__}"
        ) from None


def as_share(value: Any, name: str) -> float:
    """Return ``value`` as a float in 0..1.

    Raises:
        InvalidArgumentError: ``value`` is not a number, or outside 0..1.
    """
    number = as_number(value, name)
    if not 0 <= number <= 1:
        raise InvalidArgumentError(f"{name} = {number} is not in 0..1")
    return number


def as_text(value: Any, name: str) -> str | None:
    """Return ``value`` if it is a text or None.

    Raises:
        InvalidArgumentError: it is neither.
    """
    if value is None or isinstance(value, str):
        return value
    raise InvalidArgumentError(f"{name} must be a text, got {type(value).__name__}")


def as_secret(value: Any, name: str) -> str | None:
    """Return a text without the blanks around it, as it is read from a file; None: there is none.

    Raises:
        InvalidArgumentError: it is no text, or an empty one, which anybody knows.
    """
    text = as_text(value, name)
    if text is None:
        return None
    if not is_name(text.strip()):
        raise InvalidArgumentError(f"{name} is empty or no text: give a secret, or None for none")
    return text.strip()


def is_name(value: Any) -> bool:
    """Return whether ``value`` is a non-empty text that UTF-8, the encoding in files, can hold."""
    if not isinstance(value, str) or not value:
        return False
    return not any("\ud800" <= character <= "\udfff" for character in value)


def is_hashable(value: Any) -> bool:
    """Return whether ``value`` can be a key of a dictionary."""
    try:
        hash(value)
    except Exception:  # only hash() shows whether the items of a tuple are hashable
        return False
    return True
