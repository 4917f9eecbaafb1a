"""RowsAhead: gathers that are known ahead, asked for before they are needed.

::

    client   ids of list 2 ──> ...        computes with list 1       receives list 2, asks for 3
    server                     gathers and sends list 2 meanwhile, as far as the sockets hold it

Requests of coming lists follow those of the present one on a connection of the plan's own, as many
at a time as within a gather; so no thread waits, and rows go straight to where they belong.
"""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_ids
from aethergraph._parallel.forks import renew_lock_in_forks
from aethergraph.errors import AetherError, CancelledError, ClosedError, InvalidArgumentError
from aethergraph.features.gathering import check_out, widen
from aethergraph.remote import wire
from aethergraph.remote.endpoint import Connection, Endpoint, rows_at_once, window

__all__ = ["RowsAhead"]

Ids = NDArray[np.int64]
Gather = Callable[[Ids, NDArray[Any]], Any]


class RowsAhead:
    """Gathers from one server that were told ahead, served in order; threads take turns.

    Whatever goes wrong with the connection, rows are gathered as without a plan, with its retries
    and its errors.

    Args:
        endpoint: the server.
        lists: rows of each gather, which exist.
        row_shape: shape of a row.
        code: code of the dtype of the rows, as they come.
        gather: gathers rows without a plan.
    """

    def __init__(
        self, endpoint: Endpoint, lists: Sequence[Ids], row_shape: tuple[int, ...], code: int,
        gather: Gather,
    ) -> None:  # fmt: skip
        self._endpoint, self._lists, self._gather = endpoint, lists, gather
        self._row_shape, self._code = row_shape, code
        self._row_bytes = math.prod(row_shape) * native.ARRAY_DTYPES[code].itemsize
        self._next = 0
        self._lock, self._process = threading.Lock(), os.getpid()
        renew_lock_in_forks(self)
        self._to_ask = self._parts()
        #: Requests under way: list, its rows, number of the request.
        self._asked: deque[tuple[int, int, int, int]] = deque()
        self._connection: Connection | None = None
        try:
            self._connection = endpoint.take()
            self._ask()
        except CancelledError:
            self._drop()
            raise
        except (AetherError, OSError, EOFError, wire.WireError):
            self._drop()  # what was not asked for would count as received
        except BaseException:
            self._drop()
            raise

    def _parts(self) -> Iterator[tuple[int, int, int]]:
        step = rows_at_once(self._row_bytes)
        for number, ids in enumerate(self._lists):
            for begin in range(0, len(ids), step):
                yield number, begin, min(begin + step, len(ids))

    def _ask(self) -> None:
        """Send as many requests as may be under way."""
        connection = self._connection
        assert connection is not None
        while len(self._asked) < window():
            part = next(self._to_ask, None)
            if part is None:
                return
            number, begin, end = part
            ids = self._lists[number][begin:end]
            request = connection.begin(wire.GATHER, *wire.pack_gather(connection.table.number, ids))
            self._asked.append((number, begin, end, request))

    def gather(self, ids: ArrayLike, out: NDArray[Any]) -> NDArray[Any]:
        """Gather the next list, which is ``ids``, into ``out``.

        Raises:
            InvalidArgumentError: ``ids`` is not the next list, or ``out`` does not fit; nothing was
                gathered.
            ClosedError: there is no next list.
        """
        with self._lock:
            if self._next == len(self._lists):
                raise ClosedError(f"all {len(self._lists)} lists of this plan have been gathered")
            if not np.array_equal(self._lists[self._next], as_ids(ids, "ids")):
                raise InvalidArgumentError(
                    f"ids are not list {self._next} of the plan: gather the lists in the order "
                    "they were planned in"
                )
            self._serve(out)
        return out

    def gather_if_next(self, ids: Ids, out: NDArray[Any]) -> bool:
        """Gather the next list into ``out`` if it equals ``ids``; return whether it did."""
        with self._lock:
            if self._next == len(self._lists) or not np.array_equal(self._lists[self._next], ids):
                return False
            self._serve(out)
            return True

    def _serve(self, out: NDArray[Any]) -> None:
        number, ids = self._next, self._lists[self._next]
        shape = (len(ids), *self._row_shape)
        out_code = check_out(out, shape, None, self._code)
        if self._process != os.getpid():
            self._drop()  # a child: the connection is the parent's
        rows = out if out_code == self._code else np.empty(shape, native.ARRAY_DTYPES[self._code])
        try:
            received = self._receive(number, rows)
            if received and rows is not out:
                widen(rows, native.DTYPE_NAMES[self._code], out, out_code)
        except BaseException:
            self._drop()  # its rows have come already: the list is gathered anew
            raise
        if not received:
            self._gather(ids, out)
        self._next += 1
        if self._next == len(self._lists):
            self._finish()

    def _receive(self, number: int, out: NDArray[Any]) -> bool:
        """Receive the rows of a list; return False if the connection did not bring them."""
        connection = self._connection
        if connection is None:
            return False
        view = wire.bytes_of(out) if out.nbytes else memoryview(b"")
        try:
            while self._asked and self._asked[0][0] == number:
                _, begin, end, request = self._asked[0]
                part = view[begin * self._row_bytes : end * self._row_bytes]
                connection.end(wire.GATHER, request, part, begin=begin)
                self._asked.popleft()
                self._ask()
        except CancelledError:
            self._drop()
            raise
        except (AetherError, OSError, EOFError, wire.WireError):
            self._drop()
            return False
        except BaseException:
            self._drop()
            raise
        return True

    def _drop(self) -> None:
        """End the connection: replies that nobody reads may be under way."""
        connection, self._connection = self._connection, None
        self._asked.clear()
        if connection is not None:
            connection.close()

    def _finish(self) -> None:
        if self._connection is not None and not self._asked and self._process == os.getpid():
            self._endpoint.give_back(self._connection)
            self._connection = None
        self._drop()

    def close(self) -> None:
        """Give up the lists that remain."""
        with self._lock:
            self._next = len(self._lists)
            self._finish()

    def __del__(self) -> None:
        if hasattr(self, "_connection"):
            self._finish()

    def __repr__(self) -> str:
        return f"RowsAhead({len(self._lists)} lists, {len(self._lists) - self._next} to come)"
