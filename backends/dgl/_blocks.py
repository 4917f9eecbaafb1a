"""DGL's message flow graphs (blocks), made of samples."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

import dgl
from aethergraph import _native as native
from aethergraph.dgl._schema import Schema
from dgl import graph_index, heterograph_index, ndarray, utils
from dgl._ffi import object_generic
from dgl.frame import Column, Frame, Scheme
from dgl.heterograph import DGLBlock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.graph.hetero import EdgeType

__all__ = ["BlockEdges", "BlockMaker", "offsets_of"]

Ids: TypeAlias = "NDArray[np.int64]"


class BlockEdges(NamedTuple):
    """Edges of one type in a block, by destination.

    Attributes:
        row: local sources.
        offsets: beginnings of the edges of each destination [num_dst + 1].
        edge: edge ids that users see.
    """

    row: Ids
    offsets: Ids
    edge: Tensor


class BlockMaker:
    """Maker of the blocks of one graph.

    Blocks equal those of ``dgl.create_block``, but are put together from their parts: that
    function looks for the largest id, makes a metagraph and sorts out the names of types every
    time, which takes longer than sampling does. Here the common parts of all blocks are made once.

    Tensors of ids share no memory with the adjacency, because a worker process that sends a batch
    moves them to shared memory, where DGL would not look for it; nor with those of other blocks, so
    that changing or pickling one does not take the others along.

    Args:
        schema: types of the graph.
        idtype: dtype of all ids in blocks.
    """

    def __init__(self, schema: Schema, idtype: torch.dtype) -> None:
        self._schema = schema
        self._idtype = idtype
        self._scheme = Scheme((), idtype)
        self._none = self._lend(np.empty(0, np.int64))
        # Converted once: DGL converts a list anew in every call that is given one.
        self._formats = object_generic.convert_to_object(["coo", "csr", "csc"])
        number = {name: i for i, name in enumerate(schema.ntypes)}
        self._ends = [(number[kind[0]], number[kind[2]]) for kind in schema.canonical_etypes]
        sources, targets = ({pair[side] for pair in self._ends} for side in (0, 1))
        self._is_connected = len(sources) == len(targets) == len(number)
        self._metagraph = graph_index.from_coo(
            2 * len(number),
            [source for source, _ in self._ends],
            [len(number) + target for _, target in self._ends],
            True,
        )
        self._template = self._make_template()
        self._containers = [
            k for k, v in vars(self._template).items() if isinstance(v, list | dict)
        ]

    def of_layers(self, sample: native.NativeLayers) -> tuple[dict[str, Tensor], list[Any]]:
        """Return the source nodes of the first block by type, and the blocks, input layer first.

        Local ids count through the whole sample in order of first appearance, so the sources of
        every block are a prefix of the nodes, and its destinations a shorter one.
        """
        spans = []
        for hop_offsets, counts in zip(sample.offsets, sample.hop_edges, strict=True):
            ends = [0, *itertools.accumulate(counts)]
            spans.append(
                [(slice(*ends[hop : hop + 2]), offsets) for hop, offsets in enumerate(hop_offsets)]
            )
        return self._assemble(sample, spans)

    def of_growing(self, sample: native.NativeSample) -> tuple[dict[str, Tensor], list[Any]]:
        """Return nodes and blocks as :meth:`of_layers` does, of a sample that is not layered.

        Each node keeps the edges that it was first given. Block h from the seeds holds the edges of
        the first h + 1 hops.
        """
        ends = {
            name: list(itertools.accumulate(counts))
            for name, counts in zip(self._schema.node_types, sample.hop_nodes, strict=True)
        }
        spans = []
        for i, kind in enumerate(self._schema.edge_types):
            stops = itertools.accumulate(sample.hop_edges[i])
            spans.append(
                [
                    (slice(0, stop), offsets_of(sample.col[i][:stop], ends[kind[2]][hop]))
                    for hop, stop in enumerate(stops)
                ]
            )
        return self._assemble(sample, spans)

    def make(
        self,
        edges: Mapping[EdgeType, BlockEdges],
        src: Mapping[str, Tensor],
        num_dst: Mapping[str, int],
    ) -> Any:
        """Make a block; the first ``num_dst`` of the sources are its destinations."""
        schema = self._schema
        nodes = [src[name] for name in schema.ntypes]
        num_src = [ids.shape[0] for ids in nodes]
        counts = [num_dst[name] for name in schema.ntypes]
        parts = [edges[kind] for kind in schema.canonical_etypes]
        relations = [
            self._relation(part, num_src[source], counts[target])
            for part, (source, target) in zip(parts, self._ends, strict=True)
        ]
        nodes += [ids[:count].clone() for ids, count in zip(nodes, counts, strict=True)]
        # DGLGraph.to makes one graph of another in this way too; the names are the block's own.
        block = copy.copy(self._template)
        for name in self._containers:
            setattr(block, name, getattr(block, name).copy())
        block._graph = self._index(relations, num_src + counts)
        block._node_frames = [self._frame(dgl.NID, ids) for ids in nodes]
        block._edge_frames = [self._frame(dgl.EID, part.edge) for part in parts]
        return block

    # ---- helpers -------------------------------------------------------------------------

    def _assemble(
        self,
        sample: native.NativeLayers | native.NativeSample,
        spans: list[list[tuple[slice, Ids]]],
    ) -> tuple[dict[str, Tensor], list[Any]]:
        """Make blocks of the edges that each edge type has in each hop, and their offsets."""
        schema, idtype = self._schema, self._idtype
        node = {
            name: torch.from_numpy(ids).to(idtype)
            for name, ids in zip(schema.node_types, sample.node, strict=True)
        }
        ends = {
            name: list(itertools.accumulate(counts))
            for name, counts in zip(schema.node_types, sample.hop_nodes, strict=True)
        }
        shown_ids = [
            schema.numbers[kind].shown(ids)
            for kind, ids in zip(schema.edge_types, sample.edge, strict=True)
        ]
        blocks: list[Any] = []
        last = len(sample.hop_nodes[0]) - 2
        for hop in range(last + 1):
            parts = {}
            for i, kind in enumerate(schema.edge_types):
                span, offsets = spans[i][hop]
                edge = torch.from_numpy(shown_ids[i][span]).to(idtype)
                if span.start == 0 and hop:  # of growing blocks
                    edge = edge.clone()
                parts[kind] = BlockEdges(sample.row[i][span], offsets, edge)
            src = node
            if hop < last:
                src = {name: ids[: ends[name][hop + 1]].clone() for name, ids in node.items()}
            num_dst = {name: ends[name][hop] for name in node}
            blocks.insert(0, self.make(parts, src, num_dst))
        return node, blocks

    def _lend(self, ids: Ids) -> Any:
        """Return DGL's array over the memory of ``ids``, or a narrower copy."""
        narrow = ids if self._idtype == torch.int64 else ids.astype(np.int32)
        return ndarray.from_dlpack(narrow.__dlpack__())

    def _relation(self, edges: BlockEdges, num_src: int, num_dst: int) -> Any:
        """Make a DGL unit graph of tensors in CSR form."""
        return heterograph_index._CAPI_DGLHeteroCreateUnitGraphFromCSR(
            2, num_src, num_dst, self._lend(edges.offsets), self._lend(edges.row), self._none,
            self._formats, True,
        )  # fmt: skip

    def _frame(self, name: str, ids: Tensor) -> Frame:
        """Make ``Frame({name: ids})`` without its checks of shape and dtype."""
        frame = Frame(num_rows=ids.shape[0])
        frame._columns[name] = Column(ids, self._scheme)
        return frame

    def _index(self, relations: list[Any], counts: list[int]) -> Any:
        # DGL takes numbers of nodes from the relations, except for types in no relation.
        num_nodes = None if self._is_connected else utils.toindex(counts, "int64")
        return heterograph_index.create_heterograph_from_relations(
            self._metagraph, relations, num_nodes
        )

    def _make_template(self) -> Any:
        """Make a block without nodes, whose types and names all blocks share."""
        none = torch.empty(0, dtype=self._idtype)
        nothing = BlockEdges(np.empty(0, np.int64), np.zeros(1, np.int64), none)
        kinds, names = self._schema.canonical_etypes, self._schema.ntypes
        relations = [self._relation(nothing, 0, 0) for _ in kinds]
        index = self._index(relations, [0] * (2 * len(names)))
        return DGLBlock(index, (names, names), [kind[1] for kind in kinds])


def offsets_of(col: Ids, count: int) -> Ids:
    """Return where the edges of each of ``count`` destinations begin; ``col`` ascends."""
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(col, minlength=count), out=offsets[1:])
    return offsets
