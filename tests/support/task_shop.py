"""A shop of users, products and orders in time, and training tables over it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from aethergraph import HeteroGraph
from aethergraph.convert import ForeignKey, NodeTable, TableSchema, tables

__all__ = ["DAY", "make_shop", "training_rows"]

DAY = np.datetime64("2024-01-01")


def make_shop(folder: Path, orders: int = 400) -> HeteroGraph:
    """Build a graph of 30 users, 12 products and orders on 100 days."""
    rng = np.random.default_rng(3)
    users = {"id": [f"u{n}" for n in rng.permutation(30)]}
    products = {"shop": [n % 3 for n in range(12)], "sku": [f"p{n}" for n in range(12)]}
    bought = rng.integers(0, 12, orders)
    rows = {
        "id": rng.permutation(orders),
        "user": [f"u{n}" for n in rng.integers(0, 30, orders)],
        "shop": bought % 3,
        "sku": [f"p{n}" for n in bought],
        "placed": DAY + rng.integers(0, 100, orders).astype("timedelta64[D]"),
    }
    schema = TableSchema(
        {
            "user": NodeTable(users, key="id"),
            "product": NodeTable(products, key=("shop", "sku")),
            "order": NodeTable(
                rows, key="id", time="placed", foreign={"buyer": to("user", "user"),
                "of": to("product", ("shop", "sku"))},
            ),
        },
        time_unit="s",
    )  # fmt: skip
    tables(schema, folder / "shop.aeg")
    return HeteroGraph.load(folder / "shop.aeg")


def to(name: str, columns: Any) -> ForeignKey:
    return ForeignKey(name, columns)


def training_rows(count: int = 60) -> dict[str, Any]:
    """Return rows of a training table: a user, a day, labels."""
    rng = np.random.default_rng(4)
    return {
        "user_id": [f"u{n}" for n in rng.integers(0, 30, count)],
        "date": DAY + rng.integers(0, 100, count).astype("timedelta64[D]"),
        "churn": rng.integers(0, 2, count),
        "spent": rng.integers(0, 99, count) / 4,
    }
