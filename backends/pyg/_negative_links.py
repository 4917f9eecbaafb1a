"""Negative links: drawn ends, and on request none that is an edge.

Source followed: ``torch_geometric/sampler/neighbor_sampler.py`` (``edge_sample``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch_geometric.sampler import NegativeSampling

from aethergraph.errors import InvalidArgumentError
from aethergraph.pyg._negatives import NegativeNodes, count_negatives

if TYPE_CHECKING:
    from aethergraph._adjacency import Adjacency

__all__ = ["NegativeLinks"]

#: How often links that turn out to be edges are drawn again, before the rest is drawn among the
#: nodes that are left. Of a node with edges to half of all others 1 in 2^20 comes to that.
_ROUNDS = 20

#: And of binary ones how many sources are tried then.
_SOURCES = 1000


class NegativeLinks:
    """Draws negative links from ``sources`` to ``targets``.

    Args:
        sources, targets: what the ends are drawn from.
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
        """Both ends with the drawn ones behind: of triplets the destinations only.

        Args:
            ends: sources and destinations of the positive links, int64 [P].
            neg_sampling: how many, and with which weights.
            generator: what to draw from.
            until: for either side the time key up to which each positive link sees [P], or None.

        Negative ``i`` belongs to link ``i % P``: it has its time, and of triplets its source.

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
        """Replace, in place, what is an edge."""
        left = torch.arange(len(drawn["dst"]))
        for attempt in range(_ROUNDS + 1):
            hit = edges.has_edges(drawn["src"][left].numpy(), drawn["dst"][left].numpy())
            left = left[torch.from_numpy(hit)]
            if not len(left) or attempt == _ROUNDS:
                break
            for side in sides:
                own = bounds[side]
                drawn[side][left] = self._nodes[side].draw(
                    neg_sampling, side, len(left), generator, None if own is None else own[left]
                )
        for i in left.tolist():
            one = {side: None if keys is None else keys[i : i + 1] for side, keys in bounds.items()}
            self._draw_left(edges, i, drawn, sides, neg_sampling, generator, one)

    def _draw_left(
        self,
        edges: Adjacency,
        i: int,
        drawn: dict[str, Tensor],
        sides: tuple[str, ...],
        neg_sampling: NegativeSampling,
        generator: torch.Generator,
        until: dict[str, Tensor | None],
    ) -> None:
        """Link ``i`` to a destination among the nodes that its source has no edge to."""
        chances = self._nodes["dst"].chances(neg_sampling, "dst", until["dst"])
        targets = torch.arange(len(chances)).numpy()
        for _ in range(_SOURCES if "src" in sides else 1):
            source = drawn["src"][i : i + 1]
            taken = torch.from_numpy(edges.has_edges(source.expand(len(targets)).numpy(), targets))
            left = chances.masked_fill(taken, 0.0)
            if bool((left > 0).any()):
                drawn["dst"][i] = _draw_one(left, generator)
                return
            if "src" in sides:
                draw = self._nodes["src"].draw
                drawn["src"][i : i + 1] = draw(neg_sampling, "src", 1, generator, until["src"])
        raise InvalidArgumentError(
            f"true_negatives: node {int(source)} has an edge to every node that could be a "
            "negative destination; leave it out of the links, or take true_negatives=False"
        )


def _draw_one(chances: Tensor, generator: torch.Generator) -> Tensor:
    """A position, by these chances."""
    bounds = chances.cumsum(0)
    point = torch.rand(1, generator=generator, dtype=torch.float64) * bounds[-1]
    # The product may round up to the total: then it is the last that weighs anything.
    last = torch.searchsorted(bounds, bounds[-1:])
    return torch.searchsorted(bounds, point, right=True).minimum(last)[0]
