"""Training tables over graphs that change: keys as of the last commit, batches of both loaders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aethergraph import DynamicGraph, DynamicHeteroGraph, Graph, HeteroGraph
from aethergraph.convert import ForeignKey, InputError, NodeTable, TableSchema, tables
from aethergraph.errors import InvalidArgumentError
from aethergraph.tasks import LinkTask, TableTask
from aethergraph.testing import check_no_leak

DAY = np.datetime64("2024-01-01", "s")
BY, REV = ("post", "by", "user"), ("user", "rev_by", "post")
OPTIONS: dict[str, Any] = {
    "entity_table": "user", "entity_col": "u", "time_col": "d", "target_col": "y",
}  # fmt: skip


def days(count: Any) -> Any:
    return DAY + np.asarray(count).astype("timedelta64[D]")


def rows(count: int = 20) -> dict[str, Any]:
    """Return rows of a training table: a user, a day, a label."""
    numbers = np.arange(count)
    users = [f"u{n % 10}" for n in numbers]
    return {"u": users, "d": days(5 + numbers % 10), "y": numbers % 3}


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[DynamicHeteroGraph]:
    """Return a graph of 10 users, and of 60 posts, one each six hours."""
    edges = [BY, REV]
    live = DynamicHeteroGraph.open(
        tmp_path / "g.aegd", {"user": 0, "post": 0}, edges, 64, order="time",
        edge_time="datetime64[s]", ids={"user": "str", "post": "int64"},
    )  # fmt: skip
    with live.transaction():
        users = live.ids["user"].add([f"u{n}" for n in range(9, -1, -1)])
        posts = live.ids["post"].add(np.arange(1000, 1060))
        when = DAY + np.arange(60) * np.timedelta64(6, "h")
        author = users[np.arange(60) * 7 % 10]
        live[BY].insert(posts, author, time=when)
        live[REV].insert(author, posts, time=when)
    live["user"].features = np.arange(20, dtype=np.float32).reshape(10, 2)
    live["post"].features = np.arange(60, dtype=np.float32)[:, None]
    yield live
    live.close()


def seconds(values: Any) -> list[int]:
    found: list[int] = values.astype("datetime64[s]").view(np.int64).tolist()
    return found


def test_keys_and_times_of_a_live_graph(graph: DynamicHeteroGraph) -> None:
    task = TableTask(graph, rows(), **OPTIONS)
    assert task.nodes.tolist() == [9 - n % 10 for n in range(20)]
    assert task.time is not None and task.time.tolist() == seconds(rows()["d"])
    assert task.time_unit == "s" and task.time_zone is None
    before = graph.snapshot()
    graph.ids["user"].add(["new"], x=[[0, 0]])
    late = {"u": ["new"], "d": days([3]), "y": [0]}
    assert TableTask(graph, late, **OPTIONS).nodes.tolist() == [10]
    for then in (before, graph.snapshot()):
        if then is before:
            with pytest.raises(InputError, match=r"row 1: column 'u': there is no 'user' .*'new'"):
                TableTask(then, late, **OPTIONS)
        else:
            assert TableTask(then, late, **OPTIONS).nodes.tolist() == [10]
    posts = {"u": ["u3", "u4"], "p": [[1004, 1000], [1059]], "d": days([3, 4])}
    links = LinkTask(
        graph, posts, src_entity_table="user", src_entity_col="u", dst_entity_table="post",
        dst_entity_col="p", time_col="d",
    )  # fmt: skip
    assert links.links.tolist() == [[6, 6, 5], [4, 0, 59]]


def test_numbers_of_another_unit_are_refused(graph: DynamicHeteroGraph) -> None:
    with pytest.raises(InvalidArgumentError, match="The graph has nothing before 2024-01-01"):
        TableTask(graph, {**rows(), "d": np.arange(20)}, **OPTIONS)
    given = {**rows(), "d": np.array(seconds(rows()["d"]))}
    assert TableTask(graph, given, **OPTIONS).time.tolist() == seconds(rows()["d"])  # type: ignore[union-attr]


def test_plain_ids_and_graphs_without_keys() -> None:
    plain = DynamicGraph(10, 16, order="time", edge_time="int64")
    plain.insert_edges([1, 2], [3, 3], time=[4, 5])
    table = {"n": [3, 1], "d": [9, 2]}
    task = TableTask(plain, table, entity_col="n", time_col="d", entity_is="id")
    assert task.nodes.tolist() == [3, 1]
    assert task.time is not None and task.time.tolist() == [9, 2]
    with pytest.raises(InvalidArgumentError, match=r"no keys.*entity_is='id'"):
        TableTask(plain, table, entity_col="n")
    typed = DynamicHeteroGraph({"a": 3}, [("a", "to", "a")], 16)
    with pytest.raises(InvalidArgumentError, match=r"no keys.*entity_is='id'"):
        TableTask(typed, table, entity_col="n", entity_table="a")
    with pytest.raises(InvalidArgumentError, match="loaded or live, got <class"):
        TableTask(Graph, table, entity_col="n")  # type: ignore[arg-type]


def test_one_type_with_keys(tmp_path: Path) -> None:
    live = DynamicGraph.open(
        tmp_path / "p.aegd", arena_mb=16, ids="str", order="time", edge_time="int64"
    )
    live.insert_edges(live.ids.add(["a", "b"]), live.ids.add(["b", "c"]), time=[1, 2])
    table = {"who": ["c", "a"], "other": ["a", "b"], "at": [4, 6]}
    assert TableTask(live, table, entity_col="who", time_col="at").nodes.tolist() == [2, 0]
    links = LinkTask(live, table, src_entity_col="who", dst_entity_col="other", time_col="at")
    assert links.links.tolist() == [[2, 0], [0, 1]] and links.edge_type is None
    live.close()


def test_the_zone_of_tables_goes_on(tmp_path: Path) -> None:
    """Times of tables have a zone: a live graph over them wants zones, and so does its base."""
    pandas = pytest.importorskip("pandas")
    at = pandas.to_datetime(["2024-01-01", "2024-01-02"]).tz_localize("UTC")
    schema = TableSchema(
        {
            "user": NodeTable({"id": ["a", "b"]}, "id"),
            "order": NodeTable(
                pandas.DataFrame({"id": [1, 2], "u": ["a", "b"], "t": at}), "id",
                foreign={"u": ForeignKey("user", "u", time="t")},
            ),
        }
    )  # fmt: skip
    tables(schema, tmp_path / "z.aeg")
    live = DynamicHeteroGraph.open(
        tmp_path / "z.aegd", arena_mb=16, base=tmp_path / "z.aeg", ids={"user": "str"}
    )
    named = {"entity_table": "user", "entity_col": "u", "time_col": "d"}
    task = TableTask(live, pandas.DataFrame({"u": ["b", "a"], "d": at}), **named)
    assert task.nodes.tolist() == [1, 0] and task.time_zone == "UTC"
    naive = {"u": ["b"], "d": np.array(["2024-01-02"], "M8[us]")}
    for graph in (live, live.snapshot()):
        with pytest.raises(InvalidArgumentError, match="has no time zone"):
            TableTask(graph, naive, **named)
    assert HeteroGraph.load(live.merge()).time_zone == "UTC"
    live.close()


@pytest.mark.parametrize("kind", ["ours", "stock"])
def test_a_batch_trains(graph: DynamicHeteroGraph, kind: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    from torch_geometric.loader import NodeLoader
    from torch_geometric.nn import SAGEConv, to_hetero

    from aethergraph.pyg import FeatureStore, GraphStore, HeteroNeighborSampler, NeighborLoader

    task = TableTask(graph, rows(), **OPTIONS)
    options: Any = {**task.node_input(), "transform": task.attach_labels, "batch_size": 8}
    loader: Any
    if kind == "ours":
        loader = NeighborLoader(graph, [5, 5], **options)
    else:
        stores = FeatureStore.from_graph(graph), GraphStore(graph)
        sampler = HeteroNeighborSampler(stores, [5, 5], time_attr="edge_time")
        loader = NodeLoader(stores, sampler, **options)

    class Model(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = SAGEConv((-1, -1), 8), SAGEConv((-1, -1), 3)

        def forward(self, x: Any, edge_index: Any) -> Any:
            return self.two(self.one(x, edge_index).relu(), edge_index)

    model = to_hetero(Model(), (graph.node_types, graph.edge_types))
    optimizer, seen = None, []
    for batch in loader:
        seeds = batch["user"]
        at = seeds.input_id.numpy()
        seen += at.tolist()
        assert seeds.n_id[: seeds.batch_size].tolist() == task.nodes[at].tolist()
        assert task.labels is not None and seeds.y.tolist() == task.labels[at].tolist()
        expected = graph["user"].features.gather(seeds.n_id.numpy())
        assert np.array_equal(seeds.x.numpy(), expected)
        out = model(batch.x_dict, batch.edge_index_dict)["user"][: seeds.batch_size]
        optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.01)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(out, seeds.y).backward()
        optimizer.step()
    assert sorted(seen) == list(range(20))
    moved = [one.grad.abs().sum().item() for one in model.parameters() if one.grad is not None]
    assert len(moved) > 4 and sum(moved) > 0
    report = check_no_leak(graph, loader)
    assert report.seeds == 20 and report.edges > 20
