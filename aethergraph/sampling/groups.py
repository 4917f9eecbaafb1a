"""Samples of coming batches made together: how many at once, and the memory for it.

Lists that are read from disk are read once for all samples of a group, in the order of the file,
so a larger group reads less for each sample and in longer pieces. How large it may be follows
from the memory budget and from what the samples so far took.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from aethergraph import _binding as native
from aethergraph._paging import Paging

__all__ = ["SampleGroups"]

MOST = 256
#: An edge of a sample that is not completed yet: position, id, its share of spans and nodes.
_EDGE_BYTES = 20
#: An edge of the one that is being completed: slots of the map from nodes to local ids, keys.
_MAP_BYTES = 32


class SampleGroups:
    """Makes groups of samples for one sampler.

    Args:
        make: makes a native group of ``capacity`` samples, with buffers of ``window_bytes``.
        paging: whose lists are read.
        fanouts: by edge type and hop.
    """

    def __init__(
        self,
        make: Callable[..., native.NativeGroup],
        paging: Paging,
        fanouts: Sequence[Sequence[int]],
    ) -> None:
        self._make = make
        self._paging = paging
        self._fanouts = fanouts
        # append and pop of a deque are atomic, as in SamplerBase
        self._idle: deque[native.NativeGroup] = deque()
        self._idle_bytes = 0
        self._sample_bytes = 0  # of one sample in the last group; 0: none was made
        self._last = 0  # its size
        self._expected = 0  # bytes of a sample of the next one

    def size(self, num_seeds: int, shares: int = 1) -> int:
        """How many samples of so many seeds to make at once.

        ``shares`` groups are held at the same time, each with its share of the budget; other users
        of the graph have shares as well. Where nothing is left, a group is one sample.
        """
        paging = self._paging
        room = min(paging.sample_room_of(shares) - self._idle_bytes, paging.sample_room_left)
        if self._sample_bytes:
            self._expected = self._sample_bytes
            return max(1, min(room // self._sample_bytes, 2 * self._last, MOST))
        edges = _most_edges(self._fanouts, num_seeds)
        if edges is None:
            return 1
        self._expected = _EDGE_BYTES * edges
        return max(1, min((room - _MAP_BYTES * edges) // (_EDGE_BYTES * edges + 1), MOST))

    def sample(self, batches: Sequence[native.NativeBatch]) -> Iterator[native.NativeSample]:
        """Make the samples of a chunk now; the iterator completes and hands out each."""
        group = self._take()
        before, held = group.memory, self._paging.groups
        held.note(group, before + self._expected * len(batches), at_work=True)
        samples = group.sample(batches)
        after = group.memory
        held.note(group, after, at_work=True)
        self._idle_bytes = before
        self._sample_bytes = max(1, (after - before) // len(batches))
        self._last = len(batches)
        return self._hand_out(group, samples, len(batches))

    def _hand_out(
        self, group: native.NativeGroup, samples: Iterator[native.NativeSample], count: int
    ) -> Iterator[native.NativeSample]:
        for number, sample in enumerate(samples, 1):
            if number == count:  # who takes as many as there are does not ask for the end
                self._paging.groups.note(group, group.memory, at_work=False)
                self._idle.append(group)
            yield sample

    def _take(self) -> native.NativeGroup:
        try:
            return self._idle.pop()
        except IndexError:
            return self._make(capacity=MOST, window_bytes=self._paging.window_bytes)

    @property
    def memory(self) -> int:
        """Bytes that idle groups hold."""
        return sum(group.memory for group in list(self._idle))


def _most_edges(fanouts: Sequence[Sequence[int]], num_seeds: int) -> int | None:
    """A bound for the edges of a sample; None: there is none."""
    total, frontier = 0, num_seeds
    for hop in zip(*fanouts, strict=True):
        if min(hop) < 0:
            return None
        frontier *= sum(hop)
        total += frontier
    return total
