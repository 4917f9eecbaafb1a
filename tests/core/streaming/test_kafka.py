"""KafkaSource against a real broker of Kafka's protocol, and faults with librdkafka's mock one."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ingesting import edges, run_killed
from kafka_broker import Broker, free_port, running_broker, send

from aethergraph import DynamicGraph, errors
from aethergraph.streaming import Ingestor, KafkaSource, Schema
from aethergraph.testing import SourceContract

WAIT = 60
numbers = count()
JSON = Schema.json(src="u", dst="v")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker() as one:
        yield one


@pytest.fixture
def topic(broker: Broker) -> str:
    return f"edges-{os.getpid()}-{next(numbers)}"


def records(u: int, begin: int, end: int) -> list[bytes]:
    return [json.dumps({"u": u, "v": v}).encode() for v in range(begin, end)]


def small(nodes: int = 10_000) -> DynamicGraph:
    return DynamicGraph(nodes, 64, order="time", layout="csc", huge_pages=False)


def kafka_source(topic: str, address: str, schema: Schema = JSON, **options: Any) -> KafkaSource:
    """The broker here waits for each partition that has nothing new, one after the other."""
    own = {"fetch.wait.max.ms": 20, **options.pop("options", {})}
    return KafkaSource(topic, address, schema, options=own, **options)


class TestKafkaSource(SourceContract):
    @pytest.fixture(autouse=True)
    def given_broker(self, broker: Broker) -> None:
        self.broker = broker

    def make(self, counts: Sequence[int]) -> Any:
        topic = f"contract-{next(numbers)}"
        self.broker.make_topic(topic, len(counts))
        for number, amount in enumerate(counts):
            self.broker.send(topic, number, records(number, 0, amount))
        return kafka_source(topic, self.broker.address, JSON)


def test_edges_come_while_the_graph_is_read(broker: Broker, topic: str) -> None:
    broker.make_topic(topic, 3)
    graph = small()
    with Ingestor(graph, kafka_source(topic, broker.address, JSON)) as ingestor:
        for number in range(3):
            broker.send(topic, number, records(number, 0, 1000))
        ingestor.drain(WAIT)
        assert graph.num_edges == 3000
        broker.send(topic, 1, [None, *records(1, 1000, 1100), None])  # and two tombstones
        ingestor.drain(WAIT)
    assert edges(graph) == sorted((u, v) for u in range(3) for v in range(1100 if u == 1 else 1000))
    assert graph.offsets(topic) == {0: 1000, 1: 1102, 2: 1000}
    stats = Ingestor(graph, kafka_source(topic, broker.address, JSON, stop_at_end=True)).run()
    assert stats.records == 0 and stats.state == "ended"


INGEST = """
import sys
from aethergraph import DynamicGraph
from aethergraph.streaming import Ingestor, KafkaSource, Schema
path, topic, address = sys.argv[1:4]
graph = DynamicGraph.open(path, 10000, 64, order="time", layout="csc", huge_pages=False)
source = KafkaSource(topic, address, Schema.json(src="u", dst="v"), stop_at_end=True,
                     options={"fetch.wait.max.ms": 20})
ingestor = Ingestor(graph, source, batch=100, linger=0)
commit = ingestor._commit
def noted(**options):
    commit(**options)
    print("commit", flush=True)
ingestor._commit = noted
ingestor.run()
graph.close()
print("done", flush=True)
"""


def test_killed_anywhere_each_message_is_there_once(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.make_topic(topic, 4)
    for number in range(4):
        broker.send(topic, number, records(number, 0, 10_000))
    rng = np.random.default_rng(5)
    command = [sys.executable, "-c", INGEST, str(tmp_path / "g"), topic, broker.address]
    kills, _ = run_killed(command, rng, 4)
    graph = DynamicGraph.open(tmp_path / "g", arena_mb=64, huge_pages=False)
    assert kills and edges(graph) == [(u, v) for u in range(4) for v in range(10_000)]
    graph.close()


def test_paused_partitions_and_skew(broker: Broker, topic: str) -> None:
    """A backlog comes partition by partition; those ahead are paused, and nothing is lost."""
    broker.make_topic(topic, 3)
    for number in range(3):
        values = [
            json.dumps({"u": number, "v": v, "t": v * (number + 1)}).encode() for v in range(5000)
        ]
        broker.send(topic, number, values)
    graph = DynamicGraph(10_000, 64, order="time", edge_time="int64", huge_pages=False)
    source = kafka_source(
        topic, broker.address, Schema.json(src="u", dst="v", time="t"), stop_at_end=True
    )
    paused = []
    pause = source.pause
    source.pause = lambda which: paused.append(set(which)) or pause(which)  # type: ignore
    Ingestor(graph, source, batch=500, max_skew=100, idle=1000).run()
    assert edges(graph) == [(u, v) for u in range(3) for v in range(5000)]
    assert any(paused)


def test_unknown_topics_partitions_and_brokers(broker: Broker, topic: str) -> None:
    graph = small()
    with pytest.raises(errors.SourceError, match=f"topic '{topic}' at .*there is no such topic"):
        Ingestor(graph, kafka_source(topic, broker.address, JSON, timeout=3)).run()
    broker.make_topic(topic, 2)
    with pytest.raises(errors.SourceError, match="there is no partition 5, but 2 partitions"):
        kafka_source(topic, broker.address, JSON, partitions=[0, 5]).open({})
    with pytest.raises(errors.SourceError, match="partition 2, which is not there any more"):
        kafka_source(topic, broker.address, JSON).open({2: 5})
    nowhere = f"127.0.0.1:{free_port()}"
    with pytest.raises(ConnectionError, match=f"at {nowhere}: no broker answers: .*refused"):
        with Ingestor(graph, kafka_source(topic, nowhere, JSON, timeout=2)):
            pass
    assert graph.commit == DynamicGraph(2, 8).commit  # nothing was committed


def test_bad_arguments() -> None:
    pytest.importorskip("confluent_kafka")
    for options, message in (
        ({"start": "now"}, "start = 'now'"),
        ({"on_gap": "skip"}, "on_gap = 'skip'"),
        ({"partitions": [-1]}, "partition = -1"),
        ({"options": {"auto.offset.reset": "latest"}}, "cannot be set"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=message):
            KafkaSource("t", "h:1", JSON, **options)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match=r"options: .*no\.such\.option"):
        KafkaSource("t", "h:1", JSON, options={"no.such.option": 1}).open({})
    with pytest.raises(errors.InvalidArgumentError, match="topic = ''"):
        KafkaSource("", "h:1", JSON)


def test_a_bad_message_is_named(broker: Broker, topic: str) -> None:
    broker.make_topic(topic, 2)
    broker.send(topic, 1, [*records(1, 0, 3), b'{"u": 1, "v": 99999999}'])
    graph = small()
    with pytest.raises(errors.RecordError, match=rf"{topic}, partition 1, offset 3: v \(dst\) ="):
        Ingestor(graph, kafka_source(topic, broker.address, JSON, stop_at_end=True)).run()
    assert graph.num_edges == 0 and graph.offsets(topic) == {}


def test_it_begins_at_the_end_if_asked(broker: Broker, topic: str) -> None:
    broker.make_topic(topic, 1)
    for v in range(10):  # one by one: the broker here tells the beginning of the last batch
        broker.send(topic, 0, records(0, v, v + 1))
    graph = small()
    with Ingestor(graph, kafka_source(topic, broker.address, JSON, start="latest")) as ingestor:
        broker.send(topic, 0, records(0, 10, 15))
        ingestor.drain(WAIT)
    assert edges(graph) == [(0, v) for v in range(10, 15)]


# ---- faults --------------------------------------------------------------------------------------


@pytest.fixture
def mock() -> Iterator[Any]:
    """Address of a cluster that librdkafka plays, with three brokers; and its producer."""
    kafka = pytest.importorskip("confluent_kafka", reason="pip install 'aethergraph[stream]'")
    producer = kafka.Producer({"bootstrap.servers": "x:1", "test.mock.num.brokers": 3})
    found = producer.list_topics(timeout=WAIT)
    yield ",".join(f"{one.host}:{one.port}" for one in found.brokers.values())
    del producer  # the cluster ends with it


def test_several_brokers(mock: str) -> None:
    source = kafka_source("edges", mock, JSON, stop_at_end=True, timeout=30)
    for number in range(4):
        send(mock, "edges", number, records(number, 0, 2000))
    graph = small()
    Ingestor(graph, source).run()
    assert edges(graph) == [(u, v) for u in range(4) for v in range(2000)]


def test_a_topic_that_was_made_anew(mock: str) -> None:
    send(mock, "edges", 0, records(0, 0, 20))
    graph = small()
    graph.set_offset("edges", 0, 500)
    with pytest.raises(errors.SourceError, match="ends at offset 20, but 500 was to come"):
        Ingestor(graph, kafka_source("edges", mock, JSON, timeout=30)).run()


def test_a_broker_that_goes_and_comes_back(topic: str) -> None:
    with running_broker() as own:
        own.make_topic(topic, 1)
        own.send(topic, 0, records(0, 0, 100))
        graph = small()
        options = {"reconnect.backoff.max.ms": 200}
        source = kafka_source(topic, own.address, JSON, options=options, timeout=2)
        with Ingestor(graph, source) as ingestor:
            ingestor.drain(WAIT)
            assert graph.num_edges == 100
            own.kill()
            until = time.monotonic() + WAIT
            while ingestor.stats().state != "stalled" and time.monotonic() < until:
                time.sleep(0.05)
            assert ingestor.stats().state == "stalled" and ingestor.stats().reason
            # It comes back with the same messages and some more, as a broker with a disk would.
            own.start()
            own.make_topic(topic, 1)
            own.send(topic, 0, records(0, 0, 150))
            while graph.num_edges < 150 and time.monotonic() < until:
                ingestor.check()
                time.sleep(0.05)
            assert ingestor.stats().state == "running"
        assert edges(graph) == [(0, v) for v in range(150)]


class Gone:
    """Consumer whose topic has lost its first messages."""

    def __init__(self, inner: Any, first: int) -> None:
        self.inner, self.first = inner, first

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def get_watermark_offsets(self, place: Any, **options: Any) -> Any:
        return (self.first, self.inner.get_watermark_offsets(place, **options)[1])


def test_messages_that_are_gone(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import confluent_kafka

    broker.make_topic(topic, 1)
    broker.send(topic, 0, records(0, 0, 100))
    graph = small()
    with graph.transaction():
        graph.insert_edges(np.zeros(10, int), np.arange(10))
        graph.set_offset(topic, 0, 10)
    make = confluent_kafka.Consumer
    monkeypatch.setattr(confluent_kafka, "Consumer", lambda options: Gone(make(options), 40))
    with pytest.raises(errors.SourceError, match=r"partition 0: the messages 10\.\.39 are gone"):
        Ingestor(graph, kafka_source(topic, broker.address, JSON)).run()
    assert graph.offsets(topic) == {0: 10}
    source = kafka_source(topic, broker.address, JSON, on_gap="earliest", stop_at_end=True)
    Ingestor(graph, source).run()
    assert source.gaps == {0: 30}
    assert edges(graph) == [(0, v) for v in [*range(10), *range(40, 100)]]


def test_new_partitions_are_found(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker here cannot add partitions: the source is told of one at first."""
    monkeypatch.setattr("aethergraph.streaming.kafka._REFRESH", 0.2)
    broker.make_topic(topic, 2)
    for number in range(2):
        broker.send(topic, number, records(number, 0, 50))
    source, graph = kafka_source(topic, broker.address, JSON), small()
    find = source._find_partitions
    monkeypatch.setattr(source, "_find_partitions", lambda timeout: find(timeout) - {1})
    with Ingestor(graph, source):
        until = time.monotonic() + WAIT
        while graph.num_edges < 100 and time.monotonic() < until:
            time.sleep(0.05)
    assert edges(graph) == [(u, v) for u in range(2) for v in range(50)]


def test_training_goes_on_beside_a_fast_topic(broker: Broker, topic: str) -> None:
    from aethergraph import NeighborSampler

    broker.make_topic(topic, 2)
    graph = small()
    sender = threading.Thread(
        target=lambda: [broker.send(topic, n, records(n, 0, 5000)) for n in range(2)]
    )
    with Ingestor(graph, kafka_source(topic, broker.address, JSON)) as ingestor:
        sender.start()
        for key in range(50):
            NeighborSampler(graph, [5]).sample(np.arange(100), key=key)
        sender.join()
        ingestor.drain(WAIT)
    assert graph.num_edges == 10_000
