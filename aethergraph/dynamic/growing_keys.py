"""Keys of the nodes of a live graph: strings or other ids from elsewhere, and the way back.

::

    base     an IdMap, a file: never written                   ids 0 .. base - 1
    added    in shared memory, in the order of the ids         ids base ..
    index    of what was added, KeyTiers; each process makes its own

Every node of a type with keys has one. A key is written before the commit that adds its node, so
whoever sees n nodes finds n keys, and passes by the others: of a commit to come, or of one that was
undone, which the next keys are written over.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph.dynamic.shared import Region, SharedArrays
from aethergraph.errors import LimitError, StorageError
from aethergraph.graph.beside import check_made_with, fingerprint_of
from aethergraph.graph.id_files import IdFiles, ids_path
from aethergraph.ids import IdMap, IdMapBuilder
from aethergraph.ids.columns import KeyColumns
from aethergraph.ids.tiers import KeyTiers, first_of_each
from aethergraph.storage.budget import Budget
from aethergraph.storage.other_process import OpenFile

__all__ = ["AddedKeys", "GrowingKeys", "saving_keys"]

Ids = NDArray[np.int64]
_U64 = np.dtype(np.uint64)
_U8 = np.dtype(np.uint8)
#: Room for the bytes of keys: so many for each, and at most.
_KEY_BYTES, _MOST_BYTES = 1024, 1 << 42
#: Keys that are handed to the builder of a file at once.
_AT_ONCE = 1 << 20


class AddedKeys(NamedTuple):
    """Result of :meth:`GrowingKeys.add`.

    Attributes:
        ids: id of each key that was given.
        new: the keys that are new, in the order of their ids, which are the last ones.
        first: place of each of these among the keys that were given.
    """

    ids: Ids
    new: native.KeyBlock
    first: NDArray[np.intp]


class GrowingKeys:
    """Keys of the nodes of one type; one thread of one process writes.

    Args:
        type: type of the keys, ``"str"``, ``"int64"``...
        room: most keys there can be; memory is taken for those that are written.
        base: keys of the first nodes; None: there are none.
        fd: descriptor of the memory of another process; None: make it.
    """

    def __init__(
        self, type: str, room: int, base: IdMap | None = None, fd: int | None = None
    ) -> None:
        self.columns, self.room, self.base = KeyColumns(type), room, base
        self.num_base = 0 if base is None else len(base)
        self._width = self.columns.width
        added = max(0, room - self.num_base)
        size = min(added * self._width if self._width else _KEY_BYTES * (added + 1024), _MOST_BYTES)
        offsets = 0 if self._width else added + 1
        self._room_bytes = size
        self._shared = SharedArrays([Region((offsets,), _U64), Region((size,), _U8)], fd)
        #: Id behind the last key that was written.
        self.end = self.num_base
        self.tiers = KeyTiers(self.num_base)

    @property
    def type(self) -> str:
        """Type of the keys."""
        return self.columns.types[0]

    @property
    def file(self) -> OpenFile:
        """File of the memory, for another process."""
        return self._shared.file

    # ---- reading -----------------------------------------------------------------------------

    def _offsets(self, count: int) -> NDArray[np.uint64]:
        """Return the first ``count`` places of added keys among the bytes, or more."""
        return self._shared.array(0, count)

    def _bytes(self, count: int) -> NDArray[np.uint8]:
        """Return the first ``count`` bytes of added keys, or more."""
        return self._shared.array(1, count)

    def _added(self, begin: int, end: int) -> native.KeyBlock:
        """Return the added keys ``begin .. end - 1``, counted without the base."""
        if self._width:
            data = self._bytes(end * self._width)[begin * self._width : end * self._width]
            return native.KeyBlock(data, None, self._width)
        offsets = self._offsets(end + 1)[begin : end + 1]
        first, last = offsets[0], int(offsets[-1])
        data = self._bytes(last)[int(first) : last]
        return native.KeyBlock(data, offsets - first if begin else offsets)

    def find(self, block: native.KeyBlock, hashes: NDArray[np.uint64], count: int) -> Ids:
        """Return the id of each key, -1 where none of the first ``count`` nodes has it."""
        ids = np.full(len(block), -1) if self.base is None else self.base.find(block, hashes)
        tiers = self._index(count)
        if tiers.end == self.num_base:
            return ids
        left = np.flatnonzero(ids < 0)
        if len(left) == len(ids):
            ids = tiers.find(block, hashes)
        elif len(left):
            ids[left] = tiers.find(block.take(left.astype(np.uint64)), hashes[left])
        ids[ids >= count] = -1
        return ids

    def _index(self, count: int) -> KeyTiers:
        """Return an index of the first ``count`` keys at least.

        Threads may make the same one at the same time, and one of them stays. A lock would do
        harm: a forked child's copy of it may be held for ever.
        """
        tiers = self.tiers
        if tiers.end < count:
            block = self._added(tiers.end - self.num_base, count - self.num_base)
            tiers = self.tiers = tiers.appended(block, native.hash_keys(block))
        return tiers

    def forget_index(self) -> None:
        """Forget the index of what was added; who asks next makes it anew."""
        self.tiers = KeyTiers(self.num_base)

    def block(self, ids: Ids) -> native.KeyBlock:
        """Return the keys of ids, which were checked."""
        places = ids - self.num_base
        of_base = places < 0
        if self.base is not None and of_base.all():
            return self.base.block(ids)
        end = int(places.max()) + 1 if len(places) else 0
        if not of_base.any():
            return self._added(0, end).take(places.astype(np.uint64))
        assert self.base is not None
        parts = [self.base.block(ids[of_base])]
        parts.append(self._added(0, end).take(places[~of_base].astype(np.uint64)))
        order = np.empty(len(ids), np.uint64)
        order[np.concatenate([np.flatnonzero(of_base), np.flatnonzero(~of_base)])] = np.arange(
            len(ids), dtype=np.uint64
        )
        return native.KeyBlock.joined(parts).take(order)

    # ---- writing -----------------------------------------------------------------------------

    def add(self, block: native.KeyBlock, count: int) -> AddedKeys:
        """Give ids from ``count`` on to the keys that no node has, and write these.

        ``tiers`` is to be what it was before if their nodes are not added after all.

        Raises:
            LimitError: there is no room for them.
        """
        hashes = native.hash_keys(block)
        ids = self.find(block, hashes, count)
        unknown = np.flatnonzero(ids < 0)
        if not len(unknown):
            return AddedKeys(ids, block.rows(0, 0), unknown)
        some, unknown_hashes = block.take(unknown.astype(np.uint64)), hashes[unknown]
        first = first_of_each(some, unknown_hashes)
        is_first = first == np.arange(len(first))
        (new,) = np.nonzero(is_first)
        ids[unknown] = count + (np.cumsum(is_first) - 1)[first]
        keys = some.take(new.astype(np.uint64))
        self.put(count, keys)
        self.tiers = self._index(count).appended(keys, unknown_hashes[new])
        return AddedKeys(ids, keys, unknown[new])

    def put(self, begin: int, block: native.KeyBlock) -> None:
        """Write the keys of nodes that no reader knows yet, from node ``begin`` on.

        Raises:
            LimitError: there is no room for them.
        """
        end, place = begin + len(block), begin - self.num_base
        if end > self.room:
            raise LimitError(f"key {end - 1} is above the last one there is room for: max_nodes")
        at = place * self._width if self._width else int(self._offsets(place + 1)[place])
        last = at + len(block.data)
        if last > self._room_bytes:
            raise LimitError(
                f"{last} bytes of keys are more than there is room for, {self._room_bytes}"
            )
        self._bytes(last)[at:last] = block.data
        if not self._width:
            assert block.offsets is not None
            ends = block.offsets[1:] - block.offsets[0] + np.uint64(at)
            offsets = self._offsets(place + 1 + len(block))
            offsets[place + 1 : place + 1 + len(block)] = ends
        self.end = end

    def save(
        self, path: str, count: int, memory: int | str, **facts: Any
    ) -> None:  # fmt: skip
        """Write the keys of the first ``count`` nodes into the file of an :class:`IdMap`.

        ``facts`` are ``of_graph`` or ``part_of`` of :class:`IdMapBuilder`.

        Raises:
            StorageError: it cannot be written.
        """
        budget = Budget.parse(memory, "memory")
        with IdMapBuilder(
            path, self.columns.types, budget.limit, f"{path}.building", **facts
        ) as builder:
            for begin in range(0, count, _AT_ONCE):
                builder.add_block(self.block(np.arange(begin, min(begin + _AT_ONCE, count))))
            builder.finish()


@contextmanager
def saving_keys(
    path: str, keys: Mapping[str, GrowingKeys], counts: Mapping[str, int], memory: int | str
) -> Iterator[dict[str, str]]:
    """Write keys beside a graph file, as ``convert`` does; the block writes the graph.

    They get their names when the block has ended. If it fails, what was there before is left.

    Args:
        path: path of the graph file.
        keys: keys by node type.
        counts: number of nodes by type.
        memory: as in :meth:`GrowingKeys.save`.

    Yields:
        Fingerprints of the files, for the graph file, which refuses those of another one.

    Raises:
        DiskFullError, StorageError: a file cannot be written, or one is there that was not made
            with the graph file that is replaced.
    """
    for name in keys:
        check_made_with(path, name, IdFiles.suffix)
    written = {ids_path(path, name): f"{ids_path(path, name)}.new" for name in keys}
    try:
        for (name, node_keys), file in zip(keys.items(), written.values(), strict=True):
            node_keys.save(file, counts[name], memory, of_graph=True)
        files = zip(keys, written.values(), strict=True)
        yield {f"{name}.ids": fingerprint_of(file) for name, file in files}
        for final, file in written.items():
            try:
                os.replace(file, final)
            except OSError as error:
                text = f"{final}: {error.strerror}"
                raise StorageError(error.errno or errno.EIO, text, final) from None
    finally:
        for file in written.values():
            with suppress(OSError):
                os.unlink(file)
