"""Lines of a text table: delimiters, quoted fields, runs of blanks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from aethergraph.convert.readers.text_blocks import Block
from aethergraph.errors import InvalidArgumentError

__all__ = ["BadBlock", "as_delimiter", "split_records", "squeeze_blanks"]

LINE_END = re.compile(r"\r\n|\n|\r")
_TABS_TO_BLANKS = bytes.maketrans(b"\t", b" ")
_DELIMITER_NAMES = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}


class BadBlock(Exception):
    """Raised if a value of a parsed block is not allowed."""


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


def split_records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line counted from 0, fields) of every line that is not blank.

    Unlike Python's csv module, fields may be of any length, and lines end at CR and LF only.
    """
    if '"' not in text:
        for number, plain_line in enumerate(LINE_END.split(text)):
            if plain_line.strip(" \t"):
                yield number, plain_line.split(delimiter)
        return
    end = re.escape(delimiter)
    field = re.compile(
        rf'(?:"([^"]*(?:""[^"]*)*)"?([^{end}\r\n]*)|([^{end}\r\n]*))({end}|\r\n|\n|\r|\Z)'
    )
    at, line, begin = 0, 0, 0
    values: list[str] = []
    while at < len(text):
        match = field.match(text, at)
        assert match is not None
        quoted, tail, plain, stop = match.groups()
        values.append(plain if quoted is None else quoted.replace('""', '"') + tail)
        line += len(LINE_END.findall(quoted or ""))
        at = match.end()
        if stop == delimiter:
            if at == len(text):
                values.append("")
            else:
                continue
        if any(value.strip(" \t") for value in values) or len(values) > 1:
            yield begin, values
        values = []
        line += stop != ""
        begin = line
    if values:
        yield begin, values


def squeeze_blanks(block: Block) -> tuple[Any, str]:
    """Return blank-separated lines with one delimiter between fields, and that delimiter.

    A block that is regular already is returned uncopied.
    """
    if block.has(b"\0"):  # "\0" marks what is squeezed out below; text never has it
        raise BadBlock
    spaces, tabs = block.has(b" "), block.has(b"\t")
    text = np.frombuffer(block.view(), np.uint8)
    ends = (text == 10) | (text == 13)
    if not (spaces and tabs):
        delimiter = "\t" if tabs else " "
        blank = text == ord(delimiter)
        regular = not (
            blank[0]
            or blank[-1]
            or (blank[1:] & (blank[:-1] | ends[:-1])).any()
            or (blank[:-1] & ends[1:]).any()
        )
        if regular:
            return block.view(), delimiter
    blank = (text == 32) | (text == 9)
    squeezed = text.copy()
    squeezed[:-1] *= ~(blank[:-1] & (blank[1:] | ends[1:]))  # all but the last blank of a run
    clean = squeezed.tobytes().translate(_TABS_TO_BLANKS, b"\0")
    if blank[0] or (blank[1:] & ends[:-1]).any():
        clean = clean.replace(b"\n ", b"\n").lstrip(b" ")
    return clean.rstrip(b" "), " "
