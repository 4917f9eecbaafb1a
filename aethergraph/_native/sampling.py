"""Native samplers: workspaces, options, and the arrays of a sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph._native.core import Ids, dtype_code, ffi, lib, new_error, raise_error, sized
from aethergraph._native.exports import (
    NativeLayers,
    NativeSample,
    SampleNumbers,
    SampleShape,
    export_layers,
    export_sample,
)
from aethergraph._native.files import FileGuard
from aethergraph._native.guards import begin_read, raise_named
from aethergraph._native.memory import address_of
from aethergraph._native.packed import NativePacking
from aethergraph._native.paged_values import NativeValues
from aethergraph._native.recycled import RecycledVectors
from aethergraph._native.signals import thread_task
from aethergraph._native.tasks import Task, lend
from aethergraph._native.topology import NativeTopology
from aethergraph._native.weight_sums import NativeSums

if TYPE_CHECKING:
    from aethergraph._native.groups import OwnLists

SAMPLE_REPLACE: Final[int] = lib.AETHER_SAMPLE_REPLACE
SAMPLE_DISJOINT: Final[int] = lib.AETHER_SAMPLE_DISJOINT
SAMPLE_INDUCED: Final[int] = lib.AETHER_SAMPLE_INDUCED
SAMPLE_LATEST: Final[int] = lib.AETHER_SAMPLE_LATEST
SAMPLE_LAYERED: Final[int] = lib.AETHER_SAMPLE_LAYERED


class ValuesInFile(NamedTuple):
    """Values that a sampler reads from a graph's file before it draws; None: not from there."""

    weights: NativeValues | None = None
    times: NativeValues | None = None
    ids: NativeValues | None = None


class NativeRelation(NamedTuple):
    """Edge type as a sampler walks it: a list of ``to`` nodes for every ``source`` node.

    ``weights`` (float32, float64) have a value per edge id; ``times`` (int64, float64) one per edge
    id, or per ``to`` node if ``node_times``. ``sums`` are prefix sums of the weights. ``in_file``
    has the weights, the times, and for times of nodes the ids of the lists, if they are to be read
    from the file that they are mapped from. ``own_weights`` and ``own_times`` ask the topology for
    the values that it keeps itself, in place of arrays.
    """

    topology: NativeTopology
    source: int = 0
    to: int = 0
    weights: NDArray[Any] | None = None
    times: NDArray[Any] | None = None
    node_times: bool = False
    guards: tuple[FileGuard, ...] = ()  # of the files of weights and times
    sums: NativeSums | None = None
    in_file: ValuesInFile | None = None
    own_weights: bool = False
    own_times: bool = False

    def fill(self, out: Any) -> None:
        """Write the relation to ``out``, an ``aether_relation``."""
        out.topology = self.topology.handle
        setattr(out, "from", self.source)
        out.to = self.to
        if self.weights is not None:
            out.weights = ffi.cast("const void *", address_of(self.weights))
            out.weight_dtype = dtype_code(self.weights.dtype)
        if self.sums is not None:
            out.sums = self.sums.handle
        if self.times is not None:
            out.times = ffi.cast("const void *", address_of(self.times))
            out.time_dtype = dtype_code(self.times.dtype)
            of_nodes = lib.AETHER_TIMES_OF_NODES
            out.times_of = of_nodes if self.node_times else lib.AETHER_TIMES_OF_EDGES
        out.own_values = (
            lib.AETHER_OWN_WEIGHTS * self.own_weights | lib.AETHER_OWN_TIMES * self.own_times
        )
        if self.in_file is not None:
            weights, times, ids = self.in_file
            if weights is not None:
                out.weights_in_file = weights.handle
            if times is not None:
                out.times_in_file = times.handle
            if ids is not None:
                out.ids_in_file = ids.handle

    def check_times(self, task: Task | None = None) -> None:
        """Raise unless every list is sorted by time.

        Raises:
            InvalidArgumentError: a list is not; ``position`` is the first such node.
        """
        relation = ffi.new("aether_relation *")
        self.fill(relation)
        err = new_error()
        code = lib.aether_check_times(relation, lend(task, 8 * self.topology.num_edges), err)
        for guard in self.all_guards():
            guard.check()
        if code:
            raise_named(code, err, self.paths())

    def paths(self) -> list[str]:
        """Return the files that lists, weights and times came from."""
        files = [self.topology.path, *(guard.path for guard in self.guards)]
        return [path for path in files if path is not None]

    def all_guards(self) -> list[FileGuard]:
        """Return the guards of the files that lists, weights and times are mapped from."""
        guard_of_lists = self.topology.guard
        return [*self.guards, *([] if guard_of_lists is None else [guard_of_lists])]


def describe_schema(relations: Sequence[NativeRelation], num_nodes: Sequence[int]) -> list[Any]:
    """Return the ``aether_schema *`` for a call that makes a sampler, then what it points to."""
    rows = ffi.new("aether_relation[]", len(relations))
    for row, relation in zip(rows, relations, strict=True):
        relation.fill(row)
    counts = ffi.new("uint64_t[]", list(num_nodes))
    return [sized("aether_schema", rows, counts, len(relations), len(num_nodes)), rows, counts]


def guards_of(relations: Sequence[NativeRelation]) -> list[FileGuard]:
    """Return the guards of all files that the relations are mapped from, each once."""
    return list(dict.fromkeys(g for r in relations for g in r.all_guards()))


def hand_over(
    retarget: Any,
    handle: Any,
    relations: Sequence[NativeRelation],
    num_nodes: Sequence[int],
    err: Any,
) -> None:
    """Have ``retarget``, a function of the C core, give a handle other relations."""
    schema = describe_schema(relations, num_nodes)
    code = retarget(handle, schema[0], err)
    if code:
        raise_error(code, err)


class NativeSampler:
    """Workspace and options of a sampler; used by one thread at a time.

    Args:
        relations: the edge types, in the order in which a hop visits them.
        num_nodes: number of nodes by node type.
        fanouts: fanouts by edge type and hop.
        flags: ``SAMPLE_*``, combined.
        num_threads: 1 is the calling thread, 0 all threads of the pool.
    """

    __slots__ = (
        "_err",
        "_fanouts",
        "_guards",
        "_handle",
        "_numbers",
        "_options",
        "_packing",
        "_seeds",
        "_shape",
        "_size",
        "_vectors",
        "num_types",
        "own_lists",
        "relations",
    )

    def __init__(
        self,
        relations: Sequence[NativeRelation],
        num_nodes: Sequence[int],
        fanouts: Sequence[Sequence[int]],
        flags: int,
        num_threads: int,
    ) -> None:
        self._handle: Any = None
        #: Lists that it takes again for its next sample, if they were pinned for it alone.
        self.own_lists: OwnLists | None = None
        self.relations = tuple(relations)
        self.num_types = len(num_nodes)
        self._guards = guards_of(relations)
        hops = len(fanouts[0]) if fanouts else 0
        self._shape = SampleShape(
            self.num_types, len(relations), hops, bool(flags & SAMPLE_DISJOINT)
        )
        self._fanouts = ffi.new("int64_t[]", [k for row in fanouts for k in row])
        self._options = ffi.new("aether_sample_options *")
        self._options.fanouts = self._fanouts
        self._options.num_hops = hops
        self._options.flags = flags
        self._options.num_threads = num_threads
        self._seeds = ffi.new("aether_seeds[]", self.num_types)
        self._numbers = SampleNumbers(self._shape)
        self._vectors = RecycledVectors()
        self._err = new_error()
        self._packing: Any = None
        self._size = ffi.new("uint64_t *")
        schema = describe_schema(relations, num_nodes)
        out = ffi.new("aether_sampler **")
        code = lib.aether_sampler_create_typed(schema[0], out, self._err)
        if code:
            raise_error(code, self._err)
        self._handle = ffi.gc(out[0], lib.aether_sampler_destroy)

    def retarget(self, relations: Sequence[NativeRelation], num_nodes: Sequence[int]) -> None:
        """Go on with other relations and numbers of nodes, say of the next snapshot of a graph.

        The workspace stays. Nothing of the relations before is used any more.

        Raises:
            InvalidArgumentError: the relations or node types are not as many as before, or do not
                fit each other; the sampler goes on with those that it has.
        """
        hand_over(lib.aether_sampler_retarget, self._handle, relations, num_nodes, self._err)
        self.relations, self._guards = tuple(relations), guards_of(relations)

    def forget(self) -> None:
        """Let go of the relations, until :meth:`retarget` brings others."""
        self.relations, self._guards, self.own_lists = (), [], None

    def rest(self) -> None:
        """Let the lists of its own rest, until :meth:`wake`; without them, let go of all."""
        if self.own_lists is None:
            self.forget()
            return
        self._guards = []
        self.own_lists.rest()

    def wake(self, relations: Sequence[NativeRelation]) -> bool:
        """Go on with lists of its own that were pinned for ``relations``, as of the last commit.

        False: it has none, or others are needed; it has let go of them.
        """
        lists, self.own_lists = self.own_lists, None
        if lists is None or not lists.are_of(relations) or not lists.wake():
            self.forget()
            return False
        if lists.pinned.relations is self.relations:
            self._guards = guards_of(self.relations)
        else:  # there are more nodes
            self.retarget(*lists.pinned)
        self.own_lists = lists
        return True

    @property
    def memory(self) -> int:
        """Bytes of the workspace, and of arrays that are kept for the next samples."""
        return int(lib.aether_sampler_memory(self._handle)) + self._vectors.idle_bytes

    def sample(
        self,
        seeds: Sequence[Ids],
        key: int,
        since: Sequence[Ids | None] | None = None,
        until: Sequence[Ids | None] | None = None,
        exclude: Sequence[Ids | None] | None = None,
    ) -> NativeSample:
        """Sample around ``seeds`` (contiguous int64, by node type) with the 64-bit ``key``.

        ``since`` and ``until`` bound the times that the tree of each seed sees (inclusive, int64;
        float64 times as :func:`time_keys`). ``exclude`` has, for each relation, the positions in
        its lists that are left out, ascending.
        """
        self._draw(seeds, key, since, until, exclude)
        sample = self._export()
        self._end(0)
        return sample

    def sample_layers(
        self,
        seeds: Sequence[Ids],
        key: int,
        since: Sequence[Ids | None] | None = None,
        until: Sequence[Ids | None] | None = None,
        exclude: Sequence[Ids | None] | None = None,
    ) -> NativeLayers:
        """Sample in compressed form, for ``SAMPLE_LAYERED``; the arguments are :meth:`sample`'s."""
        self._draw(seeds, key, since, until, exclude)
        sources = [relation.source for relation in self.relations]
        layers = export_layers(
            self._handle,
            self._shape,
            self._numbers,
            sources,
            self._vectors.empty,
            self._err,
            self._end,
        )
        self._end(0)
        return layers

    def _draw(
        self,
        seeds: Sequence[Ids],
        key: int,
        since: Sequence[Ids | None] | None,
        until: Sequence[Ids | None] | None,
        exclude: Sequence[Ids | None] | None,
    ) -> None:
        """Draw a sample, which stays in the native sampler until it is exported."""
        lent = self._lend(seeds, key, since, until, exclude)
        self._begin()
        code = lib.aether_sample_typed(
            self._handle,
            self._seeds,
            self._options,
            self._numbers.handle,
            self._err,
        )
        del lent
        if code:
            self._end(code)

    def _lend(
        self,
        seeds: Sequence[Ids],
        key: int,
        since: Sequence[Ids | None] | None,
        until: Sequence[Ids | None] | None,
        exclude: Sequence[Ids | None] | None,
    ) -> list[Any]:
        """Fill the seeds and options of a call; hold the result during it, it keeps the arrays."""
        options = self._options
        options.key = key
        options.task = thread_task()
        lent = [lend_seeds(self._seeds[t], t, seeds, since, until) for t in range(self.num_types)]
        lent.append(lend_excluded(options, exclude))
        return lent

    def pack(
        self,
        seeds: Sequence[Ids],
        key: int,
        since: Sequence[Ids | None] | None,
        until: Sequence[Ids | None] | None,
        packing: NativePacking,
        out: NDArray[np.uint8],
    ) -> int:
        """Sample as :meth:`sample` does, and write the result in bytes to ``out``.

        Returns:
            The bytes that it takes. If those are more than ``out`` has, nothing was written, and
            :meth:`pack_again` writes them.
        """
        lent = self._lend(seeds, key, since, until, None)
        size, packed = self._size, self._describe(packing)
        self._begin()
        if packing.guards:
            begin_read(packing.guards[0])
        code = lib.aether_sample_packed(
            self._handle, self._seeds, self._options, packed, ffi.from_buffer(out), len(out), size,
            self._err,
        )  # fmt: skip
        del lent
        for guard in packing.guards:
            guard.check()
        self._end(code)
        return int(size[0])

    def pack_again(self, key: int, packing: NativePacking, out: NDArray[np.uint8]) -> None:
        """Write the last sample, drawn with ``key``, to ``out``, of just its size."""
        if packing.guards:
            begin_read(packing.guards[0])
        code = lib.aether_sample_pack(
            self._handle, key, self._describe(packing), ffi.from_buffer(out), len(out), self._err
        )
        for guard in packing.guards:
            guard.check()
        self._end(code)

    def _describe(self, packing: NativePacking) -> Any:
        """Return the ``aether_packing *`` of a form, with this sampler's numbers."""
        packed = self._packing
        if packed is None:
            packed = self._packing = ffi.new("aether_packing *")
            packed.counts = self._numbers.handle
            packed.num_hops = self._options.num_hops
        assert packing.num_hops == packed.num_hops
        packed.parts, packed.num_parts = packing.parts, packing.num_parts
        packed.commit = packing.commit
        return packed

    def sample_hgt(
        self, seeds: Sequence[Ids], key: int, num_samples: Sequence[Sequence[int]], limit: int
    ) -> NativeSample:
        """Sample ``num_samples`` nodes by node type and hop, and all edges among them.

        Of a list longer than ``limit`` (0: no limit), ``limit`` entries count in a hop. The fanouts
        and flags of this sampler play no part.
        """
        hops = len(num_samples[0]) if num_samples else 0
        counts = ffi.new("int64_t[]", [k for row in num_samples for k in row])
        options = ffi.new("aether_hgt_options *", (key, counts, hops, limit, thread_task()))
        hop_nodes = ffi.new("uint64_t[]", self.num_types * (hops + 1))
        numbers = ffi.new("aether_sample_counts *", self._numbers.handle[0])
        numbers.hop_nodes = hop_nodes
        lent = [lend_seeds(self._seeds[t], t, seeds, None, None) for t in range(self.num_types)]
        self._begin()
        code = lib.aether_sample_hgt(
            self._handle,
            self._seeds,
            options,
            numbers,
            self._err,
        )
        del lent
        if code:
            self._end(code)
        sample = self._export()
        self._end(0)
        rows = [list(hop_nodes[t * (hops + 1) : (t + 1) * (hops + 1)]) for t in range(len(seeds))]
        return sample._replace(hop_nodes=rows, hop_edges=[])

    def _begin(self) -> None:
        if self._guards:
            begin_read(self._guards[0])

    def _end(self, code: int) -> None:
        for guard in self._guards:
            guard.check()
        if code:
            raise_named(code, self._err, [p for r in self.relations for p in r.paths()])

    def _export(self) -> NativeSample:
        return export_sample(
            self._handle, self._shape, self._numbers, self._vectors.empty, self._err, self._end
        )


def lend_seeds(
    out: Any,
    number: int,
    seeds: Sequence[Ids],
    since: Sequence[Ids | None] | None,
    until: Sequence[Ids | None] | None,
) -> tuple[Any, ...]:
    """Fill the ``aether_seeds`` of a type; hold the result during the call, it keeps the arrays."""
    ids = seeds[number]
    out.count = len(ids)
    out.ids = kept_ids = ffi.from_buffer("int64_t[]", ids)
    out.since = kept_since = _lend_bounds(since, number, len(ids))
    out.until = kept_until = _lend_bounds(until, number, len(ids))
    return kept_ids, kept_since, kept_until


def _lend_bounds(bounds: Sequence[Ids | None] | None, number: int, count: int) -> Any:
    values = None if bounds is None else bounds[number]
    if values is None:
        return ffi.NULL
    assert len(values) == count
    return ffi.from_buffer("int64_t[]", values)


def lend_excluded(options: Any, exclude: Sequence[Ids | None] | None) -> Any:
    """Fill ``options.exclude``; hold the result during the call, it keeps the arrays alive."""
    if exclude is None or not any(e is not None and len(e) for e in exclude):
        options.exclude = ffi.NULL
        return None
    rows = ffi.new("aether_excluded[]", len(exclude))
    lent: list[Any] = [rows]
    for row, positions in zip(rows, exclude, strict=True):
        if positions is not None:
            lent.append(ffi.from_buffer("uint64_t[]", positions))
            row.positions, row.count = lent[-1], len(positions)
    options.exclude = rows
    return lent


def time_keys(times: NDArray[Any]) -> Ids:
    """Return times as int64 in the same order: unchanged, or mapped by the core if float64."""
    if times.dtype != np.float64:
        return np.ascontiguousarray(times, np.int64)
    values = np.ascontiguousarray(times)
    out = np.empty(len(values), np.int64)
    lib.aether_time_of_double(
        ffi.from_buffer("double[]", values), len(values), ffi.from_buffer("int64_t[]", out)
    )
    return out


def rng_draws(
    key: int, hop: int, relation: int, node: int, seed: int, count: int
) -> NDArray[np.uint64]:
    """Return draws of the stream (key, hop, relation, node, seed), for oracles and tests."""
    out = np.empty(count, np.uint64)
    lib.aether_rng_draws(key, hop, relation, node, seed, count, ffi.from_buffer("uint64_t[]", out))
    return out


def hash_ids(ids: Ids) -> int:
    """Return a uint64 hash of contiguous int64 ids; their order and number matter."""
    return int(lib.aether_hash_ids(ffi.from_buffer("int64_t[]", ids), len(ids)))


def hash_id_set(ids: Ids) -> int:
    """Return an order-independent variant of :func:`hash_ids`."""
    return int(lib.aether_hash_id_set(ffi.from_buffer("int64_t[]", ids), len(ids)))
