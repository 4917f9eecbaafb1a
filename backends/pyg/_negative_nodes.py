"""Draws of negative nodes: uniform or by weight, and only among nodes that exist at a time.

Source followed: ``torch_geometric/sampler/neighbor_sampler.py`` (``neg_sample``).
"""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch_geometric.sampler import NegativeSampling

from aethergraph._checks.options import shown
from aethergraph.errors import InvalidArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NegativeNodes", "NodesByTime", "WeightTable", "count_negatives"]

Ids: TypeAlias = "NDArray[np.int64]"

#: True if NegativeSampling has a weight for either side (since PyG 2.6), not one for both.
_WEIGHT_PER_SIDE = "endpoint" in inspect.signature(NegativeSampling.sample).parameters

#: Rounds in which a user's own sampler is asked again for nodes in time, as in PyG.
_ROUNDS = 5

_MOST_NEGATIVES = 1 << 40


def count_negatives(num_positive: int, neg_sampling: NegativeSampling) -> int:
    """Return the number of negatives for ``num_positive`` links in all.

    Raises:
        InvalidArgumentError: an ``amount`` that is no number, or is too large.
    """
    amount = neg_sampling.amount
    try:
        count: int = math.ceil(num_positive * amount)
    except (OverflowError, ValueError):  # infinite, or not a number
        raise InvalidArgumentError(f"neg_sampling: amount = {shown(amount)} is no number") from None
    if count >= _MOST_NEGATIVES:
        raise InvalidArgumentError(f"neg_sampling: amount = {shown(amount)} is too large")
    return count


class NodesByTime:
    """All nodes in the order of their times, which are given as int64 keys."""

    def __init__(self, keys: Ids) -> None:
        order = np.argsort(keys, kind="stable")
        self._keys = keys  # may be mapped from a file: read-only
        self.order = torch.from_numpy(order)
        self._sorted = torch.from_numpy(keys[order])

    def count(self, until: Tensor) -> Tensor:
        """Count the nodes up to each of these time keys; they are the first ones of ``order``."""
        return torch.searchsorted(self._sorted, until, right=True)

    def late(self, nodes: Tensor, until: Tensor) -> Tensor:
        """Return a mask of the ``nodes`` whose time key is above ``until``."""
        return torch.from_numpy(self._keys[nodes.numpy()]) > until


class NegativeNodes:
    """Random nodes for the ends of negative links.

    Args:
        num_nodes: nodes of the graph.
        by_time: times of the nodes, if only some may be drawn for each link.
    """

    def __init__(self, num_nodes: int, by_time: NodesByTime | None = None) -> None:
        self._num_nodes = num_nodes
        self._by_time = by_time
        self._tables: dict[str, WeightTable] = {}

    def draw(
        self,
        neg_sampling: NegativeSampling,
        side: str,
        count: int,
        generator: torch.Generator,
        until: Tensor | None,
    ) -> Tensor:
        """Draw ``count`` nodes for one side of the links, ``"src"`` or ``"dst"``.

        Args:
            neg_sampling: has the weights; a subclass that overrides ``sample`` is called instead.
            side: of the links.
            count: number of nodes.
            generator: source of random numbers.
            until: latest time key allowed for each node [count], or None. Where no node is that
                early,
                the earliest node is taken, as in PyG.
        """
        if self._num_nodes == 0 and count:
            raise InvalidArgumentError("negatives cannot be drawn from a graph without nodes")
        if type(neg_sampling).sample is not NegativeSampling.sample:
            return self._ask(neg_sampling, side, count, until)
        name = f"{side}_weight" if _WEIGHT_PER_SIDE else "weight"
        weight = getattr(neg_sampling, name)
        first = None
        if self._by_time is not None:
            assert until is not None
            first = self._by_time.count(until)
        if weight is not None:
            drawn = self._table(side, weight, name).draw(count, generator, first)
        elif first is None:
            return torch.randint(max(1, self._num_nodes), (count,), generator=generator)
        else:
            points = torch.rand(count, generator=generator, dtype=torch.float64)
            drawn = (points * first).to(torch.int64).minimum(first - 1).clamp_(min=0)
        return drawn if self._by_time is None else self._by_time.order[drawn]

    def candidates(self, neg_sampling: NegativeSampling, side: str) -> Tensor:
        """Return the nodes that can be drawn at all, int64; at least one."""
        weight = self._weight(neg_sampling, side)
        if weight is None:
            return torch.arange(self._num_nodes)
        return (weight > 0).nonzero().view(-1)

    def chances(
        self, neg_sampling: NegativeSampling, side: str, nodes: Tensor, until: Tensor | None
    ) -> Tensor:
        """Return how likely ``nodes`` [n] are for links that see times up to ``until`` [L].

        Returns:
            float64 [L, n], or [1, n] if all links see the same times.
        """
        weight = self._weight(neg_sampling, side)
        chances = torch.ones(len(nodes), dtype=torch.float64) if weight is None else weight[nodes]
        if self._by_time is None or until is None:
            return chances[None]
        late = self._by_time.late(nodes[None].expand(len(until), -1), until[:, None])
        chances = chances.masked_fill(late, 0.0)
        none = ~(chances > 0).any(1)  # the earliest node stands in
        chances[none] = (nodes == self._by_time.order[0]).to(torch.float64)
        return chances

    def _weight(self, neg_sampling: NegativeSampling, side: str) -> Tensor | None:
        if type(neg_sampling).sample is not NegativeSampling.sample:
            return None
        weight = getattr(neg_sampling, f"{side}_weight" if _WEIGHT_PER_SIDE else "weight")
        return None if weight is None else weight.detach().cpu().to(torch.float64)

    def _table(self, side: str, weight: Tensor, name: str) -> WeightTable:
        table = self._tables.get(side)
        if table is None or not table.is_for(weight):
            order = None if self._by_time is None else self._by_time.order
            table = self._tables[side] = WeightTable(weight, self._num_nodes, name, order)
        return table

    def _ask(
        self, neg_sampling: NegativeSampling, side: str, count: int, until: Tensor | None
    ) -> Tensor:
        """Draw nodes with the user's own ``sample``; ask again for nodes that are too late."""

        def sample(number: int) -> Tensor:
            args: tuple[Any, ...] = (number, side) if _WEIGHT_PER_SIDE else (number,)
            drawn: Tensor = neg_sampling.sample(*args, self._num_nodes)
            return drawn.to(torch.int64)

        drawn = sample(count)
        if self._by_time is None:
            return drawn
        assert until is not None
        for _ in range(_ROUNDS):
            late = self._by_time.late(drawn, until)
            if not bool(late.any()):
                return drawn
            drawn[late] = sample(int(late.sum()))
        late = self._by_time.late(drawn, until)
        drawn[late] = self._by_time.order[0]
        return drawn


class WeightTable:
    """Random positions with given weights, by inverting the cumulated weights.

    Draws from the distribution of ``torch.multinomial`` with replacement, without its limit of 2^24
    nodes and without its pass over all weights for every call.

    Args:
        weight: weights [num_nodes].
        num_nodes: number of nodes of the graph.
        name: name of the weights, for error messages.
        order: order of nodes to cumulate the weights in; None: by node.
    """

    def __init__(
        self, weight: Tensor, num_nodes: int, name: str, order: Tensor | None = None
    ) -> None:
        if weight.ndim != 1 or len(weight) != num_nodes:
            raise InvalidArgumentError(
                f"{name} must have one weight per node, shape ({num_nodes},), "
                f"got {tuple(weight.shape)}"
            )
        values = weight.detach().cpu().to(torch.float64)
        bad = ~(torch.isfinite(values) & (values >= 0))
        if bool(bad.any()):
            at = int(bad.int().argmax())
            raise InvalidArgumentError(
                f"{name}[{at}] = {float(values[at])}: weights are finite and >= 0", position=at
            )
        if not bool((values > 0).any()):
            raise InvalidArgumentError(f"{name} has no positive weight")
        self._weight = weight
        self._version = weight._version
        self._bounds = (values if order is None else values[order]).cumsum(0)

    def is_for(self, weight: Tensor) -> bool:
        """Return whether the table was made for this very tensor, unchanged since."""
        return weight is self._weight and weight._version == self._version

    def draw(self, count: int, generator: torch.Generator, first: Tensor | None = None) -> Tensor:
        """Draw positions [count], each below its ``first`` (0 if those weights are all zero)."""
        totals = self._bounds[-1:].expand(count)
        if first is not None:
            totals = self._bounds[(first - 1).clamp(min=0)].where(first > 0, totals.new_zeros(()))
        points = torch.rand(count, generator=generator, dtype=torch.float64) * totals
        positions = torch.searchsorted(self._bounds, points, right=True)
        # A product may round up to the total: then take the last position with a positive weight.
        positions = positions.minimum(torch.searchsorted(self._bounds, totals.contiguous()))
        return positions if first is None else positions.where(totals > 0, positions.new_zeros(()))
