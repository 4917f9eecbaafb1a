"""Iterator over a loader without workers, with batches sampled and fetched ahead by threads."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler

__all__ = ["PrefetchIterator", "pin"]


class PrefetchIterator:
    """Iterator of ``finish(sample)`` for each batch of ``loader``, with samples made ahead.

    Args:
        loader: a ``torch.utils.data.DataLoader``; its (batch) sampler gives the numbers.
        samples: called once with the numbers of all batches; its iterator runs ahead.
        finish: called in the thread that iterates.
    """

    def __init__(
        self,
        loader: Any,
        samples: Callable[[Iterator[Any]], Iterator[Any]],
        finish: Callable[[Any], Any],
    ) -> None:
        self._loader = loader
        self._finish = finish
        # torch's iterators draw a seed for workers even if there are none: draw it too, so that the
        # order of shuffled seeds is the same.
        torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
        self._samples = samples(_number_batches(loader))

    def __iter__(self) -> PrefetchIterator:
        return self

    def __next__(self) -> Any:
        return self._finish(next(self._samples))

    def __len__(self) -> int:
        return len(self._loader)


def pin(data: Any) -> Any:
    """Return ``data`` in pinned memory if it has ``pin_memory``, else unchanged."""
    return data.pin_memory() if hasattr(data, "pin_memory") else data


def _number_batches(loader: Any) -> Iterator[Any]:
    """Yield the seed numbers of each batch, as torch's samplers give them, without lists."""
    sampler = loader.batch_sampler
    if type(sampler) is not BatchSampler:
        yield from loader.sampler if sampler is None else sampler
        return
    numbers = iter(sampler.sampler)
    while True:
        batch = np.fromiter(itertools.islice(numbers, sampler.batch_size), np.int64)
        if len(batch) < sampler.batch_size and (sampler.drop_last or not len(batch)):
            return
        yield batch
