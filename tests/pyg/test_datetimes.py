"""Times of seeds as datetimes, where the times of the graph are datetimes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from support.pyg import assert_same_batches
from torch.utils.data import BatchSampler, SequentialSampler
from torch_geometric.loader import NodeLoader
from torch_geometric.testing import MyFeatureStore

from aethergraph import Graph, HeteroGraph, errors
from aethergraph.pyg import (
    HeteroNeighborSampler,
    LinkNeighborLoader,
    LookAhead,
    NeighborLoader,
    NeighborSampler,
    as_stores,
    to_data,
)

pytestmark = pytest.mark.pyg

N, E = 60, 900
RNG = np.random.default_rng(0)
SRC, DST = RNG.integers(0, N, (2, E))
DAYS = np.datetime64("2024-01-01") + RNG.integers(0, 300, E).astype("timedelta64[D]")
UNTIL = np.datetime64("2024-01-01") + np.arange(N).astype("timedelta64[D]") * 5
SEEDS = torch.arange(N)


def graph_of(unit: str, of: str = "edge_time") -> Graph:
    if of == "edge_time":
        return Graph.from_edges(N, SRC, DST, edge_time=DAYS.astype(f"datetime64[{unit}]"))
    return Graph.from_edges(N, SRC, DST, node_time=UNTIL.astype(f"datetime64[{unit}]"))


def batches(data: Any, time: Any, **options: Any) -> list[Any]:
    loader = NeighborLoader(data, [4, 4], SEEDS, input_time=time, batch_size=25, seed=1, **options)
    return list(loader)


@pytest.mark.parametrize(
    ("unit", "given", "of"),
    [("s", "D", "edge_time"), ("D", "ns", "edge_time"), ("us", "s", "node_time")],
)
def test_datetimes_are_what_their_numbers_are(unit: str, given: str, of: str) -> None:
    graph = graph_of(unit, of)
    numbers = torch.from_numpy(UNTIL.astype(f"datetime64[{unit}]").astype(np.int64))
    found = batches(graph, UNTIL.astype(f"datetime64[{given}]"))
    assert_same_batches(found, batches(graph, numbers))
    for batch in found:
        assert torch.equal(batch.seed_time, numbers[batch.input_id])
        assert bool((batch[of] <= batch.seed_time[batch.batch].max()).all())


def test_what_has_no_unit_or_is_not_exact_is_named() -> None:
    plain = Graph.from_edges(N, SRC, DST, edge_time=DAYS.astype(np.int64))
    for data in (plain, to_data(graph_of("s"))):
        with pytest.raises(errors.InvalidArgumentError, match="times of the graph have no unit"):
            batches(data, UNTIL)
    graph = graph_of("D")
    graph.edge_attrs["stamp"] = DAYS.astype(np.int64)
    with pytest.raises(errors.InvalidArgumentError, match="times of the graph have no unit"):
        batches(graph, UNTIL, time_attr="stamp", is_sorted=True)
    assert_same_batches(batches(graph_of("D"), list(UNTIL)), batches(graph_of("D"), UNTIL))
    hint = r"object \(date\): give np.array\(..., 'datetime64\[us\]'\)"
    with pytest.raises(errors.InvalidArgumentError, match=f"^input_time must be .* {hint}"):
        batches(graph, UNTIL.tolist())
    late = UNTIL.astype("datetime64[h]")
    late[7] += np.timedelta64(1, "h")
    with pytest.raises(errors.InvalidArgumentError, match=r"\[7\] = 2024-02-05T01.*'D'") as bad:
        batches(graph, late)
    assert bad.value.position == 7
    late[7] = np.datetime64("NaT")
    with pytest.raises(errors.InvalidArgumentError, match=r"input_time\[7\] = NaT"):
        batches(graph, late)
    with pytest.raises(errors.InvalidArgumentError, match="lengths of time"):
        batches(graph, UNTIL - UNTIL[0])
    with pytest.raises(errors.InvalidArgumentError, match="3 rows, but the number of seeds = 60"):
        batches(graph, UNTIL[:3])
    function: Any = lambda seeds: None  # noqa: E731
    with pytest.raises(errors.InvalidArgumentError, match="have no unit"):
        batches(graph, UNTIL, neighbor_sampler=function)


def test_links_types_and_stock_loaders() -> None:
    graph, days = graph_of("s"), UNTIL.astype("datetime64[s]").astype(np.int64)
    links = torch.from_numpy(np.stack([SRC, DST])[:, :N])
    for neg in (None, "binary"):
        loader = LinkNeighborLoader(
            graph, [4], links, edge_label_time=UNTIL, batch_size=N, neg_sampling=neg
        )
        batch = next(iter(loader))
        assert batch.edge_label_time[:N].tolist() == days.tolist()
        assert bool((batch.edge_time <= batch.edge_label_time[batch.batch].max()).all())
    kind = ("a", "to", "b")
    typed = HeteroGraph.from_edges({kind: (SRC, DST)}, edge_time={kind: DAYS})
    assert typed.time_unit == "D"
    count = typed.num_nodes["b"]
    options: dict[str, Any] = {"input_nodes": ("b", torch.arange(count)), "batch_size": 30}
    made = [
        list(NeighborLoader(typed, [4], input_time=time, seed=1, **options))
        for time in (UNTIL[:count], UNTIL[:count].astype(np.int64))
    ]
    for one, other in zip(*made, strict=True):
        assert torch.equal(one[kind].e_id, other[kind].e_id)
    stores = as_stores(graph)
    sampler = NeighborSampler(stores, [4], time_attr="edge_time", seed=1)
    assert sampler.time_unit == "s"
    assert HeteroNeighborSampler(typed, [4], time_attr="edge_time").time_unit == "D"
    assert NeighborSampler(stores, [4]).time_unit is None
    order = BatchSampler(SequentialSampler(range(N)), 25, False)
    ahead = LookAhead(sampler, SEEDS, order, input_time=UNTIL)
    stock = NodeLoader(
        stores, sampler, SEEDS, input_time=torch.from_numpy(days), batch_sampler=ahead
    )
    assert [batch.seed_time.tolist() for batch in stock] == [
        days[begin : begin + 25].tolist() for begin in (0, 25, 50)
    ]
    foreign = (MyFeatureStore(), graph)
    assert len(batches(foreign, UNTIL)) == 3
