"""Contexts of rows: the arrays of one native call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.arrays import empty
from aethergraph._native.core import Ids, ffi, lib, new_error
from aethergraph._native.guards import begin_read, raise_named
from aethergraph._native.sampling import NativeRelation, describe_schema, guards_of
from aethergraph._native.tasks import Task, lend


class NativeContexts(NamedTuple):
    """Rows of contexts, [seeds, budget], -1 behind the last one; ``length`` is [seeds]."""

    node_type: NDArray[np.int32]
    node: Ids
    parent: NDArray[np.int32]
    depth: NDArray[np.int32]
    relation: NDArray[np.int32]
    length: Ids


class ContextOptions(NamedTuple):
    """Options of a context sampler: ``fanouts`` are by relation; below 0 takes lists whole."""

    fanouts: Sequence[int]
    budget: int
    latest: bool
    num_threads: int


def sample_contexts(
    relations: Sequence[NativeRelation],
    num_nodes: Sequence[int],
    types: NDArray[np.uint32],
    seeds: Ids,
    until: Ids | None,
    key: int,
    options: ContextOptions,
    task: Task | None = None,
) -> NativeContexts:
    """Return the contexts of ``seeds`` of the given node types.

    ``until`` has the latest time that each seed sees (int64; float64 times as ``time_keys``).
    """
    count, budget = len(seeds), options.budget
    shape, noun = (count, budget), f"{count} contexts of {budget} rows"
    out = NativeContexts(
        empty(shape, np.int32, noun),
        empty(shape, np.int64, noun),
        empty(shape, np.int32, noun),
        empty(shape, np.int32, noun),
        empty(shape, np.int32, noun),
        empty((count,), np.int64, noun),
    )
    fanouts = ffi.new("int64_t[]", list(options.fanouts))
    flags = lib.AETHER_SAMPLE_LATEST * options.latest
    lent = ffi.new(
        "aether_context_options *",
        (key, fanouts, budget, flags, options.num_threads, 0, lend(task, 28 * count * budget)),
    )
    arrays = (
        ffi.from_buffer("uint32_t[]", types),
        ffi.from_buffer("int64_t[]", seeds),
        ffi.NULL if until is None else ffi.from_buffer("int64_t[]", until),
    )
    lent_seeds = ffi.new("aether_context_seeds *", (*arrays, count))
    kinds = ("int32_t[]", "int64_t[]", "int32_t[]", "int32_t[]", "int32_t[]", "int64_t[]")
    room = [ffi.from_buffer(kind, array) for kind, array in zip(kinds, out, strict=True)]
    rows = ffi.new("aether_context_rows *", tuple(room))
    guards = guards_of(relations)
    if guards:
        begin_read(guards[0])
    err = new_error()
    schema = describe_schema(relations, num_nodes)
    code = lib.aether_sample_contexts(schema[0], lent_seeds, lent, rows, err)
    for guard in guards:
        guard.check()
    if code:
        raise_named(code, err, [path for relation in relations for path in relation.paths()])
    return out
