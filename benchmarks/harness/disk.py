"""What files take on disk while they are written."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path


class DiskPeak:
    """Looks ten times a second at what files take.

    Args:
        folder: where they are.
        patterns: names of the files, as in :meth:`Path.glob`.
    """

    def __init__(self, folder: Path, patterns: Sequence[str]) -> None:
        self.bytes = 0
        self._folder, self._patterns = folder, patterns
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._end.wait(0.1):
            taken: dict[tuple[int, int], int] = {}  # by file: some have two names
            for path in (path for one in self._patterns for path in self._folder.glob(one)):
                try:
                    one = path.stat()
                except FileNotFoundError:
                    continue
                taken[one.st_dev, one.st_ino] = 512 * one.st_blocks
            self.bytes = max(self.bytes, sum(taken.values()))

    def __enter__(self) -> DiskPeak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
