"""Order of a loader's batches: ours, which is a function of seed and epoch, or torch's.

::

    order= with a world_size    ->  computed from seed and epoch: nothing to keep or to replay
    else                        ->  torch's samplers, with the state of the generators when the
                                    epoch began: replayed to go on within it

Sources followed: ``torch/utils/data/{dataloader,sampler}.py``.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler

from aethergraph._checks.options import shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.loading.epoch import UNKNOWN, Batches, Position

__all__ = ["Generators", "IndexSampler"]


class Generators:
    """Generators that a loader and its samplers draw from, to keep their states.

    Args:
        *candidates: the loader's generator, None for torch's own, and those of its samplers.
    """

    def __init__(self, *candidates: Any) -> None:
        extra = (
            generator for generator in candidates[1:] if isinstance(generator, torch.Generator)
        )
        # None is torch's own, which not every torch can pickle. It is always among them: samplers
        # without a generator draw from it.
        named = (
            None if generator is torch.default_generator else generator
            for generator in (candidates[0], None, *extra)
        )
        self._generators = list({id(generator): generator for generator in named}.values())

    @property
    def _all(self) -> list[torch.Generator]:
        return [
            torch.default_generator if generator is None else generator
            for generator in self._generators
        ]

    def states(self) -> list[torch.Tensor]:
        """Return the states of all generators, the loader's first."""
        return [generator.get_state() for generator in self._all]

    def restore(self, states: list[torch.Tensor]) -> None:
        """Set the states of all generators."""
        for generator, state in zip(self._all, states, strict=True):
            generator.set_state(state)

    def draw_base_seed(self) -> None:
        """Draw what torch's iterators draw from the loader's generator when an epoch begins."""
        torch.empty((), dtype=torch.int64).random_(generator=self._all[0])

    def check(self, states: Any) -> None:
        """Raise InvalidArgumentError unless ``states`` are such as :meth:`states` returns."""
        if not isinstance(states, list) or len(states) != len(self._all):
            raise InvalidArgumentError(
                f"state['order'] must hold the states of {len(self._all)} generators, got "
                f"{shown(states)}"
            )
        for state in states:
            try:
                torch.Generator().set_state(state)
            except (TypeError, RuntimeError) as error:
                raise InvalidArgumentError(
                    f"state['order'] holds no state of a generator: {error}"
                ) from None


class IndexSampler:
    """What torch's iterators take the numbers of each batch from, one epoch after the other.

    It refers to no loader, since persistent iterators keep it.

    Args:
        sampler: the loader's sampler of batches, or of single seeds without ``batch_size``.
        batches: batches in an order of ours; None: torch's order.
        generator: the loader's.
    """

    def __init__(
        self, sampler: Any, batches: Batches | None, generator: torch.Generator | None = None
    ) -> None:
        self.sampler, self.batches = sampler, batches
        self.generators = Generators(
            generator, getattr(sampler, "generator", None),
            getattr(getattr(sampler, "sampler", None), "generator", None),
        )  # fmt: skip
        self._position: Position | None = None
        self._key = 0
        self._replayed: list[torch.Tensor] | None = None

    def __len__(self) -> int:
        return len(self.sampler)

    @property
    def total(self) -> int:
        """Number of batches of an epoch; UNKNOWN if a sampler of the user's has no length."""
        if self.batches is not None:
            return self.batches.total
        try:
            return len(self.sampler)
        except TypeError:
            return UNKNOWN

    def begin(self, position: Position, key: int, replayed: list[torch.Tensor] | None) -> None:
        """Prepare an epoch.

        Args:
            position: where it begins.
            key: decides our own order.
            replayed: states of the generators at the beginning of the epoch, to go on within it.
        """
        self._position, self._key, self._replayed = position, key, replayed

    def __iter__(self) -> Iterator[Any]:
        position, batches = self._position, self.batches
        if batches is not None and position is not None:
            order = batches.order(self._key)
            return (batches.index(order, number) for number in position.numbers())
        if self._replayed is None or position is None:
            return _number_batches(self.sampler)
        return self._replay(self._replayed, position.start)

    def _replay(self, states: list[torch.Tensor], start: int) -> Iterator[Any]:
        """Yield the batches from ``start`` on of an epoch that began with the generators' states.

        As a generator: torch's loaders with workers call iter() twice for an epoch and use the
        second one. Samplers that count epochs by themselves must be asked once.
        """
        before = self.generators.states()
        try:
            self.generators.restore(states)
            self.generators.draw_base_seed()
            numbers = _number_batches(self.sampler)
            # One more than are skipped: samplers draw when the first number is asked for.
            head = list(itertools.islice(numbers, start, start + 1))
        finally:
            self.generators.restore(before)
        yield from itertools.chain(head, numbers)


def _number_batches(sampler: Any) -> Iterator[Any]:
    """Yield the seed numbers of each batch, as torch's samplers give them, without lists."""
    if type(sampler) is not BatchSampler:
        yield from sampler
        return
    numbers, size = iter(sampler.sampler), min(sampler.batch_size, sys.maxsize)
    while True:
        batch = np.fromiter(itertools.islice(numbers, size), np.int64)
        if len(batch) < sampler.batch_size and (sampler.drop_last or not len(batch)):
            return
        yield batch
