"""Put our loader, samplers and graphs in the place of DGL's, for the tests of its dataloading.

A process that a test starts gets them too, with the first sampler of ours that it unpickles.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import dgl
import dgl.data
import dgl.dataloading
import torch
import torch.distributed

from aethergraph import dgl as ours
from peers.counting import count_calls, make_counted

_storages: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def over(graph: Any) -> Any:
    """Return a ``DGLGraph`` as a graph of ours, the same one for the same graph."""
    if not isinstance(graph, dgl.DGLGraph):
        return graph
    if graph not in _storages:
        copy = ours.from_dgl(graph, layout="both")
        _storages[graph] = ours.GraphStorage(copy, idtype=graph.idtype)
    return _storages[graph]


# ---- loader and samplers -------------------------------------------------------------------

DataLoader = make_counted(ours.DataLoader, __name__, first=over)
ClusterGCNSampler = make_counted(ours.ClusterGCNSampler, __name__, first=over)
LaborSampler = make_counted(ours.LaborSampler, __name__)
MultiLayerFullNeighborSampler = make_counted(ours.MultiLayerFullNeighborSampler, __name__)
NeighborSampler = make_counted(ours.NeighborSampler, __name__)
SAINTSampler = make_counted(ours.SAINTSampler, __name__)
ShaDowKHopSampler = make_counted(ours.ShaDowKHopSampler, __name__)
for _kind in (
    DataLoader,
    ClusterGCNSampler,
    LaborSampler,
    MultiLayerFullNeighborSampler,
    NeighborSampler,
    SAINTSampler,
    ShaDowKHopSampler,
):
    setattr(dgl.dataloading, _kind.__name__, _kind)
dgl.dataloading.MultiLayerNeighborSampler = NeighborSampler

PerSourceUniform = make_counted(ours.PerSourceUniform, __name__)
dgl.dataloading.negative_sampler.Uniform = PerSourceUniform

dgl.dataloading.as_edge_prediction_sampler = count_calls(
    "as_edge_prediction_sampler", ours.as_edge_prediction_sampler
)
dgl.dataloading.SpotTarget = make_counted(dgl.dataloading.SpotTarget, __name__, first=over)


# ---- data that would have to be downloaded -------------------------------------------------


def _make_cora(*args: Any, **kwargs: Any) -> list[Any]:
    """Make a small graph in the place of Cora."""
    graph = dgl.rand_graph(1000, 5000)
    graph.ndata["feat"] = torch.rand(1000, 8)
    graph.ndata["label"] = torch.randint(0, 7, (1000,))
    return [graph]


dgl.data.CoraFullDataset = _make_cora


def pytest_runtest_teardown(item: Any) -> None:
    """End the process group of a test that failed, which the next one makes again."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
