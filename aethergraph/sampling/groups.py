"""Samples of coming batches made together: how many at once, and the memory for it.

Lists that are read from disk are read once for all samples of a group, in the order of the file,
so a larger group reads less for each sample and in longer pieces. How large it may be follows
from the memory budget and from what the samples so far took.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from numpy.typing import NDArray

from aethergraph import _binding as native
from aethergraph._paging import Paging
from aethergraph._value_columns import RowsInStore, ValueColumn

__all__ = ["EdgeColumns", "SampleGroups", "SamplesAhead"]

#: Columns of values by edge, each with the number of its relation.
EdgeColumns: TypeAlias = Sequence[tuple[int, ValueColumn]]

MOST = 256
#: An edge of a sample that is not completed yet: position, id, its share of spans and nodes.
_EDGE_BYTES = 20
#: An edge of the one that is being completed: slots of the map from nodes to local ids, keys.
_MAP_BYTES = 32


#: Completed samples take so many times what they do in a group: ids have 8 bytes, those of the
#: next ones are made meanwhile, and there are the values and their positions.
_AHEAD_TIMES = 5
#: The part of the room for samples that they may have.
_AHEAD_PART = 4


class SamplesAhead:
    """How many completed samples a loader may hold; while this is held, they have their memory."""

    def __init__(self, count: int) -> None:
        self.count = count


class SampleGroups:
    """Makes groups of samples for one sampler.

    Args:
        make: makes a native group of ``capacity`` samples, with buffers of ``window_bytes``.
        paging: whose lists are read.
        fanouts: by edge type and hop.
        relations: what is sampled from.
    """

    def __init__(
        self,
        make: Callable[..., native.NativeGroup],
        paging: Paging,
        fanouts: Sequence[Sequence[int]],
        relations: Sequence[native.NativeRelation],
    ) -> None:
        self._relations = relations
        self._make = make
        self._paging = paging
        self._fanouts = fanouts
        # append and pop of a deque are atomic, as in SamplerBase
        self._idle: deque[native.NativeGroup] = deque()
        self._idle_bytes = 0
        self._sample_bytes = 0  # of one sample in the last group; 0: none was made
        self._last = 0  # its size
        self._expected = 0  # bytes of a sample of the next one

    def columns_of(self, columns: Iterable[ValueColumn]) -> EdgeColumns:
        """Those of ``columns`` that can be read with the samples, each with its relation."""
        numbers = {id(r.topology): number for number, r in enumerate(self._relations)}
        return [
            (numbers[id(column.edges_of)], column)
            for column in columns
            if column.comes_with_samples and id(column.edges_of) in numbers
        ]

    def size(self, num_seeds: int, shares: int = 1, columns: EdgeColumns = ()) -> int:
        """How many samples of so many seeds to make at once.

        ``shares`` groups are held at the same time, each with its share of the budget; other users
        of the graph have shares as well. Where nothing is left, a group is one sample. With them
        come the values of ``columns``.
        """
        paging = self._paging
        room = min(paging.sample_room_of(shares) - self._idle_bytes, paging.sample_room_left)
        if self._sample_bytes:
            self._expected = self._sample_bytes
            return max(1, min(room // self._sample_bytes, 2 * self._last, MOST))
        edges = _most_edges(self._fanouts, num_seeds)
        if edges is None:
            return 1
        edge_bytes = _EDGE_BYTES + sum(column.row_bytes for _, column in columns)
        self._expected = edge_bytes * edges
        return max(1, min((room - _MAP_BYTES * edges) // (edge_bytes * edges + 1), MOST))

    def reserve_ahead(self, num_seeds: int) -> SamplesAhead | None:
        """Memory for completed samples whose values are read together; None where it pays not.

        A part of what samples have, for as long as the result is held.
        """
        edges = _most_edges(self._fanouts, num_seeds)
        one = self._sample_bytes or (None if edges is None else _EDGE_BYTES * edges)
        if one is None:
            return None
        count = min(self._paging.sample_room_of(1) // _AHEAD_PART // (_AHEAD_TIMES * one + 1), MOST)
        if count < 2:
            return None
        ahead = SamplesAhead(count)
        self._paging.ahead.note(ahead, count * _AHEAD_TIMES * one, at_work=True)
        return ahead

    def sample(
        self, batches: Sequence[native.NativeBatch], columns: EdgeColumns = ()
    ) -> Iterator[native.NativeSample]:
        """Make the samples of a chunk now; the iterator completes and hands out each.

        While it is held, gathers from ``columns`` find the values of the edges of each.
        """
        group = self._take()
        before, held = group.memory, self._paging.groups
        held.note(group, before + self._expected * len(batches), at_work=True)
        samples = group.sample(batches)
        values = {own: found for own in columns if (found := _read_values(group, *own)) is not None}
        for found in values.values():
            held.note(found, found.nbytes, at_work=False)
        after = group.memory
        held.note(group, after, at_work=True)
        self._idle_bytes = before
        taken = after - before + sum(found.nbytes for found in values.values())
        self._sample_bytes = max(1, taken // len(batches))
        self._last = len(batches)
        return self._hand_out(group, samples, len(batches), values)

    def _hand_out(
        self,
        group: native.NativeGroup,
        samples: Iterator[native.NativeSample],
        count: int,
        values: Mapping[tuple[int, ValueColumn], RowsInStore],
    ) -> Iterator[native.NativeSample]:
        for number, sample in enumerate(samples, 1):
            if number == count:  # who takes as many as there are does not ask for the end
                self._paging.groups.note(group, group.memory, at_work=False)
                self._idle.append(group)
            for (relation, _), found in values.items():  # samples may wait for their values
                _keep_alive(found, sample.edge[relation])
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


def _read_values(
    group: native.NativeGroup, relation: int, column: ValueColumn
) -> RowsInStore | None:
    """Read the values of the edges of all samples of a group."""
    edges = group.edges(relation)
    if edges is None:
        return None
    counts, hashes = edges
    rows = column.empty(int(counts.sum()))
    group.gather(relation, column.values, rows)
    return column.expect(hashes, counts, rows)


def _keep_alive(thing: object, array: NDArray[Any]) -> None:
    """Hold ``thing`` as long as the memory of ``array`` is there."""
    owner = array if array.base is None else array.base
    weakref.finalize(owner, lambda _: None, thing).atexit = False


def _most_edges(fanouts: Sequence[Sequence[int]], num_seeds: int) -> int | None:
    """A bound for the edges of a sample; None: there is none."""
    total, frontier = 0, num_seeds
    for hop in zip(*fanouts, strict=True):
        if min(hop) < 0:
            return None
        frontier *= sum(hop)
        total += frontier
    return total
