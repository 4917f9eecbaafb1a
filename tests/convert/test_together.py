"""Outputs of one call: all are those of before, or all are new."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.recording import Interrupt

from aethergraph import Graph
from aethergraph import _native as native
from aethergraph.convert import NodeTable, TableSchema, convert, reorder, tables
from aethergraph.convert.readers.text_blocks import BlockReader
from aethergraph.errors import StorageError

COUNT = 3000


def interrupt(patch: pytest.MonkeyPatch) -> Any:
    """Return stages that are interrupted when the graph has been written."""

    def stages(name: str, unit: str) -> Any:
        def progress(done: int, total: int) -> None:
            if name == "Writing graph":
                raise Interrupt

        return progress

    return stages


def fill_disk(patch: pytest.MonkeyPatch) -> Any:
    """Let no section of the graph be ended."""

    def end(writer: native.NativeWriter) -> None:
        if writer.path.endswith("out.aeg"):
            raise StorageError(errno.ENOSPC, "no space", writer.path)
        original(writer)

    original = native.NativeWriter.end
    patch.setattr(native.NativeWriter, "end", end)
    return None


def features(tmp_path: Path, number: int, **options: Any) -> None:
    ids = np.arange(COUNT)
    np.save(tmp_path / "e.npy", np.stack([ids, ids[::-1]], axis=1) // (number + 1))
    np.savetxt(tmp_path / "x.csv", np.full((COUNT, 2), number), delimiter=",")
    np.save(tmp_path / "y.npy", np.full(COUNT, number))
    outputs = {"features_out": tmp_path / "out.x.npy", "labels_out": tmp_path / "out.y.npy"}
    convert(
        tmp_path / "e.npy", tmp_path / "out.aeg", features=tmp_path / "x.csv",
        labels=tmp_path / "y.npy", **outputs, **options,
    )  # fmt: skip


def narrow(tmp_path: Path, number: int, **options: Any) -> None:
    """Convert features of a dtype that is not stored in .npy."""
    ids = np.arange(COUNT)
    np.save(tmp_path / "e.npy", np.stack([ids, ids[::-1]], axis=1) // (number + 1))
    np.save(tmp_path / "x.npy", np.full((COUNT, 2), number, np.float32))
    convert(
        tmp_path / "e.npy", tmp_path / "out.aeg", features=tmp_path / "x.npy",
        features_out=tmp_path / "out.x.bin", dtype="bfloat16", **options,
    )  # fmt: skip


def bounded(tmp_path: Path, number: int, **options: Any) -> None:
    features(tmp_path, number, memory_budget="16G", **options)


def keyed(tmp_path: Path, number: int, **options: Any) -> None:
    lines = [f"u{number}-{i},v{i}\n" for i in range(COUNT)]
    (tmp_path / "e.csv").write_text("src,dst\n" + "".join(lines))
    convert(tmp_path / "e.csv", tmp_path / "out.aeg", ids="string", **options)


def typed(tmp_path: Path, number: int, **options: Any) -> None:
    lines = [f"{i + number},{number},{i + number}\n" for i in range(COUNT)]
    (tmp_path / "user.csv").write_text("id,points,friend\n" + "".join(lines))
    user = NodeTable(
        tmp_path / "user.csv", key="id", columns=["points"], foreign={"friend": "user"}
    )
    tables(TableSchema({"user": user}), tmp_path / "out.aeg", **options)


def moved(tmp_path: Path, number: int, **options: Any) -> None:
    ids = np.arange(COUNT)
    Graph.from_edges(COUNT, ids, ids[::-1] // (number + 1)).save(tmp_path / "g.aeg")
    np.save(tmp_path / "x.npy", np.full((COUNT, 2), number))
    np.save(tmp_path / "split.npy", np.arange(number + 5))
    reorder(
        tmp_path / "g.aeg", tmp_path / "out.aeg", rows=tmp_path / "x.npy",
        ids=tmp_path / "split.npy", memory_budget="16G", **options,
    )  # fmt: skip


CALLS = [features, narrow, bounded, keyed, typed, moved]


def outputs_in(folder: Path) -> dict[str, bytes]:
    """Return the outputs and what is left of them, without the folder of work files."""
    found = [one for one in folder.iterdir() if "out." in one.name and one.is_file()]
    return {one.name: one.read_bytes() for one in found}


@pytest.mark.parametrize("failure", [interrupt, fill_disk])
@pytest.mark.parametrize("call", CALLS)
def test_the_graph_cannot_be_written(
    call: Callable[..., Any], failure: Callable[..., Any], tmp_path: Path
) -> None:
    error = Interrupt if failure is interrupt else StorageError
    with pytest.MonkeyPatch.context() as patch, pytest.raises(error):
        call(tmp_path, 0, stages=failure(patch))
    assert outputs_in(tmp_path) == {}
    again = {} if call in (features, narrow) else {"restart": True}
    call(tmp_path, 0, **again)
    before = outputs_in(tmp_path)
    assert len(before) > 1
    with pytest.MonkeyPatch.context() as patch, pytest.raises(error):
        call(tmp_path, 1, stages=failure(patch), force=True)
    assert outputs_in(tmp_path) == before
    call(tmp_path, 1, force=True, **again)
    after = outputs_in(tmp_path)
    assert after.keys() == before.keys()
    assert all(after[name] != before[name] for name in before)
    assert not [name for name in os.listdir(tmp_path) if "building" in name]


def test_short_reads_end_no_block() -> None:
    """A build that goes on counts blocks: they are the same, however much a read returns."""

    class Short(io.BytesIO):
        def readinto(self, into: Any) -> int:
            return super().readinto(into[:7])

    room = bytearray(20)
    blocks = BlockReader.__new__(BlockReader)
    stream = Short(bytes(range(30)))
    assert blocks._fill(stream, memoryview(room)) == 20
    assert room == bytes(range(20))
    assert blocks._fill(stream, memoryview(room)) == 10
    assert blocks._fill(stream, memoryview(room)) == 0
