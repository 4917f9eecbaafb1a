"""Building of a map from more keys than memory holds, by sorting their hashes on disk.

::

    add       keys -> runs, each sorted by hash                        run-0, run-1 ...
    merge     range of hashes by range: the keys of all runs in it,    hashes, keys, rows
              in order; equal ones are found here
    number    rows that are kept -> ids in the order of the rows       ids, places
    write     all of it -> sections of the map's file

Work files go as soon as they are read for the last time, so that the disk holds little more than
the map itself.
Hashes are even, so ranges of them are as large as each other. The file does not depend on how the
keys came in chunks, nor on the memory.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from shutil import rmtree
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph.errors import InvalidArgumentError, LimitError, StorageError
from aethergraph.ids.columns import KeyColumns
from aethergraph.ids.tiers import bucket_bits
from aethergraph.storage.memory import parse_size
from aethergraph.storage.meta import FileMeta, KeysMeta, write_meta
from aethergraph.storage.other_process import holder_of, sign_lock
from aethergraph.storage.scratch import storage_error

__all__ = ["DuplicateKeyError", "IdMapBuilder", "holds_work_files"]

_U64 = np.dtype(np.uint64)
_U8 = np.dtype(np.uint8)
_LEAST = 1 << 16  # bytes of a run: with less memory the builder takes more than it should
_PIECE = 1 << 19  # items that are copied together
_MOST_FILES = 256
_WORK_FILE = re.compile(r"lock|hashes|keys|offsets|places|(run|ids|rows)(-\d+)?")
_SHARE = 6  # memory of sorting keys, in times their bytes


class DuplicateKeyError(InvalidArgumentError):
    """A key came twice among those that have to be unique.

    Attributes:
        first: number of the key that came first, counted over all keys that were added.
        second: number of the one that equals it.
        key: the key, for a message.
    """

    def __init__(self, first: int, second: int, key: str) -> None:
        super().__init__(f"the key {key} comes twice, as key {first} and {second}", position=second)
        self.first = first
        self.second = second
        self.key = key


@dataclass(frozen=True)
class _Run:
    """Keys in the order of ``key_order``: by hash, and then by their bytes."""

    hashes: NDArray[np.uint64]
    rows: NDArray[np.uint64]
    keys: native.KeyBlock

    def between(self, low: int, end: int) -> _Run:
        """Return the part with hashes ``low .. end - 1``."""
        first = int(np.searchsorted(self.hashes, np.uint64(low)))
        last = len(self.hashes)
        if end < 1 << 64:
            last = int(np.searchsorted(self.hashes, np.uint64(end)))
        return _Run(self.hashes[first:last], self.rows[first:last], self.keys.rows(first, last))


class IdMapBuilder:
    """Builder of the file of an :class:`IdMap`.

    Args:
        path: the file to write.
        types: types of the columns of a key (:data:`KEY_TYPES`).
        memory: bytes for buffers, or a text such as ``"1G"``.
        scratch: folder for work files, which is made, and removed by :meth:`close`. One that a
            killed build has left is used again.
        of_graph: the map is made together with a graph, which will have its fingerprint.
        part_of: live graph and name under which the map is a part of its directory.

    Attributes:
        num_added: number of keys that were added, equal ones too.

    Raises:
        StorageError: the folder cannot be made, holds other files, or is of a running build.
    """

    def __init__(
        self, path: native.Path, types: str | tuple[str, ...], memory: int | str,
        scratch: native.Path, *, of_graph: bool = False, part_of: str | None = None,
    ) -> None:  # fmt: skip
        self.columns = KeyColumns(types)
        self.num_added = 0
        self._path = path
        self._meta = FileMeta(of_graph=of_graph, part_of=part_of)
        self._memory = parse_size(memory, "memory")
        self._room = max(self._memory // _SHARE, _LEAST)
        self._scratch = native.encode_path(scratch)[0]
        self._held: list[native.KeyBlock] = []
        self._held_bytes = 0
        self._runs: list[_Run] = []
        self._unique_end = 0
        self._total = 0
        self._has_equal_hashes = False
        self._lock = _locked_folder(self._scratch)

    def __enter__(self) -> IdMapBuilder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the work files."""
        self._runs, self._held = [], []
        try:
            rmtree(self._scratch, ignore_errors=True)
        finally:
            self._lock.close()  # last: nobody else's files are deleted

    # ---- add ---------------------------------------------------------------------------

    def add(self, keys: Any, *, unique: bool = True) -> None:
        """Add keys; the n-th key that is new gets the id n.

        Args:
            keys: a column of keys, or as many columns as a key has.
            unique: a key may not be equal to another that was added so; all of these come before
                any others.

        Raises:
            InvalidArgumentError: keys of another type, or a missing one; names its position here.
            DuplicateKeyError: a key came twice; raised by :meth:`finish` at the latest.
        """
        self.add_block(self.columns.encode_exactly(keys), unique=unique)

    def add_block(self, block: native.KeyBlock, *, unique: bool = True) -> None:
        """Add keys that were encoded before; see :meth:`add`."""
        if unique:
            if self._unique_end != self.num_added:
                raise InvalidArgumentError("unique keys are added before all others")
            self._unique_end += len(block)
        rows = max(1, self._room // max(1, block.nbytes // max(1, len(block)) + 16))
        for begin in range(0, len(block), rows):
            some = block.rows(begin, min(begin + rows, len(block)))
            # A copy: the arrays may be of the caller, or larger than these rows.
            some = native.KeyBlock(some.data.copy(), some.offsets, some.width)
            self._held.append(some)
            self._held_bytes += some.nbytes + 16 * len(some)
            self.num_added += len(some)
            if self._held_bytes >= self._room:
                self._end_run(keep=False)

    def _end_run(self, *, keep: bool) -> None:
        if not self._held:
            return
        keys = native.KeyBlock.joined(self._held)
        self._held, self._held_bytes = [], 0
        first = self.num_added - len(keys)
        rows = np.arange(first, self.num_added, dtype=np.uint64)
        run = self._in_order(_Run(native.hash_keys(keys), rows, keys))
        self._total += run.keys.nbytes + 16 * len(run.rows)
        self._runs.append(run if keep else self._spilled(run))

    def _in_order(self, some: _Run) -> _Run:
        """Return keys in order, without those that equal an earlier one."""
        order, hashes = native.key_order(some.keys, some.hashes, stable=False)
        run = _Run(hashes, some.rows[order], some.keys.take(order))
        first = native.first_keys(run.keys, run.hashes)
        new = first == np.arange(len(first), dtype=np.uint64)
        if new.all():
            return run
        self._check_unique(run, first, ~new)
        kept = np.flatnonzero(new).astype(np.uint64)
        return _Run(run.hashes[kept], run.rows[kept], run.keys.take(kept))

    def _check_unique(
        self, run: _Run, first: NDArray[np.uint64], again: NDArray[np.bool_]
    ) -> None:  # fmt: skip
        wrong = np.flatnonzero(again & (run.rows < np.uint64(self._unique_end)))
        if len(wrong):
            at = int(wrong[run.rows[wrong].argmin()])
            before = int(run.rows[int(first[at])])
            raise DuplicateKeyError(before, int(run.rows[at]), self.columns.show(run.keys, at))

    def _spilled(self, run: _Run) -> _Run:
        path = os.path.join(self._scratch, f"run-{len(self._runs)}")
        parts: list[NDArray[Any]] = [run.hashes, run.rows]
        parts += [run.keys.data] if run.keys.offsets is None else [run.keys.offsets, run.keys.data]
        with _Output(path) as file:
            for part in parts:
                file.append(part)
        mapped, offset = [], 0
        for part in parts:
            mapped.append(_mapped(path, part.dtype, offset, len(part)))
            offset += part.nbytes
        keys = native.KeyBlock(mapped[-1], None if len(parts) == 3 else mapped[2], run.keys.width)
        return _Run(mapped[0], mapped[1], keys)

    # ---- finish ------------------------------------------------------------------------

    def finish(self) -> int:
        """Write the file; return the number of different keys.

        Raises:
            DuplicateKeyError: a key came twice among those that have to be unique.
            DiskFullError, StorageError: a file cannot be written, or read again.
        """
        try:
            self._end_run(keep=not self._runs)
            count, size = self._merge()
            ids = native.id_dtype(native.id_bytes_for(count))
            self._number(count, ids)
            self._write(count, size, ids)
        except StorageError:
            raise
        except OSError as error:  # of a work file that is read again
            raise storage_error(error, str(error.filename or self._scratch), "read") from None
        return count

    def _file(self, name: str, dtype: np.dtype[Any] = _U64) -> NDArray[Any]:
        path = os.path.join(self._scratch, name)
        return _mapped(path, dtype, 0, os.path.getsize(path) // dtype.itemsize)

    def _merge(self) -> tuple[int, int]:
        """Write hashes, rows and keys of all runs in order; return the number of keys and bytes."""
        parts = max(1, -(-self._total // self._room))
        count = size = 0
        with (
            self._output("hashes") as hashes,
            self._output("rows") as rows,
            self._output("keys") as keys,
            self._output("offsets") as offsets,
        ):
            offsets.append(np.zeros(1, np.uint64))
            for part in range(parts):
                low, end = (part << 64) // parts, ((part + 1) << 64) // parts
                some = self._merged([run.between(low, end) for run in self._runs])
                hashes.append(some.hashes)
                self._has_equal_hashes |= bool((some.hashes[1:] == some.hashes[:-1]).any())
                rows.append(some.rows)
                keys.append(some.keys.data)
                if some.keys.offsets is not None:
                    offsets.append(some.keys.offsets[1:] - some.keys.offsets[0] + np.uint64(size))
                count += len(some.rows)
                size += some.keys.data.nbytes
        number, self._runs = len(self._runs), []
        for run in range(number):
            self._drop(f"run-{run}")
        return count, size

    def _drop(self, name: str) -> None:
        """Delete a work file that is not read again, if there is one."""
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self._scratch, name))

    def _merged(self, parts: list[_Run]) -> _Run:
        if len(parts) == 1:
            return parts[0]
        width = self.columns.width
        if not parts:
            none = np.empty(0, np.uint64)
            offsets = None if width else np.zeros(1, np.uint64)
            return _Run(none, none, native.KeyBlock(np.empty(0, np.uint8), offsets, width))
        joined = _Run(
            np.concatenate([part.hashes for part in parts]),
            np.concatenate([part.rows for part in parts]),
            native.KeyBlock.joined([part.keys for part in parts]),
        )
        return self._in_order(joined)

    def _output(self, name: str) -> _Output:
        return _Output(os.path.join(self._scratch, name))

    # ---- number ------------------------------------------------------------------------

    def _number(self, count: int, ids: np.dtype[Any]) -> None:
        """Write the id at each position, and the position of each id."""
        pairs = ((rows, first) for first, rows in _pieces(self._file("rows")))
        done = 0
        all_kept = count == self.num_added
        with (
            self._output("places") as places,
            _Buckets(os.path.join(self._scratch, "ids-"), count, self._memory) as by_place,
        ):
            for part in self._by_row(pairs):
                if all_kept:
                    places.append(_inverse(part, done, ids))
                    done += len(part)
                    continue
                place = part["value"][np.argsort(part["key"])]
                places.append(place.astype(ids))
                by_place.add(place, np.arange(done, done + len(place), dtype=np.uint64))
                done += len(place)
            with self._output("ids") as out:
                if all_kept:
                    for _, rows in _pieces(self._file("rows")):
                        out.append(rows.astype(ids))
                for low, part in by_place.read() if not all_kept else ():
                    out.append(_inverse(part, low, ids))
        self._drop("rows")

    def _by_row(
        self, pairs: Iterator[tuple[NDArray[np.uint64], int]]
    ) -> Iterator[NDArray[Any]]:  # fmt: skip
        """Yield (row, position) of all keys, range of rows by range."""
        prefix = os.path.join(self._scratch, "rows-")
        with _Buckets(prefix, self.num_added, self._memory) as buckets:
            for rows, first in pairs:
                buckets.add(rows, np.arange(first, first + len(rows), dtype=np.uint64))
            for _, part in buckets.read():
                yield part

    # ---- write -------------------------------------------------------------------------

    def _write(self, count: int, size: int, ids: np.dtype[Any]) -> None:
        keys = KeysMeta(self.columns.types, count, 0, self._has_equal_hashes)
        meta = replace(self._meta, keys=keys)
        sections: list[tuple[int, str, np.dtype[Any]]] = [
            (native.SECTION_KEY_HASHES, "hashes", _U64),
            (native.SECTION_KEY_BUCKETS, "", _U64),
            (native.SECTION_KEY_IDS, "ids", ids),
            (native.SECTION_KEY_PLACES, "places", ids),
        ]
        if not self.columns.width:
            sections.append((native.SECTION_KEY_OFFSETS, "offsets", _U64))
        sections.append((native.SECTION_KEY_BYTES, "keys", _U8))
        if size >= 1 << 62:
            raise LimitError(f"{size} bytes of keys are more than a file holds")

        def work(task: native.Task | None) -> None:
            with native.NativeWriter(self._path, native.CONTENT_KEYS) as writer:
                write_meta(writer, meta)
                for kind, name, dtype in sections:
                    writer.begin(kind, 0, native.dtype_code(dtype))
                    source = _pieces(self._file(name, dtype)) if name else self._buckets(count)
                    for _, piece in source:
                        writer.append(np.ascontiguousarray(piece), task)
                    writer.end()
                    # Buckets, which have no file, are made of the hashes.
                    read = {"hashes": "", "": "hashes"}.get(name, name)
                    if read:
                        self._drop(read)

        native.run_long(work, None, size + 24 * count)

    def _buckets(self, count: int) -> Iterator[tuple[int, NDArray[np.uint64]]]:
        """Yield the first position of every bucket of hashes, and at last the number of keys."""
        bits = bucket_bits(count)
        done = 0
        for first, hashes in _pieces(self._file("hashes")):
            tops = hashes >> np.uint64(64 - bits) if bits else np.zeros(len(hashes), np.uint64)
            upto = int(tops[-1]) + 1
            numbers = np.arange(done, upto, dtype=np.uint64)
            yield 0, np.searchsorted(tops, numbers).astype(np.uint64) + np.uint64(first)
            done = upto
        for begin in range(done, (1 << bits) + 1, _PIECE):
            yield 0, np.full(min(_PIECE, (1 << bits) + 1 - begin), count, np.uint64)


# ---- files -------------------------------------------------------------------------------------


class _Output:
    """A work file that arrays are appended to."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self._file = open(path, "wb", buffering=0)  # noqa: SIM115 - closed by __exit__
        except OSError as error:
            raise storage_error(error, path) from None

    def append(self, array: NDArray[Any]) -> None:
        view = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        try:
            while view:
                view = view[self._file.write(view[: 1 << 30]) :]
        except OSError as error:
            raise storage_error(error, self._path) from None

    def __enter__(self) -> _Output:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class _Buckets:
    """Pairs (key, value) in files by ranges of the keys, which are below ``end`` and differ."""

    _PAIR = np.dtype([("key", np.uint64), ("value", np.uint64)])

    def __init__(self, prefix: str, end: int, memory: int) -> None:
        capacity = max(1, memory // (4 * self._PAIR.itemsize))
        parts = min(max(1, -(-end // capacity)), _MOST_FILES)
        self._width = max(1, -(-end // parts))
        self._held: list[NDArray[Any]] | None = [] if parts == 1 else None
        self._paths = [f"{prefix}{number}" for number in range(parts)]
        self._files = [] if parts == 1 else [_Output(path) for path in self._paths]

    def add(self, keys: NDArray[np.uint64], values: NDArray[np.uint64]) -> None:
        pairs = np.empty(len(keys), self._PAIR)
        pairs["key"], pairs["value"] = keys, values
        if self._held is not None:
            self._held.append(pairs)
            return
        numbers = (keys // np.uint64(self._width)).astype(np.int64)
        order = np.argsort(numbers, kind="stable")
        ends = np.searchsorted(numbers[order], np.arange(len(self._files) + 1))
        for number, file in enumerate(self._files):
            some = order[ends[number] : ends[number + 1]]
            if len(some):
                file.append(pairs[some])

    def read(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (smallest possible key, pairs) of each range, in order."""
        if self._held is not None:
            yield 0, np.concatenate([*self._held, np.empty(0, self._PAIR)])
            return
        for number, path in enumerate(self._paths):
            yield number * self._width, np.fromfile(path, self._PAIR)

    def __enter__(self) -> _Buckets:
        return self

    def __exit__(self, *_: object) -> None:
        for file, path in zip(self._files, self._paths, strict=False):
            file.__exit__()
            os.unlink(path)


def holds_work_files(folder: str) -> bool:
    """Return whether all that a folder holds is work files of a map."""
    return all(_WORK_FILE.fullmatch(name) for name in os.listdir(folder))


def _locked_folder(path: str) -> IO[bytes]:
    """Make a folder of work files, or take one that is left; return its lock, held until closed.

    A folder that holds anything but work files is somebody else's: removing them would empty it.
    """
    lock = os.path.join(path, "lock")
    try:
        os.makedirs(path, exist_ok=True)
        is_foreign = not holds_work_files(path)
        file = None if is_foreign else open(lock, "ab+")  # noqa: SIM115 - held until closed
    except OSError as error:
        raise storage_error(error, path) from None
    if file is None:
        text = f"{path}: work files go there, but it holds others: move them, or delete the folder"
        raise StorageError(errno.EEXIST, text, path)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            return file  # a file system without locks
        holder = holder_of(file.fileno())
        file.close()
        place = f" in process {holder}" if holder else ""
        text = (
            f"{path}: another build of this map is running{place}: build it once, and load it "
            "elsewhere"
        )
        raise StorageError(error.errno, text, path) from None
    sign_lock(file.fileno())
    return file


def _mapped(path: str, dtype: np.dtype[Any], offset: int, count: int) -> NDArray[Any]:
    if not count:
        return np.empty(0, dtype)
    return np.memmap(path, dtype, "r", offset, (count,)).view(np.ndarray)


def _inverse(pairs: NDArray[Any], low: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the values by key; the keys are ``low .. low + n - 1``, in any order."""
    values = np.empty(len(pairs), dtype)
    values[(pairs["key"] - np.uint64(low)).view(np.int64)] = pairs["value"]
    return values


def _pieces(array: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    step = _PIECE * 8 // array.dtype.itemsize
    for begin in range(0, len(array), step):
        yield begin, array[begin : begin + step]
