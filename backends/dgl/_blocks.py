"""Samples as DGL's message flow graphs."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

import dgl
from aethergraph import _binding as native
from aethergraph.dgl._schema import Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["make_blocks"]

Ids: TypeAlias = "NDArray[np.int64]"


def make_blocks(
    schema: Schema, sample: native.NativeSample, layered: bool, idtype: torch.dtype
) -> tuple[dict[str, Tensor], list[Any]]:
    """The source nodes of the first block by type, and the blocks, input layer first.

    Local ids count through the whole sample in order of first appearance, so the sources of every
    block are a prefix of the nodes, and its destinations a shorter one. A layered sample has edges
    of its own for every block. Of any other one each node keeps the edges that it was first given:
    block h from the seeds holds the edges of the first h + 1 hops.

    Tensors of ids in frames and of the adjacency never share memory: a worker process that sends a
    batch moves the first to shared memory, and DGL would go on reading the second where it was.
    """
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
    hops = len(sample.hop_nodes[0]) - 1
    none = torch.empty(0, dtype=idtype)
    blocks: list[Any] = []
    for hop in range(hops):
        data, edge_ids = {}, {}
        num_src = {name: ends[name][hop + 1] for name in schema.ntypes}
        num_dst = {name: ends[name][hop] for name in schema.ntypes}
        for i, kind in enumerate(schema.own_etypes):
            counts = sample.hop_edges[i]
            start, stop = sum(counts[:hop]) if layered else 0, sum(counts[: hop + 1])
            indptr = _offsets(sample.col[i][start:stop], num_dst[kind[2]])
            row = sample.row[i][start:stop]
            adjacency = torch.from_numpy(indptr).to(idtype), torch.from_numpy(row).to(idtype)
            data[kind] = ("csc", (*adjacency, none))
            edge_ids[kind] = edge[kind][start:stop]
        block = dgl.create_block(data, num_src, num_dst)
        for name in schema.ntypes:
            block.srcnodes[name].data[dgl.NID] = node[name][: num_src[name]]
            block.dstnodes[name].data[dgl.NID] = node[name][: num_dst[name]]
        for kind in schema.canonical_etypes:
            block.edges[kind].data[dgl.EID] = edge_ids[kind]
        blocks.insert(0, block)
    return node, blocks


def _offsets(col: Ids, count: int) -> Ids:
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(col, minlength=count), out=offsets[1:])
    return offsets
