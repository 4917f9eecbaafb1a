"""Groups of samples that are made together (``native/src/sample/group.h``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from aethergraph._native.core import Ids, ffi, lib, new_error, raise_error
from aethergraph._native.exports import (
    NativeLayers,
    NativeSample,
    SampleNumbers,
    SampleShape,
    export_layers,
    export_sample,
)
from aethergraph._native.guards import begin_read, raise_named
from aethergraph._native.live_snapshots import (
    LiveTopology,
    NativeSnapshot,
    SnapshotTopology,
    pin_all,
)
from aethergraph._native.paged_values import NativeValues
from aethergraph._native.recycled import new_vector
from aethergraph._native.sampling import (
    SAMPLE_DISJOINT,
    NativeRelation,
    describe_schema,
    guards_of,
    hand_over,
    lend_excluded,
    lend_seeds,
)
from aethergraph._native.tasks import Task, lend

S = TypeVar("S", bound=NativeSample | NativeLayers)


class PinnedLists(NamedTuple):
    """Relations of a graph that changes, all of one commit, with the nodes by type."""

    relations: tuple[NativeRelation, ...]
    num_nodes: Sequence[int]


class OwnLists:
    """Lists of the last commit for one sampler, which takes them for a sample and gives them back.

    Between two samples they rest: they keep no version of the graph, and none of its files.

    Args:
        relations: those that were pinned, whose topologies say where the last commit is.
        pinned: what :func:`pin_relations` made of them; nobody else reads it.
    """

    __slots__ = ("_given", "_snapshots", "_topologies", "pinned")

    def __init__(self, relations: Sequence[NativeRelation], pinned: PinnedLists) -> None:
        self._given, self.pinned = relations, pinned
        topologies = [relation.topology for relation in pinned.relations]
        self._topologies = [
            topology for topology in topologies if isinstance(topology, SnapshotTopology)
        ]
        snapshots = {id(topology.snapshot): topology.snapshot for topology in self._topologies}
        self._snapshots = list(snapshots.values())

    def are_of(self, relations: Sequence[NativeRelation]) -> bool:
        """Return whether they were pinned for ``relations``, the same object."""
        return self._given is relations

    def rest(self) -> None:
        """Keep nothing until :meth:`wake`."""
        for topology in self._topologies:
            topology.rest()
        for snapshot in self._snapshots:
            snapshot.rest()

    def wake(self) -> bool:
        """Go on to the last commit; False: the relations must be pinned anew."""
        if not all(snapshot.wake() for snapshot in self._snapshots):
            return False
        for topology in self._topologies:
            topology.wake()
        relations = self.pinned.relations
        counts = _count_nodes(relations, self.pinned.num_nodes)
        if counts != self.pinned.num_nodes:
            # Other relations, to the sampler.
            self.pinned = PinnedLists(
                tuple(NativeRelation(*relation) for relation in relations), counts
            )
        return True


def pin_own(
    relations: Sequence[NativeRelation], num_nodes: Sequence[int]
) -> tuple[PinnedLists, OwnLists | None]:
    """Return relations with the lists of the last commit, for a sampler that keeps them.

    None: they are those of a block of ``NativeLive.reading``, which belong to others, too.
    """
    pinned = pin_relations(relations, num_nodes)
    topologies = [relation.topology for relation in relations]
    live = [topology for topology in topologies if isinstance(topology, LiveTopology)]
    if any(topology.live.is_reading for topology in live):
        return pinned, None
    return pinned, OwnLists(relations, pinned)


def pin_relations(
    relations: Sequence[NativeRelation],
    num_nodes: Sequence[int],
    snapshot: NativeSnapshot | None = None,
) -> PinnedLists:
    """Return relations with the lists of one commit: the last one, or that of ``snapshot``."""
    topologies = pin_all([relation.topology for relation in relations], snapshot)
    pinned = tuple(NativeRelation(t, *r[1:]) for r, t in zip(relations, topologies, strict=True))
    return PinnedLists(pinned, _count_nodes(pinned, num_nodes))


def _count_nodes(relations: Sequence[NativeRelation], num_nodes: Sequence[int]) -> Sequence[int]:
    """Return the numbers of nodes by type, as the lists have them."""
    counts = list(num_nodes)
    for relation in relations:
        counts[relation.source], counts[relation.to] = (
            relation.topology.num_major,
            relation.topology.num_minor,
        )
    return counts


class NativeBatch(NamedTuple):
    """Arguments of one sample of a group (see ``NativeSampler.sample``)."""

    seeds: Sequence[Ids]
    key: int
    since: Sequence[Ids | None] | None = None
    until: Sequence[Ids | None] | None = None
    exclude: Sequence[Ids | None] | None = None
    #: Lists to draw from, if they had to be pinned when the batch was prepared; None: the engine's.
    at: PinnedLists | None = None

    @property
    def num_seeds(self) -> int:
        """Number of seeds of all types."""
        return sum(map(len, self.seeds))

    def is_like(self, other: NativeBatch) -> bool:
        """Return whether key and seeds are equal, hence the samples (exclusions are ignored)."""
        return self.key == other.key and all(
            np.array_equal(mine, its) for mine, its in zip(self.seeds, other.seeds, strict=True)
        )


class NativeGroup:
    """Maker of several samples at once; used by one thread at a time.

    Args:
        relations: as for ``NativeSampler``.
        num_nodes: as for ``NativeSampler``.
        fanouts: as for ``NativeSampler``.
        flags: as for ``NativeSampler``.
        num_threads: as for ``NativeSampler``.
        capacity: most samples at once.
        window_bytes: bytes of each of the four buffers for reading; 0: the default.
        value_bytes: bytes, about, of weights and times in a file while draws look at them; 0: the
            default.
    """

    def __init__(
        self,
        relations: Sequence[NativeRelation],
        num_nodes: Sequence[int],
        fanouts: Sequence[Sequence[int]],
        flags: int,
        num_threads: int,
        *,
        capacity: int,
        window_bytes: int = 0,
        value_bytes: int = 0,
    ) -> None:
        self.relations = tuple(relations)
        self._guards = guards_of(relations)
        hops = len(fanouts[0]) if fanouts else 0
        self._shape = SampleShape(
            len(num_nodes), len(self.relations), hops, bool(flags & SAMPLE_DISJOINT)
        )
        self._flags = flags
        self._fanouts = ffi.new("int64_t[]", [k for row in fanouts for k in row])
        self._numbers = SampleNumbers(self._shape)
        self._err = new_error()
        self._size = 0
        self._lent: Any = None  # arrays that samples not taken yet may read
        schema = describe_schema(self.relations, num_nodes)
        options = ffi.new(
            "aether_group_options *", (capacity, num_threads, window_bytes, value_bytes)
        )
        out = ffi.new("aether_group **")
        code = lib.aether_group_create(schema[0], options, out, self._err)
        if code:
            raise_error(code, self._err)
        self._handle = ffi.gc(out[0], lib.aether_group_destroy)

    def retarget(self, relations: Sequence[NativeRelation], num_nodes: Sequence[int]) -> None:
        """Go on with other relations and numbers of nodes; as ``NativeSampler.retarget``.

        Samples that were not taken are dropped.
        """
        hand_over(lib.aether_group_retarget, self._handle, relations, num_nodes, self._err)
        self.relations, self._guards = tuple(relations), guards_of(relations)
        self._lent, self._size = None, 0

    def forget(self) -> None:
        """Let go of the relations, until :meth:`retarget` brings others."""
        self.relations, self._guards, self._lent = (), [], None

    @property
    def memory(self) -> int:
        """Bytes held now."""
        return int(lib.aether_group_memory(self._handle))

    def edges(self, relation: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]] | None:
        """Return, for each sample not taken yet, the number of its edges and a hash of their ids.

        None if the edges of the relation are not known before the samples are taken.
        """
        counts, hashes = np.empty(self._size, np.uint64), np.empty(self._size, np.uint64)
        code = lib.aether_group_edges(
            self._handle, relation, ffi.from_buffer("uint64_t[]", counts),
            ffi.from_buffer("uint64_t[]", hashes), self._err,
        )  # fmt: skip
        if code == lib.AETHER_E_UNSUPPORTED:
            return None
        if code:
            raise_error(code, self._err)
        return counts, hashes

    def gather(
        self,
        relation: int,
        values: NativeValues,
        outs: Sequence[NDArray[Any]],
        task: Task | None = None,
    ) -> None:
        """Read the values of the edges that :meth:`edges` counts, each page once.

        Args:
            relation: number of the edge type.
            values: a value for each edge of it.
            outs: for each sample an array for its values.
            task: the long call that this one is part of.
        """
        buffers = [ffi.from_buffer(out) for out in outs]
        rooms = ffi.new("uint64_t[]", [len(out) for out in outs])
        code = lib.aether_group_gather(
            self._handle, relation, values.handle, ffi.new("void *[]", buffers), rooms,
            lend(task, 0), self._err,
        )  # fmt: skip
        if code:
            raise_named(code, self._err, [p for r in self.relations for p in r.paths()])

    def sample(
        self, batches: Sequence[NativeBatch], form: type[S], task: Task | None = None
    ) -> Iterator[S]:
        """Make the samples of ``batches`` now; the iterator completes and yields one by one.

        ``form`` is that of the samples; ``NativeLayers`` are for ``SAMPLE_LAYERED``.

        Raises:
            OutOfRangeError: a seed is not a node; samplers check seeds before this call.
            StorageError, CorruptFileError: the lists could not be read, or are damaged.
        """
        count, types = len(batches), self._shape.num_types
        seeds = ffi.new("aether_seeds[]", count * types)
        options = ffi.new("aether_sample_options[]", count)
        lent: list[Any] = [seeds, options]
        for i, batch in enumerate(batches):
            options[i].key = batch.key
            options[i].fanouts = self._fanouts
            options[i].num_hops = self._shape.num_hops
            options[i].flags = self._flags
            options[i].num_threads = 1
            lent.append(lend_excluded(options[i], batch.exclude))
            for t in range(types):
                out = seeds[i * types + t]
                lent.append(lend_seeds(out, t, batch.seeds, batch.since, batch.until))
        self._lent, self._size = lent, count
        failed = ffi.new("uint32_t *")
        if self._guards:
            begin_read(self._guards[0])
        code = lib.aether_group_sample(
            self._handle, seeds, options, count, failed, lend(task, 0), self._err
        )
        if code:
            self._end(code)
        return self._take_all(count, form)

    def _take_all(self, count: int, form: type[S]) -> Iterator[S]:
        out = ffi.new("aether_sampler **")
        for i in range(count):
            if self._guards:
                begin_read(self._guards[0])
            code = lib.aether_group_take(
                self._handle, i, self._numbers.handle, out, lend(None, 0), self._err
            )
            if code:
                self._end(code)
            sample = self._export(out[0], form)
            lib.aether_group_release(self._handle)
            self._end(0)
            yield sample

    def _export(self, sampler: Any, form: type[Any]) -> Any:
        numbers, make, err, end = self._numbers, new_vector, self._err, self._end
        if form is NativeLayers:
            sources = [relation.source for relation in self.relations]
            return export_layers(sampler, self._shape, numbers, sources, make, err, end)
        return export_sample(sampler, self._shape, numbers, make, err, end)

    def _end(self, code: int) -> None:
        for guard in self._guards:
            guard.check()
        if code:
            raise_named(code, self._err, [p for r in self.relations for p in r.paths()])
