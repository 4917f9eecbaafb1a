"""Ingestor: takes records from a source into a live graph, each of them once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph._checks.arrays import as_count, as_integer
from aethergraph._checks.options import as_choice, as_flag, as_text, is_name, shown
from aethergraph._tracepoints import made
from aethergraph.dynamic.live import LiveGraph
from aethergraph.dynamic.watermarks import WATERMARK, cap_times, is_kept, packed, times_of, unpacked
from aethergraph.errors import (
    ClosedError,
    InvalidArgumentError,
    OutOfMemoryError,
    RecordError,
    SnapshotExpiredError,
    SourceError,
)
from aethergraph.streaming.arguments import as_bound, as_seconds, as_span
from aethergraph.streaming.changes import Changes, Target
from aethergraph.streaming.cuts import Cuts
from aethergraph.streaming.dead_letter import DeadLetters
from aethergraph.streaming.event_time import EventTime
from aethergraph.streaming.records import BadRecord, IdMap, Records, Source

__all__ = ["IngestStats", "Ingestor"]

#: Seconds that a poll waits for while nothing is pending.
_POLL = 0.1
#: Seconds between two questions how much there is still to read.
_LAG_EVERY = 0.5
#: A share of bad records is one of at least so many.
_LEAST = 1000
#: So many bad records before the first good one: the schema is another one.
_HOPELESS = 20
#: Where other threads are to have their turn: most records that are taken in one, and the seconds
#: between two. A thread that waits for Python has it only if this one really sleeps.
_TURN, _PAUSE = 1000, 1e-4
#: Seconds to wait for memory, at first and at most.
_WAITS = 0.02, 1.0


@dataclass
class IngestStats:
    """Numbers of an :class:`Ingestor` since it began.

    Attributes:
        state: ``"new"``, ``"running"``, ``"stalled"`` (the other end cannot be reached), ``"full"``
            (waits for memory in the graph), ``"ended"``, ``"stopped"`` or ``"failed"``.
        reason: why it is stalled, full or failed; or which partitions a cut waits for.
        records: records that were read.
        edges: edges that were inserted.
        deleted: edges that were deleted.
        rows: rows of nodes that were changed.
        nodes: nodes that were added.
        bad: records that went to the dead letter file because they could not be read.
        late: records that were older than the watermark.
        commits: commits.
        commit_seconds: seconds that commits took.
        lag: records that were not read yet, by partition, for sources that tell.
        watermark: time that no record is expected to be older than.
        largest: largest time of a record.
    """

    state: str = "new"
    reason: str | None = None
    records: int = 0
    edges: int = 0
    deleted: int = 0
    rows: int = 0
    nodes: int = 0
    bad: int = 0
    late: int = 0
    commits: int = 0
    commit_seconds: float = 0.0
    lag: dict[int, int] = field(default_factory=dict)
    watermark: int | None = None
    largest: int | None = None


@dataclass
class _Pending:
    """Content of the next commit."""

    changes: list[Changes] = field(default_factory=list)
    offsets: dict[int, int] = field(default_factory=dict)
    bad: list[tuple[int, BadRecord]] = field(default_factory=list)
    #: Largest time by partition, None where a partition gave none.
    largest: dict[int, int | None] = field(default_factory=dict)
    records: int = 0
    unread: int = 0
    late: int = 0
    since: float = 0.0


class Ingestor:
    """Takes records from a source into a live graph, while others train on it.

    ::

        source = KafkaSource("edges", "localhost:9092", Schema.json(src="user", dst="post"))
        with Ingestor(graph, source, dead_letter="bad.jsonl"):
            train(graph)                        # a thread ingests meanwhile

        Ingestor(graph, source).run()           # in this thread, until the source ends

    Each commit has the edges of some records and the offsets behind them. So every record is in
    the graph once, however often the process is killed: the next ingestor of that source goes on
    with what the graph has. Several ingestors of other sources may share a graph.

    Args:
        graph: the graph, which this process writes.
        source: where records come from.
        batch: records after which a commit is made.
        linger: time after which it is made with fewer: ``"5ms"``, ``"1s"``, or seconds.
        dead_letter: file for records that cannot be read or do not fit the graph. None: the first
            such record ends it, before the commit.
        max_bad: most records that may go there: a number, or a share such as ``"1%"``. Above it
            the ingestor ends, before the commit. It also ends if the first records are all bad.
        late: what becomes of a record that is older than the watermark: ``"insert"``: it goes to
            its place in time; or ``"dead_letter"``.
        lateness: how much older than the newest of its partition a record may be, without being
            late: a number of the graph's unit of time, or a time such as ``"5s"``.
        idle: time after which a partition that gives nothing does not hold the watermark back.
        max_skew: how far a partition may be ahead of the slowest before it is paused, as
            ``lateness``; None: as far as it wants.
        new_nodes: most nodes that a commit may add for ids that the graph does not have; their
            rows are zeros. 0: such records are bad.
        id_map: numbers of nodes by the ids in the records; by node type for a typed graph. Nodes
            are added as it gives numbers. A graph whose nodes have keys (``ids=``) needs none.
        cut: make a commit where every partition has come to a multiple of this many offsets, and
            nowhere else: then all ingestors of the stream make the same commits, whatever comes
            when. ``batch`` and ``linger`` play no part. The graph waits for the slowest partition.
            None: commits as records come.
        keep: with ``cut``, keep the commits from the one that :meth:`snapshot` was last asked for
            up to this many behind it, and wait before there are more; 0: keep none.
        gives_way: let other threads of this process have their turn at Python often, while
            :meth:`start` ingests in a thread: training beside it waits less, and the most that
            the ingestor could take in is less, too. False where nothing else is to be fast.

    Raises:
        InvalidArgumentError: an argument is invalid, or the schema does not fit the graph.
    """

    def __init__(
        self,
        graph: LiveGraph,
        source: Source,
        *,
        batch: int = 10_000,
        linger: str | float = "5ms",
        dead_letter: str | Path | None = None,
        max_bad: int | str = "1%",
        late: Literal["insert", "dead_letter"] = "insert",
        lateness: int | str | timedelta = 0,
        idle: str | float = "30s",
        max_skew: int | str | timedelta | None = None,
        new_nodes: int = 0,
        id_map: IdMap | Mapping[str, IdMap] | None = None,
        cut: int | None = None,
        keep: int = 0,
        gives_way: bool = True,
    ) -> None:
        self._target = Target(graph, new_nodes, id_map)
        self.graph, self.source = graph, source
        name = as_text(getattr(source, "name", None), "source.name")
        if name is None or not is_name(name) or not callable(getattr(source, "poll", None)):
            raise InvalidArgumentError(
                f"source must be a Source with a name, got {type(source).__name__}"
            )
        self._name = name
        self._batch = as_count(batch, "batch")
        if not self._batch:
            raise InvalidArgumentError("batch = 0: commits have one record at least")
        self._linger = as_seconds(linger, "linger")
        self._dead_letter = dead_letter
        self._most_bad, self._bad_share = as_bound(max_bad)
        self._late = as_choice(late, ("insert", "dead_letter"), "late")
        if self._late == "dead_letter" and dead_letter is None:
            raise InvalidArgumentError("late='dead_letter' needs dead_letter=, a file")
        unit = self._target.time_unit
        self._times = EventTime(
            as_span(lateness, unit, "lateness"),
            as_seconds(idle, "idle"),
            None if max_skew is None else as_span(max_skew, unit, "max_skew"),
        )
        self._cut = None if cut is None else as_count(cut, "cut")
        self._keep = as_count(keep, "keep")
        self._check_cut(source, max_skew)
        check = getattr(source, "check", None)
        if check is not None:
            try:
                check(self._target)
            except InvalidArgumentError as error:
                raise InvalidArgumentError(f"{self._name}: {error}") from None
        self._letters: DeadLetters | None = None
        self._pending = _Pending()
        self._stats = IngestStats()
        self._watermark: int | None = None
        #: Records of this source have fitted the graph before.
        self._trusted = False
        self._paused: frozenset[int] = frozenset()
        self._lag: dict[int, int] = {}
        self._lag_at = 0.0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._gives_way, self._pauses = as_flag(gives_way, "gives_way"), 0.0
        self._quiet = threading.Condition()
        self._rounds = 0
        self._cuts: Cuts | None = None
        self._reached: dict[int, int] = {}
        #: Offsets and snapshots of the commits that are kept, oldest first.
        self._kept: list[tuple[dict[int, int], Any]] = []
        self._marks: dict[int, int] = {}
        #: Number behind the last record that came, by partition.
        self._behind: dict[int, int] = {}
        #: Error that ended it.
        self.failure: BaseException | None = None
        made(self)

    def _check_cut(self, source: Source, max_skew: Any) -> None:
        if self._cut is None:
            if self._keep:
                raise InvalidArgumentError(f"keep = {self._keep} goes with cut=")
            return
        if not self._cut:
            raise InvalidArgumentError("cut = 0: a cut is at a multiple of 1 offset at least")
        for option, given in (
            ("late='dead_letter'", self._late != "insert"),
            ("max_skew", max_skew is not None),
        ):
            if given:
                raise InvalidArgumentError(
                    f"{option} depends on when records come, which differs from machine to "
                    "machine: leave it out with cut="
                )
        if getattr(source, "counts_bytes", False):
            raise InvalidArgumentError(
                "cut= needs records that are numbered one by one, and those of this file are by "
                "bytes: take them from Kafka, or from Parquet or Arrow"
            )
        if not callable(getattr(source, "lag", None)):
            raise InvalidArgumentError(
                "cut= needs a source with lag(), which tells the partitions that there are"
            )

    # ---- running -----------------------------------------------------------------------------

    def start(self) -> Ingestor:
        """Begin in a thread of its own; return the ingestor.

        What can fail at the beginning fails here: a source that cannot be reached, for instance.
        """
        self._open()
        if self._gives_way:
            self._pauses = _PAUSE
            at_once = getattr(self.source, "at_once", None)
            if at_once is not None:
                self.source.at_once = min(at_once, _TURN)  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._run_in_thread, name=f"ingest {self._name}")
        self._thread.daemon = True
        self._thread.start()
        return self

    def run(self) -> IngestStats:
        """Ingest in this thread until the source ends or :meth:`stop` is called.

        Returns:
            The numbers.

        Raises:
            RecordError: a record is bad and there is no dead letter file, or there are too many.
            SourceError: the source cannot be reached, or has lost records.
        """
        self._open()
        self._loop()
        return self.stats()

    def stop(self) -> None:
        """End after the commit of what was read; raise the error that ended it before, if any."""
        self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self.check()

    def check(self) -> None:
        """Raise the error that ended the thread, if there was one."""
        if self.failure is not None:
            raise self.failure

    def drain(self, timeout: float | None = None) -> None:
        """Wait until all records that are there now are in the graph.

        Raises:
            TimeoutError: they are not after ``timeout`` seconds; says why.
        """
        until = None if timeout is None else time.monotonic() + timeout
        with self._quiet:
            first = self._rounds
            while self._rounds < first + 2 and self._stats.state not in ("ended", "stopped"):
                self.check()
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    why = f", {self._stats.reason}" if self._stats.reason else ""
                    raise TimeoutError(
                        f"{self._name}: records are left after {timeout} s "
                        f"({self._stats.state}{why})"
                    )
                self._quiet.wait(0.1 if left is None else min(left, 0.1))
        self.check()

    def __enter__(self) -> Ingestor:
        return self.start()

    def __exit__(self, kind: Any, *_: object) -> None:
        try:
            self.stop()
        except BaseException:
            if kind is None:  # else the error of the block is the one to be seen
                raise

    # ---- what is going on --------------------------------------------------------------------

    def stats(self) -> IngestStats:
        """Return the numbers as of now."""
        return replace(self._stats, lag=dict(self._lag), watermark=self.watermark)

    @property
    def watermark(self) -> int | None:
        """Time that no record is expected to be older than, in the graph's unit; None: unknown."""
        return self._watermark

    @property
    def offsets(self) -> dict[int, int]:
        """Number of the next record by partition, as of the last commit."""
        return dict(self._reached)

    def snapshot(self, at: Mapping[int, int], timeout: float | None = None) -> Any:
        """Take a snapshot of the commit that was cut at some offsets; needs ``keep=``.

        For training on many machines. Each ingests the same stream with the same ``cut``; they
        agree on the least of their :attr:`offsets`, which all of them still have, and the snapshots
        are equal::

            found = [None] * world_size
            torch.distributed.all_gather_object(found, ingestor.offsets)
            least = min(found, key=lambda offsets: sum(offsets.values()))
            with ingestor.snapshot(least) as now: ...

        Commits before it are let go. It waits until the cut is reached.

        Args:
            at: number of the next record by partition, :attr:`offsets` of some ingestor.
            timeout: seconds to wait; None: as long as it takes.

        Raises:
            InvalidArgumentError: no cut is at these offsets.
            SnapshotExpiredError: a later one was asked for before.
            TimeoutError: the cut was not reached in time; says what it waits for.
        """
        if not self._keep:
            raise InvalidArgumentError("keep = 0 keeps no commits: Ingestor(..., cut=, keep=4)")
        if not isinstance(at, Mapping):
            raise InvalidArgumentError(
                f"at goes by partition, {{0: 2000, 1: 2000}}, got {type(at).__name__}"
            )
        wanted = {as_integer(part, "at"): as_count(offset, "at") for part, offset in at.items()}
        place, until = sum(wanted.values()), None if timeout is None else time.monotonic() + timeout
        with self._quiet:
            while not self._kept or sum(self._kept[-1][0].values()) < place:
                self.check()
                left = None if until is None else until - time.monotonic()
                if self._stats.state in ("ended", "stopped") or (left is not None and left <= 0):
                    raise TimeoutError(
                        f"{self._name}: the cut at {wanted} was not reached, but {self._reached} "
                        f"({self._stats.state}, {self._stats.reason})"
                    )
                self._quiet.wait(0.1 if left is None else min(left, 0.1))
            oldest = self._kept[0][0]
            if place < sum(oldest.values()):
                raise SnapshotExpiredError(
                    f"{self._name}: the commit at {wanted} is kept no longer, those from {oldest} "
                    "on are"
                )
            for number, (offsets, kept) in enumerate(self._kept):
                if offsets == wanted:
                    del self._kept[:number]
                    self._quiet.notify_all()
                    return type(kept)(self.graph.store, kept.native_snapshot)
        raise InvalidArgumentError(f"{self._name}: no cut is at {wanted}, but at {oldest}")

    def cap(self, times: ArrayLike) -> NDArray[Any]:
        """Return times of seeds, none of them beyond the watermark.

        Batches with such times see no edge that others may still come before.

        Raises:
            InvalidArgumentError: there is no watermark yet.
        """
        return cap_times(times, self.watermark, self._target.time_unit)

    # ---- the loop ----------------------------------------------------------------------------

    def _open(self) -> None:
        if self._stats.state != "new" or self._stopping.is_set():
            raise ClosedError("an ingestor runs once: make another one")
        self.graph.store.begin_stream(self._name, self)
        offsets = self.graph.offsets(self._name)
        self._behind = dict(offsets)
        self._trusted = bool(offsets)
        saved = {p: unpacked(n) for p, n in self.graph.offsets(times_of(self._name)).items()}
        watermark = saved.pop(WATERMARK, None)
        self._times.restore(saved, watermark)
        self._watermark = watermark
        try:
            if self._dead_letter is not None:
                self._letters = DeadLetters(self._dead_letter, self._name, offsets)
            check = getattr(self.source, "check_marks", None)
            if check is not None:
                check(self.graph.offsets(_marks_of(self._name)))
            self.source.open(offsets)
            self._ask_lag(force=True)
            if self._cut is not None:
                self._cuts = Cuts(self._cut, self._name, offsets)
        except BaseException as error:
            self._fail(error)
            self.graph.store.end_stream(self._name, self)
            self.source.close()
            raise
        self._note_commit()
        self._stats.state = "running"

    def _note_commit(self) -> None:
        """Note where the graph is, and keep it if that is asked for."""
        with self._quiet:
            self._reached = self.graph.offsets(self._name)
            if self._keep:
                self._kept.append((dict(self._reached), self.graph.snapshot()))
            self._quiet.notify_all()

    def _run_in_thread(self) -> None:
        with suppress(BaseException):  # kept in .failure
            self._loop()

    def _loop(self) -> None:
        try:
            ended = False
            while not ended and not self._stopping.is_set():
                ended = self._step()
            if self._cuts is None:
                self._commit()
            self._stats.state = "ended" if ended else "stopped"
        except BaseException as error:
            self._fail(error)
            raise
        finally:
            with suppress(ClosedError):
                self.graph.store.end_stream(self._name, self)
            self.source.close()
            if self._letters is not None:
                self._letters.close()
            with self._quiet:
                self._quiet.notify_all()

    def _fail(self, error: BaseException) -> None:
        self.failure = error
        self._stats.state, self._stats.reason = "failed", str(error)

    def _step(self) -> bool:
        """Read, and commit if it is time to; return whether the source has ended."""
        pending = self._pending
        now = time.monotonic()
        wait = max(0.0, pending.since + self._linger - now) if pending.records else _POLL
        found = self._read(self.source.poll(wait))
        if found and self._pauses:
            time.sleep(self._pauses)
        for one in found or ():
            self._take(one) if self._cuts is None else self._cuts.add(one)
        self._note_stalled()
        due = time.monotonic() - pending.since >= self._linger
        full = pending.records >= self._batch or due or found is None
        if pending.offsets and full and self._cuts is None:
            self._commit(last=found is None)
        self._ask_lag(force=not found)
        if self._cuts is not None:
            self._make_cuts(self._cuts, last=found is None)
        self._pause()
        if not found and not self._pending.offsets and self._is_quiet():
            with self._quiet:
                self._rounds += 1
                self._quiet.notify_all()
        return found is None

    def _read(self, found: Any) -> Sequence[Records] | None:
        """Return what a source gave, checked: each partition goes on behind what it gave before."""
        if found is None:
            return None
        if isinstance(found, Records) or not all(isinstance(one, Records) for one in found):
            raise InvalidArgumentError(
                f"{self._name}: poll() gave {shown(found)}, where it must give a list of Records"
            )
        for one in found:
            before, offsets = self._behind.get(one.partition, 0), one.offsets
            first = one.following
            if offsets is not None and len(offsets):
                first = min(first, int(offsets[0]))
            if one.bad:
                first = min(first, one.bad[0].offset)
            if first < before:
                raise SourceError(
                    None,
                    f"{self._place(one.partition)}: record {first} came after those up to "
                    f"{before - 1}: the offsets of a partition must grow",
                )
            self._behind[one.partition] = one.following
        return list(found)

    def _is_quiet(self) -> bool:
        """Return whether nothing is left that could be committed now."""
        if self._cuts is None:
            return not any(self._lag.values())
        waiting = self._cuts.missing
        return not waiting or any(not self._lag.get(partition, 0) for partition in waiting)

    def _make_cuts(self, cuts: Cuts, *, last: bool) -> None:
        """Commit the rounds that are complete; at the end of the source all that there is."""
        ended = getattr(self.source, "ended", None)
        cuts.expect(self._lag, () if ended is None else ended())
        while cuts.is_complete or (last and cuts.has_any):
            if len(self._kept) > self._keep > 0 and not last:
                self._stats.reason = "waits until snapshot(at=) is asked for a later commit"
                return
            records, offsets = cuts.take()
            for one in records:
                self._take(one)
            self._pending.offsets.update(offsets)
            self._commit(last=last and not cuts.has_any)
        if cuts.missing and self._stats.state == "running":
            wanted = {partition: cuts.wanted(partition) for partition in cuts.missing}
            self._stats.reason = f"waits for partitions to come to offsets: {wanted}"

    def _note_stalled(self) -> None:
        why = getattr(self.source, "stalled", None)
        self._stats.state, self._stats.reason = ("stalled", why) if why else ("running", None)

    def _ask_lag(self, *, force: bool) -> None:
        ask = getattr(self.source, "lag", None)
        now = time.monotonic()
        if ask is None or (not force and now - self._lag_at < _LAG_EVERY):
            return
        self._lag, self._lag_at = dict(ask()), now
        for partition, left in self._lag.items():
            if left > 0:
                self._times.expect(partition)

    def _take(self, records: Records) -> None:
        """Check records, and put them with those of the next commit."""
        pending = self._pending
        try:
            changes, bad = self._target.check(records)
        except InvalidArgumentError as error:
            place = self._place(records.partition)
            if records.offsets is not None and len(records.offsets):
                place += f", offset {records.offsets[0]}"
            raise InvalidArgumentError(f"{place}: {error}") from None
        if not pending.offsets:
            pending.since = time.monotonic()
        pending.offsets[records.partition] = records.following
        pending.records += records.count + len(records.bad)
        if bad:
            self._note_bad(records.partition, bad)
        newest = [pending.largest.get(records.partition)]
        for one in changes:
            kept = self._sort_out_late(records, one)
            if len(kept):
                pending.changes.append(kept)
                if kept.event_times is not None:
                    newest.append(int(kept.event_times.max()))
        pending.largest[records.partition] = max(
            (one for one in newest if one is not None), default=None
        )

    def _note_bad(self, partition: int, bad: list[BadRecord]) -> None:
        first = bad[0]
        if self._letters is None:
            raise RecordError(
                f"{self._place(partition)}, offset {first.offset}: {first.reason}; give "
                "dead_letter= to go on without such records",
                position=first.offset,
            )
        pending, stats = self._pending, self._stats
        pending.bad += [(partition, one) for one in bad]
        pending.unread += len(bad)
        count, total = stats.bad + pending.unread, stats.records + pending.records
        most = self._most_bad
        if self._bad_share is not None:
            most = int(self._bad_share * max(total, _LEAST))
        hopeless = not self._trusted and not self._has_good() and count >= _HOPELESS
        if count > most or hopeless:
            text = f"none of the first {total} records fits" if hopeless else "too many bad records"
            raise RecordError(
                f"{text}: {count} of {total}, with max_bad = {most}; the first of the last ones is "
                f"{self._place(partition)}, offset {first.offset}: {first.reason}",
                position=first.offset,
            )

    def _has_good(self) -> bool:
        stats, pending = self._stats, self._pending
        return stats.records - stats.bad + pending.records - pending.unread > 0

    def _sort_out_late(self, records: Records, changes: Changes) -> Changes:
        """Return the changes that are to be made, and note those that are late."""
        now = self._times.watermark
        if now is None or changes.event_times is None:
            return changes
        late = changes.event_times < now
        count = int(late.sum())
        self._pending.late += count
        if not count or self._late == "insert":
            return changes
        assert changes.offsets is not None and records.offsets is not None
        for at in np.flatnonzero(late).tolist():
            offset = int(changes.offsets[at])
            payload = None
            if records.payload is not None:
                payload = records.payload(int(np.flatnonzero(records.offsets == offset)[0]))
            why = f"late: time {changes.event_times[at]} is before the watermark {now}"
            self._pending.bad.append((records.partition, BadRecord(offset, why, payload)))
        return changes.only(~late)

    def _commit(self, *, last: bool = True) -> None:
        pending, stats = self._pending, self._stats
        if not pending.offsets:
            return
        if not self._trusted and pending.records and not self._has_good():
            if not last:
                return  # perhaps the schema is another one: nothing is committed until one fits
            partition, first = pending.bad[0]
            raise RecordError(
                f"none of {pending.records} records fits; {self._place(partition)}, offset "
                f"{first.offset}: {first.reason}",
                position=first.offset,
            )
        if self._letters is not None and pending.bad:
            for partition, one in pending.bad:
                self._letters.write(partition, [one])
            self._letters.flush()
        began = time.monotonic()
        for partition, largest in pending.largest.items():
            self._times.observe(partition, largest)
        self._times.advance(self._busy())
        counts = self._write(pending)
        self._pending = _Pending()
        if counts is None:
            return
        self._note_commit()
        self._watermark = self._times.watermark
        self._trusted = True
        stats.records += pending.records
        stats.bad += pending.unread
        stats.late += pending.late
        stats.commits += 1
        stats.commit_seconds += time.monotonic() - began
        for name, number in counts.items():
            setattr(stats, name, getattr(stats, name) + number)
        stats.largest = max(self._times.largest.values(), default=None)
        acknowledge = getattr(self.source, "acknowledge", None)
        if acknowledge is not None:
            if getattr(self.source, "needs_disk", False):
                self.graph.flush()
            acknowledge(dict(pending.offsets))

    def _write(self, pending: _Pending) -> dict[str, int] | None:
        """Make one commit of it, waiting for memory; return the numbers, None if it was stopped."""
        wait, most = _WAITS
        while True:
            try:
                with self.graph.transaction():
                    counts = self._target.write(pending.changes)
                    for partition, following in pending.offsets.items():
                        self.graph.set_offset(self._name, partition, following)
                        self._save_mark(partition)
                    self._save_times(pending.largest)
                return counts
            except OutOfMemoryError as error:
                if self._stats.state != "full":
                    self.source.pause(self._known())
                self._stats.state, self._stats.reason = "full", str(error)
                if self._stopping.wait(wait):
                    return None
                wait = min(2 * wait, most)
                self.graph.reclaim()
                self._paused = self._known()

    def _save_mark(self, partition: int) -> None:
        """Keep what the records of a partition are known by, where the source has that."""
        give = getattr(self.source, "mark", None)
        found = None if give is None else give(partition)
        if found is not None and self._marks.get(partition) != found:
            self.graph.set_offset(_marks_of(self._name), partition, found)
            self._marks[partition] = found

    def _save_times(self, partitions: Iterable[int]) -> None:
        """Keep the largest times and the watermark with the edges."""
        largest, now = self._times.largest, self._times.watermark
        for partition in partitions:
            value = largest.get(partition)
            if value is not None and is_kept(value):
                self.graph.set_offset(times_of(self._name), partition, packed(value))
        if now is not None and is_kept(now):
            self.graph.set_watermark(self._name, now)

    # ---- partitions --------------------------------------------------------------------------

    def _known(self) -> frozenset[int]:
        return frozenset(self._lag) | frozenset(self._times.largest)

    def _busy(self) -> frozenset[int]:
        return frozenset(partition for partition, left in self._lag.items() if left > 0)

    def _pause(self) -> None:
        """Pause the partitions that are too far ahead, and those only."""
        busy = self._busy()
        self._times.advance(busy)
        if not self._pending.offsets and self._times.watermark != self._watermark:
            self._watermark = self._times.watermark  # it does not wait for idle partitions
            if self._cuts is None:  # else commits are at cuts, and nowhere else
                with self.graph.transaction():
                    self._save_times(())
        read = frozenset(partition for partition, left in self._lag.items() if left == 0)
        ahead = self._times.ahead(busy, read)
        if self._cuts is not None:
            ahead |= self._cuts.full
        if ahead != self._paused:
            self.source.pause(ahead)
            self._paused = ahead

    def _place(self, partition: int) -> str:
        describe = getattr(self.source, "describe", None)
        what = f"partition {partition}" if describe is None else str(describe(partition))
        return f"{self._name}, {what}"


def _marks_of(name: str) -> str:
    """Return the name under which the graph keeps what the partitions of a source are known by."""
    return f"{name}#mark"
