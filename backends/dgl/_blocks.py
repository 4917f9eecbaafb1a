"""Samples as DGL's message flow graphs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

import dgl
from aethergraph import _binding as native
from aethergraph.dgl._schema import Schema
from dgl import heterograph_index, utils
from dgl.frame import Frame
from dgl.heterograph import DGLBlock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.hetero import EdgeType

__all__ = ["BlockEdges", "make_block", "make_blocks", "make_growing_blocks", "offsets_of"]

Ids: TypeAlias = "NDArray[np.int64]"


def make_blocks(
    schema: Schema, sample: native.NativeLayers, idtype: torch.dtype
) -> tuple[dict[str, Tensor], list[Any]]:
    """The source nodes of the first block by type, and the blocks, input layer first.

    Local ids count through the whole sample in order of first appearance, so the sources of every
    block are a prefix of the nodes, and its destinations a shorter one.

    Tensors of ids in frames and of the adjacency never share memory: a worker process that sends a
    batch moves the first to shared memory, and DGL would go on reading the second where it was.
    """
    spans = []
    for own, counts in zip(sample.offsets, sample.hop_edges, strict=True):
        ends = [0, *itertools.accumulate(counts)]
        spans.append([(slice(*ends[hop : hop + 2]), offsets) for hop, offsets in enumerate(own)])
    return _assemble(schema, sample, spans, idtype)


def make_growing_blocks(
    schema: Schema, sample: native.NativeSample, idtype: torch.dtype
) -> tuple[dict[str, Tensor], list[Any]]:
    """The same of a sample that is not layered: each node keeps the edges that it was first given.

    Block h from the seeds holds the edges of the first h + 1 hops.
    """
    ends = {
        name: list(itertools.accumulate(counts))
        for name, counts in zip(schema.own_ntypes, sample.hop_nodes, strict=True)
    }
    spans = []
    for i, kind in enumerate(schema.own_etypes):
        stops = itertools.accumulate(sample.hop_edges[i])
        spans.append(
            [
                (slice(0, stop), offsets_of(sample.col[i][:stop], ends[kind[2]][hop]))
                for hop, stop in enumerate(stops)
            ]
        )
    return _assemble(schema, sample, spans, idtype)


def _assemble(
    schema: Schema,
    sample: native.NativeLayers | native.NativeSample,
    spans: list[list[tuple[slice, Ids]]],
    idtype: torch.dtype,
) -> tuple[dict[str, Tensor], list[Any]]:
    """Blocks of the edges that each edge type has in each hop, and their offsets."""
    node = {
        name: torch.from_numpy(ids).to(idtype)
        for name, ids in zip(schema.own_ntypes, sample.node, strict=True)
    }
    ends = {
        name: list(itertools.accumulate(counts))
        for name, counts in zip(schema.own_ntypes, sample.hop_nodes, strict=True)
    }
    edge = {
        kind: torch.from_numpy(schema.numbers[kind].shown(ids)).to(idtype)
        for kind, ids in zip(schema.own_etypes, sample.edge, strict=True)
    }
    blocks: list[Any] = []
    for hop in range(len(sample.hop_nodes[0]) - 1):
        parts = {}
        for i, kind in enumerate(schema.own_etypes):
            span, offsets = spans[i][hop]
            parts[kind] = BlockEdges(sample.row[i][span], offsets, edge[kind][span])
        src = {name: ids[: ends[name][hop + 1]] for name, ids in node.items()}
        num_dst = {name: ends[name][hop] for name in node}
        blocks.insert(0, make_block(schema, parts, src, num_dst, idtype))
    return node, blocks


class BlockEdges(NamedTuple):
    """Edges of one type in a block by destination: local sources, where the edges of each
    destination begin [num_dst + 1], and the ids that users see."""

    row: Ids
    offsets: Ids
    edge: Tensor


def make_block(
    schema: Schema,
    edges: Mapping[EdgeType, BlockEdges],
    src: Mapping[str, Tensor],
    num_dst: Mapping[str, int],
    idtype: torch.dtype,
) -> Any:
    """A block; the first ``num_dst`` of the sources are its destinations.

    What ``dgl.create_block`` makes, put together in its way from its parts: that function looks
    for the largest id and makes a metagraph each time, which takes longer than sampling does.
    """
    none = torch.empty(0, dtype=idtype)
    relations = []
    for kind in schema.canonical_etypes:
        offsets, rows = torch.from_numpy(edges[kind].offsets), torch.from_numpy(edges[kind].row)
        relations.append(
            heterograph_index.create_unitgraph_from_csr(
                2, len(src[kind[0]]), num_dst[kind[2]], offsets.to(idtype), rows.to(idtype), none,
                ["coo", "csr", "csc"], True,
            )
        )  # fmt: skip
    counts = [len(src[name]) for name in schema.ntypes] + [num_dst[name] for name in schema.ntypes]
    index = heterograph_index.create_heterograph_from_relations(
        schema.metagraph, relations, utils.toindex(counts, "int64")
    )
    etypes = [kind[1] for kind in schema.canonical_etypes]
    nodes = [src[name] for name in schema.ntypes]
    nodes += [src[name][: num_dst[name]] for name in schema.ntypes]
    return DGLBlock(
        index,
        (schema.ntypes, schema.ntypes),
        etypes,
        [Frame({dgl.NID: ids}, len(ids)) for ids in nodes],
        [
            Frame({dgl.EID: edges[kind].edge}, len(edges[kind].edge))
            for kind in schema.canonical_etypes
        ],
    )


def offsets_of(col: Ids, count: int) -> Ids:
    """Where the edges of each of ``count`` destinations begin; ``col`` is ascending."""
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(col, minlength=count), out=offsets[1:])
    return offsets
