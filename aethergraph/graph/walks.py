"""Random walks as methods of a graph, under the names that GraphZero gave them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph.protocols import HomogeneousGraph

__all__ = ["WalksByBatch"]

Ids = NDArray[np.int64]


class WalksByBatch(HomogeneousGraph):
    """Part of ``Graph``; :class:`aethergraph.RandomWalker` has all options of walks."""

    def batch_random_walk_uniform(
        self, start_nodes: ArrayLike, walk_length: int, key: int | None = None
    ) -> Ids:
        """Walk uniformly along out-edges; :class:`RandomWalker` has all options of walks.

        Edge weights play no part, as in GraphZero. A walk that comes to a dead end stays there.

        Args:
            start_nodes: integer vector [n].
            walk_length: number of steps.
            key: the same key gives the same walks. None: a new key per call, from the number of
                such calls in this process.

        Returns:
            int64 [n, walk_length + 1]; column 0 holds the starts.

        Raises:
            LayoutError: layout is "csc".
            OutOfRangeError: a start is not a node; names the first one.
        """
        from aethergraph.sampling.walks import batch_walk

        return batch_walk(self, start_nodes, walk_length, key=key)

    def batch_random_walk(
        self,
        start_nodes: ArrayLike,
        walk_length: int,
        p: float = 1.0,
        q: float = 1.0,
        key: int | None = None,
    ) -> Ids:
        """Walk along out-edges as node2vec does, by edge weight if the graph has weights.

        Differs from :meth:`batch_random_walk_uniform` by a return parameter ``p`` and an in-out
        parameter ``q``. The tables that ``q`` and weights need are made in the first call and kept
        with the graph (see :class:`RandomWalker`).

        Args:
            start_nodes: integer vector [n].
            walk_length: number of steps.
            p: return parameter, above 0.
            q: in-out parameter, above 0.
            key: see :meth:`batch_random_walk_uniform`.

        Returns:
            int64 [n, walk_length + 1]; column 0 holds the starts.

        Raises:
            LayoutError: layout is "csc".
            OutOfRangeError: a start is not a node; names the first one.
            InvalidArgumentError: p or q is not above 0.
        """
        from aethergraph.sampling.walks import batch_walk

        weighted = self.edge_weight is not None
        return batch_walk(self, start_nodes, walk_length, p=p, q=q, weighted=weighted, key=key)

    def batch_random_fanout(self, start_nodes: ArrayLike, K: int, key: int | None = None) -> Ids:
        """Draw ``K`` distinct out-edges of each node uniformly; return the nodes they lead to.

        For a node with at most ``K`` out-edges the row has all of them, in order, then -1 (where
        GraphZero gives 0, which is a node).

        Args:
            start_nodes: integer vector [n].
            K: number of out-edges per node.
            key: see :meth:`batch_random_walk_uniform`.

        Returns:
            int64 [n, K].

        Raises:
            LayoutError: layout is "csc".
            OutOfRangeError: a start is not a node; names the first one.
        """
        from aethergraph.sampling.walks import batch_fanout

        return batch_fanout(self, start_nodes, K, key)
