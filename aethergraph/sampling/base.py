"""Base classes of the samplers: options, keys, and the plan that draws go by."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_integer
from aethergraph._checks.options import as_choice, as_flag, as_text
from aethergraph.errors import InvalidArgumentError
from aethergraph.graph.schema import Schema
from aethergraph.graph.typed_edges import EdgeType
from aethergraph.protocols import AnyGraph
from aethergraph.sampling._misuse import stray_attribute
from aethergraph.sampling.batch_arguments import align_batches
from aethergraph.sampling.directions import LAYOUTS, SampleDirection, check_direction
from aethergraph.sampling.draws import Draws
from aethergraph.sampling.engine import DrawOptions, SampleEngine, as_num_threads
from aethergraph.sampling.groups import SampleGroups
from aethergraph.sampling.keys import mix_key
from aethergraph.sampling.plan import DrawPlan, Times, Weights, lists_of, make_plan

__all__ = [
    "KeyedSampler",
    "SamplerBase",
    "SubgraphType",
    "TemporalStrategy",
    "as_window",
]

Ids = NDArray[np.int64]
Nodes = TypeVar("Nodes")
Edges = TypeVar("Edges")
Result = TypeVar("Result")
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


class SamplerBase(KeyedSampler, Generic[Nodes, Edges, Result]):
    """Neighbour sampler as a front of a :class:`DrawPlan`; a subclass names types and results.

    ``Nodes`` is what goes by node, seeds and their times, ``Edges`` what goes by edge.
    """

    #: Graph that is sampled.
    graph: AnyGraph

    _OPTIONS = (
        "replace", "disjoint", "subgraph_type", "num_threads", "seed", "weight_attr", "time_attr",
        "temporal_strategy", "strict", "window", "layered", "sample_direction", "exclude_edges",
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
        sample_direction: SampleDirection,
        exclude_edges: Edges | None,
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
        check_direction(sample_direction)
        if sample_direction != "forward" and (time_attr is not None or layered):
            raise InvalidArgumentError(
                f"sample_direction = {sample_direction!r} goes without time_attr and layered"
            )
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
        self.sample_direction: SampleDirection = sample_direction
        try:
            self.exclude_edges = copy.deepcopy(exclude_edges)  # a caller may change them
        except TypeError:  # such as a memoryview; what holds no ids is named where they are read
            self.exclude_edges = exclude_edges
        except RecursionError:
            raise InvalidArgumentError("exclude_edges is nested too deeply for ids") from None
        if self.layered and subgraph_type == "bidirectional":
            raise InvalidArgumentError("layered goes with directional or induced subgraphs")

    def _options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._OPTIONS}

    def _plan_of(self, graph: AnyGraph, is_sorted: bool) -> DrawPlan:
        weights = None if self.weight_attr is None else Weights(self.weight_attr)
        times = None
        if self.time_attr is not None:
            times = Times(self.time_attr, strict=self.strict, window=self.window)
        schema = Schema(graph)
        lists = lists_of(schema.edge_types, LAYOUTS[self.sample_direction])
        is_sorted = as_flag(is_sorted, "is_sorted")
        return make_plan(schema, lists, weights, times, is_sorted=is_sorted)

    def _draw_from(
        self, graph: AnyGraph, fanouts: Sequence[Sequence[int]], is_sorted: bool
    ) -> None:
        """Sample ``graph`` with checked fanouts by edge type and hop."""
        options = DrawOptions(
            replace=self.replace,
            disjoint=self.disjoint,
            induced=self.subgraph_type == "induced",
            latest=self.temporal_strategy == "last",
            layered=self.layered,
            num_threads=self.num_threads,
        )
        plan = self._plan_of(graph, is_sorted)
        by_lists = list(fanouts) * len(LAYOUTS[self.sample_direction])
        exclude_edges = None
        if self.exclude_edges is not None:
            read = self._read_edges(self.exclude_edges, "exclude_edges")
            exclude_edges = {kind: ids.copy() for kind, ids in read.items()}
        self._draws = Draws(plan, native.NativeSample, by_lists, options, exclude_edges)

    # ---- what a subclass defines -----------------------------------------------------------

    def _check_graph(self, graph: Any) -> None:
        """Raise unless ``graph`` is of the kind that this class samples."""
        raise NotImplementedError

    def _read_seeds(self, seeds: Nodes, place: str) -> Mapping[str, Ids]:
        """Return seeds by node type; ``place`` as for :meth:`prepare`."""
        raise NotImplementedError

    def _read_times(self, seed_time: Nodes, place: str) -> Mapping[str, ArrayLike]:
        """Return the times of seeds by node type."""
        raise NotImplementedError

    def _read_edges(self, edges: Edges, option: str) -> Mapping[EdgeType, Ids]:
        """Return ids of edges that are left out by edge type; ``option`` names them."""
        raise NotImplementedError

    def finish(self, sample: native.NativeSample) -> Result:
        """Return the subgraph of a native sample."""
        raise NotImplementedError

    # ---- sampling --------------------------------------------------------------------------

    @property
    def plan(self) -> DrawPlan:
        """Lists, weights and times that samples are drawn by."""
        return self._draws.plan

    @property
    def engine(self) -> SampleEngine[native.NativeSample]:
        """Maker of the samples."""
        return self._draws.engine

    @property
    def times_dtype(self) -> np.dtype[Any] | None:
        """Dtype of the times, int64 or float64; None without times."""
        return self.plan.times_dtype

    @property
    def time_unit(self) -> str | None:
        """Unit of the times, if they are the graph's own and were datetimes; else None."""
        return self.plan.time_unit

    @property
    def groups(self) -> SampleGroups[native.NativeSample] | None:
        """Maker of samples of coming batches together; None if that saves nothing."""
        return self.engine.groups

    @property
    def scratch_memory(self) -> int:
        """Bytes of the workspaces that no call uses at this moment."""
        return self.engine.scratch_memory

    def retarget(self, graph: Any, *, is_sorted: bool = False) -> None:
        """Go on with another graph, say the next snapshot of one that changes.

        Samples are those of a new sampler with these options. The workspaces are kept, which is
        cheaper than to make them again. No other thread may use the sampler during the call.

        Args:
            graph: a graph of the same types; it has the weights and times that the sampler draws
                by.
            is_sorted: as when the sampler is made.

        Raises:
            LayoutError, InvalidArgumentError: as when the sampler is made, or a graph of other
                types. The sampler goes on with the graph that it has.
        """
        self._check_graph(graph)
        schema, new_schema = self.plan.schema, Schema(graph)
        for sampled, new_types, types in (
            (schema.node_types, new_schema.node_types, "node types"),
            (schema.edge_types, new_schema.edge_types, "edge types"),
        ):
            if sampled != new_types:
                raise InvalidArgumentError(
                    f"graph has the {types} {new_types}, the one that is sampled has {sampled}: "
                    "make another sampler"
                )
        self._draws.retarget(self._plan_of(graph, is_sorted))
        self.graph = graph

    def sample(
        self,
        seeds: Nodes,
        key: int | None = None,
        *,
        seed_time: Nodes | None = None,
        exclude: Edges | None = None,
    ) -> Result:
        """Draw the subgraph around ``seeds``.

        Args:
            seeds: integer vector [n], of a typed graph by node type; may be empty and may hold
                duplicates. Each duplicate keeps its slot and gets the same edges; as a source the
                node is in its first slot.
            key: the 64-bit number that decides all draws (taken modulo 2^64). None: a new key per
                call, from ``seed`` and the number of the call on this copy of the sampler. A
                forked child continues from the parent's number and an unpickled copy starts at 0,
                so copies with one seed repeat each other's draws: workers should pass keys.
            seed_time: [n], of a typed graph by node type, with ``time_attr``: the latest time that
                each seed's tree may see. None, or a type that is missing: the time of the seed node
                itself, if nodes have the times.
            exclude: ids of edges that the sample must not hold, of a typed graph by edge type, such
                as those that a model is to predict. Every node draws as if the graph did not have
                these edges.

        Raises:
            OutOfRangeError: a seed is not a node, or an edge does not exist; names the first one,
                its type and its position.
            FileChangedError: the mapped graph file was made shorter.
        """
        return self.finish(self.engine.draw(self.prepare(seeds, key, seed_time, exclude)))

    def sample_many(
        self,
        seeds: Iterable[Nodes],
        keys: Iterable[int] | None = None,
        *,
        seed_time: Iterable[Nodes | None] | None = None,
        exclude: Iterable[Edges | None] | None = None,
    ) -> Iterator[Result]:
        """Draw the subgraphs of many batches, in order, each equal to that of :meth:`sample`.

        For a graph with ``storage="uring"``, the subgraphs of several coming batches are made at
        once, hop by hop, so that each page is read once for all of them. The graph's
        ``memory_budget`` limits their number.

        Args:
            seeds: the seeds of each batch; read as far ahead as batches are made at once.
            keys: the key of each batch. None: the call counts as one call of :meth:`sample`
                without a key, and the keys derive from that call and the number of the batch.
            seed_time: ``seed_time`` of :meth:`sample` for each batch, or None for all.
            exclude: ``exclude`` of :meth:`sample` for each batch, or None for all.

        Raises:
            InvalidArgumentError: keys, seed_time or exclude do not have one item per batch
                (iterators may have more).
            OutOfRangeError: see :meth:`sample`; names the batch first (``seeds[2][0]``), and is
                raised before the first batch of its group is handed out.
        """
        call_key = 0 if keys is not None else self._number(None)
        calls = align_batches(seeds, keys, call_key, seed_time=seed_time, exclude=exclude)
        batches = itertools.starmap(self.prepare, calls)
        return map(self.finish, self.engine.draw_many(batches))

    def prepare(
        self,
        seeds: Nodes,
        key: int | None = None,
        seed_time: Nodes | None = None,
        exclude: Edges | None = None,
        place: str = "",
    ) -> native.NativeBatch:
        """Check the arguments of :meth:`sample` and return them for the ``engine``.

        ``place`` identifies one of several calls in messages: ``"[2]"`` is the third.
        """
        draws, ids = self._draws, self._read_seeds(seeds, place)
        times = None if seed_time is None else self._read_times(seed_time, place)
        left_out = None
        if exclude is not None:
            option = f"exclude{place}"
            left_out = draws.without_edges(self._read_edges(exclude, option), option)
        number = self._number(key)
        return draws.prepare(ids, number, seed_time=times, exclude=left_out, place=place)


def as_window(window: Any) -> float | int | None:
    """Return the width of a time window, checked, or None."""
    if window is None:
        return None
    numbers = (int, float, np.integer, np.floating)
    if isinstance(window, (bool, np.timedelta64)) or not isinstance(window, numbers):
        raise InvalidArgumentError(
            "window must be a number, in the unit of the graph's times if they have one, got "
            f"{type(window).__name__}"
        )
    if not window >= 0:
        raise InvalidArgumentError(f"window = {window} is not at least 0")
    return int(window) if isinstance(window, (int, np.integer)) else float(window)
