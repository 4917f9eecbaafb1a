"""Columns of tables become stores of columns, the same from every source and within any budget."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from aethergraph import HeteroGraph
from aethergraph.columns import ColumnStore
from aethergraph.convert import ForeignKey, InputError, NodeTable, TableSchema, guess_schema, tables
from aethergraph.convert.external.journal import Journal
from aethergraph.convert.typed import api, features
from aethergraph.convert.typed.sources import Batch
from aethergraph.errors import FileChangedError, InvalidArgumentError, StorageError

KINDS = {"country": "category", "bio": "text"}


def users(count: int = 200) -> pa.Table:
    rng = np.random.default_rng(0)

    def some(values: list[Any]) -> list[Any]:
        return [None if rng.random() < 0.2 else one for one in values]

    day = dt.datetime(2024, 1, 1)
    return pa.table(
        {
            "id": [f"u{n}" for n in range(count)],
            "age": pa.array(some([n % 70 for n in range(count)]), pa.int64()),
            "score": pa.array(some([n / 8 for n in range(count)]), pa.float64()),
            "premium": pa.array(some([n % 3 == 0 for n in range(count)])),
            "since": pa.array(
                some([day + dt.timedelta(n) for n in range(count)]), pa.timestamp("us")
            ),
            "country": pa.array(some([["de", "fr", "ünî"][n % 3] for n in range(count)])),
            "bio": pa.array(some([f"text {n} ü" * (n % 4 + 1) for n in range(count)])),
            "friend": [f"u{n * 7 % count}" for n in range(count)],
        }
    )  # fmt: skip


def schema_of(source: Any, **options: Any) -> TableSchema:
    given = {"columns": "all", **options}
    return TableSchema({"user": NodeTable(source, key="id", foreign={"friend": "user"}, **given)})


def check(store: ColumnStore, table: pa.Table) -> None:
    """Compare a store with the rows that it was made of."""
    ids = np.random.default_rng(1).integers(0, len(table), 300)
    batch = store.gather(ids)
    for name, column in store.columns.items():
        rows = table[name].to_pylist()
        wanted = [rows[one] for one in ids.tolist()]
        if column.kind == "text":
            found = batch[name].to_list()
        elif column.kind == "category":
            found = [None if one < 0 else column.categories[one] for one in batch[name].tolist()]
        else:
            null = batch.nulls.get(name, np.zeros(len(ids), np.bool_))
            found = [
                None if gone else one for one, gone in zip(batch[name].tolist(), null, strict=True)
            ]
        assert found == wanted, name
        assert column.statistics["nulls"] == table[name].null_count


def write(kind: str, table: pa.Table, folder: Path) -> Any:
    if kind == "frame":
        return table
    (folder / "in").mkdir()
    for part in range(3):
        begin, end = (one * len(table) // 3 for one in (part, part + 1))
        some = table.slice(begin, end - begin)
        path = folder / "in" / f"part-{part}"
        if kind == "csv":
            pacsv.write_csv(some, f"{path}.csv")
        else:
            pq.write_table(some, f"{path}.parquet", row_group_size=17)
    return folder / "in"


@pytest.mark.parametrize("kind", ["frame", "parquet", "csv"])
def test_every_source_gives_the_same_columns(tmp_path: Path, kind: str, small_memory: None) -> None:
    table = users(201)
    source = write(kind, table, tmp_path)
    every = {
        "age": "number", "score": "number", "premium": "bool", "since": "time", **KINDS,
    }  # fmt: skip
    result = tables(schema_of(source, columns=every), tmp_path / "g.aeg")
    assert result.columns == {"user": str(tmp_path / "g.user.columns")}
    store = HeteroGraph.load(tmp_path / "g.aeg").columns["user"]
    store.verify()
    if kind == "csv":  # a file of text has no empty texts, and no nulls apart from them
        assert store.columns["since"].unit == "us"
    check(store, table)
    tables(schema_of(table, columns=every), tmp_path / "other.aeg")
    assert (tmp_path / "other.user.columns").read_bytes() == (
        tmp_path / "g.user.columns"
    ).read_bytes()


def test_all_columns_but_keys_and_labels(tmp_path: Path) -> None:
    tables(schema_of(users(), label="age", time=None), tmp_path / "g.aeg")
    columns = ColumnStore.load(tmp_path / "g.user.columns").columns
    assert {name: one.kind for name, one in columns.items()} == {
        "score": "number", "premium": "bool", "since": "time", "country": "text", "bio": "text",
    }  # fmt: skip


def test_own_dtypes(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": [1, 2, 3],
            "friend": [1, 1, 1],
            "small": pa.array([1, None, 3], pa.int8()),
            "large": pa.array([1, 2**64 - 1, None], pa.uint64()),
            "half": pa.array(np.array([1, 2, 3], np.float16)),
            "money": pa.array([decimal.Decimal("1.25"), None, decimal.Decimal(2)]),
            "day": pa.array([dt.date(2024, 1, 1), None, dt.date(1969, 1, 1)]),
            "code": pa.array(["b", "a", None]).dictionary_encode(),
            "number": pa.array([30, 10, 30]),
        }
    )
    kinds: dict[str, Any] = dict.fromkeys(["small", "large", "half", "money"], "number")
    kinds |= {"day": "time", "code": "category", "number": "category"}
    for columns in (kinds, [*kinds]):
        tables(schema_of(table, columns=columns), tmp_path / "g.aeg", force=True)
        store = ColumnStore.load(tmp_path / "g.user.columns")
        assert [one.dtype for one in store.columns.values()][:4] == [
            "int8", "uint64", "float16", "float64",
        ]  # fmt: skip
        batch = store.gather([0, 1, 2])
        assert batch["large"].tolist() == [1, 2**64 - 1, 0]
        assert batch["day"].dtype == "datetime64[D]" and str(batch["day"][2]) == "1969-01-01"
        assert store.columns["code"].categories == ("b", "a")
        assert batch["code"].tolist() == [0, 1, -1]
    tables(schema_of(table, columns=kinds), tmp_path / "g.aeg", force=True)
    assert ColumnStore.load(tmp_path / "g.user.columns").columns["number"].categories == (
        "30", "10",
    )  # fmt: skip


def test_decimals_are_kept_or_refused(tmp_path: Path) -> None:
    """Decimals become float64, which rounds fractions, and must not change anything larger."""
    ids = {"id": [1, 2], "friend": [1, 1]}

    def money(*values: str) -> pa.Table:
        return pa.table({**ids, "money": pa.array(map(decimal.Decimal, values))})

    options: dict[str, Any]
    for options in ({"columns": {"money": "number"}}, {"columns": (), "features": "money"}):
        tables(schema_of(money("0.07", str(2**60)), **options), tmp_path / "g.aeg", force=True)
        for value in (str(2**53 + 1), "-12345678901234567890.5"):
            with pytest.raises(
                InputError, match=r"row 2: column 'money': float64 would make"
            ) as it:
                tables(schema_of(money("0.07", value), **options), tmp_path / "g.aeg", force=True)
            assert value in str(it.value) and "cast it to" in str(it.value)


def test_nodes_without_a_row_are_null(tmp_path: Path) -> None:
    table = pa.table({"id": ["a"], "friend": ["b"], "age": [3], "bio": ["x"], "score": [1.5]})
    key = ForeignKey("user", columns="friend", missing="keep")
    node = NodeTable(table, key="id", columns="all", foreign={"friend": key})
    tables(TableSchema({"user": node}), tmp_path / "g.aeg")
    store = HeteroGraph.load(tmp_path / "g.aeg").columns["user"]
    batch = store.gather([1, 0])
    assert batch["bio"].to_list() == [None, "x"] and batch["age"].tolist() == [0, 3]
    assert np.isnan(batch["score"][0]) and batch.nulls["age"].tolist() == [True, False]


def test_goes_on_after_an_interruption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write("parquet", users(), tmp_path)
    tables(schema_of(source), tmp_path / "whole.aeg")
    record: Callable[..., None] = Journal.record
    for stop in (1, 2):
        calls = 0

        def interrupted(self: Journal, at: int = stop, **state: Any) -> None:
            nonlocal calls
            record(self, **state)
            calls += 1
            if calls == at:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Journal, "record", interrupted)
            with pytest.raises(KeyboardInterrupt):
                tables(schema_of(source), tmp_path / "g.aeg", force=True)
        remarks: list[str] = []
        tables(schema_of(source), tmp_path / "g.aeg", force=True, remark=remarks.append)
        assert any("going on" in one for one in remarks)
        for suffix in ("aeg", "user.columns", "user.ids"):
            whole, again = (tmp_path / f"{name}.{suffix}" for name in ("whole", "g"))
            assert whole.read_bytes() == again.read_bytes()


# ---- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "values", "problem"),
    [
        ({"a": "number"}, ["1", "x"], "'a' is of type string: a value of kind 'number'"),
        ({"a": "bool"}, [0, 2], "row 2: column 'a': 2 is not true or false"),
        ({"a": "time"}, [1, 2], "plain numbers, not times"),
        (["a"], [[1], [2]], "columns hold numbers, booleans"),
        (["b"], [1, 2], "no column 'b'"),
    ],
)
def test_bad_columns(tmp_path: Path, columns: Any, values: Any, problem: str) -> None:
    table = pa.table({"id": [1, 2], "friend": [1, 1], "a": values})
    with pytest.raises(InputError, match=problem):
        tables(schema_of(table, columns=columns), tmp_path / "g.aeg")
    assert [*tmp_path.iterdir()] == []


def test_text_that_the_first_rows_do_not_show(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id,friend,a\n1,1,5\n")
    (tmp_path / "2.csv").write_text("id,friend,a\n2,1,6\n3,1,x\n")
    with pytest.raises(InputError, match=r"2\.csv, row 2: column 'a': 'x' is no int64"):
        tables(schema_of(tmp_path), tmp_path / "g.aeg")
    assert not (tmp_path / "g.user.columns").exists()


def test_too_many_categories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "MAX_CATEGORIES", 2)
    with pytest.raises(InputError, match="more than 2 categories"):
        tables(schema_of(users(), columns=KINDS), tmp_path / "g.aeg")


def test_names_of_categories_are_within_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarter of the memory, of which a name takes three times its bytes and 200."""
    names = [f"{n:04}" + "x" * 996 for n in range(200)]
    table = users()
    table = table.set_column(table.column_names.index("country"), "country", pa.array(names))
    for memory, fits in ((4 * 200 * 3200, True), (4 * 200 * 3200 - 4, False)):
        monkeypatch.setattr(api, "working_memory", lambda *_, memory=memory: memory)
        if fits:
            tables(schema_of(table, columns=KINDS), tmp_path / "g.aeg")
            continue
        with pytest.raises(InputError, match=r"row 200: column 'country': the names .* 625.0 KiB"):
            tables(schema_of(table, columns=KINDS), tmp_path / "h.aeg")
    assert not list(tmp_path.glob("h.*"))


@pytest.mark.parametrize("kind", ["frame", "parquet"])
def test_any_budget_gives_the_same_files(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write(kind, users(700), tmp_path)
    found = set()
    for memory in (8_000, 64 << 20):
        monkeypatch.setattr(api, "working_memory", lambda *_, memory=memory: memory)
        tables(schema_of(source, columns=KINDS | {"age": "number"}), tmp_path / "g.aeg", force=True)
        ends = (".aeg", ".user.ids", ".user.columns")
        found.add(tuple((tmp_path / f"g{end}").read_bytes() for end in ends))
    assert len(found) == 1


def test_columns_without_any_value(tmp_path: Path) -> None:
    """They are left out of "all" with a note; named, or with values elsewhere, they are errors."""
    plain = users(30)
    table = plain.append_column("gone", pa.nulls(30)).append_column("lost", pa.nulls(30))
    result = tables(schema_of(table), tmp_path / "g.aeg")
    assert "user: columns without any value left out: gone, lost" in result.notes
    assert "gone" not in ColumnStore.load(tmp_path / "g.user.columns").columns
    with pytest.raises(InputError, match=r"'gone' .* is of type null"):
        tables(schema_of(table, columns=["gone"]), tmp_path / "h.aeg")
    (tmp_path / "in").mkdir()
    pq.write_table(table.slice(0, 15), tmp_path / "in" / "1.parquet")
    some = table.set_column(table.column_names.index("gone"), "gone", pa.array(range(30)))
    pq.write_table(some.slice(15), tmp_path / "in" / "2.parquet")
    with pytest.raises(InputError, match=r"'gone' .* is of type null"):
        tables(schema_of(tmp_path / "in"), tmp_path / "h.aeg")
    only = plain.select(["id", "friend"]).append_column("gone", pa.nulls(30))
    result = tables(schema_of(only), tmp_path / "only.aeg")
    assert result.columns == {} and result.num_nodes == {"user": 30}


def test_columns_of_one_name_are_named(tmp_path: Path) -> None:
    table = users(30).append_column("age", pa.array(range(30)))
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet"):
        with pytest.raises(InputError, match="several columns are called 'age'"):
            tables(schema_of(source, columns=["age"]), tmp_path / "g.aeg", force=True)
        tables(schema_of(source, columns=["score"]), tmp_path / "g.aeg", force=True)


def test_writing_columns_shows_progress_and_is_cancelled(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    seen: list[str] = []

    def stages(name: str, unit: str) -> Callable[[int, int], None]:
        def report(done: int, total: int) -> None:
            seen.append(name)
            if name == "Writing columns of user" and stop:
                raise Stop

        return report

    stop = True
    schema = schema_of(write("parquet", users(), tmp_path))
    with pytest.raises(Stop):
        tables(schema, tmp_path / "g.aeg", stages=stages)
    assert not (tmp_path / "g.aeg").exists()
    stop = False
    tables(schema, tmp_path / "g.aeg", stages=stages)
    assert "Writing columns of user" in seen
    check(HeteroGraph.load(tmp_path / "g.aeg").columns["user"], users())


@pytest.mark.parametrize("columns", [3, {"a": "word"}, ["a", "a"], [1]])
def test_bad_choices(columns: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"nodes\.user\.columns"):
        schema_of(users(), columns=columns)


def test_files_of_columns_are_outputs(tmp_path: Path) -> None:
    tables(schema_of(users()), tmp_path / "g.aeg")
    for name in ("g.aeg", "g.user.ids", "g.user.columns"):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(StorageError, match=rf"{name}: exists already"):
            tables(schema_of(users()), tmp_path / "g.aeg")
        assert (tmp_path / name).read_bytes() == before
        (tmp_path / name).unlink()
    tables(schema_of(users()), tmp_path / "g.aeg")
    tables(schema_of(users()), tmp_path / "g.aeg", force=True)
    ColumnStore.build(tmp_path / "g.user.columns", {"a": np.arange(3)}, force=True)
    graph = HeteroGraph.load(tmp_path / "g.aeg")
    assert list(graph.columns) == ["user"]
    with pytest.raises(FileChangedError, match="has 3 rows"):
        graph.columns["user"]
    with pytest.raises(InvalidArgumentError, match=r"columns: 'x' is not in the graph"):
        graph.columns["x"]


def test_schemas_in_files_and_guessed_ones(tmp_path: Path) -> None:
    pq.write_table(users(), tmp_path / "users.parquet")
    text = guess_schema(tmp_path / "users.parquet")
    assert 'columns = {country = "category"' in text
    assert 'bio = "text"' in text
    (tmp_path / "s.toml").write_text(text + 'foreign."friend" = "users"\n')
    schema = TableSchema.load(tmp_path / "s.toml")
    kinds = schema.nodes["users"].columns
    assert isinstance(kinds, dict) and kinds["country"] == "category" and kinds["bio"] == "text"


def test_errors_about_some_of_the_rows_name_them() -> None:
    batch = Batch(0, "users.csv", 100, 0, pa.record_batch({"seen": [1, None, 3, None, 5]}))
    known = batch.only(np.array([True, False, True, False, True]))
    last = known.only(np.array([False, False, True]))
    assert known.rows.column("seen").to_pylist() == [1, 3, 5]
    assert [known.bad("no time", row).line for row in range(3)] == [101, 103, 105]
    assert last.bad("no time", 0).line == 105
