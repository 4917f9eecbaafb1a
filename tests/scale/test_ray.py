"""Sampling datasets of Ray: the loader's batches, whatever happens to the workers."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
from support.ray_clusters import local_cluster

from aethergraph import FeatureTable, Graph, SubgraphLoader
from aethergraph.errors import InvalidArgumentError, MissingFileError, OutOfRangeError
from aethergraph.loading import Order
from aethergraph.loading.batch import Batch
from aethergraph.ray import collate_to_pyg, create_sampling_dataset
from aethergraph.ray.dataset import count_tasks
from aethergraph.ray.rows import RowsOfBlocks, as_row, as_table

ray = pytest.importorskip("ray", reason="Ray (75 MB) is not installed: aethergraph[ray]")
pytestmark = pytest.mark.pyg

COUNT, SIZE = 3000, 40
OPTIONS = {"batch_size": SIZE, "shuffle": True, "seed": 3}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, COUNT, (2, 10 * COUNT))
    weights = {"w": rng.random((len(src), 2))}
    graph = Graph.from_edges(COUNT, src, dst, edge_attrs=weights)
    graph.node_attrs["x"] = rng.random((COUNT, 6), dtype=np.float32)
    graph.node_attrs["y"] = np.arange(COUNT) % 7
    folder = tmp_path_factory.mktemp("ray")
    FeatureTable.from_array(rng.random((COUNT, 3))).save(folder / "z.aeg")
    graph.save(folder / "graph.aeg")
    return folder / "graph.aeg"


def on_a_cluster(test: Any) -> Any:
    """Mark a test that needs a local cluster, which takes 10 s to start."""
    return pytest.mark.slow(pytest.mark.usefixtures("cluster")(test))


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with local_cluster(num_cpus=2, object_store_memory=200 << 20):
        ray.data.DataContext.get_current().enable_progress_bars = False
        yield


def wanted(path: Path, epoch: int = 0, **options: Any) -> list[Batch]:
    loader = SubgraphLoader(Graph.load(path), [5, 3], **(OPTIONS | options))
    loader.set_epoch(epoch)
    return list(loader)


def assert_all_once(rows: list[Any], batches: list[Batch]) -> None:
    """Every batch came once, bit by bit, in whatever order."""
    found = {row["number"]: row for row in map(as_row, rows)}
    assert len(rows) == len(found) == len(batches)
    for number, batch in enumerate(batches):
        row, sub = found[number], batch.subgraph
        for name, array in (
            ("node", sub.node), ("row", sub.row), ("col", sub.col), ("edge", sub.edge),
            ("index", batch.index),
            *((f"node:{name}", rows) for name, rows in batch.node_attrs.items()),
            *((f"edge:{name}", rows) for name, rows in batch.edge_attrs.items()),
        ):  # fmt: skip
            np.testing.assert_array_equal(row[name], array)
            assert row[name].dtype == array.dtype, name
        assert row["batch_size"] == batch.batch_size


@on_a_cluster
@pytest.mark.parametrize("form", ["pyarrow", "numpy"])
@pytest.mark.parametrize("epoch", [0, 2])
def test_batches_are_the_loaders(path: Path, form: str, epoch: int) -> None:
    dataset = create_sampling_dataset(path, [5, 3], SIZE, seed=3, epoch=epoch)
    assert dataset.count() == -(-COUNT // SIZE)
    assert_all_once(list(dataset.iter_batches(batch_format=form)), wanted(path, epoch))


@on_a_cluster
def test_batches_come_in_ways_of_ray(path: Path) -> None:
    dataset = create_sampling_dataset(path, [5, 3], SIZE, seed=3, override_num_blocks=2)
    batches = dataset.iter_batches(batch_format="pyarrow", prefetch_batches=2)
    for _ in range(2):  # as Ray's, they may be iterated over again
        assert_all_once(list(batches), wanted(path))
    sizes = [len(b) for b in dataset.iter_batches(batch_format="pyarrow", batch_size=4)]
    assert sizes == [4] * 18 + [3]
    assert all(b.num_rows == 1 for b in dataset.iter_batches(batch_size=1, batch_format="pyarrow"))
    assert_all_once(list(dataset.iter_batches()), wanted(path))


def test_rows_are_views_of_their_table(path: Path) -> None:
    """Copy nothing of the object store in the process that trains."""
    pa = pytest.importorskip("pyarrow")
    batches = wanted(path)[:3]
    tables = [as_table(batch, 0, number) for number, batch in enumerate(batches)]
    (kept,) = {table.schema for table in tables}
    chunked = pa.concat_tables([kept.empty_table(), *tables])
    rows = [as_row(row) for row in RowsOfBlocks([chunked])]
    for row, batch in zip(rows, batches, strict=True):
        for name, array in (
            ("node", batch.subgraph.node), ("edge", batch.subgraph.edge), ("node:x", batch.x),
        ):  # fmt: skip
            assert np.shares_memory(row[name], array), name
            np.testing.assert_array_equal(row[name], array)


def test_tables_of_others_are_refused() -> None:
    pa = pytest.importorskip("pyarrow")
    for table, words in (
        (
            pa.table({"id": [1]}),
            "batch has no column 'epoch': it is not of create_sampling_dataset",
        ),
        (pa.table({"id": [1, 2]}), "batch holds 2 sampled batches"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            as_row(table)


@pytest.mark.parametrize(
    ("batches", "cores", "num_cpus", "concurrency", "tasks"),
    [
        (0, 2, None, None, 1),
        (31, 2, None, None, 1),  # 16 batches are the least
        (32, 2, None, None, 2),
        (200, 2, None, None, 8),  # four for each core
        (200, 64, None, None, 12),
        (10**6, 64, None, None, 256),
        (10**6, 64, 2, None, 128),
        (10**6, 64, 0.5, None, 512),
        (10**6, 64, 0, None, 256),
        (10**6, 64, None, 3, 12),
        (10**6, 2, 4, None, 4),  # it waits for a larger machine
        (10**6, 64, "x", "y", 256),  # Ray says what is wrong with them
    ],
)
def test_number_of_tasks(
    batches: int, cores: float, num_cpus: Any, concurrency: Any, tasks: int
) -> None:
    assert count_tasks(batches, cores, num_cpus, concurrency) == tasks


@pytest.mark.parametrize("asked", [None, 7])
def test_tasks_of_an_epoch(path: Path, monkeypatch: pytest.MonkeyPatch, asked: int | None) -> None:
    """Ray is told of a few tasks, their rows and their bytes."""
    read: dict[str, Any] = {}

    def read_datasource(source: Any, **options: Any) -> Any:
        read.update(options, source=source)
        return SimpleNamespace(iter_batches=None)

    monkeypatch.setattr(ray.data, "read_datasource", read_datasource)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0})
    monkeypatch.setattr(ray, "put", lambda plan: plan)
    create_sampling_dataset(path, [5, 3], SIZE, seed=3, override_num_blocks=asked)
    wanted_tasks = asked or 4  # 75 batches, 16 of them at least to a task
    assert read["override_num_blocks"] == wanted_tasks
    tasks = read["source"].get_read_tasks(wanted_tasks)
    rows = [task.metadata.num_rows for task in tasks]
    assert len(tasks) == wanted_tasks and sum(rows) == 75 and max(rows) - min(rows) <= 1
    size = as_table(wanted(path)[0], 0, 0).nbytes
    assert [task.metadata.size_bytes for task in tasks] == [size * count for count in rows]
    assert read["source"].estimate_inmemory_data_size() == 75 * size


@on_a_cluster
def test_a_path_is_the_drivers(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers run in the folder where their cluster was started."""
    monkeypatch.chdir(path.parent)
    files = {"z": "z.aeg"}
    dataset = create_sampling_dataset(path.name, [2], 1000, features=files, override_num_blocks=1)
    rows = list(dataset.iter_batches(batch_format="pyarrow"))
    assert [len(as_row(row)["node:z"]) for row in rows] == [
        len(as_row(row)["node"]) for row in rows
    ]
    assert len(rows) == 3


@on_a_cluster
def test_options_reach_the_workers(path: Path) -> None:
    seeds = np.arange(0, COUNT, 3)
    options: dict[str, Any] = {
        "replace": True, "drop_last": True, "node_attrs": ["y"], "edge_attrs": [],
    }  # fmt: skip
    parts = seeds // 100
    dataset = create_sampling_dataset(
        path, [5, 3], SIZE, seed=3, input_nodes=seeds, storage="uring", memory_budget="64M",
        num_threads=0, override_num_blocks=3, num_cpus=1, concurrency=2,
        partitions=parts, mix=2, **options,
    )  # fmt: skip
    rows = list(dataset.iter_rows())
    order = Order(partitions=parts, mix=2)
    assert_all_once(rows, wanted(path, seeds=seeds, order=order, **options))


@on_a_cluster
def test_batches_of_pyg(path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    features = {"z": path.parent / "z.aeg"}
    dataset = create_sampling_dataset(path, [5, 3], SIZE, seed=3, features=features)
    rows = list(dataset.iter_batches(batch_format="pyarrow"))
    batches = wanted(path)
    z = FeatureTable.load(features["z"])
    for row in rows[:5]:
        data, batch = collate_to_pyg(row), batches[row["number"][0].as_py()]
        assert data.batch_size == SIZE and data.num_sampled_nodes[0] == SIZE
        for name, array in (
            ("x", batch.x), ("y", batch.y), ("w", batch.edge_attrs["w"]),
            ("z", z.gather(batch.subgraph.node)), ("n_id", batch.subgraph.node),
            ("e_id", batch.subgraph.edge), ("edge_index", batch.edge_index),
            ("input_id", batch.index),
        ):  # fmt: skip
            assert torch.equal(data[name], torch.from_numpy(np.array(array))), name
        data.x += 1  # not Ray's memory, which is read only
    loader = dataset.iter_torch_batches(batch_size=1, collate_fn=lambda row: row)
    assert collate_to_pyg(next(iter(loader))).num_nodes > 0


class _Killer(threading.Thread):
    """Kills a worker of the local cluster every now and then."""

    def __init__(self, times: int) -> None:
        super().__init__(daemon=True)
        self.left, self.done = times, threading.Event()

    def run(self) -> None:
        while self.left and not self.done.wait(0.15):
            for child in psutil.Process().children(recursive=True):
                try:
                    if "ray::" in child.name() and "Read" in " ".join(child.cmdline()):
                        os.kill(child.pid, signal.SIGKILL)
                        self.left -= 1
                        break
                except (psutil.Error, ProcessLookupError):
                    continue


@on_a_cluster
def test_killed_workers_lose_and_double_nothing(path: Path) -> None:
    killer = _Killer(int(os.environ.get("AETHERGRAPH_KILLS", "3")))
    killer.start()
    rounds = 0
    while killer.left and rounds < 40:
        dataset = create_sampling_dataset(
            path, [5, 3], SIZE, seed=3, epoch=rounds, override_num_blocks=6
        )
        rows = list(dataset.iter_batches(batch_format="pyarrow"))
        assert_all_once(rows, wanted(path, rounds))
        rounds += 1
    killer.done.set()
    assert killer.left == 0, "workers were not found"


@on_a_cluster
def test_a_file_that_was_replaced_is_noticed(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "graph.aeg"
    copy.write_bytes(path.read_bytes())
    dataset = create_sampling_dataset(copy, [5, 3], SIZE, override_num_blocks=1)
    Graph.from_edges(COUNT, [0], [1]).save(copy)
    with pytest.raises(Exception, match="the file is not the one that the dataset was made of"):
        dataset.take(1)


def test_bad_arguments_are_refused_before_any_task(path: Path, tmp_path: Path) -> None:
    for options, kind, message in (
        ({"batch_size": 0}, InvalidArgumentError, "batch_size = 0"),
        ({"num_neighbors": ["a"]}, InvalidArgumentError, "fanouts"),
        ({"graph_path": tmp_path / "none.aeg"}, MissingFileError, "none.aeg"),
        ({"epoch": -1}, InvalidArgumentError, "epoch = -1"),
        ({"partitions": [1, 2]}, InvalidArgumentError, "partitions has 2 items"),
        ({"node_attrs": ["q"]}, InvalidArgumentError, "'q' does not exist"),
        ({"features": 3}, InvalidArgumentError, "features must be a mapping"),
        ({"features": {"z": np.zeros((COUNT, 1))}}, InvalidArgumentError, r"features\['z'\] must"),
        ({"graph_path": Graph.load(path)}, InvalidArgumentError, "graph_path must be .* got Graph"),
        ({"input_nodes": [0, COUNT]}, OutOfRangeError, r"input_nodes\[1\] = 3000 is not in"),
    ):
        given = {"graph_path": path, "num_neighbors": [5, 3], **options}
        with pytest.raises(kind, match=message):
            create_sampling_dataset(**given)
