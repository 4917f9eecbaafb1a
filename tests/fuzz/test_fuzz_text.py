"""Edge lists as text: any bytes are read or refused with a named error and a place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.damage import fuzz

pytest.importorskip("pyarrow")

from aethergraph.convert import read_edges
from aethergraph.errors import AetherError

FIELDS = st.one_of(
    st.integers(0, 50).map(str),
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from(["", " ", '"', "nan", "-1", "1e3", "1.0", "0x10", "src", "dst", "#", "\x00"]),
    st.sampled_from(["１", "+5", "1_000", '"7"', "'7'", "\ufeff1", "null", "NA", "9" * 400]),
    st.text(max_size=4),
)
LINES = st.lists(FIELDS, max_size=4)


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    separator = draw(st.sampled_from([",", "\t", " ", ";", ", ", "|", "  "]))
    ending = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    lines = [separator.join(line) for line in draw(st.lists(LINES, max_size=8))]
    good = draw(st.integers(0, 3))
    lines += [separator.join(("3", "4"))] * good
    text = ending.join(lines) + draw(st.sampled_from(["", ending]))
    return text.encode("utf-8", "surrogatepass")


def read(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    try:
        table = read_edges(path)
    except AetherError as error:
        assert str(path) in str(error), error
        return
    assert table.src.dtype == table.dst.dtype == np.int64
    assert len(table.src) == len(table.dst) > 0
    assert min(table.src.min(), table.dst.min()) >= 0
    assert max(table.src.max(), table.dst.max()) == table.num_nodes - 1


@fuzz
@given(data=texts(), suffix=st.sampled_from([".csv", ".tsv", ".txt", ""]))
def test_any_text(data: bytes, suffix: str, tmp_path: Path) -> None:
    read(tmp_path / f"edges{suffix}", data)


@fuzz
@given(
    data=st.binary(max_size=80),
    suffix=st.sampled_from([".csv", ".tsv", ".txt", ".npy", ".parquet", ".csv.gz", ""]),
)
@example(data=b"\x93NUMPY", suffix=".npy")
@example(data=b"PAR1PAR1", suffix=".parquet")
@example(data=b"\x1f\x8b", suffix=".csv.gz")
def test_any_bytes(data: bytes, suffix: str, tmp_path: Path) -> None:
    read(tmp_path / f"edges{suffix}", data)


@fuzz
@given(
    edges=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=30),
    separator=st.sampled_from([",", "\t", " ", ";"]),
    ending=st.sampled_from(["\n", "\r\n"]),
    header=st.booleans(),
)
def test_good_text_is_read_exactly(
    edges: list[tuple[int, int]], separator: str, ending: str, header: bool, tmp_path: Path
) -> None:
    lines = [f"{u}{separator}{v}" for u, v in edges]
    if header:
        lines.insert(0, f"src{separator}dst")
    path = tmp_path / "edges.csv"
    path.write_bytes((ending.join(lines) + ending).encode())
    table = read_edges(path, delimiter=separator)
    assert list(zip(table.src.tolist(), table.dst.tolist(), strict=True)) == edges
