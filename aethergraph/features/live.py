"""LiveFeatureTable: rows that change while they are read, by any thread or process.

::

    writers, a lock for each shard of rows          readers, no lock
    put(ids, rows, version=)  ──> │ seq │ sum │ version │ data ... │ ──> gather(ids)
                                  slot of a row, in shared memory or a file

``native/src/slots/layout.h`` has the protocol, ``native/FORMAT.md`` every byte.
"""

from __future__ import annotations

import errno
import math
import os
import time
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count, as_ids, as_integer, read_only
from aethergraph._checks.options import as_choice, as_flag, shown
from aethergraph.errors import (
    ClosedError,
    FileChangedError,
    InvalidArgumentError,
    OutOfRangeError,
    UnsupportedError,
)
from aethergraph.features.bfloat16 import can_save_as, convert, first_lost
from aethergraph.features.gathering import name_row, no_such_row
from aethergraph.features.rows import as_rows
from aethergraph.features.table import NativeRowTable
from aethergraph.protocols import SharedFile
from aethergraph.storage.other_process import OpenFile, Owner, open_descriptors

__all__ = ["LiveFeatureTable"]

Missing = Literal["error", "zero", "nan"]
VersionUnit = Literal["ns", "us", "ms", "s"]

#: Unit of versions that are times -> its nanoseconds.
_TICKS: dict[str, int] = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}

#: First bytes of the file of a table.
_MAGIC = b"AETHERT\0"


class LiveFeatureTable(NativeRowTable):
    """Rows of features that change while they are read: ``shape = (num_rows, ...)``.

    Any number of threads and processes write and read at once. A row that is gathered is always
    whole: as one put left it, never half of two. Readers take no lock::

        table = LiveFeatureTable.create("users.aet", num_rows=1_000_000, shape=128)
        table.put(7, row)                          # seen by the next gather, in every process
        table.put_many(ids, rows, version=times)   # rows that are older than those there: left out
        graph.node_attrs["x"] = table              # and every loader takes it

    Make one with :meth:`create`, in a file or in shared memory; others :meth:`open` the file or
    :meth:`attach` to the memory. Forked children have it, and it pickles by its place.

    A gather of many rows is not a snapshot of them: each is the latest when it is read. Rows of one
    transaction, or of one commit of a graph, are attributes of a :class:`DynamicGraph`.

    **int8 with a scale**: with ``dtype="int8"`` and ``scale="row"`` the table takes and returns
    float32 rows and keeps int8 elements with one factor for each row, its largest magnitude over
    127. So a row is a quarter as large, and any row fits, however large its numbers are; an element
    is off by at most half the factor, or is read as zero where the factor is below a float32.

    A writer that is killed in the middle of a row leaves that row torn: gathers of it raise
    :class:`~aethergraph.errors.TornRowError` until anybody writes it again, with any version. They
    wait some seconds for one that is only stopped, and then raise the same class, which names it.

    Rows in a file stay when their writer has ended. If the file is deleted or replaced by another,
    whoever opened it gets :class:`~aethergraph.errors.WriterGoneError` a hundredth of a second
    later at the latest; :attr:`is_current` asks without an error.
    """

    _rows: native.LiveSlots | None
    _missing: Missing

    def __init__(self, *_: Any, **__: Any) -> None:
        raise InvalidArgumentError(
            "use LiveFeatureTable.create(path_or_None, num_rows, shape), .open(path) or "
            ".attach(descriptor)"
        )

    @classmethod
    def create(
        cls,
        path: native.Path | None,
        num_rows: int,
        shape: int | tuple[int, ...],
        dtype: DTypeLike | str = "float32",
        *,
        scale: Literal["row"] | None = None,
        version_unit: VersionUnit | None = "ns",
        missing: Missing = "error",
        check: bool = False,
        huge_pages: bool = True,
    ) -> LiveFeatureTable:
        """Make a table; no row is written yet.

        Args:
            path: file to make, which takes its whole size on disk at once; None: shared memory,
                which is taken as rows are written and ends with the last process that has it.
            num_rows: number of rows, which stays.
            shape: of a row: its length, or a tuple of at most 8 extents.
            dtype: stored dtype, also ``"bfloat16"``.
            scale: ``"row"`` keeps float32 rows as int8 with a factor for each row; dtype
                ``"int8"`` only.
            version_unit: versions are times since 1970 in this unit: :meth:`ages` works, and a put
                without a version has the present time. None: versions are counts.
            missing: what this handle makes of rows that nobody has written: an error, zeros or NaN.
            check: let gathers of this handle compare the checksum of each row, too. That finds
                damage in memory or the file; without it rows are just as whole.
            huge_pages: take shared memory 2 MiB at a time where the system has such pages: rows at
                random are several times as fast. False: 4 KiB, for tables with few rows written.

        Raises:
            StorageError: the file exists, or cannot be made.
            DiskFullError: the disk has no room for all rows.
            InvalidArgumentError: an argument is wrong.
        """
        count = as_count(num_rows, "num_rows")
        extents = _as_shape(shape)
        code = native.dtype_code(dtype)
        if scale is not None:
            as_choice(scale, ["row"], "scale")
            if native.DTYPE_NAMES[code] != "int8":
                raise InvalidArgumentError(
                    f"scale = 'row' is for dtype='int8', not {native.DTYPE_NAMES[code]}"
                )
        tick = 0
        if version_unit is not None:
            tick = _TICKS[as_choice(version_unit, get_args(VersionUnit), "version_unit")]
        made_code = native.dtype_code("float32") if scale else code
        # All before the file is made, which would be in the way of the next attempt.
        _check_missing(missing, made_code)
        as_flag(check, "check")
        is_huge = as_flag(huge_pages, "huge_pages")
        slots = native.LiveSlots.create(
            path, count, extents, code, is_scaled=scale is not None, tick=tick
        )
        if is_huge:
            slots.use_huge_pages()
        return cls._over(slots, missing, check)

    @classmethod
    def open(
        cls,
        path: native.Path,
        *,
        writable: bool = True,
        missing: Missing = "error",
        check: bool = False,
    ) -> LiveFeatureTable:
        """Open the table in a file.

        Args:
            path: the file.
            writable: False: without :meth:`put`, for files that may only be read.
            missing: as in :meth:`create`.
            check: as in :meth:`create`.

        Raises:
            MissingFileError: there is no such file.
            FormatError: the file is no table, or of another size than its header says
                (TruncatedFileError, VersionError, CorruptFileError).
        """
        return cls._over(native.LiveSlots.open(path, as_flag(writable, "writable")), missing, check)

    @staticmethod
    def is_table(path: native.Path) -> bool:
        """Return whether a file begins like one of a table.

        Raises:
            MissingFileError, StorageError: it cannot be read.
        """
        file = native.NativeFile(path, raw=True)
        if file.size < len(_MAGIC):
            return False
        return file.array(0, (len(_MAGIC),), np.dtype(np.uint8)).tobytes() == _MAGIC

    @classmethod
    def attach(
        cls,
        descriptor: int,
        *,
        writable: bool = True,
        missing: Missing = "error",
        check: bool = False,
    ) -> LiveFeatureTable:
        """Open the table behind a descriptor, say one that came over a unix socket.

        Args:
            descriptor: :attr:`descriptor` of the table, or a copy; it stays the caller's.
            writable: False: without :meth:`put`.
            missing: as in :meth:`create`.
            check: as in :meth:`create`.

        Raises:
            StorageError: there is no such descriptor.
            FormatError: there is no table behind it.
        """
        number = as_integer(descriptor, "descriptor", bools=False)
        if not -1 <= number < 2**31:
            raise InvalidArgumentError(f"descriptor = {number} is none")
        slots = native.LiveSlots.attach(number, as_flag(writable, "writable"))
        return cls._over(slots, missing, check)

    @classmethod
    def _over(cls, slots: native.LiveSlots, missing: Any, check: Any) -> LiveFeatureTable:
        slots.missing = native.MISSING[_check_missing(missing, slots.code)]
        slots.check = as_flag(check, "check")
        self = cls.__new__(cls)
        self._rows, self._missing = slots, missing
        self._set_form(slots.code, (slots.layout.num_rows, *slots.layout.row_shape))
        return self

    # ---- facts ---------------------------------------------------------------------------------

    @property
    def path(self) -> str | None:
        """Absolute path of the file; None: shared memory, or attached."""
        return None if self._rows is None else self._rows.path

    @property
    def storage(self) -> str:
        """``"live"``."""
        return "live"

    @property
    def is_in_memory(self) -> bool:
        """True: a gather waits for nothing but memory, and pages of the file."""
        return True

    @property
    def is_live(self) -> bool:
        """True: a graph that changes uses the rows as they are, without a copy."""
        return True

    @property
    def is_current(self) -> bool:
        """False if the file was deleted, or replaced by another, since it was opened.

        Then :meth:`gather`, :meth:`put` and :meth:`versions` raise WriterGoneError. Always True for
        shared memory, and for the handle that :meth:`create` returned and its forked copies.
        """
        return self.native_slots().look() is None

    @property
    def is_writable(self) -> bool:
        """True if rows can be put through this handle."""
        return self.native_slots().writable

    @property
    def stored_dtype(self) -> str:
        """Name of the dtype of the elements in the slots; ``dtype_name`` is that of the rows."""
        return native.DTYPE_NAMES[self.layout.code]

    @property
    def scale(self) -> str | None:
        """``"row"`` if elements are int8 with a factor for each row, else None."""
        return "row" if self.layout.is_scaled else None

    @property
    def version_unit(self) -> str | None:
        """Unit of versions that are times, else None."""
        tick = self.layout.tick
        return next((unit for unit, unit_tick in _TICKS.items() if unit_tick == tick), None)

    @property
    def missing(self) -> str:
        """What rows are that nobody has written: ``"error"``, ``"zero"`` or ``"nan"``."""
        return self._missing

    @property
    def generation(self) -> str:
        """Random 32 hex digits that no other table has, not even one made at the same path."""
        return self.layout.generation.hex()

    @property
    def identity(self) -> str:
        """Identity of the table: its :attr:`generation`, the same in every process."""
        return self.generation

    @property
    def descriptor(self) -> int:
        """Descriptor of the file or memory, for :meth:`attach`; it is closed with the table."""
        return self.native_slots().descriptor

    @property
    def layout(self) -> native.SlotLayout:
        """Sizes and dtype of the slots: what one needs to read them from elsewhere; it pickles."""
        return self.native_slots().layout

    @property
    def slots(self) -> NDArray[np.uint8]:
        """All slots as they are, read-only bytes ``[num_rows, stride]``, for one-sided readers.

        They change at any time: take no row from here without comparing its checksum
        (:func:`aethergraph.pytorch.validate_slots`).
        """
        return self.native_slots().slots

    @property
    def array(self) -> NDArray[Any]:
        """All rows as they are now, a read-only copy."""
        return read_only(self.read(0, self._num_rows))

    def shared_file(self, writable: bool = False) -> SharedFile:
        """Return the file or memory, for reading; also for writing if this handle can and shall."""
        path, both = f"/proc/self/fd/{self.descriptor}", writable and self.is_writable
        number = os.open(path, (os.O_RDWR if both else os.O_RDONLY) | os.O_CLOEXEC)
        return SharedFile(number, missing=self._missing, is_writable=both)

    def native_slots(self) -> native.LiveSlots:
        """Return the native handle; raise ClosedError after :meth:`close`."""
        if self._rows is None:
            raise ClosedError("the live feature table was closed")
        return self._rows

    def is_same_rows(self, other: Any) -> bool:
        """Return whether both are handles of one table."""
        return isinstance(other, LiveFeatureTable) and self.generation == other.generation

    def close(self) -> None:
        """Let go of the table; its rows stay where they are. Calling it twice does nothing."""
        self._is_closed, self._rows = True, None

    # ---- writing -------------------------------------------------------------------------------

    def put(
        self, ids: int | ArrayLike, rows: ArrayLike, version: int | ArrayLike | None = None
    ) -> int:
        """Write one row, or many at once.

        Args:
            ids: a row number, or a vector of them as in :meth:`put_many`.
            rows: the row, of :attr:`row_shape`; or those of the vector.
            version: version of the row; see :meth:`put_many`.

        Returns:
            Number of rows that were written: 0 if what is there is newer.

        Raises:
            OutOfRangeError: a row does not exist.
            InvalidArgumentError: the rows do not fit, or this handle cannot write.
        """
        if getattr(ids, "ndim", hasattr(ids, "__len__") and not isinstance(ids, str)):
            return self.put_many(ids, rows, version)
        number, row = as_integer(ids, "ids", bools=False), rows
        if not self._row_shape:
            row = [rows]  # type: ignore[assignment]
            return self.put_many([number], row, version)
        values, code = self._as_rows(row)
        if not -(2**63) <= number < 2**63:
            raise no_such_row(0, number, self._num_rows)
        if values.shape != self._row_shape:
            raise InvalidArgumentError(
                f"rows have shape {values.shape}, one id needs {self._row_shape}"
            )
        return self._put(np.array([number], np.int64), values[np.newaxis], code, version)

    def put_many(
        self, ids: ArrayLike, rows: ArrayLike, version: int | ArrayLike | None = None
    ) -> int:
        """Write rows in their order, so that the last one of an id stays.

        Nothing is written if an id, a shape or a version is wrong. Should the call end early, say
        by Ctrl-C, those written so far stay. Rows must not be changed meanwhile.

        Args:
            ids: integer vector [n] of row numbers.
            rows: array ``(n, *row_shape)``; floats are rounded to the table's float dtype, other
                changes of values are refused. bfloat16 also as uint16 bit patterns.
            version: for all rows, or a vector [n], integers from 0 to 2**63 - 1. A row is left out
                if the one that is there has a higher version. None: no row is left out, since
                whoever puts it now has the last word; it gets the present time in
                :attr:`version_unit`, or the version of the row that is there if that is later, say
                of a clock that is ahead; without a unit one more than that, up to the largest.

        Returns:
            Number of rows that were written.

        Raises:
            OutOfRangeError: a row does not exist; names the first one and its position.
            InvalidArgumentError: the rows do not fit, or this handle cannot write.
            FileChangedError: the file was made shorter, or its disk failed. The rows before
                ``position`` are written, unless they lie behind the file's end; of the others some
                may be, and one be left torn. No later put of this handle is taken.
            DiskFullError: the file has a hole, say of a copy that left zeros out, and the disk no
                room for it; the same holds, so make room and :meth:`open` the table again.
            TornRowError: one living process, such as a stopped one, has kept a row from others for
                seconds; the rows before ``position`` are written.
            WriterGoneError: the file was deleted or replaced since it was opened.
        """
        values, code = self._as_rows(rows)
        return self._put(as_ids(ids, "ids"), values, code, version)

    def _as_rows(self, rows: Any) -> tuple[NDArray[Any], int]:
        """Return rows as an array, and their dtype code."""
        if type(rows) is np.ndarray and rows.ndim and rows.dtype == self._dtype:
            return rows, self._code  # nothing to find out
        is_bits = self._code == native.BFLOAT16 and getattr(rows, "dtype", None) == np.uint16
        return as_rows(rows, "bfloat16" if is_bits else None, "rows")

    def _put(
        self, ids: NDArray[np.int64], rows: NDArray[Any], code: int, version: Any
    ) -> int:  # fmt: skip
        slots = self.native_slots()
        if rows.shape != (len(ids), *self._row_shape):
            raise InvalidArgumentError(
                f"rows have shape {rows.shape}, {len(ids)} ids need {(len(ids), *self._row_shape)}"
            )
        stored = self._stored(rows, code)
        versions = None if version is None else _as_versions(version, len(ids))
        try:
            return native.run_long(
                lambda task: slots.put(ids, stored, versions, task), None, stored.nbytes
            )
        except OutOfRangeError as error:
            raise name_row(error, self._num_rows) from None

    def _stored(self, rows: NDArray[Any], code: int) -> NDArray[Any]:
        """Return rows as they lie in the slots."""
        if code != self._code:
            name = native.DTYPE_NAMES
            if not can_save_as(code, self._code):
                if rows.dtype.kind in "iu" and self._dtype.kind in "iu":
                    return self._narrowed(rows)
                raise InvalidArgumentError(
                    f"rows of {name[code]} cannot be put into a table of {name[self._code]}: "
                    f".astype({name[self._code]!r})"
                )
            lost = first_lost(rows, code, self._code)
            if lost is not None:
                raise InvalidArgumentError(
                    f"rows[{lost[0]}] has {lost[1]}, which {name[self._code]} cannot hold",
                    position=lost[0],
                )
            rows = convert(rows, code, self._code)
        return _quantized(rows) if self.layout.is_scaled else np.ascontiguousarray(rows)

    def _narrowed(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return integers in the table's integer dtype, which must hold each of them."""
        with np.errstate(over="ignore"):
            narrowed = rows.astype(self._dtype)
        # Of another sign they may be equal modulo 2^64.
        wrong = (narrowed != rows) | ((narrowed < 0) != (rows < 0))
        if wrong.any():
            place = tuple(int(at) for at in np.argwhere(wrong)[0])
            raise InvalidArgumentError(
                f"rows[{', '.join(map(str, place))}] = {rows[place]}, which {self._dtype} cannot "
                "hold",
                position=place[0],
            )
        return narrowed

    # ---- reading -------------------------------------------------------------------------------

    def _gather(self, ids: NDArray[np.int64], out: NDArray[Any], code: int) -> None:
        slots = self.native_slots()
        native.run_long(lambda task: slots.gather(ids, out, code, task), None, out.nbytes)

    def versions(self, ids: ArrayLike) -> NDArray[np.int64]:
        """Return the version of each row [n]; -1: never written.

        Raises:
            OutOfRangeError: a row does not exist.
            TornRowError: a row's writer ended in the middle of it, or has had it in work for
                seconds.
            WriterGoneError: the file was deleted or replaced since it was opened.
        """
        return self.native_slots().versions(as_ids(ids, "ids"))

    def ages(self, ids: ArrayLike) -> NDArray[np.float64]:
        """Return the seconds from the version of each row until now [n]; inf: never written.

        The clock is the system's, so ages of rows that other machines date can be negative.

        Raises:
            UnsupportedError: the table's versions are no times.
            OutOfRangeError: a row does not exist.
            TornRowError: a row's writer ended in the middle of it, or has had it in work for
                seconds.
            WriterGoneError: the file was deleted or replaced since it was opened.
        """
        tick = self.layout.tick
        if not tick:
            raise UnsupportedError("versions of this table are counts (version_unit=None): no ages")
        versions = self.versions(ids)
        ages = (time.time_ns() // tick - versions) * (tick * 1e-9)
        return np.where(versions < 0, np.inf, ages)

    # ---- other processes -----------------------------------------------------------------------

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the place: the copy has the same rows, and sees their changes."""
        slots = self.native_slots()
        where: Any = slots.path
        if where is None:
            where = Owner.here(), OpenFile.of(slots.descriptor)
        return _reopen, (where, self.generation, slots.writable, self._missing, slots.check)

    def __repr__(self) -> str:
        if self._rows is None:
            return "LiveFeatureTable(closed)"
        stored = f" as {self.stored_dtype}" if self.scale else ""
        place = "" if self.path is None else f", path={self.path!r}"
        return f"LiveFeatureTable(shape={self.shape}, dtype={self.dtype_name}{stored}{place})"


def _reopen(
    where: Any, generation: str, writable: bool, missing: Missing, check: bool
) -> LiveFeatureTable:
    if isinstance(where, str):
        table = LiveFeatureTable.open(where, writable=writable, missing=missing, check=check)
    else:
        owner, file = where
        [descriptor] = open_descriptors(Owner(*owner), [file], "live feature table")
        try:
            table = LiveFeatureTable.attach(
                descriptor, writable=writable, missing=missing, check=check
            )
        finally:
            os.close(descriptor)
    if table.generation != generation:
        name = where if isinstance(where, str) else "the memory"
        raise FileChangedError(
            errno.ESTALE, f"{name} is another table than the one that was pickled", name
        )
    return table


def _as_shape(shape: Any) -> tuple[int, ...]:
    extents = shape if isinstance(shape, tuple) else (shape,)
    if len(extents) > native.MOST_DIMENSIONS:
        raise InvalidArgumentError(
            f"shape = {shown(shape)} has {len(extents)} dimensions, at most "
            f"{native.MOST_DIMENSIONS}"
        )
    return tuple(as_count(extent, "shape") for extent in extents)


def _check_missing(missing: Any, code: int) -> Any:
    as_choice(missing, native.MISSING, "missing")
    if missing == "nan" and native.DTYPE_NAMES[code][-7:-2] != "float":
        raise InvalidArgumentError(
            f"missing = 'nan': rows of {native.DTYPE_NAMES[code]} have no NaN; use 'zero' or "
            "'error'"
        )
    return missing


def _as_versions(version: Any, count: int) -> NDArray[np.int64]:
    if not getattr(version, "ndim", hasattr(version, "__len__") and not isinstance(version, str)):
        return np.full(count, as_count(version, "version"), np.int64)
    versions = as_ids(version, "version")
    if len(versions) != count:
        raise InvalidArgumentError(f"version has {len(versions)} values for {count} rows")
    return versions


def _quantized(rows: NDArray[Any]) -> NDArray[np.uint8]:
    """Return float32 rows as int8 behind a factor each, bytes ``[n, 4 + elements]``."""
    flat = rows.reshape(len(rows), math.prod(rows.shape[1:]))
    finite = np.isfinite(flat)
    if not finite.all():
        at = int(np.argmin(finite.all(1)))
        raise InvalidArgumentError(
            f"rows[{at}] is not finite: int8 with a scale has no infinity and no NaN", position=at
        )
    factors = np.abs(flat).max(1, initial=0).astype(np.float32) / np.float32(127)
    with np.errstate(divide="ignore", invalid="ignore"):
        numbers = np.where(factors[:, None] > 0, np.rint(flat / factors[:, None]), 0)
    out = np.empty((len(rows), 4 + flat.shape[1]), np.uint8)
    out[:, :4] = factors[:, None].view(np.uint8)
    out[:, 4:] = np.clip(numbers, -127, 127).astype(np.int8).view(np.uint8)
    return out
