"""SubgraphLoader: seeds -> sample -> gather -> Batch, for any framework or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph._checks.arrays import as_count, as_integer
from aethergraph._checks.options import as_choice, as_flag, as_items, as_iterator, shown
from aethergraph._parallel.prefetch import PrefetchIterator
from aethergraph._tracepoints import stage
from aethergraph.errors import InvalidArgumentError, LimitError, OutOfRangeError
from aethergraph.features.gathering import gather_rows
from aethergraph.graph.hetero import EdgeType
from aethergraph.graph.schema import EDGE, NODE, Schema
from aethergraph.loading.batch import Batch, HeteroBatch
from aethergraph.loading.buffers import pool_of
from aethergraph.loading.columns import Column, edge_columns, node_columns
from aethergraph.loading.epoch import Batches, Delivery
from aethergraph.loading.feature_sources import FeatureSources
from aethergraph.loading.options import Ahead, Order, as_ahead, as_order
from aethergraph.loading.pipeline import (
    Draw,
    DrawAlone,
    DrawGroups,
    Views,
    choose_plans,
    run_stages,
)
from aethergraph.loading.profiled import Profiled
from aethergraph.loading.resume import Resumable
from aethergraph.loading.seeds import Seeds
from aethergraph.loading.state import Told, describe, describe_sampler
from aethergraph.protocols import (
    AnyGraph,
    GatherPlan,
    HeterogeneousGraph,
    HomogeneousGraph,
    Sampler,
)
from aethergraph.sampling._misuse import not_a_graph
from aethergraph.sampling.base import SubgraphType
from aethergraph.sampling.checked import check_sample
from aethergraph.sampling.engine import as_two_step
from aethergraph.sampling.hetero import HeteroNeighborSampler
from aethergraph.sampling.keys import mix_key
from aethergraph.sampling.neighbor import NeighborSampler
from aethergraph.sampling.two_step import Steps

__all__ = ["SubgraphLoader"]

G = TypeVar("G", bound=AnyGraph, covariant=True)
R = TypeVar("R")
Ids = NDArray[np.int64]
Names: TypeAlias = Iterable[str]
Fanouts: TypeAlias = Mapping[EdgeType, Sequence[int] | NDArray[Any]] | Sequence[int] | NDArray[Any]
Plans = dict[int, GatherPlan]  # by number of the column, those of edges behind those of nodes
#: Functions of users behind a stage of the pipeline, by its name.
Stages: TypeAlias = Mapping[Literal["draw", "fetch"], Callable[[Any], Any]]
_FLOAT32 = np.dtype(np.float32)
#: Most batches that are asked for by their numbers in one call.
_MOST_NUMBERS = 1 << 20


class Drawn(NamedTuple):
    """Sample of a batch.

    Attributes:
        positions: places of the seeds among all of them.
        subgraph: the sample.
    """

    positions: Ids
    subgraph: Any


class SubgraphLoader(Resumable, Profiled, Generic[G]):
    """Loader of mini-batches; sampling and gathering run ahead in background threads.

    ::

        loader = SubgraphLoader(graph, [15, 10], train_ids, batch_size=1024, shuffle=True)
        for batch in loader:
            step(batch.x, batch.edge_index, batch.y[: batch.batch_size])

    The order and the content of the batches depend only on ``seed``, the epoch and the arguments,
    not on threads. Each ``iter(loader)`` is the next epoch; :meth:`set_epoch` chooses one, and
    :meth:`state_dict` keeps a place within one.

    For a graph with ``storage="uring"`` several batches are sampled at once, as many as its
    ``memory_budget`` allows.

    Args:
        graph: a graph that stores in-neighbours, a ``Graph``, a ``HeteroGraph``, or one of yours by
            :func:`aethergraph.as_graph`; batches carry its attributes. Those of a typed graph are
            :class:`HeteroBatch`, of any other :class:`Batch`.
        fanouts: as in :class:`NeighborSampler`, of a typed graph as in
            :class:`HeteroNeighborSampler`; or None, with ``sampler``.
        seeds: node ids, or a boolean mask over the nodes; None takes every node. Of a typed graph
            any of these by node type: a batch has ``batch_size`` of all of them.
        batch_size: seeds per batch.
        shuffle: use a new order of the seeds in each epoch.
        drop_last: leave out a last batch that is smaller.
        seed: decides order and samples.
        replace: as in :class:`NeighborSampler`.
        disjoint: as in :class:`NeighborSampler`.
        subgraph_type: as in :class:`NeighborSampler`.
        node_attrs: names of node attributes to gather, of a typed graph also by node type; None
            takes all. bfloat16 becomes float32.
        edge_attrs: names of edge attributes to gather, of a typed graph also by edge type; None
            takes all. bfloat16 becomes float32.
        feature_source: where ``x`` comes from instead of the graph: the address of a server
            (:func:`aethergraph.remote.open_source`), a source of rows, or an array; or a dict of
            such by name. Of a typed graph any of these by node type.
        ahead: how far batches are made ahead of the loop, and by how many threads: a number of
            batches, or :class:`Ahead`. 0 does everything in the caller's thread.
        sampler: what samples, instead of a :class:`NeighborSampler` of ``fanouts``: one with
            weights, times or threads, or any other :class:`aethergraph.protocols.Sampler` of the
            graph's nodes. It is called as ``sample(seeds, key)``, from background threads unless
            ``ahead`` is 0. Samplers of this package sample several batches at once where
            that pays.
        seed_time: with a ``sampler`` that goes by time, the latest time that each of ``seeds`` may
            see, of a typed graph by node type; it is passed on as ``seed_time``. None: the
            sampler's own default.
        order: the share of this process among several, seeds of few partitions in each batch, or,
            of a graph that changes, one commit for each epoch: :class:`Order`. None: all batches
            come, in one order.
        stages: functions of yours in the pipeline: ``{"draw": f}``: ``f(subgraph)`` returns the
            sample whose rows are fetched, a new ``Subgraph`` (``dataclasses.replace``), with the
            seeds still first; it is checked. ``{"fetch": f}``: ``f(batch)`` returns what comes out.
            They run ahead in the background threads, as many calls at a time. A function that
            changes arrays in place is safe: they are of one batch.

    Raises:
        InvalidArgumentError: an argument is invalid; both or neither of ``fanouts`` and ``sampler``
            are given; or options of sampling beside a ``sampler``, which has its own.
        OutOfRangeError: one of ``seeds`` is no node. Of a graph that changes, its batch raises it.
    """

    def __init__(
        self,
        graph: G,
        fanouts: Fanouts | None = None,
        seeds: ArrayLike | Mapping[str, ArrayLike | None] | None = None,
        *,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int = 0,
        replace: bool = False,
        disjoint: bool = False,
        subgraph_type: SubgraphType = "directional",
        node_attrs: Names | Mapping[str, Names] | None = None,
        edge_attrs: Names | Mapping[EdgeType, Names] | None = None,
        feature_source: FeatureSources | None = None,
        ahead: Ahead | int = 2,
        sampler: Any = None,
        seed_time: ArrayLike | Mapping[str, ArrayLike] | None = None,
        order: Order | None = None,
        stages: Stages | None = None,
    ) -> None:
        if as_count(batch_size, "batch_size") < 1:
            raise InvalidArgumentError(f"batch_size = {batch_size} is not at least 1")
        if not isinstance(graph, AnyGraph):
            raise not_a_graph(graph, "Graph or HeteroGraph", "NeighborSampler")
        self.graph: G = graph
        options = {"replace": replace, "disjoint": disjoint, "subgraph_type": subgraph_type}
        self.sampler = _as_sampler(graph, fanouts, sampler, options)
        #: Whether the sampler is of somebody else, whose samples are checked.
        self._is_foreign = as_two_step(self.sampler) is None
        if sampler is None and seed_time is not None:
            raise InvalidArgumentError("seed_time needs a sampler with time_attr")
        self._schema = Schema(graph)
        self._seeds = Seeds(self._schema, seeds, seed_time)
        self.batch_size = int(batch_size)
        self.shuffle = as_flag(shuffle, "shuffle")
        self.drop_last = as_flag(drop_last, "drop_last")
        self.seed = as_integer(seed, "seed")
        self.ahead = as_ahead(ahead)
        self.stages = _as_stages(stages)
        #: Memory of the attributes; all loaders of the graph share it, and it goes with the graph.
        self.buffers = pool_of(graph)
        self._node_columns = node_columns(self._schema, node_attrs, feature_source)
        self._edge_columns = edge_columns(self._schema, edge_attrs)
        self.order = order = as_order(order)
        self.snapshot = order.snapshot
        self._own_share = order.share()
        self._batches = Batches(
            len(self._seeds), self.batch_size, self.shuffle, self.drop_last, order.partitions,
            order.mix,
        )  # fmt: skip

    @property
    def seeds(self) -> Any:
        """Ids of the seeds, int64; of a typed graph by node type."""
        return self._seeds.ids if self.graph.is_typed else self._seeds.ids[NODE]

    @property
    def seed_time(self) -> Any:
        """Times of the seeds, of a typed graph by node type; None: the sampler's own default."""
        times = self._seeds.times
        return (times or None) if self.graph.is_typed else times.get(NODE)

    def __len__(self) -> int:
        return self._share.count(self._batches.total)

    def set_epoch(self, epoch: int) -> None:
        """Make the next ``iter`` epoch number ``epoch``, from where a state said to go on."""
        self._set_next_epoch(as_count(epoch, "epoch"))

    @property
    def _total(self) -> int:
        return self._batches.total

    def _tell_arrays(self) -> dict[str, Any]:
        return {**self._seeds.described(), **self._batches.aligned}

    def _tell_options(self) -> Told:
        names = ("batch_size", "shuffle", "drop_last", "seed", "snapshot")
        options = {name: describe(getattr(self, name)) for name in names}
        return {"loader": type(self).__name__, **options, **describe_sampler(self.sampler)}

    @property
    def _told_graph(self) -> Any:
        return self.graph

    @overload
    def __iter__(self: SubgraphLoader[HomogeneousGraph]) -> Iterator[Batch]: ...
    @overload
    def __iter__(self: SubgraphLoader[HeterogeneousGraph]) -> Iterator[HeteroBatch]: ...

    def __iter__(self) -> Iterator[Any]:
        at = self._pin()
        position = self._begin()
        self._note_commit(at)
        return Delivery(self._run(position.epoch, position.numbers(), at), position)

    def _pin(self) -> Any:
        """Return the graph at the commit of all batches of an epoch; None: each has its own."""
        return self.graph.pinned() if self.snapshot == "epoch" else None

    @overload
    def batches_at(
        self: SubgraphLoader[HomogeneousGraph], epoch: int, numbers: Iterable[int]
    ) -> Iterator[Batch]: ...
    @overload
    def batches_at(
        self: SubgraphLoader[HeterogeneousGraph], epoch: int, numbers: Iterable[int]
    ) -> Iterator[HeteroBatch]: ...

    def batches_at(self, epoch: int, numbers: Iterable[int]) -> Iterator[Any]:
        """Return batches of an epoch by their numbers, which may come from any rank and twice.

        The place of :meth:`state_dict` stays where it is.

        Args:
            epoch: number of the epoch.
            numbers: numbers of batches, below that of all ranks' batches of an epoch.

        Raises:
            OutOfRangeError: a number that no batch has; at once.
            LimitError: more than 2^20 numbers.
        """
        some = islice(as_iterator(numbers, "numbers"), _MOST_NUMBERS + 1)
        chosen = [as_integer(number, "numbers") for number in some]
        if len(chosen) > _MOST_NUMBERS:
            raise LimitError(f"numbers has more than {_MOST_NUMBERS} items: give some at a time")
        for at, number in enumerate(chosen):
            if not 0 <= number < self._total:
                raise OutOfRangeError(
                    f"numbers[{at}] = {number} is not in 0..{self._total - 1}",
                    position=at, value=number,
                )  # fmt: skip
        return self._run(as_integer(epoch, "epoch"), iter(chosen), self._pin())

    def _run(self, epoch: int, numbers: Iterator[int], at: Any) -> PrefetchIterator[Any, Any]:
        """Return the batches ``numbers`` of an epoch, made ahead, in the view of :meth:`_pin`."""
        order = self._batches.order(mix_key(self.seed, epoch))

        def sample(number: int) -> Drawn:
            index = self._batches.index(order, number)
            return self._drawn(index, self._sample(index, mix_key(self.seed, epoch, number)))

        def steps(number: int) -> Steps:
            assert two_step is not None
            index = self._batches.index(order, number)
            batch = self._draw(two_step.prepare, index, mix_key(self.seed, epoch, number))
            return self._drawn(index, two_step.finish((yield batch)))

        two_step = as_two_step(self.sampler)
        groups = None if two_step is None else two_step.engine.groups
        sources = [column.rows for column in (*self._node_columns, *self._edge_columns)]
        rows = choose_plans(sources, self.ahead.plan, groups, self.batch_size)
        draw: Draw[int, Drawn]
        if two_step is None or groups is None:
            # What users wrote is called in one thread at a time.
            helping = two_step is not None and not self.stages
            draw = DrawAlone(sample, self.ahead.num_threads, helping)
        else:
            draw = DrawGroups(steps, groups, self.batch_size, rows.columns, self.ahead.num_threads)
        return run_stages(
            numbers, draw, self._fetch, views=Views(self.graph, at), rows=rows,
            plan=lambda drawn: {
                i: source.plan([self._ids(sample.subgraph, i) for sample in drawn])
                for i, source in rows.sources
            },
            num_threads=self.ahead.num_threads, depth=max(1, self.ahead.batches),
        )  # fmt: skip

    @overload
    def collate(self: SubgraphLoader[HomogeneousGraph], index: Ids, key: int) -> Batch: ...
    @overload
    def collate(self: SubgraphLoader[HeterogeneousGraph], index: Ids, key: int) -> HeteroBatch: ...

    def collate(self, index: Ids, key: int) -> Any:
        """Return the batch of the seeds at positions ``index``, drawn with ``key``."""
        with stage("batch"), self.graph.reading():
            return self._fetch(self._drawn(index, self._sample(index, key)))

    def _drawn(self, index: Ids, subgraph: Any) -> Drawn:
        stage_of_user, maker = self.stages.get("draw"), "sampler"
        if stage_of_user is not None:
            subgraph, maker = stage_of_user(subgraph), "stages['draw']"
        if stage_of_user is not None or self._is_foreign:
            seeds, _ = self._seeds.arguments(index)
            by_type = seeds if self.graph.is_typed else {NODE: seeds}
            check_sample(subgraph, self._schema, by_type, maker)
        return Drawn(index, subgraph)

    def _sample(self, index: Ids, key: int) -> Any:
        with stage("sample"):
            return self._draw(self.sampler.sample, index, key)

    def _draw(self, call: Callable[..., R], index: Ids, key: int) -> R:
        """Return ``call`` of the seeds at positions ``index``, and of their times if any."""
        seeds, times = self._seeds.arguments(index)
        return call(seeds, key) if times is None else call(seeds, key, seed_time=times)

    def _ids(self, subgraph: Any, number: int) -> Ids:
        """Return the ids of a sample that column ``number`` has rows of, edges behind nodes."""
        of_edges = number - len(self._node_columns)
        column = self._node_columns[number] if of_edges < 0 else self._edge_columns[of_edges]
        ids: Any = subgraph.node if of_edges < 0 else subgraph.edge
        of_column: Ids = ids[column.kind] if self.graph.is_typed else ids
        return of_column

    def _fetch(self, drawn: Drawn, plans: Plans | None = None) -> Any:
        batch = self._assemble(*drawn, plans)
        stage_of_user = self.stages.get("fetch")
        if stage_of_user is None:
            return batch
        result = stage_of_user(batch)
        if result is None:
            raise InvalidArgumentError("stages['fetch'] returned None: return the batch")
        return result

    def _assemble(self, index: Ids, subgraph: Any, plans: Plans | None) -> Any:
        def gather(number: int, column: Column) -> NDArray[Any]:
            rows, ids = column.rows, self._ids(subgraph, number)
            dtype = _FLOAT32 if rows.dtype_name == "bfloat16" else rows.array_dtype
            # Of others they may be numpy's numbers, which the compiled pool does not take.
            out = self.buffers.lend((ids.shape[0], *map(int, rows.row_shape)), dtype)
            plan = None if plans is None else plans.get(number)
            with stage("gather", column.name, rows):
                return gather_rows(rows, ids, out) if plan is None else plan.gather(ids, out)

        nodes: dict[Any, dict[str, NDArray[Any]]] = {NODE: {}}
        edges: dict[Any, dict[str, NDArray[Any]]] = {EDGE: {}}
        if self.graph.is_typed:
            nodes, edges = {}, {}
        for number, column in enumerate(self._node_columns):
            nodes.setdefault(column.kind, {})[column.name] = gather(number, column)
        for number, column in enumerate(self._edge_columns, len(self._node_columns)):
            edges.setdefault(column.kind, {})[column.name] = gather(number, column)
        seeds, _ = self._seeds.arguments(index)
        if self.graph.is_typed:
            return HeteroBatch(subgraph, seeds, self._seeds.split(index), nodes, edges)
        return Batch(subgraph, seeds, index, nodes[NODE], edges[EDGE])


def _as_sampler(graph: AnyGraph, fanouts: Any, sampler: Any, options: dict[str, Any]) -> Any:
    """Return the sampler that was given, or one of ``fanouts`` and ``options``."""
    if sampler is None:
        if fanouts is None:
            raise InvalidArgumentError("fanouts or sampler is needed: give fanouts=[15, 10]")
        if graph.is_typed:
            return HeteroNeighborSampler(graph, fanouts, **options)
        return NeighborSampler(graph, fanouts, **options)
    if fanouts is not None:
        raise InvalidArgumentError(
            "fanouts and sampler exclude each other: the sampler has its own"
        )
    if not isinstance(sampler, Sampler):
        raise InvalidArgumentError(
            f"sampler must have a method sample(seeds, key), got {type(sampler).__name__}"
        )
    for name, value in options.items():
        if not (value is False or (isinstance(value, str) and value == "directional")):
            raise InvalidArgumentError(
                f"{name} = {shown(value)} goes without sampler: give it to the sampler"
            )
    return sampler


def _as_stages(stages: Any) -> dict[Any, Callable[[Any], Any]]:
    """Return functions by the name of the stage that they follow."""
    chosen = {} if stages is None else dict(as_items(stages, "stages", "functions"))
    for name, function in chosen.items():
        as_choice(name, ("draw", "fetch"), "stages")
        if not callable(function):
            raise InvalidArgumentError(
                f"stages[{name!r}] must be a function, got {type(function).__name__}"
            )
    return chosen
