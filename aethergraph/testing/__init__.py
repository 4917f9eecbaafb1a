"""Models and tools for tests of AetherGraph and of what is built on it."""

from aethergraph.testing import oracle

__all__ = ["oracle"]
