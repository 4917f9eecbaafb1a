"""Stores of columns return what plain lists of values say, from every storage."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.damage import damages, fuzz
from support.strategies import examples

from aethergraph import FeatureTable
from aethergraph import _native as native
from aethergraph.columns import ColumnStore
from aethergraph.columns import file as columns_file
from aethergraph.errors import (
    AetherError,
    ClosedError,
    CorruptFileError,
    FileChangedError,
    FormatError,
    InvalidArgumentError,
    OutOfRangeError,
    StorageError,
)

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64", "float32", "float64"]
STORAGES: list[Any] = ["mmap", "memory", "uring"]


def load(path: Path, storage: Any) -> ColumnStore:
    return ColumnStore.load(path, storage, memory_budget="16M" if storage == "uring" else None)


def golden(path: Path) -> ColumnStore:
    return ColumnStore.build(
        path,
        {
            "age": np.array([31, 42, 27], np.int16),
            "score": np.array([0.5, np.nan, 2]),
            "premium": np.ma.array([True, False, True], mask=[False, True, False]),
            "since": np.array(["2024-01-01", "NaT", "2023-02-05T10:11:12"], "datetime64[s]"),
            "country": ["de", None, "fr"],
            "bio": ["häl", None, ""],
        },
        kinds={"country": "category"},
    )


# ---- equal to plain values --------------------------------------------------------------------


def listed(values: Any) -> list[Any]:
    """Values as Python's, None for NaN and NaT."""
    return [None if one is None or one != one else one for one in values]


@given(st.data())
@examples(25)
def test_equals_plain_lists(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 40))
    texts = st.none() | st.text(max_size=5)
    columns: dict[str, Any] = {}
    expected: dict[str, list[Any]] = {}
    kinds: dict[str, str] = {}
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    for number in range(data.draw(st.integers(1, 12))):
        name = f"c{number}"
        form = data.draw(st.sampled_from([*DTYPES, "bool", "time", "text", "category"]))
        null = rng.random(count) < data.draw(st.sampled_from([0, 0.3, 1]))
        if form in ("text", "category"):
            given_texts = data.draw(st.lists(texts, min_size=count, max_size=count))
            columns[name] = expected[name] = given_texts
            kinds[name] = form
            continue
        raw = rng.integers(0, 256, (count, 8), np.uint8)
        if form == "bool":
            values: Any = raw[:, 0] > 127
        elif form == "time":
            values = raw.view(np.int64)[:, 0].view("datetime64[us]")
        else:
            values = np.ascontiguousarray(raw).view(form).reshape(count, -1)[:, 0]
        columns[name] = np.ma.array(values, mask=null)
        plain = listed(values.view(np.int64) if form == "time" else values)
        expected[name] = [None if gone else one for one, gone in zip(plain, null, strict=True)]
    path = tmp_path_factory.mktemp("columns") / "c"
    with np.errstate(all="ignore"):
        ColumnStore.build(path, columns, kinds=kinds).close()
    ids = rng.integers(0, count, 60)
    store = load(path, data.draw(st.sampled_from(STORAGES)))
    assert store.num_rows == count and list(store.columns) == list(columns)
    batch = store.gather(ids)
    for name, column in store.columns.items():
        wanted = [expected[name][one] for one in ids.tolist()]
        found = batch[name]
        if column.kind == "text":
            assert found.to_list() == wanted and [*found] == wanted
        elif column.kind == "category":
            assert [None if one < 0 else column.categories[one] for one in found] == wanted
        else:
            plain = listed(found.view(np.int64) if column.kind == "time" else found)
            mask = batch.nulls.get(name, np.zeros(len(ids), np.bool_))
            assert [None if gone else x for x, gone in zip(plain, mask, strict=True)] == wanted
        nulls = sum(one is None for one in expected[name])
        assert column.statistics["nulls"] == nulls
        assert column.statistics["count"] == count - nulls
        assert (name in batch.nulls) == (nulls > 0)


@pytest.mark.parametrize("storage", STORAGES)
def test_some_columns_and_repeated_ids(tmp_path: Path, storage: Any) -> None:
    golden(tmp_path / "c")
    store = load(tmp_path / "c", storage)
    batch = store.gather([2, 0, 2], ["bio", "age"])
    assert list(batch) == ["bio", "age"] and batch["age"].tolist() == [27, 31, 27]
    assert batch["bio"][1] == "häl" and batch["bio"][:2] == ["", "häl"]
    empty = store.gather([])
    assert empty.num_rows == 0 and empty["bio"].to_list() == [] and len(empty["age"]) == 0


def test_values_of_the_other_byte_order(tmp_path: Path) -> None:
    other = {
        "since": np.array(["1970-01-02", "NaT", "2020-01-01"], "datetime64[s]"),
        "age": np.arange(3, dtype=np.int32),
    }
    given = {name: one.astype(one.dtype.newbyteorder()) for name, one in other.items()}
    store = ColumnStore.build(tmp_path / "c", given)
    found = store.gather(np.arange(3))
    for name, one in other.items():
        np.testing.assert_array_equal(found[name], one)
    same = ColumnStore.build(tmp_path / "same", other)
    assert store.columns["since"].statistics == same.columns["since"].statistics


def test_null_values(tmp_path: Path) -> None:
    row = golden(tmp_path / "c").gather([1])
    assert np.isnan(row["score"][0]) and np.isnat(row["since"][0])
    assert row["country"][0] == -1 and not row["premium"][0]
    assert {name: mask.tolist() for name, mask in row.nulls.items()} == {
        name: [True] for name in ("score", "premium", "since", "country", "bio")
    }


# ---- statistics -------------------------------------------------------------------------------


def test_statistics_are_those_of_numpy(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    numbers = rng.normal(5, 3, 150_000)
    numbers[::7] = np.nan
    store = ColumnStore.build(
        tmp_path / "c", {"x": numbers, "i": np.arange(150_000), "b": numbers > 5}
    )
    known = numbers[~np.isnan(numbers)]
    found = store.columns["x"].statistics
    assert (found["min"], found["max"]) == (known.min(), known.max())
    assert found["mean"] == pytest.approx(known.mean()) and found["std"] == pytest.approx(
        known.std()
    )
    assert found["quantiles"] == pytest.approx(np.quantile(known, [0, 0.25, 0.5, 0.75, 1]), abs=0.1)
    spread = store.columns["i"].statistics["quantiles"]
    assert spread == pytest.approx(np.array([0, 0.25, 0.5, 0.75, 1]) * 149_999, abs=300)
    assert store.columns["b"].statistics["counts"] == [(~(numbers > 5)).sum(), (numbers > 5).sum()]


def test_statistics_without_values(tmp_path: Path) -> None:
    store = ColumnStore.build(
        tmp_path / "c", {"x": np.array([np.nan]), "i": np.array([np.inf]), "t": [None]}
    )
    nothing = {"min": None, "max": None, "mean": None, "std": None, "quantiles": None}
    assert store.columns["x"].statistics == {"count": 0, "nulls": 1, **nothing}
    assert store.columns["i"].statistics == {"count": 1, "nulls": 0, **nothing}
    assert store.columns["t"].statistics["mean"] is None


# ---- files ------------------------------------------------------------------------------------


def test_golden_file(tmp_path: Path) -> None:
    """Files of version 1 are readable for ever, and are written byte by byte as they were."""
    found = ColumnStore.load(GOLDEN / "columns-v1.columns")
    found.verify()
    assert found.gather([0])["bio"].to_list() == ["häl"]
    golden(tmp_path / "c")
    assert (tmp_path / "c").read_bytes() == (GOLDEN / "columns-v1.columns").read_bytes()


@fuzz
@given(damages(), st.integers(0, 8))
def test_damaged_sections_raise(
    tmp_path: Path, damage: Callable[[bytes], bytes], number: int
) -> None:
    """A section is damaged, and its checksum is right."""
    good, bad = native.NativeFile(GOLDEN / "columns-v1.columns"), tmp_path / "bad"
    try:
        with native.NativeWriter(bad, native.CONTENT_FEATURES) as writer:
            for place, section in enumerate(good.sections()):
                data = np.array(good.section_array(section)).tobytes()
                writer.begin(section.kind, section.owner, section.dtype)
                writer.append(damage(data) if place == number else data)
                writer.end()
        store = ColumnStore.load(bad)
        batch = store.gather(np.arange(min(store.num_rows, 10)))
        for values in batch.values():
            assert len(list(values)) == batch.num_rows
    except AetherError:
        pass


@pytest.mark.parametrize(
    ("name", "field", "wrong"),
    [
        ("age", "mean", "x"), ("age", "std", [1]), ("age", "quantiles", [1, 2]),
        ("age", "quantiles", 5), ("since", "quantiles", [1.5] * 5), ("premium", "counts", None),
        ("country", "counts", [1]), ("country", "counts", [-1, 2]), ("country", "counts", ["a", 2]),
        ("age", "mean", ...), ("since", "quantiles", ...), ("country", "counts", ...),
    ],
)  # fmt: skip
def test_wrong_statistics_with_right_checksums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, field: str, wrong: Any
) -> None:
    """Statistics that encoders are made of are checked; ``...``: the field is missing."""
    right = columns_file.column_statistics

    def damaged(*args: Any) -> dict[str, dict[str, Any]]:
        found = right(*args)
        found[name] = {k: v for k, v in found[name].items() if k != field}
        if wrong is not ...:
            found[name][field] = wrong
        return found

    monkeypatch.setattr(columns_file, "column_statistics", damaged)
    with pytest.raises(CorruptFileError, match=field):
        golden(tmp_path / "c")


def test_pickles_by_path(tmp_path: Path) -> None:
    store = golden(tmp_path / "c")
    data = pickle.dumps(store)
    assert pickle.loads(data).gather([0])["age"][0] == 31
    ColumnStore.build(tmp_path / "c", {"age": np.arange(3)}, force=True)
    assert store.gather([0])["age"][0] == 31
    with pytest.raises(FileChangedError):
        pickle.loads(data)


def test_refusals(tmp_path: Path) -> None:
    store = golden(tmp_path / "c")
    with pytest.raises(OutOfRangeError, match="3"):
        store.gather([0, 3])
    with pytest.raises(InvalidArgumentError, match="no column 'agee'; there are: age, score"):
        store.gather([0], ["agee"])
    with pytest.raises(StorageError, match="exists already"):
        golden(tmp_path / "c")
    with pytest.raises(FormatError, match=r"columns by ColumnStore\.load"):
        FeatureTable.load(tmp_path / "c")
    FeatureTable.from_array(np.ones((3, 2))).save(tmp_path / "x")
    with pytest.raises(FormatError, match="not a file of columns"):
        ColumnStore.load(tmp_path / "x")
    bad: list[tuple[Any, str]] = [
        ({}, "columns go by name"),
        ({"a": ["x", "\ud800"]}, "'a' is not UTF-8"),
        ({3: np.ones(2)}, "the name of a column"),
        ({"a": np.ones((2, 2))}, "is a vector"),
        ({"a": np.ones(2), "b": np.ones(3)}, "'b' has 3 rows"),
        ({"a": ["x", 3]}, "3 in row 1"),
        ({"a": np.ones(2, complex)}, "complex128"),
        ({"a": np.array(["NaT"], "datetime64")}, r"'a' .* no unit: .*'datetime64\[s\]'"),
    ]
    for columns, problem in bad:
        with pytest.raises(InvalidArgumentError, match=problem):
            ColumnStore.build(tmp_path / "bad", columns)
        with pytest.raises(InvalidArgumentError, match=problem):
            ColumnStore.build(tmp_path / "c", columns, force=True)
    assert store.gather([0])["age"][0] == ColumnStore.load(tmp_path / "c").gather([0])["age"][0]
    with pytest.raises(InvalidArgumentError, match="not a number"):
        ColumnStore.build(tmp_path / "bad", {"a": ["x"]}, kinds={"a": "number"})
    assert not (tmp_path / "bad").exists()
    store.close()
    with pytest.raises(ClosedError):
        store.gather([0])


def test_errors_are_ours() -> None:
    with pytest.raises(AetherError, match=r"use ColumnStore\.load"):
        ColumnStore()
