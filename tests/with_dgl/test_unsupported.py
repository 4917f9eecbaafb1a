"""Every option that is not there raises, and says its name and what to take or do instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dgl
import dgl.dataloading as stock
import dgl.graphbolt as gb
import numpy as np
import pytest
import torch
from dgl.dataloading import DataLoader
from support.dgl import make_graph, make_typed
from support.graphbolt import at_once

from aethergraph import FeatureTable, errors
from aethergraph.dgl import (
    ClusterGCNSampler,
    GraphStorage,
    LaborSampler,
    NeighborSampler,
    SAINTSampler,
)
from aethergraph.dgl.graphbolt import Feature, SamplingGraph, save_ondisk_dataset, to_fused_csc
from aethergraph.dgl.graphbolt import FeatureStore as BoltFeatures

NODES = torch.arange(10)
USERS = {"user": NODES}
FANOUT = torch.tensor([3])
TIMES = {"seed_time": torch.zeros(150)}


def one(**options: Any) -> GraphStorage:
    return GraphStorage(make_graph(**options))


def many() -> GraphStorage:
    return GraphStorage(make_typed(layout="both"))


def bolt() -> SamplingGraph:
    return SamplingGraph(make_graph())


def typed_bolt() -> SamplingGraph:
    return SamplingGraph(make_typed())


def half_precision() -> Any:
    graph = make_graph()
    graph.node_attrs["half"] = torch.zeros(150, 2, dtype=torch.bfloat16)
    return graph


def file_rows() -> FeatureTable:
    with TemporaryDirectory() as folder:
        np.save(f"{folder}/x.npy", np.zeros((5, 2), np.float32))
        return FeatureTable.load(f"{folder}/x.npy")


def temporal(graph: SamplingGraph, **names: str) -> Any:
    return graph.temporal_sample_neighbors(NODES, NODES, FANOUT, **names)


def shared(graph: SamplingGraph) -> Any:
    return graph.copy_to_shared_memory("name")


def labor(**options: Any) -> Callable[[], Any]:
    return lambda: LaborSampler([3], **options)


def items() -> Any:
    return gb.ItemSampler(gb.ItemSet(NODES, names="seed_nodes"), batch_size=5)


def first(sampler: Any, storage: GraphStorage, nodes: Any = NODES) -> Any:
    return next(iter(DataLoader(storage, nodes, sampler, batch_size=5)))


#: Calls, the option in the message, and the alternative in it.
CASES: dict[str, tuple[Callable[[], Any], str, str]] = {
    # dgl.dataloading: samplers
    "out-edges in time": (
        lambda: NeighborSampler([3], "out", time_attr="t", **TIMES),
        "edge_dir = 'out' with time_attr", "take edge_dir='in'",
    ),
    "out-edges between types": (
        lambda: first(NeighborSampler([3], "out"), many(), USERS),
        "edge_dir = 'out'", "sample with 'in'",
    ),
    "out-edges that are not stored": (
        lambda: first(NeighborSampler([3], "out"), one()), "layout", "layout='both'",
    ),
    "labor out": (labor(edge_dir="out"), "edge_dir = 'out'", "to_dgl(graph)"),
    "labor prob": (labor(prob="p"), "prob = 'p'", "to_dgl(graph)"),
    "labor importance": (
        labor(importance_sampling=1), "importance_sampling = 1", "to_dgl(graph)"
    ),
    "labor batches": (labor(batch_dependency=2), "batch_dependency = 2", "to_dgl(graph)"),
    "DGL's labor": (
        lambda: first(stock.LaborSampler([3]), one()),
        "LaborSampler", "aethergraph.dgl.LaborSampler",
    ),
    "clusters of types": (
        lambda: ClusterGCNSampler(many(), 3), "one type", "ShaDowKHopSampler for many"
    ),
    "balanced clusters": (
        lambda: ClusterGCNSampler(one(), 3, balance_ntypes=NODES), "balance_ntypes", "clusters="
    ),
    "DGL's clusters": (
        lambda: stock.ClusterGCNSampler(one(), 3), "_graph", "ClusterGCNSampler"
    ),
    "walks of types": (
        lambda: SAINTSampler("walk", (2, 2)).sample(many(), NODES),
        "SAINTSampler", "ShaDowKHopSampler for many",
    ),
    "SAINT's nodes of types": (
        lambda: SAINTSampler("node", 5).sample(many(), NODES),
        "SAINTSampler", "ShaDowKHopSampler for many",
    ),
    "SAINT's edges of types": (
        lambda: SAINTSampler("edge", 5).sample(many(), NODES),
        "SAINTSampler", "ShaDowKHopSampler for many",
    ),
    "DGL's walks": (
        lambda: stock.SAINTSampler("walk", (2, 2)).sample(one(layout="both"), NODES),
        "_graph", "SAINTSampler",
    ),
    "DGL's random walks": (
        lambda: dgl.sampling.random_walk(one(), NODES, length=2), "_graph", "RandomWalker"
    ),
    "DGL's subgraphs": (lambda: dgl.in_subgraph(one(), NODES), "_graph", "else to_dgl(graph)"),
    # dgl.dataloading: the loader and the graph
    "use_uva": (lambda: one().pin_memory_, "use_uva", "leave it out"),
    "gpu_cache": (
        lambda: DataLoader(one(), NODES, NeighborSampler([3]), gpu_cache={"node": {"x": 5}}),
        "gpu_cache", "leave it out",
    ),
    "node data of the graph": (lambda: one().ndata, "ndata", "prefetch_node_feats"),
    "inference with node data": (lambda: one().ndata, "inference", ".graph.node_attrs['h'] = y"),
    "a storage on a GPU": (lambda: one().to("cuda"), "device = 'cuda'", "device="),
    "edge data of the graph": (lambda: one().edata, "edata", "prefetch_edge_feats"),
    "another method": (lambda: one().adj_tensors, "adj_tensors", "to_dgl(graph)"),
    "edges by ends": (lambda: one().edges(order="srcdst"), "order = 'srcdst'", "take 'eid'"),
    "frames not copied": (
        lambda: one().sample_neighbors(NODES, 3, copy_ndata=False),
        "copy_ndata = False", "leave it out",
    ),
    "ids not stored": (
        lambda: one().subgraph(NODES, store_ids=False), "store_ids = False", "leave it out"
    ),
    "a graph to DGL's loader": (
        lambda: DataLoader(make_graph(), NODES, NeighborSampler([3])),
        "'Graph' object has no attribute 'device'", "aethergraph.dgl.GraphStorage(graph)",
    ),
    "a typed graph to DGL's loader": (
        lambda: DataLoader(make_typed(), USERS, stock.NeighborSampler([3])),
        "'HeteroGraph' object has no attribute 'device'", "aethergraph.dgl.GraphStorage(graph)",
    ),
    "clusters of a graph": (
        lambda: stock.ClusterGCNSampler(make_graph(), 2), "'idtype'", "GraphStorage(graph)"
    ),
    # GraphBolt
    **{
        f"a graph to {stage} of GraphBolt": (
            lambda stage=stage, more=more: getattr(items(), stage)(make_graph(), *more),
            "'Graph' object has no attribute", "graphbolt.SamplingGraph(graph)",
        )
        for stage, more in (
            ("sample_neighbor", ([3],)),
            ("sample_layer_neighbor", ([3],)),
            ("temporal_sample_neighbor", ([3],)),
        )
    },
    "a graph in a stage of GraphBolt": (
        lambda: list(items().sample_in_subgraph(make_graph())),
        "'Graph' object has no attribute 'in_subgraph'", "graphbolt.SamplingGraph(graph)",
    ),
    "a graph to sample at once": (
        lambda: at_once(make_graph(), [3]), "got Graph", ": SamplingGraph(graph) is one"
    ),
    "a storage to sample at once": (
        lambda: at_once(one(), [3]), "got GraphStorage", ": SamplingGraph(storage.graph) is one"
    ),
    "GraphBolt's graph to sample at once": (
        lambda: at_once(to_fused_csc(make_graph()), [3]),
        "got FusedCSCSamplingGraph", ": SamplingGraph(from_fused_csc(graph)) is one",
    ),
    "a storage as a graph": (
        lambda: save_ondisk_dataset(one(), Path("never")),  # type: ignore[arg-type]
        "got GraphStorage", "whose .graph is one",
    ),
    "a sampling graph as a graph": (
        lambda: GraphStorage(bolt()),  # type: ignore[arg-type]
        "got SamplingGraph", "whose .graph is one",
    ),
    "GraphBolt's graph as a graph": (
        lambda: BoltFeatures(to_fused_csc(make_graph())),
        "got FusedCSCSamplingGraph", "from_fused_csc(graph) makes one",
    ),
    "not deduplicated": (
        lambda: at_once(bolt(), [3], deduplicate=False), "deduplicate = False", "sample_neighbor"
    ),
    "one fanout for all types at once": (
        lambda: at_once(typed_bolt(), [3]),
        "fanouts[0] = 3", "take sample_neighbor over this graph",
    ),
    "two times at once": (
        lambda: at_once(
            bolt(), [3], node_timestamp_attr_name="y", edge_timestamp_attr_name="p"
        ),
        "node_timestamp_attr_name = 'y'", "take temporal_sample_neighbor",
    ),
    "windows at once": (
        lambda: at_once(bolt(), [3]).sample_subgraphs(NODES, NODES, NODES),
        "seeds_pre_time_window", "take temporal_sample_neighbor",
    ),
    "times that are none": (
        lambda: temporal(bolt(), node_timestamp_attr_name="y", edge_timestamp_attr_name="a"),
        "edge_timestamp_attr_name = 'a'", "there are: 'edge_attr', 'mask', 'p'",
    ),
    "lists": (lambda: bolt().csc_indptr, "csc_indptr", ".graph.csc()"),
    "sources": (lambda: typed_bolt().indices, "indices", "to_fused_csc(graph)"),
    "attributes of edges": (
        lambda: bolt().edge_attributes["p"], "'p' is not here", ".graph.edge_attrs"
    ),
    "attributes of nodes": (
        lambda: bolt().node_attributes["x"], "'x' is not here", ".graph.node_attrs"
    ),
    "another method of GraphBolt's": (
        lambda: bolt().metadata, "metadata", "to_fused_csc(graph)"
    ),
    "on a GPU": (lambda: bolt().to("cuda"), "device = 'cuda'", "copy_to"),
    "pinned": (lambda: bolt().to("pinned"), "device = 'pinned'", "copy_to"),
    "shared memory": (lambda: shared(bolt()), "shared_memory_name = 'name'", "save it to a file"),
    "update of files": (
        lambda: Feature(file_rows()).update(torch.zeros(2, 2), NODES[:2]),
        "update", "Feature(feature.read())",
    ),
    "features on a GPU": (
        lambda: Feature(torch.zeros(5, 2)).to("cuda"), "device = 'cuda'", "gb.TorchBasedFeature"
    ),
    "pinned stores": (
        lambda: BoltFeatures(make_graph()).to("pinned"), "device = 'pinned'", "copy_to"
    ),
    "bfloat16 in numpy's files": (
        lambda: save_ondisk_dataset(half_precision(), Path("never")), "'half'", "as float32"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(CASES))
def test_what_is_not_there_says_so(name: str) -> None:
    call, option, instead = CASES[name]
    with pytest.raises((errors.AetherError, AttributeError, KeyError)) as found:
        call()
    message = str(found.value)
    assert option in message and instead in message, message
