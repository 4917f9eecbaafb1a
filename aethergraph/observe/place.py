"""Where processes show their metrics: a folder of sockets, for their user only.

    $XDG_RUNTIME_DIR/aethergraph/4711.sock      else /tmp/aethergraph-1000/4711.sock

The folder has mode 0700 and belongs to the user, or is refused. A socket that nobody listens at was
left behind by a process that was killed: it is removed.
"""

from __future__ import annotations

import os
import re
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from aethergraph.errors import StorageError

__all__ = ["connect", "folder", "opened_folder", "processes", "socket_name"]

_NAME = re.compile(r"(\d+)\.sock")
#: Seconds to wait for a process to answer.
_PATIENCE = 2.0


def folder() -> Path:
    """Return the folder of the user's sockets; it need not exist."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    if base and os.path.isdir(base) and os.access(base, os.W_OK):
        return Path(base) / "aethergraph"
    return Path(tempfile.gettempdir()) / f"aethergraph-{os.getuid()}"


def socket_name(pid: int) -> str:
    """Return the name of a process's socket in the folder."""
    return f"{pid}.sock"


@contextmanager
def opened_folder(*, make: bool = False) -> Iterator[str | None]:
    """Open the folder; yield a path to it that is short, and that nobody can exchange meanwhile.

    Args:
        make: make it if it does not exist; else None is yielded then.

    Raises:
        StorageError: it is not the user's own, or others may use it; or it cannot be made.
    """
    path = folder()
    try:
        if make:
            with suppress(FileExistsError):
                path.mkdir(mode=0o700)
        number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError as error:
        if make:
            raise StorageError(error.errno, f"{path}: cannot be made: {error.strerror}") from None
        yield None
        return
    except OSError as error:
        raise StorageError(
            error.errno, f"{path}: metrics cannot be shown there: {error.strerror}"
        ) from None
    try:
        status = os.fstat(number)
        if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise StorageError(
                f"{path}: it must be yours, with mode 0700, for metrics to be shown there: remove "
                "it, or set XDG_RUNTIME_DIR to another folder"
            )
        yield f"/proc/self/fd/{number}"  # addresses of sockets have at most 107 bytes
    finally:
        os.close(number)


def connect(where: str, pid: int) -> socket.socket | None:
    """Connect to the socket of a process in an opened folder; None if nobody listens there.

    Raises:
        OSError: something else went wrong.
    """
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        link.settimeout(_PATIENCE)
        link.connect(f"{where}/{socket_name(pid)}")
    except (ConnectionRefusedError, FileNotFoundError):
        link.close()
        return None
    except BaseException:
        link.close()
        raise
    return link


def processes(where: str) -> list[int]:
    """Return the processes that show metrics; remove what killed ones have left behind."""
    pids = []
    for name in os.listdir(where):
        matched = _NAME.fullmatch(name)
        if matched is None:
            continue
        try:
            link = connect(where, int(matched[1]))
        except OSError:  # it is busy, not gone
            pids.append(int(matched[1]))
            continue
        if link is None:
            with suppress(FileNotFoundError):
                os.unlink(f"{where}/{name}")
        else:
            link.close()
            pids.append(int(matched[1]))
    return sorted(pids)
