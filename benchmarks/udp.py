"""Datagrams into columns: one by one, by recvmmsg, and past the network stack by AF_XDP (root).

    sudo python benchmarks/udp.py [--quick] [--seconds 2] [--rounds 5]

A sender in a network namespace sends datagrams of 528 bytes (21 rows) over a virtual cable, at a
rate that all receivers follow, then as fast as it can. The contenders take turns:

    one by one   socket.recv, and each datagram checked and decoded by numpy
    recvmmsg     UdpSource
    AF_XDP       UdpSource(af_xdp=...)
"""

from __future__ import annotations

import os
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from contenders.udp_sender import DTYPE, ROWS
from harness import common
from harness.common import Ratio, Report

NEAR, FAR = "10.213.8.1", "10.213.8.2"
SENDER = Path(__file__).parent / "contenders" / "udp_sender.py"
NAMES = ("one by one", "recvmmsg", "AF_XDP")
RATE = 50_000
#: Takes datagrams until the sender has ended and nothing comes any more; returns how many.
Receive = Callable[[Callable[[], bool]], int]


@contextmanager
def cable() -> Iterator[tuple[str, str]]:
    """Make a virtual cable; yield the interface here, and the namespace of its far end."""
    near, far, space = f"ben{os.getpid() % 10**6}", f"bef{os.getpid() % 10**6}", f"ab-{os.getpid()}"

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True)

    ip("netns", "add", space)
    try:
        ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", space)
        ip("addr", "add", f"{NEAR}/24", "dev", near)
        ip("link", "set", near, "up")
        ip("-n", space, "addr", "add", f"{FAR}/24", "dev", far)
        ip("-n", space, "link", "set", far, "up")
        yield near, space
    finally:
        subprocess.run(["ip", "link", "del", near], check=False)
        ip("netns", "del", space)


@contextmanager
def receiver(name: str, interface: str) -> Iterator[tuple[int, Receive]]:
    """Yield the port of a contender, and what receives there."""
    from aethergraph.streaming import Schema, UdpSource

    if name == NAMES[0]:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
            one.bind((NEAR, 0))
            one.settimeout(0.2)
            yield one.getsockname()[1], lambda ended: one_by_one(one, ended)
        return
    schema = Schema.struct(DTYPE, src="src", dst="dst", time="time", weight="weight")
    source = UdpSource(
        "b", schema, host=NEAR, trust_network=True,
        af_xdp=interface if name == "AF_XDP" else None,
    )  # fmt: skip
    with closing(source):
        source.open({})
        if name == "AF_XDP" and source.af_xdp is None:
            raise SystemExit("AF_XDP cannot be had here: see the warning")

        def receive(ended: Callable[[], bool]) -> int:
            rows = 0
            while True:
                found = source.poll(0.2)
                rows += sum(records.count for records in found or ())
                if not found and ended():
                    return rows // ROWS

        yield source.port, receive


def one_by_one(one: socket.socket, ended: Callable[[], bool]) -> int:
    head = struct.Struct("<4sIQII")
    count, following = 0, 0
    while True:
        try:
            datagram = one.recv(65536)
        except TimeoutError:
            if ended():
                return count
            continue
        magic, _, sequence, rows, _ = head.unpack_from(datagram)
        if magic == b"AEU1" and sequence >= following:
            following = sequence + 1
            records = np.frombuffer(datagram, DTYPE, rows, head.size)
            _ = [records[field].astype(records[field].dtype) for field in DTYPE.names or ()]
            count += 1


def run(name: str, rate: int, seconds: float, near: str, space: str) -> dict[str, float]:
    """Datagrams sent and received, and the processor time of receiving."""
    with receiver(name, near) as (port, receive):
        command = ["ip", "netns", "exec", space, sys.executable, str(SENDER), NEAR, str(port)]
        with subprocess.Popen(
            [*command, str(seconds), str(rate)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as sender:  # fmt: skip
            assert sender.stdin is not None and sender.stdout is not None
            if sender.stdout.readline() != "ready\n":
                raise RuntimeError("the sender did not begin")
            used = time.process_time()
            sender.stdin.write("\n")
            sender.stdin.flush()
            received = receive(lambda: sender.poll() is not None)
            used = time.process_time() - used
            sent = int(sender.stdout.read())
    return {"sent": sent, "received": received, "used": used, "seconds": seconds}


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--seconds", type=float, help="of sending, per turn")
    made.add_argument("--rounds", type=int, default=5)
    args = common.parse(made, argv)
    if os.geteuid() != 0:
        raise SystemExit("namespaces and AF_XDP need root: sudo python benchmarks/udp.py")
    report = Report("udp", "Datagrams into columns", args)
    rounds = 1 if args.quick else args.rounds
    seconds = args.seconds or (0.2 if args.quick else 2.0)
    report.parameters = {"rounds": rounds, "seconds": seconds, "rows": ROWS, "bytes": 528}
    report.data = {}
    table: list[list[common.Cell]] = []
    with cable() as (near, space):
        for label, rate in ((f"{RATE} per second", RATE), ("as many as can be sent", 0)):
            turns: dict[str, list[dict[str, float]]] = {name: [] for name in NAMES}
            for number in range(rounds):
                for name in (*NAMES[number % 3 :], *NAMES[: number % 3]):
                    turns[name].append(run(name, rate, seconds, near, space))
            report.data[label] = turns
            cost = {
                name: [1e6 * one["used"] / max(one["received"], 1) for one in turns[name]]
                for name in NAMES
            }
            for name in NAMES:
                own = turns[name]
                table.append([
                    label, name,
                    statistics.median(one["received"] / one["seconds"] / 1e3 for one in own),
                    statistics.median(100 * one["received"] / one["sent"] for one in own),
                    statistics.median(cost[name]),
                    str(Ratio.paired(cost["recvmmsg"], cost[name])),
                ])  # fmt: skip
    report.table(
        "datagrams of 528 bytes, medians; processor time of the receiver for each, and how many "
        "it takes in the time of one by recvmmsg",
        ["sent", "contender", "thousand/s", "% received", "us each", "times as fast"],
        table,
    )

    def draw(axes: Sequence[Any]) -> None:
        (axis,) = axes
        names = [f"{row[1]}, {row[0]}" for row in table]
        common.bars(axis, names, [float(str(row[4])) for row in table], "us of processor time each")

    common.plot(report, 1, draw)
    report.finish()


if __name__ == "__main__":
    main()
