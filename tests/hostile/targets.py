"""What is called with bad values: every public callable, with arguments that work."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from live_targets import live_targets
from observe_targets import observe_targets
from remote_targets import remote_targets
from stream_targets import stream_targets
from target import QUERIES, Target, methods, some, then
from task_targets import task_targets

import aethergraph as ag
from aethergraph import SubgraphLoader, convert, interop, packing, ray, sampling
from aethergraph._parallel.prefetch import prefetch_map
from aethergraph.columns import ColumnStore
from aethergraph.convert.readers.edge_plan import AttrSpec
from aethergraph.loading import partition_aligned_batches
from aethergraph.loading.buffers import BufferPool
from aethergraph.ray.rows import as_table
from aethergraph.testing import graphs as synthetic

__all__ = ["prepare", "targets"]

NODES, EDGES = 20, 60


# ---- files ---------------------------------------------------------------------------------


def _ends() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.integers(0, NODES, EDGES), rng.integers(0, NODES, EDGES)


def _features() -> Any:
    return np.random.default_rng(1).random((NODES, 4), dtype=np.float32)


def _full_graph() -> ag.Graph:
    src, dst = _ends()
    rng = np.random.default_rng(2)
    graph = ag.Graph.from_edges(
        NODES, src, dst, layout="both", edge_weight=rng.random(EDGES), edge_time=np.arange(EDGES),
        node_time=np.arange(NODES), edge_attrs={"edge_attr": rng.random((EDGES, 2))},
    )  # fmt: skip
    graph.node_attrs["x"] = _features()
    graph.node_attrs["y"] = np.arange(NODES) % 3
    return graph


_TYPE = ("user", "rates", "film")


def _graph_of_members(layout: Any = "csc", **members: Any) -> Any:
    return ag.as_graph(SimpleNamespace(**members), layout=layout)  # type: ignore[arg-type]


def _typed_graph_of_members(
    num_nodes: Any, node_time: Any, node_attrs: Any, layout: Any = "csc", **members: Any
) -> Any:
    edges = {("a", "to", "b"): SimpleNamespace(**members)}
    source = SimpleNamespace(
        num_nodes=num_nodes, edges=edges, node_time=node_time, node_attrs=node_attrs
    )
    return ag.as_graph(source, layout=layout)


def _typed_graph() -> ag.HeteroGraph:
    src, dst = _ends()
    back = (_TYPE[2], "rated_by", _TYPE[0])
    graph = ag.HeteroGraph.from_edges(
        {_TYPE: (src, dst), back: (dst, src)}, {"user": NODES, "film": NODES},
        edge_time={_TYPE: np.arange(EDGES), back: np.arange(EDGES)},
    )  # fmt: skip
    return graph.with_attrs({"user": {"x": _features()}, "film": {"x": _features()}}, {})


def _columns(path: Path, **options: Any) -> ColumnStore:
    given = {"a": np.arange(NODES), "b": [None if n % 3 else "x" for n in range(NODES)]}
    return ColumnStore.build(path, given, **options)


def prepare(folder: Path) -> None:
    """Write the files that targets read."""
    _full_graph().save(folder / "graph.aether")
    _typed_graph().save(folder / "typed.aether")
    ag.FeatureTable.from_array(_features()).save(folder / "x.aether")
    np.save(folder / "x.npy", _features())
    np.save(folder / "ends.npy", np.stack(_ends()))
    (folder / "empty").touch()
    lines = (f"{u},{v},0.5,{u}\n" for u, v in zip(*_ends(), strict=True))
    (folder / "edges.csv").write_text("src,dst,weight,time\n" + "".join(lines))
    (folder / "labels.csv").write_text("\n".join(map(str, np.arange(NODES) % 3)) + "\n")
    _columns(folder / "old.columns")
    packing.pack([[1, 2], [3, 4]], ag.FeatureTable.load(folder / "x.aether"), folder / "packed.bin")


# ---- the core ------------------------------------------------------------------------------


def _graph(folder: Path) -> ag.Graph:
    return ag.Graph.load(folder / "graph.aether")


def _paged_graph(folder: Path) -> ag.Graph:
    return ag.Graph.load(folder / "graph.aether", storage="uring", memory_budget="64M")


def _store(folder: Path) -> ag.FeatureTable:
    return ag.FeatureTable.load(folder / "x.aether")


def _paged_store(folder: Path) -> ag.FeatureTable:
    return ag.FeatureTable.load(folder / "x.npy", storage="uring", memory_budget="64M")


def _orders(perm: Any, name: str) -> dict[str, dict[str, Any]]:
    rabbit = ("reorder_rabbit", "rabbit_partitions", "reorder_rabbit_with_partitions")
    found: dict[str, dict[str, Any]] = {one: {"num_threads": 1} for one in rabbit}
    return {**found, "reorder": {"order": "rabbit", "num_threads": 1}, "permute": {name: perm}}


def _core() -> Iterator[Target]:
    src, dst = _ends()
    yield Target(
        "Graph.from_edges",
        lambda _: (
            ag.Graph.from_edges,
            {"num_nodes": NODES, "src": src, "dst": dst, "edge_weight": np.ones(EDGES)},
        ),
    )
    yield Target(
        "ColumnStore.load",
        lambda f: (ColumnStore.load, {"path": f / "old.columns", "storage": "mmap"}),
    )
    yield Target(
        "ColumnStore.build",
        lambda f: (
            ColumnStore.build,
            {
                "path": f / "new.columns", "columns": {"a": np.arange(3), "b": ["x", None, "y"]},
                "kinds": {"b": "category"}, "force": True,
            },
        ),
    )  # fmt: skip
    yield from methods(
        "ColumnStore",
        lambda f: ColumnStore.load(f / "old.columns"),
        {"gather": {"ids": [1, 2], "columns": ["a"]}},
    )
    yield Target(
        "as_graph",
        lambda _: (
            _graph_of_members,
            {
                "num_nodes": 3, "num_edges": 4, "indptr": [0, 1, 1, 4], "indices": [2, 0, 1, 1],
                "edge_ids": [3, 1, 0, 2], "edge_weight": [0.5, 1.0, 2.0, 0.0],
                "node_time": [3, 1, 2], "node_attrs": {"x": np.eye(3)}, "layout": "csc",
            },
        ),
    )  # fmt: skip
    yield Target(
        "NeighborSampler.retarget",
        lambda f: (
            ag.NeighborSampler(_graph(f), [3, 2], time_attr="edge_time").retarget,
            {"graph": _graph(f), "is_sorted": False},
        ),
    )
    yield Target("Graph.load", lambda f: (ag.Graph.load, {"path": f / "graph.aether"}))
    yield Target("HeteroGraph.load", lambda f: (ag.HeteroGraph.load, {"path": f / "typed.aether"}))
    yield Target("FeatureTable.load", lambda f: (ag.FeatureTable.load, {"path": f / "x.aether"}))
    yield Target(
        "FeatureTable.load uring",
        lambda f: (
            ag.FeatureTable.load,
            {"path": f / "x.npy", "storage": "uring", "memory_budget": "64M"},
        ),
        (TypeError,),  # of a `frequency` that is a function, but takes no two numbers
    )
    yield Target(
        "Graph.load uring",
        lambda f: (
            ag.Graph.load,
            {"path": f / "graph.aether", "storage": "uring", "memory_budget": "64M"},
        ),
    )
    yield Target(
        "FeatureTable.from_array", lambda _: (ag.FeatureTable.from_array, {"array": _features()})
    )
    yield Target(
        "HeteroGraph.from_edges",
        lambda _: (
            ag.HeteroGraph.from_edges,
            {"edges": {_TYPE: (src, dst)}, "num_nodes": {"user": NODES, "film": NODES}},
        ),
    )
    queries: dict[str, dict[str, Any]] = {
        **QUERIES,
        "batch_random_walk": {"start_nodes": [0], "walk_length": 3},
        "batch_random_walk_uniform": {"start_nodes": [0], "walk_length": 3},
        "batch_random_fanout": {"start_nodes": [0], "K": 3},
        "to_scipy": {"format": "csr"},
        "alias_table": {},
        "member_table": {},
        "topology": {},
        "weight_sums": {},
        **_orders(np.arange(NODES)[::-1].tolist(), "perm"),
    }
    yield from methods("Graph", _graph, queries)
    yield from methods(
        "HeteroGraph", lambda _: _typed_graph(), _orders({"user": list(range(NODES))}, "perms")
    )
    few = ("has_edges", "edge_ends", "in_degrees", "neighbors", "batch_random_walk")
    yield from methods("Graph (uring)", _paged_graph, {name: queries[name] for name in few})
    for label, owner, path in (
        ("Graph", _graph, "graph"), ("HeteroGraph", lambda _: _typed_graph(), "typed")
    ):  # fmt: skip
        yield Target(
            f"{label}.save",
            lambda f, owner=owner, path=path: (owner(f).save, {"path": f / f"{path}-copy.aether"}),
        )
    yield Target(
        "Graph.load_features",
        lambda f: (_graph(f).load_features, {"path": f / "x.npy"}),
    )
    yield Target(
        "Graph.load_edge_features",
        lambda f: (ag.Graph.from_edges(NODES, [0] * NODES, [1] * NODES).load_edge_features,
                   {"path": f / "x.npy"}),
    )  # fmt: skip
    for name in ("features", "node_attrs", "edge_attrs"):
        yield Target(f"Graph.{name} =", lambda f, name=name: (_setter(f, name), {"value": None}))
    yield Target(
        "HeteroGraph.with_attrs",
        lambda _: (
            _typed_graph().with_attrs,
            {"node_attrs": {"user": {"z": _features()}}, "edge_attrs": {}},
        ),
    )
    yield Target(
        "HeteroGraph[...]",
        lambda _: (lambda edge_type: _typed_graph()[edge_type], {"edge_type": _TYPE}),
    )
    for label, owner in (("FeatureTable", _store), ("FeatureTable (uring)", _paged_store)):
        yield from methods(
            label,
            owner,
            {
                "gather": {"ids": [0, 1]},
                "plan": {"lists": [[0, 1], [2]]},
                "tensor": {},
            },
        )
        yield Target(
            f"{label}[...]",
            lambda f, owner=owner: (lambda ids: owner(f)[ids], {"ids": [0]}),
            (IndexError,),
        )
        yield Target(
            f"{label}.save",
            lambda f, owner=owner: (owner(f).save, {"path": f / "x-copy.aether"}),
        )
    yield Target(
        "FeatureTable.to_uring",
        lambda f: (_store(f).to_uring, {"memory_budget": "64M", "hot": [0]}),
    )
    yield Target(
        "NeighborSampler",
        lambda f: (
            then(ag.NeighborSampler, lambda s: s.sample([0, 1], key=1)),
            {"graph": _graph(f), "fanouts": [3, 2]},
        ),
    )
    for label, owner in (("", _graph), (" (uring)", _paged_graph)):
        yield Target(
            f"NeighborSampler.sample{label}",
            lambda f, owner=owner: (
                ag.NeighborSampler(owner(f), [3, 2], disjoint=True, time_attr="edge_time").sample,
                {"seeds": [0, 1], "key": 1, "seed_time": [5, 6]},
            ),
        )
    yield Target(
        "NeighborSampler.sample_many",
        lambda f: (
            then(ag.NeighborSampler(_graph(f), [3, 2]).sample_many, some),
            {"seeds": [[0], [1]], "keys": [1, 2]},
        ),
    )
    yield Target(
        "HeteroNeighborSampler",
        lambda _: (
            then(ag.HeteroNeighborSampler, lambda s: s.sample({"user": [0, 1]}, key=1)),
            {"graph": _typed_graph(), "fanouts": [3, 2]},
        ),
    )
    yield Target(
        "HeteroNeighborSampler.sample",
        lambda _: (
            ag.HeteroNeighborSampler(_typed_graph(), [3, 2]).sample,
            {"seeds": {"user": [0, 1]}, "key": 1},
        ),
    )
    yield Target(
        "HGTSampler",
        lambda _: (
            then(ag.HGTSampler, lambda s: s.sample({"user": [0, 1]}, key=1)),
            {"graph": _typed_graph(), "num_samples": [3, 2]},
        ),
    )
    yield Target(
        "HGTSampler.sample",
        lambda _: (ag.HGTSampler(_typed_graph(), [3]).sample, {"seeds": {"user": [0]}, "key": 1}),
    )
    yield Target(
        "ContextSampler",
        lambda _: (
            then(sampling.ContextSampler, lambda c: c.sample({"user": [0, 1]}, key=1)),
            {
                "graph": _typed_graph(),
                "budget": 5,
                "fanout": 2,
                "references": [],
                "seed": 1,
            },
        ),
    )
    yield Target(
        "ContextSampler.sample",
        lambda _: (
            sampling.ContextSampler(_typed_graph(), budget=5, fanout=2, references=[]).sample,
            {"seeds": {"user": [0, 1]}, "key": 1},
        ),
    )
    yield Target(
        "RandomWalker",
        lambda f: (then(ag.RandomWalker, lambda w: w.walk([0], 3)), {"graph": _graph(f)}),
    )
    yield Target(
        "RandomWalker.walk",
        lambda f: (
            ag.RandomWalker(_graph(f)).walk,
            {"starts": [0, 1], "length": 3, "key": 1, "first": 2},
        ),
    )
    yield Target(
        "random_fanout",
        lambda f: (sampling.random_fanout, {"graph": _graph(f), "nodes": [0, 1], "k": 2}),
    )
    yield Target("set_num_threads", lambda _: (ag.set_num_threads, {"num_threads": 2}))


def _setter(folder: Path, name: str) -> Callable[[Any], None]:
    graph = _full_graph()

    def put(value: Any) -> None:
        if name == "features":
            graph.features = value
        else:
            getattr(graph, name)["z"] = value

    return put


# ---- loaders, files, other packages ----------------------------------------------------------


def _around() -> Iterator[Target]:
    yield Target(
        "SubgraphLoader",
        lambda f: (
            then(SubgraphLoader, some),
            {"graph": _graph(f), "fanouts": [3, 2], "seeds": [0, 1, 2]},
        ),
    )
    yield Target(
        "SubgraphLoader (typed)",
        lambda _: (
            then(SubgraphLoader, some),
            {
                "graph": _typed_graph(), "fanouts": [3, 2], "seeds": {"user": [0, 1], "film": None},
                "node_attrs": {"user": ["x"]}, "seed_time": None,
            },
        ),
    )  # fmt: skip
    yield Target(
        "as_graph (typed)",
        lambda _: (
            _typed_graph_of_members,
            {
                "num_nodes": {"a": 3, "b": 2}, "indptr": [0, 1, 4], "indices": [2, 0, 1, 1],
                "edge_ids": [3, 1, 0, 2], "edge_weight": [0.5, 1.0, 2.0, 0.0],
                "node_time": {"a": [3, 1, 2], "b": [0, 0]}, "node_attrs": {"a": {"x": np.eye(3)}},
                "layout": "csc",
            },
        ),
    )  # fmt: skip
    yield from methods(
        "SubgraphLoader",
        lambda f: SubgraphLoader(_graph(f), [3, 2], batch_size=4),
        {
            "load_state_dict": {
                "state": SubgraphLoader(_full_graph(), [3, 2], batch_size=4).state_dict()
            },
            "set_epoch": {"epoch": 1},
            "batches_at": {"epoch": 0, "numbers": [0, 2]},
        },
    )
    aligned = {"parts": np.arange(NODES) % 3, "batch_size": 4}
    yield Target(
        "partition_aligned_batches",
        lambda _: (then(partition_aligned_batches, some), dict(aligned)),
    )
    yield from methods(
        "AlignedBatches",
        lambda _: partition_aligned_batches(**aligned),
        {
            "load_state_dict": {"state": partition_aligned_batches(**aligned).state_dict()},
            "state_dict": {"delivered": 0},
            "set_epoch": {"epoch": 1},
            "__getitem__": {"number": 0},
        },
    )
    yield Target("BufferPool", lambda _: (BufferPool, {"max_idle": "1M"}))
    yield Target("BufferPool.empty", lambda _: (BufferPool("1M").empty, {"shape": 3}))
    yield Target(
        "prefetch_map",
        lambda _: (
            then(prefetch_map, some),
            {"function": lambda item: abs(item), "items": [1, 2], "helping": True},
        ),
        (TypeError, ValueError, NotImplementedError),  # of abs()
    )
    yield Target(
        "convert",
        lambda f: (
            convert.convert,
            {"inputs": f / "edges.csv", "output": f / "out.aether", "force": True},
        ),
    )
    yield Target(
        "convert (bounded)",
        lambda f: (
            convert.convert,
            {"inputs": f / "edges.csv", "output": f / "out.aether", "force": True,
             "memory_budget": "512M", "features": f / "x.npy", "features_out": f / "out-x.aether",
             "labels": f / "labels.csv", "labels_out": f / "out-y.npy"},
        ),
    )  # fmt: skip
    yield Target(
        "convert_chunks",
        lambda f: (
            convert.convert_chunks,
            {"chunks": [_ends()], "output": f / "out.aether", "force": True,
             "memory_budget": "512M"},
        ),
    )  # fmt: skip
    yield Target(
        "reorder",
        lambda f: (
            convert.reorder,
            {"graph": f / "graph.aether", "output": f / "ordered.aether", "force": True,
             "rows": f / "x.npy", "memory_budget": "1G"},
        ),
    )  # fmt: skip
    yield Target("read_edges", lambda f: (convert.read_edges, {"paths": f / "edges.csv"}))
    yield Target("AttrSpec.parse", lambda _: (AttrSpec.parse, {"text": "a=b"}))
    yield Target("read_gl", lambda f: (convert.read_gl, {"path": f / "empty"}))
    yield Target("read_gd", lambda f: (convert.read_gd, {"path": f / "empty"}))
    yield Target(
        "pack",
        lambda f: (
            packing.pack,
            {"lists": [[1, 2], [3]], "features": _store(f), "path": f / "p.bin"},
        ),
    )
    yield Target(
        "PackedFeatures.load",
        lambda f: (
            packing.PackedFeatures.load,
            {"path": f / "packed.bin", "features": _store(f)},
        ),
    )
    for name, given in (("batch", {"number": 0}), ("gather", {"ids": [1, 2]})):
        yield Target(
            f"PackedFeatures.{name}",
            lambda f, name=name, given=given: (
                getattr(packing.PackedFeatures.load(f / "packed.bin", features=_store(f)), name),
                dict(given),
            ),
        )
    yield Target("from_scipy", lambda f: (interop.from_scipy, {"matrix": _graph(f).to_scipy()}))
    yield Target("to_networkx", lambda f: (interop.to_networkx, {"graph": _graph(f)}))
    yield Target(
        "from_networkx",
        lambda f: (interop.from_networkx, {"g": interop.to_networkx(_graph(f))}),
    )
    yield Target(
        "CommunityGraph",
        lambda _: (
            then(synthetic.CommunityGraph, lambda g: g.edge_chunk(0, 5)),
            {"num_nodes": 100, "num_edges": 200},
        ),
    )
    yield Target(
        "RmatGraph",
        lambda _: (
            then(synthetic.RmatGraph, lambda g: g.edge_chunk(0, 5)),
            {"scale": 5, "num_edges": 50},
        ),
    )


def _collating(framework: str) -> Iterator[Target]:
    """Batches of Ray's datasets; what makes these starts a cluster: see tests/scale/test_ray.py."""
    batch = next(iter(SubgraphLoader(_full_graph(), [3, 2], batch_size=4)))
    name = f"collate_to_{framework}"
    yield Target(
        f"{framework}.{name} of aethergraph.ray",
        lambda _: (getattr(ray, name), {"batch": as_table(batch, 0, 0)}),
    )


# ---- PyG -------------------------------------------------------------------------------------


def _pyg() -> Iterator[Target]:
    import torch
    from torch_geometric.data import Data
    from torch_geometric.sampler import EdgeSamplerInput, NodeSamplerInput

    import aethergraph.pyg as pyg

    def data() -> Any:
        src, dst = _ends()
        return Data(
            x=torch.from_numpy(_features()),
            edge_index=torch.from_numpy(np.stack([src, dst])),
            y=torch.zeros(NODES, dtype=torch.int64),
        )

    def stores() -> Any:
        return pyg.from_data(data())

    #: torch's DataLoader checks its own arguments.
    loaders = (ValueError, TypeError, RuntimeError)
    links = torch.tensor([[0, 1], [2, 3]])
    given: dict[str, dict[str, Any]] = {
        "NeighborLoader": {"num_neighbors": [3, 2], "input_nodes": torch.tensor([0, 1, 2])},
        "LinkNeighborLoader": {"num_neighbors": [3, 2], "edge_label_index": links},
        "ShaDowKHopSampler": {"depth": 2, "num_neighbors": 3, "node_idx": torch.tensor([0, 1])},
    }
    for name, arguments in given.items():
        yield Target(
            f"pyg.{name}",
            lambda _, name=name, arguments=arguments: (
                then(getattr(pyg, name), some),
                {"data": stores(), **arguments},
            ),
            loaders,
            ("batch_size", "shuffle"),
        )
    yield from _collating("pyg")
    yield from methods(
        "pyg.NeighborLoader",
        lambda _: pyg.NeighborLoader(stores(), [3, 2], batch_size=4),
        {
            "load_state_dict": {
                "state": pyg.NeighborLoader(stores(), [3, 2], batch_size=4).state_dict()
            },
            "set_epoch": {"epoch": 1},
        },
    )
    for name, arguments in (
        ("HeteroNeighborLoader", {"num_neighbors": [3], "input_nodes": ("user", [0])}),
        ("NeighborLoader", {"num_neighbors": [3], "input_nodes": {"user": [0], "film": None}}),
        ("HGTLoader", {"num_samples": [3], "input_nodes": ("user", [0])}),
    ):
        yield Target(
            f"pyg.{name} (typed)",
            lambda _, name=name, arguments=arguments: (
                then(getattr(pyg, name), some),
                {"data": pyg.from_data(pyg.to_data(_typed_graph())), **arguments},
            ),
            loaders,
            ("batch_size",),
        )
    yield Target(
        "pyg.NeighborSampler",
        lambda _: (
            then(
                pyg.NeighborSampler,
                lambda s: s.sample_from_nodes(NodeSamplerInput(None, torch.tensor([0]))),
            ),
            {"data": stores(), "num_neighbors": [3]},
        ),
    )
    yield Target(
        "pyg sample_from_nodes",
        lambda _: (
            lambda node, time: pyg.NeighborSampler(stores(), [3]).sample_from_nodes(
                NodeSamplerInput(None, node, time)
            ),
            {"node": torch.tensor([0]), "time": None},
        ),
        (RuntimeError, TypeError, ValueError),  # of PyG's own input object
    )
    yield Target(
        "pyg sample_from_edges",
        lambda _: (
            lambda row, col: pyg.NeighborSampler(stores(), [3]).sample_from_edges(
                EdgeSamplerInput(None, row, col)
            ),
            {"row": torch.tensor([0]), "col": torch.tensor([1])},
        ),
        (RuntimeError, TypeError, ValueError),
    )
    yield Target("pyg.from_data", lambda _: (pyg.from_data, {"data": data()}))
    yield Target("pyg.graph_from_data", lambda _: (pyg.graph_from_data, {"data": data()}))
    yield Target("pyg.to_data", lambda f: (pyg.to_data, {"source": _graph(f)}))
    yield Target("pyg.GraphStore", lambda f: (pyg.GraphStore, {"graph": _graph(f)}))
    yield Target("pyg.FeatureStore.from_graph",
                 lambda f: (pyg.FeatureStore.from_graph, {"graph": _graph(f)}))  # fmt: skip
    yield Target(
        "pyg put_tensor",
        lambda _: (
            lambda tensor, index: pyg.FeatureStore().put_tensor(
                tensor, group_name=None, attr_name="x", index=index
            ),
            {"tensor": torch.zeros(3, 2), "index": None},
        ),
        (KeyError,),
    )
    yield Target(
        "pyg get_tensor",
        lambda _: (
            lambda index: stores()[0].get_tensor(group_name=None, attr_name="x", index=index),
            {"index": torch.tensor([0])},
        ),
        (KeyError,),
    )
    yield Target(
        "pyg put_edge_index",
        lambda _: (
            lambda edge_index, size: pyg.GraphStore().put_edge_index(
                edge_index, edge_type=None, layout="coo", size=size
            ),
            {"edge_index": torch.tensor([[0], [1]]), "size": (3, 3)},
        ),
    )


# ---- DGL -------------------------------------------------------------------------------------


def _dgl() -> Iterator[Target]:
    import torch

    import aethergraph.dgl as adapter
    from aethergraph.dgl import graphbolt

    def storage(**options: Any) -> Any:
        return adapter.GraphStorage(_full_graph(), **{"edge_ids": "graph", **options})

    nodes = torch.tensor([0, 1])
    yield Target(
        "dgl.GraphStorage",
        lambda _: (
            then(adapter.GraphStorage, lambda g: g.in_degrees()), {"graph": _full_graph()}
        ),
    )  # fmt: skip
    calls: dict[str, dict[str, Any]] = {
        "all_edges": {},
        "edge_subgraph": {"edges": nodes},
        "find_edges": {"eid": nodes},
        "get_node_storage": {"key": "x"},
        "get_edge_storage": {"key": "edge_attr"},
        "global_uniform_negative_sampling": {"num_samples": 3},
        "has_edges_between": {"u": nodes, "v": nodes},
        "in_degrees": {"v": nodes},
        "num_nodes": {},
        "num_edges": {},
        "out_degrees": {"u": nodes},
        "sample_neighbors": {"nodes": nodes, "fanout": 2},
        "set_epoch": {"epoch": 1},
        "to": {"device": "cpu"},
        "subgraph": {"nodes": nodes},
        "to_canonical_etype": {"etype": "_E"},
    }
    for name, arguments in calls.items():
        yield Target(
            f"dgl.GraphStorage.{name}",
            lambda _, name=name, arguments=arguments: (getattr(storage(), name), dict(arguments)),
            (KeyError,),
        )
    makers: dict[str, dict[str, Any]] = {
        "NeighborSampler": {"fanouts": [3, 2]},
        "LaborSampler": {"fanouts": [3, 2]},
        "MultiLayerFullNeighborSampler": {"num_layers": 1},
        "ShaDowKHopSampler": {"fanouts": [3]},
    }
    for name, arguments in makers.items():
        yield Target(
            f"dgl.{name}",
            lambda _, name=name, arguments=arguments: (
                then(getattr(adapter, name), lambda s: s.sample(storage(), nodes)),
                dict(arguments),
            ),
        )
    yield Target(
        "dgl.NeighborSampler.sample_blocks",
        lambda _: (
            adapter.NeighborSampler([3]).sample_blocks,
            {"g": storage(), "seed_nodes": nodes},
        ),
    )
    loader = {"indices": nodes, "graph_sampler": adapter.NeighborSampler([2]), "batch_size": 2}
    yield Target(
        "dgl.DataLoader",
        lambda _: (
            then(adapter.DataLoader, some),
            {"graph": storage(), "shuffle": True, "seed": 1, **loader},
        ),
        (
            *(TypeError, ValueError, AttributeError, RuntimeError, AssertionError, IndexError),
            KeyError,  # of a device
        ),  # DGL's
        takes_all=("ddp_seed",),  # is DGL's, for use_ddp
    )  # fmt: skip
    yield from methods(
        "dgl.DataLoader",
        lambda _: adapter.DataLoader(storage(), seed=1, **loader),
        {
            "load_state_dict": {
                "state": adapter.DataLoader(storage(), seed=1, **loader).state_dict()
            },
            "set_epoch": {"epoch": 1},
        },
    )
    yield from _collating("dgl")
    yield Target(
        "dgl.BatchedSeeds",
        lambda _: (
            then(adapter.BatchedSeeds, lambda own: own[0]),
            {"seeds": nodes, "batches": partition_aligned_batches([0] * len(nodes), 2)},
        ),
    )
    yield Target("dgl.FeatureStorage", lambda _: (adapter.FeatureStorage, {"rows": _features()}))
    for name, key in (("node", "x"), ("edge", "edge_attr")):
        yield Target(
            f"dgl.FeatureStorage.fetch ({name})",
            lambda _, name=name, key=key: (
                then(getattr(storage(), f"get_{name}_storage")(key).fetch, lambda f: f.wait()),
                {"indices": nodes, "device": "cpu"},
            ),
        )
    yield Target(
        "dgl.PerSourceUniform",
        lambda _: (then(adapter.PerSourceUniform, lambda n: n(storage(), nodes)), {"k": 2}),
    )
    for mode in ("self", "reverse_id"):
        yield Target(
            f"dgl.as_edge_prediction_sampler ({mode})",
            lambda _, mode=mode: (
                then(adapter.as_edge_prediction_sampler, lambda s: s.sample(storage(), nodes[:0])),
                {
                    "sampler": adapter.NeighborSampler([3]),
                    "exclude": mode,
                    "reverse_eids": torch.arange(EDGES),
                },
            ),
            (ValueError,),  # of int(), a function that says what to exclude
        )
    yield Target(
        "dgl.ClusterGCNSampler",
        lambda _: (
            then(adapter.ClusterGCNSampler, lambda s: s.sample(storage(), [0])),
            {"g": storage(), "k": 2, "clusters": torch.arange(NODES) % 2},
        ),
    )
    yield Target("dgl.to_dgl", lambda _: (adapter.to_dgl, {"source": _full_graph()}))
    yield Target(
        "dgl.from_dgl", lambda _: (adapter.from_dgl, {"g": adapter.to_dgl(_full_graph())})
    )  # fmt: skip
    yield Target("graphbolt.Feature", lambda _: (graphbolt.Feature, {"rows": _features()}))
    for name, arguments in (
        ("read", {"ids": nodes}),
        ("update", {"value": torch.zeros(2, 4), "ids": nodes}),
    ):
        yield Target(
            f"graphbolt.Feature.{name}",
            lambda _, name=name, arguments=arguments: (
                getattr(graphbolt.Feature(_features()), name), dict(arguments)
            ),
        )  # fmt: skip
    yield Target(
        "graphbolt.FeatureStore.read",
        lambda _: (
            graphbolt.FeatureStore(_full_graph()).read,
            {"domain": "node", "type_name": None, "feature_name": "x", "ids": nodes},
        ),
    )
    yield Target(
        "graphbolt.SamplingGraph", lambda _: (graphbolt.SamplingGraph, {"graph": _full_graph()})
    )
    fanouts = torch.tensor([2])
    timed = {"input_nodes_timestamp": nodes, "edge_timestamp_attr_name": "edge_time"}
    pairs = torch.tensor([[0, 1], [2, 3]])
    for name, arguments in (
        ("sample_neighbors", {"nodes": nodes, "fanouts": fanouts}),
        ("in_subgraph", {"nodes": nodes}),
        ("sample_layer_neighbors", {"nodes": nodes, "fanouts": fanouts}),
        ("temporal_sample_neighbors", {"nodes": nodes, "fanouts": fanouts, **timed}),
        ("temporal_sample_layer_neighbors", {"nodes": nodes, "fanouts": fanouts, **timed}),
        (
            "sample_negative_edges_uniform",
            {"edge_type": None, "node_pairs": (nodes, nodes), "negative_ratio": 2},
        ),
        (
            "sample_negative_edges_uniform_2",
            {"edge_type": None, "node_pairs": pairs, "negative_ratio": 2},
        ),
    ):
        yield Target(
            f"graphbolt.SamplingGraph.{name}",
            lambda _, name=name, arguments=arguments: (
                getattr(graphbolt.SamplingGraph(_full_graph()), name), dict(arguments)
            ),
        )  # fmt: skip
    yield Target(
        "graphbolt.SamplingGraph.sample_neighbors (typed)",
        lambda _: (
            graphbolt.SamplingGraph(_typed_graph()).sample_neighbors,
            {"nodes": {"user": nodes}, "fanouts": torch.tensor([2, 2])},
        ),
    )
    yield Target(
        "graphbolt.NeighborSampler",
        lambda _: (
            then(graphbolt.NeighborSampler, lambda s: s.sample_subgraphs(nodes, None)),
            {
                "datapipe": _pipe(nodes),
                "graph": graphbolt.SamplingGraph(_full_graph()),
                "fanouts": [3, 2],
            },
        ),
    )
    yield Target(
        "graphbolt.to_fused_csc", lambda _: (graphbolt.to_fused_csc, {"source": _full_graph()})
    )
    yield Target(
        "graphbolt.from_fused_csc",
        lambda _: (graphbolt.from_fused_csc, {"graph": graphbolt.to_fused_csc(_full_graph())}),
    )
    yield Target(
        "graphbolt.save_ondisk_dataset",
        lambda f: (
            graphbolt.save_ondisk_dataset,
            {"source": _full_graph(), "path": tempfile.mkdtemp(dir=f)},
        ),
    )
    for name in ("load_ondisk_dataset", "load_ondisk_tasks"):
        yield Target(
            f"graphbolt.{name}",
            lambda f, name=name: (getattr(graphbolt, name), {"path": _ondisk(f)}),
        )


def _pipe(nodes: Any) -> Any:
    import dgl.graphbolt as gb

    return gb.ItemSampler(gb.ItemSet(nodes, names="seed_nodes"), batch_size=2)


def _ondisk(folder: Path) -> Path:
    """Return a folder in the form of GraphBolt's datasets, made at its first use."""
    from aethergraph.dgl import graphbolt

    path = folder / "ondisk"
    if not path.exists():
        graphbolt.save_ondisk_dataset(_full_graph(), path)
    return path


def targets() -> list[Target]:
    """Return all targets that can be called with the packages installed here."""
    found = [*_core(), *_around(), *live_targets(), *task_targets(), *observe_targets()]
    found += [*remote_targets(), *stream_targets()]
    for more in (_pyg, _dgl):
        try:
            found += list(more())
        except ImportError:
            continue
    return found
