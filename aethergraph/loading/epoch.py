"""The batches of an epoch: which positions of the seeds each of them has, and who gets it.

Loaders of every framework take their batches from here, unless torch's samplers give them::

    Batches ──order(key)──> SeedOrder  of one epoch; any batch can be taken from it
    Share   ──numbers()───> numbers    of the batches of this process
    Position                           what was delivered so far, for ``state_dict()``
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph.errors import InvalidArgumentError
from aethergraph.loading.aligned import AlignedOrder, Partitions, run_length
from aethergraph.loading.shares import Share
from aethergraph.loading.shuffle import Shuffle

__all__ = ["UNKNOWN", "Batches", "Delivery", "SeedOrder", "Position"]

#: Number of batches of an epoch whose sampler has no length, until it has ended.
UNKNOWN = sys.maxsize

Ids = NDArray[np.int64]
R = TypeVar("R")


class SeedOrder(Protocol):
    """SeedOrder of the positions ``0 .. n - 1``."""

    def take(self, start: int, stop: int) -> Ids:
        """Return the positions at places ``start .. stop - 1``, int64."""


class _Ascending:
    def __init__(self, count: int) -> None:
        self._count = count

    def take(self, start: int, stop: int) -> Ids:
        return np.arange(start, min(stop, self._count), dtype=np.int64)


class Batches:
    """Batches of ``count`` seeds, the same number in every epoch.

    Attributes:
        num_seeds: number of seeds.
        batch_size: seeds per batch.
        total: number of batches.

    Args:
        count: number of seeds.
        batch_size: seeds per batch.
        shuffle: order the seeds anew by the key of each epoch.
        drop_last: leave out a last batch that is smaller.
        partitions: the partition of each seed, for batches of ``mix`` of them; None: of all seeds.
        mix: partitions that a batch has seeds of.

    Raises:
        InvalidArgumentError: ``partitions`` is not one integer for each seed, or is given without
            ``shuffle``; ``mix`` is not at least 1.
    """

    def __init__(
        self, count: int, batch_size: int, shuffle: bool, drop_last: bool = False,
        partitions: ArrayLike | None = None, mix: Any = 8,
    ) -> None:  # fmt: skip
        self.num_seeds, self.batch_size = count, batch_size
        self._shuffle = shuffle
        self.total = count // batch_size if drop_last else -(-count // batch_size)
        self._length = run_length(batch_size, mix)
        self.partitions: Partitions | None = None
        self._mix = int(mix)  # as states describe it
        if partitions is not None:
            if not shuffle:
                raise InvalidArgumentError("partitions need shuffle=True: their seeds are mixed")
            self.partitions = Partitions(partitions, count, "partitions")

    @property
    def aligned(self) -> dict[str, Any]:
        """What decides the order beside key, shuffle and sizes, by the names of the arguments."""
        if self.partitions is None:
            return {}
        return {"partitions": self.partitions.parts, "mix": self._mix}

    def order(self, key: int) -> SeedOrder:
        """Return the order of the seeds in the epoch of ``key``."""
        if self.partitions is not None:
            return AlignedOrder(self.partitions, self._length, key)
        return Shuffle(self.num_seeds, key) if self._shuffle else _Ascending(self.num_seeds)

    def index(self, order: SeedOrder, number: int) -> Ids:
        """Return the positions of the seeds of batch ``number``, int64 [batch_size or less]."""
        start = number * self.batch_size
        return order.take(start, start + self.batch_size)


class Position:
    """Place in an epoch: how many of its batches all ranks have delivered.

    Attributes:
        epoch: its number.
        start: the batch of the epoch that the ranks began with, not 0 after a resumption.
        total: number of batches of the epoch; may be ``UNKNOWN``.
        delivered: number of batches that this rank has given out since.
    """

    def __init__(self, epoch: int, start: int, total: int, share: Share) -> None:
        self.epoch, self.start, self.total = epoch, start, total
        self.delivered = 0
        self._share = share

    @property
    def next(self) -> int:
        """Number of the first batch of the epoch that no rank has delivered."""
        return min(self.start + self.delivered * self._share.world_size, self.total)

    @property
    def is_over(self) -> bool:
        """True if this rank has no more batches in the epoch."""
        return self.delivered >= self._share.count(self.total, self.start)

    def after(self, delivered: int) -> Position:
        """Return the place after so many batches of this rank."""
        place = Position(self.epoch, self.start, self.total, self._share)
        place.delivered = delivered
        return place

    def end(self) -> None:
        """Note that no more batches come."""
        self.total = self.next

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of the batches that are left for this rank."""
        return self._share.numbers(self.total, self.start)


class Delivery(Generic[R]):
    """Iterator over the batches of an epoch that counts what it has given out.

    Batches that were made ahead and not asked for do not count. One that has failed counts as soon
    as a later one is given out, or the epoch has ended behind it: until then it would come again.

    Args:
        batches: the iterator that makes them.
        position: where it begins.
        in_workers: True if it is torch's, over worker processes.
    """

    def __init__(self, batches: Any, position: Position, in_workers: bool = False) -> None:
        self._batches = batches
        self._position = position
        self._in_workers = in_workers
        self._failed = 0  # batches since the last one that was given out
        self._is_closed = False

    def __iter__(self) -> Delivery[R]:
        return self

    def __next__(self) -> R:
        try:
            batch: R = next(self._batches)
        except StopIteration:
            if self._position.total == UNKNOWN:
                if not self._failed and not self._is_closed:
                    self._position.end()
            elif self._position.delivered + self._failed >= len(self):  # else an error has ended it
                self._count(self._failed)
            raise
        except Exception as error:
            self._failed += 1
            if not self._in_workers:
                raise
            # Torch raises what a worker has raised in a frame that keeps it in a variable. In this
            # circle the iterator would wait for the garbage collector, and torch would then take 5
            # seconds to end each worker. Of these frames nobody learns anything: the message has
            # the worker's.
            raise error.with_traceback(None) from None
        self._count(self._failed + 1)
        return batch

    def _count(self, number: int) -> None:
        self._position.delivered += number
        self._failed = 0

    def __len__(self) -> int:
        return self._position._share.count(self._position.total, self._position.start)

    def close(self) -> None:
        """Stop running ahead."""
        self._is_closed = True
        close: Callable[[], None] | None = getattr(self._batches, "close", None)
        if close is not None:
            close()

    def __enter__(self) -> Delivery[R]:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()
