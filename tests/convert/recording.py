"""Builds that are interrupted where they record how far they are."""

from __future__ import annotations

from typing import Any

import pytest

from aethergraph.convert.external.journal import Journal

__all__ = ["Interrupt", "Recording"]


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
