"""Servers for tests: certificates, a process that serves, and what a client says byte by byte."""

from __future__ import annotations

import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.threads import WAIT

from aethergraph.remote import FeatureServer, wire


@contextmanager
def served(*args: object, space: str | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run ``aethergraph serve``, in a network namespace if one is named.

    Yields:
        The process, and the line in which it says what it serves.
    """
    inside = [] if space is None else ["ip", "netns", "exec", space]
    command = [*inside, sys.executable, "-c", "from aethergraph.cli import main; main()", "serve"]
    process = subprocess.Popen(
        [*command, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        assert line.startswith("serving "), process.stderr.read()
        yield process, line
    finally:
        process.kill()
        process.communicate()


def address_in(line: str) -> str:
    """Return the URL in the line of a server, or the first of two."""
    return line.split(" at ")[1].split(" and ")[0].strip()


class Serving:
    """Base of test classes whose servers end with each test."""

    servers: list[FeatureServer]

    @pytest.fixture(autouse=True)
    def close_servers(self) -> Iterator[None]:
        self.servers = []
        yield
        for server in self.servers:
            server.close()

    def serve(self, rows: Any, **options: Any) -> str:
        """Serve rows, at a free port unless told otherwise; return the address."""
        self.servers.append(FeatureServer(rows, **(options or {"port": 0})).start())
        return self.servers[-1].address


class Client:
    """Client that says what it is told to.

    Attributes:
        socket: the socket.
        nonces: (client's, server's), once it has said hello.
    """

    def __init__(self, port: int, hello: bool = True) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), WAIT)
        self.nonces = (b"", b"")
        if hello:
            nonce = secrets.token_bytes(wire.NONCE_BYTES)
            wire.send(self.socket, wire.HELLO, 1, wire.pack_hello(nonce))
            self.nonces = nonce, wire.unpack_hello(memoryview(self.reply()[3]))[1]

    def reply(self) -> tuple[int, int, int, bytes]:
        """Return operation, flags, number and body of a reply.

        Raises:
            ConnectionError: the server has ended the connection.
        """
        size, op, flags, _, request = wire.HEADER.unpack(self._read(wire.HEADER.size))
        return op, flags, request, self._read(size)

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            piece = self.socket.recv(size - len(found))
            if not piece:
                raise ConnectionError("the end")
            found += piece
        return found

    def has_ended(self) -> bool:
        """Read what is left, and return whether the server ends the connection."""
        try:
            while self.socket.recv(1 << 16):
                pass
        except TimeoutError:
            return False
        except OSError:
            return True
        return True
