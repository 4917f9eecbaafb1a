"""Databases in RelBench's shape: the graph is that of PyG, with lists in the order of time."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aethergraph import HeteroGraph
from aethergraph.convert import InputError, relbench_schema, tables
from aethergraph.errors import InvalidArgumentError

pd = pytest.importorskip("pandas")


@dataclass
class Table:
    """Attributes of ``relbench.base.Table``."""

    df: Any
    fkey_col_to_pkey_table: dict[str, str] = field(default_factory=dict)
    pkey_col: str | None = None
    time_col: str | None = None


@dataclass
class Database:
    table_dict: dict[str, Table]


def days(rng: np.random.Generator, count: int) -> Any:
    return np.datetime64("2020-01-01", "ns") + rng.integers(0, 10**6, count).astype("m8[s]")


def forum(seed: int = 0) -> Database:
    """Posts that refer to posts, keys that are missing, features that are."""
    rng = np.random.default_rng(seed)
    users = pd.DataFrame({
        "Id": np.arange(50), "age": rng.integers(0, 90, 50), "height": rng.random(50),
        "name": [f"u{n}" for n in range(50)], "admin": rng.random(50) < 0.5,
    })  # fmt: skip
    users.loc[3, "height"] = np.nan
    posts = pd.DataFrame({
        "Id": np.arange(200), "owner": pd.array(rng.integers(0, 50, 200), dtype="Int64"),
        "parent": rng.integers(0, 200, 200).astype(float), "score": rng.integers(-5, 9, 200),
        "when": days(rng, 200),
    })  # fmt: skip
    posts.loc[5, "owner"] = pd.NA
    posts.loc[0, "parent"] = np.nan
    votes = pd.DataFrame({
        "user": rng.integers(0, 50, 500), "post": rng.integers(0, 200, 500),
        "date": days(rng, 500),
    })  # fmt: skip
    return Database({
        "users": Table(users, pkey_col="Id"),
        "posts": Table(posts, {"owner": "users", "parent": "posts"}, "Id", "when"),
        "votes": Table(votes, {"user": "users", "post": "posts"}, None, "date"),
    })  # fmt: skip


def races(seed: int = 0) -> Database:
    """A table without a time, one with nothing but keys, two keys to the same table."""
    rng = np.random.default_rng(seed)
    drivers = pd.DataFrame({"driverId": np.arange(30), "nation": ["x"] * 30})
    races = pd.DataFrame({"raceId": np.arange(40), "laps": rng.random(40, np.float32)})
    results = pd.DataFrame({
        "resultId": np.arange(300), "raceId": rng.integers(0, 40, 300),
        "first": rng.integers(0, 30, 300), "second": rng.integers(0, 30, 300),
        "points": rng.random(300), "date": days(rng, 300),
    })  # fmt: skip
    refers = {"raceId": "races", "first": "drivers", "second": "drivers"}
    return Database(
        {
            "drivers": Table(drivers, pkey_col="driverId"),
            "races": Table(races, pkey_col="raceId"),
            "results": Table(results, refers, "resultId", "date"),
            "pairs": Table(results[["first", "second"]], {"first": "drivers", "second": "drivers"}),
        }
    )


def in_pairs(edges: Any) -> Any:
    """Edges in the order of both ends."""
    edges = np.asarray(edges)
    return edges[:, np.lexsort(edges[::-1])]


def uneven() -> Database:
    """Times within a second, and numbers that float32 does not have."""
    database = forum()
    posts, votes = database.table_dict["posts"].df, database.table_dict["votes"].df
    posts["score"] = 2**24 + np.arange(len(posts))
    votes["date"] += np.timedelta64(999_999_999, "ns")
    return database


@pytest.mark.pyg
@pytest.mark.parametrize("database", [forum(), races(), uneven()], ids=["forum", "races", "uneven"])
def test_the_graph_is_that_of_pyg(
    tmp_path: Path, database: Database, request: pytest.FixtureRequest
) -> None:
    contrib = pytest.importorskip("torch_geometric.contrib.utils")
    if not hasattr(contrib, "from_relbench"):
        pytest.skip("from_relbench came with torch_geometric 2.8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = contrib.from_relbench(database)
    is_uneven = request.node.callspec.id == "uneven"
    if is_uneven:
        with pytest.raises(InputError, match="float32 would make"):
            tables(relbench_schema(database), tmp_path / "no.aeg")
    tables(relbench_schema(database, exact=not is_uneven), tmp_path / "g.aeg")
    ours = HeteroGraph.load(tmp_path / "g.aeg")
    assert ours.node_types == theirs.node_types
    assert set(ours.edge_types) == set(theirs.edge_types)
    for name in theirs.node_types:
        one, other = ours[name], theirs[name]
        assert one.num_nodes == other.num_nodes
        assert (one.node_time is None) == ("time" not in other)
        if one.node_time is not None:
            np.testing.assert_array_equal(one.node_time, other.time)
        assert (one.features is None) == ("x" not in other)
        if one.features is not None:
            np.testing.assert_array_equal(one.features.gather(np.arange(one.num_nodes)), other.x)
    for kind in theirs.edge_types:
        edges = np.stack(ours[kind].edge_list()[:2])
        np.testing.assert_array_equal(in_pairs(edges), in_pairs(theirs[kind].edge_index))


def test_lists_are_in_the_order_of_time(tmp_path: Path) -> None:
    database = forum()
    tables(relbench_schema(database), tmp_path / "g.aeg")
    graph = HeteroGraph.load(tmp_path / "g.aeg")
    times = database.table_dict["votes"].df["date"].to_numpy()
    for post in range(20):
        votes = graph["votes", "f2p_post", "posts"].in_neighbors(post)
        assert np.all(np.diff(times[votes]) >= np.timedelta64(0))


def test_keys_of_any_kind(tmp_path: Path) -> None:
    database = forum()
    for table, columns in (("users", ["Id"]), ("posts", ["owner"]), ("votes", ["user"])):
        frame = database.table_dict[table].df
        for column in columns:
            frame[column] = frame[column].map(lambda key: None if pd.isna(key) else f"key {key}")
    tables(relbench_schema(database), tmp_path / "g.aeg")
    tables(relbench_schema(forum()), tmp_path / "numbers.aeg")
    ours, numbers = (HeteroGraph.load(tmp_path / name) for name in ("g.aeg", "numbers.aeg"))
    assert ours.ids["users"].lookup(["key 7", "key 0"]).tolist() == [7, 0]
    for kind in ours.edge_types:
        for one, other in zip(ours[kind].edge_list(), numbers[kind].edge_list(), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_foreign_key_that_a_task_has_taken_out_is_no_edge() -> None:
    database = forum()
    posts = database.table_dict["posts"]
    posts.df = posts.df.drop(columns=["parent"])  # as task.get_db() does, which leaves the rest
    schema = relbench_schema(database)
    assert [spec.kind for spec in schema.edges if spec.kind[0] == "posts"] == [
        ("posts", "f2p_owner", "users")
    ]


def test_a_foreign_key_with_a_fraction_is_named(tmp_path: Path) -> None:
    database = forum()
    database.table_dict["posts"].df.loc[7, "parent"] = 2.5
    with pytest.raises(
        InputError, match=r"posts.*row 8: column 'parent': the key 2.5 is not an int"
    ):
        tables(relbench_schema(database), tmp_path / "g.aeg")


def test_what_is_no_database_is_named() -> None:
    with pytest.raises(InvalidArgumentError, match="no tables in table_dict: 7"):
        relbench_schema(7)
    with pytest.raises(InvalidArgumentError, match="table 'a' has no df, pkey_col"):
        relbench_schema(Database({"a": object()}))  # type: ignore[dict-item]
    database = forum()
    database.table_dict["posts"].fkey_col_to_pkey_table["owner"] = "votes"
    with pytest.raises(InvalidArgumentError, match="'owner' of table 'posts' refers to 'votes'"):
        relbench_schema(database)
