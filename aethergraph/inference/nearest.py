"""VectorIndex: which rows are nearest to those of some nodes, by key.

::

    keys ──ids──> queries ──┐
                            ├──> scores with a stretch of rows ──> the best k of all so far ──> keys
    rows 0, 1, 2... ────────┘
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph._checks.arrays import as_count
from aethergraph._checks.options import as_choice, as_text, shown
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.features.adapters import as_row_source
from aethergraph.protocols import FeatureSource

if TYPE_CHECKING:
    from aethergraph.dynamic.keys import NodeIds
    from aethergraph.ids import IdMap

__all__ = ["VectorIndex"]

Ids = NDArray[np.int64]
Scores = NDArray[np.float32]
#: Bytes of a stretch of rows, and of its scores, about; rows of it at most, and at least.
_PART_BYTES, _MOST_ROWS, _LEAST_ROWS = 32 << 20, 1 << 16, 256
#: Rows that an index of FAISS learns from at most.
_TRAINED = 1 << 18


class VectorIndex:
    """Vectors of nodes, asked for those that are nearest to others.

    ::

        index = VectorIndex(table, graph.ids)
        keys, scores = index.search(["ann"], 3)      # ann herself, and the two nearest to her
        print(keys[0], scores[0])

    A search compares each query with all rows, in numpy and exactly. It reads the rows once, some
    at a time: about 100 MB of memory, whatever their number. For many searches among many rows an
    index of FAISS is faster, which has all rows in memory.

    Args:
        rows: the vectors, in the order of the ids, such as what :func:`embed` returns.
        ids: keys of the nodes, as ``graph.ids`` or ``typed.ids["user"]`` has them; None: nodes are
            named by number.
        metric: what a score is: ``"cosine"`` of the angle, or ``"dot"``, the inner product.
        faiss: an index of FAISS, in the words of its ``index_factory``: ``"HNSW32"``,
            ``"IVF1024,Flat"``. It is made now; its results are near the exact ones. None: none.

    Attributes:
        faiss: the index of FAISS, whose own options may be set, or None.

    Raises:
        InvalidArgumentError: a bad argument; as many keys as rows are needed.
        UnsupportedError: FAISS is not installed.
    """

    def __init__(
        self,
        rows: FeatureSource | ArrayLike,
        ids: IdMap | NodeIds | None = None,
        *,
        metric: Literal["cosine", "dot"] = "cosine",
        faiss: str | None = None,
    ) -> None:
        self._source = as_row_source(rows, "rows")
        if len(self._source.row_shape) != 1:
            raise InvalidArgumentError(
                f"rows has rows of shape {tuple(self._source.row_shape)}, not vectors"
            )
        if ids is not None and not hasattr(ids, "lookup"):
            raise InvalidArgumentError(f"ids = {shown(ids)} is no map of ids, such as graph.ids")
        if ids is not None and len(ids) != len(self):
            raise InvalidArgumentError(
                f"rows has {len(self):,} rows, but ids has {len(ids):,} keys"
            )
        self._ids = ids
        self._is_cosine = as_choice(metric, ("cosine", "dot"), "metric") == "cosine"
        description = as_text(faiss, "faiss")
        self.faiss: Any = None if description is None else self._make_faiss(description)

    def __len__(self) -> int:
        return self._source.num_rows

    def search(
        self, keys: Any = None, k: int = 10, *, vectors: ArrayLike | None = None
    ) -> tuple[Any, Scores]:
        """Return what is nearest to the rows of some nodes, or to other vectors, best first.

        A node is nearest to itself. Of equal scores the lower id comes first.

        Args:
            keys: keys of nodes, as ``ids.lookup()`` takes them; without ``ids`` their numbers.
            k: results for each of them, fewer if there are not so many rows.
            vectors: [n, width], in place of keys.

        Returns:
            For each query what ``ids.keys()`` returns, without ``ids`` int64 [n, k]; and scores,
            float32 [n, k]. Where an index of FAISS finds fewer, keys are fewer, numbers -1, and
            scores the lowest number.

        Raises:
            InvalidArgumentError: keys and vectors, or neither; vectors of another width.
            OutOfRangeError: a key that no node has; names the first one and its position.
        """
        if (keys is None) == (vectors is None):
            raise InvalidArgumentError("give keys or vectors, one of them")
        if as_count(k, "k") < 1:
            raise InvalidArgumentError(f"k = {k} is not at least 1")
        if vectors is None:
            queries = self._gather(keys if self._ids is None else self._ids.lookup(keys))
        else:
            queries = self._as_vectors(vectors)
        queries = self._scaled(queries)
        k = min(int(k), len(self))
        if self.faiss is None or not len(self):
            nodes, scores = self._search_all(queries, k)
        else:
            scores, nodes = self.faiss.search(queries, k)
        if self._ids is None:
            return nodes, scores
        return [self._ids.keys(of_query[of_query >= 0]) for of_query in nodes], scores

    def _as_vectors(self, vectors: ArrayLike) -> Scores:
        array, width = np.asarray(vectors), self._source.row_shape[0]
        if array.ndim != 2 or array.shape[1] != width or array.dtype.kind not in "iuf":
            raise InvalidArgumentError(
                f"vectors has shape {array.shape} of {array.dtype}: give rows of {width} numbers, "
                f"(n, {width})"
            )
        return np.ascontiguousarray(array, np.float32)

    def _gather(self, nodes: Any) -> Scores:
        dtype = "float32" if self._source.dtype_name == "bfloat16" else None
        return self._source.gather(nodes, dtype=dtype).astype(np.float32, copy=False)

    def _scaled(self, rows: Scores) -> Scores:
        """Return rows whose inner products are the scores."""
        return rows / _lengths(rows)[:, None] if self._is_cosine else rows

    def _search_all(self, queries: Scores, k: int) -> tuple[Ids, Scores]:
        """Return the best nodes among all rows, and their scores."""
        nothing = np.empty(0, np.int64), np.empty(0, np.float32)
        best = [nothing for _ in queries]
        widest = max(queries.shape[1], len(queries), 1)
        step = min(max(_PART_BYTES // (4 * widest), _LEAST_ROWS), _MOST_ROWS)
        for begin in range(0, len(self) if len(queries) else 0, step):
            rows = self._gather(np.arange(begin, min(begin + step, len(self))))
            scores = queries @ rows.T
            if self._is_cosine:
                scores /= _lengths(rows)
            scores[np.isnan(scores)] = -np.inf
            best = [
                _best_of(*of_query, begin, row, k)
                for of_query, row in zip(best, scores, strict=True)
            ]
        nodes = np.array([of_query[0] for of_query in best], np.int64).reshape(len(best), k)
        return nodes, np.array([of_query[1] for of_query in best], np.float32).reshape(nodes.shape)

    def _make_faiss(self, description: str) -> Any:
        """Return an index of FAISS with all rows."""
        try:
            library = import_module("faiss")
        except ImportError as error:
            raise UnsupportedError(
                f"faiss = {description!r} needs FAISS: pip install faiss-cpu ({error}), or leave "
                "it out"
            ) from None
        count, width = len(self), self._source.row_shape[0]
        try:
            index = library.index_factory(width, description, library.METRIC_INNER_PRODUCT)
            if not index.is_trained:
                some = np.linspace(0, max(count - 1, 0), min(count, _TRAINED)).astype(np.int64)
                index.train(self._scaled(self._gather(some)))
        except RuntimeError as error:
            raise InvalidArgumentError(
                f"faiss = {description!r}: FAISS makes no such index of {count:,} rows of {width}: "
                f"{error}"
            ) from None
        for begin in range(0, count, _MOST_ROWS):
            nodes = np.arange(begin, min(begin + _MOST_ROWS, count))
            index.add(self._scaled(self._gather(nodes)))
        return index


def _lengths(rows: Scores) -> Scores:
    """Return the length of each row, 1 for those of zeros, which have no direction."""
    lengths: Scores = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    lengths[lengths == 0] = 1
    return lengths


def _best_of(nodes: Ids, scores: Scores, begin: int, added: Scores, k: int) -> tuple[Ids, Scores]:
    """Return the best of some nodes, which are in order, and of those that follow.

    Args:
        nodes: the best so far, all below ``begin``.
        scores: their scores.
        begin: the first of the nodes that follow.
        added: their scores.
        k: how many are wanted.
    """
    at = np.flatnonzero(added > scores[-1]) if len(scores) == k else np.arange(len(added))
    if len(at) > k:
        limit = np.partition(added[at], len(at) - k)[len(at) - k]
        at = at[added[at] >= limit]
    all_scores = np.concatenate([scores, added[at]])
    order = np.argsort(-all_scores, kind="stable")[:k]
    return np.concatenate([nodes, begin + at])[order], all_scores[order]
