"""Training tables over graphs: rows of an entity, a time and a label, as seeds for loaders.

:class:`TableTask` is a table with one entity per row, :class:`LinkTask` one with two;
:func:`relbench_task` reads the three tables of a task of RelBench. They look keys up in the maps of
ids of a graph that :func:`aethergraph.convert.tables` has built, or among the keys of a live graph.
"""

from __future__ import annotations

from aethergraph.tasks.links import LinkTask
from aethergraph.tasks.relbench import relbench_task
from aethergraph.tasks.table import TableTask

__all__ = [
    "LinkTask",
    "TableTask",
    "relbench_task",
]
