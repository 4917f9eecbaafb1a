"""What one transaction of a live graph has changed besides the lists, and how to take it back.

::

    insert, add_nodes, insert      kept as calls: the lists take back all of a commit or nothing
    update_nodes, which fails      rows and keys as before it; if the lists have been touched, they
                                   are undone, and get the calls before it once more
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from aethergraph.errors import InvalidArgumentError

if TYPE_CHECKING:
    from aethergraph import _native as native
    from aethergraph.dynamic.edge_types import EdgeKind

__all__ = ["Mark", "SingleEdges", "Transaction", "pack_edge"]

#: Lengths of what a transaction keeps, and the nodes added, at the beginning of a call.
Mark: TypeAlias = tuple[tuple[int, ...], Counter[str]]

#: Source, destination, time and weight of an edge in few bytes.
pack_edge = Struct("<qqqf").pack
_EDGE = np.dtype([("src", "<i8"), ("dst", "<i8"), ("time", "<i8"), ("weight", "<f4")])


class SingleEdges(NamedTuple):
    """Edges that were inserted one by one, as :data:`pack_edge` has them."""

    kind: EdgeKind
    content: bytearray

    def insert(self, live: native.NativeLive) -> None:
        """Insert them once more."""
        form, edges = self.kind.form, np.frombuffer(bytes(self.content), _EDGE)
        src, dst, times, weights = (np.ascontiguousarray(edges[name]) for name in _EDGE.names or ())
        live.insert(
            self.kind.number, src, dst,
            times if form.has_time else None, weights if form.has_weight else None,
        )  # fmt: skip


@dataclass
class Transaction:
    """Changes of the open transaction, besides those of the native graph."""

    #: Number of the last commit when it began.
    begun: int
    #: True: it is one of the user's, and goes on where a call that failed is caught.
    goes_on: bool
    #: True while a call changes something.
    is_calling: bool = False
    #: Calls that have changed the native graph, if it goes on.
    calls: list[Callable[[], object] | SingleEdges] = field(default_factory=list)
    #: Take back each change of rows and keys, given the number of the last commit.
    undo: list[Callable[[int], None]] = field(default_factory=list)
    #: Let readers of the commit, whose number is given, see changed rows. Not before the end: a
    #: native change that fails uses up a number, and those rows come back later.
    show: list[Callable[[int], None]] = field(default_factory=list)
    #: Offsets of streams, which others see once they see the commit.
    offsets: list[tuple[tuple[str, int], int]] = field(default_factory=list)
    #: What is done once the commit can be seen.
    after: list[Callable[[], None]] = field(default_factory=list)
    #: Number of nodes that were added, by node type.
    added: Counter[str] = field(default_factory=Counter)
    #: True from the moment on that the native graph may have committed it.
    is_ending: bool = False
    #: Error that has undone all of it already.
    failure: BaseException | None = None

    def check(self) -> None:
        """Raise unless the transaction goes on.

        Raises:
            InvalidArgumentError: it was undone when a change failed.
        """
        if self.failure is not None:
            raise InvalidArgumentError(
                f"the transaction was undone when a change failed: {self.failure}"
            ) from self.failure

    def singles(self, kind: EdgeKind) -> bytearray:
        """Return what keeps the next single edge of a type: the last of its calls, or a new one."""
        last = self.calls[-1] if self.calls else None
        if not isinstance(last, SingleEdges) or last.kind is not kind:
            last = SingleEdges(kind, bytearray())
            self.calls.append(last)
        return last.content

    def mark(self) -> Mark:
        """Return where it is, for :meth:`take_back`."""
        return tuple(map(len, self._lists)), self.added.copy()

    def take_back(self, mark: Mark, last_commit: int) -> bool:
        """Take back what came after a mark, but in the native graph; return if that has changed."""
        lengths, self.added = mark
        for undo in reversed(self.undo[lengths[1] :]):
            undo(last_commit)
        has_changed = len(self.calls) > lengths[0]
        for kept, length in zip(self._lists, lengths, strict=True):
            del kept[length:]
        return has_changed

    @property
    def _lists(self) -> tuple[list[Any], ...]:
        return self.calls, self.undo, self.show, self.offsets, self.after
