"""FeatureTable: dtypes, .npy files as they are, native files, gathering.

What every source of rows does (ids and ``out`` in any form, widening, pickles, forks), the contract
asks of stores in every storage: contracts/test_feature_sources.py.
"""

from __future__ import annotations

import gc
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.rows import random_rows

from aethergraph import FeatureTable, Graph, errors
from aethergraph import _native as native
from aethergraph.features.bfloat16 import bfloat16_to_float32, float32_to_bfloat16

DTYPES = [
    "float16", "float32", "float64", "int8", "int16", "int32", "int64",
    "uint8", "uint32", "uint64", "bool",
]  # fmt: skip


# ---- gather ----------------------------------------------------------------------------------


def test_bfloat16_widens() -> None:
    bits = np.arange(65536, dtype=np.uint16)
    store = FeatureTable.from_array(bits, dtype="bfloat16")
    assert (store.dtype, store.dtype_name) == ("bfloat16", "bfloat16")
    np.testing.assert_array_equal(store.gather(np.arange(65536)), bits)
    wide = store.gather(np.arange(65536), dtype="float32")
    np.testing.assert_array_equal(wide, bfloat16_to_float32(bits))
    assert store.gather([0x3F80], dtype="float64").tolist() == [1.0]
    assert np.asarray(store).dtype == np.float32


def test_gather_into_an_array() -> None:
    rows = random_rows("float32")
    store = FeatureTable.from_array(rows)
    out = np.empty((2, 3), np.float32)
    assert store.gather([4, 2], out) is out
    np.testing.assert_array_equal(out, rows[[4, 2]])
    assert store.gather([1], dtype="float64", out=np.empty((1, 3))).dtype == np.float64
    read_only = np.empty((2, 3), np.float32)
    read_only.flags.writeable = False
    for bad, text in [
        (np.empty((3, 3), np.float32), r"out has shape \(3, 3\), the rows need \(2, 3\)"),
        (np.empty((2, 6), np.float32)[:, ::2], "C-contiguous"),
        (read_only, "writable"),
        (np.empty((2, 3), np.complex64), "complex64"),
        (np.empty((2, 3), ">f4"), "dtype '>f4', in the other byte order: give '<f4'"),
        (np.empty((2, 3), ">f8"), "'>f8'"),  # widened
        ([[0] * 3] * 2, "out must be a numpy array"),
    ]:
        with pytest.raises(errors.InvalidArgumentError, match=text):
            store.gather([4, 2], bad)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match="dtype = float64 is asked"):
        store.gather([4, 2], out, dtype="float64")


@pytest.mark.parametrize("bad", [50, -1, 2**40, -(2**63)])
def test_rows_that_do_not_exist_are_named(bad: int) -> None:
    with pytest.raises(errors.OutOfRangeError) as caught:
        FeatureTable.from_array(random_rows("float32")).gather([0, 0, 0, bad, 0])
    assert str(caught.value) == f"ids[3] = {bad} is not in 0..49 (num_rows=50)"
    assert (caught.value.position, caught.value.value) == (3, bad)


def test_indexing_as_in_numpy() -> None:
    rows = random_rows("float64")
    store = FeatureTable.from_array(rows)
    mask = np.arange(50) % 7 == 0
    for index in (3, -1, slice(5, 20, 3), mask, [4, 4, 0], np.array([1], np.uint8), ..., [],
                  mask.tolist(), slice(None)):  # fmt: skip
        np.testing.assert_array_equal(store[index], rows[index])
    assert store[3].base is None or store[3].base.shape == (1, 3)
    assert len(store) == 50 and store.ndim == 2
    np.testing.assert_array_equal(np.stack(list(store)), rows)
    np.testing.assert_array_equal(np.asarray(store), rows)
    for bad in (50, -51):
        with pytest.raises(IndexError, match=f"row {bad}"):
            store[bad]
    with pytest.raises(errors.InvalidArgumentError, match=r"the mask has shape \(3,\)"):
        store[np.array([True, False, True])]
    with pytest.raises(errors.OutOfRangeError, match=r"ids\[1\] = -1"):
        store[[0, -1]]
    with pytest.raises(errors.UnsupportedError):
        store[1, 2]


# ---- arrays ----------------------------------------------------------------------------------


def test_arrays_are_wrapped_without_a_copy() -> None:
    rows = random_rows("float32", (20, 6))
    for array in (rows, rows[3:9], rows[::2], rows[:, :4], rows[2:, 1:3]):
        store = FeatureTable.from_array(array)
        assert np.shares_memory(store.array, rows)
        np.testing.assert_array_equal(store.gather([1, 0]), array[[1, 0]])
    for array in (
        rows.T,
        rows[:, ::2],
        rows[::-1],
        rows.astype(">f4"),
        np.broadcast_to(rows[0], (5, 6)),
    ):
        store = FeatureTable.from_array(array)
        assert not np.shares_memory(store.array, rows)
        np.testing.assert_array_equal(store.gather([1, 0]), array[[1, 0]])
    with pytest.raises(ValueError, match="read-only"):
        FeatureTable.from_array(rows).array[0] = 1
    assert rows.flags.writeable


@pytest.mark.parametrize("bad", [3.0, np.zeros(3, "U4"), np.zeros(3, object), [[1], [2, 3]],
                                 np.zeros(3, "c8"), np.zeros(3, "uint16"), np.zeros(3, "M8[s]"),
                                 np.zeros(3, "f4,i4")])  # fmt: skip
def test_arrays_that_are_refused(bad: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        FeatureTable.from_array(bad)


def test_bfloat16_arrays_are_uint16() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="come as uint16, got dtype float64"):
        FeatureTable.from_array(np.zeros(3), dtype="bfloat16")
    with pytest.raises(errors.InvalidArgumentError, match="dtype = 'float32' is not 'bfloat16'"):
        FeatureTable.from_array(np.zeros(3), dtype="float32")


# ---- .npy files ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_versions(tmp_path: Path, version: tuple[int, int]) -> None:
    rows = random_rows("int32")
    with open(tmp_path / "x.npy", "wb") as stream:
        np.lib.format.write_array(stream, rows, version)
    np.testing.assert_array_equal(FeatureTable.load(tmp_path / "x.npy").array, rows)


def with_header(header: str, data: bytes = b"", version: int = 1) -> bytes:
    text = header.encode("latin1")
    length = len(text).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


def described(descr: str, shape: str, data: bytes = b"") -> bytes:
    return with_header(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}", data)


def test_npy_at_an_odd_but_aligned_offset(tmp_path: Path) -> None:
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }"
    for padding in range(8):
        path = tmp_path / f"{padding}.npy"
        path.write_bytes(with_header(header + " " * padding, rows.tobytes()))
        if (10 + len(header) + padding) % 4 == 0:
            np.testing.assert_array_equal(FeatureTable.load(path).array, rows)
            continue
        with pytest.raises(errors.UnsupportedError, match="storage='memory'"):
            FeatureTable.load(path)
        np.testing.assert_array_equal(FeatureTable.load(path, "memory").array, rows)


def test_npy_files_that_cannot_be_mapped(tmp_path: Path) -> None:
    for array in (np.asfortranarray(random_rows("float32")), random_rows("float32").astype(">f4")):
        np.save(tmp_path / "x.npy", array)
        with pytest.raises(errors.UnsupportedError, match="storage='memory'"):
            FeatureTable.load(tmp_path / "x.npy")
        for storage in ("memory", "auto"):
            store = FeatureTable.load(tmp_path / "x.npy", storage)  # type: ignore[arg-type]
            assert store.storage == "memory"
            np.testing.assert_array_equal(store.gather([7]), array[[7]])
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(store)).array, array)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", errors.FormatError),
        (b"\x93NUMPY", errors.TruncatedFileError),
        (b"\x93NUMPY\x01\x00\xff", errors.TruncatedFileError),
        (b"\x93NUMPY\x01\x00\x10\x00{}", errors.TruncatedFileError),
        (b"\x93NUMPY\x09\x00\x02\x00{}", errors.FormatError),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}", errors.FormatError),
        (with_header("{}"), errors.FormatError),
        (with_header("("), errors.FormatError),
        (with_header("(" * 5000), errors.FormatError),
        (with_header("__import__('os')"), errors.FormatError),
        (with_header("{'descr': '<f4', 'fortran_order': 1, 'shape': (1,)}"), errors.FormatError),
        (described("'<f4'", "1"), errors.FormatError),
        (described("'<f4'", "(-1,)"), errors.FormatError),
        (described("'<f4'", "()", b"1234"), errors.FormatError),
        (described("'<z9'", "(1,)"), errors.FormatError),
        (described("'<f4'", "(2,)", b"1234"),
         errors.TruncatedFileError),
        (described("'<f4'", "(2**61,)"), errors.FormatError),
        (described("'<f4'", "(4611686018427387903, 8)"),
         errors.TruncatedFileError),
        (described("'|O'", "(1,)"), errors.UnsupportedError),
        (described("[('a', '<f4')]", "(1,)"),
         errors.UnsupportedError),
        (described("'<c8'", "(1,)", b"12345678"),
         errors.UnsupportedError),
        (described("'<U2'", "(1,)", b"12345678"),
         errors.UnsupportedError),
    ],
)  # fmt: skip
def test_npy_files_that_are_refused(tmp_path: Path, content: bytes, error: type[Exception]) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    for storage in ("mmap", "memory"):
        with pytest.raises(error, match=r"x\.npy"):
            FeatureTable.load(path, storage)  # type: ignore[arg-type]


def test_files_that_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(errors.MissingFileError):
        FeatureTable.load(tmp_path / "none.npy")
    with pytest.raises(errors.AetherError):
        FeatureTable.load(tmp_path)


# ---- saving ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["x.aef", "x.npy"])
def test_saving_round_trips(tmp_path: Path, dtype: str, name: str) -> None:
    path = tmp_path / name
    for shape in [(50, 3), (7,), (0, 2), (3, 0), (3, 1, 2)]:
        rows = random_rows(dtype, shape)
        FeatureTable.from_array(rows).save(path)
        if name.endswith("npy"):
            buffer = io.BytesIO()
            np.save(buffer, rows)
            assert path.read_bytes() == buffer.getvalue()
        for storage in ("mmap", "memory", "auto"):
            store = FeatureTable.load(path, storage)  # type: ignore[arg-type]
            assert (store.shape, store.dtype_name, store.dtype) == (shape, dtype, rows.dtype)
            np.testing.assert_array_equal(store.array, rows)
            assert not store.array.flags.writeable
            assert store.path == str(path)
            assert rows.size == 0 or store.storage == ("mmap" if storage == "mmap" else "memory")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
def test_saving_as_bfloat16_rounds_to_nearest_even(tmp_path: Path, dtype: str) -> None:
    rows = random_rows(dtype)
    rows = rows >> 24 if dtype == "int32" else rows  # integers stay exact
    FeatureTable.from_array(rows).save(tmp_path / "b", "bfloat16")
    store = FeatureTable.load(tmp_path / "b")
    assert store.dtype_name == "bfloat16"
    expected = float32_to_bfloat16(rows.astype(np.float32))
    np.testing.assert_array_equal(store.array, expected)
    torch = pytest.importorskip("torch")
    theirs = torch.from_numpy(rows.astype(np.float32)).to(torch.bfloat16)
    np.testing.assert_array_equal(store[:], theirs.view(torch.uint16).numpy())
    store.save(tmp_path / "back.npy", "float32")
    back = FeatureTable.load(tmp_path / "back.npy")
    np.testing.assert_array_equal(back.array, bfloat16_to_float32(expected))


def test_special_values_as_bfloat16() -> None:
    values = np.array([np.inf, -np.inf, np.nan, -np.nan, 0.0, -0.0, 3.4e38, 1e-45], np.float32)
    back = bfloat16_to_float32(float32_to_bfloat16(values))
    assert np.isinf(back[[0, 1, 6]]).all() and np.isnan(back[[2, 3]]).all()
    assert np.signbit(back[5]) and back[7] == 0
    # NaN whose payload is only in the low bits must not become infinite
    odd = np.array([0x7F800001], np.uint32).view(np.float32)
    assert np.isnan(bfloat16_to_float32(float32_to_bfloat16(odd))).all()


def test_saving_to_other_dtypes(tmp_path: Path) -> None:
    rows = random_rows("float64")
    store = FeatureTable.from_array(rows)
    store.save(tmp_path / "h", "float16")
    np.testing.assert_array_equal(FeatureTable.load(tmp_path / "h").array, rows.astype(np.float16))
    with pytest.raises(errors.UnsupportedError, match=r"a \.npy file cannot hold bfloat16"):
        store.save(tmp_path / "h.npy", "bfloat16")
    with pytest.raises(errors.InvalidArgumentError, match="complex64 is not one of"):
        store.save(tmp_path / "c", "complex64")
    with pytest.raises(errors.InvalidArgumentError, match="'float7' is not one of"):
        store.save(tmp_path / "c", "float7")


BEYOND_BFLOAT16 = 2.0**128 - 2.0**119


@pytest.mark.parametrize("name", ["x.aef", "x.npy"])
@pytest.mark.parametrize(
    ("value", "dtype", "message", "wide"),
    [
        (np.int64(2**24 + 1), "float32", "float32 would make 16777216 of the value", "float64"),
        (np.float64(2**24 + 1), "float32", "float32 would make 16777216 of the value", "float64"),
        (np.int64(2**53 + 1), "float64", "float64 would make 9007199254740992 of the", None),
        (np.int64(-(2**63) + 1), "float32", "float32 would make -9223372036854775808", None),
        (np.uint64(2**64 - 1), "float32", "float32 would make 18446744073709551616", None),
        (np.int32(10001), "float16", "float16 would make 10000 of the value 10001", "float32"),
        (np.uint32(65536), "float16", "the value 65536 is too large for float16", "float32"),
        (np.int16(257), "bfloat16", "bfloat16 would make 256 of the value 257", "float32"),
        (np.float32(65520), "float16", "the value 65520.0 is too large for float16", "float32"),
        (np.float64(-1e300), "bfloat16", r"-1e\+300 is too large for bfloat16", "float64"),
        (np.float32(BEYOND_BFLOAT16), "bfloat16", "is too large for bfloat16", "float32"),
        (np.float64(1e39), "float32", r"1e\+39 is too large for float32", "float64"),
    ],
)
def test_saving_refuses_what_it_would_lose(
    name: str, value: Any, dtype: str, message: str, wide: str | None, tmp_path: Path
) -> None:
    if name.endswith("npy") and dtype == "bfloat16":
        return
    rows = np.zeros((5, 2), value.dtype)
    rows[3, 1] = value
    store = FeatureTable.from_array(rows)
    way = "leaving dtype out" if wide is None else f"dtype='{wide}'"
    with pytest.raises(errors.InvalidArgumentError, match=f"row 3: .*{message}.*; {way}") as caught:
        store.save(tmp_path / name, dtype=dtype)
    assert caught.value.position == 3
    assert not (tmp_path / name).exists()
    store.save(tmp_path / name, dtype=wide)
    assert FeatureTable.load(tmp_path / name)[3][1] == value


def test_saving_bfloat16_as_float16_refuses_overflow(tmp_path: Path) -> None:
    bits = float32_to_bfloat16(np.array([1, np.inf, np.nan, 70000], np.float32))
    store = FeatureTable.from_array(bits, dtype="bfloat16")
    with pytest.raises(
        errors.InvalidArgumentError, match=r"row 3: the value 70144\.0 is too large"
    ):
        store.save(tmp_path / "h", dtype="float16")
    FeatureTable.from_array(bits[:3], dtype="bfloat16").save(tmp_path / "h", dtype="float16")
    assert np.isinf(FeatureTable.load(tmp_path / "h").array[1])


def test_the_largest_numbers_that_a_type_holds(tmp_path: Path) -> None:
    largest = np.nextafter(np.float32(BEYOND_BFLOAT16), np.float32(0))
    for rows, dtype in [
        (np.array([65519.99, np.inf, np.nan, 0.1], np.float64), "float16"),
        (np.array([65504, -65504, 2048, 4096], np.int64), "float16"),
        (np.array([largest, -np.inf], np.float32), "bfloat16"),
        (np.array([np.nan, np.nan]), "float32"),
        (np.array([-(2**63), 2**62, -256], np.int64), "bfloat16"),
        (np.array([2**63], np.uint64), "float32"),
    ]:
        FeatureTable.from_array(rows).save(tmp_path / "x", dtype=dtype)
        found = FeatureTable.load(tmp_path / "x").gather(np.arange(len(rows)), dtype="float32")
        np.testing.assert_array_equal(np.isinf(found), np.isinf(rows.astype(np.float64)))
        if rows.dtype.kind in "iu":
            assert found.astype(object).tolist() == rows.astype(object).tolist()


@pytest.mark.parametrize("name", ["x.aef", "x.npy"])
def test_saving_over_the_mapped_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    rows = random_rows("float32", (5000, 30))
    FeatureTable.from_array(rows).save(path)
    path.chmod(0o640)
    store = FeatureTable.load(path)
    store.save(path, "float64")
    np.testing.assert_array_equal(store.array, rows)
    np.testing.assert_array_equal(FeatureTable.load(path).array, rows)
    assert path.stat().st_mode & 0o777 == 0o640
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["x.aef", "x.npy"])
def test_saving_follows_links(tmp_path: Path, name: str) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / name).symlink_to("real")
    FeatureTable.from_array([1.0, 2.0]).save(tmp_path / name)
    assert (tmp_path / name).is_symlink()
    assert FeatureTable.load(tmp_path / "real").array.tolist() == [1.0, 2.0]


def test_row_strided_stores_save_whole_rows(tmp_path: Path) -> None:
    rows = random_rows("float32", (40_000, 200))[:, 10:110]
    FeatureTable.from_array(rows).save(tmp_path / "x")
    np.testing.assert_array_equal(FeatureTable.load(tmp_path / "x").array, rows)


# ---- lifetimes and pickling ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["view.npy", "view.aef"])
def test_views_outlive_the_store_and_the_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    rows = random_rows("float32", (5000, 8))
    FeatureTable.from_array(rows).save(path)
    store = FeatureTable.load(path)
    view = store.array[10:]
    store.close()
    path.unlink()
    del store
    gc.collect()
    np.testing.assert_array_equal(view, rows[10:])
    del view
    gc.collect()
    assert name not in Path("/proc/self/maps").read_text()


def test_which_rows_may_be_written(tmp_path: Path) -> None:
    rows = random_rows("float32")
    store = FeatureTable.from_array(rows)
    assert store.is_writable and pickle.loads(pickle.dumps(store)).is_writable
    fixed = rows[:20]
    fixed.flags.writeable = False
    assert not FeatureTable.from_array(fixed).is_writable
    store.save(tmp_path / "rows.bin")
    mapped = FeatureTable.load(tmp_path / "rows.bin")
    assert not mapped.is_writable and not mapped.to_memory().is_writable
    graph = Graph.from_edges(2, [0, 1], [1, 0], edge_weight=[1.0, 2.0], edge_attrs={"w": [3, 4]})
    assert graph.edge_attrs["w"].is_writable
    assert not graph.edge_values["edge_weight"].is_writable


def test_a_closed_store_says_so() -> None:
    with FeatureTable.from_array([1.0, 2.0]) as store:
        assert store.gather([1]).tolist() == [2.0]
    store.close()
    assert store.closed and "closed" in repr(store)
    assert store.shape == (2,)
    calls: list[Any] = [
        lambda: store.gather([0]), lambda: store[0], lambda: store.array, lambda: store.save("x"),
        lambda: pickle.dumps(store), store.to_memory,
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(errors.ClosedError, match="closed"):
            call()


@pytest.mark.parametrize("name", [None, "x.npy", "x.aef"])
@pytest.mark.parametrize("storage", ["mmap", "memory"])
def test_stores_pickle(tmp_path: Path, name: str | None, storage: Any) -> None:
    rows = random_rows("float32", (5000, 8))
    store = FeatureTable.from_array(rows[:, :6])
    if name is not None:
        store.save(tmp_path / name)
        store = FeatureTable.load(tmp_path / name, storage)
    data = pickle.dumps(store)
    assert (len(data) < 1500) == (name is not None)
    copied = pickle.loads(data)
    assert (copied.path, copied.storage) == (store.path, store.storage)
    np.testing.assert_array_equal(copied.array, rows[:, :6])
    if name is not None:
        FeatureTable.from_array(rows[:, :6] + 1).save(tmp_path / name)
        with pytest.raises(errors.FileChangedError):
            pickle.loads(data)


@pytest.mark.parametrize("form", ["load", "memmap", "a part", "an array of it", "of a graph"])
def test_what_numpy_has_mapped_pickles_by_path(form: str, tmp_path: Path) -> None:
    path, rows = tmp_path / "x.npy", random_rows("float32", (5000, 8))
    np.save(path, rows)
    array: Any = np.load(path, mmap_mode="r")
    if form == "memmap":
        array, rows = np.memmap(path, np.float32, "r", 128 + 64, (4000, 8)), rows[2:4002]
    elif form == "a part":
        array, rows = array[7:4007], rows[7:4007]
    elif form == "an array of it":
        array = np.asarray(array)
    graph = Graph.from_edges(len(rows), [0], [1])
    graph.node_attrs["y"] = array
    store: Any = graph if form == "of a graph" else FeatureTable.from_array(array)
    size = 8 * len(rows) + 3000 if form == "of a graph" else 1000  # the graph's own lists
    data = pickle.dumps(pickle.loads(pickle.dumps(store)))  # also of what came from a pickle
    assert len(data) < size

    def rows_of(store: Any) -> Any:
        return (store.node_attrs["y"] if form == "of a graph" else store).array

    np.testing.assert_array_equal(rows_of(pickle.loads(data)), rows)
    np.save(tmp_path / "other.npy", rows + 1)
    (tmp_path / "other.npy").replace(path)
    with pytest.raises(errors.FileChangedError, match=r"x\.npy: the file is not the one"):
        pickle.loads(data)
    again = pickle.dumps(store)  # the mapping still has the rows, which no path leads to any more
    assert len(again) > rows.nbytes
    np.testing.assert_array_equal(rows_of(pickle.loads(again)), rows)
    path.unlink()
    with pytest.raises(errors.FileChangedError):
        pickle.loads(data)


@pytest.mark.parametrize("mode", ["c", "r+"])
def test_what_may_be_written_pickles_by_value(mode: Any, tmp_path: Path) -> None:
    rows = random_rows("float32", (5000, 8))
    np.save(tmp_path / "x.npy", rows)
    array = np.load(tmp_path / "x.npy", mmap_mode=mode)
    array[3] = 7.0
    data = pickle.dumps(FeatureTable.from_array(array))
    array[3] = 9.0
    assert len(data) > rows.nbytes and (pickle.loads(data).array[3] == 7).all()


def test_to_memory(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", random_rows("int16"))
    store = FeatureTable.load(tmp_path / "x.npy")
    memory = store.to_memory()
    assert (store.storage, memory.storage) == ("mmap", "memory")
    assert memory.to_memory() is memory
    np.testing.assert_array_equal(memory.array, store.array)
    assert "int16" in repr(memory)
    kept = pickle.loads(pickle.dumps(memory))
    assert (kept.storage, kept.path) == ("memory", store.path)
    graph = Graph.from_edges(50, [0], [1])
    graph.features = store
    graph.save(tmp_path / "g.aeg")
    graph = Graph.load(tmp_path / "g.aeg")
    graph.node_attrs["x"] = graph.node_attrs["x"].to_memory()
    kept = pickle.loads(pickle.dumps(graph)).node_attrs["x"]
    assert kept.storage == "memory"
    np.testing.assert_array_equal(kept.array, store.array)


def test_ml_dtypes_arrays_are_taken() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    store = FeatureTable.from_array(np.array([1.0, 2.0], ml_dtypes.bfloat16))
    assert store.dtype_name == "bfloat16"
    assert store.gather([1], dtype="float32").tolist() == [2.0]


def test_dtype_codes_have_the_native_sizes() -> None:
    for code, dtype in native.ARRAY_DTYPES.items():
        assert native.lib.aether_dtype_size(code) == dtype.itemsize


def test_torch_tensors_of_bfloat16_are_taken() -> None:
    torch = pytest.importorskip("torch")
    rows = torch.rand(5, 3).to(torch.bfloat16)
    store = FeatureTable.from_array(rows)
    assert store.dtype_name == "bfloat16"
    np.testing.assert_array_equal(store.gather([4, 0], dtype="float32"), rows[[4, 0]].float())
    graph = Graph.from_edges(5, [0], [1])
    graph.features = rows.T.contiguous().T
    np.testing.assert_array_equal(graph.features.gather([2], dtype="float32"), rows[[2]].float())


@pytest.mark.parametrize("name", ["", 3, "half \ud800 a pair"])
def test_names_that_no_file_could_hold(name: Any) -> None:
    graph = Graph.from_edges(2, [0], [1])
    with pytest.raises(errors.InvalidArgumentError, match="name of a node attribute"):
        graph.node_attrs[name] = [1, 2]
    with pytest.raises(errors.InvalidArgumentError, match="name of a edge attribute"):
        Graph.from_edges(2, [0], [1], edge_attrs={name: [1]})


def test_an_attribute_of_no_known_dtype_is_named() -> None:
    graph = Graph.from_edges(2, [0], [1])
    with pytest.raises(errors.InvalidArgumentError, match=r"node_attrs\['z'\]: complex128"):
        graph.node_attrs["z"] = [1j, 2]


def test_a_row_whose_stride_means_nothing() -> None:
    rows = random_rows("float64", (9, 3))
    for array in (rows[:1][::-1], rows[::-1][:1], rows[:0][::-1], rows[:, :0][::-1]):
        store = FeatureTable.from_array(array)
        np.testing.assert_array_equal(store.gather(np.arange(len(array))), array)
    one = np.array([5])[::-1]
    graph = Graph.from_edges(2, [0], [1], edge_weight=one, edge_time=one, edge_attrs={"x": one})
    assert (graph.edge_weight, graph.edge_time) == ([5.0], [5])
    assert graph.edge_attrs["x"].gather([0]) == [5]


@pytest.mark.parametrize("name", ["x.npy", "x.aef"])
@pytest.mark.parametrize("storage", ["mmap", "memory", "uring"])
def test_verify_notices_another_file(tmp_path: Path, name: str, storage: Any) -> None:
    path = tmp_path / name
    FeatureTable.from_array(random_rows("float32")).save(path)
    store = FeatureTable.load(path, storage)
    store.verify()
    FeatureTable.from_array(random_rows("float32") + 1).save(path)
    with pytest.raises(errors.FileChangedError, match="not the one that was opened"):
        store.verify()
    path.write_bytes(b"no such file any more")
    with pytest.raises(errors.AetherError):
        store.verify()
