"""Lock of the directory of a live graph, for the one process that writes."""

from __future__ import annotations

import errno
import fcntl
import functools
import os
import weakref
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeVar

from aethergraph import _native as native
from aethergraph._checks.regular import open_descriptor
from aethergraph.errors import StorageError, UnsupportedError
from aethergraph.storage.other_process import holder_of, sign_lock

__all__ = ["LockedDirectory", "named", "version_of"]

Call = TypeVar("Call", bound=Callable[..., Any])


def named(call: Call) -> Call:
    """Let what the operating system refuses be a StorageError that names the file."""

    @functools.wraps(call)
    def wrapped(self: LockedDirectory, *args: Any) -> Any:
        try:
            return call(self, *args)
        except StorageError:
            raise
        except OSError as error:
            path = error.filename or str(self.path)
            text = f"{path}: {error.strerror or error}"
            raise StorageError(error.errno or errno.EIO, text, path) from None

    return wrapped  # type: ignore[return-value]


#: Seconds to wait for a lock that a living process has; ten times as long for one that has ended.
_WAIT_SECONDS = 0.2


def _locks(descriptor: int) -> bool:
    """Return whether this process could lock a file."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_alive(pid: int) -> bool:
    """Return False if a process has ended."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


_locked: weakref.WeakSet[LockedDirectory] = weakref.WeakSet()


def version_of(path: str) -> tuple[int, int] | None:
    """Return what differs after each time that a file was written in place of another; or None."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _forget_locks() -> None:
    """Close a forked child's copies of locks, which would outlive the process that writes."""
    for directory in list(_locked):
        directory.unlock()


os.register_at_fork(after_in_child=_forget_locks)


class LockedDirectory:
    """Directory that one process writes.

    Args:
        path: the directory; it is made by who writes it, if it does not exist.
    """

    def __init__(self, path: native.Path) -> None:
        self.path = Path(os.path.abspath(native.encode_path(path)[0]))
        # No Path: servers ask for their versions before each answer.
        self._published = os.path.join(self.path, "LIVE")
        self._lock: int | None = None

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self.unlock()

    @abstractmethod
    def open_class(self) -> str:
        """Return the name of the class that opens and attaches the graph, for messages."""

    def published(self) -> tuple[int, int] | None:
        """Return what differs after each publication; None: nobody has the graph open."""
        return version_of(self._published)

    @named
    def writer(self) -> int | None:
        """Return the pid of the process that has the graph open for writing; None: nobody.

        -1: it is not known. Of another user's graph that is all there is to know while ``LIVE`` is
        there, which a process that was killed leaves.
        """
        try:
            descriptor = open_descriptor(self.path / "LOCK")
        except FileNotFoundError:
            return None
        except PermissionError:
            return None if self.published() is None else -1
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return holder_of(descriptor) or -1
        finally:
            os.close(descriptor)
        return None

    @named
    def lock(self) -> None:
        """Make this process the one that writes.

        Raises:
            UnsupportedError: another one does; names it.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = self._open_lock()
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
            raise StorageError(
                errno.EROFS,
                f"{self.path} is on a read-only file system, and opening or truncating a graph "
                "writes: copy the directory to a writable place. Where it is, it is read by "
                "aethergraph.dynamic.History and the commands info, stats, verify and convert",
                str(self.path),
            ) from None
        self._take_lock(descriptor)
        sign_lock(descriptor)

    @named
    def lock_to_read(self) -> None:
        """Keep others from writing; do nothing where nobody can write, and no lock be made.

        Raises:
            UnsupportedError: another process writes; names it.
        """
        try:
            descriptor = self._open_lock()
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES):
                raise
            try:
                descriptor = open_descriptor(self.path / "LOCK")
            except FileNotFoundError:
                return
            except PermissionError:
                if self.published() is None:
                    return
                raise UnsupportedError(
                    f"{self.path} is being written by a process of another user, or was left by "
                    "one that was killed: its user can tell, by opening and closing it"
                ) from None
        self._take_lock(descriptor)

    def _open_lock(self) -> int:
        """Open the file of the lock, which nobody else can open: who can may lock it."""
        descriptor = open_descriptor(self.path / "LOCK", os.O_RDWR | os.O_CREAT)
        with suppress(OSError):  # it is another user's
            if os.fstat(descriptor).st_mode & 0o077:  # an older build made it
                os.fchmod(descriptor, 0o600)
        return descriptor

    def _take_lock(self, descriptor: int) -> None:
        """Take the lock, which may be held for a moment where nobody writes.

        By a child that a killed process was forking, or by a look at :meth:`writer`.
        """
        begun = monotonic()
        while not _locks(descriptor):
            holder = holder_of(descriptor)
            is_alive = holder is not None and _is_alive(holder)
            if monotonic() - begun < (_WAIT_SECONDS if is_alive else 10 * _WAIT_SECONDS):
                sleep(_WAIT_SECONDS / 10)
                continue
            os.close(descriptor)
            raise UnsupportedError(
                f"{self.path} is being written by process {holder or '?'}: a live graph has one "
                f"writer; {self.open_class()}.attach(path) reads it"
            )
        self._lock = descriptor
        _locked.add(self)

    def unlock(self) -> None:
        """Let another process write; in a forked child, once its parent does."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
            _locked.discard(self)
