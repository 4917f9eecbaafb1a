"""The memory budget that a user sets, and the bytes that are held of it.

    memory_budget="1G" --parse--> Budget --+-- choice.py     does all of it fit?
      (an argument)                        +-- paging.py     lists of a graph, samples, columns
                                           +-- features/     a cache of rows
                                           +-- packing/      hot rows; batches being packed
                                           +-- convert/      buffers of a conversion
                                           +-- inference/    rows of a layer, and batches

A public function parses its argument once and hands a Budget on. Inside, the name is ``budget``.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any, SupportsIndex

from aethergraph._checks.options import shown
from aethergraph.storage.memory import available_memory, format_size, parse_size

__all__ = ["ADJACENCY_BYTES", "ROWS_BYTES", "Budget", "Holdings"]

#: Defaults of what is read out of core: see :meth:`Budget.default`.
ADJACENCY_BYTES, ROWS_BYTES = 1 << 30, 512 << 20


@dataclass(frozen=True)
class Budget:
    """Upper bound of memory. Its text names it in errors: ``memory_budget = '4M'``.

    Attributes:
        limit: bytes.
        asked: what was asked for, as errors show it.
        name: argument that it was given by.
    """

    limit: int
    request: str
    name: str = "memory_budget"

    @classmethod
    def parse(cls, size: SupportsIndex | str, name: str = "memory_budget") -> Budget:
        """Return the budget of ``"1G"``, ``"512MiB"`` or a number of bytes.

        Raises:
            InvalidArgumentError: not a size; names the argument.
        """
        limit = parse_size(size, name)
        return cls(limit, shown(size) if isinstance(size, str) else str(limit), name)

    @classmethod
    def optional(
        cls, size: SupportsIndex | str | None, name: str = "memory_budget"
    ) -> Budget | None:
        """Return the budget that a user gave, or None if there is none."""
        return None if size is None else cls.parse(size, name)

    @classmethod
    def default(cls, ceiling: int) -> Budget:
        """Return the budget of a user who gave none.

        The rule for all of them: ``ceiling`` bytes, or half of the available memory if it is less.
        """
        half = available_memory() // 2
        why = "the default" if ceiling <= half else "half of the available memory"
        limit = min(ceiling, half)
        return cls(limit, f"{format_size(limit)} ({why})")

    def __str__(self) -> str:
        return f"{self.name} = {self.request}"


class Holdings:
    """Bytes of a budget by holder, which may be any object; a collected one no longer counts.

    Threads may share one: each method is one step of a dict, without a lock that a fork could copy
    in its locked state.
    """

    def __init__(self) -> None:
        self._held = dict[int, tuple[int, bool]]()

    def note(self, holder: Any, nbytes: int, *, at_work: bool) -> None:
        """Record that ``holder`` has ``nbytes`` bytes now, and whether it is at work."""
        number = id(holder)
        if number not in self._held:
            weakref.finalize(holder, self._held.pop, number, None).atexit = False
        self._held[number] = (nbytes, at_work)

    @property
    def total(self) -> int:
        """Bytes of all holders."""
        return sum(nbytes for nbytes, _ in list(self._held.values()))

    @property
    def num_at_work(self) -> int:
        """Number of holders at work."""
        return sum(at_work for _, at_work in list(self._held.values()))
