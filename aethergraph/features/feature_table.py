"""FeatureTable: a table of rows, in memory or mapped from a file, gathered by id."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import read_only
from aethergraph._checks.attributes import read_property
from aethergraph._tracepoints import made
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.features.files import (
    FoundRows,
    Origin,
    find_part,
    find_rows,
    find_section,
    open_rows,
    save_rows,
    verify,
)
from aethergraph.features.hot import Numbers, RowCache, check_cache, choose_cache, refuse_words
from aethergraph.features.memmaps import MappedArray
from aethergraph.features.rows import as_rows, as_tensor
from aethergraph.features.stored_rows import NativeHandle, StoredRows
from aethergraph.protocols import RowSource, SharedFile
from aethergraph.storage.budget import Budget
from aethergraph.storage.choice import (
    Storage,
    check_storage,
    choose_storage,
    copy_to_memory,
    map_instead,
)
from aethergraph.storage.meta import SectionTable, check_fingerprint
from aethergraph.storage.npy import identity
from aethergraph.storage.value_columns import ValueColumn

if TYPE_CHECKING:
    from aethergraph.storage.paging import Paging

__all__ = ["FeatureTable", "Storage"]

S = TypeVar("S", bound="FeatureTable")


class FeatureTable(StoredRows):
    """Rows of features, labels, masks...: ``shape = (num_rows, ...)``, of any stored dtype.

    Open a file with :meth:`load` or wrap an array with :meth:`from_array`, then ask for rows::

        store = FeatureTable.load("features.npy")
        store.gather([3, 1, 3])                   # rows 3, 1, 3 as a new array
        store.gather(ids, dtype="float32")        # widened on the way
        store[10:20], store[mask]

    Mapped files are read on demand: opening is instant and memory stays bounded by the gathered
    rows. For files larger than memory, ``FeatureTable.load(path, storage="uring",
    memory_budget="512M")`` is faster and keeps to a budget: see :meth:`to_uring`. numpy has no
    bfloat16, so such rows come as uint16 bit patterns unless a dtype is asked for; ``dtype_name``
    names the stored dtype.

    A store is safe to share between threads and with forked children. It pickles by path if it came
    from a file (which must still be the same), also if numpy has mapped its rows read-only; else by
    value.
    """

    def __init__(self, *_: Any, **__: Any) -> None:
        raise InvalidArgumentError(
            "use FeatureTable.load(path) for a file, or FeatureTable.from_array(array)"
        )

    if not TYPE_CHECKING:  # a type checker would take every name to exist

        def __getattr__(self, name: str) -> Any:
            read_property(self, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    _origin: Origin | None
    _storage: str
    _is_writable: bool
    _stored: FeatureTable | None = None
    #: Place of an array that numpy has mapped from a file; else None.
    _mapped: MappedArray | None = None

    @classmethod
    def _make(
        cls,
        array: NDArray[Any],
        code: int,
        *,
        guard: native.FileGuard | None = None,
        origin: Origin | None = None,
        storage: str = "memory",
    ) -> FeatureTable:
        rows = native.NativeRows(array, code, guard)
        self = cls._over(rows, code, array.shape, origin, storage)
        self._array = read_only(array)
        self._guard = guard
        is_given = origin is None and guard is None
        self._is_writable = is_given and bool(array.flags.writeable)
        self._mapped = MappedArray.find(array) if is_given else None
        return self

    @classmethod
    def _over(
        cls: type[S],
        rows: NativeHandle | None,
        code: int,
        shape: tuple[int, ...],
        origin: Origin | None,
        storage: str,
    ) -> S:
        self = cls.__new__(cls)
        self._rows = rows
        self._array = None
        self._guard = None
        self._origin = origin
        self._storage = storage
        self._is_writable = False
        self._set_form(code, shape)
        return self

    # ---- construction --------------------------------------------------------------------

    @classmethod
    def load(
        cls,
        path: native.Path,
        storage: Storage = "mmap",
        *,
        memory_budget: int | str | None = None,
        hot: ArrayLike | None = None,
        frequency: ArrayLike | Numbers | None = None,
        hot_share: float = 0.9,
        dtype: DTypeLike | str | None = None,
        progress: native.Progress | None = None,
    ) -> FeatureTable:
        """Open a native feature file, or a ``.npy`` file in place.

        Args:
            path: the file; its first bytes show which of the two kinds it is.
            storage: ``"mmap"`` reads pages when they are needed, ``"memory"`` copies all rows into
                memory now. ``"uring"`` reads rows when they are gathered, past the page cache, many
                at a time, through a cache of its own: see :meth:`to_uring`. ``"auto"`` copies if
                the rows fit ``memory_budget``, else takes uring; without a budget it copies if they
                fit half of the available memory, maps if they fit all of it, else takes uring. The
                choice is logged.
            memory_budget: bytes, or a text such as ``"4G"``. Refused with ``"mmap"``, whose pages
                the kernel keeps as it likes.
            hot: rows to keep in the cache of ``"uring"``: see :meth:`to_uring`.
            frequency: a number per row that chooses the hot rows: see :meth:`to_uring`.
            hot_share: share of the cache for hot rows: see :meth:`to_uring`.
            dtype: convert rows when they are gathered: see :meth:`astype`.
            progress: called with (bytes done, total bytes) while rows are copied or hot rows read.

        Raises:
            MissingFileError, StorageError: the file cannot be opened.
            FormatError, TruncatedFileError, CorruptFileError, VersionError: its content is wrong.
            UnsupportedError: a dtype or layout that cannot be mapped; the message says what to do.
        """
        check_storage(storage)
        refuse_words(hot)
        check_cache(storage, hot_share, hot=hot, frequency=frequency)
        budget = Budget.optional(memory_budget)
        before = identity(path)
        found_rows = find_rows(path, "mmap" if storage == "uring" else storage)
        store = cls._place(
            found_rows, before, storage, budget, hot=hot, frequency=frequency, hot_share=hot_share,
            progress=progress,
        )  # fmt: skip
        return store if dtype is None else store.astype(dtype)

    @classmethod
    def _place(
        cls,
        found_rows: FoundRows,
        before: tuple[int, ...],
        storage: str,
        budget: Budget | None,
        *,
        hot: ArrayLike | None = None,
        frequency: ArrayLike | Numbers | None = None,
        hot_share: float = 0.9,
        progress: native.Progress | None = None,
    ) -> FeatureTable:
        """Open the rows where ``storage`` says; see :meth:`load`."""
        path = found_rows.origin.path
        chosen = choose_storage(storage, found_rows.array.nbytes, budget, path)
        if chosen == "uring" and found_rows.is_mapped:
            cache = choose_cache(found_rows.array, budget, hot, frequency, hot_share)
            try:
                return cls._read(found_rows, before, cache, progress)
            except (UnsupportedError, InvalidArgumentError) as error:
                map_instead(error, storage, budget, path)
            chosen = "mmap"
        return cls._open(found_rows, chosen, progress)

    @classmethod
    def _open(
        cls,
        found_rows: FoundRows,
        storage: str,
        progress: native.Progress | None,
    ) -> FeatureTable:
        array, code, guard, origin, _ = found_rows
        if not found_rows.is_mapped:  # empty, or converted while it was read
            return cls._make(array, code, origin=origin)
        origin.storage = storage
        if storage == "memory":
            return cls._make(copy_to_memory(array, guard, progress), code, origin=origin)
        return cls._map(found_rows)

    @classmethod
    def _map(cls, found_rows: FoundRows) -> FeatureTable:
        array, code, guard, origin, _ = found_rows
        native.advise(array, native.ADVICE_RANDOM)
        return cls._make(array, code, guard=guard, origin=origin, storage="mmap")

    @classmethod
    def _read(
        cls,
        found_rows: FoundRows,
        before: tuple[int, ...],
        cache: RowCache,
        progress: native.Progress | None,
    ) -> FeatureTable:
        origin = found_rows.origin.stored("uring", cache)
        rows = open_rows(found_rows, before, cache, progress)
        self = cls._over(rows, rows.code, found_rows.array.shape, origin, "uring")
        made(self)
        return self

    @classmethod
    def from_section(
        cls,
        table: SectionTable,
        number: int,
        paging: Paging | None = None,
        edges_of: native.NativeTopology | None = None,
    ) -> FeatureTable:
        """Open array ``number`` of an open graph file (for the graph reader).

        If ``paging`` is given, it reads gathered rows that are short enough for a column; all other
        accesses go through the mapping. ``edges_of`` are the lists whose edges the rows belong to,
        if they belong to edges.
        """
        found_rows = find_section(table, number)
        array, code, guard, origin, _ = found_rows
        column = None if paging is None else paging.column_of(array, code, edges_of)
        if column is None:
            return cls._map(found_rows)
        self = cls._over(column, code, array.shape, origin, "uring")
        self._array, self._guard = read_only(array), guard
        return self

    @classmethod
    def from_mapped(
        cls,
        array: NDArray[Any],
        guard: native.FileGuard | None,
        rows: ValueColumn | None = None,
    ) -> FeatureTable:
        """Wrap an array in memory, or one mapped from the file that ``guard`` watches.

        If ``rows`` is given, it reads the gathered rows; all other accesses go through the array.
        """
        code = native.dtype_code(array.dtype, "array")
        if rows is not None:
            self = cls._over(rows, code, array.shape, None, "uring")
            self._array, self._guard = read_only(array), guard
            return self
        return cls._make(array, code, guard=guard, storage="mmap" if guard else "memory")

    @classmethod
    def from_array(cls, array: ArrayLike, *, dtype: str | None = None) -> FeatureTable:
        """Wrap an array of at least one dimension, without a copy where its layout allows.

        Args:
            array: float32/64/16, int8..int64, uint8, uint32, uint64 or bool; CPU torch tensors
                and ``ml_dtypes`` arrays are taken as well.
            dtype: ``"bfloat16"`` declares that a uint16 array holds bfloat16 bit patterns.

        Raises:
            InvalidArgumentError: the array has no dimension, or a dtype that cannot be stored.
        """
        return cls._make(*as_rows(array, dtype, "array"))

    # ---- properties ----------------------------------------------------------------------

    @property
    def path(self) -> str | None:
        """Absolute path of the file that the rows were loaded from, or None."""
        origin = (self._stored or self)._origin
        return None if origin is None else origin.path

    @property
    def fingerprint(self) -> str | None:
        """Identity of the file's content, for caches derived from the rows; None without a file."""
        origin = (self._stored or self)._origin
        return None if origin is None else origin.fingerprint

    @property
    def content(self) -> str | None:
        """Identity of the content on every machine; None for ``.npy``, which has no checksums."""
        origin = (self._stored or self)._origin
        return None if origin is None or origin.kind == "npy" else origin.fingerprint

    @property
    def storage(self) -> str:
        """Place of the rows: ``"mmap"``, ``"memory"``, or ``"uring"`` (read when gathered)."""
        return self._storage

    @property
    def is_writable(self) -> bool:
        """True if the rows are writable memory of this process, such as a wrapped array.

        False for rows of a file, even after they were copied into memory, and for a read-only
        array. Write through :meth:`tensor`.
        """
        return self._is_writable

    @property
    def is_in_memory(self) -> bool:
        """True if all rows are in memory, copied or wrapped there."""
        return self._storage == "memory"

    @property
    def writable_array(self) -> NDArray[Any] | None:
        """Array of the rows to write to, if they are :attr:`is_writable`; else None."""
        return native.without_read_only(self.array) if self._is_writable else None

    @property
    def guard(self) -> native.FileGuard | None:
        """Guard of the file that the rows are mapped from; None if they are not mapped."""
        return self._guard

    def shared_file(self, writable: bool = False) -> SharedFile | None:
        """Return the file that the rows are mapped from; None if they are not, or converted."""
        array, guard = self._array, self._guard
        if array is None or guard is None or not array.flags.c_contiguous:  # no array: converted
            return None
        return SharedFile(os.dup(guard.descriptor), guard.offset_of(array) if array.size else 0)

    def is_same_rows(self, other: RowSource) -> bool:
        """Return whether both are the same array of one graph file, without caches of their own."""
        mine, its = self._origin, other._origin if isinstance(other, FeatureTable) else None
        return mine is not None and its is not None and mine.is_same_section(its)

    def tensor(self) -> Any:
        """Return all rows as a torch tensor over the same memory, without a copy.

        Pages of a mapped file are read as they are touched. The tensor, and every view of it, keeps
        the mapping alive: after :meth:`close`, after the file is unlinked, after this store is
        collected. bfloat16 rows are ``torch.bfloat16``.

        torch has no read-only tensors: do not write to the tensor in place (``t += 1``, ``out=t``)
        unless the rows are :attr:`is_writable`. The memory of mapped rows is write-protected, and
        such a write ends the process; clone first. If the file is made shorter, missing pages read
        as zeros, as with :attr:`array`.

        Returns:
            torch.Tensor of :attr:`shape` on the CPU.

        Raises:
            UnsupportedError: torch is not installed, or has no such dtype (uint32 and uint64
                before torch 2.3), or the rows are read with ``storage="uring"``.
        """
        return as_tensor(self.array, self._code)

    def __repr__(self) -> str:
        place = f", path={self.path!r}" if self.path is not None else ""
        state = "closed" if self.closed else self._storage
        kept = "" if self._stored is None else f" of {self._stored.dtype_name}"
        return f"FeatureTable(shape={self.shape}, dtype={self.dtype_name}{kept}, {state}{place})"

    # ---- storing -------------------------------------------------------------------------

    def astype(self, dtype: DTypeLike | str) -> FeatureTable:
        """Return a store of these rows in another dtype, converted when they are gathered.

        For example, float16 rows for a float32 model stay float16 on disk and in memory::

            store.astype("float32").gather(ids)       # float32; loaders put that into batches

        Nothing is converted or copied in advance. The returned store has no :attr:`array` and no
        :meth:`tensor`; :meth:`save`, and a graph that owns the store, write the converted dtype.

        Args:
            dtype: a dtype that :meth:`gather` widens the stored one to. float32 rounds int32 beyond
                2^24; all others are exact.

        Raises:
            UnsupportedError: the stored dtype is not widened to ``dtype``.
        """
        stored = self._stored or self
        stored.gather(np.empty(0, np.int64), dtype=dtype)  # raises for an unsupported dtype
        code = native.dtype_code(dtype)
        if code == stored._code:
            return stored
        converted = FeatureTable._over(stored._rows, code, stored.shape, None, stored._storage)
        converted._guard, converted._stored = stored._guard, stored
        return converted

    def to_memory(self, progress: native.Progress | None = None) -> FeatureTable:
        """Return the rows in anonymous memory with huge pages; self if they are there already.

        A pickle of rows that came from a file is read into memory anew: worker processes that are
        spawned have a copy each, where mapped rows are shared.
        """
        self.check_open()
        if self._storage == "memory":
            return self
        if self._stored is not None:
            return self._stored.to_memory(progress).astype(self.dtype_name)
        if self._array is None:
            assert self._origin is not None
            return _reopen(self._origin.stored("memory"), progress)
        array = copy_to_memory(self._array, self._guard, progress)
        origin = None if self._origin is None else self._origin.stored("memory")
        return FeatureTable._make(array, self._code, origin=origin)

    def to_uring(
        self,
        memory_budget: int | str | None = None,
        *,
        hot: ArrayLike | None = None,
        frequency: ArrayLike | Numbers | None = None,
        hot_share: float = 0.9,
        progress: native.Progress | None = None,
    ) -> FeatureTable:
        """Return a store of the same rows that reads them when they are gathered, within a budget.

        For files larger than memory. ``gather`` looks rows up in a cache. It sorts missing rows by
        their place in the file, reads neighbouring ones together and each once, past the page cache
        and with many reads under way: by io_uring, or by threads with pread where io_uring is not
        available. Part of the cache may be a hot set that stays; S3-FIFO manages the rest (Yang et
        al., "FIFO queues are all you need for cache eviction", SOSP 2023). Results equal those of
        the other storages. :meth:`stats` counts hits and reads.

        The budget holds for each process that opens the file or inherits the store: with
        ``num_workers=4``, give a fifth of the total. A forked worker shares the pages of the hot
        set with its parent and starts with the rest of the cache empty; a worker that unpickles the
        store opens the file and reads its own hot set. Threads share the cache.

        Args:
            memory_budget: bytes, or a text such as ``"512M"``, for cached rows, their index, and
                reads under way (None: 512 MiB, or half of the available memory if that is less).
                Results of ``gather`` are not counted.
            hot: integer vector of rows to keep, the most important first.
            frequency: alternative to ``hot``: a number of at least 0 for each row, such as a degree
                or a count of uses, or a function ``(start, stop)`` that returns the numbers of a
                span of rows. The rows with the largest numbers are kept.
            hot_share: share of the cache for hot rows, 0 to 1; hot rows beyond this share compete
                with all others. Use a large share if the frequencies are accurate: for sampled
                batches, degree predicts reuse better than recency does.
            progress: called with (bytes done, total bytes) while hot rows are read.

        Raises:
            UnsupportedError: the rows did not come from a file.
            InvalidArgumentError: the budget is too small (the message names the minimum), or a
                number in ``frequency`` is negative or not finite (``position`` is its row).
            OutOfRangeError: a value of ``hot`` is not a row; names the first one.
            FileChangedError: the file is not the one that was opened.
        """
        self.check_open()
        refuse_words(hot)
        check_cache("uring", hot_share)
        if self._stored is not None:
            read = self._stored.to_uring(
                memory_budget, hot=hot, frequency=frequency, hot_share=hot_share, progress=progress
            )
            return read.astype(self.dtype_name)
        if self._origin is None:
            raise UnsupportedError(
                f"{self!r} did not come from a file: save() the rows and use "
                "FeatureTable.load(path, storage='uring')"
            )
        cache = choose_cache(self, Budget.optional(memory_budget), hot, frequency, hot_share)
        return _reopen(self._origin.stored("uring", cache), progress)

    def stats(self) -> native.RowStats:
        """Return hits, reads and memory of a store with ``storage="uring"``, in this process.

        Raises:
            UnsupportedError: the rows are mapped or in memory, so the library does not read them.
        """
        self.check_open()
        rows = self._rows
        if not isinstance(rows, (native.FileRows, ValueColumn)):
            raise UnsupportedError(f"{self!r} has no statistics: only storage='uring' has")
        return rows.stats()

    def save(
        self,
        path: native.Path,
        dtype: DTypeLike | str | None = None,
        *,
        progress: native.Progress | None = None,
    ) -> None:
        """Write a feature file: native, or numpy's format if ``path`` ends in ``.npy``.

        The file appears at once and complete, or not at all. Saving over the file that this store
        maps is safe.

        Args:
            path: the file.
            dtype: convert to this dtype: any float, such as ``"bfloat16"`` or ``"float16"``, or a
                wider integer. Floats are rounded to nearest even; integers, and whole numbers of
                float64 that become float32, stay exact. None: the rows are written as they are.
            progress: called with (bytes done, total bytes).

        Raises:
            InvalidArgumentError: a value that ``dtype`` does not hold exactly though it must, or
                that would become infinite; ``position`` is its row.
            UnsupportedError: floats cannot become integers, nor integers narrower ones.
            StorageError: the file cannot be written (no space, no permission...).
        """
        self.check_open()
        save_rows(path, self, dtype, progress)

    def verify(self, progress: native.Progress | None = None) -> None:
        """Read the file behind this store and compare its checksums.

        Does nothing for rows that came from no file. A ``.npy`` file has no checksums: the only
        check is whether it was replaced or written to since it was opened.

        Raises:
            CorruptFileError: a section is damaged; names the first one.
            FileChangedError: the file was replaced or written to since it was opened.
        """
        self.check_open()
        if self._guard is not None:
            self._guard.check()
        if self._stored is not None:
            self._stored.verify(progress)
        verify(self._origin, progress)

    def close(self) -> None:
        """Drop this store's references. Arrays taken from the store stay valid."""
        self._is_closed = True
        self._rows = None
        self._guard = None
        self._array = None
        self._stored = None

    def __enter__(self) -> FeatureTable:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- pickling ------------------------------------------------------------------------

    def __reduce__(self) -> tuple[Any, ...]:
        self.check_open()
        if self._stored is not None:
            return _as_dtype, (self._stored, self.dtype_name)
        if self._origin is not None:
            return _reopen, (self._origin,)
        if self._mapped is not None and self._mapped.is_there:
            return _map_again, (self._mapped, self._code)
        return _rebuild, (np.ascontiguousarray(self.array), self._code)


def _reopen(origin: Origin, progress: native.Progress | None = None) -> FeatureTable:
    """Open the rows of ``origin`` anew; raise FileChangedError if the file is another one."""
    before = identity(origin.path)
    if origin.kind == "graph":
        table = SectionTable(native.NativeFile(origin.path), native.CONTENT_GRAPH)
        check_fingerprint(origin.path, origin.fingerprint, table.fingerprint())
        found_rows = find_section(table, origin.number)
    elif origin.kind == "part":
        found_rows = find_part(origin.path, origin.number)
        check_fingerprint(origin.path, origin.fingerprint, found_rows.origin.fingerprint)
    else:
        found_rows = find_rows(origin.path, "mmap" if origin.storage == "uring" else origin.storage)
        check_fingerprint(origin.path, origin.fingerprint, found_rows.origin.fingerprint)
    if origin.cache is not None and found_rows.is_mapped:
        return FeatureTable._read(found_rows, before, origin.cache, progress)
    return FeatureTable._open(found_rows, origin.storage, progress)


def _as_dtype(stored: FeatureTable, dtype: str) -> FeatureTable:
    return stored.astype(dtype)


def _map_again(mapped: MappedArray, code: int) -> FeatureTable:
    return FeatureTable._make(mapped.open(), code)


def _rebuild(array: NDArray[Any], code: int) -> FeatureTable:
    return FeatureTable._make(array, code)
