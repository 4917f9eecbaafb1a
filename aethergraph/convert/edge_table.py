"""Edge tables with reverse edges added, or with repetitions left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from aethergraph import _native as native
from aethergraph.convert.readers.base import ProgressFn
from aethergraph.convert.readers.edges import EdgeTable

__all__ = ["drop_duplicates", "with_reverses"]

Array = npt.NDArray[Any]


def with_reverses(table: EdgeTable) -> EdgeTable:
    """Append to the edges the reverse of each that is not a self-loop."""
    back = np.flatnonzero(table.src != table.dst)

    def twice(array: Array | None) -> Array | None:
        return None if array is None else np.concatenate([array, array[back]])

    return EdgeTable(
        np.concatenate([table.src, table.dst[back]]),
        np.concatenate([table.dst, table.src[back]]),
        twice(table.weight),
        twice(table.time),
        {name: np.concatenate([a, a[back]]) for name, a in table.attrs.items()},
        table.num_nodes,
        table.unused,
    )


def drop_duplicates(table: EdgeTable, progress: ProgressFn | None = None) -> EdgeTable:
    """Keep the first of the edges with the same source and destination, in their order.

    Two stable counting sorts, by source and then by destination, bring equal edges together.
    """
    first = np.flatnonzero(_first_of_equal(table.src, table.dst, table.num_nodes, progress))

    def pick(array: Array | None) -> Array | None:
        return None if array is None else array[first]

    return EdgeTable(
        table.src[first],
        table.dst[first],
        pick(table.weight),
        pick(table.time),
        {name: array[first] for name, array in table.attrs.items()},
        table.num_nodes,
        table.unused,
    )


def _first_of_equal(
    src: Array, dst: Array, num_nodes: int, progress: ProgressFn | None
) -> npt.NDArray[np.bool_]:
    def sort(major: Array, minor: Array, half: int) -> Array:
        def report(done: int, total: int) -> None:
            if progress is not None:
                progress(half * total + done, 2 * total)

        def call(task: native.Task | None) -> Array:
            order = native.build_lists(
                major, minor, num_nodes, num_nodes, id_bytes=8, with_order=True, task=task
            )[2]
            assert order is not None
            return order

        return native.run_long(call, report, 16 * len(major))

    order = sort(src, dst, 0)
    order = order[sort(dst[order], src[order], 1)]
    some_src, some_dst = src[order], dst[order]
    new = np.ones(order.size, np.bool_)
    new[1:] = (some_src[1:] != some_src[:-1]) | (some_dst[1:] != some_dst[:-1])
    first = np.zeros(order.size, np.bool_)
    first[order[new]] = True
    return first
