"""FileSource: files that grow while they are read, folders that fill, and files that go wrong."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import time
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.ingesting import edges, letters, opened, small, wait_for_edges
from support.threads import WAIT, comes, run_together

from aethergraph import DynamicGraph, DynamicHeteroGraph, errors
from aethergraph.streaming import FileSource, Ingestor, Schema, files

JSON = Schema.json(src="u", dst="v")


def line(u: int, v: int) -> str:
    return json.dumps({"u": u, "v": v}) + "\n"


def ends(graph: Any) -> list[int]:
    return sorted(graph.snapshot().edge_list()[1].tolist())


def test_a_file_that_grows_by_pieces_of_lines(tmp_path: Path) -> None:
    path, graph = tmp_path / "e.jsonl", small()
    text = "".join(line(1, v) for v in range(2000))
    path.touch()

    def write() -> None:
        rng, at = np.random.default_rng(0), 0
        with open(path, "a", buffering=1) as file:
            while at < len(text):
                size = int(rng.integers(1, 3000))
                file.write(text[at : at + size])
                file.flush()
                at += size
                time.sleep(0.001)

    with Ingestor(graph, FileSource(path, JSON, interval=0.001)) as ingestor:
        run_together(write)
        ingestor.drain(WAIT)
    assert ends(graph) == list(range(2000))


def test_an_unfinished_line_waits_for_its_end_and_nobody_for_it(tmp_path: Path) -> None:
    path, graph = tmp_path / "e.jsonl", small()
    path.write_text(line(1, 1) + line(1, 22)[:-3])
    with Ingestor(graph, FileSource(path, JSON, interval=0.001)) as ingestor:
        ingestor.drain(WAIT)
        assert ends(graph) == [1] and not ingestor.stats().lag
        with open(path, "a") as file:
            file.write(line(1, 22)[-3:])
        ingestor.drain(WAIT)
        assert ends(graph) == [1, 22]
    path.write_text(line(1, 1) + line(1, 22)[:-1])  # complete: the last line needs no end
    Ingestor(graph, FileSource(path, JSON, name="n", follow=False, growing=False)).run()
    assert ends(graph) == [1, 1, 22, 22]


def test_a_folder_that_fills_by_renaming(tmp_path: Path) -> None:
    graph, names = small(), ["b", "a", "d", "c"]
    with Ingestor(graph, FileSource(tmp_path, JSON, interval=0.001, pattern="*.jsonl")) as ingestor:
        for number, name in enumerate(names):
            unfinished = tmp_path / f".{name}.jsonl"
            unfinished.write_text("".join(line(number, 10 * number + v) for v in range(10)))
            (tmp_path / f"{name}.txt").write_text("of somebody else")
            (tmp_path / f"_{name}.jsonl").write_text("in work")
            unfinished.rename(tmp_path / f"{name}.jsonl")
            time.sleep(0.01)
        wait_for_edges(ingestor, 40)
    assert ends(graph) == list(range(40)) and len(graph.offsets(tmp_path.name)) == 4
    os.unlink(tmp_path / "a.jsonl")  # what was read may go
    (tmp_path / "e.jsonl").write_text(line(1, 100))
    Ingestor(graph, FileSource(tmp_path, JSON, follow=False, pattern="*.jsonl")).run()
    assert ends(graph) == [*range(40), 100]


def test_folders_in_the_folder(tmp_path: Path) -> None:
    """As Flink's file sink makes one an hour, and Spark one for each value of a column."""
    graph = small()
    folder, other = tmp_path / "in", tmp_path / "other"
    for number, name in enumerate(("day=1/a", "day=2/hour=3/a", "_delta_log/a", ".staging/a", "a")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(line(1, number))
    other.mkdir()
    (other / "a").write_text(line(1, 9))
    (folder / "linked").symlink_to(other)
    Ingestor(graph, FileSource(folder, JSON, follow=False)).run()
    assert ends(graph) == [0, 1, 4] and len(graph.offsets("in")) == 3
    with opened(FileSource(folder, JSON, name="errors", follow=False)) as source:
        assert sorted(source.describe(one) for one in source.lag()) == [
            "file a", "file day=1/a", "file day=2/hour=3/a",
        ]  # fmt: skip


def test_files_may_only_grow(tmp_path: Path) -> None:
    path, graph = tmp_path / "e.jsonl", small()
    path.write_text("".join(line(1, v) for v in range(10)))
    Ingestor(graph, FileSource(path, JSON, follow=False)).run()
    path.write_text(line(1, 1))
    with pytest.raises(errors.SourceError, match="bytes were read of it, and now it has"):
        Ingestor(graph, FileSource(path, JSON, follow=False)).run()
    with opened(FileSource(path, JSON, name="other", interval=0.001)) as source:
        source.poll(1)
        (tmp_path / "new").write_text(line(1, 3))
        (tmp_path / "new").rename(path)
        with pytest.raises(errors.SourceError, match="replaced by another file"):
            source.poll(5)


def test_a_file_that_has_become_a_folder(tmp_path: Path) -> None:
    path, graph = tmp_path / "e.jsonl", small()
    path.write_text(line(1, 1))
    Ingestor(graph, FileSource(path, JSON, follow=False)).run()
    path.unlink()
    path.mkdir()
    (path / "a").write_text(line(1, 2))
    with pytest.raises(errors.SourceError, match=r"was a file, .* read to \d+, and is a folder"):
        Ingestor(graph, FileSource(path, JSON, follow=False)).run()
    Ingestor(graph, FileSource(path, JSON, name="pieces", follow=False)).run()
    assert ends(graph) == [1, 2]
    (path / path.name).write_text(line(1, 3))  # a file in a folder of its name is one of many
    Ingestor(graph, FileSource(path, JSON, name="pieces", follow=False)).run()
    (path / path.name).unlink()
    with pytest.raises(errors.SourceError, match="is a folder"):
        Ingestor(graph, FileSource(path, JSON, follow=False)).run()
    assert ends(graph) == [1, 2, 3]


@pytest.mark.parametrize("form", ["json", "struct"])
def test_a_followed_file_that_is_removed(tmp_path: Path, form: str) -> None:
    """It is read to its end, and nobody waits for more; what was in a folder may go."""
    records = [(1, 2), (3, 4)]
    contents = {"json": "".join(line(*one) for one in records).encode(),
                "struct": np.array(records, "<u2").tobytes()}  # fmt: skip
    schema = {"json": JSON, "struct": Schema.struct([("u", "<u2"), ("v", "<u2")], src="u", dst="v")}
    folder = tmp_path / "in"
    folder.mkdir()
    first, path = contents[form][: len(contents[form]) // 2], folder / "e"
    path.write_bytes(first)
    followed = FileSource(path, schema[form], name="file", interval=0.001)
    filled = FileSource(folder, schema[form], growing=True, interval=0.001)
    with opened(followed) as file, opened(filled) as files:
        for source in (file, files):
            assert source.poll(WAIT)[0].count == 1
        with open(path, "ab") as more:
            more.write(contents[form][len(first) :])
        path.rename(tmp_path / "e.1")  # as a rotation of logs does, before it makes a new one
        for source in (file, files):
            assert source.poll(WAIT)[0].count == 1
        size = len(contents[form])
        message = f"e: No such file or directory, after {size} bytes of it were read: write each"
        with pytest.raises(errors.SourceError, match=message):
            file.poll(WAIT)
        assert files.poll(0.01) == []


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    """Names of files are bytes."""
    path = tmp_path / os.fsdecode(b"e\xff.jsonl")
    path.write_text(line(1, 2) + "{}\n")
    graph = small()
    source = FileSource(tmp_path, JSON, name="n", follow=False)
    stats = Ingestor(graph, source, dead_letter=tmp_path / ".bad").run()
    assert (ends(graph), stats.bad) == ([2], 1)
    Ingestor(graph, FileSource(tmp_path, JSON, name="n", follow=False)).run()
    assert ends(graph) == [2]
    assert letters(tmp_path / ".bad")[0]["reason"].startswith("u (src) is missing")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    graph = small()
    with pytest.raises(errors.SourceError, match="no such file or folder"):
        Ingestor(graph, FileSource(tmp_path / "none", JSON)).run()
    with pytest.raises(errors.SourceError, match="no such file or folder"):
        Ingestor(graph, FileSource(tmp_path / ("a" * 300), JSON)).run()
    (tmp_path / "e.csv").write_text("a,b\n1,2\n")
    with pytest.raises(errors.FormatError, match="there is no column 'u', but a, b"):
        source = FileSource(tmp_path / "e.csv", Schema.csv(src="u", dst="v"), follow=False)
        Ingestor(graph, source).run()
    pytest.importorskip("pyarrow")
    schema = Schema.arrow(src="u", dst="v")
    for name in ("e.parquet", "e.arrow"):
        (tmp_path / name).write_bytes(b"PAR1 or not")
        with pytest.raises(errors.FormatError, match=f"{name} cannot be read"):
            Ingestor(graph, FileSource(tmp_path / name, schema, follow=False)).run()


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        (None, {}, "None is not a file name"),
        (5, {}, "5 is not a file name"),
        ("", {}, "'' is not a file name"),
        ("a\0b", {}, "is not a file name"),
        ("\ud800", {}, "is not a file name"),
        ("e", {"pattern": 5}, r"pattern = 5 is no pattern of names, such as '\*.parquet'"),
        ("e", {"interval": "soon"}, "interval = 'soon' is no time"),
    ],
)
def test_bad_arguments(path: Any, options: Any, message: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=message):
        FileSource(path, Schema.json(src="u", dst="v"), **options)


def test_files_of_avro_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("fastavro")
    written = {"type": "record", "name": "e", "fields": [{"name": n, "type": "int"} for n in "uv"]}
    with pytest.raises(errors.InvalidArgumentError, match="files of Avro"):
        FileSource(tmp_path, Schema.avro(schema=written, src="u", dst="v"))


def test_a_bad_row_of_parquet_is_shown(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"u": [1, None, 3], "v": [1, 2, 30_000]}), tmp_path / "e.parquet")
    graph = small()
    source = FileSource(tmp_path / "e.parquet", Schema.arrow(src="u", dst="v"), follow=False)
    Ingestor(graph, source, dead_letter=tmp_path / "bad").run()
    found = letters(tmp_path / "bad")
    assert [(one["offset"], one["reason"].split(" = ")[0]) for one in found] == [
        (1, "u (src) is missing"), (2, "v (dst)"),
    ]  # fmt: skip


def test_a_page_that_its_checksum_does_not_fit_is_named(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path, rows = tmp_path / "e.parquet", {"u": np.arange(1000), "v": np.arange(1000)}
    pq.write_table(
        pa.table(rows), path, write_page_checksum=True, compression="none", use_dictionary=False
    )
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 200] = bytes(200)
    path.write_bytes(data)
    source = FileSource(path, Schema.arrow(src="u", dst="v"), follow=False)
    with pytest.raises(errors.FormatError, match=r"e\.parquet cannot be read: .*(CRC|checksum)"):
        Ingestor(small(), source).run()


def test_structs_that_are_cut_off(tmp_path: Path) -> None:
    dtype = np.dtype([("u", "<u4"), ("v", "<u4")])
    (tmp_path / "e.bin").write_bytes(np.array([(1, 2), (1, 3)], dtype).tobytes() + b"abc")
    schema = Schema.struct(dtype, src="u", dst="v")
    graph = small()
    with pytest.raises(errors.RecordError, match="offset 16: has 3 bytes where records have 8"):
        Ingestor(graph, FileSource(tmp_path / "e.bin", schema, follow=False, growing=False)).run()


@pytest.mark.parametrize("size", [1, 7])
def test_blocks_of_any_size(tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aethergraph.streaming.files._BYTES", size)
    (tmp_path / "e.csv").write_text("u,v\n" + "".join(f"1,{v}\n\n" for v in range(200)))
    graph = small()
    source = FileSource(tmp_path / "e.csv", Schema.csv(src="u", dst="v"), follow=False)
    Ingestor(graph, source, batch=50).run()
    assert ends(graph) == list(range(200))


@pytest.mark.parametrize("form", ["csv", "json", "struct"])
def test_a_record_without_its_end_waits_for_the_next_run(tmp_path: Path, form: str) -> None:
    """Cut no record in two that is being written, in whatever place the writer is."""
    dtype = [("u", "<u2"), ("v", "<u2")]
    schemas = {
        "csv": Schema.csv(columns=["u", "v"], src="u", dst="v"), "json": JSON,
        "struct": Schema.struct(dtype, src="u", dst="v"),
    }  # fmt: skip
    contents = {
        "csv": b"1,2\n1,23\n4,5\n", "json": b'{"u":1,"v":2}\n{"u":1,"v":23}\n{"u":4,"v":5}\n',
        "struct": np.array([(1, 2), (1, 23), (4, 5)], dtype).tobytes(),
    }  # fmt: skip
    content = contents[form]
    for at in range(1, len(content), 1 if form != "json" else 3):
        path, graph = tmp_path / f"{at}", small(100)
        for part in (content[:at], content):
            path.write_bytes(part)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                Ingestor(graph, FileSource(path, schemas[form], follow=False)).run()
        assert edges(graph) == [(1, 2), (1, 23), (4, 5)], at
    path.write_bytes(content[:-1])
    words = "bytes at its end are left.*or give growing=False if the file is complete"
    with pytest.warns(UserWarning, match=words):
        Ingestor(small(100), FileSource(path, schemas[form], follow=False)).run()
    if form != "struct":
        whole = small(100)
        Ingestor(whole, FileSource(path, schemas[form], follow=False, growing=False)).run()
        assert whole.num_edges == 3


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_line_break_in_quotes_is_part_of_the_record(end: str, tmp_path: Path) -> None:
    path, graph = tmp_path / "e.csv", small(100)
    text = 'u,v,note\n1,2,"one line"\n3,4,"two\n\n""lines"\n5,6,end\n'.replace("\n", end).encode()
    schema = Schema.csv(src="u", dst="v")
    path.write_bytes(text)
    Ingestor(graph, FileSource(path, schema, follow=False, growing=False)).run()
    assert edges(graph) == [(1, 2), (3, 4), (5, 6)]
    if end != "\r":  # the end of a line that grows
        graph, path = small(100), tmp_path / "grows.csv"
        path.touch()
        with (
            Ingestor(graph, FileSource(path, schema, interval=0.001)) as ingestor,
            open(path, "ab", buffering=0) as file,
        ):
            for at in range(0, len(text), 5):
                file.write(text[at : at + 5])
                time.sleep(0.002)
            wait_for_edges(ingestor, 3)
        assert edges(graph) == [(1, 2), (3, 4), (5, 6)]


@pytest.mark.parametrize("growing", [True, False])
def test_a_quote_that_is_never_closed_is_a_bad_record(
    growing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the file ends, or 8 MiB later, the lines behind it are records again."""
    monkeypatch.setattr(files, "_BYTES", 32)
    monkeypatch.setattr(files, "_LONGEST", 128)
    path, graph = tmp_path / "e.csv", small(100)
    rows = [(5, number % 100) for number in range(50 if growing else 2)]
    path.write_text('u,v\n1,2\n3,"4\n' + "".join(f"{u},{v}\n" for u, v in rows))
    source = FileSource(path, Schema.csv(src="u", dst="v"), follow=False, growing=growing)
    stats = Ingestor(graph, source, dead_letter=tmp_path / "bad").run()
    assert edges(graph) == [(1, 2), *rows] and stats.bad == 1
    (letter,) = letters(tmp_path / "bad")
    assert "a quote opens a field and is never closed" in letter["reason"] and letter["offset"] == 8


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_a_delimiter_is_that_of_the_header(delimiter: str, tmp_path: Path) -> None:
    path, graph = tmp_path / "e.csv", small(9)
    path.write_text('# a, sheet\n"u,";v\n\n1; 2 \n'.replace(";", delimiter))
    Ingestor(graph, FileSource(path, Schema.csv(src="u,", dst="v"), follow=False)).run()
    assert edges(graph) == [(1, 2)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("u,v\n1,2\n".encode("utf-16"), "is UTF-16 text: convert it"),
        (gzip.compress(b"u,v\n1,2\n"), "is compressed: unpack it"),
        (b"u,v,\xeb\n1,2,3\n", "the header cannot be read: byte 0xeb is not UTF-8: convert"),
        (b'u,v,"\n1,2,3\n', "the header cannot be read: a quote opens a field and is never closed"),
    ],
)
def test_a_file_that_is_no_csv(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_bytes(content)
    schema = Schema.csv(src="u", dst="v")
    with pytest.raises(errors.FormatError, match=f"e.csv: {words}"):
        Ingestor(small(9), FileSource(path, schema, follow=False, growing=False)).run()


def test_a_message_is_one_record_with_its_line_breaks() -> None:
    named = Schema.csv(src="u", dst="v", columns=["u", "v", "note"])
    found = named.decode(0, 1, [b'3,4,"two\nlines"'], np.arange(1))
    assert (found.count, found.bad) == (1, [])


def test_a_csv_of_a_spreadsheet(tmp_path: Path) -> None:
    path, schema = tmp_path / "e.csv", Schema.csv(src="u", dst="v")
    path.write_bytes(b"\xef\xbb\xbfu,v\r\n1,2\r\n")
    graph = small(100)
    Ingestor(graph, FileSource(path, schema, follow=False)).run()
    assert edges(graph) == [(1, 2)]
    path.write_bytes(b"u,v,u\n1,2,3\n")
    with pytest.raises(errors.FormatError, match="several columns 'u'"):
        Ingestor(small(9), FileSource(path, schema, name="n", follow=False)).run()


@pytest.mark.parametrize(
    "text",
    [
        b"\nu,v\n1,2\n",
        b"\r\n\r\nu,v\r\n1,2\r\n",
        b"\xef\xbb\xbf\r\nu,v\r\n1,2\r\n",
        b"\n" * 70_000 + b"u,v\n1,2\n",
    ],
)
def test_empty_lines_before_the_names_of_columns(tmp_path: Path, text: bytes) -> None:
    path, graph = tmp_path / "e.csv", small()
    path.write_bytes(text)
    Ingestor(graph, FileSource(path, Schema.csv(src="u", dst="v"), follow=False)).run()
    assert edges(graph) == [(1, 2)] and list(graph.offsets("e.csv").values()) == [len(text)]


def test_a_long_csv_with_names_is_gone_on_with(tmp_path: Path) -> None:
    """The names are read again; between them and the place stands what was read before."""
    path, graph = tmp_path / "e.csv", small(50_000)
    text = "source,destination\n" + "".join(f"1,{v}\n" for v in range(50_000))  # some blocks
    schema = Schema.csv(src="source", dst="destination")
    path.write_text(text)
    with Ingestor(graph, FileSource(path, schema, follow=False)) as ingestor:
        ingestor.drain(WAIT)
    with open(path, "a") as file:
        file.write("".join(f"2,{v}\n" for v in range(10_000)))
    Ingestor(graph, FileSource(path, schema, follow=False)).run()
    assert sorted(ends(graph)) == sorted([*range(50_000), *range(10_000)])
    assert list(graph.offsets("e.csv").values()) == [path.stat().st_size]
    path.write_text(text.replace("1,", "3,") + "x" * 200_000)
    with pytest.raises(errors.SourceError, match="another file than the one of this name"):
        Ingestor(graph, FileSource(path, schema, follow=False)).run()


@pytest.mark.parametrize(
    ("text", "growing"),
    [("", True), ("\n\n", False), ("u,v", True), ("u,v", False), ("u,v\n", True)],
)
def test_csv_without_records(tmp_path: Path, text: str, growing: bool) -> None:
    path, graph = tmp_path / "e.csv", small()
    path.write_text(text)
    schema = Schema.csv(src="u", dst="v")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "u,v" has no end
        source = FileSource(path, schema, follow=False, growing=growing)
        assert Ingestor(graph, source).run().edges == 0
    path.write_text("\n\nu,v\n1,2\n")
    Ingestor(graph, FileSource(path, schema, follow=False)).run()
    assert edges(graph) == [(1, 2)]


def test_the_mark_of_a_file_is_there_after_a_commit_that_was_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, graph = tmp_path / "e.jsonl", small()
    path.write_text(line(1, 1))
    ingestor = Ingestor(graph, FileSource(path, JSON, follow=False))
    save, full = ingestor._save_times, [errors.OutOfMemoryError("full")]

    def save_times(partitions: Any) -> None:
        if full:
            raise full.pop()
        save(partitions)

    monkeypatch.setattr(ingestor, "_save_times", save_times)
    ingestor.run()
    assert ends(graph) == [1] and not full
    assert set(graph.offsets("e.jsonl#mark")) == {*graph.offsets("e.jsonl"), -1}


def test_cuts_need_records_that_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.touch()
    with pytest.raises(errors.InvalidArgumentError, match="cut= needs records that are numbered"):
        Ingestor(small(9), FileSource(path, JSON), cut=10)


def parquet(path: Path, count: int) -> None:
    table = pytest.importorskip("pyarrow").table({"u": np.ones(count, int), "v": np.arange(count)})
    pytest.importorskip("pyarrow.parquet").write_table(table, path)


@pytest.mark.parametrize("follow", [False, True])
def test_cuts_do_not_wait_for_files_that_are_read(tmp_path: Path, follow: bool) -> None:
    for name, count in (("a", 25), ("b", 100), ("c", 0)):
        parquet(tmp_path / f"{name}.parquet", count)
    graph = small()

    def source() -> FileSource:
        schema = Schema.arrow(src="u", dst="v")
        return FileSource(tmp_path, schema, name="f", follow=follow, interval=0.001)

    with Ingestor(graph, source(), cut=10) as ingestor:
        ingestor.drain(WAIT)
    assert graph.num_edges == 125 and sorted(graph.offsets("f").values()) == [25, 100]
    (tmp_path / "a.parquet").unlink()  # what was read may go
    with Ingestor(graph, source(), cut=10) as ingestor:
        ingestor.drain(WAIT)
    assert graph.num_edges == 125


def test_a_file_that_comes_after_the_first_cut_is_refused(tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", 25)
    schema = Schema.arrow(src="u", dst="v")
    ingestor = Ingestor(small(), FileSource(tmp_path, schema, interval=0.001), cut=10).start()
    ingestor.drain(WAIT)
    parquet(tmp_path / ".b", 25)
    (tmp_path / ".b").rename(tmp_path / "b.parquet")
    with pytest.raises(errors.SourceError, match="was added, which others may see"):
        comes(ingestor.check)


def test_a_file_that_comes_again_after_cuts_without_it_is_refused(tmp_path: Path) -> None:
    path, away, graph = tmp_path / "a.parquet", tmp_path / ".a", small()
    for name in ("a", "b"):
        parquet(tmp_path / f"{name}.parquet", 100)
    schema = Schema.arrow(src="u", dst="v")
    source = FileSource(tmp_path, schema, name="f", interval=0.001)
    source.open({})
    parts = sorted(source.lag(), key=source.describe)
    source.close()
    with graph.transaction():  # as if it had been killed there
        for partition in parts:
            graph.set_offset("f", partition, 30)
    path.rename(away)
    ingestor = Ingestor(graph, source, cut=10).start()
    ingestor.drain(WAIT)
    assert graph.offsets("f") == dict(zip(parts, (30, 100), strict=True))
    away.rename(path)
    with pytest.raises(errors.SourceError, match=r"f, file a.parquet was not there at first"):
        comes(ingestor.check)


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_another_file_of_the_same_name(tmp_path: Path, form: str) -> None:
    def write(path: Path, *ends: int) -> None:
        path.parent.mkdir(exist_ok=True)
        if form == "json":
            path.write_text("".join(line(1, v) for v in ends))
        else:
            table = pytest.importorskip("pyarrow").table({"u": [1] * len(ends), "v": list(ends)})
            pytest.importorskip("pyarrow.parquet").write_table(table, path)

    def run(path: Path, **options: Any) -> None:
        schema = JSON if form == "json" else Schema.arrow(src="u", dst="v")
        Ingestor(graph, FileSource(path, schema, follow=False, **options)).run()

    graph = DynamicGraph.open(tmp_path / "g", 100, 8, order="time", huge_pages=False)
    first, second = tmp_path / "day1" / "e.parquet", tmp_path / "day2" / "e.parquet"
    write(first, 1)
    run(first)
    graph.close()
    graph = DynamicGraph.open(tmp_path / "g", arena_mb=8, huge_pages=False)
    run(first)  # it is known again
    write(second, 2, 3)
    with pytest.raises(errors.SourceError, match=f"{second}: it is another file than"):
        run(second)
    run(second, name="day2")
    assert ends(graph) == [1, 2, 3]
    if form == "json":  # what has grown meanwhile is still the same, and what was replaced is not
        write(first, 1, 4)
        run(first)
        assert ends(graph) == [1, 2, 3, 4]
        write(first, 5, 4, 6)
        with pytest.raises(errors.SourceError, match="it is another file than"):
            run(first)
    graph.close()


@pytest.mark.parametrize("records", [3, 100, 500])
@pytest.mark.parametrize("form", ["json", "csv", "struct"])
def test_a_last_record_that_became_another_of_the_same_length(
    tmp_path: Path, form: str, records: int
) -> None:
    path, dtype = tmp_path / "e", np.dtype([("u", "<u4"), ("v", "<u4")])
    schemas = {
        "json": JSON,
        "csv": Schema.csv(src="u", dst="v"),
        "struct": Schema.struct(dtype, src="u", dst="v"),
    }

    def write(*ends: int) -> None:
        if form == "json":
            path.write_text("".join(line(1, v) for v in ends))
        elif form == "csv":
            path.write_text("".join(["u,v\n", *(f"1,{v}\n" for v in ends)]))
        else:
            path.write_bytes(np.array([(1, v) for v in ends], dtype).tobytes())

    def run() -> None:
        with DynamicGraph.open(tmp_path / "g", 10_000, 16, huge_pages=False) as graph:
            Ingestor(graph, FileSource(path, schemas[form], follow=False)).run()
            assert ends(graph) == expected

    expected = list(range(1000, 1000 + records))
    write(*expected)
    run()
    run()  # it is known again
    write(*expected[:-1], 2000, 2001)
    with pytest.raises(errors.SourceError, match=r"another file than .*or was changed since"):
        run()
    write(*expected, 2001)
    expected.append(2001)
    run()


def test_a_run_that_failed_behind_its_last_commit_is_gone_on_with(tmp_path: Path) -> None:
    """Bytes that were read behind the commit are no part of the mark of those before it."""
    path = tmp_path / "e.jsonl"
    good = [line(1, v) for v in range(500, 600)]
    path.write_text("".join(good))
    for more, expected in (("no record\n", 100), ("", 101)):
        with DynamicGraph.open(tmp_path / "g", 1000, 16, huge_pages=False) as graph:
            failing = pytest.raises(errors.RecordError) if more else nullcontext()
            with failing, Ingestor(graph, FileSource(path, JSON, interval=0.001)) as ingestor:
                ingestor.drain(WAIT)
                with open(path, "a") as file:
                    file.write(more)
                ingestor.drain(WAIT)
            assert graph.num_edges == expected
        path.write_text("".join([*good, line(1, 7)]))


def test_marks_of_earlier_versions_are_known(tmp_path: Path) -> None:
    """They were of the first 1024 bytes."""
    path = tmp_path / "e.jsonl"
    path.write_text("".join(line(1, v) for v in range(500, 600)))
    with DynamicGraph.open(tmp_path / "g", 1000, 16, huge_pages=False) as graph:
        Ingestor(graph, FileSource(path, JSON, follow=False)).run()
        digest = hashlib.blake2b(path.read_bytes()[:1024], digest_size=8).digest()
        (partition,) = graph.offsets("e.jsonl")
        graph.set_offset("e.jsonl#mark", partition, int.from_bytes(digest, "big") >> 1)
    path.write_text(path.read_text() + line(1, 7))
    with DynamicGraph.open(tmp_path / "g", 1000, 16, huge_pages=False) as graph:
        Ingestor(graph, FileSource(path, JSON, follow=False)).run()
        assert graph.num_edges == 101


def test_a_file_is_not_read_twice_without_a_word(tmp_path: Path) -> None:
    """Under another name it is another stream, and begins anew."""
    path = tmp_path / "buys.jsonl"
    path.write_text(line(1, 2) * 3)
    size = path.stat().st_size
    graph = DynamicGraph.open(tmp_path / "g", 10, arena_mb=8, order="time")
    Ingestor(graph, FileSource(path, JSON, name="buys", follow=False)).run()
    graph.close()
    graph = DynamicGraph.open(tmp_path / "g", arena_mb=8)
    again = rf"the graph has had this up to byte {size} as the stream 'buys', or what begins"
    with pytest.warns(UserWarning, match=again + r".*'buys\.jsonl' reads .* name='buys' goes on"):
        Ingestor(graph, FileSource(path, JSON, follow=False)).run()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for schema in (Schema.json(src="v", dst="u"), Schema.json(node="u", attrs={"x": "v"})):
            if schema.node is not None:
                graph.node_attrs["x"] = np.zeros(10, np.int64)
            Ingestor(graph, FileSource(path, schema, name=repr(schema), follow=False)).run()
        path.write_text(line(1, 3) * 3)  # another file of this name
        Ingestor(graph, FileSource(path, JSON, name="c", follow=False)).run()
    assert graph.num_edges == 3 + 3 + 3 + 3
    for place in [place for place in graph.store.offsets if place[1] == -1]:
        del graph.store.offsets[place]  # which edges they are was not kept
    with pytest.warns(UserWarning, match="as the stream 'c'"):
        Ingestor(graph, FileSource(path, JSON, name="d", follow=False)).run()
    graph.close()


def test_a_parquet_file_that_begins_as_another_is_not_said_to_be_it(tmp_path: Path) -> None:
    """They are known by their first bytes, which those of two days may share."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    graph = DynamicGraph(10, 8, order="time", huge_pages=False)
    may_be = "or what begins as it does. If it is the same, the stream 'day2' reads it again"
    for day, warned in ((1, nullcontext()), (2, pytest.warns(UserWarning, match=may_be))):
        (tmp_path / f"day{day}").mkdir()
        path = tmp_path / f"day{day}" / "e.parquet"
        ends = [np.arange(1000), np.arange(1000) % 10, np.arange(1000) * day % 10]
        pq.write_table(pa.table(ends, ["id", "u", "v"]), path, compression=None)
        schema = Schema.arrow(src="u", dst="v")
        with warned:
            Ingestor(graph, FileSource(path, schema, name=f"day{day}", follow=False)).run()
    assert graph.num_edges == 2000


def test_edges_of_several_types_come_from_one_file(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_text(line(1, 2))
    kinds = [("a", "by", "a"), ("a", "at", "a")]
    graph = DynamicHeteroGraph({"a": 10}, kinds, 8, order="time", huge_pages=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in kinds:
            schema = Schema.json(src="u", dst="v", edge_type=kind)
            Ingestor(graph, FileSource(path, schema, name=kind[1], follow=False)).run()
    with pytest.warns(UserWarning, match="as the stream 'at'"):
        Ingestor(graph, FileSource(path, schema, follow=False)).run()
    once = DynamicGraph(10, 8, order="id", huge_pages=False)  # has each edge once, however read
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("a", "b"):
            Ingestor(once, FileSource(path, JSON, name=name, follow=False)).run()
