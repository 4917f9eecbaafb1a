"""DGL's feature storages over rows in memory or in files.

Source followed: ``dgl/storages/base.py`` and ``_prefetch_update_feats`` of
``dgl/dataloading/dataloader.py``.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

import dgl.storages
from aethergraph._checks.options import as_flag
from aethergraph._native.live_reading import held_snapshots, hold_snapshots
from aethergraph._parallel.threads import ThreadPool
from aethergraph._torch.feature_columns import Column
from aethergraph._torch.tensors import as_device, land_pinned, seed_ids
from aethergraph._tracepoints import stage
from aethergraph.features.adapters import as_row_source
from aethergraph.loading.buffers import BufferPool

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.dgl._schema import EdgeNumbers
    from aethergraph.protocols import FeatureSource, RowSource

__all__ = ["BUFFERS", "EdgeFeatureStorage", "FeatureStorage", "Fetch"]

Ids: TypeAlias = "NDArray[np.int64]"

#: Pool of memory for the batches of this process.
BUFFERS = BufferPool()

#: Reads of a batch that run at the same time, in every process.
_THREADS = 2
_pool: tuple[int, ThreadPool] | None = None


def _threads() -> ThreadPool:
    """Return the thread pool of this process: threads end in a forked child."""
    global _pool
    if _pool is None or _pool[0] != os.getpid():
        _pool = os.getpid(), ThreadPool(_THREADS, "aethergraph-fetch")
    return _pool[1]


class Fetch:
    """Read of rows in progress, at the commit that this thread holds of a graph that changes.

    Args:
        read: function that returns the rows, on the CPU.
        ahead: start the read in another thread.
        device: device that the rows are moved to by who waits for them: a copy to a GPU belongs
            on the stream of that thread, as what follows it there does.
        **options: for ``Tensor.to``.
    """

    def __init__(
        self, read: Callable[[], Tensor], ahead: bool, device: torch.device, **options: Any
    ) -> None:
        snapshots = held_snapshots() if ahead else {}
        if snapshots:
            # A context of this read alone: the thread of the pool must not hold them for longer.
            context = copy_context()
            context.run(hold_snapshots, snapshots)
            read = functools.partial(context.run, read)
        self._future: Future[Tensor] | None = _threads().submit(read) if ahead else None
        self._read = read
        self._device, self._options = device, options

    def wait(self) -> Tensor:
        """Return the rows; read them here if no thread has begun to.

        Raises:
            Exception: any error of reading, such as OutOfRangeError or FileChangedError.
        """
        if self._future is None or self._future.cancel():
            rows = self._read()
        else:
            rows = self._future.result()
        return rows.to(self._device, **self._options)


class FeatureStorage(dgl.storages.FeatureStorage):  # type: ignore[misc]
    """Rows of node data, read in the background while DGL asks for other names.

    DGL's loaders call :meth:`fetch` in the main process for every name in a sampler's
    ``prefetch_node_feats`` and ``prefetch_labels``. :meth:`aethergraph.dgl.GraphStorage` hands one
    out for every attribute of the graph; one can also be made of any rows, such as a file whose
    topology is in a ``DGLGraph``.

    Args:
        rows: an :class:`aethergraph.FeatureTable` or another source of rows, a tensor, or an
            array.

    Raises:
        InvalidArgumentError: rows that cannot be stored.
    """

    def __init__(self, rows: FeatureSource | Tensor | NDArray[Any]) -> None:
        if isinstance(rows, Tensor):
            self._column = Column.of_tensor(rows)
        else:
            self._column = Column(as_row_source(rows, "rows"), None)

    @property
    def rows(self) -> RowSource:
        """Source that the rows are read from."""
        return self._column.rows

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the rows, ``(num_rows, ...)``."""
        return self._column.shape

    @property
    def dtype(self) -> torch.dtype:
        """Dtype in torch of the rows that :meth:`fetch` returns."""
        return self._column.dtype

    def fetch(
        self, indices: Tensor, device: Any, pin_memory: bool | None = False, **kwargs: Any
    ) -> Fetch:
        """Start reading rows.

        Args:
            indices: integer vector [n].
            device: device of the rows.
            pin_memory: read the rows into page-locked memory, if there is a CUDA device, and move
                them to ``device`` from there without waiting. None, which DGL passes for graphs
                that are no ``DGLGraph``, means no.
            **kwargs: for ``Tensor.to``.

        Returns:
            An object whose ``wait()`` gives the rows [n, ...], or raises what went wrong.

        Raises:
            InvalidArgumentError: indices that are no integer vector.
        """
        ids = seed_ids(indices, "indices")
        pinned = as_flag(pin_memory, "pin_memory") and torch.cuda.is_available()
        target = as_device(device, "device")
        if pinned:
            kwargs = {"non_blocking": True, **kwargs}
        # On one core another thread only helps where it waits for a device.
        waits = not self._column.rows.is_in_memory
        ahead = waits or len(os.sched_getaffinity(0)) > 1
        return Fetch(functools.partial(self._read, ids, pinned), ahead, target, **kwargs)

    def _read(self, ids: Ids, pinned: bool) -> Tensor:
        place = land_pinned() if pinned else nullcontext()
        with stage("gather", reads=self._column.rows), place:
            return self._column.live().gather(self._rows_of(ids), BUFFERS)

    def _rows_of(self, ids: Ids) -> Ids:
        return ids

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype})"


class EdgeFeatureStorage(FeatureStorage):
    """Rows of edge data, by the edge ids that a :class:`GraphStorage` shows.

    Args:
        rows: in the order of the graph's own edge ids.
        numbers: numbering of the ids that users give.
    """

    def __init__(self, rows: FeatureSource | Tensor | NDArray[Any], numbers: EdgeNumbers) -> None:
        super().__init__(rows)
        self._numbers = numbers

    def _rows_of(self, ids: Ids) -> Ids:
        return self._numbers.own(ids, "indices")
