"""KafkaSource: topics of Kafka, read at the offsets that the graph has."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.arrays import as_count
from aethergraph._checks.optional import require
from aethergraph._checks.options import (
    as_choice,
    as_flag,
    as_items,
    as_list,
    as_text,
    is_name,
    shown,
)
from aethergraph.errors import ClosedError, InvalidArgumentError, SourceError
from aethergraph.streaming.arguments import as_seconds
from aethergraph.streaming.marks import number_of
from aethergraph.streaming.records import Records
from aethergraph.streaming.schema import Schema, SchemaSource

__all__ = ["KafkaSource"]

Partitions: TypeAlias = Mapping[int, Any]

#: Messages that one call takes at most.
_AT_ONCE = 10_000
#: Partitions of a topic at most, more than any broker has.
_MOST_PARTITIONS = 1 << 20
#: Seconds between two looks for new partitions.
_REFRESH = 30.0
#: Seconds between two looks for brokers that had gone, and most that one may take.
_LOOK = 1.0
#: Options that would take the offsets out of our hands.
_OURS = (
    "enable.auto.commit", "enable.auto.offset.store", "auto.offset.reset", "bootstrap.servers",
    "metadata.broker.list",  # another name of the last one
)  # fmt: skip


class KafkaSource(SchemaSource):
    """Stream of the messages in a topic of Kafka, or of what speaks its protocol.

    ::

        KafkaSource("edges", "localhost:9092", Schema.json(src="user", dst="post", time="ts"))

    Partitions are assigned at the offsets of the graph; consumer groups have no say, and nothing
    is committed to Kafka. Partitions that are added to the topic are found. While no broker can be
    reached, or they refuse the user, the source is stalled, and goes on when that is over.

    Args:
        topic: the topic.
        bootstrap: brokers to begin with, ``"host:port,host:port"``.
        schema: fields of the messages.
        name: name under which the graph keeps the offsets; None: the topic. Under another name it
            is another stream, which is read from its beginning.
        start: where partitions begin that the graph knows nothing of: ``"earliest"`` or
            ``"latest"``, which leaves out what came to a partition before, at each start until
            the graph has a message of it. Partitions that are added while it runs are read from
            their first message.
        partitions: partitions to read; None: all there are.
        on_gap: what to do where messages are gone that the graph has not had, because the topic
            keeps them for a limited time: ``"error"``, or ``"earliest"``: go on with the first
            that is there, and count in :attr:`gaps`. Messages that compaction removed are no gap.
        stop_at_end: end when the ends of all partitions have been reached, also of what comes
            meanwhile; False: wait for more.
        timeout: seconds to wait for the brokers when it is opened.
        options: options of librdkafka, such as ``{"security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN", "sasl.username": ..., "sasl.password": ...}``.

    Attributes:
        gaps: messages that were gone, by partition.
        stalled: why nothing comes at the moment, or None.
    """

    def __init__(
        self,
        topic: str,
        bootstrap: str,
        schema: Schema,
        *,
        name: str | None = None,
        start: Literal["earliest", "latest"] = "earliest",
        partitions: Sequence[int] | None = None,
        on_gap: Literal["error", "earliest"] = "error",
        stop_at_end: bool = False,
        timeout: float = 10.0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        require("confluent_kafka", "topics of Kafka need", "stream")
        for label, value in (("topic", topic), ("bootstrap", bootstrap)):
            if not is_name(value):
                raise InvalidArgumentError(f"{label} = {shown(value)} is no text")
        if not isinstance(schema, Schema):
            raise InvalidArgumentError(f"schema must be a Schema, got {type(schema).__name__}")
        settings = {} if options is None else dict(as_items(options, "options"))
        for option in settings:
            if option in _OURS:
                raise InvalidArgumentError(f"options: {option} cannot be set, the graph sees to it")
        self.topic, self.bootstrap, self.schema = topic, bootstrap, schema
        self.name = as_text(name, "name") or topic
        self._start = as_choice(start, ("earliest", "latest"), "start")
        self._wanted: set[int] | None = None
        if partitions is not None:
            self._wanted = _as_partitions(partitions)
        self._on_gap = as_choice(on_gap, ("error", "earliest"), "on_gap")
        self._stops = as_flag(stop_at_end, "stop_at_end")
        self._timeout = as_seconds(timeout, "timeout")
        self._options = settings
        #: Most messages that a poll takes.
        self.at_once = _AT_ONCE
        self._consumer: Any = None
        #: Identity of the brokers, if they have told one.
        self._cluster: str | None = None
        #: Number of the next message by partition.
        self._next: dict[int, int] = {}
        #: Number of the message that each partition ended before, when its end was reached.
        self._ends: dict[int, int] = {}
        #: Partitions whose ends were just reached, and those that have given a message before.
        self._at_end: set[int] = set()
        self._had: set[int] = set()
        #: Where partitions began that began at their end, until it is handed over.
        self._began: dict[int, int] = {}
        #: Number behind the last message that came while its partition was paused.
        self._dropped: dict[int, int] = {}
        self._paused: frozenset[int] = frozenset()
        #: Errors behind which partitions are not read on, till it is known what they mean.
        self._broken: dict[int, Any] = {}
        #: What was handed over may not be in the graph yet.
        self._in_hand = self._was_empty = False
        self._refreshed = self._looked = self._asked = 0.0
        self._error: Any = None
        self.gaps: dict[int, int] = {}
        self.stalled: str | None = None

    # ---- Source --------------------------------------------------------------------------------

    def open(self, offsets: Mapping[int, int]) -> None:
        """Begin to read at these offsets.

        Raises:
            SourceError: no broker can be reached, there is no such topic or partition, or messages
                are gone.
        """
        from confluent_kafka import Consumer, KafkaException

        self.close()
        options = {
            "group.id": f"aethergraph-{self.name}",
            "fetch.queue.backoff.ms": 2,  # else fetching stops for a second when the queue is full
            **self._options,
            "bootstrap.servers": self.bootstrap,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "error_cb": self._note_error,
        }
        self._error, self.stalled, self._paused, self._next = None, None, frozenset(), {}
        self._broken, self._in_hand, self._at_end, self._had = {}, False, set(), set(offsets)
        try:
            self._consumer = Consumer(options)
        except (KafkaException, ValueError, TypeError) as error:
            raise InvalidArgumentError(f"options: {_text(error)}") from None
        partitions = self._find_partitions(self._timeout)
        missing = (self._wanted or set()) - partitions
        if missing:
            raise self._failed(
                f"there is no partition {min(missing)}, but {len(partitions)} partitions"
            )
        for partition in offsets:
            if partition not in partitions and (self._wanted is None or partition in self._wanted):
                raise self._failed(
                    f"the graph has had records of partition {partition}, which is not there any "
                    "more: was the topic made anew?"
                )
        self._ends, self._dropped, self._began = {}, {}, {}
        self._assign(partitions if self._wanted is None else self._wanted, offsets)

    def poll(self, timeout: float) -> Sequence[Records] | None:
        """Return the messages that are there."""
        if self._consumer is None:
            raise ClosedError(f"the source {self.name!r} is not open")
        if self._began:  # first, so that the next run goes on there, whenever this one ends
            began, self._began = self._began, {}
            return [self._no_records(partition, place) for partition, place in began.items()]
        self._mend_broken()
        if self._stops and not self._broken and all(self._ends.get(p, -1) >= 0 for p in self._next):
            return None
        from confluent_kafka import KafkaException

        self._refresh()  # also where there is always something to read
        try:
            # The first one is waited for, the others are taken as far as they are there.
            messages = self._consumer.consume(1, max(timeout, 0.001))
            if messages:
                messages += self._consumer.consume(self.at_once, 0)
        except KafkaException as error:
            raise self._failed(_text(error)) from None
        if not messages:
            # Nothing twice: there was time to put it into the graph. A wait may be cut short.
            self._in_hand, self._was_empty = self._in_hand and not self._was_empty, True
            if self._error is not None:
                self._judge(self._error)
            if self.stalled:
                self._look_again()
            return []
        self._was_empty = False
        good = self._without_errors(messages)
        records = self._hand_over(good) if good else []
        records += self._pass_ends()
        self._in_hand = self._in_hand or bool(records)
        if not good:
            self._mend_broken()
        return records

    def _hand_over(self, good: list[Any]) -> list[Records]:
        """Return messages as records by partition."""
        from confluent_kafka import Message

        self._note_reading()
        partitions = np.fromiter(map(Message.partition, good), np.int64, len(good))
        offsets = np.fromiter(map(Message.offset, good), np.int64, len(good))
        records = []
        for partition in np.unique(partitions).tolist():
            rows = np.flatnonzero(partitions == partition)
            if partition in self._paused:  # it was on its way already, and comes again
                self._dropped[partition] = int(offsets[rows[-1]]) + 1
                continue
            rows = rows[offsets[rows] >= self._next[partition]]
            if len(rows):
                some = map(good.__getitem__, rows.tolist())
                records.append(self._records(partition, some, offsets[rows]))
        self._had.update(part.partition for part in records)
        return records

    def _pass_ends(self) -> list[Records]:
        """Return no records, but the ends that lie behind those that came.

        The numbers between are of what ended transactions. Once the topic has dropped them, a graph
        that has not passed them would seem to have missed messages. Where none has come yet, cuts
        begin at the first one, and not at an end that others may not see.
        """
        records = []
        for partition in sorted((self._at_end & self._had) - self._paused):
            ended = self._end_reached(partition)
            if ended is not None and ended > self._next[partition]:
                self._next[partition] = ended
                records.append(self._no_records(partition, ended))
        self._at_end.clear()
        return records

    def _no_records(self, partition: int, following: int) -> Records:
        """Return no records, but the number of the message to go on with."""
        return self.schema.decode(partition, following, [], np.empty(0, np.int64))

    def acknowledge(self, offsets: Mapping[int, int]) -> None:
        """Take note that what was handed over is in the graph."""
        self._in_hand = False

    def _without_errors(self, messages: list[Any]) -> list[Any]:
        """Return the messages that can be handed over, and judge those that are errors."""
        from confluent_kafka import Message

        # Python's own loops would take as long as all the rest: map() calls without them.
        errors = list(map(Message.error, messages))
        is_good = set(map(type, errors)) == {type(None)}  # an error cannot be compared with None
        if is_good and not self._broken:
            return messages
        good = []
        for message, error in zip(messages, errors, strict=True):
            if message.partition() in self._broken:
                continue  # it came behind what is not understood yet
            if error is None:
                good.append(message)
            else:
                self._judge_message(message, error)
        return good

    def _records(
        self, partition: int, messages: Iterable[Any], offsets: NDArray[np.int64]
    ) -> Records:
        from confluent_kafka import Message

        following = self._next[partition] = int(offsets[-1]) + 1
        payloads: list[Any] = list(map(Message.value, messages))
        if None in payloads:  # tombstones, which say that there is nothing any more
            kept = [row for row, payload in enumerate(payloads) if payload is not None]
            payloads, offsets = [payloads[row] for row in kept], offsets[kept]
        return self.schema.decode(partition, following, payloads, offsets)

    def pause(self, partitions: Iterable[int]) -> None:
        """Fetch nothing of these partitions."""
        from confluent_kafka import TopicPartition

        paused = frozenset(partitions) & frozenset(self._next)
        for change, which in (
            (self._consumer.pause, paused - self._paused),
            (self._consumer.resume, self._paused - paused),
        ):
            if which:
                change([TopicPartition(self.topic, partition) for partition in sorted(which)])
        self._paused = paused

    def lag(self) -> dict[int, int]:
        """Return the number of messages of each partition that were not read yet."""
        lags = {}
        for partition, place in self._next.items():
            # As of the last fetch: to ask would wait behind the fetch that waits for more.
            end = self._range(partition, cached=True)[1]
            ended = self._end_reached(partition)
            lags[partition] = max(1, end - place) if ended is None else max(0, end - ended)
        return lags

    def ended(self) -> set[int]:
        """Return the partitions that will give nothing any more, as their ends were reached."""
        if not self._stops:
            return set()
        return {p for p in self._next if self._end_reached(p) is not None}

    def _end_reached(self, partition: int) -> int | None:
        """Return where a partition ended behind all that was read; None: messages may be left.

        It may end behind the next number: that a transaction was committed has a number, too.
        """
        if partition in self._broken:
            return None
        place, ended = self._next[partition], self._ends.get(partition, -1)
        return ended if ended >= place >= self._dropped.get(partition, 0) else None

    def mark(self, partition: int, offset: int) -> int | None:
        """Return a number of the topic, which no other one has in any cluster."""
        return number_of(f"{self._cluster} {self.topic}".encode()) if self._cluster else None

    def close(self) -> None:
        """Leave the brokers."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    # ---- partitions --------------------------------------------------------------------------

    def _find_partitions(self, timeout: float) -> set[int]:
        """Return the partitions that the topic has."""
        from confluent_kafka import KafkaError, KafkaException

        until = time.monotonic() + timeout
        while True:
            left = until - time.monotonic()
            try:
                answer = self._consumer.list_topics(self.topic, timeout=max(left, 0.1))
            except KafkaException as error:
                self._consumer.poll(0)  # lets librdkafka tell more
                why = self._error if self._error is not None else error.args[0]
                raise self._failed(f"no broker answers: {_text(why)}") from None
            topic, self._cluster = answer.topics[self.topic], answer.cluster_id
            if topic.error is None and topic.partitions:
                return set(topic.partitions)
            unknown = topic.error is not None and topic.error.code() in (
                KafkaError.UNKNOWN_TOPIC_OR_PART,
                KafkaError.LEADER_NOT_AVAILABLE,
            )
            if topic.error is not None and not unknown:
                raise self._failed(_text(topic.error))
            if left <= 0 or topic.error is None or left < timeout - 2:
                raise self._failed("there is no such topic")
            time.sleep(0.1)  # it may have been made just now

    def _assign(
        self, partitions: Iterable[int], offsets: Mapping[int, int], *, are_new: bool = False
    ) -> None:
        """Begin to read partitions where the graph goes on; new ones only if they answer."""
        from confluent_kafka import KafkaException, TopicPartition

        added = []
        for partition in sorted(partitions):
            try:
                first, end = self._range(partition, timeout=_LOOK if are_new else None)
            except KafkaException as error:
                if are_new:
                    continue  # its leader is not there yet: there will be another look
                raise self._failed(f"partition {partition}: {_text(error)}") from None
            place = offsets.get(partition, first if self._start == "earliest" else end)
            if place < first:
                place = self._pass_gap(partition, place, first)
            self._next[partition] = place
            if partition not in offsets and self._start == "latest":
                self._began[partition] = place
            added.append(TopicPartition(self.topic, partition, place))
        if added:
            self._consumer.incremental_assign(added)
        self._refreshed = time.monotonic()

    def _refresh(self) -> None:
        """Look for partitions that were added to the topic."""
        from confluent_kafka import KafkaException

        now = time.monotonic()
        if self._wanted is not None or self.stalled or now - self._refreshed < _REFRESH:
            return
        self._refreshed = now
        try:
            topics = self._consumer.list_topics(self.topic, timeout=1.0).topics
        except KafkaException:
            return  # there will be another look
        new = set(topics[self.topic].partitions) - set(self._next)
        if new:  # none of their messages has been had
            self._assign(new, dict.fromkeys(new, 0), are_new=True)

    def _look_again(self) -> None:
        """Ask the brokers, now and then, whether they are there again: with nothing new to read."""
        from confluent_kafka import OFFSET_END, KafkaException, TopicPartition

        now = time.monotonic()
        if now - self._looked < _LOOK:
            return
        self._looked = now
        ends = [TopicPartition(self.topic, partition, OFFSET_END) for partition in self._next]
        try:
            # All leaders at once: each may wait behind the fetch that waits for more.
            answers = self._consumer.offsets_for_times(ends, timeout=_LOOK)
        except KafkaException:
            return  # there will be another look
        if all(answer.error is None for answer in answers):
            self._note_reading()

    def _range(
        self, partition: int, *, cached: bool = False, timeout: float | None = None
    ) -> tuple[int, int]:
        from confluent_kafka import TopicPartition

        place = TopicPartition(self.topic, partition)
        watermarks = self._consumer.get_watermark_offsets(
            place, timeout=self._timeout if timeout is None else timeout, cached=cached
        )
        first, end = watermarks if watermarks is not None else (0, 0)
        return int(first), int(end)

    def _restart(self, partition: int) -> None:
        """Read a partition from its next message on, after librdkafka has stopped reading it."""
        from confluent_kafka import KafkaException, TopicPartition

        place = TopicPartition(self.topic, partition, self._next[partition])
        try:
            # To seek is refused for a partition that is not being read.
            self._consumer.incremental_unassign([place])
            self._consumer.incremental_assign([place])
            if partition in self._paused:
                self._consumer.pause([place])
        except KafkaException as error:
            raise self._failed(f"partition {partition}: {_text(error)}") from None

    def _pass_gap(self, partition: int, place: int, first: int) -> int:
        """Go on with the first message that is there, or refuse to."""
        if self._on_gap == "error":
            raise self._failed(
                f"partition {partition}: the messages {place}..{first - 1} are gone, which the "
                "graph has not had; on_gap='earliest' goes on without them"
            )
        self.gaps[partition] = self.gaps.get(partition, 0) + first - place
        return first

    # ---- errors ------------------------------------------------------------------------------

    def _failed(self, why: str) -> SourceError:
        return SourceError(None, f"topic {self.topic!r} at {self.bootstrap}: {why}")

    def _note_error(self, error: Any) -> None:
        from confluent_kafka import KafkaError

        # That all are down says less than why one is.
        if self._error is None or error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._error = error

    def _judge(self, error: Any) -> None:
        """Raise an error that does not go away by itself; else note why nothing comes."""
        from confluent_kafka import KafkaError

        # A user who is refused may be let in again: brokers that start know none for a moment, and
        # a token that could not be renewed is asked for again.
        lasting = (
            KafkaError.UNKNOWN_TOPIC_OR_PART,
            KafkaError._UNKNOWN_TOPIC,
            KafkaError._UNKNOWN_PARTITION,
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
        )
        if error.fatal() or error.code() in lasting:
            raise self._failed(_text(error))
        self.stalled = _text(error)

    def _judge_message(self, message: Any, error: Any) -> None:
        from confluent_kafka import KafkaError

        breaking = (
            KafkaError._AUTO_OFFSET_RESET,
            KafkaError.OFFSET_OUT_OF_RANGE,
            KafkaError._BAD_MSG,
            KafkaError._NOT_IMPLEMENTED,
        )
        if error.code() == KafkaError._PARTITION_EOF:
            self._ends[message.partition()] = message.offset()
            self._at_end.add(message.partition())
            self._note_reading()
        elif error.code() in breaking and message.partition() in self._next:
            self._broken[message.partition()] = error
        elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # the group has no say
            self._judge(error)
            self._looked = time.monotonic()  # what comes again and again is not over

    def _note_reading(self) -> None:
        """Note that brokers answer."""
        self._error = None
        if not self._broken:
            self.stalled = None

    def _mend_broken(self) -> None:
        """Go on with the partitions that are not read on, or raise what is wrong with them.

        What came before is to be in the graph first: with an error nothing is committed any more.
        """
        from confluent_kafka import KafkaException

        if not self._broken or self._in_hand or time.monotonic() - self._asked < _LOOK:
            return
        for partition, error in sorted(self._broken.items()):
            self._refuse_lost(partition, error)
            try:
                first, end = self._range(partition)
            except KafkaException as problem:
                self._judge(problem.args[0])  # its leader is away: there will be another look
                self._asked = time.monotonic()
                return
            place = self._next[partition]
            if place > end:
                raise self._failed(
                    f"partition {partition} ends at offset {end}, but {place} was to come: was the "
                    "topic made anew?"
                )
            if place < first:
                self._next[partition] = self._pass_gap(partition, place, first)
            self._restart(partition)
            del self._broken[partition]

    def _refuse_lost(self, partition: int, error: Any) -> None:
        """Raise an error behind which reading goes on without messages that are in the topic."""
        from confluent_kafka import KafkaError

        place = self._next[partition]
        if error.code() in (KafkaError._BAD_MSG, KafkaError._NOT_IMPLEMENTED):
            raise self._failed(
                f"partition {partition}, at offset {place} or behind it: {_text(error)}; "
                f"graph.set_offset({self.name!r}, {partition}, n) lets the graph go on at offset n"
            )
        if "truncation" in error.str().lower():  # which has no code of its own
            raise self._failed(
                f"partition {partition}: {_text(error)}; messages that the graph has had are not "
                "in the topic any more, and others may have their offsets: make the graph anew, or "
                f"run this again to go on at offset {place} without them"
            )


def _as_partitions(partitions: Any) -> set[int]:
    """Return numbers of partitions; at least one."""
    if isinstance(partitions, str | bytes) or not isinstance(partitions, Iterable):
        raise InvalidArgumentError(
            f"partitions = {shown(partitions)} is no list of partitions: give partitions=[0], or "
            "None for all there are"
        )
    numbers = as_list(partitions, "partitions", "numbers", most=_MOST_PARTITIONS)
    chosen = {as_count(number, f"partitions[{at}]") for at, number in enumerate(numbers)}
    if not chosen:
        raise InvalidArgumentError(
            "partitions = [] leaves nothing to read: give some, or None for all there are"
        )
    return chosen


def _text(error: Any) -> str:
    """Return what an error of librdkafka says."""
    cause = error.args[0] if isinstance(error, Exception) and error.args else error
    if hasattr(cause, "str"):
        return f"{cause.str()} ({cause.name()})"
    return str(cause)
