"""Ingestor: takes records from a source into a live graph, each of them once."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count, as_integer
from aethergraph._checks.options import as_choice, as_flag, as_text, is_name, shown
from aethergraph._tracepoints import made
from aethergraph.dynamic.live import LiveGraph
from aethergraph.dynamic.watermarks import BESIDE, cap_times
from aethergraph.errors import ClosedError, InvalidArgumentError, SnapshotExpiredError
from aethergraph.streaming.arguments import as_ahead, as_bound, as_latest, as_seconds, as_span
from aethergraph.streaming.changes import Target
from aethergraph.streaming.event_time import EventTime, TimeBound
from aethergraph.streaming.loop import Loop
from aethergraph.streaming.records import IdMap, Source
from aethergraph.streaming.stats import IngestStats

__all__ = ["IngestStats", "Ingestor"]

#: Where other threads are to have their turn: most records that are taken in one, and the seconds
#: between two. A thread that waits for Python has it only if this one really sleeps.
_TURN, _PAUSE = 1000, 1e-4
#: Seconds between two looks whether a thread has ended. A signal that another thread takes ends no
#: wait without a limit.
_LOOK = 0.2


class Ingestor(Loop):
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
            late: a number of the graph's unit of time, or a time such as ``"5s"``, which is rounded
            up to that unit.
        idle: time after which a partition that gives nothing does not hold the watermark back.
        max_skew: how far a partition may be ahead of the slowest before it is paused, as
            ``lateness``; None: as far as it wants.
        max_ahead: how far the time of a record may be ahead of this machine's clock, such as
            ``"1h"``: one beyond is a bad record, as it would make all that come after it late. For
            graphs whose times are datetimes, in UTC. ``"auto"``: a day there, unless ``cut`` is
            given; None: as far as it wants, where times are not those of a clock.
        max_time: largest time of a record, beyond which it is bad: a number of the graph's unit, or
            a date. For graphs whose times are plain numbers, which no clock can judge.
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
        max_ahead: float | str | timedelta | None = "auto",
        max_time: int | str | date | np.datetime64 | None = None,
        new_nodes: int = 0,
        id_map: IdMap | Mapping[str, IdMap] | None = None,
        cut: int | None = None,
        keep: int = 0,
        gives_way: bool = True,
    ) -> None:
        target = Target(graph, new_nodes, id_map)
        name = as_text(getattr(source, "name", None), "source.name")
        if name is None or not is_name(name) or not callable(getattr(source, "poll", None)):
            raise InvalidArgumentError(
                f"source must be a Source with a name, got {type(source).__name__}"
            )
        if name.endswith(BESIDE):
            raise InvalidArgumentError(
                f"source.name = {shown(name)}: the graph keeps numbers of other streams under "
                f"names in {' and '.join(BESIDE)}: give the source another one (name=)"
            )
        super().__init__(graph, source, target, name)
        self._batch = as_count(batch, "batch")
        if not self._batch:
            raise InvalidArgumentError("batch = 0: commits have one record at least")
        self._linger = as_seconds(linger, "linger")
        self._dead_letter = None if dead_letter is None else native.encode_path(dead_letter)[0]
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
        if unit is None and not self._target.keeps_time:  # times serve the watermark alone
            unit = getattr(getattr(source, "schema", None), "time_unit", None)
        self._bound = TimeBound(
            as_latest(max_time, unit), as_ahead(max_ahead, unit, has_cut=cut is not None), unit
        )
        self._stats.time_unit = unit
        if hasattr(source, "lag"):
            self._stats.lag_unit = getattr(source, "lag_unit", "records")
        self._check_cut(source, max_skew)
        check = getattr(source, "check", None)
        if check is not None:
            try:
                check(self._target)
            except InvalidArgumentError as error:
                raise InvalidArgumentError(f"{self._name}: {error}") from None
        self._thread: threading.Thread | None = None
        self._gives_way = as_flag(gives_way, "gives_way")
        made(self)

    def _check_cut(self, source: Source, max_skew: Any) -> None:
        if self._cut is None:
            if self._keep:
                raise InvalidArgumentError(f"keep = {self._keep} goes with cut=")
            return
        if not self._cut:
            raise InvalidArgumentError("cut = 0: a cut is at a multiple of 1 offset at least")
        for option, is_given in (
            ("late='dead_letter'", self._late != "insert"),
            ("max_skew", max_skew is not None),
        ):
            if is_given:
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
        self._check_new()
        try:
            self._open()
            if self._gives_way:
                self._pauses = _PAUSE
                at_once = getattr(self.source, "at_once", None)
                if at_once is not None:
                    self.source.at_once = min(at_once, _TURN)  # type: ignore[attr-defined]
            self._thread = threading.Thread(target=self._run_in_thread, name=f"ingest {self._name}")
            self._thread.daemon = True
            self._thread.start()
        except BaseException as error:
            self._end_thread(error)
            raise
        return self

    def _end_thread(self, error: BaseException) -> None:
        """End what :meth:`start` began: Ctrl-C may come when the thread runs, or is about to."""
        if self._claim.acquire(blocking=False):  # it will not read any more
            self._abandon(error)
            if self._stats.state == "new":
                self._claim.release()  # the stream was another's: this may be tried again
            return
        self._stopping.set()
        self._wait_for_thread()

    def run(self) -> IngestStats:
        """Ingest in this thread until the source ends or :meth:`stop` is called.

        Returns:
            The numbers.

        Raises:
            RecordError: a record is bad and there is no dead letter file, or there are too many.
            SourceError: the source cannot be reached, or has lost records.
        """
        self._check_new()
        try:
            self._open()
            self._loop()
        except BaseException as error:
            self._abandon(error)
            raise
        return self.stats()

    def stop(self) -> None:
        """End after the commit of what was read; raise the error that ended it before, if any.

        Raises:
            InvalidArgumentError: the caller is inside of a transaction, which the commit waits for.
        """
        thread = self._thread
        if thread is not None and thread.is_alive():
            self._check_turn("stop()")
        self._stopping.set()
        self._wait_for_thread()
        self.check()

    def _check_turn(self, call: str) -> None:
        if self._thread is not threading.current_thread() and self.graph.store.has_turn:
            raise InvalidArgumentError(
                f"{call} inside a transaction waits for a commit, which waits for the transaction: "
                "call it after its end"
            )

    def _wait_for_thread(self) -> None:
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            while thread.is_alive():
                thread.join(_LOOK)

    def check(self) -> None:
        """Raise the error that ended the thread, if there was one."""
        if self.failure is not None:
            raise self.failure

    def drain(self, timeout: float | None = None) -> None:
        """Wait until all records that are there now are in the graph.

        While the source is stalled it waits, as nobody knows what is there. With ``cut=`` those up
        to the last cut that every partition has come to. With ``keep=`` it also returns where the
        next commit waits until :meth:`snapshot` is asked for a later one, which ``stats().reason``
        says then.

        Raises:
            TimeoutError: they are not after ``timeout`` seconds; says why.
            ClosedError: the ingestor was not started, or was stopped before that.
            InvalidArgumentError: the caller is inside of a transaction, which they wait for.
        """
        self._check_turn("drain()")
        until = None if timeout is None else time.monotonic() + timeout
        with self._quiet:
            first = self._rounds
            while self._rounds < first + 2 and self._stats.state != "ended":
                self._check_reads()
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    why = f", {self._stats.reason}" if self._stats.reason else ""
                    raise TimeoutError(
                        f"{self._name}: records are left after {timeout} s "
                        f"({self._stats.state}{why})"
                    )
                self._quiet.wait(0.1 if left is None else min(left, 0.1))
        self.check()

    def _check_reads(self) -> None:
        """Raise where it would be in vain to wait for records."""
        self.check()
        if self._stats.state == "new":
            raise ClosedError(f"{self._name}: nothing is read yet, call start() first")
        if self._stats.state == "stopped":
            raise ClosedError(f"{self._name}: the ingestor was stopped, records may be left")

    def __enter__(self) -> Ingestor:
        self._check_turn("with Ingestor(...)")  # else its end would wait for ever
        return self.start()

    def __exit__(self, kind: Any, *_: object) -> None:
        try:
            self._stopping.set()  # also where nobody can wait for it here
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

        Commits before it are let go. It waits until the cut is reached; meanwhile those that are
        kept are let go where others need their room.

        Args:
            at: number of the next record by partition, :attr:`offsets` of some ingestor.
            timeout: seconds to wait; None: as long as it takes.

        Raises:
            InvalidArgumentError: no cut is at these offsets; or it was not reached, and the caller
                is inside of a transaction, which that commit waits for.
            ClosedError: the ingestor was not started.
            SnapshotExpiredError: a later one was asked for before.
            TimeoutError: the cut was not reached in time; says what it waits for.
        """
        if not self._keep:
            raise InvalidArgumentError("keep = 0 keeps no commits: Ingestor(..., cut=, keep=4)")
        if not isinstance(at, Mapping):
            raise InvalidArgumentError(
                f"at goes by partition, {{0: 2000, 1: 2000}}, got {type(at).__name__}"
            )
        cut = {as_integer(part, "at"): as_count(offset, "at") for part, offset in at.items()}
        place, until = sum(cut.values()), None if timeout is None else time.monotonic() + timeout
        with self._quiet:
            self._awaited += 1
            try:
                while not self._kept or sum(self._kept[-1][0].values()) < place:
                    self._wait_for_commit(cut, until)
            finally:
                self._awaited -= 1
            oldest = self._kept[0][0]
            if place < sum(oldest.values()):
                raise SnapshotExpiredError(
                    f"{self._name}: the commit at {cut} is kept no longer, those from {oldest} "
                    "on are"
                )
            for number, (offsets, kept) in enumerate(self._kept):
                if offsets == cut:
                    del self._kept[:number]
                    self._quiet.notify_all()
                    return type(kept)(self.graph.store, kept.native_snapshot)
        raise InvalidArgumentError(f"{self._name}: no cut is at {cut}, but at {oldest}")

    def _wait_for_commit(self, cut: dict[int, int], until: float | None) -> None:
        self._check_turn("snapshot()")
        if self._stats.state != "stopped":
            self._check_reads()
        left = None if until is None else until - time.monotonic()
        if self._stats.state in ("ended", "stopped") or (left is not None and left <= 0):
            raise TimeoutError(
                f"{self._name}: the cut at {cut} was not reached, but {self._reached} "
                f"({self._stats.state}, {self._stats.reason})"
            )
        self._quiet.wait(0.1 if left is None else min(left, 0.1))

    def cap(self, times: ArrayLike) -> NDArray[Any]:
        """Return times of seeds, none of them beyond the watermark.

        Batches with such times see no edge that others may still come before.

        Raises:
            InvalidArgumentError: there is no watermark yet.
        """
        return cap_times(times, self.watermark, self._target.time_unit)
