"""Who writes to whom next? Links in time, predicted from each person's most recent links.

Everybody writes to people of one group for a while, then turns to another. A model that sees a
writer's last links learns that; links of any age help little, and none not at all.

    python examples/temporal_link_prediction_pyg.py [--nodes 4000] [--epochs 3] [--quick]
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv

from aethergraph import Graph
from aethergraph.pyg import LinkNeighborLoader

GROUPS, PERIODS, LINKS_PER_PERIOD = 8, 10, 10


def make_graph(num_nodes: int) -> tuple[Graph, Tensor, Tensor]:
    """The graph, whose edges go from reader to writer, links [2, E] to predict, their times [E]."""
    rng = np.random.default_rng(0)
    writer = np.repeat(np.arange(num_nodes), PERIODS * LINKS_PER_PERIOD)
    time = rng.integers(0, 1000, writer.size)
    turned_to = rng.integers(0, GROUPS, (num_nodes, PERIODS))[writer, time * PERIODS // 1000]
    reader = rng.integers(0, num_nodes // GROUPS, writer.size) * GROUPS + turned_to
    graph = Graph.from_edges(num_nodes, reader, writer, edge_time=time)
    group = np.eye(GROUPS, dtype=np.float32)[np.arange(num_nodes) % GROUPS]
    graph.features = 3 * group + rng.normal(size=group.shape).astype(np.float32)
    return graph, torch.from_numpy(np.stack([writer, reader])), torch.from_numpy(time)


class Model(torch.nn.Module):
    """Scores pairs by what the writer's neighbours and the reader are like."""

    def __init__(self) -> None:
        super().__init__()
        self.writer, self.reader = SAGEConv(GROUPS, 32), torch.nn.Linear(GROUPS, 32)

    def forward(self, batch: Data) -> Tensor:
        writer, reader = batch.edge_label_index
        seen = self.writer(batch.x, batch.edge_index)
        return (seen[writer] * self.reader(batch.x[reader])).sum(dim=-1)


def auc(score: Tensor, label: Tensor) -> float:
    """Area under the ROC curve: how often a link scores above a random pair."""
    links, others = score[label > 0.5], score[label < 0.5].sort().values
    return float(torch.searchsorted(others, links).double().mean() / len(others))


def future_auc(fanout: int, strategy: str, num_nodes: int, epochs: int) -> float:
    """Train on links of the past, test on later ones."""
    torch.manual_seed(1)
    graph, links, time = make_graph(num_nodes)

    def loader(when: Tensor) -> LinkNeighborLoader:
        chosen = when.nonzero()[torch.randperm(int(when.sum()))[: 4 * num_nodes], 0]
        return LinkNeighborLoader(
            graph, [fanout], links[:, chosen], edge_label_time=time[chosen], time_attr="edge_time",
            temporal_strategy=strategy, strict=True, neg_sampling="binary", batch_size=256,
        )  # fmt: skip

    past, future = loader((time > 100) & (time < 700)), loader(time >= 700)
    model, found = Model(), []
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(epochs):
        for batch in past:
            loss = F.binary_cross_entropy_with_logits(model(batch), batch.edge_label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    for batch in future:
        # batch.batch tells the trees of the links apart: all edges of each are earlier.
        asked = batch.edge_label_time[batch.batch[batch.edge_index[1]]]
        assert bool((batch.edge_time < asked).all())
        found.append(torch.stack([model(batch).detach(), batch.edge_label]))
    return auc(*torch.cat(found, dim=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=4_000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a small graph, two epochs")
    args = parser.parse_args()
    size = (1_000, 2) if args.quick else (args.nodes, args.epochs)
    found = [future_auc(*seen, *size) for seen in ((4, "last"), (4, "uniform"), (0, "last"))]
    print("test AUC: {:.3f} from recent links, {:.3f} from any, {:.3f} from none".format(*found))


if __name__ == "__main__":
    main()
