"""Feature storages: what DGL's loaders ask them."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path
from typing import Any

import dgl
import numpy as np
import pytest
import torch
from support.dgl import make_graph

from aethergraph import FeatureTable, Graph, errors
from aethergraph.dgl import FeatureStorage, GraphStorage, NeighborSampler
from aethergraph.dgl.graphbolt import Feature


@pytest.mark.parametrize("source", ["array", "file", "tensor"])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, np.float16])
def test_rows_are_fetched(source: str, dtype: Any, tmp_path: Path) -> None:
    rows = np.random.default_rng(1).integers(0, 50, (40, 3)).astype(dtype)
    given: Any = rows
    if source == "tensor":
        given = torch.from_numpy(rows)
    elif source == "file":
        np.save(tmp_path / "x.npy", rows)
        given = FeatureTable.load(tmp_path / "x.npy")
    storage = FeatureStorage(given)
    for ids in (torch.tensor([3, 0, 39, 3]), torch.tensor([1], dtype=torch.int32), torch.arange(0)):
        for pin in (False, True, None):
            found = storage.fetch(ids, torch.device("cpu"), pin).wait()
            assert found.dtype == torch.from_numpy(rows).dtype == storage.dtype
            np.testing.assert_array_equal(found, rows[ids.numpy()])
    assert storage.shape == (40, 3)


def test_errors_are_raised_by_wait() -> None:
    storage = FeatureStorage(np.zeros((5, 2), np.float32))
    fetch = storage.fetch(torch.tensor([0, 5]), "cpu")
    for _ in range(2):
        with pytest.raises(errors.OutOfRangeError, match="5"):
            fetch.wait()
    with pytest.raises(errors.InvalidArgumentError, match="must hold integer ids"):
        storage.fetch(torch.tensor([0.5]), "cpu")


def test_a_file_that_shrinks_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.ones((100_000, 4), np.float32))
    storage = FeatureStorage(FeatureTable.load(path))
    os.truncate(path, 4096)
    with pytest.raises(errors.FileChangedError):
        storage.fetch(torch.tensor([99_999]), "cpu").wait()


def test_storages_pickle_and_live_on_in_forked_children(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(10.0))
    storage = FeatureStorage(FeatureTable.load(tmp_path / "x.npy"))
    ids = torch.tensor([4, 2])
    assert storage.fetch(ids, "cpu").wait().tolist() == [4.0, 2.0]
    assert pickle.loads(pickle.dumps(storage)).fetch(ids, "cpu").wait().tolist() == [4.0, 2.0]
    child = os.fork()
    if child == 0:
        os._exit(storage.fetch(ids, "cpu").wait().tolist() != [4.0, 2.0])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_one_storage_beside_a_dgl_graph() -> None:
    """Topology of DGL's, features of ours."""
    src, dst = make_graph().edge_index()
    g = dgl.graph((torch.from_numpy(src), torch.from_numpy(dst)), num_nodes=150)
    rows = np.random.default_rng(2).random((150, 3))
    storage = FeatureStorage(rows)
    g.get_node_storage = lambda key, ntype=None: storage
    sampler = dgl.dataloading.NeighborSampler([3], prefetch_node_feats=["x"])
    loader = dgl.dataloading.DataLoader(
        g, torch.arange(20), sampler, batch_size=10, pin_prefetcher=False
    )
    for inputs, _, blocks in loader:
        np.testing.assert_array_equal(blocks[0].srcdata["x"], rows[inputs.numpy()])


def test_edge_data_goes_by_the_ids_that_are_shown() -> None:
    graph = make_graph(keep_order=True)
    order, values = graph.edge_order, graph.edge_attrs["edge_attr"].array
    assert order is not None
    ids = torch.tensor([0, 700, 3])
    by_input = GraphStorage(graph).get_edge_storage("edge_attr").fetch(ids, "cpu").wait()
    np.testing.assert_array_equal(by_input, values[np.argsort(order)[ids.numpy()]])
    own = GraphStorage(graph, edge_ids="graph").get_edge_storage("edge_attr")
    np.testing.assert_array_equal(own.fetch(ids, "cpu").wait(), values[ids.numpy()])
    with pytest.raises(errors.OutOfRangeError, match=r"indices\[1\] = 1500"):
        GraphStorage(graph).get_edge_storage("p").fetch(torch.tensor([1, 1500]), "cpu").wait()


def test_the_graphs_own_values_are_data_too() -> None:
    rng = np.random.default_rng(1)
    graph = Graph.from_edges(9, [0, 1], [2, 2], edge_weight=[0.5, 2.0], node_time=rng.random(9))
    storage = GraphStorage(graph)
    sampler = NeighborSampler(
        [-1], prefetch_edge_feats=["edge_weight"], prefetch_node_feats=["node_time"]
    )
    (batch,) = dgl.dataloading.DataLoader(storage, torch.tensor([2]), sampler, batch_size=1)
    assert sorted(batch[2][0].edata["edge_weight"].tolist()) == [0.5, 2.0]
    assert batch[2][0].srcdata["node_time"].shape == (3,)


@pytest.fixture
def five(tmp_path: Path) -> FeatureTable:
    """0 to 4, in a file: they are read in the background, however few cores there are."""
    np.save(tmp_path / "five.npy", np.arange(5.0))
    return FeatureTable.load(tmp_path / "five.npy")


def test_fetches_run_beside_the_caller_and_each_other(five: FeatureTable) -> None:
    """Both reads have begun before either is waited for."""
    begun, go = threading.Barrier(3), threading.Event()

    class Slow(FeatureStorage):
        def _rows_of(self, ids: Any) -> Any:
            begun.wait(30)
            assert go.wait(30)
            return ids

    fetches = [Slow(five).fetch(torch.tensor([i]), "cpu") for i in (3, 1)]
    begun.wait(30)
    go.set()
    assert [float(fetch.wait()) for fetch in fetches] == [3.0, 1.0]


def test_who_waits_reads_when_no_thread_is_free(five: FeatureTable) -> None:
    begun, go = threading.Semaphore(0), threading.Event()

    class Slow(FeatureStorage):
        def _rows_of(self, ids: Any) -> Any:
            begun.release()
            assert go.wait(30)
            return ids

    slow = [Slow(five).fetch(torch.tensor([i]), "cpu") for i in (3, 1)]
    for _ in slow:  # both threads are taken
        assert begun.acquire(timeout=120)
    waiting = FeatureStorage(five).fetch(torch.tensor([2]), "cpu")
    bad = FeatureStorage(five).fetch(torch.tensor([5]), "cpu")
    assert float(waiting.wait()) == 2.0
    with pytest.raises(errors.OutOfRangeError, match="5"):
        bad.wait()
    go.set()
    assert [float(fetch.wait()) for fetch in slow] == [3.0, 1.0]


def test_rows_in_memory_need_no_thread_where_there_is_one_core(run_python: Any) -> None:
    done = run_python("""
        import os, threading
        import numpy as np, torch
        from aethergraph.dgl import FeatureStorage
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        fetch = FeatureStorage(np.arange(5.0)).fetch(torch.tensor([3, 1]), "cpu")
        print(threading.active_count(), fetch.wait().tolist())
    """)
    assert done.stdout.split() == ["1", "[3.0,", "1.0]"], done.stderr


def test_batches_do_not_share_memory_that_is_used_again() -> None:
    rows = np.arange(40_000, dtype=np.float32).reshape(400, 100)
    storage = FeatureStorage(rows)
    first = storage.fetch(torch.arange(400), "cpu").wait()
    second = storage.fetch(torch.arange(399, -1, -1), "cpu").wait()
    kept = first[7]
    del first
    third = storage.fetch(torch.zeros(400, dtype=torch.int64), "cpu").wait()
    np.testing.assert_array_equal(kept.numpy(), rows[7])
    np.testing.assert_array_equal(second.numpy(), rows[::-1])
    np.testing.assert_array_equal(third.numpy(), rows[np.zeros(400, int)])


@pytest.mark.parametrize("of_graphbolt", [False, True])
def test_who_waits_moves_the_rows(
    five: FeatureTable, of_graphbolt: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy to a GPU must be on the stream of that thread."""
    movers = []
    move = torch.Tensor.to

    def record(rows: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        movers.append(threading.current_thread())
        return move(rows, *args, **options)

    read = threading.Event()

    class Read(Feature if of_graphbolt else FeatureStorage):  # type: ignore[misc]
        def _rows_of(self, ids: Any) -> Any:
            assert threading.current_thread() is not threading.main_thread()
            read.set()
            return ids

    monkeypatch.setattr(torch.Tensor, "to", record)
    source, ids = Read(five), torch.tensor([3, 1])
    fetch = next(source.read_async(ids)) if of_graphbolt else source.fetch(ids, "cpu")
    assert read.wait(60)
    assert fetch.wait().tolist() == [3.0, 1.0]
    assert movers == [threading.main_thread()]
