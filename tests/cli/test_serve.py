"""``aethergraph serve``: what it serves under which names, and what it refuses."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.commands import MAIN, said
from support.serving import Client, address_in, served
from support.threads import comes

from aethergraph import DynamicGraph, FeatureTable, Graph, HeteroGraph
from aethergraph.errors import ServerTimeoutError
from aethergraph.remote import open_source, open_tables, wire


@pytest.fixture
def files(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 20, (2, 60))
    graph = Graph.from_edges(20, src, dst, edge_attrs={"w": rng.random((60, 2))})
    graph.node_attrs["x"] = rng.random((20, 4))
    graph.node_attrs["y"] = np.arange(20)
    graph.save(tmp_path / "graph.aeg")
    kind = ("user", "rates", "film")
    typed = HeteroGraph.from_edges({kind: (src, dst)}, {"user": 20, "film": 20})
    typed.with_attrs({"user": {"x": rng.random((20, 3))}}, {kind: {"stars": np.arange(60)}}).save(
        tmp_path / "typed.aeg"
    )
    Graph.from_edges(20, src, dst).save(tmp_path / "bare.aeg")
    np.save(tmp_path / "x.npy", rng.random((20, 5)))
    FeatureTable.from_array(np.arange(20)).save(tmp_path / "labels.bin")
    return tmp_path


def test_tables_of_files(files: Path) -> None:
    def names(file: str, name: str | None = None) -> dict[str, Any]:
        return {key: rows.shape for key, rows in open_tables(files / file, name).items()}

    assert names("x.npy") == {"x": (20, 5)}
    assert names("labels.bin", "y") == {"y": (20,)}
    assert names("graph.aeg") == {"x": (20, 4), "y": (20,), "edges/w": (60, 2)}
    assert names("graph.aeg", "g") == {"g/x": (20, 4), "g/y": (20,), "g/edges/w": (60, 2)}
    assert names("typed.aeg") == {"user/x": (20, 3), "user-rates-film/stars": (60,)}


def test_many_files_at_two_places(files: Path) -> None:
    token = files / "token"
    token.write_text("secret")
    with served(
        files / "graph.aeg", files / "x.npy", "--name", "g", "--name", "wide", "--unix",
        files / "s", "--tcp", "127.0.0.1:0", "--token-file", token, "--shard", "0/1",
    ) as (_, line):  # fmt: skip
        said, _, where = line.partition(" at ")
        assert said == "serving g/x, g/y, g/edges/w, wide"
        tcp, unix = where.strip().split(" and ")
        for place in (tcp, unix):
            source = open_source(f"{place}/g/y?token_file={token}")
            assert source.gather([3, 19]).tolist() == [3, 19]
        wide = open_source(f"{unix}/wide?token_file={token}")
        assert (wide.gather(range(20)) == np.load(files / "x.npy")).all()


def test_places(files: Path) -> None:
    with served(files / "x.npy", "--max-connections", 1) as (_, line):
        url = f"{address_in(line)}?timeout=0.3"
        with open_source(url) as source:  # type: ignore[attr-defined]
            assert source.gather([1]).shape == (1, 5)
            connection = source._reader.endpoints[0].take()  # in use
            with pytest.raises(ServerTimeoutError, match="there are 1 connections already"):
                open_source(url)
            connection.close()


@pytest.mark.any_python
@pytest.mark.parametrize("grace", ["1e300", "0"])
def test_it_ends_well_with_any_grace(files: Path, grace: str) -> None:
    with served(files / "x.npy", "--grace", grace) as (process, line):
        assert open_source(address_in(line)).gather([1]).shape == (1, 5)
        process.terminate()
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "") and "ended: 1 row" in out


@pytest.mark.any_python
def test_it_serves_on_when_nobody_reads_what_it_says(files: Path) -> None:
    """Serve when the reader of the output has ended, as ``serve ... | head -1`` does."""
    reader, writer = os.pipe()
    os.close(reader)
    call = [sys.executable, "-c", MAIN, "serve", "x.npy"]
    with subprocess.Popen(
        [*call, "--unix", "s"], cwd=files, stdout=writer, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(writer)
        try:
            assert comes((files / "s").exists)
            assert open_source(f"unix://{files}/s/x").gather([1]).shape == (1, 5)
            process.terminate()
            _, err = process.communicate(timeout=60)
            assert (process.returncode, err) == (0, "")
        finally:
            process.kill()


def is_refused(url: str) -> bool:
    """Return whether nobody listens there."""
    host, _, port = url.removeprefix("tcp://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), 30).close()
    except ConnectionError:  # reset: it has ended in this moment
        return True
    return False


@pytest.mark.any_python
def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1000, 2048)))
    with served(tmp_path / "x.npy", "--grace", "inf") as (process, line):
        client = Client(int(address_in(line).rsplit(":", 1)[1]))
        ids = np.zeros(4000, np.int64)  # a reply that no buffer holds, and nobody reads
        wire.send(client.socket, wire.GATHER, 2, *wire.pack_gather(0, ids))
        client.socket.recv(1)
        process.terminate()
        assert comes(lambda: is_refused(address_in(line)))  # the first signal has been taken
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "") and "ended: " in out


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        (
            ("x.npy", "--tcp", "1.2.3.4:1"),
            2,
            "--tcp 1.2.3.4:1 is open to others: give --token-file",
        ),
        (("x.npy", "--log", "log"), 2, "--log is of samples: give --sample PLAN"),
        (("x.npy", "--max-connections", "0"), 2, "--max-connections = 0 lets nobody connect"),
        (
            ("graph.aeg", "typed.aeg", "--sample", "plan.json", "--log", "log"),
            2,
            "--log is of samples of one graph, and there are 2: graph, typed",
        ),
        (("x.npy", "--tcp", "nothing"), 2, "--tcp 'nothing' is not HOST:PORT"),
        (("x.npy", "--shard", "2"), 2, "--shard '2' is not K/N"),
        (("x.npy", "--shard", "2/2"), 2, "is not (k, n) with 0 <= k < n"),
        (("x.npy", "x.npy"), 2, "two tables are called 'x': give --name"),
        (("x.npy", "--name", "a", "--name", "b"), 2, "--name is given 2 times for 1 files"),
        (
            ("bare.aeg",),
            2,
            "a graph without attributes to serve; its lists are served if you say so",
        ),
        (
            ("big.npy",),
            1,
            "the array is big-endian and cannot be mapped by rows: save array.astype('<f4')",
        ),
        (("columns.npy",), 1, "save numpy.ascontiguousarray(array)"),
        (("x.npy", "--unix", "x.npy"), 1, "x.npy is there, and is no socket"),
        (
            ("graph.aeg", "--sample", "typo.json"),
            2,
            "fanouts are missing: fanouts = [15, 10]; it has fanout",
        ),
        (("none.npy",), 1, "none.npy"),
        (("x.npy", "--token-file", "none"), 2, "token_file"),
        (("x.npy", "--graph"), 2, "--graph: none of the files is a graph"),
        (("x.npy", "--missing", "zero"), 2, "--missing zero: none of the files is a live table"),
        (("graph.aegd", "--missing", "nan"), 2, "--missing nan: none of the files is a live table"),
        (("x.npy", "--name", ""), 2, "--name is empty"),
        (
            ("x.npy", "--unix", "s", "--tls", "cert.pem", "key.pem"),
            2,
            "--tls is of TCP, and --unix goes without",
        ),
        (
            ("graph.aeg", "--sample", "plan.json", "--shard", "0/2"),
            2,
            "--shard 0/2 is of rows, and none are served",
        ),
        (("x.npy", "--lease", "5"), 2, "--lease 5.0: no lists of a live graph are served"),
        (
            ("graph.aegd", "--sample", "plan.json", "--max-leases", "5"),
            2,
            "--max-leases 5: no lists of a live graph are served",
        ),
        (("x.npy", "--grace", "nan"), 2, "grace = nan is no time"),
        (("x.npy", "--grace", "-1"), 2, "grace = -1.0 is no time"),
    ],
)
def test_refusals(
    files: Path, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], code: int, words: str
) -> None:
    monkeypatch.chdir(files)
    (files / "plan.json").write_text('{"fanouts": [2]}')
    (files / "typo.json").write_text('{"fanout": [2]}')
    np.save("big.npy", np.ones((3, 2), ">f4"))
    np.save("columns.npy", np.ones((3, 2), "f4", order="F"))
    DynamicGraph.open("graph.aegd", 5, 8, durability="none").close()
    assert words in said("serve", *given, code=code)
    assert not (files / "log").exists()


@pytest.mark.parametrize(("mode", "is_open"), [(0o600, False), (0o640, True), (0o604, True)])
def test_a_token_that_others_can_read_is_noted(files: Path, mode: int, is_open: bool) -> None:
    token = files / "token"
    token.write_text("x" * 40)
    token.chmod(mode)
    given = ["serve", str(files / "x.npy"), "--token-file", str(token), "--shard", "2/2"]
    text = said(*given, code=2)  # by the shard, after the look at the token
    assert ("read by others than its user" in text) == is_open
