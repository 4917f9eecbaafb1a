"""HGTSampler: a requested number of nodes of every type, and all edges among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count, as_ids
from aethergraph.errors import InvalidArgumentError, OutOfRangeError
from aethergraph.graph.schema import Schema
from aethergraph.protocols import HeterogeneousGraph
from aethergraph.sampling._misuse import not_a_graph
from aethergraph.sampling.base import KeyedSampler
from aethergraph.sampling.engine import DrawOptions
from aethergraph.sampling.fanouts import as_fanouts
from aethergraph.sampling.hetero import HeteroSubgraph
from aethergraph.sampling.plan import lists_of, make_plan
from aethergraph.sampling.typed_arguments import check_types, name_seed

__all__ = ["HGTSampler", "MAX_NEIGHBORS"]

MAX_NEIGHBORS: Final[int] = 50

NumSamples = Mapping[str, Sequence[int] | NDArray[Any]] | Sequence[int] | NDArray[Any]


class HGTSampler(KeyedSampler):
    """Sampler of a number of nodes of every type, chosen by their edges into the sample.

    ::

        sampler = HGTSampler(graph, {"user": [64, 64], "post": [128, 64]})
        sub = sampler.sample({"post": [3, 4]}, key=7)
        sub.node["user"], sub.row["user", "votes", "post"]

    Follows Hu, Dong, Wang and Sun, "Heterogeneous Graph Transformer", WWW 2020, algorithms 1 and 2,
    like PyG's ``HGTLoader``. Every sampled node, the seeds first, adds ``1 / degree`` to the score
    of each of its in-neighbours, for every edge type that ends at it. In each hop ``num_samples``
    nodes of every type are drawn from the nodes that have a score and are not sampled yet, without
    replacement and in proportion to the square of the score; fewer if there are not enough. The
    edges are all edges among the sampled nodes, over all edge types.

    A draw depends only on (key, hop, node type, node) and on the scores. Nodes of a hop come in the
    order of their draws, so any first part of them is a fair smaller sample.

    Args:
        graph: a graph that stores in-neighbours (layout "csc" or "both").
        num_samples: by node type, a number >= 0 per hop; missing types are not drawn. Or one list
            for all types.
        max_neighbors: most in-neighbours that a node adds to the score of, for each edge type. Of
            a node with more, that many are chosen uniformly at random and share its score. None: no
            limit. PyG's number is 50.
        seed: start of the sequence of keys for calls without a key.

    Raises:
        LayoutError: the graph stores no in-neighbours.
        InvalidArgumentError: an argument is invalid.
    """

    def __init__(
        self,
        graph: HeterogeneousGraph,
        num_samples: NumSamples,
        *,
        max_neighbors: int | None = MAX_NEIGHBORS,
        seed: int = 0,
    ) -> None:
        if not isinstance(graph, HeterogeneousGraph):
            raise not_a_graph(graph, "HeteroGraph", "HGTSampler")
        self._set_seed(seed)
        self.graph = graph
        self._types = graph.node_types
        self._kinds = graph.edge_types
        self._counts = graph.num_nodes
        self.num_samples = _typed_counts(num_samples, self._types)
        self.max_neighbors = _limit(max_neighbors)
        plan = make_plan(Schema(graph), lists_of(graph.edge_types))
        self._engine = plan.engine(native.NativeSample, (), DrawOptions())

    @property
    def num_hops(self) -> int:
        """Number of hops."""
        return max((len(row) for row in self.num_samples.values()), default=0)

    def sample(self, seeds: Mapping[str, ArrayLike], key: int | None = None) -> HeteroSubgraph:
        """Draw the subgraph around ``seeds``.

        Args:
            seeds: by node type an integer vector, which may be empty. A node that occurs several
                times has as many slots, as in :class:`aethergraph.NeighborSampler`, and adds to the
                scores once per slot.
            key: decides all draws; see :meth:`aethergraph.NeighborSampler.sample`.

        Returns:
            The nodes of every type, its seeds first, then hop by hop; ``num_sampled_nodes`` counts
            them. ``batch`` and ``num_sampled_edges`` are None.

        Raises:
            OutOfRangeError: a seed is not a node; names the first one, its type and its position.
        """
        drawn, kinds = self.draw(seeds, key), self._kinds
        return HeteroSubgraph(
            dict(zip(self._types, drawn.node, strict=True)),
            dict(zip(kinds, drawn.row, strict=True)),
            dict(zip(kinds, drawn.col, strict=True)),
            dict(zip(kinds, drawn.edge, strict=True)),
            num_sampled_nodes=dict(zip(self._types, drawn.hop_nodes, strict=True)),
        )

    def draw(self, seeds: Mapping[str, ArrayLike], key: int | None = None) -> native.NativeSample:
        """Draw the arrays of :meth:`sample`, in the graph's order of its types."""
        check_types(seeds, "seeds", self._types)
        ids = [as_ids(seeds.get(name, ()), f"seeds[{name!r}]") for name in self._types]
        if self.graph.is_live:
            self._counts = self.graph.num_nodes
        number = self._number(key)
        counts, limit = list(self.num_samples.values()), self.max_neighbors or 0
        try:
            return self._engine.run(lambda sampler: sampler.sample_hgt(ids, number, counts, limit))
        except OutOfRangeError as error:
            raise name_seed(error, ids, self._counts) from None

    @property
    def scratch_memory(self) -> int:
        """Bytes of the workspaces that no call uses at this moment."""
        return self._engine.scratch_memory

    def __repr__(self) -> str:
        return (
            f"HGTSampler({self.graph!r}, num_samples={self.num_samples}, "
            f"max_neighbors={self.max_neighbors})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.graph, self.num_samples, self.max_neighbors, self.seed)


def _rebuild(
    graph: HeterogeneousGraph,
    num_samples: dict[str, tuple[int, ...]],
    max_neighbors: int | None,
    seed: int,
) -> HGTSampler:
    return HGTSampler(graph, num_samples, max_neighbors=max_neighbors, seed=seed)


def _limit(max_neighbors: int | None) -> int | None:
    if max_neighbors is None:
        return None
    count = as_count(max_neighbors, "max_neighbors")
    if not 1 <= count < 1 << 32:
        raise InvalidArgumentError(
            f"max_neighbors = {count} is not in 1..{(1 << 32) - 1}; None takes all neighbours"
        )
    return int(count)


def _typed_counts(num_samples: NumSamples, types: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the checked numbers of samples of every node type, all of one length."""
    rule = "a number of samples is >= 0"
    if not isinstance(num_samples, Mapping):
        return dict.fromkeys(types, as_fanouts(num_samples, "num_samples", minimum=0, rule=rule))
    check_types(num_samples, "num_samples", types)
    rows = {
        name: as_fanouts(row, f"num_samples[{name!r}]", minimum=0, rule=rule)
        for name, row in num_samples.items()
    }
    hops = max((len(row) for row in rows.values()), default=0)
    for name, row in rows.items():
        if len(row) != hops:
            raise InvalidArgumentError(
                f"num_samples[{name!r}] has {len(row)} hops, another node type has {hops}: give "
                "all of them the same number, with 0 where nothing is to be drawn"
            )
    return {name: rows.get(name, (0,) * hops) for name in types}
