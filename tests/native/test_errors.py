"""Errors: one table in C and in Python, builtin parents, pickling, what they tell."""

from __future__ import annotations

import builtins
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aethergraph import (
    FeatureTable,
    Graph,
    HeteroGraph,
    HeteroNeighborSampler,
    NeighborSampler,
    errors,
)
from aethergraph import _native as native

ALL = [getattr(errors, name) for name in errors.__all__]


def test_the_native_table_and_the_classes_match() -> None:
    table = native.error_table()
    assert {code for code, _, _ in table} == set(native.ERROR_CLASSES)
    assert len(table) == len(native.ERROR_CLASSES)
    constants = {
        name: getattr(native.lib, name) for name in dir(native.lib) if name.startswith("AETHER_E_")
    }
    assert {f"AETHER_E_{name}": code for code, name, _ in table} == constants
    assert all(text for _, _, text in table)


@pytest.mark.parametrize(
    "cls", [c for c in ALL if c not in (errors.AetherError, errors.CancelledError)]
)
def test_each_class_is_also_a_builtin(cls: type[Exception]) -> None:
    builtin = {c for c in cls.__mro__ if c.__module__ == builtins.__name__} - {
        object,
        BaseException,
        Exception,
    }
    assert builtin, cls


@pytest.mark.parametrize("cls", ALL)
def test_each_class_takes_one_message(cls: type[Exception]) -> None:
    assert str(cls("what happened")) == "what happened"  # torch re-raises worker errors like this


def test_storage_errors_carry_errno_and_filename(tmp_path: Path) -> None:
    missing = str(tmp_path / "no such file")
    with pytest.raises(FileNotFoundError, match="no such file") as caught:
        Graph.load(missing)
    assert isinstance(caught.value, errors.MissingFileError)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, missing)


def test_what_to_do_is_said(tmp_path: Path, run_python: Callable[..., Any]) -> None:
    graph = Graph.from_edges(3, [0], [1])
    with pytest.raises(errors.InvalidArgumentError, match=r"\[3\] for one hop"):
        NeighborSampler(graph, 3)
    with pytest.raises(errors.InvalidArgumentError, match=r"for one id use \[2\]"):
        NeighborSampler(graph, [3]).sample(2)
    (tmp_path / "edges.csv").write_text("0,1\n" * 99)
    with pytest.raises(errors.FormatError, match=r"aethergraph convert -i .*edges\.csv"):
        Graph.load(tmp_path / "edges.csv")
    np.save(tmp_path / "x.npy", np.ones(99))
    with pytest.raises(errors.FormatError, match="load_features"):
        Graph.load(tmp_path / "x.npy")
    for wrong in ("abc", "257"):
        done = run_python("import aethergraph", AETHERGRAPH_NUM_THREADS=wrong)
        assert f"AETHERGRAPH_NUM_THREADS='{wrong}' is not a number in 1..256" in done.stderr


def test_a_npy_file_that_is_written_to_is_another(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.ones((50, 4)))
    store = FeatureTable.load(path)
    store.gather([1])
    os.utime(path, ns=(1, 1))
    for use in (lambda: store.gather([1]), store.verify, lambda: store[1:2]):
        with pytest.raises(errors.FileChangedError):
            use()


def test_rows_are_not_saved_as_what_they_are_not(tmp_path: Path) -> None:
    floats, ints = FeatureTable.from_array([[0.7, 300.0]]), FeatureTable.from_array([[-1, 300]])
    for store, dtype in ((floats, "int64"), (floats, "bool"), (ints, "int8"), (ints, "uint64")):
        with pytest.raises(errors.UnsupportedError, match="would change values"):
            store.save(tmp_path / "x", dtype)
    ints.save(tmp_path / "x", "float32")
    assert FeatureTable.load(tmp_path / "x").array.tolist() == [[-1, 300]]


def test_options_in_time_need_times(tmp_path: Path) -> None:
    graph = Graph.from_edges(3, [0, 1, 2], [1, 2, 0], edge_time=[1, 2, 3])
    options: list[dict[str, Any]] = [
        {"strict": True}, {"window": 5}, {"temporal_strategy": "last"},
    ]  # fmt: skip
    for option in options:
        with pytest.raises(errors.InvalidArgumentError, match="need time_attr"):
            NeighborSampler(graph, [1], **option)
    for window in (float("inf"), 2**70):
        sampler = NeighborSampler(graph, [1], time_attr="edge_time", window=window)
        assert sampler.sample([1], seed_time=[5]).edge.tolist() == [1]
        assert sampler.sample([], seed_time=[]).num_nodes == 0
    graph.edge_attrs["t"] = [1.0, np.nan, 2.0]
    with pytest.raises(errors.InvalidArgumentError, match=r"t\[1\] = nan"):
        NeighborSampler(graph, [1], time_attr="t")
    FeatureTable.from_array(np.array([1.0, np.nan, 2.0])).save(tmp_path / "t.npy")
    graph.load_edge_features(tmp_path / "t.npy", "t")
    with pytest.raises(errors.InvalidArgumentError, match="not sorted"):
        NeighborSampler(graph, [1], time_attr="t")


def test_what_goes_by_type_must_be_a_mapping() -> None:
    kind = ("a", "r", "b")
    edges = {kind: ([0], [0])}
    calls: list[tuple[Any, dict[str, Any], str]] = [
        (None, {}, "edges goes by type"),
        ([kind], {}, "edges goes by type"),
        (edges, {"num_nodes": 5}, "num_nodes goes by type"),
        (edges, {"edge_weight": [1.0]}, "edge_weight goes by type"),
    ]
    for given, options, text in calls:
        with pytest.raises(errors.InvalidArgumentError, match=text):
            HeteroGraph.from_edges(given, **options)
    with pytest.raises(errors.InvalidArgumentError, match="edge_attrs goes by name"):
        Graph.from_edges(3, [0], [1], edge_attrs=5)  # type: ignore[arg-type]
    graph = HeteroGraph.from_edges(edges)
    graph.close()
    for use in (lambda: HeteroNeighborSampler(graph, [1]), graph.__enter__):
        with pytest.raises(errors.ClosedError):
            use()
    with pytest.raises(KeyError, match="no node attribute 'z'; there are: none"):
        Graph.from_edges(3, [0], [1]).node_attrs["z"]
