"""LiveFeatureTable: puts and gathers against a dict of rows, versions, files, refusals.

Rows of every dtype and shape: contracts/test_feature_sources.py.
"""

from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.disks import small_disk
from support.processes import in_fork
from support.strategies import examples

from aethergraph import DynamicGraph, Graph, LiveFeatureTable, SubgraphLoader, errors
from aethergraph import _native as native
from aethergraph.features.bfloat16 import bfloat16_to_float32
from aethergraph.streaming import Ingestor, MemorySource
from aethergraph.testing.rules import in_child

ROWS, ITEMS = 40, 5
GOLDEN = Path(__file__).parents[1] / "golden/live-rows-v1.aet"


def make(**options: Any) -> LiveFeatureTable:
    return LiveFeatureTable.create(None, ROWS, ITEMS, **{"version_unit": None, **options})


def rows_of(*numbers: float) -> Any:
    return np.repeat(np.asarray(numbers, np.float32)[:, None], ITEMS, axis=1)


# ---- against a model ---------------------------------------------------------------------------

put = st.lists(
    st.tuples(st.integers(0, ROWS - 1), st.integers(0, 1000), st.integers(0, 6)), max_size=12
)


@examples(40)
@given(st.lists(st.tuples(put, st.booleans()), max_size=8))
def test_rows_and_versions_are_those_of_a_dict(
    calls: list[tuple[list[tuple[int, int, int]], bool]],
) -> None:
    table, model = make(missing="nan", check=True), dict[int, tuple[int, int]]()
    for entries, with_versions in calls:
        written = 0
        for row, number, version in entries:
            before = model.get(row, (0, 0))[1]
            if not with_versions:
                model[row] = (number, before + 1)
            elif version >= before:
                model[row] = (number, version)
            else:
                continue
            written += 1
        ids = np.array([row for row, _, _ in entries], np.int64)
        versions = [version for _, _, version in entries] if with_versions else None
        found = table.put_many(ids, rows_of(*[n for _, n, _ in entries]), versions)
        assert found == written
    everything = np.arange(ROWS)
    expected = np.full((ROWS, ITEMS), np.nan, np.float32)
    for row, (number, _) in model.items():
        expected[row] = number
    np.testing.assert_array_equal(table.gather(everything), expected)
    versions_now = [model.get(row, (0, -1))[1] for row in range(ROWS)]
    assert table.versions(everything).tolist() == versions_now


def test_one_row_and_many() -> None:
    table = make()
    assert table.put(3, rows_of(7)[0]) == 1
    assert table.put(np.int32(4), [1, 2, 3, 4, 5], version=9) == 1
    assert table.put([5, 6], rows_of(8, 9), version=[1, 2]) == 2
    assert table.gather([3, 4, 5, 6])[:, 0].tolist() == [7, 1, 8, 9]
    assert table.versions([3, 4, 5, 6, 7]).tolist() == [1, 9, 1, 2, -1]
    scalars = LiveFeatureTable.create(None, 3, (), "int64")
    scalars.put(1, 5)
    assert scalars.gather([1]).tolist() == [5]


# ---- dtypes ------------------------------------------------------------------------------------


def test_floats_are_rounded_to_the_tables_dtype() -> None:
    rows = np.array([[1.1, -2.5, 3e4, 0, 1e-3]])
    for dtype, wide in (("float32", "float64"), ("float16", "float32"), ("bfloat16", "float32")):
        table = make(dtype=dtype)
        table.put_many([2], rows)
        expected = rows.astype(np.float32)
        if dtype == "float16":
            expected = rows.astype(np.float16).astype(np.float32)
        elif dtype == "bfloat16":
            near = bfloat16_to_float32(table.gather([2]))
            np.testing.assert_allclose(near, rows, rtol=2**-8)
            expected = near
        found = table.gather([2], dtype=wide)
        np.testing.assert_array_equal(found, expected.astype(wide))


def test_integers_that_fit_are_put() -> None:
    table = LiveFeatureTable.create(None, 3, (2,), "int8")
    table.put(0, [1, -128])
    table.put_many([1, 2], np.array([[3, 4], [5, 127]], np.uint64))
    assert table.gather([0, 1, 2]).tolist() == [[1, -128], [3, 4], [5, 127]]
    with pytest.raises(errors.InvalidArgumentError, match=r"rows\[1, 0\] = 128, which int8") as bad:
        table.put_many([1, 2], [[3, 4], [128, 5]])
    assert bad.value.position == 1
    unsigned = LiveFeatureTable.create(None, 3, (1,), "uint64")
    with pytest.raises(errors.InvalidArgumentError, match=r"= -1, which uint64 cannot hold"):
        unsigned.put(0, [-1])
    signed = LiveFeatureTable.create(None, 3, (1,), "int64")
    with pytest.raises(errors.InvalidArgumentError, match=r"= 18446744073709551615, which int64"):
        signed.put(0, np.array([2**64 - 1], np.uint64))
    for ids in (1.0, float("nan"), "1", np.float64(2)):
        with pytest.raises(errors.InvalidArgumentError, match="ids must be an integer"):
            table.put(ids, [1, 2])  # type: ignore[arg-type]


@examples(40)
@given(
    st.lists(
        st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=ITEMS, max_size=ITEMS),
        min_size=1, max_size=5,
    )
)  # fmt: skip
def test_scaled_rows_are_off_by_half_a_factor(rows: list[list[float]]) -> None:
    table = make(dtype="int8", scale="row")
    values = np.array(rows, np.float32)
    table.put_many(np.arange(len(values)), values)
    found = table.gather(np.arange(len(values)))
    assert found.dtype == np.float32
    factors = np.abs(values).max(1, keepdims=True) / 127
    assert (np.abs(found - values) <= factors * 0.5001 + 1e-44 * 127).all()


def test_scaled_rows_say_what_they_are() -> None:
    table = make(dtype="int8", scale="row", missing="nan")
    assert (table.dtype_name, table.stored_dtype, table.scale) == ("float32", "int8", "row")
    assert np.isnan(table.gather([3])).all()
    table.put(3, np.zeros(ITEMS))
    assert table.gather([3]).tolist() == [[0] * ITEMS]
    assert table.put_many([], np.zeros((0, ITEMS))) == 0
    with pytest.raises(errors.InvalidArgumentError, match=r"rows\[1\] is not finite"):
        table.put_many([1, 2], [[0] * ITEMS, [np.inf] * ITEMS])


# ---- versions and ages -------------------------------------------------------------------------


def test_ages_are_those_of_the_versions() -> None:
    table = LiveFeatureTable.create(None, 4, 1, version_unit="s")
    table.put(0, [1.0])
    table.put(1, [1.0], version=1000)
    ages = table.ages([0, 1, 2])
    assert 0 <= ages[0] < 60
    assert ages[1] > 1e9
    assert ages[2] == np.inf
    with pytest.raises(errors.UnsupportedError, match="no ages"):
        make().ages([0])


def test_no_time_goes_back() -> None:
    table = LiveFeatureTable.create(None, 4, 1, version_unit="ms")
    future = 2**50
    table.put(0, [1.0], version=future)
    assert table.put(0, [2.0]) == 1
    assert table.versions([0]).tolist() == [future]
    assert table.gather([0]).tolist() == [[2.0]]
    assert table.put(0, [3.0], version=5) == 0


def test_counts_end_at_the_largest() -> None:
    table = LiveFeatureTable.create(None, 4, 1, version_unit=None)
    table.put(0, [1.0], version=2**63 - 2)
    for value in (2.0, 3.0, 4.0):
        assert table.put(0, [value]) == 1
        assert table.versions([0]).tolist() == [2**63 - 1]
        assert table.gather([0]).tolist() == [[value]]
    assert table.put(0, [5.0], version=2**63 - 2) == 0


# ---- missing rows ------------------------------------------------------------------------------


def test_missing_rows() -> None:
    table = make()
    table.put(0, [0] * ITEMS)
    with pytest.raises(errors.MissingRowError, match=r"row 3 \(ids\[1\]\)") as caught:
        table.gather([0, 3])
    assert (caught.value.value, caught.value.position) == (3, 1)
    assert make(missing="zero").gather([3]).tolist() == [[0] * ITEMS]
    assert np.isnan(make(missing="nan", dtype="float16").gather([3], dtype="float32")).all()
    with pytest.raises(errors.InvalidArgumentError, match="have no NaN"):
        make(missing="nan", dtype="int32")


# ---- files and other processes -----------------------------------------------------------------


def test_a_file_keeps_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.aet"
    table = LiveFeatureTable.create(path, ROWS, ITEMS)
    table.put(3, rows_of(1)[0])
    again = LiveFeatureTable.open(path)
    again.put(4, rows_of(2)[0])
    assert table.gather([3, 4])[:, 0].tolist() == [1, 2]
    table.close()
    assert table.closed
    with pytest.raises(errors.ClosedError):
        table.gather([3])
    reader = LiveFeatureTable.open(path, writable=False, missing="zero")
    assert not reader.is_writable
    assert reader.is_same_rows(again)
    with pytest.raises(errors.InvalidArgumentError, match="for reading only"):
        reader.put(3, rows_of(1)[0])
    with pytest.raises(errors.StorageError, match="File exists"):
        LiveFeatureTable.create(path, ROWS, ITEMS)


@pytest.mark.parametrize("wrong", [{"check": "yes"}, {"huge_pages": "yes"}])
def test_arguments_are_checked_before_the_file_is_made(wrong: Any, tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=next(iter(wrong))):
        LiveFeatureTable.create(tmp_path / "t.aet", 10, 4, **wrong)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("in_file", [False, True])
def test_pickles_and_children_see_changes(in_file: bool, tmp_path: Path) -> None:
    table = LiveFeatureTable.create(
        tmp_path / "x" if in_file else None, ROWS, ITEMS, missing="zero"
    )
    copy = pickle.loads(pickle.dumps(table))
    assert copy.is_same_rows(table)
    assert copy.generation == table.generation
    table.put(1, rows_of(5)[0])
    assert copy.gather([1])[0, 0] == 5
    copy.put(2, rows_of(6)[0])
    assert in_child(lambda: table.put(7, rows_of(8)[0])) == 1
    assert table.gather([1, 2, 7, 8])[:, 0].tolist() == [5, 6, 8, 0]


def test_a_descriptor_is_attached() -> None:
    table = make()
    read_only = os.open(f"/proc/self/fd/{table.descriptor}", os.O_RDONLY)
    try:
        reader = LiveFeatureTable.attach(read_only, writable=False)
        with pytest.raises(errors.InvalidArgumentError, match="for reading only"):
            LiveFeatureTable.attach(read_only)
    finally:
        os.close(read_only)
    table.put(1, rows_of(5)[0])
    assert reader.gather([1])[0, 0] == 5
    with pytest.raises(errors.StorageError):
        LiveFeatureTable.attach(10**6)


def test_another_table_at_the_path_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x"
    pickled = pickle.dumps(LiveFeatureTable.create(path, ROWS, ITEMS))
    path.unlink()
    LiveFeatureTable.create(path, ROWS, ITEMS)
    with pytest.raises(errors.FileChangedError, match="another table"):
        pickle.loads(pickled)


WRITE = """
import sys
from aethergraph import LiveFeatureTable
table = LiveFeatureTable.create(sys.argv[1], 40, 5)
for value, line in enumerate(sys.stdin, 1):
    table.put(1, [value] * 5)
    print(table.generation, flush=True)
"""


@contextmanager
def writing(path: Path) -> Iterator[tuple[subprocess.Popen[str], Callable[[], str]]]:
    """Let a process make a table; yield it and what lets it put row 1 and say which table it is."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITE, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip

        def put() -> str:
            assert process.stdin is not None and process.stdout is not None
            print(file=process.stdin, flush=True)
            return process.stdout.readline().strip()

        try:
            yield process, put
        finally:
            process.kill()


@pytest.mark.parametrize("how", ["deleted", "made anew", "replaced"])
def test_a_reader_says_that_its_file_is_gone(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aethergraph._native.live_rows.LOOK_SECONDS", 0.0)
    path, fresh = tmp_path / "t.aet", tmp_path / "fresh.aet"
    with writing(path) as (process, put):
        assert put()
        by_path = LiveFeatureTable.open(path, missing="zero")
        descriptor = os.open(path, os.O_RDWR)
        copy, attached = pickle.loads(pickle.dumps(by_path)), LiveFeatureTable.attach(descriptor)
        os.close(descriptor)
        graph = Graph.from_edges(ROWS, [0], [1])
        graph.node_attrs["x"] = by_path
        [batch] = SubgraphLoader(graph, [1], [1])
        assert batch.node_attrs["x"][:, 0].tolist() == [1, 0]
        put()
        process.kill()
        process.wait()
    for reader in (by_path, copy, attached):  # the rows outlive whoever wrote them
        assert reader.is_current and reader.gather([1])[0, 0] == 2
    if how != "replaced":
        path.unlink()
    if how != "deleted":
        with writing(path if how == "made anew" else fresh) as (_, put):
            generation = put()
    if how == "replaced":
        fresh.rename(path)
    gone = "deleted" if how == "deleted" else "replaced by another"
    for reader, match in (
        (by_path, f"^{path}: the file .* was {gone}, .*: once .*"),
        (copy, f"^{path}: the file .* was {gone}, .*: once .*"),
        (attached, "^the file .* was deleted, .*: once .*"),
    ):
        match += r"LiveFeatureTable\.open\(path\) or \.attach\(descriptor\)"
        assert not reader.is_current
        for call in (reader.gather, reader.versions, partial(reader.put, rows=rows_of(5))):
            with pytest.raises(errors.WriterGoneError, match=match):
                call([1])
        assert in_fork(partial(reader.gather, [1]))[0] == "WriterGoneError"
    with pytest.raises(errors.WriterGoneError):
        list(SubgraphLoader(graph, [1], [1]))
    if how == "deleted":
        with pytest.raises(errors.MissingFileError):
            LiveFeatureTable.open(path)
        return
    again = LiveFeatureTable.open(path)  # what the message advises
    assert again.generation == generation and again.is_current and again.gather([1])[0, 0] == 1


def test_whoever_made_a_table_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aethergraph._native.live_rows.LOOK_SECONDS", 0.0)
    table, memory = LiveFeatureTable.create(tmp_path / "t", ROWS, ITEMS), make()
    (tmp_path / "t").unlink()
    unnamed = LiveFeatureTable.attach(table.descriptor)  # had no name when it was attached
    for one, other in ((table, unnamed), (memory, LiveFeatureTable.attach(memory.descriptor))):
        one.put(1, rows_of(5)[0])
        assert one.is_current and other.is_current
        assert one.gather([1])[0, 0] == other.gather([1])[0, 0] == 5
        assert in_fork(partial(one.gather, [1]))[0, 0] == 5
    table.close()
    with pytest.raises(errors.ClosedError):
        _ = table.is_current


def test_a_file_that_cannot_be_looked_for_is_taken_to_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LiveFeatureTable.create(tmp_path / "t", ROWS, ITEMS).put(1, rows_of(5)[0])
    table = LiveFeatureTable.open(tmp_path / "t")
    with monkeypatch.context() as patch:
        patch.setattr("aethergraph._native.live_rows.os.stat", refuse)
        assert table.is_current and table.gather([1])[0, 0] == 5


def refuse(path: str) -> None:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def test_a_reader_looks_for_its_file_every_hundredth_of_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LiveFeatureTable.create(tmp_path / "t", ROWS, ITEMS, missing="zero")
    table = LiveFeatureTable.open(tmp_path / "t", missing="zero")
    now, looks = [100.0], [0]
    look = native.LiveSlots.look

    def count(slots: native.LiveSlots) -> str | None:
        looks[0] += 1
        return look(slots)

    monkeypatch.setattr(native.LiveSlots, "look", count)
    monkeypatch.setattr("aethergraph._native.live_rows.monotonic", lambda: now[0])
    for _ in range(5):
        for _ in range(20):
            table.gather([1])
        now[0] += 0.011
    assert looks == [5]


def test_foreign_and_cut_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with pytest.raises(errors.MissingFileError):
        LiveFeatureTable.open(path)
    path.write_bytes(b"")
    with pytest.raises(errors.FormatError, match="fewer than a header"):
        LiveFeatureTable.open(path)
    path.write_bytes(bytes(5000))
    with pytest.raises(errors.FormatError, match="is no table of live rows"):
        LiveFeatureTable.open(path)
    path.unlink()
    table = LiveFeatureTable.create(path, ROWS, ITEMS, missing="zero")
    size = path.stat().st_size
    os.truncate(path, 4096)
    with pytest.raises(errors.FileChangedError):
        table.gather([ROWS - 1])
    with pytest.raises(errors.FileChangedError, match=r"row 7 \(ids\[0\]\) and those") as caught:
        table.put(7, [0] * ITEMS)
    assert (caught.value.position, caught.value.value) == (0, 7)
    assert "read" not in str(caught.value)
    with pytest.raises(errors.TruncatedFileError):
        LiveFeatureTable.open(path)
    os.truncate(path, 100_000)
    with pytest.raises(errors.FormatError, match="more than its"):
        LiveFeatureTable.open(path)
    table.close()
    os.truncate(path, 10)
    os.truncate(path, size)
    with pytest.raises(errors.CorruptFileError, match="header of the table is damaged"):
        LiveFeatureTable.open(path)
    with pytest.raises(errors.StorageError, match="File exists"):
        LiveFeatureTable.create(tmp_path, ROWS, ITEMS)


def test_a_hole_on_a_full_disk_is_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1M") as folder:
        path, filling = folder / "x", folder / "filling"
        LiveFeatureTable.create(path, 20, 3000)  # a row has more than a page
        content = path.read_bytes()
        path.write_bytes(content[:8192])  # the first page of row 0, and then holes
        os.truncate(path, len(content))
        with filling.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))

        def put_everywhere() -> list[str]:
            table, found = LiveFeatureTable.open(path), list[str]()
            for row in (0, 10):
                try:
                    table.put(row, np.ones(3000))
                except errors.DiskFullError as error:
                    found.append(str(error))
            filling.unlink()
            try:
                table.put(10, np.ones(3000))
            except errors.FileChangedError as error:
                found.append(str(error))
            return found

        first, second, third = in_child(put_everywhere)
        assert "no room on its disk at byte 8192" in first
        assert "so row 0 (ids[0]) and those after it may not be written: make room" in first
        assert "make room, open the table again and put them again" in second
        assert "row 10 (ids[0])" in second
        assert "could not be written at byte 8192" in third
        again = LiveFeatureTable.open(path, missing="zero")
        with pytest.raises(errors.TornRowError, match="row 0"):
            again.gather([0])
        assert (again.gather([10]) == 0).all()
        again.put_many([0, 10], np.full((2, 3000), 2))
        assert (again.gather([0, 10]) == 2).all()


def test_a_damaged_row_is_found_if_asked(tmp_path: Path) -> None:
    path = tmp_path / "x"
    LiveFeatureTable.create(path, ROWS, ITEMS).put(2, rows_of(1)[0])
    with path.open("r+b") as file:
        file.seek(4096 + 2 * 64 + 20)
        file.write(b"\x01")
    LiveFeatureTable.open(path).gather([2])
    with pytest.raises(errors.CorruptFileError, match=r"row 2 .* does not fit its checksum"):
        LiveFeatureTable.open(path, check=True).gather([2])


def test_the_golden_table_opens() -> None:
    # Made by LiveFeatureTable.create(path, 5, (2, 2), "float16", version_unit="ms").put_many(
    # [1, 3], [[[1, 2], [3, 4]], [[-1, 0.5], [np.inf, 0]]], [7, 2**40]).
    table = LiveFeatureTable.open(GOLDEN, writable=False, missing="zero", check=True)
    assert (table.shape, table.dtype_name, table.version_unit) == ((5, 2, 2), "float16", "ms")
    assert table.gather([3, 0, 1]).tolist() == [
        [[-1, 0.5], [np.inf, 0]], [[0, 0], [0, 0]], [[1, 2], [3, 4]]
    ]  # fmt: skip
    assert table.versions(np.arange(5)).tolist() == [-1, 7, -1, 2**40, -1]


def test_writing_the_same_gives_the_golden_bytes(tmp_path: Path) -> None:
    path = tmp_path / "x"
    table = LiveFeatureTable.create(path, 5, (2, 2), "float16", version_unit="ms")
    table.put_many([1, 3], [[[1, 2], [3, 4]], [[-1, 0.5], [np.inf, 0]]], [7, 2**40])
    table.close()
    found, expected = bytearray(path.read_bytes()), bytearray(GOLDEN.read_bytes())
    for own in (found, expected):  # each has its own generation, which the checksum covers
        own[128:144] = bytes(16)
        own[2044:2048] = bytes(4)
    assert found == expected


# ---- arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "rows", "version", "wrong"),
    [
        ([0, ROWS], rows_of(1, 2), None, rf"ids\[1\] = {ROWS} is not in"),
        ([-1], rows_of(1), None, r"ids\[0\] = -1"),
        ([0, 1], rows_of(1), None, r"rows have shape \(1, 5\), 2 ids need \(2, 5\)"),
        ([0], [[1, 2]], None, "rows have shape"),
        (0, [1, 2], None, r"rows have shape \(2,\), one id needs \(5,\)"),
        (0, rows_of(1), None, r"rows have shape \(1, 5\), one id needs \(5,\)"),
        ([0.5], rows_of(1), None, "ids must hold integers"),
        ([0], [["a"] * ITEMS], None, "rows"),
        ([0], rows_of(1), -1, "version = -1"),
        ([0], rows_of(1), [1, 2], "version has 2 values for 1 rows"),
        ([0, 1], rows_of(1, 2), [1, -2], r"versions\[1\] = -2 is negative"),
        ([0], [[2**24 + 1] * ITEMS], None, "float32 cannot hold"),
        (True, rows_of(1)[0], None, "got a bool"),
        (1, rows_of(1)[0], 2.0, "version must be an integer, got"),
        (1, rows_of(1)[0], "1", "version must be an integer, got"),
    ],
)
def test_what_cannot_be_put_is_refused(ids: Any, rows: Any, version: Any, wrong: str) -> None:
    table = make()
    with pytest.raises((errors.InvalidArgumentError, errors.OutOfRangeError), match=wrong):
        table.put(ids, rows, version)
    assert (table.versions(np.arange(ROWS)) == -1).all()


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"num_rows": -1}, "num_rows = -1"),
        ({"shape": -1}, "shape = -1"),
        ({"shape": (1,) * 9}, "9 dimensions"),
        ({"shape": 2.5}, "shape must be an integer"),
        ({"dtype": "complex64"}, "complex64 is not one of"),
        ({"scale": "row"}, "is for dtype='int8'"),
        ({"scale": "column", "dtype": "int8"}, "scale = 'column'"),
        ({"version_unit": "h"}, "version_unit = 'h'"),
        ({"missing": "none"}, "missing = 'none'"),
        ({"check": "yes"}, "check must be"),
        ({"num_rows": 2**62}, "overflow"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], wrong: str) -> None:
    given_options = {"path": None, "num_rows": 3, "shape": 2, **options}
    with pytest.raises((errors.InvalidArgumentError, errors.LimitError), match=wrong):
        LiveFeatureTable.create(**given_options)


# ---- in a graph --------------------------------------------------------------------------------


def test_an_attribute_of_a_graph_changes_with_the_table() -> None:
    graph = Graph.from_edges(ROWS, [0, 1], [1, 2])
    table = make(missing="zero")
    graph.node_attrs["x"] = table
    assert graph.node_attrs["x"] is table
    table.put(2, rows_of(4)[0])
    assert graph.node_attrs["x"].gather([2])[0, 0] == 4


def live_graph(table: LiveFeatureTable) -> DynamicGraph:
    graph = DynamicGraph(10, arena_mb=2, huge_pages=False)
    graph.insert_edges([0, 1, 2], [1, 2, 3])
    graph.node_attrs["x"] = table
    return graph


def test_an_attribute_of_a_live_graph_changes_without_a_commit() -> None:
    table = make(missing="zero")
    graph = live_graph(table)
    snapshot = graph.snapshot()
    rows = graph.node_attrs["x"]
    assert (rows.shape, rows.is_live, list(graph.node_attrs)) == ((10, ITEMS), True, ["x"])
    table.put(2, rows_of(4)[0])
    for attrs in (graph.node_attrs, snapshot.node_attrs):
        assert attrs["x"].gather([2])[0, 0] == 4
        with pytest.raises(errors.OutOfRangeError):
            attrs["x"].gather([10])
    graph.update_nodes([2, 3, 2], x=rows_of(5, 6, 7))
    assert rows.gather([2, 3])[:, 0].tolist() == [7, 6]
    assert table.gather([2, 3])[:, 0].tolist() == [7, 6]
    graph.add_nodes(2)
    assert graph.node_attrs["x"].shape == (12, ITEMS)
    copy = pickle.loads(pickle.dumps(graph))
    table.put(2, rows_of(9)[0])
    assert copy.node_attrs["x"].gather([2])[0, 0] == 9
    assert graph.to_graph().node_attrs["x"].gather([2])[0, 0] == 9
    for batch in SubgraphLoader(graph, [2], batch_size=4):
        assert batch.x[:, 0].tolist() == table.gather(batch.subgraph.node)[:, 0].tolist()


def test_live_rows_of_a_live_graph_begin_and_end() -> None:
    graph = live_graph(make())
    with pytest.raises(errors.InvalidArgumentError, match="change by themselves: end them first"):
        graph.node_attrs["x"] = np.zeros((10, 2))
    graph.node_attrs["x"] = None
    assert "x" not in graph.node_attrs
    graph.node_attrs["x"] = np.zeros((10, 2))
    with pytest.raises(errors.InvalidArgumentError, match="has rows already"):
        graph.node_attrs["x"] = make()
    with pytest.raises(errors.InvalidArgumentError, match="has 3 rows, but num_nodes = 10"):
        graph.node_attrs["y"] = LiveFeatureTable.create(None, 3, 2)


def test_a_file_of_a_live_graph_leaves_live_rows_out(tmp_path: Path) -> None:
    graph = live_graph(make())
    graph.node_attrs["y"] = np.arange(10)
    graph.snapshot().save(tmp_path / "graph.aeg")
    assert list(Graph.load(tmp_path / "graph.aeg").node_attrs) == ["y"]
    table = LiveFeatureTable.create(tmp_path / "x.aet", ROWS, ITEMS, missing="zero")
    for _ in range(2):
        with DynamicGraph.open(tmp_path / "live", 10, arena_mb=2, huge_pages=False) as kept:
            kept.node_attrs["x"] = table  # the directory does not keep it
            kept.insert_edges([0], [1])
            kept.merge()
            assert list(kept.node_attrs) == ["x"]


def ingest(
    graph: DynamicGraph, source: MemorySource, done: Callable[[], bool], **options: Any
) -> None:
    with Ingestor(graph, source, **options):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if done():
                return
            time.sleep(0.001)
    raise AssertionError("the records have not come")


def test_a_stream_writes_rows_of_a_live_table() -> None:
    table = make(missing="zero")
    graph, source = live_graph(table), MemorySource("rows")
    source.append(0, node=np.array([3, 4, 3]), attrs={"x": rows_of(1, 2, 5)})
    ingest(graph, source, lambda: table.gather([3])[0, 0] == 5)
    assert table.gather([3, 4])[:, 0].tolist() == [5, 2]


def test_times_of_a_stream_are_versions(tmp_path: Path) -> None:
    table = make(missing="zero", version_unit="ms")
    graph, source = live_graph(table), MemorySource("rows")
    days = np.array(["2024-01-02", "2024-01-01", "2024-01-03", "1969-01-01"], "datetime64[s]")
    source.append(0, node=np.array([3, 3, 4, 4]), time=days, attrs={"x": rows_of(1, 2, 3, 4)})
    letters = tmp_path / "bad.jsonl"
    ingest(graph, source, lambda: table.gather([4])[0, 0] == 3, dead_letter=letters, max_bad=1)
    assert "is negative: versions begin at 0" in letters.read_text()
    assert table.gather([3])[0, 0] == 1  # what came later was older
    assert table.versions([3]).tolist() == [days[0].astype("datetime64[ms]").astype(np.int64)]
    kept = live_graph(table)
    kept.node_attrs["y"] = np.zeros((10, ITEMS), np.float32)
    source = MemorySource("rows")
    source.append(0, node=np.array([3]), time=days[:1], attrs={"y": rows_of(1)})
    with pytest.raises(errors.InvalidArgumentError, match="rows of a graph do not keep"):
        Ingestor(kept, source).run()
