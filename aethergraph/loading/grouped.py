"""grouped_map: prefetch_map for samplers that make the samples of several batches at once.

    items -> [ prepare, prepare, ... | sample the group ] -> [ complete one, finish it ] -> results
                           a background thread                a background thread

While the batches of one group are completed and used, the next group is read from disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import Any, TypeVar

from aethergraph import _native as native
from aethergraph._parallel.prefetch import PrefetchIterator, prefetch_map
from aethergraph._tracepoints import stage
from aethergraph.sampling.groups import EdgeColumns, SampleGroups

__all__ = ["grouped_map"]

T = TypeVar("T")
C = TypeVar("C")
R = TypeVar("R")


def grouped_map(
    prepare: Callable[[T], tuple[C, native.NativeBatch]],
    finish: Callable[[C, native.NativeSample], R],
    items: Iterable[T],
    groups: SampleGroups[native.NativeSample],
    *,
    num_seeds: int,
    columns: EdgeColumns = (),
    reading: Callable[[Any], AbstractContextManager[Any]] = nullcontext,
    num_threads: int = 1,
    depth: int = 2,
) -> PrefetchIterator[Any, R]:
    """Return ``finish(call, sample of batch)`` for ``(call, batch) = prepare(item)`` of every item.

    Args:
        prepare: returns what ``finish`` needs beside the sample, and what to sample for an item.
        finish: makes the result.
        items: the items, read as many at a time as a group has samples.
        groups: makes the samples.
        num_seeds: approximate number of seeds of a batch.
        columns: values of edges that ``finish`` gathers, read with the samples.
        reading: lets a thread see one commit of a graph that changes: the one that it gave for the
            group, or for None another one, which it gives.
        num_threads: 0 does everything in the consumer's thread; otherwise there are two threads.
        depth: most results computed ahead, beside the group being sampled.
    """
    threads = min(num_threads, 1)  # one each: a group is completed in order
    rest = iter(items)

    def chunks() -> Iterator[list[T]]:
        while chunk := list(islice(rest, groups.size(num_seeds, 1 + threads, columns))):
            yield chunk

    def sample(chunk: list[T]) -> tuple[int, Any, Iterator[tuple[C, native.NativeSample]]]:
        with stage("sample"), reading(None) as commit:
            prepared = [prepare(item) for item in chunk]
            samples = groups.sample([batch for _, batch in prepared], columns)
        return len(chunk), commit, zip((call for call, _ in prepared), samples, strict=True)

    def tickets() -> Iterator[tuple[Any, Iterator[tuple[C, native.NativeSample]]]]:
        with prefetch_map(sample, chunks(), num_threads=threads, depth=1) as made:
            for count, commit, samples in made:
                for _ in range(count):
                    yield commit, samples

    def complete(ticket: tuple[Any, Iterator[tuple[C, native.NativeSample]]]) -> R:
        commit, samples = ticket
        with stage("batch"), reading(commit):
            return finish(*next(samples))

    return prefetch_map(complete, tickets(), num_threads=threads, depth=depth)
