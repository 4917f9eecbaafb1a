"""Logs of answers: a line of JSON for each, so that what a model saw can be made again.

::

    {"graph": "0f3c...", "process": 4711, "plan": {...}, "form": {...}, ...}    when it is opened
    {"seeds": [3, 4], "times": [17, 17], "key": 71, "commit": 1234, "sum": "5d41..."}

``sum`` is the BLAKE2b of 16 bytes (RFC 7693) of the answer. Lines are appended whole, by any number
of threads, and of processes with the same plan and graph: an answer is of the plan before it. So
whoever appends holds a shared lock (``flock``), and begins under an exclusive one, or, while others
append, behind a plan like its own. A line that was cut off, by a power failure or a full disk, is
ended by whoever writes next, with a line that says so; it was of an answer that nobody got::

    {"seeds": [3, 4], "ti
    {"torn": true}

A log that is moved or removed while it is written, or made shorter, as logrotate does, begins anew
at its path, with a first line of its own.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import mmap
import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.options import shown
from aethergraph._checks.regular import open_regular
from aethergraph._parallel.forks import renew_lock_in_forks
from aethergraph.errors import FormatError, MissingFileError, StorageError, UnsupportedError
from aethergraph.remote.samples.form import Form
from aethergraph.remote.samples.plan import SamplePlan
from aethergraph.remote.samples.request import Request
from aethergraph.storage.scratch import storage_error

__all__ = ["Answered", "AnswerLog", "read_answers", "sum_of"]


def sum_of(body: Any) -> str:
    """Return the checksum of an answer."""
    return hashlib.blake2b(body, digest_size=16).hexdigest()


#: Length of what a log calls a live graph; graph files have a longer name.
_UUID_DIGITS = 32
#: Line behind one that was cut off.
_TORN = b'{"torn":true}\n'
#: How the first line begins, with a name of the graph or none.
_BEGINS = (b'{"graph":"', b'{"graph":null')
#: What heads of the same answers have alike.
_SAME = ("graph", "plan", "form", "generation")
#: Seconds for which others may hold the lock alone: that they write one line for.
_LOCK_SECONDS = 5.0
#: Most characters that are said of what is wrong with a line.
_WORDS = 200
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

    @property
    def is_of_live(self) -> bool:
        """True if a live graph answered, perhaps one whose log has no commit yet."""
        return self.commit > 0 or (self.graph is not None and len(self.graph) == _UUID_DIGITS)


class AnswerLog:
    """Log of answers that is written.

    Args:
        path: the file; lines are appended.
        facts: what :meth:`SampleService.told` says of the service that answers.

    Raises:
        FormatError: the file has something else in it, which stays as it is.
        UnsupportedError: another process, or another object of this one, appends answers of
            another plan or graph; names it.
        StorageError: it cannot be opened, or written.
    """

    _file = -1

    def __init__(self, path: native.Path, facts: dict[str, Any]) -> None:
        self._path = native.encode_path(path)[0]
        self._form = Form.of(facts["form"])
        self._head = {"graph": facts["graph"], "process": os.getpid(), **facts}
        self._lock = threading.Lock()
        renew_lock_in_forks(self)
        self._open()

    def _open(self) -> None:
        """Open the file at the path, and begin it."""
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            status = os.fstat(self._file)
            #: Where the file is, to see that another one is at the path; None: it is no file.
            self._place = _place_of(status) if stat.S_ISREG(status.st_mode) else None
            self._begin()
            #: Bytes of it that were seen: it only grows.
            self._size = os.fstat(self._file).st_size
        except BaseException as error:
            self.close()  # and with it the lock, however long the error lives
            if isinstance(error, OSError) and not isinstance(error, StorageError):
                raise storage_error(error, self._path) from None
            raise

    def _begin(self) -> None:
        """Lock the file and append the first line, if nobody appends behind another one."""
        if not _is_log(self._file):
            raise FormatError(
                f"{self._path} is no log of answers, so that nothing is appended to it: give the "
                "path of a log, or of no file"
            )
        self._is_torn = _ends_torn(self._file)
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            self._write(self._head)
            return
        begin = 0
        if _lock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB):
            begin = os.fstat(self._file).st_size
        else:  # others append: no other plan comes between now, as that takes the lock alone
            self._share()
            self._check_heads(0)
        self._write(self._head)
        os.fsync(self._file)  # what is appended now follows a whole line, whatever fails next
        self._share()
        self._check_heads(begin)  # the lock was let go of for a moment

    def _share(self) -> None:
        until = time.monotonic() + _LOCK_SECONDS
        while not _lock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB):
            if time.monotonic() > until:
                raise UnsupportedError(f"{self._path} is locked by another program")
            time.sleep(0.01)

    def _check_heads(self, begin: int) -> None:
        """Raise unless the last plan from a byte on is of the same answers."""
        last = _last_head(self._file, begin)
        if last is not None and any(last.get(key) != self._head[key] for key in _SAME):
            raise UnsupportedError(
                f"{self._path} is being written by process {shown(last.get('process'))}, which "
                "answers by another plan or from another graph: give each its own log"
            )

    def add(self, request: Request, commit: int, body: Any) -> None:
        """Append an answer.

        Raises:
            FormatError, UnsupportedError, StorageError: it cannot be written; or there is another
                file at the path now, which is no log, or one that others write.
        """
        seeds, key, times = request.arguments(self._form)
        line = {
            "seeds": _plain(seeds), "times": _plain(times), "key": key, "commit": commit,
            "sum": sum_of(body),
        }  # fmt: skip
        with self._lock:
            if self._place is not None:
                self._follow()
            self._write(line)

    def _follow(self) -> None:
        """Go on in the file that is at the path now, if this one was moved, removed or cut."""
        status: os.stat_result | None = None
        with suppress(FileNotFoundError):
            status = os.stat(self._path)
        if self._file < 0 or status is None or _place_of(status) != self._place:
            self.close()
            self._open()
        elif status.st_size < self._size:
            self._write(self._head)
            self._size = os.fstat(self._file).st_size
        else:
            self._size = status.st_size

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
        self.close()


def _place_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _is_log(file: int) -> bool:
    """Return whether a file is empty, or begins as a log does; True of pipes."""
    if os.fstat(file).st_size == 0:
        return True
    line, end, remaining = os.pread(file, _FIRST, 0).partition(b"\n")
    if not end or remaining.startswith(_TORN):  # all that there was of a first line
        return any(
            line.startswith(beginning) or beginning.startswith(line) for beginning in _BEGINS
        )
    try:
        head = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(head, dict) and {"graph", "plan", "form"} <= head.keys()


def _lock(file: int, how: int) -> bool:
    """Return whether a file could be locked; True where there are no locks."""
    try:
        fcntl.flock(file, how)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def _last_head(file: int, begin: int) -> dict[str, Any] | None:
    """Return the last plan in a log from a byte on, or None."""
    size = os.fstat(file).st_size
    if size <= begin:
        return None
    with mmap.mmap(file, size, access=mmap.ACCESS_READ) as content:
        end = size
        while end > begin:
            at = content.rfind(b'{"graph":', begin, end)
            if at < 0:
                return None
            if at == 0 or content[at - 1 : at] == b"\n":
                stop = content.find(b"\n", at)
                with suppress(ValueError, RecursionError):
                    head = json.loads(content[at : size if stop < 0 else stop])
                    return head if isinstance(head, dict) else None
            end = at
    return None


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
        FormatError: a line is none, which it names; or there is not even a first one.
    """
    name = native.encode_path(path)[0]
    head: _Head | None = None
    wrong: FormatError | None = None
    try:
        with open_regular(name) as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                if line == _TORN:
                    wrong = None  # it was of the line before
                    continue
                if wrong is not None:
                    raise wrong
                try:
                    facts = json.loads(line.decode())
                    if not isinstance(facts, dict):
                        raise ValueError("it is no object of JSON")
                    if "plan" in facts:
                        head = _head(facts)
                        continue
                    if head is None:
                        raise ValueError("it is before the first plan")
                    answered = _answered(number, head, facts)
                except (
                    ValueError, KeyError, TypeError, IndexError, OverflowError, AttributeError,
                    RecursionError,
                ) as error:  # fmt: skip
                    wrong = FormatError(
                        f"{name}, line {number}: no line of a log of answers: {_why(error)}"
                    )
                    continue
                yield answered
        if wrong is not None:
            raise wrong
        if head is None:
            raise FormatError(
                f"{name} is no log of answers: it is empty, or its first line was cut off"
            )
    except FileNotFoundError as error:
        raise MissingFileError(error.errno, f"{name} does not exist", name) from None
    except StorageError:
        raise
    except OSError as error:
        text = f"cannot read {name}: {error.strerror}"
        raise StorageError(error.errno or errno.EIO, text, name) from None


_Head = tuple[str | None, SamplePlan, Form]


def _why(error: Exception) -> str:
    """Say in a few words what is wrong with a line."""
    if isinstance(error, UnicodeDecodeError):
        return f"its byte {error.start} is no text (UTF-8)"
    if isinstance(error, json.JSONDecodeError):
        return f"it is no JSON: {error.msg} at character {error.pos}"
    if isinstance(error, KeyError):
        return f"it has no {shown(error.args[0])}"
    text = str(error)
    return text if len(text) <= _WORDS else f"{text[:_WORDS]}..."


def _head(facts: dict[str, Any]) -> _Head:
    graph = facts["graph"]
    if not (graph is None or isinstance(graph, str)):
        raise ValueError(f"graph = {shown(graph)} is no text")
    return graph, SamplePlan.of(facts["plan"]), Form.of(facts["form"])


def _answered(number: int, head: _Head, facts: dict[str, Any]) -> Answered:
    form = head[2]
    commit, total = _whole(facts["commit"], "commit", 0, 2**63), facts["sum"]
    if not isinstance(total, str):
        raise ValueError(f"sum = {shown(total)} is no text")
    seeds = tuple(_wholes(values, name) for name, values in _lists(form, facts["seeds"], "seeds"))
    times: tuple[NDArray[Any], ...] | None = None
    if facts["times"] is not None:
        lists = _lists(form, facts["times"], "times")
        times = tuple(_times(form, name, values) for name, values in lists)
        if list(map(len, times)) != list(map(len, seeds)):
            raise ValueError("it has times of another number than seeds")
    request = Request(_whole(facts["key"], "key", 0, 2**64), seeds, times)
    return Answered(number, *head, request, commit, total)


def _whole(value: Any, name: str, begin: int = -(2**63), end: int = 2**63) -> int:
    if type(value) is not int or not begin <= value < end:
        raise ValueError(f"{name} = {shown(value)} is no integer of {begin}..{end - 1}")
    return value


def _wholes(values: list[Any], name: str) -> NDArray[np.int64]:
    if set(map(type, values)) <= {int}:
        with suppress(OverflowError):
            return np.array(values, np.int64)
    return np.array([_whole(value, f"{name}[{at}]") for at, value in enumerate(values)], np.int64)


def _times(form: Form, name: str, values: list[Any]) -> NDArray[Any]:
    if form.times != "float64":
        return _wholes(values, name)
    for at, value in enumerate(values):
        if type(value) not in (int, float) or value != value:
            raise ValueError(f"{name}[{at}] = {shown(value)} is no time")
    return np.array(values, np.float64)


def _lists(form: Form, values: Any, name: str) -> list[tuple[str, list[Any]]]:
    """Return the list of each node type, and its name in messages."""
    if not form.typed:
        lists = [(name, values)]
    else:
        if not isinstance(values, dict) or not values.keys() <= set(form.node_types):
            raise ValueError(f"{name} = {shown(values)} are not by node type")
        lists = [(f"{name}[{kind!r}]", values.get(kind, [])) for kind in form.node_types]
    for label, some in lists:
        if not isinstance(some, list):
            raise ValueError(f"{label} = {shown(some)} is no list")
    return lists
