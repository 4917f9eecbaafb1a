"""FeatureServer: rows by id for other processes and machines.

::

    listener (TCP) ──┐                    ┌─ thread of a connection: HELLO, AUTH, then META and
                     ├─ accepting thread ─┤    GATHER, each answered before the next is looked at
    listener (unix) ─┘                    └─ ...

A connection has a thread of its own, which waits in the system, or gathers and sends without the
interpreter's lock. What it is told is in ``answers.py``.
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count, as_port
from aethergraph._checks.options import as_flag, as_number, as_secret, as_text, shown
from aethergraph._tracepoints import made
from aethergraph.errors import (
    AccessDeniedError,
    AetherError,
    InvalidArgumentError,
)
from aethergraph.protocols import AnyGraph, FeatureSource
from aethergraph.remote import wire
from aethergraph.remote.address import Location
from aethergraph.remote.answers import Answers, expect
from aethergraph.remote.leases import LEASE_SECONDS, MOST_LEASES, Leases
from aethergraph.remote.listening import (
    LOOPBACK,
    accept,
    listen,
    listen_unix,
    server_context,
    set_options,
)
from aethergraph.remote.peer import Peer
from aethergraph.remote.samples.desk import SampleDesk
from aethergraph.remote.samples.service import SampleService
from aethergraph.remote.served import ServedRows, check_shard, serve_rows

__all__ = ["MOST_CONNECTIONS", "FeatureServer", "ServerStats"]

#: Connections at once, unless told otherwise.
MOST_CONNECTIONS = 256
#: Connections that have not said who they are, at most; the oldest makes room.
_STRANGERS = 64
#: Seconds that a stranger has to say who it is, and that a request may take once it has begun.
_GREETING, _REQUEST = 10.0, 10.0
#: Seconds between looks for clients that do not read.
_LOOK = 1.0


#: Servers of this process.
_servers: weakref.WeakSet[FeatureServer] = weakref.WeakSet()


class ServerStats(NamedTuple):
    """Counts of a :class:`FeatureServer`.

    Attributes:
        connections: connections that are open, those included that have not said who they are.
        accepted: connections so far.
        refused: connections that ended for a wrong token, a frame that is none, a reply that was
            not read, or another time-out, or for which there was no place.
        requests: gathers and samples that were answered.
        rows: rows of these.
        row_bytes: bytes of these rows.
        samples: samples that were answered.
        leases: clients that commits of live graphs are held for now.
    """

    connections: int
    accepted: int
    refused: int
    requests: int
    rows: int
    row_bytes: int
    samples: int
    leases: int


class FeatureServer:
    """Server of rows by id, for :func:`open_source` in other processes and on other machines.

    ::

        with FeatureServer({"x": FeatureTable.load("x.npy")}, port=9999) as server:
            print(server.address)                       # tcp://127.0.0.1:9999
            server.wait()

    ``aethergraph serve`` is the same as a command. Whoever can connect may read every row: it
    listens at loopback, and elsewhere only with a token and TLS. A unix socket is for its user.

    Args:
        sources: sources of rows or arrays by name; or one, which is called ``"x"``.
        host: address to listen at over TCP. Others than loopback need ``token`` and ``tls``.
        port: port to listen at; 0: any that is free, see :attr:`port`. None: not over TCP.
        unix: path of a unix socket to listen at, or None.
        token: secret that clients must prove to know, or None; blanks around it do not count.
        tls: files of certificate and key in PEM, or None. The unix socket goes without.
        shard: ``(k, n)``: serve the k-th (from 0) of n equal ranges of rows. Ids stay those of all
            rows; a client that has the addresses of all n servers asks each for its rows.
        max_connections: connections at once; a client has one for each table and thread.
        rdma: let the network cards of clients at ``rdma://`` read the memory of live tables by
            themselves; other rows are copied into such memory. Rows then cross the network as they
            are, without TLS: for networks that are yours. Where that is not possible it is said in
            the log, and rows go over TCP.
        samples: by name, what samples are drawn from (:class:`SampleService`); ``sources`` may then
            be empty.
        log: file to which a line is appended for each sample, for :func:`replay`.
        graphs: by name, live graphs, or paths of their directories, whose lists clients may sample
            from (:func:`open_graph`); ``sources`` may then be empty.
        lease: seconds that a commit of one of ``graphs`` is held for a client at most; ``inf``: for
            as long as it has connections.
        max_leases: commits of ``graphs`` that are held for clients, at once; 1 to 256. Clients of
            the same commit share it.

    Attributes:
        port: port that it listens at, or None.

    Raises:
        InvalidArgumentError: no sources, no place to listen at, an open one without token and TLS,
            or rows of more than 64 MiB.
    """

    def __init__(
        self,
        sources: Mapping[str, FeatureSource | ArrayLike] | FeatureSource | ArrayLike,
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        unix: str | Path | None = None,
        token: str | None = None,
        tls: tuple[str | Path, str | Path] | None = None,
        shard: tuple[int, int] = (0, 1),
        max_connections: int = MOST_CONNECTIONS,
        rdma: bool = False,
        samples: Mapping[str, SampleService] | None = None,
        log: native.Path | None = None,
        graphs: Mapping[str, Any] | None = None,
        lease: float = LEASE_SECONDS,
        max_leases: int = MOST_LEASES,
    ) -> None:
        if port is None and unix is None:
            raise InvalidArgumentError("give port= (0: any), unix= or both, to listen at")
        host, token = as_text(host, "host") or "", as_secret(token, "token")
        if port is not None and host not in LOOPBACK and (token is None or tls is None):
            raise InvalidArgumentError(
                f"host = {shown(host)} is open to others: give token= and tls=, or listen at "
                "127.0.0.1"
            )
        if not isinstance(sources, Mapping):
            if isinstance(sources, AnyGraph):
                raise InvalidArgumentError(
                    f"sources is a {type(sources).__name__}: give it as samples={{'g': "
                    "SampleService(graph, plan)}, or a live one as graphs={'g': graph}; tables of "
                    "a file are open_tables(path, lists=True)"
                )
            sources = {"x": sources}
        desk = SampleDesk(samples, log)
        own_shard = check_shard(shard)
        tables: dict[str, ServedRows] = {}
        if sources or not (desk.names or graphs):
            tables = serve_rows(sources, own_shard)
        leases = Leases(graphs, len(tables), lease, max_leases)
        if leases.names and own_shard[1] > 1:
            raise InvalidArgumentError(
                f"shard = {shown(shard)}: the lists of a live graph are served whole, as (0, 1)"
            )
        self._host = host
        self.port = None if port is None else as_port(port)
        self._unix = None if unix is None else _as_path(unix)
        self._token = None if token is None else token.encode()
        self._tls = server_context(tls)
        self._most = as_count(max_connections, "max_connections")
        if self._most == 0:
            raise InvalidArgumentError("max_connections = 0 lets nobody connect")
        self._rdma = as_flag(rdma, "rdma")
        if self._rdma and port is None:
            raise InvalidArgumentError("rdma needs port=: clients connect over TCP first")
        self._answers = Answers(tables, desk, leases)
        self._lock = threading.Lock()
        self._listeners: list[socket.socket] = []
        self._strangers: deque[Peer] = deque()
        self._connections: set[Peer] = set()
        self._threads: set[threading.Thread] = set()
        self._ended, self._unwatched = threading.Event(), threading.Event()
        self._accepted = self._refused = 0
        self._counts = [0, 0, 0, 0]  # of connections that have ended
        _servers.add(self)
        made(self)

    # ---- life ----------------------------------------------------------------------------------

    def start(self) -> FeatureServer:
        """Listen, and answer in threads of its own; return the server.

        Raises:
            StorageError: the address cannot be listened at.
            InvalidArgumentError: it listens already.
        """
        with self._lock:
            if self._listeners:
                raise InvalidArgumentError(f"{self!r} listens already")
        listeners = []
        try:
            self._answers.desk.open()
            if self.port is not None:
                listeners.append(listen(self._host, self.port))
                self.port = listeners[0].getsockname()[1]
            if self._unix is not None:
                listeners.append(listen_unix(self._unix))
            if self._rdma:
                self._answers.open_slots()
            with self._lock:
                self._listeners = listeners
                self._ended.clear()
            for listener in listeners:
                self._begin(self._accept, listener)
            self._unwatched = threading.Event()
            threading.Thread(
                target=self._watch, args=(self._unwatched,), daemon=True, name="aethergraph watch"
            ).start()
        except BaseException:  # also Ctrl-C: nobody would answer those who connect
            with self._lock:
                self._listeners = listeners
            self.close(0)
            raise
        return self

    def close(self, grace: float = 10.0) -> None:
        """Stop: no connection is accepted, requests that have come are answered, then all end.

        Args:
            grace: seconds that answers may take, ``inf`` for as long as they take; then connections
                are cut.

        Raises:
            InvalidArgumentError: ``grace`` is negative or no number.
        """
        until = time.monotonic() + check_seconds(grace)
        with self._lock:
            listeners, self._listeners = self._listeners, []
            peers = [*self._strangers, *self._connections]
        if self._unix is not None and any(
            listener.family == socket.AF_UNIX for listener in listeners
        ):
            with suppress(OSError):  # while it is listened at: nobody else takes it until then
                os.unlink(self._unix)
        for listener in listeners:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        try:
            for peer in peers:
                peer.stop(socket.SHUT_RD)  # what has come before can still be read
            for thread in list(self._threads - {threading.current_thread()}):  # of a source's own
                thread.join(min(max(0.0, until - time.monotonic()), threading.TIMEOUT_MAX))
        finally:
            with self._lock:
                peers = [*self._strangers, *self._connections]
            for peer in peers:
                peer.stop(socket.SHUT_RDWR)
            self._answers.close()
            self._unwatched.set()
            self._ended.set()

    def leave_to_parent(self) -> None:
        """Close a forked child's copies of the sockets, which would outlive the server."""
        sockets = [
            *self._listeners,
            *(peer.socket for peer in (*self._strangers, *self._connections)),
        ]
        self._lock = threading.Lock()
        self._listeners, self._strangers, self._connections = [], deque(), set()
        for sock in sockets:
            sock.close()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the server is closed, by another thread; return whether it is."""
        if timeout is not None:
            return self._ended.wait(min(check_seconds(timeout, "timeout"), threading.TIMEOUT_MAX))
        # A thread that serves may take a signal from the system: its handler, such as that of
        # Ctrl-C, runs when this one wakes up.
        while not self._ended.wait(_LOOK):
            pass
        return True

    def __enter__(self) -> FeatureServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"FeatureServer({', '.join(self._answers.tables)}; {self.address})"

    # ---- what there is -------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """Names of the tables, and of the graphs that samples are drawn from, or that are live."""
        return self._answers.names

    @property
    def addresses(self) -> list[str]:
        """URLs for :func:`open_source`, that of TCP first; the name of a table may follow."""
        urls = []
        if self.port is not None:
            urls.append(str(Location(self._host, self.port)))
        if self._unix is not None:
            urls.append(str(Location(os.path.abspath(self._unix), None)))
        return urls

    @property
    def address(self) -> str:
        """URL for :func:`open_source`, that of TCP if there are two."""
        return self.addresses[0]

    def stats(self) -> ServerStats:
        """Return the counts so far."""
        with self._lock:
            peers = [*self._strangers, *self._connections]
            counts = list(self._counts)
            accepted, refused = self._accepted, self._refused
            for peer in peers:  # their counts are moved to those above as they end
                for i, number in enumerate(peer.counts):
                    counts[i] += number
        requests, rows, row_bytes, samples = counts
        return ServerStats(
            len(peers),
            accepted,
            refused,
            requests,
            rows,
            row_bytes,
            samples,
            self._answers.leases.count,
        )

    # ---- connections ---------------------------------------------------------------------------

    def _begin(self, call: Any, *args: Any) -> None:
        thread = threading.Thread(target=call, args=args, daemon=True, name="aethergraph serve")
        with self._lock:  # a close() that finds it serving finds it among the threads, too
            thread.start()
            self._threads = {worker for worker in self._threads if worker.is_alive()} | {thread}

    def _accept(self, listener: socket.socket) -> None:
        while (client := accept(listener)) is not None:
            peer = Peer(client)
            with self._lock:
                if listener not in self._listeners:
                    client.close()
                    return
                self._accepted += 1
                self._strangers.append(peer)
                # Whoever says nothing holds no place that another could have.
                oldest = self._strangers.popleft() if len(self._strangers) > _STRANGERS else None
            if oldest is not None:
                oldest.stop(socket.SHUT_RDWR)
            try:
                self._begin(self._serve, peer, listener.family == socket.AF_UNIX)
            except RuntimeError:  # no further thread
                self._end(peer, refused=True)

    def _watch(self, ended: threading.Event) -> None:
        """End connections whose replies nobody reads, until the server has ended."""
        while not ended.wait(_LOOK):
            with self._lock:
                late = [peer for peer in (*self._strangers, *self._connections) if peer.is_late]
            for peer in late:
                peer.stop(socket.SHUT_RDWR)

    def _serve(self, peer: Peer, local: bool) -> None:
        refused = True
        try:
            until = time.monotonic() + _GREETING
            set_options(peer.socket, local)
            if self._tls is not None and not local:
                peer.begin_tls(self._tls, _GREETING)
            inbox = wire.Inbox(peer.socket, patience=_REQUEST)
            refused = not self._greet(peer, inbox, until)
            if not refused:
                self._answer(peer, inbox)
        except (wire.WireError, wire.BusyError, AetherError, TimeoutError) as error:
            refused = True
            if peer.is_late:  # it would have to read that, too
                return
            is_told = isinstance(error, (AetherError, wire.BusyError))
            body = wire.pack_error(error if is_told else InvalidArgumentError(str(error)))
            with suppress(OSError, ValueError):
                peer.send(0, 0, body, flags=wire.ERROR)
        except (OSError, ValueError):  # it is gone, or was cut off
            refused = refused or peer.is_late
        finally:
            self._end(peer, refused)

    def _end(self, peer: Peer, refused: bool) -> None:
        self._answers.leases.leave(peer)
        with self._lock:
            with suppress(ValueError):
                self._strangers.remove(peer)
            self._connections.discard(peer)
            self._refused += refused
            for i, number in enumerate(peer.counts):
                self._counts[i] += number
            peer.requests = peer.rows = peer.row_bytes = peer.samples = 0
        with suppress(OSError):
            peer.stop(socket.SHUT_WR)
            peer.socket.close()

    def _greet(self, peer: Peer, inbox: wire.Inbox, until: float) -> bool:
        """Find out who a client is; return False if it has ended instead."""
        frame = inbox.frame(until)
        if frame is None:
            return False
        expect(frame, wire.HELLO)
        _, client_nonce = wire.unpack_hello(frame.body)
        nonce = secrets.token_bytes(wire.NONCE_BYTES)
        hello = wire.pack_hello(nonce, self._token is not None)
        # A client that gets the last answer has its place.
        if self._token is None:
            self._admit(peer)
        peer.send(wire.HELLO, frame.request, hello)
        if self._token is not None:
            frame = inbox.frame(until)
            if frame is None:
                return False
            expect(frame, wire.AUTH)
            expected = wire.prove(self._token, b"client", client_nonce, nonce)
            if not hmac.compare_digest(bytes(frame.body), expected):
                error = AccessDeniedError("the token is wrong")
                peer.send(wire.AUTH, frame.request, wire.pack_error(error), flags=wire.ERROR)
                return False
            self._admit(peer)
            proof = wire.prove(self._token, b"server", client_nonce, nonce)
            peer.send(wire.AUTH, frame.request, proof)
        return True

    def _admit(self, peer: Peer) -> None:
        """Give a stranger a place.

        Raises:
            BusyError: there is none.
        """
        with self._lock:
            if peer not in self._strangers:
                raise wire.BusyError("there are too many connections")
            if len(self._connections) >= self._most:
                raise wire.BusyError(f"there are {self._most} connections already")
            self._strangers.remove(peer)
            self._connections.add(peer)

    def _answer(self, peer: Peer, inbox: wire.Inbox) -> None:
        """Answer the requests of a client until it ends."""
        while True:
            frame = inbox.frame()
            if frame is None:
                return
            self._answers.answer(peer, frame)


def _leave_to_parent() -> None:
    for server in list(_servers):
        server.leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parent)


def check_seconds(value: Any, name: str = "grace") -> float:
    """Return the seconds that something may take; perhaps infinite.

    Raises:
        InvalidArgumentError: negative or no number.
    """
    seconds = as_number(value, name)
    if not seconds >= 0:
        raise InvalidArgumentError(f"{name} = {seconds} is no time: give seconds from 0 on, or inf")
    return seconds


def _as_path(path: Any) -> str:
    try:
        return os.fsdecode(path)
    except Exception:  # whatever an object of somebody else raises
        raise InvalidArgumentError(f"unix = {shown(path)} is no path") from None
