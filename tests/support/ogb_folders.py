"""Folders of OGB's node datasets in all four layouts, written here as OGB writes them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np

WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")
RNG = np.random.default_rng(0)
SRC, DST = RNG.integers(0, 30, (2, 200))
X = RNG.random((30, 4)).astype(np.float32)
Y = RNG.integers(0, 5, (30, 1))
YEAR = RNG.integers(1990, 2020, (30, 1))
WEIGHT = RNG.random((200, 2)).astype(np.float32)
SPLIT = {"train": np.arange(20), "valid": np.arange(20, 25), "test": np.arange(25, 30)}
#: of the typed graph
AUTHORS = RNG.integers(0, 12, 90), RNG.integers(0, 30, 90)
RELTYPE = RNG.integers(0, 3, (90, 1))


def write(path: Path, table: Any, header: list[str] | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [",".join(header)] if header else []
    for row in np.asarray(table).tolist():
        lines.append(",".join(map(str, row if isinstance(row, list) else [row])))
    with gzip.open(path, "wt") as file:
        file.write("\n".join(lines) + "\n")


def write_npz(path: Path, **arrays: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)


def write_split(folder: Path) -> None:
    for name, ids in SPLIT.items():
        write(folder / f"{name}.csv.gz", ids)


def text_folder(root: Path) -> Path:
    """As of ogbn-arxiv, with edge features as ogbn-proteins has them."""
    raw = root / "raw"
    write(raw / "edge.csv.gz", np.stack([SRC, DST], 1))
    write(raw / "num-node-list.csv.gz", [30])
    write(raw / "num-edge-list.csv.gz", [200])
    write(raw / "node-feat.csv.gz", X)
    write(raw / "edge-feat.csv.gz", WEIGHT)
    write(raw / "node_year.csv.gz", YEAR)
    write(raw / "node-label.csv.gz", Y)
    write_split(root / "split" / "time")
    return root


def binary_folder(root: Path) -> Path:
    """As of ogbn-papers100M."""
    write_npz(
        root / "raw" / "data.npz", edge_index=np.stack([SRC, DST]), num_nodes_list=np.array([30]),
        num_edges_list=np.array([200]), node_feat=X, node_year=YEAR, edge_feat=WEIGHT,
    )  # fmt: skip
    write_npz(root / "raw" / "node-label.npz", node_label=Y)
    write_split(root / "split" / "time")
    return root


def typed_text_folder(root: Path) -> Path:
    """As of ogbn-mag."""
    raw = root / "raw"
    write(raw / "num-node-dict.csv.gz", [[30, 12]], ["paper", "author"])
    write(raw / "triplet-type-list.csv.gz", [list(CITES), list(WRITES)])
    for kind, ends in ((WRITES, AUTHORS), (CITES, (SRC, DST))):
        folder = raw / "relations" / "___".join(kind)
        write(folder / "edge.csv.gz", np.stack(ends, 1))
        write(folder / "num-edge-list.csv.gz", [len(ends[0])])
    write(raw / "relations" / "___".join(WRITES) / "edge_reltype.csv.gz", RELTYPE)
    write(raw / "nodetype-has-feat.csv.gz", [["True", "False"]], ["paper", "author"])
    write(raw / "node-feat" / "paper" / "node-feat.csv.gz", X)
    write(raw / "node-feat" / "paper" / "node_year.csv.gz", YEAR)
    write(raw / "nodetype-has-label.csv.gz", [["True", "False"]], ["paper", "author"])
    write(raw / "node-label" / "paper" / "node-label.csv.gz", Y)
    write(
        root / "split" / "time" / "nodetype-has-split.csv.gz", [["True", "False"]],
        ["paper", "author"],
    )  # fmt: skip
    write_split(root / "split" / "time" / "paper")
    return root


def typed_binary_folder(root: Path) -> Path:
    """As OGB's DatasetSaver writes them."""
    raw = root / "raw"
    edges = {"___".join(WRITES): np.stack(AUTHORS), "___".join(CITES): np.stack([SRC, DST])}
    write_npz(raw / "edge_index_dict.npz", **edges)
    write_npz(raw / "num_nodes_dict.npz", paper=np.array([30]), author=np.array([12]))
    counts = {name: np.array([ends.shape[1]]) for name, ends in edges.items()}
    write_npz(raw / "num_edges_dict.npz", **counts)
    write_npz(raw / "node_feat_dict.npz", paper=X)
    write_npz(raw / "node_year.npz", paper=YEAR)
    write_npz(raw / "edge_reltype.npz", **{"___".join(WRITES): RELTYPE})
    write_npz(raw / "node-label.npz", paper=Y)
    write_split(root / "split" / "time" / "paper")
    return root
