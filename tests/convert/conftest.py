"""Fixtures of tests of conversions."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.shop_tables import TOML, as_arrow, shop

from aethergraph.convert import keyed
from aethergraph.convert.external import builder, driver, lists
from aethergraph.convert.readers import npy_edges
from aethergraph.convert.typed import api, edges, joins, sources


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs, parts and batches so small that all of them are many."""
    for module in (api, keyed, driver):
        monkeypatch.setattr(module, "working_memory", lambda *_: 30_000)
    for module in (sources, edges):
        monkeypatch.setattr(module, "_ROWS", 97)
    monkeypatch.setattr(npy_edges, "_ROWS", 200)
    monkeypatch.setattr(joins, "_CACHED_SHARE", 10_000)  # maps and times are larger than memory
    monkeypatch.setattr(joins, "_SORTED_ROWS", 50)
    monkeypatch.setattr(lists, "_GROUP_EDGES", 300)
    monkeypatch.setattr(builder, "RECORD_SECONDS", 0.0)
    monkeypatch.setattr(os, "fdatasync", lambda file: None)  # of many small runs
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.fixture
def shop_files(tmp_path: Path) -> Path:
    for name, rows in shop().items():
        pq.write_table(as_arrow(rows), tmp_path / f"{name}.parquet")
    (tmp_path / "shop.toml").write_text(TOML)
    return tmp_path
