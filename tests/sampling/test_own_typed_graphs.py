"""Typed graphs that others wrote: parts that do not fit, units, parts that change, plain rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from aethergraph import DynamicGraph, Graph, HeteroNeighborSampler, SubgraphLoader
from aethergraph.errors import InvalidArgumentError
from aethergraph.protocols import HeterogeneousGraph, NodeSet
from aethergraph.testing import check_no_leak

KNOWS, LIKE = ("user", "knows", "user"), ("item", "like", "item")
RNG = np.random.default_rng(9)


def part(unit: str | None = None, num_nodes: int = 40) -> Graph:
    src, dst = RNG.integers(0, num_nodes, (2, 300))
    times: Any = RNG.integers(0, 1000, 300)
    if unit is not None:
        times = times.astype(f"datetime64[{unit}]")
    graph = Graph.from_edges(num_nodes, src, dst, edge_time=times)
    graph.node_attrs["x"] = RNG.random((num_nodes, 2))
    return graph


class Parts(HeterogeneousGraph):
    """Graphs of one type beside each other, as the docstring of the base class has them."""

    node_types = ["user", "item"]  # type: ignore[assignment]
    edge_types = [KNOWS, LIKE]  # type: ignore[assignment]

    def __init__(self, users: Any, items: Any, **more: Any) -> None:
        self._parts: Mapping[Any, Any] = {
            "user": users, KNOWS: users, "item": items, LIKE: items, **more
        }  # fmt: skip

    def __getitem__(self, name: Any) -> Any:
        return self._parts[name]


def test_times_of_its_parts_are_the_graphs() -> None:
    graph = Parts(part("s"), part("s"))
    assert graph.time_unit == "s"
    sampler = HeteroNeighborSampler(graph, [4], time_attr="edge_time")
    limit = np.full(3, 400).astype("datetime64[s]")
    sample = sampler.sample({"user": [1, 2, 3]}, seed_time={"user": limit})
    times = graph[KNOWS].edge_time
    assert len(sample.edge[KNOWS]) and times[sample.edge[KNOWS]].max() <= 400


@pytest.mark.parametrize("declared", [None, "h"])
def test_units_that_differ_are_no_numbers_to_compare(declared: str | None) -> None:
    class Declared(Parts):
        @property
        def time_unit(self) -> str | None:
            return super().time_unit if declared is None else declared

    graph = Declared(part("s"), part("ms" if declared is None else "s"))
    with pytest.raises(InvalidArgumentError, match="give all in one unit"):
        HeteroNeighborSampler(graph, [4], time_attr="edge_time")
    HeteroNeighborSampler(graph, [4])


def test_leaks_are_looked_for() -> None:
    graph = Parts(part("s"), part("s"))
    sampler = HeteroNeighborSampler(graph, [4], time_attr="edge_time")
    times = {"user": np.full(9, 500)}
    sample = sampler.sample({"user": np.arange(9)}, seed_time=times)
    assert check_no_leak(graph, sample, seed_time=times).edges > 0


def test_parts_that_change_are_refused() -> None:
    live = DynamicGraph(4)
    live.insert_edges([0], [1])
    with pytest.raises(InvalidArgumentError, match=r"knows.* change, and Parts\.is_live is False"):
        HeteroNeighborSampler(Parts(live, part()), [2])
    HeteroNeighborSampler(Parts(live.snapshot(), part()), [2])


class PlainNodes(NodeSet):
    num_nodes = 40  # type: ignore[assignment]
    node_attrs = {"x": np.arange(80.0).reshape(40, 2)}  # type: ignore[assignment]
    node_time = np.arange(40)  # type: ignore[assignment]


def test_rows_may_be_arrays_and_times_alone_are_enough() -> None:
    graph = Parts(part(), part(), user=PlainNodes())
    batch = next(iter(SubgraphLoader(graph, [3], {"user": [1, 2]}, batch_size=2)))
    assert (
        batch.x["user"].tolist() == PlainNodes.node_attrs["x"][batch.subgraph.node["user"]].tolist()
    )
    sampler = HeteroNeighborSampler(graph, [-1], time_attr="node_time", is_sorted=True)
    assert sampler.plan.node_times["user"].array.tolist() == list(range(40))


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ({"node_types": ["user", "item", "user"]}, "node_types of Bad: .* has one twice"),
        ({"edge_types": [KNOWS, KNOWS]}, "edge_types of Bad: .* has one twice"),
        ({"edge_types": ["knows"]}, r"'knows' is no \(source type, relation, destination type\)"),
        ({"edge_types": [("user", "knows", "ghost")]}, "'ghost'.* is no .* of 'user', 'item'"),
    ],
)
def test_types_that_do_not_fit(types: dict[str, Any], message: str) -> None:
    bad = type("Bad", (Parts,), types)(part(), part())
    with pytest.raises(InvalidArgumentError, match=message):
        SubgraphLoader(bad, [2], {"user": None})
