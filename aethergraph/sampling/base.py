"""Base classes of the samplers: options, keys, and the engine that draws."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_ids, as_integer
from aethergraph._checks.options import as_choice, as_flag, as_text
from aethergraph.errors import InvalidArgumentError
from aethergraph.graph.ids import check_ids
from aethergraph.sampling._misuse import stray_attribute
from aethergraph.sampling.engine import (
    DrawOptions,
    NativeEngine,
    SampleEngine,
    as_num_threads,
)
from aethergraph.sampling.groups import SampleGroups
from aethergraph.sampling.keys import mix_key
from aethergraph.storage.paging import Paging

__all__ = [
    "KeyedSampler",
    "SamplerBase",
    "SubgraphType",
    "TemporalStrategy",
    "as_excluded",
    "as_window",
]

Ids = NDArray[np.int64]
SubgraphType = Literal["directional", "bidirectional", "induced"]
"""Edges of a sample: drawn ones, drawn ones and their reverses, or all between its nodes."""
TemporalStrategy = Literal["uniform", "last"]
"""Neighbours in time of which some are taken: any of them alike, or the latest."""
_SUBGRAPH_TYPES = ("directional", "bidirectional", "induced")
_STRATEGIES = ("uniform", "last")
_KEY_MASK = (1 << 64) - 1


class KeyedSampler:
    """Keys for calls without one."""

    if not TYPE_CHECKING:  # a type checker would take every name to exist

        def __getattr__(self, name: str) -> Any:
            raise stray_attribute(self, name)

    def _set_seed(self, seed: int) -> None:
        self.seed = as_integer(seed, "seed")
        self._calls = itertools.count()

    def _number(self, key: int | None) -> int:
        if key is None:
            return mix_key(self.seed, next(self._calls))
        return as_integer(key, "key") & _KEY_MASK


class SamplerBase(KeyedSampler):
    """Checked options of the neighbour samplers, and their engine."""

    #: Maker of the samples.
    engine: SampleEngine[native.NativeSample]

    _OPTIONS = (
        "replace", "disjoint", "subgraph_type", "num_threads", "seed", "weight_attr", "time_attr",
        "temporal_strategy", "strict", "window", "layered",
    )  # fmt: skip

    def _set_options(
        self,
        *,
        replace: bool,
        disjoint: bool,
        subgraph_type: SubgraphType,
        num_threads: int,
        seed: int,
        weight_attr: str | None,
        time_attr: str | None,
        temporal_strategy: TemporalStrategy,
        strict: bool,
        window: float | int | None,
        layered: bool,
    ) -> None:
        subgraph_type = as_choice(subgraph_type, _SUBGRAPH_TYPES, "subgraph_type")
        temporal_strategy = as_choice(temporal_strategy, _STRATEGIES, "temporal_strategy")
        weight_attr, time_attr = (
            as_text(weight_attr, "weight_attr"),
            as_text(time_attr, "time_attr"),
        )
        strict, layered = as_flag(strict, "strict"), as_flag(layered, "layered")
        if time_attr is None and (strict or window is not None or temporal_strategy != "uniform"):
            raise InvalidArgumentError("strict, window and temporal_strategy need time_attr")
        disjoint = as_flag(disjoint, "disjoint") or time_attr is not None
        self.num_threads = as_num_threads(num_threads)
        self.replace = as_flag(replace, "replace")
        self.disjoint = disjoint
        self.subgraph_type: SubgraphType = subgraph_type
        self._set_seed(seed)
        self.weight_attr = weight_attr
        self.time_attr = time_attr
        self.temporal_strategy: TemporalStrategy = temporal_strategy
        self.strict = strict
        self.window = as_window(window)
        self.layered = layered
        if self.layered and subgraph_type == "bidirectional":
            raise InvalidArgumentError("layered goes with directional or induced subgraphs")

    def _options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._OPTIONS}

    def _set_engine(
        self,
        relations: Sequence[native.NativeRelation],
        num_nodes: Sequence[int],
        fanouts: Sequence[Sequence[int]],
        paging: Paging | None,
    ) -> None:
        options = DrawOptions(
            replace=self.replace,
            disjoint=self.disjoint,
            induced=self.subgraph_type == "induced",
            latest=self.temporal_strategy == "last",
            layered=self.layered,
            num_threads=self.num_threads,
        )
        self.engine = NativeEngine(
            native.NativeSample, relations, num_nodes, fanouts, options, paging
        )

    @property
    def groups(self) -> SampleGroups[native.NativeSample] | None:
        """Maker of samples of coming batches together; None if that saves nothing."""
        return self.engine.groups

    @property
    def scratch_memory(self) -> int:
        """Bytes of the workspaces that no call uses at this moment."""
        return self.engine.scratch_memory


def as_window(window: Any) -> float | int | None:
    """Return the width of a time window, checked, or None."""
    if window is None:
        return None
    if isinstance(window, bool) or not isinstance(window, (int, float, np.integer, np.floating)):
        raise InvalidArgumentError(f"window must be a number, got {type(window).__name__}")
    if not window >= 0:
        raise InvalidArgumentError(f"window = {window} is not at least 0")
    return int(window) if isinstance(window, (int, np.integer)) else float(window)


def as_excluded(edges: ArrayLike, num_edges: int, name: str) -> Ids:
    """Return the ids of edges to leave out, checked, ascending and distinct."""
    ids = as_ids(edges, name)
    check_ids(ids, num_edges, name, "edges")
    return np.unique(ids)
