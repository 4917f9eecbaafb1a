"""Shapes, ids and names that no file of ours has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.containers import damage_section

from aethergraph import FeatureTable, Graph, NeighborSampler, errors
from aethergraph import _native as native

pytestmark = pytest.mark.any_python


@pytest.mark.parametrize("shape", [(0, 2**61), (2**61, 2**61, 0), (0,) * 33])
def test_shapes_that_no_array_can_have(tmp_path: Path, shape: tuple[int, ...]) -> None:
    header = repr({"descr": "<f8", "fortran_order": False, "shape": shape}).encode()
    path = tmp_path / "x.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(errors.FormatError, match="no array can have the shape"):
        FeatureTable.load(path)
    file = native.NativeFile(path, raw=True)
    with pytest.raises(errors.FormatError, match="no array can have the shape"):
        file.array(0, shape, np.dtype(np.float64))


@pytest.mark.parametrize("bad", [7, 2**32 - 1])
def test_the_edge_list_of_a_damaged_file_is_refused(tmp_path: Path, bad: int) -> None:
    path = tmp_path / "g.aeg"
    Graph.from_edges(3, [0, 1, 2], [1, 2, 0]).save(path)
    damage_section(path, (native.SECTION_CSC_INDICES,), bad.to_bytes(4, "little"))
    with pytest.raises(errors.CorruptFileError, match="run `aethergraph verify`"):
        Graph.load(path).edge_index()


def test_slices_that_cannot_be() -> None:
    store: Any = FeatureTable.from_array(np.zeros((3, 2)))
    for index in (slice(None, None, 0), slice("a", "b")):
        with pytest.raises(errors.InvalidArgumentError, match="cannot choose rows"):
            store[index]


def test_a_finished_writer_says_so(tmp_path: Path) -> None:
    writer = native.NativeWriter(tmp_path / "a", native.CONTENT_FEATURES)
    writer.abort()
    for use in (lambda: writer.begin(native.SECTION_META, 0, 1), writer.end, writer.commit):
        with pytest.raises(errors.ClosedError, match="committed or given up"):
            use()


def test_an_interrupt_while_progress_is_shown_stops_the_work() -> None:
    stop: list[int] = []
    calls: list[int] = []

    def work(task: Any) -> None:
        while not task.cancelled:
            pass
        stop.append(1)

    def progress(done: int, total: int) -> None:
        calls.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        native.run_task(work, progress, 1, interval=0.01)
    assert stop == [1]
    assert len(calls) == 1


@pytest.mark.parametrize("bad", ["1", 1.0, float("nan"), object()])
def test_keys_and_seeds_are_integers(graph: Graph, bad: Any) -> None:
    sampler = NeighborSampler(graph, [2])
    with pytest.raises(errors.InvalidArgumentError, match="key must be an integer"):
        sampler.sample([0], key=bad)
    with pytest.raises(errors.InvalidArgumentError, match="seed must be an integer"):
        NeighborSampler(graph, [2], seed=bad)


# ---- names that must not be written to --------------------------------------------------------

SAVERS = {
    "x.aeg": lambda path: Graph.from_edges(2, [0], [1]).save(path),
    "x.aef": lambda path: FeatureTable.from_array(np.eye(3)).save(path),
    "x.npy": lambda path: FeatureTable.from_array(np.eye(3)).save(path),
}


@pytest.mark.parametrize("name", SAVERS)
def test_only_regular_files_are_replaced(tmp_path: Path, name: str) -> None:
    save = SAVERS[name]
    path = tmp_path / name
    os.mkfifo(path)
    with pytest.raises(errors.StorageError, match="not a regular file"):
        save(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(errors.StorageError, match=name):
        save(path)
    assert list(tmp_path.iterdir()) == [path]
    path.rmdir()
    path.symlink_to(tmp_path / "absent" / name)
    with pytest.raises(errors.MissingFileError, match="link to a missing file"):
        save(path)


@pytest.mark.parametrize("name", SAVERS)
def test_names_as_long_as_the_system_allows(tmp_path: Path, name: str) -> None:
    path = tmp_path / ("n" * (255 - len(name)) + name)
    SAVERS[name](path)
    assert list(tmp_path.iterdir()) == [path]
