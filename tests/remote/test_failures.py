"""Servers that die, stop, come back with the same rows, or with others."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import signal
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.network import free_port
from support.serving import address_in, served
from support.threads import comes, repeating, run_together, running

from aethergraph import DynamicGraph, FeatureTable, Graph, SubgraphLoader
from aethergraph import _native as native
from aethergraph.errors import (
    AetherError,
    CancelledError,
    FileChangedError,
    FormatError,
    ServerTimeoutError,
    StorageError,
)
from aethergraph.loading import Ahead
from aethergraph.remote import FeatureServer, listening, open_graph, open_source, open_tables, wire
from aethergraph.remote.rows import RemoteRows

pytestmark = pytest.mark.any_python


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    for place in (f"tcp://127.0.0.1:{free_port()}", f"unix://{tmp_path}/none"):
        began = time.monotonic()
        with pytest.raises(ServerTimeoutError, match=rf"{place} was not reached within 0.3 s"):
            open_source(f"{place}?timeout=0.3")
        assert time.monotonic() - began < 30
    assert issubclass(ServerTimeoutError, TimeoutError)


@pytest.mark.parametrize("ask", [
    lambda url: open_source(f"{url}/none"),
    lambda url: open_graph(url, at=99),
    lambda url: open_graph(url).source._lease.gather(999, np.array([1]), np.zeros(1)),
])  # fmt: skip
def test_errors_hold_nothing(ask: Callable[[str], Any]) -> None:
    """Objects of a caller are gone with its frame, not when the collector comes."""

    class Held:
        pass

    def caller(url: str) -> weakref.ref[Held]:
        held = Held()
        with suppress(AetherError):
            ask(url)
            pytest.fail("no error")
        return weakref.ref(held)

    graphs = {"g": DynamicGraph(3)}
    with FeatureServer(np.zeros((3, 1)), graphs=graphs, port=0) as server:
        gc.collect()
        gc.disable()
        try:
            assert caller(server.address)() is None
        finally:
            gc.enable()


def test_killed_in_a_frame_and_started_again(tmp_path: Path) -> None:
    """A real process dies by SIGKILL while it sends; gathers go on when there is another."""
    x = np.random.default_rng(0).random((2000, 2000))
    np.save(tmp_path / "x.npy", x)

    def gather(rng: np.random.Generator) -> None:
        ids = rng.integers(0, len(x), 1500)  # 24 MB: never in one piece
        assert (source.gather(ids) == x[ids]).all()

    with (
        served(tmp_path / "x.npy", "--tcp", "127.0.0.1:0") as (process, line),
        ExitStack() as until_all_end,
    ):
        source = RemoteRows(f"{address_in(line)}?timeout=60")
        port = int(address_in(line).rpartition(":")[2])
        with repeating(*(partial(gather, np.random.default_rng(i)) for i in (1, 2))) as failures:
            assert comes(lambda: source.stats().gathers > 2 or failures)
            process.send_signal(signal.SIGKILL)
            process.wait()
            tables = open_tables(tmp_path / "x.npy")
            until_all_end.enter_context(FeatureServer(tables, port=port))
            before = source.stats().gathers
            assert comes(lambda: source.stats().gathers >= before + 3 or failures)
    assert source.stats().retries > 0


def test_a_server_that_is_there_for_a_moment(x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that has waited long comes again soon enough to find it."""
    port, waits = free_port(), list[float]()

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        time.sleep(seconds)

    clock = SimpleNamespace(monotonic=time.monotonic, sleep=sleep)
    monkeypatch.setattr("aethergraph.remote.endpoint.time", clock)
    found: list[Any] = []
    url = f"tcp://127.0.0.1:{port}?timeout=60"
    with running(lambda: found.append(open_source(url).gather([3]))):
        assert comes(lambda: len(waits) > 20)  # a wait that doubles has become long
        with FeatureServer(x, port=port) as server:
            assert comes(lambda: found)
            assert server.stats().accepted == 1
    assert max(waits) <= 0.1
    assert (found[0] == x[[3]]).all()


def test_sigterm_ends_in_good_order(tmp_path: Path, x: Any) -> None:
    np.save(tmp_path / "x.npy", x)
    with served(tmp_path / "x.npy", "--unix", tmp_path / "s") as (process, line):
        source = open_source(f"{address_in(line)}?map=no")
        assert (source.gather([1, 2]) == x[[1, 2]]).all()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
        assert "ended: 2 rows (128 B) in 1 requests, 1 connections" in out
        assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("what", ["_begin", "_watch"])
def test_a_start_that_fails_listens_nowhere(
    what: str, tmp_path: Path, x: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    server = FeatureServer({"x": x}, port=free_port(), unix=tmp_path / "s")
    with monkeypatch.context() as patch:
        if what == "_begin":
            patch.setattr(FeatureServer, what, interrupt)
        else:  # when all threads but this one have begun
            patch.setattr(FeatureServer, what, property(interrupt))
        with pytest.raises(KeyboardInterrupt):
            server.start()
    assert not (tmp_path / "s").exists()
    with server:
        for address in server.addresses:
            with open_source(address) as rows:
                assert (rows.gather(np.array([1])) == x[1:2]).all()


def test_a_source_of_its_own_may_close_a_server() -> None:
    class Rows:
        shape, dtype_name = (5, 2), "float32"

        def gather(self, ids: Any) -> Any:
            server.close(0)
            return np.zeros((len(ids), 2), np.float32)

    with FeatureServer({"x": Rows()}, port=0) as server:
        with pytest.raises(AetherError), open_source(f"{server.address}?timeout=0.5") as rows:
            rows.gather(np.array([1]))
        assert server.wait(60)


def test_other_rows_are_refused(tmp_path: Path, x: Any) -> None:
    np.save(tmp_path / "x.npy", x)
    server = FeatureServer(FeatureTable.load(tmp_path / "x.npy"), port=0).start()
    source = open_source(f"{server.address}?timeout=5")
    port = server.port
    server.close()
    with FeatureServer(FeatureTable.load(tmp_path / "x.npy"), port=port):  # the same file
        assert (source.gather([1]) == x[[1]]).all()
    for rows in (x, x[:10], x.astype(np.float64)):  # equal ones, too: who would know
        with FeatureServer(rows, port=port):
            with pytest.raises(FileChangedError, match=r"has other rows .*open them again"):
                source.gather([1])
    np.save(tmp_path / "x.npy", x + 1)
    with FeatureServer(FeatureTable.load(tmp_path / "x.npy"), port=port):
        with pytest.raises(FileChangedError):
            source.gather([1])
        assert (open_source(source.url).gather([1]) == x[[1]] + 1).all()  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_server_that_stops_answering(
    tmp_path: Path, x: Any, certificate: tuple[Path, Path]
) -> None:
    np.save(tmp_path / "x.npy", x)
    with served(
        tmp_path / "x.npy", "--tcp", "127.0.0.1:0", "--tls", *certificate, "--unix", tmp_path / "s"
    ) as (process, line):  # fmt: skip
        sources = [
            open_source(f"{address_in(line)}?timeout=3&ca={certificate[0]}"),
            open_source(f"unix://{tmp_path}/s?timeout=3&map=no"),
        ]
        for one in sources:
            one.gather([1])
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        for one in sources:
            began = time.monotonic()
            with pytest.raises(ServerTimeoutError, match="did not answer in time"):
                one.gather([1])
            assert time.monotonic() - began < 30
        process.send_signal(signal.SIGCONT)
        for one in sources:
            assert (one.gather([2]) == x[[2]]).all()


@pytest.mark.parametrize(
    "way", ["tls", "planned", pytest.param("shards", marks=pytest.mark.slow), "lists"]
)
def test_the_end_of_a_loader_does_not_wait_for_a_server(
    tmp_path: Path, x: Any, certificate: tuple[Path, Path], way: str
) -> None:
    """Dropping it, and Ctrl-C, end the waits of its threads for a server that has stopped."""
    rng = np.random.default_rng(1)
    graph = Graph.from_edges(len(x), *rng.integers(0, len(x), (2, 40_000)))
    np.save(tmp_path / "x.npy", x)
    graph.save(tmp_path / "g.aeg")
    path, places = tmp_path / "x.npy", [["--tcp", "127.0.0.1:0"]]
    if way == "tls":
        places[0] += ["--tls", *map(str, certificate)]
    elif way == "planned":
        places = [["--unix", f"{tmp_path}/s"]]
    elif way == "shards":
        places = [[*places[0], "--shard", f"{number}/2"] for number in range(2)]
    elif way == "lists":
        path, places = tmp_path / "g.aeg", [[*places[0], "--graph"]]
    with ExitStack() as ends:
        servers = [ends.enter_context(served(path, *place)) for place in places]
        found = [address_in(line) for _, line in servers]
        url = ",".join([found[0], *(one.removeprefix("tcp://") for one in found[1:])])
        url += "?timeout=60" + {"tls": f"&ca={certificate[0]}", "planned": "&map=no"}.get(way, "")
        local, process = graph, servers[-1][0]
        if way == "lists":
            local = open_graph(url)
        else:
            graph.node_attrs["x"] = open_source(url)
        loader = SubgraphLoader(
            local, [5, 5], batch_size=20, ahead=Ahead(3, threads=2, plan=2 * (way == "planned")),
        )  # fmt: skip
        for interrupted in (False, True):
            batches = iter(loader)
            next(batches)
            process.send_signal(signal.SIGSTOP)
            os.waitpid(process.pid, os.WUNTRACED)
            began = time.monotonic()
            if interrupted:
                with pytest.raises(KeyboardInterrupt), alarm(0.5):
                    for _ in batches:
                        pass
            else:
                time.sleep(0.5)
                del batches
            assert time.monotonic() - began < 30
            assert not [one for one in threading.enumerate() if "prefetch" in one.name]
            process.send_signal(signal.SIGCONT)
        seen = 0
        for batch in loader:
            seen += len(batch.seeds)
            if batch.x is not None:
                assert (batch.x == x[batch.subgraph.node]).all()
        assert seen == len(x)


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Interrupt the block after some seconds, as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("is_full", [False, True])
def test_waits_for_a_connection_end(x: Any, is_full: bool) -> None:
    """Nobody takes the connection, or it is taken and nothing is said."""
    task, found = native.Task(0), list[BaseException]()
    with ExitStack() as ends:
        listener = ends.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(8 * is_full):  # more than the system keeps for it
            other = ends.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(listener.getsockname())

        def open_it() -> None:
            native.cancel_with(task)
            try:
                open_source(f"tcp://127.0.0.1:{listener.getsockname()[1]}?timeout=60")
            except AetherError as error:
                found.append(error)

        with running(open_it):
            time.sleep(0.5)
            assert not found
            began = time.monotonic()
            task.cancel()
        assert time.monotonic() - began < 30
    assert [type(one) for one in found] == [CancelledError]


def test_a_long_gather_ends_when_it_is_interrupted(tmp_path: Path) -> None:
    """One of so many bytes runs in a thread of its own, which is told."""
    np.save(tmp_path / "x.npy", np.zeros((2000, 1000)))
    ids = np.arange(10_000) % 2000  # 80 MB
    with served(tmp_path / "x.npy", "--tcp", "127.0.0.1:0") as (process, line):
        source = open_source(f"{address_in(line)}?timeout=60")
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt), alarm(0.5):
            source.gather(ids)
        assert time.monotonic() - began < 30


def test_replies_that_are_wrong(x: Any) -> None:
    """A server that breaks the protocol is named, and its bytes are never rows."""
    listener = socket.create_server(("127.0.0.1", 0))
    place = f"127.0.0.1:{listener.getsockname()[1]}"
    description = (
        b'{"table": 0, "shape": [5000, 16], "dtype": "float32", "generation": "g", "live": false, '
        b'"begin": 0, "end": 5000, "shard": [0, 1], "names": ["x"]}'
    )
    answers = [
        (wire.GATHER, 0, 1, bytes(64)),  # to another request
        (wire.META, 0, 0, bytes(64)),
        (wire.GATHER, 0, 0, bytes(63)),
        (wire.GATHER, 0, 0, bytes(65)),
        (wire.GATHER, 2, 0, bytes(64)),
        (wire.GATHER, wire.ERROR, 0, b"?"),
    ]

    def answer() -> None:
        for op, flags, ahead, body in answers:
            sock, _ = listener.accept()
            with sock:
                inbox = wire.Inbox(sock)
                for number in range(3):
                    frame = inbox.frame()
                    assert frame is not None
                    if number == 2:
                        wire.send(sock, op, frame.request + ahead, body, flags=flags)
                    else:
                        hello = wire.pack_hello(os.urandom(wire.NONCE_BYTES))
                        wire.send(sock, frame.op, frame.request, (hello, description)[number])
                with suppress(OSError):
                    inbox.frame(time.monotonic() + 30)

    with running(answer), listener:
        source = open_source(f"tcp://{place}?timeout=60")
        for _ in answers:
            with pytest.raises(FormatError, match=f"tcp://{place}: "):
                source.gather([1])


def test_a_server_that_announces_too_much() -> None:
    for wrong in (b"{}", b"[", b'{"table": 0, "shape": [-1], "dtype": "float32"}'):
        listener = socket.create_server(("127.0.0.1", 0))

        def answer(listener: socket.socket = listener, wrong: bytes = wrong) -> None:
            sock, _ = listener.accept()
            with sock, listener:
                inbox = wire.Inbox(sock)
                for body in (wire.pack_hello(bytes(32)), wrong):
                    frame = inbox.frame()
                    assert frame is not None
                    wire.send(sock, frame.op, frame.request, body)

        with running(answer), pytest.raises(FormatError, match="description"):
            open_source(f"tcp://127.0.0.1:{listener.getsockname()[1]}")


def test_two_servers_at_a_socket_that_was_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One takes the place of the server that is no more; the other is told that it is taken."""
    path, found = str(tmp_path / "s"), list[socket.socket | StorageError]()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(path)
    is_served = listening._is_served

    def slowly(path: str) -> bool:
        served = is_served(path)
        time.sleep(0.3)
        return served

    def begin() -> None:
        try:
            found.append(listening.listen_unix(path))
        except StorageError as error:
            found.append(error)

    monkeypatch.setattr(listening, "_is_served", slowly)
    run_together(begin, begin)
    assert [str(one) for one in found if isinstance(one, StorageError)] == [
        f"{path}: [Errno 98] Address already in use"
    ]
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(path)
    for one in found:
        if isinstance(one, socket.socket):
            one.close()


@pytest.mark.parametrize("error", [None, errno.EACCES, errno.EBADF, errno.ENOLCK])
def test_a_socket_in_a_folder_that_is_not_locked(
    x: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int | None
) -> None:
    """Others hold its lock, or it has none, as on NFS, or may not be read: it is done without."""

    def fail(*_: Any) -> None:
        assert error is not None
        raise OSError(error, os.strerror(error))

    holder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    monkeypatch.setattr(listening, "_TRIES", 2)
    with monkeypatch.context() as patch:
        if error is not None:
            patch.setattr(*((os, "open") if error == errno.EACCES else (fcntl, "flock")), fail)
        server = FeatureServer(x, unix=tmp_path / "s").start()
    assert (RemoteRows(server.address).gather([1]) == x[[1]]).all()
    server.close()
    os.close(holder)


def test_a_server_leaves_its_socket_while_it_listens(
    x: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else another one, which begins meanwhile, would lose the one that it has just made."""
    path, unlink = str(tmp_path / "s"), os.unlink

    def checked(name: str) -> None:
        assert listening._is_served(name)
        unlink(name)

    server = FeatureServer(x, unix=path).start()
    monkeypatch.setattr(os, "unlink", checked)
    server.close()
    assert not os.path.exists(path)


@pytest.mark.forks
def test_children_keep_no_sockets(x: Any) -> None:
    """The end of a server, or of a client, is seen, whatever children were forked meanwhile."""
    reading, writing = os.pipe()
    owner = os.fork()
    if owner == 0:
        try:
            server = FeatureServer(x, port=0).start()
            source = RemoteRows(server.address)
            source.gather([1])
            child = os.fork()
            if child:
                source.close()
                given_up = comes(lambda: server.stats().connections == 0)
                os.write(writing, f"{child} {server.port} {given_up}\n".encode())
            time.sleep(600)
        finally:
            os._exit(1)
    os.close(writing)
    with open(reading) as told:
        child, port, given_up = told.readline().split()
    try:
        os.kill(owner, signal.SIGKILL)
        os.waitpid(owner, 0)
        assert given_up == "True"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(port)), 5)
    finally:
        os.kill(int(child), signal.SIGKILL)
