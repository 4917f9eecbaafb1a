"""How much of the tests a run has: the share that a person waits for, or all.

Environment:
    AETHERGRAPH_ALL: every test, with every variant and example.
    AETHERGRAPH_VARIANTS: at most so many sets of parameters of each test (default 2).
    AETHERGRAPH_EXAMPLES: examples of each property, as a multiple of its own number (default 0.3).
"""

from __future__ import annotations

import os

__all__ = ["ALL", "EXAMPLES", "VARIANTS", "examples_of"]

ALL = "AETHERGRAPH_ALL" in os.environ
#: 0: as many as there are.
VARIANTS = int(os.environ.get("AETHERGRAPH_VARIANTS", "0" if ALL else "2"))
EXAMPLES = float(os.environ.get("AETHERGRAPH_EXAMPLES", "1" if ALL else "0.3"))


def examples_of(count: int) -> int:
    """Return how many examples this run tries of a property that has ``count`` of its own."""
    return max(1, round(count * EXAMPLES))
