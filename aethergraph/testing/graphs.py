"""Deterministic graphs for demonstrations, tests and benchmarks.

Every generator is addressed by position: edge i and feature row v depend only on the seed and on i
or v. So the result is equal for any number of threads and any chunk size, on every platform
(integer hashing, IEEE square roots and products only), and chunks can be made anywhere.

* :class:`CommunityGraph`: a stochastic block model with power-law popularity inside each block,
  labels and noisy features. One node's features hardly tell its label; its neighbours' together do.
* :class:`RmatGraph`: the recursive matrix model of Chakrabarti, Zhan and Faloutsos (SDM 2004), with
  the Graph500 parameters by default.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count, as_integer
from aethergraph._checks.options import as_flag, as_number, as_share
from aethergraph._parallel.prefetch import PrefetchIterator, prefetch_map
from aethergraph.convert.arguments import as_file, as_threads
from aethergraph.convert.outputs import NpyWriter
from aethergraph.convert.readers.base import PathLike, ProgressFn
from aethergraph.errors import InvalidArgumentError

__all__ = ["CommunityGraph", "RmatGraph"]

Ids: TypeAlias = npt.NDArray[np.int64]
Bits: TypeAlias = npt.NDArray[np.uint64]
T = TypeVar("T")

CHUNK_EDGES = 1 << 18
CHUNK_ROWS = 1 << 15

_MOST_NODES = 1 << 40

_GAMMA = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


class _Edges:
    """Chunked generation, shared by the generators; a subclass defines :meth:`edge_chunk`."""

    num_edges: int

    def edge_chunk(self, start: int, stop: int) -> tuple[Ids, Ids]:
        """Return sources and destinations of edges ``start`` to ``stop``, int64 each."""
        raise NotImplementedError

    def iter_edges(
        self, *, threads: int | None = None, progress: ProgressFn | None = None
    ) -> Iterator[tuple[Ids, Ids]]:
        """Yield all edges in chunks of 262,144, in constant memory; ``progress`` counts edges."""
        ranges = list(_ranges(self.num_edges, CHUNK_EDGES))
        with _in_order(self.edge_chunk, ranges, threads) as chunks:
            for (_, stop), chunk in zip(ranges, chunks, strict=True):
                if progress is not None:
                    progress(stop, self.num_edges)
                yield chunk

    def edges(
        self, *, threads: int | None = None, progress: ProgressFn | None = None
    ) -> tuple[Ids, Ids]:
        """Return all edges: (src, dst), int64 [num_edges] each; ``progress`` counts edges."""
        src = np.empty(self.num_edges, np.int64)
        dst = np.empty(self.num_edges, np.int64)
        done = 0
        for some_src, some_dst in self.iter_edges(threads=threads, progress=progress):
            src[done : done + some_src.size] = some_src
            dst[done : done + some_src.size] = some_dst
            done += some_src.size
        return src, dst


@dataclass(frozen=True)
class CommunityGraph(_Edges):
    """Graph of communities with labels that only neighbourhoods reveal.

    The label of a node is its community. Half of the edges give every node the same number of
    in-edges, the other half go to popular nodes. A source is in the destination's community with
    probability ``homophily`` (else in any), and popular inside it: the node of rank r is drawn with
    density r^(-0.6), which makes degrees follow a power law with exponent about 2.7.

    Attributes:
        num_nodes: number of nodes; communities differ by at most one node.
        num_edges: number of edges.
        num_classes: number of communities.
        num_features: number of features per node.
        homophily: probability in 0..1.
        signal: length of the class mean, in standard deviations of the noise of one feature.
        seed: seed of all random numbers.
    """

    num_nodes: int
    num_edges: int
    num_classes: int = 16
    num_features: int = 128
    homophily: float = 0.65
    signal: float = 1.2
    seed: int = 0

    def __post_init__(self) -> None:
        _keep(self, as_count, "num_nodes", "num_edges", "num_classes", "num_features")
        _keep(self, as_share, "homophily")
        _keep(self, as_number, "signal")
        _keep(self, as_integer, "seed")
        _check_num_nodes(self.num_nodes)
        if not 1 <= self.num_classes <= self.num_nodes:
            raise InvalidArgumentError(
                f"num_classes = {self.num_classes} is not between 1 and the number of nodes"
            )
        if not math.isfinite(self.signal):
            raise InvalidArgumentError(f"signal = {self.signal} is not finite")

    @cached_property
    def _members(self) -> Ids:
        """Nodes sorted by community and, inside it, by popularity."""
        bits = _hash(self.seed, 1, np.arange(self.num_nodes, dtype=np.uint64))
        order: Ids = np.argsort(bits, kind="stable")
        return order

    @cached_property
    def _starts(self) -> Ids:
        """Start of each community in ``_members``, and the end of the last."""
        classes = np.arange(self.num_classes + 1, dtype=np.int64)
        starts: Ids = classes * self.num_nodes // self.num_classes
        return starts

    @cached_property
    def labels(self) -> Ids:
        """Community of each node, int64 [num_nodes]."""
        labels: Ids = np.empty(self.num_nodes, np.int64)
        labels[self._members] = np.repeat(
            np.arange(self.num_classes, dtype=np.int64), np.diff(self._starts)
        )
        return labels

    def edge_chunk(self, start: int, stop: int) -> tuple[Ids, Ids]:
        """Return sources and destinations of edges ``start`` to ``stop``, int64 each."""
        _check_range(start, stop, self.num_edges)
        number = np.arange(start, stop, dtype=np.uint64)
        dst = self._destinations(number)
        dst_label = self.labels[dst]
        choice = _hash(self.seed, 2, number)
        stranger = _unit(choice) >= self.homophily
        community = np.where(
            stranger, _below(_hash(self.seed, 3, number), self.num_classes), dst_label
        )
        return self._popular(community, _hash(self.seed, 4, number)), dst

    def _destinations(self, number: Bits) -> Ids:
        even = self.num_nodes * (self.num_edges // (2 * self.num_nodes))
        dst: Ids = (number % np.uint64(self.num_nodes)).astype(np.int64)
        mask = number >= np.uint64(even)
        if mask.any():
            chosen = number[mask]
            community = _below(_hash(self.seed, 5, chosen), self.num_classes)
            dst[mask] = self._popular(community, _hash(self.seed, 6, chosen))
        return dst

    def _popular(self, community: Ids, bits: Bits) -> Ids:
        unit = _unit(bits)
        low = self._starts[community]
        size = self._starts[community + 1] - low
        rank = (unit * unit * np.sqrt(unit) * size).astype(np.int64)
        nodes: Ids = self._members[low + np.minimum(rank, size - 1)]
        return nodes

    @cached_property
    def _means(self) -> npt.NDArray[np.float32]:
        """Class means, float32 [num_classes, num_features]: random signs, so nearly orthogonal."""
        count = self.num_classes * self.num_features
        bits = _hash(self.seed, 7, np.arange(count, dtype=np.uint64))
        signs = np.where(bits >> np.uint64(63), np.float32(1), np.float32(-1))
        size = np.float32(self.signal / np.sqrt(self.num_features))
        return np.asarray(signs * size, np.float32).reshape(self.num_classes, self.num_features)

    def feature_rows(self, start: int, stop: int) -> npt.NDArray[np.float32]:
        """Return features of nodes ``start`` to ``stop``, float32 [stop - start, num_features]."""
        _check_range(start, stop, self.num_nodes)
        width = self.num_features
        first, last = start * width // 4, -(-stop * width // 4)
        bits = _hash(self.seed, 8, np.arange(first, last, dtype=np.uint64)).view(np.int16)
        noise = bits[start * width - first * 4 :][: (stop - start) * width]
        # A uniform 16-bit integer, scaled to a standard deviation of 1.
        scale = np.float32(12**0.5 / 65536)
        rows: npt.NDArray[np.float32] = np.multiply(noise, scale, dtype=np.float32)
        rows = rows.reshape(stop - start, width)
        rows += self._means[self.labels[start:stop]]
        return rows

    def write_features(
        self, path: PathLike, *, threads: int | None = None, progress: ProgressFn | None = None
    ) -> None:
        """Write all features as a .npy file of float32 [num_nodes, num_features].

        Takes constant memory. ``progress`` counts nodes.

        Raises:
            StorageError: the file cannot be written; nothing is left behind.
        """
        ranges = list(_ranges(self.num_nodes, CHUNK_ROWS))
        with (
            NpyWriter(as_file(path), np.float32, (self.num_features,)) as writer,
            _in_order(self.feature_rows, ranges, threads) as chunks,
        ):
            for (_, stop), rows in zip(ranges, chunks, strict=True):
                writer.append(rows)
                if progress is not None:
                    progress(stop, self.num_nodes)
            writer.commit()


@dataclass(frozen=True)
class RmatGraph(_Edges):
    """Recursive matrix graph of 2^scale nodes: skewed degrees, many duplicate edges.

    Attributes:
        scale: log2 of the number of nodes, 1 to 40.
        num_edges: number of edges drawn (duplicates and self-loops are kept).
        a: probability of the quadrant (low source, low destination).
        b: probability of the quadrant (low source, high destination).
        c: probability of the quadrant (high source, low destination); the fourth takes the rest.
        scramble: permute the ids, so that a small id does not mean a high degree.
        seed: seed of all random numbers.
    """

    scale: int
    num_edges: int
    a: float = 0.57
    b: float = 0.19
    c: float = 0.19
    scramble: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        _keep(self, as_count, "scale", "num_edges")
        _keep(self, as_share, "a", "b", "c")
        _keep(self, as_flag, "scramble")
        _keep(self, as_integer, "seed")
        if not 1 <= self.scale <= 40:
            raise InvalidArgumentError(f"scale = {self.scale} is not between 1 and 40")
        if self.a + self.b + self.c > 1 + 1e-9:
            raise InvalidArgumentError("a, b and c must add up to at most 1")

    @property
    def num_nodes(self) -> int:
        """Number of nodes, 2^scale."""
        return 1 << self.scale

    def edge_chunk(self, start: int, stop: int) -> tuple[Ids, Ids]:
        """Return sources and destinations of edges ``start`` to ``stop``, int64 each."""
        _check_range(start, stop, self.num_edges)
        number = np.arange(start, stop, dtype=np.uint64)
        limits = [round(p * 65536) for p in (self.a, self.a + self.b, self.a + self.b + self.c)]
        src = np.zeros(number.size, np.int64)
        dst = np.zeros(number.size, np.int64)
        for level in range(self.scale):
            if level % 4 == 0:
                bits = _hash(self.seed, 16 + level, number).view(np.uint16).reshape(-1, 4)
            draw = bits[:, level % 4].astype(np.int32)
            low = draw < limits[1]
            src += src
            src += ~low
            dst += dst
            dst += np.where(low, draw >= limits[0], draw >= limits[2])
        if self.scramble:
            src, dst = self._scrambled(src), self._scrambled(dst)
        return src, dst

    def _scrambled(self, ids: Ids) -> Ids:
        """Permute 0..2^scale-1 by odd multiplications and xor-shifts."""
        mask = np.int64((1 << self.scale) - 1)
        half = np.int64((self.scale + 1) // 2)
        for step in range(2):
            odd = np.int64(_mix_one(self.seed + 100 + step) >> 24 | 1)
            ids = (ids * odd) & mask
            ids ^= ids >> half
        return ids


# ---- helpers ---------------------------------------------------------------------------------


def _keep(graph: _Edges, check: Callable[[Any, str], Any], *names: str) -> None:
    """Replace fields of a frozen dataclass by the values that ``check`` returns."""
    for name in names:
        object.__setattr__(graph, name, check(getattr(graph, name), name))


def _check_num_nodes(num_nodes: int) -> None:
    if num_nodes < 1:
        raise InvalidArgumentError(f"num_nodes = {num_nodes}: a graph needs at least one node")
    if num_nodes > _MOST_NODES:
        raise InvalidArgumentError(f"num_nodes = {num_nodes} is above 2**40")


def _check_range(start: int, stop: int, count: int) -> None:
    if not as_count(start, "start") <= as_count(stop, "stop") <= count:
        raise InvalidArgumentError(f"start = {start} and stop = {stop} are no range in 0..{count}")


def _ranges(count: int, step: int) -> Iterator[tuple[int, int]]:
    for start in range(0, count, step):
        yield start, min(start + step, count)


def _in_order(
    make: Callable[[int, int], T], ranges: list[tuple[int, int]], threads: int | None
) -> PrefetchIterator[tuple[int, int], T]:
    """Return make(start, stop) of every range in order; threads work a few ranges ahead."""
    count = as_threads(threads) or native.get_num_threads()
    return prefetch_map(lambda span: make(*span), ranges, num_threads=count, depth=count)


def _mix_one(value: int) -> int:
    """Apply the finalizer of splitmix64 to one integer."""
    value = (value * _GAMMA) & _MASK
    value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ value >> 27) * 0x94D049BB133111EB) & _MASK
    return value ^ value >> 31


def _hash(seed: int, stream: int, number: Bits) -> Bits:
    """Return 64 random bits for each number (splitmix64, started from seed and stream)."""
    start = _mix_one((_mix_one(seed & _MASK) + stream) & _MASK)
    x: Bits = number * np.uint64(_GAMMA)
    x += np.uint64(start)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x ^= x >> np.uint64(shift)
        x *= np.uint64(factor)
    x ^= x >> np.uint64(31)
    return x


def _unit(bits: Bits) -> npt.NDArray[np.float64]:
    """Return uniform numbers in [0, 1) from the upper 53 bits."""
    unit: npt.NDArray[np.float64] = (bits >> np.uint64(11)).astype(np.float64)
    unit *= 1 / (1 << 53)
    return unit


def _below(bits: Bits, limit: int) -> Ids:
    """Return uniform integers in 0..limit-1 (limit below 2^31) from the upper 32 bits."""
    scaled: Bits = (bits >> np.uint64(32)) * np.uint64(limit)
    ids: Ids = (scaled >> np.uint64(32)).astype(np.int64)
    return ids
