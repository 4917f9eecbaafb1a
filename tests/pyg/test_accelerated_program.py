"""``python -m aethergraph.accelerate program.py``: a program for PyG that is not changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import abc
import sys

import torch
import torch_geometric.loader
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import (
    HGTLoader,
    LinkNeighborLoader,
    NeighborLoader,
    NodeLoader,
    RandomNodeLoader,
)
from torch_geometric.loader.shadow import ShaDowKHopSampler
from torch_geometric.sampler import NeighborSampler

import aethergraph.pyg
import beside


class OfMine(NeighborLoader, abc.ABC):
    pass


class OfOurs(aethergraph.pyg.NeighborLoader):
    pass


class OfOurNodes(aethergraph.pyg.ShaDowKHopSampler):
    pass


class OfNodes(NodeLoader):
    pass


class DrawsOfMine(NeighborSampler):
    pass


def names(loader):
    return f"{type(loader).__module__}.{type(loader).__qualname__}"


if __name__ == "__main__":
    data = Data(x=torch.rand(50, 4), edge_index=torch.randint(50, (2, 400)))
    data.train_mask = torch.arange(50) < 20
    typed = HeteroData()
    typed["a"].x = torch.rand(9, 2)
    typed["a", "to", "a"].edge_index = torch.randint(9, (2, 30))
    workers = {"num_workers": int(sys.argv[1]), "batch_size": 8}
    loaders = [
        NeighborLoader(data, [3, 2], data.train_mask, **workers),
        LinkNeighborLoader(data, [3, 2], neg_sampling_ratio=1.0, **workers),
        ShaDowKHopSampler(data, 2, 3, **workers),
        HGTLoader(typed, [4, 4], "a", **workers),
        NodeLoader(data, NeighborSampler(data, [3]), **workers),
        torch_geometric.loader.NeighborLoader(
            data, [2], neighbor_sampler=NeighborSampler(data, [2])
        ),
        OfMine(data, [3]),
    ]
    OfOurs(data, [3]), OfOurNodes(data, 2, 3)  # of which nothing is to be said
    OfNodes(data, NeighborSampler(data, [3]))
    for loader in loaders[:-1]:
        assert len(list(loader)) == len(loader) > 0
    assert len(list(RandomNodeLoader(data, 5))) == 5
    data.x, data.y = torch.full((50, 1), 5.0), torch.arange(50)
    for batch in loaders[0]:
        assert batch.x.shape == (len(batch.n_id), 1) and torch.equal(batch.y, batch.n_id)
    assert isinstance(loaders[0], NeighborLoader) and isinstance(loaders[-1], NeighborLoader)
    assert isinstance(loaders[2], ShaDowKHopSampler) and isinstance(loaders[3], HGTLoader)
    assert not isinstance(loaders[1], NeighborLoader)
    assert OfMine.__mro__[1] is NeighborLoader and not isinstance(loaders[0], OfMine)
    assert issubclass(type(loaders[0]), NeighborLoader) and issubclass(OfMine, NodeLoader)
    spawned = NodeLoader(
        data, DrawsOfMine(data, [3]), num_workers=1, batch_size=25, multiprocessing_context="spawn"
    )
    assert type(spawned) is NodeLoader
    try:
        list(spawned)
    except ImportError as error:  # in the worker, which draws by pyg-lib or torch-sparse
        assert "pyg-lib" in str(error), error
    of_bools = NeighborLoader(data, [3], data.train_mask.numpy())
    assert type(of_bools) is NeighborLoader and of_bools.input_data.node.max() == 1
    kinds = [("a", "to", "a"), ("a", "from", "a")]
    typed[kinds[1]].edge_index = typed[kinds[0]].edge_index
    try:
        NeighborLoader(typed, {kinds[0]: [2]}, "a")
    except ValueError as error:
        assert "from" in str(error), error
    data.adj_t = 1
    del data.edge_index
    try:
        NeighborLoader(data, [3])
    except AttributeError:
        print("as without us")
    print("\\n".join(map(names, loaders)), sys.argv[1:], __name__, beside.VALUE, __file__)
    raise SystemExit(7)
"""


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: v for name, v in os.environ.items() if name != "PYTHONSAFEPATH"}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "aethergraph.accelerate", *arguments],
        capture_output=True, text=True, cwd=cwd, check=False,
        env=environment | {"OMP_NUM_THREADS": "1"}, timeout=300,
    )  # fmt: skip


@pytest.mark.parametrize("workers", [0, 1])
def test_loaders_are_replaced_and_told_of(tmp_path: Path, workers: int) -> None:
    folder = tmp_path / "of the user"
    folder.mkdir()
    program = folder / "train.py"
    program.write_text(PROGRAM)
    (folder / "beside.py").write_text("VALUE = 5\n")
    ran = run("of the user/train.py", str(workers), "--flag", cwd=tmp_path)
    assert ran.returncode == 7, ran.stderr
    first, *kinds, last = ran.stdout.splitlines()
    assert first == "as without us"
    assert kinds + [last.split()[0]] == [
        "aethergraph.accelerate.AcceleratedNeighborLoader",
        "aethergraph.accelerate.AcceleratedLinkNeighborLoader",
        "aethergraph.accelerate.AcceleratedShaDowKHopSampler",
        "aethergraph.accelerate.AcceleratedHGTLoader",
        "aethergraph.accelerate.AcceleratedNeighborLoader",
        "aethergraph.accelerate.AcceleratedNeighborLoader",
        "__main__.OfMine",
    ]
    assert last.endswith(f"['{workers}', '--flag'] __main__ 5 {program}")
    lines = PROGRAM.splitlines()
    made = [line for line in ran.stderr.splitlines() if line.startswith("aethergraph: ")]
    assert len(made) == 12
    place, message = made[0].removeprefix("aethergraph: ").split(": ")
    path, number = place.rsplit(":", 1)
    assert path == "of the user/train.py"
    assert lines[int(number) - 1].strip().startswith("NeighborLoader(data, [3, 2]")
    assert message == "NeighborLoader is aethergraph.pyg.NeighborLoader"
    way = "it may make batches in its own way"
    assert (
        f"OfMine stays as it is: derived from NeighborLoader, {way}; derive it from aeth" in made[6]
    )
    assert made[7].endswith(f": OfNodes stays as it is: derived from NodeLoader, {way}")
    assert "RandomNodeLoader stays PyG's: no loader of aethergraph.pyg" in made[8]
    assert "NeighborLoader stays PyG's: the seed nodes are an array of bools" in made[-2]
    assert "NeighborLoader stays PyG's: data holds edges in adj_t" in made[-1]


def test_a_module(tmp_path: Path) -> None:
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "__init__.py").write_text("VALUE = 3\n")
    (folder / "train.py").write_text(
        "import sys\nfrom . import VALUE\nprint(__name__, VALUE, sys.argv[1:])\n"
    )
    ran = run("-m", "package.train", "5", cwd=tmp_path)
    assert ran.stdout.splitlines()[-1] == "__main__ 3 ['5']", ran.stderr


@pytest.mark.parametrize("as_module", [False, True])
def test_a_program_that_fails(tmp_path: Path, as_module: bool) -> None:
    (tmp_path / "train.py").write_text("def train():\n    1 / 0\n\ntrain()\n")
    ran = run(*(["-m", "train"] if as_module else ["train.py"]), cwd=tmp_path)
    assert ran.returncode == 1
    files = [line for line in ran.stderr.splitlines() if line.startswith("  File ")]
    assert len(files) == 2 and all("train.py" in line for line in files), ran.stderr
    assert ran.stderr.rstrip().endswith("ZeroDivisionError: division by zero")


def test_a_program_that_is_none(tmp_path: Path) -> None:
    ran = run("train.py", cwd=tmp_path)
    assert ran.returncode == 1
    assert "'train.py' is no file" in ran.stderr
    assert run(cwd=tmp_path).returncode == 2
    assert run("--help", cwd=tmp_path).returncode == 0


def test_importing_it_changes_nothing() -> None:
    program = (
        "import torch_geometric.loader as l; before = l.NeighborLoader\n"
        "import aethergraph.accelerate\n"
        "assert l.NeighborLoader is before"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=300)
