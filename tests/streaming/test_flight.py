"""FlightSource: programs that send Arrow by DoPut, break off, and send again."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.ingesting import edges, opened, small
from support.network import make_certificate
from support.senders import FlightSender, flight, pa
from support.threads import WAIT

from aethergraph import DynamicGraph, errors
from aethergraph.streaming import FlightSource, Ingestor, Schema
from aethergraph.streaming.address import open_source
from aethergraph.streaming.flight import _place_of

SCHEMA = Schema.arrow(src="u", dst="v")


def test_rows_that_are_sent_again_are_there_once() -> None:
    graph, source = small(), FlightSource("events", SCHEMA)
    with Ingestor(graph, source):
        first = FlightSender(source.port, 3)
        first.send(250, 100, begin=0)
        assert first.told(250) == 250
        first.send(300, 70, begin=120)  # 120..249 are here already
        first.send(260, begin=255)  # all of it is
        first.send(310, begin=300)
        assert first.told(310) == 310
        second = FlightSender(source.port, 3)
        second.send(400, begin=0)
        assert second.told(400) == 400
        gap = FlightSender(source.port, 4)
        gap.send(20, begin=10)
        with pytest.raises(pa.ArrowException, match="begins with row 10, but the next one is 0"):
            gap.told(20)
    assert edges(graph) == [(3, v) for v in range(400)]


def test_a_newer_stream_takes_the_place() -> None:
    with opened(FlightSource("events", SCHEMA)) as source:
        first = FlightSender(source.port, 0)
        second = FlightSender(source.port, 0)
        with pytest.raises((pa.ArrowException, KeyError)):
            first.hear()["next"]  # it was cut off
        second.send(10)
        assert [one.following for one in source.poll(WAIT)] == [10]
        # By the same connection, which stays; the stream ends with its next rows.
        descriptor = flight.FlightDescriptor.for_path("0")
        table = pa.table({"u": [1], "v": [2]})
        writer, reader = second.client.do_put(descriptor, table.schema)
        assert json.loads(reader.read().to_pybytes()) == {"next": 10, "on_disk": 0}
        with pytest.raises(pa.ArrowException, match="another stream sends partition 0"):
            second.send(11)
            second.told(99)
        writer.write_table(table)
        assert [one.following for one in source.poll(WAIT)] == [11]


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
    with opened(FlightSource("events", SCHEMA, max_message="4K")) as source:
        good = pa.table({"u": [1], "v": [2]})
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
        one = FlightSender(source.port, 0)
        one.send(10)
        assert [records.count for records in source.poll(WAIT)] == [10]


def test_close_waits_for_nobody() -> None:
    source = FlightSource("events", SCHEMA)
    for number in range(3):
        source.open({})
        senders = [FlightSender(source.port, n) for n in range(4)]  # none of them ends by itself
        senders[0].send(10)
        began = time.monotonic()
        source.close()
        assert time.monotonic() - began < 30
        with pytest.raises((pa.ArrowException, KeyError)):
            senders[number].hear()["next"]
        with pytest.raises(errors.ClosedError):
            source.poll(0)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


def test_places_of_clients() -> None:
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
    with opened(FlightSource("events", SCHEMA, host="::1")) as source:
        assert source.port


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


@pytest.mark.slow
@pytest.mark.any_python
def test_servers_that_are_killed(tmp_path: Path) -> None:
    """Each row is in the graph once, and none that was acknowledged is lost."""
    rng, port, told = np.random.default_rng(9), 0, [0, 0]
    kills = int(os.environ.get("AETHERGRAPH_KILLS", "2"))
    for kill in range(kills + 1):
        command = [sys.executable, "-c", INGEST, str(tmp_path / "g"), str(port)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as server:
            assert server.stdin is not None and server.stdout is not None
            port = int(server.stdout.readline())
            senders = [FlightSender(port, number) for number in range(2)]
            for number, sender in enumerate(senders):
                assert sender.next >= told[number]
                goal = 1000 * (kill + 1)
                # What was not acknowledged is sent again, though the server may have it.
                sender.send(goal, int(rng.integers(10, 200)), begin=told[number])
                with suppress(pa.ArrowException, KeyError):
                    told[number] = max(told[number], sender.told(int(rng.integers(0, goal))))
            if kill < kills:
                time.sleep(rng.random() / 30)
                server.send_signal(signal.SIGKILL)
            else:
                told = [sender.told(goal) for sender in senders]
            server.stdin.close()
    with DynamicGraph.open(tmp_path / "g", arena_mb=64, huge_pages=False) as graph:
        assert edges(graph) == [(u, v) for u in range(2) for v in range(told[0])]
