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

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from multiprocessing.context import get_spawning_popen
from typing import Any, Literal

import torch
from numpy.typing import ArrayLike
from torch.utils.data import DataLoader
from torch_geometric.loader.base import DataLoaderIterator
from torch_geometric.sampler import BaseSampler, HeteroSamplerOutput, NodeSamplerInput

from aethergraph._checks.options import as_choice, as_flag, shown
from aethergraph._parallel.prefetch import PrefetchIterator as PrefetchMap
from aethergraph._parallel.prefetch import prefetch_map
from aethergraph._torch.iteration import next_iteration_key
from aethergraph._torch.random_seeds import SharedCount, check_seed
from aethergraph._tracepoints import stage
from aethergraph.errors import InvalidArgumentError
from aethergraph.loading.epoch import Batches, Delivery, Position
from aethergraph.loading.grouped import grouped_map
from aethergraph.loading.planned import planned_map
from aethergraph.loading.profiled import Profiled
from aethergraph.loading.resume import Resumable
from aethergraph.loading.shares import LastRound, as_share_of_batches
from aethergraph.loading.state import Told, describe, describe_sampler
from aethergraph.pyg._batch import (
    as_data,
    check_names,
    choose_columns,
    counted_types,
    fetch,
    make_batch,
    make_typed_batch,
)
from aethergraph.pyg._inputs import as_index, check_count
from aethergraph.pyg._keyed import KeyedSampler
from aethergraph.pyg._neighbors import NeighborSamplerBase
from aethergraph.pyg._order import IndexSampler
from aethergraph.pyg._prefetch import PrefetchIterator, pin
from aethergraph.pyg._tensor_rows import Names, tensors_of
from aethergraph.pyg.stores import Stores
from aethergraph.sampling.groups import EdgeColumns, SampleGroups
from aethergraph.sampling.keys import mix_key
from aethergraph.sampling.two_step import Steps, end_steps

__all__ = ["LoaderMixin", "NodeMixin", "own_depth"]


def own_depth(prefetch_batches: int, options: dict[str, Any]) -> int:
    """Return the number of batches to prepare ahead without workers; torch has no option for it.

    Without workers ``prefetch_factor`` is taken out of ``options``, since torch refuses it there.
    """
    if options.get("num_workers", 0) != 0 or options.get("prefetch_factor") is None:
        return prefetch_batches
    return check_count(options.pop("prefetch_factor"), "prefetch_factor", 1)


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


class _Keeping:
    """Iterator that keeps its loader alive; the wrapped iterator refers to the loader weakly.

    It keeps ``at`` as well: the snapshot that worker processes read is this process's.
    """

    def __init__(self, loader: LoaderMixin, iterator: Iterator[Any], at: Any) -> None:
        self._loader = loader
        self._iterator = iterator
        self._at = at

    def __iter__(self) -> _Keeping:
        return self

    def __next__(self) -> Any:
        return next(self._iterator)

    def __len__(self) -> int:
        return len(self._iterator)  # type: ignore[arg-type]


def _weakly(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap ``method`` so that the wrapper holds no strong reference to its object."""
    reference = weakref.WeakMethod(method)

    def call(value: Any) -> Any:
        found = reference()
        assert found is not None
        return found(value)

    return call


class LoaderMixin(Resumable, Profiled):
    """Prefetching, keys, order and batch making of our loaders; before PyG's class in the bases."""

    #: What batches have of their seeds, so that no attribute can be called so.
    seed_fields = frozenset(("input_id", "seed_time", "batch_size"))

    data: Stores
    prefetch_batches: int
    plan_ahead: int
    num_sample_threads: int
    seed: int | None

    # Attributes of PyG's and torch's loaders:
    input_data: Any
    transform: Callable[[Any], Any] | None
    transform_sampler_output: Callable[[Any], Any] | None
    filter_per_worker: bool
    custom_cls: Any
    batch_size: int | None
    num_workers: int
    persistent_workers: bool
    pin_memory: bool
    drop_last: bool
    generator: torch.Generator | None
    sampler: Any
    batch_sampler: Any
    dataset: Any
    _iterator: Any

    _begun: Any = None  # what the order of the epoch is replayed from

    def _set_up(
        self,
        data: Any,
        store: Any,
        seed: int | None,
        prefetch_batches: int,
        num_sample_threads: int,
        plan_ahead: int = 0,
        names: Names | None = None,
        snapshot: str = "batch",
    ) -> None:
        self.snapshot = as_choice(snapshot, ("batch", "epoch"), "snapshot")
        self._at: Any = None
        self._counted = counted_types(data, store)
        self._names = names = names or Names()
        check_names(data, store, names, self.seed_fields)
        self.node_attrs, self.edge_attrs = (None if own is None else sorted(own) for own in names)
        self.plan_ahead = check_count(plan_ahead, "plan_ahead", 0)
        self.seed = check_seed(seed)
        self.prefetch_batches = check_count(prefetch_batches, "prefetch_batches", 0)
        self.num_sample_threads = check_count(num_sample_threads, "num_sample_threads", 1)
        self._key: int | None = None
        self._shared_key = SharedCount()

    def _set_order(
        self,
        options: Mapping[str, Any],
        rank: int | None,
        world_size: int | Literal["auto"] | None,
        last_round: LastRound,
        partitions: ArrayLike | None,
        mix: int,
    ) -> None:
        """Choose the order of the seeds and the share of this process; before torch's class.

        Args:
            options: those of ``torch.utils.data.DataLoader``.
            rank: see the loaders, as for all others.
            world_size: see there.
            last_round: see there.
            partitions: see there.
            mix: see there.
        """
        self.rank, self.world_size, self.last_round = rank, world_size, last_round
        self.partitions, self.mix = partitions, mix
        self._share = as_share_of_batches(rank, world_size, last_round)
        given = [name for name in ("sampler", "batch_sampler") if options.get(name) is not None]
        if options.get("batch_size", 1) is None:
            given.append("batch_size=None")
        asked = [
            name for name, is_asked in (
                ("world_size", self._share.world_size > 1), ("partitions", partitions is not None)
            ) if is_asked
        ]  # fmt: skip
        if given and asked:
            raise InvalidArgumentError(
                f"{asked[0]} goes without {given[0]}, which decides the order of the seeds itself "
                "(Lightning gives a sampler unless use_distributed_sampler=False)"
            )
        self._is_ordered = (world_size is not None or partitions is not None) and not given
        if self._is_ordered and self.seed is None:
            self.seed = 0  # all ranks must draw the same order, as DistributedSampler
        self._is_shuffled = as_flag(options.get("shuffle", False), "shuffle")

    def _lighten(self) -> None:
        """Replace attributes that PyG and torch have set by lighter ones, and order the seeds.

        The bound method ``collate_fn`` makes a reference cycle, and the class has it anyway.
        With a range as dataset, torch would look up every number of every batch.
        """
        self.__dict__.pop("collate_fn", None)
        self.__dict__["dataset"] = _Positions(len(self.dataset))
        own = None
        if self._is_ordered:
            own = Batches(
                len(self.dataset), self.batch_size or 1, self._is_shuffled, self.drop_last,
                self.partitions, self.mix,
            )  # fmt: skip
        given = self.sampler if self.batch_sampler is None else self.batch_sampler
        self._numbers = IndexSampler(given, own, self.generator)

    @property
    def _index_sampler(self) -> IndexSampler:
        return self._numbers  # which torch's iterators take the numbers of batches from

    def __len__(self) -> int:
        own = self._numbers.own is not None
        return self._share.count(self._numbers.total) if own else len(self._numbers.given)

    # ---- an epoch begins -------------------------------------------------------------------

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch, which begins where a state said to go on."""
        self._set_next_epoch(check_count(epoch, "epoch", 0))

    def __iter__(self) -> Iterator[Any]:
        position, replayed = self._begin(), self._order_state
        self._order_state = None
        generators = self._numbers.generators
        now = generators.states()
        if replayed is not None:
            self._set_sampler_epoch(replayed["sampler_epoch"])
            generators.restore(replayed["generators"])
        self._begun = self._tell_generators()
        try:
            return Delivery(self._iterate(position, replayed), position)
        finally:
            if replayed is not None:  # the numbers were drawn when the epoch began
                generators.restore(now)

    def _iterate(self, position: Position, replayed: Any) -> Iterator[Any]:
        graph = self._live_graph()
        if self.snapshot == "epoch" and graph is not None:
            if self.persistent_workers:
                raise InvalidArgumentError(
                    "snapshot='epoch' with persistent_workers: workers would keep the commit of "
                    "the first epoch; take persistent_workers=False or snapshot='batch'"
                )
            self._lsn = graph.lsn
            self._at = graph.pinned()
        if self.seed is None:
            key = next_iteration_key(self.generator)
        else:
            key = mix_key(self.seed, position.epoch)
        self._numbers.begin(position, key, None if replayed is None else replayed["generators"])
        self._key = key
        self._shared_key.value = key - (1 << 63)
        if self.persistent_workers and self._iterator is not None:
            # torch draws a seed for new workers. Draw one here too, so that the seed order of later
            # epochs does not depend on the kind of workers.
            torch.empty((), dtype=torch.int64).random_(generator=self.generator)
        iterator: Iterator[Any] = super().__iter__()  # type: ignore[misc]
        store = self.data[1]
        live = self._live_graph() is not None or getattr(store, "native_snapshot", None) is not None
        if iterator is self._iterator or (live and self.num_workers):
            return _Keeping(self, iterator, self._at)
        return iterator

    def _epoch_key(self) -> int | None:
        """Return the key of the epoch.

        None means that the loader itself is not iterated, as in PyG's ``ZipLoader``.
        """
        if self._key is not None and self.persistent_workers:
            return self._shared_key.value + (1 << 63)
        return self._key

    def _get_iterator(self) -> Any:
        if self.num_workers == 0:
            if self._can_prefetch():
                return PrefetchIterator(self, self._samples_ahead, self._filter_and_pin)
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
        own = "collate_fn" not in self.__dict__ and (
            type(self).collate_fn is LoaderMixin.collate_fn
        )
        return own and self.prefetch_batches > 0 and isinstance(self._sampler(), KeyedSampler)

    def _filter_and_pin(self, out: Any) -> Any:
        data = self.filter_fn(out)
        if not (self.pin_memory and torch.cuda.is_available()):
            return data
        with stage("pin"):
            return pin(data)

    # ---- states ----------------------------------------------------------------------------

    @property
    def _total(self) -> int:
        return self._numbers.total

    def _tell_arrays(self) -> dict[str, Any]:
        seeds = self.input_data
        names = ("input_type", "node", "row", "col", "time", "label")
        told = {name: getattr(seeds, name, None) for name in names}
        own = self._numbers.own
        return told if own is None else told | own.aligned

    def _tell_options(self) -> Told:
        told = {name: describe(getattr(self, name)) for name in ("batch_size", "seed", "snapshot")}
        told["shuffle"], told["drop_last"] = describe(self._is_shuffled), describe(self.drop_last)
        given = self._numbers.given
        names = (type(one).__name__ for one in (given, getattr(given, "sampler", None)) if one)
        told["order"] = "of seed and epoch" if self._is_ordered else " of ".join(names)
        return {"loader": type(self).__name__, **told, **describe_sampler(self._sampler())}

    @property
    def _told_graph(self) -> Any:
        sampler = self._sampler()
        return sampler.graph if isinstance(sampler, KeyedSampler) else None

    def _tell_order(self) -> Any:
        if self._is_ordered:
            return None
        if self._position is not None and not self._position.is_over:
            return self._begun
        return self._tell_generators() if self._order_state is None else self._order_state

    def _tell_generators(self) -> Any:
        epoch = getattr(self._own_epochs(), "epoch", None)
        return {"generators": self._numbers.generators.states(), "sampler_epoch": epoch}

    def _check_order(self, order: Any) -> None:
        if self._is_ordered:
            return
        if not isinstance(order, Mapping) or "generators" not in order:
            raise InvalidArgumentError(f"state has no generators, got order = {shown(order)}")
        self._numbers.generators.check(order["generators"])

    def _own_epochs(self) -> Any:
        """Return the user's sampler that counts epochs, such as a DistributedSampler, or None."""
        given = self._numbers.given
        inner = getattr(given, "sampler", None)
        return next((one for one in (given, inner) if hasattr(one, "set_epoch")), None)

    def _set_sampler_epoch(self, epoch: Any) -> None:
        sampler = self._own_epochs()
        if sampler is not None and epoch is not None:
            sampler.set_epoch(epoch)

    # ---- a batch ---------------------------------------------------------------------------

    def _live_graph(self) -> Any:
        """Return the graph if it changes, else None."""
        return getattr(self.data[1], "live_graph", None)

    def _reading(self, commit: Any = None) -> AbstractContextManager[Any]:
        """Let this thread sample and fetch at one commit: this, the epoch's, or the last one."""
        graph = self._live_graph()
        return nullcontext() if graph is None else graph.reading(commit or self._at)

    def collate_fn(self, index: Any) -> Any:
        """Sample around the seeds numbered ``index``; with ``filter_per_worker`` fetch as well."""
        with stage("batch"), self._reading():
            out = self._sample_staged(index, self._epoch_key())
            return self.filter_fn(out) if self.filter_per_worker else out

    def _sample_staged(self, index: Any, key: int | None) -> Any:
        with stage("sample"):
            return self._sample(self.input_data[as_index(index)], key)

    def _samples_ahead(self, numbers: Iterable[Any]) -> Iterator[Any]:
        """Yield sampler outputs of ``numbers``, sampled and fetched in background threads."""
        store = None if self.transform_sampler_output is not None else self.data[0]
        planned = choose_columns(
            store, self._names, self.plan_ahead, self._groups(), self.batch_size or 1
        )
        coming = planned.coming
        if not coming.num_samples:
            return self._outputs(numbers, self._fetch_ahead, self.prefetch_batches, coming.columns)

        def finish(out: Any, plans: Any) -> Any:
            return self._fetch_ahead(out)  # the plans live as long as the chunk does

        return planned_map(
            self._outputs(numbers, lambda out: out, coming.num_samples, coming.columns),
            planned.plan,
            finish,
            coming=coming,
            depth=self.prefetch_batches,
        )

    def _groups(self) -> SampleGroups[Any] | None:
        sampler = self._sampler()
        return sampler.groups if isinstance(sampler, NeighborSamplerBase) else None

    def _outputs(
        self,
        numbers: Iterable[Any],
        end: Callable[[Any], Any],
        depth: int,
        columns: EdgeColumns,
    ) -> PrefetchMap[Any, Any]:
        """Sample ``numbers`` in background threads, gather ``columns``, apply ``end`` to each."""
        key, groups = self._epoch_key(), self._groups()
        if groups is None:

            def make(index: Any) -> Any:
                with stage("batch"), self._reading():
                    return end(self._sample_staged(index, key))

            return prefetch_map(make, numbers, num_threads=self.num_sample_threads, depth=depth)

        def prepare(index: Any) -> tuple[Steps, Any]:
            steps = self._steps(self.input_data[as_index(index)], key)
            return steps, next(steps)

        return grouped_map(
            prepare,
            lambda steps, sample: end(end_steps(steps, sample)),
            numbers,
            groups,
            num_seeds=self.batch_size or 1,
            columns=columns,
            reading=self._reading,
            depth=depth,
        )

    def _fetch_ahead(self, out: Any) -> Any:
        store = self.data[0]
        if self.transform_sampler_output is None and tensors_of(store).can_fetch_ahead:
            out._fetched = fetch(store, out, self._names)
        return out

    def filter_fn(self, out: Any) -> Any:
        """Make the batch: topology, node and edge tensors, and what PyG's loaders add."""
        with stage("build"):
            data = self._build(out)
        if self.transform is None:
            return data
        with stage("transform"):
            return self.transform(data)

    def _build(self, out: Any) -> Any:
        """Make the batch, but for the user's ``transform``."""
        fetched = out.__dict__.pop("_fetched", None)
        if self.transform_sampler_output is not None:
            out = self.transform_sampler_output(out)
        store, order = self.data[0], self._sampler().edge_permutation
        if fetched is None:
            fetched = fetch(store, out, self._names)
        if isinstance(out, HeteroSamplerOutput):
            data = make_typed_batch(store, out, fetched, order, self.custom_cls, self._counted)
            self._add_typed_metadata(data, out.metadata)
        else:
            batch = make_batch(store, out, fetched, order, self._counted)
            self._add_metadata(batch, out.metadata)
            data = as_data(batch, self.custom_cls)
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
        seeds = data[self.input_data.input_type]
        seeds.input_id, seeds.seed_time = metadata[:2]
        seeds.batch_size = metadata[0].size(0)
