"""Places of arrays: mapped, or copied into memory; and the choice of "auto"."""

from __future__ import annotations

import logging
import sys
from typing import Any, Literal

from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.options import as_choice, shown
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.storage.budget import Budget
from aethergraph.storage.memory import available_memory, format_size

log = logging.getLogger("aethergraph")

Storage = Literal["mmap", "memory", "uring", "auto"]
_STORAGES = ("mmap", "memory", "uring", "auto")
#: Paths of mapped files of which was said that they are larger than the available memory.
_called_large = set[str]()


def _is_worker() -> bool:
    """Return whether ``multiprocessing`` has started this process; if it has, it is imported."""
    module = sys.modules.get("multiprocessing")
    return module is not None and module.parent_process() is not None


def is_address(path: object) -> bool:
    """Return whether ``path`` is the address of a server."""
    return isinstance(path, str) and path.startswith(("tcp://", "unix://"))


def refuse_address(path: object) -> None:
    """Raise InvalidArgumentError if ``path`` of a graph is the address of a server."""
    if is_address(path):
        raise InvalidArgumentError(
            f"path = {shown(path)} is the address of a server: aethergraph.remote.open_graph(path) "
            "opens its graph"
        )


def check_storage(storage: str) -> None:
    """Raise unless ``storage`` is "mmap", "memory", "uring" or "auto"."""
    as_choice(storage, _STORAGES, "storage")


def check_budget(storage: str, budget: Budget | None) -> None:
    """Raise if a budget is given for mapped files."""
    if storage == "mmap" and budget is not None:
        raise InvalidArgumentError(
            f"{budget} goes with storage='uring' or 'auto': what 'mmap' takes is up to the kernel"
        )


def choose_storage(storage: str, size: int, budget: Budget | None, label: str) -> str:
    """Resolve ``"auto"``: memory if ``size`` bytes fit the budget, else uring.

    Without a budget: memory if they fit half of the available memory, mmap if they fit all of it,
    else uring.
    """
    check_storage(storage)
    check_budget(storage, budget)
    if storage != "auto":
        if storage == "memory" and budget is not None and size > budget.limit:
            raise InvalidArgumentError(f"{label} needs {format_size(size)}, more than {budget}")
        if storage == "mmap":
            _warn_if_large(size, label)
        return storage
    if budget is None:
        room, source = available_memory(), "the available memory"
        chosen = "memory" if size <= room // 2 else "mmap" if size <= room else "uring"
    else:
        room, source = budget.limit, "the budget"
        chosen = "memory" if size <= room else "uring"
    log.info(
        "%s: storage=auto takes %s (%s; %s is %s)",
        label,
        chosen,
        format_size(size),
        source,
        format_size(room),
    )
    return chosen


def map_instead(error: Exception, storage: str, budget: Budget | None, label: str) -> None:
    """Say that ``"auto"`` maps what ``"uring"`` has failed to read, or raise its error.

    It maps where no way of reading works, and where a budget that nobody gave is too small.
    """
    if storage != "auto" or (budget is not None and not isinstance(error, UnsupportedError)):
        raise error
    loss = "" if budget is None else ", so memory_budget is not kept"
    log.warning("%s: storage=auto takes mmap%s (%s)", label, loss, error)


def _warn_if_large(size: int, label: str) -> None:
    """Warn, once for each file, of ``size`` mapped bytes that the available memory cannot hold.

    In a worker nothing is said: the process that started it has opened the file before.
    """
    if label in _called_large or _is_worker():
        return
    room = available_memory()
    if size > room:
        _called_large.add(label)
        log.warning(
            "%s: %s are mapped, and %s of memory are available: batches will wait for one page "
            "after another; storage='uring' reads many at a time",
            label, format_size(size), format_size(room),
        )  # fmt: skip


def copy_array(array: NDArray[Any], task: native.Task | None) -> NDArray[Any]:
    """Return a copy of a contiguous array in anonymous memory with huge pages."""
    if array.nbytes == 0:
        return array
    target = native.buffer_alloc(array.nbytes).view(array.dtype).reshape(array.shape)
    native.copy(target, array, task)
    return target


def copy_to_memory(
    array: NDArray[Any], guard: native.FileGuard | None, progress: native.Progress | None = None
) -> NDArray[Any]:
    """Return a copy of a mapped array in huge pages; Ctrl-C stops the copying."""
    with native.reading(guard):
        return native.run_long(lambda task: copy_array(array, task), progress, array.nbytes)
