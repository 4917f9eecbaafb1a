"""``DeviceLoader``: copies the next batch to a GPU while the model works on this one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import Any

import torch

from aethergraph._torch.tensors import as_device
from aethergraph.errors import InvalidArgumentError

__all__ = ["DeviceLoader"]


class DeviceLoader:
    """Batches of a loader on a device, each copied while the one before it is used.

    ::

        loader = NeighborLoader(graph, [15, 10], train_nodes, batch_size=1024, pin_memory=True)
        for batch in DeviceLoader(loader, "cuda"):
            loss = step(model, batch)

    Copies go by a CUDA stream of their own, from pinned memory without anybody waiting for them.
    The stream that trains waits for the copy that it needs, and the memory of a batch on the device
    is free for others only when the work that was queued on it has ended. PyG's ``PrefetchLoader``
    does not see to the latter: where steps are queued without waiting for them, later batches can
    overwrite what a kernel has still to read.

    On another device than CUDA's, batches are moved one by one.

    Args:
        loader: whatever yields ``Data``, ``HeteroData``, tensors, or tuples, lists and dictionaries
            of them. One with ``pin_memory=True`` copies while the model works; others wait.
        device: where batches go, as torch names it.

    Raises:
        InvalidArgumentError: nothing to iterate over, or no device of this machine.

    The loader is one batch ahead: a ``state_dict()`` of it counts the batch that is being copied.
    """

    def __init__(self, loader: Iterable[Any], device: Any = "cuda") -> None:
        if not isinstance(loader, Iterable):
            raise InvalidArgumentError(f"loader must be a loader, got {type(loader).__name__}")
        self.loader = loader
        self.device = as_device(device, "device")

    def __len__(self) -> int:
        if not isinstance(self.loader, Sized):
            raise TypeError(f"the loader, a {type(self.loader).__name__}, has no length")
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        if self.device.type != "cuda":
            return (_move(batch, self.device) for batch in self.loader)
        return self._copied_ahead()

    def _copied_ahead(self) -> Iterator[Any]:
        make_stream: Any = torch.cuda.Stream
        copying: torch.cuda.Stream = make_stream(self.device)
        batches = iter(self.loader)
        coming = self._start(batches, copying)
        while coming is not None:
            batch, copied = coming
            user = torch.cuda.current_stream(self.device)
            user.wait_event(copied)
            _record(batch, user)
            coming = self._start(batches, copying)
            yield batch
            del batch

    def _start(self, batches: Iterator[Any], copying: torch.cuda.Stream) -> Any:
        """Start to copy the next batch; return it with the event of its arrival, or None."""
        for batch in batches:
            with torch.cuda.stream(copying):
                moved = _move(batch, self.device)
                return moved, copying.record_event()
        return None

    def __repr__(self) -> str:
        return f"DeviceLoader({self.loader!r}, {str(self.device)!r})"


def _move(batch: Any, device: torch.device) -> Any:
    if isinstance(batch, dict):
        return {name: _move(part, device) for name, part in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_move(part, device) for part in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(_move(part, device) for part in batch)
    return batch.to(device, non_blocking=True) if hasattr(batch, "to") else batch


def _record(batch: Any, stream: torch.cuda.Stream) -> None:
    """Keep the batch's memory from the stream that copied until the work of ``stream`` is done."""
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        for part in batch:
            _record(part, stream)
    elif hasattr(batch, "record_stream"):
        batch.record_stream(stream)
