"""FileSource: files that grow, and folders that finished files are moved into."""

from __future__ import annotations

import fnmatch
import os
import time
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.dialect import (
    BYTE_ORDER_MARK,
    Head,
    explain_byte,
    explain_start,
    find_head,
    find_marks,
    last_line_end,
)
from aethergraph._checks.optional import require
from aethergraph._checks.options import as_flag, as_text, is_name, shown
from aethergraph.errors import ClosedError, FormatError, InvalidArgumentError, SourceError
from aethergraph.streaming.arguments import as_seconds
from aethergraph.streaming.decode import (
    CsvDecoder,
    Decoder,
    StructDecoder,
    Table,
    arrow_columns,
    arrow_row,
    no_field,
)
from aethergraph.streaming.marks import number_of
from aethergraph.streaming.records import BadRecord, Records
from aethergraph.streaming.schema import Schema, SchemaSource

__all__ = ["FileSource"]

#: Bytes, and rows, that are read at once.
_BYTES, _ROWS = 1 << 20, 1 << 16
#: Bytes of a line at most.
_LONGEST = 64 << 20
#: First bytes of a file that it is known by, and as many of the last ones that were read of it.
_MARKED = 1024
#: Names of files that somebody is still writing.
_UNFINISHED = (".*", "_*", "*.tmp", "*.part", "*.crc", "*~")


class FileSource(SchemaSource):
    """Stream of the records in a file that grows, or of the files of a folder.

    ::

        FileSource("clicks.jsonl", Schema.json(src="user", dst="post"))      # lines are appended
        FileSource("out/", Schema.arrow(src="user", dst="post"), pattern="*.parquet")

    Each file is a partition. Records are numbered by bytes in text and structs, and by rows in
    Parquet and Arrow. A line counts when its end is there. The files of a folder and of those in it
    are read in the order of their names; they must be whole when they get their names, that is, be
    written beside and renamed. Names that begin with ``.`` or ``_`` or end with ``.tmp`` are left
    alone.

    Args:
        path: the file or the folder.
        schema: fields of the records. The formats ``"json"`` and ``"csv"`` have one to a line (a
            quoted field of CSV may go on in the next), ``"struct"`` one behind the other;
            ``"arrow"`` is Parquet or Arrow, by the name.
        name: name under which the graph keeps the offsets; None: the name of the file or folder,
            without those above. Under another name it is another stream.
        follow: wait for more at the end; False: that is the end of the stream.
        growing: files get longer, so a last line without its end is left for the next run; None:
            yes if the path is a file.
        pattern: names of the files in a folder, without the folders that lie in it.
        interval: seconds between two looks for more.
    """

    def __init__(
        self,
        path: str | Path,
        schema: Schema,
        *,
        name: str | None = None,
        follow: bool = True,
        growing: bool | None = None,
        pattern: str = "*",
        interval: float = 0.2,
    ) -> None:
        self.path = Path(native.encode_path(path)[0])
        if not isinstance(schema, Schema):
            raise InvalidArgumentError(f"schema must be a Schema, got {type(schema).__name__}")
        if schema.format == "avro":
            raise InvalidArgumentError(
                "files of Avro are not read: write Parquet, or take the records from Kafka"
            )
        self.schema = schema
        self.name = as_text(name, "name") or os.path.basename(os.path.realpath(self.path))
        self._follow = as_flag(follow, "follow")
        self._is_folder = os.path.isdir(self.path)  # Path.is_dir() raises for long names
        self._growing = not self._is_folder if growing is None else as_flag(growing, "growing")
        #: A number between two records is not one, so that there is no commit at any number.
        self.counts_bytes = schema.format != "arrow"
        self.lag_unit = "bytes" if self.counts_bytes else "files"
        if not is_name(pattern):
            raise InvalidArgumentError(
                f"pattern = {shown(pattern)} is no pattern of names, such as '*.parquet'"
            )
        self._pattern, self._interval = pattern, as_seconds(interval, "interval")
        self._files: dict[int, _File] = {}
        self._by_name: dict[str, _File] = {}
        self._offsets: dict[int, int] = {}
        self._marks: dict[int, int] = {}
        self._paused: frozenset[int] = frozenset()
        self._scanned_at = 0.0
        self._opened = False

    # ---- Source --------------------------------------------------------------------------------

    def open(self, offsets: Mapping[int, int]) -> None:
        """Begin to read at these places."""
        if not os.path.exists(self.path):
            raise SourceError(2, f"{self.path}: there is no such file or folder", str(self.path))
        if not os.path.isdir(self.path) and not os.path.isfile(self.path):
            text = "is a pipe or a device, whose records cannot be read again: write them to a file"
            raise SourceError(22, f"{self.path}: {text}", str(self.path))
        self._offsets, self._paused, self._opened = dict(offsets), frozenset(), True
        self._files, self._by_name = {}, {}
        self._scan()
        before = self._offsets.get(_partition_of(self.path.name))
        if self._is_folder and before and self.path.name not in self._by_name:
            raise SourceError(
                21,
                f"{self.path}: it was a file, which was read to {before}, and is a folder now: put "
                "the file back, or let the source have a name of its own (name=)",
                str(self.path),
            )

    def poll(self, timeout: float) -> Sequence[Records] | None:
        """Return the next records of one file."""
        if not self._opened:
            raise ClosedError(f"the source {self.name!r} is not open")
        until = time.monotonic() + timeout
        while True:
            for file in self._by_name.values():
                if not file.is_done and file.partition not in self._paused:
                    records = file.read()
                    if records is not None:
                        return [records]
            now = time.monotonic()
            if now - self._scanned_at >= self._interval or not self._follow:
                is_new = self._scan()
                if is_new:
                    continue
            if not self._follow and not any(file.has_more() for file in self._by_name.values()):
                return None
            if now >= until:
                return []
            time.sleep(min(self._interval, until - now))

    def pause(self, partitions: Iterable[int]) -> None:
        """Return no records of these files."""
        self._paused = frozenset(partitions)

    def lag(self) -> dict[int, int]:
        """Return the bytes of each file that were not read yet; 1 for one of Parquet or Arrow."""
        return {p: left for p, file in self._files.items() if (left := file.lag())}

    def ended(self) -> set[int]:
        """Return the files that are read to their ends and do not grow, or are gone."""
        unfinished = {p for p, file in self._files.items() if not file.is_done}
        return (self._offsets.keys() | self._files.keys()) - unfinished

    def describe(self, partition: int) -> str:
        """Return the name of the file."""
        file = self._files.get(partition)
        return f"partition {partition}" if file is None else f"file {file.name}"

    def mark(self, partition: int, offset: int) -> int | None:
        """Return a number of what a file begins with and what stands before an offset."""
        file = self._files.get(partition)
        return None if file is None else file.mark(offset)

    def check_marks(self, marks: Mapping[int, int]) -> None:
        """Have files checked, when they are opened, by the numbers that :meth:`mark` gave."""
        self._marks = dict(marks)

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()
        self._opened = False

    # ---- files -------------------------------------------------------------------------------

    def _scan(self) -> bool:
        """Look for files; return whether there are new ones."""
        self._scanned_at = time.monotonic()
        if not self._is_folder:
            names = [self.path.name] if os.path.exists(self.path) else []
        else:
            names = sorted(self._names(self.path, ""))
        new = [name for name in names if name not in self._by_name]
        for name in new:
            self._add(name)
        if new:
            self._by_name = dict(sorted(self._by_name.items()))
        return bool(new)

    def _names(self, folder: Path, before: str) -> Iterator[str]:
        """Yield the names of the finished files in a folder and those below, ``before`` them."""
        try:
            with os.scandir(folder) as scan:
                entries = list(scan)
        except OSError as error:
            if before and isinstance(error, FileNotFoundError):
                return  # what was in it had been read, and may go
            raise SourceError(error.errno, f"{folder}: {error.strerror}", str(folder)) from None
        for entry in entries:
            name = entry.name
            if any(fnmatch.fnmatch(name, pattern) for pattern in _UNFINISHED):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from self._names(folder / name, f"{before}{name}/")
            elif fnmatch.fnmatch(name, self._pattern) and entry.is_file():
                yield before + name

    def _add(self, name: str) -> None:
        partition = _partition_of(name)
        path = self.path / name if self._is_folder else self.path
        begin = self._offsets.get(partition, 0)
        kinds: Mapping[str, Callable[..., _File]] = {"arrow": _ArrowFile, "struct": _StructFile}
        make = kinds.get(self.schema.format, _TextFile)
        file = make(path, name, partition, begin, self.schema, not self._growing, self._growing)
        file.is_followed, file.may_go = self._follow, self._is_folder
        known = self._marks.get(partition)
        # Earlier versions knew a file by its first bytes alone.
        marks = file.mark(begin), file.mark(min(begin, _MARKED))
        if begin and known is not None and None not in marks and known not in marks:
            raise SourceError(
                None,
                f"{path}: it is another file than the one of this name that was read to {begin}, "
                "or was changed since: let the source have a name of its own (name=)",
                str(path),
            )
        self._files[partition] = self._by_name[name] = file


class _File:
    """File that is read from a place on.

    Args:
        path: the file.
        name: its name, for messages.
        partition: its number.
        begin: place of the first record to read.
        schema: fields of the records.
        is_whole: there is nothing to come that the last record might need.
        is_growing: it is to be looked at again after its end.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        partition: int,
        begin: int,
        schema: Schema,
        is_whole: bool,
        is_growing: bool,
    ) -> None:
        self.path, self.name, self.partition, self.place = path, name, partition, begin
        self._schema, self._is_whole, self._is_growing = schema, is_whole, is_growing
        self.is_done, self.is_followed = False, True
        self.may_go = False  # it is one of a folder

    def mark(self, place: int) -> int | None:
        """Return a number of what stands before a place; None if that is not there."""
        try:
            with open(self.path, "rb") as file:
                return number_of(file.read(_MARKED))
        except OSError:
            return None

    @abstractmethod
    def read(self) -> Records | None:
        """Return the next records; None if there are none now."""

    @abstractmethod
    def lag(self) -> int:
        """Return how much was not read yet."""

    def has_more(self) -> bool:
        """Return whether records are left."""
        return not self.is_done and self.lag() > 0

    def close(self) -> None:
        """Close the file."""

    def _error(self, problem: str) -> SourceError:
        return SourceError(None, f"{self.path}: {problem}", str(self.path))


def _partition_of(name: str) -> int:
    """Return the number of a file, which is that of its name, whatever other files there are."""
    return number_of(name.encode(errors="surrogateescape"))


class _BytesFile(_File):
    """File of which a record is some bytes."""

    _file: Any = None
    #: Size of the file when all that was left of it was no whole record.
    _read_to: int = -1
    #: What the file began with, what stood before ``_block_place``, and the block from there on.
    _head, _tail = b"", b""
    _block_place, _last_block = 0, b""

    def mark(self, place: int) -> int | None:
        try:
            # What was read, if it is still open: another file may have its name.
            source = self.path if self._file is None else os.dup(self._file.fileno())
            with open(source, "rb") as file:
                descriptor = file.fileno()
                head = os.pread(descriptor, min(place, _MARKED), 0)
                begin = max(place - _MARKED, len(head))
                content = head + os.pread(descriptor, place - begin, begin)
        except OSError:
            return None
        # A file that has got shorter is refused when it is read.
        return number_of(content) if len(content) == min(place, 2 * _MARKED) else None

    def lag(self) -> int:
        if self.is_done:
            return 0
        try:
            size = self.path.stat().st_size
        except OSError:
            return 0
        # The beginning of a record is none yet: nobody must wait for it.
        return 0 if size == self._read_to else max(0, size - self.place)

    def _block(self, place: int, size: int) -> bytes:
        """Return bytes from a place on, at most ``size``."""
        try:
            if self._file is None:
                self._file = open(self.path, "rb")  # noqa: SIM115
            length = os.fstat(self._file.fileno()).st_size
            if length < place:
                raise self._error(
                    f"{place} bytes were read of it, and now it has {length}: files may only grow"
                )
            self._file.seek(place)
            block: bytes = self._file.read(size)
            self._check_unchanged(place)  # behind it: it may be written anew at any moment
            self._block_place, self._last_block = place, block
            return block
        except OSError as error:
            if isinstance(error, SourceError):
                raise
            raise self._error(f"{error.strerror}") from None

    def _check_unchanged(self, place: int) -> None:
        """Raise if the file does not hold what was read of it before ``place``.

        A file that is truncated in place and grows beyond the place has nothing else to tell that
        records of it were never read.
        """
        descriptor = self._file.fileno()
        length = max(0, place - self._block_place)
        # Between the header of a file and the records that are left stand those of earlier runs.
        has_gap = length > len(self._last_block)
        self._tail = b"" if has_gap else (self._tail + self._last_block[:length])[-_MARKED:]
        head = os.pread(descriptor, min(place, _MARKED), 0)
        before = os.pread(descriptor, len(self._tail), place - len(self._tail))
        if not head.startswith(self._head) or before != self._tail:
            raise self._error(
                f"{place} bytes were read of it, and now others stand there: it was written anew "
                "in place. Files may only grow: write each piece under a name of its own, and "
                "read the folder"
            )
        self._head = head

    def _end(self, place: int, left: int) -> None:
        """Note that nothing is behind a place now but ``left`` bytes, which are no whole record."""
        self._read_to = place + left
        if left and not self.is_followed:
            warnings.warn(
                f"{self.path}: {left} bytes at its end are left, as the record has no end yet: end "
                "it (a line by a newline), or give growing=False if the file is complete",
                stacklevel=2,
            )
        if not self._is_growing or not self.is_followed:
            self.is_done = True
            self.close()
            return
        try:
            current, ours = os.stat(self.path), os.fstat(self._file.fileno())
        except OSError as error:
            if self.may_go and isinstance(error, FileNotFoundError):
                return
            raise self._error(
                f"{error.strerror}, after {self.place} bytes of it were read: write each piece "
                "under a name of its own, and read the folder, whose files may go"
            ) from None
        if (current.st_dev, current.st_ino) != (ours.st_dev, ours.st_ino):
            raise self._error(
                f"it was replaced by another file after {self.place} bytes of it were read: write "
                "each piece under a name of its own, and read the folder"
            )

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class _TextFile(_BytesFile):
    """File with one record to a line."""

    _decoder: Decoder | None = None

    def read(self) -> Records | None:
        if self._decoder is None and not self._choose_decoder():
            return None
        block = self._lines(self.place, _BYTES)
        return self._records(block) if block else None

    def _lines(self, place: int, size: int) -> bytes:
        """Return whole lines from a place on; nothing if there is none now."""
        while True:
            block = self._block(place, size)
            at_end = len(block) < size
            end = len(block) if at_end and self._is_whole else self._record_end(block)
            if end:
                return block[:end]
            if at_end:
                self._end(place, len(block))
                return b""
            size *= 8
            if size > _LONGEST:
                end = block.rfind(b"\n") + 1  # of a quote that is never closed
                if end:
                    return block[:end]
                raise self._error(f"the line at byte {place} is longer than {_LONGEST // 8} bytes")

    @property
    def _quotes(self) -> bytes | None:
        """Delimiter of fields that may be quoted, and then hold line ends; None: there are none."""
        decoder = self._decoder or self._schema.decoder
        delimiter = decoder.delimiter if isinstance(decoder, CsvDecoder) else None
        return None if delimiter is None else delimiter.encode()

    def _record_end(self, block: bytes) -> int:
        """Return where the last whole record ends; 0 if there is none."""
        quotes = self._quotes
        if quotes is None or b'"' not in block:
            return block.rfind(b"\n") + 1
        return last_line_end(block, quotes, commented=False)

    def _choose_decoder(self) -> bool:
        """Find the names of the columns, if the file has them; return whether that was possible."""
        decoder = self._schema.decoder
        if isinstance(decoder, CsvDecoder) and decoder.names is None:
            place, head = 0, None
            while head is None:  # comments and empty lines may stand before it
                block = self._lines(place, 1 << 16)
                if not block:
                    return False
                head = self._head_of(block, decoder.delimiter, place == 0)
                place += len(block) if head is None else head.end
            decoder = decoder.below(head)
            names = head.names
            for field in self._schema.fields:
                if names.count(field) > 1:
                    raise FormatError(f"{self.path}: there are several columns {field!r}")
                if field not in names:
                    raise FormatError(f"{self.path}: there is {no_field(field, names, 'column')}")
            self.place = max(self.place, place)
        self._decoder = decoder
        return True

    def _head_of(self, block: bytes, delimiter: str | None, is_first: bool) -> Head | None:
        """Return the header, if it stands in a block of the file."""
        try:
            problem = explain_start(block.partition(b"\n")[0]) if is_first else None
            if problem is None:
                return find_head(block, delimiter, self.name)
        except UnicodeDecodeError as error:
            problem = f"the header cannot be read: {explain_byte(error)}"
        except ValueError as error:
            problem = f"the header cannot be read: {error}"
        raise FormatError(f"{self.path}: {problem}")

    def _records(self, block: bytes) -> Records:
        begin = self.place
        self.place += len(block)
        quotes = self._quotes
        ends = np.flatnonzero(np.frombuffer(block, np.uint8) == 10) + 1
        lines = block.split(b"\n")
        if quotes is not None and (b'"' in block or b"\r" in block):
            line_ends, ends = ends, _record_ends(block, quotes, ends)
            if not np.array_equal(ends, line_ends):
                places = [0, *ends.tolist(), len(block)]
                lines = [block[a:b].removesuffix(b"\n") for a, b in pairwise(places)]
        if b"\r" in block:
            lines = [line.rstrip(b"\r") for line in lines]
        offsets = begin + np.concatenate([[0], ends])[: len(lines)]
        texts = lines
        if quotes is not None and begin == 0:
            lines[0] = lines[0].removeprefix(BYTE_ORDER_MARK)
        if quotes is not None and (b" " in block or b"\t" in block):
            blanks = b" " if quotes == b"\t" else b" \t"
            texts = [line.strip(blanks) for line in lines]
        kept = [number for number, text in enumerate(texts) if text]
        if len(kept) < len(lines):
            lines, offsets = [lines[number] for number in kept], offsets[kept]
        return self._schema.decode(self.partition, self.place, lines, offsets, self._decoder)


def _record_ends(block: bytes, quotes: bytes, ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where records of CSV end, which may hold line ends in quotes.

    Behind a quote that is never closed every line is a record.
    """
    if b"\r" in block:
        codes = np.frombuffer(block + b"\n", np.uint8)
        ends = np.flatnonzero(((codes[:-1] == 13) & (codes[1:] != 10)) | (codes[:-1] == 10)) + 1
    marks = find_marks(block, quotes, commented=False)
    inside = np.searchsorted(marks.quotes, ends) % 2 == 1
    if len(marks.quotes) % 2:
        inside &= ends <= marks.quotes[-1]
    outside: NDArray[np.int64] = ends[~inside]
    return outside


class _StructFile(_BytesFile):
    """File of structs that follow each other."""

    def read(self) -> Records | None:
        decoder = self._schema.decoder
        assert isinstance(decoder, StructDecoder)
        size = decoder.dtype.itemsize
        block = self._block(self.place, max(1, _BYTES // size) * size)
        count = len(block) // size
        begin = self.place
        if not count:
            if block and self._is_whole:
                self.place += len(block)
                bad = BadRecord(begin, f"has {len(block)} bytes where records have {size}", block)
                return Records(self.partition, self.place, {}, bad=[bad])
            self._end(begin, len(block))
            return None
        self.place += count * size
        columns = decoder.columns(block[: count * size], self._schema.fields)
        return self._schema.records(
            Table(columns, np.arange(count)), self.partition, self.place,
            begin + size * np.arange(count), (), lambda at: block[at * size : (at + 1) * size],
        )  # fmt: skip


class _ArrowFile(_File):
    """Parquet or Arrow file, whose records are rows."""

    _batches: Iterator[Any] | None = None
    _left: Any = None

    def lag(self) -> int:
        return 0 if self.is_done else 1

    def read(self) -> Records | None:
        pa = require("pyarrow", "Parquet and Arrow files need", "stream")
        try:
            if self._batches is None:
                self._batches = self._open(pa)
            batch = next(self._batches, None)
            while batch is not None and not batch.num_rows:
                batch = next(self._batches, None)
        except (pa.ArrowException, OSError) as error:
            raise FormatError(f"{self.path} cannot be read: {error}") from None
        if batch is None:
            self.is_done, self._batches = True, None
            return None
        begin = self.place
        self.place += batch.num_rows
        offsets = np.arange(begin, self.place)
        try:
            columns = arrow_columns(batch, self._schema.fields)
        except InvalidArgumentError as error:
            raise FormatError(f"{self.path}: {error}") from None
        table = Table(columns, np.arange(batch.num_rows))
        return self._schema.records(
            table, self.partition, self.place, offsets, (), partial(arrow_row, batch)
        )

    def _open(self, pa: Any) -> Iterator[Any]:
        """Return the batches from the place on."""
        skip = self.place
        for batch in self._all(pa):
            if skip >= batch.num_rows:
                skip -= batch.num_rows
            elif skip:
                yield batch.slice(skip)
                skip = 0
            else:
                yield batch

    def _all(self, pa: Any) -> Iterator[Any]:
        if self.path.suffix in (".parquet", ".pq"):
            import pyarrow.parquet as pq

            with pq.ParquetFile(self.path, page_checksum_verification=True) as file:
                # Row groups that were read before are not read again.
                before, groups = 0, list(range(file.metadata.num_row_groups))
                while groups:
                    rows = file.metadata.row_group(groups[0]).num_rows
                    if before + rows > self.place:
                        break
                    before += rows
                    groups.pop(0)
                yield from _nothing(pa, before)
                columns = {name.split(".")[0] for name in self._schema.fields}
                names = [name for name in file.schema_arrow.names if name in columns]
                yield from file.iter_batches(_ROWS, row_groups=groups, columns=names)
            return
        with pa.memory_map(str(self.path)) as content:
            try:
                opened = pa.ipc.open_file(content)
                batches = (opened.get_batch(i) for i in range(opened.num_record_batches))
            except pa.ArrowInvalid:
                content.seek(0)
                batches = iter(pa.ipc.open_stream(content))
            yield from batches


def _nothing(pa: Any, rows: int) -> Iterator[Any]:
    """Yield a batch that stands for rows that are not read."""
    if rows:
        yield pa.record_batch([pa.nulls(rows)], names=["skipped"])
