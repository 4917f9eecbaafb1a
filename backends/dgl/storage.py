"""Duck-typed ``DGLGraph`` over our graphs, for stock loaders, samplers and negatives.

Sources followed: ``dgl/dataloading`` (``dataloader.py``, ``base.py``, ``neighbor_sampler.py``,
``shadow.py``, ``graphsaint.py``, ``negative_sampler.py``, ``spot_target.py``) and the methods of
``DGLGraph`` that they call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

import dgl
from aethergraph import _native as native
from aethergraph._checks.arrays import as_count
from aethergraph._checks.options import as_choice, as_flag, as_text, shown
from aethergraph._torch.iteration import find_iteration
from aethergraph._torch.keyed import Keyed
from aethergraph.dgl._arguments import (
    as_truth,
    check_cpu,
    check_output_device,
    check_threads,
    hop_fanouts,
    hop_hashes,
    refuse_options,
)
from aethergraph.dgl._blocks import BlockMaker
from aethergraph.dgl._negatives import draw_negatives
from aethergraph.dgl._plans import NAMES, DrawCache, excluded_edges
from aethergraph.dgl._queries import Queries
from aethergraph.dgl._repeated_calls import Calls, Repeats
from aethergraph.dgl._schema import Schema
from aethergraph.dgl.features import EdgeFeatureStorage, FeatureStorage
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.protocols import AnyGraph
from aethergraph.sampling.engine import DrawOptions
from aethergraph.sampling.keys import hash_ids

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.graph.hetero import EdgeType
    from aethergraph.protocols import RowSource

__all__ = ["GraphStorage"]

Ids: TypeAlias = "NDArray[np.int64]"

#: Attributes that code looks for if it needs a DGLGraph, and what to use instead.
_HINTS = {
    "_graph": "DGL's functions in C++ need a DGLGraph: for random walks take RandomWalker of "
    "aethergraph, for these samplers ClusterGCNSampler and SAINTSampler of aethergraph.dgl, for "
    "all else to_dgl(graph)",
    "_node_frames": "gpu_cache= is for a DGLGraph: leave it out",
    "pin_memory_": "use_uva= is for a DGLGraph: leave it out",
    "ndata": "name the data in the sampler (prefetch_node_feats), or take get_node_storage(name); "
    "for inference layer by layer write a layer's output with .graph.node_attrs['h'] = y and load "
    "it with prefetch_node_feats=['h'] and MultiLayerFullNeighborSampler(1)",
    "edata": "name the data in the sampler (prefetch_edge_feats), or take get_edge_storage(name)",
}


class GraphStorage(Keyed, Queries):
    """Graph that DGL's stock ``DataLoader`` and samplers take instead of a ``DGLGraph``.

    ::

        graph = GraphStorage(Graph.load("graph.aeg"))
        sampler = aethergraph.dgl.NeighborSampler([10, 10], prefetch_node_feats=["x"])
        loader = dgl.dataloading.DataLoader(graph, train_nodes, sampler, batch_size=128)

    The topology and the features stay where the graph has them, in files or in memory. Node data
    and edge data are the graph's attributes, by name. A graph of one type has DGL's names for it:
    ``_N`` and ``_E``. It pickles with its graph.

    DGL's own ``NeighborSampler``, ``MultiLayerFullNeighborSampler``, ``ShaDowKHopSampler``,
    ``SAINTSampler`` (nodes and edges), negative samplers and ``SpotTarget`` work on it; the
    samplers of this package do this with one native call per batch. Like their draws, those of
    :meth:`sample_neighbors` are a function of ``seed`` (else of the number of the loader's
    iteration, or outside of a loader of ``torch.initial_seed()``), the epoch (:meth:`set_epoch`)
    and the nodes; and of how often they were just asked for, so that layers over the same nodes
    differ. Those of :meth:`global_uniform_negative_sampling`, which is not told for what it draws,
    are a function of the same, process (rank and worker) and the number of the call instead of the
    nodes.

    Args:
        graph: a :class:`aethergraph.Graph` or :class:`aethergraph.HeteroGraph`.
        edge_ids: meaning of edge ids, in ``dgl.EID`` and in arguments. ``"input"``: rows
            of the edge list that the graph was built from, as in DGL; the graph must have been
            built with ``keep_order=True``, and looking ids up takes a table of one id per edge.
            ``"graph"``: the graph's own, which are positions in its lists. None: ``"input"`` where
            the graph kept the order; where it did not, ids that are given (seed edges, edges to
            exclude, ``find_edges``) are refused, since nobody can tell which edges they mean.
        idtype: dtype of all ids in results, ``torch.int64`` or ``torch.int32``.
        seed: fixed number to draw from instead of torch's seed.
        num_threads: threads per call; 1 is the calling thread, 0 all cores the process may use.

    Attributes:
        device: always the CPU.
        ntypes, etypes, canonical_etypes: names of types, sorted as DGL sorts them.

    Raises:
        InvalidArgumentError: no graph of ours, or an invalid option.
    """

    device = torch.device("cpu")
    is_block = False

    def __init__(
        self,
        graph: AnyGraph,
        *,
        edge_ids: Literal["input", "graph"] | None = None,
        idtype: torch.dtype = torch.int64,
        seed: int | None = None,
        num_threads: int = 1,
    ) -> None:
        self._schema = Schema(graph, edge_ids)
        self._edge_ids = edge_ids
        if not isinstance(idtype, torch.dtype) or idtype not in (torch.int64, torch.int32):
            raise InvalidArgumentError(
                f"idtype = {shown(idtype)} is not torch.int64 or torch.int32"
            )
        _check_idtype(self._schema, idtype)
        self.idtype = idtype
        self.num_threads = check_threads(num_threads)
        self.ntypes = list(self._schema.ntypes)
        self.canonical_etypes = list(self._schema.canonical_etypes)
        self.etypes = [kind[1] for kind in self.canonical_etypes]
        self.srctypes = self.dsttypes = self.ntypes
        self._blocks: BlockMaker | None = None
        self._node_storages: dict[tuple[str, str], FeatureStorage] = {}
        self._draws = DrawCache(self._schema)
        self._repeats, self._calls = Repeats(), Calls()
        self._set_seed(seed)

    # ---- what it is ----------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"GraphStorage({self.graph!r}, idtype={self.idtype})"

    def __getattr__(self, name: str) -> Any:
        hint = _HINTS.get(name, "to_dgl(graph) makes a DGLGraph of all of it, in memory")
        raise AttributeError(f"GraphStorage has no {name!r}: {hint}")

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__, "_blocks": None, "_draws": None, "_node_storages": {}}
        state |= {"_schema": self.graph, "_repeats": Repeats(), "_calls": Calls()}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._schema = Schema(state["_schema"], self._edge_ids)
        self._draws = DrawCache(self._schema)

    def to(self, device: Any, **options: Any) -> GraphStorage:
        """Return this graph for the CPU, where it is.

        Args:
            device: the CPU.
            **options: options of ``DGLGraph.to``, not used.

        Raises:
            UnsupportedError: another device.
        """
        check_cpu(device, "sampling is on the CPU, DGL's loader moves batches with device=")
        return self

    def cpu(self) -> GraphStorage:
        """Return this graph."""
        return self

    def create_formats_(self) -> None:
        """Do nothing: the lists that sampling needs are there. Scripts call it before they fork."""

    @property
    def blocks(self) -> BlockMaker:
        """Maker of blocks of this graph, for samplers."""
        if self._blocks is None:
            self._blocks = BlockMaker(self._schema, self.idtype)
        return self._blocks

    # ---- features ------------------------------------------------------------------------

    def get_node_storage(self, key: str, ntype: str | None = None) -> FeatureStorage:
        """Return the storage of node data called by a name."""
        node_type = self._schema.ntype(ntype)
        rows = _named(self._schema.node_rows(node_type), key, f"node data of {ntype!r}")
        storage = self._node_storages.get((node_type, key))
        if storage is None or storage.rows is not rows:  # the graph has another attribute there now
            storage = self._node_storages[node_type, key] = FeatureStorage(rows)
        return storage

    def get_edge_storage(self, key: str, etype: Any = None) -> EdgeFeatureStorage:
        """Return the storage of edge data called by a name."""
        kind = self._schema.etype(etype)
        rows = self._schema.edge_rows(kind)
        return EdgeFeatureStorage(
            _named(rows, key, f"edge data of {kind!r}"), self._schema.numbers[kind]
        )

    # ---- subgraphs -----------------------------------------------------------------------

    def edge_subgraph(
        self, edges: Any, relabel_nodes: bool = True, output_device: Any = None, **dgl_options: Any
    ) -> Any:
        """Make a ``DGLGraph`` of some edges, with ``edata[dgl.EID]``.

        Args:
            edges: ids or a mask, or a dict of them by edge type.
            relabel_nodes: only the ends of these edges are nodes, with ``ndata[dgl.NID]``; else
                all nodes are.
            output_device: device of the result.
            **dgl_options: further options of DGL's method, at their defaults only.
        """
        _refuse(dgl_options, store_ids=True)
        relabel_nodes = as_flag(relabel_nodes, "relabel_nodes")
        device = check_output_device(output_device)
        own_ids = self._schema.edge_ids(edges, "edges")
        none = np.empty(0, np.int64)
        ends = {
            kind: self._schema.edges(kind).edge_ends(own_ids.get(kind, none))
            for kind in self.canonical_etypes
        }
        shown_ids = {
            kind: self._schema.numbers[kind].shown(own_ids.get(kind, none).copy())
            for kind in self.canonical_etypes
        }
        graph = self._make_graph(ends, shown_ids, self._counts())
        if relabel_nodes:
            compact = dgl.compact_graphs(graph)
            for kind in self.canonical_etypes:
                compact.edges[kind].data[dgl.EID] = graph.edges[kind].data[dgl.EID]
            graph = compact
        return _move(graph, device)

    def subgraph(
        self, nodes: Any, relabel_nodes: bool = True, output_device: Any = None, **dgl_options: Any
    ) -> Any:
        """Make the ``DGLGraph`` of all edges among some nodes, with ``dgl.NID`` and ``dgl.EID``.

        Args:
            nodes: ids or a mask, or a dict of them by node type; node i of a type is ``nodes[i]``.
            relabel_nodes: False keeps all nodes.
            output_device: device of the result.
            **dgl_options: further options of DGL's method, at their defaults only.
        """
        _refuse(dgl_options, store_ids=True)
        relabel_nodes = as_flag(relabel_nodes, "relabel_nodes")
        device = check_output_device(output_device)
        seeds = self._schema.node_ids(nodes, "nodes")
        _refuse_repeated(seeds, "give each once")
        no_hops = ((),) * len(self._schema.edge_types)
        options = DrawOptions(induced=True, num_threads=self.num_threads)
        sample = self._draws.get(native.NativeSample, no_hops, options).sample(
            seeds, 0, names=NAMES
        )
        return _move(self.induced(sample, relabel_nodes), device)

    def induced(self, sample: native.NativeSample, relabel_nodes: bool = True) -> Any:
        """Convert a sample to a ``DGLGraph``, for samplers."""
        ends, shown_ids = {}, {}
        node = dict(zip(self._schema.node_types, sample.node, strict=True))
        for i, kind in enumerate(self._schema.edge_types):
            row, col = sample.row[i], sample.col[i]
            if relabel_nodes:
                ends[kind] = row.copy(), col.copy()
            else:
                ends[kind] = node[kind[0]][row], node[kind[2]][col]
            shown_ids[kind] = self._schema.numbers[kind].shown(sample.edge[i])
        counts = {name: len(ids) for name, ids in node.items()}
        graph = self._make_graph(ends, shown_ids, counts if relabel_nodes else self._counts())
        if relabel_nodes:
            for name in self.ntypes:
                graph.nodes[name].data[dgl.NID] = self._tensors(node[name])[0]
        return graph

    # ---- sampling ------------------------------------------------------------------------

    def sample_neighbors(
        self,
        nodes: Any,
        fanout: Any,
        edge_dir: str = "in",
        prob: str | None = None,
        exclude_edges: Any = None,
        replace: bool = False,
        output_device: Any = None,
        **dgl_options: Any,
    ) -> Any:
        """Sample one hop around ``nodes``: a ``DGLGraph`` of all nodes, with ``edata[dgl.EID]``.

        Args:
            nodes: ids, or a dict of them by node type.
            fanout: edges per node and edge type, or a dict of that with every edge type; -1 takes
                all.
            edge_dir: ``"in"``, or ``"out"`` for out-edges, which the graph must store.
            prob: the name of weights, or of a mask, of edges.
            exclude_edges: ids that are not drawn, or a dict of them by edge type. Ids beyond the
                last edge are ignored, as in DGL.
            replace: draw with replacement.
            output_device: device of the result.
            **dgl_options: further options of DGL's method, at their defaults only.

        Raises:
            LayoutError: the graph does not store that direction; names ``layout``.
            InvalidArgumentError, OutOfRangeError: an invalid argument.
        """
        _refuse(dgl_options, copy_ndata=True, copy_edata=True)
        edge_dir = as_choice(edge_dir, ("in", "out"), "edge_dir")
        prob, replace = as_text(prob, "prob"), as_truth(replace, "replace")
        device = check_output_device(output_device)
        layout: Literal["csc", "csr"] = "csc" if edge_dir == "in" else "csr"
        seeds = self._schema.node_ids(nodes, "nodes")
        _refuse_repeated(
            seeds,
            "DGL's own samplers would give all edges to its last copy, as they do with any graph "
            "but a DGLGraph; give each once, or take aethergraph.dgl.NeighborSampler, which keeps "
            "both",
        )
        fanouts = tuple((count,) for count in hop_fanouts(self._schema, fanout, "fanout"))
        options = DrawOptions(replace=replace, num_threads=self.num_threads)
        iteration = find_iteration()
        content = self._repeats.parts(self.epoch, hop_hashes(self._schema, seeds), iteration)
        key = self._batch_key(None, *content, iteration=iteration)
        draws = self._draws.get(native.NativeSample, fanouts, options, layout, prob=prob)
        excluded = excluded_edges(draws, exclude_edges, "exclude_edges")
        sample = draws.sample(seeds, key, exclude=excluded, names=NAMES)
        node = dict(zip(self._schema.node_types, sample.node, strict=True))
        ends, shown_ids = {}, {}
        for i, kind in enumerate(self._schema.edge_types):
            near, far = sample.col[i], sample.row[i]
            src, dst = (far, near) if edge_dir == "in" else (near, far)
            ends[kind] = node[kind[0]][src], node[kind[2]][dst]
            shown_ids[kind] = self._schema.numbers[kind].shown(sample.edge[i])
        return _move(self._make_graph(ends, shown_ids, self._counts()), device)

    def sample_labors(self, *args: Any, **options: Any) -> Any:
        """Refuse: the stock ``LaborSampler`` draws with a state of its own."""
        raise UnsupportedError(
            "dgl.dataloading.LaborSampler needs a DGLGraph: take aethergraph.dgl.LaborSampler"
        )

    def global_uniform_negative_sampling(
        self,
        num_samples: int,
        exclude_self_loops: bool = True,
        replace: bool = False,
        etype: Any = None,
        redundancy: float | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Draw pairs of nodes without an edge, uniformly; perhaps fewer than asked for.

        Args:
            num_samples: number of pairs.
            exclude_self_loops: no node is paired with itself.
            replace: pairs may come twice.
            etype: the edge type.
            redundancy: share of extra draws for pairs that turn out to be edges.
        """
        kind = self._schema.etype(etype)
        num_samples = as_count(num_samples, "num_samples")
        exclude_self_loops = as_truth(exclude_self_loops, "exclude_self_loops")
        replace = as_truth(replace, "replace")
        content = hash_ids(np.array([num_samples, self.canonical_etypes.index(kind)], np.int64))
        key = self._batch_key(None, content, *self._calls.parts(self.epoch))
        pairs = draw_negatives(
            self._schema.edges(kind), kind[0] == kind[2], num_samples, key,
            exclude_self_loops=exclude_self_loops, replace=replace, redundancy=redundancy,
        )  # fmt: skip
        src, dst = self._tensors(*pairs)
        return src, dst

    # ---- helpers -------------------------------------------------------------------------

    def _counts(self) -> dict[str, int]:
        return {name: self._schema.num_nodes(name) for name in self.ntypes}

    def _make_graph(
        self,
        ends: Mapping[EdgeType, tuple[Ids, Ids]],
        shown_ids: Mapping[EdgeType, Ids],
        counts: dict[str, int],
    ) -> Any:
        data = {kind: self._tensors(*ends[kind]) for kind in self.canonical_etypes}
        graph = dgl.heterograph(data, counts)
        for kind in self.canonical_etypes:
            graph.edges[kind].data[dgl.EID] = self._tensors(shown_ids[kind])[0]
        return graph


def _check_idtype(schema: Schema, idtype: torch.dtype) -> None:
    if idtype == torch.int64:
        return
    counts: dict[Any, int] = {name: schema.num_nodes(name) for name in schema.ntypes}
    counts.update({kind: schema.num_edges(kind) for kind in schema.canonical_etypes})
    for name, count in counts.items():
        if count >= 1 << 31:
            raise InvalidArgumentError(
                f"idtype = torch.int32: {name!r} has {count} ids, take torch.int64", value=count
            )


def _refuse(options: dict[str, Any], **defaults: Any) -> None:
    """Refuse options of DGLGraph's method that are not at their default."""
    public_options = {name: value for name, value in options.items() if not name.startswith("_")}
    refuse_options(public_options, defaults, "leave it out")


def _refuse_repeated(seeds: Mapping[str, NDArray[np.int64]], why: str) -> None:
    for ntype, ids in seeds.items():
        if len(np.unique(ids)) != len(ids):
            repeated = np.sort(ids)[:-1][np.diff(np.sort(ids)) == 0][0]
            raise InvalidArgumentError(f"nodes of {ntype!r} hold {repeated} twice: {why}")


def _named(rows: dict[str, RowSource], name: Any, noun: str) -> RowSource:
    if not isinstance(name, str) or name not in rows:
        known = ", ".join(sorted(map(repr, rows))) or "none"
        is_letter = isinstance(name, str) and len(name) == 1
        hint = ": names come in a list, not as one text" if is_letter else ""
        raise InvalidArgumentError(f"{shown(name)} is no {noun}; there are: {known}{hint}")
    return rows[name]


def _move(graph: Any, device: torch.device | None) -> Any:
    return graph if device is None else graph.to(device)
