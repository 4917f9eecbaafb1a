"""Builds within a memory budget that are killed, run out of disk, or meet bad inputs."""

from __future__ import annotations

import errno
import filecmp
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from support.disks import small_disk
from support.memory import memory_group
from support.processes import WarmPython
from support.recording import Interrupt, Recording

from aethergraph.convert import InputError, convert, outputs
from aethergraph.convert.external import driver
from aethergraph.convert.external.journal import Journal
from aethergraph.convert.readers import text_blocks
from aethergraph.convert.readers.npy import NpyColumns
from aethergraph.errors import (
    CorruptFileError,
    DiskFullError,
    InvalidArgumentError,
    MissingFileError,
)


def write_edges(folder: Path, edges: int = 3000, parts: int = 2) -> list[Path]:
    rng = np.random.default_rng(0)
    paths = []
    for part in range(parts):
        src, dst = rng.integers(0, 200, edges), rng.integers(0, 200, edges)
        dst[rng.random(edges) < 0.4] = 7  # a list that must be split
        table = {"src": src, "dst": dst, "w": rng.random(edges), "t": rng.integers(0, 99, edges)}
        paths.append(folder / f"e{part}.parquet")
        pq.write_table(pa.table(table), paths[-1])
    return paths


OPTIONS: dict[str, Any] = {
    "layout": "both", "weight": "w", "time_column": "t", "keep_order": True, "attrs": ["x=src"],
}  # fmt: skip


# ---- going on after a kill ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("after", [True, False])
def test_goes_on_wherever_it_was_interrupted(
    after: bool, small_memory: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted at every recording, before it or after it, then run again."""
    inputs = write_edges(tmp_path, 1200)
    memory = 50_000
    monkeypatch.setattr(driver, "working_memory", lambda budget, formats, threads: memory)
    whole, output = tmp_path / "whole.aeg", tmp_path / "g.aeg"
    options = {**OPTIONS, "compress": after}
    convert(inputs, whole, **options)
    recording = Recording(monkeypatch, interrupted_after=after)
    points = 0
    phases = set()
    while True:
        points += 1
        recording.left, memory = points, 50_000
        try:
            convert(inputs, output, memory_budget="4G", restart=True, **options)
        except Interrupt:
            recording.left = 0
        else:
            break
        assert not output.exists()
        memory = (20_000, 50_000, 200_000)[points % 3]  # parts are grouped in other ways
        remarks: list[str] = []
        convert(inputs, output, memory_budget="4G", remark=remarks.append, **options)
        if remarks:
            assert "going on with an interrupted build" in remarks[0]
            phases.add(remarks[0].split(": ")[1].split(" up to")[0].lstrip("0123456789, "))
        assert filecmp.cmp(whole, output, shallow=False), points
        assert not Path(f"{output}.building").exists()
        output.unlink()
    assert points > 12
    found = " ".join(sorted(phases))
    for phase in ("edges were read (file 1", "edges were read (file 2", "in-lists", "turned edges"):
        assert phase in found
    assert "out-lists" in found


KILLED = """
    import os, signal, sys
    from aethergraph.convert import convert
    from aethergraph.convert.external import builder, driver, journal, lists
    from aethergraph.convert.readers import npy_edges
    driver.working_memory = lambda budget, formats, threads: 30_000
    npy_edges._ROWS, lists._GROUP_EDGES, builder.RECORD_SECONDS = 200, 300, 0.0
    left, record = int(sys.argv[1]), journal.Journal.record

    def dying(self, **state):
        global left
        record(self, **state)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    journal.Journal.record = dying
    convert(sys.argv[3:], sys.argv[2], memory_budget="4G", weight="w", layout="both",
            remark=lambda text: print(text, flush=True))
"""


@pytest.fixture(scope="module")
def python() -> Iterator[WarmPython]:
    with WarmPython(["aethergraph.convert"]) as warm:
        yield warm


def run(
    python: WarmPython, script: str, folder: Path, *arguments: object
) -> subprocess.CompletedProcess[str]:
    """Run a script in a process that may be killed; nothing of it stays in the folder."""
    path = folder / "script.py"
    path.write_text(textwrap.dedent(script))
    done = python.run([path, *arguments], folder)
    path.unlink()
    return done


def test_killed_processes(tmp_path: Path, python: WarmPython) -> None:
    """A chain of processes, each killed a little further on, builds the file."""
    inputs = write_edges(tmp_path)
    convert(inputs, tmp_path / "whole.aeg", weight="w", layout="both")
    output = tmp_path / "g.aeg"
    for number in range(40):
        done = run(python, KILLED, tmp_path, 9, output, *inputs)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert not output.exists()
        assert number == 0 or "going on with an interrupted build" in done.stdout
    assert number >= 3
    assert filecmp.cmp(tmp_path / "whole.aeg", output, shallow=False)


KILLED_WRITING = """
    import os, signal, sys
    from aethergraph import _native
    from aethergraph.convert import convert
    _native.NativeWriter.commit = lambda self: os.kill(os.getpid(), signal.SIGKILL)
    convert(sys.argv[3:], sys.argv[1], memory_budget="4G", compress=sys.argv[2] == "True")
"""


@pytest.mark.parametrize("compress", [False, True])
def test_killed_while_it_writes(compress: bool, tmp_path: Path, python: WarmPython) -> None:
    """The half-written file is removed by the next call."""
    inputs, output = write_edges(tmp_path), tmp_path / "g.aeg"
    done = run(python, KILLED_WRITING, tmp_path, output, compress, *inputs)
    assert done.returncode == -signal.SIGKILL
    assert list(tmp_path.glob(".g.aeg.*.aether-tmp")) and not output.exists()
    convert(inputs, output, memory_budget="4G", compress=compress)
    convert(inputs, tmp_path / "whole.aeg", compress=compress)
    assert filecmp.cmp(tmp_path / "whole.aeg", output, shallow=False)
    assert len(os.listdir(tmp_path)) == len(inputs) + 2


KILLED_TABLES = """
    import os, signal, sys
    from aethergraph.convert import convert, outputs
    outputs.NpyWriter.commit = lambda self: os.kill(os.getpid(), signal.SIGKILL)
    convert(sys.argv[1], sys.argv[2], features=sys.argv[3], labels=sys.argv[4], force=True)
"""


def test_tables_of_a_killed_conversion_are_removed_by_the_next(
    tmp_path: Path, python: WarmPython
) -> None:
    """Those of dead writers only: another one of the same file goes on."""
    edges, features, labels = (tmp_path / f"{name}.csv" for name in ("e", "x", "y"))
    edges.write_text("0,1\n1,2\n")
    features.write_text("1,2\n3,4\n5,6\n")
    labels.write_text("1\n2\n3\n")
    done = run(python, KILLED_TABLES, tmp_path, edges, tmp_path / "g.aeg", features, labels)
    assert done.returncode == -signal.SIGKILL
    left = {path.name for path in tmp_path.iterdir() if path.suffix == ".tmp"}
    assert len(left) == 2
    alive = outputs.NpyWriter(tmp_path / "g.labels.npy", np.int64, ())
    alive.append(np.arange(5))
    alive.finish()  # all but the name
    convert(edges, tmp_path / "g.aeg", features=features, labels=labels)
    assert np.load(tmp_path / "g.labels.npy").tolist() == [1, 2, 3]
    alive.commit()
    assert np.load(tmp_path / "g.labels.npy").tolist() == [0, 1, 2, 3, 4]
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".tmp"] == []


def interrupt(inputs: Any, output: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
    """Leave a build behind that has read some of its input."""
    record = Journal.record

    def interrupted(self: Journal, **state: Any) -> None:
        record(self, **state)
        raise Interrupt

    with monkeypatch.context() as patch, pytest.raises(Interrupt):
        patch.setattr(Journal, "record", interrupted)
        convert(inputs, output, memory_budget="4G", **options)
    assert Path(f"{output}.building").exists() and not output.exists()


def test_what_was_not_recorded_is_cut_off(
    small_memory: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, output = write_edges(tmp_path), tmp_path / "g.aeg"
    convert(inputs, tmp_path / "whole.aeg")
    interrupt(inputs, output, monkeypatch)
    with open(f"{output}.building/edges", "ab") as file:
        file.write(b"half a run")
    manifest = json.loads(Path(f"{output}.building/manifest.json").read_text())
    assert manifest["state"]["phase"] == "read"
    assert [one["path"] for one in manifest["command"]["inputs"]] == [str(one) for one in inputs]
    rows = manifest["state"]["rows"]
    done = convert(inputs, output, memory_budget="6G")  # another budget does not matter
    assert 0 < done.edges_read_now == done.read_edges - rows < done.read_edges == 6000
    assert filecmp.cmp(tmp_path / "whole.aeg", output, shallow=False)


def test_another_command_is_refused(
    small_memory: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, output = write_edges(tmp_path), tmp_path / "g.aeg"
    interrupt(inputs, output, monkeypatch, weight="w")
    again: dict[str, Any] = {"memory_budget": "4G"}
    with pytest.raises(InvalidArgumentError, match=r"weight was 'w' and is None.*restart=True"):
        convert(inputs, output, **again)
    with pytest.raises(InvalidArgumentError, match=r"the inputs were .*e1\.parquet and are .*e0"):
        convert(inputs[:1], output, weight="w", **again)
    with pytest.raises(InvalidArgumentError, match="layout was 'csc' and is 'csr'") as caught:
        convert(inputs, output, weight="w", layout="csr", **again)
    assert "The command as it was goes on; restart=True begins anew" in str(caught.value)
    convert(inputs, output, restart=True, **again)
    assert not Path(f"{output}.building").exists()


@pytest.mark.parametrize("grows", [False, True])
def test_an_input_that_was_written_again_is_refused(
    grows: bool, small_memory: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No command goes on then; the message says whether the size differs or the time alone."""
    inputs, output = write_edges(tmp_path), tmp_path / "g.aeg"
    interrupt(inputs, output, monkeypatch)
    size = inputs[1].stat().st_size
    if grows:
        with open(inputs[1], "ab") as file:
            file.write(b"more")
        match = rf"e1\.parquet had {size:,} bytes and has {size + 4:,}\. restart=True"
    else:
        os.utime(inputs[1], ns=(1, 1))
        match = (
            r"e1\.parquet was written again since \(its time differs, not its size\)\. restart=True"
        )
    with pytest.raises(InvalidArgumentError, match=match) as caught:
        convert(inputs, output, memory_budget="4G")
    assert "goes on" not in str(caught.value) and "e0.parquet" not in str(caught.value)


def test_two_builds_of_one_file(
    small_memory: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, output = write_edges(tmp_path), tmp_path / "g.aeg"

    def second(name: str, unit: str) -> Any:
        if name == "Building lists":
            with pytest.raises(InvalidArgumentError, match=f"running in process {os.getpid()}:"):
                convert(inputs, output, memory_budget="4G")
        return lambda done, total: None

    convert(inputs, output, memory_budget="4G", stages=second)
    assert output.exists()


def test_a_build_in_memory_tells_of_a_work_folder(
    small_memory: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is kept, since it may be hours of work, but not in silence; not if it is in use."""
    inputs, output = write_edges(tmp_path), tmp_path / "g.aeg"
    interrupt(inputs, output, monkeypatch)
    expected = f"{output}.building was left by an interrupted build with --memory"
    notes = convert(inputs, output).notes
    assert [note for note in notes if note.startswith(expected)] == notes[-1:]
    assert Path(f"{output}.building").exists()
    convert(inputs, output, memory_budget="4G", force=True)
    assert not any("building" in note for note in convert(inputs, output, force=True).notes)

    def in_use(name: str, unit: str) -> Any:
        if name == "Building lists":
            found = convert(inputs, output, force=True).notes
            assert found and not any("building" in note for note in found)
        return lambda done, total: None

    convert(inputs, output, memory_budget="4G", force=True, stages=in_use)


@pytest.mark.parametrize("text", ["", "{}", '{"version": 99, "command": {}, "state": {}}'])
def test_damaged_manifest(
    text: str, small_memory: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, output = write_edges(tmp_path), tmp_path / "g.aeg"
    interrupt(inputs, output, monkeypatch)
    Path(f"{output}.building/manifest.json").write_text(text)
    with pytest.raises(InvalidArgumentError, match="restart=True begins anew"):
        convert(inputs, output, memory_budget="4G")
    convert(inputs, output, memory_budget="4G", restart=True)


def test_a_number_that_has_changed_in_a_manifest_is_noticed(
    small_memory: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, output = write_edges(tmp_path), tmp_path / "g.aeg"
    interrupt(inputs, output, monkeypatch)
    manifest = Path(f"{output}.building/manifest.json")
    content = json.loads(manifest.read_text())
    content["state"]["another"] = 1
    manifest.write_text(json.dumps(content))
    with pytest.raises(InvalidArgumentError, match="its checksum is wrong"):
        convert(inputs, output, memory_budget="4G")


# ---- a damaged work folder -----------------------------------------------------------------------


def interrupt_in(
    phase: str, inputs: Any, output: Path, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> None:
    """Leave a build behind whose last record is of ``phase``."""
    record = Journal.record

    def interrupted(self: Journal, **state: Any) -> None:
        record(self, **state)
        if state["phase"] == phase:
            raise Interrupt

    with monkeypatch.context() as patch, pytest.raises(Interrupt):
        patch.setattr(Journal, "record", interrupted)
        convert(inputs, output, memory_budget="4G", **options)


def flip(path: Path, rng: np.random.Generator) -> str:
    """Flip one bit of a file; where."""
    at, bit = int(rng.integers(path.stat().st_size)), int(rng.integers(8))
    with path.open("r+b") as file:
        byte = os.pread(file.fileno(), 1, at)[0]
        os.pwrite(file.fileno(), bytes([byte ^ 1 << bit]), at)
    return f"bit {bit} of byte {at} of {path.name}"


def overwrite(path: Path, rng: np.random.Generator) -> str:
    path.write_bytes(b"\xfe" * path.stat().st_size)
    return f"{path.name}, overwritten"


def halve(path: Path, rng: np.random.Generator) -> str:
    os.truncate(path, path.stat().st_size // 2)
    return f"{path.name}, halved"


def remove(path: Path, rng: np.random.Generator) -> str:
    path.unlink()
    return f"{path.name}, removed"


@pytest.mark.parametrize(
    ("phase", "all_columns", "compress"),
    [
        ("read", False, False),
        ("lists", True, False),
        ("turn", False, True),
        ("out", True, False),
        ("out", False, True),
        ("write", True, True),
        ("write", False, False),
    ],
)
def test_a_damaged_work_file_does_not_become_another_graph(
    phase: str,
    all_columns: bool,
    compress: bool,
    small_memory: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Any work file, at any phase: the build refuses to go on, or never reads what is damaged.

    The error names the file and the way out; no remark says that the same command goes on.
    """
    inputs, output = write_edges(tmp_path, 600), tmp_path / "g.aeg"
    folder, kept = Path(f"{output}.building"), tmp_path / "kept"
    options: dict[str, Any] = {"layout": "both", "undirected": True, "compress": compress}
    if all_columns:
        options = {**OPTIONS, "compress": compress}
    convert(inputs, tmp_path / "whole.aeg", **options)
    interrupt_in(phase, inputs, output, monkeypatch, **options)
    shutil.copytree(folder, kept)
    rng, refused = np.random.default_rng(4), dict[str, set[Any]]()
    names = sorted(p.name for p in kept.iterdir() if p.stat().st_size)
    for name in names:
        for damage in (flip, flip, flip, overwrite, halve, remove):
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(kept, folder)
            where = damage(folder / name, rng)
            remarks: list[str] = []
            try:
                convert(inputs, output, memory_budget="4G", remark=remarks.append, **options)
            except (CorruptFileError, InvalidArgumentError) as error:
                assert "g.aeg.building" in str(error), where
                assert "restart=True" in str(error), where
                assert not [text for text in remarks if "same command" in text], where
                assert not output.exists()
                refused.setdefault(name, set()).add(damage)
            else:
                assert filecmp.cmp(tmp_path / "whole.aeg", output, shallow=False), where
                output.unlink()
    assert {flip, overwrite, halve} <= refused["manifest.json"]
    read = {"read": {"edges", "edges.counts"}, "lists": {"edges"}, "out": {"turned"}}
    for name in read.get(phase, set()):
        assert refused[name] == {flip, overwrite, halve, remove}, name
    if phase in ("turn", "out", "write"):
        # The rows of the input, which only turning reads if they are not kept
        unread = set() if all_columns or phase == "turn" else {"list-1"}
        assert {name for name in names if name.startswith("list-")} - unread <= set(refused)
    convert(inputs, output, memory_budget="4G", restart=True, **options)
    assert filecmp.cmp(tmp_path / "whole.aeg", output, shallow=False)


KILLED_REMOVING = """
    import os, signal, sys
    from aethergraph.convert import convert
    from aethergraph.convert.external import builder, driver, lists
    driver.working_memory = lambda budget, parses, threads: 30_000
    lists._GROUP_EDGES, builder.RECORD_SECONDS = 300, 0.0
    left, unlink = int(sys.argv[1]), os.unlink

    def counted(path, **options):
        global left
        if "dir_fd" in options or "building" in os.fspath(path):
            left -= 1
            if left == 0 and os.path.exists(sys.argv[2]):
                os.kill(os.getpid(), signal.SIGKILL)
            left = max(left, 1)
        unlink(path, **options)

    os.unlink = counted
    convert(sys.argv[3:], sys.argv[2], memory_budget="4G", layout="both", force=True)
"""


def test_killed_while_the_work_folder_is_removed(
    small_memory: None, tmp_path: Path, python: WarmPython
) -> None:
    """What is left of it does not count as an interrupted build."""
    inputs, output = write_edges(tmp_path, 300), tmp_path / "g.aeg"
    convert(inputs, tmp_path / "whole.aeg", layout="both")
    for left in range(1, 50, 4):
        output.unlink(missing_ok=True)
        done = run(python, KILLED_REMOVING, tmp_path, left, output, *inputs)
        assert output.exists(), done.stderr
        convert(inputs, output, memory_budget="4G", layout="both", force=True)
        assert filecmp.cmp(tmp_path / "whole.aeg", output, shallow=False)
        assert not Path(f"{output}.building").exists()
        if done.returncode == 0:
            break
    assert 5 < left < 49


# ---- bad inputs -------------------------------------------------------------------------------


def test_a_bad_id_is_named_and_nothing_left(small_memory: None, tmp_path: Path) -> None:
    lines = ["src,dst", *(f"{i % 50},{i % 30}" for i in range(5000))]
    lines[4321] = "7,x"
    (tmp_path / "e.csv").write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"e\.csv, line 4322, column 2 \(dst\).*'x'") as caught:
        convert(tmp_path / "e.csv", tmp_path / "g.aeg", memory_budget="4G")
    assert caught.value.line == 4322
    pairs = np.zeros((900, 2), np.int64)
    pairs[777, 1] = -4
    np.save(tmp_path / "e.npy", pairs)
    with pytest.raises(InputError, match=r"e\.npy, row 778, column 2.*-4 is negative"):
        convert(tmp_path / "e.npy", tmp_path / "g.aeg", memory_budget="4G")
    with pytest.raises(InputError, match=r"e\.npy, row 778"):
        convert(tmp_path / "e.npy", tmp_path / "g.aeg", memory_budget="4G", num_nodes=10)
    assert sorted(os.listdir(tmp_path)) == ["e.csv", "e.npy"]


@pytest.mark.parametrize("budget", [None, "4G"])
def test_an_npy_file_that_shrinks(
    budget: str | None, small_memory: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "e.npy"
    np.save(path, np.arange(4000).reshape(-1, 2) % 100)
    load = NpyColumns.load

    def shrinking(self: NpyColumns, start: int, stop: int) -> None:
        if start >= 1000:
            os.truncate(path, 9000)
        load(self, start, stop)

    monkeypatch.setattr(NpyColumns, "load", shrinking)
    with pytest.raises(InputError, match=r"e\.npy: has become shorter"):
        convert(path, tmp_path / "g.aeg", memory_budget=budget)
    assert os.listdir(tmp_path) == ["e.npy"]


@pytest.mark.parametrize("budget", [None, "4G"])
def test_a_text_file_that_shrinks(
    budget: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 1 << 14)
    path = tmp_path / "e.csv"
    path.write_text("10,11\n" * 40_000)

    def stages(name: str, unit: str) -> Any:
        return lambda done, total: os.truncate(path, 120_000) if done < total else None

    with pytest.raises(InputError, match=r"e\.csv: changed while it was read: it had 240,000"):
        convert(path, tmp_path / "g.aeg", memory_budget=budget, stages=stages)
    assert os.listdir(tmp_path) == ["e.csv"]


def write_table(path: Path, rows: int, value: int) -> None:
    """A table whose size does not depend on ``value``, 10 to 99."""
    if path.suffix == ".npy":
        np.save(path, np.full((rows, 2), value))
    elif path.suffix == ".parquet":
        ids = np.full(rows, value)
        table = pa.table({"src": ids, "dst": ids})
        pq.write_table(table, path, use_dictionary=False, compression="none", row_group_size=1000)
    else:
        line = f"{value}\n" if path.name.startswith("labels") else f"{value},{value}\n"
        path.write_text(line * rows)


@pytest.mark.parametrize(
    ("how", "budget"), [("in place", None), ("time restored", "4G"), ("replaced", None)]
)
@pytest.mark.parametrize("name", ["e.csv", "e.parquet", "e.npy", "labels.csv", "features.csv"])
def test_an_input_that_is_rewritten_with_the_same_size(
    name: str, how: str, budget: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of its reading: part of the graph would be of the old file, part of the new."""
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 1 << 14)
    edges, path = tmp_path / "e.csv", tmp_path / name
    inputs = sorted({edges.name, name})
    rows = 20_000 if name.startswith("e") else 101
    write_table(edges, 1000, 10)
    write_table(path, rows, 10)
    if how == "replaced":
        write_table(tmp_path / f"{path.stem}.new{path.suffix}", rows, 11)
    before, tables = path.stat(), {}
    if not name.startswith("e"):
        tables[path.stem] = path
    rewritten: list[str] = []

    def stages(stage: str, unit: str) -> Any:
        def progress(done: int, total: int) -> None:
            if rewritten or stage.startswith("Reading edges") != name.startswith("e"):
                return
            rewritten.append(stage)
            if how == "replaced":
                (tmp_path / f"{path.stem}.new{path.suffix}").replace(path)
            else:
                write_table(path, rows, 11)
            if how == "time restored":
                os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
            assert path.stat().st_size == before.st_size

        return progress if stage.startswith("Reading") else lambda done, total: None

    source = path if name.startswith("e") else edges
    with pytest.raises(InputError, match=rf"{name}: changed while it was read: it was written to"):
        convert(source, tmp_path / "g.aeg", memory_budget=budget, stages=stages, **tables)
    assert rewritten
    assert sorted(os.listdir(tmp_path)) == inputs


def test_a_missing_input(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match=r"no\.csv: no such file"):
        convert(tmp_path / "no.csv", tmp_path / "g.aeg", memory_budget="4G")
    assert os.listdir(tmp_path) == []


def test_no_edges(small_memory: None, tmp_path: Path) -> None:
    pq.write_table(pa.table({"src": pa.array([], "int64"), "dst": []}), tmp_path / "e.parquet")
    with pytest.raises(InputError):
        convert(tmp_path / "e.parquet", tmp_path / "g.aeg", memory_budget="4G")
    assert os.listdir(tmp_path) == ["e.parquet"]


# ---- the disk ------------------------------------------------------------------------------------

LIMITED = """
    import resource, signal, sys
    from aethergraph.convert import convert
    from aethergraph.convert.external import driver
    from aethergraph.errors import StorageError
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    driver.working_memory = lambda budget, formats, threads: 100_000
    limit = int(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        convert(sys.argv[1], sys.argv[2], memory_budget="4G", remark=print)
    except StorageError as error:
        print("refused:", error.errno, error)
"""


@pytest.mark.parametrize("limit", [50_000, 300_000, 420_000])
def test_files_that_may_not_grow(limit: int, tmp_path: Path, python: WarmPython) -> None:
    """Fails in reading (400 KB of records), or in writing the file (330 KB of lists and more)."""
    np.save(tmp_path / "e.npy", np.arange(100_000).reshape(-1, 2) % 40_000)
    output = tmp_path / "g.aeg"
    done = run(python, LIMITED, tmp_path, tmp_path / "e.npy", output, limit)
    assert f"refused: {errno.EFBIG}" in done.stdout and "cannot write" in done.stdout
    assert not output.exists()
    left = [name for name in os.listdir(tmp_path) if name not in ("e.npy", "g.aeg.building")]
    assert left == []
    convert(tmp_path / "e.npy", tmp_path / "whole.aeg")
    convert(tmp_path / "e.npy", output, memory_budget="4G")
    assert filecmp.cmp(tmp_path / "whole.aeg", output, shallow=False)


@pytest.mark.slow
def test_a_full_disk(small_memory: None, tmp_path: Path) -> None:
    """The error names the file, and with more room the same command goes on."""
    np.save(tmp_path / "e.npy", np.random.default_rng(0).integers(0, 20_000, (200_000, 2)))
    convert(tmp_path / "e.npy", tmp_path / "whole.aeg")
    with small_disk(tmp_path / "disk", "1M") as disk:
        output = disk / "g.aeg"
        remarks: list[str] = []
        with pytest.raises(DiskFullError, match=r"cannot write .*No space") as caught:
            convert(tmp_path / "e.npy", output, memory_budget="4G", remark=remarks.append)
        assert caught.value.errno == errno.ENOSPC
        assert os.listdir(disk) == ["g.aeg.building"]
        assert "the same command goes on from there" in remarks[-1]
        subprocess.run(["mount", "-o", "remount,size=16M", str(disk)], check=True)
        convert(tmp_path / "e.npy", output, memory_budget="4G", remark=remarks.append)
        assert "going on with an interrupted build" in remarks[-1]
        assert filecmp.cmp(tmp_path / "whole.aeg", output, shallow=False)
        assert os.listdir(disk) == ["g.aeg"]


# ---- memory --------------------------------------------------------------------------------------

#: In the soak; the others have what these have.
RARE_FORMS = [("npy", False), ("parquet", False)] if "AETHERGRAPH_SOAK" in os.environ else []

MEASURED = r"""
    import re, sys
    from pathlib import Path
    from aethergraph.convert import convert
    convert(sys.argv[1], sys.argv[2], layout="both", memory_budget=sys.argv[3] or None,
            compress=sys.argv[4] == "True")
    print(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text()).group(1))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "compress"), [("npy", True), ("csv", False), *RARE_FORMS])
def test_the_budget_is_kept(suffix: str, compress: bool, tmp_path: Path) -> None:
    """Under a limit that the build in memory does not survive; the page cache counts too."""
    edges, budget = 12_000_000, 288 << 20
    rng = np.random.default_rng(0)
    pairs = np.floor(500_000 * rng.random((edges, 2)) ** 2).astype(np.int64)
    path = tmp_path / f"e.{suffix}"
    if suffix == "npy":
        np.save(path, pairs)
    else:
        table = pa.table({"src": pairs[:, 0], "dst": pairs[:, 1]})
        write = pq.write_table if suffix == "parquet" else pacsv.write_csv
        write(table, path)
    with memory_group() as group:
        if group is not None:
            group.set_limit(budget)

        def run(output: str, memory: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-c", textwrap.dedent(MEASURED)]
            return subprocess.run(
                [*command, path, tmp_path / output, memory, str(compress)],
                capture_output=True, text=True, check=False,
                preexec_fn=None if group is None else group.enter,
            )  # fmt: skip

        done = run("bounded.aeg", "288M")
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) * 1024 <= budget
        if group is not None:
            assert run("memory.aeg", "").returncode == -signal.SIGKILL
    convert(path, tmp_path / "whole.aeg", layout="both", compress=compress)
    assert filecmp.cmp(tmp_path / "whole.aeg", tmp_path / "bounded.aeg", shallow=False)
