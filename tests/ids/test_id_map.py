"""Maps of ids against a dict, through files: all types, any chunks, any memory; damage, misuse."""

from __future__ import annotations

import errno
import os
import pickle
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.crafted_keys import same_hash
from support.damage import damages, fuzz

from aethergraph import FeatureTable, Graph
from aethergraph import _native as native
from aethergraph.errors import (
    AetherError,
    ClosedError,
    CorruptFileError,
    DiskFullError,
    FileChangedError,
    FormatError,
    InvalidArgumentError,
    OutOfRangeError,
    StorageError,
)
from aethergraph.ids import IdMap, IdMapBuilder
from aethergraph.ids.builder import DuplicateKeyError

GOLDEN = Path(__file__).resolve().parents[1] / "golden"

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "str": st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    "bytes": st.binary(max_size=12),
    "uuid": st.uuids(),
}


def as_column(values: Sequence[Any], kind: str) -> Any:
    return np.array(values, kind) if kind in ("int64", "uint64") else list(values)


def as_keys(rows: Sequence[tuple[Any, ...]], types: tuple[str, ...]) -> Any:
    """Rows of keys as the map takes them: a column, or several."""
    columns = [as_column([row[i] for row in rows], kind) for i, kind in enumerate(types)]
    return columns[0] if len(types) == 1 else tuple(columns)


def as_rows(keys: Any, types: tuple[str, ...]) -> list[tuple[Any, ...]]:
    columns = [keys] if len(types) == 1 else keys
    return list(zip(*(list(column) for column in columns), strict=True))


@st.composite
def tables(draw: st.DrawFn) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    types = tuple(draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3)))
    rows = st.tuples(*(VALUES[kind] for kind in types))
    return types, draw(st.lists(rows, max_size=60))


@fuzz
@given(table=tables(), data=st.data(), unique=st.booleans())
def test_equal_to_a_dict(tmp_path: Path, table: Any, data: Any, unique: bool) -> None:
    types, rows = table
    if unique:
        rows = list(dict.fromkeys(rows))
    ids = {row: number for number, row in enumerate(dict.fromkeys(rows))}
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    chunks = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    columns = [as_keys(one, types) for one in chunks]
    found = IdMap.build(tmp_path / "map", columns, types, unique=unique, force=True)
    assert len(found) == len(ids) and found.types == types
    found.verify()
    others = data.draw(st.lists(st.tuples(*(VALUES[kind] for kind in types)), max_size=5))
    asked = [*rows, *others]
    assert found.lookup(as_keys(asked, types), missing="mark").tolist() == [
        ids.get(row, -1) for row in asked
    ]
    assert as_rows(found.keys(np.arange(len(ids))), types) == list(ids)


CHUNKS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "numbers": ("int64", lambda some: some),
    "texts": ("str", lambda some: [f"key-{n * n}" for n in some.tolist()]),
    "both": (("str", "int64"), lambda some: ([f"{n % 7}" for n in some.tolist()], some)),
}


@pytest.mark.any_python
@pytest.mark.parametrize(
    ("what", "unique"), [("numbers", True), ("texts", False), ("both", True), ("both", False)]
)
def test_the_file_depends_neither_on_chunks_nor_on_memory(
    tmp_path: Path, what: str, unique: bool
) -> None:
    rng = np.random.default_rng(1)
    numbers = rng.permutation(30_000) if unique else rng.integers(0, 10_000, 45_000)
    types, chunk = CHUNKS[what]
    files = []
    for pieces, memory in ((1, "1G"), (7, "64K"), (50, "300K")):
        path = tmp_path / str(pieces)
        chunks = (chunk(part) for part in np.array_split(numbers, pieces))
        IdMap.build(path, chunks, types, unique=unique, memory_budget=memory).verify()
        files.append(path.read_bytes())
        assert not Path(f"{path}.building").exists()
    assert files[0] == files[1] == files[2]
    found = IdMap.load(tmp_path / "7")
    order = np.array(list(dict.fromkeys(numbers.tolist())))
    asked = rng.permutation(len(order))[:1000]
    assert np.array_equal(found.lookup(chunk(order[asked])), asked)


def test_rows_that_are_not_unique_follow_those_that_are(tmp_path: Path) -> None:
    with IdMapBuilder(tmp_path / "m", "str", 1 << 20, str(tmp_path / "work")) as builder:
        builder.add(["a", "b"])
        builder.add(["c", "b", "a", "c", "d"], unique=False)
        with pytest.raises(InvalidArgumentError, match="before all others"):
            builder.add(["e"])
        assert builder.finish() == 4
    assert IdMap.load(tmp_path / "m").keys(range(4)) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("memory", ["64K", "1G"])
def test_a_key_that_comes_twice_is_named_with_both_places(tmp_path: Path, memory: str) -> None:
    keys = [f"user {n}" for n in range(30_000)]
    keys[29_000] = keys[17]
    chunks = [keys[:10_000], keys[10_000:]]
    with pytest.raises(DuplicateKeyError, match="'user 17' comes twice, as key 17 and 29000") as e:
        IdMap.build(tmp_path / "m", chunks, "str", memory_budget=memory)
    assert (e.value.first, e.value.second) == (17, 29_000)
    assert list(tmp_path.iterdir()) == []


ONE = uuid.UUID("12345678-1234-5678-1234-567812345678")


def test_forms_of_columns(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    texts = IdMap.build(tmp_path / "s", [["a", "bc", ""]], "str")
    for column in (
        np.array(["bc", "", "a"]),
        np.array(["bc", "", "a"], object),
        ("bc", "", "a"),
        pa.array(["bc", "", "a"]),
        pa.array(["x", "bc", "", "a"])[1:],
        pa.array(["bc", "", "a"], pa.large_string()),
        pa.chunked_array([["bc"], ["", "a"]]),
        pa.array(["bc", "", "a"]).dictionary_encode(),
    ):
        assert texts.lookup(column).tolist() == [1, 2, 0]
    numbers = IdMap.build(tmp_path / "n", [np.array([5, -7, 9], np.int16)], "int64")
    for column in ([9, 5], (9, 5), np.array([9, 5], np.uint64), pa.array([9, 5], pa.int8())):
        assert numbers.lookup(column).tolist() == [2, 0]
    assert numbers.lookup([2**63, 9], missing="mark").tolist() == [-1, 2]
    large = IdMap.build(tmp_path / "u", [[2**64 - 1, 3]], "uint64")
    assert large.lookup(np.array([3, -1]), missing="mark").tolist() == [1, -1]
    assert large.keys([0]).tolist() == [2**64 - 1]
    names = IdMap.build(tmp_path / "i", [[ONE, uuid.UUID(int=3)]], "uuid")
    for one in (ONE, str(ONE), ONE.bytes, ONE.hex):
        assert names.lookup([one]).tolist() == [0]
    assert names.lookup(pa.array([ONE.bytes], pa.binary(16))).tolist() == [0]
    assert names.keys([1]) == [uuid.UUID(int=3)]


def test_columns_of_pandas(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    found = IdMap.build(tmp_path / "s", [pd.Series(["a", "b"])], "str")
    assert found.lookup(pd.Series(["b", "a"], dtype="category")).tolist() == [1, 0]
    with pytest.raises(InvalidArgumentError, match="key 1 is missing"):
        found.lookup(pd.Series(["b", None]))
    numbers = IdMap.build(tmp_path / "n", [pd.Series([4, 7])], "int64")
    with pytest.raises(InvalidArgumentError, match="pandas makes floats of integers"):
        numbers.lookup(pd.Series([4, None]))


@pytest.mark.parametrize(
    ("keys", "types", "error"),
    [
        (["a", None], "str", "key 1 is missing"),
        (["a", 7], "str", "key 1 is 7, not a string"),
        (["a", "\ud800"], "str", "key 1 has characters that UTF-8"),
        ("abc", "str", "put it in a list"),
        (7, "str", "keys are a sequence, got int"),
        ([1.5], "int64", "key 0 is 1.5, not an integer"),
        (np.array([1.5]), "int64", "integers, got float64"),
        ([1, None], "int64", "key 1 is missing"),
        ([1, True], "bytes", "key 0 is 1, not bytes"),
        ([[1, 2]], "int64", "keys are a vector"),
        (["xyz"], "uuid", "key 0 is 'xyz', not a UUID"),
        (np.ma.masked_array([1, 2], [False, True]), "int64", "key 1 is missing"),
        (np.ma.masked_array([1, 2], [False, True], object), "int64", "key 1 is missing"),
        (["a"], ("str", "str"), "given as 2 columns, one after the other, got 1"),
        ((["a"], [1, 2]), ("str", "int64"), "have 1 and 2 rows"),
        ([1], "int32", "a key is of type"),
        ([1], (), "at least one column"),
    ],
)
def test_bad_keys_are_named(tmp_path: Path, keys: Any, types: Any, error: str) -> None:
    with pytest.raises(InvalidArgumentError, match=error):
        IdMap.build(tmp_path / "m", [keys], types)
    assert list(tmp_path.iterdir()) == []


def test_chunks_are_iterable(tmp_path: Path) -> None:
    for chunks in (None, 7):
        with pytest.raises(InvalidArgumentError, match="chunks must be a sequence of columns"):
            IdMap.build(tmp_path / "m", chunks, "str")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("memory", "scratch", "message"),
    [
        (None, "work", "memory must be bytes or a text"),
        ("x", "work", "memory = 'x' is not a size"),
        (1.5, "work", "memory must be bytes or a text"),
        (-1, "work", "memory = -1 is negative"),
        ("64K", None, "None is not a file name"),
        ("64K", "a\0b", "is not a file name"),
    ],
)
def test_bad_arguments_of_the_builder(
    tmp_path: Path, memory: Any, scratch: Any, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        IdMapBuilder(tmp_path / "m", "str", memory, scratch)
    assert list(tmp_path.iterdir()) == []


def test_numbers_outside_the_type(tmp_path: Path) -> None:
    with pytest.raises(OutOfRangeError, match=f"key 1 = {2**63} does not fit in keys"):
        IdMap.build(tmp_path / "m", [[1, 2**63]], "int64")
    with pytest.raises(OutOfRangeError, match="key 0 = "):
        IdMap.build(tmp_path / "m", [[2**64]], "int64")
    with pytest.raises(OutOfRangeError, match="key 0 = -1 does not fit in keys of type uint64"):
        IdMap.build(tmp_path / "m", [[-1]], "uint64")
    with pytest.raises(OutOfRangeError, match=r"no key -1 \(position 1\)"):
        IdMap.build(tmp_path / "u", [[1]], "uint64").lookup([1, -1])
    with pytest.raises(OutOfRangeError, match=rf"no key {2**63} \(position 0\)"):
        IdMap.build(tmp_path / "i", [[1]], "int64").lookup([2**63, 1])


@pytest.mark.parametrize("order", ["<", ">"])
def test_numbers_of_both_byte_orders(tmp_path: Path, order: str) -> None:
    large = np.array([3, 2**64 - 1], f"{order}u8")
    with pytest.raises(OutOfRangeError, match=f"key 1 = {2**64 - 1} does not fit"):
        IdMap.build(tmp_path / "i", [large], "int64")
    found = IdMap.build(tmp_path / "i", [np.array([-1, 3], f"{order}i8")], "int64")
    assert found.keys([0, 1]).tolist() == [-1, 3]
    assert found.lookup(large, missing="mark").tolist() == [1, -1]
    assert IdMap.build(tmp_path / "u", [large], "uint64").keys([0, 1]).tolist() == large.tolist()


def test_missing_keys_and_ids_are_named(tmp_path: Path) -> None:
    found = IdMap.build(tmp_path / "m", [["a", "b"]], "str")
    with pytest.raises(OutOfRangeError, match=r"has no key 'nobody' \(position 1\)") as error:
        found.lookup(["a", "nobody"])
    assert error.value.position == 1
    with pytest.raises(OutOfRangeError, match=r"ids\[1\] = 2 is not in 0\.\.1"):
        found.keys([0, 2])
    with pytest.raises(InvalidArgumentError, match="missing"):
        found.lookup(["a"], missing="ignore")  # type: ignore[arg-type]
    assert found.lookup([]).tolist() == [] and found.keys([]) == []


def test_an_existing_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "m"
    IdMap.build(path, [["a"]], "str")
    with pytest.raises(StorageError, match="exists already"):
        IdMap.build(path, [["b"]], "str")
    assert IdMap.load(path).keys([0]) == ["a"]
    assert IdMap.build(path, [["b"]], "str", force=True).keys([0]) == ["b"]


def test_one_build_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.ids"

    def keys() -> Iterator[list[str]]:
        yield ["a"]
        with pytest.raises(StorageError, match=f"is running in process {os.getpid()}: build it"):
            IdMap.build(path, [["x"]], "str")
        yield ["b"]

    with IdMap.build(path, keys(), "str") as found:
        assert found.keys([0, 1]) == ["a", "b"]


def test_the_work_folder_may_be_left_but_is_nobody_elses(tmp_path: Path) -> None:
    path, folder = tmp_path / "a.ids", tmp_path / "a.ids.building"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(StorageError, match="holds others"):
        IdMap.build(path, [["a"]], "str")
    assert (folder / "notes.txt").read_text() == "mine"
    (folder / "notes.txt").unlink()
    for name in ("run-0", "ids-12", "keys"):  # as a build that was killed leaves it
        (folder / name).write_bytes(b"junk")
    IdMap.build(path, [["a"]], "str").close()
    assert not folder.exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_named(tmp_path: Path) -> None:
    (tmp_path / "m.building").mkdir()
    (tmp_path / "m.building" / "hashes").symlink_to("/dev/full")
    with pytest.raises(DiskFullError, match=r"cannot write .*hashes: No space left") as caught:
        IdMap.build(tmp_path / "m", [["a"]], "str")
    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


def test_pickles_by_path_and_closes(tmp_path: Path) -> None:
    found = IdMap.build(tmp_path / "m", [["a"]], "str")
    pickled = pickle.dumps(found)
    assert pickle.loads(pickled).lookup(["a"]).tolist() == [0]
    block = found.columns.encode_exactly(["a"])
    with found:
        assert "1 keys of type str" in repr(found)
    for use in (
        lambda: found.lookup(["a"]),
        lambda: found.find(block),
        lambda: found.keys([0]),
        lambda: pickle.dumps(found),
    ):
        with pytest.raises(ClosedError, match="the map of ids was closed"):
            use()
    IdMap.build(tmp_path / "m", [["a"]], "str", force=True)  # the same content
    assert pickle.loads(pickled).lookup(["a"]).tolist() == [0]
    IdMap.build(tmp_path / "m", [["b", "a"]], "str", force=True)
    with pytest.raises(FileChangedError, match="m: the file is not the one that was opened"):
        pickle.loads(pickled)


def test_no_keys_at_all(tmp_path: Path) -> None:
    for types in ("str", "int64", ("str", "uuid")):
        found = IdMap.build(tmp_path / "m", [], types, force=True)
        found.verify()
        assert len(found) == 0
    assert IdMap.build(tmp_path / "n", [], "str").lookup(["a"], missing="mark").tolist() == [-1]


def test_other_files_are_refused_by_kind(tmp_path: Path) -> None:
    IdMap.build(tmp_path / "m", [["a"]], "str")
    Graph.from_edges(2, [0], [1]).save(tmp_path / "g")
    with pytest.raises(FormatError, match=r"a map of ids, not a graph; open it with IdMap\.load"):
        Graph.load(tmp_path / "m")
    with pytest.raises(FormatError, match="a map of ids"):
        FeatureTable.load(tmp_path / "m")
    with pytest.raises(FormatError, match="this is a graph file"):
        IdMap.load(tmp_path / "g")


# ---- keys that were made to have one hash --------------------------------------------------------


def test_any_number_of_keys_may_have_one_hash(tmp_path: Path) -> None:
    keys, orders = same_hash(5000), np.random.default_rng(1)
    files = []
    for pieces, memory in ((1, "1G"), (9, "64K")):
        path = tmp_path / str(pieces)
        chunks = [keys[part[0] : part[-1] + 1] for part in np.array_split(np.arange(5000), pieces)]
        found = IdMap.build(path, [*chunks, keys[:10]], "bytes", unique=False, memory_budget=memory)
        found.verify()
        files.append(path.read_bytes())
    assert files[0] == files[1]
    assert b'"equal_hashes":"by bytes"' in files[0]
    asked = orders.permutation(5000)
    assert found.lookup([keys[at] for at in asked.tolist()]).tolist() == asked.tolist()
    assert found.lookup(same_hash(5010)[5000:], missing="mark").tolist() == [-1] * 10
    assert found.keys(asked[:5]) == [keys[at] for at in asked[:5].tolist()]
    with pytest.raises(DuplicateKeyError, match="as key 17 and 5000"):
        IdMap.build(tmp_path / "m", [keys, [keys[17]]], "bytes")


def test_keys_of_one_hash_in_the_order_of_their_ids_are_found(tmp_path: Path) -> None:
    """As they are in files of before, which do not say that keys of one hash are by bytes."""
    path = GOLDEN / "keys-of-one-hash-v1.ids"
    assert b"equal_hashes" not in path.read_bytes()
    found = IdMap.load(path)
    found.verify()
    keys = same_hash(40)[::-1]
    assert found.lookup(keys).tolist() == list(range(40))
    assert found.lookup(same_hash(41)[40:], missing="mark").tolist() == [-1]


# ---- files that are not what we wrote -----------------------------------------------------------


def golden(path: Path) -> IdMap:
    keys = (["x", "", "y", "x"], np.array([1, -2, 3, 4]), [uuid.UUID(int=n) for n in range(4)])
    return IdMap.build(path, [keys], ("str", "int64", "uuid"))


def test_golden_file(tmp_path: Path) -> None:
    """Files of version 1 are readable for ever, and are written byte by byte as they were."""
    path = GOLDEN / "keys-v1.ids"
    found = IdMap.load(path)
    found.verify()
    assert found.keys([3, 1])[0] == ["x", ""] and found.keys([1])[1].tolist() == [-2]
    golden(tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == path.read_bytes()


def rewritten(path: Path, kind: int, change: Callable[[Any], Any]) -> IdMap:
    """A copy of a map whose checksums are right and one section of which was changed."""
    good, bad = native.NativeFile(path), path.with_name("bad")
    with native.NativeWriter(bad, native.CONTENT_KEYS) as writer:
        for section in good.sections():
            array = np.array(good.section_array(section))
            writer.begin(section.kind, 0, section.dtype)
            writer.append(np.ascontiguousarray(change(array) if section.kind == kind else array))
            writer.end()
    return IdMap.load(bad)


def test_verify_finds_ids_that_contradict_the_keys(tmp_path: Path) -> None:
    IdMap.build(tmp_path / "m", [np.arange(5)], "int64")
    bad = rewritten(tmp_path / "m", native.SECTION_KEY_PLACES, lambda places: places[::-1])
    with pytest.raises(CorruptFileError, match="is found as"):
        bad.verify()


SECTIONS = [
    native.SECTION_KEY_HASHES, native.SECTION_KEY_BUCKETS, native.SECTION_KEY_IDS,
    native.SECTION_KEY_PLACES, native.SECTION_KEY_OFFSETS, native.SECTION_KEY_BYTES,
]  # fmt: skip


@fuzz
@given(kind=st.sampled_from(SECTIONS), data=st.data())
def test_hostile_sections_never_crash(tmp_path: Path, kind: int, data: Any) -> None:
    numbers = np.arange(50)
    keys = ([str(n) for n in numbers], numbers)
    IdMap.build(tmp_path / "m", [keys], ("str", "int64"), force=True)

    def change(array: Any) -> Any:
        size = array.dtype.itemsize
        at = data.draw(st.lists(st.integers(0, len(array) - 1), min_size=1, max_size=5))
        array[at] = data.draw(st.integers(0, 2 ** (8 * size) - 1))
        return array

    try:
        found = rewritten(tmp_path / "m", kind, change)
        ids = found.lookup(keys, missing="mark")
        assert ids.min() >= -1 and ids.max() < 50
        found.keys(numbers)
    except AetherError:
        pass


@fuzz
@given(damage=damages(), several=st.booleans())
def test_damaged_files_never_crash(
    tmp_path: Path, damage: Callable[[bytes], bytes], several: bool
) -> None:
    numbers = np.arange(50)
    keys: Any = ([str(n) for n in numbers], numbers) if several else numbers
    types = ("str", "int64") if several else ("int64",)
    IdMap.build(tmp_path / "m", [keys], types, force=True)
    (tmp_path / "d").write_bytes(damage((tmp_path / "m").read_bytes()))
    try:
        found = IdMap.load(tmp_path / "d")
        found.lookup(keys if found.types == types else [], missing="mark")
        found.keys(np.arange(min(len(found), 50)))
    except AetherError:
        pass
