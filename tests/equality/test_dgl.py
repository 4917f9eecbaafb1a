"""The equality table of DGL's loaders and GraphBolt's pipes: see test_pyg.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

pytest.importorskip("dgl")

import dgl
import dgl.graphbolt as gb
import torch
from dgl.dataloading import DataLoader as StockLoader
from dgl.dataloading import NeighborSampler as StockSampler
from support.equality import (
    Columns,
    Configuration,
    Contents,
    Refusal,
    Sheet,
    Table,
    TableRules,
)
from support.same_graph import (
    ABOUT,
    BLOCKS,
    COUNTS,
    EDGE,
    FOLLOWS,
    LATEST,
    NODE,
    POST,
    STORAGES,
    USER,
    VOTED_BY,
    VOTES,
    Kind,
    Stored,
    content_by_id,
    plain_content,
    typed_content,
)

from aethergraph import errors
from aethergraph.dgl import (
    DataLoader,
    GraphStorage,
    LaborSampler,
    MultiLayerFullNeighborSampler,
    NeighborSampler,
    PerSourceUniform,
    SAINTSampler,
    ShaDowKHopSampler,
    as_edge_prediction_sampler,
)
from aethergraph.dgl.graphbolt import FeatureStore, SamplingGraph

pytestmark = pytest.mark.filterwarnings("ignore:Dataloader CPU affinity")

Batches = Iterable[Any]

# ---- rows: configurations of loaders -------------------------------------------------------------

FANOUTS = [3, 4]
#: Hubs, nodes with few edges, and the last ones, which have none.
NODES = torch.cat([torch.arange(0, 12), torch.arange(20, 236, 5), torch.arange(236, 240)])
REPEATED = torch.cat([NODES[:20], NODES[:20].flip(0), NODES[3].repeat(9)])
UNTIL = torch.arange(COUNTS[NODE]) * 7 % (LATEST + 2)
IN_TIME: dict[str, Any] = {"time_attr": "edge_time", "seed_time": UNTIL}
LAST: dict[str, Any] = {"temporal_strategy": "last"}
WEIGHTED: dict[str, Any] = {"prob": "edge_weight"}
#: What blocks hold beside ids.
DATA: dict[str, Any] = {
    "prefetch_node_feats": ["x"], "prefetch_labels": ["y"],
    "prefetch_edge_feats": ["edge_attr", "edge_weight"],
}  # fmt: skip
TYPED_DATA: dict[str, Any] = {
    "prefetch_node_feats": {USER: ["x"], POST: ["x"]}, "prefetch_labels": {POST: ["y"]},
    "prefetch_edge_feats": {VOTES: ["edge_attr", "edge_weight"]},
}  # fmt: skip


def rows_of(row_of: Mapping[Kind, Any], kind: str, ids: Any) -> Any:
    """Return the rows of edge ids; of a graph of one type DGL has another name for ``kind``."""
    by_name = {":".join(name): rows for name, rows in row_of.items()}
    rows = torch.from_numpy(by_name[":".join(EDGE) if EDGE in row_of else kind])[ids.long()]
    assert bool((rows >= 0).all()), "an edge that is gone"
    return rows.to(ids.dtype)


def storage_of(stored: Stored) -> GraphStorage:
    """Return the graph with edge ids of its own, which ``row_of`` knows."""
    return GraphStorage(stored.graph, edge_ids="graph")


def loaded(
    make_sampler: Callable[[], Any], seeds: Any = NODES, loader: Any = DataLoader, **options: Any
) -> Configuration:
    """Our loader, or DGL's, over a sampler that is made for each epoch."""
    options = {"batch_size": 25, **options}
    return lambda stored: loader(storage_of(stored), seeds, make_sampler(), **options)


def blocks(seeds: Any = NODES, loader: Any = DataLoader, **options: Any) -> Configuration:
    """Blocks of our ``NeighborSampler``."""
    data = TYPED_DATA if isinstance(seeds, dict) else DATA
    options = {"fanouts": FANOUTS, "seed": 3, **data, **options}
    fanouts = options.pop("fanouts")
    return loaded(lambda: NeighborSampler(fanouts, **options), seeds, loader)


def edges(kind: Kind = EDGE, loader: Any = DataLoader, **options: Any) -> Configuration:
    """Blocks around the ends of edges, each tenth of them."""

    def load(stored: Stored) -> Batches:
        rows = np.arange(0, np.count_nonzero(stored.row_of[kind] >= 0), 10)
        ids = torch.from_numpy(stored.ids_of(kind, rows))
        sampler = as_edge_prediction_sampler(NeighborSampler(FANOUTS, seed=3), **options)
        seeds = ids if kind == EDGE else {kind: ids}
        return loader(storage_of(stored), seeds, sampler, batch_size=60)

    return load


def dgls_sampler(seeds: Any = NODES, **options: Any) -> Configuration:
    """The edges that DGL's own sampler draws; it numbers nodes in another order from run to run."""

    def load(stored: Stored) -> Batches:
        loader = StockLoader(
            storage_of(stored), seeds, StockSampler(FANOUTS, **options), batch_size=25
        )
        for _, _, layers in loader:
            yield {
                f"{number} {kind}": rows_of(
                    stored.row_of, ":".join(kind), block.edges[kind].data[dgl.EID]
                )
                .sort()
                .values
                for number, block in enumerate(layers)
                for kind in block.canonical_etypes
            }

    return load


def walks(stored: Stored) -> Batches:
    """Subgraphs of walks."""
    sampler, storage = SAINTSampler("walk", (10, 3)), storage_of(stored)
    return [sampler.sample(storage, number) for number in range(3)]


def pipe_of(
    items: Any,
    build: Callable[[Any, SamplingGraph], Any],
    keys: Any = (["x", "y"], ["edge_attr"]),
) -> Configuration:
    """A pipe of GraphBolt, and the rows of nodes and edges that it fetches."""

    def load(stored: Stored) -> Batches:
        sampling = SamplingGraph(stored.graph, edge_ids="graph", seed=3)
        pipe = build(gb.ItemSampler(items, batch_size=25), sampling)
        pipe = pipe.fetch_feature(FeatureStore(stored.graph, edge_ids="graph"), *keys)
        return gb.DataLoader(pipe.copy_to(torch.device("cpu")), num_workers=0)

    return load


def at_once(items: Any, fanouts: Any = FANOUTS, keys: Any = None, **options: Any) -> Configuration:
    """GraphBolt's pipe with our stage for all layers."""
    build = lambda pipe, graph: pipe.sample_neighbor_at_once(graph, fanouts, **options)  # noqa: E731
    return pipe_of(items, build) if keys is None else pipe_of(items, build, keys)


def calls(call: Callable[[SamplingGraph, Any], Any], seeds: Any = NODES) -> Configuration:
    """Answers of a ``SamplingGraph`` to the calls of GraphBolt's stages.

    The stages themselves number nodes in another order from run to run.
    """

    def load(stored: Stored) -> Batches:
        graph = SamplingGraph(stored.graph, edge_ids="graph", seed=3)
        parts = seeds if isinstance(seeds, list) else seeds.split(25)
        return [call(graph, part) for part in parts]

    return load


SEEDS = gb.ItemSet(NODES, names="seed_nodes")
TIMED_SEEDS = gb.ItemSet((NODES, UNTIL[NODES]), names=("seed_nodes", "timestamp"))
LINKS = gb.ItemSet(torch.stack([NODES, NODES.flip(0)], 1), names="node_pairs")
FOUR = torch.tensor([4])

PLAIN: dict[str, Configuration] = {
    "blocks": blocks(),
    "blocks, all neighbours": loaded(lambda: MultiLayerFullNeighborSampler(2, seed=3, **DATA)),
    "blocks, replace": blocks(replace=True),
    "blocks, out": blocks(edge_dir="out"),
    "blocks, dependent": blocks(layer_dependency=True),
    "blocks, weighted": blocks(**WEIGHTED),
    "blocks, weighted, replace": blocks(**WEIGHTED, replace=True),
    "blocks in time": blocks(**IN_TIME),
    "blocks in time, last": blocks(**IN_TIME, **LAST),
    "blocks in time, window": blocks(**IN_TIME, strict=False, window=4),
    "blocks in time, weighted": blocks(**IN_TIME, **WEIGHTED),
    "blocks, repeated seeds": blocks(REPEATED),
    "blocks, workers": loaded(lambda: NeighborSampler(FANOUTS, seed=3, **DATA), num_workers=2),
    "labor": loaded(lambda: LaborSampler(FANOUTS, seed=3, **DATA)),
    "ShaDow": loaded(lambda: ShaDowKHopSampler(FANOUTS, seed=3, prefetch_node_feats=["x"])),
    "walks": walks,
    "edges": edges(),
    "edges, hidden": edges(exclude="self"),
    "DGL's DataLoader": blocks(loader=StockLoader),
    "DGL's DataLoader, in time": blocks(**IN_TIME, loader=StockLoader),
    "DGL's DataLoader, workers": loaded(
        lambda: NeighborSampler(FANOUTS, seed=3), loader=StockLoader, num_workers=2
    ),
    "DGL's DataLoader, edges": edges(loader=StockLoader, exclude="self"),
    "DGL's sampler": dgls_sampler(),
    "DGL's sampler, weighted": dgls_sampler(**WEIGHTED),
    "GraphBolt, at once": at_once(SEEDS),
    "GraphBolt, at once, replace": at_once(SEEDS, replace=True),
    "GraphBolt, at once, weighted": at_once(SEEDS, prob_name="edge_weight"),
    "GraphBolt, at once, in time": at_once(TIMED_SEEDS, edge_timestamp_attr_name="edge_time"),
    "GraphBolt, links": pipe_of(
        LINKS,
        lambda pipe, graph: pipe.sample_uniform_negative(graph, 2).sample_neighbor_at_once(
            graph, FANOUTS
        ),
    ),
    "GraphBolt, neighbours": calls(lambda graph, ids: graph.sample_neighbors(ids, FOUR)),
    "GraphBolt, neighbours, weighted": calls(
        lambda graph, ids: graph.sample_neighbors(ids, FOUR, probs_name="edge_weight")
    ),
    "GraphBolt, neighbours in time": calls(
        lambda graph, ids: graph.temporal_sample_neighbors(
            ids, UNTIL[ids], FOUR, edge_timestamp_attr_name="edge_time"
        )
    ),
    "GraphBolt, layers": calls(lambda graph, ids: graph.sample_layer_neighbors(ids, FOUR)),
    "GraphBolt, in-subgraphs": calls(lambda graph, ids: graph.in_subgraph(ids)),
}

POSTS = torch.cat([torch.arange(0, 10), torch.arange(12, 120, 3)])
TYPED_SEEDS = {POST: POSTS, USER: torch.arange(0, 150, 9)}
TYPED_UNTIL = {
    name: torch.arange(count) * 7 % (LATEST + 2)
    for name, count in typed_content().num_nodes.items()
}
TYPED_IN_TIME: dict[str, Any] = {"time_attr": "edge_time", "seed_time": TYPED_UNTIL}
BY_TYPE = [{VOTES: 3, VOTED_BY: 2, FOLLOWS: 4, ABOUT: 1, BLOCKS: 1}, 3]
TYPED_ITEMS = gb.ItemSetDict({POST: gb.ItemSet(POSTS, names="seed_nodes")})
PER_TYPE = torch.tensor([4, 3, 2, 2, 4])
TYPED_KEYS = {USER: ["x"], POST: ["x", "y"]}, {":".join(VOTES): ["edge_attr"]}

TYPED: dict[str, Configuration] = {
    "blocks": blocks(TYPED_SEEDS),
    "blocks, fanouts by type": blocks(TYPED_SEEDS, fanouts=BY_TYPE),
    "blocks, all neighbours": blocks(TYPED_SEEDS, fanouts=[-1, -1]),
    "blocks, replace": blocks(TYPED_SEEDS, replace=True),
    "blocks, weighted": blocks(TYPED_SEEDS, **WEIGHTED),
    "blocks in time": blocks(TYPED_SEEDS, **TYPED_IN_TIME),
    "blocks in time, last": blocks(TYPED_SEEDS, **TYPED_IN_TIME, **LAST),
    "blocks in time, weighted": blocks(TYPED_SEEDS, **TYPED_IN_TIME, **WEIGHTED),
    "blocks, workers": loaded(
        lambda: NeighborSampler(FANOUTS, seed=3, **TYPED_DATA), TYPED_SEEDS, num_workers=2
    ),
    "labor": loaded(lambda: LaborSampler(FANOUTS, seed=3), TYPED_SEEDS),
    "ShaDow": loaded(lambda: ShaDowKHopSampler(FANOUTS, seed=3), TYPED_SEEDS),
    "edges": edges(VOTES),
    "edges, hidden": edges(VOTES, exclude="self"),
    "DGL's DataLoader": blocks(TYPED_SEEDS, loader=StockLoader),
    "DGL's sampler": dgls_sampler(TYPED_SEEDS),
    "GraphBolt, at once": at_once(TYPED_ITEMS, [PER_TYPE, PER_TYPE], TYPED_KEYS),
    "GraphBolt, at once, weighted": at_once(
        TYPED_ITEMS, [PER_TYPE, PER_TYPE], TYPED_KEYS, prob_name="edge_weight"
    ),
    "GraphBolt, neighbours": calls(
        lambda graph, ids: graph.sample_neighbors({POST: ids}, PER_TYPE), POSTS
    ),
    "GraphBolt, in-subgraphs": calls(lambda graph, ids: graph.in_subgraph({POST: ids}), POSTS),
}


# ---- the table -----------------------------------------------------------------------------------


def read(batch: Any, row_of: Mapping[Kind, Any]) -> Contents:
    """Return what a batch holds, by its path, its edge ids as rows of what all were made of."""
    found: Contents = {}

    def add(path: str, thing: Any) -> None:
        found[path] = type(thing).__name__
        if isinstance(thing, dgl.DGLGraph):
            for kind in thing.canonical_etypes:
                name, data = ":".join(kind), dict(thing.edges[kind].data)
                add(f"{path}/{name}", thing.edges(etype=kind))
                if dgl.EID in data:
                    data[dgl.EID] = rows_of(row_of, name, data[dgl.EID])
                add(f"{path}/{name}", data)
            for side in ("srcnodes", "dstnodes"):
                for name in thing.srctypes if side == "srcnodes" else thing.dsttypes:
                    add(f"{path}/{side} {name}", dict(getattr(thing, side)[name].data))
        elif path.endswith("original_edge_ids") and thing is not None:
            by_kind = thing if isinstance(thing, dict) else {"": thing}
            add(
                f"{path}, rows", {kind: rows_of(row_of, kind, ids) for kind, ids in by_kind.items()}
            )
        elif isinstance(thing, (list, tuple)):
            for number, part in enumerate(thing):
                add(f"{path}/{number}", part)
        elif isinstance(thing, Mapping):
            for name, part in thing.items():
                add(f"{path}/{name}", part)
        elif dataclasses.is_dataclass(thing):
            for name, part in vars(thing).items():
                add(f"{path}/{name}", part)
        else:
            found[path] = thing

    add("", batch)
    return found


#: Configurations that draw as another one does, and only work in another way.
ALIKE = {
    "DGL's DataLoader": "blocks",
    "DGL's DataLoader, in time": "blocks in time",
    "DGL's DataLoader, edges": "edges, hidden",
}
LIVE = tuple(name for name in STORAGES if "live" in name or name == "snapshot")
#: Storages with the edge ids of the file.
WITH_IDS_OF_FILE = ("mapped file", "compressed file", "file read by io_uring", "served file")
REFUSALS = (
    Refusal(
        ("blocks, out", "walks"), ("arrays of another library", "served file", "served live graph"),
        errors.LayoutError, "out-neighbours are not stored: this graph has layout='csc'",
        "troubleshooting.md",
    ),
)  # fmt: skip

TABLE = Table(
    {
        "one type": Sheet(plain_content, PLAIN, tuple(STORAGES)),
        "one type by id": Sheet(
            content_by_id,
            {name: load for name, load in PLAIN.items() if "in time" not in name},
            LIVE,
        ),
        "one type, draws by edge id": Sheet(
            plain_content,
            {
                "edges, negatives": edges(negative_sampler=PerSourceUniform(2)),
                "edges, negatives, hidden": edges(
                    negative_sampler=PerSourceUniform(2), exclude="self"
                ),
            },
            WITH_IDS_OF_FILE,
        ),
        "many types": Sheet(
            typed_content,
            TYPED,
            tuple(name for name in STORAGES if name != "arrays of another library"),
        ),
    },
    read,
    ALIKE,
    REFUSALS,
)


def begin() -> None:
    """Set what loaders draw from: DGL's shuffle and draw by numpy's generator, too."""
    torch.manual_seed(5)
    np.random.seed(5)


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Columns]:
    with Columns(TABLE, tmp_path_factory.mktemp("equality"), begin) as columns:
        yield columns


@pytest.mark.own_share
@pytest.mark.parametrize(("sheet", "row", "column"), TABLE.cells())
def test_batches(columns: Columns, sheet: str, row: str, column: str) -> None:
    columns.check(sheet, row, column)


class TestTheTable(TableRules):
    table = TABLE
