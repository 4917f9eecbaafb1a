"""Tasks of RelBench: three tables with the columns that the task names."""

from __future__ import annotations

from typing import Any

from aethergraph._checks.options import shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.tasks.links import LinkTask
from aethergraph.tasks.reading import AnyGraph, Unknown
from aethergraph.tasks.rows import Splits
from aethergraph.tasks.table import TableTask

__all__ = ["relbench_task"]

_ENTITY = ("entity_table", "entity_col", "time_col")
_LINK = (
    "src_entity_table", "src_entity_col", "dst_entity_table", "dst_entity_col", "time_col",
)  # fmt: skip


def relbench_task(
    graph: AnyGraph, task: Any, *, unknown: Unknown = "error"
) -> Splits[TableTask] | Splits[LinkTask]:
    """Return the train, val and test table of a task of RelBench as seeds over a graph.

    The test table has no labels, as ``task.get_table("test")`` leaves them out.

    Args:
        graph: a graph that :func:`aethergraph.convert.relbench_schema` has described.
        task: a ``relbench.base.EntityTask`` or ``RecommendationTask``, or an object with
            ``get_table`` and their members ``entity_table``, ``entity_col``, ``time_col``,
            ``target_col``, or ``src_entity_table``, ``src_entity_col``, ``dst_entity_table``,
            ``dst_entity_col``, ``time_col``.
        unknown: as in :class:`TableTask`.

    Raises:
        InputError: as :class:`TableTask`.
        InvalidArgumentError: it is not such an object.
    """
    names = _LINK if hasattr(task, "src_entity_table") else _ENTITY
    missing = [one for one in ("get_table", *names) if not hasattr(task, one)]
    if missing:
        raise InvalidArgumentError(f"task has no {', '.join(missing)}: {shown(task)}")
    named = {one: getattr(task, one) for one in names}
    frames: list[Any] = [
        getattr(task.get_table(one), "df", None) for one in ("train", "val", "test")
    ]
    if any(frame is None for frame in frames):
        raise InvalidArgumentError("task.get_table returns no table with a df")
    if names is _LINK:
        return Splits(*(LinkTask(graph, one, **named, unknown=unknown) for one in frames))
    target = getattr(task, "target_col", None)
    return Splits(
        *(
            TableTask(
                graph,
                one,
                **named,
                target_col=target if target in one.columns else None,
                unknown=unknown,
            )
            for one in frames
        )
    )
