"""Addresses of servers: ``tcp://host:port/name?options`` and ``unix:///path/name?options``."""

from __future__ import annotations

import errno
import os
import select
import socket
import ssl
import stat
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from aethergraph._checks.options import as_choice, as_number, shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.remote import wire
from aethergraph.remote.waiting import GLANCE, keep_waiting

__all__ = ["Address", "Location", "is_socket", "parse_address", "read_token", "speaks_tls"]

_SCHEMES = ("tcp", "unix", "shm", "rdma")
_SERVERS = ("tcp", "unix", "rdma")
#: Options, and the schemes that they mean something for.
_OPTIONS = {
    "name": _SERVERS,
    "token_file": _SERVERS,
    "ca": ("tcp", "rdma"),
    "timeout": _SERVERS,
    "memory_budget": _SERVERS,
    "map": ("unix",),
    "max_age": _SERVERS,
    "missing": ("shm",),
}
#: Room for the requests that are under way, so that sending them never waits for the server.
_SEND_BYTES = 256 << 10
#: What stands for itself in the path of a URL, beside letters and digits.
_PLAIN = "/:@,=+&;!$'()*"


@dataclass(frozen=True)
class Location:
    """Place where a server listens.

    Attributes:
        host: host or address, or the path of a unix socket and perhaps a name behind it.
        port: port; None for a unix socket.
    """

    host: str
    port: int | None

    def __str__(self) -> str:
        if self.port is None:
            return f"unix://{quote(self.host, _PLAIN, errors='surrogateescape')}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tcp://{host}:{self.port}"


@dataclass(frozen=True)
class Address:
    """Address of a table.

    Attributes:
        url: the URL.
        scheme: ``"tcp"``, ``"unix"``, ``"shm"`` or ``"rdma"``.
        locations: places of the servers, several if each has a shard.
        name: name of the table; empty: the only one.
        token_file: file of the token, or None.
        ca: file of the certificates that the server's must be signed by, ``"system"``, or None.
        timeout: seconds that a request may take in all.
        memory_budget: memory for rows that are kept, or None.
        max_age: seconds that rows that change may be kept, or None.
        mapped: whether rows of a server on this machine are mapped, where that is possible.
        missing: of a file on this machine, what rows of a live table are that nobody has written.
    """

    url: str
    scheme: str
    locations: tuple[Location, ...]
    name: str
    token_file: str | None
    ca: str | None
    timeout: float
    memory_budget: str | None
    max_age: float | None
    mapped: bool = True
    missing: Any = "error"
    _contexts: dict[str, ssl.SSLContext] = field(default_factory=dict, compare=False, repr=False)

    def named(self, name: str) -> Address:
        """Return the address of another table of the same servers."""
        return replace(self, name=name)

    def token(self) -> bytes | None:
        """Return the token, which is read anew for each connection: it may be renewed."""
        return None if self.token_file is None else read_token(self.token_file).encode()

    def connect(self, location: Location) -> tuple[socket.socket, str]:
        """Return a connected socket, and the name of the table there.

        Its time-outs are short: who uses it looks then whether to go on (waiting.py).

        Raises:
            OSError: nobody listens there, or TLS fails.
            InvalidArgumentError: the file of certificates is none.
        """
        name = self.name
        if location.port is None:
            path, name = split_unix(location.host, name)
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        else:
            sock = _connected(location, self.timeout)
        glance = min(GLANCE, self.timeout)
        try:
            if location.port is None:
                sock.settimeout(self.timeout)
                sock.connect(path)
            else:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
            if location.port is not None and self.ca is not None:
                # Python's TLS knows its own time-outs alone, and goes on after one of the system's.
                sock.settimeout(glance)
                sock = self._context(self.ca).wrap_socket(
                    sock, server_hostname=location.host, do_handshake_on_connect=False
                )
                _shake_hands(sock, str(location), self.timeout)
                return sock, name
            # Time-outs of the system's: one call for each piece, and not two.
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                sock.setsockopt(socket.SOL_SOCKET, option, wire.pack_seconds(glance))
            sock.settimeout(None)
        except BaseException:
            sock.close()
            raise
        return sock, name

    def _context(self, ca: str) -> ssl.SSLContext:
        context = self._contexts.get(ca)
        if context is None:
            try:
                context = ssl.create_default_context(cafile=None if ca == "system" else ca)
            except (OSError, ValueError) as error:
                raise InvalidArgumentError(f"ca: {ca}: {error}") from None
            self._contexts[ca] = context
        return context

    def __reduce__(self) -> tuple[Any, ...]:
        return _named_address, (self.url, self.name)


def parse_address(url: Any) -> Address:
    """Return the parts of a URL.

    Raises:
        InvalidArgumentError: it is none, or has an option that is not known or not valid.
    """
    if not isinstance(url, str):
        raise InvalidArgumentError(f"url must be a text, got {type(url).__name__}")
    for character in "#\n\r\t":  # urlsplit() would leave out what follows, or the character
        if character in url:
            raise InvalidArgumentError(
                f"url = {shown(url)} has the character {character!r}: in a name or a path write "
                f"%{ord(character):02X}"
            )
    try:
        parts = urlsplit(url)
        query = parts.query.replace("+", "%2B")  # no form of a web page: a plus is a plus
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError as error:
        raise InvalidArgumentError(f"url = {shown(url)}: {error}") from None
    if parts.scheme not in _SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in _SCHEMES)
        raise InvalidArgumentError(f"url = {shown(url)} does not begin with one of {known}")
    options = dict(pairs)
    for option in options:
        if [name for name, _ in pairs].count(option) > 1:
            raise InvalidArgumentError(f"url = {shown(url)} has the option {option!r} twice")
        if option not in _OPTIONS:
            raise InvalidArgumentError(
                f"url = {shown(url)} has the option {option!r}; there are {', '.join(_OPTIONS)}"
            )
    timeout = as_number(options.get("timeout", 30), f"timeout in {shown(url)}")
    if not 0 < timeout <= 86400:
        raise InvalidArgumentError(f"timeout = {timeout} in {shown(url)} is not in (0, 86400]")
    max_age = None
    if "max_age" in options:
        max_age = as_number(options["max_age"], f"max_age in {shown(url)}")
        if not 0 <= max_age <= 1e9:
            raise InvalidArgumentError(f"max_age = {max_age} in {shown(url)} is not in [0, 1e9]")
    missing = as_choice(options.get("missing", "error"), ["error", "zero", "nan"], "missing")
    if "missing" in options and parts.scheme != "shm":
        raise InvalidArgumentError(
            f"url = {shown(url)}: what missing rows are, the server says: aethergraph serve "
            f"--missing {missing}"
        )
    for option in options:
        if parts.scheme not in _OPTIONS[option]:
            known = ", ".join(name for name, of in _OPTIONS.items() if parts.scheme in of)
            raise InvalidArgumentError(
                f"url = {shown(url)}: the option {option!r} means nothing for "
                f"{parts.scheme}://, which has {known}: leave it out"
            )
    name = options.get("name", "")
    if parts.scheme in ("tcp", "rdma"):
        locations = tuple(_location(host_port, url) for host_port in parts.netloc.split(","))
        name = name or unquote(parts.path).strip("/")
    else:
        path = unquote(parts.path, errors="surrogateescape")  # bytes, which need be no text
        if parts.netloc or not path.strip("/"):
            raise InvalidArgumentError(
                f"url = {shown(url)} is not {parts.scheme}:///PATH, with the path from the root"
            )
        locations = (Location(path, None),)
    return Address(
        url, parts.scheme, locations, name, options.get("token_file"), options.get("ca"), timeout,
        options.get("memory_budget"), max_age,
        as_choice(options.get("map", "yes"), ["yes", "no"], "map") == "yes", missing,
    )  # fmt: skip


def _named_address(url: str, name: str) -> Address:
    return parse_address(url).named(name)


def _location(text: str, url: str) -> Location:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or port is None or parts.username is not None:
        raise InvalidArgumentError(f"url = {shown(url)}: {shown(text)} is not HOST:PORT")
    if port == 0:
        raise InvalidArgumentError(
            f"url = {shown(url)}: nobody listens at port 0: give the one that the server prints"
        )
    return Location(host, port)


def split_unix(path: str, name: str) -> tuple[str, str]:
    """Return the path of the socket and the name behind it; all is the path if there is none."""
    if name or is_socket(path):
        return path, name
    socket_path, tail = path.rstrip("/"), ""
    while socket_path not in ("", "/"):
        if is_socket(socket_path):
            name = tail.encode(errors="replace").decode()  # names of tables are texts
            return socket_path, name
        socket_path, last = os.path.split(socket_path)
        tail = f"{last}/{tail}" if tail else last
    return path, name


def is_socket(path: str) -> bool:
    """Return whether there is a unix socket at a path."""
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def _connected(location: Location, timeout: float) -> socket.socket:
    """Return a socket that is connected to a host, at the first of its addresses that answers."""
    failure = OSError(f"{location.host} has no address")
    for family, kind, protocol, _, place in socket.getaddrinfo(
        location.host, location.port, type=socket.SOCK_STREAM
    ):
        sock = socket.socket(family, kind, protocol)
        try:
            _connect(sock, place, str(location), timeout)
            return sock
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
    try:
        raise failure
    finally:
        del failure  # it refers to this frame


def _connect(sock: socket.socket, place: Any, where: str, timeout: float) -> None:
    until = time.monotonic() + timeout
    sock.settimeout(min(GLANCE, timeout))
    code = sock.connect_ex(place)
    if code == errno.EAGAIN:  # not yet
        keep_waiting(until, where)
        ready = select.poll()
        ready.register(sock, select.POLLOUT)
        while not ready.poll(1000 * GLANCE):
            keep_waiting(until, where)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))


def _shake_hands(sock: ssl.SSLSocket, where: str, timeout: float) -> None:
    until = time.monotonic() + timeout
    while True:
        try:
            sock.do_handshake()
            return
        except TimeoutError:
            keep_waiting(until, where)


def speaks_tls(location: Location, timeout: float) -> bool:
    """Return whether a server begins with TLS, whoever it is."""
    if location.port is None:
        return False
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((location.host, location.port), timeout) as sock,
            context.wrap_socket(sock),
        ):
            return True
    except OSError:
        return False


def read_token(path: str | Path) -> str:
    """Return the token in a file, without blanks around it.

    Raises:
        InvalidArgumentError: the file cannot be read, or is empty.
    """
    try:
        token = Path(path).read_text().strip()
    except OSError as error:  # names the file
        raise InvalidArgumentError(f"token_file: {error}") from None
    except ValueError as error:
        raise InvalidArgumentError(f"token_file: {path} holds no text: {error}") from None
    if not token:
        raise InvalidArgumentError(f"token_file: {path} is empty")
    return token
