"""Ctrl-C, and other signals, in native calls that run in the caller's thread.

    native call ----> every 50 ms, in the main thread: aether_python_poll()
                          Python runs the pending signal handlers
                          a handler raised: keep its exception, return 1
    AETHER_E_CANCELLED <----
    raise_error() raises the kept exception

A call that another thread makes is cancelled by the owner of the task that the thread works for
(:func:`work_for`).
"""

from __future__ import annotations

import threading
from typing import Any

from aethergraph._native._core import ffi, lib


class _ThisThread(threading.local):
    """Native task of calls without a task of their own, by thread."""

    def __init__(self) -> None:
        self.own = ffi.new("aether_task *")
        self.own.poll = lib.aether_python_poll
        self.task = self.own
        self.owner: Any = None
        self.interrupt: BaseException | None = None


_this = _ThisThread()


def thread_task() -> Any:
    """Return the ``aether_task *`` of calls without a task, which looks for signals."""
    return _this.task


def thread_owner() -> Any:
    """Return the ``Task`` that this thread works for, or None."""
    return _this.owner


def work_for(owner: Any, handle: Any) -> None:
    """Let ``owner``, a ``Task`` with this handle, cancel calls of this thread; None ends that."""
    _this.owner, _this.task = owner, _this.own if owner is None else handle


def poll_signals(handle: Any) -> None:
    """Let native calls with this ``aether_task *`` look for signals."""
    handle.poll = lib.aether_python_poll


def raise_interrupt() -> None:
    """Raise the exception of a signal handler that ran in the last native call, if there is one."""
    interrupt = _this.interrupt
    if interrupt is not None:
        _this.interrupt = None
        _this.own.cancel = 0
        raise interrupt


def _keep(kind: Any, value: BaseException, trace: Any) -> None:
    _this.interrupt = value.with_traceback(trace)


@ffi.def_extern(name="aether_python_poll", error=1, onerror=_keep)  # type: ignore[untyped-decorator]
def _poll() -> int:
    """Let Python run signal handlers; cffi returns 1 if one of them raises."""
    for _ in _TURNS:  # handlers run between two instructions, at the latest when a loop repeats
        pass
    return 0


def keep_interrupt(error: BaseException) -> None:
    """Have the native call that this thread is in raise ``error`` when it ends, cancelled."""
    _this.interrupt = error


_TURNS = (0, 1)
