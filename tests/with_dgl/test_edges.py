"""Edges as seeds: what is left out around them, and negatives."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import dgl
import numpy as np
import pytest
import torch
from dgl.dataloading import DataLoader, negative_sampler
from support.dgl import FOLLOWS, REV_VOTES, VOTES, make_typed
from support.foreign_graphs import InArrays
from support.live import live_with_rows, snapshot_with_rows

from aethergraph import DynamicGraph, Graph, HeteroGraph, as_graph, errors
from aethergraph.dgl import (
    GraphStorage,
    LaborSampler,
    NeighborSampler,
    PerSourceUniform,
    ShaDowKHopSampler,
    as_edge_prediction_sampler,
)
from aethergraph.dgl.graphbolt import FeatureStore
from aethergraph.remote import FeatureServer, open_graph
from aethergraph.remote.graph_tables import graph_tables

pytestmark = pytest.mark.filterwarnings("ignore:Dataloader CPU affinity")


def undirected() -> tuple[Graph, Any]:
    """Each edge i has its reverse as edge i + E, as DGL's users number them."""
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, 60, (2, 400))
    graph = Graph.from_edges(
        60, np.concatenate([src, dst]), np.concatenate([dst, src]), keep_order=True,
        edge_attrs={"y": np.arange(800) % 7},
    )  # fmt: skip
    count = torch.arange(400)
    return graph, torch.cat([count + 400, count])


def test_reverses_by_id_are_left_out() -> None:
    graph, reverse = undirected()
    sampler = as_edge_prediction_sampler(
        NeighborSampler([-1, 3]), exclude="reverse_id", reverse_eids=reverse,
        negative_sampler=PerSourceUniform(2), prefetch_labels=["y"],
    )  # fmt: skip
    storage = GraphStorage(graph)
    loader = DataLoader(storage, torch.arange(400), sampler, batch_size=50)
    for inputs, pairs, negatives, blocks in loader:
        ids = pairs.edata[dgl.EID]
        assert torch.equal(pairs.edata["y"], ids % 7)
        hidden = torch.cat([ids, reverse[ids]])
        for block in blocks:
            assert not torch.isin(block.edata[dgl.EID], hidden).any()
        assert torch.equal(blocks[-1].dstdata[dgl.NID], pairs.ndata[dgl.NID])
        assert torch.equal(negatives.ndata[dgl.NID], pairs.ndata[dgl.NID])
        assert torch.equal(
            negatives.ndata[dgl.NID][negatives.edges()[0]],
            storage.find_edges(ids)[0].repeat_interleave(2),
        )
        assert torch.equal(inputs, blocks[0].srcdata[dgl.NID])


def test_reverses_by_type_are_left_out() -> None:
    storage = GraphStorage(make_typed())
    reverse = {"votes": "rev_votes", "rev_votes": "votes"}
    sampler = as_edge_prediction_sampler(
        NeighborSampler([-1, -1]), exclude="reverse_types", reverse_etypes=reverse,
        negative_sampler=negative_sampler.Uniform(1),
    )  # fmt: skip
    loader = DataLoader(storage, {VOTES: torch.arange(0, 500, 5)}, sampler, batch_size=20)
    for _, pairs, negatives, blocks in loader:
        ids = pairs.edges[VOTES].data[dgl.EID]
        assert len(ids) == 20 and pairs.num_edges(FOLLOWS) == 0
        assert negatives.num_edges(VOTES) == 20
        for block in blocks:
            for kind in (VOTES, REV_VOTES):
                assert not torch.isin(block.edges[kind].data[dgl.EID], ids).any()
    # and nothing else is
    sampler = as_edge_prediction_sampler(
        NeighborSampler([-1, -1]), exclude="reverse_types", reverse_etypes=reverse
    )
    _, _, blocks = sampler.sample(storage, {VOTES: torch.tensor([3])})
    src, dst = storage.find_edges(torch.tensor([3]), VOTES)
    assert blocks[-1].num_edges(VOTES) == int(storage.in_degrees(dst, etype=VOTES)) - 1
    assert blocks[-1].num_edges(REV_VOTES) == int(storage.in_degrees(src, etype=REV_VOTES)) - 1


def test_several_types_of_reverses_are_left_out() -> None:
    src, dst = np.random.default_rng(2).integers(0, 40, (2, 200))
    users, posts = ("user", "votes", "post"), ("post", "voted_by", "user")
    edges = {users: (src, dst), REV_VOTES: (dst, src), posts: (dst, src)}
    counts = {"user": 40, "post": 40}
    storage = GraphStorage(HeteroGraph.from_edges(edges, counts, keep_order=True))
    for given, left in ((["rev_votes", "voted_by"], 0), ("voted_by", 1), ([], 2)):
        sampler = as_edge_prediction_sampler(
            NeighborSampler([-1]), exclude="reverse_types", reverse_etypes={"votes": given}
        )
        _, _, (block,) = sampler.sample(storage, {users: torch.tensor([3])})
        kept = [3 in block.edges[kind].data[dgl.EID].tolist() for kind in (REV_VOTES, posts)]
        assert sum(kept) == left and 3 not in block.edges[users].data[dgl.EID].tolist()


def test_reverses_that_are_none_are_refused() -> None:
    """With the ids of a graph that does not know its input's order, others would be hidden."""
    typed = GraphStorage(make_typed(keep_order=False), edge_ids="graph")
    options: Any = {"exclude": "reverse_types", "reverse_etypes": {"votes": "rev_votes"}}
    sampler = as_edge_prediction_sampler(NeighborSampler([2]), **options)
    with pytest.raises(errors.InvalidArgumentError, match=r"not the reverse of .*keep_order=True"):
        sampler.sample(typed, {VOTES: torch.arange(50)})
    graph, reverse = undirected()
    wrong = reverse.clone()
    wrong[7] = 8
    sampler = as_edge_prediction_sampler(
        NeighborSampler([2]), exclude="reverse_id", reverse_eids=wrong
    )
    with pytest.raises(errors.InvalidArgumentError, match=r"edge 8 of .* of edge 7") as caught:
        sampler.sample(GraphStorage(graph), torch.tensor([2, 7]))
    assert caught.value.position == 1


def _graph_of(form: str, folder: Path, close: ExitStack) -> Any:
    """Return a graph of 90 edges, made in the way that its form says."""
    src, dst = np.random.default_rng(1).integers(0, 30, (2, 90))
    if form == "live":
        return live_with_rows(30, src, dst)
    if form == "snapshot":
        return snapshot_with_rows(30, src, dst)
    options: Any = {"keep_order": "kept" in form, "edge_time": np.arange(90)}
    if "typed" in form:
        kind = ("user", "votes", "post")
        graph: Any = HeteroGraph.from_edges(
            {kind: (src, dst)}, {"user": 30, "post": 30}, keep_order=options["keep_order"]
        )
        graph[kind].attrs["e"] = torch.arange(90)
        return graph
    graph = Graph.from_edges(30, src, dst, edge_attrs={"e": np.arange(90)}, **options)
    graph.edge_attrs["e"] = torch.arange(90)
    if form == "of another library":
        return as_graph(InArrays(30, src, dst))
    if form.startswith("live over a file"):
        graph.save(folder / "g.aeg")
        live = DynamicGraph.open(folder / "live", base=folder / "g.aeg", arena_mb=16)
        if "merged" in form:
            live.merge()
        if "twice" in form:
            live.close()
            live = DynamicGraph.open(folder / "live", arena_mb=16)
            live.merge()
        close.enter_context(live)
        if "saved" in form:
            live.save(folder / "saved.aeg")
            return Graph.load(folder / "saved.aeg")
        return live.to_graph() if "copied" in form else live
    if form == "served":
        server = close.enter_context(FeatureServer(graph_tables(graph), port=0))
        return close.enter_context(open_graph(server.address))
    if form == "file":
        graph.save(folder / "g.aeg")
        return Graph.load(folder / "g.aeg")
    return graph


def _sample_without(storage: GraphStorage, edges: Any, sampler: Any) -> None:
    nodes = {storage.canonical_etypes[0][2]: torch.arange(3)}
    sampler([2]).sample(storage, nodes, exclude_eids=edges)


def _load_edges(storage: GraphStorage, edges: Any, make: Any) -> None:
    for _ in DataLoader(storage, edges, make(NeighborSampler([2])), batch_size=2):
        pass


#: What takes edge ids, called with a storage and with ids by edge type.
USES: dict[str, Callable[[GraphStorage, Any], Any]] = {
    "find_edges": lambda storage, edges: [storage.find_edges(edges[kind], kind) for kind in edges],
    "edge_subgraph": lambda storage, edges: storage.edge_subgraph(edges),
    "a mask": lambda storage, edges: storage.edge_subgraph(
        {kind: torch.arange(storage.num_edges(kind)) == 3 for kind in edges}
    ),
    "sample_neighbors": lambda storage, edges: storage.sample_neighbors(
        {storage.canonical_etypes[0][2]: torch.arange(3)}, 2, exclude_edges=edges
    ),
    "NeighborSampler": partial(_sample_without, sampler=NeighborSampler),
    "ShaDowKHopSampler": partial(_sample_without, sampler=ShaDowKHopSampler),
    "LaborSampler": partial(_sample_without, sampler=LaborSampler),
    "seeds": partial(_load_edges, make=as_edge_prediction_sampler),
    "seeds, DGL's": partial(_load_edges, make=dgl.dataloading.as_edge_prediction_sampler),
    "negatives": lambda storage, edges: PerSourceUniform(2)(storage, edges),
    "negatives, DGL's": lambda storage, edges: negative_sampler.Uniform(2)(storage, edges),
}


def _storage_of(graph: Any, edge_ids: Any = None) -> tuple[GraphStorage, Any]:
    storage = GraphStorage(graph, edge_ids=edge_ids)
    return storage, {storage.canonical_etypes[0]: torch.tensor([5, 0, 7])}


@pytest.mark.parametrize(
    "form",
    [
        "memory", "typed", "file", "live over a file", "live over a file, merged",
        "live over a file, merged twice", "live over a file, saved",
        "live over a file, merged and saved", "live over a file, merged and copied",
        "live over a file that kept, saved", "served",
    ],
)  # fmt: skip
def test_edges_that_nobody_can_tell_are_refused(form: str, tmp_path: Path) -> None:
    """Without the order of the input its third edge is not the third of the lists."""
    with ExitStack() as close:
        storage, edges = _storage_of(_graph_of(form, tmp_path, close))
        ways = "which edges are these.*edge_ids='graph'.*edge_ids='input'.*--keep-order"
        for use in USES.values():
            with pytest.raises(errors.InvalidArgumentError, match=ways):
                use(storage, edges)
        features = FeatureStore(storage.graph)
        for key in list(features.keys()):
            rows = features.read(*key)  # ids of batches are clear
            with pytest.raises(errors.InvalidArgumentError, match=ways):
                features.update(*key, rows)
        # No edges are named here.
        storage.edge_subgraph({kind: ids[:0] for kind, ids in edges.items()})
        storage.sample_neighbors({edges.popitem()[0][2]: torch.arange(3)}, 2)


@pytest.mark.parametrize(
    ("form", "edge_ids"),
    [
        ("memory", "graph"), ("typed", "graph"), ("file", "graph"), ("kept", None),
        ("kept", "input"), ("kept", "graph"), ("typed, kept", None), ("live", None),
        ("snapshot", None), ("of another library", None), ("live over a file", "graph"),
        ("live over a file, merged twice", "graph"),
    ],
)  # fmt: skip
def test_edges_that_are_clear_are_taken(form: str, edge_ids: Any, tmp_path: Path) -> None:
    with ExitStack() as close:
        graph = _graph_of(form, tmp_path, close)
        storage, edges = _storage_of(graph, edge_ids)
        for use in USES.values():
            use(storage, edges)
        ((kind, ids),) = edges.items()
        src, dst = np.random.default_rng(1).integers(0, 30, (2, 90))
        if ("kept" in form and edge_ids != "graph") or form in ("live", "snapshot"):
            expected = src[ids], dst[ids]
        else:
            ends = graph[kind] if graph.is_typed else graph
            expected = ends.edge_ends(ids.numpy())
        np.testing.assert_array_equal(storage.find_edges(ids, kind), expected)


@pytest.mark.parametrize("other", [(1, 2), (2, 0)])
def test_an_edge_that_shares_one_end_is_no_reverse(other: tuple[int, int]) -> None:
    graph = Graph.from_edges(3, [0, other[0]], [1, other[1]], keep_order=True)
    sampler = as_edge_prediction_sampler(
        NeighborSampler([2]), exclude="reverse_id", reverse_eids=torch.tensor([1, 0])
    )
    with pytest.raises(
        errors.InvalidArgumentError, match=r"edge 1 of .* not the reverse of edge 0"
    ):
        sampler.sample(GraphStorage(graph), torch.tensor([0]))


@pytest.mark.parametrize("name", ["follows", FOLLOWS])
@pytest.mark.parametrize("form", [torch.tensor, np.array, list])
def test_tables_of_reverses_by_edge_type(name: Any, form: Any) -> None:
    """By the name of the relation and by the whole type, in every form."""
    rng = np.random.default_rng(2)
    one, other = rng.integers(0, 40, (2, 50))
    ends = {
        FOLLOWS: (np.concatenate([one, other]), np.concatenate([other, one])),
        VOTES: (one, other),
    }
    graph = HeteroGraph.from_edges(ends, {"user": 40, "post": 40}, keep_order=True)
    reverse = [*range(50, 100), *range(50)]
    sampler = as_edge_prediction_sampler(
        NeighborSampler([-1]), exclude="reverse_id", reverse_eids={name: form(reverse)}
    )
    storage, seeds = GraphStorage(graph), torch.tensor([3, 70])
    _, _, (block,) = sampler.sample(storage, {"follows": seeds})
    found = set(block.edges[FOLLOWS].data[dgl.EID].tolist())
    ends_of_seeds = {int(end) for side in storage.find_edges(seeds, FOLLOWS) for end in side}
    near = {edge for edge, end in enumerate(ends[FOLLOWS][1]) if int(end) in ends_of_seeds}
    assert found == near - {3, 53, 70, 20}
    with pytest.raises(errors.InvalidArgumentError, match=r"reverse_eids lacks .*'votes'.* give"):
        sampler.sample(storage, {"votes": seeds[:1]})


def test_reverses_that_the_graph_does_not_hold_leave_nothing_out() -> None:
    graph, reverse = undirected()
    storage, seeds = GraphStorage(graph), torch.tensor([3, 5])
    wrong = reverse.clone()
    wrong[3] = 805

    def drawn(exclude: str) -> set[int]:
        sampler = as_edge_prediction_sampler(
            NeighborSampler([-1]), exclude=exclude, reverse_eids=wrong
        )
        return set(sampler.sample(storage, seeds)[-1][0].edata[dgl.EID].tolist())

    assert drawn("reverse_id") == drawn("self") - {int(reverse[5])}
    wrong[5] = 0  # there, and no reverse: the message names the place among all seeds
    with pytest.raises(errors.InvalidArgumentError, match=r"edge 0 .* of edge 5") as found:
        drawn("reverse_id")
    assert found.value.position == 1


def test_tables_of_reverses_that_cannot_be() -> None:
    graph, reverse = undirected()
    storage, typed = GraphStorage(graph), GraphStorage(make_typed())

    def with_table(table: Any) -> Any:
        return as_edge_prediction_sampler(
            NeighborSampler([2]), exclude="reverse_id", reverse_eids=table
        )

    with pytest.raises(errors.InvalidArgumentError, match=r"has 9 ids, none for edge 9") as found:
        with_table(reverse[:9]).sample(storage, torch.tensor([3, 9]))
    assert (found.value.position, found.value.value) == (1, 9)
    with pytest.raises(errors.OutOfRangeError, match=r"seed_edges\[1\] = 800"):
        with_table(reverse).sample(storage, torch.tensor([3, 800]))
    with pytest.raises(errors.OutOfRangeError, match=r"the reverses of seed_edges\[0\] = -1"):
        with_table(reverse * 0 - 1).sample(storage, torch.tensor([3]))
    with pytest.raises(errors.InvalidArgumentError, match="must be a dict by edge type"):
        with_table(reverse).sample(typed, {FOLLOWS: torch.tensor([3])})
    with pytest.raises(errors.InvalidArgumentError, match="'likes' is no edge type"):
        with_table({"likes": reverse}).sample(typed, {FOLLOWS: torch.tensor([3])})
    for seeds in (torch.tensor([3]), {"_E": torch.tensor([3])}):  # one type, with and without it
        for table in (reverse, {"_E": reverse}):
            _, pairs, _ = with_table(table).sample(storage, seeds)
            assert pairs.edata[dgl.EID].tolist() == [3]


def test_set_epoch_reaches_both_samplers() -> None:
    graph, _ = undirected()
    storage, seeds = GraphStorage(graph), torch.arange(40)

    def drawn(sampler: Any) -> tuple[list[int], list[int]]:
        _, _, negatives, (block,) = sampler.sample(storage, seeds)
        ends = negatives.ndata[dgl.NID][negatives.edges()[1]]
        return block.edata[dgl.EID].tolist(), ends.tolist()

    nodes, negatives = NeighborSampler([2], seed=1), PerSourceUniform(3, seed=1)
    sampler = as_edge_prediction_sampler(nodes, negative_sampler=negatives)
    first = drawn(sampler)
    sampler.set_epoch(5)
    assert nodes.epoch == negatives.epoch == 5
    other = drawn(sampler)
    assert first[0] != other[0] and first[1] != other[1]
    sampler.set_epoch(0)
    assert drawn(sampler) == first
    with pytest.raises(errors.InvalidArgumentError, match="epoch must be an integer"):
        sampler.set_epoch(0.5)
    stock = as_edge_prediction_sampler(nodes, negative_sampler=negative_sampler.Uniform(1))
    stock.set_epoch(7)  # what has no epoch is passed over
    assert nodes.epoch == 7


def test_a_function_and_ids_may_say_what_is_left_out() -> None:
    graph, _ = undirected()
    storage = GraphStorage(graph)
    mask = torch.arange(800) == 11
    for exclude in (
        lambda ids: ids + 1, torch.tensor([11]), torch.tensor([11], dtype=torch.int32), [11],
        np.array([11]), mask, mask.numpy(), {"_E": torch.tensor([11])}, {"_E": [11]},
    ):  # fmt: skip
        sampler = as_edge_prediction_sampler(NeighborSampler([-1]), exclude=exclude)
        _, pairs, blocks = sampler.sample(storage, torch.tensor([10]))
        assert 11 not in blocks[0].edata[dgl.EID] and pairs.edata[dgl.EID].tolist() == [10]
        assert 10 in blocks[0].edata[dgl.EID]


def test_negatives_are_a_function_of_seed_and_edges() -> None:
    graph, _ = undirected()
    storage, ids = GraphStorage(graph), torch.arange(90)
    draw = PerSourceUniform(3, seed=2)
    src, dst = draw(storage, ids)
    assert torch.equal(src, storage.find_edges(ids)[0].repeat_interleave(3))
    torch.rand(2)
    assert torch.equal(PerSourceUniform(3, seed=2)(storage, ids)[1], dst)
    assert not torch.equal(PerSourceUniform(3, seed=3)(storage, ids)[1], dst)
    draw.set_epoch(1)
    assert not torch.equal(draw(storage, ids)[1], dst)
    counts = np.zeros(60)
    for epoch in range(100):
        draw.set_epoch(epoch)
        counts += np.bincount(draw(storage, ids)[1], minlength=60)
    expected = counts.sum() / 60
    assert ((counts - expected) ** 2 / expected).sum() < 110  # chi-square, 59 degrees, p = 1e-4
    typed = GraphStorage(make_typed())
    found = draw(typed, {"votes": torch.tensor([1, 2])})
    assert set(found) == {VOTES} and found[VOTES][1].max() < 60


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"exclude": "all"}, "exclude = 'all' is not one of self, reverse_id, reverse_types"),
        ({"exclude": "reverse_id"}, "needs reverse_eids"),
        ({"exclude": "reverse_types"}, "needs reverse_etypes"),
        ({"exclude": "self", "reverse_etypes": 5}, "needs reverse_etypes, .* got 5"),
        ({"exclude": "reverse_types", "reverse_etypes": "rev_votes"}, "got 'rev_votes'"),
        ({"exclude": np.array([0.5])}, "exclude must hold integers"),
        ({"exclude": torch.tensor([0.5])}, "exclude must hold integer ids"),
        ({"exclude": [[1]]}, "exclude must be one-dimensional"),
        ({"exclude": 3}, "exclude must be one-dimensional"),
        ({"exclude": {"votes": "self"}}, r"exclude\['votes'\] must"),
        ({"exclude": "reverse_id", "reverse_eids": [0.5]}, "reverse_eids must hold integers"),
        (
            {"exclude": "reverse_id", "reverse_eids": {"votes": torch.ones(2, 2).long()}},
            r"reverse_eids\['votes'\] must be one-dimensional",
        ),
    ],
)
def test_options_that_cannot_be(options: Any, text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=text):
        as_edge_prediction_sampler(NeighborSampler([2]), **options)
    with pytest.raises(errors.InvalidArgumentError, match="k = -1"):
        PerSourceUniform(-1)
