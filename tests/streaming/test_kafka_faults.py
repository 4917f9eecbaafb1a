"""KafkaSource where brokers go and come back, answer with errors, or have lost messages."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from support.ingesting import edges, opened, small, wait_for_edges
from support.kafka import (
    FETCH,
    LIST_OFFSETS,
    MockCluster,
    kafka_source,
    mock_cluster,
    new_broker,
    records,
    running_broker,
    send,
)
from support.network import Relay
from support.threads import WAIT, comes

from aethergraph import DynamicGraph, errors
from aethergraph.streaming import Ingestor, KafkaSource, Schema

pytestmark = pytest.mark.any_python
#: How often brokers go away at random moments.
CUTS = int(os.environ.get("AETHERGRAPH_CUTS", "3"))
#: Waits that are right for brokers that are away for milliseconds.
SOON = {
    "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 50, "retry.backoff.ms": 20,
    "topic.metadata.refresh.fast.interval.ms": 20, "fetch.error.backoff.ms": 20, "log_level": 0,
}  # fmt: skip


# ---- brokers that are away -----------------------------------------------------------------------


@pytest.fixture
def mock() -> Iterator[MockCluster]:
    """Three brokers that librdkafka plays, with the topic ``edges`` of four partitions."""
    with mock_cluster(3) as cluster:
        cluster.make_topic("edges", 4)
        yield cluster


def test_brokers_go_away_and_come_back_at_random(mock: MockCluster) -> None:
    """Partitions move to other brokers meanwhile, or wait for theirs."""
    rng, graph, size = np.random.default_rng(7), small(), 1000
    with Ingestor(graph, kafka_source("edges", mock.address, options=SOON), linger=0) as ingestor:
        for cut in range(CUTS):
            for number in range(4):
                send(mock.address, "edges", number, records(number, size * cut, size * (cut + 1)))
            time.sleep(float(rng.uniform(0, 0.01)))
            down = rng.permutation(3)[: rng.integers(1, 4)] + 1  # one of them, two, or all
            for broker in down.tolist():
                mock.set_down(broker)
            mock.set_leader("edges", int(rng.integers(4)), int(rng.integers(3)) + 1)
            time.sleep(float(rng.uniform(0, 0.1)))
            for broker in down.tolist():
                mock.set_up(broker)
        wait_for_edges(ingestor, 4 * size * CUTS)
    assert edges(graph) == [(u, v) for u in range(4) for v in range(size * CUTS)]


def test_connections_cut_in_the_middle_of_answers() -> None:
    """A real broker, as those see it who read from it while it is killed again and again."""
    broker, rng, size = new_broker(), np.random.default_rng(8), 1500 * CUTS
    relay = Relay(broker.port)
    broker.told = relay.port
    broker.start()
    try:
        broker.make_topic("edges", 4)
        for number in range(4):
            broker.send("edges", number, records(number, 0, size))
        graph = small()
        options = {**SOON, "fetch.message.max.bytes": 20_000}
        source = kafka_source("edges", broker.address, options=options, timeout=WAIT)
        relay.open(int(rng.integers(20_000, 60_000)))  # it does not begin without a broker
        with Ingestor(graph, source, batch=100, linger=0) as ingestor:
            for cut in range(CUTS):
                assert relay.was_cut.wait(WAIT)
                ingestor.check()
                assert graph.num_edges < 4 * size
                time.sleep(float(rng.uniform(0, 0.1)))
                # Of some 150,000 bytes for each.
                relay.open(int(rng.integers(1, 60_000)) if cut < CUTS - 1 else None)
            wait_for_edges(ingestor, 4 * size)
        assert edges(graph) == [(u, v) for u in range(4) for v in range(size)]
        assert graph.offsets("edges") == dict.fromkeys(range(4), size)
    finally:
        broker.kill()
        relay.close()


@pytest.mark.parametrize("more", [0, 50])
def test_a_broker_that_goes_and_comes_back(more: int) -> None:
    """With the same messages, as one with a disk would; and with some more, or nothing new."""
    with running_broker() as own:
        own.make_topic("edges", 2)
        own.send("edges", 0, records(0, 0, 100))
        graph = small()
        options = {"reconnect.backoff.max.ms": 200}
        source = kafka_source("edges", own.address, options=options, timeout=2)
        with Ingestor(graph, source) as ingestor:
            ingestor.drain(WAIT)
            assert graph.num_edges == 100
            own.kill()
            assert comes(lambda: ingestor.stats().state == "stalled")
            assert ingestor.stats().reason
            own.start()
            own.make_topic("edges", 2)
            own.send("edges", 0, records(0, 0, 100 + more))
            wait_for_edges(ingestor, 100 + more)
            assert comes(lambda: ingestor.stats().state == "running")
            assert ingestor.stats().reason is None
        assert edges(graph) == [(0, v) for v in range(100 + more)]


# ---- what brokers answer -------------------------------------------------------------------------


#: Unknown topic, as one that was just made; not the leader; its disk failed; the offset is not
#: known yet.
@pytest.mark.parametrize("code", [3, 6, 56, 78])
def test_errors_that_pass_over(mock: MockCluster, code: int) -> None:
    graph = small()
    with Ingestor(graph, kafka_source("edges", mock.address, options=SOON), linger=0) as ingestor:
        for part in range(3):
            for request in (FETCH, LIST_OFFSETS) if code != 3 else (LIST_OFFSETS,):
                mock.answer(request, [code] * 2)
            for number in range(4):
                send(mock.address, "edges", number, records(number, 100 * part, 100 * (part + 1)))
            wait_for_edges(ingestor, 400 * (part + 1))
    assert edges(graph) == [(u, v) for u in range(4) for v in range(300)]
    assert ingestor.stats().state == "stopped"


def test_errors_that_do_not_pass_over(mock: MockCluster) -> None:
    send(mock.address, "edges", 0, records(0, 0, 10))
    graph = small()
    with pytest.raises(errors.SourceError, match=r"topic 'edges' at .*uthoriz"):
        with Ingestor(graph, kafka_source("edges", mock.address, options=SOON)) as ingestor:
            wait_for_edges(ingestor, 10)
            mock.answer(FETCH, [29] * 20)
            send(mock.address, "edges", 0, records(0, 10, 20))
            wait_for_edges(ingestor, 1000)
    assert edges(graph) == [(0, v) for v in range(graph.num_edges)]


def test_an_offset_that_is_said_to_be_gone_and_is_not(mock: MockCluster) -> None:
    graph = small()
    with Ingestor(graph, kafka_source("edges", mock.address, options=SOON)) as ingestor:
        for part in range(4):
            mock.answer(FETCH, [1])
            for number in range(4):
                send(mock.address, "edges", number, records(number, 100 * part, 100 * (part + 1)))
            wait_for_edges(ingestor, 400 * (part + 1))
    assert edges(graph) == [(u, v) for u in range(4) for v in range(400)]


def test_a_topic_that_was_made_anew(mock: MockCluster) -> None:
    send(mock.address, "edges", 0, records(0, 0, 20))
    graph = small()
    graph.set_offset("edges", 0, 500)
    with pytest.raises(errors.SourceError, match="ends at offset 20, but 500 was to come"):
        Ingestor(graph, kafka_source("edges", mock.address, timeout=30)).run()


def test_messages_that_are_gone(mock: MockCluster) -> None:
    for part in range(10):  # they go by batches
        send(mock.address, "edges", 0, records(0, 10 * part, 10 * (part + 1)))
    mock.delete_records("edges", 0, 40)
    graph = small()
    with graph.transaction():
        graph.insert_edges(np.zeros(10, int), np.arange(10))
        graph.set_offset("edges", 0, 10)
    with pytest.raises(errors.SourceError, match=r"partition 0: the messages 10\.\.39 are gone"):
        Ingestor(graph, kafka_source("edges", mock.address)).run()
    assert graph.offsets("edges") == {0: 10}
    source = kafka_source("edges", mock.address, on_gap="earliest", stop_at_end=True)
    Ingestor(graph, source).run()
    assert source.gaps == {0: 30}
    assert edges(graph) == [(0, v) for v in [*range(10), *range(40, 100)]]


@pytest.mark.parametrize("on_gap", ["error", "earliest"])
def test_messages_that_go_while_it_reads(mock: MockCluster, on_gap: Any) -> None:
    source, found = kafka_source("edges", mock.address, on_gap=on_gap, options=SOON), []

    def read_until(wanted: int) -> list[int]:
        assert comes(lambda: found.extend(read(source, 1, 0.05)) or len(found) >= wanted)
        return found

    send(mock.address, "edges", 0, records(0, 0, 10))
    with opened(source):
        assert read_until(10) == list(range(10))
        source.pause([0])  # it is slow, and the brokers keep little
        for part in range(1, 4):
            send(mock.address, "edges", 0, records(0, 10 * part, 10 * (part + 1)))
        mock.delete_records("edges", 0, 30)
        source.pause([])
        if on_gap == "error":
            with pytest.raises(errors.SourceError, match=r"the messages 10\.\.29 are gone"):
                read_until(20)
        else:
            assert read_until(20) == [*range(10), *range(30, 40)] and source.gaps == {0: 20}


# ---- what librdkafka tells -----------------------------------------------------------------------


class Told:
    """Consumer that gives what it is told to.

    Args:
        *batches: what comes at once: offsets of messages or errors, of partition 0; in a pair with
            the number of another.
        ends: first number and end of each partition, of which nothing is gone when it is opened.
    """

    def __init__(
        self, *batches: Sequence[Any], ends: Sequence[tuple[int, int]] = ((0, 100),)
    ) -> None:
        self.batches = [[_as_message(one) for one in some] for some in batches]
        self.ends = ends
        self.begun: list[tuple[int, int]] = []
        #: Error that it answers with where it is asked for an end.
        self.away: int | None = None

    def consume(self, count: int, timeout: float) -> list[Any]:
        if count > 1:
            return self.batches.pop(0)
        if not self.batches or not self.batches[0]:
            time.sleep(min(int(timeout * 1000) / 1000, 0.01))  # as confluent_kafka cuts it
            del self.batches[:1]
            return []
        return [self.batches[0].pop(0)]

    def get_watermark_offsets(self, place: Any, *, cached: bool, timeout: float) -> tuple[int, int]:
        from confluent_kafka import KafkaError, KafkaException

        if self.away is not None and not cached:
            raise KafkaException(KafkaError(self.away))
        first, end = self.ends[place.partition]
        is_open = place.partition in dict(self.begun)
        return (first if is_open else 0), end

    def offsets_for_times(self, places: Sequence[Any], timeout: float) -> Sequence[Any]:
        return places

    def list_topics(self, topic: str, timeout: float) -> Any:
        found = SimpleNamespace(error=None, partitions=dict(enumerate(self.ends)))
        return SimpleNamespace(cluster_id=None, topics={topic: found})

    def incremental_assign(self, places: Sequence[Any]) -> None:
        self.begun += [(one.partition, one.offset) for one in places]

    def incremental_unassign(self, places: Sequence[Any]) -> None:
        pass

    def close(self) -> None:
        pass


class End(NamedTuple):
    offset: int


def _as_message(one: Any) -> Any:
    from confluent_kafka import KafkaError, Message

    partition, what = one if type(one) is tuple else (0, one)
    try:
        if isinstance(what, End):
            return Message("edges", partition, what.offset, error=error("_PARTITION_EOF"))
        if isinstance(what, KafkaError):
            return Message("edges", partition, -1001, error=what)
        return Message("edges", partition, what, value=b'{"u": %d, "v": %d}' % (partition, what))
    except TypeError:
        pytest.skip("this confluent-kafka makes no messages: install a newer one")


def error(name: str, text: str | None = None) -> Any:
    kafka = pytest.importorskip("confluent_kafka", reason="pip install 'aethergraph[stream]'")
    return kafka.KafkaError(getattr(kafka.KafkaError, name), text)


def told(patch: pytest.MonkeyPatch, consumer: Told, **options: Any) -> KafkaSource:
    patch.setattr("confluent_kafka.Consumer", lambda _: consumer)
    patch.setattr("aethergraph.streaming.kafka._LOOK", 0.0)
    return kafka_source("edges", "nowhere:1", **options)


def read(source: KafkaSource, polls: int, timeout: float = 0) -> list[int]:
    found: list[int] = []
    for _ in range(polls):
        for one in source.poll(timeout) or ():
            found.extend(one.columns["dst"].tolist())
    return found


@pytest.mark.parametrize("on_gap", ["error", "earliest"])
def test_messages_that_came_before_others_were_gone(
    monkeypatch: pytest.MonkeyPatch, on_gap: Any
) -> None:
    gone, others = error("_AUTO_OFFSET_RESET", "not available"), [[(1, v)] for v in range(1, 200)]
    consumer = Told([0, 1, 2, gone, (1, 0)], *others, [7, 8], ends=[(7, 9), (0, 200)])
    graph = small()
    ingestor = Ingestor(graph, told(monkeypatch, consumer, on_gap=on_gap), linger="20ms")
    if on_gap == "error":
        with pytest.raises(errors.SourceError, match=r"partition 0: the messages 3\.\.6 are gone"):
            ingestor.run()
        assert edges(graph)[:3] == [(0, 0), (0, 1), (0, 2)] and graph.offsets("edges")[0] == 3
    else:
        with ingestor:
            wait_for_edges(ingestor, 205)
        assert edges(graph) == [(0, v) for v in (0, 1, 2, 7, 8)] + [(1, v) for v in range(200)]
        assert ingestor.source.gaps == {0: 4} and (0, 7) in consumer.begun


def test_messages_before_others_were_gone_from_one_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The poll that waits for `linger` comes back a part of a millisecond early."""
    for _ in range(5):
        consumer = Told([0, 1, 2, error("_AUTO_OFFSET_RESET", "not available")], ends=[(7, 9)])
        graph = small()
        with pytest.raises(errors.SourceError, match=r"partition 0: the messages 3\.\.6 are gone"):
            Ingestor(graph, told(monkeypatch, consumer, on_gap="error")).run()
        assert graph.offsets("edges") == {0: 3}


def test_a_leader_that_is_away_when_it_is_asked_what_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = error("_AUTO_OFFSET_RESET", "not available")
    consumer = Told([0, gone], [(1, 0)], [], [], [], [1, 2], ends=[(0, 3), (0, 1)])
    source = told(monkeypatch, consumer)
    source.open({})
    consumer.away = error("_TIMED_OUT").code()
    assert read(source, 5) == [0, 0]
    assert "_TIMED_OUT" in str(source.stalled) and source.lag()[0] > 0
    consumer.away = None
    assert read(source, 3) == [1, 2] and source.stalled is None
    assert consumer.begun == [(0, 0), (1, 0), (0, 1)]


@pytest.mark.parametrize("on_gap", ["error", "earliest"])
@pytest.mark.parametrize("name", ["_BAD_MSG", "_NOT_IMPLEMENTED"])
def test_messages_that_librdkafka_passes_by_as_it_cannot_read_them(
    monkeypatch: pytest.MonkeyPatch, name: str, on_gap: Any
) -> None:
    damaged = error(name, "MessageSet at offset 2 failed CRC32C check")
    eof = error("_PARTITION_EOF")
    consumer, graph = Told([0, 1, damaged, 5, 6, eof], [7, 8], [9]), small()
    source = told(monkeypatch, consumer, on_gap=on_gap, stop_at_end=True)
    wanted = rf"partition 0, at offset 2 or behind it: .*CRC32C.*{name}.*set_offset\('edges', 0, n"
    with pytest.raises(errors.SourceError, match=wanted):
        Ingestor(graph, source).run()
    assert edges(graph) == [(0, 0), (0, 1)] and graph.offsets("edges") == {0: 2}


@pytest.mark.parametrize("on_gap", ["error", "earliest"])
@pytest.mark.parametrize(
    "text",
    [
        "Partition log truncation detected at offset 100: broker end offset is 90.",
        "No epoch found less or equal to 3. Reset: Local: Partition log truncation detected",
    ],
)
def test_a_topic_that_was_cut_and_has_grown_again(
    monkeypatch: pytest.MonkeyPatch, text: str, on_gap: Any
) -> None:
    """Others have the offsets of messages that the graph has, whose leader was lost."""
    consumer, graph = Told([*range(3), error("_AUTO_OFFSET_RESET", text)], [3], [4]), small()
    with pytest.raises(errors.SourceError, match=r"truncation .*go on at offset 3 without them"):
        Ingestor(graph, told(monkeypatch, consumer, on_gap=on_gap)).run()
    assert graph.offsets("edges") == {0: 3}


@pytest.mark.parametrize(("partition", "name"), [(0, "UNKNOWN"), (-1, "_BAD_MSG")])
def test_an_error_of_an_answer_that_passes_over(
    monkeypatch: pytest.MonkeyPatch, partition: int, name: str
) -> None:
    source = told(monkeypatch, Told([(partition, error(name))], [], [], [0]))
    source.open({})
    monkeypatch.setattr("aethergraph.streaming.kafka._LOOK", 0.2)
    read(source, 2)
    assert name in str(source.stalled)
    time.sleep(0.2)
    read(source, 1)  # nothing new comes, but the brokers answer
    assert source.stalled is None and read(source, 1) == [0]


def test_a_look_for_brokers_takes_no_longer_for_many_partitions(mock: MockCluster) -> None:
    mock.make_topic("many", 30)
    options = {"fetch.wait.max.ms": 500, "log_level": 0}
    with opened(kafka_source("many", mock.address, options=options)) as source:
        assert comes(lambda: source.poll(0.1) or len(source._ends) == 30)
        source._error = error("_TRANSPORT")
        began = time.monotonic()
        assert source.poll(0.001) == []
        assert time.monotonic() - began < 15  # a second each would be half a minute
        assert comes(lambda: source.poll(0.1) or source.stalled is None)


@pytest.mark.parametrize("name", ["_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED"])
def test_a_user_who_is_refused_for_a_moment(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    source = told(monkeypatch, Told([], [], [0]))
    source.open({})
    monkeypatch.setattr("aethergraph.streaming.kafka._LOOK", float("inf"))
    source._note_error(error(name))
    assert read(source, 2) == [] and name in str(source.stalled)
    assert read(source, 1) == [0] and source.stalled is None


def test_ends_behind_the_last_message_are_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """But not where no message has come: others may see the first one before that end."""
    consumer, graph = Told([0, End(1), (1, End(4))], [End(3)], [End(3), 5], [(1, 6)]), small()
    consumer.ends = [(0, 6), (0, 7)]
    source, seen = told(monkeypatch, consumer), []
    acknowledge = source.acknowledge

    def note(offsets: Any) -> None:
        acknowledge(offsets)
        seen.append(graph.offsets("edges"))

    monkeypatch.setattr(source, "acknowledge", note)
    with Ingestor(graph, source, linger=0) as ingestor:
        wait_for_edges(ingestor, 3)
    assert seen == [{0: 1}, {0: 3}, {0: 6}, {0: 6, 1: 7}]


def test_a_group_that_the_user_has_no_right_on(monkeypatch: pytest.MonkeyPatch) -> None:
    source = told(monkeypatch, Told([error("GROUP_AUTHORIZATION_FAILED")]))
    source.open({})
    assert read(source, 1) == [] and source.stalled is None


# ---- partitions ----------------------------------------------------------------------------------


def test_two_graphs_take_one_topic(mock: MockCluster) -> None:
    """Both are of one group of consumers: no partition goes from one of them to the other."""
    graphs = [small(), small()]
    sources = [kafka_source("edges", mock.address, options=SOON) for _ in graphs]
    with Ingestor(graphs[0], sources[0]) as first:
        send(mock.address, "edges", 0, records(0, 0, 100))
        wait_for_edges(first, 100)
        with Ingestor(graphs[1], sources[1]) as second:
            send(mock.address, "edges", 1, records(1, 0, 100))
            wait_for_edges(first, 200)
            wait_for_edges(second, 200)
    assert edges(graphs[0]) == edges(graphs[1]) == [(u, v) for u in range(2) for v in range(100)]


def test_an_idle_partition_and_late_messages(mock: MockCluster) -> None:
    schema = Schema.json(src="u", dst="v", time="t")

    def event(u: int, v: int, t: int) -> bytes:
        return b'{"u": %d, "v": %d, "t": %d}' % (u, v, t)

    graph = DynamicGraph(1000, 64, order="time", edge_time="int64", huge_pages=False)
    source = kafka_source("edges", mock.address, schema, options=SOON)
    with Ingestor(graph, source, lateness=5, idle="200ms") as ingestor:
        for number in range(2):
            send(mock.address, "edges", number, [event(number, t, t) for t in range(10)])
        wait_for_edges(ingestor, 20)
        assert ingestor.watermark is None or ingestor.watermark <= 4
        sent = 10

        def has_moved() -> bool:
            nonlocal sent
            send(mock.address, "edges", 0, [event(0, sent, sent)])
            sent += 1
            return (ingestor.watermark or 0) >= 5

        assert comes(has_moved)  # partitions 1, 2 and 3 are idle
        # On a busy machine the first messages of partition 1 may have come after it was idle.
        late = ingestor.stats().late
        send(mock.address, "edges", 1, [event(1, 500, 4)])
        wait_for_edges(ingestor, 11 + sent)
        assert comes(lambda: ingestor.stats().late == late + 1)
        assert (ingestor.watermark or 0) >= 5
    assert (1, 500) in edges(graph)


def test_new_partitions_are_found(mock: MockCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """No broker here can add partitions: the source is told of one at first."""
    monkeypatch.setattr("aethergraph.streaming.kafka._REFRESH", 0.2)
    for number in range(2):
        send(mock.address, "edges", number, records(number, 0, 50))
    source, graph = kafka_source("edges", mock.address), small()
    find = source._find_partitions
    monkeypatch.setattr(source, "_find_partitions", lambda timeout: find(timeout) - {1})
    with Ingestor(graph, source) as ingestor:
        wait_for_edges(ingestor, 100)
    assert edges(graph) == [(u, v) for u in range(2) for v in range(50)]
