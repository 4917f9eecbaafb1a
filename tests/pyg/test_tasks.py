"""Training tables through PyG's loaders and ours, and the proof that no seed sees its future."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.task_shop import make_shop, training_rows
from torch_geometric.data import Data
from torch_geometric.loader import LinkLoader, NodeLoader

from aethergraph import Graph, HeteroGraph
from aethergraph.convert import LinkTable, NodeTable, TableSchema, tables
from aethergraph.pyg import (
    FeatureStore,
    GraphStore,
    HeteroNeighborLoader,
    HeteroNeighborSampler,
    LinkNeighborLoader,
    NeighborLoader,
)
from aethergraph.tasks import LinkTask, TableTask
from aethergraph.testing import LeakError, check_no_leak


@pytest.fixture
def graph(tmp_path: Path) -> HeteroGraph:
    return make_shop(tmp_path)


@pytest.fixture
def task(graph: HeteroGraph) -> TableTask:
    return TableTask(
        graph, training_rows(), entity_table="user", entity_col="user_id", time_col="date",
        target_col="churn",
    )  # fmt: skip


def links(graph: HeteroGraph) -> LinkTask:
    rows: Any = {
        "user": [f"u{n}" for n in range(20)],
        "skus": [[f"p{n % 12}", "p3"] for n in range(20)],
        "shops": [[n % 3, 0] for n in range(20)],
        "date": training_rows(20)["date"],
        "stars": range(20),
    }
    return LinkTask(
        graph, rows, src_entity_table="user", src_entity_col="user", time_col="date",
        dst_entity_table="product", dst_entity_col=["shops", "skus"], target_col="stars",
        unknown="drop",
    )  # fmt: skip


def stock(graph: HeteroGraph, **options: Any) -> Any:
    stores = FeatureStore.from_graph(graph), GraphStore(graph)
    return stores, HeteroNeighborSampler(stores, [5, 5], time_attr="node_time", **options)


def loader(graph: HeteroGraph, task: TableTask, kind: str) -> Any:
    options: Any = {
        **task.node_input(), "transform": task.attach_labels, "batch_size": 16, "shuffle": True
    }  # fmt: skip
    if kind == "ours":
        return NeighborLoader(graph, [5, 5], **options)
    stores, sampler = stock(graph)
    return NodeLoader(stores, sampler, **options)


@pytest.mark.parametrize("kind", ["ours", "stock"])
def test_batches_have_the_labels_and_times_of_their_seeds(
    graph: HeteroGraph, task: TableTask, kind: str
) -> None:
    train, _, _ = task.split(val="2024-03-01", test="2024-03-20")
    assert train.time is not None and train.labels is not None
    seen: list[int] = []
    for batch in loader(graph, train, kind):
        seeds = batch["user"]
        at = seeds.input_id.numpy()
        assert seeds.n_id[: seeds.batch_size].tolist() == train.nodes[at].tolist()
        assert seeds.seed_time.tolist() == train.time[at].tolist()
        assert seeds.y.dtype == torch.int64 and seeds.y.tolist() == train.labels[at].tolist()
        seen += at.tolist()
    assert sorted(seen) == list(range(len(train)))


@pytest.mark.parametrize("kind", ["ours", "stock"])
def test_no_seed_sees_its_future(graph: HeteroGraph, task: TableTask, kind: str) -> None:
    report = check_no_leak(graph, loader(graph, task, kind))
    assert report.seeds == 60 and report.nodes > 100


@pytest.mark.parametrize("negatives", [None, "binary", "triplet"])
@pytest.mark.parametrize("kind", ["ours", "stock"])
def test_links(graph: HeteroGraph, kind: str, negatives: str | None) -> None:
    task = links(graph)
    assert task.time is not None
    options: Any = {**task.link_input(), "batch_size": 8, "neg_sampling": negatives}
    if kind == "ours":
        found: Any = LinkNeighborLoader(graph, [5, 5], **options, strict=True)
    else:
        stores, sampler = stock(graph, strict=True)
        found = LinkLoader(stores, sampler, **options)
    batches = list(found)
    for batch in batches:
        store = task.attach_labels(batch)["user", "to", "product"]
        assert store.y.tolist() == task.labels[store.input_id.numpy()].tolist()  # type: ignore[index]
    report = check_no_leak(graph, batches, strict=True)
    assert report.seeds == len(task) and report.nodes > 30
    with pytest.raises(LeakError, match=r"node .* of 'order' is of time"):
        check_no_leak(graph, batches, seed_time=task.time - 86400 * 60)


def test_a_sampler_that_leaks_is_caught(graph: HeteroGraph, task: TableTask) -> None:
    """All times are those of the last seed: what an average over a batch would do."""
    assert task.time is not None
    given = task.node_input()
    late = torch.full_like(given["input_time"], int(task.time.max()))
    leaking = NeighborLoader(graph, [5, 5], **{**given, "input_time": late}, batch_size=16)
    check_no_leak(graph, leaking)  # the batches say so themselves
    with pytest.raises(LeakError) as found:
        check_no_leak(graph, leaking, seed_time=task.time)
    error = found.value
    times = graph["order"].node_time
    assert times is not None and error.type == "order"
    assert error.time == times[error.id] > error.seed_time


def test_batches_of_one_type() -> None:
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 50, (2, 400))
    graph = Graph.from_edges(50, src, dst, edge_time=rng.integers(0, 100, 400))
    times = torch.from_numpy(rng.integers(20, 80, 30))
    nodes = NeighborLoader(
        graph, [4, 4], input_nodes=torch.arange(30), input_time=times, batch_size=10
    )
    report = check_no_leak(graph, nodes)
    assert (report.batches, report.seeds) == (3, 30) and report.edges > 50
    pairs = torch.from_numpy(rng.integers(0, 50, (2, 30)))
    found = LinkNeighborLoader(
        graph, [4, 4], edge_label_index=pairs, edge_label_time=times, neg_sampling="binary",
        batch_size=10,
    )  # fmt: skip
    assert check_no_leak(graph, found).seeds == 30
    batch = next(iter(nodes))
    assert isinstance(batch, Data) and check_no_leak(graph, batch).seeds == 10
    batch.seed_time = batch.seed_time - 15
    with pytest.raises(LeakError, match=r"^edge \d+ is of time"):
        check_no_leak(graph, batch)


def test_loaders_go_by_the_times_that_the_graph_names(tmp_path: Path) -> None:
    """Rows and links with times: a product that comes later is in no batch."""
    day = np.datetime64("2024-01-01", "us") + np.arange(20).astype("timedelta64[D]")
    schema = TableSchema(
        {
            "user": NodeTable({"id": [0, 1]}, "id"),
            "product": NodeTable({"id": np.arange(20), "since": day}, "id", time="since"),
        },
        {"likes": LinkTable(
            {"u": np.arange(20) % 2, "p": np.arange(20), "t": np.full(20, day[5])},
            "product", "p", "user", "u", time="t",
        )},
    )  # fmt: skip
    tables(schema, tmp_path / "g.aeg")
    graph = HeteroGraph.load(tmp_path / "g.aeg")
    rows = {"u": [0, 1], "d": np.full(2, day[9])}
    task = TableTask(graph, rows, entity_table="user", entity_col="u", time_col="d")
    loader = HeteroNeighborLoader(graph, [20], **task.node_input(), batch_size=2)
    (batch,) = loader
    assert sorted(batch["product"].n_id.tolist()) == list(range(10))
    assert check_no_leak(graph, loader).nodes == 10
