"""Rows of a server at a unix socket, which come by the descriptor of their file or memory."""

from __future__ import annotations

import mmap
import os
import pickle
import signal
import socket
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.processes import in_fork
from support.serving import address_in, served
from support.threads import comes, run_together, running

from aethergraph import FeatureTable, Graph, LiveFeatureTable, errors
from aethergraph.remote import FeatureServer, mapped, open_source, open_tables, wire
from aethergraph.remote.endpoint import Table
from aethergraph.remote.rows import RemoteRows

pytestmark = pytest.mark.any_python


def test_rows_of_files(tmp_path: Path, x: Any) -> None:
    """Map npy, native files, attributes of a graph and bfloat16; without a request."""
    np.save(tmp_path / "x.npy", x)
    FeatureTable.from_array(x).save(tmp_path / "x.bin")
    FeatureTable.from_array(
        x,
    ).astype("float64").save(tmp_path / "wide.bin")
    bits = np.arange(100, dtype=np.uint16).reshape(50, 2)
    FeatureTable.from_array(bits, dtype="bfloat16").save(tmp_path / "half.bin")
    graph = Graph.from_edges(len(x), [0], [1])
    graph.node_attrs["x"], graph.node_attrs["y"] = x, np.arange(len(x))
    graph.save(tmp_path / "g.aeg")
    tables = dict(open_tables(tmp_path / "g.aeg", "g"))
    for name in ("x.npy", "x.bin", "wide.bin", "half.bin"):
        tables[name] = FeatureTable.load(tmp_path / name)
    ids = np.random.default_rng(0).integers(0, 50, 999)
    with FeatureServer(tables, unix=tmp_path / "s") as server:
        for name, rows in tables.items():
            source = open_source(f"{server.address}/{name}")
            assert isinstance(source, RemoteRows) and source.transport == "map"
            assert (source.gather(ids) == rows.gather(ids)).all()
            assert source.fingerprint == open_source(f"{server.address}/{name}?map=no").fingerprint
            with pytest.raises(errors.OutOfRangeError, match=rf"ids\[1\] = {len(x)} is not in"):
                source.gather([1, len(x)])
        half = open_source(f"{server.address}/half.bin")
        assert half.gather([1, 49], dtype="float32").dtype == np.float32
        assert server.stats().rows == 0


def test_what_is_asked_for_all_the_same(tmp_path: Path, x: Any) -> None:
    """Arrays in memory, shards, and whoever asks for it."""
    np.save(tmp_path / "x.npy", x)
    tables = {"x": x, "file": FeatureTable.load(tmp_path / "x.npy")}
    with FeatureServer(tables, unix=tmp_path / "s", port=0) as server:
        for url in (f"{server.addresses[1]}/x", f"{server.addresses[1]}/file?map=no",
                    f"{server.address}/file"):  # fmt: skip
            source = open_source(url)
            assert isinstance(source, RemoteRows) and source.transport in ("tcp", "unix")
            assert (source.gather([5, 1]) == x[[5, 1]]).all()
        assert server.stats().rows == 6
    with pytest.raises(errors.InvalidArgumentError, match="map"):
        open_source(f"unix://{tmp_path}/s?map=maybe")


@pytest.mark.parametrize("in_file", [True, False])
def test_live_rows(tmp_path: Path, in_file: bool) -> None:
    table = LiveFeatureTable.create(tmp_path / "t" if in_file else None, 10, 2, missing="zero")
    with FeatureServer(table, unix=tmp_path / "s") as server:
        source = open_source(server.address)
        assert isinstance(source, RemoteRows) and source.transport == "map" and source.is_live
        for value in (1.0, 2.0):
            table.put(3, [value, value])
            assert source.gather([3, 4]).tolist() == [[value] * 2, [0, 0]]
        assert pickle.loads(pickle.dumps(source)).gather([3]).tolist() == [[2, 2]]
        assert server.stats().rows == 0


def test_a_client_cannot_write(tmp_path: Path) -> None:
    """Open the descriptor for reading alone, whatever the server's handle may do."""
    table = LiveFeatureTable.create(None, 10, 2)
    with FeatureServer(table, unix=tmp_path / "s"):
        place = RemoteRows(f"unix://{tmp_path}/s?map=no")._reader.endpoints[0]
        facts, descriptor = place.run(lambda one: one.attach(0))
    assert facts["missing"] == "error" and descriptor is not None
    with pytest.raises(errors.InvalidArgumentError, match="reading only"):
        LiveFeatureTable.attach(descriptor, writable=True)
    with pytest.raises(PermissionError):
        mmap.mmap(descriptor, 4096)  # to be written to
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.write(descriptor, b"x")
    os.close(descriptor)


def test_a_server_that_is_gone(tmp_path: Path, x: Any) -> None:
    """Nothing is read of a server that has ended; one with the same file goes on, another not."""
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", x + 1)
    place = f"unix://{tmp_path}/s"

    def serve(name: str) -> FeatureServer:
        return FeatureServer({"x": FeatureTable.load(tmp_path / name)}, unix=tmp_path / "s")

    with served(tmp_path / "x.npy", "--unix", tmp_path / "s", "--name", "x") as (process, line):
        source = open_source(f"{address_in(line)}/x?timeout=2")
        patient = open_source(f"{place}/x")
        assert (source.gather([7]) == x[[7]]).all()
        process.send_signal(signal.SIGKILL)
        process.wait()
        with pytest.raises(errors.ServerTimeoutError, match="not reached within 2 s"):
            source.gather([7])
    found: list[Any] = []
    with running(lambda: found.append(patient.gather([3]))), serve("x.npy"):
        assert comes(lambda: found)
        assert (found[0] == x[[3]]).all() and (source.gather([7]) == x[[7]]).all()
    with serve("y.npy"):
        with pytest.raises(errors.FileChangedError, match="other rows than when"):
            source.gather([7])


def test_a_file_that_is_cut(tmp_path: Path, x: Any) -> None:
    np.save(tmp_path / "x.npy", x)
    with FeatureServer(FeatureTable.load(tmp_path / "x.npy"), unix=tmp_path / "s") as server:
        source = open_source(server.address)
        source.gather([1])
        os.truncate(tmp_path / "x.npy", 1 << 12)
        with pytest.raises(errors.FileChangedError, match=f"unix://{tmp_path}/s") as caught:
            source.gather(np.arange(len(x)))
        assert "/proc" not in str(caught.value) and "/proc" not in str(caught.value.filename)


@pytest.mark.forks
def test_children_and_threads(tmp_path: Path, x: Any) -> None:
    np.save(tmp_path / "x.npy", x)
    store = FeatureTable.load(tmp_path / "x.npy")
    before = len(os.listdir("/proc/self/fd"))
    with FeatureServer(store, unix=tmp_path / "s") as server:
        source = open_source(server.address)
        assert in_fork(lambda: source.gather([4, 2]).tolist()) == x[[4, 2]].tolist()

        def gather(seed: int) -> None:
            rng = np.random.default_rng(seed)
            for _ in range(200):
                ids = rng.integers(0, len(x), 100)
                assert (source.gather(ids) == x[ids]).all()

        run_together(*(partial(gather, seed) for seed in range(4)))
        source.close()  # type: ignore[attr-defined]
    assert comes(lambda: len(os.listdir("/proc/self/fd")) <= before)


def test_a_server_that_tells_nonsense(tmp_path: Path, x: Any) -> None:
    """A description that does not fit the file is an error, not memory of others."""
    path = tmp_path / "f"
    np.save(path, x)
    rows = FeatureTable.load(f"{path}.npy")
    shared = rows.shared_file()
    assert shared is not None
    for facts, wrong in (
        ({"offset": 128, "missing": "perhaps"}, errors.FormatError),
        ({"offset": "x", "missing": None}, errors.FormatError),
        ({"missing": None}, errors.FormatError),
        ({"offset": 1 << 40, "missing": None}, errors.TruncatedFileError),
        ({"offset": -1, "missing": None}, errors.TruncatedFileError),
        ({"offset": 0, "missing": "zero"}, errors.FormatError),  # no table of live rows
    ):
        mine, its = socket.socketpair()
        with mine, its:
            wire.send_descriptor(its, wire.ATTACH, 1, wire.pack_facts(facts), shared.descriptor)
            head, descriptor = wire.receive_descriptor(mine, wire.HEADER.size)
            assert descriptor is not None and wire.HEADER.unpack(head)[1] == wire.ATTACH
            table = Table(0, x.shape, "float32", "", False, 0, len(x), (0, 1), ("x",), "")
            with pytest.raises((wrong, wire.WireError)):
                mapped._open(facts, descriptor, table)
            os.close(descriptor)
    os.close(shared.descriptor)
