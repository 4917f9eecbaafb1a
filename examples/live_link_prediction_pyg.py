"""Who writes to whom next? Links of a live graph, each predicted before the model learns it.

Everybody writes to people of one group for a while, then turns to another. Links come in batches.
Each batch is first predicted, beside as many random pairs; then learned; then inserted.

    python examples/live_link_prediction_pyg.py [--nodes 2000] [--links 200000] [--quick]
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from aethergraph import DynamicGraph
from aethergraph.pyg import LinkNeighborLoader

GROUPS, PERIODS, WIDTH = 8, 10, 32


def coming_links(num_nodes: int, num_links: int) -> tuple[Tensor, Tensor]:
    """Return links [2, E], writer and reader, in the order in which they come, and their times."""
    rng = np.random.default_rng(0)
    time = np.arange(num_links)
    writer = rng.integers(0, num_nodes, num_links)
    turned_to = rng.integers(0, GROUPS, (num_nodes, PERIODS))[writer, time * PERIODS // num_links]
    reader = rng.integers(0, num_nodes // GROUPS, num_links) * GROUPS + turned_to
    return torch.from_numpy(np.stack([writer, reader])), torch.from_numpy(time)


class Model(torch.nn.Module):
    """GraphSAGE with the age of a link in its messages; scores pairs of writer and reader."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = torch.nn.Linear(1, WIDTH)
        self.message = torch.nn.Linear(GROUPS + WIDTH, WIDTH)
        self.own, self.reader = torch.nn.Linear(GROUPS, WIDTH), torch.nn.Linear(GROUPS, WIDTH)

    def forward(self, batch: Data) -> Tensor:
        src, dst = batch.edge_index
        age = batch.edge_label_time[batch.batch[dst]] - batch.edge_time
        assert bool((age > 0).all())  # nothing comes from the future
        when = torch.cos(self.clock(age[:, None].float().log1p()))
        sent = self.message(torch.cat([batch.x[src], when], dim=-1)).relu()
        seen = self.own(batch.x) + scatter(sent, dst, dim_size=len(batch.x), reduce="mean")
        writer, reader = batch.edge_label_index
        return (seen[writer] * self.reader(batch.x[reader])).sum(dim=-1)


def auc(score: Tensor, label: Tensor) -> float:
    """Area under the ROC curve: how often a link scores above a random pair."""
    links, others = score[label > 0.5], score[label < 0.5].sort().values
    return float(torch.searchsorted(others, links).double().mean() / len(others))


def average_precision(score: Tensor, label: Tensor) -> float:
    """Mean share of links among all that score at least as high, over the links."""
    hits = label[score.argsort(descending=True)].cumsum(0)
    ranks = torch.arange(1, len(hits) + 1)
    return float((hits / ranks)[hits.diff(prepend=torch.zeros(1)) > 0].double().mean())


def learn(
    model: Model, optimizer: torch.optim.Optimizer, loader: LinkNeighborLoader
) -> list[Tensor]:
    """Predict the links of each batch, then learn them; return their scores and labels [2, n]."""
    found = []
    for batch in loader:
        score = model(batch)
        found.append(torch.stack([score.detach(), batch.edge_label]))
        loss = F.binary_cross_entropy_with_logits(score, batch.edge_label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return found


def follow(fanout: int, num_nodes: int, num_links: int, size: int) -> tuple[float, float]:
    """Go through the links; return AP and AUC of the second half, before each was learned."""
    torch.manual_seed(1)
    links, time = coming_links(num_nodes, num_links)
    graph = DynamicGraph(num_nodes, arena_mb=256, layout="csc", order="time", edge_time="int64")
    group = np.eye(GROUPS, dtype=np.float32)[np.arange(num_nodes) % GROUPS]
    noise = np.random.default_rng(1).normal(size=group.shape)
    graph.features = 3 * group + noise.astype(np.float32)
    model, found = Model(), list[Tensor]()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for coming, when in zip(links.split(size, dim=1), time.split(size), strict=True):
        with graph.snapshot() as before:  # the graph without these links
            loader = LinkNeighborLoader(
                before, [fanout], coming, edge_label_time=when, time_attr="edge_time",
                temporal_strategy="last", strict=True, neg_sampling="binary", batch_size=size,
            )  # fmt: skip
            found += learn(model, optimizer, loader)
        writer, reader = coming
        graph.insert_edges(reader, writer, time=when)  # in-edges: whom a writer wrote to
    score, label = torch.cat(found[len(found) // 2 :], dim=1)
    return average_precision(score, label), auc(score, label)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=2_000)
    parser.add_argument("--links", type=int, default=200_000)
    parser.add_argument("--batch-size", type=int, default=500)
    parser.add_argument("--quick", action="store_true", help="fewer people and links")
    args = parser.parse_args()
    size = (200, 20_000, 200) if args.quick else (args.nodes, args.links, args.batch_size)
    (ap, area), (without, _) = follow(4, *size), follow(0, *size)
    print(f"AUC {area:.3f}, where chance is one half")
    print(f"average precision {ap:.3f} from recent links, {without:.3f} from none")


if __name__ == "__main__":
    main()
