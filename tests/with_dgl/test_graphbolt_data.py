"""GraphBolt's features over our rows; its datasets and graphs into ours, and back."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import dgl.graphbolt as gb
import numpy as np
import pytest
import torch
import yaml
from support.dgl import COUNTS, FOLLOWS, NUM_NODES, VOTES, make_edges, make_graph, make_typed

from aethergraph import FeatureTable, Graph, HeteroGraph, errors
from aethergraph.dgl import GraphStorage
from aethergraph.dgl.graphbolt import (
    Feature,
    FeatureStore,
    SamplingGraph,
    from_fused_csc,
    load_ondisk_dataset,
    save_ondisk_dataset,
    to_fused_csc,
)

ROWS = np.random.default_rng(0).random((100, 3), np.float32)
IDS = torch.tensor([5, 99, 5, 0])


@pytest.mark.parametrize("storage", ["array", "tensor", "memory", "mmap", "uring"])
def test_rows(storage: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", ROWS)
    given: Any = {"array": ROWS.copy(), "tensor": torch.tensor(ROWS)}.get(storage)
    if given is None:
        try:
            given = FeatureTable.load(tmp_path / "x.npy", storage=storage)
        except errors.UnsupportedError as error:
            pytest.skip(str(error))
    feature = Feature(given, {"made": "here"})
    assert isinstance(feature, gb.Feature)
    assert feature.size() == torch.Size([3]) and feature.count() == 100
    assert feature.metadata() == {"made": "here"} and Feature(ROWS).metadata() == {}
    for one in (feature, pickle.loads(pickle.dumps(feature))):
        assert torch.equal(one.read(IDS), torch.tensor(ROWS)[IDS])
        assert torch.equal(one.read(IDS.int()), torch.tensor(ROWS)[IDS])
        assert torch.equal(one.read(), torch.tensor(ROWS))
    with pytest.raises(errors.OutOfRangeError) as caught:
        feature.read(torch.tensor([1, 100]))
    assert (caught.value.position, caught.value.value) == (1, 100)
    with pytest.raises(errors.InvalidArgumentError, match="must hold integer ids"):
        feature.read(torch.tensor([0.5]))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.bfloat16, torch.complex64])
def test_numbers_of_any_dtype(dtype: torch.dtype) -> None:
    values = (torch.arange(20) % 3).to(dtype)
    feature = Feature(values)
    assert feature.size() == torch.Size([])
    assert torch.equal(feature.read(torch.tensor([2, 2, 19])), values[[2, 2, 19]])


def test_update() -> None:
    values = torch.tensor(ROWS)
    feature = Feature(values)
    feature.update(torch.ones(2, 3), torch.tensor([4, 7]))
    assert torch.equal(feature.read(torch.tensor([4, 7])), torch.ones(2, 3))
    assert torch.equal(values[4], torch.ones(3)) and torch.equal(values[5], torch.tensor(ROWS)[5])
    feature.update(torch.zeros(100, 3))
    assert not feature.read().any()
    for value, ids in ((torch.ones(2, 4), IDS[:2]), (torch.ones(2, 3).double(), IDS[:2])):
        with pytest.raises(errors.InvalidArgumentError, match=r"value must have shape \(2, 3\)"):
            feature.update(value, ids)
    with pytest.raises(errors.OutOfRangeError, match=r"ids\[1\] = 100") as caught:
        feature.update(torch.ones(2, 3), torch.tensor([0, 100]))
    assert (caught.value.position, caught.value.value) == (1, 100)
    assert not feature.read().any()
    feature.update(torch.ones(7, 5).double())  # of another shape and dtype
    assert torch.equal(feature.read(), torch.ones(7, 5).double()) and feature.count() == 7
    assert (feature.size(), torch.tensor(ROWS)[5].shape, values.shape) == ((5,), (3,), (100, 3))
    assert torch.equal(pickle.loads(pickle.dumps(feature)).read(IDS[:0]), torch.ones(0, 5).double())
    for wrong in (torch.tensor(3.0), ROWS):
        with pytest.raises(errors.InvalidArgumentError, match="value must be a tensor of rows"):
            feature.update(wrong)  # type: ignore[arg-type]
    fixed = ROWS[:50]  # a view of an array that may be written to
    fixed.flags.writeable = False
    with pytest.raises(errors.UnsupportedError, match="update: these rows are not written"):
        Feature(FeatureTable.from_array(fixed)).update(torch.ones(1, 3), IDS[:1])


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("keep_order", [False, True])
def test_update_of_a_graphs_attributes(typed: bool, keep_order: bool) -> None:
    graph: Any = make_typed(keep_order) if typed else make_graph(keep_order=keep_order)
    if not typed:
        graph.node_attrs["half"] = torch.zeros(NUM_NODES, 2, dtype=torch.bfloat16)
    store = FeatureStore(graph, edge_ids="input" if keep_order else "graph")
    ids = torch.tensor([2, 7, 39])
    for key in list(store.keys()):
        rows = store.read(*key)
        value = 1 - rows[ids] if rows.dtype != torch.bool else ~rows[ids]
        store.update(*key, value, ids)
        rows[ids] = value
        assert torch.equal(store.read(*key), rows)
        assert torch.equal(FeatureStore(graph).read(*key), rows)
        back = rows.flip(0)
        store.update(*key, back)
        assert torch.equal(store.read(*key), back)
        wide = torch.rand(len(rows), 9)  # as a layer of inference leaves it
        store.update(*key, wide)
        assert torch.equal(store.read(*key), wide)
        assert torch.equal(store.read(*key, ids), wide[ids])
        assert torch.equal(FeatureStore(graph).read(*key), back)
        with pytest.raises(errors.InvalidArgumentError, match=f"a row for each of the .*{key[0]}s"):
            store.update(*key, wide[:-1])
        assert torch.equal(store.read(*key), wide)
    with pytest.raises(errors.InvalidArgumentError, match="is no feature; there are"):
        store.update("node", None, "q", torch.ones(1))


def test_what_of_a_graph_is_not_updated(tmp_path: Path) -> None:
    ones = np.ones(1500, np.float32)
    make_graph(edge_weight=ones, keep_order=True).save(tmp_path / "graph")
    graph = Graph.load(tmp_path / "graph")
    graph.node_attrs["copied"] = graph.node_attrs["x"].to_memory()
    weighted = make_graph(edge_weight=ones)
    for store, key in (
        (FeatureStore(graph), ("node", None, "x")),
        (FeatureStore(graph), ("node", None, "copied")),
        (FeatureStore(graph), ("edge", None, "p")),
        (FeatureStore(weighted, edge_ids="graph"), ("edge", None, "edge_weight")),
    ):
        with pytest.raises(errors.UnsupportedError, match="update: these rows are not written"):
            store.update(*key, store.read(*key)[:2], torch.tensor([0, 1]))
        before = store.read(*key)
        after = 1 - before
        store.update(*key, after)  # all of them: in the place of what the file holds
        assert torch.equal(store.read(*key), after)
        fresh = FeatureStore(graph if store.read(*key).ndim > 1 or key[2] == "p" else weighted)
        assert torch.equal(fresh.read(*key), before)
    graph.edge_attrs["p"] = graph.edge_attrs["p"].tensor().clone()  # as the message says
    store = FeatureStore(graph)
    store.update("edge", None, "p", torch.tensor([7.0]), torch.tensor([3]))
    assert store.read("edge", None, "p", torch.tensor([3])).item() == 7


def test_devices() -> None:
    graph = make_graph()
    store, feature = FeatureStore(graph), Feature(torch.tensor(ROWS))
    assert store.to("cpu") is store and feature.to(torch.device("cpu")) is feature
    for one in (store, feature):
        with pytest.warns(UserWarning, match="pin_memory_ does nothing here.*TorchBasedFeature"):
            assert one.pin_memory_() is one
    assert not store.is_pinned() and not feature.is_pinned()
    assert not Feature(FeatureTable.from_array(ROWS)).is_pinned()


def test_a_store_of_a_whole_graph() -> None:
    graph = make_graph(keep_order=True)
    store = FeatureStore(graph)
    assert isinstance(store, gb.FeatureStore)
    assert set(store.keys()) == {
        ("node", None, "x"), ("node", None, "y"), ("edge", None, "edge_attr"),
        ("edge", None, "p"), ("edge", None, "mask"),
    }  # fmt: skip
    assert store.size("node", None, "x") == torch.Size([8]) and len(store) == 5
    rng = np.random.default_rng(4)  # what make_graph draws first, by row of the edge list
    rows = torch.from_numpy(rng.random((1500, 3), dtype=np.float32))
    assert torch.equal(store.read("edge", None, "edge_attr", IDS), rows[IDS])
    assert torch.equal(store.read("edge", None, "edge_attr"), rows)
    own = FeatureStore(graph, edge_ids="graph").read("edge", None, "edge_attr")
    assert torch.equal(own, torch.tensor(graph.edge_attrs["edge_attr"].array))
    typed = FeatureStore(make_typed())
    assert typed.read("edge", ":".join(VOTES), "w", IDS).shape == (4,)
    assert typed.size("node", "post", "x") == torch.Size([6])
    assert typed.metadata("node", "post", "x") == {}
    typed.update("node", "post", "x", torch.zeros(60, 6))
    assert not typed.read("node", "post", "x").any()
    key = "node", "tag", "x"
    for call in (
        lambda: typed.read(*key, IDS),
        lambda: typed.size(*key),
        lambda: typed.metadata(*key),
        lambda: typed.update(*key, torch.zeros(3, 1)),
    ):
        text = r"\('node', 'tag', 'x'\) is no feature; there are: .*'post', 'x'"
        with pytest.raises(errors.InvalidArgumentError, match=text):
            call()


def edges_of(graph: Any) -> dict[Any, Any]:
    """Sources and destinations by edge type, in order of the edge ids that users see."""
    storage = GraphStorage(graph)
    return {
        kind: torch.stack(storage.edges(etype=kind)).tolist() for kind in storage.canonical_etypes
    }


def write(folder: Path, name: str, rows: Any) -> str:
    np.save(folder / f"{name}.npy", rows)
    return f"{name}.npy"


def write_dataset(folder: Path) -> None:
    src, dst = make_edges()
    np.savetxt(folder / "edges.csv", np.stack([src, dst], 1), "%d", ",")
    rng = np.random.default_rng(1)
    entry = {"format": "numpy"}
    config = {
        "dataset_name": "one",
        "graph": {
            "nodes": [{"num": NUM_NODES}],
            "edges": [{"format": "csv", "path": "edges.csv"}],
            "feature_data": [
                {"domain": "edge", "name": "w", "path": write(folder, "w", rng.random(len(src)))}
                | entry
            ],
        },
        "feature_data": [
            {"domain": "node", "name": "x", "in_memory": False}
            | {"path": write(folder, "x", rng.random((NUM_NODES, 4), np.float32))}
            | entry,
            {
                "domain": "edge",
                "name": "id",
                "path": write(folder, "id", np.arange(len(src))[:, None]),
            }
            | entry,
        ],
    }
    (folder / "metadata.yaml").write_text(yaml.safe_dump(config))


def test_a_dataset_folder(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    graph = load_ondisk_dataset(tmp_path)
    assert isinstance(graph, Graph)
    assert edges_of(graph)["_N", "_E", "_N"] == np.stack(make_edges()).tolist()
    features = FeatureStore(graph)
    assert graph.node_attrs["x"].storage == "mmap"
    assert torch.equal(features.read("node", None, "x"), torch.tensor(np.load(tmp_path / "x.npy")))
    # Weights go with their edges, which GraphBolt's own graph of this folder does not do.
    weight = torch.tensor(np.load(tmp_path / "w.npy"))
    assert torch.equal(features.read("edge", None, "w"), weight)
    assert features.read("edge", None, "id", IDS)[:, 0].tolist() == IDS.tolist()
    theirs = gb.OnDiskDataset(str(tmp_path), include_original_edge_id=True).load()
    assert edges_of(from_fused_csc(theirs.graph)) == edges_of(graph)
    assert torch.equal(
        theirs.feature.read("node", None, "x", IDS), features.read("node", None, "x", IDS)
    )


def test_a_typed_dataset_folder(tmp_path: Path) -> None:
    """DGL reads text with the pandas that the extra ``dgl`` brings, and reads the same."""
    rng = np.random.default_rng(2)
    votes = np.stack([rng.integers(0, 40, 300), rng.integers(0, 60, 300)])
    follows = rng.integers(0, 40, (2, 100))
    np.savetxt(tmp_path / "f.csv", follows.T, "%d", ",")
    config = {
        "dataset_name": "typed",
        "graph": {
            "nodes": [{"type": name, "num": count} for name, count in COUNTS.items()],
            "edges": [
                {"type": ":".join(VOTES), "format": "numpy"}
                | {"path": write(tmp_path, "v", votes)},
                {"type": ":".join(FOLLOWS), "format": "csv", "path": "f.csv"},
            ],
        },
        "feature_data": [
            {"domain": "node", "type": "user", "name": "t", "format": "numpy"}
            | {"path": write(tmp_path, "t", rng.integers(0, 9, 40))},
            {"domain": "node", "type": "user", "name": "x", "format": "torch", "path": "x.pt"},
        ],
    }  # fmt: skip
    torch.save(torch.rand(40, 2), tmp_path / "x.pt")
    (tmp_path / "metadata.yaml").write_text(yaml.safe_dump(config))
    graph = load_ondisk_dataset(tmp_path)
    assert isinstance(graph, HeteroGraph) and graph["tag"].num_nodes == 3
    assert edges_of(graph) == {FOLLOWS: follows.tolist(), VOTES: votes.tolist()}
    theirs = gb.OnDiskDataset(str(tmp_path), include_original_edge_id=True).load().graph
    assert edges_of(from_fused_csc(theirs)) == edges_of(graph)
    rows = FeatureStore(graph).read("node", "user", "x")
    assert torch.equal(rows, torch.load(tmp_path / "x.pt"))
    assert graph["user"].attrs["t"].array.tolist() == np.load(tmp_path / "t.npy").tolist()
    timed = load_ondisk_dataset(tmp_path, time_attr="t")
    found = SamplingGraph(timed).temporal_sample_neighbors(
        {"user": torch.arange(40)}, {"user": torch.full((40,), 4)},
        torch.tensor([-1]), node_timestamp_attr_name="t",
    )  # fmt: skip
    early = np.load(tmp_path / "t.npy")[follows[0]] < 4
    ids = found.original_edge_ids[":".join(FOLLOWS)]
    assert sorted(ids.tolist()) == np.flatnonzero(early).tolist()
    with pytest.raises(errors.InvalidArgumentError, match="time_attr = 'q' is no data"):
        load_ondisk_dataset(tmp_path, time_attr="q")


def test_folders_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"has no metadata\.yaml"):
        load_ondisk_dataset(tmp_path)
    (tmp_path / "metadata.yaml").write_text("dataset_name: a\n")
    with pytest.raises(errors.InvalidArgumentError, match="has no graph with nodes and edges"):
        load_ondisk_dataset(tmp_path)
    np.save(tmp_path / "e.npy", np.zeros((3, 2)))
    for entry, text in (
        ({"format": "numpy", "path": "e.npy"}, r"edges of shape \(3, 2\)"),
        ({"format": "parquet", "path": "e.npy"}, "format = 'parquet'"),
    ):
        config = {"graph": {"nodes": [{"num": 3}], "edges": [entry]}}
        (tmp_path / "metadata.yaml").write_text(yaml.safe_dump(config))
        with pytest.raises((errors.InvalidArgumentError, errors.FormatError), match=text):
            load_ondisk_dataset(tmp_path)


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("keep_order", [False, True])
def test_a_graph_becomes_a_dataset_folder(typed: bool, keep_order: bool, tmp_path: Path) -> None:
    graph: Any = make_typed(keep_order) if typed else make_graph(keep_order=keep_order)
    own, folder = SamplingGraph(graph), tmp_path / "folder"
    save_ondisk_dataset(own, folder, name="ours")
    again = load_ondisk_dataset(folder)
    assert edges_of(again) == edges_of(graph)
    wanted, found = FeatureStore(graph), FeatureStore(again)
    assert set(found._features) == set(wanted._features)
    for key in wanted._features:
        a, b = found.read(*key), wanted.read(*key)
        assert a.dtype == b.dtype and torch.equal(a, b), key
    kept = again["post"].attrs["x"] if typed else again.node_attrs["x"]
    assert kept.storage == "mmap"
    theirs = gb.OnDiskDataset(str(folder), include_original_edge_id=True).load()
    assert theirs.dataset_name == "ours" and not theirs.tasks
    assert edges_of(from_fused_csc(theirs.graph)) == edges_of(graph)
    for key in wanted._features:
        rows = wanted.read(*key)
        assert torch.equal(theirs.feature.read(*key), rows if rows.ndim > 1 else rows[:, None])


def by_edge_id(fused: Any, name: str) -> dict[Any, Any]:
    """An attribute of GraphBolt's graph by edge type and original edge id."""
    values, ids = fused.edge_attributes[name], fused.edge_attributes[gb.ORIGINAL_EDGE_ID].long()
    if fused.type_per_edge is None:
        return {None: torch.empty_like(values).scatter_(0, ids, values)}
    found = {}
    for kind, number in fused.edge_type_to_id.items():
        own = values[fused.type_per_edge == number]
        found[kind] = torch.empty_like(own).scatter_(0, ids[fused.type_per_edge == number], own)
    return found


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("keep_order", [False, True])
def test_graphbolt_samples_by_weights_and_times_of_a_folder(
    typed: bool, keep_order: bool, tmp_path: Path
) -> None:
    rng = np.random.default_rng(8)
    counts = {"user": 40, "user-x": 30}
    # "user-x" sorts behind "user" alone, and before "user:" in GraphBolt's names of edge types.
    kinds = [("user", "a", "user"), ("user-x", "a", "user"), ("user", "b", "user-x")]
    ends = {
        (a, r, b): (rng.integers(0, counts[a], 200), rng.integers(0, counts[b], 200))
        for a, r, b in kinds
    }
    weight = {kind: rng.integers(0, 2, 200).astype(np.float32) for kind in kinds}
    time = {kind: rng.integers(0, 50, 200) for kind in kinds}
    if typed:
        graph: Any = HeteroGraph.from_edges(
            ends, counts, edge_weight=weight, edge_time=time, keep_order=keep_order
        )
        for name, count in counts.items():
            graph[name].attrs["age"] = np.arange(count)
    else:
        kind = kinds[0]
        graph = Graph.from_edges(
            40, *ends[kind], edge_weight=weight[kind], edge_time=time[kind], keep_order=keep_order
        )
        graph.node_attrs["age"] = np.arange(40)
    folder = tmp_path / "folder"
    save_ondisk_dataset(graph, folder, node_attrs=["age"])
    theirs = gb.OnDiskDataset(str(folder), include_original_edge_id=True).load().graph
    features = FeatureStore(graph)
    for name in ("edge_weight", "edge_time"):
        found = by_edge_id(theirs, name)
        for own, values in found.items():
            assert torch.equal(values, features.read("edge", own, name))
    ages = torch.cat([torch.arange(count) for count in counts.values()])
    assert torch.equal(theirs.node_attributes["age"], ages if typed else torch.arange(40))
    users = torch.arange(40, dtype=theirs.indices.dtype)
    seeds = {"user": users} if typed else users
    drawn = theirs.sample_neighbors(seeds, torch.tensor([-1]), probs_name="edge_weight")
    ids = drawn.original_edge_ids if typed else {None: drawn.original_edge_ids}
    for own, found_ids in ids.items():
        heavy = features.read("edge", own, "edge_weight").nonzero()[:, 0]
        ends_there = own is None or own.endswith(":user")
        assert sorted(found_ids.tolist()) == (heavy.tolist() if ends_there else [])
    again = load_ondisk_dataset(folder, time_attr="edge_time")
    assert edges_of(again) == edges_of(graph)
    for key in list(features.keys()):
        assert torch.equal(FeatureStore(again).read(*key), features.read(*key))


def test_names_of_what_a_folder_is_sampled_by(tmp_path: Path) -> None:
    graph = make_graph(keep_order=True)
    save_ondisk_dataset(graph, tmp_path / "mask", edge_attrs=["mask"])
    theirs = gb.OnDiskDataset(str(tmp_path / "mask"), include_original_edge_id=True).load().graph
    mask = FeatureStore(graph).read("edge", None, "mask")
    assert torch.equal(by_edge_id(theirs, "mask")[None], mask)
    with pytest.raises(errors.InvalidArgumentError, match="'q' is no data of '_N'; there are"):
        save_ondisk_dataset(graph, tmp_path / "new", node_attrs=["q"])
    with pytest.raises(errors.InvalidArgumentError, match="'w' is no data of"):
        save_ondisk_dataset(make_typed(), tmp_path / "new", edge_attrs=["w"])
    assert not (tmp_path / "new").exists()


def test_folders_that_are_not_written(tmp_path: Path) -> None:
    graph = make_graph()
    (tmp_path / "metadata.yaml").write_text("")
    with pytest.raises(errors.InvalidArgumentError, match="is there already"):
        save_ondisk_dataset(graph, tmp_path)
    with pytest.raises(errors.InvalidArgumentError, match="Graph or HeteroGraph, got int"):
        save_ondisk_dataset(3, tmp_path / "new")  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("typed", [False, True])
def test_a_fused_graph_and_back(typed: bool, tmp_path: Path) -> None:
    graph: Any = make_typed() if typed else make_graph(keep_order=True)
    attrs = [] if typed else ["p"]
    fused = to_fused_csc(graph, edge_attrs=attrs)
    torch.save(fused, tmp_path / "fused.pt")
    fused = torch.load(tmp_path / "fused.pt")
    sampling = SamplingGraph(graph)
    assert fused.num_nodes == sampling.num_nodes and fused.num_edges == sampling.num_edges
    assert fused.total_num_nodes == sampling.total_num_nodes
    assert fused.total_num_edges == sampling.total_num_edges
    assert fused.node_type_to_id == sampling.node_type_to_id
    assert fused.edge_type_to_id == sampling.edge_type_to_id
    again = from_fused_csc(fused)
    assert edges_of(again) == edges_of(graph)
    seeds = {"user": torch.arange(40), "post": torch.arange(7)} if typed else torch.arange(30)
    wanted, found = fused.in_subgraph(seeds), sampling.in_subgraph(seeds)
    if not typed:
        wanted, found = ([one.sampled_csc, one.original_edge_ids] for one in (wanted, found))
        pairs = [(wanted, found)]
        weight = FeatureStore(graph).read("edge", None, "p")
        assert torch.equal(FeatureStore(again).read("edge", None, "p"), weight)
    else:
        pairs = [
            tuple([one.sampled_csc[kind], one.original_edge_ids[kind]] for one in (wanted, found))
            for kind in sampling.edge_type_to_id
        ]
    for (csc, ids), (own_csc, own_ids) in pairs:
        assert torch.equal(csc.indptr, own_csc.indptr)
        assert torch.equal(csc.indices, own_csc.indices) and torch.equal(ids, own_ids)
    with pytest.raises(errors.InvalidArgumentError, match="'q' is no data of"):
        to_fused_csc(graph, node_attrs=["q"])
    with pytest.raises(errors.InvalidArgumentError, match="takes a FusedCSCSamplingGraph"):
        from_fused_csc(graph)
