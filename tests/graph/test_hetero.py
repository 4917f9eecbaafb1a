"""HeteroGraph and its sampler: files, pickles, the oracle, and what is refused.

Samples are compared with the oracle in sampling/test_typed.py and by contracts/test_samplers.py.
"""

from __future__ import annotations

import pickle
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
from aethergraph.sampling.hetero import HeteroSubgraph

VOTES, WRITES, IN = ("user", "votes", "post"), ("user", "writes", "post"), ("post", "in", "sub")
REPLY = ("post", "answers", "post")
COUNTS = {"user": 40, "post": 60, "sub": 5}


def make_graph(seed: int = 0, **options: Any) -> HeteroGraph:
    rng = np.random.default_rng(seed)
    edges = {}
    for kind, count in ((VOTES, 500), (WRITES, 60), (IN, 60), (REPLY, 90)):
        ends = [rng.integers(0, COUNTS[kind[i]], count) for i in (0, 2)]
        edges[kind] = (ends[0], ends[1])
    return HeteroGraph.from_edges(edges, COUNTS, **options)


def full_graph() -> HeteroGraph:
    rng = np.random.default_rng(3)
    graph = make_graph(
        layout="both", keep_order=True, edge_weight={VOTES: rng.random(500)},
        edge_time={WRITES: rng.integers(0, 99, 60)}, node_time={"post": rng.random(60)},
        edge_attrs={IN: {"edge_attr": rng.random((60, 2))}},
    )  # fmt: skip
    graph["user"].features = rng.random((40, 3), np.float32)
    graph["post"].attrs["y"] = rng.integers(0, 4, 60)
    return graph


def assert_same(found: HeteroGraph, expected: HeteroGraph) -> None:
    assert found.num_nodes == expected.num_nodes
    assert found.num_edges == expected.num_edges
    assert found.edge_types == expected.edge_types
    for kind in expected.edge_types:
        a, b = found[kind], expected[kind]
        assert a.layout == b.layout
        np.testing.assert_array_equal(a.edge_index(), b.edge_index())
        for name in ("edge_order", "edge_weight", "edge_time"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        assert set(a.attrs) == set(b.attrs)
        for name in b.attrs:
            np.testing.assert_array_equal(a.attrs[name].array, b.attrs[name].array)
    for name in expected.node_types:
        np.testing.assert_array_equal(found[name].node_time, expected[name].node_time)
        for attr in expected[name].attrs:
            rows = found[name].attrs[attr].array
            np.testing.assert_array_equal(rows, expected[name].attrs[attr].array)


# ---- the graph -------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", ["mmap", "memory", "auto"])
def test_files_and_pickles(tmp_path: Path, storage: Any) -> None:
    graph = full_graph()
    graph.save(tmp_path / "g")
    loaded = HeteroGraph.load(tmp_path / "g", storage=storage)
    for one in (loaded, pickle.loads(pickle.dumps(loaded)), pickle.loads(pickle.dumps(graph))):
        assert_same(one, graph)
        one.verify()
    loaded.save(tmp_path / "g")  # over the file that is mapped
    assert_same(HeteroGraph.load(tmp_path / "g"), graph)
    data = pickle.dumps(loaded)
    make_graph(1).save(tmp_path / "g")
    with pytest.raises(errors.FileChangedError):
        pickle.loads(data)


def test_neighbours_attributes_and_views(tmp_path: Path) -> None:
    graph = HeteroGraph.from_edges(
        {VOTES: ([0, 2, 2, 1], [1, 1, 0, 1]), IN: ([1], [0])}, {"post": 3}, layout="both",
        edge_attrs={VOTES: {"stars": [1, 2, 3, 4]}},
    )  # fmt: skip
    assert graph.node_types == ["post", "user", "sub"]
    assert graph.num_nodes == {"post": 3, "user": 3, "sub": 1}
    votes = graph[VOTES]
    assert votes.in_neighbors(1).tolist() == [0, 2, 1]
    assert votes.neighbors(2).tolist() == [1, 0]
    assert votes.in_degrees().tolist() == [1, 3, 0]
    assert votes.has_edge(2, 0)
    assert not votes.has_edge(0, 2)
    assert votes.attrs["stars"].array.tolist() == [3, 1, 2, 4]
    FeatureTable.from_array(np.eye(3)).save(tmp_path / "x")
    graph["user"].load_features(tmp_path / "x")
    assert graph["user"].features is not None
    with pytest.raises(errors.InvalidArgumentError, match=r"rows, but num_nodes = 1"):
        graph["sub"].load_features(tmp_path / "x")
    assert VOTES in graph
    assert "user" in graph
    assert "dog" not in graph


def test_homogeneous_files_open_as_well(tmp_path: Path) -> None:
    plain = Graph.from_edges(3, [0, 1], [1, 2])
    plain.save(tmp_path / "g")
    graph = HeteroGraph.load(tmp_path / "g")
    assert graph.edge_types == [("node", "to", "node")]
    make_graph().save(tmp_path / "h")
    with pytest.raises(errors.UnsupportedError, match=r"HeteroGraph\.load"):
        Graph.load(tmp_path / "h")


def test_reverse_types() -> None:
    graph = make_graph(add_reverse=True, edge_attrs={VOTES: {"w": np.arange(500)}})
    src, dst = graph[VOTES].edge_index()
    back = graph["post", "rev_votes", "user"]
    forward = sorted(zip(src, dst, graph[VOTES].attrs["w"].array, strict=True))
    reverse = sorted(zip(*back.edge_index()[::-1], back.attrs["w"].array, strict=True))
    assert forward == reverse
    with pytest.raises(errors.InvalidArgumentError, match="is there already"):
        HeteroGraph.from_edges(
            {("a", "r", "a"): ([0], [0]), ("a", "rev_r", "a"): ([0], [0])}, add_reverse=True
        )


def test_a_closed_graph_says_so(tmp_path: Path) -> None:
    make_graph().save(tmp_path / "g")
    with HeteroGraph.load(tmp_path / "g") as graph:
        lists = graph[VOTES].csc()
        view = graph[VOTES]
    assert graph.closed
    assert int(lists[0][-1]) == 500
    for use in (
        lambda: graph[VOTES],
        lambda: view.in_neighbors(0),
        graph.verify,
        lambda: graph["user"],
        lambda: graph.num_nodes,
        lambda: graph.num_edges,
        lambda: "user" in graph,
    ):
        with pytest.raises(errors.ClosedError):
            use()


def test_damage_is_named_with_its_type(tmp_path: Path) -> None:
    make_graph().save(tmp_path / "g")
    file = native.NativeFile(tmp_path / "g")
    wanted = native.SECTION_CSC_INDICES, 2
    section = next(s for s in file.sections() if (s.kind, s.owner) == wanted)
    data = bytearray((tmp_path / "g").read_bytes())
    data[section.offset + 2] ^= 255
    (tmp_path / "g").write_bytes(data)
    with pytest.raises(errors.CorruptFileError, match="checksum"):
        HeteroGraph.load(tmp_path / "g").verify()
    with pytest.raises(errors.CorruptFileError, match="damaged"):
        HeteroNeighborSampler(HeteroGraph.load(tmp_path / "g"), [-1]).sample({"sub": range(5)}, 1)


@pytest.mark.parametrize(
    ("edges", "options", "error", "text"),
    [
        ({("a", "b"): ([0], [0])}, {}, errors.InvalidArgumentError, "three names"),
        ({VOTES: ([0], [0, 1])}, {}, errors.InvalidArgumentError, "src has 1 ids, but dst has 2"),
        ({VOTES: ([0],)}, {}, errors.InvalidArgumentError, "must be \\(src, dst\\)"),
        ({VOTES: ([0.5], [0])}, {}, errors.InvalidArgumentError, "must hold integers"),
        ({VOTES: ([0, 9], [0, 1])}, {"num_nodes": {"user": 9}}, errors.OutOfRangeError,
         r"'votes', 'post'\): src\[1\] = 9"),
        ({VOTES: ([0], [-1])}, {}, errors.OutOfRangeError, r"dst\[0\] = -1 is negative"),
        ({VOTES: ([0], [0])}, {"num_nodes": {"user": -1}}, errors.AetherError, "num_nodes"),
        ({VOTES: ([0], [0])}, {"edge_weight": {IN: [1]}}, errors.InvalidArgumentError,
         r"edge_weight: \('post', 'in', 'sub'\) is not in the graph"),
        ({VOTES: ([0], [0])}, {"edge_weight": {VOTES: [-1.0]}}, errors.InvalidArgumentError,
         r"'votes', 'post'\): edge_weight\[0\] = -1"),
        ({VOTES: ([0], [0])}, {"node_time": {"dog": [1]}}, errors.InvalidArgumentError, "'dog'"),
        ({VOTES: ([0], [0])}, {"layout": "coo"}, errors.InvalidArgumentError, "layout = 'coo'"),
    ],
)  # fmt: skip
def test_input_that_is_refused(edges: Any, options: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        HeteroGraph.from_edges(edges, **options)


def golden_graph() -> HeteroGraph:
    graph = HeteroGraph.from_edges(
        {("a", "to", "b"): ([0, 1, 1], [2, 0, 2]), ("b", "rev_to", "a"): ([2], [1])},
        {"a": 2, "b": 3},
        edge_weight={("a", "to", "b"): [0.5, 1.5, 0.0]},
        edge_time={("b", "rev_to", "a"): [7]},
        node_time={"b": [0.25, 0.5, 1.0]},
        edge_attrs={("b", "rev_to", "a"): {"kind": np.array([3], np.int8)}},
    )
    graph["a"].features = np.arange(4, dtype=np.float16).reshape(2, 2)
    return graph


def test_golden_file(tmp_path: Path) -> None:
    """Version 1 files are readable for ever, and are written byte by byte as they were."""
    path = Path(__file__).resolve().parents[1] / "golden" / "hetero-v1.aeg"
    loaded = HeteroGraph.load(path)
    loaded.verify()
    assert_same(loaded, golden_graph())
    golden_graph().save(tmp_path / "g")
    assert (tmp_path / "g").read_bytes() == path.read_bytes()


# ---- sampling --------------------------------------------------------------------------------


def test_one_type_samples_like_a_homogeneous_graph(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    src, dst = rng.integers(0, 50, (2, 700))
    plain = Graph.from_edges(50, src, dst)
    typed = HeteroGraph.from_edges({("n", "to", "n"): (src, dst)}, {"n": 50})
    a = NeighborSampler(plain, [5, 3]).sample([4, 9], key=6)
    b = HeteroNeighborSampler(typed, [5, 3]).sample({"n": [4, 9]}, key=6)
    np.testing.assert_array_equal(a.node, b.node["n"])
    np.testing.assert_array_equal(a.edge, b.edge["n", "to", "n"])


def test_bidirectional() -> None:
    graph = make_graph(add_reverse=True)
    plain = HeteroNeighborSampler(graph, [3, 2]).sample({"post": [1, 2]}, key=4)
    found = HeteroNeighborSampler(graph, [3, 2], subgraph_type="bidirectional").sample(
        {"post": [1, 2]}, key=4
    )

    def pairs(sub: HeteroSubgraph, kind: Any) -> set[tuple[int, int]]:
        return set(zip(sub.row[kind].tolist(), sub.col[kind].tolist(), strict=True))

    back = ("post", "rev_votes", "user")
    forward = pairs(plain, VOTES) | {(c, r) for r, c in pairs(plain, back)}
    assert pairs(found, VOTES) == forward
    assert pairs(found, back) == {(c, r) for r, c in forward}
    replies = pairs(plain, REPLY)
    rev = {(c, r) for r, c in pairs(plain, ("post", "rev_answers", "post"))}
    assert pairs(found, REPLY) == replies | {(c, r) for r, c in replies}
    assert rev  # a self-relation is its own reverse: rev_answers stays apart
    assert found.num_sampled_nodes is None


def test_times_of_two_dtypes_are_refused() -> None:
    times: Any = {"user": np.arange(40), "post": np.arange(60.0)}
    with pytest.raises(errors.InvalidArgumentError, match="int64 in one type and float64"):
        HeteroNeighborSampler(make_graph(node_time=times), [2], time_attr="node_time")


def test_options_that_are_refused() -> None:
    graph = make_graph(node_time={"post": np.arange(60)})
    bad: list[tuple[Any, dict[str, Any], str]] = [
        ({("a", "b", "c"): [1]}, {}, r"'b', 'c'\) is no edge type"),
        ([1], {"weight_attr": "w"}, "'w' is no edge attribute"),
        ([1], {"time_attr": "t"}, "'t' is no node or edge attribute"),
    ]
    for fanouts, options, text in bad:
        with pytest.raises(errors.InvalidArgumentError, match=text):
            HeteroNeighborSampler(graph, fanouts, **options)
    sampler = HeteroNeighborSampler(graph, [2])
    with pytest.raises(errors.OutOfRangeError, match=r"seeds\['post'\]\[1\] = 60") as caught:
        sampler.sample({"user": [3], "post": [1, 60]}, key=0)
    assert (caught.value.position, caught.value.value) == (1, 60)
    for seeds, text in (({"dog": [1]}, "'dog' is no node type"), ([1], "goes by node type")):
        with pytest.raises(errors.InvalidArgumentError, match=text):
            sampler.sample(seeds, key=0)  # type: ignore[arg-type]
    timed = make_graph(edge_time={VOTES: np.arange(500)})
    with pytest.raises(errors.InvalidArgumentError, match=r"seed_time\['post'\] is needed"):
        HeteroNeighborSampler(timed, [2], time_attr="edge_time").sample({"post": [1]}, key=0)
    unsorted = make_graph(edge_attrs={VOTES: {"t": np.arange(500)[::-1]}})
    with pytest.raises(
        errors.InvalidArgumentError, match=r"'votes', 'post'\): the in-edges of node"
    ):
        HeteroNeighborSampler(unsorted, [2], time_attr="t")


def test_times_that_replace_the_graphs_own_are_checked() -> None:
    graph = HeteroGraph.from_edges(
        {("a", "to", "b"): ([0, 1, 2], [0, 0, 0])}, node_time={"a": [1, 2, 3]}
    )
    HeteroNeighborSampler(graph, [2], time_attr="node_time")
    graph["a"].attrs["node_time"] = np.array([3, 2, 1])
    with pytest.raises(errors.InvalidArgumentError, match="not sorted by 'node_time'"):
        HeteroNeighborSampler(graph, [2], time_attr="node_time")


def test_with_attrs(tmp_path: Path) -> None:
    graph = make_graph()
    graph["user"].features = np.arange(40.0)
    more = graph.with_attrs(
        {"user": {"x": np.ones(40), "y": np.arange(40)}}, {VOTES: {"w": np.arange(500)}}
    )
    assert more["user"].attrs["y"].array.tolist() == list(range(40))
    assert more["user"].attrs["x"].array.tolist() == [1.0] * 40
    assert more[VOTES].attrs["w"].array.tolist() == list(range(500))
    assert graph["user"].attrs["x"].array.tolist() == list(range(40))
    assert list(graph["user"].attrs) == ["x"]
    assert "w" not in graph[VOTES].attrs
    assert more[VOTES].csc()[1].base is graph[VOTES].csc()[1].base  # shared, not copied
    more.save(tmp_path / "g")
    assert_same(HeteroGraph.load(tmp_path / "g"), more)
    mapped = HeteroGraph.load(tmp_path / "g").with_attrs({"user": {"z": np.zeros(40)}}, {})
    assert_same(pickle.loads(pickle.dumps(mapped)), mapped)
    with pytest.raises(errors.InvalidArgumentError, match="num_nodes = 40"):
        graph.with_attrs({"user": {"x": np.ones(3)}}, {})
    with pytest.raises(errors.InvalidArgumentError, match="'dog'"):
        graph.with_attrs({"dog": {}}, {})


def test_values_are_not_attached_by_mistake() -> None:
    """As PyG's users do it; they would be lost."""
    typed = HeteroGraph.from_edges({("u", "to", "v"): ([0], [1])})
    one = Graph.from_edges(2, [0], [1])
    for holder, text in (
        (one, r"node_attrs\['y'\]"), (typed, r"graph\[type\]\.attrs\['y'\]"),
        (typed["u"], r"\.attrs\['y'\]"), (typed["u", "to", "v"], r"\.attrs\['y'\]"),
    ):  # fmt: skip
        with pytest.raises(AttributeError, match=text):
            holder.y = [1]  # type: ignore[attr-defined]

    class Own(Graph):
        pass

    own = Own.from_edges(2, [0], [1])
    own.note = "allowed"  # type: ignore[attr-defined]
