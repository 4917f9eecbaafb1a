"""Resumable: ``state_dict`` and ``load_state_dict`` of loaders of every framework."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from aethergraph.loading.epoch import Position
from aethergraph.loading.shares import RankShare, Share
from aethergraph.loading.state import (
    Told,
    check_state,
    describe,
    describe_commit,
    describe_graph,
    make_state,
)

__all__ = ["Resumable"]


class Resumable:
    """Base of loaders that go on in the middle of an epoch, in another process if need be.

    A subclass calls :meth:`_begin` when an epoch begins and counts deliveries in the position that
    it returns.
    """

    _own_share: RankShare = RankShare(None, None)
    _epoch = 0  # of the next iteration
    _start = 0  # first batch of the next iteration
    _position: Position | None = None  # of the last iteration
    _order_state: Any = None  # what the order of the next iteration is replayed from
    _described: Told | None = None
    _commit: Told | None = None  # that all batches of the epoch are of

    @property
    def _share(self) -> Share:
        """The share of this process, as it is known by now."""
        return self._own_share.now()

    # ---- what a subclass says of itself ------------------------------------------------------

    @property
    @abstractmethod
    def _total(self) -> int:
        """Number of batches of an epoch, of all ranks."""

    @abstractmethod
    def _tell_arrays(self) -> Mapping[str, Any]:
        """Return what decides the batches and does not change; it is read once."""

    @abstractmethod
    def _tell_options(self) -> Told:
        """Return what else decides the batches, described."""

    @property
    @abstractmethod
    def _told_graph(self) -> Any:
        """The graph that tells itself from others; None: none is known."""

    def _tell_graph(self) -> Told:
        is_within = self._position is not None and not self._position.is_over
        return describe_graph(self._told_graph, self._commit if is_within else None)

    def _note_commit(self, at: Any) -> None:
        """Note the snapshot, or the graph that does not change, that an epoch is of; None: none."""
        graph = self._told_graph
        changes = at is not None and getattr(graph, "is_live", False)
        self._commit = describe_commit(graph, at) if changes else None

    def _tell_order(self) -> Any:
        """Return what the order of the epoch is replayed from, if not from the arguments."""
        return None

    def _check_order(self, order: Any) -> None:
        """Raise unless an epoch can go on by ``order``, of :meth:`_tell_order`."""

    # ---- for users ---------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return where the last iteration is, so that another loader can go on from there.

        ::

            torch.save({"loader": loader.state_dict(), ...}, path)     # between two batches
            loader.load_state_dict(torch.load(path)["loader"])         # in another process
            for batch in loader:                                       # the batches that were left

        The loader that goes on has the same arguments and the same graph, but any number of
        workers, threads and ranks: several ranks take the state of rank 0. Its batches are equal to
        those that would have come. Batches that were made ahead and not handed out come again.
        After the last batch of an epoch the state is that of the next epoch.

        Returns:
            A few hundred bytes, or a few thousand with the state of a generator, whatever the
            number of seeds.
        """
        return self._state_at(self._position)

    def _state_at(self, position: Position | None) -> dict[str, Any]:
        if position is None:
            epoch, following = self._epoch, self._start
        elif position.is_over:
            epoch, following = position.epoch + 1, 0
        else:
            epoch, following = position.epoch, position.next
        return dict(
            make_state(epoch, following, self._tell_order(), self._arguments(), self._tell_graph())
        )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next iteration go on where ``state`` was taken; see :meth:`state_dict`.

        Raises:
            InvalidArgumentError: it is no state, or that of a loader with other arguments or of
                another graph; names the first that differs. The loader stays as it was.
        """
        graph = self._told_graph
        commit = None
        if getattr(self, "snapshot", "batch") == "epoch" and getattr(graph, "is_live", False):
            # Of the next epoch, not of one that may be running.
            commit = describe_commit(graph, graph.pinned())
        epoch, following, order = check_state(
            state, self._arguments(), describe_graph(graph), self._total, commit
        )
        self._check_order(order)
        first = self._share._replace(rank=0)
        if following and not first.count(self._total, following):
            epoch, following = epoch + 1, 0  # what is left is dropped
        self._epoch, self._start, self._position = epoch, following, None
        self._order_state = order

    # ---- for subclasses ----------------------------------------------------------------------

    def _arguments(self) -> Told:
        if self._described is None:
            self._described = {name: describe(value) for name, value in self._tell_arrays().items()}
        return self._described | self._tell_options()

    def _begin(self) -> Position:
        """Return the position of an epoch that begins, or goes on, now."""
        share = self._own_share.at_begin(self._total)
        position = Position(self._epoch, self._start, self._total, share)
        self._position = position
        self._epoch, self._start = position.epoch + 1, 0
        return position

    def _set_next_epoch(self, epoch: int) -> None:
        """Make the next iteration begin epoch ``epoch``, unless a state said how to go on in it."""
        is_told = self._start > 0 or self._order_state is not None
        if self._position is None and is_told and epoch == self._epoch:
            return
        self._epoch, self._start, self._position, self._order_state = epoch, 0, None, None
