"""PushedSource: what sources have in common whose records are sent to them, by many at once.

::

    sender ──rows──> waiting, of a partition ──poll()──> the ingestor ──> a commit
       │    <─wait──       a bounded queue                                    │
       └──────<─ "next": rows before it are on disk <── acknowledge() <───────┘

A row has the number that follows the one before in its partition, whoever sent that. A sender is
told the number to begin with, and the one behind the last row that is on disk; it keeps rows until
then. So each row is in the graph once, whichever side is killed. After a broken connection the two
differ: rows that came before are here, and need not be sent again, but may not be on disk yet.
"""

from __future__ import annotations

import socket
import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from aethergraph._checks.arrays import as_port
from aethergraph._checks.options import as_secret, as_text, shown
from aethergraph.errors import ClosedError, InvalidArgumentError, LimitError, SourceError
from aethergraph.remote.listening import LOOPBACK
from aethergraph.storage.memory import parse_size
from aethergraph.streaming.decode import Table, arrow_columns, arrow_row
from aethergraph.streaming.records import Records
from aethergraph.streaming.schema import Schema, SchemaSource, check_listener

__all__ = ["MOST_SENDERS", "LimitedFile", "PushedSource", "Sender"]

#: Batches of a partition that wait to be polled; senders at once.
_WAITING, MOST_SENDERS = 16, 256
#: Seconds that closing waits for senders to hear what is on disk.
_FAREWELL = 1.0


@dataclass(eq=False)
class Sender:
    """One that sends the rows of a partition."""

    partition: int = -1
    #: False: another one sends the partition now, or the source was closed.
    is_current: bool = True
    #: Number of the row behind its last one, and of the row that it was told last.
    end_row: int = 0
    told_row: int = 0
    #: It was told why the ingestor has failed.
    knows_why: bool = False
    telling: threading.Thread | None = field(default=None, repr=False)

    @abstractmethod
    def say(self, **line: Any) -> None:
        """Send a message; nothing if it is gone."""

    def leave(self) -> None:
        """Break off, as another one sends the partition now. Does not wait."""


class PushedSource(SchemaSource):
    """Base of sources that rows of Arrow are sent to.

    Args:
        name: name under which the graph keeps the offsets.
        schema: fields of the rows, made by :meth:`Schema.arrow`.
        host: address to listen at.
        port: port to listen at; 0: any that is free.
        token: text that senders must give.
        tls: files of certificate and key, for check only: others than loopback need both.
        max_message: most bytes of a message.

    Attributes:
        port: port that it listens at.
        needs_disk: True: what is acknowledged must be on disk.
    """

    needs_disk = True

    def __init__(
        self,
        name: str,
        schema: Schema,
        host: str,
        port: int,
        token: str | None,
        tls: Any,
        max_message: int | str,
    ) -> None:
        check_listener(name, schema, "arrow")
        host, token = as_text(host, "host") or "", as_secret(token, "token")
        if host not in LOOPBACK and (token is None or tls is None):
            raise InvalidArgumentError(
                f"host = {shown(host)} is open to others: give token= and tls=, or listen at "
                "127.0.0.1"
            )
        self.name, self.schema = name, schema
        self._host, self.port = host, as_port(port)
        self._token = token
        self.max_message = parse_size(max_message, "max_message")
        self._is_open = False
        self._changed = threading.Condition()
        self._waiting: dict[int, deque[Records]] = {}
        self._next: dict[int, int] = {}
        self._read: dict[int, int] = {}
        self._on_disk: dict[int, int] = {}
        self._paused: frozenset[int] = frozenset()
        self._senders: set[Sender] = set()
        #: Why the ingestor has failed.
        self._failure: str | None = None

    # ---- Source --------------------------------------------------------------------------------

    def _bound(self) -> socket.socket:
        """Return a socket at the address that it listens at.

        Raises:
            SourceError: nobody can listen there; says why.
        """
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self._host, self.port))
            listener.listen()
        except (OSError, OverflowError) as error:
            listener.close()
            raise SourceError(None, f"{self._host}:{self.port}: {error}") from None
        return listener

    def _begin_at(self, offsets: Mapping[int, int]) -> None:
        with self._changed:
            self._next, self._read, self._on_disk = dict(offsets), dict(offsets), dict(offsets)
            self._waiting, self._paused, self._is_open = {}, frozenset(), True
            self._failure = None

    def _end(self) -> list[Sender]:
        """Take no more rows; return those who were sending, once they know what is on disk."""
        until = time.monotonic() + _FAREWELL
        with self._changed:
            self._is_open = False
            self._changed.notify_all()
            while any(map(self._is_owed, self._senders)):
                if not self._changed.wait(max(0.0, until - time.monotonic())):
                    break
            self._is_open = False
            senders, self._senders = list(self._senders), set()
            for sender in senders:
                sender.is_current = False
            self._changed.notify_all()
        return senders

    def _is_owed(self, sender: Sender) -> bool:
        """Return whether there is something that a sender was not told."""
        is_behind = self._on_disk.get(sender.partition, 0) > sender.told_row
        return is_behind or (self._failure is not None and not sender.knows_why)

    def poll(self, timeout: float) -> Sequence[Records] | None:
        """Return the rows that have come."""
        until = time.monotonic() + timeout
        with self._changed:
            while True:
                if not self._is_open:
                    raise ClosedError(f"the source {self.name!r} is not open")
                records = []
                for partition, waiting in self._waiting.items():
                    while waiting and partition not in self._paused:
                        records.append(waiting.popleft())
                        self._read[partition] = records[-1].following
                if records:
                    self._changed.notify_all()
                    return records
                left = until - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    return []

    def pause(self, partitions: Iterable[int]) -> None:
        """Return no rows of these partitions; their senders wait when enough is on its way."""
        with self._changed:
            self._paused = frozenset(partitions)
            self._changed.notify_all()

    def lag(self) -> dict[int, int]:
        """Return the number of rows of each partition that have come and were not read yet."""
        with self._changed:
            return {p: end - self._read.get(p, 0) for p, end in self._next.items()}

    def acknowledge(self, offsets: Mapping[int, int]) -> None:
        """Let the senders be told what is on disk, each by a thread of its own."""
        with self._changed:
            self._on_disk.update(offsets)
            self._changed.notify_all()

    def failed(self, reason: str) -> None:
        """Let the senders be told why no more of their rows are taken."""
        with self._changed:
            self._failure = reason
            self._changed.notify_all()

    # ---- senders -----------------------------------------------------------------------------

    def _begin_sending(self, sender: Sender, partition: int) -> str | None:
        """Let a sender have a partition, and tell it where to begin; return why it cannot."""
        if not 0 <= partition < 2**63:
            return f"partition = {partition} is not in 0..2**63 - 1"
        with self._changed:
            if not self._is_open:
                return "the source was closed"
            # The one before may be dead without knowing.
            before = [
                predecessor for predecessor in self._senders if predecessor.partition == partition
            ]
            if len(self._senders) - len(before) >= MOST_SENDERS:
                return f"there are {MOST_SENDERS} senders already, and not more at once"
            for predecessor in before:
                predecessor.is_current = False
            self._senders = self._senders.difference(before) | {sender}
            sender.partition = partition
            # Rows of the one before that wait are this one's now: it hears once they are on disk.
            following = sender.end_row = self._next.setdefault(partition, 0)
            sender.told_row = on_disk = self._on_disk.get(partition, 0)
            self._read.setdefault(partition, 0)
            self._changed.notify_all()
        for predecessor in before:
            predecessor.leave()
        sender.say(next=following, on_disk=on_disk)
        sender.telling = threading.Thread(target=self._tell, args=(sender,), daemon=True)
        sender.telling.start()
        return None

    def _tell(self, sender: Sender) -> None:
        """Tell a sender what is on disk. One that does not listen holds up nobody else."""
        while True:
            with self._changed:
                while sender.is_current and not self._is_owed(sender):
                    self._changed.wait()
                if not sender.is_current:
                    return
                number, failure = self._on_disk.get(sender.partition, 0), self._failure
            if number > sender.told_row:
                sender.say(next=number)
            if failure is not None:
                sender.say(error=failure)
            with self._changed:
                sender.told_row = max(number, sender.told_row)
                sender.knows_why = failure is not None
                self._changed.notify_all()

    def _end_sending(self, sender: Sender) -> None:
        with self._changed:
            sender.is_current = False
            self._senders.discard(sender)
            self._changed.notify_all()

    def _wait_until_told(self, sender: Sender) -> None:
        """Wait until a sender has heard that all it has sent is on disk."""
        with self._changed:
            while sender.is_current and sender.told_row < sender.end_row:
                self._changed.wait()

    def _put(self, sender: Sender, batch: Any, first: int | None = None) -> bool:
        """Hand a batch over; return False if the sender is not the current one any more.

        Args:
            sender: the sender of the batch.
            batch: record batch.
            first: number of its first row; None: that which follows the one before.

        Raises:
            LimitError: the batch is larger than a message may be.
            InvalidArgumentError: it has not the fields of the schema.
            ValueError: rows before it are missing.
        """
        if batch.nbytes > self.max_message:
            raise LimitError(_too_large(batch.nbytes, self.max_message))
        columns = arrow_columns(batch, self.schema.fields)
        with self._changed:
            waiting = self._waiting.setdefault(sender.partition, deque())
            while sender.is_current and len(waiting) >= _WAITING:
                self._changed.wait()
            if not sender.is_current or not self._is_open:
                return False
            begin = self._next[sender.partition]
            end = begin + batch.num_rows
            if first is not None:
                if first > begin:
                    raise ValueError(
                        f"the batch begins with row {first}, but the next one is {begin}"
                    )
                end = first + batch.num_rows
                skipped = min(begin - first, batch.num_rows)  # they are here already
                if skipped:
                    batch = batch.slice(skipped)
                    columns = {name: values[skipped:] for name, values in columns.items()}
            if batch.num_rows:
                # First what can fail: a sender must not be told to go on behind rows that are lost.
                waiting.append(self._records(batch, columns, sender.partition, begin, end))
                self._next[sender.partition] = sender.end_row = end
            sender.end_row = max(sender.end_row, end)
            self._changed.notify_all()
            return True

    def _records(
        self, batch: Any, columns: dict[str, Any], partition: int, begin: int, end: int
    ) -> Records:
        table = Table(columns, np.arange(batch.num_rows))
        return self.schema.records(
            table, partition, end, np.arange(begin, end), (), partial(arrow_row, batch)
        )


def _too_large(size: int, limit: int) -> str:
    return (
        f"a message of {size} bytes, where {limit} are allowed: send smaller batches, or give the "
        "source a larger max_message="
    )


class LimitedFile:
    """File whose reads are refused where they are larger than a message may be."""

    closed = False

    def __init__(self, file: Any, limit: int) -> None:
        self._file, self._limit = file, limit

    def read(self, size: int = -1) -> bytes:
        """Read so many bytes.

        Raises:
            LimitError: more than a message may have.
        """
        if not 0 <= size <= self._limit:
            raise LimitError(_too_large(size, self._limit))
        content: bytes = self._file.read(size)
        return content
