"""Columns of several dtypes as features: numbers, booleans, times, categories and texts, by id.

:class:`ColumnStore` is a file of the columns of one node type; ``convert.tables`` writes one beside
a graph (``graph.columns["user"]``), and :meth:`ColumnStore.build` makes one of arrays. What is
gathered is a :class:`ColumnBatch`: arrays by name, torch tensors, or PyTorch Frame's TensorFrame.
"""

from __future__ import annotations

from aethergraph.columns.store import ColumnStore

__all__ = [
    "ColumnStore",
]
