"""Edge lists in every form: what is read, and what each mistake is called."""

from __future__ import annotations

import bz2
import gzip
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.strategies import examples

from aethergraph.convert import InputError, convert, read_edges
from aethergraph.convert.readers import text_blocks
from aethergraph.convert.readers.edge_plan import AttrSpec
from aethergraph.convert.readers.nodes import read_labels
from aethergraph.convert.readers.text import TextTable
from aethergraph.errors import (
    FormatError,
    InvalidArgumentError,
    MissingFileError,
    StorageError,
    UnsupportedError,
)

EDGES = [(0, 1), (1, 2), (2, 0), (5, 5)]


def edges_of(path: Path | list[Path], **options: Any) -> list[tuple[int, int]]:
    table = read_edges(path, **options)
    assert table.src.dtype == table.dst.dtype == np.int64
    return list(zip(table.src.tolist(), table.dst.tolist(), strict=True))


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def lines(separator: str, header: str = "", end: str = "\n") -> str:
    return header + end.join(f"{u}{separator}{v}" for u, v in EDGES) + end


# ---- forms -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", lines(",")),
        ("a.csv", lines(",", "src,dst\n")),
        ("a.csv", lines(",", '"source","target"\n')),
        ("a.csv", lines(", ", "from, to\n")),
        ("a.csv", lines(";")),
        ("a.csv", lines("|")),
        ("a.csv", lines("\t")),
        ("a.csv", lines(" ")),
        ("a.csv", lines(",", end="\r\n")),
        ("a.csv", lines(",", end="\r")),
        ("a.csv", lines(",").rstrip("\n")),
        ("a.csv", lines(",", "\ufeffsrc,dst\n")),
        ("a.csv", lines(",", "# a comment, with commas\n\n  \nsrc,dst\n")),
        ("a.csv", "0,1\n\n   \n1,2\n# middle\n2,0\n5,5\n\n"),
        ("a.csv", '"0","1"\n"1","2"\n2,"0"\n5,5\n'),
        ("a.csv", "0,1\n1,2\n-0,00\n5,5\n".replace("-0,00", "2,-0")),
        ("a.tsv", lines("\t", "u\tv\n")),
        ("a.txt", lines("\t", "# Nodes: 6 Edges: 4\n# FromNodeId\tToNodeId\n")),
        ("a.txt", lines("   ", "% konect\n")),
        ("a.txt", "  0 \t 1\n1\t\t2  \n\n \t \n 2 0\n5 5 "),
        ("a.txt", "0 1\r\n1  2 \r\n2 0\r\n5 5\r\n"),
        ("a.txt", lines(",")),
        ("a.edges", lines(" ")),
        ("a", lines(",")),
        ("a.data", lines(" ", "src dst\n")),
    ],
)
def test_text_forms(name: str, text: str, tmp_path: Path) -> None:
    table = read_edges(write(tmp_path / name, text), threads=2)
    assert list(zip(table.src.tolist(), table.dst.tolist(), strict=True)) == EDGES
    assert table.num_nodes == 6


@pytest.mark.parametrize("delimiter", [",", ";", "tab", "space", "\\t", ":"])
def test_delimiter_option(delimiter: str, tmp_path: Path) -> None:
    plain = {"tab": "\t", "\\t": "\t", "space": " "}.get(delimiter, delimiter)
    path = write(tmp_path / "edges", lines(plain))
    assert edges_of(path, delimiter=delimiter) == EDGES


def test_compressed(tmp_path: Path) -> None:
    text = lines(",", "src,dst\n").encode()
    assert edges_of(write(tmp_path / "a.csv.gz", gzip.compress(text))) == EDGES
    assert edges_of(write(tmp_path / "a.csv.bz2", bz2.compress(text))) == EDGES
    zst = pa.compress(text, codec="zstd", asbytes=True)
    assert edges_of(write(tmp_path / "a.csv.zst", zst)) == EDGES
    damaged = gzip.compress(text * 100)[:-20]
    with pytest.raises(InputError, match="cannot be read"):
        read_edges(write(tmp_path / "bad.csv.gz", damaged))


def test_columns_by_name_and_number(tmp_path: Path) -> None:
    text = "id,to,from,w,when,a,b,note\n9,1,0,0.5,7,1,1.5,x\n8,2,1,2,9,2,2.5,y\n"
    path = write(tmp_path / "e.csv", text)
    table = read_edges(path, weight="w", time="when", attrs=["a", "ab=a,b", "c=b:float64"])
    assert table.src.tolist() == [0, 1] and table.dst.tolist() == [1, 2]
    assert table.weight is not None and table.weight.dtype == np.float32
    assert table.weight.tolist() == [0.5, 2]
    assert table.time is not None and table.time.dtype == np.int64 and table.time.tolist() == [7, 9]
    assert table.attrs["a"].dtype == np.int64 and table.attrs["a"].tolist() == [1, 2]
    assert table.attrs["ab"].dtype == np.float32
    assert table.attrs["ab"].tolist() == [[1, 1.5], [2, 2.5]]
    assert table.attrs["c"].dtype == np.float64
    assert table.unused == ("id", "note")
    assert edges_of(path, src="from", dst="to") == [(0, 1), (1, 2)]
    assert edges_of(path, src=2, dst="to") == [(0, 1), (1, 2)]
    assert edges_of(path, src="2", dst="1") == [(0, 1), (1, 2)]
    assert edges_of(write(tmp_path / "n.csv", "7,0,1\n7,1,2\n"), src=1, dst=2) == [(0, 1), (1, 2)]


def test_header_can_be_forced_and_denied(tmp_path: Path) -> None:
    path = write(tmp_path / "e.csv", "0,1\n1,2\n")
    assert edges_of(path, header=True) == [(1, 2)]
    assert edges_of(path, header=False) == [(0, 1), (1, 2)]
    assert read_edges(path, src="0", dst="1", header=True).num_edges == 1
    named = write(tmp_path / "n.csv", "src,dst\n0,1\n")
    with pytest.raises(InputError, match=r"line 1, column 1 .source id.: the source id 'src'"):
        read_edges(named, header=False)


def test_fractional_times(tmp_path: Path) -> None:
    path = write(tmp_path / "e.csv", "u,v,t\n0,1,2\n1,2,2.5\n")
    time = read_edges(path, time="t").time
    assert time is not None and time.dtype == np.float64 and time.tolist() == [2, 2.5]
    with pytest.raises(InputError, match=r"line 3, column 3 .t.: the time '2.5' is not an integer"):
        read_edges(path, time="t", time_type="int64")


def test_parquet(tmp_path: Path) -> None:
    columns = {
        "w": pa.array([0.5, 1, 2, 3], "float64"),
        "dst": pa.array([v for _, v in EDGES], "uint32"),
        "src": pa.array([u for u, _ in EDGES], "uint32"),
        "t": pa.array([1, 2, 3, 4], pa.timestamp("ms")),
        "name": pa.array(list("abcd")),
    }
    path = tmp_path / "e.parquet"
    pq.write_table(pa.table(columns), path)
    table = read_edges(path, weight="w", time="t")
    assert list(zip(table.src.tolist(), table.dst.tolist(), strict=True)) == EDGES
    assert table.weight is not None and table.weight.dtype == np.float64
    assert table.time is not None and table.time.dtype == "datetime64[ms]"
    assert table.time.view(np.int64).tolist() == [1, 2, 3, 4]
    assert table.unused == ("name",)
    path.rename(tmp_path / "no_suffix")
    assert edges_of(tmp_path / "no_suffix") == EDGES


def test_npy(tmp_path: Path) -> None:
    array = np.array(EDGES, ">i4")
    for name, value in [("a.npy", array), ("b.npy", array.T), ("c", np.asfortranarray(array))]:
        with open(tmp_path / name, "wb") as file:
            np.save(file, value)
        assert edges_of(tmp_path / name) == EDGES
    np.save(tmp_path / "two.npy", np.array([[0, 1], [2, 3]]))
    assert edges_of(tmp_path / "two.npy") == [(0, 2), (1, 3)]


# ---- mistakes --------------------------------------------------------------------------------

LONG = "1" * 200_000


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ("src,dst\n0,1\n1,x\n", "column 2 (dst): the destination id 'x' is not a number", 3, 2),
        ("0,1\n1,2\nalice,2\n", "the source id 'alice' is not a number", 3, 1),
        ("0,1\n1.0,2\n", "the source id '1.0' is not an integer", 2, 1),
        ("0,1\n1e3,2\n", "not an integer written in plain digits", 2, 1),
        ("0,1\n+1,2\n", "not an integer written in plain digits", 2, 1),
        ("0,1\n1,-2\n", "the destination id -2 is negative", 2, 2),
        ("0,1\n9223372036854775808,2\n", "does not fit in 64 bits", 2, 1),
        ("0,1\n-9223372036854775809,2\n", "does not fit in 64 bits", 2, 1),
        ("0,1\n1\n", "1 field where there are 2 columns", 2, None),
        ("0,1\n1,2,3\n", "3 fields where there are 2 columns", 2, None),
        ("0,1\n1,\n", "the destination id is missing", 2, 2),
        ("0,1\n,2\n", "the source id is missing", 2, 1),
        ("0,1\n0x1f,2\n", "the source id '0x1f' is not a number", 2, 1),
        ("0,1\nNA,2\n", "the source id 'NA' is not a number", 2, 1),
        ("0,1\nnan,2\n", "the source id 'nan' is not an integer", 2, 1),
        ("0,1\n١,2\n", "the source id '١' is not a number", 2, 1),
        ("# c\n\n0,1\n\n# d\n1,q\n", "'q'", 6, 2),
        ('0,1\n"1","b"\n', "'b'", 2, 2),
        ("0,1\r\n1,b\r\n", "'b'", 2, 2),
        ("# c\n0  1\n\n 1\t2 \n2   x\n", "'x'", 5, 2),
        ("# c\n0  1\n\n 1\t2 \n2  3 4\n", "3 fields where there are 2 columns", 5, None),
        # Lines that csv modules trip over
        (f"src,dst,t\n0,1,{LONG}\n1,bad,y\n", "the destination id 'bad'", 3, 2),
        (f'src,dst,"{LONG}"\n0,1,a\n1,q,y\n', "the destination id 'q'", 3, 2),
        (f"0,1\n{LONG},3\n", "the source id '111", 2, 1),
        ("0,1\n1,\x0c2\n", "the destination id '\\x0c2'", 2, 2),
        ("0,1\n1,2\x85\n", "the destination id '2\\x85'", 2, 2),
        ("0,1\n1,\u20282\n", "the destination id '\\u20282'", 2, 2),
        ("0 1\n1 \xa02\n", "the destination id '\\xa02'", 2, 2),
        ("0 1\n\x0c\n1 2\n", "1 field where there are 2 columns", 2, None),
        ('0,1\n"a""b\nc",3\n4,x\n', "the source id 'a\"b\\nc' is", 2, 1),
        ('0,1\n"2\n3",4\n', "the source id '2\\n3' is not a num", 2, 1),
        ("0,1\r1,2\r2,x\r", "the destination id 'x'", 3, 2),
        (
            "1," * (1 << 20) + "1\n",
            "has 1,048,577 fields, and at most 1,048,576 are read",
            None,
            None,
        ),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else None,
)
def test_bad_lines(text: str, message: str, line: int, column: int | None, tmp_path: Path) -> None:
    suffix = ".txt" if " " in text.partition("\n")[0] else ".csv"
    path = write(tmp_path / f"e{suffix}", text)
    with pytest.raises(InputError) as caught:
        read_edges(path, threads=1)
    assert message in str(caught.value) and str(path) in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert isinstance(caught.value, FormatError) and isinstance(caught.value, ValueError)


def test_names_are_refused_with_advice(tmp_path: Path) -> None:
    for text in ["alice,bob\ncarol,dave\n", "src,dst\nalice,bob\n"]:
        advice = r"'alice' is not a number; .*--ids string .*numpy\.unique"
        with pytest.raises(InputError, match=advice):
            read_edges(write(tmp_path / "e.csv", text))


def test_num_nodes_limits_the_ids(tmp_path: Path) -> None:
    path = write(tmp_path / "e.csv", "0,1\n1,2\n2,7\n")
    with pytest.raises(InputError, match=r"line 3, .*id 7 is not below the number of nodes, 5"):
        read_edges(path, num_nodes=5)
    assert read_edges(path, num_nodes=9).num_nodes == 9
    with pytest.raises(InvalidArgumentError, match="num_nodes = -1 is not in"):
        read_edges(path, num_nodes=-1)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("nan", "the weight 'nan' is not a finite float32"),
        ("inf", "not a finite float32"),
        ("1e39", "not a finite float32"),
        ("-1", "the weight '-1' is below 0"),
        ("heavy", "the weight 'heavy' is not a number"),
        ("", "the weight is missing"),
    ],
)
def test_bad_weights(value: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "e.csv", f"src,dst,w\n0,1,1\n1,2,{value}\n")
    with pytest.raises(InputError, match=f"line 3, column 3 .w.: .*{message}"):
        read_edges(path, weight="w")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"\n \n# only a comment\n", "holds only comments and empty lines"),
        (b"src,dst\n", "holds no edges"),
        (b"1\n2\n", "has one column, but an edge needs two"),
        (b"\x00\x01\x02", "holds zero bytes, so it is not text"),
        ("0,1\n".encode("utf-16"), "is UTF-16 text"),
        (b"%%MatrixMarket matrix coordinate\n3 3 1\n1 2\n", "is a MatrixMarket file"),
        (b"\x93NUMPY", "is not a readable .npy file"),
        (b"PAR1PAR1", "is not a readable Parquet file"),
    ],
)
def test_bad_files(data: bytes, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "e.csv", data)
    with pytest.raises(InputError, match=message) as caught:
        read_edges(path)
    assert str(path) in str(caught.value)


def test_bad_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "e.csv", "src,dst,w\n0,1,2\n")
    plain = write(tmp_path / "p.csv", "0,1\n1,2\n")
    with pytest.raises(InputError, match=r"no column 'x' for the weight; columns: 'src', 'dst'"):
        read_edges(path, weight="x")
    with pytest.raises(InputError, match=r"no column number 7 for the weight: .* 3 columns"):
        read_edges(path, weight=7)
    with pytest.raises(InputError, match="no header line; give a number from 0 to 1"):
        read_edges(plain, weight="x", header=False)
    with pytest.raises(InvalidArgumentError, match="both columns"):
        read_edges(path, src="src")
    with pytest.raises(InvalidArgumentError, match="both source and destination"):
        read_edges(path, src="src", dst="src")
    with pytest.raises(InvalidArgumentError, match="no input file"):
        read_edges([])
    with pytest.raises(InvalidArgumentError, match="unknown format 'xml'"):
        read_edges(path, format="xml")
    with pytest.raises(InvalidArgumentError, match="delimiter must be one character"):
        read_edges(path, delimiter="ab")
    with pytest.raises(InvalidArgumentError, match="given twice"):
        read_edges(path, attrs=["w", "w"])
    with pytest.raises(InvalidArgumentError, match=r"NAME\[=COLUMN"):
        AttrSpec.parse("w:int3")


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match=r"none\.csv: no such file"):
        read_edges(tmp_path / "none.csv")
    with pytest.raises(FileNotFoundError):
        read_edges(tmp_path / "none.csv")
    with pytest.raises(InputError, match="is a folder"):
        read_edges(tmp_path)
    with pytest.raises(StorageError, match="Not a directory"):
        read_edges(write(tmp_path / "f", "") / "x.csv")


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("src", pa.array([0, 1, -4]), r"row 3, column 1 .src.: the source id -4 is negative"),
        ("src", pa.array([0, 2**63, 1], "uint64"), r"row 2, column 1 .src.: the source id 92"),
        ("src", pa.array([1.0, 2, 3]), r"type double, not an integer .the first one is 1.0"),
        ("src", pa.array([Decimal(1)] * 3), "cast it to int64$"),
        ("src", pa.array(["ann", "b", "c"]), r"is 'ann'.; node ids are the integers"),
        ("w", pa.array([1.0, float("nan"), 2.0]), "row 2, .*the weight nan is not a finite"),
        ("w", pa.array([1.0, 2.0, -3.0]), "row 3, .*the weight -3.0 is below 0"),
        ("w", pa.array(["a", "b", "c"]), "the weight is of type string, not a number .the first"),
    ],
    ids=range(8),
)
def test_bad_parquet(column: str, values: Any, message: str, tmp_path: Path) -> None:
    ids, path = pa.array([0, 1, 2]), tmp_path / "e.parquet"
    columns = {"src": ids, "dst": ids, "w": ids, column: values}
    pq.write_table(pa.table(columns), path, row_group_size=2)
    with pytest.raises(InputError, match=message):
        read_edges(path, weight="w")


def test_parquet_times_that_do_not_fit(tmp_path: Path) -> None:
    path, ids = tmp_path / "e.parquet", pa.array([0, 1, 2])
    times = pa.array([1, 2**63, 3], pa.uint64())
    pq.write_table(pa.table({"src": ids, "dst": ids, "t": times}), path)
    with pytest.raises(InputError, match=f"row 2, .*the time {2**63} does not fit in 64 bits"):
        read_edges(path, time="t")


def test_parquet_is_not_cut_and_within_the_nodes(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(pa.table({"src": [0, 1, 2], "dst": [0, 1, 2]}), path)
    with pytest.raises(InputError, match="not below the number of nodes, 2"):
        read_edges(path, num_nodes=2)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match=r"not a readable Parquet file"):
        read_edges(path)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 3)), "holds float64, but node ids must be integers"),
        (np.zeros(7, int), r"is one vector of 7; .*numpy.stack\(\[src, dst\]\)"),
        (np.zeros((3, 3), int), r"has shape \[3, 3\], but edges have shape \[2, E\] or \[E, 2\]"),
        (np.array([[0, 1, -7], [0, 1, 2]]), "row 3, column 1 .source id.: the source id -7"),
        (np.array([[0, 1], [2, 2**63], [1, 1]], "u8"), "row 2, .*does not fit in 64 bits"),
        (np.zeros((2, 0), int), "holds no edges"),
        (np.array([["a"], ["b"]]), "must be integers"),
    ],
)
def test_bad_npy(array: np.ndarray, message: str, tmp_path: Path) -> None:
    np.save(tmp_path / "e.npy", array)
    with pytest.raises(InputError, match=message):
        read_edges(tmp_path / "e.npy")


def test_npy_is_not_an_archive_and_not_cut(tmp_path: Path) -> None:
    np.savez(tmp_path / "e.npz", np.zeros(3))
    with pytest.raises(InputError, match="is an archive"):
        read_edges(tmp_path / "e.npz", format="npy")
    np.save(tmp_path / "e.npy", np.zeros((2, 5000), int))
    data = (tmp_path / "e.npy").read_bytes()
    write(tmp_path / "e.npy", data[:-8])
    with pytest.raises(InputError, match=r"not a readable .npy file"):
        read_edges(tmp_path / "e.npy")
    with pytest.raises(InputError, match=r"is not a .npy file"):
        read_edges(write(tmp_path / "x.npy", "0,1\n"), format="npy")
    with pytest.raises(InputError, match="by number, 0 or 1"):
        write(tmp_path / "e.npy", data)
        read_edges(tmp_path / "e.npy", src="src", dst="dst")


@pytest.mark.parametrize(
    "text",
    [
        b"{'descr': '<i8', 'fortran_order': False, 'shape': (2, 3",
        b"'''",
        b"\xff" * 9,
        b"[" * 5000,
        b"{'descr': '<i8', 'fortran_order': False, 'shape': (2, 30000000000000)}",
        b"{'descr': '|O', 'fortran_order': False, 'shape': (2, 3)}",
        b"{'descr': [('a', '<i8')], 'fortran_order': False, 'shape': (2, 3)}",
    ],
    ids=range(7),
)
def test_npy_headers_that_lie(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "e.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(48))
    for memory in (None, "4G"):
        with pytest.raises(InputError, match=r"e\.npy: is not a readable \.npy file: ") as found:
            convert(path, tmp_path / "g.bin", memory_budget=memory)
        assert len(str(found.value)) < 500


# ---- blocks ----------------------------------------------------------------------------------


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 64)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("separator", [",", "  "])
def test_many_blocks(separator: str, tmp_path: Path) -> None:
    edges = [(i, i * 7919 % 100_003) for i in range(2000)]
    text = "# head\n" * 20 + "src,dst\n".replace(",", separator)
    text += "".join(f"{u}{separator}{v}\n" for u, v in edges)
    path = write(tmp_path / "e.txt", text)
    seen: list[int] = []
    table = read_edges(path, progress=lambda done, total: seen.append(done), threads=2)
    assert list(zip(table.src.tolist(), table.dst.tolist(), strict=True)) == edges
    assert seen == sorted(seen) and seen[-1] == path.stat().st_size
    write(path, text.replace(f"1500{separator}", f"oops{separator}"))
    with pytest.raises(InputError, match=f"line {20 + 1 + 1501}, column 1"):
        read_edges(path)


@pytest.mark.usefixtures("small_blocks")
def test_a_line_longer_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "e.csv", f"0,1,{'x' * 500}\n1,2,{'y' * 300}\n")
    assert edges_of(path) == [(0, 1), (1, 2)]
    monkeypatch.setattr(text_blocks, "_MAX_LINE_BYTES", 400)
    with pytest.raises(InputError, match="line 1: no end of this line"):
        read_edges(path)


def test_capacity_follows_the_file(tmp_path: Path) -> None:
    path = tmp_path / "e.npy"
    np.save(path, np.arange(2_000_000).reshape(2, -1))
    table = read_edges(path)
    assert table.num_edges == 1_000_000 and table.num_nodes == 2_000_000
    assert table.src.base is not None and table.src.base.size < 1_200_000


# ---- against a naive parser ------------------------------------------------------------------

FIELD = st.one_of(
    st.integers(0, 2**63 - 1).map(str),
    st.integers(-3, 12).map(str),
    st.sampled_from(["", " 4 ", "007", "x", "1.5", "0x1", "+2", '"3"', "9" * 20]),
)


def naive(text: str, columns: int) -> list[tuple[int, int]] | int:
    """Edges, or the 1-based number of the first bad line."""
    edges = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip(" ") or line.lstrip(" \t").startswith(("#", "%")):
            continue
        fields = [f.strip(" ") for f in line.split(",")]
        fields = [f[1:-1] if len(f) > 1 and f[0] == f[-1] == '"' else f for f in fields]
        if len(fields) != columns:
            return number
        for field in fields[:2]:
            digits = field[1:] if field.startswith("-") else field
            if not (digits.isascii() and digits.isdigit()) or not 0 <= int(field) < 2**63:
                return number
        edges.append((int(fields[0]), int(fields[1])))
    return edges


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    body=st.lists(
        st.one_of(
            st.lists(FIELD, min_size=3, max_size=3).map(",".join),
            st.lists(FIELD, min_size=1, max_size=4).map(",".join),
            st.sampled_from(["", "  ", "# x", "%", "1,2,3", "4,5,6"]),
        ),
        max_size=30,
    ),
    block=st.sampled_from([16, 64, 1 << 20]),
)
def test_against_a_naive_parser(body: list[str], block: int, tmp_path: Path) -> None:
    text = "\n".join(["8,9,1", *body])
    path = write(tmp_path / "e.csv", text)
    expected = naive(text, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_blocks, "BLOCK_BYTES", block)
        try:
            found: list[tuple[int, int]] | int | None = edges_of(path, header=False)
        except InputError as error:
            found = error.line
    assert found == expected


def test_pyarrow_is_named_when_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "e.csv", "0,1\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UnsupportedError, match=r"need pyarrow.*not installed.*aethergraph\[cli\]"):
        read_edges(path)
    np.save(tmp_path / "e.npy", np.array(EDGES))
    assert edges_of(tmp_path / "e.npy") == EDGES


@pytest.mark.parametrize("error", ["ImportError", "AttributeError", "RuntimeError"])
def test_a_pyarrow_that_cannot_be_imported_says_why(
    error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a pyarrow that was built for another NumPy."""
    path = write(tmp_path / "e.csv", "0,1\n")
    package = tmp_path / "site" / "pyarrow"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"raise {error}('needs NumPy 2.0, found 1.26')\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(UnsupportedError, match=r"installed but .*needs NumPy 2.0.*<18") as found:
        read_edges(path)
    assert "aethergraph[cli]" not in str(found.value)


# ---- plain integers, without pyarrow -------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(0, 99).map(str), st.integers(0, 10**18 - 1).map(str), st.just("007")
)
ODD_FIELDS = st.sampled_from(["-1", "+1", " 1", '"1"', "", "1.0", "x", str(10**18), str(2**63)])


@settings(examples(300), suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_the_fast_way_reads_what_pyarrow_reads(data: st.DataObject, tmp_path_factory: Any) -> None:
    """Mostly plain lines, among them others: the same edges, or the same error."""
    rows = data.draw(st.lists(st.tuples(NUMBERS, NUMBERS).map(list), min_size=1, max_size=9))
    if data.draw(st.booleans()):
        row = data.draw(st.sampled_from(rows))
        row[data.draw(st.integers(0, 1))] = data.draw(ODD_FIELDS)
    separator = data.draw(st.sampled_from([",", "\t", " ", ";"]))
    ends = st.sampled_from(["\n", "\r\n", "\n\n"])
    text = "".join(separator.join(row) + data.draw(ends) for row in rows)
    if data.draw(st.booleans()):
        text = text.rstrip("\r\n")
    path = write(tmp_path_factory.mktemp("plain") / "e.csv", text)
    found = []
    for plain in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not plain:
                patch.setattr(TextTable, "_parse_plain", lambda self, block, fields: None)
            try:
                found.append(edges_of(path, header=False))
            except InputError as error:
                found.append([str(error)])
    assert found[0] == found[1]


def test_plain_integers_do_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.csv as pacsv

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("pyarrow was asked")

    monkeypatch.setattr(pacsv, "read_csv", refuse)
    for text in (lines(","), lines(" "), lines("\t"), lines(",", end="\r\n")):
        assert edges_of(write(tmp_path / "e.csv", text), header=False) == EDGES


# ---- columns of one name ---------------------------------------------------------------------

REPEATED = [
    ("src,dst,w,w", {"weight": "w"}, r"2 columns are called 'w'.* the weight: columns 2 and 3"),
    ("src,dst,t,t,t", {"attrs": ["x=t"]}, r"3 columns are called 't'.* columns 2, 3 and 4"),
    ("src,dst,dst", {}, r"called 'dst'.* the destination id: columns 1 and 2, counted from 0"),
    ("dst,src,SRC", {}, r"called 'src'.* the source id: columns 1 and 2"),
    ("src,src", {}, r"called 'src'.* the source id: columns 0 and 1"),
    ("a,b,b", {}, r"called 'b'.* the destination id: columns 1 and 2"),
    ("a,b,b", {"src": "a", "dst": "b"}, r"called 'b'.* columns 1 and 2"),
]


def write_repeated(path: Path, header: str) -> Path:
    """Two edges; column c holds c and c + 1."""
    names = header.split(",")
    if path.suffix == ".parquet":
        columns = [pa.array([number, number + 1]) for number in range(len(names))]
        pq.write_table(pa.Table.from_arrays(columns, names=names), path)
        return path
    rows = (",".join(str(number + row) for number in range(len(names))) for row in (0, 1))
    return write(path, "\n".join([header, *rows]))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize(("header", "options", "match"), REPEATED)
def test_a_name_of_several_columns_is_refused(
    header: str, options: dict[str, Any], match: str, suffix: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=match + ".* by number"):
        read_edges(write_repeated(tmp_path / f"e.{suffix}", header), **options)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_numbers_select_among_columns_of_one_name(suffix: str, tmp_path: Path) -> None:
    path = write_repeated(tmp_path / f"e.{suffix}", "id,w,id,w,x,x")
    found = read_edges(path, src=2, dst=0, weight="3", attrs=["x=4,5", "w=1"], header=True)
    assert found.src.tolist() == [2, 3] and found.dst.tolist() == [0, 1]
    assert found.weight is not None and found.weight.tolist() == [3, 4]
    assert found.attrs["x"].tolist() == [[4, 5], [5, 6]] and found.attrs["w"].tolist() == [1, 2]
    unused = write_repeated(tmp_path / f"u.{suffix}", "src,dst,w,w")
    assert read_edges(unused, src=0, dst="1").src.tolist() == [0, 1]
    assert read_edges(unused).unused == ("w", "w")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_two_columns_of_labels_or_of_ids_are_refused(suffix: str, tmp_path: Path) -> None:
    path = write_repeated(tmp_path / f"y.{suffix}", "Label,label,id")
    with pytest.raises(InputError, match=r"called 'label'.* columns 0 and 1"):
        read_labels(path, id_column="id")
    path = write_repeated(tmp_path / f"y.{suffix}", "id,label,id")
    with pytest.raises(InputError, match=r"called 'id'.* the node id: columns 0 and 2"):
        read_labels(path, id_column="id")


@pytest.mark.parametrize("suffix", ["csv", "txt", "parquet", "npy"])
def test_a_file_that_cannot_be_read_is_named(suffix: str, tmp_path: Path) -> None:
    """/proc/self/mem is a regular file whose first byte cannot be read."""
    path = tmp_path / f"e.{suffix}"
    path.symlink_to("/proc/self/mem")
    for read in (read_edges, read_labels):
        with pytest.raises(StorageError, match=rf"e\.{suffix}: cannot be read: Input/output"):
            read(path)


def test_a_page_that_its_checksum_does_not_fit_is_named(tmp_path: Path) -> None:
    edges = pa.table({"src": np.arange(1000), "dst": np.arange(1000)})
    path = tmp_path / "e.parquet"
    pq.write_table(edges, path, write_page_checksum=True, compression="none", use_dictionary=False)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 200] = bytes(200)
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"e\.parquet.*(CRC|checksum)"):
        edges_of(path)


def test_what_arrow_cannot_read_is_an_input_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow raises another error for an encoding of pages that it does not know."""
    path = tmp_path / "e.parquet"
    pq.write_table(pa.table({"src": [0], "dst": [1]}), path)

    def refuse(*_: Any, **__: Any) -> None:
        raise pa.ArrowNotImplementedError("Unknown encoding type.")

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", refuse)
    with pytest.raises(InputError, match=r"e\.parquet.*cannot be read: Unknown encoding"):
        read_edges(path)
