"""Keys of any length: hashes, equal ones, and a map from them to ids (``native/src/keys``)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph._native.core import Ids, ffi, lib, new_error, raise_error
from aethergraph._native.files import FileGuard
from aethergraph._native.guards import begin_read, end_read
from aethergraph._native.memory import address_of
from aethergraph._native.tasks import Task, lend
from aethergraph.errors import CorruptFileError

Hashes = NDArray[np.uint64]


class KeyBlock:
    """Keys one after the other, each as bytes.

    Attributes:
        data: the bytes, uint8.
        offsets: where each key begins, uint64 [n + 1]; None if all have ``width`` bytes.
        width: bytes of each key; 0 with ``offsets``.
    """

    __slots__ = ("data", "offsets", "width")

    def __init__(
        self, data: NDArray[np.uint8], offsets: NDArray[np.uint64] | None, width: int = 0
    ) -> None:
        self.data = data
        self.offsets = offsets
        self.width = width

    def __len__(self) -> int:
        return len(self.data) // self.width if self.offsets is None else len(self.offsets) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of keys and offsets."""
        return self.data.nbytes + (0 if self.offsets is None else self.offsets.nbytes)

    def fill(self, keys: Any) -> None:
        """Fill an ``aether_keys``, which lends the arrays of this block."""
        keys.bytes = ffi.cast("void *", address_of(self.data)) if self.data.size else ffi.NULL
        keys.size = self.data.nbytes
        keys.n = len(self)
        keys.width = self.width
        keys.offsets = ffi.NULL
        if self.offsets is not None:
            keys.offsets = ffi.cast("uint64_t *", address_of(self.offsets))

    def lent(self) -> Any:
        """Return a new ``aether_keys *`` of this block."""
        keys = ffi.new("aether_keys *")
        self.fill(keys)
        return keys

    def take(self, places: NDArray[np.uint64], guard: FileGuard | None = None) -> KeyBlock:
        """Return the keys at some places, copied.

        Raises:
            CorruptFileError: offsets are not within the keys.
            OutOfRangeError: there is no such place.
        """
        places = np.ascontiguousarray(places, np.uint64)
        offsets = None
        if self.offsets is None:
            size = len(places) * self.width
        else:
            begin_read(guard)
            begins, ends = self.offsets[places], self.offsets[places + np.uint64(1)]
            if ((begins > ends) | (ends > self.data.nbytes)).any():
                raise CorruptFileError("the offsets of keys are not within the keys")
            offsets = np.zeros(len(places) + 1, np.uint64)
            np.cumsum(ends - begins, out=offsets[1:])
            size = int(offsets[-1])
        out = np.empty(size, np.uint8)
        err = new_error()
        begin_read(guard)
        code = lib.aether_keys_gather(
            self.lent(),
            ffi.from_buffer("uint64_t[]", places),
            len(places),
            ffi.NULL if offsets is None else ffi.from_buffer("uint64_t[]", offsets),
            ffi.from_buffer(out),
            size,
            err,
        )
        end_read(code, err, guard)
        return KeyBlock(out, offsets, self.width)

    def rows(self, begin: int, end: int) -> KeyBlock:
        """Return keys ``begin .. end - 1``; their bytes are shared."""
        if self.offsets is None:
            return KeyBlock(self.data[begin * self.width : end * self.width], None, self.width)
        offsets = self.offsets[begin : end + 1]
        first = offsets[0]
        return KeyBlock(self.data[int(first) : int(offsets[-1])], offsets - first)

    @staticmethod
    def joined(blocks: list[KeyBlock]) -> KeyBlock:
        """Return the keys of several blocks, which are of one kind, one after the other."""
        if len(blocks) == 1:
            return blocks[0]
        data = np.concatenate([block.data for block in blocks])
        if blocks[0].offsets is None:
            return KeyBlock(data, None, blocks[0].width)
        pieces, base = [np.zeros(1, np.uint64)], np.uint64(0)
        for block in blocks:
            assert block.offsets is not None
            pieces.append(block.offsets[1:] + (base - block.offsets[0]))
            base = pieces[-1][-1] if len(block) else base
        return KeyBlock(data, np.concatenate(pieces))


def hash_keys(keys: KeyBlock) -> Hashes:
    """Return the XXH3-64 of each key.

    Raises:
        CorruptFileError: offsets are not within the keys.
    """
    hashes = np.empty(len(keys), np.uint64)
    err = new_error()
    code = lib.aether_keys_hash(keys.lent(), ffi.from_buffer("uint64_t[]", hashes), err)
    if code:
        raise_error(code, err)
    return hashes


def key_order(keys: KeyBlock, hashes: Hashes, *, stable: bool) -> tuple[Hashes, Hashes]:
    """Return the places of keys by hash, and these hashes.

    Keys of one hash are by their bytes, as ``aether_keys_order`` says, and equal ones by place.

    Args:
        keys: the keys.
        hashes: hash of each.
        stable: equal hashes are expected: sort in a way that is faster then.
    """
    by_hash = np.argsort(hashes, kind="stable" if stable else None)
    order, ascending = by_hash.astype(np.uint64), hashes[by_hash]
    err = new_error()
    code = lib.aether_keys_order(
        keys.lent(),
        ffi.from_buffer("uint64_t[]", ascending),
        ffi.from_buffer("uint64_t[]", order),
        err,
    )
    if code:
        raise_error(code, err)
    return order, ascending


def first_keys(keys: KeyBlock, hashes: Hashes) -> Hashes:
    """Return the first position of a key equal to each key.

    Args:
        keys: the keys, in the order of :func:`key_order`.
        hashes: hash of each.
    """
    first = np.empty(len(keys), np.uint64)
    err = new_error()
    code = lib.aether_keys_first(
        keys.lent(),
        ffi.from_buffer("uint64_t[]", hashes),
        ffi.from_buffer("uint64_t[]", first),
        err,
    )
    if code:
        raise_error(code, err)
    return first


class KeyIndex:
    """Map from keys to ids over arrays of a file, by position in ascending order of hashes.

    Keeps the arrays, and with them the mapping, alive.

    Args:
        keys: the keys.
        hashes: hash of each.
        buckets: first position by the upper bits of a hash.
        ids: id of each key.
        guard: of the file.
        by_bytes: keys are in the order of :func:`key_order`; else those of one hash in any.
    """

    __slots__ = ("_arrays", "_guard", "_keys", "_map")

    def __init__(
        self, keys: KeyBlock, hashes: Hashes, buckets: Hashes, ids: NDArray[Any],
        guard: FileGuard | None, *, by_bytes: bool,
    ) -> None:  # fmt: skip
        self._keys = keys
        self._arrays = (hashes, buckets, ids)
        self._guard = guard
        self._map = ffi.new("aether_key_map *")
        keys.fill(ffi.addressof(self._map, "keys"))
        self._map.hashes = ffi.cast("uint64_t *", address_of(hashes))
        self._map.directory = ffi.cast("uint64_t *", address_of(buckets))
        self._map.ids = ffi.cast("void *", address_of(ids))
        self._map.bits = (len(buckets) - 1).bit_length() - 1
        self._map.id_bytes = ids.dtype.itemsize
        self._map.by_bytes = by_bytes

    def find(
        self, queries: KeyBlock, task: Task | None = None, hashes: Hashes | None = None
    ) -> Ids:
        """Return the id of each query, -1 where the map does not have it.

        Args:
            queries: the keys.
            task: what the work is part of.
            hashes: hash of each key, if it is known already.

        Raises:
            CorruptFileError: the map contradicts itself.
        """
        if hashes is None:
            hashes = hash_keys(queries)
        out = np.empty(len(queries), np.int64)
        err = new_error()
        begin_read(self._guard)
        code = lib.aether_keys_find(
            self._map,
            queries.lent(),
            ffi.from_buffer("uint64_t[]", hashes),
            ffi.from_buffer("int64_t[]", out),
            lend(task, out.nbytes),
            err,
        )
        end_read(code, err, self._guard)
        return out
