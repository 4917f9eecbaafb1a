"""Rows that are read out of a server's memory by UCX, between processes of this machine.

No card is needed: UCX asks a thread of the server's process, which copies the memory as a card
would, beside its writers and without a look at their order. Calls, keys and checks are the same.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.live_rows import ITEMS, ROWS, rows_of, write
from support.processes import in_fork
from support.serving import Client, address_in, served
from support.threads import run_together, running

from aethergraph import DynamicGraph, FeatureTable, LiveFeatureTable, errors
from aethergraph import _native as native
from aethergraph._native import rdma
from aethergraph.remote import FeatureServer, onesided, open_source, open_tables, wire
from aethergraph.remote.rows import RemoteRows

pytestmark = pytest.mark.any_python

READS = int(float(os.environ.get("AETHERGRAPH_SOAK_READS", "4e4")))


@pytest.fixture(scope="module", autouse=True)
def transports() -> Iterator[None]:
    """Let UCX take what there is on one machine; skip without UCX."""
    before = {name: os.environ.get(name) for name in ("AETHERGRAPH_UCX_TLS", "UCX_LOG_LEVEL")}
    os.environ.setdefault("AETHERGRAPH_UCX_TLS", "tcp")
    os.environ.setdefault("UCX_LOG_LEVEL", "error")
    problem = rdma.rdma_problem()
    if problem is not None:
        pytest.skip(f"{problem}: aethergraph doctor tells")
    yield
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveFeatureTable, str]]:
    """A table of 300 rows, some of them missing, and the address of its server."""
    path = tmp_path_factory.mktemp("rdma") / "t.aet"
    table = LiveFeatureTable.create(path, 300, 12)
    table.put_many(np.arange(200), np.arange(2400, dtype=np.float32).reshape(200, 12))
    with served(path, "--tcp", "127.0.0.1:0", "--rdma") as (_, line):
        yield table, address_in(line).replace("tcp://", "rdma://")


def test_live_graphs_are_mapped_further_where_ucx_watches(
    live: tuple[LiveFeatureTable, str], tmp_path: Path
) -> None:
    """It puts functions of its own in place of the C library's, one without the new address."""
    open_source(live[1]).gather([7])
    with DynamicGraph.open(tmp_path / "g", 50, 16) as graph:
        graph.insert_edges(np.arange(49), np.arange(1, 50))
        graph.merge()  # a reader of what is over a base maps its lists when it first asks
        graph.add_nodes(5000)
        graph.insert_edge(5000, 8)
        for reader in (DynamicGraph.attach(tmp_path / "g"), pickle.loads(pickle.dumps(graph))):
            with reader:
                assert reader.in_neighbors(8).tolist() == [7, 5000]


def test_rows_come_without_a_request(live: tuple[LiveFeatureTable, str]) -> None:
    table, place = live
    source = open_source(place)
    assert isinstance(source, RemoteRows) and source.transport == "rdma" and source.is_live
    ids = np.random.default_rng(0).integers(0, 200, 10_000)  # several windows
    assert (source.gather(ids) == table.gather(ids)).all()
    table.put(7, np.full(12, 5.0))
    assert source.gather([7]).tolist() == [[5.0] * 12]
    assert source.gather([], dtype="float64").shape == (0, 12)
    assert source.gather([7], dtype="float64").dtype == np.float64
    assert pickle.loads(pickle.dumps(source)).gather([7]).tolist() == [[5.0] * 12]
    with pytest.raises(errors.OutOfRangeError, match=r"ids\[1\] = 300"):
        source.gather([3, 300])


def test_the_server_says_what_becomes_of_missing_rows(live: tuple[LiveFeatureTable, str]) -> None:
    source = open_source(live[1])
    with pytest.raises(errors.MissingRowError, match="row 250") as caught:
        source.gather([1, 2, 250, 3])
    assert (caught.value.position, caught.value.value) == (2, 250)
    zeros = LiveFeatureTable.create(None, 10, 3, missing="zero")
    zeros.put(4, [1, 2, 3])
    with FeatureServer(zeros, port=0, rdma=True) as server:
        source = open_source(f"rdma://127.0.0.1:{server.port}")
        assert source.gather([4, 5, 4]).tolist() == [[1, 2, 3], [0, 0, 0], [1, 2, 3]]
        assert server.stats().rows == 1  # the missing one


def test_a_row_that_is_left_torn() -> None:
    table = LiveFeatureTable.create(None, 10, 3)
    table.put_many(np.arange(10), np.ones((10, 3)))
    raw = native.LiveSlots.attach(table.descriptor, True).slots
    where = native.without_read_only(raw)
    where[6, 0] |= 1  # as a writer leaves it that was killed
    with FeatureServer(table, port=0, rdma=True) as server:
        source = open_source(f"rdma://127.0.0.1:{server.port}")
        with pytest.raises(errors.TornRowError, match="row 6") as caught:
            source.gather([1, 6, 2])
        assert caught.value.position == 1
        table.put(6, [2, 2, 2])
        assert source.gather([6]).tolist() == [[2, 2, 2]]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
def test_other_rows_are_copied_into_slots(dtype: str) -> None:
    kind = "uint16" if dtype == "bfloat16" else dtype
    rows = np.random.default_rng(1).integers(0, 100, (5000, 2, 3)).astype(kind)
    store = FeatureTable.from_array(rows, dtype="bfloat16" if dtype == "bfloat16" else None)
    with FeatureServer(store, port=0, rdma=True) as server:
        source = open_source(f"rdma://127.0.0.1:{server.port}")
        assert isinstance(source, RemoteRows) and source.transport == "rdma"
        assert source.dtype_name == dtype and not source.is_live
        ids = np.random.default_rng(2).integers(0, 5000, 9000)
        assert (source.gather(ids) == store.gather(ids)).all()
        assert server.stats().rows == 0


def test_scaled_rows() -> None:
    table = LiveFeatureTable.create(None, 50, 33, "int8", scale="row")
    table.put_many(np.arange(50), np.random.default_rng(0).random((50, 33), np.float32))
    with FeatureServer(table, port=0, rdma=True) as server:
        source = open_source(f"rdma://127.0.0.1:{server.port}")
        assert isinstance(source, RemoteRows) and source.transport == "rdma"
        assert (source.gather(np.arange(50)) == table.gather(np.arange(50))).all()


def test_shards() -> None:
    table = LiveFeatureTable.create(None, 1000, 4)
    table.put_many(np.arange(990), np.arange(3960, dtype=np.float32).reshape(990, 4))
    servers = [FeatureServer(table, port=0, rdma=True, shard=(k, 3)).start() for k in range(3)]
    places = ",".join(f"127.0.0.1:{one.port}" for one in servers)
    source = open_source(f"rdma://{places}")
    ids = np.random.default_rng(0).integers(0, 990, 3000)
    assert (source.gather(ids) == table.gather(ids)).all()
    with pytest.raises(errors.MissingRowError) as caught:
        source.gather([1, 500, 995])
    assert caught.value.position == 2
    assert sum(one.stats().rows for one in servers) == 0
    for one in servers:
        one.close()


def test_no_torn_row_is_taken(tmp_path: Path) -> None:
    """Beside writers in threads here and in the server's process, out of whose memory rows come."""
    table = LiveFeatureTable.create(tmp_path / "t", ROWS, ITEMS)
    table.put_many(np.arange(ROWS), rows_of(np.arange(ROWS), 0))
    stop, wrong = threading.Event(), 0
    with served(tmp_path / "t", "--tcp", "127.0.0.1:0", "--rdma") as (_, line):
        source = open_source(address_in(line).replace("tcp://", "rdma://"))
        assert isinstance(source, RemoteRows) and source.transport == "rdma"
        with running(*(partial(write, table, k, stop) for k in (1, 2))):
            try:
                rng = np.random.default_rng(0)
                for _ in range(READS // 1000):
                    ids = rng.integers(0, ROWS, 1000)
                    rows = source.gather(ids)
                    puts = rows[:, :1] - ids[:, None]
                    wrong += int((rows != rows[:, :1]).any(1).sum() + (puts % ROWS != 0).sum())
            finally:
                stop.set()
    assert wrong == 0


@pytest.mark.slow
def test_a_server_that_is_killed(tmp_path: Path) -> None:
    """Its end is seen; another one with the same table goes on, one with another does not."""
    for name, value in (("t", 1.0), ("u", 2.0)):
        LiveFeatureTable.create(tmp_path / name, 10, 3).put_many(
            np.arange(10), np.full((10, 3), value)
        )
    with served(tmp_path / "u", "--tcp", "127.0.0.1:0", "--rdma") as (process, line):
        place = address_in(line)
        source = open_source(place.replace("tcp://", "rdma://") + "?timeout=5")
        assert source.gather([3]).tolist() == [[2.0] * 3]
        process.send_signal(signal.SIGKILL)
        process.wait()
        with pytest.raises(errors.ServerTimeoutError, match="not reached within 5 s"):
            for _ in range(100):
                source.gather([3])
    port = int(place.rpartition(":")[2])
    with FeatureServer(open_tables(tmp_path / "u"), port=port, rdma=True):
        assert source.gather([3]).tolist() == [[2.0] * 3]
    with FeatureServer({"u": open_tables(tmp_path / "t")["t"]}, port=port, rdma=True):
        with pytest.raises(errors.FileChangedError, match="open them again"):
            for _ in range(100):  # until the end of the server before is seen
                source.gather([3])
        assert open_source(place.replace("tcp://", "rdma://")).gather([3]).tolist() == [[1.0] * 3]


@pytest.mark.forks
def test_a_child_connects_anew(live: tuple[LiveFeatureTable, str]) -> None:
    source: Any = open_source(live[1])
    before = source.gather([1, 2]).tolist()
    assert in_fork(lambda: (source.gather([1, 2]).tolist(), source.transport)) == (before, "rdma")
    assert source.gather([1, 2]).tolist() == before


def test_threads(live: tuple[LiveFeatureTable, str]) -> None:
    table, place = live
    source = open_source(place)

    def gather(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(20):
            ids = rng.integers(8, 200, 300)
            assert (source.gather(ids) == table.gather(ids)).all()

    run_together(*(partial(gather, seed) for seed in range(3)))


class TestKeys:
    """Keys are for those who have proved to know the token."""

    def test_of_a_stranger(self) -> None:
        table = LiveFeatureTable.create(None, 10, 3)
        with FeatureServer(table, port=0, rdma=True, token="secret") as server:
            assert server.port is not None
            client = Client(server.port)
            wire.send(client.socket, wire.ATTACH, 2, wire.pack_attach(0, onesided.RDMA))
            op, flags, _, body = client.reply()
            assert flags == wire.ERROR and b"key" not in body and op != wire.ATTACH
            assert client.has_ended()
            first = Client(server.port, hello=False)
            wire.send(first.socket, wire.ATTACH, 1, wire.pack_attach(0, onesided.RDMA))
            assert first.reply()[1] == wire.ERROR
            wrong = Client(server.port)
            proof = wire.prove(b"guess", b"client", *wrong.nonces)
            wire.send(wrong.socket, wire.AUTH, 2, proof)
            assert wrong.reply()[1] == wire.ERROR and wrong.has_ended()

    def test_with_the_token(self, token_file: Path) -> None:
        table = LiveFeatureTable.create(None, 10, 3)
        table.put(1, [1, 2, 3])
        with FeatureServer(table, port=0, rdma=True, token="a secret") as server:
            source = open_source(f"rdma://127.0.0.1:{server.port}?token_file={token_file}")
            assert isinstance(source, RemoteRows) and source.transport == "rdma"
            assert source.gather([1]).tolist() == [[1, 2, 3]]


class TestTakingTcp:
    """Take rows over TCP where memory cannot be read, and say why."""

    def check(self, port: Any, caplog: pytest.LogCaptureFixture, words: str) -> None:
        with caplog.at_level(logging.WARNING, "aethergraph"):
            source = open_source(f"rdma://127.0.0.1:{port}")
            for _ in range(2):
                assert source.gather([1]).tolist() == [[1, 2, 3]]
        assert isinstance(source, RemoteRows) and source.transport == "tcp"
        [said] = [one.message for one in caplog.records if "rdma://" in one.message]
        assert words in said and "rows come over TCP" in said

    @pytest.fixture
    def table(self) -> LiveFeatureTable:
        table = LiveFeatureTable.create(None, 10, 3)
        table.put(1, [1, 2, 3])
        return table

    def test_a_server_without(self, table: Any, caplog: pytest.LogCaptureFixture) -> None:
        with FeatureServer(table, port=0) as server:
            self.check(server.port, caplog, "start it with rdma")

    def test_another_version(
        self, table: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with FeatureServer(table, port=0, rdma=True) as server:
            monkeypatch.setattr(rdma, "rdma_version", lambda: 0x10063)
            self.check(server.port, caplog, "UCX is 1.99 here and 1.")

    def test_no_card(
        self, table: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if os.path.isdir("/sys/class/infiniband"):
            pytest.skip("there is a card here")
        monkeypatch.delenv("AETHERGRAPH_UCX_TLS")
        with FeatureServer(table, port=0, rdma=True) as server:
            assert "no RDMA" in caplog.text
            caplog.clear()
            self.check(server.port, caplog, "no InfiniBand or RoCE device here")

    def test_rows_that_cannot_be_copied(self, caplog: pytest.LogCaptureFixture) -> None:
        graph = DynamicGraph(10, 16, huge_pages=False)
        graph.node_attrs["x"] = np.arange(10.0)
        with FeatureServer(graph.node_attrs["x"], port=0, rdma=True) as server:
            assert "do not lie in slots" in caplog.text
            assert open_source(f"rdma://127.0.0.1:{server.port}").gather([1]).tolist() == [1]
        graph.close()

    def test_a_unix_socket_alone(self, table: Any, tmp_path: Path) -> None:
        with pytest.raises(errors.InvalidArgumentError, match="rdma needs port="):
            FeatureServer(table, unix=tmp_path / "s", rdma=True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"key": "no hex"}, "cannot be read"),
        ({"base": "x"}, "cannot be read"),
        ({"shape": [99]}, "contradicts"),
        ({"code": 77}, "contradicts"),
        ({"stride": None}, "cannot be read"),
    ],
)
def test_a_server_that_tells_nonsense(
    change: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = onesided.SlotServer.answer
    monkeypatch.setattr(
        onesided.SlotServer, "answer", lambda self, number: {**answer(self, number), **change}
    )
    table = LiveFeatureTable.create(None, 10, 3)
    with FeatureServer(table, port=0, rdma=True) as server:
        with pytest.raises(errors.FormatError, match=words):
            open_source(f"rdma://127.0.0.1:{server.port}")
