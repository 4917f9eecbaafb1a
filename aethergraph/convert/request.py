"""Request of a conversion, in one piece."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from aethergraph.convert.arguments import Reading
from aethergraph.convert.companions import CompanionFiles
from aethergraph.convert.form import GraphForm
from aethergraph.convert.outputs import check_outputs
from aethergraph.convert.readers.base import InputError, PathLike
from aethergraph.convert.readers.edge_plan import EdgePlan
from aethergraph.convert.readers.edges import EdgeReader
from aethergraph.convert.result import is_sparse, sparse_error
from aethergraph.errors import LimitError

__all__ = ["Request"]


@dataclass(frozen=True)
class Request:
    """Edges in ``files``, patterns expanded, that become the graph file ``output``."""

    files: Sequence[PathLike]
    output: str
    form: GraphForm
    plan: EdgePlan
    reading: Reading
    tables: CompanionFiles

    def check_graph(self, force: bool) -> None:
        """Check that the graph file may be written; see :func:`check_outputs`."""
        check_outputs([self.output], self._inputs, force)

    def check_all(self, force: bool) -> None:
        """Check that the graph file and the files beside it may be written."""
        companions = [path for path in self.tables.outputs(self.output) if path is not None]
        check_outputs([self.output, *companions], self._inputs, force)

    def check_density(self, num_nodes: int, num_edges: int) -> None:
        """Refuse ids far above the number of edges.

        Raises:
            LimitError: names the place of the largest id, found by reading the files once more.
        """
        if not is_sparse(num_nodes, num_edges):
            return
        if self.plan.num_nodes is not None:
            raise LimitError(
                f"num_nodes = {num_nodes} is far above the {num_edges:,} edges: lists of no edges "
                "alone would take most of the file"
            )
        below = replace(self.plan, num_nodes=num_nodes - 1)
        place = os.fspath(self.files[0])
        try:
            reader = EdgeReader(self.files, below, **self.reading, threads=1, progress=None)
            for _ in reader.arrays():
                pass
        except InputError as error:
            place = error.place
        raise sparse_error(place, num_nodes, num_edges)

    @property
    def _inputs(self) -> list[str]:
        return [os.fspath(path) for path in self.files] + self.tables.inputs

    @property
    def options(self) -> dict[str, Any]:
        """Everything beside the files and the form that determines the result, for JSON."""
        plan, tables = self.plan, self.tables
        companions = (tables.features, tables.features_out, tables.dtype, tables.labels)
        columns = (tables.id_column, tables.feature_columns)
        return {
            **self.reading,
            "src": plan.src,
            "dst": plan.dst,
            "weight": plan.weight,
            "time": plan.time,
            "time_type": plan.time_type,
            "time_unit": plan.time_unit,
            "weight_type": plan.weight_type,
            "attrs": [[spec.name, spec.columns, spec.dtype] for spec in plan.attrs],
            "companions": [str(option) for option in (*companions, tables.labels_out, *columns)],
        }
