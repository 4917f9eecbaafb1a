"""Files of delimited text as streams of Arrow record batches, in which every value is a string."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aethergraph._checks.dialect import (
    BYTE_ORDER_MARK,
    Head,
    explain_byte,
    explain_count,
    find_head,
    is_blank,
    skip_comments,
)
from aethergraph.convert.inputs import open_input
from aethergraph.convert.readers.base import InputError, is_compressed
from aethergraph.convert.readers.text_blocks import BlockReader, count_byte, decompressed

__all__ = ["TextForm", "open_text", "without_compression"]

_BLOCK = 1 << 20


@dataclass(frozen=True)
class TextForm:
    """Form of a file of text.

    Attributes:
        delimiter: character between fields; None: that of the first line.
        has_names: the first line holds the names of the columns; else these are their numbers
            from 0, as text.
    """

    delimiter: str | None = None
    has_names: bool = True


def open_text(
    path: str, form: TextForm, columns: Sequence[str] | None
) -> tuple[Any, Iterator[Any]]:
    """Return the schema of a file, and its record batches; None for ``columns``: no batches.

    Empty fields are null, unless they are quoted.
    """
    import pyarrow as pa

    head = _read_head(path, form)
    schema = pa.schema([(name, pa.string()) for name in head.names])
    return schema, iter(()) if columns is None else _batches(path, head, columns)


def _read_head(path: str, form: TextForm) -> Head:
    """Return the header of a file; of one without names the numbers of columns."""
    data, head, name = b"", None, str(without_compression(path))
    for block in BlockReader(path, quotes=None):
        data += block.copy()
        try:
            head = find_head(data, form.delimiter, name, form.has_names)
        except ValueError as error:
            line = 1 + data.count(b"\n", 0, skip_comments(data, form.has_names))
            problem = str(error)
            if isinstance(error, UnicodeDecodeError):
                problem = explain_byte(error)
            raise InputError(path, problem, line=line) from None
        if head is not None:
            break
    if head is None:
        raise InputError(path, "holds only comments and empty lines" if data else "is empty")
    if form.has_names:
        return head
    return Head([str(number) for number in range(len(head.names))], 0, head.delimiter)


def _batches(path: str, head: Head, columns: Sequence[str]) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.csv as csv

    bad: list[InputError] = []

    def judge(row: Any) -> str:
        if is_blank(row.text, head.delimiter):
            return "skip"
        problem = explain_count(row.actual_columns, row.expected_columns, row.text)
        bad.append(InputError(path, problem, line=row.number, unit="row"))
        return "error"

    chosen = [name for name in columns if name in head.names]
    stream = _CheckedText(path, head)
    try:
        yield from csv.open_csv(
            pa.PythonFile(stream, "r"),
            csv.ReadOptions(block_size=_BLOCK, use_threads=False, column_names=head.names),
            csv.ParseOptions(
                delimiter=head.delimiter, newlines_in_values=True, invalid_row_handler=judge
            ),
            csv.ConvertOptions(
                column_types=dict.fromkeys(chosen, pa.string()), include_columns=chosen,
                strings_can_be_null=True, null_values=[""], quoted_strings_can_be_null=False,
            ),
        )  # fmt: skip
    except pa.ArrowInvalid as error:
        if str(error).startswith("Empty CSV"):
            return
        stream.check_quotes()
        if "straddling" in str(error):
            raise InputError(
                path, "has a line of more than 1 MiB: give the table as Parquet"
            ) from None
        raise (bad or [error])[0] from None


class _CheckedText:
    """File of text below its header, for pyarrow: refuses what is not UTF-8, and open quotes."""

    closed = False

    def __init__(self, path: str, head: Head) -> None:
        self._path, self._quotes = path, head.delimiter.encode()
        self._file = open_input(path)
        self._stream = decompressed(path, self._file)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._line, self._num_quotes = 1, 0
        data = self._stream.read(len(BYTE_ORDER_MARK) + head.end)
        end = head.end + len(BYTE_ORDER_MARK) * data.startswith(BYTE_ORDER_MARK)
        self._line += data.count(b"\n", 0, end)
        self._rest = data[end:]
        if self._rest.startswith(BYTE_ORDER_MARK):  # pyarrow would drop it
            self._rest, self._line = b"\n" + self._rest, self._line - 1

    def read(self, size: int) -> bytes:
        """Return the next bytes, checked."""
        data: bytes = self._rest or self._stream.read(size)
        self._rest = b""
        pending = self._decoder.getstate()[0]
        try:
            if pending or not data.isascii():
                self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            line = self._line + error.object.count(b"\n", 0, error.start)
            raise InputError(self._path, explain_byte(error), line=line) from None
        self._line += count_byte(data, 0, len(data), 10)
        self._num_quotes += count_byte(data, 0, len(data), 34)
        if not data and self._num_quotes % 2:
            self.check_quotes()
        return data

    def check_quotes(self) -> None:
        """Raise if a quote of the file is never closed."""
        for _ in BlockReader(self._path, self._quotes, commented=False):
            pass

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self.closed = True


def without_compression(path: str) -> Path:
    """Return the name that a compressed file has when it is not; other names as they are."""
    file = Path(path)
    return file.with_suffix("") if is_compressed(path) else file
