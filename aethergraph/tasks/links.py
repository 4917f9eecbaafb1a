"""LinkTask: a training table with two entities per row, or an entity and a list of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.options import is_name, shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.protocols import AnyGraph
from aethergraph.tasks.reading import End, Known, Source, Unknown, as_columns
from aethergraph.tasks.rows import TaskRows, torch_tensor

__all__ = ["LinkTask"]


class LinkTask(TaskRows):
    """Training table of links, as seeds over a graph: who will buy what, at a time.

    ::

        task = LinkTask(
            graph, "next_orders.parquet", time_col="date",
            src_entity_table="user", src_entity_col="user_id",
            dst_entity_table="product", dst_entity_col="product_ids",
        )
        train, val, test = task.split(val="2024-03-01", test="2024-06-01")
        loader = LinkNeighborLoader(graph, [10, 5], **train.link_input(), neg_sampling="triplet")

    A column of lists, as tables of recommendation have, is a link for each item; rows with an empty
    list have none.

    Args:
        graph: as in :class:`TableTask`.
        table: as in :class:`TableTask`.
        src_entity_table: node type that links come from; of a graph of one type left out.
        src_entity_col: column of their keys, or several.
        dst_entity_table: node type that links go to; of a graph of one type left out.
        dst_entity_col: column of their keys, or of lists of keys, or several.
        time_col: as in :class:`TableTask`.
        target_col: as in :class:`TableTask`.
        relation: relation that :meth:`link_input` names; the graph need not hold edges of it.
        entity_is: as in :class:`TableTask`, for both ends.
        unknown: as in :class:`TableTask`, for both ends; a link is left out, not its row.

    Attributes:
        edge_type: (source type, relation, destination type) of the seeds; None of one type.
        links: int64 [2, n], ids of sources and destinations.

    Raises:
        InputError: as :class:`TableTask`.
        InvalidArgumentError: as :class:`TableTask`.
    """

    _kind = "links"

    def __init__(
        self,
        graph: AnyGraph,
        table: Any,
        *,
        src_entity_col: str | Sequence[str],
        dst_entity_col: str | Sequence[str],
        src_entity_table: str | None = None,
        dst_entity_table: str | None = None,
        time_col: str | None = None,
        target_col: str | Sequence[str] | None = None,
        relation: str = "to",
        entity_is: Known = "key",
        unknown: Unknown = "error",
    ) -> None:
        ends = (
            End(src_entity_table, as_columns(src_entity_col, "src_entity_col"), is_list=True),
            End(dst_entity_table, as_columns(dst_entity_col, "dst_entity_col"), is_list=True),
        )
        labels = () if target_col is None else as_columns(target_col, "target_col")
        if not is_name(relation):
            raise InvalidArgumentError(f"relation = {shown(relation)} is no text")
        rows = self._read(graph, table, Source(ends, time_col, labels, entity_is, unknown))
        self.edge_type = None
        if src_entity_table is not None and dst_entity_table is not None:
            self.edge_type = (src_entity_table, relation, dst_entity_table)
        self.links: NDArray[np.int64] = np.stack(rows.ids)

    def _only(self, chosen: NDArray[Any]) -> LinkTask:
        new = super()._only(chosen)
        new.links = np.ascontiguousarray(self.links[:, chosen])
        return new

    def link_input(self) -> dict[str, Any]:
        """Return ``edge_label_index`` and ``edge_label_time`` as tensors, for loaders of links.

        Labels are not among them, since sampling of negatives gives labels of its own: see
        :meth:`attach_labels`.

        Raises:
            UnsupportedError: torch is not installed.
        """
        tensors = {"edge_label_index": (self.edge_type, torch_tensor(self.links))}
        if self.time is not None:
            tensors["edge_label_time"] = torch_tensor(self.time)
        return tensors

    @property
    def _seed_type(self) -> Any:
        return self.edge_type
