"""Negative links: both ends drawn, on request without any that is an edge.

Source followed: ``torch_geometric/sampler/neighbor_sampler.py`` (``edge_sample``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch_geometric.sampler import NegativeSampling

from aethergraph.errors import InvalidArgumentError
from aethergraph.pyg._negative_nodes import NegativeNodes, count_negatives

if TYPE_CHECKING:
    from aethergraph.protocols import Adjacency

__all__ = ["NegativeLinks"]

#: Rounds in which links that turn out to be edges are drawn again, for triplets (whose sources
#: stay) and for binary links; then the rest is drawn among the nodes that are left. Drawing again
#: is exact. Binary links are left after so many rounds only where nearly all pairs are edges; then
#: sources with few other nodes left come more often than they should.
_ROUNDS = {"triplet": 20, "binary": 1000}

#: Sources that are tried at the end for each binary negative.
_SOURCES = 100

#: Pairs of a source and a node that are looked up at once, to bound memory.
_PAIRS = 1 << 20


class NegativeLinks:
    """Random negative links from ``sources`` to ``targets``.

    Args:
        sources: nodes that sources of links are drawn from.
        targets: nodes that destinations of links are drawn from.
        edges: draw no link that is one of these; None: links that exist may be hit, as in PyG.
    """

    def __init__(
        self, sources: NegativeNodes, targets: NegativeNodes, edges: Adjacency | None
    ) -> None:
        self._nodes = {"src": sources, "dst": targets}
        self._edges = edges

    def draw(
        self,
        ends: tuple[Tensor, Tensor],
        neg_sampling: NegativeSampling,
        generator: torch.Generator,
        until: tuple[Tensor | None, Tensor | None] = (None, None),
    ) -> list[Tensor]:
        """Draw negative links and append them to ``ends``; for triplets the destinations only.

        Negative ``i`` belongs to link ``i % P``: it has its time, and for triplets its source.

        Args:
            ends: sources and destinations of the positive links, int64 [P].
            neg_sampling: PyG's description: mode, amount and weights.
            generator: source of random numbers.
            until: latest time key that each positive link sees [P], for either side, or None.

        Raises:
            InvalidArgumentError: a link whose source has an edge to every node that may be drawn.
        """
        pairs = len(ends[0])
        count = count_negatives(pairs, neg_sampling)
        link = torch.arange(count) % max(1, pairs)
        bounds = {
            side: None if keys is None else keys[link]
            for side, keys in zip(("src", "dst"), until, strict=True)
        }
        sides = ("src", "dst") if neg_sampling.is_binary() else ("dst",)
        drawn = {"src": ends[0][link]} if neg_sampling.is_triplet() else {}
        for side in sides:
            nodes = self._nodes[side]
            drawn[side] = nodes.draw(neg_sampling, side, count, generator, bounds[side])
        if self._edges is not None and count:
            self._avoid(self._edges, drawn, sides, neg_sampling, generator, bounds)
        return [
            torch.cat([end, drawn[side]]) if side in sides else end
            for end, side in zip(ends, ("src", "dst"), strict=True)
        ]

    def _avoid(
        self,
        edges: Adjacency,
        drawn: dict[str, Tensor],
        sides: tuple[str, ...],
        neg_sampling: NegativeSampling,
        generator: torch.Generator,
        bounds: dict[str, Tensor | None],
    ) -> None:
        """Replace, in place, drawn links that are edges."""
        left = torch.arange(len(drawn["dst"]))
        for _ in range(_ROUNDS[neg_sampling.mode.value]):
            left = left[self._is_edge(edges, drawn["src"][left], drawn["dst"][left])]
            if not len(left):
                return
            for side in sides:
                drawn[side][left] = self._again(side, left, neg_sampling, generator, bounds)
        left = left[self._is_edge(edges, drawn["src"][left], drawn["dst"][left])]
        for _ in range(_SOURCES if "src" in sides else 1):
            is_drawn = self._draw_left(edges, left, drawn, neg_sampling, generator, bounds)
            left = left[~is_drawn]
            if not len(left):
                return
            if "src" in sides:
                drawn["src"][left] = self._again("src", left, neg_sampling, generator, bounds)
        if "src" in sides:
            raise InvalidArgumentError(
                "true_negatives: nearly all pairs of nodes that could be negatives have an edge; "
                "take true_negatives=False"
            )
        raise InvalidArgumentError(
            f"true_negatives: node {int(drawn['src'][left[0]])} has an edge to every node that "
            "could be a negative destination; leave it out of the links, or take "
            "true_negatives=False"
        )

    def _is_edge(self, edges: Adjacency, src: Tensor, dst: Tensor) -> Tensor:
        return torch.from_numpy(edges.has_edges(src.numpy(), dst.numpy()))

    def _again(
        self,
        side: str,
        left: Tensor,
        neg_sampling: NegativeSampling,
        generator: torch.Generator,
        bounds: dict[str, Tensor | None],
    ) -> Tensor:
        bound = bounds[side]
        until = None if bound is None else bound[left]
        return self._nodes[side].draw(neg_sampling, side, len(left), generator, until)

    def _draw_left(
        self,
        edges: Adjacency,
        left: Tensor,
        drawn: dict[str, Tensor],
        neg_sampling: NegativeSampling,
        generator: torch.Generator,
        bounds: dict[str, Tensor | None],
    ) -> Tensor:
        """Draw destinations of these links among the nodes that their sources have no edge to.

        Returns:
            Bool [len(left)]: whether there is such a node.
        """
        nodes = self._nodes["dst"]
        targets = nodes.candidates(neg_sampling, "dst")
        is_drawn = torch.zeros(len(left), dtype=torch.bool)
        step = max(1, _PAIRS // max(1, len(targets)))
        for at in range(0, len(left), step):
            links = left[at : at + step]
            bound = bounds["dst"]
            until = None if bound is None else bound[links]
            chances = nodes.chances(neg_sampling, "dst", targets, until)
            chances = chances.expand(len(links), -1)
            src = drawn["src"][links].repeat_interleave(len(targets))
            is_edge = self._is_edge(edges, src, targets.repeat(len(links)))
            bounds_of = chances.masked_fill(is_edge.view(len(links), -1), 0.0).cumsum(1)
            total = bounds_of[:, -1:].contiguous()
            points = torch.rand(len(links), 1, generator=generator, dtype=torch.float64) * total
            # A product may round up to the total: then take the last node with a positive chance.
            last = torch.searchsorted(bounds_of, total)
            chosen = torch.searchsorted(bounds_of, points, right=True).minimum(last)
            free = total[:, 0] > 0
            is_drawn[at : at + step] = free
            drawn["dst"][links[free]] = targets[chosen[free, 0]]
        return is_drawn
