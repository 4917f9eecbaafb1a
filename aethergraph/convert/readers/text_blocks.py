r"""Text file as blocks of whole lines in recycled buffers.

::

    buffer   | carry | ......... read() ......... |tail|
             0                                   cut   fill
             \_____________ block ______________/  \_ carry of the next block

The consumer hands buffers back, so that a long file touches a handful of them and the kernel
provides no fresh pages (a third of the reading time otherwise).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from aethergraph._checks.dialect import (
    UNCLOSED,
    explain_start,
    find_marks,
    last_line_end,
    skip_comments,
)
from aethergraph.convert.inputs import open_input
from aethergraph.convert.readers.base import (
    InputError,
    PathLike,
    check_readable,
    is_compressed,
    reading_error,
)

__all__ = ["Block", "BlockReader", "count_byte", "decompressed"]

BLOCK_BYTES = 1 << 20
_MAX_LINE_BYTES = 64 << 20
_NOT_BLANK = re.compile(rb"\S")


class Block:
    """Bytes ``start`` to ``end`` of a buffer: whole lines of a text file.

    Attributes:
        line: 1-based number of the first line.
        done: bytes of the file read so far.
        most_lines: upper bound of the number of lines.
    """

    __slots__ = ("buffer", "done", "end", "line", "most_lines", "start")

    def __init__(
        self,
        buffer: bytes | bytearray,
        start: int,
        end: int,
        line: int,
        done: int,
        most_lines: int,
    ) -> None:
        self.buffer = buffer
        self.start = start
        self.end = end
        self.line = line
        self.done = done
        self.most_lines = most_lines

    @classmethod
    def of(cls, data: bytes, line: int = 1) -> Block:
        """Make a block of bytes whose first line is number ``line``."""
        return cls(data, 0, len(data), line, 0, data.count(b"\n") + 1)

    def view(self) -> memoryview:
        """Return the bytes without copying them."""
        return memoryview(self.buffer)[self.start : self.end]

    def copy(self) -> bytes:
        """Return a copy of the bytes."""
        return bytes(self.view())

    def has(self, byte: bytes) -> bool:
        """Return whether a byte occurs."""
        return self.buffer.find(byte, self.start, self.end) >= 0

    def is_blank(self) -> bool:
        """Return whether the block holds white space only."""
        return _NOT_BLANK.search(self.buffer, self.start, self.end) is None

    def skip(self, count: int) -> None:
        """Leave out the first ``count`` bytes, which end with a line."""
        stop = self.start + count
        ends = count_byte(self.buffer, self.start, stop, 10)
        self.line += ends or count_byte(self.buffer, self.start, stop, 13)
        self.start = stop


class BlockReader:
    """Iterable over the blocks of a plain or compressed text file.

    Args:
        path: the file, or a URL.
        quotes: delimiter of fields that may be quoted and hold line ends: blocks never end inside
            such a field; None: there are no quotes.
        commented: comments may stand anywhere, and not before the first row alone.

    Raises:
        InputError: damaged compression, binary or UTF-16 content, a line beyond 64 MiB, a quote
            that is never closed.
    """

    def __init__(self, path: PathLike, quotes: bytes | None, commented: bool = True) -> None:
        self._path = path
        self._quotes = quotes
        self._commented = commented
        self._size = check_readable(path)
        self._free: list[bytearray] = []

    def recycle(self, block: Block) -> None:
        """Take back the buffer of a block whose bytes the consumer no longer needs."""
        if isinstance(block.buffer, bytearray):
            self._free.append(block.buffer)

    def __iter__(self) -> Iterator[Block]:
        line = 1
        carry: bytes = b""
        first = is_lead = True
        with open_input(self._path) as raw:
            stream = decompressed(self._path, raw)
            while True:
                buffer = self._buffer(len(carry) + BLOCK_BYTES)
                buffer[: len(carry)] = carry
                count = self._fill(
                    stream, memoryview(buffer)[len(carry) : len(carry) + BLOCK_BYTES]
                )
                fill = len(carry) + count
                if count == 0:
                    break
                start = self._check_start(buffer, fill) if first else 0
                first = False
                cut = self._cut(buffer, start, len(carry), fill, is_lead)
                if cut == 0:
                    self._check_length(fill, line)
                    carry = bytes(memoryview(buffer)[start:fill])
                    continue
                carry = bytes(memoryview(buffer)[cut:fill])
                ends = count_byte(buffer, 0, cut, 10)
                is_lead = False
                yield Block(buffer, start, cut, line, raw.tell(), ends)
                line += ends
        if carry:
            self._check_closed(carry, line, is_lead)
            yield Block(carry, 0, len(carry), line, self._size, carry.count(b"\n") + 1)

    def _buffer(self, size: int) -> bytearray:
        while self._free:
            buffer = self._free.pop()
            if len(buffer) >= size:
                return buffer
        return bytearray(size + (64 << 10))

    def _cut(self, buffer: bytearray, start: int, read: int, fill: int, is_lead: bool) -> int:
        """Return where the last whole line ends; 0 if no line ends behind ``read``."""
        cut = buffer.rfind(b"\n", read, fill) + 1
        if cut == 0 or self._quotes is None or buffer.find(b'"', start, cut) < 0:
            return cut
        text = bytes(memoryview(buffer)[start:fill])
        lead = 0 if self._commented or not is_lead else skip_comments(text)
        length = last_line_end(text[lead:], self._quotes, self._commented)
        return start + lead + length if lead + length else 0

    def _check_closed(self, carry: bytes, line: int, is_lead: bool) -> None:
        """Raise if the last line of the file, which has no end, has a quote that is not closed."""
        if self._quotes is None or b'"' not in carry:
            return
        lead = 0 if self._commented or not is_lead else skip_comments(carry)
        quotes = find_marks(carry[lead:], self._quotes, self._commented).quotes
        if len(quotes) % 2:
            line += carry.count(b"\n", 0, lead + int(quotes[-1]))
            raise InputError(self._path, UNCLOSED, line=line)

    def _fill(self, stream: Any, into: memoryview) -> int:
        count = 0  # not all file systems return all at once, and a build counts blocks to go on
        try:
            while count < len(into) and (more := stream.readinto(into[count:])):
                count += int(more)
            return count
        except OSError as error:
            raise reading_error(self._path, error) from None

    def _check_length(self, fill: int, line: int) -> None:
        if fill > _MAX_LINE_BYTES:
            problem = "no end of this line within 64 MiB (an unclosed quote, or not text)"
            raise InputError(self._path, problem, line=line)

    def _check_start(self, buffer: bytearray, fill: int) -> int:
        """Return where the text begins: after the byte order mark, if there is one."""
        problem = explain_start(buffer[:fill])
        if problem is not None:
            raise InputError(self._path, problem)
        if buffer.startswith(b"%%MatrixMarket"):
            problem = (
                "is a MatrixMarket file (ids from 1, a line of sizes), which is not read; "
                "load it with scipy.io.mmread and save an .npy of shape [2, E]"
            )
            raise InputError(self._path, problem)
        return 3 if buffer.startswith(b"\xef\xbb\xbf") else 0


def count_byte(buffer: bytes | bytearray, start: int, stop: int, value: int) -> int:
    """Count a byte; many times faster than ``bytes.count`` where the byte is frequent."""
    part = np.frombuffer(buffer, np.uint8, stop - start, start)
    return int(np.count_nonzero(part == value))


def decompressed(path: PathLike, raw: IO[bytes]) -> Any:
    """Return the bytes of a file that is open, decompressed if its name says so."""
    if not is_compressed(path):
        return raw
    import pyarrow as pa

    codec = pa.Codec.detect(str(path)).name
    return pa.CompressedInputStream(pa.PythonFile(raw, "r"), codec)
