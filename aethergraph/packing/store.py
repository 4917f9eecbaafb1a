"""PackedFeatures: a FeatureTable of rows in the order of batches that are known ahead."""

from __future__ import annotations

import errno
import json
import threading
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count, as_ids
from aethergraph._parallel.forks import renew_lock_in_forks
from aethergraph._tracepoints import made
from aethergraph.errors import (
    CorruptFileError,
    FileChangedError,
    FormatError,
    InvalidArgumentError,
    OutOfRangeError,
    UnsupportedError,
)
from aethergraph.features.adapters import as_row_source
from aethergraph.features.feature_table import FeatureTable
from aethergraph.features.gathering import gather_rows, result_of
from aethergraph.packing.layout import (
    INDEX_COLUMNS,
    NAMES,
    SAMPLE_ROWS,
    batch_bytes,
    fingerprint,
    hot_room,
    memory_needed,
    places_at,
    row_digests,
    sample_ids,
)
from aethergraph.protocols import FeatureSource, RowSource
from aethergraph.storage.budget import ROWS_BYTES, Budget
from aethergraph.storage.meta import SectionTable, check_fingerprint
from aethergraph.storage.npy import identity

__all__ = ["PackedFeatures", "PackedStats"]

Ids = NDArray[np.int64]


class PackedStats(NamedTuple):
    """Counts of gathering packed batches since the file was opened in this process.

    Attributes:
        batches: packed batches gathered.
        rows: rows of these batches.
        others: gathers of other ids, served by ``features``.
        device_reads: reads from the operating system, including those of hot rows.
        device_bytes: bytes of these reads.
        num_hot: rows in memory.
        used: bytes of memory for hot rows, the largest batch and the index.
        tier: ``"uring"`` or ``"pread"``, the way of reading.
        direct: True if reads go past the page cache.
    """

    batches: int
    rows: int
    others: int
    device_reads: int
    device_bytes: int
    num_hot: int
    used: int
    tier: str
    direct: bool


class _PackedFile:
    """Description and index of a packed file, checked."""

    def __init__(self, path: native.Path) -> None:
        self.file = native.NativeFile(path)
        self.path: str = self.file.path
        table = SectionTable(self.file, native.CONTENT_FEATURES)
        arrays = table.meta.arrays
        if tuple(array.name for array in arrays) != NAMES:
            raise FormatError(f"{self.path}: not a file of packed batches: see aethergraph.packing")
        self.fingerprint = table.fingerprint()
        hot, batches, index, source = map(table.array, range(len(NAMES)))
        self.code = native.DTYPE_CODES[arrays[0].dtype]
        self.num_hot = len(hot)
        self.row_shape = hot.shape[1:]
        self.row_bytes = int(np.prod(self.row_shape, dtype=np.int64)) * hot.dtype.itemsize
        self.hot_offset = self.file.offset_of(hot) if hot.size else 0
        self.batches_offset = self.file.offset_of(batches) if batches.size else 0
        self.index = self._check_index(index, batches)
        self._batches = batches
        try:
            self.source: dict[str, Any] = json.loads(source.tobytes())
            self.num_rows = as_count(self.source["num_rows"], "num_rows")
            self.sample = list(self.source.get("sample", ()))
            if len(self.sample) > min(self.num_rows, SAMPLE_ROWS):
                raise ValueError(f"{len(self.sample)} digests of {self.num_rows} rows")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise CorruptFileError(
                f"{self.path}: what was packed cannot be read: {error}"
            ) from error
        self.file.check()

    def _check_index(self, index: NDArray[Any], batches: NDArray[Any]) -> NDArray[np.uint64]:
        size = batches.nbytes
        proper = (
            index.dtype == np.uint64 and index.shape[1:] == (INDEX_COLUMNS,)
            and batches.dtype == np.uint8 and batches.ndim == 1 and self.row_bytes > 0
        )  # fmt: skip
        if proper:
            index = index.copy()
            # Bounds on each column, so that the products in batch_bytes() stay small.
            proper = bool(
                (index[:, 0] <= size).all() and (index[:, 1] <= size // self.row_bytes).all()
                and (index[:, 2] <= size // 4).all()
            )  # fmt: skip
        begin = 0
        for at, num_rows, num_ids in index[:, :3].tolist() if proper else ():
            proper = proper and at == begin
            begin += batch_bytes(num_rows, num_ids, self.row_bytes)
        if not proper or begin != size:
            raise CorruptFileError(f"{self.path}: the index of the packed batches is damaged")
        return index

    def verify(self, task: native.Task | None) -> None:
        """Compare checksums, then the batches with the index."""
        self.file.verify(task)
        self._check_counts()
        first = hot_room(self.num_hot, self.row_bytes)
        with native.reading(self.file.guard()):
            for number, (begin, num_rows, num_ids) in enumerate(self.index[:, :3].tolist()):
                if task is not None:
                    task.check()
                at = begin + places_at(num_rows, self.row_bytes)
                places = self._batches[at : at + 4 * num_ids].view(np.uint32)
                bad = (places >= self.num_hot) & (places < first) | (places >= first + num_rows)
                if bad.any():
                    at = int(bad.argmax())
                    raise CorruptFileError(
                        f"{self.path}: batches: batch {number} takes row {places[at]} for id "
                        f"{at}, which is neither one of the {self.num_hot} hot rows nor one of its "
                        f"own {num_rows}: pack it again",
                        position=at, value=int(places[at]),
                    )  # fmt: skip

    def _check_counts(self) -> None:
        """Raise unless batches with equal fingerprints, hence equal ids, have equally many ids."""
        known = dict[bytes, int]()
        for number, entry in enumerate(self.index):
            first = known.setdefault(entry[3:].tobytes(), number)
            if self.index[first, 2] != entry[2]:
                raise CorruptFileError(
                    f"{self.path}: index: batches {first} and {number} have the same fingerprint, "
                    f"but {self.index[first, 2]} and {entry[2]} ids: pack it again",
                    position=number, value=int(entry[2]),
                )  # fmt: skip


class _PackedRows:
    """Packed batches of a file: each is gathered by one read.

    ``before`` is what ``identity`` said of the path before ``file`` was opened.
    """

    def __init__(
        self, file: _PackedFile, before: tuple[int, ...], features: RowSource | None,
        progress: native.Progress | None,
    ) -> None:  # fmt: skip
        self.path, self.code = file.path, file.code
        self.features = features
        self.index = file.index
        self.num_hot = file.num_hot
        self._row_bytes = file.row_bytes
        self._numbers = {entry[3:].tobytes(): n for n, entry in enumerate(file.index)}
        self._offset = file.batches_offset
        self.reader = native.FileReader(file.path)
        if identity(file.path) != before:
            raise FileChangedError(
                errno.ESTALE, f"{file.path}: the file was replaced while it was opened", file.path
            )
        first = hot_room(file.num_hot, file.row_bytes) * file.row_bytes
        self.used = memory_needed(file.index, file.num_hot, file.row_bytes)
        sizes = [batch_bytes(r, n, file.row_bytes) for r, n in file.index[:, 1:3].tolist()]
        room = native.buffer_alloc(first + max(sizes, default=0))
        size = file.num_hot * file.row_bytes
        self.reader.read([file.hot_offset], [size], room[:size], progress=progress)
        dtype = native.ARRAY_DTYPES[file.code]
        capacity = len(room) // file.row_bytes
        rows = room[: capacity * file.row_bytes].view(dtype).reshape(capacity, *file.row_shape)
        self._room, self._first = rows, first // file.row_bytes
        self._batch = room[first:]
        self._lock = threading.Lock()
        renew_lock_in_forks(self)
        self.batches = self.rows = self.others = 0

    def find(self, ids: Ids) -> int | None:
        """Return the number of the batch with these ids, or None."""
        return self._numbers.get(fingerprint(ids))

    def gather(self, ids: Ids, out: NDArray[Any], code: int) -> None:
        """Gather a packed batch, or other ids from ``features``, in the dtype of ``code``."""
        number = self.find(ids)
        if number is not None:
            self.check_count(number, len(ids))
            native.run_long(lambda task: self.read(number, out, code, task), None, out.nbytes)
            return
        if not len(ids):  # the rows of none need no batch
            native.NativeRows(self._room[:0], self.code).gather(ids, out, code)
            return
        if self.features is None:
            some = ", ".join(map(str, ids[:3])) + (", ..." if len(ids) > 3 else "")
            raise InvalidArgumentError(
                f"{self.path}: the {len(ids)} ids [{some}] are none of the {len(self.index)} "
                "packed batches: gather what was packed, in its order, or give load(features=) "
                "the store that has all rows"
            )
        self.others += 1
        gather_rows(self.features, ids, out, native.DTYPE_NAMES[code])

    def check_count(self, number: int, count: int) -> None:
        """Raise CorruptFileError unless batch ``number`` has ``count`` ids in the file.

        The file identifies ids by their fingerprint alone, so a damaged or crafted index may pair
        the fingerprint with any count.
        """
        places = int(self.index[number, 2])
        if places != count:
            raise CorruptFileError(
                f"{self.path}: batch {number} has places for {places} ids, but its fingerprint is "
                f"that of {count}: pack it again",
                position=number, value=places,
            )  # fmt: skip

    def read(
        self, number: int, out: NDArray[Any], out_code: int, task: native.Task | None = None
    ) -> None:
        """Gather the rows of batch ``number``, as many as the index says, into ``out``."""
        begin, num_rows, num_ids = self.index[number, :3].tolist()
        size = batch_bytes(num_rows, num_ids, self._row_bytes)
        with self._lock:
            self.reader.read([self._offset + begin], [size], self._batch[:size], task=task)
            at = places_at(num_rows, self._row_bytes)
            places = self._batch[at : at + 4 * num_ids].view(np.uint32)
            # Memory behind these rows holds remains of other batches.
            rows = native.NativeRows(self._room[: self._first + num_rows], self.code)
            try:
                rows.gather(places, out, out_code, task)
            except OutOfRangeError as error:
                raise CorruptFileError(
                    f"{self.path}: batch {number} is damaged: pack it again"
                ) from error
            self.batches += 1
            self.rows += num_ids


class PackedFeatures(FeatureTable):
    """Rows of batches that were packed in the order of their use (:func:`pack`).

    A :class:`FeatureTable` for these batches: :meth:`gather` recognises a batch by its ids, in any
    order of batches, and reads it at once, past the page cache; hot rows are in memory. As a
    graph's attribute it serves every loader that asks for the same batches again, from the same
    seeds and keys. Other ids are refused, or served by the store that was packed.

    Threads may share a store and take turns. Forked children share the hot rows.
    """

    _packed: _PackedRows
    _opened: tuple[str, int]
    _source: str

    @classmethod
    def load(  # type: ignore[override]
        cls,
        path: native.Path,
        memory_budget: int | str | None = None,
        *,
        features: FeatureSource | None = None,
        progress: native.Progress | None = None,
    ) -> PackedFeatures:
        """Open a file of packed batches.

        Args:
            path: the file.
            memory_budget: bytes for the hot rows and the largest batch, or a text such as
                ``"1G"`` (None: 512 MiB, or half of the available memory if that is less). Results
                of ``gather`` are not counted.
            features: the source that was packed. It serves all ids that are not a packed batch,
                after a check that its rows are those that were packed: rows of a file by the
                fingerprint of the file, rows of an array by up to 256 of them, evenly spaced.
            progress: called with (bytes done, total bytes) while hot rows are read.

        Raises:
            InvalidArgumentError: the budget is too small; the message names the minimum.
            FileChangedError: ``features`` has other rows than those that were packed, or the file
                was replaced meanwhile.
            MissingFileError, StorageError, FormatError, TruncatedFileError, CorruptFileError: the
                file cannot be opened, or its content is wrong.
        """
        before = identity(path)
        file = _PackedFile(path)
        budget = Budget.optional(memory_budget) or Budget.default(ROWS_BYTES)
        minimum = memory_needed(file.index, file.num_hot, file.row_bytes)
        if budget.limit < minimum:
            raise InvalidArgumentError(
                f"{file.path}: {budget} does not hold the {file.num_hot} hot "
                f"rows and the largest batch: at least {minimum} are needed, or pack with a "
                "smaller hot_budget"
            )
        rows = None if features is None else as_row_source(features, "features")
        if rows is not None:
            _check_source(file, rows)
        packed = _PackedRows(file, before, rows, progress)
        shape = (file.num_rows, *file.row_shape)
        self = cls._over(None, file.code, shape, None, "packed")
        self._packed = packed
        self._opened = file.fingerprint, budget.limit
        self._source = file.source.get("path") or "from an array"
        made(self)
        return self

    @property
    def path(self) -> str | None:
        """Absolute path of the file of packed batches."""
        return self._packed.path

    def _gather(self, ids: Ids, out: NDArray[Any], code: int) -> None:
        self.check_open()
        self._packed.gather(ids, out, code)

    @property
    def num_batches(self) -> int:
        """Number of packed batches."""
        return len(self._packed.index)

    def batch(
        self,
        number: int,
        out: NDArray[Any] | None = None,
        dtype: DTypeLike | str | None = None,
        *,
        ids: ArrayLike | None = None,
    ) -> NDArray[Any]:
        """Return the rows of a packed batch, like ``gather`` of its ids.

        Args:
            number: number of the batch, from 0 on, in the order of packing.
            out: as in :meth:`gather`.
            dtype: as in :meth:`gather`.
            ids: the ids of the batch, to check that it is the right one. None: no check.

        Raises:
            OutOfRangeError: the batch does not exist.
            InvalidArgumentError: ``ids`` are not the ids that were packed.
        """
        rows = self._packed
        self.check_open()
        number = as_count(number, "number")
        if number >= self.num_batches:
            raise OutOfRangeError(
                f"batch {number} is not in 0..{self.num_batches - 1} "
                f"(num_batches={self.num_batches})",
                value=number,
            )
        if ids is not None:
            digest = fingerprint(as_ids(ids, "ids"))
            if digest != self._packed.index[number, 3:].tobytes():
                match = self._packed.find(as_ids(ids, "ids"))
                where = "no packed batch" if match is None else f"batch {match}"
                raise InvalidArgumentError(
                    f"{self.path}: the ids are those of {where}, not of batch {number}"
                )
            self._packed.check_count(number, np.size(ids))
        count = int(self._packed.index[number, 2])
        result, code = result_of(self, count, out, dtype, self._code)
        native.run_long(lambda task: rows.read(number, result, code, task), None, result.nbytes)
        return result

    def stats(self) -> PackedStats:  # type: ignore[override]
        """Return counts of batches and reads, and the memory, in this process."""
        self.check_open()
        packed, reader = self._packed, self._packed.reader
        reads = reader.stats()
        return PackedStats(
            batches=packed.batches, rows=packed.rows, others=packed.others,
            device_reads=reads.reads, device_bytes=reads.bytes, num_hot=packed.num_hot,
            used=packed.used, tier=reader.tier, direct=reader.direct,
        )  # fmt: skip

    def verify(self, progress: native.Progress | None = None) -> None:
        """Read the whole file: compare its checksums, and the batches with their index.

        The file has a fingerprint of each batch's ids, not the ids. So a wrong number of ids is
        found here only if another batch has the same fingerprint; otherwise gathering the batch
        finds it.

        Raises:
            CorruptFileError: a section or a batch is damaged; names the first one.
            FileChangedError: the file is not the one that was opened.
        """
        self.check_open()
        file = _PackedFile(self._packed.path)
        check_fingerprint(file.path, self._opened[0], file.fingerprint)
        native.run_long(file.verify, progress, file.file.size)
        file.file.check()

    def to_memory(self, progress: native.Progress | None = None) -> FeatureTable:
        """Return all rows in memory; needs the ``features`` of :meth:`load`."""
        return self._all_rows().to_memory(progress)

    def to_uring(self, memory_budget: int | str | None = None, **options: Any) -> FeatureTable:
        """Return all rows behind a cache; needs the ``features`` of :meth:`load`."""
        return self._all_rows().to_uring(memory_budget, **options)

    def _all_rows(self) -> FeatureTable:
        self.check_open()
        features = self._packed.features
        if features is None:
            raise UnsupportedError(
                f"{self!r} has the rows of {self.num_batches} batches only: open the file that "
                f"was packed, {self._source}"
            )
        if not isinstance(features, FeatureTable):  # nothing else has these two methods
            raise UnsupportedError(f"{features!r} is no FeatureTable, which could be moved")
        return features

    def close(self) -> None:
        """Close the file and drop the hot rows; ``features`` stays open."""
        if not self.closed:
            self._packed.reader.close()
        super().close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.num_batches} batches"
        return (
            f"PackedFeatures(shape={self.shape}, dtype={self.dtype_name}, {state}, "
            f"path={self.path!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        self.check_open()
        return _reopen, (self._packed.path, *self._opened, self._packed.features)


def _reopen(path: str, expected: str, memory: int, features: RowSource | None) -> PackedFeatures:
    packed = PackedFeatures.load(path, memory, features=features)
    check_fingerprint(path, expected, packed._opened[0])
    return packed


def _check_source(file: _PackedFile, features: RowSource) -> None:
    shape, packed = features.shape, (file.num_rows, *file.row_shape)
    if shape != packed or features.dtype_name != native.DTYPE_NAMES[file.code]:
        raise InvalidArgumentError(
            f"{file.path}: rows of {native.DTYPE_NAMES[file.code]} {packed} were packed, "
            f"features has {features.dtype_name} {shape}"
        )
    expected = file.source.get("fingerprint")
    if features.fingerprint != expected:
        raise FileChangedError(
            errno.ESTALE,
            f"{file.path}: the rows of {file.source.get('path') or 'an array'} were packed as "
            f"they were then; {features!r} has others: pack again",
            file.path,
        )
    if file.sample:
        ids = sample_ids(file.num_rows, len(file.sample))
        for row, now, then in zip(
            ids, row_digests(gather_rows(features, ids)), file.sample, strict=True
        ):
            if now != then:
                raise FileChangedError(
                    errno.ESTALE,
                    f"{file.path}: row {row} of {features!r} is not the one that was packed: give "
                    "the store that was, or pack again",
                    file.path,
                )
