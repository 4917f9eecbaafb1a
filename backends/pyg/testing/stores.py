"""Contracts of PyG's ``FeatureStore`` and ``GraphStore``, as its loaders use them.

Source followed: ``torch_geometric/data/feature_store.py``, ``torch_geometric/data/graph_store.py``
and the calls of ``torch_geometric/loader/utils.py``.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader
from torch_geometric.data import TensorAttr

from aethergraph.testing import cases
from aethergraph.testing.cases import GraphCase
from aethergraph.testing.rules import Contract, equal, given, in_threads, require

__all__ = ["FeatureStoreContract", "GraphStoreContract"]

Ids = NDArray[np.int64]
Tensors = dict[tuple[Any, str], Tensor]

_ROWS = 40
_INDICES: tuple[list[int], ...] = ([], [0], [39, 0, 39, 7, 7], list(range(39, -1, -1)))


def same(actual: Any, expected: Tensor, label: str) -> None:
    """Require ``actual`` to be a tensor of the shape, dtype and values of ``expected``."""
    require(isinstance(actual, Tensor), f"{label} must be a tensor, found {type(actual)}")
    kinds = (actual.dtype, tuple(actual.shape)), (expected.dtype, tuple(expected.shape))
    require(kinds[0] == kinds[1], f"{label} must be {kinds[1]}, found {kinds[0]}")
    require(torch.equal(actual, expected), f"{label}: expected {expected}\n  found {actual}")


class FeatureStoreContract(Contract):
    """Rules of ``torch_geometric.data.FeatureStore``.

    ::

        class TestMyStore(FeatureStoreContract):
            def make(self, tensors):
                store = MyStore()
                for (group, name), tensor in tensors.items():
                    store.put_tensor(tensor, group, name, index=None)
                return store

    Attributes:
        supports: ``"put"``: tensors can be put and removed. ``"typed"``: there are groups by node
            type.
    """

    known = frozenset({"put", "typed"})

    def make(self, tensors: Tensors) -> Any:
        """Make a store of these tensors, by ``(group_name, attr_name)``: [40, ...] each."""
        raise NotImplementedError("define make(self, tensors)")

    def _tensors(self) -> Iterator[Tensors]:
        generator = torch.Generator().manual_seed(3)
        tensors: Tensors = {
            (None, "x"): torch.randn(_ROWS, 3, generator=generator),
            (None, "y"): torch.randint(9, (_ROWS,), generator=generator),
            (None, "train_mask"): torch.rand(_ROWS, generator=generator) < 0.5,
            (None, "wide"): torch.randn(_ROWS, 2, 2, generator=generator, dtype=torch.float64),
            (None, "half"): torch.randn(_ROWS, 4, generator=generator).to(torch.bfloat16),
        }
        yield tensors
        if "typed" in self.supports:
            types = ("paper", "author", "paper", "author", "paper")
            yield {
                (kind, name): tensor
                for kind, ((_, name), tensor) in zip(types, tensors.items(), strict=True)
            }

    def _each(self) -> Iterator[tuple[Tensors, Any]]:
        for tensors in self._tensors():
            yield tensors, self.make({key: tensor.clone() for key, tensor in tensors.items()})

    def test_all_tensors_are_listed(self) -> None:
        """``get_all_tensor_attrs`` names every tensor once, as new objects without an index."""
        for tensors, store in self._each():
            for _ in range(2):  # loaders set the index of the attrs that they are given
                attrs = store.get_all_tensor_attrs()
                keys = [(attr.group_name, attr.attr_name) for attr in attrs]
                require(set(keys) == set(tensors), f"expected {list(tensors)}, found {keys}")
                require(len(keys) == len(tensors), f"a tensor is there twice: {keys}")
                for attr in attrs:
                    require(not attr.is_set("index"), f"{attr} has an index")
                    attr.index = torch.tensor([0])

    def test_whole_tensors(self) -> None:
        """With index None a tensor comes as it is, and ``get_tensor_size`` is its shape."""
        for tensors, store in self._each():
            for (group, name), tensor in tensors.items():
                same(store.get_tensor(group, name, None), tensor, f"{group!r}, {name!r}")
                same(store[group, name, None], tensor, f"store[{group!r}, {name!r}, None]")
                size = tuple(store.get_tensor_size(group, name))
                require(size == tuple(tensor.shape), f"size of {name!r}: found {size}")

    def test_rows_come_in_the_order_of_the_ids(self) -> None:
        """A tensor of ids gives their rows in that order, duplicates too; none keep the shape."""
        for tensors, store in self._each():
            for (group, name), tensor in tensors.items():
                for ids in _INDICES:
                    index = torch.tensor(ids, dtype=torch.int64)
                    with given("a tensor", group=group, name=name, index=index):
                        same(store.get_tensor(group, name, index), tensor[index], "the rows")

    def test_many_tensors_at_once(self) -> None:
        """``multi_get_tensor`` gives what ``get_tensor`` gives for each, in their order."""
        index = torch.tensor([5, 5, 0, 39])
        for tensors, store in self._each():
            attrs = [TensorAttr(group, name, index) for group, name in reversed(tensors)]
            gathered = store.multi_get_tensor(attrs)
            require(len(gathered) == len(attrs), f"{len(attrs)} tensors, found {len(gathered)}")
            for attr, rows in zip(attrs, gathered, strict=True):
                expected = tensors[attr.group_name, attr.attr_name][index]
                same(rows, expected, f"{attr.attr_name!r} of several")

    def test_rows_belong_to_the_caller(self) -> None:
        """Writing to gathered rows changes nothing in the store."""
        for tensors, store in self._each():
            for (group, name), tensor in tensors.items():
                index = torch.arange(_ROWS)
                store.get_tensor(group, name, index).zero_()
                same(store.get_tensor(group, name, index), tensor, f"{name!r}, after writing")

    def test_what_is_not_there_is_a_key_error(self) -> None:
        """A group or a name that is not in the store is a KeyError."""
        for _, store in self._each():
            for group, name in ((None, "nothing"), ("nobody", "x")):
                try:
                    tensor = store.get_tensor(group, name, None)
                except KeyError:
                    continue
                require(
                    False, f"get_tensor({group!r}, {name!r}) must be a KeyError, found {tensor}"
                )

    def test_ids_out_of_range_are_refused(self) -> None:
        """An id above the last row is an IndexError."""
        for tensors, store in self._each():
            for group, name in tensors:
                for bad in (_ROWS, 2**40):
                    try:
                        tensor = store.get_tensor(group, name, torch.tensor([0, bad]))
                    except IndexError:
                        continue
                    require(False, f"row {bad} of {name!r} must be an IndexError, found {tensor}")

    def test_put_and_remove(self) -> None:
        """A tensor that is put is found, also in the place of another; a removed one is gone."""
        self.need("put")
        for tensors, store in self._each():
            group, name = next(iter(tensors))
            new = torch.arange(_ROWS)
            require(store.put_tensor(new, group, name, index=None), "put_tensor must be True")
            same(store.get_tensor(group, name, torch.tensor([3, 1])), new[[3, 1]], "what was put")
            require(store.remove_tensor(group, name, None), "remove_tensor must be True")
            names = [(attr.group_name, attr.attr_name) for attr in store.get_all_tensor_attrs()]
            require((group, name) not in names, f"{name!r} was removed, but is listed")

    def test_workers_and_threads_gather(self) -> None:
        """Worker processes and threads get the same rows."""
        for tensors, store in self._each():
            for (group, name), tensor in tensors.items():
                fetch = partial(_fetch, store, group, name)
                rows_of: Any = range(_ROWS)
                loader: Any = DataLoader(rows_of, 16, collate_fn=fetch, num_workers=2)
                same(torch.cat(list(loader)), tensor, f"{name!r}, from workers")
                calls = [partial(fetch, list(range(i, _ROWS))) for i in range(4)]
                for start, results in enumerate(in_threads(calls)):
                    for rows in results:
                        same(rows, tensor[start:], f"{name!r}, from a thread")

    def test_it_pickles(self) -> None:
        """A pickled copy holds the same tensors."""
        for tensors, store in self._each():
            copy = pickle.loads(pickle.dumps(store))
            for (group, name), tensor in tensors.items():
                with given("a pickled copy", group=group, name=name):
                    same(copy.get_tensor(group, name, None), tensor, "the tensor of the copy")


def _fetch(store: Any, group: Any, name: str, ids: list[int]) -> Any:
    return store.get_tensor(group, name, torch.tensor(ids))


class GraphStoreContract(Contract):
    """Rules of ``torch_geometric.data.GraphStore`` with one edge type, ``None``.

    ::

        class TestMyStore(GraphStoreContract):
            def make(self, num_nodes, src, dst):
                return MyStore(...)
    """

    def make(self, num_nodes: int, src: Ids, dst: Ids) -> Any:
        """Make a store of these edges: int64 vectors [E]."""
        raise NotImplementedError("define make(self, num_nodes, src, dst)")

    def _each(self) -> Iterator[tuple[GraphCase, Any]]:
        for case in cases.graphs():
            if case.num_nodes:
                yield case, self.make(case.num_nodes, case.src.copy(), case.dst.copy())

    def test_sizes(self) -> None:
        """``get_all_edge_attrs`` has one edge type whose size is (num_nodes, num_nodes)."""
        for case, store in self._each():
            with given(case.name, **case.inputs):
                attrs = store.get_all_edge_attrs()
                require({attr.edge_type for attr in attrs} == {None}, f"found {attrs}")
                for attr in attrs:
                    size = tuple(attr.size)
                    require(size == (case.num_nodes,) * 2, f"size: found {size}")

    def test_coo_holds_the_edges(self) -> None:
        """``coo()`` has every edge once, as int64 (row, col): sources and destinations."""
        for case, store in self._each():
            with given(case.name, **case.inputs):
                row, col, _ = store.coo()
                require(row.dtype == col.dtype == torch.int64, f"{row.dtype}, {col.dtype}")
                pairs = np.sort(row.numpy() * case.num_nodes + col.numpy())
                equal(pairs, np.sort(case.src * case.num_nodes + case.dst), "pairs, sorted,")

    def test_all_layouts_agree(self) -> None:
        """``csc()`` and ``csr()`` hold the edges of ``coo()``, with the same edge ids."""
        for case, store in self._each():
            with given(case.name, **case.inputs):
                expected = _by_id(store, "coo", case.num_nodes)
                for layout in ("csc", "csr"):
                    ends = _by_id(store, layout, case.num_nodes)
                    for name, a, b in zip(("row", "col"), ends, expected, strict=True):
                        equal(a, b, f"{name} by edge id, from {layout},")

    def test_listed_layouts_can_be_read(self) -> None:
        """``get_edge_index`` gives what ``get_all_edge_attrs`` lists."""
        for case, store in self._each():
            for attr in store.get_all_edge_attrs():
                with given(case.name, **case.inputs, layout=attr.layout.value):
                    pair = store.get_edge_index(attr)
                    lengths = {
                        "coo": (len(case.src), len(case.src)),
                        "csc": (len(case.src), case.num_nodes + 1),
                        "csr": (case.num_nodes + 1, len(case.src)),
                    }[attr.layout.value]
                    pair_lengths = tuple(len(part) for part in pair)
                    require(
                        pair_lengths == lengths, f"lengths must be {lengths}, found {pair_lengths}"
                    )

    def test_it_pickles(self) -> None:
        """A pickled copy has the same edges."""
        for case, store in self._each():
            copy = pickle.loads(pickle.dumps(store))
            with given(case.name, **case.inputs):
                ends = _by_id(copy, "csc", case.num_nodes)
                for a, b in zip(ends, _by_id(store, "csc", case.num_nodes), strict=True):
                    equal(a, b, "an end by edge id")


def _by_id(store: Any, layout: str, num_nodes: int) -> tuple[Ids, Ids]:
    """Return (sources, destinations) by edge id, from a layout; the pointers are checked."""
    first, second, perm = getattr(store, layout)()
    row: Ids = first.numpy()
    col: Ids = second.numpy()
    if layout != "coo":
        pointers = row if layout == "csr" else col
        steps = np.diff(pointers)
        sound = len(pointers) == num_nodes + 1 and pointers[0] == 0 and (steps >= 0).all()
        require(sound, f"{layout}: the pointers must ascend from 0, found {pointers}")
        major = np.repeat(np.arange(num_nodes), steps)
        row, col = (major, col) if layout == "csr" else (row, major)
    require(len(row) == len(col), f"{layout}: {len(row)} sources, {len(col)} destinations")
    ids = np.arange(len(row)) if perm is None else perm.numpy()
    equal(np.sort(ids), np.arange(len(row)), f"{layout}: edge ids, sorted,")
    order = np.argsort(ids)
    return row[order], col[order]
