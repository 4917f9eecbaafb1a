"""``accelerate``: one of PyG's loaders, made anew as ours from what it was made of.

PyG's loaders keep their arguments in three places: their own attributes, the sampler's, and those
of torch's ``DataLoader``. The names of times and weights they do not keep, only the values, so
the names are found by comparing values.

Sources followed: ``torch_geometric/loader/{node_loader,link_loader,shadow}.py``,
``torch_geometric/sampler/{neighbor_sampler,hgt_sampler}.py``, ``torch/utils/data/dataloader.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch_geometric.loader as pyg_loader
import torch_geometric.sampler as pyg_sampler
from torch import Tensor
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler
from torch_geometric.data import Data, HeteroData

from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.pyg._loading import LoaderMixin
from aethergraph.pyg._sampler_base import KeyedSampler
from aethergraph.pyg.hgt import HGTLoader
from aethergraph.pyg.loader import LinkNeighborLoader, NeighborLoader
from aethergraph.pyg.shadow import ShaDowKHopSampler

__all__ = ["accelerate", "check_fanouts", "check_layout", "check_seeds", "why_derived_stays"]

_LINK_LOADERS = (pyg_loader.LinkLoader, pyg_loader.LinkNeighborLoader)
_LOADERS = (
    pyg_loader.NodeLoader,
    pyg_loader.NeighborLoader,
    pyg_loader.HGTLoader,
    *_LINK_LOADERS,
    pyg_loader.ShaDowKHopSampler,
)


def accelerate(
    loader: DataLoader[Any], **options: Any
) -> NeighborLoader | LinkNeighborLoader | HGTLoader | ShaDowKHopSampler:
    """Make the loader of this package that gives the batches of one of PyG's, faster.

    ::

        loader = torch_geometric.loader.NeighborLoader(data, [15, 10], batch_size=128, shuffle=True)
        loader = aethergraph.pyg.accelerate(loader)

    The seeds come in the same order, from the same generator; the batches have the same keys, of
    the same dtypes; the neighbours are other draws of the same distribution. Nothing is drawn from
    the generator. The graph is indexed anew, from the edges that ``loader.data`` has now, so that
    it takes memory twice until the old loader is dropped. Attributes are those that the ``Data``
    has when an epoch begins.

    Args:
        loader: a ``NeighborLoader``, ``LinkNeighborLoader``, ``HGTLoader``, ``ShaDowKHopSampler``,
            or a ``NodeLoader`` or ``LinkLoader`` with PyG's ``NeighborSampler`` or ``HGTSampler``,
            or with a sampler of this package. A loader of this package is returned as it is,
            unless there are ``options``.
        **options: what the new loader has that PyG's has not, as ``ahead=``, ``order=``, ``seed=``
            (see :class:`aethergraph.pyg.NeighborLoader`), or has in place of the old one's.

    Raises:
        UnsupportedError: a loader of another class, also a class derived from PyG's (which may
            change what batches are); a sampler of another class; edges in ``adj_t``, which
            batches would hold as ``edge_index``.
        InvalidArgumentError: no attribute of the data has the times or weights that the sampler
            draws by: give ``time_attr=`` or ``weight_attr=``. Else as the new loader.
        ValueError: an edge type without fan-outs in ``num_neighbors``, as PyG raises.
    """
    source: Any = loader
    is_ours = isinstance(source, LoaderMixin)
    if is_ours and options:
        raise UnsupportedError(
            f"{type(source).__name__} is a loader of this package already: give it "
            f"{', '.join(options)} when it is made"
        )
    faster: NeighborLoader | LinkNeighborLoader | HGTLoader | ShaDowKHopSampler
    faster = source if is_ours else _replace(source, options)
    return faster


def _replace(loader: Any, options: dict[str, Any]) -> Any:
    """Make the loader that replaces one of PyG's."""
    _check_class(loader)
    check_layout(loader.data)
    torch_options = _torch_options(loader)
    if isinstance(loader, pyg_loader.ShaDowKHopSampler):
        return ShaDowKHopSampler(
            loader.data, loader.depth, loader.num_neighbors,
            **({"node_idx": loader.node_idx, "replace": loader.replace} | torch_options | options),
        )  # fmt: skip
    seeds, sampler = loader.input_data, _sampler_of(loader)
    arguments: dict[str, Any] = {
        name: getattr(loader, name)
        for name in ("transform", "transform_sampler_output", "filter_per_worker", "custom_cls")
    }
    if isinstance(loader, _LINK_LOADERS):
        arguments |= {
            "edge_label_index": loader.edge_label_index, "edge_label": seeds.label,
            "edge_label_time": seeds.time, "neg_sampling": loader.neg_sampling,
        }  # fmt: skip
    else:
        kind, nodes = seeds.input_type, seeds.node  # as PyG has read them
        arguments["input_nodes"] = nodes if kind is None else (kind, nodes)
        if seeds.time is not None:
            arguments["input_time"] = seeds.time
    input_id = seeds.input_id
    if input_id is not None:
        arguments["input_id"] = input_id
    arguments |= torch_options | options
    if type(sampler) is pyg_sampler.HGTSampler:
        return HGTLoader(loader.data, sampler.num_samples, **arguments)
    described = _describe_sampler(sampler, loader.data, options)
    make = LinkNeighborLoader if isinstance(loader, _LINK_LOADERS) else NeighborLoader
    return make(loader.data, **(described | arguments))


def _sampler_of(loader: Any) -> Any:
    return loader.link_sampler if isinstance(loader, _LINK_LOADERS) else loader.node_sampler


def _check_class(loader: Any) -> None:
    """Raise unless the loader is of a class of PyG's that one of ours replaces."""
    kind = type(loader)
    if kind not in _LOADERS:
        base = next((of for of in kind.__mro__ if of in _LOADERS), None)
        if base is None:
            known = ", ".join(of.__name__ for of in _LOADERS)
            raise UnsupportedError(
                f"loader is a {kind.__module__}.{kind.__qualname__}, and only {known} of "
                "torch_geometric.loader have a faster one here"
            )
        raise UnsupportedError(
            f"loader is a {kind.__module__}.{kind.__qualname__}: {why_derived_stays(base)}"
        )
    if getattr(loader.collate_fn, "__self__", None) is not loader:
        raise UnsupportedError(
            f"loader has a collate_fn of its own, {loader.collate_fn!r}: pass what it does as "
            "transform= of the loader"
        )


def why_derived_stays(base: type) -> str:
    """Return why a class derived from one of PyG's loaders is not replaced, and what would help."""
    text = f"derived from {base.__name__}, it may make batches in its own way"
    if base in (pyg_loader.NodeLoader, pyg_loader.LinkLoader):  # ours have other arguments
        return text
    return f"{text}; derive it from aethergraph.pyg.{base.__name__}"


def check_layout(data: Any) -> None:
    """Raise if edges are stored in another form than batches of ours hold them in."""
    if isinstance(data, (Data, HeteroData)):
        for store in data.edge_stores:
            if store.get("edge_index") is None and ("adj_t" in store or "adj" in store):
                raise UnsupportedError(
                    "data holds edges in adj_t, and batches of this package hold them in "
                    "edge_index: make aethergraph.pyg.NeighborLoader with "
                    "transform=torch_geometric.transforms.ToSparseTensor()"
                )


def check_seeds(nodes: Any) -> None:
    """Raise for a mask that PyG does not take for one; our loaders would.

    Raises:
        UnsupportedError: an array of bools.
    """
    if isinstance(nodes, (tuple, list)) and len(nodes) == 2 and isinstance(nodes[0], str):
        nodes = nodes[1]
    if isinstance(nodes, np.ndarray) and nodes.dtype == bool:
        raise UnsupportedError(
            "the seed nodes are an array of bools, which PyG takes for the ids 0 and 1: give a "
            "mask as a tensor, torch.from_numpy(mask)"
        )


def check_fanouts(num_neighbors: Any, data: Any) -> None:
    """Raise as PyG does if an edge type has no fan-outs; our samplers would not follow it.

    Raises:
        ValueError: names the edge type.
    """
    if not isinstance(data, HeteroData):
        return
    if not isinstance(num_neighbors, pyg_sampler.NumNeighbors):
        num_neighbors = pyg_sampler.NumNeighbors(num_neighbors)
    num_neighbors.get_mapped_values(data.edge_types)


def _torch_options(loader: Any) -> dict[str, Any]:
    """Return the arguments of torch's ``DataLoader`` that a loader was made with."""
    names = ["num_workers", "pin_memory", "timeout", "worker_init_fn", "persistent_workers"]
    options = {name: getattr(loader, name) for name in names}
    options["generator"] = loader.generator
    if loader.num_workers:
        options["multiprocessing_context"] = loader.multiprocessing_context
        options["prefetch_factor"] = loader.prefetch_factor
        if hasattr(loader, "in_order"):  # since torch 2.6
            options["in_order"] = loader.in_order
    if loader.pin_memory_device:
        options["pin_memory_device"] = loader.pin_memory_device
    if loader.batch_size is None and loader.batch_sampler is not None:
        options["batch_sampler"] = loader.batch_sampler
        return options
    options["batch_size"], options["drop_last"] = loader.batch_size, loader.drop_last
    sampler = loader.sampler
    # torch makes these two over the data set, which users have no hand on before.
    is_torchs = getattr(sampler, "data_source", None) is loader.dataset
    if is_torchs and type(sampler) in (RandomSampler, SequentialSampler):
        options["shuffle"] = type(sampler) is RandomSampler
    else:
        options["sampler"] = sampler
    return options


def _describe_sampler(sampler: Any, data: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of our loader that stand for the loader's sampler."""
    if isinstance(sampler, KeyedSampler):
        return {"num_neighbors": getattr(sampler, "num_neighbors", []), "neighbor_sampler": sampler}
    if type(sampler) is not pyg_sampler.NeighborSampler:
        kind = type(sampler)
        raise UnsupportedError(
            f"loader samples by a {kind.__module__}.{kind.__qualname__}, and only the "
            "NeighborSampler and HGTSampler of torch_geometric.sampler have a faster one here"
        )
    check_fanouts(sampler.num_neighbors, data)
    described = {
        "num_neighbors": sampler.num_neighbors,
        "replace": sampler.replace,
        "subgraph_type": sampler.subgraph_type,
        "disjoint": sampler.disjoint,
        "temporal_strategy": sampler.temporal_strategy,
        "sample_direction": getattr(sampler, "sample_direction", "forward"),  # since PyG 2.7
    }
    for option, values, of_edges in (
        ("time_attr", sampler.node_time, False),
        ("time_attr", sampler.edge_time, True),
        ("weight_attr", sampler.edge_weight, True),
    ):
        if values is not None and option not in options:
            described[option] = _find_attr(data, sampler, values, option, of_edges)
    return described


def _find_attr(data: Any, sampler: Any, values: Any, option: str, of_edges: bool) -> str:
    """Return the name of the attribute whose values the sampler draws by.

    Args:
        data: the data of the loader.
        sampler: PyG's sampler.
        values: its times or weights; by type if the data is typed; of edges by the type's name in
            C++, and in the order of the sampler.
        option: the option that gave the name.
        of_edges: True if the values are those of edges.
    """
    if isinstance(data, (Data, HeteroData)):
        by_store: list[tuple[Any, Tensor, Tensor | None]] = []
        if isinstance(data, Data):
            by_store = [(data.stores[0], values, sampler.perm if of_edges else None)]
        else:
            for kind, tensor in values.items():
                name = sampler.to_edge_type[kind] if of_edges else kind
                order = (sampler.perm or {}).get(name) if of_edges else None
                by_store.append((data[name], tensor, order))
        for name in by_store[0][0] if by_store else ():
            if all(_is_same(store.get(name), tensor, order) for store, tensor, order in by_store):
                return str(name)
    raise InvalidArgumentError(
        "no attribute of the loader's data has the values that its sampler draws by (they may have "
        f"changed since it was made): give {option}="
    )


def _is_same(attr: Any, values: Tensor, order: Tensor | None) -> bool:
    """Return whether ``attr``, in that order, has these values."""
    if not isinstance(attr, Tensor) or attr.shape != values.shape or attr.dtype != values.dtype:
        return False
    return attr is values or torch.equal(attr if order is None else attr[order], values)
