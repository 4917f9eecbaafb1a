"""From a database to a trained model: PyTorch Frame encodes columns, a HeteroGraphSAGE rows.

A shop in SQLite becomes a graph, with its columns beside it. Does a user order in the next 90 days?
The answer is in when a user ordered, what, and in what they wrote about themselves; each batch
sees only what was there at the time of its rows.

    python examples/relational_frame_pyg.py [--users 4000] [--epochs 4] [--quick]
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
import torch_frame
from torch import Tensor
from torch_frame.nn import (
    EmbeddingEncoder,
    LinearEmbeddingEncoder,
    LinearEncoder,
    StypeWiseFeatureEncoder,
    TimestampEncoder,
)
from torch_geometric.data import HeteroData
from torch_geometric.nn import HeteroConv, SAGEConv

from aethergraph import HeteroGraph
from aethergraph.convert import NodeTable, TableSchema, tables
from aethergraph.pyg import HeteroNeighborLoader
from aethergraph.tasks import TableTask
from aethergraph.testing import check_no_leak

WORDS = ["often", "rarely", "gifts", "books", "garden", "music"]
CHANNELS = 32


def make_shop(path: Path, users: int) -> None:
    """Write users, products and orders; half of the users go in summer, as their texts hint."""
    rng = np.random.default_rng(0)
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE user (id TEXT PRIMARY KEY, age INTEGER, country TEXT, bio TEXT)")
        db.execute("CREATE TABLE product (sku TEXT PRIMARY KEY, price REAL, kind TEXT)")
        db.execute(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, user_id TEXT REFERENCES user (id),"
            " sku TEXT REFERENCES product (sku), placed TEXT)"
        )
        stays = rng.random(users) < 0.5
        for n in range(users):
            word = WORDS[0 if (rng.random() < 0.8) == stays[n] else 1]
            bio = f"{word} {WORDS[rng.integers(2, len(WORDS))]}"
            age = None if rng.random() < 0.1 else int(rng.integers(18, 80))
            country = ["de", "fr", "it", None][rng.integers(0, 4)]
            db.execute("INSERT INTO user VALUES (?, ?, ?, ?)", (f"u{n}", age, country, bio))
        for n in range(100):
            row = f"p{n}", float(rng.uniform(1, 99)), ["toy", "book", "tool"][n % 3]
            db.execute("INSERT INTO product VALUES (?, ?, ?)", row)
        start = np.datetime64("2024-01-01T12:00:00")
        for n in range(users * 12):
            user = int(rng.integers(0, users))
            when = start + np.timedelta64(int(rng.integers(0, 360 if stays[user] else 170)), "D")
            row = (n, f"u{user}", f"p{rng.integers(0, 100)}", str(when).replace("T", " "))
            db.execute("INSERT INTO orders VALUES (?, ?, ?, ?)", row)
    db.close()


def build(folder: Path) -> HeteroGraph:
    """Make the graph of the database, with its columns beside it."""
    database = folder / "shop.db"

    def table(name: str) -> dict[str, str]:
        return {"sqlite": os.fspath(database), "table": name}

    schema = TableSchema({
        "user": NodeTable(
            table("user"), "id", columns={"age": "number", "country": "category", "bio": "text"}
        ),
        "product": NodeTable(
            table("product"), "sku", columns={"price": "number", "kind": "category"}
        ),
        "order": NodeTable(
            table("orders"), "id", time="placed", columns={"placed": "time"},
            foreign={"user_id": "user", "sku": "product"},
        ),
    })  # fmt: skip
    tables(schema, folder / "shop.aeg", memory_budget="1G")
    return HeteroGraph.load(folder / "shop.aeg")


def embed(texts: list[str]) -> Tensor:
    """Count words: a sentence encoder would stand here."""
    return torch.tensor([[float(one.count(word)) for word in WORDS] for one in texts])


class Model(torch.nn.Module):
    """Encoders of PyTorch Frame by node type, then two layers of GraphSAGE over all edge types."""

    def __init__(self, graph: HeteroGraph) -> None:
        super().__init__()
        self.columns = graph.columns
        self.encoders = torch.nn.ModuleDict()
        for name, store in self.columns.items():
            texts = {c.name: len(WORDS) for c in store.columns.values() if c.kind == "text"}
            frame = store.tensor_frame([0], encoders=dict.fromkeys(texts, embed))
            encoders = {
                torch_frame.numerical: LinearEncoder(na_strategy=torch_frame.NAStrategy.MEAN),
                torch_frame.categorical: EmbeddingEncoder(
                    na_strategy=torch_frame.NAStrategy.MOST_FREQUENT
                ),
                torch_frame.timestamp: TimestampEncoder(),
                torch_frame.embedding: LinearEmbeddingEncoder(),
            }
            self.encoders[name] = StypeWiseFeatureEncoder(
                CHANNELS, store.frame_statistics(texts), frame.col_names_dict,
                {stype: encoders[stype] for stype in frame.col_names_dict},
            )  # fmt: skip
        self.layers = torch.nn.ModuleList(
            HeteroConv({kind: SAGEConv(CHANNELS, CHANNELS) for kind in graph.edge_types})
            for _ in range(2)
        )
        self.head = torch.nn.Linear(CHANNELS, 2)

    def encode(self, name: str, ids: Tensor) -> Tensor:
        """Return a vector for each row: the mean over its columns."""
        store = self.columns[name]
        texts = [c.name for c in store.columns.values() if c.kind == "text"]
        frame = store.tensor_frame(ids, encoders=dict.fromkeys(texts, embed))
        return self.encoders[name](frame)[0].mean(dim=1)

    def forward(self, batch: HeteroData) -> Tensor:
        """Return scores of the users that the batch was asked for."""
        x = {name: self.encode(name, batch[name].n_id) for name in batch.node_types}
        for layer in self.layers:
            x = {**x, **{name: out.relu() for name, out in layer(x, batch.edge_index_dict).items()}}
        return self.head(x["user"])[: batch["user"].batch_size]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--quick", action="store_true", help="a small shop")
    args = parser.parse_args()
    users, epochs = (400, 4) if args.quick else (args.users, args.epochs)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_shop(folder / "shop.db", users)
        graph = build(folder)
        days = "VALUES ('2024-06-20'), ('2024-07-05'), ('2024-07-20'), ('2024-09-01')"
        query = f"""
            WITH days(date) AS ({days})
            SELECT user.id AS user_id, date, EXISTS (
                SELECT 1 FROM orders WHERE user_id = user.id AND placed > date
                AND placed <= DATE(date, '+90 days')
            ) AS active FROM user, days ORDER BY date, user.id
        """
        task = TableTask(
            graph, {"sqlite": folder / "shop.db", "query": query},
            entity_table="user", entity_col="user_id", time_col="date", target_col="active",
        )  # fmt: skip
        train, val, _ = task.split(val="2024-07-20", test="2024-09-01")

        def loader(part: TableTask) -> HeteroNeighborLoader:
            return HeteroNeighborLoader(
                graph, [16, 8], **part.node_input(), transform=part.attach_labels,
                batch_size=50, shuffle=True,
            )  # fmt: skip

        print(check_no_leak(graph, loader(train)))
        model = Model(graph)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
        for epoch in range(epochs):
            for batch in loader(train):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(batch), batch["user"].y)
                loss.backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                right = [(model(b).argmax(1) == b["user"].y).float().mean() for b in loader(val)]
            model.train()
            print(f"epoch {epoch + 1}: validation accuracy {torch.stack(right).mean():.3f}")


if __name__ == "__main__":
    main()
