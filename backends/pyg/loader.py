"""PyG's loaders with our sampler, native prefetching and nothing dropped.

::

    seeds -> [sample -> gather] -> [assemble -> transform -> pin] -> batch
              background threads    the thread that iterates

Both classes are PyG's own with the sampling and fetching replaced at its public seams,
``collate_fn`` and ``filter_fn``. With ``num_workers=0`` the first half runs ahead of the training
step in threads (the native core lets go of the GIL); with workers, PyTorch's machinery is used
as it is.

Source followed: ``torch_geometric/loader/{node_loader,link_loader,neighbor_loader,
link_neighbor_loader,utils}.py`` and ``torch/utils/data/dataloader.py``.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from multiprocessing.context import get_spawning_popen
from typing import TYPE_CHECKING, Any

import torch
import torch_geometric.loader as pyg_loader
from torch import Tensor
from torch.utils.data import DataLoader
from torch_geometric.data import Data
from torch_geometric.loader.base import DataLoaderIterator
from torch_geometric.sampler import (
    EdgeSamplerInput,
    HeteroSamplerOutput,
    NegativeSampling,
    NodeSamplerInput,
    SamplerOutput,
)

from aethergraph.pyg._inputs import (
    as_index,
    check_count,
    count_nodes,
    seed_labels,
    seed_links,
    seed_nodes,
    seed_times,
)
from aethergraph.pyg._prefetch import PrefetchIterator, pin
from aethergraph.pyg._seeds import SharedCount, check_seed, generator_key
from aethergraph.pyg._tensors import stack_rows
from aethergraph.pyg.convert import as_stores
from aethergraph.pyg.feature_store import FeatureStore
from aethergraph.pyg.sampler import NeighborSampler
from aethergraph.sampling.keys import mix_key

if TYPE_CHECKING:
    from torch_geometric.sampler import BaseSampler


__all__ = ["LinkNeighborLoader", "NeighborLoader"]


class _Stores(tuple[Any, Any]):
    """``(feature_store, graph_store)`` as PyG wants it, whose node tensors are also attributes.

    PyG's ``BasicGNN.inference`` reads ``loader.data.x`` and ``loader.data.num_nodes``.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name == "num_nodes":
            return self[1].num_nodes
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self[0].get_tensor(None, name, None)
        except KeyError:
            raise AttributeError(f"the feature store has no node tensor {name!r}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return _Stores, (tuple(self),)


class _Fetched:
    """The tensors of a sample, gathered ahead of ``filter_fn``."""

    __slots__ = ("edges", "nodes")

    def __init__(self, nodes: list[tuple[str, Tensor]], edges: list[tuple[str, Tensor]]) -> None:
        self.nodes = nodes
        self.edges = edges


class _Positions:
    """``range(count)`` as a dataset that hands over a whole batch of numbers as it is."""

    __slots__ = ("_count",)

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, (list, tuple)):  # a sampler that makes the batches itself
            return number
        return range(self._count)[number]

    def __getitems__(self, numbers: list[int]) -> list[int]:
        return numbers


class _Keeping:
    """An iterator that keeps its loader alive, which itself refers to the loader weakly."""

    def __init__(self, loader: _LoaderMixin, iterator: Iterator[Any]) -> None:
        self._loader = loader
        self._iterator = iterator

    def __iter__(self) -> _Keeping:
        return self

    def __next__(self) -> Any:
        return next(self._iterator)

    def __len__(self) -> int:
        return len(self._iterator)  # type: ignore[arg-type]


def _weakly(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``method`` without a strong reference to its object."""
    reference = weakref.WeakMethod(method)

    def call(value: Any) -> Any:
        found = reference()
        assert found is not None
        return found(value)

    return call


class _LoaderMixin:
    """What our two loaders do alike. Comes before PyG's loader class in the bases."""

    data: _Stores
    prefetch_batches: int
    num_sample_threads: int
    seed: int | None

    # Of PyG's and torch's loaders:
    input_data: Any
    transform: Callable[[Any], Any] | None
    transform_sampler_output: Callable[[Any], Any] | None
    filter_per_worker: bool
    custom_cls: Any
    num_workers: int
    persistent_workers: bool
    pin_memory: bool
    generator: torch.Generator | None
    dataset: Any
    _iterator: Any

    def _set_up(self, seed: int | None, prefetch_batches: int, num_sample_threads: int) -> None:
        self.seed = check_seed(seed)
        self.prefetch_batches = check_count(prefetch_batches, "prefetch_batches", 0)
        self.num_sample_threads = check_count(num_sample_threads, "num_sample_threads", 1)
        self._iterations = 0
        self._key: int | None = None
        self._shared_key = SharedCount()

    def _lighten(self) -> None:
        """Replace what PyG and torch have put into the loader by something lighter.

        The bound method ``collate_fn`` makes a cycle, and the class has it as well. A range as
        dataset has torch look up every number of every batch.
        """
        self.__dict__.pop("collate_fn", None)
        self.__dict__["dataset"] = _Positions(len(self.dataset))

    # ---- an epoch begins -------------------------------------------------------------------

    def set_epoch(self, epoch: int) -> None:
        """With ``seed``: the number of the next epoch, to go on where another run ended."""
        self._iterations = check_count(epoch, "epoch", 0)

    def __iter__(self) -> Iterator[Any]:
        if self.seed is None:
            key = generator_key(self.generator)
        else:
            key = mix_key(self.seed, self._iterations)
        self._iterations += 1
        self._key = key
        self._shared_key.value = key - (1 << 63)
        if self.persistent_workers and self._iterator is not None:
            # torch draws a seed for new workers; draw it here too, so that the order of seeds of
            # the epochs to come does not depend on the kind of workers.
            torch.empty((), dtype=torch.int64).random_(generator=self.generator)
        iterator = super().__iter__()  # type: ignore[misc]
        return _Keeping(self, iterator) if iterator is self._iterator else iterator

    def _epoch_key(self) -> int | None:
        """The key of the epoch; None if the loader is not iterated (PyG's ``ZipLoader``)."""
        if self._key is not None and self.persistent_workers:
            return self._shared_key.value + (1 << 63)
        return self._key

    def _get_iterator(self) -> Any:
        if self.num_workers == 0:
            if self._can_prefetch():
                return PrefetchIterator(
                    self,
                    functools.partial(self._sample_ahead, self._epoch_key()),
                    self._filter_and_pin,
                    num_threads=self.num_sample_threads,
                    depth=self.prefetch_batches,
                )
            return super()._get_iterator()  # type: ignore[misc]
        iterator: Any = DataLoader._get_iterator(self)  # type: ignore[arg-type]
        # The workers have it. A persistent iterator must not refer back to the loader that owns
        # it: torch takes 5 seconds per worker to end one that the garbage collector finds.
        iterator._collate_fn = None
        if self.filter_per_worker:
            return iterator
        finish = self._filter_and_pin
        return DataLoaderIterator(iterator, _weakly(finish) if self.persistent_workers else finish)

    def _can_prefetch(self) -> bool:
        # Other people's samplers and collate functions may not be safe to run in a thread.
        own = "collate_fn" not in self.__dict__ and (
            type(self).collate_fn is _LoaderMixin.collate_fn
        )
        return own and self.prefetch_batches > 0 and isinstance(self._sampler(), NeighborSampler)

    def _filter_and_pin(self, out: Any) -> Any:
        data = self.filter_fn(out)
        return pin(data) if self.pin_memory and torch.cuda.is_available() else data

    # ---- a batch ---------------------------------------------------------------------------

    def collate_fn(self, index: Any) -> Any:
        """Sample around the seeds numbered ``index``; with ``filter_per_worker`` fetch as well."""
        out = self._sample(self.input_data[as_index(index)], self._epoch_key())
        return self.filter_fn(out) if self.filter_per_worker else out

    def _sample_ahead(self, key: int | None, index: Any) -> Any:
        out = self._sample(self.input_data[as_index(index)], key)
        if self.transform_sampler_output is None and isinstance(self.data[0], FeatureStore):
            out._fetched = self._fetch(out)
        return out

    def _fetch(self, out: SamplerOutput) -> _Fetched:
        store = self.data[0]
        if not isinstance(store, FeatureStore):
            attrs = store.get_all_tensor_attrs()
            for attr in attrs:
                attr.index = out.node
            tensors = store.multi_get_tensor(attrs)
            names = [attr.attr_name for attr in attrs]
            return _Fetched(list(zip(names, tensors, strict=True)), [])
        node = out.node.numpy()
        node_columns, edge_columns = store.batch_columns()
        nodes = [(name, column.gather(node, store.pool)) for name, column in node_columns]
        edges = []
        if edge_columns and out.edge is not None:
            ids = out.edge.numpy()
            edges = [(name, column.gather(ids, store.pool)) for name, column in edge_columns]
        return _Fetched(nodes, edges)

    def filter_fn(self, out: Any) -> Any:
        """Make the batch: topology, node and edge tensors, and what PyG's loaders add."""
        if isinstance(out, HeteroSamplerOutput):
            return super().filter_fn(out)  # type: ignore[misc]
        fetched: _Fetched | None = out.__dict__.pop("_fetched", None)
        if self.transform_sampler_output is not None:
            out = self.transform_sampler_output(out)
        if fetched is None:
            fetched = self._fetch(out)
        batch: dict[str, Any] = {"edge_index": stack_rows(out.row, out.col)}
        batch["num_nodes"] = out.node.size(0)
        store = self.data[0]
        if isinstance(store, FeatureStore):
            batch.update(store.graph_attrs)
        batch.update(fetched.nodes)
        batch.update(fetched.edges)
        batch.setdefault("n_id", out.node)
        if out.edge is not None and "e_id" not in batch:
            order = self._sampler().edge_permutation
            edge = out.edge.to(torch.long)
            batch["e_id"] = edge if order is None else order[edge]
        batch["batch"] = out.batch
        batch["num_sampled_nodes"] = out.num_sampled_nodes
        batch["num_sampled_edges"] = out.num_sampled_edges
        if out.orig_row is not None and out.orig_col is not None:
            batch["_orig_edge_index"] = torch.stack([out.orig_row, out.orig_col])
        self._add_metadata(batch, out.metadata)
        data = _make_data(batch, self.custom_cls)
        return data if self.transform is None else self.transform(data)

    def _sampler(self) -> BaseSampler:
        raise NotImplementedError

    def _sample(self, seeds: Any, key: int | None) -> Any:
        raise NotImplementedError

    def _add_metadata(self, batch: dict[str, Any], metadata: tuple[Any, ...]) -> None:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_iterator"] = None
        if get_spawning_popen() is not None:
            # A worker needs none of these, and torch cannot send a generator to it.
            state["sampler"] = state["batch_sampler"] = state["generator"] = None
        return state


class NeighborLoader(_LoaderMixin, pyg_loader.NeighborLoader):  # type: ignore[misc]
    """Batches of sampled neighbourhoods around seed nodes: PyG's ``NeighborLoader``, faster.

    Takes the arguments of PyG's and gives the same batches: a ``Data`` (or ``custom_cls``) with
    ``edge_index``, ``num_nodes``, every node tensor (``x``, ``y``, masks, ...), every edge tensor
    (``edge_attr``, ...; PyG's stock loader leaves those of custom stores out), ``n_id``,
    ``e_id``, ``batch`` if disjoint, ``num_sampled_nodes``, ``num_sampled_edges``, ``input_id``,
    ``batch_size``::

        loader = NeighborLoader(Graph.load("graph.bin"), [15, 10], batch_size=128, shuffle=True)
        for batch in loader:
            out = model(batch.x, batch.edge_index)[: batch.batch_size]

    Each epoch draws anew. The draws follow torch's CPU generator (or ``generator=``) as it is when
    the epoch begins, so ``torch.manual_seed`` reproduces a run, and for one state of it the
    batches are the same for every ``num_workers``, start method, ``filter_per_worker`` and
    ``persistent_workers``. Nothing more is drawn from it than PyG's loader draws. With ``seed``
    the draws depend on it and the number of the epoch alone; the order of shuffled seeds still is
    torch's.

    Large tensors of a batch lie in memory that is used again once nothing refers to it any more,
    so a batch may be kept for as long as one likes.

    Args:
        data: an :class:`aethergraph.Graph`, the path of a graph file, ``(feature_store,
            graph_store)`` of any make, or a PyG ``Data``.
        num_neighbors: neighbours to take per hop, -1 for all.
        input_nodes: seed nodes: None (all nodes), ids as tensor, array or list, a mask, or a
            slice. With a mask or a slice ``input_id`` in the batch are node ids, else positions.
        input_time: with ``time_attr``, a time for each seed [number of seeds]; None: that of the
            seed node itself. It comes back as ``seed_time``.
        replace, subgraph_type, disjoint, temporal_strategy, time_attr, weight_attr, is_sorted,
            sample_direction, strict, window, num_threads: see
            :class:`aethergraph.pyg.NeighborSampler`.
        transform: applied to each batch in the thread that iterates (with workers and
            ``filter_per_worker``: in the worker), so it need not be thread-safe.
        transform_sampler_output: applied to the ``SamplerOutput`` before features are fetched,
            where ``transform`` is; features are then not fetched ahead.
        directed: as in PyG.
        filter_per_worker: with workers, fetch features there (default) or in the main process.
        neighbor_sampler: a ready sampler; the arguments above that describe one are then unused.
        seed: the draws and their changes from epoch to epoch come from this number alone instead
            of from torch's generator.
        prefetch_batches: batches to sample and fetch ahead with ``num_workers=0``; 0: none.
        num_sample_threads: background threads that do so.
        **kwargs: ``custom_cls``, ``input_id``, and those of ``torch.utils.data.DataLoader``:
            ``batch_size``, ``shuffle``, ``num_workers``, ``pin_memory``, ...

    Raises:
        InvalidArgumentError: seeds or their times of a wrong dtype or shape, or no seeds at all;
            times or weights that cannot be (see the sampler).
        ValueError: ``input_time`` without ``time_attr``.
        OutOfRangeError: a seed that is no node; names position and value.
        UnsupportedError: typed sampling.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        input_nodes: Any = None,
        input_time: Tensor | None = None,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Callable[[Any], Any] | None = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: BaseSampler | None = None,
        directed: bool = True,
        *,
        sample_direction: str = "forward",
        strict: bool = False,
        window: float | int | None = None,
        seed: int | None = None,
        num_threads: int = 1,
        prefetch_batches: int = 2,
        num_sample_threads: int = 1,
        **kwargs: Any,
    ) -> None:
        stores = _Stores(as_stores(data))
        sampler = neighbor_sampler
        if sampler is None:
            sampler = NeighborSampler(
                stores,
                num_neighbors,
                subgraph_type=subgraph_type,
                replace=replace,
                disjoint=disjoint,
                temporal_strategy=temporal_strategy,
                time_attr=time_attr,
                weight_attr=weight_attr,
                is_sorted=is_sorted,
                directed=directed,
                sample_direction=sample_direction,
                strict=strict,
                window=window,
                num_threads=num_threads,
            )
        elif isinstance(sampler, NeighborSampler):
            time_attr = sampler.time_attr
        self._set_up(seed, prefetch_batches, num_sample_threads)
        nodes, ids = seed_nodes(input_nodes, count_nodes(sampler, stores))
        kwargs.setdefault("input_id", ids)
        super().__init__(
            stores,
            num_neighbors,
            input_nodes=nodes,
            input_time=seed_times(input_time, len(nodes), "input_time"),
            time_attr=time_attr,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            neighbor_sampler=sampler,
            **kwargs,
        )
        self.input_nodes = input_nodes  # what Lightning makes a loader from again
        self._lighten()

    def _sampler(self) -> BaseSampler:
        return self.node_sampler

    def _sample(self, seeds: NodeSamplerInput, key: int | None) -> Any:
        sampler = self.node_sampler
        if isinstance(sampler, NeighborSampler):
            return sampler.sample_from_nodes(seeds, loader_key=key)
        return sampler.sample_from_nodes(seeds)

    def _add_metadata(self, batch: dict[str, Any], metadata: tuple[Any, ...]) -> None:
        batch["input_id"] = metadata[0]
        batch["seed_time"] = metadata[1]
        batch["batch_size"] = metadata[0].size(0)


class LinkNeighborLoader(_LoaderMixin, pyg_loader.LinkNeighborLoader):  # type: ignore[misc]
    """Batches of sampled neighbourhoods around links: PyG's ``LinkNeighborLoader``, faster.

    Takes the arguments of PyG's and gives the same batches: what :class:`NeighborLoader` gives
    (without ``batch_size``), and ``edge_label_index`` and ``edge_label``, or for triplets
    ``src_index``, ``dst_pos_index`` and ``dst_neg_index``, all in local ids. Draws, memory and
    prefetching are as in :class:`NeighborLoader`; negative links are reproduced alike.

    Args:
        data: as in :class:`NeighborLoader`.
        num_neighbors: neighbours to take per hop, -1 for all.
        edge_label_index: seed links: None (all edges, by edge id), an integer tensor, array or
            pair of lists [2, P], or ``(None, tensor)`` as PyG asks for with stores.
        edge_label: a label per seed link [P, ...], or None.
        edge_label_time: with ``time_attr``, and only then: a time for each seed link [P]. It comes
            back as ``edge_label_time``, negatives included, or for triplets as ``seed_time``.
        neg_sampling: PyG's ``NegativeSampling``, its mode, or its arguments as a dict or tuple.
        neg_sampling_ratio: deprecated by PyG: binary negatives per seed link.
        replace, subgraph_type, disjoint, temporal_strategy, time_attr, weight_attr, transform,
            transform_sampler_output, is_sorted, filter_per_worker, neighbor_sampler, directed,
            sample_direction, strict, window, seed, num_threads, prefetch_batches,
            num_sample_threads, **kwargs: as in :class:`NeighborLoader`.

    Raises:
        InvalidArgumentError: links, labels or times of a wrong dtype or shape, or no links at all;
            times or weights that cannot be (see the sampler).
        ValueError: one of ``edge_label_time`` and ``time_attr`` without the other.
        OutOfRangeError: an end that is no node; names position and value.
        UnsupportedError: typed sampling.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        edge_label_index: Any = None,
        edge_label: Tensor | None = None,
        edge_label_time: Tensor | None = None,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        neg_sampling: Any = None,
        neg_sampling_ratio: float | None = None,
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Callable[[Any], Any] | None = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: BaseSampler | None = None,
        directed: bool = True,
        *,
        sample_direction: str = "forward",
        strict: bool = False,
        window: float | int | None = None,
        seed: int | None = None,
        num_threads: int = 1,
        prefetch_batches: int = 2,
        num_sample_threads: int = 1,
        **kwargs: Any,
    ) -> None:
        stores = _Stores(as_stores(data))
        sampler = neighbor_sampler
        if sampler is None:
            sampler = NeighborSampler(
                stores,
                num_neighbors,
                subgraph_type=subgraph_type,
                replace=replace,
                disjoint=disjoint,
                temporal_strategy=temporal_strategy,
                time_attr=time_attr,
                weight_attr=weight_attr,
                is_sorted=is_sorted,
                directed=directed,
                sample_direction=sample_direction,
                strict=strict,
                window=window,
                num_threads=num_threads,
            )
        elif isinstance(sampler, NeighborSampler):
            time_attr = None if edge_label_time is None else sampler.time_attr
        self._set_up(seed, prefetch_batches, num_sample_threads)
        links = seed_links(edge_label_index, stores, count_nodes(sampler, stores))
        super().__init__(
            stores,
            num_neighbors,
            edge_label_index=(None, links),
            edge_label=seed_labels(edge_label, links),
            edge_label_time=seed_times(edge_label_time, links.shape[1], "edge_label_time"),
            time_attr=time_attr,
            neg_sampling=neg_sampling,
            neg_sampling_ratio=neg_sampling_ratio,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            neighbor_sampler=sampler,
            **kwargs,
        )
        self.edge_label_index = edge_label_index  # what Lightning makes a loader from again
        self._lighten()

    def _can_prefetch(self) -> bool:
        # A subclass of NegativeSampling may draw from torch's generator: keep it in this thread.
        kind = type(self.neg_sampling)
        own = self.neg_sampling is not None and kind.sample is not NegativeSampling.sample
        return not own and super()._can_prefetch()

    def _sampler(self) -> BaseSampler:
        return self.link_sampler

    def _sample(self, seeds: EdgeSamplerInput, key: int | None) -> Any:
        sampler = self.link_sampler
        if isinstance(sampler, NeighborSampler):
            return sampler.sample_from_edges(seeds, neg_sampling=self.neg_sampling, loader_key=key)
        return sampler.sample_from_edges(seeds, neg_sampling=self.neg_sampling)

    def _add_metadata(self, batch: dict[str, Any], metadata: tuple[Any, ...]) -> None:
        names: tuple[str, ...] = (
            "input_id", "edge_label_index", "edge_label", "edge_label_time",
        )  # fmt: skip
        if self.neg_sampling is not None and self.neg_sampling.is_triplet():
            names = ("input_id", "src_index", "dst_pos_index", "dst_neg_index", "seed_time")
            batch.pop("edge_label_index", None)  # of the graph that was split, as PyG does
            batch.pop("edge_label_time", None)
        batch.update(zip(names, metadata, strict=True))


def _make_data(batch: dict[str, Any], custom_cls: Any) -> Any:
    """A ``Data`` of these attributes; what is None is left out."""
    if custom_cls is None:
        return Data.from_dict({name: value for name, value in batch.items() if value is not None})
    data = custom_cls()
    for name, value in batch.items():
        setattr(data, name, value)
    return data
