"""Shares of the batches of an epoch among the processes of a training.

::

    batch of the epoch    0    1    2    3    4    5    6        world_size = 3
    goes to rank          0    1    2    0    1    2    0  (1) (2)
                          └─ round ──┘              └ last_round ┘

Every rank knows the whole order and takes its batches from it, so nothing is exchanged and nothing
of the length of the seeds is stored. Together the ranks see the batches that one process sees.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from itertools import chain
from typing import Any, Literal, NamedTuple

from aethergraph._checks.arrays import as_count
from aethergraph._checks.options import as_choice, shown
from aethergraph.errors import InvalidArgumentError

__all__ = ["LastRound", "Share", "RankShare", "as_share_of_batches"]

LastRound = Literal["repeat", "drop", "keep"]


class Share(NamedTuple):
    """Batches of one rank.

    Attributes:
        rank: number of this process.
        world_size: number of processes.
        last_round: what becomes of a last round with less than ``world_size`` batches.
    """

    rank: int = 0
    world_size: int = 1
    last_round: LastRound = "repeat"

    def count(self, total: int, start: int = 0) -> int:
        """Return how many of the batches ``start .. total - 1`` of an epoch this rank gets."""
        rounds, remainder = divmod(max(total - start, 0), self.world_size)
        if self.last_round == "keep":
            return rounds + (self.rank < remainder)
        return rounds + (remainder > 0 and self.last_round == "repeat")

    def numbers(self, total: int, start: int = 0) -> Iterator[int]:
        """Yield the numbers of this rank's batches among ``start .. total - 1``, ascending.

        With ``last_round="repeat"`` ranks that have none in the last round get one of the first.
        """
        count = self.count(total, start)
        numbers = range(start + self.rank, total, self.world_size)[:count]
        again = (start + self.rank + len(numbers) * self.world_size) % max(total, 1)
        return chain(numbers, [again] if len(numbers) < count else [])


def as_share_of_batches(rank: Any, world_size: Any, last_round: Any = "repeat") -> Share:
    """Return the share that a user asked for, by the arguments of these names.

    Args:
        rank: number of this process; None: that of ``torch.distributed``, or 0 if there is one
            process.
        world_size: number of processes; ``"auto"``: that of ``torch.distributed`` if it is
            initialised, else 1; None: 1, nothing is shared.
        last_round: ``"repeat"``, ``"drop"`` or ``"keep"``.

    Raises:
        InvalidArgumentError: not such values; a rank outside ``0 .. world_size - 1``, or without a
            ``world_size``; several processes without a rank that could be known.
    """
    last_round = as_choice(last_round, ("repeat", "drop", "keep"), "last_round")
    if world_size is None:
        if rank is not None:
            raise InvalidArgumentError(f"rank = {shown(rank)} needs world_size, or 'auto'")
        return Share(last_round=last_round)
    group = _group()
    if isinstance(world_size, str):
        as_choice(world_size, ("auto",), "world_size")
        if group is None:  # until there is one, this is one process, whatever its rank will be
            as_count(0 if rank is None else rank, "rank")
            return Share(last_round=last_round)
        world_size = group.get_world_size()
    size = as_count(world_size, "world_size")
    if size < 1:
        raise InvalidArgumentError(f"world_size = {size} is not at least 1")
    if rank is None:
        if size > 1 and (group is None or group.get_world_size() != size):
            raise InvalidArgumentError(
                f"world_size = {size} needs rank: torch.distributed "
                + ("is not initialised" if group is None else f"has {group.get_world_size()} ranks")
            )
        rank = 0 if size == 1 else group.get_rank()
    number = as_count(rank, "rank")
    if number >= size:
        raise InvalidArgumentError(f"rank = {number} is not in 0..{size - 1} (world_size={size})")
    return Share(number, size, last_round)


class RankShare:
    """Share of this process, of a loader that may be made before its group of processes.

    Lightning takes loaders first and starts its processes then. What ``"auto"`` means is decided
    once their group exists; until then it is one process.

    Args:
        rank: as for :func:`as_share_of_batches`, which checks it, as the others.
        world_size: as there.
        last_round: as there.
    """

    def __init__(self, rank: Any, world_size: Any, last_round: Any = "repeat") -> None:
        self._asked = (rank, world_size, last_round)
        self._share = as_share_of_batches(*self._asked)
        self.is_open = isinstance(world_size, str) and _group() is None

    def now(self) -> Share:
        """Return the share as it is known by now."""
        if self.is_open and _group() is not None:
            self._share, self.is_open = as_share_of_batches(*self._asked), False
        return self._share

    def at_begin(self, total: int) -> Share:
        """Return the share of an epoch of ``total`` batches, with a warning if it may not be meant.

        Processes that a launcher has started without a group all get all batches. With fewer
        batches than processes ``last_round="drop"`` leaves nothing.
        """
        share, launched = self.now(), os.environ.get("WORLD_SIZE", "1")  # by torchrun and others
        if self.is_open and launched.isdecimal() and int(launched) > 1:
            warnings.warn(
                "world_size='auto' is 1, as torch.distributed is not initialised, but WORLD_SIZE "
                f"is {launched}: every process gets all batches; call init_process_group() before, "
                "or give rank and world_size",
                stacklevel=4,
            )
        if share.last_round == "drop" and 0 < total < share.world_size:
            warnings.warn(
                f"last_round='drop' leaves every epoch empty: it has {total} batches, fewer than "
                f"the {share.world_size} processes; take smaller batches, or last_round='repeat'",
                stacklevel=4,
            )
        return share


def _group() -> Any:
    """Return ``torch.distributed`` if the program has initialised it, else None."""
    module = sys.modules.get("torch.distributed")  # whoever initialised it has imported it
    if module is None or not module.is_available() or not module.is_initialized():
        return None
    return module
