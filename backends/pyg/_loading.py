"""Common base of our loaders: prefetching, epochs and keys, and batches with nothing left out.

::

    seeds -> [sample -> gather] -> [assemble -> transform -> pin] -> batch
              background threads    the thread that iterates

With ``num_workers=0`` the first half runs ahead of the training step in threads (the native core
lets go of the GIL); with workers, PyTorch's machinery is used as it is.

Sources followed: ``torch_geometric/loader/{node_loader,link_loader}.py`` and
``torch/utils/data/dataloader.py``.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from multiprocessing.context import get_spawning_popen
from typing import Any

import torch
from torch.utils.data import DataLoader, get_worker_info
from torch_geometric.loader.base import DataLoaderIterator
from torch_geometric.sampler import BaseSampler, HeteroSamplerOutput, NodeSamplerInput

from aethergraph._checks.options import as_flag
from aethergraph._native.live_reading import held_snapshots
from aethergraph._parallel.prefetch import PrefetchIterator, call_in_epoch
from aethergraph._torch.iteration import next_iteration_key
from aethergraph._torch.random_seeds import SharedCount, check_seed
from aethergraph._torch.tensors import land_pinned
from aethergraph._tracepoints import stage
from aethergraph.errors import InvalidArgumentError
from aethergraph.loading.epoch import Delivery, Position
from aethergraph.loading.options import Ahead, as_ahead
from aethergraph.loading.pipeline import Draw, DrawAlone, DrawGroups, Views, run_stages
from aethergraph.loading.profiled import Profiled
from aethergraph.pyg._batch import (
    as_data,
    check_names,
    choose_columns,
    counted_types,
    empty_copy,
    fetch,
    make_batch,
    make_typed_batch,
)
from aethergraph.pyg._epoch import Current, Epoch, EpochIterator
from aethergraph.pyg._inputs import as_index, check_count
from aethergraph.pyg._neighbors import NeighborSamplerBase
from aethergraph.pyg._order_mixin import OrderMixin
from aethergraph.pyg._sampler_base import KeyedSampler
from aethergraph.pyg._tensor_rows import Names, tensors_of
from aethergraph.pyg._typed_seeds import TypedSeeds
from aethergraph.pyg.stores import Stores
from aethergraph.sampling.groups import SampleGroups
from aethergraph.sampling.keys import mix_key
from aethergraph.sampling.two_step import Steps

__all__ = ["LoaderMixin", "NodeMixin", "ahead_of"]


def ahead_of(value: Any, options: dict[str, Any]) -> Ahead:
    """Return how far a loader works ahead without workers; torch has one option for it.

    Without workers ``prefetch_factor`` is taken out of ``options``, since torch refuses it there.
    """
    ahead = as_ahead(value)
    if options.get("num_workers", 0) != 0 or options.get("prefetch_factor") is None:
        return ahead
    factor = check_count(options.pop("prefetch_factor"), "prefetch_factor", 1)
    return replace(ahead, batches=factor)


def pin(data: Any) -> Any:
    """Return ``data`` in pinned memory if it has ``pin_memory``, else unchanged."""
    return data.pin_memory() if hasattr(data, "pin_memory") else data


class _Positions:
    """Dataset ``range(count)`` that passes a whole batch of numbers on unchanged."""

    __slots__ = ("_count",)

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, (list, tuple)):  # from a sampler that makes the batches itself
            return number
        return range(self._count)[number]

    def __getitems__(self, numbers: list[int]) -> list[int]:
        return numbers


def _weakly(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap ``method`` so that the wrapper holds no strong reference to its object."""
    reference = weakref.WeakMethod(method)

    def call(value: Any) -> Any:
        bound_method = reference()
        assert bound_method is not None
        return bound_method(value)

    return call


class LoaderMixin(OrderMixin, Profiled):
    """Prefetching, keys, order and batch making of our loaders; before PyG's class in the bases."""

    #: What batches have of their seeds, so that no attribute can be called so.
    seed_fields = frozenset(("input_id", "seed_time", "batch_size"))

    data: Stores
    ahead: Ahead
    seed: int | None

    # Attributes of PyG's and torch's loaders:
    transform: Callable[[Any], Any] | None
    transform_sampler_output: Callable[[Any], Any] | None
    filter_per_worker: bool
    custom_cls: Any
    num_workers: int
    persistent_workers: bool
    pin_memory: bool
    _iterator: Any

    def _set_up(
        self,
        data: Any,
        store: Any,
        seed: int | None,
        ahead: Ahead,
        names: Names | None = None,
    ) -> None:
        self._current = Current()
        self._counted = counted_types(data, store)
        self._like = empty_copy(data)
        self._names = names = names or Names()
        check_names(data, store, names, self.seed_fields)
        self.node_attrs, self.edge_attrs = (
            None if attrs is None else sorted(attrs) for attrs in names
        )
        self.seed = check_seed(seed)
        self.ahead = ahead
        self._shared_key = SharedCount()

    def _lighten(self) -> None:
        """Replace attributes that PyG and torch have set by lighter ones, and order the seeds.

        The bound method ``collate_fn`` makes a reference cycle, and the class has it anyway.
        With a range as dataset, torch would look up every number of every batch.
        """
        self.__dict__.pop("collate_fn", None)
        self.filter_per_worker = as_flag(self.filter_per_worker, "filter_per_worker")
        self.__dict__["dataset"] = _Positions(len(self.dataset))
        self._order_seeds()

    # ---- an epoch begins -------------------------------------------------------------------

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch, which begins where a state said to go on."""
        self._set_next_epoch(check_count(epoch, "epoch", 0))

    def __iter__(self) -> Iterator[Any]:
        self._refresh()
        at = self._pin_epoch()  # before an epoch is counted, as it may raise
        position, replayed = self._begin(), self._order_state
        self._order_state = None
        self._note_commit(at)
        generators = self._numbers.generators
        now = generators.states()
        if replayed is not None:
            self._set_sampler_epoch(replayed["sampler_epoch"])
            if not position.start and all(map(torch.equal, now, replayed["generators"])):
                replayed = None  # nothing was drawn yet: the generators go on from here
            else:
                generators.restore(replayed["generators"])
        self._begun = self._tell_generators()
        try:
            return Delivery(self._iterate(position, replayed, at), position, self.num_workers > 0)
        finally:
            if replayed is not None:  # the numbers were drawn when the epoch began
                generators.restore(now)

    def _refresh(self) -> None:
        """Take over what has changed in the user's ``Data``; warn of what samples go by."""
        sampler, drawn_by = self._sampler(), set()
        if isinstance(sampler, NeighborSamplerBase):
            drawn_by = {name for name in (sampler.time_attr, sampler.weight_attr) if name}
        fixed = tensors_of(self.data[0]).refresh(drawn_by)
        if fixed:
            warnings.warn(
                f"{', '.join(fixed)} of the data changed after the loader was made, and samples go "
                "by what was there then, as PyG's do: make the loader anew",
                stacklevel=3,
            )

    def _pin_epoch(self) -> Any:
        """Return the view that all batches of an epoch are of; None: each has its own."""
        graph = self._live_graph()
        if graph is None:
            return None
        if self.snapshot == "epoch":
            if self.persistent_workers:
                raise InvalidArgumentError(
                    "snapshot='epoch' with persistent_workers: workers would keep the commit of "
                    "the first epoch; take persistent_workers=False or Order(snapshot='batch')"
                )
            return graph.pinned()
        if self.num_workers and not self.filter_per_worker:
            self._check_transform()
        return None

    def _iterate(self, position: Position, replayed: Any, at: Any) -> Iterator[Any]:
        if self.seed is None:
            key = next_iteration_key(self.generator)
        else:
            key = mix_key(self.seed, position.epoch)
        if (seeded := self._seeded_sampler) is not None:
            seeded.begin_iteration(next_iteration_key(self.generator))
        self._numbers.begin(position, key, None if replayed is None else replayed["generators"])
        self._shared_key.value = key - (1 << 63)
        if self.persistent_workers and self._iterator is not None:
            # torch draws a seed for new workers. Draw one here too, so that the seed order of later
            # epochs does not depend on the kind of workers.
            torch.empty((), dtype=torch.int64).random_(generator=self.generator)
        epoch = Epoch(key, Views(self._live_graph(), at))
        with self._current.within(epoch):
            batches: Iterator[Any] = super().__iter__()  # type: ignore[misc]
        if isinstance(batches, PrefetchIterator) and self._live_graph() is None:
            return batches  # its stages know the epoch, and there is no commit to let go of
        # Workers go on reading what this thread read when they began, as long as this process
        # holds it.
        snapshots = held_snapshots() if self.num_workers else None
        return EpochIterator(self, batches, epoch, self._current, snapshots)

    def _epoch_key(self) -> int | None:
        """Return the key of the epoch that this thread makes a batch of.

        None means that the sampler finds its key itself: it has a seed, or the loader is not
        iterated, as in PyG's ``ZipLoader``.
        """
        if self._seeded_sampler is not None:
            return None
        epoch = self._current.epoch
        if epoch is not None and self.persistent_workers:  # which know the first epoch alone
            return self._shared_key.value + (1 << 63)
        return None if epoch is None else epoch.key

    def _get_iterator(self) -> Any:
        if self.num_workers == 0:
            if self._can_prefetch():
                # Torch's iterators draw a seed for workers even if there are none. Draw it too, so
                # that the order of shuffled seeds is the same.
                torch.empty((), dtype=torch.int64).random_(generator=self.generator)
                return self._batches_ahead(iter(self._index_sampler))
            return super()._get_iterator()  # type: ignore[misc]
        iterator: Any = DataLoader._get_iterator(self)  # type: ignore[arg-type]
        # The workers have their copy of collate_fn. A persistent iterator must not refer back to
        # the loader that owns it: torch takes 5 seconds per worker to end one that the garbage
        # collector finds.
        iterator._collate_fn = None
        if self.filter_per_worker:
            return iterator
        finish = self._filter_and_pin
        return DataLoaderIterator(iterator, _weakly(finish) if self.persistent_workers else finish)

    def _can_prefetch(self) -> bool:
        # Samplers and collate functions of users may not be safe to run in a thread.
        is_ours = "collate_fn" not in self.__dict__ and (
            type(self).collate_fn is LoaderMixin.collate_fn
        )
        return is_ours and isinstance(self._sampler(), KeyedSampler)

    def _filter_and_pin(self, out: Any) -> Any:
        pins = self._pins()
        with land_pinned() if pins else nullcontext():
            data = self.filter_fn(out)
        return self._pinned(data) if pins else data

    def _pins(self) -> bool:
        """Return whether batches are handed over in pinned memory."""
        return self.pin_memory and torch.cuda.is_available()

    def _pinned(self, data: Any) -> Any:
        with stage("pin"):
            return pin(data)

    # ---- a batch ---------------------------------------------------------------------------

    def _live_graph(self) -> Any:
        """Return the graph if it changes, else None."""
        return getattr(self.data[1], "live_graph", None)

    @property
    def _views(self) -> Views:
        """Views of the graph that the batches of this thread's epoch are of."""
        epoch = self._current.epoch
        return Views(self._live_graph()) if epoch is None else epoch.views

    def collate_fn(self, index: Any) -> Any:
        """Sample around the seeds numbered ``index``; with ``filter_per_worker`` fetch as well."""
        if self._current.epoch is None:  # the loader is called, not iterated
            self._refresh()
        with stage("batch"), self._views.reading():
            out = self._sample_staged(index, self._epoch_key())
            return self.filter_fn(out) if self.filter_per_worker else self._with_view(out)

    def _with_view(self, out: Any) -> Any:
        """Return a sample that carries its view, as its rows are fetched later.

        A view does not cross processes: a worker fetches the rows, unless the process that iterates
        holds the view of the whole epoch.
        """
        views = self._views
        if get_worker_info() is None:
            if (view := views.take()) is not None:
                out._view = view
        elif views.advance and tensors_of(self.data[0]).can_fetch_ahead:
            self._check_transform()
            out._fetched = fetch(self.data[0], out, self._names, self._sampler().edge_permutation)
        return out

    def _check_transform(self) -> None:
        """Raise if rows would be fetched in another process, and at another commit, than sampled.

        Raises:
            InvalidArgumentError: says what to do.
        """
        if self.transform_sampler_output is not None:
            raise InvalidArgumentError(
                "transform_sampler_output with workers and filter_per_worker=False: this process "
                "would fetch rows of a graph that changes later than the workers draw the edges; "
                "take filter_per_worker=True, order=Order(snapshot='epoch'), or a snapshot of the "
                "graph"
            )

    def _sample_staged(self, index: Any, key: int | None) -> Any:
        seeds = self.input_data[as_index(index)]
        with stage("sample"):
            return call_in_epoch(lambda sampler_input: self._sample(sampler_input, key), seeds)

    def _batches_ahead(self, numbers: Iterable[Any]) -> PrefetchIterator[Any, Any]:
        """Return the batches of ``numbers``, sampled and fetched ahead if ``ahead`` says so."""
        key, groups, size = self._epoch_key(), self._groups(), self.batch_size or 1
        store = None if self.transform_sampler_output is not None else self.data[0]
        planned = choose_columns(store, self._names, self.ahead.plan, groups, size)
        draw: Draw[Any, Any]
        if groups is None:
            draw = DrawAlone(
                lambda index: self._sample_staged(index, key), self.ahead.num_threads, helping=True
            )
        else:
            draw = DrawGroups(
                lambda index: self._steps(self.input_data[as_index(index)], key), groups, size,
                planned.rows.columns,
            )  # fmt: skip
        batches = run_stages(
            numbers, draw, lambda out, _: self._fetch_ahead(out), views=self._views,
            rows=planned.rows, plan=planned.plan, num_threads=self.ahead.num_threads,
            depth=max(1, self.ahead.batches),
        )  # fmt: skip
        return batches.then(self._filter_and_pin)

    def _groups(self) -> SampleGroups[Any] | None:
        sampler = self._sampler()
        can_group = self.ahead.batches and isinstance(sampler, NeighborSamplerBase)
        return sampler.groups if can_group else None

    def _fetch_ahead(self, out: Any) -> Any:
        """Fetch what a sample needs, where the store allows that in a background thread.

        Batches for pinned memory are also made there: rows land in it, and what else they hold is
        copied while the training thread does other things.
        """
        store = self.data[0]
        if self.transform_sampler_output is not None or not tensors_of(store).can_fetch_ahead:
            return self._with_view(out)
        pins = self._pins()
        with land_pinned() if pins else nullcontext():
            out._fetched = fetch(store, out, self._names, self._sampler().edge_permutation)
        if pins and self.custom_cls is None:
            out._built = self._pinned(self._build(out))
        return out

    def filter_fn(self, out: Any) -> Any:
        """Make the batch: topology, node and edge tensors, and what PyG's loaders add."""
        data = out.__dict__.pop("_built", None)
        view, views = out.__dict__.pop("_view", None), self._views
        # Without a view all rows are there: the worker that drew the sample fetched them.
        with nullcontext() if view is None and views.at is None else views.reading(view):
            if data is None:
                data = self._build(out)
            if self.transform is None:
                return data
            with stage("transform"):
                return call_in_epoch(self.transform, data)

    def _build(self, out: Any) -> Any:
        """Make the batch, but for the user's ``transform``."""
        with stage("build"):
            fetched = out.__dict__.pop("_fetched", None)
            if self.transform_sampler_output is not None:
                out = call_in_epoch(self.transform_sampler_output, out)
            store, order = self.data[0], self._sampler().edge_permutation
            if fetched is None:
                fetched = fetch(store, out, self._names, order)
            if isinstance(out, HeteroSamplerOutput):
                data = make_typed_batch(
                    store, out, fetched, order, self.custom_cls, self._counted, self._like
                )
                self._add_typed_metadata(data, out.metadata)
            else:
                batch = make_batch(store, out, fetched, order, self._counted)
                self._add_metadata(batch, out.metadata)
                data = as_data(batch, self.custom_cls, self._like)
            return data

    def _sampler(self) -> BaseSampler:
        raise NotImplementedError

    def _sample(self, seeds: Any, key: int | None) -> Any:
        raise NotImplementedError

    def _steps(self, seeds: Any, key: int | None) -> Steps:
        raise NotImplementedError

    def _add_metadata(self, batch: dict[str, Any], metadata: tuple[Any, ...]) -> None:
        raise NotImplementedError

    def _add_typed_metadata(self, data: Any, metadata: tuple[Any, ...]) -> None:
        raise NotImplementedError

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self._sampler()!r}, num_seeds={len(self.dataset)}, "
            f"batch_size={self.batch_size})"
        )

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_iterator"] = None
        if get_spawning_popen() is not None:
            # A worker does not need these, and torch cannot pickle a generator.
            state["sampler"] = state["batch_sampler"] = state["generator"] = None
            state["_numbers"] = state["partitions"] = None
            state["_begun"] = state["_order_state"] = state["_position"] = None
            if not self.filter_per_worker:
                state["_like"] = None  # of a class that perhaps cannot be pickled
        return state


class NodeMixin(LoaderMixin):
    """Node-seed half of :class:`LoaderMixin`: sampling steps and metadata around nodes."""

    node_sampler: BaseSampler

    def _sampler(self) -> BaseSampler:
        return self.node_sampler

    def _sample(self, seeds: NodeSamplerInput, key: int | None) -> Any:
        sampler = self.node_sampler
        if isinstance(sampler, KeyedSampler):
            return sampler.sample_from_nodes(seeds, loader_key=key)
        return sampler.sample_from_nodes(seeds)

    def _steps(self, seeds: NodeSamplerInput, key: int | None) -> Steps:
        sampler: Any = self.node_sampler
        steps: Steps = sampler.node_steps(seeds, key)
        return steps

    def _add_metadata(self, batch: dict[str, Any], metadata: tuple[Any, ...]) -> None:
        batch["input_id"] = metadata[0]
        batch["seed_time"] = metadata[1]
        batch["batch_size"] = metadata[0].size(0)

    def _add_typed_metadata(self, data: Any, metadata: tuple[Any, ...]) -> None:
        if isinstance(self.input_data, TypedSeeds):
            for node_type, input_id in metadata[0].items():
                seeds = data[node_type]
                seeds.input_id, seeds.seed_time = input_id, metadata[1].get(node_type)
                seeds.batch_size = input_id.size(0)
            return
        seeds = data[self.input_data.input_type]
        seeds.input_id, seeds.seed_time = metadata[:2]
        seeds.batch_size = metadata[0].size(0)
