"""Publisher: shows the snapshot of this process to its user's other processes.

    a thread: accept --> is it the same user? --> snapshot as JSON --> close

Nothing is written or read between two questions.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from aethergraph.errors import StorageError
from aethergraph.observe.place import folder, opened_folder, processes, socket_name

__all__ = ["Publisher"]

log = logging.getLogger("aethergraph")
#: Seconds until one that asks and does not listen is given up.
_PATIENCE = 2.0
_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid


class Publisher:
    """Socket of this process, with a thread that answers there until :meth:`close`.

    Args:
        snapshot: makes the answer.

    Raises:
        StorageError: the folder is not the user's own, or the socket cannot be made.
    """

    def __init__(self, snapshot: Callable[[], dict[str, Any]]) -> None:
        self._snapshot = snapshot
        self._pid = os.getpid()
        self.path = folder() / socket_name(self._pid)
        self._socket = self._listen()
        self._thread = threading.Thread(target=self._serve, name="aethergraph-observe", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self.close()
            raise StorageError(f"{self.path}: no thread can be started for it: {error}") from None
        _open.add(self)

    def _listen(self) -> socket.socket:
        with opened_folder(make=True) as where:
            assert where is not None
            processes(where)  # removes what was left behind, by a process of this number too
            name = socket_name(self._pid)
            link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            try:
                # It gets its name when it listens: before, it would look left behind.
                link.bind(f"{where}/{name}.new")
                os.chmod(f"{where}/{name}.new", 0o600)
                link.listen(8)
                os.rename(f"{where}/{name}.new", f"{where}/{name}")
            except OSError as error:
                link.close()
                with suppress(OSError):
                    os.unlink(f"{where}/{name}.new")
                raise StorageError(
                    error.errno, f"{self.path}: cannot be made: {error.strerror}"
                ) from None
            return link

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self._socket.accept()
            except OSError:  # closed
                return
            with link:
                try:
                    self._answer(link)
                except Exception as error:  # whoever asked is gone: the next may not be
                    log.debug("%s: not answered: %s", self.path, error)

    def _answer(self, link: socket.socket) -> None:
        credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(credentials)[1] != os.getuid():
            return
        link.settimeout(_PATIENCE)
        link.sendall(json.dumps(self._snapshot()).encode())

    def close(self) -> None:
        """Remove the socket and end the thread."""
        _open.discard(self)
        if self._pid == os.getpid():
            with suppress(OSError), opened_folder() as where:
                if where is not None:
                    os.unlink(f"{where}/{socket_name(self._pid)}")
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread
            if self._thread.is_alive() and self._thread is not threading.current_thread():
                self._thread.join(_PATIENCE)
        self._socket.close()

    @property
    def is_closed(self) -> bool:
        """True after :meth:`close`, and in a forked child."""
        return self._socket.fileno() < 0

    def forget(self) -> None:
        """Close a forked child's copy, and leave the socket to the parent."""
        self._socket.close()


_open: set[Publisher] = set()


@atexit.register
def _close_all() -> None:
    for publisher in list(_open):
        publisher.close()


def _forget_all() -> None:
    for publisher in list(_open):
        publisher.forget()
    _open.clear()


os.register_at_fork(after_in_child=_forget_all)
