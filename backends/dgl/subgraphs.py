"""Subgraphs of clusters and of random walks, for DGL's loaders.

Sources followed: ``dgl/dataloading/cluster_gcn.py`` and ``graphsaint.py``.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from torch import Tensor

import dgl
import dgl.dataloading
from aethergraph._checks.arrays import as_count, empty
from aethergraph._checks.options import shown
from aethergraph._torch.tensors import read_array
from aethergraph.dgl._arguments import as_names, check_output_device
from aethergraph.dgl.convert import to_dgl
from aethergraph.dgl.sampler import storage_of
from aethergraph.dgl.storage import GraphStorage
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.sampling.walks import RandomWalker

__all__ = ["ClusterGCNSampler", "SAINTSampler"]


class ClusterGCNSampler(dgl.dataloading.ClusterGCNSampler):  # type: ignore[misc]
    """DGL's ``ClusterGCNSampler`` (Chiang and others, KDD 2019) over a graph of ours.

    The loader's indices are numbers of clusters; a batch is the subgraph induced by the nodes of
    some. Without a file at ``cache_path`` METIS partitions the graph first, for which DGL needs all
    of its edges in memory. ``clusters`` gives a partition instead.

    Args:
        g: the graph, of one type.
        k: number of clusters.
        cache_path: file of the partition, in DGL's format.
        balance_edges, mode: options of METIS.
        prefetch_ndata, prefetch_edata: names of data to fetch.
        output_device: device of the subgraphs.
        clusters: the cluster of every node, integers [num_nodes] below ``k``; ``cache_path`` is
            then not used.

    Raises:
        UnsupportedError: a graph of several types, or ``balance_ntypes``.
        InvalidArgumentError: clusters of a wrong shape or value.
    """

    def __init__(
        self,
        g: GraphStorage,
        k: int,
        cache_path: str = "cluster_gcn.pkl",
        balance_ntypes: Any = None,
        balance_edges: bool = False,
        mode: str = "k-way",
        prefetch_ndata: Any = None,
        prefetch_edata: Any = None,
        output_device: Any = None,
        *,
        clusters: Any = None,
    ) -> None:
        storage = storage_of(g)
        if not storage.is_homogeneous:
            raise UnsupportedError(
                "clusters are of graphs with one type of nodes and edges: take NeighborSampler or "
                "ShaDowKHopSampler for many"
            )
        if balance_ntypes is not None:
            raise UnsupportedError(
                f"balance_ntypes = {shown(balance_ntypes)}: partition yourself and give clusters="
            )
        prefetch_ndata = as_names(prefetch_ndata, "prefetch_ndata")
        prefetch_edata = as_names(prefetch_edata, "prefetch_edata")
        output_device = check_output_device(output_device)
        if clusters is not None:
            dgl.dataloading.Sampler.__init__(self)
            self.partition_offset, self.partition_node_ids = _grouped(
                clusters, as_count(k, "k"), storage.num_nodes()
            )
            self.prefetch_ndata = prefetch_ndata
            self.prefetch_edata = prefetch_edata
            self.output_device = output_device
            return
        structure = storage if os.path.exists(cache_path) else _simple(storage)
        super().__init__(
            structure,
            k,
            cache_path,
            balance_edges=balance_edges,
            mode=mode,
            prefetch_ndata=prefetch_ndata,
            prefetch_edata=prefetch_edata,
            output_device=output_device,
        )


def _simple(storage: GraphStorage) -> Any:
    """Return the simple graph for METIS: self-loops make DGL's copy of it write out of bounds."""
    graph = to_dgl(storage, idtype=torch.int64, data=False)
    return dgl.remove_self_loop(dgl.to_simple(graph))


def _grouped(clusters: Any, k: int, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Return where each cluster begins, and the nodes by cluster."""
    array = read_array(clusters, "clusters")
    if array.dtype.kind not in "iu" or array.shape != (num_nodes,):
        raise InvalidArgumentError(
            f"clusters has one integer per node, shape ({num_nodes},), got "
            f"{array.shape} of {array.dtype}"
        )
    if num_nodes and not 0 <= int(array.min()) <= int(array.max()) < k:
        at = int(((array < 0) | (array >= k)).argmax())
        raise InvalidArgumentError(
            f"clusters[{at}] = {int(array[at])} is not below k = {k}", position=at
        )
    cluster_ids = np.ascontiguousarray(array, np.int64)
    offset = empty(k + 1, np.int64, f"{k} clusters")
    offset[0] = 0
    np.cumsum(np.bincount(cluster_ids, minlength=k), out=offset[1:])
    return torch.from_numpy(offset), torch.from_numpy(np.argsort(cluster_ids, kind="stable"))


class SAINTSampler(dgl.dataloading.SAINTSampler):  # type: ignore[misc]
    """DGL's ``SAINTSampler`` (GraphSAINT; Zeng and others, ICLR 2020) over a graph of ours.

    All arguments are DGL's. Subgraphs need a graph that stores in-edges (layout "csc" or "both");
    ``mode="walk"`` also follows out-edges, and so needs layout "both". ``"node"`` and ``"edge"``
    hold one number per node or edge, as DGL's. Draws come from torch's global generator, too.

    Raises:
        LayoutError (when sampling): the graph does not store a direction; names ``layout``.
        UnsupportedError (when sampling): walks over a graph of several types.
    """

    def sample(self, g: GraphStorage, indices: Any) -> Any:
        """Return the subgraph of nodes that are drawn.

        Raises:
            UnsupportedError: a graph of several types.
        """
        if isinstance(g, GraphStorage) and not g.is_homogeneous:
            raise UnsupportedError(
                "SAINTSampler is for graphs with one type of nodes and edges: take NeighborSampler "
                "or ShaDowKHopSampler for many"
            )
        return super().sample(g, indices)

    def walk_sampler(self, g: GraphStorage) -> Tensor:
        """Return the nodes that random walks visit."""
        graph = storage_of(g).graph
        if graph.is_typed:
            raise UnsupportedError(
                "mode = 'walk' is for graphs with one type of nodes and edges: take "
                "ShaDowKHopSampler for many"
            )
        num_roots, length = self.budget
        roots = torch.randint(0, graph.num_nodes, (num_roots,)).numpy()
        key = int(torch.randint(0, (1 << 63) - 1, (1,)))
        walks = RandomWalker(graph, pad=True).walk(roots, length, key=key)
        nodes = np.unique(walks[walks >= 0])
        return torch.from_numpy(nodes).to(g.idtype)
