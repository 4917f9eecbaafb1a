"""Epochs of our loaders: what all batches of one have in common, kept by the iterator over them.

A loader may be iterated several times at once, nested or in threads, so nothing of an epoch is an
attribute of the loader. Torch passes nothing but the numbers of its seeds to what makes a batch, or
finishes one; the epoch of the batch is therefore known to the thread that asks for it::

    EpochIterator ──within(epoch)──> next() of torch's iterator, or of ours (live graphs)
                                          └──> collate_fn, filter_fn: Current.epoch
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from typing import Any, NamedTuple

from aethergraph.loading.pipeline import Views

__all__ = ["Current", "Epoch", "EpochIterator"]


class Epoch(NamedTuple):
    """Key and views that the batches of an epoch have in common.

    Attributes:
        key: what their draws follow.
        views: of which view of the graph each of them is.
    """

    key: int
    views: Views


class Current(threading.local):
    """The epoch that this thread makes a batch of, if any.

    Worker processes begin with that of the thread that starts them: a fork keeps it, and pickled
    for other start methods the object takes it along.
    """

    def __init__(self, epoch: Epoch | None = None) -> None:  # called anew in each thread
        self.epoch = epoch

    @contextmanager
    def within(self, epoch: Epoch | None) -> Iterator[None]:
        """Let this thread make batches of an epoch in a ``with`` block."""
        before, self.epoch = self.epoch, epoch
        try:
            yield
        finally:
            self.epoch = before

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.epoch,)


class EpochIterator:
    """Iterator over the batches of one epoch, which lets go of its commit at the end.

    Args:
        loader: whose epoch it is; kept, since iterators of torch's may refer to it weakly.
        batches: the iterator that makes them.
        epoch: theirs.
        current: the loader's.
        snapshots: held until the end.
    """

    def __init__(
        self,
        loader: Sized,
        batches: Iterator[Any],
        epoch: Epoch,
        current: Current,
        snapshots: object,
    ) -> None:
        self._loader = loader
        self._batches: Iterator[Any] | None = batches
        self._epoch: Epoch | None = epoch
        self._current = current
        self._held: object = snapshots

    def __iter__(self) -> EpochIterator:
        return self

    def __len__(self) -> int:
        """Return the number of batches of the epoch, as torch's iterators do."""
        return len(self._loader)

    def __next__(self) -> Any:
        batches, epoch = self._batches, self._epoch
        if batches is None:
            raise StopIteration
        try:
            with self._current.within(epoch):
                return next(batches)
        except StopIteration:
            self.close()
            raise
        except BaseException:
            # Torch's iterators go on behind an error. One that holds a commit ends there, or the
            # commit would be held as long as whoever caught the error keeps the iterator.
            if epoch is not None and epoch.views.at is not None:
                self.close()
            raise

    def close(self) -> None:
        """Stop running ahead, and let go of the commit; no more batches come."""
        batches = self._batches
        self._batches = self._epoch = self._held = None
        close: Callable[[], None] | None = getattr(batches, "close", None)
        if close is not None:
            close()
