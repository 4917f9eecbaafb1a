"""Pages that batches touch, in the order that a graph has and in another one, from samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph._checks.arrays import as_ids
from aethergraph.graph.graph import Graph
from aethergraph.graph.permute import Permutation
from aethergraph.sampling.neighbor import NeighborSampler

__all__ = ["PAGE_BYTES", "BatchPages", "Locality", "measure_locality"]

Ids = NDArray[np.int64]
PAGE_BYTES = 4096


class BatchPages(NamedTuple):
    """Means over batches: nodes, and pages of 4 KiB of lists and of features that they touch."""

    nodes: float
    list_pages: float
    feature_pages: float


class Locality(NamedTuple):
    """Pages that batches touch before and after a permutation.

    Aligned seeds are consecutive ids in the order at hand; shuffled seeds are random, and the
    same before and after.
    """

    shuffled_before: BatchPages
    shuffled_after: BatchPages
    aligned_before: BatchPages
    aligned_after: BatchPages


def measure_locality(
    graph: Graph,
    perm: ArrayLike,
    fanouts: Sequence[int] = (15, 10),
    *,
    batch_size: int = 1024,
    batches: int = 20,
    row_bytes: int = 512,
    seed: int = 0,
) -> Locality:
    """Sample some batches, and count the pages that they touch in both orders.

    The graph is not permuted: what a batch touches is translated.

    Args:
        graph: a graph with in-neighbours (layout "csc" or "both").
        perm: old id of each new one, as :meth:`aethergraph.Graph.reorder` gives it.
        fanouts: neighbours drawn per hop.
        batch_size: seeds of a batch.
        batches: number of batches of each kind.
        row_bytes: bytes of a row of features.
        seed: seed of the batches and draws.

    Raises:
        InvalidArgumentError, OutOfRangeError: ``perm`` is no permutation of the nodes.
        LayoutError: the graph has no in-neighbours.
    """
    order = Permutation.checked(as_ids(perm, "perm"), graph.num_nodes)
    view = _Pages(graph, order, row_bytes)
    sampler = NeighborSampler(graph, list(fanouts), seed=seed)
    count = graph.num_nodes
    size = min(batch_size, count)
    rng = np.random.default_rng(seed)
    shuffled = [rng.choice(count, size, replace=False) for _ in range(batches)]
    starts = rng.integers(0, max(1, count - size + 1), batches)
    ranges = [np.arange(start, start + size) for start in starts]
    samples = [sampler.sample(seeds, key) for key, seeds in enumerate(shuffled)]
    return Locality(
        _mean([view.before(sample) for sample in samples]),
        _mean([view.after(sample) for sample in samples]),
        _mean([view.before(sampler.sample(seeds, key)) for key, seeds in enumerate(ranges)]),
        _mean([
            view.after(sampler.sample(order.old[seeds], key)) for key, seeds in enumerate(ranges)
        ]),
    )  # fmt: skip


class _Pages:
    def __init__(self, graph: Graph, order: Permutation, row_bytes: int) -> None:
        indptr, indices = graph.csc()
        self._begins = indptr[:-1]
        self._new = order.new
        lengths = np.diff(indptr)[order.old]
        self._new_begins = np.cumsum(lengths) - lengths
        self._id_bytes = indices.dtype.itemsize
        self._row_bytes = row_bytes

    def before(self, sample: Any) -> BatchPages:
        return self._count(sample.node, sample.edge)

    def after(self, sample: Any) -> BatchPages:
        old = sample.node[sample.col]
        places = sample.edge - self._begins[old].astype(np.int64)
        places += self._new_begins[self._new[old]].astype(np.int64)
        return self._count(self._new[sample.node].astype(np.int64), places)

    def _count(self, nodes: Ids, places: Ids) -> BatchPages:
        first = nodes * self._row_bytes // PAGE_BYTES
        last = ((nodes + 1) * self._row_bytes - 1) // PAGE_BYTES
        rows = np.concatenate([first + step for step in range(int((last - first).max()) + 1)])
        rows = np.minimum(rows, np.tile(last, len(rows) // len(last)))
        lists = np.unique(places * self._id_bytes // PAGE_BYTES)
        return BatchPages(len(nodes), len(lists), len(np.unique(rows)))


def _mean(pages: list[BatchPages]) -> BatchPages:
    return BatchPages(*(float(some) for some in np.mean(np.array(pages), axis=0)))
