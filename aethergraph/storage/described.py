"""Files that may be anybody's, and descriptions in JSON: opened without waiting, checked by field.

::

    data = read_regular("g.aegd/CURRENT", 1 << 20)    a pipe is refused, and not waited for
    fields = read_fields(data, complaint)
    fields.count("lsn")                               raises complaint("lsn = -3 is no ..")
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any, Final

from aethergraph._checks.options import shown
from aethergraph._checks.regular import open_regular
from aethergraph.errors import CorruptFileError

__all__ = ["Fields", "is_count", "is_integer", "read_fields", "read_regular"]

#: Makes the error of a description from what is wrong with it.
Complaint = Callable[[str], Exception]

_REQUIRED: Final = object()
_MOST = 1 << 63  # counts are below


def read_regular(path: str | os.PathLike[str], max_bytes: int) -> bytes:
    """Return the content of a regular file.

    Raises:
        OSError: it cannot be read, or is no regular file.
        CorruptFileError: it has more than ``max_bytes`` bytes.
    """
    with open_regular(path) as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise CorruptFileError(f"{os.fspath(path)} is damaged: it has more than {max_bytes} bytes")
    return content


def read_fields(data: bytes, complaint: Complaint) -> Fields:
    """Return the fields of an object of JSON.

    Args:
        data: the text.
        complaint: makes the error of what is wrong with it.
    """
    try:
        value = json.loads(data.decode("utf-8"))
    except RecursionError:
        raise complaint("it nests too deeply") from None
    except ValueError as error:  # of the encoding, of the JSON, of a number of too many digits
        raise complaint(f"it is no JSON: {error}") from None
    return Fields(value, complaint)


def is_count(value: Any, below: int = _MOST, least: int = 0) -> bool:
    """Return whether a value is an integer from 0 (or another one) on, and below a limit."""
    return type(value) is int and least <= value < below


def is_integer(value: Any) -> bool:
    """Return whether a value is an integer of 64 bits."""
    return type(value) is int and -_MOST <= value < _MOST


class Fields:
    """Fields of an object in a description, each read as what it has to be.

    Args:
        value: the object, which may be anything.
        complaint: makes the error of what is wrong with it.
        place: where it stands, for messages.
    """

    def __init__(self, value: Any, complaint: Complaint, place: str = "") -> None:
        self.complaint, self._place = complaint, place
        self.require(isinstance(value, dict), f"{place or 'it'} holds no object")
        self.values: dict[str, Any] = value

    def require(self, condition: bool, complaint: str) -> None:
        """Raise the error of the description unless a condition holds."""
        if not condition:
            raise self.complaint(complaint)

    def need(self, *names: str) -> None:
        """Raise the error of the description unless there are fields of these names."""
        for name in names:
            self.require(name in self.values, f"{name!r} is missing")

    def _get(self, name: str, fits: Callable[[Any], bool], default: Any, problem: str) -> Any:
        value = self.values.get(name, default)
        where = f" in {self._place}" if self._place else ""
        self.require(value is not _REQUIRED, f"{name!r} is missing{where}")
        proper = value is default or fits(value)
        self.require(proper, f"{name} = {shown(value)}{where} {problem}")
        return value

    def count(
        self, name: str, below: int = _MOST, *, least: int = 0, default: Any = _REQUIRED
    ) -> Any:
        """Return an integer from 0 (or another one) on and below a limit."""
        limit = "" if below == _MOST else f", below {below}"
        return self._get(
            name,
            lambda value: is_count(value, below, least),
            default,
            f"is no integer from {least} on{limit}",
        )

    def text(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return a text that is not empty."""
        return self._get(
            name, lambda value: isinstance(value, str) and value != "", default, "is no text"
        )

    def choice(self, name: str, words: tuple[str, ...], default: Any = _REQUIRED) -> Any:
        """Return a text that is one of several."""
        return self._get(
            name,
            lambda value: isinstance(value, str) and value in words,
            default,
            f"is none of {', '.join(map(repr, words))}",
        )

    def flag(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return True or False."""
        return self._get(
            name, lambda value: isinstance(value, bool), default, "is neither true nor false"
        )

    def items(self, name: str, fits: Callable[[Any], bool], default: Any = _REQUIRED) -> Any:
        """Return a list whose items all fit."""
        return self._get(
            name,
            lambda value: isinstance(value, list) and all(map(fits, value)),
            default,
            "is no list of what belongs there",
        )

    def table(self, name: str, fits: Callable[[Any], bool], default: Any = _REQUIRED) -> Any:
        """Return an object whose values all fit."""
        return self._get(
            name,
            lambda value: isinstance(value, dict) and all(map(fits, value.values())),
            default,
            "is no object of what belongs there",
        )

    def object(self, name: str) -> Fields | None:
        """Return the fields of an object within; None: there is none."""
        value = self.values.get(name)
        return None if value is None else Fields(value, self.complaint, name)

    def objects(self, name: str, place: str) -> Iterator[Fields]:
        """Return the fields of each object of a list, which may be missing.

        Args:
            name: name of the list.
            place: what each is called in messages.
        """
        for entry in self.items(name, lambda value: isinstance(value, dict), []):
            yield Fields(entry, self.complaint, place)
