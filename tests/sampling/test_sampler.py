"""The sampler: equal to the oracle in every mode, and to itself everywhere.

That storage changes nothing and that samples stay as they are: test_golden_samples.py. What
every sampler does (purity, pickles, forks, chances of pairs and trees): contracts/test_samplers.py.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import make_graph
from support.strategies import Ids, assert_same_subgraph, chi_square, edge_lists, examples
from support.threads import run_with_each

from aethergraph import Graph, NeighborSampler, set_num_threads
from aethergraph import _native as native
from aethergraph.sampling.engine import NativeEngine
from aethergraph.testing import oracle

MODES = ["directional", "bidirectional", "induced"]
WEIGHTS = np.array([0.0, 0.25, 1.0, 3.5, 1e-30, 1e30])


@examples(200)
@given(
    edges=edge_lists(),
    fanouts=st.lists(st.integers(-1, 12), max_size=4),
    key=st.integers(0, 2**64 - 1),
    replace=st.booleans(),
    disjoint=st.booleans(),
    layered=st.booleans(),
    mode=st.sampled_from(MODES),
    weighting=st.sampled_from([None, np.float32, np.float64]),
    strategy=st.sampled_from([None, "uniform", "last"]),
    excluded=st.sampled_from([None, 0.0, 0.05, 0.5, 1.0]),
    threads=st.sampled_from([0, 1, 2, 8]),
    data=st.data(),
)
def test_equal_to_the_oracle(
    edges: tuple[int, Ids, Ids], fanouts: list[int], key: int, replace: bool, disjoint: bool,
    layered: bool, mode: Any, weighting: Any, strategy: Any, excluded: float | None, threads: int,
    data: st.DataObject,
) -> None:  # fmt: skip
    num_nodes, src, dst = edges
    rng = np.random.default_rng(key)
    node = st.integers(0, max(0, num_nodes - 1))
    seeds = np.array(data.draw(st.lists(node, max_size=12 if num_nodes else 0)), np.int64)
    layered = layered and mode != "bidirectional" and strategy is None
    options: dict[str, Any] = {"replace": replace, "subgraph_type": mode, "layered": layered}
    values: dict[str, Any] = {}
    if weighting is not None:
        values["edge_weight"] = rng.choice(WEIGHTS, len(src)).astype(weighting)
    until = None
    if strategy is not None:
        values["edge_time"] = rng.integers(0, 5, len(src))
        until = rng.integers(0, 5, len(seeds))
    graph = Graph.from_edges(num_nodes, src, dst, **values)
    exclude = None
    if excluded is not None:
        exclude = rng.permutation(np.flatnonzero(rng.random(len(src)) < excluded))
    sampler = NeighborSampler(
        graph, fanouts, disjoint=disjoint, num_threads=threads,
        weight_attr=None if weighting is None else "edge_weight",
        **({} if until is None else {"time_attr": "edge_time", "temporal_strategy": strategy}),
        **options,
    )  # fmt: skip
    expected = oracle.sample(
        *graph.csc(), seeds, fanouts, key, disjoint=disjoint or until is not None,
        weight=graph.edge_weight, exclude=exclude,
        **({} if until is None else {"time": graph.edge_time, "until": until}),
        latest=strategy == "last", **options,
    )  # fmt: skip
    for _ in range(2):  # scratch memory leaves no trace
        found = sampler.sample(seeds, key, seed_time=until, exclude=exclude)
        assert_same_subgraph(found, expected)
    assert exclude is None or not np.isin(found.edge, exclude).any()
    assert weighting is None or mode == "induced" or (graph.edge_weight[found.edge] > 0).all()


@pytest.mark.any_python
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("disjoint", [False, True])
def test_large_lists_equal_the_oracle(replace: bool, disjoint: bool) -> None:
    """Hubs: each way of drawing distinct positions, and hops that run in parallel."""
    rng = np.random.default_rng(9)
    src = rng.integers(0, 3000, 60_000)
    dst = np.concatenate([np.zeros(20_000, int), np.ones(5_000, int), rng.integers(2, 40, 35_000)])
    graph = Graph.from_edges(3000, src, dst)
    options = {"replace": replace, "disjoint": disjoint}
    for fan in ([200, 60], [40, -1], [19_999, 3], [20_001]):
        seeds = np.array([0, 1, 5, 0, 39])
        expected = oracle.sample(*graph.csc(), seeds, fan, 77, **options)
        for num_threads in (1, 2, 8):
            sampler = NeighborSampler(graph, fan, num_threads=num_threads, **options)
            assert_same_subgraph(sampler.sample(seeds, 77), expected)


@given(edge_lists(max_nodes=30, max_edges=80), st.integers(0, 3), st.booleans(), st.integers(0, 99))
def test_layers_in_compressed_form_are_the_same_sample(
    edges: tuple[int, Ids, Ids], hops: int, replace: bool, key: int
) -> None:
    graph = Graph.from_edges(*edges)
    seeds = np.arange(0, graph.num_nodes, 3)
    flags = native.SAMPLE_LAYERED | native.SAMPLE_REPLACE * replace
    relation = native.NativeRelation(graph.topology("csc"))
    sampler = native.NativeSampler([relation], [graph.num_nodes], [[2, 0, -1][:hops]], flags, 1)
    whole, layers = sampler.sample([seeds], key), sampler.sample_layers([seeds], key)
    for name in ("node", "row", "edge"):
        np.testing.assert_array_equal(getattr(layers, name)[0], getattr(whole, name)[0])
    assert (layers.hop_nodes, layers.hop_edges) == (whole.hop_nodes, whole.hop_edges)
    assert len(layers.offsets[0]) == hops
    found = [
        np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)) for offsets in layers.offsets[0]
    ]
    np.testing.assert_array_equal(np.concatenate([np.empty(0, np.int64), *found]), whole.col[0])
    nodes = np.cumsum(layers.hop_nodes[0])[:hops]
    assert [len(offsets) - 1 for offsets in layers.offsets[0]] == nodes.tolist()


def test_disjoint_trees_in_a_graph_of_many_nodes() -> None:
    """Tree and node together take more than 32 bits."""
    num_nodes = 1 << 22
    rng = np.random.default_rng(2)
    graph = Graph.from_edges(num_nodes, *rng.integers(0, num_nodes, (2, 50_000)))
    seeds = graph.edge_index()[1][rng.integers(0, 50_000, 3000)]
    found = NeighborSampler(graph, [3, 2], disjoint=True).sample(seeds, key=8)
    assert_same_subgraph(found, oracle.sample(*graph.csc(), seeds, [3, 2], 8, disjoint=True))


def test_duplicate_seeds_get_the_same_edges() -> None:
    """PyG issue 9589: the graph 2->0, 3->1 with seeds [0, 0, 1]."""
    graph = Graph.from_edges(4, [2, 3], [0, 1])
    found = NeighborSampler(graph, [-1]).sample([0, 0, 1])
    assert found.node.tolist() == [0, 0, 1, 2, 3]
    assert found.edge_index.T.tolist() == [[3, 0], [3, 1], [4, 2]]
    assert found.num_sampled_nodes == [3, 2]


def test_keys_decide(graph: Graph) -> None:
    sampler = NeighborSampler(graph, [3, 3], seed=1)
    hub = [0, 1, 2]
    assert_same_subgraph(sampler.sample(hub, key=-1), sampler.sample(hub, key=2**64 - 1))
    calls = [sampler.sample(hub).edge.tolist() for _ in range(3)]
    assert calls[0] != calls[1] != calls[2]
    again = NeighborSampler(graph, [3, 3], seed=1)
    assert [again.sample(hub).edge.tolist() for _ in range(3)] == calls
    other = NeighborSampler(graph, [3, 3], seed=2)
    assert other.sample(hub).edge.tolist() != calls[0]


def test_many_threads_may_share_a_sampler(graph: Graph) -> None:
    sampler = NeighborSampler(graph, [8, 4])
    expected = [sampler.sample([k % 200, 3], key=k) for k in range(40)]

    def work(_: int) -> None:
        for k in [*range(40)] * 2:
            assert_same_subgraph(sampler.sample([k % 200, 3], key=k), expected[k])

    run_with_each(work, range(8))
    assert isinstance(sampler.engine, NativeEngine) and sampler.engine.num_idle <= 9
    assert sampler.scratch_memory > 0


def test_subgraph_conveniences(graph: Graph) -> None:
    sampler = NeighborSampler(graph, [3])
    assert repr(sampler).endswith(
        "fanouts=[3], replace=False, disjoint=False, subgraph_type='directional')"
    )
    found = sampler.sample([0, 1])
    assert found.edge_index.shape == (2, found.num_edges)
    np.testing.assert_array_equal(found.edge_index[1], found.col)
    assert repr(found) == f"Subgraph(num_nodes={found.num_nodes}, num_edges={found.num_edges})"
    src, dst = graph.edge_index()
    np.testing.assert_array_equal(src[found.edge], found.node[found.row])
    np.testing.assert_array_equal(dst[found.edge], found.node[found.col])


def test_the_generator_equals_the_oracle() -> None:
    cases = [(0, 0, 0, 0, 0), (7, 3, 0, 2**40, 11), (2**64 - 1, 9, 0, 1, 2**32), (5, 1, 3, 9, 2)]
    for key, hop, relation, node, seed in cases:
        start = oracle.stream_start(key, hop, node, seed, relation)
        expected = [oracle.stream_draw(start, i) for i in range(20)]
        assert native.rng_draws(key, hop, relation, node, seed, 20).tolist() == expected


# ---- uniformity of each way of drawing -----------------------------------------------------------


def draws(degree: int, fanout: int, replace: bool, rounds: int) -> Ids:
    """Positions drawn from one list in ``rounds`` trees, [rounds, fanout]."""
    graph = Graph.from_edges(degree + 1, np.arange(1, degree + 1), np.zeros(degree, int))
    sampler = NeighborSampler(graph, [fanout], replace=replace, disjoint=True)
    return sampler.sample(np.zeros(rounds, int), key=5).edge.reshape(rounds, fanout)


@pytest.mark.any_python
@pytest.mark.shares
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize(("degree", "fanout"), [(20, 5), (64, 63), (100, 10), (200, 100)])
def test_every_neighbour_is_as_likely(degree: int, fanout: int, replace: bool) -> None:
    rounds = 4000
    found = draws(degree, fanout, replace, rounds)
    counts = np.bincount(found.ravel(), minlength=degree)
    if replace:
        assert abs(chi_square(counts, rounds * fanout / degree)) < 5
        return
    assert all(len(set(row)) == fanout for row in found[:200].tolist())
    # Without replacement the counts vary less by (1 - fanout / degree) d / (d - 1).
    share = fanout / degree
    statistic = ((counts - rounds * share) ** 2).sum() / (rounds * share * (1 - share))
    statistic *= (degree - 1) / degree
    assert abs(statistic - (degree - 1)) / np.sqrt(2 * (degree - 1)) < 5


# ---- PyG, where it is installed --------------------------------------------------------------


@pytest.mark.pyg
@pytest.mark.slow  # PyG takes its time to be imported; the oracle has the same reverses
@examples(40)
@given(edges=edge_lists(max_nodes=15, max_edges=60), key=st.integers(0, 2**64 - 1))
def test_bidirectional_equals_pyg(edges: tuple[int, Ids, Ids], key: int) -> None:
    torch = pytest.importorskip("torch")
    base = pytest.importorskip("torch_geometric.sampler")
    num_nodes, src, dst = edges
    if num_nodes == 0:
        return
    graph = Graph.from_edges(num_nodes, src, dst)
    seeds = np.unique(np.array([0, num_nodes // 2]))
    plain = NeighborSampler(graph, [4, 3]).sample(seeds, key)
    found = NeighborSampler(graph, [4, 3], subgraph_type="bidirectional").sample(seeds, key)
    arrays = (torch.from_numpy(a.copy()) for a in (plain.node, plain.row, plain.col, plain.edge))
    expected = base.SamplerOutput(*arrays).to_bidirectional()
    assert found.row.tolist() == expected.row.tolist()
    assert found.col.tolist() == expected.col.tolist()
    # PyG keeps any id of those that share a pair.
    ends = list(zip(found.row.tolist(), found.col.tolist(), strict=True))
    for ours, pair in zip(found.edge.tolist(), ends, strict=True):
        real = (int(graph.edge_index()[0][ours]), int(graph.edge_index()[1][ours]))
        local = (int(found.node[pair[0]]), int(found.node[pair[1]]))
        assert real in (local, local[::-1])
    assert found.num_sampled_nodes is None and found.num_sampled_edges is None


# ---- other processes -------------------------------------------------------------------------


CHILD_SCRIPT = """
import multiprocessing as mp, sys
from aethergraph import Graph, NeighborSampler

def draw(sampler, queue):
    queue.put([sampler.sample([1, 2, 3], key=k).edge.tolist() for k in range(5)])

if __name__ == "__main__":
    path, method, storage = sys.argv[1:]
    sampler = NeighborSampler(Graph.load(path, storage=storage), [9, 9], num_threads=0)
    expected = [sampler.sample([1, 2, 3], key=k).edge.tolist() for k in range(5)]
    context = mp.get_context(method)
    queue = context.Queue()
    children = [context.Process(target=draw, args=(sampler, queue)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        assert queue.get(timeout=240) == expected
    for child in children:
        child.join()
        assert child.exitcode == 0
    assert [sampler.sample([1, 2, 3], key=k).edge.tolist() for k in range(5)] == expected
"""


@pytest.mark.parametrize(
    ("method", "storage"),
    [pytest.param("fork", "memory", marks=pytest.mark.forks), ("spawn", "mmap")],
)
def test_children_draw_the_same(tmp_path: Path, method: str, storage: str) -> None:
    script = tmp_path / "script.py"  # a spawned child imports the main module: it must be a file
    script.write_text(CHILD_SCRIPT)
    make_graph(500, 40_000).save(tmp_path / "g.aeg")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "g.aeg"), method, storage],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(autouse=True)
def _default_threads() -> Any:
    yield
    set_num_threads(0)
