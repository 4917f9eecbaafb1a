"""The plan of a call of :func:`embed`: its layers measured on some batches, and not computed.

::

    features ──layer 0──> zeros in the place of layer-0.npy ──layer 1──> ...

Each layer reads zeros in the form of the rows before it: its file, if there is one, holds no bytes.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time

from aethergraph.convert.outputs import check_outputs
from aethergraph.features.feature_table import FeatureTable
from aethergraph.graph.schema import NODE
from aethergraph.inference.fingerprints import name_of
from aethergraph.inference.forms import form_of, zeros
from aethergraph.inference.job import Embedding
from aethergraph.inference.layer_file import LayerFile
from aethergraph.inference.plan import LayerPlan, Plan, read_speed
from aethergraph.protocols import RowSource

__all__ = ["Planner"]

#: Batches of a layer that are timed.
_TIMED = 4


class Planner(Embedding):
    """A call of :func:`embed` that says how its layers would be computed."""

    def plan(self, out: str) -> Plan:
        """Return how the layers of a graph of one type would be computed.

        Args:
            out: the output; files in the place of the layers' are beside it, and hold no bytes.
        """
        check_outputs([out], [], True)
        self._forms = self._try_layers()
        self._aggregates = self._aggregates_of()
        plan, limits = Plan(), self._limits()
        speed = read_speed(self._rows[NODE])
        folder = os.path.dirname(os.path.abspath(out))
        with tempfile.TemporaryDirectory(prefix=".plan-", dir=folder) as folder:
            for number, limit in enumerate(limits):
                with contextlib.ExitStack() as stack:
                    rows = self._rows[NODE]
                    if number:
                        rows = self._stand_in(number - 1, os.path.join(folder, "x.npy"), stack)
                    plan.append(self._plan_layer(number, rows, limit[NODE], speed))
        return plan

    def _plan_layer(self, number: int, rows: RowSource, limit: int, speed: float) -> LayerPlan:
        """Return how a layer would be computed, of rows that are read at so many bytes a second."""
        orders = self._orders(number, rows)
        costs = {order: self._cost(number, rows, limit, order) for order in orders}
        order = min(costs, key=lambda order: costs[order][1])
        parts, size = costs.pop(order)
        if number and rows.is_in_memory:
            size = rows.nbytes  # it is copied there
        seconds = (
            self._time(number, zeros(rows.num_rows, form_of(rows)), limit, order) + size / speed
        )
        instead = next((size for _, size in costs.values()), None)
        return LayerPlan(name_of(self._layers[number]), order, parts, size, seconds, instead)

    def _time(self, number: int, rows: RowSource, limit: int, order: str) -> float:
        """Return the seconds of a layer but for reading, of those of some of its batches."""
        ranges = list(self._ranges(number, limit))
        degrees = self._degrees[number][NODE]
        some = ranges[:: max(1, len(ranges) // _TIMED)][:_TIMED]
        work = [part.stop - part.start + degrees.sum_of(part) for part in some]
        began = time.perf_counter()
        for result in self.results(
            number, NODE, {NODE: rows}, limit, order=order, ranges=iter(some)
        ):
            del result
        elapsed = time.perf_counter() - began
        total = self._counts[NODE] + sum(map(degrees.sum_of, ranges))
        return elapsed * total / max(1, sum(work))

    def _stand_in(self, number: int, path: str, stack: contextlib.ExitStack) -> RowSource:
        """Return rows in place of those of a layer, in memory or read as they would be."""
        form, count = self._forms[number][NODE], self._counts[NODE]
        if count * form.row_bytes <= self._options.budget.limit // 2:
            return zeros(count, form)
        with LayerFile(path, (count, *form.row_shape), form.dtype) as file:
            file.extend()
        share = self._options.budget.limit // 2
        return stack.enter_context(FeatureTable.load(path, "auto", memory_budget=share))
