"""Damaged tables and odd schemas: a graph or a named error, and nothing half written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.damage import damages, fuzz
from support.shop_tables import TOML, as_arrow, shop

from aethergraph.convert import tables
from aethergraph.errors import AetherError


def save(name: str, kind: str, folder: Path) -> Path:
    path = folder / f"{name}.{kind}"
    table = as_arrow(shop(20, 40)[name])
    if kind == "parquet":
        pq.write_table(table, path)
    elif kind == "csv":
        pacsv.write_csv(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    return path


def build(folder: Path, text: str) -> None:
    (folder / "shop.toml").write_text(text)
    for path in folder.glob("g.*"):
        path.unlink()
    try:
        tables(folder / "shop.toml", folder / "g.aeg")
    except AetherError:
        assert not list(folder.glob("g.*"))


@pytest.fixture(autouse=True)
def fast_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fdatasync", lambda file: None)
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.mark.parametrize("kind", ["parquet", "csv", "arrow"])
@fuzz
@given(name=st.sampled_from(sorted(shop(3, 3))), damage=damages())
def test_damaged_tables(
    tmp_path: Path, kind: str, name: str, damage: Callable[[bytes], bytes]
) -> None:
    for one in shop(3, 3):
        path = save(one, kind, tmp_path)
        if one == name:
            path.write_bytes(damage(path.read_bytes()))
    build(tmp_path, TOML.replace(".parquet", f".{kind}"))


ODD = [
    "7", "-1", '""', "[]", "{}", "true", "1.5", '"x"', '["a", "b"]', "[1]", "nan", "2020-01-01",
    "{sqlite = 7}", '{duckdb = "x"}', '{to = "user"}', '"."', '"user.parquet"', "[[]]",
]  # fmt: skip
LINES = [number for number, line in enumerate(TOML.split("\n")) if "=" in line]
ENTRIES = ["missing", "null", "fill", "key_type", "time", "label", "attrs", "relation", "reverse"]


@fuzz
@given(
    at=st.sampled_from(LINES),
    value=st.sampled_from(ODD),
    entry=st.none() | st.sampled_from(ENTRIES),
)
def test_odd_schemas(tmp_path: Path, at: int, value: str, entry: Any) -> None:
    for name in shop(3, 3):
        if not (tmp_path / f"{name}.parquet").exists():
            save(name, "parquet", tmp_path)
    lines = TOML.split("\n")
    if entry is None:
        lines[at] = f"{lines[at].split('=')[0]}= {value}"
    else:
        lines.insert(at, f"{entry} = {value}")
    build(tmp_path, "\n".join(lines))
