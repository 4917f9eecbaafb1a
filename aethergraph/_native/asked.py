"""Lists that a Python function is asked for, as a native topology."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aethergraph._native.core import ffi, lib, new_error, raise_error
from aethergraph._native.signals import keep_interrupt
from aethergraph.errors import FileChangedError

__all__ = ["AskedLists"]

Answer = Callable[[int, NDArray[np.int64], NDArray[Any]], None]

_DTYPES: Final = {
    lib.AETHER_ASK_LISTS: np.dtype(np.uint64),
    lib.AETHER_ASK_IDS: np.dtype(np.uint64),
    lib.AETHER_ASK_EDGES: np.dtype(np.uint64),
    lib.AETHER_ASK_WEIGHTS: np.dtype(np.float64),
    lib.AETHER_ASK_TIMES: np.dtype(np.int64),
}


class AskedLists:
    """Topology whose lists are asked of a function, from any thread.

    Args:
        num_major: number of lists.
        num_minor: number of nodes that may be in them; ids are below it.
        num_edges: number of entries of all lists, one list after the other.
        answer: ``answer(what, numbers, out)`` puts the answers into ``out``. ``LISTS`` of nodes:
            uint64 [n, 2], first position and degree; ``IDS`` and ``EDGES`` at positions: uint64
            [n]; ``WEIGHTS``: float64 [n]; ``TIMES``: int64 [n].
        edge_ids_are_positions: nobody asks for ``EDGES``.
        weights: it answers ``WEIGHTS``.
        times: it answers ``TIMES``.
    """

    LISTS: Final = lib.AETHER_ASK_LISTS
    IDS: Final = lib.AETHER_ASK_IDS
    EDGES: Final = lib.AETHER_ASK_EDGES
    WEIGHTS: Final = lib.AETHER_ASK_WEIGHTS
    TIMES: Final = lib.AETHER_ASK_TIMES

    def __init__(
        self, num_major: int, num_minor: int, num_edges: int, answer: Answer, *,
        edge_ids_are_positions: bool, weights: bool = False, times: bool = False,
    ) -> None:  # fmt: skip
        self.answer = answer
        self._user = ffi.new_handle(self)
        facts = ffi.new("aether_asked_lists *")
        facts.num_major, facts.num_minor, facts.num_edges = num_major, num_minor, num_edges
        facts.edge_ids_are_positions = edge_ids_are_positions
        facts.own_values = weights * lib.AETHER_OWN_WEIGHTS | times * lib.AETHER_OWN_TIMES
        out, err = ffi.new("aether_topology **"), new_error()
        code = lib.aether_topology_create_asked(facts, lib.aether_python_ask, self._user, out, err)
        if code:
            raise_error(code, err)
        #: The ``aether_topology *``, which lives as long as this object.
        self.handle = ffi.gc(out[0], lib.aether_topology_destroy)


@ffi.def_extern(name="aether_python_ask", error=lib.AETHER_E_IO)  # type: ignore[untyped-decorator]
def _ask(user: Any, what: int, given: Any, count: int, out: Any, err: Any) -> int:
    asked: AskedLists = ffi.from_handle(user)
    try:
        numbers = np.frombuffer(ffi.buffer(given, 8 * count), np.int64)
        size = 2 * count if what == asked.LISTS else count
        room = np.frombuffer(ffi.buffer(out, 8 * size), _DTYPES[what])
        asked.answer(what, numbers, room.reshape(count, 2) if what == asked.LISTS else room)
    except Exception as error:
        text = str(error).encode()[: len(err.message) - 1].decode(errors="ignore")
        changed = isinstance(error, FileChangedError)
        err.code = lib.AETHER_E_FILE_CHANGED if changed else lib.AETHER_E_IO
        err.os_errno, err.position = errno.ETIMEDOUT if isinstance(error, TimeoutError) else 0, -1
        err.message = text.encode()
        return int(err.code)
    except BaseException as error:  # of a signal's handler, in the thread that made the call
        keep_interrupt(error)
        return int(lib.AETHER_E_CANCELLED)
    return 0
