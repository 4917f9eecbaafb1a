"""Every dtype, null, unit, index and order of rows comes through unchanged, or is refused by name.

The table says which types each role takes. All other cells must be refused, with an error that
names the file and the column, and the row where it is a value that is wrong.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import examples

from aethergraph import FeatureTable, Graph
from aethergraph.convert import InputError, convert
from aethergraph.errors import AetherError

SIZE = 5
#: Row i holds number NUMBERS[i]: node ids in an order of their own, each once.
NUMBERS = [3, 0, 4, 1, 2]
MISSING = 2  # the row that is null where one is
EPOCH = dt.datetime(1970, 1, 1)


def plain(kind: Any) -> Callable[[list[int]], list[Any]]:
    return lambda numbers: [kind(n) for n in numbers]


def days(numbers: list[int]) -> list[Any]:
    return [EPOCH.date() + dt.timedelta(n) for n in numbers]


def seconds(numbers: list[int]) -> list[Any]:
    return [EPOCH + dt.timedelta(seconds=n) for n in numbers]


def pairs(numbers: list[int]) -> list[Any]:
    return [[n, n + 1] for n in numbers]


INTEGERS = {
    name: (getattr(pa, name)(), plain(int))
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}
#: Parquet keeps dictionaries of strings only.
INTEGERS["dictionary<int64>"] = (pa.dictionary(pa.int8(), pa.int64()), plain(int))
FLOATS = {name: (getattr(pa, name)(), plain(float)) for name in ("float32", "float64")}
HALF = {"float16": (pa.float16(), plain(np.float16))}
BOOLEANS = {"bool": (pa.bool_(), lambda numbers: [n % 2 == 1 for n in numbers])}
INSTANTS = {
    **{f"timestamp[{unit}]": (pa.timestamp(unit), seconds) for unit in ("s", "ms", "us", "ns")},
    "timestamp[us, UTC]": (pa.timestamp("us", "UTC"), seconds),
    "timestamp[ns, zone]": (pa.timestamp("ns", "Europe/Berlin"), seconds),
    "date32": (pa.date32(), days),
    "date64": (pa.date64(), days),
}
LISTS = {
    "list<int64>": (pa.list_(pa.int64()), pairs),
    "list<float32>": (pa.list_(pa.float32()), pairs),
    "large_list<float64>": (pa.large_list(pa.float64()), pairs),
    "fixed_size_list<float32>": (pa.list_(pa.float32(), 2), pairs),
    "fixed_size_list<int8>": (pa.list_(pa.int8(), 2), pairs),
    "list<bool>": (pa.list_(pa.bool_()), lambda numbers: [[n > 1, True] for n in numbers]),
}
REFUSED = {
    "null": (pa.null(), lambda numbers: [None for _ in numbers]),
    "string": (pa.string(), plain(str)),
    "large_string": (pa.large_string(), plain(str)),
    "binary": (pa.binary(), lambda numbers: [str(n).encode() for n in numbers]),
    "binary[1]": (pa.binary(1), lambda numbers: [str(n).encode() for n in numbers]),
    "decimal128": (pa.decimal128(9, 2), plain(decimal.Decimal)),
    "decimal256": (pa.decimal256(40, 0), plain(decimal.Decimal)),
    "duration": (pa.duration("us"), lambda numbers: [dt.timedelta(n) for n in numbers]),
    "time32": (pa.time32("ms"), lambda numbers: [dt.time(n) for n in numbers]),
    "time64": (pa.time64("us"), lambda numbers: [dt.time(n) for n in numbers]),
    "dictionary<string>": (pa.dictionary(pa.int32(), pa.string()), plain(str)),
    "struct": (pa.struct([("a", pa.int64())]), lambda numbers: [{"a": n} for n in numbers]),
    "map": (pa.map_(pa.string(), pa.int64()), lambda numbers: [[("a", n)] for n in numbers]),
    "list<string>": (pa.list_(pa.string()), lambda numbers: [[str(n)] for n in numbers]),
    "list<timestamp>": (pa.list_(pa.timestamp("s")), lambda numbers: [[n] for n in numbers]),
    "list<list>": (pa.list_(pa.list_(pa.int64())), lambda numbers: [[[n]] for n in numbers]),
}
TYPES: dict[str, tuple[pa.DataType, Callable[[list[int]], list[Any]]]] = {
    **INTEGERS, **FLOATS, **HALF, **BOOLEANS, **INSTANTS, **LISTS, **REFUSED,
}  # fmt: skip
VALUES = {**INTEGERS, **FLOATS, **HALF, **BOOLEANS}
TAKEN: dict[str, set[str]] = {
    "src": set(INTEGERS),
    "dst": set(INTEGERS),
    "weight": set(VALUES),
    "time": {*INTEGERS, *FLOATS, *HALF, *INSTANTS},
    "edge feature": {*VALUES, *LISTS},
    "node feature": {*VALUES, *LISTS},
    "label": {*INTEGERS, *BOOLEANS},
}
BUDGETS = [None, "4G"]


def column(name: str, numbers: list[int], null: int | None = None) -> pa.Array:
    kind, make = TYPES[name]
    values = make(numbers)
    if null is not None:
        values[null] = None
    if kind == pa.float16():
        return pa.array(values, kind)
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, kind)


def oracle(array: pa.Array) -> np.ndarray:
    """The numbers of a column, by way of Python objects alone."""
    if pa.types.is_temporal(array.type):
        counts = array.cast(pa.int32()) if pa.types.is_date32(array.type) else array
        return np.array(counts.cast(pa.int64()).to_pylist(), np.int64)
    return np.array([[float(x) for x in row] if isinstance(row, list) else float(row)
                     for row in array.to_pylist()])  # fmt: skip


def written(array: pa.Array) -> pa.Array:
    """The column as Parquet gives it back: it has no seconds, and date64 is date32 in it."""
    kind = array.type
    if pa.types.is_timestamp(kind) and kind.unit == "s":
        return array.cast(pa.timestamp("ms", kind.tz))
    return array.cast(pa.date32()) if pa.types.is_date64(kind) else array


class Case:
    """One table that is converted; what comes out is put in the order of its rows."""

    def __init__(
        self, folder: Path, role: str, budget: str | None, suffix: str = "parquet"
    ) -> None:
        self.folder, self.role, self.budget = folder, role, budget
        self.path = folder / f"table.{suffix}"

    def write(self, array: pa.Array, metadata: Any = None, **others: Any) -> None:
        columns: dict[str, Any] = {}
        if self.role not in ("node feature", "label"):
            columns = {"src": pa.array(NUMBERS), "dst": pa.array(NUMBERS[::-1])}
        columns[self.name] = array
        table = pa.table({**columns, **others})
        if metadata is not None:
            table = table.replace_schema_metadata({"pandas": json.dumps(metadata)})
        if self.path.suffix == ".parquet":
            pq.write_table(table, self.path, row_group_size=2)
        else:
            pacsv.write_csv(table, self.path)

    @property
    def name(self) -> str:
        return self.role if self.role in ("src", "dst") else "c"

    def convert(self, **options: Any) -> np.ndarray:
        """The values by row of the table (of node tables with ids: by node)."""
        nodes = self.role in ("node feature", "label")
        edges = self.path
        if nodes:
            edges = self.folder / "edges.npy"
            np.save(edges, np.array([NUMBERS, NUMBERS[::-1]]))
            options["features" if self.role == "node feature" else "labels"] = self.path
        elif self.role in ("weight", "time"):
            options["weight" if self.role == "weight" else "time_column"] = "c"
        elif self.role == "edge feature":
            options["attrs"] = ["c"]
        out = self.folder / "g.aeg"
        convert(edges, out, keep_order=True, memory_budget=self.budget, force=True, **options)
        if nodes:
            name = "features" if self.role == "node feature" else "labels"
            rows = np.load(self.folder / f"g.{name}.npy")
            return rows[:, 0] if rows.ndim == 2 and rows.shape[1] == 1 else rows
        graph = Graph.load(out)
        self.unit = graph.time_unit
        src, dst = graph.edge_index()
        by_edge = {
            "src": src, "dst": dst, "weight": graph.edge_weight, "time": graph.edge_time,
            "edge feature": graph.edge_attrs["c"].array if "c" in graph.edge_attrs else None,
        }[self.role]  # fmt: skip
        assert by_edge is not None and graph.edge_order is not None
        rows = np.empty_like(by_edge)
        rows[graph.edge_order] = by_edge
        return rows

    def refused(self, row: int | None, **options: Any) -> str:
        """The refusal, which names the file, the column, and the row if one is at fault."""
        with pytest.raises(AetherError) as caught:
            self.convert(**options)
        text = str(caught.value)
        assert str(self.path) in text and f"({self.name})" in text, text
        if row is not None:
            line = f"row {row + 1}," if self.path.suffix == ".parquet" else f"line {row + 2},"
            assert line in text, text
        return text


# ---- Parquet -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("role", TAKEN)
def test_every_type_in_every_role(role: str, name: str, tmp_path: Path) -> None:
    array = column(name, NUMBERS)
    for budget in BUDGETS:
        case = Case(tmp_path, role, budget)
        case.write(array)
        if name not in TAKEN[role]:
            assert "is of type" in case.refused(None)
            continue
        found = case.convert()
        expected = oracle(written(array))
        assert found.shape == expected.shape
        assert (found.astype(np.float64) == expected).all()
        if role == "edge feature" and name == "list<int64>":
            assert found.dtype == np.int64
        if role == "time":
            kind = written(array).type
            unit = "D" if pa.types.is_date32(kind) else getattr(kind, "unit", None)
            assert case.unit == unit
            assert found.dtype == (np.float64 if name.startswith("float") else np.int64)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("role", TAKEN)
def test_a_null_of_every_type_in_every_role(role: str, name: str, tmp_path: Path) -> None:
    for budget in BUDGETS:
        case = Case(tmp_path, role, budget)
        case.write(column(name, NUMBERS, null=MISSING))
        taken = name in TAKEN[role]
        message = case.refused(MISSING if taken else None)
        assert ("missing (null)" if taken else "is of type") in message


@pytest.mark.parametrize("name", LISTS)
def test_a_null_or_an_odd_length_within_a_list(name: str, tmp_path: Path) -> None:
    kind, make = LISTS[name]
    for role in ("node feature", "edge feature"):
        for wrong in ([None, None], [None, 1], [1], [1, 1, 1], []):
            lists = make(NUMBERS)
            lists[MISSING] = wrong
            if pa.types.is_fixed_size_list(kind) and len(wrong) != 2:
                continue
            case = Case(tmp_path, role, None)
            if pa.types.is_boolean(kind.value_type):
                lists[MISSING] = [None if x is None else True for x in wrong]
            case.write(pa.array(lists, kind))
            message = case.refused(MISSING)
            advice = f"has {len(wrong)} values where the first row has 2"
            assert ("missing (null)" if None in wrong else advice) in message


def ranged(start: int, step: int) -> dict[str, Any]:
    index = {"kind": "range", "name": None, "start": start, "stop": start + SIZE * step}
    return {"index_columns": [{**index, "step": step}]}


ORDERS = {"ascending": list(range(SIZE)), "shuffled": NUMBERS}
#: What pandas says of its index, and the column that holds it: (metadata, name, in order).
INDEXES: dict[str, tuple[Any, str | None]] = {
    "none": (None, None),
    "range": (ranged(0, 1), None),
    "range from 7": (ranged(7, 1), None),
    "range backwards": (ranged(SIZE - 1, -1), None),
    "unnamed": ({"index_columns": ["__index_level_0__"]}, "__index_level_0__"),
    "named": ({"index_columns": ["paper"]}, "paper"),
    "unnamed, said by nobody": (None, "__index_level_0__"),
    "id": (None, "id"),
}


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize(
    ("role", "name"),
    [("node feature", "float32"), ("node feature", "list<int64>"), ("label", "int64")],
)
def test_every_index_and_order_of_rows(
    role: str, name: str, index: str, order: str, budget: str | None, tmp_path: Path
) -> None:
    numbers, (metadata, index_name) = ORDERS[order], INDEXES[index]
    array = column(name, numbers)
    case = Case(tmp_path, role, budget)
    others = {} if index_name is None else {index_name: numbers}
    case.write(array, metadata, **others)
    if index in ("none", "range"):
        assert (case.convert() == oracle(array)).all()  # row i is that of node i
        return
    if index_name is not None and index != "id":
        advice = rf"has an index that pandas wrote.*: say --id-column {index_name}"
    elif metadata is not None:
        (said,) = metadata["index_columns"]
        advice = "has the index {start}:{stop}:{step} of".format(**said)
    else:
        advice = "has a column"
    with pytest.raises(InputError, match=rf"table\.parquet: {advice}"):
        case.convert()
    if index_name is not None:  # ids in it: node i has the row that says so
        assert (case.convert(id_column=index_name) == oracle(column(name, [*range(SIZE)]))).all()


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("index", INDEXES)
def test_edges_keep_the_order_of_rows_whatever_the_index(
    index: str, budget: str | None, tmp_path: Path
) -> None:
    metadata, index_name = INDEXES[index]
    case = Case(tmp_path, "weight", budget)
    others = {} if index_name is None else {index_name: NUMBERS}
    case.write(column("float64", NUMBERS), metadata, **others)
    assert case.convert().tolist() == NUMBERS


# ---- text ---------------------------------------------------------------------------------------

#: Types whose text is that of numbers, booleans or dates; strings are what they look like.
IN_TEXT = [
    "int8",
    "uint64",
    "int64",
    *FLOATS,
    *BOOLEANS,
    "string",
    "date32",
    "timestamp[s]",
    "timestamp[us]",
]
DATES = ("date32", "timestamp[s]", "timestamp[us]")


@pytest.mark.parametrize("name", IN_TEXT)
@pytest.mark.parametrize("role", TAKEN)
def test_every_type_as_text(role: str, name: str, tmp_path: Path) -> None:
    array = column(name, NUMBERS)
    # Text has no types: 3.0 is written as 3.
    whole = name in ("int8", "uint64", "int64", *FLOATS, "string")
    taken = whole or name in TAKEN[role]
    unit = {"date32": "D", "timestamp[s]": "s", "timestamp[us]": "us"}.get(name)
    options = {"time_unit": unit} if role == "time" and unit else {}
    for budget in BUDGETS:
        case = Case(tmp_path, role, budget, "csv")
        case.write(array)
        if not taken:
            case.refused(0, **options)
            continue
        expected = oracle(array.cast(pa.int64()) if name == "string" else array)
        assert (case.convert(**options).astype(np.float64) == expected).all()
        if role == "time":
            assert case.unit == unit
            if unit:
                assert "--time-unit" in case.refused(0)
        case.write(column(name, NUMBERS, null=MISSING))
        assert "missing" in case.refused(MISSING, **options)


# ---- .npy ---------------------------------------------------------------------------------------

NUMPY_TYPES = [
    "?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4", ">u8", "f2", "f4", "f8", ">f8",
    "c8", "S3", "U3", "M8[s]", "m8[s]", "i4,f4",
]  # fmt: skip


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", NUMPY_TYPES)
def test_every_type_of_arrays(name: str, budget: str | None, tmp_path: Path) -> None:
    dtype = np.dtype(name)
    kind = dtype.kind

    def attempt(array: np.ndarray, taken: bool, read: Callable[[Path], Any]) -> None:
        np.save(tmp_path / "a.npy", array)
        if taken:
            assert np.asarray(read(tmp_path / "a.npy"), np.float64).tolist() == array.tolist()
            return
        with pytest.raises(AetherError, match=r"a\.npy"):
            read(tmp_path / "a.npy")

    def edges(path: Path) -> Any:
        convert(path, tmp_path / "g.aeg", keep_order=True, memory_budget=budget, force=True)
        graph = Graph.load(tmp_path / "g.aeg")
        ends = np.stack(graph.edge_index())
        assert graph.edge_order is not None
        return ends[:, np.argsort(graph.edge_order)]

    def table(role: str) -> Callable[[Path], Any]:
        def read(path: Path) -> Any:
            options: Any = {role: path, f"{role}_out": tmp_path / "out.npy", "force": True}
            ends = tmp_path / "e.npy"
            np.save(ends, np.array([NUMBERS, NUMBERS]))
            convert(ends, tmp_path / "g.aeg", memory_budget=budget, **options)
            return FeatureTable.load(tmp_path / "out.npy").array

        return read

    def rows(values: list[int]) -> np.ndarray:
        return np.array(values).astype(dtype) if kind != "V" else np.zeros(len(values), dtype)

    attempt(np.stack([rows(NUMBERS), rows(NUMBERS[::-1])]), kind in "iu", edges)
    attempt(rows(NUMBERS), kind in "?biuf", table("labels"))
    stored = kind in "?biuf" and name != "u2"
    attempt(np.stack([rows(NUMBERS), rows(NUMBERS)], axis=1), stored, table("features"))


# ---- any numbers ---------------------------------------------------------------------------------

WHOLE = st.integers(-(2**63), 2**64 - 1) | st.integers(-20, 20) | st.sampled_from(
    [s * (1 << b) + d for s in (-1, 1) for b in (24, 25, 53, 54, 62) for d in (-1, 0, 1)]
)  # fmt: skip


@examples(150)
@given(
    numbers=st.lists(WHOLE, min_size=SIZE, max_size=SIZE),
    suffix=st.sampled_from(["csv", "parquet"]),
    wide=st.booleans(),
)
def test_whole_numbers_are_exact_or_refused(
    numbers: list[int], suffix: str, wide: bool, tmp_path_factory: Any
) -> None:
    signed = all(-(2**63) <= n < 2**63 for n in numbers)
    unsigned = all(n >= 0 for n in numbers)
    if suffix == "parquet" and not (signed or unsigned):
        return
    kind = pa.int64() if signed else pa.uint64() if unsigned else pa.string()
    array = pa.array([str(n) for n in numbers] if kind == pa.string() else numbers, kind)
    case = Case(tmp_path_factory.mktemp("r"), "node feature", None, suffix)
    case.write(array)
    dtype = "float64" if wide else "float32"
    exact = [int(np.dtype(dtype).type(n)) == n for n in numbers]
    if all(exact):
        found = case.convert(dtype=dtype)
        assert found.dtype == dtype and [int(x) for x in found] == numbers
    else:
        case.refused(exact.index(False), dtype=dtype)


@examples(150)
@given(
    numbers=st.lists(st.floats(), min_size=SIZE, max_size=SIZE),
    suffix=st.sampled_from(["csv", "parquet"]),
    wide=st.booleans(),
)
def test_fractions_are_rounded_once_or_refused(
    numbers: list[float], suffix: str, wide: bool, tmp_path_factory: Any
) -> None:
    case = Case(tmp_path_factory.mktemp("r"), "node feature", None, suffix)
    if suffix == "csv":
        case.path.write_text("c\n" + "".join(f"{n!r}\n" for n in numbers))
    else:
        case.write(pa.array(numbers, pa.float64()))
    dtype = np.dtype(np.float64 if wide else np.float32)
    with np.errstate(over="ignore"):
        nearest = np.array(numbers).astype(dtype)
    whole = [abs(n) <= 2.0**64 and n.is_integer() for n in numbers]
    lost = [
        bool((w and float(x) != n) or (np.isinf(x) and abs(n) != np.inf))
        for n, w, x in zip(numbers, whole, nearest, strict=True)
    ]
    if any(lost):
        case.refused(lost.index(True), dtype=dtype.name)
    else:
        np.testing.assert_array_equal(case.convert(dtype=dtype.name), nearest)
