"""SocketSource: programs that send Arrow over TCP, break off, and send again."""

from __future__ import annotations

import errno
import json
import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.ingesting import Fed
from support.network import make_certificate

from aethergraph import DynamicGraph, errors
from aethergraph.streaming import Ingestor, Schema, SocketSource, pushed, sockets
from aethergraph.testing import SourceContract

pa = pytest.importorskip("pyarrow")
WAIT = 60
SCHEMA = Schema.arrow(src="u", dst="v")
#: What a client of a partition is told that nobody has sent yet.
FIRST = {"next": 0, "on_disk": 0}


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
        last = self.answer["on_disk"]
        while last < number:
            last = json.loads(self.file.readline())["next"]
        return last

    def close(self) -> None:
        with suppress(OSError):
            self.file.close()
        self.socket.close()


class Sent(Fed, SocketSource):
    def feed(self, number: int, count: int) -> None:
        with suppress(OSError, ValueError, KeyError):
            sender = Sender(self.port, number)
            sender.send(count)
            while sender.file.readline():
                pass


class TestSocketSource(SourceContract):
    def make(self, counts: Sequence[int]) -> Any:
        source = Sent("events", SCHEMA)
        source.counts = counts
        return source


def test_rows_come_and_are_acknowledged(tmp_path: Path) -> None:
    graph = DynamicGraph.open(tmp_path / "g", 10_000, 64, order="time", huge_pages=False)
    source = SocketSource("events", SCHEMA)
    with Ingestor(graph, source):
        senders = [Sender(source.port, number) for number in range(3)]
        for sender in senders:
            assert sender.answer == FIRST
            sender.send(500)
        for sender in senders:
            assert sender.told(500) == 500
        assert graph.num_edges == 1500  # what was acknowledged is there
        again = Sender(source.port, 1)
        assert again.answer == {"next": 500, "on_disk": 500}
        again.send(700)
        assert again.told(700) == 700
    assert graph.offsets("events") == {0: 500, 1: 700, 2: 500}
    graph.close()


def test_senders_are_told_why_the_ingestor_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushed, "_FAREWELL", 60.0)
    source = SocketSource("events", SCHEMA)
    ingestor = Ingestor(small(), source).start()
    good, bad = Sender(source.port, 0), Sender(source.port, 20_000)  # no such node
    bad.send(10)
    for sender in (bad, good):
        answer = json.loads(sender.file.readline())
        assert "partition 20000, offset 0: u (src) = 20000 is not in" in answer["error"]
    with pytest.raises(errors.RecordError, match=r"u \(src\) = 20000"):
        ingestor.stop()
    for sender in (bad, good):
        sender.close()


def test_senders_hear_on_disk_of_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The offsets in memory may be ahead of the log, where it could not be synced."""
    graph = DynamicGraph.open(
        tmp_path / "g", 10_000, 64, order="time", huge_pages=False, durability="none"
    )
    real = DynamicGraph.flush

    def refuse(_: Any) -> None:
        raise errors.StorageError(errno.EIO, "cannot sync the log")

    def begin() -> Ingestor:
        return Ingestor(graph, SocketSource("events", SCHEMA)).start()

    ingestor = begin()
    monkeypatch.setattr(DynamicGraph, "flush", refuse)
    sender = Sender(ingestor.source.port, 0)
    sender.send(10)
    assert "cannot sync" in json.loads(sender.file.readline())["error"]
    sender.close()
    with pytest.raises(errors.StorageError, match="cannot sync"):
        ingestor.stop()
    assert graph.num_edges == 10
    with pytest.raises(errors.StorageError, match="cannot sync"):
        begin()
    monkeypatch.setattr(DynamicGraph, "flush", real)
    ingestor = begin()
    assert Sender(ingestor.source.port, 0).answer == {"next": 10, "on_disk": 10}
    ingestor.stop()
    graph.close()


def test_a_client_whose_machine_is_gone_is_asked_whether_it_is_there() -> None:
    with Ingestor(small(), SocketSource("events", SCHEMA)) as ingestor:
        sender = Sender(ingestor.source.port, 0)
        (one,) = ingestor.source._senders
        assert one.socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert one.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30
        assert one.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        sender.close()


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


def test_who_comes_again_hears_of_the_rows_that_were_sent_before() -> None:
    source = SocketSource("events", SCHEMA)
    source.open({})
    try:
        first = Sender(source.port, 0)
        first.send(10)
        assert [one.following for one in source.poll(WAIT) or ()] == [10]
        first.close()
        again = Sender(source.port, 0)
        assert again.answer == {"next": 10, "on_disk": 0}
        again.socket.shutdown(socket.SHUT_WR)  # there is nothing left to send
        source.acknowledge({0: 4})
        assert json.loads(again.file.readline()) == {"next": 4}
        source.acknowledge({0: 10})
        assert again.told(10) == 10
        assert again.file.readline() == b""  # and then it ends
        again.close()
    finally:
        source.close()


def test_rows_that_cannot_be_taken_in_are_asked_for_again() -> None:
    source = SocketSource("events", SCHEMA)
    source.open({})
    try:
        records = source._records

        def refuse(*_: Any) -> Any:
            source._records = records  # type: ignore[method-assign]
            raise errors.OutOfMemoryError("no room")

        source._records = refuse  # type: ignore[method-assign]
        first = Sender(source.port, 0)
        first.send(10)
        assert json.loads(first.file.readline()) == {"error": "no room"}
        again = Sender(source.port, 0)
        assert again.answer == FIRST
        again.send(10)
        assert [(one.count, one.following) for one in source.poll(WAIT) or ()] == [(10, 10)]
    finally:
        source.close()


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
        assert Sender(source.port, 0, token="secret").answer == FIRST
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


def test_messages_are_not_larger_than_allowed() -> None:
    source = SocketSource("events", SCHEMA, max_message="4K")
    source.open({})
    try:
        for size in (2**31 - 1, 5000):  # of the description of a message
            one = Sender(source.port, 0)
            one.socket.sendall(struct.pack("<Ii", 0xFFFFFFFF, size))
            said = json.loads(one.file.readline())["error"]
            assert said.startswith(f"a message of {size} bytes, where 4096 are allowed: send sma")
            one.close()
        many = Sender(source.port, 0)  # and of its content
        with suppress(OSError):
            many.send(300, 300)
        assert "a message of 4800 bytes, where 4096" in json.loads(many.file.readline())["error"]
        few = Sender(source.port, 0)
        assert few.answer == FIRST
        few.send(300, 200)
        found = 0
        while found < 300:
            found += sum(one.count for one in source.poll(WAIT) or ())
    finally:
        source.close()
    for bad in (-1, "much"):
        with pytest.raises(errors.InvalidArgumentError, match="max_message"):
            SocketSource("events", SCHEMA, max_message=bad)


def test_strangers_take_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushed, "MOST_SENDERS", 2)
    monkeypatch.setattr(sockets, "_STRANGERS", 3)
    source = SocketSource("events", SCHEMA, token="t")
    source.open({})
    address = ("127.0.0.1", source.port)
    try:
        silent = [socket.create_connection(address, timeout=WAIT) for _ in range(10)]
        senders = [Sender(source.port, number, token="t") for number in range(2)]
        assert [one.answer for one in senders] == [FIRST] * 2
        third = Sender(source.port, 2, token="t")
        assert third.answer == {"error": "there are 2 senders already, and not more at once"}
        assert Sender(source.port, 1, token="t").answer == FIRST  # in place of the one before
        assert [one.recv(1) for one in silent[:7]] == [b""] * 7  # the oldest were ended
        for one in silent:
            one.close()
    finally:
        source.close()


def test_a_greeting_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "_GREETING", 0.3)
    source = SocketSource("events", SCHEMA)
    source.open({})
    try:
        with socket.create_connection(("127.0.0.1", source.port), timeout=WAIT) as one:
            began = time.monotonic()
            with suppress(OSError):
                for _ in range(1000):  # byte by byte: none of them is late
                    one.sendall(b" ")
                    time.sleep(0.05)
            assert time.monotonic() - began < 20
            with suppress(ConnectionError):
                assert b"next" not in one.recv(100)
    finally:
        source.close()


def test_a_client_that_does_not_listen_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, source, hearing = small(), SocketSource("events", SCHEMA), threading.Event()
    say = sockets._Connection.say

    def slowly(one: Any, **line: Any) -> None:
        if one.partition == 0 and line.get("next"):
            hearing.wait(WAIT)
        say(one, **line)

    monkeypatch.setattr(sockets._Connection, "say", slowly)
    with Ingestor(graph, source) as ingestor:
        deaf, other = Sender(source.port, 0), Sender(source.port, 1)
        deaf.send(10)
        ingestor.drain(WAIT)
        other.send(10)
        assert other.told(10) == 10
        hearing.set()
        assert deaf.told(10) == 10
    assert graph.num_edges == 20


def test_a_refused_connection_or_thread_ends_that_one_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, real = SocketSource("events", SCHEMA), socket.socket.accept
    codes = (errno.EMFILE, errno.ECONNABORTED, errno.EPERM, errno.ENETDOWN, errno.ETIMEDOUT)
    problems = [OSError(code, os.strerror(code)) for code in codes]

    def accept(listener: socket.socket) -> Any:
        if problems:
            raise problems.pop()
        return real(listener)

    monkeypatch.setattr(socket.socket, "accept", accept)
    monkeypatch.setattr("aethergraph.remote.listening._FULL", 0)
    source.open({})
    try:
        assert Sender(source.port, 0).answer == FIRST and not problems
        begin = source._begin

        def refuse(*_: Any) -> None:
            source._begin = begin  # type: ignore[method-assign]
            raise RuntimeError("can't start new thread")

        source._begin = refuse  # type: ignore[method-assign]
        with socket.create_connection(("127.0.0.1", source.port), timeout=WAIT) as one:
            assert one.recv(1) == b""
        assert Sender(source.port, 0).answer == FIRST
        assert not source._strangers
    finally:
        source.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


def test_too_many_are_told_so_in_tls(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushed, "MOST_SENDERS", 1)
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    source = SocketSource("events", SCHEMA, tls=certificate)
    source.open({})
    try:
        first = Sender(source.port, 0, trusting)
        assert first.answer == FIRST
        assert "there are 1 senders already" in Sender(source.port, 1, trusting).answer["error"]
    finally:
        source.close()


def test_closed_during_a_handshake(certificate: tuple[Path, Path]) -> None:
    source = SocketSource("events", SCHEMA, tls=certificate)
    source.open({})
    address = ("127.0.0.1", source.port)
    waiting = [socket.create_connection(address, timeout=WAIT) for _ in range(3)]
    waiting[1].sendall(b"\x16\x03\x01")  # it has begun
    until = time.monotonic() + WAIT
    while len(source._strangers) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.05)
    began = time.monotonic()
    source.close()
    assert time.monotonic() - began < 9  # a handshake may take ten seconds
    assert not any(thread.is_alive() for thread in source._threads)
    for one in waiting:
        with suppress(ConnectionError):
            assert one.recv(1) == b""
        one.close()


def test_tls_in_both_directions_at_once(certificate: tuple[Path, Path]) -> None:
    graph, source = small(), SocketSource("events", SCHEMA, tls=certificate)
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    with Ingestor(graph, source, batch=50, linger=0):  # an answer to every batch
        senders = [Sender(source.port, number, trusting) for number in range(2)]
        for sender in senders:
            sender.send(9000, 50)
        for sender in senders:
            assert sender.told(9000) == 9000
    src, dst, _ = graph.snapshot().edge_list()
    wanted = [(u, v) for u in range(2) for v in range(9000)]
    assert sorted(zip(src.tolist(), dst.tolist(), strict=True)) == wanted


def test_tls(certificate: tuple[Path, Path]) -> None:
    graph = small()
    source = SocketSource("events", SCHEMA, token="t", tls=certificate, host="0.0.0.0")
    with Ingestor(graph, source):
        trusting = ssl.create_default_context(cafile=str(certificate[0]))
        sender = Sender(source.port, 0, trusting, token="t")
        sender.send(100)
        assert sender.told(100) == 100
        with pytest.raises((OSError, ValueError)):  # without TLS
            Sender(source.port, 0, token="t")
        with pytest.raises(ssl.SSLError):  # a certificate that is not trusted
            Sender(source.port, 0, ssl.create_default_context(), token="t")
    assert graph.num_edges == 100


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
