"""Base classes of the samplers: options, keys, and workspaces of concurrent calls."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _binding as native
from aethergraph._arrays import as_count, as_ids, as_integer
from aethergraph._options import as_choice, as_flag, as_list, as_text
from aethergraph._paging import Paging
from aethergraph._parts import check_ids
from aethergraph.errors import InvalidArgumentError
from aethergraph.sampling._misuse import stray_attribute
from aethergraph.sampling.groups import SampleGroups
from aethergraph.sampling.keys import mix_key

__all__ = [
    "MAX_HOPS",
    "KeyedSampler",
    "SamplerBase",
    "SubgraphType",
    "TemporalStrategy",
    "as_excluded",
    "as_fanouts",
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
MAX_HOPS = 1024


class KeyedSampler:
    """Keys for calls without one, and a pool of native samplers, one per concurrent call."""

    if not TYPE_CHECKING:  # a type checker would take every name to exist

        def __getattr__(self, name: str) -> Any:
            raise stray_attribute(self, name)

    def _set_seed(self, seed: int) -> None:
        self.seed = as_integer(seed, "seed")
        self._calls = itertools.count()
        # append and pop of a deque are atomic: no lock that a fork could copy in its locked state.
        self._scratch: deque[native.NativeSampler] = deque()

    def _number(self, key: int | None) -> int:
        if key is None:
            return mix_key(self.seed, next(self._calls))
        return as_integer(key, "key") & _KEY_MASK

    def _take_scratch(self) -> native.NativeSampler:
        """Return a native sampler that no other call uses; the caller puts it into ``_scratch``."""
        try:
            return self._scratch.pop()
        except IndexError:
            return self._make_scratch()

    def _make_scratch(self) -> native.NativeSampler:
        raise NotImplementedError

    @property
    def scratch_memory(self) -> int:
        """Bytes of the idle native samplers' workspaces."""
        return sum(scratch.memory for scratch in list(self._scratch))


class SamplerBase(KeyedSampler):
    """Checked options of the neighbour samplers, and the native call that they share."""

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
        if as_count(num_threads, "num_threads") > 256:
            raise InvalidArgumentError(f"num_threads = {num_threads} is not in 0..256")
        self.replace = as_flag(replace, "replace")
        self.disjoint = disjoint
        self.subgraph_type: SubgraphType = subgraph_type
        self.num_threads = int(num_threads)
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

    def _set_walk(
        self,
        relations: Sequence[native.NativeRelation],
        num_nodes: Sequence[int],
        fanouts: Sequence[Sequence[int]],
        paging: Paging | None,
    ) -> None:
        self._walk = (relations, num_nodes, fanouts)
        #: Makes samples of coming batches together; None if that saves nothing.
        self.groups: SampleGroups | None = None
        if paging is not None:
            # Not a method of self: a sampler in a reference cycle would keep its files open.
            make = partial(native.NativeGroup, *self._walk, self._flags(), self.num_threads)
            self.groups = SampleGroups(make, paging, fanouts, relations)

    def _make_scratch(self) -> native.NativeSampler:
        return native.NativeSampler(*self._walk, self._flags(), self.num_threads)

    def draw(self, batch: native.NativeBatch) -> native.NativeSample:
        """Draw one sample by itself."""
        scratch = self._take_scratch()
        try:
            return scratch.sample(*batch)
        finally:
            self._scratch.append(scratch)

    def _draw_many(self, batches: Iterable[native.NativeBatch]) -> Iterator[native.NativeSample]:
        if self.groups is None:
            yield from map(self.draw, batches)
            return
        rest = iter(batches)
        for first in rest:
            size = self.groups.size(sum(map(len, first.seeds)))
            yield from self.groups.sample([first, *itertools.islice(rest, size - 1)])

    def _flags(self) -> int:
        return (
            native.SAMPLE_REPLACE * self.replace
            | native.SAMPLE_DISJOINT * self.disjoint
            | native.SAMPLE_INDUCED * (self.subgraph_type == "induced")
            | native.SAMPLE_LATEST * (self.temporal_strategy == "last")
            | native.SAMPLE_LAYERED * self.layered
        )


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


def as_fanouts(
    fanouts: Sequence[int] | NDArray[Any],
    name: str = "fanouts",
    least: int = -1,
    rule: str = "a fanout is >= 0, or -1 for all neighbours",
) -> tuple[int, ...]:
    """Return numbers by hop, checked to be at least ``least``; ``rule`` explains that limit."""
    if fanouts is None:
        raise InvalidArgumentError(f"{name} has one number per hop, got None")
    if isinstance(fanouts, (int, np.integer)):
        raise InvalidArgumentError(f"{name} has one number per hop: [{int(fanouts)}] for one hop")
    for at, fanout in enumerate(as_list(fanouts, name, "numbers")):
        if isinstance(fanout, int) and fanout >= 1 << 63:
            raise InvalidArgumentError(
                f"{name}[{at}] = {fanout} is too large: -1 takes all neighbours", position=at
            )
    ids = as_ids(fanouts, name)
    if ids.shape[0] > MAX_HOPS:
        raise InvalidArgumentError(f"{name} has {ids.shape[0]} hops, at most {MAX_HOPS} can be")
    below = np.flatnonzero(ids < least)
    if below.size:
        at = int(below[0])
        raise InvalidArgumentError(
            f"{name}[{at}] = {ids[at]}: {rule}",
            position=at,
            value=int(ids[at]),
        )
    return tuple(int(k) for k in ids)
