"""Brokers that librdkafka plays, in this process, for tests of faults that no broker makes at will.

They speak Kafka's protocol over sockets; confluent-kafka brings them with its librdkafka.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

__all__ = ["FETCH", "LIST_OFFSETS", "METADATA", "MockCluster", "mock_cluster"]

#: Numbers of requests of Kafka's protocol.
FETCH, LIST_OFFSETS, METADATA = 1, 2, 3


class MockCluster:
    """A cluster with some brokers, numbered from 1 on."""

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
