r"""Text tables (CSV, TSV, blank-separated) as a stream of numpy chunks.

The file is read in blocks of 1 MiB cut at line ends; each block is parsed in a worker thread
straight into numpy arrays: by the native core if it holds nothing but plain integers, else by
pyarrow's CSV reader::

    read 1 MiB -> cut at newline -> plain integers -------------------------------> check
                                 -> [drop comments] -> [squeeze blanks] -> pyarrow /
    \____________ caller's thread ___________/ \______________ a worker _________/

The bracketed steps run only for blocks that need them. 1 MiB keeps a block inside the second
level cache: measured 14-16 million two-column lines/s per core against 8-10 for 16 MiB blocks.

Format: that of :mod:`aethergraph._checks.dialect`, and two more: blank-separated files have any run
of spaces and tabs between fields, and files without a header have comments in any place, unless
they could be rows.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from aethergraph import _native as native
from aethergraph._checks.dialect import (
    BYTE_ORDER_MARK,
    LINE_END,
    LOGICAL,
    Marks,
    as_delimiter,
    comment_hint,
    explain_byte,
    explain_count,
    find_delimiter,
    find_marks,
    is_blank,
    split_records,
    without_comments,
)
from aethergraph._parallel.threads import ThreadPool
from aethergraph.convert.readers.base import (
    Field,
    InputError,
    PathLike,
    ProgressFn,
    check_readable,
    is_index_name,
    require_pyarrow,
)
from aethergraph.convert.readers.exact import explain_text_change, may_change
from aethergraph.convert.readers.text_blocks import Block, BlockReader, count_byte
from aethergraph.convert.readers.text_lines import BadBlock, squeeze_blanks
from aethergraph.convert.readers.text_values import (
    DATE,
    arrow_type_of,
    explain_value,
    is_value,
    looks_like_header,
    overflows,
    wraps_dates,
)

__all__ = ["TextTable"]

Array: TypeAlias = npt.NDArray[Any]

_SEARCH_BYTES = 64 << 10  # a bad block is searched for its bad line in parts of this size

_MOST_COLUMNS = 1 << 20

#: Blanks before a field without quotes, and behind any.
_PADDING = (
    rb'(?<![^%(end)b\r\n])[%(blank)b]+(?=[^" \t])'
    rb"|(?<![%(blank)b])[%(blank)b]+(?=[%(end)b\r\n]|\Z)"
)
_EMPTY_LINE = re.compile(rb"(?m)^[ \t]*\r?\n")
_NO_VALUES = re.compile(rb"(?:[ \t\f\v]*(?:[#%][^\r\n]*)?[\r\n])*[ \t\f\v]*(?:[#%][^\r\n]*)?")
_LINE = re.compile(rb"([^\r\n]*)(\r\n|\n|\r|$)")
_HEX = re.compile(rb"0[xX]")
_ZONE = re.compile(r"[0-9](Z|[+-][0-9]{2}(:?[0-9]{2})?)")
_DATE_UNITS = ("D", "s", "ms", "us", "ns")
_BLANKS = re.compile(r"[ \t]+")


class TextTable:
    """Text file with columns.

    Args:
        path: plain or compressed (.gz, .bz2, .zst, .lz4) text in UTF-8 or ASCII.
        delimiter: one character; " " means runs of blanks; None takes the first of
            ``candidates`` that occurs in the first line.
        candidates: delimiters to look for, in this order.
        header: whether the first line holds names; None decides when columns are chosen.
        threads: parsing threads; None for as many as the native core uses.

    Attributes:
        num_columns: fields per line.
        names: column names, or None while there is no header.

    Raises:
        InputError: empty, binary or not UTF-8 text.
    """

    unit = "line"

    def __init__(
        self,
        path: PathLike,
        *,
        delimiter: str | None = None,
        candidates: str = ",\t;| ",
        header: bool | None = None,
        threads: int | None = None,
    ) -> None:
        require_pyarrow()
        self.path = path
        self.size = check_readable(path)
        self.threads = native.get_num_threads() if threads is None else max(1, threads)
        self.names: list[str] | None = None
        self._skip_bytes = 0
        self._head, self._first, self._second, self._header_end = self._read_head(
            delimiter, candidates
        )
        self.num_columns = len(self._first)
        self._header = header
        if header:
            self._use_header()

    # ---- columns ---------------------------------------------------------

    def settle_header(self, columns: Sequence[int]) -> None:
        """Decide whether the first line is a header, knowing which columns must be numbers."""
        if self._header is None:
            chosen = [c for c in columns if 0 <= c < self.num_columns]
            self._header = looks_like_header(self._first, self._second, chosen)
            if self._header:
                self._use_header()

    def require_header(self) -> None:
        """Take the first line as names, since columns are chosen by name."""
        if self._header is None:
            self._header = True
            self._use_header()

    def peek_names(self) -> list[str]:
        """Return the fields of the first line, which may or may not be names."""
        return [name.strip() for name in self._first]

    @property
    def index_columns(self) -> list[int]:
        """Columns that hold the index of a data frame, by the names that pandas writes to CSV."""
        names = self.peek_names()
        columns = [column for column, name in enumerate(names) if is_index_name(name)]
        if len(names) > 1 and names[0] == "" and not any(map(is_value, names[1:])):
            columns.insert(0, 0)
        return columns

    def is_integral(self, column: int) -> bool:
        """Return whether the first block holds only integers in this column."""
        head = self._head[self._skip_bytes :]
        try:
            self._parse(Block.of(head), [Field("", column, "int64")])
        except Exception:
            return False
        return True

    def column_name(self, column: int) -> str | None:
        """Return the name of a column, or None while there is no header."""
        return self.names[column] if self.names is not None else None

    @property
    def _commented(self) -> bool:
        """True if comments may stand behind the first row: none of a table with a header."""
        return self.names is None

    def _use_header(self) -> None:
        self.names = [name.strip() for name in self._first]
        self._skip_bytes = self._header_end

    # ---- reading ---------------------------------------------------------

    def chunks(
        self, fields: Sequence[Field], progress: ProgressFn | None = None, skip: int = 0
    ) -> Iterator[list[Array]]:
        """Yield arrays of each field, block by block, in the order of the file.

        Args:
            fields: columns to read, and their types.
            progress: called with (bytes done, bytes in all).
            skip: number of blocks to leave out at the beginning.

        Raises:
            InputError: the first bad value, with its line and column.
        """
        self._check_times(fields)
        source = BlockReader(self.path, self._quotes, self._commented)
        waiting: deque[tuple[Future[list[Array]], Block]] = deque()

        def next_arrays() -> list[Array]:
            future, block = waiting.popleft()
            arrays = future.result()
            source.recycle(block)
            if progress is not None:
                progress(block.done, self.size)
            return arrays

        pool = _SameThread() if self.threads == 1 else ThreadPool(self.threads, "aethergraph-csv")
        try:
            for number, block in enumerate(self._without_header(source)):
                if number < skip:
                    source.recycle(block)
                    continue
                waiting.append((pool.submit(self._parse_or_explain, block, fields), block))
                if len(waiting) > self.threads:
                    yield next_arrays()
            while waiting:
                yield next_arrays()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _without_header(self, source: BlockReader) -> Iterator[Block]:
        skip = self._skip_bytes
        empty: int | None = None
        for block in source:
            count = min(skip, block.end - block.start)
            if count:
                block.skip(count)
                skip -= count
            if self.num_columns == 1:
                empty = self._check_empty_lines(block, empty)
            yield block

    def _check_empty_lines(self, block: Block, before: int | None) -> int | None:
        """Refuse an empty line of a one-column table, except at the end of the file.

        An empty line is a missing value there.

        Returns:
            The first empty line that nothing has followed so far.
        """
        line = before
        if line is None:
            match = _EMPTY_LINE.search(block.buffer, block.start, block.end)
            if match is None:
                return None
            line = block.line + count_byte(block.buffer, block.start, match.start(), 10)
            begin = match.end()
        else:
            begin = block.start
        if _NO_VALUES.fullmatch(block.buffer, begin, block.end):
            return line
        raise InputError(
            self.path,
            "the value is missing (an empty line)",
            line=line,
            column=1,
            column_name=self.column_name(0),
        )

    # ---- types of columns --------------------------------------------------

    def _first_value(self, column: int) -> str:
        """Return the text of the first value of a column; empty if there is none."""
        row = self._second if self.names is not None else self._first
        return row[column] if row is not None and column < len(row) else ""

    def has_zone(self, column: int, unit: str) -> bool | None:
        """Return whether the first of the dates has a time zone; None for days and numbers."""
        first = self._first_value(column).strip()
        if unit == "D" or not DATE.match(first):
            return None
        return _ZONE.search(first[10:]) is not None

    def _arrow_type(self, field: Field) -> str:
        """Return the type to parse a field as; its first value tells booleans and dates."""
        first = self._first_value(field.column)
        if field.logical and first in LOGICAL:
            return "bool"
        if field.unit is not None and DATE.match(first.strip()):
            if field.unit == "D":
                return "date32"
            zone = ", tz=UTC" if self.has_zone(field.column, field.unit) else ""
            return f"timestamp[{field.unit}{zone}]"
        return field.dtype

    def _check_times(self, fields: Sequence[Field]) -> None:
        """Refuse dates in a unit they cannot be read in, and integers without a declared unit."""
        for field in fields:
            if not field.is_time or field.unit is None:
                continue
            dates = DATE.match(self._first_value(field.column).strip()) is not None
            problem = None
            if dates and field.unit not in _DATE_UNITS:
                problem = f"dates are read in {', '.join(_DATE_UNITS)}, not in {field.unit!r}"
            elif not dates and not field.declared:
                problem = (
                    f"the {field.role}s are plain numbers, but those of the file before are in "
                    f"{field.unit!r}; --time-unit (time_unit=) says what plain numbers count"
                )
            if problem is not None:
                raise InputError(
                    self.path,
                    problem,
                    column=field.column + 1,
                    column_name=self.column_name(field.column),
                )

    # ---- the head of the file --------------------------------------------

    def _read_head(
        self, delimiter: str | None, candidates: str
    ) -> tuple[bytes, list[str], list[str] | None, int]:
        """Read the first block, the fields of two data lines, and the end of the first line."""
        self._delimiter = as_delimiter(delimiter) if delimiter is not None else ","
        self._quotes: bytes | None = None  # delimiter of fields that may be quoted
        data = b""
        for block in BlockReader(self.path, quotes=None):
            data += block.copy()
            if self._row(data, self._row(data, 0)[1])[0]:
                break
        line, _ = self._row(data, 0)
        if not line:
            problem = "is empty" if not data else "holds only comments and empty lines"
            raise InputError(self.path, problem)
        if delimiter is None:
            # A tab is a blank as well.
            self._delimiter = find_delimiter(line.replace("\t", "\t "), candidates)
        self._quotes = self._delimiter.encode() if self._delimiter != " " else None
        line, end = self._row(data, 0)
        second, _ = self._row(data, end)
        return data, self._split(line), self._split(second) if second else None, end

    def _row(self, data: bytes, at: int) -> tuple[str, int]:
        """Return the first row of a text from a place on, and its end; "" if there is none."""
        for match in _LINE.finditer(data, at):
            line = match[1]
            if not line.strip() or line.lstrip().startswith((b"#", b"%")):
                continue
            end = match.end()
            if self._quotes is not None and b'"' in line:
                marks = find_marks(data[match.start() :], self._quotes, commented=False)
                if marks.quotes_before(end - match.start()) % 2:
                    end = _line_end(data, end, match.start(), marks)
            return data[match.start() : end].decode("utf-8", "replace").rstrip("\r\n"), end
        return "", len(data)

    def _split(self, line: str) -> list[str]:
        columns = line.count(self._delimiter) + 1
        if columns > _MOST_COLUMNS:
            problem = f"a line has {columns:,} fields, and at most {_MOST_COLUMNS:,} are read"
            raise InputError(self.path, f"{problem} (is the delimiter right?)")
        if self._delimiter == " ":
            return _BLANKS.split(line.strip(" \t"))
        try:
            _, _, values = next(split_records(line, self._delimiter), (0, 0, [""]))
        except ValueError:  # said when it is read
            return line.split(self._delimiter)
        return [value or "" for value in values]

    # ---- one block -------------------------------------------------------

    def _parse_or_explain(self, block: Block, fields: Sequence[Field]) -> list[Array]:
        import pyarrow as pa

        self._refuse_rows_as_comments(block, fields)
        try:
            plain = self._parse_plain(block, fields)
            if plain is not None:
                return plain
            self._check_encoding(block)
            try:
                return self._parse(block, fields)
            except pa.ArrowInvalid:
                # Lines of blanks, and blanks around times, are no error, but too rare to look for
                # in good blocks.
                if self._delimiter == " ":
                    raise
                blank = b" " if self._delimiter == "\t" else b" \t"
                end = re.escape(self._delimiter.encode())
                text = re.sub(_PADDING % {b"end": end, b"blank": blank}, b"", block.copy())
                return self._parse(Block.of(text, block.line), fields)
        except (pa.ArrowInvalid, BadBlock) as error:
            self._explain(block.copy(), block.line, fields, error)

    def _parse(self, block: Block, fields: Sequence[Field]) -> list[Array]:
        import pyarrow as pa
        import pyarrow.csv as pacsv

        if self._commented and (block.has(b"#") or block.has(b"%")):
            block = Block.of(without_comments(block.copy(), self._quotes), block.line)
        if block.is_blank():
            return [_as_numbers(field, np.empty(0, field.dtype)) for field in fields]
        if block.buffer.startswith(BYTE_ORDER_MARK, block.start):  # pyarrow would drop it
            raise BadBlock
        delimiter = self._delimiter
        clean: Any = block.view()
        if delimiter == " ":
            clean, delimiter = squeeze_blanks(block)
        ints = [f.column for f in fields if f.dtype == "int64"]
        # pyarrow reads 0x1f as 31; the format refuses it like any other name.
        strict = bool(ints) and _may_hold_hex(block)
        options: dict[str, Any] = {
            "read_options": pacsv.ReadOptions(
                use_threads=False,
                block_size=len(clean) + 1,
                column_names=[_key(i) for i in range(self.num_columns)],
            ),
            "parse_options": pacsv.ParseOptions(
                delimiter=delimiter,
                quote_char='"' if self._quotes is not None and block.has(b'"') else False,
                newlines_in_values=False,
            ),
        }
        if strict:
            _refuse_hex(clean, options, ints)
        columns: dict[tuple[int, str], Array] = {}
        kinds = [self._arrow_type(field) for field in fields]
        for types in _passes(fields, kinds):
            table = pacsv.read_csv(
                pa.py_buffer(clean),
                convert_options=pacsv.ConvertOptions(
                    column_types={_key(c): arrow_type_of(t) for c, t in types.items()},
                    include_columns=[_key(c) for c in types],
                    null_values=[],
                    strings_can_be_null=False,
                    check_utf8=False,
                ),
                **options,
            )
            for column, dtype in types.items():
                columns[column, dtype] = _one_array(table.column(_key(column)))
        arrays = []
        for field, kind in zip(fields, kinds, strict=True):
            array = _as_numbers(field, columns[field.column, kind])
            _check_values(field, array)
            is_ns = "[ns" in kind and wraps_dates()
            if is_ns and overflows(array, self._texts(field, clean, options)):
                raise BadBlock
            self._check_exact(field, array, kind, clean, options)
            arrays.append(array)
        return arrays

    def _refuse_rows_as_comments(self, block: Block, fields: Sequence[Field]) -> None:
        """Refuse a comment that could be a row whose first field begins with the mark."""
        columns = [field.column for field in fields if field.is_id] or [
            field.column for field in fields
        ]
        if 0 in columns or not self._commented or not (block.has(b"#") or block.has(b"%")):
            return
        way = (
            'quote its first field ("#...")' if self._quotes else "begin it with another character"
        )
        text = block.copy()
        for begin, end in find_marks(text, self._quotes).comments:
            values = self._split(text[begin:end].decode("utf-8", "replace"))
            if len(values) == self.num_columns and all(
                values[column].strip() and is_value(values[column]) for column in columns
            ):
                mark = values[0].strip()[:1]
                raise InputError(
                    self.path,
                    f"begins with {mark!r} as comments do, but could be a row: {way} if it is one, "
                    "else delete it",
                    line=block.line + text.count(b"\n", 0, begin),
                )

    def _check_encoding(self, block: Block) -> None:
        """Raise if a block is not UTF-8 outside of comments."""
        text = block.copy()
        try:
            if not text.isascii():
                text = without_comments(text, self._quotes) if self._commented else text
                text.decode()
        except UnicodeDecodeError as error:
            line = block.line + text.count(b"\n", 0, error.start)
            raise InputError(self.path, explain_byte(error), line=line) from None

    def _check_exact(
        self, field: Field, array: Array, kind: str, clean: Any, options: dict[str, Any]
    ) -> None:
        """Refuse integers that a float type does not hold exactly; their text tells integers."""
        large = may_change(array, field.stored) if kind in ("float32", "float64") else None
        if large is None:
            return
        import pyarrow as pa

        texts = self._texts(field, clean, options)
        for text in texts.filter(pa.array(large)).to_pylist():
            if explain_text_change(field, text.strip(" \t")) is not None:
                raise BadBlock

    def _texts(self, field: Field, clean: Any, options: dict[str, Any]) -> Any:
        """Return the column of a field as a pyarrow array of texts."""
        import pyarrow as pa
        import pyarrow.csv as pacsv

        key = _key(field.column)
        return pacsv.read_csv(
            pa.py_buffer(clean),
            convert_options=pacsv.ConvertOptions(
                column_types={key: pa.string()}, include_columns=[key], check_utf8=False
            ),
            **options,
        ).column(key)

    def _parse_plain(self, block: Block, fields: Sequence[Field]) -> list[Array] | None:
        """Parse plain integers, several times as fast as pyarrow.

        None means that the block holds anything else.
        """
        delimiter = self._delimiter
        if not delimiter.isascii() or any(self._arrow_type(field) != "int64" for field in fields):
            return None
        if delimiter == " " and block.has(b"\t"):
            delimiter = "\t"
        columns = native.parse_integers(block.view(), delimiter, self.num_columns, block.most_lines)
        if columns is None:
            return None
        arrays = [_as_numbers(field, columns[field.column]) for field in fields]
        for field, array in zip(fields, arrays, strict=True):
            _check_values(field, array)
        return arrays

    # ---- explaining a bad block ------------------------------------------

    def _explain(
        self, data: bytes, line: int, fields: Sequence[Field], cause: Exception
    ) -> NoReturn:
        """Find the first bad line of a block and raise the error that names it."""
        marks = find_marks(data, self._quotes, self._commented)
        start = 0
        while start < len(data):
            end = _line_end(data, start + _SEARCH_BYTES, 0, marks)
            part = data[start:end]
            try:
                self._parse(Block.of(part), fields)
            except Exception:
                self._explain_lines(part, line, fields)
            line += part.count(b"\n")
            start = end
        raise InputError(self.path, f"cannot be parsed: {cause}") from None

    def _explain_lines(self, part: bytes, line: int, fields: Sequence[Field]) -> None:
        part = without_comments(part, self._quotes) if self._commented else part
        for number, values in self._records(part):
            if len(values) != self.num_columns:
                count_problem = explain_count(len(values), self.num_columns, values[0])
                raise InputError(self.path, count_problem, line=line + number) from None
            for field in fields:
                text = values[field.column]
                problem = explain_value(field, self._arrow_type(field), text.strip(" \t\r"))
                if problem is not None:
                    raise InputError(
                        self.path,
                        problem + comment_hint(values[0]),
                        line=line + number,
                        column=field.column + 1,
                        column_name=self.column_name(field.column) or field.role,
                    ) from None

    def _records(self, part: bytes) -> Iterator[tuple[int, list[str]]]:
        """Yield (line counted from 0, fields) of every line that is not empty."""
        text = part.decode("utf-8", "replace")
        if self._delimiter != " ":
            for number, _, values in split_records(text, self._delimiter):
                yield number, [value or "" for value in values]
            return
        for number, line in enumerate(LINE_END.split(text)):
            if not is_blank(line, " "):
                yield number, self._split(line)


class _SameThread:
    """Substitute for a thread pool that runs the work at once, in the calling thread."""

    def submit(self, work: Callable[..., Any], *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(work(*args))
        return future

    def shutdown(self, wait: bool, cancel_futures: bool) -> None:
        pass


def _line_end(data: bytes, at: int, begin: int, marks: Marks) -> int:
    """Return where the line at a position ends, outside of quotes; marks count from ``begin``."""
    while (end := data.find(b"\n", at) + 1) and marks.quotes_before(end - begin) % 2:
        at = end
    return end or len(data)


def _key(column: int) -> str:
    return f"c{column}"


def _passes(fields: Sequence[Field], kinds: Sequence[str]) -> list[dict[int, str]]:
    """Return types by column; several tables only if a column is read as two types."""
    passes: list[dict[int, str]] = [{}]
    for field, kind in zip(fields, kinds, strict=True):
        for types in passes:
            if types.setdefault(field.column, kind) == kind:
                break
        else:
            passes.append({field.column: kind})
    return passes


def _as_numbers(field: Field, array: Array) -> Array:
    """Convert booleans to numbers, and times to their unit."""
    if field.unit is not None:
        if array.dtype.kind != "M":
            return array.view(f"datetime64[{field.unit}]")
        return array.astype(f"datetime64[{field.unit}]", copy=False)
    return array.astype(field.dtype, copy=False)


def _one_array(column: Any) -> Array:
    import pyarrow.types as pat

    plain = not (pat.is_boolean(column.type) or pat.is_temporal(column.type))
    if column.num_chunks == 1 and plain:
        return column.chunk(0).to_numpy(zero_copy_only=True)  # type: ignore[no-any-return]
    return np.asarray(column.to_numpy())


def _refuse_hex(clean: Any, options: dict[str, Any], columns: list[int]) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as pacsv

    keys = list({_key(c): None for c in columns})
    table = pacsv.read_csv(
        pa.py_buffer(clean),
        convert_options=pacsv.ConvertOptions(
            column_types={key: pa.binary() for key in keys}, include_columns=keys
        ),
        **options,
    )
    for key in keys:
        if pc.any(pc.match_substring(table.column(key), "x", ignore_case=True)).as_py():
            raise BadBlock


def _check_values(field: Field, array: Array) -> None:
    if array.size == 0:
        return
    if field.is_id and (
        array.min() < 0 or (field.limit is not None and array.max() >= field.limit)
    ):
        raise BadBlock
    if (field.finite or field.unit is not None) and not np.isfinite(
        array
    ).all():  # refuses NaT, too
        raise BadBlock
    if field.minimum is not None and array.min() < field.minimum:
        raise BadBlock


def _may_hold_hex(block: Block) -> bool:
    if not (block.has(b"x") or block.has(b"X")):
        return False
    return _HEX.search(block.buffer, block.start, block.end) is not None
