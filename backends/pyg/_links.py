"""Seed links: where their ends are in a sample, and weighted draws of negative ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.sampler import EdgeSamplerInput, NegativeSampling

from aethergraph.errors import InvalidArgumentError


class Links:
    """Seed links with their negatives, and where their ends are in the sample."""

    def __init__(
        self, ends: list[Tensor], num_positive: int, neg_sampling: NegativeSampling | None
    ) -> None:
        self.num_positive = num_positive
        self._sizes = [len(end) for end in ends]
        self._triplet = neg_sampling is not None and neg_sampling.is_triplet()
        self._num_negative = 0 if self._triplet else self._sizes[0] - num_positive
        self._negative = neg_sampling is not None

    def trees(self) -> Tensor:
        """The link that each end belongs to: end i of a side to link ``i % P``.

        PyG takes ``i % P`` over both sides in a row, which is the same for whole ratios of
        negatives and mixes up the links for others.
        """
        return torch.cat([torch.arange(size) % max(1, self.num_positive) for size in self._sizes])

    def metadata(self, index: EdgeSamplerInput, inverse: Tensor | None) -> tuple[Any, ...]:
        """PyG's metadata; ``inverse`` gives the local id of each end, None: they are in order."""
        local = torch.arange(sum(self._sizes)) if inverse is None else inverse
        if not self._triplet:
            return index.input_id, local.view(2, -1), self._labels(index.label), index.time
        count = self.num_positive
        src, dst, negative = local[:count], local[count : 2 * count], local[2 * count :]
        if inverse is None:  # disjoint: negative k * P + i belongs to the tree of pair i
            negative = negative.view(-1, max(1, count)).t()
        negative = negative.reshape(count, -1).squeeze(-1) if count else negative
        return index.input_id, src, dst, negative, index.time

    def _labels(self, label: Tensor | None) -> Tensor | None:
        if not self._negative:
            return label
        if label is None:
            label = torch.ones(self.num_positive)
        return torch.cat([label, label.new_zeros((self._num_negative, *label.shape[1:]))])


class WeightTable:
    """Draws node ids with given weights, by inverting the cumulated weights.

    Same distribution as ``torch.multinomial`` with replacement, without its limit of 2^24 nodes
    and without its pass over all weights for every call.
    """

    def __init__(self, weight: Tensor, num_nodes: int, name: str) -> None:
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
        self._weight = weight
        self._version = weight._version
        self._bounds = values.cumsum(0)
        positive = values.nonzero()
        if not len(positive):
            raise InvalidArgumentError(f"{name} has no positive weight")
        self._last = int(positive[-1])

    def is_for(self, weight: Tensor) -> bool:
        return weight is self._weight and weight._version == self._version

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        points = torch.rand(count, generator=generator, dtype=torch.float64) * self._bounds[-1]
        return torch.searchsorted(self._bounds, points, right=True).clamp_(max=self._last)
