"""SocketSource: programs that send Arrow over TCP, break off, and send again."""

from __future__ import annotations

import errno
import json
import os
import socket
import struct
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.ingesting import opened, small
from support.network import make_certificate
from support.senders import TcpSender, pa
from support.threads import WAIT, comes

from aethergraph import DynamicGraph, errors
from aethergraph.streaming import Ingestor, Schema, SocketSource, pushed, sockets

SCHEMA = Schema.arrow(src="u", dst="v")
#: What a client of a partition is told that nobody has sent yet.
FIRST = {"next": 0, "on_disk": 0}


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
    sender = TcpSender(ingestor.source.port, 0)
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
    assert TcpSender(ingestor.source.port, 0).answer == {"next": 10, "on_disk": 10}
    ingestor.stop()
    graph.close()


def test_a_client_whose_machine_is_gone_is_asked_whether_it_is_there() -> None:
    with Ingestor(small(), SocketSource("events", SCHEMA)) as ingestor:
        sender = TcpSender(ingestor.source.port, 0)
        (one,) = ingestor.source._senders
        assert one.socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert one.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30
        assert one.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        sender.close()


def test_rows_that_cannot_be_taken_in_are_asked_for_again() -> None:
    with opened(SocketSource("events", SCHEMA)) as source:
        records = source._records

        def refuse(*_: Any) -> Any:
            source._records = records  # type: ignore[method-assign]
            raise errors.OutOfMemoryError("no room")

        source._records = refuse  # type: ignore[method-assign]
        first = TcpSender(source.port, 0)
        first.send(10)
        assert json.loads(first.file.readline()) == {"error": "no room"}
        again = TcpSender(source.port, 0)
        assert again.answer == FIRST
        again.send(10)
        assert [(one.count, one.following) for one in source.poll(WAIT) or ()] == [(10, 10)]


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
    with opened(SocketSource("events", SCHEMA, token="secret")) as source:
        with socket.create_connection(("127.0.0.1", source.port), timeout=WAIT) as one:
            with suppress(OSError):
                one.sendall(greeting)
            with suppress(ConnectionError):  # it may end before all was sent
                assert message in json.loads(one.makefile("rb").readline())["error"]
        assert TcpSender(source.port, 0, token="secret").answer == FIRST
        assert source.poll(0) == []


def test_nonsense_after_the_greeting() -> None:
    with opened(SocketSource("events", SCHEMA)) as source:
        one = TcpSender(source.port, 0)
        one.socket.sendall(b"\x10\0\0\0 this is no Arrow at all ........................")
        one.socket.shutdown(socket.SHUT_WR)
        assert "no Arrow IPC stream" in one.file.readline().decode()
        other = TcpSender(source.port, 0)
        table = pa.table({"a": [1], "b": [2]})
        with pa.ipc.new_stream(other.file, table.schema) as stream:
            stream.write_table(table)
        other.file.flush()
        assert "there is no column 'u', but a, b" in other.file.readline().decode()
        assert source.poll(0) == []


def test_messages_are_not_larger_than_allowed() -> None:
    with opened(SocketSource("events", SCHEMA, max_message="4K")) as source:
        for size in (2**31 - 1, 5000):  # of the description of a message
            one = TcpSender(source.port, 0)
            one.socket.sendall(struct.pack("<Ii", 0xFFFFFFFF, size))
            said = json.loads(one.file.readline())["error"]
            assert said.startswith(f"a message of {size} bytes, where 4096 are allowed: send sma")
            one.close()
        many = TcpSender(source.port, 0)  # and of its content
        with suppress(OSError):
            many.send(300, 300)
        assert "a message of 4800 bytes, where 4096" in json.loads(many.file.readline())["error"]
        few = TcpSender(source.port, 0)
        assert few.answer == FIRST
        few.send(300, 200)
        found = 0
        while found < 300:
            found += sum(one.count for one in source.poll(WAIT) or ())


def test_strangers_take_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushed, "MOST_SENDERS", 2)
    monkeypatch.setattr(sockets, "_STRANGERS", 3)
    with opened(SocketSource("events", SCHEMA, token="t")) as source:
        address = ("127.0.0.1", source.port)
        silent = [socket.create_connection(address, timeout=WAIT) for _ in range(10)]
        senders = [TcpSender(source.port, number, token="t") for number in range(2)]
        assert [one.answer for one in senders] == [FIRST] * 2
        third = TcpSender(source.port, 2, token="t")
        assert third.answer == {"error": "there are 2 senders already, and not more at once"}
        assert TcpSender(source.port, 1, token="t").answer == FIRST  # in place of the one before
        assert [one.recv(1) for one in silent[:7]] == [b""] * 7  # the oldest were ended
        for one in silent:
            one.close()


def test_a_greeting_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "_GREETING", 0.3)
    with opened(SocketSource("events", SCHEMA)) as source:
        with socket.create_connection(("127.0.0.1", source.port), timeout=WAIT) as one:
            began = time.monotonic()
            with suppress(OSError):
                for _ in range(1000):  # byte by byte: none of them is late
                    one.sendall(b" ")
                    time.sleep(0.05)
            assert time.monotonic() - began < 45  # all bytes take 50 seconds
            with suppress(ConnectionError):
                assert b"next" not in one.recv(100)


def test_a_client_that_does_not_listen_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, source, hearing = small(), SocketSource("events", SCHEMA), threading.Event()
    say = sockets._Connection.say

    def slowly(one: Any, **line: Any) -> None:
        if one.partition == 0 and line.get("next"):
            hearing.wait(WAIT)
        say(one, **line)

    monkeypatch.setattr(sockets._Connection, "say", slowly)
    with Ingestor(graph, source) as ingestor:
        deaf, other = TcpSender(source.port, 0), TcpSender(source.port, 1)
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
    real = socket.socket.accept
    codes = (errno.EMFILE, errno.ECONNABORTED, errno.EPERM, errno.ENETDOWN, errno.ETIMEDOUT)
    problems = [OSError(code, os.strerror(code)) for code in codes]

    def accept(listener: socket.socket) -> Any:
        if problems:
            raise problems.pop()
        return real(listener)

    monkeypatch.setattr(socket.socket, "accept", accept)
    monkeypatch.setattr("aethergraph.remote.listening._FULL", 0)
    with opened(SocketSource("events", SCHEMA)) as source:
        assert TcpSender(source.port, 0).answer == FIRST and not problems
        begin = source._begin

        def refuse(*_: Any) -> None:
            source._begin = begin  # type: ignore[method-assign]
            raise RuntimeError("can't start new thread")

        source._begin = refuse  # type: ignore[method-assign]
        with socket.create_connection(("127.0.0.1", source.port), timeout=WAIT) as one:
            assert one.recv(1) == b""
        assert TcpSender(source.port, 0).answer == FIRST
        assert not source._strangers


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


def test_too_many_are_told_so_in_tls(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushed, "MOST_SENDERS", 1)
    with opened(SocketSource("events", SCHEMA, tls=certificate)) as source:
        first = TcpSender(source.port, 0, trust=certificate[0])
        assert first.answer == FIRST
        second = TcpSender(source.port, 1, trust=certificate[0])
        assert "there are 1 senders already" in second.refusal


def test_closed_during_a_handshake(certificate: tuple[Path, Path]) -> None:
    source = SocketSource("events", SCHEMA, tls=certificate)
    source.open({})
    address = ("127.0.0.1", source.port)
    waiting = [socket.create_connection(address, timeout=WAIT) for _ in range(3)]
    waiting[1].sendall(b"\x16\x03\x01")  # it has begun
    assert comes(lambda: len(source._strangers) == 3)
    time.sleep(0.05)
    began = time.monotonic()
    source.close()
    assert time.monotonic() - began < 9  # a handshake may take ten seconds
    assert not any(thread.is_alive() for thread in source._threads)
    for one in waiting:
        with suppress(ConnectionError):
            assert one.recv(1) == b""
        one.close()
