"""Servers that have a range of the rows each, and one client of them all."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.serving import Client

from aethergraph import FeatureTable, Graph
from aethergraph.errors import FileChangedError, InvalidArgumentError, ServerTimeoutError
from aethergraph.remote import FeatureServer, open_graph, open_source, open_tables, wire
from aethergraph.remote.rows import RemoteRows
from aethergraph.remote.served import shard_range


@given(st.integers(0, 2**40), st.integers(1, 50))
def test_ranges_are_equal_and_whole(num_rows: int, n: int) -> None:
    ranges = [shard_range(num_rows, k, n) for k in range(n)]
    assert ranges[0][0] == 0 and ranges[-1][1] == num_rows
    assert all(mine[1] == its[0] for mine, its in pairwise(ranges))
    sizes = {end - begin for begin, end in ranges}
    assert max(sizes) - min(sizes) <= 1


def url_of(servers: list[FeatureServer], options: str = "", name: str = "/x") -> str:
    return f"tcp://{','.join(f'127.0.0.1:{one.port}' for one in servers)}{name}{options}"


def test_rows_come_from_their_shards(x: Any) -> None:
    servers = [FeatureServer(x, port=0, shard=(k, 3)).start() for k in range(3)]
    try:
        source = RemoteRows(url_of(servers[::-1]))  # in any order
        ids = np.random.default_rng(0).integers(0, len(x), 20_000)
        assert (source.gather(ids) == x[ids]).all()
        owners = np.searchsorted([shard_range(len(x), k, 3)[1] for k in range(3)], ids, "right")
        assert [one.stats().rows for one in servers] == np.bincount(owners).tolist()
        first = np.arange(10)  # of one shard alone
        assert (source.gather(first) == x[first]).all()
        assert servers[2].stats().rows == np.bincount(owners)[2]
    finally:
        for one in servers:
            one.close()


def test_a_server_answers_for_its_own_rows_alone(x: Any) -> None:
    """Another row may be of another version there; a client of another make may ask for it."""
    begin, end = shard_range(len(x), 1, 3)
    with FeatureServer(x, port=0, shard=(1, 3)) as server:
        client = Client(server.port or 0)
        for row, is_its_own in ((begin - 1, False), (begin, True), (end - 1, True), (end, False)):
            wire.send(client.socket, wire.GATHER, 2, *wire.pack_gather(0, np.array([row])))
            _, flags, _, body = client.reply()
            assert (flags == 0, body == x[row].tobytes()) == (is_its_own, is_its_own)
        client.socket.close()


@pytest.mark.parametrize("num_rows", [0, 1, 2, 3])
def test_fewer_rows_than_shards(num_rows: int) -> None:
    """Shards without rows begin where others do; none is missing, in whatever order they come."""
    rows = np.arange(4 * num_rows, dtype=np.float32).reshape(num_rows, 4)
    with ExitStack() as stack:
        servers = [
            stack.enter_context(FeatureServer({"x": rows}, port=0, shard=(k, 3))) for k in range(3)
        ]
        for order in permutations(servers):
            with RemoteRows(url_of(list(order))) as source:
                out = np.full_like(rows, -1)
                assert (source.gather(np.arange(num_rows), out) == rows).all()
        for some in (servers[:2], [*servers[:2], servers[1]]):
            if num_rows:
                with pytest.raises(InvalidArgumentError, match="give the addresses of all"):
                    open_source(url_of(some))


def test_all_shards_must_be_there(x: Any) -> None:
    servers = [FeatureServer(x, port=0, shard=(k, 3)).start() for k in range(3)]
    whole = FeatureServer(x, port=0).start()
    half = FeatureServer(x[:100], port=0, shard=(1, 3)).start()
    try:
        for some, words in (
            (servers[:2], "have the shards 0/3, 1/3: give the addresses of all, each once"),
            (servers[1:], "have the shards 1/3, 2/3"),
            ([*servers, servers[0]], "have the shards 0/3, 0/3, 1/3, 2/3"),
            ([whole, whole], "0/1, 0/1"),
            ([servers[0], half, servers[2]], "are not shards of one table"),
        ):
            with pytest.raises(InvalidArgumentError, match=words):
                open_source(url_of(some))
    finally:
        for one in (*servers, whole, half):
            one.close()


def test_shards_of_different_files_are_refused(tmp_path: Path) -> None:
    """They would be a graph that nobody has made, and rows of two versions."""
    folders = [tmp_path / name for name in ("one", "copy", "other")]
    for folder, seed in zip(folders, (0, 0, 1), strict=True):
        folder.mkdir()
        rng = np.random.default_rng(seed)
        graph = Graph.from_edges(100, *rng.integers(0, 100, (2, 500)))
        graph.features = rng.random((100, 3))
        graph.save(folder / "g.aeg")
        np.save(folder / "x.npy", rng.random((100, 3)))
    with ExitStack() as stack:

        def serve(folder: Path, k: int) -> FeatureServer:
            tables = {**open_tables(folder / "g.aeg", lists=True)}
            tables["rows"] = FeatureTable.load(folder / "x.npy")
            server = FeatureServer(tables, port=0, shard=(k, 2)).start()
            stack.callback(server.close)
            return server

        first, copy, other = (
            serve(folder, k) for folder, k in zip(folders, (0, 1, 1), strict=True)
        )
        graph = open_graph(url_of([first, copy], name=""))
        assert (graph.in_degrees() == Graph.load(folders[0] / "g.aeg").in_degrees()).all()
        words = "shards 0/2 and 1/2 are of different files"
        with pytest.raises(InvalidArgumentError, match=words):
            open_graph(url_of([first, other], name=""))
        with pytest.raises(InvalidArgumentError, match=words):
            open_source(url_of([first, other]))
        assert len(open_source(url_of([first, other], name="/rows"))) == 100  # nobody can know


def test_a_shard_that_is_gone_is_named(x: Any) -> None:
    servers = [FeatureServer(x, port=0, shard=(k, 2)).start() for k in range(2)]
    source = RemoteRows(url_of(servers, "?timeout=2"))
    try:
        servers[1].close()
        assert (source.gather([1, 2]) == x[[1, 2]]).all()  # of the other one
        with pytest.raises(ServerTimeoutError, match=f"tcp://127.0.0.1:{servers[1].port} was not"):
            source.gather([1, 4000])
        assert (source.gather([1, 2]) == x[[1, 2]]).all()
        servers[1].start()
        assert (source.gather([1, 4000]) == x[[1, 4000]]).all()
    finally:
        for one in servers:
            one.close()


def test_another_shard_at_a_place_is_named(x: Any) -> None:
    rows = FeatureTable.from_array(x)
    with FeatureServer(rows, port=0, shard=(0, 2)) as first:
        second = FeatureServer(rows, port=0, shard=(1, 2)).start()
        port = second.port
        source = RemoteRows(url_of([first, second]))
        second.close()
        with FeatureServer(rows, port=port, shard=(0, 2)):
            with pytest.raises(FileChangedError, match=r"\(shard 0/2, before 1/2; generation"):
                source.gather([len(x) - 1])
