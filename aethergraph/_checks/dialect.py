r"""Dialect of text tables, which edge lists, tables with keys and files in streams are read in.

docs/tasks/tables.md has it in words (text tables). A ``"`` opens a field only at its beginning,
after a delimiter or a line end; a comment begins outside of a quoted field::

    # 5" disks            a comment: its quote opens nothing
    0,1,5" disk           a quote inside of a field opens nothing, either
    2,3,"a                a quoted field that goes on
    # b"                  ... to here: no comment
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph.errors import InvalidArgumentError

__all__ = [
    "BYTE_ORDER_MARK", "INTEGER", "LINE_END", "LOGICAL", "NUMBER", "UNCLOSED", "Head", "Marks",
    "as_delimiter", "comment_hint", "explain_byte", "explain_count", "explain_start",
    "find_delimiter", "find_head", "find_marks",
    "is_blank", "last_line_end", "skip_comments", "split_records", "without_comments",
]  # fmt: skip

INTEGER = re.compile(r"-?[0-9]+")
NUMBER = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE
)
#: Texts of true and false, beside 1 and 0.
LOGICAL = frozenset({"true", "True", "TRUE", "false", "False", "FALSE"})
LINE_END = re.compile(r"\r\n|\n|\r")
BYTE_ORDER_MARK = "\ufeff".encode()
UNCLOSED = "a quote opens a field and is never closed: close it, or write it twice in quotes"

_DELIMITER_NAMES = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}
_QUOTED_FIELD = re.compile(r'"[^"]*"')
_LINE = re.compile(r"([^\r\n]*)(\r\n|\n|\r|\Z)")
_FIRST_LINE = re.compile(rb"[^\r\n]*")
_EMPTY_LINES = re.compile(rb"(?:[ \t]*(?:\r\n|\n|\r))*(?:[ \t]*\Z)?")
_LEAD = re.compile(rb"(?:[ \t]*(?:[#%][^\r\n]*)?(?:\r\n|\n|\r))*(?:[ \t]*(?:[#%][^\r\n]*)?\Z)?")

# All look at a text with a line end before it, so that every line follows one.
_COMMENT = rb"([ \t]*[#%][^\r\n]*)"
_COMMENTS = re.compile(rb"[\r\n]" + _COMMENT)
_COMMENTS_AFTER_LF = re.compile(rb"\n" + _COMMENT)  # many times as fast
_QUOTED = rb'"(?<=[%b\r\n]")([^"]*(?:""[^"]*)*)("?)'


class Marks(NamedTuple):
    """Places in a text.

    Attributes:
        quotes: positions of quotes that alternately open and close; a doubled quote may be one
            that closes and one that opens again.
        comments: begin and end of every comment, without its line end.
    """

    quotes: NDArray[np.int64]
    comments: list[tuple[int, int]]

    def quotes_before(self, position: int) -> int:
        """Return the number of quotes before a position: odd inside of a quoted field."""
        return int(np.searchsorted(self.quotes, position))


def find_marks(text: bytes, delimiter: bytes | None, commented: bool = True) -> Marks:
    """Find the quotes and comments of a text that begins with a line.

    Args:
        text: part of the file; it may end anywhere.
        delimiter: delimiter of fields that may be quoted; None: there are no quotes.
        commented: there may be comments.
    """
    lines = b"\n" + text
    comments = []
    if commented and (b"#" in text or b"%" in text):
        pattern = _COMMENTS if b"\r" in text else _COMMENTS_AFTER_LF
        comments = [(m.start(1) - 1, m.end() - 1) for m in pattern.finditer(lines)]
    if delimiter is None or b'"' not in text:
        return Marks(np.empty(0, np.int64), comments)
    codes = np.frombuffer(lines, np.uint8)
    quotes = np.flatnonzero(codes == ord('"'))
    # Nearly always every other quote opens a field, or doubles the one before it.
    before = codes[quotes[::2] - 1]
    opens = (before == ord(delimiter)) | (before == 10) | (before == 13) | (before == ord('"'))
    if opens.all():
        marks = Marks(quotes - 1, comments)
        outside = [span for span in comments if marks.quotes_before(span[0]) % 2 == 0]
        if not any(text.find(b'"', *span) >= 0 for span in outside):
            return Marks(marks.quotes, outside)
    return _scan(lines, delimiter, bool(comments))


def _scan(lines: bytes, delimiter: bytes, commented: bool) -> Marks:
    """Find the marks of a text with quotes that open nothing, one field after the other."""
    quotes: list[int] = []
    comments: list[tuple[int, int]] = []
    quoted = _QUOTED % re.escape(delimiter)
    for match in re.finditer(quoted + (b"|" + _COMMENTS.pattern) * commented, lines):
        if match[1] is None:
            comments.append((match.start(3) - 1, match.end() - 1))
        else:
            quotes += [match.start() - 1, match.start(2) - 1][: 1 + len(match[2])]
    return Marks(np.array(quotes, np.int64), comments)


def last_line_end(text: bytes, delimiter: bytes, commented: bool = True) -> int:
    """Return where the last whole line ends, outside of quotes; 0 if there is none."""
    marks = find_marks(text, delimiter, commented)
    at = text.rfind(b"\n")
    while at >= 0:
        quotes = marks.quotes_before(at)
        if quotes % 2 == 0:
            break
        at = text.rfind(b"\n", 0, int(marks.quotes[quotes - 1]))
    return at + 1


def without_comments(text: bytes, delimiter: bytes | None) -> bytes:
    """Return the text with empty lines in place of its comments."""
    pieces = []
    at = 0
    for begin, end in find_marks(text, delimiter).comments:
        pieces.append(text[at:begin])
        at = end
    return b"".join([*pieces, text[at:]])


# ---- the beginning of a file -----------------------------------------------------------------


class Head(NamedTuple):
    """Header of a text.

    Attributes:
        names: its fields, without the blanks around them.
        end: where the first row begins.
        delimiter: character between fields.
    """

    names: list[str]
    end: int
    delimiter: str


def explain_start(data: bytes | bytearray) -> str | None:
    """Describe why a file that begins so is no text in UTF-8, or return None."""
    if data.startswith((b"\x1f\x8b", b"BZh91AY", b"(\xb5/\xfd", b'\x04"M\x18')):
        return "is compressed: unpack it; convert and tables read it if its name says so (.gz)"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "is UTF-16 text: convert it, as by iconv -f UTF-16 -t UTF-8"
    if data.find(b"\0") >= 0:
        return "holds zero bytes, so it is not text (binary inputs: .parquet, .npy)"
    return None


def explain_byte(error: UnicodeDecodeError) -> str:
    """Describe a byte that is not UTF-8."""
    return (
        f"byte 0x{error.object[error.start]:02x} is not UTF-8: convert the file, as by iconv -f "
        "LATIN1 -t UTF-8"
    )


def skip_comments(data: bytes, commented: bool = True) -> int:
    """Return where a text begins behind its byte order mark, empty lines and perhaps comments."""
    pattern = _LEAD if commented else _EMPTY_LINES
    match = pattern.match(data, len(BYTE_ORDER_MARK) if data.startswith(BYTE_ORDER_MARK) else 0)
    assert match is not None
    return match.end()


def find_head(
    data: bytes, delimiter: str | None, name: str = "", commented: bool = True
) -> Head | None:
    """Return the header of a text, which stands behind comments; None: there is nothing else.

    Args:
        data: the beginning of the file.
        delimiter: character between fields; None: the first of those that the header holds.
        name: name of the file, by whose end some hold tabs.
        commented: comments may stand before it; False: it is the first row.

    Raises:
        ValueError: a quote of the header is never closed.
        UnicodeDecodeError: the header is not UTF-8.
    """
    begin = skip_comments(data, commented)
    line = _FIRST_LINE.match(data, begin)
    if begin == len(data) or line is None:
        return None
    if delimiter is None:
        is_tabbed = name.lower().endswith((".tsv", ".tab"))
        delimiter = find_delimiter(line[0].decode(), "\t" if is_tabbed else ",\t;|")
    # Nearly always the first line is the header, but a name may have a line end in its quotes.
    last = line.end() + 2 if b'"' not in line[0] else len(data)
    text = data[begin:last].decode(errors="surrogateescape")
    _, end, fields = next(split_records(text, delimiter))
    header = text[:end].encode(errors="surrogateescape")
    header.decode()
    return Head([(field or "").strip(" \t") for field in fields], begin + len(header), delimiter)


def find_delimiter(line: str, candidates: str) -> str:
    """Return the first of some characters that a line holds outside of quotes, else the first."""
    text = _QUOTED_FIELD.sub("", line.strip())
    return next((character for character in candidates if character in text), candidates[0])


def as_delimiter(text: str) -> str:
    """Return the character that ``text`` is, or is the name of.

    Raises:
        InvalidArgumentError: neither.
    """
    plain = _DELIMITER_NAMES.get(text, text)
    if len(plain) != 1 or not plain.isascii() or plain in '"\r\n' or plain.isalnum():
        raise InvalidArgumentError(
            f"the delimiter must be one character such as ',' ';' or 'tab', not {text!r}"
        )
    return plain


# ---- records -----------------------------------------------------------------------------------


def is_blank(line: str, delimiter: str) -> bool:
    """Return whether a line holds blanks alone, and no delimiter."""
    return not line.strip(" " if delimiter == "\t" else " \t")


def explain_count(count: int, columns: int, text: str) -> str:
    """Describe a row that has not as many fields as there are columns."""
    fields = "field" if count == 1 else "fields"
    return f"{count} {fields} where there are {columns} columns{comment_hint(text)}"


def comment_hint(text: str) -> str:
    """Return what to do about a row that begins as comments do; nothing if it does not."""
    is_comment = text.lstrip(" \t").startswith(("#", "%"))
    return "; comments stand before the header alone: delete the line" if is_comment else ""


@lru_cache(maxsize=16)
def _field_of(delimiter: str) -> re.Pattern[str]:
    end = re.escape(delimiter)
    return re.compile(
        rf'(?:"([^"]*(?:""[^"]*)*)("?)([^{end}\r\n]*)|([^{end}\r\n]*))({end}|\r\n|\n|\r|\Z)'
    )


def split_records(text: str, delimiter: str) -> Iterator[tuple[int, int, list[str | None]]]:
    """Yield line (from 0), end, and fields of every record that is not blank.

    An empty field is None, unless it is quoted. Unlike Python's csv module, fields may be of any
    length, and lines end at CR and LF only.

    Raises:
        ValueError: a quote is never closed.
    """
    if '"' not in text:
        for number, plain in enumerate(_LINE.finditer(text)):
            if not is_blank(plain[1], delimiter):
                yield number, plain.end(), [field or None for field in plain[1].split(delimiter)]
        return
    pattern = _field_of(delimiter)
    at, line, first_line, begin = 0, 0, 0, 0
    fields: list[str | None] = []
    while at < len(text):
        match = pattern.match(text, at)
        assert match is not None
        quoted, closing, tail, plain_field, stop = match.groups()
        if quoted is None:
            fields.append(plain_field or None)
        elif not closing:
            raise ValueError(UNCLOSED)
        else:
            fields.append(quoted.replace('""', '"') + tail)
            line += len(LINE_END.findall(quoted))
        at = match.end()
        if stop == delimiter:
            if at < len(text):
                continue
            fields.append(None)
        if not is_blank(text[begin : match.start(5)], delimiter):
            yield first_line, at, fields
        fields = []
        line += stop != ""
        first_line, begin = line, at
