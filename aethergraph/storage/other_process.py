"""Memory of another process, found by the number of the process.

A descriptor of this user's process is a file below ``/proc/PID/fd``. So whoever knows the numbers
opens the same memory; nothing is copied, and no third process takes part. A lock file has the
number of the process that holds it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from aethergraph.errors import ClosedError, UnsupportedError

__all__ = ["Owner", "OpenFile", "holder_of", "open_descriptors", "sign_lock"]


class Owner(NamedTuple):
    """Process that has memory to share; numbers are used again, so its start counts too."""

    pid: int
    started: int  # clock ticks since the system's start

    @classmethod
    def here(cls) -> Owner:
        """Return this process."""
        pid = os.getpid()
        return cls(pid, _started(pid))

    @property
    def is_alive(self) -> bool:
        """True until the process has ended."""
        try:
            return _started(self.pid) == self.started
        except (FileNotFoundError, ProcessLookupError):
            return False


def _started(pid: int) -> int:
    """Return when a process started; see proc(5), field 22 of stat.

    Raises:
        FileNotFoundError: there is none, or it has ended and nobody has waited for it yet.
    """
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    fields = text.rpartition(")")[2].split()  # from the third one on
    if fields[0] in "ZXx" and int(fields[17]) <= 1:  # a main thread may end before the others
        raise FileNotFoundError(pid)
    return int(fields[19])


def sign_lock(descriptor: int) -> None:
    """Write the number of this process into a file that it has locked, if the disk has room."""
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)


def holder_of(descriptor: int) -> int | None:
    """Return the number of the process that has signed a lock last; None: it is not known."""
    text = os.pread(descriptor, 32, 0).strip()
    return int(text) if text.isdigit() else None


class OpenFile(NamedTuple):
    """File that a process has open, for another one; numbers are used again, so the inode counts.

    Between two processes' looks the owner may have closed it, and opened another in its place.
    """

    descriptor: int
    inode: int

    @classmethod
    def of(cls, descriptor: int) -> OpenFile:
        """Return the file of a descriptor of this process."""
        return cls(descriptor, os.fstat(descriptor).st_ino)


def open_descriptors(
    owner: Owner, files: Sequence[OpenFile], noun: str = "live graph"
) -> list[int]:
    """Open files that another process has open; return descriptors of this process.

    Args:
        owner: the process.
        files: the files, perhaps as lists, as JSON has them.
        noun: what they are of, for messages.

    Raises:
        ClosedError: the process has ended, or has closed it.
        UnsupportedError: it belongs to somebody else, or this system has no ``/proc``.
    """
    opened = list[int]()
    try:
        if _started(owner.pid) != owner.started:
            raise FileNotFoundError(owner.pid)
        for number, inode in files:
            name = f"/proc/{owner.pid}/fd/{number}"
            if os.stat(name).st_ino != inode:  # of a pipe, say, whose opening would wait
                raise FileNotFoundError(number)
            opened.append(os.open(name, os.O_RDWR | os.O_CLOEXEC))
            if os.fstat(opened[-1]).st_ino != inode:
                raise FileNotFoundError(number)
        if _started(owner.pid) != owner.started:  # it ended meanwhile, and another has its number
            raise FileNotFoundError(owner.pid)
    except (FileNotFoundError, ProcessLookupError, IsADirectoryError):  # its number is a folder's
        _close(opened)
        raise ClosedError(
            f"process {owner.pid}, which had the {noun} open, has ended or closed it: pickle it "
            "again in a process that has it"
        ) from None
    except PermissionError as error:
        _close(opened)
        raise UnsupportedError(
            f"the {noun} of process {owner.pid} cannot be opened ({error}): only processes of "
            "its user can"
        ) from None
    return opened


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
