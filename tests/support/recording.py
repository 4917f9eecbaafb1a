"""Builds that are interrupted where they record how far they are."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from aethergraph.convert.external.journal import Journal

__all__ = ["Interrupt", "Recording", "kill_at_recording"]

T = TypeVar("T")


class Interrupt(BaseException):
    """Stands for the end of the process."""


class Recording:
    """Lets one of the coming recordings raise :class:`Interrupt`.

    Attributes:
        left: number of that recording from now, from 1; 0: none of them.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, interrupted_after: bool) -> None:
        self.left = 0
        record = Journal.record

        def interrupted(journal: Journal, **state: Any) -> None:
            if interrupted_after:
                record(journal, **state)
            self.left -= 1
            if self.left == 0:
                raise Interrupt
            if not interrupted_after:
                record(journal, **state)

        monkeypatch.setattr(Journal, "record", interrupted)

    def interrupt_each(
        self, run: Callable[[], T], check: Callable[[T], None],
        on_interrupt: Callable[[], None] = lambda: None,
    ) -> int:  # fmt: skip
        """Run again and again, interrupted at each recording in turn, then to the end.

        Args:
            run: the work; called again after each interrupt.
            check: called with what the second run returned; removes what it has made.
            on_interrupt: called in between.

        Returns:
            The number of the run that was not interrupted any more.
        """
        points = 0
        while True:
            points += 1
            self.left = points
            try:
                run()
            except Interrupt:
                on_interrupt()
                self.left = 0
                check(run())
            else:
                return points


def kill_at_recording(number: int, call: str) -> None:
    """Run a line of Python in a process that is killed behind its ``number``-th recording."""
    code = f"""
import os, signal
from aethergraph.convert import convert, tables
from aethergraph.convert.external.journal import Journal
record, left = Journal.record, [{number}]
def killed(self, **state):
    record(self, **state)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
Journal.record = killed
{call}
"""
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGKILL
