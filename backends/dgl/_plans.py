"""Plans of draws under DGL's names of options, and those that are kept for further calls."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypeVar

from aethergraph import _native as native
from aethergraph.dgl._schema import Schema
from aethergraph.sampling.draws import Draws, Excluded
from aethergraph.sampling.engine import DrawOptions
from aethergraph.sampling.plan import DrawPlan, Times, Weights, lists_of, make_plan

__all__ = ["NAMES", "DrawCache", "Fanouts", "dgl_times", "excluded_edges", "plan_of"]

#: Fanouts by edge type, in the graph's order, and hop from the seeds.
Fanouts: TypeAlias = "tuple[tuple[int, ...], ...]"
S = TypeVar("S", bound=native.NativeSample | native.NativeLayers)

#: Names of seeds and their times in messages.
NAMES = ("nodes", "seed_time")

#: Most draws that are kept for further calls with equal options.
_KEPT_DRAWS = 16


def dgl_times(
    name: str,
    of_nodes: bool | None = None,
    *,
    strict: bool = True,
    window: float | int | None = None,
) -> Times:
    """Return times to draw by, as DGL does: strictly below those of seeds that have any."""
    return Times(name, of_nodes, strict=strict, window=window, sees_all=True)


def plan_of(
    schema: Schema,
    layout: Literal["csc", "csr"] = "csc",
    *,
    prob: str | None = None,
    mask: str | None = None,
    times: Times | None = None,
) -> DrawPlan:
    """Find what to draw by: weights called ``prob`` or a mask, or a ``mask`` alone.

    Raises:
        LayoutError, InvalidArgumentError: as :func:`aethergraph.sampling.plan.make_plan`.
    """
    weights = None
    if mask is not None:
        weights = Weights(mask, "mask", "required")
    elif prob is not None:
        weights = Weights(prob, "prob", "allowed")
    return make_plan(schema, lists_of(schema.edge_types, (layout,)), weights, times)


def excluded_edges(draws: Draws[Any], edges: Any, option: str) -> Excluded | None:
    """Find the edges that users exclude, in DGL's numbering; None if none are given.

    Raises:
        InvalidArgumentError, OutOfRangeError: as :meth:`Schema.excluded_ids`.
    """
    schema = draws.plan.schema
    assert isinstance(schema, Schema)
    ids = schema.excluded_ids(edges, option)
    return draws.without_edges(ids, option) if ids else None


class DrawCache:
    """Draws of a graph by their options, made at their first use.

    They are made again when an attribute that they draw by is replaced.

    Args:
        schema: the graph.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._plans: dict[Any, DrawPlan] = {}
        self._draws: dict[Any, Draws[Any]] = {}

    def get(
        self,
        form: type[S],
        fanouts: Fanouts,
        options: DrawOptions,
        layout: Literal["csc", "csr"] = "csc",
        *,
        prob: str | None = None,
        times: Times | None = None,
    ) -> Draws[S]:
        """Return the draws of a form with these options.

        Raises:
            LayoutError, InvalidArgumentError: as :func:`plan_of`.
        """
        drawn_by = layout, prob, times
        plan = self._plans.get(drawn_by)
        if plan is None or not plan.is_current:
            plan = self._plans[drawn_by] = plan_of(self._schema, layout, prob=prob, times=times)
        name = form, fanouts, options, drawn_by
        draws = self._draws.get(name)
        if draws is None or draws.plan is not plan:
            if len(self._draws) >= _KEPT_DRAWS:
                self._draws.clear()
            draws = self._draws[name] = Draws(plan, form, fanouts, options)
        return draws
