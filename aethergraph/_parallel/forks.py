"""Locks in forked children, where a thread that the child does not have may have held them."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol

__all__ = ["renew_lock_in_forks"]


class _Locked(Protocol):
    _lock: threading.Lock


_locked: weakref.WeakSet[_Locked] = weakref.WeakSet()


def renew_lock_in_forks(owner: _Locked) -> None:
    """Give an object another lock in each child, in place of ``owner._lock``."""
    _locked.add(owner)


def _renew() -> None:
    for owner in list(_locked):
        owner._lock = threading.Lock()


os.register_at_fork(after_in_child=_renew)
