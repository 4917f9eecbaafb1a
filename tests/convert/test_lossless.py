"""Nothing is converted with a silent loss: the order of rows, large integers, units, booleans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from aethergraph import FeatureTable, Graph
from aethergraph.convert import InputError, convert, read_edges
from aethergraph.convert.readers.nodes import read_labels
from aethergraph.errors import AetherError, InvalidArgumentError

NODES = 4


def frame(path: Path, columns: dict[str, Any], index: list[Any] | None = None) -> Path:
    """A table as pandas would write it, with what it says of its index."""
    table = pa.table(columns)
    if index is not None:
        text = json.dumps({"index_columns": index, "columns": [], "column_indexes": []})
        table = table.replace_schema_metadata({"pandas": text})
    pq.write_table(table, path, row_group_size=3)
    return path


def edges_file(folder: Path) -> Path:
    np.save(folder / "e.npy", np.array([[0, 1, 2, 3], [1, 2, 3, 0]]))
    return folder / "e.npy"


def features(path: Path, **options: Any) -> np.ndarray:
    folder = path.parent
    out = folder / "x-out.npy"
    convert(
        edges_file(folder), folder / "g.aeg", features=path, features_out=out, force=True, **options
    )
    return np.load(out)


INDEX = np.array([2, 0, 3, 1])
VALUES = np.array([2.5, 0.5, 3.5, 1.5], np.float32)


@pytest.mark.parametrize(
    ("name", "columns", "advised"),
    [
        ("nid", ["f"], "nid"),
        (None, ["f"], "index"),
        (None, ["index"], "node_index"),
        ("f", ["f"], "node_f"),
        ("7", ["f"], "index"),
    ],
)
def test_the_advice_about_a_moved_range_works(
    name: str | None, columns: list[str], advised: str, tmp_path: Path
) -> None:
    index = {"kind": "range", "name": name, "start": 3, "stop": -1, "step": -1}
    path = frame(tmp_path / "x.parquet", dict.fromkeys(columns, VALUES), [index])
    with pytest.raises(InputError) as caught:
        features(path)
    assert f"reset_index(names={advised!r})" in str(caught.value)
    assert f"--id-column {advised})" in str(caught.value)
    path = frame(  # as pandas writes it then
        tmp_path / "x.parquet",
        {advised: [3, 2, 1, 0], **dict.fromkeys(columns, VALUES)},
        [{**index, "name": None, "start": 0, "stop": 4, "step": 1}],
    )
    assert features(path, id_column=advised).tolist() == VALUES[::-1, None].tolist()


def test_the_index_in_csv(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    rows = [f"{i},{v}" for i, v in zip(INDEX, VALUES, strict=True)]
    for name, message in [("", r"column 1 \(0\)"), ("Unnamed: 0", r"column 1 \(Unnamed: 0\)")]:
        path.write_text("\n".join([f"{name},f", *rows]) + "\n")
        with pytest.raises(InputError, match=message):
            features(path)
        found = features(path, id_column=name or 0)
        assert found.tolist() == [[0.5], [1.5], [2.5], [3.5]]


def test_an_index_is_not_taken_for_ids_of_edges(tmp_path: Path) -> None:
    columns = {"__index_level_0__": INDEX, "a": [0, 1, 2, 3], "b": [1, 2, 3, 0]}
    path = frame(tmp_path / "e.parquet", columns, ["__index_level_0__"])
    table = read_edges(path)
    assert table.src.tolist() == [0, 1, 2, 3] and table.dst.tolist() == [1, 2, 3, 0]
    assert table.unused == ("__index_level_0__",)
    assert "edges go from column a to column b, the first two" in table.notes[0]


# ---- large integers ------------------------------------------------------------------------------

LARGE = [0, 1 << 24, (1 << 24) + 1, 5]
HUGE = [0, 1 << 53, (1 << 53) + 1, 5]


def write_column(path: Path, values: list[Any], **others: Any) -> Path:
    """Write values as column f of a table, or as an array."""
    columns = {**others, "f": values}
    if path.suffix == ".npy":
        np.save(path, np.array(values)[:, None])
    elif path.suffix == ".csv":
        rows = [",".join(map(repr, row)) for row in zip(*columns.values(), strict=True)]
        path.write_text("\n".join([",".join(columns), *rows]))
    else:
        pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npy"])
@pytest.mark.parametrize(
    ("dtype", "value", "problem", "wide"),
    [
        ("float16", 10001, "float16 would make 10000 of the feature 10001", "float32"),
        ("float16", 70000, "the feature 70000 is too large for float16", "float32"),
        ("bfloat16", 257, "bfloat16 would make 256 of the feature 257", "float32"),
        ("bfloat16", LARGE[2], "bfloat16 would make 16777216 of the feature 16777217", "float64"),
        ("float32", LARGE[2], "float32 would make 16777216 of the feature 16777217", "float64"),
        ("float64", HUGE[2], "float64 would make 9007199254740992 of the feature 90", None),
    ],
)
def test_integers_that_a_dtype_does_not_hold(
    suffix: str, dtype: str, value: int, problem: str, wide: str | None, tmp_path: Path
) -> None:
    """In memory and within a budget; the dtype that the message advises does hold them."""
    rows = [2, 128, value, 5]
    path = write_column(tmp_path / f"x.{suffix}", rows)
    out = tmp_path / "x-out.bin"
    for memory in (None, "4G"):
        options: dict[str, Any] = {"features": path, "features_out": out, "memory_budget": memory}
        advice = "" if wide is None else f": --dtype {wide}"
        with pytest.raises(InputError, match=rf"(line 4|row 3).*: {problem}.*{advice}"):
            convert(edges_file(tmp_path), tmp_path / "g.aeg", dtype=dtype, force=True, **options)
        assert not out.exists()
        if wide is not None:
            convert(edges_file(tmp_path), tmp_path / "g.aeg", dtype=wide, force=True, **options)
            assert FeatureTable.load(out)[:][:, -1].tolist() == rows
            out.unlink()


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npy"])
def test_half_floats_round_fractions_but_do_not_overflow(suffix: str, tmp_path: Path) -> None:
    fractions = [0.1, 10001.0, 3000.5, -65519.0]
    path = write_column(tmp_path / f"x.{suffix}", fractions)
    wanted = np.array(fractions, np.float32).astype(np.float16)
    assert features(path, dtype="float16").reshape(-1).tolist() == wanted.tolist()
    assert features(path, dtype="half").dtype == np.float16
    for value in (65520.0, -70000.5, 1e39):
        write_column(path, [0.1, float("inf"), float("nan"), value])
        with pytest.raises(InputError, match=r"(line 5|row 4).* is too large for float16: --dtype"):
            features(path, dtype="float16")


def test_large_integers_in_lists_are_named(tmp_path: Path) -> None:
    path = write_column(tmp_path / "x.parquet", [[v, 1] for v in LARGE], a=[0.5] * 4)
    message = r"row 3, column 2 \(f\): float32 would make 16777216 of the feature 16777217"
    with pytest.raises(InputError, match=message):
        features(path)
    assert features(path, feature_columns=["a"]).tolist() == [[0.5]] * 4


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_large_weights_and_attributes(suffix: str, tmp_path: Path) -> None:
    """They need a wider type; those beyond float64 are attributes of integers."""
    path = tmp_path / f"e.{suffix}"
    ends = {"src": [0, 1, 2, 3], "dst": [1, 2, 3, 0]}
    write_column(path, LARGE, **ends)
    with pytest.raises(InputError, match=r"16777217: --weight-type float64 .weight_type=. keeps"):
        read_edges(path, weight="f")
    found = read_edges(path, weight="f", weight_type="float64", attrs=["f"])
    assert found.weight is not None and found.weight.tolist() == LARGE
    assert found.attrs["f"].dtype == np.int64 and found.attrs["f"].tolist() == LARGE
    with pytest.raises(InputError, match="16777217: ask for NAME:float64"):
        read_edges(path, attrs=["f:float32"])
    write_column(path, HUGE, **ends)
    for weight_type in ("auto", "float32", "float64"):
        with pytest.raises(InputError, match="993: no weight does, but --attr NAME=COLUMN:int64"):
            read_edges(path, weight="f", weight_type=weight_type)  # type: ignore[arg-type]
    for dtype in ("float32", "float64"):
        with pytest.raises(InputError, match="993: ask for NAME:int64"):
            read_edges(path, attrs=[f"f:{dtype}"])
    assert read_edges(path, attrs=["kept=f:int64"]).attrs["kept"].tolist() == HUGE


def test_rounding_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": [0.1] * 4, "b": [0.5] * 4, "c": [[0.1, 1.0]] * 4}), path)
    result = convert(edges_file(tmp_path), tmp_path / "g.aeg", features=path)
    assert result.notes == [
        f"{path}: features are a, b, c",
        f"{path}: float64 rounded to float32 in a, c (--dtype float64 keeps it)",
    ]
    assert (
        np.load(tmp_path / "g.features.npy").tolist()
        == np.float32([[0.1, 0.5, 0.1, 1]] * 4).tolist()
    )


# ---- which columns -----------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [None, "4G"])
def test_columns_are_chosen(memory: str | None, tmp_path: Path) -> None:
    columns = {
        "name": ["a", "b", "c", "d"],
        "node": INDEX,
        "f": VALUES,
        "emb": pa.array([[v, v + 1] for v in VALUES.tolist()], pa.list_(pa.float32(), 2)),
        "flag": [True, False, True, False],
    }
    path = frame(tmp_path / "x.parquet", columns)
    with pytest.raises(InputError, match=r"column 1 \(name\): the feature is of type string"):
        features(path, id_column="node")
    chosen = {"id_column": "node", "memory_budget": memory}
    found = features(path, feature_columns=["flag", 3, "f"], **chosen)
    assert found.tolist() == [[0, 0.5, 1.5, 0.5], [0, 1.5, 2.5, 1.5], [1, 2.5, 3.5, 2.5],
                              [1, 3.5, 4.5, 3.5]]  # fmt: skip
    for wrong, message in [
        (["f", 2], "is chosen twice"), (["none"], "no column 'none' for the feature"),
        ([], "no feature columns"), (["f", "node"], "column of node ids is chosen as a feature"),
    ]:  # fmt: skip
        with pytest.raises(InputError, match=message):
            features(path, feature_columns=wrong, **chosen)
    with pytest.raises(InvalidArgumentError, match="columns can be chosen of text and Parquet"):
        features(edges_file(tmp_path), feature_columns=[0])
    with pytest.raises(InvalidArgumentError, match="columns of features were chosen, but no"):
        convert(edges_file(tmp_path), tmp_path / "h.aeg", feature_columns=[0])


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_attributes_of_booleans(suffix: str, tmp_path: Path) -> None:
    flags = [True, False, True, False]
    path = write_column(tmp_path / f"e.{suffix}", flags, src=[0, 1, 2, 3], dst=[1, 2, 3, 0])
    found = read_edges(path, attrs=["f", "n=f:int64"]).attrs
    assert found["f"].dtype == np.float32 and found["f"].tolist() == flags
    assert found["n"].dtype == np.int64 and found["n"].tolist() == flags


def test_a_boolean_column_holds_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("f\nTrue\n0\nfalse\n2\n")
    with pytest.raises(InputError, match=r"line 5, .*'2' is neither true nor false"):
        features(path)


# ---- times -------------------------------------------------------------------------------------

DATES = np.array(["2001-03-05", "1960-02-29", "2262-04-11", "1970-01-01"], "M8[D]")


def timed(path: Path, times: Any) -> Path:
    table = pa.table({"src": [0, 1, 2, 3], "dst": [1, 2, 3, 0], "t": times})
    pq.write_table(table, path) if path.suffix == ".parquet" else pacsv.write_csv(table, path)
    return path


@pytest.mark.parametrize("unit", ["D", "s", "ms", "us", "ns"])
def test_dates_keep_their_unit(unit: str, tmp_path: Path) -> None:
    times = DATES.astype(f"M8[{unit}]")
    path = timed(tmp_path / "e.csv", pa.array(times))
    convert(path, tmp_path / "g.aeg", time_column="t", time_unit=unit)
    graph = Graph.load(tmp_path / "g.aeg")
    assert graph.time_unit == unit and graph.edge_time is not None
    src, _ = graph.edge_index()
    assert (graph.edge_time.view(times.dtype) == times[src]).all()


def test_dates_need_a_unit(tmp_path: Path) -> None:
    path = timed(tmp_path / "e.csv", pa.array(DATES))
    with pytest.raises(InputError, match=r"line 2, .*'2001-03-05' is not a number; dates are read"):
        read_edges(path, time="t")
    with pytest.raises(InvalidArgumentError, match="time_unit = 'day' is no unit of time: D, h"):
        read_edges(path, time="t", time_unit="day")
    with pytest.raises(InvalidArgumentError, match="it goes with a column of times"):
        read_edges(path, time_unit="D")
    with pytest.raises(InputError, match="dates are read in D, s, ms, us, ns, not in 'h'"):
        read_edges(path, time="t", time_unit="h")
    path.write_text("0,1,2001-03-05\n1,2,2001-03-05 10:00:00\n")
    with pytest.raises(InputError, match=r"line 2, .*10:00:00' is not a date in 'D', such as"):
        read_edges(path, time=2, time_unit="D")
    path.write_text("0,1,2001-03-05T10:00:00Z\n1,2,2001-03-05T10:00:00+02:00\n")
    found = read_edges(path, time=2, time_unit="s").time
    assert found is not None and (found[0] - found[1]) == np.timedelta64(7200, "s")
    assert found[0] == np.datetime64("2001-03-05T10:00:00")


@pytest.mark.parametrize(
    "date", ["9999-12-31", "0001-01-01", "2300-01-01T00:00:00", "1677-09-20", "2262-04-12T00:00:00"]
)
@pytest.mark.parametrize("zone", ["", "Z"])
def test_dates_beyond_nanoseconds_are_refused(date: str, zone: str, tmp_path: Path) -> None:
    """They became others, centuries away, with older versions of pyarrow, such as 17."""
    path = tmp_path / "e.csv"
    zoned = zone if "T" in date else "T00:00:00" + zone if zone else ""
    path.write_text(f"src,dst,t\n0,1,2020-01-01T00:00:00{zone}\n1,2,{date}{zoned}\n")
    with pytest.raises(InputError, match=r"line 3, column 3 .t.: .* does not fit in 'ns', 1677-09"):
        read_edges(path, time="t", time_unit="ns")
    found = read_edges(path, time="t", time_unit="us").time
    assert found is not None and found[1] == np.datetime64(date)


def test_a_date_of_another_one_is_found() -> None:
    from aethergraph.convert.readers.text_values import overflows

    texts = pa.array(["2020-01-01T00:30:00+02:00", "9999-12-31"])
    kept = np.array(["2019-12-31T22:30", "2019-01-01"], "M8[ns]")
    assert not overflows(kept[:1], texts[:1])
    assert overflows(np.array([kept[0], np.datetime64("1816-03-29")], "M8[ns]"), texts)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_integers_may_count_a_unit(suffix: str, tmp_path: Path) -> None:
    path = timed(tmp_path / f"e.{suffix}", [5, 6, 7, 8])
    found = read_edges(path, time="t", time_unit="s").time
    assert found is not None and found.dtype == "M8[s]"
    assert found.view("i8").tolist() == [5, 6, 7, 8]
    path = timed(tmp_path / f"e.{suffix}", [5, -(2**63), 7, 8])
    with pytest.raises(InputError, match=r"(line 3|row 2), .*is no time \(NaT\)"):
        read_edges(path, time="t", time_unit="s")


def test_a_finer_time_is_refused(tmp_path: Path) -> None:
    times = pa.array([0, 1_000_000, 1_500_000, 0], pa.timestamp("us"))
    path = timed(tmp_path / "e.parquet", times)
    with pytest.raises(InputError, match=r"row 3, .*the time 1500000 us cannot be given in 's'"):
        read_edges(path, time="t", time_unit="s")


def test_files_of_two_units(tmp_path: Path) -> None:
    first = timed(tmp_path / "a.parquet", pa.array([1, 2, 3, 4], pa.timestamp("ms")))
    second = timed(tmp_path / "b.parquet", pa.array([5000, 6000, 7000, 8000], pa.timestamp("us")))
    found = read_edges([first, second], time="t").time
    assert found is not None and found.dtype == "M8[ms]"
    assert found.view(np.int64).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    plain = timed(tmp_path / "c.parquet", [1, 2, 3, 4])
    with pytest.raises(InputError, match=r"c\.parquet.* int64, but those of the file before are"):
        read_edges([first, plain], time="t")
    with pytest.raises(InputError, match=r"ms., but those of the file before are plain numbers"):
        read_edges([plain, first], time="t")
    text = timed(tmp_path / "d.csv", [1, 2, 3, 4])
    with pytest.raises(InputError, match="times are plain numbers, but those of the file before"):
        read_edges([first, text], time="t")
    found = read_edges([first, text, plain], time="t", time_unit="ms").time
    assert found is not None and found.view(np.int64).tolist() == [1, 2, 3, 4] * 3


def test_a_time_zone_is_said(tmp_path: Path) -> None:
    times = pa.array([0, 1, 2, 3], pa.timestamp("us", "Europe/Berlin"))
    found = read_edges(timed(tmp_path / "e.parquet", times), time="t")
    assert found.time is not None and found.time.view(np.int64).tolist() == [0, 1, 2, 3]
    assert found.notes == (
        "times of column t are kept in UTC; their time zone, Europe/Berlin, is not",
    )


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_empty_line_in_one_column_is_a_missing_value(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aethergraph.convert.readers import text_blocks

    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 8)
    path = tmp_path / "y.csv"
    lines = ["4", "5", "6", "", "# no label", "7", "8", "9"]
    for place in range(3, 9):
        rest = [line for line in lines if line]
        text = [*rest[: place - 1], "", *rest[place - 1 :]]
        path.write_bytes(end.join([*text, ""]).encode())
        if place == 8:  # nothing comes behind it
            assert read_labels(path).tolist() == [4, 5, 6, 7, 8, 9]
            continue
        with pytest.raises(InputError, match=rf"line {place}, .*is missing \(an empty line\)"):
            read_labels(path)


def test_quoted_names_of_one_column(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('"my f"\n"1"\n2.5\n3\n4\n')
    assert features(path, feature_columns=["my f"]).tolist() == [[1], [2.5], [3], [4]]


@pytest.mark.parametrize("memory", [None, "4G"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_that_a_narrower_type_would_change(
    order: Any, memory: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "x.npy"
    rows = np.array([[0, 1], [2, 3], [4, (1 << 24) + 1], [5, 6]], order=order)
    np.save(path, rows)
    with pytest.raises(InputError, match=r"x\.npy, row 3: float32 would make 16777216 of the feat"):
        features(path, dtype="float32", memory_budget=memory)
    assert features(path, dtype="float64", memory_budget=memory).tolist() == rows.tolist()
    np.save(path, np.array([[0.1], [1e39], [0], [0]], order=order))
    with pytest.raises(InputError, match=r"row 2: the feature 1e\+39 is too large for float32"):
        features(path, dtype="float32", memory_budget=memory)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_unit": 3, "time_column": "t"}, "time_unit = 3 is no unit of time"),
        ({"weight_type": "int64", "weight": "t"}, "weight_type = 'int64' is not one of auto, fl"),
        ({"time_type": 7, "time_column": "t"}, "time_type = 7 is not one of auto, int64, float64"),
        ({"src": 1.5, "dst": 0}, "src must be the name or number of a column, got float"),
        ({"src": "\u00b2", "dst": 0}, "there is no column '\u00b2' for the source id"),
        ({"feature_columns": 3}, "feature_columns must be a sequence of columns, got int"),
        ({"feature_columns": [1.5]}, "a column is chosen by name or number, not by 1.5"),
        ({"feature_columns": [True]}, "a column is chosen by name or number, not by True"),
        ({"feature_columns": ["\u00b2"]}, "there is no column '\u00b2' for the feature"),
    ],
)
def test_options_of_other_types(options: Any, message: str, tmp_path: Path) -> None:
    path = timed(tmp_path / "e.csv", [1, 2, 3, 4])
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3,4\n5,6\n7,8\n")
    with pytest.raises(AetherError) as caught:
        convert(path, tmp_path / "g.aeg", features=tmp_path / "x.csv", **options)
    assert message in str(caught.value)
