"""In which order the work of a layer is done: what each order reads, and the one that reads less.

::

    batches   nodes in order, with the rows of all their neighbours, through a cache
    lists     the same nodes; neighbours' rows are in memory, and combined where they are
    blocks    as many nodes as there is room for, and the rows of the file from first to last

What batches read is counted with the ids of a part of all rows, chosen by a hash of their id, and a
cache of that part of its size (Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST
2015). Lists of all nodes are read for it, once: little beside the rows of their neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph._native import FileRows, RowStats
from aethergraph.features.feature_table import FeatureTable
from aethergraph.inference.aggregation import native_rows
from aethergraph.inference.batches import Range
from aethergraph.protocols import RowSource
from aethergraph.storage.memory import available_memory, format_size

__all__ = [
    "BATCHES",
    "BLOCKS",
    "LISTS",
    "LayerPlan",
    "Plan",
    "bytes_of_batches",
    "orders_of",
    "read_speed",
]

BATCHES, LISTS, BLOCKS = "batches", "lists", "blocks"

Ids = NDArray[np.int64]
#: Rows that are followed, about, of a layer with more.
_FOLLOWED = 1 << 17
#: Batches whose rows are read to see what one costs that the cache has not.
_FETCHED = 32
#: Bytes that are read to see how fast that goes, and what is taken where there is no file.
_READ, _MEMORY_SPEED = 8 << 20, 4e9
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class LayerPlan(NamedTuple):
    """How a layer will be computed.

    Attributes:
        name: name of the layer.
        order: ``"batches"``, ``"lists"`` or ``"blocks"``.
        parts: number of batches, or of blocks.
        bytes_read: bytes of rows that are read from files.
        seconds: time that it takes, about.
        instead: bytes that the other order reads which was looked at; None: there is none.
    """

    name: str
    order: str
    parts: int
    bytes_read: int
    seconds: float
    instead: int | None


class Plan(list[LayerPlan]):
    """How all layers will be computed, one after the other; its text is a table."""

    def __str__(self) -> str:
        rows = [("layer", "order", "reads", "seconds", "")]
        for number, layer in enumerate(self, 1):
            unit = "blocks" if layer.order == BLOCKS else "batches"
            order = f"{layer.parts:,} {unit}" + ", by lists" * (layer.order == LISTS)
            name = BATCHES if layer.order == BLOCKS else BLOCKS
            more = "" if layer.instead is None else f"{name}: {format_size(layer.instead)}"
            text = f"{number} {layer.name}", order, format_size(layer.bytes_read)
            rows.append((*text, f"{layer.seconds:.3g}", more))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        return "\n".join(lines)


def orders_of(rows: RowSource, can_combine: bool) -> list[str]:
    """Return the orders that a layer can be done in, those first that are taken if they read less.

    Args:
        rows: what it reads.
        can_combine: the rows of neighbours may be combined ahead of the layer.
    """
    if not can_combine:
        return [BATCHES]
    if native_rows(rows) is not None:
        return [LISTS] if rows.is_in_memory or rows.nbytes <= available_memory() else [BATCHES]
    return [BLOCKS, BATCHES] if _is_read(rows) else [BATCHES]


def _is_read(rows: RowSource) -> bool:
    """Return whether rows are read from a file, through a cache that counts what it reads."""
    return isinstance(rows, FeatureTable) and isinstance(rows.native_rows(), FileRows)


def bytes_of_batches(
    rows: RowSource, ranges: Sequence[Range], ids_of: Callable[[Range], Ids],
    fetch: Callable[[Sequence[Range]], None],
) -> int:  # fmt: skip
    """Return the bytes of rows that batches read, about.

    Args:
        rows: what they read.
        ranges: their nodes.
        ids_of: returns the rows that a range needs.
        fetch: reads the rows of some ranges, as the batches of all will be.
    """
    if rows.is_in_memory:
        return 0
    row_bytes, frame_rows, room = rows.nbytes // max(1, rows.num_rows), 1, 0
    if is_read := _is_read(rows):
        stats = _stats(rows)
        frame_rows, room = stats.frame_rows, stats.frames
    elif native_rows(rows) is not None:
        if rows.nbytes <= (memory := available_memory()):
            return rows.nbytes
        row_bytes = max(row_bytes, 4096)  # pages
        room = memory // row_bytes
    frames = -(-rows.num_rows // frame_rows)
    followed = _followed(frames)
    share = max(len(followed), 1) / max(1, frames)

    def followed_of(part: Range) -> Ids:
        ids = ids_of(part) // frame_rows
        return np.searchsorted(followed, np.unique(ids[_is_followed(ids, frames)]))

    def missed(parts: Iterable[Range]) -> float:
        return count_missed(map(followed_of, parts), len(followed), int(room * share)) / share

    if not is_read:
        return int(missed(ranges) * row_bytes)
    # What a missing row costs depends on which are read together, and on what else the cache does.
    some = ranges[(len(ranges) - _FETCHED) // 2 :][:_FETCHED] if len(ranges) > _FETCHED else ranges
    before = _stats(rows).device_bytes
    fetch(some)
    return int(missed(ranges) * (_stats(rows).device_bytes - before) / max(missed(some), 1))


def _stats(rows: RowSource) -> RowStats:
    assert isinstance(rows, FeatureTable)
    return rows.stats()


def _is_followed(ids: Ids, count: int) -> NDArray[np.bool_]:
    """Return which ids, below ``count``, are of those that stand for all."""
    if count <= _FOLLOWED:
        return np.ones(len(ids), np.bool_)
    hashes = ids.astype(np.uint64) * _SPREAD
    hashes ^= hashes >> np.uint64(29)
    hashes *= _SPREAD
    return hashes < np.uint64(int(_FOLLOWED / count * 2**64))


def _followed(count: int) -> Ids:
    """Return the ids below ``count`` that stand for all, ascending."""
    parts = [np.empty(0, np.int64)]
    for start in range(0, count, _FOLLOWED):
        ids = np.arange(start, min(start + _FOLLOWED, count))
        parts.append(ids[_is_followed(ids, count)])
    return np.concatenate(parts)


def count_missed(lists: Iterable[Ids], count: int, room: int) -> float:
    """Return how many numbers of lists a cache has not, about.

    It is taken to be in the middle between a cache of those used last and one of those used most.

    Args:
        lists: numbers below ``count``, each once in a list.
        count: end of the numbers.
        room: numbers that the cache holds.
    """
    last, uses = np.full(count, -1, np.int64), np.zeros(count, np.int64)
    sizes = list[int]()  # numbers by the list that used them last
    oldest = total = missed = 0
    for turn, ids in enumerate(lists):
        before = last[ids]
        is_kept = before >= oldest
        missed += len(ids) - int(np.count_nonzero(is_kept))
        turns, counts = np.unique(before[is_kept], return_counts=True)
        for at, number in zip(turns.tolist(), counts.tolist(), strict=True):
            sizes[at] -= number
        total += len(ids) - int(counts.sum())
        sizes.append(len(ids))
        last[ids] = turn
        uses[ids] += 1
        while total > room:
            total -= sizes[oldest]
            oldest += 1
    again = np.sort(np.maximum(uses - 1, 0))[::-1]
    return (missed + min(missed, int(uses.sum() - again[:room].sum()))) / 2


def read_speed(rows: RowSource) -> float:
    """Return the bytes in a second that rows are read at, of a few that follow each other."""
    if rows.is_in_memory or not rows.num_rows:
        return _MEMORY_SPEED
    count = max(1, min(rows.num_rows, _READ // max(1, rows.nbytes // rows.num_rows)))
    start = (rows.num_rows - count) // 2
    began = perf_counter()
    part = np.array(rows.read(start, start + count))  # a view of mapped ones is none yet
    return max(part.nbytes / max(perf_counter() - began, 1e-9), 1.0)
