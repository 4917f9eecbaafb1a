"""Accuracy parity: the same GraphSAGE on the same graph, through PyG's loader and through ours.

    python benchmarks/accuracy.py [--quick]

A graph of communities (aethergraph.testing.graphs) whose labels the features alone barely show.
Each seed sets the weights, the order of seeds and the sampling; test accuracy is measured with all
neighbours, by the same code for all. If PyG cannot sample here (neither pyg-lib nor
torch-sparse), the comparison is full-neighbour training on PyG's Data, which needs no sampler.

"Within noise" is an exact permutation test, two-sided: the share of all ways to split the runs in
two groups whose means differ at least as much as these.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from harness import common
from harness.common import Report
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

FANOUTS, BATCH, HIDDEN = [10, 5], 512, 64
OURS = ("stock NodeLoader, aethergraph", "aethergraph NeighborLoader")
ACCURACY = "test accuracy, % (mean ± std)"
PYG, FULL = "PyG NeighborLoader", "PyG Data, full-neighbour training"


def make_data(quick: bool) -> tuple[Data, Any]:
    """The same graph as PyG's Data and as ours; a tenth of the nodes to train, a tenth to test."""
    from aethergraph import Graph
    from aethergraph.testing.graphs import CommunityGraph

    nodes = 2_000 if quick else 100_000
    made = CommunityGraph(
        num_nodes=nodes, num_edges=10 * nodes, num_classes=8, num_features=32, homophily=0.6, seed=0
    )
    src, dst = made.edges()
    x, y = made.feature_rows(0, nodes), made.labels
    edges = torch.stack((torch.from_numpy(src), torch.from_numpy(dst)))
    data = Data(x=torch.from_numpy(x), y=torch.from_numpy(y), edge_index=edges)
    graph = Graph.from_edges(nodes, src, dst)
    graph.features = x
    graph.node_attrs["y"] = y
    return data, graph


def loader_makers(data: Data, graph: Any) -> dict[str, Callable[[Tensor], Iterable[Any]]]:
    """Name -> loader over training seeds."""
    from torch_geometric.loader import NodeLoader

    from aethergraph.pyg import FeatureStore, GraphStore, NeighborLoader, NeighborSampler

    options: dict[str, Any] = {"batch_size": BATCH, "shuffle": True}
    stores = FeatureStore.from_graph(graph), GraphStore(graph)
    makers: dict[str, Callable[[Tensor], Iterable[Any]]] = {
        OURS[0]: lambda seeds: NodeLoader(
            stores, NeighborSampler(stores, FANOUTS), seeds, **options
        ),
        OURS[1]: lambda seeds: NeighborLoader(graph, FANOUTS, seeds, **options),
    }
    if common.pyg_sampler() is None:
        return {FULL: lambda seeds: [data], **makers}
    from torch_geometric.loader import NeighborLoader as PygNeighborLoader

    return {PYG: lambda seeds: PygNeighborLoader(data, FANOUTS, seeds, **options), **makers}


def train(
    loader: Iterable[Any], data: Data, seeds: Tensor, test: Tensor, steps: int, seed: int
) -> float:
    """Test accuracy, percent, after ``steps`` optimizer steps."""
    torch.manual_seed(seed)
    x, y, edges = data.x, data.y, data.edge_index
    assert x is not None and edges is not None and isinstance(y, Tensor)
    model = GraphSAGE(x.shape[1], HIDDEN, num_layers=2, out_channels=int(y.max()) + 1, dropout=0.2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    model.train()
    taken = 0
    while taken < steps:
        for batch in loader:
            mine = seeds if batch is data else slice(0, batch.batch_size)
            out = model(batch.x, batch.edge_index)[mine]
            loss = torch.nn.functional.cross_entropy(out, batch.y[mine])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            taken += 1
            if taken == steps:
                break
    model.eval()
    with torch.no_grad():
        right = model(x, edges)[test].argmax(1) == y[test]
    return 100 * float(right.float().mean())


def permutation_p(first: Sequence[float], second: Sequence[float]) -> float:
    """Exact two-sided p of the difference of means, over all splits of the pooled values."""
    pooled, size = [*first, *second], len(first)
    total = sum(pooled)
    observed = abs(statistics.mean(first) - statistics.mean(second)) - 1e-12
    count = extreme = 0
    for chosen in itertools.combinations(pooled, size):
        mean = sum(chosen) / size
        other = (total - sum(chosen)) / (len(pooled) - size)
        extreme += abs(mean - other) >= observed
        count += 1
    return extreme / count


def main(argv: Sequence[str] | None = None) -> None:
    args = common.parse(common.parser(__doc__), argv)
    report = Report("accuracy", "Accuracy parity: GraphSAGE, test accuracy", args)
    data, graph = make_data(args.quick)
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(7))
    tenth = graph.num_nodes // 10
    train_ids, test_ids = order[:tenth], order[tenth : 2 * tenth]
    makers = loader_makers(data, graph)
    if FULL in makers:
        report.note(
            "PyG's NeighborLoader is missing (neither pyg-lib nor torch-sparse): compared with "
            "full-neighbour training on PyG's Data instead, which needs no sampler."
        )
    seeds, steps = (2, 10) if args.quick else (5, 200)
    scores: dict[str, list[float]] = {name: [] for name in makers}
    taken = dict.fromkeys(makers, 0.0)
    for seed in range(seeds):
        for name, make in makers.items():
            common.say(f"seed {seed}, {name}")
            start = time.perf_counter()
            loader = make(train_ids)
            scores[name].append(train(loader, data, train_ids, test_ids, steps, seed))
            taken[name] += time.perf_counter() - start
    base = next(iter(makers))
    rows: list[list[common.Cell]] = []
    for name, values in scores.items():
        p = permutation_p(values, scores[base])
        rows.append(
            [name, f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}",
             *(("-", "-", "-") if name == base else
               (f"{statistics.mean(values) - statistics.mean(scores[base]):+.2f}", p,
                "yes" if p > 0.05 else "no")),
             round(taken[name], 1)]
        )  # fmt: skip
    report.parameters = {"nodes": graph.num_nodes, "edges": graph.num_edges, "seeds": seeds,
                         "steps": steps, "fanouts": FANOUTS, "batch": BATCH}  # fmt: skip
    report.data = {"accuracy_percent": scores, "seconds": taken}
    report.table(
        f"{seeds} seeds, {steps} steps of {BATCH} seeds, fanouts {FANOUTS}",
        ["", ACCURACY, f"against {base}", "p, two-sided",
         "within noise (p > 0.05)", "seconds in all"],
        rows,
    )  # fmt: skip

    draw(report)
    report.finish()


def draw(report: Report) -> None:
    def panels(axes: Sequence[Any]) -> None:
        rows = report.rows()
        for place, row in enumerate(rows):
            mean, deviation = map(float, row[ACCURACY].split(" ± "))
            color = common.COLORS[0] if "aethergraph" in row[""] else common.PEER_COLORS[1]
            axes[0].errorbar(mean, place, xerr=deviation, fmt="o", color=color, capsize=4)
        axes[0].set_yticks(range(len(rows)), [row[""] for row in rows])
        axes[0].set_ylim(-0.5, len(rows) - 0.5)
        axes[0].invert_yaxis()
        axes[0].set_xlabel(ACCURACY)

    common.plot(report, 1, panels)


if __name__ == "__main__":
    main()
