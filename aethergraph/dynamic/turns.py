"""Turn: whose turn it is to write."""

from __future__ import annotations

import threading
import weakref
from contextvars import ContextVar

from aethergraph.errors import InvalidArgumentError

__all__ = ["Turn"]


class _Thread(threading.local):
    """This thread, told from all others: the system uses the numbers of those that ended again."""

    def __init__(self) -> None:
        self.token = object()


_thread = _Thread()
#: Turns that began here, as long as somebody has them. Coroutines have their own, though they share
#: a thread.
_turns: ContextVar[tuple[weakref.ref[Turn], ...]] = ContextVar("aethergraph turns", default=())


def _open_turns() -> tuple[weakref.ref[Turn], ...]:
    turns = ((reference, reference()) for reference in _turns.get())
    return tuple(reference for reference, turn in turns if turn is not None and not turn.is_over)


class Turn:
    """Turn of one thread, or of one of its coroutines, from now until :meth:`end`, anywhere.

    Attributes:
        is_over: True from the moment on that others may have theirs.
    """

    __slots__ = ("__weakref__", "_thread", "is_over")

    def __init__(self) -> None:
        self._thread, self.is_over = _thread.token, False
        _turns.set((*_open_turns(), weakref.ref(self)))

    def is_mine(self) -> bool:
        """Return whether it is the caller's turn; if not, another thread has it, or none any more.

        Raises:
            InvalidArgumentError: another coroutine of this thread has it; who waited for that one
                would keep it from going on.
        """
        if self._thread is not _thread.token or self.is_over:
            return False
        if any(reference() is self for reference in _turns.get()):
            return True
        raise InvalidArgumentError(
            "another coroutine of this thread is inside of a transaction, which waiting for it "
            "would keep from its end: let one coroutine write, or share an asyncio.Lock"
        )

    def end(self) -> None:
        """End it, in whichever thread it began."""
        self.is_over = True
        _turns.set(_open_turns())
