"""Ctrl-C, and other signals, in native calls that run in the caller's thread.

    native call ----> every 50 ms, in the main thread: aether_python_poll()
                          Python runs the signal handlers that are due
                          one of them raised: keep what it raised, return 1
    AETHER_E_CANCELLED <----
    raise_error() raises what was kept

A call that another thread makes is cancelled by whoever owns the task that the thread works for
(:func:`work_for`).
"""

from __future__ import annotations

import threading
from typing import Any

from aethergraph._native import ffi, lib


class _ThisThread(threading.local):
    """The native task of calls that are given none, by thread."""

    def __init__(self) -> None:
        self.own = ffi.new("aether_task *")
        self.own.poll = lib.aether_python_poll
        self.task = self.own
        self.owner: Any = None
        self.interrupt: BaseException | None = None


_this = _ThisThread()


def thread_task() -> Any:
    """Return the ``aether_task *`` of calls that are given none: it looks for signals."""
    return _this.task


def thread_owner() -> Any:
    """Return the ``Task`` that this thread works for, or None."""
    return _this.owner


def work_for(owner: Any, handle: Any) -> None:
    """Let ``owner``, a ``Task`` with that handle, cancel calls of this thread; None ends it."""
    _this.owner, _this.task = owner, _this.own if owner is None else handle


def poll_signals(handle: Any) -> None:
    """Let native calls that get the ``aether_task *`` look for signals."""
    handle.poll = lib.aether_python_poll


def raise_interrupt() -> None:
    """Raise what a signal handler raised during the native call that has just ended, if any did."""
    interrupt = _this.interrupt
    if interrupt is not None:
        _this.interrupt = None
        _this.own.cancel = 0
        raise interrupt


def _keep(kind: Any, value: BaseException, trace: Any) -> None:
    _this.interrupt = value.with_traceback(trace)


@ffi.def_extern(name="aether_python_poll", error=1, onerror=_keep)  # type: ignore[untyped-decorator]
def _poll() -> int:
    """Give Python the chance to run signal handlers; cffi returns 1 if one of them raises."""
    for _ in _TURNS:  # a handler runs between two instructions, at the latest when a loop goes on
        pass
    return 0


_TURNS = (0, 1)
