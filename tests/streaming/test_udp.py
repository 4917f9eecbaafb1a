"""UdpSource: datagrams that come, are lost, come twice, or are no datagrams of ours."""

from __future__ import annotations

import base64
import errno
import os
import random
import signal
import socket
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.ingesting import letters, opened
from support.threads import comes

from aethergraph import DynamicGraph, errors
from aethergraph.streaming import Ingestor, Schema, UdpSource, pack_datagram, udp

DTYPE = np.dtype([("node", "<u4"), ("x", "<f4", 2)])
ROWS = Schema.struct(DTYPE, node="node", attrs={"x": "x"})
EDGES = Schema.struct([("u", "<u4"), ("v", "<u4")], src="u", dst="v")


def read(source: UdpSource, seconds: float = 0.2) -> list[tuple[int, int, list[int]]]:
    """Return (stream, sequence, values) of each datagram, however many come at once."""
    found, quiet = [], 0
    while quiet < max(3, seconds / 0.02):  # a busy system delivers late
        polled = source.poll(0.02) or ()
        quiet = 0 if polled else quiet + 1
        for one in polled:
            assert one.offsets is not None and one.following == one.offsets[-1] + 1
            values = one.columns["src"]
            for sequence in np.unique(one.offsets):
                mine = values[one.offsets == sequence].tolist()
                found.append((one.partition, int(sequence), mine))
    return found


def edges(stream: int, sequence: int, count: int = 3) -> bytes:
    rows = np.zeros(count, [("u", "<u4"), ("v", "<u4")])
    rows["u"], rows["v"] = sequence, np.arange(count)
    return pack_datagram(stream, sequence, rows)


def send(source: UdpSource, *datagrams: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        for datagram in datagrams:
            one.sendto(datagram, ("127.0.0.1", source.port))


def test_features_by_datagrams() -> None:
    graph = DynamicGraph(100, 8, huge_pages=False)
    graph.features = np.zeros((100, 2), np.float32)
    source = UdpSource("features", ROWS)
    with Ingestor(graph, source) as ingestor:
        rows = np.zeros(100, DTYPE)
        for sequence in range(50):
            rows["node"], rows["x"] = np.arange(100), sequence
            send(source, pack_datagram(7, sequence, rows))
            time.sleep(0.001)
        assert comes(lambda: ingestor.check() or graph.offsets("features").get(7, 0) == 50)
    assert (graph.features.gather(range(100)) == 49).all()
    assert source.lost == {} and source.dropped == 0


def test_lost_late_and_doubled() -> None:
    with opened(UdpSource("e", EDGES), {1: 5}) as source:
        send(source, *(edges(1, n) for n in (4, 5, 5, 8, 6, 9)), edges(2, 2))
        assert read(source) == [(1, n, [n] * 3) for n in (5, 8, 9)] + [(2, 2, [2] * 3)]
        assert source.lost == {1: 2, 2: 2} and source.dropped == 3


def test_what_is_damaged_is_dropped() -> None:
    rng = random.Random(2)
    good = edges(3, 0, 20)
    bad = [b"", b"AEU1", b"hello", good[:-1], good + b"\0", good[:30]]
    for _ in range(200):
        one = bytearray(good)
        one[rng.randrange(len(one))] ^= 1 << rng.randrange(8)
        bad.append(bytes(one))
    with opened(UdpSource("e", EDGES)) as source:
        for at in range(0, len(bad), 50):
            send(source, *bad[at : at + 50])
            assert read(source, 0.05) == []
        send(source, good)
        assert read(source) == [(3, 0, [0] * 20)]
        assert source.dropped == len(bad)


def test_a_paused_stream_is_kept_back() -> None:
    with opened(UdpSource("e", EDGES)) as source:
        source.pause([1])
        send(source, edges(1, 0), edges(2, 0), edges(1, 1))
        assert read(source) == [(2, 0, [0] * 3)]
        source.pause([])
        assert read(source) == [(1, 0, [0] * 3), (1, 1, [1] * 3)]


def test_a_letter_has_the_row_that_is_wrong(tmp_path: Path) -> None:
    dtype = np.dtype([("u", "<u4"), ("v", "<u4"), ("t", "<i8")])
    graph = DynamicGraph(10, 8, order="time", edge_time="int64", huge_pages=False)
    source = UdpSource("e", Schema.struct(dtype, src="u", dst="v", time="t"))
    rows = np.array([(1, 2, 5), (99, 4, 6), (3, 4, 5000), (5, 6, 7)], dtype)
    path = tmp_path / "bad"
    with Ingestor(graph, source, dead_letter=path, max_time=100, max_bad=9) as ingestor:
        send(source, pack_datagram(0, 0, rows))
        assert comes(lambda: ingestor.check() or ingestor.stats().records == 4)
    found = {one["reason"]: base64.b64decode(one["record"]) for one in letters(path)}
    assert found["t (time) = 5000 is after max_time = 100"] == rows[2].tobytes()
    assert len(found) == 2 and rows[1].tobytes() in found.values()


def test_many_at_once_and_large_ones() -> None:
    with opened(UdpSource("e", EDGES)) as source:
        for sequence in range(0, 1000, 50):
            send(source, *(edges(0, n, 1) for n in range(sequence, sequence + 50)))
            assert [n for _, n, _ in read(source, 0.03)] == list(range(sequence, sequence + 50))
        send(source, edges(0, 1000, 8000))
        assert len(read(source)[0][2]) == 8000


@pytest.mark.forks
def test_children_do_not_keep_the_port() -> None:
    with opened(UdpSource("e", EDGES)) as source:
        port = source.port
        child = os.fork()
        if not child:
            signal.pause()
            os._exit(0)
        send(source, edges(0, 0))
        assert len(read(source)) == 1

    def can_be_opened() -> bool:  # the child may not have come so far yet
        with suppress(errors.SourceError), opened(UdpSource("e", EDGES, port=port)):
            return True
        return False

    try:
        assert comes(can_be_opened)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_queues_that_an_interface_has_beyond_the_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []
    monkeypatch.setattr(udp.datagrams.Receiver, "attach", lambda _, *args: asked.append(args))
    monkeypatch.setattr(udp, "Path", lambda _: tmp_path)
    source = UdpSource("e", EDGES, af_xdp="eth7")
    for queues in (64, 72):
        for number in range(queues):
            (tmp_path / f"rx-{number}").touch()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            source.open({})
        assert source.af_xdp == "eth7"
        source.close()
    assert asked == [("eth7", 64)] * 2
    (said,) = told
    assert "'eth7' has 72 receive queues" in str(said.message)


def test_interfaces_of_a_system_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise errors.StorageError(errno.EINVAL, "attaching the program for AF_XDP")

    monkeypatch.setattr(udp.datagrams.Receiver, "attach", refuse)
    source = UdpSource("e", EDGES, af_xdp="lo")
    with pytest.warns(RuntimeWarning, match=r"af_xdp = 'lo' cannot be had.*Linux 5\.9"):
        source.open({})
    assert source.af_xdp is None
    source.close()


def test_bad_arguments() -> None:
    options: Any
    for options, message in (
        ({"host": "0.0.0.0"}, "open to others"),
        ({"port": -1}, "port = -1"),
        ({"af_xdp": "a/b"}, "not the name of a network interface"),
        ({"af_xdp": "x" * 16}, "1 to 15 characters"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=message):
            UdpSource("e", EDGES, **options)
    with pytest.raises(errors.InvalidArgumentError, match=r"made by Schema\.struct"):
        UdpSource("e", Schema.json(src="u", dst="v"))
    with pytest.raises(errors.InvalidArgumentError, match="65507 is the most"):
        edges(0, 0, 9000)
    with pytest.raises(errors.InvalidArgumentError, match="stream = 4294967296 is not below 2"):
        edges(1 << 32, 0)
    source = UdpSource("e", EDGES)
    source.open({})
    with pytest.raises(errors.SourceError, match="in use"):
        UdpSource("e", EDGES, port=source.port).open({})
    source.close()
    with pytest.raises(errors.ClosedError, match="not open"):
        source.poll(0)
