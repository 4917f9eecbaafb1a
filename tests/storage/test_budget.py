"""Budget: parsed once, named in errors as it was given, one rule for defaults."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.graphs import make_graph

from aethergraph import FeatureTable, Graph, HeteroGraph, errors
from aethergraph.convert import convert, convert_chunks
from aethergraph.features.cached import CachedRows
from aethergraph.packing import PackedFeatures, Packing, pack
from aethergraph.storage import budget as module
from aethergraph.storage.budget import Budget

GIB = 1 << 30


def test_the_text_names_what_was_given() -> None:
    assert (Budget.parse("1.5k").limit, str(Budget.parse("1.5k"))) == (
        1536,
        "memory_budget = '1.5k'",
    )
    hot = Budget.parse(np.int64(7), "hot_budget")
    assert (hot.limit, str(hot)) == (7, "hot_budget = 7")
    assert Budget.optional(None) is None
    assert Budget.optional(0) == Budget.parse(0)
    assert pickle.loads(pickle.dumps(hot)) == hot


@pytest.mark.parametrize(
    ("available", "limit", "text"),
    [
        (8 * GIB, GIB, "memory_budget = 1.0 GiB (the default)"),
        (2 * GIB, GIB, "memory_budget = 1.0 GiB (the default)"),
        (GIB, GIB // 2, "memory_budget = 512.0 MiB (half of the available memory)"),
        (0, 0, "memory_budget = 0 B (half of the available memory)"),
    ],
)
def test_a_default_is_at_most_half_of_the_available_memory(
    available: int, limit: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "available_memory", lambda: available)
    found = Budget.default(GIB)
    assert (found.limit, str(found)) == (limit, text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph, rows, a table of edges, and two packed batches."""
    folder = tmp_path_factory.mktemp("budget")
    make_graph(layout="both").save(folder / "g.aeg")
    FeatureTable.from_array(np.ones((100, 64), np.float32)).save(folder / "x.npy")
    np.save(folder / "edges.npy", np.arange(8).reshape(4, 2))
    store = FeatureTable.load(folder / "x.npy")
    pack([[0, 1], [1, 2]], store, folder / "x.packed", hot_budget=0)
    return folder


READERS: dict[str, Callable[..., Any]] = {
    "Graph.load": lambda at, b: Graph.load(at / "g.aeg", storage="uring", memory_budget=b),
    "HeteroGraph.load": lambda at, b: HeteroGraph.load(
        at / "g.aeg", storage="uring", memory_budget=b
    ),
    "CachedRows": lambda at, b: CachedRows(np.ones((100, 64), np.float32), b),
    "PackedFeatures.load": lambda at, b: PackedFeatures.load(at / "x.packed", b),
    "Packing": lambda at, b: Packing(
        [[0]], FeatureTable.load(at / "x.npy"), at / "y", memory_budget=b
    ),
    "convert": lambda at, b: convert(at / "edges.npy", at / "out.aeg", memory_budget=b),
    "convert_chunks": lambda at, b: convert_chunks([([0], [1])], at / "out.aeg", memory_budget=b),
}


@pytest.mark.parametrize("reader", READERS)
def test_all_that_keep_a_budget_name_it_as_it_was_given(reader: str, folder: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="least") as caught:
        READERS[reader](folder, "0.25k")
    assert f"memory_budget{' (--memory)' * (reader == 'convert')} = '0.25k'" in str(caught.value)
    assert not (folder / "out.aeg").exists()


@pytest.mark.parametrize("reader", [name for name in READERS if "load" in name or "Cached" in name])
def test_without_a_budget_the_default_holds(
    reader: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    READERS[reader](folder, None).close()
    monkeypatch.setattr(module, "available_memory", lambda: 512)
    with pytest.raises(
        errors.InvalidArgumentError, match=r"= 256 B \(half of the available memory\)"
    ):
        READERS[reader](folder, None)


def test_a_pickle_carries_the_budget(folder: Path) -> None:
    for kind in (Graph, HeteroGraph):
        graph = kind.load(folder / "g.aeg", storage="uring", memory_budget="24M")
        copy = pickle.loads(pickle.dumps(graph))
        assert copy.paging.budget == graph.paging.budget == Budget.parse("24M")
        assert copy.storage == "uring"
    store = FeatureTable.load(folder / "x.npy", "uring", memory_budget="1M")
    assert pickle.loads(pickle.dumps(store)).stats().budget == 1 << 20
