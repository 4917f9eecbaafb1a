"""Put our loaders, samplers and stores in the place of PyG's, for PyG's own tests.

Their tests import the names that are replaced here when they are collected. What PyG's modules
have bound among themselves stays PyG's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
import torch.multiprocessing
import torch_geometric.data.lightning.datamodule
import torch_geometric.datasets
import torch_geometric.loader
import torch_geometric.nn
import torch_geometric.sampler
import torch_geometric.sampler.neighbor_sampler
import torch_geometric.testing
import torch_geometric.typing
from torch import Tensor
from torch_geometric.datasets import FakeDataset

from aethergraph import pyg as ours
from peers.counting import count_calls, make_counted

#: Libraries that PyG samples with. We need neither.
SAMPLING_LIBRARIES = ("pyg_lib", "torch_sparse")
#: What PyG's tests ask when they are collected, to leave out what needs these libraries.
FLAGS = (
    "WITH_PYG_LIB",
    "WITH_TORCH_SPARSE",
    "WITH_WEIGHTED_NEIGHBOR_SAMPLE",
    "WITH_EDGE_TIME_NEIGHBOR_SAMPLE",
)

# ---- loaders -------------------------------------------------------------------------------


def _shown_as_theirs(loader: type) -> type:
    """Make a loader print itself as PyG's: some tests compare that first, and then all the rest."""
    loader.__repr__ = lambda self: f"{type(self).__name__}()"  # type: ignore[method-assign]
    return loader


NeighborLoader = _shown_as_theirs(make_counted(ours.NeighborLoader, __name__))
LinkNeighborLoader = _shown_as_theirs(make_counted(ours.LinkNeighborLoader, __name__))
HGTLoader = _shown_as_theirs(make_counted(ours.HGTLoader, __name__))
ShaDowKHopSampler = make_counted(ours.ShaDowKHopSampler, __name__)
for _loader in (NeighborLoader, LinkNeighborLoader, HGTLoader, ShaDowKHopSampler):
    setattr(torch_geometric.loader, _loader.__name__, _loader)


# ---- samplers and stores -------------------------------------------------------------------


def _make_sampler(data: Any, *args: Any, **kwargs: Any) -> Any:
    """Make our sampler of one type or of many; PyG's is one class for both."""
    stores = ours.as_stores(data)
    is_typed = any(attr.edge_type is not None for attr in stores[1].get_all_edge_attrs())
    kind = ours.HeteroNeighborSampler if is_typed else ours.NeighborSampler
    return kind(stores, *args, **kwargs)


# PyG's datamodule looks for the sampler's arguments among those of a loader.
_make_sampler.__signature__ = inspect.signature(ours.NeighborSampler)  # type: ignore[attr-defined]
NeighborSampler = count_calls("NeighborSampler", _make_sampler)
torch_geometric.data.lightning.datamodule.NeighborSampler = NeighborSampler
torch_geometric.sampler.NeighborSampler = NeighborSampler
torch_geometric.sampler.neighbor_sampler.NeighborSampler = NeighborSampler

MyFeatureStore = make_counted(ours.FeatureStore, __name__, "MyFeatureStore")
MyGraphStore = make_counted(ours.GraphStore, __name__, "MyGraphStore")
torch_geometric.testing.MyFeatureStore = MyFeatureStore
torch_geometric.testing.MyGraphStore = MyGraphStore


# ---- what tests ask for before they run ----------------------------------------------------

_with_package = torch_geometric.testing.withPackage


def _without_libraries(*packages: str) -> Callable[[Any], Any]:
    """Skip a test for lack of packages as PyG does, but not for lack of sampling libraries."""
    return _with_package(*(name for name in packages if name not in SAMPLING_LIBRARIES))


def _make_planetoid(root: str, name: str, *args: Any, **kwargs: Any) -> Any:
    """Make a small graph in the place of Cora, which would have to be downloaded."""
    dataset = FakeDataset(
        num_graphs=1, avg_num_nodes=300, avg_degree=4, num_channels=16, task="node", num_classes=4
    )
    part = torch.arange(dataset[0].num_nodes) % 3
    for number, mask in enumerate(("train_mask", "val_mask", "test_mask")):
        setattr(dataset._data, mask, part == number)
    return dataset


class SparseTensor:
    """Stand-in for the matrix of torch_sparse in which a test looks up edges."""

    def __init__(self, row: Tensor, col: Tensor, value: Tensor) -> None:
        self._parts = row, col, value
        self.storage = SimpleNamespace(row=lambda: row, col=lambda: col, value=lambda: value)

    def __getitem__(self, ids: tuple[Tensor, Tensor]) -> SparseTensor:
        """Return the entries among some rows and columns, numbered by their places in ``ids``."""
        row, col, value = self._parts
        places = [torch.full((int(max(row.max(), col.max())) + 1,), -1) for _ in ids]
        for place, own in zip(places, ids, strict=True):
            place[own] = torch.arange(len(own))
        row, col = places[0][row], places[1][col]
        inside = (row >= 0) & (col >= 0)
        return SparseTensor(row[inside], col[inside], value[inside])

    def nnz(self) -> int:
        return len(self._parts[0])

    def coo(self) -> tuple[Tensor, Tensor, Tensor]:
        return self._parts


torch_geometric.testing.withPackage = _without_libraries
torch_geometric.testing.onlyNeighborSampler = lambda test: test
torch_geometric.datasets.Planetoid = _make_planetoid

_asked = {**dict.fromkeys(FLAGS, True), "SparseTensor": SparseTensor}
_stock = {name: getattr(torch_geometric.typing, name) for name in _asked}


def pytest_collection(session: Any) -> None:
    vars(torch_geometric.typing).update(_asked)


def pytest_collection_finish(session: Any) -> None:
    vars(torch_geometric.typing).update(_stock)


def pytest_runtest_teardown(item: Any) -> None:
    """Undo what a fixture leaves behind: from then on every worker would import all this anew."""
    torch.multiprocessing.set_start_method(None, force=True)
