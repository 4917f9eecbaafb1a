"""Nobody gets a row who does not know the token, and nobody who knows it is fooled."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.network import make_certificate
from support.serving import Client
from support.threads import WAIT, comes, running

from aethergraph import DynamicGraph, Graph
from aethergraph.errors import (
    AccessDeniedError,
    FormatError,
    InvalidArgumentError,
    ServerTimeoutError,
)
from aethergraph.remote import FeatureServer, SamplePlan, SampleService, open_source, wire
from aethergraph.remote import server as server_module

TOKEN = "a secret"


def refused(server: FeatureServer, one: Client, op: int, *parts: bytes) -> None:
    """Require that the server ends a connection instead of answering a request."""
    wire.send(one.socket, op, 7, *parts)
    try:
        _, flags, _, _ = one.reply()
    except OSError:
        return
    assert flags == wire.ERROR and one.has_ended()


@pytest.mark.parametrize("token", [TOKEN, f"{TOKEN}\n"])
def test_the_token(x: Any, token_file: Path, tmp_path: Path, token: str) -> None:
    with FeatureServer(x, port=0, token=token) as server:
        with open_source(f"{server.address}?token_file={token_file}") as source:  # type: ignore[attr-defined]
            assert (source.gather([3]) == x[[3]]).all()
        with pytest.raises(AccessDeniedError, match="asks for a token: give token_file="):
            open_source(server.address)
        (tmp_path / "other").write_text("another one")
        with pytest.raises(AccessDeniedError, match="the token is wrong"):
            open_source(f"{server.address}?token_file={tmp_path}/other")
        assert comes(lambda: server.stats().refused == 2) and server.stats().rows == 1
    with FeatureServer(x, port=0) as server:
        with pytest.raises(AccessDeniedError, match="asks for no token, so it cannot prove"):
            open_source(f"{server.address}?token_file={token_file}")


@pytest.mark.parametrize(
    "op",
    [wire.META, wire.GATHER, wire.HELLO, wire.AUTH, wire.PLAN, wire.SAMPLE, wire.LEASE, wire.ATTACH]
    + [0, 99],
)
def test_nothing_before_the_proof(x: Any, op: int) -> None:
    samples = {"g": SampleService(Graph.from_edges(5, [1], [2]), SamplePlan([3]))}
    graphs = {"l": DynamicGraph(5, 1)}
    with FeatureServer({"x": x}, port=0, token=TOKEN, samples=samples, graphs=graphs) as server:
        refused(server, Client(server.port or 0, hello=False), op)
        refused(server, Client(server.port or 0), op, bytes(8), bytes(16))
        refused(server, Client(server.port or 0), op, b'{"graph": "l"}')
        stats = server.stats()
        assert comes(lambda: server.stats().refused == 3)
        assert stats.rows == stats.samples == stats.leases == 0


def test_a_proof_is_good_once(x: Any) -> None:
    with FeatureServer(x, port=0, token=TOKEN) as server:
        port = server.port or 0
        first = Client(port)
        proof = wire.prove(TOKEN.encode(), b"client", *first.nonces)
        wire.send(first.socket, wire.AUTH, 2, proof)
        assert first.reply()[3] == wire.prove(TOKEN.encode(), b"server", *first.nonces)
        again = Client(port, hello=False)  # with the same nonce, as whoever has listened can
        wire.send(again.socket, wire.HELLO, 1, wire.pack_hello(first.nonces[0]))
        _, nonce = wire.unpack_hello(memoryview(again.reply()[3]))
        assert nonce != first.nonces[1]
        refused(server, again, wire.AUTH, proof)
        # What the server says of itself is no proof of a client.
        third = Client(port)
        refused(server, third, wire.AUTH, wire.prove(TOKEN.encode(), b"server", *third.nonces))
        assert comes(lambda: server.stats().refused == 2) and server.stats().rows == 0


def imitate(answer: Callable[[socket.socket], object]) -> tuple[str, threading.Thread]:
    """Listen once as a server that answers a connection as it likes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with listener:
            sock, _ = listener.accept()
            with sock:
                sock.settimeout(WAIT)
                answer(sock)

    thread = threading.Thread(target=run)
    thread.start()
    return f"tcp://127.0.0.1:{listener.getsockname()[1]}", thread


def test_a_server_must_prove_itself(token_file: Path) -> None:
    def reflect(sock: socket.socket) -> None:
        inbox = wire.Inbox(sock)
        for op in (wire.HELLO, wire.AUTH):  # says the client's own words
            frame = inbox.frame()
            assert frame is not None and frame.op == op
            body = bytes(frame.body)
            if op == wire.HELLO:
                body = wire.pack_hello(wire.unpack_hello(frame.body)[1], True)
            wire.send(sock, op, frame.request, body)

    url, thread = imitate(reflect)
    with pytest.raises(AccessDeniedError, match="does not know the token"):
        open_source(f"{url}?token_file={token_file}")
    thread.join()


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        bytes(12),
        wire.HEADER.pack(1 << 30, wire.HELLO, 0, 0, 1),
        wire.HEADER.pack(8, wire.HELLO, 0, 0, 1) + bytes(8),
        wire.HEADER.pack(2, wire.HELLO, wire.ERROR, 0, 1) + b"[]",
        wire.HEADER.pack(3, wire.HELLO, wire.ERROR, 0, 1) + b"\xff{}",
    ],
)
def test_something_else_answers(said: bytes) -> None:
    url, thread = imitate(lambda sock: (sock.recv(1000), sock.sendall(said)))
    with pytest.raises(FormatError, match="no server of AetherGraph answers"):
        open_source(url)
    thread.join()


def test_tls(x: Any, certificate: tuple[Path, Path], token_file: Path) -> None:
    with FeatureServer(x, port=0, host="0.0.0.0", token=TOKEN, tls=certificate) as server:
        url = f"tcp://127.0.0.1:{server.port}?token_file={token_file}&timeout=20"
        source = open_source(f"{url}&ca={certificate[0]}")
        for _ in range(3):
            assert (source.gather(range(5000)) == x).all()
        with pytest.raises(FormatError, match=r"not accepted: .*self.signed.*: give ca= the file"):
            open_source(f"{url}&ca=system")
        began = time.monotonic()
        with pytest.raises(FormatError, match="speaks TLS: give ca= in the URL"):
            open_source(url)
        assert time.monotonic() - began < 30  # it is not asked again and again
    with FeatureServer(x, port=0) as server:
        with pytest.raises((FormatError, ServerTimeoutError), match=r"TLS|ended"):
            open_source(f"{server.address}?ca={certificate[0]}&timeout=5")


def test_a_connection_that_ends_before_tls(
    x: Any, certificate: tuple[Path, Path], token_file: Path
) -> None:
    """A server that is full, or about to end, cuts it: the client comes again."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    url = f"tcp://127.0.0.1:{port}?token_file={token_file}&ca={certificate[0]}"

    found: list[Any] = []
    with running(lambda: found.append(open_source(url).gather([3]))):
        for _ in range(3):
            client, _ = listener.accept()
            client.recv(1 << 16)  # its first words of TLS
            client.close()
        listener.close()
        with FeatureServer(x, port=port, token=TOKEN, tls=certificate):
            assert comes(lambda: found)
    assert (found[0] == x[[3]]).all()


def test_a_name_that_the_certificate_has_not(
    x: Any, certificate: tuple[Path, Path], token_file: Path
) -> None:
    with FeatureServer(x, port=0, host="0.0.0.0", token=TOKEN, tls=certificate) as server:
        with pytest.raises(
            FormatError, match=r"not valid for '127\.0\.0\.2': give a host in the URL that the cert"
        ):
            open_source(
                f"tcp://127.0.0.2:{server.port}?ca={certificate[0]}&token_file={token_file}"
            )


def test_files_of_tls_in_the_wrong_order(x: Any, certificate: tuple[Path, Path]) -> None:
    with pytest.raises(InvalidArgumentError, match="the first is the file of the certificate"):
        FeatureServer(x, port=0, tls=(certificate[1], certificate[0]))


def test_a_token_that_is_no_text(x: Any, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidArgumentError, match=r"token_file: .*/binary holds no text"):
        open_source(f"tcp://127.0.0.1:1?token_file={tmp_path}/binary")


def test_a_certificate_that_has_expired(x: Any, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path, expired=True)
    with (
        FeatureServer(x, port=0, tls=(certificate, key)) as server,
        pytest.raises(FormatError, match="has expired: give the server a new one"),
    ):
        open_source(f"{server.address}?ca={certificate}")


def test_a_certificate_of_another_signer(
    x: Any, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    other, _ = make_certificate(tmp_path)  # of the same name, with another key
    with (
        FeatureServer(x, port=0, tls=certificate) as server,
        pytest.raises(FormatError, match=r"not accepted: .*: give ca= the file of the certificate"),
    ):
        open_source(f"{server.address}?ca={other}")


def test_a_silent_client_holds_no_place_before_tls(
    x: Any, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "_GREETING", 0.3)
    with FeatureServer(x, port=0, tls=certificate) as server:
        silent, began = Client(server.port or 0, hello=False), time.monotonic()
        assert silent.has_ended() and time.monotonic() - began < 30
        assert comes(lambda: server.stats()[:3] == (0, 1, 1))
