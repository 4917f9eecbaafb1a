"""Builds within a memory budget give the very files that builds in memory give."""

from __future__ import annotations

import filecmp
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.strategies import examples

from aethergraph import FeatureTable, Graph
from aethergraph import _native as native
from aethergraph.convert import InputError, convert, convert_chunks
from aethergraph.convert.external import encoded
from aethergraph.convert.external.array_files import ColumnFiles
from aethergraph.convert.external.lists import ListBuilder, ListOrder
from aethergraph.convert.external.runs import PARTS, Part, Run, RunWriter, Spill
from aethergraph.errors import (
    InvalidArgumentError,
    LimitError,
    MissingFileError,
    OutOfRangeError,
    UnsupportedError,
)


def edge_table(seed: int, edges: int, nodes: int, shape: str, times: str) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, nodes, edges), rng.integers(0, nodes, edges)
    if shape == "skewed":
        src, dst = (np.floor(nodes * rng.random(edges) ** 4).astype(np.int64) for _ in range(2))
    elif shape == "hub":
        dst[rng.random(edges) < 0.8] = nodes // 2
        src[rng.random(edges) < 0.4] = 0
    elif shape == "sorted":
        dst = np.sort(dst)
    time: NDArray[Any] = rng.integers(-3, 4 if times == "few" else 10**12, edges)
    if times == "floats":
        time = np.where(time % 5 == 0, -0.0, time / 7)
    return {
        "src": src,
        "dst": dst,
        "w": rng.random(edges),
        "t": time,
        "a": rng.integers(-5, 5, edges),
        "b": rng.random(edges).astype(np.float32),
    }


@examples(40)
@given(
    seed=st.integers(0, 2**32),
    edges=st.integers(1, 3000),
    nodes=st.sampled_from([1, 7, 300, 5000]),
    shape=st.sampled_from(["even", "skewed", "hub", "sorted"]),
    times=st.sampled_from(["none", "few", "many", "floats"]),
    values=st.booleans(),
    layout=st.sampled_from(["csc", "csr", "both"]),
    options=st.sampled_from(
        [{}, {"keep_order": True}, {"undirected": True}, {"dedup": True}]
        + [{"undirected": True, "dedup": True}]
    ),
    more_nodes=st.sampled_from([None, 0, 3000]),
    compress=st.booleans(),
)
def test_same_file_as_in_memory(
    small_memory: None,
    tmp_path: Path,
    seed: int,
    edges: int,
    nodes: int,
    shape: str,
    times: str,
    values: bool,
    layout: Any,
    options: dict[str, bool],
    more_nodes: int | None,
    compress: bool,
) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(pa.table(edge_table(seed, edges, nodes, shape, times)), path)
    asked: dict[str, Any] = {
        "layout": layout, "force": True, "compress": compress, **options
    }  # fmt: skip
    if times != "none":
        asked["time_column"] = "t"
    if values:
        asked |= {"weight": "w", "attrs": ["z/both=a,b:float64", "a"]}
    if more_nodes is not None:
        asked["num_nodes"] = nodes + more_nodes
    whole = convert(path, tmp_path / "whole.aeg", **asked)
    bounded = convert(path, tmp_path / "bounded.aeg", memory_budget="4G", **asked)
    assert filecmp.cmp(tmp_path / "whole.aeg", tmp_path / "bounded.aeg", shallow=False)
    assert (bounded.num_nodes, bounded.num_edges) == (whole.num_nodes, whole.num_edges)
    assert bounded.read_edges == whole.read_edges and bounded.notes == whole.notes
    assert not (tmp_path / "bounded.aeg.building").exists()


# ---- inputs ------------------------------------------------------------------------------------


def write_parts(folder: Path, suffix: str) -> tuple[list[Path], Path]:
    """The same edges in three files of one form, and in one file."""
    table = pa.table({k: v for k, v in edge_table(1, 3000, 200, "even", "few").items() if k < "t"})
    paths = [folder / f"part-{i}.{suffix}" for i in range(3)]
    for i, path in enumerate(paths):
        some = table.slice(1000 * i, 1000)
        if suffix == "npy":
            np.save(path, np.stack([some["src"], some["dst"]], axis=i % 2))
        elif suffix == "parquet":
            pq.write_table(some, path, row_group_size=300)
        elif suffix == "csv":
            pacsv.write_csv(some, path)
        else:
            codec = {"gz": "gzip", "zst": "zstd"}[suffix.split(".")[-1]]
            with pa.CompressedOutputStream(str(path), codec) as stream:
                pacsv.write_csv(some, stream)
    pacsv.write_csv(table, folder / "all.csv")
    return paths, folder / "all.csv"


def test_a_pattern_without_matches(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match=r"none-\*\.csv: no file matches"):
        convert(tmp_path / "none-*.csv", tmp_path / "g.aeg", memory_budget="4G")


def test_a_name_that_looks_like_a_pattern_is_a_name(tmp_path: Path) -> None:
    path = tmp_path / "edges[1].csv"
    path.write_text("0,1\n")
    assert convert(path, tmp_path / "g.aeg").num_edges == 1


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "csv.zst", "parquet", "npy"])
@pytest.mark.parametrize("place", ["folder", "file://", "memory://"])
def test_several_files_of_every_form(
    small_memory: None, suffix: str, place: str, tmp_path: Path
) -> None:
    """By path and by URL, one by one and by a pattern."""
    paths, whole = write_parts(tmp_path, suffix)
    convert(whole, tmp_path / "whole.aeg")
    base = str(tmp_path)
    if place != "folder":
        fsspec = pytest.importorskip("fsspec")
        base = tmp_path.as_uri()
    if place == "memory://":
        base = f"memory://{tmp_path.name}"
        for path in paths:
            fsspec.filesystem("memory").pipe(f"/{tmp_path.name}/{path.name}", path.read_bytes())
    for inputs in ([f"{base}/{path.name}" for path in paths], f"{base}/part-*.{suffix}"):
        for budget in (None, "4G"):
            convert(inputs, tmp_path / "parts.aeg", memory_budget=budget, force=True)
            assert filecmp.cmp(tmp_path / "whole.aeg", tmp_path / "parts.aeg", shallow=False)


def test_urls_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(MissingFileError, match=r"memory://none/x\.csv: no such file"):
        convert("memory://none/x.csv", tmp_path / "g.aeg", memory_budget="4G")
    with pytest.raises(UnsupportedError, match="nosuch"):
        convert("nosuch://x.csv", tmp_path / "g.aeg")
    with pytest.raises(UnsupportedError, match="only edges may be given by URL"):
        convert("memory://x.csv", tmp_path / "g.aeg", features="memory://x.npy")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'aethergraph\[fsspec\]'"):
        convert("memory://x.csv", tmp_path / "g.aeg")


# ---- what comes beside the edges ----------------------------------------------------------------


@pytest.mark.parametrize(("suffix", "dtype"), [("csv", "bfloat16"), ("parquet", None)])
def test_features_and_labels_by_id(
    small_memory: None, suffix: str, dtype: str | None, tmp_path: Path
) -> None:
    """Tables much larger than the budget, in the order of their ids."""
    rng = np.random.default_rng(0)
    nodes = 3000
    np.save(tmp_path / "e.npy", rng.integers(0, nodes, (2, 5000)))
    columns = {f"f{i}": rng.random(nodes).astype(np.float32) for i in range(5)}
    tables = {
        "x": pa.table({"id": rng.permutation(nodes), **columns}),
        "y": pa.table({"label": rng.integers(0, 9, nodes), "id": rng.permutation(nodes)}),
    }
    write = pacsv.write_csv if suffix == "csv" else pq.write_table
    for name, table in tables.items():
        write(table, tmp_path / f"{name}.{suffix}")
    found = []
    for budget in (None, "4G"):
        result = convert(
            tmp_path / "e.npy", tmp_path / "g.aeg", memory_budget=budget, force=True, dtype=dtype,
            features=tmp_path / f"x.{suffix}", labels=tmp_path / f"y.{suffix}", id_column="id",
        )  # fmt: skip
        assert result.features is not None and result.labels is not None
        names = (result.graph, result.features, result.labels)
        found.append([Path(name).read_bytes() for name in names])
    assert found[0] == found[1]
    assert len(os.listdir(tmp_path)) == 6


def test_other_features_and_labels(small_memory: None, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("0,1\n1,2\n2,0\n")
    np.save(tmp_path / "x.npy", np.asfortranarray(np.arange(12.0).reshape(3, 4)))
    (tmp_path / "y.csv").write_text("label\n5\n6\n7\n")
    np.save(tmp_path / "y.npy", np.array([[1.0], [np.nan], [2.0]]))
    for labels, expected in (("y.csv", [5, 6, 7]), ("y.npy", [1, -1, 2])):
        result = convert(
            tmp_path / "e.csv", tmp_path / "g.aeg", memory_budget="4G", force=True,
            features=tmp_path / "x.npy", features_out=tmp_path / "x.bin",
            labels=tmp_path / labels,
        )  # fmt: skip
        assert result.features is not None and result.labels is not None
        rows = FeatureTable.load(result.features).gather(np.arange(3))
        assert rows.tolist() == np.arange(12.0).reshape(3, 4).tolist()
        assert np.load(result.labels).tolist() == expected


@pytest.mark.parametrize(
    ("ids", "match"),
    [
        ([0, 2, 3], "the node id 1 is missing: 3 rows need the ids 0..2"),
        ([0, 1, 1], "the node id 1 comes twice"),
        ([5, 6, 7], "the node id 0 is missing"),
        (range(1, 2002), "the node id 0 is missing: 2001 rows"),
        ([*range(2000), 2003], "the node id 2000 is missing"),
    ],
)
def test_ids_of_features_that_do_not_fit(
    ids: Sequence[int], match: str, small_memory: None, tmp_path: Path
) -> None:
    (tmp_path / "e.csv").write_text("0,1\n1,2\n2,0\n")
    (tmp_path / "x.csv").write_text("id,f\n" + "".join(f"{i},1\n" for i in ids))
    for budget in (None, "4G"):
        with pytest.raises(InputError, match=match):
            convert(
                tmp_path / "e.csv", tmp_path / "g.aeg", memory_budget=budget,
                features=tmp_path / "x.csv", id_column="id",
            )  # fmt: skip
        assert sorted(os.listdir(tmp_path)) == ["e.csv", "x.csv"]


def test_an_id_of_features_that_is_far_too_large(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("0,1\n1,2\n2,0\n")
    (tmp_path / "x.csv").write_text("id,f\n0,1\n1700000000000,1\n1,1\n")
    with pytest.raises(InputError, match=r"1700000000000 is too large: 3 rows need the ids 0\.\.2"):
        convert(
            tmp_path / "e.csv", tmp_path / "g.aeg", memory_budget="4G",
            features=tmp_path / "x.csv", id_column="id",
        )  # fmt: skip
    assert sorted(os.listdir(tmp_path)) == ["e.csv", "x.csv"]


def test_rows_too_wide_to_be_sorted(tmp_path: Path) -> None:
    np.save(tmp_path / "e.npy", np.array([[0, 1], [1, 2], [2, 0]]))
    wide = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(3 * 20_000, np.float32)), 20_000)
    pq.write_table(pa.table({"id": [2, 0, 1], "x": wide}), tmp_path / "x.parquet")

    def made(budget: str | None) -> None:
        convert(
            tmp_path / "e.npy", tmp_path / "g.aeg", memory_budget=budget,
            features=tmp_path / "x.parquet", id_column="id",
        )  # fmt: skip

    with pytest.raises(LimitError, match=r"80,008 bytes.* convert without a memory budget"):
        made("4G")
    made(None)


# ---- edges from a program ------------------------------------------------------------------------


def test_chunks_are_as_from_edges(small_memory: None, tmp_path: Path) -> None:
    table = edge_table(3, 5000, 90, "hub", "few")
    image = np.random.default_rng(1).integers(0, 255, (5000, 2, 3)).astype(np.uint8)

    def chunks() -> Iterator[Any]:
        for begin, end in itertools.pairwise((0, 0, 1700, 1701, 4000, 5000, 5000)):
            rows = slice(begin, end)
            values = {"weight": table["b"][rows], "time": table["t"][rows], "pixels": image[rows]}
            yield table["src"][rows].astype(np.uint16), table["dst"][rows], values

    result = convert_chunks(
        chunks(), tmp_path / "chunks.aeg", memory_budget="4G", layout="both", keep_order=True
    )
    graph = Graph.from_edges(
        None, table["src"], table["dst"], edge_weight=table["b"], edge_time=table["t"],
        edge_attrs={"pixels": image}, layout="both", keep_order=True,
    )  # fmt: skip
    graph.save(tmp_path / "whole.aeg")
    assert result.num_edges == 5000 and result.num_nodes == graph.num_nodes
    assert filecmp.cmp(tmp_path / "whole.aeg", tmp_path / "chunks.aeg", shallow=False)
    assert sorted(os.listdir(tmp_path)) == ["chunks.aeg", "whole.aeg"]


@pytest.mark.parametrize(
    ("chunks", "error", "match"),
    [
        ([([0, 1], [1, 2]), ([0, -1], [1, 2])], OutOfRangeError, r"chunk 1: src\[1\] = -1"),
        ([([0, 9], [1, 2])], OutOfRangeError, r"chunk 0: src\[1\] = 9 is not in"),
        ([([0], [1, 2])], InvalidArgumentError, "chunk 0: src has 1 ids, but dst has 2"),
        ([([0], [1]), ([0], [1], {"weight": [1.0]})], InvalidArgumentError, "chunk 1: has the val"),
        ([([0], [1], {"weight": [np.nan]})], InvalidArgumentError, "chunk 0: weight"),
        ([([0], [1], {"x": ["a"]})], InvalidArgumentError, "chunk 0: x must have a row"),
        ([np.zeros((2, 5))], InvalidArgumentError, r"chunk 0: a chunk of edges is \(src, dst\)"),
        ([], InvalidArgumentError, "no edges"),
    ],
)
def test_bad_chunks(chunks: Any, error: type[Exception], match: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=match):
        convert_chunks(chunks, tmp_path / "g.aeg", memory_budget="4G", num_nodes=5)
    assert os.listdir(tmp_path) == []


# ---- beyond 32 bits ------------------------------------------------------------------------------


def test_ids_beyond_32_bits(tmp_path: Path) -> None:
    """Runs of narrow ids are read beside later ones of wide ids; far lists are found."""
    far = 3 << 32
    spilled = Spill(str(tmp_path / "s"), "major", [("edge", np.dtype(np.uint64), 1)])
    writer = RunWriter(spilled, 4000)
    rng = np.random.default_rng(0)
    major = np.concatenate([rng.integers(0, 1000, 500), far + rng.integers(0, 50, 500)])
    minor = rng.integers(0, 2**33, 1000)
    minor[:500] %= 1000
    number = np.arange(1000, dtype=np.uint64) + np.uint64(2**40)
    for begin in range(0, 1000, 100):
        rows = slice(begin, begin + 100)
        largest = int(max(major[rows].max(), minor[rows].max()))
        writer.add(major[rows], minor[rows], [number[rows]], largest)
    writer.close()
    assert {run.id_bytes for run in spilled.runs} == {4, 8}
    found = [
        spilled.read(part.pieces) for part in spilled.parts(far + 50) if part.count
    ]  # fmt: skip
    records = np.concatenate(found)
    order = np.argsort(records["major"], kind="stable")
    expected = np.argsort(major, kind="stable")
    assert (records["minor"][order] == minor[expected]).all()
    assert (records["edge"][order] == number[expected]).all()
    spilled.remove()


def test_offsets_beyond_32_bits(tmp_path: Path) -> None:
    """A file whose first 5 billion records are a hole: the last ones are read where they are."""
    count = 5 * 10**9
    spilled = Spill(str(tmp_path / "s"), "major", [])
    counts = np.zeros(PARTS, np.uint64)
    counts[0], counts[3] = count, 2
    os.truncate(spilled.path, count * 8)
    last = np.array([(3, 8), (3, 9)], spilled.dtype(4))
    with open(spilled.path, "r+b") as file:
        file.seek(count * 8)
        file.write(last.tobytes())
    spilled.restore([Run(0, count + 2, 4, 0, counts)])
    parts = [part for part in spilled.parts(10) if part.count]
    assert [(part.low, part.count) for part in parts] == [(0, count), (3, 2)]
    assert spilled.read(parts[1].pieces).tolist() == [(3, 8), (3, 9)]
    files = ColumnFiles(str(tmp_path / "c-"), {"minor": (np.dtype(np.uint32), 1)})
    files.edges = count  # as if so many had been appended
    ListBuilder(
        spilled, files, ListOrder(), 1 << 20, 1, str(tmp_path / "t"), lambda: None
    )._build_large(spilled, Part(3, 4, 2, parts[1].pieces))
    files.append_empty(9)
    assert files.read("indptr", 1, 2).tolist() == [count + 2]
    assert files.read("minor", count, count + 2).tolist() == [8, 9]
    assert [first for first, _ in itertools.islice(files.edges_from(count, 10), 1)] == [count]
    files.close()
    spilled.remove()


def test_edge_numbers_of_both_layouts_are_as_wide_as_needed() -> None:
    assert native.id_dtype(native.id_bytes_for(2**32)) == np.uint64
    assert native.id_dtype(native.id_bytes_for(2**32 - 1)) == np.uint32


# ---- what cannot be ------------------------------------------------------------------------------


def test_options_that_contradict(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("0,1\n")
    for options, match in (
        ({"undirected": True, "keep_order": True}, "reverse edges"),
        ({"dedup": True, "keep_order": True}, "within a memory budget cannot keep the order"),
    ):
        with pytest.raises(InvalidArgumentError, match=match):
            convert(tmp_path / "e.csv", tmp_path / "g.aeg", memory_budget="4G", **options)
    assert os.listdir(tmp_path) == ["e.csv"]


@pytest.mark.parametrize(("layout", "wide"), [("both", False), ("csc", True)])
def test_many_pieces_are_compressed(
    small_memory: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, layout: Any, wide: bool
) -> None:
    if wide:
        monkeypatch.setattr(native, "id_bytes_for", lambda nodes: 8)
    monkeypatch.setattr(encoded, "_COPY_WORDS", 7)
    table = edge_table(3, 10_000, 900, "skewed", "none")
    np.save(tmp_path / "e.npy", np.stack([table["src"], table["dst"]]))
    asked: Any = {"layout": layout, "compress": True}
    convert(tmp_path / "e.npy", tmp_path / "whole.aeg", **asked)
    convert(tmp_path / "e.npy", tmp_path / "bounded.aeg", memory_budget="4G", **asked)
    assert filecmp.cmp(tmp_path / "whole.aeg", tmp_path / "bounded.aeg", shallow=False)
    found = Graph.load(tmp_path / "bounded.aeg")
    assert found.compressed
    found.verify()


def test_a_budget_that_is_too_small_names_the_least(tmp_path: Path) -> None:
    np.save(tmp_path / "e.npy", np.array([[0, 1], [1, 0]]))
    with pytest.raises(InvalidArgumentError, match=r"too small: the least is (\d+)M") as caught:
        convert(tmp_path / "e.npy", tmp_path / "g.aeg", memory_budget="20M")
    least = str(caught.value).split("the least is ")[1].split("M")[0]
    script = (
        "import sys; from aethergraph.convert import convert; "
        "convert(sys.argv[1], sys.argv[2], memory_budget=sys.argv[3])"
    )
    # A fresh process takes less by itself than the one of the tests.
    command = [sys.executable, "-c", script, tmp_path / "e.npy", tmp_path / "g.aeg", f"{least}M"]
    assert subprocess.run(command, check=False).returncode == 0


def test_discarded_parts_leave_the_disk(tmp_path: Path) -> None:
    """Of two runs, one with finer parts; what is left is read as before."""
    rng = np.random.default_rng(0)
    spilled = Spill(str(tmp_path / "s"), "major", [])
    for high in (PARTS, 4 * PARTS):
        writer = RunWriter(spilled, 8 << 20, high=high - 1)
        writer.add(*rng.integers(0, high, (2, 200_000)), [], high - 1)
        writer.close()
    assert [run.shift for run in spilled.runs] == [0, 2]
    parts = spilled.parts(4 * PARTS)
    before = [spilled.read(part.pieces).tolist() for part in parts]
    blocks = os.stat(spilled.path).st_blocks
    for place in (100, 700):
        spilled.discard(parts[place].low)
        for part, records in zip(parts[place:], before[place:], strict=True):
            assert spilled.read(part.pieces).tolist() == records
    assert os.stat(spilled.path).st_size == spilled.size
    if os.stat(spilled.path).st_blocks == blocks:
        pytest.skip("files cannot have holes here")
    assert os.stat(spilled.path).st_blocks < 0.3 * blocks
    spilled.discard(4 * PARTS)
    assert os.stat(spilled.path).st_blocks <= 4 * 8  # pages at both ends of the runs
    spilled.remove()


def test_part_counts_are_merged_as_ranges_widen(tmp_path: Path) -> None:
    spilled = Spill(str(tmp_path / "s"), "major", [])
    writer = RunWriter(spilled, 2 * 8 * 100)
    rng = np.random.default_rng(0)
    sent = []
    for high in (500, 3000, 100_000):
        major = rng.integers(0, high, 100)
        writer.add(major, major, [], high)
        sent.append(major)
    writer.close()
    assert sorted({run.shift for run in spilled.runs}) == [0, 2, 7]
    everything = np.sort(np.concatenate(sent))
    read = [np.sort(spilled.read(part.pieces)["major"]) for part in spilled.parts(100_000)]
    assert (np.concatenate(read) == everything).all()
    spilled.remove()
