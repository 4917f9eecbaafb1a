"""KafkaSource against a real broker of Kafka's protocol."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.ingesting import edges, kills_timeout, most_kills, run_killed, small, wait_for_edges
from support.kafka import JSON, Broker, kafka_source, records, running_broker
from support.network import free_port
from support.threads import WAIT

from aethergraph import DynamicGraph, errors
from aethergraph.streaming import Ingestor, KafkaSource, Schema, kafka
from aethergraph.testing import SourceContract

numbers = count()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker() as one:
        yield one


@pytest.fixture
def topic(broker: Broker) -> str:
    return f"edges-{os.getpid()}-{next(numbers)}"


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
from aethergraph.streaming import Ingestor, KafkaSource, Schema, kafka
kafka._AT_ONCE = 300
path, topic, address = sys.argv[1:4]
graph = DynamicGraph.open(path, 1_000_000, 64, order="time", layout="csc", huge_pages=False)
source = KafkaSource(topic, address, Schema.json(src="u", dst="v"), stop_at_end=True,
                     options={"fetch.wait.max.ms": 20})
ingestor = Ingestor(graph, source, batch=100, linger=0)
commit = ingestor._commit
def noted(**options):
    commit(**options)
    print("commit".ljust(2000), flush=True)
ingestor._commit = noted
ingestor.run()
graph.close()
print("done", flush=True)
"""


@pytest.mark.any_python
@pytest.mark.timeout(kills_timeout())
def test_killed_anywhere_each_message_is_there_once(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    size = 400 * max(most_kills(), 3)  # of which at most twelve commits are made between kills
    broker.make_topic(topic, 4)
    for number in range(4):
        broker.send(topic, number, records(number, 0, size))
    rng = np.random.default_rng(5)
    kills, most = run_killed(INGEST, [tmp_path / "g", topic, broker.address], rng, 4)
    graph = DynamicGraph.open(tmp_path / "g", arena_mb=64, huge_pages=False)
    assert kills == most and edges(graph) == [(u, v) for u in range(4) for v in range(size)]
    graph.close()


def test_paused_partitions_and_skew(broker: Broker, topic: str) -> None:
    """A backlog comes partition by partition; those ahead are paused, and nothing is lost."""
    broker.make_topic(topic, 3)
    for number in range(3):
        values = [
            json.dumps({"u": number, "v": v, "t": v * (number + 1)}).encode() for v in range(2000)
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
    assert edges(graph) == [(u, v) for u in range(3) for v in range(2000)]
    assert any(paused)


def test_new_partitions_of_a_busy_topic_are_found(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from confluent_kafka import KafkaError, KafkaException

    class Busy:
        """Consumer that always has something to read."""

        def __init__(self, real: Any) -> None:
            self.real = real

        def __getattr__(self, name: str) -> Any:
            return getattr(self.real, name)

        def consume(self, count: int, timeout: float) -> Any:
            found = self.real.consume(count, timeout)
            while count == 1 and not any(one.error() is None for one in found):
                found = self.real.consume(count, 1)
            return found

    broker.make_topic(topic, 2)
    source = kafka_source(topic, broker.address)
    monkeypatch.setattr(kafka, "_REFRESH", 0)
    with monkeypatch.context() as patch:
        patch.setattr(source, "_find_partitions", lambda _: {0})
        source.open({})
    source._consumer, ranges = Busy(source._consumer), source._range
    problems = [KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))]

    def find(partition: int, **options: Any) -> tuple[int, int]:
        if partition == 1 and problems:
            raise problems.pop()
        return ranges(partition, **options)

    monkeypatch.setattr(source, "_range", find)
    try:
        for number, known in ((0, {0}), (1, {0, 1})):
            broker.send(topic, 0, records(0, number, number + 1))
            assert source.poll(0.01) and set(source.lag()) == known
    finally:
        source.close()


@pytest.mark.parametrize("cut", [None, 5])
def test_messages_of_transactions_leave_nothing_to_wait_for(
    broker: Broker, topic: str, cut: int | None
) -> None:
    from confluent_kafka import Producer

    broker.make_topic(topic, 1)
    options = {"bootstrap.servers": broker.address, "transactional.id": topic}
    producer, graph = Producer(options), small()
    producer.init_transactions(WAIT)
    with Ingestor(graph, kafka_source(topic, broker.address)) as ingestor:
        for number in range(2):
            producer.begin_transaction()
            for one in records(0, 5 * number, 5 * number + 5):
                producer.produce(topic, one, partition=0)
            producer.commit_transaction(WAIT)  # which is a record that nobody reads
            wait_for_edges(ingestor, 5 * number + 5)
            ingestor.drain(WAIT)
            assert graph.num_edges == 5 * number + 5 and ingestor.stats().lag == {0: 0}
            # It is passed: else messages would seem to be missing when the topic has dropped it.
            assert graph.offsets(topic) == {0: 6 * number + 6}
    whole = small()
    Ingestor(whole, kafka_source(topic, broker.address, stop_at_end=True), cut=cut).run()
    assert whole.num_edges == 10 and whole.offsets(topic) == {0: 12}


def test_cuts_are_the_same_whether_ends_of_transactions_are_seen(
    broker: Broker, topic: str
) -> None:
    from confluent_kafka import Producer

    def cut(graph: DynamicGraph, **options: Any) -> tuple[Ingestor, list[Any]]:
        source, seen = kafka_source(topic, broker.address, **options), []

        def note(offsets: Any) -> None:
            seen.append((offsets, edges(graph)))

        source.acknowledge = note  # type: ignore[method-assign]
        return Ingestor(graph, source, cut=5, linger=0), seen

    broker.make_topic(topic, 2)
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": topic})
    producer.init_transactions(WAIT)
    live, seen = cut(small())
    with live:
        for number in range(12):
            producer.begin_transaction()
            for one in records(0, 2 * number, 2 * number + 2):
                producer.produce(topic, one, partition=number // 2 % 2)
            producer.commit_transaction(WAIT)
            live.drain(WAIT)  # it has seen the end behind each
    later, others = cut(small(), stop_at_end=True)
    later.run()
    assert len(seen) == 3 and others[:3] == seen


@pytest.mark.slow
def test_unknown_topics_partitions_and_brokers(broker: Broker, topic: str) -> None:
    graph = small()
    with pytest.raises(errors.SourceError, match=f"topic '{topic}' at .*there is no such topic"):
        Ingestor(graph, kafka_source(topic, broker.address, JSON, timeout=10)).run()
    broker.make_topic(topic, 2)
    with pytest.raises(errors.SourceError, match="there is no partition 5, but 2 partitions"):
        kafka_source(topic, broker.address, JSON, partitions=[0, 5]).open({})
    with pytest.raises(errors.SourceError, match="partition 2, which is not there any more"):
        kafka_source(topic, broker.address, JSON).open({2: 5})
    nowhere = f"127.0.0.1:{free_port()}"
    with pytest.raises(ConnectionError, match=f"at {nowhere}: no broker answers: .*refused"):
        with Ingestor(graph, kafka_source(topic, nowhere, JSON, timeout=5)):
            pass
    assert graph.commit == DynamicGraph(2, 8).commit  # nothing was committed


def test_bad_arguments() -> None:
    pytest.importorskip("confluent_kafka")
    for options, message in (
        ({"start": "now"}, "start = 'now'"),
        ({"on_gap": "skip"}, "on_gap = 'skip'"),
        ({"partitions": 0}, r"partitions = 0 is no list of partitions: give partitions=\[0\]"),
        ({"partitions": "01"}, "partitions = '01' is no list"),
        ({"partitions": []}, "leaves nothing to read"),
        ({"partitions": [0, -1]}, r"partitions\[1\] = -1 is not in 0"),
        ({"partitions": [0, "a"]}, r"partitions\[1\] must be an integer"),
        ({"partitions": np.array(0)}, "partitions must be a sequence of numbers"),
        ({"options": 5}, "options must be a mapping"),
        ({"options": np.zeros(2)}, "options must be a mapping"),
        ({"options": {"auto.offset.reset": "latest"}}, "cannot be set"),
        ({"options": {"metadata.broker.list": "h:2"}}, "metadata.broker.list cannot be set"),
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


def test_a_topic_is_not_read_twice_without_a_word(broker: Broker, topic: str) -> None:
    graph = small()
    broker.make_topic(topic, 1)
    broker.send(topic, 0, records(0, 0, 10))
    again = "up to record 10 as the stream 'a'.* the stream 'b' reads it again"
    for name, twice in (("a", nullcontext()), ("b", pytest.warns(UserWarning, match=again))):
        source = kafka_source(topic, broker.address, JSON, name=name, stop_at_end=True)
        with twice:
            Ingestor(graph, source).run()
