"""What the project promised before it was built: each argument, as it was written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.sampler import (
    HeteroSamplerOutput,
    SamplerOutput,
)
from torch_geometric.testing import MyFeatureStore

import aethergraph
from aethergraph import FeatureTable, HeteroGraph, errors
from aethergraph.pyg import LinkNeighborLoader, to_data
from aethergraph.sampling.subgraph import Subgraph

pytestmark = pytest.mark.pyg

NUM_NODES, NUM_EDGES = 600, 6000
VOTES = ("user", "votes", "post")
WRITES = ("user", "writes", "comment")
BELONGS = ("post", "belongs_to", "subreddit")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``graph.bin`` and ``features.bin``."""
    place = tmp_path_factory.mktemp("promises")
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, NUM_NODES, (2, NUM_EDGES))
    aethergraph.Graph.from_edges(NUM_NODES, src, dst).save(place / "graph.bin")
    FeatureTable.from_array(rng.random((NUM_NODES, 16), np.float32)).save(place / "features.bin")
    return place


@pytest.fixture(autouse=True)
def work(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def timed_graph(*, of_edges: bool = True, of_nodes: bool = False) -> aethergraph.Graph:
    rng = np.random.default_rng(2)
    src, dst = rng.integers(0, 200, (2, 3000))
    return aethergraph.Graph.from_edges(
        200,
        src,
        dst,
        edge_weight=(rng.random(3000) < 0.5).astype(np.float32),
        edge_time=rng.integers(0, 100, 3000) if of_edges else None,
        node_time=rng.integers(0, 100, 200) if of_nodes else None,
    )


def reddit() -> HeteroGraph:
    rng = np.random.default_rng(1)
    graph = HeteroGraph.from_edges(
        {
            VOTES: (rng.integers(0, 50, 900), rng.integers(0, 200, 900)),
            WRITES: (rng.integers(0, 50, 300), np.arange(300)),
            BELONGS: (np.arange(200), rng.integers(0, 5, 200)),
        },
        {"user": 50, "post": 200, "comment": 300, "subreddit": 5},
        edge_time={VOTES: rng.integers(0, 100, 900)},
    )
    graph["user"].features = rng.random((50, 8), np.float32)
    return graph


# ---- arguments -------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1, 5])
def test_prefetch_factor_is_the_depth_of_what_runs_ahead(factor: int) -> None:
    from aethergraph.pytorch import HGTLoader, NeighborLoader, ShaDowKHopSampler

    graph = timed_graph()
    options = {"batch_size": 20, "prefetch_factor": factor}
    loaders = [
        NeighborLoader(graph, [3], **options),
        LinkNeighborLoader(graph, [3], **options),
        ShaDowKHopSampler(graph, 1, 3, **options),
        HGTLoader(reddit(), [5], ("post", torch.arange(40)), **options),
    ]
    for loader in loaders:
        assert loader.ahead.batches == factor and len(list(loader)) == len(loader)
    workers = NeighborLoader(graph, [3], num_workers=1, **options)
    assert (workers.prefetch_factor, workers.ahead.batches) == (factor, 2)
    with pytest.raises(errors.InvalidArgumentError, match="prefetch_factor = 0"):
        NeighborLoader(graph, [3], prefetch_factor=0)


@pytest.mark.parametrize("make", [lambda graph: graph, to_data], ids=["graph", "data"])
def test_weighted(make: Any) -> None:
    from aethergraph.pytorch import NeighborLoader

    graph = timed_graph(of_edges=False)
    loader = NeighborLoader(make(graph), [4], batch_size=200, weighted=True, seed=1)
    named = NeighborLoader(make(graph), [4], batch_size=200, weight_attr="edge_weight", seed=1)
    batch = next(iter(loader))
    assert len(batch.edge_weight) and bool((batch.edge_weight > 0).all())
    assert torch.equal(batch.e_id, next(iter(named)).e_id)
    links = LinkNeighborLoader(make(graph), [4], batch_size=200, weighted=True)
    assert bool((next(iter(links)).edge_weight > 0).all())
    plain = NeighborLoader(make(graph), [4], batch_size=200, weighted=False)
    assert bool((next(iter(plain)).edge_weight == 0).any())
    with pytest.raises(errors.InvalidArgumentError, match="'edge_weight' is no edge attribute"):
        NeighborLoader(aethergraph.Graph.load("graph.bin"), [4], weighted=True)


@pytest.mark.parametrize("strategy", ["uniform", "last"])
@pytest.mark.parametrize("make", [lambda graph: graph, to_data], ids=["graph", "data"])
def test_input_time_and_temporal_strategy(strategy: str, make: Any) -> None:
    from aethergraph.pytorch import NeighborLoader

    seeds, until = torch.arange(100), torch.arange(100)
    loader = NeighborLoader(
        make(timed_graph()), [5, 5], seeds, input_time=until, temporal_strategy=strategy,
        batch_size=50,
    )  # fmt: skip
    for batch in loader:
        assert bool((batch.edge_time <= batch.seed_time[batch.batch[batch.edge_index[1]]]).all())
    of_nodes = make(timed_graph(of_edges=False, of_nodes=True))
    loader = NeighborLoader(
        of_nodes, [5, 5], seeds, input_time=until, temporal_strategy=strategy, batch_size=50
    )
    for batch in loader:
        hop = batch.node_time[batch.batch_size :]
        assert bool((hop <= batch.seed_time[batch.batch[batch.batch_size :]]).all())
    typed = NeighborLoader(
        make(reddit()), [5], ("post", seeds), input_time=until, temporal_strategy=strategy,
        batch_size=100,
    )  # fmt: skip
    batch = next(iter(typed))
    votes = batch[VOTES]
    assert len(votes.edge_time) > 50
    of_seed = batch["post"].seed_time[batch["post"].batch[votes.edge_index[1]]]
    assert bool((votes.edge_time <= of_seed).all())


def test_times_are_looked_for_only_where_they_are_asked_for() -> None:
    from aethergraph.pytorch import NeighborLoader

    graph = timed_graph(of_edges=False, of_nodes=True)
    assert "batch" not in next(iter(NeighborLoader(graph, [3], temporal_strategy="uniform")))
    assert "batch" in next(iter(NeighborLoader(graph, [3], temporal_strategy="last")))
    both, time = timed_graph(of_nodes=True), torch.zeros(200).long()
    with pytest.raises(errors.InvalidArgumentError, match='time_attr="edge_time" or'):
        NeighborLoader(both, [3], input_time=time)
    with pytest.raises(errors.InvalidArgumentError, match=r'temporal_strategy="last", and'):
        NeighborLoader(both, [3], temporal_strategy="last")
    loader = NeighborLoader(both, [3], input_time=time, time_attr="edge_time", batch_size=200)
    assert next(iter(loader)).num_edges < 200
    plain = aethergraph.Graph.load("graph.bin")
    with pytest.raises(ValueError, match="input_time is given, but there is no edge_time"):
        NeighborLoader(plain, [3], input_time=torch.zeros(NUM_NODES).long())
    foreign = (MyFeatureStore(), timed_graph())  # which knows of features only
    loader = NeighborLoader(foreign, [3], torch.arange(9), input_time=torch.full((9,), 7))
    assert next(iter(loader)).seed_time.tolist() == [7]
    links = torch.zeros(2, 5).long()
    loader = LinkNeighborLoader(
        timed_graph(), [3], links, edge_label_time=torch.full((5,), 7), batch_size=5
    )
    assert int(next(iter(loader)).edge_time.max()) <= 7
    with pytest.raises(ValueError, match="edge_label_time is given, and there are times of edges"):
        LinkNeighborLoader(both, [3], links, edge_label_time=torch.full((5,), 7))


# ---- neighbor_sampler=callable -----------------------------------------------------------------


def output_of(made: Subgraph) -> SamplerOutput:
    vectors = [torch.from_numpy(v) for v in (made.node, made.row, made.col, made.edge)]
    return SamplerOutput(*vectors)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("form", ["subgraph", "output"])
def test_a_function_makes_the_samples(form: str, num_workers: int) -> None:
    from aethergraph.pytorch import NeighborLoader

    graph = aethergraph.Graph.load("graph.bin")
    graph.load_features("features.bin")
    core = aethergraph.NeighborSampler(graph, [4, 2])

    def by_key(seeds: Tensor) -> Any:
        made = core.sample(seeds, key=int(seeds.sum()))
        return made if form == "subgraph" else output_of(made)

    seeds = torch.tensor([5, 5, 9, 100, 7])
    loader = NeighborLoader(
        graph, [1], seeds, neighbor_sampler=by_key, batch_size=3, num_workers=num_workers
    )
    count = 0
    for batch in loader:
        wanted = core.sample(seeds[batch.input_id], key=int(seeds[batch.input_id].sum()))
        np.testing.assert_array_equal(batch.n_id, wanted.node)
        np.testing.assert_array_equal(batch.edge_index, wanted.edge_index)
        np.testing.assert_array_equal(batch.e_id, wanted.edge)
        assert batch.x.shape == (batch.num_nodes, 16)
        assert form == "output" or batch.num_sampled_nodes == wanted.num_sampled_nodes
        count += batch.batch_size
    assert count == 5
    bound = NeighborLoader(graph, [1], neighbor_sampler=core.sample, batch_size=64)
    assert sum(batch.batch_size for batch in bound) == NUM_NODES


@pytest.mark.parametrize("form", ["subgraph", "output"])
def test_a_function_makes_typed_samples(form: str) -> None:
    from aethergraph.pytorch import HeteroNeighborLoader

    graph = reddit()
    core = aethergraph.HeteroNeighborSampler(graph, [4, 2])

    def by_key(seeds: dict[str, Tensor]) -> Any:
        made = core.sample({name: ids.numpy() for name, ids in seeds.items()}, key=3)
        if form == "subgraph":
            return made
        parts = [
            {k: torch.from_numpy(v) for k, v in part.items()}
            for part in (made.node, made.row, made.col, made.edge)
        ]
        return HeteroSamplerOutput(*parts)

    loader = HeteroNeighborLoader(
        graph, [1], "post", neighbor_sampler=by_key, batch_size=30, transform=lambda data: data
    )
    batch = next(iter(loader))
    wanted = core.sample({"post": np.arange(30)}, key=3)
    np.testing.assert_array_equal(batch["user"].n_id, wanted.node["user"])
    np.testing.assert_array_equal(batch[VOTES].edge_index[0], wanted.row[VOTES])
    np.testing.assert_array_equal(
        batch[VOTES].edge_time, graph[VOTES].edge_time[wanted.edge[VOTES]]
    )
    assert batch["post"].batch_size == 30


def wrong_functions() -> Iterator[Any]:
    def make(**changes: Any) -> Any:
        def function(seeds: Tensor) -> SamplerOutput:
            out = SamplerOutput(
                node=torch.cat([seeds, torch.tensor([1, 2])]),
                row=torch.tensor([1, 0]), col=torch.tensor([0, 1]), edge=torch.tensor([0, 1]),
            )  # fmt: skip
            for name, value in changes.items():
                setattr(out, name, value)
            return out

        return function

    begin = "begin with the seeds"
    yield make(node=torch.tensor([0, 1, 2, 3])), errors.InvalidArgumentError, begin
    yield make(node=torch.tensor([4])), errors.InvalidArgumentError, begin
    yield make(row=torch.tensor([1, 7])), errors.OutOfRangeError, r"row\[1\] = 7"
    yield make(col=torch.tensor([-1, 0])), errors.OutOfRangeError, r"col\[0\] = -1"
    yield make(col=torch.tensor([0])), errors.InvalidArgumentError, "row with 2 entries"
    yield make(edge=torch.tensor([0, 10**9])), errors.OutOfRangeError, "1000000000"
    yield (lambda seeds: seeds), errors.InvalidArgumentError, "must return a Subgraph"
    yield (lambda seeds: None), errors.InvalidArgumentError, "returned NoneType"
    typed = HeteroSamplerOutput({}, {}, {}, {})
    yield (lambda seeds: typed), errors.InvalidArgumentError, "a graph of one type"
    yield 7, errors.InvalidArgumentError, "got builtins.int"
    core = aethergraph.NeighborSampler(timed_graph(), [3])
    yield core, errors.InvalidArgumentError, "take aethergraph.pyg.NeighborSampler"


@pytest.mark.parametrize(("function", "error", "text"), list(wrong_functions()))
def test_a_wrong_function_is_named(function: Any, error: type[Exception], text: str) -> None:
    from aethergraph.pytorch import NeighborLoader

    seeds = torch.tensor([4, 4, 8])
    with pytest.raises(error, match=text):
        list(NeighborLoader(timed_graph(), [3], seeds, neighbor_sampler=function, batch_size=3))


def test_a_function_does_not_sample_around_links() -> None:
    graph = timed_graph()
    sampler: Any = aethergraph.NeighborSampler(graph, [3]).sample
    with pytest.raises(errors.InvalidArgumentError, match="for links give a BaseSampler"):
        next(iter(LinkNeighborLoader(graph, [3], neighbor_sampler=sampler)))


# ---- commands and extras -----------------------------------------------------------------------


def test_the_extra_by_its_long_name() -> None:
    """``pip install aethergraph[pytorch-geometric]``."""
    tomllib = pytest.importorskip("tomllib")
    project = Path(__file__).parents[2] / "pyproject.toml"
    extras = tomllib.loads(project.read_text())["project"]["optional-dependencies"]
    assert extras["pytorch-geometric"] == ["aethergraph[pyg]"]
