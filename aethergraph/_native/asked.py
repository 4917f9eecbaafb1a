"""Lists that a Python function is asked for, as a native topology."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aethergraph._native.core import ffi, lib, new_error, raise_error
from aethergraph._native.signals import keep_interrupt
from aethergraph.errors import CancelledError, FileChangedError, SnapshotExpiredError

__all__ = ["AskedLists"]

Answer = Callable[[int, NDArray[np.int64], NDArray[Any]], None]

_DTYPES: Final = {
    lib.AETHER_ASK_LISTS: np.dtype(np.uint64),
    lib.AETHER_ASK_IDS: np.dtype(np.uint64),
    lib.AETHER_ASK_EDGES: np.dtype(np.uint64),
    lib.AETHER_ASK_WEIGHTS: np.dtype(np.float64),
    lib.AETHER_ASK_TIMES: np.dtype(np.int64),
}


#: Errors of who answers that stay what they are; others are those of a storage.
_CODES: Final = (
    (FileChangedError, lib.AETHER_E_FILE_CHANGED),
    (SnapshotExpiredError, lib.AETHER_E_EXPIRED),
    (CancelledError, lib.AETHER_E_CANCELLED),
)


class AskedLists:
    """Topology whose lists are asked of a function, from any thread.

    Args:
        num_major: number of lists.
        num_minor: number of nodes that may be in them; ids are below it.
        num_edges: number of entries of all lists.
        answer: ``answer(what, numbers, out)`` puts the answers into ``out``. ``LISTS`` of nodes:
            uint64 [n, 2], first position and degree; ``IDS`` and ``EDGES`` at positions: uint64
            [n]; ``WEIGHTS``: float64 [n]; ``TIMES``: int64 [n].
        edge_ids_are_positions: nobody asks for ``EDGES``.
        weights: it answers ``WEIGHTS``.
        times: it answers ``TIMES``.
        end_positions: number that all positions are below; 0: they are those of ``num_edges``.
        end_edge_ids: number that all edge ids are below; 0: ``num_edges``.
    """

    LISTS: Final = lib.AETHER_ASK_LISTS
    IDS: Final = lib.AETHER_ASK_IDS
    EDGES: Final = lib.AETHER_ASK_EDGES
    WEIGHTS: Final = lib.AETHER_ASK_WEIGHTS
    TIMES: Final = lib.AETHER_ASK_TIMES

    def __init__(
        self, num_major: int, num_minor: int, num_edges: int, answer: Answer, *,
        edge_ids_are_positions: bool, weights: bool = False, times: bool = False,
        end_positions: int = 0, end_edge_ids: int = 0,
    ) -> None:  # fmt: skip
        self._user = ffi.new_handle(
            answer
        )  # not of self, which would only the collector take apart
        facts = ffi.new("aether_asked_lists *")
        facts.num_major, facts.num_minor, facts.num_edges = num_major, num_minor, num_edges
        facts.end_positions, facts.end_edge_ids = end_positions, end_edge_ids
        facts.edge_ids_are_positions = edge_ids_are_positions
        facts.own_values = weights * lib.AETHER_OWN_WEIGHTS | times * lib.AETHER_OWN_TIMES
        out, err = ffi.new("aether_topology **"), new_error()
        code = lib.aether_topology_create_asked(facts, lib.aether_python_ask, self._user, out, err)
        if code:
            raise_error(code, err)
        #: The ``aether_topology *``, which lives as long as this object.
        self.handle = ffi.gc(out[0], lib.aether_topology_destroy)


@ffi.def_extern(name="aether_python_ask", error=lib.AETHER_E_IO)  # type: ignore[untyped-decorator]
def _ask(user: Any, question: int, pointer: Any, count: int, out: Any, err: Any) -> int:
    answer: Answer = ffi.from_handle(user)
    try:
        numbers = np.frombuffer(ffi.buffer(pointer, 8 * count), np.int64)
        is_lists = question == AskedLists.LISTS
        room = np.frombuffer(ffi.buffer(out, 8 * count * (1 + is_lists)), _DTYPES[question])
        answer(question, numbers, room.reshape(count, 2) if is_lists else room)
    except Exception as error:
        text = str(error).encode()[: len(err.message) - 1].decode(errors="ignore")
        err.code = next((code for kind, code in _CODES if isinstance(error, kind)), lib.AETHER_E_IO)
        err.os_errno, err.position = errno.ETIMEDOUT if isinstance(error, TimeoutError) else 0, -1
        err.message = text.encode()
        return int(err.code)
    except BaseException as error:  # of a signal's handler, in the thread that made the call
        keep_interrupt(error)
        return int(lib.AETHER_E_CANCELLED)
    return 0
