"""Requests for samples: seeds, their times and a key, as bytes.

::

    u64 key | u32 kind of the times (0, 1 int64, 2 float64) | u32 node types n | u64 counts[n]
    i64 seeds[of each type] | times, if there are
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph._checks.arrays import as_ids, as_integer
from aethergraph._checks.options import as_items, shown
from aethergraph._checks.times import as_seed_times
from aethergraph.errors import InvalidArgumentError, LimitError
from aethergraph.remote import wire
from aethergraph.remote.samples.form import Form

__all__ = ["MAX_SEEDS", "Request", "make_request"]

_HEAD = struct.Struct("<QII")
_TIMES = {None: 0, "int64": 1, "float64": 2}
_DTYPES = (None, "<i8", "<f8")
#: Most seeds of a request.
MAX_SEEDS = 1024


class Request(NamedTuple):
    """Request for a sample.

    Attributes:
        key: the key to draw with.
        seeds: int64 vectors, one by node type.
        times: times of the seeds, by node type; None: there are none.
    """

    key: int
    seeds: tuple[NDArray[np.int64], ...]
    times: tuple[NDArray[Any], ...] | None

    def pack(self) -> bytes:
        """Return the bytes."""
        counts = np.array([len(ids) for ids in self.seeds], "<u8")
        kind = 0 if self.times is None else _TIMES[self.times[0].dtype.name]
        head = _HEAD.pack(self.key, kind, len(self.seeds))
        return b"".join((head, counts.tobytes(), *(a.tobytes() for a in self._arrays())))

    def _arrays(self) -> tuple[NDArray[Any], ...]:
        return self.seeds if self.times is None else (*self.seeds, *self.times)

    @classmethod
    def unpack(cls, body: memoryview, form: Form) -> Request:
        """Return the request in a frame, as a copy.

        Raises:
            WireError: it is none, or not for this form.
            LimitError: it has too many seeds.
        """
        types = len(form.node_types)
        begin = _HEAD.size + 8 * types
        if len(body) < begin:
            raise wire.WireError("a request for a sample of another length")
        key, kind, num_types = _HEAD.unpack_from(body)
        if num_types != types or kind not in (0, _TIMES[form.times]):
            raise wire.WireError("a request for a sample of another graph")
        counts = np.frombuffer(body, "<u8", types, _HEAD.size).tolist()
        total = sum(counts)
        if total > MAX_SEEDS:
            raise LimitError(f"{total} seeds: a request has {MAX_SEEDS} at most")
        if len(body) != begin + 8 * total * (2 if kind else 1):
            raise wire.WireError("a request for a sample of another length")
        seeds = np.frombuffer(body, "<i8", total, begin).astype(np.int64)
        times: tuple[NDArray[Any], ...] | None = None
        if kind:
            packed_times = np.frombuffer(body, _DTYPES[kind], total, begin + 8 * total)
            times = _by_count(packed_times.astype(packed_times.dtype.newbyteorder("=")), counts)
        return cls(key, _by_count(seeds, counts), times)

    def arguments(self, form: Form) -> tuple[Any, int, Any]:
        """Return seeds, key and times as samplers take them."""
        if form.typed:
            seeds: Any = dict(zip(form.node_types, self.seeds, strict=True))
            times: Any = None
            if self.times is not None:
                times = dict(zip(form.node_types, self.times, strict=True))
            return seeds, self.key, times
        return self.seeds[0], self.key, None if self.times is None else self.times[0]


def _by_count(values: NDArray[Any], counts: list[int]) -> tuple[NDArray[Any], ...]:
    """Return the values of each node type, of which there are so many."""
    if len(counts) == 1:
        return (values,)
    return tuple(np.split(values, np.cumsum(counts)[:-1]))


def make_request(
    form: Form, seeds: ArrayLike | Mapping[str, ArrayLike], time: Any, key: int
) -> Request:
    """Return the request for a user's arguments, which are checked.

    Raises:
        InvalidArgumentError: seeds or times are of a wrong kind, type or length.
        LimitError: too many seeds.
    """
    ids = [as_ids(values, name) for values, name in _by_type(form, seeds, "seeds")]
    total = sum(map(len, ids))
    if total > MAX_SEEDS:
        raise LimitError(f"seeds: {total} are more than a request has, {MAX_SEEDS}: split them")
    times = None
    if time is not None:
        if form.times is None:
            raise InvalidArgumentError("time needs a server whose plan has time_attr")
        dtype = np.dtype(form.times)
        vectors = _by_type(form, time, "time")
        times = tuple(
            as_seed_times(values, len(type_seeds), name, form.time_unit, dtype)
            for (values, name), type_seeds in zip(vectors, ids, strict=True)
        )
    return Request(as_integer(key, "key") & (1 << 64) - 1, tuple(ids), times)


def _by_type(form: Form, values: Any, name: str) -> Sequence[tuple[Any, str]]:
    """Return the values of each node type, and their name in messages."""
    if not form.typed:
        if isinstance(values, Mapping):
            raise InvalidArgumentError(
                f"{name} is by node type, but the graph has one: give a vector"
            )
        return [(values, name)]
    known = dict(as_items(values, name, "vectors"))
    for kind in known:
        if kind not in form.node_types:
            raise InvalidArgumentError(
                f"{name}: {shown(kind)} is no node type; there are: {', '.join(form.node_types)}"
            )
    return [(known.get(kind, ()), f"{name}[{kind!r}]") for kind in form.node_types]
