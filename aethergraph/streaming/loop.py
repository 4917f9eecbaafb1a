"""Loop of an ingestor: read, check, commit, and wait where that is called for.

::

    poll() ──> _read ──> _take: fits, bad, late ──> _Pending ──full or due──> _commit: edges,
                 └──with cut=──> Cuts, till a round is complete ──┘     offsets and times at once
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.options import shown
from aethergraph._checks.times import datetime_of
from aethergraph.dynamic.live import LiveGraph
from aethergraph.dynamic.rows import HeldVersionsError
from aethergraph.dynamic.watermarks import (
    WATERMARK,
    is_kept,
    marks_of,
    packed,
    times_of,
    unpacked,
)
from aethergraph.errors import (
    AetherError,
    ClosedError,
    InvalidArgumentError,
    OutOfMemoryError,
    RecordError,
    SourceError,
)
from aethergraph.streaming.changes import Changes, Target
from aethergraph.streaming.cuts import Cuts
from aethergraph.streaming.dead_letter import DeadLetters
from aethergraph.streaming.event_time import EventTime, TimeBound, find_unit
from aethergraph.streaming.marks import EDGES, OtherStreams, edges_of
from aethergraph.streaming.records import BadRecord, Records, Source
from aethergraph.streaming.stats import IngestStats

__all__ = ["Loop"]

#: Seconds that a poll waits for while nothing is pending.
_POLL = 0.1
#: Seconds between two questions how much there is still to read.
_LAG_EVERY = 0.5
#: A share of bad records is one of at least so many.
_LEAST = 1000
#: So many bad records before the first good one: the schema is another one.
_HOPELESS = 20
#: Seconds to wait for memory, at first and at most.
_WAITS = 0.02, 1.0


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


class Loop:
    """Loop of an :class:`Ingestor` while it runs. Its options are set by the ingestor.

    Args:
        graph: the graph.
        source: where records come from.
        target: the graph, as records are written to it.
        name: name of the source.
    """

    _batch: int
    _linger: float
    _dead_letter: str | Path | None
    _most_bad: int
    _bad_share: float | None
    _late: str
    _times: EventTime
    _bound: TimeBound
    _cut: int | None
    _keep: int

    def __init__(self, graph: LiveGraph, source: Source, target: Target, name: str) -> None:
        self.graph, self.source = graph, source
        self._target, self._name = target, name
        self._letters: DeadLetters | None = None
        self._pending = _Pending()
        self._stats = IngestStats()
        self._watermark: int | None = None
        #: Records of this source have fitted the graph before.
        self._trusted = False
        self._paused: frozenset[int] = frozenset()
        self._lag: dict[int, int] = {}
        #: Partitions that will give nothing any more, as far as is known.
        self._ended: frozenset[int] = frozenset()
        self._lag_at = 0.0
        self._stopping = threading.Event()
        #: Taken for good by the thread that is to read; or by who began that, and was interrupted.
        self._claim = threading.Lock()
        self._pauses = 0.0
        self._quiet = threading.Condition()
        self._rounds = 0
        self._cuts: Cuts | None = None
        self._reached: dict[int, int] = {}
        #: Offsets and snapshots of the commits that are kept, oldest first.
        self._kept: list[tuple[dict[int, int], Any]] = []
        #: Calls that wait for a commit behind all that are kept.
        self._awaited = 0
        self._marks: dict[int, int] = {}
        #: Number behind the last record that came, by partition.
        self._behind: dict[int, int] = {}
        #: The unit of the first times has been looked at.
        self._has_unit = False
        #: Number of the edges that it makes of records, and who else makes them.
        self._edges: int | None = None
        self._others = OtherStreams({}, name, None)
        #: Error that ended it.
        self.failure: BaseException | None = None

    def _check_new(self) -> None:
        if self._stats.state != "new" or self._stopping.is_set():
            raise ClosedError("an ingestor runs once: make another one")

    def _open(self) -> None:
        """Take the stream. Whatever ends this, the caller calls :meth:`_abandon`."""
        self.graph.store.begin_stream(self._name, self)
        offsets = self.graph.offsets(self._name)
        self._behind = dict(offsets)
        self._edges = edges_of(self.source, self._target)
        self._others = OtherStreams(self.graph.store.offsets, self._name, self._edges)
        self._trusted = bool(offsets)
        saved = {p: unpacked(n) for p, n in self.graph.offsets(times_of(self._name)).items()}
        watermark = saved.pop(WATERMARK, None)
        self._times.restore(saved, watermark)
        self._watermark = watermark
        if self._dead_letter is not None:
            self._letters = DeadLetters(self._dead_letter, self._name, offsets)
        check = getattr(self.source, "check_marks", None)
        if check is not None:
            marks = self.graph.offsets(marks_of(self._name))
            marks.pop(EDGES, None)
            check(marks)
        if getattr(self.source, "needs_disk", False):
            self.graph.flush()  # those who send take what it begins with for safe
        self.source.open(offsets)
        self._ask_lag(force=True)
        if self._cut is not None:
            self._cuts = Cuts(self._cut, self._place, offsets)
        self._note_commit()
        self._stats.state = "running"

    @property
    def _has_stream(self) -> bool:
        return self.graph.store.streams.get(self._name) is self

    def _abandon(self, error: BaseException) -> None:
        """Give up a stream that this has taken, and does not read, so that others can take it."""
        if not self._has_stream:  # it is another's, or the loop has given it up already
            return
        try:
            self._fail(error)
        finally:
            self._release()

    def _release(self) -> None:
        self.graph.store.end_stream(self._name, self)
        try:
            self.source.close()
        finally:
            if self._letters is not None:
                self._letters.close()
            with self._quiet:
                self._quiet.notify_all()

    def _note_commit(self) -> None:
        """Note where the graph is, and keep it if that is asked for."""
        with self._quiet:
            self._reached = self.graph.offsets(self._name)
            if self._keep:
                self._kept.append((dict(self._reached), self.graph.snapshot()))
            self._quiet.notify_all()

    def _let_go(self) -> bool:
        """Let the oldest commit that is kept go, if somebody waits for one behind them all."""
        with self._quiet:
            if not self._awaited or len(self._kept) < 2:
                return False
            del self._kept[0]
            return True

    def _run_in_thread(self) -> None:
        with suppress(BaseException):  # kept in .failure
            if self._claim.acquire(blocking=False):
                self._loop()

    def _loop(self) -> None:
        try:
            ended = False
            while not ended and not self._stopping.is_set():
                ended = self._step()
            if self._cuts is None:
                self._commit()
            gave_up = bool(self._pending.offsets)
            self._stats.state = "stopped" if gave_up or not ended else "ended"
        except BaseException as error:
            self._fail(error)
            raise
        finally:
            self._release()

    def _fail(self, error: BaseException) -> None:
        self._stats.state, self._stats.reason = "failed", str(error)
        self.failure = error  # which others wait for, to look at the state
        tell = getattr(self.source, "failed", None)
        if tell is not None:
            tell(str(error) if isinstance(error, AetherError) else "the ingestor has failed")

    def _step(self) -> bool:
        """Read, and commit if it is time to; return whether the source has ended."""
        pending = self._pending
        now = time.monotonic()
        wait = _POLL
        if pending.records and (self._trusted or self._has_good()):
            wait = max(0.0, pending.since + self._linger - now)
        records = self._read(self.source.poll(wait))
        if records and self._pauses:
            time.sleep(self._pauses)
        for part in records or ():
            if self._cuts is None:
                self._take(part)
            else:
                self._cuts.add(part)
                self._times.observe(part.partition, None)  # it is not idle, however slow the cut is
        self._note_stalled()
        due = time.monotonic() - pending.since >= self._linger
        full = pending.records >= self._batch or due or records is None
        if pending.offsets and full and self._cuts is None:
            self._commit(last=records is None)
        self._ask_lag(force=not records)
        if self._cuts is not None:
            self._make_cuts(self._cuts, last=records is None)
        self._pause()
        if not records and not self._pending.offsets and self._is_quiet():
            with self._quiet:
                self._rounds += 1
                self._quiet.notify_all()
        return records is None

    def _read(self, answer: Any) -> Sequence[Records] | None:
        """Return what a source gave, checked: each partition goes on behind what it gave before."""
        if answer is None:
            return None
        if isinstance(answer, Records) or not all(isinstance(part, Records) for part in answer):
            raise InvalidArgumentError(
                f"{self._name}: poll() gave {shown(answer)}, where it must give a list of Records"
            )
        for part in answer:
            is_new = part.partition not in self._behind
            before, offsets = self._behind.get(part.partition, 0), part.offsets
            first = part.following
            if offsets is not None and len(offsets):
                first = min(first, int(offsets[0]))
            if part.bad:
                first = min(first, part.bad[0].offset)
            if first < before:
                raise SourceError(
                    None,
                    f"{self._place(part.partition)}: record {first} came after those up to "
                    f"{before - 1}: the offsets of a partition must grow",
                )
            self._behind[part.partition] = part.following
            if is_new:
                self._warn_of_doubles(part.partition, first)
        return list(answer)

    def _warn_of_doubles(self, partition: int, first: int) -> None:
        """Warn where a partition begins with records that another stream has made edges of."""
        place = self._others.find(self.source, partition, first)
        if place is not None:
            stream, following = place
            unit = "byte" if getattr(self.source, "counts_bytes", False) else "record"
            warnings.warn(
                f"{self._place(partition)}: the graph has had this up to {unit} {following} as the "
                f"stream {stream!r}, or what begins as it does. If it is the same, the stream "
                f"{self._name!r} reads it again, and its edges are in the graph twice: "
                f"name={stream!r} goes on behind them",
                stacklevel=2,
            )

    def _is_quiet(self) -> bool:
        """Return whether nothing is left that could be committed now."""
        if self._stats.state == "stalled":  # nobody knows what is there
            return False
        if self._cuts is None:
            return not any(self._lag.values())
        waiting = self._cuts.missing
        return not waiting or any(not self._lag.get(partition, 0) for partition in waiting)

    def _make_cuts(self, cuts: Cuts, *, last: bool) -> None:
        """Commit the rounds that are complete; at the end of the source all that there is."""
        cuts.expect(self._lag, self._ended)
        while cuts.is_complete or (last and cuts.has_any):
            if len(self._kept) > self._keep > 0 and not last and not self._let_go():
                self._stats.reason = "waits until snapshot(at=) is asked for a later commit"
                return
            records, offsets = cuts.take()
            for part in records:
                self._take(part)
            self._pending.offsets.update(offsets)
            self._commit(last=last and not cuts.has_any)
            if self._pending.offsets and self._stopping.is_set():
                return  # given up: what is behind it must not be committed without it
        if cuts.missing and self._stats.state == "running":
            awaited = {partition: cuts.wanted(partition) for partition in cuts.missing}
            self._stats.reason = f"waits for partitions to come to offsets: {awaited}"

    def _note_stalled(self) -> None:
        why = getattr(self.source, "stalled", None)
        self._stats.state, self._stats.reason = ("stalled", why) if why else ("running", None)

    def _ask_lag(self, *, force: bool) -> None:
        now = time.monotonic()
        if not force and now - self._lag_at < _LAG_EVERY:
            return
        self._lag_at = now
        ask, ended = getattr(self.source, "lag", dict), getattr(self.source, "ended", frozenset)
        self._lag, self._ended = dict(ask()), frozenset(ended())
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
        changes, wrong = self._sort_out_wrong_times(records, changes)
        if wrong:
            bad = sorted((*bad, *wrong), key=lambda record: record.offset)
        if changes and not self._trusted and not self._has_unit:
            self._has_unit = True
            self._warn_of_unit(records)
        if not pending.offsets:
            pending.since = time.monotonic()
        pending.offsets[records.partition] = records.following
        pending.records += records.count + len(records.bad)
        if bad:
            self._note_bad(records.partition, bad)
        newest = [pending.largest.get(records.partition)]
        for change in changes:
            kept = self._sort_out_late(records, change)
            if len(kept):
                pending.changes.append(kept)
                newest.append(kept.newest)
        pending.largest[records.partition] = max(
            (largest for largest in newest if largest is not None), default=None
        )

    def _warn_of_unit(self, records: Records) -> None:
        """Warn where integers are times of January 1970, and of our days in a coarser unit."""
        counts = np.asarray(records.given.get("time", records.columns.get("time")))
        declared = records.time_unit or self._stats.time_unit
        if declared is None or counts.dtype.kind not in "iu" or "node" in records.columns:
            return
        unit = find_unit(counts, declared)
        if unit is not None:
            first = int(counts[0])
            warnings.warn(
                f"{self._place(records.partition)}: {records.fields.get('time', 'time')} (time) = "
                f"{first} is {datetime_of(first, declared)} in {declared!r}; in {unit!r} it is "
                f"{datetime_of(first, unit)}: if that is meant, give the schema "
                f'time_unit="{unit}", and make the graph anew',
                stacklevel=2,
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
        pending.bad += [(partition, record) for record in bad]
        pending.unread += len(bad)
        count, total = stats.bad + pending.unread, stats.records + pending.records
        limit = self._most_bad
        if self._bad_share is not None:
            limit = int(self._bad_share * max(total, _LEAST))
        hopeless = not self._trusted and not self._has_good() and count >= _HOPELESS
        if count > limit or hopeless:
            text = f"none of the first {total} records fits" if hopeless else "too many bad records"
            raise RecordError(
                f"{text}: {count} of {total}, with max_bad = {limit}; the first of the last ones "
                f"is {self._place(partition)}, offset {first.offset}: {first.reason}",
                position=first.offset,
            )

    def _has_good(self) -> bool:
        stats, pending = self._stats, self._pending
        return stats.records - stats.bad + pending.records - pending.unread > 0

    def _sort_out_wrong_times(
        self, records: Records, changes: list[Changes]
    ) -> tuple[list[Changes], list[BadRecord]]:
        """Return the changes whose times can be true, and the records of the others."""
        limit = self._bound.limit()
        if limit is None:
            return changes, []
        kept, bad = [], []
        name = records.fields.get("time", "time")
        label = "time" if name == "time" else f"{name} (time)"
        for change in changes:
            newest = change.newest
            if newest is not None and newest > limit:
                wrong = change.where_time(lambda times: times > limit)
                bad += _letters(records, change, wrong, lambda at: f"{label} {self._bound.why(at)}")
                change = change.only(~wrong)
            if len(change):
                kept.append(change)
        return kept, bad

    def _sort_out_late(self, records: Records, changes: Changes) -> Changes:
        """Return the changes that are to be made, and note those that are late."""
        now = self._times.watermark
        if now is None or changes.event_times is None:
            return changes
        late = changes.where_time(lambda times: times < now)
        count = int(late.sum())
        self._pending.late += count
        if not count or self._late == "insert":
            return changes
        bad = _letters(
            records, changes, late, lambda at: f"late: time {at} is before the watermark {now}"
        )
        self._pending.bad += [(records.partition, record) for record in bad]
        return changes.only(~late)

    def _commit(self, *, last: bool = True) -> None:
        pending, stats = self._pending, self._stats
        if not pending.offsets:
            return
        if not self._trusted and pending.records and not self._has_good():
            if not last:  # perhaps the schema is another one
                self._stats.reason = (
                    f"got {pending.records} records, and none fits: nothing is committed until one "
                    "does"
                )
                return
            partition, first = pending.bad[0]
            raise RecordError(
                f"none of {pending.records} records fits; {self._place(partition)}, offset "
                f"{first.offset}: {first.reason}",
                position=first.offset,
            )
        if self._letters is not None and pending.bad:
            for partition, record in pending.bad:
                self._letters.write(partition, [record])
            self._letters.flush()
            pending.bad.clear()  # a commit that was given up is tried once more at the end
        began = time.monotonic()
        for partition, largest in pending.largest.items():
            self._times.observe(partition, largest)
        self._times.advance(self._busy())
        counts = self._write(pending)
        if counts is None:  # they stay pending: the watermark and drain() must not pass them by
            return
        self._pending = _Pending()
        self._note_commit()
        self._watermark = self._times.watermark
        self._trusted = self._trusted or pending.records > 0  # some commits have offsets alone
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
        wait, longest = _WAITS
        readers = 1
        while True:
            try:
                marks = dict(self._marks)
                with self.graph.transaction():
                    counts = self._target.write(pending.changes)
                    for partition, following in pending.offsets.items():
                        self.graph.set_offset(self._name, partition, following)
                        self._save_mark(partition, following, marks)
                    self._save_times(pending.largest)
                self._marks = marks  # only now: an undone commit has written none
                return counts
            except (OutOfMemoryError, HeldVersionsError) as error:
                if self._let_go():
                    self.graph.reclaim()
                    continue
                reason = str(error)
                if isinstance(error, HeldVersionsError):
                    # The last commit that is kept holds none that this one needs.
                    before, readers = readers, self.graph.stats().snapshots - bool(self._kept)
                    if not before and not readers:  # after a look when nobody held them
                        raise
                    if 0 < readers < len(self._kept):
                        reason += (
                            f"; {len(self._kept)} commits that are kept hold them: ask "
                            "snapshot(at=) for a later one, or give a smaller keep="
                        )
                        with self._quiet:  # nothing can be committed now
                            self._rounds += 1
                            self._quiet.notify_all()
                if self._stats.state != "full":
                    self.source.pause(self._known())
                self._stats.state, self._stats.reason = "full", reason
                if self._stopping.wait(wait):
                    return None
                wait = min(2 * wait, longest)
                self.graph.reclaim()
                self._paused = self._known()

    def _save_mark(self, partition: int, following: int, marks: dict[int, int]) -> None:
        """Keep what the records of a partition are known by, where the source has that."""
        give = getattr(self.source, "mark", None)
        mark = None if give is None else give(partition, following)
        for place, number in ((partition, mark), (EDGES, None if mark is None else self._edges)):
            if number is not None and marks.get(place) != number:
                self.graph.store.set_offset(marks_of(self._name), place, number)
                marks[place] = number

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
        partitions = frozenset[int]() if self._cuts is None else self._cuts.held
        return partitions.union(partition for partition, left in self._lag.items() if left > 0)

    def _pause(self) -> None:
        """Pause the partitions that are too far ahead, and those only."""
        busy = self._busy()
        self._times.advance(busy)
        if not self._pending.offsets and self._times.watermark != self._watermark:
            self._watermark = self._times.watermark  # it does not wait for idle partitions
            if self._cuts is None:  # else commits are at cuts, and nowhere else
                with self.graph.transaction():
                    self._save_times(())
        ahead = frozenset[int]()
        if self._times.max_skew is not None:
            read = frozenset(partition for partition, left in self._lag.items() if left == 0)
            ahead = self._times.ahead(busy, read | self._ended)
        if self._cuts is not None:
            ahead |= self._cuts.full
        if ahead != self._paused:
            self.source.pause(ahead)
            self._paused = ahead

    def _place(self, partition: int) -> str:
        describe = getattr(self.source, "describe", None)
        label = f"partition {partition}" if describe is None else str(describe(partition))
        return f"{self._name}, {label}"


def _letters(
    records: Records, changes: Changes, which: NDArray[np.bool_], why: Callable[[int], str]
) -> list[BadRecord]:
    """Return the records of some changes, with what is wrong with the time of each."""
    assert changes.rows is not None and records.offsets is not None
    assert changes.event_times is not None
    letters = []
    for at in np.flatnonzero(which).tolist():
        row = int(changes.rows[at])
        payload = None if records.payload is None else records.payload(row)
        reason = why(int(changes.event_times[at]))
        letters.append(BadRecord(int(records.offsets[row]), reason, payload))
    return letters
