"""PyG's own example programs, unchanged: as they are, and by ``python -m aethergraph.accelerate``.

usage: pyg_examples.py DIR [--only NAME] [--log FOLDER]

``DIR`` is the folder ``examples`` of a checkout of PyG's sources. Their data sets are not
downloaded: small ones of the same form, classes in communities, are written where the programs look
for them. What a program prints in its last lines, and the seconds that it runs, are shown side by
side. PyG itself needs pyg-lib for all of them but those that need torch-sparse, which say so.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData, InMemoryDataset

NUM_CLASSES, WIDTH = 8, 32
#: Programs with their arguments.
PROGRAMS = (
    "reddit.py",
    "hierarchical_sampling.py",
    "infomax_inductive.py",
    "graph_sage_unsup.py",
    "shadow.py",
    "hetero/to_hetero_mag.py",
    "hetero/to_hetero_mag.py --use_hgt_loader",
    "hetero/hierarchical_sage.py",
    "hetero/temporal_link_pred.py",
    "hetero/recommender_system.py",
    "hetero/bipartite_sage_unsup.py",
)


def classes(count: int) -> Tensor:
    return torch.arange(count) % NUM_CLASSES


def features(count: int) -> Tensor:
    """Make rows of noise in which a sixth of the norm says the class."""
    rows = torch.randn(count, WIDTH)
    rows[torch.arange(count), classes(count)] += 1
    return rows


def links(num_src: int, num_dst: int, count: int) -> Tensor:
    """Make edges of which two thirds join nodes of one class."""
    src = torch.randint(num_src, (count,))
    dst = torch.randint(num_dst, (count,))
    alike = torch.rand(count) < 2 / 3
    dst = torch.where(alike, dst - dst % NUM_CLASSES + src % NUM_CLASSES, dst) % num_dst
    return torch.stack((src, dst))


def masks(count: int) -> dict[str, Tensor]:
    part = torch.rand(count)
    return {"train_mask": part < 0.6, "val_mask": (part >= 0.6) & (part < 0.8),
            "test_mask": part >= 0.8}  # fmt: skip


def one_type(num_nodes: int, num_edges: int) -> Data:
    return Data(
        x=features(num_nodes),
        y=classes(num_nodes),
        edge_index=links(num_nodes, num_nodes, num_edges),
        **masks(num_nodes),
    )


def mag() -> HeteroData:
    counts = {"paper": 6000, "author": 4000, "institution": 200, "field_of_study": 400}
    data = HeteroData()
    for name, count in counts.items():
        data[name].x = features(count)
    data["paper"].y = classes(6000)
    for name, mask in masks(6000).items():
        data["paper"][name] = mask
    kinds = {
        ("author", "affiliated_with", "institution"): 4000, ("author", "writes", "paper"): 20000,
        ("paper", "cites", "paper"): 30000, ("paper", "has_topic", "field_of_study"): 12000,
    }  # fmt: skip
    for kind, count in kinds.items():
        data[kind].edge_index = links(counts[kind[0]], counts[kind[2]], count)
    return data


def movie_lens() -> HeteroData:
    data = HeteroData()
    data["movie"].x = features(1500)
    data["user"].num_nodes = 300
    ends = links(300, 1500, 12000).unique(dim=1)
    count = ends.shape[1]
    alike = ends[0] % NUM_CLASSES == ends[1] % NUM_CLASSES
    rates = data["user", "rates", "movie"]
    rates.edge_index, rates.time = ends, torch.randint(10**6, (count,))
    rates.edge_label = torch.where(alike, 5, torch.randint(1, 4, (count,)))
    return data


def taobao() -> HeteroData:
    data = HeteroData()
    for name, count in (("user", 800), ("item", 1200), ("category", 20)):
        data[name].num_nodes = count
    data["user", "item"].edge_index = links(800, 1200, 20000)
    data["user", "item"].time = torch.randint(10**6, (20000,))
    data["user", "item"].behavior = torch.randint(4, (20000,))
    data["item", "category"].edge_index = links(1200, 20, 1200)
    return data


def write_data(folder: Path) -> None:
    """Write the data sets where PyG's classes find them processed."""
    torch.manual_seed(0)
    reddit, mag_data, lens = one_type(12000, 200_000), mag(), movie_lens()
    mag_raw = ["node-feat", "node-label", "relations", "split", "num-node-dict.csv.gz",
               "mag_metapath2vec_emb.pt"]  # fmt: skip
    lens_raw = ["ml-latest-small/movies.csv", "ml-latest-small/ratings.csv"]
    cora_raw = [
        f"ind.cora.{n}" for n in ["x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"]
    ]
    sets: list[tuple[str, str, list[str], Data | HeteroData]] = [
        ("Reddit", "data.pt", ["reddit_data.npz", "reddit_graph.npz"], reddit),
        ("Flickr", "data.pt", ["adj_full.npz", "feats.npy", "class_map.json", "role.json"],
         one_type(3000, 30000)),
        ("Cora/Cora", "data.pt", cora_raw, one_type(2000, 12000)),
        ("OGB/mag", "data_metapath2vec.pt", mag_raw, mag_data),
        ("mag", "data_metapath2vec.pt", mag_raw, mag_data),
        ("MovieLens", "data_all-MiniLM-L6-v2.pt", lens_raw, lens),
        ("Taobao", "data.pt", ["UserBehavior.csv"], taobao()),
    ]  # fmt: skip
    for name, processed, raw_names, data in sets:
        for raw in raw_names:  # which only have to be there
            path = folder / name / "raw" / raw
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        (folder / name / "processed").mkdir(parents=True)
        InMemoryDataset.save([data], str(folder / name / "processed" / processed))


def run(program: str, examples: Path, accelerated: bool) -> tuple[float, int, str]:
    """Run a program; return its seconds, its exit status, and all that it wrote."""
    path = examples / program.split()[0]
    command = [sys.executable, "-W", "ignore"]
    if accelerated:
        command += ["-m", "aethergraph.accelerate"]
    begin = time.monotonic()
    ran = subprocess.run(
        [*command, path.name, *program.split()[1:]], cwd=path.parent, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return time.monotonic() - begin, ran.returncode, ran.stdout


def last_line(output: str) -> str:
    lines = [line for line in output.replace("\r", "\n").splitlines() if line.strip()]
    return lines[-1].strip()[:90] if lines else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("examples", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        examples = Path(folder) / "examples"
        shutil.copytree(options.examples, examples)
        write_data(Path(folder) / "data")
        for program in PROGRAMS:
            if options.only not in program:
                continue
            print(program, flush=True)
            for label, accelerated in (("PyG", False), ("accelerated", True)):
                seconds, status, output = run(program, examples, accelerated)
                if options.log:
                    options.log.mkdir(exist_ok=True)
                    name = program.replace("/", "_").replace(" ", "_")
                    (options.log / f"{name}.{label}").write_text(output)
                print(f"  {label:12} {seconds:7.1f} s  status {status}  {last_line(output)}")
                for line in output.splitlines():
                    if line.startswith("aethergraph: "):
                        print("   ", line.removeprefix("aethergraph: ")[:150])


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
