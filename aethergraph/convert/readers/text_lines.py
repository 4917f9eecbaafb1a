"""Lines of a text table that runs of blanks separate."""

from __future__ import annotations

from typing import Any

import numpy as np

from aethergraph.convert.readers.text_blocks import Block

__all__ = ["BadBlock", "squeeze_blanks"]

_TABS_TO_BLANKS = bytes.maketrans(b"\t", b" ")


class BadBlock(Exception):
    """Raised if a value of a parsed block is not allowed."""


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
