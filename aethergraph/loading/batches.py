"""partition_aligned_batches: batches of seeds from few partitions, for loaders of any make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph._checks.arrays import as_count, as_ids, as_integer
from aethergraph._checks.options import as_flag
from aethergraph.errors import InvalidArgumentError, OutOfRangeError
from aethergraph.loading.epoch import Batches, Delivery
from aethergraph.loading.resume import Resumable
from aethergraph.loading.shares import LastRound, RankShare
from aethergraph.loading.state import Told, describe
from aethergraph.sampling.keys import mix_key

__all__ = ["AlignedBatches", "partition_aligned_batches"]


def partition_aligned_batches(
    parts: ArrayLike,
    batch_size: int,
    mix: int = 8,
    seed: int = 0,
    *,
    drop_last: bool = False,
    rank: int | None = None,
    world_size: int | Literal["auto"] | None = None,
    last_round: LastRound = "repeat",
) -> AlignedBatches:
    """Return batches of seeds whose neighbourhoods overlap: each has seeds of few partitions.

    ::

        parts = graph.rabbit_partitions()
        batches = partition_aligned_batches(parts[train_nodes], 1024, mix=8, seed=1)
        loader = NodeLoader(stores, sampler, train_nodes, batch_sampler=batches)   # PyG's

    A batch is made of ``mix`` runs, each of ``batch_size / mix`` seeds that follow each other in
    their partition; which runs come together is drawn anew in each epoch, and so is where the first
    one of each partition begins. Every seed comes once in an epoch. Where partitions end, runs are
    shorter, and a batch has more of them. With less ``mix`` batches read fewer pages; with more,
    gradients are like those of shuffled seeds.

    Args:
        parts: the partition of each seed, integers [number of seeds], of any source.
        batch_size: seeds per batch.
        mix: runs of a batch.
        seed: decides the batches, with the number of the epoch.
        drop_last: leave out a last batch that is smaller.
        rank: as in :class:`SubgraphLoader`.
        world_size: as in :class:`SubgraphLoader`.
        last_round: as in :class:`SubgraphLoader`.

    Raises:
        InvalidArgumentError: ``parts`` is not a vector of integers; ``batch_size`` or ``mix`` is
            not at least 1; other invalid arguments.
    """
    part_ids = as_ids(parts, "parts")
    if as_count(batch_size, "batch_size") < 1:
        raise InvalidArgumentError(f"batch_size = {batch_size} is not at least 1")
    batches = Batches(
        len(part_ids),
        int(batch_size),
        True,
        as_flag(drop_last, "drop_last"),
        part_ids,
        as_count(mix, "mix"),
    )
    share = RankShare(rank, world_size, last_round)
    return AlignedBatches(batches, as_integer(seed, "seed"), share)


class AlignedBatches(Resumable):
    """Batches that :func:`partition_aligned_batches` returns: positions of seeds, lists of int.

    It is a ``batch_sampler`` for torch's loaders, PyG's among them: each iteration is the next
    epoch, and begins with its first batch. ``batches[i]`` is batch i of the epoch at hand, for
    loaders that ask by number.

    Args:
        batches: which seeds each batch has.
        seed: decides the order, with the number of the epoch.
        share: batches of this rank.
    """

    def __init__(self, batches: Batches, seed: int, share: RankShare) -> None:
        self.seed = seed
        self._own_share = share
        self._batches = batches
        self._current: tuple[int, Any] = (-1, None)

    def __len__(self) -> int:
        return self._share.count(self._batches.total)

    @property
    def num_seeds(self) -> int:
        """Number of seeds, which batches have positions of."""
        return self._batches.num_seeds

    @property
    def epoch(self) -> int:
        """Number of the next epoch."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Make the next ``iter`` epoch number ``epoch``, from where a state said to go on."""
        self._set_next_epoch(as_count(epoch, "epoch"))

    def __iter__(self) -> Iterator[list[int]]:
        # A generator: torch's loaders with workers call iter() twice for an epoch and use the
        # second one. No epoch may be lost to the first.
        position = self._begin()
        order = self._batches.order(mix_key(self.seed, position.epoch))
        batches = (self._batches.index(order, number).tolist() for number in position.numbers())
        yield from Delivery(batches, position)

    def __getitem__(self, number: int) -> NDArray[np.int64]:
        """Return batch ``number`` of this rank in epoch :attr:`epoch`: positions, int64.

        Raises:
            OutOfRangeError: there is no such batch.
        """
        at = as_integer(number, "number")
        if not 0 <= at < len(self):
            raise OutOfRangeError(f"batch {at} is not in 0..{len(self) - 1}", value=at)
        epoch, order = self._current
        if epoch != self._epoch:
            epoch, order = self._epoch, self._batches.order(mix_key(self.seed, self._epoch))
            self._current = epoch, order
        total = self._batches.total
        share = self._share
        return self._batches.index(order, (share.rank + at * share.world_size) % total)

    def state_dict(self, delivered: int | None = None) -> dict[str, Any]:
        """Return where the training is, so that other batches can go on from there.

        ::

            for number, batch in enumerate(loader, 1):       # over batch_sampler=batches
                ...
                state = batches.state_dict(delivered=number)

        Loaders with workers, and :class:`aethergraph.pyg.LookAhead`, ask for batches long before
        they hand them out, so only who takes them from the loader can say how many have come. Our
        own loaders keep the place in their own state.

        Args:
            delivered: how many batches have come since the iteration began, all of them at its end;
                None: all that were asked for. That is right in loaders without workers, and what
                torchdata's ``StatefulDataLoader`` needs, which keeps the state of each batch.

        Raises:
            InvalidArgumentError: ``delivered`` is more than were asked for.
        """
        if delivered is None:
            return super().state_dict()
        position = self._position
        requested = 0 if position is None else position.delivered
        if as_count(delivered, "delivered") > requested:
            raise InvalidArgumentError(
                f"delivered = {delivered}, but only {requested} batches were asked for"
            )
        return self._state_at(None if position is None else position.after(int(delivered)))

    @property
    def _total(self) -> int:
        return self._batches.total

    def _tell_arrays(self) -> dict[str, Any]:
        return self._batches.aligned

    def _tell_options(self) -> Told:
        batches = self._batches
        sizes = {"batch_size": describe(batches.batch_size), "batches": describe(batches.total)}
        return {"seed": describe(self.seed), **sizes}

    @property
    def _told_graph(self) -> None:
        return None
