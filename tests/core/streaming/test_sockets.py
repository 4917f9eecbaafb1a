"""SocketSource: programs that send Arrow over TCP, break off, and send again."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certificates import make_certificate

from aethergraph import DynamicGraph, errors
from aethergraph.streaming import Ingestor, Schema, SocketSource, sockets
from aethergraph.testing import SourceContract

pa = pytest.importorskip("pyarrow")
WAIT = 60
SCHEMA = Schema.arrow(src="u", dst="v")


def small() -> DynamicGraph:
    return DynamicGraph(10_000, 64, order="time", layout="csc", huge_pages=False)


class Sender:
    """Client of a source: sends the edges (number, 0), (number, 1)... of a partition."""

    def __init__(self, port: int, number: int, tls: Any = None, **greeting: Any) -> None:
        plain = socket.create_connection(("127.0.0.1", port), timeout=WAIT)
        self.socket = plain if tls is None else tls.wrap_socket(plain, server_hostname="localhost")
        self.file, self.number = self.socket.makefile("rwb"), number
        self.file.write(json.dumps({"partition": number, **greeting}).encode() + b"\n")
        self.file.flush()
        self.answer = json.loads(self.file.readline())

    def send(self, end: int, size: int = 100) -> None:
        v = np.arange(self.answer["next"], end)
        table = pa.table({"u": np.full(len(v), self.number), "v": v})
        with pa.ipc.new_stream(self.file, table.schema) as stream:
            stream.write_table(table, size)
        self.file.flush()

    def told(self, number: int) -> int:
        """Wait until the server says that rows up to a number are on disk."""
        last = self.answer["next"]
        while last < number:
            last = json.loads(self.file.readline())["next"]
        return last

    def close(self) -> None:
        with suppress(OSError):
            self.file.close()
        self.socket.close()


class Fed(SocketSource):
    """Source whose clients send all they have whenever it is opened."""

    counts: Sequence[int] = ()

    def open(self, offsets: Any) -> None:
        super().open(offsets)
        for number, count in enumerate(self.counts):
            self._next.setdefault(number, 0)
            threading.Thread(target=self.feed, args=(number, count), daemon=True).start()
        until = time.monotonic() + WAIT
        while time.monotonic() < until and any(
            self._next[n] < min(c, 1) for n, c in enumerate(self.counts)
        ):
            time.sleep(0.001)

    def feed(self, number: int, count: int) -> None:
        with suppress(OSError, ValueError, KeyError):
            sender = Sender(self.port, number)
            sender.send(count)
            while sender.file.readline():
                pass


class TestSocketSource(SourceContract):
    def make(self, counts: Sequence[int]) -> Any:
        source = Fed("events", SCHEMA)
        source.counts = counts
        return source


def test_rows_come_and_are_acknowledged(tmp_path: Path) -> None:
    graph = DynamicGraph.open(tmp_path / "g", 10_000, 64, order="time", huge_pages=False)
    source = SocketSource("events", SCHEMA)
    with Ingestor(graph, source):
        senders = [Sender(source.port, number) for number in range(3)]
        for sender in senders:
            assert sender.answer == {"next": 0}
            sender.send(500)
        for sender in senders:
            assert sender.told(500) == 500
        assert graph.num_edges == 1500  # what was acknowledged is there
        again = Sender(source.port, 1)
        assert again.answer == {"next": 500}
        again.send(700)
        assert again.told(700) == 700
    assert graph.offsets("events") == {0: 500, 1: 700, 2: 500}
    graph.close()


def test_clients_and_servers_that_break_off(tmp_path: Path) -> None:
    graph, rng = small(), np.random.default_rng(3)
    sent, port = 0, 0
    while graph.num_edges < 3000:
        source = SocketSource("events", SCHEMA, port=port)
        with Ingestor(graph, source, batch=100):
            port = source.port
            for _ in range(3):
                sender = Sender(port, 0)
                assert sender.answer["next"] <= max(sent, graph.offsets("events").get(0, 0))
                sent = min(3000, sender.answer["next"] + int(rng.integers(1, 500)))
                sender.send(sent, int(rng.integers(1, 50)))
                time.sleep(rng.random() / 50)
                sender.close()  # perhaps before all has been read
    src, dst, _ = graph.snapshot().edge_list()
    assert sorted(dst.tolist()) == list(range(3000)) and not src.any()


def test_a_slow_reader_makes_clients_wait() -> None:
    source = SocketSource("events", SCHEMA)
    source.open({})
    try:
        done = threading.Event()

        def send() -> None:
            with suppress(OSError, ValueError):
                Sender(source.port, 0).send(10_000, 10)
                done.set()

        threading.Thread(target=send, daemon=True).start()
        until = time.monotonic() + WAIT
        while source.lag().get(0, 0) < 160 and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.05)
        assert source.lag() == {0: 160}  # sixteen batches, and no more
        found = 0
        while found < 10_000 and time.monotonic() < until:
            found += sum(one.count for one in source.poll(0.1) or ())
        assert found == 10_000
    finally:
        source.close()


@pytest.mark.parametrize(
    ("greeting", "message"),
    [
        (b"hello\n", "the first line must be"),
        (b'{"partition": "0", "token": "secret"}\n', "the first line must be"),
        (b'{"partition": true, "token": "secret"}\n', "the first line must be"),
        (b'{"partition": -1, "token": "secret"}\n', "partition = -1"),
        (b'{"partition": 0}\n', "the token is wrong"),
        (b'{"partition": 0, "token": "Secret"}\n', "the token is wrong"),
        (b"[" * 70_000 + b"\n", "the first line must be"),
    ],
)
def test_strangers_are_refused(greeting: bytes, message: str) -> None:
    source = SocketSource("events", SCHEMA, token="secret")
    source.open({})
    try:
        with socket.create_connection(("127.0.0.1", source.port), timeout=WAIT) as one:
            with suppress(OSError):
                one.sendall(greeting)
            with suppress(ConnectionError):  # it may end before all was sent
                assert message in json.loads(one.makefile("rb").readline())["error"]
        assert Sender(source.port, 0, token="secret").answer == {"next": 0}
        assert source.poll(0) == []
    finally:
        source.close()


def test_nonsense_after_the_greeting() -> None:
    source = SocketSource("events", SCHEMA)
    source.open({})
    try:
        one = Sender(source.port, 0)
        one.socket.sendall(b"\x10\0\0\0 this is no Arrow at all ........................")
        one.socket.shutdown(socket.SHUT_WR)
        assert "no Arrow IPC stream" in one.file.readline().decode()
        other = Sender(source.port, 0)
        table = pa.table({"a": [1], "b": [2]})
        with pa.ipc.new_stream(other.file, table.schema) as stream:
            stream.write_table(table)
        other.file.flush()
        assert "there is no column 'u', but a, b" in other.file.readline().decode()
        assert source.poll(0) == []
    finally:
        source.close()


def test_tls(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    graph = small()
    source = SocketSource("events", SCHEMA, token="t", tls=(certificate, key), host="0.0.0.0")
    with Ingestor(graph, source):
        trusting = ssl.create_default_context(cafile=str(certificate))
        sender = Sender(source.port, 0, trusting, token="t")
        sender.send(100)
        assert sender.told(100) == 100
        with pytest.raises((OSError, ValueError)):  # without TLS
            Sender(source.port, 0, token="t")
        with pytest.raises(ssl.SSLError):  # a certificate that is not trusted
            Sender(source.port, 0, ssl.create_default_context(), token="t")
    assert graph.num_edges == 100


def test_messages_that_are_too_long() -> None:
    source = SocketSource("e", SCHEMA, max_message=10_000)
    source.open({})
    try:
        sender = Sender(source.port, 0)
        sender.send(500)  # 100 rows each
        rows = 0
        while rows < 500:
            rows += sum(one.count for one in source.poll(WAIT) or ())
        with suppress(OSError):
            sender.send(10_500, 10_000)
        assert "bytes, where 10000 are the most" in json.loads(sender.file.readline())["error"]
        sender.close()
        announced = Sender(source.port, 1)
        announced.file.write(b"\xff\xff\xff\xff" + (1 << 30).to_bytes(4, "little"))
        announced.file.flush()
        error = json.loads(announced.file.readline())["error"]
        assert error == "a message of 1073741824 bytes, where 10000 are the most"
        announced.close()
    finally:
        source.close()


def test_strangers_take_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who says nothing goes when others come, and counts for nothing."""
    monkeypatch.setattr(sockets, "_STRANGERS", 3)
    monkeypatch.setattr(sockets, "_CONNECTIONS", 2)
    source = SocketSource("e", SCHEMA, token="word")
    source.open({})
    try:
        silent = [socket.create_connection(("127.0.0.1", source.port), WAIT) for _ in range(10)]
        senders = [Sender(source.port, number, token="word") for number in range(2)]
        assert [one.answer for one in senders] == [{"next": 0}] * 2
        assert Sender(source.port, 2, token="wrong").answer == {"error": "the token is wrong"}
        third = Sender(source.port, 2, token="word")
        assert third.answer == {"error": "there are 2 connections already"}
        again = Sender(source.port, 1, token="word")  # in the place of the one before
        assert again.answer == {"next": 0}
        assert silent[0].recv(10) == b""  # ended
        senders[0].close()
        until = time.monotonic() + WAIT
        while time.monotonic() < until:
            answer = Sender(source.port, 2, token="word").answer
            if answer == {"next": 0}:
                break
            time.sleep(0.01)
        assert answer == {"next": 0}
        for one in silent:
            one.close()
    finally:
        source.close()


def test_closed_while_hands_are_shaken(tmp_path: Path) -> None:
    source = SocketSource("e", SCHEMA, tls=make_certificate(tmp_path))
    source.open({})
    silent = [socket.create_connection(("127.0.0.1", source.port), WAIT) for _ in range(3)]
    until = time.monotonic() + WAIT
    while len(source._strangers) < 3 and time.monotonic() < until:
        time.sleep(0.001)
    begin = time.monotonic()
    source.close()
    assert time.monotonic() - begin < 5  # and not the ten seconds that a greeting may take
    assert not any(thread.is_alive() for thread in source._threads)
    for one in silent:
        one.close()


def test_bad_arguments() -> None:
    for options, message in (
        ({"host": "0.0.0.0"}, "is open to others: give token= and tls="),
        ({"port": -1}, "port = -1"),
        ({"tls": ("no.pem", "no.pem")}, "tls = "),
        ({"token": 3}, "token must be a text"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=message):
            SocketSource("events", SCHEMA, **options)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match=r"made by Schema\.arrow"):
        SocketSource("events", Schema.json(src="u", dst="v"))
    source = SocketSource("events", SCHEMA)
    source.open({})
    with pytest.raises(errors.SourceError, match="in use"):
        SocketSource("events", SCHEMA, port=source.port).open({})
    source.close()
