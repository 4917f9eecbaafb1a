"""Options that all loaders have: how far they work ahead, and which batches of an epoch come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import ArrayLike

from aethergraph._checks.arrays import as_count
from aethergraph._checks.options import as_choice, shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.loading.aligned import run_length
from aethergraph.loading.shares import LastRound, RankShare

__all__ = ["Ahead", "Order", "as_ahead", "as_order"]


@dataclass(frozen=True)
class Ahead:
    """Work ahead of the training loop: ``SubgraphLoader(.., ahead=Ahead(4, threads=2))``.

    Where an ``ahead`` is asked for, a number stands for so many batches: ``ahead=4``, ``ahead=0``.

    Attributes:
        batches: batches that are ready, or in work, before they are asked for; 0: each is made when
            it is asked for, by the thread that asks.
        threads: background threads that sample and fetch, at least 1. The thread that iterates
            makes a batch, too, where it would wait for one, unless batches must come from ascending
            commits. With ``storage="uring"`` there are two, one that reads and one that completes
            batches.
        plan: batches that are sampled before the first of them is fetched, so that the cache of
            rows with ``storage="uring"`` knows which come: see
            :meth:`aethergraph.FeatureTable.plan`. Useful if the batches ask for more rows than the
            cache holds. Up to twice as many samples are held, about 30 bytes for each sampled edge.
            The batches are equal either way; those of a plan are of one commit. 0: no plan. Short
            rows of a graph with ``storage="uring"`` are read for several batches anyway, as its
            budget allows.

    Raises:
        InvalidArgumentError: a number is none, or negative; no threads.
    """

    batches: int = 2
    threads: int = 1
    plan: int = 0

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("batches", "threads", "plan"):
            as_count(getattr(self, name), name)
        if not self.threads:
            raise InvalidArgumentError(
                "threads = 0 is not at least 1: Ahead(batches=0) leaves the work to the thread "
                "that iterates"
            )

    @property
    def num_threads(self) -> int:
        """Number of background threads, 0 if nothing is made ahead."""
        return self.threads if self.batches else 0


@dataclass(frozen=True, eq=False)
class Order:
    """Which batches of an epoch come, and of what: ``SubgraphLoader(.., order=Order(..))``.

    Attributes:
        rank: number of this process among those that train together; None: that of
            ``torch.distributed``.
        world_size: number of these processes: batch i of the epoch goes to rank
            ``i % world_size``, so that together they see what one process sees. ``"auto"``: that of
            ``torch.distributed`` if it is initialised when the first epoch begins, else 1. None: 1,
            all batches come.
        last_round: what becomes of the last batches if they are fewer than the ranks: ``"repeat"``:
            the other ranks get the first batches of the epoch once more; ``"drop"``: nobody gets
            them; ``"keep"``: some ranks have a batch less, as torch's ``Join`` allows.
        partitions: the partition of each seed, integers [number of seeds], such as
            ``graph.rabbit_partitions()[seeds]``: batches have seeds of ``mix`` partitions, so that
            their neighbourhoods overlap. It needs ``shuffle``.
        mix: see ``partitions``.
        snapshot: of a graph that changes, ``"batch"``: each batch is of the last commit when it is
            drawn; ``"epoch"``: all batches of an epoch are of the last commit when it begins.

    Raises:
        InvalidArgumentError: not such values; a rank outside ``0 .. world_size - 1``, or without a
            ``world_size``; several processes without a rank that could be known.
    """

    rank: int | None = None
    world_size: int | Literal["auto"] | None = None
    last_round: LastRound = "repeat"
    partitions: ArrayLike | None = None
    mix: int = 8
    snapshot: Literal["batch", "epoch"] = "batch"

    def __post_init__(self) -> None:
        """Check the numbers; partitions are checked beside the seeds."""
        self.share()
        run_length(1, self.mix)
        as_choice(self.snapshot, ("batch", "epoch"), "snapshot")

    def share(self) -> RankShare:
        """Return the share of this process, which is known when the first epoch begins."""
        return RankShare(self.rank, self.world_size, self.last_round)


def as_ahead(value: Any) -> Ahead:
    """Return how far a loader works ahead, for a number of batches or an :class:`Ahead`.

    Raises:
        InvalidArgumentError: it is neither.
    """
    if isinstance(value, Ahead):
        return value
    try:
        return Ahead(as_count(value, "ahead"))
    except InvalidArgumentError:
        raise InvalidArgumentError(
            f"ahead = {shown(value)} is no number of batches: give one, 0 for none, or "
            "aethergraph.loading.Ahead(batches, threads, plan)"
        ) from None


def as_order(value: Any) -> Order:
    """Return the order that a loader was given; None: all batches come.

    Raises:
        InvalidArgumentError: it is no :class:`Order`.
    """
    if value is None:
        return Order()
    if not isinstance(value, Order):
        raise InvalidArgumentError(
            f"order = {shown(value)} is no aethergraph.loading.Order: give Order(rank, "
            "world_size), or Order(partitions=...)"
        )
    return value
