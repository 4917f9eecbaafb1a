"""Identification of the iteration of a ``DataLoader`` that a call is made for.

When an iteration of a ``DataLoader`` begins, torch draws a number from the loader's generator (its
own, unless ``generator=`` is given) and seeds the workers with it. :func:`iteration_key` returns
that number to whoever is called to make a batch, so that draws can change from epoch to epoch and
still follow ``torch.manual_seed``, for every number of workers.

A worker is told the number. Without workers torch tells nobody; there it is read off the iterator,
which is found among the callers. Persistent workers keep the number of the first iteration, and
torch makes a new fetcher in each of them for every other one: those are counted.

GraphBolt's ``DataLoader`` runs the stages before ``copy_to`` in a thread of a ``Prefetcher``. Its
first batch is waited for where the thread was started, so the iterator is found among the callers
there.

Sources followed: ``torch/utils/data/dataloader.py`` (``_BaseDataLoaderIter``) and
``torch/utils/data/_utils/{worker,fetch}.py`` of torch 2.2 and 2.13;
``torchdata/datapipes/iter/util/prefetcher.py`` of torchdata 0.7, which DGL has as
``dgl/graphbolt/datapipes/utils.py`` from 2.5 on.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch.utils.data import get_worker_info

from aethergraph.sampling.keys import mix_key

__all__ = ["Iteration", "find_iteration", "iteration_key", "next_iteration_key"]

_MASK = (1 << 64) - 1


def _codes() -> tuple[CodeType, CodeType, CodeType, CodeType] | None:
    """Return the code that fetches a batch, by kind of dataset, and its callers.

    The callers are that without and that with workers.
    """
    try:
        from torch.utils.data import dataloader
        from torch.utils.data._utils import fetch, worker

        return (
            fetch._MapDatasetFetcher.fetch.__code__,
            fetch._IterableDatasetFetcher.fetch.__code__,
            dataloader._BaseDataLoaderIter.__next__.__code__,
            worker._worker_loop.__code__,
        )
    except (ImportError, AttributeError):  # a torch version with other internals
        return None


_CODES = _codes()
#: Names of what :func:`_find_iteration` looks for among the callers; most frames have others.
_NAMES = {code.co_name for code in _CODES or ()} | {"thread_worker"}

#: Fetcher of this worker process, and the number of fetchers before it.
_fetcher: weakref.ref[Any] | None = None
_num_before = -1

#: Fetcher and iterator by the buffer of a thread that works ahead.
_ahead: weakref.WeakKeyDictionary[Any, tuple[Callable[[], Any], ...]]
_ahead = weakref.WeakKeyDictionary()
_has_warned = False


class Iteration(NamedTuple):
    """Iteration that a call is made for.

    Attributes:
        fetcher: fetcher that the call is made from; None beside it.
        iterator: iterator of the loader; None in a worker.
    """

    fetcher: Any
    iterator: Any

    @property
    def identity(self) -> object:
        """Object that is there as long as the iteration; two iterations have two of them."""
        identity: object = self.iterator if self.fetcher is None else self.fetcher
        return identity


def find_iteration() -> Iteration | None:
    """Return the iteration that asks for a batch; None outside of any ``DataLoader``."""
    return None if _CODES is None else _find_iteration(sys._getframe(1))


def iteration_key(iteration: Iteration | None = None) -> int | None:
    """Return the number of 64 bits that stands for the iteration that asks for a batch.

    Args:
        iteration: what :func:`find_iteration` returned, if it was asked before.

    Returns:
        None outside of any ``DataLoader``.
    """
    if iteration is None and _CODES is not None:
        iteration = _find_iteration(sys._getframe(1))
    info = get_worker_info()
    if iteration is None:
        if _CODES is None and info is None:
            _warn()
        return None if info is None else (info.seed - info.id) & _MASK
    if iteration.iterator is not None:
        seed = getattr(iteration.iterator, "_base_seed", None)
        if seed is None:
            _warn()
        return None if seed is None else int(seed) & _MASK
    if info is None:
        return None
    seed = (info.seed - info.id) & _MASK
    number = _count_fetchers(iteration.fetcher)
    return mix_key(seed, number) if number else seed


def next_iteration_key(generator: torch.Generator | None) -> int:
    """Return the value of :func:`iteration_key` in the next iteration of a loader.

    Nothing is drawn: the order in which the loader shuffles does not change.

    Args:
        generator: the loader's generator; None: torch's own.
    """
    copy = torch.Generator()
    copy.set_state(torch.get_rng_state() if generator is None else generator.get_state())
    return int(torch.empty((), dtype=torch.int64).random_(generator=copy)) & _MASK


_NOWHERE = Iteration(None, None)


def _find_iteration(frame: FrameType | None) -> Iteration | None:
    assert _CODES is not None
    fetch, fetch_iterable, next_batch, work = _CODES
    fetcher = None
    while frame is not None:
        code = frame.f_code  # compared by identity: a code object is hashed anew each time
        if code.co_name not in _NAMES:
            pass
        elif code is fetch or code is fetch_iterable:
            fetcher = fetcher or frame.f_locals["self"]
        elif code is next_batch:
            return Iteration(fetcher, frame.f_locals["self"])
        elif code is work:  # a forked worker has its parent's frames below
            return None if fetcher is None else Iteration(fetcher, None)
        elif code.co_name == "thread_worker" and "prefetch_data" in code.co_varnames:
            return _find_iteration_ahead(frame)
        frame = frame.f_back
    return None


def _find_iteration_ahead(frame: FrameType) -> Iteration | None:
    """Find the iteration that the thread of a ``Prefetcher`` works for."""
    data = frame.f_locals["prefetch_data"]
    if data not in _ahead:
        waiting = _find_waiting(data)
        if waiting is None:
            _warn()
        iteration = None if waiting is None else _find_iteration(waiting)
        # Weak ones, since the iterator holds what holds the key.
        _ahead[data] = tuple(map(_weakly, iteration or _NOWHERE))
    iteration = Iteration(*(reference() for reference in _ahead[data]))
    return None if iteration == _NOWHERE else iteration


def _weakly(referent: Any) -> Callable[[], Any]:
    return (lambda: None) if referent is None else weakref.ref(referent)


def _find_waiting(data: Any) -> FrameType | None:
    """Find where the thread that fills ``data`` was started, which waits for the first batch."""
    for caller in sys._current_frames().values():
        frame: FrameType | None = caller
        while frame is not None:
            code = frame.f_code
            if (
                code.co_name == "__iter__"
                and "prefetch_data" in code.co_varnames
                and frame.f_locals.get("prefetch_data") is data
            ):
                return frame
            frame = frame.f_back
    return None


def _count_fetchers(fetcher: Any) -> int:
    """Return the number of fetchers that this worker had before ``fetcher``."""
    global _fetcher, _num_before
    if _fetcher is None or _fetcher() is not fetcher:
        _fetcher = weakref.ref(fetcher)
        _num_before += 1
    return _num_before


def _warn() -> None:
    global _has_warned
    if not _has_warned:
        _has_warned = True
        warnings.warn(
            f"torch {torch.__version__} does not tell a sampler that an epoch begins: batches of "
            "the same seeds are sampled alike in every epoch unless you call set_epoch(epoch) of "
            "the sampler (for DGL's own samplers: of the graph), or use the loaders of "
            "aethergraph.pyg",
            stacklevel=3,
        )
