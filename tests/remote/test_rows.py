"""Rows that come over a connection are those of the source."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.threads import WAIT, running

from aethergraph import CachedRows, DynamicGraph, FeatureTable
from aethergraph.errors import (
    AetherError,
    ClosedError,
    FileChangedError,
    InvalidArgumentError,
    MissingRowError,
    OutOfRangeError,
    StorageError,
    UnsupportedError,
)
from aethergraph.protocols import RowSource
from aethergraph.remote import FeatureServer, address, endpoint, open_source, wire
from aethergraph.remote.rows import RemoteRows


def test_many_rows_go_in_many_requests(x: Any, server: FeatureServer) -> None:
    ids = np.random.default_rng(1).integers(0, len(x), 50_000)
    with RemoteRows(server.address) as remote:
        assert (remote.gather(ids) == x[ids]).all()
        assert remote.stats() == (1, 50_000, 1, 0)
    stats = server.stats()
    assert (stats.requests, stats.rows) == (13, 50_000)  # 4096 rows each
    assert stats.row_bytes == 50_000 * 64


@pytest.fixture(scope="module")
def wide() -> Iterator[tuple[Any, list[RowSource]]]:
    """Rows of 1000 numbers, and sources of them: of one server, and of four shards."""
    table = np.random.default_rng(2).integers(0, 2**62, (301, 1000))
    servers = [FeatureServer(table, port=0, shard=(k, 4)).start() for k in range(4)]
    servers.append(FeatureServer(table, port=0).start())
    places = ",".join(one.address.removeprefix("tcp://") for one in servers[:4])
    yield table, [open_source(servers[4].address), open_source(f"tcp://{places}/x")]
    for one in servers:
        one.close()


@given(st.lists(st.integers(0, 300), max_size=2000))
def test_any_ids(wide: tuple[Any, list[RowSource]], ids: list[int]) -> None:
    table, sources = wide
    for source in sources:  # 262 rows to a request
        assert (source.gather(ids) == table[ids].reshape(len(ids), 1000)).all()


def test_names_and_places(tmp_path: Path, x: Any) -> None:
    tables = {"x": x, "user/y": np.arange(9), "z": np.arange(3.0)}
    path = tmp_path / "socket"
    with FeatureServer(tables, port=0, unix=path) as server:
        assert server.addresses == [f"tcp://127.0.0.1:{server.port}", f"unix://{path}"]
        for place in server.addresses:
            assert (open_source(f"{place}/user/y").gather([8, 0]) == [8, 0]).all()
            assert (open_source(f"{place}?name=z").gather([2]) == [2]).all()
            with pytest.raises(
                InvalidArgumentError, match=r"give the name of a table, as .*: x, user/y"
            ):
                open_source(place)
        assert open_source(f"rdma://127.0.0.1:{server.port}/z").num_rows == 3
        with pytest.raises(StorageError, match="Address already in use"):
            FeatureServer(x, unix=path).start()
    assert not path.exists()
    with FeatureServer(x, unix=path):
        os.rename(path, tmp_path / "kept")
    os.rename(tmp_path / "kept", path)  # as a server that was killed leaves it
    with FeatureServer(x, unix=path) as server:
        assert path.stat().st_mode & 0o777 == 0o600
        assert open_source(server.address).num_rows == len(x)
    path.write_text("no socket")
    with pytest.raises(StorageError, match="is there, and is no socket"):
        FeatureServer(x, unix=path).start()
    assert path.read_text() == "no socket"


def test_files_are_mapped(tmp_path: Path, x: Any) -> None:
    np.save(tmp_path / "x.npy", x)
    source = open_source(f"shm://{tmp_path}/x.npy")
    assert isinstance(source, FeatureTable) and (source.gather([7]) == x[[7]]).all()


def test_a_cache_within_a_budget(x: Any, server: FeatureServer) -> None:
    source = open_source(f"{server.address}?memory_budget=1M")
    assert isinstance(source, CachedRows)
    for _ in range(3):
        assert (source.gather(np.arange(1000)) == x[:1000]).all()
    assert server.stats().rows == 1000 and source.stats().hits == 2000


class Changing(RowSource):
    """Rows that change."""

    shape, dtype_name, is_live = (10,), "int64", True

    def __init__(self) -> None:
        self.now = 0

    def gather_into(self, ids: Any, out: Any) -> None:
        out[...] = ids + self.now


def test_rows_that_change_are_not_kept() -> None:
    changing = Changing()
    with FeatureServer(changing, port=0) as server:
        source = open_source(f"{server.address}?memory_budget=1M")
        assert isinstance(source, RemoteRows) and source.is_live and source.fingerprint is None
        assert source.gather([3]) == 3
        changing.now = 5
        assert source.gather([3]) == 8


def test_rows_that_change_are_kept_for_a_while() -> None:
    changing = Changing()
    with FeatureServer(changing, port=0) as server:
        source = open_source(f"{server.address}?max_age=1000")
        assert isinstance(source, CachedRows) and source.is_live
        assert source.gather([3]) == 3
        changing.now = 5
        assert source.gather([3, 4]).tolist() == [3, 9]
        assert isinstance(open_source(f"{server.address}?max_age=0&memory_budget=1M"), RemoteRows)
        with pytest.raises(InvalidArgumentError, match="max_age"):
            open_source(f"{server.address}?max_age=-1")


def test_more_tables_than_places(x: Any) -> None:
    """Connections that nobody uses make room for others of the process."""
    with FeatureServer({"a": x, "b": -x, "c": 2 * x}, port=0, max_connections=2) as server:
        a, b, c = (open_source(f"{server.address}/{name}?timeout=5") for name in "abc")
        for _ in range(2):
            for source, expected in ((a, x), (b, -x), (c, 2 * x)):
                assert (source.gather([3]) == expected[[3]]).all()
        assert server.stats().connections <= 2


def test_rows_of_a_live_graph(x: Any) -> None:
    """They are those of the last commit; who opens them after it has grown has them all."""
    graph = DynamicGraph(100, 64, huge_pages=False)
    graph.node_attrs["x"] = x[:100]
    with FeatureServer(graph.node_attrs["x"], port=0) as server:
        before = open_source(f"{server.address}?memory_budget=1M")
        assert before.is_live and (before.gather([3]) == x[[3]]).all()
        graph.update_nodes([3], x=x[[50]])
        graph.add_nodes(10, x=x[100:110])
        after = open_source(server.address)
        assert after.shape == (110, 16) and (after.gather([3, 109]) == x[[50, 109]]).all()
        assert before.shape == (100, 16) and (before.gather([3, 99]) == x[[50, 99]]).all()
        assert pickle.loads(pickle.dumps(before)).shape == (110, 16)
    graph.close()


class Wordless(OutOfRangeError):
    """Error that cannot say anything."""

    def __str__(self) -> str:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("error", "position", "value", "said"),
    [
        (MissingRowError("gone", position=np.int64(1), value=np.int32(7)), 1, 7, ": gone$"),
        (OutOfRangeError("gone", position=[1], value="seven"), None, None, ": gone$"),  # type: ignore[arg-type]
        (StopIteration(np.zeros(3)), None, None, r"tcp://.*: the server failed: StopIteration$"),
        (Wordless("gone", position=1), 1, None, "the server failed: Wordless$"),
        (OutOfRangeError("\U0001f600" * 100_000), None, None, "\U0001f600 \\.\\.\\.$"),
    ],
)
def test_any_error_reaches_a_client(error: Exception, position: Any, value: Any, said: str) -> None:
    class Failing(Changing):
        def gather_into(self, ids: Any, out: Any) -> None:
            raise error

    with FeatureServer(Failing(), port=0) as server:
        source = open_source(f"{server.address}?timeout=5")
        with pytest.raises(AetherError, match=said) as caught:
            source.gather([7, 7])
        assert (caught.value.position, caught.value.value) == (position, value)
        assert server.stats().accepted == 1  # the connection goes on


def test_places_in_a_request_and_a_file_that_was_cut(tmp_path: Path, x: Any) -> None:
    with FeatureServer(Changing(), port=0) as server:
        with pytest.raises(OutOfRangeError, match=r"ids\[1\] = 10 is not in 0..9"):
            open_source(server.address).gather([1, 10])
    np.save(tmp_path / "x.npy", x)
    with FeatureServer(FeatureTable.load(tmp_path / "x.npy"), port=0) as server:
        source = open_source(server.address)
        os.truncate(tmp_path / "x.npy", 1 << 12)
        with pytest.raises(FileChangedError):
            source.gather(np.arange(len(x)))


def test_copies_travel_as_urls(x: Any, server: FeatureServer) -> None:
    source = open_source(f"{server.address}?memory_budget=1M")
    data = pickle.dumps(source)
    assert len(data) < 500
    assert (pickle.loads(data).gather([5, 5, 1]) == x[[5, 5, 1]]).all()


def test_closed(server: FeatureServer) -> None:
    with RemoteRows(server.address) as source:
        assert "closed" not in repr(source)
    for call in (lambda: source.gather([1]), source.stats, lambda: pickle.dumps(source)):
        with pytest.raises(ClosedError):
            call()
    server.close()
    server.close()
    server.start()
    with pytest.raises(InvalidArgumentError, match="listens already"):
        server.start()
    with pytest.raises(InvalidArgumentError, match="timeout = nan is no time"):
        server.wait(float("nan"))
    server.close()
    assert server.wait(1e300)


def test_what_is_under_way_is_answered_at_the_end(
    x: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Late(threading.Thread):
        """A thread whose creator goes on late, as on a busy machine."""

        def start(self) -> None:
            super().start()
            time.sleep(0.1)

    class Slow(Changing):
        shape, dtype_name, is_live = x.shape, "float32", False

        def gather_into(self, ids: Any, out: Any) -> None:
            begun.set()
            go_on.wait(WAIT)
            time.sleep(0.2)
            out[...] = x[ids]

    monkeypatch.setattr(threading, "Thread", Late)
    # What was sent has come at once, which is not so by TCP: a loaded system delivers it later.
    server = FeatureServer(Slow(), port=None, unix=tmp_path / "s").start()
    source = RemoteRows(server.address)
    connection = source._reader.endpoints[0].take()
    requests = [
        connection.begin(wire.GATHER, *wire.pack_gather(0, np.arange(k))) for k in (3, 5)
    ]  # the second waits in the socket while the first is answered
    assert begun.wait(WAIT)
    monkeypatch.undo()
    with running(server.close):
        go_on.set()
        for request, count in zip(requests, (3, 5), strict=True):
            out = np.empty((count, 16), np.float32)
            connection.end(wire.GATHER, request, wire.bytes_of(out))
            assert (out == x[:count]).all()
    assert server.wait(0)


def test_ctrl_c_during_a_gather(server: FeatureServer, x: Any) -> None:
    """What was under way is not taken for the answer to the next gather."""
    source = RemoteRows(server.address)
    ids = np.arange(len(x))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for micros in range(1, 2000, 40):
            with suppress(KeyboardInterrupt):  # which may come behind the gather, too
                try:
                    signal.setitimer(signal.ITIMER_REAL, micros / 1e6)
                    source.gather(ids)
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            assert (source.gather([4, 2]) == x[[4, 2]]).all()
    finally:
        signal.signal(signal.SIGALRM, before)


def test_bad_addresses() -> None:
    for url, words in (
        (3, "must be a text"),
        ("http://h:1", "does not begin with one of tcp://"),
        ("tcp://h", "'h' is not HOST:PORT"),
        ("tcp://h:1,:2", "':2' is not HOST:PORT"),
        ("tcp://user@h:1", "is not HOST:PORT"),
        ("tcp://h:99999", "is not HOST:PORT"),
        ("tcp://h:1?age=3", "has the option 'age'; there are name, token_file"),
        ("tcp://h:1?timeout=x", "timeout"),
        ("tcp://h:1?timeout=-1", "not in"),
        ("shm:///x.npy?memory_budget=1M", "'memory_budget' means nothing for shm://"),
        (
            "shm:///x.npy?max_age=3&token_file=t",
            "'max_age' means nothing for shm://, which has mis",
        ),
        ("unix:///s?ca=system", "'ca' means nothing for unix://"),
        ("tcp://h:1?map=no", "'map' means nothing for tcp://"),
        ("unix://h/path", "is not unix:///PATH"),
        ("unix:///", "is not unix:///PATH"),
        ("tcp://127.0.0.1:1?token_file=/no/such&timeout=1", "token_file"),
        ("tcp://127.0.0.1:1/x#y", "has the character '#': in a name or a path write %23"),
        ("unix:///tmp/a\nb", r"has the character '\\n': in a name or a path write %0A"),
        ("tcp://127.0.0.1:0/x", "nobody listens at port 0"),
    ):
        with pytest.raises((InvalidArgumentError, StorageError), match=words):
            open_source(url)  # type: ignore[arg-type]


def test_a_plus_is_a_plus(tmp_path: Path, x: Any) -> None:
    folder = tmp_path / "a+b c"
    folder.mkdir()
    (folder / "token").write_text("secret")
    with FeatureServer({"x+y": x}, unix=folder / "s", token="secret"):
        asked = f"{tmp_path}/a+b%20c"
        source = open_source(f"unix://{asked}/s?name=x+y&token_file={asked}/token")
        assert (source.gather([3]) == x[[3]]).all()


@pytest.mark.parametrize("name", ["a #?%41 b ", "new\nline", "100%", "é+&=;'", "\udcff"])
def test_the_address_of_an_odd_path_is_a_url(tmp_path: Path, x: Any, name: str) -> None:
    with FeatureServer({"x": x}, unix=tmp_path / name) as server:
        assert "\n" not in server.address and " " not in server.address
        for options in ("", "?map=no"):
            with open_source(f"{server.address}/x{options}") as source:  # type: ignore[attr-defined]
                assert (source.gather([3]) == x[[3]]).all()
        with pytest.raises(InvalidArgumentError, match=r"\?"):
            open_source(f"{server.address}/%FF")


def test_remote_rows_are_for_reading(x: Any, server: FeatureServer) -> None:
    source = RemoteRows(server.address)
    for write in (lambda: source.put(1, x[2]), lambda: source.put_many([1], x[[2]])):
        with pytest.raises(UnsupportedError, match="rows are written where the table is"):
            write()


def test_bad_arguments_of_a_server(x: Any) -> None:
    def serve(sources: Any = x, **options: Any) -> None:
        FeatureServer(sources, **{"port": 0, **options})

    for words, options in (
        ("give port=", {"port": None}),
        ("is empty", {"sources": {}}),
        ("no name of a table", {"sources": {"": x}}),
        ("got a scalar", {"sources": {"x": np.float32(3)}}),
        (r"got 'x.npy': .*FeatureTable.load\(\) a file", {"sources": {"x": "x.npy"}}),
        ("max_connections = 0 lets nobody connect", {"max_connections": 0}),
        ("67108864 are the most", {"sources": np.zeros((0, 1 << 27), np.uint8)}),
        ("open to others: give token= and tls=", {"host": "0.0.0.0"}),
        ("open to others", {"host": "0.0.0.0", "token": "t"}),
        ("token is empty", {"token": ""}),
        ("tls = ", {"tls": ("/no", "/such")}),
        (r"shard = \(2, 2\)", {"shard": (2, 2)}),
        ("shard = 1", {"shard": 1}),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            serve(**options)
    with FeatureServer(x, port=0) as server:
        with pytest.raises(StorageError, match=f"127.0.0.1:{server.port}: .*in use"):
            FeatureServer(x, port=server.port).start()


def test_requests_fit_the_buffer() -> None:
    """What is under way must fit the socket's buffer: nobody reads it while rows are sent."""
    most = endpoint._WINDOW * (wire.MAX_IDS * 8 + 20)
    assert most < address._SEND_BYTES
