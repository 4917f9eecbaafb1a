"""Graphs of others in the core: adapting them, what they answer, drawing, and what is refused."""

from __future__ import annotations

import gc
import pickle
import weakref
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from support.foreign_graphs import Bare, BareTypes, InArrays, InC, library, typed_graph

from aethergraph import (
    Graph,
    HeteroGraph,
    HeteroNeighborSampler,
    HGTSampler,
    NeighborSampler,
    RandomWalker,
    SubgraphLoader,
    as_graph,
)
from aethergraph import _native as native
from aethergraph.errors import (
    ClosedError,
    InvalidArgumentError,
    LayoutError,
    OutOfRangeError,
    UnsupportedError,
)
from aethergraph.graph.foreign import ForeignGraph
from aethergraph.protocols import (
    GraphSource,
    HomogeneousGraph,
    TopologySource,
    TypedGraphSource,
)
from aethergraph.sampling import ContextSampler
from aethergraph.testing import AdjacencyContract
from aethergraph.testing.rules import BrokenRule

RNG = np.random.default_rng(3)
N, E = 60, 500
SRC, DST = RNG.integers(0, N, E), RNG.integers(0, N, E)
WEIGHT = RNG.integers(0, 4, E).astype(np.float64)


class TestArrays(AdjacencyContract):
    supports = {"edge_ids"}

    def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
        return InArrays(num_nodes, src, dst)


class TestArraysWithoutEdgeIds(AdjacencyContract):
    supports = {"edge_ids"}

    def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
        return InArrays(num_nodes, src, dst, with_edge_ids=False)


class TestNoMoreThanTheAbstractType(AdjacencyContract):
    supports = {"edge_ids"}

    def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
        return Bare(Graph.from_edges(num_nodes, src, dst))


class TestTopologyInC(AdjacencyContract):
    supports = {"edge_ids"}

    def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
        return InC(num_nodes, src, dst)


# ---- the kit fails where it should -----------------------------------------------------------


class OtherEdges(ForeignGraph):
    """Samplers get the edges turned around."""

    def topology(self, layout: Any = "csc") -> Any:
        if not hasattr(self.source, "turned"):
            src, dst = self.edge_index()
            self.source.turned = as_graph(InArrays(self.num_nodes, dst, src))
        return self.source.turned.topology()


class OtherPositions(ForeignGraph):
    """Edges are left out by their ids, which are no positions."""

    def edge_positions(self, edges: Any, layout: Any) -> Any:
        return edges


class OtherEnds(ForeignGraph):
    """Source and destination are taken for each other."""

    def edge_ends(self, edges: Any) -> Any:
        return super().edge_ends(edges)[::-1]


MUTANTS = [
    (OtherEdges, "test_samples_are_those_of_the_lists"),
    (OtherEdges, "test_a_subgraph_loader_follows_its_edges"),
    (OtherEdges, "test_a_model_learns_from_its_batches"),
    (OtherPositions, "test_samples_leave_edges_out"),
    (OtherEnds, "test_ends_of_edges"),
]


@pytest.mark.parametrize(("mutant", "rule"), MUTANTS)
def test_mutants(mutant: type[ForeignGraph], rule: str) -> None:
    class Mutant(TestArrays):
        def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
            return mutant(super().make(num_nodes, src, dst), "csc")

    with pytest.raises(BrokenRule):
        getattr(Mutant(), rule)()


# ---- the same graph in every form ------------------------------------------------------------


def ours(**values: Any) -> Graph:
    return Graph.from_edges(N, SRC, DST, keep_order=True, **values)


def in_order(form: Any) -> Any:
    """Our id of each edge of the form, and the form as a graph."""
    order = ours().edge_order
    assert order is not None
    inverse = np.argsort(order)
    if form is InC:
        return np.arange(E)[::-1], as_graph(InC(N, SRC, DST))
    return inverse, as_graph(InArrays(N, SRC, DST))


def test_arrays_are_not_copied() -> None:
    source = InArrays(N, SRC, DST, with_edge_ids=False)
    source.indices = source.indices.astype(np.uint32)
    indptr, indices = as_graph(source).csc()
    assert np.shares_memory(indptr, source.indptr)
    assert np.shares_memory(indices, source.indices)


@pytest.mark.parametrize("form", [InArrays, InC])
def test_queries_are_those_of_our_graph(form: Any) -> None:
    own_ids, graph = in_order(form)
    own = ours()
    assert isinstance(graph, HomogeneousGraph) and not graph.is_typed
    assert (graph.num_nodes, graph.num_edges, graph.layout) == (N, E, "csc")
    src, dst = graph.edge_index()
    own_src, own_dst = own.edge_index()
    assert (src == own_src[own_ids]).all() and (dst == own_dst[own_ids]).all()
    some = [7, 7, 0, E - 1]
    assert (graph.edge_ends(some)[0] == src[some]).all()
    assert (graph.edge_ends(some)[1] == dst[some]).all()
    u, v = [int(src[3]), 0, 59], [int(dst[3]), 1, 59]
    assert (graph.has_edges(u, v) == own.has_edges(u, v)).all()
    pairs, edges = graph.edges_between(u, v)
    own_pairs, own_edges = own.edges_between(u, v)
    assert (pairs == own_pairs).all() and (np.sort(own_ids[edges]) == np.sort(own_edges)).all()
    with pytest.raises(
        LayoutError, match=r"out-neighbours are not stored.*as_graph\(source, layout='csr'"
    ):
        graph.out_degrees()
    with pytest.raises(UnsupportedError, match="take edge_index"):
        graph.csc()
    with pytest.raises(OutOfRangeError, match=r"edges\[1\] = 500"):
        graph.edge_ends([3, E])


def test_out_lists() -> None:
    graph = as_graph(InArrays(N, DST, SRC), layout="csr")
    own = Graph.from_edges(N, SRC, DST, layout="csr")
    assert (graph.out_degrees() == own.out_degrees()).all()
    assert (graph.neighbors(4) == own.neighbors(4)).all()
    starts = np.arange(N)
    for options in ({}, {"q": 0.5}):
        expected = RandomWalker(own, **options).walk(starts, 9, key=2)
        assert (RandomWalker(graph, **options).walk(starts, 9, key=2) == expected).all()
    in_c = as_graph(InC(N, DST, SRC), layout="csr")
    expected = RandomWalker(own, q=0.5).walk(starts, 9, key=2)
    assert (RandomWalker(in_c, q=0.5).walk(starts, 9, key=2) == expected).all()


def test_values_of_a_source() -> None:
    source = InArrays(
        N, SRC, DST, edge_weight=WEIGHT, node_time=np.arange(N),
        node_attrs={"x": np.eye(N)}, edge_attrs={"e": np.arange(E)},
    )  # fmt: skip
    graph, own = as_graph(source), ours(edge_weight=WEIGHT)
    found = NeighborSampler(graph, [3, 2], weight_attr="edge_weight").sample([4, 2], key=1)
    expected = NeighborSampler(own, [3, 2], weight_attr="edge_weight").sample([4, 2], key=1)
    assert (found.node == expected.node).all()
    assert (WEIGHT[found.edge] > 0).all()
    for batch in SubgraphLoader(graph, [2], batch_size=20):
        sub: Any = batch.subgraph
        assert (batch.node_attrs["x"].argmax(1) == sub.node).all()
        assert (batch.edge_attrs["e"] == sub.edge).all()
    copy = pickle.loads(pickle.dumps(graph))
    again = NeighborSampler(copy, [3, 2], weight_attr="edge_weight").sample([4, 2], key=1)
    assert (again.edge == found.edge).all()
    assert set(copy.node_attrs) == {"x"}
    del graph.node_attrs["x"]
    graph.node_attrs["y"] = np.arange(N)
    graph.edge_attrs["e"] = -np.arange(E)
    copy = pickle.loads(pickle.dumps(graph))
    assert set(copy.node_attrs) == {"y"}
    assert (copy.edge_attrs["e"].array == -np.arange(E)).all()


def test_values_that_a_topology_keeps() -> None:
    time = np.sort(RNG.integers(0, 40, E))  # input order is order of time in every list
    dst = np.where(np.arange(E) % 2, DST, 7)  # a long list: the other graph has sums
    graph = as_graph(InC(N, SRC, dst, WEIGHT, time))
    own = Graph.from_edges(N, SRC, dst, edge_weight=WEIGHT, edge_time=time)
    seeds, until = np.arange(20), np.full(20, 25)
    for options in (
        {"weight_attr": "edge_weight"},
        {"time_attr": "edge_time"},
        {"weight_attr": "edge_weight", "time_attr": "edge_time"},
        {"time_attr": "edge_time", "temporal_strategy": "last"},
    ):
        times = {"seed_time": until} if "time_attr" in options else {}
        found = NeighborSampler(graph, [4, 3], **options).sample(seeds, key=3, **times)
        expected = NeighborSampler(own, [4, 3], **options).sample(seeds, key=3, **times)
        for part in ("node", "row", "col"):
            assert (getattr(found, part) == getattr(expected, part)).all()
    with pytest.raises(InvalidArgumentError, match="not sorted by 'edge_time'"):
        NeighborSampler(as_graph(InC(N, SRC, DST, None, time[::-1])), [4], time_attr="edge_time")
    with pytest.raises(InvalidArgumentError, match="weight_attr = 'edge_weight'"):
        NeighborSampler(as_graph(InC(N, SRC, DST)), [4], weight_attr="edge_weight")


# ---- snapshots: one sampler over one graph after the other -----------------------------------


def test_a_sampler_goes_on_with_the_next_snapshot() -> None:
    sizes = [100, 300, E]
    snapshots = [as_graph(InC(N, SRC[:size], DST[:size])) for size in sizes]
    sampler = NeighborSampler(snapshots[0], [4, -1])
    sampler.sample(np.arange(N), key=0)
    native_sampler = sampler.engine._idle[0]  # type: ignore[attr-defined]
    for snapshot in snapshots:
        sampler.retarget(snapshot)
        found = sampler.sample(np.arange(N), key=1)
        expected = NeighborSampler(snapshot, [4, -1]).sample(np.arange(N), key=1)
        assert (found.node == expected.node).all() and (found.edge == expected.edge).all()
        left_out = sampler.sample([3], key=1, exclude=[0, 50])
        assert not np.isin(left_out.edge, [0, 50]).any()
        assert sampler.engine._idle[0] is native_sampler  # type: ignore[attr-defined]
    larger = as_graph(InC(3 * N, SRC + N, DST + N))
    sampler.retarget(larger)
    assert (sampler.sample([N + 5], key=1).edge == sampler.sample([N + 5], key=1).edge).all()
    with pytest.raises(OutOfRangeError):
        sampler.sample([3 * N], key=1)


def test_a_sampler_goes_on_with_lists_in_a_file(tmp_path: Path) -> None:
    graphs: list[Any] = []
    for number, size in enumerate((300, E)):
        path = tmp_path / f"{number}.aeg"
        Graph.from_edges(N, SRC[:size], DST[:size]).save(path)
        graphs.append(Graph.load(path, storage="uring", memory_budget="64M"))
    memory = as_graph(InC(N, SRC, DST))
    seeds = [np.arange(start, start + 10) for start in range(0, 50, 10)]
    sampler = NeighborSampler(graphs[0], [3, 2])
    for graph in (graphs[0], graphs[0], graphs[1], memory, graphs[1], graphs[0]):
        sampler.retarget(graph)  # a group of samples goes with lists in a file, and is kept
        assert (sampler.groups is None) == (graph is memory)
        found = [sub.edge.tolist() for sub in sampler.sample_many(seeds, range(5))]
        fresh = NeighborSampler(graph, [3, 2])
        expected = [fresh.sample(own, key).edge.tolist() for key, own in enumerate(seeds)]
        assert found == expected


def test_a_snapshot_that_does_not_fit_changes_nothing() -> None:
    sampler = NeighborSampler(ours(edge_weight=WEIGHT), [4], weight_attr="edge_weight")
    before = sampler.sample([1, 2], key=4)
    for bad in (ours(), as_graph(InC(N, SRC, DST, layout=3), layout="csr"), InC(N, SRC, DST)):
        with pytest.raises((InvalidArgumentError, LayoutError)):
            sampler.retarget(bad)
        assert (sampler.sample([1, 2], key=4).edge == before.edge).all()


@pytest.mark.parametrize("time_attr", [None, "edge_time"])
def test_a_typed_sampler_goes_on_with_the_next_graph(time_attr: str | None) -> None:
    kind = ("a", "to", "b")
    graphs = [
        HeteroGraph.from_edges(
            {kind: (SRC[:size], DST[:size])}, {"a": N, "b": N + size},
            edge_time={kind: np.arange(size)}, add_reverse=True,
        )
        for size in (100, E)
    ]  # fmt: skip
    options: dict[str, Any] = {"time_attr": time_attr}
    sampler = HeteroNeighborSampler(graphs[0], [3, 2], **options)
    for graph in (*graphs, graphs[0]):
        sampler.retarget(graph)
        seeds = {"b": [1, graph.num_nodes["b"] - 1]}
        given: Any = None if time_attr is None else {"b": [40, 40]}
        found = sampler.sample(seeds, 3, seed_time=given)
        expected = HeteroNeighborSampler(graph, [3, 2], **options).sample(seeds, 3, seed_time=given)
        assert all((found.edge[k] == expected.edge[k]).all() for k in graph.edge_types)
    others = HeteroGraph.from_edges({("a", "of", "b"): (SRC, DST)}, add_reverse=True)
    with pytest.raises(InvalidArgumentError, match=r"edge types .* make another sampler"):
        sampler.retarget(others)
    assert (
        sampler.sample({"b": [1]}, 3, seed_time={"b": [40]} if time_attr else None).node["b"][0]
        == 1
    )
    with pytest.raises(InvalidArgumentError, match="must be a HeteroGraph"):
        sampler.retarget(ours())


def test_times_without_seeds_are_told() -> None:
    graph = Graph.from_edges(N, SRC, DST, edge_time=np.arange(E))
    sampler = NeighborSampler(graph, [2], time_attr="edge_time")
    assert len(sampler.sample([], seed_time=[]).node) == 0
    with pytest.raises(InvalidArgumentError, match="seed_time"):
        sampler.sample([], seed_time=[1, 2])


def test_a_topology_lives_as_long_as_it_is_used() -> None:
    source = InC(N, SRC, DST)
    alive = weakref.ref(source)
    sampler = NeighborSampler(as_graph(source), [3])
    del source
    gc.collect()
    assert alive() is not None
    sampler.sample([1], key=0)
    sampler.retarget(ours())
    sampler.sample([1], key=0)
    gc.collect()
    assert alive() is None


# ---- refusals --------------------------------------------------------------------------------


class Source:
    """A graph of three nodes, to be made wrong."""

    num_nodes, num_edges = 3, 4
    indptr, indices = [0, 1, 1, 4], [2, 0, 1, 1]

    def __init__(self, **members: Any) -> None:
        vars(self).update(members)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"num_nodes": 4}, r"indptr has 4 offsets, but num_nodes = 4 needs 5"),
        ({"num_nodes": -1}, "num_nodes"),
        ({"num_edges": 5}, "indices has 4 ids, but num_edges = 5"),
        ({"indptr": [0, 2, 1, 4]}, r"indptr must ascend from 0 to num_edges = 4"),
        ({"indptr": [1, 1, 1, 4]}, r"indptr must ascend from 0 to num_edges = 4"),
        ({"indptr": [0, 1, 1, 3]}, r"indptr must ascend from 0 to num_edges = 4"),
        ({"indptr": [0, -1, 1, 4]}, r"indptr must ascend from 0 to num_edges = 4"),
        ({"indptr": [0.0, 1.0, 1.0, 4.0]}, "indptr"),
        ({"indices": [2, 0, 3, 1]}, r"indices\[2\] = 3 is not in 0..2"),
        ({"indices": [2, 0, -1, 1]}, r"indices\[2\] = -1 is not in 0..2"),
        ({"indices": [[2, 0, 1, 1]]}, "indices"),
        ({"edge_ids": [0, 1, 2]}, "edge_ids has 3 ids, but num_edges = 4"),
        ({"edge_ids": [0, 1, 2, 4]}, r"edge_ids\[3\] = 4 is not in 0..3"),
        ({"edge_ids": [0, 1, 2, 1]}, "each edge has an id of its own"),
        ({"edge_weight": [1, 2, 3]}, "edge_weight"),
        ({"edge_weight": [1, -2, 3, 4]}, "edge_weight"),
        ({"edge_time": [1, 2]}, "edge_time"),
        ({"node_time": [1, 2]}, "node_time"),
        ({"node_attrs": {"x": [1, 2]}}, "node_attrs"),
        ({"node_attrs": [1, 2]}, "node_attrs goes by name"),
        ({"edge_attrs": {"x": np.zeros((3, 2))}}, "edge_attrs"),
        ({"topology": 0}, "no address"),
        ({"topology": 12345}, "restype"),
        ({"topology": "x"}, "must be the address"),
        ({"topology": None}, "must be the address"),
    ],
)
def test_what_is_wrong_is_named(members: Any, message: str) -> None:
    with pytest.raises((InvalidArgumentError, OutOfRangeError), match=message):
        as_graph(Source(**members))


class _Counts:
    num_nodes: ClassVar[dict[str, int]] = {"a": 1}


def test_what_is_missing_is_named() -> None:
    class NoArrays:
        num_nodes = num_edges = 0

    with pytest.raises(InvalidArgumentError, match="NoArrays has no indptr and no indices"):
        as_graph(NoArrays())  # type: ignore[arg-type]
    typed: Any = HeteroGraph.from_edges({("a", "to", "b"): ([0], [0])})
    with pytest.raises(InvalidArgumentError, match="the edges of one type"):
        as_graph(typed["a", "to", "b"])
    with pytest.raises(InvalidArgumentError, match="_Counts has no edges"):
        as_graph(_Counts())  # type: ignore[call-overload]
    with pytest.raises(InvalidArgumentError, match="layout"):
        as_graph(Source(), layout="both")


@pytest.mark.parametrize(
    ("what", "message"),
    [(0, "operation fetch"), (1, "id_bytes"), (2, "end_positions"), (3, "num_minor")],
)
def test_a_broken_topology_is_refused(what: int, message: str) -> None:
    source = InC(N, SRC, DST)
    library().foreign_break(source.topology, what)
    with pytest.raises(InvalidArgumentError, match=message):
        as_graph(source)


def test_ids_of_edges_that_are_gone() -> None:
    source = InC(N, SRC, DST)
    library().foreign_break(source.topology, 4)
    graph, whole = as_graph(source), as_graph(InC(N, SRC, DST))
    assert graph.num_edges == E
    with pytest.raises(UnsupportedError, match=r"edge_list\(\)"):
        graph.edge_index()
    known = np.arange(E)
    assert (graph.edge_ends(known)[0] == whole.edge_index()[0]).all()
    with pytest.raises(OutOfRangeError, match=r"edges\[1\] = 502 is the id of no edge"):
        graph.edge_ends([3, 502, 501])
    with pytest.raises(InvalidArgumentError, match="edge_attrs"):
        graph.edge_attrs["w"] = np.ones(E)
    weight = np.append(WEIGHT, np.ones(5))
    graph.edge_attrs["w"], whole.edge_attrs["w"] = weight, WEIGHT
    found, expected = (
        NeighborSampler(g, [3], weight_attr="w").sample(np.arange(N), key=2) for g in (graph, whole)
    )
    assert (found.edge == expected.edge).all()
    left = NeighborSampler(graph, [-1]).sample(np.arange(N), key=2, exclude=[0, 7]).edge
    assert sorted(left) == sorted(set(range(E)) - {0, 7})
    assert graph.in_edges(3).tolist() == whole.in_edges(3).tolist()
    out = as_graph(source, layout="csr")
    assert out.out_edges(3).tolist() == whole.in_edges(3).tolist()


def test_an_id_that_a_topology_makes_up_is_found() -> None:
    from aethergraph.errors import CorruptFileError

    src = SRC.copy()
    src[7] = N + 3
    with pytest.raises(CorruptFileError, match="a node that it does not have"):
        NeighborSampler(as_graph(InC(N, src, DST)), [-1]).sample(np.arange(N), key=0)


def test_pointers_in_every_form() -> None:
    import ctypes

    source = InC(N, SRC, DST)
    address = source.topology
    pointer = ctypes.cast(address, ctypes.POINTER(ctypes.c_char))
    cdata = native.core.ffi.cast("void *", address)
    for form in (address, ctypes.c_void_p(address), pointer, cdata, np.int64(address)):
        assert native.NativeTopology.adopt(form, source).num_edges == E


def test_samplers_say_how_to_make_a_graph_of_a_source() -> None:
    for source in (InArrays(N, SRC, DST), InC(N, SRC, DST)):
        assert isinstance(source, (GraphSource, TopologySource))
        for take in (lambda s: NeighborSampler(s, [2]), lambda s: SubgraphLoader(s, [2])):
            with pytest.raises(InvalidArgumentError, match=r"aethergraph.as_graph\(source\)"):
                take(source)


def test_a_foreign_graph_is_not_saved_and_closes() -> None:
    graph: Any = as_graph(InArrays(N, SRC, DST))
    with pytest.raises(AttributeError, match="node_attrs"):
        graph.y = np.arange(N)
    copied = Graph.from_edges(N, *graph.edge_index(), keep_order=True)
    assert (copied.in_degrees() == graph.in_degrees()).all()
    for call in (
        lambda: graph.save("g.aeg"), graph.reorder, graph.reorder_rabbit,
        lambda: graph.permute(np.arange(N)),
    ):  # fmt: skip
        with pytest.raises(UnsupportedError, match=r"lists are elsewhere .* or with a copy"):
            call()
    with graph as same:
        assert same is graph
    assert graph.closed and "closed" in repr(graph)
    with pytest.raises(ClosedError), graph:
        pass


# ---- graphs of several types ------------------------------------------------------------------


class ListsOfOneType:
    """Lists of in-edges of one edge type, by destination, with what else is given."""

    def __init__(self, num_dst: int, src: Any, dst: Any, **more: Any) -> None:
        order = np.argsort(dst, kind="stable")
        self.indptr = np.searchsorted(np.asarray(dst)[order], np.arange(num_dst + 1))
        self.indices, self.edge_ids = np.asarray(src)[order], order
        self.__dict__.update(more)


class OfTypes:
    """Two node types, two edge types between them, in arrays."""

    def __init__(self) -> None:
        rng = np.random.default_rng(4)
        self.num_nodes = {"a": 20, "b": 30}
        self.ends = {
            ("a", "to", "b"): (rng.integers(0, 20, 200), rng.integers(0, 30, 200)),
            ("b", "of", "a"): (rng.integers(0, 30, 90), rng.integers(0, 20, 90)),
        }
        self.weights = {kind: rng.random(len(src)) for kind, (src, _) in self.ends.items()}
        self.edges = {
            kind: ListsOfOneType(
                self.num_nodes[kind[2]], *ends, edge_weight=self.weights[kind],
                edge_attrs={"e": np.arange(len(ends[0]))},
            )
            for kind, ends in self.ends.items()
        }  # fmt: skip
        self.node_attrs = {"a": {"x": rng.random((20, 2))}}
        self.node_time = {"a": np.arange(20), "b": np.zeros(30, int)}


@pytest.mark.parametrize("weight_attr", [None, "edge_weight"])
@pytest.mark.parametrize("copied", [False, True])
def test_typed_arrays_are_a_typed_graph(weight_attr: str | None, copied: bool) -> None:
    source = OfTypes()
    assert isinstance(source, TypedGraphSource)
    made = as_graph(source)
    if copied:
        made = pickle.loads(pickle.dumps(made))
    expected = HeteroGraph.from_edges(
        source.ends, source.num_nodes, edge_weight=source.weights, keep_order=True
    )
    for kind, (src, dst) in source.ends.items():
        assert [ids.tolist() for ids in made[kind].edge_index()] == [src.tolist(), dst.tolist()]
    one, other = (
        HeteroNeighborSampler(graph, [-1, -1], weight_attr=weight_attr).sample({"b": [3, 8]}, 2)
        for graph in (made, expected)
    )
    for name in source.num_nodes:
        assert sorted(one.node[name]) == sorted(other.node[name])
    for kind in source.ends:
        order = expected[kind].edge_order
        assert order is not None
        assert sorted(one.edge[kind]) == sorted(order[other.edge[kind]])
    batch = next(iter(SubgraphLoader(made, [2], {"b": [1]})))
    assert batch.x["a"].shape == (len(batch.subgraph.node["a"]), 2)
    for kind in source.ends:
        assert batch.edge_attrs[kind]["e"].tolist() == batch.subgraph.edge[kind].tolist()
    timed = HeteroNeighborSampler(made, [-1], time_attr="node_time", is_sorted=True)
    assert timed.sample({"b": [3]}, seed_time={"b": [-1]}).node["a"].tolist() == []
    assert as_graph(made) is made


def _changed(**changes: Any) -> OfTypes:
    source = OfTypes()
    for name, value in changes.items():
        setattr(source, name, value)
    return source


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: _changed(edges={"to": 3}), "'to' is no edge type, .* of 'a', 'b'"),
        (lambda: _changed(edges={("a", "to", "c"): 3}), "is no edge type"),
        (lambda: _changed(edges={("a", "to", "b"): 3}), "is a int, which has no indptr and no"),
        (
            lambda: _changed(edges={("a", "to", "b"): ListsOfOneType(29, [0], [0])}),
            r"\.indptr has 30 offsets, but num_nodes = 30",
        ),
        (
            lambda: _changed(edges={("a", "to", "b"): ListsOfOneType(30, [20], [0])}),
            r"edges\[\('a', 'to', 'b'\)\]\.indices\[0\] = 20",
        ),
        (lambda: _changed(num_nodes={"a": -1, "b": 3}), r"num_nodes\['a'\]"),
        (lambda: _changed(node_attrs={"c": {}}), "node_attrs: 'c' is no node type"),
        (lambda: _changed(node_attrs={"a": [1]}), r"node_attrs\['a'\] goes by name"),
        (lambda: _changed(node_time={"a": [1]}), r"node_time\['a'\]"),
        (lambda: _changed(time_unit="bogus"), "time_unit = 'bogus' is no unit of time"),
        (
            lambda: _changed(node_attrs={"b": {"x": np.zeros(3)}}),
            r"node_attrs\['b'\]: node_attrs\['x'\] has 3 rows, but num_nodes = 30",
        ),
        (
            lambda: _changed(
                node_time={"a": np.arange(20).astype("datetime64[D]"), "b": np.zeros(30, int)}
            ),
            "times of 'b' are in None, those of 'a' in 'D': give all in one unit",
        ),
    ],
)
def test_typed_arrays_that_do_not_fit(make: Any, message: str) -> None:
    with pytest.raises((InvalidArgumentError, OutOfRangeError), match=message):
        as_graph(make())


class OfTypesInC(OfTypes):
    """Typed graph whose lists are topologies of a library's own, with their weights."""

    def __init__(self) -> None:
        super().__init__()
        self.num_nodes = {"a": 30, "b": 30}  # the library makes square ones alone
        del self.node_time, self.node_attrs
        self.edges = {
            kind: InC(
                30, *ends, weight=self.weights[kind], edge_attrs={"e": np.arange(len(ends[0]))}
            )
            for kind, ends in self.ends.items()
        }

    def __reduce__(self) -> Any:
        return OfTypesInC, ()


@pytest.mark.parametrize("copied", [False, True])
def test_typed_topologies_in_c_are_a_typed_graph(copied: bool) -> None:
    source: Any = OfTypesInC()
    assert isinstance(source, TypedGraphSource)
    graph = as_graph(source)
    assert as_graph(graph) is graph
    if copied:
        graph = pickle.loads(pickle.dumps(graph))
    del source
    expected = as_graph(OfTypes()).edge_types
    assert graph.edge_types == expected
    sample = HeteroNeighborSampler(graph, [-1], weight_attr="edge_weight").sample({"b": [3, 8]}, 2)
    kind = ("a", "to", "b")
    src, dst = graph[kind].edge_ends(sample.edge[kind])
    assert (src == sample.node["a"][sample.row[kind]]).all()
    assert (dst == sample.node["b"][sample.col[kind]]).all()
    batch = next(iter(SubgraphLoader(graph, [2], {"b": [1]})))
    assert batch.edge_attrs[kind]["e"].tolist() == batch.subgraph.edge[kind].tolist()


def test_a_typed_topology_of_other_numbers_of_nodes() -> None:
    source = OfTypesInC()
    source.num_nodes["a"] = 29
    with pytest.raises(
        InvalidArgumentError, match=r"'b'\)\]\.topology .* num_minor = 30, .* 30 and 29"
    ):
        as_graph(source)


@pytest.mark.parametrize("options", [
    {}, {"weight_attr": "edge_weight"}, {"time_attr": "edge_time"},
    {"time_attr": "edge_time", "window": 9},
])  # fmt: skip
def test_typed_graphs_need_no_more_than_the_abstract_type(options: dict[str, Any]) -> None:
    graph = typed_graph()
    seeds = {"user": np.arange(0, 60, 7), "post": np.arange(0, 90, 9)}
    times = {name: np.full(len(ids), 30) for name, ids in seeds.items()}
    more = {"seed_time": times} if "time_attr" in options else {}
    samples = [
        HeteroNeighborSampler(of, [4, 3], **options).sample(seeds, key=5, **more)
        for of in (graph, BareTypes(graph))
    ]
    for kind in graph.edge_types:
        assert samples[0].edge[kind].tolist() == samples[1].edge[kind].tolist()
        assert samples[0].edge[kind].size
    batches = [
        next(iter(SubgraphLoader(of, [4, 3], seeds, batch_size=12, seed=1)))
        for of in (graph, pickle.loads(pickle.dumps(BareTypes(graph))))
    ]
    for name in graph.node_types:
        assert batches[0].x[name].tolist() == batches[1].x[name].tolist()
    for kind in graph.edge_types:
        assert batches[0].edge_attrs[kind]["edge_attr"].tolist() == (
            batches[1].edge_attrs[kind]["edge_attr"].tolist()
        )


def test_other_typed_samplers_take_the_abstract_type() -> None:
    graph = typed_graph()
    drawn, contexts = [], []
    for of in (graph, BareTypes(graph)):
        hgt = HGTSampler(of, {"user": [3], "post": [4]}).sample({"user": [1, 2]}, key=3)
        drawn.append({name: ids.tolist() for name, ids in hgt.node.items()})
        sampler = ContextSampler(of, budget=20, fanout=2, references=graph.edge_types[:1])
        contexts.append(vars(sampler.sample({"user": [3, 9]}, key=1)))
    assert drawn[0] == drawn[1] and drawn[0]["post"]
    for name, values in contexts[0].items():
        np.testing.assert_equal(contexts[1][name], values, name)


def test_advice_for_lists_of_the_other_layout_names_them() -> None:
    graph = as_graph(OfTypesInC(), layout="csr")
    with pytest.raises(
        LayoutError, match=r"give lists of in-edges, which as_graph\(.*'csc'\) takes"
    ):
        HeteroNeighborSampler(graph, [2])


def test_a_class_is_no_source() -> None:
    class Rows:
        shape, dtype_name = (3, 1), "float32"

        def gather(self, ids: Any) -> Any:
            return np.zeros((len(ids), 1), np.float32)

    graph = Graph.from_edges(3, [0], [1])
    with pytest.raises(InvalidArgumentError, match="is the class Rows: make an object of it"):
        graph.node_attrs["x"] = Rows  # type: ignore[assignment]
    graph.node_attrs["x"] = Rows()


def test_a_source_that_sorts_its_ids_changes_no_batch() -> None:
    class Sorting:
        shape, dtype_name = (40, 1), "int64"

        def gather(self, ids: Any) -> Any:
            rows = ids.copy()[:, None]
            ids.sort()
            return rows

    graph = Graph.from_edges(40, np.arange(40), np.arange(40)[::-1])
    graph.node_attrs["x"] = Sorting()
    batch = next(iter(SubgraphLoader(graph, [2], [30, 7, 21], batch_size=3)))
    assert batch.subgraph.node[:3].tolist() == [30, 7, 21]
    assert batch.x[:, 0].tolist() == batch.subgraph.node.tolist()
