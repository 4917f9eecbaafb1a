"""Sockets that a server listens at, and what they and their connections are set to."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aethergraph._checks.options import shown
from aethergraph.errors import InvalidArgumentError, StorageError
from aethergraph.remote import wire
from aethergraph.remote.address import is_socket

__all__ = [
    "LOOPBACK", "REPLY_SECONDS", "accept", "keep_alive", "listen", "listen_unix", "server_context",
    "set_options",
]  # fmt: skip

LOOPBACK = ("127.0.0.1", "::1", "localhost")
#: Seconds that a reply may take to be read.
REPLY_SECONDS = 60.0
#: Seconds to wait where no connection can be accepted, as there are no more files.
_FULL = 0.1
#: Tries to lock a folder, and seconds between them.
_TRIES, _BETWEEN = 30, 0.1
#: Seconds of silence before a client is asked whether it is there, between questions, and how many.
_KEEPALIVE = (("KEEPIDLE", 30), ("KEEPINTVL", 10), ("KEEPCNT", 3))


def server_context(tls: Any) -> ssl.SSLContext | None:
    """Return what TLS needs of the files of certificate and key; None without them.

    Raises:
        InvalidArgumentError: they cannot be used.
    """
    if tls is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(*tls)
    except ssl.SSLError as error:  # whose texts are the library's own: [SSL] PEM lib
        raise InvalidArgumentError(
            f"tls = {shown(tls)}: {error}: the first is the file of the certificate, the "
            "second that of its key, both in PEM"
        ) from None
    except (OSError, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"tls = {shown(tls)}: {error}") from None
    return context


def listen(host: str, port: int) -> socket.socket:
    """Listen at an address.

    Raises:
        StorageError: that is not possible.
    """
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(128)
    except (OSError, OverflowError) as error:
        sock.close()
        raise StorageError(f"{host}:{port}: {error}") from None
    return sock


def accept(listener: socket.socket) -> socket.socket | None:
    """Wait for the next connection; return None once the listener was closed.

    Whatever else goes wrong, such as a network that is down, or no more files, it tries again.
    """
    while True:
        try:
            return listener.accept()[0]
        except OSError as error:
            if error.errno in (errno.EBADF, errno.EINVAL, errno.ENOTSOCK):
                return None
            if error.errno not in (errno.ECONNABORTED, errno.EINTR, errno.EPROTO):
                time.sleep(_FULL)


def listen_unix(path: str) -> socket.socket:
    """Listen at a path, in place of a server that is no more.

    Raises:
        StorageError: that is not possible.
    """
    if os.path.lexists(path) and not is_socket(path):
        raise StorageError(
            errno.EEXIST, f"{path} is there, and is no socket: give another path", path
        )
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _one_at_a_time(os.path.dirname(path) or "."):
            try:
                sock.bind(path)
            except OSError as error:
                if error.errno != errno.EADDRINUSE or _is_served(path):
                    raise
                os.unlink(path)
                sock.bind(path)
            os.chmod(path, 0o600)  # before listen(): nobody can have connected
            sock.listen(128)
    except (OSError, ValueError) as error:
        sock.close()
        raise StorageError(f"{path}: {error}") from None
    return sock


@contextmanager
def _one_at_a_time(folder: str) -> Iterator[None]:
    """Keep out others who begin in a folder: a socket without a listener looks like one left."""
    handle = _lock(folder)
    try:
        yield
    finally:
        if handle is not None:
            fcntl.flock(handle, fcntl.LOCK_UN)  # a child that was forked has the handle, too
            os.close(handle)


def _lock(folder: str) -> int | None:
    """Return a handle that locks a folder, or None.

    Some file systems have no locks of folders, some folders are not to be read, and in /tmp
    anybody may hold one for long. A server begins all the same.
    """
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    for _ in range(_TRIES):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_BETWEEN)
        except OSError:
            break
        else:
            return handle
    os.close(handle)
    return None


def _is_served(path: str) -> bool:
    """Return whether somebody answers at the path, or whether it is no socket."""
    if not is_socket(path):
        return True
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(1)
        try:
            sock.connect(path)
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
    return True


def set_options(sock: socket.socket, local: bool) -> None:
    """Set what a connection needs; ``local``: it is one of a unix socket."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wire.pack_seconds(REPLY_SECONDS))
    if not local:
        keep_alive(sock)


def keep_alive(sock: socket.socket) -> None:
    """Let a connection send at once, and end where the other machine is gone."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Such a client holds its place for a minute, not for ever.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_{option}"), value)
