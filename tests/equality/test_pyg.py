"""The equality table of PyG's loaders: one graph, the same batches from every storage of it.

Rows are configurations of loaders, columns the storages of the same graph. All that is in a batch
must be, bit by bit, what the reference, the graph in memory, gives for the same seed. The one thing
that may differ is said in ``docs/tasks/live.md`` and ``docs/pyg.md``: a file counts edges by place,
a live graph by insertion, so edge ids are compared by the edges that they stand for.

What a storage does not do, it refuses: :data:`REFUSALS`, each with the page that says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch_geometric")

import torch
from support.equality import (
    Columns,
    Configuration,
    Contents,
    Fault,
    Refusal,
    Sheet,
    Table,
    TableRules,
    assert_same,
)
from support.pyg import contents, dst_weight
from support.same_graph import (
    COUNTS,
    EDGE,
    FOLLOWS,
    LATEST,
    NODE,
    POST,
    ROBOT,
    STORAGES,
    TAG,
    USER,
    VOTED_BY,
    VOTES,
    Stored,
    build,
    content_by_id,
    content_with_node_times,
    plain_content,
    typed_content,
)
from torch_geometric.loader import LinkLoader, NodeLoader
from torch_geometric.loader import NeighborLoader as StockNeighborLoader
from torch_geometric.sampler import NegativeSampling

from aethergraph import errors
from aethergraph.loading import Ahead
from aethergraph.pyg import (
    FeatureStore,
    GraphStore,
    HeteroNeighborSampler,
    HGTLoader,
    LinkNeighborLoader,
    NeighborLoader,
    NeighborSampler,
    ShaDowKHopSampler,
    as_stores,
)

pytestmark = pytest.mark.pyg

Batches = Iterable[Any]

# ---- rows: configurations of loaders -------------------------------------------------------------

FANOUTS = [4, 3]
#: Hubs, nodes with few edges, and the last ones, which have none.
NODES = torch.cat([torch.arange(0, 12), torch.arange(20, 236, 5), torch.arange(236, 240)])
REPEATED = torch.cat([NODES[:20], NODES[:20].flip(0), NODES[3].repeat(9)])
TIMES = torch.arange(len(NODES)) * 7 % (LATEST + 2)
WORKERS: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": "fork"}
IN_TIME: dict[str, Any] = {"time_attr": "edge_time", "input_time": TIMES}
LAST: dict[str, Any] = {"temporal_strategy": "last"}
WEIGHTED: dict[str, Any] = {"weight_attr": "edge_weight"}


def around_nodes(fanouts: Any = FANOUTS, seeds: Any = NODES, **options: Any) -> Configuration:
    """Our loader of the neighbourhoods of nodes."""
    options = {"batch_size": 25, "seed": 3, **options}
    return lambda stored: NeighborLoader(stored.graph, fanouts, seeds, **options)


PLAIN_LINKS = plain_content().edges[EDGE]
#: Some edges, and some pairs of which few are edges.
LINKS = torch.cat(
    [
        torch.from_numpy(np.stack([PLAIN_LINKS["src"][::60], PLAIN_LINKS["dst"][::60]])),
        torch.arange(60).view(2, 30),
    ],
    dim=1,
)
LINK_TIMES = torch.arange(LINKS.shape[1]) * 3 % (LATEST + 2)
LINKS_IN_TIME: dict[str, Any] = {"time_attr": "edge_time", "edge_label_time": LINK_TIMES}


def around_links(fanouts: Any = FANOUTS, links: Any = LINKS, **options: Any) -> Configuration:
    """Our loader of the neighbourhoods of the ends of links."""
    options = {"batch_size": 24, "seed": 3, **options}
    return lambda stored: LinkNeighborLoader(stored.graph, fanouts, links, **options)


def stock_nodes(seeds: Any = NODES, loader: Any = None, **sampling: Any) -> Configuration:
    """PyG's ``NodeLoader`` over our stores and our sampler."""
    make = HeteroNeighborSampler if isinstance(seeds, tuple) else NeighborSampler

    def load(stored: Stored) -> Batches:
        stores = as_stores(stored.graph)
        sampler = make(stores, FANOUTS, **sampling)
        return NodeLoader(stores, sampler, seeds, **{"batch_size": 25, **(loader or {})})

    return load


def stock_links(links: Any, loader: Any = None, **sampling: Any) -> Configuration:
    """PyG's ``LinkLoader`` over our stores and our sampler."""
    make = NeighborSampler if links[0] is None else HeteroNeighborSampler

    def load(stored: Stored) -> Batches:
        stores = FeatureStore.from_graph(stored.graph), GraphStore(stored.graph)
        sampler = make(stores, FANOUTS, **sampling)
        return LinkLoader(stores, sampler, links, **{"batch_size": 24, **(loader or {})})

    return load


def stock_neighbors(seeds: Any = NODES) -> Configuration:
    """PyG's own ``NeighborLoader`` over our stores, with our sampler in it."""
    make = HeteroNeighborSampler if isinstance(seeds, tuple) else NeighborSampler

    def load(stored: Stored) -> Batches:
        stores = as_stores(stored.graph)
        sampler = make(stores, FANOUTS)
        return StockNeighborLoader(stores, FANOUTS, seeds, neighbor_sampler=sampler, batch_size=25)

    return load


def ego_graphs(**options: Any) -> Configuration:
    """Our ``ShaDowKHopSampler``."""
    return lambda stored: ShaDowKHopSampler(
        stored.graph, 2, 3, NODES, batch_size=25, seed=3, **options
    )


PLAIN: dict[str, Configuration] = {
    "fanouts": around_nodes(),
    "three hops": around_nodes([3, 2, 2]),
    "all neighbours": around_nodes([-1]),
    "all neighbours, then some": around_nodes([-1, 3]),
    "replace": around_nodes(replace=True),
    "disjoint": around_nodes(disjoint=True),
    "disjoint, replace": around_nodes(disjoint=True, replace=True),
    "induced": around_nodes(subgraph_type="induced"),
    "induced, disjoint": around_nodes(subgraph_type="induced", disjoint=True),
    "bidirectional": around_nodes(subgraph_type="bidirectional"),
    "backward": around_nodes(sample_direction="backward"),
    "backward, disjoint": around_nodes(sample_direction="backward", disjoint=True),
    "both directions": around_nodes(sample_direction="both"),
    "both directions, replace": around_nodes(sample_direction="both", replace=True),
    "weighted": around_nodes(**WEIGHTED),
    "weighted, all neighbours": around_nodes([-1, 2], **WEIGHTED),
    "weighted, replace": around_nodes(**WEIGHTED, replace=True),
    "weighted, disjoint": around_nodes(**WEIGHTED, disjoint=True),
    "weighted, backward": around_nodes(**WEIGHTED, sample_direction="backward"),
    "weighted, by the graph's own": around_nodes(weighted=True),
    "in time": around_nodes(**IN_TIME),
    "in time, all neighbours": around_nodes([-1, 2], **IN_TIME),
    "in time, replace": around_nodes(**IN_TIME, replace=True),
    "in time, last": around_nodes(**IN_TIME, **LAST),
    "in time, strict": around_nodes(**IN_TIME, strict=True),
    "in time, window": around_nodes(**IN_TIME, window=4),
    "in time, last, strict, window": around_nodes(**IN_TIME, **LAST, strict=True, window=6),
    "in time, weighted": around_nodes(**IN_TIME, **WEIGHTED),
    "in time, weighted, last": around_nodes(**IN_TIME, **WEIGHTED, **LAST),
    "in time, by the graph's own": around_nodes(input_time=TIMES, **LAST),
    "repeated seeds": around_nodes(seeds=REPEATED),
    "repeated seeds, both directions": around_nodes(seeds=REPEATED, sample_direction="both"),
    "shuffled": around_nodes(shuffle=True),
    "several threads": around_nodes(num_threads=2, ahead=Ahead(3, threads=2)),
    "nothing ahead": around_nodes(ahead=0),
    "planned ahead": around_nodes(ahead=Ahead(plan=2)),
    "some attributes": around_nodes(node_attrs=["y"], edge_attrs=["edge_time", "number"]),
    "workers": around_nodes(**WORKERS),
    "workers, rows in the main process": around_nodes(**WORKERS, filter_per_worker=False),
    "workers, in time, weighted": around_nodes(**WORKERS, **IN_TIME, **WEIGHTED),
    "links": around_links(),
    "links, labels": around_links(edge_label=torch.arange(LINKS.shape[1]) % 3),
    "links, negatives": around_links(neg_sampling="binary"),
    "links, several negatives": around_links(
        neg_sampling=NegativeSampling("binary", 2.5), disjoint=True
    ),
    "links, weighted negatives": around_links(
        neg_sampling=NegativeSampling("triplet", 2, **dst_weight(torch.arange(COUNTS[NODE]) % 5.0))
    ),
    "links, triplets": around_links(neg_sampling="triplet"),
    "links, true negatives": around_links(neg_sampling={"mode": "triplet", "true_negatives": True}),
    "links, hidden": around_links(exclude="self"),
    "links, hidden both ways": around_links(
        exclude="reverse", neg_sampling={"mode": "binary", "true_negatives": True}
    ),
    "links, weighted": around_links(**WEIGHTED, exclude="self"),
    "links in time": around_links(**LINKS_IN_TIME),
    "links in time, negatives, last": around_links(
        **LINKS_IN_TIME, **LAST, neg_sampling="binary", exclude="reverse"
    ),
    "links, workers": around_links(**WORKERS, neg_sampling="binary"),
    "PyG's NodeLoader": stock_nodes(),
    "PyG's NodeLoader, workers": stock_nodes(loader={**WORKERS, "filter_per_worker": True}),
    "PyG's NodeLoader, weighted": stock_nodes(**WEIGHTED, disjoint=True),
    "PyG's NodeLoader, in time": stock_nodes(
        loader={"input_time": TIMES}, time_attr="edge_time", temporal_strategy="last"
    ),
    "PyG's NeighborLoader": stock_neighbors(),
    "PyG's LinkLoader": stock_links((None, LINKS), loader={"neg_sampling": "binary"}),
    "PyG's LinkLoader, in time": stock_links(
        (None, LINKS), loader={"edge_label_time": LINK_TIMES}, time_attr="edge_time"
    ),
    "ShaDow": ego_graphs(),
    "ShaDow, replace": ego_graphs(replace=True),
}

POSTS = (POST, torch.cat([torch.arange(0, 10), torch.arange(12, 120, 3)]))
USERS = (USER, torch.arange(0, 150, 4))
POST_TIMES = torch.arange(len(POSTS[1])) * 7 % (LATEST + 2)
TYPED_IN_TIME: dict[str, Any] = {"time_attr": "edge_time", "input_time": POST_TIMES}
TYPED_EDGES = typed_content().edges[VOTES]
VOTES_GIVEN = torch.from_numpy(np.stack([TYPED_EDGES["src"], TYPED_EDGES["dst"]])[:, ::24])
TYPED_LINKS = (VOTES, VOTES_GIVEN)
VOTE_TIMES = torch.arange(VOTES_GIVEN.shape[1]) * 3 % (LATEST + 2)
SAMPLES = {USER: [8, 6], POST: [7, 5], TAG: [3, 3], ROBOT: [2, 2]}


def around_posts(fanouts: Any = FANOUTS, seeds: Any = POSTS, **options: Any) -> Configuration:
    """Our loader of the neighbourhoods of nodes of one type of many."""
    return around_nodes(fanouts, seeds, **options)


def around_votes(fanouts: Any = FANOUTS, links: Any = TYPED_LINKS, **options: Any) -> Configuration:
    """Our loader of the neighbourhoods of the ends of links of one type of many."""
    return around_links(fanouts, links, **options)


def hgt(**options: Any) -> Configuration:
    """Our ``HGTLoader``."""
    return lambda stored: HGTLoader(stored.graph, SAMPLES, POSTS, batch_size=16, seed=3, **options)


TYPED: dict[str, Configuration] = {
    "fanouts": around_posts(),
    "fanouts by type": around_posts({VOTES: [4, 2], FOLLOWS: [3, 3], VOTED_BY: [2, 2]}),
    "all neighbours": around_posts([-1, -1]),
    "other seeds": around_posts(seeds=USERS),
    "replace": around_posts(replace=True),
    "disjoint": around_posts(disjoint=True),
    "induced": around_posts(subgraph_type="induced"),
    "bidirectional": around_posts(subgraph_type="bidirectional"),
    "backward": around_posts(sample_direction="backward"),
    "both directions": around_posts(sample_direction="both"),
    "weighted": around_posts(**WEIGHTED),
    "weighted, replace": around_posts(**WEIGHTED, replace=True),
    "weighted, disjoint": around_posts(**WEIGHTED, disjoint=True),
    "weighted, by the graph's own": around_posts(weighted=True),
    "in time": around_posts(**TYPED_IN_TIME),
    "in time, last": around_posts(**TYPED_IN_TIME, **LAST),
    "in time, strict": around_posts(**TYPED_IN_TIME, strict=True),
    "in time, window": around_posts(**TYPED_IN_TIME, window=4),
    "in time, weighted": around_posts(**TYPED_IN_TIME, **WEIGHTED),
    "in time, by the graph's own": around_posts(input_time=POST_TIMES, **LAST),
    "repeated seeds": around_posts(seeds=(POST, POSTS[1].repeat(2))),
    "shuffled": around_posts(shuffle=True),
    "several threads": around_posts(num_threads=2, ahead=Ahead(3, threads=2)),
    "workers": around_posts(**WORKERS),
    "links": around_votes(),
    "links, negatives": around_votes(neg_sampling="binary", disjoint=True),
    "links, triplets": around_votes(neg_sampling={"mode": "triplet", "true_negatives": True}),
    "links, hidden": around_votes(exclude="self"),
    "links, hidden both ways": around_votes(exclude="reverse", neg_sampling="binary"),
    "links, weighted": around_votes(**WEIGHTED),
    "links in time": around_votes(time_attr="edge_time", edge_label_time=VOTE_TIMES),
    "links of another type": around_votes(
        links=((USER, "saves", POST), VOTES_GIVEN), neg_sampling="binary"
    ),
    "links, workers": around_votes(**WORKERS, neg_sampling="binary", disjoint=True),
    "HGT": hgt(),
    "HGT, workers": hgt(**WORKERS),
    "PyG's NodeLoader": stock_nodes(POSTS),
    "PyG's NodeLoader, workers": stock_nodes(POSTS, loader=WORKERS),
    "PyG's NodeLoader, weighted": stock_nodes(POSTS, **WEIGHTED),
    "PyG's NodeLoader, in time": stock_nodes(
        POSTS, loader={"input_time": POST_TIMES}, time_attr="edge_time"
    ),
    "PyG's NodeLoader, in time, weighted": stock_nodes(
        POSTS, loader={"input_time": POST_TIMES}, time_attr="edge_time", **WEIGHTED
    ),
    "PyG's NeighborLoader": stock_neighbors(POSTS),
    "PyG's LinkLoader": stock_links(TYPED_LINKS, loader={"neg_sampling": "triplet"}),
    "PyG's LinkLoader, weighted": stock_links(
        TYPED_LINKS, loader={"neg_sampling": "binary"}, exclude="reverse", **WEIGHTED
    ),
    "PyG's LinkLoader, in time": stock_links(
        TYPED_LINKS, loader={"edge_label_time": VOTE_TIMES}, time_attr="edge_time", **LAST
    ),
}

NODE_TIMES: dict[str, Any] = {"time_attr": "node_time"}
TIMES_OF_NODES: dict[str, Configuration] = {
    "in time": around_nodes(**NODE_TIMES, input_time=TIMES),
    "in time of the seeds": around_nodes(**NODE_TIMES),
    "in time, last": around_nodes(**NODE_TIMES, input_time=TIMES, **LAST),
    "in time, strict, window": around_nodes(**NODE_TIMES, input_time=TIMES, strict=True, window=6),
    "in time, weighted": around_nodes(**NODE_TIMES, input_time=TIMES, **WEIGHTED),
    "links in time, negatives": around_links(
        **NODE_TIMES, edge_label_time=LINK_TIMES, neg_sampling="binary"
    ),
    "PyG's NodeLoader, in time": stock_nodes(**NODE_TIMES),
}

#: What a graph in the order of ids has no times for.
NEED_TIMES = {name for name in PLAIN if "in time" in name} | {"some attributes"}

#: Configurations that draw as another one does, and only work in another way.
ALIKE = {
    "several threads": "fanouts",
    "nothing ahead": "fanouts",
    "planned ahead": "fanouts",
    "workers": "fanouts",
    "workers, rows in the main process": "fanouts",
    "workers, in time, weighted": "in time, weighted",
    "weighted, by the graph's own": "weighted",
    "in time, by the graph's own": "in time, last",
    "HGT, workers": "HGT",
    "links, workers": "links, negatives",
    "PyG's NodeLoader, workers": "PyG's NodeLoader",
    "PyG's NeighborLoader": "PyG's NodeLoader",
}

# ---- columns: storages, and what they refuse -----------------------------------------------------

LIVE = tuple(name for name in STORAGES if "live" in name or name == "snapshot")
SERVED = ("served file", "served live graph")
BACKWARD = tuple(name for name in PLAIN if "backward" in name or "both directions" in name)

REFUSALS = (
    Refusal(
        BACKWARD, ("arrays of another library", *SERVED), errors.LayoutError,
        "out-neighbours are not stored: this graph has layout='csc'", "troubleshooting.md",
    ),
)  # fmt: skip

#: Faults of the package that are known. Once one is mended its cells fail here: take it out.
KNOWN_FAULTS: tuple[Fault, ...] = ()


# ---- the table -----------------------------------------------------------------------------------


def read(batch: Any, row_of: Any) -> Contents:
    """Return what a batch holds, its edge ids as rows of what all storages were made of."""
    found = {"class": type(batch).__name__, **contents(batch)}
    for kind, rows in row_of.items():
        name = f"{None if kind == EDGE else kind}.e_id"
        if name in found:
            assert found[name].dtype == torch.int64
            found[name] = torch.from_numpy(rows)[found[name]]
            assert bool((found[name] >= 0).all()), "an edge that is gone"
    return found


TABLE = Table(
    {
        "one type": Sheet(plain_content, PLAIN, tuple(STORAGES)),
        "one type by id": Sheet(
            content_by_id,
            {name: load for name, load in PLAIN.items() if name not in NEED_TIMES},
            LIVE,
        ),
        "one type with times of nodes": Sheet(
            content_with_node_times,
            TIMES_OF_NODES,
            tuple(STORAGES),
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
    KNOWN_FAULTS,
)


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Columns]:
    folder = tmp_path_factory.mktemp("equality")
    with Columns(TABLE, folder, lambda: torch.manual_seed(5)) as columns:
        yield columns


@pytest.mark.own_share
@pytest.mark.parametrize(("sheet", "row", "column"), TABLE.cells())
def test_batches(columns: Columns, sheet: str, row: str, column: str) -> None:
    columns.check(sheet, row, column)


# ---- that it can fail ----------------------------------------------------------------------------


class TestTheTable(TableRules):
    table = TABLE


@pytest.mark.parametrize("name", ["src", "edge_time", "edge_weight", "edge_attr", "number", "x"])
def test_one_value_that_differs_is_noticed(columns: Columns, name: str) -> None:
    content = plain_content()
    edges = content.edges[EDGE]
    values = edges.get(name, content.rows[NODE]["x"])
    edge = int(np.flatnonzero(edges["dst"] == NODES[3].item())[0])
    values[edge if name in edges else NODES[3]] += 1
    batches = columns.batches("one type", "all neighbours", build(content))
    with pytest.raises(AssertionError, match="batch 0: "):
        assert_same(batches, columns.wanted("one type", "all neighbours"))
