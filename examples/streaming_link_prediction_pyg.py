"""Links of a stream: each is first predicted, then learned, while more of them come.

A thread appends links to a file, as a program of its own would; an ingestor takes them into the
graph. Training asks the graph what is new, predicts that from what was there before, and learns it.
With a topic of Kafka only the line with FileSource differs.

    python examples/streaming_link_prediction_pyg.py [--nodes 2000] [--links 200000] [--quick]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch
from live_link_prediction_pyg import GROUPS, Model, auc, average_precision, coming_links, learn

from aethergraph import DynamicGraph
from aethergraph.pyg import LinkNeighborLoader
from aethergraph.streaming import FileSource, Ingestor, Schema


def write(path: Path, num_nodes: int, num_links: int, size: int) -> None:
    """Append the links to a file, some at a time, as they happen."""
    (writers, readers), times = coming_links(num_nodes, num_links)
    columns = zip(writers.tolist(), readers.tolist(), times.tolist(), strict=True)
    lines = [json.dumps({"writer": w, "reader": r, "time": t}) + "\n" for w, r, t in columns]
    for begin in range(0, len(lines), size):
        with path.open("a") as file:
            file.writelines(lines[begin : begin + size])
        time.sleep(0.01)


def follow(graph: DynamicGraph, ingestor: Ingestor, num_links: int, size: int) -> torch.Tensor:
    """Predict and learn links until all have come; return scores and labels of the second half."""
    model, found, seen = Model(), list[torch.Tensor](), 0
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    while seen < num_links:
        ingestor.check()  # an error of the stream ends training, too
        with graph.snapshot() as now:
            new = np.arange(seen, min(now.end_edge_ids, seen + size))
            if len(new) == 0:
                time.sleep(0.01)
                continue
            reader, writer = now.edge_ends(new)
            when = torch.from_numpy(now.edge_values["edge_time"].gather(new))
            # A seed sees edges before its time alone, so what is predicted is not seen.
            loader = LinkNeighborLoader(
                now, [4], torch.from_numpy(np.stack([writer, reader])), edge_label_time=when,
                time_attr="edge_time", temporal_strategy="last", strict=True,
                neg_sampling="binary", batch_size=size,
            )  # fmt: skip
            found += learn(model, optimizer, loader)
        seen += len(new)
    return torch.cat(found[len(found) // 2 :], dim=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=2_000)
    parser.add_argument("--links", type=int, default=200_000)
    parser.add_argument("--quick", action="store_true", help="fewer people and links")
    args = parser.parse_args()
    nodes, links, size = (200, 20_000, 200) if args.quick else (args.nodes, args.links, 500)
    torch.manual_seed(1)
    graph = DynamicGraph(nodes, arena_mb=256, layout="csc", order="time", edge_time="int64")
    group = np.eye(GROUPS, dtype=np.float32)[np.arange(nodes) % GROUPS]
    graph.features = 3 * group + np.random.default_rng(1).normal(size=group.shape).astype("f4")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "links.jsonl"
        path.touch()
        schema = Schema.json(src="reader", dst="writer", time="time")
        sender = threading.Thread(target=write, args=(path, nodes, links, size))
        with Ingestor(graph, FileSource(path, schema, interval=0.01)) as ingestor:
            sender.start()
            score, label = follow(graph, ingestor, links, size)
            sender.join()
            stats = ingestor.stats()
    print(f"{stats.records} links in {stats.commits} commits, watermark {stats.watermark}")
    print(f"AUC {auc(score, label):.3f}, where chance is one half")
    print(f"average precision {average_precision(score, label):.3f} of links as they came")


if __name__ == "__main__":
    main()
