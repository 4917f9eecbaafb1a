"""Memory of another process, found by the number of the process.

A descriptor of this user's process is a file below ``/proc/PID/fd``. So whoever knows the numbers
opens the same memory; nothing is copied, and no third process takes part.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from aethergraph.errors import ClosedError, UnsupportedError

__all__ = ["Owner", "open_descriptors"]


class Owner(NamedTuple):
    """Process that has memory to share; numbers are used again, so its start counts too."""

    pid: int
    started: int  # clock ticks since the system's start

    @classmethod
    def here(cls) -> Owner:
        """Return this process."""
        pid = os.getpid()
        return cls(pid, _started(pid))


def _started(pid: int) -> int:
    """Return when a process started; see proc(5), field 22 of stat."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return int(text.rpartition(")")[2].split()[19])


def open_descriptors(owner: Owner, numbers: Sequence[int], what: str = "live graph") -> list[int]:
    """Open the files behind the descriptors of another process; return ones of this process.

    Args:
        owner: the process.
        numbers: its descriptors.
        what: what they are of, for messages.

    Raises:
        ClosedError: the process has ended, or has closed it.
        UnsupportedError: it belongs to somebody else, or this system has no ``/proc``.
    """
    opened = list[int]()
    try:
        if _started(owner.pid) != owner.started:
            raise FileNotFoundError(owner.pid)
        opened.extend(
            os.open(f"/proc/{owner.pid}/fd/{n}", os.O_RDWR | os.O_CLOEXEC) for n in numbers
        )
        if _started(owner.pid) != owner.started:  # it ended meanwhile, and another has its number
            raise FileNotFoundError(owner.pid)
    except (FileNotFoundError, ProcessLookupError):
        _close(opened)
        raise ClosedError(
            f"process {owner.pid}, which had the {what} open, has ended or closed it: pickle it "
            "again in a process that has it"
        ) from None
    except PermissionError as error:
        _close(opened)
        raise UnsupportedError(
            f"the {what} of process {owner.pid} cannot be opened ({error}): only processes of "
            "its user can"
        ) from None
    return opened


def _close(descriptors: Sequence[int]) -> None:
    for one in descriptors:
        os.close(one)
