"""Tables whose rows change, from a server and by their files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aethergraph import DynamicGraph, FeatureTable, LiveFeatureTable, errors
from aethergraph.remote import FeatureServer, open_source, open_tables
from aethergraph.remote.endpoint import Connection, Table


def test_what_is_put_is_read(tmp_path: Path) -> None:
    path = tmp_path / "users.aet"
    table = LiveFeatureTable.create(path, 100, 4)
    table.put_many(np.arange(100), np.zeros((100, 4), np.float32))
    assert list(open_tables(path)) == ["users"]
    with FeatureServer(open_tables(path), port=0) as server:
        sources = [open_source(f"{server.address}/users"), open_source(f"shm://{path}")]
        for value in (1, 2, 3):
            table.put(7, np.full(4, value, np.float32))
            for source in sources:
                assert source.is_live
                assert source.gather([7, 8]).tolist() == [[value] * 4, [0] * 4]


def test_shards_of_rows_that_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last shard has the rows of nodes that were added since the servers were started."""
    graph = DynamicGraph(10, 8)
    graph.node_attrs["x"] = np.arange(10, dtype=np.float32)

    def serve(rows: object, k: int) -> FeatureServer:
        return FeatureServer({"x": rows}, port=0, shard=(k, 2)).start()

    servers = [serve(graph.node_attrs["x"], k) for k in range(2)]
    url = f"tcp://127.0.0.1:{servers[0].port},127.0.0.1:{servers[1].port}/x"
    before = open_source(url)
    graph.add_nodes(2, x=[10, 11])
    after = open_source(url)
    assert (len(before), len(after)) == (10, 12)
    assert before.gather([9, 0]).tolist() == [9, 0]
    before._reader.endpoints[1].forget()  # type: ignore[attr-defined]
    assert before.gather([9, 0]).tolist() == [9, 0]
    assert after.gather([11, 0, 9, 10]).tolist() == [11, 0, 9, 10]
    describe = Connection._describe

    def describe_and_add(connection: Connection, name: str) -> Table:
        found = describe(connection, name)
        graph.add_nodes(1, x=[graph.num_nodes])
        return found

    with monkeypatch.context() as patch:  # rows are added while one is asked after another
        patch.setattr(Connection, "_describe", describe_and_add)
        while_added = open_source(url)
    assert while_added.gather([12, 0]).tolist() == [12, 0]
    other = serve(LiveFeatureTable.create(None, 30, ()), 1)
    with pytest.raises(errors.InvalidArgumentError, match="are not shards of one table"):
        open_source(f"tcp://127.0.0.1:{servers[0].port},127.0.0.1:{other.port}/x")
    for one in (*servers, other):
        one.close()


def test_rows_that_nobody_has_written(tmp_path: Path) -> None:
    """They are errors, or zeros where the server or the URL of a file says so."""
    path = tmp_path / "t.aet"
    LiveFeatureTable.create(path, 10, 2).put(1, [5, 6])
    with FeatureServer(open_tables(path), port=0) as server:
        for source in (open_source(server.address), open_source(f"shm://{path}")):
            with pytest.raises(errors.MissingRowError, match="row 3"):
                source.gather([3])
    with FeatureServer(open_tables(path, missing="zero"), port=0) as server:
        for source in (open_source(server.address), open_source(f"shm://{path}?missing=zero")):
            assert source.gather([1, 3]).tolist() == [[5, 6], [0, 0]]
    with pytest.raises(errors.InvalidArgumentError, match="missing"):
        open_tables(path, missing="none")  # type: ignore[arg-type]
    FeatureTable.from_array(np.zeros((3, 2))).save(tmp_path / "x.aef")
    with pytest.raises(errors.InvalidArgumentError, match="missing = 'none' is not one of error"):
        open_tables(tmp_path / "x.aef", missing="none")  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match="writable must be True or False"):
        open_tables(tmp_path / "x.aef", writable="yes")  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match="aethergraph serve --missing zero"):
        open_source("tcp://127.0.0.1:1/x?missing=zero")
    with pytest.raises(errors.InvalidArgumentError, match="has the option 'timeout' twice"):
        open_source("tcp://127.0.0.1:1/x?timeout=1&timeout=2")


def test_a_table_outlives_its_server(tmp_path: Path) -> None:
    """Its rows may change meanwhile; a table that was made anew at its path is another one."""
    path = tmp_path / "t.aet"
    table = LiveFeatureTable.create(path, 10, 2)
    table.put(1, [5, 6])
    with FeatureServer(open_tables(path), port=0) as server:
        port = server.port
        source = open_source(f"{server.address}/t?timeout=5")
        assert source.gather([1]).tolist() == [[5, 6]]
    table.put(1, [7, 8])
    with FeatureServer(open_tables(path), port=port):
        assert source.gather([1]).tolist() == [[7, 8]]
    path.unlink()
    LiveFeatureTable.create(path, 10, 2).put(1, [9, 9])
    with FeatureServer(open_tables(path), port=port):
        with pytest.raises(errors.FileChangedError, match="other rows than when"):
            source.gather([1])


@pytest.mark.parametrize("transport", ["tcp", "unix"])
def test_a_server_says_that_the_file_of_its_table_is_gone(
    tmp_path: Path, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clients get the error, also those that have mapped the file."""
    monkeypatch.setattr("aethergraph._native.live_rows.LOOK_SECONDS", 0.0)
    path = tmp_path / "t.aet"
    LiveFeatureTable.create(path, 10, 2).put(1, [5, 6])
    where = {"port": 0} if transport == "tcp" else {"unix": tmp_path / "s"}
    with FeatureServer(open_tables(path), **where) as server:  # type: ignore[arg-type]
        source = open_source(f"{server.address}/t")
        assert source.gather([1]).tolist() == [[5, 6]]
        path.unlink()
        LiveFeatureTable.create(path, 10, 2).put(1, [9, 9])
        with pytest.raises(errors.WriterGoneError, match="start the server anew, and open the"):
            source.gather([1])
    with FeatureServer(open_tables(path), **where) as server:  # type: ignore[arg-type]
        assert open_source(f"{server.address}/t").gather([1]).tolist() == [[9, 9]]
