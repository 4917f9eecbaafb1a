"""Training tables as seeds: against a dict, from every source, and what is wrong with them."""

from __future__ import annotations

import datetime as dt
import pickle
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from support.task_shop import DAY, make_shop, training_rows

from aethergraph import DynamicGraph, FeatureTable, Graph, HeteroGraph
from aethergraph.convert import (
    ForeignKey,
    InputError,
    LinkTable,
    NodeTable,
    TableSchema,
    convert,
    relbench_schema,
    tables,
)
from aethergraph.errors import InvalidArgumentError, MissingFileError, OutOfRangeError
from aethergraph.tasks import LinkTask, TableTask, relbench_task
from aethergraph.tasks.rows import Splits
from aethergraph.testing import check_no_leak

OPTIONS: dict[str, Any] = {
    "entity_table": "user", "entity_col": "user_id", "time_col": "date", "target_col": "churn",
}  # fmt: skip


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> HeteroGraph:
    return make_shop(tmp_path_factory.mktemp("shop"))


def in_pandas(rows: dict[str, Any], folder: Path) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(rows)


def in_csv(rows: dict[str, Any], folder: Path) -> Any:
    pacsv.write_csv(pa.table(rows), folder / "t.csv")
    return folder / "t.csv"


def in_parquet(rows: dict[str, Any], folder: Path) -> Any:
    (folder / "parts").mkdir()
    table = pa.table(rows)
    for begin in (0, 25):
        part = table.slice(begin, 25 if begin == 0 else None)
        pq.write_table(part, folder / "parts" / f"{begin:02}.parquet", row_group_size=7)
    return folder / "parts"


def in_sqlite(rows: dict[str, Any], folder: Path) -> Any:
    with sqlite3.connect(folder / "t.db") as connection:
        connection.execute("CREATE TABLE t (user_id, date, churn, spent)")
        dates = [str(day) for day in rows["date"]]
        values = zip(rows["user_id"], dates, rows["churn"].tolist(), rows["spent"], strict=True)
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", values)
    connection.close()
    return {"sqlite": folder / "t.db", "query": "SELECT * FROM t ORDER BY rowid"}


def in_duckdb(rows: dict[str, Any], folder: Path) -> Any:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("given", pa.table(rows))
    connection.execute("CREATE TABLE t AS SELECT * FROM given")
    return {"duckdb": connection, "table": "t"}


def in_memory(rows: dict[str, Any], folder: Path) -> Any:
    return rows


@pytest.mark.parametrize("source", [in_memory, in_pandas, in_csv, in_parquet, in_sqlite, in_duckdb])
def test_rows_become_seeds(
    graph: HeteroGraph, tmp_path: Path, source: Callable[[dict[str, Any], Path], Any]
) -> None:
    rows = training_rows()
    task = TableTask(graph, source(rows, tmp_path), **{**OPTIONS, "target_col": ["churn", "spent"]})
    keys = graph.ids["user"].keys(np.arange(30))
    ids = {key: number for number, key in enumerate(keys)}
    assert task.nodes.tolist() == [ids[key] for key in rows["user_id"]]
    assert task.time is not None and task.time.dtype == np.int64
    assert task.time.tolist() == rows["date"].astype("datetime64[s]").view(np.int64).tolist()
    assert task.labels is not None
    expected = np.stack([rows["churn"], rows["spent"]], axis=1)
    assert task.labels.tolist() == expected.astype(np.float32).tolist()
    assert task.rows.tolist() == list(range(60)) and len(task) == 60 and task.time_unit == "s"


def test_labels_keep_their_kind(graph: HeteroGraph) -> None:
    rows = training_rows(4)
    for column, values, dtype, found in (
        ("churn", [1, 0, None, 1], np.int64, [1, 0, -1, 1]),
        ("flag", [True, False, True, None], np.int64, [1, 0, 1, -1]),
        ("spent", [0.5, None, 2.0, 1.25], np.float32, [0.5, np.nan, 2.0, 1.25]),
    ):
        task = TableTask(graph, {**rows, column: values}, **{**OPTIONS, "target_col": column})
        assert task.labels is not None and task.labels.dtype == dtype
        np.testing.assert_array_equal(task.labels, np.array(found, dtype))
    assert TableTask(graph, rows, entity_table="user", entity_col="user_id").labels is None


def test_composite_keys_and_ids(graph: HeteroGraph) -> None:
    rows = {"a": [2, 0, 1], "b": ["p5", "p9", "p1"]}
    task = TableTask(graph, rows, entity_table="product", entity_col=["a", "b"])
    assert task.nodes.tolist() == [5, 9, 1] and task.time is None
    task = TableTask(graph, {"n": [3, 0]}, entity_table="user", entity_col="n", entity_is="id")
    assert task.nodes.tolist() == [3, 0]
    with pytest.raises(InputError, match=r"row 2: column 'n': the node 30 is not in 0\.\.29"):
        TableTask(graph, {"n": [3, 30]}, entity_table="user", entity_col="n", entity_is="id")


def test_graphs_of_one_type(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("src,dst,at\na,b,3\nb,c,5\n")
    convert(tmp_path / "e.csv", tmp_path / "g.aeg", ids="string", time_column="at")
    graph = Graph.load(tmp_path / "g.aeg")
    table = {"who": ["c", "a"], "at": [4, 6]}
    task = TableTask(graph, table, entity_col="who", time_col="at")
    assert task.nodes.tolist() == [2, 0]
    assert task.time is not None and task.time.tolist() == [4, 6]
    with pytest.raises(InvalidArgumentError, match="has nodes of one type"):
        TableTask(graph, table, entity_table="node", entity_col="who")


def test_unknown_keys_are_named_or_left_out(graph: HeteroGraph) -> None:
    rows = training_rows()
    rows["user_id"][7] = rows["user_id"][9] = "nobody"
    with pytest.raises(InputError, match=r"row 8: column 'user_id': there is no 'user' .*'nobody'"):
        TableTask(graph, rows, **OPTIONS)
    task = TableTask(graph, rows, **OPTIONS, unknown="drop")
    assert task.num_dropped == 2 and "row 8" in task.first_dropped and len(task) == 58
    kept = [n for n in range(60) if n not in (7, 9)]
    assert task.rows.tolist() == kept
    assert task.labels is not None and task.labels.tolist() == rows["churn"][kept].tolist()


def test_keys_beyond_their_type_are_of_no_node(tmp_path: Path) -> None:
    """Their bits are those of other keys: 2^64 - 1 is none of -1."""
    (tmp_path / "e.csv").write_text("src,dst\n-1,0\n0,7\n")
    convert(tmp_path / "e.csv", tmp_path / "g.aeg", ids="int64")
    table = {"who": np.array([7, 2**64 - 1], np.uint64)}
    with pytest.raises(InputError, match=r"row 2: .* no node with the key 18446744073709551615"):
        TableTask(Graph.load(tmp_path / "g.aeg"), table, entity_col="who")


def test_split_by_time(graph: HeteroGraph) -> None:
    task = TableTask(graph, training_rows(), **OPTIONS)
    assert task.time is not None
    days = task.time.view("datetime64[s]")
    cuts = [np.datetime64("2024-01-10"), np.datetime64("2024-02-15"), np.datetime64("2024-03-20")]
    parts = task.split(train="2024-01-10", val=dt.date(2024, 2, 15), test=cuts[2])
    expected = [
        np.flatnonzero((days >= cuts[0]) & (days < cuts[1])),
        np.flatnonzero((days >= cuts[1]) & (days < cuts[2])),
        np.flatnonzero(days >= cuts[2]),
    ]
    for part, rows in zip(parts, expected, strict=True):
        assert isinstance(part, TableTask) and len(part) > 0
        assert part.rows.tolist() == rows.tolist()
        assert part.nodes.tolist() == task.nodes[rows].tolist()
        assert part.time is not None and part.time.tolist() == task.time[rows].tolist()
        assert part.gather_labels([0]).tolist() == [training_rows()["churn"][rows[0]]]
    whole = task.split(val="2024-02", test=dt.datetime(2024, 3, 1, 12))
    assert sum(map(len, whole)) == 60
    seconds = int(cuts[1].astype("datetime64[s]").view(np.int64))
    assert len(task.split(val=seconds, test="2025-01-01").test) == 0


def test_parts_and_pickles(graph: HeteroGraph) -> None:
    task = TableTask(graph, training_rows(), **OPTIONS)
    again = pickle.loads(pickle.dumps(task.take([5, 2])))
    assert again.nodes.tolist() == task.nodes[[5, 2]].tolist()
    assert repr(again) == "TableTask('user', 2 seeds, time, labels)"
    assert len(task.take(np.zeros(60, bool))) == 0
    with pytest.raises(OutOfRangeError, match=r"positions\[1\] = 60 is not in 0\.\.59"):
        task.take([0, 60])
    with pytest.raises(InvalidArgumentError, match="a mask of 60 seeds"):
        task.take([0.5])


LINKS: dict[str, Any] = {
    "src_entity_table": "user", "src_entity_col": "user_id", "dst_entity_table": "order",
    "dst_entity_col": "orders", "time_col": "date",
}  # fmt: skip


def test_links_of_lists(graph: HeteroGraph, tmp_path: Path) -> None:
    rows = {
        "user_id": ["u1", "u2", "u3"], "date": training_rows(3)["date"],
        "orders": pa.array([[4, 7], [], [9, 4, 4]]), "n": [1, 2, 3],
    }  # fmt: skip
    task = LinkTask(graph, rows, **LINKS, target_col="n")
    users = graph.ids["user"].lookup(["u1", "u1", "u3", "u3", "u3"])
    orders = graph.ids["order"].lookup([4, 7, 9, 4, 4])
    assert task.links.tolist() == [users.tolist(), orders.tolist()]
    assert task.rows.tolist() == [0, 0, 2, 2, 2] and task.edge_type == ("user", "to", "order")
    assert task.labels is not None and task.labels.tolist() == [1, 1, 3, 3, 3]
    times = rows["date"].astype("datetime64[s]").view(np.int64)
    assert task.time is not None and task.time.tolist() == times[[0, 0, 2, 2, 2]].tolist()
    assert task.take([4, 0]).links.tolist() == task.links[:, [4, 0]].tolist()
    (tmp_path / "parts").mkdir()
    for begin, count in ((0, 1), (1, 2)):  # read one after the other
        part = pa.table(rows).slice(begin, count)
        pq.write_table(part, tmp_path / f"parts/{begin}.parquet")
    assert LinkTask(graph, tmp_path / "parts", **LINKS).rows.tolist() == task.rows.tolist()
    rows["orders"] = pa.array([[4, 7], [], [9, 4000, 4]])
    with pytest.raises(InputError, match=r"row 3: column 'orders': there is no 'order' .* 4000"):
        LinkTask(graph, rows, **LINKS)
    task = LinkTask(graph, rows, **LINKS, unknown="drop")
    assert task.rows.tolist() == [0, 0, 2, 2] and task.num_dropped == 1
    rows["orders"] = pa.array([4, 7, 9])
    assert LinkTask(graph, rows, **LINKS).rows.tolist() == [0, 1, 2]


def test_links_come_with_their_times(graph: HeteroGraph) -> None:
    """Without labels as well: without a time each link would see the future."""
    pytest.importorskip("torch")
    rows = {"user_id": ["u1", "u2"], "date": training_rows(2)["date"], "orders": [4, 7]}
    task = LinkTask(graph, rows, **LINKS)
    found = task.link_input()
    assert task.time is not None and found["edge_label_time"].tolist() == task.time.tolist()
    assert found["edge_label_index"][1].tolist() == task.links.tolist()


# ---- RelBench -----------------------------------------------------------------------------------


@dataclass
class Table:
    """Attributes of ``relbench.base.Table`` that are read."""

    df: Any
    time_col: str = "date"


class EntityTask:
    """Attributes of ``relbench.base.EntityTask``."""

    entity_table, entity_col, time_col, target_col = "user", "user_id", "date", "churn"

    def get_table(self, split: str) -> Table:
        frame = pytest.importorskip("pandas").DataFrame(training_rows())
        if split == "test":  # its labels are left out
            return Table(frame[40:][["date", "user_id"]])
        return Table(frame[:30] if split == "train" else frame[30:40])


class RecommendationTask:
    """Attributes of ``relbench.base.RecommendationTask``."""

    src_entity_table, src_entity_col, dst_entity_table = "user", "user_id", "order"
    dst_entity_col, time_col = "order_id", "date"

    def get_table(self, split: str) -> Table:
        frame = pytest.importorskip("pandas").DataFrame(training_rows(3))[["user_id", "date"]]
        return Table(frame.assign(order_id=[[1, 2], [], [3]]))


def test_tasks_of_relbench(graph: HeteroGraph) -> None:
    parts = relbench_task(graph, EntityTask())
    assert isinstance(parts, Splits) and [len(one) for one in parts] == [30, 10, 20]
    whole = TableTask(graph, training_rows(), **OPTIONS)
    assert isinstance(parts.val, TableTask)
    assert parts.val.nodes.tolist() == whole.nodes[30:40].tolist()
    assert parts.test.labels is None and parts.train.labels is not None
    links = relbench_task(graph, RecommendationTask())
    assert isinstance(links.train, LinkTask) and links.train.rows.tolist() == [0, 0, 2]
    with pytest.raises(InvalidArgumentError, match="task has no get_table, entity_table"):
        relbench_task(graph, 7)


@dataclass
class Posts:
    """Attributes of ``relbench.base.Dataset``: users, and posts of which 160 are up to the test.

    Attributes:
        hidden: columns of the posts that ``get_db`` leaves out, as that of a task does.
    """

    hidden: tuple[str, ...] = ()

    def get_db(self, upto_test_timestamp: bool = True) -> SimpleNamespace:
        pandas = pytest.importorskip("pandas")
        rng = np.random.default_rng(3)
        users = pandas.DataFrame({"id": range(20), "age": rng.integers(18, 80, 20)})
        posts = pandas.DataFrame({
            "id": range(200), "user_id": rng.integers(0, 20, 200), "always": 1,
            "score": pandas.array(rng.integers(0, 9, 200), "Int64"),
            "length": rng.integers(0, 9, 200),
            "ts": np.datetime64("2024-01-01", "s") + np.arange(200), "title": "x",
        })  # fmt: skip
        posts.loc[7, "score"] = pandas.NA
        posts = posts[: 160 if upto_test_timestamp else 200].drop(columns=list(self.hidden))

        def table(df: Any, fkeys: dict[str, str], time: str | None) -> SimpleNamespace:
            return SimpleNamespace(
                df=df, pkey_col="id", fkey_col_to_pkey_table=fkeys, time_col=time
            )  # fmt: skip

        return SimpleNamespace(
            table_dict={
                "users": table(users, {}, None),
                "posts": table(posts, {"user_id": "users"}, "ts"),
            }
        )


class HidingTask:
    """Attributes of a task of RelBench 3 that completes the scores of posts."""

    entity_table, entity_col, time_col, target_col = "posts", "id", "ts", "score"

    def __init__(self, *hidden: str) -> None:
        self._hidden = hidden
        self.dataset = Posts()

    def hidden_columns(self) -> list[tuple[str, str]]:
        return [("posts", one) for one in self._hidden]

    def get_db(self, upto_test_timestamp: bool = True) -> SimpleNamespace:
        return Posts(self._hidden).get_db(upto_test_timestamp)

    def get_table(self, split: str) -> Table:
        parts = {"train": slice(100), "val": slice(100, 160), "test": slice(160, 200)}
        columns = ["id", "ts"] if split == "test" else ["id", "ts", "score"]
        posts = Posts().get_db(upto_test_timestamp=False).table_dict["posts"].df
        return Table(posts[parts[split]][columns].dropna())


def built(database: Any, folder: Path) -> HeteroGraph:
    tables(relbench_schema(database), folder / "g.aeg", force=True)
    return HeteroGraph.load(folder / "g.aeg")


def test_a_graph_with_a_column_that_the_task_hides_is_refused(tmp_path: Path) -> None:
    task = HidingTask("score", "title", "always")  # a text is no feature, a constant tells nothing
    for is_early in (True, False):
        leaking = built(task.dataset.get_db(upto_test_timestamp=is_early), tmp_path)
        with pytest.raises(InvalidArgumentError) as error:
            relbench_task(leaking, task)
        assert "has the column 'score' of 'posts'" in str(error.value)
        assert r"as x[:, 1] of its nodes" in str(error.value)
    # As the message says.
    graph = built(task.get_db(upto_test_timestamp=False), tmp_path)
    assert [len(part) for part in relbench_task(graph, task)] == [99, 60, 40]
    with pytest.raises(InvalidArgumentError, match=r"'user_id' of .* as edges 'f2p_user_id'"):
        relbench_task(graph, HidingTask("user_id"))
    graph["posts"].attrs["score"] = np.arange(200.0)
    with pytest.raises(InvalidArgumentError, match="as 'score' of its nodes"):
        relbench_task(graph, task)


class MorePosts(Posts):
    """Posts with a column of each kind, which tasks hide."""

    def get_db(self, upto_test_timestamp: bool = True) -> SimpleNamespace:
        pandas = pytest.importorskip("pandas")
        database = super().get_db(upto_test_timestamp)
        posts = database.table_dict["posts"].df
        rng, count = np.random.default_rng(6), len(posts)
        posts["closed"] = posts.ts + pandas.to_timedelta(rng.integers(1, 10**6, count), "s")
        posts["kind"] = np.array(["a", "b", "c"], object)[rng.integers(0, 3, count)]
        posts["amount"] = pandas.Series(rng.random(count).tolist(), dtype=object)
        posts["editor"] = rng.integers(0, 20, count)
        posts["won"] = np.where(rng.random(count) < 0.5, 1.0, np.nan)
        posts["seen"] = posts.closed[::-1].astype(str).to_list()
        posts["day"] = (pandas.Timestamp(2024, 1, 1) + pandas.to_timedelta(
            rng.permutation(count), "D")).date  # fmt: skip
        posts["took"] = pandas.to_timedelta(rng.permutation(count), "s")
        posts["rated"] = posts.ts + pandas.to_timedelta(rng.permutation(count), "s")
        return database


MORE = ["closed", "kind", "amount", "editor", "won", "seen", "day", "took", "rated", "score"]


def hidden_places() -> dict[str, tuple[str, Callable[[Any], dict[str, Any]], str]]:
    """Return by name a hidden column, how a table of posts may have it, and where it is then."""
    day = np.timedelta64(1, "D")
    return {
        "filled": ("score", lambda p: {"z": p.score.fillna(-9)}, "x[:, 2]"),
        "scaled": ("score", lambda p: {"z": (p.score.astype("float64") - 3) / 7}, "x[:, 2]"),
        "days": ("closed", lambda p: {"z": (p.closed - np.datetime64(0, "s")) / day}, "x[:, 2]"),
        "seconds": ("closed", lambda p: {"z": p.closed.to_numpy("M8[s]").astype("int64")}, "'z'"),
        "codes": ("kind", lambda p: {"z": p.kind.astype("category").cat.codes}, "x[:, 2]"),
        "objects": ("amount", lambda p: {"z": p.amount.astype("float64")}, "x[:, 2]"),
        "time": ("closed", lambda p: {"ts": p.closed}, "the times"),
        "relation": ("editor", lambda p: {"user_id": p.editor}, "edges 'f2p_user_id'"),
        "rows": ("editor", lambda p: {"z": p.editor.astype("float64")}, "x[:, 2]"),
        "missing": ("won", lambda p: {"z": p.won.fillna(0)}, "x[:, 2]"),
        "missing edges": (
            "won", lambda p: {"user_id": p.user_id.astype("Int64").where(p.won.notna())},
            "edges 'f2p_user_id'",
        ),
        "text": ("seen", lambda p: {"ts": p.seen.astype("datetime64[s]")}, "the times"),
        "date": ("day", lambda p: {"z": (p.day.astype("datetime64[s]") - np.datetime64(0, "s"))
                                   / day}, "x[:, 2]"),
        "span": ("took", lambda p: {"z": p.took.dt.total_seconds()}, "x[:, 2]"),
    }  # fmt: skip


@pytest.mark.parametrize("case", hidden_places())
def test_a_hidden_column_is_found_under_another_name(tmp_path: Path, case: str) -> None:
    column, change, place = hidden_places()[case]
    rng = np.random.default_rng(5)
    task = HidingTask(column)
    task.dataset = MorePosts()
    database = task.dataset.get_db(upto_test_timestamp=False)
    posts = database.table_dict["posts"]
    whole = posts.df
    posts.df = whole.drop(columns=MORE)
    assert len(relbench_task(built(database, tmp_path), task).test) == 40  # it has no such column
    changed = change(whole)
    posts.df = whole.drop(columns=MORE).assign(**changed)
    if case == "seconds":  # as an attribute: float32 would round them
        posts.df = posts.df.drop(columns="z")
    graph = built(database, tmp_path)
    if case == "seconds":
        graph["posts"].attrs["z"] = changed["z"]
    with pytest.raises(InvalidArgumentError) as error:
        relbench_task(graph, task)
    assert f"the column {column!r} of 'posts'" in str(error.value)
    assert f", as {place}" in str(error.value)
    # Others with as many values of their own tell nothing.
    posts.df = whole.drop(columns=MORE).assign(
        other=rng.random(200), code=rng.integers(0, 3, 200), user_id=rng.integers(0, 20, 200)
    )
    assert len(relbench_task(built(database, tmp_path), task).test) == 40


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"attrs": ["amount"]}, "'amount' of edges 'by'"),
        ({"attrs": ["z"]}, "'z' of edges 'by'"),
        ({"weight": "z"}, "'edge_weight' of edges 'by'"),
        ({"time": "t"}, "'edge_time' of edges 'by'"),
    ],
)
def test_a_hidden_column_is_found_as_a_value_of_edges(
    tmp_path: Path, values: dict[str, Any], place: str
) -> None:
    task = HidingTask("closed" if "time" in values else "amount")
    task.dataset = MorePosts()
    frames = {name: one.df for name, one in task.dataset.get_db(False).table_dict.items()}
    posts = frames["posts"]
    posts = posts.assign(
        amount=posts.amount.astype("float64"), z=posts.amount.astype("float64"), t=posts.closed,
        user_id=posts.user_id.astype("Int64").where(posts.id % 3 > 0),
    )  # fmt: skip
    likes = {"user": np.arange(400) % 20, "post": np.arange(400) // 2, "amount": np.arange(400.0)}

    def graph_of(**more: Any) -> HeteroGraph:
        foreign = {"by": ForeignKey("users", "user_id", **more)}
        schema = TableSchema(
            {
                "users": NodeTable(frames["users"], key="id"),
                "posts": NodeTable(posts, key="id", time="ts", foreign=foreign),
            },
            {"likes": LinkTable(likes, "users", "user", "posts", "post", attrs=["amount"])},
            time_unit="s",
        )
        tables(schema, tmp_path / "g.aeg", force=True)
        return HeteroGraph.load(tmp_path / "g.aeg")

    # The likes of a post are other rows, which may have a column of that name.
    assert len(relbench_task(graph_of(attrs=["length"]), task).test) == 40
    with pytest.raises(InvalidArgumentError) as error:
        relbench_task(graph_of(**values), task)
    assert f", as {place}" in str(error.value)


@pytest.mark.parametrize(
    ("values", "is_found"),
    [
        (list(range(9)), False),  # 9! = 362_880 orders, and 10! = 3_628_800
        (list(range(10)), True),
        (["a"] * 2, False),  # 200 * 199 / 2 = 19_900 pairs of rows, and 1_313_400 triples
        (["a"] * 3, True),
        (["a"] * 8 + ["b"] * 15, False),  # 490_314 ways to divide 23 rows, and 1_307_504
        (["a"] * 9 + ["b"] * 15, True),
        ([*"aabbccddeeff"], False),  # 10_395 pairings of 12 rows, and 2_027_025 of 16
        ([*"aabbccddeeffgghh"], True),
    ],
)
def test_values_that_may_be_equal_by_chance_are_let_through(
    tmp_path: Path, values: list[Any], is_found: bool
) -> None:
    task = HidingTask("rare")
    rows = np.random.default_rng(5).permutation(200)[: len(values)]

    class Rare(Posts):
        """Posts with a column that few rows have."""

        def get_db(self, upto_test_timestamp: bool = True) -> SimpleNamespace:
            database = super().get_db(upto_test_timestamp)
            column = np.full(200, None, object)
            column[rows] = values
            database.table_dict["posts"].df["rare"] = column[: 160 if upto_test_timestamp else 200]
            return database

    task.dataset = Rare()
    graph = built(Posts().get_db(False), tmp_path)
    z = np.zeros(200)
    z[rows] = values if isinstance(values[0], int) else [ord(value) for value in values]
    graph["posts"].attrs["z"] = z
    if is_found:
        with pytest.raises(InvalidArgumentError, match="as 'z' of its nodes"):
            relbench_task(graph, task)
    else:
        assert len(relbench_task(graph, task).test) == 40
    graph["posts"].attrs["rare"] = z
    with pytest.raises(InvalidArgumentError, match="as 'rare' of its nodes"):
        relbench_task(graph, task)


def test_the_day_of_times_of_one_day_tells_nothing(tmp_path: Path) -> None:
    task = HidingTask("rated")
    task.dataset = MorePosts()
    graph = built(Posts().get_db(False), tmp_path)
    graph["posts"].attrs["day"] = np.full(200, np.datetime64("2024-01-01", "D").astype(int))
    assert len(relbench_task(graph, task).test) == 40


def test_a_hidden_column_in_a_graph_of_one_type() -> None:
    task = HidingTask("score")
    task.entity_table = None  # type: ignore[assignment]
    posts = task.dataset.get_db(False).table_dict["posts"].df
    graph = Graph.from_edges(200, [0, 1], [1, 2])
    graph.node_attrs["y"] = posts.score.fillna(-1).to_numpy("int64")
    with pytest.raises(
        InvalidArgumentError, match=r"has the column 'score' .* as 'y' of its nodes"
    ):
        relbench_task(graph, task)


def test_a_hidden_column_in_a_live_graph_and_in_short_floats(tmp_path: Path) -> None:
    task = HidingTask("editor")
    task.dataset = MorePosts()
    task.entity_table = None  # type: ignore[assignment]
    rows = np.zeros((200, 2), np.float32)
    rows[:, 1] = task.dataset.get_db(False).table_dict["posts"].df.editor
    live = DynamicGraph(200, 8, edge_attrs={"e": ((2,), "float32")}, huge_pages=False)
    live.insert_edges(np.arange(200), np.arange(200) % 3, edge_attrs={"e": rows})
    live.delete_edges([5], [2])
    for graph in (live, live.snapshot()):
        with pytest.raises(InvalidArgumentError, match=r"as e\[:, 1\] of edges 'to'"):
            relbench_task(graph, task)
    plain = Graph.from_edges(200, [0, 1], [1, 2])
    task = HidingTask("took")
    task.dataset, task.entity_table = MorePosts(), None  # type: ignore[assignment]
    rows[:, 1] = task.dataset.get_db(False).table_dict["posts"].df.took.dt.total_seconds()
    short = FeatureTable.from_array(rows)
    short.save(tmp_path / "x.bin", dtype="bfloat16")  # which has whole numbers up to 256
    plain.load_features(tmp_path / "x.bin")
    with pytest.raises(InvalidArgumentError, match=r"as x\[:, 1\] of its nodes"):
        relbench_task(plain, task)


def test_features_of_other_rows_are_told(tmp_path: Path) -> None:
    task = HidingTask("score")
    graph = built(task.get_db(upto_test_timestamp=False), tmp_path)
    del task.dataset
    with pytest.warns(UserWarning, match="'score' of 'posts', and whether .* cannot be told"):
        assert len(relbench_task(graph, task).test) == 40
    with pytest.raises(InvalidArgumentError, match=r"pairs of a table and a column, got \[7\]"):
        relbench_task(graph, SimpleNamespace(**{
            name: getattr(HidingTask, name)
            for name in ("entity_table", "entity_col", "time_col", "target_col", "get_table")
        }, hidden_columns=lambda: [7]))  # fmt: skip


def test_rows_after_the_test_timestamp_are_asked_for(tmp_path: Path) -> None:
    task = HidingTask("score")
    graph = built(task.get_db(), tmp_path)
    with pytest.raises(InputError) as error:
        relbench_task(graph, task)
    assert "the test table of the task, row 1: column 'id': there is no 'posts'" in str(error.value)
    assert "relbench_schema(task.get_db(upto_test_timestamp=False))" in str(error.value)


# ---- what is wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"entity_table": "usr"}, "entity_table = 'usr' is no node type of the graph"),
        ({"entity_table": None}, "entity_table = None is no node type"),
        ({"entity_col": "id"}, r"there is no column 'id' \(the task\)"),
        ({"entity_col": []}, "entity_col is a column, or a list of columns"),
        ({"entity_col": "churn"}, "keys of type str are needed"),
        ({"time_col": "user_id"}, r"row 1: .*'u21' is no time"),
        ({"time_col": 3}, "time_col is a column"),
        ({"target_col": "user_id"}, "a label is a number"),
        ({"entity_is": "name"}, "entity_is"),
        ({"unknown": "keep"}, "unknown"),
    ],
)
def test_wrong_options_are_named(graph: HeteroGraph, change: dict[str, Any], error: str) -> None:
    with pytest.raises((InputError, InvalidArgumentError), match=error):
        TableTask(graph, training_rows(), **{**OPTIONS, **change})


def test_a_relation_is_a_text(graph: HeteroGraph) -> None:
    ends = {"src_entity_col": "user_id", "dst_entity_col": "user_id"}
    with pytest.raises(InvalidArgumentError, match="relation = 5 is no text"):
        LinkTask(graph, training_rows(), **ends, relation=5)  # type: ignore[arg-type]


def test_wrong_rows_are_named(graph: HeteroGraph, tmp_path: Path) -> None:
    for column, value, error in (
        ("user_id", None, r"row 3: column 'user_id': the key is missing"),
        ("date", None, r"row 3: column 'date': the time is missing"),
        ("date", DAY.astype("datetime64[ms]") + 1, r"row 3: .*cannot be given in 's'"),
    ):
        rows = training_rows(5)
        rows["date"] = list(rows["date"].astype("datetime64[ms]").astype(object))
        rows[column][2] = value if value is None else value.astype(object)
        with pytest.raises(InputError, match=error):
            TableTask(graph, rows, **OPTIONS)
    with pytest.raises(InputError, match="holds no rows"):
        TableTask(graph, {one: rows[one][:0] for one in ("user_id",)},
                  entity_table="user", entity_col="user_id")  # fmt: skip
    with pytest.raises(
        InvalidArgumentError, match="graph is a graph of one type or of many, loaded or live"
    ):
        TableTask("shop.aeg", training_rows(), **OPTIONS)  # type: ignore[arg-type]
    make_shop(tmp_path)
    (tmp_path / "shop.user.ids").unlink()
    with pytest.raises(MissingFileError, match=r"shop\.user\.ids"):
        TableTask(HeteroGraph.load(tmp_path / "shop.aeg"), training_rows(), **OPTIONS)


def test_batches_of_other_loaders_are_named(graph: HeteroGraph) -> None:
    task = TableTask(graph, training_rows(), **OPTIONS)
    with pytest.raises(InvalidArgumentError, match="the batch has no input_id"):
        task.attach_labels({"user": object()})


@pytest.mark.parametrize(
    ("ids", "problem"),
    [
        ([3, 0.5], "row 2.*column 'n': 0.5 is no integer"),
        ([3.0, float("nan")], "row 2.*column 'n': .*nan|row 2.*missing"),
        ([1e300], "column 'n': 1e\\+300 is no integer"),
        (["a"], "column 'n'.*'a' is no number|column 'n'.*number"),
        ([True], "column 'n': a boolean is no id"),
    ],
)
def test_what_is_no_id_of_a_node_is_named(graph: HeteroGraph, ids: list[Any], problem: str) -> None:
    options = {"entity_table": "user", "entity_col": "n", "entity_is": "id"}
    with pytest.raises(InputError, match=problem):
        TableTask(graph, {"n": ids}, **options)
    assert TableTask(graph, {"n": [3.0, 0.0]}, **options).nodes.tolist() == [3, 0]


def test_times_without_a_unit(tmp_path: Path) -> None:
    graph = Graph.from_edges(3, [0, 1], [1, 2], edge_time=[1, 2])
    table = {"n": [0, 1], "at": [1, 2], "day": training_rows(2)["date"]}
    options: dict[str, Any] = {"entity_col": "n", "entity_is": "id"}
    assert TableTask(graph, table, **options, time_col="at").time_unit is None
    with pytest.raises(InvalidArgumentError, match="the times of the graph have no unit"):
        TableTask(graph, table, **options, time_col="day")
    task = TableTask(graph, table, **options)
    with pytest.raises(InvalidArgumentError, match="no times to split by"):
        task.split(val=1, test=2)
    with pytest.raises(InvalidArgumentError, match="the task has no labels"):
        task.gather_labels([0])


def test_wrong_cuts_are_named(graph: HeteroGraph) -> None:
    task = TableTask(graph, training_rows(), **OPTIONS)
    for cuts, error in (
        ({"val": "2024-03-01", "test": "2024-02-01"}, "begin one after the other, not at val = "),
        ({"val": "soon", "test": "2024-02-01"}, "val = 'soon' is no time"),
        ({"val": "2024-01-01", "test": None}, "needs the times at which val and test begin"),
        ({"val": "2024-01-01T00:00:00.5", "test": "2024-02-01"}, "cannot be given in the unit"),
        ({"val": 1.5, "test": "2024-02-01"}, "the times are int64"),
    ):
        with pytest.raises(InvalidArgumentError, match=error):
            task.split(**cuts)


# ---- times that are not those of the graph ------------------------------------------------------


def zoned_shop(folder: Path, zone: str | None) -> HeteroGraph:
    pd = pytest.importorskip("pandas")
    placed = pd.to_datetime(["2024-02-29 20:00", "2024-03-01 02:00"]).tz_localize(zone)
    orders = pd.DataFrame({"id": [1, 2], "u": ["a", "a"], "t": placed})
    table = NodeTable(orders, key="id", time="t", foreign={"u": "u"})
    tables(TableSchema({"u": NodeTable({"id": ["a"]}, key="id"), "o": table}), folder / "z.aeg")
    return HeteroGraph.load(folder / "z.aeg")


@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_times_with_and_without_a_zone_do_not_mix(tmp_path: Path, zone: str | None) -> None:
    pd = pytest.importorskip("pandas")
    graph = zoned_shop(tmp_path, zone)
    assert graph.time_zone == (None if zone is None else "UTC")
    names = {"entity_table": "u", "entity_col": "u", "time_col": "d"}
    bare = pd.to_datetime(["2024-03-01 03:00"])
    same, other = (bare, bare.tz_localize("UTC"))[:: 1 if zone is None else -1]
    with pytest.raises(InvalidArgumentError, match="time zone"):
        TableTask(graph, pd.DataFrame({"u": ["a"], "d": other}), **names)
    task = TableTask(graph, pd.DataFrame({"u": ["a"], "d": same}), **names)
    # 03:00 without a zone is after both; 03:00 of UTC is 22:00 in New York, before the second.
    assert (task.time[0] >= graph["o"].node_time).tolist() == [True, zone is None]
    cut = pd.Timestamp("2024-03-01 03:00", tz=None if zone is None else "UTC")
    train, val, test = task.split(val=cut, test=cut + pd.Timedelta("1D"))
    assert [len(one) for one in (train, val, test)] == [0, 1, 0]
    with pytest.raises(InvalidArgumentError, match=r"val = .* time zone"):
        task.split(val=cut.tz_localize(None if cut.tz else "UTC"), test=cut)
    texts = {"val": "2024-02-29T22:00:00-05:00", "test": "2024-03-02T03:00Z"}
    if zone is None:
        with pytest.raises(InvalidArgumentError, match=r"val = .*has a time zone"):
            task.split(**texts)
    else:
        assert [len(one) for one in vars(task.split(**texts)).values()] == [0, 1, 0]


def test_numbers_in_another_unit_are_refused(tmp_path: Path) -> None:
    graph = zoned_shop(tmp_path, None)
    names = {"entity_table": "u", "entity_col": "u", "time_col": "d"}
    with pytest.raises(InvalidArgumentError, match=r"the latest 1709251200, .*: 1970-01-01T"):
        TableTask(graph, {"u": ["a"], "d": [1709251200]}, **names)
    right = int(np.datetime64("2024-03-01", graph.time_unit).astype(np.int64))
    assert len(TableTask(graph, {"u": ["a"], "d": [right]}, **names)) == 1


def test_nothing_is_no_proof(graph: HeteroGraph) -> None:
    with pytest.raises(InvalidArgumentError, match="no batches"):
        check_no_leak(graph, [])
