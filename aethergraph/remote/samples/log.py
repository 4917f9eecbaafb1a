"""Logs of answers: a line of JSON for each, so that what a model saw can be made again.

::

    {"graph": "0f3c...", "generation": "9a...", "plan": {...}, "form": {...}}    when it is opened
    {"seeds": [3, 4], "times": [17, 17], "key": 71, "commit": 1234, "sum": "5d41..."}

``sum`` is the BLAKE2b of 16 bytes (RFC 7693) of the answer. Lines are appended whole, by any number
of threads and processes. A line that was cut off, by a power failure or a full disk, is ended by
whoever writes next, with a line that says so; it was of an answer that nobody got::

    {"seeds": [3, 4], "ti
    {"torn": true}
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from aethergraph import _native as native
from aethergraph.errors import FormatError, MissingFileError, StorageError
from aethergraph.remote.samples.form import Form
from aethergraph.remote.samples.plan import SamplePlan
from aethergraph.remote.samples.request import Request
from aethergraph.storage.scratch import storage_error

__all__ = ["Answered", "AnswerLog", "read_answers", "sum_of"]


def sum_of(body: Any) -> str:
    """Return the checksum of an answer."""
    return hashlib.blake2b(body, digest_size=16).hexdigest()


#: Line behind one that was cut off.
_TORN = b'{"torn":true}\n'
#: How the first line begins, with a name of the graph or none.
_BEGINS = (b'{"graph":"', b'{"graph":null')
#: Most bytes of a first line.
_FIRST = 8 << 20


class Answered(NamedTuple):
    """Answer in a log.

    Attributes:
        line: number of its line, from 1.
        graph: identity of the graph; None: it had none.
        plan: what was drawn.
        form: arrays of the answer.
        request: the request.
        commit: number of the commit that was drawn from.
        sum: checksum of the bytes.
    """

    line: int
    graph: str | None
    plan: SamplePlan
    form: Form
    request: Request
    commit: int
    sum: str


class AnswerLog:
    """Log of answers that is written.

    Args:
        path: the file; lines are appended.
        told: what :meth:`SampleService.told` says of the service that answers.

    Raises:
        FormatError: the file has something else in it, which stays as it is.
        StorageError: it cannot be opened, or written.
    """

    def __init__(self, path: native.Path, told: dict[str, Any]) -> None:
        self._path = native.encode_path(path)[0]
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            is_log = _is_log(self._file)
            self._is_torn = _ends_torn(self._file)
        except OSError as error:
            raise storage_error(error, self._path) from None
        if not is_log:
            raise FormatError(
                f"{self._path} is no log of answers, so that nothing is appended to it: give the "
                "path of a log, or of no file"
            )
        self._form = Form.of(told["form"])
        self._write({"graph": told["graph"], **told})
        try:
            os.fsync(self._file)  # what is appended now follows a whole line, whatever fails next
        except OSError as error:
            if error.errno != errno.EINVAL:  # of a pipe
                raise storage_error(error, self._path) from None

    def add(self, request: Request, commit: int, body: Any) -> None:
        """Append an answer.

        Raises:
            StorageError: it cannot be written.
        """
        seeds, key, times = request.arguments(self._form)
        self._write(
            {
                "seeds": _plain(seeds), "times": _plain(times), "key": key, "commit": commit,
                "sum": sum_of(body),
            }
        )  # fmt: skip

    def _write(self, line: dict[str, Any]) -> None:
        text = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        if self._is_torn:
            text = b"\n" + _TORN + text
        try:
            done = os.write(self._file, text)
            self._is_torn = done != len(text)
            if self._is_torn:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise storage_error(error, self._path) from None

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.close()


def _is_log(file: int) -> bool:
    """Return whether a file is empty, or begins as a log does; True of pipes."""
    if os.fstat(file).st_size == 0:
        return True
    line, end, rest = os.pread(file, _FIRST, 0).partition(b"\n")
    if not end or rest.startswith(_TORN):  # all that there was of a first line
        return any(line.startswith(one) or one.startswith(line) for one in _BEGINS)
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and {"graph", "plan", "form"} <= found.keys()


def _ends_torn(file: int) -> bool:
    """Return whether the last line of a file has no end; False of pipes."""
    size = os.fstat(file).st_size
    return size > 0 and os.pread(file, 1, size - 1) != b"\n"


def _plain(values: Any) -> Any:
    if isinstance(values, dict):
        return {kind: array.tolist() for kind, array in values.items() if len(array)}
    return None if values is None else values.tolist()


def read_answers(path: native.Path) -> Iterator[Answered]:
    """Read a log of answers; lines that were cut off are left out.

    Raises:
        MissingFileError, StorageError: it cannot be read.
        FormatError: a line is none; names it.
    """
    name = native.encode_path(path)[0]
    head: tuple[str | None, SamplePlan, Form] | None = None
    wrong: FormatError | None = None
    try:
        with open(name, "rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                if line == _TORN:
                    wrong = None  # it was of the line before
                    continue
                if wrong is not None:
                    raise wrong
                try:
                    found = json.loads(line)
                    if "plan" in found:
                        known = found["graph"]
                        head = known, SamplePlan.of(found["plan"]), Form.of(found["form"])
                        continue
                    if head is None:
                        raise ValueError("an answer before the plan")
                    request = _request(head[2], found)
                    commit, total = int(found["commit"]), str(found["sum"])
                except (ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
                    wrong = FormatError(
                        f"{name}, line {number}: no line of a log of answers: {error!r}"
                    )
                    continue
                yield Answered(number, *head, request, commit, total)
        if wrong is not None:
            raise wrong
    except FileNotFoundError as error:
        raise MissingFileError(error.errno, f"{name} does not exist", name) from None
    except StorageError:
        raise
    except OSError as error:
        text = f"cannot read {name}: {error.strerror}"
        raise StorageError(error.errno or errno.EIO, text, name) from None


def _request(form: Form, found: Any) -> Request:
    dtype = np.dtype(form.times or "int64")

    def arrays(values: Any, kind: Any) -> tuple[Any, ...]:
        own = values if form.typed else {form.node_types[0]: values}
        return tuple(np.array(own.get(name, ()), kind) for name in form.node_types)

    times = None if found["times"] is None else arrays(found["times"], dtype)
    seeds = arrays(found["seeds"], np.int64)
    if times is not None and list(map(len, times)) != list(map(len, seeds)):
        raise ValueError("times of another number than seeds")
    return Request(int(found["key"]) & (1 << 64) - 1, seeds, times)
