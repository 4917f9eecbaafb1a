"""Chunks of edges that a program makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph._checks.arrays import (
    as_float_values,
    as_ids,
    check_weights,
    describe_range,
    to_array,
)
from aethergraph._checks.times import as_times
from aethergraph.convert.readers.edges import EdgeChunk, Position
from aethergraph.errors import AetherError, InvalidArgumentError, OutOfRangeError

__all__ = ["ChunkSource", "Chunks"]

#: (src, dst), or (src, dst, {"weight": ..., "time": ..., name of an attribute: rows}).
Chunks: TypeAlias = Iterable[
    EdgeChunk | tuple[ArrayLike, ArrayLike] | tuple[ArrayLike, ArrayLike, Mapping[str, ArrayLike]]
]
_ROWS = 1 << 18


class ChunkSource:
    """Source of edges that checks chunks and cuts large ones into pieces.

    All chunks must have the values, dtypes and shapes of the first one.

    Raises:
        InvalidArgumentError, OutOfRangeError: a bad chunk; names its number (from 0) and the row.
    """

    def __init__(self, chunks: Chunks, num_nodes: int | None) -> None:
        self._chunks = chunks
        self._limit = num_nodes
        self._first: list[tuple[str, Any, Any]] | None = None
        self.num_nodes = 0

    def chunks(self, start: Position) -> Iterator[tuple[Position, EdgeChunk]]:
        """Yield the pieces and the position where each ends; ``start`` must be (0, 0)."""
        if start != (0, 0):
            raise InvalidArgumentError("chunks cannot be read again from the middle")
        for number, item in enumerate(self._chunks):
            try:
                chunk = self._checked(item)
            except AetherError as error:
                error.args = (f"chunk {number}: {error.args[0]}", *error.args[1:])
                raise
            for begin in range(0, len(chunk.src), _ROWS):
                rows = slice(begin, begin + _ROWS)
                piece = EdgeChunk(
                    chunk.src[rows],
                    chunk.dst[rows],
                    None if chunk.weight is None else chunk.weight[rows],
                    None if chunk.time is None else chunk.time[rows],
                    {name: array[rows] for name, array in chunk.attrs.items()},
                )
                yield (number, begin // _ROWS + 1), piece

    def _checked(self, item: Any) -> EdgeChunk:
        if isinstance(item, EdgeChunk):
            named: dict[str, Any] = {"weight": item.weight, "time": item.time, **item.attrs}
            item = (item.src, item.dst, {k: v for k, v in named.items() if v is not None})
        if not isinstance(item, tuple | list) or len(item) not in (2, 3):
            raise InvalidArgumentError(
                "a chunk of edges is (src, dst) or (src, dst, {name: values}), got "
                f"{type(item).__name__}"
            )
        src, dst = self._ids(item[0], "src"), self._ids(item[1], "dst")
        if len(src) != len(dst):
            raise InvalidArgumentError(f"src has {len(src)} ids, but dst has {len(dst)}")
        values = dict(item[2]) if len(item) == 3 else {}
        chunk = _with_values(src, dst, values)
        kinds = _kinds(chunk)
        if self._first is None:
            self._first = kinds
        elif kinds != self._first:
            raise InvalidArgumentError(
                f"has the values {_named(kinds)}, but the first chunk has {_named(self._first)}"
            )
        return chunk

    def _ids(self, values: Any, name: str) -> NDArray[np.int64]:
        ids = as_ids(values, name)
        limit = 2**63 - 1 if self._limit is None else self._limit
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < limit:
            at = int(((ids < 0) | (ids >= limit)).argmax())
            raise OutOfRangeError(
                f"{name}[{at}] = {ids[at]} is {describe_range(limit)}",
                position=at,
                value=int(ids[at]),
            )
        return ids


def _with_values(src: Any, dst: Any, values: dict[str, Any]) -> EdgeChunk:
    weight, time = values.pop("weight", None), values.pop("time", None)
    if weight is not None:
        weight = as_float_values(weight, len(src), "weight", "edges")
        check_weights(weight, "weight")
    if time is not None:
        numbers, unit = as_times(time, len(src), "time", "edges")
        time = numbers if unit is None else numbers.view(f"datetime64[{unit}]")
    attrs = {}
    for name, rows in values.items():
        array = np.ascontiguousarray(to_array(rows, str(name)))
        if array.ndim == 0 or len(array) != len(src) or array.dtype.kind not in "buif":
            raise InvalidArgumentError(
                f"{name} must have a row of numbers for each of {len(src)} edges, got shape "
                f"{array.shape} of {array.dtype}"
            )
        attrs[str(name)] = array.astype(array.dtype.newbyteorder("="), copy=False)
    return EdgeChunk(src, dst, weight, time, attrs)


def _kinds(chunk: EdgeChunk) -> list[tuple[str, Any, Any]]:
    named = {"weight": chunk.weight, "time": chunk.time, **chunk.attrs}
    return [(k, v.dtype, v.shape[1:]) for k, v in named.items() if v is not None]


def _named(kinds: list[tuple[str, Any, Any]]) -> str:
    return ", ".join(f"{name} ({dtype}{shape or ''})" for name, dtype, shape in kinds) or "none"
