"""Packing: the rows of coming batches, written in the order of their use."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_ids
from aethergraph._checks.options import as_iterator
from aethergraph.errors import (
    ClosedError,
    DiskFullError,
    InvalidArgumentError,
    LimitError,
    OutOfRangeError,
)
from aethergraph.features.adapters import as_row_source
from aethergraph.features.gathering import gather_rows
from aethergraph.features.hot import hottest
from aethergraph.packing.layout import (
    INDEX_COLUMNS,
    NAMES,
    PAGE,
    SAMPLE_ROWS,
    batch_bytes,
    hot_room,
    memory_needed,
    places_at,
    row_digests,
    sample_ids,
)
from aethergraph.packing.spool import Spool, SpooledBatch
from aethergraph.protocols import FeatureSource
from aethergraph.storage.budget import Budget
from aethergraph.storage.memory import format_size
from aethergraph.storage.meta import ArrayMeta, FileMeta, write_meta

__all__ = ["Packing", "pack"]

Ids = NDArray[np.int64]

#: Rows are written in pieces of at most this size.
_PIECE_BYTES = 16 << 20
#: Bytes of memory for each row that the choice of hot rows looks at or keeps.
_CHOICE_BYTES = 64
#: Bytes of memory for each row of a group beside the row: its number and its place.
_ID_BYTES = 24


class Packing:
    """Batches whose rows are to be packed; reports the cost, then writes the file.

    ::

        with Packing(lists, features, "epoch.packed", hot_budget="1G") as packing:
            print(packing.nbytes)                  # of the file, before any row is read
            packing.save()

    Rows that most batches ask for are hot: they are packed once and stay in memory when the file is
    used. ``hot_budget`` limits their number, and a row that only one batch asks for is never hot.
    All other rows are written batch by batch, so that each batch is one read of consecutive bytes,
    as DiskGNN packs the features of batches that were sampled offline (Liu et al., "DiskGNN:
    Bridging I/O efficiency and model accuracy for out-of-core GNN training", SIGMOD 2025).

    Rows are read in the order of the source file, for as many batches together as the memory holds,
    and written in one stream. The source is best opened with ``storage="uring"``, whose budget
    comes on top. The row numbers are kept beside ``path`` in a file without a name, 12 bytes for
    each. A Packing is a context manager, which releases that file.

    Args:
        lists: row numbers [n] of each batch, an integer vector per batch; read once.
        features: the rows: a store, another source of rows, or an array.
        path: the file; :meth:`save` creates it complete, or not at all.
        hot_budget: memory for hot rows when the file is used: bytes, or a text such as ``"1G"``.
        memory_budget: memory for packing. The row numbers of one batch, about 40 bytes for each,
            come on top.

    Raises:
        OutOfRangeError: a row does not exist; names the list, the first such row number and its
            position.
        InvalidArgumentError: rows of no bytes, or a budget that is not a size or too small.
        MissingFileError, DiskFullError, StorageError: the folder does not exist, is full, or fails.
    """

    def __init__(
        self,
        lists: Iterable[ArrayLike],
        features: FeatureSource | ArrayLike,
        path: native.Path,
        *,
        hot_budget: int | str = "256M",
        memory_budget: int | str = "512M",
    ) -> None:
        self.path = os.path.abspath(native.encode_path(path)[0])
        self._features = as_row_source(features, "features")
        row_shape, item = self._features.row_shape, self._features.array_dtype.itemsize
        self._row_bytes = math.prod(row_shape) * item
        if not self._row_bytes:
            raise InvalidArgumentError(f"{features!r} has rows of no bytes: nothing to pack")
        self._budget = budget = Budget.parse(memory_budget)
        self._group_rows = budget.limit // 2 // (self._row_bytes + _ID_BYTES)
        if not self._group_rows:
            raise InvalidArgumentError(
                f"{budget} does not hold two rows of {self._row_bytes} "
                f"bytes: give at least {2 * (self._row_bytes + _ID_BYTES)}"
            )
        self._spool = Spool(os.path.dirname(self.path))
        try:
            self._note(lists)
            self._hot = self._choose_hot(Budget.parse(hot_budget, "hot_budget"))
            self._index = self._plan()
        except BaseException:
            self.close()
            raise

    def _note(self, lists: Iterable[ArrayLike]) -> None:
        num_rows = self._features.num_rows
        for number, batch in enumerate(as_iterator(lists, "lists", "batches of row numbers")):
            ids = as_ids(batch, "lists")
            bad = (ids < 0) | (ids >= num_rows)
            if bad.any():
                at = int(bad.argmax())
                raise OutOfRangeError(
                    f"lists[{number}][{at}] = {ids[at]} is not in 0..{num_rows - 1} "
                    f"(num_rows={num_rows})",
                    position=at, value=int(ids[at]),
                )  # fmt: skip
            self._spool.append(ids)
        self._spool.end()

    def _choose_hot(self, budget: Budget) -> Ids:
        """Choose rows of more than one batch, those of most batches first; return them in order."""
        span = max(1 << 12, self._budget.limit // _CHOICE_BYTES)
        room = min(budget.limit // self._row_bytes, span)
        num_rows, shared = self._features.num_rows, 0
        for start in range(0, num_rows, span):
            counts = self._spool.counts(start, min(start + span, num_rows))
            shared += int(np.count_nonzero(counts > 1))
        chosen = hottest(self._spool.counts, num_rows, min(room, shared), span)
        return np.sort(chosen)

    def _plan(self) -> NDArray[np.uint64]:
        index = np.zeros((len(self._spool), INDEX_COLUMNS), np.uint64)
        begin = 0
        for number, batch in enumerate(self._spool):
            num_rows = len(batch.unique) - int(np.count_nonzero(self._is_hot(batch)[0]))
            index[number, :3] = begin, num_rows, len(batch.inverse)
            begin += batch_bytes(num_rows, len(batch.inverse), self._row_bytes)
        for number, digest in enumerate(self._spool.fingerprints):
            index[number, 3:] = np.frombuffer(digest, np.uint64)
        self._batches_bytes = begin
        room = hot_room(len(self._hot), self._row_bytes) + int(index[:, 1].max(initial=0))
        if room >= 1 << 32:
            raise LimitError(f"a batch of {room} rows, the hot ones included: at most 2**32 - 1")
        return index

    def _is_hot(self, batch: SpooledBatch) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Return whether each row of the batch is hot, and its position among the hot rows."""
        at = np.searchsorted(self._hot, batch.unique)
        if not len(self._hot):
            return np.zeros(len(at), np.bool_), at
        return self._hot[np.minimum(at, len(self._hot) - 1)] == batch.unique, at

    # ---- cost ----------------------------------------------------------------------------

    @property
    def num_batches(self) -> int:
        """Number of batches."""
        return len(self._index)

    @property
    def num_hot(self) -> int:
        """Number of rows that stay in memory when the file is used."""
        return len(self._hot)

    @property
    def rows_read(self) -> int:
        """Number of rows read when all batches are used once: the rows that are not hot."""
        return int(self._index[:, 1].sum())

    @property
    def nbytes(self) -> int:
        """Bytes of the file, except a few pages of description."""
        hot = self.num_hot * self._row_bytes
        return hot + self._batches_bytes + self._index.nbytes

    @property
    def memory(self) -> int:
        """Bytes of memory that using the file takes: the least ``memory_budget`` of ``load``."""
        return memory_needed(self._index, self.num_hot, self._row_bytes)

    # ---- writing -------------------------------------------------------------------------

    def save(self, progress: native.Progress | None = None) -> None:
        """Write the file, complete or not at all; an existing file is replaced at the end.

        Args:
            progress: called with (bytes done, total bytes).

        Raises:
            ClosedError: :meth:`close` was called.
            DiskFullError: there is no space.
            StorageError: another operation of the system failed.
            FileChangedError: the file of the rows was written to.
        """
        if self._spool.closed:
            raise ClosedError(f"{self!r} was closed: make another one")
        self._check_space()
        with native.NativeWriter(self.path, native.CONTENT_FEATURES) as writer:
            self._write(_Stream(writer, progress, self.nbytes))

    def _check_space(self) -> None:
        free = shutil.disk_usage(os.path.dirname(self.path)).free
        if free < self.nbytes:
            raise DiskFullError(
                errno.ENOSPC,
                f"{self.path}: No space left on device: {format_size(self.nbytes)} are needed, "
                f"{format_size(free)} are free",
                self.path,
            )

    def _write(self, out: _Stream) -> None:
        features, dtype = self._features, self._features.dtype_name
        about: dict[str, Any] = {
            "num_rows": features.num_rows, "path": features.path,
            "fingerprint": features.fingerprint,
        }  # fmt: skip
        if features.fingerprint is None:
            count = min(features.num_rows, SAMPLE_ROWS)
            about["sample"] = row_digests(
                gather_rows(features, sample_ids(features.num_rows, count))
            )
        source = json.dumps(about).encode()
        shapes = (
            (self.num_hot, *features.row_shape), (self._batches_bytes,), self._index.shape,
            (len(source),),
        )  # fmt: skip
        dtypes = (dtype, "uint8", "uint64", "uint8")
        arrays = [
            ArrayMeta(name, "row", 0, code, shape)
            for name, code, shape in zip(NAMES, dtypes, shapes, strict=True)
        ]
        write_meta(out.writer, FileMeta(arrays=tuple(arrays)))
        out.begin(0, dtype)
        self._copy_rows(out, self._hot)
        out.begin(1, "uint8")
        self._write_batches(out)
        out.begin(2, "uint64")
        out.append(self._index)
        out.begin(3, "uint8")
        out.append(source)
        out.end()

    def _write_batches(self, out: _Stream) -> None:
        for group, union in self._groups():
            fits = len(union) <= self._group_rows
            rows = gather_rows(self._features, union) if fits else None
            for batch in group:
                is_hot, at = self._is_hot(batch)
                cold = batch.unique[~is_hot]
                if rows is None:
                    self._copy_rows(out, cold)
                else:
                    for piece in self._pieces(cold):
                        out.append(rows[np.searchsorted(union, piece)])
                size = len(cold) * self._row_bytes
                out.append(bytes(places_at(len(cold), self._row_bytes) - size))
                places = np.empty(len(batch.unique), np.uint32)
                places[is_hot] = at[is_hot]
                first = hot_room(self.num_hot, self._row_bytes)
                places[~is_hot] = np.arange(first, first + len(cold))
                out.append(places[batch.inverse])
                size = places_at(len(cold), self._row_bytes) + 4 * len(batch.inverse)
                out.append(bytes(-size % PAGE))

    def _groups(self) -> Iterator[tuple[list[SpooledBatch], Ids]]:
        """Yield as many consecutive batches as memory holds, with the union of their cold rows."""
        group: list[SpooledBatch] = []
        union = np.empty(0, np.int64)
        for batch in self._spool:
            cold = batch.unique[~self._is_hot(batch)[0]]
            both = np.union1d(union, cold)
            if group and len(both) > self._group_rows:
                yield group, union
                group, both = [], cold
            group.append(batch)
            union = both
        if group:
            yield group, union

    def _copy_rows(self, out: _Stream, ids: Ids) -> None:
        for piece in self._pieces(ids):
            out.append(gather_rows(self._features, piece))

    def _pieces(self, ids: Ids) -> Iterator[Ids]:
        step = max(1, min(_PIECE_BYTES // self._row_bytes, self._group_rows // 2))
        for start in range(0, len(ids), step):
            yield ids[start : start + step]

    def close(self) -> None:
        """Release the noted row numbers; a saved file stays."""
        self._spool.close()

    def __enter__(self) -> Packing:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"Packing({self.num_batches} batches, {format_size(self.nbytes)}, "
            f"{self.num_hot} hot rows, path={self.path!r})"
        )


class _Stream:
    """Writer of sections one after the other, with progress."""

    def __init__(
        self, writer: native.NativeWriter, progress: native.Progress | None, total: int
    ) -> None:
        self.writer = writer
        self._progress = progress
        self._done, self._total = 0, total
        self._is_open = False

    def begin(self, number: int, dtype: str) -> None:
        """End the previous section, and start array ``number``."""
        if self._is_open:
            self.writer.end()
        self.writer.begin(native.SECTION_ARRAY, number, native.DTYPE_CODES[dtype])
        self._is_open = True

    def append(self, data: NDArray[Any] | bytes) -> None:
        """Append bytes to the section."""
        if len(data):
            self.writer.append(data)
        self._done += len(data) if isinstance(data, bytes) else data.nbytes
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total)

    def end(self) -> None:
        """End the last section."""
        self.writer.end()


def pack(
    lists: Iterable[ArrayLike],
    features: FeatureSource | ArrayLike,
    path: native.Path,
    *,
    hot_budget: int | str = "256M",
    memory_budget: int | str = "512M",
    progress: native.Progress | None = None,
) -> None:
    """Write the rows of batches that are known ahead, in the order of their use.

    :class:`Packing` explains the arguments and tells the size in advance; :class:`PackedFeatures`
    reads the file.
    """
    with Packing(
        lists, features, path, hot_budget=hot_budget, memory_budget=memory_budget
    ) as packing:
        packing.save(progress)
