"""Places of edges in a merged base: who keeps them in a file, and files that are damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.disks import read_only

from aethergraph import DynamicGraph, FeatureTable
from aethergraph.dynamic.history import History
from aethergraph.dynamic.repair import verify_directory
from aethergraph.errors import CorruptFileError

pytestmark = pytest.mark.any_python

COUNT = 500
PLACES = "gen-000001.aeg.places-0.aef"


def make(path: Path) -> None:
    """A base whose edges have another order than their ids, and some of which were deleted."""
    graph = DynamicGraph.open(
        path, 50, 16, order="time", edge_weight="float32", huge_pages=False, durability="none"
    )
    src, dst = np.random.default_rng(0).integers(0, 50, (2, COUNT))
    ids = graph.insert_edges(src, dst, weight=np.arange(COUNT))
    graph.delete_edges(src[::7], dst[::7], ids[::7])
    graph.merge()
    graph.close()


def check(path: Path) -> None:
    """Compare the weights that a history has of each edge with those that were inserted."""
    left = np.setdiff1d(np.arange(COUNT), np.arange(0, COUNT, 7))
    with History(path, 16) as history:
        weights = history.last().edge_values["edge_weight"]
        assert (weights.gather(left) == left).all()


def test_a_history_writes_nothing(tmp_path: Path) -> None:
    make(tmp_path / "g")
    before = {file.name for file in (tmp_path / "g").iterdir()}
    assert PLACES not in before
    check(tmp_path / "g")
    assert {file.name for file in (tmp_path / "g").iterdir()} == before
    with read_only(tmp_path / "g", tmp_path / "backup") as path:
        check(path)


def _zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _one_bit(path: Path) -> None:
    with FeatureTable.load(path) as rows:
        array = rows.array
        assert array is not None
        content, part = bytearray(path.read_bytes()), array[10:20].tobytes()
    content[content.index(part)] ^= 1
    path.write_bytes(content)


def _another(path: Path) -> None:
    FeatureTable.from_array(np.zeros(COUNT - 1, np.uint32)).save(path)


@pytest.mark.parametrize("damage", [Path.unlink, _zeros, _half, _another])
def test_damaged_places_are_made_again(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    make(tmp_path / "g")
    DynamicGraph.open(tmp_path / "g", arena_mb=16, huge_pages=False).close()
    kept = (tmp_path / "g" / PLACES).read_bytes()
    check(tmp_path / "g")
    damage(tmp_path / "g" / PLACES)
    check(tmp_path / "g")  # which leaves the file to the writer
    graph = DynamicGraph.open(tmp_path / "g", arena_mb=16, huge_pages=False)
    assert (tmp_path / "g" / PLACES).read_bytes() == kept
    assert graph.edge_values["edge_weight"].gather([1, 499]).tolist() == [1, 499]
    graph.close()


def test_verify_looks_at_places(tmp_path: Path) -> None:
    make(tmp_path / "g")
    DynamicGraph.open(tmp_path / "g", arena_mb=16, huge_pages=False).close()
    assert PLACES in verify_directory(tmp_path / "g")
    _one_bit(tmp_path / "g" / PLACES)
    with pytest.raises(CorruptFileError, match="places"):
        verify_directory(tmp_path / "g")


def test_places_of_earlier_builds_are_not_read(tmp_path: Path) -> None:
    """They had no checksum, and a reader that was killed could leave zeros."""
    make(tmp_path / "g")
    old = tmp_path / "g" / "gen-000001.aeg.places-0.npy"
    np.save(old, np.zeros(COUNT, np.uint32))
    check(tmp_path / "g")
    DynamicGraph.open(tmp_path / "g", arena_mb=16, huge_pages=False).close()
    assert not old.exists() and (tmp_path / "g" / PLACES).exists()
    check(tmp_path / "g")
