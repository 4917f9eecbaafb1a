"""Stock loaders with LookAhead ask a server for the rows of coming batches; batches stay equal."""

from __future__ import annotations

import numpy as np
import torch
from torch.utils.data import BatchSampler, SequentialSampler
from torch_geometric.loader import NodeLoader

from aethergraph import Graph
from aethergraph.pyg import FeatureStore, GraphStore, LookAhead, NeighborSampler
from aethergraph.remote import FeatureServer, open_source
from aethergraph.remote.rows import RemoteRows


def test_rows_of_coming_batches() -> None:
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 500, (2, 4000))
    table = rng.random((500, 8), dtype=np.float32)
    plans = []
    with FeatureServer(table, port=0) as server, open_source(server.address) as rows:
        assert isinstance(rows, RemoteRows)
        plan = rows.plan
        rows.plan = lambda lists: plans.append(plan(lists)) or plans[-1]  # type: ignore
        found = {}
        for ahead in (0, 3):
            graph = Graph.from_edges(500, src, dst)
            graph.node_attrs["x"] = rows
            stores = FeatureStore.from_graph(graph), GraphStore(graph)
            sampler = NeighborSampler(stores, [5, 5])
            nodes = torch.arange(200)
            batches = BatchSampler(SequentialSampler(nodes), 20, False)
            look = LookAhead(sampler, nodes, batches, plan=ahead, features=stores[0])
            torch.manual_seed(0)
            found[ahead] = list(NodeLoader(stores, sampler, nodes, batch_sampler=look))
        assert len(plans) == 4 and len(found[0]) == len(found[3]) == 10
        for one, other in zip(found[0], found[3], strict=True):
            assert torch.equal(one.n_id, other.n_id) and torch.equal(one.x, other.x)
            assert (other.x.numpy() == table[other.n_id.numpy()]).all()
        assert all("0 to come" in repr(one) for one in plans)
