"""Edges as seeds: pairs with negatives, and what is left out of the sample around them.

Source followed: ``EdgePredictionSampler`` of ``dgl/dataloading/base.py`` and
``dgl/dataloading/negative_sampler.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

import dgl.dataloading
from aethergraph._torch.keyed import Keyed
from aethergraph.dgl._walk import edge_ends
from aethergraph.dgl.sampler import storage_of
from aethergraph.dgl.storage import GraphStorage
from aethergraph.errors import InvalidArgumentError
from aethergraph.sampling.keys import hash_ids

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.hetero import EdgeType

__all__ = ["EdgePredictionSampler", "PerSourceUniform", "as_edge_prediction_sampler"]

Ids: TypeAlias = "NDArray[np.int64]"

_MODES = ("self", "reverse_id", "reverse_types")


class EdgePredictionSampler(dgl.dataloading.EdgePredictionSampler):  # type: ignore[misc]
    """DGL's, which also looks whether what it takes for the reverse of an edge is one.

    See :func:`as_edge_prediction_sampler`.
    """

    def __init__(
        self,
        sampler: Any,
        exclude: Any = None,
        reverse_eids: Any = None,
        reverse_etypes: Any = None,
        negative_sampler: Any = None,
        prefetch_labels: Any = None,
    ) -> None:
        if isinstance(exclude, str) and exclude not in _MODES:
            raise InvalidArgumentError(f"exclude = {exclude!r} is not one of {', '.join(_MODES)}")
        if exclude == "reverse_id" and reverse_eids is None:
            raise InvalidArgumentError("exclude = 'reverse_id' needs reverse_eids")
        if exclude == "reverse_types" and reverse_etypes is None:
            raise InvalidArgumentError("exclude = 'reverse_types' needs reverse_etypes")
        super().__init__(
            sampler, exclude, reverse_eids, reverse_etypes, negative_sampler, prefetch_labels
        )

    def sample(self, g: GraphStorage, seed_edges: Any) -> tuple[Any, ...]:
        """``(input_nodes, pair_graph, [negative pair graph,] blocks)``."""
        storage = storage_of(g)
        if isinstance(self.exclude, str) and self.exclude != "self":
            self._check_reverses(storage, seed_edges)
        sampled: tuple[Any, ...] = super().sample(storage, seed_edges)
        return sampled

    def _check_reverses(self, storage: GraphStorage, seed_edges: Any) -> None:
        schema = storage.schema
        given = seed_edges
        if not isinstance(given, Mapping):
            given = {schema.etype(None): given}
        for name, ids in given.items():
            kind = schema.etype(name)
            back, reverse = self._reverse(storage, kind, ids)
            if back is not None:
                _check_ends(storage, kind, ids, back, reverse)

    def _reverse(
        self, storage: GraphStorage, kind: EdgeType, ids: Tensor
    ) -> tuple[EdgeType | None, Tensor]:
        schema = storage.schema
        if self.exclude == "reverse_types":
            types = {schema.etype(a): schema.etype(b) for a, b in self.reverse_etypes.items()}
            return types.get(kind), ids
        table = self.reverse_eids
        if isinstance(table, Mapping):
            table = {schema.etype(a): b for a, b in table.items()}[kind]
        reverse: Tensor = table[ids.to(torch.int64)]
        return kind, reverse


def _check_ends(
    storage: GraphStorage, kind: EdgeType, ids: Tensor, back: EdgeType, reverse: Tensor
) -> None:
    schema = storage.schema
    own = schema.edge_ids({kind: ids}, "seed_edges")[kind]
    other = schema.edge_ids({back: reverse}, "the reverses of seed_edges")[back]
    src, dst = edge_ends(schema, kind, own)
    other_src, other_dst = edge_ends(schema, back, other)
    wrong = (src != other_dst) | (dst != other_src)
    if wrong.any():
        at = int(wrong.argmax())
        hint = "" if schema.numbers[kind].are_input else (
            "; edge ids are positions in the graph's lists here: build it with keep_order=True, "
            "then they are rows of its input, as in DGL"
        )  # fmt: skip
        raise InvalidArgumentError(
            f"edge {int(reverse[at])} of {back!r} is not the reverse of edge {int(ids[at])} of "
            f"{kind!r}: it goes from {other_src[at]} to {other_dst[at]}, the other one from "
            f"{src[at]} to {dst[at]}{hint}",
            position=at,
        )


def as_edge_prediction_sampler(
    sampler: Any,
    exclude: Any = None,
    reverse_eids: Any = None,
    reverse_etypes: Any = None,
    negative_sampler: Any = None,
    prefetch_labels: Any = None,
) -> EdgePredictionSampler:
    """A sampler whose seeds are edges, as DGL's function of that name.

    A batch is ``(input_nodes, pair_graph, negative_graph, blocks)``, without the third where there
    is no negative sampler.

    Args:
        sampler: one of this package that takes edges to exclude.
        exclude: ``"self"``, ``"reverse_id"``, ``"reverse_types"``, None, ids, or a function of the
            seed edges that gives ids. Nodes draw as if their lists did not have these edges. For
            the two reverses it is checked that they are: DGL leaves out any edge of that id.
        reverse_eids: for ``"reverse_id"`` the id of every edge's reverse, by edge type if there are
            several.
        reverse_etypes: for ``"reverse_types"`` the edge type of the reverses, which have the same
            ids: so in graphs of ``HeteroGraph.from_edges(add_reverse=True, keep_order=True)``.
        negative_sampler: ``PerSourceUniform``, one of ``dgl.dataloading.negative_sampler``, or a
            function of graph and seed edges.
        prefetch_labels: names of edge data of the pair graph to fetch.

    Raises:
        InvalidArgumentError: an option that cannot be; in a batch an edge whose reverse is none.
    """
    return EdgePredictionSampler(
        sampler, exclude, reverse_eids, reverse_etypes, negative_sampler, prefetch_labels
    )


class PerSourceUniform(Keyed):
    """Negatives for every edge: its source and ``k`` nodes drawn uniformly, as DGL's ``Uniform``.

    The draws are a function of ``seed`` (else ``torch.initial_seed()``), the epoch and the seed
    edges, and so the same for any number of workers; DGL's come from torch's global generator.

    Args:
        k: negatives per edge.
        seed: a number of its own instead of torch's seed.
    """

    def __init__(self, k: int, *, seed: int | None = None) -> None:
        if isinstance(k, bool) or not hasattr(k, "__index__") or k < 0:
            raise InvalidArgumentError(f"k = {k!r} is no count")
        self.k = int(k)
        self._set_seed(seed)

    def __call__(self, g: GraphStorage, eids: Any) -> Any:
        """``(src, dst)`` [n * k], or a dict of that by edge type."""
        if isinstance(eids, Mapping):
            kinds = {g.to_canonical_etype(kind): ids for kind, ids in eids.items()}
            return {kind: self._draw(g, kind, ids) for kind, ids in kinds.items()}
        return self._draw(g, None, eids)

    def _draw(self, g: GraphStorage, etype: Any, ids: Tensor) -> tuple[Tensor, Tensor]:
        kind = g.to_canonical_etype(etype)
        src, _ = g.find_edges(ids, kind)
        number = g.canonical_etypes.index(kind)
        content = hash_ids(np.ascontiguousarray(ids.cpu().numpy(), np.int64))
        rng = np.random.default_rng(self._batch_key(None, number, content))
        dst = rng.integers(0, max(1, g.num_nodes(kind[2])), len(ids) * self.k)
        return src.repeat_interleave(self.k), torch.from_numpy(dst).to(src.dtype)
