"""Reordering of graph files within a memory budget: :func:`reorder`."""

from __future__ import annotations

from aethergraph.convert.reordering.api import ReorderResult, reorder

__all__ = ["ReorderResult", "reorder"]
