"""Seed links: positions of their ends in a sample, and their times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.sampler import EdgeSamplerInput, NegativeSampling

from aethergraph._checks.options import as_flag
from aethergraph.errors import InvalidArgumentError
from aethergraph.protocols import HeterogeneousGraph

if TYPE_CHECKING:
    from aethergraph.graph.hetero import EdgeType
    from aethergraph.graph.schema import Schema

__all__ = ["Links", "link_type", "split_negatives"]


def link_type(
    kind: Any, graph: HeterogeneousGraph | Schema, option: str = "edge_label_index"
) -> EdgeType:
    """Return the type of seed links; the graph need not hold edges of it.

    A relation that a model is to predict is often held out of the graph that is sampled: only its
    two node types are needed.

    Args:
        kind: ``(source type, relation, destination type)``, or without the relation, which is then
            the only one between the two types or, where there is none, PyG's default ``"to"``.
        graph: the graph that has the node types, or its schema.
        option: name of the links, for error messages.

    Raises:
        InvalidArgumentError: no such node types, or several relations between them.
    """
    names = tuple(kind) if isinstance(kind, (tuple, list)) else ()
    ends = (names[0], names[-1]) if len(names) in (2, 3) else ()
    if not ends or any(name not in graph.node_types for name in ends):
        edges = ", ".join(map(repr, graph.edge_types)) or "none"
        raise InvalidArgumentError(
            f"{option} of type {kind!r}: give (edge type, links) with an edge type between two of "
            f"the node types {', '.join(map(repr, graph.node_types)) or 'none'}; the graph holds "
            f"edges of {edges}"
        )
    if len(names) == 3:
        return names
    matches = [name for name in graph.edge_types if (name[0], name[2]) == names]
    if len(matches) > 1:
        raise InvalidArgumentError(
            f"{option} of type {kind!r}: it is one of {', '.join(map(repr, matches))}; name one"
        )
    return matches[0] if matches else (names[0], "to", names[1])


def split_negatives(neg_sampling: Any) -> tuple[Any, bool]:
    """Return what PyG takes as ``neg_sampling``, and whether no negative may be an edge."""
    if not isinstance(neg_sampling, Mapping):
        return neg_sampling, False
    arguments = dict(neg_sampling)
    careful = arguments.pop("true_negatives", False)
    return arguments, as_flag(careful, "neg_sampling: true_negatives")


class Links:
    """Seed links with their negatives, and the positions of their ends in the sample."""

    def __init__(
        self, ends: list[Tensor], num_positive: int, neg_sampling: NegativeSampling | None
    ) -> None:
        self.num_positive = num_positive
        self._sizes = [len(end) for end in ends]
        self._triplet = neg_sampling is not None and neg_sampling.is_triplet()
        self._num_negative = 0 if self._triplet else self._sizes[0] - num_positive
        self._negative = neg_sampling is not None

    def trees(self) -> Tensor:
        """Return the link that each end belongs to: end i of a side to link ``i % P``.

        PyG takes ``i % P`` over both sides in a row, which is equal for whole ratios of negatives
        and
        mixes up the links for others.
        """
        return torch.cat([torch.arange(size) % max(1, self.num_positive) for size in self._sizes])

    def metadata(self, index: EdgeSamplerInput, local: Tensor) -> tuple[Any, ...]:
        """Return PyG's metadata; ``local`` has the local id of each end."""
        if not self._triplet:
            time = index.time
            if time is not None:
                time = time[self.trees()[: self._sizes[0]]]
            return index.input_id, local.view(2, -1), self._labels(index.label), time
        count = self.num_positive
        src, dst, negative = local[:count], local[count : 2 * count], local[2 * count :]
        negative = negative.view(-1, max(1, count)).t()  # negative k * P + i belongs to pair i
        negative = negative.reshape(count, -1).squeeze(-1).contiguous() if count else negative
        return index.input_id, src, dst, negative, index.time

    def _labels(self, label: Tensor | None) -> Tensor | None:
        if not self._negative:
            return label
        if label is None:
            label = torch.ones(self.num_positive)
        return torch.cat([label, label.new_zeros((self._num_negative, *label.shape[1:]))])
