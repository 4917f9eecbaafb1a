"""Edges and tables with string keys are converted within the memory that was given, by a cgroup."""

from __future__ import annotations

import filecmp
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from support.memory import memory_group

from aethergraph.convert import convert, tables

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = [pytest.mark.slow, pytest.mark.any_python]

BUDGET = 288 << 20
ROWS = 2_500_000
CONVERT = """
    from aethergraph.convert import convert
    convert(sys.argv[1], sys.argv[2], ids="string", memory_budget="288M")
"""
TABLES = """
    from aethergraph.convert import tables
    tables(sys.argv[1], sys.argv[2], memory_budget="288M")
"""
PEAK = """
    import re
    from pathlib import Path
    print(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text()).group(1))
"""
SCHEMA = """
[nodes.user]
from = "users.parquet"
key = "id"

[links.follows]
from = "follows.parquet"
source = "user"
destination = "user"
source_key = "src"
destination_key = "dst"
"""


def keys(numbers: np.ndarray) -> pa.Array:
    mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    return pc.binary_join_element_wise("user-", pc.cast(pa.array(mixed), pa.string()), "")


def run_within(script: str, source: Path, output: Path) -> None:
    """Run a build in a group of the budget; fail unless it ends well, and keeps to it itself."""
    command = [sys.executable, "-c", "import sys\n" + textwrap.dedent(script + PEAK)]
    with memory_group() as group:
        if group is not None:
            group.set_limit(BUDGET)
        done = subprocess.run(
            [*command, source, output], capture_output=True, text=True, check=False,
            preexec_fn=None if group is None else group.enter,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # A group ends what takes more. Without one: resident memory, in which mapped files are, too.
    assert group is not None or int(done.stdout) * 1024 <= BUDGET


def same_files(folder: Path, one: str, other: str) -> None:
    names = [path.name.removeprefix(one) for path in folder.glob(f"{one}*")]
    assert len(names) > 1  # the graph and the maps of its keys
    for name in names:
        assert filecmp.cmp(folder / (one + name), folder / (other + name), shallow=False), name


def write_pairs(path: Path, num_keys: int) -> None:
    pairs = np.random.default_rng(0).integers(0, num_keys, (2, ROWS))
    pq.write_table(pa.table({"src": keys(pairs[0]), "dst": keys(pairs[1])}), path)


def test_edges_between_keys(tmp_path: Path) -> None:
    write_pairs(tmp_path / "e.parquet", 1_000_000)
    run_within(CONVERT, tmp_path / "e.parquet", tmp_path / "bounded.aeg")
    convert(tmp_path / "e.parquet", tmp_path / "whole.aeg", ids="string", memory_budget="4G")
    same_files(tmp_path, "whole", "bounded")


def test_tables(tmp_path: Path) -> None:
    users = 1_000_000
    pq.write_table(pa.table({"id": keys(np.arange(users))}), tmp_path / "users.parquet")
    write_pairs(tmp_path / "follows.parquet", users)
    (tmp_path / "s.toml").write_text(SCHEMA)
    run_within(TABLES, tmp_path / "s.toml", tmp_path / "bounded.aeg")
    tables(tmp_path / "s.toml", tmp_path / "whole.aeg", memory_budget="4G")
    same_files(tmp_path, "whole", "bounded")
