"""Integers of 64 bits keep their value or are refused, whatever stands beside them in a list.

numpy makes floats of lists with integers below 0 or below 2^63 beside one of 2^63 or more.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aethergraph import (
    DynamicGraph,
    FeatureTable,
    Graph,
    HeteroGraph,
    NeighborSampler,
    RandomWalker,
    errors,
)
from aethergraph._checks.exact import array_of
from aethergraph.convert import NodeTable, TableSchema, convert, tables
from aethergraph.ids import IdMap
from aethergraph.streaming import FileSource, Ingestor, MemorySource, Schema

#: The first is no float64; the last two make float64 of lists that they are in.
LARGE = [2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1]


@pytest.mark.parametrize("values", [LARGE, [-1, *LARGE], [[2**53 + 1, 2**63], [0, 1]], [], [-1]])
def test_lists_of_integers_become_no_floats(values: list[Any]) -> None:
    array = array_of(values)
    assert array.tolist() == values
    assert not len(values) or array.dtype.kind in "iuO"


@pytest.mark.parametrize("values", [[-1, 2**53 + 1], [0, 1], [2**63], [-1, 2**64 - 1]])
def test_scalars_of_two_types_become_no_floats(values: list[int]) -> None:
    array = array_of([np.int64(v) if v < 2**53 else np.uint64(v) for v in values])
    assert array.tolist() == values and array.dtype.kind in "iuO"


def test_floats_stay_floats() -> None:
    for values in ([1.5, 2**63], [np.nan, 2.0**63], [2.0**63, 1], [True, 2.0**64]):
        assert array_of(values).dtype == np.float64
    assert array_of((np.float32(1.5), np.float32(2))).dtype == np.float32


def live() -> DynamicGraph:
    return DynamicGraph(4, 8, order="time", edge_time="int64", huge_pages=False)


def graph() -> Graph:
    return Graph.from_edges(4, [0, 1], [1, 2], layout="both")


#: Uses of ids and times that are int64, each with integers of the user.
SIGNED: dict[str, Callable[[list[int]], Any]] = {
    "seeds": lambda values: NeighborSampler(graph(), [2]).sample(values),
    "ends": lambda values: Graph.from_edges(4, values, [0] * len(values)),
    "edge times": lambda values: Graph.from_edges(
        4, [0] * len(values), [1] * len(values), edge_time=values
    ),
    "starts": lambda values: RandomWalker(graph()).walk(values, 2),
    "rows": lambda values: FeatureTable.from_array(np.eye(4)).gather(values),
    "live ends": lambda values: live().insert_edges(
        values, [0] * len(values), time=[0] * len(values)
    ),
    "live times": lambda values: live().insert_edges(
        [0] * len(values), [1] * len(values), time=values
    ),
    "keys": lambda values: IdMap.build("unused", [values], "int64"),
}


@pytest.mark.parametrize("use", SIGNED)
@pytest.mark.parametrize("values", [[2**53 + 1, 2**63], [-1, 2**63], [2**64 - 1, 2**53 + 1, -1]])
def test_what_int64_does_not_hold_is_named(
    use: str, values: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    at = next(at for at, value in enumerate(values) if value >= 2**63)
    with pytest.raises(errors.AetherError, match=rf"\b{values[at]}\b") as refused:
        SIGNED[use](values)
    assert getattr(refused.value, "position", at) == at


def test_keys_and_times_are_exact(tmp_path: Path) -> None:
    found = IdMap.build(tmp_path / "keys", [LARGE], "uint64")
    assert found.keys([0, 1, 2, 3]).tolist() == LARGE
    assert found.lookup(LARGE[::-1]).tolist() == [3, 2, 1, 0]
    assert found.lookup([-1, *LARGE], missing="mark").tolist() == [-1, 0, 1, 2, 3]
    signed = IdMap.build(tmp_path / "signed", [[-1, 2**53 + 1, 2**63 - 1]], "int64")
    asked = [2**63, -1, 2**64 - 1, 2**53, 2**53 + 1]
    assert signed.lookup(asked, missing="mark").tolist() == [-1, 0, -1, -1, 1]
    times = [-1, 2**53 + 1, 2**63 - 1]
    timed = Graph.from_edges(4, [0] * 3, [1, 2, 3], edge_time=times)
    assert timed.edge_time is not None
    assert sorted(np.asarray(timed.edge_time).tolist()) == times


@pytest.mark.parametrize("null", [None, float("nan")])
def test_a_missing_value_beside_them_is_no_other_number(tmp_path: Path, null: Any) -> None:
    for kind in ("int64", "uint64"):
        with pytest.raises(errors.InvalidArgumentError, match="key 1 is missing"):
            IdMap.build(tmp_path / kind, [[2**53 + 1, null]], kind)
    with pytest.raises(errors.InvalidArgumentError):
        Graph.from_edges(4, [2**53 + 1, null], [0, 1])
    with pytest.raises(errors.InvalidArgumentError):
        Graph.from_edges(4, [0, 1], [1, 2], edge_time=[2**53 + 1, null])


# ---- tables, files and streams -------------------------------------------------------------------


def in_arrow(values: list[Any], kind: str) -> Any:
    pa = pytest.importorskip("pyarrow")
    return pa.table({"id": pa.array(values, getattr(pa, kind)())})


def in_parquet(folder: Path, values: list[Any], kind: str) -> Path:
    table = in_arrow(values, kind)
    from pyarrow import parquet

    parquet.write_table(table, folder / "a.parquet")
    return folder / "a.parquet"


def in_pandas(values: list[Any], kind: str) -> Any:
    pd = pytest.importorskip("pandas")
    return pd.DataFrame({"id": pd.Series(values, dtype=kind)})


def in_sqlite(folder: Path, values: list[Any]) -> dict[str, str]:
    (folder / "a.db").unlink(missing_ok=True)
    connection = sqlite3.connect(folder / "a.db")
    connection.execute("CREATE TABLE a (id)")
    connection.executemany("INSERT INTO a VALUES (?)", [(value,) for value in values])
    connection.commit()
    connection.close()
    return {"sqlite": str(folder / "a.db"), "table": "a"}


def in_csv(folder: Path, values: list[Any]) -> Path:
    lines = ["id,name", *(f"{'' if value is None else value},x" for value in values)]
    (folder / "a.csv").write_text("\n".join(lines) + "\n")
    return folder / "a.csv"


SIGNS, NO_SIGN = [2**53 + 1, 2**63 - 1, -1, 2**53], [2**63, 2**53 + 1, 2**64 - 1, 2**53]
#: Tables with a column of integers, which keys are and foreign keys are, and whose values it has.
TABLES: dict[str, tuple[list[int], Callable[[Path, list[Any]], Any]]] = {
    "list": (SIGNS, lambda _, values: {"id": values}),
    "list without a sign": (NO_SIGN, lambda _, values: {"id": values}),
    "objects": (NO_SIGN, lambda _, values: {"id": np.array(values, object)}),
    "pandas Int64": (SIGNS, lambda _, values: in_pandas(values, "Int64")),
    "pandas objects": (NO_SIGN, lambda _, values: in_pandas(values, "object")),
    "Arrow int64": (SIGNS, lambda _, values: in_arrow(values, "int64")),
    "Arrow uint64": (NO_SIGN, lambda _, values: in_arrow(values, "uint64")),
    "Parquet int64": (SIGNS, lambda folder, values: in_parquet(folder, values, "int64")),
    "Parquet uint64": (NO_SIGN, lambda folder, values: in_parquet(folder, values, "uint64")),
    "SQLite": (SIGNS, in_sqlite),
    "CSV": (SIGNS, in_csv),
    "CSV without a sign": (NO_SIGN, in_csv),
}


@pytest.mark.parametrize("source", TABLES)
def test_tables_keep_keys(tmp_path: Path, source: str) -> None:
    pytest.importorskip("pyarrow")
    values, make = TABLES[source]
    keys = NodeTable(make(tmp_path, values), key="id")
    tables(
        TableSchema({"a": keys, "b": NodeTable({"a": values}, foreign={"a": "a"})}), tmp_path / "g"
    )
    graph = HeteroGraph.load(tmp_path / "g")
    assert [int(key) for key in graph.ids["a"].keys(range(4))] == values
    named: dict[str, Any] = {"b": {"id": [*values, None]}, "a": {"id": values}}
    named["b"] = make(tmp_path, named["b"]["id"])
    schema = {"a": NodeTable(named["a"], key="id"), "b": NodeTable(named["b"], foreign={"id": "a"})}
    tables(TableSchema(schema), tmp_path / "h")
    src, dst, _ = HeteroGraph.load(tmp_path / "h")["b", "id", "a"].edge_list()
    assert (src.tolist(), dst.tolist()) == ([0, 1, 2, 3], [0, 1, 2, 3])


@pytest.mark.parametrize(
    "values, row, problem",
    [
        ([1, -1, 2**63], 3, "9223372036854775808 does not fit in int64"),
        ([1, 2**63, 2**64, None], 3, "18446744073709551616 does not fit in uint64"),
        ([1.5, 2**53, 2**53 + 1], 3, "float64 would make 9007199254740992 of 9007199254740993"),
        ([2**63, 1.5], 1, "9223372036854775808 does not fit in int64"),
    ],
)
def test_tables_name_integers_that_no_type_holds(
    tmp_path: Path, values: list[Any], row: int, problem: str
) -> None:
    pytest.importorskip("pyarrow")
    sources: list[Any] = [{"id": values}, {"id": np.array(values, object)}]
    sources.append(in_pandas(values, "object"))
    if 2**53 + 1 in values:
        sources.append(in_sqlite(tmp_path, values))
    for source in sources:
        other = NodeTable({"b": [1]}, foreign={"b": "b"})
        nodes = {"a": NodeTable(source, columns="id"), "b": NodeTable({"b": [1]}, key="b")}
        with pytest.raises(errors.AetherError, match=f"row {row}: column 'id': {problem}"):
            tables(TableSchema({**nodes, "c": other}), tmp_path / "g")


def build_csv(folder: Path, values: list[Any], **options: Any) -> HeteroGraph:
    """Return a graph whose nodes ``a`` are the rows of a file with one column of values."""
    nodes = {"a": NodeTable(in_csv(folder, values), **options), "b": NodeTable({"b": [1]}, key="b")}
    other = NodeTable({"b": [1]}, foreign={"b": "b"})
    tables(TableSchema({**nodes, "c": other}), folder / "g", force=True)
    return HeteroGraph.load(folder / "g")


def test_columns_of_text_files_keep_integers(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    for values, dtype in ((SIGNS, "int64"), (NO_SIGN, "uint64"), ([2**64, -1], None)):
        column = build_csv(tmp_path, values, columns="id").columns["a"]
        found = column.gather(range(len(values)))["id"]
        if dtype is None:  # digits beyond 64 bits are names
            assert found.to_list() == [str(value) for value in values]
        else:
            assert (found.dtype, found.tolist()) == (dtype, values)
    graph = build_csv(tmp_path, SIGNS, label="id", time="id")
    assert graph["a"].attrs["y"].gather(range(4)).tolist() == SIGNS
    assert np.asarray(graph["a"].node_time).tolist() == SIGNS


@pytest.mark.parametrize(
    "values, options, problem",
    [
        (
            [-1, 1, 2**63],
            {"key": "id"},
            r"row 3: .* 9223372036854775808 .* key_type = \"str\" keeps",
        ),
        ([2**63, -1], {"columns": "id"}, 'row 1: .* others are below 0: .* kind "text" keeps'),
        ([2**63, -1], {"features": "id"}, "row 1: column 'id': 9223372036854775808 is 2.*63 or"),
        (
            [1, 2**63],
            {"label": "id"},
            "row 2: the label '9223372036854775808' does not fit in int64",
        ),
        (
            [0.5, 2**53 + 1],
            {"columns": "id"},
            "row 2: column 'id': float64 would make 9007199254740992 of 9007199254740993",
        ),
        (
            [1, 2**53 + 1],
            {"features": "id"},
            "row 2: column 'id': float64 would make 9007199254740992 of the feature",
        ),
        (
            [0.5, "-9007199254740993.0"],
            {"label": "id"},
            "row 2: column 'id': float64 would make -9007199254740992 of the label",
        ),
    ],
)
def test_text_files_name_integers_that_no_type_holds(
    tmp_path: Path, values: list[Any], options: dict[str, Any], problem: str
) -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(errors.AetherError, match=problem):
        build_csv(tmp_path, values, **options)


def test_keys_of_two_signs_are_kept_as_they_are_written(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    values = [-1, 2**63 + 1]
    graph = build_csv(tmp_path, values, key="id", key_type="str")
    assert graph.ids["a"].keys([0, 1]) == ["-1", "9223372036854775809"]


def test_a_float_that_may_have_been_another_integer_is_no_key(tmp_path: Path) -> None:
    keys = NodeTable({"id": [2**53, 2**53 + 1]}, key="id")
    frame = in_pandas([2**53 + 1, None], "float64")  # as pandas makes of it: 2**53
    with pytest.raises(errors.AetherError, match=r"row 1: column 'id': the key 9007199254740992"):
        tables(TableSchema({"a": keys, "b": NodeTable(frame, foreign={"id": "a"})}), tmp_path / "g")


def test_a_file_of_edges(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    for kind, keys in (("int64", SIGNS), ("uint64", NO_SIGN)):
        path = tmp_path / f"{kind}.csv"
        path.write_text("src,dst,at\n{},{},1\n{},{},-1\n".format(*keys))
        convert(path, tmp_path / kind, ids=kind)  # type: ignore[arg-type]
        assert [int(key) for key in Graph.load(tmp_path / kind).ids.keys(range(4))] == keys
        path.write_text(f"src,dst\n0,{keys[0]}\n{-(2**63) - 1},2\n")
        with pytest.raises(
            errors.AetherError, match=r"row 2.* '-9223372036854775809' does not fit"
        ):
            convert(path, tmp_path / kind, ids=kind, force=True)  # type: ignore[arg-type]
    path.write_text(f"src,dst,at\n0,1,{2**53 + 1}\n1,2,{2**63 - 1}\n2,3,-1\n")
    convert(path, tmp_path / "timed", time_column="at")
    times = Graph.load(tmp_path / "timed").edge_time
    assert times is not None
    assert sorted(np.asarray(times).tolist()) == [-1, 2**53 + 1, 2**63 - 1]


@pytest.mark.parametrize("form", ["json", "csv", "memory"])
@pytest.mark.parametrize("others", [[], [1.5], [None], [-1], [1e16], [2**64], [1.5] * 30])
@pytest.mark.parametrize("kind", ["int64", "uint64"])
def test_streams_keep_keys(tmp_path: Path, form: str, others: list[Any], kind: str) -> None:
    values = [*LARGE, *others, 2**53]
    source: Any = MemorySource("m")
    if form == "memory":
        source.append(src=values, dst=values)
        source.end()
    elif form == "json":
        lines = [json.dumps({"u": value, "v": value}) for value in values]
    else:
        lines = ["u,v", *(f"{value},{value}".replace("None", "") for value in values)]
    if form != "memory":
        (tmp_path / "s").write_text("\n".join(lines) + "\n")
        ends: dict[str, Any] = {"src": "u", "dst": "v", "ids": kind}
        schema = Schema.json(**ends) if form == "json" else Schema.csv(**ends)
        source = FileSource(tmp_path / "s", schema, follow=False)
    low, end = (-(2**63), 2**63) if kind == "int64" else (0, 2**64)
    wanted = [value for value in values if isinstance(value, int) and low <= value < end]
    graph = DynamicGraph.open(tmp_path / "g", ids=kind, arena_mb=4, max_nodes=100, huge_pages=False)
    Ingestor(graph, source, dead_letter=tmp_path / "bad", max_bad=100).run()
    assert [int(key) for key in graph.ids.keys(range(len(wanted)))] == wanted
    refused = (tmp_path / "bad").read_text() if len(wanted) < len(values) else ""
    assert len(refused.splitlines()) == len(values) - len(wanted)
    assert all(str(value) in refused for value in values if value not in (None, *wanted))
    graph.close()


@pytest.mark.parametrize("other", [[2**63], [1.5], [-1], [None]])
def test_rows_beside_a_row(tmp_path: Path, other: list[Any]) -> None:
    """What becomes of a record does not depend on those beside it."""
    graph = DynamicGraph(
        4, 8, order="time", edge_time="int64", huge_pages=False, edge_attrs={"a": ((1,), "int64")}
    )
    source = MemorySource("m")
    source.append(src=[0, 0], dst=[1, 2], time=[1, 2], attrs={"a": [[2**53 + 1], other]})
    source.end()
    Ingestor(graph, source, dead_letter=tmp_path / "bad").run()
    wanted = [2**53 + 1, -1] if other == [-1] else [2**53 + 1]
    rows = graph.to_graph().edge_attrs["a"].gather(range(graph.num_edges))
    assert rows.reshape(-1).tolist() == wanted


# ---- weights and attributes of live graphs -------------------------------------------------------

#: Whole numbers and fractions, and whether float32 holds them; fractions are rounded.
FLOATS: dict[int | float, bool] = {
    2**24: True, 2**24 + 1: False, 2.0**24 + 1: False, 2**53: True, 2**53 + 1: False,
    2**63: True, 2**63 + 1: False, 2**64 - 1: False, 0.1: True, 1e30: True, 0: True,
}  # fmt: skip


@pytest.mark.parametrize("value", FLOATS)
def test_live_weights_are_kept_or_refused(value: float) -> None:
    def kept(graph: DynamicGraph) -> list[float]:
        return [float(w) for w in graph.edge_values["edge_weight"].gather([0])]

    inserts: list[Callable[[DynamicGraph], Any]] = [
        lambda graph: graph.insert_edges([0], [1], weight=[value]),
        lambda graph: graph.insert_edge(0, 1, weight=value),
    ]
    for insert in inserts:
        graph = DynamicGraph(4, 8, edge_weight="float32", huge_pages=False)
        if FLOATS[value]:
            insert(graph)
            assert kept(graph) == [np.float32(value)]
        else:
            with pytest.raises(errors.InvalidArgumentError, match=r"would make .* of weight"):
                insert(graph)
            assert graph.num_edges == 0


@pytest.mark.parametrize("role", ["weight", "attrs"])
@pytest.mark.parametrize("form", ["json", "csv"])
@pytest.mark.parametrize("others", [[], [0.5], [3], [0.5] * 30])
def test_numbers_of_streams_are_kept_or_refused(
    tmp_path: Path, form: str, others: list[float], role: str
) -> None:
    fields: dict[str, Any] = {"weight": "w"} if role == "weight" else {"attrs": {"w": "w"}}
    options: dict[str, Any] = {"edge_weight": "float32"}
    if role == "attrs":
        options = {"edge_attrs": {"w": ((), "float32")}}
    for value, is_kept in FLOATS.items():
        values = [value, *others]
        if form == "json":
            schema = Schema.json(src="s", dst="d", **fields)
            lines = [json.dumps({"s": 0, "d": 1, "w": number}) for number in values]
        else:
            schema = Schema.csv(columns=["s", "d", "w"], src="s", dst="d", **fields)
            lines = [f"0,1,{number}" for number in values]
        (tmp_path / "lines").write_text("".join(f"{line}\n" for line in lines))
        graph = DynamicGraph(4, 8, order="time", huge_pages=False, **options)
        source = FileSource(tmp_path / "lines", schema, follow=False)
        ingestor = Ingestor(graph, source, max_bad=1, dead_letter=tmp_path / "bad")
        if is_kept or others:
            ingestor.run()
        else:
            with pytest.raises(errors.RecordError, match=str(int(value))):
                ingestor.run()
        stored = graph.edge_attrs["w"] if role == "attrs" else None
        stored = stored or graph.edge_values["edge_weight"]
        wanted = [np.float32(number) for number in (values if is_kept else others)]
        assert stored.gather(range(graph.num_edges)).tolist() == wanted, value
