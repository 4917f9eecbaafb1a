"""What each of several training processes does in test_distributed.py."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from support.pyg import make_graph
from support.training_ranks import work_as_rank
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler
from torch_geometric.loader import NodeLoader

from aethergraph import HeteroGraph, SubgraphLoader
from aethergraph.loading import Order
from aethergraph.pyg import (
    FeatureStore,
    GraphStore,
    HeteroNeighborLoader,
    LinkNeighborLoader,
    NeighborLoader,
    NeighborSampler,
)

KNOWS = ("user", "knows", "user")


def typed_graph() -> HeteroGraph:
    src, dst = make_graph().edge_index()
    return HeteroGraph.from_edges({KNOWS: (src, dst)}, num_nodes={"user": 150})


def loaders(**options: Any) -> dict[str, Any]:
    """One loader of each kind, of 13 batches or so."""
    given = {"batch_size": 12, "shuffle": True, "seed": 5, **options}
    links = torch.arange(140).reshape(2, 70)
    graph = make_graph()
    return {
        "nodes": NeighborLoader(graph, [4, 3], **given),
        "workers": NeighborLoader(graph, [4, 3], num_workers=1, **given),
        "links": LinkNeighborLoader(graph, [4, 3], links, neg_sampling="binary", **given),
        "typed": HeteroNeighborLoader(typed_graph(), [4, 3], "user", **given),
        "typed links": LinkNeighborLoader(
            typed_graph(), [4], (KNOWS, links), neg_sampling="triplet", **given
        ),
    }


def plain(batch: Any) -> dict[str, Any]:
    """Everything in a batch, as what ``torch.save`` takes without classes of ours."""
    stores = getattr(batch, "node_stores", None)
    parts = [batch] if stores is None else [*stores, *batch.edge_stores]
    return {
        f"{number} {name}": value
        for number, part in enumerate(parts)
        for name, value in part.items()
        if isinstance(value, (torch.Tensor, int, list))
    }


def assert_same(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    """Two runs gave the same batches, each as :func:`plain` gives it."""
    assert len(found) == len(wanted)
    for batch, other in zip(found, wanted, strict=True):
        assert batch.keys() == other.keys()
        for name, value in other.items():
            same = torch.equal(batch[name], value) if torch.is_tensor(value) else None
            assert batch[name] == value if same is None else same, name


def core_batches(**options: Any) -> list[dict[str, Any]]:
    loader = SubgraphLoader(make_graph(), [4, 3], batch_size=12, shuffle=True, seed=5, **options)
    return [
        {"node": torch.from_numpy(b.subgraph.node), "index": torch.from_numpy(b.index)}
        for b in loader
    ]


def stock(sampler: Any = None) -> list[dict[str, Any]]:
    """Batches of PyG's stock loader over our stores, of one epoch."""
    graph = make_graph()
    stores = FeatureStore.from_graph(graph), GraphStore(graph)
    loader = NodeLoader(
        stores, NeighborSampler(stores, [4, 3], seed=1), torch.arange(150), batch_size=12,
        sampler=sampler,
    )  # fmt: skip
    return [plain(batch) for batch in loader]


def joined(rank: int) -> dict[str, Any]:
    """Train with torch's Join, while some ranks have a batch less than others."""
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    loader = loaders(order=Order(world_size="auto", last_round="keep"))["nodes"]
    seen = []
    with Join([model]):
        for batch in loader:
            optimizer.zero_grad()
            model(batch.input_id[:, None].float()).square().mean().backward()
            optimizer.step()
            seen.append(batch.input_id)
    weights = torch.cat([one.detach().flatten() for one in model.parameters()])
    return {"seeds": torch.cat(seen), "batches": len(seen), "weights": weights}


def share(rank: int) -> dict[str, Any]:
    """Return this rank's batches of every loader."""
    torch.manual_seed(rank)  # ranks need not agree on torch's generator
    found: dict[str, Any] = {"core": core_batches(order=Order(world_size="auto"))}
    for name, loader in loaders(order=Order(world_size="auto")).items():
        found[name] = [[plain(batch) for batch in loader] for _ in range(2)]
    for name, loader in loaders().items():
        found[f"{name} alone"] = len(loader)
    sampler = DistributedSampler(range(150), shuffle=True, seed=2)
    sampler.set_epoch(3)
    found["stock"] = stock(sampler)
    found["joined"] = joined(rank)
    return found


def work(rank: int, world_size: int, folder: str) -> None:
    work_as_rank(rank, world_size, folder, partial(share, rank))
