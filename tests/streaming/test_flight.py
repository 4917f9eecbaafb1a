"""FlightSource: programs that send Arrow by DoPut, break off, and send again."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
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
from aethergraph.streaming import FlightSource, Ingestor, Schema, pushed
from aethergraph.streaming.address import open_source
from aethergraph.streaming.flight import _place_of
from aethergraph.testing import SourceContract

pa = pytest.importorskip("pyarrow")
flight = pytest.importorskip("pyarrow.flight")
WAIT = 60
SCHEMA = Schema.arrow(src="u", dst="v")


def small() -> DynamicGraph:
    return DynamicGraph(10_000, 64, order="time", layout="csc", huge_pages=False)


class Sender:
    """Client of a source: sends the edges (number, 0), (number, 1)... of a partition."""

    def __init__(
        self, port: int, number: int, *, token: str | None = None, trust: bytes | None = None
    ) -> None:
        scheme = "grpc" if trust is None else "grpc+tls"
        self.client = flight.connect(f"{scheme}://localhost:{port}", tls_root_certs=trust)
        headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        self.number = number
        self.writer, self.reader = self.client.do_put(
            flight.FlightDescriptor.for_path(str(number)),
            pa.schema([("u", pa.int64()), ("v", pa.int64())]),
            flight.FlightCallOptions(headers=headers, timeout=WAIT),
        )
        begin = self.hear_all()
        self.next, self.on_disk = begin["next"], begin["on_disk"]

    def hear_all(self) -> dict[str, int]:
        said = self.reader.read()
        if said is None:  # the error is told at the end
            self.writer.close()
            raise AssertionError("nothing was said")
        return {name: int(number) for name, number in json.loads(said.to_pybytes()).items()}

    def hear(self) -> int:
        return self.hear_all()["next"]

    def send(self, end: int, size: int = 100, begin: int | None = None) -> None:
        first = self.next if begin is None else begin
        v = np.arange(first, end)
        table = pa.table({"u": np.full(len(v), self.number), "v": v})
        for batch in table.to_batches(size):
            if begin is None:
                self.writer.write_batch(batch)
            else:
                self.writer.write_with_metadata(batch, json.dumps({"first": first}).encode())
                first += batch.num_rows

    def told(self, number: int) -> int:
        """Wait until the server says that rows up to a number are on disk."""
        while self.on_disk < number:
            self.on_disk = self.hear()
        self.next = max(self.next, self.on_disk)
        return self.on_disk

    def close(self) -> None:
        with suppress(pa.ArrowException):
            self.writer.close()
        self.client.close()


class Sent(Fed, FlightSource):
    def feed(self, number: int, count: int) -> None:
        with suppress(pa.ArrowException, OSError, AssertionError):
            sender = Sender(self.port, number)
            sender.send(count)
            while sender.hear() < count:
                pass


class TestFlightSource(SourceContract):
    def make(self, counts: Sequence[int]) -> Any:
        source = Sent("events", SCHEMA)
        source.counts = counts
        return source


def test_rows_come_and_are_acknowledged_once_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = DynamicGraph.open(tmp_path / "g", 10_000, 64, order="time", huge_pages=False)
    flushed, flush = [0], graph.flush

    def noted() -> None:
        flush()
        flushed.append(graph.num_edges)

    monkeypatch.setattr(graph, "flush", noted)
    source = FlightSource("events", SCHEMA)
    with Ingestor(graph, source):
        senders = [Sender(source.port, number) for number in range(3)]
        for sender in senders:
            assert sender.next == 0
            sender.send(500)
        for sender in senders:
            assert sender.told(500) == 500
        assert max(flushed) == 1500  # what was acknowledged is there, on disk
        again = Sender(source.port, 1)
        assert again.next == 500
        again.send(700)
        again.writer.done_writing()
        assert again.told(700) == 700
        assert again.reader.read() is None
        again.writer.close()
    assert graph.offsets("events") == {0: 500, 1: 700, 2: 500}
    graph.close()


def test_senders_are_told_why_the_ingestor_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aethergraph.streaming.pushed._FAREWELL", 60.0)
    source = FlightSource("events", SCHEMA)
    ingestor = Ingestor(small(), source).start()
    bad = Sender(source.port, 20_000)  # no such node
    bad.send(10)
    said = json.loads(bad.reader.read().to_pybytes())
    assert "partition 20000, offset 0: u (src) = 20000 is not in" in said["error"]
    with pytest.raises(errors.RecordError, match=r"u \(src\) = 20000"):
        ingestor.stop()
    bad.close()


def test_rows_that_are_sent_again_are_there_once() -> None:
    graph, source = small(), FlightSource("events", SCHEMA)
    with Ingestor(graph, source):
        first = Sender(source.port, 3)
        first.send(250, 100, begin=0)
        assert first.told(250) == 250
        first.send(300, 70, begin=120)  # 120..249 are here already
        first.send(260, begin=255)  # all of it is
        first.send(310, begin=300)
        assert first.told(310) == 310
        second = Sender(source.port, 3)
        second.send(400, begin=0)
        assert second.told(400) == 400
        gap = Sender(source.port, 4)
        gap.send(20, begin=10)
        with pytest.raises(pa.ArrowException, match="begins with row 10, but the next one is 0"):
            gap.told(20)
    src, dst, _ = graph.snapshot().edge_list()
    assert sorted(dst.tolist()) == list(range(400)) and set(src.tolist()) == {3}


def test_clients_and_servers_that_break_off() -> None:
    graph, rng = small(), np.random.default_rng(3)
    port = 0
    until = time.monotonic() + WAIT
    while graph.num_edges < 2000 and time.monotonic() < until:
        source = FlightSource("events", SCHEMA, port=port)
        with Ingestor(graph, source, batch=100):
            port = source.port
            for _ in range(3):
                sender = Sender(port, 0)
                assert sender.next >= graph.offsets("events").get(0, 0)
                with suppress(pa.ArrowException):
                    end = min(2000, sender.next + int(rng.integers(1, 400)))
                    sender.send(end, int(rng.integers(1, 50)))
                    time.sleep(rng.random() / 50)
                sender.client.close()  # perhaps before all has been read
    src, dst, _ = graph.snapshot().edge_list()
    assert sorted(dst.tolist()) == list(range(2000)) and not src.any()


def test_who_comes_again_hears_of_the_rows_that_were_sent_before() -> None:
    source = FlightSource("events", SCHEMA)
    source.open({})
    try:
        first = Sender(source.port, 0)
        first.send(10)
        assert [one.following for one in source.poll(WAIT) or ()] == [10]
        first.client.close()
        again = Sender(source.port, 0)
        assert (again.next, again.on_disk) == (10, 0)
        again.writer.done_writing()  # there is nothing left to send
        source.acknowledge({0: 10})
        assert again.told(10) == 10
        assert again.reader.read() is None  # and then it ends
        again.close()
    finally:
        source.close()


def test_a_slow_reader_makes_clients_wait() -> None:
    source = FlightSource("events", SCHEMA)
    source.open({})
    try:
        done = threading.Event()

        def send() -> None:
            sender = Sender(source.port, 0)
            with suppress(pa.ArrowException):
                sender.send(3_000_000, 10_000)  # more than buffers hold
                done.set()
                while True:
                    sender.hear()

        threading.Thread(target=send, daemon=True).start()
        until = time.monotonic() + WAIT
        while source.lag().get(0, 0) < 160_000 and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.1)
        assert source.lag() == {0: 160_000}  # sixteen batches, and no more
        assert not done.is_set()
        found = 0
        while found < 3_000_000 and time.monotonic() < until:
            found += sum(one.count for one in source.poll(0.1) or ())
        assert found == 3_000_000
    finally:
        source.close()


def test_a_newer_stream_takes_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    source = FlightSource("events", SCHEMA)
    source.open({})
    try:
        first = Sender(source.port, 0)
        second = Sender(source.port, 0)
        with pytest.raises((pa.ArrowException, AssertionError)):
            first.hear()  # it was cut off
        second.send(10)
        assert [one.following for one in source.poll(WAIT)] == [10]
        # By the same connection, which stays; the stream ends with its next rows.
        descriptor = flight.FlightDescriptor.for_path("0")
        table = pa.table({"u": [1], "v": [2]})
        writer, reader = second.client.do_put(descriptor, table.schema)
        assert json.loads(reader.read().to_pybytes()) == {"next": 10, "on_disk": 0}
        with pytest.raises(pa.ArrowException, match="another stream sends partition 0"):
            second.send(11)
            while True:
                second.hear()
        writer.write_table(table)
        assert [one.following for one in source.poll(WAIT)] == [11]
        monkeypatch.setattr(pushed, "MOST_SENDERS", 1)
        with pytest.raises(pa.ArrowException, match="there are 1 senders already"):
            Sender(source.port, 1)
    finally:
        source.close()


def refused(port: int, path: Sequence[str], table: Any, metadata: bytes | None = None) -> str:
    client = flight.connect(f"grpc://localhost:{port}")
    with pytest.raises(pa.ArrowException) as caught:
        writer, _ = client.do_put(flight.FlightDescriptor.for_path(*path), table.schema)
        for batch in table.to_batches():
            writer.write_with_metadata(batch, metadata) if metadata else writer.write(batch)
        writer.close()
    client.close()
    return str(caught.value)


def test_bad_streams_are_refused() -> None:
    source = FlightSource("events", SCHEMA, max_message="4K")
    source.open({})
    good = pa.table({"u": [1], "v": [2]})
    try:
        for path in ((), ("a",), ("0", "1"), ("-1",), ("1" * 30,)):
            assert "must be the number of a partition" in refused(source.port, path, good)
        large = pa.table({"u": range(300), "v": range(300)})
        for table, metadata, message in (
            (pa.table({"a": [1], "b": [2]}), None, "there is no column 'u', but a, b"),
            (large, None, "a message of 4800 bytes, where 4096 are allowed"),
            (good, b"oops", 'must be {"first": number'),
            (good, b'{"first": -1}', 'must be {"first": number'),
            (good, b'{"first": true}', 'must be {"first": number'),
            (good, b"[" * 100_000, 'must be {"first": number'),
        ):
            assert message in refused(source.port, ["0"], table, metadata)
        client = flight.connect(f"grpc://localhost:{source.port}")
        with pytest.raises(NotImplementedError):
            list(client.list_flights())
        assert source.poll(0) == []
        one = Sender(source.port, 0)
        one.send(10)
        assert [records.count for records in source.poll(WAIT)] == [10]
    finally:
        source.close()


def test_close_waits_for_nobody() -> None:
    source = FlightSource("events", SCHEMA)
    for number in range(3):
        source.open({})
        senders = [Sender(source.port, n) for n in range(4)]  # none of them ends by itself
        senders[0].send(10)
        began = time.monotonic()
        source.close()
        assert time.monotonic() - began < 30
        with pytest.raises((pa.ArrowException, AssertionError)):
            senders[number].hear()
        with pytest.raises(errors.ClosedError):
            source.poll(0)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


def test_token_and_tls(certificate: tuple[Path, Path]) -> None:
    graph, trust = small(), certificate[0].read_bytes()
    source = FlightSource("events", SCHEMA, token="secret", tls=certificate, host="0.0.0.0")
    with Ingestor(graph, source):
        sender = Sender(source.port, 0, token="secret", trust=trust)
        sender.send(100)
        assert sender.told(100) == 100
        for token in (None, "Secret", "secretly"):
            with pytest.raises(flight.FlightUnauthenticatedError, match="the token is wrong"):
                Sender(source.port, 1, token=token, trust=trust)
        with pytest.raises(pa.ArrowException):  # without TLS
            Sender(source.port, 0, token="secret")
        sender.send(150)
        assert sender.told(150) == 150
    assert graph.offsets("events") == {0: 150}


def test_bad_arguments(tmp_path: Path) -> None:
    for options, message in (
        ({"host": "0.0.0.0"}, "is open to others: give token= and tls="),
        ({"port": -1}, "port = -1"),
        ({"tls": ("no.pem", "no.pem")}, "tls = "),
        ({"token": 3}, "token must be a text"),
        ({"max_message": "much"}, "max_message"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=message):
            FlightSource("events", SCHEMA, **options)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match=r"made by Schema\.arrow"):
        FlightSource("events", Schema.json(src="u", dst="v"))
    source = FlightSource("events", SCHEMA)
    source.open({})
    with pytest.raises(errors.SourceError, match="in use"):
        FlightSource("events", SCHEMA, port=source.port).open({})
    source.close()
    assert _place_of("ipv4:127.0.0.1:80") == ("127.0.0.1", 80)
    assert _place_of("ipv6:%5B::1%5D:80") == ("::1", 80)
    assert _place_of("ipv6:[::ffff:1.2.3.4]:80") == ("1.2.3.4", 80)
    assert _place_of("unix:/a/b") is None


def test_a_host_of_ipv6() -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")
    source = FlightSource("events", SCHEMA, host="::1")
    source.open({})
    assert source.port
    source.close()


def test_addresses(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("secret\n")
    options = {"token_file": str(secret), "cert": str(certificate[0]), "key": str(certificate[1])}
    found: Any = open_source("grpc+tls://0.0.0.0:81", SCHEMA, name="n", options=options)
    assert isinstance(found, FlightSource) and (found.port, found.name) == (81, "n")
    found = open_source("grpc://127.0.0.1:80", SCHEMA, name="n", options={"max_message": "1M"})
    assert found.max_message == 1 << 20
    for address, own, message in (
        ("grpc://127.0.0.1", {}, r"is not grpc://HOST:PORT"),
        ("grpc+tls://127.0.0.1:80", {}, r"grpc\+tls:// needs cert= and key="),
        ("grpc://127.0.0.1:80", options, "and grpc:// takes none"),
        ("grpc://127.0.0.1:80", {"pattern": "*"}, "have no option 'pattern'"),
        ("http://127.0.0.1:80", {}, r"grpc\+tls://HOST:PORT"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=message):
            open_source(address, SCHEMA, name="n", options=own)
    with pytest.raises(errors.InvalidArgumentError, match="give --name"):
        open_source("grpc://127.0.0.1:80", SCHEMA)


INGEST = """
import sys
from aethergraph import DynamicGraph
from aethergraph.streaming import FlightSource, Ingestor, Schema
graph = DynamicGraph.open(sys.argv[1], 1_000_000, 64, order="time", layout="csc", durability="none",
                          huge_pages=False)
source = FlightSource("events", Schema.arrow(src="u", dst="v"), port=int(sys.argv[2]))
with Ingestor(graph, source, batch=100, linger=0):
    print(source.port, flush=True)
    sys.stdin.read()
graph.close()
"""


@pytest.mark.any_python
def test_servers_that_are_killed(tmp_path: Path) -> None:
    """Each row is in the graph once, and none that was acknowledged is lost."""
    rng, port, told = np.random.default_rng(9), 0, [0, 0]
    kills = int(os.environ.get("AETHERGRAPH_KILLS", "3"))
    for kill in range(kills + 1):
        command = [sys.executable, "-c", INGEST, str(tmp_path / "g"), str(port)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as server:
            assert server.stdin is not None and server.stdout is not None
            port = int(server.stdout.readline())
            senders = [Sender(port, number) for number in range(2)]
            for number, sender in enumerate(senders):
                assert sender.next >= told[number]
                goal = 1000 * (kill + 1)
                # What was not acknowledged is sent again, though the server may have it.
                sender.send(goal, int(rng.integers(10, 200)), begin=told[number])
                with suppress(pa.ArrowException, AssertionError):
                    told[number] = max(told[number], sender.told(int(rng.integers(0, goal))))
            if kill < kills:
                time.sleep(rng.random() / 30)
                server.send_signal(signal.SIGKILL)
            else:
                told = [sender.told(goal) for sender in senders]
            server.stdin.close()
    with DynamicGraph.open(tmp_path / "g", arena_mb=64, huge_pages=False) as graph:
        src, dst, _ = graph.snapshot().edge_list()
        wanted = [(u, v) for u in range(2) for v in range(told[0])]
        assert sorted(zip(src.tolist(), dst.tolist(), strict=True)) == wanted
