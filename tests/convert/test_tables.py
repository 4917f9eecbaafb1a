"""Typed graphs from tables equal those that plain Python makes of the same rows, byte by byte."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.damage import fuzz
from support.shop_tables import (
    DAY,
    DTYPES,
    in_duckdb,
    in_files,
    in_frames,
    in_sqlite,
    shop,
    shop_schema,
    shop_world,
    two,
)
from support.table_oracle import Edges, Nodes, Rows, World, same_graph_file, write
from typer.testing import CliRunner

from aethergraph import Graph, HeteroGraph, HeteroNeighborSampler
from aethergraph.cli.app import app
from aethergraph.convert import (
    ForeignKey,
    InputError,
    LinkTable,
    NodeTable,
    TableSchema,
    tables,
)
from aethergraph.errors import (
    FileChangedError,
    InvalidArgumentError,
    MissingFileError,
    OutOfRangeError,
)
from aethergraph.ids import IdMap
from aethergraph.testing import check_no_leak

KINDS = [
    "parquet", "csv", "gzip", "arrow", "stream", "url", "arrow table", "pandas", "polars", "duckdb",
    "sqlite",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_source_gives_the_same_graph(tmp_path: Path, kind: str, small_memory: None) -> None:
    rows = shop()
    (tmp_path / "in").mkdir()
    if kind in ("duckdb", "sqlite"):
        source = {"duckdb": in_duckdb, "sqlite": in_sqlite}[kind](rows, tmp_path / "in")
    elif kind in ("arrow table", "pandas", "polars"):
        source = in_frames(rows, kind)
    else:
        source = in_files(rows, tmp_path / "in", kind)
    found = tables(shop_schema(source), tmp_path / "g.aeg")
    dtypes = {**DTYPES, "w": np.float32} if kind in ("csv", "gzip") else DTYPES
    world = shop_world(rows)
    write(world, tmp_path / "whole.aeg", dtypes=dtypes)
    assert same_graph_file(tmp_path / "g.aeg", tmp_path / "whole.aeg")
    graph = HeteroGraph.load(tmp_path / "g.aeg")
    graph.verify()
    assert found.num_nodes == {name: graph[name].num_nodes for name in ("user", "product", "order")}
    assert set(graph.ids) == set(found.ids) == {"user", "product", "order"}
    for name, ids in world.ids.items():
        columns = list(zip(*ids, strict=True))
        keys = columns[0] if len(columns) == 1 else [list(column) for column in columns]
        assert graph.ids[name].lookup(list(keys)).tolist() == list(ids.values())
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"in", "g.aeg", "whole.aeg", "g.user.ids", "g.product.ids", "g.order.ids"}
    nulls = sum(row["buyer"] is None for row in rows["order"])
    assert f"('order', 'buyer', 'user'): {nulls} null keys, no edges" in found.notes


@pytest.mark.parametrize(
    ("layout", "compress", "memory"),
    [("csc", True, "4G"), ("csr", False, "small"), ("both", False, "4G"), ("both", True, "small")],
)
def test_every_form_equals_the_graph_built_in_memory(
    tmp_path: Path, layout: Any, compress: bool, memory: str, request: pytest.FixtureRequest
) -> None:
    if memory == "small":
        request.getfixturevalue("small_memory")
    rows = shop()
    schema = shop_schema(in_frames(rows, "arrow table"), reverse=layout != "both")
    options: dict[str, Any] = {"layout": layout, "compress": compress}
    tables(schema, tmp_path / "g", memory_budget="4G", **options)
    write(shop_world(rows), tmp_path / "w", dtypes=DTYPES, reverse=schema.reverse, **options)
    assert same_graph_file(tmp_path / "g", tmp_path / "w")


@st.composite
def worlds(draw: st.DrawFn) -> tuple[dict[str, Rows], bool, str, str]:
    """Two tables that refer to each other and themselves, and links; keys may refer to nothing."""
    a = draw(st.lists(st.integers(-5, 20), min_size=1, max_size=12, unique=True))
    b = draw(st.lists(st.text("xyz", max_size=2), min_size=1, max_size=12, unique=True))
    a_keys = st.none() | st.integers(-5, 20)
    b_keys = st.none() | st.text("xyz", max_size=2)
    times = st.integers(-9, 9)
    rows = {
        "a": [{"k": k, "b": draw(b_keys), "a": draw(a_keys), "t": draw(times)} for k in a],
        "b": [{"k": k, "a": draw(a_keys)} for k in b],
        "l": [
            {
                "from": draw(b_keys), "to": draw(a_keys), "w": draw(st.integers(0, 8)) / 4,
                "t": draw(times),
            }
            for _ in range(draw(st.integers(1, 20)))
        ],
    }  # fmt: skip
    missing = draw(st.sampled_from(["drop", "keep"]))
    return (
        rows,
        draw(st.booleans()),
        missing,
        draw(st.sampled_from(["none", "nodes", "edges", "both"])),
    )


@fuzz
@given(world=worlds())
def test_any_tables_equal_plain_python(tmp_path: Path, world: Any, small_memory: None) -> None:
    rows, reverse, missing, timed = world
    node_time = "t" if timed in ("nodes", "both") and missing == "drop" else None
    edge_time = "t" if timed in ("edges", "both") else None
    types = {
        "a": pa.schema({"k": pa.int32(), "b": pa.string(), "a": pa.int64(), "t": pa.int16()}),
        "b": pa.schema({"k": pa.string(), "a": pa.int8()}),
        "l": pa.schema(
            {"from": pa.large_string(), "to": pa.int64(), "w": pa.float32(), "t": pa.int64()}
        ),
    }  # fmt: skip
    source = {name: pa.Table.from_pylist(some, types[name]) for name, some in rows.items()}
    lost: dict[str, Any] = {"missing": missing}
    schema = TableSchema(
        {
            "a": NodeTable(
                source["a"], "k", time=node_time,
                foreign={"b": ForeignKey("b", **lost), "parent": ForeignKey("a", "a", **lost)},
            ),
            "b": NodeTable(source["b"], "k", foreign={"owner": ForeignKey("a", "a", **lost)}),
        },
        {"link": LinkTable(source["l"], "b", "from", "a", "to", edge_time, "w", **lost)},
        reverse=reverse,
    )  # fmt: skip
    keep = missing == "keep"
    oracle = World(
        {"a": Nodes(rows["a"], ("k",), time=node_time), "b": Nodes(rows["b"], ("k",))},
        {
            ("a", "b", "b"): Edges(rows["a"], (), ("b",), keep=keep),
            ("a", "parent", "a"): Edges(rows["a"], (), ("a",), keep=keep),
            ("b", "owner", "a"): Edges(rows["b"], (), ("a",), keep=keep),
            ("b", "link", "a"): Edges(rows["l"], ("from",), ("to",), edge_time, "w", keep=keep),
        },
    )
    tables(schema, tmp_path / "g", force=True)
    write(oracle, tmp_path / "w", reverse=reverse, dtypes={"w": np.float32, "t": np.int64})
    assert same_graph_file(tmp_path / "g", tmp_path / "w")
    ids = HeteroGraph.load(tmp_path / "g").ids
    for name in ("a", "b"):
        keys = [key for (key,) in oracle.ids[name]]
        assert list(ids[name].keys(np.arange(len(keys)))) == keys


# ---- keys that refer to nothing -----------------------------------------------------------------


def test_dangling_keys_are_dropped_counted_and_named(tmp_path: Path) -> None:
    a: Any = {"k": [1, 2, 3, 4], "b": ["x", "?", None, "!"]}
    schema = TableSchema(
        {
            "a": NodeTable(a, "k", foreign={"b": ForeignKey("b", missing="drop")}),
            "b": NodeTable({"k": ["x"]}, "k"),
        }
    )
    found = tables(schema, tmp_path / "g")
    assert found.num_edges["a", "b", "b"] == 1
    assert "('a', 'b', 'b'): 1 null keys, no edges" in found.notes
    (note,) = [one for one in found.notes if "left out" in one]
    assert "2 edges left out; the first: nodes.a, row 2: column 'b': there is no 'b' with" in note
    with pytest.raises(InputError, match=r"row 3: .*the key of a 'b' is missing"):
        strict = ForeignKey("b", missing="drop", null="error")
        nodes = {"a": NodeTable(a, "k", foreign={"b": strict}), "b": NodeTable({"k": ["x"]}, "k")}
        tables(TableSchema(nodes), tmp_path / "h")


def test_nodes_of_keys_alone(tmp_path: Path) -> None:
    one, other = uuid.UUID(int=1), uuid.UUID(int=2)
    links = {
        "u": pa.array([other.bytes, one.bytes, other.bytes], pa.binary(16)),
        "tag": ["b", "a", "b"],
    }
    uses = LinkTable(links, "user", "u", "tag", "tag")
    tables(
        TableSchema({"user": NodeTable(), "tag": NodeTable()}, {"uses": uses}), tmp_path / "g.aeg"
    )
    graph = HeteroGraph.load(tmp_path / "g.aeg")
    assert graph.ids["user"].keys([0, 1]) == [other, one]
    assert graph.ids["tag"].keys([0, 1]) == ["b", "a"]
    assert graph["user", "uses", "tag"].in_neighbors(0).tolist() == [0, 0]
    own = LinkTable({"a": ["x", "y", "x"], "b": ["z", "x", "y"]}, "node", "a", "node", "b")
    tables(TableSchema({"node": NodeTable()}, {"to": own}, reverse=False), tmp_path / "one.aeg")
    plain = Graph.load(tmp_path / "one.aeg")
    assert IdMap.load(tmp_path / "one.node.ids").keys(range(3)) == ["x", "y", "z"]
    assert [plain.in_neighbors(node).tolist() for node in range(3)] == [[1], [0], [0]]


def test_types_of_keys_in_duckdb(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute("CREATE TABLE a (u UUID, h USMALLINT, b BLOB, e ENUM('x', 'y'), d DATE)")
    for row in ("1, 'q', 'x', '2024-01-01'", "2, 'r', 'y', '2024-01-02'"):
        connection.execute(f"INSERT INTO a VALUES (uuid(), {row})")
    for key, types in (("u", {"str", "uuid"}), ("h", {"int64"}), ("b", {"bytes"}), ("e", {"str"})):
        nodes = {
            "a": NodeTable(
                {"duckdb": connection, "table": "a"}, key, time="d", features=["h", "d"],
                foreign={"self": ForeignKey("a", key)},
            )
        }  # fmt: skip
        tables(TableSchema(nodes), tmp_path / "g.aeg", force=True)
        graph = HeteroGraph.load(tmp_path / "g.aeg")
        assert graph.ids["a"].types[0] in types
        assert graph["a", "self", "a"].in_neighbors(1).tolist() == [1]
        assert graph["a"].attrs["x"].gather([0, 1]).tolist() == [[1, 19723], [2, 19724]]


@pytest.mark.parametrize(("layout", "compress"), [("csc", True), ("csr", False), ("both", True)])
def test_all_edges_may_be_left_out(tmp_path: Path, layout: Any, compress: bool) -> None:
    a: Any = {"k": [1, 2], "b": pa.array([None, None], pa.string()), "w": [1.0, 2.0], "n": [1, 2]}
    foreign = {"b": ForeignKey("b", weight="w", attrs="n", time="n")}
    nodes = {"a": NodeTable(a, "k", foreign=foreign), "b": NodeTable({"k": ["x"]}, "k")}
    options: dict[str, Any] = {"layout": layout, "compress": compress}
    tables(TableSchema(nodes), tmp_path / "g", **options)
    rows = [{"b": None, "w": 1.0, "n": 1}, {"b": None, "w": 2.0, "n": 2}]
    world = World(
        {"a": Nodes([{"k": 1}, {"k": 2}], ("k",)), "b": Nodes([{"k": "x"}], ("k",))},
        {("a", "b", "b"): Edges(rows, (), ("b",), "n", "w", ("n",))},
    )
    write(world, tmp_path / "w", dtypes={"w": np.float64, "n": np.int64}, **options)
    assert same_graph_file(tmp_path / "g", tmp_path / "w")


def test_features_of_all_kinds(tmp_path: Path) -> None:
    a = {
        "k": [1, 2, 3], "b": [1, 1, 1], "day": pa.array([0, 86_400, None], pa.timestamp("s")),
        "yes": [True, None, False], "half": [0.5, None, 3.0], "y": [4, None, 6],
        "z": [0.5, None, 1.0],
    }  # fmt: skip
    options: dict[str, Any] = {"features": ["day", "yes", "half"], "fill": -1}
    nodes = {"a": NodeTable(a, "k", label=["y", "z"], foreign={"b": "a"}, **options)}
    tables(TableSchema(nodes), tmp_path / "g")
    found = HeteroGraph.load(tmp_path / "g")["a"].attrs
    assert found["x"].gather([0, 1, 2]).tolist() == [[0, 1, 0.5], [1, -1, -1], [-1, 0, 3]]
    assert found["y"].gather([0, 1, 2]).tolist() == [4, -1, 6]
    assert found["z"].gather([0, 1, 2]).tolist() == pytest.approx([0.5, np.nan, 1], nan_ok=True)


@pytest.mark.parametrize("kind", ["arrow", "numpy", "pandas", "parquet", "csv", "duckdb"])
def test_nan_is_a_missing_feature_from_every_source(tmp_path: Path, kind: str) -> None:
    values = {"k": np.arange(3), "b": np.arange(3), "f": np.array([0.5, np.nan, 2])}
    table = pa.table({name: pa.array(one, from_pandas=False) for name, one in values.items()})
    assert not table["f"].null_count
    source: Any = table
    if kind == "numpy":
        source = values
    elif kind == "pandas":
        source = pytest.importorskip("pandas").DataFrame(values)
    elif kind == "parquet":
        pq.write_table(table, tmp_path / "a.parquet")
        source = str(tmp_path / "a.parquet")
    elif kind == "csv":
        (tmp_path / "a.csv").write_text("k,b,f\n0,0,0.5\n1,1,nan\n2,2,2\n")
        source = str(tmp_path / "a.csv")
    elif kind == "duckdb":
        rows = "VALUES (0, 0, '0.5'), (1, 1, 'nan'), (2, 2, '2')"
        query = f"SELECT k, b, f::DOUBLE AS f FROM ({rows}) AS a(k, b, f)"
        source = {"duckdb": pytest.importorskip("duckdb").connect(), "query": query}
    for fill in (-1, float("nan")):
        node = NodeTable(source, "k", features="f", fill=fill, columns="f", foreign={"b": "a"})
        tables(TableSchema({"a": node}), tmp_path / "g.aeg", force=True)
        graph = HeteroGraph.load(tmp_path / "g.aeg")
        found: Any = graph["a"].attrs["x"].gather([0, 1, 2])
        np.testing.assert_array_equal(found, [[0.5], [fill], [2]])
        nulls = graph.columns["a"].gather([0, 1, 2]).nulls
        assert nulls["f"].tolist() == [False, True, False]
    bare = NodeTable(source, "k", features="f", foreign={"b": "a"})
    with pytest.raises(InputError, match=r"row 2: column 'f': the feature is missing \((NaN|null)"):
        tables(TableSchema({"a": bare}), tmp_path / "h.aeg")


# ---- the ids of a graph -------------------------------------------------------------------------


def test_ids_of_a_graph(tmp_path: Path) -> None:
    tables(two({"k": [5, 6], "b": ["x", "x"]}, {"k": ["x"]}), tmp_path / "g.aeg")
    graph = HeteroGraph.load(tmp_path / "g.aeg")
    assert graph.ids["a"].lookup([6, 5]).tolist() == [1, 0]
    assert list(graph.ids) == ["a", "b"] and "c" not in graph.ids
    with pytest.raises(InvalidArgumentError, match="'c' is not in the graph"):
        graph.ids["c"]
    with pytest.raises(OutOfRangeError, match="has no key 7"):
        graph.ids["a"].lookup([7])
    IdMap.build(tmp_path / "g.b.ids", [["x", "y"]], "str", force=True)
    with pytest.raises(FileChangedError, match="it is of another graph"):
        graph.ids["b"]
    (tmp_path / "g.b.ids").unlink()
    with pytest.raises(MissingFileError):
        HeteroGraph.load(tmp_path / "g.aeg").ids["b"]
    made = HeteroGraph.from_edges({("a", "to", "a"): ([0], [0])})
    with pytest.raises(InvalidArgumentError, match="not loaded from one"):
        made.ids["a"]


# ---- times of nodes and of edges -----------------------------------------------------------------


@pytest.mark.parametrize("keys_have_times", [False, True])
def test_samples_of_tables_and_links_with_times_see_no_future(
    tmp_path: Path, keys_have_times: bool
) -> None:
    """A product is there since a day, an order has a time, and a link has its own."""
    rng = np.random.default_rng(0)

    def day(count: int) -> Any:
        return np.datetime64(DAY, "us") + rng.integers(0, 365, count).astype("timedelta64[D]")

    users, products = {"id": np.arange(60)}, {"id": np.arange(40), "since": day(40)}
    orders = {"id": np.arange(900), "u": rng.integers(0, 60, 900), "p": rng.integers(0, 40, 900)}
    likes = {"u": rng.integers(0, 60, 900), "p": rng.integers(0, 40, 900), "t": day(900)}
    own = {"time": "t"} if keys_have_times else {}
    schema = TableSchema(
        {
            "user": NodeTable(users, "id"),
            "product": NodeTable(products, "id", time="since"),
            "order": NodeTable(
                {**orders, "t": day(900)}, "id", time="t",
                foreign={
                    "u": ForeignKey("user", "u", **own), "p": ForeignKey("product", "p", **own)
                },
            ),
        },
        {"likes": LinkTable(likes, "user", "u", "product", "p", time="t")},
    )  # fmt: skip
    tables(schema, tmp_path / "mix.aeg")
    graph = HeteroGraph.load(tmp_path / "mix.aeg")
    assert graph.time_attr == "edge_time"
    time = np.datetime64("2024-06-01").astype(f"datetime64[{graph.time_unit}]").astype(np.int64)
    for kind in graph.edge_types:
        edges = graph[kind]
        indptr, indices = edges.csc()
        dst = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr.astype(np.int64)))
        for name, ids in ((kind[0], indices), (kind[2], dst)):
            if graph[name].node_time is not None:
                assert (edges.edge_time >= graph[name].node_time[ids]).all()
    sampler = HeteroNeighborSampler(graph, [10, 5], time_attr="edge_time", temporal_strategy="last")
    seeds = {"user": np.arange(60)}
    sample = sampler.sample(seeds, 0, seed_time={"user": np.full(60, time)})
    report = check_no_leak(graph, sample, seed_time={"user": np.full(60, time)})
    assert report.nodes > 100 and report.edges > 100
    # An order that is known at that time is seen: nothing else delays it.
    buyers = graph["order", "u", "user"]
    known = graph["order"].node_time <= time
    for user in range(60):
        of_user = slice(*buyers.csc()[0][user : user + 2].tolist())
        seen = (buyers.edge_time[of_user] <= time).sum()
        assert seen == (known & (orders["u"] == user)).sum()
    result = CliRunner().invoke(app, ["verify", "--time", str(tmp_path / "mix.aeg")])
    assert result.exit_code == 0, result.stderr
    graph.save(tmp_path / "copy.aeg")
    assert HeteroGraph.load(tmp_path / "copy.aeg").time_attr == "edge_time"


@pytest.mark.parametrize("memory", ["small", "4G"])
@pytest.mark.parametrize("kept", ["first", "last"])
def test_one_row_of_each_key_stays(
    tmp_path: Path, kept: Any, memory: str, request: pytest.FixtureRequest
) -> None:
    """Against a dict: rows, edges, and the place of a row behind those that are left out."""
    if memory == "small":
        request.getfixturevalue("small_memory")
    rng, count = np.random.default_rng(0), 20_000
    keys, to = rng.integers(0, 6_000, count), rng.integers(0, 100, count)
    (tmp_path / "a").mkdir()
    for number, (begin, end) in enumerate(((0, 13_000), (13_000, 13_100), (13_100, count))):
        table = pa.table({
            "id": [f"k{key}" for key in keys[begin:end]],
            "v": np.arange(begin, end, dtype=np.float32), "b": to[begin:end],
        })  # fmt: skip
        pq.write_table(table, tmp_path / "a" / f"{number}.parquet", row_group_size=4000)
    node = NodeTable("a", "id", features=["v"], foreign={"b": "b"}, duplicates=kept)
    schema = TableSchema({"a": node, "b": NodeTable({"id": np.arange(100)}, "id")}, folder=tmp_path)
    result = tables(schema, tmp_path / "g.aeg", memory_budget="4G")
    rows: dict[int, int] = {}
    for row in range(count):
        if kept == "last" or keys[row] not in rows:
            rows[int(keys[row])] = row
    expected = np.sort(list(rows.values()))
    graph = HeteroGraph.load(tmp_path / "g.aeg")
    assert graph["a"].features.gather(np.arange(len(rows)))[:, 0].tolist() == expected.tolist()
    src, dst = graph["a", "b", "b"].edge_list()[:2]
    assert dst[np.argsort(src)].tolist() == to[expected].tolist()
    assert graph.ids["a"].lookup([f"k{keys[expected[5]]}"]).tolist() == [5]
    assert f"a: {count - len(rows):,} rows left out, whose key another row has" in result.notes[0]
    short = NodeTable({"id": np.arange(100)[np.arange(100) != to[expected[-1]]]}, "id")
    schema = TableSchema({"a": node, "b": short}, folder=tmp_path)
    lost = expected[to[expected] == to[expected[-1]]][0]
    file, first = max(one for one in ((0, 0), (1, 13_000), (2, 13_100)) if one[1] <= lost)
    with pytest.raises(InputError, match=rf"{file}\.parquet, row {lost - first + 1}: .*no 'b'"):
        tables(schema, tmp_path / "h.aeg")
    with pytest.raises(InvalidArgumentError, match="duplicates is about keys, but there is no key"):
        TableSchema({"a": NodeTable("a", foreign={"b": "b"}, duplicates=kept), "b": short})
