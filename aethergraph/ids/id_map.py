"""IdMap: the keys of a table and the ids of its rows, in one file, both ways."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_ids, describe_range
from aethergraph._checks.options import as_flag, as_iterator
from aethergraph.errors import (
    ClosedError,
    CorruptFileError,
    FormatError,
    InvalidArgumentError,
    OutOfRangeError,
    StorageError,
)
from aethergraph.ids.builder import IdMapBuilder
from aethergraph.ids.columns import KeyColumns
from aethergraph.storage.budget import Budget
from aethergraph.storage.meta import KeysMeta, SectionTable, check_fingerprint
from aethergraph.storage.opening import open_container

__all__ = ["IdMap"]

Ids = NDArray[np.int64]
_BUILD_BYTES = 1 << 30
_PIECE = 1 << 20


class IdMap:
    """Map from keys to ids 0 .. N-1 and back, mapped from its file.

    ::

        users = IdMap.build("user.ids", [["u17", "u4"], ["u9"]], "str")
        users.lookup(["u9", "u17"])                  # array([2, 0])
        users.lookup(["nobody"], missing="mark")     # array([-1])
        users.keys([1])                              # ['u4']

    Opening takes no time, whatever the number of keys; what is looked up is read from the page
    cache. Keys of several columns are given as columns: ``lookup((shop, number))``. A map may be
    shared by threads, and pickles by path: a file that was replaced meanwhile is refused.
    """

    path: str
    _file: native.NativeFile | None
    _table: SectionTable
    _meta: KeysMeta
    _columns: KeyColumns
    _guard: native.FileGuard
    _places: NDArray[Any]
    _keys: native.KeyBlock
    _index: native.KeyIndex

    def __init__(self, *_: Any, **__: Any) -> None:
        raise InvalidArgumentError("use IdMap.build(...) or IdMap.load(path)")

    @classmethod
    def load(cls, path: native.Path) -> IdMap:
        """Open the file of a map.

        Raises:
            MissingFileError, StorageError: it cannot be opened.
            FormatError, CorruptFileError: it is damaged, or of another kind.
        """
        self = cls.__new__(cls)
        file = open_container(path)
        self._table = SectionTable(file, native.CONTENT_KEYS)
        self._file = file
        self.path = file.path
        meta = self._table.meta.keys
        if meta is None:
            raise FormatError(f"{self.path}: its description (META) says nothing of keys")
        self._meta = meta
        self._columns = KeyColumns(meta.types)
        self._guard = file.guard()
        self._open()
        return self

    def _open(self) -> None:
        count, width = self._meta.count, self._columns.width
        hashes = self._section(native.SECTION_KEY_HASHES, count, ("uint64",), "key hashes")
        ids = self._section(native.SECTION_KEY_IDS, count, ("uint32", "uint64"), "key ids")
        buckets = self._section(native.SECTION_KEY_BUCKETS, None, ("uint64",), "key buckets")
        self._places = self._section(
            native.SECTION_KEY_PLACES, count, ("uint32", "uint64"), "key places"
        )
        size = count * width if width else None
        data = self._section(native.SECTION_KEY_BYTES, size, ("uint8",), "keys")
        offsets = None
        if not width:
            offsets = self._section(
                native.SECTION_KEY_OFFSETS, count + 1, ("uint64",), "key offsets"
            )
        number = len(buckets) - 1
        if number < 1 or number & (number - 1):
            raise CorruptFileError(f"{self.path}: {number} buckets of keys are not a power of two")
        self._keys = native.KeyBlock(data, offsets, width)
        self._index = native.KeyIndex(
            self._keys, hashes, buckets, ids, self._guard, by_bytes=self._meta.by_bytes
        )

    def _section(
        self, kind: int, length: int | None, dtypes: tuple[str, ...], noun: str
    ) -> NDArray[Any]:
        array = self._table.vector(kind, 0, length, dtypes, noun)
        if array is None:
            raise CorruptFileError(f"{self.path}: the file has no {noun}")
        return array

    @classmethod
    def build(
        cls,
        path: native.Path,
        chunks: Iterable[Any],
        types: str | tuple[str, ...],
        *,
        unique: bool = True,
        memory_budget: int | str | None = None,
        force: bool = False,
    ) -> IdMap:
        """Write the file of a map, and open it.

        Args:
            path: the file to write; work files are in a folder beside it.
            chunks: the keys, some at a time: lists, arrays or columns of Arrow, pandas or Polars;
                a key of several columns is given as that many columns.
            types: "int64", "uint64", "str", "bytes" or "uuid"; of several columns a tuple of these.
            unique: a key that comes twice is an error; else it keeps its first id.
            memory_budget: bytes, or a text such as "1G", for sorting; default: 1 GiB, or half of
                the memory if that is less. The file is the same.
            force: overwrite the file.

        Raises:
            DuplicateKeyError: a key came twice; names both.
            InvalidArgumentError: keys of another type, or a missing one; names the chunk.
            StorageError: the file exists (unless ``force``) or cannot be written, its work folder
                holds other files, or another process builds it.
        """
        name, _ = native.encode_path(path)
        if os.path.lexists(name) and not as_flag(force, "force"):
            raise StorageError(17, f"{name}: exists already; force=True overwrites it", name)
        budget = Budget.optional(memory_budget) or Budget.default(_BUILD_BYTES)
        unique = as_flag(unique, "unique")
        with IdMapBuilder(path, types, budget.limit, f"{name}.building") as builder:
            for number, keys in enumerate(as_iterator(chunks, "chunks", "columns of keys")):
                try:
                    builder.add(keys, unique=unique)
                except InvalidArgumentError as error:
                    if not error.args or error.position is None:
                        raise
                    error.args = (f"chunk {number}: {error.args[0]}", *error.args[1:])
                    raise
            builder.finish()
        return cls.load(path)

    # ---- what it holds -----------------------------------------------------------------

    def __len__(self) -> int:
        return self._meta.count

    @property
    def columns(self) -> KeyColumns:
        """Types of a key, which make bytes of keys for :meth:`find`."""
        return self._columns

    @property
    def types(self) -> tuple[str, ...]:
        """Types of the columns of a key: ``("str",)``, ``("int64", "uuid")``."""
        return self._columns.types

    def _check_open(self) -> None:
        if self._file is None:
            raise ClosedError(f"{self.path}: the map of ids was closed")

    def lookup(self, keys: Any, *, missing: Literal["raise", "mark"] = "raise") -> Ids:
        """Return the id of each key, int64.

        Args:
            keys: a list, an array or a column of Arrow, pandas or Polars; of keys of several
                columns as many of these.
            missing: "raise": a key that the map does not have is an error; "mark": its id is -1.

        Raises:
            OutOfRangeError: a key is not in the map; names the first one and its position.
            InvalidArgumentError: keys of another type, or a missing value; names the position.
        """
        self._check_open()
        return self._columns.look_up(keys, self.find, missing, f"{self.path} has no key")

    def find(self, block: native.KeyBlock, hashes: NDArray[np.uint64] | None = None) -> Ids:
        """Return the id of each key that was encoded before; -1 where the map does not have it.

        Args:
            block: the keys.
            hashes: hash of each key, if it is known already.
        """
        self._check_open()
        ids = native.run_long(
            lambda task: self._index.find(block, task, hashes),
            None, block.nbytes + 32 * len(block),
        )  # fmt: skip
        if self._meta.first_id:
            ids[ids >= 0] += self._meta.first_id
        return ids

    def keys(self, ids: ArrayLike) -> Any:
        """Return the key of each id: an array of integers, or a list; several columns as a tuple.

        Raises:
            OutOfRangeError: an id is not in the map; names it and its position.
        """
        return self._columns.decode(self.block(ids))

    def block(self, ids: ArrayLike) -> native.KeyBlock:
        """Return the key of each id as bytes; see :meth:`keys`."""
        self._check_open()
        numbers = as_ids(ids, "ids") - self._meta.first_id
        if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < len(self):
            at = int(((numbers < 0) | (numbers >= len(self))).argmax())
            value = int(numbers[at]) + self._meta.first_id
            raise OutOfRangeError(
                f"ids[{at}] = {value} is {describe_range(len(self))}", position=at, value=value
            )
        with native.reading(self._guard):
            places = self._places[numbers].astype(np.uint64)
            if len(places) and int(places.max()) >= len(self):
                raise CorruptFileError(f"{self.path}: a key has a place that does not exist")
            return self._keys.take(places, self._guard)

    # ---- the file ----------------------------------------------------------------------

    def verify(self, progress: native.Progress | None = None) -> None:
        """Read the whole file, compare all checksums, and check that keys and ids agree.

        Raises:
            CorruptFileError: the file is damaged.
        """
        self._check_open()
        file = self._file
        assert file is not None
        native.run_long(file.verify, progress, file.size)
        for begin in range(0, len(self), _PIECE):
            ids = np.arange(begin, min(begin + _PIECE, len(self)))
            with native.reading(self._guard):
                places = self._places[ids].astype(np.uint64)
                if int(places.max()) >= len(self):
                    raise CorruptFileError(f"{self.path}: a key has a place that does not exist")
                ids_of_keys = self._index.find(self._keys.take(places, self._guard))
            if not np.array_equal(ids_of_keys, ids):
                at = int((ids_of_keys != ids).argmax())
                raise CorruptFileError(
                    f"{self.path}: the key of id {ids[at]} is found as {ids_of_keys[at]}"
                )

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> IdMap:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        self._check_open()
        return _reopen, (self.path, self._table.fingerprint())

    def __repr__(self) -> str:
        return f"IdMap({self.path!r}, {len(self):,} keys of type {self._columns})"


def _reopen(path: str, fingerprint: str) -> IdMap:
    id_map = IdMap.load(path)
    check_fingerprint(path, fingerprint, id_map._table.fingerprint())
    return id_map
