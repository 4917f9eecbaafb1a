"""What is no frame ends its connection, and nothing else: no crash, no hang, no row."""

from __future__ import annotations

import random
import socket
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.serving import Client
from support.share import EXAMPLES
from support.threads import WAIT, comes

from aethergraph.remote import FeatureServer, open_source, peer, server, wire
from aethergraph.remote.address import parse_address
from aethergraph.remote.endpoint import Connection

TOKEN = "a secret"


def greeted(port: int) -> Client:
    """Return a client that may ask for rows."""
    one = Client(port)
    wire.send(one.socket, wire.AUTH, 2, wire.prove(TOKEN.encode(), b"client", *one.nonces))
    one.reply()
    return one


@pytest.fixture(scope="module")
def guarded() -> Any:
    rows = np.arange(300, dtype=np.int64).reshape(100, 3)
    with FeatureServer(rows, port=0, token=TOKEN) as made:
        yield made


def gather_body(ids: list[int], table: int = 0) -> bytes:
    return struct.pack(f"<II{len(ids)}q", table, 0, *ids)


headers = st.builds(
    wire.HEADER.pack, st.integers(0, 100) | st.integers(0, 2**32 - 1), st.integers(0, 255),
    st.integers(0, 255), st.sampled_from([0, 0, 0, 1]), st.integers(0, 2**32 - 1),
)  # fmt: skip
gathers = st.builds(
    lambda ids, table, cut: (
        wire.HEADER.pack(8 + 8 * len(ids) + cut, wire.GATHER, 0, 0, 5) + gather_body(ids, table)
    ),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20), st.sampled_from([0, 0, 1]),
    st.sampled_from([0, 0, 1, -8]),
)  # fmt: skip


@given(st.booleans(), st.lists(st.binary(max_size=200) | headers | gathers, max_size=8))
def test_anything(guarded: FeatureServer, known: bool, pieces: list[bytes]) -> None:
    before = guarded.stats()
    one = greeted(guarded.port or 0) if known else Client(guarded.port or 0, hello=False)
    with suppress(OSError):
        for piece in pieces:
            one.socket.sendall(piece)
        one.socket.shutdown(socket.SHUT_WR)
    assert one.has_ended()
    one.socket.close()
    if not known:
        assert guarded.stats().rows == before.rows
    source = open_source_of(guarded)
    assert (source.gather([99]) == [[297, 298, 299]]).all()


def open_source_of(guarded: FeatureServer) -> Any:
    """Return the one client of all examples."""
    if not hasattr(guarded, "client"):
        import tempfile

        with tempfile.NamedTemporaryFile("w", suffix="token") as file:
            file.write(TOKEN)
            file.flush()
            guarded.client = open_source(f"{guarded.address}?token_file={file.name}")  # type: ignore[attr-defined]
    return guarded.client  # type: ignore[attr-defined]


@pytest.mark.any_python
def test_ten_thousands_of_frames(guarded: FeatureServer) -> None:
    """Frames that are right but for some bits, many to a connection."""
    rng = random.Random(0)
    frames = 0
    most = 10_000 * EXAMPLES  # a soak tries more
    while frames < most:
        one = greeted(guarded.port or 0)
        data = bytearray()
        for _ in range(500):
            body = gather_body([rng.randrange(-5, 120) for _ in range(rng.randrange(4))])
            data += wire.HEADER.pack(len(body), wire.GATHER, 0, 0, frames) + body
            frames += 1
        for _ in range(rng.randrange(3)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        one.socket.settimeout(0.2)
        with suppress(OSError):  # it has ended, or has no room for more answers
            one.socket.sendall(data)
            one.socket.shutdown(socket.SHUT_WR)
        one.socket.settimeout(10)
        assert one.has_ended()
        one.socket.close()
    assert (open_source_of(guarded).gather([1]) == [[3, 4, 5]]).all()


def test_limits(guarded: FeatureServer) -> None:
    port = guarded.port or 0
    for announced in (wire.HEADER.pack(wire.MAX_BODY, wire.GATHER, 0, 0, 1), b"\xff" * 12):
        one = greeted(port)
        one.socket.sendall(announced)  # more than a client may say: nothing is kept for it
        assert b"are the most" in one.reply()[3] and one.has_ended()
    one = greeted(port)
    wire.send(one.socket, wire.GATHER, 1, gather_body([0] * wire.MAX_IDS))
    assert len(one.reply()[3]) == wire.MAX_IDS * 24
    wire.send(one.socket, wire.GATHER, 1, gather_body([0] * (wire.MAX_IDS + 1)))
    assert b"are the most" in one.reply()[3] and one.has_ended()


def test_rows_that_no_frame_holds() -> None:
    with FeatureServer(np.zeros((9, 1 << 20), np.uint8), port=0) as made:
        one = Client(made.port or 0)
        wire.send(one.socket, wire.GATHER, 1, gather_body([0] * 65))
        assert b"more than a frame holds" in one.reply()[3] and one.has_ended()
        source = open_source(made.address)  # asks for a few at a time
        assert source.gather([3] * 65).shape == (65, 1 << 20)


def test_strangers_and_places(monkeypatch: pytest.MonkeyPatch, x: Any) -> None:
    monkeypatch.setattr(server, "_STRANGERS", 3)
    with FeatureServer(x, port=0, max_connections=2, token=TOKEN) as made:
        port = made.port or 0
        silent = [Client(port, hello=False) for _ in range(10)]
        kept = [greeted(port), greeted(port)]
        assert silent[0].has_ended()  # the oldest made room
        third = Client(port)
        wire.send(third.socket, wire.AUTH, 2, wire.prove(TOKEN.encode(), b"client", *third.nonces))
        assert b"there are 2 connections already" in third.reply()[3] and third.has_ended()
        kept[0].socket.close()
        assert comes(lambda: made.stats().connections <= 3)
        last = greeted(port)
        wire.send(last.socket, wire.META, 3)
        assert last.reply()[0] == wire.META


@pytest.mark.parametrize(
    ("way", "pause"), [("tcp", 60), ("tcp", 0.05), ("tls", 60), ("tls", 0.05), ("unix", 0.05)]
)
def test_replies_that_nobody_reads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, certificate: Any, way: str, pause: float
) -> None:
    """The limit is one of the whole reply, of which some pieces are read or none."""
    monkeypatch.setattr(peer, "REPLY_SECONDS", 0.5)
    monkeypatch.setattr(server, "_LOOK", 0.1)
    tls = certificate if way == "tls" else None
    path = tmp_path / "s"
    with FeatureServer(np.zeros((4, 1 << 21)), port=0, tls=tls, unix=path) as made:
        place = f"unix://{path}" if way == "unix" else made.address
        address = parse_address(place + (f"?ca={certificate[0]}" if tls else ""))
        connection = Connection(address, address.locations[0])
        began = time.monotonic()
        connection.begin(wire.GATHER, *wire.pack_gather(0, np.arange(4)))  # 64 MiB
        while made.stats().refused == 0 and time.monotonic() < began + WAIT:
            time.sleep(min(pause, 0.05))
            with suppress(TimeoutError, BlockingIOError):  # nothing was sent for a moment
                if pause < 1 and not connection._socket.recv(1 << 12):
                    break
        assert comes(lambda: made.stats().refused == 1 and made.stats().connections == 0)
        assert 0.4 < time.monotonic() - began < WAIT
        connection.close()


def test_slow_clients(monkeypatch: pytest.MonkeyPatch, x: Any) -> None:
    """A byte now and then holds a connection for as long as a request may take, and no longer."""
    monkeypatch.setattr(server, "_REQUEST", 0.5)
    with FeatureServer(x, port=0, token=TOKEN) as made:
        port = made.port or 0
        known, silent = greeted(port), greeted(port)
        monkeypatch.setattr(server, "_GREETING", 0.5)
        stranger = Client(port, hello=False)
        frame = wire.HEADER.pack(24, wire.GATHER, 0, 0, 1) + gather_body([1, 2])
        began = time.monotonic()
        ended: set[int] = set()
        while len(ended) < 2 and time.monotonic() < began + WAIT:
            for number, one in enumerate((stranger, known)):
                one.socket.settimeout(0.05)
                try:
                    if number not in ended:
                        one.socket.send(frame[:1])
                        if not one.socket.recv(1 << 12):
                            ended.add(number)
                except TimeoutError:
                    pass
                except OSError:
                    ended.add(number)
        assert ended == {0, 1} and 0.4 < time.monotonic() - began < WAIT
        wire.send(silent.socket, wire.GATHER, 1, gather_body([1]))  # between requests all may rest
        assert silent.reply()[3] == x[1].tobytes()
