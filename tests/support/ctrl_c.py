"""Ctrl-C for tests in which the main thread waits."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def interrupted(after: float = 0.2) -> Iterator[None]:
    """Expect that KeyboardInterrupt ends the block, after so many seconds, from another thread.

    It has a handler of its own, since what a shell starts in the background ignores SIGINT. The
    signal comes again while nothing has noticed it: Python's wait for a lock goes on if it came
    between the last look for signals and the wait.
    """
    noticed = threading.Event()

    def notice(*_: Any) -> None:
        if not noticed.is_set():
            noticed.set()
            raise KeyboardInterrupt

    def send() -> None:
        while not noticed.wait(after):
            os.kill(os.getpid(), signal.SIGINT)

    former = signal.signal(signal.SIGINT, notice)
    sending = threading.Thread(target=send)
    try:
        with pytest.raises(KeyboardInterrupt):
            sending.start()
            yield
    finally:
        noticed.set()
        sending.join()
        signal.signal(signal.SIGINT, former)
