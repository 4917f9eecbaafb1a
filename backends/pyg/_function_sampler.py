"""Sampler made of a function from seeds to a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.sampler import (
    BaseSampler,
    HeteroSamplerOutput,
    NodeSamplerInput,
    SamplerOutput,
)

from aethergraph.errors import InvalidArgumentError, OutOfRangeError
from aethergraph.sampling.hetero import HeteroSubgraph
from aethergraph.sampling.subgraph import Subgraph

if TYPE_CHECKING:
    from torch_geometric.sampler import EdgeSamplerInput

__all__ = ["FunctionSampler", "as_sampler"]

_WANTED = (
    "a Subgraph or HeteroSubgraph of aethergraph, or a SamplerOutput or HeteroSamplerOutput of "
    "torch_geometric.sampler"
)


def as_sampler(sampler: Any) -> BaseSampler:
    """Return a sampler unchanged, and wrap a function given as ``neighbor_sampler``.

    Raises:
        InvalidArgumentError: any other object, such as a sampler of the core.
    """
    if isinstance(sampler, BaseSampler):
        return sampler
    name = f"{type(sampler).__module__.split('.')[0]}.{type(sampler).__name__}"
    if callable(getattr(sampler, "sample", None)):
        raise InvalidArgumentError(
            f"neighbor_sampler is an {name}, which knows no loader: leave it out and give "
            f"num_neighbors, or take aethergraph.pyg.{type(sampler).__name__}, or give the "
            "function, neighbor_sampler=sampler.sample"
        )
    if not callable(sampler):
        raise InvalidArgumentError(
            "neighbor_sampler must be a BaseSampler of torch_geometric.sampler, or a function from "
            f"seeds to a sample, got {name}"
        )
    return FunctionSampler(sampler)


class FunctionSampler(BaseSampler):  # type: ignore[misc]
    """Sampler that calls a function for the sample of every batch.

    Args:
        function: called with the seeds of a batch, int64 [n] global ids (for a typed graph with
            ``{node type: ids}``). It returns a :class:`aethergraph.Subgraph` or
            ``HeteroSubgraph``, or PyG's ``SamplerOutput`` or ``HeteroSamplerOutput`` with the same
            meaning: ``node`` begins with the seeds, ``row`` and ``col`` are positions in it, and
            ``edge`` (None: no ``e_id``) are edge ids of the graph store.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def sample_from_nodes(self, index: NodeSamplerInput, **_: Any) -> Any:
        """Return the function's sample around ``index.node``, with the metadata that loaders read.

        Raises:
            InvalidArgumentError: it returned no sample, or nodes that do not begin with the seeds.
            OutOfRangeError: an end of an edge that is not among its nodes.
        """
        index = NodeSamplerInput.cast(index)
        kind, seeds = index.input_type, index.node
        made = self.function(seeds if kind is None else {kind: seeds})
        out = _as_output(made)
        if isinstance(out, SamplerOutput) != (kind is None):
            raise InvalidArgumentError(
                f"neighbor_sampler returned a {type(made).__name__} for seeds of "
                + ("a graph of one type" if kind is None else f"type {kind!r}")
            )
        _check(out, kind, seeds)
        out.metadata = (index.input_id, index.time)
        return out

    def sample_from_edges(self, index: EdgeSamplerInput, **_: Any) -> Any:
        """Refuse: a function samples around nodes.

        Raises:
            InvalidArgumentError: always.
        """
        raise InvalidArgumentError(
            "a function as neighbor_sampler samples around nodes: for links give a BaseSampler "
            "with sample_from_edges"
        )

    @property
    def edge_permutation(self) -> Any:
        """None: samples hold the graph store's edge ids."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.function!r})"


def _as_output(made: Any) -> Any:
    """Convert the result of a function to a ``SamplerOutput`` or ``HeteroSamplerOutput``."""
    if isinstance(made, (SamplerOutput, HeteroSamplerOutput)):
        return made
    fields = ("node", "row", "col", "edge", "batch")
    if isinstance(made, Subgraph):
        vectors: dict[str, Any] = {name: _as_tensor(getattr(made, name)) for name in fields}
        kind: Any = SamplerOutput
    elif isinstance(made, HeteroSubgraph):
        vectors = {
            name: None if value is None else {key: _as_tensor(v) for key, v in value.items()}
            for name, value in ((name, getattr(made, name)) for name in fields)
        }
        kind = HeteroSamplerOutput
    else:
        raise InvalidArgumentError(
            f"neighbor_sampler returned {type(made).__name__}; it must return {_WANTED}"
        )
    return kind(
        **vectors,
        num_sampled_nodes=made.num_sampled_nodes,
        num_sampled_edges=made.num_sampled_edges,
    )


def _as_tensor(values: Any) -> Tensor | None:
    return None if values is None else torch.from_numpy(values)


def _check(out: Any, kind: str | None, seeds: Tensor) -> None:
    """Check seeds and edge ends, whose errors would spoil a batch silently."""
    node = out.node if kind is None else out.node.get(kind)
    if node is None or not torch.equal(node[: len(seeds)].to(torch.int64), seeds):
        raise InvalidArgumentError(
            "neighbor_sampler must return nodes that begin with the seeds, in their order and with "
            "their duplicates"
        )
    for label, ends, nodes, others in _sides(out):
        if len(ends) != others:
            raise InvalidArgumentError(
                f"neighbor_sampler returned {label} with {len(ends)} entries, the other vector of "
                f"its edges has {others}"
            )
        bad = (ends < 0) | (ends >= nodes)
        if bool(bad.any()):
            at = int(bad.int().argmax())
            raise OutOfRangeError(
                f"neighbor_sampler returned {label}[{at}] = {int(ends[at])}, which is no position "
                f"in its {nodes} nodes",
                position=at,
                value=int(ends[at]),
            )


def _sides(out: Any) -> Iterator[tuple[str, Tensor, int, int]]:
    """Yield for each vector of local ids its name, the ids, the number of nodes, its due length."""
    if isinstance(out, SamplerOutput):
        count = len(out.node)
        yield "row", out.row, count, len(out.col)
        yield "col", out.col, count, len(out.row)
        return
    for kind, row in out.row.items():
        col = out.col[kind]
        for label, ends, end in (("row", row, kind[0]), ("col", col, kind[-1])):
            count = len(out.node[end]) if end in out.node else 0
            yield f"{label} of {kind}", ends, count, len(col if label == "row" else row)
