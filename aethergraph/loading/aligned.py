"""Batches whose seeds come from few partitions of a graph, so that their neighbourhoods overlap.

::

    partition 0   |--- run ---|--- run ---|-rest|      a run: consecutive seeds of one partition,
    partition 1   --|--- run ---|--- run ---|-         batch_size / mix of them; where the first
    partition 2   -----|--- run ---|--- run --         begins is drawn anew for each epoch

    an epoch: all runs in a random order, cut into batches: a batch has seeds of ``mix`` partitions

The idea is that of Cluster-GCN's batches of several clusters (Chiang et al., KDD 2019), for seeds
of sampled neighbourhoods. ``mix`` trades locality for gradients like those of shuffled seeds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph._checks.arrays import as_count, as_ids
from aethergraph.errors import InvalidArgumentError
from aethergraph.loading.shuffle import Shuffle
from aethergraph.sampling.keys import mix64_array, mix_key

__all__ = ["AlignedOrder", "Partitions", "run_length"]

Ids = NDArray[np.int64]
_GAMMA = np.uint64(0x9E3779B97F4A7C15)


class Partitions:
    """Seeds by partition.

    Args:
        parts: the partition of each seed, any integers [n].
        num_seeds: the number of seeds; None: that of ``parts``.

    Raises:
        InvalidArgumentError: ``parts`` is not a vector of integers, or not one for each seed.
    """

    def __init__(self, parts: ArrayLike, num_seeds: int | None = None, name: str = "parts") -> None:
        self.parts = as_ids(parts, name)
        if num_seeds is not None and len(self.parts) != num_seeds:
            raise InvalidArgumentError(
                f"{name} has {len(self.parts)} items, but there are {num_seeds} seeds: give one "
                "for each seed, such as graph.rabbit_partitions()[seeds]"
            )
        self.members = np.argsort(self.parts, kind="stable").astype(np.int64, copy=False)
        ordered = self.parts[self.members]
        starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
        self.starts = np.append(starts, len(ordered)).astype(np.int64)

    def __len__(self) -> int:
        return len(self.starts) - 1


class AlignedOrder:
    """Order of an epoch: the runs of all partitions in a random order.

    Args:
        partitions: the seeds by partition.
        length: seeds of a run, at least 1.
        key: a uint64; decides where runs begin, and their order.
    """

    def __init__(self, partitions: Partitions, length: int, key: int) -> None:
        self._members = partitions.members
        self._starts = partitions.starts[:-1]
        self._sizes = np.diff(partitions.starts)
        self._length = length
        numbers = np.arange(1, len(partitions) + 1, dtype=np.uint64) * _GAMMA
        drawn = mix64_array(numbers + np.uint64(mix_key(key, 1)))
        self._shifts = (drawn % np.maximum(self._sizes, 1).astype(np.uint64)).astype(np.int64)
        counts = -(-self._sizes // length)
        firsts = np.cumsum(counts) - counts
        num_runs = int(counts.sum())
        runs = Shuffle(num_runs, mix_key(key, 2)).take(0, num_runs)
        self._partition = np.searchsorted(firsts, runs, side="right") - 1
        self._offset = (runs - firsts[self._partition]) * length
        sizes = np.minimum(length, self._sizes[self._partition] - self._offset)
        self._places = np.append(0, np.cumsum(sizes))  # where each run begins in the epoch

    def take(self, start: int, stop: int) -> Ids:
        """Return the positions of the seeds at places ``start .. stop - 1``, int64."""
        places = np.arange(start, min(stop, int(self._places[-1])))
        run = np.searchsorted(self._places, places, side="right") - 1
        part = self._partition[run]
        at = self._offset[run] + places - self._places[run] + self._shifts[part]
        chosen: Ids = self._members[self._starts[part] + at % self._sizes[part]]
        return chosen


def run_length(batch_size: int, mix: Any) -> int:
    """Return the seeds of a run: ``batch_size / mix``, rounded up.

    Raises:
        InvalidArgumentError: ``mix`` is not an integer of at least 1.
    """
    count = as_count(mix, "mix")
    if count < 1:
        raise InvalidArgumentError(f"mix = {count} is not at least 1")
    return -(-batch_size // count)
