"""DGL's ``DataLoader``, with coming batches drawn together.

Source followed: ``dgl/dataloading/dataloader.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils.data import IterableDataset

import dgl.dataloading
from aethergraph._checks.arrays import as_count
from aethergraph._checks.options import as_flag
from aethergraph._torch.random_seeds import check_seed
from aethergraph.dgl._ahead import Coming, SteppedSampler, look_ahead, takes_steps
from aethergraph.dgl._order import KeyedCalls, OrderedSeeds
from aethergraph.dgl.storage import GraphStorage
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.loading.epoch import Batches, Delivery
from aethergraph.loading.options import Order, as_order
from aethergraph.loading.profiled import Profiled
from aethergraph.loading.resume import Resumable
from aethergraph.loading.state import Told, describe, describe_sampler
from aethergraph.sampling.keys import mix_key
from dgl.dataloading.dataloader import create_tensorized_dataset

__all__ = ["DataLoader"]


class DataLoader(Resumable, Profiled, dgl.dataloading.DataLoader):  # type: ignore[misc]
    """DGL's ``DataLoader``, which samples coming batches together where that saves reading.

    ::

        storage = GraphStorage(Graph.load("graph.aeg", storage="uring", memory_budget="1G"))
        loader = DataLoader(storage, nodes, NeighborSampler([10, 10]), batch_size=1024)

    Batches, their order and the arguments are those of ``dgl.dataloading.DataLoader``, which asks a
    sampler for one batch at a time. Over a graph with ``storage="uring"`` this one prepares as many
    batches as the graph's ``memory_budget`` has room for and has a thread read the lists for all of
    them, while the batches before are used; in each worker process, if there are some. Sampled
    ahead are the seed nodes of :class:`NeighborSampler`, under all its names, and
    :class:`ShaDowKHopSampler`. With other samplers and other storages it is DGL's loader unchanged.

    With ``seed`` the order of the seeds and the draws of our samplers are a function of it and of
    the number of the epoch, and :meth:`state_dict` keeps a place within an epoch::

        loader = DataLoader(storage, nodes, sampler, batch_size=1024, shuffle=True, seed=1)

    Args:
        graph: a :class:`GraphStorage`, or another graph that DGL takes.
        indices, graph_sampler, device, use_ddp, ddp_seed, batch_size, drop_last, shuffle,
            **options: see ``dgl.dataloading.DataLoader``.
        seed: fixed number that decides order and draws (those of a sampler without a ``seed`` of
            its own); None: numpy's generator orders the seeds, as in DGL.
        order: the share of this process among several, or seeds of few partitions in each batch:
            :class:`aethergraph.loading.Order`; ``seed`` is then 0 if none is given. Its
            ``snapshot="epoch"`` is refused: a loader over a snapshot has one commit.

    Raises:
        InvalidArgumentError: invalid arguments; ``seed`` beside ``use_ddp``,
            ``persistent_workers``, a dataset of your own, or ``use_prefetch_thread`` with a sampler
            that is not ours.
    """

    _ordered_seeds: OrderedSeeds | None = None

    def __init__(
        self,
        graph: Any,
        indices: Any,
        graph_sampler: Any,
        device: Any = None,
        use_ddp: bool = False,
        ddp_seed: int = 0,
        batch_size: int | None = 1,
        drop_last: bool = False,
        shuffle: bool = False,
        *,
        seed: int | None = None,
        order: Order | None = None,
        **options: Any,
    ) -> None:
        source: Any = indices
        sampler = graph_sampler
        self.order = as_order(order)
        if self.order.snapshot == "epoch":
            raise UnsupportedError(
                "order.snapshot = 'epoch': DGL's loader looks the graph up for each batch; make "
                "one for each epoch, over GraphStorage(graph.snapshot())"
            )
        self._own_share = self.order.share()
        self.seed = check_seed(seed)
        is_shared = self._share.world_size > 1 or self._own_share.is_open
        if self.seed is None and (is_shared or self.order.partitions is not None):
            self.seed = 0  # all ranks must draw the same order
        if self.seed is not None and "collate_fn" not in options:
            source = self._ordered_seeds = self._order_seeds(
                indices, batch_size, use_ddp, drop_last, shuffle, takes_steps(sampler), options
            )
            if not takes_steps(sampler):
                sampler = KeyedCalls(sampler)
        # With collate_fn Lightning makes a loader anew, of the parts of another one.
        if (
            "collate_fn" not in options
            and isinstance(graph, GraphStorage)
            and takes_steps(graph_sampler)
            and not options.get("use_uva", False)
            and (tensors := _as_tensors(indices)) is not None
        ):
            batches = self._ordered_seeds or create_tensorized_dataset(
                tensors, batch_size, drop_last, use_ddp, ddp_seed, shuffle,
                options.get("persistent_workers", False),
            )  # fmt: skip
            source = _BatchesAhead(batches, graph, graph_sampler)
            sampler = _Finisher(graph_sampler)
        super().__init__(
            graph, source, sampler, device, use_ddp, ddp_seed, batch_size, drop_last, shuffle,
            **options,
        )  # fmt: skip
        self.indices, self.graph_sampler = indices, graph_sampler
        self._size = batch_size

    def _order_seeds(
        self, indices: Any, batch_size: Any, use_ddp: bool, drop_last: bool, shuffle: bool,
        stepped: bool, options: dict[str, Any],
    ) -> OrderedSeeds:  # fmt: skip
        """Return the seeds in our order, and let a generator tell torch the key of each epoch."""
        tensors = _as_tensors(indices)
        # Samplers that are not ours draw with torch's generator, set for each batch: only where no
        # other thread draws at the same time.
        alone = not stepped and not options.get("num_workers", 0)
        for name, is_there in (
            ("use_ddp", as_flag(use_ddp, "use_ddp")),
            (
                "persistent_workers",
                as_flag(options.get("persistent_workers"), "persistent_workers"),
            ),
            ("generator", options.get("generator") is not None),
            ("a dataset as indices", tensors is None),
            ("use_prefetch_thread", alone and options.get("use_prefetch_thread")),
        ):
            if is_there:
                raise InvalidArgumentError(
                    f"{name} goes without seed and order, which decide the batches and their draws "
                    "(for several processes: order=Order(world_size='auto'))"
                )
        for seeds in tensors.values() if isinstance(tensors, Mapping) else [tensors]:
            if seeds.layout != torch.strided:
                raise InvalidArgumentError(f"indices is a tensor of {seeds.layout}: make it dense")
        size = as_count(batch_size, "batch_size")
        if size < 1:
            raise InvalidArgumentError(f"batch_size = {size} is not at least 1")
        count = sum(map(len, tensors.values())) if isinstance(tensors, Mapping) else len(tensors)
        options["generator"] = torch.Generator()
        if alone:
            options["use_prefetch_thread"] = False  # DGL's choice with a GPU
        batches = Batches(
            count, size, as_flag(shuffle, "shuffle"), as_flag(drop_last, "drop_last"),
            self.order.partitions, self.order.mix,
        )  # fmt: skip
        return OrderedSeeds(tensors, batches, keyed=not stepped)

    # ---- epochs and states -------------------------------------------------------------------

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch, which begins where a state said to go on.

        Without ``seed`` epochs have no numbers, and it does nothing.
        """
        self._set_next_epoch(as_count(epoch, "epoch"))

    def __len__(self) -> int:
        seeds = self._ordered_seeds
        return int(super().__len__()) if seeds is None else self._share.count(seeds.batches.total)

    def __iter__(self) -> Iterator[Any]:
        if self._ordered_seeds is None:
            iterator: Iterator[Any] = super().__iter__()
            return iterator
        assert self.seed is not None
        position = self._begin()
        key = mix_key(self.seed, position.epoch)
        self._ordered_seeds.begin(position, key)
        # torch draws the number of the iteration from it, which samplers draw by.
        self.generator.manual_seed(key - (1 << 63))
        return Delivery(super().__iter__(), position, self.num_workers > 0)

    @property
    def _ordered(self) -> OrderedSeeds:
        if self._ordered_seeds is None:
            raise UnsupportedError(
                "states need a DataLoader with seed=: without it numpy's generator shuffles the "
                "order of the last epoch, and no place in it can be found again"
            )
        return self._ordered_seeds

    @property
    def _total(self) -> int:
        return self._ordered.batches.total

    def _tell_arrays(self) -> dict[str, Any]:
        seeds = _as_tensors(self.indices)
        arrays = seeds if isinstance(seeds, Mapping) else {"indices": seeds}
        return {**arrays, **self._ordered.batches.aligned}

    def _tell_options(self) -> Told:
        options = {name: describe(getattr(self, name)) for name in ("seed", "shuffle", "drop_last")}
        sampler_options = describe_sampler(self.graph_sampler)
        return {
            "loader": type(self).__name__,
            "batch_size": describe(self._size),
            **options,
            **sampler_options,
        }

    @property
    def _told_graph(self) -> Any:
        return getattr(self.graph, "graph", None)


class _BatchesAhead(IterableDataset[Any]):
    """Seeds of the batches of an epoch, as a loader's dataset; out of core, batches being drawn.

    Args:
        batches: DGL's dataset of seeds by batch.
        graph: the loader's graph.
        sampler: the loader's sampler.
    """

    device = torch.device("cpu")  # of the seeds, which DGL asks for

    def __init__(self, batches: Any, graph: GraphStorage, sampler: SteppedSampler) -> None:
        self._batches = batches
        self._graph = graph
        self._sampler = sampler

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Any]:
        return self._items_of(iter(self._batches))  # those of the epoch that begins now

    def _items_of(self, batches: Iterator[Any]) -> Iterator[Any]:
        engine = self._sampler.engine_of(self._graph)
        groups = engine.groups
        if groups is None:
            yield from batches
            return
        coming = (Coming(self._sampler.steps(self._graph, seeds), engine) for seeds in batches)
        yield from look_ahead(coming, groups)

    def shuffle(self) -> None:
        """Shuffle the seeds, as DGL does before an epoch."""
        self._batches.shuffle()


class _Finisher:
    """Sampler that a loader calls for every item of :class:`_BatchesAhead`."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler

    def sample(self, graph: Any, item: Any) -> Any:
        """Return the batch of ``item``, which is on its way, or the seeds of one."""
        return item.finish() if isinstance(item, Coming) else self._sampler.sample(graph, item)


def _as_tensors(indices: Any) -> Any:
    """Return seeds as DGL's tensors, by type if they are; None: a dataset of the user's.

    Raises:
        InvalidArgumentError: seeds of no type, of which DGL's loader asks the first.
    """
    if isinstance(indices, Mapping) and not indices:
        raise InvalidArgumentError("indices = {}: seeds are by type, and there is none")
    try:
        if isinstance(indices, Mapping):
            return {name: torch.as_tensor(ids) for name, ids in indices.items()}
        return torch.as_tensor(indices)
    except (TypeError, ValueError, RuntimeError):  # as DGL, which asks such an object for batches
        return None
