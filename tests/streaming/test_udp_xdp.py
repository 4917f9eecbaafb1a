"""UdpSource past the network stack: two ends of a virtual cable, one in a namespace of its own."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from support.network import NEAR, Cable, plugged
from support.threads import comes

from aethergraph import errors
from aethergraph.streaming import Schema, UdpSource, pack_datagram

EDGES = Schema.struct([("u", "<u4"), ("v", "<u4")], src="u", dst="v")

SENDER = """
import socket, sys
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
port, count = int(sys.argv[1]), int(sys.argv[2])
datagrams = sys.stdin.buffer.read()
size = len(datagrams) // count
for i in range(count):
    out.sendto(datagrams[i * size : (i + 1) * size], (sys.argv[3], port))
"""


class XdpCable(Cable):
    """Cable over which datagrams are sent."""

    def send(self, port: int, datagrams: list[bytes], to: str = NEAR) -> None:
        """Send datagrams of one length from the far end."""
        command = ["ip", "netns", "exec", self.space, sys.executable, "-c", SENDER]
        subprocess.run(
            [*command, str(port), str(len(datagrams)), to],
            input=b"".join(datagrams),
            check=True,
            timeout=60,
        )

    def program(self) -> str:
        """Return the system's words about a program at the near end; empty without one."""
        command = ["ip", "-o", "link", "show", self.near]
        text = subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=30
        ).stdout
        return " ".join(word for word in text.split() if word.startswith(("xdp", "prog/xdp")))


@pytest.fixture(scope="module")
def cable() -> Iterator[XdpCable]:
    with plugged(XdpCable) as made:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            near(made).close()
        if told:
            pytest.skip(f"no AF_XDP here: {told[0].message}")
        yield made


def near(cable: XdpCable, **options: Any) -> UdpSource:
    """Return an open source at the near end."""
    made = UdpSource("e", EDGES, host=NEAR, trust_network=True, af_xdp=cable.near, **options)
    made.open({})
    return made


def edges(sequence: int, count: int = 10) -> bytes:
    rows = np.zeros(count, [("u", "<u4"), ("v", "<u4")])
    rows["u"], rows["v"] = sequence, np.arange(count)
    return pack_datagram(1, sequence, rows)


def read(source: UdpSource, count: int) -> list[tuple[int, int]]:
    """Return (sequence, place) of ``count`` rows, or of those that come within some seconds."""
    found: list[tuple[int, int]] = []

    def has_all() -> bool:
        for one in source.poll(0.2) or ():
            assert one.offsets is not None
            assert (one.columns["src"] == one.offsets).all()
            found.extend(zip(one.offsets.tolist(), one.columns["dst"].tolist(), strict=True))
        return len(found) >= count

    comes(has_all, 20)
    return found


def came(source: UdpSource) -> tuple[int, int]:
    """Return the numbers of datagrams that came by the socket and past the stack."""
    assert source._receiver is not None
    stats = source._receiver.stats()
    return stats.by_socket, stats.by_xdp


def test_datagrams_come_past_the_stack(cable: XdpCable) -> None:
    with closing(near(cable)) as source:
        assert source.af_xdp == cable.near and "xdp" in cable.program()
        for first in range(0, 6000, 3000):  # more than there are frames: they are used again
            cable.send(source.port, [edges(first + i) for i in range(3000)])
            wanted = [(first + i, place) for i in range(3000) for place in range(10)]
            assert read(source, 30_000) == wanted
        assert came(source) == (0, 6000)
        assert source.lost == {} and source.dropped == 0
    assert cable.program() == ""


def test_what_finds_no_frame_is_counted_as_lost(cable: XdpCable) -> None:
    with closing(near(cable)) as source:
        cable.send(source.port, [edges(i, 1) for i in range(6000)])
        first = read(source, 4096)
        cable.send(source.port, [edges(6000, 1)])
        assert read(source, 1) == [(6000, 0)]
        assert 4096 <= len(first) < 6000
        assert source.lost == {1: 6000 - len(first)}


def test_the_rest_goes_its_usual_way(cable: XdpCable) -> None:
    with closing(near(cable)) as source, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind((NEAR, 0))
        other.settimeout(20)
        cable.send(source.port, [edges(0, 1000)])  # 8 KB: fragments
        assert len(read(source, 1000)) == 1000
        assert came(source) == (1, 0)
        cable.send(other.getsockname()[1], [b"hello"])
        assert other.recv(100) == b"hello"
        cable.send(source.port, [edges(1)])
        assert len(read(source, 10)) == 10
        assert came(source) == (1, 1)


def test_damage_is_dropped(cable: XdpCable) -> None:
    good = edges(0)
    bad = [good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :] for at in range(len(good))]
    with closing(near(cable)) as source:
        cable.send(source.port, bad)
        cable.send(source.port, [good])
        assert read(source, 10) == [(0, place) for place in range(10)]
        assert source.dropped == len(bad)


CHILD = """
import sys, time
from aethergraph.streaming import Schema, UdpSource
edges = Schema.struct([("u", "<u4"), ("v", "<u4")], src="u", dst="v")
source = UdpSource("e", edges, host=sys.argv[1], trust_network=True, af_xdp=sys.argv[2])
source.open({})
print(source.af_xdp, flush=True)
time.sleep(60)
"""


def test_a_killed_process_leaves_no_program(cable: XdpCable) -> None:
    command = [sys.executable, "-c", CHILD, NEAR, cable.near]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == cable.near
        assert "xdp" in cable.program()
        child.send_signal(signal.SIGKILL)
    assert comes(lambda: cable.program() == "")


UNPRIVILEGED = """
import os, socket, sys, warnings
import numpy as np
import numpy.ma
from aethergraph.streaming import Schema, UdpSource, pack_datagram
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
warnings.simplefilter("error")
edges = Schema.struct([("u", "<u4"), ("v", "<u4")], src="u", dst="v")
source = UdpSource("e", edges, host=sys.argv[1], trust_network=True, af_xdp=sys.argv[2])
try:
    source.open({})
except RuntimeWarning as warning:
    print(warning)
warnings.simplefilter("ignore")
source.open({})
assert source.af_xdp is None
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
    out.sendto(pack_datagram(0, 0, np.zeros(5, edges.decoder.dtype)), (sys.argv[1], source.port))
print(sum(one.count for one in source.poll(20)))
"""


def test_without_rights_they_come_by_the_socket(cable: XdpCable) -> None:
    command = [sys.executable, "-c", UNPRIVILEGED, NEAR, cable.near]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    said, rows = done.stdout.splitlines()
    assert f"af_xdp = '{cable.near}' cannot be had" in said and "needs root" in said
    assert rows == "5"


def test_interfaces_that_cannot_be_had(cable: XdpCable) -> None:
    with closing(near(cable)), pytest.raises(errors.SourceError, match="busy") as caught:
        near(cable)
    assert cable.near in str(caught.value)
    source = UdpSource("e", EDGES, host=NEAR, trust_network=True, af_xdp="no-such-one")
    with pytest.raises(errors.SourceError, match="no network interface 'no-such-one'"):
        source.open({})
    source.close()
    near(cable).close()  # nothing is left of what failed
