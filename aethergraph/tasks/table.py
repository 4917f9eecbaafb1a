"""TableTask: a training table with one entity per row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph.protocols import AnyGraph
from aethergraph.tasks.reading import End, Known, Source, Unknown, as_columns
from aethergraph.tasks.rows import TaskRows, torch_tensor

__all__ = ["TableTask"]


class TableTask(TaskRows):
    """Training table with an entity, a time and a label per row, as seeds over a graph.

    ::

        task = TableTask(
            graph, "churn.parquet",
            entity_table="user", entity_col="user_id", time_col="date", target_col="churn",
        )
        train, val, test = task.split(val="2024-03-01", test="2024-06-01")
        loader = NeighborLoader(
            graph, [10, 5], **train.node_input(), transform=train.attach_labels, batch_size=512
        )
        for batch in loader:
            batch["user"].y            # labels of the seeds, in their order

    PyG's stock ``NodeLoader`` takes :meth:`node_input` too, over a sampler with ``time_attr``.

    Args:
        graph: a graph that was loaded, with the maps of ids beside its file, or a live graph that
            was opened with keys (``ids=``), or a snapshot of it; of one type or of many. With
            ``entity_is="id"`` any graph.
        table: the table, as ``source`` of :class:`aethergraph.convert.NodeTable`: a file, pattern,
            folder or URL; a data frame; a database with a table or query.
        entity_table: node type of the entities; of a graph of one type left out.
        entity_col: column of their keys, or several.
        time_col: column of times; integers count the unit of the graph. None: no times.
        target_col: column of labels, or several: integers and booleans become int64, -1 where
            missing, other numbers float32, NaN where missing. None: no labels.
        entity_is: "key": the entities are named by their keys; "id": by ids of nodes.
        unknown: "error": a key that the graph does not have is an error; "drop": such rows are left
            out, and counted in ``num_dropped``.

    Attributes:
        entity_table: node type of the seeds; None of a graph of one type.
        nodes: int64 [n], ids of the seeds.

    Raises:
        InputError: a column is missing or of another type, a key is missing or unknown, a time
            cannot be given in the unit of the graph; names file, row and column.
        InvalidArgumentError: an option is wrong; the graph has no such node type or no map of ids.
    """

    _kind = "nodes"

    def __init__(
        self,
        graph: AnyGraph,
        table: Any,
        *,
        entity_col: str | Sequence[str],
        entity_table: str | None = None,
        time_col: str | None = None,
        target_col: str | Sequence[str] | None = None,
        entity_is: Known = "key",
        unknown: Unknown = "error",
    ) -> None:
        end = End(entity_table, as_columns(entity_col, "entity_col"))
        labels = () if target_col is None else as_columns(target_col, "target_col")
        source = Source((end,), time_col, labels, entity_is, unknown)
        rows = self._read(graph, table, source)
        self.entity_table = entity_table
        self.nodes: NDArray[np.int64] = rows.ids[0]

    def _only(self, chosen: NDArray[Any]) -> TableTask:
        new = super()._only(chosen)
        new.nodes = self.nodes[chosen]
        return new

    def node_input(self) -> dict[str, Any]:
        """Return ``input_nodes`` and ``input_time`` as tensors, for loaders around nodes.

        Raises:
            UnsupportedError: torch is not installed.
        """
        nodes = torch_tensor(self.nodes)
        tensors = {
            "input_nodes": nodes if self.entity_table is None else (self.entity_table, nodes)
        }
        if self.time is not None:
            tensors["input_time"] = torch_tensor(self.time)
        return tensors

    @property
    def _seed_type(self) -> Any:
        return self.entity_table
