r"""Text tables (CSV, TSV, blank-separated) as a stream of numpy chunks.

The file is read in blocks of 1 MiB cut at line ends; each block is parsed in a worker thread
straight into numpy arrays: by the native core if it holds nothing but plain integers, else by
pyarrow's CSV reader::

    read 1 MiB -> cut at newline -> plain integers -------------------------------> check
                                 -> [drop comments] -> [squeeze blanks] -> pyarrow /
    \____________ caller's thread ___________/ \______________ a worker _________/

The bracketed steps run only for blocks that need them. 1 MiB keeps a block inside the second
level cache: measured 14-16 million two-column lines/s per core against 8-10 for 16 MiB blocks.

Format: lines that start with ``#`` or ``%`` are comments, empty lines are skipped, a field may be
quoted with ``"``; blank-separated files have any run of spaces and tabs between fields. Every line
has as many fields as the first one.
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
from aethergraph._parallel.threads import ThreadPool
from aethergraph.convert.readers.base import (
    INT64_MAX,
    MAP_NAMES,
    Field,
    InputError,
    PathLike,
    ProgressFn,
    check_readable,
    explain_id,
    is_index_name,
    require_pyarrow,
)
from aethergraph.convert.readers.exact import explain_text_change, may_change
from aethergraph.convert.readers.text_blocks import Block, BlockReader, count_byte
from aethergraph.errors import InvalidArgumentError

__all__ = ["TextTable"]

Array: TypeAlias = npt.NDArray[Any]

_SEARCH_BYTES = 64 << 10  # a bad block is searched for its bad line in parts of this size

_MOST_COLUMNS = 1 << 20

_COMMENT_LINE = re.compile(rb"(?m)^[ \t]*[#%][^\n]*")
_BLANK_LINE = re.compile(rb"(?m)^ +\r?$")
_QUOTED = re.compile(r'"[^"]*"')
_EMPTY_LINE = re.compile(rb"(?m)^[ \t]*\r?\n")
_NOT_BLANK = re.compile(rb"\S")
_LINE_END = re.compile(r"\r\n|\n|\r")
_LINE = re.compile(rb"([^\r\n]*)(\r\n|\n|\r|$)")
_INTEGER = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE
)
_HEX = re.compile(rb"0[xX]")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ZONE = re.compile(r"[0-9](Z|[+-][0-9]{2}(:?[0-9]{2})?)")
#: Texts that pyarrow reads as true and false, beside 1 and 0.
_LOGICAL = frozenset({"true", "True", "TRUE", "false", "False", "FALSE"})
_DATE_UNITS = ("D", "s", "ms", "us", "ns")
_BLANKS = re.compile(r"[ \t]+")
_TABS_TO_BLANKS = bytes.maketrans(b"\t", b" ")
_DELIMITER_NAMES = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}

# First-line words that make the line a header even if the second line is text as well.
_HEADER_WORDS = frozenset(
    {"src", "source", "from", "u", "head", "start", "id", "ids", "node", "nodeid", "node_id"}
    | {"dst", "dest", "destination", "target", "to", "v", "tail", "end", "row", "col"}
    | {"source_id", "target_id", "src_id", "dst_id", "fromnodeid", "tonodeid"}
    | {"weight", "time", "timestamp", "label", "labels", "y"}
)


class _BadBlock(Exception):
    """Raised if a value of a parsed block is not allowed."""


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
            self._header = _looks_like_header(self._first, self._second, chosen)
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
        found = [column for column, name in enumerate(names) if is_index_name(name)]
        if len(names) > 1 and names[0] == "" and not any(map(_is_value, names[1:])):
            found.insert(0, 0)
        return found

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
        source = BlockReader(self.path, self._quotes)
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
            found = _EMPTY_LINE.search(block.buffer, block.start, block.end)
            if found is None:
                return None
            line = block.line + count_byte(block.buffer, block.start, found.start(), 10)
            rest = found.end()
        else:
            rest = block.start
        if _NOT_BLANK.search(block.buffer, rest, block.end) is None:
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

    def _arrow_type(self, one: Field) -> str:
        """Return the type to parse a field as; its first value tells booleans and dates."""
        first = self._first_value(one.column)
        if one.logical and first in _LOGICAL:
            return "bool"
        if one.unit is not None and _DATE.match(first.strip()):
            if one.unit == "D":
                return "date32"
            return f"timestamp[{one.unit}{', tz=UTC' if _ZONE.search(first.strip()[10:]) else ''}]"
        return one.dtype

    def _check_times(self, fields: Sequence[Field]) -> None:
        """Refuse dates in a unit they cannot be read in, and integers without a declared unit."""
        for one in fields:
            if not one.is_time or one.unit is None:
                continue
            dates = _DATE.match(self._first_value(one.column).strip()) is not None
            problem = None
            if dates and one.unit not in _DATE_UNITS:
                problem = f"dates are read in {', '.join(_DATE_UNITS)}, not in {one.unit!r}"
            elif not dates and not one.declared:
                problem = (
                    f"the {one.role}s are plain numbers, but those of the file before are in "
                    f"{one.unit!r}; --time-unit (time_unit=) says what plain numbers count"
                )
            if problem is not None:
                raise InputError(
                    self.path,
                    problem,
                    column=one.column + 1,
                    column_name=self.column_name(one.column),
                )

    # ---- the head of the file --------------------------------------------

    def _read_head(
        self, delimiter: str | None, candidates: str
    ) -> tuple[bytes, list[str], list[str] | None, int]:
        """Read the first block, the fields of two data lines, and the end of the first line."""
        self._delimiter = _plain_delimiter(delimiter) if delimiter is not None else ","
        self._quotes = False
        data = b""
        for block in BlockReader(self.path, quotes=False):
            data += block.copy()
            if len(self._data_lines(data)) >= 2:
                break
        lines = self._data_lines(data)
        if not lines:
            what = "is empty" if not data else "holds only comments and empty lines"
            raise InputError(self.path, what)
        first, end = lines[0]
        if delimiter is None:
            text = _QUOTED.sub("", first.strip()).replace("\t", "\t ")  # a tab is a blank as well
            # A file of one column: take the first candidate, which fits the file's name best.
            single = candidates[0] if len(candidates) > 2 else candidates[-1]
            self._delimiter = next((d for d in candidates if d in text), single)
        self._quotes = self._delimiter != " "
        second = self._split(lines[1][0]) if len(lines) > 1 else None
        return data, self._split(first), second, end

    def _data_lines(self, data: bytes, count: int = 2) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        for match in _LINE.finditer(data):
            line = match.group(1)
            if line.strip() and not line.lstrip().startswith((b"#", b"%")):
                found.append((line.decode("utf-8", "replace"), match.end()))
                if len(found) == count:
                    break
        return found

    def _split(self, line: str) -> list[str]:
        columns = line.count(self._delimiter) + 1
        if columns > _MOST_COLUMNS:
            problem = f"a line has {columns:,} fields, and at most {_MOST_COLUMNS:,} are read"
            raise InputError(self.path, f"{problem} (is the delimiter right?)")
        if self._delimiter == " ":
            return _BLANKS.split(line.strip(" \t"))
        return next(_records(line, self._delimiter), (0, [""]))[1]

    # ---- one block -------------------------------------------------------

    def _parse_or_explain(self, block: Block, fields: Sequence[Field]) -> list[Array]:
        import pyarrow as pa

        try:
            try:
                return self._parse(block, fields)
            except pa.ArrowInvalid:
                # Lines of spaces are no error, but too rare to look for in good blocks.
                if self._delimiter == " " or not _BLANK_LINE.search(block.copy()):
                    raise
                block = Block.of(_BLANK_LINE.sub(b"", block.copy()), block.line)
                return self._parse(block, fields)
        except (pa.ArrowInvalid, _BadBlock) as error:
            self._explain(block.copy(), block.line, fields, error)

    def _parse(self, block: Block, fields: Sequence[Field]) -> list[Array]:
        import pyarrow as pa
        import pyarrow.csv as pacsv

        plain = self._parse_plain(block, fields)
        if plain is not None:
            return plain
        if block.has(b"#") or block.has(b"%"):
            block = Block.of(_COMMENT_LINE.sub(b"", block.copy()), block.line)
        if block.is_blank():
            return [_as_numbers(one, np.empty(0, one.dtype)) for one in fields]
        delimiter = self._delimiter
        clean: Any = block.view()
        if delimiter == " ":
            clean, delimiter = _single_blanks(block)
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
                quote_char='"' if self._quotes and block.has(b'"') else False,
                newlines_in_values=False,
            ),
        }
        if strict:
            _refuse_hex(clean, options, ints)
        found: dict[tuple[int, str], Array] = {}
        kinds = [self._arrow_type(one) for one in fields]
        for types in _passes(fields, kinds):
            table = pacsv.read_csv(
                pa.py_buffer(clean),
                convert_options=pacsv.ConvertOptions(
                    column_types={_key(c): _type_of(t) for c, t in types.items()},
                    include_columns=[_key(c) for c in types],
                    null_values=[],
                    strings_can_be_null=False,
                    check_utf8=False,
                ),
                **options,
            )
            for column, dtype in types.items():
                found[column, dtype] = _one_array(table.column(_key(column)))
        arrays = []
        for one, kind in zip(fields, kinds, strict=True):
            array = _as_numbers(one, found[one.column, kind])
            _check_values(one, array)
            self._check_exact(one, array, kind, clean, options)
            arrays.append(array)
        return arrays

    def _check_exact(
        self, one: Field, array: Array, kind: str, clean: Any, options: dict[str, Any]
    ) -> None:
        """Refuse integers that a float type does not hold exactly; their text tells integers."""
        large = may_change(array, one.stored) if kind in ("float32", "float64") else None
        if large is None:
            return
        import pyarrow as pa
        import pyarrow.csv as pacsv

        key = _key(one.column)
        texts = pacsv.read_csv(
            pa.py_buffer(clean),
            convert_options=pacsv.ConvertOptions(
                column_types={key: pa.string()}, include_columns=[key], check_utf8=False
            ),
            **options,
        ).column(key)
        for text in texts.filter(pa.array(large)).to_pylist():
            if explain_text_change(one, text.strip(" \t")) is not None:
                raise _BadBlock

    def _parse_plain(self, block: Block, fields: Sequence[Field]) -> list[Array] | None:
        """Parse plain integers, several times as fast as pyarrow.

        None means that the block holds anything else.
        """
        delimiter = self._delimiter
        if not delimiter.isascii() or any(self._arrow_type(one) != "int64" for one in fields):
            return None
        if delimiter == " " and block.has(b"\t"):
            delimiter = "\t"
        columns = native.parse_integers(block.view(), delimiter, self.num_columns, block.most_lines)
        if columns is None:
            return None
        arrays = [_as_numbers(one, columns[one.column]) for one in fields]
        for one, array in zip(fields, arrays, strict=True):
            _check_values(one, array)
        return arrays

    # ---- explaining a bad block ------------------------------------------

    def _explain(
        self, data: bytes, line: int, fields: Sequence[Field], cause: Exception
    ) -> NoReturn:
        """Find the first bad line of a block and raise the error that names it."""
        start = 0
        while start < len(data):
            end = self._cut(data, start)
            part = data[start:end]
            try:
                self._parse(Block.of(part), fields)
            except Exception:
                self._explain_lines(part, line, fields)
            line += part.count(b"\n")
            start = end
        raise InputError(self.path, f"cannot be parsed: {cause}") from None

    def _cut(self, data: bytes, start: int) -> int:
        end = start
        while end < len(data):
            end = data.find(b"\n", min(end + _SEARCH_BYTES, len(data))) + 1 or len(data)
            if not self._quotes or data.count(b'"', start, end) % 2 == 0:
                break
        return end

    def _explain_lines(self, part: bytes, line: int, fields: Sequence[Field]) -> None:
        for number, values in self._records(_COMMENT_LINE.sub(b"", part)):
            if len(values) != self.num_columns:
                raise InputError(
                    self.path,
                    f"{len(values)} {_plural(len(values), 'field')} where the first line has "
                    f"{self.num_columns}",
                    line=line + number,
                ) from None
            for one in fields:
                text = values[one.column]
                problem = _explain_value(one, self._arrow_type(one), text.strip(" \t\r"))
                if problem is not None:
                    raise InputError(
                        self.path,
                        problem,
                        line=line + number,
                        column=one.column + 1,
                        column_name=self.column_name(one.column) or one.role,
                    ) from None

    def _records(self, part: bytes) -> Iterator[tuple[int, list[str]]]:
        """Yield (line counted from 0, fields) of every line that is not empty."""
        text = part.decode("utf-8", "replace")
        if self._delimiter != " ":
            yield from _records(text, self._delimiter)
            return
        for number, line in enumerate(_LINE_END.split(text)):
            if line.strip(" \t"):
                yield number, self._split(line)


class _SameThread:
    """Substitute for a thread pool that runs the work at once, in the calling thread."""

    def submit(self, work: Callable[..., Any], *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(work(*args))
        return future

    def shutdown(self, wait: bool, cancel_futures: bool) -> None:
        pass


def _plain_delimiter(text: str) -> str:
    plain = _DELIMITER_NAMES.get(text, text)
    if len(plain) != 1 or not plain.isascii() or plain in '"\r\n' or plain.isalnum():
        raise InvalidArgumentError(
            f"the delimiter must be one character such as ',' ';' or 'tab', not {text!r}"
        )
    return plain


def _key(column: int) -> str:
    return f"c{column}"


def _plural(count: int, word: str) -> str:
    return word if count == 1 else word + "s"


def _records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line counted from 0, fields) of every line that is not blank.

    Unlike Python's csv module, fields may be of any length, and lines end at CR and LF only.
    """
    if '"' not in text:
        for number, plain_line in enumerate(_LINE_END.split(text)):
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
        quoted, rest, plain, stop = match.groups()
        values.append(plain if quoted is None else quoted.replace('""', '"') + rest)
        line += len(_LINE_END.findall(quoted or ""))
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


def _passes(fields: Sequence[Field], kinds: Sequence[str]) -> list[dict[int, str]]:
    """Return types by column; several tables only if a column is read as two types."""
    passes: list[dict[int, str]] = [{}]
    for one, kind in zip(fields, kinds, strict=True):
        for types in passes:
            if types.setdefault(one.column, kind) == kind:
                break
        else:
            passes.append({one.column: kind})
    return passes


def _type_of(kind: str) -> Any:
    import pyarrow as pa

    if kind.startswith("timestamp"):
        unit, _, zone = kind[len("timestamp[") : -1].partition(", tz=")
        return pa.timestamp(unit, zone or None)
    return pa.type_for_alias(kind)


def _as_numbers(one: Field, array: Array) -> Array:
    """Convert booleans to numbers, and times to their unit."""
    if one.unit is not None:
        if array.dtype.kind != "M":
            return array.view(f"datetime64[{one.unit}]")
        return array.astype(f"datetime64[{one.unit}]", copy=False)
    return array.astype(one.dtype, copy=False)


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
            raise _BadBlock


def _check_values(one: Field, array: Array) -> None:
    if array.size == 0:
        return
    if one.is_id and (array.min() < 0 or (one.limit is not None and array.max() >= one.limit)):
        raise _BadBlock
    if (one.finite or one.unit is not None) and not np.isfinite(array).all():  # refuses NaT, too
        raise _BadBlock
    if one.minimum is not None and array.min() < one.minimum:
        raise _BadBlock


def _may_hold_hex(block: Block) -> bool:
    if not (block.has(b"x") or block.has(b"X")):
        return False
    return _HEX.search(block.buffer, block.start, block.end) is not None


def _explain_value(one: Field, kind: str, text: str) -> str | None:
    """Describe what is wrong with one value, or return None."""
    if text == "":
        return f"the {one.role} is missing"
    if kind == "bool":
        if text in _LOGICAL or text in ("0", "1"):
            return None
        return f"the {one.role} {text[:80]!r} is neither true nor false, as the first one is"
    if kind.startswith(("date", "timestamp")):
        return _explain_date(one, kind, text)
    if one.dtype == "int64":
        return _explain_integer(one, text)
    if not _NUMBER.fullmatch(text):
        return f"the {one.role} {text[:80]!r} is not a number" + _date_hint(one, text)
    if one.finite and not abs(float(text)) <= float(np.finfo(one.dtype).max):
        return f"the {one.role} {text[:80]!r} is not a finite {one.dtype}"
    if one.minimum is not None and float(text) < one.minimum:
        return f"the {one.role} {text[:80]!r} is below {one.minimum:g}"
    return explain_text_change(one, text)


def _explain_date(one: Field, kind: str, text: str) -> str | None:
    import pyarrow as pa
    import pyarrow.csv as pacsv

    options = pacsv.ConvertOptions(
        column_types={"t": _type_of(kind)}, null_values=[], strings_can_be_null=False
    )
    names = pacsv.ReadOptions(column_names=["t"])
    try:
        pacsv.read_csv(pa.py_buffer(f"{text}\n".encode()), names, convert_options=options)
    except pa.ArrowInvalid:
        zone = "with" if "tz=" in kind else "without"
        shown = f"the {one.role} {text[:80]!r} is not a date in {one.unit!r}"
        return f"{shown}, such as 2001-03-05 or 2001-03-05T10:20:30, {zone} a time zone"
    return None


def _date_hint(one: Field, text: str) -> str:
    if one.is_time and one.unit is None and _DATE.match(text):
        return "; dates are read with --time-unit, D, s, ms, us or ns (time_unit=)"
    return ""


def _explain_integer(one: Field, text: str) -> str | None:
    what = f"the {one.role} {text[:80]!r}"
    if not _INTEGER.fullmatch(text):
        if _NUMBER.fullmatch(text):
            return f"{what} is not an integer written in plain digits{one.hint}"
        if one.is_id:
            return f"{what} is not a number{MAP_NAMES}"
        return f"{what} is not a number" + (_date_hint(one, text) or one.hint)
    digits = text.lstrip("-").lstrip("0") or "0"
    if len(digits) > 19:
        return f"{what} does not fit in 64 bits"
    value = -int(digits) if text.startswith("-") else int(digits)
    if not -INT64_MAX - 1 <= value <= INT64_MAX:
        return f"{what} does not fit in 64 bits"
    if one.unit is not None and value == -INT64_MAX - 1:
        return f"{what} is no time (NaT)"
    return explain_id(one, value)


def _is_value(text: str) -> bool:
    """Return whether the text is a number, a date or a boolean, rather than a name."""
    text = text.strip()
    if text == "" or text in _LOGICAL:
        return True
    return _NUMBER.fullmatch(text) is not None or _DATE.match(text) is not None


def _looks_like_header(
    first: Sequence[str], second: Sequence[str] | None, columns: Sequence[int]
) -> bool:
    names = [first[c].strip() for c in columns]
    if 0 in columns and first[0].strip() == "" and second is not None and second[0].strip():
        columns = [c for c in columns if c != 0]  # an index column, whose name pandas leaves empty
        names = [first[c].strip() for c in columns or range(1, len(first))]
    if not names or any(_is_value(name) for name in names):
        return False
    if all(name.lower() in _HEADER_WORDS for name in names):
        return True
    if second is None:
        return False
    return all(c < len(second) and _is_value(second[c]) for c in columns)


def _single_blanks(block: Block) -> tuple[Any, str]:
    """Return blank-separated lines with one delimiter between fields, and that delimiter.

    A block that is regular already is returned uncopied.
    """
    if block.has(b"\0"):  # "\0" marks what is squeezed out below; text never has it
        raise _BadBlock
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
