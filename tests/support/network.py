"""Cables to a network namespace for root, certificates, and connections that are cut."""

from __future__ import annotations

import ipaddress
import os
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import pytest

#: First address of four of this process: other runs of the tests may have cables on this machine.
_NET = ipaddress.IPv4Address("10.192.0.0") + 4 * (os.getpid() % 2**20)
#: Addresses of the ends.
NEAR, FAR = str(_NET + 1), str(_NET + 2)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def run_ip(*words: str) -> None:
    """Run ``ip`` with these words."""
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=30)


class Cable:
    """Ends of a virtual cable: ``near`` here, the other in a namespace.

    Attributes:
        near: name of the interface here.
        space: name of the namespace.
    """

    def __init__(self) -> None:
        self.near, far = f"aen{os.getpid() % 10**6}", f"aef{os.getpid() % 10**6}"
        self.space = f"aethergraph-{os.getpid()}"
        run_ip("netns", "add", self.space)
        run_ip("link", "add", self.near, "type", "veth", "peer", "name", far)
        run_ip("link", "set", far, "netns", self.space)
        run_ip("addr", "add", f"{NEAR}/30", "dev", self.near)
        run_ip("link", "set", self.near, "up")
        run_ip("-n", self.space, "addr", "add", f"{FAR}/30", "dev", far)
        run_ip("-n", self.space, "link", "set", far, "up")

    def remove(self) -> None:
        """Remove the cable and the namespace."""
        for words in (("link", "del", self.near), ("netns", "del", self.space)):
            subprocess.run(["ip", *words], check=False, capture_output=True, timeout=30)


C = TypeVar("C", bound=Cable)


@contextmanager
def plugged(kind: type[C]) -> Iterator[C]:
    """Make a cable for a block, or skip the test where there can be none."""
    if shutil.which("ip") is None:
        pytest.skip("no program ip: apt install iproute2")
    if os.geteuid() != 0:
        pytest.skip("namespaces need root: sudo ./scripts/test.sh python")
    try:
        made = kind()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no virtual networks here ({error.stderr.strip()}): a machine of its own has")
    try:
        yield made
    finally:
        made.remove()


def make_certificate(folder: Path, *addresses: str, expired: bool = False) -> tuple[Path, Path]:
    """Return files of a certificate for localhost, 127.0.0.1 and ``addresses``, and of its key.

    One that has expired did so a day ago.
    """
    key, certificate = folder / "key.pem", folder / "cert.pem"
    names = ["DNS:localhost", *(f"IP:{one}" for one in ("127.0.0.1", *addresses))]
    try:
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key),
             "-out", str(certificate), "-days", "1", "-subj", "/CN=localhost",
             "-addext", f"subjectAltName={','.join(names)}"],
            check=True, capture_output=True,
        )  # fmt: skip
        if expired:
            subprocess.run(
                ["openssl", "x509", "-in", str(certificate), "-signkey", str(key), "-days", "-1",
                 "-out", str(certificate)],
                check=True, capture_output=True,
            )  # fmt: skip
    except FileNotFoundError:
        pytest.skip("no openssl to make a certificate: install it")
    return certificate, key


class Relay:
    """Passes bytes between its clients and a server.

    What it does to its clients is what they see of a server that dies at any moment, in the middle
    of an answer too, and comes back with its disk.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._away = False
        self._left: int | None = None
        self.was_cut = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def open(self, most: int | None = None) -> None:
        """Take connections, and cut them all once so many bytes have come from the server."""
        with self._lock:
            self.was_cut.clear()
            self._away, self._left = False, most

    def close_all(self) -> None:
        """Cut all connections, and take no more."""
        with self._lock:
            self._away, self._left = True, None
            for one in self._open:
                with suppress(OSError):  # with a reset, as a process that is gone
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
            self._open.clear()
        self.was_cut.set()

    def close(self) -> None:
        self._listener.close()
        self.close_all()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._away:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self.target))
                self._open += [client, server]
            for one, other in ((client, server), (server, client)):
                threading.Thread(
                    target=self._pass, args=(one, other, one is server), daemon=True
                ).start()

    def _pass(self, one: socket.socket, other: socket.socket, is_answer: bool) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 14):
                if is_answer and (data := self._allowed(data)) is None:
                    return
                other.sendall(data)
        with suppress(OSError):
            other.shutdown(socket.SHUT_WR)

    def _allowed(self, data: bytes) -> bytes | None:
        """Count bytes of the server; cut the connections if it is time."""
        with self._lock:
            if self._left is None:
                return data
            self._left -= len(data)
            if self._left > 0:
                return data
        self.close_all()
        return None
