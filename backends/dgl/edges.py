"""Edges as seeds: pairs with negatives, and edges that their samples leave out.

Source followed: ``EdgePredictionSampler`` of ``dgl/dataloading/base.py`` and
``dgl/dataloading/negative_sampler.py``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

import dgl.dataloading
from aethergraph._checks.arrays import allocate, as_count, as_ids
from aethergraph._checks.options import as_choice, shown
from aethergraph._torch.keyed import Keyed
from aethergraph._torch.tensors import read_ids, seed_ids
from aethergraph.dgl._arguments import as_names, check_prefetch
from aethergraph.dgl._schema import Schema
from aethergraph.dgl.sampler import storage_of
from aethergraph.dgl.storage import GraphStorage
from aethergraph.errors import InvalidArgumentError
from aethergraph.graph.ids import check_ids
from aethergraph.sampling.keys import hash_ids

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.graph.hetero import EdgeType

__all__ = ["EdgePredictionSampler", "PerSourceUniform", "as_edge_prediction_sampler"]

Ids: TypeAlias = "NDArray[np.int64]"

_MODES = ("self", "reverse_id", "reverse_types")


class EdgePredictionSampler(dgl.dataloading.EdgePredictionSampler):  # type: ignore[misc]
    """DGL's sampler of that name, which also checks that reverses of edges are reverses.

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
        if not (hasattr(sampler, "sample") and hasattr(sampler, "output_device")):
            raise InvalidArgumentError(
                f"sampler must be one of DGL or this package, got {type(sampler).__name__}"
            )
        if negative_sampler is not None and not callable(negative_sampler):
            raise InvalidArgumentError(
                "negative_sampler must be a function of graph and seed edges, got "
                f"{type(negative_sampler).__name__}"
            )
        if isinstance(exclude, str):
            exclude = as_choice(exclude, _MODES, "exclude")
        by_mode = isinstance(exclude, str)
        if by_mode and exclude == "reverse_id" and reverse_eids is None:
            raise InvalidArgumentError("exclude = 'reverse_id' needs reverse_eids")
        is_needed = by_mode and exclude == "reverse_types"
        if not isinstance(reverse_etypes, Mapping) and (is_needed or reverse_etypes is not None):
            raise InvalidArgumentError(
                "exclude = 'reverse_types' needs reverse_etypes, the edge type of the reverses by "
                f"edge type, got {shown(reverse_etypes)}"
            )
        if exclude is not None and not by_mode and not callable(exclude):
            exclude = _by_type(exclude, "exclude", _ids_or_mask)
        if reverse_eids is not None:
            reverse_eids = _by_type(reverse_eids, "reverse_eids", _table)
        super().__init__(
            sampler,
            exclude,
            reverse_eids,
            reverse_etypes,
            negative_sampler,
            as_names(prefetch_labels, "prefetch_labels"),
        )

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the node sampler and of the negative sampler, if they have one.

        DGL's own samplers have none: they draw by the epoch of the :class:`GraphStorage`.
        """
        for part in (self.sampler, self.negative_sampler):
            if hasattr(part, "set_epoch"):
                part.set_epoch(epoch)

    def sample(self, g: GraphStorage, seed_edges: Any) -> tuple[Any, ...]:
        """Return ``(input_nodes, pair_graph, [negative pair graph,] blocks)``.

        Raises:
            OutOfRangeError: a seed edge that does not exist, or a negative reverse.
            InvalidArgumentError: a seed edge whose reverse is none, or is not said.
        """
        storage, call = storage_of(g), self
        check_prefetch(self.prefetch_labels, "prefetch_labels", storage.schema, "edge")
        if isinstance(self.exclude, str) and self.exclude != "self":
            # A copy that leaves out these ids, since several threads may use this sampler.
            call = copy.copy(self)
            call.exclude = self._with_reverses(storage.schema, seed_edges)
        sampled: tuple[Any, ...] = super(EdgePredictionSampler, call).sample(storage, seed_edges)
        return sampled

    def _with_reverses(self, schema: Schema, seed_edges: Any) -> Any:
        """Return seed edges and their reverses, by edge type if the seeds are."""
        hidden: dict[EdgeType, list[Ids]] = {}
        seeds = schema.edge_ids(seed_edges, "seed_edges")
        if self.exclude == "reverse_types":
            named = {schema.etype(name) for name in self.reverse_etypes}
            if not named & seeds.keys():
                raise InvalidArgumentError(
                    f"reverse_etypes names the reverses of {', '.join(map(repr, named))}, but the "
                    f"seed edges are of {', '.join(map(repr, seeds))}: name theirs"
                )
        for kind, seed_edge_ids in seeds.items():
            ids = schema.numbers[kind].shown(seed_edge_ids)
            hidden.setdefault(kind, []).append(ids)
            for back, reverse in self._reverses(schema, kind, ids):
                _check_ends(schema, kind, seed_edge_ids, back, reverse)
                hidden.setdefault(back, []).append(reverse)
        tensors = {kind: torch.from_numpy(np.concatenate(ids)) for kind, ids in hidden.items()}
        return tensors if isinstance(seed_edges, Mapping) else tensors[schema.etype(None)]

    def _reverses(self, schema: Schema, kind: EdgeType, ids: Ids) -> list[tuple[EdgeType, Ids]]:
        """Return the edge types of the reverses, and their ids in each."""
        if self.exclude == "reverse_types":
            named = {schema.etype(name): reverses for name, reverses in self.reverse_etypes.items()}
            reverses = named.get(kind, [])
            types = reverses if isinstance(reverses, list) else [reverses]
            return [(schema.etype(name), ids) for name in types]
        tables = self.reverse_eids
        if not isinstance(tables, Mapping):
            if len(schema.canonical_etypes) > 1:
                raise InvalidArgumentError(
                    "reverse_eids must be a dict by edge type: there are "
                    + ", ".join(map(repr, schema.canonical_etypes))
                )
            tables = {kind: tables}
        tables = {schema.etype(name): table for name, table in tables.items()}
        if kind not in tables:
            raise InvalidArgumentError(
                f"reverse_eids lacks {kind!r}, of which there are seed edges: give the reverse of "
                "each of its edges"
            )
        table = tables[kind]
        outside = np.flatnonzero(ids >= len(table))
        if len(outside):
            at = int(outside[0])
            raise InvalidArgumentError(
                f"reverse_eids of {kind!r} has {len(table)} ids, none for edge {ids[at]}: give the "
                "reverse of every edge",
                position=at,
                value=int(ids[at]),
            )
        return [(kind, table[ids])]


def _by_type(argument: Any, name: str, check: Callable[[Any, str], Any]) -> Any:
    if isinstance(argument, Mapping):
        return {kind: check(ids, f"{name}[{kind!r}]") for kind, ids in argument.items()}
    return check(argument, name)


def _ids_or_mask(ids: Any, name: str) -> Tensor:
    """Convert ids or a mask to a tensor, which DGL takes for ids."""
    if isinstance(ids, Tensor) and ids.dtype != torch.bool:
        return torch.from_numpy(seed_ids(ids, name))
    array = read_ids(ids, name)
    return torch.tensor(array if array.dtype == bool else as_ids(array, name))


def _table(table: Any, name: str) -> Ids:
    """Return one id per edge as int64, without a copy if they are int64."""
    return seed_ids(table, name) if isinstance(table, Tensor) else as_ids(table, name)


def _check_ends(schema: Schema, kind: EdgeType, own_ids: Ids, back: EdgeType, reverse: Ids) -> None:
    numbers, name = schema.numbers[back], "the reverses of seed_edges"
    check_ids(np.minimum(reverse, 0), 1, name, "edges")  # negative ones
    known = np.flatnonzero(reverse < numbers.end)
    own_reverse = numbers.own(reverse[known], name)
    src, dst = schema.edges(kind).edge_ends(own_ids[known])
    other_src, other_dst = schema.edges(back).edge_ends(own_reverse)
    wrong = (src != other_dst) | (dst != other_src)
    if wrong.any():
        first = int(wrong.argmax())
        at = int(known[first])
        ids = schema.numbers[kind].shown(own_ids)
        hint = "" if schema.numbers[kind].are_input else (
            "; edge ids are positions in the graph's lists here: build it with keep_order=True, "
            "then they are rows of its input, as in DGL"
        )  # fmt: skip
        raise InvalidArgumentError(
            f"edge {int(reverse[at])} of {back!r} is not the reverse of edge {int(ids[at])} of "
            f"{kind!r}: it goes from {other_src[first]} to {other_dst[first]}, the other one from "
            f"{src[first]} to {dst[first]}{hint}",
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
    """Make a sampler whose seeds are edges, as DGL's function of that name does.

    A batch is ``(input_nodes, pair_graph, negative_graph, blocks)``, without the third where there
    is no negative sampler. ``set_epoch`` sets the epoch of ``sampler`` and ``negative_sampler``.

    Args:
        sampler: one of this package that takes edges to exclude.
        exclude: ``"self"``, ``"reverse_id"``, ``"reverse_types"``, None, ids or a mask (a tensor,
            array or list, by edge type if there are several), or a function of the seed edges that
            gives ids. Nodes draw as if their lists did not have these edges. Reverses are
            checked to be that: DGL leaves out any edge of their ids. Ids beyond the last edge are
            ignored, as in DGL, so that reverses may be missing from the graph.
        reverse_eids: for ``"reverse_id"`` the id of every edge's reverse, integers [num_edges], by
            edge type (or the name of its relation) if there are several.
        reverse_etypes: for ``"reverse_types"`` the edge type of the reverses, or a list of several,
            by edge type; reverses have the same ids: so in graphs of
            ``HeteroGraph.from_edges(add_reverse=True, keep_order=True)``.
        negative_sampler: ``PerSourceUniform``, one of ``dgl.dataloading.negative_sampler``, or a
            function of graph and seed edges.
        prefetch_labels: names of edge data of the pair graph to fetch.

    Raises:
        InvalidArgumentError: an invalid option; in a batch an edge whose reverse is none, or
            for which ``reverse_eids`` has no reverse.
    """
    return EdgePredictionSampler(
        sampler, exclude, reverse_eids, reverse_etypes, negative_sampler, prefetch_labels
    )


class PerSourceUniform(Keyed):
    """Negative sampler: each edge's source and ``k`` uniform nodes, as DGL's ``Uniform``.

    The draws are a function of the key, as in :class:`NeighborSampler`, and the seed edges, and so
    the same for any number of workers; DGL's come from torch's global generator.

    Args:
        k: negatives per edge.
        seed: fixed number to draw from instead of torch's seed.
    """

    def __init__(self, k: int, *, seed: int | None = None) -> None:
        self.k = as_count(k, "k")
        self._set_seed(seed)

    def __call__(self, g: GraphStorage, eids: Any) -> Any:
        """Return ``(src, dst)`` [n * k], or a dict of that by edge type."""
        if isinstance(eids, Mapping):
            kinds = {g.to_canonical_etype(kind): ids for kind, ids in eids.items()}
            return {kind: self._draw(g, kind, ids) for kind, ids in kinds.items()}
        return self._draw(g, None, eids)

    def _draw(self, g: GraphStorage, etype: Any, ids: Tensor) -> tuple[Tensor, Tensor]:
        kind = g.to_canonical_etype(etype)
        src, _ = g.find_edges(ids, kind)
        number = g.canonical_etypes.index(kind)
        content = hash_ids(seed_ids(ids, "eids"))
        rng = np.random.default_rng(self._batch_key(None, number, content))
        count = len(ids) * self.k
        dst = allocate(
            lambda: rng.integers(0, max(1, g.num_nodes(kind[2])), count), f"{count} negatives"
        )
        return src.repeat_interleave(self.k), torch.from_numpy(dst).to(src.dtype)
