r"""Quoted fields and comments of a text table, told apart as CSV does.

A ``"`` opens a field only at its beginning, after a delimiter or a line end, and a line is a
comment only if it begins outside of a quoted field::

    # 5" disks            a comment: its quote opens nothing
    0,1,5" disk           a quote inside of a field opens nothing, either
    2,3,"a                a quoted field that goes on
    # b"                  ... to here: no comment
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Marks", "find_marks", "last_line_end", "without_comments"]

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


def find_marks(text: bytes, delimiter: bytes | None) -> Marks:
    """Find the quotes and comments of a text that begins with a line.

    Args:
        text: part of the file; it may end anywhere.
        delimiter: delimiter of fields that may be quoted; None: there are no quotes.
    """
    lines = b"\n" + text
    comments = []
    if b"#" in text or b"%" in text:
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


def last_line_end(text: bytes, delimiter: bytes) -> int:
    """Return where the last whole line ends, outside of quotes; 0 if there is none."""
    marks = find_marks(text, delimiter)
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
