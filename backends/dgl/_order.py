"""Seeds of a DGL loader in an order of ours, as DGL's loader asks its dataset for them.

DGL shuffles the order of the last epoch in place by numpy's generator, so that no place in an epoch
can be found again. With a seed the order is computed from seed and epoch. Worker processes take
turns: worker ``i % num_workers`` makes batch i, and torch hands the batches out in their order.

Source followed: ``dgl/dataloading/dataloader.py``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from aethergraph._checks.arrays import as_ids
from aethergraph._checks.options import shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.loading.batches import AlignedBatches
from aethergraph.loading.epoch import Batches, Position
from aethergraph.sampling.keys import mix_key

__all__ = ["BatchedSeeds", "KeyedCalls", "OrderedSeeds"]


class KeyedSeeds(NamedTuple):
    """Seeds of a batch, and the key of what draws from torch's generator for it."""

    seeds: Any
    key: int


class KeyedCalls:
    """Sampler that calls another one with torch's generator set for each batch, and back again.

    DGL's negative samplers draw from it: so their draws are those of the batch, too, in whatever
    process it is made.

    Args:
        sampler: the loader's sampler.
    """

    def __init__(self, sampler: Any) -> None:
        if not callable(getattr(sampler, "sample", None)):
            raise InvalidArgumentError(f"graph_sampler = {shown(sampler)} has no sample()")
        self._sampler = sampler

    def sample(self, graph: Any, item: KeyedSeeds) -> Any:
        """Return the batch of ``item``."""
        before = torch.default_generator.get_state()
        try:
            torch.default_generator.manual_seed(item.key - (1 << 63))  # that of the CPU alone
            return self._sampler.sample(graph, item.seeds)
        finally:
            torch.default_generator.set_state(before)


class OrderedSeeds(IterableDataset[Any]):
    """Batches of seeds in the order of a key, as a loader's dataset.

    Args:
        seeds: ids, a tensor [n] or tensors by type.
        batches: which of them make up each batch, counted over all types.
        keyed: hand :class:`KeyedCalls` a key with the seeds.
    """

    def __init__(self, seeds: Any, batches: Batches, keyed: bool) -> None:
        self._seeds, self._keyed = seeds, keyed
        self.batches = batches
        self._typed = dict(seeds) if isinstance(seeds, Mapping) else {"": seeds}
        self._ends = np.cumsum([len(ids) for ids in self._typed.values()])
        self._position: Position | None = None
        self._key = 0

    @property
    def device(self) -> torch.device:
        """Device of the seeds, which DGL asks for."""
        return next((ids.device for ids in self._typed.values()), torch.device("cpu"))

    def begin(self, position: Position, key: int) -> None:
        """Prepare the epoch of ``key``, from ``position`` on."""
        self._position, self._key = position, key

    def shuffle(self) -> None:
        """Do nothing: the key decides the order."""

    def __len__(self) -> int:
        return self.batches.total

    def __iter__(self) -> Iterator[Any]:
        assert self._position is not None
        # Now, since another epoch may begin before the first batch of this one is asked for.
        return self._batches_of(self._position, self._key)

    def _batches_of(self, position: Position, key: int) -> Iterator[Any]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        order = self.batches.order(key)
        for number in itertools.islice(position.numbers(), first, None, step):
            seeds = self._pick(self.batches.index(order, number))
            yield KeyedSeeds(seeds, mix_key(key, number)) if self._keyed else seeds

    def _pick(self, index: Any) -> Any:
        """Return the ids at positions ``index``; of many types those that are there."""
        if not isinstance(self._seeds, Mapping):
            return self._seeds[torch.from_numpy(index)]
        kind = np.searchsorted(self._ends, index, side="right")
        picked = {}
        for number, (name, ids) in enumerate(self._typed.items()):
            positions = index[kind == number]
            if len(positions):
                picked[name] = ids[torch.from_numpy(positions - (self._ends[number] - len(ids)))]
        return picked


class BatchedSeeds(Dataset[Any]):
    """Seeds in given batches, as ``indices`` of DGL's stock ``DataLoader``.

    ::

        batches = partition_aligned_batches(parts[train_nodes], 1024, mix=8)
        loader = dgl.dataloading.DataLoader(
            storage, BatchedSeeds(train_nodes, batches), sampler, shuffle=True
        )

    With ``shuffle=True`` each epoch has the batches of the next one; else all have the same.

    Args:
        seeds: ids of nodes or edges [n], a tensor, an array or a list.
        batches: :func:`aethergraph.loading.partition_aligned_batches` of ``n`` seeds.

    Raises:
        InvalidArgumentError: ``batches`` are not such batches, or of another number of seeds.
    """

    def __init__(self, seeds: Any, batches: AlignedBatches) -> None:
        if not isinstance(batches, AlignedBatches):
            raise InvalidArgumentError(
                f"batches must be partition_aligned_batches(), got {type(batches).__name__}"
            )
        ids = seeds if isinstance(seeds, torch.Tensor) else torch.from_numpy(as_ids(seeds, "seeds"))
        if ids.ndim != 1 or len(ids) != batches.num_seeds:
            raise InvalidArgumentError(
                f"seeds has shape {tuple(ids.shape)}, but batches are of {batches.num_seeds} seeds"
            )
        self._seeds, self._batches = ids, batches
        self._has_begun = False

    @property
    def device(self) -> torch.device:
        """Device of the seeds, which DGL asks for."""
        return self._seeds.device

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, number: int) -> torch.Tensor:
        """Return the seeds of batch ``number`` of the epoch."""
        if number >= len(self):
            raise IndexError(number)  # which ends an iteration
        return self._seeds[torch.from_numpy(self._batches[number])]

    def shuffle(self) -> None:
        """Go on to the next epoch, unless none has begun; DGL calls it before each."""
        if self._has_begun:
            self._batches.set_epoch(self._batches.epoch + 1)
        self._has_begun = True
