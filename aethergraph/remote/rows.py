"""RemoteRows: rows of one server, or of several that have a shard each, as a source of rows."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_ids, empty
from aethergraph._checks.options import as_list
from aethergraph._checks.places import at_places
from aethergraph._tracepoints import made
from aethergraph.errors import (
    AetherError,
    InvalidArgumentError,
    OutOfRangeError,
    StorageError,
    UnsupportedError,
)
from aethergraph.features.cached import CachedRows
from aethergraph.features.gathering import check_rows
from aethergraph.features.table import RowTable
from aethergraph.protocols import RowSource
from aethergraph.remote import wire
from aethergraph.remote.address import Address, parse_address
from aethergraph.remote.ahead import RowsAhead
from aethergraph.remote.endpoint import Connection, Endpoint, Gathering
from aethergraph.remote.mapped import Mapped
from aethergraph.remote.onesided import SlotReader
from aethergraph.remote.row_files import open_rows

__all__ = ["RemoteRows", "RemoteStats", "open_source"]

log = logging.getLogger("aethergraph")


class RemoteStats(NamedTuple):
    """Counts of a :class:`RemoteRows` in this process.

    Attributes:
        gathers: gathers that were answered.
        rows: rows of these.
        connections: connections made so far.
        retries: times that a gather was put off because a connection broke, or none could be made.
    """

    gathers: int
    rows: int
    connections: int
    retries: int


def open_source(url: str) -> RowSource:
    """Open rows that a server has; every loader and framework adapter takes them.

    ::

        graph.node_attrs["x"] = open_source("tcp://10.0.0.1:9999/x?token_file=token&ca=cert.pem")
        loader = NeighborLoader(graph, [15, 10], feature_source="tcp://127.0.0.1:9999")

    ================================  ==============================================================
    ``tcp://HOST:PORT/NAME``          a server's table; without a name, its only one
    ``tcp://A:PORT,B:PORT/NAME``      the servers of all shards, in any order
    ``unix:///PATH/NAME``             a server at a unix socket on this machine; rows of a file, or
                                      of a live table, are mapped then
    ``shm:///PATH``                   a file on this machine, mapped: no server, no copy between
    ``rdma://HOST:PORT/NAME``         a server's memory, read by the network card (UCX); where that
                                      is not possible, it is said in the log, and is as ``tcp``
    ================================  ==============================================================

    Options follow as ``?option=value&...``: ``token_file``, the file of the secret; ``ca``, the
    file of the certificate that the server's is signed by, or ``system``, for TLS; ``timeout`` in
    seconds (30) that a request may take with all of its retries; ``memory_budget``, such as
    ``512M``, for rows that are kept (:class:`aethergraph.CachedRows`); ``name`` of the table.
    Rows that change are kept for ``max_age`` seconds, if that is given, else not at all; nor are
    those that are mapped. ``map=no`` asks the server for them. ``missing=zero`` or ``nan``, of
    ``shm``, is what the rows of a live table are that nobody has written.

    Threads share the source and ask at the same time, each over a connection of its own. A forked
    child connects anew, and so does a copy that was pickled: it travels as its URL. A connection
    that breaks is made anew, and the rows are asked for again.

    Raises:
        InvalidArgumentError: the URL is none, there is no such table, or a shard is missing.
        ServerTimeoutError: the server is not reached in time; names it.
        AccessDeniedError: the server refuses the token, or does not know it.
        FormatError: what answers is no server of rows, or TLS fails.
    """
    address = parse_address(url)
    if address.scheme == "shm":
        return open_rows(address.locations[0].host, missing=address.missing)
    rows = RemoteRows(address)
    if rows.transport == "map" or (rows.is_live and not address.max_age):
        return rows
    if address.memory_budget is None and not rows.is_live:
        return rows
    return CachedRows(rows, address.memory_budget, address.max_age or None)


class _Reader:
    """Connections to the servers of a table, which are asked for its rows."""

    mapped: Mapped | None = None

    def __init__(self, address: Address) -> None:
        self.url = address.url
        self.endpoints = [Endpoint(address, location) for location in address.locations]
        try:
            # Empty ones begin where others do.
            self.endpoints.sort(key=lambda endpoint: endpoint.table.shard)
            _check_shards(self.endpoints, address.url)
        except BaseException:
            self.close()
            raise
        last = self.endpoints[-1].table  # its shard has the rows that were added
        self.shape, self.code = last.shape, native.dtype_code(last.dtype)
        self.live = bool(last.live)
        self._ends = np.array([endpoint.table.end for endpoint in self.endpoints], np.int64)
        self.gathers = self.rows = 0
        can_map = address.scheme == "unix" and address.mapped and len(self.endpoints) == 1
        self.mapped = Mapped(self.endpoints[0]) if can_map else None
        self.rdma = address.scheme == "rdma"
        if self.rdma:
            for endpoint in self.endpoints:
                endpoint.run(self._slots_of)

    def gather(
        self, ids: NDArray[np.int64], out: NDArray[Any], code: int, task: native.Task | None
    ) -> None:
        """Set ``out[i]`` to row ``ids[i]``, in the dtype of ``code`` if rows are mapped."""
        with native.working_for(task):  # which ends waits, too
            if self.mapped is not None and self.mapped.gather(ids, out, code, task):
                self.gathers += 1
                self.rows += len(ids)
            else:
                self._fill(ids, out, task)

    def _fill(self, ids: NDArray[np.int64], out: NDArray[Any], task: native.Task | None) -> None:
        if not len(ids):
            return
        if len(self.endpoints) == 1:
            self.endpoints[0].run(lambda connection: self._read(connection, ids, out, task), task)
        elif self.rdma:
            for number, places in self._shards(ids):
                rows = empty((len(places), *out.shape[1:]), out.dtype, f"{len(places)} rows")
                with at_places(places):
                    read = partial(self._read, ids=ids[places], out=rows, task=task)
                    self.endpoints[number].run(read, task)
                out[places] = rows
        else:
            self._fill_of_shards(ids, out, task)
        self.gathers += 1
        self.rows += len(ids)

    def _read(
        self,
        connection: Connection,
        ids: NDArray[np.int64],
        out: NDArray[Any],
        task: native.Task | None,
    ) -> None:
        """Read rows of one server, out of its memory if that is possible."""
        slots = self._slots_of(connection) if self.rdma else None
        if slots is None:
            connection.gather(ids, out, task).finish()
        else:
            slots.gather(ids, out, task)

    def _slots_of(self, connection: Connection) -> SlotReader | None:
        """Return what reads the memory of a connection's server; None: rows go over TCP now."""
        if connection.reader is None:
            try:
                connection.reader = SlotReader(connection)
            except (UnsupportedError, StorageError) as error:
                if self.rdma:
                    log.warning("%s: rows come over TCP: %s", self.url, error)
                self.rdma = False
        reader: SlotReader | None = connection.reader
        return reader

    def _shards(self, ids: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yield the number of each server that has rows of ``ids``, and their places there."""
        shard = np.searchsorted(self._ends, ids, "right")
        for number in range(len(self.endpoints)):
            places = np.flatnonzero(shard == number)
            if len(places):
                yield number, places

    def _fill_of_shards(
        self, ids: NDArray[np.int64], out: NDArray[Any], task: native.Task | None
    ) -> None:
        """Ask all servers at once, and put their rows in place as they come."""
        parts = []
        for number, places in self._shards(ids):
            rows = empty((len(places), *out.shape[1:]), out.dtype, f"{len(places)} rows")
            parts.append(_Part(self.endpoints[number], places, ids[places], rows, task))
        try:
            for part in parts:
                part.begin()
            under_way = parts
            while under_way:  # in turns: no server waits while another one is read to its end
                under_way = [part for part in under_way if part.receive()]
            for part in parts:
                out[part.places] = part.finish()
        finally:
            for part in parts:
                part.drop()

    def close(self) -> None:
        if self.mapped is not None:
            self.mapped.close()
        for endpoint in self.endpoints:
            endpoint.close()


class _Part:
    """Rows of a gather that one of several servers has."""

    def __init__(
        self, endpoint: Endpoint, places: NDArray[np.int64], ids: NDArray[np.int64],
        rows: NDArray[Any], task: native.Task | None,
    ) -> None:  # fmt: skip
        self.places = places
        self._endpoint, self._ids, self._rows, self._task = endpoint, ids, rows, task
        self._begun: tuple[Any, Gathering] | None = None

    def begin(self) -> None:
        """Send the first requests, if that can be done at once; else :meth:`finish` does it all."""
        connection = None
        try:
            with at_places(self.places):
                connection = self._endpoint.take()
                self._begun = connection, connection.gather(self._ids, self._rows, self._task)
        except BaseException as error:
            if connection is not None and self._begun is None:
                connection.close()
            if isinstance(error, AetherError) or not isinstance(error, (OSError, EOFError)):
                raise

    def receive(self) -> bool:
        """Receive the next reply; return whether more are due on this connection."""
        if self._begun is None:
            return False
        try:
            with at_places(self.places):
                return self._begun[1].receive()
        except AetherError:
            raise
        except (OSError, EOFError, wire.WireError):
            self.drop()
            return False

    def finish(self) -> NDArray[Any]:
        """Return the rows, of which all were received, or none are."""
        if self._begun is not None:
            connection, self._begun = self._begun[0], None
            self._endpoint.give_back(connection)
            return self._rows
        with at_places(self.places):
            self._endpoint.run(
                lambda connection: connection.gather(self._ids, self._rows, self._task).finish(),
                self._task,
            )
        return self._rows

    def drop(self) -> None:
        """End the connection on which rows are still under way."""
        if self._begun is not None:
            self._begun[0].close()
            self._begun = None


def _check_shards(endpoints: list[Endpoint], url: str) -> None:
    """Raise InvalidArgumentError unless the servers have all rows of one table, each once."""
    first, last, end, is_whole = endpoints[0].table, endpoints[-1].table, 0, True
    for endpoint in endpoints:
        table = endpoint.table
        shape = first.shape
        if table.live and table.begin == end:  # rows may have been added between two answers
            shape = (table.shape[0], *shape[1:])
        if (table.shape, table.dtype, table.live) != (shape, first.dtype, first.live):
            raise InvalidArgumentError(
                f"{url}: rows of {table.dtype} {table.shape} and of {first.dtype} {first.shape} "
                "are not shards of one table"
            )
        if table.content != first.content and table.content and first.content:
            raise InvalidArgumentError(
                f"{url}: shards {first.shard[0]}/{first.shard[1]} and "
                f"{table.shard[0]}/{table.shard[1]} are of different files, though of one size: "
                "start all servers with copies of one file"
            )
        is_whole = is_whole and table.begin == end
        end = table.end
    if not is_whole or end != last.shape[0] or len(endpoints) != first.shard[1]:
        have = ", ".join(
            f"{endpoint.table.shard[0]}/{endpoint.table.shard[1]}" for endpoint in endpoints
        )
        raise InvalidArgumentError(
            f"{url}: the servers have the shards {have}: give the addresses of all, each once"
        )


class RemoteRows(RowTable):
    """Rows of a server, as a :class:`aethergraph.protocols.RowSource`; made by :func:`open_source`.

    It answers what a ``FeatureTable`` answers, but reads every row from the server. Its
    :attr:`array` reads them all.
    """

    def __init__(self, address: Address | str) -> None:
        self._address = parse_address(address) if isinstance(address, str) else address
        self._reader = _Reader(self._address)
        self._set_form(self._reader.code, self._reader.shape)
        made(self)

    @property
    def url(self) -> str:
        """URL that it was opened with."""
        return self._address.url

    def gather_into(self, ids: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Set ``out[i]`` to row ``ids[i]``, as the servers send it."""
        self.check_open()
        reader, code = self._reader, self._code
        native.run_long(lambda task: reader.gather(ids, out, code, task), None, out.nbytes)

    @property
    def array(self) -> NDArray[Any]:
        """All rows, read at each use."""
        return self.read(0, self._num_rows)

    @property
    def is_live(self) -> bool:
        """True if the server's rows change."""
        return self._reader.live

    def put(self, ids: int | ArrayLike, rows: ArrayLike, version: Any = None) -> int:
        """Refuse to write.

        Raises:
            UnsupportedError: always.
        """
        return self.put_many(ids, rows, version)

    def put_many(self, ids: ArrayLike, rows: ArrayLike, version: Any = None) -> int:
        """Refuse to write.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(
            f"{self!r} is for reading: rows are written where the table is, by whoever opens it "
            "there (LiveFeatureTable.open(path, writable=True)), or by an ingestor"
        )

    @property
    def can_plan(self) -> bool:
        """True if rows are asked for and do not change: those of coming gathers may come sooner."""
        return (
            not self.is_live
            and len(self._reader.endpoints) == 1
            and self.transport in ("tcp", "unix")
        )

    def plan(self, lists: Iterable[ArrayLike]) -> RowsAhead:
        """Ask for the rows of coming gathers before they are needed.

        Gathers of the lists, in order, find the first rows of each on the way: some megabytes of
        them. Others are served as always, over other connections.

        Args:
            lists: row numbers [n] of each coming gather, an integer vector per gather.

        Raises:
            OutOfRangeError: a row does not exist; names the list, the row and its position.
        """
        self.check_open()
        # Copies: the plan looks at them again, when the caller may have changed its own.
        vectors = [as_ids(ids, "lists").copy() for ids in as_list(lists, "lists", "row numbers")]
        for number, ids in enumerate(vectors):
            try:
                check_rows(ids, self._num_rows)
            except OutOfRangeError as error:
                raise OutOfRangeError(
                    f"lists[{number}]: {error}", position=error.position, value=error.value
                ) from None
        return RowsAhead(
            self._reader.endpoints[0], vectors, self._row_shape, self._code, self.gather
        )

    @property
    def transport(self) -> str:
        """Way of the rows: asked for by ``"tcp"``, ``"unix"``, or read by ``"map"``, ``"rdma"``."""
        reader = self._reader
        if reader.mapped is not None and reader.mapped.is_there:
            return "map"
        if self._address.scheme == "rdma":
            return "rdma" if reader.rdma else "tcp"
        return self._address.scheme

    @property
    def fingerprint(self) -> str | None:
        """Identity of the content, as the servers tell it; None if it changes."""
        if self.is_live:
            return None
        return "+".join(endpoint.table.generation for endpoint in self._reader.endpoints)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tables of the server."""
        names: tuple[str, ...] = self._reader.endpoints[0].table.names
        return names

    def stats(self) -> RemoteStats:
        """Return the counts so far in this process."""
        self.check_open()
        ends = self._reader.endpoints
        return RemoteStats(
            self._reader.gathers, self._reader.rows, sum(endpoint.connections for endpoint in ends),
            sum(endpoint.waits for endpoint in ends),
        )  # fmt: skip

    def close(self) -> None:
        """Close the connections."""
        self._is_closed = True
        self._reader.close()

    def __enter__(self) -> RemoteRows:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"RemoteRows({self.url!r}, shape={self.shape}, dtype={self.dtype_name}{state})"

    def __reduce__(self) -> tuple[Any, ...]:
        self.check_open()
        return RemoteRows, (self._address,)
