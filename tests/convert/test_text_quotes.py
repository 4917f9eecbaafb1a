"""Quotes and comments of text tables: what is a row, what is part of a field, what is skipped."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.strategies import examples

from aethergraph._checks.dialect import find_marks, last_line_end, without_comments
from aethergraph.convert import InputError, read_edges
from aethergraph.convert.readers import text_blocks
from aethergraph.convert.readers.nodes import FeatureColumns, iter_rows, read_labels

EDGES = [(0, 1), (1, 2)]


def edges_of(path: Path, text: str | bytes) -> list[tuple[int, int]]:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    table = read_edges(path, threads=1)
    return list(zip(table.src.tolist(), table.dst.tolist(), strict=True))


@pytest.fixture(params=[16, 64, 1 << 20])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", request.param)
    return int(request.param)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("mark", ["#", " %"])
def test_a_line_of_a_quoted_field_is_no_comment(mark: str, tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    text = f'0,1,"a\n{mark} b"\n2,3,"c"\n# "x\n4,5,"d\n\n{mark} ""e""\n"\n6,7,e\n'
    assert edges_of(path, text) == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert edges_of(path, text.replace("\n", "\r\n")) == [(0, 1), (2, 3), (4, 5), (6, 7)]
    with pytest.raises(InputError, match="line 10, column 2"):
        edges_of(path, text + "8,x,f\n")


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("stray", ['# 5" disks\n', '0,1,5" disk\n', '# a,"b\n', '0,1, "x\n'])
def test_a_quote_that_opens_no_field(
    stray: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not join the lines behind it: the file may be of any length."""
    monkeypatch.setattr(text_blocks, "_MAX_LINE_BYTES", 400)
    rows = [(i, i + 1) for i in range(1, 100)]
    text = "9,9,x\n" + stray + "".join(f"{u},{v},x\n" for u, v in rows)
    text += '7,8,"two\nlines"\n' + stray
    row = [(0, 1)] if stray[0] == "0" else []
    assert edges_of(tmp_path / "e.csv", text) == [(9, 9), *row, *rows, (7, 8), *row]


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_a_comment_ends_at_every_line_end(end: str, tmp_path: Path) -> None:
    text = end.join(["# made by x", "0,1", " # y", "1,2", "% z", ""])
    assert edges_of(tmp_path / "e.csv", text) == [(0, 1), (1, 2)]
    assert edges_of(tmp_path / "e.csv", text.replace("by x" + end, "by x\r")) == [(0, 1), (1, 2)]


@pytest.mark.parametrize("mark", ["#", "%"])
def test_a_row_is_not_taken_for_a_comment(mark: str, tmp_path: Path) -> None:
    """A table whose first column holds tags: a comment would be an edge that is lost."""
    path, text = tmp_path / "e.csv", tmp_path / "e.txt"
    advice = rf"line 2: begins with '{mark}' as comments do, but could be a row: quote its first"
    row = f"{mark}a,1,2\n"
    path.write_text("b,0,1\n" + row)
    with pytest.raises(InputError, match=advice):
        read_edges(path, src=1, dst=2)
    path.write_text("b,0,1\n" + row.replace(f"{mark}a", f'"{mark}a"'))
    assert read_edges(path, src=1, dst=2).dst.tolist() == [1, 2]
    path.write_text(row + "b,0,1\n")
    with pytest.raises(InputError, match=r"line 1: .*else delete it"):
        read_edges(path, src=1, dst=2)
    text.write_text(f"b 1 2\n{mark}a 0 1\n")
    with pytest.raises(InputError, match=r"line 2: .*begin it with another character"):
        read_edges(text, src=1, dst=2)


@pytest.mark.parametrize("mark", ["#", "%"])
def test_below_a_header_there_are_no_comments(mark: str, tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    head, rows = f"{mark} tags, from A to B\n{mark}\n\ntag,src,dst\n", f"b,0,1\n{mark}a,1,2\n"
    assert edges_of(path, head + rows) == EDGES
    assert edges_of(tmp_path / "e.txt", rows.replace(",", " ").join(["tag src dst\n", ""])) == EDGES
    advice = "where there are 3 columns; comments stand before the header alone: delete the line"
    with pytest.raises(InputError, match=f"line 7: 2 fields {advice}"):
        edges_of(path, head + rows + f"{mark} tags, from A\n")
    with pytest.raises(InputError, match=r"line 3, .*'. 1' is not a number; .*delete the line"):
        edges_of(path, f"src,dst\n0,1\n{mark} 1,2\n")
    path.write_text(f"tag,x,y\n{mark}a,1.5,2\nb,3,4\n")
    assert len(next(iter_rows(path, FeatureColumns(chosen=["x", "y"])))) == 2


@pytest.mark.parametrize(
    "comment", ["# 7,8", "# end, of file", "#tag,src,dst", "# written by a sheet,,", "#,,", "# 1"]
)
def test_what_can_be_no_row_is_a_comment(comment: str, tmp_path: Path) -> None:
    text = f"0,1,5\n{comment}\n1,2,6\n{comment}\n"
    assert edges_of(tmp_path / "e.csv", text) == EDGES
    assert edges_of(tmp_path / "e.csv", f"0,1\n{comment}\n1,2\n") == EDGES
    text = f"{comment}\ntag,src,dst\na,0,1\nb,1,2\n"
    assert edges_of(tmp_path / "e.csv", text) == EDGES
    assert read_edges(tmp_path / "e.csv", attrs=["a=src"]).attrs["a"].dtype == "int64"


def test_a_comment_behind_an_empty_line_is_no_value(tmp_path: Path) -> None:
    path = tmp_path / "y.csv"
    for end in ("\n", "\r\n"):
        path.write_bytes(end.join(["5", "6", "", "# end", " % of it", "", ""]).encode())
        assert read_labels(path).tolist() == [5, 6]
        path.write_bytes(end.join(["5", "", "# end", "7"]).encode())
        with pytest.raises(InputError, match=r"line 2, .*is missing \(an empty line\)"):
            read_labels(path)


# ---- against a machine that reads one character after the other ----------------------------------


def states(text: str) -> Iterator[str]:
    """Yield for every character what it is part of: a comment, a quoted field, or anything else."""
    state, line_begins, field_begins = "plain", True, True
    for at, one in enumerate(text):
        if state == "quoted":
            yield state
            if one == '"':
                state = "quote in quoted"
            continue
        if state == "quote in quoted":
            if one == '"':
                state = "quoted"
                yield state
                continue
            state = "plain"
        if one in "\r\n":
            state, line_begins, field_begins = "plain", True, True
            yield "end"
            continue
        if line_begins and text[at:].lstrip(" \t")[:1] in ("#", "%"):
            state = "comment"
        elif field_begins and one == '"' and state == "plain":
            state = "quoted"
        line_begins, field_begins = False, one == ","
        yield state


@settings(examples(500))
@given(st.text('",#\n\r x', max_size=40))
def test_marks_are_those_of_a_slow_machine(text: str) -> None:
    data = text.encode()
    found = list(states(text))
    marks = find_marks(data, b",")
    comments = {at for begin, end in marks.comments for at in range(begin, end)}
    assert comments == {at for at, state in enumerate(found) if state == "comment"}
    kept = "".join(one for one, state in zip(text, found, strict=True) if state != "comment")
    assert without_comments(data, b",") == kept.encode()
    ends = [at + 1 for at, one in enumerate(text) if one == "\n" and found[at] == "end"]
    assert last_line_end(data, b",") == max(ends, default=0)


@settings(examples(100))
@given(st.text('",#\n\r x', max_size=40))
def test_without_quotes_every_line_may_be_a_comment(text: str) -> None:
    plain = text.replace('"', "x")
    assert without_comments(text.encode(), None).count(b"#") == sum(
        one == "#" and state != "comment" for one, state in zip(plain, states(plain), strict=True)
    )


@settings(examples(150))
@given(
    notes=st.lists(st.tuples(st.text('",#%\n x', max_size=12), st.booleans()), max_size=12),
    comment=st.text('",# x', max_size=8),
    block=st.sampled_from([16, 64, 1 << 20]),
)
def test_what_the_csv_module_writes(
    notes: list[tuple[str, bool]],
    comment: str,
    block: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Rows with notes of any text, some of them behind a comment."""
    file = io.StringIO()
    file.write("9,9,\n")
    writer = csv.writer(file, lineterminator="\n")
    for number, (note, commented) in enumerate(notes):
        file.write(f"#{comment}\n" if commented else "")
        writer.writerow([number, number + 1, note])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_blocks, "BLOCK_BYTES", block)
        found = edges_of(tmp_path_factory.mktemp("csv") / "e.csv", file.getvalue())
    assert found == [(9, 9), *((number, number + 1) for number in range(len(notes)))]


@pytest.mark.timeout(20)
def test_a_rule_of_hashes_behind_an_empty_line_takes_no_time(tmp_path: Path) -> None:
    (tmp_path / "y.csv").write_text(f"1\n\n{'#' * 60} %%%\n2\n")
    with pytest.raises(InputError, match="value is missing"):
        read_labels(tmp_path / "y.csv")


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("note", ['"abc', '"a""', '"a, ""b'])
def test_a_quote_that_is_never_closed(note: str, tmp_path: Path) -> None:
    """The rows behind it would be part of the field, and lost."""
    text = f'# see "x\nsrc,dst,note\n0,1,"a\nb"\n1,2,{note}\n2,3,\n'
    with pytest.raises(InputError, match=r"line 5: a quote opens a field and is never closed"):
        edges_of(tmp_path / "e.csv", text)


@pytest.mark.parametrize("head", ["", "src,dst,name\n"])
def test_a_byte_that_is_not_utf_8(head: str, tmp_path: Path) -> None:
    text = f"# Zo\xeb\n{head}0,1,a\n1,2,Zo\xeb\n".encode("latin-1")
    line = 3 + bool(head)
    with pytest.raises(InputError, match=rf"line {line}: byte 0xeb is not UTF-8: .* -f LATIN1"):
        edges_of(tmp_path / "e.csv", text)
    assert edges_of(tmp_path / "e.csv", text.decode("latin-1")) == EDGES


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_blanks_around_values_and_lines_of_blanks(delimiter: str, tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    text = 'src,dst,at,note\n0, 1 , 2020-03-05 ,"a , ""b"" ,"\n  \n1,2,2020-03-06 , "c\n'
    path.write_text(text.replace(",", delimiter))
    table = read_edges(path, time="at", time_unit="D")
    assert table.dst.tolist() == [1, 2] and str(table.time) == "['2020-03-05' '2020-03-06']"
