"""What is observed: found by itself, named, weakly held, and read once."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.threads import repeating

from aethergraph import CachedRows, DynamicGraph, FeatureTable, Graph, SubgraphLoader, observe
from aethergraph.errors import InvalidArgumentError
from aethergraph.observe import registry
from aethergraph.observe.registry import observed
from aethergraph.streaming import Ingestor, MemorySource


def values(metric: str) -> dict[str, float]:
    found = observe.snapshot()["metrics"].get(metric, {"samples": []})
    return {sample["labels"]["name"]: sample["value"] for sample in found["samples"]}


def test_what_is_made_is_found_by_itself(files: Path) -> None:
    observe.enable()
    graph = Graph.load(files / "graph.aeg", storage="uring", memory_budget="64M")
    graph.load_features(files / "x.npy", storage="uring", memory_budget="1M")
    graph.node_attrs["y"] = cached = CachedRows(np.ones((500, 4), np.float32), "1M")
    with DynamicGraph.open(files / "live.aegd", 10) as live:
        source = MemorySource("clicks")
        ingestor = Ingestor(live, source, linger=0)
        source.append(src=[1, 2, 3], dst=[2, 3, 4])
        source.end()
        ingestor.run()
        cached.gather([1, 2])
        cached.gather([1])
        assert set(observed()) == {
            "graph.aeg", "x.npy", "CachedRows", "live.aegd", "clicks"
        }  # fmt: skip
        assert values("aethergraph_cache_hits_total") == {"CachedRows": 1}
        assert values("aethergraph_ingest_records_total") == {"clicks": 3}
        assert values("aethergraph_live_edges") == {"live.aegd": 3}
        states = observe.snapshot()["metrics"]["aethergraph_ingest_state"]["samples"]
        assert [s["labels"]["state"] for s in states if s["value"]] == ["ended"]
    assert values("aethergraph_live_edges") == {}  # it is closed
    json.dumps(observe.snapshot(), allow_nan=False)


def test_nothing_is_kept_alive(files: Path) -> None:
    observe.enable()
    store = FeatureTable.load(files / "x.npy", storage="uring", memory_budget="1M")
    assert set(observed()) == {"x.npy"}
    del store
    gc.collect()
    assert observed() == {} and values("aethergraph_rows_frames") == {}


def test_names(files: Path) -> None:
    stores = [FeatureTable.load(files / "x.npy", "uring", memory_budget="1M") for _ in range(3)]
    assert [observe.watch(store) for store in stores] == ["x.npy", "x.npy-2", "x.npy-3"]
    assert observe.watch(stores[0]) == "x.npy"
    assert observe.watch(stores[1], "papers") == "papers"
    assert set(observed()) == {"papers", "x.npy", "x.npy-3"}
    with pytest.raises(InvalidArgumentError, match="'papers' is taken"):
        observe.watch(stores[0], "papers")
    del stores[1]
    gc.collect()
    assert observe.watch(stores[0], "papers") == "papers"


def test_parts_are_read_once(files: Path) -> None:
    observe.enable()
    graph = Graph.load(files / "graph.aeg", storage="uring", memory_budget="64M")
    assert values("aethergraph_io_reads_total").keys() == {"graph.aeg"}
    observe.watch(graph, "papers")  # a name of the user's goes before the reader's own
    assert values("aethergraph_io_reads_total").keys() == {"papers"}


@pytest.mark.parametrize("thing", [3, None, [1], object(), SimpleNamespace(stats=lambda: 5)])
def test_what_counts_nothing_is_refused(thing: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="counts nothing"):
        observe.watch(thing)


def test_other_arguments_are_refused(paged: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="only storage='uring' has"):
        observe.watch(FeatureTable.from_array(np.ones((3, 2))))
    with pytest.raises(InvalidArgumentError, match="weakly"):
        observe.watch(paged.paging.reader)
    for name in (3, "", "\ud800"):
        with pytest.raises(InvalidArgumentError, match="name"):
            observe.watch(paged, name)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="publish"):
        observe.enable(publish="no")  # type: ignore[arg-type]


def test_stages_are_added_up_over_threads(paged: Any) -> None:
    observe.enable()
    loader = SubgraphLoader(paged, [3, 2], batch_size=100)
    for _ in range(3):
        assert len(list(loader)) == 5
    totals = {
        (s["labels"]["stage"], s["labels"]["of"]): s["value"]
        for s in observe.snapshot()["metrics"]["aethergraph_stage_calls_total"]["samples"]
    }
    assert totals["batch", ""] == totals["gather", "x"] == 15
    seconds = observe.snapshot()["metrics"]["aethergraph_stage_seconds_total"]["samples"]
    spent = {s["labels"]["stage"]: s["value"] for s in seconds}
    assert 0 < spent["gather"] < spent["batch"]


def test_objects_may_go_while_another_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects go in other threads, and when the garbage collector comes by."""
    observe.enable()
    kept = [CachedRows(np.ones((5, 4), np.float32), "1M") for _ in range(3)]

    class Going:
        given, reference = False, staticmethod(lambda: None)

        @property
        def name(self) -> None:
            registry._watched.pop(id(kept[1]), None)

    monkeypatch.setitem(registry._watched, 0, Going())
    assert observe.watch(kept[0], "mine") == "mine"


def test_counts_are_read_while_objects_come_and_go(files: Path) -> None:
    observe.enable()
    with repeating(observe.snapshot, observe.snapshot):
        for _ in range(20):
            store = FeatureTable.load(files / "x.npy", storage="uring", memory_budget="1M")
            store.gather([1, 2, 3])
            store.close()
