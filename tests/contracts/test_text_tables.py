"""One file of text means the same to edge lists, tables with keys and streams, or all refuse it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.ingesting import edges, small
from support.strategies import examples

from aethergraph import DynamicGraph, Graph, HeteroGraph
from aethergraph.convert import (
    InputError,
    LinkTable,
    NodeTable,
    TableSchema,
    convert,
    read_edges,
    tables,
)
from aethergraph.errors import AetherError
from aethergraph.streaming import FileSource, Ingestor, Schema

pytest.importorskip("pyarrow")

Pairs = list[tuple[Any, Any]]

INTEGERS = st.sampled_from(["0", "1", "22", "4", "5"])
FIELDS = st.one_of(
    INTEGERS,
    INTEGERS.map(lambda text: f" {text}\t"),
    INTEGERS.map(lambda text: f'"{text}"'),
    st.sampled_from(["+1", "1.0", "1e0", "0x1", "-1", "1_0", "1,000", "٣", "9" * 20, "99", "x"]),
    st.sampled_from(["", " ", '""', '" 1"', "#1", "% 1", '"', '"1', '1"', '"a""b"', '"1"2']),
    st.sampled_from(["NA", "null", "NULL", "nan", "true", "\ufeff1", "1\x85", "1\u2028"]),
)
NOTES = st.one_of(
    st.sampled_from(
        ["", "a", '""', '"a\nb"', '"a\r\n\r\nb"', '"a""\n#"', '"', '5" disk', '"x"y', "é"]
    ),
    st.text('",;#\n\r\t ax', max_size=6).map(lambda text: '"' + text.replace('"', '""') + '"'),
)
LINES = st.sampled_from(["", " ", "\t", "# more", " % a,b", "#1,2", "1", "1,2,3,4", "src,dst"])


@st.composite
def texts(draw: st.DrawFn, fields: st.SearchStrategy[str] = FIELDS) -> bytes:
    delimiter = draw(st.sampled_from([",", ",", ";", "\t", "|"]))
    names = draw(st.permutations(["src", "dst", "note"]))
    lines = draw(st.lists(st.sampled_from(["", "# made, by x", "%", '# "a', "  "]), max_size=2))
    shape = draw(st.sampled_from(["{}", "{}", " {}", '"{}"']))
    lines.append(delimiter.join(map(shape.format, names)))
    lines.append(delimiter.join({"src": "3", "dst": "4", "note": "a"}[name] for name in names))
    for _ in range(draw(st.integers(0, 4))):
        row = {"src": draw(fields), "dst": draw(INTEGERS), "note": draw(NOTES)}
        line = delimiter.join(row[name] for name in names)
        lines.append(draw(LINES) if draw(st.integers(0, 5)) == 0 else line)
    end = draw(st.sampled_from(["\n", "\n", "\r\n", "\r"]))
    text = end.join(lines) + draw(st.sampled_from(["", end]))
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1"]))
    return text.encode(encoding, "replace")


def by_convert(path: Path) -> Pairs:
    table = read_edges(path, src="src", dst="dst")
    return list(zip(table.src.tolist(), table.dst.tolist(), strict=True))


def by_tables(path: Path) -> Pairs:
    links = LinkTable(path, "n", "src", "n", "dst", null="error")
    nodes = {"n": NodeTable({"id": np.arange(30)}, key="id")}
    schema = TableSchema(nodes, {"e": links}, reverse=False)
    tables(schema, path.with_suffix(".aeg"), force=True, restart=True)
    src, dst = HeteroGraph.load(path.with_suffix(".aeg"))["n", "e", "n"].edge_list()[:2]
    return list(zip(src.tolist(), dst.tolist(), strict=True))


def by_stream(path: Path) -> Pairs:
    graph = small(30)
    schema = Schema.csv(src="src", dst="dst")
    Ingestor(graph, FileSource(path, schema, follow=False, growing=False)).run()
    return edges(graph)


def outcome(read: Callable[[Path], Pairs], path: Path) -> Pairs | AetherError:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return sorted(read(path))
    except AetherError as error:
        return error


def agree(path: Path, *readers: Callable[[Path], Pairs]) -> None:
    outcomes = [outcome(read, path) for read in readers]
    if any(isinstance(result, AetherError) for result in outcomes):
        for result in outcomes:
            assert isinstance(result, AetherError), outcomes
            assert path.name in str(result), outcomes
            whole = re.search(
                "UTF-16|there is no column|several columns|2 columns are called|the header cannot",
                str(result),
            )
            assert whole or re.search(r"(line|row|offset) [0-9]+", str(result)), outcomes
    else:
        assert all(result == outcomes[0] for result in outcomes), outcomes


@examples(150)
@given(text=texts())
@example(text=b"src,dst\n1,2\n3,4\n")
@example(text=b"# made by X\nsrc,dst\n1,2\n3,4\n")
@example(text=b"src,dst\n1,2\n# more\n3,4\n")
@example(text=b"src,dst\n1,2\n\n3,4\n")
@example(text=b"src,dst\n1, 2\n3, 4\n")
@example(text=b'src,dst\n"1","2"\n3,4\n')
@example(text=b'src,dst,text\n1,2,"a\nb"\n3,4,c\n')
@example(text=b"src;dst\n1;2\n3;4\n")
@example(text=b"src,dst\n+1,2\n3,4\n")
@example(text=b"src,dst\n0x1,2\n3,4\n")
@example(text=b"src,dst\n1.0,2\n3,4\n")
@example(text=b"src,dst\r\n1,2\r\n3,4\r\n")
@example(text=b"src,dst\n1,\n3,4\n")
@example(text=b"\xef\xbb\xbfsrc,dst\n1,2\n3,4\n")
@example(text=b"src,dst,src\n1,2,3\n")
@example(text=b"SRC,dst\n1,2\n")
def test_integers_mean_the_same_or_are_refused(
    text: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("text") / "e.csv"
    path.write_bytes(text)
    agree(path, by_convert, by_tables, by_stream)


def by_keys(path: Path) -> Pairs:
    convert(path, path.with_suffix(".aeg"), src="src", dst="dst", ids="string", force=True)
    graph = Graph.load(path.with_suffix(".aeg"))
    assert graph.ids is not None
    src, dst = graph.edge_list()[:2]
    return list(zip(graph.ids.keys(src), graph.ids.keys(dst), strict=True))


def by_stream_of_keys(path: Path) -> Pairs:
    options: dict[str, Any] = {"ids": "str", "arena_mb": 16, "order": "time"}
    with DynamicGraph.open(path.with_suffix(".aegd"), **options) as graph:
        schema = Schema.csv(src="src", dst="dst", ids="str")
        Ingestor(graph, FileSource(path, schema, follow=False, growing=False)).run()
        assert graph.ids is not None
        src, dst = graph.snapshot().edge_list()[:2]
        return list(zip(graph.ids.keys(src), graph.ids.keys(dst), strict=True))


@examples(60)
@given(text=texts())
@example(text=b'src,dst\n"",1\n" ",\n')
def test_texts_mean_the_same_or_are_refused(
    text: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("text") / "e.csv"
    path.write_bytes(text)
    agree(path, by_keys, by_stream_of_keys)


def test_without_a_header_a_key_may_begin_as_comments_do(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("\n#a,%b\n#a,#c\n")
    convert(path, tmp_path / "e.aeg", ids="string", header=False)
    ids = Graph.load(tmp_path / "e.aeg").ids
    assert ids is not None and sorted(ids.keys(np.arange(3))) == ["#a", "#c", "%b"]
    for text, words in (
        (b"# x\nsrc,dst,\xe9\n1,2,3\n", "byte 0xe9"),
        (b'\n"src\n', "a quote opens"),
    ):
        path.write_bytes(text)
        with pytest.raises(InputError, match=f"e.csv, line 2: {words}"):
            convert(path, tmp_path / "e.aeg", ids="string", header=True, force=True)
