"""Samples of coming batches made together: the size of a group, and the memory for it.

Lists on disk are read once for all samples of a group, in the order of the file. A larger group
reads less for each sample, and in longer pieces. Its size follows from the memory budget and from
the memory that samples took so far.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._tracepoints import stage
from aethergraph.storage.paging import Paging
from aethergraph.storage.value_columns import RowsInStore, ValueColumn

__all__ = ["EdgeColumns", "SampleGroups", "SamplesAhead"]

#: Columns of values by edge, each after the number of its relation.
EdgeColumns: TypeAlias = Sequence[tuple[int, ValueColumn]]

S = TypeVar("S", bound=native.NativeSample | native.NativeLayers)

MOST = 256
#: Bytes of an edge of a sample in progress: position, id, its share of spans and nodes.
_EDGE_BYTES = 20
#: Bytes of an edge of the sample being completed: slots of the map from nodes to local ids, keys.
_MAP_BYTES = 32


#: Memory of a completed sample as a multiple of the sample in a group: ids have 8 bytes, ids of
#: the next samples are made meanwhile, and there are the values and their positions.
_AHEAD_TIMES = 5
#: Divisor of the room for samples that gives the room for completed ones.
_AHEAD_PART = 4
#: Divisor of the budget that gives the memory for weights and times that a group's draws look at.
_LOOKED_AT_PART = 32


class SamplesAhead:
    """Number of completed samples that a loader may hold; reserves their memory while it lives."""

    def __init__(self, count: int) -> None:
        self.count = count


class _ValuesRead(NamedTuple):
    """Values of the edges of a group's samples that were not handed out yet."""

    rows: deque[RowsInStore]
    nbytes: int  # of all of them at first


class SampleGroups(Generic[S]):
    """Maker of groups of samples for one engine.

    Args:
        form: form of the samples, ``NativeSample`` or ``NativeLayers``.
        make: creates a native group of ``relations`` and ``num_nodes``, for ``capacity`` samples,
            with buffers of ``window_bytes`` and ``value_bytes`` for what draws look at.
        paging: reader of the lists, with their memory budget.
        fanouts: fanouts by edge type and hop.
        relations: the lists and values to sample from.
        num_nodes: number of nodes by type.
    """

    def __init__(
        self,
        form: type[S],
        make: Callable[..., native.NativeGroup],
        paging: Paging,
        fanouts: Sequence[Sequence[int]],
        relations: Sequence[native.NativeRelation],
        num_nodes: Sequence[int],
    ) -> None:
        self._form = form
        self._relations, self._num_nodes = tuple(relations), num_nodes
        self._make = make
        self._paging = paging
        self._fanouts = fanouts
        self._value_bytes = self._room_for_values()
        # append and pop of a deque are atomic, as in NativeEngine
        self._idle: deque[native.NativeGroup] = deque()
        self._idle_bytes = 0
        self._sample_bytes = 0  # per sample of the last group; 0: no group was made yet
        self._last = 0  # number of samples of the last group
        self._expected = 0  # bytes per sample of the next group

    def _room_for_values(self) -> int:
        draws_look = any(any(relation.in_file or ()) for relation in self._relations)
        return self._paging.budget.limit // _LOOKED_AT_PART if draws_look else 0

    @property
    def paging(self) -> Paging:
        """Reader of the lists, with their memory budget."""
        return self._paging

    def retarget(
        self, relations: tuple[native.NativeRelation, ...], num_nodes: Sequence[int]
    ) -> None:
        """Go on with other lists of the same reader; groups get them when they are used next."""
        self._relations, self._num_nodes = relations, num_nodes
        self._value_bytes = self._room_for_values()

    def columns_of(self, columns: Iterable[ValueColumn]) -> EdgeColumns:
        """Return the ``columns`` that can be read with the samples, each after its relation."""
        numbers = {id(r.topology): number for number, r in enumerate(self._relations)}
        return [
            (numbers[id(column.edges_of)], column)
            for column in columns
            if column.comes_with_samples and id(column.edges_of) in numbers
        ]

    def size(self, num_seeds: int, shares: int = 1, columns: EdgeColumns = ()) -> int:
        """Return how many samples of ``num_seeds`` seeds to make at once, at least 1.

        ``shares`` groups are held at the same time, each with its share of the budget; other users
        of the graph have shares, too. The values of ``columns`` are read with the samples and
        count.
        """
        paging = self._paging
        room = min(paging.sample_room_of(shares) - self._idle_bytes, paging.sample_room_left)
        room -= self._value_bytes
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
        """Reserve memory for completed samples whose values are read together.

        The memory is a part of the room for samples, reserved as long as the result is held.

        Returns:
            None if fewer than two samples would fit.
        """
        edges = _most_edges(self._fanouts, num_seeds)
        sample_bytes = self._sample_bytes or (None if edges is None else _EDGE_BYTES * edges)
        if sample_bytes is None:
            return None
        count = min(
            self._paging.sample_room_of(1) // _AHEAD_PART // (_AHEAD_TIMES * sample_bytes + 1), MOST
        )
        if count < 2:
            return None
        ahead = SamplesAhead(count)
        self._paging.ahead.note(ahead, count * _AHEAD_TIMES * sample_bytes, at_work=True)
        return ahead

    def sample(
        self, batches: Sequence[native.NativeBatch], columns: EdgeColumns = ()
    ) -> Iterator[S]:
        """Make the samples of ``batches`` now; the iterator completes and yields one by one.

        While the iterator is held, gathers from ``columns`` find the values of the samples' edges.
        Of a graph that changes all samples are of one commit, the last one, but for batches that
        were pinned when they were prepared.
        """
        runs = [list(run) for _, run in groupby(batches, lambda batch: id(batch.at))]
        with stage("draw", reads=self._paging):
            if len(runs) > 1:
                return chain.from_iterable([self._sample(run, columns) for run in runs])
            return self._sample(batches, columns)

    def _sample(
        self, batches: Sequence[native.NativeBatch], columns: EdgeColumns = ()
    ) -> Iterator[S]:
        group = self._take(batches[0].at)
        before, groups = group.memory, self._paging.groups
        groups.note(group, before + self._expected * len(batches), at_work=True)
        samples = group.sample(batches, self._form)
        values = [
            (relation, read)
            for relation, column in columns
            if (read := self._read_values(group, relation, column)) is not None
        ]
        after = group.memory
        groups.note(group, after, at_work=True)
        self._idle_bytes = before
        growth = after - before + sum(read.nbytes for _, read in values)
        self._sample_bytes = max(1, growth // len(batches))
        self._last = len(batches)
        return self._hand_out(group, samples, len(batches), values)

    def _hand_out(
        self,
        group: native.NativeGroup,
        samples: Iterator[S],
        count: int,
        values: Sequence[tuple[int, _ValuesRead]],
    ) -> Iterator[S]:
        for number in range(1, count + 1):
            with stage("draw"):  # completes it: the lists were read
                sample = next(samples)
            if number == count:  # a caller who takes all samples may never ask for the end
                self._paging.groups.note(group, group.memory, at_work=False)
                if self._is_live:
                    group.forget()
                self._idle.append(group)
            for relation, read in values:  # samples may wait long for their values
                _keep_alive(read.rows.popleft(), sample.edge[relation])
            yield sample

    def _read_values(
        self, group: native.NativeGroup, relation: int, column: ValueColumn
    ) -> _ValuesRead | None:
        """Read the values of the edges of all samples of a group; None if these are unknown."""
        edges = group.edges(relation)
        if edges is None:
            return None
        counts, hashes = edges
        rows = [column.empty(count) for count in counts.tolist()]
        group.gather(relation, column.values, rows)
        for array in rows:  # each goes with its sample, and gives its room to the next group
            self._paging.groups.note(array, array.nbytes, at_work=False)
        return _ValuesRead(deque(column.expect(hashes, rows)), sum(array.nbytes for array in rows))

    @property
    def _is_live(self) -> bool:
        return any(relation.topology.is_live for relation in self._relations)

    def _take(self, at: native.PinnedLists | None) -> native.NativeGroup:
        relations, num_nodes = self._relations, self._num_nodes
        if at is None and self._is_live:
            at = native.pin_relations(relations, num_nodes)
        if at is not None:
            relations, num_nodes = at
        try:
            group = self._idle.pop()
        except IndexError:
            return self._make(
                relations,
                num_nodes,
                capacity=MOST,
                window_bytes=self._paging.window_bytes,
                value_bytes=self._value_bytes,
            )
        if group.relations is not relations:
            group.retarget(relations, num_nodes)
        return group

    @property
    def memory(self) -> int:
        """Bytes that idle groups hold."""
        return sum(group.memory for group in list(self._idle))


def _keep_alive(resource: object, array: NDArray[Any]) -> None:
    """Hold ``resource`` as long as the memory of ``array`` lives."""
    owner = array if array.base is None else array.base
    weakref.finalize(owner, lambda _: None, resource).atexit = False


def _most_edges(fanouts: Sequence[Sequence[int]], num_seeds: int) -> int | None:
    """Return an upper bound of the edges of a sample; None if a fanout takes all neighbours."""
    total, frontier = 0, num_seeds
    for hop in zip(*fanouts, strict=True):
        if min(hop) < 0:
            return None
        frontier *= sum(hop)
        total += frontier
    return total
