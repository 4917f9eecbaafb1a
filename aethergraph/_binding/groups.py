"""Groups of samples that are made together (``native/src/sample/group.h``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph._binding.core import Ids, ffi, lib, new_error, raise_error
from aethergraph._binding.exports import NativeSample, SampleNumbers, SampleShape, export_sample
from aethergraph._binding.reads import begin_read, raise_named
from aethergraph._binding.sampling import (
    SAMPLE_DISJOINT,
    NativeRelation,
    describe_relations,
    lend_excluded,
    lend_seeds,
)
from aethergraph._binding.tasks import Task, lend
from aethergraph._binding.values import NativeValues


class NativeBatch(NamedTuple):
    """Arguments of one sample of a group (see ``NativeSampler.sample``)."""

    seeds: Sequence[Ids]
    key: int
    since: Sequence[Ids | None] | None = None
    until: Sequence[Ids | None] | None = None
    exclude: Sequence[Ids | None] | None = None

    def is_like(self, other: NativeBatch) -> bool:
        """Return whether key and seeds are equal, hence the samples (exclusions are ignored)."""
        return self.key == other.key and all(
            np.array_equal(one, two) for one, two in zip(self.seeds, other.seeds, strict=True)
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
    ) -> None:
        self.relations = tuple(relations)
        self._guards = list(dict.fromkeys(g for r in relations for g in r.all_guards()))
        hops = len(fanouts[0]) if fanouts else 0
        self._shape = SampleShape(
            len(num_nodes), len(self.relations), hops, bool(flags & SAMPLE_DISJOINT)
        )
        self._flags = flags
        self._fanouts = ffi.new("int64_t[]", [k for row in fanouts for k in row])
        self._numbers = SampleNumbers(
            ffi.new("uint64_t[]", len(num_nodes) + len(self.relations)),
            ffi.new("uint64_t[]", len(num_nodes) * (hops + 1)),
            ffi.new("uint64_t[]", max(1, len(self.relations) * hops)),
        )
        self._err = new_error()
        self._size = 0
        self._lent: Any = None  # arrays that samples not taken yet may read
        rows = describe_relations(self.relations)
        options = ffi.new("aether_group_options *", (capacity, num_threads, window_bytes))
        out = ffi.new("aether_group **")
        code = lib.aether_group_create(
            rows, len(self.relations), list(num_nodes), len(num_nodes), options, out, self._err
        )
        if code:
            raise_error(code, self._err)
        self._handle = ffi.gc(out[0], lib.aether_group_destroy)

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
        self, relation: int, values: NativeValues, out: NDArray[Any], task: Task | None = None
    ) -> None:
        """Read the values of the edges that :meth:`edges` counts, by sample, each page once."""
        code = lib.aether_group_gather(
            self._handle, relation, values.handle, ffi.from_buffer(out), out.nbytes,
            lend(task, 0), self._err,
        )  # fmt: skip
        if code:
            raise_named(code, self._err, [p for r in self.relations for p in r.paths()])

    def sample(
        self, batches: Sequence[NativeBatch], task: Task | None = None
    ) -> Iterator[NativeSample]:
        """Make the samples of ``batches`` now; the iterator completes and yields one by one.

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
        return self._take_all(count)

    def _take_all(self, count: int) -> Iterator[NativeSample]:
        out = ffi.new("aether_sampler **")
        counts, hop_nodes, hop_edges = self._numbers
        for i in range(count):
            if self._guards:
                begin_read(self._guards[0])
            code = lib.aether_group_take(
                self._handle, i, hop_nodes, hop_edges, counts, counts + self._shape.num_types,
                out, lend(None, 0), self._err,
            )  # fmt: skip
            if code:
                self._end(code)
            sample = export_sample(out[0], self._shape, self._numbers, self._err, self._end)
            lib.aether_group_release(self._handle)
            self._end(0)
            yield sample

    def _end(self, code: int) -> None:
        for guard in self._guards:
            guard.check()
        if code:
            raise_named(code, self._err, [p for r in self.relations for p in r.paths()])
