"""Iterator over a loader without workers, with batches sampled and fetched ahead by threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from aethergraph._parallel.prefetch import PrefetchIterator as PrefetchMap

__all__ = ["PrefetchIterator", "pin"]


class PrefetchIterator:
    """Iterator of ``finish(sample)`` for each batch of ``loader``, with samples made ahead.

    Args:
        loader: one of our loaders; its ``_index_sampler`` gives the numbers.
        samples: called once with the numbers of all batches; its iterator runs ahead.
        finish: called in the thread that iterates.
    """

    def __init__(
        self,
        loader: Any,
        samples: Callable[[Iterator[Any]], PrefetchMap[Any, Any]],
        finish: Callable[[Any], Any],
    ) -> None:
        self._loader = loader
        self._finish = finish
        # torch's iterators draw a seed for workers even if there are none: draw it too, so that the
        # order of shuffled seeds is the same.
        torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
        self._samples = samples(iter(loader._index_sampler))

    def __iter__(self) -> PrefetchIterator:
        return self

    def __next__(self) -> Any:
        return self._finish(next(self._samples))

    def __len__(self) -> int:
        return len(self._loader)

    def close(self) -> None:
        """Stop running ahead."""
        self._samples.close()


def pin(data: Any) -> Any:
    """Return ``data`` in pinned memory if it has ``pin_memory``, else unchanged."""
    return data.pin_memory() if hasattr(data, "pin_memory") else data
