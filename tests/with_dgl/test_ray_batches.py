"""Batches of Ray's sampling datasets as DGL's blocks; Ray itself is not needed for them."""

from __future__ import annotations

import dgl
import numpy as np
import pytest
import torch
from support.dgl import make_graph

from aethergraph import SubgraphLoader
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.ray import collate_to_dgl
from aethergraph.ray.rows import as_table


def test_blocks_hold_the_edges_of_the_hops_behind_them() -> None:
    graph = make_graph()
    for batch in SubgraphLoader(graph, [3, 2, 2], batch_size=16, seed=1):
        sub = batch.subgraph
        inputs, outputs, blocks = collate_to_dgl(as_table(batch, 0, 0))
        np.testing.assert_array_equal(inputs, sub.node)
        np.testing.assert_array_equal(outputs, batch.seeds)
        nodes, edges = np.cumsum(sub.num_sampled_nodes), np.cumsum(sub.num_sampled_edges)
        assert len(blocks) == 3
        for hop, block in zip((2, 1, 0), blocks, strict=True):
            assert (block.num_src_nodes(), block.num_dst_nodes()) == (nodes[hop + 1], nodes[hop])
            src, dst = block.edges()
            np.testing.assert_array_equal(
                block.srcdata[dgl.NID][src], sub.node[sub.row[: edges[hop]]]
            )
            np.testing.assert_array_equal(
                block.dstdata[dgl.NID][dst], sub.node[sub.col[: edges[hop]]]
            )
            np.testing.assert_array_equal(block.edata[dgl.EID], sub.edge[: edges[hop]])
            for name, rows in batch.edge_attrs.items():
                np.testing.assert_array_equal(block.edata[name], rows[: edges[hop]])
        for name, rows in batch.node_attrs.items():
            np.testing.assert_array_equal(blocks[0].srcdata[name], rows)
            np.testing.assert_array_equal(blocks[-1].dstdata[name], rows[: batch.batch_size])
        # Every edge that leads to a node of a block's ends is in it: a layer sees whole samples.
        ends = [set(block.dstdata[dgl.NID].tolist()) for block in blocks]
        assert ends[2] <= ends[1] <= ends[0]


def test_rows_of_other_formats_are_read_alike() -> None:
    batch = next(iter(SubgraphLoader(make_graph(), [3, 2], batch_size=16)))
    table = as_table(batch, 0, 0)
    wanted = collate_to_dgl(table)
    row = {name: table[name][0].as_py() for name in table.column_names}
    arrays = {name: table[name].to_numpy() for name in table.column_names}
    for other in (row, arrays):
        found = collate_to_dgl(other)
        assert torch.equal(found[0], wanted[0]) and torch.equal(found[1], wanted[1])
        assert torch.equal(found[2][0].srcdata["x"].float(), wanted[2][0].srcdata["x"].float())


def test_what_are_no_blocks_is_refused() -> None:
    graph = make_graph()
    for options in ({"disjoint": True}, {"subgraph_type": "induced"}, {"fanouts": []}):
        given = {"fanouts": [2], "batch_size": 4, **options}
        batch = next(iter(SubgraphLoader(graph, **given)))
        with pytest.raises(UnsupportedError, match="blocks are made of the hops of directional"):
            collate_to_dgl(as_table(batch, 0, 0))
    batch = next(iter(SubgraphLoader(graph, [2], batch_size=4)))
    pa = pytest.importorskip("pyarrow")
    table = as_table(batch, 0, 0)
    for value, message in (
        (
            pa.concat_tables([table, table]),
            r"holds 2 sampled batches.*iter_batches\(batch_size=1\)",
        ),
        (table.drop_columns(["col"]), "no column 'col'"),
        (3, "must be a pyarrow table or a dict, got int"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            collate_to_dgl(value)
