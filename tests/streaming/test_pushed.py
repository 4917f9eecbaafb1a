"""Sources that programs send Arrow to, by TCP and by Flight: what both of them promise."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from support.ingesting import Fed, edges, opened, small
from support.network import make_certificate
from support.senders import FlightSender, TcpSender, flight, pa
from support.threads import WAIT, comes

from aethergraph import DynamicGraph, errors
from aethergraph.streaming import FlightSource, Ingestor, Schema, SocketSource, pushed
from aethergraph.testing import SourceContract

SCHEMA = Schema.arrow(src="u", dst="v")
#: What a client meets whose server has gone.
GONE = (OSError, ValueError, KeyError, pa.ArrowException)


class SentByTcp(Fed, SocketSource):
    def feed(self, number: int, count: int) -> None:
        with suppress(*GONE):
            sender = TcpSender(self.port, number)
            sender.send(count)
            sender.told(count + 1)


class SentByFlight(Fed, FlightSource):
    def feed(self, number: int, count: int) -> None:
        with suppress(*GONE):
            sender = FlightSender(self.port, number)
            sender.send(count)
            sender.told(count)


class TestSocketSource(SourceContract):
    kind: Any = SentByTcp

    def make(self, counts: Sequence[int]) -> Any:
        source = self.kind("events", SCHEMA)
        source.counts = counts
        return source


class TestFlightSource(TestSocketSource):
    kind = SentByFlight


class Way(NamedTuple):
    source: Any
    sender: Any
    #: Rows and rows of a batch that are more than buffers hold.
    many: tuple[int, int]


@pytest.fixture(params=["tcp", "flight"])
def way(request: pytest.FixtureRequest) -> Way:
    if request.param == "tcp":
        return Way(SocketSource, TcpSender, (10_000, 10))
    return Way(FlightSource, FlightSender, (3_000_000, 10_000))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


def test_rows_come_and_are_acknowledged_once_on_disk(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = DynamicGraph.open(tmp_path / "g", 10_000, 64, order="time", huge_pages=False)
    flushed, flush = [0], graph.flush

    def noted() -> None:
        flush()
        flushed.append(graph.num_edges)

    monkeypatch.setattr(graph, "flush", noted)
    source = way.source("events", SCHEMA)
    with Ingestor(graph, source):
        senders = [way.sender(source.port, number) for number in range(3)]
        for sender in senders:
            assert (sender.next, sender.on_disk) == (0, 0)
            sender.send(500)
        for sender in senders:
            assert sender.told(500) == 500
        assert max(flushed) == 1500  # what was acknowledged is there, on disk
        again = way.sender(source.port, 1)
        assert (again.next, again.on_disk) == (500, 500)
        again.send(700)
        again.finish()
        assert again.told(700) == 700
        assert again.hear() == {}
        again.close()
    assert graph.offsets("events") == {0: 500, 1: 700, 2: 500}
    graph.close()


def test_senders_are_told_why_the_ingestor_ended(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushed, "_FAREWELL", 60.0)
    source = way.source("events", SCHEMA)
    ingestor = Ingestor(small(), source).start()
    good, bad = way.sender(source.port, 0), way.sender(source.port, 20_000)  # no such node
    bad.send(10)
    for sender in (bad, good):
        assert "partition 20000, offset 0: u (src) = 20000 is not in" in sender.hear()["error"]
    with pytest.raises(errors.RecordError, match=r"u \(src\) = 20000"):
        ingestor.stop()
    for sender in (bad, good):
        sender.close()


def test_clients_and_servers_that_break_off(way: Way) -> None:
    graph, rng, port, end = small(), np.random.default_rng(3), 0, 2000
    until = time.monotonic() + WAIT
    while graph.num_edges < end and time.monotonic() < until:
        source = way.source("events", SCHEMA, port=port)
        with Ingestor(graph, source, batch=100):
            port = source.port
            for _ in range(3):
                sender = way.sender(port, 0)
                assert sender.next >= graph.offsets("events").get(0, 0)
                with suppress(*GONE):
                    sender.send(
                        min(end, sender.next + int(rng.integers(1, 400))), int(rng.integers(1, 50))
                    )
                    time.sleep(rng.random() / 50)
                sender.break_off()  # perhaps before all has been read
    assert edges(graph) == [(0, v) for v in range(end)]


def test_who_comes_again_hears_of_the_rows_that_were_sent_before(way: Way) -> None:
    with opened(way.source("events", SCHEMA)) as source:
        first = way.sender(source.port, 0)
        first.send(10)
        assert [one.following for one in source.poll(WAIT) or ()] == [10]
        first.break_off()
        again = way.sender(source.port, 0)
        assert (again.next, again.on_disk) == (10, 0)
        again.finish()  # there is nothing left to send
        source.acknowledge({0: 4})
        assert again.hear() == {"next": 4}
        source.acknowledge({0: 10})
        assert again.told(10) == 10
        assert again.hear() == {}  # and then it ends
        again.close()


def test_a_slow_reader_makes_clients_wait(way: Way) -> None:
    many, size = way.many
    done = threading.Event()
    with opened(way.source("events", SCHEMA)) as source:

        def send() -> None:
            with suppress(*GONE):
                sender = way.sender(source.port, 0)
                sender.send(many, size)
                done.set()
                sender.told(many)

        threading.Thread(target=send, daemon=True).start()
        assert comes(lambda: source.lag().get(0, 0) >= 16 * size)
        time.sleep(0.1)
        assert source.lag() == {0: 16 * size}  # sixteen batches, and no more
        assert not done.is_set() or way.source is SocketSource  # its buffers hold all
        found = 0

        def has_all() -> bool:
            nonlocal found
            found += sum(one.count for one in source.poll(0.1) or ())
            return found >= many

        assert comes(has_all) and found == many


def test_the_most_senders_at_once(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushed, "MOST_SENDERS", 1)
    with opened(way.source("events", SCHEMA)) as source:
        kept = [way.sender(source.port, 0) for _ in range(2)]  # in place of the one before
        assert [one.next for one in kept] == [0, 0]
        words = "there are 1 senders already, and not more at once"
        if way.source is SocketSource:
            assert way.sender(source.port, 1).refusal == words
        else:
            with pytest.raises(pa.ArrowException, match=words):
                way.sender(source.port, 1)


def test_tls_and_a_token(way: Way, certificate: tuple[Path, Path], tmp_path: Path) -> None:
    """Answers to every batch go against the stream of rows."""
    other = make_certificate(tmp_path)[0]
    graph, trust = small(), certificate[0]
    source = way.source("events", SCHEMA, token="secret", tls=certificate, host="0.0.0.0")
    with Ingestor(graph, source, batch=50, linger=0):
        senders = [way.sender(source.port, n, token="secret", trust=trust) for n in range(2)]
        for sender in senders:
            sender.send(4000, 50)
        for sender in senders:
            assert sender.told(4000) == 4000
        for token in (None, "Secret", "secretly"):
            if way.source is SocketSource:
                refusal = way.sender(source.port, 2, token=token, trust=trust).refusal
                assert "the token is wrong" in refusal
            else:
                with pytest.raises(flight.FlightUnauthenticatedError, match="the token is wrong"):
                    way.sender(source.port, 2, token=token, trust=trust)
        for wrong in (None, other):  # without TLS, and with a certificate that is not trusted
            with pytest.raises(GONE):
                way.sender(source.port, 0, token="secret", trust=wrong)
    assert edges(graph) == [(u, v) for u in range(2) for v in range(4000)]


def test_bad_arguments(way: Way) -> None:
    for options, message in (
        ({"host": "0.0.0.0"}, "is open to others: give token= and tls="),
        ({"port": -1}, "port = -1"),
        ({"tls": ("no.pem", "no.pem")}, "tls = "),
        ({"token": 3}, "token must be a text"),
        ({"max_message": -1}, "max_message"),
        ({"max_message": "much"}, "max_message"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=message):
            way.source("events", SCHEMA, **options)
    with pytest.raises(errors.InvalidArgumentError, match=r"made by Schema\.arrow"):
        way.source("events", Schema.json(src="u", dst="v"))
    with opened(way.source("events", SCHEMA)) as source:
        with pytest.raises(errors.SourceError, match="in use"):
            way.source("events", SCHEMA, port=source.port).open({})
