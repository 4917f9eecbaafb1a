"""Batches of a sampling dataset as PyG's and DGL's models take them."""

from __future__ import annotations

from typing import Any

import numpy as np

from aethergraph._checks.optional import require
from aethergraph.errors import UnsupportedError
from aethergraph.ray.rows import Row, as_row

__all__ = ["collate_to_dgl", "collate_to_pyg"]


def collate_to_pyg(batch: Any) -> Any:
    """Return a batch of a sampling dataset as PyG's ``Data``.

    It has what batches of :class:`aethergraph.pyg.NeighborLoader` have: node and edge tensors by
    their names, ``edge_index``, ``n_id``, ``e_id``, ``input_id``, ``batch_size``, ``batch`` if
    disjoint, ``num_sampled_nodes`` and ``num_sampled_edges``.

    Args:
        batch: one batch of ``iter_batches(batch_format="pyarrow")`` or ``"numpy"``, or a row of
            ``iter_rows()``.

    Raises:
        InvalidArgumentError: it is not of such a dataset, or holds several batches.
        UnsupportedError: torch or torch_geometric are not installed.
    """
    torch = require("torch", "batches of PyG need", "pyg")
    data = require("torch_geometric.data", "batches of PyG need", "pyg")
    row = as_row(batch)
    result = data.Data()
    for name, value in row.items():
        if name.startswith(("node:", "edge:")):
            result[name[5:]] = _as_tensor(torch, value)
    result.edge_index = torch.from_numpy(np.stack((row["row"], row["col"])))
    result.n_id, result.e_id = _as_tensor(torch, row["node"]), _as_tensor(torch, row["edge"])
    result.input_id, result.batch_size = _as_tensor(torch, row["index"]), row["batch_size"]
    if "batch" in row:
        result.batch = _as_tensor(torch, row["batch"])
    for name in ("num_sampled_nodes", "num_sampled_edges"):
        if name in row:
            result[name] = row[name].tolist()
    return result


def collate_to_dgl(batch: Any) -> Any:
    """Return a batch of a sampling dataset as DGL's blocks, one per hop.

    The blocks hold one sample of the neighbourhood: block i has the edges of the first hops, as
    many as the layers behind it need. The first one's sources have the node data, and the last
    one's destinations have the rows of the seeds; every block has the edge data of its edges.

    Args:
        batch: as for :func:`collate_to_pyg`.

    Returns:
        ``(input_nodes, output_nodes, blocks)``, as from DGL's ``DataLoader``.

    Raises:
        InvalidArgumentError: it is not of such a dataset, or holds several batches.
        UnsupportedError: torch or DGL are not installed; a sample that has no hops, of
            ``disjoint=True`` or another ``subgraph_type`` than ``"directional"``.
    """
    torch = require("torch", "batches of DGL need", "dgl")
    dgl = require("dgl", "batches of DGL need", "dgl")
    row = as_row(batch)
    if not len(row.get("num_sampled_edges", ())) or "batch" in row:
        raise UnsupportedError(
            "blocks are made of the hops of directional samples whose trees are joined: take "
            "num_neighbors of one hop at least, subgraph_type='directional' and disjoint=False"
        )
    nodes = np.cumsum(row["num_sampled_nodes"])
    edges = np.cumsum(row["num_sampled_edges"])
    blocks = [
        _make_block(torch, dgl, row, int(nodes[hop]), int(nodes[hop + 1]), int(edges[hop]))
        for hop in reversed(range(len(edges)))
    ]
    for name, value in row.items():
        if name.startswith("node:"):
            rows = _as_tensor(torch, value)
            blocks[0].srcdata[name[5:]] = rows
            blocks[-1].dstdata[name[5:]] = rows[: row["batch_size"]]
    node = _as_tensor(torch, row["node"])
    return node, node[: row["batch_size"]], blocks


def _make_block(
    torch: Any, dgl: Any, row: Row, num_targets: int, num_sources: int, num_edges: int
) -> Any:
    """Return the block of the first ``num_edges`` edges."""
    ends = tuple(_as_tensor(torch, row[name][:num_edges]) for name in ("row", "col"))
    block = dgl.create_block(ends, num_src_nodes=num_sources, num_dst_nodes=num_targets)
    node = _as_tensor(torch, row["node"])
    block.srcdata[dgl.NID], block.dstdata[dgl.NID] = node[:num_sources], node[:num_targets]
    block.edata[dgl.EID] = _as_tensor(torch, row["edge"][:num_edges])
    for name, value in row.items():
        if name.startswith("edge:"):
            block.edata[name[5:]] = _as_tensor(torch, value[:num_edges])
    return block


def _as_tensor(torch: Any, array: Any) -> Any:
    """Return a copy: the array lies in Ray's object store, which nobody may write to."""
    return torch.from_numpy(np.array(array))
