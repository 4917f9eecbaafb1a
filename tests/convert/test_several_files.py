"""Several files with edges: the first says which columns they have, and if times have zones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aethergraph import Graph
from aethergraph.convert import InputError, convert, read_edges


def texts(folder: Path, *parts: str, suffix: str = ".csv") -> list[Path]:
    paths = [folder / f"{number}{suffix}" for number in range(1, len(parts) + 1)]
    for path, part in zip(paths, parts, strict=True):
        path.write_text(part)
    return paths


def edges_of(paths: list[Path], **options: Any) -> list[tuple[int, int]]:
    table = read_edges(paths, **options)
    return list(zip(table.src.tolist(), table.dst.tolist(), strict=True))


# ---- columns -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ends", [("dst", "src"), ("a", "b")])
def test_parts_without_a_header_are_read_as_the_first(
    ends: tuple[str, str], tmp_path: Path
) -> None:
    paths = texts(tmp_path, ",".join(ends) + "\n1,0\n2,0\n", "3,0\n4,0\n", "5,0\n")
    back = ends == ("dst", "src")
    wanted = [(0, n) if back else (n, 0) for n in range(1, 6)]
    assert edges_of(paths) == wanted
    assert edges_of(paths, src=ends[back], dst=ends[not back]) == wanted
    assert edges_of(paths, src=int(back), dst=int(not back)) == wanted


@pytest.mark.parametrize("weight", [0, "weight"])
def test_values_are_those_of_the_first_file(weight: int | str, tmp_path: Path) -> None:
    paths = texts(tmp_path, "weight,src,dst\n5,0,1\n", "7,1,2\n8,2,3\n")
    table = read_edges(paths, weight=weight)
    assert table.weight is not None and table.weight.tolist() == [5, 7, 8]
    assert edges_of(paths) == [(0, 1), (1, 2), (2, 3)]


def test_later_files_with_a_budget(tmp_path: Path) -> None:
    paths = texts(tmp_path, "weight,dst,src\n5,1,0\n", "7,2,1\n8,3,2\n")
    convert([*paths], tmp_path / "g.aeg", weight="weight", memory_budget="4G")
    src, dst = Graph.load(tmp_path / "g.aeg").edge_index()
    assert sorted(zip(src.tolist(), dst.tolist(), strict=True)) == [(0, 1), (1, 2), (2, 3)]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_names_of_the_first_file_choose_columns_of_later_ones(suffix: str, tmp_path: Path) -> None:
    paths = texts(tmp_path, "a,b\n0,1\n", "b,a,c\n2,1,7\n", suffix=suffix)
    if suffix == ".parquet":
        pq.write_table(pa.table({"a": [0], "b": [1]}), paths[0])
        pq.write_table(pa.table({"b": [2], "a": [1], "c": [7]}), paths[1])
    assert edges_of(paths) == [(0, 1), (1, 2)]


def test_well_known_names_may_differ(tmp_path: Path) -> None:
    paths = texts(tmp_path, "src,dst,note\n0,1,x\n", "note,target,source\nab,2,1\n")
    assert edges_of(paths) == [(0, 1), (1, 2)]
    paths = texts(tmp_path, "a,b\n0,1\n", "c,d\n1,2\n")
    with pytest.raises(InputError, match=r"2\.csv.* no column .*'a'"):
        read_edges(paths)


def test_files_whose_columns_nothing_says(tmp_path: Path) -> None:
    paths = texts(tmp_path, "0,1\n1,2\n", "9,2,3\n9,3,0\n")
    with pytest.raises(InputError, match=r"2\.csv: has 3 columns where .*1\.csv has 2, and not b"):
        read_edges(paths)
    assert edges_of(paths, src=0, dst=1) == [(0, 1), (1, 2), (9, 2), (9, 3)]
    paths = texts(tmp_path, "src,dst\n0,1\n", "9,2,3\n")
    with pytest.raises(InputError, match="has 3 columns where"):
        read_edges(paths)
    paths = texts(tmp_path, "0,1\n1,2\n", "dst,src\n0,2\n")
    with pytest.raises(InputError, match=r"2\.csv: names other columns as ends than the first two"):
        read_edges(paths)
    assert edges_of(paths, src=1, dst=0) == [(1, 0), (2, 1), (2, 0)]
    assert edges_of(paths[::-1]) == [(2, 0), (1, 0), (2, 1)]
    assert edges_of(texts(tmp_path, "0,1\n", "src,dst\n1,2\n")) == [(0, 1), (1, 2)]


def test_columns_by_number_must_be_in_every_file(tmp_path: Path) -> None:
    paths = texts(tmp_path, "9,0,1\n", "1,2\n")
    with pytest.raises(InputError, match=r"2\.csv: there is no column number 2 .* has 2 columns"):
        read_edges(paths, src=1, dst=2)


# ---- time zones ----------------------------------------------------------------------------------


def test_times_of_text_have_a_zone_in_all_files_or_in_none(tmp_path: Path) -> None:
    row = "src,dst,t\n0,1,2020-03-05"
    bare, zoned, day, number = texts(
        tmp_path, f"{row}T10:00:00\n", f"{row}T10:00:00+05:00\n", f"{row}\n", "src,dst,t\n0,1,5\n"
    )
    with pytest.raises(InputError, match=r"2\.csv, column 3 .t.: the times have a time zone, but "):
        read_edges([bare, zoned], time="t", time_unit="s")
    with pytest.raises(InputError, match=r"1\.csv, .*have no time zone, but those of .*2\.csv"):
        read_edges([number, zoned, bare], time="t", time_unit="s")
    with pytest.raises(InputError, match=r"3\.csv, .*have no time zone"):
        read_edges([zoned, day], time="t", time_unit="s")
    for paths in ([bare, number, day, bare], [number, zoned, zoned]):
        assert read_edges(paths, time="t", time_unit="s").num_edges == len(paths)
    assert read_edges([day, day], time="t", time_unit="D").num_edges == 2


def test_times_of_parquet_have_a_zone_in_all_files_or_in_none(tmp_path: Path) -> None:
    kinds = {
        "bare": pa.timestamp("us"), "utc": pa.timestamp("us", "UTC"), "day": pa.date32(),
        "berlin": pa.timestamp("us", "Europe/Berlin"),
    }  # fmt: skip
    paths = {name: tmp_path / f"{name}.parquet" for name in kinds}
    for name, kind in kinds.items():
        times = pa.array(np.array(["2020-03-05"], "M8[us]")).cast(kind)
        pq.write_table(pa.table({"src": [0], "dst": [1], "t": times}), paths[name])
    for first, second in (("bare", "utc"), ("berlin", "bare"), ("utc", "bare")):
        named = rf"{second}\.parquet.*time zone, but those of .*{first}"
        with pytest.raises(InputError, match=named):
            read_edges([paths[first], paths[second]], time="t")
    found = read_edges([paths[one] for one in ("utc", "day", "berlin", "berlin")], time="t")
    assert found.num_edges == 4
    assert found.notes == (
        "times of column t are kept in UTC; their time zone, Europe/Berlin, is not",
    )
