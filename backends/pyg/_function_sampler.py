"""Sampler made of a function from seeds to a sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.sampler import (
    BaseSampler,
    HeteroSamplerOutput,
    NodeSamplerInput,
    SamplerOutput,
)

from aethergraph.errors import InvalidArgumentError
from aethergraph.sampling.checked import check_ends, check_seeds
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
            ``{node type: ids}``). It returns a :class:`~aethergraph.sampling.subgraph.Subgraph` or
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
        sample = self.function(seeds if kind is None else {kind: seeds})
        out = _as_output(sample)
        if isinstance(out, SamplerOutput) != (kind is None):
            raise InvalidArgumentError(
                f"neighbor_sampler returned a {type(sample).__name__} for seeds of "
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


def _as_output(sample: Any) -> Any:
    """Convert the result of a function to a ``SamplerOutput`` or ``HeteroSamplerOutput``."""
    if isinstance(sample, (SamplerOutput, HeteroSamplerOutput)):
        return sample
    fields = ("node", "row", "col", "edge", "batch")
    if isinstance(sample, Subgraph):
        vectors: dict[str, Any] = {name: _as_tensor(getattr(sample, name)) for name in fields}
        kind: Any = SamplerOutput
    elif isinstance(sample, HeteroSubgraph):
        vectors = {
            name: None if value is None else {key: _as_tensor(v) for key, v in value.items()}
            for name, value in ((name, getattr(sample, name)) for name in fields)
        }
        kind = HeteroSamplerOutput
    else:
        raise InvalidArgumentError(
            f"neighbor_sampler returned {type(sample).__name__}; it must return {_WANTED}"
        )
    return kind(
        **vectors,
        num_sampled_nodes=sample.num_sampled_nodes,
        num_sampled_edges=sample.num_sampled_edges,
    )


def _as_tensor(values: Any) -> Tensor | None:
    return None if values is None else torch.from_numpy(values)


def _check(out: Any, kind: str | None, seeds: Tensor) -> None:
    """Check seeds and edge ends, whose errors would spoil a batch silently."""
    maker = "neighbor_sampler"
    node = out.node if kind is None else out.node.get(kind)
    nodes = np.empty(0, np.int64) if node is None else node.to(torch.int64).numpy()
    check_seeds(nodes, seeds.numpy(), maker)
    if kind is None:
        count = len(out.node)
        check_ends(out.row.numpy(), out.col.numpy(), len(out.col), count, count, "", maker)
        return
    for edge_type, row in out.row.items():
        col, label = out.col[edge_type], f" of {edge_type}"
        counts = [len(out.node[end]) if end in out.node else 0 for end in edge_type[::2]]
        check_ends(row.numpy(), col.numpy(), len(col), counts[0], counts[1], label, maker)
